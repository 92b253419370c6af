//! Makes options consistent, and refuses options without a meaning.
//!
//! In: options as the user gave them. Out: options that the engine can trust, with one sentence for
//! each change, for the LOG; or an error that names the option. Source: RocksDB
//! `db/column_family.cc` (`SanitizeCfOptions`, `ValidateOptions`), `db/db_impl/db_impl_open.cc`.
//!
//! Invariants
//!  1. Consistent options are left unchanged the next time.
//!  2. Options that pass `validate` and were made consistent never divide by zero or overflow in
//!     the engine.

use super::value::{OptionValue, object_name};
use super::{
    CHOOSE_AT_OPEN, ColumnFamilyOptions, CompactionStyle, DbOptions, Options, Temperature, WalRecoveryMode,
};
use esker_base::comparator::Comparator;
use esker_base::entry_checksum::PROTECTION_BYTES;
use esker_base::{Error, Result};
use esker_cache::Role;
use esker_env::descriptors::data_file_limit;
use esker_env::system::open_files_limit;
use esker_format::compression::CompressionType;
use esker_format::compression::manager::{BUILT_IN_COMPRESSION, check_compatibility_name};
use esker_format::log::RecordCompressor;
use esker_format::properties::IndexType;
use esker_table::BlockCache;
use esker_table::DataBlockIndexType;
use esker_table::cache_options::{CacheUsageOptions, Decision};
use std::sync::Arc;

/// Default age at which files are compacted, in seconds.
const THIRTY_DAYS: u64 = 30 * 24 * 60 * 60;
/// Default bytes per second for slowed-down writers.
const DEFAULT_DELAYED_WRITE_RATE: u64 = 16 << 20;
/// Open files that a database cannot do without.
const MIN_OPEN_FILES: i32 = 20;
/// The most open files where the system has no limit for a process.
const MAX_OPEN_FILES: i32 = 0x40_0000;
/// Versions of the table format that can be written; more can be read.
pub(super) const FORMAT_VERSIONS_WRITTEN: std::ops::RangeInclusive<u32> = 2..=8;

/// More levels cost memory in every version and never hold a file.
const MAX_LEVELS: i32 = 64;

/// Collects what was changed.
struct Changes(Vec<String>);

impl Changes {
    fn set<T: OptionValue + PartialEq>(&mut self, name: &str, field: &mut T, value: T, why: &str) {
        if *field != value {
            self.0.push(format!("{name} changed from {} to {}: {why}", field.print(), value.print()));
            *field = value;
        }
    }
}

/// Number of tables and blob files that the process may have open beside its other files.
fn most_open_files() -> i32 {
    let limit = i32::try_from(data_file_limit()).unwrap_or(MAX_OPEN_FILES);
    if open_files_limit().is_none() { MAX_OPEN_FILES } else { limit.max(MIN_OPEN_FILES) }
}

