//! Tables of a database are ingested with their sequence numbers (`allow_db_generated_files`).

use super::{Model, contents, file, key, options};
use esker::options::CompactionStyle;
use esker::{
    ColumnFamilyHandle, Db, ErrorKind, IngestExternalFileOptions, Options, ReadOptions, SequenceNumber,
};
use esker_testkit::seed;
use std::cmp::Reverse;
use std::path::PathBuf;

fn of_databases() -> IngestExternalFileOptions {
    IngestExternalFileOptions { allow_db_generated_files: true, ..IngestExternalFileOptions::default() }
}

/// The tables of a database, older entries first: deeper levels before upper ones, and in level 0
/// older tables before newer ones.
fn tables(db: &Db) -> Vec<PathBuf> {
    let mut files = db.live_files();
    files.sort_by_key(|file| (Reverse(file.level), file.epoch_number, file.largest_seqno));
    files.iter().map(|file| file.directory.join(&file.relative_filename)).collect()
}

/// A database with random writes of all kinds in several levels.
fn source(options: &Options, rng: &mut fastrand::Rng) -> Db {
    let db = Db::open(options, "/source").unwrap();
    let mut snapshots = Vec::new();
    for step in 0..300 {
        let (a, b) = (key(rng.usize(..200)), key(rng.usize(..200)));
        match rng.u32(..40) {
            0..20 => db.put(&a, format!("{step}")).unwrap(),
            20..28 => db.merge(&a, format!("m{step}")).unwrap(),
            28..34 => db.delete(&a).unwrap(),
            34 => db.delete_range((&a).min(&b), (&a).max(&b)).unwrap(),
            35 => snapshots.push(db.snapshot()),
            36 if rng.bool() => db.compact_range(Some(a.as_bytes()), None).unwrap(),
            _ => db.flush().unwrap(),
        }
        if snapshots.len() > 2 {
            snapshots.clear();
        }
    }
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    db
}

#[test]
fn all_tables_of_a_database_make_the_same_contents_in_another_one() {
    let mut rng = seed::rng("ingest databases");
    let styles = [CompactionStyle::Level, CompactionStyle::Universal, CompactionStyle::Fifo];
    for round in 0..12 {
        let mut options = options();
        options.cf.compaction_style = styles[round % 3];
        options.cf.target_file_size_base = 1 << 10;
        options.cf.max_bytes_for_level_base = 8 << 10;
        options.cf.level_compaction_dynamic_level_bytes = rng.bool();
        let from = source(&options, &mut rng);
        let there = contents(&from, &ReadOptions::new(), "default");
        from.disable_file_deletions();
        from.pause_background_work();
        let files = tables(&from);
        // A compaction may have set the newest numbers to 0.
        let last = from.live_files().iter().map(|file| file.largest_seqno).max().unwrap();
        let db = Db::open(&options, "/target").unwrap();
        // A neighbour, which no table overlaps.
        db.put("zzz", "neighbour").unwrap();
        let mut expected = there.clone();
        expected.insert("zzz".to_owned(), "neighbour".to_owned());
        let link_files = rng.bool();
        let ingest = IngestExternalFileOptions { link_files, ..of_databases() };
        db.ingest_external_file_opt(&ingest, &db.default_column_family(), &files).unwrap();
        assert!(db.latest_sequence_number() >= last.max(SequenceNumber(2)), "round {round}");
        assert_eq!(contents(&db, &ReadOptions::new(), "default"), expected, "round {round}");
        assert_eq!(contents(&from, &ReadOptions::new(), "default"), there, "round {round}: the source");
        db.verify_checksum().unwrap();
        // Writes are newer than the tables.
        for n in (0..200).step_by(7) {
            db.put(key(n), "newer").unwrap();
            expected.insert(key(n), "newer".to_owned());
        }
        drop(db);
        drop(from);
        let db = Db::open(&options, "/target").unwrap();
        assert_eq!(contents(&db, &ReadOptions::new(), "default"), expected, "round {round}: opened again");
        db.compact_range(None, None).unwrap();
        db.verify_checksum().unwrap();
        assert_eq!(contents(&db, &ReadOptions::new(), "default"), expected, "round {round}: compacted");
    }
}

/// Tables that overlap each other get levels, so that newer ones lie above older ones.
#[test]
fn batches_of_tables_go_above_those_before_them() {
    let options = options();
    let from = Db::open(&options, "/source").unwrap();
    for value in ["one", "two", "three"] {
        db_file(&from, value);
    }
    let files = tables(&from);
    let db = Db::open(&options, "/target").unwrap();
    let family = db.default_column_family();
    let to_last = IngestExternalFileOptions { fail_if_not_bottommost_level: true, ..of_databases() };
    let refused = db.ingest_external_file_opt(&to_last, &family, &files).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TryAgain, "{refused}");
    db.ingest_external_file_opt(&of_databases(), &family, &files).unwrap();
    let mut levels: Vec<_> =
        db.live_files().iter().map(|file| (file.level, file.smallest_seqno, file.largest_seqno)).collect();
    levels.sort();
    // Base level 6 is the only level below 0 here, and two tables of level 0 have their own age.
    let at = |level, first, last| (level, SequenceNumber(first), SequenceNumber(last));
    assert_eq!(levels, [at(0, 3, 4), at(0, 5, 6), at(6, 1, 2)]);
    let expected: Model = [(key(1), "three".into()), (key(2), "three".into())].into();
    assert_eq!(contents(&db, &ReadOptions::new(), "default"), expected);
}

