use super::*;
use crate::options::{CompressionType, InfoLogLevel, WalRecoveryMode};
use esker_env::MemFs;
use esker_format::properties::IndexType;
use esker_table::FilterPolicy;
use std::collections::HashSet;

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/../../fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let fs = esker_env::PosixFileSystem;
    let mut file = fs.new_sequential_file(Path::new(&path)).unwrap();
    let mut bytes = vec![0; usize::try_from(fs.file_size(Path::new(&path)).unwrap()).unwrap()];
    let n = file.read(&mut bytes).unwrap();
    bytes.truncate(n);
    bytes
}

fn defaults() -> ColumnFamilyOptions {
    ColumnFamilyOptions::default()
}

#[test]
fn a_file_of_rocksdb_7_8_loads() {
    let loaded = parse_options(&fixture("v7_8_default/db/OPTIONS-000007")).unwrap();
    assert_eq!(loaded.rocksdb_version.as_deref(), Some("7.8.3"));
    assert!(loaded.db.create_if_missing);
    assert_eq!(loaded.db.info_log_level, InfoLogLevel::Fatal);
    assert_eq!(loaded.db.wal_recovery_mode, WalRecoveryMode::PointInTimeRecovery);
    assert_eq!(loaded.db.compaction_readahead_size, 0);
    let cf = loaded.family("default").unwrap();
    assert_eq!(cf.compression, CompressionType::Snappy);
    assert!(!cf.level_compaction_dynamic_level_bytes);
    assert_eq!(cf.max_bytes_for_level_multiplier_additional, [1; 7]);
    assert!(cf.merge_operator.is_none() && cf.unresolved.is_empty());
    assert_eq!(cf.table.filter_policy, None);
    let mut options = cf.clone();
    options.sanitize(&loaded.db);
    options.validate().unwrap();
}

#[test]
fn every_option_of_rocksdb_11_is_known() {
    let text = fixture("v11_9_merge/db/OPTIONS-000007");
    let loaded = parse_options(&text).unwrap();
    let cf = loaded.family("default").unwrap();
    assert_eq!(cf.merge_operator.as_ref().unwrap().name(), "StringAppendOperator");
    assert_eq!(cf.compression, CompressionType::Lz4);
    // A table format version that only newer releases read: see `is_kept`.
    let ignored: Vec<&str> = loaded.ignored.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!(ignored, ["format_version"]);

    let file = OptionsFile::parse(&text).unwrap();
    let mut checked = 0;
    for section in &file.sections {
        for (name, raw) in &section.entries {
            let value = esker_format::options_file::unescape(raw);
            let one = format!("{name}={raw}");
            let set = match section.kind {
                SectionKind::Version => continue,
                SectionKind::DbOptions => DbOptions::default().set_text(name, &value),
                SectionKind::CfOptions(_) => {
                    crate::options::cf_options_from_string(&defaults(), &one).map(drop)
                }
                SectionKind::TableOptions { .. } => BlockBasedTableOptions::default().set_text(name, &value),
            };
            set.unwrap_or_else(|e| panic!("{name}={value}: {e}"));
            checked += 1;
        }
    }
    assert!(checked > 200, "{checked}");
}

#[test]
fn every_family_and_its_comparator_is_found() {
    let loaded = parse_options(&fixture("v7_8_column_families/db/OPTIONS-000017")).unwrap();
    let names: Vec<&str> = loaded.families.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["default", "alpha", "rev", "with:special#chars\\"]);
    assert_eq!(loaded.family("rev").unwrap().comparator.name(), "rocksdb.ReverseBytewiseComparator");
}

