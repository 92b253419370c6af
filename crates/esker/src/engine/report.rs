//! Reports flushes, compactions and stalls to listeners, the LOG and the statistics.
//!
//! Never called under a lock of the engine: listeners are user code. Events that happen under a
//! lock go into `DbState::stall_changes`, and [`Engine::report_stall_changes`] reports them
//! afterwards.

use super::{Engine, ErrorReason, contained};
use crate::cf::ColumnFamily;
use crate::merge::CompactionIteratorStats;
use crate::merge::timestamps::newest_timestamp;
use crate::observe::{
    BackgroundErrorReason, BackgroundErrorRecoveryInfo, BlobFileAdditionInfo, BlobFileGarbageInfo,
    CompactionFileInfo, CompactionJobInfo, CompactionJobStats, CompactionReason, CompactionStats, Event,
    EventListener, ExternalFileIngestionInfo, FlushJobInfo, FlushReason, ManualFlushInfo, MemTableInfo,
    SubcompactionJobInfo, WorkPriority,
};
use crate::picker::CompactionPlan;
use crate::snapshot::SnapshotList;
use crate::version::blob_file_size;
use esker_base::stats::{Histogram, Ticker, record_in_histogram, record_tick, report_time_to_histogram};
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber, Severity, SubCode};
use esker_env::{StopWatch, system};
use esker_format::compression::CompressionType;
use esker_format::key;
use esker_format::properties::TableProperties;
use esker_format::version_edit::{BlobFileAddition, BlobFileGarbage, FileMetaData};
use esker_memtable::MemTable;
use esker_table::TableFile;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A finished compaction.
#[derive(Debug)]
pub(crate) struct CompactionReport<'a> {
    pub(crate) job: u64,
    pub(crate) cf: &'a ColumnFamily,
    pub(crate) plan: &'a CompactionPlan,
    pub(crate) outputs: Vec<(usize, &'a FileMetaData)>,
    pub(crate) blob_files: Vec<&'a BlobFileAddition>,
    pub(crate) blob_garbage: Vec<BlobFileGarbage>,
    pub(crate) blob_bytes_read: u64,
    pub(crate) blobs_read: u64,
    pub(crate) iteration: CompactionIteratorStats,
    pub(crate) subcompactions: usize,
    pub(crate) compression: CompressionType,
    pub(crate) blob_compression: CompressionType,
    pub(crate) micros: u64,
    pub(crate) cpu_micros: u64,
    pub(crate) range_dels_dropped: u64,
    /// Whether a worker of the compaction service takes part.
    pub(crate) is_remote: bool,
}

impl CompactionReport<'_> {
    fn blob_bytes_written(&self) -> u64 {
        self.blob_files.iter().map(|blob| blob_file_size(blob)).sum()
    }
}

/// One key range of a compaction.
#[derive(Debug)]
pub(crate) struct SubcompactionReport<'a> {
    pub(crate) job: u64,
    pub(crate) number: usize,
    pub(crate) cf: &'a ColumnFamily,
    pub(crate) plan: &'a CompactionPlan,
    pub(crate) compression: CompressionType,
    pub(crate) blob_compression: CompressionType,
}

impl SubcompactionReport<'_> {
    fn info(&self, status: Result<()>, stats: CompactionJobStats) -> SubcompactionJobInfo {
        SubcompactionJobInfo {
            cf_id: self.cf.id,
            cf_name: self.cf.name.clone(),
            status,
            thread_id: system::thread_id(),
            job_id: self.job,
            subcompaction_job_id: self.number,
            base_input_level: self.plan.start_level,
            output_level: self.plan.output_level,
            compaction_reason: self.plan.reason,
            compression: self.compression,
            stats,
            blob_compression_type: self.blob_compression,
        }
    }
}

/// The tickers of bytes for compactions with this reason; other tickers count all compactions.
fn bytes_tickers(reason: CompactionReason) -> Option<(Ticker, Ticker)> {
    match reason {
        CompactionReason::FilesMarkedForCompaction => {
            Some((Ticker::CompactReadBytesMarked, Ticker::CompactWriteBytesMarked))
        }
        CompactionReason::PeriodicCompaction => {
            Some((Ticker::CompactReadBytesPeriodic, Ticker::CompactWriteBytesPeriodic))
        }
        CompactionReason::Ttl => Some((Ticker::CompactReadBytesTtl, Ticker::CompactWriteBytesTtl)),
        _ => None,
    }
}

