//! Checks a whole table.
//!
//! In: an open table. Out: nothing, or the first error. Checks the checksums of all blocks, the
//! order of keys, restart points, separators, the filter, and the counts in the properties. Also
//! checks sequence numbers against the MANIFEST, and that each value of a timed put
//! (`ValuePreferredSeqno`) ends with a preferred sequence number.

use crate::block_source::{BlockKind, BlockRef, CachedBlock};
use crate::index_walker::IndexWalker;
use crate::options::TableReadOptions;
use crate::reader::TableReader;
use esker_base::{Error, ErrorKind, Result, SequenceNumber, ValueType};
use esker_format::block::{BlockCursor, RestartCheck};
use esker_format::handle::BlockHandle;
use esker_format::key::{self, ParsedInternalKey};

/// Verification reads every block from the file, and does not change the cache.
const OPTIONS: TableReadOptions = TableReadOptions {
    verify_checksums: true,
    fill_cache: false,
    read_tier: crate::options::TableReadTier::ReadAll,
    readahead_size: 0,
    prefix_filter_on_seek: false,
    async_io: false,
    deadline_micros: u64::MAX,
    activity: esker_base::IoActivity::Unknown,
};

/// State of the verification after the blocks so far.
#[derive(Default)]
struct VerifiedEntries {
    entries: u64,
    last_key: Vec<u8>,
    /// The separator of the previous block. `partition_separator` is the separator of that block's
    /// index partition, if the index has partitions.
    separator: Vec<u8>,
    partition_separator: Vec<u8>,
    /// The index partition whose restart points were checked last.
    partition: Option<BlockHandle>,
}

impl TableReader {
    /// Reads every block of the table. Checks checksums, the order of keys, separators, the filter,
    /// counts and sequence numbers.
    ///
    /// `progress` gets the number of bytes done so far. If it returns false, the verification stops
    /// with `Aborted`.
    /// # Errors
    /// The first `Corruption` or `IoError`.
    pub fn verify(&self, progress: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        let mut walker = self.walker(&OPTIONS)?;
        let mut readahead = self.whole_file_readahead();
        let mut seen = VerifiedEntries::default();
        let mut bytes = 0;
        walker.seek_to_first(&self.source, &OPTIONS).map_err(|e| self.source.in_file(e))?;
        while walker.valid() {
            walker.check_restarts(&mut seen.partition).map_err(|e| self.source.in_file(e))?;
            let handle = walker.handle();
            let block = self.source.read_with((&mut readahead, false), handle, BlockKind::Data, true)?;
            self.verify_block(&block, &walker, &mut seen).map_err(|e| self.source.at(e, handle))?;
            bytes += handle.size;
            if !progress(bytes) {
                return Err(Error::aborted("verification was stopped"));
            }
            walker.next(&self.source, &OPTIONS).map_err(|e| self.source.in_file(e))?;
        }
        self.verify_counts(&seen).map_err(|e| self.source.in_file(e))?;
        self.verify_meta_blocks()
    }

    fn verify_block(
        &self,
        block: &CachedBlock,
        walker: &IndexWalker<BlockRef>,
        seen: &mut VerifiedEntries,
    ) -> Result<()> {
        let icmp = &self.options.icmp;
        let block = block.key_value()?;
        let newest = self.newest_stored();
        let (mut cursor, mut restarts) = (BlockCursor::new(), RestartCheck::default());
        cursor.seek_to_first(block)?;
        let mut is_first = true;
        while cursor.valid() {
            restarts.entry(block, &cursor)?;
            let here = cursor.key();
            check_entry(here, cursor.value(block), newest)?;
            if !seen.last_key.is_empty() && icmp.compare(&seen.last_key, here).is_ge() {
                return Err(out_of_order(&seen.last_key, here, "the key before it"));
            }
            if is_first {
                self.verify_separators_before(seen, walker, here)?;
            }
            if !self.may_contain(&OPTIONS, key::user_key(here)) {
                return Err(Error::corruption(format!(
                    "the filter denies the key '{}'",
                    here.escape_ascii()
                )));
            }
            seen.last_key.clear();
            seen.last_key.extend_from_slice(here);
            seen.entries += 1;
            is_first = false;
            cursor.next(block)?;
        }
        restarts.end(block)?;
        let above = walker.partition_separator();
        for separator in [Some(walker.separator()), above].into_iter().flatten() {
            if !seen.last_key.is_empty() && self.separator_is_before(separator, &seen.last_key).is_lt() {
                return Err(out_of_order(&seen.last_key, separator, "the last key of its block"));
            }
        }
        seen.separator = walker.separator().to_vec();
        seen.partition_separator = above.unwrap_or_default().to_vec();
        Ok(())
    }

