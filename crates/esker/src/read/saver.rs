//! What a point read has found so far: a value, a deletion, or operands that still want a base.
//!
//! In: entries of one user key, newest first, from the memtables and then from the files. Out: the answer.
//!
//! Invariants
//!  1. Entries arrive in descending sequence; nothing after a value or deletion changes the answer.
//!  2. An entry older than the newest visible range tombstone over the key counts as a deletion.

use crate::read::merge::full_merge;
use esker_base::merge_operator::MergeOperatorRef;
use esker_base::{Error, PinnedBytes, Result, SequenceNumber, ValueType};
use esker_table::blob::BlobReads;
use smallvec::SmallVec;

#[derive(Debug)]
enum State {
    /// Nothing decisive yet.
    Searching,
    Found(PinnedBytes),
    /// A value, which the caller has taken already: see `Saver::settles`.
    Taken,
    Deleted,
    Failed(Error),
}

/// Collects the entries of one user key.
#[derive(Debug)]
pub(crate) struct Saver<'a> {
    user_key: &'a [u8],
    merge_operator: Option<&'a MergeOperatorRef>,
    blobs: BlobReads<'a>,
    /// The newest tombstone that covers the key and that the read may see.
    covering: SequenceNumber,
    /// Newest first.
    operands: Vec<PinnedBytes>,
    state: State,
}

impl<'a> Saver<'a> {
    /// Knows nothing of `user_key` yet.
    pub(crate) fn new(
        user_key: &'a [u8],
        merge_operator: Option<&'a MergeOperatorRef>,
        blobs: BlobReads<'a>,
    ) -> Saver<'a> {
        Saver {
            user_key,
            merge_operator,
            blobs,
            covering: SequenceNumber::ZERO,
            operands: Vec::new(),
            state: State::Searching,
        }
    }

    /// Whether the answer is known.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        !matches!(self.state, State::Searching)
    }

    /// A range tombstone at `sequence` covers the key.
    #[inline]
    pub(crate) fn cover(&mut self, sequence: SequenceNumber) {
        self.covering = self.covering.max(sequence);
    }

    /// Takes the next entry; `pin` gives its value with what keeps it alive. Whether more entries are wanted.
    #[inline]
    pub(crate) fn save(
        &mut self,
        value_type: ValueType,
        sequence: SequenceNumber,
        pin: impl FnOnce() -> PinnedBytes,
    ) -> bool {
        if sequence < self.covering {
            self.base(None);
            return false;
        }
        match value_type {
            ValueType::Value if self.operands.is_empty() => self.state = State::Found(pin()),
            ValueType::Value => self.base(Some(pin())),
            ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp => {
                self.base(None)
            }
            ValueType::Merge => {
                self.operands.push(pin());
                return true;
            }
            ValueType::WideColumnEntity => match self.blobs.default_column(self.user_key, &pin()) {
                // An entity without a default column counts as an empty value, for plain reads and for merges.
                Ok(column) => self.base(Some(column.unwrap_or_default())),
                Err(e) => self.fail(e),
            },
            ValueType::ValuePreferredSeqno => {
                let value = pin();
                match value.len().checked_sub(8) {
                    Some(end) => self.base(Some(value.slice(0..end))),
                    None => self.fail(Error::corruption("a timed value is shorter than its 8-byte time")),
                }
            }
            ValueType::BlobIndex => match self.blobs.value(self.user_key, &pin()) {
                Ok(value) => self.base(Some(value)),
                Err(e) => self.fail(e),
            },
            ValueType::RangeDeletion => {
                self.fail(Error::corruption("a range deletion stands among point entries"))
            }
        }
        false
    }

    /// Whether this entry is the answer as it stands: a plain value with nothing newer over it. The caller then takes it,
    /// and does not ask `save`.
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

    /// Applies what operands there are to `base`.
    fn base(&mut self, base: Option<PinnedBytes>) {
        if self.operands.is_empty() {
            self.state = base.map_or(State::Deleted, State::Found);
            return;
        }
        let operands: SmallVec<[&[u8]; 16]> = self.operands.iter().rev().map(|o| o.as_slice()).collect();
        let merged = full_merge(self.merge_operator, self.user_key, base.as_deref(), &operands);
        drop(operands);
        match merged {
            Ok(value) => self.state = State::Found(PinnedBytes::from_vec(value)),
            Err(e) => self.fail(e),
        }
    }

    /// The answer is this error.
    pub(crate) fn fail(&mut self, error: Error) {
        self.state = State::Failed(error);
    }

    /// The answer, once every source has been asked or one has settled it.
    /// # Errors
    /// `Corruption` (a merge that makes no sense, damaged entries) · `InvalidArgument` (operands without an operator) ·
    /// those of reading a blob file.
    pub(crate) fn finish(mut self) -> Result<Option<PinnedBytes>> {
        if !self.is_done() {
            self.base(None);
        }
        match self.state {
            State::Found(value) => Ok(Some(value)),
            State::Failed(e) => Err(e),
            State::Deleted | State::Searching | State::Taken => Ok(None),
        }
    }
}
