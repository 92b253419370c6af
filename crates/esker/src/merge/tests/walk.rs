//! Random changes of a tree, and random walks of cursors over it.

use super::super::MergingIterator;
use super::lsm::Lsm;
use super::model::{History, Op, State};
use super::{Append, comparator};
use crate::scan::{DbIter, DbIterOptions};
use esker_base::sync::Arc;
use esker_base::sync::process::atomic::{AtomicU64, Ordering};
use esker_base::{SequenceNumber, ValueType, prefix};
use esker_format::cursor::InternalIterator;
use esker_format::key::{InternalKeyComparator, internal_key, seek_key};

/// Writes, takes snapshots, flushes, compacts; compares after each change. Returns how many cursor
/// steps were compared.
pub(super) fn live_through(seed: u64) -> u64 {
    let mut rng = fastrand::Rng::with_seed(seed);
    let icmp = comparator(rng.usize(..8));
    let mut history = History::new(icmp.clone());
    let mut lsm = Lsm::new(icmp, rng.fork());
    let mut writer = Writer::new(&mut rng);
    let mut steps = 0;
    let mut changes = Vec::new();
    for _ in 0..rng.usize(5..40) {
        for _ in 0..rng.usize(1..30) {
            let op = writer.op(&history, &mut rng);
            let sequence = history.push(op.clone());
            lsm.write(sequence, &op);
            if rng.u8(..12) == 0 {
                lsm.snapshots.push(sequence);
                lsm.snapshots.dedup();
            }
        }
        while !lsm.snapshots.is_empty() && rng.u8(..3) == 0 {
            let at = rng.usize(..lsm.snapshots.len());
            lsm.snapshots.remove(at);
        }
        lsm.set_broken(false);
        changes.push(lsm.change());
        let mut reads = lsm.snapshots.clone();
        reads.push(history.last());
        for snapshot in reads {
            let state = history.state_at(snapshot);
            let broken = rng.u8(..4) == 0;
            lsm.set_broken(broken);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                walk_users(&lsm, &state, snapshot, &mut rng, broken)
                    + walk_internals(&lsm, snapshot, &mut rng, broken)
            }));
            match outcome {
                Ok(n) => steps += n,
                Err(panic) => {
                    println!("at {snapshot} after {changes:?}\n{}", lsm.describe());
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
    lsm.snapshots.clear();
    lsm.set_broken(false);
    lsm.compact_all();
    let left: State = lsm.levels.iter().flatten().flat_map(|f| f.entries.iter().cloned()).collect();
    let expected: State = history
        .state_at(history.last())
        .into_iter()
        .map(|(k, v)| (internal_key(&k, SequenceNumber::ZERO, ValueType::Value), v))
        .collect();
    assert_eq!(left, expected, "a full compaction leaves the newest state and nothing else");
    steps
}

/// Makes writes that keep the contract of single deletions.
struct Writer {
    keys: u8,
    weights: [u8; 4],
}

impl Writer {
    fn new(rng: &mut fastrand::Rng) -> Writer {
        let keys = [4, 12, 40][rng.usize(..3)];
        Writer { keys, weights: [rng.u8(1..10), rng.u8(..6), rng.u8(..6), rng.u8(..4)] }
    }

    fn key(&self, rng: &mut fastrand::Rng) -> Vec<u8> {
        key(rng, self.keys)
    }

    fn op(&mut self, history: &History, rng: &mut fastrand::Rng) -> Op {
        if rng.u8(..5) == 0 {
            return self.single_delete_op(history, rng);
        }
        let value = |rng: &mut fastrand::Rng| {
            let mut value = format!("{}", history.last().0 + 1).into_bytes();
            if rng.u8(..40) == 0 {
                value.resize(5000, b'x');
            }
            value
        };
        let mut dice = rng.u8(..self.weights.iter().sum::<u8>());
        for (i, weight) in self.weights.iter().enumerate() {
            if dice < *weight {
                return match i {
                    0 => Op::Put(self.key(rng), value(rng)),
                    1 => Op::Delete(self.key(rng)),
                    2 => Op::Merge(self.key(rng), value(rng)),
                    _ => Op::DeleteRange(self.key(rng), self.key(rng)),
                };
            }
            dice -= weight;
        }
        Op::Put(self.key(rng), value(rng))
    }

    /// Writes a value only under a key without one. These keys get no other operations except range
    /// deletions.
    fn single_delete_op(&self, history: &History, rng: &mut fastrand::Rng) -> Op {
        let mut key = self.key(rng);
        key.push(b's');
        let state = history.state_at(history.last());
        if state.iter().any(|(k, _)| *k == key) || rng.u8(..10) == 0 {
            Op::SingleDelete(key)
        } else {
            Op::Put(key, format!("s{}", history.last().0 + 1).into_bytes())
        }
    }
}

/// A key of one to three letters, some longer than eight bytes with the same beginning.
fn key(rng: &mut fastrand::Rng, keys: u8) -> Vec<u8> {
    let n = rng.u8(..keys);
    let mut key = vec![b'a' + n % 6];
    if n >= 6 {
        key.push(b'a' + n / 6);
    }
    if n.is_multiple_of(3) {
        key.extend_from_slice(b"longtail");
        key.push(b'a' + n / 3);
    }
    key
}

/// A state of the model, as an iterator with bounds and a prefix must show it.
struct Shown<'a> {
    icmp: &'a InternalKeyComparator,
    rows: Vec<&'a (Vec<u8>, Vec<u8>)>,
}

