//! User keys and values at one sequence number.
//!
//! In: a cursor over internal keys (newest first within a user key), without entries that range
//! tombstones hide.
//! Out: each user key once, with the value visible at the sequence number; both directions, within
//! bounds. Semantics: RocksDB `db/db_iter.h`.
//!
//! Position of the inner cursor while this one is valid
//!  1. forward, plain value: at the value's entry.
//!  2. forward, merged value: behind the newest operand, at an entry of the current user key or
//!     later, or at the end. Also after an exchange of super versions that removed the current key.
//!  3. backward: at the last entry of the user keys before the current one, or before the first;
//!     `ahead` describes that entry, unless the inner cursor has made a move since that is not a
//!     step.
//!  4. stepping over a run (`run` is not empty, `value` is `DecodedRun`): at the run's first entry
//!     in the direction of travel.
//!
//! No step allocates once the buffers have grown to the largest key and value. The key is always a
//! copy. The value is lent by the inner cursor in case 1 and, mostly, in case 3 (from the entry
//! that it has left). In case 4 it lies in the run's block. Otherwise it is a copy, or pinned if it
//! is large.

mod backward;
mod deleted_runs;
mod options;
mod run;
mod value;

use value::NEWEST_FIRST;

pub(crate) use options::{DbIterCounters, DbIterOptions};

use crate::deleted_runs::DeletedRunTracker;
use crate::merge::MergeOperands;
use deleted_runs::PreScanState;
use esker_base::stats::Ticker;
use esker_base::sync::Arc;
use esker_base::{Error, PinnedBytes, Result, SequenceNumber, SubCode, ValueType, perf_count};
use esker_format::cursor::{DecodedRun, LeftValue, ScanIterator};
use esker_format::key::{self, InternalKeyComparator, ParsedInternalKey, append_internal_key};
use run::Eagerness;
use std::any::Any;
use std::fmt;

/// Keeps memtables and files alive for as long as an iterator lives: a super version, mostly.
pub(crate) type KeepAlive = Arc<dyn Any + Send + Sync>;

/// Largest value buffer, in bytes, that an idle cursor may keep.
const SMALL: usize = 4096;

/// The place of the current value.
#[derive(Debug)]
enum Value {
    /// All of the inner cursor's value.
    Inner,
    /// Bytes `start..end` of the inner cursor's value.
    InnerPart { start: usize, end: usize },
    /// In `left`, the value of the entry that the inner cursor has left.
    Left,
    /// In `run`, at its position; the key is there, too.
    Run,
    /// In `buffer`.
    Buffer,
    /// Bytes `start..end` of `buffer`: the default column of the entity there.
    Entity { start: usize, end: usize },
    /// Pinned in place.
    Pinned(PinnedBytes),
    /// In a blob file, and not read yet; `buffer` has the blob index.
    Unprepared,
}

/// The cursor that users move. Not valid until positioned; after an error, until positioned again.
pub(crate) struct DbIter<I = Box<dyn ScanIterator>> {
    icmp: InternalKeyComparator,
    iter: I,
    options: DbIterOptions,
    valid: bool,
    forward: bool,
    /// Whether the value of a forward move was merged. Then `iter` is not at an entry with that
    /// value.
    merged: bool,
    /// The current user key, if `value` is not `Run`. During a search for the next key, the key to
    /// pass.
    key: Vec<u8>,
    value: Value,
    left: LeftValue,
    /// Decoded entries ahead of the inner cursor.
    run: DecodedRun,
    eagerness: Eagerness,
    buffer: Vec<u8>,
    /// Backward: sequence number and type of the inner cursor's entry; its user key is in
    /// `ahead_key`.
    ahead: Option<(SequenceNumber, ValueType)>,
    ahead_key: Vec<u8>,
    operands: MergeOperands,
    /// Scratch: internal keys to seek to.
    target: Vec<u8>,
    prefix: Option<Vec<u8>>,
    /// Hidden entries that this call has stepped over.
    skipped_in_call: u64,
    deleted_run: DeletedRunTracker,
    pre_scan: Option<PreScanState>,
    status: Result<()>,
    counters: DbIterCounters,
    keep_alive: Option<KeepAlive>,
}

