//! Checks that `docs/compat/absent.md` lists exactly the public names of RocksDB that Esker does
//! not have. So readers know that every other name has a form here.
//!
//! In: `xtask/names.txt`, the sources of the crates without their tests, the page. Out: names that
//! have no form and are not listed, listed names that have one, and listed names that RocksDB does
//! not have.

use super::{SourceFile, Violation};
use std::collections::{BTreeMap, BTreeSet};

const RULE: &str = "public_names";
const NAMES: &str = "xtask/names.txt";
const PAGE: &str = "docs/compat/absent.md";
/// Beginnings of RocksDB's names that Esker's may leave out.
const BEGINNINGS: [&str; 4] = ["get_", "new_", "create_", "k_"];

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let text_of = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let (Some(names), Some(page)) = (text_of(NAMES), text_of(PAGE)) else { return Vec::new() };
    let is_source = |file: &&SourceFile| {
        let path = &file.path;
        path.ends_with(".rs") && path.contains("/src/") && !path.ends_with("tests.rs")
    };
    let sources: Vec<&SourceFile> = files.iter().filter(is_source).collect();
    let words: BTreeSet<&str> = sources.iter().flat_map(|file| words(&file.text)).collect();
    let mut absent: BTreeSet<String> = BTreeSet::new();
    let mut violations = Vec::new();
    let mut complain = |path: &str, message: String| {
        violations.push(Violation { rule: RULE, path: path.to_owned(), message });
    };
    let (mut known, mut declared): (BTreeSet<String>, BTreeMap<&str, BTreeSet<&str>>) = Default::default();
    let (mut class, mut places, mut classes) = ("", "", BTreeSet::new());
    for line in names.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        if let Some(header) = line.strip_prefix("header ") {
            let (header, word) = header.split_once(' ').unwrap_or((header, ""));
            if word == "-" {
                absent.insert(header.to_owned());
            } else if !words.contains(word) {
                complain(NAMES, format!("{header}: `{word}` is no word of the sources"));
            }
            continue;
        }
        let members = match line.strip_prefix("class ").and_then(|line| line.split_once(':')) {
            Some((head, members)) => {
                (class, places) = head.split_once(' ').unwrap_or((head, ""));
                classes.insert(class);
                members
            }
            None => line,
        };
        let here = declared.entry(places).or_insert_with(|| {
            let is_place = |file: &&&SourceFile| places.split(',').any(|place| file.path.starts_with(place));
            sources.iter().filter(is_place).flat_map(|file| declarations(&file.text)).collect()
        });
        for member in members.split_whitespace() {
            let (member, word) = member.split_once('=').map_or((member, None), |(m, w)| (m, Some(w)));
            let name = format!("{class}::{member}");
            known.insert(name.clone());
            match word {
                Some(word) if words.contains(word) => {}
                Some(word) => complain(NAMES, format!("{name}: `{word}` is no word of the sources")),
                None if has_form(member, here) => {}
                None => drop(absent.insert(name)),
            }
        }
    }
    let is_name = |span: &&str| match span.split_once("::") {
        Some((class, _)) => classes.contains(class),
        None => absent.contains(*span),
    };
    let listed: BTreeSet<&str> = page.split('`').skip(1).step_by(2).filter(is_name).collect();
    for name in absent.iter().filter(|name| !listed.contains(name.as_str())) {
        complain(PAGE, format!("`{name}` of RocksDB has no form here: give it one, or list it"));
    }
    for name in listed.into_iter().filter(|name| !absent.contains(*name)) {
        let what = if known.contains(name) { "has a form here" } else { "is no name in xtask/names.txt" };
        complain(PAGE, format!("`{name}` {what}"));
    }
    violations
}

/// Whether a member of a class of RocksDB is declared under its name in snake case.
fn has_form(member: &str, declared: &BTreeSet<&str>) -> bool {
    let name = snake(member);
    let shorter = BEGINNINGS.iter().filter_map(|beginning| name.strip_prefix(beginning));
    declared.contains(name.as_str()) || shorter.into_iter().any(|name| declared.contains(name))
}

/// `GetDBOptions` as `get_db_options`.
fn snake(name: &str) -> String {
    let name = name.replace("WALs", "Wals");
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (at, c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| chars.get(at));
        let behind = chars.get(at + 1);
        let after_small = before.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let ends_capitals =
            before.is_some_and(char::is_ascii_uppercase) && behind.is_some_and(char::is_ascii_lowercase);
        if c.is_ascii_uppercase() && (after_small || ends_capitals) {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Names of functions, fields and rows of macros: the word behind `fn`, and the first word of a
/// line that a mark follows.
fn declarations(text: &str) -> impl Iterator<Item = &str> {
    let functions = text.split("fn ").skip(1).filter_map(|behind| words(behind).next());
    let rows = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let end = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        let marked = line[end..].trim_start().starts_with([':', ';', ',', '(', '=', '{']);
        (end > 0 && marked).then(|| &line[..end])
    });
    functions.chain(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(names: &str, page: &str) -> Vec<String> {
        let source = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let files = [
            source(NAMES, names),
            source(PAGE, page),
            source("crates/x/src/a.rs", "impl A {\n    pub fn db_options(&self) {}\n    max_size: u64,\n}"),
            source("crates/x/src/b.rs", "fn elsewhere() {}"),
            source("crates/x/src/tests.rs", "fn only_in_tests() {}"),
        ];
        check(&files).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn each_name_has_a_form_or_is_listed() {
        let names = "# text\nheader a.h db_options\nheader b.h -\n\n\
                     class A crates/x/src/a.rs: GetDBOptions max_size\n    Elsewhere Other=elsewhere OnlyInTests\n";
        let page = "`b.h`, `A::Elsewhere`, `A::OnlyInTests`, `sync`";
        assert_eq!(complaints(names, page), Vec::<String>::new());
        assert_eq!(complaints(names, "`b.h` `A::Elsewhere`").len(), 1);
        let wrong =
            complaints(names, "`b.h` `A::Elsewhere` `A::OnlyInTests` `A::max_size` `A::x` `B::x` `a.h`");
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(complaints("header a.h nothing\n", "")[0].contains("no word"));
        assert!(complaints("class A crates/x/: Other=nothing\n", "")[0].contains("no word"));
    }

    #[test]
    fn names_become_snake_case() {
        for (name, snaked) in [
            ("GetDBOptions", "get_db_options"),
            ("SyncWAL", "sync_wal"),
            ("GetSortedWalFiles", "get_sorted_wal_files"),
            ("IngestWriteBatchWithIndex", "ingest_write_batch_with_index"),
            ("bytes_per_sync", "bytes_per_sync"),
        ] {
            assert_eq!(snake(name), snaked);
        }
    }
}
