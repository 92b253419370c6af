//! Runs RocksDB's tools of version 7.8.3 as processes.
//!
//! In: a directory and a command. Out: the parsed output. `ldb` opens a database with the options
//! of its newest OPTIONS file. If that file has an option name that 7.8.3 does not know, `ldb`
//! fails.

use crate::contents::{Contents, hex, unhex};
use crate::model_ops::PeerOp;
use esker_base::crc32c;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// The version that `ldb --version` must name.
const VERSION: &str = "7.8";

/// The programs `ldb` and `sst_dump`.
#[derive(Clone, Copy, Debug)]
pub struct Tools(());

/// An entry as `ldb idump` prints it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InternalEntry {
    /// The user key.
    pub key: Vec<u8>,
    /// The sequence number.
    pub sequence: u64,
    /// The code of the entry's type: 0 deletion, 1 value, 2 merge, 7 single deletion, 17 blob
    /// index, 22 entity.
    pub kind: u8,
    /// The value or the merge operand.
    pub value: Vec<u8>,
}

impl Tools {
    /// Finds the tools.
    /// # Errors
    /// The tools are not installed, or `ldb` has another version.
    pub fn find() -> Result<Tools, String> {
        static FOUND: OnceLock<Result<Tools, String>> = OnceLock::new();
        let find = || {
            let version = output(Command::new("ldb").arg("--version"))?;
            output(Command::new("sst_dump").arg("--version"))?;
            if !version.contains(&format!("RocksDB {VERSION}")) {
                return Err(format!("ldb is not {VERSION}: {}", version.trim()));
            }
            Ok(Tools(()))
        };
        FOUND.get_or_init(find).clone()
    }

    /// Runs `ldb --db=DB ARGS`.
    /// # Errors
    /// The command and all its output, if the command failed.
    pub fn ldb<A: AsRef<OsStr>>(
        self,
        db: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Result<String, String> {
        output(Command::new("ldb").arg(argument("--db=", db)).args(args))
    }

    /// Reads a family by `ldb scan`.
    /// # Errors
    /// The errors of [`Tools::ldb`], and the first line of the output that is not an entry.
    pub fn contents(self, db: &Path, family: &str) -> Result<Contents, String> {
        let text = self.ldb(db, ["scan", "--hex", &family_argument(family)])?;
        let pair = |line: &str| {
            let (key, value) = line.split_once(" : ")?;
            Some((unhex(key)?, unhex(value)?))
        };
        let unreadable = |line: &str| format!("ldb scan printed '{line}'");
        let pairs = text.lines().map(|line| pair(line).ok_or_else(|| unreadable(line)));
        pairs.collect::<Result<_, _>>().map(Contents)
    }

    /// Reads all versions of all keys of a family by `ldb idump`. Versions under a range deletion
    /// are left out.
    /// # Errors
    /// The errors of [`Tools::ldb`], and the first line of the output that is not an entry.
    pub fn internal_entries(self, db: &Path, family: &str) -> Result<Vec<InternalEntry>, String> {
        let text = self.ldb(db, ["idump", "--hex", &family_argument(family)])?;
        let entry = |line: &str| {
            let (key, rest) = line.strip_prefix('\'')?.split_once("' seq:")?;
            let (sequence, rest) = rest.split_once(", type:")?;
            let (kind, value) = rest.split_once(" =>")?;
            let (sequence, kind) = (sequence.parse().ok()?, kind.parse().ok()?);
            Some(InternalEntry { key: unhex(key)?, sequence, kind, value: unhex(value.trim_start())? })
        };
        let mut entries = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with("Internal keys in range")) {
            entries.push(entry(line).ok_or_else(|| format!("ldb idump printed '{line}'"))?);
        }
        Ok(entries)
    }

    /// Compares files with the MANIFEST by `ldb checkconsistency`.
    /// # Errors
    /// The errors of [`Tools::ldb`], and an error if the output is not `OK`.
    pub fn check_consistency(self, db: &Path) -> Result<(), String> {
        let text = self.ldb(db, ["checkconsistency"])?;
        if text.trim() == "OK" { Ok(()) } else { Err(format!("ldb checkconsistency printed '{text}'")) }
    }

    /// Lists the names of the families by `ldb list_column_families`.
    /// # Errors
    /// The errors of [`Tools::ldb`], and the output if it has no list of names.
    pub fn list_column_families(self, db: &Path) -> Result<Vec<String>, String> {
        let text = self.ldb(db, ["list_column_families"])?;
        let names = text.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map(|(names, _)| names);
        let names = names.ok_or_else(|| format!("ldb list_column_families printed '{text}'"))?;
        Ok(names.split(", ").map(str::to_owned).collect())
    }

