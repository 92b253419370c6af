//! Reads of merge operands (`get_merge_operands`).

use esker::internals::base::rng::split_mix;
use esker::internals::env::mem::MemFs;
use esker::options::ReadTier;
use esker::{Db, Env, ErrorKind, FlushOptions, Options, ReadOptions, WriteOptions, builtin};
use std::collections::BTreeMap;
use std::sync::Arc;

fn open(change: impl Fn(&mut Options)) -> Db {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.merge_operator = Some(builtin::string_append(","));
    options.cf.disable_auto_compactions = true;
    change(&mut options);
    Db::open(&options, "/db").unwrap()
}

fn operands(db: &Db, options: &ReadOptions, key: &str) -> Vec<String> {
    let operands = db.get_merge_operands(options, &db.default_column_family(), key, 1000).unwrap();
    operands.iter().map(|operand| String::from_utf8(operand.to_vec()).unwrap()).collect()
}

/// A random history: a read of operands equals the model, and joined they are the value of a get.
/// Tables are written in between. A snapshot before each write keeps the operands apart.
fn compare_with_model(seed: u64, change: impl Fn(&mut Options)) {
    let db = open(change);
    let mut model: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut snapshots, mut state) = (Vec::new(), seed << 32);
    let mut random = move |bound: u64| {
        state += 1;
        split_mix(state) % bound
    };
    for i in 0..400 {
        snapshots.push(db.snapshot());
        let (key, value) = (format!("key{}", random(5)), format!("value{i}"));
        match random(12) {
            0 => {
                db.put(&key, &value).unwrap();
                model.insert(key, vec![value]);
            }
            1 => {
                db.delete(&key).unwrap();
                model.remove(&key);
            }
            2 => {
                db.delete_range("key1", "key3").unwrap();
                model.retain(|key, _| !("key1".."key3").contains(&key.as_str()));
            }
            3 => db.flush().unwrap(),
            4 => db.compact_range(None, None).unwrap(),
            _ => {
                db.merge(&key, &value).unwrap();
                model.entry(key).or_default().push(value);
            }
        }
        for key in ["key0", "key1", "key2", "key3", "key4"] {
            let found = operands(&db, &ReadOptions::default(), key);
            assert_eq!(found, model.get(key).cloned().unwrap_or_default(), "seed {seed}, step {i}, {key}");
            let value = db.get(key).unwrap().map(|value| String::from_utf8(value).unwrap());
            assert_eq!(value, (!found.is_empty()).then(|| found.join(",")), "seed {seed}, step {i}, {key}");
        }
    }
    // Without snapshots a compaction merges operands.
    snapshots.clear();
    db.compact_range(None, None).unwrap();
    for (key, entries) in model {
        assert_eq!(operands(&db, &ReadOptions::default(), &key), [entries.join(",")], "seed {seed}, {key}");
    }
}

#[test]
fn merge_operands_are_the_entries_of_which_a_get_makes_its_value() {
    for seed in 0..4 {
        compare_with_model(seed, |_| ());
        compare_with_model(seed, |options| {
            options.cf.enable_blob_files = true;
            options.cf.min_blob_size = 0;
        });
    }
}

#[test]
fn more_operands_than_allowed_are_an_error_that_says_how_many_there_are() {
    let db = open(|options| options.cf.merge_operator = Some(builtin::string_append(";")));
    let family = db.default_column_family();
    (0..5).for_each(|i| db.merge("key", i.to_string()).unwrap());
    let error = db.get_merge_operands(&ReadOptions::default(), &family, "key", 4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete);
    assert!(error.to_string().contains("5 merge operands"), "{error}");
    assert_eq!(db.get_merge_operands(&ReadOptions::default(), &family, "key", 5).unwrap().len(), 5);
}

#[test]
fn merge_operands_of_a_snapshot_of_an_entity_and_of_one_tier() {
    let db = open(|_| ());
    let family = db.default_column_family();
    let columns: [(&[u8], &[u8]); 2] = [(b"", b"default"), (b"column", b"other")];
    db.put_entity(&WriteOptions::default(), &family, "key", &columns).unwrap();
    db.merge("key", "one").unwrap();
    db.flush_opt(&FlushOptions::default(), &[&family]).unwrap();
    let at = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    db.merge("key", "two").unwrap();
    assert_eq!(operands(&db, &at, "key").join(","), "default,one");
    assert_eq!(operands(&db, &ReadOptions::default(), "key").join(","), "default,one,two");
    let memtables = ReadOptions { read_tier: ReadTier::Memtable, ..ReadOptions::default() };
    assert_eq!(operands(&db, &memtables, "key"), ["two"]);
    let other = open(|_| ());
    let foreign = ReadOptions { snapshot: Some(other.snapshot()), ..ReadOptions::default() };
    let error = db.get_merge_operands(&foreign, &family, "key", 9).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
