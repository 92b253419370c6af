//! Secondary instances: databases that follow a primary's files.
#![allow(clippy::disallowed_methods, reason = "a test that waits for the primary's purge")]

mod campaign;
mod processes;

use esker::builtin::string_append;
use esker::internals::base::probe::Probes;
use esker::internals::env::fault::OpKind;
use esker::internals::env::mem::MemFs;
use esker::internals::env::{FaultFs, FileSystem};
use esker::{
    ColumnFamilyHandle, ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, Env, ErrorKind,
    FlushOptions, Options, ReadOptions, SubCode, TransactionDb, TransactionDbOptions, WriteBatch,
};
use esker_testkit::TempDir;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn options(fs: &Arc<MemFs>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.env = Env::with_fs(fs.clone());
    options.cf.merge_operator = Some(string_append(","));
    options.cf.disable_auto_compactions = true;
    options
}

fn primary_on(fs: &Arc<MemFs>) -> Db {
    Db::open(&options(fs), "/db").unwrap()
}

fn secondary_on(fs: &Arc<MemFs>) -> Db {
    Db::open_as_secondary(&options(fs), "/db", "/mine").unwrap()
}

fn pairs(db: &Db, family: &ColumnFamilyHandle, options: ReadOptions) -> Pairs {
    let mut iter = db.iter_opt(options, family).unwrap();
    let mut found = Vec::new();
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        found.push((key.to_vec(), value.to_vec()));
        iter.next();
    }
    iter.status().unwrap();
    found
}

fn all(db: &Db) -> Pairs {
    pairs(db, &db.default_column_family(), ReadOptions::default())
}

/// The scenario of rust-rocksdb's `test_open_as_secondary`.
#[test]
fn a_secondary_sees_what_the_primary_had_at_the_last_catch_up() {
    let dir = TempDir::new("secondary");
    let primary = Db::open_default(dir.join("primary")).unwrap();
    primary.put("key1", "value1").unwrap();
    let mut options = Options::default();
    options.db.max_open_files = -1;
    let secondary = Db::open_as_secondary(&options, dir.join("primary"), dir.join("mine")).unwrap();
    assert_eq!(secondary.get("key1").unwrap().unwrap(), b"value1");

    primary.put("key1", "value2").unwrap();
    assert_eq!(secondary.get("key1").unwrap().unwrap(), b"value1");
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(secondary.get("key1").unwrap().unwrap(), b"value2");
    drop(primary);
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(secondary.get("key1").unwrap().unwrap(), b"value2");
}

/// A WAL is written over after the secondary has listed the WALs, and before it reads further in
/// that WAL.
#[test]
fn a_wal_that_is_recycled_before_its_last_records_are_read_is_no_damage() {
    let fs = Arc::new(MemFs::new());
    let mut options = options(&fs);
    options.db.recycle_log_file_num = 2;
    options.cf.max_write_buffer_number = 6;
    let primary = Db::open(&options, "/db").unwrap();
    let family = primary.default_column_family();
    let other = primary.create_column_family("other", &options.cf).unwrap();
    primary.put("key", "0").unwrap();
    primary.put_cf(&other, "key", "0").unwrap();
    let faults = FaultFs::new(fs.clone());
    let mut followers = options.db.clone();
    followers.env = Env::with_fs(Arc::new(faults.clone()));
    let secondary = Db::open_cf_as_secondary(&followers, "/db", "/mine", ["default", "other"]).unwrap();
    // Three WALs, and no table. The secondary has read the second one but for its last record.
    primary.pause_background_work();
    let begin_flush = || {
        let options = FlushOptions { wait: false, ..FlushOptions::default() };
        primary.flush_opt(&options, &[&family]).unwrap();
    };
    let wals = || {
        let mut wals = fs.children(Path::new("/db")).unwrap();
        wals.retain(|name| name.ends_with(".log"));
        wals.sort();
        wals
    };
    begin_flush();
    primary.put("key", "1").unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    primary.put("other key", "1").unwrap();
    begin_flush();
    primary.put("key", "2").unwrap();
    let [_, second, third] = wals().try_into().unwrap();
    let (writer, is_done) = (primary.clone(), AtomicBool::new(false));
    let (all_families, on_disk) = ([family.clone(), other.clone()], fs.clone());
    faults.on_op(move |op| {
        if !op.path.ends_with(&third) || op.kind != OpKind::Read || is_done.swap(true, Ordering::Relaxed) {
            return;
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                writer.continue_background_work().unwrap();
                for i in 3..6 {
                    let families: Vec<_> = all_families.iter().collect();
                    writer.flush_opt(&FlushOptions::default(), &families).unwrap();
                    writer.wait_for_background_work().unwrap();
                    writer.put("key", vec![b'0' + i; 1000]).unwrap();
                }
            });
        });
        assert!(!on_disk.file_exists(&Path::new("/db").join(&second)).unwrap(), "it was recycled");
    });
    secondary.try_catch_up_with_primary().unwrap();
    faults.clear_hook();
    assert_eq!(all(&secondary), all(&primary));
}

