//! Opens databases for `ldb`: all families, with the options of the OPTIONS file, changed by flags.
//!
//! Invariant: a family whose merge operator is unknown is opened for writing without an operator.
//! Flushes and compactions then keep its operands; a guessed operator would combine them
//! irreversibly.

use super::Common;
use crate::failure::{CommandOutcome, Failure};
use crate::host::{Host, Stream};
use crate::text::parse_bytes;
use esker::compat::{Downgrade, downgrade};
use esker::internals::base::sync::atomic::{AtomicBool, Ordering};
use esker::internals::format::file_name::{FilePaths, current_file_name};
use esker::internals::table::FilterPolicy;
use esker::internals::version::{FamilyDescriptor, ListedFamily, VersionSet};
use esker::merge_operator::MergeOperator;
use esker::options::{DbPath, LoadedOptions, TargetVersion, load_latest_options_from};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, ColumnFamilyOptions, Db, DbOptions, DbWithTtl, ErrorKind,
    OpenMode, comparator,
};
use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens the database in `path` for reading only, with all its families and the options of its
/// OPTIONS file.
pub(crate) fn open_as_it_is(path: &Path, host: &Host) -> CommandOutcome<Db> {
    Ok(open_with_access(path, &DatabaseAccess::ReadOnly, host)?.db)
}

/// The way in which a database is opened.
pub(crate) enum DatabaseAccess<'a> {
    ReadWrite {
        create_if_missing: bool,
        /// Open a family without the objects of its OPTIONS that are unknown here.
        ignore_unknown_options: bool,
    },
    ReadOnly,
    /// Beside the process that writes it, with a directory for a LOG.
    Secondary(&'a Path),
}

/// An open database, and the options for new families.
pub(crate) struct OpenedWith {
    pub(crate) db: Db,
    pub(crate) new_family: ColumnFamilyOptions,
    /// All families, and whether reads have joined operands of an unknown operator in them.
    pub(crate) joined: Vec<(String, Arc<AtomicBool>)>,
}

/// Opens the database in `path` with all its families and the options of its OPTIONS file.
pub(crate) fn open_with_access(
    path: &Path,
    access: &DatabaseAccess<'_>,
    host: &Host,
) -> CommandOutcome<OpenedWith> {
    let mut common = Common {
        db: Some(path.to_owned()),
        column_family: "default".to_owned(),
        ignore_unknown_options: true,
        ..Common::default()
    };
    let mode = match access {
        DatabaseAccess::ReadWrite { create_if_missing, ignore_unknown_options } => {
            common.create_if_missing = *create_if_missing;
            common.ignore_unknown_options = *ignore_unknown_options;
            OpenMode::ReadWrite
        }
        DatabaseAccess::ReadOnly => OpenMode::ReadOnly,
        DatabaseAccess::Secondary(dir) => {
            common.secondary_path = Some(dir.to_path_buf());
            OpenMode::ReadOnly
        }
    };
    let mut session = Session::new(&common, host)?;
    // Transactions with locks need it.
    session.options.allow_2pc |= mode == OpenMode::ReadWrite;
    let db = session.open_as(mode)?.db;
    Ok(OpenedWith { db, new_family: session.new_family_options(), joined: session.joined })
}

/// Joins operands of any operator with colons, as RocksDB's tool does. For reading only.
struct AnyOperands {
    /// Set once values are results of this guess.
    has_joined: Arc<AtomicBool>,
}

impl MergeOperator for AnyOperands {
    fn name(&self) -> &str {
        "StringAppendOperator"
    }
    fn takes_operands_of(&self, _name: &str) -> bool {
        true
    }
    fn full_merge(&self, _key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.has_joined.store(true, Ordering::Relaxed);
        Some(existing.iter().chain(operands).copied().collect::<Vec<_>>().join(&b':'))
    }
}

/// The path and the options of a database, before it is opened.
pub(super) struct Session {
    /// Standard error, for warnings.
    errors: RefCell<Stream>,
    common: Common,
    path: PathBuf,
    /// Whether the directory has a database.
    exists: bool,
    pub(super) options: DbOptions,
    families: Vec<ColumnFamilyDescriptor>,
    /// The families in the same order, and whether [`AnyOperands`] has joined operands in them.
    joined: Vec<(String, Arc<AtomicBool>)>,
    /// The families before [`Session::change_family`].
    unchanged: Option<Vec<ColumnFamilyDescriptor>>,
}

/// An open database, and the family of `--column_family`.
pub(super) struct Opened {
    pub(super) db: Db,
    pub(super) family: ColumnFamilyHandle,
}

