//! The way back to RocksDB. `esker::compat` reports the same facts of a directory that RocksDB
//! finds. 7.8.3 reads each database that was downgraded for it. A target applies to every byte
//! written.

use crate::fixtures::{families, has_timestamps, has_transactions, read_by_7, read_by_11};
use crate::peer_process::{check_7, check_11, db_options, small_files};
use esker::compat::{CompatReport, downgrade, inspect};
use esker::internals::env::PosixFileSystem;
use esker::options::{CompressionType, Feature, Release, TargetVersion};
use esker::{ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, ErrorKind, OpenMode, WriteOptions};
use esker_base::comparator::BytewiseComparatorWithU64Ts;
use esker_peer::fixture::Fixture;
use esker_peer::model_ops::{Kinds, write_to_esker};
use esker_peer::{ModelOps, Tools, fixture, require};
use esker_testkit::{TempDir, seed};
use std::path::Path;
use std::sync::Arc;

fn compat(dir: &Path) -> CompatReport {
    inspect(&PosixFileSystem, dir, dir).expect("looked into")
}

fn databases() -> Vec<Fixture> {
    fixture::all(&["v7_8_", "v11_8_", "v11_9_", "v11_12_"]).into_iter().filter(Fixture::is_database).collect()
}

/// Deletes the OPTIONS files, because their names alone make `ldb` fail.
fn without_options(dir: &Path) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("readable").path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("OPTIONS-")) {
            std::fs::remove_file(path).expect("removed");
        }
    }
}

/// Whether `ldb` 7.8.3 can read the database without an OPTIONS file. It then supports only one
/// order, no merge operator, and no prepared transactions.
fn can_be_asked(fixture: &Fixture) -> bool {
    let plain = fixture.expected().iter().all(|f| f.name == "default");
    let merges = ["ingest", "merge", "wal_unflushed"].iter().any(|name| fixture.name.contains(name));
    plain && !merges && !has_transactions(&fixture.db()) && !has_timestamps(&fixture.name)
}

#[test]
fn the_compat_report_is_what_rocksdb_7_finds() {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    let mut asked = 0;
    for fixture in databases().iter().filter(|f| can_be_asked(f)) {
        let copy = fixture.copy();
        without_options(copy.path());
        let report = compat(copy.path());
        // A read-only open fails if the MANIFEST tracks WALs; the notes say so.
        if report.notes.iter().any(|note| note.contains("tracks WALs")) {
            continue;
        }
        let read = tools.contents(copy.path(), "default");
        let is_right = read.is_ok_and(|contents| fixture.expected()[0].check(&contents).is_ok());
        assert_eq!(is_right, report.is_read_by(TargetVersion::V7_8), "{}: {report:?}", fixture.name);
        asked += 1;
    }
    assert!(asked > 60, "{asked} databases were asked about");
}

#[test]
fn every_golden_database_is_downgraded_for_rocksdb_7_or_refused_by_name() {
    let (mut done, mut refused) = (0, 0);
    for fixture in databases() {
        let copy = fixture.copy();
        let options = DbOptions { allow_2pc: has_transactions(copy.path()), ..DbOptions::default() };
        let families = families(&options, copy.path()).expect("described");
        let before = compat(copy.path());
        match downgrade(&options, copy.path(), families, TargetVersion::V7_8) {
            Ok(what) => {
                assert_eq!(what.before, before, "{}", fixture.name);
                assert!(what.after.is_read_by(TargetVersion::V7_8), "{}: {what:?}", fixture.name);
                assert_eq!(compat(copy.path()), what.after, "{}", fixture.name);
                assert_eq!(what.after.tools, Release::OLDEST, "{}", fixture.name);
                read_by_7(&fixture, copy.path()).unwrap_or_else(|e| panic!("{}: {e}", fixture.name));
                // Release 11 no longer reads some old tables. Those are not too new.
                if what.after.notes.iter().all(|note| !note.contains("format_version below 2")) {
                    read_by_11(&fixture, copy.path()).unwrap_or_else(|e| panic!("{}: {e}", fixture.name));
                }
                done += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotSupported, "{}: {error}", fixture.name);
                assert!(error.message().contains("persist_user_defined_timestamps"), "{error}");
                assert_eq!(compat(copy.path()), before, "{}: the directory is unchanged", fixture.name);
                refused += 1;
            }
        }
    }
    assert_eq!((done, refused), (161, 1), "all databases but the one without timestamps in its tables");
}

