//! A tree of user keys and sequence numbers that follows the picker's plans. Flushes add files;
//! several compactions run at a time and end in any order. After every step, a reader meets each
//! key's newest version first, and results that versions share are right for each.

use super::*;
use crate::options::{CompactionOptionsUniversal, CompactionStopStyle};
use crate::picker::manual::{ManualCompaction, ManualStep, pick_files};
use crate::version::Weights;
use crate::version::builder::Locations;
use esker_base::rng::Rng;
use std::collections::{BTreeMap, HashMap};

/// Bytes that each entry counts.
const ENTRY_BYTES: u64 = 10;

/// User key and sequence number.
type Entry = (u16, u64);

struct Running {
    plan: CompactionPlan,
    id: RunningId,
    manual: bool,
}

struct Tree {
    seed: u64,
    rng: Rng,
    options: PickerOptions,
    version: Arc<Version>,
    contents: HashMap<FileNumber, Vec<Entry>>,
    newest: BTreeMap<u16, u64>,
    running: RunningCompactions,
    jobs: Vec<Running>,
    manual: Option<ManualCompaction>,
    next_file: u64,
    next_epoch: u64,
    sequence: u64,
    now: u64,
    oldest_snapshot: SequenceNumber,
}

fn user_key(k: u16) -> Vec<u8> {
    format!("k{k:05}").into_bytes()
}

fn internal(entry: &Entry) -> Vec<u8> {
    internal_key(&user_key(entry.0), SequenceNumber(entry.1), ValueType::Value)
}

impl Tree {
    fn new(seed: u64) -> Tree {
        let mut rng = Rng::new(seed);
        let pri = [
            CompactionPri::MinOverlappingRatio,
            CompactionPri::ByCompensatedSize,
            CompactionPri::OldestLargestSeqFirst,
            CompactionPri::OldestSmallestSeqFirst,
            CompactionPri::RoundRobin,
        ][rng.index(5)];
        let is_universal = rng.one_in(3);
        let options = PickerOptions {
            compaction_style: if is_universal { CompactionStyle::Universal } else { CompactionStyle::Level },
            universal: CompactionOptionsUniversal {
                size_ratio: [1, 20, 100][rng.index(3)],
                max_size_amplification_percent: [25, 200][rng.index(2)],
                max_merge_width: if rng.one_in(4) { 3 } else { u32::MAX },
                max_read_amp: if rng.one_in(4) { 0 } else { -1 },
                stop_style: if rng.one_in(3) {
                    CompactionStopStyle::SimilarSize
                } else {
                    CompactionStopStyle::TotalSize
                },
                allow_trivial_move: rng.one_in(2),
                incremental: seed.is_multiple_of(2),
                ..CompactionOptionsUniversal::default()
            },
            write_buffer_size: 200,
            level0_stop_writes_trigger: 8,
            compaction_pri: pri,
            level_compaction_dynamic_level_bytes: !is_universal && rng.one_in(2),
            max_bytes_for_level_base: 400,
            max_bytes_for_level_multiplier: 3.0,
            target_file_size_base: 100,
            target_file_size_multiplier: 1 + rng.below(2),
            max_compaction_bytes: if rng.one_in(3) { 300 } else { 0 },
            level0_file_num_compaction_trigger: 2 + rng.index(3),
            ttl: if rng.one_in(3) { 50 } else { 0 },
            periodic_compaction_seconds: if rng.one_in(4) { 80 } else { 0 },
            preclude_last_level_seconds: if seed.is_multiple_of(3) { 20 } else { 0 },
            ..PickerOptions::default()
        };
        let levels = 2 + rng.index(6);
        let icmp = InternalKeyComparator::default();
        let version = Version::empty(ColumnFamilyId::DEFAULT, icmp, levels);
        let version = version.reserving_last_level(levels > 2 && seed % 5 == 1);
        Tree {
            seed,
            rng,
            options,
            version: Arc::new(version),
            contents: HashMap::new(),
            newest: BTreeMap::new(),
            running: RunningCompactions::default(),
            jobs: Vec::new(),
            manual: None,
            next_file: 1,
            next_epoch: 1,
            sequence: 0,
            now: 1000,
            oldest_snapshot: SequenceNumber::ZERO,
        }
    }

