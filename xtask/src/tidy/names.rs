//! One name for one thing: a type that code outside its module can name has a unique name in the
//! workspace.
//!
//! In: the sources of all crates, without tests. Out: names that two modules export. Alternatives
//! behind `#[cfg]`, or in modules behind it, count as one definition.

use super::parts::{TextPartKind, parts};
use super::{SourceFile, Violation};
use std::collections::BTreeMap;

/// A type that has a visibility.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Definition {
    name: String,
    place: String,
    crate_name: String,
    is_conditional: bool,
}

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let conditional = conditional_modules(files);
    let mut all: BTreeMap<String, Vec<Definition>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_counted(&file.path)) {
        let is_conditional = conditional.contains(&file.path);
        for definition in definitions(file, is_conditional) {
            all.entry(definition.name.clone()).or_default().push(definition);
        }
    }
    let mut violations = Vec::new();
    for (name, mut definitions) in all {
        // Of alternatives in one crate only one is compiled.
        let alternative = definitions.iter().find(|d| d.is_conditional).map(|d| d.crate_name.clone());
        if let Some(crate_name) = alternative {
            let mut is_first = true;
            definitions.retain(|d| d.crate_name != crate_name || std::mem::take(&mut is_first));
        }
        let Some((first, others)) = definitions.split_first() else { continue };
        violations.extend(others.iter().map(|other| Violation {
            rule: "names",
            path: other.place.clone(),
            message: format!("'{name}' is a type of {} too: give one of them another name", first.place),
        }));
    }
    violations
}

/// Sources that are compiled into a crate, without its tests.
fn is_counted(path: &str) -> bool {
    let is_source = path.starts_with("crates/") && path.contains("/src/") || path.starts_with("xtask/src/");
    let is_test = path.ends_with("/tests.rs") || path.contains("/tests/") || path.ends_with("/models.rs");
    path.ends_with(".rs") && is_source && !is_test
}

/// Files of modules that are declared behind `#[cfg]`.
fn conditional_modules(files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| is_counted(&file.path)) {
        let mut has_cfg = false;
        for line in file.text.lines().map(str::trim) {
            let name = line.trim_end_matches(';').rsplit("mod ").next().unwrap_or_default();
            if has_cfg && line.ends_with(';') && line.contains("mod ") {
                let stem = file.path.trim_end_matches(".rs");
                let folder = stem.strip_suffix("/mod").or(stem.strip_suffix("/lib")).unwrap_or(stem);
                found.extend([format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")]);
            }
            has_cfg = line.starts_with("#[cfg(") || has_cfg && line.starts_with("#[");
        }
    }
    found
}

/// The types of a file that have a visibility. They are at the left margin or in the call of a
/// macro.
fn definitions(file: &SourceFile, is_conditional: bool) -> Vec<Definition> {
    let crate_name = file.path.split('/').nth(1).unwrap_or_default().to_owned();
    let mut found = Vec::new();
    let (mut has_cfg, mut inner) = (false, None);
    for part in parts(file).into_iter().filter(|part| part.kind == TextPartKind::Code) {
        let line = part.text.trim_start();
        let indent = part.text.len() - line.len();
        if inner.is_some_and(|end| indent <= end && line.starts_with('}')) {
            inner = None;
        }
        let declared = line.split_once("mod ").map(|(before, _)| before);
        let is_module = declared.is_some_and(|before| before.is_empty() || before.starts_with("pub"));
        if is_module && line.trim_end().ends_with('{') && inner.is_none() {
            inner = Some(indent);
        }
        let name = exported_type(line).filter(|_| inner.is_none());
        found.extend(name.map(|name| Definition {
            name: name.to_owned(),
            place: format!("{}:{}", file.path, part.line),
            crate_name: crate_name.clone(),
            is_conditional: is_conditional || has_cfg,
        }));
        has_cfg = line.starts_with("#[cfg(") || has_cfg && line.starts_with("#[");
    }
    found
}

/// The name of the type that the line defines, if it has a visibility.
fn exported_type(line: &str) -> Option<&str> {
    let behind = line.strip_prefix("pub")?;
    let behind = match behind.strip_prefix('(') {
        Some(inside) => inside.split_once(')')?.1,
        None => behind,
    };
    let behind = behind.strip_prefix(' ')?.trim_start_matches("unsafe ");
    let rest = ["struct ", "enum ", "trait ", "type ", "union "]
        .iter()
        .find_map(|kind| behind.strip_prefix(kind))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (end > 0).then_some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(files: &[(&str, &str)]) -> Vec<String> {
        let source =
            |&(path, text): &(&str, &str)| SourceFile { path: path.to_owned(), text: text.to_owned() };
        check(&files.iter().map(source).collect::<Vec<_>>()).into_iter().map(|v| v.path).collect()
    }

    #[test]
    fn a_name_that_two_modules_export_is_found() {
        for (a, b) in [
            ("pub struct Run;", "pub(crate) enum Run {}"),
            ("pub(super) type Run = u8;", "pub trait Run {}"),
            ("options! {\n    pub struct Run {}\n}", "pub(in crate::db) union Run {}"),
        ] {
            let found = broken(&[("crates/a/src/x.rs", a), ("crates/b/src/y/z.rs", b)]);
            assert_eq!(found, ["crates/b/src/y/z.rs:1"], "{a} and {b}");
        }
        let same_crate = [("crates/a/src/x.rs", "pub struct Run;"), ("crates/a/src/y.rs", "pub struct Run;")];
        assert_eq!(broken(&same_crate), ["crates/a/src/y.rs:1"]);
    }

    #[test]
    fn private_types_tests_alternatives_and_comments_pass() {
        let first = ("crates/a/src/x.rs", "pub struct Run;");
        for second in [
            ("crates/b/src/y.rs", "struct Run;"),
            ("crates/b/src/y.rs", "// pub struct Run;\nconst A: &str = \"\npub struct Run;\";"),
            ("crates/b/src/y/tests.rs", "pub struct Run;"),
            ("crates/b/tests/it/y.rs", "pub struct Run;"),
            ("crates/a/src/y.rs", "#[cfg(loom)]\npub struct Run;"),
            ("crates/b/src/y.rs", "mod seal {\n    pub struct Run;\n}"),
            ("crates/b/src/y.rs", "pub(crate) mod seal {\n    pub trait Run {}\n}"),
        ] {
            assert!(broken(&[first, second]).is_empty(), "{second:?}");
        }
        let module = ("crates/a/src/lib.rs", "#[cfg(loom)]\nmod model;\n");
        assert!(broken(&[module, first, ("crates/a/src/model.rs", "pub struct Run;")]).is_empty());
    }
}
