//! Reads what can be read of a damaged table.
//!
//! In: a file, and its description in the MANIFEST. Out: every entry of every data block whose
//! checksum holds, in order, and a report: damaged parts, and ranges of keys that may be missing.
//!
//! Reading order: `tail.rs` (footer, properties, range deletions), this file (data blocks by the
//! index), `walk.rs` (data blocks without an index), `mend.rs` (one flipped bit).
//!
//! Invariants
//!  1. An entry is shown only if the checksum of its block holds, as stored or with one bit flipped
//!     back. In a block that fails both, no byte is known to be right.
//!  2. Entries are shown in strictly ascending order.
//!  3. A key that is not shown and that the table had lies within a reported range.
//!  4. The file is read only.

mod mend;
mod tail;
mod walk;

use crate::block_source::{BlockKind, BlockSource, CachedBlock, may_be_damage};
use crate::open::global_seqno;
use crate::verify::check_entry;
use esker_base::{Error, ErrorKind, Result, SequenceNumber, ValueType};
use esker_format::block::{Block, BlockCursor, RestartCheck};
use esker_format::handle::BlockHandle;
use esker_format::index_entry::{IndexCursor, IndexShape};
use esker_format::key::{self, InternalKeyComparator, ParsedInternalKey};
use esker_format::meta_index::MetaIndex;
use esker_format::properties::{IndexType, TableProperties};
use esker_format::range_del::RangeTombstone;
use esker_format::trailer::ChecksumType;
use std::collections::BTreeSet;
use walk::Walker;

/// A damaged table whose readable parts are known.
#[derive(Debug)]
pub struct TableSalvage {
    source: BlockSource,
    meta: MetaIndex,
    index: Option<BlockHandle>,
    properties: Option<TableProperties>,
    tombstones: Tombstones,
    damaged: Vec<DamagedPart>,
    /// Bytes that mending may still hash.
    budget: u64,
}

/// The range deletions of a damaged table, with their stored sequence numbers.
#[derive(Clone, Debug)]
enum Tombstones {
    Known(Vec<RangeTombstone>),
    Lost,
}

/// A damaged part of a table other than its data blocks.
#[derive(Clone, Debug)]
pub struct DamagedPart {
    /// Its name: `footer`, `index`, the name of a meta block.
    pub name: String,
    /// Its place in the file.
    pub offset: u64,
    /// The damage.
    pub error: Error,
    /// Whether one bit was flipped back, so that nothing of it is lost.
    pub is_mended: bool,
}

impl DamagedPart {
    fn lost(name: impl Into<String>, offset: u64, error: Error) -> DamagedPart {
        DamagedPart { name: name.into(), offset, error, is_mended: false }
    }

    fn mended(name: impl Into<String>, offset: u64, error: Error) -> DamagedPart {
        DamagedPart { is_mended: true, ..DamagedPart::lost(name, offset, error) }
    }
}

/// Facts about the table that come from elsewhere.
#[derive(Clone, Debug)]
pub struct SalvageOptions {
    /// The order of the family's keys, with timestamps if they have any.
    pub icmp: InternalKeyComparator,
    /// The largest sequence number that the MANIFEST gives.
    pub largest_seqno: Option<SequenceNumber>,
    /// Whether the MANIFEST gives this sequence number to all entries of the table.
    pub only_seqno: Option<SequenceNumber>,
    /// The bounds of the table in the MANIFEST, internal keys.
    pub bounds: Option<(Vec<u8>, Vec<u8>)>,
    /// Whether the table stores no timestamps although the family has them. Its properties count
    /// more.
    pub lacks_timestamps: bool,
}

/// Keys that may be missing: user keys without timestamps, both bounds included.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostKeys {
    /// The first key; `None`: from the first key of all on.
    pub from: Option<Vec<u8>>,
    /// The last key; `None`: to the last key of all.
    pub to: Option<Vec<u8>>,
}

