//! Ingests external files, beside snapshots and iterators.
//!
//! In: calls with random files and options: one or several files, of one or several families,
//! moved, linked or copied, with or without a sequence number. Out: contents equal to the model's.
//!
//! Invariants
//!  1. A refused call has changed nothing.
//!  2. The files of a call become visible together, also after a crash. An acknowledged call
//!     survives every crash.

use super::transactions::TransactionStage;
use super::upkeep::is_refusal;
use super::{Done, Event, ModelWrite, Round, TakenSnapshot, refused};
use crate::model::cursor::Shape;
use crate::model::families::ModelFamilySpec;
use esker::{
    ErrorKind, FlushOptions, IngestExternalFileArg, IngestExternalFileOptions, SstFileWriter, WriteBatch,
};
use std::path::{Path, PathBuf};

/// Most families of one call.
const MOST_FAMILIES: usize = 3;
/// Most files of one family.
const MOST_FILES: usize = 3;

/// The files of a call.
struct Files {
    /// Paths by family. No family occurs twice.
    paths: Vec<(usize, Vec<PathBuf>)>,
    /// Contents of the files, in the order in which they take effect.
    writes: Vec<(usize, ModelWrite)>,
}

impl Round {
    pub(super) fn ingest(&mut self) -> Done {
        if (0..self.specs.len()).any(|family| self.key_to_ingest(family).is_none()) {
            return self.get();
        }
        let mut families: Vec<usize> = (0..self.specs.len()).collect();
        self.rng.shuffle(&mut families);
        families.truncate(if self.rng.bool() { 1 } else { self.rng.usize(1..=MOST_FAMILIES) });
        let files = self.write_files(&families)?;
        let mut options = self.ingest_options();
        // Files that keep their sequence numbers, here 0, must not share a key.
        options.allow_db_generated_files &= files.paths.iter().all(|(_, paths)| paths.len() == 1);
        let text = format!("ingest {:?} with {options:?}", files.writes);
        let done = self.take_in(&files, &options);
        files.paths.iter().flat_map(|(_, paths)| paths).for_each(|path| {
            // A moved file is already gone. A file that cannot be deleted on a failing disk does no
            // harm.
            drop(self.env.fs.delete_file(path));
        });
        if let Err(error) = done {
            let may_be_refused = !options.allow_global_seqno
                || options.allow_db_generated_files
                || !options.allow_blocking_flush
                || options.fail_if_not_bottommost_level;
            let refusals = [ErrorKind::InvalidArgument, ErrorKind::NotSupported];
            let is_behind = options.ingest_behind && refusals.contains(&error.kind());
            if is_behind || may_be_refused && is_refusal(&error) {
                self.note(Event::Other(format!("refused: {text}: {error}")));
                return Ok(());
            }
            let changes = self.with_ids(files.writes);
            self.record_refused_step(TransactionStage::Ingest(changes));
            return Err(refused(text)(error));
        }
        if options.ingest_behind {
            return Err(format!("taken: {text}").into());
        }
        self.note(Event::Other(text));
        let keeps_numbers = !options.allow_global_seqno || options.allow_db_generated_files;
        if keeps_numbers && !options.snapshot_consistency {
            // The files get no new sequence number, so earlier iterators and snapshots may see
            // them.
            self.cursors.retain(|cursor| !families.contains(&cursor.family));
            for family in families {
                self.forget_snapshots_of(family);
            }
        }
        self.apply_ingested(files.writes);
        Ok(())
    }

    fn ingest_options(&mut self) -> IngestExternalFileOptions {
        let rng = &mut self.rng;
        let how = rng.u8(..3);
        IngestExternalFileOptions {
            move_files: how == 0,
            link_files: how == 1,
            allow_db_generated_files: rng.u8(..6) == 0,
            failed_move_fall_back_to_copy: rng.bool(),
            snapshot_consistency: rng.u8(..4) > 0,
            allow_global_seqno: rng.u8(..4) > 0,
            allow_blocking_flush: rng.u8(..4) > 0,
            verify_checksums_before_ingest: rng.bool(),
            fail_if_not_bottommost_level: rng.u8(..8) == 0,
            // The families are not prepared for it, so such a call must change nothing.
            ingest_behind: rng.u8(..32) == 0,
            ..IngestExternalFileOptions::default()
        }
    }

