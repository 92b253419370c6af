//! The memory and files that a scan of an hour holds while other threads write, minute by minute.
//!
//! `cargo run --release -p esker-bench --example hour_long_scan -- [minutes]`
//!
//! Each second of the hour has a new super version: a memtable fills and is flushed, and
//! compactions run if they are due. The scan reads at a rate that reaches the end in an hour. One
//! key in twenty is written again and again. The database keeps a version of these keys for the
//! scan, which adds nothing after the first minutes. All files are in memory, so files that are not
//! needed and not deleted count in the process's memory too.
#![expect(clippy::print_stdout, reason = "that is what it is for")]

mod common;

use common::key;
use esker::internals::base::rng::split_mix;
use esker::internals::env::FileSystem;
use esker::internals::env::mem::MemFs;
use esker::options::{BlockCache, CacheOptions, CompressionType};
use esker::{Db, DbIterator, Env, Options, ReadOptions, Result};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

const DB: &str = "/db";
const ROWS_A_SECOND: u64 = 100;
const MEMTABLE_BYTES: usize = 64 << 10;
const WRITES_A_SECOND: u64 = 300;

/// The held memory and files, in KiB; `versions` is a number. Memtables and old files are those
/// that the database does not need. `all_files` are the files in the process's memory, including
/// the info log, which grows for ever.
#[derive(Clone, Copy, Default, Debug)]
struct Held {
    process: u64,
    all_files: u64,
    memtables: u64,
    old_files: u64,
    pinned_blocks: u64,
    versions: u64,
}

impl Held {
    fn now(db: &Db, fs: &MemFs) -> Held {
        let number = |name: &str| db.int_property(&format!("rocksdb.{name}")).unwrap_or_default();
        let live_files = number("live-sst-files-size");
        let old_files = number("total-sst-files-size").saturating_sub(live_files);
        let memtables = number("size-all-mem-tables").saturating_sub(number("cur-size-all-mem-tables"));
        Held {
            process: resident_bytes() >> 10,
            all_files: bytes_of_files(fs) >> 10,
            memtables: memtables >> 10,
            old_files: old_files >> 10,
            pinned_blocks: number("block-cache-pinned-usage") >> 10,
            versions: number("num-live-versions"),
        }
    }

    fn most(self, other: Held) -> Held {
        Held {
            process: self.process.max(other.process),
            all_files: self.all_files.max(other.all_files),
            memtables: self.memtables.max(other.memtables),
            old_files: self.old_files.max(other.old_files),
            pinned_blocks: self.pinned_blocks.max(other.pinned_blocks),
            versions: self.versions.max(other.versions),
        }
    }
}

fn bytes_of_files(fs: &MemFs) -> u64 {
    let names = fs.children(Path::new(DB)).unwrap_or_default();
    names.iter().filter_map(|name| fs.file_size(&Path::new(DB).join(name)).ok()).sum()
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).map_or(0, |pages: u64| pages * 4096)
}

fn open(minutes: u64, fs: &Arc<MemFs>) -> Result<Db> {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs.clone());
    options.db.stats_dump_period_sec = 0;
    // A growing log would hide the growth of other files.
    options.db.info_log_level = esker::options::InfoLogLevel::Fatal;
    options.cf.write_buffer_size = MEMTABLE_BYTES;
    options.cf.target_file_size_base = 1 << 20;
    options.cf.max_bytes_for_level_base = 4 << 20;
    options.cf.compression = CompressionType::None;
    options.cf.table.block_cache = Some(Arc::new(BlockCache::new(&CacheOptions::with_capacity(8 << 20))?));
    let db = Db::open(&options, DB)?;
    (0..minutes * 60 * ROWS_A_SECOND).try_for_each(|i| db.put(key(i), [b'v'; 100]))?;
    db.compact_range(None, None)?;
    Ok(db)
}

/// Runs a second of the hour: the writes of other threads, and the reads of the scan.
fn second(db: &Db, iter: &mut DbIterator, second: u64, keys: u64) -> Result<()> {
    for i in 0..WRITES_A_SECOND {
        db.put(key(split_mix(second * WRITES_A_SECOND + i) % (keys / 20)), [b'w'; 100])?;
    }
    db.flush()?;
    for _ in 0..ROWS_A_SECOND {
        assert_eq!(iter.value(), [b'v'; 100], "the scan reads its first point in time");
        black_box(iter.key());
        iter.next();
    }
    iter.status()
}

/// The maximum of each held quantity in each sixth of the scan.
fn scan(minutes: u64, follows: bool) -> Result<Vec<Held>> {
    let fs = Arc::new(MemFs::new());
    let db = open(minutes, &fs)?;
    let mut options = ReadOptions::new();
    options.pin_data = !follows;
    let mut iter = db.iter_opt(options, &db.default_column_family())?;
    iter.seek_to_first();
    let (seconds, mut held) = (minutes * 60, vec![Held::default(); 6]);
    for i in 0..seconds {
        second(&db, &mut iter, i, seconds * ROWS_A_SECOND)?;
        let part = &mut held[(i * 6 / seconds) as usize];
        *part = part.most(Held::now(&db, &fs));
    }
    assert!(!iter.valid(), "every row was seen");
    Ok(held)
}

fn main() -> Result<()> {
    let minutes = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(60);
    for (what, follows) in
        [("follows the super versions", true), ("stays at its super version (pin_data)", false)]
    {
        println!("A scan of {minutes} minutes that {what}: the most held in each sixth, KiB");
        for (sixth, held) in scan(minutes, follows)?.into_iter().enumerate() {
            let Held { process, all_files, memtables, old_files, pinned_blocks, versions } = held;
            println!(
                "  {}: process {process}, of that files {all_files}; held only by the scan: files {old_files}, \
                 memtables {memtables}; pinned blocks {pinned_blocks}; {versions} versions",
                sixth + 1
            );
        }
    }
    Ok(())
}
