//! Scans: from one order of internal keys to what the user sees.
//!
//! Reading order: [`db_iter`] (user keys at one sequence number), [`timestamped`] (the same of keys
//! with user-defined timestamps), [`versions`] (all versions between two timestamps).

pub(crate) mod db_iter;
pub(crate) mod timestamped;
pub(crate) mod versions;

pub(crate) use db_iter::{DbIter, DbIterOptions, DeadRangesOfView, KeepAlive};
