//! Iterators of all kinds are moved, given planned ranges and refreshed in any order,
//! while what they read is written, flushed and compacted: each move leads where a model says.

use crate::multi_get::options as small_options;
use esker::internals::env::{FaultFs, mem::MemFs};
use esker::{ColumnFamilyHandle, Db, DbIterator, MultiScanArgs, Options, ReadOptions};
use esker_testkit::seed::for_each_seed;
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Bounds = (Option<Vec<u8>>, Option<Vec<u8>>);

const KEYS: u32 = 60;

fn key(rng: &mut fastrand::Rng) -> Vec<u8> {
    let n = rng.u32(..KEYS);
    // Some keys are prefixes of others.
    if n.is_multiple_of(7) { format!("{:02}", n / 7).into() } else { format!("{:02}{n:02}", n / 7).into() }
}

fn two_keys(rng: &mut fastrand::Rng) -> (Vec<u8>, Vec<u8>) {
    let (a, b) = (key(rng), key(rng));
    if a <= b { (a, b) } else { (b, a) }
}

/// The first planned range, from `next` on, that a seek to `target` enters; earlier ranges are then
/// over.
pub(crate) fn enter_range(
    args: &MultiScanArgs,
    next: &mut usize,
    target: &[u8],
    reverse: bool,
) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let begins = |number: &usize| {
        let (start, limit) = args.ranges.get(*number).unwrap();
        if reverse { limit == Some(target) } else { start == target }
    };
    let number = (*next..args.ranges.len()).filter(|_| args.reverse == reverse).find(begins)?;
    *next = number + 1;
    let (start, limit) = args.ranges.get(number).unwrap();
    Some((start.to_vec(), limit.map(<[u8]>::to_vec)))
}

/// An iterator and its expected position.
struct Used {
    iter: DbIterator,
    options: ReadOptions,
    model: Arc<Model>,
    at: Option<Vec<u8>>,
    bounds: Bounds,
    /// Planned ranges, and the index of the next one.
    planned: Option<(MultiScanArgs, usize)>,
}

impl Used {
    fn new(db: &Db, family: &ColumnFamilyHandle, model: &Arc<Model>, rng: &mut fastrand::Rng) -> Used {
        let mut options = ReadOptions::default();
        if rng.u8(..3) == 0 {
            let (lower, upper) = two_keys(rng);
            options.iterate_lower_bound = rng.bool().then_some(lower);
            options.iterate_upper_bound = rng.bool().then_some(upper);
        }
        options.tailing = rng.u8(..4) == 0;
        options.pin_data = rng.u8(..6) == 0;
        options.snapshot = (!options.tailing && rng.u8(..4) == 0).then(|| db.snapshot());
        options.readahead_size = [0, 0, 500][rng.usize(..3)];
        let iter = db.iter_opt(options.clone(), family).unwrap();
        let bounds = (options.iterate_lower_bound.clone(), options.iterate_upper_bound.clone());
        Used { iter, options, model: model.clone(), at: None, bounds, planned: None }
    }

    /// The first or last key within the bounds for which `fits` holds.
    fn find(&self, forward: bool, fits: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let (lower, upper) = &self.bounds;
        let is_within = |key: &&Vec<u8>| {
            lower.as_ref().is_none_or(|lower| *key >= lower)
                && upper.as_ref().is_none_or(|upper| *key < upper)
                && fits(key)
        };
        let mut keys = self.model.keys();
        if forward { keys.find(is_within).cloned() } else { keys.rev().find(is_within).cloned() }
    }

    fn leave(&mut self) {
        self.planned = None;
        self.bounds = (self.options.iterate_lower_bound.clone(), self.options.iterate_upper_bound.clone());
    }

    /// Models a seek: it enters a range, or drops the plan.
    fn enter(&mut self, target: &[u8], reverse: bool) {
        let Some((args, next)) = &mut self.planned else { return };
        match enter_range(args, next, target, reverse) {
            Some((start, limit)) => {
                let lower = if reverse { Some(start) } else { self.options.iterate_lower_bound.clone() };
                self.bounds = (lower, limit);
            }
            None => self.leave(),
        }
    }