/// Spellings that RocksDB 5 wrote.
#[test]
fn old_spellings_are_understood() {
    let text = "[Version]\n rocksdb_version=5.4.0\n options_file_version=1.1\n\
        [DBOptions]\n max_background_flushes=7 # comment\n new_table_reader_for_compaction_inputs=true\n wal_dir=/old\n\
        [CFOptions \"default\"]\n merge_operator=PutOperator\n compression_opts=-14:-1:0:0\n\
        compression_per_level=kNoCompression:kSnappyCompression\n prefix_extractor=rocksdb.CappedPrefix.4\n\
        memtable_prefix_bloom_probes=6\n\
        [TableOptions/BlockBasedTable \"default\"]\n filter_policy=rocksdb.BuiltinBloomFilter\n format_version=2\n";
    let loaded = parse_options(text.as_bytes()).unwrap();
    assert_eq!(loaded.db.max_background_flushes, 7);
    assert_eq!(loaded.db.wal_dir.as_deref(), Some(Path::new("/old")));
    let cf = loaded.family("default").unwrap();
    assert_eq!(cf.merge_operator.as_ref().unwrap().name(), "PutOperator");
    assert_eq!(cf.compression_per_level, [CompressionType::None, CompressionType::Snappy]);
    assert_eq!(cf.prefix_extractor.as_ref().unwrap().name(), "rocksdb.CappedPrefix.4");
    assert_eq!(cf.table.filter_policy, Some(FilterPolicy::read_only()));
    assert_eq!(loaded.ignored.len(), 2);
}

#[test]
fn unknown_objects_are_kept_and_refused_when_the_database_is_opened() {
    let text = "[DBOptions]\n[CFOptions \"default\"]\n comparator=acme.Order\n merge_operator={id=acme.Merge;x=1;}\n\
        prefix_extractor=acme.Prefix\n\
        [TableOptions/BlockBasedTable \"default\"]\n filter_policy=acme.Filter\n block_size=1024\n";
    let loaded = parse_options(text.as_bytes()).unwrap();
    let mut cf = loaded.family("default").unwrap().clone();
    assert_eq!(cf.table.block_size, 1024);
    assert_eq!(cf.table.filter_policy, None);
    let error = cf.validate().unwrap_err();
    assert!(error.message().contains("comparator") && error.message().contains("'acme.Order'"), "{error}");

    #[derive(Debug)]
    struct Acme;
    impl esker_base::comparator::Comparator for Acme {
        fn name(&self) -> &str {
            "acme.Order"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            a.len().cmp(&b.len()).then(a.cmp(b))
        }
    }
    cf.comparator = std::sync::Arc::new(Acme);
    let error = cf.validate().unwrap_err();
    assert!(
        error.message().contains("merge_operator") && error.message().contains("'acme.Merge'"),
        "{error}"
    );
}

#[test]
fn values_that_cannot_be_read_are_named() {
    for (text, in_message) in [
        (
            "[DBOptions]\nmax_open_files=many\n[CFOptions \"default\"]\n",
            "[DBOptions]: max_open_files: 'many'",
        ),
        ("[DBOptions]\n[CFOptions \"default\"]\nnum_levels=x\n", "[CFOptions \"default\"]: num_levels"),
        ("[DBOptions]\n[CFOptions \"default\"]\n[Unknown]\n", "line 3"),
        ("[CFOptions \"default\"]\n", "[DBOptions]"),
        ("", "[DBOptions]"),
        ("[DBOptions]\n[CFOptions \"default\"]\n[TableOptions/BlockBasedTable \"other\"]\n", "line 3"),
    ] {
        let error = parse_options(text.as_bytes()).unwrap_err();
        assert!(error.message().contains(in_message), "{text}: {error}");
    }
}

/// RocksDB 7.8 and 11 must both know every name that Esker writes. The files that they wrote list
/// all the names they know.
#[test]
fn only_names_that_both_versions_know_are_written() {
    let names = |name: &str| -> HashSet<String> {
        let file = OptionsFile::parse(&fixture(name)).unwrap();
        file.sections.iter().flat_map(|s| s.entries.iter().map(|(k, _)| k.clone())).collect()
    };
    let both: HashSet<String> = names("v7_8_default/db/OPTIONS-000007")
        .intersection(&names("v11_9_merge/db/OPTIONS-000007"))
        .cloned()
        .collect();
    let mut ours = Vec::new();
    ours.extend(DbOptions::all_options().iter().filter(|o| o.text.is_some()).map(|o| o.name));
    ours.extend(ColumnFamilyOptions::all_options().iter().filter(|o| o.text.is_some()).map(|o| o.name));
    ours.extend(BlockBasedTableOptions::all_options().iter().filter(|o| o.text.is_some()).map(|o| o.name));
    // RocksDB reads an empty list but does not write one, and the fixtures were made without a WAL
    // directory.
    let left_out = ["compression_per_level", "wal_dir"];
    // Without the default, 7.8 would misread the tables: the unknown name makes its tools refuse
    // the database.
    let keeps_out = ["persist_user_defined_timestamps"];
    for name in ours {
        let allowed = both.contains(name)
            || NEVER_WRITTEN.contains(&name)
            || left_out.contains(&name)
            || SINCE_11_10.iter().any(|since| since.starts_with(name))
            || keeps_out.contains(&name);
        assert!(allowed, "{name} is not known to both versions");
    }
}

