//! RocksDB's tables, read by us.

use crate::util::*;
use esker_base::{ErrorKind, SequenceNumber, ValueType, crc32c};
use esker_format::cursor::InternalIterator;
use esker_format::key::{LookupKey, internal_key};
use esker_table::{BlockBasedTableOptions, TableReadOptions};
use std::collections::BTreeMap;

#[test]
fn every_table_is_read() {
    let mut read = 0;
    for path in fixture_tables() {
        let name = short_name(&path);
        let bytes = std::fs::read(&path).unwrap();
        let reader = open_bytes(&bytes, with_filters()).unwrap_or_else(|e| panic!("{name}: {e}"));
        reader.verify(&mut |_| true).unwrap_or_else(|e| panic!("{name}: {e}"));
        let p = reader.properties();
        let forwards = scan(&reader).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(forwards.len() as u64, p.num_entries - p.num_range_deletions, "{name}");
        assert_eq!(forwards, scan_backwards(&reader).unwrap(), "{name}");
        assert_eq!(reader.range_dels().is_some(), p.num_range_deletions > 0, "{name}");
        read += 1;
    }
    assert!(read > 130, "{read} read");
}

#[test]
fn damage_to_an_embedded_blob_is_an_error_and_never_another_value() {
    let path = fixtures().join("v11_9_embedded_blob_sst/emb.sst");
    let bytes = std::fs::read(path).unwrap();
    let entries = scan(&open_bytes(&bytes, with_filters()).unwrap()).unwrap();
    let (_, _, value_type, value) = entries.iter().find(|e| e.3.len() >= 50).unwrap();
    assert_eq!(*value_type, ValueType::Value as u8);
    let at = bytes.windows(value.len()).position(|w| w == value).expect("stored as it is");
    // First and last byte of the payload, codec, and checksum.
    for flipped in [at, at + value.len() - 1, at + value.len(), at + value.len() + 1] {
        let mut damaged = bytes.clone();
        damaged[flipped] ^= 4;
        let reader = open_bytes(&damaged, with_filters()).unwrap();
        let error = scan(&reader).expect_err("damaged");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.message().contains("embedded blob"), "{error}");
        assert!(reader.verify(&mut |_| true).is_err());
    }
}

#[test]
fn every_key_is_found_by_get_and_by_seek() {
    for path in &fixture_tables() {
        let name = short_name(path);
        let bytes = std::fs::read(path).unwrap();
        let reader = open_bytes(&bytes, with_filters()).unwrap();
        let all = scan(&reader).unwrap();
        let options = TableReadOptions::default();
        let mut iter = reader.iter(options);
        let step = (all.len() / 97).max(1);
        for (i, e) in all.iter().enumerate().step_by(step) {
            let mut found = None;
            let lookup = LookupKey::new(&e.0, SequenceNumber(e.1));
            reader
                .get(&options, &lookup, &mut |k, v| {
                    assert_eq!(v.bytes(), v.pin().as_slice());
                    found = Some((k.user_key.to_vec(), k.sequence.0, k.value_type as u8, v.bytes().to_vec()));
                    false
                })
                .unwrap();
            assert_eq!(found.as_ref(), Some(e), "{name}: get of entry {i}");
            let key = ikey_of(e);
            iter.seek(&key);
            assert_eq!(entry(&iter), *e, "{name}: seek to entry {i}");
            assert_eq!(iter.pinned_value().as_slice(), e.3);
            iter.seek_for_prev(&key);
            assert_eq!(entry(&iter), *e, "{name}: seek back to entry {i}");
            let mut absent = e.0.clone();
            absent.push(b'!');
            let other_order = ["udt", "column_families", "reverse", "prefix_enabled"];
            if !other_order.iter().any(|order| name.contains(order)) {
                let lookup = LookupKey::new(&absent, SequenceNumber::MAX);
                reader.get(&options, &lookup, &mut |k, _| panic!("{name}: {k:?}")).unwrap();
                iter.seek(&internal_key(&absent, SequenceNumber::MAX, ValueType::Value));
                let next = all[i..].iter().find(|x| x.0 > absent);
                assert_eq!(iter.valid().then(|| entry(&iter)).as_ref(), next, "{name}");
            }
        }
    }
}

#[test]
fn entries_equal_what_rocksdb_printed() {
    let mut compared = 0;
    for dir in std::fs::read_dir(fixtures()).unwrap() {
        let dir = dir.unwrap().path();
        let Ok(text) = std::fs::read_to_string(dir.join("internal.txt")) else { continue };
        let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut current = "";
        for line in text.lines() {
            match line.strip_prefix("## ") {
                Some(file) => {
                    current = file;
                    files.entry(file).or_default();
                }
                None if line.starts_with("# ") => {}
                None => files.entry(current).or_default().push(line.trim_end()),
            }
        }
        for (file, want) in files {
            let path = dir.join("db").join(file);
            let name = short_name(&path);
            let reader =
                open_bytes(&std::fs::read(&path).unwrap(), BlockBasedTableOptions::default()).unwrap();
            // The newer tool leaves timestamps out.
            let timestamp = if name.starts_with("v11_9_udt_u64/") { 8 } else { 0 };
            let got: Vec<String> = scan(&reader).unwrap().iter().map(|e| print(e, timestamp)).collect();
            assert_eq!(got.len(), want.len(), "{name}");
            for (got, want) in got.iter().zip(want) {
                // Entities and values with a preferred sequence number are printed in other ways.
                let odd = matches!(got.split(' ').nth(2), Some("22" | "24"));
                let fields = if odd { 3 } else { 4 };
                let some =
                    |line: &str| line.trim_end().splitn(4, ' ').take(fields).collect::<Vec<_>>().join(" ");
                assert_eq!(some(got), some(want), "{name}");
            }
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared} files compared");
}

fn print(e: &Entry, timestamp: usize) -> String {
    let value = match e.3.len() {
        0..=32 => hex(&e.3),
        n => format!("#{n} {:08X}", crc32c::value(&e.3)),
    };
    format!("{} {} {} {value}", hex(&e.0[..e.0.len() - timestamp]), e.1, e.2)
}

#[test]
fn filters_say_no_to_most_absent_keys() {
    let mut asked = 0;
    let mut passed = 0;
    for path in fixture_tables() {
        let name = short_name(&path);
        if !["bloom/", "bloom_noopt/", "ribbon/", "partitioned/", "partitioned_coupled/"]
            .iter()
            .any(|f| name.contains(f))
        {
            continue;
        }
        if name.contains("prefix") {
            continue;
        }
        let reader = open_bytes(&std::fs::read(&path).unwrap(), with_filters()).unwrap();
        assert!(reader.properties().filter_size > 0, "{name}");
        for i in 0..500 {
            asked += 1;
            passed +=
                usize::from(reader.may_contain(&TableReadOptions::default(), format!("no{i}").as_bytes()));
        }
    }
    assert!(asked >= 2500, "{asked} asked");
    assert!(passed * 20 < asked, "{passed} of {asked} absent keys passed");
}
