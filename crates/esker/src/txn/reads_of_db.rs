//! Reads of a database with transactions, outside of its transactions: the reads of its `Db`.

use super::{OptimisticTransactionDb, TransactionDb};
use crate::db::ColumnFamilyHandle;
use crate::options::ReadOptions;
use crate::scan::{DbIterator, Entries, KeyRange, KeyValue};
use crate::snapshot::Snapshot;
use esker_base::{PinnedBytes, Result};
use std::path::Path;

/// Implements the reads of the underlying `Db` for a database with transactions. `$open` opens it
/// in an example.
macro_rules! reads_of_db {
    ($name:ident, $open:literal) => {
        /// Reads outside of transactions, of committed values.
        impl $name {
            #[doc = "The value of `key` in the default family, copied: [`Db::get`](crate::Db::get)."]
            #[doc = ""]
            #[doc = "```"]
            #[doc = "# let dir = esker_testkit::TempDir::new(\"doc\");"]
            #[doc = "# let options = esker::Options::new().create_if_missing(true);"]
            #[doc = $open]
            #[doc = "db.put(\"ada\", \"900\")?;"]
            #[doc = "assert_eq!(db.get(\"ada\")?.as_deref(), Some(&b\"900\"[..]));"]
            #[doc = "let (snapshot, key) = (db.snapshot(), \"ada\");"]
            #[doc = "db.delete(key)?;"]
            #[doc = "assert!(snapshot.contains_key(key)? && !db.contains_key(key)?);"]
            #[doc = "assert_eq!((db.range(..).count(), snapshot.range(..).count()), (0, 1));"]
            #[doc = "# Ok::<_, esker::Error>(())"]
            #[doc = "```"]
            #[doc = "# Errors"]
            #[doc = "`Corruption` and `IoError` name the file and offset · `InvalidArgument` for merge"]
            #[doc = "operands without a merge operator · `NotSupported` in a forked child of the process"]
            #[doc = "that opened the database · `ShutdownInProgress`: the database was closed."]
            pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
                self.db().get(key)
            }

            /// The value of `key` in `family`, copied: [`Db::get_cf`](crate::Db::get_cf).
            /// # Errors
            /// `Corruption` and `IoError` name the file and offset · `InvalidArgument` for merge
            /// operands without a merge operator, and for a family of another database ·
            /// `NotSupported` in a forked child process · `ShutdownInProgress`: the database was
            /// closed.
            pub fn get_cf(
                &self,
                family: &ColumnFamilyHandle,
                key: impl AsRef<[u8]>,
            ) -> Result<Option<Vec<u8>>> {
                self.db().get_cf(family, key)
            }

            /// The value of `key` in `family`, copied: [`Db::get_opt`](crate::Db::get_opt).
            /// # Errors
            /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs
            /// I/O that `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` ·
            /// `InvalidArgument` for merge operands without a merge operator, and for a family or
            /// snapshot of another database · `NotSupported` in a forked child process ·
            /// `ShutdownInProgress`: the database was closed.
            pub fn get_opt(
                &self,
                options: &ReadOptions,
                family: &ColumnFamilyHandle,
                key: impl AsRef<[u8]>,
            ) -> Result<Option<Vec<u8>>> {
                self.db().get_opt(options, family, key)
            }

            /// The value of `key` in the default family, without copying it:
            /// [`Db::get_pinned`](crate::Db::get_pinned).
            /// # Errors
            /// `Corruption` and `IoError` name the file and offset · `InvalidArgument` for merge
            /// operands without a merge operator · `NotSupported` in a forked child process ·
            /// `ShutdownInProgress`: the database was closed.
            pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedBytes>> {
                self.db().get_pinned(key)
            }

            /// Whether the default family has `key`: [`Db::contains_key`](crate::Db::contains_key).
            /// # Errors
            /// `Corruption` and `IoError` name the file and offset · `InvalidArgument` for merge
            /// operands without a merge operator · `NotSupported` in a forked child process ·
            /// `ShutdownInProgress`: the database was closed.
            pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
                self.db().contains_key(key)
            }

            /// The values of `keys` in the default family, in the order of the keys:
            /// [`Db::multi_get`](crate::Db::multi_get).
            pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<PinnedBytes>>> {
                self.db().multi_get(keys)
            }

            /// A cursor over the default family as of now: [`Db::iter`](crate::Db::iter).
            /// # Errors
            /// `Corruption` and `IoError` from opening level-0 files · `NotSupported` in a forked
            /// child process · `ShutdownInProgress`: the database was closed.
            pub fn iter(&self) -> Result<DbIterator> {
                self.db().iter()
            }

            /// A cursor over `family` as of now: [`Db::iter_cf`](crate::Db::iter_cf).
            /// # Errors
            /// `InvalidArgument` for a family of another database · `Corruption` and `IoError` from
            /// opening level-0 files · `NotSupported` in a forked child process ·
            /// `ShutdownInProgress`: the database was closed.
            pub fn iter_cf(&self, family: &ColumnFamilyHandle) -> Result<DbIterator> {
                self.db().iter_cf(family)
            }

            /// The entries of `range` in the default family: [`Db::range`](crate::Db::range).
            pub fn range(&self, range: impl KeyRange) -> Entries {
                self.db().range(range)
            }

            /// The entries of `range` in `family`: [`Db::range_cf`](crate::Db::range_cf).
            pub fn range_cf(&self, family: &ColumnFamilyHandle, range: impl KeyRange) -> Entries {
                self.db().range_cf(family, range)
            }

            /// The entries of the default family whose keys begin with `prefix`:
            /// [`Db::prefix`](crate::Db::prefix).
            pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Entries {
                self.db().prefix(prefix)
            }

            /// The first entry of the default family: [`Db::first`](crate::Db::first).
            /// # Errors
            /// `Corruption` and `IoError` name the file · `NotSupported` in a forked child process
            /// · `ShutdownInProgress`: the database was closed.
            pub fn first(&self) -> Result<Option<KeyValue>> {
                self.db().first()
            }

            /// The last entry of the default family: [`Db::last`](crate::Db::last).
            /// # Errors
            /// `Corruption` and `IoError` name the file · `NotSupported` in a forked child process
            /// · `ShutdownInProgress`: the database was closed.
            pub fn last(&self) -> Result<Option<KeyValue>> {
                self.db().last()
            }

            /// The present state, readable until the last clone is dropped:
            /// [`Db::snapshot`](crate::Db::snapshot).
            pub fn snapshot(&self) -> Snapshot {
                self.db().snapshot()
            }

            /// The family that every database has.
            pub fn default_column_family(&self) -> ColumnFamilyHandle {
                self.db().default_column_family()
            }

            /// The open family of this name.
            pub fn column_family(&self, name: &str) -> Option<ColumnFamilyHandle> {
                self.db().column_family(name)
            }

            /// The database's directory.
            pub fn path(&self) -> &Path {
                self.db().path()
            }
        }
    };
}

reads_of_db!(
    TransactionDb,
    "let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;"
);
reads_of_db!(
    OptimisticTransactionDb,
    "let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;"
);