/// A newer RocksDB may write such fields.
#[test]
fn unknown_fields_of_an_option_are_left_out() {
    let text = "[Version]\n rocksdb_version=12.0.0\n options_file_version=1.1\n[DBOptions]\n brand_new=1\n\
        [CFOptions \"default\"]\n compression_opts={level=3;brand_new=1;checksum=true;strategy=2}\n \
        compaction_options_universal={brand_new={a=1;b=2};size_ratio=7;}\n \
        compaction_options_fifo={max_table_files_size=9;brand_new=1;}\n";
    let loaded = parse_options(text.as_bytes()).unwrap();
    assert_eq!(
        loaded.ignored,
        [("DBOptions", "brand_new", "1")].map(|(a, b, c)| (a.into(), b.into(), c.into()))
    );
    let cf = loaded.family("default").unwrap();
    assert_eq!((cf.compression_opts.level, cf.compression_opts.strategy), (3, 2));
    assert!(cf.compression_opts.checksum);
    assert_eq!(cf.compaction_options_universal.size_ratio, 7);
    assert_eq!(cf.compaction_options_fifo.max_table_files_size, 9);
    let text = text.replace("level=3", "level=x");
    assert!(parse_options(text.as_bytes()).unwrap_err().message().contains("level: 'x'"));
}

#[test]
fn a_saved_file_comes_back() {
    let mut db =
        DbOptions::default().max_open_files(77).wal_recovery_mode(WalRecoveryMode::AbsoluteConsistency);
    db.wal_dir = Some("/else:where#1\\2".into());
    let mut special = defaults()
        .num_levels(4)
        .compression(CompressionType::Zstd)
        .compression_per_level(vec![CompressionType::None, CompressionType::Zstd])
        .merge_operator(Some(crate::builtin::put()))
        .prefix_extractor(Some(esker_base::prefix::fixed(3)))
        .comparator(std::sync::Arc::new(esker_base::comparator::ReverseBytewiseComparator));
    special.compression_opts.level = 7;
    special.table.filter_policy = Some(FilterPolicy::bloom(12.5));
    let text = print_options(&db, [("default", &defaults()), ("odd:#\\name", &special)]);
    let loaded = parse_options(text.as_bytes()).unwrap();
    assert!(loaded.ignored.is_empty());
    assert_eq!(loaded.db.max_open_files, 77);
    assert_eq!(loaded.db.wal_dir.as_deref(), Some(Path::new("/else:where#1\\2")));
    let cf = loaded.family("odd:#\\name").unwrap();
    for option in ColumnFamilyOptions::all_options() {
        assert_eq!(cf.text_of(option.name), special.text_of(option.name), "{}", option.name);
    }
    for option in BlockBasedTableOptions::all_options() {
        assert_eq!(cf.table.text_of(option.name), special.table.text_of(option.name), "{}", option.name);
    }
}

/// The number is the default without other options, but `sanitize` would choose another one with
/// these options.
#[test]
fn values_that_a_default_would_replace_come_back_unchanged() {
    use crate::options::CompactionStyle;
    let mut universal = defaults().compaction_style(CompactionStyle::Universal);
    (universal.ttl, universal.periodic_compaction_seconds) = (0, 0);
    // The state after `set_options`: the options were made consistent with another write buffer and
    // file size.
    let mut changed = defaults();
    changed.sanitize(&DbOptions::default());
    (changed.write_buffer_size, changed.target_file_size_base) = (1 << 20, 2 << 20);
    let mut db = DbOptions::default();
    let mode = esker_env::RateLimiterMode::WritesOnly;
    let limiter = esker_env::RateLimiter::new(100 << 20, 100_000, 10, mode);
    db.rate_limiter = Some(std::sync::Arc::new(limiter));
    db.delayed_write_rate = 16 << 20;
    db.sanitize();
    universal.sanitize(&db);
    let text = print_options(&db, [("default", &universal), ("changed", &changed)]);
    let mut loaded = parse_options(text.as_bytes()).unwrap();
    loaded.db.rate_limiter = db.rate_limiter.clone();
    loaded.db.sanitize();
    for option in DbOptions::all_options() {
        assert_eq!(loaded.db.text_of(option.name), db.text_of(option.name), "{}", option.name);
    }
    for ((_, mut found), expected) in loaded.families.into_iter().zip([universal, changed]) {
        found.sanitize(&db);
        for option in ColumnFamilyOptions::all_options() {
            assert_eq!(found.text_of(option.name), expected.text_of(option.name), "{}", option.name);
        }
    }
}