/// A run of lost data blocks.
#[derive(Clone, Debug)]
pub struct LostBlocks {
    /// The place of the first of them in the file.
    pub offset: u64,
    /// The number of blocks. Without an index, a run of unreadable bytes counts as one block.
    pub blocks: u64,
    /// The damage of the first of them.
    pub error: Error,
    /// The keys that they may have had.
    pub keys: LostKeys,
    /// Whether they may have had a newer version of the last key, of which an older one was shown.
    pub hides_last_key: bool,
}

/// The result of reading a damaged table.
#[derive(Clone, Debug, Default)]
pub struct SalvageReport {
    /// The number of data blocks, as properties or index say, else of those that were found.
    pub blocks: u64,
    /// Data blocks that are lost.
    pub blocks_lost: u64,
    /// Data blocks in which one bit was flipped back.
    pub blocks_mended: u64,
    /// Entries that were shown.
    pub entries: u64,
    /// Entries that were not shown, if the properties tell the number of all.
    pub entries_lost: Option<u64>,
    /// Runs of lost data blocks, in the order of keys.
    pub lost: Vec<LostBlocks>,
    /// Range deletions, with the sequence numbers that reads see.
    pub tombstones: Vec<RangeTombstone>,
    /// The keys for which range deletions may be lost.
    pub tombstones_lost: Option<LostKeys>,
    /// Other damaged parts, and mended data blocks.
    pub damaged: Vec<DamagedPart>,
    /// Whether keys and range deletions come without timestamps although the family has them.
    pub lacks_timestamps: bool,
}

impl SalvageReport {
    /// Whether an entry or a range deletion may be lost.
    pub fn has_losses(&self) -> bool {
        !self.lost.is_empty() || self.tombstones_lost.is_some()
    }

    /// The number of damaged parts of all kinds.
    pub fn damage_count(&self) -> u64 {
        let other = u64::from(self.tombstones_lost.is_some() && self.damaged.is_empty());
        self.blocks_lost + self.damaged.len() as u64 + other
    }
}

/// Receives internal keys (with the sequence numbers that reads see) and values.
pub type SalvageVisitor<'v> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'v;

impl TableSalvage {
    /// The table's properties, if they are readable.
    pub fn properties(&self) -> Option<&TableProperties> {
        self.properties.as_ref()
    }

    /// Whether the table stores no timestamps although the family's keys have them.
    pub fn lacks_timestamps(&self, with: &SalvageOptions) -> bool {
        let lacks = self.properties.as_ref().map(|p| !p.user_defined_timestamps_persisted);
        with.icmp.timestamp_size() > 0 && lacks.unwrap_or(with.lacks_timestamps)
    }

    /// Shows every entry that can be read to `visit`, in order. Reads the file once; blocks that
    /// are looked for without an index cost more.
    /// # Errors
    /// `NotSupported`: a sound block needs a feature that is not here · `Corruption`: properties
    /// and MANIFEST contradict each other · `IoError`, or the error of `visit`.
    pub fn read(mut self, with: &SalvageOptions, visit: &mut SalvageVisitor<'_>) -> Result<SalvageReport> {
        let lacks_timestamps = self.lacks_timestamps(with);
        let sequence = match &self.properties {
            Some(properties) => global_seqno(properties, with.largest_seqno)?,
            None => with.only_seqno,
        };
        self.check_other_blocks()?;
        let icmp = if lacks_timestamps { with.icmp.without_timestamp() } else { with.icmp.clone() };
        let report = SalvageReport {
            damaged: std::mem::take(&mut self.damaged),
            lacks_timestamps,
            ..Default::default()
        };
        let mut reading = Reading {
            table: &self,
            icmp,
            sequence,
            bounds: with.bounds.as_ref(),
            newest: if sequence.is_some() { None } else { with.largest_seqno },
            budget: self.budget,
            visit,
            report,
            last_key: Vec::new(),
            gap: None,
            key: Vec::new(),
            is_behind_data: false,
            bounds_icmp: &with.icmp,
        };
        reading.blocks()?;
        reading.finish()
    }

