//! Runs the part of a plan whose blocks are in the kernel's memory.
//!
//! In: a plan. Out: the same without the keys whose blocks are held, or were read without waiting
//! for a device; those are searched.
//!
//! Blocks that have to be waited for are best read all at once. Resident blocks are read and
//! searched a few at a time: all of a batch's blocks do not fit into the processor's first-level
//! cache. Read together, each is fetched into it twice, which made a batch a tenth slower than
//! single reads.

use super::{KeyBatch, LookupPlan, Needed, Place};
use crate::block_source::{Wanted, gather_resident};
use crate::multi_get::BatchVisitor;
use crate::options::{TableReadOptions, TableReadTier};
use esker_format::handle::BlockHandle;
use esker_format::key::LookupKey;

/// Bytes of the blocks that are read before they are searched.
const PART_BYTES: u64 = 16 << 10;
/// The same of blocks that lie side by side: one read for all.
const NEIGHBOURS_BYTES: u64 = 128 << 10;

impl LookupPlan {
    /// Visits the entries of its keys up to the first block that would have to be waited for. The
    /// other keys stay. Call it without a guard.
    pub fn search_resident(
        &mut self,
        options: &TableReadOptions,
        keys: &[LookupKey],
        visitor: &mut dyn BatchVisitor,
    ) {
        if options.read_tier == TableReadTier::BlockCache || self.reader.source.file.alignment().is_some() {
            return;
        }
        let Needed { places, handles } = std::mem::take(&mut self.needed);
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
                    let needed = Needed { places, handles: part.into() };
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
        self.needed = Needed { places, handles: handles[first..].into() };
    }
}

impl Place {
    /// The same when `blocks` before its block have gone.
    fn moved_up(self, blocks: usize) -> Place {
        Place { block: self.block - blocks as u32, ..self }
    }
}

/// Number of these blocks that are read at once.
fn part_len(handles: &[BlockHandle]) -> usize {
    let mut bytes = 0_u64;
    let is_in = |i: &usize| {
        let is_neighbour = *i > 0 && handles[*i - 1].end() == Some(handles[*i].offset);
        // Of a damaged index it may be any number.
        bytes = handles[*i].size.saturating_add(bytes);
        *i == 0 || bytes <= if is_neighbour { NEIGHBOURS_BYTES } else { PART_BYTES }
    };
    (0..handles.len()).take_while(is_in).count()
}
