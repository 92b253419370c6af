//! Changes: announced, carried out, settled.

use super::{Outcome, Worker};
use crate::db_stress::StressKind;
use esker::{ColumnFamilyHandle, WriteBatch, WriteOptions};

/// Keys of a batch and of a range, at most.
const MANY: u32 = 20;

impl Worker<'_> {
    fn write_options(&self) -> WriteOptions {
        let flags = self.run.flags;
        WriteOptions::default()
            .sync(flags.sync)
            .protection_bytes_per_key(flags.batch_protection_bytes_per_key)
    }

    /// Puts or merges a key, or several at once.
    pub(super) fn write(&mut self, number: usize, family: &ColumnFamilyHandle) -> Outcome {
        let many = if self.one_in(self.run.flags.batch_one_in) { self.rng.u32(2..=MANY) } else { 1 };
        let first = self.key();
        let last = (first + many).min(self.run.flags.max_key);
        let mut keys: Vec<u32> = (first..last).collect();
        let _locks: Vec<_> =
            keys.iter().map(|key| self.run.expected.lock(self.place(number, *key))).collect();
        keys.retain(|key| {
            let is_there = self.run.expected.now(self.place(number, *key)).value().is_some();
            !(self.is_put_once(*key) && is_there)
        });
        let mut batch = WriteBatch::new();
        for key in &keys {
            let value_number = self.run.expected.begin_put(self.place(number, *key));
            let (bytes, value) = (self.run.setup.key(*key), self.run.setup.value(number, *key, value_number));
            let entity = self.run.flags.use_put_entity_one_in;
            let added = if self.is_put_once(*key) {
                batch.put_cf(family.id(), bytes, &value)
            } else if entity > 0 && value_number.is_multiple_of(entity) {
                batch.put_entity_cf(family.id(), bytes, &[(b"", &value), (b"number", &value[..4])])
            } else if self.run.flags.use_merge && self.rng.bool() {
                batch.merge_cf(family.id(), bytes, &value)
            } else {
                batch.put_cf(family.id(), bytes, &value)
            };
            added.map_err(|e| e.to_string())?;
        }
        self.run.report.count(StressKind::Write, keys.len() as u64);
        let written = self.db.write_opt(&self.write_options(), &mut batch);
        self.settle(number, family, &keys, written)
    }

    /// Deletes a key.
    pub(super) fn delete(&mut self, number: usize, family: &ColumnFamilyHandle) -> Outcome {
        let key = self.key();
        let place = self.place(number, key);
        let _lock = self.run.expected.lock(place);
        let once = self.is_put_once(key);
        if once && self.run.expected.now(place).value().is_none() {
            return Ok(());
        }
        self.run.expected.begin_delete(place);
        self.run.report.count(StressKind::Delete, 1);
        let (options, bytes) = (self.write_options(), self.run.setup.key(key));
        let deleted = if once {
            self.db.single_delete_opt(&options, family, bytes)
        } else {
            self.db.delete_opt(&options, family, bytes)
        };
        self.settle(number, family, &[key], deleted)
    }

    /// Deletes a range that contains no key that is put once.
    pub(super) fn delete_range(&mut self, number: usize, family: &ColumnFamilyHandle) -> Outcome {
        let first = self.key();
        let last = (first + 1..(first + MANY).min(self.run.flags.max_key)).find(|key| self.is_put_once(*key));
        let last = last.unwrap_or((first + MANY).min(self.run.flags.max_key));
        if self.is_put_once(first) {
            return Ok(());
        }
        let keys: Vec<u32> = (first..last).collect();
        let _locks: Vec<_> =
            keys.iter().map(|key| self.run.expected.lock(self.place(number, *key))).collect();
        for key in &keys {
            self.run.expected.begin_delete(self.place(number, *key));
        }
        self.run.report.count(StressKind::DeleteRange, 1);
        let end = match last == self.run.flags.max_key {
            true => vec![0xFF; 9],
            false => self.run.setup.key(last).to_vec(),
        };
        let deleted = self.db.delete_range_opt(&self.write_options(), family, self.run.setup.key(first), end);
        self.settle(number, family, &keys, deleted)
    }

    /// Settles changes by the outcome of the write. REQUIRES: the locks of the keys.
    pub(super) fn settle(
        &mut self,
        number: usize,
        family: &ColumnFamilyHandle,
        keys: &[u32],
        result: esker::Result<()>,
    ) -> Outcome {
        match result {
            Ok(()) => keys.iter().for_each(|key| self.run.expected.commit(self.place(number, *key))),
            Err(e) => return self.recover(family, number, keys, &e),
        }
        Ok(())
    }
}
