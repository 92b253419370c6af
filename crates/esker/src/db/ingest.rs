//! Ingests tables that were written outside the database, at once or in two steps.

use super::{ColumnFamilyHandle, Db};
use crate::engine::{Engine, UnderWay};
use crate::ingest::{FamilyFiles, Ingestion, ingest};
use crate::options::{IngestExternalFileOptions, RangeOpt, Temperature};
use crate::sst_file_writer::PreparedFileInfo;
use esker_base::sync::{Arc, Weak};
use esker_base::{Error, Result};
use esker_format::file_name::{FileType, parse_file_name};
use esker_table::TableFile;
use std::fmt;
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
    /// The temperature that the files have. The MANIFEST gets it for files that are linked or
    /// moved; copies get `default_write_temperature` or `last_level_temperature`. Default
    /// `Unknown`.
    pub file_temperature: Temperature,
    /// Facts about the files, none or one for each: the call does not open a file to learn them.
    /// It believes them, so they must be about this file. A file is opened nevertheless with
    /// `verify_checksums_before_ingest`, and in a family with timestamps. Default: none.
    pub file_infos: Vec<Arc<PreparedFileInfo>>,
    /// The keys that the files replace: all of the range `[start, limit]`, both ends included, or,
    /// without ends, all keys of the family. RocksDB's `atomic_replace_range`. Default `None`.
    ///
    /// Needs `snapshot_consistency` off, because earlier snapshots lose the old keys. All keys of
    /// the files must be in the range. No table of the family may have keys on both sides of an end
    /// of the range. No compaction may be writing into the range: retry after it.
    pub atomic_replace_range: Option<RangeOpt<'a>>,
}

impl<'a> IngestExternalFileArg<'a> {
    /// Files without checksums.
    pub fn new(column_family: &'a ColumnFamilyHandle, external_files: Vec<PathBuf>) -> Self {
        IngestExternalFileArg {
            column_family,
            external_files,
            files_checksums: Vec::new(),
            files_checksum_func_names: Vec::new(),
            file_temperature: Temperature::Unknown,
            file_infos: Vec::new(),
            atomic_replace_range: None,
        }
    }
}

/// Files that are ready for an ingestion: RocksDB's `FileIngestionHandle`. Made by
/// [`Db::prepare_file_ingestion`]; [`Db::commit_file_ingestion_handles`] makes the files visible. A
/// drop deletes the database's copies of the files, as `abort` does. The handle does not keep the
/// database open; the next open deletes what a closed database has left.
#[must_use = "a dropped handle ingests nothing"]
pub struct FileIngestionHandle {
    engine: Weak<Engine>,
    ingestion: Option<Ingestion>,
}

impl FileIngestionHandle {
    /// Gives the ingestion up, and deletes the database's copies of the files.
    /// # Errors
    /// `ShutdownInProgress`: the database has closed, and its next open deletes the copies ·
    /// `NotSupported` in a forked child process, which leaves the copies in place.
    pub fn abort(mut self) -> Result<()> {
        self.give_up()
    }

    fn give_up(&mut self) -> Result<()> {
        let Some(ingestion) = self.ingestion.take() else { return Ok(()) };
        let Some(engine) = self.engine.upgrade() else {
            ingestion.leave();
            return Err(Error::shutdown_in_progress("the database was closed"));
        };
        let under_way = UnderWay::begin(&engine);
        match under_way {
            Ok(_) => drop(ingestion),
            // Another process may use the directory and the numbers of the files.
            Err(_) => ingestion.leave(),
        }
        under_way.map(drop)
    }
}

impl Drop for FileIngestionHandle {
    fn drop(&mut self) {
        // The next open deletes what this cannot.
        drop(self.give_up());
    }
}