/// Writes with every layout that `target` reads, at random.
fn random_layout(rng: &mut fastrand::Rng, target: TargetVersion) -> ColumnFamilyOptions {
    let mut options = small_files(CompressionType::Lz4);
    options.table.format_version = rng.u32(2..=8);
    options.table.separate_key_value_in_data_block = rng.bool();
    options.limit_to(target);
    options
}

#[test]
fn each_target_is_what_the_compat_report_says_afterwards() {
    seed::for_each_seed("targets", 3, |_, mut rng| {
        for target in TargetVersion::ALL {
            let dir = TempDir::new("target");
            let mut model = ModelOps::varied();
            let layout = random_layout(&mut rng, target);
            let options = DbOptions { compatible_with: target, ..db_options() };
            let db = Db::open_cf(&options, dir.path(), model.descriptors(&layout)).expect("opens");
            for _ in 0..20 {
                let ops = model.random_ops(&mut rng, 20, Kinds::ALL);
                write_to_esker(&db, &ops, &WriteOptions::default()).expect("written");
            }
            db.flush().expect("flushed");
            db.close().expect("closes");
            drop(db);
            let report = compat(dir.path());
            assert!(report.is_read_by(target), "{target:?}: {report:?}");
            let asked = layout.newer_features();
            assert_eq!(
                asked.iter().map(|f| f.since()).max().unwrap_or(Release::OLDEST),
                report.oldest(),
                "{target:?}: {report:?}"
            );
            if report.is_read_by(TargetVersion::V7_8) {
                check_7(dir.path(), &model, target.name());
            } else if let Some(tools) = require("ldb 7.8", Tools::find()) {
                assert!(tools.contents(dir.path(), "default").is_err(), "{report:?}");
            }
            if report.is_read_by(TargetVersion::V11) {
                check_11(dir.path(), &model, target.name());
            }
        }
    });
}

/// A family with timestamps and a WAL that holds two puts.
fn timestamps_in_wal(dir: &Path, target: TargetVersion, flush_at_close: bool) {
    let mut options = DbOptions { compatible_with: target, ..db_options() };
    options.avoid_flush_during_shutdown = !flush_at_close;
    let family = ColumnFamilyOptions {
        comparator: Arc::new(BytewiseComparatorWithU64Ts),
        ..ColumnFamilyOptions::default()
    };
    let families = vec![ColumnFamilyDescriptor::new("default", family)];
    let db = Db::open_with(&options, dir, families, OpenMode::ReadWrite).expect("opens");
    for ts in 1..=2_u64 {
        let write = WriteOptions::default();
        db.put_with_ts(&write, &db.default_column_family(), "key", &ts.to_le_bytes(), "v").expect("written");
    }
    db.close().expect("closes");
}

#[test]
fn a_wal_says_the_size_of_timestamps_where_the_target_knows_that() {
    for (target, told) in
        [(TargetVersion::V7_8, false), (TargetVersion::V8, true), (TargetVersion::V11, true)]
    {
        let dir = TempDir::new("timestamp-sizes");
        timestamps_in_wal(dir.path(), target, false);
        let needs = compat(dir.path()).needs;
        assert_eq!(needs.iter().any(|n| n.feature == Feature::TimestampSizes), told, "{target:?}: {needs:?}");
        let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
        let entries = tools.internal_entries(dir.path(), "default").expect("dumped");
        assert_eq!(entries.len(), if told { 0 } else { 2 }, "7.8.3 takes the record for the end of the WAL");
    }
}

#[test]
fn wals_that_only_7_8_reads_rightly_are_flushed_at_the_close() {
    let dir = TempDir::new("timestamps-flushed");
    timestamps_in_wal(dir.path(), TargetVersion::V7_8, true);
    let report = compat(dir.path());
    assert_eq!((report.tables, report.needs), (1, Vec::new()));
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    assert_eq!(tools.internal_entries(dir.path(), "default").expect("dumped").len(), 2);
}

#[test]
fn timed_values_become_plain_ones_where_the_target_does_not_know_them() {
    let fixture = &fixture::all(&["v11_9_timed_put"])[0];
    for target in [TargetVersion::V8, TargetVersion::V7_8] {
        let copy = fixture.copy();
        let options = DbOptions::default();
        let families = families(&options, copy.path()).expect("described");
        downgrade(&options, copy.path(), families, target).expect("downgraded");
        let needs = compat(copy.path()).needs;
        assert!(needs.iter().all(|n| n.feature != Feature::TimedPut), "{needs:?}");
    }
}
