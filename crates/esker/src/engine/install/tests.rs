//! Tests that the cost of a new super version depends neither on the family's files nor on the
//! number of families.

use super::*;
use crate::Db;
use crate::options::Options;
use crate::picker::{NONE_SUGGESTED, pick};
use crate::version::LogOptions;
use crate::version::file_meta::{FileStats, LOOKS};
use esker_base::ValueType;
use esker_env::Env;
use esker_env::mem::MemFs;
use esker_format::key::internal_key;
use esker_format::version_edit::{FileMetaData, VersionEdit};

const FAMILY: ColumnFamilyId = ColumnFamilyId::DEFAULT;

/// Counts of files that were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FileReads {
    /// Files read under the manifest's lock only.
    before: u64,
    /// Files read under the db mutex.
    under_mutex: u64,
}

#[derive(Debug)]
struct Costs {
    flush: FileReads,
    compaction: FileReads,
    switch_under_mutex: u64,
    pick_under_mutex: u64,
}

/// A file with the keys `from` to `to`. Sequence number 0 means that no snapshot was live when it
/// was written.
fn file(db: &Db, file_size: u64, (from, to): (u64, u64), seqno: u64) -> FileMetaData {
    let key = |n: u64| internal_key(format!("{n:09}").as_bytes(), SequenceNumber(seqno), ValueType::Value);
    let (number, now) = (db.engine().numbers.new_file_number(), db.engine().env.clock.now_seconds());
    FileMetaData {
        number,
        file_size,
        smallest: key(from),
        largest: key(to),
        smallest_seqno: SequenceNumber(seqno),
        largest_seqno: SequenceNumber(seqno),
        epoch_number: number.0,
        oldest_ancestor_time: now,
        file_creation_time: now,
        ..FileMetaData::default()
    }
}

/// A database with `count` files in the last level, every third with entries that only a snapshot
/// needed. The level above has a tenth of that number: too many if it `is_due`. No file is on disk,
/// so no job may run.
fn with_files(count: u64, is_due: bool) -> Db {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.max_bytes_for_level_multiplier = if is_due { 12.0 } else { 5.0 };
    let db = Db::open(&options, "/db").unwrap();
    db.pause_background_work();
    db.put("key", "value").unwrap();
    drop(db.snapshot());
    let mut edit = VersionEdit { column_family: FAMILY, ..VersionEdit::default() };
    let bytes = (100 << 30) / count;
    let level6 = |i| file(&db, bytes, (i * 10, i * 10 + 9), i % 3 * (i + 5));
    let level5 = |i| file(&db, bytes, (i * 100 + 5, i * 100 + 95), 2 + i);
    edit.new_files = (0..count).map(|i| (6, level6(i))).collect();
    edit.new_files.extend((0..count / 10).map(|i| (5, level5(i))));
    install(&db, edit);
    db
}

/// Installs an edit as flushes and compactions do.
fn install(db: &Db, edit: VersionEdit) -> FileReads {
    let engine = db.engine();
    LOOKS.set(0);
    let mut manifest = engine.manifest.lock();
    let versions = manifest.log_and_apply(vec![edit], LogOptions::default()).unwrap();
    for file in versions[0].1.new_files() {
        let (entries, raw_value_bytes) = (file.file_size / 1000, file.file_size);
        // The last level has no entries that can be dropped; otherwise it would be due.
        let deletions = if file.level() == Some(6) { 0 } else { entries * 51 / 100 };
        file.set_stats(FileStats { entries, deletions, raw_value_bytes, ..FileStats::default() });
    }
    engine.prepare_versions(&versions);
    let before = LOOKS.replace(0);
    let mut state = engine.state.lock();
    let family = state.family_mut(FAMILY).unwrap();
    family.version = versions[0].1.clone();
    // Otherwise no thread checks whether a compaction is due.
    family.compaction_queued = false;
    publish_super_version(engine, &mut state, FAMILY);
    FileReads { before, under_mutex: LOOKS.get() }
}

fn costs(files: u64, is_due: bool) -> Costs {
    let db = with_files(files, is_due);
    let new_files = vec![(0, file(&db, 1 << 20, (5, files * 10), 1_000_000))];
    let flush = install(&db, VersionEdit { column_family: FAMILY, new_files, ..VersionEdit::default() });
    LOOKS.set(0);
    let mut state = db.engine().state.lock();
    state.family_mut(FAMILY).unwrap().compaction_queued = false;
    publish_super_version(db.engine(), &mut state, FAMILY);
    let switch_under_mutex = LOOKS.replace(0);
    let family = state.family_mut(FAMILY).unwrap();
    assert_eq!(family.compaction_queued, is_due);
    let context = PickContext {
        options: &family.compaction_options,
        running: &family.running,
        now_seconds: db.engine().env.clock.now_seconds(),
        seconds_ahead: 0,
        oldest_snapshot: db.engine().oldest_snapshot_at_release(),
        oldest_live: SequenceNumber::MAX,
        suggested: &NONE_SUGGESTED,
    };
    assert!(context.oldest_snapshot > SequenceNumber::ZERO);
    let plan = pick(&family.version, &context);
    let pick_under_mutex = LOOKS.get();
    assert_eq!(plan.is_some(), is_due);
    let (level5, level6) = (family.version.files(5), family.version.files(6));
    let mut edit = VersionEdit { column_family: FAMILY, ..VersionEdit::default() };
    edit.deleted_files.push((5, level5[0].number));
    edit.deleted_files.extend(level6[..10].iter().map(|f| (6, f.number)));
    edit.new_files = vec![(6, file(&db, 1 << 20, (0, 99), 0))];
    drop(state);
    let compaction = install(&db, edit);
    Costs { flush, compaction, switch_under_mutex, pick_under_mutex }
}

