//! Cuts a compaction's output into files.
//!
//! In: entries in order. Out: finished files, each with its part of the range tombstones.
//!
//! Invariants
//!  1. All versions of a user key are in one file, so that the files of a level stay disjoint by
//!     user key.
//!  2. A file's tombstones are clipped to the keys from its predecessor's cut to its own cut. So
//!     tombstones of two files never overlap, and no covered key is lost.

use super::cut::OutputCutter;
use super::placement::YoungEntries;
use crate::files::{BlobOutput, NewTable, OutputContext, TableOutput, check_space_limit, type_of};
use crate::merge::compaction_iter::BlobTally;
use crate::merge::{CompactionIterator, CompactionIteratorStats};
use crate::options::{
    ColumnFamilyOptions, CompressionOptions, PartitionerRequest, SstPartitioner, SstPartitionerContext,
};
use crate::picker::CompactionPlan;
use crate::version::Numbers;
use esker_base::stats::{Ticker, record_tick};
use esker_base::{FileNumber, PinnedBytes, Result, SequenceNumber, ValueType};
use esker_env::thread_status::{OperationStage, begin_stage};
use esker_format::blob::BlobIndex;
use esker_format::compression::CompressionType;
use esker_format::deleted_runs::LongDeletedRun;
use esker_format::key;
use esker_format::version_edit::FileMetaData;
use esker_format::wide_column::stored::for_each_blob;
use esker_table::blob::BlobReader;

/// A destination for the places at which a compaction could go on.
pub(super) trait ProgressLog {
    /// Records that `finished` has all entries before the user key `next`, which `stats` counts.
    /// # Errors
    /// `IoError`.
    fn record(
        &mut self,
        next: &[u8],
        stats: &CompactionIteratorStats,
        finished: &[FileMetaData],
    ) -> Result<()>;
}

/// The sequence numbers of the outputs in one of two levels.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Whether the outputs get the entries above `after`; otherwise they get the rest.
    is_young: bool,
    after: SequenceNumber,
}

/// The files of one subcompaction's output.
pub(super) struct Outputs<'a> {
    context: OutputContext<'a>,
    numbers: &'a Numbers,
    /// Options common to all the files.
    pub(super) table: NewTable,
    epoch_number: u64,
    current: Option<TableOutput>,
    pub(super) blobs: BlobOutput<'a>,
    /// Values in blob files before this one are rewritten to new blob files.
    relocate_before: FileNumber,
    /// Reads blob values for relocation, merges and filters.
    pub(super) blob_reader: BlobReader,
    cutter: OutputCutter,
    /// Ends files at keys of its choice, if the family has a factory; not in level 0.
    partitioner: Option<Box<dyn SstPartitioner>>,
    /// The last user key, for the partitioner.
    last_user_key: Vec<u8>,
    /// User key at which the current file starts; `None` for the start of the subcompaction.
    cut: Option<Vec<u8>>,
    pub(super) finished: Vec<FileMetaData>,
    /// Deleted runs in the finished files that pre-scans should read.
    pub(super) long_deleted_runs: Vec<LongDeletedRun>,
    /// Number of entries of the current file behind a newer entry of the same user key.
    older_versions: u64,
    /// The part of a compaction that also writes the level above; `None`: all entries.
    part: Option<Part>,
    /// The last user key, if these outputs have a part.
    key_of_part: Option<Vec<u8>>,
    /// References to blob files by the entries written so far.
    pub(super) blobs_out: BlobTally,
    /// Bytes of rewritten blob values.
    pub(super) blob_bytes_read: u64,
    /// Number of rewritten blob values.
    pub(super) blobs_read: u64,
    /// Numbers of all files, finished or not: a failed job deletes them.
    pub(super) created: Vec<FileNumber>,
    /// Gets each place between two files, if the compaction is resumable.
    pub(super) progress: Option<&'a mut dyn ProgressLog>,
}

