//! Tests with levels as text and plans as text, and random trees that must keep their order
//! (`simulation`).
//!
//! Example of a level: `L1 7:a-f,64M 8:g-k,64M,marked`. The parts of a file: number, first and last
//! user key, then bytes (K, M, G) and `seq=FROM-TO` (its number otherwise), `epoch=N`, `marked`,
//! `time=SECONDS` (oldest ancestor), `created=SECONDS`, `entries=N`, `deletions=N`, `versions=N`
//! (older ones of its keys), `end` (a range tombstone ends it, exclusive).

mod incremental;
mod simulation;

use super::manual::{ManualCompaction, ManualStep, pick_files};
use super::score::scores;
use super::*;
use crate::options::value::OptionValue;
use crate::options::{CompactionStopStyle, RangeOpt};
use crate::tests::CountingComparator;
use crate::version::builder::VersionBuilder;
use crate::version::file_meta::{FileMeta, FileStats, ObsoleteFiles};
use esker_base::{ColumnFamilyId, FileNumber, Result, SequenceNumber, ValueType};
use esker_format::compression::CompressionType;
use esker_format::key::{self, InternalKeyComparator, internal_key};
use esker_format::version_edit::{BlobFileAddition, FileMetaData, VersionEdit};
use esker_testkit::data_driven::{Case, run_dir};
use std::collections::BTreeSet;
use std::fmt::Write;

fn bytes(text: &str) -> u64 {
    let (digits, unit) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) => (digits, text.as_bytes()[text.len() - 1]),
        None => (text, b' '),
    };
    let shift = match unit {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        _ => 0,
    };
    digits.parse::<u64>().unwrap_or_else(|_| panic!("bytes: {text}")) << shift
}

fn human(bytes: u64) -> String {
    match bytes {
        u64::MAX => "max".to_owned(),
        b if b > 0 && b % (1 << 20) == 0 => format!("{}M", b >> 20),
        b => b.to_string(),
    }
}

fn parse_file(text: &str) -> (FileMetaData, Option<FileStats>) {
    let (number, rest) = text.split_once(':').unwrap_or_else(|| panic!("file: {text}"));
    let mut parts = rest.split(',');
    let (from, to) = parts.next().and_then(|r| r.split_once('-')).unwrap_or_else(|| panic!("file: {text}"));
    let number: u64 = number.parse().unwrap();
    let mut f = FileMetaData {
        number: FileNumber(number),
        file_size: 1,
        smallest_seqno: SequenceNumber(number),
        largest_seqno: SequenceNumber(number),
        epoch_number: number,
        ..FileMetaData::default()
    };
    let mut stats = None;
    let mut exclusive = false;
    for part in parts {
        match part.split_once('=') {
            None if part == "marked" => f.marked_for_compaction = true,
            None if part == "end" => exclusive = true,
            None => f.file_size = bytes(part),
            Some(("seq", range)) => {
                let (a, b) = range.split_once('-').unwrap_or((range, range));
                f.smallest_seqno = SequenceNumber(a.parse().unwrap());
                f.largest_seqno = SequenceNumber(b.parse().unwrap());
            }
            Some((name, value)) => {
                let value: u64 = value.parse().unwrap();
                match name {
                    "epoch" => f.epoch_number = value,
                    "blob" => f.oldest_blob_file_number = Some(FileNumber(value)),
                    "time" => f.oldest_ancestor_time = value,
                    "created" => f.file_creation_time = value,
                    "entries" => stats.get_or_insert_with(FileStats::default).entries = value,
                    "deletions" => stats.get_or_insert_with(FileStats::default).deletions = value,
                    "versions" => {
                        stats.get_or_insert_with(FileStats::default).older_versions = Some(value);
                    }
                    _ => panic!("file: {text}"),
                }
            }
        }
    }
    f.smallest = internal_key(from.as_bytes(), f.largest_seqno, ValueType::Value);
    f.largest = internal_key(to.as_bytes(), f.smallest_seqno, ValueType::Value);
    if exclusive {
        f.largest = internal_key(to.as_bytes(), SequenceNumber::MAX, ValueType::RangeDeletion);
        assert_eq!(key::trailer(&f.largest), key::RANGE_END_SENTINEL);
    }
    if let Some(s) = &mut stats {
        (s.raw_key_bytes, s.raw_value_bytes) =
            (10 * s.entries, 90 * (s.entries - s.deletions.min(s.entries)));
    }
    (f, stats)
}

