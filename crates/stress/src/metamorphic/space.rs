//! The options: the possible values of each, and the choices for one opening.
//!
//! In: a seed, the number of an opening, names to leave alone. Out: options that the engine
//! accepts, and the list of choices, as text.
//!
//! Every option with a text form is here with its values, or in [`LEFT_ALONE`] with the reason, or
//! is a flag, which is drawn without being listed. [`unvaried`] returns all other options.

use super::ops::{FAMILIES, has_stamps};
use super::stamped::STAMPED;
use crate::stamped;
use esker::comparator::{BytewiseComparator, ReverseBytewiseComparator};
use esker::internals::env::Env;
use esker::internals::table::BlockBasedTableOptions;
use esker::options::{
    BlockCache, CacheOptions, CacheType, CompactionStyle, ConcurrentTaskLimiter, OptionStruct, Statistics,
    WalRecoveryMode, WriteBufferManager,
};
use esker::txn::{OccValidationPolicy, WritePolicy};
use esker::{ColumnFamilyDescriptor, ColumnFamilyOptions, DbOptions, builtin};
use esker_testkit::timestamps::TimestampFormat;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A name and its values. A value listed twice is drawn twice as often.
type Knob = (&'static str, &'static [&'static str]);

const DB: &[Knob] = &[
    ("max_open_files", &["-1", "20", "100"]),
    ("max_background_jobs", &["1", "2", "4", "8"]),
    ("max_background_compactions", &["-1", "1", "3"]),
    ("max_background_flushes", &["-1", "1", "2"]),
    ("max_subcompactions", &["1", "2", "4"]),
    ("max_total_wal_size", &["0", "20k", "200k"]),
    ("bytes_per_sync", &["0", "4k", "1m"]),
    ("wal_bytes_per_sync", &["0", "512", "4k"]),
    ("wal_compression", &["kNoCompression", "kNoCompression", "kZSTD"]),
    ("compaction_readahead_size", &["0", "4k", "2m"]),
    ("writable_file_max_buffer_size", &["4k", "64k", "1m"]),
    ("delayed_write_rate", &["0", "1g"]),
    ("db_write_buffer_size", &["0", "128k", "1m"]),
    ("max_write_batch_group_size_bytes", &["1k", "1m"]),
    ("max_manifest_file_size", &["100", "4k", "1g"]),
    ("delete_obsolete_files_period_micros", &["0", "21600000000"]),
    ("max_file_opening_threads", &["1", "16"]),
    ("stats_dump_period_sec", &["0", "600"]),
    ("daily_offpeak_time_utc", &["", "00:00-23:59"]),
    ("max_compaction_trigger_wakeup_seconds", &["1", "43200"]),
    ("max_bgerror_resume_count", &["0", "1", "2147483647"]),
    ("bgerror_resume_retry_interval", &["1000", "1000000"]),
    ("info_log_level", &["DEBUG_LEVEL", "INFO_LEVEL", "ERROR_LEVEL"]),
    ("max_log_file_size", &["0", "4k"]),
    ("keep_log_file_num", &["1", "5"]),
    ("file_checksum_gen_factory", &["nullptr", "FileChecksumGenCrc32cFactory"]),
    ("compatible_with", &["11.10"]),
    ("max_manifest_space_amp_pct", &["0", "10", "500"]),
    ("manifest_preallocation_size", &["0", "4k", "4m"]),
    ("db_host_id", &["__hostname__", "a host"]),
    ("best_efforts_recovery", &["false", "true"]),
];

const FAMILY: &[Knob] = &[
    (
        "prefix_extractor",
        &["nullptr", "rocksdb.FixedPrefix.1", "rocksdb.FixedPrefix.2", "rocksdb.CappedPrefix.3"],
    ),
    ("write_buffer_size", &["64k", "64k", "128k", "1m"]),
    ("max_write_buffer_number", &["2", "3", "6"]),
    ("min_write_buffer_number_to_merge", &["1", "2", "3"]),
    ("max_write_buffer_size_to_maintain", &["0", "-1", "100k"]),
    ("arena_block_size", &["0", "4k", "32k"]),
    ("memtable_protection_bytes_per_key", &["0", "0", "1", "2", "4", "8"]),
    ("block_protection_bytes_per_key", &["0", "0", "1", "8"]),
    ("memtable_prefix_bloom_size_ratio", &["0", "0.1", "0.25"]),
    ("max_successive_merges", &["0", "1", "4"]),
    ("level0_file_num_compaction_trigger", &["1", "2", "4"]),
    ("level0_slowdown_writes_trigger", &["20", "1000"]),
    ("level0_stop_writes_trigger", &["36", "1000"]),
    ("target_file_size_base", &["2k", "16k", "64m"]),
    ("target_file_size_multiplier", &["1", "2"]),
    ("read_triggered_compaction_threshold", &["0", "0", "0.00001"]),
    ("max_bytes_for_level_base", &["4k", "64k", "256m"]),
    ("max_bytes_for_level_multiplier", &["1.5", "4", "10"]),
    ("max_bytes_for_level_multiplier_additional", &["", "1:2:1:3:1:1:1"]),
    ("max_compaction_bytes", &["0", "10k", "1m"]),
    ("soft_pending_compaction_bytes_limit", &["0", "64g"]),
    ("hard_pending_compaction_bytes_limit", &["0", "256g"]),
    (
        "compaction_options_universal",
        &[
            "",
            "{size_ratio=20;min_merge_width=2;max_merge_width=3;}",
            "{max_size_amplification_percent=20;allow_trivial_move=true;}",
            "{max_size_amplification_percent=20;incremental=true;}",
            "{stop_style=kCompactionStopStyleSimilarSize;compression_size_percent=50;max_read_amp=0;}",
        ],
    ),
    (
        "compaction_options_fifo",
        &[
            "{max_table_files_size=100g;}",
            "{max_table_files_size=100g;allow_compaction=true;}",
            "{max_data_files_size=100g;allow_compaction=true;use_kv_ratio_compaction=true;}",
        ],
    ),
    (
        "compaction_pri",
        &[
            "kMinOverlappingRatio",
            "kByCompensatedSize",
            "kOldestLargestSeqFirst",
            "kOldestSmallestSeqFirst",
            "kRoundRobin",
        ],
    ),
    ("preserve_internal_time_seconds", &["0", "3600"]),
    ("preclude_last_level_data_seconds", &["0", "1", "3600"]),
    ("last_level_temperature", &["kUnknown", "kCold"]),
    ("default_write_temperature", &["kUnknown", "kHot"]),
    (
        "compression",
        &["kNoCompression", "kSnappyCompression", "kLZ4Compression", "kZlibCompression", "kZSTD"],
    ),
    (
        "bottommost_compression",
        &["kDisableCompressionOption", "kNoCompression", "kLZ4HCCompression", "kZSTD"],
    ),
    (
        "compression_opts",
        &[
            "",
            "{max_dict_bytes=1k;}",
            "{max_dict_bytes=4k;zstd_max_train_bytes=16k;max_dict_buffer_bytes=8k;}",
            "{level=1;}",
            "{max_compressed_bytes_per_kb=500;checksum=true;}",
            "{max_compressed_bytes_per_kb=1024;}",
        ],
    ),
    ("sample_for_compression", &["0", "1", "5"]),
    ("uncache_aggressiveness", &["0", "1", "300", "10000"]),
    ("bottommost_compression_opts", &["", "{enabled=true;max_dict_bytes=2k;}"]),
    ("compression_per_level", &["", "kNoCompression:kSnappyCompression:kZSTD"]),
    ("min_blob_size", &["0", "40", "500"]),
    ("blob_file_size", &["1k", "16k", "256m"]),
    ("blob_compression_type", &["kNoCompression", "kLZ4Compression", "kZSTD"]),
    ("prepopulate_blob_cache", &["kDisable", "kFlushOnly"]),
    ("blob_garbage_collection_age_cutoff", &["0", "0.25", "1"]),
    ("blob_garbage_collection_force_threshold", &["0.1", "0.8", "1"]),
    ("blob_file_starting_level", &["0", "1", "4"]),
    ("verify_output_flags", &["0", "1025", "1026", "4097", "4294967295"]),
    ("max_sequential_skip_in_iterations", &["0", "1", "8", "1000"]),
    ("min_tombstones_for_range_conversion", &["0", "1", "8"]),
    ("memtable_op_scan_flush_trigger", &["0", "1", "100"]),
    ("memtable_avg_op_scan_flush_trigger", &["0", "2"]),
    ("memtable_max_range_deletions", &["0", "1", "20"]),
    ("blob_compression_opts", &["", "{level=1;}", "{level=9;max_dict_bytes=1k;}"]),
];

const TABLE: &[Knob] = &[
    ("block_size", &["64", "512", "4k", "64k"]),
    ("block_size_deviation", &["0", "10", "50"]),
    ("block_restart_interval", &["1", "2", "16"]),
    ("index_block_restart_interval", &["1", "3", "16"]),
    ("format_version", &["2", "3", "4", "5", "6", "7", "8"]),
    ("optimize_key_common_prefix", &["kDisabled", "kIfFastSeek", "kEnabled"]),
    ("checksum", &["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"]),
    ("filter_policy", &["nullptr", "bloomfilter:2:false", "bloomfilter:10:false", "ribbonfilter:10:-1"]),
    (
        "index_type",
        &[
            "kBinarySearch",
            "kHashSearch",
            "kTwoLevelIndexSearch",
            "kTwoLevelIndexSearch",
            "kBinarySearchWithFirstKey",
        ],
    ),
    ("metadata_block_size", &["16", "256", "4k"]),
    ("data_block_index_type", &["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"]),
    ("data_block_hash_table_util_ratio", &["0.5", "0.75", "1"]),
    ("super_block_alignment_size", &["0", "0", "4k"]),
    ("super_block_alignment_space_overhead_ratio", &["0", "4", "128"]),
    ("index_shortening", &["kNoShortening", "kShortenSeparators", "kShortenSeparatorsAndSuccessor"]),
    (
        "metadata_cache_options",
        &[
            "",
            "{top_level_index_pinning=kAll;partition_pinning=kAll;unpartitioned_pinning=kFlushedAndSimilar;}",
        ],
    ),
    ("prepopulate_block_cache", &["kDisable", "kFlushOnly", "kFlushAndCompaction"]),
    (
        "block_cache",
        &[
            "{id=lru_cache;capacity=16k;num_shard_bits=0}",
            "{id=lru_cache;capacity=4m}",
            "{id=fixed_hyper_clock_cache;capacity=64k;estimated_entry_charge=4096}",
            "{id=auto_hyper_clock_cache;capacity=64k}",
            "{id=auto_hyper_clock_cache;capacity=8m}",
            "{id=lru_cache;capacity=32k;num_shard_bits=0;compressed_secondary_cache={capacity=256k}}",
        ],
    ),
    ("initial_auto_readahead_size", &["0", "8k"]),
    ("max_auto_readahead_size", &["0", "256k"]),
    ("num_file_reads_for_auto_readahead", &["0", "2"]),
];

/// Options of families that all openings of a database share, because existing files depend on
/// them.
const LASTING: &[Knob] = &[
    (
        "compaction_style",
        &[
            "kCompactionStyleLevel",
            "kCompactionStyleLevel",
            "kCompactionStyleUniversal",
            "kCompactionStyleFIFO",
        ],
    ),
    ("num_levels", &["2", "4", "7"]),
    ("cf_allow_ingest_behind", &["false", "false", "true"]),
];

/// Options of the database that all openings share. Recovery without recycling takes the end of a
/// recycled WAL for damage. Universal families have at least three levels with
/// `allow_ingest_behind`.
const LASTING_DB: &[Knob] = &[
    ("allow_ingest_behind", &["false", "false", "false", "true"]),
    ("recycle_log_file_num", &["0", "1", "3"]),
    ("wal_recovery_mode", &["kPointInTimeRecovery", "kTolerateCorruptedTailRecords", "kAbsoluteConsistency"]),
];

/// Options that keep their defaults, and the reasons.
const LEFT_ALONE: &[(&str, &str)] = &[
    ("unordered_write", "without effect, and refused beside others"),
    ("allow_mmap_reads", "without effect, and refused beside others"),
    ("allow_mmap_writes", "without effect, and refused beside others"),
    ("write_thread_max_yield_usec", "without effect: docs/compat/options.md"),
    ("write_thread_slow_yield_usec", "without effect: docs/compat/options.md"),
    ("table_cache_numshardbits", "without effect: docs/compat/options.md"),
    ("read_io_executor_threads", "without effect: docs/compat/options.md"),
    ("log_readahead_size", "without effect: docs/compat/options.md"),
    ("stats_persist_period_sec", "counts what happens, at times"),
    ("stats_history_buffer_size", "bounds what `stats_persist_period_sec` keeps"),
    ("lowest_used_cache_tier", "without effect: docs/compat/options.md"),
    ("metadata_write_temperature", "without effect: docs/compat/options.md"),
    ("wal_write_temperature", "without effect: docs/compat/options.md"),
    ("periodic_compaction_phase_recovery_percent", "without effect: docs/compat/options.md"),
    ("remote_compaction_manifest_floor", "without effect: docs/compat/options.md"),
    ("use_session_tmp_dir_for_remote_compaction", "without effect: docs/compat/options.md"),
    ("blob_file_writable_file_max_buffer_size", "without effect: docs/compat/options.md"),
    ("index_mode", "without effect: docs/compat/options.md"),
    ("follower_refresh_catchup_period_ms", "of followers: esker/tests/it/follower.rs"),
    ("follower_catchup_retry_count", "of followers: esker/tests/it/follower.rs"),
    ("follower_catchup_retry_wait_ms", "of followers: esker/tests/it/follower.rs"),
    ("memtable_factory", "without effect: docs/compat/options.md"),
    ("memtable_insert_with_hint_prefix_extractor", "without effect: docs/compat/options.md"),
    ("memtable_huge_page_size", "without effect: docs/compat/options.md"),
    ("bloom_locality", "without effect: docs/compat/options.md"),
    ("inplace_update_num_locks", "without effect: docs/compat/options.md"),
    ("experimental_mempurge_threshold", "without effect: docs/compat/options.md"),
    ("blob_direct_write_partitions", "without effect: docs/compat/options.md"),
    ("blob_compaction_readahead_size", "without effect: docs/compat/options.md"),
    ("bottommost_file_compaction_delay", "without effect: docs/compat/options.md"),
    ("default_temperature", "without effect: docs/compat/options.md"),
    ("index_block_search_type", "without effect: docs/compat/options.md"),
    ("uniform_cv_threshold", "without effect: docs/compat/options.md"),
    ("read_amp_bytes_per_bit", "without effect: docs/compat/options.md"),
    ("wal_filter", "a filter drops what the model has"),
    ("persist_stats_to_disk", "a family that no answer shows: esker/tests/it/stats_history.rs"),
    ("disallow_memtable_writes", "refused"),
    ("compression_manager", "text makes none"),
    ("sst_partitioner_factory", "refused"),
    ("user_defined_index_factory", "refused"),
    ("use_udi_as_primary_index", "refused"),
    ("flush_block_policy_factory", "one entry a block: esker/tests/it/flush_block_policy.rs"),
    ("rate_limiter", "the database would be as slow as it says"),
    ("statistics", "drawn in `draw_db`"),
    ("blob_cache", "drawn with the block cache"),
    ("compaction_filter", "text makes none"),
    ("compaction_filter_factory", "text makes none"),
    ("create_if_missing", "always true"),
    ("create_missing_column_families", "always true"),
    ("error_if_exists", "reopening would fail"),
    ("wal_dir", "a process that dies is simulated with one directory"),
    ("db_log_dir", "the same"),
    ("WAL_ttl_seconds", "archived WALs answer nothing"),
    ("WAL_size_limit_MB", "archived WALs answer nothing"),
    ("log_file_time_to_roll", "depends on time"),
    ("dump_malloc_stats", "says nothing"),
    ("comparator", "is the family's"),
    ("merge_operator", "is the family's"),
    ("persist_user_defined_timestamps", "without timestamps it means nothing"),
    ("disable_auto_compactions", "drawn with an upper bound for level 0: see `draw_family`"),
    ("ttl", "depends on time"),
    ("periodic_compaction_seconds", "depends on time"),
];

/// The kind of database that an opening opens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OpenedAs {
    Plain,
    Pessimistic,
    Optimistic(OccValidationPolicy),
}

/// The options of one opening.
pub(super) struct Opening {
    pub(super) opened_as: OpenedAs,
    /// The write policy, if it is opened for transactions.
    pub(super) write_policy: WritePolicy,
    /// `default_write_batch_flush_threshold`, for `WriteUnprepared`.
    pub(super) spill_threshold: i64,
    pub(super) db: DbOptions,
    pub(super) families: Vec<ColumnFamilyOptions>,
    /// One write in this many skips the WAL; 0 for none.
    pub(super) unlogged_one_in: u32,
    /// The choices as text, for reports.
    pub(super) described: Vec<String>,
}

/// Bits of [`Space::seed`] below those of the list.
pub(super) const SET_BITS: u32 = 16;

/// The source of options.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) seed: u64,
    /// Names that keep their defaults.
    pub(super) without: BTreeSet<String>,
}

