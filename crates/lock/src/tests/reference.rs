//! A reference lock manager: a row of cells and a list of waiting requests.
//!
//! It has no leaves, fragments or cuts: a range is two cell numbers. It implements the rules of
//! `wait.rs`.

use crate::LockMode;
use crate::fragment::FragmentChange;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A range of cells.
pub(crate) type Cells = Range<usize>;

#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) ticket: u64,
    pub(crate) owner: usize,
    stamp: u64,
    family: usize,
    cells: Cells,
    mode: LockMode,
    /// Owners with smaller stamps pass it.
    passable_until: u64,
}

#[derive(Clone, Debug, Default)]
struct LockOwner {
    stamp: u64,
    log: Vec<(FragmentChange, usize, Cells)>,
    save_points: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Granted,
    Refused,
    Waits,
}

/// The reference lock manager.
#[derive(Debug)]
pub(crate) struct Reference {
    /// Family, cell -> owners and modes.
    held: Vec<Vec<BTreeMap<usize, LockMode>>>,
    /// Waiting requests, oldest first.
    waiting: Vec<Waiting>,
    owners: Vec<LockOwner>,
    next_ticket: u64,
    /// Family, cell -> whether it is a key rather than a gap.
    keys: Vec<Vec<bool>>,
    /// The manager's option.
    range_patience: u64,
    /// Owners whose requests were granted since the test last emptied this set.
    pub(crate) granted: BTreeSet<usize>,
}

fn conflict(a: LockMode, b: LockMode) -> bool {
    a == LockMode::Exclusive || b == LockMode::Exclusive
}

fn intersect(a: &Cells, b: &Cells) -> Cells {
    a.start.max(b.start)..a.end.min(b.end)
}

impl Reference {
    /// A reference without locks. `keys` says for each family's cells whether they are keys.
    pub(crate) fn new(keys: Vec<Vec<bool>>, owners: usize, range_patience: u64) -> Reference {
        Reference {
            held: keys.iter().map(|cells| vec![BTreeMap::new(); cells.len()]).collect(),
            waiting: Vec::new(),
            owners: vec![LockOwner::default(); owners],
            next_ticket: 1,
            keys,
            range_patience,
            granted: BTreeSet::new(),
        }
    }

    pub(crate) fn held(&self, family: usize) -> &[BTreeMap<usize, LockMode>] {
        &self.held[family]
    }

    pub(crate) fn is_waiting(&self, owner: usize) -> bool {
        self.waiting.iter().any(|w| w.owner == owner)
    }

    pub(crate) fn has_save_point(&self, owner: usize) -> bool {
        !self.owners[owner].save_points.is_empty()
    }

    /// Owners that hold a lock in conflict with the request.
    fn holders(&self, r: &Waiting) -> BTreeSet<usize> {
        let cells = &self.held[r.family][r.cells.clone()];
        cells
            .iter()
            .flatten()
            .filter(|(owner, mode)| **owner != r.owner && conflict(**mode, r.mode))
            .map(|(owner, _)| *owner)
            .collect()
    }

    fn is_held_up_by(&self, earlier: &Waiting, later: &Waiting) -> bool {
        let both = intersect(&earlier.cells, &later.cells);
        if earlier.owner == later.owner
            || earlier.family != later.family
            || !conflict(earlier.mode, later.mode)
            || both.is_empty()
        {
            return false;
        }
        later.stamp >= earlier.passable_until
    }

    fn is_free(&self, r: &Waiting) -> bool {
        self.holders(r).is_empty()
            && !self.waiting.iter().take_while(|w| w.ticket < r.ticket).any(|w| self.is_held_up_by(w, r))
    }

