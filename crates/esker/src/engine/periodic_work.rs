//! Work of a timer whose period the options set.
//!
//! In: the period that the options in force ask for. Out: a timer with this period, or none.
//!
//! Invariant: after the last of concurrent changes of options the timer has the period of the
//! options in force.

use esker_base::sync::Mutex;
use esker_env::timer::Repeating;
use std::time::Duration;

/// One kind of periodic work, with its period in seconds while it is scheduled.
#[derive(Debug, Default)]
pub(crate) struct PeriodicWork(Mutex<Option<(u64, Repeating)>>);

impl PeriodicWork {
    /// The period of the scheduled work, in seconds.
    pub(crate) fn period(&self) -> Option<u64> {
        self.0.lock().as_ref().map(|(seconds, _)| *seconds)
    }

    /// Schedules the work with the period that `period` returns, in seconds; `None` stops it. Work
    /// that has this period already keeps its timer. Asks again after each change: a thread that
    /// computed its period from older options must not have the last word.
    pub(crate) fn reschedule(
        &self,
        mut period: impl FnMut() -> Option<u64>,
        start: impl Fn(Duration) -> Repeating,
    ) {
        loop {
            let seconds = period();
            let mut scheduled = self.0.lock();
            if scheduled.as_ref().map(|(current, _)| *current) == seconds {
                return;
            }
            let new = seconds.map(|seconds| (seconds, start(Duration::from_secs(seconds))));
            let old = std::mem::replace(&mut *scheduled, new);
            // Dropping a timer waits for its work, so the lock is released first.
            drop(scheduled);
            drop(old);
        }
    }

    /// Stops the work, after the end of a call in progress.
    pub(crate) fn stop(&self) {
        let old = self.0.lock().take();
        drop(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_env::MockClock;
    use esker_env::timer::Timer;

    #[test]
    fn a_period_computed_from_older_options_does_not_stay() {
        let timer = Timer::new(esker_base::sync::Arc::new(MockClock::new(0)));
        let work = PeriodicWork::default();
        let start = |period| timer.repeat(period, || ());
        let mut in_force = 100;
        work.reschedule(
            || {
                let seen = std::mem::replace(&mut in_force, 10);
                // Another thread changes the options between this thread's look and its change.
                if seen == 100 {
                    work.reschedule(|| Some(10), start);
                }
                Some(seen)
            },
            start,
        );
        assert_eq!(work.period(), Some(10));
        work.reschedule(|| None, start);
        assert_eq!(work.period(), None);
    }
}
