//! Operations on a database beside reads and writes.

use super::{Outcome, Worker};
use crate::db_stress::StressKind;
use crate::metamorphic::stress_changes;
use esker::internals::base::sync::atomic::Ordering;
use esker::{ColumnFamilyHandle, FlushOptions, SstFileWriter};
use std::path::PathBuf;

/// Keys of an ingested file, and keys compared in a checkpoint.
const MANY: u32 = 50;

impl Worker<'_> {
    /// At random, does one of many kinds of maintenance.
    pub(super) fn maintain(&mut self, number: usize, family: &ColumnFamilyHandle) -> Outcome {
        let flags = self.run.flags;
        self.hold_snapshots(number, family)?;
        if self.one_in(flags.flush_one_in) {
            let flushed = self.db.flush_opt(&FlushOptions::default(), &[family]);
            self.note("a flush", flushed)?;
        }
        if self.one_in(flags.compact_range_one_in) {
            let (begin, end) = (self.key(), self.key());
            let (begin, end) = (self.run.setup.key(begin.min(end)), self.run.setup.key(begin.max(end)));
            let compacted = self.db.compact_range_opt(&Default::default(), family, Some(&begin), Some(&end));
            self.note("a compaction", compacted)?;
        }
        if self.one_in(flags.set_options_one_in) && flags.options_seed > 0 {
            let changes = stress_changes(self.rng.u64(..));
            let changes: Vec<_> = changes.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            // Some changes are refused together with other options.
            self.db.set_options(family, &changes).ok();
            self.run.report.count(StressKind::Maintenance, 1);
        }
        if self.one_in(flags.get_property_one_in) {
            let names = ["esker.stats", "rocksdb.stats", "rocksdb.sstables", "rocksdb.estimate-num-keys"];
            self.db.property_cf(family, names[self.rng.usize(..names.len())]);
            self.run.report.count(StressKind::Maintenance, 1);
        }
        if self.one_in(flags.verify_checksum_one_in) {
            let verified = self.db.verify_checksum();
            self.note("verify_checksum", verified)?;
        }
        if self.one_in(flags.ingest_external_file_one_in) {
            self.ingest(number, family)?;
        }
        if self.one_in(flags.checkpoint_one_in) {
            self.checkpoint(number)?;
        }
        Ok(())
    }

    fn note(&mut self, what: &str, result: esker::Result<()>) -> Outcome {
        self.run.report.count(StressKind::Maintenance, 1);
        match result {
            Ok(()) => Ok(()),
            Err(e) => {
                self.excuse(what, &e)?;
                self.resume().map(|_| ())
            }
        }
    }

    fn beside(&self, what: &str) -> PathBuf {
        self.run.flags.expected_values_dir.join(format!("{what}{}", self.thread))
    }

    /// Ingests a file of neighbouring keys, none of them put once.
    fn ingest(&mut self, number: usize, family: &ColumnFamilyHandle) -> Outcome {
        let first = self.key();
        let keys: Vec<u32> = (first..(first + MANY).min(self.run.flags.max_key)).collect();
        let keys: Vec<u32> = keys.into_iter().filter(|key| !self.is_put_once(*key)).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let _locks: Vec<_> =
            keys.iter().map(|key| self.run.expected.lock(self.place(number, *key))).collect();
        let path = self.beside("ingested");
        let mut writer = SstFileWriter::new(&self.run.setup.writer_options());
        let mut values = Vec::new();
        for key in &keys {
            let value = self.run.expected.begin_put(self.place(number, *key));
            values.push(self.run.setup.value(number, *key, value));
        }
        let mut made = writer.open(&path);
        for (key, value) in keys.iter().zip(&values) {
            made = made.and_then(|()| writer.put(self.run.setup.key(*key), value));
        }
        let made = made.and_then(|()| writer.finish().map(|_| ()));
        let ingested = made.and_then(|()| self.db.ingest_external_file_cf(family, &[&path]));
        self.run.report.count(StressKind::Ingestion, 1);
        self.settle(number, family, &keys, ingested)
    }

    /// Makes a checkpoint, opens it and compares some keys, which stay locked meanwhile.
    fn checkpoint(&mut self, number: usize) -> Outcome {
        let first = self.key();
        let keys: Vec<u32> = (first..(first + MANY).min(self.run.flags.max_key)).collect();
        let path = self.beside("checkpoint");
        remove(&path)?;
        let wal_bytes = if self.rng.bool() { 0 } else { u64::MAX };
        let locks: Vec<_> = keys.iter().map(|key| self.run.expected.lock(self.place(number, *key))).collect();
        let expected: Vec<_> =
            keys.iter().map(|key| self.run.expected.now(self.place(number, *key)).value()).collect();
        let made = self.db.create_checkpoint(&path, wal_bytes);
        drop(locks);
        if let Err(e) = made {
            self.excuse("a checkpoint", &e)?;
            return self.resume().map(|_| ());
        }
        self.run.report.count(StressKind::Checkpoint, 1);
        let copy = self.run.setup.open_copy(&path)?;
        let name = &self.run.setup.families[number];
        let family = copy.column_family(name).ok_or("a family is not in the checkpoint")?;
        for (key, expected) in keys.iter().zip(expected) {
            let value = copy.get_cf(&family, self.run.setup.key(*key)).map_err(|e| e.to_string())?;
            let found = value.map(|v| self.run.setup.number_of(number, *key, &v)).transpose()?;
            if found != expected {
                return Err(format!(
                    "{name}, key {key}: the checkpoint has {found:?}, expected {expected:?}"
                ));
            }
        }
        copy.close().map_err(|e| format!("close of the checkpoint: {e}"))?;
        drop(copy);
        remove(&path)
    }

    /// Drops a family and makes it again: all its keys are gone.
    pub(super) fn clear_family(&mut self, number: usize) -> Outcome {
        let families = self.families;
        let _alone = families[number].write();
        let name = &self.run.setup.families[number];
        let Some(family) = self.db.column_family(name) else { return self.gone() };
        let keys: Vec<u32> = (0..self.run.flags.max_key).collect();
        for key in &keys {
            self.run.expected.begin_delete(self.place(number, *key));
        }
        self.run.report.count(StressKind::ClearedFamily, 1);
        let (_, options) = self.run.setup.options(self.run.flags, self.run.phase)?;
        let cleared = self
            .db
            .drop_column_family(&family)
            .and_then(|()| self.db.create_column_family(name, &options).map(|_| ()));
        match cleared {
            Ok(()) => {
                keys.iter().for_each(|key| self.run.expected.commit(self.place(number, *key)));
                Ok(())
            }
            Err(e) => {
                // The next opening shows whether the family is there, and its contents.
                self.run.stop.store(true, Ordering::SeqCst);
                self.excuse("drop and create of a family", &e)
            }
        }
    }
}

fn remove(directory: &std::path::Path) -> Outcome {
    match std::fs::remove_dir_all(directory) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {e}", directory.display())),
        _ => Ok(()),
    }
}