impl DbOptions {
    /// Makes the options consistent. Returns one sentence for each option whose set value was
    /// changed, but none for a default that was filled in.
    pub fn sanitize(&mut self) -> Vec<String> {
        let mut changes = Changes(Vec::new());
        if self.max_open_files != -1 {
            let clipped = self.max_open_files.clamp(MIN_OPEN_FILES, most_open_files());
            changes.set("max_open_files", &mut self.max_open_files, clipped, "out of range");
        }
        if self.rate_limiter.is_some() && self.bytes_per_sync == 0 {
            changes.set("bytes_per_sync", &mut self.bytes_per_sync, 1 << 20, "a rate limiter is set");
        }
        if self.delayed_write_rate == 0 {
            let limited = self.rate_limiter.as_ref().map(|limiter| limiter.bytes_per_second());
            self.delayed_write_rate = limited.unwrap_or(DEFAULT_DELAYED_WRITE_RATE);
        }
        if self.wal_ttl_seconds > 0 || self.wal_size_limit_mb > 0 {
            let why = "archived WALs cannot be recycled";
            changes.set("recycle_log_file_num", &mut self.recycle_log_file_num, 0, why);
        }
        if matches!(
            self.wal_recovery_mode,
            WalRecoveryMode::TolerateCorruptedTailRecords | WalRecoveryMode::AbsoluteConsistency
        ) {
            let why = "this wal_recovery_mode cannot tell old data in a recycled WAL from damage";
            changes.set("recycle_log_file_num", &mut self.recycle_log_file_num, 0, why);
        }
        if !matches!(self.wal_compression, CompressionType::None | CompressionType::Zstd) {
            let why = "only zstd is supported";
            changes.set("wal_compression", &mut self.wal_compression, CompressionType::None, why);
        }
        if self.wal_compression != CompressionType::None && !RecordCompressor::IS_BUILT_IN {
            let why = "Esker was built without its feature `zstd`";
            changes.set("wal_compression", &mut self.wal_compression, CompressionType::None, why);
        }
        if self.allow_2pc && self.avoid_flush_during_recovery {
            let why = "what transactions of two phases left in several WALs is flushed at once";
            changes.set("avoid_flush_during_recovery", &mut self.avoid_flush_during_recovery, false, why);
        }
        if self.enable_pipelined_write && self.atomic_flush {
            let why = "atomic_flush needs the groups of writers one after the other";
            changes.set("enable_pipelined_write", &mut self.enable_pipelined_write, false, why);
        }
        let jobs = self.max_background_jobs.max(1);
        changes.set("max_background_jobs", &mut self.max_background_jobs, jobs, "at least one is needed");
        let subcompactions = self.max_subcompactions.max(1);
        changes.set(
            "max_subcompactions",
            &mut self.max_subcompactions,
            subcompactions,
            "at least one is needed",
        );
        let openers = self.max_file_opening_threads.max(1);
        let why = "at least one is needed";
        changes.set("max_file_opening_threads", &mut self.max_file_opening_threads, openers, why);
        changes.0
    }

    /// Refuses what has no meaning or is not built. Call it on the result of `sanitize`.
    ///
    /// ```
    /// let mut options = esker::DbOptions::new().max_background_jobs(4);
    /// options.sanitize();
    /// options.validate()?;
    /// assert_eq!(options.background_job_limits(), (1, 3));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument` or `NotSupported` naming the option.
    pub fn validate(&self) -> Result<()> {
        if self.keep_log_file_num == 0 {
            return Err(invalid("keep_log_file_num", "must be greater than 0"));
        }
        for (name, value) in [
            ("max_background_compactions", self.max_background_compactions),
            ("max_background_flushes", self.max_background_flushes),
        ] {
            if value < -1 {
                return Err(invalid(name, "must be -1 (derived) or not negative"));
            }
        }
        if self.use_direct_io_for_flush_and_compaction && self.writable_file_max_buffer_size == 0 {
            return Err(invalid("writable_file_max_buffer_size", "writes in direct IO require it to be > 0"));
        }
        if let Some(why) = self.wrong_offpeak_time() {
            return Err(invalid("daily_offpeak_time_utc", why));
        }
        super::paths::check_number("db_paths", &self.db_paths)?;
        self.validate_combinations()
    }

    /// Combinations that RocksDB refuses, too.
    fn validate_combinations(&self) -> Result<()> {
        let mapped = "must be off where files are mapped into memory";
        let ordered = "must be off with unordered_write";
        for (is_wrong, name, why) in [
            (self.allow_mmap_reads && self.use_direct_reads, "use_direct_reads", mapped),
            (
                self.allow_mmap_reads && self.use_direct_io_for_compaction_reads,
                "use_direct_io_for_compaction_reads",
                mapped,
            ),
            (
                self.allow_mmap_writes && self.use_direct_io_for_flush_and_compaction,
                "use_direct_io_for_flush_and_compaction",
                mapped,
            ),
        ] {
            if is_wrong {
                return Err(refused(name, why));
            }
        }
        if self.unordered_write && !self.allow_concurrent_memtable_write {
            return Err(invalid("allow_concurrent_memtable_write", "must be on with unordered_write"));
        }
        if self.unordered_write && self.enable_pipelined_write {
            return Err(invalid("enable_pipelined_write", ordered));
        }
        if self.read_io_executor_threads <= 0 {
            return Err(invalid("read_io_executor_threads", "must be greater than 0"));
        }
        if !self.write_dbid_to_manifest && !self.write_identity_file {
            let why = "write_dbid_to_manifest and write_identity_file cannot both be false";
            return Err(invalid("write_identity_file", why));
        }
        Ok(())
    }

