//! The state of a point read: a value, a deletion, or operands that still need a base.
//!
//! In: entries of one user key, newest first, from the memtables and then from the files. Out: the
//! answer.
//!
//! Invariants
//!  1. Entries arrive in descending sequence; nothing after a value or deletion changes the answer.
//!  2. An entry older than the newest visible range tombstone over the key counts as a deletion.
//!     Tombstones of memtables are searched at the first entry that one of them may cover
//!     (`resolve_cover`): a search that meets no such entry does without.
//!  3. Nothing is merged and no blob file is read before `finish`: entries may be shown under a
//!     guard.

use crate::cf::SuperVersion;
use crate::merge::operands::{
    MergedValue, StoredBase, full_merge, merge_columns, merges_columns, note_merged,
};
use esker_base::merge_operator::MergeOperatorRef;
use esker_base::stats::{Histogram, Statistics};
use esker_base::{Error, PinnedBytes, Result, SequenceNumber, ValueType, perf_add};
use esker_format::key::LookupKey;
use esker_format::wide_column::stored::may_have_blobs;
use esker_format::wide_column::{self, DEFAULT_COLUMN_NAME};
use esker_table::blob::BlobReads;
use smallvec::SmallVec;

#[derive(Debug)]
enum State {
    /// No source has settled the answer yet.
    Searching,
    Found(PinnedBytes),
    /// An entity; plain reads return its default column.
    Entity(PinnedBytes),
    /// The blob index of the value.
    Blob(PinnedBytes),
    /// A value, which the caller has taken already: see `Saver::settles`.
    Taken,
    Deleted,
    /// The search continues elsewhere.
    Suspended,
    Failed(Error),
}

/// Collects the entries of one user key.
#[derive(Debug)]
pub(crate) struct Saver {
    /// The newest tombstone that covers the key and that the read may see.
    covering: SequenceNumber,
    /// A tombstone of a memtable may cover the key; none is newer than this. Zero if the memtables'
    /// tombstones are part of `covering`.
    may_cover: SequenceNumber,
    /// Newest first.
    operands: Vec<PinnedBytes>,
    state: State,
}

/// The parts needed to make an answer: merge operator, blob reader, key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerFinish<'a> {
    pub(crate) user_key: &'a [u8],
    pub(crate) merge_operator: Option<&'a MergeOperatorRef>,
    pub(crate) blobs: BlobReads<'a>,
    /// Whether the answer is a serialized entity with all its columns in place. A plain value
    /// becomes an entity of its default column.
    pub(crate) entity: bool,
    pub(crate) statistics: Option<&'a Statistics>,
}

impl Saver {
    /// A search that has met no entry.
    #[inline]
    pub(crate) const fn new() -> Saver {
        Saver {
            covering: SequenceNumber::ZERO,
            may_cover: SequenceNumber::ZERO,
            operands: Vec::new(),
            state: State::Searching,
        }
    }