impl Engine {
    /// Measures the time until the returned watch is dropped.
    #[inline]
    pub(crate) fn time(&self, histogram: Histogram) -> StopWatch<'_> {
        StopWatch::start(self.options.statistics.as_deref(), self.env.clock.as_ref(), histogram)
    }

    /// The start of a measurement, in nanoseconds; `None` if times are not collected.
    #[inline]
    pub(crate) fn start_timing(&self) -> Option<u64> {
        let wanted = self.options.statistics.as_ref().filter(|statistics| statistics.collects_times());
        wanted.map(|_| self.env.clock.monotonic_nanos())
    }

    /// Ends a measurement that began at `start`.
    #[inline]
    pub(crate) fn end_timing(&self, histogram: Histogram, start: Option<u64>) {
        if let Some(start) = start {
            let micros = self.env.clock.monotonic_nanos().saturating_sub(start) / 1000;
            report_time_to_histogram(&self.options.statistics, histogram, micros);
        }
    }

    /// A number for a flush or compaction, unique while the database is open.
    pub(crate) fn next_job_id(&self) -> u64 {
        self.last_job_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn listeners(&self) -> &[Arc<dyn EventListener>] {
        &self.options.listeners
    }

    fn log_event(&self, event: &Event<'_>) {
        let line = event.to_line(self.env.clock.now_micros());
        esker_base::info_log!(self.info_log, Info, "{line}");
    }

    /// Files in each level of a family.
    fn lsm_state(&self, cf: &ColumnFamily) -> Vec<u64> {
        let super_version = cf.super_version.load_full();
        (0..super_version.version.num_levels())
            .map(|level| super_version.version.num_files(level) as u64)
            .collect()
    }

    /// Reports a sealed memtable to listeners. Its newest timestamp costs a scan over the memtable.
    pub(crate) fn report_memtable_sealed(&self, cf: &ColumnFamily, mem: &Arc<MemTable>) {
        if self.listeners().is_empty() {
            return;
        }
        let drops_timestamps = cf.icmp.timestamp_size() > 0
            && !cf.super_version.load_full().options.persist_user_defined_timestamps;
        let newest_udt = match drops_timestamps {
            true => newest_timestamp(std::slice::from_ref(mem), &cf.icmp),
            false => Vec::new(),
        };
        for listener in self.listeners() {
            listener.on_memtable_sealed(&MemTableInfo {
                cf_name: cf.name.clone(),
                first_seqno: mem.first_seqno(),
                earliest_seqno: mem.earliest_seqno(),
                num_entries: mem.num_entries(),
                num_deletes: mem.num_deletes(),
                newest_udt: newest_udt.clone(),
            });
        }
    }

    pub(crate) fn report_flush_begin(
        &self,
        job: u64,
        cf: &ColumnFamily,
        memtables: &[Arc<MemTable>],
        reason: FlushReason,
    ) {
        let sum = |of: fn(&MemTable) -> u64| memtables.iter().map(|m| of(m)).sum();
        if let Some(statistics) = &self.options.statistics {
            let memory: u64 = sum(|m| m.approximate_memory_usage() as u64);
            statistics.record_in_histogram(Histogram::FlushMemtableMemoryBytes, memory);
            statistics.record_in_histogram(Histogram::FlushMemtableTotalDataSize, sum(MemTable::data_size));
            let of_reason = match reason {
                FlushReason::WriteBufferFull => Some(Histogram::FlushWriteBufferFullMemtableMemoryBytes),
                FlushReason::WriteBufferManager => {
                    Some(Histogram::FlushWriteBufferManagerMemtableMemoryBytes)
                }
                _ => None,
            };
            of_reason.iter().for_each(|of_reason| statistics.record_in_histogram(*of_reason, memory));
        }
        self.log_event(&Event::FlushStarted {
            job,
            num_memtables: memtables.len(),
            total_num_input_entries: sum(MemTable::num_entries),
            num_deletes: sum(MemTable::num_deletes),
            total_data_size: sum(MemTable::data_size),
            memory_usage: sum(|m| m.approximate_memory_usage() as u64),
            num_range_deletes: sum(MemTable::num_range_deletes),
            flush_reason: reason,
        });
        if !self.listeners().is_empty() {
            let info = self.flush_info(job, cf, None, &[], reason);
            self.listeners().iter().for_each(|l| l.on_flush_begin(&info));
        }
    }

    /// Reports the end of a flush. `made`: the table, if there is one, and its number of entries;
    /// `blobs`: the blob files.
    pub(crate) fn report_flush_end(
        &self,
        job: u64,
        cf: &ColumnFamily,
        made: Option<(&FileMetaData, u64)>,
        blobs: &[BlobFileAddition],
        reason: FlushReason,
        micros: u64,
    ) {
        let blob_bytes: u64 = blobs.iter().map(blob_file_size).sum();
        let file = made.map(|(file, _)| file);
        let bytes = file.map_or(0, |f| f.file_size);
        record_tick(&self.options.statistics, Ticker::FlushWriteBytes, bytes + blob_bytes);
        report_time_to_histogram(&self.options.statistics, Histogram::FlushTime, micros);
        let why = match reason {
            FlushReason::WriteBufferFull => Some(Ticker::FlushReasonWriteBufferFull),
            FlushReason::WriteBufferManager => Some(Ticker::FlushReasonWriteBufferManager),
            FlushReason::MemtableMaxRangeDeletions => Some(Ticker::FlushReasonMemtableMaxRangeDeletions),
            _ => None,
        };
        if let Some(why) = why {
            record_tick(&self.options.statistics, why, 1);
        }
        self.count_flush(cf, bytes, blob_bytes, u64::from(file.is_some()), micros);
        let state = self.lsm_state(cf);
        let (compression, immutable_memtables) = {
            let super_version = cf.super_version.load_full();
            (super_version.options.compression_for(0, 1, false).0, super_version.imm.len())
        };
        self.log_event(&Event::FlushFinished {
            job,
            output_compression: compression.property_name(),
            lsm_state: &state,
            immutable_memtables,
        });
        if !self.listeners().is_empty() {
            let info = self.flush_info(job, cf, made, blobs, reason);
            self.listeners().iter().for_each(|l| l.on_flush_completed(&info));
        }
    }

    fn count_flush(&self, cf: &ColumnFamily, bytes: u64, blob_bytes: u64, files: u64, micros: u64) {
        let stats = CompactionStats {
            micros,
            bytes_written: bytes,
            bytes_written_blob: blob_bytes,
            num_output_files: files,
            count: 1,
            ..CompactionStats::default()
        };
        let mut state = self.state.lock();
        if let Some(family) = state.family_mut(cf.id) {
            family.bytes_flushed += bytes + blob_bytes;
            family.compaction_stats.add(0, WorkPriority::High, CompactionReason::Flush, &stats);
        }
    }

    fn flush_info(
        &self,
        job_id: u64,
        cf: &ColumnFamily,
        made: Option<(&FileMetaData, u64)>,
        blobs: &[BlobFileAddition],
        flush_reason: FlushReason,
    ) -> FlushJobInfo {
        let (file, entries) = made.unzip();
        let super_version = cf.super_version.load_full();
        let level0_files = super_version.version.num_files(0);
        FlushJobInfo {
            cf_id: cf.id,
            cf_name: cf.name.clone(),
            file_path: file.map(|f| cf.tables.paths().table(f.path_id, f.number)).unwrap_or_default(),
            file_number: file.map_or(FileNumber(0), |f| f.number),
            thread_id: system::thread_id(),
            job_id,
            triggered_writes_slowdown: level0_files >= super_version.options.level0_slowdown(),
            triggered_writes_stop: level0_files >= super_version.options.level0_stop(),
            smallest_seqno: file.map_or(SequenceNumber::ZERO, |f| f.smallest_seqno),
            largest_seqno: file.map_or(SequenceNumber::ZERO, |f| f.largest_seqno),
            file_size: file.map_or(0, |f| f.file_size),
            num_entries: entries.unwrap_or(0),
            flush_reason,
            oldest_blob_file_number: file.and_then(|f| f.oldest_blob_file_number),
            table_properties: file.and_then(|f| properties_of(cf, f, 0)).unwrap_or_default(),
            blob_compression_type: super_version.options.blob_compression_type,
            blob_file_addition_infos: blobs.iter().map(|blob| Engine::blob_addition(cf, blob)).collect(),
        }
    }

    fn blob_addition(cf: &ColumnFamily, blob: &BlobFileAddition) -> BlobFileAdditionInfo {
        BlobFileAdditionInfo {
            blob_file_path: cf.tables.paths().blob(blob.number),
            blob_file_number: blob.number,
            total_blob_count: blob.total_blob_count,
            total_blob_bytes: blob.total_blob_bytes,
        }
    }

    fn blob_garbage(cf: &ColumnFamily, garbage: &BlobFileGarbage) -> BlobFileGarbageInfo {
        BlobFileGarbageInfo {
            blob_file_path: cf.tables.paths().blob(garbage.number),
            blob_file_number: garbage.number,
            garbage_blob_count: garbage.garbage_blob_count,
            garbage_blob_bytes: garbage.garbage_blob_bytes,
        }
    }

    pub(crate) fn report_compaction_begin(&self, job: u64, cf: &ColumnFamily, plan: &CompactionPlan) {
        let files = plan.input_files().count() as u64;
        record_in_histogram(&self.options.statistics, Histogram::NumFilesInSingleCompaction, files);
        let inputs: Vec<_> = plan
            .inputs
            .iter()
            .map(|level| (level.level, level.files.iter().map(|f| f.number.0).collect::<Vec<_>>()))
            .collect();
        self.log_event(&Event::CompactionStarted {
            job,
            cf_name: &cf.name,
            compaction_reason: plan.reason,
            inputs: &inputs,
            score: plan.score,
            input_data_size: plan.input_bytes(),
            oldest_snapshot_seqno: self.snapshots.with(SnapshotList::oldest_of_users),
        });
        if !self.listeners().is_empty() {
            let is_remote = self.options.compaction_service.is_some();
            let report = CompactionReport { is_remote, ..nothing_done_yet(job, cf, plan) };
            let info = self.compaction_info(&report, &Ok(()));
            self.listeners().iter().for_each(|l| l.on_compaction_begin(&info));
        }
    }

    /// Reports that the outputs are complete and not visible yet.
    pub(crate) fn report_compaction_pre_commit(&self, report: &CompactionReport<'_>) {
        if !self.listeners().is_empty() {
            let info = self.compaction_info(report, &Ok(()));
            self.listeners().iter().for_each(|l| l.on_compaction_pre_commit(&info));
        }
    }

    /// Reports that one key range of a compaction begins, on this thread.
    pub(crate) fn report_subcompaction_begin(&self, report: &SubcompactionReport<'_>) {
        if !self.listeners().is_empty() {
            let info = report.info(Ok(()), CompactionJobStats::default());
            self.listeners().iter().for_each(|l| l.on_subcompaction_begin(&info));
        }
    }

    /// Reports that one key range of a compaction has ended.
    pub(crate) fn report_subcompaction_end(
        &self,
        report: &SubcompactionReport<'_>,
        iteration: &CompactionIteratorStats,
        outputs: &[&FileMetaData],
        micros: u64,
        error: Option<&Error>,
    ) {
        if !self.listeners().is_empty() {
            let sizes = outputs.iter().map(|f| f.file_size);
            let stats = job_stats(
                CompactionJobStats::default(),
                iteration,
                outputs.len() as u64,
                sizes.sum(),
                micros,
            );
            let info = report.info(error.map_or(Ok(()), |e| Err(e.clone())), stats);
            self.listeners().iter().for_each(|l| l.on_subcompaction_completed(&info));
        }
    }

    /// Reports the begin of a trivial move, which only an edit of the MANIFEST carries out.
    pub(crate) fn report_trivial_move_begin(&self, job: u64, cf: &ColumnFamily, plan: &CompactionPlan) {
        if !self.listeners().is_empty() {
            let begin = self.move_info(job, cf, plan, false, &Ok(()));
            self.listeners().iter().for_each(|l| l.on_compaction_begin(&begin));
            let info = self.move_info(job, cf, plan, true, &Ok(()));
            self.listeners().iter().for_each(|l| l.on_compaction_pre_commit(&info));
        }
    }

    /// Reports that a trivial move has been done, or has failed.
    pub(crate) fn report_trivial_move_end(
        &self,
        job: u64,
        cf: &ColumnFamily,
        plan: &CompactionPlan,
        status: &Result<()>,
    ) {
        if status.is_ok() {
            self.count_trivial_move(job, plan);
        }
        if !self.listeners().is_empty() {
            let info = self.move_info(job, cf, plan, true, status);
            self.listeners().iter().for_each(|l| l.on_compaction_completed(&info));
        }
    }

    /// The report of a trivial move: the moved files are the outputs.
    pub(crate) fn move_info(
        &self,
        job: u64,
        cf: &ColumnFamily,
        plan: &CompactionPlan,
        with_outputs: bool,
        status: &Result<()>,
    ) -> CompactionJobInfo {
        let files = || plan.moved_files().map(|(_, f)| f);
        let moved = files().count() as u64;
        let mut info = self.compaction_info(&nothing_done_yet(job, cf, plan), status);
        info.stats = CompactionJobStats {
            num_input_files: moved,
            num_input_files_trivially_moved: moved,
            ..CompactionJobStats::default()
        };
        if with_outputs {
            let level = plan.output_level;
            info.output_file_infos = files().map(|f| file_info(level, f)).collect();
            info.output_files = files().map(|f| f.path()).collect();
        }
        info
    }

    fn count_trivial_move(&self, job: u64, plan: &CompactionPlan) {
        self.log_event(&Event::TrivialMove {
            job,
            destination_level: plan.output_level,
            files: plan.input_files().count(),
            total_files_size: plan.input_bytes(),
        });
        if plan.new_temperature.is_some() {
            record_tick(&self.options.statistics, Ticker::FifoChangeTemperatureCompactions, 1);
        }
        let mut state = self.state.lock();
        if let Some(family) = state.family_mut(plan.column_family) {
            family.compaction_stats.add_moved(plan.output_level, plan.input_bytes());
        }
    }

    pub(crate) fn report_compaction_end(&self, report: &CompactionReport<'_>, status: &Result<()>) {
        let stats = compaction_stats(report);
        if status.is_ok() {
            self.count_compaction(report, &stats);
            self.log_event(&Event::CompactionFinished {
                job: report.job,
                stats: &stats,
                output_level: report.plan.output_level,
                num_subcompactions: report.subcompactions,
                output_compression: report.compression.property_name(),
                num_single_delete_mismatches: report.iteration.single_deletion_mismatches,
                num_single_delete_fallthrough: 0,
                lsm_state: &self.lsm_state(report.cf),
            });
        }
        if !self.listeners().is_empty() {
            let info = self.compaction_info(report, status);
            self.listeners().iter().for_each(|l| l.on_compaction_completed(&info));
        }
    }

    fn count_compaction(&self, report: &CompactionReport<'_>, stats: &CompactionStats) {
        let statistics = &self.options.statistics;
        record_tick(statistics, Ticker::CompactReadBytes, stats.bytes_read());
        record_tick(statistics, Ticker::CompactWriteBytes, stats.all_bytes_written());
        record_tick(statistics, Ticker::CompactionKeyDropNewerEntry, report.iteration.dropped_hidden);
        record_tick(statistics, Ticker::CompactionKeyDropObsolete, report.iteration.dropped_obsolete);
        record_tick(statistics, Ticker::CompactionKeyDropRangeDel, report.iteration.dropped_range_del);
        let optimized = report.iteration.optimized_deletions;
        record_tick(statistics, Ticker::CompactionOptimizedDelDropObsolete, optimized);
        record_tick(statistics, Ticker::CompactionKeyDropUser, report.iteration.dropped_by_filter);
        record_tick(statistics, Ticker::CompactionRangeDelDropObsolete, report.range_dels_dropped);
        record_tick(statistics, Ticker::CompactionCpuTotalTime, report.cpu_micros);
        report_time_to_histogram(statistics, Histogram::CompactionTime, report.micros);
        report_time_to_histogram(statistics, Histogram::CompactionCpuTime, report.cpu_micros);
        record_in_histogram(statistics, Histogram::NumSubcompactionsScheduled, report.subcompactions as u64);
        match report.plan.reason {
            CompactionReason::FifoMaxSize => record_tick(statistics, Ticker::FifoMaxSizeCompactions, 1),
            CompactionReason::FifoTtl => record_tick(statistics, Ticker::FifoTtlCompactions, 1),
            _ => {}
        }
        if let Some((read, written)) = bytes_tickers(report.plan.reason) {
            record_tick(statistics, read, stats.bytes_read());
            record_tick(statistics, written, stats.all_bytes_written());
        }
        let mut state = self.state.lock();
        if let Some(family) = state.family_mut(report.plan.column_family) {
            let (level, reason) = (report.plan.output_level, report.plan.reason);
            family.compaction_stats.add(level, WorkPriority::Low, reason, stats);
        }
    }

    pub(crate) fn compaction_info(
        &self,
        report: &CompactionReport<'_>,
        status: &Result<()>,
    ) -> CompactionJobInfo {
        let plan = report.plan;
        let output = |(_, f): &(usize, &FileMetaData)| report.cf.tables.paths().table(f.path_id, f.number);
        let at_output_level = plan.input_files().filter(|(level, _)| *level == plan.output_level).count();
        let (files, bytes) = (plan.input_files().count() as u64, plan.input_bytes());
        let input = if plan.skips_inputs() {
            CompactionJobStats {
                num_filtered_input_files: files,
                num_filtered_input_files_at_output_level: at_output_level as u64,
                total_skipped_input_bytes: bytes,
                ..CompactionJobStats::default()
            }
        } else {
            CompactionJobStats {
                num_input_files: files,
                num_input_files_at_output_level: at_output_level as u64,
                total_input_bytes: bytes,
                ..CompactionJobStats::default()
            }
        };
        CompactionJobInfo {
            cf_id: report.cf.id,
            cf_name: report.cf.name.clone(),
            status: status.clone(),
            thread_id: system::thread_id(),
            job_id: report.job,
            num_l0_files: plan.version.num_files(0),
            base_input_level: plan.start_level,
            output_level: plan.output_level,
            input_file_infos: plan.input_files().map(|(level, f)| file_info(level, f)).collect(),
            input_files: plan.input_files().map(|(_, f)| f.path()).collect(),
            output_file_infos: report.outputs.iter().map(|(level, f)| file_info(*level, f)).collect(),
            output_files: report.outputs.iter().map(output).collect(),
            compaction_reason: plan.reason,
            compression: report.compression,
            stats: CompactionJobStats {
                num_blobs_read: report.blobs_read,
                total_blob_bytes_read: report.blob_bytes_read,
                num_output_files_blob: report.blob_files.len() as u64,
                total_output_bytes_blob: report.blob_bytes_written(),
                ..job_stats(
                    input,
                    &report.iteration,
                    report.outputs.len() as u64,
                    report.outputs.iter().map(|(_, f)| f.file_size).sum(),
                    report.micros,
                )
            },
            aborted: is_aborted(status, self.is_shutting_down()),
            is_full_compaction: plan.is_full,
            is_manual_compaction: plan.is_manual,
            is_remote_compaction: report.is_remote,
            table_properties: self.properties_of_compaction(report, status),
            smallest_output_key_prefix: key_prefix(report.outputs.first().map(|(_, f)| &f.smallest)),
            largest_output_key_prefix: key_prefix(report.outputs.last().map(|(_, f)| &f.largest)),
            blob_compression_type: report.blob_compression,
            blob_file_addition_infos: report
                .blob_files
                .iter()
                .map(|b| Engine::blob_addition(report.cf, b))
                .collect(),
            blob_file_garbage_infos: report
                .blob_garbage
                .iter()
                .map(|b| Engine::blob_garbage(report.cf, b))
                .collect(),
        }
    }

    /// Properties of the inputs, and of the outputs unless they were deleted.
    fn properties_of_compaction(
        &self,
        report: &CompactionReport<'_>,
        status: &Result<()>,
    ) -> BTreeMap<PathBuf, TableProperties> {
        let inputs = report.plan.input_files().map(|(level, f)| (level, f.data()));
        let outputs = report.outputs.iter().copied().filter(|_| status.is_ok());
        let path = |f: &FileMetaData| report.cf.tables.paths().table(f.path_id, f.number);
        inputs
            .chain(outputs)
            .filter_map(|(level, f)| Some((path(f), properties_of(report.cf, f, level)?)))
            .collect()
    }

    /// Reports that a requested flush of these families was scheduled.
    pub(crate) fn report_manual_flush(&self, families: &[ColumnFamilyId], flush_reason: FlushReason) {
        if self.listeners().is_empty() {
            return;
        }
        let of_family =
            |cf: Arc<ColumnFamily>| ManualFlushInfo { cf_id: cf.id, cf_name: cf.name.clone(), flush_reason };
        let families = families.iter().filter_map(|id| self.families.by_id(*id));
        let infos: Vec<_> = families.map(of_family).collect();
        self.listeners().iter().for_each(|l| l.on_manual_flush_scheduled(&infos));
    }

    /// Reports that ingested files are live.
    pub(crate) fn report_ingested(&self, info: &ExternalFileIngestionInfo) {
        self.listeners().iter().for_each(|l| l.on_external_file_ingested(info));
    }

    /// Reports, once, that the database begins to close.
    pub(crate) fn report_shutdown(&self) {
        if !self.shutdown_reported.swap(true, Ordering::AcqRel) {
            self.outlive("on_db_shutdown_begin", || {
                self.listeners().iter().for_each(|l| l.on_db_shutdown_begin());
            });
        }
    }

    /// Notifies listeners of a background error, which they may clear or replace. If a listener
    /// panics, the original error is put in force, because callers may wait for the failed work.
    pub(crate) fn ask_listeners(&self, error: &Error, reason: ErrorReason) -> Option<Error> {
        let mut answer = Some(error.clone());
        let asked = self.outlive("on_background_error", || {
            self.listeners().iter().for_each(|l| l.on_background_error(reason.for_listeners(), &mut answer));
        });
        if asked { answer } else { Some(error.clone()) }
    }

    /// Reports damage that scrubbing has found.
    pub(crate) fn report_damage_found(&self, error: &Error) {
        esker_base::info_log!(self.info_log, Error, "Scrubbing found: {error}");
        let mut answer = Some(error.clone());
        self.outlive("on_background_error", || {
            self.listeners()
                .iter()
                .for_each(|l| l.on_background_error(BackgroundErrorReason::Scrub, &mut answer));
        });
    }

    /// Whether all listeners allow an automatic recovery from an error. A listener that panics does
    /// not allow it.
    pub(crate) fn may_recover(&self, error: &Error, reason: ErrorReason) -> bool {
        let mut may = true;
        let asked = self.outlive("on_error_recovery_begin", || {
            self.listeners()
                .iter()
                .for_each(|l| l.on_error_recovery_begin(reason.for_listeners(), error, &mut may));
        });
        asked && may
    }

    /// Reports the end of an automatic recovery. `new_bg_error`: the error with which it failed.
    pub(crate) fn report_recovery_end(&self, old_bg_error: Error, new_bg_error: Option<Error>) {
        let info = BackgroundErrorRecoveryInfo { old_bg_error, new_bg_error };
        self.outlive("on_error_recovery_end", || {
            for listener in self.listeners() {
                listener.on_error_recovery_completed(&info.old_bg_error);
                listener.on_error_recovery_end(&info);
            }
        });
    }

    /// Calls `notify`, and returns false if it panics. A recovery continues in both cases.
    pub(super) fn outlive(&self, what: &str, notify: impl FnOnce()) -> bool {
        let called = contained(what, Severity::NoError, || {
            notify();
            Ok(())
        });
        if let Err(e) = &called {
            esker_base::info_log!(self.info_log, Error, "{e}");
        }
        called.is_ok()
    }

    /// Notifies listeners of stalls that began or ended since the last call.
    pub(crate) fn report_stall_changes(&self) {
        let changes = std::mem::take(&mut self.state.lock().stall_changes);
        for change in changes {
            self.listeners().iter().for_each(|l| l.on_stall_conditions_changed(&change));
        }
    }
}