impl<I> fmt::Debug for DbIter<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DbIter")
            .field("valid", &self.valid)
            .field("forward", &self.forward)
            .field("sequence", &self.options.sequence)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl<I> DbIter<I> {
    /// Moves the counters into the statistics.
    fn report(&mut self) {
        let counters = std::mem::take(&mut self.counters);
        counters.add_to_perf_context();
        if let Some(statistics) = &self.options.statistics {
            counters.add_to(statistics);
        }
    }
}

impl<I> Drop for DbIter<I> {
    fn drop(&mut self) {
        self.report();
    }
}

impl<I: ScanIterator> DbIter<I> {
    /// A cursor over `iter`, whose order is `icmp`'s. `keep_alive` is dropped after `iter`.
    pub(crate) fn new(
        icmp: InternalKeyComparator,
        mut iter: I,
        options: DbIterOptions,
        keep_alive: Option<KeepAlive>,
    ) -> DbIter<I> {
        iter.set_upper_bound(options.upper_bound.as_deref());
        let deleted_run = DeletedRunTracker::new(options.deleted_run_memory.as_ref());
        DbIter {
            icmp,
            iter,
            options,
            deleted_run,
            pre_scan: None,
            valid: false,
            forward: true,
            merged: false,
            key: Vec::new(),
            value: Value::Buffer,
            left: LeftValue::default(),
            run: DecodedRun::default(),
            eagerness: Eagerness::default(),
            buffer: Vec::new(),
            ahead: None,
            ahead_key: Vec::new(),
            operands: MergeOperands::new(),
            target: Vec::new(),
            prefix: None,
            skipped_in_call: 0,
            status: Ok(()),
            counters: DbIterCounters::default(),
            keep_alive,
        }
    }

    /// Changes to the state at `sequence` of newer memtables and files, which `exchange` puts into
    /// the inner cursor. Not valid until positioned.
    pub(crate) fn refresh(
        &mut self,
        sequence: SequenceNumber,
        keep_alive: Option<KeepAlive>,
        exchange: impl FnOnce(&mut I),
    ) {
        self.begin_call();
        self.end_run();
        exchange(&mut self.iter);
        self.keep_alive = keep_alive;
        self.options.sequence = sequence;
        self.ahead = None;
        self.valid = false;
        self.status = Ok(());
        self.report();
    }

    /// Changes to newer memtables and files at the same sequence number and position. The sequence
    /// number is a live snapshot, so flushes and compactions have kept its entries, except those
    /// that a compaction filter or FIFO removes. `exchange` puts the new sources into the inner
    /// cursor and, given a position and a direction, moves it there; kept sources may stay in
    /// place. The caller moves the cursor next.
    pub(crate) fn rebase(
        &mut self,
        keep_alive: Option<KeepAlive>,
        exchange: impl FnOnce(&mut I, Option<(&[u8], bool)>),
    ) {
        self.begin_call();
        self.leave_run();
        self.ahead = None;
        if !self.valid {
            exchange(&mut self.iter, None);
        } else if self.forward {
            self.aim(self.options.sequence, ValueType::SEEK);
            if self.merged {
                // The operands have been passed already.
                exchange(&mut self.iter, None);
                self.iter.seek(&self.target);
            } else {
                exchange(&mut self.iter, Some((&self.target, true)));
            }
            set(&mut self.ahead_key, &self.key);
            self.find_next(false, false);
            if self.status.is_ok() && !(self.valid && self.key == self.ahead_key) {
                self.stand_without_entry();
            }
        } else {
            // The inner cursor is before all entries of the key.
            if matches!(self.value, Value::Left) {
                self.left.keep_lent(&self.iter);
            }
            self.aim(SequenceNumber::MAX, ValueType::SEEK);
            exchange(&mut self.iter, Some((&self.target, false)));
        }
        self.keep_alive = keep_alive;
    }

    /// Stays at `ahead_key`, which the newer files lack: a compaction filter has removed the key,
    /// or FIFO its file. There is no value until the next step, which leads to the key's neighbour.
    #[cold]
    fn stand_without_entry(&mut self) {
        std::mem::swap(&mut self.key, &mut self.ahead_key);
        self.aim(self.options.sequence, ValueType::SEEK);
        self.iter.seek(&self.target);
        self.valid = true;
        self.merged = true;
        self.buffer.clear();
        self.value = Value::Buffer;
    }

