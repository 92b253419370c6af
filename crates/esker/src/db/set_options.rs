//! Options changed while the database runs.
//!
//! In: names and texts, as in an OPTIONS file. Out: the changed options, in force for all work that
//! starts afterwards, and in a new OPTIONS file. Running jobs and open iterators keep theirs.

use super::compaction_timer::schedule_compaction_trigger;
use super::open_tables::table_capacity;
use super::recorded_times::schedule_recording;
use super::stats_dump::schedule_stats_dump;
use super::stats_history::schedule_stats_history;
use super::{ColumnFamilyHandle, Db};
use crate::engine::{Engine, UnderWay, maybe_schedule, publish_super_version, queue_flushes};
use crate::observe::FlushReason;
use crate::options::{self, ColumnFamilyOptions, DbOptions};
use crate::picker::PickerOptions;
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, Result};

impl Db {
    /// Changes options of `family`: all of `changes` or none. `block_based_table_factory` with
    /// `{name=value;…}` changes options of its tables, for tables that are written or opened
    /// afterwards.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let family = db.default_column_family();
    /// db.set_options(&family, &[("write_buffer_size", "1048576")])?;
    /// assert_eq!(db.options_cf(&family).write_buffer_size, 1 << 20);
    /// db.set_db_options(&[("max_background_jobs", "4")])?;
    /// assert_eq!(db.db_options().max_background_jobs, 4);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: names the option, which is unknown, fixed, or has no such value; nothing
    /// is changed · `ColumnFamilyDropped` · `NotSupported` when read-only · `IoError` from the
    /// OPTIONS file: the change is in force but not on disk.
    pub fn set_options(&self, family: &ColumnFamilyHandle, changes: &[(&str, &str)]) -> Result<()> {
        let engine = self.engine();
        check_changes(engine, changes)?;
        let _under_way = UnderWay::begin(engine)?;
        family.check_live(self)?;
        {
            let mut state = engine.state.lock();
            let db_options = engine.db_options();
            let Some(family_state) = state.family_mut(family.id()) else { return family.check_live(self) };
            let changed = options::set_options(&family_state.options, &db_options, changes)?;
            family_state.compaction_options = PickerOptions::from(&changed);
            family.cf.tables.set_block_protection(changed.block_protection_bytes_per_key as usize);
            family.cf.tables.set_uncache_aggressiveness(changed.uncache_aggressiveness);
            family.cf.tables.set_table_options(Arc::new(changed.table.clone()));
            family_state.options = Arc::new(changed);
            engine.update_wal_bytes_limit(&state);
            publish_super_version(engine, &mut state, family.id());
            // The memtables that wait for a flush may be enough for it now, or even enough to stop
            // writers.
            queue_flushes(engine, &mut state, &[family.id()], FlushReason::WriteBufferFull, false);
            maybe_schedule(engine, &mut state);
        }
        engine.release_super_versions();
        engine.report_stall_changes();
        if changes.iter().any(|(name, _)| matches!(*name, "ttl" | "periodic_compaction_seconds")) {
            schedule_compaction_trigger(engine);
        }
        if changes.iter().any(|(name, _)| *name == "disable_auto_compactions") {
            engine.queue_throttled();
        }
        let keeps_times = ["preserve_internal_time_seconds", "preclude_last_level_data_seconds"];
        if changes.iter().any(|(name, _)| keeps_times.contains(name)) {
            schedule_recording(engine);
        }
        for (name, value) in changes {
            esker_base::info_log!(engine.info_log, Info, "[{}] SetOptions: {name}={value}", family.name());
        }
        self.inner.options_changed(1)
    }

    /// Changes options of the database: all of `changes` or none.
    /// # Errors
    /// `InvalidArgument`: names the option, which is unknown, fixed, or has no such value; nothing
    /// was changed then · `NotSupported`: the database is read-only · `ShutdownInProgress`: the
    /// database was closed · `IoError` from the OPTIONS file: the options are in force.
    pub fn set_db_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        let engine = self.engine();
        check_changes(engine, changes)?;
        let _under_way = UnderWay::begin(engine)?;
        {
            let mut manifest = engine.manifest.lock();
            let mut state = engine.state.lock();
            let changed = Arc::new(options::set_db_options(&engine.db_options(), changes)?);
            manifest.set_manifest_limits(
                changed.max_manifest_file_size,
                changed.manifest_space_amp_pct(),
                changed.manifest_preallocation(),
            );
            engine.wals.lock().set_bytes_per_sync(changed.wal_bytes_per_sync);
            if changed.delayed_write_rate != engine.db_options().delayed_write_rate {
                engine.stall.set_max_rate(changed.delayed_write_rate);
            }
            if let Some(default) = engine.families.by_id(ColumnFamilyId::DEFAULT) {
                default.tables.open_files().set_capacity(table_capacity(&changed));
            }
            *engine.options_in_force.write() = changed;
            engine.update_wal_bytes_limit(&state);
            let limits = engine.job_limits();
            engine.scheduler.ensure_threads(limits.flushes, limits.compactions);
            maybe_schedule(engine, &mut state);
        }
        if changes.iter().any(|(name, _)| *name == "stats_dump_period_sec") {
            schedule_stats_dump(engine);
        }
        let wakes = ["stats_dump_period_sec", "max_compaction_trigger_wakeup_seconds"];
        if changes.iter().any(|(name, _)| wakes.contains(name)) {
            schedule_compaction_trigger(engine);
        }
        if changes.iter().any(|(name, _)| *name == "stats_persist_period_sec") {
            schedule_stats_history(engine, &self.inner.write_path);
        }
        for (name, value) in changes {
            esker_base::info_log!(engine.info_log, Info, "SetDBOptions: {name}={value}");
        }
        self.inner.options_changed(1)
    }

    /// The options of `family` that are in force.
    pub fn options_cf(&self, family: &ColumnFamilyHandle) -> ColumnFamilyOptions {
        family.cf.super_version.load_full().options.as_ref().clone()
    }

    /// The options of the database that are in force.
    pub fn db_options(&self) -> DbOptions {
        // A forked child may not wait for the lock.
        match self.engine().check_process() {
            Ok(()) => self.engine().db_options().as_ref().clone(),
            Err(_) => self.engine().options.clone(),
        }
    }
}

fn check_changes(engine: &Engine, changes: &[(&str, &str)]) -> Result<()> {
    engine.check_writable()?;
    if changes.is_empty() {
        return Err(Error::invalid_argument("set_options: no option is named"));
    }
    Ok(())
}
