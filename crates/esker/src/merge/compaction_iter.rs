//! The entries that a flush or compaction writes.
//!
//! In: all entries of the inputs in internal-key order, the live snapshots, the inputs' range
//! tombstones. Out: the entries that a reader may still need, in the same order.
//! Source: RocksDB `db/compaction/compaction_iterator.h`.
//!
//! Snapshots cut the versions of a user key into *stripes* (see
//! [`super::range_del::RangeDelAggregator`]). Readers see only the newest version of each stripe,
//! its *head*. From newest to oldest:
//!  - a head is kept, unless a tombstone of its stripe hides it; then its whole stripe is hidden;
//!  - entries behind a head are dropped; single deletions stay until they meet their own value;
//!  - a deletion in the oldest stripe is dropped if no deeper level can hold the key;
//!  - at the bottommost level, a deletion is dropped if no entry of an older stripe follows and no
//!    transaction may check the key for conflicts. Otherwise a single deletion of its stripe stays
//!    if its value lies in an older stripe;
//!  - a single deletion and the next older entry are both dropped if that is a value of the same
//!    stripe, and all snapshots that see the deletion see the value;
//!  - merge operands of a stripe are combined with each other. The value below them takes part if
//!    it is in the same stripe. If there surely is none, the result is a value;
//!  - two entries with one sequence number and type count once: a repair may find an entry twice;
//!  - at the bottommost level, sequence numbers that all snapshots see become zero;
//!  - entries of transactions that are prepared and not resolved stay, with their numbers, and hide
//!    nothing;
//!  - an entry of a resolved transaction is in the stripe of its commit. The next newer entry that
//!    is no operand may be in an older stripe: a save point gave the key back, and another wrote it
//!    before the commit. Then the older entry is in that stripe, too.
//!
//! Invariants
//!  1. While an output is shown, the input is at the output's entry (`Source::Input`,
//!     `Source::Changed`) or behind all entries that the output has used.
//!  2. `closed` is the stripe of the current user key whose head has been processed.

mod blobs;
mod entity;
mod history;
mod merge;
mod options;
mod stats;
pub(crate) mod timed;

pub(crate) use blobs::BlobTally;
pub(crate) use history::clipped;
use history::{KeyHistory, is_carried_through};
pub(crate) use options::{CompactionIteratorOptions, KeyNotExistsBeyond};
pub(crate) use stats::CompactionIteratorStats;

use super::MergeOperands;
use super::range_del::stripe;
use crate::compaction_filter::FilterDecision;
use entity::LazyEntity;
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, Result, SequenceNumber, ValueType};
use esker_format::cursor::InternalIterator;
use esker_format::key::{self, InternalKeyComparator, ParsedInternalKey, append_internal_key, pack};
use esker_format::range_del::RangeTombstone;
use esker_format::wide_column::serialize;
use std::fmt;

/// The location of the output's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// No output.
    None,
    /// The input's value; the next step must move the input.
    Input,
    /// The output is in `changed`; the next step must move the input.
    Changed,
    /// The value is empty; the input has moved already.
    Empty,
    /// Output i of `queue`; the input has moved already.
    Queue(usize),
}

/// Outputs that were computed and not read from the input.
#[derive(Debug, Default)]
struct Queue {
    /// Packed sequence number and type, and the value's end in `bytes`; newest first.
    entries: Vec<(u64, usize)>,
    bytes: Vec<u8>,
}

impl Queue {
    fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
    }
    fn push(&mut self, sequence: SequenceNumber, value_type: ValueType, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.entries.push((pack(sequence, value_type), self.bytes.len()));
    }
    fn value(&self, i: usize) -> &[u8] {
        let start = i.checked_sub(1).map_or(0, |before| self.entries[before].1);
        &self.bytes[start..self.entries[i].1]
    }
}

/// Stands for the stripe of entries whose transaction is prepared and not resolved. They are kept
/// as they are, and hide no older entry.
const NOT_RESOLVED: usize = usize::MAX;

/// The first version of a stripe.
#[derive(Clone, Copy, Debug)]
struct Head {
    sequence: SequenceNumber,
    value_type: ValueType,
    stripe: usize,
}

