//! Commands on keys: get, multi_get, put, delete, delete_range, merge.

use super::Out;
use super::database::DbShell;
use super::print::{CellColumns, KeyedRow};
use super::transaction::ShellTransaction;
use super::words::key_text;
use crate::failure::{CommandOutcome, Failure};
use esker::{ColumnFamilyHandle, WideColumns, WriteBatch};

/// A write of one command.
#[derive(Clone, Copy)]
enum OneWrite<'a> {
    Put(&'a [u8], &'a [u8]),
    Delete(&'a [u8]),
    DeleteRange(&'a [u8], &'a [u8]),
    Merge(&'a [u8], &'a [u8]),
}

fn owned(columns: &WideColumns) -> CellColumns {
    columns.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
}

impl DbShell<'_> {
    pub(super) fn get(&self, key: &[u8], out: &mut Out) -> CommandOutcome {
        let row = self.read(&[key])?.pop();
        row.map_or(Ok(()), |row| self.printer.value(&row, out))
    }

    pub(super) fn multi_get(&self, keys: &[&[u8]], out: &mut Out) -> CommandOutcome {
        let rows = self.read(keys)?;
        let width = self.printer.key_width(&rows);
        rows.iter().try_for_each(|row| self.printer.row(row, width, out))
    }

    /// Reads keys at one sequence number.
    fn read(&self, keys: &[&[u8]]) -> CommandOutcome<Vec<KeyedRow>> {
        let (options, family) = (self.read_options(), &self.family);
        let values = match &self.transaction {
            None => self.db.multi_get_entity(&options, family, keys),
            Some(ShellTransaction::Locking(txn, _)) => txn.multi_get_entity(&options, family, keys),
            Some(ShellTransaction::Optimistic(txn, _)) => txn.multi_get_entity(&options, family, keys),
        };
        let row = |(key, value): (&&[u8], esker::Result<Option<WideColumns>>)| {
            Ok(KeyedRow { key: key.to_vec(), value: value?.as_ref().map(owned) })
        };
        keys.iter().zip(values).map(row).collect()
    }

    pub(super) fn put(&self, key: &[u8], value: &[u8], out: &mut Out) -> CommandOutcome {
        self.write(OneWrite::Put(key, value), out)
    }

    pub(super) fn delete(&self, key: &[u8], out: &mut Out) -> CommandOutcome {
        self.write(OneWrite::Delete(key), out)
    }

    pub(super) fn delete_range(&self, begin: &[u8], end: &[u8], out: &mut Out) -> CommandOutcome {
        self.write(OneWrite::DeleteRange(begin, end), out)
    }

    /// Without an operator the key could no longer be read.
    pub(super) fn merge(&self, key: &[u8], operand: &[u8], out: &mut Out) -> CommandOutcome {
        if self.db.options_cf(&self.family).merge_operator.is_none() {
            let family = key_text(self.family.name().as_bytes());
            return Err(Failure::new(format_args!("the family {family} has no merge operator")));
        }
        self.write(OneWrite::Merge(key, operand), out)
    }

    fn write(&self, write: OneWrite<'_>, out: &mut Out) -> CommandOutcome {
        let family = &self.family;
        match &self.transaction {
            None => self.db.write(batch_of(write, family)?)?,
            Some(ShellTransaction::Locking(txn, _)) => match write {
                OneWrite::Put(key, value) => txn.put_cf(family, key, value)?,
                OneWrite::Delete(key) => txn.delete_cf(family, key)?,
                OneWrite::DeleteRange(begin, end) => txn.delete_range_cf(family, begin, end)?,
                OneWrite::Merge(key, operand) => txn.merge_cf(family, key, operand)?,
            },
            Some(ShellTransaction::Optimistic(txn, _)) => match write {
                OneWrite::Put(key, value) => txn.put_cf(family, key, value)?,
                OneWrite::Delete(key) => txn.delete_cf(family, key)?,
                OneWrite::DeleteRange(begin, end) => txn.delete_range_cf(family, begin, end)?,
                OneWrite::Merge(key, operand) => txn.merge_cf(family, key, operand)?,
            },
        }
        self.say_ok(out)
    }
}

fn batch_of(write: OneWrite<'_>, family: &ColumnFamilyHandle) -> CommandOutcome<WriteBatch> {
    let mut batch = WriteBatch::new();
    match write {
        OneWrite::Put(key, value) => batch.put_cf(family.id(), key, value)?,
        OneWrite::Delete(key) => batch.delete_cf(family.id(), key)?,
        OneWrite::DeleteRange(begin, end) => batch.delete_range_cf(family.id(), begin, end)?,
        OneWrite::Merge(key, operand) => batch.merge_cf(family.id(), key, operand)?,
    }
    Ok(batch)
}