fn parse_blob_file(text: &str) -> BlobFileAddition {
    let (number, size) = text.split_once(':').unwrap_or_else(|| panic!("blob file: {text}"));
    BlobFileAddition {
        number: FileNumber(number.parse().unwrap()),
        total_blob_count: 1,
        total_blob_bytes: bytes(size),
        ..BlobFileAddition::default()
    }
}

fn parse_version(case: &Case) -> Arc<Version> {
    let levels = case.value("levels").unwrap_or(7);
    let base = Version::empty(ColumnFamilyId::DEFAULT, InternalKeyComparator::default(), levels);
    let mut edit = VersionEdit::default();
    let mut all_stats = Vec::new();
    for line in case.lines() {
        let mut words = line.split_whitespace();
        if let Some(blobs) = line.strip_prefix("blobs ") {
            edit.blob_file_additions.extend(blobs.split_whitespace().map(parse_blob_file));
            continue;
        }
        let level: usize = words.next().and_then(|w| w.strip_prefix('L')).unwrap().parse().unwrap();
        for word in words {
            if let Some((cursor, _)) = word.strip_prefix("cursor=").map(|c| (c, ())) {
                let key = internal_key(cursor.as_bytes(), SequenceNumber::MAX, ValueType::Value);
                edit.compact_cursors.push((level, key));
                continue;
            }
            let (file, stats) = parse_file(word);
            all_stats.extend(stats.map(|s| (file.number, s)));
            edit.new_files.push((level, file));
        }
    }
    let version = apply(&Arc::new(base), &edit).unwrap_or_else(|e| panic!("{}: {e}", case.place));
    for (number, stats) in all_stats {
        version.all_files().find(|(_, f)| f.number == number).unwrap().1.set_stats(stats);
    }
    version
}

fn apply(version: &Arc<Version>, edit: &VersionEdit) -> Result<Arc<Version>> {
    let locations = Arc::new(crate::version::builder::Locations::of(version));
    let mut builder = VersionBuilder::new(Arc::clone(version), locations);
    builder.apply(edit)?;
    Ok(builder.finish(0, &Arc::new(ObsoleteFiles::default()))?.version)
}

