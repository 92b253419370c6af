//! OPTIONS files: the options with which a database was opened.
//!
//! In: options, or a file that any RocksDB from 5 to 11 wrote. Out: a file that RocksDB 7.8 and 11
//! both accept, or options. Source: RocksDB `options/options_parser.cc`; facts about both versions
//! in `docs/format/options.md`.
//!
//! Invariants
//!  1. A saved file holds only names that RocksDB 7.8 and 11 both know: their tools refuse a
//!     database whose newest OPTIONS file has any other. With `compatible_with` 11.10 it may hold
//!     the names that came with that release, too.
//!  2. Loading never fails for an unknown name; it fails for a known name with an invalid value.
//!     `LoadedOptions::check_names` refuses unknown names for callers that want it.
//!  3. Objects that are not built in are listed in `ColumnFamilyOptions::unresolved`, and opening
//!     is refused until the caller has set them.
//!  4. A file appears under its name complete and durable, or not at all.

use super::former;
use super::sst_partitioner::SstPartitionerFactoryRef;
use super::table::OptionStruct;
use super::target::FORMAT_VERSIONS_LOADED;
use super::value::{OptionValue, is_null, object_name, split_map};
use super::{
    BlockBasedTableOptions, ColumnFamilyOptions, DbOptions, FlushBlockPolicyFactoryRef, IndexMode,
    OptimizeKeyCommonPrefix, TargetVersion,
};
use esker_base::{Error, ErrorKind, FileNumber, Result, SubCode};
use esker_env::{FileSystem, replace_file};
use esker_format::compression::manager::CompressionManagerRef;
use esker_format::file_name::{FileType, options_file_name, parse_file_name, temp_options_file_name};
use esker_format::options_file::{OptionsFile, OptionsSection, SectionKind};
use std::path::Path;

/// OPTIONS files that stay in a database's directory; older ones may be deleted.
pub const OPTIONS_FILES_KEPT: usize = 2;
/// A larger file is not an OPTIONS file.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// The version in a saved file: the oldest RocksDB that the file is meant for.
const WRITTEN_FOR_VERSION: &str = "7.8.3";

/// The RocksDB release whose files have no unknown names.
const KNOWN_RELEASE: [u32; 3] = [11, 8, 1];

/// Options that are always written: RocksDB's tools need them to read the database correctly.
const ALWAYS_WRITTEN: &[&str] =
    &["comparator", "merge_operator", "prefix_extractor", "compression", "num_levels"];
/// [`ALWAYS_WRITTEN`] for options of tables.
const ALWAYS_WRITTEN_FOR_TABLES: &[&str] =
    &["format_version", "filter_policy", "whole_key_filtering", "block_size"];
/// Names that 7.8 or 11 does not know, options for one opening only, and options that would be
/// wrong after a move of the directory.
const NEVER_WRITTEN: &[&str] = &[
    "db_log_dir",
    "create_if_missing",
    "create_missing_column_families",
    "error_if_exists",
    "block_protection_bytes_per_key",
    "memtable_verify_per_key_checksum_on_seek",
    "paranoid_memory_checks",
    "verify_output_flags",
    "use_delta_encoding",
    "compatible_with",
    "decouple_partitioned_filters",
    "separate_key_value_in_data_block",
    "super_block_alignment_size",
    "super_block_alignment_space_overhead_ratio",
    "skip_checking_sst_file_sizes_on_db_open",
    "min_tombstones_for_range_conversion",
    "memtable_op_scan_flush_trigger",
    "memtable_avg_op_scan_flush_trigger",
    "memtable_max_range_deletions",
    "max_manifest_space_amp_pct",
    "write_identity_file",
    "blob_compression_opts",
    "compression_manager",
    "disallow_memtable_writes",
    "async_wal_precreate",
    "background_close_inactive_wals",
    "compaction_verify_record_count",
    "enforce_write_buffer_manager_during_recovery",
    "fast_sst_open",
    "follower_catchup_retry_count",
    "follower_catchup_retry_wait_ms",
    "follower_refresh_catchup_period_ms",
    "max_compaction_trigger_wakeup_seconds",
    "metadata_write_temperature",
    "open_files_async",
    "optimize_manifest_for_recovery",
    "prefix_seek_opt_in_only",
    "read_io_executor_threads",
    "reuse_manifest_on_open",
    "track_and_verify_wals",
    "use_direct_io_for_compaction_reads",
    "verify_manifest_content_on_close",
    "wal_write_temperature",
    "daily_offpeak_time_utc",
    "blob_direct_write_partitions",
    "bottommost_file_compaction_delay",
    "cf_allow_ingest_behind",
    "default_temperature",
    "default_write_temperature",
    "enable_blob_direct_write",
    "memtable_batch_lookup_optimization",
    "read_triggered_compaction_threshold",
    "strict_max_successive_merges",
    "target_file_size_is_upper_bound",
    "uncache_aggressiveness",
    "fail_if_no_udi_on_open",
    "index_block_search_type",
    "uniform_cv_threshold",
    "use_udi_as_primary_index",
    "user_defined_index_factory",
];

