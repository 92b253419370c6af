//! Checks the order of rooms inside the engine crate: no room uses a room above it.
//!
//! The first column of the table in ARCHITECTURE.md, "Inside `esker`", lists the rooms in order:
//! row by row from the top, and within a row from left to right. So there are no cycles between
//! rooms. A part of a room that lies at another place in the order has an entry of its own
//! (`room/part`).

use super::{SourceFile, Violation};

const RULE: &str = "order";
/// Directory of the engine.
const ENGINE: &str = "crates/esker/src/";
/// The page that has the order.
const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Inside `esker`";

/// The rooms, from the public face down.
struct Order(Vec<String>);

impl Order {
    fn read(files: &[SourceFile]) -> Order {
        let page = files.iter().find(|file| file.path == PAGE).map_or("", |file| &file.text);
        let rows = page.lines().skip_while(|line| *line != HEADING).skip(1);
        let rows =
            rows.take_while(|line| !line.starts_with("## ")).filter_map(|line| line.strip_prefix("| "));
        let cells = rows.filter_map(|row| row.split('|').next());
        // Names are the texts between backquotes: every second part.
        let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        Order(names.map(str::to_owned).collect())
    }

    /// The rank of a module: the position of its part's entry, or of its room's entry.
    fn rank(&self, path: &str) -> Option<usize> {
        let mut parts = path.split("::");
        let room = parts.next().unwrap_or_default();
        let place = |name: &str| self.0.iter().position(|entry| entry == name);
        parts.next().and_then(|part| place(&format!("{room}/{part}"))).or_else(|| place(room))
    }
}

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let order = Order::read(files);
    let mut violations = Vec::new();
    for file in files {
        let Some(inside) = file.path.strip_prefix(ENGINE) else { continue };
        // Tests may name all modules, and lib.rs must.
        if inside == "lib.rs" || inside.ends_with("tests.rs") || inside.contains("/tests/") {
            continue;
        }
        let module = inside.trim_end_matches(".rs").replace('/', "::");
        let Some(own) = order.rank(&module) else {
            let room = identifier(&module);
            let message = format!("the room '{room}' has no place in the table of {PAGE}, {HEADING}");
            violations.push(Violation { rule: RULE, path: file.path.clone(), message });
            continue;
        };
        let mut named = named_modules(&file.text, "crate::");
        if !inside.contains('/') || inside.ends_with("/mod.rs") && inside.matches('/').count() == 1 {
            named.extend(named_modules(&file.text, "super::"));
        }
        for (line, named) in named {
            if order.rank(&named).is_some_and(|other| other < own) {
                let message = format!("'{}' names '{named}', which stands above it", order.0[own]);
                violations.push(Violation { rule: RULE, path: format!("{}:{line}", file.path), message });
            }
        }
    }
    violations
}

/// Every path `a::b` that follows `root`, with its line. A path inside braces gives only `a`.
/// Comments do not count.
fn named_modules(text: &str, root: &str) -> Vec<(usize, String)> {
    let mut named = Vec::new();
    let code: Vec<&str> = text.lines().map(|l| l.split("//").next().unwrap_or_default()).collect();
    let joined = code.join("\n");
    for (at, found) in joined.match_indices(root) {
        let is_word =
            joined[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$' || c == ':');
        if is_word {
            continue;
        }
        let line = joined[..at].matches('\n').count() + 1;
        let behind = &joined[at + found.len()..];
        if let Some(list) = behind.strip_prefix('{') {
            named.extend(first_names(list).into_iter().map(|name| (line, name)));
        } else {
            let first = identifier(behind);
            let second = behind[first.len()..].strip_prefix("::").map(identifier).unwrap_or_default();
            named.push((line, format!("{first}::{second}")));
        }
    }
    named
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The first name of each item of a list: `a::b, c::{d, e}, f}` gives a, c, f.
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

    fn source(path: &str, text: &str) -> SourceFile {
        SourceFile { path: format!("{ENGINE}{path}"), text: text.to_owned() }
    }

    #[test]
    fn references_upwards_are_found() {
        let page = "## Inside `esker`\n\n| rooms | what |\n|---|---|\n| `db` | the face |\n\
                    | `write` `runs/far` | `read` no |\n| `get` | |\n| `wal` | |\n| `runs` `options` | |\n\n\
                    ## Else\n| `cf` | |\n";
        let files = [
            SourceFile { path: PAGE.to_owned(), text: page.to_owned() },
            source("lib.rs", "use crate::db::Db;"),
            source("db/mod.rs", "use crate::write::Writer;\nuse crate::options::{A, B};"),
            source("wal/writer.rs", "// crate::db\nuse crate::{\n    options::{X, db},\n    get::Y,\n};"),
            source("wal/writer/tests.rs", "use crate::db::Db;"),
            source("get/search.rs", "fn f() { crate::wal::g(); $crate::db::h!(); super::db(); }"),
            source("get/mod.rs", "use super::write::Writer;"),
            source("runs/far.rs", "use crate::get::Get;"),
            source("runs/near.rs", "use crate::runs::far::go;"),
            source("write/mod.rs", "use crate::runs::far;\nuse crate::runs::near;"),
            source("novelty.rs", ""),
        ];
        let found: Vec<_> = check(&files).into_iter().map(|v| (v.path, v.message)).collect();
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.trim_start_matches(ENGINE)).collect();
        assert_eq!(paths, ["wal/writer.rs:2", "get/mod.rs:1", "runs/near.rs:1", "novelty.rs"], "{found:?}");
        assert_eq!(found[0].1, "'wal' names 'get', which stands above it");
        assert!(found[3].1.contains("'novelty' has no place"));
    }
}
