//! One table file being written, from its number to its line in the MANIFEST.
//!
//! In: entries in internal-key order, and range tombstones. Out: a synced, closed file and its
//! [`FileMetaData`].
//!
//! Invariant: when `finish` returns, the file is on the medium; its name is durable after the next
//! directory sync, which the job does once for all its outputs.

use super::file_checksum::{ChecksumReads, PendingChecksum, checksummed};
use super::verify_file_checksum;
use super::written::{Verification, WrittenFile};
use crate::observe::{
    Event, TableFileCreation, TableFileCreationBriefInfo, TableFileCreationInfo, TableFileCreationReason,
};
use crate::options::{ColumnFamilyOptions, CompressionOptions, DbOptions, Temperature};
use esker_base::logger::InfoLog;
use esker_base::stats::Histogram;
use esker_base::sync::Arc;
use esker_base::table_properties_collector::{TablePropertiesCollector, TablePropertiesCollectorContext};
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber, SubCode, ValueType};
use esker_env::file_writer::PacedWritableFile;
use esker_env::rate_limiter::IoPriority;
use esker_env::{CountedWritableFile, Env, StopWatch, WritableFile, WriteLifeTimeHint};
use esker_format::compression::CompressionType;
use esker_format::deleted_runs::LongDeletedRun;
use esker_format::file_name::FileType;
use esker_format::key::{self, InternalKeyComparator};
use esker_format::properties::{OLDER_VERSIONS, SALVAGED_FROM};
use esker_format::range_del::RangeTombstone;
use esker_format::seqno_to_time::{MAX_PAIRS_PER_TABLE, SeqnoToTimeMapping};
use esker_format::version_edit::FileMetaData;
use esker_format::wide_column::stored::for_each_blob;
use esker_table::blob::BlobReader;
use esker_table::{
    TableBuilder, TableBuilderOptions, TableCache, TableFile, TableFileInfo, TableReadOptions,
};
use std::path::{Path, PathBuf};

/// State shared by all outputs of a job.
#[derive(Clone, Copy)]
pub(crate) struct OutputContext<'a> {
    pub(crate) env: &'a Env,
    pub(crate) options: &'a DbOptions,
    pub(crate) family_options: &'a ColumnFamilyOptions,
    pub(crate) icmp: &'a InternalKeyComparator,
    /// The database's directory.
    pub(crate) database: &'a Path,
    /// The path id of its tables.
    pub(crate) path_id: u32,
    pub(crate) column_family: ColumnFamilyId,
    pub(crate) column_family_name: &'a str,
    pub(crate) db_id: &'a str,
    pub(crate) session_id: &'a str,
    /// Priority of its writes with the rate limiter: flushes before compactions.
    pub(crate) io_priority: IoPriority,
    pub(crate) info_log: &'a Arc<dyn InfoLog>,
    /// The family's open tables: an output must be readable before the MANIFEST names it.
    pub(crate) tables: &'a TableCache,
    /// The flush or compaction, for events.
    pub(crate) job_id: u64,
    /// The times of sequence numbers, if the family keeps times.
    pub(crate) times: Option<&'a SeqnoToTimeMapping>,
    /// The expected lifetime of its files.
    pub(crate) write_hint: WriteLifeTimeHint,
}

impl OutputContext<'_> {
    /// The path of the table with this number.
    pub(crate) fn table_path(&self, number: FileNumber) -> PathBuf {
        self.tables.paths().table(self.path_id, number)
    }

    /// The reason for the job's tables.
    pub(crate) fn reason(&self) -> TableFileCreationReason {
        match self.io_priority {
            IoPriority::Low => TableFileCreationReason::Compaction,
            _ if self.job_id == 0 => TableFileCreationReason::Recovery,
            _ => TableFileCreationReason::Flush,
        }
    }

    fn time_sync(&self) -> StopWatch<'_> {
        let is_of_compaction = self.io_priority == IoPriority::Low;
        let histogram = if is_of_compaction {
            Histogram::CompactionOutfileSyncMicros
        } else {
            Histogram::TableSyncMicros
        };
        StopWatch::start(self.options.statistics.as_deref(), self.env.clock.as_ref(), histogram)
    }

    /// The checks of the job's tables before they are installed.
    fn verification(&self) -> Verification {
        Verification::wanted(self.family_options, self.io_priority == IoPriority::Low)
    }

    /// Reads values in blob files for jobs, past the cache.
    pub(crate) fn blob_reader(&self) -> BlobReader {
        let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
        BlobReader { source: self.tables.blobs().clone(), options }
    }
}

