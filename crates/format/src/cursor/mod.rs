//! The contract of cursors over internal keys. Memtables, tables, levels and their merge implement
//! it.
//!
//! In: positions and steps. Out: internal keys with their values, in internal-key order.
//! [`InternalIterator`] is the contract of every cursor. [`ScanIterator`] extends it for user
//! scans: combined steps, hints, decoded runs, and skipping of deleted runs.
//!
//! Invariants
//!  1. Neither trait has a method with a default. A wrapper that leaves a method out does not
//!     compile, so it cannot hide an ability of the cursor below it.
//!  2. A wrapper names the methods that it forwards (`forward_cursor!`), and the methods that it
//!     implements without the cursor below (`plain_cursor!`). It writes out all others.

mod forward;
mod left_value;
mod run;
mod scan;

pub use crate::{forward_cursor, on_cursor, plain_cursor};
pub use left_value::LeftValue;
pub use run::{DecodeAhead, DecodedRun, RunEntry};
pub use scan::{KnownDeletedRun, ScanIterator, ScanProgress, SkipDistance, skip_alone};

use esker_base::{PinnedBytes, Result, SequenceNumber, ValueType};

/// A cursor over internal keys (user key, then 8 bytes of sequence number and type), ordered by
/// user key, then newest first.
///
/// A new cursor is invalid until it is positioned. After a failed move it is invalid and `status`
/// holds the error. An invalid cursor with an `Ok` status has passed an end. Every positioning call
/// clears an earlier error. Moving an invalid cursor is a bug of the caller.
pub trait InternalIterator: Send {
    /// Whether the cursor is on an entry.
    fn valid(&self) -> bool;
    /// Moves to the first entry.
    fn seek_to_first(&mut self);
    /// Moves to the last entry.
    fn seek_to_last(&mut self);
    /// Moves to the first entry at or after `target`, an internal key.
    fn seek(&mut self, target: &[u8]);
    /// Moves to the last entry at or before `target`, an internal key.
    fn seek_for_prev(&mut self, target: &[u8]);
    /// Moves one entry forward. REQUIRES: `valid()`.
    fn next(&mut self);
    /// Moves one entry back. REQUIRES: `valid()`.
    fn prev(&mut self);
    /// The internal key here, until the next move. REQUIRES: `valid()`.
    fn key(&self) -> &[u8];
    /// The value here, until the next move. REQUIRES: `valid()`.
    fn value(&self) -> &[u8];
    /// The current value, which outlives the next move. It shares its block or memtable if there is
    /// one; otherwise it is a copy. REQUIRES: `valid()`.
    fn pinned_value(&self) -> PinnedBytes;
    /// The error that made the cursor invalid, if there was one.
    /// # Errors
    /// The first error since the last positioning call: `Corruption`, `IoError`, or `Incomplete` if
    /// the read needs I/O that its options forbid.
    fn status(&self) -> Result<()>;
}

impl<T: InternalIterator + ?Sized> InternalIterator for Box<T> {
    forward_cursor!(self => **self; valid, seek_to_first, seek_to_last, seek, seek_for_prev, next, prev,
        key, value, pinned_value, status);
}

/// Appends the internal key that sorts before all entries of a user key, or behind them. The latter
/// equals a deletion with sequence number zero.
pub fn push_place(target: &mut Vec<u8>, user_key: &[u8], before: bool) {
    target.extend_from_slice(user_key);
    let first = (SequenceNumber::MAX.0 << 8) | ValueType::SEEK as u64;
    target.extend_from_slice(&(if before { first } else { 0 }).to_le_bytes());
}
