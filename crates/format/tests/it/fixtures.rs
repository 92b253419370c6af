//! The places and the contents of the golden files.

use esker_format::file_name::{FileType, parse_current, parse_file_name};
use esker_format::log::{LogReader, SliceSource, next_strict};
use esker_format::version_edit::VersionEdit;
use std::path::{Path, PathBuf};

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");

/// Directories of databases whose name starts with `prefix`, sorted.
pub(crate) fn databases(prefix: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(ROOT)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix))
        .map(|path| path.join("db"))
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no fixture is called {prefix}*");
    found
}

pub(crate) fn database(name: &str) -> PathBuf {
    Path::new(ROOT).join(name).join("db")
}

#[expect(
    clippy::disallowed_methods,
    reason = "golden files are outside the environment that the engine sees"
)]
pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Files of one kind in a database, by number.
pub(crate) fn files(db: &Path, wanted: FileType) -> Vec<(u64, PathBuf)> {
    let mut found: Vec<(u64, PathBuf)> = std::fs::read_dir(db)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter_map(|path| match parse_file_name(path.file_name()?.to_str()?)? {
            (file_type, number) if file_type == wanted => Some((number.0, path)),
            _ => None,
        })
        .collect();
    found.sort();
    found
}

/// The MANIFEST that CURRENT names, as bytes.
pub(crate) fn manifest(db: &Path) -> Vec<u8> {
    let number = parse_current(&read(&db.join("CURRENT"))).unwrap();
    read(&esker_format::file_name::descriptor_file_name(db, number))
}

/// The records of a MANIFEST.
pub(crate) fn manifest_records(bytes: &[u8], name: &str) -> Vec<Vec<u8>> {
    let mut reader = LogReader::new(SliceSource(bytes), 0);
    let mut record = Vec::new();
    let mut records = Vec::new();
    while next_strict(&mut reader, &mut record, &name).unwrap() {
        records.push(record.clone());
    }
    records
}

pub(crate) fn manifest_edits(db: &Path) -> Vec<VersionEdit> {
    let name = db.display().to_string();
    let records = manifest_records(&manifest(db), &name);
    records
        .iter()
        .map(|record| VersionEdit::decode(record).unwrap_or_else(|e| panic!("{name}: {e}")))
        .collect()
}
