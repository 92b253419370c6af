//! The form of prose: width of lines, first words of sentences, subjects of commits.
//!
//! In: comments, pages, and the subjects of commits that are newer than the rules. Out: lines and
//! subjects that are too long, sentences that begin with a bare relative word, and SAFETY comments
//! without a fact.

use super::parts::{TextPartKind, parts};
use super::{SourceFile, Violation};
use std::path::Path;
use std::process::Command;

/// Largest width of a line in comments and pages, in columns.
const MAX_COLUMNS: usize = 100;
/// Largest length of a commit's subject, in characters.
const MAX_SUBJECT: usize = 72;
/// The commit after which subjects are checked.
const SUBJECTS_SINCE: &str = "4903a9415df7";

/// Words that may begin questions only: at the start of other sentences they hide the subject.
const STARTS: &[&str] = &["Who", "Whoever", "Whose", "Whom", "What", "Whatever", "How", "Which", "Why"];
/// Pairs of words that must not begin a sentence.
const PHRASES: &[[&str; 2]] = &[
    ["That", "which"],
    ["Those", "who"],
    ["So", "many"],
    ["So", "much"],
    ["As", "many"],
    ["Such", "is"],
    ["Such", "are"],
    ["Such", "as"],
    ["Such", "that"],
];

/// Beginnings of SAFETY comments that state no fact.
const VAGUE: &[&str] =
    &["as above", "as before", "as in", "as there", "see above", "that.", "the caller's.", "the same"];

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in files {
        let mut complain = |rule, line: usize, message: String| {
            violations.push(Violation { rule, path: format!("{}:{line}", file.path), message });
        };
        for (line, columns) in wide_lines(file) {
            complain("columns", line, format!("{columns} columns: fill the paragraph at {MAX_COLUMNS}"));
        }
        for (line, start) in bare_starts(file) {
            complain("sentences", line, format!("a sentence begins with '{start}': name its subject"));
        }
        for (line, start) in vague_safety(file) {
            complain("safety", line, format!("'{start}' is no fact: say what makes the operation sound"));
        }
    }
    violations
}

/// The lines of comments and pages that are too wide: number and width of each. Single words, rows
/// of tables and definitions of links are exempt, because they cannot be broken. Code in an example
/// may have the width of code.
fn wide_lines(file: &SourceFile) -> Vec<(usize, usize)> {
    let is_page = file.path.ends_with(".md");
    let (mut wide, mut fence) = (Vec::new(), None);
    for (index, line) in file.text.lines().enumerate() {
        let text = line.trim_start();
        let inside = text.trim_start_matches(['/', '!']).trim_start();
        let is_prose = is_page || file.path.ends_with(".rs") && text.starts_with("//");
        let is_fixed = inside.starts_with('|') || inside.starts_with('[') && inside.contains("]: ");
        fence = match (inside.strip_prefix("```"), fence) {
            (Some(language), None) => Some(!is_page && language != "text"),
            (None, open) if is_prose => open,
            _ => None,
        };
        let is_code = fence == Some(true);
        let is_fixed = is_fixed || is_code || !inside.contains(' ');
        let columns = line.chars().count();
        if is_prose && !is_fixed && columns > MAX_COLUMNS {
            wide.push((index + 1, columns));
        }
    }
    wide
}

/// The sentences that begin with a bare relative word: the line, and the word.
fn bare_starts(file: &SourceFile) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut paragraph: Vec<(usize, &str)> = Vec::new();
    let (mut last, mut is_code) = (0, false);
    for part in parts(file).into_iter().filter(|part| part.kind == TextPartKind::Comment) {
        let text = part.text.trim().trim_start_matches(['/', '!']).trim();
        let text = text.strip_prefix("* ").unwrap_or(text);
        if text.starts_with("```") {
            is_code = !is_code;
        }
        let is_item = text.starts_with(['-', '*', '+', '|', '#', '<', '`', '>'])
            || text.split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        if text.is_empty() || is_item || part.line > last + 1 {
            found.extend(starts_of(&paragraph));
            paragraph.clear();
        }
        last = part.line;
        let is_prose = !is_code && !text.starts_with(['|', '#', '`', '<']);
        if is_prose && !text.is_empty() {
            paragraph.push((part.line, text));
        }
    }
    found.extend(starts_of(&paragraph));
    found
}

/// SAFETY comments that point to another comment instead of stating a fact.
fn vague_safety(file: &SourceFile) -> Vec<(usize, &'static str)> {
    let facts = parts(file).into_iter().filter(|part| part.kind == TextPartKind::Comment);
    let facts = facts.filter_map(|part| Some((part.line, part.text.split_once("SAFETY: ")?.1)));
    facts.filter_map(|(line, fact)| Some((line, *VAGUE.iter().find(|v| fact.starts_with(**v))?))).collect()
}

