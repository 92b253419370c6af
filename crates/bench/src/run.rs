//! A run: opens the database, prints the header, and runs one benchmark after the other.
//!
//! In: flags and a store. Out: result lines; after an error, the lines so far, marked partial.

mod benchmark;
mod header;
mod name;

use crate::engine::{BenchEngine, Store};
use crate::flags::Flags;
use crate::keys::KeyMaker;
use crate::options;
use crate::output::{BenchOutput, BenchStop};
use crate::random::Random64;
use crate::report::{Combined, FinishedOperations, IntervalReport, Stats, StatsSink};
use crate::workload::{Broken, Foreground, Worker, Workload, WorkloadPlan, WorkloadShared, non_negative};
use benchmark::{Benchmark, BenchmarkKind, Meta};
use esker::internals::env::{Clock, PosixFileSystem, RateLimiter, RateLimiterMode, on_threads, spawn_scoped};
use esker::perf_context::{PerfContext, PerfLevel, set_perf_level};
use name::NamedBenchmark;
use std::path::Path;
use std::sync::{Barrier, mpsc};
use std::time::Duration;

/// The mark behind the result line of a benchmark that ended with an error.
const PARTIAL: &str = "(partial: ended by an error)";

/// Runs the benchmarks of `flags` on `store`.
/// # Errors
/// The errors of [`crate::db_bench`].
pub fn run_on<S: Store>(
    store: &S,
    flags: &Flags,
    clock: &dyn Clock,
    output: &BenchOutput,
) -> Result<(), BenchStop> {
    check(flags)?;
    options::perf_level(flags)?;
    // All names are checked before the first database is created or removed.
    let benchmarks: Vec<Benchmark> = name::parse_list(&flags.benchmarks)?
        .into_iter()
        .map(|n| Benchmark::new(flags, n))
        .collect::<Result<_, _>>()?;
    let keep = flags.use_existing_db || flags.readonly;
    let seed = if flags.seed == 0 { clock.now_micros() } else { flags.seed as u64 };
    if flags.seed == 0 {
        output.print(format_args!("Set seed to {seed} because --seed was 0\n"))?;
    }
    output.print(format_args!("Initializing RocksDB Options from command-line flags\n"))?;
    if !keep {
        store.destroy()?;
    }
    let engine = store.open()?;
    header::print(flags, store, clock, output)?;
    let mut run = Run { store, flags, clock, output, keep, seed, threads_so_far: 0, engine: Some(engine) };
    let outcome = benchmarks.iter().try_for_each(|benchmark| run.benchmark(benchmark));
    let closed = run.close();
    if flags.statistics
        && let Some(statistics) = store.statistics()
    {
        output.print(format_args!("STATISTICS:\n{statistics}\n"))?;
    }
    outcome.and(closed)
}

/// Checks the values of flags that all benchmarks use.
fn check(flags: &Flags) -> Result<(), BenchStop> {
    let wrong = |why: &str| Err(BenchStop::Failed(why.to_owned()));
    if !(0.0..=1.0).contains(&flags.compression_ratio) {
        return wrong("--compression_ratio: must be between 0 and 1");
    }
    let counts = [
        ("num", flags.num),
        ("threads", flags.threads.into()),
        ("batch_size", flags.batch_size),
        ("key_size", flags.key_size.into()),
        ("block_size", flags.block_size.into()),
        ("ops_between_duration_checks", flags.ops_between_duration_checks.into()),
    ];
    if let Some((flag, value)) = counts.into_iter().find(|(_, value)| *value < 1) {
        return wrong(&format!("--{flag}: {value} is less than 1"));
    }
    let sizes = [flags.value_size, flags.value_size_min, flags.prefix_size, flags.readahead_size];
    if sizes.into_iter().any(|size| size < 0) || flags.duration < 0 || flags.keys_per_prefix < 0 {
        return wrong("sizes and durations cannot be negative");
    }
    if flags.value_size_max < flags.value_size_min {
        return wrong("--value_size_max: is less than --value_size_min");
    }
    if flags.prefix_size > flags.key_size {
        return wrong("--prefix_size: is larger than --key_size");
    }
    if flags.seek_missing_prefix && flags.prefix_size <= 8 {
        return wrong("--seek_missing_prefix: needs a --prefix_size above 8");
    }
    match flags.value_size_distribution_type.to_ascii_lowercase().as_str() {
        "fixed" | "uniform" | "normal" => Ok(()),
        other => {
            wrong(&format!("--value_size_distribution_type: '{other}' is none of fixed, uniform, normal"))
        }
    }
}