    /// Writes one or several files for each of these families.
    fn write_files(&mut self, families: &[usize]) -> Result<Files, super::RoundStop> {
        let mut files = Files { paths: Vec::new(), writes: Vec::new() };
        for &family in families {
            let count = if self.rng.u8(..3) > 0 { 1 } else { self.rng.usize(1..=MOST_FILES) };
            let mut paths = Vec::new();
            for _ in 0..count {
                let path = self.fresh_path(&format!("external-{}-{}", family, paths.len()));
                let writes = self.write_external(family, &path).map_err(refused("an external file"))?;
                files.writes.extend(writes.into_iter().map(|write| (family, write)));
                paths.push(path);
            }
            files.paths.push((family, paths));
        }
        Ok(files)
    }

    /// Ingests the files by one call, or by a handle for each family. One handle for all files may
    /// first be prepared and given up.
    fn take_in(&mut self, files: &Files, options: &IngestExternalFileOptions) -> esker::Result<()> {
        let (at_once, gives_up) = (self.rng.bool(), self.rng.u8(..4) == 0);
        let arg = |(family, paths): &(usize, Vec<PathBuf>)| {
            IngestExternalFileArg::new(&self.handles[*family], paths.clone())
        };
        let args: Vec<_> = files.paths.iter().map(arg).collect();
        if at_once {
            return self.db().ingest_external_files(options, &args);
        }
        // A handle that is given up leaves its files where they were.
        if gives_up {
            self.db().prepare_file_ingestion(options, &args)?.abort()?;
        }
        let prepare = |arg| self.db().prepare_file_ingestion(options, std::slice::from_ref(arg));
        let handles = args.iter().map(prepare).collect::<esker::Result<Vec<_>>>()?;
        self.db().commit_file_ingestion_handles(handles)
    }

    /// Applies the writes of an ingestion to the model, file by file.
    fn apply_ingested(&mut self, writes: Vec<(usize, ModelWrite)>) {
        writes.iter().for_each(|(family, write)| self.apply(*family, write));
        if self.journal.is_some() {
            let (last, changes) = (self.db().latest_sequence_number().0, self.with_ids(writes));
            self.journal.iter_mut().for_each(|journal| journal.ingested(last, changes.clone()));
        }
    }

    /// Forgets the contents of a family in snapshots and transactions, because they are unknown.
    fn forget_snapshots_of(&mut self, family: usize) {
        self.snapshots.iter_mut().for_each(|taken| taken.states[family] = None);
        self.live.iter_mut().for_each(|live| live.forget_snapshot_of(family));
    }

