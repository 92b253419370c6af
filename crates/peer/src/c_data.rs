//! Passes strings, buffers and errors to C and back.
//!
//! Invariant: a string or buffer that RocksDB returns is copied and freed at once.

use crate::api::{Api, ErrorPtr};
use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr;

/// Calls a function that reports its error through a pointer. Returns the error as text.
pub(crate) fn call<T>(api: &Api, function: impl FnOnce(ErrorPtr) -> T) -> Result<T, String> {
    let mut error: *mut c_char = ptr::null_mut();
    let result = function(&raw mut error);
    if error.is_null() { Ok(result) } else { Err(take_string(api, error)) }
}

/// Copies a string that RocksDB allocated, and frees it.
pub(crate) fn take_string(api: &Api, text: *mut c_char) -> String {
    // SAFETY: RocksDB's strings end in NUL.
    let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: RocksDB allocated it and passed it to the caller, who owns it.
    unsafe { (api.free)(text.cast()) };
    copy
}

/// Copies a buffer that RocksDB allocated, and frees it.
pub(crate) fn take(api: &Api, bytes: *mut c_char, len: usize) -> Vec<u8> {
    let taken = copy(bytes, len);
    // SAFETY: RocksDB allocated it and passed it to the caller, who owns it.
    unsafe { (api.free)(bytes.cast()) };
    taken
}

pub(crate) fn copy(bytes: *const c_char, len: usize) -> Vec<u8> {
    if len == 0 {
        return Vec::new();
    }
    // SAFETY: RocksDB returned pointer and length together. The bytes stay until its next call.
    unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) }.to_vec()
}

pub(crate) fn slice(bytes: &[u8]) -> (*const c_char, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}

pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text).expect("no NUL in names and options")
}

pub(crate) fn c_path(path: &Path) -> CString {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).expect("no NUL in paths")
}
