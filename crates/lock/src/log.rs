//! A locker's log: the locks it took, in order, to release them all or back to a save point.
//!
//! In: each span that the locker has locked or upgraded. Out: the same spans, from the start or
//! from a mark on.
//!
//! The log is one buffer, because transactions hold many locks and most keys are short:
//!
//! ```text
//! entry = flags u8 | [family varint] | end | [end] | length
//!         flags: 1 upgraded, 2 a point (one end), 4 not the first family
//! end   = [place u8, not for points] | length varint | key
//! length of the entry without this field = u8, or fixed64 | 255; last, to read the log backwards
//! ```
//!
//! Invariant: entries are whole, and a mark lies between two entries. The log may name a lock that
//! is no longer held (unlocked, stolen, or of a dropped family). It names every lock that is held,
//! unless escalation has joined locks.

use crate::cut::{Cut, CutPosition, KeySpan};
use crate::fragment::FragmentChange;
use esker_base::Result;
use esker_base::coding::{Decoder, put_fixed64, put_length_prefixed, put_varint32};

const UPGRADED: u8 = 1;
const POINT: u8 = 2;
const OTHER_FAMILY: u8 = 4;

/// Last byte of an entry of at least this length; the eight bytes before it hold the length.
const LONG: u8 = 255;

/// Number of newest entries that unlocking searches. Most unlocks concern a row that the
/// transaction has just locked and does not need. Older entries stay: otherwise each unlock would
/// read the whole log.
const MOST_LOOKED_AT: usize = 256;

/// A locker's log of locks.
#[derive(Debug, Default)]
pub(crate) struct Log {
    bytes: Vec<u8>,
    /// Entries that unlocking has read.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) looked_at: usize,
}

/// One entry of the log.
#[derive(Debug)]
pub(crate) struct LockLogEntry<'a> {
    pub(crate) change: FragmentChange,
    /// Index among the locker's families.
    pub(crate) family: usize,
    pub(crate) span: KeySpan<'a>,
}

impl Log {
    /// Whether the log has no entries.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The current end.
    pub(crate) fn mark(&self) -> usize {
        self.bytes.len()
    }

    /// Removes the entries behind the mark.
    pub(crate) fn truncate(&mut self, mark: usize) {
        self.bytes.truncate(mark);
    }

    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    #[inline]
    pub(crate) fn push(&mut self, change: FragmentChange, family: usize, span: KeySpan<'_>) {
        let is_point = span.is_point();
        let room = span.lo.key.len() + if is_point { 7 } else { span.hi.key.len() + 14 } + 13;
        if self.bytes.capacity() - self.bytes.len() < room {
            // Grows by an eighth instead of doubling: spare room counts as memory of the locks.
            self.bytes.reserve_exact(room.max(self.bytes.len() / 8).max(64));
        }
        let start = self.bytes.len();
        let flags = if change == FragmentChange::Upgraded { UPGRADED } else { 0 }
            | if is_point { POINT } else { 0 }
            | if family != 0 { OTHER_FAMILY } else { 0 };
        self.bytes.push(flags);
        if family != 0 {
            put_varint32(&mut self.bytes, family as u32);
        }
        if is_point {
            put_length_prefixed(&mut self.bytes, span.lo.key);
        } else {
            for cut in [span.lo, span.hi] {
                self.bytes.push(cut.place as u8);
                put_length_prefixed(&mut self.bytes, cut.key);
            }
        }
        let len = self.bytes.len() - start;
        match u8::try_from(len) {
            Ok(short) if short < LONG => self.bytes.push(short),
            _ => {
                put_fixed64(&mut self.bytes, len as u64);
                self.bytes.push(LONG);
            }
        }
    }

    /// Entries from a mark on.
    #[inline]
    pub(crate) fn since(&self, mark: usize) -> impl Iterator<Item = LockLogEntry<'_>> {
        let mut rest = Decoder::new(&self.bytes[mark..]);
        std::iter::from_fn(move || {
            (!rest.is_empty()).then(|| entry(&mut rest).expect("the log has whole entries only"))
        })
    }

    /// Removes the newest entry for exactly this span, if it is among the last [`MOST_LOOKED_AT`].
    /// So alternating locks and unlocks do not grow the log. Returns the entry's offset and length,
    /// by which the caller moves later marks.
    pub(crate) fn forget(&mut self, family: usize, span: KeySpan<'_>) -> Option<(usize, usize)> {
        let is_same = |a: Cut<'_>, b: Cut<'_>| a.place == b.place && a.key == b.key;
        let mut end = self.bytes.len();
        for _ in 0..MOST_LOOKED_AT {
            let start = self.start_of_entry(end)?;
            #[cfg(all(test, not(any(loom, shuttle))))]
            {
                self.looked_at += 1;
            }
            let entry =
                entry(&mut Decoder::new(&self.bytes[start..end])).expect("the log has whole entries only");
            if entry.family == family && is_same(entry.span.lo, span.lo) && is_same(entry.span.hi, span.hi) {
                self.bytes.drain(start..end);
                return Some((start, end - start));
            }
            end = start;
        }
        None
    }

    /// The start of the entry that ends at `end`; `None` at the start of the log.
    fn start_of_entry(&self, end: usize) -> Option<usize> {
        let (last, before) = self.bytes[..end].split_last()?;
        let len = match *last {
            LONG => before.last_chunk().map(|len| u64::from_le_bytes(*len) as usize + 8),
            short => Some(usize::from(short)),
        };
        Some(before.len() - len.expect("the log has whole entries only"))
    }

    /// Removes all entries; keeps a small buffer.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        if self.bytes.capacity() > 64 << 10 {
            self.bytes = Vec::new();
        }
    }
}

#[inline]
fn entry<'a>(rest: &mut Decoder<'a>) -> Result<LockLogEntry<'a>> {
    let before = rest.rest().len();
    let flags = rest.u8()?;
    let change = if flags & UPGRADED == 0 { FragmentChange::Taken } else { FragmentChange::Upgraded };
    let family = if flags & OTHER_FAMILY == 0 { 0 } else { rest.varint32()? as usize };
    let span = if flags & POINT != 0 {
        KeySpan::point(rest.length_prefixed()?)
    } else {
        KeySpan { lo: cut(rest)?, hi: cut(rest)? }
    };
    let len = before - rest.rest().len();
    rest.bytes(if len < usize::from(LONG) { 1 } else { 9 })?;
    Ok(LockLogEntry { change, family, span })
}

fn cut<'a>(rest: &mut Decoder<'a>) -> Result<Cut<'a>> {
    let place = CutPosition::from_u8(rest.u8()?).expect("the log has valid codes of places");
    Ok(Cut { key: rest.length_prefixed()?, place })
}
