//! Scans of Esker and of RocksDB 11.8.1, step by step, over databases that were written alike.
//! Their answers must be equal.
//!
//! Most keys are deleted most of the time, by deletions of every kind. RocksDB's iterators keep
//! their first files and memtables. Before each step of an Esker iterator its super version is
//! replaced, mostly by a flush, so that each step moves to the new one. `ROUNDS=500 cargo test
//! --release -p esker-peer --test it scans -- --nocapture` is the long form; it prints the number
//! of answers compared.

use esker::options::{BottommostLevelCompaction, CompactRangeOptions, CompressionType, FlushOptions};
use esker::{Db, DbIterator, Options, ReadOptions, SstFileWriter, WriteOptions, builtin};
use esker_base::prefix;
use esker_peer::model_ops::write_to_esker;
use esker_peer::{
    CursorOptions, FamilySpec, PeerOp, RocksCursor, RocksDb, RocksSnapshot, WriteFlags, note, require,
};
use esker_testkit::{TempDir, seed};
use std::collections::BTreeSet;

const KEYS: usize = 150;
const FAMILY: &str = "default";
const ROCKS_FAMILY: &str = "merge_operator={id=stringappend;delimiter=,};prefix_extractor=rocksdb.FixedPrefix.2;\
                            write_buffer_size=65536;level0_file_num_compaction_trigger=4";
/// A key behind all others, written so that a flush has work.
const SIDE: &[u8] = b"zz";

fn key(i: usize) -> Vec<u8> {
    format!("{i:03}").into_bytes()
}

fn esker_options(rng: &mut fastrand::Rng) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.max_subcompactions = rng.u32(1..3);
    let cf = &mut options.cf;
    cf.merge_operator = builtin::merge_operator("stringappend");
    cf.prefix_extractor = Some(prefix::fixed(2));
    cf.compression = CompressionType::None;
    cf.table.block_size = 128;
    cf.write_buffer_size = 64 << 10;
    if rng.u8(..4) > 0 {
        cf.deleted_run_memory_min_keys = rng.u64(1..6);
        cf.deleted_run_block_min_entries = rng.u64(1..6);
    }
    cf.max_sequential_skip_in_iterations = rng.u64(0..9);
    cf.level0_file_num_compaction_trigger = 2 + rng.i32(0..6);
    cf.level0_slowdown_writes_trigger = 1000;
    cf.level0_stop_writes_trigger = 1000;
    cf.num_levels = 2 + rng.i32(0..5);
    cf.target_file_size_base = 1 << rng.u32(8..13);
    cf.max_bytes_for_level_base = 4 << 10;
    cf.level_compaction_dynamic_level_bytes = rng.bool();
    options
}

/// One iterator of each engine, over the same point in time.
struct Both<'a> {
    esker: DbIterator,
    rocks: RocksCursor<'a>,
    is_valid: bool,
    forward: bool,
    /// Whether seeks to an end are compared. With bounds and by prefix, RocksDB reaches an end
    /// through the bound, and stays within the bound's prefix.
    has_ends: bool,
    what: String,
}

impl Both<'_> {
    /// Moves both iterators alike. Returns the name of the move.
    fn step(&mut self, rng: &mut fastrand::Rng) -> &'static str {
        self.forward ^= rng.u8(..8) == 0;
        let forward = self.forward;
        if self.is_valid && rng.u8(..20) > 0 {
            self.rocks.step(forward);
            if forward {
                self.esker.next()
            } else {
                self.esker.prev()
            }
            return if forward { "next" } else { "prev" };
        }
        let target = key(rng.usize(..KEYS));
        if self.has_ends && rng.u8(..4) == 0 {
            self.rocks.seek_to_end(forward);
            if forward {
                self.esker.seek_to_first()
            } else {
                self.esker.seek_to_last()
            }
            return "to an end";
        }
        self.rocks.seek(&target, forward);
        if forward {
            self.esker.seek(&target)
        } else {
            self.esker.seek_for_prev(&target)
        }
        "seek"
    }

    fn compare(&mut self, moved: &str) {
        let expected = self.rocks.pair().expect("RocksDB reads");
        self.esker.status().expect("Esker reads");
        let found = self.esker.item().map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert!(
            found == expected,
            "{moved} of {}: Esker {}, RocksDB {}",
            self.what,
            shown(&found),
            shown(&expected)
        );
        self.is_valid = found.is_some();
    }
}

fn shown(pair: &Option<(Vec<u8>, Vec<u8>)>) -> String {
    match pair {
        Some((key, value)) => format!("{}={}", key.escape_ascii(), value.escape_ascii()),
        None => "nothing".to_owned(),
    }
}

/// Snapshots of both engines at the same point in time.
struct ReadPoint<'a> {
    esker: esker::Snapshot,
    rocks: RocksSnapshot<'a>,
}

