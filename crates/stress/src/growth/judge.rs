//! Judges whether amounts of work grow as they may.
//!
//! In: work at n, 2n, 4n and so on, and the page's limits. Out: for each measure the exponent that
//! fits the growth, and whether it is too much.
//!
//! The growth at each doubling of n is compared with the growth at the first. So the part of the
//! work that does not depend on n does not hide the part that does.

use super::page::{Allowed, Growth};
use super::work::{Measure, Work};

/// A growth of less than this part of the smallest size's work is noise.
const NOISE: f64 = 0.06;
/// The same for instructions. Threads that wait for each other spin: four runs of one compaction
/// differed by 17%.
const NOISE_OF_INSTRUCTIONS: f64 = 0.2;
/// Factor by which the last doubling may exceed its limit: nodes and buffers fill up in steps.
const SLACK: f64 = 1.4;
/// Growth below this part of the work does not count: it may come in one step, such as a buffer
/// that is doubled.
const PART: f64 = 0.6;

/// A measure of a cell.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) measure: Measure,
    pub(super) amounts: Vec<u64>,
    /// The exponent of the growth; `None`: there was next to none.
    pub(super) exponent: Option<f64>,
    pub(super) allowed: Growth,
    pub(super) is_too_much: bool,
}

/// One finding for each measure that counted anything.
pub(super) fn judge(allowed: &Allowed, works: &[Work]) -> Vec<Finding> {
    let Allowed::Grows { work, memory } = allowed else { return Vec::new() };
    let finding = |measure| {
        let amounts: Vec<u64> = works.iter().map(|work| work.of(measure)).collect();
        let allowed = if measure == Measure::PeakMemory { *memory } else { *work };
        judge_amounts(measure, amounts, allowed)
    };
    Measure::ALL.into_iter().filter(|&m| works.iter().any(|work| work.of(m) > 0)).map(finding).collect()
}

fn judge_amounts(measure: Measure, amounts: Vec<u64>, allowed: Growth) -> Finding {
    let values: Vec<f64> = amounts.iter().map(|&amount| amount as f64).collect();
    let (first, last) = (values[0], values[values.len() - 1]);
    let noise = if measure == Measure::Instructions { NOISE_OF_INSTRUCTIONS } else { NOISE };
    let negligible = measure.floor().max(noise * first);
    if last - first <= negligible {
        return Finding { measure, amounts, exponent: None, allowed, is_too_much: false };
    }
    let added: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let doublings = added.len() as f64 - 1.0;
    let (first_added, last_added) = (added[0].max(1.0), added[added.len() - 1]);
    let exponent = (last_added.max(1.0) / first_added).log2() / doublings;
    let is_too_much = match allowed.factor() {
        // Growth that has ended at the last doubling has a bound.
        None => last_added > negligible / 2.0,
        Some(factor) => {
            let most = factor.powf(doublings) * SLACK;
            let adds_too_much = last_added > first_added.max(negligible / 2.0) * most + negligible / 2.0;
            let whole = 1.0 + (factor.powf(doublings + 1.0) - 1.0) * PART;
            adds_too_much && last > first * whole
        }
    };
    Finding { measure, amounts, exponent: Some(exponent), allowed, is_too_much }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_too_much(amounts: [u64; 4], allowed: Growth) -> bool {
        judge_amounts(Measure::Allocations, amounts.to_vec(), allowed).is_too_much
    }

    #[test]
    fn added_cost_is_compared_not_the_whole() {
        let line = |n: u64| 10_000 + n * 100;
        let square = |n: u64| 10_000 + n * n;
        let at = |f: fn(u64) -> u64| [64, 128, 256, 512].map(f);
        assert!(!is_too_much(at(line), Growth::Linear));
        assert!(is_too_much(at(line), Growth::Constant));
        assert!(is_too_much(at(line), Growth::Logarithmic));
        assert!(is_too_much(at(square), Growth::Linear));
        assert!(is_too_much(at(square), Growth::Linearithmic));
        assert!(!is_too_much(at(square), Growth::Quadratic));
        assert!(!is_too_much(at(|n| 1000 + 100 * u64::from(n.ilog2())), Growth::Logarithmic));
        assert!(!is_too_much(at(|n| n * u64::from(n.ilog2())), Growth::Linearithmic));
        assert!(!is_too_much([1000, 1010, 1005, 1020], Growth::Constant));
        assert!(!is_too_much([5, 9, 7, 12], Growth::Constant));
        assert!(!is_too_much([1000, 3000, 3100, 3050], Growth::Constant), "it has ended");
        assert!(is_too_much([1000, 1000, 1000, 3000], Growth::Constant));
        assert!(!is_too_much([660, 650, 650, 1250], Growth::Linear), "growth in one step is allowed");
    }

    #[test]
    fn the_exponent_is_that_of_what_grows() {
        let exponent = |f: fn(u64) -> u64| {
            let amounts = [64, 128, 256, 512].map(f).to_vec();
            judge_amounts(Measure::Allocations, amounts, Growth::Linear).exponent.unwrap()
        };
        assert!((exponent(|n| 100_000 + 100 * n) - 1.0).abs() < 0.01);
        assert!((exponent(|n| 100_000 + n * n) - 2.0).abs() < 0.01);
    }
}