impl fmt::Debug for FileIngestionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileIngestionHandle").finish_non_exhaustive()
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
    /// it begins · `NotSupported`: a read-only database, a forked child process, timestamps that
    /// are kept in memory only, or an option or a file (the message names it) ·
    /// `ColumnFamilyDropped` · `ShutdownInProgress`: the database was closed · the background error
    /// in force · `IoError`. Nothing is ingested then, and the files stay in place.
    pub fn ingest_external_file(&self, external_files: &[impl AsRef<Path>]) -> Result<()> {
        self.ingest_external_file_cf(&self.default_column_family(), external_files)
    }

    /// Ingests the files into `family`, as one write: see [`Db::ingest_external_files`].
    /// # Errors
    /// `InvalidArgument`: no files, a file that `SstFileWriter` did not make, or a case that the
    /// options rule out · `TryAgain`: a file does not fit into the last level
    /// (`fail_if_not_bottommost_level`) · `Corruption`, also for a range deletion that ends before
    /// it begins · `NotSupported`: a read-only database, a forked child process, timestamps that
    /// are kept in memory only, or an option or a file (the message names it) ·
    /// `ColumnFamilyDropped` · `ShutdownInProgress`: the database was closed · the background error
    /// in force · `IoError`. Nothing is ingested then, and the files stay in place.
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
    /// it begins · `NotSupported`: a read-only database, a forked child process, timestamps that
    /// are kept in memory only, or an option or a file (the message names it) ·
    /// `ColumnFamilyDropped` · `ShutdownInProgress`: the database was closed · the background error
    /// in force · `IoError`. Nothing is ingested then, and the files stay in place.
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
    /// all earlier writes. The files are copied or linked first. Writers wait only while
    /// overlapping memtables are flushed and the MANIFEST is written.
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
    /// checksums that are not one for each file or come from an unknown function, a replaced range
    /// that does not fit, or a case that the options rule out · `TryAgain`: a file does not fit
    /// into the last level (`fail_if_not_bottommost_level`) · `Corruption`, also for a range
    /// deletion that ends before it begins · `NotSupported`: a read-only database, a forked child
    /// process, timestamps that are kept in memory only, or an option or a file (the message names
    /// it) · `ColumnFamilyDropped` · `ShutdownInProgress`: the database was closed · the background
    /// error in force · `IoError`. Nothing is ingested then, and the files stay in place. If the
    /// write to the MANIFEST failed, this is certain only after [`Db::resume`] or [`Db::close`].
    pub fn ingest_external_files(
        &self,
        options: &IngestExternalFileOptions,
        args: &[IngestExternalFileArg<'_>],
    ) -> Result<()> {
        let engine = self.engine();
        let families = self.files_to_ingest(options, args)?;
        ingest(engine, &self.inner.write_path, &families, options)
    }

    /// The facts about a live table with which another database can ingest it unopened, by
    /// [`IngestExternalFileArg::file_infos`] and `allow_db_generated_files`. `path` is that of the
    /// table in this database. The first call for a table may open it. RocksDB's
    /// `GetPreparedFileInfoForExternalSstIngestion`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.join("db"))?;
    /// # let other = esker::Db::open_default(dir.join("other"))?;
    /// use esker::{IngestExternalFileArg, IngestExternalFileOptions};
    ///
    /// db.put("a", "1")?;
    /// db.flush()?;
    /// let file = db.live_files().remove(0).file;
    /// let path = file.directory.join(file.relative_filename);
    /// let family = other.default_column_family();
    /// let mut arg = IngestExternalFileArg::new(&family, vec![path.clone()]);
    /// arg.file_infos = vec![db.prepared_file_info(&path)?];
    /// let options = IngestExternalFileOptions::default().allow_db_generated_files(true);
    /// other.ingest_external_files(&options, &[arg])?;
    /// assert!(other.contains_key("a")?);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `NotFound`: no live table has this path · `NotSupported`: the table has values in blob files
    /// · the error of opening it.
    pub fn prepared_file_info(&self, path: impl AsRef<Path>) -> Result<Arc<PreparedFileInfo>> {
        let path = path.as_ref();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number =
            parse_file_name(&name).and_then(|(kind, number)| (kind == FileType::Table).then_some(number));
        for cf in self.engine().families.all() {
            let version = cf.super_version.load_full().version.clone();
            for (level, file) in version.all_files() {
                let meta = file.data();
                let is_named = Some(meta.number) == number;
                if !is_named || cf.tables.paths().table(meta.path_id, meta.number) != path {
                    continue;
                }
                if meta.oldest_blob_file_number.is_some() {
                    let what = "ingestion of a table with values in blob files";
                    return Err(Error::not_supported(what).at(path.display()));
                }
                let reader = cf.tables.reader(&TableFile { meta, level: Some(level) })?;
                let mut properties = reader.properties().clone();
                properties.key_smallest_seqno = Some(meta.smallest_seqno.0);
                properties.key_largest_seqno = Some(meta.largest_seqno.0);
                let (smallest, largest) = (meta.smallest.clone(), meta.largest.clone());
                let file_size = meta.file_size;
                return Ok(Arc::new(PreparedFileInfo { file_size, smallest, largest, properties }));
            }
        }
        Err(Error::not_found("no live table has this path").at(path.display()))
    }

    /// Prepares an ingestion: checks the files, copies or links them, and makes them durable. The
    /// database's contents stay as they are until the handle is committed, which then takes a short
    /// time. RocksDB's `PrepareFileIngestion`.
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
    /// let args = [IngestExternalFileArg::new(&family, vec![file])];
    /// let handle = db.prepare_file_ingestion(&IngestExternalFileOptions::default(), &args)?;
    /// assert!(!db.contains_key("a")?);
    /// db.commit_file_ingestion_handle(handle)?;
    /// assert!(db.contains_key("a")?);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// As for [`Db::ingest_external_files`], except errors that depend on the database's contents.
    /// The commit checks overlaps, levels and snapshots. After an error no copy of a file stays in
    /// the directory.
    pub fn prepare_file_ingestion(
        &self,
        options: &IngestExternalFileOptions,
        args: &[IngestExternalFileArg<'_>],
    ) -> Result<FileIngestionHandle> {
        let engine = self.engine();
        let families = self.files_to_ingest(options, args)?;
        let _under_way = UnderWay::begin(engine)?;
        let ingestion = Some(Ingestion::prepare(engine, &families, options)?);
        Ok(FileIngestionHandle { engine: Arc::downgrade(engine), ingestion })
    }

    /// [`Db::commit_file_ingestion_handles`] for one handle.
    /// # Errors
    /// See [`Db::commit_file_ingestion_handles`].
    pub fn commit_file_ingestion_handle(&self, handle: FileIngestionHandle) -> Result<()> {
        self.commit_file_ingestion_handles(vec![handle])
    }

    /// Makes the files of all handles visible, as one write that is newer than all earlier writes.
    /// Files of one family count as files of one call, in the order of the handles. RocksDB's
    /// `CommitFileIngestionHandles`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.join("db"))?;
    /// # use esker::{IngestExternalFileArg, IngestExternalFileOptions, Options, SstFileWriter};
    /// # let family = db.default_column_family();
    /// # let prepare = |name: &str| {
    /// #     let file = dir.join(name);
    /// #     let mut writer = SstFileWriter::new(&Options::default());
    /// #     writer.open(&file)?;
    /// #     writer.put("a", name)?;
    /// #     writer.finish()?;
    /// #     let args = [IngestExternalFileArg::new(&family, vec![file])];
    /// #     db.prepare_file_ingestion(&IngestExternalFileOptions::default(), &args)
    /// # };
    /// let (first, second) = (prepare("first")?, prepare("second")?);
    /// db.commit_file_ingestion_handles(vec![first, second])?;
    /// assert_eq!(db.get("a")?.as_deref(), Some(&b"second"[..]));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: no handles, a handle of another database, handles of one family with
    /// different options, a replaced range that does not fit, or a case that the options rule out ·
    /// `NotSupported`: a read-only database, a forked child process, or several handles of a family
    /// of which one replaces a range · `TryAgain`: a file does not fit into the last level
    /// (`fail_if_not_bottommost_level`) · `ColumnFamilyDropped` · `ShutdownInProgress`: the
    /// database was closed · the background error in force · `IoError`. Nothing is ingested then,
    /// and the handles are given up. If the write to the MANIFEST failed, this is certain only
    /// after [`Db::resume`] or [`Db::close`].
    pub fn commit_file_ingestion_handles(&self, handles: Vec<FileIngestionHandle>) -> Result<()> {
        let engine = self.engine();
        engine.check_writable()?;
        if handles.is_empty() {
            return Err(Error::invalid_argument("no file ingestion handles to commit"));
        }
        if handles.iter().any(|handle| !std::ptr::eq(handle.engine.as_ptr(), Arc::as_ptr(engine))) {
            return Err(Error::invalid_argument("the file ingestion handle is one of another database"));
        }
        let under_way = UnderWay::begin(engine)?;
        let mut ingestions = handles.into_iter().filter_map(|mut handle| handle.ingestion.take());
        let Some(mut all) = ingestions.next() else { return Ok(()) };
        ingestions.try_for_each(|next| all.join(next))?;
        all.commit(engine, &self.inner.write_path, under_way)
    }

    /// Checks the arguments of an ingestion.
    fn files_to_ingest<'a>(
        &self,
        options: &IngestExternalFileOptions,
        args: &'a [IngestExternalFileArg<'_>],
    ) -> Result<Vec<FamilyFiles<'a>>> {
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
            if !arg.file_infos.is_empty() && arg.file_infos.len() != arg.external_files.len() {
                let what = format!("file_infos[{i}] size must match external_files[{i}] size");
                return Err(Error::invalid_argument(what));
            }
            if options.ingest_behind {
                check_behind(arg)?;
            }
            if args[..i].iter().any(|other| other.column_family.id() == arg.column_family.id()) {
                return Err(Error::invalid_argument(
                    "ingestion args have duplicate column families; put all files of one into one arg",
                ));
            }
        }
        let of_family = |arg: &'a IngestExternalFileArg<'_>| FamilyFiles {
            cf: &arg.column_family.cf,
            files: &arg.external_files,
            checksums: &arg.files_checksums,
            checksum_func_names: &arg.files_checksum_func_names,
            temperature: arg.file_temperature,
            infos: &arg.file_infos,
            replaced: arg.atomic_replace_range,
        };
        Ok(args.iter().map(of_family).collect())
    }
}

