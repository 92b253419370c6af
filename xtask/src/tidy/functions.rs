//! Names of functions, above all of tests: a test's name is a sentence with a noun as its subject.
//!
//! In: the sources. Out: functions whose names begin with a pronoun, or have a pronoun without a
//! person.

use super::parts::{TextPartKind, parts};
use super::{SourceFile, Violation};

/// Words with which no name begins. The prefixes `loom_` and `shuttle_`, which name a test's
/// runner, do not count.
const BEGINNINGS: &[&str] = &["what", "who", "whom", "whose", "those", "nobody", "somebody"];
/// Words that no name has.
const NOWHERE: &[&str] = &["whoever", "nobody", "somebody"];
/// Two words in a row that no name has.
const PAIRS: &[[&str; 2]] = &[["so", "many"], ["those", "who"], ["by", "who"], ["to", "who"], ["for", "who"]];

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in files {
        let code = parts(file).into_iter().filter(|part| part.kind == TextPartKind::Code);
        for (line, name) in code.filter_map(|part| Some((part.line, function(part.text)?))) {
            violations.extend(forbidden(name).map(|words| Violation {
                rule: "functions",
                path: format!("{}:{line}", file.path),
                message: format!("'{name}' has '{words}': name the subject by a noun and say what is true"),
            }));
        }
    }
    violations
}

/// The name of the function that the line defines.
fn function(line: &str) -> Option<&str> {
    let (before, behind) = line.split_once("fn ")?;
    let is_word = before.is_empty() || before.ends_with([' ', '(']);
    let end = behind.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(behind.len());
    (is_word && end > 0).then_some(&behind[..end])
}

/// The forbidden words of a name.
fn forbidden(name: &str) -> Option<String> {
    let words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
    let first = words.iter().find(|word| !["loom", "shuttle"].contains(word));
    let begins = first.filter(|word| BEGINNINGS.contains(word)).filter(|_| words.len() > 1);
    let has = words.iter().find(|word| NOWHERE.contains(word));
    let pair = words.windows(2).find(|pair| PAIRS.iter().any(|forbidden| forbidden == pair));
    begins.or(has).map(|word| (*word).to_owned()).or_else(|| pair.map(|pair| pair.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> Vec<String> {
        let files = [SourceFile { path: "crates/a/src/a.rs".to_owned(), text: text.to_owned() }];
        check(&files).into_iter().map(|violation| violation.path).collect()
    }

    #[test]
    fn names_that_begin_with_a_pronoun_or_have_one_are_found() {
        for name in [
            "what_is_held_stays",
            "loom_who_leads_is_alone",
            "shuttle_nobody_wakes",
            "those_before_it_stay",
            "a_write_of_somebody_else",
            "the_end_releases_whoever_waits",
            "it_fails_after_so_many_attempts",
            "a_key_is_passed_by_those_who_wait",
            "an_error_is_told_to_who_asks",
        ] {
            assert_eq!(
                complaints(&format!("\n#[test]\nfn {name}() {{}}\n")),
                ["crates/a/src/a.rs:3"],
                "{name}"
            );
            let in_trait = format!("trait A {{\n    pub(crate) async fn {name}<T>(&self);\n}}\n");
            assert_eq!(complaints(&in_trait), ["crates/a/src/a.rs:2"], "{name}");
        }
    }

    #[test]
    fn names_with_a_noun_comments_and_texts_pass() {
        for text in [
            "fn held_entries_stay() {}",
            "fn a_reader_finds_what_was_there() {}",
            "fn writers_who_wait_are_woken() {}",
            "fn whole_files_are_read() {}",
            "fn who() {}",
            "// fn what_is_held_stays() {}",
            "const TEXT: &str = \"fn what_is_held_stays() {}\";",
            "let what_is_held = often_what_else();",
        ] {
            assert!(complaints(text).is_empty(), "{text}");
        }
    }
}