    /// Keeps the same memtables and files, which another super version holds now.
    pub(crate) fn keep(&mut self, keep_alive: KeepAlive) {
        self.begin_call();
        self.keep_alive = Some(keep_alive);
    }

    /// Prepares an idle cursor: releases everything except parts that the super version owns.
    /// [`refresh`](Self::refresh) makes it usable again. Returns whether it is worth keeping.
    pub(crate) fn release(&mut self) -> bool {
        self.begin_call();
        self.forget_place();
        self.value = Value::Buffer;
        self.left.release();
        self.run.begin();
        self.ahead = None;
        self.iter.release();
        self.keep_alive = None;
        self.report();
        let is_small = self.buffer.capacity() <= SMALL && self.operands.capacity() <= SMALL;
        is_small && self.prefix.is_none() && self.pre_scan.is_none() && self.status.is_ok()
    }

    /// Makes the cursor invalid until it is positioned.
    pub(crate) fn forget_place(&mut self) {
        self.end_run();
        self.valid = false;
    }

    /// The inner cursor.
    pub(crate) fn inner(&self) -> &I {
        &self.iter
    }

    /// The inner cursor. The caller must not move it.
    pub(crate) fn inner_mut(&mut self) -> &mut I {
        &mut self.iter
    }

    /// Whether the cursor has bounds.
    pub(crate) fn has_bounds(&self) -> bool {
        self.options.lower_bound.is_some() || self.options.upper_bound.is_some()
    }

    /// Sets `max_sequential_skip_in_iterations`.
    pub(crate) fn set_most_skipped(&mut self, entries: u64) {
        self.options.max_sequential_skip_in_iterations = entries;
    }

    /// Sets the bounds. The caller positions the cursor next.
    pub(crate) fn set_bounds(&mut self, lower: Option<&[u8]>, upper: Option<&[u8]>) {
        self.forget_place();
        self.options.set_bounds(lower, upper);
        self.iter.set_upper_bound(upper);
    }

