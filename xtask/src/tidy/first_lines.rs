//! Checks that every public item has a doc comment, and that every doc comment begins with prose.
//!
//! In: the sources. Out: a violation for each library that does not enable the lint `missing_docs`,
//! and for each attribute that silences this lint. Also for each doc comment that begins with a
//! heading, code, a table or a list. The lint finds public items without a doc comment; CI turns
//! its warnings into errors. Tests, benchmarks and examples have no public items.

use super::{SourceFile, Violation};

const RULE: &str = "first-line";
/// A library whose public items are C functions, which RocksDB's `c.h` describes.
const C_LIBRARY: &str = "crates/capi/src/lib.rs";
/// The attribute that each other library must have.
const ASKS: &str = "#![warn(missing_docs)]";

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in files.iter().filter(|file| is_source(&file.path)) {
        let mut complain = |line: Option<usize>, message: &str| {
            let path = line.map_or(file.path.clone(), |line| format!("{}:{line}", file.path));
            violations.push(Violation { rule: RULE, path, message: message.to_owned() });
        };
        let is_library = file.path.ends_with("/src/lib.rs") && file.path != C_LIBRARY;
        if is_library && !file.text.lines().any(|line| line == ASKS) {
            complain(None, "a library has `#![warn(missing_docs)]`");
        }
        for (line, text) in numbered(&file.text) {
            if ["allow(", "expect("].iter().any(|level| text.contains(&format!("#[{level}missing_docs"))) {
                complain(Some(line), "every public item, variant and field says what it is");
            }
        }
        for line in without_first_line(&file.text) {
            complain(Some(line), "begin the doc comment with one line of prose: what the item is or does");
        }
    }
    violations
}

fn is_source(path: &str) -> bool {
    let is_of_crate = path.starts_with("crates/") && path.contains("/src/") || path.starts_with("xtask/src/");
    is_of_crate && path.ends_with(".rs") && !path.ends_with("/tests.rs") && !path.contains("/tests/")
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line.trim_start()))
}

/// The lines of doc comments that do not begin with prose.
fn without_first_line(text: &str) -> Vec<usize> {
    let (mut found, mut before) = (Vec::new(), None);
    for (line, text) in numbered(text) {
        let doc = ["///", "//!"].iter().find_map(|token| Some((*token, text.strip_prefix(token)?)));
        if let Some((token, doc)) = doc
            && before != Some(token)
        {
            let is_prose =
                doc.trim_start().starts_with(|c: char| c.is_alphanumeric() || "`[\"(<".contains(c));
            let is_fence = doc.trim_start().starts_with("```");
            if !is_prose || is_fence {
                found.push(line);
            }
        }
        before = doc.map(|(token, _)| token);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> usize {
        check(&[SourceFile { path: path.to_owned(), text: text.to_owned() }]).len()
    }

    #[test]
    fn a_doc_comment_begins_with_prose() {
        for begin in ["# Errors", "```", "| a | b |", "* a list", "", "-- help"] {
            assert_eq!(without_first_line(&format!("struct A;\n/// {begin}\n/// More.\nfn a() {{}}\n")), [2]);
        }
        for begin in ["A first line.", "`a` is one.", "[`A`] is one.", "0 or 8."] {
            assert!(without_first_line(&format!("/// {begin}\n///\n/// # Errors\nfn a() {{}}\n")).is_empty());
        }
        assert_eq!(without_first_line("//! # A\n\n/// ```\n"), [1, 3]);
    }

    #[test]
    fn a_library_asks_for_missing_docs_and_silences_it_nowhere() {
        assert_eq!(complaints("crates/a/src/lib.rs", "//! A library.\n"), 1);
        assert_eq!(complaints("crates/a/src/lib.rs", &format!("//! A library.\n{ASKS}\n")), 0);
        for level in ["allow", "expect"] {
            let silenced = format!("#[{level}(missing_docs, reason = \"a\")]\npub enum A {{ B }}\n");
            assert_eq!(complaints("crates/a/src/a.rs", &silenced), 1);
            assert_eq!(complaints("crates/a/tests/it/a.rs", &silenced), 0);
        }
    }
}
