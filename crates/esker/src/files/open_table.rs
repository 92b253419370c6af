//! Opens the table of a version's file.

use crate::version::FileMeta;
use crate::version::file_meta::FileStats;
use esker_base::sync::Arc;
use esker_base::{Error, Result};
use esker_table::{ReadPace, TableCache, TableFile, TableReadOptions, TableReadTier, TableReader};

/// The open table of `file`. If all tables stay open (`max_open_files` = -1), the `FileMeta` keeps
/// the table, and only the first call takes a lock. Otherwise the table cache keeps it.
/// # Errors
/// `Corruption` and `IoError` name the file, `NotSupported` the feature.
#[inline]
pub(crate) fn open_file<'f>(tables: &TableCache, file: &'f FileMeta) -> Result<TableRef<'f>> {
    if let Some(reader) = file.open_table() {
        return Ok(TableRef::Kept(reader));
    }
    open_anew(tables, file)
}

/// [`open_file`] at a limited rate: before it opens a table, it waits until the rate limiter allows
/// the read of the tail, if the MANIFEST has the tail's length.
/// # Errors
/// `Corruption` and `IoError` name the file, `NotSupported` the feature.
pub(crate) fn open_at_pace<'f>(
    tables: &TableCache,
    file: &'f FileMeta,
    pace: Option<&ReadPace>,
) -> Result<TableRef<'f>> {
    if let Some(pace) = pace
        && opened_file(tables, file).is_none()
    {
        pace.wait_for(file.tail_size);
    }
    open_file(tables, file)
}

/// [`open_file`] for reads under a guard, which must not wait: `None` if the table is not open.
#[inline]
pub(crate) fn opened_file<'f>(tables: &TableCache, file: &'f FileMeta) -> Option<TableRef<'f>> {
    match file.open_table() {
        Some(reader) => Some(TableRef::Kept(reader)),
        None => tables.cached(file.number).map(TableRef::Counted),
    }
}

/// [`open_file`] within the limits of these read options.
/// # Errors
/// Errors of `open_file` · `Incomplete`: the table is not open, and no file may be read ·
/// `TimedOut`.
#[inline]
pub(crate) fn open_for<'f>(
    tables: &TableCache,
    file: &'f FileMeta,
    options: &TableReadOptions,
) -> Result<TableRef<'f>> {
    if let Some(reader) = file.open_table() {
        return Ok(TableRef::Kept(reader));
    }
    if options.read_tier == TableReadTier::BlockCache {
        return opened_file(tables, file).ok_or_else(not_open);
    }
    if options.has_deadline() && tables.cached(file.number).is_none() {
        tables.check_deadline(options)?;
    }
    let _activity = options.activity.begin();
    open_anew(tables, file)
}

#[cold]
fn not_open() -> Error {
    Error::incomplete("the table is not open, and read_tier forbids I/O")
}

#[cold]
fn open_anew<'f>(tables: &TableCache, file: &'f FileMeta) -> Result<TableRef<'f>> {
    let reader = tables.reader(&TableFile { meta: file.data(), level: file.level() })?;
    let properties = reader.properties();
    file.set_stats(FileStats {
        entries: properties.num_entries,
        deletions: properties.num_deletions,
        range_deletions: properties.num_range_deletions,
        operands: properties.num_merge_operands,
        older_versions: properties.older_versions(),
        raw_key_bytes: properties.raw_key_size,
        raw_value_bytes: properties.raw_value_size,
    });
    if tables.keeps_all_open() {
        return Ok(TableRef::Kept(file.keep_open(reader)));
    }
    Ok(TableRef::Counted(reader))
}

/// An open table, held during a read.
#[derive(Debug)]
pub(crate) enum TableRef<'f> {
    /// The `FileMeta` keeps the table open.
    Kept(&'f Arc<TableReader>),
    /// A reference of its own: the table cache may drop the table meanwhile.
    Counted(Arc<TableReader>),
}

impl std::ops::Deref for TableRef<'_> {
    type Target = Arc<TableReader>;
    #[inline]
    fn deref(&self) -> &Arc<TableReader> {
        match self {
            TableRef::Kept(reader) => reader,
            TableRef::Counted(reader) => reader,
        }
    }
}
