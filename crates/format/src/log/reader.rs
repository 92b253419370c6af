//! Finds the logical records of a log, and says what is wrong with everything that is not one.
//!
//! Two layers: `Blocks` cuts a block into physical records and checks each; `LogReader::next_record` joins them.
//! A fragment is never open between two calls: whatever interrupts one is an event of its own, and what follows it
//! is looked at again by the next call.

use super::{
    BLOCK_BYTES, HEADER_BYTES, RECYCLABLE_HEADER_BYTES, RecordType, stored_log_number, strict::describe,
};
use esker_base::coding::Decoder;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber, crc32c};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

/// Where a log's bytes come from, front to back.
pub trait LogSource {
    /// Fills `buf` from the front and says how far; 0 only at the end.
    /// # Errors
    /// Whatever the source meets; the reader hands it on and then takes the log as ended.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize>;
}

impl<F: FnMut(&mut [u8]) -> Result<usize>> LogSource for F {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self(buf)
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

/// What the log before this one looked like when this one was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PredecessorWal {
    /// Its number.
    pub log_number: FileNumber,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// The last sequence number in it, 0 if it held no record.
    pub last_sequence: SequenceNumber,
}

/// How a log ends in the middle of something, as a crash while writing leaves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Truncation {
    /// In a header.
    Header,
    /// In a payload (or a damaged size points beyond the end: the two cannot be told apart).
    Body,
    /// Between the fragments of a record.
    Fragment,
}

/// What is wrong with a stretch of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogCorruption {
    /// The stored CRC is not that of the bytes; the rest of the block is dropped.
    ChecksumMismatch,
    /// The record would reach beyond its block; the rest of the block is dropped.
    BadLength,
    /// A record was begun and never finished.
    PartialRecord,
    /// A middle or last fragment without a first.
    MissingStart,
    /// A type that may not be skipped and means nothing to this version.
    UnknownType(u8),
    /// A recyclable record in a log that began with plain ones; the rest of the block is dropped.
    UnexpectedRecyclable,
    /// The compression record is not the first, not the only one, or names nothing that a log can be compressed with.
    BadSetCompression,
    /// A compressed record does not decompress.
    BadCompression,
    /// A record about timestamp sizes contradicts itself or an earlier one.
    BadTimestampSizes,
    /// A record about the predecessor is too short.
    BadPredecessor,
}

/// One stretch of a log. Every offset is that of its first byte in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogEvent {
    /// A logical record; it is in the caller's buffer.
    Record {
        /// Where it starts.
        offset: u64,
    },
    /// The log ends where a record ends, or in zeros.
    End,
    /// The log ends in the middle of something; the next event is `End`.
    Truncated {
        /// Of what.
        what: Truncation,
        /// Where the unfinished thing starts.
        offset: u64,
        /// Bytes that are given up.
        dropped: usize,
    },
    /// Damage. Reading may go on behind it.
    Corrupt {
        /// Which.
        what: LogCorruption,
        /// Where.
        offset: u64,
        /// Bytes that are given up, those of an interrupted record included.
        dropped: usize,
        /// Whether recyclable records were met before: then this may be the end of the log and a rest of its
        /// predecessor.
        recycled: bool,
    },
    /// A record of the log that the file held before. Reading may go on behind it.
    OldRecord {
        /// Where.
        offset: u64,
        /// Whether a record of this log was begun and is cut off by it.
        in_fragment: bool,
    },
    /// A record of an unknown type that may be skipped; it was.
    Ignored {
        /// Where.
        offset: u64,
        /// Its type, 128 or more.
        record_type: u8,
    },
    /// The log before this one, as its writer saw it.
    Predecessor(PredecessorWal),
    /// [`LogReader::timestamp_sizes`] has grown; it holds for the records that follow.
    TimestampSizes,
}

impl fmt::Display for LogEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(self, f)
    }
}

/// Reads a log. Holds one block; all else it needs is in the caller's buffer.
#[derive(Debug)]
pub struct LogReader<S> {
    blocks: Blocks<S>,
    decompressor: Option<Decompressor>,
    record_seen: bool,
    max_record_bytes: usize,
    timestamp_sizes: Vec<(ColumnFamilyId, u16)>,
    /// The families of these.
    timestamped: BTreeSet<ColumnFamilyId>,
}

