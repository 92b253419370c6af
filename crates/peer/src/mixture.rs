//! Random mixtures of options, as text that Esker and RocksDB both accept.
//!
//! In: a random generator, and a level: the oldest RocksDB that must read the files. Out: options
//! of a database and of its families. With these options, little data makes many files.
//!
//! Invariant: all names are RocksDB's, and RocksDB of `level` and later knows them.

use esker::options::TargetVersion;

/// Options that can be used together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mixture {
    /// Options of each family, without comparator and merge operator.
    pub family: String,
    /// Options of the database, for Esker.
    pub esker_db: String,
    /// Options of the database, for RocksDB's library.
    pub rocksdb_db: String,
}

/// Draws one of `choices`.
fn one<'a>(rng: &mut fastrand::Rng, choices: &[&'a str]) -> &'a str {
    choices[rng.usize(..choices.len())]
}

/// Sizes with which little data makes many files, levels and blocks.
const SMALL: &str = "write_buffer_size=65536;target_file_size_base=32768;max_bytes_for_level_base=131072;\
                     max_bytes_for_level_multiplier=3;level0_file_num_compaction_trigger=3;";

impl Mixture {
    /// Draws a mixture for RocksDB of `level` and later.
    pub fn random(rng: &mut fastrand::Rng, level: TargetVersion) -> Mixture {
        let has_prefix = rng.u8(..3) == 0;
        let aligned = rng.u8(..8) == 0;
        let mut family = SMALL.to_owned();
        if has_prefix {
            family += one(rng, &["prefix_extractor=fixed:4;", "prefix_extractor=capped:5;"]);
        }
        family += &compression(rng, aligned);
        if rng.u8(..4) == 0 {
            family += &blobs(rng);
        }
        if rng.u8(..4) == 0 {
            family += "optimize_filters_for_hits=true;";
        }
        family += &shape(rng, aligned);
        family += &format!("block_based_table_factory={{{}}};", table(rng, level, has_prefix, aligned));
        let journal =
            one(rng, &["", "", "recycle_log_file_num=2;", "atomic_flush=true;", "max_open_files=30;"]);
        // With `max_total_wal_size` and `atomic_flush`, 7.8.3 may flush families for different
        // reasons, and aborts (`AtomicFlushMemTablesToOutputFiles`). With `max_total_wal_size` and
        // `min_write_buffer_number_to_merge`, a flush of 10.4.2 may wait for ever
        // (`WaitForFlushMemTables`).
        let waits = family.contains("min_write_buffer_number_to_merge");
        let few_wals = if waits || journal.starts_with("atomic") { "" } else { "max_total_wal_size=50000;" };
        let shared = [
            journal,
            one(
                rng,
                &["", "", "max_subcompactions=3;", "max_manifest_file_size=2000;", "max_background_jobs=4;"],
            ),
            one(rng, &["", "", "avoid_flush_during_shutdown=true;", "avoid_flush_during_recovery=true;"]),
            one(rng, &["", "", few_wals, "paranoid_checks=true;", "use_fsync=true;"]),
            // RocksDB before 9.2 records wrong checksums of aligned blocks.
            one(
                rng,
                &[
                    "",
                    "",
                    if aligned { "" } else { "file_checksum_gen_factory=FileChecksumGenCrc32cFactory;" },
                ],
            ),
        ]
        .concat();
        let theirs = match rng.u8(..8) {
            0 if !shared.contains("atomic_flush") => "enable_pipelined_write=true;",
            1 => "two_write_queues=true;",
            // With this option off, the `ldb` of 7.8.3 aborts if the MANIFEST names WALs
            // (`DBImpl::Recover`, read-only).
            2 if level != TargetVersion::V7_8 => "track_and_verify_wals_in_manifest=true;",
            _ => "",
        };
        let wal = match level {
            TargetVersion::V7_8 => one(rng, &["", "", "wal_compression=kZSTD;"]),
            _ => one(rng, &["", "", "wal_compression=kZSTD;", "track_and_verify_wals=true;"]),
        };
        let rocksdb_db = format!("{shared}{theirs}{wal}");
        Mixture { family, esker_db: shared, rocksdb_db }
    }
}

/// Draws options for the LSM tree's shape, and for memtables.
fn shape(rng: &mut fastrand::Rng, aligned: bool) -> String {
    let mut text = match rng.u8(..9) {
        0..=3 => "compaction_style=kCompactionStyleUniversal;".to_owned(),
        4 => "level_compaction_dynamic_level_bytes=false;".to_owned(),
        5 if !aligned => "compression_per_level=kNoCompression:kSnappyCompression:kZSTD;".to_owned(),
        _ => String::new(),
    };
    text +=
        one(rng, &["", "", "compaction_pri=kByCompensatedSize;", "compaction_pri=kOldestLargestSeqFirst;"]);
    text +=
        one(rng, &["", "", "", "memtable_prefix_bloom_size_ratio=0.1;memtable_whole_key_filtering=true;"]);
    text += one(rng, &["", "", "", "max_successive_merges=3;"]);
    text += one(rng, &["", "", "", "min_write_buffer_number_to_merge=2;max_write_buffer_number=4;"]);
    text += one(rng, &["", "", "", "paranoid_file_checks=true;"]);
    text += one(rng, &["", "", "", "max_sequential_skip_in_iterations=1;"]);
    text
}

