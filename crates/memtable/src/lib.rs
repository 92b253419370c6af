//! The memtable: a sorted map in memory.
//!
//! Writes of a column family gather here until they are flushed to a table: many threads insert at
//! once, readers never wait. Public items are shared between Esker's crates and promise nothing to
//! others.
//!
//! Reading order: [`memtable`] (the interface), `record` (one entry's bytes), `arena` (the memory),
//! `node` (one node, and how readers and a writer share it), `tree` (nodes on nodes), `summaries`
//! (what nodes say of deleted runs and range tombstones), `deletion_sample` (a sample of its
//! deletions), `filter` (keys that are certainly not there), [`iter`], `range_dels`, `checks` (an
//! entry is still what was added). `docs/design/0001-memtable.md` says why it is a B+-tree, and why
//! it has these leaves.
#![warn(missing_docs)]

mod arena;
mod checks;
mod deletion_sample;
mod filter;
pub mod iter;
pub mod memtable;
mod node;
mod range_dels;
mod record;
mod summaries;
mod tree;

pub use checks::Checks;
pub use deletion_sample::{SampledDeletions, Take};
pub use filter::MemTableFilterOptions;
pub use iter::MemTableIter;
pub use memtable::{MemTable, MemTableOptions, MemValue, MemoryBudget, Seen};
