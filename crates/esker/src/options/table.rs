//! Tables of options: each option is declared once, for its struct field and its text form.
//!
//! In: the declarations in `db.rs` and `cf.rs`; the names in `table_options.rs`, whose struct is in
//! `esker_table`. Out: the structs with their defaults and setters, and for each struct a table
//! with every option's RocksDB name, help, kind, parser and printer. OPTIONS files, `set_options`
//! and command-line strings all go through that table, so one place spells a name.
//!
//! Invariants
//!  1. A name occurs once in a table, and is spelled as in RocksDB.
//!  2. `parse(print(x)) == x` for every option that has a text form.
//!  3. A failed parse leaves the struct as it was.

use super::former;
use super::log::LogLine;
use super::value::split_map;
use esker_base::{Error, Result};

/// The times at which an option may change, and whether OPTIONS files store it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionKind {
    /// Has a text form; takes effect only when the database is opened.
    Fixed,
    /// Has a text form; `set_options` or `set_db_options` changes it while the database runs.
    Mutable,
    /// An object of the program (a callback, a cache); has no text form.
    Object,
}

/// One option of the struct `T`.
#[derive(Debug)]
#[non_exhaustive]
pub struct OptionInfo<T: 'static> {
    /// RocksDB's name.
    pub name: &'static str,
    /// The documentation of the field, as written in the source.
    pub help: &'static str,
    /// The times at which the option may change.
    pub kind: OptionKind,
    /// Functions that parse and print the field; `None` for objects.
    pub text: Option<TextForm<T>>,
    /// Makes an object from text, if that is possible. Objects are never written as text.
    pub read: Option<fn(&mut T, &str) -> Result<()>>,
    /// Appends the option's lines for the LOG.
    pub log: fn(&T, &mut Vec<LogLine>),
}

/// The two directions of an option's text form.
#[derive(Debug)]
pub struct TextForm<T: 'static> {
    /// Sets the field from text. On an error the struct is unchanged.
    pub parse: fn(&mut T, &str) -> Result<()>,
    /// The field as text that `parse` takes.
    pub print: fn(&T) -> String,
}

/// A struct whose fields are listed in a table.
pub trait OptionStruct: Clone + 'static {
    /// RocksDB's name of the struct, for messages.
    const NAME: &'static str;

    /// All options, in the order of declaration.
    fn all_options() -> &'static [OptionInfo<Self>];

    /// The option called `name`, if there is one.
    fn find(name: &str) -> Option<&'static OptionInfo<Self>> {
        let name = former::respelled(name);
        Self::all_options().iter().find(|o| o.name == name)
    }

    /// Sets the option called `name` from text, at any time before the struct is used. Names that
    /// RocksDB ignores are ignored here, too.
    /// # Errors
    /// `InvalidArgument` naming the option: it is unknown, has no text form, or `value` is not one
    /// of its values.
    fn set_text(&mut self, name: &str, value: &str) -> Result<()> {
        let Some(option) = Self::find(name) else {
            if former::is_ignored(Self::NAME, name) {
                return Ok(());
            }
            return Err(Error::invalid_argument(format!("{name}: no such option in {}", Self::NAME)));
        };
        let Some(parse) = option.text.as_ref().map(|text| text.parse).or(option.read) else {
            return Err(Error::invalid_argument(format!("{name}: is an object and cannot be set from text")));
        };
        parse(self, value).map_err(|e| e.at(name))
    }

    /// Sets every option of `name=value;name={…};…`, in order.
    /// # Errors
    /// As `set_text`; the struct is then unchanged.
    fn set_from_string(&mut self, text: &str) -> Result<()> {
        let mut changed = self.clone();
        for (name, value) in split_map(text)? {
            changed.set_text(name, value)?;
        }
        *self = changed;
        Ok(())
    }

    /// The option called `name` as text; `None` if it is unknown or an object.
    fn text_of(&self, name: &str) -> Option<String> {
        Self::find(name)?.text.as_ref().map(|t| (t.print)(self))
    }
}

