//! Secondary indices: transactions keep entries that find keys by value.
//!
//! In: a put or deletion of a key in an index's primary family. Out: the same op, with a single
//! deletion of the former entry and a put of the new one in the index's secondary family.
//!
//! Invariants
//!  1. An entry of an index is `prefix | primary key`, with the value that the index gives, or an
//!     empty one. The prefix depends on the indexed column and on the index only, so that the value
//!     in force tells the entry to remove.
//!  2. An op and its entries are written together, or none of them: each op has a save point.
//!  3. The key is locked before its former value is read.
//!  4. Databases without indices do no work here.
//!
//! Source of the semantics: RocksDB `include/rocksdb/utilities/secondary_index{,_simple}.h`,
//! `utilities/secondary_index/secondary_index_mixin.h`.

mod iterator;

pub use iterator::SecondaryIndexIterator;

use super::options::WritePolicy;
use super::pessimistic::Transaction;
use super::timestamps::refuse_timestamps;
use super::writes::KeyOp;
use crate::db::{AttributeGroup, ColumnFamilyHandle, WideColumns};
use crate::options::ReadOptions;
use esker_base::coding::put_length_prefixed;
use esker_base::sync::Arc;
use esker_base::{Error, Result};
use esker_format::wide_column::DEFAULT_COLUMN_NAME;
use esker_lock::LockMode;
use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

/// A shared index.
pub type SecondaryIndexRef = Arc<dyn SecondaryIndex>;

/// An index over one column of the keys of a family: it finds keys by value.
///
/// The entries of an index lie in its secondary family, which may be the primary one; the program
/// keeps their keys apart from others. An entry has the key `prefix | primary key`. Transactions of
/// a [`TransactionDb`](crate::TransactionDb) with the index among its
/// [`secondary_indices`](crate::TransactionDbOptions::secondary_indices) write the entries, and so
/// do its puts and deletions outside of transactions. Batches that [`TransactionDb::write`] writes,
/// and writes of the [`Db`](crate::Db), leave the entries as they are.
///
/// Each put or deletion in the primary family locks the key, reads its value, and writes up to two
/// entries for each index. A deletion of an absent key writes nothing. Merges are refused in all
/// families, range deletions in primary ones.
///
/// [`SimpleSecondaryIndex`] indexes a column as it is. An index of the program computes the prefix,
/// for example a cluster of similar vectors:
///
/// ```
/// use esker::txn::{SecondaryIndex, SimpleSecondaryIndex};
/// use esker::{ColumnFamilyHandle, Result};
/// use std::borrow::Cow;
///
/// /// Finds words by their length.
/// struct ByLength(SimpleSecondaryIndex);
///
/// impl SecondaryIndex for ByLength {
///     fn set_primary_column_family(&self, family: &ColumnFamilyHandle) -> Result<()> {
///         self.0.set_primary_column_family(family)
///     }
///     fn set_secondary_column_family(&self, family: &ColumnFamilyHandle) -> Result<()> {
///         self.0.set_secondary_column_family(family)
///     }
///     fn primary_column_family(&self) -> Option<&ColumnFamilyHandle> {
///         self.0.primary_column_family()
///     }
///     fn secondary_column_family(&self) -> Option<&ColumnFamilyHandle> {
///         self.0.secondary_column_family()
///     }
///     fn primary_column_name(&self) -> &[u8] {
///         b""
///     }
///     fn secondary_key_prefix<'a>(&self, _: &'a [u8], word: &'a [u8]) -> Result<Cow<'a, [u8]>> {
///         Ok(Cow::Owned(vec![word.len() as u8]))
///     }
///     fn finalize_secondary_key_prefix<'a>(&self, prefix: Cow<'a, [u8]>) -> Result<Cow<'a, [u8]>> {
///         Ok(prefix)
///     }
/// }
/// # let index = ByLength(SimpleSecondaryIndex::new(""));
/// # assert_eq!(index.secondary_key_prefix(b"", b"esker")?.as_ref(), [5]);
/// # Ok::<_, esker::Error>(())
/// ```
///
/// [`TransactionDb::write`]: crate::TransactionDb::write
pub trait SecondaryIndex: Send + Sync {
    /// Names the family whose keys are indexed. Writes before this call are not indexed.
    /// # Errors
    /// `InvalidArgument`: the index has a primary family.
    fn set_primary_column_family(&self, family: &ColumnFamilyHandle) -> Result<()>;
    /// Names the family of the entries.
    /// # Errors
    /// `InvalidArgument`: the index has a secondary family.
    fn set_secondary_column_family(&self, family: &ColumnFamilyHandle) -> Result<()>;
    /// The family whose keys are indexed.
    fn primary_column_family(&self) -> Option<&ColumnFamilyHandle>;
    /// The family of the entries.
    fn secondary_column_family(&self) -> Option<&ColumnFamilyHandle>;
    /// The name of the indexed column; empty for plain values and default columns.
    fn primary_column_name(&self) -> &[u8];
    /// A value to store in place of `primary_column_value`, or `None`. Called before a put.
    /// # Errors
    /// Any error refuses the put.
    fn update_primary_column_value(
        &self,
        _primary_key: &[u8],
        _primary_column_value: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }
    /// The beginning of the entry's key: the target of a search for this value. Called for values
    /// that are stored, and for those that are about to be. The same arguments give the same
    /// prefix.
    /// # Errors
    /// Any error refuses the put or deletion.
    fn secondary_key_prefix<'a>(
        &self,
        primary_key: &'a [u8],
        primary_column_value: &'a [u8],
    ) -> Result<Cow<'a, [u8]>>;
    /// The prefix as it is stored, for example with its length before it. Called for entries and
    /// for targets of [`SecondaryIndexIterator::seek`]. The same argument gives the same prefix.
    /// # Errors
    /// Any error refuses the put or deletion, or ends the search.
    fn finalize_secondary_key_prefix<'a>(&self, secondary_key_prefix: Cow<'a, [u8]>)
    -> Result<Cow<'a, [u8]>>;
    /// The value of the entry; `None` for an empty one. `previous_column_value` is the value before
    /// [`update_primary_column_value`](Self::update_primary_column_value).
    /// # Errors
    /// Any error refuses the put.
    fn secondary_value<'a>(
        &self,
        _primary_key: &'a [u8],
        _primary_column_value: &'a [u8],
        _previous_column_value: &'a [u8],
    ) -> Result<Option<Cow<'a, [u8]>>> {
        Ok(None)
    }
}

