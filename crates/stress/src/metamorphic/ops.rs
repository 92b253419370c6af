//! The operations, and their expected answers.
//!
//! In: a seed, or a list of operations. Out: a [`OpScript`]: each operation with its answer, from
//! families that are sorted maps.
//!
//! Invariants
//!  1. Operations depend on the seed only, not on options. Any part of a list is a list. If an
//!     operation is impossible without one that was left out, it is left out too.
//!  2. A key for which `is_single` is true is put only while it is absent, and deleted by single
//!     deletions.
//!  3. A list has timestamps or not: see `has_stamps`. Databases whose transactions are in
//!     memtables before their commit have no timestamps.

use super::stamped::{History, STAMPED};
use super::transactions::{ScriptTransaction, TRANSACTIONS, TransactionOp};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Families: bytewise, reversed, bytewise, bytewise with timestamps.
pub(super) const FAMILIES: [&str; 4] = ["default", "reversed", "largest", "stamped"];
/// Number of families without timestamps, which come first.
pub(super) const PLAIN: usize = 3;
pub(super) const REVERSED: usize = 1;
const KEYS: u32 = 240;
pub(super) const SNAPSHOTS: usize = 4;
pub(super) const ITERATORS: usize = 3;

pub(super) type Bytes = Vec<u8>;

/// One change of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptWrite {
    Put(usize, Bytes, Bytes),
    Delete(usize, Bytes),
    SingleDelete(usize, Bytes),
    Merge(usize, Bytes, Bytes),
    DeleteRange(usize, Bytes, Bytes),
}

/// A move of an iterator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Move {
    First,
    Last,
    Seek(Bytes),
    SeekForPrev(Bytes),
    Next,
    Prev,
}

/// One operation. The last number of a read is the snapshot at which it reads. If that snapshot is
/// not held, it reads the present state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptOp {
    Write(Vec<ScriptWrite>),
    /// A write at a timestamp.
    WriteAt(u64, ScriptWrite),
    /// Key, timestamp, snapshot.
    GetAt(Bytes, u64, usize),
    /// Bounds, backwards, timestamp, snapshot.
    ScanAt(Option<Bytes>, Option<Bytes>, bool, u64, usize),
    /// No later read is at a timestamp before this one.
    RaiseLow(u64),
    Get(usize, Bytes, usize),
    MultiGet(Vec<(usize, Bytes)>, usize),
    /// Family, bounds, backwards, snapshot: everything between the bounds.
    Scan(usize, Option<Bytes>, Option<Bytes>, bool, usize),
    TakeSnapshot(usize),
    ReleaseSnapshot(usize),
    /// Slot, family, bounds, snapshot.
    OpenIterator(usize, usize, Option<Bytes>, Option<Bytes>, usize),
    Move(usize, Move),
    CloseIterator(usize),
    Flush(usize),
    Compact(usize, Option<Bytes>, Option<Bytes>),
    /// Changes mutable options, drawn from this seed.
    SetOptions(u64),
    /// Writes the pairs to a table file and ingests it.
    Ingest(usize, Vec<(Bytes, Bytes)>),
    /// Compares everything in a copy made by hard links.
    Checkpoint,
    /// An operation of the transaction in this slot.
    Transaction(usize, TransactionOp),
    /// Opens the database again with other options. `true`: the process dies instead of closing.
    Reopen(bool),
}

/// The answer of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OpAnswer {
    Nothing,
    Values(Vec<Option<Bytes>>),
    Pairs(Vec<(Bytes, Bytes)>),
    At(Option<(Bytes, Bytes)>),
}

/// Operations with their answers.
pub(super) type OpScript = Vec<(usize, ScriptOp, OpAnswer)>;