/// The whole OPTIONS file of a database with default options.
#[test]
fn a_file_of_defaults_is_small() {
    let text = print_options(&DbOptions::default(), [("default", &defaults())]);
    let entries: Vec<&str> =
        text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')).collect();
    assert_eq!(
        entries,
        [
            "[Version]",
            "rocksdb_version=7.8.3",
            "options_file_version=1.1",
            "[DBOptions]",
            "[CFOptions \"default\"]",
            "comparator=leveldb.BytewiseComparator",
            "merge_operator=nullptr",
            "prefix_extractor=nullptr",
            "num_levels=7",
            "compression=kLZ4Compression",
            "[TableOptions/BlockBasedTable \"default\"]",
            "block_size=4096",
            "format_version=5",
            "filter_policy=nullptr",
            "whole_key_filtering=true",
        ]
    );
}

#[test]
fn files_are_written_whole_and_the_newest_counts() {
    let fs = MemFs::new();
    let dir = Path::new("/db");
    fs.create_dir_if_missing(dir).unwrap();
    assert_eq!(latest_options_file(&fs, dir).unwrap(), None);
    assert!(load_latest_options_from(&fs, dir).unwrap_err().message().contains("/db"));
    for (number, open_files) in [(9, 100), (12, 200), (100_000_000, 300)] {
        let db = DbOptions::default().max_open_files(open_files);
        save_options_file(&fs, dir, FileNumber(number), &db, [("default", &defaults())]).unwrap();
    }
    assert_eq!(load_latest_options_from(&fs, dir).unwrap().db.max_open_files, 300);
    let names = fs.children(dir).unwrap();
    assert!(names.iter().all(|n| !n.ends_with(".dbtmp")), "{names:?}");
    assert_eq!(obsolete_options_files(&names), [FileNumber(9)]);
}

/// Damaged files give errors or options, never a panic. Loaded options can be made consistent and
/// printed again.
#[test]
fn damaged_files_never_panic() {
    let files = ["v7_8_default/db/OPTIONS-000007", "v11_9_merge/db/OPTIONS-000007"].map(fixture);
    esker_testkit::seed::for_each_seed("damaged_options", 300, |_, mut rng| {
        let mut text = files[rng.usize(..files.len())].clone();
        for _ in 0..rng.usize(1..6) {
            let at = rng.usize(..text.len());
            match rng.u8(..4) {
                0 => text[at] = rng.u8(..),
                1 => text[at] = *rng.choice(b"{}=;:#\\\"[]\n-9k").unwrap(),
                2 => text.truncate(at.max(1)),
                _ => {
                    let piece = text[at..(at + rng.usize(1..40)).min(text.len())].to_vec();
                    text.splice(at..at, piece);
                }
            }
        }
        let Ok(mut loaded) = parse_options(&text) else { return };
        loaded.db.sanitize();
        for (_, cf) in &mut loaded.families {
            cf.sanitize(&loaded.db);
        }
        let families = loaded.families.iter().map(|(name, cf)| (name.as_str(), cf));
        let printed = print_options(&loaded.db, families);
        parse_options(printed.as_bytes()).unwrap();
    });
}

#[test]
fn table_layouts_that_need_a_newer_rocksdb_are_not_taken_over() {
    let text = "[DBOptions]\n[CFOptions \"default\"]\n[TableOptions/BlockBasedTable \"default\"]\n \
                format_version=7\n index_type=kTwoLevelIndexSearch\n block_size=8192\n";
    let loaded = parse_options(text.as_bytes()).unwrap();
    let options = loaded.family("default").unwrap();
    assert_eq!(options.table.format_version, BlockBasedTableOptions::default().format_version);
    assert_eq!(options.table.block_size, 8192);
    options.validate().unwrap();
    let ignored: Vec<&str> = loaded.ignored.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!(ignored, ["format_version"]);
    assert_eq!(options.table.index_type, IndexType::TwoLevel);
    let nonsense = text.replace("=7", "=seven");
    assert!(parse_options(nonsense.as_bytes()).unwrap_err().to_string().contains("format_version"));
}