/// The value of `--db_paths`. A path without a size may hold any number of bytes.
pub(super) fn db_paths(common: &Common) -> CommandOutcome<Vec<DbPath>> {
    let parse = |text: &String| match text.rsplit_once('=') {
        None => Ok(DbPath::new(text, u64::MAX)),
        Some((path, bytes)) => match bytes.parse() {
            Ok(bytes) => Ok(DbPath::new(path, bytes)),
            Err(_) => Err(Failure::new(format_args!("--db_paths: '{bytes}' is no number of bytes"))),
        },
    };
    common.db_paths.iter().map(parse).collect()
}

/// The value of `--db`. Only commands on single files do without it.
pub(super) fn db_path(common: &Common) -> CommandOutcome<&Path> {
    common.db.as_deref().ok_or_else(|| Failure::new("--db=<path> must be given: the database's directory"))
}

impl Session {
    pub(super) fn new(common: &Common, host: &Host) -> CommandOutcome<Session> {
        let path = db_path(common)?.to_owned();
        let mut options = host.db_options();
        let fs = host.fs();
        let exists = fs.file_exists(&current_file_name(&path))?;
        let mut listed = vec![ListedFamily {
            id: esker::ColumnFamilyId::DEFAULT,
            name: "default".to_owned(),
            comparator: None,
        }];
        let mut loaded = None;
        if exists {
            listed = VersionSet::list_families(fs, &path)?;
            loaded = load(common, fs, &path)?;
        }
        if let Some(loaded) = &loaded {
            options = DbOptions { env: host.env(), ..loaded.db.clone() };
        }
        if let Some(wal_dir) = &options.wal_dir
            && !fs.file_exists(wal_dir)?
        {
            // As in RocksDB's tool, a missing WAL directory means that the database was moved.
            options.wal_dir = None;
        }
        options.create_if_missing = common.create_if_missing;
        options.db_paths = db_paths(common)?;
        let families = listed
            .iter()
            .map(|f| {
                Ok(ColumnFamilyDescriptor::new(f.name.clone(), family_options(common, loaded.as_ref(), f)?))
            })
            .collect::<CommandOutcome<Vec<_>>>()?;
        let joined = families.iter().map(|family| (family.name.clone(), Arc::default())).collect();
        let errors = RefCell::new(host.errors());
        let common = common.clone();
        Ok(Session { errors, common, path, exists, options, families, joined, unchanged: None })
    }

    /// Whether `--ttl` is given.
    pub(super) fn has_ttl(&self) -> bool {
        self.common.ttl
    }

    /// Opens the database with a TTL with which values never expire.
    pub(super) fn open_with_ttl(&self, mode: OpenMode) -> CommandOutcome<(DbWithTtl, ColumnFamilyHandle)> {
        self.check_existence(mode)?;
        let ttls = vec![0; self.families.len()];
        let db = DbWithTtl::open(&self.options_for(mode), &self.path, self.families_for(mode), &ttls, mode)?;
        let name = &self.common.column_family;
        self.warn_of_losses(db.base_db())?;
        let family = db.base_db().column_family(name);
        let family = family.ok_or_else(|| Failure::new(format_args!("Non-existing column family {name}")))?;
        Ok((db, family))
    }

    /// Opens the database for a command that writes.
    pub(super) fn open(&self) -> CommandOutcome<Opened> {
        self.open_as(OpenMode::ReadWrite)
    }

    /// Opens the database for a command that only reads.
    pub(super) fn open_for_read_only(&self) -> CommandOutcome<Opened> {
        self.open_as(OpenMode::ReadOnly)
    }

    /// Refuses a database to write that neither exists nor is to be created: an open would leave
    /// its LOCK and its LOG in an existing directory.
    fn check_existence(&self, mode: OpenMode) -> CommandOutcome {
        if mode == OpenMode::ReadOnly || self.exists || self.options.create_if_missing {
            return Ok(());
        }
        let what = format!("{}: does not exist (create_if_missing is false)", self.path.display());
        Err(esker::Error::invalid_argument(what).into())
    }

    fn open_as(&self, mode: OpenMode) -> CommandOutcome<Opened> {
        self.check_existence(mode)?;
        let db = match &self.common.secondary_path {
            None => Db::open_with(&self.options_for(mode), &self.path, self.families_for(mode), mode)?,
            Some(dir) => {
                let families = self.families_for(OpenMode::ReadOnly);
                Db::open_cf_as_secondary(&self.options, &self.path, dir, families)?
            }
        };
        self.warn_of_losses(&db)?;
        let name = &self.common.column_family;
        let family = db
            .column_family(name)
            .ok_or_else(|| Failure::new(format_args!("Non-existing column family {name}")))?;
        Ok(Opened { db, family })
    }

