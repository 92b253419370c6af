//! A program that answers questions line by line, in a process of its own.
//!
//! In: lines for its standard input. Out: the lines of its standard output. The caller limits the
//! wait for each line. A drop kills the process.

use std::io::{BufRead, BufReader, Error, ErrorKind, Result, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// A process that answers requests. Its standard error is discarded.
#[derive(Debug)]
pub struct Answering {
    child: Child,
    input: ChildStdin,
    /// The lines that the process prints.
    output: Receiver<String>,
}

impl Answering {
    /// Starts the program.
    /// # Errors
    /// The program cannot be started.
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
        // The thread ends once the process has ended, or the receiver was dropped.
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)).ok());
        Ok(Answering { child, input, output })
    }

    /// Writes a line to the process.
    /// # Errors
    /// The process has ended.
    pub fn ask(&mut self, line: &str) -> Result<()> {
        writeln!(self.input, "{line}")?;
        self.input.flush()
    }

    /// Waits for the next line that the process prints.
    /// # Errors
    /// The process has ended, or printed nothing within `patience` (`TimedOut`).
    pub fn line(&self, patience: Duration) -> Result<String> {
        self.output.recv_timeout(patience).map_err(|e| match e {
            RecvTimeoutError::Timeout => Error::new(ErrorKind::TimedOut, e),
            RecvTimeoutError::Disconnected => Error::other(e),
        })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // The process may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
