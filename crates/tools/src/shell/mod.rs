//! `esker shell DIR`: an interactive shell on a database.
//!
//! In: commands, from a terminal, from `-e`, or from standard input. Out: rows and messages on
//! standard output, errors on standard error. `help` lists the commands.
//!
//! On a terminal an error never ends the shell. Otherwise the first error ends it with exit code 1,
//! unless `--keep-going` is given; then the exit code is 1 at the end. A `use` or `begin` that
//! fails ends a script in any case.
//!
//! Reading order: `help` (the commands), `words` (what a line means), `command` (which method runs
//! it), `database` (the state), then `data`, `scan`, `transaction`, `admin`; `print`; for terminals
//! `complete` and `history`.

mod admin;
mod command;
#[cfg(feature = "shell")]
mod complete;
mod data;
mod database;
mod help;
#[cfg(feature = "shell")]
mod history;
mod print;
mod scan;
mod stop;
mod transaction;
mod words;

use crate::failure::{CommandOutcome, Failure};
use crate::host::{Host, Stream};
use crate::ldb::{DatabaseAccess, OpenedWith, open_with_access};
use clap::Args;
use database::DbShell;
use print::RowForm;
use std::io::{BufRead, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use words::message_text;

#[derive(Args)]
pub(crate) struct ShellOptions {
    /// Directory of the database
    dir: PathBuf,
    /// Run these commands and end; several are separated by "; ", may be repeated
    #[arg(long = "execute", short = 'e', value_name = "COMMANDS")]
    execute: Vec<String>,
    /// Open the database for reading only, as it is now, beside a process that has it open
    #[arg(long, alias = "read_only", conflicts_with_all = ["secondary", "create"])]
    read_only: bool,
    /// Follow the process that has the database open; PATH is a directory for the LOG
    #[arg(long, value_name = "PATH", conflicts_with = "create")]
    secondary: Option<PathBuf>,
    /// Create the database if it is missing
    #[arg(long)]
    create: bool,
    /// Open for writing although the OPTIONS file names objects that are unknown here
    #[arg(long, alias = "ignore_unknown_options")]
    ignore_unknown_options: bool,
    /// The column family to begin with
    #[arg(long, alias = "column_family", default_value = "default")]
    column_family: String,
    /// The form of rows
    #[arg(long, value_enum, default_value_t)]
    mode: RowForm,
    /// The same as --mode=json
    #[arg(long)]
    json: bool,
    /// Without a terminal: go on after an error; the exit code is 1 at the end. A failed use or
    /// begin ends the script all the same: later writes would go elsewhere
    #[arg(long)]
    keep_going: bool,
    /// Keep no history. Otherwise commands, keys and values among them, are kept in
    /// $XDG_STATE_HOME/esker/history, readable by you alone; a line that begins with a space is not
    #[arg(long)]
    no_history: bool,
}

/// The destination of the output. Rows are many, so it is buffered; each command flushes it.
type Out = BufWriter<Stream>;

impl ShellOptions {
    /// Whether the shell changes no file.
    pub(crate) fn only_reads(&self) -> bool {
        self.read_only
    }

    fn access(&self) -> DatabaseAccess<'_> {
        match &self.secondary {
            Some(dir) => DatabaseAccess::Secondary(dir),
            None if self.read_only => DatabaseAccess::ReadOnly,
            None => DatabaseAccess::ReadWrite {
                create_if_missing: self.create,
                ignore_unknown_options: self.ignore_unknown_options,
            },
        }
    }

    /// Opens the database, and says what to do if another process has it.
    fn open(&self, host: &Host) -> CommandOutcome<OpenedWith> {
        open_with_access(&self.dir, &self.access(), host).map_err(|failure| match failure {
            Failure::Told(why) if why.contains("LOCK") => Failure::new(format_args!(
                "{why}\n--read-only reads it as it is now; --secondary PATH follows its writer"
            )),
            Failure::Told(why) if why.contains("create_if_missing") => {
                Failure::new(format_args!("{why}\n--create creates it"))
            }
            other => other,
        })
    }
}

