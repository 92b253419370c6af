//! An interrupted downgrade leaves the database sound, and the next one continues it.

use esker::compat::{downgrade, inspect};
use esker::internals::env::{CrashChoices, CrashFs, FaultFs, FileSystem, OpKind};
use esker::internals::format::blob::BlobIndex;
use esker::internals::format::key::{seek_key, user_key};
use esker::internals::format::wide_column::stored::{StoredColumns, StoredValue};
use esker::internals::internal_iterator;
use esker::options::{CompactionStyle, Feature, TargetVersion, load_latest_options_from};
use esker::{
    ColumnFamilyDescriptor, Db, Env, Options, ReadOptions, SequenceNumber, TransactionDb,
    TransactionDbOptions, ValueType, WriteBatch,
};
use std::path::Path;
use std::sync::{Arc, Mutex};

const DIR: &str = "/db";

/// Options for tables in formats that need RocksDB 11.
fn new_layouts() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.compatible_with = TargetVersion::V11_10;
    options.cf.table.format_version = 8;
    options.cf.table.separate_key_value_in_data_block = true;
    options.cf.write_buffer_size = 64 << 10;
    options.cf.level0_file_num_compaction_trigger = 100;
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    options
}

fn families(options: &Options) -> Vec<ColumnFamilyDescriptor> {
    vec![ColumnFamilyDescriptor::new("default", options.cf.clone())]
}

fn contents(options: &Options, disk: CrashFs) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut db_options = options.db.clone();
    db_options.env = Env::with_fs(Arc::new(disk));
    let db = Db::open_cf(&db_options, DIR, families(options)).unwrap();
    let mut iter = db.iter_opt(ReadOptions::default(), &db.default_column_family()).unwrap();
    let mut found = Vec::new();
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        found.push((key.to_vec(), value.to_vec()));
        iter.next();
    }
    iter.status().unwrap();
    found
}

/// A disk with a database of five tables and a WAL.
fn filled() -> CrashFs {
    let disk = CrashFs::new();
    let mut options = new_layouts();
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    let db = Db::open(&options, DIR).unwrap();
    for round in 0..6 {
        for i in 0..60 {
            db.put(format!("key{i:03}"), format!("{round}")).unwrap();
            db.merge(format!("merged{i:03}"), format!("{round}")).unwrap();
        }
        db.delete_range(format!("key{:03}", round * 5), format!("key{:03}", round * 5 + 3)).unwrap();
        if round < 5 {
            db.flush().unwrap();
        }
    }
    db.close().unwrap();
    disk
}

