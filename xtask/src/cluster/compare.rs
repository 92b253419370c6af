//! Two libraries in turn under the same load: `cargo xtask cluster ENGINE --compare [PAIRS]`.
//!
//! In: an engine's figures, and a run of it on one library. Out: a line for each run, then the
//! medians of both libraries, and the median ratio of the pairs. The order changes from pair to
//! pair, so that both meet the same machine.

use super::process::ClusterProcess;
use crate::clients::Behind;
use crate::commands::Outcome;

/// The name and unit of a figure, and whether more is better.
pub(super) type Figure = (&'static str, bool);

/// The figures of an engine whose rate is called `rate`: the rate, and those of [`used`].
pub(super) const fn figures(rate: &'static str) -> [Figure; 4] {
    [(rate, true), ("s of processor", false), ("peak memory of a process, MB", false), ("MB written", false)]
}

/// Runs `pairs` pairs, and prints their figures.
pub(super) fn in_turn<const N: usize>(
    pairs: u64,
    figures: &[Figure; N],
    mut measure: impl FnMut(Behind) -> Result<[f64; N], String>,
) -> Outcome {
    const SIDES: [(Behind, &str); 2] = [(Behind::RocksDb, "RocksDB"), (Behind::Esker, "Esker")];
    let mut runs: [Vec<[f64; N]>; 2] = [Vec::new(), Vec::new()];
    for pair in 0..pairs {
        for at in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
            let (behind, name) = SIDES[at];
            let run = measure(behind)?;
            println!("{name:8} {}", line(figures, &run));
            runs[at].push(run);
        }
    }
    for (at, (name, is_more_better)) in figures.iter().enumerate() {
        let [theirs, ours] = [0, 1].map(|side| median(runs[side].iter().map(|run| run[at]).collect()));
        let ratios = runs[0].iter().zip(&runs[1]).map(|(theirs, ours)| match is_more_better {
            true => ours[at] / theirs[at],
            false => theirs[at] / ours[at],
        });
        let ratio = median(ratios.collect());
        println!("{name}: RocksDB {theirs:.2}, Esker {ours:.2}; Esker is better by {ratio:.2}");
    }
    println!("(medians; each ratio is the median of the {pairs} pairs)");
    Ok(())
}

/// A line of one run's figures.
pub(super) fn line(figures: &[Figure], run: &[f64]) -> String {
    let parts = figures.iter().zip(run).map(|((name, _), value)| format!("{value:.2} {name}"));
    parts.collect::<Vec<_>>().join(" · ")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The number of pairs behind `--compare`; five if there is none.
pub(super) fn pairs(args: &[&str]) -> Result<u64, String> {
    match args {
        [] => Ok(5),
        [number] => number.parse().map_err(|_| format!("--compare: '{number}' is no number of pairs")),
        _ => Err("--compare takes the number of pairs, and nothing else".to_owned()),
    }
}

/// Figures of the processes since they began: seconds of processor, the largest memory of one of
/// them in MB, MB that they caused to be written.
pub(super) fn used<'p>(processes: impl IntoIterator<Item = &'p ClusterProcess>) -> Result<[f64; 3], String> {
    let (mut ticks, mut memory, mut written) = (0, 0, 0);
    for process in processes {
        ticks += process.processor_time()?;
        memory = memory.max(process.peak_memory()?);
        written += process.written()?;
    }
    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    let [ticks, memory, written] = [ticks, memory, written].map(|number| number as f64);
    Ok([ticks / 100.0, memory / 1e6, written / 1e6])
}

/// The number before `unit` in a program's output.
/// # Errors
/// There is none.
pub(super) fn number_before(text: &str, unit: &str) -> Result<f64, String> {
    let before = text.rsplit_once(unit).map(|(before, _)| before.trim_end());
    let number = before.and_then(|before| before.split_whitespace().next_back()?.parse().ok());
    number.ok_or_else(|| format!("no number before '{unit}' in:\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_changes_from_pair_to_pair() {
        let mut order = Vec::new();
        in_turn(2, &[("runs", true)], |behind| {
            order.push(behind);
            Ok([1.0])
        })
        .unwrap();
        assert!(order == [Behind::RocksDb, Behind::Esker, Behind::Esker, Behind::RocksDb]);
    }

    #[test]
    fn the_last_number_before_a_unit_is_found() {
        let text = "7 records in 2.0 s: 3 records a second\n9 records in 2.0 s: 4.5 records a second\n";
        assert_eq!(number_before(text, "records a second"), Ok(4.5));
        assert!(number_before("many records a second", "records a second").is_err());
    }
}
