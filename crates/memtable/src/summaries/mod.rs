//! Summaries that each node keeps of what lies below it, so that readers need not look.
//!
//! In: writes into leaves. Out: two summaries a node, read without a lock: which readers find
//! nothing below it ([`deleted`]), and which range tombstones cover it ([`covered`]).
//!
//! Both change under the node's latch only, and a node that splits hands its summary on. A reader
//! may rely on each in one direction: `deleted` never calls a node deleted that shows the reader a
//! key,
//! `covered` never misses a tombstone that covers one.

pub(crate) mod covered;
pub(crate) mod deleted;
