//! The peer process, which opens databases with one engine, reads them and writes to them.
//!
//! Tests need it for two reasons: two versions of RocksDB in one process crash, and a test must not
//! kill its own process. A peer process takes many steps until it is killed, because its start
//! costs more than most steps.
//!
//! In: a working directory, and lines on standard input. Before each line `step`, the parent writes
//! a [`PeerStep`] into the file `task` of that directory. Out: lines on standard output. When the
//! process prints the line `through`, the step is done. The file `told` then has the contents of
//! the database before and after the step.
//!
//!   parent:  step                    …                          close
//!   peer process:          through | error HEX   closed | error HEX
//!
//! Invariant: between `through` and `close` the database is open and idle. The parent may kill the
//! process then.

use crate::api::load_library;
use crate::contents::{Contents, hex};
use crate::library::{FamilySpec, RocksDb, WriteFlags, write_sst_file};
use crate::model_ops::{PeerOp, write_to_esker};
use crate::step::{PeerEngine, PeerStep, StepContents, StepFinish, WriteStep, print_found};
use esker::options::{OptionStruct, TargetVersion, cf_options_from_string};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, FlushOptions,
    IngestExternalFileOptions, OpenMode, Options, ReadOptions, SstFileWriter, WriteOptions,
};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// The lines that parent and peer process exchange.
pub(crate) const STEP: &str = "step";
pub(crate) const CLOSE: &str = "close";
pub(crate) const THROUGH: &str = "through";
pub(crate) const CLOSED: &str = "closed";
pub(crate) const ERROR: &str = "error ";

