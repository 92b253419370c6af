//! `delete_files_in_ranges`: the tables that it deletes, and the contents that readers see
//! afterwards.

use esker::internals::base::probe::Probes;
use esker::internals::env::{FaultFs, FaultRule, FileSystem, MemFs, OpKind};
use esker::options::{BottommostLevelCompaction, CompressionType};
use esker::{CompactRangeOptions, Db, DbIterator, Env, ErrorKind, FileNumber, Options, RangeOpt};
use esker_testkit::seed::for_each_seed;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

fn options(fs: Arc<dyn FileSystem>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs);
    options.cf.disable_auto_compactions = true;
    options.cf.compression = CompressionType::None;
    options.cf.target_file_size_base = 2000;
    options.cf.table.block_size = 200;
    options
}

fn key(n: usize) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

fn write(db: &Db, keys: impl IntoIterator<Item = usize>, version: usize) {
    for n in keys {
        db.put(key(n), format!("value {n} of {version} {}", "x".repeat(60))).unwrap();
    }
    db.flush().unwrap();
}

fn move_to(db: &Db, level: i32) {
    let options = CompactRangeOptions { change_level: true, target_level: level, ..rewriting() };
    db.compact_range_opt(&options, &db.default_column_family(), None, None).unwrap();
}

/// Options of a compaction that rewrites: a moved table would keep its size.
fn rewriting() -> CompactRangeOptions {
    CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    }
}

/// Number, level, first and last key of each table.
fn tables(db: &Db) -> Vec<(FileNumber, usize, Vec<u8>, Vec<u8>)> {
    let of =
        |f: &esker::LiveFileMetaData| (f.file_number, f.level, f.smallest_key.clone(), f.largest_key.clone());
    db.live_files().iter().map(of).collect()
}

fn numbers(db: &Db) -> BTreeSet<FileNumber> {
    tables(db).into_iter().map(|(number, ..)| number).collect()
}

fn rows(mut iter: DbIterator) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        rows.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    iter.status().unwrap();
    rows
}

fn rows_backward(mut iter: DbIterator) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    iter.seek_to_last();
    while iter.valid() {
        rows.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.prev();
    }
    iter.status().unwrap();
    rows.reverse();
    rows
}

/// Waits until all data files are deleted: a read of another test may hold the last super version
/// briefly.
fn wait_until_no_data_is_left(fs: &MemFs, db: &Db) {
    let is_data = |name: &String| name.ends_with(".sst") || name.ends_with(".blob");
    for _ in 0..100_000 {
        db.get(key(0)).unwrap();
        if !fs.children(Path::new("/db")).unwrap().iter().any(is_data) {
            return;
        }
        thread::yield_now();
    }
    panic!("{:?}", fs.children(Path::new("/db")).unwrap());
}

