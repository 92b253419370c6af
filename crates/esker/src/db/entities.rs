//! Wide columns: values that are sets of named columns.
//!
//! In: names and values. Out: one entity under one key, or its parts under the same key in several
//! families.
//!
//! The column without a name is the default column: a plain get of an entity returns its value, and
//! a plain value reads as an entity with this column alone.
//! Source: RocksDB `db/wide`, `include/rocksdb/{wide_columns,attribute_groups}.h`.
//!
//! Invariants
//!  1. One call returns values of one sequence number, over all its keys and families.

use super::writes::timestamp_wanted;
use super::{ColumnFamilyHandle, Db};
use crate::cf::OwnWrites;
use crate::get::answer::Answer;
use crate::get::batch::{Output, behind_limit};
use crate::get::point::PointRead;
use crate::options::{ReadOptions, WriteOptions};
use esker_base::stats::{Statistics, Ticker};
use esker_base::{Error, Result};
use esker_format::wide_column::{DEFAULT_COLUMN_NAME, EncodedColumns};
use esker_format::write_batch::WriteBatch;

/// The columns of an entity, by name.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let db = esker::Db::open_default(dir.path())?;
/// let family = db.default_column_family();
/// db.put_entity(&Default::default(), &family, "ada", &[(b"born", b"1815"), (b"name", b"Ada")])?;
/// let ada = db.get_entity(&Default::default(), &family, "ada")?.expect("it was just written");
/// assert_eq!(ada.get("born"), Some(&b"1815"[..]));
/// assert_eq!((ada.len(), ada.is_empty(), ada.default_column()), (2, false, &b""[..]));
/// assert_eq!(ada.iter().next(), Some((&b"born"[..], &b"1815"[..])));
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct WideColumns(Vec<(Vec<u8>, Vec<u8>)>);

impl WideColumns {
    /// Copies the columns that an iterator shows.
    pub(crate) fn copied(columns: Vec<(&[u8], &[u8])>) -> WideColumns {
        WideColumns(columns.into_iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect())
    }

    /// The columns in the answer of a read.
    /// # Errors
    /// The answer's error · `Corruption` if the answer is no entity.
    fn of_answer(answer: Answer<'_>) -> Result<Option<WideColumns>> {
        let entity = match answer {
            Answer::Lent(value) => {
                return Ok(Some(WideColumns::copied(vec![(DEFAULT_COLUMN_NAME, value.bytes())])));
            }
            Answer::Made(made) => made?,
        };
        entity
            .map(|entity| Ok(WideColumns::copied(EncodedColumns::parse(&entity)?.iter().collect())))
            .transpose()
    }

    /// Bytes of all names and values.
    fn value_bytes(&self) -> u64 {
        self.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum()
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

    /// The value that a plain get returns; empty if there is no default column.
    pub fn default_column(&self) -> &[u8] {
        self.get(DEFAULT_COLUMN_NAME).unwrap_or_default()
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the entity has no columns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The columns of an entity that are in one family: entities may be spread over families.
#[derive(Clone, Debug)]
pub struct AttributeGroup<'a> {
    /// The family of these columns.
    pub column_family: &'a ColumnFamilyHandle,
    /// Names and values, in any order.
    pub columns: &'a [(&'a [u8], &'a [u8])],
}

impl Db {
    /// Sets `key` to an entity of these columns, which may be in any order. The former value is
    /// gone.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let family = db.default_column_family();
    /// db.put_entity(&Default::default(), &family, "ada", &[(b"born", b"1815"), (b"name", b"Ada")])?;
    /// let ada = db.get_entity(&Default::default(), &family, "ada")?.expect("it was just written");
    /// assert_eq!(ada.get("born"), Some(&b"1815"[..]));
    /// assert_eq!((ada.len(), ada.is_empty(), ada.default_column()), (2, false, &b""[..]));
    /// assert_eq!(ada.iter().next(), Some((&b"born"[..], &b"1815"[..])));
    /// let both = db.multi_get_entity(&Default::default(), &family, &["ada", "grace"]);
    /// assert!(both[1].as_ref().unwrap().is_none());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: a name occurs twice, options that contradict each other, a family of
    /// another database, or one whose keys have timestamps · `ColumnFamilyDropped` · `Incomplete`:
    /// `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`: the database was
    /// closed · `NotSupported`: a read-only database or a forked child process · `IoError`: the WAL
    /// could not be written; writes fail until [`Db::resume`] · the background error in force.
    pub fn put_entity(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        columns: &[(&[u8], &[u8])],
    ) -> Result<()> {
        check_takes_entities(family, self)?;
        let mut batch = WriteBatch::new();
        batch.put_entity_cf(family.id(), key.as_ref(), columns)?;
        self.write_opt(options, &mut batch)
    }

    /// Sets `key` in several families at once, in each to the columns of its group.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::AttributeGroup;
    ///
    /// let families = db.create_column_families(["names", "dates"])?;
    /// let (names, dates) = (&families[0], &families[1]);
    /// let groups = [
    ///     AttributeGroup { column_family: names, columns: &[(b"first", b"Ada")] },
    ///     AttributeGroup { column_family: dates, columns: &[(b"born", b"1815")] },
    /// ];
    /// db.put_entity_attribute_groups(&Default::default(), "ada", &groups)?;
    /// let found = db.get_entity_attribute_groups(&Default::default(), &[names, dates], "ada");
    /// assert_eq!(found.len(), 2);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: there are no groups, a name occurs twice, options that contradict each
    /// other, a family of another database, or one whose keys have timestamps ·
    /// `ColumnFamilyDropped` · `Incomplete`: `no_slowdown` is set, and writers are stalled ·
    /// `ShutdownInProgress`: the database was closed · `NotSupported`: a read-only database or a
    /// forked child process · `IoError`: the WAL could not be written; writes fail until
    /// [`Db::resume`] · the background error in force.
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
            check_takes_entities(group.column_family, self)?;
            batch.put_entity_cf(group.column_family.id(), key.as_ref(), group.columns)?;
        }
        self.write_opt(options, &mut batch)
    }