/// The contents of an OPTIONS file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadedOptions {
    /// Options of the database. Objects (environment, statistics, listeners) are at their defaults.
    pub db: DbOptions,
    /// Names and options of the families, in the order of the file; the first is `default`.
    pub families: Vec<(String, ColumnFamilyOptions)>,
    /// Entries that Esker ignores, as (section, name, value): options of other versions, or options
    /// that are not built.
    pub ignored: Vec<(String, String, String)>,
    /// Names that neither Esker nor RocksDB 11 knows, as (section, name). A field of an option is
    /// `OPTION.FIELD`.
    pub unknown: Vec<(String, String)>,
    /// The RocksDB version that wrote the file, if it says so.
    pub rocksdb_version: Option<String>,
}

impl LoadedOptions {
    /// The options of the family called `name`.
    pub fn family(&self, name: &str) -> Option<&ColumnFamilyOptions> {
        self.families.iter().find(|(n, _)| n == name).map(|(_, options)| options)
    }

    /// Checks the names of the file as RocksDB does when it loads one. A file of a later RocksDB
    /// than 11.8.1 may have unknown names if `ignore_unknown_options` is set. In any other file an
    /// unknown name is an error.
    ///
    /// ```
    /// use esker::options::parse_options;
    ///
    /// let text = "[Version]\n rocksdb_version=12.0.0\n options_file_version=1.1\n\
    ///     [DBOptions]\n from_the_future=1\n[CFOptions \"default\"]\n";
    /// let loaded = parse_options(text.as_bytes())?;
    /// assert!(loaded.check_names(true).is_ok());
    /// assert!(loaded.check_names(false).is_err());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: names the section and the option.
    pub fn check_names(&self, ignore_unknown_options: bool) -> Result<()> {
        let Some((section, name)) = self.unknown.first() else { return Ok(()) };
        let release = self.rocksdb_version.as_deref().map(release).unwrap_or_default();
        if ignore_unknown_options && release > KNOWN_RELEASE {
            return Ok(());
        }
        Err(Error::invalid_argument(format!("OPTIONS file, [{section}]: {name}: no such option")))
    }
}

/// The numbers of a release, `major.minor.patch`; 0 for parts that are missing or no numbers.
fn release(text: &str) -> [u32; 3] {
    let mut numbers = text.split('.').map(|number| number.parse().unwrap_or(0));
    [(); 3].map(|()| numbers.next().unwrap_or(0))
}