    /// Ingests a file without a sequence number into an empty family, beside an iterator and
    /// perhaps a fresh snapshot. They must not see the file, whether the call is refused or not. A
    /// second call with no reader open succeeds, unless the file overlaps earlier entries.
    pub(super) fn ingest_into_empty(&mut self) -> Done {
        let family = self.rng.usize(1..self.specs.len());
        self.renew_families(&[family], false)?;
        let leaves_deletions = self.journal.is_none() && self.rng.u8(..3) == 0;
        if leaves_deletions {
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
        let writes: Vec<_> = writes.into_iter().map(|write| (family, write)).collect();
        let text = format!("ingest {writes:?} into empty '{}' with {options:?}", self.specs[family].name);
        let is_in = match self.db().ingest_external_file_opt(&options, &self.handles[family], &[&path]) {
            Err(error) if is_refusal(&error) => {
                self.note(Event::Other(format!("refused: {text}")));
                false
            }
            done => {
                done.map_err(refused(text.clone()))?;
                self.note(Event::Other(format!("taken: {text}")));
                self.apply_ingested(writes.clone());
                true
            }
        };
        for snapshot in 0..self.snapshots.len() {
            let backward = self.rng.bool();
            self.verify_scan(family, backward, Some(snapshot))?;
        }
        let mut cursor = self.cursors.pop().expect("the cursor was opened above");
        (0..10).try_for_each(|_| self.move_cursor(&mut cursor))?;
        drop(cursor);
        if with_snapshot {
            self.snapshots.pop();
        }
        let is_alone = self.cursors.is_empty() && self.snapshots.is_empty() && self.live.is_empty();
        if self.states[family].len() > 0 || !is_alone {
            return Ok(());
        }
        match self.db().ingest_external_file_opt(&options, &self.handles[family], &[&path]) {
            // The file overlaps the deletions, or its own keys from an earlier ingestion.
            Err(error) if is_refusal(&error) && (leaves_deletions || is_in) => Ok(()),
            done => {
                done.map_err(refused(format!("{text} beside nothing")))?;
                self.apply_ingested(writes);
                self.verify_scan(family, false, None)
            }
        }
    }

    /// Deletes the first keys, flushes the deletions into a table of their own, and scans over
    /// them, so that the scan remembers a deleted run.
    fn leave_deleted_run(&mut self, family: usize) -> Done {
        for index in 0..6 {
            if self.specs[family].is_single(index) {
                continue;
            }
            let write = self.stamp(family, ModelWrite::Delete(index));
            let mut batch = WriteBatch::new();
            let id = self.handles[family].id();
            write.add_to(&mut batch, id, &self.specs[family]).map_err(refused("a deletion into a batch"))?;
            self.db().write(&mut batch).map_err(refused("delete"))?;
            self.apply(family, &write);
        }
        self.db().flush_opt(&FlushOptions::default(), &[&self.handles[family]]).map_err(refused("flush"))?;
        let backward = self.rng.bool();
        self.verify_scan(family, backward, None)
    }

    /// Whether early transactions have written a key that this write changes: an ingestion takes no
    /// locks.
    fn is_locked(&self, family: usize, write: &ModelWrite) -> bool {
        self.parameters.mixes_policies && self.meets_transaction(family, write)
    }

    /// A key that may be ingested.
    fn key_to_ingest(&self, family: usize) -> Option<usize> {
        let spec = &self.specs[family];
        let may =
            |index: &usize| !spec.is_single(*index) && !self.is_locked(family, &ModelWrite::Delete(*index));
        (0..spec.keys.len()).find(may)
    }

    /// Writes a file of at most twenty keys, with or without a range deletion. Its keys are newer
    /// than the range deletion.
    fn write_external(&mut self, family: usize, path: &Path) -> esker::Result<Vec<ModelWrite>> {
        let mut writes = Vec::new();
        if self.rng.u8(..4) == 0 {
            let range = self.random_range(family);
            if !self.is_locked(family, &range) {
                writes.push(self.stamp(family, range));
            }
        }
        // In a family with timestamps, all keys of a file have the same one.
        let time = self.next_time();
        let at = |spec: &ModelFamilySpec, write| match spec.stamps {
            Some(_) => ModelWrite::At(time, Box::new(write)),
            None => write,
        };
        let keys = self.specs[family].keys.len();
        let mut index = self.rng.usize(..keys);
        for _ in 0..self.rng.usize(1..20) {
            if index >= keys {
                break;
            }
            if !self.specs[family].is_single(index) && !self.is_locked(family, &ModelWrite::Delete(index)) {
                let merge = self.specs[family].merge;
                let write = match self.rng.u8(..8) {
                    0 => ModelWrite::Delete(index),
                    1 => ModelWrite::Merge(index, self.random_operand(merge)),
                    _ => ModelWrite::Put(index, self.random_value(merge)),
                };
                writes.push(at(&self.specs[family], write));
            }
            index += self.rng.usize(1..4);
        }
        // The range may be empty, but a file may not.
        if writes.iter().all(|write| write.index().is_none()) {
            let some = self.key_to_ingest(family).unwrap_or(0);
            writes.push(at(&self.specs[family], ModelWrite::Delete(some)));
        }
        let spec = &self.specs[family];
        let mut writer = SstFileWriter::new(&self.options_beside(family));
        writer.open(path)?;
        writes.iter().try_for_each(|write| add(&mut writer, spec, write))?;
        writer.finish()?;
        Ok(writes)
    }
}

fn add(writer: &mut SstFileWriter, spec: &ModelFamilySpec, write: &ModelWrite) -> esker::Result<()> {
    let (time, write) = match write {
        ModelWrite::At(time, write) => (Some(*time), &**write),
        write => (None, write),
    };
    let stamped = |key: &[u8]| time.map_or_else(|| key.to_vec(), |time| spec.stamp(key, time));
    let key = |index: usize| stamped(&spec.keys[index]);
    match write {
        ModelWrite::Put(index, value) => writer.put(key(*index), value),
        ModelWrite::Merge(index, operand) => writer.merge(key(*index), operand),
        ModelWrite::Delete(index) | ModelWrite::SingleDelete(index) => writer.delete(key(*index)),
        ModelWrite::DeleteRange(begin, end) => writer.delete_range(stamped(begin), stamped(end)),
        ModelWrite::At(..) => unreachable!("a write has one timestamp"),
    }
}