fn parse_options(case: &Case) -> PickerOptions {
    let mut o = PickerOptions::default();
    for (name, values) in &case.args {
        let text = values.first().map_or("true", String::as_str);
        match name.as_str() {
            "pri" => {
                o.compaction_pri = match text {
                    "size" => CompactionPri::ByCompensatedSize,
                    "oldest_largest" => CompactionPri::OldestLargestSeqFirst,
                    "oldest_smallest" => CompactionPri::OldestSmallestSeqFirst,
                    "ratio" => CompactionPri::MinOverlappingRatio,
                    "round_robin" => CompactionPri::RoundRobin,
                    _ => panic!("{}: pri={text}", case.place),
                }
            }
            "style" => o.compaction_style = OptionValue::parse(&format!("kCompactionStyle{text}")).unwrap(),
            "ratio" => o.universal.size_ratio = text.parse().unwrap(),
            "width" => o.universal.max_merge_width = text.parse().unwrap(),
            "amplification" => o.universal.max_size_amplification_percent = text.parse().unwrap(),
            "compressed" => o.universal.compression_size_percent = text.parse().unwrap(),
            "read_amp" => o.universal.max_read_amp = text.parse().unwrap(),
            "similar" => o.universal.stop_style = CompactionStopStyle::SimilarSize,
            "trivial_move" => o.universal.allow_trivial_move = true,
            "incremental" => o.universal.incremental = true,
            "stop" => o.level0_stop_writes_trigger = text.parse().unwrap(),
            "table_files" => o.fifo.max_table_files_size = bytes(text),
            "data_files" => o.fifo.max_data_files_size = bytes(text),
            "kv_ratio" => o.fifo.use_kv_ratio_compaction = true,
            "allow_compaction" => o.fifo.allow_compaction = true,
            "buffer" => o.write_buffer_size = bytes(text),
            "static" => o.level_compaction_dynamic_level_bytes = false,
            "trigger" => o.level0_file_num_compaction_trigger = text.parse().unwrap(),
            "base" => o.max_bytes_for_level_base = bytes(text),
            "multiplier" => o.max_bytes_for_level_multiplier = text.parse().unwrap(),
            "target" => o.target_file_size_base = bytes(text),
            "target_multiplier" => o.target_file_size_multiplier = text.parse().unwrap(),
            "max_compaction" => o.max_compaction_bytes = bytes(text),
            "ttl" => o.ttl = text.parse().unwrap(),
            "periodic" => o.periodic_compaction_seconds = text.parse().unwrap(),
            "delay" => o.bottommost_file_compaction_delay = text.parse().unwrap(),
            "filter" => o.has_compaction_filter = true,
            "bottommost_zstd" => o.bottommost_compression = Some(CompressionType::Zstd),
            _ => panic!("{}: option {name}", case.place),
        }
    }
    o
}

/// The context of a new family: no snapshot was released, and no files are suggested.
fn at_rest<'a>(options: &'a PickerOptions, running: &'a RunningCompactions) -> PickContext<'a> {
    PickContext {
        options,
        running,
        now_seconds: 0,
        seconds_ahead: 0,
        oldest_snapshot: SequenceNumber::ZERO,
        oldest_live: SequenceNumber::MAX,
        suggested: &NONE_SUGGESTED,
    }
}

fn describe(plan: &CompactionPlan) -> String {
    let mut out = String::new();
    for inputs in &plan.inputs {
        let numbers: Vec<String> = inputs.files.iter().map(|f| f.number.to_string()).collect();
        write!(out, "L{}: {} ", inputs.level, numbers.join(" ")).unwrap();
    }
    write!(out, "-> L{} {}", plan.output_level, plan.reason.as_str()).unwrap();
    for (is, word) in [
        (plan.is_trivial_move, "move"),
        (plan.is_bottommost, "bottommost"),
        (plan.is_full, "full"),
        (plan.is_manual, "manual"),
        (plan.is_deletion, "deleted"),
        (plan.never_compress, "uncompressed"),
    ] {
        if is {
            write!(out, " {word}").unwrap();
        }
    }
    if !plan.grandparents.is_empty() {
        let numbers: Vec<String> = plan.grandparents.iter().map(|f| f.number.to_string()).collect();
        write!(out, " grandparents {}", numbers.join(" ")).unwrap();
    }
    if let Some((level, cursor)) = &plan.compact_cursor {
        write!(out, " cursor L{level} {}", key::user_key(cursor).escape_ascii()).unwrap();
    }
    out
}

struct Bench {
    version: Arc<Version>,
    options: PickerOptions,
    running: RunningCompactions,
    ids: Vec<RunningId>,
}

impl Bench {
    fn run(&mut self, case: &Case) -> String {
        match case.command.as_str() {
            "options" => {
                self.options = parse_options(case);
                String::new()
            }
            "define" => {
                self.version = parse_version(case);
                self.finish_all();
                String::new()
            }
            "scores" => self.scores(),
            "pick" => self.pick(case),
            "finish" => {
                self.finish_all();
                String::new()
            }
            "compact_range" => self.compact_range(case),
            "compact_files" => self.compact_files(case),
            "cut" => self.cut(case),
            other => panic!("{}: {other}", case.place),
        }
    }

    fn finish_all(&mut self) {
        for id in self.ids.drain(..) {
            self.running.finish(id);
        }
        assert!(self.running.is_empty());
    }

