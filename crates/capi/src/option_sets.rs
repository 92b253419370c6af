//! Options that are factories or sets: factories of file checksums and of collectors of table
//! properties, and sets of numbers.

use crate::memory::{answer, destroy, give, object};
use crate::options::{change, rocksdb_options_t};
use esker::options::{
    CompactionStyle, FileChecksumGenCrc32cFactory, FileChecksumGenFactoryRef, FileType,
    SstPartitionerFactoryRef, SstPartitionerFixedPrefixFactory,
};
use esker::table_properties_collector::CompactOnDeletionCollectorFactory;
use libc::{c_int, c_uchar};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A factory of checksums of whole files.
#[derive(Debug)]
pub struct rocksdb_file_checksum_gen_factory_t {
    pub(crate) factory: FileChecksumGenFactoryRef,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_file_checksum_gen_crc32c_factory_create()
-> *mut rocksdb_file_checksum_gen_factory_t {
    give(rocksdb_file_checksum_gen_factory_t { factory: Arc::new(FileChecksumGenCrc32cFactory) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_file_checksum_gen_factory_destroy(
    factory: *mut rocksdb_file_checksum_gen_factory_t,
) {
    destroy(factory);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_file_checksum_gen_factory(
    options: *mut rocksdb_options_t,
    factory: *mut rocksdb_file_checksum_gen_factory_t,
) {
    change(options, |options| {
        options.db.file_checksum_gen_factory = factory.as_ref().map(|factory| factory.factory.clone());
        Ok(())
    });
}

/// Defines the functions of a set of numbers below 64. A held value keeps it; the numbers that
/// Esker knows become the option's value.
macro_rules! held_sets {
    ($($set:literal: fn $clear:ident, fn $add:ident, fn $remove:ident, fn $contains:ident, fn $count:ident;)*) => {$(
        #[doc = "Empties the set."]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $clear(options: *mut rocksdb_options_t) {
            change_set(options, $set, |_| 0);
        }

        #[doc = "Adds a number."]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $add(options: *mut rocksdb_options_t, number: c_int) {
            change_set(options, $set, |set| set | bit(number));
        }

        #[doc = "Removes a number."]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $remove(options: *mut rocksdb_options_t, number: c_int) {
            change_set(options, $set, |set| set & !bit(number));
        }

        #[doc = "Whether the set has a number."]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $contains(options: *mut rocksdb_options_t, number: c_int) -> c_uchar {
            (held_set(options, $set) & bit(number) != 0).into()
        }

        #[doc = "The number of elements in the set."]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $count(options: *mut rocksdb_options_t) -> usize {
            held_set(options, $set).count_ones() as usize
        }
    )*};
}

fn bit(number: c_int) -> u64 {
    u32::try_from(number).ok().and_then(|number| 1_u64.checked_shl(number)).unwrap_or(0)
}

unsafe fn held_set(options: *mut rocksdb_options_t, set: &'static str) -> u64 {
    answer(0, || Ok(object(options)?.held.get(set).copied().unwrap_or_else(|| default_set(set))))
}

/// RocksDB's default of the set: write-lifetime hints for level compaction.
fn default_set(set: &str) -> u64 {
    u64::from(set == "calculate_sst_write_lifetime_hint_set")
}

unsafe fn change_set(
    options: *mut rocksdb_options_t,
    set: &'static str,
    change_bits: impl FnOnce(u64) -> u64,
) {
    let bits = change_bits(held_set(options, set));
    change(options, |options| {
        options.held.insert(set, bits);
        let db = &mut options.db;
        match set {
            "checksum_handoff_file_types" => db.checksum_handoff_file_types = chosen(&FILE_TYPES, bits),
            _ => db.calculate_sst_write_lifetime_hint_set = chosen(&COMPACTION_STYLES, bits),
        }
        Ok(())
    });
}

/// The values whose bits are set.
fn chosen<T: Copy + Ord>(values: &[T], bits: u64) -> BTreeSet<T> {
    (0..).zip(values).filter(|(number, _)| bits & bit(*number) != 0).map(|(_, value)| *value).collect()
}

