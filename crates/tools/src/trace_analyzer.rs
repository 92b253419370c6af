//! `esker trace_analyzer`: reports about a trace of queries, as RocksDB's `trace_analyzer`.
//!
//! In: a trace that Esker or RocksDB has written. Out: sums on standard output, and the report
//! files that flags ask for, in RocksDB's forms and under its names.
//!
//! Files: `stats.rs` counts queries by kind, column family and key · `reports.rs` writes the files
//! · `summary.rs` prints the sums · `key_space.rs` reads whole key spaces.
//!
//! Cost: memory for each key that a query of an analyzed kind names, once for each kind.

mod key_space;
mod reports;
mod stats;
mod summary;

use crate::failure::{CommandOutcome, Failure};
use crate::host::{Host, Stream};
use crate::progress::LongCommand;
use crate::text::hex;
use clap::Args;
use esker::BatchOp;
use esker::internals::format::write_batch::WriteBatchView;
use esker::trace::{Query, TraceFrame, TraceKind, TraceReader, new_file_trace_reader, parse_query_header};
use esker::{Error, Result};
use key_space::KeySpaces;
use reports::Reports;
use stats::{Queries, QueryKind, QueryPairs};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct AnalyzerOptions {
    /// The trace
    #[arg(long)]
    trace_path: PathBuf,
    /// Directory for the report files, which exists
    #[arg(long)]
    output_dir: Option<PathBuf>,
    /// First part of the names of report files
    #[arg(long, default_value = "trace")]
    output_prefix: String,
    /// Write PREFIX-KIND-FAMILY-accessed_key_stats.txt: family, bytes of the value, number of the
    /// key, accesses, share of them that succeeded; and …-accessed_unique_key_num_change.txt
    #[arg(long)]
    output_key_stats: bool,
    /// Write …-accessed_key_count_distribution.txt: how many keys have so many accesses
    #[arg(long)]
    output_access_count_stats: bool,
    /// Write …-time_series.txt: kind, second, number of the key, for each access
    #[arg(long)]
    output_time_series: bool,
    /// Write …-accessed_key_prefix_cut.txt: accesses of keys that begin with the same bytes; N:
    /// number of these bytes, 0 for no file
    #[arg(long, default_value_t = 0)]
    output_prefix_cut: usize,
    /// Write PREFIX-human_readable_trace.txt: a line for each query
    #[arg(long)]
    convert_to_human_readable_trace: bool,
    /// Write PREFIX-qps_stats.txt, PREFIX-cf_qps_stats.txt and …-qps_stats.txt: queries in each
    /// second
    #[arg(long)]
    output_qps_stats: bool,
    /// Write …-accessed_key_size_distribution.txt
    #[arg(long)]
    output_key_distribution: bool,
    /// Write …-accessed_value_size_distribution.txt
    #[arg(long)]
    output_value_distribution: bool,
    /// Bytes in a class of --output_value_distribution
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    value_interval: u64,
    /// Leave keys with at most this many accesses out of the distributions
    #[arg(long, default_value_t = 0)]
    output_ignore_count: u64,
    /// Number of most accessed keys to print
    #[arg(long, default_value_t = 1)]
    print_top_k_access: usize,
    /// Print how often a kind of query follows another on one key, for pairs like
    /// [get,get][put,get], and the average time between them
    #[arg(long, value_parser = QueryPairs::parse)]
    print_correlation: Option<QueryPairs>,
    /// Directory with whole key spaces: FAMILY.txt has a line for each key, in hex. Adds
    /// …-whole_key_stats.txt to --output_key_stats, …-whole_key_prefix_cut.txt to
    /// --output_prefix_cut
    #[arg(long)]
    key_space_dir: Option<PathBuf>,
    /// Analyze gets
    #[arg(long)]
    analyze_get: bool,
    /// Analyze puts
    #[arg(long)]
    analyze_put: bool,
    /// Analyze deletions
    #[arg(long)]
    analyze_delete: bool,
    /// Analyze single deletions
    #[arg(long)]
    analyze_single_delete: bool,
    /// Analyze range deletions: begin and end count as keys
    #[arg(long)]
    analyze_range_delete: bool,
    /// Analyze merges
    #[arg(long)]
    analyze_merge: bool,
    /// Analyze seeks of iterators
    #[arg(long)]
    analyze_iterator: bool,
    /// Analyze multi-gets: each key counts
    #[arg(long)]
    analyze_multiget: bool,
    /// Leave keys out of the human-readable trace
    #[arg(long)]
    no_key: bool,
    /// Print no sums
    #[arg(long)]
    no_print: bool,
    /// Print sums of the whole trace
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    print_overall_stats: bool,
    /// Analyze one of 1/R queries of each kind; 0 < R <= 1
    #[arg(long, default_value_t = 1.0)]
    sample_ratio: f64,
    /// Analyze the records before damage, instead of failing
    #[arg(long)]
    try_process_corrupted_trace: bool,
}

