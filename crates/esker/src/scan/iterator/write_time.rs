//! The time at which the entry at an iterator was written: RocksDB's iterator property
//! `rocksdb.iterator.write-time`.
//!
//! In: the entry at the iterator. Out: its time by the samples of the table, or of the database if
//! a memtable has it. The entry is searched again, so iterators that nobody asks pay nothing.

use super::DbIterator;
use crate::cf::SuperVersion;
use crate::files::open_table::open_file;
use esker_base::sync::Arc;
use esker_base::{Error, Result, SequenceNumber, ValueType};
use esker_format::cursor::InternalIterator;
use esker_format::key::{ParsedInternalKey, seek_key};
use esker_format::seqno_to_time::SeqnoToTimeMapping;
use esker_table::TableReadOptions;

/// A time that is not known.
const UNKNOWN: u64 = u64::MAX;

impl DbIterator {
    /// Unix seconds: a time before which the entry here was not written, by the times that families
    /// with `preserve_internal_time_seconds` or `preclude_last_level_data_seconds` record.
    /// `u64::MAX` if no time is recorded, 0 if the entry is older than all recorded times. Of a
    /// merged value, the time of the newest operand. RocksDB has it as the iterator property
    /// `rocksdb.iterator.write-time`. Costs one lookup of the key.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel")?;
    /// let mut iter = db.iter()?;
    /// iter.seek_to_first();
    /// assert_eq!(iter.write_unix_time()?, u64::MAX, "the family records no times");
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the iterator is at no entry, or has `iter_start_ts` · `Corruption` and
    /// `IoError` name the file · `NotSupported` in a forked child process.
    pub fn write_unix_time(&self) -> Result<u64> {
        self.db.engine.check_process()?;
        if !self.valid() || self.options.iter_start_ts.is_some() {
            return Err(Error::invalid_argument("write_unix_time: the iterator is at no entry"));
        }
        let snapshot = self.options.snapshot.as_ref().or(self.held.as_ref());
        let sequence = snapshot.map_or(SequenceNumber::MAX, |snapshot| snapshot.sequence());
        let user_key = [self.key(), self.timestamp()].concat();
        self.time_of(&user_key, sequence)
    }

    /// The time of the newest version of `user_key` that a reader at `sequence` sees.
    fn time_of(&self, user_key: &[u8], sequence: SequenceNumber) -> Result<u64> {
        let super_version: Arc<SuperVersion> = self.cf.pinned_super_version();
        let target = seek_key(user_key, sequence);
        for mem in super_version.memtables() {
            let mut iter = mem.iter();
            iter.seek(&target);
            let Some((found, value)) = self.found(&iter, user_key)? else { continue };
            if found.value_type == ValueType::ValuePreferredSeqno {
                return last_word(value);
            }
            let samples = self.db.engine.state.lock().times.samples().clone();
            return Ok(if samples.pairs().is_empty() {
                UNKNOWN
            } else {
                samples.time_before(found.sequence)
            });
        }
        let icmp = &self.cf.icmp;
        for (_, file) in super_version.version.candidates(&target) {
            let reader = open_file(&self.cf.tables, file)?;
            let mut iter = reader.iter(TableReadOptions { fill_cache: false, ..TableReadOptions::default() });
            let stored = if reader.lacks_timestamps() { icmp.split_timestamp(user_key).0 } else { user_key };
            iter.seek(&seek_key(stored, sequence));
            let Some((found, value)) = self.found(&iter, stored)? else { continue };
            let samples = &reader.properties().seqno_to_time_mapping;
            if found.sequence == SequenceNumber::ZERO {
                return Ok(0);
            }
            if samples.is_empty() {
                return Ok(UNKNOWN);
            }
            let preferred = match found.value_type {
                ValueType::ValuePreferredSeqno => SequenceNumber(last_word(value)?),
                _ => found.sequence,
            };
            let samples = SeqnoToTimeMapping::from_samples(SeqnoToTimeMapping::decode(samples)?);
            return Ok(samples.time_before(preferred));
        }
        Ok(UNKNOWN)
    }

    /// Key and value of the entry at `iter`, if it is one of `user_key`.
    fn found<'i>(
        &self,
        iter: &'i dyn InternalIterator,
        user_key: &[u8],
    ) -> Result<Option<(ParsedInternalKey<'i>, &'i [u8])>> {
        if !iter.valid() {
            return iter.status().map(|()| None);
        }
        let key = ParsedInternalKey::parse(iter.key())?;
        let is_it = self.cf.icmp.compare_plain_keys(key.user_key, user_key).is_eq();
        Ok(is_it.then(|| (key, iter.value())))
    }
}

/// The number in the last eight bytes of a timed value.
fn last_word(value: &[u8]) -> Result<u64> {
    let word = value.last_chunk().ok_or_else(|| Error::corruption("a timed value has no time"))?;
    Ok(u64::from_le_bytes(*word))
}
