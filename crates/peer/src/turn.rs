//! One party's turn with a database, in a process of its own: two versions of RocksDB in one process crash, and a process
//! that is to be killed must not be ours.
//!
//! In: a [`Turn`], as text in a file. Out: what the party found and what it left, as text in another; then the process closes the
//! database or waits to be killed with it open.
//!
//!   key value…          one line each; bytes as hex digits, a dot for none
//!
//! Invariant: whoever is to be killed has told everything before, and does nothing any more.

use crate::api::load_library;
use crate::contents::{Contents, hex, unhex};
use crate::library::{FamilySpec, RocksDb, WriteFlags};
use crate::world::{Op, write_to_esker};
use esker::options::{OptionStruct, TargetVersion, cf_options_from_string};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, FlushOptions, OpenMode,
    ReadOptions, WriteOptions,
};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Who has the turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Engine {
    /// Esker, writing what RocksDB of this version reads.
    Esker(TargetVersion),
    /// RocksDB by this library.
    Library(PathBuf),
}

/// What is done when everything is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finish {
    /// Nothing.
    Nothing,
    /// All families are flushed.
    Flush,
    /// All families are compacted.
    Compact,
}

/// What a party does with a database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Who.
    pub engine: Engine,
    /// The database.
    pub dir: PathBuf,
    /// Only looks.
    pub read_only: bool,
    /// Options of the database, `name=value;…`.
    pub db_options: String,
    /// Its families and their options.
    pub families: Vec<FamilySpec>,
    /// What is written, batch by batch; empty batches stand for a flush in between.
    pub batches: Vec<Vec<Op>>,
    /// What follows.
    pub finish: Finish,
    /// Killed with the database open, in place of closing it.
    pub killed: bool,
}

/// What a party found and left: the contents of each family.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Found {
    /// When it had opened the database.
    pub before: Vec<Contents>,
    /// When it was through.
    pub after: Vec<Contents>,
}

/// What the program prints when it has told everything.
const THROUGH: &str = "through";

impl Turn {
    /// Has `program` (the binary `esker-party`) do it.
    /// # Errors
    /// What the party said.
    pub fn run(&self, program: &Path) -> Result<Found, String> {
        let work = esker_testkit::TempDir::new("turn");
        let (task, told) = (work.join("task"), work.join("told"));
        std::fs::write(&task, self.print()).map_err(|e| e.to_string())?;
        let mut child = Command::new(program)
            .args([&task, &told])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", program.display()))?;
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).map_err(|e| e.to_string())?;
        if self.killed {
            child.kill().map_err(|e| e.to_string())?;
        }
        let output = child.wait_with_output().map_err(|e| e.to_string())?;
        if line.trim() != THROUGH || !(self.killed || output.status.success()) {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{:?}: {}: {}", self.engine, output.status, said.trim()));
        }
        parse_found(&std::fs::read_to_string(&told).map_err(|e| e.to_string())?)
    }

    /// Does what the file `task` says in this process, and tells it in `told`.
    /// # Errors
    /// The party's.
    pub fn run_here(task: &Path, told: &Path) -> Result<(), String> {
        let text = std::fs::read_to_string(task).map_err(|e| e.to_string())?;
        let turn = Turn::parse(&text).ok_or("the task cannot be read")?;
        let party = Party::open(&turn)?;
        let mut found = Found { before: party.contents(&turn)?, after: Vec::new() };
        if !turn.read_only {
            party.write(&turn)?;
        }
        party.verify()?;
        found.after = party.contents(&turn)?;
        std::fs::write(told, print_found(&found)).map_err(|e| e.to_string())?;
        let mut out = std::io::stdout();
        writeln!(out, "{THROUGH}").and_then(|()| out.flush()).map_err(|e| e.to_string())?;
        if turn.killed {
            // Ends with the process: nobody writes to it.
            std::io::stdin().read_to_end(&mut Vec::new()).map_err(|e| e.to_string())?;
        }
        party.close()
    }

    fn print(&self) -> String {
        let mut out = String::new();
        let mut line = |parts: &[&str]| writeln!(out, "{}", parts.join(" ")).expect("a String");
        match &self.engine {
            Engine::Esker(target) => line(&["esker", target.name()]),
            Engine::Library(path) => line(&["library", &bytes_text(path.to_string_lossy().as_bytes())]),
        }
        line(&["dir", &bytes_text(self.dir.to_string_lossy().as_bytes())]);
        line(&["options", &bytes_text(self.db_options.as_bytes())]);
        for family in &self.families {
            line(&["family", &bytes_text(family.name.as_bytes()), &bytes_text(family.options.as_bytes())]);
        }
        for batch in &self.batches {
            line(&["batch"]);
            for op in batch {
                let (kind, a, b) = op_parts(op);
                line(&["op", kind, &bytes_text(op.family().as_bytes()), &bytes_text(a), &bytes_text(b)]);
            }
        }
        line(&["finish", &format!("{:?}", self.finish)]);
        line(&["end", if self.killed { "killed" } else { "closed" }]);
        line(&["mode", if self.read_only { "read" } else { "write" }]);
        out
    }

    fn parse(text: &str) -> Option<Turn> {
        let mut turn = Turn {
            engine: Engine::Esker(TargetVersion::V7_8),
            dir: PathBuf::new(),
            read_only: false,
            db_options: String::new(),
            families: Vec::new(),
            batches: Vec::new(),
            finish: Finish::Nothing,
            killed: false,
        };
        for line in text.lines() {
            let parts: Vec<&str> = line.split(' ').collect();
            match *parts {
                ["esker", target] => turn.engine = Engine::Esker(TargetVersion::from_name(target).ok()?),
                ["library", path] => turn.engine = Engine::Library(text_of(path)?.into()),
                ["dir", path] => turn.dir = text_of(path)?.into(),
                ["options", options] => turn.db_options = text_of(options)?,
                ["family", name, options] => {
                    turn.families.push(FamilySpec::new(text_of(name)?, text_of(options)?));
                }
                ["batch"] => turn.batches.push(Vec::new()),
                ["op", kind, family, a, b] => {
                    let op = op_of(kind, text_of(family)?, bytes_of(a)?, bytes_of(b)?)?;
                    turn.batches.last_mut()?.push(op);
                }
                ["finish", "Flush"] => turn.finish = Finish::Flush,
                ["finish", "Compact"] => turn.finish = Finish::Compact,
                ["finish", _] => {}
                ["end", end] => turn.killed = end == "killed",
                ["mode", mode] => turn.read_only = mode == "read",
                _ => return None,
            }
        }
        Some(turn)
    }
}

