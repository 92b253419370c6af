//! `MergeOperator::should_merge`: gets that stop at operands which the operator takes as enough.

use esker::comparator::BytewiseComparatorWithU64Ts;
use esker::internals::env::mem::MemFs;
use esker::merge_operator::MergeOperator;
use esker::options::{BlockCache, CacheOptions};
use esker::{Db, Env, Options, ReadOptions, SstFileReader, SstFileWriter, WriteBatchWithIndex, WriteOptions};
use esker_testkit::seed;
use std::sync::Arc;

/// Joins all parts with commas. This number of operands needs nothing older.
struct Joins(usize);

const ENOUGH: usize = 3;

impl MergeOperator for Joins {
    fn name(&self) -> &str {
        "test.Joins"
    }
    fn full_merge(&self, _key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let all: Vec<&[u8]> = existing.into_iter().chain(operands.iter().copied()).collect();
        Some(all.join(&b','))
    }
    fn should_merge(&self, operands: &[&[u8]]) -> bool {
        let numbers = operands.iter().map(|operand| String::from_utf8_lossy(operand).parse::<u32>().unwrap());
        assert!(numbers.is_sorted_by(|newer, older| newer > older), "operands come newest first");
        operands.len() >= self.0
    }
    fn has_should_merge(&self) -> bool {
        true
    }
}

fn options() -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.merge_operator = Some(Arc::new(Joins(ENOUGH)));
    options.cf.disable_auto_compactions = true;
    options
}

/// The writes of one key: operands, and at times a value or a deletion that ends a history.
#[derive(Clone, Default)]
struct History {
    base: Option<String>,
    operands: Vec<String>,
}

impl History {
    fn whole(&self) -> Option<String> {
        let all: Vec<String> = self.base.iter().chain(&self.operands).cloned().collect();
        (!all.is_empty()).then(|| all.join(","))
    }

    fn got(&self) -> Option<String> {
        match self.operands.len().checked_sub(ENOUGH) {
            Some(first) => Some(self.operands[first..].join(",")),
            None => self.whole(),
        }
    }
}

const KEYS: [&str; 3] = ["a", "b", "c"];

fn check(db: &Db, options: &ReadOptions, model: &[History]) {
    let family = db.default_column_family();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let expected: Vec<_> = model.iter().map(History::got).collect();
    let got = KEYS.map(|key| db.get_pinned_opt(options, &family, key).unwrap().map(|value| text(&value)));
    assert_eq!(got[..], expected[..]);
    let keys = KEYS.map(|key| (&family, key.as_bytes()));
    let many = db.multi_get_cf(options, &keys);
    let many: Vec<_> = many.into_iter().map(|value| value.unwrap().map(|value| text(&value))).collect();
    assert_eq!(many, expected, "multi_get");
    for (key, history) in KEYS.iter().zip(model) {
        let entity = db.get_entity(options, &family, key).unwrap();
        assert_eq!(entity.map(|columns| text(columns.get(b"").unwrap())), history.got(), "entity of {key}");
        let operands = db.get_merge_operands(options, &family, key, 1000).unwrap();
        let operands: Vec<_> = operands.iter().map(|operand| text(operand)).collect();
        assert_eq!((!operands.is_empty()).then(|| operands.join(",")), history.whole(), "operands of {key}");
        let mut iter = db.iter_opt(options.clone(), &family).unwrap();
        iter.seek(key);
        let shown = (iter.valid() && iter.key() == key.as_bytes()).then(|| text(iter.value()));
        assert_eq!(shown, history.whole(), "an iterator at {key}");
    }
}

