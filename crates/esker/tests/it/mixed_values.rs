//! Plain values, entities, operands, values in blob files and entries that a compaction filter
//! changes or drops, in families that are created and dropped. Held iterators, gets and entities
//! must show the contents of a map.
//!
//! Keys for which `is_junk` is true belong to the filter: it may keep, remove or skip them, and
//! they are not compared. In other values it changes letters, and these are compared as if all
//! letters had been changed. Keys for which `is_single` is true are put only while absent, and
//! deleted by single deletions.

use crate::iterator_uses::enter_range;
use esker::compaction_filter::{CompactionFilter, FilterDecision};
use esker::comparator::{BytewiseComparator, ReverseBytewiseComparator};
use esker::internals::base::prefix;
use esker::internals::env::mem::MemFs;
use esker::merge_operator::MergeOperator;
use esker::options::{BottommostLevelCompaction, CompactionStyle, TargetVersion};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, ColumnFamilyId, ColumnFamilyOptions, CompactRangeOptions,
    CompactionOptions, Db, DbIterator, DbOptions, Env, FlushOptions, IngestExternalFileOptions,
    MultiScanArgs, Options, ReadOptions, Snapshot, SstFileWriter, WriteBatch,
};
use esker_testkit::seed::for_each_seed;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type Columns = Vec<(Vec<u8>, Vec<u8>)>;
type Model = BTreeMap<Vec<u8>, Columns>;

fn is_junk(key: &[u8]) -> bool {
    key.first() == Some(&b'j')
}

fn is_single(key: &[u8]) -> bool {
    key.get(1) == Some(&b'7') && !is_junk(key)
}

/// The bytes after the filter has changed all letters.
fn changed(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .map(|byte| if byte.is_ascii_uppercase() { byte.to_ascii_lowercase() } else { *byte })
        .collect()
}

fn key(rng: &mut Rng) -> Vec<u8> {
    let first = [b'a', b'c', b'j', b'p', b'z'][rng.usize(..5)];
    match rng.u8(..12) {
        10 => vec![first],
        11 => vec![first, b'0' + rng.u8(..3), b'x'],
        digit => vec![first, b'0' + digit],
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let letter = if rng.u8(..3) == 0 { b'R' } else { b'v' };
    let mut value = rng.u32(..).to_string().into_bytes();
    value.resize([1, 3, 30, 200][rng.usize(..4)], letter);
    value
}

/// A merge operator whose results show whether there was a value below.
struct ConcatMerge;

impl MergeOperator for ConcatMerge {
    fn name(&self) -> &str {
        "concat"
    }
    fn full_merge(&self, _key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut all = existing.unwrap_or(b"~").to_vec();
        operands.iter().for_each(|operand| all.extend([b";", *operand].concat()));
        Some(all)
    }
    fn partial_merge(&self, key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        (key.len() != 1).then(|| [left, b";", right].concat())
    }
}

/// The compaction filter that the head of the file describes.
struct Whims(AtomicU64);

impl Whims {
    fn decide(&self, key: &[u8], value: &[u8], is_operand: bool) -> FilterDecision {
        let dice = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed) >> 60;
        match dice {
            0..3 if is_junk(key) => FilterDecision::Remove,
            3..5 if is_junk(key) && !is_operand => FilterDecision::Purge,
            5..8 if is_junk(key) && !is_operand => FilterDecision::RemoveAndSkipUntil(b"j8".to_vec()),
            0..8 if value.iter().any(u8::is_ascii_uppercase) => FilterDecision::ChangeValue(changed(value)),
            _ => FilterDecision::Keep,
        }
    }
}

impl CompactionFilter for Whims {
    fn name(&self) -> &str {
        "whims"
    }
    fn filter(&self, _level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        self.decide(key, value, false)
    }
    fn filter_merge_operand(&self, _level: usize, key: &[u8], operand: &[u8]) -> FilterDecision {
        self.decide(key, operand, true)
    }
}

const NAMES: [&str; 3] = ["default", "reversed", "third"];

fn is_reversed(name: &str) -> bool {
    name == NAMES[1]
}

fn pick<T: Clone>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())].clone()
}

