//! Finds one key in a leaf: its first record that is not before the target.
//!
//! In: a leaf that the target is in or right of. Out: that record, or why there is none here. A
//! guess, made while the record is being fetched, saves the search once it has come; a wrong guess
//! costs a search. Its correctness beside a writer: `node.rs`, invariants 1 and 2.

use super::heads::{prefetch_line, prefetch_record};
use super::{Link, Node, is_before};
use crate::record::{Record, Target};
use crate::summaries::covered::Gap;
use esker_base::sync::atomic::{AtomicPtr, Ordering};
use esker_format::key::InternalKeyComparator;
use std::ptr;

/// Where a target is in a leaf.
pub(crate) enum Here<'t, const N: usize> {
    /// At or before this record, which is the first that is not before it.
    First(Record<'t>),
    /// In this gap; no record has its user key.
    Absent(Gap),
    /// Behind all of it; the next leaf.
    Beyond(Option<&'t Node<N>>),
}

/// Knowledge about a target before its leaf is searched.
#[derive(Clone, Copy)]
pub(crate) struct Guess {
    /// Its head in that leaf.
    head: u64,
    /// Where it may be; any number will do.
    at: usize,
}

impl Guess {
    /// Of no target: fills a place until there is one.
    pub(crate) const TO_BE_MADE: Guess = Guess { head: 0, at: usize::MAX };

    #[cfg(test)]
    pub(crate) fn moved_to(self, at: usize) -> Guess {
        Guess { at, ..self }
    }
}

impl<'t, const N: usize> Node<N> {
    /// Leaves: the approximate place of the target's user key, with the address of its record being
    /// fetched. The record there may move on at once.
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

    /// Leaves: has the record of a guess fetched.
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

    /// Leaves: the first record at or after `target` in this leaf or one to its right; if no record
    /// has the target's user key, may answer `None` without looking at any. `guess` is of this
    /// leaf.
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
            // Records left of a head below the target's are before the target, however the guess
            // was made.
            let is_right = guess < count
                && self.head::<false>(guess) >= head
                && (guess == 0 || self.head::<false>(guess - 1) < head);
            let mut at = if is_right { guess } else { self.search_heads::<false>(head, 0, count) };
            guess = usize::MAX;
            if at < count && self.head::<false>(at) == head {
                let record = self.record::<false>(at);
                // The record before it stays before the target (invariant 1): so this is the first,
                // or was until another came between.
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

    /// The first record from slot `at` on that is not before `target`, and the link as it was after
    /// that.
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
                // The record may have moved beyond the count meanwhile.
                let now = self.load_link();
                if now.count() <= count {
                    return (None, now);
                }
                count = now.count();
            }
        }
    }
}
