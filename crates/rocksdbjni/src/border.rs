//! The border to Java: arguments, results, exceptions and panics that cross it.
//!
//! In: the raw arguments of a native. Out: typed arguments for the functions of this crate; their
//! results as Java values. An error becomes a `RocksDBException` with a `Status`, and so does a
//! panic. While an exception is pending a native returns 0 or null, which Java ignores.

use crate::handle::NativeHandle;
use crate::jni::{JavaBytes, JavaEnv, Reference, byte, reference};
use esker::{Error, ErrorKind, SubCode};
use jni_sys::jobject;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The reason why a native fails.
#[derive(Debug)]
pub(crate) enum NativeFailure {
    /// An error of the engine.
    Engine(Error),
    /// A Java exception is pending.
    Thrown,
}

pub(crate) type NativeResult<T, E = NativeFailure> = std::result::Result<T, E>;

impl From<Error> for NativeFailure {
    fn from(error: Error) -> NativeFailure {
        NativeFailure::Engine(error)
    }
}

/// A typed argument, made of a raw one.
pub(crate) trait FromJava<Raw> {
    /// Makes the argument.
    /// # Safety
    /// `raw` is an argument of a native. If `Self` is a handle, invariants 1 and 2 of `handle.rs`
    /// hold for `raw` during the call. If `Self` is a reference, `raw` is valid during the call.
    unsafe fn from_java(raw: Raw) -> Self;
}

/// Makes a typed argument.
/// # Safety
/// `raw` is an argument of a native. If `T` is a handle, invariants 1 and 2 of `handle.rs` hold for
/// `raw` during the call. If `T` is a reference, `raw` is valid during the call.
pub(crate) unsafe fn from_java<Raw, T: FromJava<Raw>>(raw: Raw) -> T {
    // SAFETY: `raw` is an argument of a native. If `T` is a handle, invariants 1 and 2 of
    // `handle.rs` hold for `raw` during the call. If `T` is a reference, `raw` is valid.
    unsafe { T::from_java(raw) }
}

macro_rules! plain_arguments {
    ($($ty:ty),*) => {$(
        impl FromJava<$ty> for $ty {
            unsafe fn from_java(raw: $ty) -> $ty {
                raw
            }
        }
    )*};
}
plain_arguments!(i64, i32, i8, u16, bool, f64);

impl<T> FromJava<i64> for NativeHandle<T> {
    unsafe fn from_java(raw: i64) -> NativeHandle<T> {
        // SAFETY: invariants 1 and 2 of `handle.rs` hold for `raw` during the call.
        unsafe { NativeHandle::new(raw) }
    }
}

impl FromJava<jobject> for Reference {
    unsafe fn from_java(raw: jobject) -> Reference {
        // SAFETY: `raw` is an argument of a native, so it is valid during the call.
        unsafe { Reference::new(raw) }
    }
}

/// A result as a Java value.
pub(crate) trait IntoJava {
    /// The raw type.
    type Raw: Blank;
    fn into_java(self) -> Self::Raw;
}

/// The value that a native returns while an exception is pending.
pub(crate) trait Blank {
    fn blank() -> Self;
}

macro_rules! plain_results {
    ($($ty:ty = $blank:expr),*) => {$(
        impl IntoJava for $ty {
            type Raw = $ty;
            fn into_java(self) -> $ty {
                self
            }
        }
        impl Blank for $ty {
            fn blank() -> $ty {
                $blank
            }
        }
    )*};
}
plain_results!(i64 = 0, i32 = 0, i8 = 0, u16 = 0, f64 = 0.0, bool = false, () = ());

impl Blank for jobject {
    fn blank() -> jobject {
        std::ptr::null_mut()
    }
}

impl IntoJava for Reference {
    type Raw = jobject;
    fn into_java(self) -> jobject {
        self.raw()
    }
}

/// Runs the body of a native. Throws its error, or an error that tells of its panic.
pub(crate) fn call<R: IntoJava>(env: &JavaEnv<'_>, body: impl FnOnce() -> NativeResult<R>) -> R::Raw {
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(result)) => return result.into_java(),
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
            NativeFailure::Engine(Error::corruption(format!("panic: {text}")))
        }
    };
    if let NativeFailure::Engine(error) = failure {
        throw(env, &error);
    }
    R::Raw::blank()
}

/// Throws "Not implemented: NAME", for a native that is not built.
pub(crate) fn missing<R: Blank>(env: &JavaEnv<'_>, name: &str) -> R {
    throw(env, &Error::not_supported(format!("Not implemented: {name}")));
    R::blank()
}

/// Makes a `RocksDBException` of `error` the pending exception, unless one is pending.
fn throw(env: &JavaEnv<'_>, error: &Error) {
    if !env.is_thrown() {
        // If Java has no memory for the exception, its OutOfMemoryError is pending.
        throwable(env, &status_texts(error)).map(|exception| env.throw(exception)).ok();
    }
}

