//! Rules about the text of files: their length, paths of some machine, items used outside their
//! home.

use super::{SourceFile, Violation};

/// Largest number of lines of a Rust file that needs no exception.
const MAX_LINES: usize = 800;

/// Beginnings of paths that exist on some machine only. Each is written in two pieces, so that this
/// file obeys its own rule.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Texts that may occur only in some places: the text, its places, and its substitute elsewhere.
const HOMES: &[(&str, &[&str], &str)] = &[
    (
        concat!("parking", "_lot::"),
        &["crates/base/src/sync"],
        "locks come from esker_base::sync, so that model checkers can drive them",
    ),
    (
        concat!("std::sync::", "atomic"),
        &[
            "crates/base/src/sync",
            "crates/capi/",
            "crates/python/",
            "crates/rocksdbjni/",
            "crates/testkit/",
            "xtask/",
            "fuzz/",
        ],
        "atomics come from esker_base::sync, so that model checkers can drive them",
    ),
    (
        concat!("std::sync::", "Mutex"),
        &["crates/base/src/sync", "crates/python/", "crates/testkit/", "xtask/", "fuzz/"],
        "locks come from esker_base::sync, so that model checkers can drive them",
    ),
];

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in files {
        let mut complain = |rule, line: Option<usize>, message: String| {
            let path = line.map_or(file.path.clone(), |line| format!("{}:{line}", file.path));
            violations.push(Violation { rule, path, message });
        };
        let is_rust = file.path.ends_with(".rs");
        let lines = file.text.lines().count();
        if is_rust && lines > MAX_LINES {
            complain(
                "size",
                None,
                format!("{lines} lines: cut it where the data changes form, or say why not"),
            );
        }
        if is_test_binary(&file.path) {
            complain(
                "test-binary",
                None,
                "integration tests are one binary for each crate: tests/it".to_owned(),
            );
        }
        for (index, line) in file.text.lines().enumerate() {
            if let Some(path) = MACHINE_PATHS.iter().find(|p| names_path(line, p)) {
                complain("machine-path", Some(index + 1), format!("'{path}' is a path of one machine"));
            }
            if !is_rust || is_test(&file.path) {
                continue;
            }
            let code = line.split("//").next().unwrap_or_default();
            for (text, homes, instead) in HOMES {
                if code.contains(text) && !homes.iter().any(|home| file.path.starts_with(home)) {
                    complain("home", Some(index + 1), format!("{text}: {instead}"));
                }
            }
        }
    }
    violations
}

/// Whether `line` has a path that begins with `path`. In `a/work/b` the path is in the middle.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path)
        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-".contains(c)))
}

/// Whether a file is a test or an example, which may use any item.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/") || path.contains("/examples/")
}

/// Whether a file is `crates/x/tests/y.rs`, from which Cargo builds a binary of its own.
fn is_test_binary(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts.as_slice(), ["crates", _, "tests", file] if file.ends_with(".rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        check(&[SourceFile { path: path.to_owned(), text: text.to_owned() }]).iter().map(|v| v.rule).collect()
    }

    #[test]
    fn each_rule_finds_its_violation() {
        assert_eq!(rules("crates/a/src/b.rs", &"x\n".repeat(MAX_LINES + 1)), ["size"]);
        assert_eq!(rules("docs/a.md", &"x\n".repeat(MAX_LINES + 1)), [""; 0]);
        let path = concat!("see /ho", "me/me/x");
        assert_eq!(rules("docs/a.md", path), ["machine-path"]);
        assert_eq!(rules("docs/a.md", concat!("see a/ho", "me/me/x")), [""; 0]);
        let lock = concat!("use parking", "_lot::Mutex;");
        assert_eq!(rules("crates/esker/src/a.rs", lock), ["home"]);
        assert_eq!(rules("crates/base/src/sync.rs", lock), [""; 0]);
        assert_eq!(rules("crates/esker/src/a/tests.rs", lock), [""; 0]);
        assert_eq!(rules("crates/esker/src/a.rs", &format!("// {lock}")), [""; 0]);
        assert_eq!(rules("crates/a/tests/more.rs", ""), ["test-binary"]);
        assert_eq!(rules("crates/a/tests/it/main.rs", ""), [""; 0]);
    }
}
