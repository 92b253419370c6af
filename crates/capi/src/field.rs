//! Setters and getters of options: convert a C value to a field of an options struct, and back.
//!
//! In: an object, the name and the value of an option. Out: the field has the value.
//!
//! A value that the field cannot have does not change the field, unless the option is a hint (see
//! below). Options of databases and tables record the value (`Object::refuse`), and the next open
//! of a database reports it. Other objects ignore it.
//!
//! The value of an option that Esker lacks becomes a *held value*: the object keeps it, and only
//! the option's getter uses it. Some options with an enumeration are *hints*, marked `?` in
//! `accessors.txt`. For a hint, a number that the enumeration lacks becomes a held value, too, and
//! the field gets its default.

use crate::memory::{answer, bytes, lend, object, object_mut};
use esker::Result;
use libc::{c_char, c_int, c_uchar, c_uint};
use std::collections::BTreeMap;
use std::time::Duration;

/// Held values, by the name of the option.
pub type Held = BTreeMap<&'static str, u64>;

/// An object behind a C pointer.
pub trait Object {
    /// Records that a setter of `option` got a value that the option cannot have. The default does
    /// nothing.
    fn refuse(&mut self, _option: &'static str, _value: String) {}

    /// The held values of the object, if it can hold any.
    fn held(&mut self) -> Option<&mut Held> {
        None
    }
}

/// A field that a setter with the C type `C` sets.
pub trait Field<C> {
    /// Sets the field to `value`.
    /// # Errors
    /// `value` as text, if the field cannot have this value.
    fn store(&mut self, value: C) -> Result<(), String>;

