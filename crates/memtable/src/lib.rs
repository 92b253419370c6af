//! The memtable: a sorted map in memory.
//!
//! It takes the writes of a column family until a flush writes them to a table. Many threads insert
//! at once, and readers never wait. Public items are for Esker's crates and may change without
//! notice.
//!
//! Reading order: [`memtable`] (the interface), `record` (one entry's bytes), `arena` (the memory),
//! `node` (one node, and how readers and a writer share it), `tree` (the B+-tree of nodes),
//! `summaries` (facts about deleted runs and range tombstones, in each node), `deletion_sample`
//! (some deletions, for pre-scans), `filter` (a Bloom filter over keys), [`iter`] (the cursor),
//! `range_dels` (range tombstones), `checks` (checksums of entries). `docs/design/0001-memtable.md`
//! gives the reasons for a B+-tree and for the layout of its leaves.
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
pub use memtable::{MemTable, MemTableOptions, MemValue, MemoryBudget, ReadState};
