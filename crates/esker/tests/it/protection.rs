//! Checksums of entries in batches and memtables. All is unchanged while memory is sound; a changed
//! entry gives `Corruption`, and is never shown.

use esker::internals::base::entry_checksum::EntryChecksum;
use esker::internals::base::probe::Probes;
use esker::internals::env::MemFs;
use esker::{
    ColumnFamilyDescriptor, Db, Env, ErrorKind, FlushOptions, Options, ValueType, WriteBatch, WriteOptions,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn options(fs: &MemFs, memtable_bytes: u32) -> Options {
    let mut options = Options::default();
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.cf.merge_operator = Some(esker::builtin::string_append(","));
    options.cf.memtable_protection_bytes_per_key = memtable_bytes;
    options
}

fn open(options: &Options) -> Db {
    let families = ["default", "second"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    Db::open_cf(&options.db, "/db", families).unwrap()
}

fn contents(db: &Db, forward: bool) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in ["default", "second"] {
        let family = db.column_family(name).unwrap();
        let mut iter = db.iter_cf(&family).unwrap();
        if forward {
            iter.seek_to_first()
        } else {
            iter.seek_to_last()
        }
        while let Some((key, value)) = iter.item() {
            assert_eq!(db.get_cf(&family, key).unwrap().unwrap(), *value);
            found.insert([name.as_bytes(), key].concat(), value.to_vec());
            if forward { iter.next() } else { iter.prev() }
        }
        iter.status().unwrap();
    }
    found
}

fn write(db: &Db, protection: usize) {
    let options = WriteOptions::default().protection_bytes_per_key(protection);
    for name in ["default", "second"] {
        let family = db.column_family(name).unwrap();
        for n in 0..200u32 {
            let mut batch = WriteBatch::new();
            let key = |n: u32| format!("key{:03}", n % 120).into_bytes();
            batch.put_cf(family.id(), key(n), n.to_le_bytes()).unwrap();
            batch.merge_cf(family.id(), key(n * 7), b"operand").unwrap();
            batch.delete_cf(family.id(), key(n * 11)).unwrap();
            batch.put_log_data(b"said").unwrap();
            batch.put_entity_cf(family.id(), key(n * 13), &[(b"", b"default"), (b"b", b"2")]).unwrap();
            db.write_opt(&options, &mut batch).unwrap();
            db.put_opt(&options, &family, [b"single", &key(n)[..]].concat(), key(n)).unwrap();
            if n % 50 == 49 {
                db.single_delete_opt(&options, &family, b"singlekey001").unwrap();
                db.delete_range_opt(&options, &family, key(30), key(40)).unwrap();
            }
        }
    }
}

#[test]
fn with_checksums_everything_is_as_without() {
    let mut expected = None;
    for (memtable, batch) in [(0, 0), (0, 8), (1, 0), (2, 8), (4, 0), (8, 8)] {
        let fs = MemFs::new();
        let mut options = options(&fs, memtable);
        options.cf.memtable_verify_per_key_checksum_on_seek = memtable > 1;
        options.cf.paranoid_memory_checks = batch > 0;
        let db = open(&options);
        write(&db, batch);
        let found = contents(&db, true);
        assert_eq!(contents(&db, false), found);
        assert_eq!(expected.get_or_insert_with(|| found.clone()), &found);
        let keys: Vec<Vec<u8>> = (0..120).map(|n| format!("key{n:03}").into_bytes()).collect();
        for (key, value) in keys.iter().zip(db.multi_get(&keys)) {
            let full = [b"default", &key[..]].concat();
            assert_eq!(value.unwrap().map(|v| v.to_vec()).as_ref(), found.get(&full));
        }
        drop(db);
        // Reads the entries from the WAL, and then from tables.
        let db = open(&options);
        assert_eq!(contents(&db, true), found);
        db.flush().unwrap();
        assert_eq!(contents(&db, false), found);
    }
}

#[test]
fn an_entry_that_has_changed_in_the_memtable_is_corruption_for_its_readers_and_for_the_flush() {
    let fs = MemFs::new();
    let options = options(&fs, 4);
    let db = open(&options);
    let probes = Probes::new();
    let wanted = Arc::new(AtomicBool::new(false));
    let flip = wanted.clone();
    probes.on_this_thread("MemTable::protect", move |bytes| {
        if flip.swap(false, Ordering::SeqCst) {
            bytes.downcast_mut::<[u8; 8]>().unwrap()[3] ^= 1;
        }
    });
    for n in 0..100 {
        wanted.store(n == 50, Ordering::SeqCst);
        db.put(format!("key{n:02}"), "value").unwrap();
    }
    drop(probes);
    assert_eq!(db.get("key50").unwrap_err().kind(), ErrorKind::Corruption);
    let answers = db.multi_get(&["key49", "key50", "key51", "key52", "key53"]);
    let kinds: Vec<_> = answers.into_iter().map(|a| a.map(|v| v.is_some()).map_err(|e| e.kind())).collect();
    assert_eq!(kinds, [Ok(true), Err(ErrorKind::Corruption), Ok(true), Ok(true), Ok(true)]);
    let mut iter = db.iter().unwrap();
    iter.seek_to_first();
    let mut rows = 0;
    while iter.valid() {
        rows += 1;
        iter.next();
    }
    assert_eq!(rows, 50);
    assert_eq!(iter.status().unwrap_err().kind(), ErrorKind::Corruption);
    drop(iter);
    assert_eq!(
        db.flush_opt(&FlushOptions::default(), &[&db.default_column_family()]).unwrap_err().kind(),
        ErrorKind::Corruption
    );
    assert_eq!(db.background_error().unwrap().kind(), ErrorKind::Corruption);
    assert_eq!(db.put("more", "").unwrap_err().kind(), ErrorKind::Corruption, "writes are refused");
    drop(db);
    let db = open(&options);
    assert_eq!(contents(&db, true).len(), 100, "the WAL has all written entries");
}

#[test]
fn a_batch_that_has_changed_is_neither_logged_nor_applied() {
    for protection in [0, 8] {
        let fs = MemFs::new();
        let options = options(&fs, 0);
        let db = open(&options);
        db.put("before", "value").unwrap();
        let mut batch = WriteBatch::with_protection(8 - protection).unwrap();
        batch.put_cf(db.default_column_family().id(), b"key", b"value").unwrap();
        let probes = Probes::new();
        probes.on_this_thread("WriteBatch::checked_ops", |checksum| {
            *checksum.downcast_mut().unwrap() = EntryChecksum::of(ValueType::Value, b"other", b"value");
        });
        let write_options = WriteOptions::default().protection_bytes_per_key(protection);
        assert_eq!(db.write_opt(&write_options, &mut batch).unwrap_err().kind(), ErrorKind::Corruption);
        drop(probes);
        assert!(db.get("key").unwrap().is_none());
        assert_eq!(db.background_error().unwrap().kind(), ErrorKind::Corruption);
        drop(db);
        let db = open(&options);
        assert!(db.get("key").unwrap().is_none() && db.get("before").unwrap().is_some());
    }
}

#[test]
fn other_sizes_are_refused_by_name() {
    let fs = MemFs::new();
    let mut options = options(&fs, 3);
    let error = Db::open(&options, "/db").unwrap_err();
    assert!(
        error.kind() == ErrorKind::InvalidArgument
            && error.to_string().contains("memtable_protection_bytes_per_key")
    );
    options.cf.memtable_protection_bytes_per_key = 2;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let change = |value| db.set_options(&family, &[("memtable_protection_bytes_per_key", value)]);
    assert!(change("5").is_err() && change("8").is_ok());
    let four = WriteOptions::default().protection_bytes_per_key(4);
    assert_eq!(db.put_opt(&four, &family, "key", "value").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.background_error().map(|e| e.kind()), None);
}