    fn scores(&self) -> String {
        let s = scores(&self.version, &self.options, &self.running);
        let mut out = format!("base L{}", s.base_level);
        if let Some(level) = s.sizes.lowest_unnecessary_level {
            write!(out, ", unnecessary to L{level}").unwrap();
        }
        let max: Vec<String> = s.sizes.max_bytes.iter().map(|&b| human(b)).collect();
        write!(out, "\nmax {}\n", max.join(" ")).unwrap();
        for (score, level) in s.by_urgency.iter().filter(|(score, _)| *score > 0.0) {
            writeln!(out, "L{level} {score:.3}").unwrap();
        }
        write!(out, "pending {}", human(s.estimated_pending_compaction_bytes)).unwrap();
        out
    }

    /// Picks until no compaction is left, while earlier plans keep running; with `once`, picks only
    /// one plan.
    fn pick(&mut self, case: &Case) -> String {
        let mut out = String::new();
        let numbers = |name: &str| {
            let numbers = case.arg(name).unwrap_or_default().iter();
            numbers.map(|n| FileNumber(n.parse().unwrap())).collect::<BTreeSet<_>>()
        };
        let (mut suggested, mut hot) = (numbers("suggested"), numbers("hot"));
        for (_, file) in self.version.all_files().filter(|(_, file)| hot.contains(&file.number)) {
            assert!(file.add_wasted_reads(1, 0.0), "{}", case.place);
        }
        suggested.append(&mut hot);
        loop {
            let context = PickContext {
                options: &self.options,
                running: &self.running,
                now_seconds: case.value("now").unwrap_or(0),
                seconds_ahead: case.value("ahead").unwrap_or(0),
                oldest_snapshot: SequenceNumber(case.value("snapshot").unwrap_or(0)),
                oldest_live: SequenceNumber::MAX,
                suggested: &suggested,
            };
            let Some(plan) = pick(&self.version, &context) else { break };
            assert!(needs_compaction(&self.version, &context), "{}", case.place);
            writeln!(out, "{}", describe(&plan)).unwrap();
            self.ids.push(self.running.start(&plan));
            if case.has("once") {
                break;
            }
        }
        if out.is_empty() { "nothing".to_owned() } else { out }
    }

    fn compact_range(&mut self, case: &Case) -> String {
        let kind = match case.arg("bottommost").and_then(<[String]>::first).map(String::as_str) {
            None => BottommostLevelCompaction::IfHaveCompactionFilter,
            Some("skip") => BottommostLevelCompaction::Skip,
            Some("force") => BottommostLevelCompaction::Force,
            Some("force_optimized") => BottommostLevelCompaction::ForceOptimized,
            Some(other) => panic!("{}: {other}", case.place),
        };
        let key = |name| case.arg(name).and_then(<[String]>::first).map(String::as_bytes);
        let mut next_file = 1 + self.version.all_files().map(|(_, f)| f.number.0).max().unwrap_or(0);
        let mut manual =
            ManualCompaction::new(key("begin"), key("end"), kind, FileNumber(next_file), Vec::new());
        let mut out = String::new();
        loop {
            match manual.next(&self.version, &self.options, &self.running) {
                ManualStep::Done => return out + "done",
                ManualStep::Conflict => return out + "conflict",
                ManualStep::Run(plan) => {
                    writeln!(out, "{}", describe(&plan)).unwrap();
                    self.version = apply(&self.version, &outcome(&plan, &mut next_file)).unwrap();
                }
            }
        }
    }

    fn compact_files(&mut self, case: &Case) -> String {
        let files: Vec<FileNumber> =
            case.arg("files").unwrap_or_default().iter().map(|n| FileNumber(n.parse().unwrap())).collect();
        let to = case.value("to").unwrap();
        match pick_files(&self.version, &self.options, &self.running, &files, to, (None, false)) {
            Ok(plan) => describe(&plan),
            Err(e) => e.to_string(),
        }
    }