impl OutputContext<'_> {
    /// Reports a finished file to the `sst_file_manager`.
    pub(super) fn track(&self, path: &Path, bytes: u64) {
        if let Some(manager) = &self.options.sst_file_manager {
            manager.on_add_file(path, bytes);
        }
    }

    /// Reports that a file is gone.
    pub(super) fn untrack(&self, path: &Path) {
        if let Some(manager) = &self.options.sst_file_manager {
            manager.on_delete_file(path);
        }
    }
}

/// Checks that the tracked files are below their limit.
/// # Errors
/// `IoError` with `SpaceLimit`: the files that the `sst_file_manager` tracks have reached their
/// limit. The database continues when there is room again.
pub(crate) fn check_space_limit(options: &DbOptions) -> Result<()> {
    match &options.sst_file_manager {
        Some(manager) if manager.is_max_allowed_space_reached() => {
            let reached = Error::io("Max allowed space was reached");
            Err(reached.with_subcode(SubCode::SpaceLimit).with_retryable(true))
        }
        _ => Ok(()),
    }
}

impl std::fmt::Debug for OutputContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OutputContext({} in {})", self.column_family_name, self.database.display())
    }
}

/// The properties in which the tables of one job differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewTable {
    pub(crate) number: FileNumber,
    pub(crate) compression: CompressionType,
    pub(crate) compression_options: CompressionOptions,
    /// Time at which the oldest data of the table was flushed, in Unix seconds; 0 means now.
    pub(crate) oldest_seconds: u64,
    /// The level of the table.
    pub(crate) level: usize,
    /// Whether no level below has overlapping files.
    pub(crate) is_bottommost: bool,
    /// The size to aim at, in bytes; 0: no limit.
    pub(crate) target_file_size: u64,
    /// The temperature, for the MANIFEST.
    pub(crate) temperature: Temperature,
    /// Entries with smaller sequence numbers may go into the last level; `MAX`: not asked for.
    pub(crate) old_before: SequenceNumber,
}

impl NewTable {
    /// A table of level 0 in a family with these options.
    pub(crate) fn of_level_0(
        number: FileNumber,
        options: &ColumnFamilyOptions,
        oldest_seconds: u64,
    ) -> NewTable {
        let (compression, compression_options) = options.compression_for(0, 1, false);
        NewTable {
            number,
            compression,
            compression_options,
            oldest_seconds,
            level: 0,
            is_bottommost: false,
            target_file_size: 0,
            temperature: options.default_write_temperature,
            old_before: SequenceNumber::MAX,
        }
    }
}

/// A table that is being written.
pub(crate) struct TableOutput {
    pub(crate) number: FileNumber,
    level: usize,
    temperature: Temperature,
    icmp: InternalKeyComparator,
    builder: TableBuilder,
    creation_seconds: u64,
    /// The oldest blob file that an entry refers to: the MANIFEST must say so, or the blob file
    /// could be deleted.
    oldest_blob_file: Option<FileNumber>,
    /// The smallest preferred sequence number of a timed value.
    smallest_preferred: SequenceNumber,
    timestamps: Timestamps,
    /// A summary of the added entries, if the table will be verified.
    written: Option<WrittenFile>,
    /// Collectors of the family's factories.
    collectors: Vec<Box<dyn TablePropertiesCollector>>,
    older_versions: u64,
    /// The damaged table whose readable entries this one gets.
    salvaged_from: Option<FileNumber>,
    /// Checksum of the whole file, with `file_checksum_gen_factory`.
    checksum: Option<PendingChecksum>,
}

/// A table that is on the medium.
#[derive(Debug)]
pub(crate) struct FinishedTable {
    pub(crate) meta: FileMetaData,
    /// Entries of all types.
    pub(crate) num_entries: u64,
    /// Bytes of its keys and values.
    pub(crate) raw_bytes: u64,
    /// Deleted runs that pre-scans should visit, in order.
    pub(crate) long_deleted_runs: Vec<LongDeletedRun>,
}

