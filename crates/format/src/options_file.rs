//! The grammar of the OPTIONS file. The meaning of the keys is the engine's.
//!
//! In: text. Out: sections of `key=value`, and back. Source: RocksDB `options/options_parser.cc`.
//! Page: `docs/format/options.md`.
//!
//! ```text
//! file    = line*             line = [ section | entry ] [ # comment ]
//! section = "[" title [ " " '"' escaped name '"' ] "]"
//! entry   = key "=" value     value = text | "{" key "=" value (";" key "=" value)* [";"] "}"
//! escape  = "\" before "\", "#", ":";  "\n", "\r" for line ends
//! ```
//!
//! Invariants
//!  1. Values keep their written form (escapes, braces), so an unknown key survives reading and
//!     printing.
//!  2. A parsed file has one `[DBOptions]`, `[CFOptions "default"]` as its first family, every
//!     family once, and table options only behind their family.

use esker_base::{Error, Result};
use std::borrow::Cow;
use std::fmt::{self, Write as _};

#[cfg(test)]
mod tests;
mod value;

pub use value::{escape, split_list, split_map, unescape};

/// The kind of a section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SectionKind {
    /// `[Version]`
    Version,
    /// `[DBOptions]`
    DbOptions,
    /// `[CFOptions "family"]`
    CfOptions(String),
    /// `[TableOptions/Factory "family"]`
    TableOptions {
        /// The table factory, usually `BlockBasedTable`.
        factory: String,
        /// The family.
        family: String,
    },
}

/// One section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionsSection {
    /// Its kind.
    pub kind: SectionKind,
    /// Keys and values in their written form, in order.
    pub entries: Vec<(String, String)>,
}

impl OptionsSection {
    /// An empty section.
    pub fn new(kind: SectionKind) -> OptionsSection {
        OptionsSection { kind, entries: Vec::new() }
    }

    /// The value of `key` in its written form. If a key occurs twice, the first value.
    pub fn raw(&self, key: &str) -> Option<&str> {
        self.entries.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The value of `key` as text, without escapes.
    pub fn text(&self, key: &str) -> Option<Cow<'_, str>> {
        self.raw(key).map(unescape)
    }

    /// Adds an entry. `value` must be escaped, or need no escapes (numbers, names, `{…}`).
    pub fn push(&mut self, key: &str, value: impl Into<String>) {
        self.entries.push((key.to_owned(), value.into()));
    }

    /// Adds an entry whose value is any text. Escapes the text.
    pub fn push_text(&mut self, key: &str, text: &str) {
        self.push(key, escape(text));
    }
}

/// A whole file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OptionsFile {
    /// The sections, in the order of the file.
    pub sections: Vec<OptionsSection>,
}

impl OptionsFile {
    /// Parses a file.
    /// # Errors
    /// `InvalidArgument`, naming the line, for text that RocksDB refuses too: no `=` or no key, an
    /// unknown or repeated section, families out of order, no `[DBOptions]` or no default family.
    /// Also for text that is not UTF-8.
    pub fn parse(bytes: &[u8]) -> Result<OptionsFile> {
        let text = std::str::from_utf8(bytes).map_err(|e| {
            Error::invalid_argument(format!("OPTIONS file is not UTF-8 from byte {}", e.valid_up_to()))
        })?;
        let mut file = OptionsFile::default();
        for (index, line) in text.split('\n').enumerate() {
            let line = without_comment(line);
            if !line.is_empty() {
                file.parse_line(line).map_err(|e| e.at(format_args!("OPTIONS file, line {}", index + 1)))?;
            }
        }
        file.check_complete()?;
        Ok(file)
    }

