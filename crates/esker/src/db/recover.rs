//! Recovery: entries that are in WALs and in no table go into memtables, and from there to level 0.
//!
//! In: the versions that the MANIFEST gave, and the WAL directory. Out: per family a memtable and
//! the level-0 files that `recover/tables.rs` wrote. Nothing is logged here: `db/open.rs` logs all
//! of it at once.
//! Cost: that of the records and of the tables, plus one look at each family when replay begins and
//! ends.
//!
//! Invariants
//!  1. A family gets no op of a WAL numbered below the family's log number: its tables have these
//!     ops.
//!  2. Sequence numbers advance over every counted op, also of dropped families.
//!  3. Uncommitted ops cannot be seen afterwards, even if an early policy has put them into tables.
//!  4. Read-only recovery writes nothing.
//!
//! Source: RocksDB `db/db_impl/db_impl_open.cc` (`RecoverLogFiles`); the four modes are
//! `format::wal_recovery`'s.

mod filter;
mod sections;
mod tables;

pub(super) use sections::log_sections;
pub(crate) use sections::simplify_entity;

use super::descriptor::ColumnFamilyDescriptor;
use super::operands::FormerOperators;
use crate::options::{DbOptions, WalRecoveryMode, load_latest_options_from};
use crate::version::beside_owner::{OwnersProgress, owner_has_changed};
use crate::version::{FamilyMap, VersionSet, VersionSetFamily};
use crate::wal::{
    Predecessor, ReplayBudget, SectionsAgain, TwoPhaseReplay, WalReader, open_wal, open_wal_of_owner,
};
use crate::write::{entry_of, new_memtable};
use esker_base::logger::InfoLog;
use esker_base::sync::Arc;
use esker_base::sync::atomic::AtomicU64;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber, ValueType};
use esker_env::FileSystem;
use esker_format::file_name::{FileType, current_file_name, parse_file_name, wal_file_name};
use esker_format::key::{InternalKeyComparator, LookupKey};
use esker_format::log::{LogCorruption, LogEvent};
use esker_format::version_edit::{BlobFileAddition, FileMetaData};
use esker_format::wal_recovery::{self, ReplayStep, WalReplay};
use esker_format::write_batch::{BatchOp, PrepareKind, WriteBatchView};
use esker_memtable::MemTable;
use esker_table::TableCache;
use filter::ReplayedRecord;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;

/// Stands for the new WAL, which has no number yet.
const NEW_WAL: FileNumber = FileNumber(u64::MAX);

/// The inputs of recovery.
pub(super) struct Recovery<'a> {
    pub(super) options: &'a DbOptions,
    pub(super) fs: &'a Arc<dyn FileSystem>,
    pub(super) path: &'a Path,
    pub(super) wal_dir: &'a Path,
    pub(super) db_id: &'a str,
    pub(super) session_id: &'a str,
    /// Set if another process owns the database and may continue writing. Recovery writes nothing
    /// then.
    pub(super) before_manifest: Option<BeforeManifest>,
    pub(super) info_log: &'a Arc<dyn InfoLog>,
    /// The table cache of each opened family.
    pub(super) tables: &'a BTreeMap<ColumnFamilyId, Arc<TableCache>>,
    pub(super) former_operators: &'a FormerOperators,
    /// Whether transactions continue under an early policy: `WritePrepared` or `WriteUnprepared`.
    pub(super) write_prepared: bool,
}

/// The files that were there before the MANIFEST was read.
#[derive(Clone)]
pub(super) struct BeforeManifest {
    pub(super) progress: Option<OwnersProgress>,
    pub(super) wals: Vec<FileNumber>,
}

/// The results of recovery.
pub(super) struct RecoveredDb {
    /// The replayed families, in the order of their ids.
    pub(super) families: Vec<ReplayedFamily>,
    /// WALs that were replayed.
    replayed: Vec<FileNumber>,
    /// WALs whose contents are in memtables only (`avoid_flush_during_recovery`), with their bytes.
    pub(super) wals_still_needed: Vec<(FileNumber, u64)>,
    /// Unresolved transactions. They are written to the new WAL, since the old WALs are deleted.
    pub(super) sections: SectionsAgain,
    /// The kind of their sections in the new WAL.
    pub(super) kind: PrepareKind,
    /// WALs of which only a part was applied, each with the length of that part.
    pub(super) cuts: Vec<(FileNumber, u64)>,
    /// A sentence for each place at which records of WALs were lost.
    pub(super) losses: Vec<String>,
}