impl fmt::Debug for dyn SecondaryIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecondaryIndex({})", self.primary_column_name().escape_ascii())
    }
}

/// An index over a column as it is. The key of an entry is `length:varint32 | value | primary key`,
/// its value is empty.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// use esker::txn::{SecondaryIndex, SecondaryIndexIterator, SimpleSecondaryIndex};
/// use esker::{Options, TransactionDb, TransactionDbOptions};
/// use std::sync::Arc;
///
/// let index = Arc::new(SimpleSecondaryIndex::new("mail"));
/// let indices = TransactionDbOptions::default().secondary_indices(vec![index.clone()]);
/// let options = Options::new().create_if_missing(true);
/// let db = TransactionDb::open(&options, &indices, dir.path())?;
/// let users = db.create_column_family("users", &Default::default())?;
/// let by_mail = db.create_column_family("users_by_mail", &Default::default())?;
/// index.set_primary_column_family(&users)?;
/// index.set_secondary_column_family(&by_mail)?;
///
/// let txn = db.begin_transaction();
/// txn.put_entity(&users, "17", &[(b"mail", b"ada@example.org")])?;
/// txn.commit()?;
///
/// let mut found = SecondaryIndexIterator::new(index, db.db().iter_cf(&by_mail)?);
/// found.seek("ada@example.org");
/// assert!(found.valid());
/// assert_eq!(found.key(), b"17");
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Debug)]
pub struct SimpleSecondaryIndex {
    primary_column_name: Vec<u8>,
    primary: OnceLock<ColumnFamilyHandle>,
    secondary: OnceLock<ColumnFamilyHandle>,
}

impl SimpleSecondaryIndex {
    /// An index over the column of this name, without families. The empty name is that of plain
    /// values.
    pub fn new(primary_column_name: impl Into<Vec<u8>>) -> SimpleSecondaryIndex {
        let primary_column_name = primary_column_name.into();
        SimpleSecondaryIndex { primary_column_name, primary: OnceLock::new(), secondary: OnceLock::new() }
    }
}

impl SecondaryIndex for SimpleSecondaryIndex {
    fn set_primary_column_family(&self, family: &ColumnFamilyHandle) -> Result<()> {
        self.primary.set(family.clone()).map_err(|_| is_set("primary"))
    }
    fn set_secondary_column_family(&self, family: &ColumnFamilyHandle) -> Result<()> {
        self.secondary.set(family.clone()).map_err(|_| is_set("secondary"))
    }
    fn primary_column_family(&self) -> Option<&ColumnFamilyHandle> {
        self.primary.get()
    }
    fn secondary_column_family(&self) -> Option<&ColumnFamilyHandle> {
        self.secondary.get()
    }
    fn primary_column_name(&self) -> &[u8] {
        &self.primary_column_name
    }
    fn secondary_key_prefix<'a>(&self, _: &'a [u8], value: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        Ok(Cow::Borrowed(value))
    }
    fn finalize_secondary_key_prefix<'a>(&self, prefix: Cow<'a, [u8]>) -> Result<Cow<'a, [u8]>> {
        if u32::try_from(prefix.len()).is_err() {
            return Err(Error::invalid_argument("a value of 4 GiB or more cannot be indexed"));
        }
        let mut bytes = Vec::with_capacity(prefix.len() + 5);
        put_length_prefixed(&mut bytes, &prefix);
        Ok(Cow::Owned(bytes))
    }
}

