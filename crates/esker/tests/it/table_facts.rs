//! Facts about tables, versions of keys, and all families together.

use esker::internals::env::MockClock;
use esker::internals::env::mem::MemFs;
use esker::options::{BottommostLevelCompaction, CompressionType, TargetVersion};
use esker::{
    CompactRangeOptions, Db, Env, ErrorKind, MemoryUsageType, Options, SstFileReader, SstFileWriter,
    WaitForCompactOptions, WriteBatch, WriteOptions, approximate_memory_usage_by_type, comparator,
    unique_id_to_human_string,
};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Seconds of the clock at the start.
const START: u64 = 1_000_000;

fn options() -> (Options, Arc<MockClock>) {
    let clock = Arc::new(MockClock::new(START * 1_000_000));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::new(Arc::new(MemFs::new()), clock.clone());
    options.cf.disable_auto_compactions = true;
    (options, clock)
}

/// A database with tables of "a", of "m" and of "a" to "z", the second in the last level.
fn three_tables() -> (Db, Arc<MockClock>) {
    let (options, clock) = options();
    let db = Db::open(&options, "/db").unwrap();
    for (keys, compacts) in [(&["m"][..], true), (&["a"], false), (&["a", "z"], false)] {
        clock.advance(Duration::from_secs(10));
        keys.iter().for_each(|key| db.put(key, "value").unwrap());
        db.flush().unwrap();
        if compacts {
            db.compact_range(None, None).unwrap();
        }
    }
    (db, clock)
}

#[test]
fn properties_come_from_all_tables_a_range_or_level_by_level() {
    let (db, _) = three_tables();
    let family = db.default_column_family();
    let live: BTreeSet<PathBuf> =
        db.live_files().iter().map(|file| file.directory.join(&file.relative_filename)).collect();
    let all = db.properties_of_all_tables(&family).unwrap();
    assert_eq!(all.keys().cloned().collect::<BTreeSet<_>>(), live);
    assert_eq!(all.values().map(|properties| properties.num_entries).sum::<u64>(), 4);
    let ids: BTreeSet<String> =
        all.values().map(|properties| unique_id_to_human_string(&properties.unique_id().unwrap())).collect();
    assert_eq!((ids.len(), ids.first().unwrap().len()), (3, 33));

    let levels = db.properties_of_tables_by_level(&family).unwrap();
    let counts: Vec<usize> = levels.iter().map(|level| level.len()).collect();
    assert_eq!(counts, [2, 0, 0, 0, 0, 0, 1]);
    assert!(levels.into_iter().flatten().all(|(path, properties)| all[&path] == properties));

    let within = |ranges: &[(&[u8], &[u8])]| db.properties_of_tables_in_range(&family, ranges).unwrap().len();
    assert_eq!(within(&[(b"b", b"c")]), 1, "only the table from a to z");
    assert_eq!(within(&[(b"m", b"m")]), 2, "both ends count");
    assert_eq!(within(&[(b"a", b"a"), (b"m", b"n")]), 3);
    assert_eq!(within(&[]), 0);
}

#[test]
fn the_oldest_file_is_found_among_all_families() {
    let (db, clock) = three_tables();
    assert_eq!(db.creation_time_of_oldest_file().unwrap(), START + 10);
    let other = db.create_column_family("other", &Default::default()).unwrap();
    clock.advance(Duration::from_secs(10));
    db.put_cf(&other, "k", "v").unwrap();
    db.flush_opt(&Default::default(), &[&other]).unwrap();
    db.compact_range(None, None).unwrap();
    assert!(db.creation_time_of_oldest_file().unwrap() > START + 10);
    let all = db.all_column_family_metadata();
    let names: Vec<_> = all.iter().map(|family| (family.name.as_str(), family.file_count)).collect();
    assert_eq!(names, [("default", 1), ("other", 1)]);
}

