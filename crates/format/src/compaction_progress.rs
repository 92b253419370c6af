//! The progress of a compaction that another worker may resume.
//!
//! In: finished outputs and the place at which the compaction goes on. Out: the records of a
//! progress file, which is a log, and back. Each record adds the files since the record before.
//! Source: RocksDB `db/version_edit.h` (`SubcompactionProgress`).
//!
//! ```text
//! record   := 8202 | length | progress                        a version edit with this tag alone
//! progress := item* 1
//! item     := tag varint32 | length | value
//!               2 next internal key | 3 input records varint64 | 4 level | 5 proximal level
//!               65537 Esker's part
//! level    := (tag varint32 | length | value)* 1
//!               2 files | 3 output records varint64
//! files    := count varint32 | (length | NewFile4 with level -1)*
//! part     := job 16 bytes | count varint32 | counts varint64*
//! ```
//!
//! Invariants
//!  1. Readers skip unknown tags with bit 16, so RocksDB reads records with Esker's part.
//!
//! Page: `docs/format/compaction-service.md`.

use crate::version_edit::FileMetaData;
use esker_base::coding::{Decoder, put_length_prefixed, put_varint32, put_varint64};
use esker_base::{Error, Result};

#[cfg(test)]
mod tests;

/// The tag of a version edit that holds progress.
const SUBCOMPACTION_PROGRESS: u32 = 8202;
/// Tags of a version edit with this bit may be skipped.
const EDIT_SAFE_TO_IGNORE: u32 = 1 << 13;
/// Tags of progress with this bit may be skipped.
const SAFE_TO_IGNORE: u32 = 1 << 16;
/// Ends the items of progress and of a level.
const TERMINATE: u32 = 1;
const NEXT_KEY: u32 = 2;
const INPUT_RECORDS: u32 = 3;
const OUTPUT_LEVEL: u32 = 4;
const PROXIMAL_LEVEL: u32 = 5;
const OWN_PART: u32 = SAFE_TO_IGNORE | 1;
const LEVEL_FILES: u32 = 2;
const LEVEL_RECORDS: u32 = 3;

/// Progress of one key range of a compaction.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CompactionProgress {
    /// The internal key at which the compaction goes on.
    pub next_key: Vec<u8>,
    /// Number of entries read before that key; 0: unknown.
    pub input_records: u64,
    /// Outputs for the output level.
    pub output: LevelProgress,
    /// Outputs for the level above it, where a tiered compaction writes young entries.
    pub proximal: LevelProgress,
    /// Facts that RocksDB's workers do not record.
    pub own: Option<OwnProgress>,
}

/// Outputs of a compaction for one level.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LevelProgress {
    /// Number of point entries in all files so far.
    pub output_records: u64,
    /// Finished files in the order of keys; in a record, those since the record before.
    pub files: Vec<FileMetaData>,
}

/// Esker's part of a record.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct OwnProgress {
    /// A hash of the job: progress of another job must not be used.
    pub job: u128,
    /// Counts of entries by outcome, in an order that the engine defines.
    pub counts: Vec<u64>,
}

impl CompactionProgress {
    /// The record: a version edit that holds only this progress.
    pub fn encode(&self) -> Vec<u8> {
        let mut progress = Vec::new();
        if !self.next_key.is_empty() {
            put_item(&mut progress, NEXT_KEY, &self.next_key);
        }
        put_item(&mut progress, INPUT_RECORDS, &varint(self.input_records));
        for (tag, level) in [(OUTPUT_LEVEL, &self.output), (PROXIMAL_LEVEL, &self.proximal)] {
            if *level != LevelProgress::default() {
                put_item(&mut progress, tag, &level.encode());
            }
        }
        if let Some(own) = &self.own {
            put_item(&mut progress, OWN_PART, &own.encode());
        }
        put_varint32(&mut progress, TERMINATE);
        let mut record = Vec::new();
        put_item(&mut record, SUBCOMPACTION_PROGRESS, &progress);
        record
    }

