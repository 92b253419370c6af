//! Reads values from blob files, and entities with columns in blob files.
//!
//! In: a user key with its blob index or entity. Out: the value, or the entity with the values of
//! all its columns.
//!
//! Source: RocksDB `db/blob/blob_fetcher.cc`, `db/wide/wide_column_serialization.cc`.

use super::BlobSource;
use crate::options::TableReadOptions;
use esker_base::{PinnedBytes, Result};
use esker_format::blob::BlobLocation;
use esker_format::wide_column::stored::{StoredColumns, StoredValue, may_have_blobs};
use esker_format::wide_column::{self, EncodedColumns};
use std::sync::Arc;

/// The blob files of a family, and options for reads from them. Owns both, for use over several
/// calls.
#[derive(Clone, Debug)]
pub struct BlobReader {
    /// The files.
    pub source: Arc<BlobSource>,
    /// The options for reads of values.
    pub options: TableReadOptions,
}

impl BlobReader {
    /// Borrows the files and options, for the time of one call.
    #[inline]
    pub fn reads(&self) -> BlobReads<'_> {
        BlobReads { source: &self.source, options: &self.options }
    }
}

/// The blob files of a family, and options for reads from them. Borrowed for one call.
#[derive(Clone, Copy, Debug)]
pub struct BlobReads<'a> {
    /// The files.
    pub source: &'a BlobSource,
    /// The options for reads of values.
    pub options: &'a TableReadOptions,
}

impl BlobReads<'_> {
    /// Reads the value to which the blob index of `user_key` points.
    /// # Errors
    /// `Corruption` or `IoError`, naming the file · `NotSupported`: the value can expire ·
    /// `Incomplete`: the value is not cached, and `read_tier` forbids I/O · `TimedOut`: the
    /// deadline for I/O has passed.
    #[cold]
    pub fn value(&self, user_key: &[u8], index: &[u8]) -> Result<PinnedBytes> {
        self.source.value(user_key, index, self.options)
    }

    /// The value of `user_key` at this place.
    /// # Errors
    /// `Corruption` or `IoError`, naming the file · `Incomplete`: the value is not cached, and
    /// `read_tier` forbids I/O · `TimedOut`: the deadline for I/O has passed.
    #[cold]
    pub fn at(&self, user_key: &[u8], location: &BlobLocation) -> Result<PinnedBytes> {
        self.source.at(user_key, location, self.options)
    }

    /// Reads the default column of an entity. `None` if the entity has none.
    /// # Errors
    /// `Corruption`: the entity is damaged · `Corruption` or `IoError`, naming the blob file ·
    /// `Incomplete`: a value is not cached, and `read_tier` forbids I/O · `TimedOut`: the deadline
    /// for I/O has passed.
    #[cold]
    pub fn default_column(&self, user_key: &[u8], entity: &[u8]) -> Result<Option<PinnedBytes>> {
        if !may_have_blobs(entity) {
            let column = EncodedColumns::parse(entity)?.column(wide_column::DEFAULT_COLUMN_NAME);
            return Ok(column.map(PinnedBytes::copy_from));
        }
        match StoredColumns::parse(entity)?.default_value() {
            Some(StoredValue::Inline(value)) => Ok(Some(PinnedBytes::copy_from(value))),
            Some(StoredValue::Blob(location)) => self.source.at(user_key, &location, self.options).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the entity with the values of all its columns. `None` if no column of `entity` lies
    /// in a blob file.
    /// # Errors
    /// `Corruption`: the entity is damaged · `Corruption` or `IoError`, naming the blob file ·
    /// `Incomplete`: a value is not cached, and `read_tier` forbids I/O · `TimedOut`: the deadline
    /// for I/O has passed.
    #[cold]
    pub fn whole_entity(&self, user_key: &[u8], entity: &[u8]) -> Result<Option<Vec<u8>>> {
        if !may_have_blobs(entity) {
            return Ok(None);
        }
        let stored = StoredColumns::parse(entity)?;
        let mut values = Vec::with_capacity(stored.columns.len());
        for (_, value) in &stored.columns {
            values.push(match value {
                StoredValue::Inline(_) => PinnedBytes::empty(),
                StoredValue::Blob(location) => self.source.at(user_key, location, self.options)?,
            });
        }
        let columns = stored.columns.iter().zip(&values).map(|((name, value), fetched)| match value {
            StoredValue::Inline(value) => (*name, *value),
            StoredValue::Blob(_) => (*name, fetched.as_slice()),
        });
        let mut whole = Vec::new();
        wide_column::serialize(&columns.collect::<Vec<_>>(), &mut whole)?;
        Ok(Some(whole))
    }
}

#[cfg(test)]
mod tests;
