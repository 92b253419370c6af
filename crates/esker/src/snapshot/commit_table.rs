//! The sequence numbers of transactions that are in memtables before their commit, under the write
//! policy `WritePrepared`.
//!
//! In: the numbers of each prepared section, and later the number of its commit or rollback. Out:
//! for a reader or a job at a sequence number, whether it sees an entry.
//!
//! An entry keeps the number of its section, the *prepared number* p. A commit at c gives readers
//! from c on the entry. So a reader at s sees it if c <= s. An entry whose number is not in the
//! table is an ordinary write, or a commit that every later reader sees.
//!
//! A transaction has one section, or several under `WriteUnprepared`, which are resolved together.
//! The table has one row a section: those not resolved, and those resolved at c that a live
//! snapshot in `p..c` still needs. Rows lie in chunks. A chunk is dropped once no reader needs any
//! of its rows, at a resolution or at the release of a snapshot ([`CommitTable::prune`]).
//!
//! Cost: a look-up compares with the logarithm of the rows. A prepare and a resolution write one
//! row; one in [`ROWS`] copies the list of chunks. A resolution looks at each chunk, and so does a
//! release of a snapshot that may have kept one. If one stays for snapshots alone, it copies their
//! list.
//!
//! Invariants
//!  1. Rows and chunks change under the lock of `open`. Rows are in ascending order of their
//!     numbers.
//!  2. A row is in the table before any reader's number reaches it.
//!  3. A row is resolved before the number of its resolution is published.
//!  4. A row leaves the table only after the number of its resolution was published, and only if no
//!     live snapshot lies in `first..resolved`.
//!
//! A reader without a snapshot takes the chunks, then the newest number, then checks that the
//! chunks are still the current ones ([`CommitTable::now`]). Chunks before the number: a row that
//! is gone was resolved at or below the number (4). The check: a row up to the number is there (2).

use super::LiveSnapshots;
use esker_base::SequenceNumber;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use esker_base::sync::epoch::Swap;
use esker_base::sync::{Arc, Mutex};
use std::collections::BTreeMap;

/// Rows of a chunk.
const ROWS: usize = if cfg!(loom) { 1 } else { 64 };

/// The number of a resolution that has not come.
const NOT_RESOLVED: u64 = u64::MAX;

/// The resolution of a section that was removed: its numbers are ordinary ones.
const FORGOTTEN: SequenceNumber = SequenceNumber::ZERO;

/// The numbers of one section. All but `resolved` are written once, before the row counts.
#[derive(Debug)]
struct Row {
    first: AtomicU64,
    last: AtomicU64,
    /// The number of the commit or rollback.
    resolved: AtomicU64,
}

impl Row {
    fn new() -> Row {
        let number = || AtomicU64::new(NOT_RESOLVED);
        Row { first: number(), last: number(), resolved: number() }
    }

    fn first(&self) -> SequenceNumber {
        SequenceNumber(self.first.load(Ordering::Relaxed))
    }

    fn resolved(&self) -> SequenceNumber {
        SequenceNumber(self.resolved.load(Ordering::Acquire))
    }

    /// The oldest of the `snapshots` that does not see the section, and may see newer entries.
    fn needed_by(&self, snapshots: &[SequenceNumber]) -> Option<SequenceNumber> {
        let next = snapshots.partition_point(|snapshot| *snapshot < self.first());
        snapshots.get(next).copied().filter(|snapshot| *snapshot < self.resolved())
    }

    /// Whether a reader at `visible` or later, or one of the `snapshots`, may not see the section.
    fn is_needed(&self, snapshots: &[SequenceNumber], visible: SequenceNumber) -> bool {
        self.resolved() > visible || self.needed_by(snapshots).is_some()
    }
}

#[derive(Debug)]
struct Chunk {
    rows: [Row; ROWS],
    /// Number of rows that count.
    len: AtomicUsize,
    /// The number of its first row.
    first: SequenceNumber,
}

impl Chunk {
    fn rows(&self) -> &[Row] {
        &self.rows[..self.len.load(Ordering::Acquire)]
    }

    fn is_full(&self) -> bool {
        self.len.load(Ordering::Relaxed) == ROWS
    }