impl<S: LogSource> LogReader<S> {
    /// From the front of the log `log_number` (0 for a MANIFEST).
    pub fn new(source: S, log_number: u64) -> LogReader<S> {
        LogReader {
            blocks: Blocks::new(source, stored_log_number(log_number)),
            decompressor: None,
            record_seen: false,
            max_record_bytes: u32::MAX as usize,
            timestamp_sizes: Vec::new(),
            timestamped: BTreeSet::new(),
        }
    }

    /// Lets no compressed record grow beyond this (4 GiB otherwise): a longer one is `BadCompression`.
    #[must_use]
    pub fn with_max_record_bytes(mut self, bytes: usize) -> LogReader<S> {
        self.max_record_bytes = bytes;
        self
    }

    /// User-defined timestamp sizes of families, as far as the log has told; a family that is not here has none.
    pub fn timestamp_sizes(&self) -> &[(ColumnFamilyId, u16)] {
        &self.timestamp_sizes
    }

    /// Whether recyclable records were met.
    pub fn is_recycled(&self) -> bool {
        self.blocks.recycled
    }

    /// The file offset behind the last physical record that was looked at: where a writer may go on after `End`
    /// if nothing was dropped.
    pub fn offset(&self) -> u64 {
        self.blocks.offset()
    }

    /// The next event. For `LogEvent::Record`, and only then, `buf` holds the record afterwards.
    /// # Errors
    /// Those of the source, nothing else; the next event is then `End`.
    pub fn next_record(&mut self, buf: &mut Vec<u8>) -> Result<LogEvent> {
        buf.clear();
        let mut open = OpenRecord::default();
        loop {
            let physical = self.blocks.next_physical(self.record_seen)?;
            if let Some(event) = self.step(physical, &mut open, buf) {
                return Ok(event);
            }
        }
    }

    fn step(&mut self, physical: Physical, open: &mut OpenRecord, buf: &mut Vec<u8>) -> Option<LogEvent> {
        let (offset, dropped) = (self.blocks.record_offset(), open.bytes);
        match physical {
            Physical::Record(code, payload) => self.record(code, payload, open, buf),
            Physical::End if !open.is_open => Some(LogEvent::End),
            Physical::End => {
                Some(LogEvent::Truncated { what: Truncation::Fragment, offset: open.offset, dropped })
            }
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
            Physical::OldRecord => Some(LogEvent::OldRecord { offset, in_fragment: open.is_open }),
            Physical::Zeros if open.is_open => {
                Some(self.corrupt(LogCorruption::PartialRecord, open.offset, dropped))
            }
            Physical::Zeros => None,
        }
    }

    /// A physical record whose CRC is right.
    fn record(
        &mut self,
        code: u8,
        payload: Range<usize>,
        open: &mut OpenRecord,
        buf: &mut Vec<u8>,
    ) -> Option<LogEvent> {
        use RecordType as T;
        let offset = self.blocks.record_offset();
        let record_type = T::from_u8(code);
        let continues =
            matches!(record_type, Some(T::Middle | T::Last | T::RecyclableMiddle | T::RecyclableLast));
        // An open record without a byte is no loss: old writers left an empty FIRST at the end of a block.
        if !continues && open.is_open && open.bytes > 0 {
            self.blocks.step_back();
            return Some(self.corrupt(LogCorruption::PartialRecord, open.offset, open.bytes));
        }
        if continues && !open.is_open {
            return Some(self.corrupt(LogCorruption::MissingStart, offset, payload.len()));
        }
        match record_type {
            Some(T::Full | T::RecyclableFull | T::First | T::RecyclableFirst) => {
                *open = OpenRecord { is_open: true, offset, bytes: 0 };
                buf.clear();
                if let Some(d) = &mut self.decompressor {
                    d.reset();
                }
            }
            Some(T::Middle | T::RecyclableMiddle | T::Last | T::RecyclableLast) => {}
            Some(T::SetCompression) => return self.set_compression(payload),
            Some(T::UserDefinedTimestampSize | T::RecyclableUserDefinedTimestampSize) => {
                return Some(self.timestamp_size_record(payload));
            }
            Some(T::PredecessorWalInfo | T::RecyclablePredecessorWalInfo) => {
                return Some(self.predecessor_record(payload));
            }
            None if code & T::SAFE_TO_IGNORE != 0 => {
                return Some(LogEvent::Ignored { offset, record_type: code });
            }
            Some(T::Zero) | None => {
                return Some(self.corrupt(LogCorruption::UnknownType(code), offset, payload.len()));
            }
        }
        open.bytes += payload.len();
        let is_last = matches!(record_type, Some(T::Full | T::RecyclableFull | T::Last | T::RecyclableLast));
        if !self.append_payload(payload, is_last, buf) {
            let rest = self.blocks.drop_rest();
            return Some(self.corrupt(LogCorruption::BadCompression, offset, open.bytes + rest));
        }
        is_last.then(|| {
            self.record_seen = true;
            LogEvent::Record { offset: open.offset }
        })
    }