fn family_options(rng: &mut Rng, name: &str) -> ColumnFamilyOptions {
    let mut cf = ColumnFamilyOptions {
        merge_operator: Some(Arc::new(ConcatMerge)),
        comparator: Arc::new(BytewiseComparator),
        write_buffer_size: 64 << 10,
        level0_file_num_compaction_trigger: pick(rng, &[1, 2, 4, 100]),
        level0_slowdown_writes_trigger: 1000,
        level0_stop_writes_trigger: 1000,
        disable_auto_compactions: rng.u8(..3) == 0,
        target_file_size_base: pick(rng, &[1, 500, 4 << 10]),
        max_bytes_for_level_base: pick(rng, &[1000, 4 << 10, 1 << 20]),
        max_bytes_for_level_multiplier: pick(rng, &[1.5, 4.0]),
        level_compaction_dynamic_level_bytes: rng.bool(),
        max_compaction_bytes: pick(rng, &[0, 2000]),
        num_levels: 5,
        enable_blob_files: rng.bool(),
        min_blob_size: pick(rng, &[0, 10, 100]),
        blob_file_size: pick(rng, &[1, 1000, 1 << 20]),
        enable_blob_garbage_collection: rng.bool(),
        blob_garbage_collection_age_cutoff: pick(rng, &[0.25, 1.0]),
        blob_garbage_collection_force_threshold: pick(rng, &[0.3, 1.0]),
        blob_file_starting_level: pick(rng, &[0, 0, 2]),
        max_successive_merges: pick(rng, &[0, 2]),
        max_sequential_skip_in_iterations: pick(rng, &[0, 1, 8]),
        min_write_buffer_number_to_merge: pick(rng, &[1, 2]),
        max_write_buffer_number: 4,
        deleted_run_block_min_entries: pick(rng, &[0, 1, 2, 64]),
        deleted_run_memory_min_keys: pick(rng, &[0, 1, 2, 64]),
        pre_scan_min_entries: pick(rng, &[1, 4096]),
        ..ColumnFamilyOptions::default()
    };
    if is_reversed(name) {
        cf.comparator = Arc::new(ReverseBytewiseComparator);
    }
    if rng.bool() {
        cf.prefix_extractor = Some(prefix::fixed(1));
    }
    if rng.u8(..3) > 0 {
        cf.compaction_filter = Some(Arc::new(Whims(AtomicU64::new(rng.u64(..)))));
    }
    if name == NAMES[2] {
        cf.compaction_style = CompactionStyle::Universal;
    }
    cf.table.block_size = pick(rng, &[1, 64, 512]);
    cf.table.block_restart_interval = pick(rng, &[1, 3, 16]);
    cf.table.no_block_cache = rng.u8(..4) == 0;
    cf
}

struct Family {
    handle: ColumnFamilyHandle,
    options: ColumnFamilyOptions,
    model: Arc<Model>,
}

/// A snapshot, and the contents of each family in it.
#[derive(Clone)]
struct ReadPoint {
    snapshot: Snapshot,
    models: BTreeMap<ColumnFamilyId, Arc<Model>>,
}

fn apply_merge(model: &mut Model, key: &[u8], operand: &[u8]) {
    let columns = model.entry(key.to_vec()).or_default();
    let is_new = columns.is_empty();
    if columns.first().is_none_or(|(name, _)| !name.is_empty()) {
        columns.insert(0, (Vec::new(), if is_new { b"~".to_vec() } else { Vec::new() }));
    }
    columns[0].1.extend([b";", operand].concat());
}

fn plain(value: &[u8]) -> Columns {
    vec![(Vec::new(), value.to_vec())]
}

fn random_columns(rng: &mut Rng) -> Columns {
    let names: [&[u8]; 3] = [b"", b"x", b"y"];
    let mut columns: Columns = Vec::new();
    for name in names {
        if rng.bool() {
            columns.push((name.to_vec(), value(rng)));
        }
    }
    if columns.is_empty() {
        columns.push((b"x".to_vec(), value(rng)));
    }
    columns
}

fn borrowed(columns: &Columns) -> Vec<(&[u8], &[u8])> {
    columns.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect()
}

/// Two keys in the family's order.
fn two_keys(rng: &mut Rng, is_reversed: bool) -> (Vec<u8>, Vec<u8>) {
    let (a, b) = (key(rng), key(rng));
    if (a <= b) != is_reversed { (a, b) } else { (b, a) }
}

