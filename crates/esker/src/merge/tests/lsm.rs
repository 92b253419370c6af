//! A tree of sorted runs: a memtable, level 0, and sorted levels of small files.

use super::super::level::LevelFile;
use super::super::range_del::FileBounds;
use super::super::vec_iter::{Entries, VecIter};
use super::super::{
    CompactionIterator, CompactionIteratorOptions, CompactionIteratorStats, FileOpener, LevelIterator,
    LevelTombstones, MergeChild, MergingIterator, OpenedFile, RunTombstones,
};
use super::Append;
use super::model::Op;
use crate::deleted_runs::DeletedRunMemory;
use crate::deleted_runs::DeletedRunMemoryRef;
use esker_base::sync::Arc;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::{Error, FileNumber, Result, SequenceNumber, ValueType};
use esker_format::block::Block;
use esker_format::cursor::{KnownDeletedRun, ScanIterator};
use esker_format::deleted_runs::{DeletedRunBuilder, DeletedRuns};
use esker_format::key::{self, InternalKeyComparator, ParsedInternalKey, RANGE_END_SENTINEL, internal_key};
use esker_format::range_del::{FragmentedRangeTombstones, RangeTombstone};
use std::cell::Cell;

pub(super) const LEVELS: usize = 4;

pub(super) struct File {
    number: FileNumber,
    deleted_runs: Option<Arc<DeletedRuns>>,
    pub(super) smallest: Vec<u8>,
    pub(super) largest: Vec<u8>,
    pub(super) entries: Entries,
    pub(super) range_dels: Option<Arc<FragmentedRangeTombstones>>,
    pub(super) broken: AtomicBool,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{} {}] {:?}", show(&self.smallest), show(&self.largest), shown(&self.entries))?;
        self.range_dels.iter().try_for_each(|r| write!(f, " {:?}", r.iter().collect::<Vec<_>>()))
    }
}

impl LevelFile for File {
    fn smallest(&self) -> &[u8] {
        &self.smallest
    }
    fn largest(&self) -> &[u8] {
        &self.largest
    }
    fn may_have_range_dels(&self) -> bool {
        true
    }
    fn was_seen(&self, known: &KnownDeletedRun<'_>) -> bool {
        let newest = self.entries.iter().map(|e| key::trailer(&e.0) >> 8).max().unwrap_or(0);
        self.number <= known.newest_file && newest <= known.sequence.0
    }
}

impl File {
    fn iter(&self, icmp: &InternalKeyComparator) -> VecIter {
        VecIter::new(icmp, Arc::clone(&self.entries)).skipping(self.number, self.deleted_runs.clone())
    }

    fn ends_exclusively(&self) -> bool {
        key::trailer(&self.largest) == RANGE_END_SENTINEL
    }

    /// Whether some user key may be in both files.
    fn meets(&self, other: &File, icmp: &InternalKeyComparator) -> bool {
        let before = |a: &File, b: &File| {
            let order = icmp.compare_user_keys(key::user_key(&a.largest), key::user_key(&b.smallest));
            order.is_lt() || (order.is_eq() && a.ends_exclusively())
        };
        !before(self, other) && !before(other, self)
    }

    fn may_hold(&self, user_key: &[u8], icmp: &InternalKeyComparator) -> bool {
        icmp.compare_user_keys(key::user_key(&self.smallest), user_key).is_le()
            && icmp.compare_user_keys(user_key, key::user_key(&self.largest)).is_le()
    }

    fn bounds(&self) -> FileBounds {
        FileBounds::new(&self.smallest, &self.largest)
    }
}

#[derive(Debug)]
pub(super) struct Opener {
    icmp: InternalKeyComparator,
}

impl FileOpener<Arc<File>> for Opener {
    fn open(&self, file: &Arc<File>) -> Result<OpenedFile> {
        if file.broken.load(Ordering::Relaxed) {
            return Err(Error::io("broken file"));
        }
        Ok(OpenedFile { iter: Box::new(file.iter(&self.icmp)), range_dels: file.range_dels.clone() })
    }
}

/// A description of a change, for the test's message.
pub(super) type Change = String;