/// Both databases, and their open snapshots and iterators.
struct ContentsPair<'a> {
    esker: Db,
    options: Options,
    rocks: &'a RocksDb,
    dir: &'a TempDir,
    files: usize,
    /// Live keys among those that single deletions take.
    single: BTreeSet<usize>,
    points: Vec<ReadPoint<'a>>,
    open: Vec<Both<'a>>,
    answers: u64,
    super_versions: u64,
}

impl<'a> ContentsPair<'a> {
    /// Whether a key is only ever put while absent and single-deleted while present.
    fn is_single(i: usize) -> bool {
        i % 10 == 7
    }

    fn write(&self, ops: &[PeerOp]) {
        write_to_esker(&self.esker, ops, &WriteOptions::default()).expect("Esker writes");
        self.rocks.write(ops, WriteFlags::default()).expect("RocksDB writes");
    }

    fn put(&mut self, i: usize, value: String) -> Option<PeerOp> {
        let is_wanted = !ContentsPair::is_single(i) || self.single.insert(i);
        is_wanted.then(|| PeerOp::Put { family: FAMILY.to_owned(), key: key(i), value: value.into_bytes() })
    }

    fn delete(&mut self, i: usize) -> Option<PeerOp> {
        let family = FAMILY.to_owned();
        match ContentsPair::is_single(i) {
            false => Some(PeerOp::Delete { family, key: key(i) }),
            true => self.single.remove(&i).then(|| PeerOp::SingleDelete { family, key: key(i) }),
        }
    }

    fn change(&mut self, rng: &mut fastrand::Rng, step: usize) {
        let i = rng.usize(..KEYS);
        let end = (i + rng.usize(1..60)).min(KEYS);
        let family = FAMILY.to_owned();
        let ops: Vec<PeerOp> = match rng.u8(..20) {
            0..4 => self.put(i, format!("{step}{}", "x".repeat(rng.usize(..60)))).into_iter().collect(),
            4 | 5 if !ContentsPair::is_single(i) => {
                vec![PeerOp::Merge { family, key: key(i), operand: format!("m{step}").into_bytes() }]
            }
            6..8 => (i..end).filter_map(|i| self.put(i, format!("run{step}"))).collect(),
            8 | 9 => {
                // A key must not get both single deletions and range deletions.
                let end = (i..end).find(|i| ContentsPair::is_single(*i)).unwrap_or(end);
                vec![PeerOp::DeleteRange { family, begin: key(i), end: key(end) }]
            }
            10 => return self.ingest(rng, step, i, end),
            _ => (i..end).filter_map(|i| self.delete(i)).collect(),
        };
        self.write(&ops);
    }

    /// Ingests one file, which Esker wrote, into both.
    fn ingest(&mut self, rng: &mut fastrand::Rng, step: usize, begin: usize, end: usize) {
        let path = self.dir.path().join(format!("outside{}", self.files));
        self.files += 1;
        let mut writer = SstFileWriter::new(&self.options);
        writer.open(&path).expect("created");
        for i in (begin..end).filter(|i| !ContentsPair::is_single(*i)) {
            if rng.u8(..3) == 0 {
                writer.put(key(i), format!("in{step}")).expect("put");
            } else {
                writer.delete(key(i)).expect("deleted");
            }
        }
        if writer.finish().is_err() {
            return;
        }
        self.rocks
            .ingest_external_files(FAMILY, std::slice::from_ref(&path), false)
            .expect("RocksDB ingests");
        self.esker.ingest_external_file(&[path]).expect("Esker ingests");
    }

    fn arrange(&mut self, rng: &mut fastrand::Rng) {
        match rng.u8(..10) {
            0 => self.rocks.flush(FAMILY).expect("RocksDB flushes"),
            1 if rng.u8(..4) == 0 => self.rocks.compact(FAMILY),
            2 => {
                let (a, b) = (key(rng.usize(..KEYS)), key(rng.usize(..KEYS)));
                let family = self.esker.default_column_family();
                let compact = CompactRangeOptions::default();
                let range = (Some(a.min(b.clone())), Some(b));
                let range = (range.0.as_deref(), range.1.as_deref());
                self.esker.compact_range_opt(&compact, &family, range.0, range.1).expect("Esker compacts");
            }
            3..7 => {
                self.points.push(ReadPoint { esker: self.esker.snapshot(), rocks: self.rocks.snapshot() });
                if self.points.len() > 4 {
                    self.points.remove(0);
                }
            }
            7 if !self.points.is_empty() => drop(self.points.swap_remove(rng.usize(..self.points.len()))),
            _ => {}
        }
    }

