//! esker-demo: works with a real database on a real disk, and checks every answer.
//!
//! In: a command line. Out: progress on standard error; on standard output a table of rates, level
//! sizes and checked facts. The first wrong answer ends the demonstration with exit code 1. The
//! directory of the database then stays for inspection.
//!
//! The demonstration is a story in parts. Each part has a module: `load`, `reads`, `scans`,
//! `range_delete` and `crash`. The module `victim` is the process that `crash` kills. The story
//! uses the features that a newcomer meets first: one family, RocksDB's default options, a filter
//! and a cache.
//!
//! This package is separate from the tools and has few dependencies, because a newcomer builds it
//! first and waits for the build. `esker demo` runs the same demonstration.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod crash;
mod failure;
mod load;
mod options;
mod place;
mod progress;
mod range_delete;
mod reads;
mod records;
mod report;
mod scans;
mod table;
mod victim;

pub use failure::DemoFailure;

use esker::internals::cache::CacheOptions;
use esker::internals::table::{BlockCache, FilterPolicy};
use esker::{Db, Options};
use failure::DemoOutcome;
use options::VictimOptions;
use place::DemoPlace;
use progress::Progress;
use records::Records;
use report::DemoReport;
use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;

/// The first argument of the program when the demonstration starts it as a victim.
pub const VICTIM: &str = "demo-victim";

/// The state that all parts of the story share.
struct Stage {
    records: Records,
    threads: usize,
    seed: u64,
    progress: Progress,
    report: DemoReport,
}

/// Runs the demonstration with `arguments`, which do not include the program's name.
/// # Errors
/// A wrong command line, a wrong answer, or an error of the database or of standard output.
pub fn run(arguments: &[OsString]) -> Result<(), DemoFailure> {
    let Some(options) = options::DemoOptions::parse(arguments)? else {
        return unless_closed(std::io::stdout().write_all(options::HELP.as_bytes()));
    };
    let place = DemoPlace::prepare(options.dir.as_deref(), options.keep)?;
    let mut stage = Stage {
        records: Records::new(options.records, options.value_size),
        threads: options.threads.unwrap_or_else(esker::internals::env::system::available_parallelism),
        seed: options.seed,
        progress: Progress::new(),
        report: DemoReport::new(),
    };
    stage.progress.say(format_args!("Database in {}", place.path().display()));
    match run_parts(&mut stage, &place, options.kills) {
        Ok(()) => {
            let printed = stage.report.print(&stage.records, place.path());
            place.leave()?;
            unless_closed(printed)
        }
        Err(failure) => {
            stage.progress.say(format_args!("The database is left in {}", place.path().display()));
            Err(failure)
        }
    }
}

/// Runs the process that the demonstration kills. `arguments` follow [`VICTIM`].
/// # Errors
/// A wrong command line, an error of the database, or a closed standard output.
pub fn run_victim(arguments: &[OsString]) -> Result<(), DemoFailure> {
    victim::run(&VictimOptions::parse(arguments)?)
}

/// The outcome of a print. An output that its reader has closed early (`esker-demo | head`) is no
/// failure.
fn unless_closed(printed: io::Result<()>) -> DemoOutcome {
    match printed {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => Ok(printed?),
    }
}

/// Runs the story, part by part.
fn run_parts(stage: &mut Stage, place: &DemoPlace, kills: u32) -> DemoOutcome {
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

/// RocksDB's defaults with a filter, a larger cache and four background jobs. Most users change
/// these first.
fn db_options() -> esker::Result<Options> {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.max_background_jobs = 4;
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    options.cf.table.block_cache =
        Some(Arc::new(BlockCache::new(&CacheOptions::with_capacity(CACHE_BYTES))?));
    Ok(options)
}
