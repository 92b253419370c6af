//! The running peer processes (`peer_process.rs`), one for each engine.
//!
//! A process takes one step after the other. After a kill, the next step starts a new process.
//!
//! In: a [`PeerStep`]. Out: the contents of the database before and after the step.

use crate::contents::unhex;
use crate::peer_process::{CLOSE, CLOSED, ERROR, STEP, THROUGH};
use crate::step::{PeerEngine, PeerStep, StepContents, parse_found};
use esker_testkit::TempDir;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// The limit on the time of a step, with room for a busy machine. Without a limit a step might
/// never end: RocksDB sometimes waits for ever for a flush.
const PATIENCE: Duration = Duration::from_secs(300);

/// The running peer processes.
#[derive(Debug)]
pub struct PeerProcesses {
    program: PathBuf,
    running: HashMap<PeerEngine, Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    input: ChildStdin,
    /// The lines of the process's standard output.
    output: Receiver<String>,
    work: TempDir,
}

impl PeerProcesses {
    /// Makes a value without running processes. `program` is the path of the binary
    /// `esker-peer-process`.
    pub fn new(program: &Path) -> PeerProcesses {
        PeerProcesses { program: program.to_owned(), running: HashMap::new() }
    }

    /// Gives the step to the process of its engine. Starts that process first if it does not run.
    /// At the end, kills the process or lets it close the database, as the step says.
    /// # Errors
    /// The error message of the peer process. If the process died: its exit status and standard
    /// error.
    pub fn take_step(&mut self, step: &PeerStep) -> Result<StepContents, String> {
        let mut process = match self.running.remove(&step.engine) {
            Some(process) => process,
            None => Process::start(&self.program)?,
        };
        let found = process.take_step(step).map_err(|why| format!("{:?}: {why}", step.engine))?;
        if step.killed {
            process.kill()?;
        } else {
            self.running.insert(step.engine.clone(), process);
        }
        Ok(found)
    }
}

impl Process {
    fn start(program: &Path) -> Result<Process, String> {
        let work = TempDir::new("peer_process");
        let errors = File::create(work.join("said")).map_err(|e| e.to_string())?;
        let mut child = Command::new(program)
            .arg(work.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .map_err(|e| format!("{}: {e}", program.display()))?;
        let input = child.stdin.take().expect("piped");
        let output = lines_of(child.stdout.take().expect("piped"));
        Ok(Process { child, input, output, work })
    }

    fn take_step(&mut self, step: &PeerStep) -> Result<StepContents, String> {
        std::fs::write(self.work.join("task"), step.print()).map_err(|e| e.to_string())?;
        self.ask(STEP, THROUGH)?;
        let answer = std::fs::read_to_string(self.work.join("told")).map_err(|e| e.to_string())?;
        let found = parse_found(&answer)?;
        if !step.killed {
            self.ask(CLOSE, CLOSED)?;
        }
        Ok(found)
    }

    fn ask(&mut self, what: &str, expected: &str) -> Result<(), String> {
        let asked = writeln!(self.input, "{what}").and_then(|()| self.input.flush());
        let line = match asked {
            Ok(()) => self.output.recv_timeout(PATIENCE).unwrap_or_default(),
            Err(_) => String::new(),
        };
        let line = line.trim();
        if line == expected {
            return Ok(());
        }
        if let Some(why) = line.strip_prefix(ERROR).and_then(unhex) {
            return Err(String::from_utf8_lossy(&why).into_owned());
        }
        // The process is dead, sent a wrong line or hangs. The signal makes sure that it ends.
        self.child.kill().map_err(|e| e.to_string())?;
        let status = self.child.wait().map_err(|e| e.to_string())?;
        let errors = std::fs::read(self.work.join("said")).unwrap_or_default();
        Err(format!("asked to {what}, it ended: {status}: {}", String::from_utf8_lossy(&errors).trim()))
    }

    fn kill(mut self) -> Result<(), String> {
        self.child.kill().and_then(|()| self.child.wait()).map(drop).map_err(|e| e.to_string())
    }
}

/// Sends the lines of `output` from a thread of its own, until `output` ends or the receiver is
/// dropped.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process has no open database, or nobody needs that database any more.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