    /// Cuts the outputs of the next plan: each input line is a key and its bytes.
    fn cut(&mut self, case: &Case) -> String {
        let context = at_rest(&self.options, &self.running);
        let plan = pick(&self.version, &context).unwrap_or_else(|| panic!("{}: no plan", case.place));
        let mut cutter = crate::compact::cut::OutputCutter::new(&plan);
        let (mut out, mut open) = (String::new(), None);
        for word in case.input.split_whitespace() {
            let (user_key, size) = word.split_once(',').unwrap();
            let ikey = internal_key(user_key.as_bytes(), SequenceNumber(1), ValueType::Value);
            if cutter.should_stop_before(&ikey, open) {
                out.push_str("| ");
                open = None;
            }
            write!(out, "{user_key} ").unwrap();
            open = Some(open.unwrap_or(0) + bytes(size));
        }
        out.trim_end().to_owned()
    }
}

/// The edit of a finished plan: one output for all inputs, or the same files for a trivial move.
fn outcome(plan: &CompactionPlan, next_file: &mut u64) -> VersionEdit {
    if plan.is_trivial_move {
        return plan.trivial_move_edit();
    }
    let mut edit = plan.edit();
    let files = || plan.input_files().map(|(_, f)| f);
    let icmp = InternalKeyComparator::default();
    let smallest = files().map(|f| &f.smallest).min_by(|a, b| icmp.compare(a, b)).unwrap();
    let largest = files().map(|f| &f.largest).max_by(|a, b| icmp.compare(a, b)).unwrap();
    edit.new_files.push((
        plan.output_level,
        FileMetaData {
            number: FileNumber(*next_file),
            file_size: plan.input_bytes(),
            smallest: smallest.clone(),
            largest: largest.clone(),
            smallest_seqno: files().map(|f| f.smallest_seqno).min().unwrap(),
            largest_seqno: files().map(|f| f.largest_seqno).max().unwrap(),
            epoch_number: plan.epoch_number(),
            ..FileMetaData::default()
        },
    ));
    *next_file += 1;
    edit
}

#[test]
fn plans_are_as_the_files_of_cases_say() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/picker");
    let mut bench: Option<(std::path::PathBuf, Bench)> = None;
    run_dir(dir, |path, case| {
        if bench.as_ref().is_none_or(|(of, _)| of != path) {
            let version = Version::empty(ColumnFamilyId::DEFAULT, InternalKeyComparator::default(), 7);
            let fresh = Bench {
                version: Arc::new(version),
                options: PickerOptions::default(),
                running: RunningCompactions::default(),
                ids: Vec::new(),
            };
            bench = Some((path.to_owned(), fresh));
        }
        bench.as_mut().expect("a command before has set the bench").1.run(case)
    });
}

#[test]
fn a_snapshot_that_stays_below_the_threshold_makes_no_file_worth_rewriting() {
    let f = |text: &str| parse_file(text).0;
    let edit = VersionEdit {
        new_files: vec![
            (0, f("9:a-z,seq=90-99")),
            (5, f("1:a-c,seq=5-9")),
            (5, f("2:k-l,seq=5-19")),
            (6, f("3:a-c,seq=0-0")),
            (6, f("4:d-e,seq=1-30")),
        ],
        ..VersionEdit::default()
    };
    let base = Version::empty(ColumnFamilyId::DEFAULT, InternalKeyComparator::default(), 7);
    let version = apply(&Arc::new(base), &edit).unwrap();
    let (options, running) = (PickerOptions::default(), RunningCompactions::default());
    let found = |oldest_snapshot| {
        let context =
            PickContext { oldest_snapshot: SequenceNumber(oldest_snapshot), ..at_rest(&options, &running) };
        marked::bottommost(&version, &context).count()
    };
    for (oldest, threshold) in [(0, 19), (19, 19), (20, 30), (31, SequenceNumber::MAX.0)] {
        assert_eq!(
            snapshot_threshold(&version, CompactionStyle::Level, SequenceNumber(oldest)).0,
            threshold,
            "{oldest}"
        );
        let now = found(oldest);
        assert_eq!(
            found(threshold.min(50)),
            if threshold > 50 { 2 } else { now },
            "no further file is found up to the threshold"
        );
        if threshold < 50 {
            assert!(found(threshold + 1) > now, "more files are found beyond the threshold");
        }
    }
}