impl RecoveredDb {
    /// The families whose merge operands in WALs are refused, each with the error.
    pub(super) fn refused_operands(&self) -> BTreeMap<ColumnFamilyId, Error> {
        let refused = |f: &ReplayedFamily| Some((f.id, f.foreign_operands.clone()?));
        self.families.iter().filter_map(refused).collect()
    }

    /// WALs that must be durable before later writes are synced: the WALs that stay, or all
    /// replayed WALs if a transaction is prepared. The new WAL has copies of prepared sections. If
    /// a crash came before the MANIFEST drops the old WALs, the copies might survive and earlier
    /// writes might be lost.
    pub(super) fn wals_to_sync(&self) -> Vec<FileNumber> {
        match self.sections.is_empty() {
            true => self.wals_still_needed.iter().map(|(number, _)| *number).collect(),
            false => self.replayed.clone(),
        }
    }
}

/// One family after replay.
pub(super) struct ReplayedFamily {
    pub(super) id: ColumnFamilyId,
    pub(super) mem: Arc<MemTable>,
    /// The oldest WAL with an entry of `mem`.
    pub(super) log_number: FileNumber,
    /// Level-0 tables written while replaying.
    pub(super) new_files: Vec<FileMetaData>,
    pub(super) new_blobs: Vec<BlobFileAddition>,
    /// A new bound of history, higher than the MANIFEST's.
    pub(super) full_history_ts_low: Option<Vec<u8>>,
    /// WALs below this hold nothing for the family.
    manifest_log_number: FileNumber,
    /// The error if another merge operator than the family's wrote the operands in the WALs.
    foreign_operands: Option<Error>,
    /// Whether `mem` has entries, and whether it has reached `write_buffer_size`.
    has_entries: bool,
    is_full: bool,
    icmp: InternalKeyComparator,
    pub(super) descriptor: ColumnFamilyDescriptor,
    next_memtable_id: u64,
    epochs: Arc<AtomicU64>,
}

impl ReplayedFamily {
    /// Whether the newest replayed write of `key` is a merge.
    fn ends_in_operand(&self, key: &[u8]) -> Result<bool> {
        let mut is_operand = false;
        self.mem.get(&LookupKey::new(key, SequenceNumber::MAX), |value_type, _, _| {
            is_operand = value_type == ValueType::Merge;
            false
        })?;
        Ok(is_operand)
    }
}