    /// All columns of `key`, or `None`. A plain value is an entity of its default column only;
    /// merge operands are applied to the default column. The search is that of
    /// [`Db::get_pinned_opt`], filters included. The columns are copied.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge
    /// operands without a merge operator, a snapshot or family of another database, or timestamps
    /// that the options and the family do not agree on · `NotSupported`: a newer version wrote it,
    /// or this is a forked child process · `ShutdownInProgress`: the database was closed.
    pub fn get_entity(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<WideColumns>> {
        let statistics = self.engine().options.statistics.as_deref();
        let found = self.entity_over(options, family, None, key.as_ref(), statistics)?;
        if let Some(statistics) = statistics {
            statistics.record_tick(Ticker::NumberKeysRead, 1);
            statistics.record_tick(Ticker::BytesRead, found.as_ref().map_or(0, WideColumns::value_bytes));
        }
        Ok(found)
    }

    /// [`Db::get_entity`] of many keys, read together at one sequence number, as by
    /// [`Db::multi_get_opt`]. Each key has its own result, in the order of the keys.
    pub fn multi_get_entity<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[K],
    ) -> Vec<Result<Option<WideColumns>>> {
        if has_timestamps(options, family) {
            return self.timestamped_entities(options, family, keys);
        }
        let mut output = EntityOutput::default();
        self.read_entities(options, family, keys, &mut output);
        output.into_entities()
    }

    /// [`Db::multi_get_entity`] of the database as a transaction's `own` writes change it.
    pub(crate) fn multi_get_entity_over<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        own: Option<&OwnWrites>,
        keys: &[K],
    ) -> Vec<Result<Option<WideColumns>>> {
        let Some(own) = own else { return self.multi_get_entity(options, family, keys) };
        let divided = self.divided(options, own, keys);
        let rest = self.multi_get_entity(&divided.options, family, &divided.rest);
        divided.join(rest, |key| self.entity_over(&divided.options, family, Some(own), key, None))
    }

    fn entity_over(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        own: Option<&OwnWrites>,
        key: &[u8],
        statistics: Option<&Statistics>,
    ) -> Result<Option<WideColumns>> {
        if has_timestamps(options, family) {
            return self.timestamped_entity(options, family, key);
        }
        let read = PointRead { options, cf: &family.cf, own, statistics, entities: true };
        let mut found = Ok(None);
        self.inner.find(&read, key, &mut |answer| found = WideColumns::of_answer(answer))?;
        found
    }

    #[cold]
    fn timestamped_entity(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: &[u8],
    ) -> Result<Option<WideColumns>> {
        let mut iter = self.inner.timestamped(options, &family.cf, key)?;
        Ok(iter.find(key)?.then(|| WideColumns::copied(iter.columns())))
    }

    #[cold]
    fn timestamped_entities<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[K],
    ) -> Vec<Result<Option<WideColumns>>> {
        let mut options = options.clone();
        options.snapshot.get_or_insert_with(|| self.snapshot());
        let mut bytes = 0;
        let read = |key: &K| {
            if bytes > options.value_size_soft_limit {
                return Err(behind_limit());
            }
            let entity = self.timestamped_entity(&options, family, key.as_ref())?;
            bytes += entity.as_ref().map_or(0, WideColumns::value_bytes);
            Ok(entity)
        };
        keys.iter().map(read).collect()
    }

    /// The entities that each family has under `key`, at one sequence number, in the families'
    /// order.
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

/// The answers of a batch of entities.
#[derive(Default)]
struct EntityOutput {
    entities: Vec<Result<Option<WideColumns>>>,
    value_bytes: u64,
}

impl EntityOutput {
    fn into_entities(self) -> Vec<Result<Option<WideColumns>>> {
        self.entities
    }

    fn put(&mut self, i: usize, entity: Result<Option<WideColumns>>) {
        if let Ok(Some(entity)) = &entity {
            self.value_bytes += entity.value_bytes();
        }
        self.entities[i] = entity;
    }
}

impl Output for EntityOutput {
    fn reset(&mut self, len: usize) {
        self.entities.clear();
        self.entities.resize_with(len, || Ok(None));
        self.value_bytes = 0;
    }
    fn set(&mut self, i: usize, answer: Answer<'_>) {
        self.put(i, WideColumns::of_answer(answer));
    }
    fn repeat(&mut self, i: usize, of: usize) {
        self.put(i, self.entities[of].clone());
    }
    fn value_bytes(&self) -> u64 {
        self.value_bytes
    }
    fn found_count(&self) -> u64 {
        self.entities.iter().filter(|entity| matches!(entity, Ok(Some(_)))).count() as u64
    }
}

/// Checks that the family is live and takes entities.
/// # Errors
/// `InvalidArgument` for a family of another database, or one with timestamps: a timestamp cannot
/// be distinguished from the end of a key · `ColumnFamilyDropped`.
fn check_takes_entities(family: &ColumnFamilyHandle, db: &Db) -> Result<()> {
    family.check_live(db)?;
    if family.cf.icmp.timestamp_size() > 0 {
        return Err(timestamp_wanted());
    }
    Ok(())
}

fn has_timestamps(options: &ReadOptions, family: &ColumnFamilyHandle) -> bool {
    options.timestamp.is_some() || family.cf.icmp.timestamp_size() > 0
}