/// A table's treatment of the timestamps in its keys.
#[derive(Debug, Default)]
struct Timestamps {
    /// Bytes of a timestamp; 0: keys have none.
    size: usize,
    /// The file does not keep timestamps.
    dropped: bool,
    /// A buffer for a key without its timestamp.
    scratch: Vec<u8>,
    /// The largest point key and, in `last_end`, the largest end of a tombstone as a bound of the
    /// file.
    last_point: Vec<u8>,
    last_end: Option<Vec<u8>>,
    /// The oldest and the newest timestamp among the table's keys.
    oldest: Vec<u8>,
    newest: Vec<u8>,
}

impl Timestamps {
    /// Records the timestamp of a key that the table gets.
    fn note(&mut self, user_key: &[u8], icmp: &InternalKeyComparator) {
        let (_, timestamp) = icmp.split_timestamp(user_key);
        if icmp.compare_timestamps(timestamp, &self.newest).is_gt() {
            timestamp.clone_into(&mut self.newest);
        }
        if self.oldest.is_empty() || icmp.compare_timestamps(timestamp, &self.oldest).is_lt() {
            timestamp.clone_into(&mut self.oldest);
        }
    }

    /// Sets the file's bounds and timestamps as versions have them. Bounds have timestamps, and an
    /// upper bound is exclusive if it is a tombstone's end.
    fn describe(&self, mut meta: FileMetaData, icmp: &InternalKeyComparator) -> FileMetaData {
        if self.size == 0 {
            return meta;
        }
        if self.dropped {
            let at = key::user_key(&meta.smallest).len();
            meta.smallest.splice(at..at, icmp.min_timestamp().iter().copied());
            meta.user_defined_timestamps_not_persisted = true;
        }
        meta.min_timestamp.clone_from(&self.oldest);
        meta.max_timestamp.clone_from(&self.newest);
        meta.largest.clone_from(&self.last_point);
        if let Some(end) = &self.last_end
            && (self.last_point.is_empty() || icmp.compare(end, &self.last_point).is_gt())
        {
            meta.largest.clone_from(end);
        }
        meta
    }

    /// A range's end as a bound of the file. Its timestamp is the newest possible one, which sorts
    /// before all versions of the key, so the bound excludes them.
    fn as_bound(icmp: &InternalKeyComparator, end: &[u8]) -> Vec<u8> {
        let bound = icmp.first_version(icmp.split_timestamp(end).0);
        key::internal_key(&bound, SequenceNumber::MAX, ValueType::RangeDeletion)
    }

    /// The internal key without the last `size` bytes of its user key.
    fn without<'a>(scratch: &'a mut Vec<u8>, internal_key: &[u8], size: usize) -> &'a [u8] {
        let user_key = key::user_key(internal_key);
        scratch.clear();
        scratch.extend_from_slice(&user_key[..user_key.len().saturating_sub(size)]);
        scratch.extend_from_slice(&internal_key[user_key.len()..]);
        scratch
    }
}

impl TableOutput {
    /// Creates the file.
    /// # Errors
    /// `IoError`; `InvalidArgument` naming a table option that cannot be honoured. After an error
    /// the file may exist.
    pub(crate) fn create(context: &OutputContext<'_>, table: &NewTable) -> Result<TableOutput> {
        let number = table.number;
        for listener in &context.options.listeners {
            listener.on_table_file_creation_started(&brief(context, number));
        }
        let path = context.table_path(number);
        let file = create_paced(context, &path, FileType::Table, Histogram::SstWriteMicros)?;
        let factory = context.options.file_checksum_gen_factory.as_ref();
        let (file, checksum) = checksummed(factory, &path, file);
        let now = context.env.clock.now_seconds();
        let mut builder = TableBuilder::new(builder_options(context, table, now), file)?;
        let collectors = collectors(context, table);
        if !collectors.is_empty() {
            builder.keep_ended_blocks();
        }
        let size = context.icmp.timestamp_size();
        let dropped = size > 0 && !context.family_options.persist_user_defined_timestamps;
        Ok(TableOutput {
            number,
            level: table.level,
            temperature: table.temperature,
            icmp: context.icmp.clone(),
            builder,
            creation_seconds: now,
            oldest_blob_file: None,
            smallest_preferred: SequenceNumber::MAX,
            timestamps: Timestamps { size, dropped, ..Timestamps::default() },
            written: context.verification().entries.then(WrittenFile::default),
            checksum,
            collectors,
            older_versions: 0,
            salvaged_from: None,
        })
    }