/// Whether a list of this seed has timestamps in its last family.
pub(super) fn has_stamps(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

pub(super) fn is_single(key: &[u8]) -> bool {
    key.last().is_some_and(|last| last % 8 == 7)
}

fn key(n: u32) -> Bytes {
    // Keys with a common prefix of two bytes are adjacent; some keys are prefixes of others.
    let text = format!("{}{}{:03}", (b'a' + (n / 60) as u8) as char, (b'a' + (n / 12 % 5) as u8) as char, n);
    let len = if n.is_multiple_of(17) { 3 } else { text.len() };
    text.as_bytes()[..len].to_vec()
}

/// `count` operations from this seed.
pub(super) fn random(seed: u64, count: usize) -> Vec<ScriptOp> {
    let rng = fastrand::Rng::with_seed(seed);
    let mut maker = Maker { rng, made: 0, time: 0, reopened: 0, stamps: has_stamps(seed) };
    (0..count).map(|_| maker.op()).collect()
}

struct Maker {
    rng: fastrand::Rng,
    made: u64,
    /// The newest timestamp.
    time: u64,
    reopened: usize,
    stamps: bool,
}

impl Maker {
    fn family(&mut self) -> usize {
        self.rng.usize(..PLAIN)
    }

    fn any_family(&mut self) -> usize {
        self.rng.usize(..FAMILIES.len())
    }

    fn key(&mut self) -> Bytes {
        let n = self.rng.u32(..KEYS);
        if self.rng.u8(..20) == 0 { vec![0xFF; self.rng.usize(..3)] } else { key(n) }
    }

    fn snapshot(&mut self) -> usize {
        if self.rng.u8(..3) == 0 { self.rng.usize(..SNAPSHOTS) } else { SNAPSHOTS }
    }

    /// Bounds in the family's order.
    fn range(&mut self, family: usize, narrow: bool) -> (Bytes, Bytes) {
        let n = self.rng.u32(..KEYS);
        let m = if narrow { n + self.rng.u32(..24) } else { self.rng.u32(..KEYS) };
        let (a, b) = (key(n), key(m.min(KEYS - 1)));
        if (a <= b) == (family != REVERSED) { (a, b) } else { (b, a) }
    }

    fn bounds(&mut self, family: usize) -> (Option<Bytes>, Option<Bytes>) {
        let narrow = self.rng.bool();
        let (lower, upper) = self.range(family, narrow);
        (self.rng.bool().then_some(lower), self.rng.bool().then_some(upper))
    }

    fn value(&mut self, family: usize) -> Bytes {
        self.made += 1;
        if family == REVERSED {
            return self.made.to_le_bytes().to_vec();
        }
        let mut value = format!("{}:", self.made).into_bytes();
        let len = if self.rng.u8(..12) == 0 { self.rng.usize(..1500) } else { self.rng.usize(8..60) };
        value.resize(len.max(value.len()), b'a' + self.rng.u8(..26));
        value
    }

    fn write(&mut self) -> ScriptWrite {
        let family = self.family();
        self.write_to(family)
    }

    fn write_to(&mut self, family: usize) -> ScriptWrite {
        let key = self.key();
        let roll = self.rng.u8(..40);
        if roll == 0 {
            let (begin, end) = self.range(family, true);
            return ScriptWrite::DeleteRange(family, begin, end);
        }
        match roll {
            _ if is_single(&key) && roll < 20 => ScriptWrite::SingleDelete(family, key),
            1..22 => ScriptWrite::Put(family, key, self.value(family)),
            22..30 => ScriptWrite::Delete(family, key),
            _ => ScriptWrite::Merge(family, key, self.operand(family)),
        }
    }

    fn operand(&mut self, family: usize) -> Bytes {
        self.made += 1;
        if family == REVERSED {
            (self.made % 1000).to_le_bytes().to_vec()
        } else {
            self.made.to_string().into_bytes()
        }
    }

    fn op(&mut self) -> ScriptOp {
        match self.rng.u32(..1000) {
            340..380 | 565..580 | 620..628 | 987 | 700..780 if !self.stamps => self.transaction(),
            700..740 => self.transaction(),
            0..340 => ScriptOp::Write(vec![self.write()]),
            340..380 => {
                self.time += self.rng.u64(1..200);
                ScriptOp::WriteAt(self.time, self.write_to(STAMPED))
            }
            380..420 => ScriptOp::Write((0..self.rng.usize(..10)).map(|_| self.write()).collect()),
            420..565 => ScriptOp::Get(self.family(), self.key(), self.snapshot()),
            565..580 => ScriptOp::GetAt(self.key(), self.some_time(), self.snapshot()),
            580..620 => {
                let keys = (0..self.rng.usize(1..24)).map(|_| (self.family(), self.key())).collect();
                ScriptOp::MultiGet(keys, self.snapshot())
            }
            620..628 => {
                let (lower, upper) = self.bounds(STAMPED);
                ScriptOp::ScanAt(lower, upper, self.rng.bool(), self.some_time(), self.snapshot())
            }
            628..660 => {
                let family = self.family();
                let (lower, upper) = self.bounds(family);
                ScriptOp::Scan(family, lower, upper, self.rng.bool(), self.snapshot())
            }
            660..675 => ScriptOp::TakeSnapshot(self.rng.usize(..SNAPSHOTS)),
            675..685 => ScriptOp::ReleaseSnapshot(self.rng.usize(..SNAPSHOTS)),
            685..700 => {
                let family = self.family();
                let (lower, upper) = self.bounds(family);
                ScriptOp::OpenIterator(self.rng.usize(..ITERATORS), family, lower, upper, self.snapshot())
            }
            740..960 => ScriptOp::Move(self.rng.usize(..ITERATORS), self.next_move()),
            960..965 => ScriptOp::CloseIterator(self.rng.usize(..ITERATORS)),
            965..978 => ScriptOp::Flush(self.any_family()),
            978..984 => {
                let family = self.any_family();
                let (begin, end) = self.bounds(family);
                ScriptOp::Compact(family, begin, end)
            }
            984..987 => ScriptOp::SetOptions(self.rng.u64(..)),
            987 => ScriptOp::RaiseLow(self.some_time()),
            988..992 => self.ingest(),
            992..994 => ScriptOp::Checkpoint,
            994..998 if self.reopened < 40 => {
                self.reopened += 1;
                ScriptOp::Reopen(self.rng.bool())
            }
            _ => ScriptOp::Scan(self.family(), None, None, false, SNAPSHOTS),
        }
    }

    fn transaction(&mut self) -> ScriptOp {
        let op = match self.rng.u8(..32) {
            0..4 => TransactionOp::Begin,
            4..16 => TransactionOp::Write((0..self.rng.usize(1..6)).map(|_| self.write()).collect()),
            16..18 => TransactionOp::Get(self.family(), self.key()),
            18..21 => TransactionOp::Scan(self.family(), self.rng.bool()),
            21..24 => TransactionOp::SetSavePoint,
            24..26 => TransactionOp::RollBackToSavePoint,
            26..29 => TransactionOp::Prepare,
            29..31 => TransactionOp::Commit,
            _ => TransactionOp::RollBack,
        };
        ScriptOp::Transaction(self.rng.usize(..TRANSACTIONS), op)
    }

    fn some_time(&mut self) -> u64 {
        if self.rng.bool() { self.time } else { self.rng.u64(..=self.time + 10) }
    }

    fn next_move(&mut self) -> Move {
        match self.rng.u8(..16) {
            0 => Move::First,
            1 => Move::Last,
            2 | 3 => Move::Seek(self.key()),
            4 => Move::SeekForPrev(self.key()),
            5..11 => Move::Next,
            _ => Move::Prev,
        }
    }

    fn ingest(&mut self) -> ScriptOp {
        let family = self.family();
        let mut pairs = BTreeMap::new();
        for _ in 0..self.rng.usize(1..30) {
            let key = self.key();
            if !is_single(&key) {
                pairs.insert(key, self.value(family));
            }
        }
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        if family == REVERSED {
            pairs.reverse();
        }
        ScriptOp::Ingest(family, pairs)
    }
}

pub(super) type Map = Rc<BTreeMap<Bytes, Bytes>>;

struct Cursor {
    family: usize,
    /// The pairs within its bounds, in order.
    pairs: Vec<(Bytes, Bytes)>,
    at: Option<usize>,
}

/// The expected contents of the families.
#[derive(Default)]
struct Model {
    maps: [Map; PLAIN],
    stamped: History,
    /// The oldest timestamp of reads.
    low: u64,
    snapshots: [Option<([Map; PLAIN], History)>; SNAPSHOTS],
    cursors: [Option<Cursor>; ITERATORS],
    transactions: [Option<ScriptTransaction>; TRANSACTIONS],
}

/// The operations of `kept` (indexes, ascending) that are possible in this order, with their
/// answers.
pub(super) fn script(ops: &[ScriptOp], kept: &[usize]) -> OpScript {
    let mut model = Model::default();
    kept.iter()
        .filter_map(|&index| {
            let (op, answer) = model.answer(&ops[index])?;
            Some((index, op, answer))
        })
        .collect()
}

impl Model {
    /// The operation to carry out, and its answer; `None` if the operation is impossible now.
    fn answer(&mut self, op: &ScriptOp) -> Option<(ScriptOp, OpAnswer)> {
        let mut answer = OpAnswer::Nothing;
        match op {
            ScriptOp::Write(writes) => {
                let done: Vec<_> = writes.iter().filter(|write| self.write(write)).cloned().collect();
                return Some((ScriptOp::Write(done), answer));
            }
            ScriptOp::Get(family, key, at) => {
                answer = OpAnswer::Values(vec![self.maps(*at)[*family].get(key).cloned()]);
            }
            ScriptOp::MultiGet(keys, at) => {
                let maps = self.maps(*at);
                answer = OpAnswer::Values(
                    keys.iter().map(|(family, key)| maps[*family].get(key).cloned()).collect(),
                );
            }
            ScriptOp::Scan(family, lower, upper, backwards, at) => {
                let mut pairs = within(&self.maps(*at)[*family], *family, lower.as_ref(), upper.as_ref());
                if *backwards {
                    pairs.reverse();
                }
                answer = OpAnswer::Pairs(pairs);
            }
            ScriptOp::WriteAt(time, write) => self.stamped.write(*time, write),
            ScriptOp::GetAt(_, time, _) | ScriptOp::ScanAt(_, _, _, time, _) | ScriptOp::RaiseLow(time)
                if *time < self.low =>
            {
                return None;
            }
            ScriptOp::GetAt(key, time, at) => {
                answer = OpAnswer::Values(vec![self.stamped(*at).at(*time).get(key).cloned()]);
            }
            ScriptOp::ScanAt(lower, upper, backwards, time, at) => {
                let map = self.stamped(*at).at(*time);
                let mut pairs = within(&map, STAMPED, lower.as_ref(), upper.as_ref());
                if *backwards {
                    pairs.reverse();
                }
                answer = OpAnswer::Pairs(pairs);
            }
            ScriptOp::RaiseLow(time) => self.low = *time,
            ScriptOp::TakeSnapshot(slot) => {
                self.snapshots[*slot] = Some((self.maps.clone(), self.stamped.clone()))
            }
            ScriptOp::ReleaseSnapshot(slot) => self.snapshots[*slot] = None,
            ScriptOp::OpenIterator(slot, family, lower, upper, at) => {
                let pairs = within(&self.maps(*at)[*family], *family, lower.as_ref(), upper.as_ref());
                self.cursors[*slot] = Some(Cursor { family: *family, pairs, at: None });
            }
            ScriptOp::Move(slot, how) => answer = OpAnswer::At(self.cursors[*slot].as_mut()?.go(how)?),
            ScriptOp::CloseIterator(slot) => self.cursors[*slot] = None,
            ScriptOp::Ingest(family, pairs) => {
                let is_free = |key: &Bytes| !self.is_locked(*family, key);
                let free: Vec<_> = pairs.iter().filter(|(key, _)| is_free(key)).cloned().collect();
                if free.is_empty() {
                    return None;
                }
                Rc::make_mut(&mut self.maps[*family]).extend(free.iter().cloned());
                return Some((ScriptOp::Ingest(*family, free), answer));
            }
            ScriptOp::Transaction(slot, op) => {
                let (op, answer) = self.transact(*slot, op)?;
                return Some((ScriptOp::Transaction(*slot, op), answer));
            }
            ScriptOp::Checkpoint => {
                let all =
                    self.maps.iter().enumerate().flat_map(|(family, map)| within(map, family, None, None));
                answer = OpAnswer::Pairs(all.chain(self.stamped.at(u64::MAX)).collect());
            }
            ScriptOp::Reopen(_) => {
                self.snapshots = Default::default();
                self.cursors = Default::default();
                for slot in &mut self.transactions {
                    *slot = slot.take().filter(|transaction| transaction.is_prepared);
                    slot.iter_mut().for_each(ScriptTransaction::is_found);
                }
            }
            ScriptOp::Flush(_) | ScriptOp::Compact(..) | ScriptOp::SetOptions(_) => {}
        }
        Some((op.clone(), answer))
    }

    fn maps(&self, at: usize) -> &[Map; PLAIN] {
        self.snapshots.get(at).and_then(Option::as_ref).map_or(&self.maps, |(maps, _)| maps)
    }

    fn stamped(&self, at: usize) -> &History {
        self.snapshots.get(at).and_then(Option::as_ref).map_or(&self.stamped, |(_, stamped)| stamped)
    }

    /// Applies a write; false if its key does not allow it, or a transaction has locked it.
    fn write(&mut self, write: &ScriptWrite) -> bool {
        let is_locked = match write {
            ScriptWrite::DeleteRange(family, begin, end) => {
                self.transactions.iter().flatten().any(|running| running.meets(*family, begin, end))
            }
            write => write.key().is_some_and(|(family, key)| self.is_locked(family, key)),
        };
        !is_locked && apply(&mut self.maps, write)
    }

    /// Whether a transaction has locked the key.
    fn is_locked(&self, family: usize, key: &Bytes) -> bool {
        self.transactions.iter().flatten().any(|running| running.has_locked(family, key))
    }

    /// The operation of a transaction, and its answer; `None` if it is impossible now.
    fn transact(&mut self, slot: usize, op: &TransactionOp) -> Option<(TransactionOp, OpAnswer)> {
        if *op == TransactionOp::Begin {
            let free = self.transactions[slot].is_none();
            self.transactions[slot].get_or_insert_with(ScriptTransaction::default);
            return free.then(|| (op.clone(), OpAnswer::Nothing));
        }
        let mut running = self.transactions[slot].take()?;
        let mut answer = OpAnswer::Nothing;
        let mut op = op.clone();
        let (mut is_possible, mut is_over) = (true, false);
        match &mut op {
            TransactionOp::Begin => {}
            TransactionOp::Write(writes) if !running.is_prepared => {
                // `running` is in no slot meanwhile, so these are the locks of others.
                writes.retain(|write| write.key().is_some_and(|(f, key)| !self.is_locked(f, key)));
                *writes = running.write(&self.maps, writes);
                is_possible = !writes.is_empty();
            }
            TransactionOp::Get(family, key) => {
                answer = OpAnswer::Values(vec![running.sees(&self.maps)[*family].get(&*key).cloned()]);
            }
            TransactionOp::Scan(family, backwards) => {
                let mut pairs = within(&running.sees(&self.maps)[*family], *family, None, None);
                if *backwards {
                    pairs.reverse();
                }
                answer = OpAnswer::Pairs(pairs);
            }
            TransactionOp::SetSavePoint if !running.is_prepared => running.set_save_point(),
            TransactionOp::RollBackToSavePoint if !running.is_prepared => {
                is_possible = running.roll_back_to_save_point();
            }
            TransactionOp::Prepare if !running.is_prepared => running.is_prepared = true,
            TransactionOp::Commit => {
                self.maps = running.sees(&self.maps);
                is_over = true;
            }
            TransactionOp::RollBack => is_over = true,
            _ => is_possible = false,
        }
        self.transactions[slot] = Some(running).filter(|_| !is_over);
        is_possible.then_some((op, answer))
    }
}

/// Applies a write; false if its key does not allow it.
pub(super) fn apply(maps: &mut [Map; PLAIN], write: &ScriptWrite) -> bool {
    let family = match write {
        ScriptWrite::Put(family, ..)
        | ScriptWrite::Merge(family, ..)
        | ScriptWrite::DeleteRange(family, ..) => *family,
        ScriptWrite::Delete(family, _) | ScriptWrite::SingleDelete(family, _) => *family,
    };
    let map = Rc::make_mut(&mut maps[family]);
    match write {
        ScriptWrite::Put(_, key, _) if is_single(key) && map.contains_key(key) => return false,
        ScriptWrite::SingleDelete(_, key) if !map.contains_key(key) => return false,
        ScriptWrite::Delete(_, key) | ScriptWrite::Merge(_, key, _) if is_single(key) => return false,
        ScriptWrite::Put(_, key, value) => drop(map.insert(key.clone(), value.clone())),
        ScriptWrite::Delete(_, key) | ScriptWrite::SingleDelete(_, key) => drop(map.remove(key)),
        ScriptWrite::Merge(_, key, operand) => {
            let merged = merge(family, map.get(key), operand);
            map.insert(key.clone(), merged);
        }
        ScriptWrite::DeleteRange(_, begin, end) => {
            let is_in = |key: &Bytes| {
                if family == REVERSED { key <= begin && key > end } else { key >= begin && key < end }
            };
            map.retain(|key, _| !is_in(key));
        }
    }
    true
}

fn merge(family: usize, existing: Option<&Bytes>, operand: &Bytes) -> Bytes {
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    match (family, existing) {
        (_, None) => operand.clone(),
        (REVERSED, Some(value)) => number(value).wrapping_add(number(operand)).to_le_bytes().to_vec(),
        (0, Some(value)) => [value.as_slice(), operand].join(&b','),
        (_, Some(value)) => value.max(operand).clone(),
    }
}

/// The pairs from `lower` to before `upper`, in the family's order.
fn within(
    map: &BTreeMap<Bytes, Bytes>,
    family: usize,
    lower: Option<&Bytes>,
    upper: Option<&Bytes>,
) -> Vec<(Bytes, Bytes)> {
    let is_in = |key: &Bytes| {
        lower.is_none_or(|lower| !is_before(family, key, lower))
            && upper.is_none_or(|upper| is_before(family, key, upper))
    };
    let mut pairs: Vec<_> =
        map.iter().filter(|(key, _)| is_in(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
    if family == REVERSED {
        pairs.reverse();
    }
    pairs
}

fn is_before(family: usize, a: &[u8], b: &[u8]) -> bool {
    if family == REVERSED { a > b } else { a < b }
}

impl Cursor {
    /// Moves the iterator and returns the pair that it then shows. `None` if the move is
    /// impossible.
    fn go(&mut self, how: &Move) -> Option<Option<(Bytes, Bytes)>> {
        let first_from =
            |target: &Bytes| self.pairs.partition_point(|(key, _)| is_before(self.family, key, target));
        self.at = match how {
            Move::First => Some(0),
            Move::Last => self.pairs.len().checked_sub(1),
            Move::Seek(target) => Some(first_from(target)),
            Move::SeekForPrev(target) => {
                let at = first_from(target);
                let is_there = self.pairs.get(at).is_some_and(|(key, _)| key == target);
                if is_there { Some(at) } else { at.checked_sub(1) }
            }
            Move::Next => Some(self.at? + 1),
            Move::Prev => self.at?.checked_sub(1),
        };
        self.at = self.at.filter(|at| *at < self.pairs.len());
        Some(self.at.map(|at| self.pairs[at].clone()))
    }
}