    /// Compares each table and blob file with its CRC32C in the MANIFEST, if the MANIFEST has one
    /// for it. `ldb file_checksum_dump` reads the MANIFEST. Returns the number of compared files.
    /// # Errors
    /// The errors of [`Tools::ldb`], and an error that names the first file that is missing or
    /// differs.
    pub fn check_file_checksums(self, db: &Path) -> Result<usize, String> {
        let text = self.ldb(db, ["file_checksum_dump", "--hex"])?;
        let mut checked = 0;
        for line in text.lines() {
            let Some((number, rest)) = line.split_once(", FileChecksumCrc32c, ") else { continue };
            let path = ["sst", "blob"].map(|kind| db.join(format!("{number:0>6}.{kind}")));
            let path = path.iter().find(|path| path.exists()).ok_or_else(|| format!("no file {number}"))?;
            let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
            let found = hex(&crc32c::value(&bytes).to_be_bytes());
            if rest.trim() != found {
                return Err(format!("{}: CRC32C {found}, the MANIFEST says {rest}", path.display()));
            }
            checked += 1;
        }
        Ok(checked)
    }

    /// Verifies each table in `db` by `sst_dump --command=verify`. Returns the number of tables.
    /// # Errors
    /// The output of `sst_dump`, if it fails or does not report each table as ok.
    pub fn verify_tables(self, db: &Path) -> Result<usize, String> {
        let tables = table_count(db);
        if tables == 0 {
            return Ok(0);
        }
        let text = output(Command::new("sst_dump").arg(argument("--file=", db)).arg("--command=verify"))?;
        let good = text.lines().filter(|line| *line == "The file is ok").count();
        if good == tables {
            Ok(tables)
        } else {
            Err(format!("sst_dump found {good} of {tables} tables ok:\n{text}"))
        }
    }

    /// Applies `ops` by `ldb`. One `batchput` stores successive puts to one family. Every other
    /// operation is a command of its own.
    /// # Errors
    /// The errors of [`Tools::ldb`].
    ///
    /// # Panics
    /// If `ldb` has no command for an operation.
    pub fn apply(self, db: &Path, ops: &[PeerOp]) -> Result<(), String> {
        let mut ops = ops.iter().peekable();
        while let Some(op) = ops.next() {
            let mut args = vec!["--hex".to_owned(), family_argument(op.family())];
            match op {
                PeerOp::Put { family, key, value } => {
                    let mut pairs = vec![hex(key), hex(value)];
                    while let Some(PeerOp::Put { key, value, .. }) =
                        ops.next_if(|next| matches!(next, PeerOp::Put { family: f, .. } if f == family))
                    {
                        pairs.extend([hex(key), hex(value)]);
                    }
                    args.push(if pairs.len() == 2 { "put" } else { "batchput" }.to_owned());
                    args.extend(pairs);
                }
                PeerOp::Delete { key, .. } => args.extend(["delete".to_owned(), hex(key)]),
                PeerOp::DeleteRange { begin, end, .. } => {
                    args.extend(["deleterange".to_owned(), hex(begin), hex(end)]);
                }
                PeerOp::SingleDelete { .. } | PeerOp::Merge { .. } => {
                    panic!("ldb {VERSION} cannot do {op:?}")
                }
            }
            self.ldb(db, args)?;
        }
        Ok(())
    }
}

fn table_count(db: &Path) -> usize {
    let entries = std::fs::read_dir(db)
        .expect("the database is a directory")
        .map(|entry| entry.expect("the directory can be read").path());
    entries.filter(|path| path.extension().is_some_and(|e| e == "sst")).count()
}

fn family_argument(family: &str) -> String {
    format!("--column_family={family}")
}

fn argument(prefix: &str, path: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from(prefix);
    argument.push(path);
    argument
}

/// Runs a command and returns its standard output.
/// # Errors
/// The command and all its output, if the command failed.
fn output(command: &mut Command) -> Result<String, String> {
    let result = command.output().map_err(|error| format!("{command:?} cannot be run: {error}"))?;
    let out = String::from_utf8_lossy(&result.stdout).into_owned();
    if result.status.success() {
        return Ok(out);
    }
    let err = String::from_utf8_lossy(&result.stderr);
    Err(format!("{command:?}: {}\n{out}{err}", result.status))
}
