//! A cursor over a sorted vector: a substitute for memtables and tables in tests.
//!
//! Counts its steps and seeks, so that tests can show that a scan does not crawl.

use esker_base::sync::Arc;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::{Error, FileNumber, PinnedBytes, Result, SequenceNumber};
use esker_format::block::cut_run;
use esker_format::cursor::{
    DecodeAhead, DecodedRun, InternalIterator, KnownDeletedRun, LeftValue, RunEntry, ScanIterator,
    ScanProgress, plain_cursor,
};
use esker_format::deleted_runs::DeletedRuns;
use esker_format::key::{self, InternalKeyComparator};

/// Sorted internal keys with their values.
pub(crate) type Entries = Arc<Vec<(Vec<u8>, Vec<u8>)>>;

/// Count of the moves of cursors over one run.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    pub(crate) steps: AtomicU64,
    pub(crate) seeks: AtomicU64,
}

/// A cursor over `entries`; fails with `fail` when it steps onto that index.
#[derive(Debug)]
pub(crate) struct VecIter {
    icmp: InternalKeyComparator,
    entries: Entries,
    index: usize,
    /// Index of the entry whose value is lent.
    left: Option<usize>,
    moves: Arc<Moves>,
    fail_at: Option<usize>,
    failed: bool,
    /// The deleted runs of the simulated table.
    deleted_runs: Option<Arc<DeletedRuns>>,
    /// The number of that table; 0 for a memtable.
    number: FileNumber,
    /// Whether `was_seen` may answer yes.
    knows_age: bool,
    progress: ScanProgress,
}

impl VecIter {
    pub(crate) fn new(icmp: &InternalKeyComparator, entries: Entries) -> VecIter {
        debug_assert!(entries.is_sorted_by(|a, b| icmp.compare(&a.0, &b.0).is_le()));
        let index = entries.len();
        VecIter {
            icmp: icmp.clone(),
            entries,
            index,
            left: None,
            moves: Arc::default(),
            fail_at: None,
            failed: false,
            deleted_runs: None,
            number: FileNumber(0),
            knows_age: false,
            progress: ScanProgress::default(),
        }
    }

    /// Stands for file `number` with these deleted runs, or for a memtable.
    pub(crate) fn skipping(mut self, number: FileNumber, deleted_runs: Option<Arc<DeletedRuns>>) -> VecIter {
        (self.number, self.deleted_runs, self.knows_age) = (number, deleted_runs, true);
        self
    }

    /// Counts into `moves`.
    pub(crate) fn counting(mut self, moves: &Arc<Moves>) -> VecIter {
        self.moves = Arc::clone(moves);
        self
    }

    /// Fails at entry `index`.
    pub(crate) fn failing_at(mut self, index: usize) -> VecIter {
        self.fail_at = Some(index);
        self
    }

    fn seek_to(&mut self, index: usize) {
        self.moves.seeks.fetch_add(1, Ordering::Relaxed);
        self.failed = false;
        self.move_to(index);
    }

    fn move_to(&mut self, index: usize) {
        self.left = None;
        self.index = index;
        if self.fail_at == Some(index) {
            self.failed = true;
        }
    }
}

impl InternalIterator for VecIter {
    plain_cursor!(self; pinned_value);

    fn valid(&self) -> bool {
        !self.failed && self.index < self.entries.len()
    }
    fn seek_to_first(&mut self) {
        self.seek_to(0);
    }
    fn seek_to_last(&mut self) {
        self.seek_to(self.entries.len().wrapping_sub(1));
    }
    fn seek(&mut self, target: &[u8]) {
        let index = self.entries.partition_point(|e| self.icmp.compare(&e.0, target).is_lt());
        self.seek_to(index);
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        let index = self.entries.partition_point(|e| self.icmp.compare(&e.0, target).is_le());
        self.seek_to(index.wrapping_sub(1));
    }
    fn next(&mut self) {
        assert!(self.valid(), "next() on an invalid cursor");
        self.moves.steps.fetch_add(1, Ordering::Relaxed);
        self.move_to(self.index + 1);
    }
    fn prev(&mut self) {
        assert!(self.valid(), "prev() on an invalid cursor");
        self.moves.steps.fetch_add(1, Ordering::Relaxed);
        self.move_to(self.index.wrapping_sub(1));
    }
    fn key(&self) -> &[u8] {
        &self.entries[self.index].0
    }
    fn value(&self) -> &[u8] {
        &self.entries[self.index].1
    }
    fn status(&self) -> Result<()> {
        if self.failed { Err(Error::corruption("injected")) } else { Ok(()) }
    }
}