fn is_set(kind: &str) -> Error {
    Error::invalid_argument(format!("the secondary index has a {kind} column family"))
}

/// Checks that transactions of this policy keep indices.
/// # Errors
/// `NotSupported`: there are indices, and the policy is not `WriteCommitted`.
pub(super) fn check_policy(indices: &[SecondaryIndexRef], policy: WritePolicy) -> Result<()> {
    if indices.is_empty() || policy == WritePolicy::WriteCommitted {
        return Ok(());
    }
    Err(Error::not_supported(format!("secondary_indices: transactions of {policy:?} keep none")))
}

fn has_family(index: &SecondaryIndexRef, family: &ColumnFamilyHandle) -> bool {
    index.primary_column_family().is_some_and(|primary| Arc::ptr_eq(&primary.cf, &family.cf))
}

/// A column of the value to store: name and value.
type Column<'a> = (&'a [u8], Cow<'a, [u8]>);

/// An index that takes a new entry: the indexed value before the index changed it, and after that.
struct NewEntry<'a> {
    index: &'a SecondaryIndexRef,
    previous: Cow<'a, [u8]>,
    value: Cow<'a, [u8]>,
}

/// The entries to add for `columns`, in the order of the indices. Each index may change its column.
fn new_entries<'a>(
    indices: impl Iterator<Item = &'a SecondaryIndexRef>,
    key: &[u8],
    columns: &mut [Column<'a>],
) -> Result<Vec<NewEntry<'a>>> {
    let mut entries = Vec::new();
    for index in indices {
        let name = index.primary_column_name();
        let Some((_, value)) = columns.iter_mut().find(|(column, _)| *column == name) else { continue };
        let previous = value.clone();
        if let Some(updated) = index.update_primary_column_value(key, &previous)? {
            *value = Cow::Owned(updated);
        }
        entries.push(NewEntry { index, previous, value: value.clone() });
    }
    Ok(entries)
}

/// The key of the index's entry for this value.
fn entry_key(index: &SecondaryIndexRef, key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
    let prefix = index.finalize_secondary_key_prefix(index.secondary_key_prefix(key, value)?)?;
    Ok([&prefix, key].concat())
}

fn secondary(index: &SecondaryIndexRef) -> Result<&ColumnFamilyHandle> {
    let missing = || Error::invalid_argument("the secondary index has no secondary column family");
    index.secondary_column_family().ok_or_else(missing)
}

