//! The parts of an engine that follows a primary: another process owns the files, and this process
//! catches up with it on request (`db/catch_up.rs`).
//!
//! Invariants
//!  1. A memtable of a [`FollowedFamily`] holds entries of one WAL. When tables have a WAL's
//!     entries, its memtables are dropped, so that no entry is in both: a merge operand would count
//!     twice.
//!  2. A memtable that a super version has gets later entries only while the family's version stays
//!     the same. So a super version never shows a part of a later point in time.

use super::rank;
use crate::cf::{ColumnFamily, SuperVersion};
use crate::options::ColumnFamilyOptions;
use crate::version::{FamilyMap, FileMeta};
use crate::wal::FollowedWals;
use esker_base::sync::atomic::AtomicBool;
use esker_base::sync::{Arc, Mutex, RankedMutex};
use esker_base::{ColumnFamilyId, Error, FileNumber};
use esker_env::timer::Repeating;
use esker_memtable::MemTable;
use std::collections::{BTreeMap, BTreeSet};

/// The super versions that a snapshot of a secondary reads: a later catch-up installs versions
/// without the entries that only this snapshot sees.
pub(crate) type PinnedSuperVersions = BTreeMap<ColumnFamilyId, Arc<SuperVersion>>;

/// The state of a secondary.
pub(crate) struct Secondary {
    /// The progress; locked during a catch-up.
    pub(crate) follower: RankedMutex<PrimaryFollower>,
    /// Whether `path` holds links to the primary's files (`files/on_demand.rs`): the database was
    /// opened as a follower.
    pub(crate) has_links: AtomicBool,
    /// When a follower catches up next.
    pub(crate) refresh: Mutex<Refresh>,
}

/// The state of a follower between two attempts to catch up.
#[derive(Default)]
pub(crate) enum Refresh {
    /// No attempt is planned, or one is queued or runs.
    #[default]
    Idle,
    /// The timer will queue the next attempt.
    Waits(#[expect(dead_code, reason = "its drop ends the wait")] Repeating),
    /// The database closes: no attempt begins.
    Ended,
}

impl Secondary {
    /// A secondary that has replayed nothing yet.
    pub(crate) fn new(follower: PrimaryFollower) -> Secondary {
        Secondary {
            follower: RankedMutex::new(rank::CATCH_UP, follower),
            has_links: AtomicBool::new(false),
            refresh: Mutex::default(),
        }
    }

    /// Ends the attempts of a follower, but for one that runs.
    pub(crate) fn end_refresh(&self) {
        let old = std::mem::replace(&mut *self.refresh.lock(), Refresh::Ended);
        // The drop of a timer waits for its call, which may want the lock.
        drop(old);
    }
}

/// The progress of a secondary that follows its primary.
pub(crate) struct PrimaryFollower {
    pub(crate) wals: FollowedWals,
    pub(crate) families: FamilyMap<FollowedFamily>,
    /// Families whose memtables or versions readers do not see yet.
    pub(crate) changed: BTreeSet<ColumnFamilyId>,
    /// Families that the primary has dropped and that readers still see.
    pub(crate) dropped: Vec<ColumnFamilyId>,
    /// New tables that are not held open yet.
    pub(crate) unheld: Vec<(ColumnFamilyId, Arc<FileMeta>)>,
    /// Whether a replay ended early: memtables hold a part of it, and the next replay begins again.
    pub(crate) is_spoiled: bool,
}

/// A memtable, and the WAL that holds all of its entries.
#[derive(Clone, Debug)]
pub(crate) struct FollowedMemTable {
    pub(crate) mem: Arc<MemTable>,
    pub(crate) wal: FileNumber,
}

/// One family of a follower.
pub(crate) struct FollowedFamily {
    pub(crate) cf: Arc<ColumnFamily>,
    pub(crate) options: Arc<ColumnFamilyOptions>,
    /// WALs below this hold nothing for the family.
    pub(crate) log_number: FileNumber,
    /// The error if the WALs' operands belong to another merge operator than the family's; `None`:
    /// they fit.
    pub(crate) foreign_operands: Option<Error>,
    /// The memtable that takes later entries.
    pub(crate) active: FollowedMemTable,
    /// Older memtables whose entries tables do not have yet, oldest first.
    pub(crate) sealed: Vec<FollowedMemTable>,
    /// Whether no super version has `active`.
    pub(crate) is_fresh: bool,
    /// Whether this catch-up installs another version.
    pub(crate) has_new_version: bool,
    pub(crate) next_memtable_id: u64,
}
