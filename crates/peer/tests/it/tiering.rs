//! Each engine, Esker or RocksDB 11.8.1, uses the records of the other: times of sequence numbers,
//! timed values, and temperatures of files.

use esker::options::{CompactionStyle, TargetVersion, cf_options_from_string};
use esker::{CompactRangeOptions, Db, Options, ReadOptions, WriteBatch};
use esker_peer::{Contents, FamilySpec, PeerOp, RocksDb, WriteFlags, require};
use esker_testkit::TempDir;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Entries of each age.
const ENTRIES: u32 = 50;
/// The value of `preclude_last_level_data_seconds`.
const YOUNG: u64 = 10;

fn esker(dir: &Path, style: CompactionStyle) -> Db {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.compaction_style = style;
    options.cf.disable_auto_compactions = true;
    options.cf.preclude_last_level_data_seconds = YOUNG;
    Db::open(&options, dir).expect("opens")
}

fn rocksdb(dir: &Path, style: CompactionStyle) -> RocksDb {
    let style = if style == CompactionStyle::Level { "Level" } else { "Universal" };
    let text = format!(
        "disable_auto_compactions=true;preclude_last_level_data_seconds={YOUNG};\
         compaction_style=kCompactionStyle{style};block_based_table_factory={{format_version=5}}"
    );
    RocksDb::open(dir, "create_if_missing=true", &[FamilySpec::new("default", text)]).expect("opens")
}

fn ops(first: u32) -> Vec<PeerOp> {
    let op = |i: u32| PeerOp::Put {
        family: "default".to_owned(),
        key: format!("key{i:04}").into_bytes(),
        value: vec![b'v'; 20],
    };
    (first..first + ENTRIES).map(op).collect()
}

/// Compacts everything, and returns the number of entries above the last level and in it.
fn placed_by(engine: &str, dir: &Path, style: CompactionStyle) -> [u64; 2] {
    if engine == "esker" {
        let db = esker(dir, style);
        db.compact_range_opt(&CompactRangeOptions::default(), &db.default_column_family(), None, None)
            .expect("compacts");
        db.close().expect("closes");
    } else {
        let db = rocksdb(dir, style);
        db.compact("default");
    }
    let db = esker(dir, style);
    let at = |level| db.live_files().iter().filter(|f| f.level == level).map(|f| f.num_entries).sum();
    let contents = Contents::of(&db, &db.default_column_family(), &ReadOptions::default()).expect("read");
    assert_eq!(contents.0.len(), 2 * ENTRIES as usize);
    let placed = [at(5), at(6)];
    db.close().expect("closes");
    drop(db);
    rocksdb(dir, style).contents("default", None).expect("read").assert_same(&contents, "RocksDB");
    placed
}

#[test]
fn either_engine_uses_the_times_that_the_other_recorded() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let styles = [CompactionStyle::Universal, CompactionStyle::Level];
    let scenes = styles.iter().flat_map(|style| [("esker", *style), ("rocksdb", *style)]);
    let scenes: Vec<_> = scenes
        .flat_map(|(writer, style)| [(writer, "esker", style), (writer, "rocksdb", style)])
        .map(|scene| (scene, TempDir::new("tiering")))
        .collect();
    // During the sleep, each engine's timer samples the newest sequence number with its time.
    let write = |first: u32| {
        let open: Vec<_> = scenes
            .iter()
            .map(|((writer, _, style), dir)| match *writer {
                "esker" => (Some(esker(dir.path(), *style)), None),
                _ => (None, Some(rocksdb(dir.path(), *style))),
            })
            .collect();
        for (esker, rocksdb) in &open {
            if let Some(db) = esker {
                esker_peer::model_ops::write_to_esker(db, &ops(first), &esker::WriteOptions::default())
                    .unwrap();
            }
            if let Some(db) = rocksdb {
                db.write(&ops(first), WriteFlags::default()).unwrap();
            }
        }
        thread::sleep(Duration::from_millis(2500));
        for (esker, rocksdb) in &open {
            esker.iter().for_each(|db| db.flush().unwrap());
            rocksdb.iter().for_each(|db| db.flush("default").unwrap());
        }
    };
    write(0);
    thread::sleep(Duration::from_secs(YOUNG));
    write(ENTRIES);
    for ((writer, compactor, style), dir) in &scenes {
        let placed = placed_by(compactor, dir.path(), *style);
        // The first sequence number that may be young counts as old, so its entry goes down, too.
        assert_eq!(placed, [49, 51], "{writer} wrote, {compactor} compacted, {style:?}");
    }
}