    /// Records the number of entries that follow a newer entry of the same user key.
    pub(crate) fn set_older_versions(&mut self, count: u64) {
        self.older_versions = count;
    }

    /// Records that the table replaces a damaged one, as the property [`SALVAGED_FROM`].
    pub(crate) fn set_salvaged_from(&mut self, number: FileNumber) {
        self.salvaged_from = Some(number);
    }

    /// Shows the data blocks that have ended to the collectors.
    fn show_ended_blocks(&mut self) {
        for block in self.builder.take_ended_blocks() {
            self.collectors.iter_mut().for_each(|c| c.block_add(block.uncompressed, block.fast, block.slow));
        }
    }

    /// Shows an entry that the table has got to the collectors, and before it the data block that
    /// it ended.
    /// # Errors
    /// Theirs.
    #[cold]
    fn collect(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        self.show_ended_blocks();
        let Some(value_type) = type_of(internal_key) else { return Ok(()) };
        let sequence = SequenceNumber(key::trailer(internal_key) >> 8);
        let file_size = self.builder.file_size();
        self.collectors.iter_mut().try_for_each(|collector| {
            collector.add_user_key(key::user_key(internal_key), value, value_type, sequence, file_size)
        })
    }

    /// Adds [`OLDER_VERSIONS`] and the collectors' properties. Returns whether a collector requests
    /// a compaction of the file.
    /// # Errors
    /// Those of the collectors.
    fn finish_collectors(&mut self) -> Result<bool> {
        let older_versions = self.older_versions.to_string();
        let mut properties = vec![(OLDER_VERSIONS.into(), older_versions.into_bytes())];
        let from = self.salvaged_from.map(|number| (SALVAGED_FROM.into(), number.0.to_string().into_bytes()));
        properties.extend(from);
        if !self.collectors.is_empty() {
            self.builder.end_data_block()?;
            self.show_ended_blocks();
        }
        let mut readable = Vec::new();
        for collector in &mut self.collectors {
            properties.extend(collector.finish()?);
            readable.extend(collector.readable_properties());
        }
        let names: Vec<&str> = self.collectors.iter().map(|collector| collector.name()).collect();
        self.builder.add_collected(&names, properties, readable);
        Ok(self.collectors.iter().any(|collector| collector.need_compact()))
    }