/// Reads the text of an OPTIONS file.
/// # Errors
/// `InvalidArgument` naming the line, or the section and option.
pub fn parse_options(text: &[u8]) -> Result<LoadedOptions> {
    let file = OptionsFile::parse(text)?;
    let mut loaded = LoadedOptions {
        db: DbOptions::default(),
        families: Vec::new(),
        ignored: Vec::new(),
        unknown: Vec::new(),
        rocksdb_version: file.version().and_then(|v| v.raw("rocksdb_version")).map(str::to_owned),
    };
    for section in &file.sections {
        match &section.kind {
            SectionKind::Version => {}
            SectionKind::DbOptions => {
                let mut options = std::mem::take(&mut loaded.db);
                load_section(&mut options, section, "DBOptions", &mut loaded)?;
                loaded.db = options;
            }
            SectionKind::CfOptions(name) => {
                let mut options = ColumnFamilyOptions::default();
                load_family(&mut options, section, name, &mut loaded)?;
                loaded.families.push((name.clone(), options));
            }
            SectionKind::TableOptions { factory, family } => {
                load_table(&mut loaded, section, factory, family)?
            }
        }
    }
    Ok(loaded)
}

/// Sets every known option of `section`; `loaded` lists the others.
fn load_section<T: OptionStruct>(
    options: &mut T,
    section: &OptionsSection,
    title: &str,
    loaded: &mut LoadedOptions,
) -> Result<()> {
    for (name, raw) in &section.entries {
        if T::find(name).is_none() && !former::is_ignored(T::NAME, name) {
            loaded.unknown.push((title.to_owned(), name.clone()));
        }
        if T::find(name).is_some_and(|option| option.text.is_none()) && is_null(object_name(raw)) {
            continue;
        }
        if T::find(name).is_none_or(|option| option.text.is_none()) || !is_kept(name, raw) {
            loaded.ignored.push((title.to_owned(), name.clone(), raw.clone()));
            continue;
        }
        let set = set_from_file(options, name, raw);
        let unknown = set.map_err(|e| e.at(format_args!("OPTIONS file, [{title}]")))?;
        loaded.unknown.extend(unknown.into_iter().map(|field| (title.to_owned(), format!("{name}.{field}"))));
    }
    Ok(())
}

/// Sets an option from a file's value. A value in braces keeps its escapes for its own fields; any
/// other is unescaped here. Unknown fields, of other versions, are left out and returned.
fn set_from_file<T: OptionStruct>(options: &mut T, name: &str, raw: &str) -> Result<Vec<String>> {
    let text = esker_format::options_file::unescape(raw);
    match options.set_text(name, &text) {
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        set => return set.map(|()| Vec::new()),
    }
    let mut unknown = Vec::new();
    for (field, value) in split_map(&text)? {
        match options.set_text(name, &format!("{{{field}={value};}}")) {
            Err(e) if e.kind() == ErrorKind::NotFound => unknown.push(field.to_owned()),
            set => set?,
        }
    }
    Ok(unknown)
}

fn load_family(
    options: &mut ColumnFamilyOptions,
    section: &OptionsSection,
    family: &str,
    loaded: &mut LoadedOptions,
) -> Result<()> {
    let title = format!("CFOptions \"{family}\"");
    let mut rest = OptionsSection::new(section.kind.clone());
    for (name, raw) in &section.entries {
        // The section of the table's options names the factory, too.
        if name == "table_factory" {
            continue;
        }
        if !is_kept(name, raw) {
            loaded.ignored.push((title.clone(), name.clone(), raw.clone()));
            continue;
        }
        let is_object = matches!(name.as_str(), "comparator" | "merge_operator" | "prefix_extractor");
        if is_object && set_from_file(options, name, raw).is_err() {
            options.unresolved.push((name.clone(), raw.clone()));
        } else {
            rest.push(name, raw.clone());
        }
    }
    load_section(options, &rest, &title, loaded)
}

