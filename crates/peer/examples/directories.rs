//! The cost of a directory of many files: Esker's time beside RocksDB's. Both take turns in one
//! process. Cases: opening ten thousand tables, ingesting a thousand files, a checkpoint, building
//! filters and querying them.
//!
//! In: a directory for the data (best in tmpfs), rounds, then optionally RocksDB's library and its
//! `filter_bench`. The process must be allowed 20,000 open files (`ulimit -n`). Without
//! `filter_bench` there are no filter figures of RocksDB, because its C functions do not reach
//! filters.
//!
//! Out: medians of both, and the median of the rounds' ratios: Esker's time divided by RocksDB's.
//! Filters are queried as `filter_bench -quick` queries them: one filter, which stays in the
//! processor's caches, and many at random; half of the keys are in the filter. The figures include
//! the hash, but not the making of the key.
//!
//! `cargo run --release -p esker-peer --example directories -- /dev/shm/directories 7 librocksdb.so
//! filter_bench`
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement, on the real file system")]

use esker::internals::format::filter::{FilterBuildingContext, FilterPolicy, FilterReader};
use esker::options::{CompactionStyle, CompressionType};
use esker::{Db, IngestExternalFileOptions, Options, SstFileWriter};
use esker_peer::{FamilySpec, RocksDb, load_library};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const TABLES: usize = 10_000;
const INGESTED: usize = 1000;
const KEYS_IN_A_FILTER: usize = 100_000;
const FILTERS: usize = 40;
const QUERIES: usize = 4_000_000;
const ROCKSDB: &str = "create_if_missing=true;max_open_files=-1;disable_auto_compactions=true;compression=kNoCompression;\
    level0_slowdown_writes_trigger=100000;level0_stop_writes_trigger=100000;\
    block_based_table_factory={format_version=5;filter_policy=bloomfilter:10:false}";

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.max_open_files = -1;
    options.cf.disable_auto_compactions = true;
    options.cf.compaction_style = CompactionStyle::Level;
    options.cf.compression = CompressionType::None;
    options.cf.level0_slowdown_writes_trigger = 100_000;
    options.cf.level0_stop_writes_trigger = 100_000;
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    options
}

fn rocksdb(dir: &Path, more: &str) -> RocksDb {
    let options = format!("{ROCKSDB};{more}");
    RocksDb::open(dir, &options, &[FamilySpec::new("default", options.as_str())]).expect("opens")
}