/// The cursor over the entries to write. Forward only.
pub(crate) struct CompactionIterator<I = Box<dyn InternalIterator>> {
    icmp: InternalKeyComparator,
    input: I,
    options: CompactionIteratorOptions,
    /// The current user key, if `has_user_key`.
    user_key: Vec<u8>,
    has_user_key: bool,
    /// The state of `keep_history`.
    history: KeyHistory,
    closed: Option<usize>,
    /// The oldest stripe of the current user key's entries so far, without operands, which hide
    /// nothing; [`NOT_RESOLVED`] before the first.
    oldest_stripe: usize,
    /// Sequence number and type of the last used entry, if it has this user key.
    last_used: Option<u64>,
    /// Whether an entry of this user key was output.
    shown: bool,
    /// Whether the next entry is the value of a single deletion that is kept for transactions: it
    /// is output without its bytes.
    clear_next: bool,
    /// After `RemoveAndSkipUntil`: entries that no snapshot sees are dropped before this user key.
    skip_until: Option<Vec<u8>>,
    key: Vec<u8>,
    source: Source,
    is_first_of_user_key: bool,
    changed: Vec<u8>,
    queue: Queue,
    operands: MergeOperands,
    operand_sequences: Vec<SequenceNumber>,
    stats: CompactionIteratorStats,
    /// Counts of the entries before the current user key; `None` if nobody asks for them.
    before_key: Option<Box<CompactionIteratorStats>>,
    /// References to blob files by the entries read so far.
    blobs_in: BlobTally,
    status: Result<()>,
}

