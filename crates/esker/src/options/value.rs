//! Text forms of option values, as RocksDB reads and writes them.
//!
//! In: the text behind `=`. Out: a value, and back. Source: RocksDB `options/options_helper.cc`,
//! `util/string_util.cc` (numbers with the suffixes k, m, g, t).

use super::CompactionFilterRef;
use super::log::{self, LogLine};
pub(crate) use crate::builtin::object_name;
use crate::compaction_filter::CompactionFilterFactoryRef;
use esker_base::comparator::{self, ComparatorRef};
use esker_base::logger::InfoLogLevel;
use esker_base::merge_operator::MergeOperatorRef;
use esker_base::prefix::{self, SliceTransformRef};
use esker_base::stats::Statistics;
use esker_base::{Error, Result};
use esker_env::{RateLimiter, RateLimiterMode};
use esker_format::compression::CompressionType;
use esker_format::compression::manager::{BUILT_IN_COMPRESSION, CompressionManagerRef};
pub(crate) use esker_format::options_file::split_map;
use std::path::PathBuf;
use std::sync::Arc;

/// A value with a text form.
pub trait OptionValue: Sized {
    /// The value that `text` means.
    /// # Errors
    /// `InvalidArgument`: names the valid values.
    fn parse(text: &str) -> Result<Self>;
    /// Returns text that `parse` and RocksDB accept.
    fn print(&self) -> String;
    /// Changes `self` to what `text` means. Values with fields keep those that `text` does not
    /// name.
    /// # Errors
    /// As `parse`; `self` is then unchanged.
    fn update(&mut self, text: &str) -> Result<()> {
        *self = Self::parse(text)?;
        Ok(())
    }
    /// Appends the value of the option called `name` as RocksDB's LOG shows it.
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        lines.push((name.to_owned(), self.print()));
    }
}

/// The error of an unknown name among the fields of an option: `NotFound`, so that a loader of
/// OPTIONS files can leave that field out.
pub(super) fn no_such_field(of: &str) -> Error {
    Error::not_found(format!("no such option of {of}"))
}

/// An object that an option's text can name. OPTIONS files do not store it.
pub trait ObjectValue: Sized {
    /// The object that `text` means.
    /// # Errors
    /// `InvalidArgument` names the right forms · the error of making the object.
    fn read(text: &str) -> Result<Self>;
}

/// Text: `nullptr`, or bytes per second of a limiter of writes.
impl ObjectValue for Option<Arc<RateLimiter>> {
    fn read(text: &str) -> Result<Self> {
        if is_null(text.trim()) {
            return Ok(None);
        }
        let bytes = u64::parse(text)?;
        if bytes == 0 {
            return Err(Error::invalid_argument("a rate limiter grants at least one byte a second"));
        }
        Ok(Some(Arc::new(RateLimiter::new(bytes, 100_000, 10, RateLimiterMode::WritesOnly))))
    }
}

/// Text: `nullptr` or `BasicStatistics`.
impl ObjectValue for Option<Arc<Statistics>> {
    fn read(text: &str) -> Result<Self> {
        match object_name(text) {
            name if is_null(name) => Ok(None),
            "BasicStatistics" => Ok(Some(Arc::new(Statistics::new()))),
            name => Err(Error::invalid_argument(format!("no built-in statistics are called '{name}'"))),
        }
    }
}

/// Text: `nullptr` only. No text makes a filter.
impl ObjectValue for Option<CompactionFilterRef> {
    fn read(text: &str) -> Result<Self> {
        no_built_in(text, "compaction filter")
    }
}

/// Text: `nullptr` only. No text makes a factory.
impl ObjectValue for Option<CompactionFilterFactoryRef> {
    fn read(text: &str) -> Result<Self> {
        no_built_in(text, "compaction filter factory")
    }
}

/// Parses the text of a kind of object without built-in names: `nullptr` gives `None`, other text
/// an error.
fn no_built_in<T>(text: &str, what: &str) -> Result<Option<T>> {
    match object_name(text) {
        name if is_null(name) => Ok(None),
        name => Err(Error::invalid_argument(format!("no built-in {what} is called '{name}'"))),
    }
}

impl OptionValue for bool {
    fn parse(text: &str) -> Result<bool> {
        match text.trim() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            other => Err(Error::invalid_argument(format!("'{other}' is neither true nor false"))),
        }
    }
    fn print(&self) -> String {
        self.to_string()
    }
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        lines.push((name.to_owned(), log::flag(name, *self)));
    }
}

