//! The ways to open a database: its default family or given families, for writing or for reading
//! only, as a secondary, for a job.

use super::Db;
use super::descriptor::ColumnFamilyDescriptor;
use super::open::SecondaryReads;
use crate::options::{DbOptions, Options};
use crate::version::VersionSet;
use esker_base::Result;
use std::path::Path;

/// The purpose of opening a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum OpenMode {
    /// Reads and writes; excludes every other process.
    #[default]
    ReadWrite,
    /// Reads the present contents, WALs included; changes and locks nothing. Another process may
    /// have the database open and write to it. The handle reads one point in time for its whole
    /// life: it keeps a descriptor of each table and blob file, whatever `max_open_files` says. If
    /// the process may not have that many descriptors, reading a file that the owner has deleted
    /// since gives `IoError` with sub-code `StaleFile`.
    ReadOnly,
}

impl Db {
    /// Opens the database in `path` with default options, and creates it if there is none.
    ///
    /// Opens its default family only, as [`Db::open`] does.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// let db = esker::Db::open_default(dir.join("db"))?;
    /// db.put("esker", "gravel")?;
    /// assert_eq!(db.get("esker")?.as_deref(), Some(&b"gravel"[..]));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the database has other families (the message names them) · `IoError`,
    /// retryable: the database is open elsewhere · `Corruption`: a file is damaged (the message
    /// names file and offset), or there are database files without a CURRENT · `NotSupported`: the
    /// database uses a feature that the message names · `IoError` from the directory.
    pub fn open_default(path: impl AsRef<Path>) -> Result<Db> {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        Db::open(&options, path)
    }

    /// Opens the database in `path` with its default family only.
    ///
    /// ```
    /// use esker::{Db, Options};
    /// # let dir = esker_testkit::TempDir::new("doc");
    ///
    /// let mut options = Options::default();
    /// options.db.create_if_missing = true;
    /// options.cf.write_buffer_size = 16 << 20;
    /// let db = Db::open(&options, dir.join("db"))?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the database does not exist and `create_if_missing` is off; it exists and
    /// `error_if_exists` is on; it has families that the call does not name (the message names
    /// them); an option is out of range · `IoError`, retryable: the database is open elsewhere ·
    /// `Corruption`: a file is damaged (the message names file and offset), or there are database
    /// files without a CURRENT · `NotSupported`: the database uses a feature that the message
    /// names · `IoError` from the directory.
    pub fn open(options: &Options, path: impl AsRef<Path>) -> Result<Db> {
        let default = ColumnFamilyDescriptor::new("default", options.cf.clone());
        Db::open_with(&options.db, path, vec![default], OpenMode::ReadWrite)
    }

    /// Opens the database in `path` with these families, which must be all it has.
    ///
    /// A family is a name, a name with options, or a [`ColumnFamilyDescriptor`].
    ///
    /// ```
    /// use esker::{ColumnFamilyOptions, Db, DbOptions};
    /// # let dir = esker_testkit::TempDir::new("doc");
    ///
    /// let options = DbOptions::new().create_if_missing(true).create_missing_column_families(true);
    /// let db = Db::open_cf(&options, dir.path(), ["default", "users"])?;
    /// # drop(db);
    ///
    /// let small = ColumnFamilyOptions::new().write_buffer_size(1 << 20);
    /// let db = Db::open_cf(&options, dir.path(), [("default", small.clone()), ("users", small)])?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the database does not exist and `create_if_missing` is off; it exists and
    /// `error_if_exists` is on; it has families that the call does not name (the message names
    /// them); an option is out of range · `IoError`, retryable: the database is open elsewhere ·
    /// `Corruption`: a file is damaged (the message names file and offset), or there are database
    /// files without a CURRENT · `NotSupported`: the database uses a feature that the message
    /// names · `IoError` from the directory.
    pub fn open_cf(
        options: &DbOptions,
        path: impl AsRef<Path>,
        families: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
    ) -> Result<Db> {
        Db::open_with(options, path, families, OpenMode::ReadWrite)
    }

