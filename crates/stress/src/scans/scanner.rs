//! Scanners: cursors at held points in time, compared after each move.

use super::history::ScanValue;
use super::{Outcome, Round, is_junk};
use esker::internals::base::sync::atomic::Ordering;
use esker::internals::internal_iterator;
use esker::{DbIterator, ReadOptions, Snapshot};
use std::borrow::Cow;
use std::sync::Arc;

const POINTS: usize = 6;
const CURSORS: usize = 6;

/// The contents of each family at a sequence number, without junk.
struct ReadPoint {
    snapshot: Snapshot,
    families: Vec<Vec<(usize, ScanValue)>>,
}

impl ReadPoint {
    fn take(round: &Round) -> ReadPoint {
        let snapshot = round.db.snapshot();
        round.wait_for_writes();
        let sequence = snapshot.sequence().0;
        let family = |(family, spec): (usize, &crate::model::families::ModelFamilySpec)| {
            let keys = (0..spec.keys.len()).filter(|&index| !is_junk(index));
            let there = |index| Some((index, round.history.value_at(spec, family, index, sequence)?));
            keys.filter_map(there).collect()
        };
        let families = round.specs.iter().enumerate().map(family).collect();
        ReadPoint { snapshot, families }
    }
}

/// One iterator, and its expected position.
struct Cursor {
    iter: DbIterator,
    family: usize,
    point: Arc<ReadPoint>,
    bounds: (Option<Vec<u8>>, Option<Vec<u8>>),
    /// Indexes in the read point's list that lie within the bounds.
    range: std::ops::Range<usize>,
    by_prefix: bool,
    prefix: Option<Vec<u8>>,
    /// An index in that list.
    at: Option<usize>,
    moves: Vec<Cow<'static, str>>,
}

struct Scanner<'a> {
    round: &'a Round,
    rng: fastrand::Rng,
    points: Vec<Arc<ReadPoint>>,
    cursors: Vec<Cursor>,
}

pub(super) fn scan(round: &Round, _number: usize, rng: fastrand::Rng) -> Outcome {
    let mut scanner = Scanner { round, rng, points: Vec::new(), cursors: Vec::new() };
    let mut left = round.size.scans;
    while left > 0 && !round.stopped() {
        left -= 1;
        scanner.act()?;
    }
    Ok(())
}

impl Scanner<'_> {
    fn act(&mut self) -> Outcome {
        let mut one_of = |share| self.rng.u16(..1000) < share;
        let (new_point, new_cursor) = (one_of(self.round.size.new.0), one_of(self.round.size.new.1));
        let roll = self.rng.u16(..1000);
        if new_point || self.points.is_empty() {
            self.points.push(Arc::new(ReadPoint::take(self.round)));
            if self.points.len() > POINTS {
                self.points.swap_remove(self.rng.usize(..POINTS));
            }
        }
        if new_cursor || self.cursors.is_empty() {
            let cursor = self.open()?;
            self.cursors.push(cursor);
            if self.cursors.len() > CURSORS {
                self.cursors.swap_remove(self.rng.usize(..CURSORS));
            }
        }
        let chosen = self.rng.usize(..self.cursors.len());
        if roll == 20 {
            self.refresh(chosen)?;
        }
        let cursor = &mut self.cursors[chosen];
        // Long ways in one direction, and short ones.
        let (steps, forward) = ([1, 3, 30][self.rng.usize(..3)], self.rng.bool());
        for step in 0..steps {
            if step == 0 && (cursor.at.is_none() || self.rng.u8(..5) == 0) {
                cursor.seek(self.round, &mut self.rng)?;
            } else if cursor.at.is_some() {
                cursor.step(self.round, forward)?;
            }
        }
        Ok(())
    }

    fn open(&mut self) -> Result<Cursor, String> {
        let (round, rng) = (self.round, &mut self.rng);
        let family = rng.usize(..round.specs.len());
        let spec = &round.specs[family];
        let has_extractor = round.settings.families[family].prefix_extractor.is_some();
        let by_prefix = has_extractor && rng.u8(..4) == 0;
        let mut bound = |chance| (rng.u8(..chance) == 0).then(|| spec.random_target(rng));
        let bounds = (bound(4), bound(4));
        let mut options = ReadOptions {
            iterate_lower_bound: bounds.0.clone(),
            iterate_upper_bound: bounds.1.clone(),
            prefix_same_as_start: by_prefix,
            total_order_seek: !by_prefix && rng.u8(..4) == 0,
            readahead_size: if rng.u8(..4) == 0 { 4096 } else { 0 },
            fill_cache: rng.bool(),
            pin_data: rng.u8(..8) == 0,
            ..ReadOptions::default()
        };
        let handle = &round.handles[family];
        let (iter, point) = if rng.u8(..8) == 0 {
            // Makes an iterator without a snapshot of its own. Its point in time is taken while no
            // thread writes.
            let _gate = round.whole_gate();
            (round.db.iter_opt(options, handle), Arc::new(ReadPoint::take(round)))
        } else {
            let point = self.points[rng.usize(..self.points.len())].clone();
            options.snapshot = Some(point.snapshot.clone());
            (round.db.iter_opt(options, handle), point)
        };
        let iter = iter.map_err(|e| format!("iter_opt: {e}"))?;
        let (range, prefix, at, moves) = (0..0, None, None, Vec::new());
        let mut cursor = Cursor { iter, family, point, bounds, range, by_prefix, prefix, at, moves };
        cursor.limit(round);
        Ok(cursor)
    }

    /// Moves the cursor to another point in time, or to the present.
    fn refresh(&mut self, chosen: usize) -> Outcome {
        let cursor = &mut self.cursors[chosen];
        let point = self.points[self.rng.usize(..self.points.len())].clone();
        cursor.iter.refresh_at(&point.snapshot).map_err(|e| format!("refresh: {e}"))?;
        cursor.point = point;
        cursor.note("refresh");
        cursor.at = None;
        cursor.limit(self.round);
        Ok(())
    }
}

