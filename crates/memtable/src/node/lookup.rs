//! Finds one key in a leaf: its first record that is not before the target.
//!
//! In: a leaf that the target is in or right of. Out: that record, or why there is none here. A
//! caller may guess the slot first and prefetch its record. A right guess saves the search; a wrong
//! one costs nothing more. Correct beside a writer by invariants 1 and 2 of `node.rs`.

use super::heads::{prefetch_line, prefetch_record};
use super::{Link, Node, is_before};
use crate::record::{Record, Target};
use crate::summaries::covered::Gap;
use esker_base::sync::atomic::{AtomicPtr, Ordering};
use esker_format::key::InternalKeyComparator;
use std::ptr;

/// The place of a target in a leaf.
pub(crate) enum Here<'t, const N: usize> {
    /// The first record that is not before the target.
    First(Record<'t>),
    /// No record has the target's user key: it would lie in this gap.
    Absent(Gap),
    /// The target is behind all records of the leaf: this is the next leaf.
    Beyond(Option<&'t Node<N>>),
}

/// A guess of the target's slot, before its leaf is searched.
#[derive(Clone, Copy)]
pub(crate) struct Guess {
    /// The target's head in that leaf.
    head: u64,
    /// The guessed slot. A wrong or invalid one is harmless.
    at: usize,
}

impl Guess {
    /// Fills an array until real guesses replace it.
    pub(crate) const TO_BE_MADE: Guess = Guess { head: 0, at: usize::MAX };

    #[cfg(test)]
    pub(crate) fn moved_to(self, at: usize) -> Guess {
        Guess { at, ..self }
    }
}

impl<'t, const N: usize> Node<N> {
    /// Leaves: guesses the slot of the target's user key and prefetches the slot's pointer. A
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

    /// Leaves: prefetches the guessed record.
    #[inline]
    pub(crate) fn fetch(&'t self, guess: Guess) {
        if let Some(record) = self.records.get(guess.at) {
            prefetch_record(record.load(Ordering::Relaxed));
        }
    }

    /// Leaves: no guess.
    #[inline(always)]
    pub(crate) fn no_guess(&'t self, icmp: &InternalKeyComparator, target: &Target<'_>) -> Guess {
        Guess { head: self.head_of(icmp.order(), target.user_key), at: usize::MAX }
    }

    /// Leaves: the first record at or after `target` in this leaf or one to its right. If no record
    /// has the target's user key, the answer may be `None`. `guess` is of this leaf.
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

    /// `first_of_key` in this leaf.
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
            // A record left of a lower head is before the target, so a guess that fits is right.
            let is_right = guess < count
                && self.head::<false>(guess) >= head
                && (guess == 0 || self.head::<false>(guess - 1) < head);
            let mut at = if is_right { guess } else { self.search_heads::<false>(head, 0, count) };
            guess = usize::MAX;
            if at < count && self.head::<false>(at) == head {
                let record = self.record::<false>(at);
                // The record before this one stays before the target (invariant 1). So this is the
                // first, unless another thread put one between them after the load.
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
                    // Heads are sorted and only move right: no slot has had this head since
                    // `search` began.
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

    /// The first record from slot `at` on that is not before `target`, and the link as read
    /// afterwards.
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