/// Names of options that no opening varies.
pub(super) fn unvaried() -> Vec<&'static str> {
    fn of<T: OptionStruct + Default>(knobs: &'static [Knob]) -> Vec<&'static str> {
        let is_drawn = |name: &str| {
            let named = knobs.iter().chain(LASTING).chain(LASTING_DB).any(|(n, _)| *n == name);
            named || LEFT_ALONE.iter().any(|(n, _)| *n == name) || flag::<T>(name).is_some()
        };
        let with_text = T::all_options().iter().filter(|o| o.text.is_some() || o.read.is_some());
        with_text.map(|o| o.name).filter(|name| !is_drawn(name)).collect()
    }
    [of::<DbOptions>(DB), of::<ColumnFamilyOptions>(FAMILY), of::<BlockBasedTableOptions>(TABLE)].concat()
}

/// The default of an option, if the option is a flag.
fn flag<T: OptionStruct + Default>(name: &str) -> Option<bool> {
    match T::default().text_of(name)?.as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

impl Space {
    fn rng(&self, opening: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ opening)
    }

    /// The options of opening `number`. They are drawn again until the engine accepts them.
    pub(super) fn opening(&self, number: u64, env: &Env) -> Opening {
        let lasting = self.lasting(LASTING);
        let mut rng = self.rng(number.wrapping_add(1));
        let mut described = Vec::new();
        let mut db = accepted(&mut described, |described| {
            let db = self.draw_db(&mut rng, env, described);
            is_db_accepted(&db).then_some(db)
        });
        let cache = rng.u64(..);
        let families: Vec<_> = (0..FAMILIES.len())
            .map(|family| {
                accepted(&mut described, |described| {
                    let options = self.draw_family(family, &lasting, cache, &mut rng, described);
                    is_family_accepted(&db, &options).then_some(options)
                })
            })
            .collect();
        let two_phase = self.has_two_phases();
        let opened_as = match rng.u8(..6) {
            0 | 1 if two_phase => OpenedAs::Pessimistic,
            2 if !self.without.contains("opened-as") => OpenedAs::Optimistic(match rng.bool() {
                true => OccValidationPolicy::ValidateSerial,
                false => OccValidationPolicy::ValidateParallel,
            }),
            _ => OpenedAs::Plain,
        };
        db.allow_2pc |= two_phase;
        described.push(format!("opened-as={opened_as:?}"));
        let (write_policy, spill_threshold) = self.draw_policy(&mut rng);
        described.push(format!("write_policy={write_policy:?}, spills from {spill_threshold}"));
        let unlogged = !self.without.contains("unlogged") && db.recycle_log_file_num == 0 && rng.u8(..4) == 0;
        if unlogged {
            described.push("unlogged".to_owned());
        }
        let unlogged_one_in = u32::from(unlogged) * 5;
        Opening { opened_as, write_policy, spill_threshold, db, families, unlogged_one_in, described }
    }

    /// The write policy of an opening, and the bytes after which transactions spill.
    fn draw_policy(&self, rng: &mut fastrand::Rng) -> (WritePolicy, i64) {
        let policies =
            [WritePolicy::WriteCommitted, WritePolicy::WritePrepared, WritePolicy::WriteUnprepared];
        let (policy, threshold) = (policies[rng.usize(1..6) / 2], [0, 1, 1, 200][rng.usize(..4)]);
        match self.has_stamps() || self.without.contains("write_policy") {
            true => (WritePolicy::WriteCommitted, 0),
            false => (policy, threshold),
        }
    }

    /// Whether the last family has timestamps.
    pub(super) fn has_stamps(&self) -> bool {
        has_stamps(self.seed >> SET_BITS)
    }

    /// Options for one opening of any database, and for all its families. They are those of
    /// `opening`, without options that lose acknowledged writes when a process is killed, or that
    /// are too slow with much data.
    pub(super) fn any_database(&self, number: u64, env: &Env) -> (DbOptions, ColumnFamilyOptions) {
        let Opening { mut db, families, .. } = self.opening(number, env);
        db.manual_wal_flush = false;
        db.wal_recovery_mode = WalRecoveryMode::PointInTimeRecovery;
        let mut family = families.into_iter().next().expect("the list of families is not empty");
        if family.compaction_style == CompactionStyle::Fifo {
            family.compaction_style = CompactionStyle::Level;
        }
        family.disable_auto_compactions = false;
        (db, family)
    }

    /// Whether there are two-phase transactions. All openings must then understand their WAL
    /// records.
    fn has_two_phases(&self) -> bool {
        self.rng(0).bool() && !self.without.contains("opened-as")
    }

    /// The format of timestamps, which all openings share.
    pub(super) fn timestamps(&self) -> TimestampFormat {
        // Databases with transactions need timestamps of eight bytes.
        let format = TimestampFormat::of_seed(self.rng(u64::MAX).u64(..));
        if self.has_two_phases() { TimestampFormat::new(format.order(), 8) } else { format }
    }

    /// Random changes of a family's mutable options, as `set_options` takes them.
    pub(super) fn changes(&self, seed: u64) -> Vec<(String, String)> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let is_mutable = |name: &str| {
            let info = ColumnFamilyOptions::find(name);
            info.is_some_and(|o| o.kind == esker::options::OptionKind::Mutable)
        };
        let mut changes = Vec::new();
        for _ in 0..rng.usize(1..4) {
            let (name, values) = FAMILY[rng.usize(..FAMILY.len())];
            if is_mutable(name) && !self.without.contains(name) {
                changes.push((name.to_owned(), values[rng.usize(..values.len())].to_owned()));
            }
        }
        changes
    }

    /// The values of `knobs`, which all openings share.
    fn lasting(&self, knobs: &[Knob]) -> Vec<(&'static str, &'static str)> {
        let mut rng = self.rng(0);
        let draws = knobs.iter().map(|(name, values)| (*name, values[rng.usize(..values.len())]));
        let draws: Vec<_> = draws.collect();
        draws.into_iter().filter(|(name, _)| !self.without.contains(*name)).collect()
    }

    /// Draws each option with one chance in three.
    fn draw<T: OptionStruct + Default>(
        &self,
        target: &mut T,
        knobs: &[Knob],
        rng: &mut fastrand::Rng,
        described: &mut Vec<String>,
    ) {
        for option in T::all_options() {
            let (name, roll) = (option.name, rng.u64(..));
            if roll % 3 != 0
                || LEFT_ALONE.iter().any(|(n, _)| *n == name)
                || LASTING.iter().chain(LASTING_DB).any(|(n, _)| *n == name)
            {
                continue;
            }
            let knob = knobs.iter().find(|(n, _)| *n == name);
            let value = match (knob, flag::<T>(name)) {
                (Some((_, values)), _) => values[(roll / 3) as usize % values.len()],
                (None, Some(default)) => {
                    if default {
                        "false"
                    } else {
                        "true"
                    }
                }
                (None, None) => continue,
            };
            if !self.without.contains(name) && target.set_text(name, value).is_ok() {
                described.push(format!("{name}={value}"));
            }
        }
    }

    fn draw_db(&self, rng: &mut fastrand::Rng, env: &Env, described: &mut Vec<String>) -> DbOptions {
        let mut db = DbOptions {
            create_if_missing: true,
            create_missing_column_families: true,
            delayed_write_rate: 1 << 30,
            stats_dump_period_sec: 0,
            info_log_level: esker::options::InfoLogLevel::Error,
            keep_log_file_num: 2,
            env: env.clone(),
            compatible_with: esker::options::TargetVersion::V11_10,
            ..DbOptions::default()
        };
        self.draw(&mut db, DB, rng, described);
        for (name, value) in self.lasting(LASTING_DB) {
            db.set_text(name, value).expect("the option accepts its listed values");
            described.push(format!("{name}={value}"));
        }
        db.compatible_with = esker::options::TargetVersion::V11_10;
        let (statistics, manager) = (rng.bool(), rng.u8(..4) == 0);
        let rows = [0, 0, 4 << 10, 1 << 20][rng.usize(..4)];
        if rows > 0 && !self.without.contains("row_cache") {
            let cache_type = if rng.bool() { CacheType::Lru } else { CacheType::AutoHyperClock };
            let options = CacheOptions { cache_type, ..CacheOptions::with_capacity(rows) };
            db.row_cache = Some(Arc::new(BlockCache::new(&options).expect("the options are allowed")));
            described.push(format!("row_cache={rows}"));
        }
        if statistics && !self.without.contains("statistics") {
            db.statistics = Some(Arc::new(Statistics::default()));
        }
        if manager && !self.without.contains("write_buffer_manager") {
            db.write_buffer_manager = Some(Arc::new(WriteBufferManager::new(256 << 10, false)));
            described.push("write_buffer_manager".to_owned());
        }
        db
    }

    fn draw_family(
        &self,
        family: usize,
        lasting: &[(&str, &str)],
        cache: u64,
        rng: &mut fastrand::Rng,
        described: &mut Vec<String>,
    ) -> ColumnFamilyOptions {
        let mut options = ColumnFamilyOptions {
            write_buffer_size: 64 << 10,
            target_file_size_base: 16 << 10,
            max_bytes_for_level_base: 64 << 10,
            level0_slowdown_writes_trigger: 1000,
            level0_stop_writes_trigger: 1000,
            ttl: 0,
            periodic_compaction_seconds: 0,
            ..ColumnFamilyOptions::default()
        };
        described.push(format!("[{}]", FAMILIES[family]));
        self.draw(&mut options, FAMILY, rng, described);
        // Without this, a flush would forget all timestamps but the newest.
        options.persist_user_defined_timestamps = true;
        for (name, value) in lasting {
            options.set_text(name, value).expect("the option accepts its listed values");
            described.push(format!("{name}={value}"));
        }
        let mut table = BlockBasedTableOptions::default();
        self.draw(&mut table, TABLE, rng, described);
        options.table = table;
        (options.deleted_run_block_min_entries, options.deleted_run_memory_min_keys) =
            ([0, 1, 3, 64][rng.usize(..4)], [0, 1, 2, 256][rng.usize(..4)]);
        let dead = options.deleted_run_block_min_entries + options.deleted_run_memory_min_keys;
        options.pre_scan_min_entries = [0, 1, 4, 4096][dead as usize % 4];
        if self.without.contains("dead") {
            (options.deleted_run_block_min_entries, options.deleted_run_memory_min_keys) = (0, 0);
        }
        described.push(format!(
            "dead={}/{}/{}",
            options.deleted_run_block_min_entries,
            options.deleted_run_memory_min_keys,
            options.pre_scan_min_entries
        ));
        options.disable_auto_compactions =
            rng.u8(..12) == 0 && !self.without.contains("disable_auto_compactions");
        if cache.is_multiple_of(4) && !self.without.contains("blob_cache") {
            options.blob_cache.clone_from(&options.table.block_cache);
        }
        if cache % 4 == 1 && !self.without.contains("compaction_thread_limiter") {
            let limiter = ConcurrentTaskLimiter::new("one", 1);
            options.compaction_thread_limiter = Some(Arc::new(limiter));
            described.push("compaction_thread_limiter=1".to_owned());
        }
        (options.comparator, options.merge_operator) = match family {
            0 => (Arc::new(BytewiseComparator) as _, Some(builtin::string_append(","))),
            1 => (Arc::new(ReverseBytewiseComparator) as _, Some(builtin::uint64_add())),
            STAMPED if self.has_stamps() => {
                (stamped::comparator(self.timestamps()), Some(builtin::string_append(",")))
            }
            _ => (Arc::new(BytewiseComparator) as _, Some(builtin::max())),
        };
        options
    }
}

