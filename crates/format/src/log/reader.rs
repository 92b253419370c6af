//! Finds the logical records of a log, and classifies everything else.
//!
//! Two layers: `blocks` cuts a block into physical records and checks each;
//! `LogReader::next_record` joins them to logical records. No bytes of an open record are kept
//! between two calls: its interruption is an event, and the next call continues behind it. A record
//! about the log itself empties the open record, which then continues.

mod blocks;

use super::compressed::RecordDecompressor;
use super::{RecordType, stored_log_number, strict::describe};
use blocks::{Blocks, Physical};
use esker_base::coding::Decoder;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

/// The bytes of a log, from front to back.
pub trait LogSource {
    /// Fills `buf` from the front and returns the number of bytes; 0 only at the end.
    /// # Errors
    /// Any error of the source. The reader returns it and then treats the log as ended.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize>;

    /// Lets the next read begin at `offset`, counted from the front of the log, if the source can.
    /// Returns whether it can. The reader calls this when it has passed zeros and then meets
    /// records: a writer beside it may have filled the zeros meanwhile.
    fn try_seek(&mut self, offset: u64) -> bool {
        let _ = offset;
        false
    }
}

impl<F: FnMut(&mut [u8]) -> Result<usize>> LogSource for F {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self(buf)
    }
}

/// A source that can be read again from any offset.
pub trait SeekSource: LogSource {
    /// Lets the next read begin at `offset`, counted from the front of the log.
    fn seek(&mut self, offset: u64);
}

/// A place between two events of a log, with the state of the reader there.
#[derive(Clone, Debug)]
pub struct LogMark {
    offset: u64,
    recycled: bool,
    has_compression: bool,
    compression_seen: bool,
    record_seen: bool,
    emptied: Option<u64>,
    timestamp_sizes: usize,
}

impl LogMark {
    /// The file offset of the place.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

/// A log that lies in memory.
#[derive(Clone, Copy, Debug)]
pub struct SliceSource<'a>(pub &'a [u8]);

impl LogSource for SliceSource<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let (now, later) = self.0.split_at(buf.len().min(self.0.len()));
        for (to, from) in buf.iter_mut().zip(now) {
            *to = *from;
        }
        self.0 = later;
        Ok(now.len())
    }
}

/// The state of the previous log at the creation of this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PredecessorWal {
    /// The number of the previous log.
    pub log_number: FileNumber,
    /// The size of the previous log in bytes.
    pub size_bytes: u64,
    /// The last sequence number in the previous log; 0 if it held no record.
    pub last_sequence: SequenceNumber,
}

/// The place in a record at which a log ends, after a crash during a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Truncation {
    /// The damage is in a header.
    Header,
    /// The damage is in a payload. A damaged size that points beyond the end looks the same.
    Body,
    /// Between the fragments of a record.
    Fragment,
}

/// The kind of damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogCorruption {
    /// The stored CRC is not that of the bytes; the rest of the block is dropped.
    ChecksumMismatch,
    /// The record would reach beyond its block; the rest of the block is dropped.
    BadLength,
    /// A record has a start and no end.
    PartialRecord,
    /// A middle or last fragment without a first.
    MissingStart,
    /// A type that this version does not know and may not skip.
    UnknownType(u8),
    /// A recyclable record in a log whose first records are not recyclable; the rest of the block
    /// is dropped.
    UnexpectedRecyclable,
    /// The compression record is not the first record or not the only one, or names an algorithm
    /// that logs cannot have.
    BadSetCompression,
    /// A fragment of a compressed record does not decompress, or the record ends within its frame.
    BadCompression,
    /// A record about timestamp sizes contradicts itself or an earlier one.
    BadTimestampSizes,
    /// A record about the predecessor is too short.
    BadPredecessor,
}

