//! The JVM's functions, behind safe methods that check for null and for pending exceptions.
//!
//! In: the environment that the JVM passes to a native, and references that it handed out. Out:
//! bytes, numbers, texts and new objects; [`NativeFailure::Thrown`] if a Java exception is pending.
//!
//! Invariants
//!  1. A `JavaEnv` lives on the thread to which the JVM gave it, during one call of a native or of
//!     a callback.
//!  2. A [`Reference`] is null, or is valid until [`JavaEnv::forget`], the end of its frame, or the
//!     end of the call in which it was made. A [`Global`] is valid until its drop.
//!  3. While an exception is pending, only the functions are called that the JNI allows then: those
//!     that check, print or clear it, and those that free references.
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a call of a JVM function reads the function's pointer, and calls it"
)]

use crate::border::{NativeFailure, NativeResult};
use crate::handle::NativeHandle;
use esker::Error;
use jni_sys::{JNI_OK, JNI_VERSION_1_8, JNIEnv, JavaVM, jclass, jmethodID, jobject, jvalue};
use smallvec::SmallVec;
use std::ffi::{CString, c_void};
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Bytes of a key or a value; short ones lie on the stack.
pub(crate) type JavaBytes = SmallVec<[u8; 128]>;

/// A reference to a Java object, or null.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference(jobject);

impl Reference {
    pub(crate) const NULL: Reference = Reference(std::ptr::null_mut());

    /// A reference that the JVM has handed out.
    /// # Safety
    /// `object` is null, or a reference that is valid during this call.
    pub(crate) unsafe fn new(object: jobject) -> Reference {
        Reference(object)
    }

    pub(crate) fn raw(self) -> jobject {
        self.0
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

/// The environment of the calling thread.
#[derive(Debug)]
pub(crate) struct JavaEnv<'a>(*mut JNIEnv, PhantomData<&'a ()>);

/// Calls a function of the environment.
macro_rules! jni {
    ($env:expr, $function:ident $(, $argument:expr)*) => {
        // SAFETY: invariants 1 to 3; all functions belong to version 1.6 of the interface.
        unsafe { ((**$env.0).v1_6.$function)($env.0 $(, $argument)*) }
    };
}

impl JavaEnv<'_> {
    /// The environment of this call.
    /// # Safety
    /// `env` is the environment of this thread and stays valid during the call.
    pub(crate) unsafe fn new(env: *mut JNIEnv) -> Self {
        JavaEnv(env, PhantomData)
    }

    /// Whether a Java exception is pending. Callable at any time.
    pub(crate) fn is_thrown(&self) -> bool {
        jni!(self, ExceptionCheck)
    }

    /// Checks that no Java exception is pending.
    /// # Errors
    /// `Thrown` if one is pending.
    pub(crate) fn check(&self) -> NativeResult<()> {
        if self.is_thrown() { Err(NativeFailure::Thrown) } else { Ok(()) }
    }

    /// Prints the pending exception, if there is one, and forgets it.
    pub(crate) fn describe_and_clear(&self) {
        if self.is_thrown() {
            jni!(self, ExceptionDescribe);
            jni!(self, ExceptionClear);
        }
    }

    pub(crate) fn clear(&self) {
        jni!(self, ExceptionClear);
    }

    /// Makes `throwable` the pending exception.
    pub(crate) fn throw(&self, throwable: Reference) {
        jni!(self, Throw, throwable.0);
    }

    fn some(&self, object: jobject) -> NativeResult<Reference> {
        if object.is_null() {
            self.check()?;
            return Err(null_object());
        }
        Ok(Reference(object))
    }

    /// The class `name`, as in `org/rocksdb/Status`.
    pub(crate) fn class(&self, name: &str) -> NativeResult<Reference> {
        let name = c_string(name);
        self.some(jni!(self, FindClass, name.as_ptr()))
    }

    pub(crate) fn class_of(&self, object: Reference) -> NativeResult<Reference> {
        // The JVM's function wants an object. A method that a program wrote may have returned null.
        if object.is_null() {
            return Err(null_object());
        }
        self.some(jni!(self, GetObjectClass, object.0))
    }