    /// Adds an entry; range deletions may come in any order.
    /// # Errors
    /// `IoError`; `Corruption` if the order is wrong, or in a blob index. The file is lost then.
    #[inline]
    pub(crate) fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let value_type = type_of(internal_key);
        if let Some(
            value_type
            @ (ValueType::BlobIndex | ValueType::WideColumnEntity | ValueType::ValuePreferredSeqno),
        ) = value_type
        {
            self.note_contents(value_type, value)?;
        }
        self.add_point(internal_key, value)?;
        if !self.collectors.is_empty() {
            self.collect(internal_key, value)?;
        }
        Ok(())
    }

    #[inline]
    fn add_point(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        if self.timestamps.size > 0 {
            let timestamps = &mut self.timestamps;
            internal_key.clone_into(&mut timestamps.last_point);
            if timestamps.dropped {
                let plain = Timestamps::without(&mut timestamps.scratch, internal_key, timestamps.size);
                return store(&mut self.builder, &mut self.written, plain, value);
            }
            timestamps.note(key::user_key(internal_key), &self.icmp);
        }
        store(&mut self.builder, &mut self.written, internal_key, value)
    }

    /// Records the blob files that a value refers to, and the preferred number of a timed value.
    #[cold]
    fn note_contents(&mut self, value_type: ValueType, value: &[u8]) -> Result<()> {
        if value_type == ValueType::ValuePreferredSeqno {
            let preferred = value.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            self.smallest_preferred = self.smallest_preferred.min(SequenceNumber(preferred));
            return Ok(());
        }
        for_each_blob(value_type, value, &mut |location| {
            let oldest = self.oldest_blob_file.get_or_insert(location.file_number);
            *oldest = location.file_number.min(*oldest);
        })
    }

    /// Adds a range tombstone.
    /// # Errors
    /// Those of [`TableOutput::add`].
    pub(crate) fn add_tombstone(&mut self, tombstone: &RangeTombstone) -> Result<()> {
        let begin = key::internal_key(&tombstone.start, tombstone.seq, ValueType::RangeDeletion);
        self.store_tombstone(&begin, tombstone)?;
        if !self.collectors.is_empty() {
            self.collect(&begin, &tombstone.end)?;
        }
        Ok(())
    }

    fn store_tombstone(&mut self, begin: &[u8], tombstone: &RangeTombstone) -> Result<()> {
        let timestamps = &mut self.timestamps;
        if timestamps.size > 0 {
            let bound = Timestamps::as_bound(&self.icmp, &tombstone.end);
            let is_last = |last: &Vec<u8>| self.icmp.compare(&bound, last).is_gt();
            if timestamps.last_end.as_ref().is_none_or(is_last) {
                timestamps.last_end = Some(bound);
            }
            if timestamps.dropped {
                let plain = Timestamps::without(&mut timestamps.scratch, begin, timestamps.size);
                let end = &tombstone.end[..tombstone.end.len().saturating_sub(timestamps.size)];
                return store(&mut self.builder, &mut self.written, plain, end);
            }
            timestamps.note(&tombstone.start, &self.icmp);
        }
        store(&mut self.builder, &mut self.written, begin, &tombstone.end)
    }

    /// About the file's bytes if it ended here.
    #[inline]
    pub(crate) fn estimated_bytes(&self) -> u64 {
        self.builder.estimated_file_size()
    }

    /// Whether the index block is full, so that the file should end soon.
    pub(crate) fn is_index_full(&self) -> bool {
        self.builder.is_index_full()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.builder.is_empty()
    }

    /// Ends the file, syncs it and describes it, to listeners too.
    /// # Errors
    /// `IoError` · the error of opening the table again · with `paranoid_file_checks` or
    /// `verify_output_flags` `Corruption` if the file does not hold the added entries. The file is
    /// lost then.
    pub(crate) fn finish(
        self,
        context: &OutputContext<'_>,
        epoch_number: u64,
        oldest_ancestor_time: u64,
    ) -> Result<FinishedTable> {
        let (number, level, written) = (self.number, self.level, self.written);
        let result = self
            .finish_file(context, epoch_number, oldest_ancestor_time)
            .and_then(|made| check_readable(context, &made.0, level, written).map(|()| made));
        if let Ok((meta, _)) = &result {
            context.track(&context.table_path(number), meta.file_size);
        }
        report_created(context, number, &result);
        result.map(|(meta, TableFileInfo { num_entries, long_deleted_runs, properties, .. })| FinishedTable {
            meta,
            num_entries,
            raw_bytes: properties.raw_key_size + properties.raw_value_size,
            long_deleted_runs,
        })
    }

    fn finish_file(
        mut self,
        context: &OutputContext<'_>,
        epoch_number: u64,
        oldest_ancestor_time: u64,
    ) -> Result<(FileMetaData, TableFileInfo)> {
        let marked_for_compaction = self.finish_collectors()?;
        self.store_times(context);
        let info = self.builder.finish()?;
        let mut file = self.builder.into_file();
        let watch = context.time_sync();
        if context.options.use_fsync {
            file.fsync()?;
        } else {
            file.sync()?;
        }
        drop(watch);
        file.close()?;
        let now = self.creation_seconds;
        let meta = FileMetaData {
            number: self.number,
            path_id: context.path_id,
            file_size: info.file_size,
            smallest: info.smallest.clone(),
            largest: info.largest.clone(),
            smallest_seqno: info.smallest_seqno,
            largest_seqno: info.largest_seqno,
            oldest_ancestor_time: if oldest_ancestor_time == 0 { now } else { oldest_ancestor_time },
            file_creation_time: now,
            epoch_number,
            file_checksum: self.checksum.map(PendingChecksum::finish),
            oldest_blob_file_number: self.oldest_blob_file,
            unique_id: info.unique_id,
            tail_size: info.tail_size,
            temperature: self.temperature as u8,
            marked_for_compaction,
            ..FileMetaData::default()
        };
        Ok((self.timestamps.describe(meta, &self.icmp), info))
    }

    /// Stores the times of the table's sequence numbers in its properties, if the family keeps
    /// times.
    fn store_times(&mut self, context: &OutputContext<'_>) {
        let (Some(times), Some((low, high))) = (context.times, self.builder.sequence_numbers()) else {
            return;
        };
        let mut times = times.within(low.min(self.smallest_preferred), high);
        times.thin_out(MAX_PAIRS_PER_TABLE);
        self.builder.set_seqno_to_time_mapping(times.encode());
    }

    /// Abandons the file, which the caller deletes.
    pub(crate) fn abandon(self) {
        self.builder.abandon();
    }
}