#[test]
fn options_that_only_cost_speed_or_memory_prevent_no_opening() {
    let text = "[Version]\n  rocksdb_version=8.1.1\n  options_file_version=1.1\n[DBOptions]\n  use_direct_reads=true\n  \
        use_direct_io_for_flush_and_compaction=true\n  persist_stats_to_disk=true\n[CFOptions \"default\"]\n  \
        inplace_update_support=true\n  compression_opts={use_zstd_dict_trainer=false;max_dict_bytes=9;zstd_max_train_bytes=9;}\n";
    let mut loaded = parse_options(text.as_bytes()).unwrap();
    let ignored: Vec<&str> = loaded.ignored.iter().map(|(_, name, _)| name.as_str()).collect();
    assert!(ignored.is_empty(), "{ignored:?}");
    assert!(loaded.db.persist_stats_to_disk);
    assert!(loaded.db.use_direct_reads && loaded.db.use_direct_io_for_flush_and_compaction);
    loaded.db.sanitize();
    loaded.db.validate().unwrap();
    let (_, mut cf) = loaded.families.remove(0);
    cf.sanitize(&loaded.db);
    cf.validate().unwrap();
}

/// Forms that RocksDB 5 to 7 wrote.
#[test]
fn old_forms_of_values_are_read() {
    let text = "[Version]\n  rocksdb_version=5.1.4\n  options_file_version=1.1\n[DBOptions]\n  fail_if_options_file_error=false\n  \
        access_hint_on_compaction_start=NORMAL\n  new_table_reader_for_compaction_inputs=false\n  \
        random_access_max_buffer_size=1048576\n  wal_recovery_mode=kPointInTimeRecovery\n[CFOptions \"default\"]\n  \
        compression_opts=-14:32767:0:0\n  bottommost_compression_opts=-14:32767:0:0:0:false\n  \
        compaction_options_fifo={ttl=0;max_table_files_size=1073741824;allow_compaction=false;}\n  \
        compaction_options_universal={stop_style=kCompactionStopStyleTotalSize;min_merge_width=2;\
        compression_size_percent=-1;max_size_amplification_percent=200;max_merge_width=4294967295;size_ratio=1;}\n  \
        rate_limit_delay_max_milliseconds=100\n  soft_rate_limit=0.000000\n  verify_checksums_in_compaction=true\n  \
        compression_per_level=kNoCompression:kNoCompression:kSnappyCompression\n  memtable_factory=SkipListFactory\n  \
        comparator=leveldb.BytewiseComparator\n  prefix_extractor=rocksdb.FixedPrefix.8\n  \
        merge_operator=StringAppendOperator\n  compaction_filter_factory=nullptr\n\
        [TableOptions/BlockBasedTable \"default\"]\n  filter_policy=rocksdb.BuiltinBloomFilter\n  \
        skip_table_builder_flush=false\n  format_version=2\n  hash_index_allow_collision=true\n  \
        index_type=kBinarySearch\n  flush_block_policy_factory=FlushBlockBySizePolicyFactory\n  checksum=kCRC32c\n";
    let mut loaded = parse_options(text.as_bytes()).unwrap();
    loaded.db.sanitize();
    loaded.db.validate().unwrap();
    let (_, mut cf) = loaded.families.remove(0);
    cf.sanitize(&loaded.db);
    cf.validate().unwrap();
    assert_eq!(cf.table.format_version, 2);
    assert_eq!(cf.merge_operator.unwrap().name(), "StringAppendOperator");
}

/// Options that came between 11.8 and 11.12, as they begin in a file.
const SINCE_11_10: [&str; 8] = [
    "periodic_compaction_phase_recovery_percent=",
    "remote_compaction_manifest_floor=",
    "use_session_tmp_dir_for_remote_compaction=",
    "blob_file_writable_file_max_buffer_size=",
    "auto_skip=",
    "auto_skip_min_sample_every=",
    "index_mode=",
    "optimize_key_common_prefix=",
];