/// The scenario of rust-rocksdb's `test_open_cf_descriptors_as_secondary`.
#[test]
fn a_secondary_opens_some_of_the_families() {
    let dir = TempDir::new("secondary");
    let mut options = DbOptions { create_if_missing: true, ..DbOptions::default() };
    options.create_missing_column_families = true;
    let primary = Db::open_cf(&options, dir.join("primary"), ["default", "cf1", "cf2"]).unwrap();
    let cf1 = primary.column_family("cf1").unwrap();
    primary.put_cf(&cf1, "k1", "v1").unwrap();

    let open = |families: &[&str]| {
        let families = families.iter().copied();
        Db::open_cf_as_secondary(&DbOptions::default(), dir.join("primary"), dir.join("mine"), families)
    };
    let secondary = open(&["default", "cf1"]).unwrap();
    let of_secondary = secondary.column_family("cf1").unwrap();
    let get = || secondary.get_cf(&of_secondary, "k1").unwrap().unwrap();
    assert_eq!(get(), b"v1");
    assert_eq!(secondary.column_family_names(), ["default", "cf1"]);
    secondary.put_cf(&of_secondary, "k2", "v2").unwrap_err();
    primary.put_cf(&cf1, "k1", "v2").unwrap();
    assert_eq!(get(), b"v1");
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(get(), b"v2");

    let unknown = open(&["default", "cf3"]).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::InvalidArgument, "{unknown}");
    assert!(unknown.to_string().contains("cf3"), "{unknown}");
    assert!(open(&["cf1"]).is_err(), "an open without the default family is refused");
}

#[test]
fn a_secondary_keeps_its_log_in_its_own_directory_and_changes_no_file_of_the_primary() {
    let fs = Arc::new(MemFs::new());
    let primary = primary_on(&fs);
    primary.put("a", "1").unwrap();
    let files = || {
        let mut names = fs.children(Path::new("/db")).unwrap();
        names.sort();
        names.into_iter().map(|n| (fs.file_size(&Path::new("/db").join(&n)).unwrap(), n)).collect::<Vec<_>>()
    };
    let before = files();
    let secondary = secondary_on(&fs);
    secondary.try_catch_up_with_primary().unwrap();
    drop(secondary);
    assert_eq!(files(), before);
    assert_eq!(fs.children(Path::new("/mine")).unwrap(), ["LOG"]);
    let missing = Db::open_as_secondary(&options(&fs), "/none", "/mine").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::InvalidArgument, "{missing}");
    assert!(!fs.file_exists(Path::new("/none")).unwrap());
}

#[test]
fn calls_that_change_something_are_refused_in_rocksdbs_words() {
    let fs = Arc::new(MemFs::new());
    let _primary = primary_on(&fs);
    let db = secondary_on(&fs);
    let family = db.default_column_family();
    let mut batch = WriteBatch::new();
    batch.put("a", "1").unwrap();
    let refused = [
        ("put", db.put("a", "1")),
        ("delete", db.delete("a")),
        ("merge", db.merge("a", "1")),
        ("delete_range", db.delete_range("a", "b")),
        ("write", db.write(&mut batch)),
        ("flush", db.flush()),
        ("compact_range", db.compact_range(None, None)),
        ("flush_wal", db.flush_wal(true)),
        ("set_options", db.set_options(&family, &[("write_buffer_size", "65536")])),
        ("set_db_options", db.set_db_options(&[("max_background_jobs", "3")])),
        ("create_column_family", db.create_column_family("x", &ColumnFamilyOptions::default()).map(drop)),
        ("drop_column_family", db.drop_column_family(&family)),
    ];
    for (call, result) in refused {
        let error = result.expect_err(call);
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{call}: {error}");
        let text = "Not implemented: Not supported operation in secondary mode.";
        assert_eq!(error.to_string(), text, "{call}");
    }
    let reader = Db::open_for_read_only(&options(&fs), "/db").unwrap();
    for other in [&reader, &_primary] {
        let error = other.try_catch_up_with_primary().unwrap_err();
        assert_eq!(error.to_string(), "Not implemented: Supported only by secondary instance");
    }
}