/// A whole number with an optional binary suffix: `64m` is 64 MiB.
fn parse_number(text: &str) -> Result<i128> {
    let text = text.trim();
    let wrong = || {
        Error::invalid_argument(format!("'{text}' is not a whole number (suffixes k, m, g, t are allowed)"))
    };
    let (digits, shift) = match text.as_bytes().last().map(u8::to_ascii_lowercase) {
        Some(b'k') => (&text[..text.len() - 1], 10),
        Some(b'm') => (&text[..text.len() - 1], 20),
        Some(b'g') => (&text[..text.len() - 1], 30),
        Some(b't') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    // An i64 or u64 fits into i128, even shifted by 40 bits.
    let number: i128 = digits.parse().map_err(|_| wrong())?;
    if number.unsigned_abs() > u128::from(u64::MAX) { Err(wrong()) } else { Ok(number << shift) }
}

macro_rules! integer_values {
    ($($ty:ty),*) => {$(
        impl OptionValue for $ty {
            fn parse(text: &str) -> Result<$ty> {
                let number = parse_number(text)?;
                <$ty>::try_from(number).map_err(|_| {
                    Error::invalid_argument(format!("{number} is not in {}..={}", <$ty>::MIN, <$ty>::MAX))
                })
            }
            fn print(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
integer_values!(i32, u32, i64, u64, usize);

impl OptionValue for f64 {
    fn parse(text: &str) -> Result<f64> {
        match text.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(Error::invalid_argument(format!("'{}' is not a number", text.trim()))),
        }
    }
    fn print(&self) -> String {
        self.to_string()
    }
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        lines.push((name.to_owned(), format!("{self:.6}")));
    }
}

impl OptionValue for String {
    fn parse(text: &str) -> Result<String> {
        Ok(text.to_owned())
    }
    fn print(&self) -> String {
        self.clone()
    }
}

/// The name of an object that Esker does not make; `nullptr` gives `None`.
impl OptionValue for Option<String> {
    fn parse(text: &str) -> Result<Option<String>> {
        let name = object_name(text);
        Ok((!is_null(name)).then(|| name.to_owned()))
    }
    fn print(&self) -> String {
        self.clone().unwrap_or_else(|| "nullptr".to_owned())
    }
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        let none = if name == "user_defined_index_factory" { "nullptr" } else { "None" };
        lines.push((name.to_owned(), self.clone().unwrap_or_else(|| none.to_owned())));
    }
}

/// RocksDB writes the level as `INFO_LEVEL`.
impl OptionValue for InfoLogLevel {
    fn parse(text: &str) -> Result<InfoLogLevel> {
        use InfoLogLevel::{Debug, Error as Failed, Fatal, Header, Info, Warn};
        let all = [Debug, Info, Warn, Failed, Fatal, Header];
        all.into_iter()
            .find(|level| text.trim().strip_suffix("_LEVEL") == Some(level.as_str()))
            .ok_or_else(|| Error::invalid_argument(format!("'{}' is no level of the info log", text.trim())))
    }
    fn print(&self) -> String {
        format!("{}_LEVEL", self.as_str())
    }
}

impl OptionValue for CompressionType {
    fn parse(text: &str) -> Result<CompressionType> {
        CompressionType::from_option_name(text.trim())
            .ok_or_else(|| Error::invalid_argument(format!("'{}' is no built-in compression", text.trim())))
    }
    fn print(&self) -> String {
        self.option_name().to_owned()
    }
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        // RocksDB shows this option's value as a number.
        let is_number = name == "wal_compression";
        let value = if is_number { (*self as u8).to_string() } else { self.property_name().to_owned() };
        lines.push((name.to_owned(), value));
    }
}

/// RocksDB's word for "not given".
const NO_COMPRESSION_GIVEN: &str = "kDisableCompressionOption";

impl OptionValue for Option<CompressionType> {
    fn parse(text: &str) -> Result<Option<CompressionType>> {
        if text.trim() == NO_COMPRESSION_GIVEN { Ok(None) } else { CompressionType::parse(text).map(Some) }
    }
    fn print(&self) -> String {
        self.map_or(NO_COMPRESSION_GIVEN, CompressionType::option_name).to_owned()
    }
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        lines.push((name.to_owned(), self.map_or("Disabled", CompressionType::property_name).to_owned()));
    }
}

/// The empty path is `None`: the default place.
impl OptionValue for Option<PathBuf> {
    fn parse(text: &str) -> Result<Option<PathBuf>> {
        Ok((!text.is_empty()).then(|| PathBuf::from(text)))
    }
    fn print(&self) -> String {
        self.as_ref().map(|p| p.display().to_string()).unwrap_or_default()
    }
}

/// Elements separated by colons; the empty text is the empty list.
impl<T: OptionValue> OptionValue for Vec<T> {
    fn parse(text: &str) -> Result<Vec<T>> {
        if text.trim().is_empty() { Ok(Vec::new()) } else { text.split(':').map(T::parse).collect() }
    }
    fn print(&self) -> String {
        self.iter().map(T::print).collect::<Vec<_>>().join(":")
    }
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        // RocksDB's names of list entries.
        let name = match name {
            "max_bytes_for_level_multiplier_additional" => "max_bytes_for_level_multiplier_addtl",
            "compression_per_level" => "compression",
            other => other,
        };
        self.iter().enumerate().for_each(|(i, value)| value.log(&format!("{name}[{i}]"), lines));
    }
}