impl Shown<'_> {
    fn at_or_after(&self, target: &[u8]) -> usize {
        self.rows.partition_point(|e| self.icmp.compare_user_keys(&e.0, target).is_lt())
    }
    fn behind(&self, target: &[u8]) -> usize {
        self.rows.partition_point(|e| self.icmp.compare_user_keys(&e.0, target).is_le())
    }
}

/// Walks a user's cursor. With `broken` files a step may fail, but must not show a wrong entry.
fn walk_users(
    lsm: &Lsm,
    state: &State,
    snapshot: SequenceNumber,
    rng: &mut fastrand::Rng,
    broken: bool,
) -> u64 {
    let icmp = &lsm.icmp;
    let prefixed = rng.u8(..4) == 0;
    let bound = |rng: &mut fastrand::Rng| (rng.u8(..3) == 0).then(|| key(rng, 40));
    let options = DbIterOptions {
        sequence: snapshot,
        lower_bound: bound(rng),
        upper_bound: bound(rng),
        prefix_same_as_start: prefixed,
        prefix_extractor: Some(prefix::capped(1)),
        max_sequential_skip_in_iterations: rng.u64(..4) * 3,
        merge_operator: Some(Arc::new(Append)),
        deleted_run_memory: (rng.u8(..4) > 0).then(|| lsm.deleted_run_memory()),
        ..DbIterOptions::default()
    };
    let shown = Shown {
        icmp,
        rows: state
            .iter()
            .filter(|(k, _)| {
                options.lower_bound.as_ref().is_none_or(|l| icmp.compare_user_keys(k, l).is_ge())
                    && options.upper_bound.as_ref().is_none_or(|u| icmp.compare_user_keys(k, u).is_lt())
            })
            .collect(),
    };
    let merged = MergingIterator::new(icmp.clone(), lsm.children(snapshot));
    let mut iter = DbIter::new(icmp.clone(), merged, options, None);
    let mut position: Option<usize> = None;
    let mut start: Option<u8> = None;
    let count = rng.u64(20..80);
    for _ in 0..count {
        let dice = if position.is_some() { rng.u8(..20) } else { rng.u8(..4) };
        let target = key(rng, 40);
        let what = match dice {
            0 => {
                iter.seek(&target);
                position = Some(shown.at_or_after(&target));
                start = Some(target[0]);
                "seek"
            }
            1 => {
                iter.seek_for_prev(&target);
                position = shown.behind(&target).checked_sub(1);
                start = Some(target[0]);
                "seek_for_prev"
            }
            2 => {
                iter.seek_to_first();
                position = Some(0);
                start = None;
                "seek_to_first"
            }
            3 => {
                iter.seek_to_last();
                position = shown.rows.len().checked_sub(1);
                start = None;
                "seek_to_last"
            }
            4 if rng.bool() => {
                iter.rebase(None, |merged, place| exchange_some(merged, place, lsm, snapshot, rng));
                "rebase"
            }
            4..=12 => {
                iter.next();
                position = position.map(|p| p + 1);
                "next"
            }
            _ => {
                iter.prev();
                position = position.and_then(|p| p.checked_sub(1));
                "prev"
            }
        };
        let mut expected = position.and_then(|p| shown.rows.get(p));
        if prefixed {
            if start.is_none() {
                start = expected.map(|e| e.0[0]);
            }
            expected = expected.filter(|e| Some(e.0[0]) == start);
        }
        if broken && iter.status().is_err() {
            assert!(!iter.valid());
            position = None;
            continue;
        }
        iter.status().unwrap();
        let got = iter.valid().then(|| (iter.key().to_vec(), iter.value().to_vec()));
        assert_eq!(
            got.as_ref().map(show),
            expected.map(|e| show(e)),
            "{what} {} {iter:?}",
            target.escape_ascii()
        );
        assert_eq!(got.as_ref(), expected.copied());
        if let Some(expected) = expected {
            assert_eq!(iter.pinned_value(), expected.1);
        } else {
            position = None;
        }
    }
    SKIPS.fetch_add(iter.counters().skips, Ordering::Relaxed);
    count
}