impl ErrorReason {
    /// The reason in the form for listeners.
    fn for_listeners(self) -> BackgroundErrorReason {
        match self {
            ErrorReason::Flush => BackgroundErrorReason::Flush,
            ErrorReason::Compaction => BackgroundErrorReason::Compaction,
            ErrorReason::MemTable => BackgroundErrorReason::MemTable,
            ErrorReason::WalWrite => BackgroundErrorReason::WriteCallback,
        }
    }
}

/// The report of a compaction that begins.
fn nothing_done_yet<'a>(job: u64, cf: &'a ColumnFamily, plan: &'a CompactionPlan) -> CompactionReport<'a> {
    CompactionReport {
        job,
        cf,
        plan,
        outputs: Vec::new(),
        blob_files: Vec::new(),
        blob_garbage: Vec::new(),
        blob_bytes_read: 0,
        blobs_read: 0,
        iteration: CompactionIteratorStats::default(),
        subcompactions: 0,
        compression: CompressionType::None,
        blob_compression: cf.super_version.load_full().options.blob_compression_type,
        micros: 0,
        cpu_micros: 0,
        range_dels_dropped: 0,
        is_remote: false,
    }
}

/// Properties of a table that the family can open.
fn properties_of(cf: &ColumnFamily, meta: &FileMetaData, level: usize) -> Option<TableProperties> {
    let reader = cf.tables.reader(&TableFile { meta, level: Some(level) }).ok()?;
    Some(reader.properties().clone())
}

