//! Replays one record, if `wal_filter` lets it pass.
//!
//! In: a record of a WAL. Out: the record, or the batch that the filter gives in its place, in
//! memtables.
//!
//! Invariants
//!  1. Each record uses up its sequence numbers, even if it is dropped: later records, and
//!     Esker's statements about a WAL's end, count them.
//!  2. A filter does not see records that hold such a statement: no client wrote them.

use super::{Recovery, ReplayRun};
use crate::options::{WalFilterDecision, WalFilterRecord};
use crate::version::VersionSet;
use crate::wal::Predecessor;
use esker_base::{Error, FileNumber, Result};
use esker_format::file_name::wal_file_name;
use esker_format::log::LogEvent;
use esker_format::wal_recovery::ReplayStep;
use esker_format::write_batch::{WriteBatch, WriteBatchView};

/// The fate of a record.
enum Filtered {
    /// Apply it as it is.
    Whole,
    /// Apply this instead.
    Changed(WriteBatch),
    /// Apply nothing.
    Ignored,
    /// Apply neither it nor anything behind it.
    Stop,
    /// Treat it as damage, for this reason.
    Damaged(String),
}

/// The end of one record's replay.
pub(super) enum ReplayedRecord {
    /// The record was applied or dropped, and its numbers are used up.
    Applied,
    /// The record was damaged; replay continues.
    Skipped,
    /// Replay of this WAL ends before the record.
    EndsFile,
}

impl Recovery<'_> {
    /// Passes the numbers of the WALs that families need to the filter.
    pub(super) fn report_filter_of_families(&self, manifest: &VersionSet) {
        let Some(filter) = &self.options.wal_filter else { return };
        let log_numbers = manifest.families().map(|family| (family.id(), family.log_number())).collect();
        let ids = manifest.families().map(|family| (family.name(), family.id())).collect();
        filter.column_family_log_number_map(&log_numbers, &ids);
    }
}

impl ReplayRun<'_> {
    /// Replays one whole batch, which `event` gave.
    /// # Errors
    /// `Corruption`, as the recovery mode rules · `NotSupported` for a record that this engine does
    /// not apply, or a filter's batch that is too large.
    pub(super) fn replay_record(
        &mut self,
        wal: FileNumber,
        event: Option<&LogEvent>,
        batch: &WriteBatchView<'_>,
    ) -> Result<ReplayedRecord> {
        let filtered = self.filtered(wal, batch)?;
        let why = match &filtered {
            Filtered::Damaged(why) => Some(why.clone()),
            Filtered::Changed(changed) => self.find_refusal(wal, &changed.view()),
            Filtered::Whole => self.find_refusal(wal, batch),
            Filtered::Ignored | Filtered::Stop => None,
        };
        if let (Some(why), Some(event)) = (why, event) {
            return Ok(match self.decide.refused(event, &why)? {
                ReplayStep::EndOfFile => ReplayedRecord::EndsFile,
                _ => ReplayedRecord::Skipped,
            });
        }
        if matches!(filtered, Filtered::Stop) || !self.follows_predecessor(batch)? {
            return Ok(ReplayedRecord::EndsFile);
        }
        self.records.0 += 1;
        match filtered {
            Filtered::Whole => {
                let consumed = self.apply(wal, batch)?;
                self.decide.applied(batch.sequence(), consumed)?;
            }
            Filtered::Changed(changed) => {
                let consumed = self.apply(wal, &changed.view())?;
                self.use_up_numbers(wal, batch, consumed)?;
            }
            Filtered::Ignored | Filtered::Stop | Filtered::Damaged(_) => {
                self.use_up_numbers(wal, batch, 0)?
            }
        }
        self.flush_full()?;
        Ok(ReplayedRecord::Applied)
    }

    /// The filter's decision on a record.
    /// # Errors
    /// `NotSupported` if it gives a batch with more counted operations.
    fn filtered(&mut self, wal: FileNumber, batch: &WriteBatchView<'_>) -> Result<Filtered> {
        let recovery = self.recovery;
        let Some(filter) = &recovery.options.wal_filter else { return Ok(Filtered::Whole) };
        if Predecessor::of_batch(batch).is_some() {
            return Ok(Filtered::Whole);
        }
        // If no copy can be made, recovery refuses the batch.
        let Ok(copy) = WriteBatch::from_bytes(batch.data().to_vec()) else { return Ok(Filtered::Whole) };
        let path = wal_file_name(recovery.wal_dir, wal);
        let decision = filter.log_record_found(&WalFilterRecord::new(wal, &path, &copy));
        self.is_filtered |= !matches!(decision, WalFilterDecision::ContinueProcessing);
        match decision {
            WalFilterDecision::ContinueProcessing => Ok(Filtered::Whole),
            WalFilterDecision::ChangeBatch(mut changed) => {
                if changed.count() > batch.count() {
                    return Err(Error::not_supported(format!(
                        "{wal:06}.log: More than original # of records returned by Wal Filter {}: {} in place of {}",
                        filter.name(),
                        changed.count(),
                        batch.count()
                    )));
                }
                changed.set_sequence(batch.sequence());
                Ok(Filtered::Changed(changed))
            }
            WalFilterDecision::IgnoreCurrentRecord => Ok(Filtered::Ignored),
            WalFilterDecision::StopReplay => {
                self.is_stopped_by_filter = true;
                let name = filter.name();
                esker_base::info_log!(
                    recovery.info_log,
                    Warn,
                    "{wal:06}.log: WAL filter {name} stops replay"
                );
                Ok(Filtered::Stop)
            }
            WalFilterDecision::CorruptedRecord => {
                Ok(Filtered::Damaged(format!("Corruption reported by Wal Filter {}", filter.name())))
            }
        }
    }

    /// Uses up the sequence numbers of a record that is dropped or changed. `consumed`: the numbers
    /// that its replacement took.
    /// # Errors
    /// `Corruption` if sequence numbers go backwards.
    fn use_up_numbers(&mut self, wal: FileNumber, batch: &WriteBatchView<'_>, consumed: u64) -> Result<()> {
        let due = self.two_phase.numbers_of(wal, batch).max(consumed);
        let last = (batch.sequence().0 + due).saturating_sub(1);
        self.last_sequence.0 = self.last_sequence.0.max(last);
        self.decide.applied(batch.sequence(), due)
    }

    /// Leaves a WAL behind the point where the filter stopped.
    pub(super) fn drop_wal(&mut self, wal: FileNumber) -> Result<()> {
        let bytes = self.recovery.wal_bytes(wal)?;
        esker_base::info_log!(self.recovery.info_log, Warn, "{wal:06}.log: dropping {bytes} bytes");
        self.cuts.push((wal, 0));
        Ok(())
    }
}
