//! `esker block_cache_trace_analyzer`: counts the accesses in a trace of the block cache by caller
//! and kind of block, and the misses of simulated caches.
//!
//! In: a trace that Esker or RocksDB has written, and a file of caches to simulate. Out: sums on
//! standard output, and report files, in RocksDB's forms and under its names.
//!
//! Files: `accesses.rs` counts by block · `details.rs` prints distributions · `reports.rs` writes
//! report files into a `report_dir.rs`, with the groups and tables of `groups.rs` and the distances
//! of `distance.rs` · `simulated.rs` simulates caches · `readable.rs` has human-readable traces.
//!
//! The simulated caches are Esker's own. Their values are empty; the charge of each is the size of
//! its block. Cost: about 100 bytes for each block in each simulated cache, and for each get and
//! table in a hybrid one; without `--mrc_only` about 300 for each block of the trace. Reports of
//! distances need 8 bytes for each access, reports of correlations about 100.

mod accesses;
mod details;
mod distance;
mod groups;
mod readable;
mod report_dir;
mod reports;
mod simulated;

use crate::failure::{CommandOutcome, Failure};
use crate::host::{FileLines, Host, read_file};
use crate::progress::LongCommand;
use crate::trace_analyzer::MAX_DISTANCE_MICROS;
use accesses::{Accesses, KeptFacts, break_lines, caller_name};
use clap::Args;
use details::Ends;
use esker::trace::{BlockAccess, TraceFrame, new_file_trace_reader, parse_binary_header};
use esker::{Error, Result};
use readable::ReadableTrace;
use report_dir::ReportDir;
use reports::ReportOptions;
use simulated::{MissStats, Simulation};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

const MICROS_PER_SECOND: u64 = 1_000_000;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct CacheAnalyzerOptions {
    /// The trace
    #[arg(long)]
    block_cache_trace_path: PathBuf,
    /// The trace is one that --human_readable_trace_file_path has written
    #[arg(long)]
    is_block_cache_human_readable_trace: bool,
    /// File to write: a line for each access
    #[arg(long)]
    human_readable_trace_file_path: Option<PathBuf>,
    /// File of caches to simulate. Lines are NAME,SHARD_BITS,GHOST_BYTES,BYTES[,BYTES…], with a
    /// cache for each BYTES. Names: lru, lru_priority, lru_hybrid (also has the rows of gets),
    /// lru_hybrid_no_insert_on_row_miss, hyper_clock, each also with ghost_ before it
    #[arg(long)]
    block_cache_sim_config_path: Option<PathBuf>,
    /// Existing directory for report files
    #[arg(long)]
    block_cache_analysis_result_dir: Option<PathBuf>,
    /// The trace has one of N blocks: simulated caches have an Nth of their size
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    block_cache_trace_downsample_ratio: u64,
    /// Seconds at the beginning of the trace whose accesses fill the caches and do not count
    #[arg(long, default_value_t = 0)]
    cache_sim_warmup_seconds: u64,
    /// Only simulate caches
    #[arg(long)]
    mrc_only: bool,
    /// Print the distribution of accesses per block, by kind of block and column family
    #[arg(long)]
    print_access_count_stats: bool,
    /// Also print the N lowest numbers of accesses to a data block
    #[arg(long, default_value_t = 0)]
    analyze_bottom_k_access_count_blocks: usize,
    /// Also print the data blocks with the N highest numbers of accesses
    #[arg(long, default_value_t = 0)]
    analyze_top_k_access_count_blocks: usize,
    /// Print the sizes of blocks, by kind of block and column family
    #[arg(long)]
    print_block_size_stats: bool,
    /// Print the keys that gets and multi-gets look for in data blocks
    #[arg(long)]
    print_data_block_access_count_stats: bool,
    #[command(flatten)]
    reports: ReportOptions,
}

impl CacheAnalyzerOptions {
    fn kept(&self) -> KeptFacts {
        let kept = self.reports.kept();
        let prints_keys =
            self.print_data_block_access_count_stats || self.analyze_top_k_access_count_blocks > 0;
        KeptFacts {
            keys: kept.keys || prints_keys,
            get_keys: kept.get_keys || self.human_readable_trace_file_path.is_some(),
            ..kept
        }
    }
}

/// First and last time of a trace, and its number of accesses.
#[derive(Default)]
struct Extent {
    began_at: Option<u64>,
    ended_at: u64,
    accesses: u64,
}