impl Cursor {
    fn there(&self) -> &[(usize, ScanValue)] {
        &self.point.families[self.family]
    }

    fn limit(&mut self, round: &Round) {
        let spec = &round.specs[self.family];
        let place = |key: &Vec<u8>| {
            let index = spec.lower_bound(key);
            self.there().partition_point(|(there, _)| *there < index)
        };
        let low = self.bounds.0.as_ref().map_or(0, place);
        let high = self.bounds.1.as_ref().map_or(self.there().len(), place);
        self.range = low..high.max(low);
    }

    fn note(&mut self, what: impl Into<Cow<'static, str>>) {
        if self.moves.len() == 40 {
            self.moves.remove(0);
        }
        self.moves.push(what.into());
    }

    fn prefix_of(&self, round: &Round, key: &[u8]) -> Option<Vec<u8>> {
        let extractor = round.settings.families[self.family].prefix_extractor.as_ref()?;
        extractor.transform(key).map(<[u8]>::to_vec)
    }

    /// Stands at `found` if that is within the bounds and has the right prefix.
    fn stand(&mut self, round: &Round, found: Option<usize>) {
        let key = |at: usize| &round.specs[self.family].keys[self.there()[at].0];
        self.at = found.filter(|&at| {
            self.range.contains(&at)
                && (self.prefix.is_none() || self.prefix_of(round, key(at)) == self.prefix)
        });
    }

    fn seek(&mut self, round: &Round, rng: &mut fastrand::Rng) -> Outcome {
        let spec = &round.specs[self.family];
        let roll = rng.u8(..10);
        if roll < 2 && !self.by_prefix {
            self.prefix = None;
            let forward = roll == 0;
            if forward {
                self.iter.seek_to_first();
            } else {
                self.iter.seek_to_last();
            }
            self.note(if forward { "seek_to_first" } else { "seek_to_last" });
            let range = self.range.clone();
            let end = if forward { Some(range.start) } else { range.end.checked_sub(1) };
            self.stand(round, end.filter(|end| range.contains(end)));
            return self.check(round, forward);
        }
        let target = spec.random_target(rng);
        self.prefix = if self.by_prefix { self.prefix_of(round, &target) } else { None };
        if roll < 6 {
            self.iter.seek(&target);
            self.note(format!("seek {}", target.escape_ascii()));
            let index = spec.lower_bound(&target);
            let at = self.there().partition_point(|(there, _)| *there < index).max(self.range.start);
            self.stand(round, Some(at));
            return self.check(round, true);
        }
        self.iter.seek_for_prev(&target);
        self.note(format!("seek_for_prev {}", target.escape_ascii()));
        let index = spec.upper_bound(&target);
        let end = self.there().partition_point(|(there, _)| *there < index).min(self.range.end);
        self.stand(round, end.checked_sub(1));
        self.check(round, false)
    }

