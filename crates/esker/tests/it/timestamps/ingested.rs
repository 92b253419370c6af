//! Ingested files with timestamps.

use super::{Event, NAMES, apply, at, check, options, rewrite, ts};
use esker::options::TargetVersion;
use esker::{
    CompactionOptions, Db, ErrorKind, IngestExternalFileOptions, Options, SstFileReader, SstFileWriter,
    ValueType, WriteBatch, WriteOptions,
};
use esker_testkit::seed::for_each_seed;

#[test]
fn a_scan_passes_a_deletion_that_has_neither_number_nor_time() {
    let mut options = options("leveldb.BytewiseComparator.u64ts");
    options.cf.max_sequential_skip_in_iterations = 0;
    let db = Db::open(&options, "/db").unwrap();
    let mut writer = SstFileWriter::new(&options);
    writer.open("/file").unwrap();
    writer.delete([&b"a"[..], &ts(0)].concat()).unwrap();
    writer.put([&b"b"[..], &ts(0)].concat(), "b0").unwrap();
    writer.finish().unwrap();
    let without_number =
        IngestExternalFileOptions { allow_global_seqno: false, ..IngestExternalFileOptions::default() };
    db.ingest_external_file_opt(&without_number, &db.default_column_family(), &["/file"]).unwrap();
    let mut iter = db.iter_opt(at(9), &db.default_column_family()).unwrap();
    iter.seek_to_first();
    assert_eq!(iter.value(), b"b0");
    iter.next();
    assert!(!iter.valid());
    iter.status().unwrap();
}

#[test]
fn files_that_are_ingested_may_part_the_versions_of_a_key() {
    let options = options("leveldb.BytewiseComparator.u64ts");
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let file = |path: &str, entries: &[(&str, u64, Option<&str>)]| {
        let mut writer = SstFileWriter::new(&options);
        writer.open(path).unwrap();
        for (key, time, value) in entries {
            let key = [key.as_bytes(), &ts(*time)].concat();
            match value {
                Some(value) => writer.put(key, value).unwrap(),
                None => writer.delete(key).unwrap(),
            }
        }
        writer.finish().unwrap();
        path.to_owned()
    };
    let first = file("/first", &[("a", 5, Some("a5")), ("b", 9, None)]);
    let second = file("/second", &[("b", 7, Some("b7")), ("b", 3, Some("b3")), ("c", 1, Some("c1"))]);
    db.ingest_external_file(&[first, second]).unwrap();
    let get = |key: &str, time: u64| {
        db.get_opt(&at(time), &family, key).unwrap().map(|v| String::from_utf8(v.to_vec()).unwrap())
    };
    let check = |what: &str| {
        let found =
            [("b", 10), ("b", 8), ("b", 4), ("b", 2), ("a", 5), ("c", 9)].map(|(key, time)| get(key, time));
        let expected = [None, Some("b7"), Some("b3"), None, Some("a5"), Some("c1")];
        assert_eq!(found.each_ref().map(Option::as_deref), expected, "{what}");
    };
    check("ingested");
    // Files with older and with newer versions of a key in a memtable.
    db.put_with_ts(&WriteOptions::default(), &family, "d", &ts(6), "d6").unwrap();
    let around = [file("/older", &[("d", 5, Some("d5"))]), file("/newer", &[("d", 8, Some("d8"))])];
    for path in around {
        db.ingest_external_file(&[path]).unwrap();
    }
    let check_d = |what: &str| {
        let found = [9, 7, 5, 4].map(|time| get("d", time));
        assert_eq!(
            found.each_ref().map(Option::as_deref),
            [Some("d8"), Some("d6"), Some("d5"), None],
            "{what}"
        );
    };
    check_d("ingested");
    // RocksDB's gets end at the first level that has the key: newer versions must not lie below.
    let level_of = |key: &[u8]| db.live_files().iter().find(|f| f.smallest_key == key).map(|f| f.level);
    assert_eq!(level_of(&[b"d".as_slice(), &ts(6)].concat()), Some(0), "the memtable was flushed before");
    assert_eq!(
        level_of(&[b"d".as_slice(), &ts(8)].concat()),
        Some(0),
        "the ingested file is above the flushed one"
    );
    db.flush().unwrap();
    check_d("flushed");
    let file = db.live_files().iter().find(|f| f.smallest_key.starts_with(b"a")).unwrap().file.file_number;
    db.increase_full_history_ts_low(&family, &ts(2)).unwrap();
    db.compact_files(&CompactionOptions::default(), &family, &[file], 6).unwrap();
    check("compacted in part");
    db.compact_range(None, None).unwrap();
    check("compacted");
    check_d("compacted");
    db.increase_full_history_ts_low(&family, &ts(20)).unwrap();
    db.compact_range(None, None).unwrap();
    let left = [("a", Some("a5")), ("b", None), ("c", Some("c1")), ("d", Some("d8"))];
    assert_eq!(
        left.map(|(key, _)| get(key, 20)).each_ref().map(Option::as_deref),
        left.map(|(_, value)| value)
    );
}

