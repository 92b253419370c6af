//! Each format on disk has a page and a fuzz target.
//!
//! The head of a module of `crates/format` names its page (`` Page: `docs/format/x.md` ``), the
//! page exists, and some fuzz target uses the module. The code of a target is the module of its
//! name in `crates/fuzz`.

use super::{SourceFile, Violation};

/// Directory of the decoders.
const FORMAT: &str = "crates/format/src/";
/// Directory of the fuzz targets' code.
const FUZZ: &str = "crates/fuzz/src/";
/// Directory of the decoders' pages.
const PAGES: &str = "docs/format/";

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let names: Vec<&str> = files.iter().filter_map(|f| fuzz_target(&f.path)).collect();
    let is_target = |path: &str| {
        path.strip_prefix(FUZZ).and_then(|p| p.strip_suffix(".rs")).is_some_and(|n| names.contains(&n))
    };
    let targets: String = files.iter().filter(|f| is_target(&f.path)).map(|f| f.text.as_str()).collect();
    for file in files {
        let Some(module) = file.path.strip_prefix(FORMAT).and_then(|p| p.strip_suffix(".rs")) else {
            continue;
        };
        if module.contains('/') || module == "lib" {
            continue;
        }
        let mut complain =
            |rule, message: String| violations.push(Violation { rule, path: file.path.clone(), message });
        match page(&file.text) {
            None => complain("page", format!("its head names no page: Page: `{PAGES}….md`")),
            Some(page) if !files.iter().any(|f| f.path == page) => {
                complain("page", format!("{page} is missing"))
            }
            Some(_) => {}
        }
        if !targets.contains(&format!("{module}::")) {
            complain("fuzz", format!("no fuzz target uses esker_format::{module}"));
        }
    }
    violations
}

/// The first page that the head of a module names.
fn page(text: &str) -> Option<&str> {
    let head_end = text.lines().take_while(|l| l.starts_with("//!")).map(|l| l.len() + 1).sum::<usize>();
    let head = &text[..head_end.min(text.len())];
    let at = head.find(PAGES)?;
    let end = head[at..].find(".md")? + ".md".len();
    Some(&head[at..at + end])
}

/// The name of the fuzz target whose code is in this file.
pub(super) fn fuzz_target(path: &str) -> Option<&str> {
    let name = path.strip_prefix("fuzz/fuzz_targets/")?.strip_suffix(".rs")?;
    (!name.contains('/')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn missing_pages_and_targets_are_found() {
        let files = [
            source("crates/format/src/lib.rs", ""),
            source("crates/format/src/good.rs", "//! x\n//! Page: `docs/format/good.md`.\nmod a;"),
            source("crates/format/src/good/inner.rs", ""),
            source("crates/format/src/late.rs", "//! x\nmod a; // docs/format/good.md"),
            source("crates/format/src/lost.rs", "//! Page: `docs/format/lost.md`."),
            source("docs/format/good.md", ""),
            source("fuzz/fuzz_targets/good.rs", ""),
            source("crates/fuzz/src/good.rs", "use esker_format::good::X;"),
            source("crates/fuzz/src/none.rs", "use esker_format::late::X;"),
        ];
        let found: Vec<_> = check(&files).into_iter().map(|v| (v.path, v.rule)).collect();
        let expected = [("late", "page"), ("late", "fuzz"), ("lost", "page"), ("lost", "fuzz")];
        let expected: Vec<_> =
            expected.iter().map(|(m, r)| (format!("crates/format/src/{m}.rs"), *r)).collect();
        assert_eq!(found, expected);
    }
}