/// Draws until the engine accepts the result. Forgets the choices of rejected draws.
fn accepted<T>(described: &mut Vec<String>, mut draw: impl FnMut(&mut Vec<String>) -> Option<T>) -> T {
    let before = described.len();
    loop {
        if let Some(drawn) = draw(described) {
            return drawn;
        }
        described.truncate(before);
    }
}

fn is_db_accepted(db: &DbOptions) -> bool {
    let mut db = db.clone();
    db.sanitize();
    db.validate().is_ok()
}

fn is_family_accepted(db: &DbOptions, family: &ColumnFamilyOptions) -> bool {
    let (mut db, mut family) = (db.clone(), family.clone());
    db.sanitize();
    family.sanitize(&db);
    family.validate().and_then(|()| family.validate_target(&db)).is_ok()
}

impl Opening {
    pub(super) fn descriptors(&self) -> Vec<ColumnFamilyDescriptor> {
        let pairs = FAMILIES.iter().zip(&self.families);
        pairs.map(|(name, options)| ColumnFamilyDescriptor::new(*name, options.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::internals::env::mem::MemFs;

    /// A new option must be a flag or have values here, so that it is drawn at once.
    #[test]
    fn every_name_is_an_option_and_every_value_one_of_its_values() {
        fn check<T: OptionStruct + Default>(knobs: &[Knob]) {
            for (name, values) in knobs {
                for value in *values {
                    T::default().set_text(name, value).unwrap_or_else(|e| panic!("{name}={value}: {e}"));
                }
            }
        }
        check::<DbOptions>(DB);
        check::<DbOptions>(LASTING_DB);
        check::<ColumnFamilyOptions>(FAMILY);
        check::<ColumnFamilyOptions>(LASTING);
        check::<BlockBasedTableOptions>(TABLE);
    }

    #[test]
    fn a_seed_draws_the_same_again_and_less_without_names() {
        let env = Env::with_fs(Arc::new(MemFs::new()));
        let space = Space { seed: 7, without: BTreeSet::new() };
        let described = |space: &Space, n| space.opening(n, &env).described;
        assert_eq!(described(&space, 3), described(&space, 3));
        assert_ne!(described(&space, 3), described(&space, 4));
        let without = Space { seed: 7, without: ["block_size".to_owned()].into() };
        assert!((0..20).all(|n| described(&without, n).iter().all(|t| !t.starts_with("block_size="))));
    }
}
