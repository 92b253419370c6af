//! Native handles: the numbers by which Java objects name objects of this crate.
//!
//! In: a number that a native gets. Out: the object behind it, or `InvalidArgument` for 0.
//!
//! Invariants
//!  1. A number other than 0 came from [`give`], for the same type, and [`dispose`] has not freed
//!     the object. RocksJava's `AbstractNativeReference` sees to that: it frees an object once, and
//!     refuses calls afterwards.
//!  2. No two threads use an object at once that a call changes. RocksJava says the same of the
//!     classes whose natives call [`NativeHandle::get_mut`].

use crate::border::NativeResult;
use esker::Error;
use std::marker::PhantomData;

/// The number of an object of type `T`, or 0.
#[derive(Debug)]
pub(crate) struct NativeHandle<T>(i64, PhantomData<fn() -> T>);

impl<T> Clone for NativeHandle<T> {
    fn clone(&self) -> NativeHandle<T> {
        *self
    }
}

impl<T> Copy for NativeHandle<T> {}

impl<T> NativeHandle<T> {
    /// The handle with a number.
    /// # Safety
    /// Invariants 1 and 2 hold for `number` during the call of the native.
    pub(crate) unsafe fn new(number: i64) -> NativeHandle<T> {
        NativeHandle(number, PhantomData)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn number(self) -> i64 {
        self.0
    }

    fn pointer(self) -> *mut T {
        self.0 as *mut T
    }

    /// The object; `None` for 0.
    pub(crate) fn find<'a>(self) -> Option<&'a T> {
        // SAFETY: invariants 1 and 2.
        unsafe { self.pointer().as_ref() }
    }

    /// The object.
    /// # Errors
    /// `InvalidArgument` for 0.
    pub(crate) fn get<'a>(self) -> NativeResult<&'a T> {
        self.find().ok_or_else(|| null::<T>().into())
    }

    /// The object, to change it.
    /// # Errors
    /// `InvalidArgument` for 0.
    pub(crate) fn get_mut<'a>(self) -> NativeResult<&'a mut T> {
        // SAFETY: invariants 1 and 2.
        unsafe { self.pointer().as_mut() }.ok_or_else(|| null::<T>().into())
    }

    /// Takes the object back. Its number must not be used again.
    pub(crate) fn take(self) -> NativeResult<T> {
        if self.is_null() {
            return Err(null::<T>().into());
        }
        // SAFETY: invariant 1: `give` has leaked this box.
        Ok(*unsafe { Box::from_raw(self.pointer()) })
    }
}

#[cold]
fn null<T>() -> Error {
    let name = std::any::type_name::<T>();
    Error::invalid_argument(format!("a native handle ({name}) is 0"))
}

/// No object.
pub(crate) fn none<T>() -> NativeHandle<T> {
    NativeHandle(0, PhantomData)
}

/// Moves `object` to the heap, and returns its number.
pub(crate) fn give<T>(object: T) -> i64 {
    Box::into_raw(Box::new(object)) as i64
}

/// Frees an object.
pub(crate) fn dispose<T>(handle: NativeHandle<T>) -> NativeResult<()> {
    if !handle.is_null() {
        drop(handle.take()?);
    }
    Ok(())
}
