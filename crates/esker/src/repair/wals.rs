//! Converts the readable parts of WALs into tables. The cost of a record depends on its entries,
//! not on the number of families. All memtables together stay near the bound of the write buffer
//! manager, except for families to which an open early transaction may add older ops: these wait.

use super::{Family, Found, Repair, RepairSummary, SalvagedTable};
use crate::cf::MemTableLimits;
use crate::db;
use crate::files::OutputContext;
use crate::flush::{BuildTable, TableBuildJob};
use crate::wal::{ReplayBudget, TwoPhaseReplay, largest_half, open_wal};
use crate::write::{ApplyEntry, entry_of, new_memtable};
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, FileNumber, Result, SequenceNumber, ValueType};
use esker_env::rate_limiter::IoPriority;
use esker_format::key::{InternalKeyComparator, LookupKey};
use esker_format::range_del::FragmentedRangeTombstones;
use esker_format::version_edit::FileMetaData;
use esker_format::wal_recovery::{ReplayStep, WalReplay, WalReplayMode};
use esker_format::write_batch::WriteBatchView;
use esker_memtable::MemTable;
use esker_table::{TableCache, TableFile, TableReadOptions};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

/// The entries collected for a family.
struct Replayed {
    icmp: InternalKeyComparator,
    mem: Arc<MemTable>,
    tables: Arc<TableCache>,
    /// The tables of the family before the replay, newest first.
    old: Vec<FileMetaData>,
    /// Whether all found tables could be read.
    no_table_lost: bool,
    /// The tables have all entries of WALs below this number.
    flushed_before: FileNumber,
    limits: MemTableLimits,
}

impl Replayed {
    fn is_full(&self) -> bool {
        self.limits.has_too_many_bytes(&self.mem)
    }
}

impl Repair {
    /// Replays all WALs and writes their entries into tables. Skips damaged records.
    /// # Errors
    /// `IoError` of the new tables.
    pub(super) fn convert_wals(&mut self, found: &Found) -> Result<()> {
        let mut families: BTreeMap<ColumnFamilyId, Replayed> = BTreeMap::new();
        for (id, family) in &self.families {
            let mut replayed = self.start(family);
            // If a table is lost, the WALs may hold the only copy of its entries.
            if self.has_all_entries_of(*id) {
                replayed.flushed_before = self.flushed.log_numbers.get(id).copied().unwrap_or_default();
            }
            families.insert(*id, replayed);
        }
        let mut two_phase = TwoPhaseReplay::new(true);
        let timestamped = families.iter().filter(|(_, family)| family.icmp.timestamp_size() > 0);
        two_phase.set_timestamped(timestamped.map(|(id, _)| *id));
        two_phase.set_orders(families.iter().map(|(id, family)| (*id, &family.icmp)));
        for (wal, dir) in &found.wals {
            if let Err(e) = self.replay(*wal, dir, &mut two_phase, &mut families) {
                if e.kind() == esker_base::ErrorKind::IoError {
                    return Err(e);
                }
                esker_base::info_log!(self.info_log, Warn, "WAL {wal:06}: the rest is skipped: {e}");
                self.summary.note_damage(*wal, &format!("the rest is skipped: {e}"));
            }
            self.summary.wals.push(*wal);
        }
        for transaction in two_phase.into_unresolved()? {
            let xid = transaction.xid.escape_ascii();
            esker_base::info_log!(self.info_log, Warn, "Prepared transaction '{xid}' is lost");
            self.summary.prepared_transactions_lost.push(transaction.xid.clone());
        }
        for (id, replayed) in &mut families {
            self.write_table(*id, replayed)?;
        }
        Ok(())
    }

    fn start(&self, family: &Family) -> Replayed {
        let icmp = InternalKeyComparator::new(family.descriptor.options.comparator.clone());
        let mut old = family.tables.clone();
        old.sort_by_key(|file| Reverse(file.largest_seqno));
        Replayed {
            mem: new_memtable(&self.options, &icmp, &family.descriptor.options, 1, SequenceNumber::ZERO),
            icmp,
            tables: db::family_tables(
                &self.options,
                family.paths.clone(),
                &family.descriptor,
                &self.open_files,
            ),
            old,
            no_table_lost: self.summary.tables_lost.is_empty()
                && !self.summary.tables_salvaged.iter().any(SalvagedTable::has_losses),
            flushed_before: FileNumber(0),
            limits: MemTableLimits::of(&family.descriptor.options),
        }
    }

