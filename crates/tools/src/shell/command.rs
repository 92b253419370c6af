//! Runs a command by its name.
//!
//! In: words. Out: the call of a method of [`DbShell`], or a usage.

use super::Out;
use super::database::DbShell;
use super::help;
use super::print::RowForm;
use super::words::ShellWord;
use crate::failure::{CommandOutcome, Failure};
use clap::ValueEnum;
use std::io::Write;

/// The command cannot be read: its arguments are wrong.
pub(super) fn wrong_arguments(name: &str) -> Failure {
    let usage =
        help::find(name).map_or(String::new(), |command| format!("{} {}", command.name, command.arguments));
    Failure::new(format_args!("usage: {}", usage.trim_end()))
}

/// There is no such command; names a similar one.
fn unknown(name: &str) -> Failure {
    let similar = help::COMMANDS.iter().map(|command| command.name).min_by_key(|other| distance(name, other));
    let advice = match similar {
        Some(similar) if distance(name, similar) <= 2 => format!("did you mean {similar}?"),
        _ => "help lists the commands".to_owned(),
    };
    let name = name.escape_debug();
    Failure::new(format_args!("there is no command '{name}'; {advice}"))
}

/// Characters to insert, delete or replace between two words.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let cost = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], cost);
        }
    }
    row[b.len()]
}

/// The command that the words call.
fn command_of(words: &[ShellWord]) -> Option<&'static help::ShellCommand> {
    let name = words.first()?.text();
    help::find(&name).or_else(|| help::find(&name.to_ascii_lowercase()))
}

/// Whether the command chooses where later commands write: the family, or a transaction.
pub(super) fn chooses_place(words: &[ShellWord]) -> bool {
    command_of(words).is_some_and(|command| matches!(command.name, "use" | "begin"))
}

/// The same for a line that cannot be read: whether it may hold such a command.
pub(super) fn may_choose_place(line: &[u8]) -> bool {
    let mut words = line.split(|byte| byte.is_ascii_whitespace() || *byte == b';');
    words.any(|word| word.eq_ignore_ascii_case(b"use") || word.eq_ignore_ascii_case(b"begin"))
}

/// Whether the command shows the state of the database.
pub(super) fn reads_database(words: &[ShellWord]) -> bool {
    command_of(words).is_some_and(|command| {
        matches!(
            command.name,
            "get"
                | "multi_get"
                | "scan"
                | "more"
                | "count"
                | "explain"
                | "families"
                | "use"
                | "snapshot"
                | "stats"
                | "property"
        )
    })
}

impl DbShell<'_> {
    /// Runs one command.
    pub(super) fn run_command(&mut self, words: &[ShellWord], out: &mut Out) -> CommandOutcome {
        let Some((name, arguments)) = words.split_first() else { return Ok(()) };
        let name = name.text();
        let command = command_of(words).ok_or_else(|| unknown(&name))?;
        let bytes: Vec<&[u8]> = arguments.iter().map(|word| word.bytes.as_slice()).collect();
        match (command.name, bytes.as_slice()) {
            ("get", [key]) => self.get(key, out),
            ("multi_get", [_, ..]) => self.multi_get(&bytes, out),
            ("put", [key, value]) => self.put(key, value, out),
            ("delete", [key]) => self.delete(key, out),
            ("delete_range", [begin, end]) => self.delete_range(begin, end, out),
            ("merge", [key, operand]) => self.merge(key, operand, out),
            ("scan", _) => self.scan(&bytes, out),
            ("more", _) => self.more(&bytes, out),
            ("count", _) => self.count(&bytes, out),
            ("explain", [read, rest @ ..]) => self.explain(read, rest, out),
            ("compact", _) => self.compact(&bytes, out),
            (name, _) => {
                let texts: Vec<String> = arguments.iter().map(ShellWord::text).collect();
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                self.run_named(name, &texts, out)
            }
        }
    }

    /// Runs a command whose arguments are names and numbers.
    fn run_named(&mut self, name: &str, arguments: &[&str], out: &mut Out) -> CommandOutcome {
        match (name, arguments) {
            ("families", []) => self.list_families(out),
            ("use", [name]) => self.use_family(name),
            ("create_family", [name]) => self.create_family(name, out),
            ("drop_family", [name]) => self.drop_family(name, false, out),
            ("drop_family", [name, "force"]) => self.drop_family(name, true, out),
            ("begin", [] | ["pessimistic"]) => self.begin(false, out),
            ("begin", ["optimistic"]) => self.begin(true, out),
            ("commit", []) => self.commit(out),
            ("rollback", []) => self.roll_back(out),
            ("savepoint", [] | [_]) => self.set_savepoint(arguments.first().copied(), out),
            ("rollback_to", [] | [_]) => self.roll_back_to(arguments.first().copied(), out),
            ("locks", []) => self.list_locks(out),
            ("snapshot", ["take"]) => self.take_snapshot(out),
            ("snapshot", [] | ["list"]) => self.list_snapshots(out),
            ("snapshot", ["use", number]) => self.use_snapshot(number),
            ("snapshot", ["release", number]) => self.release_snapshot(number, out),
            ("stats", []) => self.print_property("stats", out),
            ("property", [name]) => self.print_property(name, out),
            ("property", []) => self.list_properties(out),
            ("options", [] | [_]) => self.print_options(arguments.first().copied(), out),
            ("flush", []) => self.flush(out),
            ("help", []) => Ok(out.write_all(help::list().as_bytes())?),
            ("help", [name]) => {
                let command = help::find(name).ok_or_else(|| unknown(name))?;
                Ok(out.write_all(help::of(command).as_bytes())?)
            }
            ("quit", []) => {
                self.is_over = true;
                Ok(())
            }
            _ => self.change_setting(name, arguments),
        }
    }

    fn change_setting(&mut self, name: &str, arguments: &[&str]) -> CommandOutcome {
        match (name, arguments) {
            (".mode", [form]) => {
                self.printer.form = RowForm::from_str(form, true).map_err(|_| wrong_arguments(name))?;
            }
            (".timer", ["on"]) => self.has_timer = true,
            (".timer", ["off"]) => self.has_timer = false,
            (".limit", ["off"]) => self.limit = None,
            (".limit", [rows]) => self.limit = Some(parse_rows(rows).ok_or_else(|| wrong_arguments(name))?),
            _ => return Err(wrong_arguments(name)),
        }
        Ok(())
    }
}

/// A number of rows, of at least one.
pub(super) fn parse_rows(text: &str) -> Option<u64> {
    text.parse().ok().filter(|rows| *rows > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_commands_are_named() {
        assert!(unknown("scna").to_string().contains("did you mean scan?"));
        assert!(unknown("select").to_string().contains("help lists"));
        assert_eq!((distance("", "abc"), distance("abc", "abc"), distance("kitten", "sitting")), (3, 0, 3));
    }
}