    /// REQUIRES: the cursor is valid.
    fn step(&mut self, round: &Round, forward: bool) -> Outcome {
        let at = self.at.expect("the caller checked that the cursor is valid");
        if forward {
            self.iter.next();
        } else {
            self.iter.prev();
        }
        self.note(if forward { "next" } else { "prev" });
        self.stand(round, if forward { Some(at + 1) } else { at.checked_sub(1) });
        self.check(round, forward)
    }

    /// Passes junk, and compares.
    fn check(&mut self, round: &Round, forward: bool) -> Outcome {
        let spec = &round.specs[self.family];
        let is_passed = |key: &[u8]| {
            let index = spec.lower_bound(key);
            let is_ours = spec.keys.get(index).is_some_and(|ours| ours == key);
            !is_ours || is_junk(index)
        };
        while self.iter.valid() && is_passed(self.iter.key()) {
            if forward {
                self.iter.next();
            } else {
                self.iter.prev();
            }
        }
        self.compare(round)
    }

    fn compare(&self, round: &Round) -> Outcome {
        let spec = &round.specs[self.family];
        let status = self.iter.status();
        let expected = self.at.map(|at| {
            let (index, value) = &self.there()[at];
            (spec.keys[*index].as_slice(), &**value)
        });
        let found = self.iter.item();
        round.comparisons.fetch_add(1, Ordering::Relaxed);
        if status.is_ok() && found == expected {
            return Ok(());
        }
        let text = |item: Option<(&[u8], &[u8])>| {
            item.map(|(key, value)| format!("\"{}\" = \"{}\"", key.escape_ascii(), value.escape_ascii()))
        };
        let key = expected.or(found).map(|(key, _)| key.to_vec()).unwrap_or_default();
        let found_key = found.map(|(key, _)| key.to_vec()).unwrap_or_default();
        let describe =
            |key: &[u8]| round.history.describe(self.family, spec.lower_bound(key).min(spec.keys.len() - 1));
        let others = self.ask_others(round, &key);
        Err(format!(
            "'{}' at {:?}, bounds {:?}, prefix {:?}, {}: status {status:?}, expected {:?}, found {:?}\n\
             expected key's versions: {}\nfound key's versions: {}\n{others}",
            spec.name,
            self.point.snapshot,
            self.bounds,
            self.prefix,
            self.moves.join(", "),
            text(expected),
            text(found),
            describe(&key),
            describe(&found_key),
        ))
    }

    /// The answers of other reads of `key`. If some agree, they hint at the mistake.
    fn ask_others(&self, round: &Round, key: &[u8]) -> String {
        let (spec, handle) = (&round.specs[self.family], &round.handles[self.family]);
        let options = ReadOptions::new().snapshot(&self.point.snapshot);
        let got = round.db.get_opt(&options, handle, key);
        let sought = round.db.iter_opt(options.clone(), handle).map(|mut iter| {
            iter.seek(key);
            iter.item().map(|(key, _)| key.escape_ascii().to_string())
        });
        let walked = round.db.iter_opt(options, handle).map(|mut iter| {
            iter.seek_to_first();
            while iter.valid() && spec.comparator.compare(iter.key(), key).is_lt() {
                iter.next();
            }
            iter.item().map(|(key, _)| key.escape_ascii().to_string())
        });
        let entries = internal_iterator(&round.db, handle).map(|mut iter| {
            let mut entries = Vec::new();
            iter.seek_to_first();
            while iter.valid() {
                let (user_key, trailer) = iter.key().split_at(iter.key().len().saturating_sub(8));
                if user_key == key {
                    let packed =
                        trailer.iter().rev().fold(0_u64, |packed, byte| (packed << 8) | u64::from(*byte));
                    entries.push(format!("{}:{:#x}", packed >> 8, packed & 0xFF));
                }
                iter.next();
            }
            entries.join(", ")
        });
        let options = &round.settings.families[self.family];
        format!(
            "get: {got:?}; another iterator's seek: {sought:?}, walk from the first: {walked:?}; entries: {entries:?}\n\
             deleted_run_block_min_entries {}, deleted_run_memory_min_keys {}, levels {:?}",
            options.deleted_run_block_min_entries,
            options.deleted_run_memory_min_keys,
            round.db.property_cf(handle, "rocksdb.levelstats"),
        )
    }
}