impl<'a> Outputs<'a> {
    pub(super) fn new(
        context: OutputContext<'a>,
        plan: &'a CompactionPlan,
        numbers: &'a Numbers,
        compression: (CompressionType, CompressionOptions),
    ) -> Outputs<'a> {
        let inputs = || plan.input_files().map(|(_, f)| f);
        Outputs {
            blobs: BlobOutput::new(context, plan.output_level, || numbers.new_file_number()),
            relocate_before: relocate_before(context.family_options, plan),
            blob_reader: context.blob_reader(),
            context,
            numbers,
            table: NewTable {
                number: FileNumber(0),
                compression: compression.0,
                compression_options: compression.1,
                oldest_seconds: inputs()
                    .map(|f| f.oldest_ancestor_time)
                    .filter(|t| *t > 0)
                    .min()
                    .unwrap_or(0),
                level: plan.output_level,
                is_bottommost: plan.is_bottommost,
                target_file_size: plan.target_file_size,
                temperature: plan.overrides.temperature.unwrap_or_else(|| {
                    context.family_options.temperature_of(plan.output_level, plan.version.num_levels())
                }),
                old_before: SequenceNumber::MAX,
            },
            epoch_number: inputs().map(|f| f.epoch_number).min().unwrap_or(0),
            current: None,
            cutter: OutputCutter::new(plan),
            partitioner: partitioner(context.family_options, plan),
            last_user_key: Vec::new(),
            cut: None,
            finished: Vec::new(),
            long_deleted_runs: Vec::new(),
            older_versions: 0,
            part: None,
            key_of_part: None,
            blobs_out: BlobTally::default(),
            blob_bytes_read: 0,
            blobs_read: 0,
            created: Vec::new(),
            progress: None,
        }
    }

    /// The outputs of the level above the last one, for young entries.
    pub(super) fn above(
        context: OutputContext<'a>,
        plan: &'a CompactionPlan,
        numbers: &'a Numbers,
        compression: (CompressionType, CompressionOptions),
        young: &YoungEntries,
    ) -> Outputs<'a> {
        let mut outputs = Outputs::new(context, plan, numbers, compression);
        outputs.table.level = young.level;
        outputs.table.is_bottommost = false;
        outputs.table.temperature =
            plan.overrides.temperature.unwrap_or(context.family_options.default_write_temperature);
        outputs.table.oldest_seconds = outputs.table.oldest_seconds.max(young.oldest_seconds);
        outputs.part = Some(Part { is_young: true, after: young.after });
        outputs
    }

    /// Leaves the range tombstones among the young entries to the level above.
    pub(super) fn stay_below(&mut self, young: &YoungEntries) {
        self.part = Some(Part { is_young: false, after: young.after });
    }

    /// Whether these are the outputs of the level above.
    pub(super) fn is_proximal(&self) -> bool {
        self.part.is_some_and(|part| part.is_young)
    }

    /// Whether an entry with this sequence number belongs to these outputs.
    #[inline]
    pub(super) fn takes(&self, sequence: SequenceNumber) -> bool {
        self.part.is_none_or(|part| (sequence > part.after) == part.is_young)
    }

    /// Adds the current entry of `entries`. First ends the current file, if it should end before
    /// that entry.
    pub(super) fn add(&mut self, entries: &mut CompactionIterator) -> Result<()> {
        if self.begins_user_key(entries) {
            let bytes = self.current.as_ref().map(TableOutput::estimated_bytes);
            // An output in level 0 is one sorted run, so it stays one file.
            let is_full =
                self.table.level > 0 && self.current.as_ref().is_some_and(TableOutput::is_index_full);
            let is_good_end = self.cutter.should_stop_before(entries.key(), bytes);
            let is_border = self.partitioner.is_some() && self.is_border(entries.user_key(), bytes);
            if is_border && !is_good_end {
                self.cutter.begin_output(entries.key());
            }
            if is_good_end || is_full || is_border {
                let next = entries.user_key().to_vec();
                self.finish_file(entries, Some(next))?;
            }
        } else {
            self.older_versions += 1;
        }
        let value_type = type_of(entries.key());
        if let Some(value_type @ (ValueType::BlobIndex | ValueType::WideColumnEntity)) = value_type {
            if let Some((value_type, value)) = self.relocated(value_type, entries)? {
                let sequence = SequenceNumber(key::trailer(entries.key()) >> 8);
                let key = key::internal_key(entries.user_key(), sequence, value_type);
                self.open()?;
                let table = self.current.as_mut().expect("the table was opened above");
                return self.blobs.add(table, &key, &value);
            }
            self.blobs_out.count(value_type, entries.user_key(), entries.value())?;
        }
        self.open()?;
        let table = self.current.as_mut().expect("the table was opened above");
        self.blobs.add(table, entries.key(), entries.value())
    }

    /// Whether the current entry is the first of its user key in these outputs. Beside outputs for
    /// young entries, the first entry of a key may have gone to the other level.
    #[inline]
    fn begins_user_key(&mut self, entries: &CompactionIterator) -> bool {
        if self.part.is_none() {
            return entries.is_first_of_user_key();
        }
        let icmp = self.context.icmp;
        let is_another = |last: &Vec<u8>| icmp.compare_plain_keys(entries.user_key(), last).is_ne();
        let is_first = self.key_of_part.as_ref().is_none_or(is_another);
        if is_first {
            entries.user_key().clone_into(self.key_of_part.get_or_insert_default());
        }
        is_first
    }

    /// Whether the partitioner ends the open file before `user_key`, the next user key.
    fn is_border(&mut self, user_key: &[u8], output_bytes: Option<u64>) -> bool {
        let Some(partitioner) = &mut self.partitioner else { return false };
        let is_border = output_bytes.is_some_and(|current_output_file_size| {
            partitioner.should_partition(&PartitionerRequest {
                prev_user_key: &self.last_user_key,
                current_user_key: user_key,
                current_output_file_size,
            })
        });
        user_key.clone_into(&mut self.last_user_key);
        is_border
    }

    /// The new value and type of an entry that refers to a blob file from which garbage collection
    /// moves values: a blob index becomes its value, an entity gets its columns in place.
    fn relocated(
        &mut self,
        value_type: ValueType,
        entries: &CompactionIterator,
    ) -> Result<Option<(ValueType, PinnedBytes)>> {
        if self.relocate_before == FileNumber(0) {
            return Ok(None);
        }
        // Blobs that expire cannot be read here.
        let expires = value_type == ValueType::BlobIndex
            && !matches!(BlobIndex::parse(entries.value())?, BlobIndex::Blob(_));
        if expires {
            return Ok(None);
        }
        let relocate_before = self.relocate_before;
        let (mut is_old, mut bytes, mut blobs) = (false, 0, 0);
        for_each_blob(value_type, entries.value(), &mut |location| {
            is_old |= location.file_number < relocate_before;
            bytes += location.size;
            blobs += 1;
        })?;
        if !is_old {
            return Ok(None);
        }
        let reads = self.blob_reader.reads();
        let relocated = match value_type {
            ValueType::WideColumnEntity => {
                let whole = reads.whole_entity(entries.user_key(), entries.value())?;
                whole.map(|whole| (value_type, PinnedBytes::from_vec(whole)))
            }
            _ => Some((ValueType::Value, reads.value(entries.user_key(), entries.value())?)),
        };
        self.blob_bytes_read += bytes;
        self.blobs_read += blobs;
        let statistics = &self.context.options.statistics;
        record_tick(statistics, Ticker::BlobDbGcNumKeysRelocated, 1);
        record_tick(statistics, Ticker::BlobDbGcBytesRelocated, bytes);
        Ok(relocated)
    }

    fn open(&mut self) -> Result<&mut TableOutput> {
        if self.current.is_none() {
            let number = self.numbers.new_file_number();
            self.created.push(number);
            let table = NewTable { number, ..self.table };
            self.current = Some(TableOutput::create(&self.context, &table)?);
        }
        Ok(self.current.as_mut().expect("the table was opened above"))
    }

    /// Ends the current file before user key `next` (`None`: at the end of the subcompaction), with
    /// the tombstones between the last cut and this one.
    pub(super) fn finish_file(
        &mut self,
        entries: &mut CompactionIterator,
        next: Option<Vec<u8>>,
    ) -> Result<()> {
        let mut tombstones = entries.tombstones_for_output(self.cut.as_deref(), next.as_deref());
        tombstones.retain(|tombstone| self.takes(tombstone.seq));
        if self.current.is_some() || !tombstones.is_empty() {
            let file = self.open()?;
            for tombstone in &tombstones {
                file.add_tombstone(tombstone)?;
            }
            let mut file = self.current.take().expect("the table was opened above");
            file.set_older_versions(std::mem::take(&mut self.older_versions));
            if file.is_empty() {
                file.abandon();
            } else {
                let _stage = begin_stage(OperationStage::CompactionSyncFile);
                let table = file.finish(&self.context, self.epoch_number, self.table.oldest_seconds)?;
                self.finished.push(table.meta);
                check_space_limit(self.context.options)?;
                self.long_deleted_runs.extend(table.long_deleted_runs);
            }
        }
        if let (Some(progress), Some(next)) = (&mut self.progress, &next)
            && let Some(stats) = entries.stats_before_key()
        {
            progress.record(next, stats, &self.finished)?;
        }
        self.cut = next;
        Ok(())
    }
}

