//! A program that takes turns with databases for one engine: two versions of RocksDB in one process
//! crash, and a process that is to be killed must not be ours. One process has many turns, until it
//! is killed: starting one costs more than most turns.
//!
//! In: a directory to work in. For each line `turn` on standard input there is a [`Turn`] in its
//! file `task`. Out: what the party found and what it left, in its file `told`, and a line:
//!
//!   parent:  turn                    …                          close
//!   party:          through | error HEX   closed | error HEX
//!
//! Invariant: between `through` and `close` the database is open and nobody does anything with it:
//! then the process may be killed.

use crate::api::load_library;
use crate::contents::{Contents, hex};
use crate::library::{FamilySpec, RocksDb, WriteFlags, write_sst_file};
use crate::turn::{Engine, Finish, Found, Step, Turn, print_found};
use crate::world::{Op, write_to_esker};
use esker::options::{OptionStruct, TargetVersion, cf_options_from_string};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, FlushOptions,
    IngestExternalFileOptions, OpenMode, Options, ReadOptions, SstFileWriter, WriteOptions,
};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// What the parent says, and what the party does.
pub(crate) const TURN: &str = "turn";
pub(crate) const CLOSE: &str = "close";
pub(crate) const THROUGH: &str = "through";
pub(crate) const CLOSED: &str = "closed";
pub(crate) const ERROR: &str = "error ";

/// Takes turns in `work` until standard input ends.
/// # Errors
/// Of the pipes; or that a line means nothing.
pub fn serve(work: &Path) -> Result<(), String> {
    let mut open: Option<Party> = None;
    let mut has_library = false;
    for line in std::io::stdin().lines() {
        let result = match (line.map_err(|e| e.to_string())?.as_str(), open.take()) {
            (TURN, None) => take_turn(work, &mut has_library).map(|party| {
                open = Some(party);
                THROUGH
            }),
            (CLOSE, Some(party)) => party.close().map(|()| CLOSED),
            (line, _) => return Err(format!("'{line}' is not what was expected")),
        };
        let said = result.map_or_else(|why| format!("{ERROR}{}", hex(why.as_bytes())), str::to_owned);
        let mut out = std::io::stdout();
        writeln!(out, "{said}").and_then(|()| out.flush()).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn take_turn(work: &Path, has_library: &mut bool) -> Result<Party, String> {
    let text = std::fs::read_to_string(work.join("task")).map_err(|e| e.to_string())?;
    let turn = Turn::parse(&text).ok_or("the task cannot be read")?;
    if let Engine::Library(path) = &turn.engine
        && !std::mem::replace(has_library, true)
    {
        load_library(path)?;
    }
    let party = Party::open(&turn)?;
    let mut found = Found { before: party.contents(&turn)?, after: Vec::new() };
    if !turn.read_only {
        party.write(&turn, work)?;
    }
    party.verify(&turn)?;
    found.after = party.contents(&turn)?;
    std::fs::write(work.join("told"), print_found(&found)).map_err(|e| e.to_string())?;
    Ok(party)
}

/// An engine that has the database open.
enum Party {
    Esker(Db),
    RocksDb(RocksDb),
}

impl Party {
    fn open(turn: &Turn) -> Result<Party, String> {
        match &turn.engine {
            Engine::Esker(target) => open_esker(turn, *target).map(Party::Esker).map_err(|e| e.to_string()),
            Engine::Library(_) => {
                let open = if turn.read_only { RocksDb::open_for_read_only } else { RocksDb::open };
                open(&turn.dir, &turn.db_options, &turn.families).map(Party::RocksDb)
            }
        }
    }

    fn contents(&self, turn: &Turn) -> Result<Vec<Contents>, String> {
        let of = |family: &FamilySpec| match self {
            Party::Esker(db) => {
                let handle = db.column_family(&family.name).ok_or("a family is missing")?;
                Contents::of(db, &handle, &ReadOptions::default()).map_err(|e| e.to_string())
            }
            Party::RocksDb(db) => {
                let contents = db.contents(&family.name, None)?;
                for (key, value) in &contents.0 {
                    if db.get(&family.name, key, None)?.as_ref() != Some(value) {
                        return Err(format!("get of {} is not what the scan shows", hex(key)));
                    }
                }
                Ok(contents)
            }
        };
        turn.families.iter().map(of).collect()
    }

    fn write(&self, turn: &Turn, work: &Path) -> Result<(), String> {
        for step in &turn.steps {
            match (step, self) {
                (Step::Flush, _) => self.flush(turn)?,
                (Step::Write(ops), Party::Esker(db)) => {
                    write_to_esker(db, ops, &WriteOptions::default()).map_err(|e| e.to_string())?;
                }
                (Step::Write(ops), Party::RocksDb(db)) => db.write(ops, WriteFlags::default())?,
                (Step::Ingest(ops), _) => self.ingest(turn, ops, &work.join("ingested.sst"))?,
            }
        }
        match turn.finish {
            Finish::Nothing => Ok(()),
            Finish::Flush => self.flush(turn),
            Finish::Compact => self.compact(turn),
        }
    }

    /// In a file of its own, made by the same engine, which may be moved.
    fn ingest(&self, turn: &Turn, ops: &[Op], file: &Path) -> Result<(), String> {
        let Some(first) = ops.first() else { return Ok(()) };
        let family = turn.families.iter().find(|f| f.name == first.family()).ok_or("a family is missing")?;
        let move_files = ops.len().is_multiple_of(2);
        match self {
            Party::Esker(db) => {
                esker_sst_file(&turn.engine, family, ops, file).map_err(|e| e.to_string())?;
                let handle = db.column_family(&family.name).ok_or("a family is missing")?;
                let options =
                    IngestExternalFileOptions { move_files, ..IngestExternalFileOptions::default() };
                db.ingest_external_file_cf(&handle, &[file], &options).map_err(|e| e.to_string())?;
            }
            Party::RocksDb(db) => {
                write_sst_file(file, &family.options, ops)?;
                db.ingest_external_files(&family.name, &[file.to_owned()], move_files)?;
            }
        }
        match std::fs::remove_file(file) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e.to_string()),
            _ => Ok(()),
        }
    }

    fn flush(&self, turn: &Turn) -> Result<(), String> {
        match self {
            Party::Esker(db) => {
                let names = turn.families.iter().filter_map(|f| db.column_family(&f.name));
                let handles: Vec<_> = names.collect();
                let handles: Vec<_> = handles.iter().collect();
                db.flush_opt(&FlushOptions::default(), &handles).map_err(|e| e.to_string())
            }
            Party::RocksDb(db) => turn.families.iter().try_for_each(|f| db.flush(&f.name)),
        }
    }

    fn compact(&self, turn: &Turn) -> Result<(), String> {
        for family in &turn.families {
            match self {
                Party::Esker(db) => {
                    let handle = db.column_family(&family.name).ok_or("a family is missing")?;
                    let options = CompactRangeOptions::default();
                    db.compact_range_opt(&options, &handle, None, None).map_err(|e| e.to_string())?;
                }
                Party::RocksDb(db) => db.compact(&family.name),
            }
        }
        Ok(())
    }

    /// Checksums of all blocks, and of whole files where the MANIFEST has them, if there is a
    /// function for that.
    fn verify(&self, turn: &Turn) -> Result<(), String> {
        match self {
            Party::Esker(db) => {
                let has_sums = turn.db_options.contains("file_checksum_gen_factory");
                let sums = if has_sums { db.verify_file_checksums() } else { Ok(()) };
                sums.and_then(|()| db.verify_checksum()).map_err(|e| e.to_string())
            }
            Party::RocksDb(db) => db.verify_checksum(),
        }
    }

    fn close(self) -> Result<(), String> {
        match self {
            Party::Esker(db) => db.close().map_err(|e| e.to_string()),
            Party::RocksDb(db) => {
                drop(db);
                Ok(())
            }
        }
    }
}

