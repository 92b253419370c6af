//! A transaction and batches: a user reads its own batch, and adds another batch to it.
//!
//! Source of the semantics: RocksDB's `Transaction::{GetWriteBatch,RebuildFromWriteBatch}`.

use super::{OptimisticTransaction, Transaction, WriteBatchWithIndex};
use crate::db::{ColumnFamilyHandle, Db};
use esker_base::{ColumnFamilyId, Error, Result};
use esker_format::wide_column::EncodedColumns;
use esker_format::write_batch::{BatchOp, WriteBatch};

/// Gives a kind of transaction its batch methods. `$open` opens a database for the example.
macro_rules! batches_of {
    ($name:ident, $open:literal, $errors:literal) => {
        /// Reads and writes of whole batches.
        impl $name {
            #[doc = "Does what `batch` says: each of its operations becomes one of this transaction. Keys in"]
            #[doc = "families with user-defined timestamps lose theirs."]
            #[doc = ""]
            #[doc = "```"]
            #[doc = "# let dir = esker_testkit::TempDir::new(\"doc\");"]
            #[doc = "# let options = esker::Options::new().create_if_missing(true);"]
            #[doc = $open]
            #[doc = "let first = db.begin_transaction();"]
            #[doc = "first.put(\"ada\", \"900\")?;"]
            #[doc = "let batch = first.with_write_batch(|batch| batch.write_batch().clone());"]
            #[doc = "first.rollback()?;"]
            #[doc = ""]
            #[doc = "let second = db.begin_transaction();"]
            #[doc = "second.rebuild_from_write_batch(&batch)?;"]
            #[doc = "second.commit()?;"]
            #[doc = "assert_eq!(db.get(\"ada\")?.unwrap(), b\"900\");"]
            #[doc = "# Ok::<_, esker::Error>(())"]
            #[doc = "```"]
            #[doc = "# Errors"]
            #[doc = "`InvalidArgument`: the batch has markers of transactions, or operations that a"]
            #[doc = "transaction has no form for; a family that is not open ·"]
            #[doc = $errors]
            #[doc = "The operations before the one that fails are part of the transaction."]
            pub fn rebuild_from_write_batch(&self, batch: &WriteBatch) -> Result<()> {
                let family = |id| family_of(self.db(), id);
                for op in batch.iter() {
                    match op {
                        BatchOp::Put { family: id, key, value } => {
                            let family = family(id)?;
                            self.put_cf(&family, plain(&family, key), value)?;
                        }
                        BatchOp::Delete { family: id, key } => {
                            let family = family(id)?;
                            self.delete_cf(&family, plain(&family, key))?;
                        }
                        BatchOp::SingleDelete { family: id, key } => {
                            let family = family(id)?;
                            self.single_delete_cf(&family, plain(&family, key))?;
                        }
                        BatchOp::Merge { family: id, key, operand } => {
                            let family = family(id)?;
                            self.merge_cf(&family, plain(&family, key), operand)?;
                        }
                        BatchOp::DeleteRange { family: id, begin, end } => {
                            let family = family(id)?;
                            self.delete_range_cf(&family, begin, end)?;
                        }
                        BatchOp::PutEntity { family: id, key, entity } => {
                            let columns: Vec<_> = EncodedColumns::parse(entity)?.iter().collect();
                            self.put_entity(&family(id)?, key, &columns)?;
                        }
                        BatchOp::LogData(blob) => self.put_log_data(blob)?,
                        BatchOp::Noop => {}
                        other => {
                            let kind = format!("{other:?}");
                            let kind = kind.split([' ', '(']).next().unwrap_or_default();
                            return Err(Error::invalid_argument(format!("a transaction has no {kind}")));
                        }
                    }
                }
                Ok(())
            }
        }
    };
}

batches_of!(
    Transaction,
    "let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;",
    "the errors of writes by [`Transaction::put_cf`]."
);
batches_of!(
    OptimisticTransaction,
    "let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;",
    "the errors of writes by [`OptimisticTransaction::put_cf`]."
);

impl Transaction {
    /// Calls `look` with the transaction's writes so far, without copying them.
    ///
    /// # Panics
    /// If `look` changes the transaction.
    pub fn with_write_batch<R>(&self, look: impl FnOnce(&WriteBatchWithIndex) -> R) -> R {
        look(&self.core().batch)
    }
}

impl OptimisticTransaction {
    /// Calls `look` with the transaction's writes so far, without copying them.
    ///
    /// # Panics
    /// If `look` uses the transaction.
    pub fn with_write_batch<R>(&self, look: impl FnOnce(&WriteBatchWithIndex) -> R) -> R {
        look(&self.own().batch)
    }

    pub(super) fn db(&self) -> &Db {
        &self.db
    }
}

fn family_of(db: &Db, id: ColumnFamilyId) -> Result<ColumnFamilyHandle> {
    let cf = db.engine().families.by_id(id);
    cf.map(|cf| ColumnFamilyHandle { cf })
        .ok_or_else(|| Error::invalid_argument(format!("column family {id} of the batch is not open")))
}

/// A key of a batch without its timestamp.
fn plain<'a>(family: &ColumnFamilyHandle, key: &'a [u8]) -> &'a [u8] {
    family.cf.icmp.split_timestamp(key).0
}