impl Extent {
    fn seconds(&self) -> u64 {
        let second = |micros: u64| micros / MICROS_PER_SECOND;
        self.began_at.map_or(0, |began_at| second(self.ended_at).saturating_sub(second(began_at)))
    }
}

/// All that is known about a trace.
struct Analysis {
    extent: Extent,
    /// `None` with `--mrc_only`.
    accesses: Option<Accesses>,
    simulation: Simulation,
    /// The misses of the traced cache, and those by caller.
    misses: MissStats,
    caller_misses: BTreeMap<u8, MissStats>,
    readable: Option<ReadableTrace>,
}

impl Analysis {
    fn add(&mut self, access: &BlockAccess<'_>) -> Result<()> {
        self.extent.began_at.get_or_insert(access.timestamp);
        self.extent.ended_at = access.timestamp;
        self.extent.accesses += 1;
        let (time, is_miss) = (access.timestamp, !access.is_cache_hit);
        self.misses.add(time, is_miss);
        self.caller_misses.entry(access.caller).or_default().add(time, is_miss);
        self.simulation.access(access);
        let Some(accesses) = &mut self.accesses else { return Ok(()) };
        let numbers = accesses.add(access);
        self.readable.iter_mut().try_for_each(|readable| readable.add(access, numbers))
    }
}

impl CacheAnalyzerOptions {
    /// The files for the progress of the command.
    pub(crate) fn long_command(&self) -> Option<LongCommand> {
        Some(LongCommand::over("analyzing", [&self.block_cache_trace_path]))
    }
}

pub(crate) fn run(options: &CacheAnalyzerOptions, host: &Host) -> CommandOutcome {
    let simulation = check(options, host)?;
    let mut analysis = Analysis {
        extent: Extent::default(),
        accesses: (!options.mrc_only).then(|| Accesses::new(options.kept())),
        simulation,
        misses: MissStats::default(),
        caller_misses: BTreeMap::new(),
        readable: None,
    };
    read_all(options, host, &mut analysis)?;
    options.reports.check_windows(&analysis.extent)?;
    analysis.readable.take().map_or(Ok(()), ReadableTrace::close)?;
    if let Some(dir) = &options.block_cache_analysis_result_dir {
        write_files(options, &analysis, ReportDir { fs: host.fs(), path: dir })?;
    }
    let mut out = BufWriter::with_capacity(64 << 10, host.output());
    print(options, &analysis, &mut out)?;
    Ok(out.flush()?)
}

fn write_files(options: &CacheAnalyzerOptions, analysis: &Analysis, dir: ReportDir<'_>) -> CommandOutcome {
    let Analysis { extent, simulation, .. } = analysis;
    if simulation.has_caches() {
        dir.text(&format!("{}_{}_mrc", extent.seconds(), extent.accesses), &simulation.miss_ratios())?;
        simulation.timelines(&analysis.misses, dir)?;
    }
    match &analysis.accesses {
        Some(accesses) => options.reports.write(accesses, extent, dir),
        None => Ok(()),
    }
}

fn print(options: &CacheAnalyzerOptions, analysis: &Analysis, out: &mut dyn Write) -> CommandOutcome {
    writeln!(out, "Status: OK")?;
    let Some(accesses) = &analysis.accesses else {
        if options.block_cache_analysis_result_dir.is_none() {
            out.write_all(analysis.simulation.miss_ratios().as_bytes())?;
        }
        return Ok(());
    };
    let (seconds, ratio) = (analysis.extent.seconds(), analysis.misses.ratio());
    writeln!(out, "Trace duration {seconds} seconds. Observed miss ratio {ratio:.2}")?;
    for (caller, misses) in &analysis.caller_misses {
        writeln!(out, "Caller {}: Observed miss ratio {:.2}", caller_name(*caller), misses.ratio())?;
    }
    accesses.print(out)?;
    if options.print_access_count_stats {
        let ends = Ends {
            bottom: options.analyze_bottom_k_access_count_blocks,
            top: options.analyze_top_k_access_count_blocks,
        };
        for only_users in [false, true] {
            break_lines(3, out)?;
            details::print_counts(accesses, only_users, ends, out)?;
        }
    }
    if options.print_block_size_stats {
        break_lines(3, out)?;
        details::print_sizes(accesses, out)?;
    }
    if options.print_data_block_access_count_stats {
        break_lines(3, out)?;
        details::print_data_blocks(accesses, out)?;
    }
    Ok(())
}

