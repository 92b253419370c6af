//! One key range of a compaction.
//!
//! In: the plan's input files, restricted to `[start, end)`. Out: finished output files.

use super::io_times::IoTimes;
use super::output::{Outputs, ProgressLog};
use super::placement::Placement;
use super::remote::{ResumePoint, Resumption};
use crate::cf::ColumnFamily;
use crate::compaction_filter::{
    CompactionFilter, CompactionFilterContext, EntityColumns, FilterDecision, TableFileCreationReason,
};
use crate::engine::{Engine, SubcompactionReport, contained};
use crate::files::OutputContext;
use crate::files::open_table::open_at_pace;
use crate::merge::call_times::timed_filter;
use crate::merge::compaction_iter::timed::TimedValues;
use crate::merge::compaction_iter::{BlobTally, KeyNotExistsBeyond, clipped};
use crate::merge::range_del::FileBounds;
use crate::merge::timestamps::{at_oldest_timestamp, stored_tombstones, with_timestamps};
use crate::merge::{
    CompactionIterator, CompactionIteratorOptions, CompactionIteratorStats, FileOpener, LevelIterator,
    MergeChild, OpenedFile, RangeDelAggregator, merge_children,
};
use crate::options::{ColumnFamilyOptions, CompressionOptions, DbOptions, Feature};
use crate::picker::score::scores;
use crate::picker::{CompactionPlan, CompactionReason, PickerOptions, RunningCompactions};
use crate::snapshot::SectionsForJob;
use crate::version::{FileMeta, Version};
use esker_base::sync::Arc;
use esker_base::sync::atomic::AtomicBool;
use esker_base::{Error, FileNumber, IoActivity, Result, SequenceNumber, Severity};
use esker_env::rate_limiter::{IoKind, IoPriority};
use esker_env::thread_status::{IoProgress, OperationStage, begin_stage};
use esker_format::compression::CompressionType;
use esker_format::cursor::InternalIterator;
use esker_format::deleted_runs::LongDeletedRun;
use esker_format::key;
use esker_format::properties::TableProperties;
use esker_format::range_del::{FragmentedRangeTombstones, RangeTombstone};
use esker_format::trace::TableReaderCaller;
use esker_format::version_edit::{BlobFileAddition, FileMetaData};
use esker_table::trace::called_by;
use esker_table::{ReadPace, TableCache, TableFile, TableReadOptions, TableReader};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// State shared by all subcompactions of a job.
pub(super) struct SubjobContext<'a> {
    pub(super) engine: &'a Engine,
    pub(super) db_options: &'a DbOptions,
    pub(super) job: u64,
    /// The number of this part.
    pub(super) number: usize,
    pub(super) cf: &'a Arc<ColumnFamily>,
    pub(super) options: &'a ColumnFamilyOptions,
    pub(super) plan: &'a CompactionPlan,
    pub(super) snapshots: &'a [SequenceNumber],
    pub(super) placement: &'a Placement,
    /// See [`CompactionIteratorOptions::prepared`].
    pub(super) prepared: Option<&'a SectionsForJob>,
    pub(super) cancelled: &'a Arc<AtomicBool>,
    /// The table cache of the output directory, if a worker writes outputs there. `None`: the
    /// family's own.
    pub(super) elsewhere: Option<&'a TableCache>,
}

/// The result of a subcompaction.
#[derive(Debug, Default)]
pub(super) struct SubjobResult {
    /// Tables of the output level.
    pub(super) files: Vec<FileMetaData>,
    /// Tables of the level above, with young entries.
    pub(super) proximal_files: Vec<FileMetaData>,
    /// Deleted runs in these files that pre-scans should visit.
    pub(super) long_deleted_runs: Vec<LongDeletedRun>,
    /// Output files whose older versions are kept for snapshots only, not for young entries or
    /// timestamps.
    pub(super) kept_for_snapshots: Vec<FileNumber>,
    /// Files to delete if the job fails.
    pub(super) created: Vec<FileNumber>,
    pub(super) blob_files: Vec<BlobFileAddition>,
    /// Blob files to delete if the job fails.
    pub(super) created_blobs: Vec<FileNumber>,
    pub(super) stats: CompactionIteratorStats,
    /// References to blob files, of the inputs and of the written entries.
    pub(super) blobs_in: BlobTally,
    pub(super) blobs_out: BlobTally,
    /// Bytes and number of values from blob files that the compaction wrote again.
    pub(super) blob_bytes_read: u64,
    pub(super) blobs_read: u64,
    /// Microseconds of processor time.
    pub(super) cpu_micros: u64,
    /// Range tombstones that no output needs.
    pub(super) range_dels_dropped: u64,
    /// Whether a worker of the compaction service ran this subcompaction.
    pub(super) is_remote: bool,
    pub(super) result: Option<esker_base::Error>,
}

