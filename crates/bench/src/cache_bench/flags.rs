//! `cache_bench`'s command line. One line per flag makes the field, its default, its parser and its
//! line in `--help`.
//!
//! Source of names and defaults: RocksDB 11.9 `cache/cache_bench_tool.cc`. The default `cache_type`
//! is Esker's.

use crate::flags::value::FlagValue;
use std::fmt::Write;

macro_rules! flags {
    ($( $( #[doc = $help:literal] )+ $field:ident: $ty:ty = $default:expr; )*) => {
        /// The flags of a run.
        #[derive(Clone, Debug, PartialEq)]
        pub(super) struct CacheBenchFlags {
            $( $( #[doc = $help] )+ pub(super) $field: $ty, )*
        }

        impl Default for CacheBenchFlags {
            fn default() -> CacheBenchFlags {
                CacheBenchFlags { $( $field: $default, )* }
            }
        }

        impl CacheBenchFlags {
            fn set(&mut self, name: &str, text: &str) -> Option<Result<(), String>> {
                match name {
                    $( stringify!($field) => Some(<$ty>::parse(text).map(|value| self.$field = value)), )*
                    _ => None,
                }
            }
        }

        fn is_bool(name: &str) -> bool {
            match name {
                $( stringify!($field) => matches!(<$ty as FlagValue>::KIND, crate::flags::value::FlagKind::Bool), )*
                _ => false,
            }
        }

        fn help() -> String {
            let mut text = String::from(
                "esker cache_bench: RocksDB's cache benchmark for Esker\n\nUSAGE:\nesker cache_bench [OPTIONS]...\n\nFlags:\n",
            );
            let defaults = CacheBenchFlags::default();
            $( writeln!(
                text,
                "    -{} ({}) type: {} default: {}",
                stringify!($field), concat!($($help),+).trim(), <$ty as FlagValue>::KIND.as_str(), defaults.$field
            )
            .expect("a write to a String cannot fail"); )*
            text
        }
    };
}

flags! {
    /// Number of concurrent threads to run.
    threads: u32 = 16;
    /// Number of bytes to use as a cache of uncompressed data.
    cache_size: u64 = 1 << 30;
    /// shard_bits of lru_cache; the clock caches have one table.
    num_shard_bits: i32 = -1;
    /// Ratio of keys fitting in cache to keyspace.
    resident_ratio: f64 = 0.25;
    /// Number of operations per thread.
    ops_per_thread: u64 = 2_000_000;
    /// Size of each value added.
    value_bytes: u32 = 8 << 10;
    /// Degree of skew in key selection.
    skew: u32 = 5;
    /// Keep roughly this portion of entries pinned in cache.
    pinned_ratio: f64 = 0.25;
    /// Approximate size ratio that values can be compressed to.
    compressible_to_ratio: f64 = 0.5;
    /// Full URI for creating a secondary cache: compressed_secondary_cache://… or
    /// file_secondary_cache://…
    secondary_cache_uri: String = String::new();
    /// Clock caches: held values that an insert visits for each evicted one.
    eviction_effort_cap: u32 = 30;
    /// Populate cache before operations.
    populate_cache: bool = true;
    /// Ratio of lookup (+ insert on not found) to total workload (expressed as a percentage).
    lookup_insert_percent: u32 = 82;
    /// Ratio of insert to total workload (expressed as a percentage).
    insert_percent: u32 = 2;
    /// Ratio of insert without keeping handle to total workload (expressed as a percentage).
    blind_insert_percent: u32 = 5;
    /// Ratio of lookup to total workload (expressed as a percentage).
    lookup_percent: u32 = 10;
    /// Ratio of erase to total workload (expressed as a percentage).
    erase_percent: u32 = 1;
    /// Whether to periodically visit all entries, using one more thread.
    gather_stats: bool = false;
    /// Milliseconds to sleep between two gatherings of statistics.
    gather_stats_sleep_ms: u32 = 1000;
    /// Whether to track and print histogram statistics.
    histograms: bool = true;
    /// If true, no additional computation is performed besides cache operations.
    lean: bool = false;
    /// Type of block cache: lru_cache, fixed_hyper_clock_cache, auto_hyper_clock_cache or
    /// hyper_clock_cache.
    cache_type: String = String::from("auto_hyper_clock_cache");
    /// Initial estimated entry charge of fixed_hyper_clock_cache; 0: value_bytes.
    value_bytes_estimate: u32 = 0;
    /// Whether to refuse inserts beyond the capacity.
    strict_capacity_limit: bool = false;
    /// Esker's: look up under a guard, as reads of the engine do, without a handle.
    guarded: bool = false;
    /// Esker's: estimate the hit rates of other cache sizes from a sample of the keys.
    estimates_misses: bool = false;
    /// Esker's: operations under one guard.
    ops_per_guard: u32 = 1;
    /// Seed of the keys; thread n draws with this number plus n.
    seed: u64 = 1000;
}

impl CacheBenchFlags {
    /// Percentages of the operations, in the order of `Bench::thresholds`.
    pub(super) fn percents(&self) -> [u32; 5] {
        [
            self.lookup_insert_percent,
            self.insert_percent,
            self.blind_insert_percent,
            self.lookup_percent,
            self.erase_percent,
        ]
    }
}

/// The request of a command line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CacheBenchCommandLine {
    /// A run.
    Run(Box<CacheBenchFlags>),
    /// The text of `--help`.
    Help(String),
}

/// Reads the arguments behind the program's name, in gflags' forms.
/// # Errors
/// One sentence for the first argument that is unknown, malformed or misplaced, or for a value out
/// of range.
pub(super) fn parse(arguments: &[String]) -> Result<CacheBenchCommandLine, String> {
    let mut flags = CacheBenchFlags::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let text = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'));
        let text = text.ok_or_else(|| format!("'{argument}' belongs to no flag"))?;
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let name = name.replace('-', "_");
        if matches!(name.as_str(), "help" | "helpfull" | "h") {
            return Ok(CacheBenchCommandLine::Help(help()));
        }
        let (name, value) = match (value, name.strip_prefix("no").filter(|rest| is_bool(rest))) {
            (Some(value), _) => (name.as_str(), value),
            (None, Some(rest)) => (rest, "false"),
            (None, None) if is_bool(&name) => (name.as_str(), "true"),
            (None, None) => (
                name.as_str(),
                arguments.next().ok_or_else(|| format!("--{name}: its value is missing"))?.as_str(),
            ),
        };
        let set = flags.set(name, value);
        set.ok_or_else(|| format!("--{name}: there is no such flag; `esker cache_bench --help` lists all"))?
            .map_err(|why| format!("--{name}: {why}"))?;
    }
    check(&flags)?;
    Ok(CacheBenchCommandLine::Run(Box::new(flags)))
}

fn check(flags: &CacheBenchFlags) -> Result<(), String> {
    if flags.percents().iter().map(|&p| u64::from(p)).sum::<u64>() != 100 {
        return Err("Percentages must add to 100.".to_owned());
    }
    let positive: [(&str, bool); 4] = [
        ("threads", flags.threads > 0),
        ("value_bytes", flags.value_bytes > 0),
        ("ops_per_guard", flags.ops_per_guard > 0),
        ("resident_ratio", flags.resident_ratio > 0.0),
    ];
    match positive.iter().find(|(_, ok)| !ok) {
        Some((name, _)) => Err(format!("--{name}: must be more than 0")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
