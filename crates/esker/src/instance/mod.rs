//! The open database that all handles, iterators and snapshots share, until the last of them is
//! gone.
//!
//! In: an engine and its write path, made by `db/open.rs`. Out: facts for reads (the current
//! sequence number, whether a family or a snapshot belongs to this database); recovery from errors,
//! deletion of files, and the close.
//!
//! Reading order: this file, [`close`], `purge` (deletes obsolete files), `resume` and
//! `auto_resume` (after a background error), `options_file` (OPTIONS follows each change).

mod auto_resume;
mod close;
mod options_file;
mod purge;
mod resume;

pub(crate) use auto_resume::enable_auto_resume;
pub(crate) use close::ReleaseAll;
pub(crate) use purge::{
    disable_file_deletions, enable_file_deletions, purge_directory, settle_and, settle_and_purge,
};

use crate::cf::{ColumnFamily, SuperVersion};
use crate::engine::{Engine, PREPARED, PinnedSuperVersions, ROWS, SAMPLED, TRACKED};
use crate::options::{ReadOptions, ReadTier};
use crate::snapshot::{CommitTable, Holder, Snapshot, SnapshotOwner, Ticket, UnseenSections};
use crate::trace::TRACED;
use crate::write::WritePath;
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, Result, SequenceNumber};
use std::any::Any;
use std::fmt;

/// State that all handles share. Its drop closes the database. It has a cache line of its own: each
/// iterator and snapshot changes its counts, and every read and write loads the values behind it.
#[repr(align(128))]
pub(crate) struct DbInner {
    pub(crate) engine: Arc<Engine>,
    pub(crate) write_path: Arc<WritePath>,
    /// Dropped last, after all other fields.
    pub(crate) _last: ReleaseAll,
}

impl fmt::Debug for DbInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.engine.fmt(f)
    }
}

impl SnapshotOwner for DbInner {
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn release_snapshot(&self, ticket: Ticket) {
        let engine = &self.engine;
        if !engine.owner.is_here() {
            return;
        }
        let oldest = engine.snapshots.release(ticket, || engine.visible_sequence());
        if let Some(commits) = &engine.commits {
            commits.released(&engine.snapshots, oldest, || engine.visible_sequence());
        }
        // As in RocksDB, the end of an iterator does not start compactions.
        if ticket.is_of_user() {
            engine.snapshot_released(oldest);
        }
    }
}

impl DbInner {
    /// A snapshot of the present state, for `holder`.
    pub(crate) fn hold_now(self: &Arc<Self>, holder: Holder) -> Snapshot {
        let engine = &self.engine;
        if !engine.owner.is_here() {
            // Every read with this snapshot fails.
            return Snapshot::new(
                engine.visible_sequence(),
                Ticket::NONE,
                self.clone() as Arc<dyn SnapshotOwner>,
            );
        }
        let take = || {
            engine.snapshots.acquire(|| engine.visible_sequence(), holder, || engine.env.clock.now_seconds())
        };
        let owner = self.clone() as Arc<dyn SnapshotOwner>;
        if engine.secondary.is_none() {
            let (sequence, ticket) = take();
            return Snapshot::new(sequence, ticket, owner);
        }
        // A catch-up publishes under this lock.
        let state = engine.state.lock();
        let (sequence, ticket) = take();
        let pinned: PinnedSuperVersions =
            state.families.iter().map(|(id, family)| (*id, family.cf.pinned_super_version())).collect();
        drop(state);
        Snapshot::with_pinned(sequence, ticket, owner, Box::new(pinned))
    }

    /// A snapshot of one family of a secondary, for an iterator.
    #[cold]
    pub(crate) fn hold_family(self: &Arc<Self>, cf: &ColumnFamily) -> Snapshot {
        let engine = &self.engine;
        let owner = self.clone() as Arc<dyn SnapshotOwner>;
        let state = engine.state.lock();
        let pinned = PinnedSuperVersions::from([(cf.id, cf.pinned_super_version())]);
        let (sequence, ticket) = engine.snapshots.acquire(
            || engine.visible_sequence(),
            Holder::Iterator,
            || engine.env.clock.now_seconds(),
        );
        drop(state);
        Snapshot::with_pinned(sequence, ticket, owner, Box::new(pinned))
    }

    /// The super version that a snapshot of a secondary reads; `None`: the current one.
    #[inline]
    pub(crate) fn super_version_at(
        &self,
        snapshot: &Snapshot,
        cf: &ColumnFamily,
    ) -> Option<Arc<SuperVersion>> {
        let pinned = snapshot.pinned()?.downcast_ref::<PinnedSuperVersions>()?;
        pinned.get(&cf.id).cloned()
    }

    /// Whether a read must not see the memtables, because they may hold entries that no WAL has.
    #[inline]
    pub(crate) fn reads_files_only(&self, options: &ReadOptions) -> bool {
        options.read_tier == ReadTier::Persisted && self.engine.has_unlogged_data.load(Ordering::Acquire)
    }

