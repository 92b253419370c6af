//! One blob file of a version: its content, and its garbage.
//!
//! Source: RocksDB `db/blob/blob_file_meta.h`, `db/version_builder.cc`.
//!
//! Invariants
//!  1. Garbage never exceeds the file's content.
//!  2. A blob file stays while a table refers to it or to an older blob file, unless all of it is
//!     garbage.

use super::Level;
use super::file_meta::{ObsoleteBlob, ObsoleteFiles};
use esker_base::sync::Arc;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::{Error, FileNumber, Result};
use esker_format::blob::file::{FOOTER_BYTES, HEADER_BYTES};
use esker_format::file_name::FilePaths;
use esker_format::version_edit::{BlobFileAddition, BlobFileGarbage};
use std::collections::{BTreeMap, BTreeSet};

/// A blob file and its garbage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlobFileMeta {
    /// The file's description in the MANIFEST.
    pub addition: BlobFileAddition,
    /// Number of records to which no table refers.
    pub garbage_blob_count: u64,
    /// Bytes of these records.
    pub garbage_blob_bytes: u64,
}

impl BlobFileMeta {
    /// A file without garbage.
    pub fn new(addition: BlobFileAddition) -> BlobFileMeta {
        BlobFileMeta { addition, garbage_blob_count: 0, garbage_blob_bytes: 0 }
    }

    /// Bytes of the file.
    pub fn file_size(&self) -> u64 {
        blob_file_size(&self.addition)
    }

    /// The file's garbage as part of an edit; `None` if there is none.
    pub fn garbage(&self) -> Option<BlobFileGarbage> {
        (self.garbage_blob_count > 0 || self.garbage_blob_bytes > 0).then_some(BlobFileGarbage {
            number: self.addition.number,
            garbage_blob_count: self.garbage_blob_count,
            garbage_blob_bytes: self.garbage_blob_bytes,
        })
    }

    pub(super) fn is_all_garbage(&self) -> bool {
        self.garbage_blob_count >= self.addition.total_blob_count
    }
}

/// Bytes of a blob file.
pub(crate) fn blob_file_size(addition: &BlobFileAddition) -> u64 {
    addition.total_blob_bytes + (HEADER_BYTES + FOOTER_BYTES) as u64
}

/// A blob file on disk while some version names it. When the last version of an installed file is
/// dropped, its number goes into the set's [`ObsoleteFiles`].
#[derive(Debug)]
pub struct LiveBlobFile {
    number: FileNumber,
    paths: FilePaths,
    /// Whether a logged edit has named the file. Until then its writer is responsible for it.
    installed: AtomicBool,
    obsolete: Arc<ObsoleteFiles>,
}

impl LiveBlobFile {
    /// The file's number.
    pub fn number(&self) -> FileNumber {
        self.number
    }

    pub(super) fn new(number: FileNumber, paths: &FilePaths, obsolete: &Arc<ObsoleteFiles>) -> LiveBlobFile {
        let (installed, obsolete) = (AtomicBool::new(false), Arc::clone(obsolete));
        LiveBlobFile { number, paths: paths.clone(), installed, obsolete }
    }

    pub(super) fn set_installed(&self) {
        self.installed.store(true, Ordering::Relaxed);
    }
}

impl Drop for LiveBlobFile {
    fn drop(&mut self) {
        if self.installed.load(Ordering::Relaxed) && self.obsolete.are_ours() {
            self.obsolete.add_blob(ObsoleteBlob { number: self.number, paths: self.paths.clone() });
        }
    }
}

/// The blob files of a family by number.
pub(crate) type BlobFiles = BTreeMap<FileNumber, BlobFileMeta>;

/// References that keep blob files on disk.
pub(crate) type LiveBlobFiles = BTreeMap<FileNumber, Arc<LiveBlobFile>>;

/// Adds a blob file.
/// # Errors
/// `Corruption` if the file exists already.
pub(super) fn add(files: &mut BlobFiles, addition: &BlobFileAddition) -> Result<()> {
    match files.insert(addition.number, BlobFileMeta::new(addition.clone())) {
        None => Ok(()),
        Some(_) => Err(Error::corruption(format!("blob file #{} is added twice", addition.number))),
    }
}

/// Counts more of a blob file as garbage.
/// # Errors
/// `Corruption` if there is no such file, or if it holds fewer records or bytes.
pub(super) fn add_garbage(files: &mut BlobFiles, garbage: &BlobFileGarbage) -> Result<()> {
    let Some(meta) = files.get_mut(&garbage.number) else {
        return Err(Error::corruption(format!(
            "garbage in blob file #{}, which is not there",
            garbage.number
        )));
    };
    let count = meta.garbage_blob_count.checked_add(garbage.garbage_blob_count);
    let bytes = meta.garbage_blob_bytes.checked_add(garbage.garbage_blob_bytes);
    match (count, bytes) {
        (Some(c), Some(b)) if c <= meta.addition.total_blob_count && b <= meta.addition.total_blob_bytes => {
            (meta.garbage_blob_count, meta.garbage_blob_bytes) = (c, b);
            Ok(())
        }
        _ => Err(Error::corruption(format!("more garbage in blob file #{} than it holds", garbage.number))),
    }
}

/// Drops unneeded blob files: files before the oldest one that a table of `levels` names, and
/// unnamed files that are all garbage. (A table names only the oldest file to which it refers.)
pub(super) fn retire(files: &mut BlobFiles, levels: &[Arc<Level>]) {
    if files.is_empty() {
        return;
    }
    let named = levels.iter().flat_map(|level| level.oldest_blob_files()).copied();
    let named: BTreeSet<FileNumber> = named.filter(|n| files.contains_key(n)).collect();
    let Some(&oldest) = named.first() else {
        files.clear();
        return;
    };
    files.retain(|n, meta| *n >= oldest && (named.contains(n) || !meta.is_all_garbage()));
}

/// Checks that each blob file that tables name has live records.
/// # Errors
/// `Corruption` if a table names a blob file that holds only garbage.
pub(super) fn check(files: &BlobFiles) -> Result<()> {
    match files.values().find(|m| m.is_all_garbage()) {
        None => Ok(()),
        Some(m) => {
            Err(Error::corruption(format!("blob file #{} consists entirely of garbage", m.addition.number)))
        }
    }
}
