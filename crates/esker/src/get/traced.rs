//! Gets of a traced database, and of one that shows its reads in the list of threads.
//!
//! In: a get. Out: its record, if queries are traced; its name for the accesses to blocks that it
//! makes, if those are; the status of its thread, with `enable_thread_tracking`.

use super::batch::Keys;
use crate::cf::ColumnFamily;
use crate::instance::DbInner;
use crate::options::ReadOptions;
use crate::trace::Query;
use esker_base::{Result, ValueType};
use esker_env::thread_status::{OperationScope, OperationType};
use esker_format::trace::TableReaderCaller;
use esker_table::trace::{CallerScope, CallingGet, called_by};

/// The scopes of a get: the caller of its accesses to blocks, and the status of its thread.
pub(super) type GetScopes = Box<(Option<CallerScope>, Option<OperationScope>)>;

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
        entities: bool,
    ) -> Result<Option<GetScopes>> {
        self.check_traced_family(cf)?;
        self.engine.trace_query(|| Query::Get { family: cf.id, key });
        let operation = if entities { OperationType::GetEntity } else { OperationType::Get };
        let status = self.engine.track(operation, Some(cf), || [0; 6]);
        Ok(scopes(self.calling(TableReaderCaller::UserGet, cf, options, key), status))
    }

    /// Traces the get of a batch. Accesses to blocks name its first key.
    #[cold]
    pub(super) fn trace_multi_get(
        &self,
        options: &ReadOptions,
        keys: &impl Keys,
        entities: bool,
    ) -> Option<GetScopes> {
        let all = || (0..keys.len()).map(|i| (keys.family(i).id, keys.key(i))).collect();
        self.engine.trace_query(|| Query::MultiGet(all()));
        let operation = if entities { OperationType::MultiGetEntity } else { OperationType::MultiGet };
        let family = keys.family(0);
        let status = self.engine.track(operation, Some(family), || [0; 6]);
        scopes(self.calling(TableReaderCaller::UserMultiGet, family, options, keys.key(0)), status)
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

fn scopes(calls: Option<CallerScope>, status: Option<OperationScope>) -> Option<GetScopes> {
    (calls.is_some() || status.is_some()).then(|| Box::new((calls, status)))
}
