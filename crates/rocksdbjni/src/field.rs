//! Setters and getters of options: convert a Java value to a field of an options struct, and back.
//!
//! In: the handle of an options object; a number, a boolean, or the byte of an enumeration. Out:
//! the field has the value. As in RocksJava, a number wraps around where the field's type has other
//! bounds: -1 in Java is the greatest `u64`. The value of an option that Esker lacks is a held
//! value: the object keeps it, and only its getter uses it.

use crate::border::NativeResult;
use crate::handle::NativeHandle;
use esker::options::*;
use esker::txn::WritePolicy;
use esker::{Error, ReadTier, WalRecoveryMode};
use esker_capi::field::Code;
use std::collections::BTreeMap;
use std::time::Duration;

/// Held values, by the option's name.
pub(crate) type HeldNumbers = BTreeMap<&'static str, f64>;

/// A field that a setter with the Java type `J` sets.
pub(crate) trait JavaField<J> {
    /// Sets the field.
    /// # Errors
    /// The value as text, if the field cannot have it.
    fn store(&mut self, value: J) -> NativeResult<(), String>;
    /// The field as a Java value.
    fn load(&self) -> J;
}

pub(crate) fn set<T, J, F: JavaField<J>>(
    object: NativeHandle<T>,
    setter: &'static str,
    value: J,
    field: impl FnOnce(&mut T) -> &mut F,
) -> NativeResult<()> {
    let refused = |value| Error::invalid_argument(format!("{setter}: '{value}' is not one of its values"));
    Ok(field(object.get_mut()?).store(value).map_err(refused)?)
}

pub(crate) fn get<T, J, F: JavaField<J>>(
    object: NativeHandle<T>,
    field: impl FnOnce(&T) -> &F,
) -> NativeResult<J> {
    Ok(field(object.get()?).load())
}

/// A Java value that is held as a number.
pub(crate) trait HeldNumber {
    fn to_number(self) -> f64;
    fn of_number(number: f64) -> Self;
}

pub(crate) fn hold<T, J: HeldNumber>(
    object: NativeHandle<T>,
    name: &'static str,
    value: J,
    held: impl FnOnce(&mut T) -> &mut HeldNumbers,
) -> NativeResult<()> {
    held(object.get_mut()?).insert(name, value.to_number());
    Ok(())
}

pub(crate) fn held<T, J: HeldNumber>(
    object: NativeHandle<T>,
    name: &'static str,
    default: f64,
    held: impl FnOnce(&T) -> &HeldNumbers,
) -> NativeResult<J> {
    Ok(J::of_number(held(object.get()?).get(name).copied().unwrap_or(default)))
}

macro_rules! held_numbers {
    ($($ty:ty),*) => {$(
        impl HeldNumber for $ty {
            fn to_number(self) -> f64 {
                self as f64
            }
            fn of_number(number: f64) -> $ty {
                number as $ty
            }
        }
    )*};
}
held_numbers!(i64, i32, i8, f64);

impl HeldNumber for bool {
    fn to_number(self) -> f64 {
        f64::from(u8::from(self))
    }
    fn of_number(number: f64) -> bool {
        number != 0.0
    }
}

macro_rules! numbers {
    ($($field:ty),*) => {$(
        numbers!(@ $field: i64);
        numbers!(@ $field: i32);
        numbers!(@ $field: i8);
    )*};
    (@ $field:ty: $java:ty) => {
        impl JavaField<$java> for $field {
            fn store(&mut self, value: $java) -> NativeResult<(), String> {
                *self = value as $field;
                Ok(())
            }
            fn load(&self) -> $java {
                *self as $java
            }
        }
    };
}
numbers!(usize, u64, i64, u32, i32, u8);

macro_rules! same {
    ($($ty:ty),*) => {$(
        impl JavaField<$ty> for $ty {
            fn store(&mut self, value: $ty) -> NativeResult<(), String> {
                *self = value;
                Ok(())
            }
            fn load(&self) -> $ty {
                *self
            }
        }
    )*};
}
same!(bool, f64);

/// 0 means `None`.
impl JavaField<i64> for Option<usize> {
    fn store(&mut self, value: i64) -> NativeResult<(), String> {
        *self = (value != 0).then_some(value as usize);
        Ok(())
    }
    fn load(&self) -> i64 {
        self.unwrap_or(0) as i64
    }
}

/// 0 means `None`.
impl JavaField<i64> for Option<u64> {
    fn store(&mut self, value: i64) -> NativeResult<(), String> {
        *self = (value != 0).then_some(value as u64);
        Ok(())
    }
    fn load(&self) -> i64 {
        self.unwrap_or(0) as i64
    }
}

/// In microseconds; 0 and negative numbers mean `None`.
impl JavaField<i64> for Option<Duration> {
    fn store(&mut self, value: i64) -> NativeResult<(), String> {
        *self = (value > 0).then(|| Duration::from_micros(value.unsigned_abs()));
        Ok(())
    }
    fn load(&self) -> i64 {
        self.map_or(0, |duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
    }
}

macro_rules! enumerations {
    ($($ty:ty),*) => {$(
        enumerations!(@ $ty: i8);
        enumerations!(@ $ty: i32);
    )*};
    (@ $ty:ty: $java:ty) => {
        impl JavaField<$java> for $ty {
            fn store(&mut self, value: $java) -> NativeResult<(), String> {
                *self = <$ty as Code>::of(value.into()).ok_or_else(|| value.to_string())?;
                Ok(())
            }
            fn load(&self) -> $java {
                Code::code(self) as $java
            }
        }
    };
}
enumerations!(
    BottommostLevelCompaction,
    ChecksumType,
    CompactionPri,
    CompactionStopStyle,
    CompactionStyle,
    DataBlockIndexType,
    IndexShorteningMode,
    IndexType,
    InfoLogLevel,
    PrepopulateBlobCache,
    ReadTier,
    Temperature,
    WalRecoveryMode,
    WritePolicy
);

/// RocksJava's number of `DISABLE_COMPRESSION_OPTION`; RocksDB's is 255.
const DISABLE: i8 = 0x7F;

impl JavaField<i8> for CompressionType {
    fn store(&mut self, value: i8) -> NativeResult<(), String> {
        let code = if value == DISABLE { 0xFF } else { i64::from(value) };
        *self = CompressionType::of(code).ok_or_else(|| value.to_string())?;
        Ok(())
    }
    fn load(&self) -> i8 {
        i8::try_from(self.code()).unwrap_or(DISABLE)
    }
}

/// `None` means the same compression as in other levels.
impl JavaField<i8> for Option<CompressionType> {
    fn store(&mut self, value: i8) -> NativeResult<(), String> {
        let mut compression = CompressionType::None;
        compression.store(value)?;
        *self = (compression != CompressionType::DisableOption).then_some(compression);
        Ok(())
    }
    fn load(&self) -> i8 {
        self.map_or(DISABLE, |compression| compression.load())
    }
}