/// The first blob file that garbage collection leaves alone: it empties the oldest files by number,
/// as large a share as the age cutoff says. RocksDB `db/compaction/compaction_iterator.cc`
/// (`ComputeBlobGarbageCollectionCutoffFileNumber`).
fn relocate_before(options: &ColumnFamilyOptions, plan: &CompactionPlan) -> FileNumber {
    let wishes = &plan.overrides;
    if !wishes.blob_garbage_collection.unwrap_or(options.enable_blob_garbage_collection) {
        return FileNumber(0);
    }
    let files = plan.version.blob_files();
    let age_cutoff = wishes.blob_age_cutoff.unwrap_or(options.blob_garbage_collection_age_cutoff);
    let cutoff = (age_cutoff * files.len() as f64) as usize;
    files.keys().nth(cutoff).copied().unwrap_or(FileNumber(u64::MAX))
}

/// A partitioner for a plan's outputs, or for the files that it would move.
pub(super) fn partitioner(
    options: &ColumnFamilyOptions,
    plan: &CompactionPlan,
) -> Option<Box<dyn SstPartitioner>> {
    let factory = options.sst_partitioner_factory.as_ref().filter(|_| plan.output_level > 0)?;
    let icmp = plan.version.icmp();
    let files = || plan.input_files().map(|(_, file)| file);
    let smallest = files().map(|f| f.smallest_user_key()).min_by(|a, b| icmp.compare_user_keys(a, b));
    let largest = files().map(|f| f.largest_user_key()).max_by(|a, b| icmp.compare_user_keys(a, b));
    Some(factory.create_partitioner(&SstPartitionerContext {
        is_full_compaction: plan.is_full,
        is_manual_compaction: plan.is_manual,
        output_level: plan.output_level,
        smallest_user_key: smallest.unwrap_or_default(),
        largest_user_key: largest.unwrap_or_default(),
    }))
}