    /// Most flushes and compactions that may run at once: (flushes, compactions). Needs `sanitize`
    /// first.
    pub fn background_job_limits(&self) -> (usize, usize) {
        let at_least_one = |n: i32| usize::try_from(n).unwrap_or(1).max(1);
        let (flushes, compactions) =
            if self.max_background_flushes == -1 && self.max_background_compactions == -1 {
                // A quarter of the jobs flush, the rest compact.
                let flushes = (self.max_background_jobs / 4).max(1);
                (flushes, self.max_background_jobs - flushes)
            } else {
                (self.max_background_flushes, self.max_background_compactions)
            };
        (at_least_one(flushes), at_least_one(compactions))
    }
}

impl ColumnFamilyOptions {
    /// Makes the options consistent with themselves and with `db`. Returns one sentence for each
    /// option whose set value was changed, but none for a default that was filled in.
    pub fn sanitize(&mut self, db: &DbOptions) -> Vec<String> {
        let mut changes = Changes(Vec::new());
        self.sanitize_memtables(db, &mut changes);
        self.cf_allow_ingest_behind |= db.allow_ingest_behind;
        self.sanitize_levels(&mut changes);
        self.sanitize_triggers(&mut changes);
        self.sanitize_table(&mut changes);
        self.choose_defaults();
        changes.0
    }

    fn sanitize_memtables(&mut self, db: &DbOptions, changes: &mut Changes) {
        // 64 KiB to 64 GiB.
        let size = (self.write_buffer_size as u64).clamp(64 << 10, 64 << 30);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        changes.set("write_buffer_size", &mut self.write_buffer_size, size, "out of range");
        let number = self.max_write_buffer_number.max(2);
        let why = "one is written while another is flushed";
        changes.set("max_write_buffer_number", &mut self.max_write_buffer_number, number, why);
        let merge = self.min_write_buffer_number_to_merge.min(number - 1).max(1);
        let why = "must be 1 to max_write_buffer_number - 1";
        changes.set(
            "min_write_buffer_number_to_merge",
            &mut self.min_write_buffer_number_to_merge,
            merge,
            why,
        );
        if db.atomic_flush {
            let why = "with atomic_flush every family flushes at once";
            changes.set(
                "min_write_buffer_number_to_merge",
                &mut self.min_write_buffer_number_to_merge,
                1,
                why,
            );
        }
        let ratio = self.memtable_prefix_bloom_size_ratio;
        let ratio = if ratio.is_nan() { 0.0 } else { ratio.clamp(0.0, 0.25) };
        let why = "must be 0 to 0.25";
        changes.set(
            "memtable_prefix_bloom_size_ratio",
            &mut self.memtable_prefix_bloom_size_ratio,
            ratio,
            why,
        );
        if self.max_write_buffer_size_to_maintain < 0 {
            let size = i64::try_from(self.write_buffer_size).unwrap_or(i64::MAX);
            self.max_write_buffer_size_to_maintain = size.saturating_mul(i64::from(number));
        }
        if self.arena_block_size == 0 {
            self.arena_block_size = (self.write_buffer_size / 8).min(1 << 20).next_multiple_of(4096);
        }
    }

    fn sanitize_levels(&mut self, changes: &mut Changes) {
        let least = match self.compaction_style {
            CompactionStyle::Level => 2,
            CompactionStyle::Universal if self.cf_allow_ingest_behind => 3,
            _ => 1,
        };
        let levels = self.num_levels.clamp(least, MAX_LEVELS);
        changes.set("num_levels", &mut self.num_levels, levels, "out of range");
        if self.compaction_style != CompactionStyle::Level {
            let why = "only has a meaning for levels";
            let field = &mut self.level_compaction_dynamic_level_bytes;
            changes.set("level_compaction_dynamic_level_bytes", field, false, why);
        }
        if self.compaction_style == CompactionStyle::Fifo {
            let (field, unknown) = (&mut self.last_level_temperature, Temperature::Unknown);
            changes.set("last_level_temperature", field, unknown, "FIFO has one level");
        }
        if self.cf_paths.len() > 1 {
            let why = "the path of a level follows from static level sizes";
            let field = &mut self.level_compaction_dynamic_level_bytes;
            changes.set("level_compaction_dynamic_level_bytes", field, false, why);
        }
        let multiplier = self.max_bytes_for_level_multiplier;
        if multiplier.is_nan() || multiplier <= 0.0 {
            let why = "must be greater than 0";
            changes.set("max_bytes_for_level_multiplier", &mut self.max_bytes_for_level_multiplier, 1.0, why);
        }
        let multiplier = self.target_file_size_multiplier.max(1);
        let why = "must be at least 1";
        changes.set("target_file_size_multiplier", &mut self.target_file_size_multiplier, multiplier, why);
        let base = self.target_file_size_base.max(1);
        changes.set("target_file_size_base", &mut self.target_file_size_base, base, why);
        if self.max_compaction_bytes == 0 {
            self.max_compaction_bytes = self.target_file_size_base.saturating_mul(25);
        }
        let (soft, hard) =
            (self.soft_pending_compaction_bytes_limit, self.hard_pending_compaction_bytes_limit);
        if soft == 0 {
            self.soft_pending_compaction_bytes_limit = hard;
        } else if hard > 0 && soft > hard {
            let why = "must not exceed hard_pending_compaction_bytes_limit";
            let field = &mut self.soft_pending_compaction_bytes_limit;
            changes.set("soft_pending_compaction_bytes_limit", field, hard, why);
        }
    }

