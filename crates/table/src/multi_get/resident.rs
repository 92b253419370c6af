//! Runs the part of a plan whose blocks are in the kernel's memory.
//!
//! In: a plan. Out: the plan without the keys that were searched here: those whose blocks were
//! held, or could be read without waiting for a device.
//!
//! Blocks that must come from a device are best read all at once. Resident blocks are read and
//! searched a few at a time, since all blocks of a batch do not fit into the processor's
//! first-level cache. Read all at once, each block would enter that cache twice: a batch was a
//! tenth slower than single reads.

use super::{KeyBatch, KeyPosition, LookupPlan, NeededBlocks};
use crate::block_source::{Wanted, gather_resident};
use crate::multi_get::BatchVisitor;
use crate::options::{TableReadOptions, TableReadTier};
use esker_format::handle::BlockHandle;
use esker_format::key::LookupKey;

/// Bytes of the blocks that are read together before a search.
const PART_BYTES: u64 = 16 << 10;
/// [`PART_BYTES`] for blocks that lie side by side, because one read gets them all.
const NEIGHBOURS_BYTES: u64 = 128 << 10;

impl LookupPlan {
    /// Searches for the plan's keys up to the first block that must come from a device. The keys
    /// from there on stay in the plan. Call it without a guard.
    pub fn search_resident(
        &mut self,
        options: &TableReadOptions,
        keys: &[LookupKey],
        visitor: &mut dyn BatchVisitor,
    ) {
        if options.read_tier == TableReadTier::BlockCache || self.reader.source.file.alignment().is_some() {
            return;
        }
        let NeededBlocks { places, handles } = std::mem::take(&mut self.needed);
        let mut places = places.into_iter().peekable();
        let mut first = 0;
        while first < handles.len() {
            let end = first + part_len(&handles[first..]);
            let part = &handles[first..end];
            let wanted: KeyBatch<Wanted<'_>> = (part.iter())
                .map(|&handle| Wanted { source: &self.reader.source, handle, held: None })
                .collect();
            match gather_resident(&wanted, options) {
                Ok(blocks) => {
                    let of_part = std::iter::from_fn(|| places.next_if(|p| (p.block as usize) < end));
                    let places = of_part.map(|p| p.moved_up(first)).collect();
                    let needed = NeededBlocks { places, handles: part.into() };
                    self.reader.search_gathered(options, keys, needed, blocks, visitor);
                }
                Err(found) => {
                    self.found = found;
                    break;
                }
            }
            first = end;
        }
        let places = places.map(|p| p.moved_up(first)).collect();
        self.needed = NeededBlocks { places, handles: handles[first..].into() };
    }
}

impl KeyPosition {
    /// The place after the first `blocks` blocks have left the plan.
    fn moved_up(self, blocks: usize) -> KeyPosition {
        KeyPosition { block: self.block - blocks as u32, ..self }
    }
}

/// Number of the first blocks to read at once.
fn part_len(handles: &[BlockHandle]) -> usize {
    let mut bytes = 0_u64;
    let is_in = |i: &usize| {
        let is_neighbour = *i > 0 && handles[*i - 1].end() == Some(handles[*i].offset);
        // In a damaged index the size may be any number.
        bytes = handles[*i].size.saturating_add(bytes);
        *i == 0 || bytes <= if is_neighbour { NEIGHBOURS_BYTES } else { PART_BYTES }
    };
    (0..handles.len()).take_while(is_in).count()
}