fn remove_range(model: &mut Model, begin: &[u8], end: &[u8], is_reversed: bool) {
    model.retain(|key, _| !is_within(key, Some(begin), Some(end), is_reversed));
}

fn is_within(key: &[u8], lower: Option<&[u8]>, upper: Option<&[u8]>, is_reversed: bool) -> bool {
    if is_reversed {
        lower.is_none_or(|lower| key <= lower) && upper.is_none_or(|upper| key > upper)
    } else {
        lower.is_none_or(|lower| key >= lower) && upper.is_none_or(|upper| key < upper)
    }
}

fn seen(columns: impl IntoIterator<Item = (impl AsRef<[u8]>, impl AsRef<[u8]>)>) -> Columns {
    columns.into_iter().map(|(name, value)| (name.as_ref().to_vec(), changed(value.as_ref()))).collect()
}

/// An iterator and its expected position.
struct Used {
    iter: DbIterator,
    family: ColumnFamilyId,
    options: ReadOptions,
    model: Arc<Model>,
    is_reversed: bool,
    has_extractor: bool,
    at: Option<Vec<u8>>,
    bounds: (Option<Vec<u8>>, Option<Vec<u8>>),
    planned: Option<(MultiScanArgs, usize)>,
    prefix: Option<u8>,
    moves: Vec<String>,
}

impl Used {
    fn find(&self, forward: bool, fits: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let (lower, upper) = (self.bounds.0.as_deref(), self.bounds.1.as_deref());
        let fits = |key: &&Vec<u8>| is_within(key, lower, upper, self.is_reversed) && fits(key);
        let mut keys = self.model.keys();
        let found = if forward != self.is_reversed { keys.find(fits) } else { keys.rev().find(fits) };
        found.filter(|key| self.prefix.is_none_or(|prefix| key.first() == Some(&prefix))).cloned()
    }

    fn before(&self, a: &[u8], b: &[u8]) -> bool {
        if self.is_reversed { a > b } else { a < b }
    }

    fn leave(&mut self) {
        self.planned = None;
        self.bounds = (self.options.iterate_lower_bound.clone(), self.options.iterate_upper_bound.clone());
    }

    fn enter(&mut self, target: &[u8], reverse: bool) {
        let Some((args, next)) = &mut self.planned else { return };
        match enter_range(args, next, target, reverse) {
            Some((start, limit)) => {
                let lower = if reverse { Some(start) } else { self.options.iterate_lower_bound.clone() };
                self.bounds = (lower, limit);
            }
            None => self.leave(),
        }
    }

    fn stays_in(&mut self, target: &[u8]) {
        self.prefix = None;
        if self.options.prefix_same_as_start && self.has_extractor {
            self.prefix = target.first().copied();
        }
    }

    fn target(&self, rng: &mut Rng, reverse: bool) -> Vec<u8> {
        match &self.planned {
            Some((args, next)) if rng.u8(..4) > 0 => {
                let number = rng.usize(..args.ranges.len()).max((*next).min(args.ranges.len() - 1));
                let (start, limit) = args.ranges.get(number).unwrap();
                if reverse { limit.unwrap_or(start).to_vec() } else { start.to_vec() }
            }
            _ => key(rng),
        }
    }

