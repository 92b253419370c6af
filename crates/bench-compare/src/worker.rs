//! The process in which one engine runs: the code of the parent and of the child.
//!
//! Each engine has a process of its own. So the memory and CPU time of each engine can be measured,
//! and a crash ends one engine only. Two builds of RocksDB can run side by side. The processes of
//! all engines live at the same time and take turns, step by step.
//!
//! The parent writes the index of a step as a line. The child answers with one line of JSON: a
//! sample or an error. The child ends when its standard input ends.

use crate::bench::{Bench, BenchPlan};
use crate::engine::{RivalEngine, RivalResult};
use crate::engines::{EngineKind, WithEngine};
use crate::measure::Sample;
use crate::suites::SuiteId;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The task of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) engine: EngineKind,
    pub(crate) suite: SuiteId,
    pub(crate) plan: BenchPlan,
    /// The directory of the child, empty at the start.
    pub(crate) directory: PathBuf,
    /// The library to load, which has RocksDB's C functions. `None` means the RocksDB that tests
    /// use.
    pub(crate) library: Option<PathBuf>,
}

type Answer = std::result::Result<Sample, String>;

/// Runs as a child: runs the steps that standard input names, until standard input ends.
/// # Errors
/// A task or a line that cannot be parsed · an engine that cannot be loaded · a parent that does
/// not read answers any more.
pub(crate) fn serve(task: &str) -> RivalResult<()> {
    let task: Task = serde_json::from_str(task).map_err(|e| format!("not a task: {e}"))?;
    if let Some(library) = &task.library {
        esker_peer::load_library(library)?;
    }
    task.engine.with(Serve { task: &task })
}

struct Serve<'a> {
    task: &'a Task,
}

impl WithEngine for Serve<'_> {
    type Output = ();

    fn run<E: RivalEngine>(self) -> RivalResult<()> {
        let Task { suite, plan, directory, .. } = self.task;
        let mut bench = Bench::<E>::new(directory, plan.clone());
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(|e| format!("the parent's orders: {e}"))?;
            let index: usize = line.trim().parse().map_err(|e| format!("'{line}' is no step: {e}"))?;
            let answer: Answer = suite.run(&mut bench, index);
            let mut text = serde_json::to_string(&answer).expect("samples are plain numbers");
            text.push('\n');
            std::io::stdout().write_all(text.as_bytes()).map_err(|e| format!("the parent: {e}"))?;
        }
        bench.close()
    }
}

/// The parent's side of a child. A drop of this value ends the child.
pub(crate) struct EngineWorker {
    child: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<Answer>,
    errors: PathBuf,
    title: String,
    patience: Duration,
}

/// Time for the answer to a step, added to ten times the step's time limit: for preparation and
/// background work.
const PATIENCE: Duration = Duration::from_secs(600);

impl EngineWorker {
    /// Creates the task's directory, and starts a child in it.
    pub(crate) fn start(task: &Task) -> RivalResult<EngineWorker> {
        let directory = &task.directory;
        std::fs::create_dir_all(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let errors = directory.with_extension("stderr");
        let file = std::fs::File::create(&errors).map_err(|e| format!("{}: {e}", errors.display()))?;
        let program = std::env::current_exe().map_err(|e| format!("this program's own path: {e}"))?;
        let mut child = Command::new(program)
            .arg("worker")
            .arg(serde_json::to_string(task).expect("paths here are text"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .map_err(|e| format!("a process for {}: {e}", task.engine))?;
        let orders = child.stdin.take();
        let output = child.stdout.take().expect("piped above");
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                let answer = serde_json::from_str(&line).unwrap_or_else(|e| Err(format!("'{line}': {e}")));
                if sender.send(answer).is_err() {
                    return;
                }
            }
        });
        let patience = PATIENCE + Duration::from_secs_f64(task.plan.step_seconds * 10.0);
        Ok(EngineWorker { child, orders, answers, errors, title: task.engine.title().to_owned(), patience })
    }

    /// Lets the child run step `index`.
    /// # Errors
    /// Errors of the engine · a child that died, or that did not answer in time.
    pub(crate) fn run(&mut self, index: usize) -> RivalResult<Sample> {
        let title = &self.title;
        let orders = self.orders.as_mut().expect("the pipe is open until the drop");
        if writeln!(orders, "{index}").and_then(|()| orders.flush()).is_err() {
            return Err(self.last_words());
        }
        match self.answers.recv_timeout(self.patience) {
            Ok(answer) => answer.map_err(|e| format!("{title}: {e}")),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                Err(format!("{title}: no answer for {} s", self.patience.as_secs()))
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Err(self.last_words()),
        }
    }

    /// Waits until the child has ended. Returns a message with its exit status and everything that
    /// it wrote to standard error.
    fn last_words(&mut self) -> String {
        let status = self.child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
        let words = std::fs::read_to_string(&self.errors).unwrap_or_default();
        format!("{}: its process ended ({status}) {}", self.title, words.trim())
    }
}

impl Drop for EngineWorker {
    fn drop(&mut self) {
        // An idle child closes its database and exits; a hanging child is killed.
        self.orders = None;
        for _ in 0..100 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Removes the directories of a round's children.
pub(crate) fn clean(directory: &Path) -> RivalResult<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", directory.display()))
        }
        _ => Ok(()),
    }
}
