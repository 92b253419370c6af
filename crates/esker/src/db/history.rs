//! The oldest readable timestamp of a family with user-defined timestamps.
//!
//! Source: RocksDB `DBImpl::IncreaseFullHistoryTsLow`.

use super::{ColumnFamilyHandle, Db};
use crate::engine::{UnderWay, maybe_schedule, publish_super_version};
use crate::version::LogOptions;
use esker_base::{Error, Result};
use esker_format::version_edit::VersionEdit;

impl Db {
    /// Refuses reads of `family` at timestamps before `ts_low` from now on. Compactions drop
    /// versions that only those reads could find.
    /// # Errors
    /// `InvalidArgument`: the family has no timestamps, or `ts_low` has another size or is older
    /// than the bound in force · `NotSupported` when read-only · `ColumnFamilyDropped` · the
    /// background error in force · `IoError` from the MANIFEST.
    pub fn increase_full_history_ts_low(&self, family: &ColumnFamilyHandle, ts_low: &[u8]) -> Result<()> {
        let engine = self.engine();
        engine.check_writable()?;
        let _under_way = UnderWay::begin(engine)?;
        self.check_has_timestamps(family)?;
        if ts_low.len() != family.cf.icmp.timestamp_size() {
            return Err(Error::invalid_argument("ts_low size mismatch"));
        }
        let mut manifest = engine.manifest.lock();
        family.check_live(self)?;
        {
            let state = engine.state.lock();
            state.background_error.check_writes()?;
            let in_force = state.families.get(&family.id()).map(|f| f.version.full_history_ts_low().to_vec());
            let icmp = &family.cf.icmp;
            if in_force.is_some_and(|in_force| icmp.compare_timestamps(ts_low, &in_force).is_lt()) {
                return Err(Error::invalid_argument("full_history_ts_low in force is higher than ts_low"));
            }
        }
        let edit = VersionEdit {
            column_family: family.id(),
            full_history_ts_low: Some(ts_low.to_vec()),
            ..VersionEdit::default()
        };
        let versions = manifest.log_and_apply(vec![edit], LogOptions::default())?;
        engine.prepare_versions(&versions);
        let mut state = engine.state.lock();
        for (id, version) in versions {
            if let Some(family) = state.family_mut(id) {
                family.version = version;
            }
            publish_super_version(engine, &mut state, id);
        }
        // Compactions that drop history below the new bound may be due.
        maybe_schedule(engine, &mut state);
        drop(state);
        drop(manifest);
        engine.release_super_versions();
        Ok(())
    }

    /// The oldest timestamp at which `family` can be read; empty if there is no bound.
    /// # Errors
    /// `InvalidArgument` if the family has no timestamps.
    pub fn full_history_ts_low(&self, family: &ColumnFamilyHandle) -> Result<Vec<u8>> {
        self.check_has_timestamps(family)?;
        Ok(family.cf.super_version.load_full().version.full_history_ts_low().to_vec())
    }

    fn check_has_timestamps(&self, family: &ColumnFamilyHandle) -> Result<()> {
        match family.cf.icmp.timestamp_size() {
            0 => Err(Error::invalid_argument("Timestamp is not enabled in this column family")),
            _ => Ok(()),
        }
    }
}
