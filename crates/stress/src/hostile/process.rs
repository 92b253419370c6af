//! A child process as the driver sees it: its output and its end.

#![allow(clippy::disallowed_methods, reason = "threads and processes of the system are what is used")]

use super::place::{self, HostilePlace, USER};
use super::{PATIENCE, THREADS};
use esker::internals::base::sync::thread::JoinHandle;
use esker::internals::env::{Clock, SystemClock, spawn};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The output of a child so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// The number of each thread's last acknowledged batch.
    pub(super) acknowledged: Vec<u64>,
    /// Number of errors that it reported.
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    /// The first line that tells of a mistake, if there was one.
    wrong: Option<String>,
    /// The first lines of standard output and standard error, about 8 KiB. Acknowledgements are
    /// left out.
    pub(super) text: String,
}

impl Said {
    /// Checks the output for mistakes.
    /// # Errors
    /// The child gave a wrong answer, called an intact file damaged, or panicked.
    pub(super) fn check(&self) -> Result<(), String> {
        self.wrong.clone().map_or(Ok(()), Err)
    }

    fn hear(&mut self, line: &str) {
        let mut words = line.splitn(3, ' ');
        match (words.next(), words.next().and_then(|word| word.parse::<usize>().ok())) {
            (Some("acknowledged"), Some(thread)) if thread < self.acknowledged.len() => {
                let number = words.next().and_then(|number| number.parse().ok()).unwrap_or(0);
                self.acknowledged[thread] = self.acknowledged[thread].max(number);
                return;
            }
            (Some("error"), _) => {
                self.errors += 1;
                self.first_error.get_or_insert_with(|| line.to_owned());
            }
            _ => {}
        }
        let is_mistake = line.starts_with("wrong ")
            || ["panicked", "Corruption", "not expected"].iter().any(|word| line.contains(word));
        if is_mistake {
            self.wrong.get_or_insert_with(|| line.to_owned());
        }
        if self.text.len() < 8 << 10 {
            self.text += line;
            self.text.push('\n');
        }
    }
}

/// A running child. A drop kills it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// The child's standard input. Closing it ends the child.
    input: Option<ChildStdin>,
    said: Arc<Mutex<Said>>,
    /// Threads that read the child's output to the end.
    readers: Vec<JoinHandle<()>>,
}

