//! Level-0 tables that recovery writes while it replays WALs.
//!
//! In: families whose memtables are full, or too large in total. Out: tables, numbered in the order
//! in which the memtables filled. Several tables are written at once. The caller syncs the
//! directory once, before the MANIFEST names them.
//!
//! Invariants
//!  1. The cost of a batch depends on its entries, not on the number of families: only families to
//!     which it wrote are checked.
//!  2. All memtables together stay near the bound of the write buffer manager, except when the
//!     database is read-only, or a transaction is open that wrote under an early policy.
//!  3. No entry comes behind a table with a newer entry of its key: a read takes the first one that
//!     it finds. The ops of a section of an early policy keep their numbers, and come with its
//!     resolution. Until then no table is written of the families that it writes. So memory holds
//!     all writes to these families meanwhile, and each record looks at the open transactions while
//!     such a memtable is full.

use super::{Recovery, ReplayRun, ReplayedFamily};
use crate::cf::MemTableLimits;
use crate::files::OutputContext;
use crate::flush::{BuildTable, BuiltTable, TableBuildJob};
use crate::schedule::map_in_parallel;
use crate::version::Numbers;
use crate::wal::largest_half;
use crate::write::{ApplyEntry, new_memtable};
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::{ColumnFamilyId, FileNumber, Result, SequenceNumber};
use esker_env::rate_limiter::IoPriority;
use esker_memtable::MemTable;
use std::collections::BTreeSet;

/// A full memtable, and the number of its table.
struct Sealed {
    family: ColumnFamilyId,
    mem: Arc<MemTable>,
    number: FileNumber,
    epoch_number: u64,
}

impl ReplayRun<'_> {
    /// Writes the memtables that the last batch filled, or, if all memtables together are too
    /// large, the largest ones with half of the memory.
    pub(super) fn flush_full(&mut self) -> Result<()> {
        let mut due = std::mem::take(&mut self.full);
        if self.recovery.is_read_only() {
            return Ok(());
        }
        let (families, two_phase) = (&self.families, &self.two_phase);
        let waits = |f: &ReplayedFamily| two_phase.may_add_to(f.id, f.manifest_log_number);
        self.full = due.extract_if(.., |id| families.get(id).is_some_and(waits)).collect();
        if due.is_empty() && self.budget.is_exceeded() {
            let filled = families.values().filter(|f| f.has_entries && !waits(f));
            due = largest_half(filled.map(|f| (f.mem.approximate_memory_usage(), f.id)));
            self.budget.note_look();
        }
        self.flush(&due)
    }

    /// Writes every memtable that has entries.
    pub(super) fn flush_all(&mut self) -> Result<()> {
        let due: Vec<_> = self.families.values().filter(|f| f.has_entries).map(|f| f.id).collect();
        self.flush(&due)
    }

    /// Makes the names of the written files durable.
    pub(super) fn sync_directories(&self) -> Result<()> {
        let written = self.families.values().filter(|f| !f.new_files.is_empty() || !f.new_blobs.is_empty());
        let tables = &self.recovery.tables;
        let directories: BTreeSet<_> = written.map(|f| tables[&f.id].paths().first()).collect();
        directories.into_iter().try_for_each(|dir| self.recovery.fs.new_directory(dir)?.fsync())
    }

    /// Writes the memtables of these families, on up to `max_file_opening_threads` threads.
    fn flush(&mut self, due: &[ColumnFamilyId]) -> Result<()> {
        if due.is_empty() {
            return Ok(());
        }
        self.budget.note_look();
        self.has_written_tables = true;
        let (recovery, numbers) = (self.recovery, self.manifest.numbers());
        let mut sealed = Vec::with_capacity(due.len());
        for id in due {
            let family = self.families.get_mut(id).expect("the caller took the id from this map");
            sealed.push(family.seal(recovery, numbers.new_file_number(), self.last_sequence));
        }
        let threads = usize::try_from(recovery.options.max_file_opening_threads).unwrap_or(1);
        let families = &self.families;
        let build = |sealed: Sealed| recovery.build_table(numbers, &families[&sealed.family], &sealed);
        let built = map_in_parallel(sealed, threads, build);
        for (id, built) in due.iter().zip(built) {
            self.families.get_mut(id).expect("the flushed family is in this map").take_table(built?);
        }
        Ok(())
    }
}

impl Recovery<'_> {
    fn build_table(&self, numbers: &Numbers, family: &ReplayedFamily, sealed: &Sealed) -> Result<BuiltTable> {
        let output = OutputContext {
            env: &self.options.env,
            options: self.options,
            family_options: &family.descriptor.options,
            icmp: &family.icmp,
            database: self.path,
            path_id: 0,
            column_family: family.id,
            column_family_name: &family.descriptor.name,
            db_id: self.db_id,
            session_id: self.session_id,
            io_priority: IoPriority::High,
            info_log: self.info_log,
            tables: &self.tables[&family.id],
            job_id: 0,
            times: None,
            write_hint: self.options.sst_write_hint(family.descriptor.options.compaction_style, 0, 0),
        };
        let job = TableBuildJob {
            number: sealed.number,
            memtables: std::slice::from_ref(&sealed.mem),
            newest: SequenceNumber::MAX,
            snapshots: &[],
            prepared: None,
            epoch_number: sealed.epoch_number,
        };
        (BuildTable { output, cancel: None, numbers: Some(numbers) }).run(&job)
    }
}

impl ReplayedFamily {
    /// Adds an entry of `wal`. Returns whether the memtable has just reached `write_buffer_size`.
    pub(super) fn add(
        &mut self,
        wal: FileNumber,
        sequence: SequenceNumber,
        entry: &ApplyEntry<'_>,
    ) -> Result<bool> {
        if !self.has_entries {
            self.has_entries = true;
            self.log_number = wal;
        }
        self.mem.add(sequence, entry.value_type, entry.key, entry.value)?;
        let was_full = self.is_full;
        self.is_full = MemTableLimits::of(&self.descriptor.options).has_too_many_bytes(&self.mem);
        Ok(self.is_full && !was_full)
    }

    /// Replaces the memtable by an empty one. The old one will become table `number`.
    fn seal(&mut self, recovery: &Recovery<'_>, number: FileNumber, earliest: SequenceNumber) -> Sealed {
        let options = &self.descriptor.options;
        let fresh = new_memtable(recovery.options, &self.icmp, options, self.next_memtable_id, earliest);
        self.next_memtable_id += 1;
        (self.has_entries, self.is_full) = (false, false);
        let mem = std::mem::replace(&mut self.mem, fresh);
        mem.mark_immutable();
        let epoch_number = self.epochs.fetch_add(1, Ordering::Relaxed);
        Sealed { family: self.id, mem, number, epoch_number }
    }

    fn take_table(&mut self, built: BuiltTable) {
        self.new_files.extend(built.file);
        self.new_blobs.extend(built.blobs);
        let in_force = self.full_history_ts_low.as_deref().unwrap_or(&[]);
        let is_newer = |bound: &Vec<u8>| self.icmp.compare_timestamps(bound, in_force).is_gt();
        if let Some(bound) = built.full_history_ts_low.filter(is_newer) {
            self.full_history_ts_low = Some(bound);
        }
    }
}
