//! `esker block_cache_trace_analyzer`: counts the accesses in a trace of the block cache by caller
//! and kind of block, and the misses of simulated caches.
//!
//! In: a trace that Esker or RocksDB has written, and a file of caches to simulate. Out: sums on
//! standard output, and the file `SECONDS_ACCESSES_mrc` with miss ratios, in RocksDB's forms.
//!
//! The simulated caches are Esker's own. Their values are empty; the charge of each is the size of
//! its block. Cost: about 100 bytes for each block in each simulated cache; without `--mrc_only`
//! also for each block of the trace.

mod accesses;
mod simulated;

use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use accesses::Accesses;
use clap::Args;
use esker::trace::{BlockAccess, TraceFrame, TraceReader, new_file_trace_reader, parse_binary_header};
use esker::{Error, Result};
use simulated::Simulation;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

const MICROS_PER_SECOND: u64 = 1_000_000;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct CacheAnalyzerOptions {
    /// The trace
    #[arg(long)]
    block_cache_trace_path: PathBuf,
    /// File of caches to simulate. Lines are NAME,SHARD_BITS,GHOST_BYTES,BYTES[,BYTES…], with a
    /// cache for each BYTES. Names: lru, lru_priority, hyper_clock, each also with ghost_ before it
    #[arg(long)]
    block_cache_sim_config_path: Option<PathBuf>,
    /// Existing directory for the file of miss ratios
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
    /// Print the distribution of accesses per block, by kind of block
    #[arg(long)]
    print_access_count_stats: bool,
    /// Print the sizes of blocks, by kind of block
    #[arg(long)]
    print_block_size_stats: bool,
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

pub(crate) fn run(options: &CacheAnalyzerOptions, host: &Host) -> CommandOutcome {
    let mut simulation = check(options, host)?;
    let mut accesses = (!options.mrc_only).then(Accesses::default);
    let here = |e: Error| Failure::new(e.at(options.block_cache_trace_path.display()));
    let mut reader = new_file_trace_reader(&host.env(), &options.block_cache_trace_path)?;
    let header = reader.read()?.ok_or_else(|| here(Error::incomplete("the trace is empty")))?;
    TraceFrame::decode(&header).and_then(|header| parse_binary_header(&header)).map_err(here)?;
    let mut extent = Extent::default();
    read_all(reader.as_mut(), &mut |access| {
        extent.began_at.get_or_insert(access.timestamp);
        extent.ended_at = access.timestamp;
        extent.accesses += 1;
        simulation.access(access);
        accesses.iter_mut().for_each(|accesses| accesses.add(access));
    })
    .map_err(here)?;
    if let Some(dir) = &options.block_cache_analysis_result_dir {
        let name = format!("{}_{}_mrc", extent.seconds(), extent.accesses);
        let mut file = host.fs().new_writable_file(&dir.join(name))?;
        file.append(simulation.miss_ratios().as_bytes())?;
        file.close()?;
    }
    let mut out = BufWriter::with_capacity(64 << 10, host.output());
    writeln!(out, "Status: OK")?;
    if let Some(accesses) = &accesses {
        accesses.print(&mut out)?;
        if options.print_block_size_stats {
            accesses.print_sizes(&mut out)?;
        }
        if options.print_access_count_stats {
            accesses.print_counts(&mut out)?;
        }
    } else if options.block_cache_analysis_result_dir.is_none() {
        out.write_all(simulation.miss_ratios().as_bytes())?;
    }
    Ok(out.flush()?)
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
    ];
    if let Some((flag, _)) = prints.iter().find(|(_, given)| *given && options.mrc_only) {
        return Err(Failure::new(format_args!("--mrc_only and {flag} exclude each other")));
    }
    if let Some(dir) = &options.block_cache_analysis_result_dir
        && host.fs().children(dir).is_err()
    {
        let dir = dir.display();
        return Err(Failure::new(format_args!("--block_cache_analysis_result_dir: {dir} is no directory")));
    }
    let text = match config {
        Some(path) => crate::host::read_file(host.fs(), path)?,
        None => Vec::new(),
    };
    let ratio = options.block_cache_trace_downsample_ratio;
    let name = config.map_or_else(String::new, |path| path.display().to_string());
    Simulation::parse(&String::from_utf8_lossy(&text), &name, ratio, options.cache_sim_warmup_seconds)
}

/// Calls `visit` with each access of the trace.
/// # Errors
/// `Corruption`: a record is cut off or damaged · `IoError`.
fn read_all(reader: &mut dyn TraceReader, visit: &mut dyn FnMut(&BlockAccess<'_>)) -> Result<()> {
    while let Some(record) = reader.read()? {
        visit(&BlockAccess::decode(&TraceFrame::decode(&record)?)?);
    }
    Ok(())
}