pub(super) struct Lsm {
    pub(super) icmp: InternalKeyComparator,
    pub(super) rng: fastrand::Rng,
    /// The memtable's entries, sorted.
    mem: Vec<(Vec<u8>, Vec<u8>)>,
    mem_range_dels: Vec<RangeTombstone>,
    /// Level 0 newest first; the others by key.
    pub(super) levels: Vec<Vec<Arc<File>>>,
    /// Live snapshots, ascending.
    pub(super) snapshots: Vec<SequenceNumber>,
    /// Whether files end as in old RocksDB versions: a user key may continue in the next file, and
    /// tombstones may reach beyond a file's bounds.
    old_cuts: bool,
    /// Deleted runs that pre-scans have found, at any snapshot.
    deleted_run_memory: Arc<DeletedRunMemory>,
    last_file: Cell<u64>,
    pub(super) dropped: CompactionIteratorStats,
}

impl Lsm {
    pub(super) fn new(icmp: InternalKeyComparator, mut rng: fastrand::Rng) -> Lsm {
        let old_cuts = rng.u8(..4) == 0;
        let levels = vec![Vec::new(); LEVELS];
        let deleted_run_memory = Arc::new(DeletedRunMemory::new(icmp.clone(), rng.u64(..4), None));
        Lsm {
            icmp,
            rng,
            deleted_run_memory,
            last_file: Cell::new(0),
            mem: Vec::new(),
            mem_range_dels: Vec::new(),
            levels,
            snapshots: Vec::new(),
            old_cuts,
            dropped: CompactionIteratorStats::default(),
        }
    }

    pub(super) fn write(&mut self, sequence: SequenceNumber, op: &Op) {
        let (key, value, value_type) = match op {
            Op::Put(key, value) => (key, &value[..], ValueType::Value),
            Op::Delete(key) => (key, &b""[..], ValueType::Deletion),
            Op::SingleDelete(key) => (key, &b""[..], ValueType::SingleDeletion),
            Op::Merge(key, operand) => (key, &operand[..], ValueType::Merge),
            Op::DeleteRange(start, end) => {
                return self.mem_range_dels.push(RangeTombstone::new(&start[..], &end[..], sequence));
            }
        };
        let key = internal_key(key, sequence, value_type);
        let at = self.mem.partition_point(|e| self.icmp.compare(&e.0, &key).is_lt());
        self.mem.insert(at, (key, value.to_vec()));
    }

    /// The memory of deleted runs, for walks over all children.
    pub(super) fn deleted_run_memory(&self) -> DeletedRunMemoryRef {
        let newest_file = self.levels.iter().flatten().map(|f| f.number).max().unwrap_or(FileNumber(0));
        DeletedRunMemoryRef { ranges: Arc::clone(&self.deleted_run_memory), newest_file, own: None }
    }

    /// Every sorted run, newest first, as `snapshot` sees its tombstones.
    pub(super) fn children(&self, snapshot: SequenceNumber) -> Vec<MergeChild> {
        let mem = VecIter::new(&self.icmp, Arc::new(self.mem.clone())).skipping(FileNumber(0), None);
        let fragments = FragmentedRangeTombstones::build(self.mem_range_dels.clone(), &self.icmp);
        let mut children = vec![self.child(Box::new(mem), Some(Arc::new(fragments)), None, snapshot)];
        for file in &self.levels[0] {
            let mut iter = file.iter(&self.icmp);
            if file.broken.load(Ordering::Relaxed) {
                iter = iter.failing_at(file.entries.len() / 2);
            }
            children.push(self.child(Box::new(iter), file.range_dels.clone(), Some(file.bounds()), snapshot));
        }
        let opener = Arc::new(Opener { icmp: self.icmp.clone() });
        for files in self.levels[1..].iter().filter(|files| !files.is_empty()) {
            let files: Arc<[Arc<File>]> = files.clone().into();
            let iter = LevelIterator::new(self.icmp.clone(), Arc::clone(&files), Arc::clone(&opener));
            let tombstones = LevelTombstones::new(self.icmp.clone(), files, Arc::clone(&opener), snapshot);
            children.push(MergeChild::with_tombstones(Box::new(iter), Box::new(tombstones)));
        }
        children
    }