    /// Opens the default family only, for reading only. Takes no lock: another process may have the
    /// database open and write to it.
    ///
    /// ```
    /// use esker::{Db, Options};
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let owner = Db::open_default(dir.path())?;
    ///
    /// let reader = Db::open_for_read_only(&Options::default(), dir.path())?;
    /// assert!(reader.put("key", "value").is_err());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the database does not exist, or an option is out of range ·
    /// `Corruption`: a file is damaged (the message names file and offset) · `NotSupported`: the
    /// database uses a feature that the message names · `IoError` from the directory.
    pub fn open_for_read_only(options: &Options, path: impl AsRef<Path>) -> Result<Db> {
        let default = ColumnFamilyDescriptor::new("default", options.cf.clone());
        Db::open_with(&options.db, path, vec![default], OpenMode::ReadOnly)
    }

    /// Opens the default family of the database in `path` as a secondary. Another process, the
    /// primary, owns the database. The secondary reads beside it, and applies its changes at each
    /// [`Db::try_catch_up_with_primary`]. It takes no lock and changes no file of the primary. Its
    /// own LOG is in `secondary_path`, which is created if it is missing.
    ///
    /// Between two catch-ups reads see one point in time; each snapshot or iterator keeps its own
    /// point in time. Calls that change the database give `NotSupported`. The secondary holds a
    /// descriptor of each table and blob file that the primary had at the last catch-up, whatever
    /// `max_open_files` says. If the process may not have that many, reading a file that the
    /// primary has deleted since gives `IoError` with sub-code `StaleFile`. The caller then catches
    /// up and reads again.
    ///
    /// ```
    /// use esker::{Db, Options};
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let primary = Db::open_default(dir.join("db"))?;
    /// # primary.put("fjord", "water")?;
    ///
    /// let secondary = Db::open_as_secondary(&Options::default(), dir.join("db"), dir.join("mine"))?;
    /// assert!(secondary.get("fjord")?.is_some());
    /// assert!(secondary.put("fjord", "ice").is_err());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the database does not exist, or an option is out of range ·
    /// `Corruption`: a file is damaged (the message names file and offset) · `NotSupported`: the
    /// database uses a feature that the message names · `TryAgain`: the primary changes its files
    /// faster than they are read · `IoError` from the directories.
    pub fn open_as_secondary(
        options: &Options,
        path: impl AsRef<Path>,
        secondary_path: impl AsRef<Path>,
    ) -> Result<Db> {
        let default = ColumnFamilyDescriptor::new("default", options.cf.clone());
        Db::open_cf_as_secondary(&options.db, path, secondary_path, [default])
    }

    /// Opens families of the database in `path` as a secondary, as [`Db::open_as_secondary`] does;
    /// `default` must be one of them.
    ///
    /// A family that the primary creates later appears when the secondary is opened again. The
    /// handle of a family that the primary drops reads the contents at the last catch-up.
    ///
    /// ```
    /// use esker::{Db, DbOptions};
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let primary = Db::open_default(dir.join("db"))?;
    /// # primary.create_column_families(["users", "orders"])?;
    ///
    /// let (options, families) = (DbOptions::default(), ["default", "users"]);
    /// let db = Db::open_cf_as_secondary(&options, dir.join("db"), dir.join("mine"), families)?;
    /// assert_eq!(db.column_family_names(), families);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the database or a family does not exist, or an option is out of range ·
    /// `Corruption`: a file is damaged (the message names file and offset) · `NotSupported`: the
    /// database uses a feature that the message names · `TryAgain`: the primary changes its files
    /// faster than they are read · `IoError` from the directories.
    pub fn open_cf_as_secondary(
        options: &DbOptions,
        path: impl AsRef<Path>,
        secondary_path: impl AsRef<Path>,
        families: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
    ) -> Result<Db> {
        let families = ColumnFamilyDescriptor::list(families);
        Db::open_following(options, path.as_ref(), secondary_path.as_ref(), families)
    }

