//! Scans show the contents of a sorted map at their point in time, after any later writes and with
//! any remembered deleted runs. Random histories of small key spaces, in which most keys are
//! deleted most of the time.

use esker::internals::base::prefix;
use esker::internals::env::mem::MemFs;
use esker::internals::table::FilterPolicy;
use esker::options::{BottommostLevelCompaction, CompactRangeOptions};
use esker::{
    ColumnFamilyId, Db, DbIterator, Env, Options, ReadOptions, Snapshot, SstFileWriter, WriteBatch,
    WriteBatchWithIndex,
};
use esker_testkit::seed;
use std::collections::BTreeMap;
use std::sync::Arc;

const KEYS: usize = 120;
const FAMILY: ColumnFamilyId = ColumnFamilyId(0);
type Model = BTreeMap<String, String>;

fn key(i: usize) -> String {
    format!("{i:03}")
}

fn options(rng: &mut fastrand::Rng) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.max_background_jobs = 2;
    options.db.max_subcompactions = rng.u32(1..3);
    let cf = &mut options.cf;
    cf.merge_operator = esker::builtin::merge_operator("stringappend");
    cf.prefix_extractor = Some(prefix::fixed(2));
    cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    cf.table.block_size = 128;
    cf.write_buffer_size = 64 << 10;
    cf.deleted_run_memory_min_keys = rng.u64(1..4);
    cf.deleted_run_block_min_entries = rng.u64(0..4);
    cf.max_sequential_skip_in_iterations = rng.u64(0..4);
    cf.level0_file_num_compaction_trigger = 2 + rng.i32(0..4);
    cf.level0_slowdown_writes_trigger = 1000;
    cf.level0_stop_writes_trigger = 1000;
    cf.num_levels = 2 + rng.i32(0..5);
    cf.target_file_size_base = 1 << rng.u32(8..13);
    cf.max_bytes_for_level_base = 4 << 10;
    cf.level_compaction_dynamic_level_bytes = rng.bool();
    cf.enable_blob_files = rng.bool();
    cf.min_blob_size = 40;
    options
}

/// One cursor, its expected contents and its expected position.
struct Watched {
    iter: DbIterator,
    model: Arc<Model>,
    snapshot: Option<Snapshot>,
    bounds: (Option<String>, Option<String>),
    by_prefix: bool,
    /// The entries that the last seek may show; `at` is the position in them.
    shown: Vec<(String, String)>,
    at: Option<usize>,
}

impl Watched {
    fn new(db: &Db, model: Arc<Model>, snapshot: Option<Snapshot>, rng: &mut fastrand::Rng) -> Watched {
        let mut options = ReadOptions::new();
        if let Some(snapshot) = &snapshot {
            options = options.snapshot(snapshot);
        }
        let bounds = (
            (rng.u8(..4) == 0).then(|| key(rng.usize(..KEYS / 2))),
            (rng.u8(..4) == 0).then(|| key(rng.usize(KEYS / 2..KEYS))),
        );
        let by_prefix = rng.u8(..6) == 0;
        if let Some(lower) = &bounds.0 {
            options = options.lower_bound(lower.as_bytes());
        }
        if let Some(upper) = &bounds.1 {
            options = options.upper_bound(upper.as_bytes());
        }
        options.prefix_same_as_start = by_prefix;
        options.pin_data = rng.u8(..6) == 0;
        let iter = db.iter_opt(options, &db.default_column_family()).unwrap();
        Watched { iter, model, snapshot, bounds, by_prefix, shown: Vec::new(), at: None }
    }

    fn allow(&mut self, prefix_of: Option<&str>) {
        let (lower, upper) = &self.bounds;
        let inside = |key: &str| {
            lower.as_deref().is_none_or(|lower| key >= lower)
                && upper.as_deref().is_none_or(|upper| key < upper)
                && prefix_of.is_none_or(|target| key[..2] == target[..2])
        };
        let pairs = self.model.iter().filter(|(key, _)| inside(key));
        self.shown = pairs.map(|(key, value)| (key.clone(), value.clone())).collect();
    }

    fn seek(&mut self, rng: &mut fastrand::Rng) {
        let target = key(rng.usize(..KEYS));
        let prefix_of = Some(target.as_str()).filter(|_| self.by_prefix);
        match rng.u8(..8) {
            0 => {
                self.allow(None);
                self.iter.seek_to_first();
                self.at = (!self.shown.is_empty()).then_some(0);
            }
            1 => {
                self.allow(None);
                self.iter.seek_to_last();
                self.at = self.shown.len().checked_sub(1);
            }
            2..5 => {
                self.allow(prefix_of);
                self.iter.seek(&target);
                let at = self.shown.partition_point(|(key, _)| *key < target);
                self.at = (at < self.shown.len()).then_some(at);
            }
            _ => {
                self.allow(prefix_of);
                self.iter.seek_for_prev(&target);
                self.at = self.shown.partition_point(|(key, _)| *key <= target).checked_sub(1);
            }
        }
        if self.by_prefix
            && let Some(at) = self.at
        {
            // The prefix at an end becomes the prefix to stay in.
            let found = self.shown[at].0.clone();
            self.allow(Some(&found));
            self.at = self.shown.iter().position(|(key, _)| *key == found);
        }
    }

