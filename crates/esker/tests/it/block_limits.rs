//! Blocks have at most 4 GiB, as their offsets have 32 bits. A probe lowers the limit, so that
//! little data is enough.
#![cfg(debug_assertions)]

use esker::internals::base::probe::Probes;
use esker::options::{CompactRangeOptions, CompressionType};
use esker::{ColumnFamilyDescriptor, ColumnFamilyHandle, Db, ErrorKind, FlushOptions, Options, WriteBatch};
use esker_testkit::TempDir;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The family with the limit; other tests run at the same time.
const FAMILY: &str = "limited";

/// Limits index blocks and blocks of range deletions of the family to `bytes` bytes.
struct Limit {
    _probes: Probes,
    bytes: Arc<AtomicUsize>,
}

/// A database with the limited family.
struct Limited {
    db: Db,
    family: ColumnFamilyHandle,
}

impl Limit {
    fn new(bytes: usize) -> Limit {
        let limit = Arc::new(AtomicUsize::new(bytes));
        let (probes, shared) = (Probes::new(), limit.clone());
        probes.on("table:max_block_bytes", move |value| {
            let (family, bytes) = value.downcast_mut::<(String, usize)>().unwrap();
            if family == FAMILY {
                *bytes = shared.load(Ordering::SeqCst);
            }
        });
        Limit { _probes: probes, bytes: limit }
    }

    fn lift(&self) {
        self.bytes.store(u32::MAX as usize, Ordering::SeqCst);
    }
}

fn open(dir: &TempDir) -> Limited {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.cf.compression = CompressionType::None;
    options.cf.disable_auto_compactions = true;
    options.cf.table.block_size = 256;
    let families = ["default", FAMILY].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let db = Db::open_cf(&options.db, dir.path(), families).unwrap();
    Limited { family: db.column_family(FAMILY).unwrap(), db }
}

impl Limited {
    fn put_keys(&self) {
        for i in 0..2000 {
            self.db.put_cf(&self.family, format!("{i:05}"), [b'v'; 100]).unwrap();
        }
    }

    fn flush(&self) -> esker::Result<()> {
        self.db.flush_opt(&FlushOptions::default(), &[&self.family])
    }

    fn count(&self) -> usize {
        let mut iter = self.db.iter_cf(&self.family).unwrap();
        iter.seek_to_first();
        let mut count = 0;
        while iter.valid() {
            count += 1;
            iter.next();
        }
        iter.status().unwrap();
        count
    }
}

#[test]
fn a_compaction_ends_a_file_before_its_index_exceeds_a_block() {
    let limit = Limit::new(usize::MAX);
    let dir = TempDir::new("index-limit");
    let limited = open(&dir);
    for _ in 0..2 {
        limited.put_keys();
        limited.flush().unwrap();
    }
    limit.bytes.store(16 << 10, Ordering::SeqCst);
    limited.db.compact_range_opt(&CompactRangeOptions::default(), &limited.family, None, None).unwrap();
    let files = limited.db.live_files();
    assert!(files.len() > 2, "{} files", files.len());
    assert_eq!(limited.count(), 2000);
    limited.db.verify_checksum().unwrap();
}

#[test]
fn a_flush_that_needs_too_large_an_index_names_the_table_and_loses_nothing() {
    let limit = Limit::new(4 << 10);
    let dir = TempDir::new("flush-limit");
    let limited = open(&dir);
    limited.put_keys();
    let error = limited.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    assert!(error.message().contains(".sst: its block of the index"), "{error}");
    assert_eq!(limited.count(), 2000);
    limited.db.put_cf(&limited.family, "refused", "value").unwrap_err();
    limit.lift();
    limited.db.resume().unwrap();
    limited.db.put_cf(&limited.family, "later", "value").unwrap();
    assert_eq!(limited.count(), 2001);
    limited.db.close().unwrap();
    drop(limited);
    assert_eq!(open(&dir).count(), 2001);
}

#[test]
fn range_deletions_beyond_a_block_are_an_error_that_resume_lifts() {
    let limit = Limit::new(4 << 10);
    let dir = TempDir::new("range-limit");
    let limited = open(&dir);
    limited.put_keys();
    for i in 0..500 {
        let (begin, end) = (format!("{:05}", 2 * i), format!("{:05}", 2 * i + 1));
        let mut batch = WriteBatch::new();
        batch.delete_range_cf(limited.family.id(), begin.as_bytes(), end.as_bytes()).unwrap();
        limited.db.write(&mut batch).unwrap();
    }
    let error = limited.flush().unwrap_err();
    assert!(error.message().contains(".sst: its block of range deletions"), "{error}");
    limit.lift();
    limited.db.resume().unwrap();
    assert_eq!(limited.count(), 1500);
    limited.db.close().unwrap();
    drop(limited);
    assert_eq!(open(&dir).count(), 1500);
}