    fn take(&mut self, r: &Waiting) {
        let mut pieces: Vec<(FragmentChange, usize, Cells)> = Vec::new();
        for cell in r.cells.clone() {
            let change = match self.held[r.family][cell].get(&r.owner) {
                Some(mode) if *mode >= r.mode => continue,
                Some(_) => FragmentChange::Upgraded,
                None => FragmentChange::Taken,
            };
            self.held[r.family][cell].insert(r.owner, r.mode);
            match pieces.last_mut() {
                Some((last, _, cells)) if *last == change && cells.end == cell => cells.end += 1,
                _ => pieces.push((change, r.family, cell..cell + 1)),
            }
        }
        self.owners[r.owner].log.extend(pieces);
    }

    pub(crate) fn request(
        &mut self,
        owner: usize,
        family: usize,
        cells: Cells,
        mode: LockMode,
        may_wait: bool,
    ) -> Answer {
        if self.owners[owner].log.is_empty() {
            self.owners[owner].stamp = self.next_ticket;
        }
        let (stamp, ticket) = (self.owners[owner].stamp, self.next_ticket);
        let (count, passes) = (self.owners[owner].log.len(), self.passes(owner, family, &cells, mode));
        let answer = self.ask(owner, family, cells, mode, (stamp, ticket), may_wait);
        let is_new = self.owners[owner].log.len() > count;
        self.next_ticket += u64::from(answer == Answer::Waits || (is_new && passes));
        answer
    }

    fn is_key(&self, family: usize, cells: &Cells) -> bool {
        cells.len() == 1 && self.keys[family][cells.start]
    }

    /// Whether a grant now would pass a waiting request.
    fn passes(&self, owner: usize, family: usize, cells: &Cells, mode: LockMode) -> bool {
        let stamp = self.owners[owner].stamp;
        let is_passed = |w: &Waiting| {
            let overlaps = w.family == family && !intersect(&w.cells, cells).is_empty();
            w.owner != owner && overlaps && conflict(w.mode, mode) && stamp < w.passable_until
        };
        self.waiting.iter().any(is_passed)
    }

    /// Decides a request with the manager's stamp and ticket, without the grants that follow from
    /// it.
    pub(crate) fn ask(
        &mut self,
        owner: usize,
        family: usize,
        cells: Cells,
        mode: LockMode,
        (stamp, ticket): (u64, u64),
        may_wait: bool,
    ) -> Answer {
        self.owners[owner].stamp = stamp;
        let patience = if self.is_key(family, &cells) { 0 } else { self.range_patience };
        let passable_until = ticket.saturating_add(1).saturating_add(patience);
        let mut r = Waiting { ticket, owner, stamp, family, cells, mode, passable_until };
        // A request without a ticket is behind all others.
        r.ticket = u64::MAX;
        let holds_all =
            self.held[family][r.cells.clone()].iter().all(|c| c.get(&owner).is_some_and(|m| *m >= mode));
        if holds_all {
            return Answer::Granted;
        }
        if self.is_free(&r) {
            self.take(&r);
            return Answer::Granted;
        }
        if !may_wait {
            return Answer::Refused;
        }
        r.ticket = ticket;
        let place = self.waiting.partition_point(|w| w.ticket < ticket);
        self.waiting.insert(place, r);
        Answer::Waits
    }

    /// Grants the request of `owner`. False if it is blocked or does not wait.
    pub(crate) fn grant(&mut self, owner: usize) -> bool {
        let Some(index) = self.waiting.iter().position(|w| w.owner == owner) else { return false };
        if !self.is_free(&self.waiting[index]) {
            return false;
        }
        let r = self.waiting.remove(index);
        self.take(&r);
        true
    }

    /// Withdraws the request of `owner`. False if it does not wait.
    pub(crate) fn remove(&mut self, owner: usize) -> bool {
        let count = self.waiting.len();
        self.waiting.retain(|w| w.owner != owner);
        self.waiting.len() < count
    }

    /// The first waiting request that nothing blocks.
    pub(crate) fn may_go(&self) -> Option<&Waiting> {
        self.waiting.iter().find(|w| self.is_free(w))
    }

