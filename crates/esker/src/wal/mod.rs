//! Write-ahead logs: appended before a write is acknowledged, replayed at open, deleted once tables
//! hold their entries.
//!
//! Reading order: `manager` (the WALs of a database), `budget` (memory of a replay), `source` (a
//! WAL being read), `predecessor` (the link to the WAL before it), `two_phase` (prepared
//! transactions in WALs), `follow` (the WALs of a primary).

mod budget;
mod follow;
mod manager;
mod predecessor;
mod source;
mod two_phase;

pub(crate) use budget::{ReplayBudget, largest_half};
pub(crate) use follow::{FollowedWal, FollowedWals};
pub(crate) use manager::{WalOptions, Wals};
pub(crate) use predecessor::Predecessor;
pub(crate) use source::{TailSource, WalReader, open_wal};
pub(crate) use two_phase::{
    PreparedSections, PreparedTransaction, TwoPhaseReplay, section_record, section_record_again, stamped,
};
