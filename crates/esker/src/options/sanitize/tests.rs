use super::*;
use crate::options::table::OptionStruct;
use esker_base::ErrorKind;
use esker_format::properties::IndexType;

#[test]
fn defaults_are_consistent_and_valid() {
    let mut options = Options::default();
    assert_eq!(options.sanitize(), Vec::<String>::new());
    options.validate().unwrap();
    assert_eq!(options.db.delayed_write_rate, 16 << 20);
    assert_eq!(options.cf.arena_block_size, 1 << 20);
    assert_eq!(options.cf.max_compaction_bytes, 25 * (64 << 20));
    assert_eq!(options.cf.ttl, 30 * 24 * 3600);
    assert_eq!(options.cf.periodic_compaction_seconds, 0);
    assert_eq!(options.db.background_job_limits(), (1, 1));
}

#[test]
fn changes_are_reported_once() {
    let mut options = Options::default();
    options.cf.level0_file_num_compaction_trigger = 0;
    options.cf.level0_slowdown_writes_trigger = -3;
    options.cf.level0_stop_writes_trigger = 0;
    options.cf.write_buffer_size = 10;
    options.cf.max_write_buffer_number = 0;
    options.cf.min_write_buffer_number_to_merge = 9;
    options.cf.num_levels = 1;
    options.cf.max_bytes_for_level_multiplier = f64::NAN;
    options.cf.soft_pending_compaction_bytes_limit = u64::MAX;
    options.cf.memtable_prefix_bloom_size_ratio = 0.9;
    options.db.max_open_files = 5;
    options.db.recycle_log_file_num = 3;
    options.db.wal_recovery_mode = WalRecoveryMode::AbsoluteConsistency;
    let changes = options.sanitize();
    for sentence in [
        "max_open_files changed from 5 to 20: out of range",
        "recycle_log_file_num changed from 3 to 0: this wal_recovery_mode cannot tell old data in a recycled WAL from damage",
        "write_buffer_size changed from 10 to 65536: out of range",
        "max_write_buffer_number changed from 0 to 2: one is written while another is flushed",
        "min_write_buffer_number_to_merge changed from 9 to 1: must be 1 to max_write_buffer_number - 1",
        "memtable_prefix_bloom_size_ratio changed from 0.9 to 0.25: must be 0 to 0.25",
        "num_levels changed from 1 to 2: out of range",
        "max_bytes_for_level_multiplier changed from NaN to 1: must be greater than 0",
        "level0_file_num_compaction_trigger changed from 0 to 1: cannot be 0",
        "level0_slowdown_writes_trigger changed from -3 to 1: must not be below level0_file_num_compaction_trigger",
        "level0_stop_writes_trigger changed from 0 to 1: must not be below level0_slowdown_writes_trigger",
    ] {
        assert!(changes.iter().any(|c| c == sentence), "missing: {sentence}\nin {changes:#?}");
    }
    assert_eq!(options.sanitize(), Vec::<String>::new());
    options.validate().unwrap();
}

#[test]
fn no_more_files_are_kept_open_than_the_process_may_have() {
    // A part of the limit is left for other files.
    let rest = |limit: i32| limit - (limit / 4).clamp(16, 512).min(limit / 2);
    let limit = esker_env::system::open_files_limit().map_or(0x40_0000, |n| rest(i32::try_from(n).unwrap()));
    let mut options = DbOptions::default().max_open_files(i32::MAX);
    let changes = options.sanitize();
    assert_eq!(options.max_open_files, limit);
    let expected = format!("max_open_files changed from 2147483647 to {limit}: out of range");
    assert!(changes.contains(&expected), "{changes:?}");
    let mut all = DbOptions::default().max_open_files(-1);
    all.sanitize();
    assert_eq!(all.max_open_files, -1, "all files stay open");
}

/// With any value of a number option, `sanitize` never panics, and a second call changes nothing.
#[test]
fn extreme_numbers_settle() {
    let db = DbOptions::default();
    for option in ColumnFamilyOptions::all_options() {
        let Some(text) = &option.text else { continue };
        for value in
            ["0", "1", "-1", "2147483647", "-2147483648", "18446744073709551615", "9223372036854775807"]
        {
            let mut options = ColumnFamilyOptions::default();
            if options.set_text(option.name, value).is_err() {
                continue;
            }
            options.sanitize(&db);
            let settled = (text.print)(&options);
            assert_eq!(options.sanitize(&db), Vec::<String>::new(), "{}={value}", option.name);
            assert_eq!((text.print)(&options), settled);
        }
    }
}

