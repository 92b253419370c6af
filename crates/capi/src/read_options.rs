//! `rocksdb_readoptions_t`: options of a get or an iterator.
//!
//! In: setters. Out: Esker's `ReadOptions`. As `c.h` says, the caller owns the bytes of bounds and
//! timestamps, and keeps these bytes while it uses the options. Each read copies them when it
//! begins.

use crate::callbacks::ClientState;
use crate::field::{Held, Object};
use crate::memory::{answer, bytes_or_none, destroy, give, lend, object, object_mut, put};
use crate::snapshot::rocksdb_snapshot_t;
use crate::table_properties::rocksdb_table_properties_t;
use esker::ReadOptions;
use esker::options::ScanTableFilter;
use libc::{c_char, c_uchar, c_void};
use std::borrow::Cow;

/// Options of reads.
#[derive(Clone, Debug)]
pub struct rocksdb_readoptions_t {
    /// The options, without the bytes that the caller keeps.
    pub options: ReadOptions,
    upper_bound: Kept,
    lower_bound: Kept,
    timestamp: Kept,
    iter_start_ts: Kept,
    /// The caller's name for the request. It has no effect.
    pub(crate) request_id: Option<Vec<u8>>,
    /// The name of a factory of user-defined indexes. It has no effect.
    pub(crate) table_index: Option<&'static str>,
    pub(crate) held: Held,
}

/// Bytes that the caller keeps; NULL if there are none.
#[derive(Clone, Copy, Debug)]
struct Kept(*const c_char, usize);

impl Kept {
    const NONE: Kept = Kept(std::ptr::null(), 0);

    unsafe fn copy(self) -> Option<Vec<u8>> {
        bytes_or_none(self.0, self.1).map(<[u8]>::to_vec)
    }
}

impl Object for rocksdb_readoptions_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

impl rocksdb_readoptions_t {
    /// The options for a get.
    pub(crate) unsafe fn for_get(&self) -> Cow<'_, ReadOptions> {
        self.with_timestamp().map_or(Cow::Borrowed(&self.options), Cow::Owned)
    }

    /// The options with the timestamp that the caller keeps; `None` if there is none.
    #[inline]
    pub(crate) unsafe fn with_timestamp(&self) -> Option<ReadOptions> {
        if self.timestamp.0.is_null() { None } else { Some(self.copy_with_timestamp()) }
    }

    #[cold]
    unsafe fn copy_with_timestamp(&self) -> ReadOptions {
        ReadOptions { timestamp: self.timestamp.copy(), ..self.options.clone() }
    }

    /// The options for an iterator, with copies of bounds and timestamps. `c.h` has no
    /// `PrepareValue`, so the iterators of C programs load all values.
    pub(crate) unsafe fn for_iterator(&self) -> ReadOptions {
        let mut options = self.options.clone();
        options.allow_unprepared_value = false;
        options.iterate_upper_bound = self.upper_bound.copy();
        options.iterate_lower_bound = self.lower_bound.copy();
        options.timestamp = self.timestamp.copy();
        options.iter_start_ts = self.iter_start_ts.copy();
        options
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_create() -> *mut rocksdb_readoptions_t {
    give(rocksdb_readoptions_t {
        options: ReadOptions::default(),
        upper_bound: Kept::NONE,
        lower_bound: Kept::NONE,
        timestamp: Kept::NONE,
        iter_start_ts: Kept::NONE,
        request_id: None,
        table_index: None,
        held: Held::new(),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_destroy(options: *mut rocksdb_readoptions_t) {
    destroy(options);
}

/// Sets the snapshot; NULL removes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_set_snapshot(
    options: *mut rocksdb_readoptions_t,
    snapshot: *const rocksdb_snapshot_t,
) {
    answer((), || {
        object_mut(options)?.options.snapshot =
            snapshot.as_ref().and_then(|snapshot| snapshot.get()).cloned();
        Ok(())
    });
}

unsafe fn keep(
    options: *mut rocksdb_readoptions_t,
    kept: Kept,
    field: impl FnOnce(&mut rocksdb_readoptions_t) -> &mut Kept,
) {
    answer((), || {
        *field(object_mut(options)?) = kept;
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_set_iterate_upper_bound(
    options: *mut rocksdb_readoptions_t,
    key: *const c_char,
    len: usize,
) {
    keep(options, Kept(key, len), |options| &mut options.upper_bound);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_set_iterate_lower_bound(
    options: *mut rocksdb_readoptions_t,
    key: *const c_char,
    len: usize,
) {
    keep(options, Kept(key, len), |options| &mut options.lower_bound);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_set_timestamp(
    options: *mut rocksdb_readoptions_t,
    timestamp: *const c_char,
    len: usize,
) {
    keep(options, Kept(timestamp, len), |options| &mut options.timestamp);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_set_iter_start_ts(
    options: *mut rocksdb_readoptions_t,
    timestamp: *const c_char,
    len: usize,
) {
    keep(options, Kept(timestamp, len), |options| &mut options.iter_start_ts);
}

/// Does nothing: the option asked for managed iterators, which RocksDB has removed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_set_managed(
    _options: *mut rocksdb_readoptions_t,
    _managed: c_uchar,
) {
}

/// Returns the request's name; NULL if it has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_get_request_id(
    options: *mut rocksdb_readoptions_t,
    len: *mut usize,
) -> *const c_char {
    answer(std::ptr::null(), || {
        Ok(match &object(options)?.request_id {
            Some(name) => lend(name, len),
            None => {
                put(len, 0);
                std::ptr::null()
            }
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_clear_request_id(options: *mut rocksdb_readoptions_t) {
    answer((), || {
        object_mut(options)?.request_id = None;
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_clear_merge_operand_count_threshold(
    options: *mut rocksdb_readoptions_t,
) {
    answer((), || {
        object_mut(options)?.options.merge_operand_count_threshold = None;
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_has_merge_operand_count_threshold(
    options: *mut rocksdb_readoptions_t,
) -> c_uchar {
    answer(0, || Ok(object_mut(options)?.options.merge_operand_count_threshold.is_some().into()))
}

type Filter = unsafe extern "C" fn(*mut c_void, *const rocksdb_table_properties_t) -> c_uchar;

/// Sets a filter: scans skip tables for which the function returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_set_table_filter(
    options: *mut rocksdb_readoptions_t,
    state: *mut c_void,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    filter: Option<Filter>,
) {
    answer((), || {
        let state = ClientState::new(state, destructor);
        object_mut(options)?.options.table_filter = filter.map(|filter| {
            ScanTableFilter::new(move |properties| {
                let properties = rocksdb_table_properties_t::new(properties);
                filter(state.get(), &properties) != 0
            })
        });
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_clear_table_filter(options: *mut rocksdb_readoptions_t) {
    answer((), || {
        object_mut(options)?.options.table_filter = None;
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_readoptions_has_table_filter(
    options: *const rocksdb_readoptions_t,
) -> c_uchar {
    options.as_ref().is_some_and(|options| options.options.table_filter.is_some()).into()
}