fn open_esker(turn: &Turn, target: TargetVersion) -> esker::Result<Db> {
    let mut options = DbOptions { compatible_with: target, ..DbOptions::default() };
    options.set_from_string(&turn.db_options)?;
    let family = |f: &FamilySpec| {
        let options = cf_options_from_string(&ColumnFamilyOptions::default(), &f.options)?;
        Ok(ColumnFamilyDescriptor::new(f.name.clone(), options))
    };
    let families = turn.families.iter().map(family).collect::<esker::Result<Vec<_>>>()?;
    let mode = if turn.read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
    Db::open_with(&options, &turn.dir, families, mode)
}

fn esker_sst_file(engine: &Engine, family: &FamilySpec, ops: &[Op], file: &Path) -> esker::Result<()> {
    let mut options = Options::default();
    if let Engine::Esker(target) = engine {
        options.db.compatible_with = *target;
    }
    options.cf = cf_options_from_string(&options.cf, &family.options)?;
    let mut writer = SstFileWriter::new(&options);
    writer.open(file)?;
    for op in ops {
        match op {
            Op::Put { key, value, .. } => writer.put(key, value)?,
            Op::Merge { key, operand, .. } => writer.merge(key, operand)?,
            Op::Delete { key, .. } | Op::SingleDelete { key, .. } => writer.delete(key)?,
            Op::DeleteRange { begin, end, .. } => writer.delete_range(begin, end)?,
        }
    }
    writer.finish().map(drop)
}