    fn child(
        &self,
        iter: Box<dyn ScanIterator>,
        range_dels: Option<Arc<FragmentedRangeTombstones>>,
        bounds: Option<FileBounds>,
        snapshot: SequenceNumber,
    ) -> MergeChild {
        match range_dels.filter(|r| !r.is_empty()) {
            Some(r) => {
                let run = RunTombstones::new(self.icmp.clone(), r, bounds, snapshot);
                MergeChild::with_tombstones(iter, Box::new(run))
            }
            None => MergeChild::new(iter),
        }
    }

    /// Damages some files, or repairs all.
    pub(super) fn set_broken(&mut self, broken: bool) {
        for file in self.levels.iter().flatten() {
            file.broken.store(broken && self.rng.u8(..4) == 0, Ordering::Relaxed);
        }
    }

    /// All point entries that no tombstone visible at `snapshot` hides, by a comparison of each
    /// entry with each tombstone.
    pub(super) fn entries_not_hidden(&self, snapshot: SequenceNumber) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut entries = self.mem.clone();
        let files = || self.levels.iter().flatten();
        for file in files() {
            entries.extend(file.entries.iter().cloned());
        }
        entries.sort_by(|a, b| self.icmp.compare(&a.0, &b.0));
        let mem = FragmentedRangeTombstones::build(self.mem_range_dels.clone(), &self.icmp);
        let mut sources = vec![RunTombstones::new(self.icmp.clone(), Arc::new(mem), None, snapshot)];
        sources.extend(files().filter_map(|file| {
            let range_dels = file.range_dels.clone()?;
            Some(RunTombstones::new(self.icmp.clone(), range_dels, Some(file.bounds()), snapshot))
        }));
        entries.retain(|(key, _)| {
            let sequence = SequenceNumber(key::trailer(key) >> 8);
            !sources.iter().any(|s| s.cover_at(key::user_key(key)).hides(sequence))
        });
        entries
    }

    /// Makes one random change that no reader may notice.
    pub(super) fn change(&mut self) -> Change {
        match self.rng.u8(..10) {
            0..=2 => self.flush(),
            3 => self.compact_within_level_0(),
            4..=5 => self.compact_level_0(),
            6..=8 => {
                let level = self.rng.usize(1..LEVELS - 1);
                self.compact_file(level)
            }
            _ => self.compact_all(),
        }
    }

    pub(super) fn flush(&mut self) -> Change {
        if self.mem.is_empty() && self.mem_range_dels.is_empty() {
            return "nothing to flush".into();
        }
        let entries = Arc::new(std::mem::take(&mut self.mem));
        let tombstones = std::mem::take(&mut self.mem_range_dels);
        let fragments = Arc::new(FragmentedRangeTombstones::build(tombstones, &self.icmp));
        let mut options = self.options();
        options.range_dels.add(&fragments, None);
        let out = self.run(Box::new(VecIter::new(&self.icmp, entries)), options, false);
        for file in out.into_iter().rev() {
            self.levels[0].insert(0, file);
        }
        "flush".into()
    }

    fn options(&mut self) -> CompactionIteratorOptions {
        let mut options = CompactionIteratorOptions::new(&self.icmp, self.snapshots.clone());
        options.merge_operator = Some(Arc::new(Append));
        if self.rng.bool() && !self.snapshots.is_empty() {
            let pick = self.rng.usize(..self.snapshots.len());
            options.earliest_write_conflict_snapshot = self.snapshots[pick];
        }
        options
    }

    fn compact_within_level_0(&mut self) -> Change {
        let count = self.levels[0].len();
        if count < 2 {
            return "level 0 too small".into();
        }
        let from = self.rng.usize(..count - 1);
        let to = self.rng.usize(from + 1..count) + 1;
        let inputs: Vec<_> = self.levels[0].drain(from..to).collect();
        let options = self.options();
        let out = self.compact(&inputs, options, false);
        for file in out.into_iter().rev() {
            self.levels[0].insert(from, file);
        }
        format!("level 0 {from}..{to}")
    }

    /// Compacts the oldest files of level 0 into level 1.
    fn compact_level_0(&mut self) -> Change {
        let count = self.levels[0].len();
        if count == 0 {
            return "level 0 empty".into();
        }
        let from = self.rng.usize(..count);
        let inputs = self.levels[0].split_off(from);
        self.compact_into(inputs, 1, true);
        format!("level 0 {from}.. into 1")
    }

    fn compact_file(&mut self, level: usize) -> Change {
        let count = self.levels[level].len();
        if count == 0 {
            return format!("level {level} empty");
        }
        let mut from = self.rng.usize(..count);
        let mut to = from + 1 + self.rng.usize(..2.min(count - from));
        let shares = |files: &[Arc<File>], i: usize| files[i].meets(&files[i + 1], &self.icmp);
        while from > 0 && shares(&self.levels[level], from - 1) {
            from -= 1;
        }
        while to < count && shares(&self.levels[level], to - 1) {
            to += 1;
        }
        let inputs: Vec<_> = self.levels[level].drain(from..to).collect();
        self.compact_into(inputs, level + 1, true);
        format!("level {level} {from}..{to} into {}", level + 1)
    }

    /// Compacts all files into the last level, as one compaction.
    pub(super) fn compact_all(&mut self) -> Change {
        self.flush();
        let mut inputs = Vec::new();
        for level in 0..LEVELS {
            inputs.append(&mut self.levels[level]);
        }
        if !inputs.is_empty() {
            self.compact_into(inputs, LEVELS - 1, false);
        }
        "everything".into()
    }

    fn compact_into(&mut self, mut inputs: Vec<Arc<File>>, level: usize, may_move: bool) {
        // Adds files of the output level until none that overlaps an input is missing.
        loop {
            let (meeting, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.levels[level])
                .into_iter()
                .partition(|f| inputs.iter().any(|i| i.meets(f, &self.icmp)));
            self.levels[level] = rest;
            if meeting.is_empty() {
                break;
            }
            inputs.extend(meeting);
        }
        if inputs.len() == 1 && may_move && self.rng.bool() {
            self.insert_sorted(level, inputs);
            return;
        }
        // Outputs may fill the gaps between the inputs, so files in the gaps are inputs, too.
        let spanned = span(&self.icmp, &inputs);
        let (within, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.levels[level]).into_iter().partition(|f| f.meets(&spanned, &self.icmp));
        self.levels[level] = rest;
        inputs.extend(within);
        let spanned = span(&self.icmp, &inputs);
        let deeper: Vec<_> = self.levels[level + 1..].iter().flatten().cloned().collect();
        let mut options = self.options();
        options.bottommost = !deeper.iter().any(|f| f.meets(&spanned, &self.icmp));
        let icmp = self.icmp.clone();
        options.key_not_exists_beyond_output_level =
            Box::new(move |user_key| !deeper.iter().any(|f| f.may_hold(user_key, &icmp)));
        let out = self.compact(&inputs, options, true);
        self.insert_sorted(level, out);
    }

    fn insert_sorted(&mut self, level: usize, files: Vec<Arc<File>>) {
        self.levels[level].extend(files);
        let icmp = &self.icmp;
        self.levels[level].sort_by(|a, b| icmp.compare(&a.smallest, &b.smallest));
        for pair in self.levels[level].windows(2) {
            assert!(icmp.compare(&pair[0].largest, &pair[1].smallest).is_lt(), "files overlap: {pair:#?}");
        }
    }

    fn compact(
        &mut self,
        inputs: &[Arc<File>],
        mut options: CompactionIteratorOptions,
        cut: bool,
    ) -> Vec<Arc<File>> {
        let mut children = Vec::new();
        for file in inputs {
            children.push(MergeChild::new(Box::new(VecIter::new(&self.icmp, Arc::clone(&file.entries)))));
            if let Some(range_dels) = &file.range_dels {
                options.range_dels.add(range_dels, Some(&file.bounds()));
            }
        }
        let merged = MergingIterator::new(self.icmp.clone(), children);
        self.run(Box::new(merged), options, cut)
    }

    /// The outputs of a compaction iterator, cut at random.
    fn run(
        &mut self,
        input: Box<dyn ScanIterator>,
        options: CompactionIteratorOptions,
        cut: bool,
    ) -> Vec<Arc<File>> {
        let bottommost = options.bottommost;
        let mut iter = CompactionIterator::new(self.icmp.clone(), input, options);
        iter.seek_to_first();
        let mut parts: Vec<Vec<(Vec<u8>, Vec<u8>)>> = vec![Vec::new()];
        while iter.valid() {
            let may_cut = if cut {
                iter.is_first_of_user_key() || self.old_cuts
            } else {
                iter.is_first_of_user_key() && self.old_cuts
            };
            if may_cut && !parts.last().unwrap().is_empty() && self.rng.u8(..4) == 0 {
                parts.push(Vec::new());
            }
            parts.last_mut().unwrap().push((iter.key().to_vec(), iter.value().to_vec()));
            iter.next();
        }
        iter.status().unwrap();
        let stats = *iter.stats();
        check_stats(&stats, parts.iter().map(Vec::len).sum::<usize>() as u64);
        self.dropped.dropped_hidden += stats.dropped_hidden;
        self.dropped.dropped_obsolete += stats.dropped_obsolete;
        self.dropped.dropped_range_del += stats.dropped_range_del;
        self.dropped.operands_merged += stats.operands_merged;
        for entries in &parts {
            assert!(
                entries.is_sorted_by(|a, b| self.icmp.compare(&a.0, &b.0).is_lt()),
                "the entries are out of order"
            );
        }
        if bottommost && self.snapshots.is_empty() {
            for (key, _) in parts.iter().flatten() {
                assert_eq!(
                    key::trailer(key),
                    ValueType::Value as u64,
                    "sequence numbers at the bottom are zero"
                );
            }
        }
        let starts: Vec<Vec<u8>> = parts.iter().skip(1).map(|p| key::user_key(&p[0].0).to_vec()).collect();
        let mut files = Vec::new();
        let mut last_user_key = Vec::new();
        for (i, entries) in parts.into_iter().enumerate() {
            let lower = i.checked_sub(1).map(|i| &starts[i][..]);
            let upper = starts.get(i).map(|s| &s[..]);
            let tombstones = iter.tombstones_for_output(lower, upper);
            assert!(!bottommost || !self.snapshots.is_empty() || tombstones.is_empty());
            let before = lower.map_or(Vec::new(), |l| iter.tombstones_for_output(None, Some(l)));
            let next = upper.map_or(Vec::new(), |u| iter.tombstones_for_output(Some(u), None));
            let goes_on = i > 0 && !entries.is_empty() && last_user_key == key::user_key(&entries[0].0);
            last_user_key = entries.last().map_or(Vec::new(), |e| key::user_key(&e.0).to_vec());
            files.extend(self.file(entries, tombstones, upper, (&before, &next), goes_on));
        }
        files
    }

    /// A file as a compaction writes it, up to `upper`, with the tombstones of the files before and
    /// behind. With `old_cuts`, tombstones that continue there are stored beyond the file's bounds.
    fn file(
        &self,
        entries: Vec<(Vec<u8>, Vec<u8>)>,
        tombstones: Vec<RangeTombstone>,
        upper: Option<&[u8]>,
        (before, next): (&[RangeTombstone], &[RangeTombstone]),
        goes_on: bool,
    ) -> Option<Arc<File>> {
        let mut bounds: Vec<Vec<u8>> = Vec::new();
        bounds.extend(entries.first().map(|e| e.0.clone()));
        bounds.extend(entries.last().map(|e| e.0.clone()));
        for t in &tombstones {
            bounds.push(t.internal_key());
            bounds.push(internal_key(&t.end, SequenceNumber::MAX, ValueType::RangeDeletion));
        }
        bounds.sort_by(|a, b| self.icmp.compare(a, b));
        let (mut smallest, mut largest) = (bounds.first()?.clone(), bounds.last()?.clone());
        if goes_on {
            // The first user key began in the previous file.
            smallest.clone_from(&entries[0].0);
        }
        let mut stored = tombstones;
        if let (Some(last), Some(upper)) = (entries.last(), upper)
            && self.icmp.same_user_key(key::user_key(&last.0), upper)
        {
            // The user key continues in the next file, so the bound is the last entry.
            largest = last.0.clone();
        }
        if self.old_cuts {
            for t in &mut stored {
                // The tombstones continue; the bounds clip them.
                if next.iter().any(|n| n.seq == t.seq && n.start == t.end) {
                    t.end = self.beyond(&t.end, true);
                }
                if before.iter().any(|b| b.seq == t.seq && b.end == t.start) {
                    t.start = self.beyond(&t.start, false);
                }
            }
        }
        let range_dels = FragmentedRangeTombstones::build(stored, &self.icmp);
        self.last_file.set(self.last_file.get() + 1);
        Some(Arc::new(File {
            number: FileNumber(self.last_file.get()),
            deleted_runs: deleted_runs(&self.icmp, &entries, self.last_file.get() % 4),
            smallest,
            largest,
            entries: Arc::new(entries),
            range_dels: (!range_dels.is_empty()).then(|| Arc::new(range_dels)),
            broken: AtomicBool::new(false),
        }))
    }

    /// A key behind all other keys, or before them.
    fn beyond(&self, key: &[u8], behind: bool) -> Vec<u8> {
        let ascending = self.icmp.compare_user_keys(b"", b"~").is_lt();
        let far = if ascending == behind { &b"~~"[..] } else { &b""[..] };
        let order = self.icmp.compare_user_keys(key, far);
        if if behind { order.is_lt() } else { order.is_gt() } { far.to_vec() } else { key.to_vec() }
    }

    pub(super) fn describe(&self) -> String {
        let mut out = format!("snapshots {:?}\nmem {:?}\n", self.snapshots, shown(&self.mem));
        out += &format!("  {:?}\n", self.mem_range_dels);
        for (level, files) in self.levels.iter().enumerate() {
            for f in files {
                out += &format!("L{level} {f:?}\n");
            }
        }
        out
    }
}

