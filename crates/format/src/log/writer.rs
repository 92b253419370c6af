//! Splits logical records into physical ones.

use super::{BLOCK_BYTES, HEADER_BYTES, RECYCLABLE_HEADER_BYTES, RecordType, stored_log_number};
use esker_base::ColumnFamilyId;
use esker_base::crc32c;

/// Bytes of one family in a record of timestamp sizes: its id and a size.
const TIMESTAMP_SIZE_BYTES: usize = 6;

/// RocksDB's code of zstd in a compression record.
pub(super) const ZSTD: u32 = 7;

/// Makes the bytes of a log. It appends to a vector, not to a file, so that a group of records is
/// one `write`.
///
/// The caller appends all bytes to the log, in order. After a failed append the offsets of file and
/// writer differ: make a new log, or [`LogWriter::resume`] at the file's real offset.
#[derive(Clone, Debug)]
pub struct LogWriter {
    log_number: u32,
    recyclable: bool,
    block_offset: usize,
}

impl LogWriter {
    /// A writer for an empty log. `recyclable`: the file may hold an older log's bytes, or may
    /// later be reused for another log.
    pub fn new(log_number: u64, recyclable: bool) -> LogWriter {
        LogWriter::resume(log_number, recyclable, 0)
    }

    /// A writer that continues behind the first `file_bytes` of a log.
    pub fn resume(log_number: u64, recyclable: bool, file_bytes: u64) -> LogWriter {
        let in_block = file_bytes % BLOCK_BYTES as u64;
        LogWriter {
            log_number: stored_log_number(log_number),
            recyclable,
            block_offset: usize::try_from(in_block).expect("the offset is within a block"),
        }
    }

    /// Offset of the next byte in its block.
    pub fn block_offset(&self) -> usize {
        self.block_offset
    }

    /// Bytes of each record's header.
    pub fn header_bytes(&self) -> usize {
        if self.recyclable { RECYCLABLE_HEADER_BYTES } else { HEADER_BYTES }
    }

    /// Appends the physical records of one logical record.
    pub fn add_record(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        self.add_record_parts(&[payload], out);
    }

    /// As [`LogWriter::add_record`], for a payload in several pieces.
    pub fn add_record_parts(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) {
        let payload_bytes: usize = parts.iter().map(|p| p.len()).sum();
        out.reserve(self.encoded_bytes(payload_bytes));
        let mut pieces = Pieces { parts, head: &[] };
        let mut left = payload_bytes;
        let mut is_first = true;
        // An empty record has a header too, so the loop tests its condition at the end.
        loop {
            self.start_block_if_full(out);
            let room = BLOCK_BYTES - self.block_offset - self.header_bytes();
            let piece_bytes = left.min(room);
            left -= piece_bytes;
            let record_type = self.record_type(is_first, left == 0);
            self.emit(record_type, piece_bytes, &mut pieces, out);
            is_first = false;
            if left == 0 {
                return;
            }
        }
    }

    /// Appends a record that declares the logical records of this log to be zstd frames. It must be
    /// the first record of its log.
    pub fn add_zstd_compression(&mut self, out: &mut Vec<u8>) {
        debug_assert_eq!(self.block_offset, 0, "a log says first how it is compressed");
        let payload = ZSTD.to_le_bytes();
        let mut pieces = Pieces { parts: &[&payload], head: &[] };
        // The header of this record has no log number, even in recycled files.
        let recyclable = std::mem::replace(&mut self.recyclable, false);
        self.emit(RecordType::SetCompression, payload.len(), &mut pieces, out);
        self.recyclable = recyclable;
    }

