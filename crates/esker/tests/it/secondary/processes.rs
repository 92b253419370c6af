//! A secondary of a primary in another process, which writes as fast as it can and is killed. The
//! test starts this binary again as the primary.
//!
//! The primary writes one number to all keys of three families at once, flushes, compacts, collects
//! garbage and rolls its MANIFEST all the time. After each catch-up the secondary must find one
//! number everywhere, never a smaller one than before, and no error.
#![allow(clippy::disallowed_methods, reason = "a process that waits for another")]

use esker::builtin::string_append;
use esker::{ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, ReadOptions, WriteBatch};
use esker_testkit::TempDir;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const DIRECTORY: &str = "ESKER_TEST_PRIMARY_DIR";
const RECYCLES: &str = "ESKER_TEST_PRIMARY_RECYCLES";
const FAMILIES: [&str; 3] = ["default", "other", "blobs"];
const KEYS: u64 = 60;

fn families() -> Vec<ColumnFamilyDescriptor> {
    let family = |name: &&str| {
        let options = ColumnFamilyOptions {
            write_buffer_size: 64 << 10,
            target_file_size_base: 8 << 10,
            level0_file_num_compaction_trigger: 2,
            enable_blob_files: *name == "blobs",
            enable_blob_garbage_collection: true,
            blob_garbage_collection_age_cutoff: 1.0,
            merge_operator: Some(string_append("")),
            ..ColumnFamilyOptions::default()
        };
        ColumnFamilyDescriptor::new(*name, options)
    };
    FAMILIES.iter().map(family).collect()
}

fn number_of(value: &[u8]) -> u64 {
    u64::from_be_bytes(value[..8].try_into().unwrap())
}

/// Not a test of its own: plays the primary, if it is given a directory.
#[test]
fn be_a_primary() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let mut options = DbOptions { create_if_missing: true, ..DbOptions::default() };
    options.create_missing_column_families = true;
    options.max_manifest_file_size = 1;
    options.recycle_log_file_num = if std::env::var_os(RECYCLES).is_some() { 2 } else { 0 };
    let db = Db::open_cf(&options, &dir, families()).unwrap();
    let families = FAMILIES.map(|name| db.column_family(name).unwrap());
    let mut random = fastrand::Rng::with_seed(1);
    let first = db.get(0_u64.to_be_bytes()).unwrap().map_or(1, |value| number_of(&value) + 1);
    for number in first.. {
        let mut batch = WriteBatch::new();
        for family in &families {
            for key in 0..KEYS {
                let mut value = number.to_be_bytes().to_vec();
                value.extend(std::iter::repeat_with(|| random.u8(..)).take(300));
                batch.put_cf(family.id(), key.to_be_bytes(), &value).unwrap();
            }
            // One byte for each number since the last multiple of ten: a lost or doubled operand is
            // visible.
            if number % 10 == 0 {
                batch.put_cf(family.id(), b"tally", b"").unwrap();
            } else {
                batch.merge_cf(family.id(), b"tally", b"x").unwrap();
            }
        }
        db.write(&mut batch).unwrap();
        if number == first {
            std::fs::write(Path::new(&dir).with_extension("ready"), "").unwrap();
        }
    }
}

struct Primary(Child);

impl Primary {
    fn start(dir: &Path, recycles: bool) -> Primary {
        let ready = dir.with_extension("ready");
        _ = std::fs::remove_file(&ready);
        let mut command = esker_testkit::this_program();
        command.args(["--exact", "secondary::processes::be_a_primary", "--nocapture"]).env(DIRECTORY, dir);
        if recycles {
            command.env(RECYCLES, "1");
        }
        let mut primary = Primary(command.stdout(Stdio::null()).spawn().unwrap());
        while !ready.exists() {
            assert!(primary.0.try_wait().unwrap().is_none(), "the primary has ended");
            std::thread::sleep(Duration::from_millis(5));
        }
        primary
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The number that all keys must have.
fn number(db: &Db, options: &ReadOptions) -> u64 {
    let mut numbers = Vec::new();
    for name in FAMILIES {
        let family = db.column_family(name).unwrap();
        for key in 0..KEYS {
            let value = db.get_opt(options, &family, key.to_be_bytes()).unwrap().unwrap();
            numbers.push((number_of(&value), name, key));
        }
        let mut iter = db.iter_opt(options.clone(), &family).unwrap();
        iter.seek_to_first();
        for key in 0..KEYS {
            assert_eq!(iter.key(), key.to_be_bytes());
            numbers.push((number_of(iter.value()), name, key));
            iter.next();
        }
        let tally = iter.value().len() as u64;
        assert_eq!((iter.key(), tally), (&b"tally"[..], numbers[0].0 % 10), "{:?}", numbers[0]);
        iter.next();
        assert!(!iter.valid());
        iter.status().unwrap();
    }
    let (first, last) = (numbers.iter().min().unwrap(), numbers.iter().max().unwrap());
    assert_eq!(first.0, last.0, "{first:?} {last:?}");
    first.0
}

fn follow(recycles: bool) {
    let dir = TempDir::new("primary");
    let path = dir.path().join("db");
    let mut last = 0;
    for life in 0..4 {
        let primary = Primary::start(&path, recycles);
        let options =
            DbOptions { max_open_files: if life % 2 == 0 { -1 } else { 20 }, ..DbOptions::default() };
        let open = || Db::open_cf_as_secondary(&options, &path, dir.path().join("mine"), families()).unwrap();
        let mut db = open();
        let now = ReadOptions::default();
        let mut kept = Vec::new();
        let begin = Instant::now();
        let mut primary = Some(primary);
        let mut round = 0;
        while begin.elapsed() < Duration::from_secs(2) || round <= 3 {
            round += 1;
            db.try_catch_up_with_primary().unwrap();
            let seen = number(&db, &now);
            assert!(seen >= last, "{seen} after {last}");
            last = seen;
            if round % 7 == 1 && kept.len() < 4 {
                kept.push((db.snapshot(), seen));
            }
            if begin.elapsed() > Duration::from_millis(900) && primary.is_some() {
                // Another primary continues, beside the same secondary.
                drop(primary.take());
                db.try_catch_up_with_primary().unwrap();
                last = number(&db, &now);
                primary = Some(Primary::start(&path, recycles));
            }
        }
        for (snapshot, seen) in &kept {
            assert_eq!(number(&db, &ReadOptions::new().snapshot(snapshot)), *seen);
        }
        kept.clear();
        db = open();
        assert!(number(&db, &now) >= last);
        db.verify_checksum().unwrap();
    }
    assert!(last > 10, "{last}");
}

#[test]
fn a_secondary_of_a_killed_and_restarted_process_sees_one_point_in_time() {
    follow(false);
}

#[test]
fn a_secondary_of_a_process_that_recycles_wals_sees_one_point_in_time() {
    follow(true);
}
