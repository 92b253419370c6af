//! Coined words for things that have a name in the field.
//!
//! In: the tree. Out: each identifier, comment, page and message that has one of them. The table of
//! terms is `docs/glossary.md`.

use super::parts::{TextPartKind, parts};
use super::{SourceFile, Violation};

const RULE: &str = "words";

/// The places in which a word is forbidden.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Identifiers and prose.
    All,
    /// Identifiers only; prose may use the word in its usual sense.
    Identifiers,
}
use Scope::{All, Identifiers};

/// The forbidden words: successive parts of an identifier or words of a sentence; the path below
/// which they are forbidden; the places; the field's term.
const REPLACED: &[(&[&str], &str, Scope, &str)] = &[
    (&["shade"], "", All, "range-deletion summary, cover span"),
    (&["shades"], "", All, "range-deletion summary, cover span"),
    (&["shaded"], "", All, "covered"),
    (&["dead", "range"], "", All, "deleted run"),
    (&["dead", "ranges"], "", All, "deleted runs"),
    (&["dead", "span"], "", All, "deleted run"),
    (&["dead", "spans"], "", All, "deleted runs"),
    (&["dead", "run"], "", All, "deleted run"),
    (&["dead", "runs"], "", All, "deleted runs"),
    (&["dead", "stretch"], "", All, "deleted run"),
    (&["dead", "stretches"], "", All, "deleted runs"),
    (&["dead", "edge"], "", All, "run end"),
    (&["dead", "walk"], "", All, "pre-scan"),
    (&["dead", "walks"], "", All, "pre-scans"),
    (&["run", "edge"], "", Identifiers, "run end"),
    (&["known", "edge"], "", Identifiers, "known end"),
    (&["edge"], "crates/memtable/", All, "run end"),
    (&["noted"], "crates/memtable/", All, "sampled"),
    (&["noted", "deletions"], "", All, "sampled deletions"),
    (&["hop"], "", All, "skip"),
    (&["hops"], "", All, "skips"),
    (&["hopped"], "", All, "skipped"),
    (&["hopping"], "", All, "skipping"),
    (&["parked"], "", All, "suspended (a read), detached (an iterator)"),
    (&["find", "on"], "", Identifiers, "resume_find"),
    (&["get", "on"], "", Identifiers, "resume_get"),
    (&["read", "on"], "", Identifiers, "resume_read"),
    (&["told", "ranges"], "", All, "planned ranges"),
    (&["prepared", "ranges"], "", All, "planned ranges"),
    (&["wave"], "", All, "readahead batch, batch"),
    (&["waves"], "", All, "readahead batches, batches"),
    (&["roof"], "", All, "charged cache, budget"),
    (&["limbo"], "", All, "deferred free"),
    (&["departed"], "", All, "evicted"),
    (&["weather"], "", All, "fault schedule"),
    (&["door"], "", All, "compatibility report, downgrade, public face"),
    (&["plant"], "", All, "mutant"),
    (&["plants"], "", All, "mutants"),
    (&["planted"], "", All, "mutated, inserted"),
    (&["party"], "", All, "peer process"),
    (&["parties"], "", All, "peer processes"),
    (&["turn"], "crates/peer/src/", All, "step"),
    (&["turns"], "crates/peer/src/", All, "steps"),
    (&["world"], "", Identifiers, "model operations, model"),
    (&["worlds"], "", Identifiers, "model operations, models"),
    (&["aside"], "", All, "quarantined (a table), suspended (a read)"),
    (&["moment"], "", All, "point in time, deadline or sequence number"),
    (&["moments"], "", All, "points in time"),
    (&["view"], "crates/esker/src/", All, "super version"),
    (&["views"], "crates/esker/src/", All, "super versions"),
];

/// Names that files on disk contain, so they cannot change.
const STORED: &[&str] = &["filter.esker.dead_spans"];

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in files {
        for part in parts(file) {
            for (words, _, _, term) in found(&file.path, part.kind, part.text) {
                let message = format!("'{}': say {term}", words.join(" "));
                violations.push(Violation {
                    rule: RULE,
                    path: format!("{}:{}", file.path, part.line),
                    message,
                });
            }
        }
    }
    violations
}

