//! Values behind a `=` in OPTIONS files: escapes, maps in braces, lists.

use super::trim;
use esker_base::{Error, Result};
use std::borrow::Cow;

/// `text` with a backslash before `\`, `#` and `:`, and with line ends as `\n` and `\r`.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '#', ':', '\n', '\r']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 4);
    for c in text.chars() {
        match c {
            '\\' | '#' | ':' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The inverse of [`escape`]. As in RocksDB, a lone backslash at the end is dropped.
pub fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next().map(|escaped| match escaped {
                'n' => '\n',
                'r' => '\r',
                other => other,
            })),
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The keys and values of `k=v;k={…};…`, with or without braces around the whole. A value in braces
/// keeps them: it is a map or list that the caller splits in turn.
/// # Errors
/// `InvalidArgument` if a key is missing, braces do not match, or text follows a closing brace.
pub fn split_map(value: &str) -> Result<Vec<(&str, &str)>> {
    let mut rest = without_braces(trim(value));
    let mut entries = Vec::new();
    loop {
        rest = rest.trim_start_matches(';');
        if trim(rest).is_empty() {
            return Ok(entries);
        }
        let Some((key, behind)) = rest.split_once('=') else {
            return Err(Error::invalid_argument(format!("'{}' is not 'key=value'", trim(rest))));
        };
        let key = trim(key);
        if key.is_empty() || key.contains(['{', '}', ';']) {
            return Err(Error::invalid_argument(format!("'{key}' cannot be the key of an option")));
        }
        let (value, next) = split_item(behind, ';')?;
        entries.push((key, value));
        rest = next;
    }
}

/// The items of `a:b:{…}:c`, trimmed. An empty text has no items. Items keep their braces and
/// escapes.
/// # Errors
/// `InvalidArgument` if braces do not match or text follows a closing one.
pub fn split_list(value: &str, delimiter: char) -> Result<Vec<&str>> {
    let mut rest = trim(value);
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (item, next) = split_item(rest, delimiter)?;
        items.push(item);
        rest = next;
    }
    Ok(items)
}

/// Splits off one value. Returns it and the text behind its delimiter.
fn split_item(text: &str, delimiter: char) -> Result<(&str, &str)> {
    let text = text.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    if !text.starts_with('{') {
        let mut end = text.len();
        let mut escaped = false;
        for (at, c) in text.char_indices() {
            if c == delimiter && !escaped {
                end = at;
                break;
            }
            escaped = c == '\\' && !escaped;
        }
        let (item, rest) = text.split_at(end);
        return Ok((trim(item), rest.strip_prefix(delimiter).unwrap_or(rest)));
    }
    let end = matching_brace(text).ok_or_else(|| Error::invalid_argument("braces do not match"))?;
    let (item, rest) = text.split_at(end);
    let rest = trim(rest);
    match rest.strip_prefix(delimiter) {
        Some(next) => Ok((item, next)),
        None if rest.is_empty() => Ok((item, rest)),
        None => Err(Error::invalid_argument(format!("'{rest}' stands behind a closing brace"))),
    }
}

/// The offset behind the brace that matches the first one.
fn matching_brace(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at + c.len_utf8());
        }
    }
    None
}

/// `text` without the matching braces that enclose all of it, if any.
fn without_braces(mut text: &str) -> &str {
    while text.starts_with('{') && matching_brace(text) == Some(text.len()) {
        text = trim(text.get(1..text.len() - 1).unwrap_or_default());
    }
    text
}
