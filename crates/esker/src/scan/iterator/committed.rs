//! Runs without the entries of transactions that a scan does not see as committed.
//!
//! In: the cursors over the memtables and files of a super version, and the sections that the scan
//! does not see.
//! Out: the same cursors without the hidden entries. The entries are removed below the merge, so
//! that everything above takes the rest for all there is.
//!
//! Cost: a scan with hidden entries steps entry by entry, without decoded runs, and compares each
//! number with those of the sections. Other scans have no such wrapper.

use super::watch::{RunWatch, WatchedRun};
use super::{DbIterator, Runs, db_iter_options, new_db_iter};
use crate::cf::{ColumnFamily, SuperVersion};
use crate::options::ReadOptions;
use crate::scan::{DbIter, KeepAlive};
use crate::snapshot::{OwnNumbers, Snapshot, UnseenSections};
use esker_base::stats::Statistics;
use esker_base::sync::Arc;
use esker_base::{Result, SequenceNumber};
use esker_format::cursor::{InternalIterator, ScanIterator, forward_cursor, plain_cursor};
use esker_format::key::ParsedInternalKey;

impl DbIterator {
    /// [`DbIterator::refresh_runs`] in a database with a commit table: with cursors of its own,
    /// since other transactions are committed there.
    #[cold]
    pub(super) fn refresh_committed(
        &mut self,
        super_version: &Arc<SuperVersion>,
        sequence: SequenceNumber,
        held: Option<Snapshot>,
    ) -> Result<()> {
        let statistics = self.db.engine.options.statistics.clone();
        let options = self.opening_options();
        let iter = match self.db.unseen_sections(sequence) {
            None => new_db_iter(&self.cf, super_version, options, sequence, statistics)?,
            Some(unseen) => new_committed_iter(&self.cf, super_version, options, unseen, statistics)?,
        };
        *self.plain() = iter;
        self.held = held;
        Ok(())
    }
}

/// All sorted runs of a super version as one cursor, newest first, without the entries that
/// `unseen` hides.
pub(crate) fn internal_iterator(
    cf: &ColumnFamily,
    super_version: &Arc<SuperVersion>,
    options: &ReadOptions,
    sequence: SequenceNumber,
    unseen: Option<UnseenSections>,
) -> Result<Box<dyn ScanIterator>> {
    Ok(Box::new(match unseen {
        None => Runs::new(cf, super_version, options, sequence)?,
        Some(unseen) => committed_runs(cf, super_version, options, unseen)?,
    }))
}

/// A cursor over the keys of a family without the entries that `unseen` hides. It stays at its
/// super version, and neither knows deleted runs nor finds them for others.
/// # Errors
/// Those of opening files of level 0.
pub(super) fn new_committed_iter(
    cf: &ColumnFamily,
    super_version: &Arc<SuperVersion>,
    options: &ReadOptions,
    unseen: UnseenSections,
    statistics: Option<Arc<Statistics>>,
) -> Result<DbIter<Runs>> {
    let sequence = unseen.sequence();
    let iter = committed_runs(cf, super_version, options, unseen)?;
    let iter_options = db_iter_options(cf, super_version, options, sequence, statistics);
    Ok(DbIter::new(cf.icmp.clone(), iter, iter_options, Some(super_version.clone() as KeepAlive)))
}

/// The runs of a super version without the entries that `unseen` hides.
/// # Errors
/// Those of opening files of level 0.
pub(super) fn committed_runs(
    cf: &ColumnFamily,
    super_version: &Arc<SuperVersion>,
    options: &ReadOptions,
    unseen: UnseenSections,
) -> Result<Runs> {
    let sequence = unseen.sequence();
    let hiding = Arc::new(CommittedRuns::new(unseen)) as Arc<dyn RunWatch>;
    Runs::watched(cf, super_version, options, sequence, (&hiding, None))
}

/// Wraps every cursor of a scan in a [`Committed`].
#[derive(Clone)]
pub(super) struct CommittedRuns {
    unseen: Option<UnseenSections>,
    /// For scans of a transaction with writes in the database: their numbers, and the number up to
    /// which the scan sees other entries.
    own: Option<(OwnNumbers, SequenceNumber)>,
}

impl CommittedRuns {
    /// Without the entries that `unseen` hides.
    pub(super) fn new(unseen: UnseenSections) -> CommittedRuns {
        CommittedRuns { unseen: Some(unseen), own: None }
    }

    /// With the entries of `own`, and those up to `sequence` that `unseen` does not hide.
    pub(super) fn with_own(
        unseen: Option<UnseenSections>,
        own: OwnNumbers,
        sequence: SequenceNumber,
    ) -> CommittedRuns {
        CommittedRuns { unseen, own: Some((own, sequence)) }
    }

    fn hides(&self, sequence: SequenceNumber) -> bool {
        let is_beyond = match &self.own {
            Some((own, _)) if own.contains(sequence) => return false,
            Some((_, newest)) => sequence > *newest,
            None => false,
        };
        is_beyond || self.unseen.as_ref().is_some_and(|unseen| unseen.hides(sequence))
    }
}

impl RunWatch for CommittedRuns {
    fn over(self: Arc<Self>, _what: WatchedRun, iter: Box<dyn ScanIterator>) -> Box<dyn ScanIterator> {
        Box::new(Committed { iter, shown: (*self).clone() })
    }
}

/// A cursor that passes over hidden entries.
struct Committed {
    iter: Box<dyn ScanIterator>,
    shown: CommittedRuns,
}

impl Committed {
    fn is_hidden(&self) -> bool {
        // A malformed key is shown, so that the reader above reports it.
        self.iter.valid()
            && ParsedInternalKey::parse(self.iter.key()).is_ok_and(|key| self.shown.hides(key.sequence))
    }

    fn forward(&mut self) {
        while self.is_hidden() {
            self.iter.next();
        }
    }

    fn backward(&mut self) {
        while self.is_hidden() {
            self.iter.prev();
        }
    }
}

impl InternalIterator for Committed {
    forward_cursor!(self => self.iter; valid, key, value, pinned_value, status);

    fn seek_to_first(&mut self) {
        self.iter.seek_to_first();
        self.forward();
    }
    fn seek_to_last(&mut self) {
        self.iter.seek_to_last();
        self.backward();
    }
    fn seek(&mut self, target: &[u8]) {
        self.iter.seek(target);
        self.forward();
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        self.iter.seek_for_prev(target);
        self.backward();
    }
    fn next(&mut self) {
        self.iter.next();
        self.forward();
    }
    fn prev(&mut self) {
        self.iter.prev();
        self.backward();
    }
}

impl ScanIterator for Committed {
    forward_cursor!(self => self.iter; set_upper_bound, set_wanted_prefix_of, progress, continue_from, release);
    // Decoded entries ahead could be hidden ones, so this cursor decodes none.
    plain_cursor!(self; next_key, prev_key, prev_key_leaving, left_value, pinned_left_value, look_ahead,
        advance, pass, deleted_run_end, was_seen, skip_deleted_run);
}
