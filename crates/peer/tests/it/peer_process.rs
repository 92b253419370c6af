//! Checks that a directory has the model's contents, by Esker and by RocksDB 7.8.3 and 11.8.1.

use esker::internals::table::FilterPolicy;
use esker::options::{CompressionType, TargetVersion};
use esker::{ColumnFamilyOptions, Db, DbOptions, ReadOptions};
use esker_base::{Error, Result};
use esker_peer::fixture::copy_files;
use esker_peer::{Contents, ModelOps, RocksDb, Tools, require};
use esker_testkit::TempDir;
use std::path::Path;

/// Options with which small data makes many files, levels and blocks.
pub(crate) fn small_files(compression: CompressionType) -> ColumnFamilyOptions {
    let mut options = ColumnFamilyOptions { compression, ..ColumnFamilyOptions::default() };
    options.write_buffer_size = 64 << 10;
    options.target_file_size_base = 32 << 10;
    options.max_bytes_for_level_base = 128 << 10;
    options.max_bytes_for_level_multiplier = 3.0;
    options.level0_file_num_compaction_trigger = 3;
    options.table.block_size = 1024;
    options.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    options
}

/// Options of the database, which is made if it does not exist.
pub(crate) fn db_options() -> DbOptions {
    DbOptions { create_if_missing: true, create_missing_column_families: true, ..DbOptions::default() }
}

/// Opens `dir` with the families of `model`. RocksDB 7.8 can read the files too, unless the options
/// exclude it.
pub(crate) fn open_esker(dir: &Path, model: &ModelOps, options: &ColumnFamilyOptions) -> Result<Db> {
    let mut db = db_options();
    if options.validate_target(&db).is_err() {
        db.compatible_with = TargetVersion::V11;
    }
    Db::open_cf(&db, dir, model.descriptors(options))
}

/// Checks that an open Esker shows the model's contents.
#[track_caller]
pub(crate) fn check_open_esker(db: &Db, model: &ModelOps, when: &str) {
    for family in &model.families {
        let handle = db.column_family(&family.name).expect("open");
        let contents = Contents::of(db, &handle, &ReadOptions::default())
            .unwrap_or_else(|e: Error| panic!("{when}: Esker, '{}': {e}", family.name));
        contents.assert_same(&model.contents(family), &format!("{when}: Esker, '{}'", family.name));
    }
}

/// Checks that RocksDB 7.8.3's tools find the database consistent and sound, with the model's
/// contents.
#[track_caller]
pub(crate) fn check_7(dir: &Path, model: &ModelOps, when: &str) {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    tools.verify_tables(dir).unwrap_or_else(|e| panic!("{when}: {e}"));
    check_7_after_kill(dir, model, when);
}

/// As [`check_7`], without a check of each table: a killed process may leave an unfinished table
/// that no MANIFEST names.
#[track_caller]
pub(crate) fn check_7_after_kill(dir: &Path, model: &ModelOps, when: &str) {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    tools.check_consistency(dir).unwrap_or_else(|e| panic!("{when}: {e}"));
    let mut names = tools.list_column_families(dir).unwrap_or_else(|e| panic!("{when}: {e}"));
    names.sort();
    let mut expected: Vec<String> = model.families.iter().map(|f| f.name.clone()).collect();
    expected.sort();
    assert_eq!(names, expected, "{when}: families by ldb");
    for family in &model.families {
        let contents = tools.contents(dir, &family.name).unwrap_or_else(|e| panic!("{when}: {e}"));
        contents.assert_same(&model.contents(family), &format!("{when}: ldb 7.8.3, '{}'", family.name));
    }
}

/// Checks that RocksDB 11.8.1, opened for reading, finds the database sound, with the model's
/// contents. Gets must agree with scans.
#[track_caller]
pub(crate) fn check_11(dir: &Path, model: &ModelOps, when: &str) {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let db = RocksDb::open_for_read_only(dir, "", &model.specs(""))
        .unwrap_or_else(|e| panic!("{when}: RocksDB 11.8.1 does not open it: {e}"));
    check_open_11(&db, model, when);
}

/// Checks that an open RocksDB 11.8.1 shows the model's contents.
#[track_caller]
pub(crate) fn check_open_11(db: &RocksDb, model: &ModelOps, when: &str) {
    db.verify_checksum().unwrap_or_else(|e| panic!("{when}: {e}"));
    for family in &model.families {
        let what = format!("{when}: RocksDB 11.8.1, '{}'", family.name);
        let contents = db.contents(&family.name, None).unwrap_or_else(|e| panic!("{what}: {e}"));
        contents.assert_same(&model.contents(family), &what);
        for (key, value) in &contents.0 {
            let got = db.get(&family.name, key, None).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(got.as_ref(), Some(value), "{what}: get");
        }
    }
}

/// Checks that RocksDB 11.8.1 can open a copy with its OPTIONS file, which Esker wrote.
#[track_caller]
pub(crate) fn check_options_by_11(dir: &Path, model: &ModelOps, when: &str) {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let copy = TempDir::new("options-copy");
    copy_files(dir, copy.path());
    let db = RocksDb::open_as_its_options_say(copy.path())
        .unwrap_or_else(|e| panic!("{when}: RocksDB 11.8.1 with the OPTIONS file: {e}"));
    check_open_11(&db, model, when);
}

/// Runs all of these checks on a closed directory.
#[track_caller]
pub(crate) fn check_all(dir: &Path, model: &ModelOps, options: &ColumnFamilyOptions, when: &str) {
    check_7(dir, model, when);
    check_11(dir, model, when);
    let db = open_esker(dir, model, options).unwrap_or_else(|e| panic!("{when}: Esker: {e}"));
    check_open_esker(&db, model, when);
    db.close().expect("closes");
    drop(db);
    check_options_by_11(dir, model, when);
}
