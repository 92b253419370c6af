//! JSON as RocksDB's LOG has it: one object on one line, `"key": value` separated by `, `.
//!
//! In: keys and values in order. Out: text that every JSON parser takes: unlike RocksDB's, strings
//! are escaped.
//! Source of the layout: RocksDB `logging/event_logger.h`.

use std::fmt::Write;

/// Writes one object.
#[derive(Debug)]
pub struct JsonWriter {
    text: String,
    /// Whether the innermost object or array is still empty.
    is_first: bool,
}

impl Default for JsonWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl JsonWriter {
    /// Opens an object.
    pub fn new() -> Self {
        JsonWriter { text: String::from("{"), is_first: true }
    }

    fn separate(&mut self) {
        if !self.is_first {
            self.text.push_str(", ");
        }
        self.is_first = false;
    }

    fn key(&mut self, key: &str) {
        self.separate();
        self.quote(key);
        self.text.push_str(": ");
    }

    fn quote(&mut self, text: &str) {
        self.text.push('"');
        for c in text.chars() {
            match c {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                c if c < ' ' => self.push(format_args!("\\u{:04x}", u32::from(c))),
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }

    fn push(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.text.write_fmt(arguments).expect("writing to a String cannot fail");
    }

    /// `"key": "text"`
    pub fn text(&mut self, key: &str, text: &str) -> &mut Self {
        self.key(key);
        self.quote(text);
        self
    }

    /// `"key": number`
    pub fn number(&mut self, key: &str, number: impl Into<i128>) -> &mut Self {
        self.key(key);
        self.push(format_args!("{}", number.into()));
        self
    }

    /// `"key": number`, with six significant digits as a C++ stream prints a double; not-a-number
    /// becomes `null`.
    pub fn float(&mut self, key: &str, number: f64) -> &mut Self {
        self.key(key);
        if number.is_finite() {
            let text = six_digits(number);
            self.text.push_str(&text);
        } else {
            self.text.push_str("null");
        }
        self
    }

    /// `"key": [1, 2, 3]`
    pub fn numbers(&mut self, key: &str, numbers: impl IntoIterator<Item = u64>) -> &mut Self {
        self.key(key);
        self.text.push('[');
        for (i, number) in numbers.into_iter().enumerate() {
            self.push(format_args!("{}{number}", if i > 0 { ", " } else { "" }));
        }
        self.text.push(']');
        self
    }

    /// `"key": {…}` with the fields that `fill` writes.
    pub fn object(&mut self, key: &str, fill: impl FnOnce(&mut Self)) -> &mut Self {
        self.key(key);
        self.text.push('{');
        self.is_first = true;
        fill(self);
        self.text.push('}');
        self.is_first = false;
        self
    }

    /// `"key": [{…}, …]` with the fields that `fill` writes for each of `items`.
    pub fn objects<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut fill: impl FnMut(T, &mut Self),
    ) -> &mut Self {
        self.key(key);
        self.text.push('[');
        for (i, item) in items.into_iter().enumerate() {
            self.text.push_str(if i == 0 { "{" } else { ", {" });
            self.is_first = true;
            fill(item, self);
            self.text.push('}');
        }
        self.text.push(']');
        self.is_first = false;
        self
    }

    /// Closes the object.
    pub fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }
}

/// C's `%g`.
fn six_digits(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{number:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("{:e} always has an exponent");
    let exponent: i32 = exponent.parse().expect("{:e} has a decimal exponent");
    let trim = |s: &str| {
        if s.contains('.') { s.trim_end_matches('0').trim_end_matches('.').to_owned() } else { s.to_owned() }
    };
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).expect("an exponent below 6 leaves decimals");
        trim(&format!("{number:.decimals$}"))
    } else {
        format!("{}e{}{:02}", trim(mantissa), if exponent < 0 { '-' } else { '+' }, exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_rocksdbs_and_strings_are_escaped() {
        let mut json = JsonWriter::new();
        json.text("event", "a\"b\\c\nd\u{1}é")
            .number("n", 7u64)
            .number("m", -1i64)
            .float("score", 1.0)
            .numbers("files", [3, 4])
            .numbers("none", [])
            .object("inner", |j| {
                j.number("x", 1u64).text("y", "");
            })
            .object("empty", |_| {})
            .number("last", 0u64);
        assert_eq!(
            json.finish(),
            "{\"event\": \"a\\\"b\\\\c\\nd\\u0001é\", \"n\": 7, \"m\": -1, \"score\": 1, \"files\": [3, 4], \
             \"none\": [], \"inner\": {\"x\": 1, \"y\": \"\"}, \"empty\": {}, \"last\": 0}"
        );
    }

    #[test]
    fn floats_have_six_significant_digits() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (1.25, "1.25"),
            (0.333333333, "0.333333"),
            (123456.7, "123457"),
            (1234567.0, "1.23457e+06"),
            (0.00001234, "1.234e-05"),
            (-2.5, "-2.5"),
            (999999.9, "1e+06"),
            (100.0, "100"),
        ];
        for (number, text) in cases {
            assert_eq!(six_digits(number), text);
        }
    }
}