    /// The method of `class`; `None` if the class lacks it. No exception stays pending.
    pub(crate) fn find_method(&self, class: Reference, name: &str, descriptor: &str) -> Option<Method> {
        let (name, descriptor) = (c_string(name), c_string(descriptor));
        let method = jni!(self, GetMethodID, class.0, name.as_ptr(), descriptor.as_ptr());
        if method.is_null() {
            self.clear();
            return None;
        }
        Some(Method(method))
    }

    pub(crate) fn find_static(&self, class: Reference, name: &str, descriptor: &str) -> Option<Method> {
        let (name, descriptor) = (c_string(name), c_string(descriptor));
        let method = jni!(self, GetStaticMethodID, class.0, name.as_ptr(), descriptor.as_ptr());
        if method.is_null() {
            self.clear();
            return None;
        }
        Some(Method(method))
    }

    pub(crate) fn method(&self, class: Reference, name: &str, descriptor: &str) -> NativeResult<Method> {
        self.find_method(class, name, descriptor).ok_or_else(|| no_method(name, descriptor))
    }

    pub(crate) fn static_method(
        &self,
        class: Reference,
        name: &str,
        descriptor: &str,
    ) -> NativeResult<Method> {
        self.find_static(class, name, descriptor).ok_or_else(|| no_method(name, descriptor))
    }

    /// A new object of class `name`, made by the constructor with `descriptor`.
    pub(crate) fn new_object(
        &self,
        name: &str,
        descriptor: &str,
        arguments: &[jvalue],
    ) -> NativeResult<Reference> {
        let class = self.class(name)?;
        let object = self.construct(class, self.method(class, "<init>", descriptor)?, arguments)?;
        self.forget(class);
        Ok(object)
    }

    fn construct(
        &self,
        class: Reference,
        constructor: Method,
        arguments: &[jvalue],
    ) -> NativeResult<Reference> {
        self.some(jni!(self, NewObjectA, class.0, constructor.0, arguments.as_ptr()))
    }

    pub(crate) fn call_object(
        &self,
        object: Reference,
        method: Method,
        arguments: &[jvalue],
    ) -> NativeResult<Reference> {
        let result = jni!(self, CallObjectMethodA, object.0, method.0, arguments.as_ptr());
        self.check()?;
        Ok(Reference(result))
    }

    pub(crate) fn call_byte(
        &self,
        object: Reference,
        method: Method,
        arguments: &[jvalue],
    ) -> NativeResult<i8> {
        let result = jni!(self, CallByteMethodA, object.0, method.0, arguments.as_ptr());
        self.check()?;
        Ok(result)
    }

    pub(crate) fn call_bool(
        &self,
        object: Reference,
        method: Method,
        arguments: &[jvalue],
    ) -> NativeResult<bool> {
        let result = jni!(self, CallBooleanMethodA, object.0, method.0, arguments.as_ptr());
        self.check()?;
        Ok(result)
    }

    pub(crate) fn call_int(
        &self,
        object: Reference,
        method: Method,
        arguments: &[jvalue],
    ) -> NativeResult<i32> {
        let result = jni!(self, CallIntMethodA, object.0, method.0, arguments.as_ptr());
        self.check()?;
        Ok(result)
    }

    pub(crate) fn call_long(
        &self,
        object: Reference,
        method: Method,
        arguments: &[jvalue],
    ) -> NativeResult<i64> {
        let result = jni!(self, CallLongMethodA, object.0, method.0, arguments.as_ptr());
        self.check()?;
        Ok(result)
    }

    /// The handle that a method of RocksJava's classes returns.
    pub(crate) fn call_handle<T>(
        &self,
        object: Reference,
        method: Method,
        arguments: &[jvalue],
    ) -> NativeResult<NativeHandle<T>> {
        let number = self.call_long(object, method, arguments)?;
        // SAFETY: such a method returns the handle of an object whose class has `T` behind it.
        Ok(unsafe { NativeHandle::new(number) })
    }

    pub(crate) fn call_void(
        &self,
        object: Reference,
        method: Method,
        arguments: &[jvalue],
    ) -> NativeResult<()> {
        jni!(self, CallVoidMethodA, object.0, method.0, arguments.as_ptr());
        self.check()
    }