#[test]
fn no_thread_walks_over_files_under_the_db_mutex() {
    for is_due in [false, true] {
        let (few, many) = (costs(1_000, is_due), costs(10_000, is_due));
        // Both databases read the same number of files with many deletions, and search the level
        // below for each.
        assert!(many.flush.before < 2 * few.flush.before, "{few:?} {many:?}");
        // A search costs the logarithm of the number of files.
        for looks in [many.flush.under_mutex, many.compaction.under_mutex, many.switch_under_mutex] {
            assert!(looks < 50, "{many:?}");
        }
        assert!(many.pick_under_mutex < 500, "{many:?}");
        // A compaction rebuilds two levels.
        assert!(many.compaction.before < 50 * 11_000, "{many:?}");
    }
}

/// Each new version walks over all files while one of them is marked. So no mark may stay.
#[test]
fn gets_mark_no_table_that_no_compaction_could_take() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.read_triggered_compaction_threshold = 0.001;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let write = || {
        ["a", "z"].iter().for_each(|key| db.put(key, "value").unwrap());
        db.flush().unwrap();
    };
    let get_often = || (0..12_000).for_each(|_| assert_eq!(db.get("m").unwrap(), None));
    let marked = || db.engine().state.lock().family_mut(FAMILY).unwrap().suggested.len();
    let level0 = || db.property("rocksdb.num-files-at-level0").unwrap();
    write();
    db.compact_range(None, None).unwrap();
    get_often();
    assert_eq!(marked(), 0, "a table of the last level");

    db.set_options(&family, &[("disable_auto_compactions", "true")]).unwrap();
    write();
    get_often();
    assert_eq!((marked(), level0().as_str()), (0, "1"), "without automatic compactions");
    db.set_options(&family, &[("disable_auto_compactions", "false")]).unwrap();
    get_often();
    db.wait_for_background_work().unwrap();
    assert_eq!((marked(), level0().as_str()), (0, "0"));
    db.close().unwrap();
}

/// An entry hides nothing yet if its sequence number is newer than that of every reader, present or
/// next.
#[test]
fn the_oldest_reader_is_a_live_snapshot_or_the_next_to_come() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", "value").unwrap();
    assert_eq!(db.engine().oldest_reader(), SequenceNumber(1));
    let snapshot = db.snapshot();
    db.put("key", "value").unwrap();
    assert_eq!(db.engine().oldest_reader(), SequenceNumber(1));
    drop(snapshot);
    assert_eq!(db.engine().oldest_reader(), SequenceNumber(2));
    db.close().unwrap();
}

#[test]
fn statistics_of_a_family_are_given_without_a_walk_over_its_files() {
    let db = with_files(10_000, false);
    for name in ["rocksdb.stats", "rocksdb.cfstats", "rocksdb.levelstats"] {
        LOOKS.set(0);
        assert!(db.property(name).is_some_and(|text| text.contains("6")), "{name}");
        assert!(LOOKS.get() < 50, "{name}: {}", LOOKS.get());
    }
    LOOKS.set(0);
    assert!(db.map_property("rocksdb.cfstats").is_some());
    assert!(LOOKS.get() < 50, "{}", LOOKS.get());
}

/// A database with `count` families besides the default one.
fn with_families(count: usize) -> Db {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    let db = Db::open(&options, "/db").unwrap();
    let descriptor = |n| crate::ColumnFamilyDescriptor::new(format!("f{n}"), options.cf.clone());
    db.create_column_families((0..count).map(descriptor).collect::<Vec<_>>()).unwrap();
    db
}

#[test]
fn writes_and_new_super_versions_walk_over_no_other_families_and_flushes_rarely() {
    const FAMILIES: u64 = 300;
    let db = with_families(FAMILIES as usize - 1);
    let engine = db.engine();
    let walked = |work: &dyn Fn()| {
        let before = engine.state.lock().families.walked();
        work();
        engine.state.lock().families.walked() - before
    };
    let puts = walked(&|| (0..100).for_each(|i| db.put(format!("{i}"), "value").unwrap()));
    let shown = walked(&|| publish_super_version(engine, &mut engine.state.lock(), FAMILY));
    let snapshots = walked(&|| drop(db.snapshot()));
    assert_eq!((puts, shown, snapshots), (0, 0, 0));
    // A switch and a flush compute from all families which WALs are needed. They may do no other
    // work for all families.
    let flush = walked(&|| db.flush().unwrap());
    assert!(flush <= 16 * FAMILIES, "a flush looks {flush} times at one of {FAMILIES} families");
    db.close().unwrap();
}