    fn use_once(&mut self, now: Option<&Arc<Model>>, points: &[ReadPoint], rng: &mut Rng) {
        let follows = self.options.tailing;
        let in_prefix = self.options.prefix_same_as_start;
        let mut forward = true;
        let follow = |used: &mut Used| {
            if let (true, Some(now)) = (follows, now) {
                used.model = now.clone();
            }
        };
        let dice = rng.u8(..24);
        match dice {
            0 if !in_prefix => {
                self.moves.push("first".into());
                self.leave();
                follow(self);
                self.iter.seek_to_first();
                self.at = self.find(true, |_| true);
            }
            1 if !in_prefix => {
                self.moves.push("last".into());
                self.leave();
                follow(self);
                forward = false;
                self.iter.seek_to_last();
                self.at = self.find(false, |_| true);
            }
            2..5 => {
                let target = self.target(rng, false);
                self.moves.push(format!("seek {}", target.escape_ascii()));
                self.enter(&target, false);
                follow(self);
                self.stays_in(&target);
                self.iter.seek(&target);
                self.at = self.find(true, |key| !self.before(key, &target));
            }
            5..8 => {
                let target = self.target(rng, true);
                self.moves.push(format!("seek_for_prev {}", target.escape_ascii()));
                self.enter(&target, true);
                follow(self);
                self.stays_in(&target);
                forward = false;
                self.iter.seek_for_prev(&target);
                self.at = self.find(false, |key| !self.before(&target, key));
            }
            8 => {
                self.moves.push("refresh".into());
                self.iter.refresh().unwrap();
                self.options.snapshot = None;
                if let Some(now) = now {
                    self.model = now.clone();
                }
                self.at = None;
            }
            10 if !points.is_empty() && !follows => {
                let point = pick(rng, points);
                if let Some(model) = point.models.get(&self.family) {
                    self.moves.push(format!("refresh_at {}", point.snapshot.sequence()));
                    self.iter.refresh_at(&point.snapshot).unwrap();
                    self.options.snapshot = Some(point.snapshot.clone());
                    self.model = model.clone();
                    self.at = None;
                }
            }
            11 if !in_prefix => {
                let mut args = MultiScanArgs::new();
                args.reverse = rng.bool();
                args.max_prefetch_size = [0, 300][rng.usize(..2)];
                let mut ends: Vec<Vec<u8>> = (0..2 * rng.usize(1..4)).map(|_| key(rng)).collect();
                ends.sort();
                ends.dedup();
                if self.is_reversed {
                    ends.reverse();
                }
                ends.chunks_exact(2).for_each(|pair| args.insert(&pair[0], &pair[1]));
                if !args.ranges.is_empty() && self.iter.prepare(&args).is_ok() {
                    self.moves.push(format!("prepare {args:?}"));
                    self.leave();
                    self.planned = Some((args, 0));
                    self.at = None;
                }
            }
            _ if self.at.is_none() => return,
            _ => {
                forward = !dice.is_multiple_of(3);
                self.moves.push(if forward { "next" } else { "prev" }.into());
                follow(self);
                let at = self.at.take().unwrap();
                if forward {
                    self.iter.next();
                    self.at = self.find(true, |key| self.before(&at, key));
                } else {
                    self.iter.prev();
                    self.at = self.find(false, |key| self.before(key, &at));
                }
            }
        }
        // It is unknown which of the filter's keys exist.
        while self.iter.valid() && is_junk(self.iter.key()) {
            if forward { self.iter.next() } else { self.iter.prev() }
        }
        self.check();
    }

    fn check(&self) {
        let scene = || {
            let from = self.moves.len().saturating_sub(12);
            let snapshot = self.options.snapshot.as_ref().map(|s| s.sequence());
            format!("{:?} {snapshot:?} after {:?}", self.options, &self.moves[from..])
        };
        self.iter.status().unwrap_or_else(|error| panic!("{error}: {}", scene()));
        if self.iter.valid() && is_junk(self.iter.key()) {
            return;
        }
        let shown = |key: &[u8]| key.escape_ascii().to_string();
        assert_eq!(self.iter.item().map(|(key, _)| shown(key)), self.at.as_deref().map(shown), "{}", scene());
        if let Some(at) = &self.at {
            let expected = &self.model[at];
            assert_eq!(&seen(self.iter.columns()), expected, "{} {}", shown(at), scene());
            let default = expected.first().filter(|(name, _)| name.is_empty()).map_or(&[][..], |(_, v)| v);
            assert_eq!(changed(self.iter.value()), default, "{} {}", shown(at), scene());
            assert_eq!(changed(&self.iter.pinned_value()), default, "{} {}", shown(at), scene());
        }
    }
}

struct ModelRun {
    env: Env,
    db: Option<Db>,
    families: Vec<Family>,
    dropped: Vec<Family>,
    points: Vec<ReadPoint>,
    used: Vec<Used>,
    files: u32,
}

