//! The memtable: a sorted map in memory.
//!
//! Writes of a column family gather here until they are flushed to a table: many threads insert at
//! once, readers never wait. Public items are for Esker's own crates and may change at any time.
//!
//! Reading order: [`memtable`] (the interface), `record` (one entry's bytes), `arena` (the memory),
//! `node` (one node, and how readers and a writer share it), `tree` (nodes on nodes), `summaries`
//! (facts about deleted runs and range tombstones, in each node), `deletion_sample` (a sample of
//! its deletions), `filter` (a Bloom filter over keys), [`iter`], `range_dels`, `checks` (checksums
//! of entries). `docs/design/0001-memtable.md` says why it is a B+-tree, and why it has these
//! leaves.
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