/// The deleted runs, as a table writer finds them.
fn deleted_runs(
    icmp: &InternalKeyComparator,
    entries: &[(Vec<u8>, Vec<u8>)],
    min_entries: u64,
) -> Option<Arc<DeletedRuns>> {
    let mut builder = DeletedRunBuilder::new(min_entries);
    let mut last: Option<&[u8]> = None;
    for (internal_key, _) in entries {
        let entry = ParsedInternalKey::parse(internal_key).unwrap();
        if builder.is_relevant(entry.value_type) {
            let is_older = last == Some(entry.user_key);
            builder.add(entry.user_key, entry.sequence, entry.value_type, is_older);
        }
        last = Some(entry.user_key);
    }
    let block = Block::parse(builder.finish()?).unwrap();
    Some(Arc::new(DeletedRuns::parse(&block, icmp, None).unwrap()))
}

fn span(icmp: &InternalKeyComparator, files: &[Arc<File>]) -> File {
    let smallest = files.iter().map(|f| &f.smallest).min_by(|a, b| icmp.compare(a, b)).unwrap();
    let largest = files.iter().map(|f| &f.largest).max_by(|a, b| icmp.compare(a, b)).unwrap();
    File {
        number: FileNumber(0),
        deleted_runs: None,
        smallest: smallest.clone(),
        largest: largest.clone(),
        entries: Arc::default(),
        range_dels: None,
        broken: AtomicBool::new(false),
    }
}

fn check_stats(stats: &CompactionIteratorStats, out: u64) {
    assert_eq!(stats.records_out, out);
    assert!(stats.records_in >= out, "{stats:?}");
}

fn show(key: &[u8]) -> String {
    let trailer = key::trailer(key);
    format!("{}@{}:{}", key::user_key(key).escape_ascii(), trailer >> 8, trailer & 0xFF)
}

fn shown(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<String> {
    entries.iter().map(|e| format!("{}={}", show(&e.0), e.1.escape_ascii())).collect()
}