impl ScanIterator for VecIter {
    plain_cursor!(self; next_key, prev_key, pinned_left_value, set_upper_bound, set_wanted_prefix_of,
        release, skip_deleted_run);

    fn progress(&self) -> ScanProgress {
        self.progress
    }
    fn continue_from(&mut self, progress: ScanProgress) {
        self.progress = progress;
    }
    fn prev_key_leaving(&mut self, left: &mut LeftValue) -> Option<&[u8]> {
        let here = self.index;
        self.prev();
        self.left = Some(here);
        left.lend();
        self.valid().then(|| self.key())
    }
    fn left_value(&self) -> &[u8] {
        &self.entries[self.left.expect("the last move has lent the value")].1
    }
    /// Treats five entries as a block. Decodes no run with the entry that the cursor fails on.
    fn look_ahead(&mut self, run: &mut DecodedRun, ahead: &DecodeAhead<'_>) {
        run.clear();
        let start = self.index - self.index % 5;
        let end = (start + 5).min(self.entries.len());
        let within = if ahead.forward { self.index..end } else { start..self.index + 1 };
        if self.fail_at.is_some_and(|at| within.contains(&at)) {
            return;
        }
        let (keys, places) = run.room(within.len());
        keys.clear();
        let mut block = Vec::new();
        let offset = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a test has fewer than 4 GiB");
        for ((i, place), (internal_key, value)) in
            within.clone().zip(places).zip(&self.entries[within.clone()])
        {
            let (key, key_len, from) = (offset(keys), offset(internal_key), offset(&block));
            keys.extend_from_slice(internal_key);
            block.extend_from_slice(value);
            *place = RunEntry {
                packed: key::trailer(internal_key),
                entry: u32::try_from(i).expect("a test has fewer than 4 GiB"),
                key,
                key_len,
                value: from,
                value_end: offset(&block),
                ..RunEntry::default()
            };
        }
        run.set_count(within.len());
        let before = start.checked_sub(1).map(|before| key::user_key(&self.entries[before].0));
        let is_first_alone = !ahead.forward
            && before.is_some_and(|before| {
                !self.icmp.same_user_key(before, key::user_key(&self.entries[start].0))
            });
        cut_run(run, ahead, &self.icmp, None, is_first_alone);
        run.set_block(PinnedBytes::from_vec(block));
    }
    fn advance(&mut self, run: &DecodedRun) {
        self.index = run.entries()[run.at()].entry as usize;
    }
    fn pass(&mut self, run: &mut DecodedRun, ahead: &DecodeAhead<'_>) {
        let place = if ahead.forward { run.end() - 1 } else { run.first() };
        let last = run.entries()[place].entry as usize;
        self.moves.steps.fetch_add(1, Ordering::Relaxed);
        self.move_to(if ahead.forward { last + 1 } else { last.wrapping_sub(1) });
        run.clear();
        if self.valid() {
            self.look_ahead(run, ahead);
        }
    }
    fn deleted_run_end(&self, snapshot: SequenceNumber, forward: bool) -> Option<&[u8]> {
        let span = self.deleted_runs.as_ref()?.find(key::user_key(self.key()), &self.icmp)?;
        (span.sequence <= snapshot).then_some(if forward { span.last } else { span.first })
    }
    fn was_seen(&self, known: &KnownDeletedRun<'_>, _forward: bool) -> bool {
        let largest = self.entries.iter().map(|e| key::trailer(&e.0) >> 8).max().unwrap_or(0);
        self.knows_age && self.number <= known.newest_file && largest <= known.sequence.0
    }
}
