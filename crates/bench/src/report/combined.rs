//! Several runs of one benchmark: averages, medians, confidence intervals.

use super::{FinishedOperations, MB};

/// The 97.5th percentile of the standard normal distribution.
const Z_95: f64 = 1.959_964;

/// The throughputs of the runs so far.
#[derive(Debug, Default)]
pub(crate) struct Combined {
    operations: Vec<f64>,
    megabytes: Vec<f64>,
}

impl Combined {
    pub(crate) fn add(&mut self, done: &FinishedOperations) {
        let elapsed = done.elapsed();
        self.operations.push(done.operations.max(1) as f64 / elapsed);
        if done.bytes > 0 {
            self.megabytes.push(done.bytes as f64 / MB / elapsed);
        }
    }

    /// The line after each run but the first.
    pub(crate) fn text(&self, name: &str) -> String {
        let Some(runs) = self.runs() else { return String::new() };
        let (average, spread) = (average(&self.operations) as i64, confidence(&self.operations) as i64);
        let megabytes = self.both().map_or_else(String::new, |m| {
            format!("; {:6.1} (\u{b1} {:.1}) MB/sec", self::average(m), confidence(m))
        });
        format!("{name} [AVG {runs} runs] : {average} (\u{b1} {spread}) ops/sec{megabytes}\n")
    }

    /// The result as a confidence interval.
    pub(crate) fn interval_text(&self, name: &str) -> String {
        let Some(runs) = self.runs() else { return String::new() };
        let (center, spread) = (average(&self.operations) as i64, confidence(&self.operations) as i64);
        let megabytes = self.both().map_or_else(String::new, |m| {
            let (center, spread) = (average(m), confidence(m));
            format!("; ({:.1}, {:.1}) MB/sec", center - spread, center + spread)
        });
        format!("{name} [CI95 {runs} runs] : ({}, {}) ops/sec{megabytes}\n", center - spread, center + spread)
    }

    /// The lines after the last run.
    pub(crate) fn final_text(&self, name: &str) -> String {
        let Some(runs) = self.runs() else { return String::new() };
        let per_second = average(&self.operations);
        let millis = if per_second > 0.0 { 1000.0 / per_second } else { 0.0 };
        let spread = confidence(&self.operations) as i64;
        let (mut averages, mut medians) = (String::new(), String::new());
        if let Some(m) = self.both() {
            averages = format!("; {:6.1} (\u{b1} {:.1}) MB/sec", average(m), confidence(m));
            medians = format!("; {:6.1} MB/sec", median(m));
        }
        format!(
            "\n{name} [AVG    {runs} runs] : {} (\u{b1} {spread}) ops/sec; {millis:.3} ms/op{averages}\n\
             {name} [MEDIAN {runs} runs] : {} ops/sec{medians}\n",
            per_second as i64,
            median(&self.operations) as i64,
        )
    }

    /// The number of runs, if there are at least two.
    fn runs(&self) -> Option<usize> {
        Some(self.operations.len()).filter(|runs| *runs >= 2)
    }

    /// The megabytes per second, if every run has them.
    fn both(&self) -> Option<&[f64]> {
        Some(self.megabytes.as_slice()).filter(|m| m.len() == self.operations.len())
    }
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Half of the 95% confidence interval of the mean, for normally distributed runs.
fn confidence(values: &[f64]) -> f64 {
    let center = average(values);
    let squares: f64 = values.iter().map(|x| (x - center).powi(2)).sum();
    let deviation = (squares / (values.len() - 1) as f64).sqrt();
    Z_95 * deviation / (values.len() as f64).sqrt()
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle] + values[middle - 1]) / 2.0 }
}