/// RocksDB reads Esker's timed values in a WAL and in tables.
#[test]
fn rocksdb_reads_timed_values_that_esker_wrote() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let dir = TempDir::new("timed-put");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.compatible_with = TargetVersion::V11;
    options.cf.compaction_style = CompactionStyle::Universal;
    options.cf.preclude_last_level_data_seconds = 10_000;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for round in 0..2_u64 {
        let db = Db::open(&options, dir.path()).unwrap();
        for i in 0..100_u64 {
            let mut batch = WriteBatch::new();
            batch.timed_put(format!("key{i:03}"), format!("{round} {i}"), now - i * 200).unwrap();
            db.write(batch).unwrap();
        }
        let contents = Contents::of(&db, &db.default_column_family(), &ReadOptions::default()).unwrap();
        assert_eq!(contents.0.len(), 100);
        if round == 1 {
            db.flush().unwrap();
        }
        db.close().unwrap();
        let theirs = rocksdb(dir.path(), CompactionStyle::Universal);
        theirs.contents("default", None).unwrap().assert_same(&contents, "RocksDB");
        theirs.compact("default");
        theirs.contents("default", None).unwrap().assert_same(&contents, "RocksDB, compacted");
        drop(theirs);
        let db = Db::open(&options, dir.path()).unwrap();
        let again = Contents::of(&db, &db.default_column_family(), &ReadOptions::default()).unwrap();
        again.assert_same(&contents, "Esker");
        db.close().unwrap();
    }
}

/// FIFO compactions of both engines give an old file the same temperature. Either engine reads the
/// temperature that the other gave.
#[test]
fn either_engine_gives_old_files_their_temperature() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let of_fifo = "compaction_options_fifo={file_temperature_age_thresholds=\
                   {{temperature=kWarm;age=1}:{temperature=kCold;age=10000}}}";
    let write = |db: &Db, first: u32| {
        esker_peer::model_ops::write_to_esker(db, &ops(first), &esker::WriteOptions::default()).unwrap();
        db.flush().unwrap();
    };
    let open_rocksdb = |dir: &Path| {
        let text = format!(
            "compaction_style=kCompactionStyleFIFO;num_levels=1;{of_fifo};\
             block_based_table_factory={{format_version=5}}"
        );
        RocksDb::open(dir, "create_if_missing=true", &[FamilySpec::new("default", text)]).expect("opens")
    };
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.compaction_style = CompactionStyle::Fifo;
    options.cf.num_levels = 1;
    let plain = options.clone();
    options.cf = cf_options_from_string(&options.cf, of_fifo).unwrap();
    for changer in ["esker", "rocksdb"] {
        let dir = TempDir::new("fifo-temperature");
        let db = Db::open(&plain, dir.path()).unwrap();
        write(&db, 0);
        thread::sleep(Duration::from_millis(2100));
        write(&db, ENTRIES);
        let contents = Contents::of(&db, &db.default_column_family(), &ReadOptions::default()).unwrap();
        db.close().unwrap();
        drop(db);
        let warm = "rocksdb.live-sst-files-size-at-temperature8";
        let is_warm = |size: Option<String>| size.unwrap().parse::<u64>().unwrap() > 0;
        let in_time = || (0..100).inspect(|_| thread::sleep(Duration::from_millis(100)));
        if changer == "esker" {
            let db = Db::open(&options, dir.path()).unwrap();
            assert!(in_time().any(|_| is_warm(db.property(warm))), "Esker changes the temperature");
            db.close().unwrap();
        } else {
            let db = open_rocksdb(dir.path());
            assert!(in_time().any(|_| is_warm(db.property("default", warm))), "RocksDB changes it");
        }
        let db = Db::open(&plain, dir.path()).unwrap();
        assert!(is_warm(db.property(warm)), "Esker reads the temperature that {changer} gave");
        db.close().unwrap();
        drop(db);
        let theirs = open_rocksdb(dir.path());
        assert!(is_warm(theirs.property("default", warm)), "RocksDB reads what {changer} gave");
        theirs.contents("default", None).unwrap().assert_same(&contents, "RocksDB");
    }
}
