//! The kinds of databases: plain ones, those whose values expire, those with transactions.
//!
//! In: reads, writes and changes of families of a [`Database`]. Out: calls of the engine's type for
//! this kind. All other calls of a database go to its [`esker::Db`].

use crate::border::NativeResult;
use crate::db::{Database, descriptors, for_open, give_opened, name_of, path};
use crate::handle::NativeHandle;
use crate::iterator::CursorKind;
use crate::jni::{JavaEnv, Reference};
use crate::options::{AllSettings, CfSettings, DbSettings};
use esker::{
    BatchArg, ColumnFamilyDescriptor, ColumnFamilyHandle, ColumnFamilyOptions, DbWithTtl, Error, OpenMode,
    OptimisticTransactionDb, PinnedBytes, ReadOptions, Result, TransactionDb, WriteBatch, WriteOptions,
};
use std::borrow::Borrow;

/// The engine's type behind a database.
#[derive(Debug)]
pub(crate) enum DatabaseKind {
    Plain,
    /// Values expire.
    Ttl(DbWithTtl),
    /// Transactions lock, and so do writes outside of them.
    Locking(TransactionDb),
    /// Transactions check at commit.
    Optimistic(OptimisticTransactionDb),
}

/// Writes one entry to a database whose values expire.
fn write_one(
    db: &DbWithTtl,
    options: &WriteOptions,
    change: impl FnOnce(&mut WriteBatch) -> Result<()>,
) -> Result<()> {
    let mut batch = WriteBatch::new();
    change(&mut batch)?;
    db.write_opt(options, batch)
}

impl Database {
    pub(crate) fn put(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        match &self.kind {
            DatabaseKind::Plain | DatabaseKind::Optimistic(_) => self.db.put_opt(options, family, key, value),
            DatabaseKind::Locking(db) => db.put_opt(options, family, key, value),
            DatabaseKind::Ttl(db) => write_one(db, options, |batch| batch.put_cf(family.id(), key, value)),
        }
    }

    pub(crate) fn merge(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        match &self.kind {
            DatabaseKind::Plain | DatabaseKind::Optimistic(_) => {
                self.db.merge_opt(options, family, key, operand)
            }
            DatabaseKind::Locking(db) => db.merge_opt(options, family, key, operand),
            DatabaseKind::Ttl(db) => {
                write_one(db, options, |batch| batch.merge_cf(family.id(), key, operand))
            }
        }
    }

    pub(crate) fn write(
        &self,
        options: &WriteOptions,
        batch: impl BatchArg + Borrow<WriteBatch>,
    ) -> Result<()> {
        match &self.kind {
            DatabaseKind::Plain | DatabaseKind::Optimistic(_) => self.db.write_opt(options, batch),
            DatabaseKind::Locking(db) => db.write_opt(options, batch),
            DatabaseKind::Ttl(db) => db.write_opt(options, batch),
        }
    }

    pub(crate) fn delete(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: &[u8],
    ) -> Result<()> {
        match &self.kind {
            DatabaseKind::Locking(db) => db.delete_opt(options, family, key),
            _ => self.db.delete_opt(options, family, key),
        }
    }

    pub(crate) fn single_delete(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: &[u8],
    ) -> Result<()> {
        match &self.kind {
            DatabaseKind::Locking(db) => {
                let mut batch = WriteBatch::new();
                batch.single_delete_cf(family.id(), key)?;
                db.write_opt(options, batch)
            }
            _ => self.db.single_delete_opt(options, family, key),
        }
    }

    pub(crate) fn delete_range(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        begin: &[u8],
        end: &[u8],
    ) -> Result<()> {
        match &self.kind {
            DatabaseKind::Locking(db) => db.delete_range_opt(options, family, begin, end),
            _ => self.db.delete_range_opt(options, family, begin, end),
        }
    }

    pub(crate) fn get(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: &[u8],
    ) -> Result<Option<PinnedBytes>> {
        match &self.kind {
            DatabaseKind::Ttl(db) => Ok(db.get_opt(options, family, key)?.map(PinnedBytes::from)),
            _ => self.db.get_pinned_opt(options, family, key),
        }
    }