    /// Level 0: compaction begins first, then writers are slowed down, then they stop.
    fn sanitize_triggers(&mut self, changes: &mut Changes) {
        if self.level0_file_num_compaction_trigger == 0 {
            let why = "cannot be 0";
            changes.set(
                "level0_file_num_compaction_trigger",
                &mut self.level0_file_num_compaction_trigger,
                1,
                why,
            );
        }
        let slowdown = self.level0_slowdown_writes_trigger.max(self.level0_file_num_compaction_trigger);
        let why = "must not be below level0_file_num_compaction_trigger";
        changes.set(
            "level0_slowdown_writes_trigger",
            &mut self.level0_slowdown_writes_trigger,
            slowdown,
            why,
        );
        if self.compaction_style == CompactionStyle::Fifo {
            // There may be any number of files in level 0.
            (self.level0_slowdown_writes_trigger, self.level0_stop_writes_trigger) = (i32::MAX, i32::MAX);
            return;
        }
        let stop = self.level0_stop_writes_trigger.max(slowdown);
        let why = "must not be below level0_slowdown_writes_trigger";
        changes.set("level0_stop_writes_trigger", &mut self.level0_stop_writes_trigger, stop, why);
    }

    fn sanitize_table(&mut self, changes: &mut Changes) {
        let table = &mut self.table;
        if table.index_type == IndexType::HashSearch {
            let field = &mut table.index_block_restart_interval;
            changes.set("index_block_restart_interval", field, 1, "index_type is kHashSearch");
        }
        if table.index_type != IndexType::TwoLevel {
            let why = "index_type is not kTwoLevelIndexSearch";
            changes.set("partition_filters", &mut table.partition_filters, false, why);
        }
    }

    fn choose_defaults(&mut self) {
        if self.ttl == CHOOSE_AT_OPEN {
            self.ttl = THIRTY_DAYS;
        }
        if self.periodic_compaction_seconds == CHOOSE_AT_OPEN {
            let filters = self.compaction_filter.is_some() || self.compaction_filter_factory.is_some();
            self.periodic_compaction_seconds = match self.compaction_style {
                CompactionStyle::Universal => THIRTY_DAYS,
                CompactionStyle::Level if filters => THIRTY_DAYS,
                _ => 0,
            };
        }
        if self.compaction_style == CompactionStyle::Universal && self.ttl > 0 {
            // With universal compaction both options mean that all runs are merged, so the shorter
            // time counts.
            self.periodic_compaction_seconds = match self.periodic_compaction_seconds {
                0 => self.ttl,
                seconds => seconds.min(self.ttl),
            };
        }
        if self.table.block_cache.is_none() && !self.table.no_block_cache {
            self.table.block_cache = Some(default_block_cache());
        }
    }