fn file_info(level: usize, file: &FileMetaData) -> CompactionFileInfo {
    CompactionFileInfo {
        level,
        file_number: file.number,
        oldest_blob_file_number: file.oldest_blob_file_number,
    }
}

/// The first 8 bytes of the user key.
fn key_prefix(internal_key: Option<&Vec<u8>>) -> Vec<u8> {
    let user_key = internal_key.map_or(&[][..], |internal_key| key::user_key(internal_key));
    user_key[..user_key.len().min(8)].to_vec()
}

/// Statistics of a compaction or one key range of it, from its inputs, entries and outputs.
fn job_stats(
    input: CompactionJobStats,
    iteration: &CompactionIteratorStats,
    output_files: u64,
    output_bytes: u64,
    micros: u64,
) -> CompactionJobStats {
    CompactionJobStats {
        elapsed_micros: micros,
        num_input_records: iteration.records_in,
        num_output_records: iteration.records_out,
        num_output_files: output_files,
        total_output_bytes: output_bytes,
        num_records_replaced: iteration.dropped_hidden,
        total_input_raw_key_bytes: iteration.key_bytes_in,
        total_input_raw_value_bytes: iteration.value_bytes_in,
        num_input_deletion_records: iteration.deletions_in,
        num_expired_deletion_records: iteration.dropped_obsolete,
        num_single_del_mismatch: iteration.single_deletion_mismatches,
        file_write_nanos: iteration.file_write_nanos,
        file_range_sync_nanos: iteration.file_range_sync_nanos,
        file_fsync_nanos: iteration.file_fsync_nanos,
        file_prepare_write_nanos: iteration.file_prepare_write_nanos,
        ..input
    }
}

