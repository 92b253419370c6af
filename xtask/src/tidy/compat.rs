//! Checks that the pages under `docs/compat/` promise only facts that a test shows.
//!
//! In: the pages, and all sources. Out: violations of these rules. A name between backticks that
//! looks like a test or an option is a word of the source. Each page names a test. So does each row
//! of a table whose last column is `test`. A cell is short enough to read. `index.md` links every
//! page.

use super::{SourceFile, Violation};
use std::collections::BTreeSet;

const RULE: &str = "compat";
const PAGES: &str = "docs/compat/";
const INDEX: &str = "docs/compat/index.md";
/// The fewest underscores of a name that is checked. A name with fewer may be RocksDB's and unknown
/// to the source.
const UNDERSCORES: usize = 3;
/// Most characters of a cell. Longer facts are prose below the table.
const MAX_CELL: usize = 200;
/// Header of the last column of a table whose rows each name a test.
const TEST: &str = "test";

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let sources = || files.iter().filter(|file| file.path.ends_with(".rs"));
    let words: BTreeSet<&str> = sources().flat_map(|file| identifiers(&file.text)).collect();
    let tests: BTreeSet<&str> = sources().flat_map(|file| tests(&file.text)).collect();
    let index = files.iter().find(|file| file.path == INDEX).map_or("", |file| file.text.as_str());
    let mut violations = Vec::new();
    for page in files.iter().filter(|file| file.path.starts_with(PAGES)) {
        let mut complain =
            |message: String| violations.push(Violation { rule: RULE, path: page.path.clone(), message });
        for name in spans(&page.text).filter(|name| is_name(name) && !words.contains(name)) {
            complain(format!("`{name}` is no word of the source: no test, option or function"));
        }
        if !spans(&page.text).any(|name| tests.contains(name)) {
            complain("the page names no test".to_owned());
        }
        let name = &page.path[PAGES.len()..];
        if page.path != INDEX && !index.contains(&format!("]({name})")) {
            complain(format!("{INDEX} does not link it"));
        }
        for (header, row) in rows(&page.text) {
            let cells = cells(row);
            if let Some(cell) = cells.iter().find(|cell| cell.chars().count() > MAX_CELL) {
                complain(format!("a cell has over {MAX_CELL} characters: '{cell}'"));
            }
            let wants_test = self::cells(header).last() == Some(&TEST);
            let named = cells.last().is_some_and(|cell| spans(cell).any(|name| tests.contains(name)));
            if wants_test && !named {
                complain(format!("the row '{}' names no test", cells[0]));
            }
        }
    }
    violations
}

/// Whether `name` has the form of a test or an option of Esker.
fn is_name(name: &str) -> bool {
    let is_word = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    is_word && name.matches('_').count() >= UNDERSCORES
}

/// The rows of all tables, each with the header of its table.
fn rows(text: &str) -> Vec<(&str, &str)> {
    let mut rows = Vec::new();
    let mut header = None;
    for line in text.lines() {
        match header {
            _ if !line.starts_with('|') => header = None,
            None => header = Some(line),
            Some(_) if line.starts_with("|---") => {}
            Some(header) => rows.push((header, line)),
        }
    }
    rows
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

/// The texts between single backticks.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// All words that could be names.
fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| word.contains('_'))
}

/// Names of the functions with a test attribute.
fn tests(text: &str) -> impl Iterator<Item = &str> {
    text.split("#[test]").skip(1).filter_map(|behind| {
        let name = behind.split_once("fn ")?.1;
        name.split_once('(').map(|(name, _)| name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "| what | test |\n|---|---|\n| a | `it_is_read_and_written` |\n\n\
                        | what | remark |\n|---|---|\n| b | none |\n\n\
                        `some_option_of_ours`, `short_name`, `Capital_Of_Some_Name`\n";

    fn complaints(page: &str) -> Vec<String> {
        let source = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let code = "#[test]\nfn it_is_read_and_written() {}\nstruct Options { some_option_of_ours: u8 }";
        let index = "`it_is_read_and_written`: [page](page.md)";
        let files =
            [source("docs/compat/page.md", page), source(INDEX, index), source("crates/x/src/lib.rs", code)];
        check(&files).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn names_exist_and_each_row_of_a_test_column_names_a_test() {
        assert_eq!(complaints(GOOD), Vec::<String>::new());
        let renamed = complaints(&GOOD.replace("it_is_read_and_written", "it_was_read_and_written"));
        assert_eq!(renamed.len(), 3, "name, page and row are reported: {renamed:?}");
        let without = complaints(&GOOD.replace("some_option_of_ours", "some_option_of_theirs"));
        assert!(without[0].contains("some_option_of_theirs"));
    }

    #[test]
    fn long_cells_and_pages_without_a_link_are_refused() {
        let long = complaints(&GOOD.replace("none", &"x".repeat(MAX_CELL + 1)));
        assert!(long[0].contains("over 200 characters"), "{long:?}");
        let lost = SourceFile { path: "docs/compat/lost.md".to_owned(), text: String::new() };
        let found = check(&[lost]);
        assert!(found.iter().any(|violation| violation.message.contains("does not link")));
    }
}