    /// Whether the cursor is at an entry.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.valid
    }

    /// The error that made the cursor invalid, if there was one.
    /// # Errors
    /// `Corruption` and `IoError` of the files · `Incomplete` if I/O was forbidden or
    /// `max_skippable_internal_keys` reached · errors of blob files and of
    /// [`crate::merge::operands::merge_columns`].
    pub(crate) fn status(&self) -> Result<()> {
        self.status.clone()
    }

    /// The user key here. REQUIRES: `valid()`.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        debug_assert!(self.valid, "REQUIRES: valid()");
        if matches!(self.value, Value::Run) { self.run.user_key() } else { &self.key }
    }

    /// The value here. REQUIRES: `valid()`.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        debug_assert!(self.valid, "REQUIRES: valid()");
        if matches!(self.value, Value::Run) { self.run.value() } else { self.value_elsewhere() }
    }

    /// The value, if it is not in the run.
    fn value_elsewhere(&self) -> &[u8] {
        match &self.value {
            Value::Inner => self.iter.value(),
            Value::InnerPart { start, end } => &self.iter.value()[*start..*end],
            Value::Left => self.left.value(&self.iter),
            Value::Run => self.run.value(),
            Value::Buffer => &self.buffer,
            Value::Entity { start, end } => &self.buffer[*start..*end],
            Value::Pinned(bytes) => bytes,
            Value::Unprepared => &[],
        }
    }

    /// The value here, which stays alive after the next move. REQUIRES: `valid()`.
    pub(crate) fn pinned_value(&self) -> PinnedBytes {
        debug_assert!(self.valid, "REQUIRES: valid()");
        match &self.value {
            Value::Inner => self.iter.pinned_value(),
            Value::InnerPart { start, end } => self.iter.pinned_value().slice(*start..*end),
            Value::Left => self.left.pinned(&self.iter),
            Value::Run => self.run.pinned_value(),
            Value::Buffer => PinnedBytes::copy_from(&self.buffer),
            Value::Entity { start, end } => PinnedBytes::copy_from(&self.buffer[*start..*end]),
            Value::Pinned(bytes) => bytes.clone(),
            Value::Unprepared => PinnedBytes::empty(),
        }
    }

    /// Name and value of each column here, by name: of an entity all, of a plain value one without
    /// a name. REQUIRES: `valid()`.
    pub(crate) fn columns(&self) -> Vec<(&[u8], &[u8])> {
        self.shown_columns(self.value())
    }

    /// The sequence number at which the cursor reads.
    pub(crate) fn sequence(&self) -> SequenceNumber {
        self.options.sequence
    }

    /// Counts of the cursor's work so far.
    pub(crate) fn counters(&self) -> &DbIterCounters {
        &self.counters
    }

    /// Moves to the first key.
    pub(crate) fn seek_to_first(&mut self) {
        self.begin(true);
        match &self.options.lower_bound {
            Some(lower) => {
                self.key.extend_from_slice(lower);
                self.aim(self.options.sequence, ValueType::SEEK);
                self.iter.seek(&self.target);
            }
            None => self.iter.seek_to_first(),
        }
        self.find_next(false, false);
        self.adopt_prefix();
        self.end_seek();
    }

    /// Moves to the last key.
    pub(crate) fn seek_to_last(&mut self) {
        self.begin(false);
        if self.options.upper_bound.is_some() {
            self.seek_before_upper_bound();
        } else {
            self.iter.seek_to_last();
        }
        self.find_prev();
        self.adopt_prefix();
        self.end_seek();
    }

    /// Moves to the first key at or after `target`.
    pub(crate) fn seek(&mut self, target: &[u8]) {
        self.begin(true);
        self.want_prefix_of(target);
        let lower = self.options.lower_bound.as_deref();
        let from = lower.filter(|l| self.icmp.compare_user_keys(l, target).is_gt()).unwrap_or(target);
        self.target.clear();
        append_internal_key(&mut self.target, from, self.options.sequence, ValueType::SEEK);
        set(&mut self.key, from);
        self.iter.seek(&self.target);
        self.find_next(false, false);
        self.end_seek();
    }

    /// Moves to the last key at or before `target`.
    pub(crate) fn seek_for_prev(&mut self, target: &[u8]) {
        self.begin(false);
        self.want_prefix_of(target);
        let upper = self.options.upper_bound.as_deref();
        if upper.is_some_and(|u| self.icmp.compare_user_keys(target, u).is_ge()) {
            self.seek_before_upper_bound();
        } else {
            self.target.clear();
            append_internal_key(&mut self.target, target, SequenceNumber::ZERO, ValueType::Deletion);
            set(&mut self.key, target);
            self.iter.seek_for_prev(&self.target);
        }
        self.find_prev();
        self.end_seek();
    }

    /// Moves to the next key. Does nothing if the cursor is not valid.
    #[inline]
    pub(crate) fn next(&mut self) {
        if self.next_in_run() || !self.valid {
            return;
        }
        self.next_of_inner();
        self.counters.nexts += 1;
        if self.valid {
            self.counters.nexts_found += 1;
            self.count_bytes();
        }
    }

    /// Moves to the next key if `run` has it already. Otherwise does not move, and returns false.
    #[inline]
    pub(crate) fn next_in_run(&mut self) -> bool {
        if !(self.forward && self.run.step_on()) {
            return false;
        }
        debug_assert!(self.valid, "invariant 1 of `run`");
        self.counters.nexts += 1;
        self.counters.nexts_found += 1;
        self.count_bytes();
        true
    }

    /// Moves to the previous key. Does nothing if the cursor is not valid.
    #[inline]
    pub(crate) fn prev(&mut self) {
        if self.prev_in_run() || !self.valid {
            return;
        }
        self.prev_of_inner();
        self.counters.prevs += 1;
        if self.valid {
            self.counters.prevs_found += 1;
            self.count_bytes();
        }
    }

    /// [`DbIter::next_in_run`] backward.
    #[inline]
    pub(crate) fn prev_in_run(&mut self) -> bool {
        if self.forward || !self.run.step_back() {
            return false;
        }
        debug_assert!(self.valid, "invariant 1 of `run`");
        self.counters.prevs += 1;
        self.counters.prevs_found += 1;
        self.count_bytes();
        true
    }

    #[inline]
    fn count_bytes(&mut self) {
        if self.options.statistics.is_some() {
            self.counters.bytes_read += (self.key().len() + self.value().len()) as u64;
        }
    }

    fn begin(&mut self, forward: bool) {
        self.end_run();
        self.run.begin();
        self.eagerness.begin();
        self.valid = false;
        self.forward = forward;
        self.merged = false;
        self.ahead = None;
        self.status = Ok(());
        if self.prefix.take().is_some() {
            self.iter.set_wanted_prefix_of(None);
        }
        self.key.clear();
        self.begin_call();
        self.deleted_run.begin_seek();
    }

    /// Resets the counts of one call.
    #[inline]
    fn begin_call(&mut self) {
        if self.skipped_in_call > 0 {
            self.skipped_in_call = 0;
            self.deleted_run.begin();
            self.begin_pre_scan();
        }
    }

    fn end_seek(&mut self) {
        self.counters.seeks += 1;
        if self.valid {
            self.counters.seeks_found += 1;
            self.count_bytes();
        }
    }

    /// Stays within the prefix of a seek's target, and lets the inner cursor skip files without
    /// that prefix.
    fn want_prefix_of(&mut self, target: &[u8]) {
        self.prefix = self.options.prefix_to_stay_in(target);
        if self.prefix.is_some() && self.options.asks_prefix_filters {
            self.iter.set_wanted_prefix_of(Some(target));
        }
    }

    /// After a move to an end: the prefix found there becomes the prefix to stay in.
    fn adopt_prefix(&mut self) {
        if self.valid {
            self.prefix = self.options.prefix_to_stay_in(&self.key);
        }
    }

    /// Sets `target` to the current user key with this sequence number and type.
    fn aim(&mut self, sequence: SequenceNumber, value_type: ValueType) {
        self.target.clear();
        append_internal_key(&mut self.target, &self.key, sequence, value_type);
    }

    fn seek_before_upper_bound(&mut self) {
        let upper = self.options.upper_bound.as_deref().expect("the caller checked that there is a bound");
        self.target.clear();
        append_internal_key(&mut self.target, upper, SequenceNumber::MAX, ValueType::SEEK);
        set(&mut self.key, upper);
        self.iter.seek_for_prev(&self.target);
    }

    fn turn_forward(&mut self) {
        self.forward = true;
        self.ahead = None;
        self.aim(SequenceNumber::ZERO, ValueType::Deletion);
        self.iter.seek(&self.target);
    }

    #[cold]
    pub(crate) fn fail(&mut self, error: Error) {
        if error.subcode() == SubCode::MergeOperatorFailed
            && let Some(statistics) = &self.options.statistics
        {
            statistics.record_tick(Ticker::NumberMergeFailures, 1);
        }
        self.valid = false;
        self.status = Err(error);
    }

    /// Becomes invalid because the inner cursor has no further entry, and gets that cursor's error.
    fn run_out(&mut self) {
        self.valid = false;
        if let Err(error) = self.iter.status() {
            self.status = Err(error);
        }
    }

    /// Counts a hidden entry. Returns false if this call has passed too many.
    #[inline]
    fn may_skip(&mut self) -> bool {
        self.counters.skipped += 1;
        self.skipped_in_call += 1;
        let max = self.options.max_skippable_internal_keys;
        max == 0 || self.skipped_in_call <= max || self.may_go_on()
    }

    /// Called after this call has passed more than `max_skippable_internal_keys` entries: a
    /// pre-scan may continue, any other scan fails.
    #[cold]
    fn may_go_on(&mut self) -> bool {
        if self.pre_scan.is_some() {
            return self.ask_pre_scan();
        }
        self.fail(Error::incomplete("Too many internal keys skipped."));
        false
    }

    /// Moves forward to the first visible key, from the inner cursor's position or, with `step`,
    /// from its next entry. `passing`: entries of `key` are skipped.
    #[inline]
    fn find_next(&mut self, passing: bool, step: bool) {
        self.look_forward(passing, step);
        if self.deleted_run.keys >= self.deleted_run.min_keys {
            self.remember_forward();
        }
    }

    #[inline]
    fn look_forward(&mut self, mut passing: bool, step: bool) {
        let mut run = 0; // entries in a row of the user key `key` that were passed over
        self.merged = false;
        let mut at = if step { self.iter.next_key() } else { self.iter.valid().then(|| self.iter.key()) };
        while let Some(internal_key) = at {
            let entry = match ParsedInternalKey::parse(internal_key) {
                Ok(entry) => entry,
                Err(error) => return self.fail(error),
            };
            if is_beyond(&self.icmp, &self.options, self.prefix.as_deref(), entry.user_key) {
                self.valid = false;
                return;
            }
            if entry.sequence > self.options.sequence {
                perf_count!(internal_recent_skipped_count);
                if self.icmp.same_user_key(entry.user_key, &self.key) {
                    run += 1;
                } else {
                    set(&mut self.key, entry.user_key);
                    passing = false;
                    run = 0;
                }
            } else if passing && self.icmp.same_user_key(entry.user_key, &self.key) {
                perf_count!(internal_key_skipped_count);
                run += 1;
            } else if entry.value_type == ValueType::Value {
                set(&mut self.key, entry.user_key);
                self.value = Value::Inner;
                self.valid = true;
                return;
            } else {
                let value_type = entry.value_type;
                if value_type.is_point_deletion() {
                    if self.deleted_run.keys == 0 {
                        self.begin_run_forward();
                    }
                    self.deleted_run.keys += 1;
                }
                set(&mut self.key, key::user_key(self.iter.key()));
                run = 0;
                match value_type {
                    value_type if value_type.is_point_deletion() => {
                        perf_count!(internal_delete_skipped_count);
                        passing = true;
                    }
                    ValueType::Merge => return self.merge_forward(),
                    value_type => return self.show_unusual(value_type),
                }
            }
            if !self.may_skip() {
                return;
            }
            at = if self.skipped_in_call >= self.deleted_run.skip_at && self.skip_deleted_run() {
                run = 0;
                self.iter.valid().then(|| self.iter.key())
            } else if run > self.options.max_sequential_skip_in_iterations {
                run = 0;
                self.reseek_forward(passing);
                self.iter.valid().then(|| self.iter.key())
            } else {
                self.iter.next_key()
            };
        }
        self.run_out();
    }

    /// Seeks past all entries of `key` (`passing`), or past entries that are too new.
    #[cold]
    fn reseek_forward(&mut self, passing: bool) {
        self.counters.reseeks += 1;
        if !passing {
            self.aim(self.options.sequence, ValueType::SEEK);
            return self.iter.seek(&self.target);
        }
        self.aim(SequenceNumber::ZERO, ValueType::Deletion);
        self.iter.seek(&self.target);
        // A deletion in an ingested file has number 0: the seek stops at it again.
        while self.iter.valid() && self.is_current(self.iter.key()) {
            self.iter.next();
        }
    }

    /// Shows the inner cursor's entry, of a rarer type.
    #[cold]
    fn show_unusual(&mut self, value_type: ValueType) {
        match self.show_stored(value_type) {
            Ok(()) => self.valid = true,
            Err(error) => self.fail(error),
        }
    }

    /// Merges from the newest operand, the present entry of the inner cursor.
    #[cold]
    fn merge_forward(&mut self) {
        self.merged = true;
        self.operands.clear();
        let merged = loop {
            self.operands.push(self.iter.value());
            self.iter.next();
            if !self.iter.valid() {
                if let Err(error) = self.iter.status() {
                    return self.fail(error);
                }
                break self.show_merged(None, NEWEST_FIRST);
            }
            let entry = match ParsedInternalKey::parse(self.iter.key()) {
                Ok(entry) => entry,
                Err(error) => return self.fail(error),
            };
            if !self.icmp.same_user_key(entry.user_key, &self.key) {
                break self.show_merged(None, NEWEST_FIRST);
            }
            match entry.value_type {
                ValueType::Merge => {}
                value_type if value_type.is_point_deletion() => break self.show_merged(None, NEWEST_FIRST),
                value_type => {
                    break self
                        .show_stored(value_type)
                        .and_then(|()| self.show_merged(Some(value_type), NEWEST_FIRST));
                }
            }
        };
        match merged {
            Ok(()) => self.valid = true,
            Err(error) => self.fail(error),
        }
    }
}

#[inline]
fn set(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.clear();
    buffer.extend_from_slice(bytes);
}

/// Whether a forward scan ends at this key.
#[inline]
fn is_beyond(
    icmp: &InternalKeyComparator,
    options: &DbIterOptions,
    prefix: Option<&[u8]>,
    user_key: &[u8],
) -> bool {
    options.upper_bound.as_ref().is_some_and(|upper| icmp.compare_user_keys(user_key, upper).is_ge())
        || options.leaves(prefix, user_key)
}

#[cfg(test)]
mod tests;