/// Checks the flags, and makes the caches to simulate.
/// # Errors
/// Flags that contradict each other, a missing directory, a line of the file that is no cache.
fn check(options: &CacheAnalyzerOptions, host: &Host) -> CommandOutcome<Simulation> {
    let config = options.block_cache_sim_config_path.as_deref();
    if options.mrc_only && config.is_none() {
        return Err(Failure::new("--mrc_only needs --block_cache_sim_config_path: caches to simulate"));
    }
    let prints = [
        ("--print_access_count_stats", options.print_access_count_stats),
        ("--print_block_size_stats", options.print_block_size_stats),
        ("--print_data_block_access_count_stats", options.print_data_block_access_count_stats),
        ("--human_readable_trace_file_path", options.human_readable_trace_file_path.is_some()),
        (options.reports.file_flag().unwrap_or(""), options.reports.file_flag().is_some()),
    ];
    if let Some((flag, _)) = prints.iter().find(|(_, given)| *given && options.mrc_only) {
        return Err(Failure::new(format_args!("--mrc_only and {flag} exclude each other")));
    }
    let ends = options.analyze_bottom_k_access_count_blocks.max(options.analyze_top_k_access_count_blocks);
    if ends > 0 && !options.print_access_count_stats {
        let flags = "--analyze_bottom_k_access_count_blocks and --analyze_top_k_access_count_blocks";
        return Err(Failure::new(format_args!("{flags} need --print_access_count_stats")));
    }
    options.reports.check()?;
    if let (Some(flag), None) = (options.reports.file_flag(), &options.block_cache_analysis_result_dir) {
        let dir = "--block_cache_analysis_result_dir=<directory>";
        return Err(Failure::new(format_args!("{flag} needs {dir}")));
    }
    if let Some(dir) = &options.block_cache_analysis_result_dir
        && host.fs().children(dir).is_err()
    {
        let dir = dir.display();
        return Err(Failure::new(format_args!("--block_cache_analysis_result_dir: {dir} is no directory")));
    }
    let text = match config {
        Some(path) => read_file(host.fs(), path)?,
        None => Vec::new(),
    };
    let ratio = options.block_cache_trace_downsample_ratio;
    let name = config.map_or_else(String::new, |path| path.display().to_string());
    Simulation::parse(&String::from_utf8_lossy(&text), &name, ratio, options.cache_sim_warmup_seconds)
}

/// Adds each access of the trace. Makes the human-readable trace behind the header's check.
/// # Errors
/// A record is cut off or damaged, or has a time far from the header's · a file that cannot be read
/// or made.
fn read_all(options: &CacheAnalyzerOptions, host: &Host, analysis: &mut Analysis) -> CommandOutcome {
    let here = |e: Error| Failure::new(e.at(options.block_cache_trace_path.display()));
    let open_readable = || {
        let path = options.human_readable_trace_file_path.as_ref();
        path.map(|path| host.fs().new_writable_file(path).map(ReadableTrace::new)).transpose()
    };
    if options.is_block_cache_human_readable_trace {
        let mut lines = FileLines::open(host.fs(), &options.block_cache_trace_path)?;
        analysis.readable = open_readable()?;
        while let Some((number, line)) = lines.next_line()? {
            let read = readable::read_line(&line, &mut |access| {
                check_time(access.timestamp, analysis.extent.began_at.unwrap_or(access.timestamp))?;
                analysis.add(access)
            });
            read.map_err(|e| here(e.at(format_args!("line {number}"))))?;
        }
        return Ok(());
    }
    let mut reader = new_file_trace_reader(&host.env(), &options.block_cache_trace_path)?;
    let header = reader.read()?.ok_or_else(|| here(Error::incomplete("the trace is empty")))?;
    let frame = TraceFrame::decode(&header).map_err(here)?;
    parse_binary_header(&frame).map_err(here)?;
    let (began_at, mut offset) = (frame.timestamp, header.len());
    analysis.readable = open_readable()?;
    while let Some(record) = reader.read().map_err(here)? {
        let access = TraceFrame::decode(&record).and_then(|frame| {
            check_time(frame.timestamp, began_at).map_err(|e| e.at(format_args!("offset {offset}")))?;
            Ok(frame)
        });
        let access = access.and_then(|frame| analysis.add(&BlockAccess::decode(&frame)?));
        access.map_err(here)?;
        offset += record.len();
    }
    Ok(())
}

/// Timelines have a column for each second, so a forged time must not choose their length.
fn check_time(time: u64, began_at: u64) -> Result<()> {
    if time.abs_diff(began_at) > MAX_DISTANCE_MICROS {
        return Err(Error::corruption("the record's time is more than 366 days from the trace's beginning"));
    }
    Ok(())
}
