//! The golden databases of `fixtures/`, which RocksDB wrote, and their expected contents.
//!
//! fixtures/README.md describes the format of `expected.txt`.

use crate::contents::{Contents, hex, unhex};
use esker_testkit::TempDir;
use std::fs;
use std::path::{Path, PathBuf};

/// One golden database.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// The name of the database's directory, such as `v7_8_bloom`.
    pub name: String,
    dir: PathBuf,
}

/// Returns the fixtures whose names begin with one of `prefixes`, sorted by name.
///
/// # Panics
/// If the directory cannot be read.
pub fn all(prefixes: &[&str]) -> Vec<Fixture> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures"));
    let mut found = all_in(root);
    found.retain(|fixture| prefixes.iter().any(|prefix| fixture.name.starts_with(prefix)));
    found
}

/// Returns all fixtures in `root`, sorted by name. `root` must have the layout of `fixtures/`.
///
/// # Panics
/// If the directory cannot be read.
pub fn all_in(root: &Path) -> Vec<Fixture> {
    let dirs = fs::read_dir(root).expect("a directory");
    let mut found: Vec<Fixture> = dirs
        .map(|entry| entry.expect("the directory can be read").path())
        .filter(|dir| dir.join("expected.txt").exists())
        .map(|dir| Fixture {
            name: dir.file_name().expect("the path has a last name").to_string_lossy().into_owned(),
            dir,
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

impl Fixture {
    /// The path of the database. Tests must not write to it.
    pub fn db(&self) -> PathBuf {
        self.dir.join("db")
    }

    /// The path of a file beside the database.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Whether the fixture is a database. Otherwise it is a single table.
    pub fn is_database(&self) -> bool {
        self.db().join("CURRENT").exists()
    }

    /// Makes a copy of the database, to which a test may write.
    pub fn copy(&self) -> TempDir {
        let copy = TempDir::new(&self.name);
        copy_files(&self.db(), copy.path());
        copy
    }

    /// The text of `expected.txt`.
    ///
    /// # Panics
    /// If the file cannot be read.
    pub fn expected_text(&self) -> String {
        fs::read_to_string(self.dir.join("expected.txt")).expect("expected.txt is in the tree")
    }

    /// The families of the database, and their expected contents.
    pub fn expected(&self) -> Vec<ExpectedFamily> {
        parse_expected(&self.expected_text())
    }

    /// The expected outcomes of a recovery of a damaged WAL, for several versions of RocksDB
    /// (`walrec_*`).
    pub fn recoveries(&self) -> Vec<ExpectedRecovery> {
        self.expected_text().lines().map(parse_recovery).collect()
    }
}

/// Copies the files of the directory `from`, which has no subdirectories, into `to`. Does not copy
/// LOCK.
///
/// # Panics
/// If a file cannot be copied.
pub fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a directory") {
        let path = entry.expect("the directory can be read").path();
        if path.is_file() && !path.ends_with("LOCK") {
            fs::copy(&path, to.join(path.file_name().expect("the path has a last name")))
                .expect("the file can be copied");
        }
    }
}

/// A key or a value in `expected.txt`.
#[derive(Clone, PartialEq, Eq)]
pub enum Datum {
    /// All bytes of the key or value.
    Bytes(Vec<u8>),
    /// Length and CRC32C of a long value.
    Digest {
        /// Length in bytes.
        len: usize,
        /// The CRC32C, not masked.
        crc: u32,
    },
}

impl std::fmt::Debug for Datum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Datum::Bytes(bytes) => f.write_str(&short(bytes)),
            Datum::Digest { len, crc } => write!(f, "#{len} {crc:08X}"),
        }
    }
}

/// Shows bytes as hex. Cuts long ones and adds their length.
fn short(bytes: &[u8]) -> String {
    match bytes.get(..48) {
        Some(start) if bytes.len() > start.len() => format!("{}… ({} bytes)", hex(start), bytes.len()),
        _ => hex(bytes),
    }
}