    pub(crate) fn call_static_int(
        &self,
        class: Reference,
        method: Method,
        arguments: &[jvalue],
    ) -> NativeResult<i32> {
        let result = jni!(self, CallStaticIntMethodA, class.0, method.0, arguments.as_ptr());
        self.check()?;
        Ok(result)
    }

    pub(crate) fn call_static_object(
        &self,
        class: Reference,
        method: Method,
        arguments: &[jvalue],
    ) -> NativeResult<Reference> {
        let result = jni!(self, CallStaticObjectMethodA, class.0, method.0, arguments.as_ptr());
        self.check()?;
        Ok(Reference(result))
    }

    /// Forgets a local reference, or null, so that loops do not collect them.
    pub(crate) fn forget(&self, object: Reference) {
        jni!(self, DeleteLocalRef, object.0);
    }

    /// The number of elements of an array.
    pub(crate) fn len(&self, array: Reference) -> NativeResult<usize> {
        if array.is_null() {
            return Err(Error::invalid_argument("a Java array is null").into());
        }
        Ok(usize::try_from(jni!(self, GetArrayLength, array.0)).unwrap_or(0))
    }

    /// Copies `len` bytes of a byte array, from `offset` on.
    pub(crate) fn bytes(&self, array: Reference, offset: i32, len: i32) -> NativeResult<JavaBytes> {
        if array.is_null() {
            return Err(Error::invalid_argument("a byte array is null").into());
        }
        let count = usize::try_from(len).map_err(|_| Error::invalid_argument("a length is negative"))?;
        let mut bytes = JavaBytes::new();
        bytes.resize(count, 0);
        // The JVM checks offset and length, and throws ArrayIndexOutOfBoundsException.
        jni!(self, GetByteArrayRegion, array.0, offset, len, bytes.as_mut_ptr().cast());
        self.check()?;
        Ok(bytes)
    }

    /// Copies a whole byte array.
    pub(crate) fn all_bytes(&self, array: Reference) -> NativeResult<JavaBytes> {
        let len = self.len(array)?;
        self.bytes(array, 0, i32::try_from(len).unwrap_or(i32::MAX))
    }

    /// Copies `bytes` into a byte array, from `offset` on.
    pub(crate) fn put_bytes(&self, array: Reference, offset: i32, bytes: &[u8]) -> NativeResult<()> {
        let len = java_len(bytes.len())?;
        jni!(self, SetByteArrayRegion, array.0, offset, len, bytes.as_ptr().cast());
        self.check()
    }

    /// A new byte array.
    pub(crate) fn new_bytes(&self, bytes: &[u8]) -> NativeResult<Reference> {
        let array = self.some(jni!(self, NewByteArray, java_len(bytes.len())?))?;
        self.put_bytes(array, 0, bytes)?;
        Ok(array)
    }

    pub(crate) fn longs(&self, array: Reference) -> NativeResult<Vec<i64>> {
        let mut longs = vec![0; self.len(array)?];
        let len = java_len(longs.len())?;
        jni!(self, GetLongArrayRegion, array.0, 0, len, longs.as_mut_ptr());
        self.check()?;
        Ok(longs)
    }

    pub(crate) fn new_longs(&self, longs: &[i64]) -> NativeResult<Reference> {
        let len = java_len(longs.len())?;
        let array = self.some(jni!(self, NewLongArray, len))?;
        jni!(self, SetLongArrayRegion, array.0, 0, len, longs.as_ptr());
        Ok(array)
    }

    pub(crate) fn ints(&self, array: Reference) -> NativeResult<Vec<i32>> {
        let mut ints = vec![0; self.len(array)?];
        let len = java_len(ints.len())?;
        jni!(self, GetIntArrayRegion, array.0, 0, len, ints.as_mut_ptr());
        self.check()?;
        Ok(ints)
    }

    pub(crate) fn new_ints(&self, ints: &[i32]) -> NativeResult<Reference> {
        let len = java_len(ints.len())?;
        let array = self.some(jni!(self, NewIntArray, len))?;
        jni!(self, SetIntArrayRegion, array.0, 0, len, ints.as_ptr());
        Ok(array)
    }

    /// Copies `ints` into an array, from its beginning.
    pub(crate) fn put_ints(&self, array: Reference, ints: &[i32]) -> NativeResult<()> {
        jni!(self, SetIntArrayRegion, array.0, 0, java_len(ints.len())?, ints.as_ptr());
        self.check()
    }

