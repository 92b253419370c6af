//! Reads a log of which only the end may be torn, and describes events and damage as text.

use super::{LogCorruption, LogEvent, LogReader, LogSource, Truncation};
use esker_base::Result;
use std::fmt;

/// Reads the next record of a MANIFEST into `buf`. Returns `false` at the end. A record torn at the
/// very end counts as the end: its writer died before acknowledging it.
/// # Errors
/// `Corruption` for any other damage, naming `file` and the offset · those of the source.
pub fn next_strict<S: LogSource>(
    reader: &mut LogReader<S>,
    buf: &mut Vec<u8>,
    file: &dyn fmt::Display,
) -> Result<bool> {
    loop {
        let event = reader.next_record(buf)?;
        match event {
            LogEvent::Record { .. } => return Ok(true),
            LogEvent::End | LogEvent::Truncated { .. } => return Ok(false),
            LogEvent::Ignored { .. } | LogEvent::Predecessor(_) | LogEvent::TimestampSizes => {}
            LogEvent::Corrupt { .. } | LogEvent::OldRecord { .. } | LogEvent::Undecodable { .. } => {
                if let Some(error) = event.to_error(file) {
                    return Err(error);
                }
            }
        }
    }
}

pub(super) fn describe(event: &LogEvent, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match *event {
        LogEvent::Record { offset } => write!(f, "record at offset {offset}"),
        LogEvent::End => write!(f, "end of log"),
        LogEvent::Truncated { what, offset, dropped } => {
            let what = match what {
                Truncation::Header => "truncated header",
                Truncation::Body => "truncated record body",
                Truncation::Fragment => "log ends between the fragments of a record",
            };
            write!(f, "{what} at offset {offset}, {dropped} bytes dropped")
        }
        LogEvent::Corrupt { what, offset, dropped, .. } => {
            write!(f, "{what} at offset {offset}, {dropped} bytes dropped")
        }
        LogEvent::OldRecord { offset, in_fragment } => {
            let cut = if in_fragment { ", in the middle of a record" } else { "" };
            write!(f, "record of an older log at offset {offset}{cut}")
        }
        LogEvent::Undecodable { offset, dropped } => {
            write!(f, "record that does not decompress at offset {offset}, {dropped} bytes dropped")
        }
        LogEvent::Ignored { offset, record_type } => {
            write!(f, "skipped record of unknown type {record_type} at offset {offset}")
        }
        LogEvent::Predecessor(p) => {
            write!(
                f,
                "follows log {} of {} bytes, last sequence {}",
                p.log_number, p.size_bytes, p.last_sequence
            )
        }
        LogEvent::TimestampSizes => write!(f, "timestamp sizes"),
    }
}

impl fmt::Display for LogCorruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogCorruption::ChecksumMismatch => "checksum mismatch",
            LogCorruption::BadLength => "bad record length",
            LogCorruption::PartialRecord => "record that was never finished",
            LogCorruption::MissingStart => "fragment without the start of its record",
            LogCorruption::UnknownType(code) => return write!(f, "unknown record type {code}"),
            LogCorruption::UnexpectedRecyclable => "recyclable record in a log that began with others",
            LogCorruption::BadSetCompression => "misplaced or unknown compression record",
            LogCorruption::BadCompression => "record that does not decompress",
            LogCorruption::BadTimestampSizes => "bad record of timestamp sizes",
            LogCorruption::BadPredecessor => "bad record about the preceding log",
        })
    }
}
