//! Medians, ratios and their spread.

use super::{TableCell, TableRow};
use crate::engines::EngineKind;
use crate::measure::Sample;

/// A median with its extremes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// The spread of `numbers`; `None` for no numbers.
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut numbers: Vec<f64> = numbers.into_iter().collect();
        numbers.sort_by(f64::total_cmp);
        let (&min, &max) = (numbers.first()?, numbers.last()?);
        let middle = numbers.len() / 2;
        let median = if numbers.len() % 2 == 1 {
            numbers[middle]
        } else {
            f64::midpoint(numbers[middle - 1], numbers[middle])
        };
        Some(Spread { median, min, max })
    }
}

impl TableCell {
    /// The spread of a figure over the samples.
    pub(crate) fn spread(&self, figure: impl Fn(&Sample) -> f64) -> Option<Spread> {
        Spread::of(self.samples.iter().map(figure))
    }
}

impl TableRow {
    /// Operations a second of an engine.
    pub(crate) fn rate(&self, kind: EngineKind) -> Option<Spread> {
        self.cell(kind)?.spread(|sample| sample.rate(self.info.counts_settling))
    }

    /// Speed of `kind` over that of `rival`: the spread of the rounds' ratios.
    pub(crate) fn ratio(&self, kind: EngineKind, rival: EngineKind) -> Option<Spread> {
        let (ours, theirs) = (self.cell(kind)?, self.cell(rival)?);
        let rate = |sample: &Sample| sample.rate(self.info.counts_settling);
        Spread::of(ours.samples.iter().zip(&theirs.samples).map(|(a, b)| rate(a) / rate(b)))
    }

    /// CPU time of an operation of `rival` over that of `kind`. It stays comparable when other work
    /// disturbs the machine.
    pub(crate) fn cpu_ratio(&self, kind: EngineKind, rival: EngineKind) -> Option<Spread> {
        let (ours, theirs) = (self.cell(kind)?, self.cell(rival)?);
        let cost = |sample: &Sample| sample.cpu_seconds.max(1e-9) / sample.operations.max(1) as f64;
        Spread::of(ours.samples.iter().zip(&theirs.samples).map(|(a, b)| cost(b) / cost(a)))
    }
}

#[cfg(test)]
mod tests;
