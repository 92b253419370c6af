use crate::Db;
use crate::options::Options;
use esker_env::Env;
use esker_env::mem::MemFs;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

/// Whoever watches a database asks every few seconds, and walks over files and caches meanwhile.
#[test]
#[expect(clippy::disallowed_methods, reason = "who waits for ever is left behind")]
fn what_is_told_of_files_and_caches_does_not_wait_for_the_db_mutex() {
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
        let answer = told.recv_timeout(Duration::from_secs(20)).map_err(|_| format!("{name} waits"));
        assert_eq!(answer.as_ref().map(|(asked, value)| (*asked, value.is_some())), Ok((name, true)));
        if name == "rocksdb.estimate-num-keys" {
            assert_eq!(answer.unwrap().1.as_deref(), Some("2"));
        }
    }
    drop(state);
}
