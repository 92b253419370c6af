//! Random requests: a manager with small leaves answers each as the reference does.
//!
//! One thread plays many lockers: waiting requests stay in the queues and are examined later.
//! `ROUNDS` gives more seeds; `cargo xtask long locks` gives millions of requests.

use super::reference::{Answer, Cells, Reference};
use super::{StillClock, manager_with_patience};
use crate::cut::{Cut, CutBuf, CutOrder, KeySpan, KeySpanBuf};
use crate::family::LockFamily;
use crate::owner::WaitOutcome;
use crate::wait::Waiter;
use crate::*;
use esker_base::ColumnFamilyId;
use esker_base::comparator::{
    BytewiseComparator, Comparator, ComparatorRef, KeyOrder, ReverseBytewiseComparator,
};
use esker_base::sync::Arc;
use esker_testkit::seed;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Orders keys by length, then by bytes: a custom order that separates keys with a common prefix.
struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "test.ByLength"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

const LOCKERS: usize = 12;

struct Table {
    family: Arc<LockFamily>,
    order: CutOrder,
    /// All cuts, in order; cell `i` lies between cuts `i` and `i + 1`.
    places: Vec<CutBuf>,
}

impl Table {
    fn new(manager: &LockManager, id: u32, comparator: ComparatorRef, options: FamilyOptions) -> Table {
        let has_prefixes = comparator.order() != KeyOrder::Custom;
        let order = CutOrder::of(&comparator);
        let family =
            manager.add_family(ColumnFamilyId(id), &FamilyOptions { comparator, ..options }).unwrap();
        let keys: [&[u8]; 9] =
            [b"a", b"ab", b"abc", b"abcdefghijklmnopqrstuvwxyz", b"ac", b"b", b"bb", b"c", b""];
        let beside = [CutPosition::Before, CutPosition::After];
        let around = [CutPosition::Infimum, CutPosition::Supremum];
        let mut places = vec![CutBuf::MIN, CutBuf::MAX];
        for key in keys {
            places.extend(beside.map(|place| Cut { key, place }.to_buf()));
            if has_prefixes {
                places.extend(around.map(|place| Cut { key, place }.to_buf()));
            }
        }
        places.sort_by(|a, b| order.cmp(a.as_cut(), b.as_cut()));
        places.dedup_by(|a, b| order.cmp(a.as_cut(), b.as_cut()).is_eq());
        Table { family, order, places }
    }

    fn cell_count(&self) -> usize {
        self.places.len() - 1
    }

    /// For each cell, whether it is a key.
    fn keys(&self) -> Vec<bool> {
        (0..self.cell_count()).map(|i| self.span(&(i..i + 1)).as_span().is_point()).collect()
    }

    fn place(&self, cut: Cut<'_>) -> usize {
        self.places
            .iter()
            .position(|p| self.order.cmp(p.as_cut(), cut).is_eq())
            .expect("the cut is one of the test's places")
    }

    fn span(&self, cells: &Cells) -> KeySpanBuf {
        KeySpanBuf { lo: self.places[cells.start].clone(), hi: self.places[cells.end].clone() }
    }

    /// Mostly keys, some ranges, few of them wide.
    fn pick(&self, rng: &mut fastrand::Rng) -> Cells {
        if rng.u8(..10) < 6 {
            let keys: Vec<usize> = (0..self.cell_count()).filter(|i| self.keys()[*i]).collect();
            let i = keys[rng.usize(..keys.len())];
            return i..i + 1;
        }
        let most = if rng.u8(..8) == 0 { self.cell_count() } else { 5.min(self.cell_count()) };
        let count = rng.usize(1..=most);
        let start = rng.usize(..=self.cell_count() - count);
        start..start + count
    }
}

struct Asked {
    waiter: Arc<Waiter>,
    family: usize,
    span: KeySpanBuf,
}

struct Round {
    manager: LockManager,
    tables: Vec<Table>,
    lockers: Vec<Locker>,
    asked: Vec<Option<Asked>>,
    reference: Reference,
    /// Locker id -> index.
    indexes: BTreeMap<u64, usize>,
}

impl Round {
    fn new(rng: &mut fastrand::Rng) -> Round {
        let patience = [0, 1, 5, 256][rng.usize(..4)];
        let manager = manager_with_patience(patience);
        let orders: [ComparatorRef; 3] =
            [Arc::new(BytewiseComparator), Arc::new(ReverseBytewiseComparator), Arc::new(ByLength)];
        let tables: Vec<Table> = (0..2)
            .map(|id| {
                let options = FamilyOptions { max_fragments: rng.usize(1..6), ..FamilyOptions::default() };
                Table::new(&manager, id, orders[rng.usize(..3)].clone(), options)
            })
            .collect();
        let lockers: Vec<Locker> = (0..LOCKERS).map(|_| manager.locker(LockerOptions::default())).collect();
        let indexes = lockers.iter().enumerate().map(|(i, l)| (l.id(), i)).collect();
        let reference = Reference::new(tables.iter().map(Table::keys).collect(), LOCKERS, patience);
        Round { manager, tables, lockers, asked: (0..LOCKERS).map(|_| None).collect(), reference, indexes }
    }

    fn step(&mut self, rng: &mut fastrand::Rng) {
        let who = rng.usize(..LOCKERS);
        if self.asked[who].is_some() {
            // The locker's thread sleeps in its wait, so the only other step is to withdraw the
            // request.
            if rng.u8(..6) == 0 {
                self.give_up(who);
            }
            return;
        }
        let family = rng.usize(..self.tables.len());
        let cells = self.tables[family].pick(rng);
        match rng.u8(..24) {
            0 => self.release_all(who),
            1 => self.unlock(who, family, &cells),
            2 => self.downgrade(who, family, &cells),
            3 => {
                self.lockers[who].set_save_point();
                self.reference.set_save_point(who);
            }
            4 if self.reference.has_save_point(who) => {
                self.lockers[who].rollback_to_save_point().unwrap();
                self.reference.rollback(who);
            }
            kind => {
                let mode = if rng.bool() { LockMode::Shared } else { LockMode::Exclusive };
                self.request(who, family, &cells, mode, kind > 8, kind > 12);
            }
        }
    }

