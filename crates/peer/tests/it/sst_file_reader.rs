//! Reads single tables of RocksDB without their databases.

use esker::internals::format::cursor::InternalIterator;
use esker::internals::table::TableReader;
use esker::options::DbOptions;
use esker::{ErrorKind, Options, ReadOptions, SstFileReader, ValueType, comparator};
use esker_peer::fixture;
use esker_peer::model_ops::PeerOp;
use esker_peer::{RocksDb, require, write_sst_file};
use esker_testkit::TempDir;
use std::collections::BTreeMap;
use std::path::Path;

/// Options with the table's own comparator.
fn options_for(table: &Path) -> Options {
    let fs = DbOptions::default().env.fs;
    let size = fs.file_size(table).expect("there");
    let file = fs.new_random_access_file(table).expect("opens");
    let properties = TableReader::properties_of(file, size).expect("has properties");
    let mut options = Options::default();
    if !properties.comparator_name.is_empty() {
        options.cf.comparator = comparator::by_name(&properties.comparator_name).expect("built in");
    }
    options
}

/// The visible keys of the entries, as far as the table alone shows them. Entries of a key come
/// newest first. Values are given only if they are plain.
fn visible(entries: &[(Vec<u8>, ValueType, Vec<u8>)]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut newest: Vec<&(Vec<u8>, ValueType, Vec<u8>)> = Vec::new();
    for entry in entries {
        if newest.last().is_none_or(|last| last.0 != entry.0) {
            newest.push(entry);
        }
    }
    let is_there = |kind: ValueType| {
        !matches!(kind, ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp)
    };
    let shown = newest.into_iter().filter(|(_, kind, _)| is_there(*kind));
    shown
        .map(|(key, kind, value)| (key.clone(), (*kind == ValueType::Value).then(|| value.clone())))
        .collect()
}

fn entries(reader: &SstFileReader) -> Vec<(Vec<u8>, ValueType, Vec<u8>)> {
    let mut iter = reader.table_iter();
    let mut found = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        let parsed = reader.parse_table_iterator_key(iter.key()).expect("a key");
        found.push((parsed.user_key.to_vec(), parsed.entry_type, iter.value().to_vec()));
        iter.next();
    }
    iter.status().expect("read to the end");
    found
}

/// Compares scans in both directions and gets by key with the table's entries. Returns the number
/// of keys compared.
fn check(path: &Path) -> usize {
    let mut options = options_for(path);
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    let reader = SstFileReader::open(&options, path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    reader.verify_checksum().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    reader.verify_num_entries().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let expected = visible(&entries(&reader));
    let newest = vec![0xFF; options.cf.comparator.timestamp_size()];
    let timestamp = (!newest.is_empty()).then_some(newest);
    let read = ReadOptions { timestamp, ..ReadOptions::default() };
    let same = |found: &[u8], value: &Option<Vec<u8>>| value.as_deref().is_none_or(|value| value == found);
    let mut iter = reader.iter(&read).expect("opens");
    iter.seek_to_first();
    for (key, value) in &expected {
        let (found, here) = iter.item().unwrap_or_else(|| panic!("{}: {:?}", path.display(), iter.status()));
        assert_eq!(found, key, "{}", path.display());
        assert!(same(here, value), "{}: {}", path.display(), key.escape_ascii());
        iter.next();
    }
    assert!(!iter.valid(), "{}", path.display());
    iter.seek_to_last();
    for (key, value) in expected.iter().rev() {
        assert!(iter.valid() && iter.key() == key && same(iter.value(), value), "{}: back", path.display());
        iter.prev();
    }
    let keys: Vec<&[u8]> = expected.iter().map(|(key, _)| key.as_slice()).collect();
    for ((key, value), got) in expected.iter().zip(reader.multi_get(&read, &keys)) {
        match got {
            Ok(found) => assert!(same(&found.expect("there"), value), "{}", path.display()),
            Err(e) => assert_eq!(e.kind(), ErrorKind::MergeInProgress, "{}: {e}", key.escape_ascii()),
        }
    }
    assert_eq!(reader.get(&read, b"\xFFnever").expect("reads"), None);
    expected.len()
}

#[test]
fn tables_of_golden_databases_are_read_without_their_databases() {
    let (mut tables, mut keys) = (0, 0);
    for fixture in fixture::all(&["v7_8_", "v11_8_", "v11_9_"]) {
        // A fixture that is not a database is a single table.
        let Ok(files) = std::fs::read_dir(fixture.db()) else { continue };
        for entry in files {
            let path = entry.expect("readable").path();
            if path.extension().is_some_and(|e| e == "sst") {
                keys += check(&path);
                tables += 1;
            }
        }
    }
    println!("{tables} tables, {keys} keys");
    assert!(tables > 150 && keys > 10_000, "{tables} tables, {keys} keys");
}

fn op(kind: u32, key: Vec<u8>, value: Vec<u8>) -> PeerOp {
    let family = String::from("default");
    match kind {
        0 => PeerOp::Delete { family, key },
        1 => PeerOp::Merge { family, key, operand: value },
        _ => PeerOp::Put { family, key, value },
    }
}

#[test]
fn a_table_of_rocksdbs_writer_says_of_keys_what_was_put_into_it() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let dir = TempDir::new("sst-file-reader");
    let path = dir.path().join("made.sst");
    let mut ops = Vec::new();
    let mut model = BTreeMap::new();
    for i in 0..1000_u32 {
        let (key, value) = (format!("key{i:05}").into_bytes(), format!("value{i}").repeat(3).into_bytes());
        model.insert(key.clone(), (i % 5, value.clone()));
        ops.push(op(i % 5, key, value));
    }
    // A range deletion hides no entries of its own table.
    ops.push(PeerOp::DeleteRange {
        family: "default".into(),
        begin: b"key00100".into(),
        end: b"key00200".into(),
    });
    let table = "merge_operator=stringappend;block_based_table_factory={block_size=512;filter_policy=bloomfilter:10;\
                 format_version=5}";
    write_sst_file(&path, table, &ops).expect("written");
    let mut options = Options::default();
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    let reader = SstFileReader::open(&options, &path).expect("opens");
    reader.verify_num_entries().expect("counts");
    let properties = reader.table_properties();
    assert_eq!((properties.num_entries, properties.num_range_deletions), (1001, 1));
    for (key, (kind, value)) in &model {
        let got = reader.get(&ReadOptions::default(), key);
        match kind {
            0 => assert_eq!(got.expect("reads"), None),
            1 => assert_eq!(got.expect_err("has no base").kind(), ErrorKind::MergeInProgress),
            _ => assert_eq!(got.expect("reads").as_deref(), Some(value.as_slice())),
        }
    }
    assert_eq!(check(&path), 800);
    let bounds = ReadOptions::new().lower_bound("key00100").upper_bound("key00110");
    let mut iter = reader.iter(&bounds).expect("opens");
    iter.seek_to_first();
    let mut found = 0;
    while iter.valid() {
        found += 1;
        iter.next();
    }
    assert_eq!(found, 8, "ten keys, two of them deleted");
    let error = reader.iter(&ReadOptions { timestamp: Some(vec![0; 8]), ..ReadOptions::default() });
    assert_eq!(error.expect_err("no timestamps").kind(), ErrorKind::InvalidArgument);
}
