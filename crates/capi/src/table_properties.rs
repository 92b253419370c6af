//! `rocksdb_table_properties_t`: the properties that a table stores about itself.

use crate::memory::{lend, put};
use esker::TableProperties;
use libc::{c_char, c_uchar};
use std::collections::BTreeMap;

/// The properties of a table. Another object owns this one.
#[derive(Clone, Debug, Default)]
pub struct rocksdb_table_properties_t {
    /// The built-in properties.
    pub properties: TableProperties,
    /// The properties of collectors, as names and values.
    collected: Vec<(Vec<u8>, Vec<u8>)>,
    /// The same as text.
    readable: Vec<(Vec<u8>, Vec<u8>)>,
}

impl rocksdb_table_properties_t {
    pub(crate) fn new(properties: &TableProperties) -> rocksdb_table_properties_t {
        let list = |map: &BTreeMap<_, _>| map.clone().into_iter().collect();
        rocksdb_table_properties_t {
            collected: list(&properties.user_collected_properties),
            readable: list(&properties.readable_properties),
            properties: properties.clone(),
        }
    }
}

/// Defines getters that return 0 for every table.
macro_rules! absent {
    ($(fn $name:ident -> $ty:ty;)*) => {$(
        #[doc = "Returns 0: the library does not give this property."]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(_properties: *const rocksdb_table_properties_t) -> $ty {
            0
        }
    )*};
}

absent! {
    fn rocksdb_table_properties_oldest_ancestor_time -> u64;
}

/// The file offset of the sequence number that an ingestion may write; 0: the table has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_table_properties_external_sst_file_global_seqno_offset(
    properties: *const rocksdb_table_properties_t,
) -> u64 {
    properties.as_ref().and_then(|it| it.properties.global_seqno_offset).unwrap_or(0) as u64
}

/// Whether the table records its largest sequence number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_table_properties_has_key_largest_seqno(
    properties: *const rocksdb_table_properties_t,
) -> c_uchar {
    properties.as_ref().is_some_and(|it| it.properties.key_largest_seqno.is_some()).into()
}

/// Whether the table records its smallest sequence number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_table_properties_has_key_smallest_seqno(
    properties: *const rocksdb_table_properties_t,
) -> c_uchar {
    properties.as_ref().is_some_and(|it| it.properties.key_smallest_seqno.is_some()).into()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_table_properties_user_collected_properties_count(
    properties: *const rocksdb_table_properties_t,
) -> usize {
    properties.as_ref().map_or(0, |properties| properties.collected.len())
}

/// The property that `pick` returns, of the properties if there are any; NULL for `None`.
unsafe fn part(
    properties: *const rocksdb_table_properties_t,
    len: *mut usize,
    pick: impl FnOnce(&rocksdb_table_properties_t) -> Option<&Vec<u8>>,
) -> *const c_char {
    put(len, 0);
    properties.as_ref().and_then(pick).map_or(std::ptr::null(), |bytes| lend(bytes, len))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_table_properties_user_collected_properties_key_at(
    properties: *const rocksdb_table_properties_t,
    place: usize,
    len: *mut usize,
) -> *const c_char {
    part(properties, len, |it| it.collected.get(place).map(|pair| &pair.0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_table_properties_user_collected_properties_value_at(
    properties: *const rocksdb_table_properties_t,
    place: usize,
    len: *mut usize,
) -> *const c_char {
    part(properties, len, |it| it.collected.get(place).map(|pair| &pair.1))
}

/// Number of collected properties in readable form. A table that was opened has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_table_properties_readable_properties_count(
    properties: *const rocksdb_table_properties_t,
) -> usize {
    properties.as_ref().map_or(0, |properties| properties.readable.len())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_table_properties_readable_properties_key_at(
    properties: *const rocksdb_table_properties_t,
    place: usize,
    len: *mut usize,
) -> *const c_char {
    part(properties, len, |it| it.readable.get(place).map(|pair| &pair.0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_table_properties_readable_properties_value_at(
    properties: *const rocksdb_table_properties_t,
    place: usize,
    len: *mut usize,
) -> *const c_char {
    part(properties, len, |it| it.readable.get(place).map(|pair| &pair.1))
}
