//! The header above the results: machine, keys, values, compression.

use crate::engine::Store;
use crate::flags::Flags;
use crate::options;
use crate::output::{BenchOutput, BenchStop};
use crate::report::ctime;
use esker::internals::env::{Clock, FileSystem, PosixFileSystem};
use std::path::Path;

/// Bytes of the MB that RocksDB prints.
const MB: f64 = 1_048_576.0;

pub(super) fn print<S: Store>(
    flags: &Flags,
    store: &S,
    clock: &dyn Clock,
    output: &BenchOutput,
) -> Result<(), BenchStop> {
    output.report(format_args!("{}", environment(clock)));
    let key_size = f64::from(flags.key_size);
    let is_fixed = flags.value_size_distribution_type.eq_ignore_ascii_case("fixed");
    let value_size =
        if is_fixed { flags.value_size } else { i32::midpoint(flags.value_size_min, flags.value_size_max) };
    let compressed = f64::from(value_size) * flags.compression_ratio;
    let (num, average) = (flags.num as f64, if is_fixed { "" } else { "avg " });
    let distribution = if is_fixed {
        String::new()
    } else {
        format!(
            "Values Distribution: {} (min: {}, max: {})\n",
            flags.value_size_distribution_type, flags.value_size_min, flags.value_size_max
        )
    };
    output.print(format_args!(
        "Keys:       {} bytes each (+ 0 bytes user-defined timestamp)\n\
         Values:     {value_size} {average}bytes each ({} bytes after compression)\n{distribution}\
         Entries:    {}\nPrefix:    {} bytes\nKeys per prefix:    {}\n\
         RawSize:    {:.1} MB (estimated)\nFileSize:   {:.1} MB (estimated)\n\
         Write rate: {} bytes/second\nRead rate: {} ops/second\n\
         Compression: {}\nCompression sampling rate: 0\nMemtablerep: {}\nPerf Level: {}\n{}\
         ------------------------------------------------\n",
        flags.key_size,
        (compressed + 0.5) as i64,
        flags.num,
        flags.prefix_size,
        flags.keys_per_prefix,
        (key_size + f64::from(value_size)) * num / MB,
        (key_size + compressed) * num / MB,
        flags.benchmark_write_rate_limit,
        flags.benchmark_read_rate_limit,
        options::compression(flags)?.property_name(),
        store.memtable_name(),
        flags.perf_level,
        warnings(),
    ))
}

/// Warns of a build that makes results worthless.
const fn warnings() -> &'static str {
    if cfg!(debug_assertions) {
        "WARNING: Assertions are enabled; benchmarks unnecessarily slow\n"
    } else {
        ""
    }
}

/// Version, date, and the machine's processor if the system names it.
fn environment(clock: &dyn Clock) -> String {
    let mut text = format!(
        "Esker:      version {}\nDate:       {}\n",
        env!("CARGO_PKG_VERSION"),
        ctime(clock.now_seconds())
    );
    let Some(cpus) = read_whole(Path::new("/proc/cpuinfo")) else { return text };
    let values = |key: &str| -> Vec<&str> {
        cpus.lines()
            .filter_map(|line| line.split_once(':'))
            .filter(|(k, _)| k.trim() == key)
            .map(|(_, value)| value.trim())
            .collect()
    };
    let (models, caches) = (values("model name"), values("cache size"));
    if let Some(model) = models.last() {
        text.push_str(&format!("CPU:        {} * {model}\n", models.len()));
    }
    if let Some(cache) = caches.last() {
        text.push_str(&format!("CPUCache:   {cache}\n"));
    }
    text
}

/// A small file as text; empty if it cannot be read.
fn read_whole(path: &Path) -> Option<String> {
    let mut file = PosixFileSystem.new_sequential_file(path).ok()?;
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return String::from_utf8(text).ok(),
            n => text.extend_from_slice(&buffer[..n]),
        }
    }
}