#[test]
fn a_file_waits_for_snapshots_as_soon_as_nothing_is_left_below_it_and_no_longer() {
    let file = |number: u64, range: &str| parse_file(&format!("{number}:{range},seq=5-9")).0;
    let base = Version::empty(ColumnFamilyId::DEFAULT, InternalKeyComparator::default(), 4);
    let new_files = vec![(1, file(1, "c-d")), (2, file(2, "a-e"))];
    let over_another = apply(&Arc::new(base), &VersionEdit { new_files, ..VersionEdit::default() }).unwrap();
    let (deleted_files, new_files) = (vec![(2, FileNumber(2))], vec![(3, file(3, "a-b"))]);
    let edit = VersionEdit { deleted_files, new_files, ..VersionEdit::default() };
    let waiting = |version| marked::waiting(version, 1).len();
    assert_eq!(waiting(&over_another), 0);
    let over_nothing = apply(&over_another, &edit).unwrap();
    assert_eq!(waiting(&over_nothing), 1);
    let new_files = vec![(3, file(4, "c-d"))];
    let again = apply(&over_nothing, &VersionEdit { new_files, ..VersionEdit::default() }).unwrap();
    assert_eq!(waiting(&again), 0);
}

/// RocksDB ends files between the versions of a key if they have timestamps. Level 6: `a` to `c`,
/// `c` to `d` and `d` to `e`, which share keys but for their timestamps; `f` to `g`.
fn files_that_share_keys() -> (Arc<Version>, impl Fn(&str, u64) -> Vec<u8>) {
    use esker_base::comparator::BytewiseComparatorWithU64Ts;
    let key = |key: &str, timestamp: u64| {
        let user_key = [key.as_bytes(), &timestamp.to_le_bytes()].concat();
        internal_key(&user_key, SequenceNumber(timestamp), ValueType::Value)
    };
    let file = |number: u64, smallest, largest| FileMetaData {
        smallest,
        largest,
        ..parse_file(&format!("{number}:-")).0
    };
    let edit = VersionEdit {
        new_files: vec![
            (6, file(1, key("a", 9), key("c", 7))),
            (6, file(2, key("c", 6), key("d", 5))),
            (6, file(3, key("d", 4), key("e", 3))),
            (6, file(4, key("f", 4), key("g", 3))),
        ],
        ..VersionEdit::default()
    };
    let icmp = InternalKeyComparator::new(Arc::new(BytewiseComparatorWithU64Ts));
    let base = Version::empty(ColumnFamilyId::DEFAULT, icmp, 7);
    let version = apply(&Arc::new(base), &edit).unwrap();
    (version, key)
}

#[test]
fn files_that_share_a_key_but_for_its_timestamp_are_compacted_together() {
    let (version, key) = files_that_share_keys();
    let one = inputs::overlapping(&version, 6, &key("a", 1), &key("b", 1));
    let numbers: Vec<_> = one.files.iter().map(|f| f.number.0).collect();
    assert_eq!(numbers, [1]);
    let all = inputs::clean_cut(&version, one);
    assert_eq!(all.files.iter().map(|f| f.number.0).collect::<Vec<_>>(), [1, 2, 3]);
    let within = inputs::clean_cut_within(&version, 6, &key("c", 6), &key("z", 0));
    assert_eq!(within.files.iter().map(|f| f.number.0).collect::<Vec<_>>(), [4]);
}