impl<I> fmt::Debug for CompactionIterator<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactionIterator")
            .field("options", &self.options)
            .field("source", &self.source)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl<I: InternalIterator> CompactionIterator<I> {
    /// A cursor over `input`, which includes entries that tombstones hide. Not valid until
    /// [`seek_to_first`](Self::seek_to_first).
    pub(crate) fn new(
        icmp: InternalKeyComparator,
        input: I,
        options: CompactionIteratorOptions,
    ) -> CompactionIterator<I> {
        debug_assert!(options.snapshots.is_sorted(), "snapshots come in order");
        debug_assert_eq!(options.snapshots, options.range_dels.snapshots(), "snapshots agree");
        CompactionIterator {
            icmp,
            input,
            options,
            user_key: Vec::new(),
            has_user_key: false,
            history: KeyHistory::default(),
            closed: None,
            oldest_stripe: NOT_RESOLVED,
            last_used: None,
            shown: false,
            clear_next: false,
            skip_until: None,
            key: Vec::new(),
            source: Source::None,
            is_first_of_user_key: false,
            changed: Vec::new(),
            queue: Queue::default(),
            operands: MergeOperands::new(),
            operand_sequences: Vec::new(),
            stats: CompactionIteratorStats::default(),
            before_key: None,
            blobs_in: BlobTally::default(),
            status: Ok(()),
        }
    }

    /// Positions the input at the lower bound and shows the first output. Call once.
    pub(crate) fn seek_to_first(&mut self) {
        match &self.options.lower_bound {
            Some(lower) => self.input.seek(&key::seek_key(lower, SequenceNumber::MAX)),
            None => self.input.seek_to_first(),
        }
        self.find_output();
    }

    /// Whether there is a current output.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.source != Source::None
    }

    /// The error that ended the cursor, if there is one.
    /// # Errors
    /// Errors of the inputs · `Corruption` for malformed entries · `ShutdownInProgress` if it was
    /// cancelled. The outputs so far must then not be installed.
    pub(crate) fn status(&self) -> Result<()> {
        self.status.clone()
    }

    /// The internal key to write. REQUIRES: `valid()`.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The output's user key. REQUIRES: `valid()`.
    #[inline]
    pub(crate) fn user_key(&self) -> &[u8] {
        key::user_key(&self.key)
    }

    /// The value to write. REQUIRES: `valid()`.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match self.source {
            Source::Input => self.input.value(),
            Source::Changed => &self.changed,
            Source::Queue(i) => self.queue.value(i),
            Source::Empty | Source::None => &[],
        }
    }

    /// Whether this is the first output of its user key: a file may end only before a first output.
    #[inline]
    pub(crate) fn is_first_of_user_key(&self) -> bool {
        self.is_first_of_user_key
    }

    /// Counts of the entries so far.
    pub(crate) fn stats(&self) -> &CompactionIteratorStats {
        &self.stats
    }

    /// Keeps the counts at the beginning of each user key, for [`Self::stats_before_key`].
    pub(crate) fn mark_keys(&mut self) {
        self.before_key = Some(Box::default());
    }

    /// Counts of the entries before the current user key. `None`: the counts are not kept, or a
    /// decision of the filter before this key also concerns it, so no other cursor can begin here.
    pub(crate) fn stats_before_key(&self) -> Option<&CompactionIteratorStats> {
        self.before_key.as_deref().filter(|_| self.skip_until.is_none())
    }

    /// References to blob files by the entries read so far.
    pub(crate) fn blobs_in(&self) -> &BlobTally {
        &self.blobs_in
    }

    /// The range tombstones of an output file for user keys `[lower, upper)`; `None`: without
    /// end in this (sub)compaction. See [`RangeDelAggregator::tombstones_for_output`].
    pub(crate) fn tombstones_for_output(
        &mut self,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
    ) -> Vec<RangeTombstone> {
        let lower = lower.or(self.options.lower_bound.as_deref());
        let upper = upper.or(self.options.upper_bound.as_deref());
        if self.options.keep_history {
            let stored = self.options.stored_tombstones.iter();
            return stored.filter_map(|t| clipped(t, &self.icmp, lower, upper)).collect();
        }
        self.options.range_dels.tombstones_for_output(lower, upper, self.options.bottommost)
    }

    /// Shows the next output. REQUIRES: `valid()`.
    #[inline]
    pub(crate) fn next(&mut self) {
        match self.source {
            Source::Input | Source::Changed => self.consume(),
            Source::Queue(i) if i + 1 < self.queue.entries.len() => return self.show_queued(i + 1),
            _ => {}
        }
        self.find_output();
    }

    /// Processes entries until there is an output, or until the input ends.
    fn find_output(&mut self) {
        self.source = Source::None;
        while self.source == Source::None && self.input.valid() {
            match self.step() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    self.source = Source::None;
                    self.status = Err(error);
                    return;
                }
            }
        }
        if self.source == Source::None {
            self.status = self.input.status();
        } else if let Err(error) = self.check_lookahead() {
            self.source = Source::None;
            self.status = Err(error);
        }
    }

    /// Drops an output that relied on the input's end if the input has ended by an error.
    fn check_lookahead(&self) -> Result<()> {
        match self.source {
            Source::Empty | Source::Queue(_) if !self.input.valid() => self.input.status(),
            _ => Ok(()),
        }
    }

    /// Moves the input, and counts the entry that it leaves.
    #[inline]
    fn consume(&mut self) {
        // A damaged entity or blob index is kept unchanged; a later read reports it.
        let key = self.input.key();
        let packed = key::trailer(key);
        self.stats.records_in += 1;
        self.stats.key_bytes_in += key.len() as u64;
        self.stats.value_bytes_in += self.input.value().len() as u64;
        let value_type = ValueType::from_u8((packed & 0xFF) as u8);
        self.stats.deletions_in += u64::from(value_type.is_some_and(ValueType::is_point_deletion));
        if let Some(value_type @ (ValueType::BlobIndex | ValueType::WideColumnEntity)) = value_type {
            self.blobs_in.count(value_type, key::user_key(key), self.input.value()).unwrap_or_default();
        }
        self.last_used = Some(packed);
        self.input.next();
    }

    /// Processes the input's current entry. False at the upper bound.
    #[inline]
    fn step(&mut self) -> Result<bool> {
        if self.options.cancelled.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(Error::shutdown_in_progress("the compaction was cancelled"));
        }
        let entry = ParsedInternalKey::parse(self.input.key())?;
        let (sequence, value_type) = (entry.sequence, entry.value_type);
        if !self.has_user_key || !self.icmp.same_user_key(entry.user_key, &self.user_key) {
            if let Some(upper) = &self.options.upper_bound
                && self.icmp.compare_user_keys(entry.user_key, upper).is_ge()
            {
                return Ok(false);
            }
            self.user_key.clear();
            self.user_key.extend_from_slice(entry.user_key);
            self.has_user_key = true;
            self.closed = None;
            self.oldest_stripe = NOT_RESOLVED;
            self.last_used = None;
            self.shown = false;
            if let Some(before) = &mut self.before_key {
                **before = self.stats;
            }
        } else if self.is_there_twice(sequence, value_type) {
            self.stats.dropped_hidden += 1;
            self.consume();
            return Ok(true);
        }
        let stripe = self.stripe_in_key(sequence);
        if stripe == NOT_RESOLVED {
            self.show(sequence, value_type, Source::Input);
        } else {
            if value_type != ValueType::Merge {
                self.oldest_stripe = stripe;
            }
            self.deal_with(Head { sequence, value_type, stripe })?;
        }
        Ok(true)
    }

    fn deal_with(&mut self, head: Head) -> Result<()> {
        if self.clear_next {
            // This is the value of the single deletion that was just kept.
            self.clear_next = false;
            self.closed = Some(head.stripe);
            self.consume();
            self.show(head.sequence, ValueType::Value, Source::Empty);
            return Ok(());
        }
        if self.options.keep_history && self.is_trimmed(head) {
            return Ok(());
        }
        if self.options.keep_history && is_carried_through(head.value_type) {
            return self.carry_through(head);
        }
        let hidden = self.closed == Some(head.stripe);
        if hidden && head.value_type != ValueType::SingleDeletion {
            self.stats.dropped_hidden += 1;
            self.consume();
            return Ok(());
        }
        if self.is_skipped(head) {
            self.stats.dropped_by_filter += 1;
            self.consume();
            return Ok(());
        }
        self.closed = Some(head.stripe);
        if self.options.range_dels.should_delete(&self.user_key, head.sequence, head.stripe) {
            self.stats.dropped_range_del += 1;
            self.consume();
            return Ok(());
        }
        match head.value_type {
            ValueType::Value => self.filter_value(head)?,
            ValueType::BlobIndex => self.filter_blob(head)?,
            ValueType::ValuePreferredSeqno => self.settle_timed_value(head)?,
            ValueType::Deletion | ValueType::DeletionWithTimestamp => self.keep_deletion(head, false)?,
            ValueType::SingleDeletion => {
                self.consume();
                self.match_single_deletion(head, hidden)?;
            }
            ValueType::Merge => self.merge(head)?,
            ValueType::RangeDeletion => {
                return Err(Error::corruption(format!(
                    "a range tombstone lies among the point entries, at key '{}'",
                    self.user_key.escape_ascii()
                )));
            }
            ValueType::WideColumnEntity => self.filter_entity(head)?,
        }
        Ok(())
    }

    /// Outputs an entry of the current user key.
    fn show(&mut self, sequence: SequenceNumber, value_type: ValueType, source: Source) {
        let visible_to_all = self.stripe_of(sequence) == 0;
        let holds_value =
            matches!(value_type, ValueType::Value | ValueType::BlobIndex | ValueType::WideColumnEntity);
        let is_last = self.options.bottommost && sequence <= self.options.zero_up_to;
        let zeroed = is_last && visible_to_all && holds_value;
        let sequence = if zeroed { SequenceNumber::ZERO } else { sequence };
        self.key.clear();
        append_internal_key(&mut self.key, &self.user_key, sequence, value_type);
        self.source = source;
        self.is_first_of_user_key = !self.shown
            && (!self.options.keep_history || self.history.is_another_plain_key(&self.icmp, &self.user_key));
        self.shown = true;
        self.stats.records_out += 1;
        self.stats.older_out += u64::from(!self.is_first_of_user_key);
    }

    fn show_queued(&mut self, i: usize) {
        let (packed, _) = self.queue.entries[i];
        let value_type =
            ValueType::from_u8((packed & 0xFF) as u8).expect("the packed number has a valid type");
        self.show(SequenceNumber(packed >> 8), value_type, Source::Queue(i));
    }

    /// The stripe of an entry at `sequence`. Entries of a prepared transaction have the stripe of
    /// its commit.
    #[inline]
    fn stripe_of(&self, sequence: SequenceNumber) -> usize {
        match &self.options.prepared {
            None => stripe(&self.options.snapshots, sequence),
            Some(prepared) => match prepared.visible_from(sequence) {
                SequenceNumber::MAX => NOT_RESOLVED,
                seen_from => stripe(&self.options.snapshots, seen_from),
            },
        }
    }

    /// The stripe of the input's entry at `sequence`. It is never newer than that of a newer value
    /// or deletion of the key, which hides the entry from all snapshots of newer stripes.
    #[inline]
    fn stripe_in_key(&self, sequence: SequenceNumber) -> usize {
        match self.stripe_of(sequence) {
            NOT_RESOLVED => NOT_RESOLVED,
            stripe => stripe.min(self.oldest_stripe),
        }
    }

    /// Whether no snapshot sees this stripe.
    fn is_tip(&self, stripe: usize) -> bool {
        stripe == self.options.snapshots.len()
    }

    /// The stripe and type of the input's entry, if it belongs to the current user key.
    fn peek(&self) -> Result<Option<Head>> {
        if !self.input.valid() {
            // After an error the rest of the input is unknown.
            return self.input.status().map(|()| None);
        }
        let entry = ParsedInternalKey::parse(self.input.key())?;
        Ok(self.icmp.same_user_key(entry.user_key, &self.user_key).then(|| Head {
            sequence: entry.sequence,
            value_type: entry.value_type,
            stripe: self.stripe_in_key(entry.sequence),
        }))
    }

    /// Whether the input's entry repeats the last one of the current user key. Sequence number 0
    /// proves no repetition: many entries get it.
    fn is_there_twice(&self, sequence: SequenceNumber, value_type: ValueType) -> bool {
        self.last_used == Some(pack(sequence, value_type)) && sequence > SequenceNumber::ZERO
    }

    /// `peek` after skipping repeated entries.
    fn peek_behind_twins(&mut self) -> Result<Option<Head>> {
        loop {
            match self.peek()? {
                Some(next) if self.is_there_twice(next.sequence, next.value_type) => {
                    self.stats.dropped_hidden += 1;
                    self.consume();
                }
                next => return Ok(next),
            }
        }
    }

    fn nothing_beyond(&mut self) -> bool {
        self.options.bottommost || (self.options.key_not_exists_beyond_output_level)(&self.user_key)
    }

    /// Whether the filter, if there is one, judges this version.
    fn is_judged(&self, head: Head) -> bool {
        self.options.compaction_filter.is_some()
            && (self.is_tip(head.stripe) || (self.options.filter_ignores_snapshots && !self.shown))
    }

    fn filter_value(&mut self, head: Head) -> Result<()> {
        let decision = match self.options.compaction_filter.as_ref().filter(|_| self.is_judged(head)) {
            Some(filter) => filter.filter(self.options.filter_level, &self.user_key, self.input.value()),
            None => FilterDecision::Keep,
        };
        self.carry_out(head, decision)
    }

    /// Outputs a value in a blob file; fetches it if the filter judges it.
    fn filter_blob(&mut self, head: Head) -> Result<()> {
        let decision = match (&self.options.compaction_filter, &self.options.blobs) {
            (Some(filter), Some(blobs)) if self.is_judged(head) => {
                let level = self.options.filter_level;
                match filter.filter_blob_by_key(level, &self.user_key) {
                    Some(decision) => decision,
                    None => {
                        let value = blobs.reads().value(&self.user_key, self.input.value())?;
                        filter.filter(level, &self.user_key, &value)
                    }
                }
            }
            _ => FilterDecision::Keep,
        };
        self.carry_out(head, decision)
    }

    fn carry_out(&mut self, head: Head, decision: FilterDecision) -> Result<()> {
        match decision {
            FilterDecision::Keep => self.show(head.sequence, head.value_type, Source::Input),
            FilterDecision::ChangeValue(value) => {
                self.changed = value;
                self.show(head.sequence, ValueType::Value, Source::Changed);
            }
            FilterDecision::ChangeEntity(columns) => {
                let columns: Vec<(&[u8], &[u8])> =
                    columns.iter().map(|(name, value)| (&**name, &**value)).collect();
                self.changed.clear();
                serialize(&columns, &mut self.changed)?;
                self.show(head.sequence, ValueType::WideColumnEntity, Source::Changed);
            }
            FilterDecision::Remove => {
                self.stats.dropped_by_filter += 1;
                self.consume();
                if self.options.keep_history {
                    self.delete_version(head, ValueType::DeletionWithTimestamp);
                    return Ok(());
                }
                return self.keep_deletion(head, true);
            }
            FilterDecision::Purge => {
                self.stats.dropped_by_filter += 1;
                self.stats.may_reappear += 1;
                self.consume();
                if self.options.keep_history {
                    self.delete_version(head, ValueType::SingleDeletion);
                    return Ok(());
                }
                return self.match_single_deletion(head, false);
            }
            FilterDecision::RemoveAndSkipUntil(target) => self.remove_and_skip(head, target),
        }
        Ok(())
    }

    /// Outputs an entity, as the filter decides.
    fn filter_entity(&mut self, head: Head) -> Result<()> {
        let decision = match self.options.compaction_filter.as_ref().filter(|_| self.is_judged(head)) {
            Some(filter) => {
                let blobs = self.options.blobs.as_ref();
                let mut columns = LazyEntity::new(&self.user_key, self.input.value(), blobs);
                let decision = filter.filter_entity(self.options.filter_level, &self.user_key, &mut columns);
                columns.into_error().map_or(Ok(decision), Err)?
            }
            None => FilterDecision::Keep,
        };
        match decision {
            FilterDecision::Keep => self.keep_entity(head),
            decision => self.carry_out(head, decision),
        }
    }

    /// Outputs an entity; with `whole_entities`, fetches its columns from blob files.
    fn keep_entity(&mut self, head: Head) -> Result<()> {
        let blobs = self.options.blobs.as_ref().filter(|_| self.options.whole_entities);
        let whole = match blobs {
            Some(blobs) => blobs.reads().whole_entity(&self.user_key, self.input.value())?,
            None => None,
        };
        let source = match whole {
            Some(whole) => {
                self.changed = whole;
                Source::Changed
            }
            None => Source::Input,
        };
        self.show(head.sequence, head.value_type, source);
        Ok(())
    }

    /// Drops entries that no snapshot sees, up to `target`. Older versions may reappear.
    fn remove_and_skip(&mut self, head: Head, target: Vec<u8>) {
        if self.icmp.compare_user_keys(&target, &self.user_key).is_le() {
            return self.show(head.sequence, head.value_type, Source::Input);
        }
        self.stats.dropped_by_filter += 1;
        self.stats.may_reappear += 1;
        self.consume();
        let needs_none = self.options.snapshots.is_empty() || self.options.filter_ignores_snapshots;
        if needs_none && self.options.prepared.is_none() && !self.options.counts_blobs {
            let is_behind = |key: &[u8]| self.icmp.compare_user_keys(key::user_key(key), &target).is_ge();
            if self.input.valid() && !is_behind(self.input.key()) {
                self.input.seek(&key::seek_key(&target, SequenceNumber::MAX));
            }
        } else {
            self.skip_until = Some(target);
        }
    }

    fn is_skipped(&mut self, head: Head) -> bool {
        let Some(until) = &self.skip_until else { return false };
        if self.icmp.compare_user_keys(&self.user_key, until).is_ge() {
            self.skip_until = None;
            return false;
        }
        self.is_tip(head.stripe)
    }

    /// Keeps or drops a deletion that heads its stripe. `consumed`: the input has left it already.
    fn keep_deletion(&mut self, head: Head, consumed: bool) -> Result<()> {
        if head.stripe == 0 && self.nothing_beyond() {
            self.drop_obsolete();
            if !consumed {
                self.consume();
            }
            return Ok(());
        }
        if !self.options.bottommost {
            let source = if consumed { Source::Empty } else { Source::Input };
            self.show(head.sequence, ValueType::Deletion, source);
            return Ok(());
        }
        if !consumed {
            self.consume();
        }
        // The deletion is needed only for versions that older snapshots see.
        let (older, single) = self.drop_stripe(head)?;
        match (older, single) {
            (Some(_), Some(single)) => {
                self.queue.clear();
                self.queue.push(head.sequence, ValueType::Deletion, &[]);
                self.queue.push(single.sequence, ValueType::SingleDeletion, &[]);
                self.stats.dropped_hidden -= 1;
                self.show_queued(0);
            }
            (None, _) if self.may_annihilate(head.sequence) => self.stats.dropped_obsolete += 1,
            _ => self.show(head.sequence, ValueType::Deletion, Source::Empty),
        }
        Ok(())
    }

    /// Drops the rest of a deletion's stripe. Returns the next older entry, and the single deletion
    /// that waits for it: a newer value may take the deletion's place, and then go by a single
    /// deletion of its own.
    fn drop_stripe(&mut self, head: Head) -> Result<(Option<Head>, Option<Head>)> {
        let mut single: Option<Head> = None;
        loop {
            let next = match self.peek()? {
                Some(next) if next.stripe == head.stripe => next,
                older => return Ok((older, single)),
            };
            if next.value_type == ValueType::SingleDeletion {
                single = Some(next);
            } else if single.is_some_and(|single| self.are_seen_together(single, next)) {
                single = None;
            }
            self.stats.dropped_hidden += 1;
            self.consume();
        }
    }

    fn drop_obsolete(&mut self) {
        self.stats.dropped_obsolete += 1;
        self.stats.optimized_deletions += u64::from(!self.options.bottommost);
    }

    /// Matches a single deletion, which the input has left, with the next entry. `hidden`: a newer
    /// version heads its stripe.
    fn match_single_deletion(&mut self, head: Head, hidden: bool) -> Result<()> {
        let next = self.peek_behind_twins()?;
        let is_seen_with = |next: &Head| self.are_seen_together(head, *next);
        match next.filter(is_seen_with).map(|next| next.value_type) {
            Some(older @ (ValueType::SingleDeletion | ValueType::Deletion)) => {
                // The older deletion hides every value that this one could delete.
                self.stats.dropped_obsolete += 1;
                self.stats.single_deletion_mismatches += u64::from(older == ValueType::Deletion);
                if !hidden {
                    self.closed = None;
                }
            }
            Some(ValueType::Merge) => {
                // There were several writes, and only a deletion surely hides them all.
                self.stats.single_deletion_mismatches += 1;
                return self.keep_deletion(head, true);
            }
            Some(_) if self.may_annihilate(head.sequence) => {
                self.stats.dropped_obsolete += 1;
                self.stats.dropped_hidden += 1;
                self.consume();
            }
            Some(_) => {
                self.clear_next = true;
                self.show(head.sequence, ValueType::SingleDeletion, Source::Empty);
            }
            None if head.stripe == 0 && self.nothing_beyond() => self.drop_obsolete(),
            None if self.options.bottommost && next.is_none() && self.may_annihilate(head.sequence) => {
                self.stats.dropped_obsolete += 1;
            }
            None => self.show(head.sequence, ValueType::SingleDeletion, Source::Empty),
        }
        Ok(())
    }

    /// Whether a single deletion and the next older entry belong together. A snapshot may see the
    /// deletion, and not an entry whose transaction ended later: for that snapshot they do not.
    fn are_seen_together(&self, single: Head, older: Head) -> bool {
        older.stripe == single.stripe && self.stripe_of(older.sequence) <= self.stripe_of(single.sequence)
    }

    /// Whether no transaction needs a deletion in a conflict check, so that it may be dropped.
    fn may_annihilate(&self, sequence: SequenceNumber) -> bool {
        if self.options.prepared.is_some() && self.stripe_of(sequence) > 0 {
            return self.shown;
        }
        let conflict = self.options.earliest_write_conflict_snapshot;
        let oldest = self.options.snapshots.first().copied();
        self.shown
            || sequence <= conflict
            || oldest.is_some_and(|oldest| oldest < conflict && sequence <= oldest)
    }
}

#[cfg(test)]
mod tests;