    /// Whether the payload, decompressed if need be, is now at the end of `buf`.
    fn append_payload(&mut self, payload: Range<usize>, is_last: bool, buf: &mut Vec<u8>) -> bool {
        let bytes = self.blocks.bytes(payload);
        match &mut self.decompressor {
            None => {
                buf.extend_from_slice(bytes);
                true
            }
            Some(d) => d.append(bytes, buf, self.max_record_bytes) && (!is_last || d.at_frame_end),
        }
    }

    fn set_compression(&mut self, payload: Range<usize>) -> Option<LogEvent> {
        /// RocksDB's code of the only algorithm that a log can be compressed with.
        const ZSTD: u32 = 7;
        let (offset, bytes) = (self.blocks.record_offset(), payload.len());
        let code = Decoder::new(self.blocks.bytes(payload)).fixed32().ok();
        if code != Some(ZSTD) || self.record_seen || self.decompressor.is_some() {
            return Some(self.corrupt(LogCorruption::BadSetCompression, offset, bytes));
        }
        self.decompressor = Some(Decompressor::new());
        None
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

/// A logical record of which the first fragment was met.
#[derive(Clone, Copy, Default, Debug)]
struct OpenRecord {
    is_open: bool,
    offset: u64,
    /// Payload bytes as they are stored.
    bytes: usize,
}

/// One physical record, or what is there instead. Numbers are bytes that were given up.
enum Physical {
    Record(u8, Range<usize>),
    End,
    BadHeader(usize),
    BadLength(usize),
    BadChecksum(usize),
    UnexpectedRecyclable(usize),
    OldRecord,
    Zeros,
}

struct Blocks<S> {
    source: S,
    log_number: u32,
    block: Vec<u8>,
    /// File offset of the block's first byte.
    block_offset: u64,
    /// Where the next header is; at most `block.len()`.
    next: usize,
    /// Where the header of the record that was looked at last is.
    current: usize,
    /// The block is shorter than it could be: there is no other behind it.
    at_last_block: bool,
    recycled: bool,
}

impl<S: LogSource> Blocks<S> {
    fn new(source: S, log_number: u32) -> Blocks<S> {
        Blocks {
            source,
            log_number,
            block: Vec::new(),
            block_offset: 0,
            next: 0,
            current: 0,
            at_last_block: false,
            recycled: false,
        }
    }

    fn next_physical(&mut self, record_seen: bool) -> Result<Physical> {
        loop {
            self.current = self.next;
            let rest = self.bytes(self.next..self.block.len());
            let Some((&[c0, c1, c2, c3, s0, s1, code], _)) = rest.split_first_chunk::<HEADER_BYTES>() else {
                match self.next_block()? {
                    Some(at_end) => return Ok(at_end),
                    None => continue,
                }
            };
            let rest_bytes = rest.len();
            let mut header_bytes = HEADER_BYTES;
            let is_recyclable = RecordType::from_u8(code).is_some_and(RecordType::is_recyclable);
            if is_recyclable {
                if record_seen && !self.recycled {
                    self.drop_rest();
                    return Ok(Physical::UnexpectedRecyclable(rest_bytes));
                }
                header_bytes = RECYCLABLE_HEADER_BYTES;
                self.recycled = true;
                if rest_bytes < header_bytes {
                    match self.next_block()? {
                        Some(at_end) => return Ok(at_end),
                        None => continue,
                    }
                }
            }
            let size = usize::from(u16::from_le_bytes([s0, s1]));
            let crc = u32::from_le_bytes([c0, c1, c2, c3]);
            return Ok(self.check(code, crc, header_bytes, size, is_recyclable));
        }
    }

    /// The order of these checks is RocksDB's and decides what a damaged record counts as.
    fn check(
        &mut self,
        code: u8,
        crc: u32,
        header_bytes: usize,
        size: usize,
        is_recyclable: bool,
    ) -> Physical {
        let start = self.current;
        let end = start + header_bytes + size;
        let Some(record) = self.block.get(start..end) else {
            return Physical::BadLength(self.drop_rest());
        };
        if is_recyclable {
            let number = Decoder::new(record.get(HEADER_BYTES..).unwrap_or_default()).fixed32();
            if number.ok() != Some(self.log_number) {
                self.next = end;
                return Physical::OldRecord;
            }
        }
        if code == RecordType::Zero as u8 && size == 0 {
            self.drop_rest();
            return Physical::Zeros;
        }
        let checked = record.get(6..).unwrap_or_default();
        if crc32c::unmask(crc) != crc32c::value(checked) {
            return Physical::BadChecksum(self.drop_rest());
        }
        self.next = end;
        Physical::Record(code, start + header_bytes..end)
    }

    /// Goes to the next block; at the end of the log, says how it ends.
    fn next_block(&mut self) -> Result<Option<Physical>> {
        if self.at_last_block {
            let rest = self.drop_rest();
            return Ok(Some(if rest == 0 { Physical::End } else { Physical::BadHeader(rest) }));
        }
        self.block_offset += self.block.len() as u64;
        self.next = 0;
        self.current = 0;
        self.block.resize(BLOCK_BYTES, 0);
        let mut filled = 0;
        while let Some(to) = self.block.get_mut(filled..)
            && !to.is_empty()
        {
            match self.source.read(to) {
                Ok(0) => break,
                Ok(n) => filled += n.min(to.len()),
                Err(e) => {
                    self.block.clear();
                    self.at_last_block = true;
                    return Err(e);
                }
            }
        }
        self.block.truncate(filled);
        self.at_last_block = filled < BLOCK_BYTES;
        Ok(None)
    }

    /// Gives up what is left of the block and says how much that was.
    fn drop_rest(&mut self) -> usize {
        let rest = self.block.len() - self.next;
        self.next = self.block.len();
        rest
    }

    /// Lets the next call look at the current record again.
    fn step_back(&mut self) {
        self.next = self.current;
    }

    fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.block.get(range).unwrap_or_default()
    }

    fn record_offset(&self) -> u64 {
        self.block_offset + self.current as u64
    }

    fn offset(&self) -> u64 {
        self.block_offset + self.next as u64
    }
}

impl<S> fmt::Debug for Blocks<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks")
            .field("log_number", &self.log_number)
            .field("offset", &(self.block_offset + self.next as u64))
            .finish_non_exhaustive()
    }
}