impl SubjobResult {
    /// The tables with their levels.
    pub(super) fn outputs<'a>(
        &'a self,
        plan: &CompactionPlan,
    ) -> impl Iterator<Item = (usize, &'a FileMetaData)> + use<'a> {
        let (level, above) = (plan.output_level, plan.proximal.as_ref().map_or(0, |place| place.level));
        let above = self.proximal_files.iter().map(move |file| (above, file));
        above.chain(self.files.iter().map(move |file| (level, file)))
    }

    /// Takes the tables and the counts of finished outputs.
    fn take(&mut self, outputs: Outputs<'_>) {
        let files = if outputs.is_proximal() { &mut self.proximal_files } else { &mut self.files };
        files.extend(outputs.finished);
        self.long_deleted_runs.extend(outputs.long_deleted_runs);
        self.created.extend(outputs.created);
        self.blob_files.extend(outputs.blobs.finished);
        self.created_blobs.extend(outputs.blobs.created);
        self.blobs_out.merge(&outputs.blobs_out);
        self.blob_bytes_read += outputs.blob_bytes_read;
        self.blobs_read += outputs.blobs_read;
    }
}

/// Compacts the user keys from `start` (inclusive) to `end` (exclusive). Records finished files in
/// `progress`. The result begins with the files and counts of `resumed`, which end at `start`.
pub(super) fn run(
    context: &SubjobContext<'_>,
    start: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
    progress: Option<&mut Resumption<'_>>,
    resumed: Option<ResumePoint>,
) -> SubjobResult {
    let _calls = called_by(TableReaderCaller::Compaction, None);
    let _activity = IoActivity::Compaction.begin();
    let _stage = begin_stage(OperationStage::CompactionProcessKv);
    let (engine, plan) = (context.engine, context.plan);
    let base_level = base_level(plan, context.options);
    let compression = compression_at(plan, context.options, base_level);
    let style = context.options.compaction_style;
    let times = (context.options.kept_seconds() > 0).then_some(&context.placement.times);
    let output_context = OutputContext {
        times,
        write_hint: context.db_options.sst_write_hint(style, plan.output_level, base_level),
        path_id: plan.output_path,
        tables: context.elsewhere.unwrap_or(&context.cf.tables),
        ..engine.output_context(context.cf, context.db_options, context.options, context.job, IoPriority::Low)
    };
    let mut outputs = Outputs::new(output_context, plan, &engine.numbers, compression);
    outputs.table.old_before = context.placement.old_before;
    let mut above = context.placement.young.as_ref().map(|young| {
        outputs.stay_below(young);
        let mut above = Outputs::above(output_context, plan, &engine.numbers, compression, young);
        above.table.old_before = context.placement.old_before;
        above
    });
    // Progress has tables of one level only.
    let progress = progress.filter(|_| above.is_none());
    outputs.progress = progress.map(|progress| progress as &mut dyn ProgressLog);
    let mut before = CompactionIteratorStats::default();
    if let Some(resumed) = resumed {
        outputs.finished = resumed.files;
        before = resumed.stats;
    }
    let mut made = SubjobResult::default();
    let start_micros = engine.env.clock.monotonic_micros();
    let start_cpu = engine.env.clock.thread_cpu_nanos();
    let io_times = context.options.report_bg_io_stats.then(IoTimes::begin);
    let report = SubcompactionReport {
        job: context.job,
        number: context.number,
        cf: context.cf,
        plan,
        compression: compression.0,
        blob_compression: context.options.blob_compression_type,
    };
    let result = contained("a compaction", Severity::HardError, || {
        engine.report_subcompaction_begin(&report);
        write_all(context, (&mut outputs, above.as_mut()), &mut made, (start, end))
    });
    made.take(outputs);
    above.into_iter().for_each(|outputs| made.take(outputs));
    if let Some(times) = io_times {
        times.end(&mut made.stats);
    }
    made.stats += before;
    made.kept_for_snapshots = kept_for_snapshots(context, &made.files);
    made.result = result.err();
    let micros = engine.env.clock.monotonic_micros().saturating_sub(start_micros);
    made.cpu_micros = engine.env.clock.thread_cpu_nanos().saturating_sub(start_cpu) / 1000;
    let reported = contained("a compaction", Severity::HardError, || {
        let files: Vec<_> = made.outputs(plan).map(|(_, file)| file).collect();
        engine.report_subcompaction_end(&report, &made.stats, &files, micros, made.result.as_ref());
        Ok(())
    });
    made.result = made.result.or(reported.err());
    made
}

