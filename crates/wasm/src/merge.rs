//! The versions of all sources of a family, in order.
//!
//! In: the memtable and some tables. Out: for each user key its newest version, and whether a range
//! tombstone hides it.

use crate::before_all_versions;
use crate::files::DirectoryFiles;
use crate::table::{TableBytes, TableCursor, is_deletion};
use crate::wal::SortedWalEntries;
use esker_base::{Result, SequenceNumber, ValueType};
use esker_format::key::{self, InternalKeyComparator, ParsedInternalKey};

/// The newest version of a user key.
#[derive(Debug)]
pub(crate) struct NewestVersion {
    pub(crate) user_key: Vec<u8>,
    pub(crate) kind: ValueType,
    pub(crate) value: Vec<u8>,
    /// Whether it is a deletion, or a range tombstone hides it.
    pub(crate) is_deleted: bool,
}

/// A place in all sources.
#[derive(Debug)]
pub(crate) struct Versions<'a> {
    icmp: &'a InternalKeyComparator,
    memtable: &'a SortedWalEntries,
    /// The place in the memtable.
    at: usize,
    tables: Vec<&'a TableBytes>,
    cursors: Vec<TableCursor<'a>>,
}

impl<'a> Versions<'a> {
    pub(crate) fn new(
        memtable: &'a SortedWalEntries,
        tables: impl Iterator<Item = &'a TableBytes>,
        icmp: &'a InternalKeyComparator,
        files: &'a DirectoryFiles,
    ) -> Result<Versions<'a>> {
        let tables: Vec<&TableBytes> = tables.collect();
        let cursors = tables.iter().map(|table| TableCursor::new(table, files)).collect::<Result<_>>()?;
        Ok(Versions { icmp, memtable, at: 0, tables, cursors })
    }

    pub(crate) fn seek_to_first(&mut self) -> Result<()> {
        self.at = 0;
        self.cursors.iter_mut().try_for_each(TableCursor::seek_to_first)
    }

    /// Moves to the first entry whose user key is at or after `user_key`.
    pub(crate) fn seek(&mut self, user_key: &[u8]) -> Result<()> {
        let target = before_all_versions(user_key);
        self.at = self.memtable.entries.partition_point(|(key, _)| self.icmp.compare(key, &target).is_lt());
        self.cursors.iter_mut().try_for_each(|cursor| cursor.seek(user_key, self.icmp))
    }

    /// The version here, which is the newest of its user key; `None` behind the last.
    pub(crate) fn newest(&self) -> Result<Option<NewestVersion>> {
        let memory =
            self.memtable.entries.get(self.at).map(|(key, value)| (key.as_slice(), value.as_slice()));
        let stored = self.cursors.iter().filter_map(|cursor| Some((cursor.key()?, cursor.value())));
        let Some((here, value)) =
            memory.into_iter().chain(stored).min_by(|(a, _), (b, _)| self.icmp.compare(a, b))
        else {
            return Ok(None);
        };
        let ParsedInternalKey { user_key, sequence, value_type } = ParsedInternalKey::parse(here)?;
        let is_deleted = is_deletion(value_type) || self.newest_cover(user_key) > sequence;
        Ok(Some(NewestVersion {
            user_key: user_key.to_vec(),
            kind: value_type,
            value: value.to_vec(),
            is_deleted,
        }))
    }

    /// The sequence number of the newest range tombstone over the key.
    fn newest_cover(&self, user_key: &[u8]) -> SequenceNumber {
        let memory = self.memtable.tombstones.max_covering_seq(user_key, self.icmp, SequenceNumber::MAX);
        let covers = self.tables.iter().map(|table| table.newest_cover(user_key, self.icmp));
        covers.fold(memory, SequenceNumber::max)
    }

    /// Moves behind all versions of a user key.
    pub(crate) fn skip(&mut self, user_key: &[u8]) -> Result<()> {
        let is_same = |internal: &[u8]| self.icmp.same_user_key(key::user_key(internal), user_key);
        while self.memtable.entries.get(self.at).is_some_and(|(key, _)| is_same(key)) {
            self.at += 1;
        }
        for cursor in &mut self.cursors {
            while cursor.key().is_some_and(is_same) {
                cursor.next()?;
            }
        }
        Ok(())
    }
}