#[test]
fn a_file_that_ends_in_a_newer_version_than_a_range_deletion_comes_to_lie_over_it() {
    let options = options("leveldb.BytewiseComparator.u64ts");
    for (key, level) in [("k", 0), ("m", 0), ("p", 6)] {
        let db = Db::open(&options, format!("/{key}")).unwrap();
        let family = db.default_column_family();
        db.delete_range_with_ts(&WriteOptions::default(), &family, "k", "p", &ts(9)).unwrap();
        let mut writer = SstFileWriter::new(&options);
        writer.open("/file").unwrap();
        writer.put([key.as_bytes(), &ts(12)].concat(), "new").unwrap();
        writer.finish().unwrap();
        db.ingest_external_file(&["/file"]).unwrap();
        // RocksDB's gets end at a level that has a range deletion over the key: newer versions must
        // not lie below.
        let newest = [key.as_bytes(), &ts(12)].concat();
        let ingested = db.live_files().into_iter().find(|f| f.smallest_key == newest).unwrap();
        assert_eq!(ingested.level, level, "{key}");
        assert_eq!(
            db.live_files().len(),
            if level == 0 { 2 } else { 1 },
            "{key}: the memtable is flushed only if it overlaps"
        );
        assert_eq!(db.get_opt(&at(20), &family, key).unwrap().as_deref(), Some(&b"new"[..]));
    }
}

#[test]
fn a_version_where_the_range_deletion_of_its_file_ends_is_within_the_file() {
    let options = options("leveldb.BytewiseComparator.u64ts");
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let mut writer = SstFileWriter::new(&options);
    writer.open("/file").unwrap();
    writer.put([b"k".as_slice(), &ts(12)].concat(), "new").unwrap();
    writer.delete_range([b"a".as_slice(), &ts(9)].concat(), [b"k".as_slice(), &ts(9)].concat()).unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(&["/file"]).unwrap();
    for what in ["ingested", "compacted"] {
        assert_eq!(db.get_opt(&at(20), &family, "k").unwrap().as_deref(), Some(&b"new"[..]), "{what}");
        let mut iter = db.iter_opt(at(20), &family).unwrap();
        iter.seek("b");
        assert!(iter.valid() && iter.key() == b"k", "{what}");
        iter.seek_to_last();
        assert!(iter.valid() && iter.key() == b"k", "{what}");
        db.compact_range(None, None).unwrap();
    }
}