/// A command of `esker-stress`, started through `wrapper`. If the driver is root, the command runs
/// as the children's user.
fn command(program: &Path, wrapper: &[String]) -> Command {
    let mut command = match wrapper {
        [] => Command::new(program),
        [tool, arguments @ ..] => {
            let mut command = Command::new(tool);
            command.args(arguments).arg(program);
            command
        }
    };
    if place::is_root() {
        command.uid(USER).gid(USER);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Process {
    /// Starts a child on the place's database. `wrapper` is a tool that first sets limits.
    /// # Errors
    /// The child cannot be started.
    pub(super) fn start(
        program: &Path,
        place: &HostilePlace,
        wrapper: &[String],
        arguments: &[&str],
    ) -> Result<Process, String> {
        let mut command = command(program, wrapper);
        command.arg("hostile-child").arg(place.database()).args(arguments);
        let mut child = command.spawn().map_err(|e| format!("{}: {e}", program.display()))?;
        let said = Said { acknowledged: vec![0; THREADS as usize], ..Said::default() };
        let said = Arc::new(Mutex::new(said));
        let (out, err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let pipes = [Box::new(out) as Box<dyn Read + Send>, Box::new(err)];
        let readers = pipes.into_iter().map(|pipe| {
            let said = said.clone();
            spawn("reader", move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    said.lock().unwrap_or_else(PoisonError::into_inner).hear(&line);
                }
            })
        });
        let readers: Vec<_> = readers.collect::<esker::Result<_>>().map_err(|e| {
            // Kills the child, so that none is left. The first error is the one to report.
            child.kill().and_then(|()| child.wait()).ok();
            e.to_string()
        })?;
        let input = child.stdin.take();
        Ok(Process { child, input, said, readers })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn said(&self) -> Said {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Raises each thread's last acknowledged batch to that of earlier children: their batches must
    /// survive, too.
    pub(super) fn expect(&self, acknowledged: &[u64]) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        for (mine, theirs) in said.acknowledged.iter_mut().zip(acknowledged) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Waits until every thread has acknowledged a later batch than in `before`.
    /// # Errors
    /// The child has ended, or `patience` is over.
    pub(super) fn wait_for_progress(&mut self, before: &[u64], patience: Duration) -> Result<(), String> {
        let deadline = SystemClock.now_micros() + patience.as_micros() as u64;
        loop {
            let said = self.said();
            if said.acknowledged.iter().zip(before).all(|(now, before)| now > before) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait().map_err(|e| format!("wait: {e}"))? {
                return Err(format!("it ended: {status}"));
            }
            if SystemClock.now_micros() > deadline {
                return Err(format!("no progress within {patience:?} from {before:?}"));
            }
            SystemClock.sleep(Duration::from_millis(5));
        }
    }

    /// Whether the child has ended with an error or by a signal.
    pub(super) fn has_died(&mut self) -> bool {
        let status = self.child.try_wait().ok().flatten();
        if status.is_some() {
            self.hear_the_rest();
        }
        status.is_some_and(|status| !status.success())
    }

    fn hear_the_rest(&mut self) {
        for reader in self.readers.drain(..) {
            reader.join().expect("the reader does not panic");
        }
    }

    /// Kills the child, or makes it close its database and end.
    /// # Errors
    /// The child does not end, or ends with an error.
    pub(super) fn end(&mut self, kill: bool) -> Result<(), String> {
        self.input = None;
        if kill {
            self.child.kill().map_err(|e| format!("kill: {e}"))?;
        }
        let deadline = SystemClock.now_micros() + PATIENCE.as_micros() as u64;
        loop {
            if let Some(status) = self.child.try_wait().map_err(|e| format!("wait: {e}"))? {
                self.hear_the_rest();
                return if kill || status.success() { Ok(()) } else { Err(format!("it ended: {status}")) };
            }
            if SystemClock.now_micros() > deadline {
                return Err(format!("it does not end within {PATIENCE:?}"));
            }
            SystemClock.sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The child may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Sets the soft limit of a running child. The tool runs as the child's user, who may change it.
/// # Errors
/// The output of the tool.
pub(super) fn limit(child: &Process, resource: &str, soft: &str) -> Result<(), String> {
    let mut command = Command::new("prlimit");
    command.args(["--pid", &child.id().to_string(), &format!("--{resource}={soft}:")]);
    if place::is_root() {
        command.uid(USER).gid(USER);
    }
    let output = command.output().map_err(|e| format!("prlimit: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("prlimit: {said}")) }
}

/// Runs a command of `esker-stress` on a directory. Returns its standard output.
/// # Errors
/// The standard error of the command, if it fails.
pub(super) fn ask(
    program: &Path,
    name: &str,
    directory: &Path,
    arguments: &[String],
) -> Result<String, String> {
    let mut command = command(program, &[]);
    let output = command.arg(name).arg(directory).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("{}: {e}", program.display()))?;
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if output.status.success() { Ok(out) } else { Err(format!("{name}: {}: {err}", output.status)) }
}

/// Starts a process that opens the database and compares it with the acknowledged batches. Returns
/// each thread's last batch.
/// # Errors
/// The first batch that is missing or wrong.
pub(super) fn verify(program: &Path, directory: &Path, acknowledged: &[u64]) -> Result<Vec<u64>, String> {
    let acknowledged: Vec<String> = acknowledged.iter().map(u64::to_string).collect();
    let said = ask(program, "hostile-verify", directory, &acknowledged)?;
    said.split_whitespace().map(|word| word.parse().map_err(|e| format!("'{word}': {e}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_found_behind_any_amount_of_output() {
        for mistake in ["wrong thread 1, batch 7", "thread 'x' panicked at y", "error 1 Corruption: z"] {
            let mut said = Said::default();
            (0..1000).for_each(|_| said.hear("error 0 write: IO error: No space left on device"));
            assert_eq!(said.check(), Ok(()));
            said.hear(mistake);
            assert_eq!(said.check(), Err(mistake.to_owned()));
        }
    }
}
