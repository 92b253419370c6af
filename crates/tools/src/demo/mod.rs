//! `esker demo`: a real database on a real disk, and every answer checked.
//!
//! In: how many records, where. Out: progress on standard error; on standard output a table of
//! rates, level sizes and what was verified. The first wrong answer ends the demonstration with
//! exit code 1, and the directory stays to be looked at.
//!
//! The story, a module each: `load`, `reads`, `scans`, `range_delete`, `crash` (with `victim`, the
//! process that is killed).

mod crash;
mod load;
mod place;
mod progress;
mod range_delete;
mod reads;
mod records;
mod report;
mod scans;
mod victim;

pub(crate) use victim::{VictimOptions, run as run_victim};

use crate::failure::Outcome;
use clap::Args;
use esker::internals::cache::CacheOptions;
use esker::internals::table::{BlockCache, FilterPolicy};
use esker::{Db, Options};
use place::Place;
use progress::Progress;
use records::Records;
use report::Report;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args)]
pub(crate) struct DemoOptions {
    /// Directory for the database; it must not hold one, and stays. Default: a temporary one,
    /// removed at the end
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Records to load
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000))]
    records: u64,
    /// Bytes in each value
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(8..=1_048_576))]
    value_size: u32,
    /// Threads that read. Default: as many as the machine runs at once
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Times that a writing process is killed
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=100))]
    kills: u32,
    /// Seed of the random choices
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Keep the temporary directory
    #[arg(long)]
    keep: bool,
}

/// What each part of the story is given.
struct Stage {
    records: Records,
    threads: usize,
    seed: u64,
    progress: Progress,
    report: Report,
}

pub(crate) fn run(options: &DemoOptions) -> Outcome {
    let place = Place::prepare(options.dir.as_deref(), options.keep)?;
    let mut stage = Stage {
        records: Records::new(options.records, options.value_size as usize),
        threads: options
            .threads
            .map_or_else(esker::internals::env::system::available_parallelism, usize::from),
        seed: options.seed,
        progress: Progress::new(),
        report: Report::new(),
    };
    stage.progress.say(format_args!("Database in {}", place.path().display()));
    let told = tell(&mut stage, &place, options.kills);
    match told {
        Ok(()) => {
            stage.report.print(&stage.records, place.path())?;
            place.leave()
        }
        Err(failure) => {
            stage.progress.say(format_args!("The database is left in {}", place.path().display()));
            Err(failure)
        }
    }
}

fn tell(stage: &mut Stage, place: &Place, kills: u32) -> Outcome {
    let db = Db::open(&db_options()?, place.path())?;
    load::run(stage, &db)?;
    reads::point(stage, &db)?;
    reads::batched(stage, &db)?;
    scans::forward(stage, &db)?;
    scans::backward(stage, &db)?;
    let left = range_delete::run(stage, &db)?;
    db.close()?;
    drop(db);
    let survivors = crash::run(stage, place.path(), kills)?;
    let db = Db::open(&db_options()?, place.path())?;
    scans::everything(stage, &db, left + survivors)?;
    db.wait_for_background_work()?;
    stage.report.levels(&db);
    db.close()?;
    Ok(())
}

/// Bytes of block cache.
const CACHE_BYTES: usize = 256 << 20;

/// RocksDB's defaults, and what its users turn on first: a filter, a larger cache, a job for each
/// core and more.
fn db_options() -> esker::Result<Options> {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.max_background_jobs = 4;
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    options.cf.table.block_cache =
        Some(Arc::new(BlockCache::new(&CacheOptions::with_capacity(CACHE_BYTES))?));
    Ok(options)
}
