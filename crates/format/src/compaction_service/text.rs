//! Text in the form of options: `name=value;` with values in braces, lists with colons, bytes in
//! hexadecimal digits.
//!
//! Invariant: nothing recurses; nested values are parsed where their fields are known.

use super::{utf8, wrong};
use esker_base::{Error, Result};
use std::collections::BTreeMap;

/// Pairs of braces around a value. RocksDB writes at most three.
const MAX_WRAPPERS: usize = 4;

/// Names with their raw values.
#[derive(Debug)]
pub(super) struct Fields<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Fields<'a> {
    /// Splits `text` at semicolons outside of braces.
    /// # Errors
    /// `InvalidArgument`: braces do not match, a name has no value or occurs twice.
    pub(super) fn parse(text: &'a str) -> Result<Fields<'a>> {
        let mut rest = unwrapped(text);
        let mut fields = BTreeMap::new();
        while !rest.is_empty() {
            let (part, behind) = split_at(rest, ';')?;
            rest = behind.trim_start();
            if part.trim().is_empty() {
                continue;
            }
            let Some((name, value)) = part.split_once('=') else {
                return Err(Error::invalid_argument("a field has no value"));
            };
            if fields.insert(name.trim(), value.trim()).is_some() {
                return Err(Error::invalid_argument(format!("the field '{}' stands twice", name.trim())));
            }
        }
        Ok(Fields(fields))
    }

    /// The raw value of `name`. # Errors `InvalidArgument`: there is none.
    pub(super) fn required(&self, name: &str) -> Result<&'a str> {
        self.optional(name).ok_or_else(|| Error::invalid_argument(format!("the field '{name}' is missing")))
    }

    pub(super) fn optional(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).copied()
    }

    pub(super) fn u64(&self, name: &str) -> Result<u64> {
        number(name, self.required(name)?)
    }

    /// A number, 0 if it is missing.
    pub(super) fn u64_or_0(&self, name: &str) -> Result<u64> {
        self.optional(name).map_or(Ok(0), |text| number(name, text))
    }

    pub(super) fn bool(&self, name: &str) -> Result<bool> {
        match unwrapped(self.required(name)?) {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(wrong(name)),
        }
    }

    pub(super) fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        un_hex(name, self.required(name)?)
    }

    pub(super) fn string(&self, name: &str) -> Result<String> {
        utf8(name, self.bytes(name)?)
    }

    pub(super) fn into_owned(self) -> BTreeMap<String, String> {
        self.0.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

/// The elements of a list.
/// # Errors
/// `InvalidArgument`: braces do not match.
pub(super) fn list(text: &str) -> Result<Vec<&str>> {
    let mut rest = unwrapped_once(text.trim());
    let mut elements = Vec::new();
    while !rest.is_empty() {
        let (element, behind) = split_at(rest, ':')?;
        elements.push(unwrapped_once(element.trim()));
        rest = behind;
    }
    Ok(elements)
}

/// The text before and behind the first `separator` outside of braces.
fn split_at(text: &str, separator: char) -> Result<(&str, &str)> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1).ok_or_else(braces)?,
            _ if c == separator && depth == 0 => {
                let (before, behind) = text.split_at(at);
                return Ok((before, behind.strip_prefix(separator).unwrap_or_default()));
            }
            _ => {}
        }
    }
    if depth == 0 { Ok((text, "")) } else { Err(braces()) }
}

fn braces() -> Error {
    Error::invalid_argument("Mismatched curly braces for nested options")
}

/// `text` without the braces around all of it: up to [`MAX_WRAPPERS`] pairs.
fn unwrapped(text: &str) -> &str {
    (0..MAX_WRAPPERS).fold(text.trim(), |text, _| unwrapped_once(text).trim())
}

/// `text` without one pair of braces around all of it, if there is one.
fn unwrapped_once(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) else { return text };
    // The first brace may end before the last one begins.
    let mut depth = 0_i64;
    for byte in inner.bytes() {
        depth += match byte {
            b'{' => 1,
            b'}' => -1,
            _ => 0,
        };
        if depth < 0 {
            return text;
        }
    }
    inner
}

/// A decimal number.
/// # Errors
/// `InvalidArgument`: the text is no number, or the number is too large.
pub(super) fn number(name: &str, text: &str) -> Result<u64> {
    unwrapped(text).parse().map_err(|_| wrong(name))
}

/// `bytes` as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The bytes of hexadecimal digits.
/// # Errors
/// `InvalidArgument`: there are other characters, or an odd number.
pub(super) fn un_hex(name: &str, text: &str) -> Result<Vec<u8>> {
    let (pairs, rest) = unwrapped(text).as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(wrong(name));
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    pairs.iter().map(|pair| byte(pair).ok_or_else(|| wrong(name))).collect()
}

/// Writes fields to a text.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) text: String,
}

impl Writer {
    /// Writes a value unchanged. The value must have no semicolon outside of braces.
    pub(super) fn raw(&mut self, name: &str, value: &str) {
        for part in [name, "=", value, ";"] {
            self.text.push_str(part);
        }
    }

    pub(super) fn number(&mut self, name: &str, value: u64) {
        self.raw(name, &value.to_string());
    }

    pub(super) fn bool(&mut self, name: &str, value: bool) {
        self.raw(name, if value { "true" } else { "false" });
    }

    pub(super) fn bytes(&mut self, name: &str, value: &[u8]) {
        self.raw(name, &hex(value));
    }

    /// Writes fields within braces.
    pub(super) fn group(&mut self, name: &str, write: impl FnOnce(&mut Writer)) {
        let mut inner = Writer::default();
        write(&mut inner);
        self.raw(name, &format!("{{{}}}", inner.text));
    }
}