/// Each logical record of a compressed log is a zstd frame of its own, cut into fragments.
struct Decompressor {
    context: zstd_safe::DCtx<'static>,
    at_frame_end: bool,
}

impl Decompressor {
    fn new() -> Decompressor {
        Decompressor { context: zstd_safe::DCtx::create(), at_frame_end: true }
    }

    fn reset(&mut self) {
        self.at_frame_end = self.context.reset(zstd_safe::ResetDirective::SessionOnly).is_ok();
    }

    /// Appends what `bytes` decompress to; false if they do not, or to more than `max_bytes` in all.
    fn append(&mut self, bytes: &[u8], out: &mut Vec<u8>, max_bytes: usize) -> bool {
        let mut input = zstd_safe::InBuffer::around(bytes);
        loop {
            let filled = out.len();
            if filled > max_bytes {
                return false;
            }
            out.reserve(BLOCK_BYTES);
            let room = out.capacity();
            let mut output = zstd_safe::OutBuffer::around_pos(out, filled);
            match self.context.decompress_stream(&mut output, &mut input) {
                Ok(hint) => self.at_frame_end = hint == 0,
                Err(_code) => return false,
            }
            // A full output may hide more; but behind the end of a frame the decoder would begin another.
            let may_hold_more = output.pos() == room && !self.at_frame_end;
            if input.pos() == bytes.len() && !may_hold_more {
                return true;
            }
        }
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor").field("at_frame_end", &self.at_frame_end).finish_non_exhaustive()
    }
}

impl LogEvent {
    /// The event as an error that names `file`, if it says that something is wrong.
    pub fn to_error(&self, file: &dyn fmt::Display) -> Option<Error> {
        match self {
            LogEvent::Truncated { .. } | LogEvent::Corrupt { .. } | LogEvent::OldRecord { .. } => {
                Some(Error::corruption(format!("{file}: {self}")))
            }
            _ => None,
        }
    }
}
