//! Scans: a family's keys in order, as of one point in time.
//!
//! In: the super version of a family, a sequence number, bounds. Out: cursors over user keys.
//!
//! Reading order: [`iterator`] (the cursor that the user holds; `iterator/runs.rs` has its sorted
//! runs), [`db_iter`] (internal keys to user keys at one sequence number), [`timestamped`] (the
//! same for keys with user-defined timestamps), [`versions`] (all versions between two timestamps),
//! `entries` (a range as a standard iterator), `multi_scan` (several ranges, one after the other),
//! `own_writes` (writes of a transaction on top).

pub(crate) mod db_iter;
pub(crate) mod entries;
pub(crate) mod iterator;
mod multi_scan;
mod own_writes;
pub(crate) mod timestamped;
pub(crate) mod versions;

pub(crate) use db_iter::{DbIter, DbIterOptions, KeepAlive};
pub use entries::{Entries, EntryCursor, KeyRange, KeyValue};
pub use iterator::DbIterator;
pub use multi_scan::{MultiScan, Scan};
pub(crate) use own_writes::{check_plain, iter_over};
