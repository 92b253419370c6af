//! A compaction for another process: reads the tables of its database and changes none of its
//! files.
//!
//! In: a job, and the database, opened as a secondary. Out: tables in the worker's directory, and
//! their description.

use super::super::placement::Placement;
use super::super::subjob::{self, SubjobContext, SubjobResult};
use super::{ResumePoint, Resumption, table_name};
use crate::cf::ColumnFamily;
use crate::engine::Engine;
use crate::picker::CompactionPlan;
use crate::picker::manual::pick_exactly;
use esker_base::stats::{Ticker, record_tick};
use esker_base::sync::Arc;
use esker_base::sync::atomic::AtomicBool;
use esker_base::{Error, FileNumber, Result};
use esker_format::compaction_service::{
    CompactionServiceInput, CompactionServiceOutputFile, CompactionServiceResult, RemoteJobCounts,
    RemoteLevelCounts,
};
use esker_format::file_name::{FileType, parse_file_name};
use esker_format::properties::TableProperties;
use esker_format::version_edit::FileMetaData;
use esker_table::{TableCache, TableFile};
use std::collections::BTreeMap;

/// A job that another process has scheduled.
#[derive(Debug)]
pub(crate) struct RemoteJob<'a> {
    pub(crate) input: &'a CompactionServiceInput,
    pub(crate) cf: &'a Arc<ColumnFamily>,
    /// The open tables of the output directory.
    pub(crate) outputs: &'a TableCache,
    /// A flag that cancels the job.
    pub(crate) canceled: Arc<AtomicBool>,
}

/// Runs the job on this thread.
/// # Errors
/// `InvalidArgument`: the job names tables that the family does not have · `ShutdownInProgress`:
/// the job was cancelled · errors of the compaction. After an error the written tables are deleted,
/// apart from those that `resumption` has recorded.
pub(crate) fn run_for_another(
    engine: &Engine,
    job: &RemoteJob<'_>,
    mut resumption: Option<&mut Resumption<'_>>,
) -> Result<CompactionServiceResult> {
    let (input, cf) = (job.input, job.cf);
    let bounds = input.begin.iter().chain(&input.end);
    if bounds.into_iter().any(|key| key.len() < cf.icmp.timestamp_size()) {
        return Err(Error::invalid_argument("a bound of the job has no timestamp"));
    }
    let super_version = cf.super_version.load_full();
    let options = &super_version.options;
    let plan = {
        let state = engine.state.lock();
        let Some(family) = state.families.get(&cf.id) else {
            return Err(Error::column_family_dropped("the family of the job was dropped"));
        };
        let named = input.input_files.iter().map(|name| number_of(name)).collect::<Result<Vec<_>>>()?;
        pick_exactly(&family.version, &family.compaction_options, &named, input.output_level)?
    };
    let db_options = engine.db_options();
    let placement = Placement::of(engine, cf, options, &plan, &input.snapshots);
    let context = SubjobContext {
        engine,
        db_options: &db_options,
        job: engine.next_job_id(),
        number: 0,
        cf,
        options,
        plan: &plan,
        snapshots: &input.snapshots,
        placement: &placement,
        prepared: None,
        cancelled: &job.canceled,
        elsewhere: Some(job.outputs),
    };
    let start = engine.env.clock.monotonic_micros();
    let resumed = match resumption.as_deref_mut() {
        Some(resumption) => resume(engine, job, resumption)?,
        None => None,
    };
    let from = resumed.as_ref().map(|point| point.next.clone()).or_else(|| input.begin.clone());
    // RocksDB does not resume families with user-defined timestamps either.
    let progress = resumption.as_deref_mut().filter(|_| cf.icmp.timestamp_size() == 0);
    let mut done = subjob::run(&context, from, input.end.clone(), progress, resumed);
    let outcome = match done.result.take() {
        None => engine.sync_directories([job.outputs.paths().first()].into_iter()),
        Some(error) => Err(error),
    };
    if let Err(error) = outcome {
        let is_kept = |number: &FileNumber| resumption.as_deref().is_some_and(|kept| kept.has(*number));
        for number in done.created.into_iter().filter(|number| !is_kept(number)) {
            job.outputs.evict(number);
            let path = job.outputs.paths().table(0, number);
            if let Err(e) = engine.fs().delete_file(&path) {
                esker_base::info_log!(engine.info_log, Warn, "Could not delete an output: {e}");
            }
        }
        return Err(error);
    }
    let micros = engine.env.clock.monotonic_micros().saturating_sub(start);
    describe(job, &plan, &done, micros)
}

/// Finds the place at which the job goes on, and says in LOG what happens.
fn resume(
    engine: &Engine,
    job: &RemoteJob<'_>,
    resumption: &mut Resumption<'_>,
) -> Result<Option<ResumePoint>> {
    let bounds = (job.input.begin.as_deref(), job.input.end.as_deref());
    let point = resumption.begin(job.outputs, &job.cf.icmp, bounds, engine.env.clock.as_ref())?;
    let (log, name) = (&engine.info_log, &job.cf.name);
    if let Some(why) = resumption.refused() {
        esker_base::info_log!(log, Warn, "[{name}] The compaction begins anew: {why}");
    }
    if let Some(point) = &point {
        let (files, key) = (point.files.len(), point.next.escape_ascii());
        esker_base::info_log!(log, Info, "[{name}] Resuming the compaction after {files} files at '{key}'");
        point.files.iter().for_each(|file| engine.numbers.mark_used(file.number));
        let bytes = point.files.iter().map(|file| file.file_size).sum();
        record_tick(&engine.options.statistics, Ticker::RemoteCompactResumedBytes, bytes);
    }
    Ok(point)
}

