//! Universal compaction beside RocksDB 11.8.1: the same flushes, the same amount written; and
//! either opens what the other's universal compactions left.

use crate::peer_process::{check_7, check_11, check_open_esker, open_esker, small_files};
use esker::options::{CompactionStopStyle, CompactionStyle, CompressionType};
use esker::{ColumnFamilyOptions, Db, Options};
use esker_peer::model_ops::{Kinds, write_to_esker};
use esker_peer::{FamilySpec, ModelOps, PeerOp, RocksDb, WriteFlags, require};
use esker_testkit::{TempDir, seed};
use std::path::Path;

const FLUSHES: u32 = 60;
const KEYS_IN_A_FLUSH: u32 = 400;

/// The keys of one flush: half of them new, half overwritten.
fn operations(rng: &mut fastrand::Rng, flush: u32) -> Vec<PeerOp> {
    let family = "default".to_owned();
    let op = |i: u32| {
        let number = if i.is_multiple_of(2) {
            flush * KEYS_IN_A_FLUSH + i
        } else {
            rng.u32(..FLUSHES * KEYS_IN_A_FLUSH)
        };
        let value: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(60).collect();
        PeerOp::Put { family: family.clone(), key: format!("key{number:08}").into_bytes(), value }
    };
    (0..KEYS_IN_A_FLUSH).map(op).collect()
}

/// Bytes of all tables that were ever made, by the events in `LOG`.
fn bytes_written(dir: &Path) -> u64 {
    let log = std::fs::read_to_string(dir.join("LOG")).expect("a LOG");
    let created = log.lines().filter(|l| l.contains("\"table_file_creation\""));
    let size = |line: &str| -> u64 {
        let at = line.split("\"file_size\":").nth(1).expect("a size").trim_start();
        at.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a number")
    };
    created.map(size).sum()
}

fn esker_options(amplification: u32, ratio: u32, stop: CompactionStopStyle, incremental: bool) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.max_background_jobs = 2;
    options.cf = ColumnFamilyOptions { compression: CompressionType::None, ..ColumnFamilyOptions::default() };
    options.cf.compaction_style = CompactionStyle::Universal;
    let universal = &mut options.cf.compaction_options_universal;
    universal.max_size_amplification_percent = amplification;
    universal.size_ratio = ratio;
    universal.stop_style = stop;
    universal.incremental = incremental;
    if incremental {
        // A run has many files, and a part of it some of them.
        (options.cf.target_file_size_base, options.cf.max_compaction_bytes) = (16 << 10, 200 << 10);
    }
    options
}

#[test]
fn write_amplification_is_that_of_rocksdb() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let total = CompactionStopStyle::TotalSize;
    let mixtures = [
        (200, 1, total, false),
        (50, 10, total, false),
        (1000, 1, total, false),
        (200, 10, CompactionStopStyle::SimilarSize, false),
        (50, 1, total, true),
        (100, 10, total, true),
    ];
    for (amplification, ratio, stop, incremental) in mixtures {
        let (ours, theirs) = (TempDir::new("universal-esker"), TempDir::new("universal-rocksdb"));
        let options = esker_options(amplification, ratio, stop, incremental);
        let (target, most) = (options.cf.target_file_size_base, options.cf.max_compaction_bytes);
        let text = format!(
            "compression=kNoCompression;compaction_style=kCompactionStyleUniversal;\
             compaction_options_universal={{max_size_amplification_percent={amplification};size_ratio={ratio};\
             stop_style={};incremental={incremental}}};target_file_size_base={target};\
             max_compaction_bytes={most};block_based_table_factory={{format_version=5}}",
            stop.as_str()
        );
        let esker = Db::open(&options, ours.path()).expect("opens");
        let family = FamilySpec::new("default", text);
        let rocksdb = RocksDb::open(theirs.path(), "create_if_missing=true", &[family]).expect("opens");
        let mut rng = seed::rng("universal");
        for flush in 0..FLUSHES {
            let ops = operations(&mut rng, flush);
            write_to_esker(&esker, &ops, &esker::WriteOptions::default()).expect("written");
            esker.flush().expect("flushed");
            esker.wait_for_background_work().expect("compacted");
            rocksdb.write(&ops, WriteFlags::default()).expect("written");
            rocksdb.flush("default").expect("flushed");
            rocksdb.wait_for_compact().expect("compacted");
        }
        esker.close().expect("closes");
        drop(rocksdb);
        let (ours, theirs) = (bytes_written(ours.path()), bytes_written(theirs.path()));
        let relation = ours as f64 / theirs as f64;
        esker_peer::note(&format!(
            "{amplification}% {ratio}% {stop:?} incremental={incremental}: Esker wrote {ours} bytes, RocksDB {theirs}: {relation:.4}"
        ));
        // Esker judges more windows of a run than RocksDB, so its parts rewrite less.
        let least = if incremental { 0.85 } else { 0.95 };
        assert!((least..=1.05).contains(&relation), "{ours} and {theirs}");
    }
}

#[test]
fn universal_databases_are_read_by_all() {
    seed::for_each_seed("universal, in turn", 2, |_, mut rng| {
        let dir = TempDir::new("universal-turns");
        let mut model = ModelOps::varied();
        let mut options = small_files(CompressionType::Lz4);
        options.compaction_style = CompactionStyle::Universal;
        options.compaction_options_universal.allow_trivial_move = rng.bool();
        options.compaction_options_universal.incremental = true;
        let rocksdb_options = "write_buffer_size=65536;compaction_style=kCompactionStyleUniversal;\
                               target_file_size_base=32768;compaction_options_universal={incremental=true};block_based_table_factory={format_version=5};";
        for round in 0..4 {
            let db = open_esker(dir.path(), &model, &options).expect("opens");
            for _ in 0..80 {
                let count = rng.usize(1..20);
                let ops = model.random_ops(&mut rng, count, Kinds::ALL);
                write_to_esker(&db, &ops, &esker::WriteOptions::default()).expect("written");
            }
            db.flush().expect("flushed");
            if round == 2 {
                db.compact_range(None, None).expect("compacts");
            }
            db.wait_for_background_work().expect("compacted");
            check_open_esker(&db, &model, &format!("round {round}"));
            db.close().expect("closes");
            check_7(dir.path(), &model, &format!("round {round}"));
            check_11(dir.path(), &model, &format!("round {round}"));
            if require("librocksdb 11.8", RocksDb::available()).is_none() {
                continue;
            }
            let db = RocksDb::open(dir.path(), "", &model.specs(rocksdb_options)).expect("opens");
            for _ in 0..40 {
                let count = rng.usize(1..20);
                let ops = model.random_ops(&mut rng, count, Kinds::ALL);
                db.write(&ops, WriteFlags::default()).expect("written");
            }
            db.flush("default").expect("flushed");
            db.wait_for_compact().expect("compacted");
        }
    });
}