    fn apply(&mut self, edit: &VersionEdit) {
        let locations = Arc::new(Locations::of(&self.version));
        let mut builder = VersionBuilder::new(Arc::clone(&self.version), locations);
        let result = builder.apply(edit).and_then(|()| builder.finish(0, &Arc::default()));
        self.version = result.unwrap_or_else(|e| panic!("seed {}: {e}\n{edit:?}", self.seed)).version;
        for file in self.version.new_files() {
            let entries = file.file_size / ENTRY_BYTES;
            // A compaction into the last level leaves no deletions, unless each has to stay.
            let has_deletions = self.seed.is_multiple_of(2)
                && (file.number.0 % 3 == 0 || self.version.reserves_last_level())
                && file
                    .level()
                    .is_some_and(|l| l == 0 || !marked::is_bottommost_file(&self.version, l, file));
            let deletions = if has_deletions { entries * 2 / 3 + 1 } else { 0 };
            let (raw_key_bytes, raw_value_bytes) = (7 * entries, 20 * entries);
            file.set_stats(FileStats {
                entries,
                deletions,
                raw_key_bytes,
                raw_value_bytes,
                ..FileStats::default()
            });
        }
    }

    /// Checks that results shared from version to version equal those of a version that is built
    /// anew.
    fn check_what_is_shared(&self) {
        let (seed, version) = (self.seed, &self.version);
        let empty = Version::empty(version.column_family(), version.icmp().clone(), version.num_levels());
        let empty = empty.reserving_last_level(version.reserves_last_level());
        let mut builder = VersionBuilder::new(Arc::new(empty), Arc::default());
        let new_files = version.all_files().map(|(level, f)| (level, f.data().clone())).collect();
        let cursor = |level| Some((level, version.compact_cursor(level)?.to_vec()));
        let compact_cursors = (0..version.num_levels()).filter_map(cursor).collect();
        builder.apply(&VersionEdit { new_files, compact_cursors, ..VersionEdit::default() }).unwrap();
        let fresh = builder.finish(0, &Arc::default()).unwrap().version;
        for ((_, old), (_, new)) in version.all_files().zip(fresh.all_files()) {
            new.set_stats(*old.stats().unwrap());
        }
        let context = PickContext {
            // The boost by `ttl` changes with time while versions share their results, so it is off
            // here.
            options: &PickerOptions { ttl: 0, ..self.options.clone() },
            running: &self.running,
            now_seconds: self.now,
            seconds_ahead: 0,
            oldest_snapshot: self.oldest_snapshot,
            oldest_live: SequenceNumber::MAX,
            suggested: &NONE_SUGGESTED,
        };
        let scores_of = |version| scores(version, context.options, &self.running);
        assert_eq!(scores_of(version), scores_of(&fresh), "seed {seed}");
        assert_eq!(needs_compaction(version, &context), needs_compaction(&fresh, &context), "seed {seed}");
        let weigher = score::Weigher::new(version);
        for level in 0..version.num_levels() {
            let waiting =
                |version| -> Vec<_> { marked::waiting(version, level).iter().map(|f| f.number).collect() };
            assert_eq!(waiting(version), waiting(&fresh), "seed {seed} level {level}");
            // The weight of deletions depends on all levels.
            if self.options.ttl == 0 && self.seed % 2 == 1 {
                let order = |version| priority::order(version, level, &context).into_owned();
                assert_eq!(order(version), order(&fresh), "seed {seed} level {level}");
            }
            let idle = version.files(level).iter().filter(|f| !self.running.is_busy(f.number));
            let weights = idle.map(|f| Weights::of(f)).sum();
            let summed = score::idle_bytes(version, level, &self.running, &weigher);
            assert_eq!(summed, weigher.weigh(&weights), "seed {seed} level {level}");
        }
        assert_eq!(version.newest_file(), fresh.newest_file(), "seed {seed}");
    }

    fn new_file(&mut self, entries: Vec<Entry>, epoch: u64, ancestor: u64) -> FileMetaData {
        let number = FileNumber(self.next_file);
        self.next_file += 1;
        let sequences = || entries.iter().map(|e| e.1);
        let file = FileMetaData {
            number,
            file_size: entries.len() as u64 * ENTRY_BYTES,
            smallest: internal(&entries[0]),
            largest: internal(&entries[entries.len() - 1]),
            smallest_seqno: SequenceNumber(sequences().min().unwrap()),
            largest_seqno: SequenceNumber(sequences().max().unwrap()),
            epoch_number: epoch,
            oldest_ancestor_time: ancestor,
            file_creation_time: self.now,
            marked_for_compaction: self.rng.one_in(20),
            ..FileMetaData::default()
        };
        self.contents.insert(number, entries);
        file
    }