/// The outputs in which older versions were kept for snapshots only.
pub(super) fn kept_for_snapshots(context: &SubjobContext<'_>, files: &[FileMetaData]) -> Vec<FileNumber> {
    let plan = context.plan;
    let is_last = plan.is_bottommost || plan.reason == CompactionReason::BottommostFiles;
    if !is_last || context.placement.zero_up_to < SequenceNumber::MAX {
        return Vec::new();
    }
    // A file with timestamps from `full_history_ts_low` on may also keep versions for reads at a
    // timestamp.
    let (low, icmp) = (plan.version.full_history_ts_low(), &context.cf.icmp);
    let is_old = |f: &&FileMetaData| {
        f.max_timestamp.is_empty() || icmp.compare_timestamps(&f.max_timestamp, low).is_lt()
    };
    files.iter().filter(is_old).map(|f| f.number).collect()
}

fn write_all<'a>(
    context: &SubjobContext<'_>,
    (outputs, mut above): (&mut Outputs<'a>, Option<&mut Outputs<'a>>),
    made: &mut SubjobResult,
    (start, end): (Option<Vec<u8>>, Option<Vec<u8>>),
) -> Result<()> {
    let icmp = context.cf.icmp.clone();
    let (children, range_dels, stored_tombstones) = open_inputs(context)?;
    let mut options = CompactionIteratorOptions::new(&icmp, context.snapshots.to_vec());
    options.prepared = context.prepared.cloned();
    options.merge_operator = context.options.merge_operator.clone();
    options.blobs = Some(outputs.blob_reader.clone());
    options.counts_blobs = context.plan.input_files().any(|(_, f)| f.oldest_blob_file_number.is_some());
    let (statistics, clock) = (context.db_options.statistics.as_ref(), &context.db_options.env.clock);
    options.compaction_filter = make_filter(context).map(|filter| timed_filter(filter, statistics, clock));
    options.filter_level = context.plan.start_level;
    options.bottommost = context.plan.is_bottommost;
    options.keep_history = keeps_history(context);
    let low = context.plan.version.full_history_ts_low();
    options.full_history_ts_low = (options.keep_history && !low.is_empty()).then(|| low.to_vec());
    options.trim_ts.clone_from(&context.plan.trim_ts);
    options.stored_tombstones = stored_tombstones;
    if !context.db_options.compatible_with.reads(Feature::TimedPut) {
        options.timed_values = TimedValues::Plain;
    }
    options.whole_entities = !context.db_options.compatible_with.reads(Feature::EntityBlobs);
    let zero_up_to = context.placement.zero_up_to;
    options.zero_up_to = if options.keep_history { SequenceNumber::ZERO } else { zero_up_to };
    options.key_not_exists_beyond_output_level = beyond_output_level(context.plan);
    options.range_dels = range_dels;
    options.lower_bound = start;
    options.upper_bound = end;
    options.cancelled = Some(context.cancelled.clone());
    if context.db_options.allow_2pc {
        options.keep_conflicts();
    }
    let merged: Box<dyn InternalIterator> = merge_children(&icmp, children);
    let mut entries = CompactionIterator::new(icmp.clone(), merged, options);
    if outputs.progress.is_some() {
        entries.mark_keys();
    }
    let mut progress = IoProgress::of_compaction();
    entries.seek_to_first();
    while entries.valid() {
        if context.cf.is_dropped() {
            return Err(Error::column_family_dropped("the family was dropped while it was compacted"));
        }
        match &mut above {
            Some(above) if above.takes(SequenceNumber(key::trailer(entries.key()) >> 8)) => {
                above.add(&mut entries)?
            }
            _ => outputs.add(&mut entries)?,
        }
        progress.entry();
        entries.next();
    }
    entries.status()?;
    made.stats = *entries.stats();
    made.blobs_in.clone_from(entries.blobs_in());
    for outputs in [Some(outputs), above].into_iter().flatten() {
        outputs.blobs.finish()?;
        outputs.finish_file(&mut entries, None)?;
    }
    made.range_dels_dropped = entries.range_dels_dropped();
    Ok(())
}

