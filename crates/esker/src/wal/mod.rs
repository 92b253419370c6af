//! Write-ahead logs: appended before a write is acknowledged, replayed at open, archived or deleted
//! once tables hold their entries.
//!
//! Reading order: `manager` (the WALs of a database), `old` (WALs that no family needs), `budget`
//! (memory of a replay), `source` (a WAL being read), `predecessor` (the link to the WAL before
//! it), `section` (prepared transactions in records), `two_phase` (the same in WALs), `changes`
//! (records as committed changes), `follow` (the WALs of a primary).

mod budget;
mod changes;
mod follow;
mod manager;
mod old;
mod predecessor;
mod section;
mod source;
mod two_phase;

pub(crate) use budget::{ReplayBudget, largest_half};
pub(crate) use changes::{CommittedChanges, other_policy};
pub(crate) use follow::{FollowedWal, FollowedWals};
pub(crate) use manager::{WalEnd, WalOptions, Wals};
pub(crate) use old::{ArchivedWal, OldWals};
pub(crate) use predecessor::Predecessor;
pub(crate) use section::{
    PreparedTransaction, SectionsAgain, early_section, section_record, section_record_again,
};
pub(crate) use source::{BoundedWal, TailSource, WalReader, open_wal, open_wal_of_owner};
pub(crate) use two_phase::{
    CustomOrders, KeyWrites, OpNumbers, PreparedSections, SectionOp, TwoPhaseReplay, UnresolvedTransaction,
    custom_order, family_and_key, key_of, numbers_by_batch, stamped,
};
