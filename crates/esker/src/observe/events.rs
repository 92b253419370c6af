//! Event lines of the LOG: `EVENT_LOG_v1 {"time_micros": …, "job": …, "event": "flush_started",
//! …}`.
//!
//! In: one [`Event`] and the time. Out: the line without its stamp, keys in RocksDB's order.
//! Source: RocksDB `logging/event_logger.h`, `db/event_helpers.cc`, `db/flush_job.cc`,
//! `db/compaction/compaction_job.cc`, `db/db_impl/db_impl_open.cc`.

use super::compaction_stats::CompactionStats;
use super::json::JsonWriter;
use super::reason::{CompactionReason, FlushReason};
use esker_base::{Error, FileNumber, SequenceNumber};
use esker_format::properties::TableProperties;
use esker_format::version_edit::BlobFileAddition;

/// Text before the object in every event line.
const PREFIX: &str = "EVENT_LOG_v1";

/// An event to print. Borrows its values.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Recovery begins to replay these WALs.
    RecoveryStarted {
        /// Number of the job.
        job: u64,
        /// Numbers of the WALs.
        wal_files: &'a [u64],
    },
    /// Recovery ended.
    RecoveryFinished {
        /// Number of the job.
        job: u64,
        /// The result.
        status: Result<(), &'a Error>,
    },
    /// A flush begins.
    FlushStarted {
        /// Number of the job.
        job: u64,
        /// Number of memtables flushed together.
        num_memtables: usize,
        /// Entries in the memtables.
        total_num_input_entries: u64,
        /// Deletions among them.
        num_deletes: u64,
        /// Bytes of keys and values.
        total_data_size: u64,
        /// Bytes of memory.
        memory_usage: u64,
        /// Range deletions.
        num_range_deletes: u64,
        /// The reason for the flush.
        flush_reason: FlushReason,
    },
    /// A flush is installed.
    FlushFinished {
        /// Number of the job.
        job: u64,
        /// RocksDB's name of the compression.
        output_compression: &'a str,
        /// Number of files in each level.
        lsm_state: &'a [u64],
        /// Number of memtables that wait for a flush.
        immutable_memtables: usize,
    },
    /// A compaction begins.
    CompactionStarted {
        /// Number of the job.
        job: u64,
        /// The family.
        cf_name: &'a str,
        /// The reason for the compaction.
        compaction_reason: CompactionReason,
        /// Level and file numbers of the inputs.
        inputs: &'a [(usize, Vec<u64>)],
        /// The compaction score of its level.
        score: f64,
        /// Bytes of the inputs.
        input_data_size: u64,
        /// The oldest snapshot; `None` if there is none.
        oldest_snapshot_seqno: Option<SequenceNumber>,
    },
    /// A compaction is installed.
    CompactionFinished {
        /// Number of the job.
        job: u64,
        /// Counts of the compaction's work.
        stats: &'a CompactionStats,
        /// The level of the outputs.
        output_level: usize,
        /// Number of key ranges it was split into.
        num_subcompactions: usize,
        /// RocksDB's name of the compression.
        output_compression: &'a str,
        /// Single deletions that met anything but exactly one put.
        num_single_delete_mismatches: u64,
        /// Single deletions that met nothing.
        num_single_delete_fallthrough: u64,
        /// Number of files in each level.
        lsm_state: &'a [u64],
    },
    /// Files changed level without being rewritten.
    TrivialMove {
        /// Number of the job.
        job: u64,
        /// The level they moved to.
        destination_level: usize,
        /// Number of files.
        files: usize,
        /// Bytes of the files.
        total_files_size: u64,
    },
    /// A table file was written, or failed to be.
    TableFileCreation(TableFileCreation<'a>),
    /// A table file was deleted, or failed to be.
    TableFileDeletion {
        /// Number of the job.
        job: u64,
        /// The file.
        file_number: FileNumber,
        /// The result.
        status: Result<(), &'a Error>,
    },
    /// A blob file was written.
    BlobFileCreation {
        /// The family.
        cf_name: &'a str,
        /// Number of the job.
        job: u64,
        /// Number of its blobs and their bytes, its checksum and the checksum's function.
        addition: &'a BlobFileAddition,
    },
    /// A blob file was deleted, or failed to be.
    BlobFileDeletion {
        /// Number of the job.
        job: u64,
        /// The file.
        file_number: FileNumber,
        /// The result.
        status: Result<(), &'a Error>,
    },
    /// Ingested files are live.
    IngestFinished {
        /// Numbers of the ingested files.
        files_ingested: &'a [u64],
        /// Number of files in each level.
        lsm_state: &'a [u64],
    },
}