const CODECS: [&str; 7] = [
    "kBZip2Compression",
    "kNoCompression",
    "kSnappyCompression",
    "kZlibCompression",
    "kLZ4Compression",
    "kLZ4HCCompression",
    "kZSTD",
];

fn compression(rng: &mut fastrand::Rng, aligned: bool) -> String {
    if aligned {
        return "compression=kNoCompression;".to_owned();
    }
    let mut text = format!("compression={};", one(rng, &CODECS));
    if rng.u8(..4) == 0 {
        text += &format!("bottommost_compression={};", one(rng, &CODECS));
    }
    text += one(
        rng,
        &[
            "",
            "",
            "",
            "",
            "bottommost_compression_opts={enabled=true;max_dict_bytes=3000;zstd_max_train_bytes=30000};",
        ],
    );
    match rng.u8(..6) {
        0 => text += "compression_opts={max_dict_bytes=2000};",
        1 => text += "compression_opts={max_dict_bytes=2000;zstd_max_train_bytes=20000};",
        _ => {}
    }
    text
}

fn blobs(rng: &mut fastrand::Rng) -> String {
    let codec = one(rng, &["kNoCompression", "kSnappyCompression", "kLZ4Compression", "kZSTD"]);
    let mut text = format!(
        "enable_blob_files=true;min_blob_size={};blob_file_size={};blob_compression_type={codec};",
        rng.u32(..300),
        rng.u32(4_000..60_000)
    );
    if rng.bool() {
        text += "enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=0.5;";
        text += one(rng, &["", "blob_garbage_collection_force_threshold=0.5;"]);
    }
    text += one(rng, &["", "", "blob_file_starting_level=1;"]);
    text
}

fn table(rng: &mut fastrand::Rng, level: TargetVersion, has_prefix: bool, aligned: bool) -> String {
    let newest = match level {
        TargetVersion::V7_8 => 5,
        TargetVersion::V8 | TargetVersion::V9 => 6,
        TargetVersion::V10 | TargetVersion::V11 => 7,
        _ => 8,
    };
    let format_version = rng.u32(2..=newest);
    let index = match rng.u8(..6) {
        0 => "kBinarySearchWithFirstKey",
        1 if has_prefix => "kHashSearch",
        2 | 3 => "kTwoLevelIndexSearch",
        _ => "kBinarySearch",
    };
    let filter = match rng.u8(..5) {
        0 => "nullptr",
        1 if format_version >= 5 => "ribbonfilter:10:-1",
        2 => "bloomfilter:7.3:false",
        _ => "bloomfilter:10:false",
    };
    let checksum = one(rng, &["kXXH3", "kXXH3", "kCRC32c", "kxxHash", "kxxHash64", "kNoChecksum"]);
    // The size of aligned blocks must be a power of 2.
    let block_size = if aligned { 1 << rng.u32(8..13) } else { rng.u32(200..5000) };
    let mut text = format!(
        "format_version={format_version};index_type={index};filter_policy={filter};checksum={checksum};block_size={block_size};\
         block_restart_interval={};metadata_block_size={};",
        rng.u32(1..20),
        rng.u32(100..3000),
    );
    if index != "kHashSearch" {
        text += &format!("index_block_restart_interval={};", rng.u32(1..6));
    }
    if index == "kTwoLevelIndexSearch" && rng.bool() {
        text += "partition_filters=true;";
    }
    if has_prefix && rng.u8(..3) == 0 {
        text += "whole_key_filtering=false;";
    }
    if rng.u8(..3) == 0 {
        text += &format!(
            "data_block_index_type=kDataBlockBinaryAndHash;data_block_hash_table_util_ratio={};",
            one(rng, &["0.5", "0.75", "1"])
        );
    }
    text += one(
        rng,
        &["", "", "index_shortening=kNoShortening;", "index_shortening=kShortenSeparatorsAndSuccessor;"],
    );
    text += one(rng, &["", "", "", "enable_index_compression=false;"]);
    text += one(rng, &["", "", "", "cache_index_and_filter_blocks=true;", "no_block_cache=true;"]);
    text += one(rng, &["", "", "", "verify_compression=true;"]);
    text += one(rng, &["", "", "", "block_size_deviation=40;"]);
    if aligned {
        text += "block_align=true;";
    }
    if level >= TargetVersion::V11_10 {
        text += one(rng, &["", "", "optimize_key_common_prefix=kEnabled;"]);
    }
    if level >= TargetVersion::V11 {
        text += one(rng, &["", "separate_key_value_in_data_block=true;"]);
        if !aligned && rng.u8(..4) == 0 {
            text += "super_block_alignment_size=4096;super_block_alignment_space_overhead_ratio=4;";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::options::{OptionStruct, cf_options_from_string};
    use esker::{ColumnFamilyOptions, DbOptions};

    #[test]
    fn esker_takes_every_mixture() {
        let mut rng = esker_testkit::seed::rng("mixtures");
        for level in TargetVersion::ALL {
            for _ in 0..300 {
                let mixture = Mixture::random(&mut rng, level);
                let family = cf_options_from_string(&ColumnFamilyOptions::default(), &mixture.family)
                    .unwrap_or_else(|e| panic!("{}: {e}", mixture.family));
                let mut db = DbOptions { compatible_with: level, ..DbOptions::default() };
                db.set_from_string(&mixture.esker_db).expect("options of the database");
                family
                    .validate()
                    .and_then(|()| family.validate_target(&db))
                    .expect("the drawn options are compatible");
            }
        }
    }
}
