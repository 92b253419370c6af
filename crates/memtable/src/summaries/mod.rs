//! Summaries that each node keeps of the entries below it, so that readers can skip them.
//!
//! In: writes into leaves. Out: two summaries a node, read without a lock. [`deleted`]: the
//! snapshots whose readers see no key below the node. [`covered`]: the range tombstones over it.
//!
//! Both change under the node's latch only; a node that splits hands its summary on. Each errs to
//! one side only. `deleted` never hides a key that the reader sees. `covered` never misses a
//! tombstone that covers a key.

pub(crate) mod covered;
pub(crate) mod deleted;