/// Code, sub-code and state of a status, as RocksJava numbers them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StatusParts {
    pub(crate) code: i8,
    pub(crate) subcode: i8,
    pub(crate) state: String,
}

pub(crate) fn status_texts(error: &Error) -> StatusParts {
    let code = match error.kind() {
        ErrorKind::NotFound => 1,
        ErrorKind::Corruption => 2,
        ErrorKind::NotSupported => 3,
        ErrorKind::InvalidArgument => 4,
        ErrorKind::IoError => 5,
        ErrorKind::MergeInProgress => 6,
        ErrorKind::Incomplete => 7,
        ErrorKind::ShutdownInProgress => 8,
        ErrorKind::TimedOut => 9,
        ErrorKind::Aborted => 10,
        ErrorKind::Busy => 11,
        ErrorKind::Expired => 12,
        ErrorKind::TryAgain => 13,
        // RocksJava has no numbers for the others: `Undefined`.
        _ => 0x7F,
    };
    let subcode = match error.subcode() {
        SubCode::None => 0,
        SubCode::MutexTimeout => 1,
        SubCode::LockTimeout => 2,
        SubCode::LockLimit => 3,
        SubCode::NoSpace => 4,
        SubCode::Deadlock => 5,
        SubCode::StaleFile => 6,
        SubCode::MemoryLimit => 7,
        _ => 0x7F,
    };
    StatusParts { code, subcode, state: error.message().to_owned() }
}

/// A new `org.rocksdb.Status`.
pub(crate) fn new_status(env: &JavaEnv<'_>, parts: &StatusParts) -> NativeResult<Reference> {
    let state = if parts.state.is_empty() { Reference::NULL } else { env.new_text(&parts.state)? };
    let arguments = [byte(parts.code), byte(parts.subcode), reference(state)];
    let status = env.new_object("org/rocksdb/Status", "(BBLjava/lang/String;)V", &arguments)?;
    env.forget(state);
    Ok(status)
}

/// A new `RocksDBException` with the status.
pub(crate) fn throwable(env: &JavaEnv<'_>, parts: &StatusParts) -> NativeResult<Reference> {
    let status = new_status(env, parts)?;
    env.new_object("org/rocksdb/RocksDBException", "(Lorg/rocksdb/Status;)V", &[reference(status)])
}

/// Bytes that Java passes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JavaInput {
    /// A range of a byte array.
    Array(Reference, i32, i32),
    /// A range of a direct buffer.
    Direct(Reference, i32, i32),
    /// A whole byte array.
    Whole(Reference),
    /// The byte arrays of an array, one behind the other.
    Parts(Reference),
}

impl JavaInput {
    pub(crate) fn read(self, env: &JavaEnv<'_>) -> NativeResult<JavaBytes> {
        match self {
            JavaInput::Array(array, offset, len) => env.bytes(array, offset, len),
            JavaInput::Direct(buffer, offset, len) => env.direct_bytes(buffer, offset, len),
            JavaInput::Whole(array) => env.all_bytes(array),
            JavaInput::Parts(arrays) => {
                let parts = env.elements(arrays, |part| env.all_bytes(part))?;
                Ok(parts.into_iter().flatten().collect())
            }
        }
    }
}

pub(crate) fn range(array: Reference, offset: i32, len: i32) -> JavaInput {
    JavaInput::Array(array, offset, len)
}

/// The first `len` bytes of an array.
pub(crate) fn head(array: Reference, len: i32) -> JavaInput {
    JavaInput::Array(array, 0, len)
}

pub(crate) fn direct(buffer: Reference, offset: i32, len: i32) -> JavaInput {
    JavaInput::Direct(buffer, offset, len)
}

pub(crate) fn whole(array: Reference) -> JavaInput {
    JavaInput::Whole(array)
}

pub(crate) fn parts(arrays: Reference) -> JavaInput {
    JavaInput::Parts(arrays)
}

/// The place where Java wants bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JavaOutput {
    /// A range of a byte array.
    Array(Reference, i32, i32),
    /// A range of a direct buffer.
    Direct(Reference, i32, i32),
}

impl JavaOutput {
    /// Copies as much of `bytes` as there is room for. Returns the number of all bytes.
    pub(crate) fn write(self, env: &JavaEnv<'_>, bytes: &[u8]) -> NativeResult<i32> {
        match self {
            JavaOutput::Array(array, offset, len) => {
                let room = usize::try_from(len).unwrap_or(0).min(bytes.len());
                env.put_bytes(array, offset, &bytes[..room])?;
            }
            JavaOutput::Direct(buffer, offset, len) => env.put_direct(buffer, offset, len, bytes)?,
        }
        crate::jni::java_len(bytes.len())
    }
}

pub(crate) fn into_array(array: Reference, offset: i32, len: i32) -> JavaOutput {
    JavaOutput::Array(array, offset, len)
}

pub(crate) fn into_direct(buffer: Reference, offset: i32, len: i32) -> JavaOutput {
    JavaOutput::Direct(buffer, offset, len)
}