    /// Says on standard error that a command has succeeded, as RocksDB's tool does for some
    /// commands.
    pub(super) fn print_success(&self, what: &str) -> CommandOutcome {
        Ok(writeln!(self.errors.borrow_mut(), "{what}")?)
    }

    /// Tells on standard error which records of WALs the open has lost.
    fn warn_of_losses(&self, db: &Db) -> CommandOutcome {
        let losses = db.property("rocksdb.wal-losses").unwrap_or_default();
        let mut errors = self.errors.borrow_mut();
        losses.lines().try_for_each(|loss| writeln!(errors, "Warning: records are lost: {loss}"))?;
        Ok(())
    }

    /// The options for `mode`. A reader always sets `allow_2pc`: it skips prepared transactions and
    /// leaves them prepared.
    fn options_for(&self, mode: OpenMode) -> DbOptions {
        let allow_2pc = self.options.allow_2pc || mode == OpenMode::ReadOnly;
        DbOptions { allow_2pc, ..self.options.clone() }
    }

    /// The families for `mode`. A reader joins operands of unknown operators, like RocksDB's tool.
    fn families_for(&self, mode: OpenMode) -> Vec<ColumnFamilyDescriptor> {
        let mut families = self.families.clone();
        let is_free = |o: &ColumnFamilyOptions| o.merge_operator.is_none() && o.unresolved.is_empty();
        if mode == OpenMode::ReadOnly {
            for (family, (_, has_joined)) in families.iter_mut().zip(&self.joined) {
                if is_free(&family.options) {
                    let operator = AnyOperands { has_joined: Arc::clone(has_joined) };
                    family.options.merge_operator = Some(Arc::new(operator));
                }
            }
        }
        families
    }

    /// Downgrades the database, with the options of its OPTIONS file.
    pub(super) fn downgrade(&self, target: TargetVersion) -> CommandOutcome<Downgrade> {
        Ok(downgrade(&self.options, &self.path, self.families.clone(), target)?)
    }

    /// The families of the MANIFEST, with their options.
    pub(super) fn families(&self) -> &[ColumnFamilyDescriptor] {
        &self.families
    }

    /// The families of the MANIFEST, as a reader of the MANIFEST needs them.
    pub(super) fn families_for_manifest(&self) -> Vec<FamilyDescriptor> {
        let describe = |family: &ColumnFamilyDescriptor| {
            let own = &family.options.cf_paths;
            let paths = if own.is_empty() { &self.options.db_paths } else { own };
            FamilyDescriptor {
                comparator: family.options.comparator.clone(),
                num_levels: usize::try_from(family.options.num_levels).unwrap_or(1),
                persist_user_defined_timestamps: family.options.persist_user_defined_timestamps,
                paths: Some(FilePaths::new(paths.iter().map(|path| path.path.clone()), &self.path)),
                ..FamilyDescriptor::new(family.name.clone())
            }
        };
        self.families.iter().map(describe).collect()
    }

    /// The options of the family of `--column_family`.
    pub(super) fn family_options(&self) -> CommandOutcome<&ColumnFamilyOptions> {
        let name = &self.common.column_family;
        let family = self.families.iter().find(|family| family.name == *name);
        let missing = || Failure::new(format_args!("Non-existing column family {name}"));
        family.map(|family| &family.options).ok_or_else(missing)
    }

    /// Changes the options of the family of `--column_family` for the opens that follow.
    pub(super) fn change_family(&mut self, change: impl FnOnce(&mut ColumnFamilyOptions)) {
        self.unchanged.get_or_insert_with(|| self.families.clone());
        let name = &self.common.column_family;
        if let Some(family) = self.families.iter_mut().find(|family| family.name == *name) {
            change(&mut family.options);
        }
    }

