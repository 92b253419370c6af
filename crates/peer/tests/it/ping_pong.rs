//! Databases that go back and forth: Esker, RocksDB 7.8.3 and RocksDB 11.8.1 write in turn, and
//! each finds the data of the others.

use crate::peer_process::{check_7, check_11, check_open_11, check_open_esker, open_esker, small_files};
use esker::internals::format::properties::IndexType;
use esker::internals::table::DataBlockIndexType;
use esker::options::{CompactionStyle, CompressionType};
use esker::{ColumnFamilyOptions, WriteOptions};
use esker_peer::model_ops::{Kinds, write_to_esker};
use esker_peer::{ModelOps, RocksDb, Tools, WriteFlags, require};
use esker_testkit::{TempDir, seed};
use std::path::Path;

/// Options for RocksDB 11.8.1 that make small files, as Esker's do, and tables that 7.8 reads.
const ROCKSDB_SMALL: &str = "write_buffer_size=65536;target_file_size_base=32768;max_bytes_for_level_base=131072;\
    level0_file_num_compaction_trigger=3;";
pub(crate) const FOR_7: &str =
    "block_based_table_factory={format_version=5;block_size=1024;filter_policy=bloomfilter:10:false};";
/// The defaults of 11.8.1 but for the block size: format_version 7.
pub(crate) const FOR_11: &str = "block_based_table_factory={block_size=1024;filter_policy=ribbonfilter:10};";

/// Layouts of tables and styles of compaction that RocksDB 7.8 knows, at random.
fn random_mixture(rng: &mut fastrand::Rng, compression: CompressionType) -> ColumnFamilyOptions {
    let mut options = small_files(compression);
    if rng.u8(..3) == 0 {
        options.compaction_style = CompactionStyle::Universal;
    }
    if rng.u8(..3) == 0 {
        options.compression_opts.max_dict_bytes = 2000;
    }
    let table = &mut options.table;
    table.format_version = rng.u32(2..=5);
    if rng.bool() {
        table.index_type = IndexType::TwoLevel;
        table.metadata_block_size = rng.u64(100..2000);
        table.partition_filters = rng.bool();
        table.decouple_partitioned_filters = rng.bool();
    }
    if rng.bool() {
        table.data_block_index_type = DataBlockIndexType::BinaryAndHash;
    }
    table.block_restart_interval = rng.usize(1..20);
    table.index_block_restart_interval = rng.usize(1..5);
    options
}

pub(crate) fn esker_writes(
    dir: &Path,
    model: &mut ModelOps,
    options: &ColumnFamilyOptions,
    rng: &mut fastrand::Rng,
    when: &str,
) {
    let db = open_esker(dir, model, options).unwrap_or_else(|e| panic!("{when}: Esker: {e}"));
    check_open_esker(&db, model, when);
    for _ in 0..rng.usize(1..60) {
        let count = rng.usize(1..20);
        let ops = model.random_ops(rng, count, Kinds::ALL);
        write_to_esker(&db, &ops, &WriteOptions::default().sync(rng.u32(..10) == 0)).expect("written");
    }
    match rng.u32(..4) {
        0 => db.flush().expect("flushes"),
        1 => db.compact_range(None, None).expect("compacts"),
        2 => db.wait_for_background_work().expect("no background error"),
        _ => {}
    }
    check_open_esker(&db, model, when);
    db.close().expect("closes");
}

pub(crate) fn rocksdb_7_writes(dir: &Path, model: &mut ModelOps, rng: &mut fastrand::Rng, when: &str) {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    let count = rng.usize(1..16);
    let ops = model.random_ops(rng, count, Kinds::LDB);
    tools.apply(dir, &ops).unwrap_or_else(|e| panic!("{when}: {e}"));
    if rng.bool() {
        tools.ldb(dir, ["compact"]).unwrap_or_else(|e| panic!("{when}: {e}"));
    }
    check_7(dir, model, when);
}

pub(crate) fn rocksdb_11_writes(
    dir: &Path,
    model: &mut ModelOps,
    table: &str,
    rng: &mut fastrand::Rng,
    when: &str,
) {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let compression =
        ["kNoCompression", "kSnappyCompression", "kZlibCompression", "kLZ4Compression", "kZSTD"];
    let compression = rng.choice(compression).expect("one");
    let options = format!("compression={compression};{ROCKSDB_SMALL}{table}");
    let db = RocksDb::open(dir, "", &model.specs(&options)).unwrap_or_else(|e| panic!("{when}: {e}"));
    check_open_11(&db, model, when);
    for _ in 0..rng.usize(1..60) {
        let count = rng.usize(1..20);
        let ops = model.random_ops(rng, count, Kinds::ALL);
        let flags = WriteFlags { sync: rng.u32(..10) == 0, disable_wal: false };
        db.write(&ops, flags).unwrap_or_else(|e| panic!("{when}: {e}"));
    }
    let family = model.families[rng.usize(..model.families.len())].name.clone();
    match rng.u32(..3) {
        0 => db.flush(&family).unwrap_or_else(|e| panic!("{when}: {e}")),
        1 => db.compact(&family),
        _ => {}
    }
    check_open_11(&db, model, when);
}

#[test]
fn three_peer_processes_write_in_turn() {
    seed::for_each_seed("three peer_processes", 3, |_, mut rng| {
        let dir = TempDir::new("three-peer_processes");
        let mut model = ModelOps::varied();
        let codecs = [CompressionType::Snappy, CompressionType::Lz4, CompressionType::Zstd];
        for round in 0..8 {
            // Esker writes between the others, because ldb 7.8.3 cannot read an OPTIONS file of
            // 11.8.1.
            let codec = rng.choice(codecs).expect("one");
            let options = random_mixture(&mut rng, codec);
            esker_writes(dir.path(), &mut model, &options, &mut rng, &format!("round {round}, Esker"));
            if rng.bool() {
                rocksdb_7_writes(dir.path(), &mut model, &mut rng, &format!("round {round}, 7.8.3"));
            } else {
                let when = format!("round {round}, 11.8.1");
                rocksdb_11_writes(dir.path(), &mut model, FOR_7, &mut rng, &when);
            }
        }
        esker_writes(dir.path(), &mut model, &small_files(CompressionType::Lz4), &mut rng, "the end");
        check_7(dir.path(), &model, "the end");
        check_11(dir.path(), &model, "the end");
    });
}

#[test]
fn esker_and_rocksdb_11_with_its_newest_tables_write_in_turn() {
    seed::for_each_seed("two peer_processes", 3, |_, mut rng| {
        let dir = TempDir::new("two-peer_processes");
        let mut model = ModelOps::varied();
        for round in 0..8 {
            let when = format!("round {round}, 11.8.1");
            rocksdb_11_writes_first(dir.path(), round);
            rocksdb_11_writes(dir.path(), &mut model, FOR_11, &mut rng, &when);
            let mut options = small_files(CompressionType::Zstd);
            options.table.format_version = rng.u32(5..=7);
            options.table.separate_key_value_in_data_block = rng.bool();
            esker_writes(dir.path(), &mut model, &options, &mut rng, &format!("round {round}, Esker"));
        }
        check_11(dir.path(), &model, "the end");
    });
}

/// RocksDB makes the database: the first round begins with its files.
pub(crate) fn rocksdb_11_writes_first(dir: &Path, round: u32) {
    if round > 0 || require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let options = "create_if_missing=true;create_missing_column_families=true;";
    RocksDb::open(dir, options, &ModelOps::varied().specs("")).expect("made");
}
