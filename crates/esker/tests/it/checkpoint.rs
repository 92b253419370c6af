//! A checkpoint is a database of its own that holds another database as of one point in time.

use esker::internals::base::probe::Probes;
use esker::internals::env::mem::MemFs;
use esker::internals::env::{FaultFs, FaultRule, FileSystem, OpKind};
use esker::{ColumnFamilyDescriptor, Db, Env, ErrorKind, Options, WriteBatch};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options
}

fn families(options: &Options) -> Vec<ColumnFamilyDescriptor> {
    ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone())).to_vec()
}

fn open(options: &Options, path: &str) -> Db {
    Db::open_cf(&options.db, path, families(options)).unwrap()
}

/// Writes one number, under a key of its own and a shared key, in both families as one batch.
fn write(db: &Db, number: u32) {
    let other = db.column_family("other").unwrap();
    let mut batch = WriteBatch::new();
    let value = number.to_string();
    batch.put_cf(db.default_column_family().id(), b"number", value.as_bytes()).unwrap();
    batch.put_cf(other.id(), b"number", value.as_bytes()).unwrap();
    batch.put_cf(other.id(), format!("key{number:06}").as_bytes(), value.as_bytes()).unwrap();
    db.write(&mut batch).unwrap();
}

fn number_in(db: &Db, family: &str) -> String {
    let family = db.column_family(family).unwrap();
    let value = db.get_opt(&Default::default(), &family, "number").unwrap().unwrap();
    String::from_utf8(value.to_vec()).unwrap()
}

#[test]
fn it_stays_as_it_was_with_or_without_a_flush() {
    for log_size_for_flush in [0, u64::MAX] {
        let options = options();
        let db = open(&options, "/db");
        (0..100).for_each(|n| write(&db, n));
        db.flush().unwrap();
        (100..200).for_each(|n| write(&db, n));
        let sequence = db.create_checkpoint("/copy", log_size_for_flush).unwrap();
        assert_eq!(sequence.0, 600);
        (200..300).for_each(|n| write(&db, n));
        db.compact_range(None, None).unwrap();
        assert_eq!(number_in(&db, "default"), "299");

        let copy = open(&options, "/copy");
        assert_eq!(number_in(&copy, "default"), "199");
        assert_eq!(number_in(&copy, "other"), "199");
        write(&copy, 1000);
        copy.compact_range(None, None).unwrap();
        drop(copy);
        assert_eq!(number_in(&db, "other"), "299", "both share no file that changes");
        db.close().unwrap();
        esker::destroy_db(&options.db, "/db").unwrap();
        assert_eq!(number_in(&open(&options, "/copy"), "other"), "1000", "a link outlives the first name");
    }
}

