//! The order of modules inside the engine crate: no module names one that stands above it.
//!
//! The list below is the architecture; ARCHITECTURE.md explains it. Modules of one group may name
//! each other.

use super::{Source, Violation};

const RULE: &str = "order";
/// Where the engine is.
const ENGINE: &str = "crates/esker/src/";

/// From the front door down.
const ORDER: &[&[&str]] = &[
    &["txn", "checkpoint", "backup", "ttl", "repair", "door", "sst_file_reader"],
    &["db"],
    &["explain"],
    &["get"],
    &["scan"],
    &["instance"],
    &["write", "flush", "compact", "ingest"],
    &["engine"],
    &["schedule"],
    &["merge"],
    &["cf"],
    &["picker"],
    &["sst_file_writer"],
    &["files"],
    &["version"],
    &["wal"],
    &["options"],
    &["observe", "builtin", "snapshot"],
];

fn rank(module: &str) -> Option<usize> {
    ORDER.iter().position(|group| group.contains(&module))
}

pub(super) fn check(files: &[Source]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in files {
        let Some(inside) = file.path.strip_prefix(ENGINE) else { continue };
        // Tests may look at anything; lib.rs names everything.
        if inside == "lib.rs" || inside.ends_with("tests.rs") || inside.contains("/tests/") {
            continue;
        }
        let module = inside.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        let Some(own) = rank(module) else {
            let message = format!(
                "the module '{module}' has no place in the order: give it one in xtask/src/tidy/order.rs"
            );
            violations.push(Violation { rule: RULE, path: file.path.clone(), message });
            continue;
        };
        for (line, named) in named_modules(&file.text) {
            if rank(&named).is_some_and(|other| other < own) {
                let message = format!("'{module}' names 'crate::{named}', which stands above it");
                violations.push(Violation { rule: RULE, path: format!("{}:{line}", file.path), message });
            }
        }
    }
    violations
}

/// Every `crate::x` with its line, those in braces too. Comments and documentation do not count.
fn named_modules(text: &str) -> Vec<(usize, String)> {
    let mut named = Vec::new();
    let code: Vec<&str> = text.lines().map(|l| l.split("//").next().unwrap_or_default()).collect();
    let joined = code.join("\n");
    for (at, found) in joined.match_indices("crate::") {
        let is_word = joined[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$');
        if is_word {
            continue;
        }
        let line = joined[..at].matches('\n').count() + 1;
        let behind = &joined[at + found.len()..];
        if let Some(list) = behind.strip_prefix('{') {
            named.extend(first_names(list).into_iter().map(|name| (line, name)));
        } else {
            named.push((line, identifier(behind)));
        }
    }
    named
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// `a::b, c::{d, e}, f}` to a, c, f.
fn first_names(list: &str) -> Vec<String> {
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' | ',' if depth == 0 => {
                names.push(identifier(list[start..at].trim()));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: format!("{ENGINE}{path}"), text: text.to_owned() }
    }

    #[test]
    fn references_upwards_are_found() {
        let files = [
            source("lib.rs", "use crate::db::Db;"),
            source("db/mod.rs", "use crate::write::Writer;\nuse crate::options::{A, B};"),
            source("wal/writer.rs", "// crate::db\nuse crate::{\n    options::{X, db},\n    cf::Y,\n};"),
            source("wal/writer/tests.rs", "use crate::db::Db;"),
            source("get/search.rs", "fn f() { crate::scan::g(); $crate::db::h!(); super::db(); }"),
            source("novelty.rs", ""),
        ];
        let found: Vec<_> = check(&files).into_iter().map(|v| (v.path, v.message)).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].0, "crates/esker/src/wal/writer.rs:2");
        assert_eq!(found[0].1, "'wal' names 'crate::cf', which stands above it");
        assert!(found[1].1.contains("'novelty' has no place"));
    }
}