    fn replay(
        &mut self,
        wal: FileNumber,
        dir: &Path,
        two_phase: &mut TwoPhaseReplay,
        families: &mut BTreeMap<ColumnFamilyId, Replayed>,
    ) -> Result<()> {
        let mut decide = WalReplay::new(WalReplayMode::SkipAnyCorruptedRecords);
        let mut reader = open_wal(self.fs.as_ref(), dir, wal)?;
        decide.begin_file(wal);
        two_phase.begin_file();
        // Only an open needs the ended transactions.
        two_phase.take_ended();
        let (mut record, mut full, mut budget) = (Vec::new(), Vec::new(), ReplayBudget::new(&self.options));
        loop {
            let event = reader.next_record(&mut record);
            let step = match &event {
                Ok(event) => decide.event(event, &record),
                Err(e) => decide.read_error(e.clone()),
            }?;
            let ends = matches!(step, ReplayStep::EndOfFile);
            match step {
                ReplayStep::Apply(batch) => {
                    let consumed = self.apply(wal, &batch, two_phase, families, (&mut full, &mut budget))?;
                    decide.applied(batch.sequence(), consumed)?;
                    // Ops of an open early transaction belong below newer ones, in the same table.
                    let waits = |id| two_phase.may_add_to(id, families[&id].flushed_before);
                    full.retain(|id| !waits(*id));
                    if full.is_empty() && budget.is_exceeded() {
                        let filled = families.iter().filter(|(id, f)| !f.mem.is_empty() && !waits(**id));
                        full = largest_half(filled.map(|(id, f)| (f.mem.approximate_memory_usage(), *id)));
                        budget.note_look();
                    } else if !full.is_empty() {
                        budget.note_look();
                    }
                    for id in full.drain(..) {
                        self.write_table(
                            id,
                            families.get_mut(&id).expect("the record wrote to this family"),
                        )?;
                    }
                }
                ReplayStep::Continue | ReplayStep::EndOfFile => {}
            }
            if let Some(warning) = decide.take_warning() {
                esker_base::info_log!(self.info_log, Warn, "WAL {wal:06}: {warning}");
                // A killed process leaves an incomplete record at the end of its WAL.
                if !ends || event.is_err() {
                    self.summary.note_damage(wal, &warning);
                }
            }
            if ends {
                return Ok(());
            }
        }
    }

    /// Applies one batch, and returns how many sequence numbers it took. Skips ops that cannot be
    /// applied. Adds families with a full memtable to `full`, and the memtables' growth to
    /// `budget`.
    fn apply(
        &mut self,
        wal: FileNumber,
        batch: &WriteBatchView<'_>,
        two_phase: &mut TwoPhaseReplay,
        families: &BTreeMap<ColumnFamilyId, Replayed>,
        (full, budget): (&mut Vec<ColumnFamilyId>, &mut ReplayBudget),
    ) -> Result<u64> {
        let summary = &mut self.summary;
        let consumed = two_phase.record(wal, batch, &mut |_, sequence, op| {
            let Some((id, entry)) = entry_of(op)? else { return Ok(()) };
            match families.get(&id) {
                None => summary.wal_records_without_family += 1,
                Some(family) if wal < family.flushed_before || family.has(sequence, &entry)? => {}
                Some(family) => {
                    family.mem.add(sequence, entry.value_type, entry.key, entry.value)?;
                    summary.wal_records += 1;
                    budget.note(entry.key, entry.value);
                    if family.is_full() && full.last() != Some(&id) {
                        full.push(id);
                    }
                }
            }
            Ok(())
        })?;
        if consumed > 0 {
            self.numbers.set_last_sequence(SequenceNumber(batch.sequence().0 + consumed - 1));
        }
        Ok(consumed)
    }

