//! The public face of an open database: [`Db`] and its column families.
//!
//! In: the user's calls. Out: calls of the rooms below: `write` for writes, `get` and `scan` for
//! reads, `flush`, `compact` and `ingest` for maintenance. No room below uses this room.
//!
//! Reading order:
//!  1. Opening: `opening`, then `open` with `open_tables`, `operands`, `recover`, `identity`,
//!     `leftovers`, `holding`, `log_header` and `jobs`. Other ways to open: `catch_up`
//!     (secondaries), `trim_history`, `open_and_compact`.
//!  2. Families: `descriptor` (name and options), `column_family` (handles).
//!  3. Reads: `reads`, `metadata_reads`, `merge_operands`, `multi_get`, `scans`, `coalescing`,
//!     `ranges`, `snapshots`, `own_writes`, `entities`, `explain`.
//!  4. Writes: `writes` with `batch_arg`, `write_callbacks` and `in_place`.
//!  5. Maintenance: `maintenance` with `clip`, `ingest`, `import`, `live_files`, `lock_wal`,
//!     `verify` and `history`; `set_options`, `option_change`, `resume`, `close`, `destroy`.
//!  6. Observation: `properties`, `aggregates`, `table_facts`, `stats_dump`, `stats_history`,
//!     `traces`, `updates` (the WAL, for users) with `changes` (a stream to follow).
//!  7. Timers: `compaction_timer` (compactions that become due with time), `recorded_times`.

mod aggregates;
pub(crate) mod batch_arg;
mod catch_up;
mod changes;
mod clip;
mod close;
mod coalescing;
mod column_family;
mod compaction_timer;
mod descriptor;
mod destroy;
mod entities;
mod explain;
mod follower;
mod history;
mod holding;
mod identity;
mod import;
mod in_place;
mod ingest;
mod jobs;
mod leftovers;
mod live_files;
mod lock_wal;
mod log_header;
mod maintenance;
mod merge_operands;
mod metadata_reads;
mod multi_get;
mod open;
mod open_and_compact;
mod open_tables;
mod opening;
mod operands;
mod option_change;
mod own_writes;
mod properties;
mod ranges;
mod reads;
mod recorded_times;
mod recover;
mod resume;
mod scans;
mod set_options;
mod snapshots;
mod stats_dump;
mod stats_history;
mod table_facts;
mod traces;
mod trim_history;
mod updates;
mod verify;
mod write_callbacks;
mod writes;

pub use aggregates::{MemoryUsageType, approximate_memory_usage_by_type};
pub use batch_arg::BatchArg;
pub use changes::{
    ChangeBatch, ChangeFamily, ChangeItem, ChangeOp, ChangePosition, ChangeStream, ChangesEnd, ChangesLag,
    ChangesOptions,
};
pub(crate) use coalescing::check_families;
pub use coalescing::{CoalescingIterator, ColumnsCursor};
pub use column_family::ColumnFamilyHandle;
pub use descriptor::ColumnFamilyDescriptor;
pub(crate) use descriptor::{family_tables, make_consistent};
pub(crate) use destroy::delete_archive;
pub use destroy::{destroy_db, destroy_db_cf};
pub use entities::{AttributeGroup, WideColumns};
pub(crate) use identity::load_or_create_identity;
pub use ingest::{FileIngestionHandle, IngestExternalFileArg};
pub(crate) use live_files::LiveCut;
pub use lock_wal::WalLock;
pub use metadata_reads::GetOutput;
pub(crate) use open_tables::table_capacity;
pub use opening::OpenMode;
pub use option_change::option_change_migration;
pub(crate) use recover::{check_for_forgotten_wal_dir, simplify_entity};
pub use scans::internal_iterator;
pub use stats_history::StatsHistoryIterator;
pub use updates::WalIterator;
pub use verify::QuarantinedTable;
pub use write_callbacks::{UserWriteCallback, WriteCallback};
pub(crate) use writes::check_timestamp;

use crate::engine::Engine;
use crate::instance::DbInner;
use esker_base::sync::Arc;
use esker_env::Env;
use std::fmt;
use std::path::Path;

/// An open database. A clone is another handle to the same database. The database closes at
/// [`Db::close`], or when its last handle, iterator and snapshot are dropped. Any thread may call
/// any method.
#[derive(Clone)]
pub struct Db {
    pub(crate) inner: Arc<DbInner>,
}

impl Db {
    /// The database's directory.
    pub fn path(&self) -> &Path {
        &self.inner.engine.path
    }

    /// The environment of the database. Use it for other files about the database, such as traces.
    pub fn env(&self) -> &Env {
        &self.inner.engine.traces.env
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.inner.engine
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Db({})", self.path().display())
    }
}
