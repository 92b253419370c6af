//! User-defined indexes of tables, by the name of their factory. RocksDB has one: `trie_index`.
//!
//! In: a factory's name. Out: the same name, stored in the options. Opening a database whose
//! options name such an index for new tables is refused. A read whose options name one uses the
//! table's own index, with the same result.

use crate::memory::{answer, attempt, bytes, object_mut, put};
use crate::read_options::rocksdb_readoptions_t;
use crate::table_options::rocksdb_block_based_table_options_t;
use esker::{Error, Result};
use libc::c_char;

/// RocksDB's built-in factory.
const TRIE_INDEX: &str = "trie_index";

/// The factory that `value` names; `None` for none.
/// # Errors
/// `NotSupported`: there is no such factory.
fn factory(value: &[u8]) -> Result<Option<&'static str>> {
    let text = String::from_utf8_lossy(value);
    let id = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(&text);
    match id.strip_prefix("id=").unwrap_or(id) {
        "" | "nullptr" => Ok(None),
        TRIE_INDEX => Ok(Some(TRIE_INDEX)),
        _ => Err(Error::not_supported(format!("Could not load UserDefinedIndexFactory: {text}"))),
    }
}

unsafe fn give_name(name: Option<&'static str>, len: *mut usize) -> *const c_char {
    put(len, name.map_or(0, str::len));
    name.map_or(std::ptr::null(), |_| c"trie_index".as_ptr())
}

/// Sets the factory. An unknown name is an error and removes the factory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_block_based_options_set_user_defined_index_factory_from_string(
    options: *mut rocksdb_block_based_table_options_t,
    value: *const c_char,
    len: usize,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let (options, name) = (object_mut(options)?, bytes(value, len)?);
        options.user_defined_index = None;
        options.user_defined_index = factory(name)?;
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_block_based_options_clear_user_defined_index_factory(
    options: *mut rocksdb_block_based_table_options_t,
) {
    answer((), || {
        object_mut(options)?.user_defined_index = None;
        Ok(())
    });
}

/// Returns the factory's name; NULL if none is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_block_based_options_get_user_defined_index_factory_name(
    options: *const rocksdb_block_based_table_options_t,
    len: *mut usize,
) -> *const c_char {
    give_name(options.as_ref().and_then(|options| options.user_defined_index), len)
}

/// Sets the factory. An unknown name is an error and removes the factory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_set_table_index_factory_from_string(
    options: *mut rocksdb_readoptions_t,
    value: *const c_char,
    len: usize,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let (options, name) = (object_mut(options)?, bytes(value, len)?);
        options.table_index = None;
        options.table_index = factory(name)?;
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_clear_table_index_factory(options: *mut rocksdb_readoptions_t) {
    answer((), || {
        object_mut(options)?.table_index = None;
        Ok(())
    });
}

/// Returns the factory's name; NULL if none is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_get_table_index_factory_name(
    options: *const rocksdb_readoptions_t,
    len: *mut usize,
) -> *const c_char {
    give_name(options.as_ref().and_then(|options| options.table_index), len)
}

/// The error message for options that name such an index for new tables.
pub(crate) fn refusal(options: &rocksdb_block_based_table_options_t) -> Option<String> {
    let name = options.user_defined_index?;
    Some(format!("user_defined_index_factory: '{name}' is not implemented"))
}