/// Kind, key and the rest.
fn op_parts(op: &Op) -> (&'static str, &[u8], &[u8]) {
    match op {
        Op::Put { key, value, .. } => ("put", key, value),
        Op::Delete { key, .. } => ("delete", key, b""),
        Op::SingleDelete { key, .. } => ("single", key, b""),
        Op::Merge { key, operand, .. } => ("merge", key, operand),
        Op::DeleteRange { begin, end, .. } => ("range", begin, end),
    }
}

fn op_of(kind: &str, family: String, a: Vec<u8>, b: Vec<u8>) -> Option<Op> {
    Some(match kind {
        "put" => Op::Put { family, key: a, value: b },
        "delete" => Op::Delete { family, key: a },
        "single" => Op::SingleDelete { family, key: a },
        "merge" => Op::Merge { family, key: a, operand: b },
        "range" => Op::DeleteRange { family, begin: a, end: b },
        _ => return None,
    })
}

fn bytes_text(bytes: &[u8]) -> String {
    if bytes.is_empty() { ".".to_owned() } else { hex(bytes) }
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    if text == "." { Some(Vec::new()) } else { unhex(text) }
}

fn text_of(text: &str) -> Option<String> {
    String::from_utf8(bytes_of(text)?).ok()
}

fn print_found(found: &Found) -> String {
    let mut out = String::new();
    for (when, families) in [("before", &found.before), ("after", &found.after)] {
        for contents in families {
            writeln!(out, "{when}").expect("a String");
            for (key, value) in &contents.0 {
                writeln!(out, "{} {}", bytes_text(key), bytes_text(value)).expect("a String");
            }
        }
    }
    out
}

fn parse_found(text: &str) -> Result<Found, String> {
    let mut found = Found::default();
    let mut is_before = true;
    for line in text.lines() {
        match line.split_once(' ') {
            None => {
                is_before = line == "before";
                let list = if is_before { &mut found.before } else { &mut found.after };
                list.push(Contents::default());
            }
            Some((key, value)) => {
                let pair = bytes_of(key).zip(bytes_of(value)).ok_or("the told contents cannot be read")?;
                let list = if is_before { &mut found.before } else { &mut found.after };
                list.last_mut().ok_or("contents of no family were told")?.0.push(pair);
            }
        }
    }
    Ok(found)
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
            Engine::Library(path) => {
                load_library(path)?;
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

    fn write(&self, turn: &Turn) -> Result<(), String> {
        for batch in &turn.batches {
            match self {
                _ if batch.is_empty() => self.flush(turn)?,
                Party::Esker(db) => {
                    write_to_esker(db, batch, &WriteOptions::default()).map_err(|e| e.to_string())?;
                }
                Party::RocksDb(db) => db.write(batch, WriteFlags::default())?,
            }
        }
        match turn.finish {
            Finish::Nothing => Ok(()),
            Finish::Flush => self.flush(turn),
            Finish::Compact => self.compact(turn),
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

    /// Checksums of all blocks, where there is a function for that.
    fn verify(&self) -> Result<(), String> {
        match self {
            Party::Esker(_) => Ok(()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_and_what_was_found_come_back_from_text() {
        let family = "with:special#chars\\ and blanks".to_owned();
        let turn = Turn {
            engine: Engine::Library("/a b/lib.so".into()),
            dir: "/tmp/x y".into(),
            read_only: true,
            db_options: "a=b;c={d=e}".to_owned(),
            families: vec![FamilySpec::new(family.clone(), "")],
            batches: vec![
                vec![
                    Op::Put { family: family.clone(), key: b"k\0".to_vec(), value: Vec::new() },
                    Op::DeleteRange { family: family.clone(), begin: Vec::new(), end: b"z".to_vec() },
                ],
                Vec::new(),
                vec![Op::SingleDelete { family, key: b"s".to_vec() }],
            ],
            finish: Finish::Compact,
            killed: true,
        };
        assert_eq!(Turn::parse(&turn.print()), Some(turn));
        let contents = Contents(vec![(b"k".to_vec(), Vec::new()), (Vec::new(), b"v".to_vec())]);
        let found = Found { before: vec![Contents::default(), contents.clone()], after: vec![contents] };
        assert_eq!(parse_found(&print_found(&found)), Ok(found));
        assert!(parse_found("0x6b 0x6c").is_err());
    }
}