fn timed<T>(act: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let made = act();
    (start.elapsed().as_secs_f64() * 1e3, made)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The figures of Esker and RocksDB, a pair for each round.
#[derive(Default)]
struct Pairs(Vec<(f64, f64)>);

impl Pairs {
    /// Runs one round. The engines take turns at being the first.
    fn round(&mut self, number: usize, mut ours: impl FnMut() -> f64, mut theirs: impl FnMut() -> f64) {
        let (first, second);
        if number.is_multiple_of(2) {
            first = ours();
            second = theirs();
        } else {
            second = theirs();
            first = ours();
        }
        self.0.push((first, second));
    }

    fn print(&self, what: &str, unit: &str) {
        let ours = median(self.0.iter().map(|pair| pair.0).collect());
        let theirs = median(self.0.iter().map(|pair| pair.1).collect());
        let ratio = median(self.0.iter().map(|pair| pair.0 / pair.1).collect());
        println!("{what:44} Esker {ours:9.2} {unit}  RocksDB {theirs:9.2} {unit}  ratio {ratio:.3}");
    }
}

fn write_tables(dir: &Path, first: usize, count: usize) -> Vec<PathBuf> {
    std::fs::create_dir_all(dir).expect("a directory");
    let write = |i: usize| {
        let path = dir.join(format!("in{i:06}.sst"));
        let mut writer = SstFileWriter::new(&options());
        writer.open(&path).expect("opens");
        for k in 0..10 {
            writer.put(format!("key{i:06}{k:02}"), [b'v'; 100]).expect("written");
        }
        writer.finish().expect("finished");
        path
    };
    (first..first + count).map(write).collect()
}

/// Opens ten thousand tables without common keys. Both engines get the same directory.
fn open_many(dir: &Path, rounds: usize) {
    let (ours, theirs) = (dir.join("open-esker"), dir.join("open-rocksdb"));
    let files = write_tables(&dir.join("tables"), 0, TABLES);
    for to in [&ours, &theirs] {
        let db = Db::open(&options(), to).expect("opens");
        db.ingest_external_file(&files).expect("ingested");
        db.close().expect("closes");
    }
    // Each engine keeps to its own directory, although it could open the other's.
    drop(rocksdb(&theirs, ""));
    let mut pairs = Pairs::default();
    for round in 0..rounds {
        let open_ours = || {
            let (ms, db) = timed(|| Db::open(&options(), &ours).expect("opens"));
            assert!(db.get("key00000000").expect("read").is_some());
            db.close().expect("closes");
            ms
        };
        let open_theirs = || {
            let (ms, db) = timed(|| rocksdb(&theirs, ""));
            assert!(db.get("default", b"key00000000", None).expect("read").is_some());
            ms
        };
        pairs.round(round, open_ours, open_theirs);
    }
    pairs.print("open, 10,000 tables, all opened", "ms");
    let mut pairs = Pairs::default();
    // Both databases are open at once, and a process may not open all their files.
    let mut few_open = options();
    few_open.db.max_open_files = 100;
    let ours_db = Db::open(&few_open, &ours).expect("opens");
    let theirs_db = rocksdb(&theirs, "max_open_files=100");
    for round in 0..rounds {
        let (to_ours, to_theirs) = (dir.join("checkpoint-esker"), dir.join("checkpoint-rocksdb"));
        pairs.round(
            round,
            || timed(|| ours_db.create_checkpoint(&to_ours, 0).expect("made")).0,
            || timed(|| theirs_db.create_checkpoint(&to_theirs, 0).expect("made")).0,
        );
        for made in [to_ours, to_theirs] {
            std::fs::remove_dir_all(made).expect("removed");
        }
    }
    pairs.print("checkpoint of 10,000 tables", "ms");
}

fn ingest(dir: &Path, rounds: usize) {
    for (what, move_files) in
        [("ingest of 1,000 files, copied", false), ("ingest of 1,000 files, moved", true)]
    {
        let mut pairs = Pairs::default();
        for round in 0..rounds {
            let base = dir.join(format!("ingest{move_files}{round}"));
            let for_ours = write_tables(&base.join("ours"), 0, INGESTED);
            let for_theirs = write_tables(&base.join("theirs"), 0, INGESTED);
            let ours = Db::open(&options(), base.join("esker")).expect("opens");
            let theirs = rocksdb(&base.join("rocksdb"), "");
            let how = IngestExternalFileOptions { move_files, ..IngestExternalFileOptions::default() };
            pairs.round(
                round,
                || {
                    timed(|| {
                        ours.ingest_external_file_opt(&how, &ours.default_column_family(), &for_ours)
                            .expect("ingested")
                    })
                    .0
                },
                || {
                    timed(|| {
                        theirs.ingest_external_files("default", &for_theirs, move_files).expect("ingested")
                    })
                    .0
                },
            );
            ours.close().expect("closes");
            drop((ours, theirs));
            std::fs::remove_dir_all(base).expect("removed");
        }
        pairs.print(what, "ms");
    }
}

/// A key as `filter_bench` makes it: its number, the sum of that and its filter's number, 16 bytes
/// of zeros.
fn key(filter: u32, number: u32) -> [u8; 24] {
    let mut key = [0; 24];
    key[..4].copy_from_slice(&number.to_le_bytes());
    key[4..8].copy_from_slice(&filter.wrapping_add(number).to_le_bytes());
    key
}

/// Nanoseconds per key to build, per query of one filter, and per query of one of many filters. The
/// time to make the keys is subtracted.
fn own_filters(policy: &FilterPolicy) -> [f64; 3] {
    let context = FilterBuildingContext::default();
    let start = Instant::now();
    let mut readers = Vec::new();
    for filter in 0..FILTERS {
        let mut builder = policy.builder_with_context(&context).expect("a filter");
        for number in 0..KEYS_IN_A_FILTER {
            builder.add_key(&key(filter as u32, number as u32));
        }
        readers.push(FilterReader::parse(builder.finish()));
    }
    let build = start.elapsed().as_secs_f64() * 1e9 / (FILTERS * KEYS_IN_A_FILTER) as f64;
    let ask = |filters: u32| {
        let run = |ask: &dyn Fn(usize, &[u8]) -> bool| {
            let mut rng = fastrand::Rng::with_seed(7);
            let start = Instant::now();
            let mut inside = 0usize;
            for _ in 0..QUERIES {
                let outside = u32::from(rng.bool()) << 31;
                let filter = rng.u32(..filters);
                let key = key(filter, rng.u32(..KEYS_IN_A_FILTER as u32) | outside);
                inside += usize::from(ask(filter as usize, &key));
            }
            black_box(inside);
            start.elapsed().as_secs_f64() * 1e9 / QUERIES as f64
        };
        let gross = run(&|filter, key| readers[filter].may_match(key));
        gross - run(&|_, key| black_box(key)[3] > 0)
    };
    [build, ask(1), ask(FILTERS as u32)]
}

/// The figures that RocksDB's own program measures.
fn their_filters(program: &Path, kind: u32) -> [f64; 3] {
    let keys = (FILTERS * KEYS_IN_A_FILTER) as f64 / 1e6;
    // With `-quick` it runs a seventh of the requested queries.
    let queries = QUERIES as f64 * 7.0 / 1e6;
    let out = Command::new(program)
        .args([
            "-quick",
            "-net_includes_hashing",
            "-vary_key_count_ratio=0",
            "-vary_key_size_log2_interval=30",
        ])
        .arg(format!("-impl={kind}"))
        .arg(format!("-average_keys_per_filter={KEYS_IN_A_FILTER}"))
        .arg(format!("-m_keys_total_max={keys}"))
        .arg(format!("-m_queries={queries}"))
        .output()
        .expect("filter_bench runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let figure = |name: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(name));
        let figure = line.and_then(|line| line.rsplit(' ').next()).and_then(|figure| figure.parse().ok());
        figure.unwrap_or_else(|| panic!("no '{name}' in {text}"))
    };
    [figure("Build avg ns/key"), figure("Single filter net"), figure("Random filter net")]
}

fn filters(rounds: usize, program: Option<&Path>) {
    let kinds = [("Bloom", FilterPolicy::bloom(10.0), 1), ("Ribbon", FilterPolicy::ribbon(10.0, -1), 2)];
    for (name, policy, kind) in kinds {
        let mut pairs: [Pairs; 3] = Default::default();
        for round in 0..rounds {
            let mut found = [[f64::NAN; 3]; 2];
            for turn in [round % 2, 1 - round % 2] {
                match (turn, program) {
                    (0, _) => found[0] = own_filters(&policy),
                    (_, Some(program)) => found[1] = their_filters(program, kind),
                    (_, None) => {}
                }
            }
            for (i, pairs) in pairs.iter_mut().enumerate() {
                pairs.0.push((found[0][i], found[1][i]));
            }
        }
        for (pairs, what) in pairs.iter().zip(["built, a key", "one filter asked", "one of 40 filters asked"])
        {
            pairs.print(&format!("{name}: {what}"), "ns");
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |i: usize| arguments.get(i).map(PathBuf::from);
    let dir = argument(0).unwrap_or_else(|| PathBuf::from("/dev/shm/directories"));
    let rounds = arguments.get(1).map_or(7, |text| text.parse().expect("a number of rounds"));
    if let Some(library) = argument(2) {
        load_library(&library).expect("RocksDB's library");
    }
    std::fs::create_dir(&dir).expect("a directory that is not there yet");
    open_many(&dir, rounds);
    ingest(&dir, rounds);
    std::fs::remove_dir_all(&dir).expect("removed");
    filters(rounds, argument(3).as_deref());
}