#[test]
fn a_range_deletion_within_the_versions_of_one_key_deletes_nothing() {
    let mut options = options("leveldb.BytewiseComparator.u64ts");
    let mut writer = SstFileWriter::new(&options);
    writer.open("/file").unwrap();
    let (newer, older) = ([b"k".as_slice(), &ts(9)].concat(), [b"k".as_slice(), &ts(5)].concat());
    writer.delete_range(&newer, &older).unwrap();
    assert_eq!(
        writer.finish().unwrap_err().kind(),
        ErrorKind::InvalidArgument,
        "a table without entries is refused"
    );
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let mut batch = WriteBatch::new();
    batch.put_cf(family.id(), &older, b"v").unwrap();
    batch.delete_range_cf(family.id(), &newer, &older).unwrap();
    db.write(&mut batch).unwrap();
    let get = |db: &Db| db.get_opt(&at(20), &db.default_column_family(), "k").unwrap();
    assert_eq!(get(&db).as_deref(), Some(&b"v"[..]));
    db.flush().unwrap();
    assert_eq!(get(&db).as_deref(), Some(&b"v"[..]));
    let mut batch = WriteBatch::new();
    batch.delete_range_cf(family.id(), &newer, &older).unwrap();
    db.write(&mut batch).unwrap();
    db.flush().unwrap();
    assert_eq!(get(&db).as_deref(), Some(&b"v"[..]));
    db.compact_range(None, None).unwrap();
    assert_eq!(get(&db).as_deref(), Some(&b"v"[..]));
    db.close().unwrap();
    options.db.create_if_missing = false;
    assert_eq!(get(&Db::open(&options, "/db").unwrap()).as_deref(), Some(&b"v"[..]));
}

/// Writes these events into a file, in the order of their timestamps; range deletions come first.
fn write_file(options: &Options, path: &str, events: &[(u64, Event)]) {
    let mut writer = SstFileWriter::new(options);
    writer.open(path).unwrap();
    let with = |key: &str, time: u64| [key.as_bytes(), &ts(time)].concat();
    let mut points: Vec<(Vec<u8>, &Event)> = Vec::new();
    for (time, event) in events {
        match event {
            Event::Put(key, _) | Event::Delete(key) | Event::Merge(key, _) => {
                points.push((with(key, *time), event));
            }
            Event::DeleteRange(a, b) => writer.delete_range(with(a, *time), with(b, *time)).unwrap(),
        }
    }
    points.sort_by(|(a, _), (b, _)| options.cf.comparator.compare(a, b));
    for (key, event) in points {
        match event {
            Event::Put(_, value) => writer.put(key, value).unwrap(),
            Event::Merge(_, operand) => writer.merge(key, operand).unwrap(),
            _ => writer.delete(key).unwrap(),
        }
    }
    writer.finish().unwrap();
}

#[test]
fn random_files_with_timestamps_agree_with_the_model() {
    for_each_seed("ingested", 3, |seed, mut rng| {
        let is_reverse = seed % 2 == 1;
        let mut options = options(NAMES[usize::from(is_reverse)]);
        options.cf.target_file_size_base = 400;
        options.cf.level0_file_num_compaction_trigger = 3;
        options.db.max_subcompactions = rng.u32(1..4);
        let mut db = Db::open(&options, "/db").unwrap();
        let (mut history, mut low, mut time): (Vec<(u64, Event)>, u64, u64) = (Vec::new(), 0, 1);
        let key = |rng: &mut fastrand::Rng| format!("k{:02}", rng.u32(..12));
        let range = |rng: &mut fastrand::Rng| {
            let (a, b) = (format!("k{:02}", rng.u32(..12)), format!("k{:02}", rng.u32(..12)));
            let (first, last) = (a.clone().min(b.clone()), a.max(b));
            if is_reverse { Event::DeleteRange(last, first) } else { Event::DeleteRange(first, last) }
        };
        let point = |rng: &mut fastrand::Rng, time: u64| match rng.u32(..6) {
            0 => Event::Delete(key(rng)),
            1 => Event::Merge(key(rng), format!("m{time}")),
            _ => Event::Put(key(rng), format!("v{time}")),
        };
        let mut snapshot = None;
        for round in 0..150 {
            match rng.u32(..12) {
                0..4 => {
                    let event = if rng.u32(..6) == 0 { range(&mut rng) } else { point(&mut rng, time) };
                    apply(&db, time, &event);
                    history.push((time, event));
                    time += 1;
                }
                4..8 => {
                    let mut files = Vec::new();
                    for file in 0..rng.u32(1..3) {
                        let mut events = Vec::new();
                        for n in 0..rng.u32(1..5) {
                            let event =
                                if n == 0 && rng.bool() { range(&mut rng) } else { point(&mut rng, time) };
                            if !matches!(&event, Event::DeleteRange(a, b) if a == b) {
                                events.push((time, event));
                                time += 1;
                            }
                        }
                        if !events.is_empty() {
                            let path = format!("/{round}-{file}");
                            write_file(&options, &path, &events);
                            files.push(path);
                            history.extend(events);
                        }
                    }
                    if !files.is_empty() {
                        db.ingest_external_file(&files).unwrap();
                    }
                }
                8 => db.flush().unwrap(),
                9 => match rng.u32(..3) {
                    0 => rewrite(&db),
                    1 => db.compact_range(None, None).unwrap(),
                    _ => db.wait_for_background_work().unwrap(),
                },
                10 => {
                    low = rng.u64(low..time + 1);
                    db.increase_full_history_ts_low(&db.default_column_family(), &ts(low)).unwrap();
                    snapshot = rng.bool().then(|| db.snapshot());
                }
                _ if rng.u32(..4) == 0 => {
                    snapshot = None;
                    db.close().unwrap();
                    drop(db);
                    db = Db::open(&options, "/db").unwrap();
                }
                _ => {}
            }
            check(&db, &history, rng.u64(low..time + 1), is_reverse);
        }
        drop(snapshot);
    });
}