    /// The field as a C value.
    fn load(&self) -> C;
}

pub(crate) unsafe fn set<O: Object, C, F: Field<C>>(
    pointer: *mut O,
    name: &'static str,
    value: C,
    field: impl FnOnce(&mut O) -> &mut F,
) {
    answer((), || {
        let object = object_mut(pointer)?;
        if let Err(value) = field(object).store(value) {
            object.refuse(name, value);
        }
        Ok(())
    });
}

pub(crate) unsafe fn get<O, C: Default, F: Field<C>>(pointer: *const O, field: impl FnOnce(&O) -> &F) -> C {
    answer(C::default(), || Ok(field(object(pointer)?).load()))
}

pub(crate) unsafe fn get_text<O, F: AsRef<[u8]>>(
    pointer: *const O,
    len: *mut usize,
    field: impl FnOnce(&O) -> &F,
) -> *const c_char {
    answer(std::ptr::null(), || Ok(lend(field(object(pointer)?).as_ref(), len)))
}

pub(crate) unsafe fn set_text<O, F: From<Vec<u8>>>(
    pointer: *mut O,
    text: *const c_char,
    len: usize,
    field: impl FnOnce(&mut O) -> &mut F,
) {
    answer((), || {
        *field(object_mut(pointer)?) = F::from(bytes(text, len)?.to_vec());
        Ok(())
    });
}

pub(crate) unsafe fn hold<O: Object, C: HeldValue>(pointer: *mut O, name: &'static str, value: C) {
    answer((), || {
        if let Some(held) = object_mut(pointer)?.held() {
            held.insert(name, value.to_bits());
        }
        Ok(())
    });
}

pub(crate) unsafe fn held<O: Object, C: HeldValue>(pointer: *const O, name: &'static str, default: C) -> C {
    let bits =
        answer(None, || Ok(object_mut(pointer.cast_mut())?.held().and_then(|held| held.get(name).copied())));
    bits.map_or(default, C::from_bits)
}

/// Sets a hint. A number that the hint's enumeration lacks becomes a held value, and the hint gets
/// its default.
pub(crate) unsafe fn set_hint<O: Object, C: HeldValue + Copy, F: Field<C> + Default>(
    pointer: *mut O,
    name: &'static str,
    value: C,
    field: impl FnOnce(&mut O) -> &mut F,
) {
    answer((), || {
        let object = object_mut(pointer)?;
        let field = field(object);
        let is_named = field.store(value).is_ok();
        if !is_named {
            *field = F::default();
        }
        if let Some(held) = object.held() {
            held.remove(name);
            if !is_named {
                held.insert(name, value.to_bits());
            }
        }
        Ok(())
    });
}

/// The number of the hint. If the hint has its default and there is a held value, returns the held
/// value.
pub(crate) unsafe fn hint<O: Object, C: HeldValue + Default, F: Field<C> + Default + PartialEq>(
    pointer: *const O,
    name: &'static str,
    field: impl FnOnce(&O) -> &F,
) -> C {
    answer(C::default(), || {
        let field = field(object(pointer)?);
        let number = field.load();
        Ok(if *field == F::default() { held(pointer, name, number) } else { number })
    })
}

/// A C value that is stored as 64 bits.
pub trait HeldValue {
    /// The bits of the value.
    fn to_bits(self) -> u64;
    /// The value with these bits.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! held_integers {
    ($($ty:ty),*) => {$(
        impl HeldValue for $ty {
            fn to_bits(self) -> u64 {
                self as u64
            }
            fn from_bits(bits: u64) -> $ty {
                bits as $ty
            }
        }
    )*};
}
held_integers!(u8, i8, u32, i32, u64, i64, usize);

impl HeldValue for f64 {
    fn to_bits(self) -> u64 {
        f64::to_bits(self)
    }
    fn from_bits(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
}

impl HeldValue for bool {
    fn to_bits(self) -> u64 {
        self.into()
    }
    fn from_bits(bits: u64) -> bool {
        bits != 0
    }
}

macro_rules! numbers {
    ($($field:ty: $($c:ty),*;)*) => {$($(
        impl Field<$c> for $field {
            fn store(&mut self, value: $c) -> Result<(), String> {
                *self = <$field>::try_from(value).map_err(|_| value.to_string())?;
                Ok(())
            }
            fn load(&self) -> $c {
                <$c>::try_from(*self).unwrap_or(<$c>::MAX)
            }
        }
    )*)*};
}
numbers! {
    i32: i32, u32, u64, usize;
    u32: u8, i32, u32, u64, usize;
    u64: i32, u32, i64, u64, usize;
    i64: i32, i64, u64;
    usize: u8, i32, u32, i64, u64, usize;
    u8: u8, i32;
}

impl Field<c_uchar> for bool {
    fn store(&mut self, value: c_uchar) -> Result<(), String> {
        *self = value != 0;
        Ok(())
    }
    fn load(&self) -> c_uchar {
        (*self).into()
    }
}

impl Field<c_int> for bool {
    fn store(&mut self, value: c_int) -> Result<(), String> {
        *self = value != 0;
        Ok(())
    }
    fn load(&self) -> c_int {
        (*self).into()
    }
}

impl Field<u64> for bool {
    fn store(&mut self, value: u64) -> Result<(), String> {
        *self = value != 0;
        Ok(())
    }
    fn load(&self) -> u64 {
        (*self).into()
    }
}

/// 0 means `None`.
impl Field<u64> for Option<u64> {
    fn store(&mut self, value: u64) -> Result<(), String> {
        *self = (value != 0).then_some(value);
        Ok(())
    }
    fn load(&self) -> u64 {
        self.unwrap_or(0)
    }
}

impl Field<bool> for bool {
    fn store(&mut self, value: bool) -> Result<(), String> {
        *self = value;
        Ok(())
    }
    fn load(&self) -> bool {
        *self
    }
}

impl Field<f64> for f64 {
    fn store(&mut self, value: f64) -> Result<(), String> {
        *self = value;
        Ok(())
    }
    fn load(&self) -> f64 {
        *self
    }
}

/// The C value is in microseconds.
impl Field<u64> for Duration {
    fn store(&mut self, value: u64) -> Result<(), String> {
        *self = Duration::from_micros(value);
        Ok(())
    }
    fn load(&self) -> u64 {
        u64::try_from(self.as_micros()).unwrap_or(u64::MAX)
    }
}

/// The C value is in microseconds; 0 means `None`.
impl Field<u64> for Option<Duration> {
    fn store(&mut self, value: u64) -> Result<(), String> {
        *self = (value != 0).then(|| Duration::from_micros(value));
        Ok(())
    }
    fn load(&self) -> u64 {
        self.map_or(0, |duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}

/// Implements [`Field`] for types that wrap a number.
macro_rules! wrapped {
    ($($field:ident($c:ty);)*) => {$(
        impl Field<$c> for $field {
            fn store(&mut self, value: $c) -> Result<(), String> {
                *self = $field(value);
                Ok(())
            }
            fn load(&self) -> $c {
                self.0
            }
        }
    )*};
}
wrapped! {
    ColumnFamilyId(u32);
    FileNumber(u64);
    SequenceNumber(u64);
}

/// 0 means `None`.
impl Field<u64> for Option<FileNumber> {
    fn store(&mut self, value: u64) -> Result<(), String> {
        *self = (value != 0).then_some(FileNumber(value));
        Ok(())
    }
    fn load(&self) -> u64 {
        self.map_or(0, |number| number.0)
    }
}

/// Implements [`Code`] and [`Field`] for enumerations, with RocksDB's numbers.
macro_rules! enumerations {
    ($($ty:ty { $($variant:ident = $code:literal),* $(,)? })*) => {$(
        impl Code for $ty {
            fn of(code: i64) -> Option<$ty> {
                match code {
                    $($code => Some(<$ty>::$variant),)*
                    _ => None,
                }
            }
            #[allow(unreachable_patterns, reason = "some enumerations may grow")]
            fn code(&self) -> i64 {
                match self {
                    $(<$ty>::$variant => $code,)*
                    _ => -1,
                }
            }
        }
        $crate::field::enumeration!($ty: c_int, c_char, c_uchar, c_uint);
    )*};
}

macro_rules! enumeration {
    ($ty:ty: $($c:ty),*) => {$(
        impl $crate::field::Field<$c> for $ty {
            fn store(&mut self, value: $c) -> Result<(), String> {
                *self = <$ty as $crate::field::Code>::of(value.into()).ok_or_else(|| value.to_string())?;
                Ok(())
            }
            fn load(&self) -> $c {
                <$c>::try_from($crate::field::Code::code(self)).unwrap_or_default()
            }
        }
    )*};
}
pub(crate) use enumeration;

/// An enumeration with RocksDB's numbers.
pub trait Code: Sized {
    /// The value with this number.
    fn of(code: i64) -> Option<Self>;
    /// The value's number.
    fn code(&self) -> i64;
}

use esker::options::{
    BlobGarbageCollectionPolicy, BlockSearchType, BottommostLevelCompaction, CacheTier, ChecksumType,
    CompactionPri, CompactionStopStyle, CompactionStyle, CompressionType, DataBlockIndexType,
    IndexShorteningMode, IndexType, InfoLogLevel, IoPriority, PinningTier, PrepopulateBlobCache,
    PrepopulateBlockCache, Temperature, WalRecoveryMode,
};
use esker::{ColumnFamilyId, FileNumber, ReadTier, SequenceNumber};

enumerations! {
    CompressionType {
        None = 0, Snappy = 1, Zlib = 2, Bzip2 = 3, Lz4 = 4, Lz4hc = 5, Xpress = 6, Zstd = 7,
        ZstdNotFinal = 0x40, DisableOption = 0xFF,
    }
    ChecksumType { NoChecksum = 0, Crc32c = 1, XxHash = 2, XxHash64 = 3, Xxh3 = 4 }
    IndexType { BinarySearch = 0, HashSearch = 1, TwoLevel = 2, BinarySearchWithFirstKey = 3 }
    DataBlockIndexType { BinarySearch = 0, BinaryAndHash = 1 }
    IndexShorteningMode { NoShortening = 0, ShortenSeparators = 1, ShortenSeparatorsAndSuccessor = 2 }
    PrepopulateBlockCache { Disable = 0, FlushOnly = 1, FlushAndCompaction = 2 }
    PinningTier { Fallback = 0, None = 1, FlushedAndSimilar = 2, All = 3 }
    InfoLogLevel { Debug = 0, Info = 1, Warn = 2, Error = 3, Fatal = 4, Header = 5 }
    ReadTier { ReadAll = 0, BlockCache = 1, Persisted = 2, Memtable = 3 }
    CompactionStyle { Level = 0, Universal = 1, Fifo = 2, None = 3 }
    CompactionStopStyle { SimilarSize = 0, TotalSize = 1 }
    CompactionPri {
        ByCompensatedSize = 0, OldestLargestSeqFirst = 1, OldestSmallestSeqFirst = 2,
        MinOverlappingRatio = 3, RoundRobin = 4,
    }
    WalRecoveryMode {
        TolerateCorruptedTailRecords = 0, AbsoluteConsistency = 1, PointInTimeRecovery = 2,
        SkipAnyCorruptedRecords = 3,
    }
    BottommostLevelCompaction { Skip = 0, IfHaveCompactionFilter = 1, Force = 2, ForceOptimized = 3 }
}

enumerations! {
    Temperature { Unknown = 0, Hot = 4, Warm = 8, Cool = 10, Cold = 12, Ice = 16 }
    CacheTier { VolatileTier = 0, VolatileCompressedTier = 1, NonVolatileBlockTier = 2 }
    PrepopulateBlobCache { Disable = 0, FlushOnly = 1 }
    BlobGarbageCollectionPolicy { Force = 0, Disable = 1, UseDefault = 2 }
    BlockSearchType { Binary = 0, Interpolation = 1, Auto = 2 }
}

/// RocksDB's IO_TOTAL, 4, means `None`.
impl Field<c_int> for Option<IoPriority> {
    fn store(&mut self, value: c_int) -> Result<(), String> {
        *self = match value {
            0 => Some(IoPriority::Low),
            1 => Some(IoPriority::Mid),
            2 => Some(IoPriority::High),
            3 => Some(IoPriority::User),
            4 => None,
            _ => return Err(value.to_string()),
        };
        Ok(())
    }
    fn load(&self) -> c_int {
        self.map_or(4, |priority| priority as c_int)
    }
}

/// 0 means `None`.
impl Field<usize> for Option<usize> {
    fn store(&mut self, value: usize) -> Result<(), String> {
        *self = (value != 0).then_some(value);
        Ok(())
    }
    fn load(&self) -> usize {
        self.unwrap_or(0)
    }
}

/// RocksDB's number 255 means `None`: the same compression as in other levels.
impl Field<c_int> for Option<CompressionType> {
    fn store(&mut self, value: c_int) -> Result<(), String> {
        let compression = CompressionType::of(value.into()).ok_or_else(|| value.to_string())?;
        *self = (compression != CompressionType::DisableOption).then_some(compression);
        Ok(())
    }
    fn load(&self) -> c_int {
        self.unwrap_or(CompressionType::DisableOption).load()
    }
}