fn check_options(options: &IngestExternalFileOptions) -> Result<()> {
    if options.move_files && options.link_files {
        return Err(Error::invalid_argument("`move_files` and `link_files` can not both be true."));
    }
    if options.write_global_seqno {
        let what = "IngestExternalFileOptions: write_global_seqno: the MANIFEST has the number";
        return Err(Error::not_supported(what));
    }
    if options.ingest_behind && options.allow_db_generated_files {
        let what = "`ingest_behind` and `allow_db_generated_files` can not both be true: files behind all \
                    others have sequence number 0";
        return Err(Error::invalid_argument(what));
    }
    Ok(())
}

/// Checks that files may go behind all others of this family.
fn check_behind(arg: &IngestExternalFileArg<'_>) -> Result<()> {
    let cf = &arg.column_family.cf;
    if cf.icmp.timestamp_size() > 0 {
        let what = "Column family with user-defined timestamps enabled doesn't support ingest behind.";
        return Err(Error::not_supported(what));
    }
    if !cf.super_version.load_full().version.reserves_last_level() {
        let name = &cf.name;
        let what =
            format!("Can't ingest_behind file in ColumnFamily {name} with cf_allow_ingest_behind=false");
        return Err(Error::invalid_argument(what));
    }
    if arg.atomic_replace_range.is_some() {
        let what = "Can't combine atomic_replace_range with ingest_behind.";
        return Err(Error::invalid_argument(what));
    }
    Ok(())
}
