//! The output of a run: result lines, repeats, and operations per interval.
//!
//! Source of the formats: the output of RocksDB's `db_bench` (7.8.3 and 11.9), which scripts parse.

mod combined;
mod date;
mod interval;
mod stats;

pub(crate) use combined::Combined;
pub(crate) use date::{ctime, log_time};
pub(crate) use interval::IntervalReport;
pub(crate) use stats::{BenchOpKind, FinishedOperations, Stats, StatsSink};

/// Bytes of the MB that RocksDB prints.
const MB: f64 = 1_048_576.0;

#[cfg(test)]
mod tests;