    fn step(&mut self, rng: &mut fastrand::Rng) {
        let Some(at) = self.at.filter(|_| rng.u8(..5) > 0) else { return self.seek(rng) };
        if rng.bool() {
            self.iter.next();
            self.at = Some(at + 1).filter(|at| *at < self.shown.len());
        } else {
            self.iter.prev();
            self.at = at.checked_sub(1);
        }
    }

    fn check(&self, what: &str) {
        self.iter.status().unwrap();
        let found = self.iter.item().map(|(key, value)| {
            (String::from_utf8_lossy(key).into_owned(), String::from_utf8_lossy(value).into_owned())
        });
        let expected = self.at.map(|at| self.shown[at].clone());
        assert_eq!(found, expected, "{what}: bounds {:?} prefix {}", self.bounds, self.by_prefix);
    }
}

/// The database and its expected contents.
struct History {
    options: Options,
    db: Db,
    model: Model,
    files: usize,
    snapshots: Vec<(Snapshot, Arc<Model>)>,
    watched: Vec<Watched>,
    /// Whether the super version changes before every move of a cursor.
    changes_super_versions: bool,
    answers: u64,
}

impl History {
    fn new(rng: &mut fastrand::Rng) -> History {
        let options = options(rng);
        let db = Db::open(&options, "/db").unwrap();
        History {
            options,
            db,
            model: Model::new(),
            files: 0,
            snapshots: Vec::new(),
            watched: Vec::new(),
            changes_super_versions: rng.u8(..3) == 0,
            answers: 0,
        }
    }

    /// Whether key `i` is put only while absent, and deleted only by single deletions and ranges.
    fn is_single(i: usize) -> bool {
        i % 10 == 7
    }

    fn put(&mut self, i: usize, value: String) {
        if !(Self::is_single(i) && self.model.contains_key(&key(i))) {
            self.db.put(key(i), &value).unwrap();
            self.model.insert(key(i), value);
        }
    }

    fn delete(&mut self, batch: &mut WriteBatch, i: usize) {
        if !Self::is_single(i) {
            batch.delete_cf(FAMILY, key(i).as_bytes()).unwrap();
            self.model.remove(&key(i));
        } else if self.model.remove(&key(i)).is_some() {
            batch.single_delete_cf(FAMILY, key(i).as_bytes()).unwrap();
        }
    }

    fn write(&mut self, rng: &mut fastrand::Rng, step: usize) {
        let i = rng.usize(..KEYS);
        let end = (i + rng.usize(1..40)).min(KEYS);
        match rng.u8(..20) {
            0..5 => self.put(i, format!("{step}{}", "x".repeat(rng.usize(..60)))),
            5 if !Self::is_single(i) => {
                self.db.merge(key(i), format!("m{step}")).unwrap();
                let value = self.model.entry(key(i)).or_default();
                *value = if value.is_empty() { format!("m{step}") } else { format!("{value},m{step}") };
            }
            6 => (i..end).for_each(|i| self.put(i, format!("run{step}"))),
            7 | 8 => {
                self.db.delete_range(key(i), key(end)).unwrap();
                self.model.retain(|k, _| *k < key(i) || *k >= key(end));
            }
            9 => self.ingest(rng, step, i, end),
            _ => {
                let mut batch = WriteBatch::new();
                (i..end).for_each(|i| self.delete(&mut batch, i));
                self.db.write(&mut batch).unwrap();
            }
        }
    }

    fn ingest(&mut self, rng: &mut fastrand::Rng, step: usize, begin: usize, end: usize) {
        let path = format!("/outside{}", self.files);
        self.files += 1;
        let mut writer = SstFileWriter::new(&self.options);
        writer.open(&path).unwrap();
        for i in begin..end {
            if Self::is_single(i) {
            } else if rng.bool() {
                writer.put(key(i), format!("in{step}")).unwrap();
                self.model.insert(key(i), format!("in{step}"));
            } else {
                writer.delete(key(i)).unwrap();
                self.model.remove(&key(i));
            }
        }
        if writer.finish().is_ok() {
            self.db.ingest_external_file(&[path]).unwrap();
        }
    }

    fn arrange(&mut self, rng: &mut fastrand::Rng) {
        let family = self.db.default_column_family();
        match rng.u8(..12) {
            0..4 => self.db.flush().unwrap(),
            4 => {
                let force = CompactRangeOptions {
                    bottommost_level_compaction: BottommostLevelCompaction::Force,
                    ..CompactRangeOptions::default()
                };
                self.db.compact_range_opt(&force, &family, None, None).unwrap();
            }
            5 => {
                let (a, b) = (key(rng.usize(..KEYS)), key(rng.usize(..KEYS)));
                let (a, b) = (a.as_bytes(), b.as_bytes());
                let compact = CompactRangeOptions::default();
                self.db.compact_range_opt(&compact, &family, Some(a.min(b)), Some(a.max(b))).unwrap();
            }
            6 => {
                let change = rng.usize(0..5).to_string();
                let name =
                    ["max_sequential_skip_in_iterations", "deleted_run_block_min_entries"][rng.usize(..2)];
                // Some of the options cannot be changed.
                drop(self.db.set_options(&family, &[(name, &change)]));
            }
            7..10 => self.snapshots.push((self.db.snapshot(), Arc::new(self.model.clone()))),
            _ if !self.snapshots.is_empty() => {
                drop(self.snapshots.swap_remove(rng.usize(..self.snapshots.len())));
            }
            _ => {}
        }
        if self.snapshots.len() > 4 {
            self.snapshots.remove(0);
        }
    }