#[test]
fn tables_that_lie_within_a_range_go_and_all_others_stay() {
    for_each_seed("delete files in ranges", 12, |_, mut rng| {
        let fs = MemFs::new();
        let mut options = options(Arc::new(fs.clone()));
        options.cf.enable_blob_files = rng.bool();
        options.cf.min_blob_size = 70;
        let db = Db::open(&options, "/db").unwrap();
        let default = db.default_column_family();
        for (version, level) in [(0, 6), (1, 4), (2, 0)] {
            let keys: BTreeSet<usize> = (0..rng.usize(50..300)).map(|_| rng.usize(..400)).collect();
            for n in &keys {
                if version > 0 && n % 3 == 0 {
                    db.delete(key(*n)).unwrap();
                } else {
                    db.put(key(*n), format!("{n} of {version} {}", "x".repeat(60 + n % 20))).unwrap();
                }
            }
            if version > 0 && rng.bool() {
                let from = rng.usize(..300);
                db.delete_range(key(from), key(from + rng.usize(1..100))).unwrap();
            }
            db.flush().unwrap();
            if level == 4 {
                // Moves the files, one by one, to the level above the last one.
                let all: Vec<_> =
                    db.live_files().iter().filter(|f| f.level == 0).map(|f| f.file_number).collect();
                db.compact_files(&Default::default(), &default, &all, 4).unwrap();
            } else if level == 6 {
                move_to(&db, 6);
            }
        }
        // Scans remember deleted runs, and one iterator is in the middle of the range.
        let held = db.iter().unwrap();
        let before = (tables(&db), rows(db.iter().unwrap()));
        let include_end = rng.bool();
        let draw = |rng: &mut fastrand::Rng| {
            // Most ends are bounds of a table.
            let ends: Vec<_> = before.0.iter().flat_map(|(_, _, a, b)| [a.clone(), b.clone()]).collect();
            let one = |rng: &mut fastrand::Rng| match rng.u8(..4) {
                0 => None,
                1 => Some(key(rng.usize(..400))),
                _ => Some(ends[rng.usize(..ends.len())].clone()),
            };
            let (a, b) = (one(rng), one(rng));
            if a.is_some() && b.is_some() && a > b { (b, a) } else { (a, b) }
        };
        let ranges: Vec<_> = (0..rng.usize(1..4)).map(|_| draw(&mut rng)).collect();
        let lies_within = |(_, level, first, last): &(FileNumber, usize, Vec<u8>, Vec<u8>)| {
            *level > 0
                && ranges.iter().any(|(begin, end)| {
                    let ends = |end: &Vec<u8>| if include_end { last <= end } else { last < end };
                    begin.as_ref().is_none_or(|begin| first >= begin) && end.as_ref().is_none_or(ends)
                })
        };
        let parted = db
            .live_files()
            .windows(2)
            .any(|w| w[0].level > 0 && w[0].level == w[1].level && w[0].largest_key == w[1].smallest_key);
        let expected: BTreeSet<_> = before.0.iter().filter(|t| !lies_within(t)).map(|t| t.0).collect();
        let borrowed: Vec<_> =
            ranges.iter().map(|(a, b)| RangeOpt { start: a.as_deref(), limit: b.as_deref() }).collect();
        let gone = db.delete_files_in_ranges(&default, &borrowed, include_end).unwrap();
        assert_eq!(gone, before.0.len() - numbers(&db).len());
        // Two tables share a key: both stay if one does.
        assert!(numbers(&db).is_superset(&expected), "{ranges:?}");
        assert!(parted || numbers(&db) == expected, "{ranges:?} {include_end} of {:?}", before.0);

        drop(held);
        let now = rows(db.iter().unwrap());
        assert_eq!(rows_backward(db.iter().unwrap()), now);
        for n in 0..400 {
            let found = now.iter().find(|(k, _)| *k == key(n)).map(|(_, value)| &value[..]);
            assert_eq!(db.get(key(n)).unwrap().as_deref(), found, "key {n}");
        }
        db.verify_checksum().unwrap();
        drop((default, db));
        let db = Db::open(&options, "/db").unwrap();
        assert_eq!(rows(db.iter().unwrap()), now);
        db.compact_range(None, None).unwrap();
        assert_eq!(rows(db.iter().unwrap()), now, "a compaction brings no hidden entry back");
        // With all tables, all blob files are deleted.
        db.delete_files_in_ranges(&db.default_column_family(), &[RangeOpt::default()], true).unwrap();
        assert_eq!((rows(db.iter().unwrap()), tables(&db).len()), (Vec::new(), 0));
        wait_until_no_data_is_left(&fs, &db);
    });
}

#[test]
fn keys_that_deleted_tables_hid_are_seen_again_also_where_scans_had_found_nothing() {
    let mut options = options(Arc::new(MemFs::new()));
    options.cf.target_file_size_base = 64 << 20;
    // Scans step over the deletions, and remember the run.
    options.cf.deleted_run_block_min_entries = 0;
    options.cf.deleted_run_memory_min_keys = 1;
    let db = Db::open(&options, "/db").unwrap();
    let default = db.default_column_family();
    write(&db, 0..400, 0);
    move_to(&db, 6);
    for n in 100..300 {
        db.delete(key(n)).unwrap();
    }
    db.flush().unwrap();
    let deletions = db.live_files().iter().find(|f| f.level == 0).unwrap().file_number;
    db.compact_files(&Default::default(), &default, &[deletions], 3).unwrap();
    // In a newer file, so that scans still have deletions to step over.
    for n in 100..120 {
        db.delete(key(n)).unwrap();
    }
    db.flush().unwrap();
    let mut held = db.iter().unwrap();
    for _ in 0..3 {
        assert_eq!(rows(db.iter().unwrap()).len(), 200);
        held.seek(key(99));
        held.next();
        assert_eq!(held.key(), key(300));
    }
    let range = RangeOpt { start: Some(b"key0100"), limit: Some(b"key0300") };
    assert_eq!(db.delete_files_in_ranges(&default, &[range], false).unwrap(), 1);
    assert_eq!(rows(db.iter().unwrap()).len(), 380);
    assert_eq!(rows_backward(db.iter().unwrap()).len(), 380);
    held.refresh().unwrap();
    held.seek(key(99));
    held.next();
    assert_eq!(held.key(), key(120));
}

#[test]
fn neither_memtables_nor_level_0_lose_anything() {
    let db = Db::open(&options(Arc::new(MemFs::new())), "/db").unwrap();
    write(&db, 0..50, 0);
    db.put(key(60), "in memory").unwrap();
    let default = db.default_column_family();
    assert_eq!(db.delete_files_in_ranges(&default, &[RangeOpt::default()], true).unwrap(), 0);
    assert_eq!(db.delete_files_in_ranges(&default, &[], true).unwrap(), 0);
    assert_eq!(rows(db.iter().unwrap()).len(), 51);
}