    /// Whether the search needs no more entries here.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        !matches!(self.state, State::Searching)
    }

    /// Whether the entries so far are no more than operands and a deletion.
    pub(crate) fn found_no_value(&self) -> bool {
        matches!(self.state, State::Searching | State::Deleted)
    }

    /// Whether the entries have a value, which may be the base of operands.
    pub(crate) fn found_value(&self) -> bool {
        matches!(self.state, State::Found(_) | State::Entity(_) | State::Blob(_) | State::Taken)
    }

    /// A range tombstone at `sequence` covers the key.
    #[inline]
    pub(crate) fn cover(&mut self, sequence: SequenceNumber) {
        self.covering = self.covering.max(sequence);
    }

    /// A range tombstone of a memtable may cover the key; none is newer than `newest`.
    #[inline]
    pub(crate) fn may_cover(&mut self, newest: SequenceNumber) {
        self.may_cover = self.may_cover.max(newest);
    }

    /// Prepares for an entry at `sequence`. If a tombstone of a memtable may cover it, searches the
    /// tombstones of `super_version`, once. Costs one comparison otherwise. REQUIRES: after
    /// `may_cover`, a call before each `settles` or `save`.
    #[inline]
    pub(crate) fn resolve_cover(
        &mut self,
        sequence: SequenceNumber,
        super_version: &SuperVersion,
        key: &LookupKey,
    ) {
        if sequence < self.may_cover {
            self.search_cover(super_version, key);
        }
    }

    #[inline(never)]
    fn search_cover(&mut self, super_version: &SuperVersion, key: &LookupKey) {
        self.may_cover = SequenceNumber::ZERO;
        for mem in super_version.memtables() {
            self.cover(mem.max_covering_tombstone_seq(key.user_key(), key.sequence()));
        }
    }

    /// Takes the next entry; `pin` returns its value with its owner. Returns whether the search
    /// needs more entries.
    #[inline]
    pub(crate) fn save(
        &mut self,
        value_type: ValueType,
        sequence: SequenceNumber,
        pin: impl FnOnce() -> PinnedBytes,
    ) -> bool {
        if sequence < self.covering {
            self.state = State::Deleted;
            return false;
        }
        self.state = match value_type {
            ValueType::Value => State::Found(pin()),
            ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp => {
                State::Deleted
            }
            ValueType::Merge => {
                self.operands.push(pin());
                return true;
            }
            ValueType::WideColumnEntity => State::Entity(pin()),
            ValueType::ValuePreferredSeqno => {
                let value = pin();
                match value.len().checked_sub(8) {
                    Some(end) => State::Found(value.slice(0..end)),
                    None => State::Failed(Error::corruption("a timed value is shorter than its 8-byte time")),
                }
            }
            ValueType::BlobIndex => State::Blob(pin()),
            ValueType::RangeDeletion => {
                State::Failed(Error::corruption("a range deletion stands among point entries"))
            }
        };
        false
    }

    /// Whether the search needs entries below the operand that [`save`](Self::save) has just taken.
    /// An operator may say that the operands suffice: they are merged onto no value then.
    #[cold]
    #[inline(never)]
    pub(crate) fn needs_older(&mut self, operator: Option<&MergeOperatorRef>) -> bool {
        let Some(operator) = operator.filter(|operator| operator.has_should_merge()) else { return true };
        let operands: SmallVec<[&[u8]; 16]> = self.operands.iter().map(|o| o.as_slice()).collect();
        if operator.should_merge(&operands) {
            self.state = State::Deleted;
            return false;
        }
        true
    }

    /// Whether this entry is the answer: a plain value with nothing newer over it. The caller then
    /// takes the value, and does not call `save`.
    #[inline]
    pub(crate) fn settles(&mut self, value_type: ValueType, sequence: SequenceNumber) -> bool {
        let settles = value_type == ValueType::Value && sequence >= self.covering && self.operands.is_empty();
        if settles {
            self.state = State::Taken;
        }
        settles
    }

    /// Whether the caller has taken the answer.
    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self.state, State::Taken)
    }

    /// Makes `error` the answer.
    pub(crate) fn fail(&mut self, error: Error) {
        self.state = State::Failed(error);
    }

    /// Ends the search for this key here; the state from `take_suspended` continues elsewhere.
    pub(crate) fn suspend(&mut self) {
        self.state = State::Suspended;
    }

    /// Takes the state of a suspended search, and leaves nothing here; `None` if it was not
    /// suspended.
    pub(crate) fn take_suspended(&mut self) -> Option<Saver> {
        let State::Suspended = self.state else { return None };
        let operands = std::mem::take(&mut self.operands);
        self.state = State::Taken;
        Some(Saver { operands, state: State::Searching, ..*self })
    }

    /// Whether `finish` may read a file.
    pub(crate) fn needs_blobs(&self) -> bool {
        match &self.state {
            State::Blob(_) => true,
            State::Entity(entity) => may_have_blobs(entity),
            _ => false,
        }
    }

    /// The answer, once every source has been searched or one has settled it.
    /// # Errors
    /// `Corruption` (a merge that the operator refuses, damaged entries) · `InvalidArgument`
    /// (operands without an operator) · those of reading a blob file.
    #[inline]
    pub(crate) fn finish(self, with: &AnswerFinish<'_>) -> Result<Option<PinnedBytes>> {
        match self.state {
            State::Found(value) if self.operands.is_empty() && !with.entity => Ok(Some(value)),
            State::Failed(e) => Err(e),
            State::Deleted | State::Searching | State::Taken | State::Suspended
                if self.operands.is_empty() =>
            {
                Ok(None)
            }
            _ if with.entity => self.finish_entity(with).map(Some),
            _ => self.finish_slowly(with),
        }
    }

    /// REQUIRES: there is a value, or an operand.
    #[cold]
    fn finish_entity(self, with: &AnswerFinish<'_>) -> Result<PinnedBytes> {
        if !self.operands.is_empty() {
            return self.merge(with)?.into_entity().map(PinnedBytes::from_vec);
        }
        let State::Entity(stored) = &self.state else {
            let value = self.base(with)?.unwrap_or_default();
            let mut entity = Vec::new();
            wide_column::serialize(&[(DEFAULT_COLUMN_NAME, &value)], &mut entity)?;
            return Ok(PinnedBytes::from_vec(entity));
        };
        let whole = with.blobs.whole_entity(with.user_key, stored)?.map(PinnedBytes::from_vec);
        Ok(whole.unwrap_or_else(|| stored.clone()))
    }

    /// Merges the operands onto the value or the whole entity below them.
    fn merge(&self, with: &AnswerFinish<'_>) -> Result<MergedValue> {
        self.count_operands(with);
        let operands: SmallVec<[&[u8]; 16]> = self.operands.iter().rev().map(|o| o.as_slice()).collect();
        let merge = |base| merge_columns(with.merge_operator, with.user_key, base, &operands);
        if let State::Entity(stored) = &self.state {
            return match with.blobs.whole_entity(with.user_key, stored)? {
                Some(whole) => merge(StoredBase::Entity(&whole)),
                None => merge(StoredBase::Entity(stored)),
            };
        }
        match self.base(with)? {
            Some(value) => merge(StoredBase::Plain(&value)),
            None => merge(StoredBase::Nothing),
        }
    }

    fn count_operands(&self, with: &AnswerFinish<'_>) {
        if let Some(statistics) = with.statistics {
            statistics.record_in_histogram(Histogram::ReadNumMergeOperands, self.operands.len() as u64);
        }
        perf_add!(internal_merge_point_lookup_count, self.operands.len() as u64);
        note_merged(self.operands.len());
    }

    /// The base value, if there is one, and the operands over it, oldest first.
    /// # Errors
    /// `Corruption` for a damaged entry · those of reading a blob file.
    pub(crate) fn into_operands(mut self, with: &AnswerFinish<'_>) -> Result<Vec<PinnedBytes>> {
        let base = self.base(with)?;
        if let State::Failed(e) = self.state {
            return Err(e);
        }
        self.operands.extend(base);
        self.operands.reverse();
        Ok(self.operands)
    }

    /// The value below the operands.
    fn base(&self, with: &AnswerFinish<'_>) -> Result<Option<PinnedBytes>> {
        Ok(match &self.state {
            State::Found(value) => Some(value.clone()),
            State::Blob(index) => Some(with.blobs.value(with.user_key, index)?),
            // An entity without a default column counts as an empty value, for plain reads and for
            // merges.
            State::Entity(entity) => {
                Some(with.blobs.default_column(with.user_key, entity)?.unwrap_or_default())
            }
            _ => None,
        })
    }

    #[cold]
    fn finish_slowly(self, with: &AnswerFinish<'_>) -> Result<Option<PinnedBytes>> {
        if self.operands.is_empty() {
            return self.base(with);
        }
        if merges_columns(with.merge_operator) {
            return Ok(Some(PinnedBytes::from_vec(self.merge(with)?.into_value()?)));
        }
        // Of an entity, only the default column is read.
        let base = self.base(with)?;
        self.count_operands(with);
        let operands: SmallVec<[&[u8]; 16]> = self.operands.iter().rev().map(|o| o.as_slice()).collect();
        let merged = full_merge(with.merge_operator, with.user_key, base.as_deref(), &operands)?;
        Ok(Some(PinnedBytes::from_vec(merged)))
    }
}