/// Takes steps in the working directory `work` until standard input ends.
/// # Errors
/// An error of the pipes, or a line that is no command.
pub fn serve(work: &Path) -> Result<(), String> {
    let mut open: Option<PeerProcess> = None;
    let mut has_library = false;
    for line in std::io::stdin().lines() {
        let result = match (line.map_err(|e| e.to_string())?.as_str(), open.take()) {
            (STEP, None) => take_step(work, &mut has_library).map(|peer_process| {
                open = Some(peer_process);
                THROUGH
            }),
            (CLOSE, Some(peer_process)) => peer_process.close().map(|()| CLOSED),
            (line, _) => return Err(format!("'{line}' is not what was expected")),
        };
        let answer = result.map_or_else(|why| format!("{ERROR}{}", hex(why.as_bytes())), str::to_owned);
        let mut out = std::io::stdout();
        writeln!(out, "{answer}").and_then(|()| out.flush()).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn take_step(work: &Path, has_library: &mut bool) -> Result<PeerProcess, String> {
    let text = std::fs::read_to_string(work.join("task")).map_err(|e| e.to_string())?;
    let step = PeerStep::parse(&text).ok_or("the task cannot be read")?;
    if let PeerEngine::Library(path) = &step.engine
        && !std::mem::replace(has_library, true)
    {
        load_library(path)?;
    }
    let peer_process = PeerProcess::open(&step)?;
    let mut found = StepContents { before: peer_process.contents(&step)?, after: Vec::new() };
    if !step.read_only {
        peer_process.write(&step, work)?;
    }
    peer_process.verify(&step)?;
    found.after = peer_process.contents(&step)?;
    std::fs::write(work.join("told"), print_found(&found)).map_err(|e| e.to_string())?;
    Ok(peer_process)
}

/// An engine with its open database.
enum PeerProcess {
    Esker(Db),
    RocksDb(RocksDb),
}

impl PeerProcess {
    fn open(step: &PeerStep) -> Result<PeerProcess, String> {
        match &step.engine {
            PeerEngine::Esker(target) => {
                open_esker(step, *target).map(PeerProcess::Esker).map_err(|e| e.to_string())
            }
            PeerEngine::Library(_) => {
                let open = if step.read_only { RocksDb::open_for_read_only } else { RocksDb::open };
                open(&step.dir, &step.db_options, &step.families).map(PeerProcess::RocksDb)
            }
        }
    }

    fn contents(&self, step: &PeerStep) -> Result<Vec<Contents>, String> {
        let of = |family: &FamilySpec| match self {
            PeerProcess::Esker(db) => {
                let handle = db.column_family(&family.name).ok_or("a family is missing")?;
                Contents::of(db, &handle, &ReadOptions::default()).map_err(|e| e.to_string())
            }
            PeerProcess::RocksDb(db) => {
                let contents = db.contents(&family.name, None)?;
                for (key, value) in &contents.0 {
                    if db.get(&family.name, key, None)?.as_ref() != Some(value) {
                        return Err(format!("get of {} is not what the scan shows", hex(key)));
                    }
                }
                Ok(contents)
            }
        };
        step.families.iter().map(of).collect()
    }

    fn write(&self, step: &PeerStep, work: &Path) -> Result<(), String> {
        for write in &step.steps {
            match (write, self) {
                (WriteStep::Flush, _) => self.flush(step)?,
                (WriteStep::Write(ops), PeerProcess::Esker(db)) => {
                    write_to_esker(db, ops, &WriteOptions::default()).map_err(|e| e.to_string())?;
                }
                (WriteStep::Write(ops), PeerProcess::RocksDb(db)) => db.write(ops, WriteFlags::default())?,
                (WriteStep::Ingest(ops), _) => self.ingest(step, ops, &work.join("ingested.sst"))?,
            }
        }
        match step.finish {
            StepFinish::Nothing => Ok(()),
            StepFinish::Flush => self.flush(step),
            StepFinish::Compact => self.compact(step),
        }
    }

    /// Writes `ops` into a table with the engine, and ingests that table. The ingestion moves the
    /// file if the number of `ops` is even; otherwise it copies the file.
    fn ingest(&self, step: &PeerStep, ops: &[PeerOp], file: &Path) -> Result<(), String> {
        let Some(first) = ops.first() else { return Ok(()) };
        let family = step.families.iter().find(|f| f.name == first.family()).ok_or("a family is missing")?;
        let move_files = ops.len().is_multiple_of(2);
        match self {
            PeerProcess::Esker(db) => {
                esker_sst_file(&step.engine, family, ops, file).map_err(|e| e.to_string())?;
                let handle = db.column_family(&family.name).ok_or("a family is missing")?;
                let options =
                    IngestExternalFileOptions { move_files, ..IngestExternalFileOptions::default() };
                db.ingest_external_file_opt(&options, &handle, &[file]).map_err(|e| e.to_string())?;
            }
            PeerProcess::RocksDb(db) => {
                write_sst_file(file, &family.options, ops)?;
                db.ingest_external_files(&family.name, &[file.to_owned()], move_files)?;
            }
        }
        match std::fs::remove_file(file) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e.to_string()),
            _ => Ok(()),
        }
    }

    fn flush(&self, step: &PeerStep) -> Result<(), String> {
        match self {
            PeerProcess::Esker(db) => {
                let names = step.families.iter().filter_map(|f| db.column_family(&f.name));
                let handles: Vec<_> = names.collect();
                let handles: Vec<_> = handles.iter().collect();
                db.flush_opt(&FlushOptions::default(), &handles).map_err(|e| e.to_string())
            }
            PeerProcess::RocksDb(db) => step.families.iter().try_for_each(|f| db.flush(&f.name)),
        }
    }

    fn compact(&self, step: &PeerStep) -> Result<(), String> {
        for family in &step.families {
            match self {
                PeerProcess::Esker(db) => {
                    let handle = db.column_family(&family.name).ok_or("a family is missing")?;
                    let options = CompactRangeOptions::default();
                    db.compact_range_opt(&options, &handle, None, None).map_err(|e| e.to_string())?;
                }
                PeerProcess::RocksDb(db) => db.compact(&family.name),
            }
        }
        Ok(())
    }

    /// Checks the checksums of all blocks, if the engine's library has a function for this check.
    /// With Esker, also checks the file checksums in the MANIFEST, if the options request them.
    fn verify(&self, step: &PeerStep) -> Result<(), String> {
        match self {
            PeerProcess::Esker(db) => {
                let has_sums = step.db_options.contains("file_checksum_gen_factory");
                let sums = if has_sums { db.verify_file_checksums() } else { Ok(()) };
                sums.and_then(|()| db.verify_checksum()).map_err(|e| e.to_string())
            }
            PeerProcess::RocksDb(db) => db.verify_checksum(),
        }
    }

    fn close(self) -> Result<(), String> {
        match self {
            PeerProcess::Esker(db) => db.close().map_err(|e| e.to_string()),
            PeerProcess::RocksDb(db) => {
                drop(db);
                Ok(())
            }
        }
    }
}

fn open_esker(step: &PeerStep, target: TargetVersion) -> esker::Result<Db> {
    let mut options = DbOptions { compatible_with: target, ..DbOptions::default() };
    options.set_from_string(&step.db_options)?;
    let family = |f: &FamilySpec| {
        let options = cf_options_from_string(&ColumnFamilyOptions::default(), &f.options)?;
        Ok(ColumnFamilyDescriptor::new(f.name.clone(), options))
    };
    let families = step.families.iter().map(family).collect::<esker::Result<Vec<_>>>()?;
    let mode = if step.read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
    Db::open_with(&options, &step.dir, families, mode)
}

fn esker_sst_file(
    engine: &PeerEngine,
    family: &FamilySpec,
    ops: &[PeerOp],
    file: &Path,
) -> esker::Result<()> {
    let mut options = Options::default();
    if let PeerEngine::Esker(target) = engine {
        options.db.compatible_with = *target;
    }
    options.cf = cf_options_from_string(&options.cf, &family.options)?;
    let mut writer = SstFileWriter::new(&options);
    writer.open(file)?;
    for op in ops {
        match op {
            PeerOp::Put { key, value, .. } => writer.put(key, value)?,
            PeerOp::Merge { key, operand, .. } => writer.merge(key, operand)?,
            PeerOp::Delete { key, .. } | PeerOp::SingleDelete { key, .. } => writer.delete(key)?,
            PeerOp::DeleteRange { begin, end, .. } => writer.delete_range(begin, end)?,
        }
    }
    writer.finish().map(drop)
}