    /// Takes changes of [`Session::change_family`] back.
    pub(super) fn restore_family(&mut self) {
        self.families = self.unchanged.take().unwrap_or_else(|| std::mem::take(&mut self.families));
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The options for a new family: those of the first one.
    pub(super) fn new_family_options(&self) -> ColumnFamilyOptions {
        self.families.first().map(|f| f.options.clone()).unwrap_or_default()
    }

    pub(super) fn key_hex(&self) -> bool {
        self.common.hex || self.common.key_hex
    }

    pub(super) fn value_hex(&self) -> bool {
        self.common.hex || self.common.value_hex
    }

    pub(super) fn parse_key(&self, text: impl AsRef<[u8]>) -> CommandOutcome<Vec<u8>> {
        Ok(parse_bytes(text.as_ref(), self.key_hex(), "key")?.into_owned())
    }

    pub(super) fn parse_value(&self, text: impl AsRef<[u8]>) -> CommandOutcome<Vec<u8>> {
        Ok(parse_bytes(text.as_ref(), self.value_hex(), "value")?.into_owned())
    }

    /// Parses an optional bound of a range.
    pub(super) fn parse_bound(&self, text: Option<&String>) -> CommandOutcome<Option<Vec<u8>>> {
        text.map(|text| self.parse_key(text)).transpose()
    }
}

/// The newest OPTIONS file. `None` if there is none or `--try_load_options=false` is given.
fn load(
    common: &Common,
    fs: &dyn esker::internals::env::FileSystem,
    path: &Path,
) -> CommandOutcome<Option<LoadedOptions>> {
    if common.try_load_options == Some(false) {
        return Ok(None);
    }
    match load_latest_options_from(fs, path) {
        Ok(loaded) => Ok(Some(loaded)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn family_options(
    common: &Common,
    loaded: Option<&LoadedOptions>,
    listed: &ListedFamily,
) -> CommandOutcome<ColumnFamilyOptions> {
    let from_file = loaded.and_then(|l| l.family(&listed.name)).cloned();
    let is_from_file = from_file.is_some();
    let mut options = from_file.unwrap_or_default();
    if common.ignore_unknown_options {
        options.unresolved.clear();
    }
    if common.ttl {
        // Opening with TTL sets the operator of the OPTIONS file again, in a wrapper that strips
        // the times.
        options.merge_operator = None;
        options
            .unresolved
            .retain(|(name, _)| name != "compaction_filter_factory" && name != "merge_operator");
    }
    if let (false, Some(name)) = (is_from_file, &listed.comparator) {
        options.comparator = comparator::by_name(name).ok_or_else(|| {
            Failure::new(format_args!("column family '{}': comparator {name} is not known here", listed.name))
        })?;
    }
    override_with(common, &mut options)?;
    Ok(options)
}

fn override_with(common: &Common, options: &mut ColumnFamilyOptions) -> CommandOutcome {
    use esker::options::CompressionType;
    if let Some(bits) = common.bloom_bits {
        options.table.filter_policy = Some(FilterPolicy::bloom(f64::from(bits)));
    }
    if let Some(name) = &common.compression_type {
        options.compression =
            CompressionType::ALL.into_iter().find(|c| ldb_name(*c) == name).ok_or_else(|| {
                Failure::new(format_args!("Unknown compression type: {name} (--compression_type)"))
            })?;
    }
    if let Some(bytes) = common.block_size {
        options.table.block_size = bytes;
    }
    if let Some(bytes) = common.write_buffer_size {
        options.write_buffer_size = bytes;
    }
    if let Some(bytes) = common.file_size {
        options.target_file_size_base = bytes;
    }
    override_blobs_with(common, options)
}

fn override_blobs_with(common: &Common, options: &mut ColumnFamilyOptions) -> CommandOutcome {
    use esker::options::CompressionType;
    options.enable_blob_files |= common.enable_blob_files;
    options.enable_blob_garbage_collection |= common.enable_blob_garbage_collection;
    let set = |field: &mut u64, value: Option<u64>| *field = value.unwrap_or(*field);
    set(&mut options.min_blob_size, common.min_blob_size);
    set(&mut options.blob_file_size, common.blob_file_size);
    if let Some(name) = &common.blob_compression_type {
        let found = CompressionType::ALL.into_iter().find(|c| ldb_name(*c) == name);
        let unknown =
            || Failure::new(format_args!("Unknown compression type: {name} (--blob_compression_type)"));
        options.blob_compression_type = found.ok_or_else(unknown)?;
    }
    if let Some(cutoff) = common.blob_garbage_collection_age_cutoff {
        options.blob_garbage_collection_age_cutoff = cutoff;
    }
    if let Some(threshold) = common.blob_garbage_collection_force_threshold {
        options.blob_garbage_collection_force_threshold = threshold;
    }
    Ok(())
}

/// The name of a compression in `--compression_type`.
fn ldb_name(compression: esker::options::CompressionType) -> &'static str {
    match compression.property_name() {
        "NoCompression" => "no",
        "Snappy" => "snappy",
        "Zlib" => "zlib",
        "BZip2" => "bzip2",
        "LZ4" => "lz4",
        "LZ4HC" => "lz4hc",
        "Xpress" => "xpress",
        "ZSTD" => "zstd",
        _ => "",
    }
}