#[test]
fn every_stored_version_of_a_range_is_shown() {
    let (options, _) = options();
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let mut snapshots = Vec::new();
    for value in ["1", "2"] {
        for key in ["a", "b", "c"] {
            db.put(key, value).unwrap();
        }
        snapshots.push(db.snapshot());
        db.flush().unwrap();
    }
    db.single_delete("b").unwrap();
    let shown = |begin: Option<&[u8]>, end: Option<&[u8]>, most| -> Vec<String> {
        let versions = db.all_key_versions(&family, begin, end, most).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let one = |v: &esker::observe::KeyVersion| {
            format!("{}{} {} {}", text(&v.user_key), text(&v.value), v.sequence.0, v.type_name())
        };
        versions.iter().map(one).collect()
    };
    let of_b = ["b 7 TypeSingleDeletion", "b2 5 TypeValue", "b1 2 TypeValue"];
    assert_eq!(shown(Some(b"b"), Some(b"b"), usize::MAX), of_b);
    assert_eq!(shown(None, None, usize::MAX).len(), 7);
    assert_eq!(shown(Some(b"b"), None, 3), of_b);
    assert_eq!(shown(None, Some(b"a"), usize::MAX).len(), 2);
}

#[test]
fn the_newest_timestamp_of_memtables_and_then_of_tables_is_told() {
    let (mut options, _) = options();
    options.db.compatible_with = TargetVersion::V8;
    options.cf.comparator = comparator::by_name("leveldb.BytewiseComparator.u64ts").unwrap();
    options.cf.persist_user_defined_timestamps = false;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let newest = || db.newest_user_defined_timestamp(&family).unwrap();
    assert!(newest().is_empty());
    for time in [5_u64, 300, 7] {
        db.put_with_ts(&WriteOptions::default(), &family, format!("k{time}"), &time.to_le_bytes(), "v")
            .unwrap();
    }
    assert_eq!(newest(), 300_u64.to_le_bytes());
    db.flush().unwrap();
    assert_eq!(newest(), 300_u64.to_le_bytes(), "full_history_ts_low is 301");
    options.cf.persist_user_defined_timestamps = true;
    let refused = |options: &Options, dir: &str| {
        let db = Db::open(options, dir).unwrap();
        db.newest_user_defined_timestamp(&db.default_column_family()).unwrap_err().kind()
    };
    assert_eq!(refused(&options, "/persisted"), ErrorKind::NotSupported);
    options.cf.comparator = comparator::by_name("leveldb.BytewiseComparator").unwrap();
    assert_eq!(refused(&options, "/plain"), ErrorKind::InvalidArgument);
}

#[test]
fn times_of_writes_come_from_memtables_tables_and_timed_values() {
    let (mut options, clock) = options();
    options.db.compatible_with = TargetVersion::V9;
    options.cf.preserve_internal_time_seconds = 1000;
    let db = Db::open(&options, "/db").unwrap();
    // The flush may have forgotten times from before the last 1000 seconds.
    let timed = START - 100;
    let mut batch = WriteBatch::new();
    batch.put("plain", "v").unwrap();
    batch.timed_put("timed", "v", timed).unwrap();
    db.write(&mut batch).unwrap();
    let times = |db: &Db| -> Vec<u64> {
        let mut iter = db.iter().unwrap();
        iter.seek_to_first();
        let mut times = Vec::new();
        while iter.valid() {
            times.push(iter.write_unix_time().unwrap());
            iter.next();
        }
        assert_eq!(iter.write_unix_time().unwrap_err().kind(), ErrorKind::InvalidArgument);
        times
    };
    assert_eq!(times(&db), [START, timed]);
    clock.advance(Duration::from_secs(600));
    db.flush().unwrap();
    let in_table = times(&db);
    // A table has a hundred times of the period at most.
    assert!((START - 30..=START).contains(&in_table[0]), "{} is not {START}", in_table[0]);
    assert!((timed - 30..=timed).contains(&in_table[1]), "{} is not {timed}", in_table[1]);
    // Nothing needs the numbers any more.
    clock.advance(Duration::from_secs(5000));
    let force = CompactRangeOptions::default().bottommost_level_compaction(BottommostLevelCompaction::Force);
    db.compact_range_opt(&force, &db.default_column_family(), None, None).unwrap();
    assert_eq!(times(&db), [0, 0]);
    let plain = db.create_column_family("plain", &Default::default()).unwrap();
    db.put_cf(&plain, "k", "v").unwrap();
    db.flush_opt(&Default::default(), &[&plain]).unwrap();
    let mut iter = db.iter_cf(&plain).unwrap();
    iter.seek_to_first();
    assert_eq!(iter.write_unix_time().unwrap(), u64::MAX);
}