fn load_table(
    loaded: &mut LoadedOptions,
    section: &OptionsSection,
    factory: &str,
    family: &str,
) -> Result<()> {
    let title = format!("TableOptions/{factory} \"{family}\"");
    let Some(at) = loaded.families.iter().position(|(name, _)| name == family) else {
        return Err(Error::invalid_argument(format!("OPTIONS file, [{title}]: no such column family")));
    };
    if factory != "BlockBasedTable" {
        loaded.families[at].1.unresolved.push(("table_factory".to_owned(), factory.to_owned()));
        return Ok(());
    }
    let (known, unknown): (Vec<_>, Vec<_>) =
        section.entries.iter().cloned().partition(|(name, raw)| is_kept(name, raw));
    loaded.ignored.extend(unknown.into_iter().map(|(name, raw)| (title.clone(), name, raw)));
    let section = OptionsSection { kind: section.kind.clone(), entries: known };
    let mut table = loaded.families[at].1.table.clone();
    load_section(&mut table, &section, &title, loaded)?;
    loaded.families[at].1.table = table;
    Ok(())
}

/// Whether an option of another program's OPTIONS file is kept. Options that the default
/// `compatible_with` refuses are not: RocksDB 11's `format_version=7` must not keep its databases
/// from opening.
fn is_kept(name: &str, raw: &str) -> bool {
    match name {
        // A policy that is not built in costs speed only: tables are then read without filters.
        "filter_policy" => Option::<esker_table::FilterPolicy>::parse(raw).is_ok(),
        "format_version" => u32::parse(raw).map_or(true, |version| FORMAT_VERSIONS_LOADED.contains(&version)),
        // A program that sets one of these options is refused. An OPTIONS file may set it: the
        // database's files can be read without it.
        "separate_key_value_in_data_block" | "disallow_memtable_writes" | "use_udi_as_primary_index" => {
            bool::parse(raw).is_ok_and(|is_set| !is_set)
        }
        // An OPTIONS file may also name objects of kinds that are not built.
        "wal_filter" | "user_defined_index_factory" => is_null(object_name(raw)),
        "compression_manager" => Option::<CompressionManagerRef>::parse(raw).is_ok(),
        "sst_partitioner_factory" => Option::<SstPartitionerFactoryRef>::parse(raw).is_ok(),
        "flush_block_policy_factory" => Option::<FlushBlockPolicyFactoryRef>::parse(raw).is_ok(),
        // The MANIFEST says which families lack timestamps in their tables.
        "persist_user_defined_timestamps" => bool::parse(raw).unwrap_or(true),
        _ => true,
    }
}

