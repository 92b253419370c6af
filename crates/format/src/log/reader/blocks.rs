//! The blocks of a log, and the physical records in them.
//!
//! In: the bytes of a log, block by block. Out: physical records with the right checksum, or the
//! damage in their place.
//!
//! A log may be read while its writer appends. A writer that maps its file leaves zeros behind the
//! end. If records follow zeros that were passed, the zeros are read again: they may have been
//! filled meanwhile.

use super::{LogSource, SeekSource};
use crate::log::{BLOCK_BYTES, HEADER_BYTES, RECYCLABLE_HEADER_BYTES, RecordType};
use esker_base::coding::Decoder;
use esker_base::{Result, crc32c};
use std::fmt;
use std::ops::Range;

/// One physical record, or the damage in its place. Numbers are bytes dropped.
pub(super) enum Physical {
    Record(u8, Range<usize>),
    End,
    BadHeader(usize),
    BadLength(usize),
    BadChecksum(usize),
    UnexpectedRecyclable(usize),
    OldRecord,
    Zeros,
}

/// The present block of a log, and the place in it.
pub(super) struct Blocks<S> {
    pub(super) source: S,
    log_number: u32,
    block: Vec<u8>,
    /// File offset of the block's first byte.
    block_offset: u64,
    /// Offset of the next header in the block; at most `block.len()`.
    next: usize,
    /// Offset of the current record's header in the block.
    current: usize,
    /// Bytes at the front of the next block that are skipped, because a reader went back to a place
    /// behind them.
    passed_over: usize,
    /// Whether the block is the last one: it is shorter than a full block.
    pub(super) at_last_block: bool,
    /// Where the zeros begin that were just passed, up to here.
    zeros_at: Option<u64>,
    /// The last place of zeros from which the log was read again.
    again_at: Option<u64>,
    pub(super) recycled: bool,
    /// Whether checksums are compared.
    pub(super) verifies: bool,
}

impl<S: LogSource> Blocks<S> {
    pub(super) fn new(source: S, log_number: u32) -> Blocks<S> {
        Blocks {
            source,
            log_number,
            block: Vec::new(),
            block_offset: 0,
            next: 0,
            current: 0,
            passed_over: 0,
            at_last_block: false,
            zeros_at: None,
            again_at: None,
            recycled: false,
            verifies: true,
        }
    }

    pub(super) fn next_physical(&mut self, record_seen: bool) -> Result<Physical> {
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
            let is_zero = code == RecordType::Zero as u8 && (s0, s1) == (0, 0);
            if self.zeros_at.is_some() && !is_zero && self.reads_again() {
                continue;
            }
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

    /// Checks a record in RocksDB's order, which decides how a damaged record is classified.
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
            let offset = self.record_offset();
            self.zeros_at.get_or_insert(offset);
            self.drop_rest();
            return Physical::Zeros;
        }
        let checked = record.get(6..).unwrap_or_default();
        if self.verifies && crc32c::unmask(crc) != crc32c::value(checked) {
            return Physical::BadChecksum(self.drop_rest());
        }
        self.next = end;
        Physical::Record(code, start + header_bytes..end)
    }

    /// Reads the next block. At the end of the log, returns how the log ends.
    fn next_block(&mut self) -> Result<Option<Physical>> {
        if self.at_last_block {
            let rest = self.drop_rest();
            return Ok(Some(if rest == 0 { Physical::End } else { Physical::BadHeader(rest) }));
        }
        self.block_offset += self.block.len() as u64;
        let mut filled = std::mem::take(&mut self.passed_over);
        self.next = filled;
        self.current = filled;
        self.block.resize(BLOCK_BYTES, 0);
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

    /// Goes back to the zeros that were passed before the present record, once for each place. A
    /// writer that maps its log fills it from front to back, and zeros lie behind its end. Records
    /// behind zeros say that the writer has gone on since the zeros were read, or that the zeros
    /// are on the disk.
    #[cold]
    fn reads_again(&mut self) -> bool {
        let zeros_at = self.zeros_at.take();
        let goes = zeros_at.filter(|at| self.again_at != Some(*at) && self.source.try_seek(*at));
        if let Some(offset) = goes {
            self.again_at = Some(offset);
            self.start_at(offset);
        }
        goes.is_some()
    }

    /// Makes the next block the one with `offset`, and the next record the one there. The source
    /// stands at `offset`.
    fn start_at(&mut self, offset: u64) {
        let passed_over = offset % BLOCK_BYTES as u64;
        self.passed_over = usize::try_from(passed_over).unwrap_or(0);
        self.block_offset = offset - passed_over;
        self.block.clear();
        (self.next, self.current) = (0, 0);
        self.at_last_block = false;
    }

    /// Drops the rest of the block and returns its length.
    pub(super) fn drop_rest(&mut self) -> usize {
        let rest = self.block.len() - self.next;
        self.next = self.block.len();
        rest
    }

    /// Lets the next call return the current record again.
    pub(super) fn step_back(&mut self) {
        self.next = self.current;
    }

    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.block.get(range).unwrap_or_default()
    }

    pub(super) fn record_offset(&self) -> u64 {
        self.block_offset + self.current as u64
    }

    pub(super) fn offset(&self) -> u64 {
        self.block_offset + self.next as u64
    }
}

impl<S: SeekSource> Blocks<S> {
    pub(super) fn go_to(&mut self, offset: u64) {
        self.zeros_at = None;
        self.start_at(offset);
        self.source.seek(offset);
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