#[test]
fn sums_are_those_of_all_families_and_shared_caches_count_once() {
    let (db, _) = three_tables();
    let table = db.options_cf(&db.default_column_family()).table;
    let cache = table.block_cache.clone().unwrap();
    let shares = esker::ColumnFamilyOptions { table, ..Default::default() };
    let other = db.create_column_family("other", &shares).unwrap();
    db.put_cf(&other, "k", "v").unwrap();
    let sum = |name: &str| db.aggregated_int_property(name);
    let of_default = db.int_property("rocksdb.estimate-num-keys").unwrap();
    assert_eq!(sum("rocksdb.estimate-num-keys"), Some(of_default + 1));
    assert_eq!(sum("rocksdb.block-cache-capacity"), Some(cache.capacity() as u64));
    assert_eq!((sum("rocksdb.stats"), sum("rocksdb.nonsense")), (None, None));
    let usage = approximate_memory_usage_by_type(&[&db], &[&cache, &cache]);
    assert_eq!(usage[&MemoryUsageType::CacheTotal], cache.usage() as u64);
    assert_eq!(usage[&MemoryUsageType::MemTableTotal], sum("rocksdb.size-all-mem-tables").unwrap());
    assert_eq!(usage.len(), 4);
}

#[test]
fn a_sum_beyond_64_bits_is_the_largest_number() {
    let (db, _) = three_tables();
    db.create_column_family("other", &Default::default()).unwrap();
    // Without a job no table is obsolete.
    let least = "rocksdb.min-obsolete-sst-number-to-keep";
    assert_eq!(db.int_property(least), Some(u64::MAX));
    assert_eq!(db.aggregated_int_property(least), Some(u64::MAX));
}

#[test]
fn a_reset_of_statistics_begins_their_text_again() {
    let (db, clock) = three_tables();
    let written = |db: &Db| {
        let writes = db.map_property("rocksdb.dbstats").unwrap();
        let compactions = db.map_property("rocksdb.cfstats").unwrap();
        (writes["db.user_keys_written"].clone(), compactions["compaction.Sum.CompCount"].clone())
    };
    let (keys, jobs) = written(&db);
    assert_eq!(keys, "4");
    assert_ne!(jobs.trim_start_matches(['0', '.']), "");
    db.reset_stats().unwrap();
    let (keys, jobs) = written(&db);
    assert_eq!(keys, "0");
    assert_eq!(jobs.trim_start_matches(['0', '.']), "");
    clock.advance(Duration::from_secs(1));
    db.put("next", "value").unwrap();
    assert_eq!(written(&db).0, "1");
}