    /// Appends the timestamp sizes of families for the records that follow. Without these sizes,
    /// RocksDB 11 takes the keys of those records for keys without timestamps. A record of
    /// timestamp sizes is never split: a long list of families becomes several records.
    pub fn add_timestamp_sizes(&mut self, sizes: &[(ColumnFamilyId, u16)], out: &mut Vec<u8>) {
        let most = (BLOCK_BYTES - self.header_bytes()) / TIMESTAMP_SIZE_BYTES;
        for sizes in sizes.chunks(most) {
            let mut payload = Vec::with_capacity(sizes.len() * TIMESTAMP_SIZE_BYTES);
            for (family, size) in sizes {
                payload.extend_from_slice(&family.0.to_le_bytes());
                payload.extend_from_slice(&size.to_le_bytes());
            }
            let rest = BLOCK_BYTES - self.block_offset;
            if rest < self.header_bytes() + payload.len() {
                out.resize(out.len() + rest, 0);
                self.block_offset = 0;
            }
            let record_type = match self.recyclable {
                false => RecordType::UserDefinedTimestampSize,
                true => RecordType::RecyclableUserDefinedTimestampSize,
            };
            self.emit(record_type, payload.len(), &mut Pieces { parts: &[&payload], head: &[] }, out);
        }
    }

    /// Number of bytes that the next record appends if it has `payload_bytes`.
    pub fn encoded_bytes(&self, payload_bytes: usize) -> usize {
        let header = self.header_bytes();
        let in_block = BLOCK_BYTES - self.block_offset;
        let (padding, first_room) =
            if in_block < header { (in_block, BLOCK_BYTES - header) } else { (0, in_block - header) };
        let behind_first = payload_bytes.saturating_sub(first_room);
        padding + header + payload_bytes + behind_first.div_ceil(BLOCK_BYTES - header) * header
    }

    /// Fills the rest of a block with zeros if it is too short for a header.
    fn start_block_if_full(&mut self, out: &mut Vec<u8>) {
        let rest = BLOCK_BYTES - self.block_offset;
        if rest < self.header_bytes() {
            out.resize(out.len() + rest, 0);
            self.block_offset = 0;
        }
    }

    fn record_type(&self, is_first: bool, is_last: bool) -> RecordType {
        match (self.recyclable, is_first, is_last) {
            (false, true, true) => RecordType::Full,
            (false, true, false) => RecordType::First,
            (false, false, false) => RecordType::Middle,
            (false, false, true) => RecordType::Last,
            (true, true, true) => RecordType::RecyclableFull,
            (true, true, false) => RecordType::RecyclableFirst,
            (true, false, false) => RecordType::RecyclableMiddle,
            (true, false, true) => RecordType::RecyclableLast,
        }
    }

    fn emit(&mut self, record_type: RecordType, bytes: usize, pieces: &mut Pieces<'_>, out: &mut Vec<u8>) {
        let size = u16::try_from(bytes).expect("a piece fits into a block");
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&size.to_le_bytes());
        out.push(record_type as u8);
        if self.recyclable {
            out.extend_from_slice(&self.log_number.to_le_bytes());
        }
        pieces.copy(bytes, out);
        self.block_offset += self.header_bytes() + bytes;
        // One pass computes the checksum while the bytes are in the first-level cache.
        let (_, record) = out.split_at_mut(start);
        let (crc_and_size, checked) = record.split_at_mut(6);
        let crc = crc32c::mask(crc32c::value(checked));
        for (to, from) in crc_and_size.iter_mut().zip(crc.to_le_bytes()) {
            *to = from;
        }
    }
}

/// A payload in pieces, which is read from the front.
struct Pieces<'a> {
    parts: &'a [&'a [u8]],
    head: &'a [u8],
}

impl Pieces<'_> {
    fn copy(&mut self, mut bytes: usize, out: &mut Vec<u8>) {
        while bytes > 0 {
            if self.head.is_empty() {
                let (first, rest) = self.parts.split_first().expect("the caller counted the bytes");
                (self.head, self.parts) = (first, rest);
                continue;
            }
            let (now, later) = self.head.split_at(bytes.min(self.head.len()));
            out.extend_from_slice(now);
            bytes -= now.len();
            self.head = later;
        }
    }
}