    /// Refuses what has no meaning or is not built. Call it on the result of `sanitize`.
    ///
    /// ```
    /// use esker::options::{CompressionType, TargetVersion};
    /// use esker::{ColumnFamilyOptions, DbOptions};
    ///
    /// let (db, mut options) = (DbOptions::new(), ColumnFamilyOptions::new());
    /// options.sanitize(&db);
    /// options.validate()?;
    /// options.limit_to(TargetVersion::V7_8);
    /// options.validate_target(&db)?;
    /// assert!(options.newer_features().is_empty());
    /// assert_eq!(options.compression_for(0, 1, false).0, CompressionType::Lz4);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument` or `NotSupported` naming the option.
    pub fn validate(&self) -> Result<()> {
        self.validate_resolved()?;
        if !PROTECTION_BYTES.contains(&self.memtable_protection_bytes_per_key) {
            return Err(invalid("memtable_protection_bytes_per_key", "must be 0, 1, 2, 4 or 8"));
        }
        if !PROTECTION_BYTES.contains(&self.block_protection_bytes_per_key) {
            return Err(invalid("block_protection_bytes_per_key", "must be 0, 1, 2, 4 or 8"));
        }
        let read_amp = self.compaction_options_universal.max_read_amp;
        let trigger = self.level0_file_num_compaction_trigger;
        if self.compaction_style == CompactionStyle::Universal
            && (read_amp < -1 || read_amp > 0 && read_amp < trigger)
        {
            let why = "max_read_amp must be -1, 0, or at least level0_file_num_compaction_trigger";
            return Err(invalid("compaction_options_universal", why));
        }
        self.validate_temperature_ages()?;
        if self.compaction_filter.is_some() && self.compaction_filter_factory.is_some() {
            return Err(invalid("compaction_filter_factory", "compaction_filter is set too: give only one"));
        }
        validate_timestamps(&*self.comparator)?;
        for (name, share) in [
            ("blob_garbage_collection_age_cutoff", self.blob_garbage_collection_age_cutoff),
            ("blob_garbage_collection_force_threshold", self.blob_garbage_collection_force_threshold),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return Err(invalid(name, "must be 0 to 1"));
            }
        }
        self.validate_compression()?;
        self.validate_unbuilt()?;
        self.validate_table()
    }

    /// Whether puts are arguments of `inplace_callback`.
    pub(crate) fn updates_in_place(&self) -> bool {
        self.inplace_update_support && self.inplace_callback.is_some()
    }

    /// Checks `inplace_callback` beside the options of the database.
    pub(crate) fn validate_in_place(&self, db: &DbOptions) -> Result<()> {
        if self.updates_in_place() && db.allow_concurrent_memtable_write {
            return Err(invalid(
                "inplace_update_support",
                "inplace_callback is not compatible with concurrent writes (allow_concurrent_memtable_write)",
            ));
        }
        Ok(())
    }

    fn validate_temperature_ages(&self) -> Result<()> {
        let ages = &self.compaction_options_fifo.file_temperature_age_thresholds;
        let why = if ages.is_empty() {
            return Ok(());
        } else if self.compaction_style != CompactionStyle::Fifo {
            "only FIFO compaction has it"
        } else if self.num_levels > 1 {
            "only families with num_levels = 1 can have it"
        } else if !ages.is_sorted_by(|a, b| a.age < b.age) {
            "the ages must increase"
        } else {
            return Ok(());
        };
        Err(refused("file_temperature_age_thresholds", why))
    }

    /// Options for features that are not built.
    fn validate_unbuilt(&self) -> Result<()> {
        if self.disallow_memtable_writes {
            return Err(refused("disallow_memtable_writes", "not built"));
        }
        if let Some(manager) = &self.compression_manager {
            check_compatibility_name(&**manager)?;
        }
        let own_codecs = self.compression_manager.as_ref().map(|manager| manager.compatibility_name());
        if own_codecs.is_some_and(|name| name != BUILT_IN_COMPRESSION) && self.table.format_version < 7 {
            return Err(invalid("compression_manager", "codecs of its own need format_version 7 or later"));
        }
        let threshold = self.read_triggered_compaction_threshold;
        if !(threshold.is_finite() && threshold >= 0.0) {
            return Err(invalid("read_triggered_compaction_threshold", "must be 0 or greater, and finite"));
        }
        let table = &self.table;
        refuse_object("user_defined_index_factory", table.user_defined_index_factory.as_ref())?;
        if table.use_udi_as_primary_index {
            return Err(refused("use_udi_as_primary_index", "not built"));
        }
        Ok(())
    }

    /// Checks that the user supplied each object that an OPTIONS file names.
    fn validate_resolved(&self) -> Result<()> {
        for (option, text) in &self.unresolved {
            let name = object_name(text);
            let given = match option.as_str() {
                "comparator" => Some(self.comparator.name()),
                "merge_operator" => self.merge_operator.as_ref().map(|m| m.name()),
                // Without other objects reads are only slower.
                _ => continue,
            };
            if given != Some(name) {
                return Err(invalid(
                    option,
                    &format!(
                        "the OPTIONS file names '{name}', which is not built in: set the option to an object of that name"
                    ),
                ));
            }
        }
        Ok(())
    }

    fn validate_compression(&self) -> Result<()> {
        let check = check_compression;
        check("compression", self.compression)?;
        check("blob_compression_type", self.blob_compression_type)?;
        self.bottommost_compression.map_or(Ok(()), |c| check("bottommost_compression", c))?;
        self.compression_per_level.iter().try_for_each(|c| check("compression_per_level", *c))?;
        for (name, opts) in [
            ("compression_opts", &self.compression_opts),
            ("bottommost_compression_opts", &self.bottommost_compression_opts),
        ] {
            if opts.zstd_max_train_bytes > 0 && opts.max_dict_bytes == 0 {
                return Err(invalid(name, "zstd_max_train_bytes needs max_dict_bytes"));
            }
        }
        Ok(())
    }

    fn validate_table(&self) -> Result<()> {
        let table = &self.table;
        if !FORMAT_VERSIONS_WRITTEN.contains(&table.format_version) {
            let why = format!("{} cannot be written: use 2 to 8", table.format_version);
            return Err(invalid("format_version", &why));
        }
        if table.block_size == 0 || table.block_size > u32::MAX as usize {
            return Err(invalid("block_size", "must be 1 to 4 GiB"));
        }
        if table.block_restart_interval == 0 || table.index_block_restart_interval == 0 {
            return Err(invalid("block_restart_interval", "must be at least 1"));
        }
        if table.index_type == IndexType::HashSearch && self.prefix_extractor.is_none() {
            return Err(invalid("index_type", "kHashSearch needs a prefix_extractor"));
        }
        let ratio = table.data_block_hash_table_util_ratio;
        let hashes = table.data_block_index_type == DataBlockIndexType::BinaryAndHash;
        if hashes && (ratio.is_nan() || ratio <= 0.0) {
            return Err(invalid("data_block_hash_table_util_ratio", "must be greater than 0"));
        }
        let alignment = table.super_block_alignment_size;
        if alignment != 0 && !(alignment.is_power_of_two() && u32::try_from(alignment).is_ok()) {
            return Err(invalid("super_block_alignment_size", "must be a power of 2 below 4 GiB"));
        }
        if matches!(table.super_block_alignment_space_overhead_ratio, 1..4) {
            return Err(invalid("super_block_alignment_space_overhead_ratio", "must be 0, or at least 4"));
        }
        let compressed = self.compression_manager.is_some()
            || self.compression != CompressionType::None
            || self.bottommost_compression.is_some_and(|c| c != CompressionType::None)
            || self.compression_per_level.iter().any(|c| *c != CompressionType::None);
        if table.block_align && compressed {
            return Err(invalid("block_align", "needs compression to be kNoCompression everywhere"));
        }
        self.check_cache_usage()?;
        if table.no_block_cache && table.cache_index_and_filter_blocks {
            return Err(invalid("cache_index_and_filter_blocks", "there is no block cache (no_block_cache)"));
        }
        Ok(())
    }

    /// Checks that each override of a role is possible. RocksDB:
    /// `BlockBasedTableFactory::ValidateOptions`.
    fn check_cache_usage(&self) -> Result<()> {
        let table = &self.table;
        for (role, options) in &table.cache_usage_options.options_overrides {
            let is_enabled = options.charged == Decision::Enabled;
            if options.charged != Decision::Fallback && !CacheUsageOptions::CHARGEABLE.contains(role) {
                let why = format!("memory of {} cannot be charged to the block cache", role.camel_name());
                return Err(refused("cache_usage_options", &why));
            }
            if is_enabled && table.no_block_cache {
                let why = format!("{} is to be charged, and there is no block cache", role.camel_name());
                return Err(invalid("cache_usage_options", &why));
            }
            if is_enabled && *role == Role::BlobCache {
                self.check_blob_cache_usage()?;
            }
        }
        Ok(())
    }

    fn check_blob_cache_usage(&self) -> Result<()> {
        let wrong = |why| Err(invalid("cache_usage_options", why));
        match (&self.blob_cache, &self.table.block_cache) {
            (None, _) => wrong("the blob cache is to be charged, and there is none"),
            (Some(blobs), Some(blocks)) if Arc::ptr_eq(blobs, blocks) => {
                wrong("the blob cache is to be charged to the block cache, which it is")
            }
            (Some(blobs), Some(blocks)) if blobs.capacity() > blocks.capacity() => {
                wrong("the blob cache is to be charged to the block cache, and is larger")
            }
            _ => Ok(()),
        }
    }
}

