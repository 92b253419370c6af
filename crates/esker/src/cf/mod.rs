//! Column families: their parts, and the one value that readers load.
//!
//! Reading order: `column_family` (constant parts, and the state under the db mutex), `memtables`,
//! `super_version` (the value that readers load), `set` (families by id and name), `write_stall`,
//! `idle_cursors` (cursors for the next iterator), `own_writes` (writes of a transaction).

mod column_family;
mod idle_cursors;
mod memtables;
mod own_writes;
mod set;
mod super_version;
mod write_stall;

pub(crate) use column_family::{ColumnFamily, FailedFlush, FamilyState};
pub(crate) use idle_cursors::IdleCursors;
pub(crate) use memtables::{MemTableLimits, MemTables};
pub(crate) use own_writes::{OwnRuns, OwnWrites};
pub(crate) use set::ColumnFamilySet;
pub(crate) use super_version::SuperVersion;
pub(crate) use write_stall::{StallInputs, WriteStall, is_pressed};
