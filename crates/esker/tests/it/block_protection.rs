//! Checksums of entries in blocks in memory. Reads are unchanged while memory is sound; a changed
//! entry gives `Corruption` with file and offset, and is never shown.

use esker::internals::base::probe::Probes;
use esker::internals::env::MemFs;
use esker::internals::format::block::Block;
use esker::internals::format::filter::FilterPolicy;
use esker::{Db, Env, Error, ErrorKind, Options};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const KEYS: u32 = 500;

fn options(fs: &MemFs, bytes: u32) -> Options {
    let mut options = Options::default();
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.db.create_if_missing = true;
    options.cf.block_protection_bytes_per_key = bytes;
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    options.cf.table.cache_index_and_filter_blocks = true;
    options
}

fn key(n: u32) -> String {
    format!("key{n:05}")
}

fn fill(fs: &MemFs) {
    let db = Db::open(&options(fs, 0), "/db").unwrap();
    (0..KEYS).for_each(|n| db.put(key(n), [n as u8; 50]).unwrap());
    db.delete_range(key(100), key(110)).unwrap();
    db.flush().unwrap();
}

/// Damages a byte in the `nth` block that is read into memory from now on, after its checksums were
/// made. Counts the blocks.
fn damage(probes: &Probes, nth: usize, at: usize) -> Arc<AtomicUsize> {
    let came = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&came);
    probes.on_this_thread("block_source::protect", move |block| {
        let block: &mut Block = block.downcast_mut().unwrap();
        if counted.fetch_add(1, Ordering::Relaxed) == nth {
            block.damage_for_test(at, 4);
        }
    });
    came
}

fn is_told(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Corruption);
    let text = error.to_string();
    let parts = [".sst", "at offset ", "block_protection_bytes_per_key"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

/// Reads all keys in each way. Returns the number of failed gets; all other answers must be right.
fn read(db: &Db) -> usize {
    let expected = |n: u32| (!(100..110).contains(&n)).then(|| vec![n as u8; 50]);
    let mut failed = 0;
    for n in 0..KEYS {
        match db.get(key(n)) {
            Ok(value) => assert_eq!(value, expected(n)),
            Err(e) => {
                is_told(&e);
                failed += 1;
            }
        }
    }
    let keys: Vec<String> = (0..KEYS).map(key).collect();
    let answers = db.multi_get(&keys);
    for (n, answer) in (0..).zip(&answers) {
        match answer {
            Ok(value) => assert_eq!(value.as_ref().map(|v| v.to_vec()), expected(n)),
            Err(e) => is_told(e),
        }
    }
    assert_eq!(answers.iter().any(Result::is_err), failed > 0);
    for forward in [true, false] {
        let mut iter = db.iter().unwrap();
        if forward {
            iter.seek_to_first()
        } else {
            iter.seek_to_last()
        }
        let mut left: Vec<u32> = (0..KEYS).filter(|n| expected(*n).is_some()).collect();
        while let Some((found, value)) = iter.item() {
            let n = if forward { left.remove(0) } else { left.pop().unwrap() };
            assert_eq!((found, value), (key(n).as_bytes(), [n as u8; 50].as_slice()));
            if forward { iter.next() } else { iter.prev() }
        }
        match iter.status() {
            Ok(()) => assert!(left.is_empty()),
            Err(e) => is_told(&e),
        }
        assert_eq!(iter.status().is_err(), failed > 0);
    }
    failed
}

#[test]
fn nothing_is_different_while_memory_keeps_what_was_read() {
    let fs = MemFs::new();
    fill(&fs);
    for bytes in [0, 1, 2, 4, 8] {
        let probes = Probes::new();
        let came = damage(&probes, usize::MAX, 0);
        let db = Db::open(&options(&fs, bytes), "/db").unwrap();
        assert_eq!(read(&db), 0);
        assert_eq!(came.load(Ordering::Relaxed) > 0, bytes > 0);
    }
}

#[test]
fn a_changed_byte_in_a_cached_block_is_an_error_of_the_keys_that_need_it() {
    let fs = MemFs::new();
    fill(&fs);
    let probes = Probes::new();
    // The order of blocks: meta index, properties, range tombstones, index, data blocks.
    let came = damage(&probes, usize::MAX, 0);
    let db = Db::open(&options(&fs, 8), "/db").unwrap();
    db.get(key(0)).unwrap();
    let at_open = came.load(Ordering::Relaxed) - 1;
    assert_eq!(read(&db), 0);
    let all = came.load(Ordering::Relaxed);
    drop(db);
    assert!(at_open >= 4 && all > at_open + 5, "{at_open} and {all} blocks");
    for block in 0..all {
        damage(&probes, block, 13);
        let opened = Db::open(&options(&fs, 8), "/db");
        match opened {
            Ok(db) => {
                let failed = read(&db);
                // Properties are decoded at once, and read again if they are damaged.
                assert!(failed > 0 || block == 1, "block {block}: no read reported the damage");
                // A damaged data block loses its keys; a damaged index, the keys of the blocks that
                // it cannot name.
                assert!(failed < 60 || block < at_open, "block {block}: {failed} keys");
            }
            Err(e) => {
                assert!(block < at_open, "block {block}");
                is_told(&e);
            }
        }
    }
}

#[test]
fn tables_that_are_opened_later_take_a_change_over() {
    let fs = MemFs::new();
    let probes = Probes::new();
    let came = damage(&probes, usize::MAX, 0);
    let db = Db::open(&options(&fs, 0), "/db").unwrap();
    let family = db.default_column_family();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), b"1");
    assert_eq!(came.load(Ordering::Relaxed), 0);
    db.set_options(&family, &[("block_protection_bytes_per_key", "8")]).unwrap();
    db.put("b", "2").unwrap();
    db.flush().unwrap();
    assert_eq!(db.get("b").unwrap().unwrap(), b"2");
    assert!(came.load(Ordering::Relaxed) > 0);
    assert!(db.set_options(&family, &[("block_protection_bytes_per_key", "3")]).is_err());
    drop(db);
    let refused = Db::open(&options(&fs, 16), "/db").unwrap_err();
    assert!(refused.to_string().contains("block_protection_bytes_per_key"), "{refused}");
}