impl Recovery<'_> {
    /// Replays every WAL that may hold something.
    /// # Errors
    /// `Corruption` with WAL and offset, where the recovery mode refuses damage · `NotSupported`:
    /// a WAL has prepared sections and `allow_2pc` is off, or a prepared section deletes ranges
    /// under an early policy · `IoError`.
    pub(super) fn run(
        &self,
        manifest: &VersionSet,
        families: &[ColumnFamilyDescriptor],
    ) -> Result<RecoveredDb> {
        let replayed = self.fresh_families(manifest, families);
        let wals = self.wals_to_replay(manifest)?;
        let opened = self.open_before_they_go(manifest, &wals)?;
        let mut run = ReplayRun {
            recovery: self,
            manifest,
            families: replayed,
            decide: WalReplay::new(mode_of(self.options.wal_recovery_mode)),
            last_sequence: manifest.numbers().last_sequence(),
            two_phase: TwoPhaseReplay::new(self.options.allow_2pc),
            at: (FileNumber(0), None),
            records: (0, 0),
            stopped_in_recycled: false,
            ended_in_doubt: false,
            is_filtered: false,
            is_stopped_by_filter: false,
            smallest_needed: manifest.families().map(|f| f.log_number()).min().unwrap_or_default(),
            smallest_wanted: self.smallest_wanted(manifest),
            full: Vec::new(),
            budget: ReplayBudget::new(self.options),
            has_written_tables: false,
            opened,
            recyclable: Vec::new(),
            cuts: Vec::new(),
            losses: Vec::new(),
        };
        let timestamped = run.families.iter().filter(|(_, f)| f.icmp.timestamp_size() > 0);
        run.two_phase.set_timestamped(timestamped.map(|(id, _)| *id));
        run.two_phase.set_orders(run.families.iter().map(|(id, f)| (*id, &f.icmp)));
        if !self.options.allow_2pc {
            self.note_old_sections(manifest, &mut run.two_phase)?;
        }
        self.report_filter_of_families(manifest);
        for &wal in &wals {
            run.replay_file(wal).map_err(|e| e.with_retryable(self.may_be_under_way()))?;
        }
        run.check_not_recycled()?;
        run.check_stop()?;
        // WALs are not kept in three cases:
        //  - A WAL has ended in doubt. The next open continues behind it only in a mode that
        //    accepts such an end. It also stops if a sequence number is missing, and a write
        //    without a WAL takes one.
        //  - Tables have a part of a WAL. The next open would apply that part again, and its merges
        //    twice.
        //  - A filter has changed or dropped records. The next open may have no filter, and would
        //    apply the original records.
        // With `allow_2pc`, `avoid_flush_during_recovery` is off.
        let in_part = run.families.values().any(|f| !f.new_files.is_empty());
        let is_kept_whole = !(run.ended_in_doubt || run.is_filtered || in_part);
        let flush = !(self.options.avoid_flush_during_recovery && is_kept_whole);
        let ended = run.two_phase.take_ended();
        let unresolved = std::mem::take(&mut run.two_phase).into_unresolved()?;
        // `take_back` comes before the flush, which drops pairs of entries and merges operands.
        let taken_back = run.take_back(&unresolved)?;
        if !self.is_read_only() && flush {
            run.keep_single_deletions(&unresolved, &ended)?;
            run.flush_all()?;
        }
        if run.has_written_tables {
            run.sync_directories()?;
        }
        let oldest = run.families.values().filter(|f| f.has_entries).map(|f| f.log_number).min();
        let is_kept = |w: &FileNumber| !self.is_read_only() && oldest.is_some_and(|o| *w >= o);
        let needed = wals.iter().copied().filter(is_kept);
        let wals_still_needed = needed.map(|w| Ok((w, self.wal_bytes(w)?))).collect::<Result<_>>()?;
        let sections = run.resolve_sections(&unresolved, taken_back)?;
        esker_base::probe!("recovery:families_walked", &mut run.families.walked());
        manifest.numbers().set_last_sequence(run.last_sequence);
        let (families, cuts, losses) = (run.families.into_values().collect(), run.cuts, run.losses);
        let kind = self.kind();
        Ok(RecoveredDb { sections, kind, wals_still_needed, families, replayed: wals, cuts, losses })
    }

    /// Families with empty memtables, for a secondary, which replays by itself.
    /// # Errors
    /// `InvalidArgument` if WALs lie elsewhere than `wal_dir` says · `IoError`.
    pub(super) fn without_replay(
        &self,
        manifest: &VersionSet,
        families: &[ColumnFamilyDescriptor],
    ) -> Result<RecoveredDb> {
        self.wals_to_replay(manifest)?;
        Ok(RecoveredDb {
            families: self.fresh_families(manifest, families).into_values().collect(),
            replayed: Vec::new(),
            wals_still_needed: Vec::new(),
            sections: SectionsAgain::default(),
            kind: self.kind(),
            cuts: Vec::new(),
            losses: Vec::new(),
        })
    }

    fn fresh_families(
        &self,
        manifest: &VersionSet,
        families: &[ColumnFamilyDescriptor],
    ) -> FamilyMap<ReplayedFamily> {
        let mut replayed = FamilyMap::default();
        let by_name: HashMap<&str, _> = families.iter().rev().map(|d| (d.name.as_str(), d)).collect();
        for family in manifest.families() {
            let Some(descriptor) = by_name.get(family.name()) else { continue };
            let mut fresh = ReplayedFamily::new(
                self.options,
                family.id(),
                descriptor,
                family.log_number(),
                family.epochs().clone(),
            );
            fresh.foreign_operands = self.former_operators.refusal(family.name()).cloned();
            replayed.insert(family.id(), fresh);
        }
        replayed
    }

    /// Numbers of the WALs that some family may need, ascending; all WAL numbers are marked as
    /// used.
    fn wals_to_replay(&self, manifest: &VersionSet) -> Result<Vec<FileNumber>> {
        if !self.fs.file_exists(self.wal_dir)? {
            // An open that writes has made the directory before.
            let what = format!("wal_dir not found: {}", self.wal_dir.display());
            return Err(Error::invalid_argument(what));
        }
        let smallest_wanted = self.smallest_wanted(manifest);
        let next_file = manifest.numbers().next_file_number();
        if self.wal_dir != self.path {
            self.check_for_wals_elsewhere(smallest_wanted)?;
        }
        let mut wals = Vec::new();
        for name in self.fs.children(self.wal_dir)? {
            if let Some((FileType::Wal, number)) = parse_file_name(&name) {
                manifest.numbers().mark_used(number);
                if number >= smallest_wanted {
                    wals.push(number);
                }
            }
        }
        wals.sort_unstable();
        if wals.is_empty() && self.options.wal_dir.is_none() {
            check_for_forgotten_wal_dir(self.fs.as_ref(), self.path, smallest_wanted..next_file)?;
        }
        Ok(wals)
    }

    /// The kind of the sections of transactions that continue.
    fn kind(&self) -> PrepareKind {
        if self.write_prepared { PrepareKind::Persisted } else { PrepareKind::Committed }
    }

    fn is_read_only(&self) -> bool {
        self.before_manifest.is_some()
    }

    /// Whether an error may come from a record that another process is still writing. Only
    /// `AbsoluteConsistency` refuses a WAL that ends within a record.
    fn may_be_under_way(&self) -> bool {
        self.is_read_only() && self.options.wal_recovery_mode == WalRecoveryMode::AbsoluteConsistency
    }

    /// Opens all WALs of another owner before replay, so that they stay readable if they are
    /// deleted.
    /// # Errors
    /// `TryAgain` if the owner has deleted a needed WAL meanwhile. The owner deletes WALs oldest
    /// first, after the MANIFEST has given them up. So if the needed WALs seen before reading the
    /// MANIFEST are there, no later WAL is missing.
    fn open_before_they_go(
        &self,
        manifest: &VersionSet,
        wals: &[FileNumber],
    ) -> Result<BTreeMap<FileNumber, WalReader>> {
        let Some(before) = &self.before_manifest else { return Ok(BTreeMap::new()) };
        let mut opened = BTreeMap::new();
        for wal in wals {
            opened.insert(*wal, open_wal_of_owner(self.fs.as_ref(), self.wal_dir, *wal)?);
        }
        let smallest = self.smallest_wanted(manifest);
        let mut needed = before.wals.iter().filter(|wal| **wal >= smallest).peekable();
        let is_whole = match needed.peek() {
            Some(_) => needed.all(|wal| opened.contains_key(wal)),
            None => OwnersProgress::now(self.fs.as_ref(), self.path) == before.progress,
        };
        if is_whole { Ok(opened) } else { Err(owner_has_changed("a WAL has gone")) }
    }

    /// Checks that the database's directory holds no needed WAL from before `wal_dir` was set.
    /// A WAL there would be deleted without a replay.
    /// # Errors
    /// `InvalidArgument` names a needed WAL that is not in `wal_dir`.
    fn check_for_wals_elsewhere(&self, smallest_wanted: FileNumber) -> Result<()> {
        for name in self.fs.children(self.path)? {
            let Some((FileType::Wal, number)) = parse_file_name(&name) else { continue };
            let path = self.path.join(&name);
            // Both paths may name the same directory.
            let is_missed = number >= smallest_wanted && !self.fs.file_exists(&self.wal_dir.join(&name))?;
            if is_missed && self.fs.file_size(&path)? > 0 {
                return Err(Error::invalid_argument(format!(
                    "{} may hold writes that no table has, and is not in wal_dir, {}: move it there, or open without wal_dir and flush",
                    path.display(),
                    self.wal_dir.display()
                )));
            }
        }
        Ok(())
    }

    /// The smallest number of a WAL to replay. Tables have all committed entries of older WALs.
    /// Without `allow_2pc` these may still have prepared sections: see `note_old_sections`.
    fn smallest_wanted(&self, manifest: &VersionSet) -> FileNumber {
        let for_sections = manifest.min_log_number_to_keep();
        if self.options.allow_2pc {
            return for_sections;
        }
        let smallest = manifest.families().map(|f| f.log_number()).min().unwrap_or_default();
        smallest.max(for_sections)
    }

    /// Looks for sections in WALs that are kept only for their sections. Deleting such a WAL would
    /// lose transactions that are prepared, or were committed since. Damage in it is ignored here.
    fn note_old_sections(&self, manifest: &VersionSet, two_phase: &mut TwoPhaseReplay) -> Result<()> {
        let old = manifest.min_log_number_to_keep()..self.smallest_wanted(manifest);
        let mut wals = Vec::new();
        for name in self.fs.children(self.wal_dir)? {
            match parse_file_name(&name) {
                Some((FileType::Wal, number)) if old.contains(&number) => wals.push(number),
                _ => {}
            }
        }
        wals.sort_unstable();
        let mut decide = WalReplay::new(wal_recovery::WalReplayMode::SkipAnyCorruptedRecords);
        let mut record = Vec::new();
        for wal in wals {
            let mut reader = open_wal(self.fs.as_ref(), self.wal_dir, wal)?;
            decide.begin_file(wal);
            two_phase.begin_file();
            while let Ok(event) = reader.next_record(&mut record) {
                match decide.event(&event, &record) {
                    Ok(ReplayStep::Apply(batch)) => two_phase.note(wal, &batch),
                    Ok(ReplayStep::Continue) => {}
                    Ok(ReplayStep::EndOfFile) | Err(_) => break,
                }
            }
        }
        Ok(())
    }

    fn wal_bytes(&self, number: FileNumber) -> Result<u64> {
        self.fs.file_size(&wal_file_name(self.wal_dir, number))
    }
}