    /// Adds a row and returns its place. REQUIRES: the chunk is not full.
    fn push(&self, first: SequenceNumber, last: SequenceNumber) -> usize {
        let at = self.len.load(Ordering::Relaxed);
        self.rows[at].first.store(first.0, Ordering::Relaxed);
        self.rows[at].last.store(last.0, Ordering::Relaxed);
        self.len.store(at + 1, Ordering::Release);
        at
    }
}

/// A row: its chunk and its index there.
type RowPlace = (Arc<Chunk>, usize);

/// Ascending. No chunk is empty.
type Chunks = Vec<Arc<Chunk>>;

/// The number from which on readers see the entries at `sequence`; `None`: they are in no section.
#[inline]
fn resolution(chunks: &Chunks, sequence: SequenceNumber) -> Option<SequenceNumber> {
    let at = chunks.partition_point(|chunk| chunk.first <= sequence).checked_sub(1)?;
    let rows = chunks[at].rows();
    let row = &rows[rows.partition_point(|row| row.first() <= sequence).checked_sub(1)?];
    let resolved = (sequence.0 <= row.last.load(Ordering::Relaxed)).then(|| row.resolved())?;
    (resolved > FORGOTTEN).then_some(resolved)
}

/// The prepared sections of an open database.
#[derive(Debug)]
pub(crate) struct CommitTable {
    chunks: Swap<Chunks>,
    /// The places of the sections that are not resolved, by the transaction's name, ascending.
    open: Mutex<BTreeMap<Vec<u8>, Vec<RowPlace>>>,
    /// The lowest snapshot that keeps a chunk; `MAX`: none does.
    kept_by: AtomicU64,
    /// Whether a section was resolved since the WALs were last synced for a job.
    unsynced: AtomicBool,
    /// Number of sections so far.
    sections: AtomicU64,
}

impl CommitTable {
    /// A table without sections.
    pub(crate) fn new() -> CommitTable {
        CommitTable {
            chunks: Swap::new(Arc::default()),
            open: Mutex::default(),
            kept_by: AtomicU64::new(u64::MAX),
            unsynced: AtomicBool::new(false),
            sections: AtomicU64::new(0),
        }
    }

    /// Adds a section of transaction `xid` with `numbers` sequence numbers from `first` on.
    pub(crate) fn prepare(&self, xid: &[u8], first: SequenceNumber, numbers: u64) {
        let last = SequenceNumber(first.0 + numbers.max(1) - 1);
        let mut open = self.open.lock();
        self.sections.fetch_add(1, Ordering::Relaxed);
        let chunks = self.chunks.load_full();
        if let Some(chunk) = chunks.last().filter(|chunk| !chunk.is_full()) {
            let place = (chunk.clone(), chunk.push(first, last));
            open.entry(xid.to_vec()).or_default().push(place);
            return;
        }
        let rows = std::array::from_fn(|_| Row::new());
        let chunk = Arc::new(Chunk { rows, len: AtomicUsize::new(0), first });
        open.entry(xid.to_vec()).or_default().push((chunk.clone(), chunk.push(first, last)));
        let mut chunks = Chunks::clone(&chunks);
        chunks.push(chunk);
        self.chunks.store(Arc::new(chunks));
    }

    /// Removes the newest section of `xid`, of which nothing was published. Later writes may have
    /// its numbers.
    pub(crate) fn forget(&self, xid: &[u8]) {
        let mut open = self.open.lock();
        let Some(places) = open.get_mut(xid) else { return };
        let newest = places.pop();
        if places.is_empty() {
            open.remove(xid);
        }
        resolve_rows(newest, FORGOTTEN);
    }

    /// Makes readers from `at` on see the sections of `xid`. Call it before `at` is published.
    pub(crate) fn resolve(&self, xid: &[u8], at: SequenceNumber) {
        let mut open = self.open.lock();
        self.set_unsynced();
        resolve_rows(open.remove(xid).into_iter().flatten(), at);
    }

    /// Whether a section was resolved since [`set_synced`](Self::set_synced).
    pub(crate) fn has_unsynced(&self) -> bool {
        self.unsynced.load(Ordering::Acquire)
    }

    /// Records that the WALs are synced next.
    pub(crate) fn set_synced(&self) {
        self.unsynced.store(false, Ordering::Release);
    }

    /// Records that a resolution may not be durable.
    pub(crate) fn set_unsynced(&self) {
        self.unsynced.store(true, Ordering::Release);
    }

