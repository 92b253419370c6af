//! The one cursor contract, for memtables, blocks, tables, levels and their merge.

use crate::bytes::PinnedBytes;
use crate::error::Result;

/// A cursor over internal keys (user key, then 8 bytes of sequence and type) in internal-key order:
/// user key by the family's comparator, then newest first.
///
/// A new cursor is not valid until it is positioned. After a failed step it is not valid and `status` says why;
/// a cursor that is not valid with an `Ok` status has run off an end. Every positioning call clears an earlier
/// failure. Moving a cursor that is not valid is a bug of the caller.
pub trait InternalIterator: Send {
    /// Whether it stands on an entry.
    fn valid(&self) -> bool;
    /// To the first entry.
    fn seek_to_first(&mut self);
    /// To the last entry.
    fn seek_to_last(&mut self);
    /// To the first entry at or after `target`, an internal key.
    fn seek(&mut self, target: &[u8]);
    /// To the last entry at or before `target`, an internal key.
    fn seek_for_prev(&mut self, target: &[u8]);
    /// One entry on. REQUIRES: `valid()`.
    fn next(&mut self);
    /// One entry back. REQUIRES: `valid()`.
    fn prev(&mut self);
    /// The internal key here; lives until the next move. REQUIRES: `valid()`.
    fn key(&self) -> &[u8];
    /// The value here; lives until the next move. REQUIRES: `valid()`.
    fn value(&self) -> &[u8];
    /// `next`, and the internal key then, or `None` if it is not valid: one call through a trait object instead of three.
    /// REQUIRES: `valid()`.
    #[inline]
    fn next_key(&mut self) -> Option<&[u8]> {
        self.next();
        self.valid().then(|| self.key())
    }
    /// `prev`, and the internal key then, as [`next_key`](Self::next_key). REQUIRES: `valid()`.
    #[inline]
    fn prev_key(&mut self) -> Option<&[u8]> {
        self.prev();
        self.valid().then(|| self.key())
    }
    /// Why it is not valid, if an error was the reason.
    /// # Errors
    /// The first error since the last positioning call: `Corruption`, `IoError`, or `Incomplete` (I/O forbidden).
    fn status(&self) -> Result<()>;
    /// The value here, kept alive beyond the next move; shares the block or memtable where it can, copies otherwise.
    /// REQUIRES: `valid()`.
    fn pinned_value(&self) -> PinnedBytes {
        PinnedBytes::copy_from(self.value())
    }
    /// Keys at or beyond this user key will not be asked for; a hint that lets files stop early. Default: ignored.
    fn set_upper_bound(&mut self, _user_key: Option<&[u8]>) {}
    /// Only keys with the same prefix as this user key (by the family's prefix extractor) will be asked for until the
    /// next call, `None`: any; a hint that lets files be passed over by `seek` and `seek_for_prev`, whatever their
    /// targets are. Default: ignored.
    fn set_wanted_prefix_of(&mut self, _user_key: Option<&[u8]>) {}
}

impl<T: InternalIterator + ?Sized> InternalIterator for Box<T> {
    fn valid(&self) -> bool {
        (**self).valid()
    }
    fn seek_to_first(&mut self) {
        (**self).seek_to_first();
    }
    fn seek_to_last(&mut self) {
        (**self).seek_to_last();
    }
    fn seek(&mut self, target: &[u8]) {
        (**self).seek(target);
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        (**self).seek_for_prev(target);
    }
    fn next(&mut self) {
        (**self).next();
    }
    fn prev(&mut self) {
        (**self).prev();
    }
    fn next_key(&mut self) -> Option<&[u8]> {
        (**self).next_key()
    }
    fn prev_key(&mut self) -> Option<&[u8]> {
        (**self).prev_key()
    }
    fn key(&self) -> &[u8] {
        (**self).key()
    }
    fn value(&self) -> &[u8] {
        (**self).value()
    }
    fn status(&self) -> Result<()> {
        (**self).status()
    }
    fn pinned_value(&self) -> PinnedBytes {
        (**self).pinned_value()
    }
    fn set_upper_bound(&mut self, user_key: Option<&[u8]>) {
        (**self).set_upper_bound(user_key);
    }
    fn set_wanted_prefix_of(&mut self, user_key: Option<&[u8]>) {
        (**self).set_wanted_prefix_of(user_key);
    }
}