    fn parse_line(&mut self, line: &str) -> Result<()> {
        if let Some(inner) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let kind = parse_section(inner)?;
            self.check_section(&kind)?;
            self.sections.push(OptionsSection::new(kind));
            return Ok(());
        }
        let Some((key, value)) = line.split_once('=') else {
            return Err(Error::invalid_argument("neither a section nor 'key=value'"));
        };
        let (key, value) = (trim(key), trim(value));
        if key.is_empty() {
            return Err(Error::invalid_argument("no key before '='"));
        }
        match self.sections.last_mut() {
            Some(section) => section.push(key, value),
            None => return Err(Error::invalid_argument("an entry before the first section")),
        }
        Ok(())
    }

    fn check_section(&self, new: &SectionKind) -> Result<()> {
        let problem = match new {
            SectionKind::Version | SectionKind::DbOptions => {
                if self.sections.iter().any(|s| s.kind == *new) {
                    "this section is there already"
                } else {
                    return Ok(());
                }
            }
            SectionKind::CfOptions(name) => {
                let is_first = self.families().next().is_none();
                if is_first != (name == "default") {
                    "the first column family, and only it, must be \"default\""
                } else if self.families().any(|f| f == name) {
                    "this column family is there already"
                } else {
                    return Ok(());
                }
            }
            SectionKind::TableOptions { family, .. } => {
                if self.families().any(|f| f == family) {
                    return Ok(());
                }
                "table options before the options of their column family"
            }
        };
        Err(Error::invalid_argument(problem))
    }

    fn check_complete(&self) -> Result<()> {
        if !self.sections.iter().any(|s| s.kind == SectionKind::DbOptions) {
            return Err(Error::invalid_argument("OPTIONS file has no [DBOptions] section"));
        }
        if self.families().next().is_none() {
            return Err(Error::invalid_argument("OPTIONS file has no [CFOptions \"default\"] section"));
        }
        Ok(())
    }

    /// Names of the column families, in order.
    pub fn families(&self) -> impl Iterator<Item = &str> {
        self.sections.iter().filter_map(|s| match &s.kind {
            SectionKind::CfOptions(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The `[Version]` section.
    pub fn version(&self) -> Option<&OptionsSection> {
        self.sections.iter().find(|s| s.kind == SectionKind::Version)
    }

    /// The `[DBOptions]` section.
    pub fn db_options(&self) -> Option<&OptionsSection> {
        self.sections.iter().find(|s| s.kind == SectionKind::DbOptions)
    }

    /// The options of a column family.
    pub fn cf_options(&self, name: &str) -> Option<&OptionsSection> {
        self.sections.iter().find(|s| matches!(&s.kind, SectionKind::CfOptions(n) if n == name))
    }

    /// The table options of a column family.
    pub fn table_options(&self, name: &str) -> Option<&OptionsSection> {
        self.sections
            .iter()
            .find(|s| matches!(&s.kind, SectionKind::TableOptions { family, .. } if family == name))
    }
}

impl fmt::Display for OptionsFile {
    /// Writes the text of the file. A value with an unescaped `#` or line end could not be read
    /// back; [`OptionsSection::push_text`] escapes them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("# Options of a database in RocksDB's format.\n")?;
        for section in &self.sections {
            f.write_char('\n')?;
            match &section.kind {
                SectionKind::Version => f.write_str("[Version]\n")?,
                SectionKind::DbOptions => f.write_str("[DBOptions]\n")?,
                SectionKind::CfOptions(name) => writeln!(f, "[CFOptions \"{}\"]", escape(name))?,
                SectionKind::TableOptions { factory, family } => {
                    writeln!(f, "[TableOptions/{factory} \"{}\"]", escape(family))?;
                }
            }
            for (key, value) in &section.entries {
                writeln!(f, "  {key}={value}")?;
            }
        }
        Ok(())
    }
}

/// Parses the text between the brackets.
fn parse_section(inner: &str) -> Result<SectionKind> {
    let (title, name) = match (inner.find('"'), inner.rfind('"')) {
        (Some(open), Some(close)) if open < close => {
            let (title, rest) = inner.split_at(open);
            let quoted = rest.get(1..close - open).unwrap_or_default();
            (trim(title), unescape(quoted).into_owned())
        }
        _ => (trim(inner), String::new()),
    };
    match title {
        "Version" => Ok(SectionKind::Version),
        "DBOptions" => Ok(SectionKind::DbOptions),
        "CFOptions" => Ok(SectionKind::CfOptions(name)),
        _ => match title.strip_prefix("TableOptions/") {
            Some(factory) if !factory.is_empty() => {
                Ok(SectionKind::TableOptions { factory: factory.to_owned(), family: name })
            }
            _ => Err(Error::invalid_argument(format!("unknown section '{title}'"))),
        },
    }
}

/// The part of a line before its comment, trimmed. As in RocksDB, a `#` behind any backslash counts
/// as escaped.
fn without_comment(line: &str) -> &str {
    let mut previous = '\0';
    for (at, c) in line.char_indices() {
        if c == '#' && previous != '\\' {
            return trim(line.split_at(at).0);
        }
        previous = c;
    }
    trim(line)
}

/// Trims white space as C defines it.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r'])
}
