//! Values in blob files: RocksDB 11.8.1 writes them under all its options, Esker reads and rewrites
//! them, and hands them back.

use crate::peer_process::{check_7, check_11, check_open_esker, open_esker, small_files};
use crate::ping_pong::{FOR_7, FOR_11, esker_writes, rocksdb_7_writes, rocksdb_11_writes};
use esker::ColumnFamilyOptions;
use esker::options::CompressionType;
use esker_peer::{ModelOps, RocksDb, require};
use esker_testkit::{TempDir, seed};
use std::path::Path;

/// Blob options of RocksDB's, drawn at random.
fn blob_options(rng: &mut fastrand::Rng) -> String {
    let codecs = ["kNoCompression", "kSnappyCompression", "kZlibCompression", "kLZ4Compression", "kZSTD"];
    format!(
        "enable_blob_files=true;min_blob_size={};blob_file_size={};blob_compression_type={};\
         enable_blob_garbage_collection={};blob_garbage_collection_age_cutoff={};\
         blob_garbage_collection_force_threshold={};blob_file_starting_level={};",
        rng.choice([0, 1, 20, 60]).expect("one"),
        rng.choice([1, 4 << 10, 64 << 10]).expect("one"),
        rng.choice(codecs).expect("one"),
        rng.bool(),
        rng.choice([0.25, 0.5, 1.0]).expect("one"),
        rng.choice([0.5, 1.0]).expect("one"),
        rng.choice([0, 0, 0, 1]).expect("one"),
    )
}

/// Blob options of Esker's, drawn at random.
fn esker_blob_options(rng: &mut fastrand::Rng) -> ColumnFamilyOptions {
    use CompressionType::{Lz4, Lz4hc, None, Snappy, Zlib, Zstd};
    let mut options = small_files(Lz4);
    options.enable_blob_files = rng.u32(..4) > 0;
    options.min_blob_size = rng.choice([0, 1, 20, 60]).expect("one");
    options.blob_file_size = rng.choice([1 << 10, 8 << 10, 64 << 10]).expect("one");
    options.blob_compression_type = rng.choice([None, Snappy, Zlib, Lz4, Lz4hc, Zstd]).expect("one");
    options.enable_blob_garbage_collection = rng.bool();
    options.blob_garbage_collection_age_cutoff = rng.choice([0.25, 0.5, 1.0]).expect("one");
    options.blob_garbage_collection_force_threshold = rng.choice([0.5, 1.0]).expect("one");
    options.blob_file_starting_level = rng.choice([0, 0, 0, 1]).expect("one");
    options
}

/// Number of files with names that end so.
fn files_called(dir: &Path, end: &str) -> usize {
    let entries =
        std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("readable").file_name());
    entries.filter(|name| name.to_string_lossy().ends_with(end)).count()
}

#[test]
fn rocksdb_with_blob_files_and_esker_write_in_turn() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    seed::for_each_seed("blob peer_processes", 4, |seed, mut rng| {
        let dir = TempDir::new("blob-peer_processes");
        let mut model = ModelOps::varied();
        let mut blob_files = 0;
        let tables = if seed % 2 == 0 { FOR_7 } else { FOR_11 };
        let make = "create_if_missing=true;create_missing_column_families=true;";
        drop(RocksDb::open(dir.path(), make, &model.specs("")).expect("made"));
        for round in 0..6 {
            let options = format!("{tables}{}", blob_options(&mut rng));
            let when = format!("round {round}, 11.8.1 with {options}");
            rocksdb_11_writes(dir.path(), &mut model, &options, &mut rng, &when);
            blob_files += files_called(dir.path(), ".blob");
            let db = open_esker(dir.path(), &model, &small_files(CompressionType::Zstd)).expect("opens");
            check_open_esker(&db, &model, &format!("after {when}"));
            db.close().expect("closes");
            drop(db);
            let options = esker_blob_options(&mut rng);
            esker_writes(dir.path(), &mut model, &options, &mut rng, &format!("round {round}, Esker"));
            if tables == FOR_7 && rng.bool() {
                rocksdb_7_writes(dir.path(), &mut model, &mut rng, &format!("round {round}, 7.8.3"));
            }
        }
        if tables == FOR_7 {
            check_7(dir.path(), &model, "the end");
        }
        check_11(dir.path(), &model, "the end");
        assert!(blob_files > 0, "no blob file was made");
    });
}
