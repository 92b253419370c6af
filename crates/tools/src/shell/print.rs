//! Prints keys and values in one of four forms.
//!
//! In: rows. Out: text on standard output. The form `table` escapes bytes that a terminal does not
//! show, and cuts long values on a terminal. The other forms print everything.

use super::words::{key_text, value_text};
use crate::failure::CommandOutcome;
use crate::text::hex;
use crate::units;
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::io::Write;

/// The form of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum RowForm {
    /// Escaped text in columns; cut at the width of a terminal
    #[default]
    Table,
    /// The bytes as they are, a tab between key and value
    Raw,
    /// 0x…
    Hex,
    /// A JSON object on each line
    Json,
}

/// Names and values of columns, ascending. A plain value is one column without a name.
pub(super) type CellColumns = Vec<(Vec<u8>, Vec<u8>)>;

/// A key and its value; `None`: there is none.
pub(super) struct KeyedRow {
    pub(super) key: Vec<u8>,
    pub(super) value: Option<CellColumns>,
}

/// The least columns of a terminal that a value has, however long the key is.
const LEAST_WIDTH: usize = 20;
/// Lines of a terminal for the value of a get.
const VALUE_LINES: usize = 10;
/// The text of a missing value.
const NOT_FOUND: &str = "(not found)";

/// JSON whose control characters are all escaped: JSON itself asks that only of those below U+0020.
pub(super) fn json_text(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\u{7f}'..='\u{9f}' => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text
}

/// Prints rows in a form.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowPrinter {
    pub(super) form: RowForm,
    /// Columns of the terminal; `None`: values are not cut.
    pub(super) width: Option<usize>,
    /// Whether rows have no values.
    pub(super) only_keys: bool,
}

impl RowPrinter {
    /// Prints the value of a key that was asked for.
    pub(super) fn value(&self, row: &KeyedRow, out: &mut dyn Write) -> CommandOutcome {
        match (self.form, &row.value) {
            (RowForm::Json, _) => self.row(row, 0, out),
            (RowForm::Raw, None) => Ok(()),
            (RowForm::Raw | RowForm::Hex, Some(columns)) => {
                out.write_all(&self.cell(columns))?;
                Ok(out.write_all(b"\n")?)
            }
            (_, None) => Ok(writeln!(out, "{NOT_FOUND}")?),
            (RowForm::Table, Some(columns)) => {
                let text = fit(&columns_text(columns), columns, self.width.map(|width| width * VALUE_LINES));
                Ok(writeln!(out, "{text}")?)
            }
        }
    }

    /// The width of the column of keys.
    pub(super) fn key_width(&self, rows: &[KeyedRow]) -> usize {
        if self.form != RowForm::Table || self.only_keys {
            return 0;
        }
        let most = self.width.map_or(40, |width| width / 2);
        let widths = rows.iter().map(|row| console::measure_text_width(&key_text(&row.key)));
        widths.filter(|width| *width <= most).max().unwrap_or(0)
    }

    /// Prints a row; its key is padded to `key_width`.
    pub(super) fn row(&self, row: &KeyedRow, key_width: usize, out: &mut dyn Write) -> CommandOutcome {
        match self.form {
            RowForm::Json => Ok(writeln!(out, "{}", json_text(&self.object(row).to_string()))?),
            RowForm::Table => {
                let key = key_text(&row.key);
                if self.only_keys {
                    return Ok(writeln!(out, "{key}")?);
                }
                let taken = console::measure_text_width(&key).max(key_width);
                let padding = " ".repeat(taken - console::measure_text_width(&key));
                let room = self.width.map(|width| width.saturating_sub(taken + 2).max(LEAST_WIDTH));
                let value = row.value.as_ref().map_or(Cow::Borrowed(NOT_FOUND), |columns| {
                    Cow::Owned(fit(&columns_text(columns), columns, room))
                });
                Ok(writeln!(out, "{key}{padding}  {value}")?)
            }
            RowForm::Raw | RowForm::Hex => {
                let key = self.bytes(&row.key);
                out.write_all(&key)?;
                if let (false, Some(columns)) = (self.only_keys, &row.value) {
                    out.write_all(if self.form == RowForm::Raw { b"\t" } else { b"  " })?;
                    out.write_all(&self.cell(columns))?;
                }
                Ok(out.write_all(b"\n")?)
            }
        }
    }

    /// Prints a number under a name.
    pub(super) fn number(&self, name: &str, number: u64, out: &mut dyn Write) -> CommandOutcome {
        match self.form {
            RowForm::Json => Ok(writeln!(out, "{}", json!({ name: number }))?),
            _ => Ok(writeln!(out, "{number}")?),
        }
    }

    fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match self.form {
            RowForm::Hex => Cow::Owned(format!("0x{}", hex(bytes)).into_bytes()),
            _ => Cow::Borrowed(bytes),
        }
    }

    /// The bytes of a value, or `name:value` for each column.
    fn cell(&self, columns: &CellColumns) -> Vec<u8> {
        if let [(name, value)] = columns.as_slice()
            && name.is_empty()
        {
            return self.bytes(value).into_owned();
        }
        let cell = |(name, value): &(Vec<u8>, Vec<u8>)| {
            [&*self.bytes(name), &b":"[..], &*self.bytes(value)].concat()
        };
        columns.iter().map(cell).collect::<Vec<_>>().join(&b' ')
    }

    fn object(&self, row: &KeyedRow) -> Value {
        let mut object = Map::new();
        insert(&mut object, "key", &row.key);
        match &row.value {
            _ if self.only_keys => {}
            None => _ = object.insert("value".to_owned(), Value::Null),
            Some(columns) => match columns.as_slice() {
                [(name, value)] if name.is_empty() => insert(&mut object, "value", value),
                columns => {
                    let column = |(name, value): &(Vec<u8>, Vec<u8>)| {
                        let mut column = Map::new();
                        insert(&mut column, "name", name);
                        insert(&mut column, "value", value);
                        Value::Object(column)
                    };
                    object.insert("columns".to_owned(), columns.iter().map(column).collect());
                }
            },
        }
        Value::Object(object)
    }
}

/// Adds a field: `name` with text, or `name_hex` with `0x…` for bytes that are no UTF-8.
fn insert(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => object.insert(format!("{name}_hex"), format!("0x{}", hex(bytes)).into()),
    };
}

/// The text of a value, or of the columns of an entity.
fn columns_text(columns: &CellColumns) -> String {
    match columns.as_slice() {
        [(name, value)] if name.is_empty() => value_text(value),
        columns => {
            let column =
                |(name, value): &(Vec<u8>, Vec<u8>)| format!("{}={}", key_text(name), key_text(value));
            format!("(entity) {}", columns.iter().map(column).collect::<Vec<_>>().join(" "))
        }
    }
}

/// `text`, cut to `room` columns of a terminal; a cut text ends with the bytes of the value.
fn fit(text: &str, columns: &CellColumns, room: Option<usize>) -> String {
    let Some(room) = room.filter(|room| console::measure_text_width(text) > *room) else {
        return text.to_owned();
    };
    let bytes: usize = columns.iter().map(|(name, value)| name.len() + value.len()).sum();
    let tail = format!("… ({} bytes)", units::count(bytes as u64));
    console::truncate_str(text, room, &tail).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(form: RowForm, width: Option<usize>, value: Option<&[(&str, &[u8])]>) -> String {
        let columns = |(name, value): &(&str, &[u8])| (name.as_bytes().to_vec(), value.to_vec());
        let value = value.map(|value| value.iter().map(columns).collect());
        let row = KeyedRow { key: b"k\xff".to_vec(), value };
        let mut out = Vec::new();
        RowPrinter { form, width, only_keys: false }.row(&row, 7, &mut out).unwrap();
        out.utf8_chunks().map(|chunk| chunk.valid().to_owned() + &"?".repeat(chunk.invalid().len())).collect()
    }

    #[test]
    fn rows_have_four_forms() {
        let plain: &[(&str, &[u8])] = &[("", b"a b\x01")];
        let entity: &[(&str, &[u8])] = &[("", b"d"), ("n", b"v\xff")];
        for (form, of_plain, of_entity, of_none) in [
            (
                RowForm::Table,
                "\"k\\xff\"  \"a b\\x01\"\n",
                "\"k\\xff\"  (entity) \"\"=d n=\"v\\xff\"\n",
                "\"k\\xff\"  (not found)\n",
            ),
            (RowForm::Raw, "k?\ta b\u{1}\n", "k?\t:d n:v?\n", "k?\n"),
            (RowForm::Hex, "0x6BFF  0x61206201\n", "0x6BFF  0x:0x64 0x6E:0x76FF\n", "0x6BFF\n"),
            (
                RowForm::Json,
                "{\"key_hex\":\"0x6BFF\",\"value\":\"a b\\u0001\"}\n",
                "{\"columns\":[{\"name\":\"\",\"value\":\"d\"},{\"name\":\"n\",\"value_hex\":\"0x76FF\"}],\"key_hex\":\"0x6BFF\"}\n",
                "{\"key_hex\":\"0x6BFF\",\"value\":null}\n",
            ),
        ] {
            assert_eq!(printed(form, None, Some(plain)), of_plain);
            assert_eq!(printed(form, None, Some(entity)), of_entity);
            assert_eq!(printed(form, None, None), of_none);
        }
    }

    #[test]
    fn json_has_no_control_characters() {
        let json = printed(RowForm::Json, None, Some(&[("", "\u{9b}2J\x7fé".as_bytes())]));
        assert!(json.contains("\"\\u009b2J\\u007fé\""), "{json}");
    }

    #[test]
    fn long_values_are_cut_at_the_width_with_their_length() {
        let value = "é".repeat(1000);
        let line = printed(RowForm::Table, Some(40), Some(&[("", value.as_bytes())]));
        assert_eq!(console::measure_text_width(line.trim_end()), 40);
        assert!(line.ends_with("é… (2,000 bytes)\n"), "{line}");
        assert_eq!(printed(RowForm::Table, None, Some(&[("", value.as_bytes())])).matches('é').count(), 1000);
    }
}
