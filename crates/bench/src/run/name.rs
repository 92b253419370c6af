//! `--benchmarks`: names, each with its repeats: `readrandom[-X3]`, `readrandom[-W1-X3]`.

use crate::output::BenchStop;

/// One entry of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NamedBenchmark {
    pub(super) name: String,
    pub(super) repeats: u32,
    /// Runs before the repeats; their results do not count.
    pub(super) warm_ups: u32,
}

/// The benchmarks of a list; empty entries are dropped.
/// # Errors
/// `Failed` naming the entry that cannot be understood.
pub(super) fn parse_list(list: &str) -> Result<Vec<NamedBenchmark>, BenchStop> {
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(parse).collect()
}

fn parse(entry: &str) -> Result<NamedBenchmark, BenchStop> {
    let wrong = || BenchStop::Failed(format!("unknown benchmark arguments '{entry}'"));
    let mut named = NamedBenchmark { name: entry.to_owned(), repeats: 1, warm_ups: 0 };
    let Some(inside) = entry.strip_suffix(']') else { return Ok(named) };
    let (name, arguments) = inside.split_once('[').ok_or_else(wrong)?;
    named.name = name.to_owned();
    for argument in arguments.split('-').filter(|a| !a.is_empty()) {
        let count = |digits: &str| digits.parse().map_err(|_| wrong());
        match argument.split_at_checked(1).ok_or_else(wrong)? {
            ("X", digits) => named.repeats = count(digits)?,
            ("W", digits) => named.warm_ups = count(digits)?,
            _ => return Err(wrong()),
        }
    }
    Ok(named)
}