impl Datum {
    fn parse(text: &str) -> Datum {
        if let Some(digest) = text.strip_prefix('#') {
            let (len, crc) = digest.split_once(' ').expect("#LENGTH CRC");
            let len = len.parse().expect("the length is a number");
            return Datum::Digest { len, crc: u32::from_str_radix(crc, 16).expect("a checksum") };
        }
        Datum::Bytes(unhex(text).unwrap_or_else(|| panic!("{text}: not hex")))
    }

    fn is(&self, bytes: &[u8]) -> bool {
        match self {
            Datum::Bytes(expected) => expected == bytes,
            Datum::Digest { len, crc } => *len == bytes.len() && *crc == esker_base::crc32c::value(bytes),
        }
    }
}

/// A visible key with its value.
#[derive(Clone, Debug)]
pub struct ExpectedEntry {
    /// The user key.
    pub key: Datum,
    /// The value. For an entity, the value of its default column.
    pub value: Datum,
    /// The timestamp, if the family has timestamps.
    pub timestamp: Option<Vec<u8>>,
    /// The names and values of the columns, if the value is an entity.
    pub columns: Option<Vec<(Vec<u8>, Vec<u8>)>>,
}

/// A family of a fixture.
#[derive(Clone, Debug)]
pub struct ExpectedFamily {
    /// The family's id.
    pub id: u32,
    /// The family's name.
    pub name: String,
    /// The entries, in the family's order.
    pub entries: Vec<ExpectedEntry>,
}

impl ExpectedFamily {
    /// Compares the family with `contents`.
    /// # Errors
    /// The first difference.
    pub fn check(&self, contents: &Contents) -> Result<(), String> {
        for (i, entry) in self.entries.iter().enumerate() {
            match contents.0.get(i) {
                Some((key, value)) if entry.key.is(key) && entry.value.is(value) => {}
                Some((key, value)) => {
                    let is = format!("{} : {}", short(key), short(value));
                    return Err(format!("family '{}', entry {i} is {is}, should be {entry:?}", self.name));
                }
                None => {
                    return Err(format!(
                        "family '{}' has {i} entries, should have {}",
                        self.name,
                        self.entries.len()
                    ));
                }
            }
        }
        match contents.0.get(self.entries.len()) {
            Some((key, _)) => {
                Err(format!("family '{}' has one too many: {} is behind the last", self.name, hex(key)))
            }
            None => Ok(()),
        }
    }
}

fn parse_expected(text: &str) -> Vec<ExpectedFamily> {
    let mut families: Vec<ExpectedFamily> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with("# ")) {
        if let Some(header) = line.strip_prefix("[cf ") {
            let (id, name) = header.strip_suffix(']').and_then(|h| h.split_once(' ')).expect("[cf ID NAME]");
            let id = id.parse().expect("the field is a number");
            families.push(ExpectedFamily { id, name: name.to_owned(), entries: Vec::new() });
            continue;
        }
        let (key, value) = line.split_once(" : ").or(line.split_once(" :")).expect("KEY : VALUE");
        // A line may have " ts=0x…" or " columns=…" behind the value.
        let value = value
            .split(" ts=")
            .next()
            .and_then(|v| v.split(" columns=").next())
            .expect("`split` gives at least one part");
        let timestamp = line.split(" ts=").nth(1).and_then(unhex);
        let columns = line.split(" columns=").nth(1).map(parse_columns);
        let entry = ExpectedEntry { key: Datum::parse(key), value: Datum::parse(value), timestamp, columns };
        families.last_mut().expect("a header comes first").entries.push(entry);
    }
    families
}

/// Parses a sequence of `NAME=VALUE;` in hex.
fn parse_columns(text: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let bytes = |hex: &str| unhex(&format!("0x{hex}")).unwrap_or_else(|| panic!("{hex}: not hex"));
    let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (bytes(name), bytes(value))).collect()
}