/// Checks that this build has the codec that option `name` names.
/// # Errors
/// `InvalidArgument`.
pub(crate) fn check_compression(name: &str, compression: CompressionType) -> Result<()> {
    if compression.is_built_in() {
        return Ok(());
    }
    // RocksDB's words come first.
    let error = format!("Compression type {} is not linked with the binary.", compression.property_name());
    let why = match compression.feature() {
        Some(feature) => format!("Esker was built without its feature `{feature}`"),
        None => format!("{} can be neither read nor written", compression.option_name()),
    };
    Err(Error::invalid_argument(format!("{error} Option {name}: {why}")))
}

/// The cache of a family whose options name none.
#[cfg(not(esker_test_cache))]
fn default_block_cache() -> Arc<BlockCache> {
    esker_table::default_block_cache()
}

/// The cache of a family whose options name none, where tests run on another kind of cache
/// (`cargo xtask long caches`).
#[cfg(esker_test_cache)]
fn default_block_cache() -> Arc<BlockCache> {
    let text = std::env::var("ESKER_TEST_BLOCK_CACHE").unwrap_or_default();
    let cache =
        super::block_cache_from_string(&text).expect("ESKER_TEST_BLOCK_CACHE is a block cache's text");
    cache.unwrap_or_else(esker_table::default_block_cache)
}