/// Whether a WAL that lost nothing may end with this event. A crash may leave a part of a record.
/// In a recycled WAL, records of an older WAL follow the new ones.
fn is_usual_end(event: LogEvent) -> bool {
    use LogCorruption::{BadLength, ChecksumMismatch};
    match event {
        LogEvent::Truncated { .. } | LogEvent::OldRecord { .. } | LogEvent::Ignored { .. } => true,
        LogEvent::Corrupt { what: ChecksumMismatch | BadLength, recycled, .. } => recycled,
        _ => false,
    }
}

/// A replay under way.
struct ReplayRun<'a> {
    recovery: &'a Recovery<'a>,
    manifest: &'a VersionSet,
    families: FamilyMap<ReplayedFamily>,
    decide: WalReplay,
    last_sequence: SequenceNumber,
    two_phase: TwoPhaseReplay,
    /// The present WAL, and the WAL replayed before it.
    at: (FileNumber, Option<FileNumber>),
    /// Number of records in each of them.
    records: (u64, u64),
    /// Whether replay stopped in a WAL that was written over an older one. It may have stopped at a
    /// record of the older WAL.
    stopped_in_recycled: bool,
    /// Whether a WAL holds damage, or ends in damage or in what may be old records of a recycled
    /// file.
    ended_in_doubt: bool,
    /// Whether the filter has changed or dropped a record, and whether it has ended the replay.
    is_filtered: bool,
    is_stopped_by_filter: bool,
    /// The oldest WAL that a family needs, as the MANIFEST has it, and the oldest WAL to replay.
    smallest_needed: FileNumber,
    smallest_wanted: FileNumber,
    /// Families whose memtable the last batch filled up to `write_buffer_size`.
    full: Vec<ColumnFamilyId>,
    budget: ReplayBudget,
    /// Whether tables were written since the last sync of the directory.
    has_written_tables: bool,
    /// Open WALs of another owner, and replayed WALs that may be written over.
    opened: BTreeMap<FileNumber, WalReader>,
    recyclable: Vec<FileNumber>,
    /// See [`RecoveredDb`].
    cuts: Vec<(FileNumber, u64)>,
    losses: Vec<String>,
}

