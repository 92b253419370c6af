//! The visible versions of all sources of a family, in order.
//!
//! In: the memtable, some tables, and a timestamp. Out: for each user key the version that a reader
//! sees, and the merge operands above it.
//!
//! Invariant: a version is visible if its timestamp is not newer than that of the read, and no
//! visible range tombstone is newer. Without timestamps every version has the same one.

use crate::before_all_versions;
use crate::files::DirectoryFiles;
use crate::table::{TableBytes, TableCursor, is_deletion};
use crate::wal::SortedWalEntries;
use esker_base::{Error, Result, SequenceNumber, ValueType};
use esker_format::key::{self, InternalKeyComparator, ParsedInternalKey};
use esker_format::range_del::{FragmentedRangeTombstones, RangeTombstone, RangeTombstoneRef};

/// The timestamp of a read, and the orders of keys.
#[derive(Debug)]
pub(crate) struct ReadTime<'a> {
    pub(crate) icmp: &'a InternalKeyComparator,
    /// The order of keys without timestamps.
    pub(crate) plain: InternalKeyComparator,
    /// Empty if keys have no timestamps.
    timestamp: Vec<u8>,
}

impl<'a> ReadTime<'a> {
    /// A read at `timestamp`; `None` is the newest.
    /// # Errors
    /// `InvalidArgument` if keys have timestamps of another size, or none.
    pub(crate) fn new(icmp: &'a InternalKeyComparator, timestamp: Option<&[u8]>) -> Result<ReadTime<'a>> {
        let timestamp = timestamp.unwrap_or(icmp.max_timestamp());
        if timestamp.len() != icmp.timestamp_size() {
            let (given, size) = (timestamp.len(), icmp.timestamp_size());
            return Err(Error::invalid_argument(format!(
                "a timestamp of {given} bytes, and the family's have {size}"
            )));
        }
        Ok(ReadTime { icmp, plain: icmp.without_timestamp(), timestamp: timestamp.to_vec() })
    }

    fn sees(&self, timestamp: &[u8]) -> bool {
        self.icmp.compare_timestamps(timestamp, &self.timestamp).is_le()
    }

    /// The tombstones that the read sees, without their timestamps.
    pub(crate) fn seen(&self, tombstones: &[RangeTombstone]) -> FragmentedRangeTombstones {
        let seen = tombstones.iter().filter_map(|tombstone| {
            let (start, timestamp) = self.icmp.split_timestamp(&tombstone.start);
            let (end, _) = self.icmp.split_timestamp(&tombstone.end);
            self.sees(timestamp).then_some(RangeTombstoneRef { start, end, seq: tombstone.seq })
        });
        FragmentedRangeTombstones::from_refs(seen, &self.plain)
    }
}

/// A user key with the entries that make up its value.
#[derive(Debug)]
pub(crate) struct FoundKey {
    /// The key without its timestamp.
    pub(crate) user_key: Vec<u8>,
    /// The newest visible version that is no operand; `None` if it is a deletion, or there is none.
    pub(crate) base: Option<FoundVersion>,
    /// Merge operands above it, the newest first.
    pub(crate) operands: Vec<Vec<u8>>,
}

/// One version.
#[derive(Debug)]
pub(crate) struct FoundVersion {
    /// The key with its timestamp.
    pub(crate) stored_key: Vec<u8>,
    pub(crate) kind: ValueType,
    pub(crate) value: Vec<u8>,
}

/// A place in all sources.
#[derive(Debug)]
pub(crate) struct Versions<'a> {
    time: &'a ReadTime<'a>,
    memtable: &'a SortedWalEntries,
    /// The place in the memtable.
    at: usize,
    /// Tombstones of the memtable.
    tombstones: FragmentedRangeTombstones,
    cursors: Vec<TableCursor<'a>>,
}

impl<'a> Versions<'a> {
    pub(crate) fn new(
        memtable: &'a SortedWalEntries,
        tables: impl Iterator<Item = &'a TableBytes>,
        time: &'a ReadTime<'a>,
        files: &'a DirectoryFiles,
    ) -> Result<Versions<'a>> {
        let cursors = tables.map(|table| TableCursor::new(table, files, time)).collect::<Result<_>>()?;
        let tombstones = time.seen(&memtable.tombstones);
        Ok(Versions { time, memtable, at: 0, tombstones, cursors })
    }

    pub(crate) fn seek_to_first(&mut self) -> Result<()> {
        self.at = 0;
        self.cursors.iter_mut().try_for_each(TableCursor::seek_to_first)
    }

    /// Moves to the first entry whose key, without its timestamp, is at or after `user_key`.
    pub(crate) fn seek(&mut self, user_key: &[u8]) -> Result<()> {
        let icmp = self.time.icmp;
        let target = before_all_versions(user_key, icmp);
        self.at = self.memtable.entries.partition_point(|(key, _)| icmp.compare(key, &target).is_lt());
        self.cursors.iter_mut().try_for_each(|cursor| cursor.seek(user_key))
    }

    /// The next key of which the read sees a version, if only a deletion; `None` behind the last.
    /// Moves behind all versions of the key.
    pub(crate) fn next_key(&mut self) -> Result<Option<FoundKey>> {
        let icmp = self.time.icmp;
        let Some((_, first, _)) = self.here() else { return Ok(None) };
        let user_key = icmp.split_timestamp(key::user_key(first)).0.to_vec();
        let cover = self.newest_cover(&user_key);
        let mut found = FoundKey { user_key, base: None, operands: Vec::new() };
        let mut is_settled = false;
        while let Some((source, here, value)) = self.here() {
            let ParsedInternalKey { user_key: stored_key, sequence, value_type } =
                ParsedInternalKey::parse(here)?;
            let (plain_key, timestamp) = icmp.split_timestamp(stored_key);
            if plain_key != found.user_key {
                break;
            }
            if !is_settled && self.time.sees(timestamp) {
                match value_type {
                    _ if cover > sequence || is_deletion(value_type) => is_settled = true,
                    ValueType::Merge => found.operands.push(value.to_vec()),
                    kind => {
                        let (stored_key, value) = (stored_key.to_vec(), value.to_vec());
                        found.base = Some(FoundVersion { stored_key, kind, value });
                        is_settled = true;
                    }
                }
            }
            self.advance(source)?;
        }
        Ok(Some(found))
    }

    /// The first entry of all sources, with its source: `None` is the memtable.
    fn here(&self) -> Option<(Option<usize>, &[u8], &[u8])> {
        let memory = self.memtable.entries.get(self.at);
        let memory = memory.map(|(key, value)| (None, key.as_slice(), value.as_slice()));
        let stored = self.cursors.iter().enumerate();
        let stored = stored.filter_map(|(i, cursor)| Some((Some(i), cursor.key()?, cursor.value())));
        memory.into_iter().chain(stored).min_by(|(_, a, _), (_, b, _)| self.time.icmp.compare(a, b))
    }

    fn advance(&mut self, source: Option<usize>) -> Result<()> {
        match source.and_then(|i| self.cursors.get_mut(i)) {
            Some(cursor) => cursor.next(),
            None => {
                self.at += 1;
                Ok(())
            }
        }
    }

    /// The sequence number of the newest range tombstone over the key, which has no timestamp.
    fn newest_cover(&self, user_key: &[u8]) -> SequenceNumber {
        let memory = self.tombstones.max_covering_seq(user_key, &self.time.plain, SequenceNumber::MAX);
        self.cursors.iter().map(|cursor| cursor.newest_cover(user_key)).fold(memory, SequenceNumber::max)
    }
}