#[test]
fn no_file_is_ingested_where_timestamps_are_in_memory_only() {
    let mut options = options(NAMES[0]);
    options.db.compatible_with = TargetVersion::V8;
    options.cf.persist_user_defined_timestamps = false;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let write = WriteOptions::default();
    db.put_with_ts(&write, &family, "a", &ts(9), "newer").unwrap();
    db.flush().unwrap();
    let mut writer = SstFileWriter::new(&options);
    writer.open("/file.sst").unwrap();
    for time in [5, 3] {
        writer.put([&b"a"[..], &ts(time)].concat(), format!("v{time}")).unwrap();
    }
    writer.finish().unwrap();
    let refused = db.ingest_external_file(&["/file.sst"]).unwrap_err();
    assert!(refused.to_string().contains("persist_user_defined_timestamps"), "{refused}");
    db.put_with_ts(&write, &family, "a", &ts(12), "newest").unwrap();
    rewrite(&db);
    assert_eq!(db.get_opt(&at(20), &family, "a").unwrap().as_deref(), Some(&b"newest"[..]));
}

#[test]
fn a_deletion_in_a_file_with_timestamps_is_one_of_a_point_in_time() {
    let options = options(NAMES[0]);
    let mut writer = SstFileWriter::new(&options);
    writer.open("/file.sst").unwrap();
    writer.delete([&b"a"[..], &ts(5)].concat()).unwrap();
    writer.put([&b"a"[..], &ts(3)].concat(), "value").unwrap();
    let refused = [writer.put("short", "").unwrap_err(), writer.delete_range("a", "b").unwrap_err()];
    assert!(refused.iter().all(|e| e.kind() == ErrorKind::InvalidArgument), "{refused:?}");
    writer.finish().unwrap();
    let reader = SstFileReader::open(&options, "/file.sst").unwrap();
    let mut entries = reader.table_iter();
    entries.seek_to_first();
    let entry = reader.parse_table_iterator_key(entries.key()).unwrap();
    assert_eq!(entry.entry_type, ValueType::DeletionWithTimestamp);
    let db = Db::open(&options, "/db").unwrap();
    db.ingest_external_file(&["/file.sst"]).unwrap();
    rewrite(&db);
    let value = |time| db.get_opt(&at(time), &db.default_column_family(), "a").unwrap();
    assert_eq!((value(4).as_deref(), value(5)), (Some(&b"value"[..]), None));
}