impl ReplayRun<'_> {
    fn replay_file(&mut self, wal: FileNumber) -> Result<()> {
        if self.is_stopped_by_filter {
            return self.drop_wal(wal);
        }
        let recovery = self.recovery;
        esker_base::info_log!(
            recovery.info_log,
            Info,
            "Recovering log #{wal} mode {:?}",
            recovery.options.wal_recovery_mode
        );
        let mut reader = match self.opened.remove(&wal) {
            Some(reader) => reader,
            None => open_wal(recovery.fs.as_ref(), recovery.wal_dir, wal)?,
        };
        self.decide.begin_file(wal);
        self.at = (wal, Some(self.at.0).filter(|wal| wal.0 > 0));
        self.records = (0, self.records.0);
        self.two_phase.begin_file();
        let (mut record, mut applied_bytes) = (Vec::new(), 0);
        let mut last_event;
        let is_whole = loop {
            let event = reader.next_record(&mut record);
            last_event = event.as_ref().ok().copied();
            let step = match &event {
                Ok(event) => self.decide.event(event, &record),
                Err(e) => self.decide.read_error(e.clone()),
            }?;
            if matches!(event, Ok(LogEvent::TimestampSizes)) {
                let size = |id| self.families.get(&id).map(|f| f.icmp.timestamp_size());
                wal_recovery::check_timestamp_sizes(reader.timestamp_sizes(), size)
                    .map_err(|e| e.at(format_args!("{wal:06}.log")))?;
            }
            match step {
                ReplayStep::Apply(batch) => match self.replay_record(wal, event.as_ref().ok(), &batch)? {
                    ReplayedRecord::Applied => applied_bytes = reader.offset(),
                    ReplayedRecord::Skipped => {}
                    ReplayedRecord::EndsFile => break false,
                },
                ReplayStep::Continue => {}
                ReplayStep::EndOfFile => break matches!(event, Ok(LogEvent::End)),
            }
            self.log_warning(last_event);
        };
        if !is_whole {
            self.cuts.push((wal, applied_bytes));
        }
        self.log_warning(last_event);
        if self.decide.stopped_in() == Some(wal) {
            self.stopped_in_recycled = reader.is_recycled();
        }
        if recovery.is_read_only() && reader.is_recycled() {
            self.recyclable.push(wal);
        }
        Ok(())
    }

    /// Checks that each WAL kept its contents during replay.
    /// # Errors
    /// `TryAgain` if a replayed WAL is gone: the owner renames a WAL before it writes over it.
    fn check_not_recycled(&self) -> Result<()> {
        for wal in &self.recyclable {
            if !self.recovery.fs.file_exists(&wal_file_name(self.recovery.wal_dir, *wal))? {
                return Err(owner_has_changed("a WAL was recycled"));
            }
        }
        Ok(())
    }

    /// The reason why no memtable takes the batch, if there is one.
    fn find_refusal(&self, wal: FileNumber, batch: &WriteBatchView<'_>) -> Option<String> {
        let needs_wal = |f: &&ReplayedFamily| wal >= f.manifest_log_number;
        find_refusal(batch, |id| self.families.get(&id).filter(needs_wal).map(|f| &f.icmp))
    }

    /// Whether the replay of this WAL continues. The batch may state the end of the WAL before this
    /// one. If that end is lost, the recovery mode decides. If a needed WAL before this one has
    /// failed, replay stops: the copies of its sections in this WAL do not count yet.
    fn follows_predecessor(&mut self, batch: &WriteBatchView<'_>) -> Result<bool> {
        let Some(p) = Predecessor::of_batch(batch) else { return Ok(true) };
        // An unneeded WAL may have been deleted. For sections the MANIFEST names the oldest WAL
        // that may be needed, and this number lags behind. So a WAL that no family needs counts
        // only if it is there.
        let is_wanted = p.number >= self.smallest_wanted
            && (p.number >= self.smallest_needed || self.at.1 == Some(p.number));
        if !is_wanted || p.has_failed() {
            return Ok(!is_wanted);
        }
        let found = if self.at.1 == Some(p.number) { self.records.1 } else { 0 };
        let is_whole = p.records.is_none_or(|records| found >= records);
        self.decide.after(p.number, self.two_phase.knows_next_number().then_some(p.due), is_whole)
    }

    /// Logs the warning of the last step, which dealt with `event`. Records a loss, unless a WAL
    /// that lost nothing may end with `event`.
    fn log_warning(&mut self, event: Option<LogEvent>) {
        if let Some(warning) = self.decide.take_warning() {
            self.ended_in_doubt = true;
            esker_base::info_log!(self.recovery.info_log, Warn, "WAL recovery: {warning}");
            if !event.is_some_and(is_usual_end) {
                self.losses.push(warning);
            }
        }
    }

    /// Applies one batch and says how many sequence numbers it took.
    fn apply(&mut self, wal: FileNumber, batch: &WriteBatchView<'_>) -> Result<u64> {
        let (families, full) = (&mut self.families, &mut self.full);
        let budget = &mut self.budget;
        let consumed = self.two_phase.record(wal, batch, &mut |wal, sequence, op| {
            let Some((id, entry)) = entry_of(op)? else { return Ok(()) };
            if let Some(family) = families.get_mut(&id).filter(|f| wal >= f.manifest_log_number) {
                if entry.value_type == ValueType::Merge
                    && let Some(e) = &family.foreign_operands
                {
                    return Err(e.clone().at(format!("{wal:06}.log")));
                }
                budget.note(entry.key, entry.value);
                if family.add(wal, sequence, &entry)? {
                    full.push(id);
                }
            }
            Ok(())
        })?;
        // Also for a batch that takes no number: later numbers in a WAL must not go back.
        let last = (batch.sequence().0 + consumed).saturating_sub(1);
        self.last_sequence = self.last_sequence.max(SequenceNumber(last));
        Ok(consumed)
    }

    /// Checks that no family has tables newer than the point where replay stopped.
    /// # Errors
    /// `Corruption` if a family with tables does not need the WAL in which replay stopped. Its
    /// tables are newer than the recovered state of the other families.
    fn check_stop(&self) -> Result<()> {
        let Some(stopped) = self.decide.stopped_in() else { return Ok(()) };
        let tolerant = WalRecoveryMode::SkipAnyCorruptedRecords == self.recovery.options.wal_recovery_mode;
        for family in self.manifest.families().filter(|_| !tolerant) {
            if family.log_number() > stopped
                && family.current().total_size() > 0
                && !(self.stopped_in_recycled && self.has_reached_tables_of(family))
            {
                return Err(Error::corruption(format!(
                    "SST file is ahead of WALs in CF {}: WAL {stopped:06}.log is damaged and the family's tables are newer",
                    family.name()
                )));
            }
        }
        Ok(())
    }

    /// Whether everything in the family's tables is older than the next sequence number. The tables
    /// are not ahead of the WALs then: a recycled WAL has simply ended. RocksDB refuses to open
    /// such a database.
    fn has_reached_tables_of(&self, family: &VersionSetFamily) -> bool {
        let newest = family.current().all_files().map(|(_, f)| f.data().largest_seqno).max();
        newest < self.decide.next_sequence()
    }
}