    fn request(
        &mut self,
        who: usize,
        family: usize,
        cells: &Cells,
        mode: LockMode,
        may_wait: bool,
        detect: bool,
    ) {
        let span = self.tables[family].span(cells);
        let table = &self.tables[family];
        let answer = self.lockers[who].start(&table.family, span.as_span(), mode, may_wait);
        let expected = self.reference.request(who, family, cells.clone(), mode, may_wait);
        match answer {
            Ok(None) => assert_eq!(expected, Answer::Granted),
            Err(why) => {
                assert_eq!(why.kind(), esker_base::ErrorKind::TimedOut);
                assert_eq!(expected, Answer::Refused);
            }
            Ok(Some(waiter)) => {
                assert_eq!(expected, Answer::Waits);
                if detect {
                    let closes = self.reference.is_in_cycle(who);
                    let shared = &table.family.shared;
                    assert_eq!(crate::deadlock::withdraw_if_deadlocked(shared, &waiter, usize::MAX), closes);
                    if closes {
                        self.check_path(who);
                        self.reference.withdraw(who);
                        return;
                    }
                }
                self.asked[who] = Some(Asked { waiter, family, span });
            }
        }
    }

    /// The newest deadlock starts with the victim, and every other locker in it waits.
    fn check_path(&self, victim: usize) {
        let newest = self.manager.deadlocks().swap_remove(0);
        assert!(!newest.limit_exceeded);
        assert_eq!(self.indexes[&newest.path[0].id], victim);
        for other in &newest.path[1..] {
            assert!(self.reference.is_waiting(self.indexes[&other.id]));
        }
    }

    fn give_up(&mut self, who: usize) {
        let asked = self.asked[who].take().expect("the locker waits");
        assert!(asked.waiter.family.withdraw(&asked.waiter), "no other request has granted it");
        self.reference.withdraw(who);
    }

    fn unlock(&mut self, who: usize, family: usize, cells: &Cells) {
        let span = self.tables[family].span(cells);
        let result = self.lockers[who].unlock(&self.tables[family].family, span.as_span());
        assert_eq!(result.is_ok(), self.reference.release(who, family, cells.clone()));
        if result.is_ok() {
            self.reference.forget(who, family, cells);
        }
    }

    fn downgrade(&mut self, who: usize, family: usize, cells: &Cells) {
        let span = self.tables[family].span(cells);
        let result = self.lockers[who].downgrade_span(&self.tables[family].family, span.as_span());
        assert_eq!(result.is_ok(), self.reference.downgrade(who, family, cells.clone()));
    }

    fn release_all(&mut self, who: usize) {
        self.lockers[who].release_all();
        self.reference.release_all(who);
    }

    /// Compares the granted requests with those of the reference.
    fn collect(&mut self) {
        let mut expected = std::mem::take(&mut self.reference.granted);
        for who in 0..LOCKERS {
            let Some(asked) = &self.asked[who] else { continue };
            let outcome = self.lockers[who].take_outcome();
            assert_eq!(outcome.is_some(), expected.remove(&who), "locker {who}");
            match outcome {
                None => {}
                Some(WaitOutcome::Granted(pieces, bytes)) => {
                    let family = self.tables[asked.family].family.clone();
                    let span = asked.span.clone();
                    self.lockers[who].finish(&family, span.as_span(), pieces, bytes);
                    self.asked[who] = None;
                }
                Some(WaitOutcome::Failed(why)) => panic!("{why}"),
            }
        }
        assert!(expected.is_empty(), "{expected:?}");
    }

    /// Compares the lock table with the reference, cell by cell.
    fn compare(&self) {
        self.manager.check().unwrap();
        for (number, table) in self.tables.iter().enumerate() {
            let mut cells: Vec<BTreeMap<usize, LockMode>> =
                vec![BTreeMap::new(); self.reference.held(number).len()];
            table.family.for_each_leaf(|_, state| {
                for f in state.fragments.iter() {
                    let KeySpan { lo, hi } = f.span();
                    for cell in &mut cells[table.place(lo)..table.place(hi)] {
                        for owner in f.owners() {
                            cell.insert(self.indexes[&owner.id], f.mode());
                        }
                    }
                }
            });
            assert_eq!(cells, self.reference.held(number), "family {number}");
        }
    }
}

fn play(mut rng: fastrand::Rng, steps: usize) {
    let mut round = Round::new(&mut rng);
    for step in 0..steps {
        round.step(&mut rng);
        round.collect();
        if step % 16 == 0 {
            round.compare();
        }
    }
    for who in 0..LOCKERS {
        if round.asked[who].is_some() {
            round.give_up(who);
            round.collect();
        }
        round.release_all(who);
        round.collect();
    }
    round.compare();
    drop(round.lockers);
    assert_eq!(round.manager.counters().lock_memory, 0);
    assert!(round.manager.locks().is_empty());
}

#[test]
fn random_requests_get_what_the_reference_gives() {
    seed::for_each_seed("lock::random", 60, |_, rng| play(rng, 500));
}

#[test]
fn a_still_clock_stands_still() {
    let clock = StillClock::default();
    clock.advance(5);
    assert_eq!(clock.monotonic_nanos(), 5);
}