fn compaction_stats(report: &CompactionReport<'_>) -> CompactionStats {
    let plan = report.plan;
    let bytes_of = |at_output: bool| -> (u64, u64) {
        let files = plan.input_files().filter(|(level, _)| (*level == plan.output_level) == at_output);
        files.fold((0, 0), |(count, bytes), (_, f)| (count + 1, bytes + f.file_size))
    };
    let (non_output_files, non_output_bytes) = bytes_of(false);
    let (output_files, output_bytes) = bytes_of(true);
    CompactionStats {
        micros: report.micros,
        cpu_micros: report.cpu_micros,
        bytes_read_non_output_levels: non_output_bytes,
        bytes_read_output_level: output_bytes,
        bytes_written: report.outputs.iter().map(|(_, f)| f.file_size).sum(),
        bytes_written_blob: report.blob_bytes_written(),
        bytes_read_blob: report.blob_bytes_read,
        num_input_files_in_non_output_levels: non_output_files,
        num_input_files_in_output_level: output_files,
        num_output_files: report.outputs.len() as u64,
        num_input_records: report.iteration.records_in,
        num_dropped_records: report.iteration.records_in.saturating_sub(report.iteration.records_out),
        num_output_records: report.iteration.records_out,
        count: 1,
        ..CompactionStats::default()
    }
}

/// Whether a compaction was cancelled on request, and did not fail.
fn is_aborted(status: &Result<()>, is_closing: bool) -> bool {
    let stopped = [SubCode::ManualCompactionPaused, SubCode::CompactionAborted];
    status.as_ref().err().is_some_and(|e| is_closing || stopped.contains(&e.subcode()))
}