    pub(crate) fn multi_get(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamilyHandle, &[u8])],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        match &self.kind {
            DatabaseKind::Ttl(_) => keys.iter().map(|(family, key)| self.get(options, family, key)).collect(),
            _ => self.db.multi_get_cf(options, keys),
        }
    }

    pub(crate) fn iter(&self, options: ReadOptions, family: &ColumnFamilyHandle) -> Result<CursorKind> {
        Ok(match &self.kind {
            DatabaseKind::Ttl(db) => CursorKind::Ttl(Box::new(db.iter_opt(options, family)?)),
            _ => CursorKind::Db(Box::new(self.db.iter_opt(options, family)?)),
        })
    }

    pub(crate) fn create_family(
        &self,
        name: &str,
        options: &ColumnFamilyOptions,
    ) -> Result<ColumnFamilyHandle> {
        match &self.kind {
            DatabaseKind::Plain | DatabaseKind::Optimistic(_) => self.db.create_column_family(name, options),
            DatabaseKind::Locking(db) => db.create_column_family(name, options),
            // As in RocksDB, values of such a family do not expire.
            DatabaseKind::Ttl(db) => db.create_column_family_with_ttl(name, options, 0),
        }
    }

    pub(crate) fn create_families(
        &self,
        families: Vec<ColumnFamilyDescriptor>,
    ) -> Result<Vec<ColumnFamilyHandle>> {
        match &self.kind {
            DatabaseKind::Plain | DatabaseKind::Optimistic(_) => self.db.create_column_families(families),
            DatabaseKind::Locking(db) => db.create_column_families(families),
            DatabaseKind::Ttl(_) => {
                families.iter().map(|family| self.create_family(&family.name, &family.options)).collect()
            }
        }
    }

    pub(crate) fn drop_families(&self, families: &[&ColumnFamilyHandle]) -> Result<()> {
        match &self.kind {
            DatabaseKind::Locking(db) => db.drop_column_families(families),
            _ => self.db.drop_column_families(families),
        }
    }
}

fn mode(is_read_only: bool) -> OpenMode {
    if is_read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite }
}

/// `TtlDB.open`: a database with one family, whose values live `ttl` seconds.
pub(crate) fn open_ttl(
    env: &JavaEnv<'_>,
    options: NativeHandle<AllSettings>,
    directory: Reference,
    ttl: i32,
    is_read_only: bool,
) -> NativeResult<i64> {
    let (options, name) = (options.get()?, path(env, directory)?);
    let families = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let (db_options, events) = for_open(options);
    let db = DbWithTtl::open(&db_options, &name, families, &[ttl], mode(is_read_only))?;
    let base = db.base_db().clone();
    Ok(Database::of_kind(DatabaseKind::Ttl(db), base, name, &db_options.env, events).give())
}

/// `TtlDB.openCF`: a database with families, each with its seconds.
pub(crate) fn open_families_ttl(
    env: &JavaEnv<'_>,
    options: NativeHandle<DbSettings>,
    directory: Reference,
    (names, family_options): (Reference, Reference),
    ttls: Reference,
    is_read_only: bool,
) -> NativeResult<Reference> {
    let families = descriptors(env, names, family_options)?;
    let (name, ttls) = (path(env, directory)?, env.ints(ttls)?);
    let (options, events) = for_open(options.get()?);
    let db = DbWithTtl::open(&options, &name, families.clone(), &ttls, mode(is_read_only))?;
    let base = db.base_db().clone();
    let database = Database::of_kind(DatabaseKind::Ttl(db), base, name, &options.env, events);
    give_opened(env, database, &families)
}

/// `TtlDB.createColumnFamilyWithTtl`.
pub(crate) fn create_family_ttl(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    name: Reference,
    options: NativeHandle<CfSettings>,
    ttl: i32,
) -> NativeResult<i64> {
    let (db, name, options) = (db.get()?, name_of(&env.all_bytes(name)?)?, &options.get()?.cf);
    let made = match &db.kind {
        DatabaseKind::Ttl(with_ttl) => with_ttl.create_column_family_with_ttl(&name, options, ttl)?,
        _ => return Err(Error::invalid_argument("the database was opened without TTL").into()),
    };
    Ok(db.give_family(made))
}
