//! Options of LevelDB, converted.

use esker::internals::env::mem::MemFs;
use esker::options::{
    BlockCache, CacheOptions, CompressionType, FilterPolicy, InfoLog, InfoLogLevel, LevelDbOptions,
    convert_options, print_options,
};
use esker::{Db, Env, ErrorKind, Options, comparator};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

struct Silent;

impl InfoLog for Silent {
    fn log(&self, _level: InfoLogLevel, _args: fmt::Arguments<'_>) {}
    fn level(&self) -> InfoLogLevel {
        InfoLogLevel::Fatal
    }
}

/// The lines of the options' text form that the defaults do not have.
fn changed(options: &Options) -> BTreeSet<String> {
    let text = |options: &Options| {
        let text = print_options(&options.db, [("default", &options.cf)]);
        text.lines().map(|line| line.trim().to_owned()).collect::<BTreeSet<_>>()
    };
    text(options).difference(&text(&Options::default())).cloned().collect()
}

#[test]
fn leveldbs_defaults_change_these_options_only() {
    // The arena's blocks follow from the write buffer.
    let expected = [
        "arena_block_size=524288",
        "compression=kSnappyCompression",
        "max_open_files=1000",
        "paranoid_checks=false",
        "write_buffer_size=4194304",
    ];
    assert_eq!(changed(&convert_options(&LevelDbOptions::default())), expected.map(String::from).into());
}

#[test]
fn every_option_of_leveldb_arrives_under_its_name() {
    let cache = Arc::new(BlockCache::new(&CacheOptions::with_capacity(1 << 20)).unwrap());
    let fs = Arc::new(MemFs::new());
    let leveldb = LevelDbOptions::default()
        .comparator(Arc::new(comparator::ReverseBytewiseComparator))
        .create_if_missing(true)
        .error_if_exists(true)
        .paranoid_checks(true)
        .env(Env::with_fs(fs.clone()))
        .info_log(Arc::new(Silent) as Arc<dyn InfoLog>)
        .write_buffer_size(1 << 20)
        .max_open_files(77)
        .block_cache(cache.clone())
        .block_size(1024)
        .block_restart_interval(3)
        .compression(CompressionType::None)
        .filter_policy(FilterPolicy::bloom(10.0));
    let options = convert_options(&leveldb);
    assert!(options.db.create_if_missing && options.db.error_if_exists && options.db.paranoid_checks);
    assert!(options.db.info_log.is_some());
    assert_eq!(options.cf.table.block_cache.as_ref().map(Arc::as_ptr), Some(Arc::as_ptr(&cache)));
    let expected = [
        "arena_block_size=131072",
        "block_restart_interval=3",
        "block_size=1024",
        "comparator=rocksdb.ReverseBytewiseComparator",
        "compression=kNoCompression",
        "filter_policy=bloomfilter:10:false",
        "max_open_files=77",
        "write_buffer_size=1048576",
    ];
    assert_eq!(changed(&options), expected.map(String::from).into());

    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "1").unwrap();
    db.put("b", "2").unwrap();
    let keys: Vec<Vec<u8>> = db.range(..).map(|entry| entry.unwrap().0.to_vec()).collect();
    assert_eq!(keys, [b"b", b"a"], "the comparator of LevelDB's options orders the keys");
    drop(db);
    assert_eq!(Db::open(&options, "/db").unwrap_err().kind(), ErrorKind::InvalidArgument);
}
