//! WAL recovery: RocksDB's four recovery modes, as a decision for each event of a log.
//!
//! In: the events of each WAL, in order of their numbers. Out: the next step, and where replay
//! stopped.
//! Source: RocksDB `db/db_impl/db_impl_open.cc`, measured on 46 damaged databases
//! (`fixtures/walrec_*`).
//!
//! ```text
//!                        TolerateTail      Absolute   PointInTime              SkipAny
//! torn at the end        end of this WAL   fail       stop                     end of this WAL
//! damage                 fail [1]          fail       stop                     go on
//! older log's record     end of this WAL   same       stop                     go on
//! ... within a record    end of this WAL   fail       stop                     go on
//! ```
//!
//! \[1\] If the WAL is recycled and the CRC or length is wrong, the WAL silently ends instead. A
//! log that overwrites an older one looks like that behind its end.
//!
//! Invariants
//!  1. After a stop nothing is applied, with one exception. Replay resumes if the first record of a
//!     later WAL has exactly the sequence number that is due: then nothing was lost in between.
//!  2. A complete batch that no engine applies (an inverted range, see [`WalReplay::refused`]) is
//!     damage, and none of it is applied.
//!  3. A complete batch with contradictory contents (op count, unknown tag) fails the open in every
//!     mode. A sequence number that goes backwards does so too.
//!
//! Page: `docs/format/log.md`.

use crate::log::{LogCorruption, LogEvent};
use crate::write_batch::{BATCH_HEADER_BYTES, WriteBatchView};
use esker_base::{ColumnFamilyId, Error, ErrorKind, FileNumber, Result, SequenceNumber};

#[cfg(test)]
mod tests;

/// The damage in WALs that an open tolerates. The numbers are RocksDB's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum WalReplayMode {
    /// A WAL may end in the middle of a record. All other damage fails the open.
    TolerateCorruptedTailRecords = 0,
    /// Any damage fails the open.
    AbsoluteConsistency = 1,
    /// The database returns to its state before the first damage.
    #[default]
    PointInTimeRecovery = 2,
    /// The replay skips damage and applies every record that it can read, even behind a gap.
    SkipAnyCorruptedRecords = 3,
}

/// The engine's next step after an event.
#[derive(Clone, Copy, Debug)]
pub enum ReplayStep<'a> {
    /// Apply this batch, except to dropped families, then call [`WalReplay::applied`].
    Apply(WriteBatchView<'a>),
    /// Read the next event. [`WalReplay::take_warning`] may have a warning for the info log.
    Continue,
    /// This WAL has ended; read the next one.
    EndOfFile,
}

/// Decides over the events of all WALs of a database.
#[derive(Debug)]
pub struct WalReplay {
    mode: WalReplayMode,
    file: FileNumber,
    next_sequence: Option<SequenceNumber>,
    stopped_in: Option<FileNumber>,
    warning: Option<String>,
}

impl WalReplay {
    /// The state before the first WAL.
    pub fn new(mode: WalReplayMode) -> WalReplay {
        WalReplay { mode, file: FileNumber(0), next_sequence: None, stopped_in: None, warning: None }
    }

    /// Begins the next WAL.
    pub fn begin_file(&mut self, number: FileNumber) {
        self.file = number;
    }

    /// The next sequence number that is due; `None` if nothing was applied.
    pub fn next_sequence(&self) -> Option<SequenceNumber> {
        self.next_sequence
    }

    /// The WAL whose damage stopped replay for good. If a family with tables needs no WAL as old as
    /// this one, its tables are newer than the recovered state. The open must then fail in the
    /// point-in-time and tail modes.
    pub fn stopped_in(&self) -> Option<FileNumber> {
        self.stopped_in
    }

    /// A sentence for the info log on everything dropped or skipped since the last call.
    pub fn take_warning(&mut self) -> Option<String> {
        self.warning.take()
    }

