//! Lines that a user types on a terminal, for `esker shell` and `ldb query`: a prompt, a history,
//! completion.
//!
//! In: keys of a user. Out: lines. Standard input that is no terminal has none: its lines are
//! commands as they are.

use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::PathBuf;

/// Lines that a history keeps.
const HISTORY_LINES: usize = 10_000;

/// The reason for which a line is dropped.
const FOREIGN_BYTE: &str =
    "Error: a byte was typed that is no UTF-8; the line up to it is dropped. \\xNN writes any byte";

/// Whether the terminal has sent bytes that are no text.
fn is_foreign_byte(error: &ReadlineError) -> bool {
    matches!(error, ReadlineError::Io(e) if e.kind() == ErrorKind::InvalidData)
}

/// Completes the first word of a line.
pub(crate) struct FirstWords(pub(crate) &'static [&'static str]);

impl Helper for FirstWords {}
impl Highlighter for FirstWords {}
impl Validator for FirstWords {}
impl Hinter for FirstWords {
    type Hint = String;
}

impl Completer for FirstWords {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((0, completions(self.0, line.get(..at).unwrap_or_default())))
    }
}

/// The words that begin with `start`.
fn completions(words: &[&str], start: &str) -> Vec<String> {
    words.iter().filter(|word| word.starts_with(start)).map(|word| format!("{word} ")).collect()
}

/// A terminal with a history.
pub(crate) struct Terminal<H: Helper> {
    editor: Editor<H, FileHistory>,
    /// The file that keeps the history for later sessions.
    history: Option<PathBuf>,
}

/// Whether standard input and output are terminals of this process.
pub(crate) fn is_interactive(host: &Host) -> bool {
    host.is_machine() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

impl<H: Helper> Terminal<H> {
    /// The terminal of this process. A history that cannot be read is empty.
    /// # Errors
    /// Those of the terminal.
    pub(crate) fn open(helper: H, history: Option<PathBuf>) -> CommandOutcome<Terminal<H>> {
        let config = Config::builder()
            .max_history_size(HISTORY_LINES)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(Failure::new)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .auto_add_history(true)
            .build();
        let lines = FileHistory::with_config(&config);
        let mut editor = Editor::with_history(config, lines).map_err(Failure::new)?;
        editor.set_helper(Some(helper));
        if let Some(path) = &history {
            editor.load_history(path).ok();
        }
        Ok(Terminal { editor, history })
    }

    pub(crate) fn helper(&mut self) -> Option<&mut H> {
        self.editor.helper_mut()
    }

    /// The next line; `None` if the user ends the input. Ctrl-C drops a line, and so does a byte
    /// that is no UTF-8.
    /// # Errors
    /// Those of the terminal.
    pub(crate) fn line(&mut self, prompt: &str) -> CommandOutcome<Option<String>> {
        loop {
            match self.editor.readline(prompt) {
                Ok(line) => {
                    self.keep_history();
                    return Ok(Some(line));
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(e) if is_foreign_byte(&e) => {
                    writeln!(std::io::stderr(), "{FOREIGN_BYTE}")?;
                }
                Err(e) => return Err(Failure::new(e)),
            }
        }
    }

    /// Appends the line to the file. Without it, a history lives as long as the process.
    fn keep_history(&mut self) {
        if let Some(path) = &self.history
            && self.editor.append_history(path).is_err()
        {
            self.history = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_that_are_no_text_are_passed_over() {
        assert!(is_foreign_byte(&ReadlineError::from(ErrorKind::InvalidData)));
        assert!(!is_foreign_byte(&ReadlineError::from(ErrorKind::UnexpectedEof)));
        assert!(!is_foreign_byte(&ReadlineError::Eof));
    }

    #[test]
    fn only_the_first_word_is_completed() {
        const WORDS: [&str; 2] = ["get", "put"];
        assert_eq!(completions(&WORDS, "g"), ["get "]);
        assert_eq!(completions(&WORDS, "").len(), WORDS.len());
        assert!(completions(&WORDS, "get k").is_empty());
    }
}
