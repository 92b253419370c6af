//! Wide columns: values that are sets of named columns.
//!
//! In: names and values. Out: one entity under one key, or the parts of one under the same key of several families.
//!
//! The column without a name is the default column: what a plain get of an entity returns, and what a plain value is read as.
//! Source: RocksDB `db/wide`, `include/rocksdb/{wide_columns,attribute_groups}.h`.
//!
//! Invariants
//!  1. What one call returns is of one sequence number, over all its keys and families.

use super::{ColumnFamilyHandle, Db, OwnWrites};
use crate::options::{ReadOptions, WriteOptions};
use esker_base::{Error, Result};
use esker_format::wide_column::DEFAULT_COLUMN_NAME;
use esker_format::write_batch::WriteBatch;

/// The columns of an entity, by name.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct WideColumns(Vec<(Vec<u8>, Vec<u8>)>);

impl WideColumns {
    /// Of what an iterator shows.
    fn copied(columns: Vec<(&[u8], &[u8])>) -> WideColumns {
        WideColumns(columns.into_iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect())
    }

    /// Names and values, ascending by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + DoubleEndedIterator {
        self.0.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    /// The value of the column `name`; the default column has the empty name.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let at = self.0.binary_search_by(|(n, _)| n.as_slice().cmp(name.as_ref())).ok()?;
        Some(&self.0[at].1)
    }

    /// What a plain get returns; empty if there is no default column.
    pub fn default_column(&self) -> &[u8] {
        self.get(DEFAULT_COLUMN_NAME).unwrap_or_default()
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The columns of an entity that are in one family: entities may be spread over families.
#[derive(Clone, Debug)]
pub struct AttributeGroup<'a> {
    /// Where they are.
    pub column_family: &'a ColumnFamilyHandle,
    /// Names and values, in any order.
    pub columns: &'a [(&'a [u8], &'a [u8])],
}

impl Db {
    /// Sets `key` to an entity of these columns, which may stand in any order; what it was before is gone.
    /// # Errors
    /// `InvalidArgument` if a name occurs twice · as [`Db::write`].
    pub fn put_entity(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        columns: &[(&[u8], &[u8])],
    ) -> Result<()> {
        family.check_live(self)?;
        let mut batch = WriteBatch::new();
        batch.put_entity(family.id(), key.as_ref(), columns)?;
        self.write(options, &mut batch)
    }

    /// Sets `key` in several families at once, in each to the columns of its group.
    /// # Errors
    /// `InvalidArgument` without groups · as [`Db::put_entity`].
    pub fn put_entity_attribute_groups(
        &self,
        options: &WriteOptions,
        key: impl AsRef<[u8]>,
        groups: &[AttributeGroup<'_>],
    ) -> Result<()> {
        if groups.is_empty() {
            return Err(Error::invalid_argument("Cannot call this method without attribute groups"));
        }
        let mut batch = WriteBatch::new();
        for group in groups {
            group.column_family.check_live(self)?;
            batch.put_entity(group.column_family.id(), key.as_ref(), group.columns)?;
        }
        self.write(options, &mut batch)
    }

    /// All columns of `key`, or `None`. A plain value is an entity of its default column only; merge operands are applied to
    /// the default column.
    /// # Errors
    /// As [`Db::get_pinned_opt`].
    pub fn get_entity(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<WideColumns>> {
        let mut answers = self.multi_get_entity(options, family, &[key]);
        answers.pop().unwrap_or(Ok(None))
    }

    /// [`Db::get_entity`] of many keys, at one sequence number; answers stand as the keys do.
    pub fn multi_get_entity<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[K],
    ) -> Vec<Result<Option<WideColumns>>> {
        let mut iter = match self.iter_opt(anywhere(options), family) {
            Ok(iter) => iter,
            Err(error) => return keys.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut find = |key: &[u8]| {
            iter.seek(key);
            if iter.valid() && iter.key() == key {
                return Ok(Some(WideColumns::copied(iter.columns())));
            }
            iter.status().map(|()| None)
        };
        keys.iter().map(|key| find(key.as_ref())).collect()
    }

    /// [`Db::multi_get_entity`], with `own` writes over what is in the database.
    /// # Errors
    /// As there, the first that any of them gives.
    pub(crate) fn multi_get_entity_over<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        own: Option<&OwnWrites>,
        keys: &[K],
    ) -> Result<Vec<Option<WideColumns>>> {
        let mut iter = self.iter_over(&anywhere(options), family, own)?;
        let mut find = |key: &[u8]| {
            iter.seek(key);
            if iter.valid() && iter.key() == key {
                return Ok(Some(WideColumns::copied(iter.columns())));
            }
            iter.status().map(|()| None)
        };
        keys.iter().map(|key| find(key.as_ref())).collect()
    }

    /// What each of the families has under `key`, at one sequence number; answers stand as the families do.
    pub fn get_entity_attribute_groups(
        &self,
        options: &ReadOptions,
        families: &[&ColumnFamilyHandle],
        key: impl AsRef<[u8]>,
    ) -> Vec<Result<Option<WideColumns>>> {
        let mut options = options.clone();
        options.snapshot.get_or_insert_with(|| self.snapshot());
        families.iter().map(|family| self.get_entity(&options, family, key.as_ref())).collect()
    }
}

/// Options of an iterator that may be asked for any key.
fn anywhere(options: &ReadOptions) -> ReadOptions {
    ReadOptions {
        total_order_seek: true,
        prefix_same_as_start: false,
        iterate_lower_bound: None,
        iterate_upper_bound: None,
        iter_start_ts: None,
        ..options.clone()
    }
}