/// Level 0 has thousands of files, as after a repair or a load without compactions.
#[test]
fn a_pick_from_a_level_0_of_thousands_of_files_compares_each_a_few_times() {
    const FILES: u64 = 3000;
    let pick_from_level0 = |bounds: &dyn Fn(u64) -> (u64, u64), below: (u64, u64), in_order: bool| {
        let counting = Arc::new(CountingComparator::default());
        let mut ages: Vec<u64> = (1..=FILES).collect();
        if !in_order {
            fastrand::Rng::with_seed(7).shuffle(&mut ages);
        }
        let file = |age: u64, (from, to): (u64, u64)| parse_file(&format!("{age}:{from:08}-{to:08}")).0;
        let mut new_files: Vec<_> =
            (0..FILES).zip(&ages).map(|(i, age)| (0, file(*age, bounds(i)))).collect();
        new_files.push((6, file(FILES + 1, below)));
        let base = Version::empty(ColumnFamilyId::DEFAULT, InternalKeyComparator::new(counting.clone()), 7);
        let version = apply(&Arc::new(base), &VersionEdit { new_files, ..VersionEdit::default() }).unwrap();
        let (options, running) = (PickerOptions::default(), RunningCompactions::default());
        let context = at_rest(&options, &running);
        prepare(&version, &options, 0);
        let mut plan = None;
        let compared = counting.in_work(|| plan = pick(&version, &context));
        let plan = plan.unwrap();
        (plan.inputs[0].files.len() as u64, plan.is_trivial_move, compared / FILES)
    };
    // Each file shares a key with the next.
    let (taken, _, compared) = pick_from_level0(&|i| (2 * i, 2 * i + 2), (0, 90_000_000), false);
    assert_eq!(taken, FILES);
    assert!(compared < 60, "{compared} times");
    // Each file lies behind all older files.
    let (taken, moves, compared) = pick_from_level0(&|i| (2 * i, 2 * i + 1), (90_000_000, 90_000_001), true);
    assert_eq!((taken, moves), (FILES, true));
    assert!(compared < 60, "{compared} times");
}

/// A level with thousands of small files lies over a level with as many, and compactions have no
/// size limit.
#[test]
fn a_pick_from_a_sorted_level_of_thousands_of_files_looks_at_each_a_few_times() {
    const FILES: u64 = 3000;
    let counting = Arc::new(CountingComparator::default());
    let at = |level: usize, number: u64, i: u64| {
        (level, parse_file(&format!("{number}:{:08}-{:08},1M", 2 * i, 2 * i + 1)).0)
    };
    let new_files = (0..FILES).flat_map(|i| [at(5, i + 1, i), at(6, FILES + i + 1, i)]).collect();
    let base = Version::empty(ColumnFamilyId::DEFAULT, InternalKeyComparator::new(counting.clone()), 7);
    let version = apply(&Arc::new(base), &VersionEdit { new_files, ..VersionEdit::default() }).unwrap();
    let options = PickerOptions {
        compaction_pri: CompactionPri::RoundRobin,
        max_compaction_bytes: u64::MAX / 4,
        ..PickerOptions::default()
    };
    let running = RunningCompactions::default();
    let context = at_rest(&options, &running);
    prepare(&version, &options, 0);
    let cost = |pick: &dyn Fn() -> CompactionPlan| {
        let looks = || counting.count() + inputs::SUMMED.get();
        let before = looks();
        let plan = pick();
        (plan.inputs[0].files.len() as u64, (looks() - before) / FILES)
    };
    let (taken, looks) = cost(&|| pick(&version, &context).unwrap());
    assert!(taken > FILES / 2 && looks < 100, "{taken} files, each looked at {looks} times");
    let (taken, looks) = cost(&|| {
        let bottommost = BottommostLevelCompaction::Skip;
        let mut manual =
            ManualCompaction::new(Some(b"0"), None, bottommost, FileNumber(3 * FILES), Vec::new());
        match manual.next(&version, &options, &running) {
            ManualStep::Run(plan) => *plan,
            other => panic!("{other:?}"),
        }
    });
    assert!(taken == FILES && looks < 100, "{taken} files, each looked at {looks} times");
}