/// Whether `name` is how RocksDB writes "no object".
pub(crate) fn is_null(name: &str) -> bool {
    name.is_empty() || name == "nullptr"
}

impl OptionValue for ComparatorRef {
    fn parse(text: &str) -> Result<ComparatorRef> {
        let name = object_name(text);
        comparator::by_name(name)
            .ok_or_else(|| Error::invalid_argument(format!("no built-in comparator is called '{name}'")))
    }
    fn print(&self) -> String {
        self.name().to_owned()
    }
}

/// Text: the manager's name. `nullptr` and `BuiltinV2` give the built-in codecs.
impl OptionValue for Option<CompressionManagerRef> {
    fn parse(text: &str) -> Result<Option<CompressionManagerRef>> {
        if object_name(text) == BUILT_IN_COMPRESSION {
            return Ok(None);
        }
        no_built_in(text, "compression manager")
    }
    fn print(&self) -> String {
        self.as_ref().map_or_else(|| "nullptr".to_owned(), |manager| manager.name().to_owned())
    }
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        lines.push((name.to_owned(), self.as_ref().map_or("None", |manager| manager.name()).to_owned()));
    }
}

impl OptionValue for Option<MergeOperatorRef> {
    fn parse(text: &str) -> Result<Option<MergeOperatorRef>> {
        let name = object_name(text);
        if is_null(name) {
            return Ok(None);
        }
        crate::builtin::merge_operator(text)
            .map(Some)
            .ok_or_else(|| Error::invalid_argument(format!("no built-in merge operator is called '{name}'")))
    }
    fn print(&self) -> String {
        self.as_ref().map_or_else(|| "nullptr".to_owned(), |m| m.option_text())
    }
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        lines.push((name.to_owned(), self.as_ref().map_or("None", |m| m.name()).to_owned()));
    }
}

impl OptionValue for Option<SliceTransformRef> {
    fn parse(text: &str) -> Result<Option<SliceTransformRef>> {
        let name = object_name(text);
        if is_null(name) {
            return Ok(None);
        }
        prefix::by_name(name).map(Some).ok_or_else(|| {
            Error::invalid_argument(format!("no built-in prefix extractor is called '{name}'"))
        })
    }
    fn print(&self) -> String {
        self.as_ref().map_or_else(|| "nullptr".to_owned(), |p| p.name().to_owned())
    }
}

/// Declares an enum whose values RocksDB numbers and names.
macro_rules! option_enum {
    (
        $(#[$attr:meta])*
        pub enum $name:ident {
            $( $(#[$vattr:meta])* $variant:ident = $code:literal, $text:literal; )*
        }
    ) => {
        $(#[$attr])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(u8)]
        pub enum $name {
            $( $(#[$vattr])* $variant = $code, )*
        }

        impl $name {
            /// RocksDB's name of this value in OPTIONS files.
            pub const fn as_str(self) -> &'static str {
                match self { $( $name::$variant => $text, )* }
            }
        }

        impl $crate::options::value::OptionValue for $name {
            fn parse(text: &str) -> esker_base::Result<$name> {
                match text.trim() {
                    $( $text => Ok($name::$variant), )*
                    other => Err(esker_base::Error::invalid_argument(format!(
                        concat!("'{}' is none of", $(" ", $text),*), other
                    ))),
                }
            }
            fn print(&self) -> String {
                self.as_str().to_owned()
            }
            fn log(&self, name: &str, lines: &mut Vec<$crate::options::log::LogLine>) {
                // RocksDB shows this option's value as a number.
                let is_number = name == "wal_recovery_mode";
                let value = if is_number { (*self as u8).to_string() } else { self.print() };
                lines.push((name.to_owned(), value));
            }
        }
    };
}
pub(crate) use option_enum;

#[cfg(test)]
mod tests;