type Out = BufWriter<Stream>;

/// The largest distance of a record's time from that of the trace's header. Reports have a line
/// for each second, so a forged time must not choose their length.
pub(crate) const MAX_DISTANCE_MICROS: u64 = 366 * 24 * 3600 * 1_000_000;

/// Number of records of a trace by kind.
#[derive(Default)]
struct Records {
    all: u64,
    gets: u64,
    writes: u64,
    seeks: u64,
    seeks_for_prev: u64,
    multi_gets: u64,
    /// Time of the trace's header.
    began_at: u64,
    ended_at: u64,
    /// Offset of the next record.
    offset: u64,
}

impl Records {
    fn new(began_at: u64, header_bytes: usize) -> Records {
        Records { began_at, offset: header_bytes as u64, ..Records::default() }
    }

    /// Counts a record.
    /// # Errors
    /// `Corruption` naming the offset if the record's time is no time of this trace.
    fn add(&mut self, time: u64, bytes: usize) -> Result<()> {
        if time.abs_diff(self.began_at) > MAX_DISTANCE_MICROS {
            let what = "the record's time is more than 366 days from the trace's beginning";
            return Err(Error::corruption(what).at(format_args!("offset {}", self.offset)));
        }
        self.all += 1;
        self.ended_at = time;
        self.offset += bytes as u64;
        Ok(())
    }
}

impl AnalyzerOptions {
    /// The files for the progress of the command.
    pub(crate) fn long_command(&self) -> Option<LongCommand> {
        Some(LongCommand::over("analyzing", [&self.trace_path]))
    }
}

pub(crate) fn run(options: &AnalyzerOptions, host: &Host) -> CommandOutcome {
    let sample = check(options, host)?;
    let mut reader = new_file_trace_reader(&host.env(), &options.trace_path)?;
    let here = |e: Error| Failure::new(e.at(options.trace_path.display()));
    let header = reader.read()?.ok_or_else(|| here(Error::incomplete("the trace is empty")))?;
    let frame = TraceFrame::decode(&header).map_err(here)?;
    let version = parse_query_header(&frame).map_err(here)?;
    let mut reports = Reports::new(options, host)?;
    let mut queries = Queries::new(options, sample);
    let mut records = Records::new(frame.timestamp, header.len());
    let read = read_all(reader.as_mut(), version, &mut records, &mut queries, &mut reports)?;
    if let Err(error) = read {
        let error = here(error);
        match (options.try_process_corrupted_trace, error) {
            (true, Failure::Told(why)) => writeln!(host.errors(), "Warning: {why}")?,
            (_, error) => return Err(error),
        }
    }
    let seconds = queries.seconds(records.ended_at);
    queries.number_keys();
    reports.write(&queries, seconds)?;
    let spaces = KeySpaces::read(options, host, &queries, &reports)?;
    if options.no_print {
        return Ok(());
    }
    let mut out = BufWriter::with_capacity(64 << 10, host.output());
    let printed = summary::print(options, &records, &queries, &spaces, (seconds, sample), &mut out);
    printed.and(out.flush().map_err(Failure::from))
}

/// Checks the flags; returns the number of queries of which one is analyzed.
/// # Errors
/// Flags that ask for files without a directory, a missing directory, a sample that is none.
fn check(options: &AnalyzerOptions, host: &Host) -> CommandOutcome<u64> {
    let files = [
        ("--output_key_stats", options.output_key_stats),
        ("--output_access_count_stats", options.output_access_count_stats),
        ("--output_time_series", options.output_time_series),
        ("--output_prefix_cut", options.output_prefix_cut > 0),
        ("--convert_to_human_readable_trace", options.convert_to_human_readable_trace),
        ("--output_qps_stats", options.output_qps_stats),
        ("--output_key_distribution", options.output_key_distribution),
        ("--output_value_distribution", options.output_value_distribution),
    ];
    match (&options.output_dir, files.iter().find(|(_, given)| *given)) {
        (None, Some((flag, _))) => {
            return Err(Failure::new(format_args!("{flag} needs --output_dir=<directory>")));
        }
        (Some(dir), _) if host.fs().children(dir).is_err() => {
            return Err(Failure::new(format_args!("--output_dir: {} is no directory", dir.display())));
        }
        _ => {}
    }
    if let Some(dir) = options.key_space_dir.as_ref().filter(|dir| host.fs().children(dir).is_err()) {
        return Err(Failure::new(format_args!("--key_space_dir: {} is no directory", dir.display())));
    }
    if options.output_prefix.contains('/') {
        return Err(Failure::new("--output_prefix is the first part of a name, without a slash"));
    }
    let ratio = options.sample_ratio;
    if ratio.is_nan() || ratio <= 0.0 || ratio > 1.0 {
        return Err(Failure::new(format_args!("--sample_ratio={ratio}: it must be above 0 and at most 1")));
    }
    Ok((1.0 / ratio) as u64)
}

