//! Traces: files of timed records about queries, block cache accesses, or I/O.
//!
//! In: records. Out: RocksDB's bytes, and back again, checked. All three kinds of trace have the
//! same frame. Source: RocksDB `trace_replay/trace_replay.cc`, `block_cache_tracer.cc`,
//! `io_tracer.cc`. Page: `docs/format/trace.md`.
//!
//! ```text
//! record := timestamp:u64 kind:u8 payload_len:u32 payload
//! file   := header record* [footer]
//! ```
//!
//! Invariants
//!  1. A record that was decoded gives the same record after it is encoded and decoded again.
//!  2. No length in a record is trusted beyond the bytes that are there.

mod block_access;
mod io_op;
mod query;
#[cfg(test)]
mod tests;

pub use block_access::{BlockAccess, GetAccess, TableReaderCaller};
pub use io_op::IoOp;
pub use query::Query;

use esker_base::coding::{Decoder, put_fixed32, put_fixed64, put_length_prefixed};
use esker_base::{Error, Result};

/// Bytes of a record before its payload.
pub const FRAME_BYTES: usize = 13;
/// The first bytes of a trace's header.
pub const MAGIC: &[u8] = b"feedcafedeadbeef";
/// The version of query traces that is written: 0.2.
pub const QUERY_TRACE_VERSION: u32 = 2;

/// The kinds of records. The numbers are RocksDB's `TraceType`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum TraceKind {
    /// The header.
    Begin = 1,
    /// The footer.
    End = 2,
    /// A batch that was written.
    Write = 3,
    /// A get.
    Get = 4,
    /// A `seek` of an iterator.
    IteratorSeek = 5,
    /// A `seek_for_prev` of an iterator.
    IteratorSeekForPrev = 6,
    /// An access to an index block.
    IndexBlock = 7,
    /// An access to a filter block.
    FilterBlock = 8,
    /// An access to a data block.
    DataBlock = 9,
    /// An access to a compression dictionary.
    UncompressionDictBlock = 10,
    /// An access to a block of range tombstones.
    RangeDeletionBlock = 11,
    /// An operation on a file.
    Io = 12,
    /// A get of several keys.
    MultiGet = 13,
}

impl TraceKind {
    /// The kind with this number, if there is one.
    pub fn from_u8(number: u8) -> Option<TraceKind> {
        use TraceKind as Kind;
        const ALL: [TraceKind; 13] = [
            Kind::Begin,
            Kind::End,
            Kind::Write,
            Kind::Get,
            Kind::IteratorSeek,
            Kind::IteratorSeekForPrev,
            Kind::IndexBlock,
            Kind::FilterBlock,
            Kind::DataBlock,
            Kind::UncompressionDictBlock,
            Kind::RangeDeletionBlock,
            Kind::Io,
            Kind::MultiGet,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// One record, its payload not yet decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceFrame<'a> {
    /// Microseconds since 1970.
    pub timestamp: u64,
    /// The number of its kind; readers skip numbers that [`TraceKind`] has not.
    pub kind: u8,
    /// The bytes whose meaning the kind gives.
    pub payload: &'a [u8],
}

impl<'a> TraceFrame<'a> {
    /// Decodes a whole record.
    /// # Errors
    /// `Corruption` if it has not the length that it states.
    pub fn decode(record: &'a [u8]) -> Result<TraceFrame<'a>> {
        let mut decoder = Decoder::new(record);
        let (timestamp, kind, len) = (decoder.fixed64()?, decoder.u8()?, decoder.fixed32()?);
        let payload = decoder.rest();
        if payload.len() != len as usize {
            return Err(Error::corruption(format!(
                "a trace record has {} bytes of payload and states {len}",
                payload.len()
            )));
        }
        Ok(TraceFrame { timestamp, kind, payload })
    }

    /// Appends the record. REQUIRES: the payload has fewer than 2^32 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_fixed64(out, self.timestamp);
        out.push(self.kind);
        put_fixed32(out, u32::try_from(self.payload.len()).unwrap_or(u32::MAX));
        out.extend_from_slice(self.payload);
    }
}

/// The number of payload bytes that a record's first [`FRAME_BYTES`] state.
/// # Errors
/// `Corruption` if there are fewer.
pub fn payload_len(frame: &[u8]) -> Result<u32> {
    let mut decoder = Decoder::new(frame);
    decoder.bytes(FRAME_BYTES - 4)?;
    decoder.fixed32()
}

/// The payload of a query trace's header. `release` is the version of RocksDB whose format it has.
pub fn query_header(release: (u32, u32)) -> Vec<u8> {
    let (major, minor) = release;
    let fields = format!(
        "\tTrace Version: 0.{QUERY_TRACE_VERSION}\tRocksDB Version: {major}.{minor}\tFormat: Timestamp OpType Payload\n"
    );
    [MAGIC, fields.as_bytes()].concat()
}

/// The version of a query trace by its header: the digits of "0.2" as one number, 2.
/// # Errors
/// `Corruption` if the record is no header, or its version is no version.
pub fn parse_query_header(header: &TraceFrame<'_>) -> Result<u32> {
    if header.kind != TraceKind::Begin as u8 {
        return Err(Error::corruption("Corrupted trace file. Incorrect header."));
    }
    let fields = header
        .payload
        .strip_prefix(MAGIC)
        .ok_or_else(|| Error::corruption("Corrupted trace file. Incorrect magic."))?;
    let fields = String::from_utf8_lossy(fields);
    let version = fields.split('\t').find_map(|field| field.strip_prefix("Trace Version: "));
    let parts = version.and_then(|version| version.split_once('.'));
    parts
        .filter(|parts| ![parts.0, parts.1].iter().any(|part| part.contains(|c: char| !c.is_ascii_digit())))
        .and_then(|(major, minor)| format!("{major}{minor}").parse().ok())
        .ok_or_else(|| Error::corruption("Corrupted trace file. Incorrect version format."))
}

/// The payload of the header of a trace of block accesses, or of I/O.
pub fn binary_header(release: (u32, u32)) -> Vec<u8> {
    let mut payload = Vec::new();
    put_length_prefixed(&mut payload, MAGIC);
    put_fixed32(&mut payload, release.0);
    put_fixed32(&mut payload, release.1);
    payload
}

/// RocksDB's major and minor version, by the header of a trace of block accesses or I/O.
/// # Errors
/// `Corruption` if the record is no such header.
pub fn parse_binary_header(header: &TraceFrame<'_>) -> Result<(u32, u32)> {
    let mut decoder = Decoder::new(header.payload);
    if decoder.length_prefixed()? != MAGIC {
        return Err(Error::corruption("Corrupted header in the trace file: Magic number does not match."));
    }
    let release = (decoder.fixed32()?, decoder.fixed32()?);
    if !decoder.is_empty() {
        let what = "Corrupted header in the trace file: The length of header is too long.";
        return Err(Error::corruption(what));
    }
    Ok(release)
}
