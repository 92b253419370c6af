//! Transactions and batches with an index, called as a C program calls them.

#![allow(clippy::disallowed_methods, reason = "a client's threads are its own")]

use super::*;
use esker_testkit::TempDir;
use libc::{c_char, c_int, c_uchar, c_void};
use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};
use std::time::Duration;

/// Calls a function whose last argument is `errptr`. Returns its result, or the error's message.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let mut err: *mut c_char = null_mut();
        let answer = $name($($argument,)* &raw mut err);
        take_error(err).map_or(Ok(answer), Err)
    }};
}

unsafe fn take_error(err: *mut c_char) -> Option<String> {
    let text = (!err.is_null()).then(|| CStr::from_ptr(err).to_string_lossy().into_owned());
    rocksdb_free(err.cast());
    text
}

/// Copies the value and frees its buffer, which `malloc` made. `None` for a null pointer.
unsafe fn take(value: *mut c_char, len: usize) -> Option<String> {
    let taken = (!value.is_null()).then(|| String::from_utf8_lossy(bytes(value, len).unwrap()).into_owned());
    rocksdb_free(value.cast());
    taken
}

fn p(text: &str) -> *const c_char {
    text.as_ptr().cast()
}

/// Options and objects that all tests need.
struct Setup {
    dir: TempDir,
    options: *mut rocksdb_options_t,
    db_options: *mut rocksdb_transactiondb_options_t,
    txn_options: *mut rocksdb_transaction_options_t,
    write: *mut rocksdb_writeoptions_t,
    read: *mut rocksdb_readoptions_t,
}

impl Setup {
    unsafe fn new() -> Setup {
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        Setup {
            dir: TempDir::new("capi-transactions"),
            options,
            db_options: rocksdb_transactiondb_options_create(),
            txn_options: rocksdb_transaction_options_create(),
            write: rocksdb_writeoptions_create(),
            read: rocksdb_readoptions_create(),
        }
    }

    fn path(&self) -> CString {
        CString::new(self.dir.path().to_str().unwrap()).unwrap()
    }

    unsafe fn open(&self) -> Result<*mut rocksdb_transactiondb_t, String> {
        call!(rocksdb_transactiondb_open(self.options, self.db_options, self.path().as_ptr()))
    }

    unsafe fn begin(&self, db: *mut rocksdb_transactiondb_t) -> *mut rocksdb_transaction_t {
        rocksdb_transaction_begin(db, self.write, self.txn_options, null_mut())
    }

    unsafe fn get(&self, txn: *mut rocksdb_transaction_t, key: &str) -> Result<Option<String>, String> {
        let mut len = 0;
        let value = call!(rocksdb_transaction_get(txn, self.read, p(key), key.len(), &raw mut len))?;
        Ok(take(value, len))
    }

    unsafe fn lock(&self, txn: *mut rocksdb_transaction_t, key: &str) -> Result<Option<String>, String> {
        let mut err = null_mut();
        let mut len = 0;
        let value = rocksdb_transaction_get_for_update(
            txn,
            self.read,
            p(key),
            key.len(),
            &raw mut len,
            1,
            &raw mut err,
        );
        take_error(err).map_or_else(|| Ok(take(value, len)), Err)
    }

    unsafe fn db_get(&self, db: *mut rocksdb_transactiondb_t, key: &str) -> Option<String> {
        let mut len = 0;
        let value = call!(rocksdb_transactiondb_get(db, self.read, p(key), key.len(), &raw mut len)).unwrap();
        take(value, len)
    }

    unsafe fn db_put(&self, db: *mut rocksdb_transactiondb_t, key: &str, value: &str) -> Result<(), String> {
        call!(rocksdb_transactiondb_put(db, self.write, p(key), key.len(), p(value), value.len()))
    }
}

unsafe fn put(txn: *mut rocksdb_transaction_t, key: &str, value: &str) -> Result<(), String> {
    call!(rocksdb_transaction_put(txn, p(key), key.len(), p(value), value.len()))
}

unsafe fn commit(txn: *mut rocksdb_transaction_t) -> Result<(), String> {
    call!(rocksdb_transaction_commit(txn))
}

