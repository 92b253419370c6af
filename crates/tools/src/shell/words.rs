//! The words of a command line, and the text of keys and values.
//!
//! In: a line as it was typed, or bytes of the database. Out: commands of words; text.
//!
//! ```text
//! bare      \n \t \r \\ \" \' \; and \xNN are escapes; a backslash and a space is a space
//! "double"  the same escapes; spaces and ; stand for themselves
//! 'single'  all bytes stand for themselves
//! 0x…       a bare word of hexadecimal digits: the bytes
//! ;         at the end of a word: ends the command
//! #         at the start of a word: a comment, up to the end of the line
//! newline   outside of quotes: ends the command. Pasted text has several lines.
//! ```
//!
//! Invariant: the text of a key, typed as a word, is the key.

use crate::failure::{CommandOutcome, Failure};
use crate::text::parse_hex;

/// A word of a command, and the place where it begins in the line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ShellWord {
    pub(super) bytes: Vec<u8>,
    pub(super) start: usize,
}

impl ShellWord {
    /// The word as text, for names and numbers.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// The commands of a line, or of several lines. Commands without words are left out.
/// # Errors
/// An open quote, an unknown escape, an odd number of hexadecimal digits.
pub(super) fn commands(line: &[u8]) -> CommandOutcome<Vec<Vec<ShellWord>>> {
    let mut scanner = Scanner { line, at: 0, is_open: false };
    let (mut commands, mut words) = (Vec::new(), Vec::new());
    while let Some(token) = scanner.next()? {
        match token {
            Token::Word(word) => words.push(word),
            Token::End => commands.push(std::mem::take(&mut words)),
        }
    }
    if scanner.is_open {
        return Err(Failure::new("a quote is not closed"));
    }
    commands.push(words);
    commands.retain(|words| !words.is_empty());
    Ok(commands)
}

/// The words of the command that ends at the cursor. The last one is the word under the cursor,
/// empty behind a space. `None` if the line cannot be read.
pub(super) fn words_to_cursor(line: &str) -> Option<Vec<ShellWord>> {
    let mut scanner = Scanner { line: line.as_bytes(), at: 0, is_open: false };
    let mut words = Vec::new();
    let mut end = 0;
    while let Some(token) = scanner.next().ok()? {
        match token {
            Token::Word(word) => words.push(word),
            Token::End => words.clear(),
        }
        end = scanner.at;
    }
    if end < line.len() || line.is_empty() || words.is_empty() {
        words.push(ShellWord { bytes: Vec::new(), start: line.len() });
    }
    Some(words)
}

enum Token {
    Word(ShellWord),
    End,
}

struct Scanner<'a> {
    line: &'a [u8],
    at: usize,
    /// Whether the line has ended inside of quotes or of an escape.
    is_open: bool,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    /// The next word or end of a command; `None` at the end of the line.
    fn next(&mut self) -> CommandOutcome<Option<Token>> {
        let spaces = self.line.get(self.at..).unwrap_or_default().iter();
        let is_space = |byte: &&u8| byte.is_ascii_whitespace() && **byte != b'\n';
        let start = self.at + spaces.take_while(is_space).count();
        match self.line.get(start) {
            None => return Ok(None),
            Some(b'#' | b'\n') => {
                let rest = self.line.get(start..).unwrap_or_default();
                let end = rest.iter().position(|byte| *byte == b'\n');
                return Ok(end.map(|length| {
                    self.at = start + length + 1;
                    Token::End
                }));
            }
            Some(b';') if self.ends_word(start) => {
                self.at = start + 1;
                return Ok(Some(Token::End));
            }
            _ => self.at = start,
        }
        let mut bytes = Vec::new();
        let mut is_plain = true;
        while let Some(byte) = self.peek() {
            match byte {
                _ if byte.is_ascii_whitespace() => break,
                b';' if self.ends_word(self.at) => break,
                b'\'' | b'"' => self.quoted(byte, &mut bytes)?,
                b'\\' => self.escape(&mut bytes)?,
                _ => {
                    bytes.push(byte);
                    self.at += 1;
                    continue;
                }
            }
            is_plain = false;
        }
        if is_plain && bytes.starts_with(b"0x") {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            bytes = parse_hex(&text, "word")
                .map_err(|e| Failure::new(format_args!("{e}; quotes around it make it text: \"{text}\"")))?;
        }
        Ok(Some(Token::Word(ShellWord { bytes, start })))
    }

