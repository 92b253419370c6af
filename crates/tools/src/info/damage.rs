//! Damage that `esker info` finds on its way.
//!
//! In: what is wrong with a file. Out: sentences, without those about files that a newer MANIFEST
//! does not name any more.

use super::gather::NamedFiles;
use super::model::DatabaseInfo;
use crate::manifest::ManifestState;
use esker::FileNumber;
use esker::internals::format::file_name::FileType;

/// Findings, each with the file that it is about.
#[derive(Default)]
pub(super) struct FoundDamage {
    found: Vec<(Option<(FileType, FileNumber)>, String)>,
}

impl FoundDamage {
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(super) fn table(&mut self, number: FileNumber, what: String) {
        self.found.push((Some((FileType::Table, number)), what));
    }

    pub(super) fn blob_file(&mut self, number: FileNumber, what: String) {
        self.found.push((Some((FileType::Blob, number)), what));
    }

    pub(super) fn other(&mut self, what: String) {
        self.found.push((None, what));
    }

    /// Adds the findings to `info`. `newest` is the newest MANIFEST: of a file that it does not
    /// name, only a note remains, because the database's owner has deleted the file.
    pub(super) fn report(self, mut info: DatabaseInfo, newest: &ManifestState) -> DatabaseInfo {
        let named = NamedFiles::new(newest);
        for (file, what) in self.found {
            match file {
                Some((kind, number)) if !named.has(kind, number) => {
                    let note = format!("file #{number} was deleted by the database's owner meanwhile");
                    info.notes.push(note);
                }
                _ => info.damage.push(what),
            }
        }
        info
    }
}
