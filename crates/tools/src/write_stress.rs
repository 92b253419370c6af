//! `esker write_stress`: writes, iterators that hold files for long, and many small compactions, as
//! RocksDB's `write_stress`.
//!
//! In: flags. Out: a line of counts; or the first error, and exit code 1. At the end each table in
//! the directory must belong to the database: a leaked table is an error.

use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use clap::Args;
use esker::internals::base::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use esker::internals::env::on_threads;
use esker::internals::format::file_name::{FileType, parse_file_name};
use esker::{Db, DbOptions, Options, WriteOptions, destroy_db};
use fastrand::Rng;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The first bytes of each key, which change from time to time.
const PREFIX_BYTES: usize = 3;

/// The longest sleep, after which a thread looks whether it is to stop.
const NAP: Duration = Duration::from_millis(20);

#[derive(Args, Clone)]
#[command(rename_all = "snake_case")]
pub(crate) struct WriteStressOptions {
    /// Directory of the database
    #[arg(long)]
    db: PathBuf,
    /// Bytes of a key, at least 3
    #[arg(long, default_value_t = 10)]
    key_size: usize,
    /// Bytes of a value
    #[arg(long, default_value_t = 100)]
    value_size: usize,
    /// Delete an existing database in --db first
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    destroy_db: bool,
    /// Seconds to run; -1: until it is killed
    #[arg(long, default_value_t = 600, allow_negative_numbers = true)]
    runtime_sec: i64,
    /// Seed of keys and values
    #[arg(long, default_value_t = 139)]
    seed: u64,
    /// Seconds between changes of the first bytes of keys
    #[arg(long, default_value_t = 1.0)]
    prefix_mutate_period_sec: f64,
    /// Probability that the first byte changes then
    #[arg(long, default_value_t = 0.1)]
    first_char_mutate_probability: f64,
    /// Probability that the second byte changes then
    #[arg(long, default_value_t = 0.2)]
    second_char_mutate_probability: f64,
    /// Probability that the third byte changes then
    #[arg(long, default_value_t = 0.5)]
    third_char_mutate_probability: f64,
    /// Seconds for which an iterator holds its files before it reads them
    #[arg(long, default_value_t = 5)]
    iterator_hold_sec: u64,
    /// Probability that a write is synced
    #[arg(long, default_value_t = 0.01)]
    sync_probability: f64,
    /// Look for obsolete files in the directory after each flush and compaction
    #[arg(long)]
    delete_obsolete_files_with_fullscan: bool,
    /// Keep 20 files open at most
    #[arg(long)]
    low_open_files_mode: bool,
}

/// A run under way.
struct Stress<'a> {
    options: &'a WriteStressOptions,
    db: Db,
    stop: AtomicBool,
    prefix: [AtomicU8; PREFIX_BYTES],
    writes: AtomicU64,
    iterators: AtomicU64,
}

pub(crate) fn run(options: &WriteStressOptions, host: &Host) -> CommandOutcome {
    check(options)?;
    let mut all = Options { db: host.db_options(), ..Options::default() };
    if options.destroy_db {
        destroy_db(&all.db, &options.db)?;
    }
    // Small files make a deep tree, and so many flushes and compactions at a time.
    all.cf.write_buffer_size = 256 << 10;
    all.cf.max_bytes_for_level_base = 1 << 20;
    all.cf.target_file_size_base = 100 << 10;
    all.cf.max_write_buffer_number = 16;
    all.db = DbOptions { create_if_missing: true, max_background_jobs: 16, ..all.db };
    all.db.max_open_files = if options.low_open_files_mode { 20 } else { -1 };
    if options.delete_obsolete_files_with_fullscan {
        all.db.delete_obsolete_files_period_micros = 0;
    }
    let stress = Stress {
        options,
        db: Db::open(&all, &options.db)?,
        stop: AtomicBool::new(false),
        prefix: [const { AtomicU8::new(b'a') }; PREFIX_BYTES],
        writes: AtomicU64::new(0),
        iterators: AtomicU64::new(0),
    };
    let ends = on_threads("esker:stress", 4, |number| {
        let done = match number {
            0 => stress.write(),
            1 => stress.hold_iterators(),
            2 => stress.change_prefix(),
            _ => stress.wait_for_end(),
        };
        stress.stop.store(true, Ordering::Relaxed);
        done
    })?;
    ends.into_iter().collect::<esker::Result<()>>()?;
    check_tables(&stress.db, &options.db, host)?;
    stress.db.close()?;
    let (writes, iterators) = (stress.writes.into_inner(), stress.iterators.into_inner());
    Ok(writeln!(host.output(), "OK: {writes} writes, {iterators} iterators")?)
}

