//! Cursors that count their steps, for explained scans.
//!
//! Invariant: a watched cursor behaves as the cursor inside it.

use crate::cf::SuperVersion;
use crate::observe::{ReadSource, RunRead};
use crate::scan::iterator::{RunWatch, WatchedRun};
use esker_base::perf_context::PerfContext;
use esker_base::sync::{Arc, Mutex};
use esker_base::{PinnedBytes, SequenceNumber};
use esker_env::Clock;
use esker_format::cursor::{
    InternalIterator, KnownDeletedRun, ScanIterator, SkipDistance, forward_cursor, plain_cursor,
};

/// Counts of one cursor.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    seeks: u64,
    steps: u64,
    cached_blocks: u64,
    blocks_read: u64,
    bytes_read: u64,
    nanos: u64,
}

/// Counts of all cursors, in the order of their creation.
#[derive(Debug)]
pub(super) struct Watch {
    clock: Arc<dyn Clock>,
    counts: Mutex<Vec<(WatchedRun, Counts)>>,
}

impl Watch {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Arc<Watch> {
        Arc::new(Watch { clock, counts: Mutex::new(Vec::new()) })
    }

    fn add(&self, what: WatchedRun, more: Counts) {
        let mut all = self.counts.lock();
        let at = all.iter().position(|(other, _)| *other == what).unwrap_or_else(|| {
            all.push((what, Counts::default()));
            all.len() - 1
        });
        let counts = &mut all[at].1;
        counts.seeks += more.seeks;
        counts.steps += more.steps;
        counts.cached_blocks += more.cached_blocks;
        counts.blocks_read += more.blocks_read;
        counts.bytes_read += more.bytes_read;
        counts.nanos += more.nanos;
    }

    /// The opened memtables and files of the super version, newest first, and those not opened,
    /// with the reason.
    pub(super) fn results(
        &self,
        super_version: &SuperVersion,
    ) -> (Vec<RunRead>, Vec<(ReadSource, &'static str)>) {
        let all = self.counts.lock();
        let (mut runs, mut left_out) = (Vec::new(), Vec::new());
        let mut add = |what: WatchedRun, source: ReadSource, why| {
            let Some((_, counts)) = all.iter().find(|(other, _)| *other == what) else {
                return left_out.push((source, why));
            };
            let Counts { seeks, steps, cached_blocks, blocks_read, bytes_read, nanos } = *counts;
            runs.push(RunRead { source, seeks, steps, cached_blocks, blocks_read, bytes_read, nanos });
        };
        for mem in super_version.memtables() {
            let (id, is_immutable, entries) = (mem.id(), mem.is_immutable(), mem.num_entries());
            let source = ReadSource::Memtable { id, is_immutable, entries };
            add(WatchedRun::Memtable(id), source, "it holds nothing that the scan may see");
        }
        for (level, file) in super_version.version.all_files() {
            let source = ReadSource::File { level, number: file.number, bytes: file.data().file_size };
            let why = match level {
                0 => "outside of the scan's bounds",
                _ => "the scan did not get there",
            };
            add(WatchedRun::File(file.number), source, why);
        }
        (runs, left_out)
    }
}

impl RunWatch for Watch {
    /// Counts the work of `iter` as this run's.
    fn over(self: Arc<Self>, what: WatchedRun, iter: Box<dyn ScanIterator>) -> Box<dyn ScanIterator> {
        self.add(what, Counts::default());
        Box::new(WatchedIter { iter, what, watch: self })
    }
}

struct WatchedIter {
    iter: Box<dyn ScanIterator>,
    what: WatchedRun,
    watch: Arc<Watch>,
}

impl WatchedIter {
    fn count<R>(&mut self, counts: Counts, step: impl FnOnce(&mut dyn ScanIterator) -> R) -> R {
        let counting = Counting::begin(&self.watch);
        let result = step(&mut *self.iter);
        counting.end(&self.watch, self.what, counts);
        result
    }

    /// Counts a call that does not move the cursor.
    fn look<'i, R>(&'i self, look: impl FnOnce(&'i dyn ScanIterator) -> R) -> R {
        let counting = Counting::begin(&self.watch);
        let result = look(&*self.iter);
        counting.end(&self.watch, self.what, Counts::default());
        result
    }
}

/// The state before a step.
struct Counting {
    before: PerfContext,
    start: u64,
}

impl Counting {
    fn begin(watch: &Watch) -> Counting {
        Counting { before: PerfContext::current(), start: watch.clock.monotonic_nanos() }
    }

    fn end(self, watch: &Watch, what: WatchedRun, counts: Counts) {
        let nanos = watch.clock.monotonic_nanos().saturating_sub(self.start);
        let (before, after) = (self.before, PerfContext::current());
        let counts = Counts {
            cached_blocks: after.block_cache_hit_count - before.block_cache_hit_count,
            blocks_read: after.block_read_count - before.block_read_count,
            bytes_read: after.block_read_byte - before.block_read_byte,
            nanos,
            ..counts
        };
        watch.add(what, counts);
    }
}

const SEEK: Counts = Counts { seeks: 1, steps: 0, cached_blocks: 0, blocks_read: 0, bytes_read: 0, nanos: 0 };
const STEP: Counts = Counts { seeks: 0, steps: 1, ..SEEK };

impl InternalIterator for WatchedIter {
    forward_cursor!(self => self.iter; valid, key, value, status);

    fn seek_to_first(&mut self) {
        self.count(SEEK, |iter| iter.seek_to_first());
    }
    fn seek_to_last(&mut self) {
        self.count(SEEK, |iter| iter.seek_to_last());
    }
    fn seek(&mut self, target: &[u8]) {
        self.count(SEEK, |iter| iter.seek(target));
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        self.count(SEEK, |iter| iter.seek_for_prev(target));
    }
    fn next(&mut self) {
        self.count(STEP, |iter| iter.next());
    }
    fn prev(&mut self) {
        self.count(STEP, |iter| iter.prev());
    }
    fn pinned_value(&self) -> PinnedBytes {
        self.look(|iter| iter.pinned_value())
    }
}

impl ScanIterator for WatchedIter {
    forward_cursor!(self => self.iter; set_upper_bound, set_wanted_prefix_of, progress, continue_from, release);
    // This cursor gives no decoded runs, so that each step is a counted call.
    plain_cursor!(self; next_key, prev_key, prev_key_leaving, left_value, pinned_left_value, look_ahead,
        advance, pass);

    fn deleted_run_end(&self, snapshot: SequenceNumber, forward: bool) -> Option<&[u8]> {
        self.look(|iter| iter.deleted_run_end(snapshot, forward))
    }
    fn was_seen(&self, known: &KnownDeletedRun<'_>, forward: bool) -> bool {
        self.look(|iter| iter.was_seen(known, forward))
    }
    fn skip_deleted_run(
        &mut self,
        snapshot: SequenceNumber,
        forward: bool,
        known: Option<&KnownDeletedRun<'_>>,
    ) -> SkipDistance {
        self.count(Counts::default(), |iter| iter.skip_deleted_run(snapshot, forward, known))
    }
}
