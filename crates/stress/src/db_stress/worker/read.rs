//! Reads beside the writers.

use super::{HeldSnapshot, Outcome, Worker};
use crate::db_stress::StressKind;
use crate::db_stress::expected::KeyKnowledge;
use esker::{ColumnFamilyHandle, ReadOptions};

/// Keys of a batch and of a scan, at most.
const MANY: u32 = 30;
/// Moves of an iterator.
const MOVES: u32 = 10;

impl Worker<'_> {
    fn seen(&self, number: usize, keys: &[u32]) -> Vec<KeyKnowledge> {
        keys.iter().map(|key| self.run.expected.seen(self.place(number, *key))).collect()
    }

    /// Reads a key, or several at once.
    pub(super) fn read(&mut self, number: usize, family: &ColumnFamilyHandle) -> Outcome {
        if self.run.flags.use_multiget && self.rng.u8(..4) == 0 {
            return self.read_many(number, family);
        }
        self.run.report.count(StressKind::Read, 1);
        let key = self.key();
        let before = self.run.expected.seen(self.place(number, key));
        match self.db.get_cf(family, self.run.setup.key(key)) {
            Ok(found) => {
                let after = self.run.expected.seen(self.place(number, key));
                self.compare(number, key, (before, after), found.as_deref(), "get")
            }
            Err(e) => self.excuse("get", &e),
        }
    }

    fn read_many(&mut self, number: usize, family: &ColumnFamilyHandle) -> Outcome {
        let keys: Vec<u32> = (0..self.rng.u32(2..MANY)).map(|_| self.key()).collect();
        self.run.report.count(StressKind::Read, keys.len() as u64);
        let bytes: Vec<_> = keys.iter().map(|key| self.run.setup.key(*key)).collect();
        let before = self.seen(number, &keys);
        let answers = self.db.multi_get_opt(&ReadOptions::default(), family, &bytes);
        let after = self.seen(number, &keys);
        for (i, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(found) => {
                    self.compare(number, keys[i], (before[i], after[i]), found.as_deref(), "multi_get")?;
                }
                Err(e) => self.excuse("multi_get", &e)?,
            }
        }
        Ok(())
    }

    /// Scans some neighbours, in either direction, within bounds or from a seek on.
    pub(super) fn scan(&mut self, number: usize, family: &ColumnFamilyHandle) -> Outcome {
        let first = self.key();
        let last = (first + self.rng.u32(1..MANY)).min(self.run.flags.max_key - 1);
        let keys: Vec<u32> = (first..=last).collect();
        let (low, high) = (self.run.setup.key(first), self.run.setup.key(last));
        let mut options = ReadOptions::default().total_order_seek(true);
        if self.rng.bool() {
            options = options.lower_bound(low).upper_bound([&high[..], &[0]].concat());
        }
        self.run.report.count(StressKind::Scan, 1);
        let before = self.seen(number, &keys);
        let mut iter = match self.db.iter_opt(options, family) {
            Ok(iter) => iter,
            Err(e) => return self.excuse("an iterator", &e),
        };
        let after = self.seen(number, &keys);
        let forward = self.rng.bool();
        if forward {
            iter.seek(low)
        } else {
            iter.seek_for_prev(high)
        }
        let mut found = vec![None; keys.len()];
        while let Some((key, value)) = iter.item().filter(|(key, _)| low[..] <= **key && **key <= high[..]) {
            let Some(key) = self.run.setup.number(key) else {
                return Err(format!("a scan shows a key that nobody wrote: {}", key.escape_ascii()));
            };
            if found[(key - first) as usize].replace(value.to_vec()).is_some() {
                return Err(format!("a scan shows key {key} twice"));
            }
            if forward { iter.next() } else { iter.prev() }
        }
        if let Err(e) = iter.status() {
            return self.excuse("a scan", &e);
        }
        for (i, found) in found.iter().enumerate() {
            self.compare(number, keys[i], (before[i], after[i]), found.as_deref(), "a scan")?;
        }
        Ok(())
    }

    /// Moves an iterator at random, and compares each key that it shows or passes over.
    pub(super) fn move_about(&mut self, number: usize, family: &ColumnFamilyHandle) -> Outcome {
        // Stays around one place, so that comparing costs little.
        let middle = self.key();
        let near: Vec<u32> =
            (middle.saturating_sub(MANY)..(middle + MANY).min(self.run.flags.max_key)).collect();
        let before = self.seen(number, &near);
        let options = ReadOptions::default().total_order_seek(true);
        let mut iter = match self.db.iter_opt(options, family) {
            Ok(iter) => iter,
            Err(e) => return self.excuse("an iterator", &e),
        };
        let after = self.seen(number, &near);
        let states = |key: u32| near.iter().position(|n| *n == key).map(|i| (before[i], after[i]));
        let target = self.run.setup.key(middle);
        if self.rng.bool() {
            iter.seek(target)
        } else {
            iter.seek_for_prev(target)
        }
        for _ in 0..MOVES {
            if let Err(e) = iter.status() {
                return self.excuse("an iterator", &e);
            }
            let Some((key, value)) = iter.item() else { return Ok(()) };
            let Some(key) = self.run.setup.number(key) else {
                return Err(format!("an iterator shows a key that nobody wrote: {}", key.escape_ascii()));
            };
            self.run.report.count(StressKind::Move, 1);
            if let Some(states) = states(key) {
                self.compare(number, key, states, Some(value), "an iterator")?;
            }
            let forward = self.rng.bool();
            if forward {
                iter.next()
            } else {
                iter.prev()
            }
            let next = iter.item().and_then(|(key, _)| self.run.setup.number(key));
            if iter.status().is_err() {
                continue;
            }
            let passed = match (next, forward) {
                (Some(next), true) if next > key => key + 1..next,
                (Some(next), false) if next < key => next + 1..key,
                (None, true) => key + 1..self.run.flags.max_key,
                (None, false) => 0..key,
                (Some(next), _) => return Err(format!("an iterator goes from key {key} to {next}")),
            };
            for (i, key) in near.iter().enumerate().filter(|(_, key)| passed.contains(key)) {
                self.compare(number, *key, (before[i], after[i]), None, "an iterator passes over it, which")?;
            }
        }
        Ok(())
    }

    /// Takes a snapshot; reads at those that were held long enough, and releases them.
    pub(super) fn hold_snapshots(&mut self, number: usize, family: &ColumnFamilyHandle) -> Outcome {
        if self.one_in(self.run.flags.acquire_snapshot_one_in) {
            let key = self.key();
            let place = self.place(number, key);
            let _lock = self.run.expected.lock(place);
            self.run.report.count(StressKind::Snapshot, 1);
            self.snapshots.push_back(HeldSnapshot {
                snapshot: self.db.snapshot(),
                family: number,
                id: family.id(),
                key,
                value: self.run.expected.now(place).value(),
                until: self.done + self.run.flags.snapshot_hold_ops,
            });
        }
        while let Some(held) = self.snapshots.pop_front_if(|held| held.until <= self.done) {
            let Some(family) = self.db.column_family(&self.run.setup.families[held.family]) else { continue };
            let options = ReadOptions::default().snapshot(&held.snapshot);
            let found = match self.db.get_opt(&options, &family, self.run.setup.key(held.key)) {
                Ok(found) => found,
                Err(e) if family.id() != held.id => {
                    drop(e);
                    continue;
                }
                Err(e) => return self.excuse("a read at a snapshot", &e),
            };
            let found = found.map(|v| self.run.setup.number_of(held.family, held.key, &v)).transpose()?;
            if found != held.value && family.id() == held.id {
                let name = &self.run.setup.families[held.family];
                let (key, value) = (held.key, held.value);
                return Err(format!("{name}, key {key}: a snapshot shows {found:?}, it was {value:?}"));
            }
        }
        Ok(())
    }
}