    /// Element `at` of an array of objects.
    pub(crate) fn element(&self, array: Reference, at: usize) -> NativeResult<Reference> {
        let object = jni!(self, GetObjectArrayElement, array.0, java_len(at)?);
        self.check()?;
        Ok(Reference(object))
    }

    pub(crate) fn put_element(&self, array: Reference, at: usize, element: Reference) -> NativeResult<()> {
        jni!(self, SetObjectArrayElement, array.0, java_len(at)?, element.0);
        self.check()
    }

    /// A new array of `len` nulls of class `name`.
    pub(crate) fn new_array(&self, name: &str, len: usize) -> NativeResult<Reference> {
        let class = self.class(name)?;
        let array = self.some(jni!(self, NewObjectArray, java_len(len)?, class.0, std::ptr::null_mut()))?;
        self.forget(class);
        Ok(array)
    }

    /// A new array of class `name` with an element for each of `items`.
    pub(crate) fn new_array_of<T>(
        &self,
        name: &str,
        items: &[T],
        make: impl Fn(&T) -> NativeResult<Reference>,
    ) -> NativeResult<Reference> {
        let array = self.new_array(name, items.len())?;
        for (at, item) in items.iter().enumerate() {
            let element = make(item)?;
            self.put_element(array, at, element)?;
            self.forget(element);
        }
        Ok(array)
    }

    /// The characters of a Java string.
    pub(crate) fn text(&self, string: Reference) -> NativeResult<String> {
        if string.is_null() {
            return Err(Error::invalid_argument("a Java string is null").into());
        }
        let len = jni!(self, GetStringLength, string.0);
        let mut units = vec![0_u16; usize::try_from(len).unwrap_or(0)];
        jni!(self, GetStringRegion, string.0, 0, len, units.as_mut_ptr());
        self.check()?;
        Ok(String::from_utf16_lossy(&units))
    }

    /// A new Java string.
    pub(crate) fn new_text(&self, text: &str) -> NativeResult<Reference> {
        let units: Vec<u16> = text.encode_utf16().collect();
        self.some(jni!(self, NewString, units.as_ptr(), java_len(units.len())?))
    }

    /// The elements of an array of strings.
    pub(crate) fn texts(&self, array: Reference) -> NativeResult<Vec<String>> {
        self.elements(array, |element| self.text(element))
    }

    /// Converts each element of an array of objects.
    pub(crate) fn elements<T>(
        &self,
        array: Reference,
        convert: impl Fn(Reference) -> NativeResult<T>,
    ) -> NativeResult<Vec<T>> {
        let mut converted = Vec::new();
        for at in 0..self.len(array)? {
            let element = self.element(array, at)?;
            converted.push(convert(element)?);
            self.forget(element);
        }
        Ok(converted)
    }

    /// The place of `len` bytes of a direct buffer, from `offset` on.
    fn direct(&self, buffer: Reference, offset: i32, len: i32) -> NativeResult<(*mut u8, usize)> {
        let address = if buffer.is_null() {
            std::ptr::null_mut()
        } else {
            jni!(self, GetDirectBufferAddress, buffer.0)
        };
        if address.is_null() {
            return Err(Error::invalid_argument("the buffer is no direct ByteBuffer").into());
        }
        let capacity = jni!(self, GetDirectBufferCapacity, buffer.0);
        if offset < 0 || len < 0 || i64::from(offset) + i64::from(len) > capacity {
            let range = format!("{len} bytes at {offset} of a buffer of {capacity} bytes");
            return Err(Error::invalid_argument(range).into());
        }
        // SAFETY: the offset lies within the buffer, as just checked.
        let place = unsafe { address.cast::<u8>().add(offset.unsigned_abs() as usize) };
        Ok((place, len.unsigned_abs() as usize))
    }

    /// Copies bytes of a direct buffer.
    pub(crate) fn direct_bytes(&self, buffer: Reference, offset: i32, len: i32) -> NativeResult<JavaBytes> {
        let (place, count) = self.direct(buffer, offset, len)?;
        // SAFETY: `direct` has checked the range; Java keeps the buffer during the call.
        Ok(JavaBytes::from_slice(unsafe { std::slice::from_raw_parts(place, count) }))
    }