impl Options {
    /// Makes both parts consistent: [`DbOptions::sanitize`], [`ColumnFamilyOptions::sanitize`].
    pub fn sanitize(&mut self) -> Vec<String> {
        let mut changes = self.db.sanitize();
        changes.extend(self.cf.sanitize(&self.db));
        changes
    }

    /// Checks both parts.
    ///
    /// ```
    /// let mut options = esker::Options::new();
    /// assert!(options.sanitize().is_empty(), "the defaults are consistent");
    /// options.validate()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument` or `NotSupported` naming the option.
    pub fn validate(&self) -> Result<()> {
        self.db.validate()?;
        self.cf.validate()?;
        self.cf.validate_target(&self.db)
    }
}

fn invalid(option: &str, why: &str) -> Error {
    Error::invalid_argument(format!("option {option}: {why}"))
}

/// Checks that the comparator's answers about timestamps agree, as far as its oldest and newest
/// timestamps show.
fn validate_timestamps(comparator: &dyn Comparator) -> Result<()> {
    let size = comparator.timestamp_size();
    if size == 0 {
        return Ok(());
    }
    if size > usize::from(u16::MAX) {
        return Err(invalid(
            "comparator",
            "timestamps have more than 65535 bytes, the largest size that a WAL record can state",
        ));
    }
    if comparator.without_timestamp().is_none() {
        return Err(refused(
            "comparator",
            "keys have timestamps, and without_timestamp gives no order without them",
        ));
    }
    let (min, max) = (comparator.min_timestamp(), comparator.max_timestamp());
    if min.len() != size || max.len() != size {
        return Err(invalid("comparator", "min_timestamp or max_timestamp is not of timestamp_size bytes"));
    }
    if comparator.compare_timestamp(&min, &max).is_ge() {
        return Err(invalid(
            "comparator",
            "compare_timestamp does not put min_timestamp before max_timestamp",
        ));
    }
    if comparator.compare(&max, &min).is_ge() {
        return Err(invalid("comparator", "compare does not put the newest version of a key first"));
    }
    Ok(())
}

/// Refuses an object of a kind that is not built.
fn refuse_object(option: &str, name: Option<&String>) -> Result<()> {
    match name {
        Some(name) => Err(refused(option, &format!("'{name}': not built"))),
        None => Ok(()),
    }
}

pub(super) fn refused(option: &str, why: &str) -> Error {
    Error::not_supported(format!("option {option}: {why}"))
}

#[cfg(test)]
mod tests;
