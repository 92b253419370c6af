//! Builds one table file from memtables.
//!
//! In: memtables of one family, oldest first, and the live snapshots. Out: one synced table with
//! every entry that a snapshot or a later read may need, or nothing if there is none; large values
//! in blob files, if the options request it.

mod published;

use crate::compaction_filter::{CompactionFilter, CompactionFilterContext};
use crate::engine::contained;
use crate::files::{BlobOutput, FinishedTable, NewTable, OutputContext, TableOutput};
use crate::merge::call_times::timed_filter;
use crate::merge::compaction_iter::timed::TimedValues;
use crate::merge::timestamps::{TimestampsDropped, at_oldest_timestamp, newest_timestamp};
use crate::merge::{CompactionIterator, CompactionIteratorOptions, MergeChild, merge_children};
use crate::observe::TableFileCreationReason;
use crate::options::Feature;
use crate::snapshot::SectionsForJob;
use crate::version::Numbers;
use esker_base::stats::Ticker;
use esker_base::sync::Arc;
use esker_base::sync::atomic::AtomicBool;
use esker_base::{FileNumber, IoActivity, Result, SequenceNumber, Severity};
use esker_env::thread_status::IoProgress;
use esker_format::cursor::ScanIterator;
use esker_format::deleted_runs::LongDeletedRun;
use esker_format::range_del::FragmentedRangeTombstones;
use esker_format::trace::TableReaderCaller;
use esker_format::version_edit::{BlobFileAddition, FileMetaData};
use esker_memtable::MemTable;
use esker_table::trace::called_by;
use published::Published;

/// Builds tables for one family.
#[derive(Debug)]
pub(crate) struct BuildTable<'a> {
    pub(crate) output: OutputContext<'a>,
    /// Set when the database closes.
    pub(crate) cancel: Option<Arc<AtomicBool>>,
    /// Allocates numbers of blob files. `None`: all values stay in the table.
    pub(crate) numbers: Option<&'a Numbers>,
}

/// The result of a build.
#[derive(Clone, Debug, Default)]
pub(crate) struct BuiltTable {
    /// `None` if no entry is left to write.
    pub(crate) file: Option<FileMetaData>,
    /// Number of entries.
    pub(crate) num_entries: u64,
    /// The blob files with its large values.
    pub(crate) blobs: Vec<BlobFileAddition>,
    /// The lowest timestamp that reads may use from now on: the memtables' timestamps were not
    /// written.
    pub(crate) full_history_ts_low: Option<Vec<u8>>,
    /// Long runs of deleted keys in the table, which are still to be scanned.
    pub(crate) long_deleted_runs: Vec<LongDeletedRun>,
    /// Whether a filter removed entries in a way after which older versions may reappear.
    pub(crate) may_reappear: bool,
}

/// One table to build.
#[derive(Debug)]
pub(crate) struct TableBuildJob<'a> {
    pub(crate) number: FileNumber,
    /// Oldest first.
    pub(crate) memtables: &'a [Arc<MemTable>],
    /// Entries with a larger sequence number belong to failed writes, and are left out.
    pub(crate) newest: SequenceNumber,
    /// Ascending.
    pub(crate) snapshots: &'a [SequenceNumber],
    /// See [`CompactionIteratorOptions::prepared`].
    pub(crate) prepared: Option<SectionsForJob>,
    pub(crate) epoch_number: u64,
}