#[test]
fn whole_files_are_those_within_a_range_that_share_no_key_with_others() {
    let (version, _) = files_that_share_keys();
    let mut running = RunningCompactions::default();
    let pick = |running: &RunningCompactions, ranges: &[RangeOpt<'_>], include_end| {
        whole_files::pick_whole_files(&version, &PickerOptions::default(), running, ranges, include_end)
    };
    let numbers = |ranges: &[(&'static str, &'static str)], include_end| {
        let key = |key: &'static str| (!key.is_empty()).then_some(key.as_bytes());
        let ranges: Vec<_> = ranges.iter().map(|(a, b)| RangeOpt { start: key(a), limit: key(b) }).collect();
        let plan = pick(&RunningCompactions::default(), &ranges, include_end);
        plan.map_or(vec![], |plan| plan.input_files().map(|(_, f)| f.number.0).collect())
    };
    assert_eq!(numbers(&[("", "")], true), [1, 2, 3, 4]);
    assert_eq!(numbers(&[("a", "e")], true), [1, 2, 3]);
    assert_eq!(
        numbers(&[("a", "e")], false),
        [],
        "the third file reaches the end, and the others share keys with it"
    );
    assert_eq!(numbers(&[("", "d")], true), []);
    assert_eq!(numbers(&[("d", "")], true), [4]);
    assert_eq!(numbers(&[("b", "h")], true), [4]);
    assert_eq!(numbers(&[("f", "h"), ("", ""), ("a", "e")], true), [1, 2, 3, 4], "each file is named once");
    assert_eq!(numbers(&[], true), []);
    // Files that are being compacted stay.
    let plan = pick(&running, &[RangeOpt { start: Some(b"f"), limit: None }], true).unwrap();
    assert!(plan.is_deletion);
    running.start(&plan);
    let others = pick(&running, &[RangeOpt::default()], true).unwrap();
    assert_eq!(others.input_files().map(|(_, f)| f.number.0).collect::<Vec<_>>(), [1, 2, 3]);
    running.start(&others);
    assert!(pick(&running, &[RangeOpt::default()], true).is_none());
}

#[test]
fn each_path_takes_the_levels_or_runs_that_fit_and_the_last_one_the_rest() {
    let options = |style, sizes: &[u64]| PickerOptions {
        compaction_style: style,
        max_bytes_for_level_base: 100,
        max_bytes_for_level_multiplier_additional: vec![1, 1],
        path_sizes: sizes.to_vec(),
        ..PickerOptions::default()
    };
    let by_level = |options: &PickerOptions| (0..5).map(|l| options.output_path(l, 7)).collect::<Vec<_>>();
    let level = |sizes: &[u64]| options(CompactionStyle::Level, sizes);
    assert_eq!(by_level(&level(&[])), [0; 5]);
    assert_eq!(by_level(&level(&[0])), [0; 5]);
    // Levels of 100, 100, 1,000 and 10,000 bytes.
    assert_eq!(by_level(&level(&[250, 2000, 5])), [0, 0, 1, 2, 2]);
    assert_eq!(by_level(&level(&[50, 500])), [1; 5]);
    assert_eq!(by_level(&level(&[50, 100, 150, 0])), [1, 2, 3, 3, 3]);
    assert_eq!(by_level(&level(&[u64::MAX, 1])), [0; 5]);
    let mut factors = level(&[250, 2000, 5]);
    factors.max_bytes_for_level_multiplier_additional = vec![1, 3];
    assert_eq!(by_level(&factors), [0, 0, 2, 2, 2], "level 2 has 3,000 bytes");
    let universal = options(CompactionStyle::Universal, &[100, 1000, 1]);
    let by_size: Vec<_> =
        [1, 50, 60, 100, 500, 999, 2000, u64::MAX].map(|n| universal.output_path(6, n)).into();
    assert_eq!(by_size, [0, 0, 1, 1, 1, 2, 2, 2]);
    assert_eq!(options(CompactionStyle::Fifo, &[1, 1]).output_path(0, 7), 0);
}