#[test]
fn a_downgrade_that_is_killed_leaves_everything_and_goes_on() {
    let before = filled();
    let expected = contents(&new_layouts(), before.crash_clone(&CrashChoices::process_kill()));
    // A power loss during the downgrade may lose writes that were not synced before.
    let disk = before.crash_clone(&CrashChoices::keep_flushed());
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let crashes: Arc<Mutex<Vec<CrashFs>>> = Arc::default();
    let (seen, now) = (crashes.clone(), disk.clone());
    fs.on_op(move |op| {
        if matches!(op.kind, OpKind::Read | OpKind::Stat | OpKind::List | OpKind::Open) {
            return;
        }
        let mut seen = seen.lock().unwrap();
        let choices = match seen.len() % 3 {
            0 => CrashChoices::process_kill(),
            1 => CrashChoices::lose_unsynced(),
            _ => CrashChoices::random(seen.len() as u64),
        };
        seen.push(now.crash_clone(&choices));
    });
    let run = |fs: Arc<dyn esker::internals::env::FileSystem>| {
        let mut options = new_layouts();
        options.db.env = Env::with_fs(fs);
        downgrade(&options.db, DIR, families(&options), TargetVersion::V7_8)
    };
    let done = run(Arc::new(fs.clone())).unwrap();
    fs.clear_hook();
    assert_eq!(done.rewritten, ["default"]);
    assert_eq!(contents(&new_layouts(), disk), expected);
    // After the downgrade, a power loss loses no write.
    let disk = before.crash_clone(&CrashChoices::process_kill());
    run(Arc::new(disk.clone())).unwrap();
    assert_eq!(contents(&new_layouts(), disk.crash_clone(&CrashChoices::lose_unsynced())), expected);
    let crashes = std::mem::take(&mut *crashes.lock().unwrap());
    assert!(crashes.len() > 40, "{} points", crashes.len());
    // Each crash costs three openings. Every fifth crash is enough: the order of threads differs
    // between runs.
    for (at, crashed) in crashes.into_iter().enumerate().filter(|(at, _)| at % 5 == 0) {
        let noted = load_latest_options_from(&crashed, Path::new(DIR)).unwrap();
        let is_compacted = !noted.families[0].1.disable_auto_compactions;
        assert!(is_compacted, "after operation {at} the options of the work are those of the database");
        run(Arc::new(crashed.clone())).unwrap_or_else(|e| panic!("after operation {at}: {e}"));
        let report = inspect(&crashed, Path::new(DIR), Path::new(DIR)).unwrap();
        assert!(report.needs.is_empty(), "after operation {at}: {report:?}");
        assert_eq!(contents(&new_layouts(), crashed), expected, "after operation {at}");
    }
}

#[test]
fn a_database_that_needs_nothing_new_is_not_rewritten() {
    let disk = CrashFs::new();
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    let db = Db::open(&options, DIR).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    let tables = |disk: &CrashFs| {
        let fs: &dyn esker::internals::env::FileSystem = disk;
        let names = fs.children(Path::new(DIR)).unwrap();
        names.into_iter().filter(|n| n.ends_with(".sst")).collect::<Vec<_>>()
    };
    let before = tables(&disk);
    let done = downgrade(&options.db, DIR, families(&options), TargetVersion::V7_8).unwrap();
    assert_eq!((done.rewritten, tables(&disk)), (Vec::<String>::new(), before));
}

#[test]
fn a_wal_that_is_kept_for_a_prepared_transaction_alone_is_looked_into() {
    let disk = CrashFs::new();
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    let db = TransactionDb::open(&options, &TransactionDbOptions::default(), DIR).unwrap();
    let txn = db.begin_transaction();
    txn.put("prepared", "1").unwrap();
    txn.set_name(b"one").unwrap();
    txn.prepare().unwrap();
    for value in ["1", "2"] {
        db.put("other", value).unwrap();
        db.db().flush().unwrap();
    }
    drop((txn, db));
    let wals = disk.children(Path::new(DIR)).unwrap().iter().filter(|name| name.ends_with(".log")).count();
    let report = inspect(&disk, Path::new(DIR), Path::new(DIR)).unwrap();
    assert!(wals > 1, "the WAL of the section and the newest WAL are there");
    assert_eq!(report.wals, wals as u64);
    assert!(
        report.notes.iter().any(|note| note.contains("transactions of two phases")),
        "{:?}",
        report.notes
    );
}

/// Puts 250 bytes under three keys, which go to a blob file of `db`. Then puts an entity over the
/// first, `a`, with a column whose value is in that file, as RocksDB 11.2 writes it. Each key has a
/// table of its own. Returns the large value.
pub(crate) fn put_entity_with_a_blob(db: &Db) -> String {
    let large = "large".repeat(50);
    for key in ["a", "b", "c"] {
        db.put(key, &large).unwrap();
    }
    db.flush().unwrap();
    let mut iter = internal_iterator(db, &db.default_column_family()).unwrap();
    iter.seek(&seek_key(b"a", SequenceNumber::MAX));
    assert_eq!(user_key(iter.key()), b"a");
    let BlobIndex::Blob(location) = BlobIndex::parse(iter.value()).unwrap() else { panic!("no blob") };
    let columns = vec![(&b"far"[..], StoredValue::Blob(location)), (b"near", StoredValue::Inline(b"x"))];
    let mut entity = Vec::new();
    StoredColumns { columns }.append_to(&mut entity).unwrap();
    // A batch of one entity of the default family.
    let mut batch = vec![0; 8];
    batch.extend_from_slice(&[1, 0, 0, 0, ValueType::WideColumnEntity as u8, 1, b'a']);
    batch.push(u8::try_from(entity.len()).unwrap());
    batch.extend_from_slice(&entity);
    db.write(WriteBatch::from_bytes(batch).unwrap()).unwrap();
    db.flush().unwrap();
    large
}