/// The reason why no memtable takes the batch, if there is one. `order` gives the key order of a
/// family whose tables lack the batch's WAL.
pub(super) fn find_refusal<'a>(
    batch: &WriteBatchView<'_>,
    order: impl Fn(ColumnFamilyId) -> Option<&'a InternalKeyComparator>,
) -> Option<String> {
    if has_inverted_range(batch, order) {
        return Some("a range deletion ends before it begins".into());
    }
    batch.check_entries().err().map(|e| e.message().to_owned())
}

/// Whether the batch deletes a range that ends before it begins. RocksDB logs such a write before
/// it refuses it, and its next opening stops in front of the record. Esker refuses the write before
/// logging it. Prepared sections are skipped: RocksDB's transactions have no range deletions.
fn has_inverted_range<'a>(
    batch: &WriteBatchView<'_>,
    order: impl Fn(ColumnFamilyId) -> Option<&'a InternalKeyComparator>,
) -> bool {
    let content = batch.content();
    content.delete_range
        && !content.transaction_markers
        && batch.iter().any(|op| {
            let BatchOp::DeleteRange { family, begin, end } = op else { return false };
            order(family).is_some_and(|icmp| icmp.compare_plain_keys(begin, end).is_gt())
        })
}

impl ReplayedFamily {
    fn new(
        options: &DbOptions,
        id: ColumnFamilyId,
        descriptor: &ColumnFamilyDescriptor,
        manifest_log_number: FileNumber,
        epochs: Arc<AtomicU64>,
    ) -> ReplayedFamily {
        let icmp = InternalKeyComparator::new(descriptor.options.comparator.clone());
        ReplayedFamily {
            id,
            mem: new_memtable(options, &icmp, &descriptor.options, 1, SequenceNumber::ZERO),
            log_number: manifest_log_number,
            new_files: Vec::new(),
            new_blobs: Vec::new(),
            full_history_ts_low: None,
            manifest_log_number,
            foreign_operands: None,
            has_entries: false,
            is_full: false,
            icmp,
            descriptor: descriptor.clone(),
            next_memtable_id: 2,
            epochs,
        }
    }