    /// Checks that the separators of the previous block and its partition lie before `here`, the
    /// first key of this block.
    fn verify_separators_before(
        &self,
        seen: &VerifiedEntries,
        walker: &IndexWalker<BlockRef>,
        here: &[u8],
    ) -> Result<()> {
        let leads_here =
            |separator: &[u8]| !separator.is_empty() && self.separator_is_before(separator, here).is_ge();
        if leads_here(&seen.separator) {
            return Err(out_of_order(&seen.separator, here, "the index entry of the block before"));
        }
        let is_of_another =
            walker.partition_separator().is_some_and(|above| above != seen.partition_separator);
        if is_of_another && leads_here(&seen.partition_separator) {
            return Err(out_of_order(
                &seen.partition_separator,
                here,
                "the index entry of the partition before",
            ));
        }
        Ok(())
    }

    /// The largest sequence number that an entry in the file may have: the bound in the MANIFEST.
    /// Reads rely on the bound: they could miss an entry with a larger number, or show it although
    /// a deletion covers it. In a file with a global sequence number all stored numbers are 0.
    fn newest_stored(&self) -> SequenceNumber {
        match self.options.largest_seqno {
            _ if self.global_seqno().is_some() => SequenceNumber::ZERO,
            largest => largest.unwrap_or(SequenceNumber::MAX),
        }
    }

    /// Compares a separator with an internal key.
    fn separator_is_before(&self, separator: &[u8], internal_key: &[u8]) -> std::cmp::Ordering {
        let icmp = &self.options.icmp;
        // `embedded.rs` puts values back into a block, and so changes the types of their entries.
        // The separator has the old type, so compare user keys only.
        if self.index_shape.key_is_user_key || self.properties.has_embedded_blobs() {
            icmp.compare_user_keys(separator, key::user_key(internal_key))
        } else {
            icmp.compare(separator, internal_key)
        }
    }

    fn verify_counts(&self, seen: &VerifiedEntries) -> Result<()> {
        let deletions = self.range_dels().map_or(SequenceNumber::ZERO, |deletions| deletions.max_seq());
        if let Some(largest) = self.options.largest_seqno.filter(|largest| deletions > *largest) {
            return Err(too_new(&format_args!("a range deletion"), deletions, largest));
        }
        let p = &self.properties;
        let points = p.num_entries.saturating_sub(p.num_range_deletions);
        // Files that are older than the property `num_entries` lack it.
        if p.num_entries != 0 && points != seen.entries {
            return Err(Error::corruption(format!(
                "the table has {} point entries, its properties say {points}",
                seen.entries
            )));
        }
        Ok(())
    }

    fn verify_meta_blocks(&self) -> Result<()> {
        for (name, handle) in self.meta.iter() {
            // An ingestion may have changed the properties without a new checksum. The open has
            // checked them.
            let is_patched = self.properties.external_sst_file_global_seqno.is_some_and(|s| s != 0)
                && Some(handle) == self.meta.properties();
            self.source.read_checked(handle, |stored| {
                match self.source.guard.check(&stored, handle.offset) {
                    Err(e) if e.kind() == ErrorKind::Corruption && is_patched => Ok(()),
                    checked => checked.map(drop).map_err(|e| {
                        self.source.at(e.at(format_args!("block '{}'", name.escape_ascii())), handle)
                    }),
                }
            })?;
        }
        Ok(())
    }
}

/// Checks that the internal key is well-formed and not newer than `newest`. Also checks that the
/// value of a timed put is long enough for its preferred sequence number.
pub(crate) fn check_entry(internal_key: &[u8], value: &[u8], newest: SequenceNumber) -> Result<()> {
    let entry = ParsedInternalKey::parse(internal_key)?;
    if entry.sequence > newest {
        return Err(too_new(&format_args!("'{}'", internal_key.escape_ascii()), entry.sequence, newest));
    }
    if entry.value_type == ValueType::ValuePreferredSeqno && value.len() < size_of::<u64>() {
        return Err(Error::corruption(format!(
            "the timed value of '{}' is shorter than its sequence number",
            internal_key.escape_ascii()
        )));
    }
    Ok(())
}

#[cold]
fn too_new(what: &dyn std::fmt::Display, sequence: SequenceNumber, newest: SequenceNumber) -> Error {
    Error::corruption(format!("{what} has sequence number {sequence}, the newest of the file is {newest}"))
}

#[cold]
fn out_of_order(before: &[u8], here: &[u8], what: &str) -> Error {
    Error::corruption(format!("'{}' is not behind {what}, '{}'", here.escape_ascii(), before.escape_ascii()))
}