    fn write_table(&mut self, id: ColumnFamilyId, replayed: &mut Replayed) -> Result<()> {
        if replayed.mem.is_empty() {
            return Ok(());
        }
        let family = self.families.get_mut(&id).expect("replayed families are known");
        let options = &family.descriptor.options;
        let fresh =
            new_memtable(&self.options, &replayed.icmp, options, replayed.mem.id() + 1, SequenceNumber::ZERO);
        let full = std::mem::replace(&mut replayed.mem, fresh);
        if self.how.dry_run {
            return Ok(());
        }
        full.mark_immutable();
        let output = OutputContext {
            env: &self.options.env,
            options: &self.options,
            family_options: options,
            icmp: &replayed.icmp,
            database: &self.path,
            path_id: 0,
            column_family: id,
            column_family_name: &family.descriptor.name,
            db_id: &self.db_id,
            session_id: &self.session_id,
            io_priority: IoPriority::High,
            info_log: &self.info_log,
            tables: &replayed.tables,
            job_id: 0,
            times: None,
            write_hint: self.options.sst_write_hint(options.compaction_style, 0, 0),
        };
        let job = TableBuildJob {
            number: self.numbers.new_file_number(),
            memtables: std::slice::from_ref(&full),
            newest: SequenceNumber::MAX,
            snapshots: &[],
            prepared: None,
            epoch_number: 0,
        };
        let built = (BuildTable { output, cancel: None, numbers: None }).run(&job)?;
        if let Some(file) = built.file {
            self.summary.tables_from_wals.push(file.number);
            family.tables.push(file);
        }
        if let Some(bound) = built.full_history_ts_low {
            family.raise_full_history_ts_low(&bound);
        }
        Ok(())
    }
}

impl RepairSummary {
    /// Records that part of a WAL was skipped; the first place is reported.
    fn note_damage(&mut self, wal: FileNumber, what: &str) {
        if self.wals_damaged.last().is_none_or(|(number, _)| *number != wal) {
            self.wals_damaged.push((wal, what.to_owned()));
        }
    }
}

impl Replayed {
    /// Whether a table contains this entry: the WAL outlived the flush because another family
    /// needed it. A merge operand must not count twice, and RocksDB refuses level-0 files with
    /// equal smallest sequence numbers.
    ///
    /// The table may lack the entry itself: a flush drops overwritten entries and joins operands.
    /// But entries of one key are flushed in order. So a table that has the key with this or a
    /// newer sequence number, or hides it, comes from a flush after this entry. If a table is lost,
    /// it may have had the entry. One case does not count then: all entries of this table are
    /// newer, and its newest entry of the key is an operand. The repair takes the entry from the
    /// WAL.
    fn has(&self, sequence: SequenceNumber, entry: &ApplyEntry<'_>) -> Result<bool> {
        let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
        let plain = self.icmp.without_timestamp();
        for file in self.old.iter().take_while(|file| sequence <= file.largest_seqno) {
            let reader = self.tables.reader(&TableFile { meta: file, level: None })?;
            let (key, icmp) = match reader.lacks_timestamps() {
                true => (self.icmp.split_timestamp(entry.key).0, &plain),
                false => (entry.key, &self.icmp),
            };
            let tombstones = reader.range_dels();
            let has = if entry.value_type == ValueType::RangeDeletion {
                tombstones.is_some_and(|dels| has_tombstone(dels, sequence, key, icmp))
            } else {
                let reaches_back = self.no_table_lost || file.smallest_seqno <= sequence;
                let mut has = tombstones.is_some_and(|dels| {
                    let newest = dels.max_covering_seq(key, icmp, SequenceNumber::MAX);
                    newest > SequenceNumber::ZERO && newest >= sequence
                });
                reader.get(&options, &LookupKey::new(key, SequenceNumber::MAX), &mut |key, _| {
                    has |= key.sequence >= sequence && (reaches_back || key.value_type != ValueType::Merge);
                    false
                })?;
                has
            };
            if has {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a range deletion from `start` with this sequence number is among `tombstones`.
fn has_tombstone(
    tombstones: &FragmentedRangeTombstones,
    sequence: SequenceNumber,
    start: &[u8],
    icmp: &InternalKeyComparator,
) -> bool {
    tombstones.max_covering_seq(start, icmp, sequence) == sequence
}
