//! Files made outside come in, beside snapshots and iterators.
//!
//! In: calls with random files and options. Out: contents that are the model's.
//!
//! Invariant: a call that is refused has changed nothing.

use super::upkeep::is_refusal;
use super::{Done, Event, Round, TakenSnapshot, Write, refused};
use crate::model::cursor::Shape;
use crate::model::state::State;
use esker::{FlushOptions, IngestExternalFileOptions, SstFileWriter};
use std::path::Path;

impl Round {
    pub(super) fn ingest(&mut self) -> Done {
        let family = self.family();
        let path = self.fresh_path("external");
        let writes = self.write_external(family, &path).map_err(refused("an external file"))?;
        let rng = &mut self.rng;
        let allow_global_seqno = rng.u8(..4) > 0;
        let options = IngestExternalFileOptions {
            move_files: rng.bool(),
            snapshot_consistency: rng.u8(..4) > 0,
            allow_global_seqno,
            allow_blocking_flush: rng.u8(..4) > 0,
            verify_checksums_before_ingest: rng.bool(),
            fail_if_not_bottommost_level: rng.u8(..8) == 0,
            ..IngestExternalFileOptions::default()
        };
        let text = format!("ingest {writes:?} into '{}' with {options:?}", self.specs[family].name);
        let done = self.db().ingest_external_file_cf(&self.handles[family], &[&path], &options);
        if let Err(error) = done {
            let may_be_refused = !options.allow_global_seqno
                || !options.allow_blocking_flush
                || options.fail_if_not_bottommost_level;
            if may_be_refused && is_refusal(&error) {
                self.note(Event::Other(format!("refused: {text}: {error}")));
                return Ok(());
            }
            return Err(refused(text)(error));
        }
        self.note(Event::Other(text));
        if !allow_global_seqno && !options.snapshot_consistency {
            // The file has no number of its own: iterators and snapshots from before may see it.
            self.cursors.retain(|cursor| cursor.family != family);
            self.snapshots.iter_mut().for_each(|taken| taken.states[family] = None);
        }
        writes.iter().for_each(|write| self.apply(family, write));
        Ok(())
    }

    /// A file without a sequence number goes into a family that holds nothing, beside a fresh
    /// snapshot and an iterator, then without them: they keep it out, and nothing else does.
    pub(super) fn ingest_into_empty(&mut self) -> Done {
        let family = self.rng.usize(1..self.specs.len());
        self.empty_family(family)?;
        if self.rng.u8(..3) == 0 {
            self.cursors.clear();
            self.snapshots.clear();
            self.leave_deleted_run(family)?;
        }
        let with_snapshot = self.rng.bool();
        if with_snapshot {
            let snapshot = self.db().snapshot();
            let states = self.states.iter().cloned().map(Some).collect();
            self.snapshots.push(TakenSnapshot { snapshot, states, taken_at: self.operation });
        }
        let cursor = self.cursor_with(family, Shape::default())?;
        self.cursors.push(cursor);
        self.note(Event::Other(format!("a snapshot: {with_snapshot}, and an iterator")));
        let options = IngestExternalFileOptions { allow_global_seqno: false, ..Default::default() };
        let path = self.fresh_path("external");
        let writes = self.write_external(family, &path).map_err(refused("an external file"))?;
        let text = format!("ingest {writes:?} into empty '{}' with {options:?}", self.specs[family].name);
        let handle = &self.handles[family];
        match self.db().ingest_external_file_cf(handle, &[&path], &options) {
            Err(error) if is_refusal(&error) => self.note(Event::Other(format!("refused: {text}"))),
            Err(error) => return Err(refused(text)(error)),
            Ok(()) => {
                self.note(Event::Other(format!("taken: {text}")));
                writes.iter().for_each(|write| self.apply(family, write));
            }
        }
        for snapshot in 0..self.snapshots.len() {
            let backward = self.rng.bool();
            self.verify_scan(family, backward, Some(snapshot))?;
        }
        let mut cursor = self.cursors.pop().expect("it was opened above");
        (0..10).try_for_each(|_| self.move_cursor(&mut cursor))?;
        drop(cursor);
        if with_snapshot {
            self.snapshots.pop();
        }
        if self.states[family].len() > 0 || !self.cursors.is_empty() || !self.snapshots.is_empty() {
            return Ok(());
        }
        let done = self.db().ingest_external_file_cf(&self.handles[family], &[&path], &options);
        done.map_err(refused(format!("{text} beside nothing")))?;
        writes.iter().for_each(|write| self.apply(family, write));
        self.verify_scan(family, false, None)
    }

    /// Leaves deletions of the first keys in a table of their own, and scans over them: the scan
    /// remembers that nothing is there.
    fn leave_deleted_run(&mut self, family: usize) -> Done {
        for index in 0..6 {
            if self.specs[family].is_single(index) {
                continue;
            }
            let write = Write::Delete(index);
            let (handle, key) = (&self.handles[family], &self.specs[family].keys[index]);
            self.db().delete_cf(handle, key).map_err(refused("delete"))?;
            self.apply(family, &write);
        }
        self.db().flush_opt(&FlushOptions::default(), &[&self.handles[family]]).map_err(refused("flush"))?;
        let backward = self.rng.bool();
        self.verify_scan(family, backward, None)
    }

    /// Drops a family and makes it again.
    fn empty_family(&mut self, family: usize) -> Done {
        let name = self.specs[family].name;
        self.note(Event::Other(format!("drop '{name}' and create it again, empty")));
        let db = self.db();
        let options = &self.settings.families[family];
        let made = db
            .drop_column_family(&self.handles[family])
            .and_then(|()| db.create_column_family(name, options))
            .map_err(refused(format!("drop '{name}' and create it again")))?;
        self.handles[family] = made;
        self.states[family] = State::empty(self.specs[family].keys.len());
        self.snapshots.iter_mut().for_each(|taken| taken.states[family] = None);
        Ok(())
    }

    /// A file of up to twenty keys, with a deletion of a range or without. Its keys are newer than
    /// that.
    fn write_external(&mut self, family: usize, path: &Path) -> esker::Result<Vec<Write>> {
        let mut writes = Vec::new();
        if self.rng.u8(..4) == 0 {
            writes.push(self.random_range(family));
        }
        let keys = self.specs[family].keys.len();
        let mut index = self.rng.usize(..keys);
        for _ in 0..self.rng.usize(1..20) {
            if index >= keys {
                break;
            }
            if !self.specs[family].is_single(index) {
                let merge = self.specs[family].merge;
                writes.push(match self.rng.u8(..8) {
                    0 => Write::Delete(index),
                    1 => Write::Merge(index, self.random_operand(merge)),
                    _ => Write::Put(index, self.random_value(merge)),
                });
            }
            index += self.rng.usize(1..4);
        }
        let spec = &self.specs[family];
        let mut writer = SstFileWriter::new(&self.options_beside(family));
        writer.open(path)?;
        for write in &writes {
            match write {
                Write::Put(index, value) => writer.put(&spec.keys[*index], value)?,
                Write::Merge(index, operand) => writer.merge(&spec.keys[*index], operand)?,
                Write::Delete(index) | Write::SingleDelete(index) => writer.delete(&spec.keys[*index])?,
                Write::DeleteRange(begin, end) => writer.delete_range(begin, end)?,
            }
        }
        if writes.is_empty() {
            let first = self.rng.usize(..keys) / 8 * 8;
            writer.delete(&self.specs[family].keys[first])?;
            writes.push(Write::Delete(first));
        }
        writer.finish()?;
        Ok(writes)
    }
}