/// One event of a log: a record, or another run of bytes. Each offset is that of its first byte in
/// the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogEvent {
    /// A logical record. Its bytes are in the caller's buffer.
    Record {
        /// Offset of the record.
        offset: u64,
    },
    /// The log ends behind a record, or with zeros.
    End,
    /// The log ends within a record; the next event is `End`.
    Truncated {
        /// The place in the record.
        what: Truncation,
        /// Offset of the unfinished part.
        offset: u64,
        /// Number of bytes dropped.
        dropped: usize,
    },
    /// Damage. Reading may continue behind it.
    Corrupt {
        /// The kind of damage.
        what: LogCorruption,
        /// Offset of the damage.
        offset: u64,
        /// Number of bytes dropped, including those of an interrupted record.
        dropped: usize,
        /// Whether the log has recyclable records. If so, the log may end here, and the rest of the
        /// file may belong to an older log.
        recycled: bool,
    },
    /// A record of an older log, whose file this log reuses. Reading may continue behind it.
    OldRecord {
        /// Offset of the old record.
        offset: u64,
        /// Whether the old record interrupts a record of this log.
        in_fragment: bool,
    },
    /// A record of a compressed log does not decompress, and no record was open. The rest of the
    /// block is dropped. RocksDB drops it silently in every recovery mode.
    Undecodable {
        /// Offset of the record.
        offset: u64,
        /// Number of bytes dropped.
        dropped: usize,
    },
    /// A skipped record of an unknown type that may be skipped.
    Ignored {
        /// Offset of the record.
        offset: u64,
        /// The record's type, 128 or more.
        record_type: u8,
    },
    /// The state of the previous log, as the writer of this log recorded it.
    Predecessor(PredecessorWal),
    /// [`LogReader::timestamp_sizes`] has grown; it applies to the records that follow.
    TimestampSizes,
}

impl fmt::Display for LogEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(self, f)
    }
}

/// Reads a log. Holds one block; the open record lies in the caller's buffer.
#[derive(Debug)]
pub struct LogReader<S> {
    blocks: Blocks<S>,
    decompressor: Option<RecordDecompressor>,
    /// The decompressed payload of the current record, in a compressed log.
    piece: Vec<u8>,
    /// Whether a record about compression was read.
    compression_seen: bool,
    record_seen: bool,
    /// Offset of the open record, if a record about the log has emptied it.
    emptied: Option<u64>,
    max_record_bytes: usize,
    timestamp_sizes: Vec<(ColumnFamilyId, u16)>,
    /// The families in `timestamp_sizes`.
    timestamped: BTreeSet<ColumnFamilyId>,
}

impl<S: LogSource> LogReader<S> {
    /// A reader at the front of the log `log_number` (0 for a MANIFEST).
    pub fn new(source: S, log_number: u64) -> LogReader<S> {
        LogReader {
            blocks: Blocks::new(source, stored_log_number(log_number)),
            decompressor: None,
            piece: Vec::new(),
            compression_seen: false,
            record_seen: false,
            emptied: None,
            max_record_bytes: u32::MAX as usize,
            timestamp_sizes: Vec::new(),
            timestamped: BTreeSet::new(),
        }
    }

    /// Limits the length of a decompressed record; the default is 4 GiB. A longer record is
    /// `BadCompression`.
    #[must_use]
    pub fn with_max_record_bytes(mut self, bytes: usize) -> LogReader<S> {
        self.max_record_bytes = bytes;
        self
    }

    /// Reads records without comparing their checksums.
    #[must_use]
    pub fn without_checksums(mut self) -> LogReader<S> {
        self.blocks.verifies = false;
        self
    }

