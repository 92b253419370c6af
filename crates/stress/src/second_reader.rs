//! RocksDB as the second reader of crashed disks.
//!
//! In: a simulated disk. Out: whether RocksDB and Esker agree. Both open a copy of it for reading,
//! and must agree on the contents of each family, or both refuse. RocksDB answers from a process of
//! its own (`esker-reader` of `esker-peer`), which gets the files in a temporary directory.
//!
//! If they differ, a person must find out which one is right. One difference is known. A power
//! loss may take the end of a WAL and leave the next WAL, if neither was synced. If the first WAL
//! seems to end cleanly, RocksDB replays both, with a hole between them, unless
//! `track_and_verify_wals` was set when it wrote. Esker's next WAL records where the one before it
//! ended, and replay stops there.
//!
//! RocksDB does not always finish reading a MANIFEST with garbage behind its last record, which
//! Esker refuses: no answer within a minute counts as a refusal.

#![allow(
    clippy::disallowed_methods,
    reason = "the other reader has files of the real file system, and is a process"
)]

use crate::model::families::ModelFamilySpec;
use esker::internals::base::logger::{InfoLog, InfoLogLevel};
use esker::internals::env::{CrashChoices, CrashFs, Env, FileSystem};
use esker::{ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, OpenMode};
use esker_testkit::{Answering, TempDir};
use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest wait for a line of an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pairs by family.
type Families = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;
/// The families, or the reason for a refusal.
type Answer = Result<Families, String>;

/// The outcome of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Agreed {
    /// All families have the same contents.
    Same,
    /// Both engines refuse the database.
    Refused,
    /// RocksDB shows writes behind a hole: see the head of the file.
    Hole,
}

struct Process {
    program: PathBuf,
    process: Answering,
    work: TempDir,
}

/// One process for all machines, because it starts slowly.
static RUNNING: Mutex<Option<Process>> = Mutex::new(None);

