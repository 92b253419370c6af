//! Iterators and pinned values: the data that their handles keep between two calls.

use super::*;
use crate::iterator::step;
use std::ptr::{null, null_mut};

/// A database with the keys "a" and "b".
unsafe fn opened(dir: &esker_testkit::TempDir) -> *mut rocksdb_t {
    let path = CString::new(dir.path().to_str().unwrap()).unwrap();
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let (options, writes) = (rocksdb_options_create(), rocksdb_writeoptions_create());
        (*options).db.create_if_missing = true;
        let db = rocksdb_open(options, path.as_ptr(), null_mut());
        for key in [c"a", c"b"] {
            rocksdb_put(db, writes, key.as_ptr(), 1, c"value".as_ptr(), 5, null_mut());
        }
        rocksdb_options_destroy(options);
        rocksdb_writeoptions_destroy(writes);
        db
    }
}

/// The key, if the iterator is valid, by both functions that give it.
unsafe fn key(iterator: *const rocksdb_iterator_t) -> Option<Vec<u8>> {
    // SAFETY: the iterator lives, and its key until the next move.
    unsafe {
        let mut len = 7;
        let bytes = rocksdb_iter_key(iterator, &mut len);
        let key = std::slice::from_raw_parts(bytes.cast::<u8>(), len).to_vec();
        let slice = rocksdb_iter_key_slice(iterator);
        assert_eq!(std::slice::from_raw_parts(slice.data.cast::<u8>(), slice.size), key);
        (rocksdb_iter_valid(iterator) != 0).then_some(key)
    }
}

unsafe fn error(iterator: *const rocksdb_iterator_t) -> String {
    let mut error = null_mut();
    // SAFETY: the iterator lives; the message is freed once.
    unsafe {
        rocksdb_iter_get_error(iterator, &mut error);
        let text =
            if error.is_null() { String::new() } else { CStr::from_ptr(error).to_str().unwrap().into() };
        rocksdb_free(error.cast());
        text
    }
}

#[test]
fn an_iterator_gives_the_key_of_its_last_move() {
    let dir = esker_testkit::TempDir::new("capi-iterator-key");
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let (db, reads) = (opened(&dir), rocksdb_readoptions_create());
        let iterator = rocksdb_create_iterator(db, reads);
        assert_eq!(key(iterator), None, "before the first move");
        rocksdb_iter_seek_to_first(iterator);
        assert_eq!(key(iterator).as_deref(), Some(&b"a"[..]));
        rocksdb_iter_next(iterator);
        assert_eq!(key(iterator).as_deref(), Some(&b"b"[..]));
        rocksdb_iter_next(iterator);
        assert_eq!(key(iterator), None, "behind the last key");
        rocksdb_iter_seek_to_last(iterator);
        rocksdb_iter_prev(iterator);
        assert_eq!(key(iterator).as_deref(), Some(&b"a"[..]));
        rocksdb_iter_refresh(iterator, null_mut());
        assert_eq!(key(iterator), None, "after a refresh");
        rocksdb_iter_seek_for_prev(iterator, c"c".as_ptr(), 1);
        assert_eq!(key(iterator).as_deref(), Some(&b"b"[..]));
        rocksdb_iter_seek(iterator, null(), 3);
        assert_eq!(key(iterator), None, "after a seek of NULL");
        assert_ne!(error(iterator), "");
        rocksdb_iter_destroy(iterator);
        rocksdb_readoptions_destroy(reads);
        rocksdb_close(db);
    }
}

#[test]
fn a_move_that_panics_makes_the_iterator_invalid_with_an_error() {
    let dir = esker_testkit::TempDir::new("capi-iterator-panic");
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let (db, reads) = (opened(&dir), rocksdb_readoptions_create());
        let iterator = rocksdb_create_iterator(db, reads);
        rocksdb_iter_seek_to_first(iterator);
        step(iterator, |_| panic!("of a test"));
        assert_eq!((key(iterator), error(iterator).as_str()), (None, "Corruption: panic: of a test"));
        rocksdb_iter_seek_to_first(iterator);
        assert_eq!(key(iterator), None, "a seek does not revive it");
        rocksdb_iter_destroy(iterator);
        rocksdb_readoptions_destroy(reads);
        rocksdb_close(db);
    }
}

#[test]
fn pinned_values_keep_their_bytes_after_a_handle_is_destroyed_twice() {
    let dir = esker_testkit::TempDir::new("capi-pinned");
    // SAFETY: the objects are created here. One handle is destroyed twice in a row. The library
    // tolerates this if the thread does not get another handle in between.
    unsafe {
        let (db, reads) = (opened(&dir), rocksdb_readoptions_create());
        let get = |key: &CStr| rocksdb_get_pinned(db, reads, key.as_ptr(), 1, null_mut());
        let value = |slice| {
            let mut len = 0;
            let bytes = rocksdb_pinnableslice_value(slice, &mut len);
            std::slice::from_raw_parts(bytes.cast::<u8>(), len)
        };
        let (first, second) = (get(c"a"), get(c"b"));
        rocksdb_pinnableslice_destroy(first);
        rocksdb_pinnableslice_destroy(first);
        let (third, fourth) = (get(c"a"), get(c"b"));
        assert_eq!(third, first, "the spare handle");
        for (slice, name) in [(second, "second"), (third, "third"), (fourth, "fourth")] {
            assert_eq!(value(slice), b"value", "{name}");
        }
        assert!(get(c"c").is_null());
        for slice in [second, third, fourth, null_mut()] {
            rocksdb_pinnableslice_destroy(slice);
        }
        rocksdb_readoptions_destroy(reads);
        rocksdb_close(db);
    }
}