    fn flush(&mut self) {
        let count = 1 + self.rng.below(25);
        let (start, spread) = (self.rng.below(300), 1 + self.rng.below(300));
        let mut entries: Vec<Entry> = Vec::new();
        for _ in 0..count {
            self.sequence += 1;
            let key = u16::try_from(start + self.rng.below(spread)).unwrap();
            entries.push((key, self.sequence));
            self.newest.insert(key, self.sequence);
        }
        entries.sort_by_key(|&(k, seq)| (k, std::cmp::Reverse(seq)));
        let epoch = self.next_epoch;
        self.next_epoch += 1;
        let file = self.new_file(entries, epoch, self.now);
        self.apply(&VersionEdit { new_files: vec![(0, file)], ..VersionEdit::default() });
    }

    fn pick(&mut self) -> bool {
        let context = PickContext {
            options: &self.options,
            running: &self.running,
            now_seconds: self.now,
            seconds_ahead: 0,
            oldest_snapshot: self.oldest_snapshot,
            oldest_live: SequenceNumber::MAX,
            suggested: &NONE_SUGGESTED,
        };
        let Some(plan) = pick(&self.version, &context) else { return false };
        assert!(needs_compaction(&self.version, &context), "seed {}", self.seed);
        self.start(plan, false);
        true
    }

    fn start(&mut self, plan: CompactionPlan, manual: bool) {
        self.check_plan(&plan);
        let id = self.running.start(&plan);
        self.jobs.push(Running { plan, id, manual });
    }

    /// Checks the invariants of `plan.rs`, and that no two running plans overlap.
    fn check_plan(&self, plan: &CompactionPlan) {
        let (icmp, seed) = (InternalKeyComparator::default(), self.seed);
        assert!(plan.input_files().count() > 0, "seed {seed}");
        let is_input = |f: &FileMeta| plan.input_files().any(|(_, i)| i.number == f.number);
        for (level, f) in plan.input_files() {
            assert!(!self.running.is_busy(f.number), "seed {seed} {plan:?}");
            assert!(plan.version.files(level).iter().any(|v| v.number == f.number), "seed {seed}");
        }
        check_order(plan, seed);
        let overlaps = |a: &FileMeta, b: &FileMeta| overlap(&icmp, a, b);
        let inputs: Vec<_> = plan.input_files().collect();
        let meet = |a: Written<'_>, b: Written<'_>| {
            a.0 == b.0
                && a.0 > 0
                && icmp.compare_user_keys(a.1, b.2).is_le()
                && icmp.compare_user_keys(b.1, a.2).is_le()
        };
        for job in &self.jobs {
            let meets = written(plan).any(|a| written(&job.plan).any(|b| meet(a, b)));
            assert!(!meets, "seed {seed} {plan:?} {:?}", job.plan);
        }
        if let Some(place) = &plan.proximal {
            for other in plan.version.files(place.level).iter().filter(|f| !is_input(f)) {
                let theirs = (place.level, other.smallest_user_key(), other.largest_user_key());
                let ours = (place.level, &place.smallest[..], &place.largest[..]);
                assert!(!meet(ours, theirs), "seed {seed} {plan:?} {other:?}");
            }
        }
        if plan.is_bottommost {
            let below = plan.version.all_files().filter(|(l, f)| *l > plan.output_level && !is_input(f));
            assert!(
                !below.into_iter().any(|(_, o)| inputs.iter().any(|(_, f)| overlaps(f, o))),
                "seed {seed}"
            );
        }
    }

    fn finish(&mut self, index: usize) {
        let job = self.jobs.swap_remove(index);
        if self.rng.one_in(10) && !job.manual {
            // The compaction failed: all files stay.
            self.running.finish(job.id);
            return;
        }
        let edit =
            if job.plan.is_trivial_move { job.plan.trivial_move_edit() } else { self.compact(&job.plan) };
        self.apply(&edit);
        self.running.finish(job.id);
        if !job.plan.is_trivial_move {
            for (_, f) in job.plan.input_files() {
                self.contents.remove(&f.number);
            }
        }
    }

