//! Damages databases: in every fixture a byte is flipped, a block is zeroed, or a file is cut off,
//! missing or exchanged with another.
//!
//! In: a golden database, and the distance between two flipped bytes. Out: counts of right cases,
//! and each finding: a panic, a wrong value, or an error that names no file.
//!
//! These outcomes are right:
//! * The contents are those of the undamaged database.
//! * The opening or a later read fails with `Corruption`, `NotSupported` or `InvalidArgument` and
//!   names a damaged file.
//! * The contents are an earlier state, after any whole record: a damaged WAL or MANIFEST may end
//!   where it can be read no further.
//! * A log silently lost a piece in the middle (zeros, a whole file), and each value is one that
//!   its key had.
//!
//! Invariant: nothing touches the disk. A case is a file system in memory that holds the fixture's
//! bytes with one change.

mod cases;
mod repaired;

use crate::fixture::Fixture;
use cases::Damage;
use esker::comparator::{BytewiseComparatorWithU64Ts, ComparatorRef, ReverseBytewiseComparatorWithU64Ts};
use esker::internals::env::FileSystem;
use esker::internals::env::mem::MemFs;
use esker::options::load_latest_options_from;
use esker::{
    ColumnFamilyDescriptor, Db, DbOptions, Env, Error, ErrorKind, OpenMode, ReadOptions, SubCode, builtin,
};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// Path of the database in a file system.
const DIR: &str = "/db";

/// A database's files: names and bytes.
type Files = BTreeMap<String, Vec<u8>>;

/// Counts of cases by their outcome.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DamageTally {
    /// All cases.
    pub cases: u64,
    /// Cases in which an error named a damaged file.
    pub errors: u64,
    /// Cases in which the contents were complete.
    pub whole: u64,
    /// Cases in which the contents were the state after an earlier record of a log.
    pub earlier: u64,
    /// Databases that were repaired.
    pub repaired: u64,
    /// Descriptions of the wrong cases.
    pub findings: Vec<String>,
}

impl DamageTally {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: DamageTally) {
        self.cases += other.cases;
        self.errors += other.errors;
        self.whole += other.whole;
        self.earlier += other.earlier;
        self.repaired += other.repaired;
        self.findings.extend(other.findings);
    }
}

/// Damages `fixture` in every way. Flips every `step`-th byte, and repairs every `repair_step`-th
/// case.
pub fn campaign(fixture: &Fixture, step: usize, repair_step: u64) -> DamageTally {
    let subject = Subject::new(fixture);
    let mut tally = DamageTally::default();
    for damage in cases::all(&subject.files, step) {
        tally.cases += 1;
        let outcome = catch_unwind(AssertUnwindSafe(|| subject.check(&damage)));
        match outcome {
            Ok(Ok(DamageOutcome::Error)) => tally.errors += 1,
            Ok(Ok(DamageOutcome::Whole)) => tally.whole += 1,
            Ok(Ok(DamageOutcome::Earlier)) => tally.earlier += 1,
            Ok(Err(what)) => tally.findings.push(format!("{}: {damage:?}: {what}", fixture.name)),
            Err(_) => tally.findings.push(format!("{}: {damage:?}: PANIC", fixture.name)),
        }
        if tally.cases.is_multiple_of(repair_step) && damage.calls_for_repair() {
            tally.repaired += 1;
            match catch_unwind(AssertUnwindSafe(|| subject.check_repair(&damage))) {
                Ok(Ok(())) => {}
                Ok(Err(what)) => {
                    tally.findings.push(format!("{}: {damage:?}: repaired: {what}", fixture.name));
                }
                Err(_) => tally.findings.push(format!("{}: {damage:?}: repaired: PANIC", fixture.name)),
            }
        }
    }
    tally
}

/// The outcome of a right case.
enum DamageOutcome {
    Error,
    Whole,
    Earlier,
}

