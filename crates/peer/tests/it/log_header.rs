//! The options at the beginning of a LOG, and the values of presets: both engines write the same
//! lines.

use esker::options::{BlockCache, CacheOptions, OptionStruct, TargetVersion};
use esker::{Db, Options};
use esker_peer::{FamilySpec, Preset, RocksDb, require};
use esker_testkit::TempDir;
use std::collections::BTreeMap;
use std::path::Path;

/// Lines with an address or a size of this machine, and options in which the engines differ.
const OTHER_VALUES: [&str; 16] = [
    "env",
    "fs",
    "info_log",
    "write_buffer_manager",
    "statistics",
    "block_cache",
    "block_cache_name",
    "capacity",
    "num_shard_bits",
    "strict_capacity_limit",
    "memory_allocator",
    "high_pri_pool_ratio",
    "low_pri_pool_ratio",
    // Esker prints the parameters too.
    "filter_policy",
    "prefix_extractor",
    // Esker prints this its own way: seven times 1, or nothing.
    "max_bytes_for_level_multiplier_addtl",
];
/// RocksDB's lines that Esker does not have.
const NOT_THERE: [&str; 5] =
    ["persistent_cache", "env", "fs", "block_cache_options", "flush_block_policy_factory"];

/// Options by name. Options of database and family follow `Options.`; options of tables follow two
/// spaces.
fn options_in_log(dir: &Path) -> BTreeMap<String, String> {
    let log = std::fs::read_to_string(dir.join("LOG")).expect("the open database has a LOG");
    let of_line = |line: &str| {
        let named = line.split_once("Options.").map(|(_, named)| named);
        let named = named.or_else(|| line.split_once("table_factory options:").map(|(_, named)| named));
        let named = named.or_else(|| line.starts_with("  ").then_some(line))?;
        let (name, value) = named.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    log.lines().filter_map(of_line).collect()
}

fn is_one_of(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| name == *known || name.starts_with(&format!("{known}[")))
}

/// Compares the lines of both LOGs. Returns their number.
fn compare(ours: &Path, theirs: &Path) -> usize {
    let (ours, theirs) = (options_in_log(ours), options_in_log(theirs));
    let differing: Vec<String> = theirs
        .iter()
        .filter(|(name, _)| !is_one_of(&OTHER_VALUES, name) && !is_one_of(&NOT_THERE, name))
        .filter(|(name, value)| ours.get(*name) != Some(value))
        .map(|(name, value)| format!("{name}: {value}, ours {:?}", ours.get(name)))
        .collect();
    assert!(differing.is_empty(), "{differing:#?}");
    theirs.len()
}

/// Esker's options with RocksDB 11's defaults.
fn as_rocksdb_11() -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.compatible_with = TargetVersion::V11;
    options.cf.table.format_version = 7;
    options.cf.table.optimize_filters_for_memory = true;
    options
}

#[test]
fn the_logs_of_both_begin_with_the_same_options() {
    let Some(()) = require("RocksDB", RocksDb::available()) else { return };
    for (db, family) in [
        ("", ""),
        (
            "max_open_files=77;wal_recovery_mode=kAbsoluteConsistency;use_fsync=true;avoid_flush_during_recovery=1",
            "ttl=86400;compression=kZSTD;compression_opts={level=3;strategy=1};num_levels=4;enable_blob_files=true;\
             prefix_extractor=rocksdb.FixedPrefix.3;\
             block_based_table_factory={index_block_restart_interval=16;checksum=kCRC32c;\
             data_block_index_type=kDataBlockBinaryAndHash;data_block_hash_table_util_ratio=0.35}",
        ),
    ] {
        let (ours, theirs) = (TempDir::new("log-ours"), TempDir::new("log-theirs"));
        let text = format!("create_if_missing=true;{db}");
        drop(RocksDb::open(theirs.path(), &text, &[FamilySpec::new("default", family)]).unwrap());
        let mut options = as_rocksdb_11();
        options.db.set_from_string(db).unwrap();
        options.cf = esker::options::cf_options_from_string(&options.cf, family).unwrap();
        drop(Db::open(&options, ours.path()).unwrap());
        assert!(compare(ours.path(), theirs.path()) > 230);
    }
}

/// The names in RocksDB's OPTIONS file are all the names that it knows.
#[test]
fn every_option_of_rocksdb_11_8_is_known() {
    let Some(()) = require("RocksDB", RocksDb::available()) else { return };
    let dir = TempDir::new("all-options");
    drop(RocksDb::open(dir.path(), "create_if_missing=true", &[FamilySpec::new("default", "")]).unwrap());
    let loaded = esker::options::load_latest_options(dir.path()).unwrap();
    let ignored: Vec<&str> = loaded.ignored.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!(ignored, ["format_version"]);
}

#[test]
fn presets_have_rocksdbs_values() {
    let Some(()) = require("RocksDB", RocksDb::available()) else { return };
    let same_cache = |mut options: Options| {
        // RocksDB's LOG does not name the cache; the capacity is compared.
        let capacity = options.cf.table.block_cache.as_ref().map(|cache| cache.capacity());
        assert_eq!(capacity, Some(32 << 20));
        let cache = BlockCache::new(&CacheOptions::with_capacity(32 << 20)).unwrap();
        options.cf.table.block_cache = Some(std::sync::Arc::new(cache));
        options.cf.table.format_version = 7;
        options.cf.table.optimize_filters_for_memory = true;
        options
    };
    let plain = as_rocksdb_11;
    for (preset, options) in [
        (Preset::Parallelism(6), plain().increase_parallelism(6)),
        (Preset::PointLookup(32), same_cache(plain().optimize_for_point_lookup(32).unwrap())),
        (Preset::LevelStyle(512 << 20), plain().optimize_level_style_compaction(512 << 20)),
        (Preset::LevelStyle(1_000_001), plain().optimize_level_style_compaction(1_000_001)),
        (Preset::UniversalStyle(64 << 20), plain().optimize_universal_style_compaction(64 << 20)),
        (Preset::BulkLoad, plain().prepare_for_bulk_load()),
    ] {
        let (ours, theirs) = (TempDir::new("preset-ours"), TempDir::new("preset-theirs"));
        drop(RocksDb::open_preset(theirs.path(), "create_if_missing=true", preset).unwrap());
        drop(Db::open(&options, ours.path()).unwrap());
        println!("{preset:?}");
        compare(ours.path(), theirs.path());
    }
}
