//! Gets of a traced database.
//!
//! In: a get. Out: its record, if queries are traced; and its name for the accesses to blocks that
//! it makes, if those are.

use super::batch::Keys;
use crate::cf::ColumnFamily;
use crate::instance::DbInner;
use crate::options::ReadOptions;
use crate::trace::Query;
use esker_base::{Result, ValueType};
use esker_format::trace::TableReaderCaller;
use esker_table::trace::{CallerScope, CallingGet, called_by};

impl DbInner {
    /// Traces the get of a key, until the result is dropped.
    /// # Errors
    /// Those of `check_family`.
    #[cold]
    pub(super) fn trace_get(
        &self,
        cf: &ColumnFamily,
        options: &ReadOptions,
        key: &[u8],
    ) -> Result<Option<CallerScope>> {
        self.check_traced_family(cf)?;
        self.engine.traces.add(|| Query::Get { family: cf.id, key });
        Ok(self.calling(TableReaderCaller::UserGet, cf, options, key))
    }

    /// Traces the get of a batch. Accesses to blocks name its first key.
    #[cold]
    pub(super) fn trace_multi_get(&self, options: &ReadOptions, keys: &impl Keys) -> Option<CallerScope> {
        let all = || (0..keys.len()).map(|i| (keys.family(i).id, keys.key(i))).collect();
        self.engine.traces.add(|| Query::MultiGet(all()));
        self.calling(TableReaderCaller::UserMultiGet, keys.family(0), options, keys.key(0))
    }

    fn calling(
        &self,
        caller: TableReaderCaller,
        cf: &ColumnFamily,
        options: &ReadOptions,
        key: &[u8],
    ) -> Option<CallerScope> {
        let tracer = cf.tables.tracer();
        if !tracer.is_on() {
            return None;
        }
        let trailer = self.read_sequence(options).0 << 8 | u64::from(ValueType::Value as u8);
        let get = CallingGet {
            id: tracer.next_get(),
            at_snapshot: options.snapshot.is_some(),
            key: [key, &trailer.to_le_bytes()].concat(),
        };
        Some(called_by(caller, Some(get)))
    }
}