impl Transaction {
    /// The indices over keys of `family`.
    fn indices_of<'a>(
        &'a self,
        family: &'a ColumnFamilyHandle,
    ) -> impl Iterator<Item = &'a SecondaryIndexRef> + Clone {
        let indices = self.shared().options.secondary_indices.iter();
        indices.filter(move |index| has_family(index, family))
    }

    /// [`Transaction::write_key`] in a database with indices, or under a policy that spills ops.
    /// # Errors
    /// Those of [`Transaction::put_cf`] · `NotSupported`: merges beside indices · the errors of the
    /// indices. The transaction is as it was before the call.
    pub(super) fn write_key_and_index(
        &self,
        family: &ColumnFamilyHandle,
        key: &[u8],
        op: KeyOp<'_>,
        validate: bool,
    ) -> Result<()> {
        if let KeyOp::Merge(_) = op
            && !self.shared().options.secondary_indices.is_empty()
        {
            let call = if validate { "Merge" } else { "MergeUntracked" };
            let why = format!("{call} with secondary indices not yet supported");
            return Err(Error::not_supported(why));
        }
        if self.indices_of(family).next().is_none() {
            return self.write_key_alone(family, key, op, validate);
        }
        refuse_timestamps(family, "secondary indices")?;
        self.all_or_nothing(|| match op {
            KeyOp::Put(value) => {
                let columns = vec![(DEFAULT_COLUMN_NAME, Cow::Borrowed(value))];
                self.put_indexed(family, key, columns, op, validate)
            }
            KeyOp::PutEntity(columns) => {
                let columns = columns.iter().map(|(name, value)| (*name, Cow::Borrowed(*value))).collect();
                self.put_indexed(family, key, columns, op, validate)
            }
            KeyOp::Delete | KeyOp::SingleDelete | KeyOp::Merge(_) => {
                if self.remove_entries(family, key, validate)? {
                    self.write_key_alone(family, key, op, false)?;
                }
                Ok(())
            }
        })
    }

    /// [`Transaction::put_entity_attribute_groups`] in a database with indices.
    /// # Errors
    /// Those of [`Transaction::put_entity`]. The transaction is as it was before the call.
    pub(super) fn put_groups_and_index(&self, key: &[u8], groups: &[AttributeGroup<'_>]) -> Result<()> {
        self.all_or_nothing(|| {
            groups.iter().try_for_each(|group| self.put_entity(group.column_family, key, group.columns))
        })
    }

    /// Refuses a range deletion of keys that an index has.
    /// # Errors
    /// `NotSupported`: an index has the family.
    pub(super) fn refuse_range_of_index(&self, family: &ColumnFamilyHandle) -> Result<()> {
        if self.is_indexed(family) {
            return Err(Error::not_supported("DeleteRange with secondary indices not yet supported"));
        }
        Ok(())
    }

    /// Whether an index has the family.
    pub(super) fn is_indexed(&self, family: &ColumnFamilyHandle) -> bool {
        !self.shared().has_plain_writes && self.indices_of(family).next().is_some()
    }

    /// Makes the writes of `write`, or none of them if it fails. They are found by later reads of
    /// the transaction, also after `disable_indexing`: the entries of the next value replace those
    /// of this one.
    fn all_or_nothing(&self, write: impl FnOnce() -> Result<()>) -> Result<()> {
        self.check_live()?;
        self.set_save_point();
        let is_hidden = !self.core().batch.is_indexing();
        if is_hidden {
            self.core_mut().batch.set_indexing(true);
        }
        let result = match write() {
            Ok(()) => self.pop_save_point(),
            Err(why) => self.undo_to_save_point().and(Err(why)),
        };
        if is_hidden {
            self.core_mut().batch.set_indexing(false);
        }
        result
    }

    /// Locks `key` and adds the op, without a look at indices.
    fn write_key_alone(
        &self,
        family: &ColumnFamilyHandle,
        key: &[u8],
        op: KeyOp<'_>,
        validate: bool,
    ) -> Result<()> {
        self.lock_for_write(family, key, None, validate)?;
        self.add_op(family, key, op)
    }

    /// Replaces the entries of `key` by those of `columns`, and puts the key: `op` says whether as
    /// a plain value or as an entity.
    fn put_indexed<'a>(
        &'a self,
        family: &'a ColumnFamilyHandle,
        key: &[u8],
        mut columns: Vec<Column<'a>>,
        op: KeyOp<'_>,
        validate: bool,
    ) -> Result<()> {
        self.remove_entries(family, key, validate)?;
        let entries = new_entries(self.indices_of(family), key, &mut columns)?;
        let columns: Vec<(&[u8], &[u8])> = columns.iter().map(|(name, value)| (*name, &**value)).collect();
        let op = match (op, columns.as_slice()) {
            (KeyOp::Put(_), [(_, value)]) => KeyOp::Put(value),
            _ => KeyOp::PutEntity(&columns),
        };
        self.write_key_alone(family, key, op, false)?;
        for NewEntry { index, previous, value } in &entries {
            let entry = entry_key(index, key, value)?;
            let stored = index.secondary_value(key, value, previous)?.unwrap_or_default();
            self.write_key_alone(secondary(index)?, &entry, KeyOp::Put(&stored), true)?;
        }
        Ok(())
    }

    /// Locks `key` and removes its entries. Tells whether the key has a value.
    fn remove_entries(&self, family: &ColumnFamilyHandle, key: &[u8], validate: bool) -> Result<bool> {
        // The latest value: an entry of an older one is gone, at each level of isolation.
        let options = ReadOptions::default();
        self.lock_for_update(&options, family, key, LockMode::Exclusive, validate)?;
        let found: Vec<Result<Option<WideColumns>>> =
            self.core().batch.entities(self.db(), &options, family, &[key]);
        let Some(columns) = found.into_iter().next().transpose()?.flatten() else { return Ok(false) };
        for index in self.indices_of(family) {
            let Some(value) = columns.get(index.primary_column_name()) else { continue };
            let entry = entry_key(index, key, value)?;
            self.write_key_alone(secondary(index)?, &entry, KeyOp::SingleDelete, true)?;
        }
        Ok(true)
    }
}