/// As RocksDB's `rocksdb.cf-file-histogram`, which the other texts end with.
#[test]
fn times_of_reads_are_told_by_level() {
    let (mut options, _) = options();
    options.db.statistics = Some(Arc::new(esker::stats::Statistics::new()));
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 1000;
    let db = Db::open(&options, "/db").unwrap();
    let told = || db.property("rocksdb.cf-file-histogram").unwrap();
    let title = "\n** File Read Latency Histogram By Level [default] **\n";
    assert_eq!(told(), title);
    for value in ["v", "w"] {
        db.put("k", value.repeat(2000)).unwrap();
        db.flush().unwrap();
    }
    db.compact_range(None, None).unwrap();
    db.put("l", "v").unwrap();
    db.flush().unwrap();
    assert!(db.get("k").unwrap().is_some() && db.get("l").unwrap().is_some());
    let text = told();
    for what in ["Level 0", "Level 6", "Blob file"] {
        let (_, behind) = text.split_once(&format!("** {what} read latency histogram (micros):\n")).unwrap();
        assert!(behind.starts_with("Count: ") && !behind.starts_with("Count: 0 "), "{text}");
    }
    assert!(!text.contains("Level 1"), "{text}");
    let has_it = |name: &str| db.property(name).unwrap().contains(title);
    assert!(has_it("rocksdb.stats") && has_it("rocksdb.cfstats"));
    assert!(!has_it("rocksdb.cfstats-no-file-histogram"));
    db.reset_stats().unwrap();
    assert_eq!(told(), title);
}

#[test]
fn automatic_compactions_begin_once_they_are_enabled() {
    let (mut options, _) = options();
    options.cf.level0_file_num_compaction_trigger = 2;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    for _ in 0..4 {
        db.put("k", "v").unwrap();
        db.flush().unwrap();
    }
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    assert_eq!(db.column_family_metadata(&family).levels[0].files.len(), 4);
    db.enable_auto_compaction(&[&family]).unwrap();
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    assert!(db.column_family_metadata(&family).levels[0].files.len() < 2);
}

#[test]
fn logs_are_listed_wherever_they_are() {
    for dir in [None, Some(PathBuf::from("/logs"))] {
        let (mut options, clock) = options();
        options.db.db_log_dir.clone_from(&dir);
        if dir.is_some() {
            options.db.env.fs.create_dir_if_missing(std::path::Path::new("/logs")).unwrap();
        }
        drop(Db::open(&options, "/db").unwrap());
        clock.advance(Duration::from_secs(1));
        let db = Db::open(&options, "/db").unwrap();
        let names = db.info_log_list().unwrap();
        assert_eq!(names.len(), 2, "{names:?}");
        let present = if dir.is_none() { "LOG" } else { "db_LOG" };
        assert!(names[0] == present && names[1].starts_with(&format!("{present}.old.")), "{names:?}");
    }
}

#[test]
fn a_table_of_a_new_format_counts_the_blocks_that_are_not_compressed() {
    let (mut options, _) = options();
    options.db.compatible_with = TargetVersion::V11;
    // One entry a block, so that equal values do not make a block shrink.
    options.cf.table.block_size = 256;
    let mut rng = fastrand::Rng::with_seed(7);
    let random: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(500).collect();
    let text = b"text ".repeat(100);
    for (codec, value, format_version) in [
        (CompressionType::None, &text, 7),
        (CompressionType::Lz4, &text, 7),
        (CompressionType::Lz4, &random, 7),
        (CompressionType::Lz4, &random, 6),
    ] {
        options.cf.compression = codec;
        options.cf.table.format_version = format_version;
        let mut writer = SstFileWriter::new(&options);
        writer.open("/table").unwrap();
        (0..20).try_for_each(|i| writer.put(format!("key{i:02}"), [value, &[i][..]].concat())).unwrap();
        writer.finish().unwrap();
        let reader = SstFileReader::open(&options, "/table").unwrap();
        let p = reader.table_properties();
        assert!(p.num_data_blocks > 5);
        let expected = match (codec, format_version) {
            (CompressionType::None, _) => (0, p.num_data_blocks),
            (_, 7) if value == &random => (p.num_data_blocks, 0),
            _ => (0, 0),
        };
        let counts = (p.num_data_blocks_compression_rejected, p.num_data_blocks_compression_bypassed);
        assert_eq!(counts, expected, "{codec:?} {format_version}");
        assert_eq!(p.num_uniform_blocks, 0);
    }
}
