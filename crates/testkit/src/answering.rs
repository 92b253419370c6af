//! A program that answers questions line by line, in a process of its own.
//!
//! In: lines for its standard input. Out: the lines of its standard output, each waited for no
//! longer than the caller says. It is killed when its owner lets go of it.

use std::io::{BufRead, BufReader, Error, ErrorKind, Result, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// A process that answers requests. Its standard error is dropped.
#[derive(Debug)]
pub struct Answering {
    child: Child,
    input: ChildStdin,
    /// The lines it writes.
    output: Receiver<String>,
}

impl Answering {
    /// Starts the program.
    /// # Errors
    /// It cannot be started.
    #[expect(
        clippy::disallowed_methods,
        reason = "a process is no part of any simulation, nor is who listens to it"
    )]
    pub fn start(program: &Path) -> Result<Answering> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let closed = || Error::other("the process has no standard input and output");
        let input = child.stdin.take().ok_or_else(closed)?;
        let lines = BufReader::new(child.stdout.take().ok_or_else(closed)?).lines();
        let (sender, output) = mpsc::channel();
        // Ends when the process has ended, or the receiver is gone.
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)).ok());
        Ok(Answering { child, input, output })
    }

    /// Asks: writes the line.
    /// # Errors
    /// The process has ended.
    pub fn ask(&mut self, line: &str) -> Result<()> {
        writeln!(self.input, "{line}")?;
        self.input.flush()
    }

    /// The next line it says.
    /// # Errors
    /// It has ended, or (`TimedOut`) said nothing for so long.
    pub fn line(&self, patience: Duration) -> Result<String> {
        self.output.recv_timeout(patience).map_err(|e| match e {
            RecvTimeoutError::Timeout => Error::new(ErrorKind::TimedOut, e),
            RecvTimeoutError::Disconnected => Error::other(e),
        })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
