use crate::Db;
use crate::observe::Property;
use crate::options::Options;
use esker_base::stats::Statistics;
use esker_env::Env;
use esker_env::mem::MemFs;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

/// A monitor queries properties at short intervals, and the answer visits files and caches.
#[test]
#[expect(clippy::disallowed_methods, reason = "a thread that waits for ever is left behind")]
fn properties_of_files_and_caches_do_not_wait_for_the_db_mutex() {
    const NAMES: [&str; 16] = [
        "rocksdb.estimate-num-keys",
        "rocksdb.estimate-live-data-size",
        "rocksdb.estimate-table-readers-mem",
        "rocksdb.live-sst-files-size",
        "rocksdb.block-cache-capacity",
        "rocksdb.block-cache-usage",
        "rocksdb.block-cache-pinned-usage",
        "rocksdb.num-blob-files",
        "rocksdb.live-blob-file-size",
        "rocksdb.live-blob-file-garbage-size",
        "rocksdb.num-files-at-level0",
        "rocksdb.compression-ratio-at-level0",
        "rocksdb.live-sst-files-size-at-temperature0",
        "rocksdb.sstables",
        "rocksdb.blob-stats",
        "rocksdb.block-cache-entry-stats",
    ];
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    let db = Db::open(&options, "/db").unwrap();
    db.put("flushed", "value").unwrap();
    db.flush().unwrap();
    db.put("in memory", "value").unwrap();
    let (tell, told) = mpsc::channel();
    let asking = db.clone();
    let state = db.engine().state.lock();
    std::thread::spawn(move || {
        NAMES.into_iter().for_each(|name| tell.send((name, asking.property(name))).unwrap_or_default());
    });
    for name in NAMES {
        let answer = told.recv_timeout(Duration::from_secs(120)).map_err(|_| format!("{name} waits"));
        assert_eq!(answer.as_ref().map(|(asked, value)| (*asked, value.is_some())), Ok((name, true)));
        if name == "rocksdb.estimate-num-keys" {
            assert_eq!(answer.unwrap().1.as_deref(), Some("2"));
        }
    }
    drop(state);
}

/// RocksDB: `MemTableList::IsFlushPending`.
#[test]
fn a_flush_is_pending_when_enough_memtables_to_merge_wait() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.write_buffer_size = 64 << 10;
    options.cf.max_write_buffer_number = 4;
    options.cf.min_write_buffer_number_to_merge = 2;
    let db = Db::open(&options, "/db").unwrap();
    let number = |name: &str| db.int_property(&format!("rocksdb.{name}")).unwrap();
    let fill_until_waiting = |count| {
        for key in 0_u32.. {
            if number("num-immutable-mem-table") == count {
                break;
            }
            db.put(key.to_string(), vec![0; 4 << 10]).unwrap();
        }
    };
    db.pause_background_work();
    fill_until_waiting(1);
    assert_eq!(number("mem-table-flush-pending"), 0);
    fill_until_waiting(2);
    assert_eq!(number("mem-table-flush-pending"), 1);
    db.continue_background_work().unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!((number("mem-table-flush-pending"), number("num-immutable-mem-table")), (0, 0));
}

/// Properties that have no text in a database with default options.
const ABSENT: [&str; 6] = [
    "rocksdb.blob-cache-capacity",
    "rocksdb.blob-cache-pinned-usage",
    "rocksdb.blob-cache-usage",
    "rocksdb.secondary-cache-capacity",
    "rocksdb.secondary-cache-usage",
    "rocksdb.estimate-oldest-key-time",
];

#[test]
fn every_property_that_is_not_listed_as_absent_has_a_text() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.statistics = Some(Arc::new(Statistics::new()));
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    for property in Property::ALL {
        let name = property.name();
        let text = db.property(name).or_else(|| db.property(&format!("{name}0")));
        assert_eq!(text.is_none(), ABSENT.contains(&name), "{name}: {text:?}");
    }
    let sums = db.property("rocksdb.aggregated-table-properties").unwrap();
    assert!(sums.contains("# entries=1; # deletions=0; ") && sums.ends_with("data size=0; "), "{sums}");
    assert_eq!(db.property("rocksdb.aggregated-table-properties-at-level0").unwrap(), sums);
    assert_eq!(db.property("rocksdb.aggregated-table-properties-at-level99"), None);
    db.abort_all_compactions();
    assert_eq!(db.int_property("rocksdb.compaction-abort-count"), Some(1));
}