    /// Parses a record. `None`: it is a version edit without progress.
    /// # Errors
    /// `Corruption`: the record is cut off or contradicts itself · `NotSupported`: it has an item
    /// that must be understood.
    pub fn decode(record: &[u8]) -> Result<Option<CompactionProgress>> {
        let (mut d, mut found) = (Decoder::new(record), None);
        while !d.is_empty() {
            match d.varint32()? {
                SUBCOMPACTION_PROGRESS => {
                    found = Some(Self::decode_items(&mut Decoder::new(d.length_prefixed()?))?);
                }
                tag if tag & EDIT_SAFE_TO_IGNORE != 0 => drop(d.length_prefixed()?),
                tag => return Err(Error::corruption(format!("tag {tag} in a record of progress"))),
            }
        }
        Ok(found)
    }

    fn decode_items(d: &mut Decoder<'_>) -> Result<CompactionProgress> {
        let mut progress = CompactionProgress::default();
        for_each_item(d, &mut |tag, mut item| {
            match tag {
                NEXT_KEY => progress.next_key = item.rest().to_vec(),
                INPUT_RECORDS => progress.input_records = item.varint64()?,
                OUTPUT_LEVEL => progress.output = LevelProgress::decode(&mut item)?,
                PROXIMAL_LEVEL => progress.proximal = LevelProgress::decode(&mut item)?,
                OWN_PART => progress.own = Some(OwnProgress::decode(&mut item)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(progress)
    }

    /// Adds a later record of the same file.
    pub fn add(&mut self, later: CompactionProgress) {
        self.next_key = later.next_key;
        self.input_records = later.input_records;
        self.own = later.own;
        self.output.add(later.output);
        self.proximal.add(later.proximal);
    }
}

impl LevelProgress {
    fn add(&mut self, later: LevelProgress) {
        if !later.files.is_empty() {
            self.files.extend(later.files);
            self.output_records = later.output_records;
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut level = Vec::new();
        if self.output_records > 0 {
            put_item(&mut level, LEVEL_RECORDS, &varint(self.output_records));
        }
        if !self.files.is_empty() {
            let mut files = varint(self.files.len() as u64);
            for file in &self.files {
                put_length_prefixed(&mut files, &file.encode_without_level());
            }
            put_item(&mut level, LEVEL_FILES, &files);
        }
        put_varint32(&mut level, TERMINATE);
        level
    }

    fn decode(d: &mut Decoder<'_>) -> Result<LevelProgress> {
        let mut level = LevelProgress::default();
        for_each_item(d, &mut |tag, mut item| {
            match tag {
                LEVEL_RECORDS => level.output_records = item.varint64()?,
                LEVEL_FILES => {
                    for _ in 0..item.varint32()? {
                        level.files.push(FileMetaData::decode_without_level(item.length_prefixed()?)?);
                    }
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(level)
    }
}

impl OwnProgress {
    fn encode(&self) -> Vec<u8> {
        let mut out = self.job.to_le_bytes().to_vec();
        out.extend(varint(self.counts.len() as u64));
        self.counts.iter().for_each(|count| put_varint64(&mut out, *count));
        out
    }

    fn decode(d: &mut Decoder<'_>) -> Result<OwnProgress> {
        let (low, high) = (d.fixed64()?, d.fixed64()?);
        let mut own = OwnProgress { job: u128::from(high) << 64 | u128::from(low), counts: Vec::new() };
        for _ in 0..d.varint32()? {
            own.counts.push(d.varint64()?);
        }
        Ok(own)
    }
}

/// Calls `take` with each item up to the terminator. `take` returns whether it knows the tag.
fn for_each_item(d: &mut Decoder<'_>, take: &mut dyn FnMut(u32, Decoder<'_>) -> Result<bool>) -> Result<()> {
    loop {
        let tag = d.varint32()?;
        if tag == TERMINATE {
            return Ok(());
        }
        let item = Decoder::new(d.length_prefixed()?);
        let is_known = take(tag, item).map_err(|e| e.at(format_args!("progress, tag {tag}")))?;
        if !is_known && tag & SAFE_TO_IGNORE == 0 {
            return Err(Error::not_supported(format!("progress has the unknown tag {tag}")));
        }
    }
}

fn put_item(out: &mut Vec<u8>, tag: u32, value: &[u8]) {
    put_varint32(out, tag);
    put_length_prefixed(out, value);
}

fn varint(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint64(&mut out, value);
    out
}