#[test]
fn merge_operands_count_once_whether_the_wal_or_a_table_has_them() {
    let fs = Arc::new(MemFs::new());
    let primary = primary_on(&fs);
    let secondary = secondary_on(&fs);
    let value = || secondary.get("k").unwrap().unwrap();
    for round in 0..4 {
        primary.merge("k", format!("{round}a")).unwrap();
        secondary.try_catch_up_with_primary().unwrap();
        primary.merge("k", format!("{round}b")).unwrap();
        assert_eq!(value(), primary.get("k").unwrap().unwrap()[..value().len()]);
        primary.flush().unwrap();
        if round % 2 == 0 {
            secondary.try_catch_up_with_primary().unwrap();
            assert_eq!(value(), primary.get("k").unwrap().unwrap());
        }
        primary.merge("k", format!("{round}c")).unwrap();
        secondary.try_catch_up_with_primary().unwrap();
        assert_eq!(value(), primary.get("k").unwrap().unwrap());
    }
}

#[test]
fn flushed_memtables_go_once_the_manifest_has_their_entries() {
    let fs = Arc::new(MemFs::new());
    let primary = primary_on(&fs);
    let secondary = secondary_on(&fs);
    let memory = || {
        let family = secondary.default_column_family();
        secondary.int_property_cf(&family, "rocksdb.cur-size-all-mem-tables").unwrap()
    };
    let empty = memory();
    for _ in 0..5 {
        for i in 0..2000 {
            primary.put(format!("key{i:05}"), [7; 200]).unwrap();
        }
        secondary.try_catch_up_with_primary().unwrap();
        assert!(memory() > empty + 300_000, "{} after {empty}", memory());
        primary.flush().unwrap();
        secondary.try_catch_up_with_primary().unwrap();
        assert_eq!(memory(), empty);
    }
}

#[test]
fn iterators_and_snapshots_stay_at_the_catch_up_they_were_made_after() {
    let fs = Arc::new(MemFs::new());
    let primary = primary_on(&fs);
    let other = primary.create_column_family("other", &options(&fs).cf).unwrap();
    let families = [("default", options(&fs).cf), ("other", options(&fs).cf)];
    let secondary = Db::open_cf_as_secondary(&options(&fs).db, "/db", "/mine", families).unwrap();
    let of_secondary = secondary.column_family("other").unwrap();
    let write = |round: u32| {
        let mut batch = WriteBatch::new();
        for key in ["a", "b", "c"] {
            batch.put(key, round.to_string()).unwrap();
            batch.put_cf(other.id(), key, round.to_string()).unwrap();
        }
        batch.put("round", round.to_string()).unwrap();
        batch.delete(format!("r{}", round - 1)).unwrap();
        batch.put(format!("r{round}"), "").unwrap();
        primary.write(&mut batch).unwrap();
    };
    let mut kept = Vec::new();
    for round in 1..8 {
        write(round);
        if round % 2 == 0 {
            primary.flush().unwrap();
        }
        if round % 3 == 0 {
            primary.compact_range(None, None).unwrap();
            primary.compact_range_opt(&CompactRangeOptions::default(), &other, None, None).unwrap();
        }
        secondary.try_catch_up_with_primary().unwrap();
        let mut iter = secondary.iter().unwrap();
        iter.seek("b");
        kept.push((round, secondary.snapshot(), iter));
    }
    for (round, snapshot, iter) in &mut kept {
        let round = round.to_string();
        let at = ReadOptions::new().snapshot(snapshot);
        let expected =
            [("a", &*round), ("b", &round), ("c", &round), (&*format!("r{round}"), ""), ("round", &round)]
                .map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec()));
        assert_eq!(pairs(&secondary, &secondary.default_column_family(), at.clone()), expected);
        assert_eq!(pairs(&secondary, &of_secondary, at.clone()), expected[..3]);
        assert_eq!(snapshot.get_cf(&of_secondary, "b").unwrap().unwrap(), round.as_bytes());
        let default = secondary.default_column_family();
        let keys = [(&default, &b"a"[..]), (&of_secondary, b"a"), (&default, b"round"), (&default, b"none")];
        let found: Vec<_> = snapshot.multi_get_cf(&keys).into_iter().map(|value| value.unwrap()).collect();
        let round = Some(round.into_bytes());
        let found: Vec<_> = found.into_iter().map(|value| value.map(|value| value.to_vec())).collect();
        assert_eq!(found, [round.clone(), round.clone(), round.clone(), None]);
        assert_eq!(Some(iter.value().to_vec()), round);
        iter.next();
        assert_eq!((iter.key(), Some(iter.value().to_vec())), (&b"c"[..], round.clone()));
        iter.seek("a");
        assert_eq!(Some(iter.value().to_vec()), round);
        iter.refresh().unwrap();
        iter.seek("a");
        assert_eq!(iter.value(), b"7");
        iter.refresh_at(snapshot).unwrap();
        iter.seek("a");
        assert_eq!(Some(iter.value().to_vec()), round);
    }
}

