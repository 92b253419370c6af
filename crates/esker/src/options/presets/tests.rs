use super::*;
use crate::options::{OptionStruct, print_options};
use esker_env::Env;

/// Names of the options in which `a` and `b` differ.
fn differing<T: OptionStruct>(a: &T, b: &T) -> Vec<&'static str> {
    let differs = |name: &&str| a.text_of(name) != b.text_of(name);
    T::all_options().iter().map(|option| option.name).filter(differs).collect()
}

#[test]
fn each_preset_changes_the_options_that_rocksdbs_changes() {
    let plain = ColumnFamilyOptions::new();
    assert_eq!(
        differing(&plain, &plain.clone().optimize_level_style_compaction(512 << 20)),
        [
            "write_buffer_size",
            "max_write_buffer_number",
            "min_write_buffer_number_to_merge",
            "level0_file_num_compaction_trigger",
            "max_bytes_for_level_base",
            "compression_per_level",
        ],
        "target_file_size_base is 64 MiB in both"
    );
    assert_eq!(
        differing(&plain, &plain.clone().optimize_universal_style_compaction(512 << 20)),
        [
            "write_buffer_size",
            "max_write_buffer_number",
            "min_write_buffer_number_to_merge",
            "compaction_style",
            "compaction_options_universal",
        ]
    );
    let lookups = plain.clone().optimize_for_point_lookup(8).unwrap();
    assert_eq!(
        differing(&plain, &lookups),
        ["memtable_prefix_bloom_size_ratio", "memtable_whole_key_filtering"]
    );
    assert_eq!(differing(&plain.table, &lookups.table), ["filter_policy", "data_block_index_type"]);
    assert_eq!(lookups.table.block_cache.unwrap().capacity(), 8 << 20);
    let small = plain.clone().optimize_for_small_db(None);
    assert_eq!(
        differing(&plain, &small),
        [
            "write_buffer_size",
            "target_file_size_base",
            "max_bytes_for_level_base",
            "soft_pending_compaction_bytes_limit",
            "hard_pending_compaction_bytes_limit",
        ]
    );
    assert_eq!(differing(&plain.table, &small.table), ["index_type", "cache_index_and_filter_blocks"]);
}

#[test]
fn a_bulk_load_compacts_nothing_by_itself() {
    let options = Options::new().prepare_for_bulk_load();
    assert_eq!(
        differing(&DbOptions::new(), &options.db),
        ["max_background_compactions", "max_background_flushes"]
    );
    assert_eq!(
        differing(&ColumnFamilyOptions::new(), &options.cf),
        [
            "max_write_buffer_number",
            "num_levels",
            "level0_file_num_compaction_trigger",
            "level0_slowdown_writes_trigger",
            "level0_stop_writes_trigger",
            "target_file_size_base",
            "max_compaction_bytes",
            "soft_pending_compaction_bytes_limit",
            "hard_pending_compaction_bytes_limit",
            "disable_auto_compactions",
        ]
    );
}

#[test]
fn parallelism_sets_jobs_and_threads() {
    let own = DbOptions { env: Env::with_fs(DbOptions::default().env.fs), ..DbOptions::default() };
    let options = own.increase_parallelism(7);
    assert_eq!(differing(&DbOptions::default(), &options), ["max_background_jobs"]);
    let pool = &options.env.pool;
    assert_eq!((pool.background_threads(Priority::Low), pool.background_threads(Priority::High)), (7, 1));
}

#[test]
fn a_small_database_has_one_cache_for_all() {
    let options = Options::new().optimize_for_small_db().unwrap();
    let cache = options.cf.table.block_cache.as_ref().unwrap();
    assert_eq!(cache.capacity(), SMALL_CACHE_BYTES);
    assert!(options.db.write_buffer_manager.as_ref().unwrap().cost_to_cache());
    assert_eq!(differing(&DbOptions::default(), &options.db), ["max_open_files", "max_file_opening_threads"]);
}

#[test]
fn presets_are_written_and_read_again() {
    let mut options = Options::new().optimize_level_style_compaction(64 << 20);
    options.cf.sanitize(&options.db);
    let text = print_options(&options.db, [("default", &options.cf)]);
    let loaded = crate::options::parse_options(text.as_bytes()).unwrap();
    let mut family = loaded.family("default").unwrap().clone();
    family.sanitize(&options.db);
    assert_eq!(differing(&family, &options.cf), [""; 0]);
}
