//! Locks on keys and ranges of keys, for transactions.
//!
//! A locker takes the shared and exclusive locks of one transaction, in any number of column
//! families. Requests are granted in order of arrival, with the exceptions in `wait.rs`. This crate
//! knows keys as bytes in a comparator's order. It has no transactions, files or threads.
//!
//! Reading order: [`cut`](crate::Endpoint) (positions between keys), `fragment` (held locks),
//! `wait` (waiting requests and their order), `leaf` (locks and requests of a key range, behind one
//! latch), `directory` (finds the leaf of a key), `family` (requests and releases), [`Locker`] (the
//! locks of one transaction), `deadlock`, `escalate`, [`LockManager`] (families, dumps and
//! counters).
//!
//! The design and its measurements: `docs/design/0003-range-locks.md`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cut;
mod deadlock;
mod directory;
mod escalate;
mod family;
mod fragment;
mod key;
mod leaf;
mod locker;
mod log;
mod manager;
mod options;
mod owner;
mod wait;

pub use esker_base::ColumnFamilyId;

pub use cut::{CutPosition, Endpoint, EndpointBuf};
pub use deadlock::{DeadlockInfo, DeadlockPath};
pub use family::LockFamily;
pub use locker::{Canceller, Locker};
pub use manager::{EscalationBarrier, LockCounters, LockInfo, LockManager, WaitInfo};
pub use options::{FamilyOptions, LockClock, LockManagerOptions, LockMode, LockerOptions, Locking, Timeout};

#[cfg(test)]
mod tests;
