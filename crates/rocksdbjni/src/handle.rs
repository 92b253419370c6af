//! Native handles: the numbers by which Java objects name objects of this crate.
//!
//! In: a number that a native gets. Out: the object behind it, or `InvalidArgument` for 0.
//!
//! Invariants
//!  1. A number other than 0 came from [`give`], for the same type, and [`dispose`] has not freed
//!     the object. RocksJava's `AbstractNativeReference` frees an object once, and refuses calls
//!     afterwards. `built.txt` says which argument is a handle of which type: a debug build
//!     compares the type with the one that [`give`] noted, and panics if they differ.
//!  2. While a call changes an object with [`NativeHandle::get_mut`], no other thread uses the
//!     object. RocksJava requires this of options, batches, slices and table writers, of the
//!     families and snapshots of a database that closes, and of all that a transaction has lent.
//!     All other objects lock the data that they change.

use crate::border::NativeResult;
use crate::jni::{JavaEnv, Reference};
use esker::Error;
use std::marker::PhantomData;

/// The number of an object of type `T`, or 0.
#[derive(Debug)]
pub(crate) struct NativeHandle<T>(i64, PhantomData<fn() -> T>);

/// An object with the name of its type, which a debug build checks.
#[repr(C)]
struct Noted<T> {
    #[cfg(debug_assertions)]
    type_name: &'static str,
    object: T,
}

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

    /// The address, after a check of the type in debug builds.
    fn pointer(self) -> *mut Noted<T> {
        #[cfg(debug_assertions)]
        if !self.is_null() {
            // SAFETY: by invariant 1 the number is the address of a `Noted` of some type, and each
            // of them begins with its type's name.
            let given = unsafe { *(self.0 as *const &'static str) };
            let wanted = std::any::type_name::<T>();
            assert!(given == wanted, "a native wants a handle of {wanted}, and gets one of {given}");
        }
        self.0 as *mut Noted<T>
    }

    /// The object; `None` for 0.
    pub(crate) fn find<'a>(self) -> Option<&'a T> {
        // SAFETY: invariants 1 and 2.
        unsafe { self.pointer().as_ref() }.map(|noted| &noted.object)
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
        let noted = unsafe { self.pointer().as_mut() };
        noted.map(|noted| &mut noted.object).ok_or_else(|| null::<T>().into())
    }

    /// Takes the object back. Its number must not be used again.
    pub(crate) fn take(self) -> NativeResult<T> {
        if self.is_null() {
            return Err(null::<T>().into());
        }
        // SAFETY: invariant 1: `give` has leaked this box.
        let noted = unsafe { Box::from_raw(self.pointer()) };
        Ok(noted.object)
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
    give_typed(object).number()
}

/// Moves `object` to the heap, and returns its handle.
pub(crate) fn give_typed<T>(object: T) -> NativeHandle<T> {
    let noted = Noted {
        #[cfg(debug_assertions)]
        type_name: std::any::type_name::<T>(),
        object,
    };
    NativeHandle(Box::into_raw(Box::new(noted)) as i64, PhantomData)
}

/// The handles in a Java array of numbers.
pub(crate) fn handles<T>(env: &JavaEnv<'_>, array: Reference) -> NativeResult<Vec<NativeHandle<T>>> {
    // SAFETY: RocksJava fills such an array with handles of one class, whose objects are `T`.
    Ok(env.longs(array)?.into_iter().map(|number| unsafe { NativeHandle::new(number) }).collect())
}

/// Frees an object.
pub(crate) fn dispose<T>(handle: NativeHandle<T>) -> NativeResult<()> {
    if !handle.is_null() {
        drop(handle.take()?);
    }
    Ok(())
}