    fn compact(&mut self, plan: &CompactionPlan) -> VersionEdit {
        let mut entries: Vec<Entry> =
            plan.input_files().flat_map(|(_, f)| self.contents[&f.number].iter().copied()).collect();
        entries.sort_by_key(|&(k, seq)| (k, std::cmp::Reverse(seq)));
        // Some old versions are dropped, as if no snapshot needed them.
        let mut last = None;
        let drop_one_in = 1 + self.rng.below(3);
        entries.retain(|&(k, _)| last.replace(k) != Some(k) || !self.rng.one_in(drop_one_in));
        // Some young entries stay above the last level.
        let after = plan.proximal.as_ref().map(|p| p.keep_through.0.max(self.rng.below(self.sequence + 1)));
        let (old, young) = entries.into_iter().partition(|(_, seq)| after.is_none_or(|after| *seq <= after));
        let mut edit = plan.edit();
        for entries in cut(plan, old) {
            let file = self.new_file(entries, plan.epoch_number(), plan.oldest_ancestor_time());
            edit.new_files.push((plan.output_level, file));
        }
        for entries in cut(plan, young) {
            let ancestor = self.now - self.rng.below(40);
            let file = self.new_file(entries, plan.epoch_number(), ancestor);
            edit.new_files.push((plan.output_level - 1, file));
        }
        edit
    }

    fn step_manual(&mut self) {
        if self.jobs.iter().any(|j| j.manual) {
            return;
        }
        let rng = &mut self.rng;
        let manual = self.manual.get_or_insert_with(|| {
            let (a, b) = (rng.below(400) as u16, rng.below(400) as u16);
            let kinds = [
                BottommostLevelCompaction::Skip,
                BottommostLevelCompaction::Force,
                BottommostLevelCompaction::ForceOptimized,
            ];
            let begin = (!rng.one_in(4)).then(|| user_key(a.min(b)));
            let end = (!rng.one_in(4)).then(|| user_key(a.max(b)));
            let (begin, end, kind) = (begin.as_deref(), end.as_deref(), kinds[rng.index(3)]);
            ManualCompaction::new(begin, end, kind, FileNumber(self.next_file), Vec::new())
        });
        match manual.next(&self.version, &self.options, &self.running) {
            ManualStep::Done => self.manual = None,
            ManualStep::Conflict => {}
            ManualStep::Run(plan) => self.start(*plan, true),
        }
    }

    fn compact_some_files(&mut self) {
        let all: Vec<(usize, FileNumber)> = self.version.all_files().map(|(l, f)| (l, f.number)).collect();
        if all.is_empty() {
            return;
        }
        let chosen: Vec<(usize, FileNumber)> =
            (0..1 + self.rng.index(3)).map(|_| all[self.rng.index(all.len())]).collect();
        let deepest = chosen.iter().map(|(l, _)| *l).max().unwrap();
        let to = (deepest + self.rng.index(2)).min(self.version.max_output_level());
        let files: Vec<FileNumber> = chosen.iter().map(|(_, n)| *n).collect();
        if let Ok(plan) = pick_files(&self.version, &self.options, &self.running, &files, to, (None, false)) {
            self.start(plan, false);
        }
    }

    /// Checks that the first file with a key that a reader meets has the key's newest version.
    fn check_reads(&self) {
        for (&k, &newest) in &self.newest {
            let target = internal_key(&user_key(k), SequenceNumber::MAX, ValueType::SEEK);
            let found = self
                .version
                .candidates(&target)
                .find_map(|(_, f)| self.contents[&f.number].iter().find(|e| e.0 == k).map(|e| e.1));
            assert_eq!(found, Some(newest), "seed {} key {k}\n{}", self.seed, self.version);
        }
    }

    fn step(&mut self) {
        self.now += 1;
        self.oldest_snapshot = SequenceNumber(if self.rng.one_in(3) { self.sequence / 2 } else { 0 });
        match self.rng.below(10) {
            0..=2 => self.flush(),
            3..=5 if self.jobs.len() < 4 => {
                self.pick();
            }
            6 if self.rng.one_in(4) => self.step_manual(),
            7 if self.rng.one_in(4) => self.compact_some_files(),
            _ if !self.jobs.is_empty() => {
                let index = self.rng.index(self.jobs.len());
                self.finish(index);
            }
            _ => {}
        }
    }