#[test]
fn tables_stay_when_the_manifest_cannot_be_written_and_go_when_it_can() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let mut options = options(Arc::new(fs.clone()));
    options.db.max_bgerror_resume_count = 0;
    let db = Db::open(&options, "/db").unwrap();
    write(&db, 0..400, 0);
    move_to(&db, 6);
    let (default, before) = (db.default_column_family(), numbers(&db));
    assert!(before.len() > 3);
    fs.add_rule(FaultRule::fail(&[OpKind::Append, OpKind::Sync]).on_name("MANIFEST").times(1));
    let error = db.delete_files_in_ranges(&default, &[RangeOpt::default()], true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IoError, "{error}");
    assert_eq!((numbers(&db), rows(db.iter().unwrap()).len()), (before.clone(), 400));
    // The files are free for compactions and for another call.
    db.compact_range_opt(&rewriting(), &default, None, None).unwrap();
    assert!(numbers(&db).is_disjoint(&before));
    assert!(db.delete_files_in_ranges(&default, &[RangeOpt::default()], true).unwrap() > 3);
    assert_eq!(rows(db.iter().unwrap()), []);
    drop((default, db));
    assert_eq!(rows(Db::open(&options, "/db").unwrap().iter().unwrap()), []);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a compaction that waits is left behind")]
fn no_compaction_takes_a_table_that_is_about_to_go() {
    let db = Db::open(&options(Arc::new(MemFs::new())), "/db").unwrap();
    write(&db, 0..400, 0);
    move_to(&db, 6);
    let compaction = Arc::new(Mutex::new(None));
    let probes = Probes::new();
    let (compactor, begun) = (db.clone(), compaction.clone());
    probes.on_this_thread("delete_files:picked", move |_| {
        let (db, files) = (compactor.clone(), Vec::from_iter(numbers(&compactor)));
        let compact = move || db.compact_files(&Default::default(), &db.default_column_family(), &files, 6);
        // The call is refused at once: otherwise it would wait for this very deletion.
        let (tell, told) = channel();
        thread::spawn(move || tell.send(compact()));
        *begun.lock().unwrap() = told.recv_timeout(Duration::from_secs(120)).ok();
    });
    let gone = db.delete_files_in_ranges(&db.default_column_family(), &[RangeOpt::default()], true).unwrap();
    drop(probes);
    assert!(gone > 3);
    let refused = compaction.lock().unwrap().take().expect("an answer").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Aborted, "{refused}");
    assert_eq!(rows(db.iter().unwrap()), []);
    db.put("and it takes writes", "still").unwrap();
    db.flush().unwrap();
}

#[test]
fn tables_go_beside_compactions_that_take_others() {
    let mut options = options(Arc::new(MemFs::new()));
    options.cf.disable_auto_compactions = false;
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.max_bytes_for_level_base = 8000;
    let db = Db::open(&options, "/db").unwrap();
    let default = db.default_column_family();
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..30 {
                write(&db, (0..400).skip(round % 7).step_by(3), round);
            }
        });
        scope.spawn(|| {
            for round in 0..200 {
                let (start, limit) = (key(round * 2 % 300), key(round * 2 % 300 + 80));
                let range = RangeOpt { start: Some(&start), limit: Some(&limit) };
                db.delete_files_in_ranges(&default, &[range], round % 2 == 0).unwrap();
            }
        });
    });
    db.wait_for_background_work().unwrap();
    assert!(db.background_error().is_none());
    let now = rows(db.iter().unwrap());
    assert_eq!(rows_backward(db.iter().unwrap()), now);
    db.verify_checksum().unwrap();
    drop((default, db));
    assert_eq!(rows(Db::open(&options, "/db").unwrap().iter().unwrap()), now);
}

#[test]
fn inverted_ranges_dropped_families_and_read_only_databases_are_refused() {
    let options = options(Arc::new(MemFs::new()));
    let db = Db::open(&options, "/db").unwrap();
    write(&db, 0..400, 0);
    move_to(&db, 6);
    let default = db.default_column_family();
    let ranges = [
        RangeOpt { start: None, limit: Some(b"key0100") },
        RangeOpt { start: Some(b"key0300"), limit: Some(b"key0200") },
    ];
    let error = db.delete_files_in_ranges(&default, &ranges, true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("range 1 ends before it begins"), "{error}");
    assert_eq!(rows(db.iter().unwrap()).len(), 400);
    let dropped = db.create_column_family("dropped", &options.cf).unwrap();
    db.drop_column_family(&dropped).unwrap();
    let error = db.delete_files_in_ranges(&dropped, &[RangeOpt::default()], true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ColumnFamilyDropped);
    drop((default, dropped, db));
    let db = Db::open_for_read_only(&options, "/db").unwrap();
    let error =
        db.delete_files_in_ranges(&db.default_column_family(), &[RangeOpt::default()], true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
}