#[test]
fn entities_with_columns_in_blob_files_are_made_whole_by_a_downgrade() {
    let mut options = new_layouts();
    options.db.env = Env::with_fs(Arc::new(CrashFs::new()));
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 100;
    let db = Db::open(&options, DIR).unwrap();
    let large = put_entity_with_a_blob(&db);
    let columns = |db: &Db| {
        let found = db.get_entity(&ReadOptions::default(), &db.default_column_family(), "a").unwrap();
        found.unwrap().iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect::<Vec<_>>()
    };
    let expected = vec![(b"far".to_vec(), large.clone().into_bytes()), (b"near".to_vec(), b"x".to_vec())];
    assert_eq!(columns(&db), expected);
    db.close().unwrap();
    drop(db);
    let (fs, dir) = (options.db.env.fs.clone(), Path::new(DIR));
    assert!(!inspect(fs.as_ref(), dir, dir).unwrap().is_read_by(TargetVersion::V7_8));
    let done = downgrade(&options.db, DIR, families(&options), TargetVersion::V7_8).unwrap();
    assert!(done.before.needs.iter().any(|need| need.feature == Feature::EntityBlobs), "{:?}", done.before);
    assert!(done.after.is_read_by(TargetVersion::V7_8), "{:?}", done.after);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(columns(&db), expected);
    assert_eq!(db.get("b").unwrap().as_deref(), Some(large.as_bytes()));
    db.verify_checksum().unwrap();
}

/// FIFO deletes the oldest table if there are too many bytes: a single table would hold all data.
#[test]
fn tables_of_a_fifo_family_are_downgraded_one_by_one() {
    let disk = CrashFs::new();
    let mut options = new_layouts();
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    options.cf.compaction_style = CompactionStyle::Fifo;
    options.cf.num_levels = 1;
    let db = Db::open(&options, DIR).unwrap();
    for table in 0..5 {
        (0..20).for_each(|i| db.put(format!("key{table}{i:02}"), [b'x'; 1000]).unwrap());
        db.flush().unwrap();
    }
    db.put("in the WAL", "value").unwrap();
    let bytes: u64 = db.live_files().iter().map(|file| file.size).sum();
    let age = |db: &Db| {
        let oldest = db.live_files().into_iter().min_by_key(|file| file.epoch_number).unwrap();
        (oldest.oldest_ancestor_time, oldest.smallest_key.clone())
    };
    let oldest = age(&db);
    drop(db);
    // The write in the WAL exceeds the limit, so one of the tables is deleted.
    options.cf.compaction_options_fifo.max_table_files_size = bytes;
    let done = downgrade(&options.db, DIR, families(&options), TargetVersion::V7_8).unwrap();
    assert_eq!(done.rewritten, ["default"]);
    options.cf.compaction_options_fifo.max_table_files_size = 1 << 30;
    let db = Db::open(&options, DIR).unwrap();
    db.wait_for_background_work().unwrap();
    let tables = db.live_files().len();
    assert!((4..=6).contains(&tables), "{tables} tables");
    assert_eq!(db.get("in the WAL").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(db.get("key419").unwrap().is_some() && db.get("key100").unwrap().is_some());
    if tables == 6 {
        assert_eq!(age(&db), oldest);
    }
}