type Row = (&'static [&'static str], &'static str, Scope, &'static str);

/// The rows of the table that a piece violates, each once.
fn found(path: &str, kind: TextPartKind, text: &str) -> Vec<&'static Row> {
    let text = STORED.iter().fold(text.to_owned(), |text, name| text.replace(name, ""));
    let identifiers: Vec<Vec<String>> = identifiers(&text).into_iter().map(pieces).collect();
    // A literal of one word is a name or a value; a literal with a blank is a message.
    let is_prose = kind == TextPartKind::Comment || kind == TextPartKind::Text && text.trim().contains(' ');
    let sentence = if is_prose { identifiers.concat() } else { Vec::new() };
    let has = |line: &[String], words: &[&str]| line.windows(words.len()).any(|w| w == words);
    let breaks = |(words, below, scope, _): &&Row| {
        path.starts_with(below)
            && (has(&sentence, words) && *scope == All
                || kind != TextPartKind::Text && identifiers.iter().any(|i| is_name(i) && has(i, words))
                || kind == TextPartKind::Code && identifiers.iter().any(|i| has(i, words)))
    };
    REPLACED.iter().filter(breaks).collect()
}

/// Whether a word of a comment must be an identifier, because it has several parts.
fn is_name(pieces: &[String]) -> bool {
    pieces.len() > 1
}

/// The identifiers of a piece, without those of write batches, which may have views.
fn identifiers(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(start) = rest.find(|c: char| c.is_alphabetic() || c == '_') {
        before = rest[..start].chars().next_back().unwrap_or(before);
        let word = &rest[start..];
        let end = word.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(word.len());
        let (name, behind) = word.split_at(end);
        let is_of_batch =
            before == '.' && name == "view" && behind.starts_with("()") || name == "WriteBatchView";
        if !is_of_batch {
            found.push(name);
        }
        before = name.chars().next_back().unwrap_or(' ');
        rest = behind;
    }
    found
}

/// The parts of a name: `WriteBatch_view` gives write, batch, view.
fn pieces(name: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if c == '_' || c.is_uppercase() && was_lower {
            pieces.push(String::new());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        if c != '_' {
            pieces.last_mut().expect("the list of pieces is not empty").extend(c.to_lowercase());
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, text: &str) -> Vec<String> {
        let files = [SourceFile { path: path.to_owned(), text: text.to_owned() }];
        check(&files).into_iter().map(|v| v.message).collect()
    }

    #[test]
    fn replaced_words_are_found_in_names_comments_pages_and_messages() {
        for (words, below, scope, _) in REPLACED {
            let path = format!("{below}crates/esker/src/a.rs");
            let snake = words.join("_");
            assert!(!said(&path, &format!("fn a_{snake}_b() {{}}")).is_empty(), "{snake}");
            assert!(!said(&path, &format!("let x = {snake};")).is_empty(), "{snake}");
            let camel: String = words.iter().map(|w| w[..1].to_uppercase() + &w[1..]).collect();
            assert!(!said(&path, &format!("struct {camel}Of;")).is_empty(), "{camel}");
            let comment = format!("// There is a {} here.", words.join(" "));
            assert_eq!(said(&path, &comment).is_empty(), *scope == Identifiers, "{comment}");
            let message = format!("let x = \"there is a {} here\";", words.join(" "));
            assert_eq!(said(&path, &message).is_empty(), *scope == Identifiers, "{message}");
        }
        assert_eq!(said("docs/a.md", concat!("Behind the do", "or.")).len(), 1);
    }

    #[test]
    fn other_words_names_and_what_is_stored_pass() {
        for text in [
            "let window = outdoors + reviewed + momentum;",
            "// The outside world; a viewpoint, it turned.",
            "let batch: WriteBatchView<'_> = update.view();",
            "const NAME: &str = \"filter.esker.dead_spans\"; // `filter.esker.dead_spans`",
            concat!("let old = [\"do", "or\", \"rocksdb.num-tables-set-as", "ide\"];"),
        ] {
            let found = said("crates/esker/src/a.rs", text);
            assert!(found.is_empty(), "{text}: {found:?}");
        }
        assert!(said("crates/table/src/a.rs", "let view = 1; // A view.").is_empty());
    }
}