#[test]
fn it_is_one_read_point_of_all_families_while_others_write_and_compact() {
    let mut options = options();
    options.cf.write_buffer_size = 32 << 10;
    let db = open(&options, "/db");
    write(&db, 0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 1;
            while !done.load(Ordering::Relaxed) {
                write(&db, number);
                number += 1;
            }
        });
        for round in 0..20 {
            let path = format!("/copy{round}");
            let log_size_for_flush = if round % 2 == 0 { u64::MAX } else { 0 };
            db.create_checkpoint(&path, log_size_for_flush).unwrap();
            let copy = open(&options, &path);
            let last = number_in(&copy, "default");
            assert_eq!(last, number_in(&copy, "other"));
            let other = copy.column_family("other").unwrap();
            let mut iter = copy.iter_cf(&other).unwrap();
            iter.seek_to_first();
            let mut count = 0;
            while iter.valid() {
                count += 1;
                iter.next();
            }
            iter.status().unwrap();
            // Each number's own key and the one they share.
            let expected = last.parse::<u32>().unwrap() + 2;
            assert_eq!(count, expected, "round {round}");
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_directory_that_exists_is_refused_and_rubbish_of_a_failed_one_replaced() {
    let options = options();
    let fs = options.db.env.fs.clone();
    let db = open(&options, "/db");
    write(&db, 1);
    let e = db.create_checkpoint("/db", 0).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    fs.create_dir_if_missing(Path::new("/copy.tmp")).unwrap();
    fs.new_writable_file(Path::new("/copy.tmp/000099.sst")).unwrap().close().unwrap();
    db.create_checkpoint("/copy", 0).unwrap();
    assert!(!fs.file_exists(Path::new("/copy.tmp")).unwrap());
    assert!(!fs.file_exists(Path::new("/copy/000099.sst")).unwrap());
}

/// Every file operation of a checkpoint fails in turn.
#[test]
fn a_failed_one_leaves_no_directory_and_the_database_as_it_was() {
    for step in 0.. {
        let mut options = options();
        let faults = Arc::new(FaultFs::new(options.db.env.fs.clone()));
        options.db.env = Env::with_fs(faults.clone());
        let db = open(&options, "/db");
        (0..10).for_each(|n| write(&db, n));
        db.flush().unwrap();
        write(&db, 10);
        db.wait_for_background_work().unwrap();
        faults.add_rule(FaultRule::fail_any().nth(step).on(|path| !path.starts_with("/db/LOG")));
        let made = db.create_checkpoint("/copy", u64::MAX);
        let met = faults.fault_count() > 0;
        faults.clear_rules();
        assert_eq!(faults.file_exists(Path::new("/copy")).unwrap(), made.is_ok(), "step {step}: {made:?}");
        write(&db, 11);
        db.create_checkpoint("/second", u64::MAX).unwrap();
        drop(db);
        assert_eq!(number_in(&open(&options, "/second"), "other"), "11");
        if !met {
            return;
        }
    }
}

#[test]
fn it_is_whole_although_a_write_to_the_manifest_has_failed() {
    let mut options = options();
    let faults = Arc::new(FaultFs::new(options.db.env.fs.clone()));
    options.db.env = Env::with_fs(faults.clone());
    let db = open(&options, "/db");
    (0..10).for_each(|n| write(&db, n));
    faults.add_rule(FaultRule::fail(&[OpKind::Append, OpKind::Sync]).on_name("MANIFEST"));
    db.create_column_family("third", &options.cf).unwrap_err();
    assert_eq!(faults.fault_count(), 1);
    if db.background_error().is_some() {
        db.resume().unwrap();
    }
    db.create_checkpoint("/copy", u64::MAX).unwrap();
    assert_eq!(number_in(&open(&options, "/copy"), "other"), "9");
}

#[test]
#[cfg(debug_assertions)]
fn no_writer_waits_while_the_files_of_a_checkpoint_are_named() {
    let options = options();
    let db = open(&options, "/named");
    (0..10).for_each(|n| write(&db, n));
    let probes = Probes::new();
    let (writer, was_there) = (db.clone(), Arc::new(AtomicBool::new(false)));
    let comes = was_there.clone();
    probes.on("live_cut:name_files", move |path| {
        // The probe is also hit by other tests.
        if path.downcast_ref::<PathBuf>().is_some_and(|path| path == Path::new("/named")) {
            comes.store(true, Ordering::Relaxed);
            // No lock of the database is held, its MANIFEST's included, and no writer waits.
            assert!(writer.background_error().is_none());
            write(&writer, 10);
            writer.flush().unwrap();
            writer.compact_range(None, None).unwrap();
        }
    });
    db.create_checkpoint("/copy", 0).unwrap();
    assert!(was_there.load(Ordering::Relaxed));
    assert_eq!(number_in(&db, "default"), "10");
    assert_eq!(number_in(&open(&options, "/copy"), "other"), "9");
    probes.clear("live_cut:name_files");
}

#[test]
fn a_directory_may_be_named_with_a_slash_behind_it() {
    let dir = esker_testkit::TempDir::new("checkpoint");
    let mut options = options();
    options.db.env = esker::Env::default();
    let at = |name: &str| format!("{}/{name}", dir.path().display());
    let db = open(&options, &at("db"));
    write(&db, 1);
    db.create_checkpoint(at("copy/"), 0).unwrap();
    assert_eq!(number_in(&open(&options, &at("copy")), "default"), "1");
    db.export_column_family(&db.default_column_family(), at("export/")).unwrap();
    assert!(Path::new(&at("export")).is_dir());
}

#[test]
fn a_reader_makes_a_checkpoint_with_the_entries_of_wals() {
    let options = Options::default().create_if_missing(true);
    let options = Options {
        db: esker::DbOptions { env: Env::with_fs(Arc::new(MemFs::new())), ..options.db },
        ..options
    };
    let owner = Db::open(&options, "/db").unwrap();
    owner.put("in a table", "1").unwrap();
    owner.flush().unwrap();
    owner.put("in a WAL", "2").unwrap();
    let has = |path: &str, keys: &[&str]| {
        let copy = Db::open(&options, path).unwrap();
        keys.iter().all(|key| copy.contains_key(key).unwrap())
    };

    let reader = Db::open_for_read_only(&options, "/db").unwrap();
    reader.create_checkpoint("/first", 0).unwrap();
    assert!(has("/first", &["in a table", "in a WAL"]));
    // The owner's later writes may be a part of it: its WAL is the same file.
    owner.put("later", "3").unwrap();
    reader.create_checkpoint("/second", u64::MAX).unwrap();
    assert!(has("/second", &["in a table", "in a WAL"]));

    owner.flush().unwrap();
    let e = reader.create_checkpoint("/third", 0).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::TryAgain, "{e}");
    let fs = &options.db.env.fs;
    assert!(
        !fs.file_exists(Path::new("/third")).unwrap() && !fs.file_exists(Path::new("/third.tmp")).unwrap()
    );
    drop(reader);
    let reader = Db::open_for_read_only(&options, "/db").unwrap();
    reader.create_checkpoint("/third", 0).unwrap();
    assert!(has("/third", &["in a table", "in a WAL", "later"]));
    drop(reader);
    owner.put("last", "4").unwrap();
    drop(owner);
    assert!(has("/db", &["in a table", "in a WAL", "later", "last"]), "the database is unchanged");
}

