//! Series of values over time in bounded memory.
//!
//! In: values in the order of a LOG. Out: points, or sums by time. A full series halves its
//! resolution, so that the memory does not grow with the LOG.
//!
//! Invariants
//!  1. A [`Thinned`] keeps at most `MOST_POINTS` points, the newest among them.
//!  2. A [`Sums`] keeps at most `MOST_BUCKETS` buckets, and no value is lost: the buckets together
//!     hold the sum of all values.

use std::collections::BTreeMap;
use std::ops::AddAssign;

const MOST_POINTS: usize = 400;
const MOST_BUCKETS: usize = 240;
/// The first width of a bucket, in microseconds.
const FIRST_WIDTH: u64 = 1 << 20;

/// Points in time, in microseconds, each with a value.
#[derive(Debug)]
pub(super) struct Thinned<T> {
    points: Vec<(u64, T)>,
    /// Points that are left out between two kept ones.
    skipped: usize,
    waiting: usize,
    newest: Option<(u64, T)>,
}

impl<T> Default for Thinned<T> {
    fn default() -> Thinned<T> {
        Thinned { points: Vec::new(), skipped: 0, waiting: 0, newest: None }
    }
}

impl<T: Clone> Thinned<T> {
    pub(super) fn push(&mut self, time: u64, value: T) {
        self.newest = Some((time, value.clone()));
        if self.waiting > 0 {
            self.waiting -= 1;
            return;
        }
        self.waiting = self.skipped;
        self.points.push((time, value));
        if self.points.len() == MOST_POINTS {
            let mut keep = false;
            self.points.retain(|_| {
                keep = !keep;
                keep
            });
            self.skipped = 2 * self.skipped + 1;
        }
    }

    /// The points, by time.
    pub(super) fn points(&self) -> Vec<(u64, T)> {
        let mut points = self.points.clone();
        if let Some(newest) = &self.newest
            && points.last().is_none_or(|last| last.0 != newest.0)
        {
            points.push(newest.clone());
        }
        // A LOG of several threads, or of a clock that was set, is not quite in order.
        points.sort_by_key(|(time, _)| *time);
        points
    }
}

/// Sums by intervals of equal length.
#[derive(Debug)]
pub(super) struct Sums<T> {
    width: u64,
    buckets: BTreeMap<u64, T>,
}

impl<T> Default for Sums<T> {
    fn default() -> Sums<T> {
        Sums { width: FIRST_WIDTH, buckets: BTreeMap::new() }
    }
}

impl<T: Default + AddAssign> Sums<T> {
    pub(super) fn add(&mut self, time: u64, value: T) {
        *self.buckets.entry(time / self.width).or_default() += value;
        while self.buckets.len() > MOST_BUCKETS {
            self.width = self.width.saturating_mul(2);
            for (index, value) in std::mem::take(&mut self.buckets) {
                *self.buckets.entry(index / 2).or_default() += value;
            }
        }
    }

    /// The length of an interval, in microseconds.
    pub(super) fn width(&self) -> u64 {
        self.width
    }

    /// The begin of each interval with a value, and its sum.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (u64, &T)> {
        self.buckets.iter().map(|(index, value)| (index.saturating_mul(self.width), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_stays_small_and_keeps_its_newest_point() {
        let mut series = Thinned::default();
        for time in 0..100_000_u64 {
            series.push(time, time);
            assert!(series.points.len() < MOST_POINTS);
        }
        let points = series.points();
        assert!(points.len() > MOST_POINTS / 3);
        assert_eq!((points[0], points[points.len() - 1]), ((0, 0), (99_999, 99_999)));
    }

    #[test]
    fn sums_lose_no_value_when_their_intervals_grow() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut sums, mut total) = (Sums::default(), 0_u64);
        for _ in 0..10_000 {
            let (time, value) = (random.u64(..) >> random.u32(..64), random.u64(..100));
            sums.add(time, value);
            total += value;
            assert!(sums.buckets.len() <= MOST_BUCKETS);
        }
        assert_eq!(sums.buckets().map(|(_, value)| value).sum::<u64>(), total);
    }
}
