//! RocksDB's `cache_bench` for Esker's caches: its flags, its work and its output.
//!
//! In: a command line. Out: throughput and the latencies of operations. Source of work and output:
//! RocksDB `cache/cache_bench_tool.cc`, and the output of 7.8.3's `cache_bench`.
//!
//! Threads look up, insert or erase keys of a skewed distribution. The random numbers are
//! RocksDB's, so the same flags mean the same load. As in RocksDB's tool, a thread keeps a handle
//! until its next operation that takes one.

mod flags;

use crate::output::{BenchOutput, BenchStop};
use crate::random::Random64;
use esker::internals::base::sync::atomic::{AtomicBool, Ordering};
use esker::internals::base::sync::epoch;
use esker::internals::cache::tier::AdmissionPolicy;
use esker::internals::cache::{Cache, CacheKey, CacheOptions, CachePriority, CacheType, Handle, Role};
use esker::internals::env::{Clock, SystemClock, on_threads, spawn_scoped};
use esker::options::secondary_cache_from_string;
use esker::stats::HistogramSnapshot;
use flags::{CacheBenchCommandLine, CacheBenchFlags};
use std::collections::VecDeque;
use std::fmt::Write;
use std::time::Duration;

type Value = Vec<u8>;

/// One percent of the range of random numbers.
const HUNDREDTH: u64 = u64::MAX / 100;
const KIB: u64 = 1 << 10;

/// Runs `cache_bench` with these arguments (without the program's name).
/// # Errors
/// `Failed` names the wrong flag, or says that the system refuses a thread; `OutputClosed` if the
/// reader has closed the stream of results.
pub fn cache_bench(arguments: &[String], output: &BenchOutput) -> Result<(), BenchStop> {
    match flags::parse(arguments).map_err(BenchStop::Failed)? {
        CacheBenchCommandLine::Help(text) => output.print(format_args!("{text}")),
        CacheBenchCommandLine::Run(flags) => {
            let bench = Bench::new(*flags)?;
            if bench.flags.populate_cache {
                bench.populate();
                output.print(format_args!("Population complete\n"))?;
            }
            output.print(format_args!("{}", bench.header()))?;
            output.print(format_args!("{}", bench.run()?))
        }
    }
}

struct Bench {
    flags: CacheBenchFlags,
    cache: Cache<Value>,
    max_key: u64,
    /// The upper limits of random numbers for each operation: lookup and insert, insert, blind
    /// insert, lookup, erase.
    thresholds: [u64; 5],
}

/// The work of one thread.
struct ThreadResult {
    latencies_nanos: HistogramSnapshot,
    hits: u64,
    misses: u64,
    /// Start and end of the thread.
    start_nanos: u64,
    end_nanos: u64,
    /// Processor time of the thread.
    cpu_nanos: u64,
}

/// The state of a thread between operations.
struct Worker {
    random: Random64,
    /// Handles of the last values, up to this thread's share.
    held: VecDeque<Handle<Value>>,
    hits: u64,
    misses: u64,
    /// A sum of the bytes read, so the compiler keeps the reads.
    sum: u64,
}

impl Bench {
    fn new(flags: CacheBenchFlags) -> Result<Bench, BenchStop> {
        let estimate =
            if flags.value_bytes_estimate == 0 { flags.value_bytes } else { flags.value_bytes_estimate };
        let estimate = if flags.cache_type == "hyper_clock_cache" { 0 } else { estimate as usize };
        let cache_type = CacheType::parse(&flags.cache_type, estimate)
            .map_err(|e| BenchStop::Failed(format!("--cache_type: {}", e.message())))?;
        let capacity = usize::try_from(flags.cache_size)
            .map_err(|_| BenchStop::Failed("--cache_size: more than this machine can address".to_owned()))?;
        let options = CacheOptions {
            cache_type,
            capacity,
            num_shard_bits: flags.num_shard_bits,
            strict_capacity_limit: flags.strict_capacity_limit,
            eviction_effort_cap: flags.eviction_effort_cap as usize,
            estimates_misses: flags.estimates_misses,
            ..CacheOptions::default()
        };
        let cache = if flags.secondary_cache_uri.is_empty() {
            Cache::new(&options)?
        } else {
            let tier = secondary_cache_from_string(&flags.secondary_cache_uri)?;
            Cache::with_secondary(
                &options,
                tier,
                |value: &Value| Some(value.as_slice()),
                AdmissionPolicy::Auto,
            )?
        };
        let max_key = (flags.cache_size as f64 / flags.resident_ratio / f64::from(flags.value_bytes)) as u64;
        let mut threshold = 0;
        let thresholds = flags.percents().map(|percent| {
            threshold += HUNDREDTH * u64::from(percent);
            threshold
        });
        Ok(Bench { flags, cache, max_key: max_key.max(1), thresholds })
    }