fn collectors(context: &OutputContext<'_>, table: &NewTable) -> Vec<Box<dyn TablePropertiesCollector>> {
    let of = TablePropertiesCollectorContext {
        column_family_id: context.column_family,
        level_at_creation: table.level,
        num_levels: usize::try_from(context.family_options.num_levels).unwrap_or(1),
        last_level_inclusive_max_seqno_threshold: table.old_before,
        timestamp_size: context.icmp.timestamp_size(),
    };
    let factories = context.family_options.table_properties_collector_factories.iter();
    factories.filter_map(|factory| factory.create(&of)).collect()
}

/// The type in the trailer of an internal key: its lowest byte.
#[inline]
pub(crate) fn type_of(internal_key: &[u8]) -> Option<ValueType> {
    ValueType::from_u8((key::trailer(internal_key) & 0xFF) as u8)
}

fn builder_options(context: &OutputContext<'_>, table: &NewTable, now: u64) -> TableBuilderOptions {
    let family = context.family_options;
    let mut options = TableBuilderOptions::new(context.icmp.clone(), Arc::new(family.table.clone()));
    if context.icmp.timestamp_size() > 0 && !family.persist_user_defined_timestamps {
        options.icmp = context.icmp.without_timestamp();
        options.user_defined_timestamps_persisted = false;
    }
    options.compression = table.compression;
    options.compression_opts = table.compression_options.codec();
    options.compression_manager = family.compression_manager.clone();
    options.sample_for_compression = family.sample_for_compression;
    options.prefix_extractor = family.prefix_extractor.clone();
    options.merge_operator_name = family.merge_operator.as_ref().map(|m| m.name().to_owned());
    options.column_family_id = context.column_family.0;
    context.column_family_name.clone_into(&mut options.column_family_name);
    context.db_id.clone_into(&mut options.db_id);
    context.session_id.clone_into(&mut options.db_session_id);
    context.options.host_in_tables().clone_into(&mut options.db_host_id);
    options.orig_file_number = table.number;
    options.creation_time = if table.oldest_seconds == 0 { now } else { table.oldest_seconds };
    options.file_creation_time = now;
    options.level = i32::try_from(table.level).ok();
    options.is_bottommost = table.is_bottommost;
    options.is_flush = context.io_priority == IoPriority::High;
    options.reason = context.reason();
    options.compaction_style = family.compaction_style;
    options.num_levels = Some(family.num_levels);
    options.skip_filters = family.optimize_filters_for_hits && table.is_bottommost;
    options.target_file_size = table.target_file_size;
    // With timestamps a deleted key is not gone: older reads see it.
    let has_timestamps = context.icmp.timestamp_size() > 0;
    options.deleted_run_block_min_entries =
        if has_timestamps { 0 } else { family.deleted_run_block_min_entries };
    options.long_deleted_run_entries = family.pre_scan_threshold();
    options.statistics = context.options.statistics.clone();
    options.clock = context.env.clock.clone();
    options.block_protection_bytes_per_key = family.block_protection_bytes_per_key as usize;
    options
}

/// Adds an entry to the table, and to the summary if the table will be verified.
#[inline]
fn store(
    builder: &mut TableBuilder,
    written: &mut Option<WrittenFile>,
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    if let Some(written) = written {
        written.add(key, value);
    }
    builder.add(key, value)
}