#[test]
fn a_reader_makes_its_checkpoint_without_wals_that_the_owner_may_delete_meanwhile() {
    let mut options = Options::default().create_if_missing(true);
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    let owner = Arc::new(Db::open(&options, "/db").unwrap());
    owner.disable_file_deletions();
    owner.put("key", "1").unwrap();
    owner.flush().unwrap();
    let wals = || {
        let names = options.db.env.fs.children(Path::new("/db")).unwrap();
        names.iter().filter(|name| name.ends_with(".log")).count()
    };
    assert_eq!(wals(), 2);
    let reader = Db::open_for_read_only(&options, "/db").unwrap();
    let probes = Probes::new();
    let deletes = owner.clone();
    probes.on_this_thread("live_cut:name_files", move |_| deletes.enable_file_deletions().unwrap());
    reader.create_checkpoint("/copy", 0).unwrap();
    assert_eq!(wals(), 1);
    assert!(Db::open(&options, "/copy").unwrap().contains_key("key").unwrap());
}

#[test]
fn a_reader_makes_no_checkpoint_if_its_owner_goes_on_meanwhile() {
    let env = Env::with_fs(Arc::new(MemFs::new()));
    let mut options = Options::default().create_if_missing(true);
    options.db.env = env;
    let owner = Arc::new(Db::open(&options, "/db").unwrap());
    owner.put("key", "1").unwrap();
    let reader = Db::open_for_read_only(&options, "/db").unwrap();
    let probes = Probes::new();
    let flushes = owner.clone();
    probes.on_this_thread("live_cut:name_files", move |_| flushes.flush().unwrap());
    let e = reader.create_checkpoint("/copy", 0).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::TryAgain | ErrorKind::IoError), "{e}");
    drop(probes);
    assert!(!options.db.env.fs.file_exists(Path::new("/copy")).unwrap());
}
