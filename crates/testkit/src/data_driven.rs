//! Tests in text files. A case has a command, its input, and the expected output.
//!
//! ```text
//! # a comment
//! command arg key=value key=(a b c)
//! input line
//! ----
//! output line
//! ```
//!
//! A case ends at an empty line. Output that has empty lines, or begins with a line `----`, begins
//! and ends with two lines `----`. `REWRITE=1` writes the actual output into the file. Comments and
//! inputs stay.

use std::fmt::Write;
use std::path::Path;

const SEPARATOR: &str = "----";

/// One command of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Case {
    /// The first word of the first line.
    pub command: String,
    /// The other words of the first line, in order: each key with its values. A word without `=`
    /// has no values.
    pub args: Vec<(String, Vec<String>)>,
    /// The lines between the command and the separator, joined by line ends. The last line has no
    /// line end.
    pub input: String,
    /// File and line of the command, for messages.
    pub place: String,
}

impl Case {
    /// The values of `key`: `key=v` has one, `key=(a b)` several, `key` alone none. `None` if the
    /// command does not have `key`.
    pub fn arg(&self, key: &str) -> Option<&[String]> {
        self.args.iter().find(|(k, _)| k == key).map(|(_, values)| values.as_slice())
    }

    /// Whether the command has `key`, with or without values.
    pub fn has(&self, key: &str) -> bool {
        self.arg(key).is_some()
    }

    /// The value of `key` as a `T`.
    /// # Panics
    /// If the value is not a `T`.
    pub fn value<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        let text = self.arg(key)?.first()?;
        Some(text.parse().unwrap_or_else(|_| panic!("{}: {key}={text} cannot be read", self.place)))
    }

    /// The lines of the input.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.input.lines()
    }
}

/// A piece of a file: text between cases, or a case with its expected output.
enum Part {
    Text(String),
    Case { head: String, case: Case, expected: String },
}

/// Runs every case of the file at `path`, and compares outputs. If `REWRITE` is set, writes the
/// actual outputs into the file instead.
/// # Panics
/// On the first case whose output differs. The message shows both outputs. Also if the file is
/// malformed, or cannot be read or written.
#[expect(
    clippy::disallowed_methods,
    reason = "the testkit depends on no crate of ours, so not on env either"
)]
pub fn run_file(path: impl AsRef<Path>, mut run: impl FnMut(&Case) -> String) {
    let path = path.as_ref();
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let rewrite = std::env::var_os("REWRITE").is_some();
    let rewritten = run_text(&name, &text, rewrite, &mut run);
    if rewrite && rewritten != text {
        std::fs::write(path, rewritten).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

/// Runs every `.txt` file in `dir`, in the order of their names.
/// # Panics
/// For the reasons of [`run_file`], and if `dir` has no `.txt` file.
pub fn run_dir(dir: impl AsRef<Path>, mut run: impl FnMut(&Path, &Case) -> String) {
    let dir = dir.as_ref();
    let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut paths: Vec<_> = entries.map(|e| e.expect("a directory can be listed").path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "txt"));
    paths.sort();
    assert!(!paths.is_empty(), "{}: no .txt file to run", dir.display());
    for path in paths {
        run_file(&path, |case| run(&path, case));
    }
}

/// Runs the cases of `text` and returns the text with the actual outputs.
fn run_text(name: &str, text: &str, rewrite: bool, run: &mut impl FnMut(&Case) -> String) -> String {
    let mut out = String::new();
    for part in parse(name, text) {
        match part {
            Part::Text(text) => out.push_str(&text),
            Part::Case { head, case, expected } => {
                let mut actual = run(&case);
                if !actual.is_empty() && !actual.ends_with('\n') {
                    actual.push('\n');
                }
                assert!(
                    rewrite || actual == expected,
                    "{}: {}\n--- expected\n{expected}--- got\n{actual}---\n(REWRITE=1 accepts the new output)",
                    case.place,
                    case.command
                );
                out.push_str(&head);
                out.push_str(&print_output(&actual));
            }
        }
    }
    out
}

fn print_output(output: &str) -> String {
    let is_cut_short =
        output.lines().next() == Some(SEPARATOR) || output.lines().any(|line| line.trim().is_empty());
    if is_cut_short {
        format!("{SEPARATOR}\n{SEPARATOR}\n{output}{SEPARATOR}\n{SEPARATOR}\n")
    } else {
        format!("{SEPARATOR}\n{output}")
    }
}

fn parse(name: &str, text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            parts.push(Part::Text(format!("{line}\n")));
            continue;
        }
        let place = format!("{name}:{}", index + 1);
        let mut case = parse_command(line, place);
        let mut head = format!("{line}\n");
        let mut input = Vec::new();
        loop {
            let (_, line) = lines.next().unwrap_or_else(|| panic!("{}: no '{SEPARATOR}'", case.place));
            if line == SEPARATOR {
                break;
            }
            writeln!(head, "{line}").expect("writing to a String cannot fail");
            input.push(line);
        }
        case.input = input.join("\n");
        let has_blank_lines = lines.next_if(|(_, line)| *line == SEPARATOR).is_some();
        let expected = parse_output(&mut lines, has_blank_lines, &case.place);
        parts.push(Part::Case { head, case, expected });
    }
    parts
}

fn parse_output<'a>(
    lines: &mut std::iter::Peekable<impl Iterator<Item = (usize, &'a str)>>,
    has_blank_lines: bool,
    place: &str,
) -> String {
    let mut output = String::new();
    if !has_blank_lines {
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.trim().is_empty()) {
            output.push_str(line);
            output.push('\n');
        }
        return output;
    }
    loop {
        let (_, line) = lines.next().unwrap_or_else(|| panic!("{place}: output has no end"));
        if line == SEPARATOR && lines.next_if(|(_, next)| *next == SEPARATOR).is_some() {
            return output;
        }
        output.push_str(line);
        output.push('\n');
    }
}

/// Parses a line such as `command word key=value key=(a b c)`.
fn parse_command(line: &str, place: String) -> Case {
    let (command, mut rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    let mut args = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Case { command: command.to_owned(), args, input: String::new(), place };
        }
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (key, behind) = rest.split_at(end);
        let Some(value) = behind.strip_prefix('=') else {
            args.push((key.to_owned(), Vec::new()));
            rest = behind;
            continue;
        };
        if let Some(list) = value.strip_prefix('(') {
            let (list, behind) = list.split_once(')').unwrap_or_else(|| panic!("{place}: '(' without ')'"));
            args.push((key.to_owned(), list.split_whitespace().map(str::to_owned).collect()));
            rest = behind;
        } else {
            let end = value.find(char::is_whitespace).unwrap_or(value.len());
            let (value, behind) = value.split_at(end);
            args.push((key.to_owned(), vec![value.to_owned()]));
            rest = behind;
        }
    }
}

#[cfg(test)]
mod tests;