    /// The oldest WAL with an entry of `mem`; without entries `new_wal`, the next WAL to be
    /// written.
    pub(super) fn oldest_wal(&self, new_wal: FileNumber) -> FileNumber {
        if self.has_entries { self.log_number.min(new_wal) } else { new_wal }
    }
}

/// The format's word for a mode.
pub(super) fn mode_of(mode: WalRecoveryMode) -> wal_recovery::WalReplayMode {
    use wal_recovery::WalReplayMode as Format;
    match mode {
        WalRecoveryMode::TolerateCorruptedTailRecords => Format::TolerateCorruptedTailRecords,
        WalRecoveryMode::AbsoluteConsistency => Format::AbsoluteConsistency,
        WalRecoveryMode::PointInTimeRecovery => Format::PointInTimeRecovery,
        WalRecoveryMode::SkipAnyCorruptedRecords => Format::SkipAnyCorruptedRecords,
    }
}

/// Refuses an open without `wal_dir`, if the OPTIONS file names one and WALs there would be lost. A
/// `wal_dir` with a database of its own is not searched: this database may be a copy of that one,
/// OPTIONS file included.
/// # Errors
/// `InvalidArgument` names the option, if one of the WALs `wanted` is in the directory.
pub(crate) fn check_for_forgotten_wal_dir(
    fs: &dyn FileSystem,
    path: &Path,
    wanted: Range<FileNumber>,
) -> Result<()> {
    // An unreadable OPTIONS file does not prevent an open.
    let recorded = load_latest_options_from(fs, path).ok().and_then(|recorded| recorded.db.wal_dir);
    let Some(wal_dir) = recorded.filter(|wal_dir| wal_dir != path) else { return Ok(()) };
    if fs.file_exists(&current_file_name(&wal_dir)).unwrap_or(true) {
        return Ok(());
    }
    for name in fs.children(&wal_dir).unwrap_or_default() {
        let Some((FileType::Wal, number)) = parse_file_name(&name) else { continue };
        let wal = wal_dir.join(&name);
        if wanted.contains(&number) && fs.file_size(&wal).is_ok_and(|bytes| bytes > 0) {
            return Err(Error::invalid_argument(format!(
                "{} may hold writes that no table has: the database was last opened with wal_dir {}. Set wal_dir to that, or to the database's own directory to do without them",
                wal.display(),
                wal_dir.display()
            )));
        }
    }
    Ok(())
}