    /// The number of sections so far, if all are resolved.
    pub(crate) fn sections_if_all_resolved(&self) -> Option<u64> {
        let open = self.open.lock();
        open.is_empty().then(|| self.sections.load(Ordering::Relaxed))
    }

    /// [`CommitTable::prune`] after the release of a snapshot. `oldest`: the oldest live one, or
    /// the newest number.
    pub(crate) fn released(
        &self,
        snapshots: &LiveSnapshots,
        oldest: SequenceNumber,
        visible: impl FnOnce() -> SequenceNumber,
    ) {
        if oldest.0 > self.kept_by.load(Ordering::Relaxed) {
            self.prune(snapshots, visible());
        }
    }

    /// Drops the chunks that no present or later reader needs. `visible` is the newest published
    /// number.
    pub(crate) fn prune(&self, snapshots: &LiveSnapshots, visible: SequenceNumber) {
        let open = self.open.lock();
        self.kept_by.store(u64::MAX, Ordering::Relaxed);
        let chunks = self.chunks.load_full();
        // A chunk that is not full gets more rows, unless nothing is prepared.
        let may_go = |chunk: &Chunk| {
            let rows = chunk.rows();
            (open.is_empty() || chunk.is_full()) && rows.iter().all(|row| row.resolved() <= visible)
        };
        if !chunks.iter().any(|chunk| may_go(chunk)) {
            return;
        }
        let snapshots = snapshots.all();
        let mut kept_by = SequenceNumber(u64::MAX);
        let mut stays = |chunk: &Chunk| {
            let keeper = chunk.rows().iter().filter_map(|row| row.needed_by(&snapshots)).min();
            kept_by = kept_by.min(keeper.filter(|_| may_go(chunk)).unwrap_or(kept_by));
            !may_go(chunk) || keeper.is_some()
        };
        let kept: Chunks = chunks.iter().filter(|chunk| stays(chunk)).cloned().collect();
        self.kept_by.store(kept_by.0, Ordering::Relaxed);
        if kept.len() < chunks.len() {
            self.chunks.store(Arc::new(kept));
        }
    }

    /// The newest number that `visible` gives, and the sections that a reader there does not see;
    /// `None`: it sees every entry up to the number.
    pub(crate) fn now(
        &self,
        visible: impl Fn() -> SequenceNumber,
    ) -> (SequenceNumber, Option<UnseenSections>) {
        loop {
            let chunks = self.chunks.load_full();
            let sequence = visible();
            if self.chunks.holds(&chunks) {
                return (sequence, UnseenSections::new(chunks, sequence));
            }
        }
    }

    /// The read point of a reader without a snapshot: a super version, the newest number, and the
    /// sections that it does not see. No lock is held, so it begins again if one of the first and
    /// the last changes meanwhile. An older super version could lack the newer ones of entries that
    /// become visible together: the former value beside a rolled back one, or the last section of a
    /// transaction.
    pub(crate) fn read_point<T: Send + Sync + 'static>(
        &self,
        super_version: &Swap<T>,
        visible: impl Fn() -> SequenceNumber,
    ) -> (Arc<T>, SequenceNumber, Option<UnseenSections>) {
        loop {
            let read = super_version.load_full();
            esker_base::probe!("read_point:super_version");
            let (sequence, unseen) = self.now(&visible);
            if super_version.holds(&read) {
                return (read, sequence, unseen);
            }
        }
    }

    /// The sections that a reader at `sequence`, the number of a live snapshot, does not see.
    pub(crate) fn at(&self, sequence: SequenceNumber) -> Option<UnseenSections> {
        UnseenSections::new(self.chunks.load_full(), sequence)
    }

    /// Whether a reader may not see a section that has one of the numbers `from..=to`. Looks at all
    /// rows.
    pub(crate) fn may_hide(
        &self,
        from: SequenceNumber,
        to: SequenceNumber,
        snapshots: &LiveSnapshots,
        visible: SequenceNumber,
    ) -> bool {
        let (chunks, snapshots) = (self.chunks.load_full(), snapshots.all());
        let mut rows = chunks.iter().flat_map(|chunk| chunk.rows());
        rows.any(|row| {
            let meets = row.first() <= to && from.0 <= row.last.load(Ordering::Relaxed);
            meets && row.is_needed(&snapshots, visible)
        })
    }

    /// The snapshots for a flush or a compaction, whose inputs are chosen already, and the sections
    /// that these may have; `None`: each reader sees all of them or nothing. Beside the live
    /// snapshots there is one before the oldest section that a reader may not see. So what lies
    /// over an entry of such a section, by a write without a lock, keeps its number, and stays if
    /// it is a deletion.
    pub(crate) fn for_job(
        &self,
        snapshots: &LiveSnapshots,
        visible: impl Fn() -> SequenceNumber,
    ) -> (Vec<SequenceNumber>, Option<SectionsForJob>) {
        // The chunks first: a row that is gone by then was resolved before every snapshot that the
        // list gets from now on, and no snapshot in the list needs it.
        let chunks = self.chunks.load_full();
        let (newest, mut snapshots) = snapshots.with(|list| (visible(), list.all()));
        let rows = chunks.iter().flat_map(|chunk| chunk.rows());
        let needed = rows.filter(|row| row.is_needed(&snapshots, newest)).map(Row::first);
        let Some(first) = needed.min() else { return (snapshots, None) };
        let mut added = None;
        let before = SequenceNumber(first.0.saturating_sub(1));
        if let Err(at) = snapshots.binary_search(&before) {
            snapshots.insert(at, before);
            added = Some(before);
        }
        (snapshots, Some(SectionsForJob { chunks, newest, added }))
    }
}

