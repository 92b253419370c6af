//! Reads with metadata (`get_with_metadata`).

use esker::comparator::BytewiseComparatorWithU64Ts;
use esker::internals::env::mem::MemFs;
use esker::{Db, Env, ErrorKind, FlushOptions, Options, ReadOptions, WriteOptions, builtin};
use std::sync::Arc;

fn options() -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options
}

#[test]
fn a_newer_version_of_any_kind_is_reported_and_others_are_not() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let keys = ["kept", "put", "deleted", "in_range", "merged_away"];
    keys.iter().for_each(|key| db.put(key, "old").unwrap());
    let at = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    db.put("put", "new").unwrap();
    db.delete("deleted").unwrap();
    db.delete_range("in", "io").unwrap();
    db.put("created", "new").unwrap();
    for stage in ["memtable", "table", "compacted"] {
        let read = |key: &str| {
            let output = db.get_with_metadata(&at, &family, key).unwrap();
            assert!(output.timestamp.is_empty());
            (output.value.map(|value| value.to_vec()), output.newer_version_present)
        };
        let old = Some(b"old".to_vec());
        assert_eq!(read("kept"), (old.clone(), false), "{stage}");
        assert_eq!(read("put"), (old.clone(), true), "{stage}");
        assert_eq!(read("deleted"), (old.clone(), true), "{stage}");
        assert_eq!(read("in_range"), (old.clone(), true), "{stage}");
        assert_eq!(read("created"), (None, true), "{stage}");
        assert_eq!(read("absent"), (None, false), "{stage}");
        let pairs: Vec<_> = ["put", "kept", "created"].map(|key| (&family, key.as_bytes())).into();
        let many: Vec<_> = db.multi_get_with_metadata(&at, &pairs).into_iter().map(Result::unwrap).collect();
        let newer: Vec<bool> = many.iter().map(|output| output.newer_version_present).collect();
        assert_eq!(newer, [true, false, true]);
        let now = db.get_with_metadata(&ReadOptions::default(), &family, "put").unwrap();
        assert_eq!((now.value.unwrap().to_vec(), now.newer_version_present), (b"new".to_vec(), false));
        match stage {
            "memtable" => db.flush_opt(&FlushOptions::default(), &[&family]).unwrap(),
            _ => db.compact_range(None, None).unwrap(),
        }
    }
}

#[test]
fn timestamps_come_with_values_and_newer_ones_are_newer_versions() {
    let mut options = options();
    options.cf.comparator = Arc::new(BytewiseComparatorWithU64Ts);
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let stamp = |n: u64| n.to_le_bytes();
    db.put_with_ts(&WriteOptions::default(), &family, "k", &stamp(1), "old").unwrap();
    db.put_with_ts(&WriteOptions::default(), &family, "l", &stamp(1), "old").unwrap();
    let at = ReadOptions {
        snapshot: Some(db.snapshot()),
        timestamp: Some(stamp(9).to_vec()),
        ..ReadOptions::default()
    };
    db.put_with_ts(&WriteOptions::default(), &family, "k", &stamp(2), "new").unwrap();
    for _ in 0..2 {
        let output = db.get_with_metadata(&at, &family, "k").unwrap();
        assert_eq!(&output.value.unwrap()[..], b"old");
        assert_eq!((output.timestamp, output.newer_version_present), (stamp(1).to_vec(), true));
        let output = db.get_with_metadata(&at, &family, "l").unwrap();
        assert_eq!((output.timestamp, output.newer_version_present), (stamp(1).to_vec(), false));
        let absent = db.get_with_metadata(&at, &family, "m").unwrap();
        assert!(absent.value.is_none() && absent.timestamp.is_empty() && !absent.newer_version_present);
        db.flush().unwrap();
    }
}

#[test]
fn reads_that_merge_more_operands_than_the_threshold_say_so() {
    for with_timestamps in [false, true] {
        let mut options = options();
        options.cf.merge_operator = Some(builtin::string_append(","));
        if with_timestamps {
            options.cf.comparator = Arc::new(BytewiseComparatorWithU64Ts);
        }
        let db = Db::open(&options, "/db").unwrap();
        let family = db.default_column_family();
        let stamp = 1_u64.to_le_bytes();
        let merge = |key: &str| match with_timestamps {
            true => db.merge_with_ts(&WriteOptions::default(), &family, key, &stamp, "x").unwrap(),
            false => db.merge(key, "x").unwrap(),
        };
        match with_timestamps {
            true => db.put_with_ts(&WriteOptions::default(), &family, "plain", &stamp, "x").unwrap(),
            false => db.put("plain", "x").unwrap(),
        }
        (0..3).for_each(|_| merge("three"));
        merge("one");
        for is_flushed in [false, true] {
            for (threshold, expected) in [
                (None, [false; 4]),
                (Some(0), [true, true, false, false]),
                // A flush combines the three into one if they have no timestamps.
                (Some(2), [!is_flushed || with_timestamps, false, false, false]),
                (Some(3), [false; 4]),
            ] {
                let timestamp = with_timestamps.then(|| stamp.to_vec());
                let read = ReadOptions {
                    merge_operand_count_threshold: threshold,
                    timestamp,
                    ..ReadOptions::default()
                };
                let keys = ["three", "one", "plain", "absent"];
                let of_one = |key: &str| {
                    let output = db.get_with_metadata(&read, &family, key).unwrap();
                    (output.merge_operand_threshold_exceeded, output.newer_version_present)
                };
                assert_eq!(keys.map(of_one), expected.map(|exceeds| (exceeds, false)), "{threshold:?}");
                let pairs: Vec<_> = keys.map(|key| (&family, key.as_bytes())).into();
                let many = db.multi_get_with_metadata(&read, &pairs).into_iter().map(Result::unwrap);
                let many: Vec<_> = many.map(|output| output.merge_operand_threshold_exceeded).collect();
                assert_eq!(many, expected, "{threshold:?}");
            }
            if !is_flushed {
                db.flush().unwrap();
            }
        }
    }
}

#[test]
fn a_threshold_of_operands_keeps_the_limit_of_a_batchs_values() {
    let db = Db::open(&options(), "/db").unwrap();
    let family = db.default_column_family();
    let keys = ["a", "b", "c"];
    keys.iter().for_each(|key| db.put(key, "v".repeat(10)).unwrap());
    for merge_operand_count_threshold in [None, Some(7)] {
        let read = ReadOptions {
            value_size_soft_limit: 15,
            merge_operand_count_threshold,
            ..ReadOptions::default()
        };
        let pairs: Vec<_> = keys.map(|key| (&family, key.as_bytes())).into();
        let outputs = db.multi_get_with_metadata(&read, &pairs);
        let found: Vec<_> = outputs.iter().map(Result::is_ok).collect();
        assert_eq!(found, [true, true, false], "{merge_operand_count_threshold:?}");
        assert_eq!(outputs[2].as_ref().unwrap_err().kind(), ErrorKind::Aborted);
    }
}
