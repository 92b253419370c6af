//! Files that come from elsewhere with timestamps.

use super::{at, options, ts};
use esker::{
    CompactionOptions, Db, ErrorKind, IngestExternalFileOptions, SstFileWriter, WriteBatch, WriteOptions,
};

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
    db.ingest_external_file(&[first, second], &IngestExternalFileOptions::default()).unwrap();
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
    // Older versions of a key that is in a memtable, and newer ones.
    db.put_with_ts(&WriteOptions::default(), &family, "d", &ts(6), "d6").unwrap();
    let around = [file("/older", &[("d", 5, Some("d5"))]), file("/newer", &[("d", 8, Some("d8"))])];
    for path in around {
        db.ingest_external_file(&[path], &IngestExternalFileOptions::default()).unwrap();
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
    // RocksDB's gets end at the first level that has the key: what is newer must not lie below.
    let level_of = |key: &[u8]| db.live_files().iter().find(|f| f.smallest_key == key).map(|f| f.level);
    assert_eq!(level_of(&[b"d".as_slice(), &ts(6)].concat()), Some(0), "flushed before");
    assert_eq!(level_of(&[b"d".as_slice(), &ts(8)].concat()), Some(0), "and it lies over that");
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
        db.ingest_external_file(&["/file"], &IngestExternalFileOptions::default()).unwrap();
        // RocksDB's gets end at a level that has a range deletion over the key: what is newer must not lie below.
        let newest = [key.as_bytes(), &ts(12)].concat();
        let ingested = db.live_files().into_iter().find(|f| f.smallest_key == newest).unwrap();
        assert_eq!(ingested.level, level, "{key}");
        assert_eq!(
            db.live_files().len(),
            if level == 0 { 2 } else { 1 },
            "{key}: flushed only if in the way"
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
    db.ingest_external_file(&["/file"], &IngestExternalFileOptions::default()).unwrap();
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
    assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::InvalidArgument, "nothing is in it");
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let mut batch = WriteBatch::new();
    batch.put(family.id(), &older, b"v").unwrap();
    batch.delete_range(family.id(), &newer, &older).unwrap();
    db.write(&WriteOptions::default(), &mut batch).unwrap();
    let get = |db: &Db| db.get_opt(&at(20), &db.default_column_family(), "k").unwrap();
    assert_eq!(get(&db).as_deref(), Some(&b"v"[..]));
    db.flush().unwrap();
    assert_eq!(get(&db).as_deref(), Some(&b"v"[..]));
    let mut batch = WriteBatch::new();
    batch.delete_range(family.id(), &newer, &older).unwrap();
    db.write(&WriteOptions::default(), &mut batch).unwrap();
    db.flush().unwrap();
    assert_eq!(get(&db).as_deref(), Some(&b"v"[..]));
    db.compact_range(None, None).unwrap();
    assert_eq!(get(&db).as_deref(), Some(&b"v"[..]));
    db.close().unwrap();
    options.db.create_if_missing = false;
    assert_eq!(get(&Db::open(&options, "/db").unwrap()).as_deref(), Some(&b"v"[..]));
}