    /// Runs compactions without further flushes until none is due: every level must be within its
    /// size.
    fn drain(&mut self) {
        self.manual = None;
        // Sequence numbers do not become 0 here, so rewrites for released snapshots would never
        // end.
        self.oldest_snapshot = SequenceNumber::ZERO;
        (self.options.ttl, self.options.periodic_compaction_seconds) = (0, 0);
        self.options.preclude_last_level_seconds = 0;
        for _ in 0..3000 {
            let picked = self.pick();
            if !self.jobs.is_empty() {
                let index = self.rng.index(self.jobs.len());
                self.finish(index);
            } else if !picked {
                if self.options.compaction_style == CompactionStyle::Universal {
                    return;
                }
                let s = scores(&self.version, &self.options, &self.running);
                assert!(!s.is_due(), "seed {}: {s:?}\n{}", self.seed, self.version);
                assert_eq!(s.estimated_pending_compaction_bytes, 0, "seed {}", self.seed);
                return;
            }
        }
        let s = scores(&self.version, &self.options, &self.running);
        panic!("seed {}: does not come to rest: {s:?}\n{}", self.seed, self.version);
    }
}

fn overlap(icmp: &InternalKeyComparator, a: &FileMeta, b: &FileMeta) -> bool {
    icmp.compare_user_keys(a.smallest_user_key(), b.largest_user_key()).is_le()
        && icmp.compare_user_keys(b.smallest_user_key(), a.largest_user_key()).is_le()
}

/// Checks that no file that a plan leaves out holds versions of a key that would then be newer or
/// older than their place says.
pub(super) fn check_order(plan: &CompactionPlan, seed: u64) {
    let icmp = plan.version.icmp();
    let inputs: Vec<_> = plan.input_files().collect();
    let is_input = |f: &FileMeta| inputs.iter().any(|(_, i)| i.number == f.number);
    for (level, other) in plan.version.all_files().filter(|(_, f)| !is_input(f)) {
        for &(from, f) in inputs.iter().filter(|(_, f)| overlap(icmp, f, other)) {
            let older = other.epoch_number < f.epoch_number;
            let left_behind = match level {
                0 => from == 0 && older && plan.output_level > 0,
                // A file in the input level breaks a clean cut; one between the levels, or in the
                // output level, stays in the way.
                l => l == from || l > from && l <= plan.output_level,
            };
            assert!(!left_behind, "seed {seed} {plan:?} leaves {} on {level}", other.number);
        }
    }
}

/// A level that a plan writes, and its first and last user key there.
type Written<'a> = (usize, &'a [u8], &'a [u8]);

fn written(plan: &CompactionPlan) -> impl Iterator<Item = Written<'_>> {
    let above = plan.proximal.iter().map(|place| (place.level, &place.smallest[..], &place.largest[..]));
    above.chain([(plan.output_level, &plan.smallest_user_key[..], &plan.largest_user_key[..])])
}

/// The entries, cut into the files of one level.
fn cut(plan: &CompactionPlan, entries: Vec<Entry>) -> Vec<Vec<Entry>> {
    let mut cutter = crate::compact::cut::OutputCutter::new(plan);
    let mut outputs: Vec<Vec<Entry>> = Vec::new();
    for entry in entries {
        let open = outputs.last().map(|o| o.len() as u64 * ENTRY_BYTES);
        if cutter.should_stop_before(&internal(&entry), open) || outputs.is_empty() {
            outputs.push(Vec::new());
        }
        outputs.last_mut().unwrap().push(entry);
    }
    outputs
}

#[test]
fn random_trees_keep_their_order_and_come_to_rest() {
    let seeds = std::env::var("ESKER_PICKER_SEEDS").map_or(60, |n| n.parse().expect("a number of seeds"));
    for seed in 0..seeds {
        let mut tree = Tree::new(seed);
        for i in 0..200 {
            tree.step();
            tree.check_what_is_shared();
            if i % 10 == 0 {
                tree.check_reads();
            }
        }
        tree.drain();
        tree.check_reads();
    }
}
