//! Copies of leaves, for cursors.
//!
//! In: the addresses that [`Node::copy_to`] found. Out: records by place. A run has all
//! records that the leaf had when the copy began; newer ones may be missing.

use super::heads::{prefetch_line, prefetch_record};
use super::{Node, is_before};
use crate::record::{Record, Target};
use esker_format::key::InternalKeyComparator;
use std::cmp;
use std::ptr::{self, NonNull};

const PREFETCH_DISTANCE: usize = 6;

/// Record addresses of one leaf, in order, as a cursor keeps them.
#[derive(Debug)]
pub(crate) struct LeafRun<const N: usize> {
    pub(super) records: [*mut u8; N],
    pub(super) len: usize,
    /// The leaf to the right of the copied one, at the time of the copy.
    pub(super) next: *mut Node<N>,
    /// The leaf that was copied.
    pub(super) leaf: *const Node<N>,
}

impl<const N: usize> LeafRun<N> {
    pub(crate) fn new() -> LeafRun<N> {
        LeafRun { records: [ptr::null_mut(); N], len: 0, next: ptr::null_mut(), leaf: ptr::null() }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The leaf behind the copied one, at the time of the copy.
    ///
    /// # Safety
    /// The run was loaded from a tree that lives for `'t`.
    #[inline]
    pub(crate) unsafe fn next<'t>(&self) -> Option<&'t Node<N>> {
        // SAFETY: the address of a node of that tree, or null.
        unsafe { Node::from_ptr(self.next) }
    }

    /// The copied leaf. It may have been split since. Its first record is the same, except in the
    /// leftmost leaf.
    ///
    /// # Safety
    /// The run was loaded from a tree that lives for `'t`.
    #[inline]
    pub(crate) unsafe fn leaf<'t>(&self) -> Option<&'t Node<N>> {
        // SAFETY: the address of a node of that tree, or null.
        unsafe { Node::from_ptr(self.leaf.cast_mut()) }
    }

    /// The record at place `at`.
    ///
    /// # Safety
    /// The run was loaded from a tree that lives for `'t`.
    ///
    /// # Panics
    /// If `at >= len()`.
    #[inline]
    pub(crate) unsafe fn record<'t>(&self, at: usize) -> Record<'t> {
        let place = NonNull::new(self.records[..self.len][at]).expect("a run holds addresses of records");
        // SAFETY: the address of a record of that tree.
        unsafe { Record::from_ptr(place) }
    }

    /// Prefetches the record that a cursor at `at` meets some steps later.
    #[inline]
    pub(crate) fn prefetch_ahead(&self, at: usize) {
        if let Some(&record) = self.records[..self.len].get(at + PREFETCH_DISTANCE) {
            prefetch_record(record);
        }
    }

    /// `prefetch_ahead` for a cursor that moves backward.
    #[inline]
    pub(crate) fn prefetch_behind(&self, at: usize) {
        if let Some(before) = at.checked_sub(PREFETCH_DISTANCE) {
            prefetch_record(self.records[before]);
        }
    }

    /// Prefetches the first records that a cursor at `at` will meet.
    pub(crate) fn prefetch_from(&self, at: usize) {
        for &record in self.records[..self.len].iter().skip(at).take(PREFETCH_DISTANCE) {
            prefetch_record(record);
        }
    }

    /// Prefetches the key of the record at this place, if there is one.
    #[inline]
    pub(crate) fn prefetch_key(&self, at: usize) {
        if let Some(&record) = self.records[..self.len].get(at) {
            prefetch_line(record);
            // The end of keys of up to 40 bytes.
            prefetch_line(record.wrapping_add(48));
        }
    }

    /// Drops repeated records. While an insert moves a record to the right, a reader can meet the
    /// record in its old slot and in the new one.
    #[inline]
    pub(super) fn drop_twins(&mut self) {
        let records = &mut self.records[..self.len];
        // Compares all, so that the compiler uses wide instructions.
        let has_twins = records.windows(2).fold(false, |twins, pair| twins | (pair[0] == pair[1]));
        if has_twins {
            let mut kept = 1;
            for at in 1..records.len() {
                if records[at] != records[kept - 1] {
                    records[kept] = records[at];
                    kept += 1;
                }
            }
            self.len = kept;
        }
    }

    /// The place of this very record.
    pub(crate) fn place_of(&self, record: Record<'_>) -> Option<usize> {
        self.records[..self.len].iter().position(|&place| place == record.as_ptr())
    }

    /// The place of the first record at or after `target`. With `inclusive`, the place of the first
    /// record after `target`.
    pub(crate) fn find(&self, icmp: &InternalKeyComparator, target: &Target<'_>, inclusive: bool) -> usize {
        self.records[..self.len].partition_point(|&place| {
            let place = NonNull::new(place).expect("a run holds addresses of records");
            // SAFETY: the address of a record of a tree that the caller borrows.
            is_before(icmp, unsafe { Record::from_ptr(place) }, target, inclusive)
        })
    }

    /// Drops records out of order: they were inserted during the copy.
    pub(super) fn drop_out_of_order(&mut self, icmp: &InternalKeyComparator) {
        let mut kept = 0;
        for at in 0..self.len {
            // SAFETY: the run was just copied from a node of a tree that its caller borrows.
            let record: Record<'_> = unsafe { self.record(at) };
            if kept > 0 {
                // SAFETY: the run was loaded from a live tree, and `kept` is at most its length.
                let last: Record<'_> = unsafe { self.record(kept - 1) };
                if Target::of(record).cmp_record(icmp, last) != cmp::Ordering::Less {
                    continue;
                }
            }
            self.records[kept] = self.records[at];
            kept += 1;
        }
        self.len = kept;
    }
}
