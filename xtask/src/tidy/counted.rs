//! Checks that `docs/compat/statistics.md` lists exactly the tickers and histograms that nothing
//! counts. So readers know which zeros mean "never counted".
//!
//! In: the enums of names, the sources of the crates without their test files, the page's section.
//! Out: names that are neither counted nor listed, listed names that are counted, and listed words
//! that are no names.

use super::{SourceFile, Violation};
use std::collections::BTreeSet;

const RULE: &str = "counted";
const PAGE: &str = "docs/compat/statistics.md";
const SECTION: &str = "\n## Never counted\n";
/// Each enum, and the file that has its names.
const ENUMS: [(&str, &str); 2] =
    [("Ticker", "crates/base/src/stats/ticker.rs"), ("Histogram", "crates/base/src/stats/histogram_kind.rs")];

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let text_of = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let Some(page) = text_of(PAGE) else { return Vec::new() };
    let section = page.split_once(SECTION).map_or("", |(_, behind)| behind);
    let section = section.split_once("\n#").map_or(section, |(section, _)| section);
    let mut listed: BTreeSet<&str> = section.split('`').skip(1).step_by(2).collect();
    let mut violations = Vec::new();
    let mut complain =
        |message: String| violations.push(Violation { rule: RULE, path: PAGE.to_owned(), message });
    for (kind, path) in ENUMS {
        let is_engine =
            |path: &str| path.starts_with("crates/") && path.contains("/src/") && !path.contains("/tests");
        let engine = files.iter().filter(|file| file.path.ends_with(".rs") && is_engine(&file.path));
        let used: BTreeSet<&str> = engine.flat_map(|file| variants_of(&file.text, kind)).collect();
        for (variant, name) in named(text_of(path).unwrap_or_default()) {
            let short = name.strip_prefix("rocksdb.").unwrap_or(name);
            match (used.contains(variant), listed.remove(short)) {
                (false, false) => {
                    complain(format!("{kind} `{short}` is counted nowhere: count it, or list it"))
                }
                (true, true) => {
                    complain(format!("{kind} `{short}` is counted: it is listed as if it were not"))
                }
                _ => {}
            }
        }
    }
    listed.into_iter().for_each(|name| complain(format!("`{name}` is no ticker and no histogram")));
    violations
}

/// Variants and their names.
fn named(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let (variant, name) = line.trim().split_once(" = \"")?;
        Some((variant, name.strip_suffix("\",")?))
    })
}

/// The variants that the source names.
fn variants_of<'t>(text: &'t str, kind: &str) -> impl Iterator<Item = &'t str> {
    let path = format!("{kind}::");
    let ends: Vec<&str> = text.split(path.as_str()).skip(1).collect();
    ends.into_iter()
        .map(|behind| behind.split(|c: char| !c.is_ascii_alphanumeric()).next().expect("a split has a part"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_and_listed_names_do_not_overlap() {
        let source = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let complaints = |page: &str| {
            let files = [
                source(PAGE, page),
                source(
                    ENUMS[0].1,
                    "enum Ticker {\n    Some = \"rocksdb.some\",\n    Other = \"rocksdb.other\",\n}",
                ),
                source("crates/x/src/lib.rs", "statistics.record_tick(Ticker::Some, 1);"),
                source("crates/x/src/tests.rs", "ticker_count(Ticker::Other)"),
            ];
            check(&files).into_iter().map(|violation| violation.message).collect::<Vec<_>>()
        };
        assert_eq!(complaints("text\n## Never counted\n`other`\n\n## Behind\n`x`"), Vec::<String>::new());
        assert!(complaints("text\n## Never counted\n\n")[0].contains("`other` is counted nowhere"));
        let wrong = complaints("text\n## Never counted\n`other`, `some`, `none`\n");
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }
}