    /// Copies the beginning of `bytes` into the range of a direct buffer.
    pub(crate) fn put_direct(
        &self,
        buffer: Reference,
        offset: i32,
        len: i32,
        bytes: &[u8],
    ) -> NativeResult<()> {
        let (place, count) = self.direct(buffer, offset, len)?;
        // SAFETY: `direct` has checked the range. The buffer is memory of Java and `bytes` of Rust,
        // so they do not overlap.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), count.min(bytes.len())) };
        Ok(())
    }

    /// The number of bytes of a direct buffer.
    pub(crate) fn direct_capacity(&self, buffer: Reference) -> NativeResult<i32> {
        if buffer.is_null() {
            return Err(Error::invalid_argument("a ByteBuffer is null").into());
        }
        Ok(i32::try_from(jni!(self, GetDirectBufferCapacity, buffer.0)).unwrap_or(i32::MAX).max(0))
    }

    /// A direct buffer over `bytes`, which must stay where they are while Java uses the buffer. The
    /// callbacks that get such buffers only read.
    pub(crate) fn new_direct(&self, bytes: &[u8]) -> NativeResult<Reference> {
        let capacity = i64::from(java_len(bytes.len())?);
        let place = bytes.as_ptr().cast_mut().cast::<c_void>();
        self.some(jni!(self, NewDirectByteBuffer, place, capacity))
    }

    /// A reference that lives until its drop.
    pub(crate) fn global(&self, object: Reference) -> NativeResult<Global> {
        Ok(Global(self.some(jni!(self, NewGlobalRef, object.0))?.0))
    }

    /// Makes room for `count` more local references, and frees them when `body` returns.
    pub(crate) fn with_frame<T>(
        &self,
        count: i32,
        body: impl FnOnce() -> NativeResult<T>,
    ) -> NativeResult<T> {
        if jni!(self, PushLocalFrame, count) != JNI_OK {
            return Err(NativeFailure::Thrown);
        }
        let result = body();
        jni!(self, PopLocalFrame, std::ptr::null_mut());
        result
    }

    /// Makes room for `count` more local references. When `body` returns, frees all of them except
    /// the one that it returns.
    pub(crate) fn in_frame(
        &self,
        count: i32,
        body: impl FnOnce() -> NativeResult<Reference>,
    ) -> NativeResult<Reference> {
        if jni!(self, PushLocalFrame, count) != JNI_OK {
            return Err(NativeFailure::Thrown);
        }
        let result = body();
        let kept = result.as_ref().map_or(std::ptr::null_mut(), |object| object.0);
        let kept = Reference(jni!(self, PopLocalFrame, kept));
        result.map(|_| kept)
    }
}

/// A method's id, valid while its class is loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Method(jmethodID);

// SAFETY: a method's id may be used on any thread.
unsafe impl Send for Method {}
// SAFETY: nothing changes a method's id, so threads may share it.
unsafe impl Sync for Method {}

fn c_string(text: &str) -> CString {
    CString::new(text).expect("names of Java have no NUL")
}

#[cold]
fn null_object() -> NativeFailure {
    Error::invalid_argument("a Java object is null").into()
}

fn no_method(name: &str, descriptor: &str) -> NativeFailure {
    Error::not_supported(format!("the class has no method {name}{descriptor}")).into()
}

/// `len` as Java counts.
/// # Errors
/// `InvalidArgument`: more than an array of Java can hold.
pub(crate) fn java_len(len: usize) -> NativeResult<i32> {
    i32::try_from(len)
        .map_err(|_| Error::invalid_argument(format!("{len} bytes exceed an array of Java")).into())
}

/// A reference that any thread may use, until its drop.
#[derive(Debug)]
pub(crate) struct Global(jobject);

// SAFETY: a global reference may be used on any thread.
unsafe impl Send for Global {}
// SAFETY: the JVM allows several threads to use a global reference at once.
unsafe impl Sync for Global {}

impl Global {
    pub(crate) fn get(&self) -> Reference {
        Reference(self.0)
    }
}