pub(crate) fn run(options: &ShellOptions, shows_progress: bool, host: &Host) -> CommandOutcome {
    let mut out = BufWriter::with_capacity(64 << 10, host.output());
    let is_interactive = options.execute.is_empty() && is_interactive(host);
    let shell = options.open(host).and_then(|db| DbShell::new(db, options, is_interactive, host));
    let mut shell = shell.map_err(|failure| match failure {
        Failure::Told(why) => Failure::Told(message_text(&why)),
        other => other,
    })?;
    shell.shows_progress = shows_progress;
    let done = if is_interactive {
        run_on_terminal(&mut shell, options, &mut out)
    } else {
        run_lines(&mut shell, options, host, &mut out)
    };
    let flushed = out.flush().map_err(Failure::from);
    done.and(flushed).and(shell.close())
}

#[cfg(feature = "shell")]
fn is_interactive(host: &Host) -> bool {
    crate::terminal::is_interactive(host)
}

#[cfg(not(feature = "shell"))]
fn is_interactive(_host: &Host) -> bool {
    false
}

/// The columns of the terminal to which output goes; `None`: it goes elsewhere.
fn terminal_width(host: &Host) -> Option<usize> {
    let is_shown = host.is_machine() && std::io::stdout().is_terminal();
    is_shown.then(|| usize::from(console::Term::stdout().size().1))
}

#[cfg(feature = "shell")]
fn run_on_terminal(shell: &mut DbShell<'_>, options: &ShellOptions, out: &mut Out) -> CommandOutcome {
    let history = if options.no_history { None } else { history::file() };
    let mut terminal = crate::terminal::Terminal::open(complete::ShellHelper::new(shell), history)?;
    writeln!(out, "{}", shell.banner())?;
    while !shell.is_over() {
        out.flush()?;
        if let Some(helper) = terminal.helper() {
            helper.update(shell);
        }
        let Some(line) = terminal.line(&shell.prompt())? else {
            writeln!(out)?;
            break;
        };
        match shell.run_line(line.as_bytes(), out) {
            Ok(()) => {}
            Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
            Err(why) => {
                out.flush()?;
                shell.complain(&why);
            }
        }
    }
    Ok(())
}

#[cfg(not(feature = "shell"))]
fn run_on_terminal(_: &mut DbShell<'_>, _: &ShellOptions, _: &mut Out) -> CommandOutcome {
    Ok(())
}

/// Runs the commands of `-e`, or the lines of standard input.
fn run_lines(shell: &mut DbShell<'_>, options: &ShellOptions, host: &Host, out: &mut Out) -> CommandOutcome {
    let mut failures = 0u64;
    let mut run = |shell: &mut DbShell<'_>, line: &[u8], place: &str, out: &mut Out| {
        let why = match shell.run_line(line, out) {
            Err(Failure::Told(why)) => format!("{place}{}", message_text(&why)),
            other => return other,
        };
        if !options.keep_going {
            return Err(Failure::Told(why));
        }
        if shell.has_lost_place {
            return Err(Failure::new(format_args!(
                "{why}\nthe script ends: what follows would go to another family or transaction"
            )));
        }
        failures += 1;
        out.flush()?;
        shell.complain(&Failure::Told(why));
        Ok(())
    };
    if options.execute.is_empty() {
        let (mut input, mut line, mut number) = (host.input(), Vec::new(), 0u64);
        while !shell.is_over() && input.read_until(b'\n', &mut line)? > 0 {
            number += 1;
            run(shell, line.strip_suffix(b"\n").unwrap_or(&line), &format!("line {number}: "), out)?;
            line.clear();
        }
    }
    let lines = options.execute.iter().flat_map(|commands| commands.lines());
    for line in lines {
        if !shell.is_over() {
            run(shell, line.as_bytes(), "", out)?;
        }
    }
    match failures {
        0 => Ok(()),
        1 => Err(Failure::new("1 line failed")),
        failures => Err(Failure::new(format_args!("{failures} lines failed"))),
    }
}
