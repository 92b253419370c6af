//! Replays the new records of a primary's WALs into memtables.
//!
//! In: open WALs, each with the offset up to which it was read. Out: entries in memtables, which
//! readers do not see yet, and the last sequence number.
//!
//! A WAL that the primary may still be writing is read to its last whole record. An ended WAL is
//! read as by a recovery: `format::wal_recovery` decides on damage.

use crate::db::recover::find_refusal;
use crate::engine::{Engine, FollowedFamily, PrimaryFollower};
use crate::version::beside_owner::owner_has_changed;
use crate::wal::{FollowedWal, Predecessor};
use crate::write::{ApplyEntry, entry_of};
use esker_base::sync::Arc;
use esker_base::{Error, FileNumber, Result, SequenceNumber, ValueType};
use esker_format::file_name::wal_file_name;
use esker_format::log::LogEvent;
use esker_format::wal_recovery::{ReplayStep, check_timestamp_sizes};
use esker_format::write_batch::WriteBatchView;

/// Records between two checks whether the database closes.
const RECORDS_BETWEEN_LOOKS: u64 = 1024;

/// The replay of one catch-up.
pub(super) struct Replay<'a> {
    engine: &'a Arc<Engine>,
    follower: &'a mut PrimaryFollower,
    smallest_wanted: FileNumber,
    /// The newest number that readers see.
    visible: SequenceNumber,
    last: SequenceNumber,
    /// WALs with new records that the primary may recycle and overwrite.
    recyclable: Vec<FileNumber>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        engine: &'a Arc<Engine>,
        follower: &'a mut PrimaryFollower,
        smallest_wanted: FileNumber,
    ) -> Replay<'a> {
        let visible = engine.visible_sequence();
        let last = visible.max(engine.manifest.lock().logged_sequence());
        Replay { engine, follower, smallest_wanted, visible, last, recyclable: Vec::new() }
    }

    /// Replays all new records. Returns the last sequence number that readers will see.
    /// # Errors
    /// `Corruption`, as the recovery mode rules, naming WAL and offset · `NotSupported`: the WAL
    /// holds a record that this engine does not support · `TryAgain` if the primary has written
    /// over a WAL meanwhile · `IoError` · `ShutdownInProgress`.
    pub(super) fn run(mut self) -> Result<SequenceNumber> {
        self.name_timestamped();
        for number in self.follower.wals.unfinished() {
            let has_ended = self.follower.wals.has_record_behind(number)?;
            let mut wal = self.follower.wals.take_out(number);
            let replayed = self.replay_wal(number, &mut wal, has_ended);
            self.follower.wals.put_back(number, wal);
            replayed?;
            if !has_ended {
                break;
            }
        }
        self.check_not_recycled()?;
        Ok(self.last)
    }

    /// Records the families whose keys get the timestamps of commits.
    fn name_timestamped(&mut self) {
        if self.follower.wals.at.0 == FileNumber(0) {
            let families = self.follower.families.iter();
            let timestamped = families.filter(|(_, f)| f.cf.icmp.timestamp_size() > 0).map(|(id, _)| *id);
            self.follower.wals.two_phase.set_timestamped(timestamped);
        }
    }

    fn replay_wal(&mut self, number: FileNumber, wal: &mut FollowedWal, has_ended: bool) -> Result<()> {
        let mut record = Vec::new();
        let mut records = 0;
        loop {
            let event = wal.next_record(&mut record);
            let is_whole = matches!(
                event,
                Ok(LogEvent::Record { .. }
                    | LogEvent::TimestampSizes
                    | LogEvent::Predecessor(_)
                    | LogEvent::Ignored { .. })
            );
            if !is_whole && !has_ended {
                // The primary may still write this WAL.
                wal.go_back();
                break event.map(drop)?;
            }
            if !self.step(number, wal, event, &record)? {
                wal.is_done = true;
                break;
            }
            wal.take();
            records += 1;
            if records % RECORDS_BETWEEN_LOOKS == 0 {
                self.engine.check_open()?;
            }
        }
        self.log_warning();
        // Without a new record, bytes of a later WAL may have passed for damage.
        if (records > 0 || has_ended) && wal.log.is_recycled() {
            self.recyclable.push(number);
        }
        Ok(())
    }

    /// Handles one event. Returns whether this WAL has more to read.
    fn step(
        &mut self,
        number: FileNumber,
        wal: &FollowedWal,
        event: Result<LogEvent>,
        record: &[u8],
    ) -> Result<bool> {
        let decide = &mut self.follower.wals.decide;
        let step = match &event {
            Ok(event) => decide.event(event, record),
            Err(e) => decide.read_error(e.clone()),
        }?;
        if matches!(event, Ok(LogEvent::TimestampSizes)) {
            let size = |id| self.follower.families.get(&id).map(|f| f.cf.icmp.timestamp_size());
            check_timestamp_sizes(wal.log.timestamp_sizes(), size)
                .map_err(|e| e.at(format_args!("{number:06}.log")))?;
        }
        let batch = match step {
            ReplayStep::Apply(batch) => batch,
            ReplayStep::Continue => return Ok(true),
            ReplayStep::EndOfFile => return Ok(false),
        };
        if let (Ok(event), Some(why)) = (&event, self.find_refusal(number, &batch)) {
            let step = self.follower.wals.decide.refused(event, &why)?;
            return Ok(matches!(step, ReplayStep::Continue));
        }
        if !self.follows_predecessor(&batch)? {
            return Ok(false);
        }
        self.follower.wals.records.0 += 1;
        let consumed = self.apply(number, &batch)?;
        self.follower.wals.decide.applied(batch.sequence(), consumed)?;
        Ok(true)
    }

    fn find_refusal(&self, wal: FileNumber, batch: &WriteBatchView<'_>) -> Option<String> {
        let needs_wal = |f: &&FollowedFamily| wal >= f.log_number;
        find_refusal(batch, |id| self.follower.families.get(&id).filter(needs_wal).map(|f| &f.cf.icmp))
    }

    /// Whether the WAL before this one was replayed to its end, if this batch names that end.
    fn follows_predecessor(&mut self, batch: &WriteBatchView<'_>) -> Result<bool> {
        let Some(p) = Predecessor::of_batch(batch) else { return Ok(true) };
        let wals = &mut self.follower.wals;
        let is_before = wals.at.1 == Some(p.number);
        let smallest_needed = self.follower.families.values().map(|f| f.log_number).min();
        let is_wanted = p.number >= self.smallest_wanted && (Some(p.number) >= smallest_needed || is_before);
        if !is_wanted || p.has_failed() {
            return Ok(!is_wanted);
        }
        let found = if is_before { wals.records.1 } else { 0 };
        let is_whole = p.records.is_none_or(|records| found >= records);
        wals.decide.after(p.number, wals.two_phase.knows_next_number().then_some(p.due), is_whole)
    }

    /// Applies one batch and says how many sequence numbers it took.
    fn apply(&mut self, wal: FileNumber, batch: &WriteBatchView<'_>) -> Result<u64> {
        let PrimaryFollower { wals, families, changed, .. } = &mut *self.follower;
        let (engine, visible) = (self.engine, self.visible);
        let consumed = wals.two_phase.record(wal, batch, &mut |wal, sequence, op| {
            let Some((id, entry)) = entry_of(op)? else { return Ok(()) };
            let Some(family) = families.get_mut(&id).filter(|f| wal >= f.log_number) else { return Ok(()) };
            if entry.value_type == ValueType::Merge
                && let Some(e) = &family.foreign_operands
            {
                return Err(e.clone().at(format!("{wal:06}.log")));
            }
            if family.add(engine, wal, (sequence, visible), &entry)? {
                changed.insert(id);
            }
            Ok(())
        })?;
        if wals.two_phase.numbers_batches() {
            return Err(write_prepared(wal));
        }
        // A batch that takes no number counts too: numbers must not decrease within a WAL.
        let last = (batch.sequence().0 + consumed).saturating_sub(1);
        self.last = self.last.max(SequenceNumber(last));
        Ok(consumed)
    }

    fn log_warning(&mut self) {
        if let Some(warning) = self.follower.wals.decide.take_warning() {
            esker_base::info_log!(self.engine.info_log, Warn, "WAL replay: {warning}");
        }
    }

    /// Checks that the records came from the WALs that were opened, not from a later use of the
    /// same files.
    /// # Errors
    /// `TryAgain` if a replayed WAL is gone: the primary renames a WAL before it writes over it.
    fn check_not_recycled(&self) -> Result<()> {
        for wal in &self.recyclable {
            if !self.engine.fs().file_exists(&wal_file_name(&self.engine.wal_dir, *wal))? {
                return Err(owner_has_changed("a WAL was recycled"));
            }
        }
        Ok(())
    }
}

#[cold]
fn write_prepared(wal: FileNumber) -> Error {
    Error::not_supported(format!(
        "{:06}.log: a secondary of a primary with write-prepared or write-unprepared transactions",
        wal.0
    ))
}

impl FollowedFamily {
    /// Adds an entry of `wal`. `visible`: the sequence number that readers see. Returns whether
    /// readers need a new super version to see the entry.
    fn add(
        &mut self,
        engine: &Engine,
        wal: FileNumber,
        (sequence, visible): (SequenceNumber, SequenceNumber),
        entry: &ApplyEntry<'_>,
    ) -> Result<bool> {
        let is_of_other_wal = self.active.wal != wal && !self.active.mem.is_empty();
        let is_seen = !self.is_fresh && (self.has_new_version || sequence <= visible);
        if is_of_other_wal || is_seen {
            self.seal(engine);
        }
        self.active.wal = wal;
        self.active.mem.add(sequence, entry.value_type, entry.key, entry.value)?;
        Ok(self.is_fresh)
    }
}