impl ModelRun {
    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn db_options(&self, rng: &mut Rng) -> DbOptions {
        DbOptions {
            env: self.env.clone(),
            create_if_missing: true,
            create_missing_column_families: true,
            compatible_with: TargetVersion::V11,
            max_open_files: pick(rng, &[-1, 10]),
            max_subcompactions: pick(rng, &[1, 4]),
            atomic_flush: rng.u8(..3) == 0,
            allow_2pc: false,
            max_background_jobs: pick(rng, &[1, 4]),
            ..DbOptions::default()
        }
    }

    fn open(&mut self, rng: &mut Rng) {
        let models: Vec<Arc<Model>> = self.families.drain(..).map(|family| family.model).collect();
        let db_options = self.db_options(rng);
        let options: Vec<_> = NAMES.iter().map(|name| family_options(rng, name)).collect();
        let descriptors =
            NAMES.iter().zip(&options).map(|(name, cf)| ColumnFamilyDescriptor::new(*name, cf.clone()));
        let db = Db::open_cf(&db_options, "/db", descriptors).unwrap();
        for (i, options) in options.into_iter().enumerate() {
            let handle = db.column_family(NAMES[i]).unwrap();
            let model = models.get(i).cloned().unwrap_or_default();
            self.families.push(Family { handle, options, model });
        }
        self.db = Some(db);
    }

    fn reopen(&mut self, rng: &mut Rng) {
        self.used.clear();
        self.points.clear();
        self.dropped.clear();
        if let Some(db) = self.db.take() {
            db.close().unwrap();
        }
        self.open(rng);
    }

    fn write(&mut self, rng: &mut Rng) {
        let mut batch = WriteBatch::new();
        for _ in 0..pick(rng, &[1, 1, 1, 2, 5, 20]) {
            let at = rng.usize(..NAMES.len());
            let family = &mut self.families[at];
            let (id, is_reversed) = (family.handle.id(), is_reversed(NAMES[at]));
            let model = Arc::make_mut(&mut family.model);
            let key = key(rng);
            if is_single(&key) {
                if rng.u8(..20) > 0 {
                    if model.remove(&key).is_some() {
                        batch.single_delete_cf(id, &key).unwrap();
                    } else {
                        let value = value(rng);
                        batch.put_cf(id, &key, &value).unwrap();
                        model.insert(key, plain(&changed(&value)));
                    }
                }
                continue;
            }
            match rng.u8(..20) {
                0..5 => {
                    let value = value(rng);
                    batch.put_cf(id, &key, &value).unwrap();
                    model.insert(key, plain(&changed(&value)));
                }
                5..9 => {
                    let columns = random_columns(rng);
                    batch.put_entity_cf(id, &key, &borrowed(&columns)).unwrap();
                    model.insert(key, seen(columns));
                }
                9..13 => {
                    let operand = value(rng);
                    batch.merge_cf(id, &key, &operand).unwrap();
                    apply_merge(model, &key, &changed(&operand));
                }
                13..19 => {
                    batch.delete_cf(id, &key).unwrap();
                    model.remove(&key);
                }
                _ => {
                    let (begin, end) = two_keys(rng, is_reversed);
                    batch.delete_range_cf(id, &begin, &end).unwrap();
                    remove_range(model, &begin, &end, is_reversed);
                }
            }
            model.retain(|key, _| !is_junk(key));
        }
        self.db().write(&mut batch).unwrap();
    }

    fn ingest(&mut self, rng: &mut Rng) {
        let at = rng.usize(..NAMES.len());
        let is_reversed = is_reversed(NAMES[at]);
        self.files += 1;
        let path = format!("/ingested{}.sst", self.files);
        let db_options = self.db_options(rng);
        let family = &mut self.families[at];
        let model = Arc::make_mut(&mut family.model);
        let mut writer = SstFileWriter::new(&Options { db: db_options, cf: family.options.clone() });
        writer.open(&path).unwrap();
        let mut keys: Vec<Vec<u8>> =
            (0..rng.usize(1..12)).map(|_| key(rng)).filter(|k| !is_single(k)).collect();
        keys.sort();
        keys.dedup();
        if is_reversed {
            keys.reverse();
        }
        if rng.u8(..3) == 0 || keys.is_empty() {
            let (begin, end) = two_keys(rng, is_reversed);
            if begin == end {
                return;
            }
            writer.delete_range(&begin, &end).unwrap();
            remove_range(model, &begin, &end, is_reversed);
        }
        for key in keys {
            match rng.u8(..4) {
                0 => {
                    let columns = random_columns(rng);
                    writer.put_entity(&key, &borrowed(&columns)).unwrap();
                    model.insert(key, seen(columns));
                }
                1 => {
                    let operand = value(rng);
                    writer.merge(&key, &operand).unwrap();
                    apply_merge(model, &key, &changed(&operand));
                }
                2 => {
                    writer.delete(&key).unwrap();
                    model.remove(&key);
                }
                _ => {
                    let value = value(rng);
                    writer.put(&key, &value).unwrap();
                    model.insert(key, plain(&changed(&value)));
                }
            }
        }
        model.retain(|key, _| !is_junk(key));
        writer.finish().unwrap();
        let handle = family.handle.clone();
        let options = IngestExternalFileOptions { move_files: rng.bool(), ..Default::default() };
        self.db().ingest_external_file_opt(&options, &handle, &[path]).unwrap();
    }