/// All contents: families, and the columns of each key (with timestamp).
type State = Vec<(String, Vec<Entry>)>;
/// A key, its timestamp, its columns.
type Entry = (Vec<u8>, Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>);

struct Subject {
    files: Files,
    has_transactions: bool,
    has_timestamps: bool,
    /// The comparator of families with timestamps, if no OPTIONS file names it.
    order: ComparatorRef,
    /// Whether the files have checksums. Without them no reader can notice a flipped byte.
    has_checksums: bool,
    whole: State,
    /// Hashes of the states after each record of a log.
    earlier: BTreeSet<u64>,
    /// For each key, hashes of the values that it had in the earlier states.
    values: BTreeMap<(String, Vec<u8>), BTreeSet<u64>>,
}

impl Subject {
    fn new(fixture: &Fixture) -> Subject {
        let mut subject = Subject {
            files: files_of(&fixture.db()),
            has_transactions: fixture.name.contains("_txn_"),
            has_timestamps: fixture.name.contains("_udt_"),
            order: if fixture.name.contains("_udt_reverse") {
                Arc::new(ReverseBytewiseComparatorWithU64Ts)
            } else {
                Arc::new(BytewiseComparatorWithU64Ts)
            },
            has_checksums: !fixture.name.contains("checksum_none"),
            whole: State::new(),
            earlier: BTreeSet::new(),
            values: BTreeMap::new(),
        };
        subject.whole = subject.read(&subject.files).unwrap_or_else(|e| panic!("{}: {e}", fixture.name));
        let whole = std::mem::take(&mut subject.whole);
        subject.note(&whole);
        subject.whole = whole;
        for (name, bytes) in subject.files.clone() {
            if !cases::is_log(&name) {
                continue;
            }
            for end in cases::record_ends(&name, &bytes) {
                let mut files = subject.files.clone();
                files.insert(name.clone(), bytes[..end].to_vec());
                if let Ok(state) = subject.read(&files) {
                    subject.note(&state);
                }
            }
        }
        subject
    }

    fn note(&mut self, state: &State) {
        self.earlier.insert(hash_of(state));
        for (family, entries) in state {
            for entry in entries {
                self.values.entry((family.clone(), entry.0.clone())).or_default().insert(hash_of(entry));
            }
        }
    }

    fn check(&self, damage: &Damage) -> Result<DamageOutcome, String> {
        let files = damage.applied(&self.files);
        match self.read(&files) {
            Ok(state) if state == self.whole => Ok(DamageOutcome::Whole),
            Ok(_) if damage.is_blind() && !self.has_checksums => Ok(DamageOutcome::Whole),
            Ok(state) if damage.is_of_log() && self.earlier.contains(&hash_of(&state)) => {
                Ok(DamageOutcome::Earlier)
            }
            Ok(state) if damage.may_leave_a_hole() => {
                self.each_value_was_there(&state).map(|()| DamageOutcome::Earlier)
            }
            Ok(state) => Err(format!("reads as something else: {}", first_difference(&state, &self.whole))),
            // Without a checksum, a wrong byte is found only when it is used.
            Err(e) if !self.has_checksums && e.kind() == ErrorKind::Corruption => Ok(DamageOutcome::Error),
            Err(error) => named(&error, damage).map(|()| DamageOutcome::Error),
        }
    }

    fn each_value_was_there(&self, state: &State) -> Result<(), String> {
        for (family, entries) in state {
            for entry in entries {
                let had = self.values.get(&(family.clone(), entry.0.clone()));
                if had.is_none_or(|had| !had.contains(&hash_of(entry))) {
                    return Err(format!("'{family}': {} never had this value", entry.0.escape_ascii()));
                }
            }
        }
        Ok(())
    }

    /// Opens the files read-only and reads everything, with checksums.
    fn read(&self, files: &Files) -> esker::Result<State> {
        let fs = file_system(files);
        let options = self.db_options(&fs);
        let families = self.families(&fs, &options)?;
        let db = Db::open_with(&options, DIR, families, OpenMode::ReadOnly)?;
        self.state(&db)
    }