/// Declares an option struct. Each field reads `/// help`, `field [as "RocksDBName"]: Type =
/// default, fixed|mutable|object|read;` (`read`: an object that text can make).
macro_rules! option_struct {
    (
        $(#[$attr:meta])*
        pub struct $name:ident : $rocks:literal {
            $(
                $(#[doc = $doc:literal])+
                $field:ident $(as $alias:literal)? : $ty:ty = $default:expr, $kind:ident;
            )*
        }
    ) => {
        $(#[$attr])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: $ty, )*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $( $field: $default, )* }
            }
        }

        /// Setters for chaining, each named as its option.
        impl $name {
            /// All defaults.
            pub fn new() -> Self {
                Self::default()
            }

            $(
                $(#[doc = $doc])+
                #[must_use]
                pub fn $field(mut self, value: $ty) -> Self {
                    self.$field = value;
                    self
                }
            )*
        }

        $crate::options::table::option_table! {
            impl $name : $rocks {
                $( $(#[doc = $doc])+ $field $(as $alias)?, $kind; )*
            }
        }
    };
}
pub(crate) use option_struct;

/// Declares the table alone, for a struct that is declared elsewhere. Each line reads `/// help`,
/// `field [as "RocksDBName"], fixed|mutable|object;`.
macro_rules! option_table {
    (
        impl $name:ident : $rocks:literal {
            $( $(#[doc = $doc:literal])* $field:ident $(as $alias:literal)?, $kind:ident; )*
        }
    ) => {
        impl $crate::options::table::OptionStruct for $name {
            const NAME: &'static str = $rocks;

            fn all_options() -> &'static [$crate::options::table::OptionInfo<Self>] {
                static TABLE: &[$crate::options::table::OptionInfo<$name>] = &[ $(
                    $crate::options::table::OptionInfo {
                        name: $crate::options::table::option_table!(@name $field $($alias)?),
                        help: concat!($($doc, "\n"),*),
                        kind: $crate::options::table::option_table!(@kind $kind),
                        text: $crate::options::table::option_table!(@text $kind $name $field),
                        read: $crate::options::table::option_table!(@read $kind $name $field),
                        log: |options: &$name, lines| {
                            let name = $crate::options::table::option_table!(@name $field $($alias)?);
                            $crate::options::table::option_table!(@log $kind options.$field, name, lines);
                        },
                    },
                )* ];
                TABLE
            }
        }
    };
    (@log object $value:expr, $name:ident, $lines:ident) => {
        $crate::options::log::ObjectLog::log(&$value, $name, $lines)
    };
    (@log read $value:expr, $name:ident, $lines:ident) => {
        $crate::options::log::ObjectLog::log(&$value, $name, $lines)
    };
    (@log $kind:ident $value:expr, $name:ident, $lines:ident) => {
        $crate::options::value::OptionValue::log(&$value, $name, $lines)
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $alias:literal) => { $alias };
    (@kind fixed) => { $crate::options::table::OptionKind::Fixed };
    (@kind mutable) => { $crate::options::table::OptionKind::Mutable };
    (@kind object) => { $crate::options::table::OptionKind::Object };
    (@kind read) => { $crate::options::table::OptionKind::Object };
    (@text object $name:ident $field:ident) => { None };
    (@text read $name:ident $field:ident) => { None };
    (@read read $name:ident $field:ident) => {
        Some(|options: &mut $name, text: &str| {
            options.$field = $crate::options::value::ObjectValue::read(text)?;
            Ok(())
        })
    };
    (@read $kind:ident $name:ident $field:ident) => { None };
    (@text $kind:ident $name:ident $field:ident) => {
        Some($crate::options::table::TextForm {
            parse: |options: &mut $name, text: &str| {
                $crate::options::value::OptionValue::update(&mut options.$field, text)
            },
            print: |options: &$name| $crate::options::value::OptionValue::print(&options.$field),
        })
    };
}
pub(crate) use option_table;

#[cfg(test)]
mod tests;
