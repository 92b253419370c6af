//! Tables made elsewhere, taken in.

use super::{ColumnFamilyHandle, Db};
use crate::ingest::{FamilyFiles, ingest};
use crate::options::IngestExternalFileOptions;
use esker_base::{Error, Result};
use std::path::{Path, PathBuf};

/// Files for one family.
#[derive(Clone, Debug)]
pub struct IngestExternalFileArg<'a> {
    /// The family.
    pub column_family: &'a ColumnFamilyHandle,
    /// Files that `SstFileWriter` made with the family's comparator. Where they overlap, later ones
    /// count.
    pub external_files: Vec<PathBuf>,
    /// Checksums of the whole files, as their maker said them: none, or one for each file. Only
    /// looked at with `file_checksum_gen_factory`, as the next.
    pub files_checksums: Vec<Vec<u8>>,
    /// The functions that they were made with.
    pub files_checksum_func_names: Vec<String>,
}

impl<'a> IngestExternalFileArg<'a> {
    /// Files without checksums.
    pub fn new(column_family: &'a ColumnFamilyHandle, external_files: Vec<PathBuf>) -> Self {
        IngestExternalFileArg {
            column_family,
            external_files,
            files_checksums: Vec::new(),
            files_checksum_func_names: Vec::new(),
        }
    }
}

impl Db {
    /// Takes the files into the default family.
    /// # Errors
    /// As [`Db::ingest_external_files`].
    pub fn ingest_external_file(
        &self,
        external_files: &[impl AsRef<Path>],
        options: &IngestExternalFileOptions,
    ) -> Result<()> {
        self.ingest_external_file_cf(&self.default_column_family(), external_files, options)
    }

    /// Takes the files into `family`.
    /// # Errors
    /// As [`Db::ingest_external_files`].
    pub fn ingest_external_file_cf(
        &self,
        family: &ColumnFamilyHandle,
        external_files: &[impl AsRef<Path>],
        options: &IngestExternalFileOptions,
    ) -> Result<()> {
        let external_files = external_files.iter().map(|path| path.as_ref().to_owned()).collect();
        self.ingest_external_files(&[IngestExternalFileArg::new(family, external_files)], options)
    }

    /// Takes the files of several families in, all of them or none, as one write that is newer than
    /// all before. Writers wait while memtables that overlap are flushed and the MANIFEST is
    /// written; the files are copied before.
    /// # Errors
    /// `InvalidArgument`: no files, a family named twice, a file that `SstFileWriter` did not make,
    /// checksums that are not one for each file or of a function that is not known, or what the
    /// options rule out · `TryAgain`: a file does not fit into the last level
    /// (`fail_if_not_bottommost_level`) · `Corruption`, also of a range deletion that ends before
    /// it begins · `NotSupported` when read-only, naming the option, or where timestamps are to be
    /// kept in memory only · `ColumnFamilyDropped` · the background error in force · `IoError`.
    /// Nothing was taken in then, and the files are where they were. Where the write to the MANIFEST
    /// failed, that is certain after [`Db::resume`] or [`Db::close`] only.
    pub fn ingest_external_files(
        &self,
        args: &[IngestExternalFileArg<'_>],
        options: &IngestExternalFileOptions,
    ) -> Result<()> {
        let engine = self.engine();
        engine.check_writable()?;
        engine.check_open()?;
        check_options(options)?;
        if args.is_empty() {
            return Err(Error::invalid_argument("ingestion arg list is empty"));
        }
        for (i, arg) in args.iter().enumerate() {
            arg.column_family.check_live(self)?;
            if arg.external_files.is_empty() {
                return Err(Error::invalid_argument("external file list is empty"));
            }
            if args[..i].iter().any(|other| other.column_family.id() == arg.column_family.id()) {
                return Err(Error::invalid_argument(
                    "ingestion args have duplicate column families; put all files of one into one arg",
                ));
            }
        }
        let families: Vec<FamilyFiles<'_>> = args
            .iter()
            .map(|arg| FamilyFiles {
                cf: &arg.column_family.cf,
                files: arg.external_files.clone(),
                checksums: &arg.files_checksums,
                checksum_func_names: &arg.files_checksum_func_names,
            })
            .collect();
        ingest(engine, &self.inner.write_path, &families, options)
    }
}

fn check_options(options: &IngestExternalFileOptions) -> Result<()> {
    let refused = [
        (options.ingest_behind, "ingest_behind"),
        (options.write_global_seqno, "write_global_seqno: the MANIFEST has the number"),
    ];
    match refused.iter().find(|(set, _)| *set) {
        Some((_, what)) => Err(Error::not_supported(format!("IngestExternalFileOptions: {what}"))),
        None => Ok(()),
    }
}