    /// The source.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.blocks.source
    }

    /// Sizes of user-defined timestamps that the log has stated so far, by family. Other families
    /// have no timestamps.
    pub fn timestamp_sizes(&self) -> &[(ColumnFamilyId, u16)] {
        &self.timestamp_sizes
    }

    /// Whether the log has recyclable records up to here.
    pub fn is_recycled(&self) -> bool {
        self.blocks.recycled
    }

    /// The file offset behind the last physical record read. After `End`, if nothing was dropped, a
    /// writer may continue there.
    pub fn offset(&self) -> u64 {
        self.blocks.offset()
    }

    /// The place behind the last event. While a log is still being written, a reader can return to
    /// a place behind a whole record with [`LogReader::go_back`].
    pub fn mark(&self) -> LogMark {
        LogMark {
            offset: self.blocks.offset(),
            recycled: self.blocks.recycled,
            has_compression: self.decompressor.is_some(),
            compression_seen: self.compression_seen,
            record_seen: self.record_seen,
            emptied: self.emptied,
            timestamp_sizes: self.timestamp_sizes.len(),
        }
    }

    /// The next event. After `LogEvent::Record` `buf` holds the record; after other events its
    /// contents are unspecified.
    /// # Errors
    /// Those of the source: the next event is then `End`. In a build without the feature `zstd`,
    /// `NotSupported` from the first compressed record on.
    pub fn next_record(&mut self, buf: &mut Vec<u8>) -> Result<LogEvent> {
        buf.clear();
        let mut open = OpenRecord { at: self.emptied.take() };
        loop {
            let physical = self.blocks.next_physical(self.record_seen)?;
            let event = self.step(physical, &mut open, buf);
            if !RecordDecompressor::IS_BUILT_IN && self.decompressor.is_some() {
                return Err(Error::not_supported(
                    "compressed WAL: Esker was built without its feature `zstd`",
                ));
            }
            if let Some(event) = event {
                return Ok(event);
            }
        }
    }

    fn step(&mut self, physical: Physical, open: &mut OpenRecord, buf: &mut Vec<u8>) -> Option<LogEvent> {
        let (offset, dropped) = (self.blocks.record_offset(), buf.len());
        match physical {
            Physical::Record(code, payload) => self.record(code, payload, open, buf),
            Physical::End => Some(match open.at {
                None => LogEvent::End,
                Some(offset) => LogEvent::Truncated { what: Truncation::Fragment, offset, dropped },
            }),
            Physical::BadHeader(rest) => {
                Some(LogEvent::Truncated { what: Truncation::Header, offset, dropped: dropped + rest })
            }
            Physical::BadLength(rest) if self.blocks.at_last_block => {
                Some(LogEvent::Truncated { what: Truncation::Body, offset, dropped: dropped + rest })
            }
            Physical::BadLength(rest) => Some(self.corrupt(LogCorruption::BadLength, offset, dropped + rest)),
            Physical::BadChecksum(rest) => {
                Some(self.corrupt(LogCorruption::ChecksumMismatch, offset, dropped + rest))
            }
            Physical::UnexpectedRecyclable(rest) => {
                Some(self.corrupt(LogCorruption::UnexpectedRecyclable, offset, dropped + rest))
            }
            Physical::OldRecord => Some(LogEvent::OldRecord { offset, in_fragment: open.at.is_some() }),
            Physical::Zeros => {
                open.at.map(|offset| self.corrupt(LogCorruption::PartialRecord, offset, dropped))
            }
        }
    }

    /// Handles a physical record whose CRC is right. The order of these checks is RocksDB's.
    fn record(
        &mut self,
        code: u8,
        payload: Range<usize>,
        open: &mut OpenRecord,
        buf: &mut Vec<u8>,
    ) -> Option<LogEvent> {
        use RecordType as T;
        let record_type = T::from_u8(code);
        if let Some(T::SetCompression) = record_type {
            return self.set_compression(payload, open, buf);
        }
        if let Some(event) = self.about_the_log(record_type, payload.clone(), open, buf) {
            return Some(event);
        }
        let continues =
            matches!(record_type, Some(T::Middle | T::Last | T::RecyclableMiddle | T::RecyclableLast));
        let finding = Finding::of(code);
        // An empty open record is no loss: old writers left an empty FIRST at the end of a block.
        if let Some(at) = open.at.filter(|_| !continues && finding.is_none() && !buf.is_empty()) {
            self.blocks.step_back();
            return Some(self.corrupt(LogCorruption::PartialRecord, at, buf.len()));
        }
        let offset = self.blocks.record_offset();
        let begins = matches!(record_type, Some(T::Full | T::RecyclableFull | T::First | T::RecyclableFirst));
        if !self.decompress(payload.clone(), begins, buf.len()) {
            let dropped = buf.len() + payload.len() + self.blocks.drop_rest();
            return Some(match open.at {
                Some(_) => self.corrupt(LogCorruption::BadCompression, offset, dropped),
                None => LogEvent::Undecodable { offset, dropped },
            });
        }
        if let Some(finding) = finding {
            return self.misread(finding, code, open, buf);
        }
        if continues && open.at.is_none() {
            return Some(self.corrupt(LogCorruption::MissingStart, offset, payload.len()));
        }
        match record_type {
            Some(_) if begins => {
                open.at = Some(offset);
                buf.clear();
            }
            Some(_) if continues => {}
            None if code & T::SAFE_TO_IGNORE != 0 => {
                return Some(LogEvent::Ignored { offset, record_type: code });
            }
            _ => return Some(self.corrupt(LogCorruption::UnknownType(code), offset, payload.len())),
        }
        self.append_piece(payload, buf);
        let is_last = matches!(record_type, Some(T::Full | T::RecyclableFull | T::Last | T::RecyclableLast));
        is_last.then(|| self.end_record(open.at.unwrap_or(offset), buf.len()))
    }

    /// Ends the record in the caller's buffer. It is complete, unless its compressed frame is not.
    fn end_record(&mut self, offset: u64, bytes: usize) -> LogEvent {
        if self.decompressor.as_ref().is_some_and(|d| !d.at_frame_end) {
            let rest = self.blocks.drop_rest();
            return self.corrupt(LogCorruption::BadCompression, offset, bytes + rest);
        }
        self.record_seen = true;
        LogEvent::Record { offset }
    }

    /// Does as RocksDB 11 for a record whose type equals one of its own internal result codes.
    fn misread(
        &mut self,
        finding: Finding,
        code: u8,
        open: &mut OpenRecord,
        buf: &mut Vec<u8>,
    ) -> Option<LogEvent> {
        let offset = self.blocks.record_offset();
        let physical = match finding {
            Finding::End => Physical::End,
            Finding::BadHeader => Physical::BadHeader(0),
            Finding::OldRecord => Physical::OldRecord,
            Finding::BadLength => Physical::BadLength(0),
            Finding::BadChecksum => Physical::BadChecksum(0),
            Finding::BadRecord => {
                return Some(match open.at {
                    Some(at) => self.corrupt(LogCorruption::PartialRecord, at, buf.len()),
                    None => LogEvent::Ignored { offset, record_type: code },
                });
            }
        };
        self.step(physical, open, buf)
    }

    /// Decompresses a payload of a compressed log into `piece`; returns whether it could. If the
    /// payload `begins` a record, decompression starts anew; otherwise `before` bytes of the record
    /// are there. An empty payload changes nothing: a frame that is open goes on, as in RocksDB.
    fn decompress(&mut self, payload: Range<usize>, begins: bool, before: usize) -> bool {
        let Some(d) = &mut self.decompressor else { return true };
        self.piece.clear();
        if payload.is_empty() {
            return true;
        }
        if begins {
            d.reset();
        }
        let most = self.max_record_bytes.saturating_sub(before);
        let is_good = d.append(self.blocks.bytes(payload), &mut self.piece, most);
        if !is_good {
            d.reset();
        }
        is_good
    }

    /// Appends the payload, decompressed if need be, to `buf`.
    fn append_piece(&mut self, payload: Range<usize>, buf: &mut Vec<u8>) {
        match &self.decompressor {
            None => buf.extend_from_slice(self.blocks.bytes(payload)),
            Some(_) => buf.append(&mut self.piece),
        }
    }

    /// Applies a record about compression to everything behind it, even if it is out of place.
    fn set_compression(
        &mut self,
        payload: Range<usize>,
        open: &mut OpenRecord,
        buf: &mut Vec<u8>,
    ) -> Option<LogEvent> {
        /// RocksDB's code for no compression.
        const NONE: u32 = 0;
        /// RocksDB's code of the only compression that logs can have.
        use super::writer::ZSTD;
        let (offset, bytes) = (self.blocks.record_offset(), payload.len());
        let is_misplaced = self.record_seen || self.compression_seen;
        let code = Decoder::new(self.blocks.bytes(payload)).fixed32().ok();
        buf.clear();
        match code {
            Some(NONE) => self.decompressor = None,
            Some(ZSTD) => self.decompressor = Some(RecordDecompressor::new()),
            _ => {}
        }
        let is_known = matches!(code, Some(NONE | ZSTD));
        self.compression_seen |= is_known;
        if is_known && !is_misplaced {
            return None;
        }
        self.emptied = open.at;
        Some(self.corrupt(LogCorruption::BadSetCompression, offset, bytes))
    }

    /// Empties the open record and returns the event of a record about the log. Timestamp sizes
    /// within a record apply, but are damage, as in RocksDB; a predecessor there is not.
    fn about_the_log(
        &mut self,
        record_type: Option<RecordType>,
        payload: Range<usize>,
        open: &OpenRecord,
        buf: &mut Vec<u8>,
    ) -> Option<LogEvent> {
        use RecordType as T;
        let event = match record_type? {
            T::UserDefinedTimestampSize | T::RecyclableUserDefinedTimestampSize => {
                match (self.timestamp_size_record(payload), open.at) {
                    (LogEvent::TimestampSizes, Some(at)) if !buf.is_empty() => {
                        self.corrupt(LogCorruption::PartialRecord, at, buf.len())
                    }
                    (event, _) => event,
                }
            }
            T::PredecessorWalInfo | T::RecyclablePredecessorWalInfo => self.predecessor_record(payload),
            _ => return None,
        };
        buf.clear();
        self.emptied = open.at;
        Some(event)
    }

    fn timestamp_size_record(&mut self, payload: Range<usize>) -> LogEvent {
        let (offset, bytes) = (self.blocks.record_offset(), payload.len());
        let mut decoder = Decoder::new(self.blocks.bytes(payload));
        let known = self.timestamp_sizes.len();
        while !decoder.is_empty() {
            let (Ok(id), Ok(size)) = (decoder.fixed32(), decoder.fixed16()) else { break };
            let id = ColumnFamilyId(id);
            if size == 0 || !self.timestamped.insert(id) {
                break;
            }
            self.timestamp_sizes.push((id, size));
        }
        if self.timestamp_sizes.len() - known == bytes / 6 && bytes % 6 == 0 {
            return LogEvent::TimestampSizes;
        }
        self.timestamp_sizes.truncate(known);
        self.timestamped = self.timestamp_sizes.iter().map(|(id, _)| *id).collect();
        self.corrupt(LogCorruption::BadTimestampSizes, offset, bytes)
    }

    fn predecessor_record(&mut self, payload: Range<usize>) -> LogEvent {
        let (offset, bytes) = (self.blocks.record_offset(), payload.len());
        let mut decoder = Decoder::new(self.blocks.bytes(payload));
        match (decoder.fixed64(), decoder.fixed64(), decoder.fixed64()) {
            (Ok(number), Ok(size_bytes), Ok(sequence)) => LogEvent::Predecessor(PredecessorWal {
                log_number: FileNumber(number),
                size_bytes,
                last_sequence: SequenceNumber(sequence),
            }),
            _ => self.corrupt(LogCorruption::BadPredecessor, offset, bytes),
        }
    }

    fn corrupt(&self, what: LogCorruption, offset: u64, dropped: usize) -> LogEvent {
        LogEvent::Corrupt { what, offset, dropped, recycled: self.blocks.recycled }
    }
}