    fn arrange(&mut self, rng: &mut Rng) {
        let at = rng.usize(..NAMES.len());
        let handle = self.families[at].handle.clone();
        match rng.u8(..10) {
            0..4 => self.db().flush_opt(&FlushOptions::default(), &[&handle]).unwrap(),
            4 => self.db().flush().unwrap(),
            5..7 => {
                let options = CompactRangeOptions {
                    exclusive_manual_compaction: rng.bool(),
                    bottommost_level_compaction: pick(
                        rng,
                        &[
                            BottommostLevelCompaction::Skip,
                            BottommostLevelCompaction::Force,
                            BottommostLevelCompaction::ForceOptimized,
                        ],
                    ),
                    max_subcompactions: pick(rng, &[0, 4]),
                    ..CompactRangeOptions::default()
                };
                let (begin, end) = two_keys(rng, is_reversed(NAMES[at]));
                let begin = rng.bool().then_some(begin);
                let end = rng.bool().then_some(end);
                self.db().compact_range_opt(&options, &handle, begin.as_deref(), end.as_deref()).unwrap();
            }
            7..9 => {
                let name = handle.name().to_owned();
                let files = self.db().live_files();
                let of_family: Vec<_> = files.iter().filter(|file| file.column_family_name == name).collect();
                if of_family.is_empty() {
                    return;
                }
                let chosen: Vec<_> =
                    (0..rng.usize(1..4)).map(|_| pick(rng, &of_family).file_number).collect();
                let options = CompactionOptions {
                    output_file_size_limit: pick(rng, &[1, 1000, u64::MAX]),
                    max_subcompactions: pick(rng, &[0, 4]),
                    ..CompactionOptions::default()
                };
                _ = self.db().compact_files(&options, &handle, &chosen, rng.usize(..4));
            }
            _ => {
                let (name, values): (&str, &[&str]) = pick(
                    rng,
                    &[
                        ("max_sequential_skip_in_iterations", &["0", "1", "8"][..]),
                        ("enable_blob_files", &["true", "false"]),
                        ("min_blob_size", &["0", "20", "100"]),
                        ("enable_blob_garbage_collection", &["true", "false"]),
                        ("disable_auto_compactions", &["true", "false"]),
                        ("write_buffer_size", &["64k", "4k"]),
                    ],
                );
                self.db().set_options(&handle, &[(name, pick(rng, values))]).unwrap();
            }
        }
    }

    fn replace_family(&mut self, rng: &mut Rng) {
        let at = rng.usize(1..NAMES.len());
        let options = family_options(rng, NAMES[at]);
        self.db().drop_column_family(&self.families[at].handle).unwrap();
        let handle = self.db().create_column_family(NAMES[at], &options).unwrap();
        let dropped =
            std::mem::replace(&mut self.families[at], Family { handle, options, model: Arc::default() });
        // Tailing iterators may not have reached the last writes yet.
        self.dropped.push(dropped);
    }

    fn take_point(&mut self) {
        let snapshot = self.db().snapshot();
        let models = self.families.iter().map(|f| (f.handle.id(), f.model.clone())).collect();
        self.points.push(ReadPoint { snapshot, models });
    }