    fn state(&self, db: &Db) -> esker::Result<State> {
        let mut state = State::new();
        for name in db.column_family_names() {
            let family = db.column_family(&name).expect("the family was listed above");
            let options = ReadOptions {
                timestamp: self.has_timestamps.then(|| vec![0xFF; 8]),
                verify_checksums: true,
                ..ReadOptions::default()
            };
            let mut iter = db.iter_opt(options, &family)?;
            let mut entries = Vec::new();
            iter.seek_to_first();
            while iter.valid() {
                let columns = iter.columns().iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
                entries.push((iter.key().to_vec(), iter.timestamp().to_vec(), columns));
                iter.next();
            }
            iter.status()?;
            state.push((name, entries));
        }
        Ok(state)
    }

    fn db_options(&self, fs: &MemFs) -> DbOptions {
        DbOptions {
            allow_2pc: self.has_transactions,
            env: Env::with_fs(Arc::new(fs.clone())),
            ..DbOptions::default()
        }
    }

    /// Families as a user would describe them.
    fn families(&self, fs: &MemFs, options: &DbOptions) -> esker::Result<Vec<ColumnFamilyDescriptor>> {
        let loaded = match load_latest_options_from(fs, Path::new(DIR)) {
            Ok(loaded) => Some(loaded),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        let names = Db::list_column_families(options, DIR)?;
        let descriptor = |name: String| {
            let mut family = loaded.as_ref().and_then(|l| l.family(&name)).cloned().unwrap_or_default();
            if self.has_timestamps && family.comparator.timestamp_size() == 0 {
                family.comparator = Arc::clone(&self.order);
            }
            family.merge_operator.get_or_insert_with(|| builtin::string_append(","));
            ColumnFamilyDescriptor::new(name, family)
        };
        Ok(names.into_iter().map(descriptor).collect())
    }
}

/// Checks that the error has one of the three kinds and names a damaged file.
fn named(error: &Error, damage: &Damage) -> Result<(), String> {
    let text = error.to_string();
    let kinds = [ErrorKind::Corruption, ErrorKind::NotSupported, ErrorKind::InvalidArgument];
    // Without CURRENT there is no database: as in RocksDB, its families cannot be listed.
    let no_database = damage.takes_current() && error.subcode() == SubCode::PathNotFound;
    if !kinds.contains(&error.kind()) && !no_database {
        return Err(format!("{:?}: {text}", error.kind()));
    }
    if damage.names().iter().any(|name| text.contains(name.as_str())) {
        Ok(())
    } else {
        Err(format!("names no damaged file: {:?}: {text}", error.kind()))
    }
}

fn first_difference(state: &State, expected: &State) -> String {
    for ((family, found), (_, should)) in state.iter().zip(expected) {
        let at = (0..found.len().max(should.len())).find(|&i| found.get(i) != should.get(i));
        if let Some(at) = at {
            let key = |entries: &[Entry]| {
                entries.get(at).map_or("nothing".to_owned(), |e| e.0.escape_ascii().to_string())
            };
            return format!("'{family}' at entry {at}: {}, should be {}", key(found), key(should));
        }
    }
    format!("{} families, should be {}", state.len(), expected.len())
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn files_of(dir: &Path) -> Files {
    let mut files = Files::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("the file can be read").path();
        let name = path.file_name().expect("the path has a last name").to_string_lossy().into_owned();
        files.insert(name, std::fs::read(&path).expect("the file can be read"));
    }
    files
}

/// A file system in memory with these files.
fn file_system(files: &Files) -> MemFs {
    let fs = MemFs::new();
    fs.create_dir_if_missing(Path::new(DIR)).expect("a file system in memory makes files");
    for (name, bytes) in files {
        let mut file =
            fs.new_writable_file(&Path::new(DIR).join(name)).expect("a file system in memory makes files");
        file.append(bytes).and_then(|()| file.close()).expect("written");
    }
    fs
}
