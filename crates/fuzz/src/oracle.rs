//! Reads the contents of a directory with the real RocksDB.
//!
//! Some inputs make RocksDB abort or run for ever, so it runs in a process of its own
//! (`esker-fuzz-oracle`). After an abort or a missing answer, this module starts a new process for
//! the next question.
//!
//! In: files, and the recovery mode of WALs. Out: the entries of each family, or RocksDB's error.
//! Without RocksDB's library or the program there is no answer, and targets skip the comparison. If
//! `ESKER_REQUIRE_PEERS` is set, the tests fail instead.

use crate::scene::{FAMILIES, Files};
use esker_peer::contents::{ContentsPair, hex, unhex};
use esker_peer::{FamilySpec, RocksDb};
use esker_testkit::{Answering, TempDir};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The limit on the wait for a line of an answer. A missing answer does not fail the target.
const PATIENCE: Duration = Duration::from_secs(5);
const PROGRAM: &str = "esker-fuzz-oracle";
/// The last line of an answer.
const END: &str = ".";
/// The first word of the line that reports an error.
const REFUSED: &str = "refused ";
/// The first word of a family's line.
const FAMILY: &str = "family ";

/// RocksDB's answer about a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OracleAnswer {
    /// The entries of each family, the same in both directions.
    Holds(Vec<Vec<ContentsPair>>),
    /// RocksDB reports an error, or its scans forward and backward differ.
    Refused(String),
    /// The process has ended, or has not answered in time.
    Died,
}

struct Process {
    process: Answering,
    work: TempDir,
}

static RUNNING: Mutex<Option<Process>> = Mutex::new(None);

/// The path of the oracle's program: the value of `ESKER_FUZZ_ORACLE`, or a file beside this
/// program, or one directory above.
fn program() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("ESKER_FUZZ_ORACLE") {
        return Some(PathBuf::from(path));
    }
    let own = std::env::current_exe().ok()?;
    own.ancestors().skip(1).take(2).map(|dir| dir.join(PROGRAM)).find(|path| path.exists())
}

/// Whether RocksDB's library and the oracle's program exist.
pub fn is_there() -> bool {
    esker_peer::default_library().exists() && program().is_some()
}

impl Process {
    fn start() -> Option<Process> {
        Some(Process { process: Answering::start(&program()?).ok()?, work: TempDir::new("oracle") })
    }

    fn ask(&mut self, files: &Files, recovery: usize) -> Option<OracleAnswer> {
        let dir = self.work.path();
        for file in std::fs::read_dir(dir).ok()? {
            std::fs::remove_file(file.ok()?.path()).ok()?;
        }
        for (path, bytes) in files {
            std::fs::write(dir.join(path.file_name()?), bytes).ok()?;
        }
        self.process.ask(&format!("{recovery} {}", dir.display())).ok()?;
        let mut families: Vec<Vec<ContentsPair>> = Vec::new();
        while let Ok(line) = self.process.line(PATIENCE) {
            if line == END {
                return Some(OracleAnswer::Holds(families));
            }
            if let Some(why) = line.strip_prefix(REFUSED) {
                return Some(OracleAnswer::Refused(why.to_owned()));
            }
            if line.starts_with(FAMILY) {
                families.push(Vec::new());
                continue;
            }
            let (key, value) = line.split_once(' ')?;
            families.last_mut()?.push((unhex(key)?, unhex(value)?));
        }
        None
    }
}

/// Lets RocksDB open these files in this `wal_recovery_mode`, and returns its answer. `None` if
/// there is no RocksDB.
pub(crate) fn ask(files: &Files, recovery: usize) -> Option<OracleAnswer> {
    if !is_there() {
        return None;
    }
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let process = match &mut *running {
        Some(process) => process,
        none => none.insert(Process::start()?),
    };
    let answer = process.ask(files, recovery);
    if answer.is_none() {
        *running = None;
    }
    Some(answer.unwrap_or(OracleAnswer::Died))
}

/// Answers the questions on standard input. Each line has the number of a `wal_recovery_mode` and a
/// directory.
/// # Errors
/// Standard input or output are broken.
pub fn serve() -> std::io::Result<()> {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (recovery, dir) = line.split_once(' ').unwrap_or_default();
        let mut text = String::new();
        match contents(Path::new(dir), recovery) {
            Ok(families) => {
                for (name, pairs) in families {
                    text.push_str(&format!("{FAMILY}{name}\n"));
                    for (key, value) in pairs {
                        text.push_str(&format!("{} {}\n", hex(&key), hex(&value)));
                    }
                }
                text.push_str(END);
            }
            Err(why) => text = format!("{REFUSED}{}", why.escape_default()),
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()?;
    }
    Ok(())
}

fn contents(dir: &Path, recovery: &str) -> Result<Vec<(String, Vec<ContentsPair>)>, String> {
    let mode = [
        "kTolerateCorruptedTailRecords",
        "kAbsoluteConsistency",
        "kPointInTimeRecovery",
        "kSkipAnyCorruptedRecords",
    ];
    let mode = recovery.parse::<usize>().ok().and_then(|at| mode.get(at)).ok_or("no such mode")?;
    let families = FAMILIES.map(|name| FamilySpec::new(name, "merge_operator=put"));
    let db = RocksDb::open_for_read_only(dir, &format!("wal_recovery_mode={mode}"), &families)?;
    FAMILIES.iter().map(|name| Ok(((*name).to_owned(), db.contents(name, None)?.0))).collect()
}
