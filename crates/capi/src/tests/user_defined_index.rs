//! User-defined indexes by name.

use super::*;
use esker_testkit::TempDir;
use libc::c_char;
use std::ffi::{CStr, CString};
use std::ptr;

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

/// Copies the message and frees it.
unsafe fn message(error: *mut c_char) -> Option<String> {
    if error.is_null() {
        return None;
    }
    let text = unsafe { CStr::from_ptr(error) }.to_str().unwrap().to_owned();
    unsafe { rocksdb_free(error.cast()) };
    Some(text)
}

#[test]
fn a_user_defined_index_is_known_by_name_and_refused_at_open() {
    let dir = TempDir::new("c_udi");
    let path = c(dir.join("db").to_str().unwrap());
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let table = rocksdb_block_based_options_create();
        let set = |name: &str| {
            let mut error = ptr::null_mut();
            let set = rocksdb_block_based_options_set_user_defined_index_factory_from_string;
            set(table, name.as_ptr().cast(), name.len(), &mut error);
            message(error)
        };
        let name = || {
            let mut len = 7;
            let name = rocksdb_block_based_options_get_user_defined_index_factory_name(table, &mut len);
            (!name.is_null()).then(|| {
                String::from_utf8(std::slice::from_raw_parts(name.cast::<u8>(), len).to_vec()).unwrap()
            })
        };
        for known in ["trie_index", "id=trie_index", "{id=trie_index}"] {
            assert_eq!((set(known), name().as_deref()), (None, Some("trie_index")), "{known}");
        }
        let unknown = "Not implemented: Could not load UserDefinedIndexFactory: nope";
        assert_eq!((set("nope").as_deref(), name()), (Some(unknown), None));
        assert_eq!((set(""), name()), (None, None));
        set("trie_index");
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        rocksdb_options_set_block_based_table_factory(options, table);
        let mut error = ptr::null_mut();
        assert!(rocksdb_open(options, path.as_ptr(), &mut error).is_null());
        let refused = message(error).unwrap();
        assert!(refused.contains("user_defined_index_factory: 'trie_index' is not implemented"), "{refused}");
        rocksdb_options_destroy(options);
        rocksdb_block_based_options_clear_user_defined_index_factory(table);
        assert_eq!(name(), None);
        rocksdb_block_based_options_destroy(table);
    }
}