    fn new_iterator(&mut self, rng: &mut Rng) {
        let at = rng.usize(..NAMES.len());
        let (family, is_reversed) = (&self.families[at], is_reversed(NAMES[at]));
        let mut model = family.model.clone();
        let mut options = ReadOptions::default();
        if rng.u8(..3) == 0 {
            let (lower, upper) = two_keys(rng, is_reversed);
            options.iterate_lower_bound = rng.bool().then_some(lower);
            options.iterate_upper_bound = rng.bool().then_some(upper);
        }
        options.tailing = rng.u8(..5) == 0;
        options.pin_data = rng.u8(..8) == 0;
        options.prefix_same_as_start = rng.u8(..4) == 0;
        if !options.tailing && !self.points.is_empty() && rng.bool() {
            let point = pick(rng, &self.points);
            if let Some(then) = point.models.get(&family.handle.id()) {
                options.snapshot = Some(point.snapshot.clone());
                model = then.clone();
            }
        }
        let iter = self.db().iter_opt(options.clone(), &family.handle).unwrap();
        let used = Used {
            iter,
            family: family.handle.id(),
            model,
            is_reversed,
            has_extractor: family.options.prefix_extractor.is_some(),
            at: None,
            bounds: (options.iterate_lower_bound.clone(), options.iterate_upper_bound.clone()),
            options,
            planned: None,
            prefix: None,
            moves: vec![format!("over {}", NAMES[at])],
        };
        self.used.push(used);
    }

    fn get(&self, rng: &mut Rng) {
        let at = rng.usize(..NAMES.len());
        let family = &self.families[at];
        let (mut options, mut model) = (ReadOptions::default(), &family.model);
        if !self.points.is_empty() && rng.bool() {
            let point = &self.points[rng.usize(..self.points.len())];
            let Some(then) = point.models.get(&family.handle.id()) else { return };
            options.snapshot = Some(point.snapshot.clone());
            model = then;
        }
        let key = key(rng);
        if is_junk(&key) {
            return;
        }
        let entity = self.db().get_entity(&options, &family.handle, &key).unwrap();
        let name = key.escape_ascii();
        assert_eq!(entity.map(|entity| seen(entity.iter())).as_ref(), model.get(&key), "{name} {options:?}");
        let value = self.db().get_opt(&options, &family.handle, &key).unwrap();
        let expected = model.get(&key).map(|columns| {
            columns.first().filter(|(name, _)| name.is_empty()).map_or(Vec::new(), |(_, value)| value.clone())
        });
        assert_eq!(value.map(|value| changed(&value)), expected, "{name} {options:?}");
    }

    fn use_one(&mut self, rng: &mut Rng) {
        if self.used.is_empty() {
            return;
        }
        let at = rng.usize(..self.used.len());
        let used = &mut self.used[at];
        let mut all = self.families.iter().chain(&self.dropped);
        let now = all.find(|f| f.handle.id() == used.family).map(|f| &f.model);
        used.use_once(now, &self.points, rng);
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.u16(..100) {
            0..30 => self.write(rng),
            30..36 => self.arrange(rng),
            36 => self.ingest(rng),
            37 if rng.u8(..6) == 0 => self.replace_family(rng),
            38 if rng.u8(..6) == 0 => self.reopen(rng),
            39..41 if self.points.len() < 4 => self.take_point(),
            41..43 if !self.points.is_empty() => {
                drop(self.points.swap_remove(rng.usize(..self.points.len())))
            }
            43..46 if self.used.len() < 6 => self.new_iterator(rng),
            46..48 if !self.used.is_empty() => drop(self.used.swap_remove(rng.usize(..self.used.len()))),
            48..60 => self.get(rng),
            _ => self.use_one(rng),
        }
    }
}

#[test]
fn values_of_all_kinds_are_shown_as_they_were_written_whatever_filters_and_compactions_do() {
    for_each_seed("mixed_values", 4, |_, mut rng| {
        let rng = &mut rng;
        let env = Env::with_fs(Arc::new(MemFs::new()));
        let mut model_run = ModelRun {
            env,
            db: None,
            families: vec![],
            dropped: vec![],
            points: vec![],
            used: vec![],
            files: 0,
        };
        model_run.open(rng);
        for _ in 0..1200 {
            model_run.step(rng);
        }
        model_run.used.clear();
        model_run.db().close().unwrap();
    });
}