/// Counts all records of the trace. The outer failure is one of the reports; the inner error is
/// damage, behind which no record is read. A trace without a footer, which a killed process leaves,
/// is no error.
fn read_all(
    reader: &mut dyn TraceReader,
    version: u32,
    records: &mut Records,
    queries: &mut Queries,
    reports: &mut Reports<'_>,
) -> CommandOutcome<Result<()>> {
    loop {
        let record = match reader.read() {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error)),
        };
        let query = TraceFrame::decode(&record)
            .and_then(|frame| Ok((frame, Query::decode(frame.kind, frame.payload, version)?)));
        let (frame, query) = match query {
            Ok((frame, _)) if frame.kind == TraceKind::End as u8 => return Ok(Ok(())),
            Ok(decoded) => decoded,
            Err(error) => return Ok(Err(error)),
        };
        if let Err(error) = records.add(frame.timestamp, record.len()) {
            return Ok(Err(error));
        }
        // Records of later kinds are counted only.
        let Some(query) = query else { continue };
        if let Err(error) = take(frame.timestamp, &query, records, queries, reports)? {
            return Ok(Err(error));
        }
    }
}

fn take(
    time: u64,
    query: &Query<'_>,
    records: &mut Records,
    queries: &mut Queries,
    reports: &mut Reports<'_>,
) -> CommandOutcome<Result<()>> {
    match query {
        Query::Get { family, key } => {
            records.gets += 1;
            add(time, QueryKind::Get, &[(family.0, key)], 0, queries, reports)?;
        }
        Query::IteratorSeek { family, for_prev, key, .. } => {
            let kind = if *for_prev { QueryKind::IteratorSeekForPrev } else { QueryKind::IteratorSeek };
            records.seeks += u64::from(!for_prev);
            records.seeks_for_prev += u64::from(*for_prev);
            add(time, kind, &[(family.0, key)], 0, queries, reports)?;
        }
        Query::MultiGet(keys) => {
            records.multi_gets += 1;
            let keys: Vec<_> = keys.iter().map(|(family, key)| (family.0, *key)).collect();
            add(time, QueryKind::MultiGet, &keys, 0, queries, reports)?;
        }
        Query::Write(batch) => {
            records.writes += 1;
            return take_batch(time, batch, queries, reports);
        }
    }
    Ok(Ok(()))
}

/// Counts the operations of a batch. The prepare of a transaction has none: its commit repeats
/// them.
fn take_batch(
    time: u64,
    bytes: &[u8],
    queries: &mut Queries,
    reports: &mut Reports<'_>,
) -> CommandOutcome<Result<()>> {
    let batch = match WriteBatchView::parse(bytes) {
        Ok(batch) => batch,
        Err(error) => return Ok(Err(error)),
    };
    let has = |wanted: fn(&BatchOp<'_>) -> bool| batch.iter().any(|op| wanted(&op));
    let is_prepare = has(|op| matches!(op, BatchOp::BeginPrepare(_)));
    if is_prepare && !has(|op| matches!(op, BatchOp::Commit { .. } | BatchOp::CommitWithTimestamp { .. })) {
        return Ok(Ok(()));
    }
    for op in batch.iter() {
        let (kind, family, key, value) = match op {
            BatchOp::Put { family, key, value } => (QueryKind::Put, family, key, value),
            BatchOp::TimedPut { family, key, value } => (QueryKind::Put, family, key, value.value()),
            BatchOp::PutEntity { family, key, entity } => (QueryKind::PutEntity, family, key, entity),
            BatchOp::Merge { family, key, operand } => (QueryKind::Merge, family, key, operand),
            BatchOp::Delete { family, key } => (QueryKind::Delete, family, key, &[][..]),
            BatchOp::SingleDelete { family, key } => (QueryKind::SingleDelete, family, key, &[][..]),
            BatchOp::DeleteRange { family, begin, end } => {
                add(
                    time,
                    QueryKind::RangeDelete,
                    &[(family.0, begin), (family.0, end)],
                    0,
                    queries,
                    reports,
                )?;
                continue;
            }
            _ => continue,
        };
        add(time, kind, &[(family.0, key)], value.len(), queries, reports)?;
    }
    Ok(Ok(()))
}

/// Counts a query of one or several keys.
fn add(
    time: u64,
    kind: QueryKind,
    keys: &[(u32, &[u8])],
    value_bytes: usize,
    queries: &mut Queries,
    reports: &mut Reports<'_>,
) -> CommandOutcome {
    reports.add_query(time, kind, keys, value_bytes)?;
    if queries.is_wanted(kind) {
        keys.iter().for_each(|(family, key)| queries.add(time, kind, *family, key, value_bytes));
    }
    Ok(())
}

/// A key in the reports.
fn key_text(key: &[u8]) -> String {
    format!("0x{}", hex(key))
}