    /// Decides on an event; `record` is the reader's buffer.
    /// # Errors
    /// `Corruption`, naming the WAL and the offset: the open must fail.
    pub fn event<'a>(&mut self, event: &LogEvent, record: &'a [u8]) -> Result<ReplayStep<'a>> {
        use WalReplayMode as Mode;
        match *event {
            LogEvent::Record { offset } => self.record(offset, record),
            LogEvent::End => Ok(ReplayStep::EndOfFile),
            LogEvent::Predecessor(_) | LogEvent::TimestampSizes => Ok(ReplayStep::Continue),
            LogEvent::Ignored { .. } | LogEvent::Undecodable { .. } => Ok(self.skip(event)),
            LogEvent::Truncated { .. } => match self.mode {
                Mode::TolerateCorruptedTailRecords | Mode::SkipAnyCorruptedRecords => Ok(self.end(event)),
                Mode::AbsoluteConsistency | Mode::PointInTimeRecovery => self.damage(event),
            },
            LogEvent::OldRecord { in_fragment, .. } => match self.mode {
                Mode::SkipAnyCorruptedRecords => Ok(self.skip(event)),
                Mode::TolerateCorruptedTailRecords => Ok(self.end(event)),
                Mode::AbsoluteConsistency if !in_fragment => Ok(self.end(event)),
                Mode::AbsoluteConsistency | Mode::PointInTimeRecovery => self.damage(event),
            },
            LogEvent::Corrupt { what, recycled, .. } => {
                let may_be_old =
                    recycled && matches!(what, LogCorruption::ChecksumMismatch | LogCorruption::BadLength);
                match self.mode {
                    Mode::SkipAnyCorruptedRecords => Ok(self.skip(event)),
                    Mode::TolerateCorruptedTailRecords if may_be_old => Ok(self.end(event)),
                    _ => self.damage(event),
                }
            }
        }
    }

    /// Decides on the batch of `event` if the engine refused to apply it because of `why`: it
    /// counts as a damaged record.
    /// # Errors
    /// `Corruption`, naming the WAL and the offset: the open must fail.
    pub fn refused(&mut self, event: &LogEvent, why: &str) -> Result<ReplayStep<'static>> {
        let LogEvent::Record { offset } = *event else { unreachable!("only records are batches") };
        self.bad_record(offset, why)
    }

    /// Decides on a failed read of a WAL: `SkipAnyCorruptedRecords` continues with the next WAL,
    /// other modes fail.
    /// # Errors
    /// The error itself.
    pub fn read_error(&mut self, error: Error) -> Result<ReplayStep<'static>> {
        if self.mode != WalReplayMode::SkipAnyCorruptedRecords {
            return Err(error);
        }
        self.warning = Some(error.to_string());
        Ok(ReplayStep::EndOfFile)
    }

    /// Records that the batch with header number `batch` was applied. It `consumed` that many
    /// sequence numbers, one for each of its operations, or of the transaction's for a two-phase
    /// commit.
    /// # Errors
    /// `Corruption` if numbers went backwards.
    pub fn applied(&mut self, batch: SequenceNumber, consumed: u64) -> Result<()> {
        let next = SequenceNumber(batch.0.saturating_add(consumed));
        if let Some(due) = self.next_sequence
            && next < due
        {
            return Err(Error::corruption(format!(
                "{:06}.log: sequence number {batch} after {due} was due: numbers go backwards",
                self.file.0
            )));
        }
        self.next_sequence = Some(next);
        Ok(())
    }

    /// Checks the current WAL's statement about `predecessor`, which was replayed too. `due` is the
    /// sequence number after its end, if known. `is_whole` says that it has at least the stated
    /// number of records. Returns whether replay continues: not if the end of `predecessor` was
    /// silently lost and the mode allows no holes.
    /// # Errors
    /// `Corruption` in a mode where nothing may be lost.
    pub fn after(
        &mut self,
        predecessor: FileNumber,
        due: Option<SequenceNumber>,
        is_whole: bool,
    ) -> Result<bool> {
        if is_whole && due.is_none_or(|due| self.next_sequence >= Some(due)) {
            return Ok(true);
        }
        let due = due.map_or(String::new(), |due| format!(" at sequence number {due}"));
        let what = format!("{:06}.log: its end is lost; {} begins{due}", predecessor.0, self.name());
        match self.mode {
            WalReplayMode::AbsoluteConsistency => Err(Error::corruption(what)),
            WalReplayMode::PointInTimeRecovery => {
                self.warning = Some(format!("replay stops: {what}"));
                self.stopped_in = Some(predecessor);
                Ok(false)
            }
            WalReplayMode::TolerateCorruptedTailRecords | WalReplayMode::SkipAnyCorruptedRecords => {
                self.warning = Some(what);
                Ok(true)
            }
        }
    }

    fn record<'a>(&mut self, offset: u64, record: &'a [u8]) -> Result<ReplayStep<'a>> {
        if record.len() < BATCH_HEADER_BYTES {
            return self.bad_record(offset, &format!("record of {} bytes is no batch", record.len()));
        }
        let batch = WriteBatchView::parse(record)
            .map_err(|e| e.at(format_args!("{}, offset {offset}", self.name())))?;
        let sequence = batch.sequence();
        if sequence > SequenceNumber::MAX {
            return self.bad_record(offset, &format!("sequence number {sequence} is too large"));
        }
        if self.stopped_in.is_some() {
            if self.next_sequence != Some(sequence) {
                self.warning = Some(format!("{}: dropped, newer than damage before it", self.name()));
                return Ok(ReplayStep::EndOfFile);
            }
            self.stopped_in = None;
        }
        Ok(ReplayStep::Apply(batch))
    }

    /// Fails on a complete record whose content cannot be a batch.
    fn bad_record(&mut self, offset: u64, what: &str) -> Result<ReplayStep<'static>> {
        let error = Error::corruption(format!("{}: {what}, at offset {offset}", self.name()));
        match self.mode {
            WalReplayMode::SkipAnyCorruptedRecords => {
                self.warning = Some(error.to_string());
                Ok(ReplayStep::Continue)
            }
            WalReplayMode::PointInTimeRecovery => Ok(self.stop(&error)),
            _ => Err(error),
        }
    }

    fn damage(&mut self, event: &LogEvent) -> Result<ReplayStep<'static>> {
        let error = Error::new(ErrorKind::Corruption, format!("{}: {event}", self.name()));
        if self.mode == WalReplayMode::PointInTimeRecovery { Ok(self.stop(&error)) } else { Err(error) }
    }

    fn stop(&mut self, why: &Error) -> ReplayStep<'static> {
        self.warning = Some(format!("replay stops: {}", why.message()));
        self.stopped_in = Some(self.file);
        ReplayStep::EndOfFile
    }

    fn end(&mut self, event: &LogEvent) -> ReplayStep<'static> {
        self.warning = Some(format!("{}: {event}", self.name()));
        ReplayStep::EndOfFile
    }

    fn skip(&mut self, event: &LogEvent) -> ReplayStep<'static> {
        self.warning = Some(format!("{}: {event}", self.name()));
        ReplayStep::Continue
    }

    fn name(&self) -> String {
        format!("{:06}.log", self.file.0)
    }
}

/// Compares the timestamp sizes in a WAL ([`crate::log::LogReader::timestamp_sizes`]) with those of
/// the open families. `running` gives a family's size, or `None` for a dropped family.
/// # Errors
/// `NotSupported`, naming the family, if its keys in the WAL have timestamps of another size than
/// its comparator.
pub fn check_timestamp_sizes(
    recorded: &[(ColumnFamilyId, u16)],
    running: impl Fn(ColumnFamilyId) -> Option<usize>,
) -> Result<()> {
    for &(family, size) in recorded {
        if let Some(running) = running(family)
            && running != usize::from(size)
        {
            return Err(Error::not_supported(format!(
                "the WAL has timestamps of {size} bytes for column family {family}, its comparator of {running}"
            )));
        }
    }
    Ok(())
}
