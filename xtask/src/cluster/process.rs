//! A process of a cluster.
//!
//! In: a command, and the file for its output. Out: the process's state as `/proc` shows it.
//! Invariant: a process ends when its value is dropped, or when `xtask` ends.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(super) struct ClusterProcess {
    name: String,
    child: Child,
    log: PathBuf,
}

impl ClusterProcess {
    /// Starts `program` with the variables `env` added to its environment, and appends its output
    /// to `log`. Call `start` on the main thread: the process ends with the thread that started it.
    pub(super) fn start(
        name: &str,
        program: &Path,
        args: &[String],
        env: &[(&str, &Path)],
        log: &Path,
    ) -> Result<ClusterProcess, String> {
        let error = |error: std::io::Error| format!("{name}: {}: {error}", program.display());
        let output = fs::File::options().create(true).append(true).open(log).map_err(error)?;
        let errors = output.try_clone().map_err(error)?;
        // `setpriv` replaces itself by the program, which therefore has the child's number.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(args)
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|e| format!("setpriv, which starts {name}: {e}"))?;
        Ok(ClusterProcess { name: name.to_owned(), child, log: log.to_owned() })
    }

    /// Kills the process with signal 9, and returns when it has ended.
    pub(super) fn kill(&mut self) -> Result<(), String> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(|error| format!("{}: {error}", self.name))
    }

    /// Asks the process to end (SIGTERM), and returns when it has ended.
    /// # Errors
    /// It has not ended after half a minute.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let id = id.ok_or_else(|| format!("{}: its number is no process's", self.name))?;
        kill_process(id, Signal::TERM).map_err(|error| format!("{}: {error}", self.name))?;
        let begin = Instant::now();
        while self.is_running()? {
            if begin.elapsed() > Duration::from_secs(30) {
                return Err(format!("{} does not end:\n{}", self.name, self.end_of_log()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Whether the process has not ended.
    pub(super) fn is_running(&mut self) -> Result<bool, String> {
        Ok(self.success()?.is_none())
    }

    /// Checks that the process runs.
    /// # Errors
    /// It has ended: the error has the end of its log.
    pub(super) fn expect_running(&mut self) -> Result<(), String> {
        if self.is_running()? {
            Ok(())
        } else {
            Err(format!("{} has ended:\n{}", self.name, self.end_of_log()))
        }
    }

    /// Whether the process ended with success; `None` while it runs.
    pub(super) fn success(&mut self) -> Result<Option<bool>, String> {
        let status = self.child.try_wait().map_err(|error| format!("{}: {error}", self.name))?;
        Ok(status.map(|status| status.success()))
    }

    /// Writes a line to the process's standard input.
    pub(super) fn tell(&mut self, line: &str) -> Result<(), String> {
        let input = self.child.stdin.as_mut().expect("it is a pipe from the start on");
        writeln!(input, "{line}").map_err(|error| format!("{}: {error}", self.name))
    }

    /// Whether the process has mapped the file `library`.
    pub(super) fn has_mapped(&self, library: &Path) -> Result<bool, String> {
        let library = fs::canonicalize(library).map_err(|e| format!("{}: {e}", library.display()))?;
        Ok(self.proc_file("maps")?.lines().any(|line| line.ends_with(&*library.to_string_lossy())))
    }

    /// The largest memory that the process has had, in bytes.
    pub(super) fn peak_memory(&self) -> Result<u64, String> {
        Ok(number_behind(&self.proc_file("status")?, "VmHWM:")? * 1024)
    }

    /// The bytes that the process has caused to be written to disks.
    pub(super) fn written(&self) -> Result<u64, String> {
        number_behind(&self.proc_file("io")?, "write_bytes:")
    }

    /// The processor time of the process, in hundredths of a second.
    pub(super) fn processor_time(&self) -> Result<u64, String> {
        let text = self.proc_file("stat")?;
        let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        Ok(ticks(11) + ticks(12))
    }

    fn proc_file(&self, name: &str) -> Result<String, String> {
        let path = format!("/proc/{}/{name}", self.child.id());
        fs::read_to_string(&path).map_err(|error| format!("{}: {path}: {error}", self.name))
    }

    /// The whole output of the process and of its predecessors with the same log.
    pub(super) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The last lines of the log.
    pub(super) fn end_of_log(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for ClusterProcess {
    fn drop(&mut self) {
        // It may have ended before.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The number behind `name` in a file of `/proc`.
fn number_behind(text: &str, name: &str) -> Result<u64, String> {
    let number = text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    let number = number.and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("/proc has no '{name}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(name: &str) -> (ClusterProcess, PathBuf) {
        let log = std::env::temp_dir().join(format!("esker-xtask-{name}-{}", std::process::id()));
        let process = ClusterProcess::start(name, Path::new("sleep"), &["60".to_owned()], &[], &log).unwrap();
        (process, log)
    }

    #[test]
    fn a_process_ends_with_its_value() {
        let (process, log) = sleeper("dropped");
        let proc = PathBuf::from(format!("/proc/{}", process.child.id()));
        assert!(proc.exists());
        drop(process);
        assert!(!proc.exists());
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_process_can_be_asked_to_end() {
        let (mut process, log) = sleeper("asked");
        // Before it becomes `sleep`, it is `setpriv`, which ends, too.
        process.stop().unwrap();
        assert!(!process.is_running().unwrap());
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn the_first_number_behind_a_name_is_found() {
        assert_eq!(number_behind("VmPeak: 7 kB\nVmHWM:\t  12 kB\n", "VmHWM:"), Ok(12));
        assert!(number_behind("VmPeak: 7 kB\n", "VmHWM:").is_err());
    }
}
