//! Checks pages: each link has a target, and each path of a source file leads to a file.
//!
//! In: all pages, all sources, and whether a path exists. Out: a violation for each relative link
//! to a missing file, each link to a missing heading, and each path of a missing Rust file. Further
//! violations: a page of the guide that its summary omits, an example that the cookbook omits, a
//! page that exceeds its limit. Pages may write paths without `crates/` and `src/`, as
//! `ARCHITECTURE.md` does. Links and paths of the change log are not checked, since it may name
//! files that are gone.

use super::{SourceFile, Violation};

const RULE: &str = "pages";
const FENCE: &str = "```";
const CHANGE_LOG: &str = "CHANGELOG.md";
const GUIDE: &str = "docs/guide/src/";
const SUMMARY: &str = "docs/guide/src/SUMMARY.md";
const EXAMPLES: &str = "crates/esker/examples/";
const COOKBOOK: &str = "docs/guide/src/cookbook.md";
/// Pages that would otherwise become diaries, and the number of lines that each may have.
const LIMITS: [(&str, usize); 3] = [(CHANGE_LOG, 40), ("docs/performance.md", 150), ("docs/testing.md", 200)];

pub(super) fn check(files: &[SourceFile], exists: &dyn Fn(&str) -> bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    for page in files.iter().filter(|file| file.path.ends_with(".md") && file.path != CHANGE_LOG) {
        let mut complain =
            |message: String| violations.push(Violation { rule: RULE, path: page.path.clone(), message });
        for link in links(&page.text) {
            let (target, heading) = link.split_once('#').unwrap_or((link, ""));
            let path = if target.is_empty() { page.path.clone() } else { resolve(&page.path, target) };
            if !exists(&path) {
                complain(format!("the link '{link}' leads to no file"));
            } else if let Some(file) = files.iter().find(|file| file.path == path)
                && !heading.is_empty()
                && !headings(&file.text).any(|found| found == heading)
            {
                complain(format!("the link '{link}' leads to no heading of {path}"));
            }
        }
        for path in paths(&page.text).filter(|path| !files.iter().any(|file| is_named(&file.path, path))) {
            complain(format!("'{path}' is no file of the source"));
        }
    }
    violations.extend(unlisted(files, SUMMARY, GUIDE, |name| format!("]({name})")));
    violations
        .extend(unlisted(files, COOKBOOK, EXAMPLES, |name| format!("`{}`", name.trim_end_matches(".rs"))));
    violations.extend(files.iter().filter_map(overlong));
    violations
}

/// A violation if `file` is a page that is longer than its limit.
fn overlong(file: &SourceFile) -> Option<Violation> {
    let (path, limit) = LIMITS.iter().find(|(path, _)| *path == file.path)?;
    let lines = file.text.lines().count();
    let message = || format!("it has {lines} lines; at most {limit} are allowed");
    (lines > *limit).then(|| Violation { rule: RULE, path: (*path).to_owned(), message: message() })
}

/// Files of `folder` that the page `list` omits. `entry` makes the entry that the page has for a
/// file.
fn unlisted(files: &[SourceFile], list: &str, folder: &str, entry: fn(&str) -> String) -> Vec<Violation> {
    let Some(page) = files.iter().find(|file| file.path == list) else { return Vec::new() };
    let names =
        files.iter().filter(|file| file.path != list).filter_map(|file| file.path.strip_prefix(folder));
    names
        .filter(|name| !name.contains('/') && !page.text.contains(&entry(name)))
        .map(|name| Violation { rule: RULE, path: list.to_owned(), message: format!("it leaves {name} out") })
        .collect()
}

/// Targets of relative links, outside of code blocks.
fn links(text: &str) -> impl Iterator<Item = &str> {
    prose(text).flat_map(|line| line.split("](").skip(1)).filter_map(|behind| {
        let (link, _) = behind.split_once(')')?;
        (!link.contains("://") && !link.is_empty()).then_some(link)
    })
}

/// Lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    text.split(FENCE).step_by(2).flat_map(str::lines)
}

/// The path of `target`, a link in `page`, from the root of the tree.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of all headings, in GitHub's form.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = prose(text).filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#'));
    titles.map(|title| {
        let title = title.trim().to_lowercase().replace(' ', "-");
        title.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect()
    })
}

/// Paths of Rust files. A word with a capital is a placeholder.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    text.split(move |c| !is_path(c)).filter(|word| {
        word.ends_with(".rs") && word.contains('/') && !word.contains(|c: char| c.is_ascii_uppercase())
    })
}

/// Whether `path` names `file`, with `crates/` and `src/` or without.
fn is_named(file: &str, path: &str) -> bool {
    let is_end =
        |file: &str| file.strip_suffix(path).is_some_and(|head| head.is_empty() || head.ends_with('/'));
    is_end(file) || is_end(&file.replacen("/src/", "/", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(page: &str) -> Vec<String> {
        let source = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let files = [
            source("docs/page.md", page),
            source("docs/other.md", "# The other\n\n## Two words: `a`\n"),
            source("crates/x/src/db/open.rs", ""),
        ];
        let exists = |path: &str| files.iter().any(|file| file.path == path) || path == "docs";
        check(&files, &exists).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn links_and_paths_of_pages_lead_to_files() {
        let good = "# A\n[a](other.md#two-words-a), [b](../docs/other.md), [c](#a), [d](https://e.org), [e](../docs)\n\
                    `x/db/open.rs`, crates/x/src/db/open.rs, `MODULE/tests.rs`\n```\n[f](lost.md)\n```\n";
        assert_eq!(complaints(good), Vec::<String>::new());
        let red = |from: &str, to: &str| complaints(&good.replace(from, to));
        assert_eq!(red("(other.md#", "(others.md#"), ["the link 'others.md#two-words-a' leads to no file"]);
        assert!(red("two-words-a)", "three-words)")[0].contains("no heading of docs/other.md"));
        assert_eq!(red("`x/db/open.rs`", "`x/db/close.rs`"), ["'x/db/close.rs' is no file of the source"]);
    }

    #[test]
    fn pages_with_a_limit_are_not_longer() {
        let complaints = |lines: usize| {
            let files = [SourceFile { path: CHANGE_LOG.to_owned(), text: "* A line.\n".repeat(lines) }];
            check(&files, &|_| true).into_iter().map(|violation| violation.message).collect::<Vec<_>>()
        };
        assert_eq!(complaints(40), Vec::<String>::new());
        assert_eq!(complaints(41), ["it has 41 lines; at most 40 are allowed"]);
    }

    #[test]
    fn the_guide_lists_its_pages_and_the_examples() {
        let source = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let complaints = |summary: &str, cookbook: &str| {
            let files = [
                source(SUMMARY, summary),
                source(COOKBOOK, cookbook),
                source("crates/esker/examples/hello.rs", ""),
            ];
            check(&files, &|_| true).into_iter().map(|violation| violation.message).collect::<Vec<_>>()
        };
        assert_eq!(complaints("[Cookbook](cookbook.md)", "| `hello` |"), Vec::<String>::new());
        assert_eq!(
            complaints("none", "| `hallo` |"),
            ["it leaves cookbook.md out", "it leaves hello.rs out"]
        );
    }
}