/// Whether the family has user-defined timestamps in its tables.
fn keeps_history(context: &SubjobContext<'_>) -> bool {
    context.cf.icmp.timestamp_size() > 0 && context.options.persist_user_defined_timestamps
}

/// Adds a file's range tombstones to the compaction, in a family with user-defined timestamps.
fn take_stored_tombstones(
    context: &SubjobContext<'_>,
    reader: &TableReader,
    file: &FileMeta,
    range_dels: &mut RangeDelAggregator,
    kept: &mut Vec<RangeTombstone>,
) {
    let icmp = &context.cf.icmp;
    let stored = stored_tombstones(reader, icmp).into_iter();
    if keeps_history(context) {
        let newest = context.plan.trim_ts.as_deref();
        let is_kept = |t: &RangeTombstone| {
            newest.is_none_or(|ts| icmp.compare_timestamps(icmp.split_timestamp(&t.start).1, ts).is_le())
        };
        let stored = stored.filter(is_kept);
        let last = file.largest_is_exclusive().then(|| file.largest_user_key());
        kept.extend(stored.filter_map(|t| clipped(&t, icmp, Some(file.smallest_user_key()), last)));
    } else {
        let plain: Vec<RangeTombstone> = stored.map(|t| at_oldest_timestamp(t, icmp)).collect();
        if !plain.is_empty() {
            let fragments = Arc::new(FragmentedRangeTombstones::build(plain, icmp));
            range_dels.add(&fragments, Some(&FileBounds::new(&file.smallest, &file.largest)));
        }
    }
}

type Inputs = (Vec<MergeChild>, RangeDelAggregator, Vec<RangeTombstone>);

/// Cursors over all inputs, newest first, and their range tombstones: all in a family that keeps
/// history; otherwise those that hide entries.
fn open_inputs(context: &SubjobContext<'_>) -> Result<Inputs> {
    let icmp = &context.cf.icmp;
    let mut range_dels = RangeDelAggregator::new(icmp.clone(), context.snapshots.to_vec());
    let (mut children, mut stored) = (Vec::new(), Vec::new());
    let pace = read_pace(context.db_options);
    for level in &context.plan.inputs {
        for file in &level.files {
            let reader = open_at_pace(&context.cf.tables, file, pace.as_ref())?;
            if icmp.timestamp_size() > 0 {
                take_stored_tombstones(context, &reader, file, &mut range_dels, &mut stored);
            } else if let Some(fragments) = reader.range_dels() {
                range_dels.add(fragments, Some(&FileBounds::new(&file.smallest, &file.largest)));
            }
        }
        let opener = Arc::new(CompactionOpener {
            cf: context.cf.clone(),
            options: TableReadOptions {
                fill_cache: false,
                readahead_size: context.db_options.compaction_readahead_size,
                ..TableReadOptions::default()
            },
            pace: pace.clone(),
        });
        if level.level == 0 {
            for file in &level.files {
                children.push(MergeChild::new(opener.open(file)?.iter));
            }
        } else {
            let files: Arc<[Arc<FileMeta>]> = level.files.clone().into();
            children.push(MergeChild::new(Box::new(LevelIterator::new(icmp.clone(), files, opener))));
        }
    }
    Ok((children, range_dels, stored))
}

/// The pace of the rate limiter, if there is one that limits reads.
pub(super) fn read_pace(options: &DbOptions) -> Option<ReadPace> {
    let limiter = options.rate_limiter.as_ref().filter(|limiter| limiter.limits(IoKind::Read))?;
    let clock = options.env.clock.clone();
    let (limiter, statistics) = (limiter.clone(), options.statistics.clone());
    Some(ReadPace { limiter, priority: IoPriority::Low, clock, statistics })
}

/// Opens inputs for one sequential read: blocks bypass the cache, and readahead is long.
struct CompactionOpener {
    cf: Arc<ColumnFamily>,
    options: TableReadOptions,
    pace: Option<ReadPace>,
}