    fn open_iterator(&mut self, rng: &mut fastrand::Rng) {
        let point = if self.snapshots.is_empty() || rng.bool() {
            (None, Arc::new(self.model.clone()))
        } else {
            let (snapshot, model) = &self.snapshots[rng.usize(..self.snapshots.len())];
            (Some(snapshot.clone()), model.clone())
        };
        self.watched.push(Watched::new(&self.db, point.1, point.0, rng));
        if self.watched.len() > 6 {
            self.watched.swap_remove(rng.usize(..6));
        }
    }

    fn refresh_one(&mut self, rng: &mut fastrand::Rng) {
        if self.watched.is_empty() {
            return;
        }
        let at = rng.usize(..self.watched.len());
        let watched = &mut self.watched[at];
        match self.snapshots.first().filter(|_| rng.bool()) {
            Some((snapshot, model)) => {
                watched.iter.refresh_at(snapshot).unwrap();
                (watched.snapshot, watched.model) = (Some(snapshot.clone()), model.clone());
            }
            None => {
                watched.iter.refresh().unwrap();
                (watched.snapshot, watched.model) = (None, Arc::new(self.model.clone()));
            }
        }
        watched.at = None;
    }

    /// Reads a batch's own writes over the database, as of now or a snapshot, in both directions.
    fn look_through_a_batch(&self, rng: &mut fastrand::Rng) {
        let (mut own, mut options, mut model) =
            (WriteBatchWithIndex::default(), ReadOptions::new(), self.model.clone());
        if let Some((snapshot, of_snapshot)) = self.snapshots.first().filter(|_| rng.bool()) {
            options = options.snapshot(snapshot);
            model = of_snapshot.as_ref().clone();
        }
        for _ in 0..rng.usize(..30) {
            let i = rng.usize(..KEYS);
            if rng.u8(..4) == 0 {
                own.put_cf(FAMILY, key(i).as_bytes(), b"own").unwrap();
                model.insert(key(i), "own".to_owned());
            } else {
                own.delete_cf(FAMILY, key(i).as_bytes()).unwrap();
                model.remove(&key(i));
            }
        }
        let mut iter = own.iter_with_base(&self.db, &options, &self.db.default_column_family()).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (mut found, mut back) = (Vec::new(), Vec::new());
        iter.seek_to_first();
        while iter.valid() {
            found.push((text(iter.key()), text(iter.value())));
            iter.next();
        }
        iter.seek_to_last();
        while iter.valid() {
            back.insert(0, (text(iter.key()), text(iter.value())));
            iter.prev();
        }
        let expected: Vec<_> = model.into_iter().collect();
        assert_eq!(found, expected);
        assert_eq!(back, expected);
    }

    fn change_super_version(&mut self, rng: &mut fastrand::Rng, step: usize) {
        if rng.u8(..3) > 0 {
            let family = self.db.default_column_family();
            let skips = rng.usize(0..5).to_string();
            return self.db.set_options(&family, &[("max_sequential_skip_in_iterations", &skips)]).unwrap();
        }
        // A key behind all others.
        self.db.put("999", format!("{step}")).unwrap();
        self.model.insert("999".to_owned(), format!("{step}"));
        self.db.flush().unwrap();
    }

    fn reopen(&mut self) {
        self.watched.clear();
        self.snapshots.clear();
        self.db.close().unwrap();
        self.db = Db::open(&self.options, "/db").unwrap();
    }

    fn run(&mut self, rng: &mut fastrand::Rng, steps: usize) {
        for step in 0..steps {
            match rng.u16(..1000) {
                0..200 => self.write(rng, step),
                200..230 => self.arrange(rng),
                230..270 => self.open_iterator(rng),
                270..280 => self.refresh_one(rng),
                280..290 => self.look_through_a_batch(rng),
                290 if rng.u8(..4) == 0 => self.reopen(),
                _ if !self.watched.is_empty() => {
                    let at = rng.usize(..self.watched.len());
                    if self.changes_super_versions {
                        self.change_super_version(rng, step);
                    }
                    self.answers += 1;
                    self.watched[at].step(rng);
                    self.watched[at].check(&format!("step {step}"));
                }
                _ => {}
            }
        }
    }
}

#[test]
fn scans_of_deleted_runs_find_what_their_point_in_time_has() {
    let mut answers = 0;
    seed::for_each_seed("scan-histories", 4, |_, mut rng| {
        let mut history = History::new(&mut rng);
        history.run(&mut rng, 3000);
        answers += history.answers;
    });
    eprintln!("scan histories: {answers} answers compared, 0 differences");
}
