//! The border to C: bytes, strings, errors and panics that cross it.
//!
//! In: pointers and lengths from a caller; results of the engine. Out: slices, checked objects;
//! buffers made by `malloc`, messages in `errptr`. A message is the text of Esker's error. It
//! begins like the text of RocksDB's status ("Corruption: …").

use esker::{Error, Result};
use libc::{c_char, c_uchar};
use std::borrow::Cow;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Runs `call` and returns its answer. After an error or a panic, stores the message in `errptr`
/// and returns `failed`.
pub(crate) unsafe fn attempt<T>(errptr: *mut *mut c_char, failed: T, call: impl FnOnce() -> Result<T>) -> T {
    match outcome(call) {
        Ok(answer) => answer,
        Err(error) => {
            save_error(errptr, &error.to_string());
            failed
        }
    }
}

/// Runs `call`. Turns a panic into an error.
pub(crate) fn outcome<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

/// Runs `call`.
/// # Errors
/// A panic.
#[inline]
pub(crate) fn guarded(call: impl FnOnce()) -> Result<()> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| panicked(panic.as_ref()))
}

/// Runs `call`, for a function without `errptr`. Returns `failed` after an error or a panic.
pub(crate) fn answer<T>(failed: T, call: impl FnOnce() -> Result<T>) -> T {
    catch_unwind(AssertUnwindSafe(call)).ok().and_then(Result::ok).unwrap_or(failed)
}

#[cold]
fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
    Error::corruption(format!("panic: {text}"))
}

/// Stores `text` in `errptr` and frees the old message.
pub(crate) unsafe fn save_error(errptr: *mut *mut c_char, text: &str) {
    if !errptr.is_null() {
        libc::free((*errptr).cast());
        *errptr = to_c_string(text.as_bytes());
    }
}

/// Reports that function `name` is not implemented.
#[allow(dead_code, reason = "build.rs calls it for functions that are not there, if any")]
pub(crate) unsafe fn missing(errptr: *mut *mut c_char, name: &str) {
    save_error(errptr, &format!("Not implemented: {name}"));
}

/// Prints that function `name` is not implemented, and aborts the process. The function cannot
/// report an error, and the caller would go on as if the call had succeeded.
#[allow(clippy::print_stderr, reason = "the function has no other way to report an error")]
#[allow(dead_code, reason = "build.rs calls it for functions that are not there, if any")]
pub(crate) fn missing_without_errptr(name: &str) -> ! {
    eprintln!("Not implemented: {name}");
    std::process::abort()
}

/// A copy of `bytes` with a NUL at the end, made by `malloc`.
pub(crate) unsafe fn to_c_string(bytes: &[u8]) -> *mut c_char {
    let copy = libc::malloc(bytes.len() + 1).cast::<u8>();
    if !copy.is_null() {
        copy.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        *copy.add(bytes.len()) = 0;
    }
    copy.cast()
}

/// A copy of `bytes`, made by `malloc`; not NULL even if `bytes` is empty. Stores the number of
/// bytes in `len`.
pub(crate) unsafe fn to_c_bytes(bytes: &[u8], len: *mut usize) -> *mut c_char {
    put(len, bytes.len());
    let copy = libc::malloc(bytes.len().max(1)).cast::<u8>();
    if !copy.is_null() {
        copy.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
    }
    copy.cast()
}

/// An array of `values`, made by `malloc`.
pub(crate) unsafe fn to_c_array<T: Copy>(values: &[T]) -> *mut T {
    let copy = libc::malloc(size_of_val(values).max(1)).cast::<T>();
    if !copy.is_null() {
        copy.copy_from_nonoverlapping(values.as_ptr(), values.len());
    }
    copy
}

/// A pointer to `bytes`. Stores the number of bytes in `len`.
#[inline]
pub(crate) unsafe fn lend(bytes: &[u8], len: *mut usize) -> *const c_char {
    put(len, bytes.len());
    bytes.as_ptr().cast()
}

/// Writes `value` to `place`, unless `place` is NULL.
#[inline]
pub(crate) unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        place.write(value);
    }
}

