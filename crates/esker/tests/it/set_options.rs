//! Changed options are in force and on disk, and an invalid change is refused as a whole.

use esker::internals::cache::{Cache, CacheOptions, Role};
use esker::internals::env::mem::MemFs;
use esker::options::WriteBufferManager;
use esker::{Db, Env, Options, WriteOptions};
use std::path::Path;
use std::sync::Arc;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options
}

#[test]
fn changed_options_steer_what_the_engine_does_next() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    let cf = db.default_column_family();
    db.set_options(&cf, &[("disable_auto_compactions", "true"), ("write_buffer_size", "64K")]).unwrap();
    assert_eq!(db.options_cf(&cf).write_buffer_size, 64 << 10);
    for i in 0..6000 {
        db.put(format!("key{:05}", i % 1000), vec![b'v'; 100]).unwrap();
    }
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    let level0 = || {
        db.int_property("rocksdb.num-files-at-level0")
            .or_else(|| db.property("rocksdb.num-files-at-level0")?.parse().ok())
    };
    assert!(level0().unwrap() > 4, "many small flushes make no compaction: {:?}", level0());
    db.set_options(&cf, &[("disable_auto_compactions", "false"), ("compression", "kNoCompression")]).unwrap();
    db.wait_for_background_work().unwrap();
    assert!(level0().unwrap() < 4, "the compaction begins as soon as it is allowed: {:?}", level0());

    let loaded =
        esker::options::load_latest_options_from(options.db.env.fs.as_ref(), Path::new("/db")).unwrap();
    assert_eq!(loaded.families[0].1.write_buffer_size, 64 << 10);
}

#[test]
fn a_wrong_option_changes_nothing_and_is_named() {
    let db = Db::open(&options(), "/db").unwrap();
    let cf = db.default_column_family();
    let error = db.set_options(&cf, &[("write_buffer_size", "1M"), ("num_levels", "3")]).unwrap_err();
    assert!(error.to_string().contains("num_levels"), "{error}");
    assert_eq!(db.options_cf(&cf).write_buffer_size, 64 << 20);
    assert!(db.set_options(&cf, &[]).is_err());
    let error = db.set_db_options(&[("wal_dir", "/x")]).unwrap_err();
    assert!(error.to_string().contains("wal_dir"), "{error}");
}

#[test]
fn database_options_change_too() {
    let db = Db::open(&options(), "/db").unwrap();
    db.set_db_options(&[
        ("max_background_jobs", "8"),
        ("max_open_files", "100"),
        ("delayed_write_rate", "1M"),
    ])
    .unwrap();
    let now = db.db_options();
    assert_eq!((now.max_background_jobs, now.max_open_files, now.delayed_write_rate), (8, 100, 1 << 20));
    for i in 0..100 {
        db.put(format!("{i}"), "v").unwrap();
    }
    db.flush().unwrap();
    assert_eq!(db.get("7").unwrap().as_deref(), Some(&b"v"[..]));
}

/// Memtables that wait for a common flush may be enough to stop writers under the new options.
#[test]
#[expect(clippy::disallowed_methods, reason = "a writer who waits for ever is left behind")]
fn memtables_that_a_change_makes_due_are_flushed() {
    let mut options = options();
    options.cf.write_buffer_size = 64 << 10;
    options.cf.min_write_buffer_number_to_merge = 4;
    options.cf.max_write_buffer_number = 8;
    let db = Db::open(&options, "/db").unwrap();
    let waiting = || db.int_property("rocksdb.num-immutable-mem-table").unwrap();
    let mut written = 0;
    while waiting() < 2 {
        db.put(format!("key{written}"), [7; 1000]).unwrap();
        written += 1;
    }
    db.set_options(&db.default_column_family(), &[("max_write_buffer_number", "2")]).unwrap();
    let (done, wait_done) = std::sync::mpsc::channel();
    let writer = db.clone();
    std::thread::spawn(move || done.send(writer.put("last", "1")));
    wait_done.recv_timeout(std::time::Duration::from_secs(60)).expect("the writer is not stopped").unwrap();
    assert!(waiting() < 2);
}

/// The MANIFEST does not have the numbers that OPTIONS files took.
#[test]
fn the_newest_options_file_is_that_of_the_last_time_it_was_opened() {
    let mut options = options();
    let db = Db::open(&options, "/db").unwrap();
    for size in ["1M", "2M", "3M", "4M", "5M", "6M", "7M", "8M"] {
        db.set_options(&db.default_column_family(), &[("write_buffer_size", size)]).unwrap();
    }
    db.close().unwrap();
    for size in [16 << 20, 32 << 20] {
        options.cf.write_buffer_size = size;
        let db = Db::open(&options, "/db").unwrap();
        db.close().unwrap();
        let fs = options.db.env.fs.as_ref();
        let loaded = esker::options::load_latest_options_from(fs, Path::new("/db")).unwrap();
        assert_eq!(loaded.families[0].1.write_buffer_size, size);
    }
}

