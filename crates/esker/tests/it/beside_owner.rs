//! Databases that are opened for reading while another process writes to them. The test starts this
//! binary again as the owner.
//!
//! The owner writes one number to all keys of three families at once, again and again. It flushes,
//! compacts, collects garbage and rolls its MANIFEST all the time. A reader must find one number
//! everywhere, at least as large as the previous reader's number, and no error.
#![allow(clippy::disallowed_methods, reason = "a process that waits for another")]

use esker::options::WalRecoveryMode;
use esker::{ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, OpenMode, WriteBatch};
use esker_testkit::TempDir;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

const DIRECTORY: &str = "ESKER_TEST_OWNED_DIR";
const RECYCLES: &str = "ESKER_TEST_OWNER_RECYCLES";
const FAMILIES: [&str; 3] = ["default", "other", "blobs"];
const KEYS: u64 = 100;

fn families() -> Vec<ColumnFamilyDescriptor> {
    let family = |name: &&str| {
        let options = ColumnFamilyOptions {
            write_buffer_size: 64 << 10,
            target_file_size_base: 8 << 10,
            level0_file_num_compaction_trigger: 2,
            enable_blob_files: *name == "blobs",
            enable_blob_garbage_collection: true,
            blob_garbage_collection_age_cutoff: 1.0,
            ..ColumnFamilyOptions::default()
        };
        ColumnFamilyDescriptor::new(*name, options)
    };
    FAMILIES.iter().map(family).collect()
}

/// Not a test of its own: plays the owner, if it is given a directory.
#[test]
fn own_a_database() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let mut options = DbOptions { create_if_missing: true, ..DbOptions::default() };
    options.create_missing_column_families = true;
    options.max_manifest_file_size = 1;
    options.recycle_log_file_num = if std::env::var_os(RECYCLES).is_some() { 2 } else { 0 };
    let db = Db::open_cf(&options, &dir, families()).unwrap();
    let families = FAMILIES.map(|name| db.column_family(name).unwrap());
    let mut random = fastrand::Rng::with_seed(1);
    for number in 1_u64.. {
        let mut batch = WriteBatch::new();
        for family in &families {
            for key in 0..KEYS {
                let mut value = number.to_be_bytes().to_vec();
                value.extend(std::iter::repeat_with(|| random.u8(..)).take(300));
                batch.put_cf(family.id(), key.to_be_bytes(), &value).unwrap();
            }
        }
        db.write(&mut batch).unwrap();
        if number == 1 {
            std::fs::write(Path::new(&dir).with_extension("ready"), "").unwrap();
        }
    }
}

/// The owner's process, which ends with the test.
struct Owner(Child);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn start_owner(dir: &Path, recycles: bool) -> Owner {
    let mut command = esker_testkit::this_program();
    command.args(["--exact", "beside_owner::own_a_database", "--nocapture"]).env(DIRECTORY, dir);
    if recycles {
        command.env(RECYCLES, "1");
    }
    let mut owner = Owner(command.stdout(Stdio::null()).spawn().unwrap());
    while !dir.with_extension("ready").exists() {
        assert!(owner.0.try_wait().unwrap().is_none(), "the owner has ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    owner
}

/// The number that all keys must have.
fn number(db: &Db) -> u64 {
    let mut numbers = Vec::new();
    for name in FAMILIES {
        let family = db.column_family(name).unwrap();
        for key in 0..KEYS {
            let value = db.get_cf(&family, key.to_be_bytes()).unwrap().unwrap();
            numbers.push((u64::from_be_bytes(value[..8].try_into().unwrap()), name, key));
        }
        let mut iter = db.iter_cf(&family).unwrap();
        iter.seek_to_first();
        let count = std::iter::from_fn(|| iter.valid().then(|| iter.next())).count();
        iter.status().unwrap();
        assert_eq!(count as u64, KEYS);
    }
    let (first, last) = (numbers.iter().min().unwrap(), numbers.iter().max().unwrap());
    assert_eq!(first.0, last.0, "{first:?} {last:?}");
    first.0
}

fn read_beside(recycles: bool) {
    let dir = TempDir::new("owned");
    let path = dir.path().join("db");
    let _owner = start_owner(&path, recycles);
    let mut last = 0;
    for round in 0..30 {
        let mut options =
            DbOptions { max_open_files: if round % 2 == 0 { -1 } else { 20 }, ..DbOptions::default() };
        // This recovery mode cannot distinguish old records of a recycled WAL from damage.
        if round % 3 == 0 && !recycles {
            options.wal_recovery_mode = WalRecoveryMode::AbsoluteConsistency;
        }
        let db = Db::open_with(&options, &path, families(), OpenMode::ReadOnly).unwrap();
        let seen = number(&db);
        assert!(seen >= last, "{seen} after {last}");
        last = seen;
        if round % 5 == 1 {
            // After this time the owner has deleted all files of the beginning.
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(number(&db), seen);
            db.verify_checksum().unwrap();
        }
    }
    assert!(last > 1);
}

#[test]
fn a_reader_beside_a_writing_process_sees_one_point_in_time() {
    read_beside(false);
}

#[test]
fn a_reader_beside_a_process_that_recycles_wals_sees_one_point_in_time() {
    read_beside(true);
}