    /// True without held locks and waiting requests.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.held.iter().flatten().all(BTreeMap::is_empty)
    }

    /// Grants every request that nothing blocks, first come first served.
    fn settle(&mut self) {
        let mut index = 0;
        while index < self.waiting.len() {
            if self.is_free(&self.waiting[index]) {
                let r = self.waiting.remove(index);
                self.granted.insert(r.owner);
                self.take(&r);
            } else {
                index += 1;
            }
        }
    }

    pub(crate) fn withdraw(&mut self, owner: usize) {
        self.remove(owner);
        self.settle();
    }

    /// Releases locks and grants what became free. False if nothing was held.
    pub(crate) fn release(&mut self, owner: usize, family: usize, cells: Cells) -> bool {
        let any = self.give_up(owner, family, cells);
        self.settle();
        any
    }

    /// [`release`](Self::release) without the grants that follow from it.
    pub(crate) fn give_up(&mut self, owner: usize, family: usize, cells: Cells) -> bool {
        let mut any = false;
        for cell in cells {
            any |= self.held[family][cell].remove(&owner).is_some();
        }
        any
    }

    /// Makes locks shared and grants what became free. False if nothing was held exclusively.
    pub(crate) fn downgrade(&mut self, owner: usize, family: usize, cells: Cells) -> bool {
        let any = self.weaken(owner, family, cells);
        self.settle();
        any
    }

    /// [`downgrade`](Self::downgrade) without the grants that follow from it.
    pub(crate) fn weaken(&mut self, owner: usize, family: usize, cells: Cells) -> bool {
        let mut any = false;
        for cell in cells {
            if let Some(mode) = self.held[family][cell].get_mut(&owner) {
                any |= *mode == LockMode::Exclusive;
                *mode = LockMode::Shared;
            }
        }
        any
    }

    /// Removes the newest log entry for exactly these cells.
    pub(crate) fn forget(&mut self, owner: usize, family: usize, cells: &Cells) {
        let owner = &mut self.owners[owner];
        let found = owner.log.iter().rposition(|(_, f, c)| *f == family && c == cells);
        if let Some(index) = found {
            owner.log.remove(index);
            for mark in owner.save_points.iter_mut().filter(|m| **m > index) {
                *mark -= 1;
            }
        }
    }

    pub(crate) fn set_save_point(&mut self, owner: usize) {
        let mark = self.owners[owner].log.len();
        self.owners[owner].save_points.push(mark);
    }

    pub(crate) fn rollback(&mut self, owner: usize) {
        let mark =
            self.owners[owner].save_points.pop().expect("the caller checked that there is a save point");
        for (change, family, cells) in self.owners[owner].log.split_off(mark) {
            match change {
                FragmentChange::Taken => self.release(owner, family, cells),
                FragmentChange::Upgraded => self.downgrade(owner, family, cells),
            };
        }
    }

    pub(crate) fn release_all(&mut self, owner: usize) {
        let log = std::mem::take(&mut self.owners[owner].log);
        for (change, family, cells) in log {
            if change == FragmentChange::Taken {
                self.release(owner, family, cells);
            }
        }
        self.owners[owner].save_points.clear();
    }

    /// True if `owner` waits, through others, for itself.
    pub(crate) fn is_in_cycle(&self, owner: usize) -> bool {
        let mut reached = BTreeSet::new();
        let mut next = vec![owner];
        while let Some(at) = next.pop() {
            let Some(w) = self.waiting.iter().find(|w| w.owner == at) else { continue };
            let earlier = self.waiting.iter().take_while(|e| e.ticket < w.ticket);
            let queue = earlier.filter(|e| self.is_held_up_by(e, w)).map(|e| e.owner);
            for blocker in self.holders(w).into_iter().chain(queue) {
                if reached.insert(blocker) {
                    next.push(blocker);
                }
            }
        }
        reached.contains(&owner)
    }
}