    /// Whether the semicolon here is the last byte of its word, but for other semicolons.
    fn ends_word(&self, at: usize) -> bool {
        let rest = self.line.get(at + 1..).unwrap_or_default();
        rest.iter().find(|byte| **byte != b';').is_none_or(u8::is_ascii_whitespace)
    }

    fn quoted(&mut self, quote: u8, bytes: &mut Vec<u8>) -> CommandOutcome {
        self.at += 1;
        while let Some(byte) = self.peek() {
            match byte {
                _ if byte == quote => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' if quote == b'"' => self.escape(bytes)?,
                _ => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
        self.is_open = true;
        Ok(())
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> CommandOutcome {
        let rest = self.line.get(self.at + 1..).unwrap_or_default();
        let (byte, length) = match rest {
            [] => {
                self.is_open = true;
                self.at += 1;
                return Ok(());
            }
            [b'n', ..] => (b'\n', 1),
            [b't', ..] => (b'\t', 1),
            [b'r', ..] => (b'\r', 1),
            [byte @ (b'\\' | b'"' | b'\'' | b';' | b' ' | b'#'), ..] => (*byte, 1),
            [b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let nibble = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
                (nibble(*high) << 4 | nibble(*low), 3)
            }
            [byte, ..] => {
                let escape = byte.escape_ascii();
                return Err(Failure::new(format_args!(
                    "\\{escape} is no escape: there are \\n, \\t, \\r, \\xNN, and \\\\ for a backslash"
                )));
            }
        };
        bytes.push(byte);
        self.at += 1 + length;
        Ok(())
    }
}

/// The text of a key: itself if it is a bare word, otherwise in double quotes with escapes.
pub(super) fn key_text(key: &[u8]) -> String {
    let is_bare = !key.is_empty()
        && !key.starts_with(b"0x")
        && !key.starts_with(b"#")
        && str::from_utf8(key).is_ok_and(|text| {
            text.chars().all(|c| is_shown(c) && !c.is_whitespace() && !matches!(c, '"' | '\'' | '\\' | ';'))
        });
    if is_bare { String::from_utf8_lossy(key).into_owned() } else { quoted(key) }
}

/// The text of a value: itself if it is text that cannot be mistaken for another value, otherwise
/// in double quotes with escapes.
pub(super) fn value_text(value: &[u8]) -> String {
    /// Starts of texts that this shell prints for other things.
    const TAKEN: [&[u8]; 5] = [b"\"", b"'", b"0x", b"(", b" "];
    let is_plain = !value.is_empty()
        && !value.ends_with(b" ")
        && !TAKEN.iter().any(|start| value.starts_with(start))
        && str::from_utf8(value).is_ok_and(|text| text.chars().all(|c| is_shown(c) && c != '\\'));
    if is_plain { String::from_utf8_lossy(value).into_owned() } else { quoted(value) }
}

/// A text with names of the database in it, as a terminal may get it: the lines stay, and other
/// characters that are not shown come as `\xNN`.
pub(super) fn message_text(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for c in message.chars() {
        match c {
            c if is_shown(c) || matches!(c, '\n' | '\t') => text.push(c),
            c => push_hex(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut text),
        }
    }
    text
}

/// `bytes` in double quotes.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                '"' | '\\' => text.extend(['\\', c]),
                c if is_shown(c) => text.push(c),
                c => push_hex(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut text),
            }
        }
        push_hex(chunk.invalid(), &mut text);
    }
    text.push('"');
    text
}

fn push_hex(bytes: &[u8], text: &mut String) {
    bytes.iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
}

