//! A terminal for `ldb query`: a prompt, a history of the session, completion of commands.
//!
//! In: keys of a user. Out: lines. Standard input that is no terminal has none: its lines are
//! commands as they are.

use super::query::WORDS;
use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};
use std::io::IsTerminal;

const PROMPT: &str = "ldb> ";

/// Completes the first word of a line.
struct Commands;

impl Helper for Commands {}
impl Highlighter for Commands {}
impl Validator for Commands {}
impl Hinter for Commands {
    type Hint = String;
}

impl Completer for Commands {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((0, completions(line.get(..at).unwrap_or_default())))
    }
}

/// The commands that begin with `start`.
fn completions(start: &str) -> Vec<String> {
    WORDS.iter().filter(|word| word.starts_with(start)).map(|word| format!("{word} ")).collect()
}

/// A terminal with a history.
pub(super) struct Terminal(Editor<Commands, MemHistory>);

/// The terminal of this process; `None` if `host` or standard input is none.
/// # Errors
/// Those of the terminal.
pub(super) fn terminal(host: &Host) -> CommandOutcome<Option<Terminal>> {
    if !host.is_machine() || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Ok(None);
    }
    let config = Config::builder().auto_add_history(true).build();
    let mut editor = Editor::with_history(config, MemHistory::new()).map_err(Failure::new)?;
    editor.set_helper(Some(Commands));
    Ok(Some(Terminal(editor)))
}

impl Terminal {
    /// Calls `run` with each line until the user ends the input. Ctrl-C drops a line.
    /// # Errors
    /// Those of the terminal and of `run`.
    pub(super) fn each_line(&mut self, run: &mut dyn FnMut(&str) -> CommandOutcome) -> CommandOutcome {
        loop {
            match self.0.readline(PROMPT) {
                Ok(line) => run(&line)?,
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(()),
                Err(e) => return Err(Failure::new(e)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_word_is_completed() {
        assert_eq!(completions("g"), ["get "]);
        assert_eq!(completions("").len(), WORDS.len());
        assert!(completions("get k").is_empty());
    }
}
