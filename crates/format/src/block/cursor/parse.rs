//! Parses one entry of a block, of any shape.

use super::lengths::{long_lengths, skip_varint};
use super::{BlockCursor, Entry, EntryShape};
use crate::block::Block;
use esker_base::coding::Decoder;

impl BlockCursor {
    /// The entry at `offset`, if one lies there within the block.
    #[inline]
    pub(super) fn parse(&self, block: &Block, offset: u32) -> Option<Entry> {
        if self.shape != EntryShape::KeyValue || !block.is_plain {
            return self.parse_seldom(block, offset);
        }
        Self::parse_plain(block, offset)
    }

    /// `parse` for most blocks.
    #[inline(always)]
    fn parse_plain(block: &Block, offset: u32) -> Option<Entry> {
        let rest = block.entries().get(offset as usize..)?;
        let (shared, non_shared, value_len, header) = match *rest {
            [shared, non_shared, value_len, ..] if (shared | non_shared | value_len) < 0x80 => {
                (u32::from(shared), u32::from(non_shared), u32::from(value_len), 3)
            }
            _ => long_lengths(rest)?,
        };
        let key_start = offset + header;
        let key_end = key_start.checked_add(non_shared)?;
        let next = key_end.checked_add(value_len)?;
        (next <= block.entries_end).then_some(Entry {
            shared,
            key: key_start..key_end,
            value: key_end..next,
            next,
        })
    }

    /// `parse` for index blocks without first keys: skips the handles, which their reader checks.
    #[inline]
    fn parse_index(rest: &[u8], offset: u32, escapes: bool) -> Option<Entry> {
        let [shared, key_len, ..] = *rest else { return None };
        if (shared | key_len) >= 0x80 {
            return None;
        }
        let value_start = 2 + usize::from(key_len);
        let mut end = skip_varint(rest, value_start)?;
        if shared == 0 {
            end = skip_varint(rest, end)?;
        } else if escapes && rest.get(value_start) == Some(&0) {
            end = skip_varint(rest, skip_varint(rest, end)?)?;
        }
        let position = |n: usize| u32::try_from(n).ok()?.checked_add(offset);
        let (value_start, next) = (position(value_start)?, position(end)?);
        Some(Entry {
            shared: u32::from(shared),
            key: offset + 2..value_start,
            value: value_start..next,
            next,
        })
    }

    /// `parse` for index blocks, for blocks with separate values or a common prefix, and for
    /// protected ones.
    fn parse_seldom(&self, block: &Block, offset: u32) -> Option<Entry> {
        if block.is_plain {
            return self.parse_unchecked(block, offset);
        }
        let mut entry = self.parse_stored(block, offset)?;
        if entry.shared < block.entries_start {
            if entry.shared > 0 {
                return None;
            }
            entry.shared = block.entries_start;
        }
        Some(entry)
    }

    /// The entry as it is stored: that of a restart shares nothing.
    #[inline]
    fn parse_stored(&self, block: &Block, offset: u32) -> Option<Entry> {
        if self.shape == EntryShape::KeyValue && block.decodes {
            return Self::parse_plain(block, offset);
        }
        if block.protection.is_none() {
            return self.parse_unchecked(block, offset);
        }
        let entry = match (self.shape, block.values) {
            (EntryShape::KeyValue, None) => Self::parse_plain(block, offset),
            _ => self.parse_unchecked(block, offset),
        };
        entry.filter(|entry| block.is_intact(offset, entry.next, entry.value.clone()))
    }

    /// `parse_stored` without comparing sums.
    #[inline(never)]
    fn parse_unchecked(&self, block: &Block, offset: u32) -> Option<Entry> {
        let rest = block.entries().get(offset as usize..)?;
        if let EntryShape::DeltaIndex { with_first_key: false, escapes } = self.shape
            && let Some(entry) = Self::parse_index(rest, offset, escapes)
        {
            return Some(entry);
        }
        let mut input = Decoder::new(rest);
        let position = |input: &Decoder<'_>| u32::try_from(rest.len() - input.rest().len()).ok();
        let shared = input.varint32().ok()?;
        let non_shared = input.varint32().ok()?;
        if let EntryShape::DeltaIndex { with_first_key, escapes } = self.shape {
            let key_start = offset + position(&input)?;
            input.bytes(non_shared as usize).ok()?;
            let value_start = offset + position(&input)?;
            let first = input.varint64().ok()?;
            if shared == 0 {
                input.varint64().ok()?;
            } else if escapes && first == 0 {
                input.varint64().ok()?;
                input.varint64().ok()?;
            }
            if with_first_key {
                input.length_prefixed().ok()?;
            }
            let next = offset + position(&input)?;
            return Some(Entry {
                shared,
                key: key_start..key_start + non_shared,
                value: value_start..next,
                next,
            });
        }
        let values = block.values?;
        let value_len = input.varint32().ok()?;
        let value_start = if self.is_restart(block, offset) {
            values.checked_add(input.varint32().ok()?)?
        } else {
            self.value.end
        };
        let key_start = offset + position(&input)?;
        input.bytes(non_shared as usize).ok()?;
        let value_end = value_start.checked_add(value_len)?;
        (value_end <= block.restarts).then_some(Entry {
            shared,
            key: key_start..key_start + non_shared,
            value: value_start..value_end,
            next: offset + position(&input)?,
        })
    }

    /// Whether a restart points to `offset`.
    fn is_restart(&self, block: &Block, offset: u32) -> bool {
        let (mut low, mut high) = (0, block.restart_count() - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if block.restart(middle) < offset { low = middle + 1 } else { high = middle }
        }
        block.restart(low) == offset
    }
}
