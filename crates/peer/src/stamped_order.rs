//! A comparator of Esker's tests that RocksDB calls, for keys in the order of their bytes or keys
//! that end with a timestamp in a format of the test kit.
//!
//! Invariants
//!  1. The comparator outlives every database that was opened with it.
//!  2. No callback panics: RocksDB passes keys that end with a timestamp, or says that they do
//!     not. Keys that are too short for one are compared by their bytes.

use crate::api::{Api, Comparator, NEEDS_11};
use crate::c_data::c_string;
use esker_testkit::timestamps::TimestampFormat;
use std::cmp::Ordering;
use std::ffi::{CString, c_char, c_int, c_uchar, c_void};

/// The state of the callbacks.
struct FamilyOrder {
    /// `None`: keys have no timestamps.
    format: Option<TimestampFormat>,
    name: CString,
}

/// The comparator. Destroyed when dropped.
#[derive(Debug)]
pub(crate) struct StampedOrder {
    api: &'static Api,
    ptr: *mut Comparator,
}

impl StampedOrder {
    /// A comparator of this name: keys by their bytes, then timestamps, newest first.
    pub(crate) fn new(api: &'static Api, name: &str, format: TimestampFormat) -> StampedOrder {
        let create = api.comparator_with_ts_create.expect(NEEDS_11);
        let order = Box::into_raw(Box::new(FamilyOrder { format: Some(format), name: c_string(name) }));
        // SAFETY: the functions fit the state, which lives until `destroy` frees it.
        let ptr = unsafe {
            create(order.cast(), destroy, compare, compare_stamps, compare_plain, name_of, format.bytes())
        };
        StampedOrder { api, ptr }
    }

    /// A comparator of this name: keys by their bytes.
    pub(crate) fn bytewise(api: &'static Api, name: &str) -> StampedOrder {
        let create = api.comparator_create.expect(NEEDS_11);
        let order = Box::into_raw(Box::new(FamilyOrder { format: None, name: c_string(name) }));
        // SAFETY: the functions fit the state, which lives until `destroy` frees it.
        let ptr = unsafe { create(order.cast(), destroy, compare, name_of) };
        StampedOrder { api, ptr }
    }

    pub(crate) fn as_ptr(&self) -> *mut Comparator {
        self.ptr
    }
}

impl Drop for StampedOrder {
    fn drop(&mut self) {
        // SAFETY: made in `new`; nothing that uses it is left (invariant 1).
        unsafe { self.api.comparator_destroy.expect(NEEDS_11)(self.ptr) };
    }
}

/// The state behind the pointer that RocksDB passes to a callback.
/// # Safety
/// `state` is from [`StampedOrder::new`] and not destroyed.
unsafe fn order<'a>(state: *mut c_void) -> &'a FamilyOrder {
    // SAFETY: the caller promises that `state` is from [`StampedOrder::new`] and not destroyed.
    unsafe { &*state.cast::<FamilyOrder>() }
}

/// The bytes that RocksDB passes to a callback.
/// # Safety
/// There are `len` bytes at `bytes` for the time of the callback.
unsafe fn bytes<'a>(bytes: *const c_char, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller promises `len` bytes at `bytes` for the time of the callback.
    unsafe { std::slice::from_raw_parts(bytes.cast(), len) }
}

fn number(order: Ordering) -> c_int {
    c_int::from(order as i8)
}

unsafe extern "C" fn destroy(state: *mut c_void) {
    // SAFETY: RocksDB calls it once, last, with the state of `StampedOrder::new`.
    drop(unsafe { Box::from_raw(state.cast::<FamilyOrder>()) });
}

unsafe extern "C" fn name_of(state: *mut c_void) -> *const c_char {
    // SAFETY: RocksDB hands the state back.
    unsafe { order(state) }.name.as_ptr()
}

unsafe extern "C" fn compare(
    state: *mut c_void,
    a: *const c_char,
    a_len: usize,
    b: *const c_char,
    b_len: usize,
) -> c_int {
    // SAFETY: RocksDB hands the state back.
    let format = unsafe { order(state) }.format;
    // SAFETY: RocksDB passes whole keys.
    let a = unsafe { bytes(a, a_len) };
    // SAFETY: RocksDB passes whole keys.
    let b = unsafe { bytes(b, b_len) };
    let stamped = format.filter(|format| a.len().min(b.len()) >= format.bytes());
    number(stamped.map_or_else(|| a.cmp(b), |format| format.compare(a, b)))
}

unsafe extern "C" fn compare_stamps(
    state: *mut c_void,
    a: *const c_char,
    a_len: usize,
    b: *const c_char,
    b_len: usize,
) -> c_int {
    // SAFETY: RocksDB hands the state back.
    let format = unsafe { order(state) }.format;
    // SAFETY: RocksDB passes whole timestamps.
    let a = unsafe { bytes(a, a_len) };
    // SAFETY: RocksDB passes whole timestamps.
    let b = unsafe { bytes(b, b_len) };
    number(format.map_or(Ordering::Equal, |format| format.rank(a).cmp(&format.rank(b))))
}

unsafe extern "C" fn compare_plain(
    state: *mut c_void,
    a: *const c_char,
    a_len: usize,
    a_has_stamp: c_uchar,
    b: *const c_char,
    b_len: usize,
    b_has_stamp: c_uchar,
) -> c_int {
    // SAFETY: RocksDB hands the state back.
    let stamp = unsafe { order(state) }.format.map_or(0, TimestampFormat::bytes);
    let plain_len =
        |len: usize, has_stamp: c_uchar| if has_stamp == 0 { len } else { len.saturating_sub(stamp) };
    // SAFETY: RocksDB passes whole keys, and says whether they end in a timestamp.
    let a = unsafe { bytes(a, plain_len(a_len, a_has_stamp)) };
    // SAFETY: RocksDB passes whole keys, and says whether they end in a timestamp.
    let b = unsafe { bytes(b, plain_len(b_len, b_has_stamp)) };
    number(a.cmp(b))
}
