//! Summaries of the entries below each node. Readers that use them skip deleted runs, and skip
//! searches for range tombstones.
//!
//! In: inserts into leaves, and range tombstones. Out: two summaries for each node, which readers
//! use without a lock. [`deleted`] names the snapshots whose readers see no key below the node.
//! [`covered`] names the newest range tombstone that covers all keys of an inner node, or reaches
//! into a leaf.
//!
//! Only the holder of a node's latch changes the node's summaries. There is one exception: the
//! holder of the left neighbour's latch lowers `head_since`. A node that is split off starts with
//! the old node's summaries, as far as they hold for it.
//!
//! Summaries may be imprecise in one direction. `deleted` never hides a key that the reader sees.
//! On the path to a key, `covered` never misses the newest tombstone that covers the key.

pub(crate) mod covered;
pub(crate) mod deleted;