    /// Opens `families` of the database in `path` in `mode`: all that it has, or some of them in
    /// [`OpenMode::ReadOnly`].
    ///
    /// ```
    /// use esker::{Db, DbOptions, OpenMode};
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let owner = Db::open_default(dir.path())?;
    /// # owner.create_column_families(["users", "orders"])?;
    ///
    /// let options = DbOptions::default();
    /// let db = Db::open_with(&options, dir.path(), ["default", "users"], OpenMode::ReadOnly)?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the database does not exist and `create_if_missing` is off; it exists and
    /// `error_if_exists` is on; it has families that the call does not name (the message names
    /// them); an option is out of range · `IoError`, retryable: the database is open elsewhere ·
    /// `Corruption`: a file is damaged (the message names file and offset), or there are database
    /// files without a CURRENT · `NotSupported`: the database uses a feature that the message
    /// names · `IoError` from the directory.
    pub fn open_with(
        options: &DbOptions,
        path: impl AsRef<Path>,
        families: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
        mode: OpenMode,
    ) -> Result<Db> {
        let families = ColumnFamilyDescriptor::list(families);
        Db::open_noting(options, path.as_ref(), families, mode, true)
    }

    /// Names of the families of the database in `path`, by id, without opening it.
    ///
    /// ```
    /// use esker::{Db, DbOptions};
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # Db::open_default(dir.path())?.create_column_families(["users"])?;
    ///
    /// let names = Db::list_column_families(&DbOptions::default(), dir.path())?;
    /// assert_eq!(names, ["default", "users"]);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `IoError` if there is no database · `Corruption` in its MANIFEST.
    pub fn list_column_families(options: &DbOptions, path: impl AsRef<Path>) -> Result<Vec<String>> {
        VersionSet::list_column_families(options.env.fs.as_ref(), path.as_ref())
    }

    /// [`Db::open_cf`] without a new OPTIONS file: the options given are for this open only.
    /// # Errors
    /// Those of [`Db::open`].
    pub(crate) fn open_keeping_options_file(
        options: &DbOptions,
        path: &Path,
        families: Vec<ColumnFamilyDescriptor>,
    ) -> Result<Db> {
        Db::open_noting(options, path, families, OpenMode::ReadWrite, false)
    }

    /// [`Db::open_cf`] for transactions under an early write policy: `WritePrepared` or
    /// `WriteUnprepared`.
    /// # Errors
    /// Those of [`Db::open_cf`].
    pub(crate) fn open_write_prepared(
        options: &DbOptions,
        path: &Path,
        families: Vec<ColumnFamilyDescriptor>,
    ) -> Result<Db> {
        let reads = (SecondaryReads::TablesAndWals, true);
        Db::open_in_mode(options, path, families, (OpenMode::ReadWrite, None), reads, true)
    }

    /// The work of [`Db::open_cf_as_secondary`].
    /// # Errors
    /// Those of [`Db::open_cf_as_secondary`].
    pub(super) fn open_following(
        options: &DbOptions,
        path: &Path,
        secondary_path: &Path,
        families: Vec<ColumnFamilyDescriptor>,
    ) -> Result<Db> {
        let mut options = options.clone();
        // Sections that a transaction has prepared are replayed with its commit.
        options.allow_2pc = true;
        let mode = (OpenMode::ReadOnly, Some(secondary_path));
        Db::open_in_mode(&options, path, families, mode, (SecondaryReads::TablesAndWals, false), false)
    }

    /// Opens families for a compaction job, as a secondary that reads tables and no WALs.
    /// # Errors
    /// Those of [`Db::open_cf_as_secondary`].
    pub(super) fn open_for_job(
        options: &DbOptions,
        path: &Path,
        secondary_path: &Path,
        families: Vec<ColumnFamilyDescriptor>,
    ) -> Result<Db> {
        let mode = (OpenMode::ReadOnly, Some(secondary_path));
        Db::open_in_mode(options, path, families, mode, (SecondaryReads::Tables, false), false)
    }

    /// [`Db::open_with`], with a choice: `notes_options` says whether to write an OPTIONS file.
    pub(super) fn open_noting(
        options: &DbOptions,
        path: &Path,
        families: Vec<ColumnFamilyDescriptor>,
        mode: OpenMode,
        notes_options: bool,
    ) -> Result<Db> {
        let reads = (SecondaryReads::TablesAndWals, false);
        Db::open_in_mode(options, path, families, (mode, None), reads, notes_options)
    }
}