/// Opens a finished output, which stays open for its readers; a level-0 file may pin blocks. Then
/// verifies it, as the options say.
fn check_readable(
    context: &OutputContext<'_>,
    meta: &FileMetaData,
    level: usize,
    written: Option<WrittenFile>,
) -> Result<()> {
    let reader = context.tables.reader(&TableFile { meta, level: Some(level) })?;
    let wanted = context.verification();
    if wanted.blocks {
        reader.verify(&mut |_| true)?;
    }
    if let (true, Some(factory), Some((checksum, function))) =
        (wanted.file, &context.options.file_checksum_gen_factory, &meta.file_checksum)
    {
        let reads = ChecksumReads::new(factory, context.env.fs.as_ref(), context.options);
        verify_file_checksum(&reads, reader.file().path(), (checksum, function))?;
    }
    match written {
        Some(written) if written != WrittenFile::in_table(&reader)? => {
            let path = reader.file().path().display();
            Err(Error::corruption(format!("{path}: the table does not hold what was written to it")))
        }
        _ => Ok(()),
    }
}

/// Creates a file of the job, written at the pace that the options set. `histogram` gets the times
/// of its appends.
pub(super) fn create_paced(
    context: &OutputContext<'_>,
    path: &Path,
    file_type: FileType,
    histogram: Histogram,
) -> Result<Box<dyn WritableFile>> {
    let (options, fs) = (context.options, &context.env.fs);
    let is_direct = options.use_direct_io_for_flush_and_compaction;
    let mut file = if is_direct {
        fs.create_direct_writable_file(path, options.writable_file_max_buffer_size)?
    } else {
        fs.create_writable_file(path)?
    };
    if context.write_hint != WriteLifeTimeHint::NotSet {
        file.set_write_life_time_hint(context.write_hint);
    }
    let file = options.with_handoff(file_type, file);
    let file = match &options.statistics {
        Some(statistics) => {
            let (statistics, clock) = (statistics.clone(), context.env.clock.clone());
            Box::new(CountedWritableFile::new(file, statistics, clock, histogram))
        }
        None => file,
    };
    // Direct I/O has no later write-back.
    let bytes_per_sync = if is_direct { 0 } else { options.bytes_per_sync };
    if options.rate_limiter.is_none() && bytes_per_sync == 0 {
        return Ok(file);
    }
    let limiter = options.rate_limiter.clone().map(|limiter| (limiter, context.io_priority));
    let (clock, statistics) = (context.env.clock.clone(), options.statistics.clone());
    Ok(Box::new(PacedWritableFile::new(file, limiter, clock, bytes_per_sync, statistics)))
}

fn brief(context: &OutputContext<'_>, number: FileNumber) -> TableFileCreationBriefInfo {
    TableFileCreationBriefInfo {
        db_name: context.database.display().to_string(),
        cf_name: context.column_family_name.to_owned(),
        file_path: context.table_path(number),
        job_id: context.job_id,
        reason: context.reason(),
    }
}

fn report_created(
    context: &OutputContext<'_>,
    file_number: FileNumber,
    result: &Result<(FileMetaData, TableFileInfo)>,
) {
    if let Ok((meta, info)) = result {
        let event = Event::TableFileCreation(TableFileCreation {
            cf_name: context.column_family_name,
            job: context.job_id,
            file_number,
            file_size: meta.file_size,
            smallest_seqno: meta.smallest_seqno,
            largest_seqno: meta.largest_seqno,
            file_checksum: meta.file_checksum.as_ref(),
            table_properties: &info.properties,
            status: Ok(()),
        });
        let line = event.to_line(context.env.clock.now_micros());
        esker_base::info_log!(context.info_log, Info, "{line}");
    }
    for listener in &context.options.listeners {
        listener.on_table_file_created(&TableFileCreationInfo {
            brief: brief(context, file_number),
            file_size: result.as_ref().map_or(0, |(meta, _)| meta.file_size),
            num_entries: result.as_ref().map_or(0, |(_, info)| info.num_entries),
            table_properties: result.as_ref().map(|(_, info)| info.properties.clone()).unwrap_or_default(),
            status: result.as_ref().map(|_| ()).map_err(Clone::clone),
        });
    }
}