#[test]
fn meaningless_options_are_refused_by_name() {
    let refused = |change: fn(&mut Options), kind: ErrorKind, name: &str| {
        let mut options = Options::default();
        change(&mut options);
        options.sanitize();
        let Err(error) = options.validate() else { panic!("{name} is not refused") };
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(name), "{error}");
    };
    refused(|o| o.db.keep_log_file_num = 0, ErrorKind::InvalidArgument, "keep_log_file_num");
    refused(|o| o.cf.disallow_memtable_writes = true, ErrorKind::NotSupported, "disallow_memtable_writes");
    refused(
        |o| o.cf.table.user_defined_index_factory = Some("mine".into()),
        ErrorKind::NotSupported,
        "user_defined_index_factory",
    );
    refused(
        |o| o.cf.table.use_udi_as_primary_index = true,
        ErrorKind::NotSupported,
        "use_udi_as_primary_index",
    );
    refused(
        |o| o.cf.read_triggered_compaction_threshold = f64::NAN,
        ErrorKind::InvalidArgument,
        "read_triggered_compaction_threshold",
    );
    let mapped = |o: &mut Options| (o.db.allow_mmap_reads, o.db.use_direct_reads) = (true, true);
    refused(mapped, ErrorKind::NotSupported, "use_direct_reads");
    let unordered = |o: &mut Options| (o.db.unordered_write, o.db.enable_pipelined_write) = (true, true);
    refused(unordered, ErrorKind::InvalidArgument, "enable_pipelined_write");
    let no_id = |o: &mut Options| (o.db.write_dbid_to_manifest, o.db.write_identity_file) = (false, false);
    let cannot = "write_dbid_to_manifest and write_identity_file cannot both be false";
    refused(no_id, ErrorKind::InvalidArgument, cannot);
    let no_buffer = |o: &mut Options| {
        o.db.use_direct_io_for_flush_and_compaction = true;
        o.db.writable_file_max_buffer_size = 0;
    };
    refused(no_buffer, ErrorKind::InvalidArgument, "writable_file_max_buffer_size");
    let read_amp = |o: &mut Options| {
        o.cf.compaction_style = CompactionStyle::Universal;
        o.cf.compaction_options_universal.max_read_amp = 1;
    };
    refused(read_amp, ErrorKind::InvalidArgument, "compaction_options_universal");
    refused(
        |o| o.cf.memtable_protection_bytes_per_key = 3,
        ErrorKind::InvalidArgument,
        "memtable_protection_bytes_per_key",
    );
    refused(
        |o| o.cf.block_protection_bytes_per_key = 3,
        ErrorKind::InvalidArgument,
        "block_protection_bytes_per_key",
    );
    refused(|o| o.cf.table.format_version = 7, ErrorKind::InvalidArgument, "format_version");
    refused(|o| o.cf.table.index_type = IndexType::HashSearch, ErrorKind::InvalidArgument, "index_type");
    refused(
        |o| o.cf.compression_per_level = vec![CompressionType::Xpress],
        ErrorKind::InvalidArgument,
        "compression_per_level",
    );
    refused(
        |o| o.cf.unresolved.push(("merge_operator".into(), "{id=mine;x=1}".into())),
        ErrorKind::InvalidArgument,
        "'mine'",
    );
}

#[test]
fn compression_follows_the_level() {
    use CompressionType::{Lz4, None as Plain, Snappy, Zstd};
    let mut cf = ColumnFamilyOptions::default();
    assert_eq!(cf.compression_for(3, 1, false).0, Lz4);
    cf.compression_per_level = vec![Plain, Snappy, Zstd];
    // Base level 4: level 4 is the second entry, 5 and 6 the third.
    let by_level: Vec<_> = [0, 4, 5, 6].map(|l| cf.compression_for(l, 4, false).0).into();
    assert_eq!(by_level, [Plain, Snappy, Zstd, Zstd]);
    cf.bottommost_compression = Some(Plain);
    cf.bottommost_compression_opts.level = 9;
    assert_eq!(cf.compression_for(6, 4, true), (Plain, cf.compression_opts));
    cf.bottommost_compression_opts.enabled = true;
    assert_eq!(cf.compression_for(6, 4, true).1.level, 9);
}