/// Whether a terminal shows the character as itself: no control character, no mark that joins
/// others, no mark of direction.
fn is_shown(c: char) -> bool {
    matches!(c, ' '..='~') || c > '~' && c.escape_debug().len() == 1 && !c.is_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes_of(line: &str) -> Vec<Vec<Vec<u8>>> {
        let bytes = |words: Vec<ShellWord>| words.into_iter().map(|word| word.bytes).collect();
        commands(line.as_bytes()).unwrap().into_iter().map(bytes).collect()
    }

    #[test]
    fn lines_are_split_into_commands_and_words() {
        let one = |words: &[&[u8]]| vec![words.iter().map(|word| word.to_vec()).collect::<Vec<_>>()];
        assert_eq!(bytes_of("  get  a\\x00b "), one(&[b"get", b"a\0b"]));
        assert_eq!(bytes_of("put 'a b' \"c\\td\"e"), one(&[b"put", b"a b", b"c\tde"]));
        assert_eq!(bytes_of("get 0x00fF '0x00' # why"), one(&[b"get", b"\x00\xff", b"0x00"]));
        assert_eq!(bytes_of("get a;b \"\" #c"), one(&[b"get", b"a;b", b""]));
        assert_eq!(bytes_of("a; b ;; 'c;'"), [[b"a".to_vec()], [b"b".to_vec()], [b"c;".to_vec()]]);
        assert!(bytes_of(" # nothing ").is_empty());
    }

    #[test]
    fn pasted_lines_are_commands_of_their_own() {
        let pasted = "get a # don't; put\n\r\n# all\nput 'b\nc' d;\n  get e\n";
        let commands: [&[&[u8]]; 3] = [&[b"get", b"a"], &[b"put", b"b\nc", b"d"], &[b"get", b"e"]];
        assert_eq!(bytes_of(pasted), commands);
    }

    #[test]
    fn mistakes_are_named() {
        for (line, what) in [
            ("get 'a", "a quote is not closed"),
            ("get a\\", "a quote is not closed"),
            ("get a\\q", "\\q is no escape"),
            ("get a\\x0", "\\x is no escape"),
            ("get 0x123", "an odd number of digits; quotes around it make it text: \"0x123\""),
        ] {
            let error = commands(line.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(what), "{line}: {error}");
        }
    }

    #[test]
    fn words_at_the_cursor_may_be_unfinished() {
        let words = |line| {
            let words = words_to_cursor(line)?;
            let last = words.last()?.clone();
            Some((words.len(), last.start, String::from_utf8(last.bytes).unwrap()))
        };
        for (line, expected) in [
            ("", (1, 0, "")),
            ("ge", (1, 0, "ge")),
            ("get ", (2, 4, "")),
            ("get \"a b", (2, 4, "a b")),
            ("put a; get x", (2, 11, "x")),
            ("put a; ", (1, 7, "")),
            ("put a;", (1, 6, "")),
            ("put a # b\nge", (1, 10, "ge")),
        ] {
            assert_eq!(words(line), Some((expected.0, expected.1, expected.2.to_owned())), "{line}");
        }
        assert_eq!(words("get 0x1"), None);
    }

    #[test]
    fn texts_of_values_are_plain_if_they_are_clear() {
        for (value, text) in [
            (&b"{\"a\": 1}"[..], "{\"a\": 1}"),
            (b"", "\"\""),
            (b"(not found)", "\"(not found)\""),
            (b"a\n\xff", "\"a\\n\\xff\""),
            (b"c:\\d", "\"c:\\\\d\""),
            ("Grüße, 世界".as_bytes(), "Grüße, 世界"),
            ("a\u{202e}b".as_bytes(), "\"a\\xe2\\x80\\xaeb\""),
        ] {
            assert_eq!(value_text(value), text);
        }
    }

    #[test]
    fn messages_have_no_control_characters() {
        let message = "é\t'\x1b[2J\u{9b}m\u{7f}'\r\n";
        assert_eq!(message_text(message), "é\t'\\x1b[2J\\xc2\\x9bm\\x7f'\\x0d\n");
    }

    proptest! {
        #[test]
        fn texts_of_keys_are_read_back(keys in proptest::collection::vec(any_key(), 1..4)) {
            let line = keys.iter().map(|key| key_text(key)).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(bytes_of(&line), vec![keys]);
            prop_assert!(line.chars().all(|c| !c.is_control()));
        }

        #[test]
        fn texts_of_values_are_the_values(value in any_key()) {
            let text = value_text(&value);
            match text.starts_with('"') {
                true => prop_assert_eq!(bytes_of(&text), vec![vec![value]]),
                false => prop_assert_eq!(text.as_bytes(), &value[..]),
            }
        }

        #[test]
        fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..40)) {
            commands(&line).ok();
            words_to_cursor(&String::from_utf8_lossy(&line));
        }
    }

    /// Keys of any bytes, of the bytes with a meaning here, and of characters.
    fn any_key() -> impl Strategy<Value = Vec<u8>> {
        let special = proptest::sample::select(b"0x;#\\'\"\n\t ab\x00\xff\xc3".to_vec());
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..12),
            proptest::collection::vec(special, 0..8),
            ".{0,6}".prop_map(String::into_bytes),
        ]
    }
}