fn starts_of(paragraph: &[(usize, &str)]) -> Vec<(usize, String)> {
    let words: Vec<(usize, &str)> =
        paragraph.iter().flat_map(|(line, text)| text.split_whitespace().map(|word| (*line, word))).collect();
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let ends = |word: &str| {
        let word = word.trim_end_matches([')', '*', '"', '_', '\'']);
        word.ends_with(['.', '?', '!']) && !word.ends_with("e.g.") && !word.ends_with("i.e.")
    };
    let mut found = Vec::new();
    let mut is_start = true;
    for (i, (line, word)) in words.iter().enumerate() {
        let is_number = word.trim_end_matches(['.', ')']).parse::<u32>().is_ok();
        if is_number || word.chars().all(|c| "-*+>".contains(c)) {
            continue;
        }
        if std::mem::replace(&mut is_start, ends(word)) {
            let first = bare(word);
            let second = words.get(i + 1).map_or(String::new(), |(_, next)| bare(next));
            let is_question = words[i..].iter().find(|(_, w)| ends(w)).is_some_and(|(_, w)| w.contains('?'));
            let is_phrase = PHRASES.iter().any(|[a, b]| first == *a && second == *b);
            if !is_question && (STARTS.contains(&first.as_str()) || is_phrase) {
                found.push((*line, if is_phrase { format!("{first} {second}") } else { first }));
            }
        }
    }
    found
}

/// Commits whose subjects are too long. Empty without a history, as in an archive or a shallow
/// clone.
pub(super) fn check_subjects(root: &Path) -> Vec<Violation> {
    let range = format!("{SUBJECTS_SINCE}..HEAD");
    match git(root, &["log", "--format=%h %s", &range]) {
        Some(log) => long_subjects(&log),
        None if git(root, &["rev-parse", "--is-shallow-repository"]).as_deref() == Some("false\n") => {
            let message = format!("there is no commit {SUBJECTS_SINCE}, from which on subjects are checked");
            vec![Violation { rule: "subjects", path: "xtask/src/tidy/prose.rs".to_owned(), message }]
        }
        None => Vec::new(),
    }
}

/// The output of a git command. `None` if the command fails, or if there is no git or no
/// repository.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn long_subjects(log: &str) -> Vec<Violation> {
    let subjects = log.lines().filter_map(|line| line.split_once(' '));
    let long =
        subjects.map(|(hash, subject)| (hash, subject.chars().count())).filter(|(_, n)| *n > MAX_SUBJECT);
    long.map(|(hash, columns)| Violation {
        rule: "subjects",
        path: format!("commit {hash}"),
        message: format!("the subject has {columns} characters, at most {MAX_SUBJECT} are shown"),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn starts(path: &str, text: &str) -> Vec<(usize, String)> {
        bare_starts(&source(path, text))
    }

    #[test]
    fn wide_lines_of_comments_and_pages_are_found() {
        let words = "word ".repeat(20);
        let wide = format!("    /// {words}\n");
        assert_eq!(wide_lines(&source("a.rs", &wide)).len(), 1);
        assert_eq!(wide_lines(&source("a.md", &format!("x\n{words}x\n"))), [(2, 101)]);
        for fixed in [format!("| {words} |"), format!("[x]: {words}")] {
            assert!(
                wide_lines(&source("a.md", &fixed)).is_empty()
                    && wide_lines(&source("a.rs", &format!("/// {fixed}"))).is_empty()
            );
        }
        assert!(wide_lines(&source("a.rs", &format!("let a = \"{words}{words}\";"))).is_empty());
        assert!(
            wide_lines(&source("a.md", &"é ".repeat(50))).is_empty(),
            "the width counts characters, not bytes"
        );
        let example =
            |fence: &str| source("a.rs", &format!("/// ```{fence}\n/// {words}\n/// ```\n/// {words}\n"));
        assert_eq!((wide_lines(&example("")).len(), wide_lines(&example("text")).len()), (1, 2));
    }

    #[test]
    fn sentences_without_a_noun_are_found_wherever_they_begin() {
        for start in STARTS.iter().map(|s| (*s).to_owned()).chain(PHRASES.iter().map(|p| p.join(" "))) {
            let sentence = format!("{start} comes first waits.");
            for text in [
                format!("/// {sentence}\n"),
                format!("// A line before. {sentence}\n"),
                format!("//! One.\n//!\n//!  1. {sentence}\n"),
                format!("// It ends\n// here. {sentence}\n"),
            ] {
                assert_eq!(starts("a.rs", &text).len(), 1, "{text}");
            }
            assert_eq!(starts("a.md", &format!("* {sentence}\n")).len(), 1);
        }
        assert_eq!(starts("a.rs", "// One\n// two. What is more,\n// three.\n"), [(2, "What".to_owned())]);
    }

    #[test]
    fn questions_tables_code_and_other_sentences_pass() {
        for text in [
            "// What comes first?\n",
            "/// | Who | What |\n",
            "/// ```\n/// Who();\n/// ```\n",
            "// A reader who waits. Whole files, as Whole says. That is which one.\n",
            "let a = \"Who waits.\";\n",
        ] {
            assert!(starts("a.rs", text).is_empty(), "{text}");
        }
        assert!(starts("a.md", "# What it is\n\n```text\nWho\n```\n").is_empty());
    }

    #[test]
    fn safety_comments_without_a_fact_are_found() {
        let text = "// SAFETY: as above.\n\n/// SAFETY: see above\n// SAFETY: the caller's promise.\n";
        assert_eq!(vague_safety(&source("a.rs", text)), [(1, "as above"), (3, "see above")]);
        assert!(vague_safety(&source("a.rs", "let a = \"SAFETY: as above\";\n")).is_empty());
    }

    #[test]
    fn long_subjects_are_found() {
        let log = format!("abc {}\ndef {}\n", "x".repeat(MAX_SUBJECT), "x".repeat(MAX_SUBJECT + 1));
        let found: Vec<_> = long_subjects(&log).into_iter().map(|v| v.path).collect();
        assert_eq!(found, ["commit def"]);
    }
}
