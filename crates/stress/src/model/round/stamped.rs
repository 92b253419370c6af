//! Families whose keys have timestamps: writes at ascending timestamps, reads at any readable one.
//!
//! In: calls and compactions that raise `full_history_ts_low`. Out: reads. Reads before that
//! timestamp are refused; all others are right.

use super::{Done, Event, ModelWrite, Round, refused};
use crate::model::state::ModelState;
use esker::{ErrorKind, ReadOptions, WriteBatch, WriteOptions};

impl Round {
    /// A family whose keys have no timestamps.
    pub(super) fn plain_family(&mut self) -> usize {
        loop {
            let family = self.family();
            if self.specs[family].stamps.is_none() {
                return family;
            }
        }
    }

    /// The write, at a new timestamp if keys of the family have timestamps.
    pub(super) fn stamp(&mut self, family: usize, write: ModelWrite) -> ModelWrite {
        if self.specs[family].stamps.is_none() {
            return write;
        }
        ModelWrite::At(self.next_time(), Box::new(write))
    }

    pub(super) fn next_time(&mut self) -> u64 {
        self.time += self.rng.u64(1..200);
        self.time
    }

    /// Writes by the calls that take timestamps, or by a batch.
    pub(super) fn write_at(
        &mut self,
        options: &WriteOptions,
        family: usize,
        time: u64,
        write: &ModelWrite,
    ) -> esker::Result<()> {
        let as_batch = self.rng.bool();
        let (db, handle, spec) = (self.db(), &self.handles[family], &self.specs[family]);
        if as_batch {
            let mut batch = WriteBatch::new();
            ModelWrite::At(time, Box::new(write.clone())).add_to(&mut batch, handle.id(), spec)?;
            return db.write_opt(options, &mut batch);
        }
        let timestamp = &spec.stamps.expect("keys have timestamps").timestamp(time);
        let key = |index: usize| &spec.keys[index];
        match write {
            ModelWrite::Put(index, value) => db.put_with_ts(options, handle, key(*index), timestamp, value),
            ModelWrite::Delete(index) => db.delete_with_ts(options, handle, key(*index), timestamp),
            ModelWrite::SingleDelete(index) => {
                db.single_delete_with_ts(options, handle, key(*index), timestamp)
            }
            ModelWrite::Merge(index, value) => {
                db.merge_with_ts(options, handle, key(*index), timestamp, value)
            }
            ModelWrite::DeleteRange(begin, end) => {
                db.delete_range_with_ts(options, handle, begin, end, timestamp)
            }
            ModelWrite::At(..) => unreachable!("a write has one timestamp"),
        }
    }

    /// Options of a read: at timestamp `time`, if keys of the family have timestamps.
    pub(super) fn reading_at(&self, family: usize, time: u64) -> ReadOptions {
        let timestamp = self.specs[family].stamps.map(|stamps| stamps.timestamp(time));
        ReadOptions { timestamp, ..ReadOptions::default() }
    }

    /// Moves a read to the newest timestamp or an older one, if keys of the family have timestamps.
    /// `state` becomes the contents then. Returns the timestamp.
    pub(super) fn at_some_time(
        &mut self,
        family: usize,
        options: &mut ReadOptions,
        state: &mut ModelState,
    ) -> Option<u64> {
        let stamps = self.specs[family].stamps?;
        let from = self.readable_from[family];
        let time = if self.rng.bool() { u64::MAX } else { self.rng.u64(from..=self.time.max(from)) };
        options.timestamp = Some(stamps.timestamp(time));
        *state = state.at(time);
        Some(time)
    }

    /// Compares a value and the timestamp at which it was written.
    pub(super) fn get_with_timestamp(&mut self, family: usize, index: usize) -> Done {
        let mut options = ReadOptions::default();
        let whole = self.states[family].clone();
        let mut state = whole.clone();
        let Some(time) = self.at_some_time(family, &mut options, &mut state) else { return Ok(()) };
        let (handle, key) = (&self.handles[family], &self.specs[family].keys[index]);
        let found = self.db().get_with_timestamp(&options, handle, key);
        let written_at = whole.time_of(index, time);
        if let Ok(Some((_, timestamp))) = &found {
            let stamps = self.specs[family].stamps.expect("a family read at a timestamp has timestamps");
            let found = stamps.time(timestamp);
            if written_at.is_some_and(|written_at| written_at != found) {
                let what = format!("get_with_timestamp at {time}: of {found}, not of {written_at:?}");
                return Err(self.blame(family, Some(index), &what).into());
            }
        }
        let value = found.map(|found| found.map(|(value, _)| value));
        let value = value.as_ref().map(|value| value.as_deref()).map_err(Clone::clone);
        self.compare(family, index, "get_with_timestamp", state.get(index), value)
    }

    /// Raises the oldest readable timestamp. Earlier reads are then refused, and versions that only
    /// they showed may be dropped.
    pub(super) fn raise_history_low(&mut self) -> Done {
        let family = self.family();
        let Some(stamps) = self.specs[family].stamps else { return self.get() };
        let low = self.rng.u64(self.readable_from[family]..=self.time.max(self.readable_from[family]));
        // Even a refused call may have taken effect.
        self.readable_from[family] = low;
        let name = self.specs[family].name;
        self.note(Event::Other(format!("full_history_ts_low of '{name}' to {low}")));
        let (db, handle) = (self.db(), &self.handles[family]);
        let raised = db.increase_full_history_ts_low(handle, &stamps.timestamp(low));
        raised.map_err(refused("increase_full_history_ts_low"))?;
        let in_force = db.full_history_ts_low(handle).map_err(refused("full_history_ts_low"))?;
        if in_force != stamps.timestamp(low) {
            return Err(format!("full_history_ts_low of '{name}' is {in_force:?}, not that of {low}").into());
        }
        if low == 0 {
            return Ok(());
        }
        match db.get_opt(&self.reading_at(family, low - 1), handle, &self.specs[family].keys[0]) {
            Err(error) if error.kind() == ErrorKind::InvalidArgument => Ok(()),
            answer => Err(format!("a read before full_history_ts_low {low} of '{name}': {answer:?}").into()),
        }
    }
}
