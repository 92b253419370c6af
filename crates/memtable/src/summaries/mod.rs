//! Summaries of the entries below each node. Readers that use them skip deleted runs, and skip
//! searches for range tombstones.
//!
//! In: writes into leaves. Out: two summaries for each node, which readers use without a lock.
//! [`deleted`] names the snapshots whose readers see no key below the node. [`covered`] names the
//! range tombstones that cover keys below the node.
//!
//! Only the holder of a node's latch changes the node's summaries. A split copies them to the new
//! node. Summaries may be imprecise in one direction. `deleted` never hides a key that the reader
//! sees. `covered` never misses a tombstone that covers a key.

pub(crate) mod covered;
pub(crate) mod deleted;