#[test]
fn gets_stop_at_enough_operands_wherever_they_lie_and_iterators_do_not() {
    for with_rows in [false, true] {
        let mut options = options();
        if with_rows {
            let rows = BlockCache::lru(&CacheOptions::with_capacity(8 << 20)).unwrap();
            options.db.row_cache = Some(Arc::new(rows));
        }
        let db = Db::open(&options, "/db").unwrap();
        let mut rng = seed::rng("should_merge");
        let mut model = vec![History::default(); KEYS.len()];
        // Each write has a snapshot: no flush merges operands.
        let mut seen = Vec::new();
        for number in 0..300 {
            let at = rng.usize(..KEYS.len());
            let (key, history, number) = (KEYS[at], &mut model[at], number.to_string());
            match rng.u32(..12) {
                0 => {
                    db.put(key, &number).unwrap();
                    *history = History { base: Some(number), operands: Vec::new() };
                }
                1 => {
                    db.delete(key).unwrap();
                    *history = History::default();
                }
                2 => {
                    db.delete_range(key, format!("{key}~")).unwrap();
                    *history = History::default();
                }
                _ => {
                    db.merge(key, &number).unwrap();
                    history.operands.push(number);
                }
            }
            let read = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
            seen.push((read, model.clone()));
            if rng.u32(..20) == 0 {
                db.flush().unwrap();
            }
            check(&db, &ReadOptions::default(), &model);
            let (read, then) = &seen[rng.usize(..seen.len())];
            check(&db, read, then);
        }
    }
}

#[test]
fn a_table_alone_answers_from_enough_operands_without_a_base() {
    let mut options = options();
    let mut writer = SstFileWriter::new(&options);
    writer.open("/table").unwrap();
    writer.merge("key", "1").unwrap();
    writer.finish().unwrap();
    let reader = SstFileReader::open(&options, "/table").unwrap();
    assert!(reader.get(&ReadOptions::default(), "key").is_err(), "one operand is not enough");
    options.cf.merge_operator = Some(Arc::new(Joins(1)));
    let reader = SstFileReader::open(&options, "/table").unwrap();
    assert_eq!(&reader.get(&ReadOptions::default(), "key").unwrap().unwrap()[..], b"1");
}

#[test]
fn a_batch_over_a_database_counts_its_own_operands_as_the_newest() {
    let db = Db::open(&options(), "/db").unwrap();
    db.put("key", "0").unwrap();
    db.merge("key", "1").unwrap();
    db.merge("key", "2").unwrap();
    let mut batch = WriteBatchWithIndex::default();
    batch.merge("key", "3").unwrap();
    let (read, family) = (ReadOptions::default(), db.default_column_family());
    let get = |batch: &WriteBatchWithIndex| batch.get_from_batch_and_db(&db, &read, &family, b"key").unwrap();
    assert_eq!(get(&batch).unwrap(), b"1,2,3");
    batch.merge("key", "4").unwrap();
    assert_eq!(get(&batch).unwrap(), b"2,3,4");
}

#[test]
fn gets_at_a_timestamp_stop_at_enough_operands_and_iterators_do_not() {
    let mut options = options();
    options.cf.comparator = Arc::new(BytewiseComparatorWithU64Ts);
    let db = Db::open(&options, "/db").unwrap();
    let (write, family) = (WriteOptions::default(), db.default_column_family());
    for number in 1..=5_u64 {
        db.merge_with_ts(&write, &family, "key", &number.to_le_bytes(), number.to_string()).unwrap();
    }
    for (timestamp, got, shown) in [(2_u64, "1,2", "1,2"), (4, "2,3,4", "1,2,3,4")] {
        let read =
            ReadOptions { timestamp: Some(timestamp.to_le_bytes().to_vec()), ..ReadOptions::default() };
        assert_eq!(db.get_opt(&read, &family, "key").unwrap().unwrap(), got.as_bytes());
        let entity = db.get_entity(&read, &family, "key").unwrap().unwrap();
        assert_eq!(entity.get(b"").unwrap(), got.as_bytes());
        let mut iter = db.iter_opt(read, &family).unwrap();
        iter.seek_to_first();
        assert_eq!(iter.value(), shown.as_bytes());
    }
}
