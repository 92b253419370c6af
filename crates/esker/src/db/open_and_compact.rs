//! The worker of a remote compaction: opens a database that another process owns, and runs a
//! compaction for it.
//!
//! In: a job's bytes. Out: tables in the worker's own directory, and a result's bytes.
//!
//! Source: RocksDB `DB::OpenAndCompact`.

use super::{ColumnFamilyDescriptor, Db, identity};
use crate::compact::{RemoteJob, Resumption, run_for_another};
use crate::db::family_tables;
use crate::options::table::OptionStruct;
use crate::options::{
    ColumnFamilyOptions, CompactionServiceOptionsOverride, DbOptions, OpenAndCompactOptions,
    load_options_file,
};
use esker_base::stats::Histogram;
use esker_base::sync::Arc;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::{Error, Result, SubCode};
use esker_env::{FileSystem, StopWatch};
use esker_format::compaction_service::CompactionServiceInput;
use esker_format::file_name::{FilePaths, FileType, options_file_name, parse_file_name};
use esker_table::OpenFiles;
use std::path::Path;

/// Number of output tables that a worker keeps open.
const OPEN_OUTPUTS: usize = 64;

impl Db {
    /// Runs a job of a [`CompactionService`](crate::options::CompactionService) on this thread, and
    /// returns its result. The caller usually is another process than the database's owner.
    ///
    /// Opens the database in `path` as a secondary does, with the options of the OPTIONS file that
    /// the job names and the objects of `overrides`, and without reading WALs. Writes tables and a
    /// LOG into `output_directory`, which is created if it is missing. Changes and locks nothing in
    /// `path`.
    ///
    /// Cost: that of opening the database for reading, and of the compaction. See
    /// [`CompactionService`](crate::options::CompactionService) for an example.
    /// # Errors
    /// `InvalidArgument`: `input` is no job, belongs to another database, or names tables or levels
    /// that the family does not have; or `output_directory` has tables · `NotSupported`: the job
    /// has an unknown version · `Incomplete(ManualCompactionPaused)`: `canceled` is set · those of
    /// [`Db::open_cf_as_secondary`], of the OPTIONS file and of the compaction. After an error the
    /// worker's tables are deleted, apart from those that `allow_resumption` keeps.
    pub fn open_and_compact(
        options: &OpenAndCompactOptions,
        path: impl AsRef<Path>,
        output_directory: impl AsRef<Path>,
        input: &[u8],
        overrides: &CompactionServiceOptionsOverride,
    ) -> Result<Vec<u8>> {
        let canceled: Arc<AtomicBool> = options.canceled.clone().unwrap_or_default();
        let (bytes, input) = (input, CompactionServiceInput::parse(input)?);
        let fs = overrides.env.fs.as_ref();
        let (path, output) = (fs.absolute_path(path.as_ref())?, fs.absolute_path(output_directory.as_ref())?);
        let work = || {
            if canceled.load(Ordering::Acquire) {
                return Err(paused());
            }
            fs.create_dir_if_missing(&output)?;
            let resumption = match options.allow_resumption {
                true => Some(Resumption::prepare(fs, &output, bytes)?),
                false => check_room(fs, &output).map(|()| None)?,
            };
            let (db_options, families) = options_of(fs, &path, &input, overrides)?;
            let watch = StopWatch::start(
                overrides.statistics.as_deref(),
                overrides.env.clock.as_ref(),
                Histogram::OpenAndCompactDbOpenMicros,
            );
            let db = Db::open_for_job(&db_options, &path, &output, families)?;
            drop(watch);
            let done = db.compact_for_another(&output, &input, canceled.clone(), resumption);
            done.and_then(|result| db.close().map(|()| result.to_bytes()))
        };
        work().map_err(|e| if canceled.load(Ordering::Acquire) { paused() } else { e })
    }

    fn compact_for_another(
        &self,
        output: &Path,
        input: &CompactionServiceInput,
        canceled: Arc<AtomicBool>,
        mut resumption: Option<Resumption<'_>>,
    ) -> Result<esker_format::compaction_service::CompactionServiceResult> {
        let engine = self.engine();
        let is_known = identity::load(engine.fs().as_ref(), &engine.path)?.is_some();
        if is_known && !input.db_id.is_empty() && input.db_id != engine.db_id {
            let what = format!("the job is of database {}, not of {}", input.db_id, engine.db_id);
            return Err(Error::invalid_argument(what));
        }
        let Some(family) = self.column_family(&input.cf_name) else {
            return Err(Error::invalid_argument("the job's family does not exist").at(&input.cf_name));
        };
        let descriptor = ColumnFamilyDescriptor::new(&input.cf_name, self.options_cf(&family));
        let open_files = OpenFiles::new(Some(OPEN_OUTPUTS));
        let outputs = family_tables(&engine.options, FilePaths::one(output), &descriptor, &open_files);
        let job = RemoteJob { input, cf: &family.cf, outputs: &outputs, canceled };
        run_for_another(engine, &job, resumption.as_mut())
    }
}

