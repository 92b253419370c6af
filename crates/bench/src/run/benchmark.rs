//! The benchmarks by name: the work, the threads, and the changed flags of each.
//!
//! Source of names and changes: RocksDB 11.9 `tools/db_bench_tool.cc`.

use super::name::NamedBenchmark;
use crate::flags::Flags;
use crate::keys::WriteOrder;
use crate::output::BenchStop;
use crate::workload::{Background, Checksum, Foreground, Workload, WorkloadPlan, non_negative, range_keys};
use esker::{ReadOptions, WriteOptions};

/// A step that the main thread runs once, without measuring it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meta {
    CompactAll,
    WaitForCompaction,
    Flush,
    Property(&'static str),
    MemStats,
}

/// The number of threads of a benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ThreadCount {
    /// `--threads` threads.
    Flag,
    /// `--threads` threads, and one more thread with other work.
    OneMore,
    One,
}

impl ThreadCount {
    pub(super) fn count(self, flags: &Flags) -> usize {
        let asked_for = usize::try_from(flags.threads).unwrap_or(1);
        match self {
            ThreadCount::Flag => asked_for,
            ThreadCount::OneMore => asked_for + 1,
            ThreadCount::One => 1,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BenchmarkKind {
    Threads(Workload, ThreadCount),
    Meta(Meta),
}

const fn threads(workload: Workload) -> BenchmarkKind {
    BenchmarkKind::Threads(workload, ThreadCount::Flag)
}

const fn behind(background: Background, foreground: Foreground) -> BenchmarkKind {
    BenchmarkKind::Threads(Workload::Behind(background, foreground), ThreadCount::OneMore)
}

/// The supported benchmarks. The fill benchmarks need an empty database.
#[rustfmt::skip]
pub(super) const SUPPORTED: &[(&str, BenchmarkKind)] = &[
    ("fillseq", threads(Workload::Write(WriteOrder::Sequential))),
    ("fillbatch", threads(Workload::Write(WriteOrder::Sequential))),
    ("fillrandom", threads(Workload::Write(WriteOrder::Random))),
    ("filluniquerandom", threads(Workload::Write(WriteOrder::UniqueRandom))),
    ("fillsync", threads(Workload::Write(WriteOrder::Random))),
    ("fill100K", threads(Workload::Write(WriteOrder::Random))),
    ("overwrite", threads(Workload::Write(WriteOrder::Random))),
    ("readseq", threads(Workload::ReadSequential)),
    ("readtocache", BenchmarkKind::Threads(Workload::ReadSequential, ThreadCount::One)),
    ("readreverse", threads(Workload::ReadReverse)),
    ("readrandom", threads(Workload::ReadRandom)),
    ("readrandomsmall", threads(Workload::ReadRandom)),
    ("readmissing", threads(Workload::ReadRandom)),
    ("readhot", threads(Workload::ReadHot)),
    ("multireadrandom", threads(Workload::MultiReadRandom)),
    ("multiscan", threads(Workload::MultiScan)),
    ("multiscanrandom", threads(Workload::MultiScanRandom)),
    ("newiterator", threads(Workload::NewIterator)),
    ("seekrandom", threads(Workload::SeekRandom)),
    ("newiteratorwhilewriting", behind(Background::Write, Foreground::NewIterator)),
    ("seekrandomwhilewriting", behind(Background::Write, Foreground::Seek)),
    ("seekrandomwhilemerging", behind(Background::Merge, Foreground::Seek)),
    ("readwhilewriting", behind(Background::Write, Foreground::Read)),
    ("multireadwhilewriting", behind(Background::Write, Foreground::MultiRead)),
    ("readwhilemerging", behind(Background::Merge, Foreground::Read)),
    ("readwhilescanning", behind(Background::Scan, Foreground::Read)),
    ("readrandomwriterandom", threads(Workload::ReadRandomWriteRandom)),
    ("updaterandom", threads(Workload::UpdateRandom)),
    ("mergerandom", threads(Workload::MergeRandom)),
    ("deleteseq", threads(Workload::DeleteSequential)),
    ("deleterandom", threads(Workload::DeleteRandom)),
    ("compact", threads(Workload::Compact)),
    ("crc32c", threads(Workload::Checksum(Checksum::Crc32c))),
    ("xxhash", threads(Workload::Checksum(Checksum::XxHash))),
    ("xxhash64", threads(Workload::Checksum(Checksum::XxHash64))),
    ("xxh3", threads(Workload::Checksum(Checksum::Xxh3))),
    ("compress", threads(Workload::Compress)),
    ("uncompress", threads(Workload::Uncompress)),
    ("compactall", BenchmarkKind::Meta(Meta::CompactAll)),
    ("waitforcompaction", BenchmarkKind::Meta(Meta::WaitForCompaction)),
    ("flush", BenchmarkKind::Meta(Meta::Flush)),
    ("stats", BenchmarkKind::Meta(Meta::Property("rocksdb.stats"))),
    ("levelstats", BenchmarkKind::Meta(Meta::Property("rocksdb.levelstats"))),
    ("sstables", BenchmarkKind::Meta(Meta::Property("rocksdb.sstables"))),
    ("memstats", BenchmarkKind::Meta(Meta::MemStats)),
];

/// Unsupported benchmarks of RocksDB 11.9.
const KNOWN: &[&str] = &[
    "acquireload",
    "appendrandom",
    "approximatememtablestats",
    "approximatesizerandom",
    "backup",
    "block_cache_entry_stats",
    "cache_report_problems",
    "compact0",
    "compact1",
    "compressreject",
    "fillanddeleteuniquerandom",
    "fillembeddedblob",
    "fillembeddedentity",
    "fillseekseq",
    "fillseqdeterministic",
    "filluniquerandomdeterministic",
    "getmergeoperands",
    "heapprofile",
    "ingestexternalfile",
    "mixgraph",
    "multireadentity",
    "multireadrandomcoroutine",
    "openandcompact",
    "randomreplacekeys",
    "randomtransaction",
    "randomwithverify",
    "readrandomcoroutine",
    "readrandomentity",
    "readrandomfast",
    "readrandommergerandom",
    "readrandomoperands",
    "readtorowcache",
    "replay",
    "resetstats",
    "restore",
    "stats_history",
    "timeseries",
    "verify",
    "verifychecksum",
    "verifyfilechecksums",
    "xorupdaterandom",
];

/// The error for a missing benchmark `name`.
fn unknown(name: &str) -> String {
    if KNOWN.contains(&name) {
        return format!("benchmark '{name}': RocksDB's db_bench has it, but it is not supported yet");
    }
    let likeness = |candidate: &str| strsim::jaro_winkler(name, candidate);
    let names = SUPPORTED.iter().map(|(name, _)| name);
    let nearest = names
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .expect("the list of benchmarks is not empty");
    format!("unknown benchmark '{name}'; did you mean '{nearest}'?")
}

/// A benchmark, with its name and its flags.
pub(super) struct Benchmark {
    pub(super) named: NamedBenchmark,
    /// Whether it needs an empty database.
    pub(super) fresh: bool,
    pub(super) plan: WorkloadPlan,
    pub(super) what: BenchmarkKind,
}

impl Benchmark {
    /// The benchmark of this name.
    /// # Errors
    /// `Failed` if there is no such benchmark, or the flags forbid it.
    pub(super) fn new(flags: &Flags, named: NamedBenchmark) -> Result<Benchmark, BenchStop> {
        let name = named.name.as_str();
        let Some(&(_, what)) = SUPPORTED.iter().find(|(supported, _)| *supported == name) else {
            return Err(BenchStop::Failed(unknown(name)));
        };
        let mut plan = plan(flags);
        match name {
            "fillbatch" => plan.batch_size = 1000,
            "fillsync" => {
                plan.num /= 1000;
                plan.write_options.sync = true;
            }
            "fill100K" => {
                plan.num /= 1000;
                plan.value_size = 100_000;
            }
            "readtocache" => plan.reads = plan.num,
            "readrandomsmall" => plan.reads /= 1000,
            "readmissing" => plan.key_size += 1,
            "filluniquerandom" if flags.threads > 1 => {
                return Err(BenchStop::Failed("filluniquerandom: runs with --threads=1 only".to_owned()));
            }
            "multiscan" => {
                let stride = non_negative(flags.multiscan_stride);
                let distance = range_keys(flags.seek_nexts).saturating_add(stride);
                if distance.saturating_mul(non_negative(flags.multiscan_size)) >= plan.num {
                    let why =
                        "multiscan: --num must be above (seek_nexts + multiscan_stride) * multiscan_size";
                    return Err(BenchStop::Failed(why.to_owned()));
                }
                if flags.multiscan_size < 1 {
                    return Err(BenchStop::Failed(
                        "multiscan: --multiscan_size must be at least 1".to_owned(),
                    ));
                }
            }
            "mergerandom" | "readwhilemerging" | "seekrandomwhilemerging"
                if flags.merge_operator.is_empty() =>
            {
                return Err(BenchStop::Failed(format!("{name}: needs a --merge_operator")));
            }
            _ => {}
        }
        Ok(Benchmark { fresh: name.starts_with("fill"), named, plan, what })
    }
}

/// The plan of a benchmark that changes no flags.
fn plan(flags: &Flags) -> WorkloadPlan {
    let num = non_negative(flags.num);
    let or_num = |count: i64| u64::try_from(count).unwrap_or(num);
    let readwrites =
        if flags.reads < 0 && flags.writes < 0 { num } else { non_negative(flags.reads.max(flags.writes)) };
    WorkloadPlan {
        num,
        reads: or_num(flags.reads),
        writes: or_num(flags.writes),
        deletes: or_num(flags.deletes),
        readwrites,
        merge_keys: or_num(flags.merge_keys).max(1),
        batch_size: non_negative(flags.batch_size).max(1),
        key_size: usize::try_from(flags.key_size).unwrap_or(0),
        value_size: usize::try_from(flags.value_size).unwrap_or(0),
        read_options: ReadOptions {
            verify_checksums: flags.verify_checksum,
            total_order_seek: flags.total_order_seek,
            prefix_same_as_start: flags.prefix_same_as_start,
            readahead_size: usize::try_from(flags.readahead_size).unwrap_or(0),
            adaptive_readahead: flags.adaptive_readahead,
            async_io: flags.async_io,
            auto_refresh_iterator_with_snapshot: flags.auto_refresh_iterator_with_snapshot,
            ..ReadOptions::default()
        },
        write_options: WriteOptions {
            sync: flags.sync,
            disable_wal: flags.disable_wal,
            ..WriteOptions::default()
        },
    }
}
