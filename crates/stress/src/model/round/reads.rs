//! The reads of a round. Each answer is compared.

use super::{CURSORS, Done, Event, ModelWrite, Round, RoundStop, SNAPSHOTS, TakenSnapshot, refused};
use crate::model::cursor::{MOST_SKIPPED, ModelCursor, Shape, show};
use crate::model::state::ModelState;
use esker::{ColumnFamilyHandle, ReadOptions};

/// The point in time of a read, and the state of the family then.
pub(super) struct ReadPoint {
    pub(super) options: ReadOptions,
    /// The expected contents of the family.
    pub(super) state: ModelState,
    /// The index of the snapshot, if there is one.
    pub(super) snapshot: Option<usize>,
    /// The timestamp, if keys of the family have timestamps.
    pub(super) time: Option<u64>,
}

impl Round {
    pub(super) fn compare(
        &mut self,
        family: usize,
        index: usize,
        call: &str,
        expected: Option<&[u8]>,
        found: esker::Result<Option<&[u8]>>,
    ) -> Done {
        self.comparisons += 1;
        let found = match found {
            Ok(found) if found == expected => return Ok(()),
            found => found.map(|value| value.map_or("nothing".to_owned(), show)),
        };
        let expected = expected.map_or("nothing".to_owned(), show);
        let described = found.as_ref().map_or_else(ToString::to_string, Clone::clone);
        let what =
            self.blame(family, Some(index), &format!("{call}: expected {expected}, found {described}"));
        Err(found.err().map_or(RoundStop::Wrong(what.clone()), |error| RoundStop::Refused(error, what)))
    }

    /// `what`, followed by the last changes of the key.
    pub(super) fn blame(&self, family: usize, index: Option<usize>, what: &str) -> String {
        let spec = &self.specs[family];
        let mut text = format!("family '{}': {what}", spec.name);
        let Some(index) = index else { return text };
        text += &format!("\nkey {} (index {index}); what happened to it:", show(&spec.keys[index]));
        let concerns = |event: &Event| match event {
            Event::Other(_) => true,
            Event::Write(of, write) => *of == family && write.keys(spec).contains(&index),
        };
        let lines: Vec<String> = self
            .events
            .iter()
            .rev()
            .filter(|(_, event)| concerns(event))
            .take(60)
            .map(|(operation, event)| match event {
                Event::Other(what) => format!("\n  {operation}: {what}"),
                Event::Write(_, write) => format!("\n  {operation}: {}", describe_write(write)),
            })
            .collect();
        lines.into_iter().rev().for_each(|line| text += &line);
        for taken in &self.snapshots {
            text += &format!(
                "\nsnapshot of operation {}, sequence {:?}",
                taken.taken_at,
                taken.snapshot.sequence()
            );
        }
        text
    }

    /// Draws a point in time.
    pub(super) fn random_read_point(&mut self, family: usize) -> ReadPoint {
        let (mut options, mut state) = (ReadOptions::default(), self.states[family].clone());
        let mut snapshot = None;
        if !self.snapshots.is_empty() && self.rng.u8(..3) == 0 {
            let chosen = self.rng.usize(..self.snapshots.len());
            let taken = &self.snapshots[chosen];
            if let Some(of_snapshot) = &taken.states[family] {
                options.snapshot = Some(taken.snapshot.clone());
                (state, snapshot) = (of_snapshot.clone(), Some(chosen));
            }
        }
        let time = self.at_some_time(family, &mut options, &mut state);
        ReadPoint { options, state, snapshot, time }
    }

    pub(super) fn get(&mut self) -> Done {
        let family = self.family();
        let index = self.rng.usize(..self.specs[family].keys.len());
        let ReadPoint { options, state, snapshot: at, time } = self.random_read_point(family);
        if time.is_some() && self.rng.u8(..4) == 0 {
            return self.get_with_timestamp(family, index);
        }
        let (key, handle) = (&self.specs[family].keys[index], &self.handles[family]);
        if at.is_none() && time.is_none() && self.rng.u8(..16) == 0 {
            let may = self.db().key_may_exist(handle, key);
            if state.get(index).is_some() && !may {
                return Err(self.blame(family, Some(index), "key_may_exist: false").into());
            }
            return Ok(());
        }
        let found = self.db().get_pinned_opt(&options, handle, key);
        let found = found.as_ref().map(|v| v.as_deref()).map_err(Clone::clone);
        let call = if at.is_some() { "get at a snapshot" } else { "get" };
        self.compare(family, index, call, state.get(index), found)
    }

