//! Records of I/O operations.

use super::{TraceFrame, TraceKind};
use esker_base::coding::{Decoder, put_fixed64, put_length_prefixed};
use esker_base::{Error, Result};

/// The bits of optional fields. The numbers are RocksDB's `IOTraceOp`.
const FILE_SIZE: u32 = 0;
const LEN: u32 = 1;
const OFFSET: u32 = 2;
/// The bit of the request id in `trace_data`.
const REQUEST_ID: u32 = 0;

/// One operation on a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IoOp<'a> {
    /// Microseconds since 1970.
    pub timestamp: u64,
    /// The operation, such as `Append`: the name of RocksDB's function.
    pub file_operation: &'a [u8],
    /// Duration of the operation in nanoseconds.
    pub latency: u64,
    /// `OK`, or the error.
    pub io_status: &'a [u8],
    /// The file's name, without directories.
    pub file_name: &'a [u8],
    /// Bytes of the file.
    pub file_size: Option<u64>,
    /// Bytes that were read or written.
    pub len: Option<u64>,
    /// The place in the file.
    pub offset: Option<u64>,
    /// The number of the request that led to it.
    pub request_id: Option<&'a [u8]>,
}

impl<'a> IoOp<'a> {
    /// Appends the whole record. REQUIRES: each field has fewer than 2^32 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let optional = [(FILE_SIZE, self.file_size), (LEN, self.len), (OFFSET, self.offset)];
        let bits = optional.iter().fold(0, |bits, (bit, value)| bits | u64::from(value.is_some()) << bit);
        let mut payload = Vec::new();
        put_fixed64(&mut payload, bits);
        put_length_prefixed(&mut payload, self.file_operation);
        put_fixed64(&mut payload, self.latency);
        put_length_prefixed(&mut payload, self.io_status);
        put_length_prefixed(&mut payload, self.file_name);
        optional.iter().filter_map(|(_, value)| *value).for_each(|value| put_fixed64(&mut payload, value));
        put_fixed64(&mut payload, u64::from(self.request_id.is_some()) << REQUEST_ID);
        if let Some(request_id) = self.request_id {
            put_length_prefixed(&mut payload, request_id);
        }
        TraceFrame { timestamp: self.timestamp, kind: TraceKind::Io as u8, payload: &payload }.encode(out);
    }

    /// Decodes a record.
    /// # Errors
    /// `Corruption` if it is none of I/O, its payload is cut off, or has an unknown field.
    pub fn decode(frame: &TraceFrame<'a>) -> Result<IoOp<'a>> {
        if frame.kind != TraceKind::Io as u8 {
            return Err(Error::corruption(format!("a trace record of kind {} is none of I/O", frame.kind)));
        }
        let mut decoder = Decoder::new(frame.payload);
        let bits = decoder.fixed64()?;
        if bits >> (OFFSET + 1) != 0 {
            return Err(Error::corruption("a trace record of I/O has an unknown field"));
        }
        let mut op = IoOp {
            timestamp: frame.timestamp,
            file_operation: decoder.length_prefixed()?,
            latency: decoder.fixed64()?,
            io_status: decoder.length_prefixed()?,
            file_name: decoder.length_prefixed()?,
            ..IoOp::default()
        };
        for (bit, field) in [(FILE_SIZE, &mut op.file_size), (LEN, &mut op.len), (OFFSET, &mut op.offset)] {
            if bits & (1 << bit) != 0 {
                *field = Some(decoder.fixed64()?);
            }
        }
        match decoder.fixed64()? {
            0 => {}
            1 => op.request_id = Some(decoder.length_prefixed()?),
            _ => return Err(Error::corruption("a trace record of I/O has unknown trace data")),
        }
        Ok(op)
    }
}