    fn open(&mut self, rng: &mut fastrand::Rng) {
        let at = if rng.bool() { self.points.len() } else { rng.usize(..=self.points.len()) };
        let point = self.points.get(at);
        let options = CursorOptions {
            lower: (rng.u8(..4) == 0).then(|| key(rng.usize(..KEYS / 2))),
            upper: (rng.u8(..4) == 0).then(|| key(rng.usize(KEYS / 2..KEYS))),
            prefix_same_as_start: rng.u8(..6) == 0,
        };
        let mut read = ReadOptions::new();
        if let Some(point) = point {
            read = read.snapshot(&point.esker);
        }
        (read.iterate_lower_bound, read.iterate_upper_bound) = (options.lower.clone(), options.upper.clone());
        read.prefix_same_as_start = options.prefix_same_as_start;
        read.total_order_seek = !options.prefix_same_as_start;
        let has_ends = !options.prefix_same_as_start || options.lower.is_none() && options.upper.is_none();
        let what = format!("{options:?}, a snapshot: {}", point.is_some());
        let esker = self.esker.iter_opt(read, &self.esker.default_column_family()).expect("Esker iterates");
        let rocks = self.rocks.cursor(FAMILY, options, point.map(|point| &point.rocks));
        self.open.push(Both { esker, rocks, is_valid: false, forward: rng.bool(), has_ends, what });
        if self.open.len() > 6 {
            self.open.swap_remove(rng.usize(..6));
        }
    }

    /// Replaces Esker's super version.
    fn change_super_version(&mut self, rng: &mut fastrand::Rng, step: usize) {
        self.super_versions += 1;
        if rng.u8(..3) == 0 {
            let skips = rng.usize(..9).to_string();
            let family = self.esker.default_column_family();
            let changed = self.esker.set_options(&family, &[("max_sequential_skip_in_iterations", &skips)]);
            return changed.expect("it may be changed");
        }
        if rng.u8(..6) == 0 {
            // Files of the last level without newer data above them are rewritten alone.
            let compact = CompactRangeOptions {
                bottommost_level_compaction: BottommostLevelCompaction::Force,
                ..CompactRangeOptions::default()
            };
            let at = key(rng.usize(..KEYS));
            let family = self.esker.default_column_family();
            let compacted = self.esker.compact_range_opt(&compact, &family, Some(&at), Some(&at));
            return compacted.expect("Esker compacts");
        }
        let value = format!("side{step}").into_bytes();
        self.write(&[PeerOp::Put { family: FAMILY.to_owned(), key: SIDE.to_vec(), value }]);
        let flush = FlushOptions { wait: rng.u8(..4) > 0, ..FlushOptions::default() };
        self.esker.flush_opt(&flush, &[&self.esker.default_column_family()]).expect("Esker flushes");
    }

    /// Moves all iterators in turn, each mostly in one direction. Each step sees another super
    /// version.
    fn walk(&mut self, rng: &mut fastrand::Rng, step: usize) {
        if self.open.is_empty() {
            return;
        }
        for _ in 0..rng.usize(1..40) {
            self.change_super_version(rng, step);
            for both in &mut self.open {
                let moved = both.step(rng);
                both.compare(moved);
                self.answers += 1;
            }
        }
    }

    fn run(&mut self, rng: &mut fastrand::Rng, steps: usize) {
        for step in 0..steps {
            match rng.u8(..10) {
                0..4 => self.change(rng, step),
                4 => self.arrange(rng),
                5 => self.open(rng),
                _ => self.walk(rng, step),
            }
        }
    }
}

#[test]
fn scans_find_what_rocksdb_finds_whichever_super_version_they_stand_on() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let (mut answers, mut super_versions) = (0, 0);
    seed::for_each_seed("peer-scans", 2, |_, mut rng| {
        let dir = TempDir::new("peer-scans");
        let family = FamilySpec::new(FAMILY, ROCKS_FAMILY);
        let rocks =
            RocksDb::open(&dir.path().join("rocks"), "create_if_missing=true", &[family]).expect("opens");
        let options = esker_options(&mut rng);
        let esker = Db::open(&options, dir.path().join("esker")).expect("opens");
        let mut pair = ContentsPair {
            esker,
            options,
            rocks: &rocks,
            dir: &dir,
            files: 0,
            single: BTreeSet::new(),
            points: Vec::new(),
            open: Vec::new(),
            answers: 0,
            super_versions: 0,
        };
        // RocksDB's compactions merge through a snapshot with number 0. A database with only
        // ingested files would give that number to its snapshots.
        pair.write(&[PeerOp::Put { family: FAMILY.to_owned(), key: SIDE.to_vec(), value: Vec::new() }]);
        pair.run(&mut rng, 300);
        answers += pair.answers;
        super_versions += pair.super_versions;
    });
    note(&format!(
        "scans beside RocksDB: {answers} answers compared, {super_versions} changes of super versions, 0 differences"
    ));
}