/// Replaces some, all or none of the children by new cursors.
fn exchange_some(
    merged: &mut MergingIterator,
    place: Option<(&[u8], bool)>,
    lsm: &Lsm,
    snapshot: SequenceNumber,
    rng: &mut fastrand::Rng,
) {
    let share = rng.u8(..3);
    let fresh = lsm.children(snapshot).into_iter().enumerate();
    let fresh: Vec<_> = fresh.filter(|_| rng.u8(..3) < share).collect();
    let gone: Vec<_> = fresh.iter().map(|(at, _)| *at).collect();
    merged.exchange(&gone, fresh, place);
}

/// Number of skips of deleted runs in all walks.
pub(super) static SKIPS: AtomicU64 = AtomicU64::new(0);

fn show(entry: &(Vec<u8>, Vec<u8>)) -> String {
    let end = entry.1.len().min(40);
    format!("{}={}", entry.0.escape_ascii(), entry.1[..end].escape_ascii())
}

/// Walks the merge itself, and compares it with the entries that no tombstone hides.
fn walk_internals(lsm: &Lsm, snapshot: SequenceNumber, rng: &mut fastrand::Rng, broken: bool) -> u64 {
    let icmp = &lsm.icmp;
    let expected = lsm.entries_not_hidden(snapshot);
    let mut iter = MergingIterator::new(icmp.clone(), lsm.children(snapshot));
    let mut position: Option<usize> = None;
    let count = rng.u64(10..60);
    for _ in 0..count {
        let dice = if position.is_some() { rng.u8(..20) } else { rng.u8(..4) };
        let sequence = SequenceNumber(rng.u64(..snapshot.0 + 2));
        let target = match rng.u8(..3) {
            0 => internal_key(&key(rng, 40), sequence, ValueType::Deletion),
            _ => seek_key(&key(rng, 40), sequence),
        };
        let before = |limit_included: bool| {
            expected.partition_point(|e| {
                let order = icmp.compare(&e.0, &target);
                order.is_lt() || (limit_included && order.is_eq())
            })
        };
        match dice {
            0 => {
                iter.seek(&target);
                position = Some(before(false));
            }
            1 => {
                iter.seek_for_prev(&target);
                position = before(true).checked_sub(1);
            }
            2 => {
                iter.seek_to_first();
                position = Some(0);
            }
            3 => {
                iter.seek_to_last();
                position = expected.len().checked_sub(1);
            }
            4..=12 => {
                iter.next();
                position = position.map(|p| p + 1);
            }
            _ => {
                iter.prev();
                position = position.and_then(|p| p.checked_sub(1));
            }
        }
        if broken && iter.status().is_err() {
            assert!(!iter.valid());
            position = None;
            continue;
        }
        iter.status().unwrap();
        let wanted = position.and_then(|p| expected.get(p));
        let got = iter.valid().then(|| (iter.key().to_vec(), iter.value().to_vec()));
        assert_eq!(got.as_ref(), wanted, "internal step {dice}");
        if wanted.is_none() {
            position = None;
        }
    }
    count
}