impl<S: SeekSource> LogReader<S> {
    /// Goes back to a place that this reader has passed. The next event is the one behind the
    /// place, and includes bytes that a writer has appended since. No byte before the place is read
    /// again.
    pub fn go_back(&mut self, mark: &LogMark) {
        self.blocks.go_to(mark.offset);
        self.blocks.recycled = mark.recycled;
        self.compression_seen = mark.compression_seen;
        if !mark.has_compression {
            self.decompressor = None;
        }
        self.record_seen = mark.record_seen;
        self.emptied = mark.emptied;
        self.timestamp_sizes.truncate(mark.timestamp_sizes);
        self.timestamped = self.timestamp_sizes.iter().map(|(id, _)| *id).collect();
    }
}

/// An open logical record: its start was read and its end was not. Its bytes are in the caller's
/// buffer.
#[derive(Clone, Copy, Debug)]
struct OpenRecord {
    /// Offset of the record; `None` if no record is open.
    at: Option<u64>,
}

/// The internal result codes of RocksDB 11's reader. Their numbers are also types of records that
/// may be skipped, but RocksDB takes a record of such a type for the result. No writer uses these
/// types. Recovery agrees with RocksDB, so that both see the same database.
#[derive(Clone, Copy, Debug)]
enum Finding {
    End,
    BadRecord,
    BadHeader,
    OldRecord,
    BadLength,
    BadChecksum,
}

impl Finding {
    fn of(code: u8) -> Option<Finding> {
        Some(match code {
            132 => Finding::End,
            133 => Finding::BadRecord,
            134 => Finding::BadHeader,
            135 => Finding::OldRecord,
            136 => Finding::BadLength,
            137 => Finding::BadChecksum,
            _ => return None,
        })
    }
}

impl LogEvent {
    /// The event as an error that names `file`; `None` if the event is no failure.
    pub fn to_error(&self, file: &dyn fmt::Display) -> Option<Error> {
        match self {
            LogEvent::Truncated { .. }
            | LogEvent::Corrupt { .. }
            | LogEvent::OldRecord { .. }
            | LogEvent::Undecodable { .. } => Some(Error::corruption(format!("{file}: {self}"))),
            _ => None,
        }
    }
}
