//! esker-lock: who waits for whom.
//!
//! Locks on keys and ranges of keys, shared and exclusive, by many lockers (transactions) over many
//! column families, first come first served. Knows keys as bytes and a comparator, and nothing of
//! transactions, files or threads.
//!
//! Reading order: [`cut`](crate::Endpoint) (places between keys), `fragment` (what is locked),
//! `wait` (who waits, and who is before whom), `leaf` (both, behind one latch), `directory` (which
//! leaf), `family` (requests and releases), [`Locker`] (what a transaction does), `deadlock`,
//! `escalate`, [`LockManager`] (families, and what there is to see).
//!
//! Why it is made this way, and what was measured: `docs/design/0003-range-locks.md`.
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

pub use cut::{Endpoint, EndpointBuf, Place};
pub use deadlock::{DeadlockInfo, DeadlockPath};
pub use family::Family;
pub use locker::{Canceller, Locker};
pub use manager::{Counters, EscalationBarrier, LockInfo, LockManager, WaitInfo};
pub use options::{Clock, FamilyOptions, LockManagerOptions, LockMode, LockerOptions, Locking, Timeout};

#[cfg(test)]
mod tests;