fn db_file(db: &Db, value: &str) {
    for n in [1, 2] {
        db.put(key(n), value).unwrap();
    }
    db.flush().unwrap();
}

#[test]
fn tables_that_overlap_or_would_show_in_a_snapshot_are_refused() {
    let options = options();
    let from = Db::open(&options, "/source").unwrap();
    db_file(&from, "theirs");
    let files = tables(&from);
    let db = Db::open(&options, "/target").unwrap();
    let family = db.default_column_family();
    let refused = |db: &Db, family: &ColumnFamilyHandle, ingest: &IngestExternalFileOptions, text: &str| {
        let before = contents(db, &ReadOptions::new(), "default");
        let e = db.ingest_external_file_opt(ingest, family, &files).unwrap_err();
        assert!(e.to_string().contains(text), "{e}");
        assert_eq!(contents(db, &ReadOptions::new(), "default"), before);
        e.kind()
    };
    let overlaps = "An ingested file overlaps with existing data in the DB";
    let plain = IngestExternalFileOptions::default();
    refused(&db, &family, &plain, "External file version not found");
    let both = IngestExternalFileOptions { move_files: true, link_files: true, ..plain };
    let kind = refused(&db, &family, &both, "`move_files` and `link_files` can not both be true.");
    assert_eq!(kind, ErrorKind::InvalidArgument);
    let snapshot = db.snapshot();
    assert_eq!(refused(&db, &family, &of_databases(), overlaps), ErrorKind::InvalidArgument);
    drop(snapshot);
    db.put(key(2), "ours").unwrap();
    let no_flush = IngestExternalFileOptions { allow_blocking_flush: false, ..of_databases() };
    refused(&db, &family, &no_flush, "allow_blocking_flush");
    assert_eq!(refused(&db, &family, &of_databases(), overlaps), ErrorKind::InvalidArgument);
    // The first level with an overlap may lie below the one where the table would go.
    db.compact_range(None, None).unwrap();
    assert_eq!(refused(&db, &family, &of_databases(), overlaps), ErrorKind::InvalidArgument);
    assert_eq!(contents(&db, &ReadOptions::new(), "default"), Model::from([(key(2), "ours".into())]));
    // Only the tables of the database are in its directory.
    let names = options.db.env.fs.children(std::path::Path::new("/target")).unwrap();
    let there = names.iter().filter(|name| name.ends_with(".sst")).count();
    assert_eq!(there, db.live_files().len(), "{names:?}");
}

#[test]
fn values_in_blob_files_are_refused() {
    let mut options = options();
    options.cf.enable_blob_files = true;
    let from = Db::open(&options, "/source").unwrap();
    db_file(&from, "a value in a blob file");
    let db = Db::open(&options, "/target").unwrap();
    let e = db
        .ingest_external_file_opt(&of_databases(), &db.default_column_family(), &tables(&from))
        .unwrap_err();
    assert!(e.kind() == ErrorKind::NotSupported && e.to_string().contains("blob files"), "{e}");
    assert!(db.live_files().is_empty());
}

/// The entries of the table are older than the transaction's snapshot, and yet news to it.
#[test]
fn a_transaction_meets_a_conflict_with_an_ingested_table() {
    use esker::txn::OptimisticTransactionDb;
    let options = options();
    let from = Db::open(&options, "/source").unwrap();
    db_file(&from, "theirs");
    let db = OptimisticTransactionDb::open_cf(
        &options.db,
        "/target",
        vec![esker::ColumnFamilyDescriptor::new("default", options.cf.clone())],
    )
    .unwrap();
    for n in 50..60 {
        db.db().put(key(n), "ours").unwrap();
    }
    let txn = db.begin_transaction();
    txn.put(key(1), "mine").unwrap();
    let family = db.db().default_column_family();
    db.db().ingest_external_file_opt(&of_databases(), &family, &tables(&from)).unwrap();
    let e = txn.commit().unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::TryAgain | ErrorKind::Busy), "{e}");
    assert_eq!(db.db().get(key(1)).unwrap().as_deref(), Some(&b"theirs"[..]));
}

#[test]
fn a_linked_file_stays_and_lives_on_without_its_first_name() {
    let options = options();
    let fs = options.db.env.fs.clone();
    let db = Db::open(&options, "/db").unwrap();
    let path = file(&options, "/linked", &[1], "value", None);
    let link = IngestExternalFileOptions { link_files: true, ..Default::default() };
    db.ingest_external_file_opt(&link, &db.default_column_family(), &[&path]).unwrap();
    fs.delete_file(&path).unwrap();
    assert_eq!(db.get(key(1)).unwrap().as_deref(), Some(&b"value"[..]));
}
