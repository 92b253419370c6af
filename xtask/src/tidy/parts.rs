//! Splits a file into code, comments and the texts of string literals.
//!
//! In: a source file. Out: pieces, each within one line, with the line. A page is one comment.

use super::SourceFile;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TextPartKind {
    Code,
    Comment,
    Text,
}

/// A piece of one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TextPart<'a> {
    /// Line number, from 1.
    pub(super) line: usize,
    pub(super) kind: TextPartKind,
    pub(super) text: &'a str,
}

/// The pieces of a Rust file or a page; none of other files.
pub(super) fn parts(file: &SourceFile) -> Vec<TextPart<'_>> {
    if file.path.ends_with(".md") {
        let line = |(i, text)| TextPart { line: i + 1, kind: TextPartKind::Comment, text };
        return file.text.lines().enumerate().map(line).collect();
    }
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let mut cutter = Cutter { text: &file.text, at: 0, line: 1, parts: Vec::new() };
    cutter.cut();
    cutter.parts
}

struct Cutter<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    parts: Vec<TextPart<'a>>,
}

impl<'a> Cutter<'a> {
    fn cut(&mut self) {
        let mut code_from = 0;
        while let Some(next) = self.text[self.at..].chars().next() {
            let rest = &self.text[self.at..];
            let special = if rest.starts_with("//") {
                Some((TextPartKind::Comment, 0, rest.find('\n').unwrap_or(rest.len())))
            } else if rest.starts_with("/*") {
                Some((TextPartKind::Comment, 0, rest.find("*/").map_or(rest.len(), |end| end + 2)))
            } else if let Some(hashes) = self.raw_string(rest) {
                let open = hashes + 2;
                let close = format!("\"{}", "#".repeat(hashes));
                Some((
                    TextPartKind::Text,
                    open,
                    rest[open..].find(&close).map_or(rest.len(), |end| open + end),
                ))
            } else if next == '"' {
                Some((TextPartKind::Text, 1, string_end(rest)))
            } else {
                None
            };
            let Some((kind, from, to)) = special else {
                self.at += char_literal(rest).unwrap_or(next.len_utf8());
                continue;
            };
            let start = self.at;
            self.push(TextPartKind::Code, code_from, start);
            self.push(kind, start + from, start + to);
            self.at = (start + to.max(1) + usize::from(kind == TextPartKind::Text)).min(self.text.len());
            code_from = start + to;
        }
        self.push(TextPartKind::Code, code_from, self.text.len());
    }

    /// The number of hashes of the raw string that begins here; `None` if none begins.
    fn raw_string(&self, rest: &str) -> Option<usize> {
        let is_word = self.text[..self.at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let behind = rest.strip_prefix('r').filter(|_| !is_word || self.text[..self.at].ends_with('b'))?;
        let hashes = behind.bytes().take_while(|b| *b == b'#').count();
        behind[hashes..].starts_with('"').then_some(hashes)
    }

    fn push(&mut self, kind: TextPartKind, from: usize, to: usize) {
        let (from, to) = (from.min(to), to);
        for (i, text) in self.text[from..to].split('\n').enumerate() {
            self.line += usize::from(i > 0);
            if !text.is_empty() {
                self.parts.push(TextPart { line: self.line, kind, text });
            }
        }
    }
}

/// The offset of the closing quote of the string that begins here.
fn string_end(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

/// The length of the character literal that begins here; `None` for a lifetime or other text.
fn char_literal(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    if inside.starts_with('\\') {
        return inside[2.min(inside.len())..].find('\'').map(|end| end + 4);
    }
    let first = inside.chars().next()?;
    inside[first.len_utf8()..].starts_with('\'').then(|| 2 + first.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<(usize, TextPartKind, String)> {
        let file = SourceFile { path: "a.rs".to_owned(), text: text.to_owned() };
        parts(&file)
            .iter()
            .map(|p| (p.line, p.kind, p.text.trim().to_owned()))
            .filter(|p| !p.2.is_empty())
            .collect()
    }

    #[test]
    fn code_comments_and_texts_are_told_apart() {
        use TextPartKind::{Code, Comment, Text};
        let found = cut("let a = \"x // y\"; // z \"\n/* b\nc */ 'd'\n'\"' r#\"e\"\"# '\\'' \"f\\\"g\"");
        let expected = [
            (1, Code, "let a = \""),
            (1, Text, "x // y"),
            (1, Code, "\";"),
            (1, Comment, "// z \""),
            (2, Comment, "/* b"),
            (3, Comment, "c */"),
            (3, Code, "'d'"),
            (4, Code, "'\"' r#\""),
            (4, Text, "e\""),
            (4, Code, "\"# '\\'' \""),
            (4, Text, "f\\\"g"),
            (4, Code, "\""),
        ];
        let expected: Vec<_> = expected.iter().map(|(l, k, t)| (*l, *k, (*t).to_owned())).collect();
        let words = |all: &[(usize, TextPartKind, String)], kind| -> Vec<String> {
            all.iter().filter(|p| p.1 == kind).map(|p| p.2.clone()).collect()
        };
        assert_eq!(words(&found, Comment), words(&expected, Comment));
        assert_eq!(words(&found, Text), words(&expected, Text));
        assert_eq!(found.iter().map(|p| p.0).max(), Some(4));
    }
}
