//! Ingests tables that were written outside the database.

use super::{ColumnFamilyHandle, Db};
use crate::ingest::{FamilyFiles, ingest};
use crate::options::IngestExternalFileOptions;
use esker_base::{Error, Result};
use std::path::{Path, PathBuf};

/// Files to ingest into one family.
#[derive(Clone, Debug)]
pub struct IngestExternalFileArg<'a> {
    /// The family that gets the files.
    pub column_family: &'a ColumnFamilyHandle,
    /// Files that `SstFileWriter` wrote with the family's comparator. Where files overlap, the
    /// later file wins.
    pub external_files: Vec<PathBuf>,
    /// Checksums of the whole files, as their writer gave them: none, or one for each file. Used
    /// only with `file_checksum_gen_factory`, as is `files_checksum_func_names`.
    pub files_checksums: Vec<Vec<u8>>,
    /// Names of the functions that made the checksums, one for each.
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
    /// Ingests the files into the default family, as one write: see [`Db::ingest_external_files`].
    ///
    /// ```
    /// use esker::{Options, SstFileWriter};
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.join("db"))?;
    /// # let file = dir.join("made.sst");
    ///
    /// let mut writer = SstFileWriter::new(&Options::default());
    /// writer.open(&file)?;
    /// writer.put("a", "1")?;
    /// writer.put("b", "2")?;
    /// writer.finish()?;
    /// db.ingest_external_file(&[&file])?;
    /// assert_eq!(db.get("b")?.as_deref(), Some(&b"2"[..]));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: no files, a file that `SstFileWriter` did not make, or a case that the
    /// options rule out · `TryAgain`: a file does not fit into the last level
    /// (`fail_if_not_bottommost_level`) · `Corruption`, also for a range deletion that ends before
    /// it begins · `NotSupported`: a read-only database, an option (the message names it), or
    /// timestamps that are kept in memory only · `ColumnFamilyDropped` · the background error in
    /// force · `IoError`. Nothing is ingested then, and the files stay in place.
    pub fn ingest_external_file(&self, external_files: &[impl AsRef<Path>]) -> Result<()> {
        self.ingest_external_file_cf(&self.default_column_family(), external_files)
    }

    /// Ingests the files into `family`, as one write: see [`Db::ingest_external_files`].
    /// # Errors
    /// `InvalidArgument`: no files, a file that `SstFileWriter` did not make, or a case that the
    /// options rule out · `TryAgain`: a file does not fit into the last level
    /// (`fail_if_not_bottommost_level`) · `Corruption`, also for a range deletion that ends before
    /// it begins · `NotSupported`: a read-only database, an option (the message names it), or
    /// timestamps that are kept in memory only · `ColumnFamilyDropped` · the background error in
    /// force · `IoError`. Nothing is ingested then, and the files stay in place.
    pub fn ingest_external_file_cf(
        &self,
        family: &ColumnFamilyHandle,
        external_files: &[impl AsRef<Path>],
    ) -> Result<()> {
        self.ingest_external_file_opt(&IngestExternalFileOptions::default(), family, external_files)
    }

    /// [`Db::ingest_external_file_cf`] with options.
    /// # Errors
    /// `InvalidArgument`: no files, a file that `SstFileWriter` did not make, or a case that the
    /// options rule out · `TryAgain`: a file does not fit into the last level
    /// (`fail_if_not_bottommost_level`) · `Corruption`, also for a range deletion that ends before
    /// it begins · `NotSupported`: a read-only database, an option (the message names it), or
    /// timestamps that are kept in memory only · `ColumnFamilyDropped` · the background error in
    /// force · `IoError`. Nothing is ingested then, and the files stay in place.
    pub fn ingest_external_file_opt(
        &self,
        options: &IngestExternalFileOptions,
        family: &ColumnFamilyHandle,
        external_files: &[impl AsRef<Path>],
    ) -> Result<()> {
        let external_files = external_files.iter().map(|path| path.as_ref().to_owned()).collect();
        self.ingest_external_files(options, &[IngestExternalFileArg::new(family, external_files)])
    }

    /// Ingests files into several families, all of them or none, as one write that is newer than
    /// all earlier writes. The files are copied first. Writers wait only while overlapping
    /// memtables are flushed and the MANIFEST is written.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.join("db"))?;
    /// use esker::{IngestExternalFileArg, IngestExternalFileOptions, Options, SstFileWriter};
    /// # let file = dir.join("made.sst");
    ///
    /// let mut writer = SstFileWriter::new(&Options::default());
    /// writer.open(&file)?;
    /// writer.put("a", "1")?;
    /// writer.finish()?;
    /// let family = db.default_column_family();
    /// let options = IngestExternalFileOptions::default().move_files(true);
    /// db.ingest_external_files(&options, &[IngestExternalFileArg::new(&family, vec![file.clone()])])?;
    /// assert!(db.contains_key("a")?);
    /// assert!(db.ingest_external_file_cf(&family, &[&file]).is_err(), "it was moved");
    /// assert!(db.ingest_external_file_opt(&options, &family, &[&file]).is_err());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: no files, a family named twice, a file that `SstFileWriter` did not make,
    /// checksums that are not one for each file or come from an unknown function, or a case that
    /// the options rule out · `TryAgain`: a file does not fit into the last level
    /// (`fail_if_not_bottommost_level`) · `Corruption`, also for a range deletion that ends before
    /// it begins · `NotSupported`: a read-only database, an option (the message names it), or
    /// timestamps that are kept in memory only · `ColumnFamilyDropped` · the background error in
    /// force · `IoError`. Nothing is ingested then, and the files stay in place. If the write to
    /// the MANIFEST failed, this is certain only after [`Db::resume`] or [`Db::close`].
    pub fn ingest_external_files(
        &self,
        options: &IngestExternalFileOptions,
        args: &[IngestExternalFileArg<'_>],
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