/// See [`Event::TableFileCreation`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableFileCreation<'a> {
    /// The family.
    pub cf_name: &'a str,
    /// Number of the job.
    pub job: u64,
    /// The file.
    pub file_number: FileNumber,
    /// Its size in bytes.
    pub file_size: u64,
    /// The oldest sequence number in it.
    pub smallest_seqno: SequenceNumber,
    /// The newest sequence number in it.
    pub largest_seqno: SequenceNumber,
    /// Checksum of the whole file and its function's name, if one was made.
    pub file_checksum: Option<&'a (Vec<u8>, String)>,
    /// The table's properties.
    pub table_properties: &'a TableProperties,
    /// The result.
    pub status: Result<(), &'a Error>,
}

fn status_text(status: &Result<(), &Error>) -> String {
    match status {
        Ok(()) => "OK".to_owned(),
        Err(error) => error.to_string(),
    }
}

impl Event<'_> {
    /// The line, without the stamp that the LOG puts before it. `time_micros`: since the Unix
    /// epoch.
    pub fn to_line(&self, time_micros: u64) -> String {
        let mut json = JsonWriter::new();
        json.number("time_micros", time_micros);
        self.write(&mut json);
        format!("{PREFIX} {}", json.finish())
    }

    fn write(&self, json: &mut JsonWriter) {
        match self {
            Event::RecoveryStarted { job, wal_files } => {
                begin(json, *job, "recovery_started").numbers("wal_files", wal_files.iter().copied());
            }
            Event::RecoveryFinished { job, status } => {
                let event = if status.is_ok() { "recovery_finished" } else { "recovery_failed" };
                begin(json, *job, event).text("status", &status_text(status));
            }
            Event::FlushStarted { .. } => self.write_flush_started(json),
            Event::FlushFinished { job, output_compression, lsm_state, immutable_memtables } => {
                begin(json, *job, "flush_finished")
                    .text("output_compression", output_compression)
                    .numbers("lsm_state", lsm_state.iter().copied())
                    .number("immutable_memtables", *immutable_memtables as u64);
            }
            Event::CompactionStarted { .. } => self.write_compaction_started(json),
            Event::CompactionFinished { .. } => self.write_compaction_finished(json),
            Event::TrivialMove { job, destination_level, files, total_files_size } => {
                begin(json, *job, "trivial_move")
                    .number("destination_level", *destination_level as u64)
                    .number("files", *files as u64)
                    .number("total_files_size", *total_files_size);
            }
            Event::TableFileCreation(creation) => creation.write(json),
            Event::TableFileDeletion { job, file_number, status } => {
                begin(json, *job, "table_file_deletion")
                    .number("file_number", file_number.0)
                    .text("status", &status_text(status));
            }
            Event::BlobFileCreation { cf_name, job, addition } => {
                json.text("cf_name", cf_name).number("job", *job).text("event", "blob_file_creation");
                let checksum = String::from_utf8_lossy(&addition.checksum_value);
                json.number("file_number", addition.number.0)
                    .number("total_blob_count", addition.total_blob_count)
                    .number("total_blob_bytes", addition.total_blob_bytes)
                    .text("file_checksum", &checksum)
                    .text("file_checksum_func_name", &addition.checksum_method)
                    .text("status", &status_text(&Ok(())));
            }
            Event::BlobFileDeletion { job, file_number, status } => {
                begin(json, *job, "blob_file_deletion")
                    .number("file_number", file_number.0)
                    .text("status", &status_text(status));
            }
            Event::IngestFinished { files_ingested, lsm_state } => {
                json.text("event", "ingest_finished")
                    .numbers("files_ingested", files_ingested.iter().copied())
                    .numbers("lsm_state", lsm_state.iter().copied());
            }
        }
    }

    fn write_flush_started(&self, json: &mut JsonWriter) {
        let Event::FlushStarted {
            job,
            num_memtables,
            total_num_input_entries,
            num_deletes,
            total_data_size,
            memory_usage,
            num_range_deletes,
            flush_reason,
        } = self
        else {
            return;
        };
        begin(json, *job, "flush_started")
            .number("num_memtables", *num_memtables as u64)
            .number("total_num_input_entries", *total_num_input_entries)
            .number("num_deletes", *num_deletes)
            .number("total_data_size", *total_data_size)
            .number("memory_usage", *memory_usage)
            .number("num_range_deletes", *num_range_deletes)
            .text("flush_reason", flush_reason.as_str());
    }

    fn write_compaction_started(&self, json: &mut JsonWriter) {
        let Event::CompactionStarted {
            job,
            cf_name,
            compaction_reason,
            inputs,
            score,
            input_data_size,
            oldest_snapshot_seqno,
        } = self
        else {
            return;
        };
        begin(json, *job, "compaction_started")
            .text("cf_name", cf_name)
            .text("compaction_reason", compaction_reason.as_str());
        for (level, files) in *inputs {
            json.numbers(&format!("files_L{level}"), files.iter().copied());
        }
        // RocksDB prints -1 where there is no snapshot.
        let oldest = oldest_snapshot_seqno.map_or(-1, |s| i128::from(s.0));
        json.float("score", *score)
            .number("input_data_size", *input_data_size)
            .number("oldest_snapshot_seqno", oldest);
    }

    fn write_compaction_finished(&self, json: &mut JsonWriter) {
        let Event::CompactionFinished {
            job,
            stats,
            output_level,
            num_subcompactions,
            output_compression,
            num_single_delete_mismatches,
            num_single_delete_fallthrough,
            lsm_state,
        } = self
        else {
            return;
        };
        begin(json, *job, "compaction_finished")
            .number("compaction_time_micros", stats.micros)
            .number("compaction_time_cpu_micros", stats.cpu_micros)
            .number("output_level", *output_level as u64)
            .number("num_output_files", stats.num_output_files)
            .number("total_output_size", stats.bytes_written)
            .number("num_input_records", stats.num_input_records)
            .number("num_output_records", stats.num_output_records)
            .number("num_subcompactions", *num_subcompactions as u64)
            .text("output_compression", output_compression)
            .number("num_single_delete_mismatches", *num_single_delete_mismatches)
            .number("num_single_delete_fallthrough", *num_single_delete_fallthrough)
            .numbers("lsm_state", lsm_state.iter().copied());
    }
}