#[test]
fn a_tailing_iterator_of_a_secondary_follows_its_catch_ups() {
    let fs = Arc::new(MemFs::new());
    let primary = primary_on(&fs);
    let secondary = secondary_on(&fs);
    let options = ReadOptions { tailing: true, ..ReadOptions::default() };
    let mut iter = secondary.iter_opt(options, &secondary.default_column_family()).unwrap();
    for round in 0..6 {
        primary.put(format!("k{round}"), "").unwrap();
        if round % 2 == 0 {
            primary.flush().unwrap();
        }
        iter.seek(format!("k{round}"));
        assert!(!iter.valid());
        secondary.try_catch_up_with_primary().unwrap();
        iter.seek(format!("k{round}"));
        assert!(iter.valid());
    }
}

#[test]
fn a_dropped_family_stays_readable_and_a_new_one_needs_another_opening() {
    let fs = Arc::new(MemFs::new());
    let primary = primary_on(&fs);
    let old = primary.create_column_family("old", &options(&fs).cf).unwrap();
    primary.put_cf(&old, "a", "1").unwrap();
    let families = || [("default", options(&fs).cf), ("old", options(&fs).cf)];
    let secondary = Db::open_cf_as_secondary(&options(&fs).db, "/db", "/mine", families()).unwrap();
    let of_secondary = secondary.column_family("old").unwrap();
    primary.flush_opt(&FlushOptions::default(), &[&old]).unwrap();
    secondary.try_catch_up_with_primary().unwrap();

    primary.drop_column_family(&old).unwrap();
    drop(old);
    let new = primary.create_column_family("old", &options(&fs).cf).unwrap();
    primary.put_cf(&new, "a", "2").unwrap();
    primary.put("b", "3").unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(secondary.get_cf(&of_secondary, "a").unwrap().unwrap(), b"1");
    assert_eq!(pairs(&secondary, &of_secondary, ReadOptions::default()).len(), 1);
    assert_eq!(secondary.get("b").unwrap().unwrap(), b"3");
    assert!(secondary.column_family("old").is_none());
    primary.flush_opt(&FlushOptions::default(), &[&new]).unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(secondary.get_cf(&of_secondary, "a").unwrap().unwrap(), b"1");
    drop(secondary);

    let again = Db::open_cf_as_secondary(&options(&fs).db, "/db", "/mine", families()).unwrap();
    assert_eq!(again.get_cf(&again.column_family("old").unwrap(), "a").unwrap().unwrap(), b"2");
}

/// Files in `dir` that are deleted and that this process has open.
fn deleted_and_open(dir: &Path) -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = descriptors.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    let is_deleted = |target: &PathBuf| target.to_string_lossy().ends_with(" (deleted)");
    targets.filter(|target| target.starts_with(dir) && is_deleted(target)).count()
}

