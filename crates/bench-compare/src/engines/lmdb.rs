//! LMDB, by heed: a copy-on-write B-tree in a mapped file.

use crate::engine::{Abilities, Durability, From, RivalCursor, RivalEngine, RivalResult, RivalSettings};
use heed::types::{Bytes, DecodeIgnore};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn, WithTls};
use std::ops::Bound;
use std::path::Path;

/// Differences from the other engines' settings.
pub(crate) const NOTES: &[&str] = &[
    "every put is a transaction, written but not synced (MDB_NOSYNC)",
    "every get is a transaction of its own, a batch of reads is one",
    "the page cache is the operating system's; peak memory counts the pages of the file that it has mapped",
];

type Table = Database<'static, Bytes, Bytes>;

/// The adapter for LMDB.
///
/// Invariant: `env` points to an environment that `open` leaked and `drop` frees. Only `table` and
/// cursors refer to it; cursors borrow `self`.
pub(crate) struct Lmdb {
    table: Table,
    env: &'static Env<WithTls>,
}

fn text(error: heed::Error) -> String {
    error.to_string()
}

/// LMDB requires an address space of whole pages of this size.
const PAGE: usize = 4096;

impl RivalEngine for Lmdb {
    const ABILITIES: Abilities =
        Abilities { no_wal: false, delete_range: false, cache: false, compacts: false, ..Abilities::ALL };

    type Cursor<'a> = LmdbCursor<'a>;

    #[expect(unsafe_code, reason = "opening a mapped file is unsafe in heed")]
    fn open(dir: &Path, settings: &RivalSettings) -> RivalResult<Lmdb> {
        let mut options = EnvOpenOptions::new().read_txn_with_tls();
        options.map_size(settings.map_bytes.next_multiple_of(PAGE)).max_readers(256);
        // SAFETY: without sync a crash of the machine may leave a damaged file; the file is deleted
        // after the run.
        unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC) };
        // SAFETY: only this process uses the directory, and has one environment open there at a
        // time.
        let env = unsafe { options.open(dir) }.map_err(text)?;
        let env: &'static Env<WithTls> = Box::leak(Box::new(env));
        let transaction = env.write_txn().map_err(text)?;
        let made = env
            .create_databases_and_commit(transaction, |opener, transaction| {
                let table = opener.database_options().types::<Bytes, Bytes>().create(transaction)?;
                Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(table))
            })
            .map_err(text)?;
        let table = made.commit().ok_or("LMDB made no table")?;
        Ok(Lmdb { table, env })
    }

    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> RivalResult<()> {
        self.write(durability, |table, transaction| table.put(transaction, key, value))
    }

    fn put_all(&self, pairs: &[(&[u8], &[u8])], durability: Durability) -> RivalResult<()> {
        self.write(durability, |table, transaction| {
            pairs.iter().try_for_each(|(key, value)| table.put(transaction, key, value))
        })
    }

    fn delete(&self, key: &[u8]) -> RivalResult<()> {
        self.write(Durability::Wal, |table, transaction| table.delete(transaction, key).map(drop))
    }

    fn get(&self, key: &[u8], visit: &mut impl FnMut(&[u8])) -> RivalResult<bool> {
        Ok(self.multi_get(&[key], visit)? == 1)
    }

    fn multi_get(&self, keys: &[&[u8]], visit: &mut impl FnMut(&[u8])) -> RivalResult<usize> {
        let transaction = self.env.read_txn().map_err(text)?;
        let mut found = 0;
        for key in keys {
            if let Some(value) = self.table.get(&transaction, key).map_err(text)? {
                visit(value);
                found += 1;
            }
        }
        Ok(found)
    }

    fn with_cursor<T>(
        &self,
        _under_snapshot: bool,
        work: impl FnOnce(&mut LmdbCursor<'_>) -> RivalResult<T>,
    ) -> RivalResult<T> {
        work(&mut LmdbCursor { table: &self.table, transaction: self.env.read_txn().map_err(text)? })
    }

    fn len(&self) -> RivalResult<u64> {
        let transaction = self.env.read_txn().map_err(text)?;
        self.table.len(&transaction).map_err(text)
    }

    fn flush(&self) -> RivalResult<()> {
        self.env.force_sync().map_err(text)
    }

    fn compact(&mut self) -> RivalResult<()> {
        Err("LMDB compacts only into a copy".to_owned())
    }

    fn settle(&self) -> RivalResult<()> {
        Ok(())
    }
}

impl Lmdb {
    fn write(
        &self,
        durability: Durability,
        body: impl FnOnce(&Table, &mut RwTxn<'_>) -> heed::Result<()>,
    ) -> RivalResult<()> {
        let mut transaction = self.env.write_txn().map_err(text)?;
        body(&self.table, &mut transaction).map_err(text)?;
        transaction.commit().map_err(text)?;
        if durability == Durability::Sync {
            self.env.force_sync().map_err(text)?;
        }
        Ok(())
    }
}

impl Drop for Lmdb {
    #[expect(unsafe_code, reason = "the environment is the target of a reference without end")]
    fn drop(&mut self) {
        let env = std::ptr::from_ref(self.env).cast_mut();
        // SAFETY: `open` leaked the box, and only this line frees it. Cursors borrow `self`;
        // `table` is not used again and has no destructor.
        drop(unsafe { Box::from_raw(env) });
    }
}

/// A read transaction. Each scan opens an iterator of its own in it.
pub(crate) struct LmdbCursor<'a> {
    table: &'a Table,
    transaction: RoTxn<'a, WithTls>,
}

impl RivalCursor for LmdbCursor<'_> {
    fn scan(
        &mut self,
        from: From<'_>,
        limit: usize,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize> {
        let (table, transaction) = (self.table, &self.transaction);
        match from {
            From::First => show(table.iter(transaction).map_err(text)?, limit, visit),
            From::Key(key) => {
                let behind: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Included(key), Bound::Unbounded);
                show(table.range(transaction, &behind).map_err(text)?, limit, visit)
            }
            From::Last => show(table.rev_iter(transaction).map_err(text)?, limit, visit),
        }
    }

    fn keys(&mut self, from: From<'_>, limit: usize, visit: &mut impl FnMut(&[u8])) -> RivalResult<usize> {
        let (table, transaction) = (self.table.remap_data_type::<DecodeIgnore>(), &self.transaction);
        let visit = &mut |key: &[u8], ()| visit(key);
        match from {
            From::First => show(table.iter(transaction).map_err(text)?, limit, visit),
            From::Key(key) => {
                let behind: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Included(key), Bound::Unbounded);
                show(table.range(transaction, &behind).map_err(text)?, limit, visit)
            }
            From::Last => show(table.rev_iter(transaction).map_err(text)?, limit, visit),
        }
    }
}

fn show<'t, V>(
    pairs: impl Iterator<Item = heed::Result<(&'t [u8], V)>>,
    limit: usize,
    visit: &mut impl FnMut(&'t [u8], V),
) -> RivalResult<usize> {
    let mut count = 0;
    for pair in pairs.take(limit) {
        let (key, value) = pair.map_err(text)?;
        visit(key, value);
        count += 1;
    }
    Ok(count)
}