/// The number in a table's name.
fn number_of(name: &str) -> Result<FileNumber> {
    match parse_file_name(name) {
        Some((FileType::Table, number)) => Ok(number),
        _ => Err(Error::invalid_argument(format!("the job's input '{name}' is no table"))),
    }
}

fn describe(
    job: &RemoteJob<'_>,
    plan: &CompactionPlan,
    done: &SubjobResult,
    micros: u64,
) -> Result<CompactionServiceResult> {
    let output_files = done.outputs(plan).map(|(level, meta)| {
        let file = describe_file(job.outputs, meta, level)?;
        Ok(CompactionServiceOutputFile { is_proximal_level_output: level != plan.output_level, ..file })
    });
    let output_files = output_files.collect::<Result<Vec<_>>>()?;
    let at_output_level = plan.input_files().filter(|(level, _)| *level == plan.output_level).count();
    let written = done.outputs(plan).map(|(_, f)| f.file_size).sum();
    let num_output_files = done.outputs(plan).count() as u64;
    let stats = &done.stats;
    Ok(CompactionServiceResult {
        status: Ok(()),
        output_files,
        output_level: plan.output_level,
        output_path: job.outputs.paths().first().display().to_string(),
        bytes_read: plan.input_bytes(),
        bytes_written: written,
        stats: RemoteJobCounts {
            elapsed_micros: micros,
            cpu_micros: done.cpu_micros,
            num_input_records: stats.records_in,
            num_input_files: plan.input_files().count() as u64,
            num_input_files_at_output_level: at_output_level as u64,
            num_output_records: stats.records_out,
            num_output_files,
            total_input_bytes: plan.input_bytes(),
            total_output_bytes: written,
            num_records_replaced: stats.dropped_hidden,
            total_input_raw_key_bytes: stats.key_bytes_in,
            total_input_raw_value_bytes: stats.value_bytes_in,
            num_input_deletion_records: stats.deletions_in,
            num_expired_deletion_records: stats.dropped_obsolete,
            num_single_del_mismatch: stats.single_deletion_mismatches,
        },
        has_accurate_num_input_records: true,
        is_full_compaction: plan.is_full,
        is_manual_compaction: plan.is_manual,
        // Counts of inputs stay 0: the primary has counted its inputs, and RocksDB adds these
        // counts to its own.
        level_stats: RemoteLevelCounts {
            micros,
            cpu_micros: done.cpu_micros,
            bytes_written: written,
            num_output_files,
            num_output_records: stats.records_out,
            count: 1,
            ..RemoteLevelCounts::default()
        },
    })
}

fn describe_file(
    outputs: &TableCache,
    meta: &FileMetaData,
    level: usize,
) -> Result<CompactionServiceOutputFile> {
    let reader = outputs.reader(&TableFile { meta, level: Some(level) })?;
    let (file_checksum, file_checksum_func_name) = match &meta.file_checksum {
        Some((checksum, function)) => (checksum.clone(), function.clone()),
        // RocksDB's word for none.
        None => (Vec::new(), "Unknown".to_owned()),
    };
    Ok(CompactionServiceOutputFile {
        file_name: table_name(meta.number),
        file_size: meta.file_size,
        smallest_seqno: meta.smallest_seqno,
        largest_seqno: meta.largest_seqno,
        smallest_internal_key: meta.smallest.clone(),
        largest_internal_key: meta.largest.clone(),
        oldest_ancester_time: meta.oldest_ancestor_time,
        file_creation_time: meta.file_creation_time,
        epoch_number: meta.epoch_number,
        file_checksum,
        file_checksum_func_name,
        paranoid_hash: 0,
        marked_for_compaction: meta.marked_for_compaction,
        unique_id: meta.unique_id.unwrap_or_default(),
        table_properties: properties_of(reader.properties()),
        is_proximal_level_output: false,
        file_temperature: meta.temperature,
    })
}

/// The properties that a primary of RocksDB uses, under RocksDB's names.
fn properties_of(properties: &TableProperties) -> BTreeMap<String, String> {
    let numbers = [
        ("orig_file_number", properties.orig_file_number),
        ("data_size", properties.data_size),
        ("index_size", properties.index_size),
        ("filter_size", properties.filter_size),
        ("raw_key_size", properties.raw_key_size),
        ("raw_value_size", properties.raw_value_size),
        ("num_data_blocks", properties.num_data_blocks),
        ("num_entries", properties.num_entries),
        ("num_filter_entries", properties.num_filter_entries),
        ("num_deletions", properties.num_deletions),
        ("num_merge_operands", properties.num_merge_operands),
        ("num_range_deletions", properties.num_range_deletions),
        ("format_version", properties.format_version),
        ("column_family_id", properties.column_family_id),
        ("creation_time", properties.creation_time),
        ("oldest_key_time", properties.oldest_key_time),
        ("newest_key_time", properties.newest_key_time),
        ("file_creation_time", properties.file_creation_time),
        ("tail_start_offset", properties.tail_start_offset),
        ("user_defined_timestamps_persisted", u64::from(properties.user_defined_timestamps_persisted)),
    ];
    numbers.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_of_inputs_are_names_of_tables() {
        assert_eq!(super::number_of("000012.sst").unwrap().0, 12);
        for name in ["000012.log", "../000012.sst", "", "CURRENT", "12"] {
            assert!(super::number_of(name).is_err(), "{name}");
        }
    }
}
