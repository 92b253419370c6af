//! Other people's distributed engines, unmodified, on Esker: `cargo xtask cluster ENGINE [FLAGS]`.
//!
//! In: the engine, which its own package registry has, and the library built here. Out: lines that
//! say what was shown; an error that names the node and has the end of its log. The processes of a
//! cluster end with the command, also when it fails or is killed. Builds stay in `target/clusters`;
//! everything else lies in the temporary directory, until the command ends. `KEEP_TEMP=1` keeps it.

mod cometbft;
mod compare;
mod flink;
mod http;
mod java;
mod kafka_streams;
mod openraft;
mod process;
mod rheakv;

use crate::clients;
use crate::commands::Outcome;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Engines, and the commands that run them.
const ENGINES: [(&str, Command); 5] = [
    ("cometbft", cometbft::run),
    ("openraft", openraft::run),
    ("kafka-streams", kafka_streams::run),
    ("flink", flink::run),
    ("rheakv", rheakv::run),
];

/// Runs an engine with the flags behind its name.
type Command = fn(&Path, &[&str]) -> Outcome;

/// Runs the cluster that the first argument names.
pub(crate) fn run(root: &Path, args: &[&str]) -> Outcome {
    let known = || ENGINES.map(|engine| engine.0).join(", ");
    let (name, flags) = args.split_first().ok_or_else(|| format!("an engine is missing: {}", known()))?;
    let engine = ENGINES.iter().find(|engine| engine.0 == *name);
    let (_, command) = engine.ok_or_else(|| format!("'{name}' is none of {}", known()))?;
    command(root, flags)
}

/// Runs all clusters, one after the other, and the suite of openraft's store.
pub(crate) fn long(root: &Path) -> Outcome {
    cometbft::run(root, &[])?;
    cometbft::run(root, &["--handover"])?;
    openraft::run(root, &[])?;
    kafka_streams::run(root, &[])?;
    flink::run(root, &[])?;
    rheakv::run(root, &[])?;
    clients::run(root, &["openraft-rocksstore"])
}

/// The directory in which engines are built, locked until the second value is dropped.
/// # Errors
/// Another command has the lock: two builds at once would write to the same files.
fn build_dir(root: &Path) -> Result<(PathBuf, std::fs::File), String> {
    let dir = root.join("target/clusters");
    let path = dir.join("lock");
    let error = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    std::fs::create_dir_all(&dir).map_err(|e| error(&e))?;
    let file = std::fs::File::create(&path).map_err(|e| error(&e))?;
    match file.try_lock() {
        Ok(()) => Ok((dir, file)),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(error(&"another `cluster` runs in this tree; start this one when it has ended"))
        }
        Err(std::fs::TryLockError::Error(e)) => Err(error(&e)),
    }
}

/// A directory for the files of one cluster, removed when it is dropped.
struct WorkDir(PathBuf);

impl WorkDir {
    /// Makes the directory. Its name has `name` and this process's number.
    fn new(name: &str) -> Result<WorkDir, String> {
        let dir = std::env::temp_dir().join(format!("esker-cluster-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        Ok(WorkDir(dir))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if std::env::var_os("KEEP_TEMP").is_some() {
            eprintln!("kept: {}", self.0.display());
        } else if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

/// The time at which a cluster's run must have ended.
#[derive(Clone, Copy)]
struct Deadline(Instant);

impl Deadline {
    fn after(minutes: u64) -> Deadline {
        Deadline(Instant::now() + Duration::from_secs(minutes * 60))
    }

    /// Calls `poll` every 50 milliseconds until it returns a value.
    /// # Errors
    /// An error of `poll` · the deadline has passed: the error names `what`.
    fn wait<T>(
        self,
        what: &dyn std::fmt::Display,
        mut poll: impl FnMut() -> Result<Option<T>, String>,
    ) -> Result<T, String> {
        loop {
            if let Some(value) = poll()? {
                return Ok(value);
            }
            if Instant::now() > self.0 {
                return Err(format!("the time of the command is over, before {what}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A generator of pauses and choices that a seed fixes (xorshift).
struct Choices(u64);

impl Choices {
    /// Begins at the seed of the environment, or at a new one. Prints it.
    fn from_seed() -> Result<Choices, String> {
        let seed = match std::env::var("SEED") {
            Ok(seed) => seed.parse().map_err(|_| format!("SEED: '{seed}' is no number"))?,
            Err(_) => u64::from(std::process::id()),
        };
        println!("SEED={seed}");
        Ok(Choices(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1))
    }

    /// A number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// Sleeps for less than `limit` milliseconds.
    fn pause(&mut self, limit: u64) {
        std::thread::sleep(Duration::from_millis(self.below(limit)));
    }
}
