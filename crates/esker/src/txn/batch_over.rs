//! More methods of a batch with an index: reads in a family's order, pinned reads, an iterator over
//! a database's, and timestamps.

use super::batch_index::{WriteBatchWithIndex, get_alone, get_value_alone};
use super::iterator::TransactionIterator;
use crate::db::{ColumnFamilyHandle, Db, WideColumns};
use crate::merge::operands::MergedValue;
use crate::options::ReadOptions;
use crate::scan::DbIterator;
use esker_base::{ColumnFamilyId, PinnedBytes, Result};
use esker_format::wide_column::{DEFAULT_COLUMN_NAME, EncodedColumns};
use esker_format::write_batch::WriteBatch;

/// The ops of a batch as an indexed one, without save points.
impl From<WriteBatch> for WriteBatchWithIndex {
    fn from(batch: WriteBatch) -> WriteBatchWithIndex {
        let mut indexed = WriteBatchWithIndex::default();
        indexed.batch = batch;
        indexed
    }
}

impl WriteBatchWithIndex {
    /// The effect of the batch alone on `key` of `family`, in the family's order and with its merge
    /// operator: its value, or `None` if the batch does not change it or removes it.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::{ReadOptions, WriteBatch, WriteBatchWithIndex};
    ///
    /// let family = db.default_column_family();
    /// let mut plain = WriteBatch::new();
    /// plain.put("a", "1")?;
    /// let mut batch = WriteBatchWithIndex::from(plain);
    /// batch.protect(8)?;
    /// assert_eq!(batch.get_from_batch_cf(&family, b"a")?.unwrap(), b"1");
    /// let read = ReadOptions::default();
    /// assert_eq!(&batch.get_pinned_from_batch_and_db(&db, &read, &family, b"a")?.unwrap()[..], b"1");
    /// db.put("b", "2")?;
    /// let both = batch.iter_over(&db.iter()?)?;
    /// assert_eq!(both.into_iter().count(), 2);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `MergeInProgress`: the value that the merges apply to is in the database · `NotSupported`:
    /// the batch has an operation that it cannot show alone, or the family has user-defined
    /// timestamps · `InvalidArgument`: merges in a family without a merge operator · `Corruption`:
    /// the merge operator refuses the operands.
    pub fn get_from_batch_cf(&self, family: &ColumnFamilyHandle, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(own) = self.own_of(family)? else { return Ok(None) };
        let super_version = family.cf.super_version.load_full();
        get_alone(&own, super_version.options.merge_operator.as_ref(), key)
    }

    /// The columns that the batch alone gives `key` of `family`, in the family's order and with its
    /// merge operator. `None` if the batch does not change the key or removes it. A plain value is
    /// a column without a name.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let family = db.default_column_family();
    /// let mut batch = esker::WriteBatchWithIndex::default();
    /// batch.put_entity("ada", &[(b"born", b"1815")])?;
    /// let ada = batch.get_entity_from_batch(&family, b"ada")?.expect("the batch has it");
    /// assert_eq!(ada.iter().collect::<Vec<_>>(), [(&b"born"[..], &b"1815"[..])]);
    /// assert!(batch.get_entity_from_batch(&family, b"grace")?.is_none());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `MergeInProgress`: the value that the merges apply to is in the database · `NotSupported`:
    /// the batch has an operation that it cannot show alone, or the family has user-defined
    /// timestamps · `InvalidArgument`: merges in a family without a merge operator · `Corruption`:
    /// the merge operator refuses the operands.
    pub fn get_entity_from_batch(
        &self,
        family: &ColumnFamilyHandle,
        key: &[u8],
    ) -> Result<Option<WideColumns>> {
        let Some(own) = self.own_of(family)? else { return Ok(None) };
        let super_version = family.cf.super_version.load_full();
        let operator = super_version.options.merge_operator.as_ref();
        get_value_alone(&own, operator, key)?.map(columns_of).transpose()
    }

    /// [`get_from_batch_and_db`](Self::get_from_batch_and_db), without copying the value.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge
    /// operands without a merge operator, or a snapshot or family of another database ·
    /// `NotSupported`: the family has user-defined timestamps.
    pub fn get_pinned_from_batch_and_db(
        &self,
        db: &Db,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: &[u8],
    ) -> Result<Option<PinnedBytes>> {
        match self.own_of(family)? {
            Some(own) => db.get_over(options, family, &own, key),
            None => db.get_pinned_opt(options, family, key),
        }
    }

    /// An iterator over the entries that `base` would show if the batch were written: over its
    /// family, at its point in time, within its bounds. It does not see later changes of the batch.
    /// # Errors
    /// `NotSupported`: the family has user-defined timestamps, `base` follows new writes
    /// (`tailing`), or this is a forked child process · `Corruption` and `IoError` from opening
    /// level-0 files · `Incomplete` and `TimedOut`: `read_tier` or `deadline` of `base` stops the
    /// opening of a file · `ShutdownInProgress`: the database was closed.
    pub fn iter_over(&self, base: &DbIterator) -> Result<TransactionIterator> {
        let (db, cf, options) = base.reads();
        let (db, family) = (Db { inner: db.clone() }, ColumnFamilyHandle { cf: cf.clone() });
        self.iter_with_base(&db, &options, &family)
    }

    /// Protects the batch from now on: [`WriteBatch::protect`].
    /// # Errors
    /// `InvalidArgument` if `bytes_per_key` is neither 0 nor 8.
    pub fn protect(&mut self, bytes_per_key: usize) -> Result<()> {
        self.batch.protect(bytes_per_key)
    }

    /// Replaces the last bytes of each key by `timestamp`, in the families whose keys have
    /// timestamps: [`WriteBatch::update_timestamps`].
    ///
    /// ```
    /// use esker::{ColumnFamilyId, WriteBatchWithIndex};
    ///
    /// let stamped = ColumnFamilyId(3);
    /// let mut batch = WriteBatchWithIndex::default();
    /// batch.put_cf(stamped, b"ada\0\0", "countess")?;
    /// batch.update_timestamps(b"17", |family| Ok(if family == stamped { 2 } else { 0 }))?;
    /// assert_eq!(batch.get_from_batch(stamped, None, b"ada17")?.unwrap(), b"countess");
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: `timestamp` is empty or of another size, or a key is shorter than it ·
    /// `Corruption`: the batch is protected and its bytes have changed · the error of `size_in`.
    /// The batch stays as it was.
    pub fn update_timestamps(
        &mut self,
        timestamp: &[u8],
        size_in: impl FnMut(ColumnFamilyId) -> Result<usize>,
    ) -> Result<()> {
        self.batch.update_timestamps(timestamp, size_in)?;
        self.forget_index();
        Ok(())
    }
}

/// The columns of an entity; a plain value is a column without a name.
/// # Errors
/// `Corruption` for an entity that cannot be parsed.
fn columns_of(value: MergedValue) -> Result<WideColumns> {
    Ok(match value {
        MergedValue::Plain(value) => WideColumns::copied(vec![(DEFAULT_COLUMN_NAME, &value)]),
        MergedValue::Entity(entity) => WideColumns::copied(EncodedColumns::parse(&entity)?.iter().collect()),
    })
}