    /// Checks that the snapshot is this database's.
    /// # Errors
    /// `InvalidArgument` if it is a snapshot of another database.
    #[inline]
    pub(crate) fn check_own(&self, snapshot: &Snapshot) -> Result<()> {
        if snapshot.belongs_to(self) {
            return Ok(());
        }
        Err(Error::invalid_argument("the snapshot is one of another database"))
    }

    /// Checks that the family is this database's, and that the database may be read.
    /// # Errors
    /// `InvalidArgument` if it is a family of another database · `ShutdownInProgress` after the
    /// close · `NotSupported` in a forked child.
    #[inline]
    pub(crate) fn check_family(&self, cf: &ColumnFamily) -> Result<()> {
        if cf.database != self.engine.open_tag.load(Ordering::Relaxed) {
            return self.check_traced_family(cf);
        }
        self.engine.check_process()
    }

    /// Whether reads are traced, tracked or sampled, or look up commits or rows, or `check_family`
    /// fails.
    #[inline]
    pub(crate) fn may_be_traced(&self, cf: &ColumnFamily) -> bool {
        cf.database != self.engine.open_tag.load(Ordering::Relaxed)
    }

    /// `check_family` while reads are traced, tracked or sampled, look up commits or rows, or when
    /// it fails.
    #[cold]
    pub(crate) fn check_traced_family(&self, cf: &ColumnFamily) -> Result<()> {
        let open_tag = self.engine.open_tag.load(Ordering::Relaxed);
        if cf.database != open_tag & !(TRACED | PREPARED | ROWS | TRACKED | SAMPLED) {
            return Err(no_such_family(&self.engine, cf));
        }
        self.engine.check_process()
    }

    /// The newest sequence number that a read sees. Load the super version before calling it.
    #[inline]
    pub(crate) fn read_sequence(&self, options: &ReadOptions) -> SequenceNumber {
        options.snapshot.as_ref().map_or_else(|| self.engine.visible_sequence(), Snapshot::sequence)
    }

    /// A super version of `cf`, the sequence number of a read, and what the read does not see, in a
    /// database with a commit table.
    /// # Errors
    /// `InvalidArgument` if the snapshot is one of another database.
    #[cold]
    pub(crate) fn prepared_read_point(
        &self,
        cf: &ColumnFamily,
        options: &ReadOptions,
        commits: &CommitTable,
    ) -> Result<(Arc<SuperVersion>, SequenceNumber, Option<UnseenSections>)> {
        if let Some(snapshot) = &options.snapshot {
            self.check_own(snapshot)?;
            let sequence = snapshot.sequence();
            return Ok((cf.pinned_super_version(), sequence, commits.at(sequence)));
        }
        Ok(commits.read_point(&cf.super_version, || self.engine.visible_sequence()))
    }

    /// The sections that a reader at `sequence` does not see. `sequence` is the number of
    /// a live snapshot. `None`: nothing.
    #[inline]
    pub(crate) fn unseen_sections(&self, sequence: SequenceNumber) -> Option<UnseenSections> {
        self.engine.commits.as_ref()?.at(sequence)
    }

    /// A super version of `cf` and the sequence number of the read: that of `held` if given, else
    /// the one of the options. The super version has every entry visible at that number.
    pub(crate) fn pinned_read_point(
        &self,
        cf: &ColumnFamily,
        options: &ReadOptions,
        held: Option<&Snapshot>,
    ) -> (Arc<SuperVersion>, SequenceNumber) {
        if let Some(snapshot) = held.or(options.snapshot.as_ref()) {
            if let Some(super_version) = self.super_version_at(snapshot, cf) {
                return (super_version, snapshot.sequence());
            }
            // All super versions since the number was taken have every entry that is visible at it.
            return (cf.pinned_super_version(), snapshot.sequence());
        }
        // On a secondary, super versions and the sequence number change together under this lock: a
        // newer version may lack entries that an older number sees.
        let _published = self.engine.secondary.as_ref().map(|_| self.engine.state.lock());
        loop {
            let super_version = cf.pinned_super_version();
            esker_base::probe!("read_point:super_version");
            let sequence = self.read_sequence(options);
            // If the family has another super version by now, its memtable may have entries that
            // are visible at the number.
            if cf.super_version.holds(&super_version) {
                return (super_version, sequence);
            }
        }
    }
}

#[cold]
fn no_such_family(engine: &Engine, cf: &ColumnFamily) -> Error {
    if cf.database == engine.tag {
        return Error::shutdown_in_progress("the database was closed");
    }
    foreign_family(&cf.name)
}

#[cold]
fn foreign_family(name: &str) -> Error {
    Error::invalid_argument(format!(
        "column family '{name}' is one of another database, or of an earlier opening"
    ))
}