impl BuildTable<'_> {
    /// Writes, syncs and describes the table and its blob files. The caller syncs the directory,
    /// once for all tables.
    /// # Errors
    /// `IoError`; the files are removed if the file system allows it · `Corruption` or
    /// `InvalidArgument` from a merge operator · `Aborted` if a merge operator or a comparator
    /// panicked · `ShutdownInProgress`.
    pub(crate) fn run(&self, job: &TableBuildJob<'_>) -> Result<BuiltTable> {
        let _calls = called_by(TableReaderCaller::Flush, None);
        let _activity = match IoActivity::current() {
            IoActivity::DbOpen => IoActivity::DbOpen,
            _ => IoActivity::Flush,
        }
        .begin();
        let mut blobs = match self.numbers {
            Some(numbers) => BlobOutput::new(self.output, 0, || numbers.new_file_number()),
            None => BlobOutput::none(self.output),
        };
        let result = contained("a flush", Severity::HardError, || self.write(job, &mut blobs));
        if !matches!(result, Ok((Some(_), _))) {
            let cleaned = self.remove_table(job.number).and_then(|()| blobs.delete_all());
            cleaned.or_else(|e| if result.is_err() { Ok(()) } else { Err(e) })?;
        }
        let (table, may_reappear) = result?;
        let num_entries = table.as_ref().map_or(0, |table| table.num_entries);
        let (file, long_deleted_runs) = table.map(|table| (table.meta, table.long_deleted_runs)).unzip();
        Ok(BuiltTable {
            file,
            num_entries,
            long_deleted_runs: long_deleted_runs.unwrap_or_default(),
            blobs: blobs.finished,
            full_history_ts_low: self.history_left(job.memtables),
            may_reappear,
        })
    }

    /// The lowest timestamp that reads may use once the build drops the memtables' timestamps;
    /// `None` if it keeps them.
    fn history_left(&self, memtables: &[Arc<MemTable>]) -> Option<Vec<u8>> {
        let icmp = self.output.icmp;
        if icmp.timestamp_size() == 0 || self.output.family_options.persist_user_defined_timestamps {
            return None;
        }
        let newest = newest_timestamp(memtables, icmp);
        let next = icmp.user_comparator().next_timestamp(&newest);
        Some(next.unwrap_or(newest)).filter(|low| !low.is_empty())
    }

    /// Removes an unfinished file. No MANIFEST names its number; the next open would remove it too.
    fn remove_table(&self, number: FileNumber) -> Result<()> {
        self.output.tables.evict(number);
        let path = self.output.table_path(number);
        let fs = &self.output.env.fs;
        if fs.file_exists(&path)? { fs.delete_file(&path) } else { Ok(()) }
    }

    /// The filter for the entries, if the family's factory wants to filter them here.
    fn filter(&self) -> Option<Box<dyn CompactionFilter>> {
        let context = &self.output;
        let factory = context.family_options.compaction_filter_factory.as_ref()?;
        let reason = context.reason();
        if !factory.should_filter_table_file_creation(reason) {
            return None;
        }
        factory.create(&CompactionFilterContext {
            is_full_compaction: false,
            is_manual_compaction: false,
            column_family_id: context.column_family,
            reason,
            input_start_level: None,
            input_table_properties: Arc::default(),
        })
    }

    /// The table, if an entry is left for it, and whether older versions may reappear.
    fn write(
        &self,
        job: &TableBuildJob<'_>,
        blobs: &mut BlobOutput<'_>,
    ) -> Result<(Option<FinishedTable>, bool)> {
        let context = &self.output;
        let mut keep = self.rules(job);
        let children = self.children(job, &mut keep);
        let mut entries =
            CompactionIterator::new(context.icmp.clone(), merge_children(context.icmp, children), keep);
        let table = NewTable::of_level_0(job.number, context.family_options, 0);
        let mut output = TableOutput::create(context, &table)?;
        entries.seek_to_first();
        let mut progress = IoProgress::of_flush();
        while entries.valid() {
            blobs.add(&mut output, entries.key(), entries.value())?;
            progress.entry();
            entries.next();
        }
        entries.status()?;
        for tombstone in entries.tombstones_for_output(None, None) {
            output.add_tombstone(&tombstone)?;
        }
        let may_reappear = entries.stats().may_reappear > 0;
        if output.is_empty() {
            output.abandon();
            return Ok((None, may_reappear));
        }
        output.set_older_versions(entries.stats().older_out);
        blobs.finish()?;
        let stats = *entries.stats();
        let table = output.finish(context, job.epoch_number, 0)?;
        self.count_payload(job, stats.key_bytes_in + stats.value_bytes_in, &table, blobs);
        Ok((Some(table), may_reappear))
    }

    /// Counts the bytes of the memtables' `points` and range tombstones, and those bytes of them
    /// that the table does not need.
    fn count_payload(
        &self,
        job: &TableBuildJob<'_>,
        points: u64,
        table: &FinishedTable,
        blobs: &BlobOutput<'_>,
    ) {
        let statistics = self.output.options.statistics.as_ref();
        let Some(statistics) = statistics.filter(|_| self.output.reason() == TableFileCreationReason::Flush)
        else {
            return;
        };
        let with_ranges = job.memtables.iter().filter(|mem| mem.num_range_deletes() > 0);
        let tombstones = with_ranges.flat_map(|mem| mem.stored_range_tombstones());
        let ranges: usize = tombstones.map(|tombstone| tombstone.start.len() + tombstone.end.len() + 8).sum();
        let blob_bytes: u64 = blobs.finished.iter().map(|blob| blob.total_blob_bytes).sum();
        let payload = points + ranges as u64;
        if let Some(garbage) = payload.checked_sub(table.raw_bytes + blob_bytes) {
            statistics.record_tick(Ticker::MemtablePayloadBytesAtFlush, payload);
            statistics.record_tick(Ticker::MemtableGarbageBytesAtFlush, garbage);
        }
    }

    /// The rules by which entries stay, without range tombstones.
    fn rules(&self, job: &TableBuildJob<'_>) -> CompactionIteratorOptions {
        let context = &self.output;
        let options = context.family_options;
        let mut keep = CompactionIteratorOptions::new(context.icmp, job.snapshots.to_vec());
        keep.prepared.clone_from(&job.prepared);
        keep.merge_operator = options.merge_operator.clone();
        keep.blobs = Some(context.blob_reader());
        let statistics = context.options.statistics.as_ref();
        keep.compaction_filter =
            self.filter().map(|filter| timed_filter(filter, statistics, &context.env.clock));
        keep.cancelled = self.cancel.clone();
        let reads_timed = context.options.compatible_with.reads(Feature::TimedPut);
        keep.timed_values = match context.times.filter(|_| reads_timed) {
            Some(times) => TimedValues::Written(times.clone()),
            None => TimedValues::Plain,
        };
        if context.options.allow_2pc {
            keep.keep_conflicts();
        }
        keep.keep_history = context.icmp.timestamp_size() > 0 && options.persist_user_defined_timestamps;
        if keep.keep_history {
            keep.zero_up_to = SequenceNumber::ZERO;
        }
        keep
    }

    /// A cursor over the entries of each memtable, newest first. The range tombstones go to `keep`.
    fn children(&self, job: &TableBuildJob<'_>, keep: &mut CompactionIteratorOptions) -> Vec<MergeChild> {
        let icmp = self.output.icmp;
        let drops_timestamps = icmp.timestamp_size() > 0 && !keep.keep_history;
        let mut children = Vec::with_capacity(job.memtables.len());
        for mem in job.memtables.iter().rev() {
            let is_whole = mem.largest_seqno() <= job.newest;
            let points: Box<dyn ScanIterator> = if is_whole {
                Box::new(mem.iter())
            } else {
                Box::new(Published::new(mem.iter(), job.newest))
            };
            children.push(MergeChild::new(if drops_timestamps {
                Box::new(TimestampsDropped::new(points, icmp))
            } else {
                points
            }));
            if mem.num_range_deletes() == 0 {
                continue;
            }
            if is_whole && !keep.keep_history && !drops_timestamps {
                mem.range_tombstones().iter().for_each(|set| keep.range_dels.add(set, None));
                continue;
            }
            let mut stored = mem.stored_range_tombstones();
            stored.retain(|tombstone| tombstone.seq <= job.newest);
            if keep.keep_history {
                keep.stored_tombstones.extend(stored);
                continue;
            }
            if drops_timestamps {
                stored = stored.into_iter().map(|t| at_oldest_timestamp(t, icmp)).collect();
            }
            let fragments = FragmentedRangeTombstones::build(stored, icmp);
            keep.range_dels.add(&Arc::new(fragments), None);
        }
        children
    }
}