/// The `len` bytes at `data`. NULL with length 0 means no bytes.
/// # Errors
/// `InvalidArgument`: NULL with another length.
#[inline]
pub(crate) unsafe fn bytes<'a, C>(data: *const C, len: usize) -> Result<&'a [u8]> {
    slice(data.cast(), len)
}

/// The `len` bytes at `data`, an optional parameter; `None` if `data` is NULL, whatever `len` is.
pub(crate) unsafe fn bytes_or_none<'a>(data: *const c_char, len: usize) -> Option<&'a [u8]> {
    if data.is_null() { None } else { Some(std::slice::from_raw_parts(data.cast(), len)) }
}

/// The `count` values at `data`. NULL with count 0 means no values.
/// # Errors
/// `InvalidArgument`: NULL with another count.
#[inline]
pub(crate) unsafe fn slice<'a, T>(data: *const T, count: usize) -> Result<&'a [T]> {
    if !data.is_null() {
        Ok(std::slice::from_raw_parts(data, count))
    } else if count == 0 {
        Ok(&[])
    } else {
        Err(null_with_length(count))
    }
}

#[cold]
fn null_with_length(len: usize) -> Error {
    Error::invalid_argument(format!("NULL is given with the length {len}"))
}

/// The text at `text`, which ends with a NUL.
/// # Errors
/// `InvalidArgument` for NULL.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<Cow<'a, str>> {
    text_or_none(text).ok_or_else(|| Error::invalid_argument("a text is NULL"))
}

/// The text at `text`, which ends with a NUL; `None` for NULL.
pub(crate) unsafe fn text_or_none<'a>(text: *const c_char) -> Option<Cow<'a, str>> {
    if text.is_null() { None } else { Some(CStr::from_ptr(text).to_string_lossy()) }
}

/// The path at `path`, which ends with a NUL.
/// # Errors
/// `InvalidArgument` for NULL.
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Result<&'a Path> {
    if path.is_null() {
        return Err(Error::invalid_argument("the path is NULL"));
    }
    Ok(Path::new(OsStr::from_bytes(CStr::from_ptr(path).to_bytes())))
}

/// Writes `value` to element `at` of the array `places`, unless `places` is NULL.
pub(crate) unsafe fn put_at<T>(places: *mut T, at: usize, value: T) {
    if !places.is_null() {
        places.add(at).write(value);
    }
}

/// The object at `pointer`.
/// # Errors
/// `InvalidArgument` for NULL.
pub(crate) unsafe fn object<'a, T>(pointer: *const T) -> Result<&'a T> {
    pointer.as_ref().ok_or_else(null::<T>)
}

/// The object at `pointer`, mutable.
/// # Errors
/// `InvalidArgument` for NULL.
pub(crate) unsafe fn object_mut<'a, T>(pointer: *mut T) -> Result<&'a mut T> {
    pointer.as_mut().ok_or_else(null::<T>)
}

#[cold]
fn null<T>() -> Error {
    let name = std::any::type_name::<T>();
    Error::invalid_argument(format!("a {} is NULL", name.rsplit(':').next().unwrap_or(name)))
}

/// Moves `object` to the heap. The caller owns the returned pointer.
pub(crate) fn give<T>(object: T) -> *mut T {
    Box::into_raw(Box::new(object))
}

/// Takes back the ownership of an object that `give` made.
/// # Errors
/// `InvalidArgument` for NULL.
pub(crate) unsafe fn take<T>(pointer: *mut T) -> Result<Box<T>> {
    if pointer.is_null() { Err(null::<T>()) } else { Ok(Box::from_raw(pointer)) }
}

/// Destroys an object that `give` made. NULL has no effect.
pub(crate) unsafe fn destroy<T>(pointer: *mut T) {
    if !pointer.is_null() {
        let object = Box::from_raw(pointer);
        answer((), || {
            drop(object);
            Ok(())
        });
    }
}

/// `value` as a C boolean.
pub(crate) fn c_bool(value: bool) -> c_uchar {
    c_uchar::from(value)
}

/// Frees memory that this library returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_free(memory: *mut libc::c_void) {
    libc::free(memory);
}