/// The expected outcome of a recovery of a damaged WAL, by one version of RocksDB in one recovery
/// mode.
#[derive(Clone, Debug)]
pub struct ExpectedRecovery {
    /// The version of RocksDB, such as `7.8.3` or `11.9`.
    pub version: String,
    /// The number of the recovery mode.
    pub mode: u8,
    /// The outcome.
    pub outcome: RecoveryOutcome,
}

/// The outcome of a recovery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecoveryOutcome {
    /// The database opened.
    Opened {
        /// Number of visible keys.
        keys: usize,
        /// The last key.
        last: String,
        /// The last sequence number.
        sequence: u64,
    },
    /// The open failed with this message of RocksDB.
    Failed(String),
    /// The open did not end.
    Hang,
}

fn parse_recovery(line: &str) -> ExpectedRecovery {
    let (version, rest) = line.split_once(" mode=").expect("VERSION mode=M");
    let (mode, outcome) = rest.split_once(' ').expect("a line has a mode and an outcome");
    let outcome = if let Some(error) = outcome.strip_prefix("ERR ") {
        RecoveryOutcome::Failed(error.to_owned())
    } else if outcome.starts_with("HANG") {
        RecoveryOutcome::Hang
    } else {
        let field = |name: &str| {
            let found = outcome.split(' ').find_map(|f| f.strip_prefix(name));
            found.unwrap_or_else(|| panic!("{line}: no {name}"))
        };
        RecoveryOutcome::Opened {
            keys: field("keys=").parse().expect("the count is a number"),
            last: field("last=").to_owned(),
            sequence: field("seq=").parse().expect("the field is a number"),
        }
    };
    ExpectedRecovery { version: version.to_owned(), mode: mode.parse().expect("0 to 3"), outcome }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "[cf 0 default]\n0x61 : 0x31\n0x62 : #3 364B3FB7\n0x63 : \n[cf 7 a b]\n0x64 : 0x32 ts=0x00\n";

    #[test]
    fn expected_contents_are_checked_entry_by_entry() {
        let families = parse_expected(TEXT);
        assert_eq!((families.len(), families[1].id, families[1].name.as_str()), (2, 7, "a b"));
        let pair = |k: &str, v: &str| (k.as_bytes().to_vec(), v.as_bytes().to_vec());
        let right = vec![pair("a", "1"), pair("b", "abc"), pair("c", "")];
        families[0].check(&Contents(right.clone())).unwrap();
        families[1].check(&Contents(vec![pair("d", "2")])).unwrap();
        for (at, wrong) in [(0, pair("a", "2")), (1, pair("b", "abd")), (2, pair("cc", ""))] {
            let mut contents = right.clone();
            contents[at] = wrong;
            assert!(families[0].check(&Contents(contents)).is_err(), "{at}");
        }
        assert!(families[0].check(&Contents(right[..2].to_vec())).is_err());
        assert!(families[0].check(&Contents([right, vec![pair("e", "")]].concat())).is_err());
    }

    #[test]
    fn recoveries_are_read() {
        let opened = parse_recovery("11.9 mode=2 keys=20 last=k019 seq=21");
        let outcome = RecoveryOutcome::Opened { keys: 20, last: "k019".to_owned(), sequence: 21 };
        assert_eq!((opened.version.as_str(), opened.mode, opened.outcome), ("11.9", 2, outcome));
        let empty = parse_recovery("11.9 mode=0 keys=0 last= seq=0").outcome;
        assert_eq!(empty, RecoveryOutcome::Opened { keys: 0, last: String::new(), sequence: 0 });
        let failed = parse_recovery("7.8.3 mode=0 ERR Corruption: checksum mismatch").outcome;
        assert_eq!(failed, RecoveryOutcome::Failed("Corruption: checksum mismatch".to_owned()));
        assert_eq!(parse_recovery("7.8.3 mode=3 HANG(>20s)").outcome, RecoveryOutcome::Hang);
    }
}
