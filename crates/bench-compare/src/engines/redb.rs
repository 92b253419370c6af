//! redb 4: a copy-on-write B-tree in one file.

use crate::engine::{Abilities, Durability, From, RivalCursor, RivalEngine, RivalResult, RivalSettings};
use redb::{
    AccessGuard, Database, ReadOnlyTable, ReadableDatabase, ReadableTableMetadata, StorageError,
    TableDefinition, WriteTransaction,
};
use std::path::Path;

/// Differences from the other engines' settings.
pub(crate) const NOTES: &[&str] = &[
    "every put is a transaction; without sync (Durability::None) it is lost when the process dies",
    "every get is a transaction of its own, a batch of reads is one",
];

const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("default");

/// The adapter for redb.
pub(crate) struct Redb {
    db: Database,
}

fn text(error: impl Into<redb::Error>) -> String {
    error.into().to_string()
}

impl Redb {
    /// Runs `body` in a write transaction.
    fn write(
        &self,
        durability: Durability,
        body: impl FnOnce(&mut redb::Table<'_, &'static [u8], &'static [u8]>) -> RivalResult<()>,
    ) -> RivalResult<()> {
        let mut transaction: WriteTransaction = self.db.begin_write().map_err(text)?;
        let durability = match durability {
            Durability::NoWal | Durability::Wal => redb::Durability::None,
            Durability::Sync => redb::Durability::Immediate,
        };
        transaction.set_durability(durability).map_err(|e| e.to_string())?;
        {
            let mut table = transaction.open_table(TABLE).map_err(text)?;
            body(&mut table)?;
        }
        transaction.commit().map_err(text)
    }

    fn table(&self) -> RivalResult<ReadOnlyTable<&'static [u8], &'static [u8]>> {
        self.db.begin_read().map_err(text)?.open_table(TABLE).map_err(text)
    }
}

impl RivalEngine for Redb {
    const ABILITIES: Abilities = Abilities { no_wal: false, delete_range: false, ..Abilities::ALL };

    type Cursor<'a> = RedbCursor;

    fn open(dir: &Path, settings: &RivalSettings) -> RivalResult<Redb> {
        let mut builder = Database::builder();
        builder.set_cache_size(settings.cache_bytes);
        let db = Redb { db: builder.create(dir.join("redb")).map_err(text)? };
        db.write(Durability::Sync, |_| Ok(()))?;
        Ok(db)
    }

    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> RivalResult<()> {
        self.write(durability, |table| table.insert(key, value).map(drop).map_err(text))
    }

    fn put_all(&self, pairs: &[(&[u8], &[u8])], durability: Durability) -> RivalResult<()> {
        self.write(durability, |table| {
            for &(key, value) in pairs {
                table.insert(key, value).map_err(text)?;
            }
            Ok(())
        })
    }

    fn delete(&self, key: &[u8]) -> RivalResult<()> {
        self.write(Durability::Wal, |table| table.remove(key).map(drop).map_err(text))
    }

    fn get(&self, key: &[u8], visit: &mut impl FnMut(&[u8])) -> RivalResult<bool> {
        Ok(self.multi_get(&[key], visit)? == 1)
    }

    fn multi_get(&self, keys: &[&[u8]], visit: &mut impl FnMut(&[u8])) -> RivalResult<usize> {
        let table = self.table()?;
        let mut found = 0;
        for &key in keys {
            if let Some(value) = table.get(key).map_err(text)? {
                visit(value.value());
                found += 1;
            }
        }
        Ok(found)
    }

    fn with_cursor<T>(
        &self,
        _under_snapshot: bool,
        work: impl FnOnce(&mut RedbCursor) -> RivalResult<T>,
    ) -> RivalResult<T> {
        work(&mut RedbCursor { table: self.table()? })
    }

    fn len(&self) -> RivalResult<u64> {
        self.table()?.len().map_err(text)
    }

    fn flush(&self) -> RivalResult<()> {
        self.write(Durability::Sync, |_| Ok(()))
    }

    fn compact(&mut self) -> RivalResult<()> {
        self.db.compact().map(drop).map_err(|e| e.to_string())
    }

    fn settle(&self) -> RivalResult<()> {
        Ok(())
    }
}

/// A read transaction; every scan makes a range.
pub(crate) struct RedbCursor {
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

impl RivalCursor for RedbCursor {
    fn scan(
        &mut self,
        from: From<'_>,
        limit: usize,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize> {
        match from {
            From::First => show(self.table.range::<&[u8]>(..).map_err(text)?, limit, visit),
            From::Key(key) => show(self.table.range::<&[u8]>(key..).map_err(text)?, limit, visit),
            From::Last => show(self.table.range::<&[u8]>(..).map_err(text)?.rev(), limit, visit),
        }
    }
}

type Item = std::result::Result<
    (AccessGuard<'static, &'static [u8]>, AccessGuard<'static, &'static [u8]>),
    StorageError,
>;

fn show(
    pairs: impl Iterator<Item = Item>,
    limit: usize,
    visit: &mut impl FnMut(&[u8], &[u8]),
) -> RivalResult<usize> {
    let mut count = 0;
    for pair in pairs.take(limit) {
        let (key, value) = pair.map_err(text)?;
        visit(key.value(), value.value());
        count += 1;
    }
    Ok(count)
}