/// Reads an OPTIONS file.
/// # Errors
/// `InvalidArgument`: names the file, and the line or the section and option · `Corruption`: the
/// file is larger than 64 MiB · `IoError`.
pub fn load_options_file(fs: &dyn FileSystem, path: &Path) -> Result<LoadedOptions> {
    let bytes = fs.file_size(path)?;
    if bytes > MAX_FILE_BYTES {
        return Err(Error::corruption(format!(
            "{}: {bytes} bytes are too many for an OPTIONS file",
            path.display()
        )));
    }
    let mut text = vec![0; usize::try_from(bytes).expect("the limit was checked above")];
    let mut file = fs.new_sequential_file(path)?;
    let mut filled = 0;
    while filled < text.len() {
        match file.read(&mut text[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    parse_options(&text[..filled]).map_err(|e| e.at(path.display()))
}

/// The number of the newest OPTIONS file in `dir`; `None` if there is none.
/// # Errors
/// `IoError` if the directory cannot be read.
pub fn latest_options_file(fs: &dyn FileSystem, dir: &Path) -> Result<Option<FileNumber>> {
    Ok(options_files(&fs.children(dir)?).into_iter().next())
}

/// The options of the last opening of the database in `path`: those of its newest OPTIONS file.
///
/// The database may be RocksDB's. Pass the families to [`Db::open_cf`](crate::Db::open_cf) as they
/// are.
///
/// ```
/// use esker::Db;
/// use esker::options::load_latest_options;
/// # let dir = esker_testkit::TempDir::new("doc");
/// # Db::open_default(dir.path())?.create_column_families(["users"])?;
///
/// let loaded = load_latest_options(dir.path())?;
/// let db = Db::open_cf(&loaded.db, dir.path(), loaded.families)?;
/// assert_eq!(db.column_family_names(), ["default", "users"]);
/// # Ok::<_, esker::Error>(())
/// ```
/// # Errors
/// `NotFound`: the directory has no OPTIONS file · `InvalidArgument`: names the file, and the line
/// or the section and option · `Corruption`: the file is larger than 64 MiB · `IoError`.
pub fn load_latest_options(path: impl AsRef<Path>) -> Result<LoadedOptions> {
    load_latest_options_from(DbOptions::default().env.fs.as_ref(), path.as_ref())
}

/// [`load_latest_options`] with the file system `fs`.
/// # Errors
/// `NotFound`: the directory has no OPTIONS file · `InvalidArgument`: names the file, and the line
/// or the section and option · `Corruption`: the file is larger than 64 MiB · `IoError`.
pub fn load_latest_options_from(fs: &dyn FileSystem, dir: &Path) -> Result<LoadedOptions> {
    let mut tried = None;
    loop {
        let number = latest_options_file(fs, dir)?.ok_or_else(|| {
            Error::not_found(format!("{}: no OPTIONS file in this directory", dir.display()))
        })?;
        match load_options_file(fs, &options_file_name(dir, number)) {
            // The database's owner has written a newer file, and deleted this one.
            Err(e) if e.subcode() == SubCode::PathNotFound && tried != Some(number) => tried = Some(number),
            loaded => return loaded,
        }
    }
}

/// Numbers of the OPTIONS files among `names`, newest first.
fn options_files(names: &[String]) -> Vec<FileNumber> {
    let mut numbers: Vec<FileNumber> = names
        .iter()
        .filter_map(|name| parse_file_name(name))
        .filter(|(kind, _)| *kind == FileType::Options)
        .map(|(_, number)| number)
        .collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers
}

/// Numbers of the OPTIONS files among `names` that may be deleted.
pub fn obsolete_options_files(names: &[String]) -> Vec<FileNumber> {
    options_files(names).split_off(options_files(names).len().min(OPTIONS_FILES_KEPT))
}

/// The text of an OPTIONS file: the options that RocksDB's tools need, and those that differ from
/// Esker's defaults. `families` in the order of their ids, `default` first.
pub fn print_options<'a>(
    db: &DbOptions,
    families: impl IntoIterator<Item = (&'a str, &'a ColumnFamilyOptions)>,
) -> String {
    let mut file = OptionsFile::default();
    let mut version = OptionsSection::new(SectionKind::Version);
    version.push("rocksdb_version", WRITTEN_FOR_VERSION);
    version.push("options_file_version", "1.1");
    file.sections.push(version);
    // Both sides are made consistent, so that values from `sanitize` do not count as a difference.
    let (mut db, mut default_db) = (db.clone(), DbOptions::default());
    let has_newer_names = db.compatible_with >= TargetVersion::V11_10;
    if !has_newer_names {
        reset_newer_options(&mut db);
    }
    db.sanitize();
    default_db.sanitize();
    let choose = |db: &mut DbOptions| drop(db.sanitize());
    file.sections.push(print_section(SectionKind::DbOptions, &db, &default_db, &[], choose));
    let mut default_cf = ColumnFamilyOptions::default();
    default_cf.sanitize(&db);
    for (name, options) in families {
        let mut consistent = options.clone();
        if !has_newer_names {
            reset_newer_options_of_family(&mut consistent);
        }
        let table = consistent.table.clone();
        consistent.sanitize(&db);
        file.sections.push(print_family(name, &consistent, &default_cf, &db));
        let kind =
            SectionKind::TableOptions { factory: "BlockBasedTable".to_owned(), family: name.to_owned() };
        let defaults = BlockBasedTableOptions::default();
        let always = ALWAYS_WRITTEN_FOR_TABLES;
        file.sections.push(print_section(kind, &table, &defaults, always, |_| ()));
    }
    file.to_string()
}

/// Resets the options that RocksDB knows from 11.10 on. Their defaults are not written.
fn reset_newer_options(db: &mut DbOptions) {
    let defaults = DbOptions::default();
    db.periodic_compaction_phase_recovery_percent = defaults.periodic_compaction_phase_recovery_percent;
    db.remote_compaction_manifest_floor = defaults.remote_compaction_manifest_floor;
    db.use_session_tmp_dir_for_remote_compaction = defaults.use_session_tmp_dir_for_remote_compaction;
}

/// Resets the newer options of a family.
fn reset_newer_options_of_family(options: &mut ColumnFamilyOptions) {
    options.blob_file_writable_file_max_buffer_size = 0;
    options.table.optimize_key_common_prefix = OptimizeKeyCommonPrefix::default();
    options.table.index_mode = IndexMode::default();
    for codec in [&mut options.compression_opts, &mut options.bottommost_compression_opts] {
        (codec.auto_skip, codec.auto_skip_min_sample_every) = (false, 0);
    }
}

/// Prints a family's options without user-defined objects: RocksDB's tools could not make them.
fn print_family(
    name: &str,
    options: &ColumnFamilyOptions,
    defaults: &ColumnFamilyOptions,
    db: &DbOptions,
) -> OptionsSection {
    let kind = SectionKind::CfOptions(name.to_owned());
    let choose = |options: &mut ColumnFamilyOptions| drop(options.sanitize(db));
    let mut section = print_section(kind, options, defaults, ALWAYS_WRITTEN, choose);
    section.entries.retain(|(option, text)| {
        let mut probe = ColumnFamilyOptions::default();
        // A comparator is always named: its absence would mean the bytewise comparator.
        option == "comparator" || set_from_file(&mut probe, option, text).is_ok()
    });
    section
}

/// Prints the options that differ from `defaults`, which are consistent. `choose` makes options
/// consistent: the values that it fills in depend on other options.
fn print_section<T: OptionStruct + Default>(
    kind: SectionKind,
    options: &T,
    defaults: &T,
    always: &[&str],
    choose: impl Fn(&mut T),
) -> OptionsSection {
    let (mut section, untouched) = (OptionsSection::new(kind), T::default());
    for option in T::all_options() {
        let Some(text) = &option.text else { continue };
        let value = (text.print)(options);
        let is_chosen = || {
            let left_out = (text.print)(&untouched);
            let mut loaded = options.clone();
            if left_out != value && (text.parse)(&mut loaded, &left_out).is_ok() {
                choose(&mut loaded);
            }
            (text.print)(&loaded) == value
        };
        let is_default = value == (text.print)(defaults) && is_chosen();
        if NEVER_WRITTEN.contains(&option.name) || (is_default && !always.contains(&option.name)) {
            continue;
        }
        let needs_escapes = value.contains(['\\', '#', '\n', '\r']);
        if value.starts_with('{') || (value.contains(':') && !needs_escapes) {
            // A map's parts are escaped already; a list's parts need no escapes.
            section.push(option.name, value);
        } else {
            section.push_text(option.name, &value);
        }
    }
    section
}

/// Writes OPTIONS file `number` into `dir`: under a temporary name first, synced, then renamed,
/// then the directory is synced. Returns its size in bytes.
/// # Errors
/// `IoError`.
pub fn save_options_file<'a>(
    fs: &dyn FileSystem,
    dir: &Path,
    number: FileNumber,
    db: &DbOptions,
    families: impl IntoIterator<Item = (&'a str, &'a ColumnFamilyOptions)>,
) -> Result<u64> {
    let text = print_options(db, families);
    debug_assert!(parse_options(text.as_bytes()).is_ok(), "a file we print can be read:\n{text}");
    let temporary = temp_options_file_name(dir, number);
    replace_file(fs, &temporary, &options_file_name(dir, number), text.as_bytes(), false)?;
    fs.new_directory(dir)?.fsync()?;
    Ok(text.len() as u64)
}

#[cfg(test)]
mod tests;
