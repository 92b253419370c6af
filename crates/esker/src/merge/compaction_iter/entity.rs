//! The columns of an entity for a compaction filter: parsed and fetched when the filter asks.

use crate::compaction_filter::{EntityColumns, no_such_column};
use esker_base::{Error, PinnedBytes, Result};
use esker_format::wide_column::stored::{StoredColumns, StoredValue};
use esker_table::blob::BlobReader;
use std::cell::OnceCell;

/// An entity that a filter may look at.
pub(super) struct LazyEntity<'a> {
    user_key: &'a [u8],
    entity: &'a [u8],
    blobs: Option<&'a BlobReader>,
    columns: OnceCell<StoredColumns<'a>>,
    /// The values from blob files that were read, by column.
    fetched: Vec<(usize, PinnedBytes)>,
    /// The first error, which fails the compaction.
    error: OnceCell<Error>,
}

impl<'a> LazyEntity<'a> {
    /// The entity in these bytes. `None` for `blobs`: values in blob files cannot be read.
    pub(super) fn new(user_key: &'a [u8], entity: &'a [u8], blobs: Option<&'a BlobReader>) -> LazyEntity<'a> {
        let (columns, error) = (OnceCell::new(), OnceCell::new());
        LazyEntity { user_key, entity, blobs, columns, fetched: Vec::new(), error }
    }

    /// The error that the filter has met.
    pub(super) fn into_error(self) -> Option<Error> {
        self.error.into_inner()
    }

    fn columns(&self) -> &[(&'a [u8], StoredValue<'a>)] {
        let parse = || {
            StoredColumns::parse(self.entity).unwrap_or_else(|e| {
                self.error.get_or_init(|| e);
                StoredColumns::default()
            })
        };
        &self.columns.get_or_init(parse).columns
    }

    fn fetch(&mut self, index: usize) -> Result<&[u8]> {
        if let Some(at) = self.fetched.iter().position(|(fetched, _)| *fetched == index) {
            return Ok(&self.fetched[at].1);
        }
        let blobs = self.blobs.ok_or_else(|| Error::not_supported("no blob file can be read here"))?;
        let Some((_, StoredValue::Blob(location))) = self.columns().get(index) else {
            return Err(no_such_column(index, self.columns().len()));
        };
        let value = blobs.reads().at(self.user_key, location)?;
        self.fetched.push((index, value));
        Ok(&self.fetched[self.fetched.len() - 1].1)
    }
}

impl EntityColumns for LazyEntity<'_> {
    fn len(&self) -> usize {
        self.columns().len()
    }

    fn name(&self, index: usize) -> Option<&[u8]> {
        self.columns().get(index).map(|(name, _)| *name)
    }

    fn is_blob(&self, index: usize) -> bool {
        matches!(self.columns().get(index), Some((_, StoredValue::Blob(_))))
    }

    fn value(&mut self, index: usize) -> Result<&[u8]> {
        match self.columns().get(index) {
            Some((_, StoredValue::Inline(value))) => Ok(*value),
            Some(_) => {
                let error = match self.fetch(index) {
                    Ok(_) => return self.fetch(index),
                    Err(e) => e,
                };
                self.error.get_or_init(|| error.clone());
                Err(error)
            }
            None => Err(no_such_column(index, self.columns().len())),
        }
    }
}