fn paused() -> Error {
    Error::incomplete("").with_subcode(SubCode::ManualCompactionPaused)
}

/// Ensures that the worker's directory has no table, because a result lists all tables in it.
/// # Errors
/// `InvalidArgument`: the directory has tables · `IoError`.
fn check_room(fs: &dyn FileSystem, output: &Path) -> Result<()> {
    let is_table = |name: &String| matches!(parse_file_name(name), Some((FileType::Table, _)));
    match fs.children(output)?.into_iter().find(is_table) {
        None => Ok(()),
        Some(name) => {
            let what = "the output directory of a remote compaction must have no tables";
            Err(Error::invalid_argument(what).at(output.join(name).display()))
        }
    }
}

/// The options of the job's OPTIONS file with the worker's objects, and the families to open.
fn options_of(
    fs: &dyn FileSystem,
    path: &Path,
    input: &CompactionServiceInput,
    overrides: &CompactionServiceOptionsOverride,
) -> Result<(DbOptions, Vec<ColumnFamilyDescriptor>)> {
    let loaded = load_options_file(fs, &options_file_name(path, input.options_file_number))?;
    let mut options = loaded.db;
    set_known(&mut options, overrides)?;
    options.env = overrides.env.clone();
    options.file_checksum_gen_factory.clone_from(&overrides.file_checksum_gen_factory);
    options.statistics.clone_from(&overrides.statistics);
    options.listeners.clone_from(&overrides.listeners);
    options.info_log.clone_from(&overrides.info_log);
    options.compaction_service = None;
    options.max_open_files = -1;
    let mut families = Vec::new();
    for (name, mut family) in loaded.families {
        if name != input.cf_name && name != "default" {
            continue;
        }
        if name == input.cf_name {
            set_known(&mut family, overrides)?;
        }
        // The default family must be opened, too. It is not compacted.
        override_objects(&mut family, overrides, name == input.cf_name);
        families.push(ColumnFamilyDescriptor::new(name, family));
    }
    Ok((options, families))
}

/// Sets the options of the map that `T` has.
fn set_known<T: OptionStruct>(options: &mut T, overrides: &CompactionServiceOptionsOverride) -> Result<()> {
    let known = overrides.options_map.iter().filter(|(name, _)| T::find(name).is_some());
    known.into_iter().try_for_each(|(name, value)| options.set_text(name, value))
}

fn override_objects(
    family: &mut ColumnFamilyOptions,
    overrides: &CompactionServiceOptionsOverride,
    is_target: bool,
) {
    let is_given = |option: &str| match option {
        "comparator" => overrides.comparator.is_some(),
        "merge_operator" => overrides.merge_operator.is_some(),
        "compaction_filter" => overrides.compaction_filter.is_some(),
        "compaction_filter_factory" => overrides.compaction_filter_factory.is_some(),
        "prefix_extractor" => overrides.prefix_extractor.is_some(),
        "sst_partitioner_factory" => overrides.sst_partitioner_factory.is_some(),
        "table_factory" => overrides.table.is_some(),
        _ => false,
    };
    let needs_comparator = family.unresolved.iter().any(|(option, _)| option == "comparator");
    if let Some(comparator) = overrides.comparator.clone().filter(|_| is_target || needs_comparator) {
        family.comparator = comparator;
    }
    if overrides.compression_manager.is_some() {
        family.compression_manager.clone_from(&overrides.compression_manager);
    }
    if !is_target {
        family.unresolved.clear();
        return;
    }
    family.unresolved.retain(|(option, _)| !is_given(option));
    family.compaction_filter.clone_from(&overrides.compaction_filter);
    family.compaction_filter_factory.clone_from(&overrides.compaction_filter_factory);
    family.table_properties_collector_factories.clone_from(&overrides.table_properties_collector_factories);
    if overrides.merge_operator.is_some() {
        family.merge_operator.clone_from(&overrides.merge_operator);
    }
    if overrides.prefix_extractor.is_some() {
        family.prefix_extractor.clone_from(&overrides.prefix_extractor);
    }
    if overrides.sst_partitioner_factory.is_some() {
        family.sst_partitioner_factory.clone_from(&overrides.sst_partitioner_factory);
    }
    if let Some(table) = &overrides.table {
        family.table = table.clone();
    }
}
