//! What `docs/compat.md` promises is shown by tests that are there.
//!
//! A name between backticks with several underscores is a word of the source: an option, a
//! function, a test; a test that is renamed or removed is missed. Each row of the tables that say
//! what is read and written names a test, and so does each section.

use super::{Source, Violation};
use std::collections::BTreeSet;

const RULE: &str = "compat";
const PAGE: &str = "docs/compat.md";
/// Names with fewer may be words of RocksDB's that stand nowhere here.
const UNDERSCORES: usize = 3;
/// Sections whose tables' rows name a test each.
const TABLES: &[&str] =
    &["Files of a database", "Tables", "Entries", "Merge operators, comparators, prefix extractors"];
/// What a row with this status alone promises nothing.
const NOTHING_PROMISED: &[&str] = &["planned"];

pub(super) fn check(files: &[Source]) -> Vec<Violation> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return Vec::new() };
    let sources = || files.iter().filter(|file| file.path.ends_with(".rs"));
    let words: BTreeSet<&str> = sources().flat_map(|file| identifiers(&file.text)).collect();
    let tests: BTreeSet<&str> = sources().flat_map(|file| tests(&file.text)).collect();
    let mut violations = Vec::new();
    let mut complain =
        |message: String| violations.push(Violation { rule: RULE, path: PAGE.to_owned(), message });
    for name in spans(&page.text) {
        let is_name = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if is_name && name.matches('_').count() >= UNDERSCORES && !words.contains(name) {
            complain(format!("`{name}` is no word of the source: no test, option or function"));
        }
    }
    for section in page.text.split("\n## ").skip(1) {
        let (title, text) = section.split_once('\n').unwrap_or((section, ""));
        let names_test = |text: &str| spans(text).any(|name| tests.contains(name));
        if !names_test(text) {
            complain(format!("the section '{title}' names no test"));
        }
        // Behind the heading and the line below it.
        let rows = text.lines().filter(|line| line.starts_with('|')).skip(2);
        for row in rows.filter(|_| TABLES.contains(&title)) {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            let promises = cells.iter().skip(1).any(|cell| !NOTHING_PROMISED.contains(cell));
            if promises && !names_test(row) && !row.starts_with("|---") && !row.starts_with("| what |") {
                complain(format!("section '{title}': the row '{}' names no test", cells[0]));
            }
        }
    }
    violations
}

/// What stands between single backticks.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// All words that could be names.
fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| word.contains('_'))
}

/// Names of the functions that are marked as tests.
fn tests(text: &str) -> impl Iterator<Item = &str> {
    text.split("#[test]").skip(1).filter_map(|behind| {
        let name = behind.split_once("fn ")?.1;
        name.split_once('(').map(|(name, _)| name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(page: &str) -> Vec<String> {
        let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        let code = "#[test]\nfn it_is_read_and_written() {}\nstruct Options { some_option_of_ours: u8 }";
        let files = [source(PAGE, page), source("crates/x/src/lib.rs", code)];
        check(&files).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn names_must_be_there_and_rows_must_name_a_test() {
        let good = "\n## Tables\n\n| what | read |\n|---|---|\n| a | done (`it_is_read_and_written`) |\n| b | planned |\n\
                    and `some_option_of_ours`, `short_name`, `Capital_Of_Some_Name`\n";
        assert_eq!(complaints(good), Vec::<String>::new());
        let renamed = good.replace("it_is_read_and_written", "it_was_read_and_written");
        let found = complaints(&renamed);
        assert_eq!(found.len(), 3, "the name, the section, the row: {found:?}");
        let without = good.replace("some_option_of_ours", "some_option_of_theirs");
        assert!(complaints(&without)[0].contains("some_option_of_theirs"));
    }
}