/// Types of files in the order of RocksDB's `FileType`.
const FILE_TYPES: [FileType; 12] = [
    FileType::Wal,
    FileType::DbLock,
    FileType::Table,
    FileType::Descriptor,
    FileType::Current,
    FileType::Temp,
    FileType::InfoLog,
    FileType::MetaDatabase,
    FileType::Identity,
    FileType::Options,
    FileType::Blob,
    FileType::CompactionProgress,
];

const COMPACTION_STYLES: [CompactionStyle; 4] =
    [CompactionStyle::Level, CompactionStyle::Universal, CompactionStyle::Fifo, CompactionStyle::None];

held_sets! {
    "checksum_handoff_file_types":
        fn rocksdb_options_checksum_handoff_file_types_clear,
        fn rocksdb_options_checksum_handoff_file_types_add,
        fn rocksdb_options_checksum_handoff_file_types_remove,
        fn rocksdb_options_checksum_handoff_file_types_contains,
        fn rocksdb_options_checksum_handoff_file_types_count;
    "calculate_sst_write_lifetime_hint_set":
        fn rocksdb_options_calculate_sst_write_lifetime_hint_set_clear,
        fn rocksdb_options_calculate_sst_write_lifetime_hint_set_add,
        fn rocksdb_options_calculate_sst_write_lifetime_hint_set_remove,
        fn rocksdb_options_calculate_sst_write_lifetime_hint_set_contains,
        fn rocksdb_options_calculate_sst_write_lifetime_hint_set_count;
}

/// A factory of collectors of table properties. This API has no function that makes one.
#[derive(Debug)]
pub struct rocksdb_table_properties_collector_factory_t(());

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_table_properties_collector_factory_destroy(
    factory: *mut rocksdb_table_properties_collector_factory_t,
) {
    destroy(factory);
}

/// Adds nothing, because no function makes a factory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_add_table_properties_collector_factory(
    _options: *mut rocksdb_options_t,
    _factory: *mut rocksdb_table_properties_collector_factory_t,
) {
}

unsafe fn add_deletion_collector(
    options: *mut rocksdb_options_t,
    window: usize,
    deletions: usize,
    ratio: f64,
    min_file_size: u64,
) {
    change(options, |options| {
        let factory =
            CompactOnDeletionCollectorFactory::new(window as u64, deletions as u64, ratio, min_file_size);
        options.cf.table_properties_collector_factories.push(Arc::new(factory));
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_add_compact_on_deletion_collector_factory(
    options: *mut rocksdb_options_t,
    window: usize,
    deletions: usize,
) {
    add_deletion_collector(options, window, deletions, 0.0, 0);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_add_compact_on_deletion_collector_factory_del_ratio(
    options: *mut rocksdb_options_t,
    window: usize,
    deletions: usize,
    ratio: f64,
) {
    add_deletion_collector(options, window, deletions, ratio, 0);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_add_compact_on_deletion_collector_factory_min_file_size(
    options: *mut rocksdb_options_t,
    window: usize,
    deletions: usize,
    ratio: f64,
    min_file_size: u64,
) {
    add_deletion_collector(options, window, deletions, ratio, min_file_size);
}

/// A factory of partitioners, which start a new table where a prefix of the key changes.
#[derive(Debug)]
pub struct rocksdb_sst_partitioner_factory_t {
    pub(crate) factory: SstPartitionerFactoryRef,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sst_partitioner_fixed_prefix_factory_create(
    prefix_len: usize,
) -> *mut rocksdb_sst_partitioner_factory_t {
    give(rocksdb_sst_partitioner_factory_t {
        factory: Arc::new(SstPartitionerFixedPrefixFactory::new(prefix_len)),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sst_partitioner_factory_destroy(
    factory: *mut rocksdb_sst_partitioner_factory_t,
) {
    destroy(factory);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_sst_partitioner_factory(
    options: *mut rocksdb_options_t,
    factory: *mut rocksdb_sst_partitioner_factory_t,
) {
    change(options, |options| {
        options.cf.sst_partitioner_factory = factory.as_ref().map(|factory| factory.factory.clone());
        Ok(())
    });
}
