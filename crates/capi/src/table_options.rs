//! `rocksdb_block_based_table_options_t`: how tables are written and read.

use crate::cache::rocksdb_cache_t;
use crate::callbacks::rocksdb_filterpolicy_t;
use crate::field::{Held, Object};
use crate::memory::{answer, destroy, give, object_mut};
use esker::options::{BlockBasedTableOptions, PinningTier};
use libc::c_int;

/// Options of the block-based table.
#[derive(Clone, Debug, Default)]
pub struct rocksdb_block_based_table_options_t {
    /// The options.
    pub table: BlockBasedTableOptions,
    pub(crate) held: Held,
    pub(crate) refused: Vec<String>,
    /// The name of a factory of user-defined indexes.
    pub(crate) user_defined_index: Option<&'static str>,
}

impl Object for rocksdb_block_based_table_options_t {
    fn refuse(&mut self, option: &'static str, value: String) {
        self.refused.push(format!("{option}: '{value}' is not one of its values"));
    }

    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

impl rocksdb_block_based_table_options_t {
    /// The options, with the least values that RocksDB puts in place of smaller ones.
    pub(crate) fn raised(&self) -> BlockBasedTableOptions {
        let mut table = self.table.clone();
        table.format_version = table.format_version.max(2);
        // With 0, RocksDB writes blocks of one entry.
        table.block_size = table.block_size.max(1);
        for interval in [&mut table.block_restart_interval, &mut table.index_block_restart_interval] {
            *interval = (*interval).max(1);
        }
        table
    }

    /// RocksDB 11.8's defaults.
    pub(crate) fn new() -> rocksdb_block_based_table_options_t {
        let mut options = rocksdb_block_based_table_options_t::default();
        options.table.format_version = 7;
        options.table.optimize_filters_for_memory = true;
        options
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_block_based_options_create() -> *mut rocksdb_block_based_table_options_t {
    give(rocksdb_block_based_table_options_t::new())
}

/// Makes options with RocksDB 8's `format_version` and sizes of filters, for the shims.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_v8_rocksdb_block_based_options_create()
-> *mut rocksdb_block_based_table_options_t {
    let mut options = rocksdb_block_based_table_options_t::new();
    options.table.format_version = 5;
    options.table.optimize_filters_for_memory = false;
    give(options)
}

/// Makes options with RocksDB 10.4's `format_version`, for the shims.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_v10_rocksdb_block_based_options_create()
-> *mut rocksdb_block_based_table_options_t {
    let mut options = rocksdb_block_based_table_options_t::new();
    options.table.format_version = 6;
    give(options)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_block_based_options_destroy(
    options: *mut rocksdb_block_based_table_options_t,
) {
    destroy(options);
}

/// Sets the policy and takes ownership of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_block_based_options_set_filter_policy(
    options: *mut rocksdb_block_based_table_options_t,
    policy: *mut rocksdb_filterpolicy_t,
) {
    answer((), || {
        let policy = (!policy.is_null()).then(|| *Box::from_raw(policy));
        object_mut(options)?.table.filter_policy = policy.map(|policy| policy.policy);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_block_based_options_set_block_cache(
    options: *mut rocksdb_block_based_table_options_t,
    cache: *mut rocksdb_cache_t,
) {
    answer((), || {
        object_mut(options)?.table.block_cache = cache.as_ref().map(|cache| cache.cache.clone());
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_block_based_options_set_data_block_hash_ratio(
    options: *mut rocksdb_block_based_table_options_t,
    ratio: f64,
) {
    answer((), || {
        object_mut(options)?.table.data_block_hash_table_util_ratio = ratio;
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_block_based_options_set_top_level_index_pinning_tier(
    options: *mut rocksdb_block_based_table_options_t,
    tier: c_int,
) {
    set_tier(options, tier, |options| &mut options.metadata_cache_options.top_level_index_pinning);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_block_based_options_set_partition_pinning_tier(
    options: *mut rocksdb_block_based_table_options_t,
    tier: c_int,
) {
    set_tier(options, tier, |options| &mut options.metadata_cache_options.partition_pinning);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_block_based_options_set_unpartitioned_pinning_tier(
    options: *mut rocksdb_block_based_table_options_t,
    tier: c_int,
) {
    set_tier(options, tier, |options| &mut options.metadata_cache_options.unpartitioned_pinning);
}

unsafe fn set_tier(
    options: *mut rocksdb_block_based_table_options_t,
    tier: c_int,
    field: impl FnOnce(&mut BlockBasedTableOptions) -> &mut PinningTier,
) {
    crate::field::set(options, "pinning_tier", tier, |options| field(&mut options.table));
}
