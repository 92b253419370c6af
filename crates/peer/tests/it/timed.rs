//! The interface for benchmarks returns the entries that were written through it.

use esker_peer::timed::{MultiGetScratch, ScanFrom, TimedDb, TimedDurability, TimedOptions};
use esker_peer::{RocksDb, require};
use esker_testkit::TempDir;

#[test]
fn the_interface_for_benchmarks_finds_its_own_writes() {
    if require("RocksDB 11", RocksDb::available()).is_none() {
        return;
    }
    let dir = TempDir::new("timed");
    let options = TimedOptions {
        text: "create_if_missing=true;compression=kNoCompression".to_owned(),
        cache_bytes: 1 << 20,
        bloom_bits: 10.0,
    };
    let db = TimedDb::open(dir.path(), &options).unwrap();
    let key = |i: u32| format!("{i:08}").into_bytes();
    for i in 0..1000 {
        let durability =
            [TimedDurability::NoWal, TimedDurability::Wal, TimedDurability::Sync][(i % 100).min(2) as usize];
        db.put(&key(i), &i.to_le_bytes(), durability).unwrap();
    }
    let (first, second) = (key(2000), key(2001));
    db.put_all([(&first[..], &b"a"[..]), (&second[..], &b"b"[..])].into_iter(), TimedDurability::Wal)
        .unwrap();
    db.delete(&key(1), TimedDurability::Wal).unwrap();
    db.delete_range(&key(10), &key(20), TimedDurability::Wal).unwrap();
    let mut snapshot = db.cursor(true);
    db.put(&key(5000), b"late", TimedDurability::Wal).unwrap();
    db.flush().unwrap();
    db.compact();
    db.settle().unwrap();

    let mut buffer = [0; 16];
    assert_eq!(db.get(&key(0), &mut buffer).unwrap(), Some(4));
    assert_eq!(buffer[..4], 0u32.to_le_bytes());
    for gone in [1, 10, 19] {
        assert_eq!(db.get(&key(gone), &mut buffer).unwrap(), None, "{gone}");
    }
    assert!(db.get(&key(0), &mut buffer[..3]).unwrap_err().contains("4 bytes"));

    let keys = [key(999), key(1), key(3)];
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut found = Vec::new();
    db.multi_get(&keys, &mut MultiGetScratch::default(), |value| found.push(value.to_vec())).unwrap();
    assert_eq!(found, [999u32.to_le_bytes().to_vec(), 3u32.to_le_bytes().to_vec()]);

    let mut cursor = db.cursor(false);
    let mut ignore = |_: &[u8], _: &[u8]| ();
    assert_eq!(cursor.scan(ScanFrom::First, usize::MAX, &mut ignore).unwrap(), 1000 - 11 + 3);
    let mut seen = Vec::new();
    let mut remember = |k: &[u8], _: &[u8]| seen.push(k.to_vec());
    assert_eq!(cursor.scan(ScanFrom::Key(&key(19)), 1, &mut remember).unwrap(), 1);
    assert_eq!(cursor.scan(ScanFrom::Last, 2, &mut remember).unwrap(), 2);
    assert_eq!(seen, [key(20), key(5000), key(2001)]);

    let mut old = Vec::new();
    snapshot.scan(ScanFrom::Last, 1, &mut |k, _| old.push(k.to_vec())).unwrap();
    assert_eq!(old, [key(2001)]);
}