/// A class and one of its constructors, for threads that cannot look up the class.
#[derive(Debug)]
pub(crate) struct JavaConstructor {
    class: Global,
    constructor: Method,
}

impl JavaConstructor {
    /// The constructor with `descriptor` of the class `name`.
    pub(crate) fn find(env: &JavaEnv<'_>, name: &str, descriptor: &str) -> NativeResult<JavaConstructor> {
        let class = env.class(name)?;
        let constructor = env.method(class, "<init>", descriptor)?;
        let held = env.global(class)?;
        env.forget(class);
        Ok(JavaConstructor { class: held, constructor })
    }

    pub(crate) fn make(&self, env: &JavaEnv<'_>, arguments: &[jvalue]) -> NativeResult<Reference> {
        env.construct(self.class.get(), self.constructor, arguments)
    }
}

impl Drop for Global {
    fn drop(&mut self) {
        let object = self.0;
        attached(|env| {
            jni!(env, DeleteGlobalRef, object);
            Ok(())
        })
        .ok();
    }
}

/// The JVM that loaded this library.
struct Vm(*mut JavaVM);

// SAFETY: any thread may use the JVM's invocation interface.
unsafe impl Send for Vm {}
// SAFETY: the JVM allows several threads to use the invocation interface at once.
unsafe impl Sync for Vm {}

static VM: OnceLock<Vm> = OnceLock::new();

/// Detaches its thread from the JVM when the thread ends.
struct Attachment;

impl Drop for Attachment {
    fn drop(&mut self) {
        if let Some(vm) = VM.get() {
            // SAFETY: the JVM outlives its library.
            unsafe { ((**vm.0).v1_4.DetachCurrentThread)(vm.0) };
        }
    }
}

thread_local! {
    static ATTACHMENT: std::cell::OnceCell<Attachment> = const { std::cell::OnceCell::new() };
}

/// Runs `body` with the environment of this thread. A thread of the engine is attached to the JVM
/// as a daemon at its first call, and detached when it ends. While a thread's values are destroyed,
/// it is attached for the call only.
/// # Errors
/// `Aborted` if the JVM refuses the thread; the errors of `body`.
pub(crate) fn attached<T>(body: impl FnOnce(&JavaEnv<'_>) -> NativeResult<T>) -> NativeResult<T> {
    let refused = || NativeFailure::from(Error::aborted("the JVM refuses this thread"));
    let vm = VM.get().ok_or_else(refused)?.0;
    let mut env: *mut c_void = std::ptr::null_mut();
    // SAFETY: the JVM outlives its library.
    let known = unsafe { ((**vm).v1_4.GetEnv)(vm, &mut env, JNI_VERSION_1_8) };
    let mut _for_this_call = None;
    if known != JNI_OK {
        // SAFETY: the JVM outlives its library, and fills in the environment.
        let made = unsafe { ((**vm).v1_4.AttachCurrentThreadAsDaemon)(vm, &mut env, std::ptr::null_mut()) };
        if made != JNI_OK {
            return Err(refused());
        }
        // If others have detached this thread, its value is there: no second one may be dropped.
        let kept = ATTACHMENT.try_with(|attachment| {
            attachment.get_or_init(|| Attachment);
        });
        _for_this_call = kept.err().map(|_| Attachment);
    }
    // SAFETY: the JVM has given this environment to this thread.
    body(&unsafe { JavaEnv::new(env.cast()) })
}

/// Remembers the JVM.
#[unsafe(no_mangle)]
pub extern "system" fn JNI_OnLoad(vm: *mut JavaVM, _reserved: *mut c_void) -> i32 {
    VM.get_or_init(|| Vm(vm));
    JNI_VERSION_1_8
}

/// An argument for a call of Java.
pub(crate) fn int(value: i32) -> jvalue {
    jvalue { i: value }
}

pub(crate) fn boolean(value: bool) -> jvalue {
    jvalue { z: value }
}

pub(crate) fn byte(value: i8) -> jvalue {
    jvalue { b: value }
}

pub(crate) fn long(value: i64) -> jvalue {
    jvalue { j: value }
}

pub(crate) fn double(value: f64) -> jvalue {
    jvalue { d: value }
}

pub(crate) fn reference(value: Reference) -> jvalue {
    jvalue { l: value.0 as jclass }
}