    pub(super) fn multi_get(&mut self) -> Done {
        let snapshot =
            (!self.snapshots.is_empty() && self.rng.bool()).then(|| self.rng.usize(..self.snapshots.len()));
        let mut wanted = Vec::new();
        // A read at a timestamp covers one family only.
        let stamped = Some(self.family()).filter(|family| self.specs[*family].stamps.is_some());
        for _ in 0..self.rng.usize(1..20) {
            let family = stamped.unwrap_or_else(|| self.plain_family());
            let there = snapshot.is_none_or(|s| self.snapshots[s].states[family].is_some());
            if there {
                wanted.push((family, self.rng.usize(..self.specs[family].keys.len())));
            }
        }
        let pairs: Vec<(&ColumnFamilyHandle, &[u8])> =
            wanted.iter().map(|(f, i)| (&self.handles[*f], self.specs[*f].keys[*i].as_slice())).collect();
        let mut options = ReadOptions {
            snapshot: snapshot.map(|s| self.snapshots[s].snapshot.clone()),
            ..ReadOptions::default()
        };
        let time = stamped.map(|family| (family, self.readable_from[family].max(self.time / 2)));
        options.timestamp = time.and_then(|(family, time)| self.reading_at(family, time).timestamp);
        let found = self.db().multi_get_cf(&options, &pairs);
        for ((family, index), value) in wanted.into_iter().zip(found) {
            let state = match snapshot {
                Some(s) => {
                    self.snapshots[s].states[family].clone().expect("the chosen snapshot has this family")
                }
                None => self.states[family].clone(),
            };
            let state = time.map_or_else(|| state.clone(), |(_, time)| state.at(time));
            let value = value.as_ref().map(|v| v.as_deref()).map_err(Clone::clone);
            self.compare(family, index, "multi_get", state.get(index), value)?;
        }
        Ok(())
    }

    pub(super) fn new_cursor(&mut self) -> Result<ModelCursor, RoundStop> {
        let family = self.family();
        let extractor = self.settings.families[family].prefix_extractor.clone();
        let shape = Shape::random(&mut self.rng, &self.specs[family], extractor.is_some());
        self.cursor_with(family, shape)
    }

    pub(super) fn cursor_with(&mut self, family: usize, shape: Shape) -> Result<ModelCursor, RoundStop> {
        let ReadPoint { options: point, state, snapshot: at, time } = self.random_read_point(family);
        let extractor = self.settings.families[family].prefix_extractor.clone();
        let (snapshot, timestamp) = (point.snapshot, point.timestamp);
        let mut options = ReadOptions { snapshot, timestamp, ..shape.read_options(&mut self.rng) };
        // On a failing disk, a read without checksums may return any bytes, and leave them in the
        // cache for later reads.
        options.verify_checksums |= self.journal.is_some();
        let iter = self.db().iter_opt(options, &self.handles[family]).map_err(refused("iter_opt"))?;
        let family = (family, self.handles[family].id());
        let mut cursor =
            ModelCursor::new(&self.specs[family.0], family, iter, shape, state, at.is_some(), extractor);
        cursor.time = time;
        Ok(cursor)
    }

    pub(super) fn check_cursor(&mut self, cursor: &mut ModelCursor) -> Done {
        self.comparisons += 1;
        let Err(wrong) = cursor.check(&self.specs[cursor.family]) else { return Ok(()) };
        let what = self.blame(cursor.family, wrong.index, &wrong.what);
        let Some(error) = wrong.error else { return Err(RoundStop::Wrong(what)) };
        // After an error only a seek positions the iterator.
        cursor.stand_nowhere();
        Err(RoundStop::Refused(error, what))
    }

    /// Makes one random move.
    pub(super) fn move_cursor(&mut self, cursor: &mut ModelCursor) -> Done {
        let spec = &self.specs[cursor.family];
        let roll = if cursor.is_valid() { self.rng.u8(..20) } else { self.rng.u8(..6) };
        match roll {
            0 => cursor.seek_to_first(spec),
            1 => cursor.seek_to_last(spec),
            2 | 3 => {
                let target = spec.random_target(&mut self.rng);
                cursor.seek(spec, &target);
            }
            4 | 5 => {
                let target = spec.random_target(&mut self.rng);
                cursor.seek_for_prev(spec, &target);
            }
            6..=13 => cursor.next(spec),
            _ => cursor.prev(spec),
        }
        self.check_cursor(cursor)
    }

    /// Opens an iterator, seeks, steps in one direction, and sometimes back.
    pub(super) fn scan(&mut self) -> Done {
        let mut cursor = self.new_cursor()?;
        self.move_cursor(&mut cursor)?;
        let mut forward = self.rng.bool();
        for _ in 0..self.rng.usize(..40) {
            if !cursor.is_valid() {
                break;
            }
            let spec = &self.specs[cursor.family];
            if forward {
                cursor.next(spec)
            } else {
                cursor.prev(spec)
            }
            self.check_cursor(&mut cursor)?;
            if self.rng.u8(..10) == 0 {
                forward = !forward;
            }
        }
        Ok(())
    }