    fn key(&self, random: &mut Random64) -> CacheKey {
        let raw = (0..self.flags.skew).fold(random.next(), |least, _| least.min(random.next()));
        let key = ((u128::from(raw) * u128::from(self.max_key)) >> 64) as u64;
        CacheKey::new((42, key), key)
    }

    /// A value with the compression ratio of the flags; its making takes some time.
    fn value(&self, random: &mut Random64) -> Value {
        let bytes = self.flags.value_bytes as usize;
        let filled = ((bytes as f64 * self.flags.compressible_to_ratio) as usize).clamp(1, bytes);
        let mut value = Vec::with_capacity(bytes + size_of::<u64>());
        while value.len() < filled {
            value.extend_from_slice(&random.next().to_le_bytes());
        }
        value.truncate(filled);
        while value.len() < bytes {
            value.extend_from_within(..filled.min(bytes - value.len()));
        }
        value
    }

    fn insert(&self, key: CacheKey, role: Role, random: &mut Random64) -> Option<Handle<Value>> {
        let value = self.value(random);
        let charge = self.flags.value_bytes as usize;
        // A strict limit may refuse it.
        self.cache.insert(key, value, charge, CachePriority::Low, role).ok().map(|inserted| inserted.handle)
    }

    fn populate(&self) {
        let mut random = Random64::new(1);
        let mut bytes = 0;
        while bytes < 2 * self.flags.cache_size {
            let key = self.key(&mut random);
            self.insert(key, Role::Misc, &mut random);
            bytes += u64::from(self.flags.value_bytes);
        }
    }

    fn operate(&self, worker: &mut Worker, key: CacheKey, choice: u64) {
        let [lookup_insert, insert, blind_insert, lookup, _] = self.thresholds;
        if choice < lookup_insert || (blind_insert..lookup).contains(&choice) {
            if self.look_up(worker, &key) {
                worker.hits += 1;
                return;
            }
            worker.misses += 1;
            if choice < lookup_insert {
                let inserted = self.insert(key, Role::DataBlock, &mut worker.random);
                worker.held.extend(inserted);
            }
        } else if choice < insert {
            let inserted = self.insert(key, Role::IndexBlock, &mut worker.random);
            worker.held.extend(inserted);
        } else if choice < blind_insert {
            drop(self.insert(key, Role::IndexBlock, &mut worker.random));
        } else {
            self.cache.erase(&key);
        }
    }

    /// Whether the value is in the cache or in a tier below.
    #[inline]
    fn look_up(&self, worker: &mut Worker, key: &CacheKey) -> bool {
        if self.flags.guarded {
            let guard = epoch::pin();
            if let Some(value) = self.cache.lookup_under(key, &guard) {
                self.read(&value, &mut worker.sum);
                return true;
            }
        } else if let Some(value) = self.cache.lookup(key) {
            self.read(&value, &mut worker.sum);
            worker.held.push_back(value);
            return true;
        }
        self.cache.secondary().is_some() && self.promote(worker, key)
    }

    #[cold]
    fn promote(&self, worker: &mut Worker, key: &CacheKey) -> bool {
        let Some(found) = self.cache.look_below(key, true).wait() else { return false };
        let charge = self.flags.value_bytes as usize;
        let inserted =
            self.cache.insert(*key, found.bytes.to_vec(), charge, CachePriority::Low, Role::DataBlock);
        worker.held.extend(inserted.ok().map(|inserted| inserted.handle));
        true
    }

