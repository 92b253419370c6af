//! Files in memory, by name.

use esker_base::{Error, FileNumber, Result};
use esker_format::file_name::{FileType, parse_file_name};
use std::collections::BTreeMap;
use std::fmt;

/// The files of a database's directory. Other paths of a database (`db_paths`, `wal_dir`) may come
/// into the same value, because numbers are unique in a database.
#[derive(Default)]
pub struct DirectoryFiles {
    bytes: BTreeMap<String, Vec<u8>>,
}

impl DirectoryFiles {
    /// No files.
    pub fn new() -> DirectoryFiles {
        DirectoryFiles::default()
    }

    /// Adds a file, or replaces one. `name` is the name in the directory, such as `000012.sst`.
    pub fn insert(&mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.bytes.insert(name.into(), bytes.into());
    }

    pub(crate) fn get(&self, name: &str) -> Result<&[u8]> {
        match self.bytes.get(name) {
            Some(bytes) => Ok(bytes),
            None => Err(Error::corruption(format!("{name}: the file is missing"))),
        }
    }

    /// A table, under its own or its older name.
    pub(crate) fn table(&self, number: FileNumber) -> Result<(String, &[u8])> {
        let old = format!("{:06}.ldb", number.0);
        let name = if self.bytes.contains_key(&old) { old } else { format!("{:06}.sst", number.0) };
        let bytes = self.get(&name)?;
        Ok((name, bytes))
    }

    /// The numbers of all WALs, ascending.
    pub(crate) fn wals(&self) -> Vec<FileNumber> {
        let mut numbers: Vec<FileNumber> = self.of_type(FileType::Wal).map(|(number, _)| number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The newest OPTIONS file, if there is one.
    pub(crate) fn options(&self) -> Option<&[u8]> {
        self.of_type(FileType::Options).max_by_key(|(number, _)| *number).map(|(_, bytes)| bytes)
    }

    fn of_type(&self, wanted: FileType) -> impl Iterator<Item = (FileNumber, &[u8])> {
        self.bytes.iter().filter_map(move |(name, bytes)| match parse_file_name(name) {
            Some((found, number)) if found == wanted => Some((number, bytes.as_slice())),
            _ => None,
        })
    }
}

impl fmt::Debug for DirectoryFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.bytes.keys()).finish()
    }
}