fn check(options: &WriteStressOptions) -> CommandOutcome {
    if options.key_size < PREFIX_BYTES {
        return Err(Failure::new(format_args!("--key_size must be at least {PREFIX_BYTES}")));
    }
    if options.runtime_sec < -1 {
        return Err(Failure::new("--runtime_sec must be a number of seconds, or -1"));
    }
    let period = options.prefix_mutate_period_sec;
    if !(0.0..=1e9).contains(&period) {
        return Err(Failure::new("--prefix_mutate_period_sec must be a number of seconds"));
    }
    let probabilities = [
        ("--first_char_mutate_probability", options.first_char_mutate_probability),
        ("--second_char_mutate_probability", options.second_char_mutate_probability),
        ("--third_char_mutate_probability", options.third_char_mutate_probability),
        ("--sync_probability", options.sync_probability),
    ];
    match probabilities.iter().find(|(_, value)| !(0.0..=1.0).contains(value)) {
        Some((flag, value)) => Err(Failure::new(format_args!("{flag}={value}: it must be from 0 to 1"))),
        None => Ok(()),
    }
}

/// Checks that no table is left over.
/// # Errors
/// A table in the directory that the database does not have.
fn check_tables(db: &Db, dir: &Path, host: &Host) -> CommandOutcome {
    db.wait_for_background_work()?;
    db.pause_background_work();
    let live: BTreeSet<String> = db.live_files().iter().map(|file| file.relative_filename.clone()).collect();
    let is_leaked =
        |name: &String| matches!(parse_file_name(name), Some((FileType::Table, _))) && !live.contains(name);
    let leaked = host.fs().children(dir)?.into_iter().find(is_leaked);
    db.continue_background_work()?;
    leaked.map_or(Ok(()), |name| {
        let what = format_args!("Found a table file in DB path that should have been deleted: {name}");
        Err(Failure::new(what))
    })
}

fn letters(random: &mut Rng, bytes: usize, out: &mut Vec<u8>) {
    out.extend((0..bytes).map(|_| random.u8(b'a'..=b'z')));
}

impl Stress<'_> {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps; less if the run ends.
    fn sleep(&self, time: Duration) {
        let clock = esker::Env::default().clock;
        let until = clock.monotonic_micros().saturating_add(time.as_micros() as u64);
        while !self.is_over() && clock.monotonic_micros() < until {
            let left = Duration::from_micros(until.saturating_sub(clock.monotonic_micros()));
            clock.sleep(left.min(NAP));
        }
    }

    fn wait_for_end(&self) -> esker::Result<()> {
        match u64::try_from(self.options.runtime_sec) {
            Ok(seconds) => self.sleep(Duration::from_secs(seconds)),
            Err(_) => {
                while !self.is_over() {
                    self.sleep(Duration::from_secs(1));
                }
            }
        }
        Ok(())
    }

    fn write(&self) -> esker::Result<()> {
        let mut random = Rng::with_seed(self.options.seed);
        let family = self.db.default_column_family();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while !self.is_over() {
            key.clear();
            value.clear();
            key.extend(self.prefix.iter().map(|byte| byte.load(Ordering::Relaxed)));
            letters(&mut random, self.options.key_size - PREFIX_BYTES, &mut key);
            letters(&mut random, self.options.value_size, &mut value);
            let sync = random.f64() < self.options.sync_probability;
            self.db.put_opt(&WriteOptions::default().sync(sync), &family, &key, &value)?;
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn hold_iterators(&self) -> esker::Result<()> {
        while !self.is_over() {
            let mut iter = self.db.iter()?;
            self.sleep(Duration::from_secs(self.options.iterator_hold_sec));
            iter.seek_to_first();
            while iter.valid() {
                iter.next();
            }
            iter.status()?;
            self.iterators.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn change_prefix(&self) -> esker::Result<()> {
        let mut random = Rng::with_seed(self.options.seed.wrapping_add(1));
        let probabilities = [
            self.options.first_char_mutate_probability,
            self.options.second_char_mutate_probability,
            self.options.third_char_mutate_probability,
        ];
        while !self.is_over() {
            self.sleep(Duration::from_secs_f64(self.options.prefix_mutate_period_sec).max(NAP));
            for (byte, probability) in self.prefix.iter().zip(probabilities) {
                if random.f64() < probability {
                    byte.store(random.u8(b'a'..=b'z'), Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }
}