    #[inline]
    fn read(&self, value: &Value, sum: &mut u64) {
        if !self.flags.lean {
            let (words, _) = value.as_chunks::<8>();
            *sum = words.iter().fold(*sum, |sum, word| sum.rotate_left(5) ^ u64::from_le_bytes(*word));
        }
    }

    fn work(&self, thread: u32) -> ThreadResult {
        let mut worker = Worker {
            random: Random64::new(self.flags.seed + u64::from(thread)),
            held: VecDeque::new(),
            hits: 0,
            misses: 0,
            sum: 0,
        };
        let mut latencies_nanos = HistogramSnapshot::new();
        let pinned =
            self.flags.cache_size as f64 * self.flags.pinned_ratio / f64::from(self.flags.value_bytes);
        let most_held = (pinned.ceil() as u64 + u64::from(thread)) / u64::from(self.flags.threads);
        let start = SystemClock.monotonic_nanos();
        let cpu_start = thread_cpu_nanos();
        let mut left = self.flags.ops_per_thread;
        while left > 0 {
            let ops = left.min(u64::from(self.flags.ops_per_guard));
            // An outer guard around several operations makes their own guards cheap, as in the
            // engine's reads.
            let _guard = (ops > 1).then(epoch::pin);
            for _ in 0..ops {
                let key = self.key(&mut worker.random);
                let choice = worker.random.next();
                if self.flags.histograms {
                    let before = SystemClock.monotonic_nanos();
                    self.operate(&mut worker, key, choice);
                    latencies_nanos.add(SystemClock.monotonic_nanos() - before);
                } else {
                    self.operate(&mut worker, key, choice);
                }
                while worker.held.len() as u64 > most_held {
                    worker.held.pop_front();
                }
            }
            left -= ops;
        }
        std::hint::black_box(worker.sum);
        drop(worker.held);
        let end = SystemClock.monotonic_nanos();
        let (hits, misses) = (worker.hits, worker.misses);
        ThreadResult {
            latencies_nanos,
            hits,
            misses,
            start_nanos: start,
            end_nanos: end,
            cpu_nanos: thread_cpu_nanos() - cpu_start,
        }
    }

