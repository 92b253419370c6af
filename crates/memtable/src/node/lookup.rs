//! Searches a leaf for one key: for the first record at or after the target.
//!
//! In: a leaf that contains the target, or lies left of it. Out: the record, or the reason why this
//! leaf has none. A caller can guess the slot first, and prefetch the slot's record. A correct
//! guess saves the search. A wrong guess does no harm. A writer may change the leaf meanwhile:
//! invariants 1 and 2 of `node.rs` keep the answer correct.

use super::heads::{prefetch_line, prefetch_record};
use super::{Link, Node, is_before};
use crate::record::{Record, Target};
use crate::summaries::covered::Gap;
use esker_base::sync::atomic::{AtomicPtr, Ordering};
use esker_format::key::InternalKeyComparator;
use std::ptr;

/// The answer of a search in a leaf.
pub(crate) enum Here<'t, const N: usize> {
    /// The first record at or after the target.
    First(Record<'t>),
    /// No record at or after the target has its user key. The target lies in this gap between
    /// records.
    Absent(Gap),
    /// The target is behind all records of the leaf. Holds the next leaf.
    Beyond(Option<&'t Node<N>>),
}

/// A guess of the target's slot in a leaf.
#[derive(Clone, Copy)]
pub(crate) struct Guess {
    /// The target's head in the leaf (`heads.rs`).
    head: u64,
    /// The guessed slot. A wrong or invalid one is harmless.
    at: usize,
}

impl Guess {
    /// A placeholder in an array, until a real guess replaces it.
    pub(crate) const TO_BE_MADE: Guess = Guess { head: 0, at: usize::MAX };

    #[cfg(test)]
    pub(crate) fn moved_to(self, at: usize) -> Guess {
        Guess { at, ..self }
    }
}

impl<'t, const N: usize> Node<N> {
    /// For leaves: guesses the slot of the target's user key, and prefetches the slot's pointer. A
    /// writer may move the record at any time.
    #[inline]
    pub(crate) fn guess(&'t self, icmp: &InternalKeyComparator, target: &Target<'_>) -> Guess {
        let count = self.load_link().count();
        let head = self.head_of(icmp.order(), target.user_key);
        let at = self.search_heads::<false>(head, 0, count);
        prefetch_line(
            ptr::from_ref(&self.records).cast::<u8>().wrapping_add(at * size_of::<AtomicPtr<u8>>()),
        );
        Guess { head, at }
    }

    /// For leaves: prefetches the guessed record.
    #[inline]
    pub(crate) fn fetch(&'t self, guess: Guess) {
        if let Some(record) = self.records.get(guess.at) {
            prefetch_record(record.load(Ordering::Relaxed));
        }
    }

    /// For leaves: makes a `Guess` that names no slot.
    #[inline(always)]
    pub(crate) fn no_guess(&'t self, icmp: &InternalKeyComparator, target: &Target<'_>) -> Guess {
        Guess { head: self.head_of(icmp.order(), target.user_key), at: usize::MAX }
    }

    /// For leaves: finds the first record at or after `target`, in this leaf or to its right. May
    /// return `None` if no such record has the target's user key. `guess` was made for this leaf.
    #[inline(always)]
    pub(crate) fn first_of_key(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
        mut guess: Guess,
    ) -> Option<(Record<'t>, &'t Node<N>)> {
        let mut node = self;
        loop {
            match node.first_of_key_here(icmp, target, guess) {
                Here::First(record) => return Some((record, node)),
                Here::Absent(_) => return None,
                Here::Beyond(next) => node = next?,
            }
            guess = node.no_guess(icmp, target);
        }
    }

    /// Does `first_of_key` in this leaf only.
    #[inline(always)]
    pub(crate) fn first_of_key_here(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
        Guess { head, at: mut guess }: Guess,
    ) -> Here<'t, N> {
        loop {
            let link = self.load_link();
            let count = link.count();
            // A head lower than the target's belongs to a record before the target. So the guess is
            // right if it is the first slot whose head is at least the target's.
            let is_right = guess < count
                && self.head::<false>(guess) >= head
                && (guess == 0 || self.head::<false>(guess - 1) < head);
            let mut at = if is_right { guess } else { self.search_heads::<false>(head, 0, count) };
            guess = usize::MAX;
            if at < count && self.head::<false>(at) == head {
                let record = self.record::<false>(at);
                // The slots before `at` stay before the target, also during an insert (invariant
                // 1). So this record was the first one when it was read.
                if !is_before(icmp, record, target, false) {
                    if self.load_link().next() == link.next() {
                        return Here::First(record);
                    }
                    continue;
                }
                at = self.search_among_equals::<false>(icmp, target, head, false, at + 1, count);
            }
            if at < count {
                let behind = self.head::<false>(at);
                if behind > head {
                    // All slots before `at` lie before the target, and slot `at` has a larger head.
                    // Records are sorted, and move only to the right. So if the leaf has not split
                    // meanwhile, the target's key had no record at or behind the target when the
                    // search began.
                    if self.load_link().next() == link.next() {
                        return Here::Absent(Gap::before(behind));
                    }
                    continue;
                }
            }
            let (found, now) = self.scan(icmp, target, at, count);
            if now.next() == link.next() {
                return found.map_or_else(|| Here::Beyond(self.neighbour(link)), Here::First);
            }
        }
    }

    /// Finds the first record at or after `target`, from slot `at` on. Also returns the link, read
    /// after the records.
    #[inline(always)]
    fn scan(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
        mut at: usize,
        mut count: usize,
    ) -> (Option<Record<'t>>, Link<N>) {
        loop {
            if at < count {
                let record = self.record::<false>(at);
                if !is_before(icmp, record, target, false) {
                    return (Some(record), self.load_link());
                }
                at += 1;
            } else {
                // A writer may have moved the record behind `count`.
                let now = self.load_link();
                if now.count() <= count {
                    return (None, now);
                }
                count = now.count();
            }
        }
    }
}
