//! The counters of a database: file numbers and the last sequence number.
//!
//! Invariants
//!  1. A file number is allocated once. Edits carry the counter's value at the time they are
//!     logged, so that every file number in a MANIFEST is below its `next_file` (RocksDB 7.8
//!     deletes live tables with higher numbers).
//!  2. `last_sequence` never goes back.

use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::{FileNumber, SequenceNumber};

/// Shared counters. All methods may be called from any thread, under any lock or none.
#[derive(Debug)]
#[repr(align(128))]
pub struct Numbers {
    next_file: AtomicU64,
    last_sequence: AtomicU64,
}

impl Numbers {
    /// Counters that start at these values.
    pub fn new(next_file: FileNumber, last_sequence: SequenceNumber) -> Numbers {
        Numbers { next_file: AtomicU64::new(next_file.0), last_sequence: AtomicU64::new(last_sequence.0) }
    }

    /// A number for a new file of any kind.
    pub fn new_file_number(&self) -> FileNumber {
        self.reserve(1)
    }

    /// The first of `count` consecutive numbers.
    pub fn reserve(&self, count: u64) -> FileNumber {
        FileNumber(self.next_file.fetch_add(count, Ordering::Relaxed))
    }

    /// The next number to be allocated: every number in use is below it.
    pub fn next_file_number(&self) -> FileNumber {
        FileNumber(self.next_file.load(Ordering::Relaxed))
    }

    /// Marks `number` as in use: later numbers are larger.
    pub fn mark_used(&self, number: FileNumber) {
        self.next_file.fetch_max(number.0.saturating_add(1), Ordering::Relaxed);
    }

    /// The newest sequence number that readers may see.
    #[inline]
    pub fn last_sequence(&self) -> SequenceNumber {
        SequenceNumber(self.last_sequence.load(Ordering::Acquire))
    }

    /// Makes everything up to `sequence` visible; never goes back.
    #[inline]
    pub fn set_last_sequence(&self, sequence: SequenceNumber) {
        // A maximum, not a store: publishers may arrive out of order, and the number must not
        // decrease.
        self.last_sequence.fetch_max(sequence.0, Ordering::AcqRel);
    }
}