    /// Runs the threads and gives the text of the results.
    /// # Errors
    /// The system refuses a thread.
    fn run(&self) -> esker::Result<String> {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let gather = || spawn_scoped(scope, "gather", || self.gather(&is_over));
            let gatherer = self.flags.gather_stats.then(gather).transpose()?;
            let done = on_threads("cache_bench", self.flags.threads as usize, |thread| {
                self.work(u32::try_from(thread).expect("a number of a thread"))
            });
            is_over.store(true, Ordering::Relaxed);
            let gathered = gatherer.map(|gatherer| gatherer.join().expect("no thread panics"));
            let done = done?;
            // The threads' own clocks count: this thread may get no processor before they are done.
            let start = done.iter().map(|done| done.start_nanos).min().unwrap_or(0);
            let end = done.iter().map(|done| done.end_nanos).max().unwrap_or(0);
            Ok(self.report(&done, end - start, gathered))
        })
    }

    fn report(
        &self,
        done: &[ThreadResult],
        nanos: u64,
        gathered: Option<(HistogramSnapshot, String)>,
    ) -> String {
        let ops = f64::from(self.flags.threads) * self.flags.ops_per_thread as f64;
        let seconds = (nanos as f64 / 1e9).max(1e-9);
        let mut text =
            format!("Complete in {seconds:.3} s; Rough parallel ops/sec = {}\n", (ops / seconds) as u64);
        let in_threads =
            done.iter().map(|d| (d.end_nanos - d.start_nanos) as f64 / 1e9).sum::<f64>().max(1e-9);
        let mut add = |part: std::fmt::Arguments<'_>| {
            text.write_fmt(part).expect("a write to a String cannot fail");
        };
        add(format_args!("Thread ops/sec = {}\n", (ops / in_threads) as u64));
        let cpu_nanos = done.iter().map(|d| d.cpu_nanos as f64).sum::<f64>();
        add(format_args!("CPU ns/op = {:.1}\n", cpu_nanos / ops));
        let (hits, misses) = done.iter().fold((0, 0), |(h, m), d| (h + d.hits, m + d.misses));
        let ratio = 100.0 * hits as f64 / (hits + misses).max(1) as f64;
        add(format_args!("Lookup hit ratio: {ratio:.4}%\n"));
        for estimate in self.cache.miss_estimates() {
            let (bytes, ratio) = (human_bytes(estimate.capacity as u64), 100.0 * (1.0 - estimate.miss_ratio));
            add(format_args!("Estimated hit ratio with {bytes}: {ratio:.1}%\n"));
        }
        if self.flags.histograms {
            let mut all = HistogramSnapshot::new();
            done.iter().for_each(|d| all.merge(&d.latencies_nanos));
            add(format_args!("\nOperation latency (ns):\n{all}"));
        }
        if let Some((latencies, last)) = gathered {
            add(format_args!("\nGather stats latency (us):\n{latencies}\n{last}"));
        }
        text
    }

    /// Visits all entries from time to time.
    fn gather(&self, is_over: &AtomicBool) -> (HistogramSnapshot, String) {
        let mut latencies_micros = HistogramSnapshot::new();
        let mut last = String::new();
        let (pause, step) = (u64::from(self.flags.gather_stats_sleep_ms), 10);
        let mut slept = 0;
        while !is_over.load(Ordering::Relaxed) {
            if slept < pause {
                SystemClock.sleep(Duration::from_millis(step));
                slept += step;
                continue;
            }
            slept = 0;
            let before = SystemClock.monotonic_nanos();
            let (mut entries, mut charge) = (0_u64, 0_u64);
            let mut roles = [false; Role::COUNT];
            self.cache.apply_to_all(|entry| {
                entries += 1;
                charge += entry.charge as u64;
                roles[entry.role as usize] = true;
            });
            let (occupancy, size) = (self.cache.occupancy_count(), self.cache.table_address_count());
            latencies_micros.add((SystemClock.monotonic_nanos() - before) / 1000);
            last = format!(
                "Most recent cache entry stats:\nNumber of entries: {entries}\nTable occupancy: {occupancy} / {size} = \
                 {}%\nTotal charge: {}\nAverage key size: 16\nAverage charge: {}\nUnique roles: {}\n",
                100.0 * occupancy as f64 / size.max(1) as f64,
                human_bytes(charge),
                human_bytes(charge / entries.max(1)),
                roles.iter().filter(|&&seen| seen).count(),
            );
        }
        (latencies_micros, last)
    }

    fn header(&self) -> String {
        let flags = &self.flags;
        let debug = if cfg!(debug_assertions) {
            "WARNING: Assertions are enabled; benchmarks unnecessarily slow\n"
        } else {
            ""
        };
        let gather = if flags.gather_stats {
            format!("enabled ({}ms)", flags.gather_stats_sleep_ms)
        } else {
            "disabled".to_owned()
        };
        format!(
            "----------------------------\n{debug}Esker version       : {}\nCache type          : {}\n\
             Number of threads   : {}\nOps per thread      : {}\nCache size          : {}\nNum shard bits      : {}\n\
             Max key             : {}\nResident ratio      : {}\nSkew degree         : {}\nPopulate cache      : {}\n\
             Lookup+Insert pct   : {}%\nInsert percentage   : {}%\nBlind insert percent: {}%\n\
             Lookup percentage   : {}%\nErase percentage    : {}%\nGather stats        : {gather}\n----------------------------\n",
            env!("CARGO_PKG_VERSION"),
            self.cache.cache_type().name(),
            flags.threads,
            flags.ops_per_thread,
            human_bytes(flags.cache_size),
            flags.num_shard_bits,
            self.max_key,
            flags.resident_ratio,
            flags.skew,
            u8::from(flags.populate_cache),
            flags.lookup_insert_percent,
            flags.insert_percent,
            flags.blind_insert_percent,
            flags.lookup_percent,
            flags.erase_percent,
        )
    }
}

/// The thread's processor time: on a busy machine a better measure of work than elapsed time.
fn thread_cpu_nanos() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0)
}

/// A number of bytes in the form of RocksDB's `BytesToHumanString`.
fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    let mut size = bytes as f64 / KIB as f64;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.2} {}", UNITS[unit])
}