/// The place of a table's index and filter in memory is decided when the table is opened.
#[test]
fn tables_written_after_a_change_of_their_options_are_also_opened_with_it() {
    let mut options = options();
    let cache = Arc::new(Cache::new(&CacheOptions::with_capacity(8 << 20)).unwrap());
    options.cf.table.block_cache = Some(cache.clone());
    let db = Db::open(&options, "/db").unwrap();
    let write = || {
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
        cache.role_stats().entries(Role::IndexBlock)
    };
    assert_eq!(write(), 0);
    let changes = [("block_based_table_factory", "{cache_index_and_filter_blocks=true}")];
    db.set_options(&db.default_column_family(), &changes).unwrap();
    assert!(db.options_cf(&db.default_column_family()).table.cache_index_and_filter_blocks);
    assert_eq!(write(), 1, "the index of the table that was written then is in the cache");
}

/// Huge numbers that mean "never" must not overflow.
#[test]
fn numbers_without_end_do_not_overflow() {
    let mut options = options();
    options.cf.write_buffer_size = 64 << 30;
    options.cf.max_write_buffer_number = 1 << 26;
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", "value").unwrap();
    db.put("key", "value").unwrap();
    let sealed = db.int_property("rocksdb.num-immutable-mem-table").unwrap();
    let flushed = db.property("rocksdb.num-files-at-level0").unwrap();
    assert_eq!((sealed, flushed.as_str()), (0, "0"), "the WAL is not too long");
}

/// RocksDB's `SetBufferSize` ends a stall. Here no flush would end it.
#[test]
#[expect(clippy::disallowed_methods, reason = "a writer who waits for ever is left behind")]
fn writers_that_wait_for_memory_go_on_when_its_limit_is_raised() {
    let mut options = options();
    let manager = Arc::new(WriteBufferManager::new(256 << 10, true));
    options.cf.arena_block_size = 4096;
    options.db.write_buffer_manager = Some(manager.clone());
    let db = Db::open(&options, "/db").unwrap();
    db.pause_background_work();
    let impatient = WriteOptions { no_slowdown: true, ..WriteOptions::default() };
    let mut written = 0_u32;
    let family = db.default_column_family();
    let write = |i: u32| db.put_opt(&impatient, &family, format!("key{i}"), [7; 1000]);
    while write(written).is_ok() {
        written += 1;
        assert!(written < 10_000, "{manager:?}");
    }
    let (done, wait_done) = std::sync::mpsc::channel();
    let writer = db.clone();
    std::thread::spawn(move || done.send(writer.put("last", "1")));
    let early = wait_done.recv_timeout(std::time::Duration::from_millis(300));
    assert!(early.is_err(), "the write waits for memory");
    manager.set_buffer_size(64 << 20);
    wait_done.recv_timeout(std::time::Duration::from_secs(120)).expect("the writer goes on").unwrap();
    db.continue_background_work().unwrap();
}

#[test]
fn tables_name_the_host_that_the_options_give() {
    let mut options = options();
    options.db.db_host_id = "rack 7".to_owned();
    let db = Db::open(&options, "/db").unwrap();
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    let names = options.db.env.fs.children(Path::new("/db")).unwrap();
    let table = names.iter().find(|name| name.ends_with(".sst")).unwrap();
    let reader = esker::SstFileReader::open(&options, Path::new("/db").join(table)).unwrap();
    assert_eq!(reader.table_properties().db_host_id, "rack 7");
}

#[test]
fn values_in_blob_files_are_compressed_as_hard_as_their_option_says() {
    let blob_bytes = |level: i32| {
        let mut options = options();
        options.cf.enable_blob_files = true;
        options.cf.blob_compression_type = esker::options::CompressionType::Zstd;
        options.cf.blob_compression_opts.level = level;
        let db = Db::open(&options, "/db").unwrap();
        let words = (0..60_000u32).map(|n| format!("{} ", n.wrapping_mul(2_654_435_761) % 977));
        db.put("k", words.collect::<String>()).unwrap();
        db.flush().unwrap();
        let fs = &options.db.env.fs;
        let names = fs.children(Path::new("/db")).unwrap();
        let name = names.iter().find(|name| name.ends_with(".blob")).unwrap();
        fs.file_size(&Path::new("/db").join(name)).unwrap()
    };
    assert!(blob_bytes(19) < blob_bytes(1), "{} and {}", blob_bytes(19), blob_bytes(1));
}
