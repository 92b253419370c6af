//! Ingestions by RocksDB.

use super::RocksDb;
use crate::api::{Api, IngestOptions, NEEDS_11};
use crate::c_data::{c_path, call};
use std::ffi::{CString, c_char};
use std::path::PathBuf;

impl RocksDb {
    /// Ingests files into `family`. With `move_files`, RocksDB removes their old names.
    /// # Errors
    /// RocksDB's, as text.
    pub fn ingest_external_files(
        &self,
        family: &str,
        files: &[PathBuf],
        move_files: bool,
    ) -> Result<(), String> {
        self.ingest(family, files, |api, options| {
            // SAFETY: `options` is live during the call.
            unsafe { (api.ingestexternalfileoptions_set_move_files)(options, u8::from(move_files)) };
        })
    }

    /// Ingests files into `family` behind all its data.
    /// # Errors
    /// RocksDB's, as text.
    pub fn ingest_behind(&self, family: &str, files: &[PathBuf]) -> Result<(), String> {
        self.ingest(family, files, |api, options| {
            // SAFETY: `options` is live during the call.
            unsafe { (api.ingestexternalfileoptions_set_ingest_behind)(options, 1) };
        })
    }

    /// Ingests tables of another database into `family`, with their sequence numbers, by links.
    /// # Errors
    /// RocksDB's, as text.
    pub fn ingest_tables_of_a_database(&self, family: &str, files: &[PathBuf]) -> Result<(), String> {
        self.ingest(family, files, |api, options| {
            let (link, allow) = (
                api.ingestexternalfileoptions_set_link_files.expect(NEEDS_11),
                api.ingestexternalfileoptions_set_allow_db_generated_files.expect(NEEDS_11),
            );
            // SAFETY: `options` is live during the call.
            unsafe { link(options, 1) };
            // SAFETY: `options` is live during the call.
            unsafe { allow(options, 1) };
        })
    }

    fn ingest(
        &self,
        family: &str,
        files: &[PathBuf],
        set: impl FnOnce(&Api, *mut IngestOptions),
    ) -> Result<(), String> {
        let family = self.family(family);
        let paths: Vec<CString> = files.iter().map(|path| c_path(path)).collect();
        let pointers: Vec<*const c_char> = paths.iter().map(|path| path.as_ptr()).collect();
        // SAFETY: the function has no requirements.
        let options = unsafe { (self.api.ingestexternalfileoptions_create)() };
        set(self.api, options);
        let result = call(self.api, |error| {
            let (files, count) = (pointers.as_ptr(), pointers.len());
            // SAFETY: database, family and options are live; there are `count` strings, which end
            // in NUL and outlive the call.
            unsafe { (self.api.ingest_external_file_cf)(self.db, family, files, count, options, error) }
        });
        // SAFETY: the options were made above, and are not used again.
        unsafe { (self.api.ingestexternalfileoptions_destroy)(options) };
        result
    }
}