    fn use_once(&mut self, model: &Arc<Model>, rng: &mut fastrand::Rng) {
        let catches_up = self.options.tailing;
        let follow = |used: &mut Used| {
            if catches_up {
                used.model = model.clone();
            }
        };
        match rng.u8(..20) {
            0 => {
                self.leave();
                follow(self);
                self.iter.seek_to_first();
                self.at = self.find(true, |_| true);
            }
            1 => {
                self.leave();
                follow(self);
                self.iter.seek_to_last();
                self.at = self.find(false, |_| true);
            }
            2..4 => {
                let target = self.target(false, rng);
                self.enter(&target, false);
                follow(self);
                self.iter.seek(&target);
                self.at = self.find(true, |key| key >= target.as_slice());
            }
            4..6 => {
                let target = self.target(true, rng);
                self.enter(&target, true);
                follow(self);
                self.iter.seek_for_prev(&target);
                self.at = self.find(false, |key| key <= target.as_slice());
            }
            6 => {
                self.iter.refresh().unwrap();
                self.options.snapshot = None;
                self.model = model.clone();
                self.at = None;
            }
            8 => {
                let mut args = MultiScanArgs::new();
                args.reverse = rng.bool();
                args.max_prefetch_size = [0, 300][rng.usize(..2)];
                let mut ends: Vec<Vec<u8>> = (0..2 * rng.usize(1..4)).map(|_| key(rng)).collect();
                ends.sort();
                ends.dedup();
                ends.chunks_exact(2).for_each(|pair| args.insert(&pair[0], &pair[1]));
                if !args.ranges.is_empty() && self.iter.prepare(&args).is_ok() {
                    self.leave();
                    self.planned = Some((args, 0));
                    self.at = None;
                }
            }
            _ if self.at.is_none() => {}
            direction => {
                let forward = direction % 3 > 0;
                follow(self);
                let at = self.at.take().unwrap();
                if forward {
                    self.iter.next();
                    self.at = self.find(true, |key| key > at.as_slice());
                } else {
                    self.iter.prev();
                    self.at = self.find(false, |key| key < at.as_slice());
                }
            }
        }
        self.check();
    }

    /// A seek target: mostly the start of a planned range, if there are ranges.
    fn target(&self, reverse: bool, rng: &mut fastrand::Rng) -> Vec<u8> {
        match &self.planned {
            Some((args, next)) if rng.u8(..4) > 0 => {
                let number = rng.usize(..args.ranges.len()).max((*next).min(args.ranges.len() - 1));
                let (start, limit) = args.ranges.get(number).unwrap();
                if reverse { limit.unwrap_or(start).to_vec() } else { start.to_vec() }
            }
            _ => key(rng),
        }
    }

    fn check(&self) {
        self.iter.status().unwrap();
        let planned = self.planned.as_ref().map(|(args, next)| format!("{next} of {args:?}"));
        assert_eq!(
            self.iter.item().map(|(key, _)| key.escape_ascii().to_string()),
            self.at.as_ref().map(|key| key.escape_ascii().to_string()),
            "{:?} {planned:?}",
            self.options
        );
        if let Some(at) = &self.at {
            assert_eq!(self.iter.value(), self.model[at]);
            assert_eq!(self.iter.pinned_value().as_slice(), self.model[at]);
        }
    }
}

fn change(db: &Db, model: &mut Arc<Model>, rng: &mut fastrand::Rng) {
    let model = Arc::make_mut(model);
    let at = key(rng);
    match rng.u8(..10) {
        0..5 => {
            let value = vec![rng.u8(..); rng.usize(..30)];
            db.put(&at, &value).unwrap();
            model.insert(at, value);
        }
        5..7 => {
            db.delete(&at).unwrap();
            model.remove(&at);
        }
        7 => {
            let (begin, end) = two_keys(rng);
            db.delete_range(&begin, &end).unwrap();
            model.retain(|key, _| *key < begin || *key >= end);
        }
        _ => {
            let operand = [rng.u8(b'a'..=b'z')];
            db.merge(&at, operand).unwrap();
            let mut value = model.get(&at).map(|before| [before, &b","[..]].concat()).unwrap_or_default();
            value.extend_from_slice(&operand);
            model.insert(at, value);
        }
    }
}

fn use_iterators(rng: &mut fastrand::Rng, options: &Options) {
    let db = Db::open(options, "/db").unwrap();
    let family = db.default_column_family();
    let mut model: Arc<Model> = Arc::default();
    let mut used: Vec<Used> = Vec::new();
    for _ in 0..600 {
        match rng.u8(..20) {
            0..6 => change(&db, &mut model, rng),
            6 => db.flush().unwrap(),
            7 if rng.u8(..3) == 0 => db.compact_range(None, None).unwrap(),
            8 if used.len() < 4 => used.push(Used::new(&db, &family, &model, rng)),
            9 if !used.is_empty() && rng.u8(..3) == 0 => drop(used.swap_remove(rng.usize(..used.len()))),
            _ if used.is_empty() => {}
            _ => {
                let at = rng.usize(..used.len());
                used[at].use_once(&model, rng);
            }
        }
    }
}

#[test]
fn iterators_lead_where_a_model_says_however_they_are_used() {
    for_each_seed("iterator_uses", 10, |_, mut rng| {
        let mut options = small_options(FaultFs::new(Arc::new(MemFs::new())));
        options.cf.deleted_run_block_min_entries = rng.u64(0..3);
        options.cf.deleted_run_memory_min_keys = rng.u64(0..3);
        options.cf.table.no_block_cache = rng.bool();
        options.db.max_open_files = if rng.bool() { 12 } else { -1 };
        options.cf.max_sequential_skip_in_iterations = rng.u64(..4);
        use_iterators(&mut rng, &options);
    });
}