#[test]
fn options_of_rocksdb_11_12_are_read_kept_and_written_for_it() {
    let text = "[Version]\n  rocksdb_version=11.12.0\n  options_file_version=1.1\n\
        [DBOptions]\n  periodic_compaction_phase_recovery_percent=33\n  remote_compaction_manifest_floor=false\n  \
        use_session_tmp_dir_for_remote_compaction=true\n\
        [CFOptions \"default\"]\n  blob_file_writable_file_max_buffer_size=4096\n  \
        compression_opts={level=3;auto_skip=true;auto_skip_min_sample_every=7;}\n\
        [TableOptions/BlockBasedTable \"default\"]\n  format_version=8\n  index_mode=kStandardRequired\n  \
        optimize_key_common_prefix=kEnabled\n";
    let mut loaded = parse_options(text.as_bytes()).unwrap();
    let left_out: Vec<&str> = loaded.ignored.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!(left_out, ["format_version"], "the default target does not read its tables");
    let check = |loaded: &LoadedOptions| {
        let (db, family) = (&loaded.db, &loaded.families[0].1);
        assert_eq!(db.periodic_compaction_phase_recovery_percent, 33);
        assert!(!db.remote_compaction_manifest_floor && db.use_session_tmp_dir_for_remote_compaction);
        assert_eq!(family.blob_file_writable_file_max_buffer_size, 4096);
        let codec = &family.compression_opts;
        assert_eq!((codec.level, codec.auto_skip, codec.auto_skip_min_sample_every), (3, true, 7));
        assert_eq!(family.table.index_mode, IndexMode::StandardRequired);
        assert_eq!(family.table.optimize_key_common_prefix, OptimizeKeyCommonPrefix::Enabled);
    };
    check(&loaded);
    let print = |loaded: &LoadedOptions| {
        print_options(&loaded.db, loaded.families.iter().map(|(name, options)| (name.as_str(), options)))
    };
    for older in [TargetVersion::V7_8, TargetVersion::V11] {
        loaded.db.compatible_with = older;
        let saved = print(&loaded);
        assert!(saved.contains("level=3"));
        assert!(SINCE_11_10.iter().all(|name| !saved.contains(name)), "{saved}");
    }
    loaded.db.compatible_with = TargetVersion::V11_10;
    let saved = print(&loaded);
    assert!(SINCE_11_10.iter().all(|name| saved.contains(name)), "{saved}");
    check(&parse_options(saved.as_bytes()).unwrap());
}

#[test]
fn names_that_no_release_knows_are_refused_unless_a_later_release_wrote_them() {
    for (section, expected) in [
        ("[DBOptions]\n brand_new=1\n[CFOptions \"default\"]\n", "[DBOptions]: brand_new"),
        ("[DBOptions]\n[CFOptions \"default\"]\n brand_new=1\n", "[CFOptions \"default\"]: brand_new"),
        (
            "[DBOptions]\n[CFOptions \"default\"]\n compaction_options_fifo={brand_new=1;}\n",
            "[CFOptions \"default\"]: compaction_options_fifo.brand_new",
        ),
        (
            "[DBOptions]\n[CFOptions \"default\"]\n[TableOptions/BlockBasedTable \"default\"]\n brand_new=1\n",
            "[TableOptions/BlockBasedTable \"default\"]: brand_new",
        ),
    ] {
        for (release, is_later) in
            [("7.8.3", false), ("11.8.1", false), ("11.8.2", true), ("11.10.0", true), ("12.0.0", true)]
        {
            let text = format!("[Version]\n rocksdb_version={release}\n options_file_version=1.1\n{section}");
            let loaded = parse_options(text.as_bytes()).unwrap();
            let error = loaded.check_names(false).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
            assert_eq!(loaded.check_names(true).is_ok(), is_later, "{release} {section}");
        }
    }
    // Former names, names of objects, and options that are not built are known.
    let text = "[Version]\n rocksdb_version=7.8.3\n options_file_version=1.1\n[DBOptions]\n \
        disableDataSync=false\n wal_filter=nullptr\n[CFOptions \"default\"]\n \
        purge_redundant_kvs_while_flush=true\n table_factory=BlockBasedTable\n memtable=SkipListFactory\n";
    parse_options(text.as_bytes()).unwrap().check_names(false).unwrap();
}