impl TableFileCreation<'_> {
    /// The family's name comes before the job here, and only here.
    fn write(&self, json: &mut JsonWriter) {
        let (checksum, function) = match self.file_checksum {
            Some((checksum, function)) => (hex(checksum), function.as_str()),
            None => (String::new(), "Unknown"),
        };
        json.text("cf_name", self.cf_name);
        begin(json, self.job, "table_file_creation")
            .number("file_number", self.file_number.0)
            .number("file_size", self.file_size)
            .text("file_checksum", &checksum)
            .text("file_checksum_func_name", function)
            .number("smallest_seqno", self.smallest_seqno.0)
            .number("largest_seqno", self.largest_seqno.0)
            .object("table_properties", |json| write_properties(json, self.table_properties))
            .text("status", &status_text(&self.status));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Properties in RocksDB's order. RocksDB swaps the times of the oldest and the newest key; here
/// each has its own.
fn write_properties(json: &mut JsonWriter, p: &TableProperties) {
    let average = |bytes: u64| bytes.checked_div(p.num_entries).unwrap_or(0);
    json.number("data_size", p.data_size)
        .number("index_size", p.index_size)
        .number("index_partitions", p.index_partitions)
        .number("top_level_index_size", p.top_level_index_size)
        .number("index_key_is_user_key", p.index_key_is_user_key)
        .number("index_value_is_delta_encoded", p.index_value_is_delta_encoded)
        .number("filter_size", p.filter_size)
        .number("raw_key_size", p.raw_key_size)
        .number("raw_average_key_size", average(p.raw_key_size))
        .number("raw_value_size", p.raw_value_size)
        .number("raw_average_value_size", average(p.raw_value_size))
        .number("num_data_blocks", p.num_data_blocks)
        .number("num_entries", p.num_entries)
        .number("num_filter_entries", p.num_filter_entries)
        .number("num_deletions", p.num_deletions)
        .number("num_merge_operands", p.num_merge_operands)
        .number("num_range_deletions", p.num_range_deletions)
        .number("format_version", p.format_version)
        .number("fixed_key_len", p.fixed_key_len)
        .text("filter_policy", &p.filter_policy_name)
        .text("column_family_name", &p.column_family_name)
        .number("column_family_id", p.column_family_id)
        .text("comparator", &p.comparator_name)
        .number("user_defined_timestamps_persisted", p.user_defined_timestamps_persisted)
        .text("merge_operator", &p.merge_operator_name)
        .text("prefix_extractor_name", &p.prefix_extractor_name)
        .text("property_collectors", &p.property_collectors_names)
        .text("compression", &p.compression_name)
        .text("compression_options", &p.compression_options)
        .number("creation_time", p.creation_time)
        .number("oldest_key_time", p.oldest_key_time)
        .number("newest_key_time", p.newest_key_time)
        .number("file_creation_time", p.file_creation_time)
        .number("slow_compression_estimated_data_size", p.slow_compression_estimated_data_size)
        .number("fast_compression_estimated_data_size", p.fast_compression_estimated_data_size)
        .text("db_id", &p.db_id)
        .text("db_session_id", &p.db_session_id)
        .number("orig_file_number", p.orig_file_number);
    for (name, value) in &p.readable_properties {
        json.text(&String::from_utf8_lossy(name), &String::from_utf8_lossy(value));
    }
}

fn begin<'j>(json: &'j mut JsonWriter, job: u64, event: &str) -> &'j mut JsonWriter {
    json.number("job", job).text("event", event)
}

#[cfg(test)]
mod tests;