impl FileOpener<Arc<FileMeta>> for CompactionOpener {
    fn open(&self, file: &Arc<FileMeta>) -> Result<OpenedFile> {
        let reader = open_at_pace(&self.cf.tables, file, self.pace.as_ref())?;
        let iter = reader.iter(self.options).with_pace(self.pace.clone());
        let iter = with_timestamps(iter, &self.cf.icmp);
        Ok(OpenedFile { iter, range_dels: None })
    }
}

fn make_filter(context: &SubjobContext<'_>) -> Option<Box<dyn CompactionFilter>> {
    if let Some(filter) = &context.options.compaction_filter {
        return Some(Box::new(SharedFilter(filter.clone())));
    }
    let (reason, factory) =
        (TableFileCreationReason::Compaction, context.options.compaction_filter_factory.as_ref()?);
    if !factory.should_filter_table_file_creation(reason) {
        return None;
    }
    factory.create(&CompactionFilterContext {
        is_full_compaction: context.plan.is_full,
        is_manual_compaction: context.plan.is_manual,
        column_family_id: context.cf.id,
        reason,
        input_start_level: Some(context.plan.start_level),
        input_table_properties: Arc::new(properties_of_inputs(context).unwrap_or_default()),
    })
}

/// The properties of the compaction's inputs. The compaction opens the tables anyway; `None` if one
/// cannot be opened.
fn properties_of_inputs(context: &SubjobContext<'_>) -> Option<BTreeMap<PathBuf, TableProperties>> {
    let tables = &context.cf.tables;
    let of = |(level, file): (usize, &Arc<FileMeta>)| {
        let meta = file.data();
        let reader = tables.reader(&TableFile { meta, level: Some(level) }).ok()?;
        Some((tables.paths().table(meta.path_id, meta.number), reader.properties().clone()))
    };
    context.plan.input_files().map(of).collect()
}

/// A filter that the user shares between compactions.
struct SharedFilter(Arc<dyn CompactionFilter>);

impl CompactionFilter for SharedFilter {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        self.0.filter(level, key, value)
    }
    fn filter_merge_operand(&self, level: usize, key: &[u8], operand: &[u8]) -> FilterDecision {
        self.0.filter_merge_operand(level, key, operand)
    }
    fn filter_entity(&self, level: usize, key: &[u8], columns: &mut dyn EntityColumns) -> FilterDecision {
        self.0.filter_entity(level, key, columns)
    }
    fn filter_blob_by_key(&self, level: usize, key: &[u8]) -> Option<FilterDecision> {
        self.0.filter_blob_by_key(level, key)
    }
}

/// Whether no level below the output can hold a user key. Keys come in order, so each level is
/// scanned once.
fn beyond_output_level(plan: &CompactionPlan) -> KeyNotExistsBeyond {
    let version: Arc<Version> = plan.version.clone();
    let first_below = plan.output_level + 1;
    if plan.output_level == 0 || version.reserves_last_level() {
        // Older files of level 0 may have the key, or files that are ingested later.
        return Box::new(|_| false);
    }
    let mut next_file = vec![0usize; version.num_levels()];
    Box::new(move |user_key| {
        for (level, index) in next_file.iter_mut().enumerate().skip(first_below) {
            let files = version.files(level);
            let icmp = version.icmp();
            while *index < files.len()
                && icmp.compare_plain_keys(key::user_key(&files[*index].largest), user_key).is_lt()
            {
                *index += 1;
            }
            if let Some(file) = files.get(*index)
                && icmp.compare_plain_keys(key::user_key(&file.smallest), user_key).is_le()
            {
                return false;
            }
        }
        true
    })
}

/// Compression of the outputs.
pub(super) fn output_compression(
    plan: &CompactionPlan,
    options: &ColumnFamilyOptions,
) -> (CompressionType, CompressionOptions) {
    compression_at(plan, options, base_level(plan, options))
}

fn compression_at(
    plan: &CompactionPlan,
    options: &ColumnFamilyOptions,
    base_level: usize,
) -> (CompressionType, CompressionOptions) {
    let (compression, opts) = options.compression_for(plan.output_level, base_level, plan.is_bottommost);
    let compression = plan.overrides.compression.unwrap_or(compression);
    (if plan.never_compress { CompressionType::None } else { compression }, opts)
}

/// The base level when the plan was made. `compression_per_level` counts from it.
fn base_level(plan: &CompactionPlan, options: &ColumnFamilyOptions) -> usize {
    scores(&plan.version, &PickerOptions::from(options), &RunningCompactions::default()).base_level
}