/// The entries of an iterator, which is destroyed.
unsafe fn entries(iterator: *mut rocksdb_iterator_t) -> Vec<(String, String)> {
    let mut found = Vec::new();
    assert_eq!(rocksdb_iter_valid(iterator), 0);
    rocksdb_iter_seek_to_first(iterator);
    while rocksdb_iter_valid(iterator) != 0 {
        let text = |slice: rocksdb_slice_t| {
            String::from_utf8_lossy(bytes(slice.data, slice.size).unwrap()).into_owned()
        };
        found.push((text(rocksdb_iter_key_slice(iterator)), text(rocksdb_iter_value_slice(iterator))));
        rocksdb_iter_next(iterator);
    }
    call!(rocksdb_iter_get_error(iterator)).unwrap();
    rocksdb_iter_destroy(iterator);
    found
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

#[test]
fn a_locked_key_times_out_for_others() {
    unsafe {
        let setup = Setup::new();
        rocksdb_transactiondb_options_set_default_lock_timeout(setup.db_options, 10);
        rocksdb_transaction_options_set_lock_timeout(setup.txn_options, 10);
        let db = setup.open().unwrap();
        let (first, second) = (setup.begin(db), setup.begin(db));
        put(first, "k", "1").unwrap();
        let refused = put(second, "k", "2").unwrap_err();
        assert!(refused.starts_with("Operation timed out: "), "{refused}");
        let refused = setup.db_put(db, "k", "3").unwrap_err();
        assert!(refused.starts_with("Operation timed out: "), "{refused}");
        assert_eq!(setup.get(first, "k").unwrap().as_deref(), Some("1"));
        assert_eq!(setup.get(second, "k").unwrap(), None);
        commit(first).unwrap();
        put(second, "k", "2").unwrap();
        rocksdb_transaction_destroy(second);
        assert_eq!(setup.db_get(db, "k").as_deref(), Some("1"));
        rocksdb_transaction_destroy(first);
        rocksdb_transactiondb_close(db);
    }
}

#[test]
fn one_of_two_that_wait_for_each_other_is_told() {
    struct Sent(*mut rocksdb_transaction_t);
    unsafe impl Send for Sent {}

    unsafe {
        let setup = Setup::new();
        rocksdb_transaction_options_set_deadlock_detect(setup.txn_options, 1);
        rocksdb_transaction_options_set_lock_timeout(setup.txn_options, 60_000);
        let db = setup.open().unwrap();
        let (first, second) = (setup.begin(db), setup.begin(db));
        put(first, "a", "1").unwrap();
        put(second, "b", "2").unwrap();
        let sent = Sent(second);
        let waiting = std::thread::spawn(move || {
            let sent = sent;
            let refused = put(sent.0, "a", "2").err();
            call!(rocksdb_transaction_rollback(sent.0)).unwrap();
            refused
        });
        std::thread::sleep(Duration::from_millis(50));
        let here = put(first, "b", "1").err();
        call!(rocksdb_transaction_rollback(first)).unwrap();
        let refused: Vec<String> = [here, waiting.join().unwrap()].into_iter().flatten().collect();
        assert!(matches!(&refused[..], [one] if one.starts_with("Resource busy")), "{refused:?}");
        rocksdb_transaction_destroy(first);
        rocksdb_transaction_destroy(second);
        rocksdb_transactiondb_close(db);
    }
}

#[test]
fn prepared_transactions_are_there_after_a_reopening() {
    unsafe {
        let setup = Setup::new();
        rocksdb_transaction_options_set_skip_prepare(setup.txn_options, 0);
        let db = setup.open().unwrap();
        for (name, key) in [("commit", "a"), ("roll back", "b")] {
            let txn = setup.begin(db);
            put(txn, key, "1").unwrap();
            assert!(commit(txn).unwrap_err().starts_with("Invalid argument: "));
            assert!(call!(rocksdb_transaction_prepare(txn)).unwrap_err().starts_with("Invalid argument: "));
            call!(rocksdb_transaction_set_name(txn, p(name), name.len())).unwrap();
            call!(rocksdb_transaction_prepare(txn)).unwrap();
            rocksdb_transaction_destroy(txn);
        }
        rocksdb_transactiondb_close(db);

        let db = setup.open().unwrap();
        let mut count = 0;
        let prepared = rocksdb_transactiondb_get_prepared_transactions(db, &raw mut count);
        assert_eq!(count, 2);
        for txn in slice(prepared, count).unwrap() {
            let mut len = 0;
            let name = take(rocksdb_transaction_get_name(*txn, &raw mut len), len).unwrap();
            if name == "commit" {
                commit(*txn).unwrap();
            } else {
                assert_eq!(name, "roll back");
                call!(rocksdb_transaction_rollback(*txn)).unwrap();
            }
            rocksdb_transaction_destroy(*txn);
        }
        rocksdb_free(prepared.cast());
        assert!(rocksdb_transactiondb_get_prepared_transactions(db, &raw mut count).is_null());
        assert_eq!((setup.db_get(db, "a").as_deref(), setup.db_get(db, "b")), (Some("1"), None));
        setup.db_put(db, "b", "free again").unwrap();
        rocksdb_transactiondb_close(db);
    }
}

#[test]
fn a_roll_back_to_a_save_point_leaves_what_was_before_it() {
    unsafe {
        let setup = Setup::new();
        let db = setup.open().unwrap();
        let txn = setup.begin(db);
        let none = call!(rocksdb_transaction_rollback_to_savepoint(txn)).unwrap_err();
        assert!(none.starts_with("NotFound: "), "{none}");
        put(txn, "a", "1").unwrap();
        rocksdb_transaction_set_savepoint(txn);
        put(txn, "b", "2").unwrap();
        call!(rocksdb_transaction_delete(txn, p("a"), 1)).unwrap();
        call!(rocksdb_transaction_rollback_to_savepoint(txn)).unwrap();
        assert_eq!(setup.get(txn, "a").unwrap().as_deref(), Some("1"));
        assert_eq!(setup.get(txn, "b").unwrap(), None);
        setup.db_put(db, "b", "of another").unwrap();
        commit(txn).unwrap();
        let again = rocksdb_transaction_begin(db, setup.write, setup.txn_options, txn);
        assert_eq!(again, txn);
        assert_eq!(setup.get(txn, "b").unwrap().as_deref(), Some("of another"));
        put(txn, "a", "forgotten").unwrap();
        rocksdb_transaction_destroy(txn);
        assert_eq!(setup.db_get(db, "a").as_deref(), Some("1"));
        rocksdb_transactiondb_close(db);
    }
}

#[test]
fn the_snapshot_of_a_transaction_is_read_at_and_validated_against() {
    unsafe {
        let setup = Setup::new();
        let db = setup.open().unwrap();
        setup.db_put(db, "k", "old").unwrap();
        let without = setup.begin(db);
        rocksdb_transaction_options_set_set_snapshot(setup.txn_options, 1);
        let txn = setup.begin(db);
        setup.db_put(db, "k", "new").unwrap();

        let snapshot = rocksdb_transaction_get_snapshot(txn);
        let twin = rocksdb_transaction_get_snapshot(txn);
        assert!(rocksdb_snapshot_get_sequence_number(snapshot) > 0);
        rocksdb_free(twin.cast_mut().cast());
        rocksdb_readoptions_set_snapshot(setup.read, snapshot);
        assert_eq!(setup.get(txn, "k").unwrap().as_deref(), Some("old"));
        rocksdb_readoptions_set_snapshot(setup.read, null());
        rocksdb_free(snapshot.cast_mut().cast());
        assert_eq!(setup.get(txn, "k").unwrap().as_deref(), Some("new"));
        assert!(setup.lock(txn, "k").unwrap_err().starts_with("Resource busy"));

        let empty = rocksdb_transaction_get_snapshot(without);
        assert_eq!(rocksdb_snapshot_get_sequence_number(empty), 0);
        rocksdb_readoptions_set_snapshot(setup.read, empty);
        rocksdb_free(empty.cast_mut().cast());
        assert_eq!(setup.lock(without, "k").unwrap().as_deref(), Some("new"));
        rocksdb_transaction_destroy(txn);
        rocksdb_transaction_destroy(without);
        rocksdb_transactiondb_close(db);
    }
}

#[test]
fn keys_of_several_families_are_read_and_locked_together() {
    unsafe {
        let setup = Setup::new();
        rocksdb_transactiondb_options_set_default_lock_timeout(setup.db_options, 10);
        let db = setup.open().unwrap();
        let family =
            call!(rocksdb_transactiondb_create_column_family(db, setup.options, c"other".as_ptr())).unwrap();
        let base = rocksdb_transactiondb_get_base_db(db);
        let default = rocksdb_get_default_column_family_handle(base);
        rocksdb_transactiondb_close_base_db(base);
        setup.db_put(db, "k", "1").unwrap();
        let txn = setup.begin(db);
        call!(rocksdb_transaction_put_cf(txn, family, p("k"), 1, p("2"), 1)).unwrap();

        let families = [default.cast_const(), family.cast_const(), family.cast_const()];
        let (keys, lens) = ([p("k"), p("k"), p("none")], [1, 1, 4]);
        type Read = unsafe extern "C" fn(
            *mut rocksdb_transaction_t,
            *const rocksdb_readoptions_t,
            *const *const rocksdb_column_family_handle_t,
            usize,
            *const *const c_char,
            *const usize,
            *mut *mut c_char,
            *mut usize,
            *mut *mut c_char,
        );
        let reads: [Read; 2] =
            [rocksdb_transaction_multi_get_cf, rocksdb_transaction_multi_get_for_update_cf];
        for read in reads {
            let (mut values, mut value_lens) = ([null_mut(); 3], [7; 3]);
            let mut errs = [null_mut(); 3];
            let (values_at, lens_at) = (values.as_mut_ptr(), value_lens.as_mut_ptr());
            let errs_at = errs.as_mut_ptr();
            read(
                txn,
                setup.read,
                families.as_ptr(),
                3,
                keys.as_ptr(),
                lens.as_ptr(),
                values_at,
                lens_at,
                errs_at,
            );
            assert!(errs.iter().all(|err| err.is_null()));
            let found = values.iter().zip(value_lens).map(|(value, len)| take(*value, len));
            assert_eq!(found.collect::<Vec<_>>(), [Some("1".to_string()), Some("2".to_string()), None]);
        }
        assert!(setup.db_put(db, "k", "3").unwrap_err().starts_with("Operation timed out: "));
        rocksdb_transaction_destroy(txn);
        rocksdb_column_family_handle_destroy(default);
        rocksdb_column_family_handle_destroy(family);
        rocksdb_transactiondb_close(db);
    }
}

#[test]
fn iterators_show_the_writes_of_a_transaction_and_of_a_batch() {
    unsafe {
        let setup = Setup::new();
        let db = setup.open().unwrap();
        for (key, value) in [("a", "1"), ("b", "2"), ("d", "4")] {
            setup.db_put(db, key, value).unwrap();
        }
        let txn = setup.begin(db);
        put(txn, "c", "3").unwrap();
        call!(rocksdb_transaction_delete(txn, p("a"), 1)).unwrap();
        let both = pairs(&[("b", "2"), ("c", "3"), ("d", "4")]);
        assert_eq!(entries(rocksdb_transaction_create_iterator(txn, setup.read)), both);
        let alone = entries(rocksdb_transactiondb_create_iterator(db, setup.read));
        assert_eq!(alone, pairs(&[("a", "1"), ("b", "2"), ("d", "4")]));

        let batch = rocksdb_writebatch_wi_create(0, 1);
        rocksdb_writebatch_wi_put(batch, p("bb"), 2, p("new"), 3);
        rocksdb_writebatch_wi_put(batch, p("z"), 1, p("beyond"), 6);
        rocksdb_writebatch_wi_delete(batch, p("d"), 1);
        let bounded = rocksdb_readoptions_create();
        rocksdb_readoptions_set_iterate_lower_bound(bounded, p("b"), 1);
        rocksdb_readoptions_set_iterate_upper_bound(bounded, p("y"), 1);
        let base = rocksdb_transactiondb_create_iterator(db, bounded);
        setup.db_put(db, "c", "after the base iterator").unwrap_err();
        call!(rocksdb_transaction_rollback(txn)).unwrap();
        setup.db_put(db, "c", "after the base iterator").unwrap();
        let over = rocksdb_writebatch_wi_create_iterator_with_base_readopts(batch, base, bounded);
        assert_eq!(entries(over), pairs(&[("b", "2"), ("bb", "new")]));

        let of_txn = rocksdb_transaction_create_iterator(txn, setup.read);
        let refused = rocksdb_writebatch_wi_create_iterator_with_base(batch, of_txn);
        rocksdb_iter_seek_to_first(refused);
        assert_eq!(rocksdb_iter_valid(refused), 0);
        assert!(call!(rocksdb_iter_get_error(refused)).unwrap_err().starts_with("Not implemented: "));
        rocksdb_iter_destroy(refused);
        rocksdb_writebatch_wi_destroy(batch);
        rocksdb_readoptions_destroy(bounded);
        rocksdb_transaction_destroy(txn);
        rocksdb_transactiondb_close(db);
    }
}

#[test]
fn a_batch_with_an_index_is_read_before_it_is_written() {
    unsafe {
        let setup = Setup::new();
        let db = setup.open().unwrap();
        let base = rocksdb_transactiondb_get_base_db(db);
        setup.db_put(db, "a", "1").unwrap();
        let batch = rocksdb_writebatch_wi_create_with_params(null_mut(), 0, 1, 1000, 8);
        let (parts, lens) = ([p("b"), p("c")], [1, 1]);
        rocksdb_writebatch_wi_putv(batch, 2, parts.as_ptr(), lens.as_ptr(), 2, parts.as_ptr(), lens.as_ptr());
        rocksdb_writebatch_wi_set_save_point(batch);
        rocksdb_writebatch_wi_delete(batch, p("a"), 1);
        assert_eq!(rocksdb_writebatch_wi_count(batch), 2);

        let mut len = 0;
        let alone = |key: &str, len: *mut usize| {
            call!(rocksdb_writebatch_wi_get_from_batch(batch, setup.options, p(key), key.len(), len)).unwrap()
        };
        assert_eq!(take(alone("bc", &raw mut len), len).as_deref(), Some("bc"));
        assert_eq!(take(alone("a", &raw mut len), len), None);
        let both = |key: &str| {
            let read = call!(rocksdb_writebatch_wi_get_pinned_from_batch_and_db(
                batch,
                base,
                setup.read,
                p(key),
                key.len()
            ));
            let slice = read.unwrap();
            let mut len = 0;
            let value = rocksdb_pinnableslice_value(slice, &raw mut len);
            let value = (!value.is_null()).then(|| bytes(value, len).unwrap().to_vec());
            rocksdb_pinnableslice_destroy(slice);
            value
        };
        assert_eq!((both("a"), both("bc")), (None, Some(b"bc".to_vec())));
        call!(rocksdb_writebatch_wi_rollback_to_save_point(batch)).unwrap();
        assert_eq!(both("a").unwrap(), b"1");
        call!(rocksdb_write_writebatch_wi(base, setup.write, batch)).unwrap();
        assert_eq!(setup.db_get(db, "bc").as_deref(), Some("bc"));
        rocksdb_writebatch_wi_clear(batch);
        assert_eq!(rocksdb_writebatch_wi_count(batch), 0);
        rocksdb_writebatch_wi_destroy(batch);
        rocksdb_transactiondb_close_base_db(base);
        rocksdb_transactiondb_close(db);
    }
}

#[test]
fn the_batch_of_a_transaction_is_read_through_its_wrapper_and_rebuilt_in_another() {
    unsafe {
        let setup = Setup::new();
        let db = setup.open().unwrap();
        let txn = setup.begin(db);
        let batch = rocksdb_transaction_get_writebatch_wi(txn);
        assert_eq!(rocksdb_writebatch_wi_count(batch), 0);
        put(txn, "a", "1").unwrap();
        call!(rocksdb_transaction_delete(txn, p("b"), 1)).unwrap();
        assert_eq!(rocksdb_writebatch_wi_count(batch), 2);
        rocksdb_writebatch_wi_clear(batch);
        rocksdb_writebatch_wi_put(batch, p("c"), 1, p("3"), 1);
        assert_eq!(rocksdb_writebatch_wi_count(batch), 2, "only calls of the transaction change its batch");

        let mut len = 0;
        let data = rocksdb_writebatch_wi_data(batch, &raw mut len);
        let copy = rocksdb_writebatch_create_from(data, len);
        let other = setup.begin(db);
        call!(rocksdb_transaction_rollback(txn)).unwrap();
        assert_eq!(rocksdb_writebatch_wi_count(batch), 0);
        call!(rocksdb_transaction_rebuild_from_writebatch(other, copy)).unwrap();
        let of_other = rocksdb_transaction_get_writebatch_wi(other);
        rocksdb_transaction_options_set_lock_timeout(setup.txn_options, 0);
        let third = setup.begin(db);
        assert!(put(third, "a", "2").is_err(), "a rebuilt transaction locks its keys");
        call!(rocksdb_transaction_rebuild_from_writebatch_wi(other, of_other)).unwrap();
        assert_eq!(rocksdb_writebatch_wi_count(of_other), 4);
        commit(other).unwrap();
        assert_eq!(setup.db_get(db, "a").as_deref(), Some("1"));
        for wrapper in [batch, of_other] {
            rocksdb_free(wrapper.cast());
        }
        rocksdb_writebatch_destroy(copy);
        for txn in [txn, other, third] {
            rocksdb_transaction_destroy(txn);
        }
        rocksdb_transactiondb_close(db);
    }
}

#[test]
fn options_of_an_optimistic_database_choose_how_commits_are_validated() {
    unsafe {
        let setup = Setup::new();
        let options = rocksdb_optimistictransactiondb_options_create();
        assert_eq!(rocksdb_optimistictransactiondb_options_get_validate_policy(options), 1);
        assert_eq!(rocksdb_optimistictransactiondb_options_get_occ_lock_buckets(options), 1 << 20);
        let buckets = rocksdb_optimistictransactiondb_lock_buckets_create(1 << 8, 1);
        let used = rocksdb_optimistictransactiondb_lock_buckets_approximate_memory_usage(buckets);
        assert!(used >= 1 << 8, "{used}");
        rocksdb_optimistictransactiondb_options_set_shared_lock_buckets(options, buckets);
        rocksdb_optimistictransactiondb_lock_buckets_destroy(buckets);
        for policy in [1, 0] {
            rocksdb_optimistictransactiondb_options_set_validate_policy(options, policy);
            let path = setup.path();
            let open = rocksdb_optimistictransactiondb_open_with_otxn_db_options;
            let db = call!(open(setup.options, options, path.as_ptr())).unwrap();
            let txn_options = rocksdb_optimistictransaction_options_create();
            let begin = || rocksdb_optimistictransaction_begin(db, setup.write, txn_options, null_mut());
            let (first, second) = (begin(), begin());
            put(first, "k", "1").unwrap();
            put(second, "k", "2").unwrap();
            commit(second).unwrap();
            assert!(commit(first).unwrap_err().starts_with("Resource busy"));
            rocksdb_transaction_destroy(first);
            rocksdb_transaction_destroy(second);
            rocksdb_optimistictransaction_options_destroy(txn_options);
            rocksdb_optimistictransactiondb_close(db);
        }
        rocksdb_optimistictransactiondb_options_set_shared_lock_buckets(options, null_mut());
        rocksdb_optimistictransactiondb_options_set_validate_policy(options, 1);
        rocksdb_optimistictransactiondb_options_set_occ_lock_buckets(options, 0);
        let path = setup.path();
        let open = rocksdb_optimistictransactiondb_open_with_otxn_db_options;
        let db = call!(open(setup.options, options, path.as_ptr())).unwrap();
        let batch = rocksdb_writebatch_create();
        rocksdb_writebatch_put(batch, p("k"), 1, p("3"), 1);
        call!(rocksdb_optimistictransactiondb_write(db, setup.write, batch)).unwrap();
        rocksdb_writebatch_destroy(batch);
        rocksdb_optimistictransactiondb_close(db);
        rocksdb_optimistictransactiondb_options_destroy(options);
    }
}

#[test]
fn an_optimistic_commit_fails_if_another_has_written_its_key() {
    unsafe {
        let setup = Setup::new();
        let path = setup.path();
        let db = call!(rocksdb_optimistictransactiondb_open(setup.options, path.as_ptr())).unwrap();
        let options = rocksdb_optimistictransaction_options_create();
        let begin = || rocksdb_optimistictransaction_begin(db, setup.write, options, null_mut());
        let (first, second) = (begin(), begin());
        put(first, "k", "1").unwrap();
        put(second, "k", "2").unwrap();
        commit(second).unwrap();
        let refused = commit(first).unwrap_err();
        assert!(refused.starts_with("Resource busy"), "{refused}");
        let again = rocksdb_optimistictransaction_begin(db, setup.write, options, first);
        assert_eq!(again, first);
        assert_eq!(setup.lock(first, "k").unwrap().as_deref(), Some("2"));
        for refused in [
            call!(rocksdb_transaction_set_name(first, p("name"), 4)),
            call!(rocksdb_transaction_prepare(first)),
        ] {
            assert!(refused.unwrap_err().starts_with("Invalid argument: "));
        }
        rocksdb_transaction_put_log_data(first, p("note"), 4);
        put(first, "k", "3").unwrap();
        commit(first).unwrap();

        let batch = rocksdb_writebatch_create();
        rocksdb_writebatch_put(batch, p("z"), 1, p("9"), 1);
        call!(rocksdb_optimistictransactiondb_write(db, setup.write, batch)).unwrap();
        let base = rocksdb_optimistictransactiondb_get_base_db(db);
        let all = entries(rocksdb_create_iterator(base, setup.read));
        assert_eq!(all, pairs(&[("k", "3"), ("z", "9")]));
        rocksdb_optimistictransactiondb_close_base_db(base);
        rocksdb_writebatch_destroy(batch);
        rocksdb_transaction_destroy(first);
        rocksdb_transaction_destroy(second);
        rocksdb_optimistictransactiondb_close(db);
    }
}

#[test]
fn write_prepared_and_write_unprepared_are_in_force() {
    unsafe {
        let setup = Setup::new();
        rocksdb_transactiondb_options_set_write_policy(setup.db_options, 2);
        assert_eq!(
            rocksdb_transactiondb_options_get_default_write_batch_flush_threshold(setup.db_options),
            0
        );
        rocksdb_transactiondb_options_set_default_write_batch_flush_threshold(setup.db_options, 1);
        let db = setup.open().unwrap();
        let txn = setup.begin(db);
        put(txn, "k", "v").unwrap();
        put(txn, "l", "v").unwrap();
        let refused = call!(rocksdb_transaction_set_name(txn, p("t"), 1)).unwrap_err();
        assert!(refused.contains("spilled"), "{refused}");
        assert_eq!(setup.db_get(db, "k"), None);
        commit(txn).unwrap();
        assert_eq!(setup.db_get(db, "k").as_deref(), Some("v"));
        rocksdb_transaction_destroy(txn);
        rocksdb_transactiondb_close(db);
        let options = rocksdb_transaction_options_create();
        assert_eq!(rocksdb_transaction_options_get_write_batch_flush_threshold(options), -1);
        rocksdb_transaction_options_set_write_batch_flush_threshold(options, 7);
        assert_eq!(rocksdb_transaction_options_get_write_batch_flush_threshold(options), 7);
        rocksdb_transaction_options_destroy(options);

        let setup = Setup::new();
        rocksdb_transactiondb_options_set_write_policy(setup.db_options, 9);
        let refused = setup.open().unwrap_err();
        assert!(refused.starts_with("Invalid argument: write_policy"), "{refused}");

        let setup = Setup::new();
        rocksdb_transactiondb_options_set_write_policy(setup.db_options, 1);
        assert_eq!(rocksdb_transactiondb_options_get_write_policy(setup.db_options), 1);
        let db = setup.open().unwrap();
        let txn = setup.begin(db);
        put(txn, "k", "v").unwrap();
        call!(rocksdb_transaction_set_name(txn, p("t"), 1)).unwrap();
        call!(rocksdb_transaction_prepare(txn)).unwrap();
        assert_eq!(setup.db_get(db, "k"), None);
        assert!(put(txn, "l", "v").unwrap_err().contains("WritePrepared"));
        commit(txn).unwrap();
        assert_eq!(setup.db_get(db, "k").as_deref(), Some("v"));
        rocksdb_transaction_destroy(txn);
        rocksdb_transactiondb_close(db);
    }
}

/// Compares keys bytewise. The last two bytes of each are its timestamp. Of equal keys, the one
/// with the newer timestamp comes first.
unsafe extern "C" fn compare(
    state: *mut c_void,
    a: *const c_char,
    a_len: usize,
    b: *const c_char,
    b_len: usize,
) -> c_int {
    let ts = |data: *const c_char, len: usize| data.wrapping_add(len - 2);
    match compare_keys(state, a, a_len, 1, b, b_len, 1) {
        0 => compare_ts(state, ts(b, b_len), 2, ts(a, a_len), 2),
        order => order,
    }
}

unsafe extern "C" fn compare_ts(
    _state: *mut c_void,
    a: *const c_char,
    a_len: usize,
    b: *const c_char,
    b_len: usize,
) -> c_int {
    bytes::<c_char>(a, a_len).unwrap().cmp(bytes(b, b_len).unwrap()) as c_int
}

unsafe extern "C" fn compare_keys(
    _state: *mut c_void,
    a: *const c_char,
    a_len: usize,
    a_has_ts: c_uchar,
    b: *const c_char,
    b_len: usize,
    b_has_ts: c_uchar,
) -> c_int {
    let plain = |len: usize, has_ts: c_uchar| if has_ts != 0 { len - 2 } else { len };
    bytes::<c_char>(a, plain(a_len, a_has_ts)).unwrap().cmp(bytes(b, plain(b_len, b_has_ts)).unwrap())
        as c_int
}

unsafe extern "C" fn comparator_name(_state: *mut c_void) -> *const c_char {
    c"with timestamps".as_ptr()
}

unsafe extern "C" fn nothing(_state: *mut c_void) {}

/// The size of the timestamps of a family: 2 for the default family. For other families `state`
/// points to it.
unsafe extern "C" fn ts_size(state: *mut c_void, family: u32) -> usize {
    match family {
        0 => 2,
        _ => *state.cast::<usize>(),
    }
}

#[test]
fn keys_that_wait_for_their_timestamps_are_written_once_they_have_them() {
    unsafe {
        let setup = Setup::new();
        let path = setup.path();
        let plain = rocksdb_options_create_copy(setup.options);
        let comparator = rocksdb_comparator_with_ts_create(
            null_mut(),
            Some(nothing),
            Some(compare),
            Some(compare_ts),
            Some(compare_keys),
            Some(comparator_name),
            2,
        );
        rocksdb_options_set_comparator(setup.options, comparator);
        let db = call!(rocksdb_open(setup.options, path.as_ptr())).unwrap();
        let default = rocksdb_get_default_column_family_handle(db);
        let other = call!(rocksdb_create_column_family(db, plain, c"plain".as_ptr())).unwrap();

        let batch = rocksdb_writebatch_create();
        rocksdb_writebatch_put_cf(batch, default, p("k"), 1, p("v"), 1);
        assert_eq!(rocksdb_writebatch_count(batch), 0, "the batch has no size for the default family");
        rocksdb_writebatch_destroy(batch);

        let batch = rocksdb_writebatch_create_with_params(0, 0, 8, 2);
        rocksdb_writebatch_put(batch, p("a"), 1, p("1"), 1);
        rocksdb_writebatch_put_cf(batch, default, p("b"), 1, p("2"), 1);
        rocksdb_writebatch_put_cf(batch, other, p("c"), 1, p("3"), 1);
        rocksdb_writebatch_put_cf_with_ts(batch, other, p("d"), 1, p("01"), 2, p("4"), 1);
        rocksdb_writebatch_put_cf_with_ts(batch, default, p("d"), 1, p("012"), 3, p("4"), 1);
        rocksdb_writebatch_delete_cf_with_ts(batch, default, p("d"), 1, p("01"), 2);
        assert_eq!(rocksdb_writebatch_count(batch), 4, "timestamps of the wrong size are refused");
        let refused = call!(rocksdb_write(db, setup.write, batch)).unwrap_err();
        assert_eq!(refused, "Invalid argument: write batch must have timestamp(s) set");

        let mut of_other = usize::MAX;
        let state = (&raw mut of_other).cast::<c_void>();
        let update = |ts: &str| {
            call!(rocksdb_writebatch_update_timestamps(batch, p(ts), ts.len(), state, Some(ts_size)))
        };
        assert!(update("07").unwrap_err().starts_with("NotFound"));
        *state.cast::<usize>() = 0;
        assert!(update("").unwrap_err().starts_with("Invalid argument: "));
        assert!(update("007").unwrap_err().starts_with("Invalid argument: "));
        assert!(call!(rocksdb_write(db, setup.write, batch)).is_err());
        update("07").unwrap();
        call!(rocksdb_writebatch_verify_checksum(batch)).unwrap();
        call!(rocksdb_write(db, setup.write, batch)).unwrap();

        let get = |key: &str, ts: &'static str| {
            rocksdb_readoptions_set_timestamp(setup.read, p(ts), ts.len());
            let mut len = 0;
            take(call!(rocksdb_get(db, setup.read, p(key), key.len(), &raw mut len)).unwrap(), len)
        };
        assert_eq!((get("a", "06"), get("a", "07").as_deref()), (None, Some("1")));
        assert_eq!(get("b", "08").as_deref(), Some("2"));
        rocksdb_readoptions_set_timestamp(setup.read, null(), 0);
        let mut len = 0;
        let value = call!(rocksdb_get_cf(db, setup.read, other, p("c"), 1, &raw mut len)).unwrap();
        assert_eq!(take(value, len).as_deref(), Some("3"));

        let indexed = rocksdb_writebatch_wi_create(0, 1);
        rocksdb_writebatch_wi_put_cf(indexed, other, p("c"), 1, p("5"), 1);
        call!(rocksdb_writebatch_wi_update_timestamps(indexed, p("09"), 2, state, Some(ts_size))).unwrap();
        call!(rocksdb_write_writebatch_wi(db, setup.write, indexed)).unwrap();
        rocksdb_writebatch_wi_destroy(indexed);
        rocksdb_writebatch_destroy(batch);
        rocksdb_column_family_handle_destroy(default);
        rocksdb_column_family_handle_destroy(other);
        rocksdb_close(db);
        rocksdb_options_destroy(plain);
        rocksdb_options_destroy(setup.options);
        rocksdb_comparator_destroy(comparator);
    }
}

#[test]
fn null_is_an_error_and_not_a_crash() {
    unsafe {
        let refused = put(null_mut(), "k", "v").unwrap_err();
        assert_eq!(refused, "Invalid argument: a rocksdb_transaction_t is NULL");
        assert!(rocksdb_transaction_begin(null_mut(), null(), null(), null_mut()).is_null());
        rocksdb_transaction_destroy(null_mut());
        rocksdb_writebatch_wi_destroy(null_mut());
        rocksdb_writebatch_wi_put(null_mut(), p("k"), 1, p("v"), 1);
        assert!(rocksdb_writebatch_wi_create_iterator_with_base(null_mut(), null_mut()).is_null());
    }
}
