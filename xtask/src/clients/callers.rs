//! The functions of the library that suites call.
//!
//! In: runs of programs that link the library. The dynamic linker of glibc reports each symbol that
//! it binds (`LD_DEBUG=bindings`). It binds a function of a C or Go program at the first call, and
//! all functions that a Rust program refers to at its start.
//! Out: `target/clients/called/SUITE`, a function a line. From these files [`write_table`] makes
//! the table of docs/compat/c-api.md.

use super::{Behind, Clients, files_below, fresh, read, write};
use crate::commands::Outcome;
use esker_capi_surface::{Item, union};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The suites whose calls are recorded, each with what its programs do with a function.
const SUITES: [(&str, &str); 3] = [
    ("c_test", "`c_test.c` calls"),
    ("grocksdb", "grocksdb's tests call"),
    ("rocksdb-0.25-so", "the tests of `rocksdb` 0.25 link"),
];

const BEGIN: &str = "<!-- made by `cargo xtask capi-callers` -->\n";
const END: &str = "<!-- end -->\n";

/// A program that runs others with their bindings reported to files in an empty directory.
pub(super) fn reporting(clients: &Clients, suite: &str) -> Result<[String; 3], String> {
    let dir = fresh(&reports(clients, suite))?;
    let output = format!("LD_DEBUG_OUTPUT={}", dir.join("of").display());
    Ok(["env".to_owned(), "LD_DEBUG=bindings".to_owned(), output])
}

fn reports(clients: &Clients, suite: &str) -> PathBuf {
    clients.dir.join("bindings").join(suite)
}

/// Records the functions of the reports, and removes these.
pub(super) fn record(clients: &Clients, suite: &str) -> Outcome {
    let mut called = BTreeSet::new();
    for file in files_below(&reports(clients, suite))? {
        let text = read(&file)?;
        let names = text.lines().filter_map(|line| line.split("symbol `").nth(1)?.split('\'').next());
        called.extend(names.filter(|name| name.starts_with("rocksdb_")).map(str::to_owned));
    }
    fresh(&reports(clients, suite))?;
    let lines: String = called.iter().map(|name| format!("{name}\n")).collect();
    let dir = clients.dir.join("called");
    std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    println!("{suite}: {} functions are called", called.len());
    // The page counts calls of Esker's library.
    if clients.behind == Behind::RocksDb { Ok(()) } else { write(&dir.join(suite), &lines) }
}

/// Writes the table to the page. The suites must have run.
pub(crate) fn write_table(root: &Path) -> Outcome {
    let page = root.join("docs/compat/c-api.md");
    let text = read(&page)?;
    let halves = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = halves.ok_or_else(|| format!("{}: the table is not there", page.display()))?;
    write(&page, &format!("{before}{BEGIN}{}{END}{after}", table(root)?))
}

fn table(root: &Path) -> Result<String, String> {
    let declared: BTreeSet<String> =
        union().iter().filter_map(Item::function).map(|function| function.name.clone()).collect();
    let mut table =
        format!("| functions | number |\n|---|---|\n| declared, and built | {} |\n", declared.len());
    let mut row = |what: &str, count: usize| table.push_str(&format!("| {what} | {count} |\n"));
    let mut by_any = BTreeSet::new();
    for (suite, how) in SUITES {
        let text = read(&root.join("target/clients/called").join(suite))?;
        let called: BTreeSet<String> =
            text.lines().filter(|name| declared.contains(*name)).map(str::to_owned).collect();
        row(&format!("that {how}"), called.len());
        by_any.extend(called);
    }
    row("that any of them calls", by_any.len());
    let own = named_by_own_tests(root)?;
    let more = own.intersection(&declared).filter(|name| !by_any.contains(*name)).count();
    row("others that tests of `crates/capi` name", more);
    let untested: Vec<&str> = declared
        .iter()
        .filter(|name| !by_any.contains(*name) && !own.contains(*name))
        .map(String::as_str)
        .collect();
    row("that none of these calls", untested.len());
    table.push_str("\nThe functions that none of these calls, without rocksdb\\_:\n\n```text\n");
    let mut line = String::new();
    for name in untested.iter().map(|name| name.trim_start_matches("rocksdb_")) {
        if line.len() + name.len() > 98 {
            table.push_str(&format!("{}\n", line.trim_end()));
            line.clear();
        }
        line.push_str(name);
        line.push(' ');
    }
    Ok(table + line.trim_end() + "\n```\n")
}

/// The functions that the text of `crates/capi`'s tests names.
fn named_by_own_tests(root: &Path) -> Result<BTreeSet<String>, String> {
    let mut names = BTreeSet::new();
    let capi = root.join("crates/capi");
    let mut files = files_below(&capi.join("src/tests"))?;
    files.extend(files_below(&capi.join("tests"))?);
    for file in files.into_iter().chain([capi.join("src/tests.rs")]) {
        let text = read(&file)?;
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        names.extend(words.filter(|word| word.starts_with("rocksdb_")).map(str::to_owned));
    }
    Ok(names)
}