    /// Moves an iterator that outlives writes, flushes and compactions.
    pub(super) fn use_cursor(&mut self) -> Done {
        if self.cursors.len() < CURSORS && self.rng.u8(..20) == 0 || self.cursors.is_empty() {
            let cursor = self.new_cursor()?;
            self.cursors.push(cursor);
        }
        let chosen = self.rng.usize(..self.cursors.len());
        let mut cursor = self.cursors.swap_remove(chosen);
        match self.rng.u16(..400) {
            0 => return Ok(()),
            1 | 2 => {
                let family = cursor.family;
                if cursor.time.is_some_and(|time| time < self.readable_from[family]) {
                    return Ok(());
                }
                if cursor.id == self.handles[family].id() {
                    let newest = &self.states[family];
                    let state = match cursor.time {
                        Some(time) => newest.at(time),
                        None => newest.clone(),
                    };
                    cursor.refresh(state).map_err(refused("refresh"))?;
                }
            }
            _ => {}
        }
        let checked = self.move_cursor(&mut cursor);
        self.cursors.push(cursor);
        checked
    }

    pub(super) fn take_or_release_snapshot(&mut self) {
        if self.snapshots.len() < SNAPSHOTS && self.rng.bool() {
            let snapshot = self.db().snapshot();
            let states = self.states.iter().cloned().map(Some).collect();
            self.snapshots.push(TakenSnapshot { snapshot, states, taken_at: self.operation });
            self.note(Event::Other("take a snapshot".to_owned()));
        } else if !self.snapshots.is_empty() {
            let chosen = self.rng.usize(..self.snapshots.len());
            let taken = self.snapshots.swap_remove(chosen).taken_at;
            self.note(Event::Other(format!("release the snapshot of operation {taken}")));
        }
    }

    /// Compares all contents: scans in both directions, gets of every key, each snapshot.
    pub(super) fn verify(&mut self) -> Done {
        for family in 0..self.specs.len() {
            for backward in [false, true] {
                self.verify_scan(family, backward, None)?;
            }
            let (mut options, mut state) = (ReadOptions::default(), self.states[family].clone());
            self.at_some_time(family, &mut options, &mut state);
            for index in 0..self.specs[family].keys.len() {
                let key = &self.specs[family].keys[index];
                let found = self.db().get_pinned_opt(&options, &self.handles[family], key);
                let found = found.as_ref().map(|v| v.as_deref()).map_err(Clone::clone);
                self.compare(family, index, "get of every key", state.get(index), found)?;
            }
            for snapshot in 0..self.snapshots.len() {
                let backward = self.rng.bool();
                self.verify_scan(family, backward, Some(snapshot))?;
            }
        }
        Ok(())
    }

    pub(super) fn verify_scan(&mut self, family: usize, backward: bool, snapshot: Option<usize>) -> Done {
        let max_skippable_internal_keys = if self.rng.bool() { MOST_SKIPPED } else { 0 };
        let mut options = ReadOptions { max_skippable_internal_keys, ..ReadOptions::default() };
        let mut state = self.states[family].clone();
        if let Some(snapshot) = snapshot {
            let taken = &self.snapshots[snapshot];
            let Some(of_snapshot) = &taken.states[family] else { return Ok(()) };
            (options.snapshot, state) = (Some(taken.snapshot.clone()), of_snapshot.clone());
        }
        self.at_some_time(family, &mut options, &mut state);
        let iter = self.db().iter_opt(options, &self.handles[family]).map_err(refused("iter_opt"))?;
        let shape = Shape::default();
        let spec = &self.specs[family];
        let id = self.handles[family].id();
        let mut cursor = ModelCursor::new(spec, (family, id), iter, shape, state, snapshot.is_some(), None);
        if backward {
            cursor.seek_to_last(spec)
        } else {
            cursor.seek_to_first(spec)
        }
        self.check_cursor(&mut cursor)?;
        while cursor.is_valid() {
            let spec = &self.specs[family];
            if backward {
                cursor.prev(spec)
            } else {
                cursor.next(spec)
            }
            self.check_cursor(&mut cursor)?;
        }
        Ok(())
    }
}

fn describe_write(write: &ModelWrite) -> String {
    match write {
        ModelWrite::DeleteRange(begin, end) => format!("DeleteRange {} to {}", show(begin), show(end)),
        ModelWrite::Put(_, value) => format!("Put {}", show(value)),
        ModelWrite::Merge(_, operand) => format!("Merge {}", show(operand)),
        ModelWrite::Delete(_) => "Delete".to_owned(),
        ModelWrite::SingleDelete(_) => "SingleDelete".to_owned(),
        ModelWrite::At(time, write) => format!("at {time} {}", describe_write(write)),
    }
}
