//! The numbers of statistics in RocksDB's releases.
//!
//! In: `statistics.txt`. Out: for each number of an older release, the newest release's number of
//! the same statistic. Clients pass numbers to two functions of `c.h`, which has no constants for
//! them.
//!
//! Invariant: each line of `statistics.txt` is a release, a kind, and a list of numbers. The list
//! has an entry for each statistic of that release, in that release's order. The entry is the
//! statistic's number in the newest release. `FIRST-LAST` stands for consecutive numbers, `x` for a
//! removed statistic.

use crate::RELEASES;

const RECORD: &str = include_str!("../statistics.txt");

/// A kind of statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatisticKind {
    /// Counters.
    Tickers,
    /// Distributions.
    Histograms,
}

impl StatisticKind {
    /// Both kinds.
    pub const ALL: [StatisticKind; 2] = [StatisticKind::Tickers, StatisticKind::Histograms];

    /// The name of the enumeration in `statistics.h`.
    pub const fn name(self) -> &'static str {
        match self {
            StatisticKind::Tickers => "Tickers",
            StatisticKind::Histograms => "Histograms",
        }
    }

    /// The function of `c.h` that takes the number.
    pub const fn function(self) -> &'static str {
        match self {
            StatisticKind::Tickers => "rocksdb_options_statistics_get_ticker_count",
            StatisticKind::Histograms => "rocksdb_options_statistics_get_histogram_data",
        }
    }
}

/// The newest release's number for each number of `release`, an index into [`RELEASES`]. `None` for
/// a removed statistic.
pub fn statistics_numbers(release: usize, kind: StatisticKind) -> Vec<Option<u32>> {
    let start = format!("{} {} ", RELEASES[release], kind.name());
    let line = RECORD.lines().find_map(|line| line.strip_prefix(start.as_str()));
    let number = |text: &str| text.parse::<u32>().expect("statistics.txt has numbers");
    let words = line.expect("statistics.txt has a line for each release and kind").split(' ');
    let numbers = words.flat_map(|word| match word.split_once('-') {
        _ if word == "x" => vec![None],
        Some((first, last)) => (number(first)..=number(last)).map(Some).collect(),
        None => vec![Some(number(word))],
    });
    numbers.collect()
}

/// Whether all numbers of `release` have the same meaning in the newest release.
pub(crate) fn has_newest_numbers(release: usize, kind: StatisticKind) -> bool {
    statistics_numbers(release, kind).into_iter().zip(0..).all(|(newest, number)| newest == Some(number))
}

/// The text of `statistics.txt`. `names` has the names of each release, by kind in the order of
/// [`StatisticKind::ALL`].
pub fn statistics_text(names: &[[Vec<String>; 2]]) -> String {
    let mut text = String::from(
        "# The statistics of RocksDB's releases, in order, as the newest release's numbers. Made\n\
         # by `cargo xtask capi-surface` from statistics.h; do not edit.\n",
    );
    let newest = names.last().expect("the list of releases is not empty");
    for (release, names) in RELEASES.iter().zip(names) {
        for (kind, (names, newest)) in StatisticKind::ALL.iter().zip(names.iter().zip(newest)) {
            let numbers = names.iter().map(|name| newest.iter().position(|newer| newer == name));
            text.push_str(&format!("{release} {} {}\n", kind.name(), runs(&numbers.collect::<Vec<_>>())));
        }
    }
    text
}

/// `numbers` as text, with consecutive numbers as `FIRST-LAST`.
fn runs(numbers: &[Option<usize>]) -> String {
    let follows = |a: &Option<usize>, b: &Option<usize>| a.is_some() && a.map(|a| a + 1) == *b;
    let word = |run: &[Option<usize>]| match (run[0], run[run.len() - 1]) {
        (Some(first), Some(last)) if first < last => format!("{first}-{last}"),
        (Some(first), _) => first.to_string(),
        (None, _) => "x".to_string(),
    };
    numbers.chunk_by(follows).map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_three_numbers_of_a_release_repeat() {
        for (release, name) in RELEASES.iter().enumerate() {
            for kind in StatisticKind::ALL {
                let mut numbers: Vec<u32> = statistics_numbers(release, kind).into_iter().flatten().collect();
                let newest = statistics_numbers(RELEASES.len() - 1, kind).len();
                assert!(numbers.iter().all(|number| (*number as usize) < newest));
                numbers.sort_unstable();
                // 8.10 counts three errors under two names each.
                let count = numbers.len();
                numbers.dedup();
                assert!(count - numbers.len() <= 3, "{name} {kind:?}");
            }
        }
        assert!(has_newest_numbers(RELEASES.len() - 1, StatisticKind::Tickers));
        assert!(!has_newest_numbers(1, StatisticKind::Tickers));
    }
}