/// Ends the process and removes its directory; the next comparison starts another.
pub(crate) fn end() {
    *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Lets both engines read the database in `dir` of the disk.
/// # Errors
/// The first difference, or the reason why RocksDB cannot answer.
pub(crate) fn compare(
    program: &Path,
    disk: &CrashFs,
    dir: &Path,
    specs: &[ModelFamilySpec],
) -> Result<Agreed, String> {
    let copy = disk.crash_clone(&CrashChoices::process_kill());
    let theirs = {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if running.as_ref().is_none_or(|process| process.program != program) {
            *running = Some(Process::start(program).map_err(|e| format!("{}: {e}", program.display()))?);
        }
        let process = running.as_mut().expect("the process was started above");
        let answer = process.ask(&copy, dir, specs);
        if !matches!(answer, Ok(Some(_))) {
            *running = None;
        }
        answer.map_err(|why| format!("the second reader: {why}"))?
    };
    let warnings = Arc::new(Warnings::default());
    match (ours(copy, dir, specs, &warnings), theirs) {
        (Ok(ours), Some(Ok(theirs))) => match same(&ours, &theirs) {
            Err(_) if warnings.name_a_hole() => Ok(Agreed::Hole),
            said => said.map(|()| Agreed::Same),
        },
        (Err(_), None | Some(Err(_))) => Ok(Agreed::Refused),
        (Ok(_), None) => Err(format!("no answer within {PATIENCE:?} about what Esker reads")),
        (Ok(_), Some(Err(why))) => Err(format!("RocksDB refuses what Esker reads: {why}")),
        (Err(why), Some(Ok(_))) => Err(format!("Esker refuses what RocksDB reads: {why}")),
    }
}

fn same(ours: &Families, theirs: &Families) -> Result<(), String> {
    let names = |families: &Families| families.keys().cloned().collect::<Vec<_>>();
    if names(ours) != names(theirs) {
        return Err(format!("Esker has families {:?}, RocksDB {:?}", names(ours), names(theirs)));
    }
    for (name, here) in ours {
        let there = &theirs[name];
        if let Some(at) = (0..here.len().max(there.len())).find(|&i| here.get(i) != there.get(i)) {
            let show = |pair: Option<&(Vec<u8>, Vec<u8>)>| {
                pair.map(|(key, value)| format!("{} = {}", key.escape_ascii(), value.escape_ascii()))
            };
            let (here, there) = (show(here.get(at)), show(there.get(at)));
            return Err(format!("pair {at} of '{name}' is {here:?} for Esker and {there:?} for RocksDB"));
        }
    }
    Ok(())
}

/// Collects the warnings of Esker's info log.
#[derive(Default)]
struct Warnings(Mutex<Vec<String>>);

impl InfoLog for Warnings {
    fn log(&self, _level: InfoLogLevel, args: fmt::Arguments<'_>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(args.to_string());
    }

    fn level(&self) -> InfoLogLevel {
        InfoLogLevel::Warn
    }
}

impl Warnings {
    /// Whether replay stopped behind a WAL whose end was silently lost.
    fn name_a_hole(&self) -> bool {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().any(|line| line.contains("replay stops") && line.contains("its end is lost"))
    }
}

/// Reads the database with Esker.
fn ours(disk: CrashFs, dir: &Path, specs: &[ModelFamilySpec], warnings: &Arc<Warnings>) -> Answer {
    let env: Env = crate::crash::env_over(disk);
    let info_log = Some(warnings.clone() as Arc<dyn InfoLog>);
    let options = DbOptions { env: env.clone(), info_log, ..DbOptions::default() };
    let names = Db::list_column_families(&options, dir).map_err(|e| e.to_string())?;
    let descriptor = |name: &String| {
        let mut options = ColumnFamilyOptions::default();
        if let Some(spec) = specs.iter().find(|spec| spec.name == name) {
            options.comparator = spec.comparator.clone();
            options.merge_operator = Some(spec.operator.clone());
        }
        ColumnFamilyDescriptor::new(name, options)
    };
    let descriptors = names.iter().map(descriptor);
    let read = || -> esker::Result<Families> {
        let db = Db::open_with(&options, dir, descriptors, OpenMode::ReadOnly)?;
        let mut families = Families::new();
        for name in &names {
            let mut iter =
                db.iter_cf(&db.column_family(name).expect("the database was opened with this family"))?;
            let mut pairs = Vec::new();
            iter.seek_to_first();
            while let Some((key, value)) = iter.item() {
                pairs.push((key.to_vec(), value.to_vec()));
                iter.next();
            }
            iter.status()?;
            families.insert(name.clone(), pairs);
        }
        Ok(families)
    };
    read().map_err(|e| e.to_string())
}

impl Process {
    fn start(program: &Path) -> std::io::Result<Process> {
        let process = Answering::start(program)?;
        Ok(Process { program: program.to_owned(), process, work: TempDir::new("second-reader") })
    }

    /// Sends the question to the reader and waits for its answer. `None`: there was no answer in
    /// time.
    /// # Errors
    /// The process has ended, or its output is not an answer.
    fn ask(
        &mut self,
        disk: &CrashFs,
        from: &Path,
        specs: &[ModelFamilySpec],
    ) -> Result<Option<Answer>, String> {
        self.write_out(disk, from)?;
        let mut question = self.work.path().display().to_string();
        for spec in specs {
            question += &format!("\t{} {}", spec.name, spec.options_of_rocksdb());
        }
        let broken = |e: std::io::Error| e.to_string();
        self.process.ask(&question).map_err(broken)?;
        let mut families = Families::new();
        let mut last = None;
        loop {
            let line = match self.process.line(PATIENCE) {
                Ok(line) => line,
                Err(e) if e.kind() == ErrorKind::TimedOut => return Ok(None),
                Err(e) => return Err(format!("no answer: {e}")),
            };
            if line == "." {
                return Ok(Some(Ok(families)));
            }
            if let Some(why) = line.strip_prefix("refused ") {
                return Ok(Some(Err(why.to_owned())));
            }
            if let Some(name) = line.strip_prefix("family ") {
                last = Some(families.entry(name.to_owned()).or_default());
                continue;
            }
            let pair = line.split_once(' ').and_then(|(key, value)| Some((unhex(key)?, unhex(value)?)));
            let (Some(pair), Some(family)) = (pair, &mut last) else {
                return Err(format!("no answer: {line}"));
            };
            family.push(pair);
        }
    }

    /// Makes the directory contain exactly the files of the disk.
    fn write_out(&self, disk: &CrashFs, from: &Path) -> Result<(), String> {
        let broken = |e: std::io::Error| e.to_string();
        for file in std::fs::read_dir(self.work.path()).map_err(broken)? {
            std::fs::remove_file(file.map_err(broken)?.path()).map_err(broken)?;
        }
        let copy = |name: &String| -> esker::Result<Vec<u8>> {
            let path = from.join(name);
            let mut bytes =
                vec![0; usize::try_from(disk.file_size(&path)?).expect("a file in memory fits into usize")];
            let n = disk.new_sequential_file(&path)?.read(&mut bytes)?;
            bytes.truncate(n);
            Ok(bytes)
        };
        for name in disk.children(from).map_err(|e| e.to_string())? {
            let bytes = copy(&name).map_err(|e| e.to_string())?;
            std::fs::write(self.work.path().join(&name), bytes).map_err(broken)?;
        }
        Ok(())
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}