    /// Checks the meta blocks that no entry depends on, such as the filter.
    fn check_other_blocks(&mut self) -> Result<()> {
        let known: BTreeSet<u64> = self.damaged.iter().map(|part| part.offset).collect();
        for (name, handle) in self.meta.iter() {
            let is_index = Some(handle) == self.index;
            if is_index || known.contains(&handle.offset) || Some(handle) == self.meta.properties() {
                continue;
            }
            let guard = self.source.guard;
            match self.source.read_checked(handle, |stored| guard.check(&stored, handle.offset)) {
                Ok(_) => {}
                Err(e) if may_be_damage(&e) => {
                    self.damaged.push(DamagedPart::lost(
                        String::from_utf8_lossy(name),
                        handle.offset,
                        self.source.at(e, handle),
                    ));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// A run of lost blocks that no sound block has ended yet.
struct Gap {
    offset: u64,
    blocks: u64,
    error: Error,
    from: Option<Vec<u8>>,
    /// The index's separator behind the last of them.
    separator: Option<Vec<u8>>,
}

/// One pass over the data blocks.
struct Reading<'a, 'v> {
    table: &'a TableSalvage,
    icmp: InternalKeyComparator,
    /// The sequence number of all entries, if the file was ingested with one.
    sequence: Option<SequenceNumber>,
    bounds: Option<&'a (Vec<u8>, Vec<u8>)>,
    newest: Option<SequenceNumber>,
    budget: u64,
    visit: &'a mut SalvageVisitor<'v>,
    report: SalvageReport,
    /// The last internal key shown, as it is stored.
    last_key: Vec<u8>,
    gap: Option<Gap>,
    key: Vec<u8>,
    /// Whether a walk has met a block that lies behind all data blocks.
    is_behind_data: bool,
    /// Timestamps of the bounds, which they have even if the table stores none.
    bounds_icmp: &'a InternalKeyComparator,
}

/// One entry of an index, or a part of the index that is lost.
enum IndexItem {
    Block { handle: BlockHandle, separator: Vec<u8> },
    Lost,
}

impl Reading<'_, '_> {
    fn blocks(&mut self) -> Result<()> {
        let mut walker = Walker::new(&self.table.source);
        let (items, mut ends) = match self.index_items() {
            Ok(found) => found,
            Err(e) if may_be_damage(&e) => {
                let offset = self.table.index.map_or(0, |handle| handle.offset);
                let is_told = self.report.damaged.iter().any(|part| !part.is_mended);
                if self.table.index.is_some() || !is_told {
                    self.report.damaged.push(DamagedPart::lost("index", offset, e));
                }
                (vec![IndexItem::Lost], Vec::new())
            }
            Err(e) => return Err(e),
        };
        ends.extend(self.table.meta.iter().map(|(_, handle)| handle.offset));
        ends.extend(self.table.index.map(|handle| handle.offset));
        let data_end = ends.into_iter().filter(|end| *end > 0).min().unwrap_or(self.table.source.file_size);
        let (mut at, mut is_lost, mut last_separator) = (0, false, None);
        for item in items {
            match item {
                IndexItem::Lost => is_lost = true,
                IndexItem::Block { handle, separator } => {
                    if std::mem::take(&mut is_lost) && at < handle.offset {
                        self.walk(&mut walker, at, handle.offset)?;
                    }
                    self.report.blocks += 1;
                    self.block(handle, &mut walker)?;
                    at = handle.end().unwrap_or(at);
                    if let Some(gap) = &mut self.gap {
                        gap.separator = Some(separator.clone());
                    }
                    last_separator = Some(separator);
                }
            }
        }
        if is_lost {
            self.walk(&mut walker, at, data_end)?;
            last_separator = None;
        }
        self.close_gap(last_separator.as_deref());
        Ok(())
    }

    /// The entries of the index, and places at which data blocks have ended.
    /// # Errors
    /// `Corruption`: the index, or its upper level, cannot be read.
    fn index_items(&mut self) -> Result<(Vec<IndexItem>, Vec<u64>)> {
        let properties = self.table.properties.as_ref();
        let (Some(properties), Some(index)) = (properties, self.table.index) else {
            return Err(Error::corruption("the table does not say where its index is, or how it is made"));
        };
        let shape = IndexShape {
            key_is_user_key: properties.index_key_is_user_key,
            value_is_delta_encoded: properties.index_value_is_delta_encoded,
            with_first_key: properties.index_type == Some(IndexType::BinarySearchWithFirstKey as u32),
            value_escapes: properties.index_value_is_delta_encoded && self.table.source.has_key_prefixes,
        };
        let top = self.index_block("index", index)?;
        if properties.index_type != Some(IndexType::TwoLevel as u32) {
            return Ok((items_of(top.key_value()?, shape)?, vec![index.offset]));
        }
        let (mut items, mut ends) = (Vec::new(), vec![index.offset]);
        for partition in items_of(top.key_value()?, shape)? {
            let IndexItem::Block { handle, .. } = partition else { continue };
            ends.push(handle.offset);
            let read = self.index_block("index partition", handle);
            match read.and_then(|block| items_of(block.key_value()?, shape)) {
                Ok(found) => items.extend(found),
                Err(e) if may_be_damage(&e) => {
                    self.report.damaged.push(DamagedPart::lost("index partition", handle.offset, e));
                    items.push(IndexItem::Lost);
                }
                Err(e) => return Err(e),
            }
        }
        Ok((items, ends))
    }

    fn index_block(&mut self, name: &str, handle: BlockHandle) -> Result<CachedBlock> {
        let source = &self.table.source;
        let (block, error) = tail::read_or_mend(source, handle, BlockKind::Index, &mut self.budget)?;
        self.report.damaged.extend(error.map(|e| DamagedPart::mended(name, handle.offset, e)));
        Ok(block)
    }

    /// Shows the entries of the data block at `handle`, or records its loss.
    fn block(&mut self, handle: BlockHandle, walker: &mut Walker<'_>) -> Result<()> {
        let source = &self.table.source;
        let read = tail::read_or_mend(source, handle, BlockKind::Data, &mut self.budget);
        let shown = match &read {
            Ok((block, _)) => block.key_value().and_then(|block| self.entries(block)),
            Err(e) => Err(e.clone()),
        };
        match shown {
            Ok(()) => {
                if let Ok((block, error)) = read {
                    self.report.blocks_mended += u64::from(error.is_some());
                    let mended = error.map(|e| DamagedPart::mended("data block", handle.offset, e));
                    self.report.damaged.extend(mended);
                    walker.note(handle, block.bytes().len());
                }
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::Corruption => {
                self.lose(handle.offset, e);
                Ok(())
            }
            // The checksum of a block with a wrong code is wrong: that block is damaged.
            Err(e) if may_be_damage(&e) && !self.is_sound(handle) => {
                self.lose(handle.offset, e);
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    fn is_sound(&self, handle: BlockHandle) -> bool {
        let source = &self.table.source;
        source.read_checked(handle, |stored| source.guard.check(&stored, handle.offset)).is_ok()
    }

    /// Shows all entries of a block, after checking each.
    /// # Errors
    /// `Corruption`: nothing was shown · the error of `visit`.
    fn entries(&mut self, block: &Block) -> Result<()> {
        let first = self.check_entries(block)?;
        let hides = self.gap.as_ref().is_some_and(|gap| self.may_hide(gap, &first));
        self.end_gap(Some(self.plain_key(key::user_key(&first))), hides);
        let mut cursor = BlockCursor::new();
        cursor.seek_to_first(block)?;
        while cursor.valid() {
            self.last_key.clear();
            self.last_key.extend_from_slice(cursor.key());
            self.key.clear();
            self.key.extend_from_slice(cursor.key());
            if let (Some(sequence), Some((_, trailer))) =
                (self.sequence, self.key.split_last_chunk_mut::<{ key::TRAILER_BYTES }>())
            {
                let value_type = u64::from_le_bytes(*trailer) & 0xFF;
                *trailer = ((sequence.0 << 8) | value_type).to_le_bytes();
            }
            (self.visit)(&self.key, cursor.value(block))?;
            self.report.entries += 1;
            cursor.next(block)?;
        }
        Ok(())
    }

    /// The first key of a data block whose entries are well-formed and in order.
    /// # Errors
    /// `Corruption`.
    fn check_entries(&self, block: &Block) -> Result<Vec<u8>> {
        let newest = match self.sequence {
            Some(_) => SequenceNumber::MAX,
            None => self.newest.unwrap_or(SequenceNumber::MAX),
        };
        let (mut cursor, mut restarts) = (BlockCursor::new(), RestartCheck::default());
        let (mut last, mut first) = (self.last_key.clone(), Vec::new());
        cursor.seek_to_first(block)?;
        while cursor.valid() {
            restarts.entry(block, &cursor)?;
            check_entry(cursor.key(), cursor.value(block), newest)?;
            if ParsedInternalKey::parse(cursor.key())?.value_type == ValueType::RangeDeletion {
                return Err(Error::corruption("a range deletion in a data block"));
            }
            if !last.is_empty() && self.icmp.compare(&last, cursor.key()).is_ge() {
                return Err(Error::corruption("keys of a data block are out of order"));
            }
            if first.is_empty() {
                first = cursor.key().to_vec();
            }
            last.clear();
            last.extend_from_slice(cursor.key());
            cursor.next(block)?;
        }
        restarts.end(block)?;
        if first.is_empty() { Err(Error::corruption("a data block without entries")) } else { Ok(first) }
    }

    /// Shows the entries of all data blocks from `from` up to `to`, where no index names them.
    fn walk(&mut self, walker: &mut Walker<'_>, from: u64, to: u64) -> Result<()> {
        if self.table.source.guard.checksum_type == ChecksumType::NoChecksum {
            let e = Error::corruption("without checksums, blocks cannot be found without their index");
            self.lose(from, e);
            return Ok(());
        }
        let mut found = BTreeSet::new();
        let mut at = from;
        while at < to {
            if let Some(handle) = self.block_near(walker, at, to)? {
                self.walked(walker, handle, &mut found)?;
                at = handle.end().unwrap_or(to);
                continue;
            }
            if self.has_ended(to) {
                return Ok(());
            }
            let e = Error::corruption(format!("no block with a right checksum begins at offset {at}"));
            self.lose(at, e.at(self.table.source.file.path().display()));
            self.report.blocks += 1;
            match walker.block_behind(at, to)? {
                Some(handle) => at = handle.offset,
                None => return Ok(()),
            }
        }
        if to == self.table.source.file_size && !self.has_ended(to) {
            let e = Error::corruption("the file ends, and nothing says that it had no more data blocks");
            self.lose(to, e.at(self.table.source.file.path().display()));
        }
        Ok(())
    }

    /// Whether there is no data block any more in the walk up to `to`.
    fn has_ended(&self, to: u64) -> bool {
        let points = |p: &TableProperties| p.num_entries.saturating_sub(p.num_range_deletions);
        let all = self.table.properties.as_ref().filter(|p| p.num_entries > 0).map(points);
        match all {
            Some(all) => all == self.report.entries,
            None => self.is_behind_data && to == self.table.source.file_size,
        }
    }

    /// The block at `at`, or behind the padding there.
    fn block_near(&mut self, walker: &mut Walker<'_>, at: u64, to: u64) -> Result<Option<BlockHandle>> {
        let found = walker.block_at(at, to)?;
        let aligned = at.next_multiple_of(4096);
        if found.is_some() || aligned == at || aligned >= to {
            return Ok(found);
        }
        walker.block_at(aligned, to)
    }

    /// Shows the entries of the block at `handle` if it is a data block.
    fn walked(
        &mut self,
        walker: &mut Walker<'_>,
        handle: BlockHandle,
        found: &mut BTreeSet<BlockHandle>,
    ) -> Result<()> {
        let source = &self.table.source;
        let block = match source.read(handle, BlockKind::Data, true) {
            Ok(block) => block,
            Err(e) if e.kind() == ErrorKind::Corruption => {
                // A filter, a dictionary or a single value is no key/value block.
                let raw = source.read(handle, BlockKind::Filter, true);
                if !raw.is_ok_and(|raw| !Block::has_form(raw.bytes())) {
                    self.report.blocks += 1;
                    self.lose(handle.offset, e);
                }
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        let Ok(contents) = block.key_value() else { return Ok(()) };
        let is_index = leads_to(source, contents, found);
        found.insert(handle);
        if is_index || is_meta_block(contents, source.file_size) {
            self.is_behind_data = true;
            return Ok(());
        }
        let sound = match is_like_an_index(source, contents, handle) {
            true => Err(Error::corruption("a block that may be of the index")),
            false => self.check_entries(contents),
        };
        self.report.blocks += 1;
        match sound {
            Ok(_) => {
                walker.note(handle, block.bytes().len());
                self.entries(contents)
            }
            Err(e) => {
                self.lose(handle.offset, source.at(e, handle));
                Ok(())
            }
        }
    }

    /// Records the loss of a data block.
    fn lose(&mut self, offset: u64, error: Error) {
        self.report.blocks_lost += 1;
        match &mut self.gap {
            Some(gap) => {
                gap.blocks += 1;
                gap.separator = None;
            }
            None => {
                let from = match self.last_key.is_empty() {
                    true => self.bounds.map(|(smallest, _)| self.plain_key_of_bound(smallest)),
                    false => Some(self.plain_key(key::user_key(&self.last_key))),
                };
                self.gap = Some(Gap { offset, blocks: 1, error, from, separator: None });
            }
        }
    }

    /// Whether the lost blocks may have newer versions of the user key of `first`, the first key
    /// behind them. The separator of the last lost block lies before that key if not.
    fn may_hide(&self, gap: &Gap, first: &[u8]) -> bool {
        gap.separator.as_deref().is_none_or(|separator| {
            let separator = self.plain_key(self.separator_user_key(separator));
            let first = self.plain_key(key::user_key(first));
            self.icmp.without_timestamp().compare_user_keys(&separator, &first).is_ge()
        })
    }

    fn separator_user_key<'s>(&self, separator: &'s [u8]) -> &'s [u8] {
        match &self.table.properties {
            Some(properties) if properties.index_key_is_user_key => separator,
            _ => key::user_key(separator),
        }
    }

    fn end_gap(&mut self, to: Option<Vec<u8>>, hides_last_key: bool) {
        if let Some(Gap { offset, blocks, error, from, .. }) = self.gap.take() {
            let keys = LostKeys { from, to };
            self.report.lost.push(LostBlocks { offset, blocks, error, keys, hides_last_key });
        }
    }

    /// Ends the run of lost blocks at the end of the data, whose index ends with `separator`.
    fn close_gap(&mut self, separator: Option<&[u8]>) {
        let of_bounds = self.bounds.map(|(_, largest)| self.plain_key_of_bound(largest));
        let of_index = separator.map(|separator| self.plain_key(self.separator_user_key(separator)));
        self.end_gap(of_bounds.or(of_index), false);
    }

    fn plain_key(&self, user_key: &[u8]) -> Vec<u8> {
        self.icmp.split_timestamp(user_key).0.to_vec()
    }

    fn plain_key_of_bound(&self, bound: &[u8]) -> Vec<u8> {
        self.bounds_icmp.split_timestamp(key::user_key(bound)).0.to_vec()
    }

    fn finish(mut self) -> Result<SalvageReport> {
        if let Some(properties) = &self.table.properties {
            let points = properties.num_entries.saturating_sub(properties.num_range_deletions);
            if properties.num_entries > 0 {
                self.report.entries_lost = Some(points.saturating_sub(self.report.entries));
            }
            if properties.num_data_blocks > 0 {
                let sound = self.report.blocks.saturating_sub(self.report.blocks_lost);
                self.report.blocks = properties.num_data_blocks;
                self.report.blocks_lost = self.report.blocks.saturating_sub(sound);
            }
        }
        if self.report.entries_lost == Some(0) {
            // The bytes that looked like lost blocks were no data.
            self.report.lost.clear();
            self.report.blocks_lost = 0;
        } else if self.report.entries_lost.is_some() && self.report.lost.is_empty() {
            let e = Error::corruption("the table has fewer entries than its properties say");
            self.lose_anywhere(e.at(self.table.source.file.path().display()));
        }
        match &self.table.tombstones {
            Tombstones::Known(tombstones) => {
                let sequence = self.sequence;
                let patched =
                    |t: &RangeTombstone| RangeTombstone { seq: sequence.unwrap_or(t.seq), ..t.clone() };
                self.report.tombstones = tombstones.iter().map(patched).collect();
            }
            Tombstones::Lost => self.report.tombstones_lost = Some(self.whole_range()),
        }
        Ok(self.report)
    }

    fn lose_anywhere(&mut self, error: Error) {
        let keys = self.whole_range();
        self.report.blocks_lost = self.report.blocks_lost.max(1);
        self.report.lost.push(LostBlocks { offset: 0, blocks: 1, error, keys, hides_last_key: true });
    }

    /// The keys between the table's bounds.
    fn whole_range(&self) -> LostKeys {
        let key = |bound: &Vec<u8>| Some(self.plain_key_of_bound(bound));
        match self.bounds {
            Some((smallest, largest)) => LostKeys { from: key(smallest), to: key(largest) },
            None => LostKeys { from: None, to: None },
        }
    }
}

fn items_of(block: &Block, shape: IndexShape) -> Result<Vec<IndexItem>> {
    let mut items = Vec::new();
    let mut cursor = IndexCursor::new(shape);
    cursor.seek_to_first(block)?;
    while cursor.valid() {
        items.push(IndexItem::Block { handle: cursor.handle(), separator: cursor.separator().to_vec() });
        cursor.next(block)?;
    }
    Ok(items)
}

/// The shapes that index entries may have, apart from their keys.
fn shapes(source: &BlockSource) -> [IndexShape; 4] {
    let shape = |value_is_delta_encoded, with_first_key| IndexShape {
        key_is_user_key: false,
        value_is_delta_encoded,
        with_first_key,
        value_escapes: value_is_delta_encoded && source.has_key_prefixes,
    };
    [shape(false, false), shape(true, false), shape(false, true), shape(true, true)]
}

/// Whether the first entry of the block is the handle of a block that was found: then it is a block
/// of the index.
fn leads_to(source: &BlockSource, block: &Block, found: &BTreeSet<BlockHandle>) -> bool {
    shapes(source).into_iter().any(|shape| {
        let mut cursor = IndexCursor::new(shape);
        cursor.seek_to_first(block).is_ok() && cursor.valid() && found.contains(&cursor.handle())
    })
}

/// Whether each entry of the block at `place` leads to a block before it, one behind the other.
fn is_like_an_index(source: &BlockSource, block: &Block, place: BlockHandle) -> bool {
    shapes(source).into_iter().any(|shape| {
        let Ok(items) = items_of(block, shape) else { return false };
        let mut end = 0;
        items.iter().all(|item| {
            let IndexItem::Block { handle, .. } = item else { return false };
            let follows = handle.offset >= end;
            end = handle.end().unwrap_or(u64::MAX);
            follows && end <= place.offset
        })
    })
}

/// Whether the block holds range deletions, properties, or the meta index.
fn is_meta_block(block: &Block, file_size: u64) -> bool {
    tail::holds_range_deletions(block)
        || tail::as_properties(block).is_some()
        || MetaIndex::parse(block, file_size).is_ok_and(|meta| meta.properties().is_some())
}