#[test]
fn tables_and_blob_files_that_the_primary_has_deleted_stay_readable_until_the_next_catch_up() {
    let dir = TempDir::new("secondary");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 100;
    options.cf.enable_blob_garbage_collection = true;
    options.cf.blob_garbage_collection_age_cutoff = 1.0;
    let primary = Db::open(&options, dir.join("db")).unwrap();
    let write = |round: u8| {
        for i in 0..100 {
            primary.put(format!("{i:03}"), [round; 300]).unwrap();
            primary.put(format!("{i:03}s"), [round; 30]).unwrap();
        }
        primary.flush().unwrap();
        primary.compact_range(None, None).unwrap();
    };
    let files = || {
        let names = std::fs::read_dir(dir.join("db")).unwrap().map(|f| f.unwrap().file_name());
        names.filter(|name| {
            name.to_string_lossy().ends_with("sst") || name.to_string_lossy().ends_with("blob")
        })
    };
    write(1);
    for max_open_files in [-1, 20] {
        options.db.max_open_files = max_open_files;
        let secondary = Db::open_as_secondary(&options, dir.join("db"), dir.join("mine")).unwrap();
        let first = all(&secondary);
        for round in 2..8 {
            let before: Vec<_> = files().collect();
            let mut old = secondary.iter().unwrap();
            write(round);
            while files().any(|name| before.contains(&name)) {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_ne!(all(&secondary), all(&primary));
            secondary.verify_checksum().unwrap();
            secondary.try_catch_up_with_primary().unwrap();
            assert_eq!(all(&secondary), all(&primary));
            assert_eq!(all(&secondary).len(), first.len());
            old.seek("050");
            assert_eq!(old.value()[0], if round == 2 { first[0].1[0] } else { round - 1 });
        }
        wait_until_deleted_files_are_closed(dir.path());
    }
}

/// An open descriptor keeps the space of a deleted file. Waits until all are closed, without
/// further calls.
fn wait_until_deleted_files_are_closed(dir: &Path) {
    let begin = Instant::now();
    while deleted_and_open(dir) > 0 {
        assert!(begin.elapsed() < Duration::from_secs(120), "{} deleted files", deleted_and_open(dir));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_secondary_closes_deleted_files_when_its_last_iterator_over_them_ends() {
    let dir = TempDir::new("secondary-iterator");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let primary = Db::open(&options, dir.join("db")).unwrap();
    primary.put("a", "1").unwrap();
    primary.flush().unwrap();
    let secondary = Db::open_as_secondary(&options, dir.join("db"), dir.join("mine")).unwrap();
    let mut iterator = secondary.iter().unwrap();
    iterator.seek_to_first();
    primary.put("a", "2").unwrap();
    primary.compact_range(None, None).unwrap();
    primary.wait_for_background_work().unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(deleted_and_open(dir.path()), 1);
    assert_eq!(iterator.value(), b"1");
    drop(iterator);
    wait_until_deleted_files_are_closed(dir.path());
}

#[test]
fn a_catch_up_reads_the_new_bytes_and_no_others() {
    let inner = Arc::new(MemFs::new());
    let primary = primary_on(&inner);
    let fs = Arc::new(FaultFs::new(inner.clone()));
    let mut options = options(&inner);
    options.db.env = Env::with_fs(fs.clone());
    let sizes = || {
        let names = inner.children(Path::new("/db")).unwrap();
        let size = |name: String| Some((inner.file_size(&Path::new("/db").join(&name)).ok()?, name));
        let sizes = names.into_iter().filter_map(size);
        sizes.map(|(size, name)| (name, size)).collect::<HashMap<String, u64>>()
    };
    let mut costs: HashMap<&str, Vec<usize>> = HashMap::new();
    for size in [500, 2000, 8000] {
        for _ in 0..size / 100 {
            primary.put("flushed", [9; 100]).unwrap();
            primary.flush().unwrap();
        }
        (0..size).for_each(|i| primary.put(format!("key{i:06}"), [9; 100]).unwrap());
        let secondary = Db::open_as_secondary(&options, "/db", "/mine").unwrap();
        fs.list_ops(true);
        let mut catch_up = |what, write: &dyn Fn()| {
            let before = sizes();
            write();
            fs.take_ops();
            secondary.try_catch_up_with_primary().unwrap();
            let ops = fs.take_ops();
            for op in ops.iter().filter(|op| op.kind == OpKind::Read) {
                let name = op.path.file_name().unwrap().to_string_lossy().into_owned();
                let is_log = name.starts_with("MANIFEST") || name.ends_with(".log");
                assert!(is_log || name == "CURRENT", "{what}: {name} is read");
                let known = before.get(&name).copied().unwrap_or(0);
                assert!(!is_log || op.offset.unwrap() >= known, "{what}: {op:?} reads again below {known}");
            }
            costs.entry(what).or_default().push(ops.len());
        };
        catch_up("nothing new", &|| ());
        catch_up("a record", &|| primary.put("a", [1; 1000]).unwrap());
        catch_up("a flush and a record", &|| {
            primary.flush().unwrap();
            primary.put("b", [1; 1000]).unwrap();
        });
        fs.list_ops(false);
        assert_eq!(all(&secondary), all(&primary));
    }
    for (what, ops) in &costs {
        // A record may reach into another block.
        assert!(
            ops.iter().all(|n| n.abs_diff(ops[0]) <= 2 && *n <= 30),
            "{what}: {ops:?} operations on files"
        );
    }
}

#[test]
fn a_new_manifest_is_read_once_and_files_that_stay_are_not_opened_again() {
    let inner = Arc::new(MemFs::new());
    let mut owners = options(&inner);
    owners.db.max_manifest_file_size = 1;
    let mut primary = Db::open(&owners, "/db").unwrap();
    let fs = Arc::new(FaultFs::new(inner.clone()));
    let mut options = options(&inner);
    options.db.env = Env::with_fs(fs.clone());
    for i in 0..40 {
        primary.put(format!("key{i:06}"), [9; 100]).unwrap();
        primary.flush().unwrap();
    }
    let secondary = Db::open_as_secondary(&options, "/db", "/mine").unwrap();
    all(&secondary);
    let probes = Probes::new();
    for round in 0..5 {
        drop(primary);
        primary = Db::open(&owners, "/db").unwrap();
        primary.put(format!("new{round}"), "").unwrap();
        let opened = fs.op_count_of(OpKind::Open);
        secondary.try_catch_up_with_primary().unwrap();
        assert!(probes.has_passed("follow:read_whole"));
        probes.forget_passed();
        assert_eq!(all(&secondary), all(&primary));
        let opened = fs.op_count_of(OpKind::Open) - opened;
        assert!(opened <= 8, "{opened} files opened");
    }
}

#[test]
fn a_record_that_the_primary_has_not_finished_is_read_when_it_is_whole() {
    let fs = Arc::new(MemFs::new());
    let primary = primary_on(&fs);
    primary.put("a", "1").unwrap();
    let secondary = secondary_on(&fs);
    primary.put("b", [2; 100_000]).unwrap();
    primary.put("c", "3").unwrap();
    let wal = fs.children(Path::new("/db")).unwrap().into_iter().find(|name| name.ends_with(".log")).unwrap();
    let path = Path::new("/db").join(wal);
    let mut whole = vec![0; usize::try_from(fs.file_size(&path).unwrap()).unwrap()];
    fs.new_sequential_file(&path).unwrap().read(&mut whole).unwrap();
    let known = 40;
    for cut in [known, 100, 32_760, 32_768, 32_770, 70_000, whole.len() - 1] {
        fs.truncate(&path, cut as u64).unwrap();
        secondary.try_catch_up_with_primary().unwrap();
        assert_eq!(all(&secondary).len(), if cut < whole.len() - 1 { 1 } else { 2 }, "at {cut}");
        let mut file = fs.reopen_writable_file(&path).unwrap();
        file.append(&whole[cut..]).unwrap();
        file.close().unwrap();
    }
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(all(&secondary).len(), 3);
    assert_eq!(all(&secondary), all(&primary));
}

#[test]
fn damage_is_reported_and_the_secondary_goes_on_once_the_primary_has_flushed() {
    let fs = Arc::new(MemFs::new());
    let primary = primary_on(&fs);
    let other = primary.create_column_family("other", &options(&fs).cf).unwrap();
    primary.put("a", "1").unwrap();
    let secondary = secondary_on(&fs);
    let path = {
        let mut wals: Vec<_> = fs.children(Path::new("/db")).unwrap();
        wals.retain(|name| name.ends_with(".log"));
        Path::new("/db").join(wals.pop().unwrap())
    };
    let good = fs.file_size(&path).unwrap();
    primary.put("b", "2").unwrap();
    primary.put_cf(&other, "b", "2").unwrap();
    let bytes = fs.file_size(&path).unwrap();
    let mut whole = vec![0; usize::try_from(bytes).unwrap()];
    fs.new_sequential_file(&path).unwrap().read(&mut whole).unwrap();
    whole[usize::try_from(good).unwrap() + 8] ^= 0x40;
    fs.truncate(&path, 0).unwrap();
    fs.reopen_writable_file(&path).unwrap().append(&whole).unwrap();

    // The primary may still be writing the record.
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(all(&secondary).len(), 1);
    // A later WAL has records; the default family needs the damaged one.
    primary.flush_opt(&FlushOptions::default(), &[&other]).unwrap();
    primary.put("c", "3").unwrap();
    let error = secondary.try_catch_up_with_primary().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains(".log"), "{error}");
    assert_eq!(all(&secondary).len(), 1);
    primary.flush().unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(all(&secondary), all(&primary));
    assert_eq!(all(&secondary).len(), 3);
}

#[test]
fn prepared_transactions_are_seen_when_they_are_committed() {
    let fs = Arc::new(MemFs::new());
    let primary = TransactionDb::open(&options(&fs), &TransactionDbOptions::default(), "/db").unwrap();
    let secondary = secondary_on(&fs);
    let transaction = |name: &str, key: &str| {
        let transaction = primary.begin_transaction();
        transaction.set_name(name.as_bytes()).unwrap();
        transaction.put(key, name).unwrap();
        transaction.merge_cf(&primary.db().default_column_family(), "m", name).unwrap();
        transaction.prepare().unwrap();
        transaction
    };
    let first = transaction("first", "a");
    let keys =
        || all(&secondary).into_iter().map(|(key, _)| String::from_utf8(key).unwrap()).collect::<Vec<_>>();
    secondary.try_catch_up_with_primary().unwrap();
    assert!(keys().is_empty());
    primary.db().put("x", "1").unwrap();
    primary.db().flush().unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(keys(), ["x"]);
    drop(secondary);
    let secondary = secondary_on(&fs);
    let keys =
        || all(&secondary).into_iter().map(|(key, _)| String::from_utf8(key).unwrap()).collect::<Vec<_>>();
    first.commit().unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(keys(), ["a", "m", "x"]);
    assert_eq!(all(&secondary), all(primary.db()));
    primary.db().flush().unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(all(&secondary), all(primary.db()));
}

#[test]
fn a_failed_catch_up_leaves_what_was_seen_and_the_next_one_succeeds() {
    let inner = Arc::new(MemFs::new());
    let primary = primary_on(&inner);
    let fs = Arc::new(FaultFs::new(inner.clone()));
    let mut of_secondary = options(&inner);
    of_secondary.db.env = Env::with_fs(fs.clone());
    let secondary = Db::open_as_secondary(&of_secondary, "/db", "/mine").unwrap();
    let (mut failures, mut round) = (0, 0);
    for fail_at in 0..40 {
        let before = all(&secondary);
        for _ in 0..3 {
            round += 1;
            primary.merge("m", format!("{round}")).unwrap();
            primary.put(format!("key{round}"), [1; 40_000]).unwrap();
        }
        if round % 2 == 0 {
            primary.flush().unwrap();
        }
        primary.merge("m", "x").unwrap();
        fail_nth(&fs, fail_at % 20);
        let caught_up = secondary.try_catch_up_with_primary();
        fs.clear_rules();
        match caught_up {
            Ok(()) => assert_eq!(all(&secondary), all(&primary)),
            Err(e) => {
                failures += 1;
                assert_ne!(e.kind(), ErrorKind::Corruption, "{e}");
                assert_eq!(all(&secondary), before, "after {e}");
            }
        }
        if fail_at % 3 == 0 {
            secondary.try_catch_up_with_primary().unwrap();
            assert_eq!(all(&secondary), all(&primary));
        }
    }
    assert!(failures > 10, "{failures}");
}

/// Makes the n-th operation from now on fail.
fn fail_nth(fs: &FaultFs, n: u64) {
    use esker::internals::env::fault::FaultRule;
    fs.add_rule(FaultRule::fail_any().nth(n));
}

/// The primary writes one number to all keys of two families at once, flushes and compacts; a
/// thread catches up; others read. A read must find one number, and never a smaller one than
/// before.
#[test]
fn reads_beside_catch_ups_see_one_point_in_time() {
    let fs = Arc::new(MemFs::new());
    let mut options = options(&fs);
    options.cf.write_buffer_size = 32 << 10;
    options.cf.disable_auto_compactions = false;
    options.cf.level0_file_num_compaction_trigger = 2;
    let families = || [("default", options.cf.clone()), ("other", options.cf.clone())];
    let primary = Db::open_cf(&options.db, "/db", families()).unwrap();
    let other = primary.column_family("other").unwrap();
    let write = |number: u64| {
        let mut batch = WriteBatch::new();
        for key in 0..10 {
            batch.put(format!("{key}"), [&number.to_be_bytes()[..], &[7; 90]].concat()).unwrap();
            batch.put_cf(other.id(), format!("{key}"), number.to_be_bytes()).unwrap();
        }
        primary.write(&mut batch).unwrap();
    };
    write(1);
    let secondary = Db::open_cf_as_secondary(&options.db, "/db", "/mine", families()).unwrap();
    let [is_over, have_read] = [false, false].map(AtomicBool::new);
    let begin = Instant::now();
    // Nobody waits for ever for a thread that has panicked.
    let is_in_time = || begin.elapsed() < Duration::from_secs(120);
    let number_of = |value: &[u8]| u64::from_be_bytes(value[..8].try_into().unwrap());
    let one = |numbers: &[u64], last: &mut u64, what: &str| {
        assert!(numbers.iter().all(|number| *number == numbers[0]), "{what}: {numbers:?}");
        assert!(numbers[0] >= *last, "{what}: {} after {last}", numbers[0]);
        *last = numbers[0];
    };
    let read = |over_families: bool| {
        let handles = [secondary.default_column_family(), secondary.column_family("other").unwrap()];
        let mut last = 0;
        while is_in_time() && (last <= 10 || !is_over.load(Ordering::Relaxed)) {
            let asked = if over_families { &handles[..] } else { &handles[..1] };
            let names: Vec<_> = (0..10).map(|key| format!("{key}")).collect();
            let keys: Vec<_> = asked
                .iter()
                .flat_map(|family| names.iter().map(move |name| (family, name.as_bytes())))
                .collect();
            let found = secondary.multi_get_cf(&ReadOptions::default(), &keys);
            let numbers: Vec<_> = found.into_iter().map(|v| number_of(&v.unwrap().unwrap())).collect();
            one(&numbers, &mut last, "multi_get");
            let shown = pairs(&secondary, &handles[usize::from(over_families)], ReadOptions::default());
            let numbers: Vec<_> = shown.iter().map(|(_, value)| number_of(value)).collect();
            one(&numbers, &mut last, "iterator");
            let snapshot = secondary.snapshot();
            let at = ReadOptions::new().snapshot(&snapshot);
            let both = handles.iter().flat_map(|family| pairs(&secondary, family, at.clone()));
            let numbers: Vec<_> = both.map(|(_, value)| number_of(&value)).collect();
            one(&numbers, &mut last, "snapshot");
            let value = secondary.get("3").unwrap().unwrap();
            one(&[number_of(&value)], &mut last, "get");
        }
        last
    };
    std::thread::scope(|scope| {
        let readers = [false, true].map(|over_families| scope.spawn(move || read(over_families)));
        let follower = scope.spawn(|| {
            while is_in_time() && !have_read.load(Ordering::Relaxed) {
                secondary.try_catch_up_with_primary().unwrap();
            }
        });
        (2..1500).for_each(write);
        is_over.store(true, Ordering::Relaxed);
        let read = readers.map(|reader| reader.join());
        have_read.store(true, Ordering::Relaxed);
        follower.join().unwrap();
        assert!(read.into_iter().all(|last| last.unwrap() > 10));
    });
}

#[test]
fn closing_ends_what_a_secondary_holds() {
    let fs = Arc::new(MemFs::new());
    let primary = primary_on(&fs);
    primary.put("a", "1").unwrap();
    let secondary = secondary_on(&fs);
    secondary.close().unwrap();
    let error = secondary.try_catch_up_with_primary().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShutdownInProgress, "{error}");
    assert_ne!(error.subcode(), SubCode::StaleFile);
    primary.put("b", "2").unwrap();
}