/// The state of a run.
struct Run<'a, S: Store> {
    store: &'a S,
    flags: &'a Flags,
    clock: &'a dyn Clock,
    output: &'a BenchOutput,
    /// Whether an existing database is kept, not removed.
    keep: bool,
    seed: u64,
    /// The number of threads that earlier benchmarks started. It makes each thread's seed
    /// different.
    threads_so_far: u64,
    /// `None` only after a failed reopening.
    engine: Option<S::Engine>,
}

impl<S: Store> Run<'_, S> {
    fn benchmark(&mut self, benchmark: &Benchmark) -> Result<(), BenchStop> {
        if benchmark.fresh {
            if self.keep {
                let name = &benchmark.named.name;
                return self.output.print(format_args!("{name:<12} : skipped (--use_existing_db is true)\n"));
            }
            self.start_afresh()?;
        }
        match benchmark.what {
            BenchmarkKind::Threads(workload, threads) => {
                self.threads(&benchmark.named, &benchmark.plan, workload, threads.count(self.flags))
            }
            BenchmarkKind::Meta(meta) => self.meta(meta),
        }
    }

    fn engine(&self) -> Result<&S::Engine, BenchStop> {
        self.engine.as_ref().ok_or_else(|| BenchStop::Failed("the database is not open".to_owned()))
    }

    fn start_afresh(&mut self) -> Result<(), BenchStop> {
        self.close()?;
        self.store.destroy()?;
        self.output.print(format_args!("Initializing RocksDB Options from command-line flags\n"))?;
        self.engine = Some(self.store.open()?);
        Ok(())
    }

    fn close(&mut self) -> Result<(), BenchStop> {
        match self.engine.take() {
            Some(engine) => Ok(engine.close()?),
            None => Ok(()),
        }
    }

    /// Runs a benchmark as often as `--benchmarks` says (three times for `readrandom[-X3]`), after
    /// its warm-up runs.
    fn threads(
        &mut self,
        named: &NamedBenchmark,
        plan: &WorkloadPlan,
        workload: Workload,
        threads: usize,
    ) -> Result<(), BenchStop> {
        let (output, name) = (self.output, named.name.as_str());
        output.print(format_args!("DB path: [{}]\n", self.store.path()))?;
        if matches!(workload, Workload::MultiReadRandom | Workload::Behind(_, Foreground::MultiRead)) {
            output.report(format_args!("entries_per_batch = {}\n", plan.batch_size));
        }
        if named.warm_ups > 0 {
            output.print(format_args!("Warming up benchmark by running {} times\n", named.warm_ups))?;
        }
        for _ in 0..named.warm_ups {
            self.once(name, plan, workload, threads)?;
        }
        if named.repeats > 1 {
            output.print(format_args!("Running benchmark for {} times\n", named.repeats))?;
        }
        let mut combined = Combined::default();
        for _ in 0..named.repeats {
            combined.add(&self.once(name, plan, workload, threads)?);
            let text = if self.flags.confidence_interval_only {
                combined.interval_text(name)
            } else {
                combined.text(name)
            };
            output.print(format_args!("{text}"))?;
        }
        output.print(format_args!("{}", combined.final_text(name)))
    }

    /// Runs a benchmark once and prints its result line.
    fn once(
        &mut self,
        name: &str,
        plan: &WorkloadPlan,
        workload: Workload,
        threads: usize,
    ) -> Result<FinishedOperations, BenchStop> {
        let first_seed = self.seed.wrapping_add(self.threads_so_far + 1);
        self.threads_so_far += threads as u64;
        let engine = self.engine()?;
        let limiter =
            |per_second, mode| (per_second > 0).then(|| RateLimiter::new(per_second, 100_000, 10, mode));
        let shared = WorkloadShared::new(
            threads,
            limiter(self.flags.benchmark_write_rate_limit, RateLimiterMode::WritesOnly),
            limiter(self.flags.benchmark_read_rate_limit, RateLimiterMode::ReadsOnly),
        );
        let done = self.run_threads(engine, plan, workload, &shared, first_seed)?;
        let Some(Broken { doing, error }) = shared.into_error() else {
            self.output.print(format_args!("{}", done.text(name)))?;
            return Ok(done);
        };
        let mut done = done;
        let message = std::mem::take(&mut done.message);
        let message = message.trim_end();
        done.message = if message.is_empty() { PARTIAL.to_owned() } else { format!("{message} {PARTIAL}") };
        self.output.print(format_args!("{}", done.text(name)))?;
        Err(BenchStop::Failed(format!("{name}: {doing} error: {error}")))
    }

    /// Runs the threads, and a thread that writes `report_file` if there is such a file. Returns
    /// the sum of the threads' counts.
    fn run_threads(
        &self,
        engine: &S::Engine,
        plan: &WorkloadPlan,
        workload: Workload,
        shared: &WorkloadShared,
        first_seed: u64,
    ) -> Result<FinishedOperations, BenchStop> {
        let interval = IntervalReport::default();
        let perf_level = options::perf_level(self.flags)?;
        let seconds = non_negative(self.flags.report_interval_seconds);
        let property = |name: &str| engine.property(name);
        let sink = StatsSink {
            flags: self.flags,
            clock: self.clock,
            output: self.output,
            interval: (seconds > 0).then_some(&interval),
            stats_interval: match self.flags.stats_interval_seconds {
                // Operations between two readings of the clock.
                1.. => 1000,
                _ => non_negative(self.flags.stats_interval),
            },
            property: &property,
        };
        let file = match seconds {
            0 => None,
            _ => Some(IntervalReport::create(&PosixFileSystem, Path::new(&self.flags.report_file))?),
        };
        let (stop_report, stopped) = mpsc::channel::<()>();
        let start = Barrier::new(shared.threads);
        let work = |index: usize| {
            let random = Random64::new(first_seed.wrapping_add(index as u64));
            let keys = KeyMaker::new(self.flags, plan.key_size);
            start.wait();
            let mut worker = Worker {
                engine,
                flags: self.flags,
                plan,
                shared,
                clock: self.clock,
                output: self.output,
                index,
                seed: self.seed,
                random,
                keys,
                stats: Stats::start(&sink, index),
            };
            set_perf_level(perf_level);
            PerfContext::reset();
            worker.run(workload);
            if perf_level > PerfLevel::Disable {
                worker.stats.add_message(&perf_text(&PerfContext::current()));
            }
            worker.stats.stop()
        };
        std::thread::scope(|scope| {
            if let Some(file) = file {
                let (interval, clock, output) = (&interval, self.clock, self.output);
                spawn_scoped(scope, "report", move || {
                    interval.run(file, Duration::from_secs(seconds), clock, &stopped, output);
                })?;
            }
            let done = on_threads("benchmark", shared.threads, work);
            drop(stop_report);
            let mut all = FinishedOperations::default();
            done?.iter().for_each(|done| all.merge(done));
            Ok(all)
        })
    }

    /// Runs a step without a result line.
    fn meta(&self, meta: Meta) -> Result<(), BenchStop> {
        let (engine, path) = (self.engine()?, self.store.path());
        match meta {
            Meta::CompactAll => {
                engine.compact(false, u32::try_from(self.flags.subcompactions).unwrap_or(0))?
            }
            Meta::WaitForCompaction => {
                self.output.print(format_args!("waitforcompaction({path}): started\n"))?;
                let waited = engine.wait_for_background_work();
                let status = waited.as_ref().map_or_else(ToString::to_string, |()| "OK".to_owned());
                self.output
                    .print(format_args!("waitforcompaction({path}): finished with status ({status})\n"))?;
                waited?;
            }
            Meta::Flush => {
                engine.flush()?;
                self.output.print(format_args!("flush memtable\n"))?;
            }
            Meta::Property(name) => {
                let text = engine.property(name);
                let text = text.as_deref().unwrap_or("(failed)");
                self.output.print(format_args!("\n{text}\n"))?;
            }
            Meta::MemStats => {
                for name in MEMTABLE_PROPERTIES {
                    let text = engine.property(name);
                    let text = text.as_deref().unwrap_or("(failed)");
                    self.output.print(format_args!("{name}: {text}\n"))?;
                }
            }
        }
        Ok(())
    }
}

/// A thread's perf context in RocksDB's form, including zeros.
fn perf_text(context: &PerfContext) -> String {
    let numbers: Vec<String> = context.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    format!("PERF_CONTEXT:\n{}", numbers.join(", "))
}

const MEMTABLE_PROPERTIES: [&str; 6] = [
    "rocksdb.num-immutable-mem-table",
    "rocksdb.cur-size-active-mem-table",
    "rocksdb.cur-size-all-mem-tables",
    "rocksdb.size-all-mem-tables",
    "rocksdb.num-entries-active-mem-table",
    "rocksdb.num-entries-imm-mem-tables",
];

#[cfg(test)]
mod tests;