fn resolve_rows(places: impl IntoIterator<Item = RowPlace>, at: SequenceNumber) {
    for (chunk, row) in places {
        chunk.rows[row].resolved.store(at.0, Ordering::Release);
    }
}

/// The sections that a reader at one sequence number does not see.
#[derive(Clone, Debug)]
pub(crate) struct UnseenSections {
    chunks: Arc<Chunks>,
    sequence: SequenceNumber,
}

impl UnseenSections {
    fn new(chunks: Arc<Chunks>, sequence: SequenceNumber) -> Option<UnseenSections> {
        let first = chunks.first()?.first;
        (first <= sequence).then_some(UnseenSections { chunks, sequence })
    }

    /// The reader's number.
    pub(crate) fn sequence(&self) -> SequenceNumber {
        self.sequence
    }

    /// Whether an entry at `sequence`, which is at most the reader's number, is hidden.
    #[inline]
    pub(crate) fn hides(&self, sequence: SequenceNumber) -> bool {
        resolution(&self.chunks, sequence).is_some_and(|resolved| resolved > self.sequence)
    }

    /// The number from which on readers see an entry at `sequence`; `MAX`: no reader sees it yet.
    pub(crate) fn visible_from(&self, sequence: SequenceNumber) -> SequenceNumber {
        resolution(&self.chunks, sequence).map_or(sequence, |resolved| resolved.min(SequenceNumber::MAX))
    }

    /// The lowest number of an entry that may be hidden.
    pub(crate) fn first(&self) -> SequenceNumber {
        self.chunks.first().map_or(SequenceNumber::MAX, |chunk| chunk.first)
    }
}

/// The sections as a flush or a compaction sees them.
#[derive(Clone, Debug)]
pub(crate) struct SectionsForJob {
    chunks: Arc<Chunks>,
    /// Later resolutions do not count: a snapshot that the job does not know may be older.
    newest: SequenceNumber,
    /// The snapshot of the job that is no live one.
    added: Option<SequenceNumber>,
}

impl SectionsForJob {
    /// The live ones of the job's snapshots.
    pub(crate) fn live(&self, snapshots: &[SequenceNumber]) -> Vec<SequenceNumber> {
        snapshots.iter().copied().filter(|snapshot| Some(*snapshot) != self.added).collect()
    }

    /// The number from which on readers see an entry at `sequence`; `MAX`: its section is not
    /// resolved, and the job must keep the entry and all older ones of its key.
    #[inline]
    pub(crate) fn visible_from(&self, sequence: SequenceNumber) -> SequenceNumber {
        match resolution(&self.chunks, sequence) {
            None => sequence,
            Some(resolved) if resolved <= self.newest => resolved,
            Some(_) => SequenceNumber::MAX,
        }
    }
}

#[cfg(test)]
mod tests;
