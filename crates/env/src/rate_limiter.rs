//! A rate limiter: bytes per second, distributed by priority.
//!
//! In: requests for bytes. Out: each request returns when its bytes may be transferred. Once per
//! period the limiter gets the bytes of a period. It keeps the unused bytes of the period before,
//! so that at most the bytes of two periods go at once.
//! Source: RocksDB `util/rate_limiter.cc` (semantics).
//!
//! Waiting: one waiter, the leader, sleeps until the next period and distributes its bytes; the
//! others wait for it. When the leader's own request is granted, it calls the next leader.
//!
//! Tuning: an auto-tuned limiter counts its drains, the periods in which a request had to wait. It
//! raises its rate while most periods are drained and lowers it while few are.
//!
//! Invariants
//!  1. Within a priority, requests are served in order. `User` always goes first, then High, Mid
//!     and Low. In one of `fairness` periods, drawn at random, High goes last; likewise Low goes
//!     before Mid. So no priority starves.
//!  2. While requests wait, there is a leader, or one of them has been called to lead.
//!  3. No lock is held while the clock sleeps.

use crate::clock::Clock;
use esker_base::stats::{Histogram, Statistics, Ticker};
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::sync::fork::PerProcess;
use esker_base::sync::process::atomic::AtomicU64;
use esker_base::sync::{Arc, Condvar, Mutex};
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// The priority of a request. RocksDB's names, without `IO_`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum IoPriority {
    /// Compactions.
    Low,
    /// Compactions that others wait for.
    Mid,
    /// Flushes.
    High,
    /// Users' calls.
    User,
}

/// The kind of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoKind {
    /// Read.
    Read,
    /// Write.
    Write,
}

/// The requests that are limited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RateLimiterMode {
    /// Reads.
    ReadsOnly,
    /// Writes.
    #[default]
    WritesOnly,
    /// Reads and writes, from one budget.
    AllIo,
}

const PRIORITIES: usize = 4;

/// Periods between two changes of an auto-tuned rate.
const PERIODS_PER_TUNING: u64 = 100;
/// Percentages of drained periods: below the first the rate falls, above the second it rises.
const FEW_DRAINS: u64 = 50;
const MANY_DRAINS: u64 = 90;
/// A change of the rate, in percent.
const TUNING_STEP: u64 = 5;
/// An auto-tuned rate is at least this fraction of the largest.
const TUNING_RANGE: u64 = 20;

/// Shares out bytes per second. Shared between threads and databases.
pub struct RateLimiter {
    refill_period_micros: u64,
    fairness: u32,
    mode: RateLimiterMode,
    /// The largest rate of an auto-tuned limiter.
    auto_tuned_up_to: Option<u64>,
    /// Bytes a second. A copy of the value in `state`, whose lock may be held for ever in a forked
    /// child.
    rate: AtomicU64,
    /// The most that one request gets at once; 0: the bytes of a period.
    single_burst_bytes: AtomicU64,
    state: PerProcess<Mutex<State>>,
}

struct State {
    bytes_per_second: u64,
    available: u64,
    next_refill_micros: u64,
    queues: [VecDeque<Request>; PRIORITIES],
    leader: bool,
    total_bytes: [u64; PRIORITIES],
    total_requests: [u64; PRIORITIES],
    /// Number of waits for a refill since the rate was last tuned.
    drains: u64,
    /// Time of the last tuning, in microseconds; `None` before the first request.
    tuned_micros: Option<u64>,
    rng: fastrand::Rng,
}

struct Request {
    bytes_left: u64,
    waiter: Arc<Waiter>,
}

/// One waiting thread.
#[derive(Default)]
struct Waiter {
    /// Notified when the request is granted, or when its thread is to lead.
    changed: Condvar,
    /// Written and read under the limiter's lock.
    granted: AtomicBool,
}

impl RateLimiter {
    /// A limiter of `bytes_per_second`, which must be above 0. RocksDB's defaults for the other two
    /// are 100,000 microseconds and 10.
    pub fn new(
        bytes_per_second: u64,
        refill_period_micros: u64,
        fairness: u32,
        mode: RateLimiterMode,
    ) -> RateLimiter {
        let (refill_period_micros, fairness) = (refill_period_micros.max(1), fairness.clamp(1, 100));
        let rate = AtomicU64::new(bytes_per_second.max(1));
        RateLimiter {
            refill_period_micros,
            fairness,
            mode,
            auto_tuned_up_to: None,
            rate,
            single_burst_bytes: AtomicU64::new(0),
            state: PerProcess::new(),
        }
    }

    /// [`RateLimiter::new`] with a rate that follows demand. It lies between a twentieth of
    /// `max_bytes_per_second` and all of it, and starts at half of it. Every 100 periods the rate
    /// rises by 5 % if more than 90 % of them were drained. It falls by 5 % if less than 50 % were.
    pub fn auto_tuned(
        max_bytes_per_second: u64,
        refill_period_micros: u64,
        fairness: u32,
        mode: RateLimiterMode,
    ) -> RateLimiter {
        let half = max_bytes_per_second / 2;
        let mut limiter = RateLimiter::new(half, refill_period_micros, fairness, mode);
        limiter.auto_tuned_up_to = Some(max_bytes_per_second.max(1));
        limiter
    }

    /// The requests that are limited.
    pub fn mode(&self) -> RateLimiterMode {
        self.mode
    }

    /// This process's requests: a forked child has none of its parent's.
    fn state(&self) -> &Mutex<State> {
        self.state.get(|_| Mutex::new(State::new(self.rate.load(Ordering::Relaxed))))
    }

    /// Whether requests of this kind wait at all.
    pub fn limits(&self, kind: IoKind) -> bool {
        match self.mode {
            RateLimiterMode::ReadsOnly => kind == IoKind::Read,
            RateLimiterMode::WritesOnly => kind == IoKind::Write,
            RateLimiterMode::AllIo => true,
        }
    }

    /// Waits until `bytes` may be transferred. A request larger than a period's bytes is granted in
    /// pieces; `statistics` counts each piece.
    pub fn request(
        &self,
        bytes: u64,
        priority: IoPriority,
        kind: IoKind,
        clock: &dyn Clock,
        statistics: Option<&Statistics>,
    ) {
        if !self.limits(kind) {
            return;
        }
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(self.single_burst_bytes());
            let wait = self.request_piece(piece, priority, clock);
            if let Some(statistics) = statistics {
                wait.count(statistics, kind, piece);
            }
            left -= piece;
        }
    }

    /// The rate.
    pub fn bytes_per_second(&self) -> u64 {
        self.state().lock().bytes_per_second
    }

    /// Changes the rate, from the next period on.
    pub fn set_bytes_per_second(&self, bytes_per_second: u64) {
        let mut state = self.state().lock();
        state.bytes_per_second = bytes_per_second.max(1);
        self.rate.store(state.bytes_per_second, Ordering::Relaxed);
    }

    /// The most that one request gets at once: the bytes of a period, unless
    /// [`set_single_burst_bytes`](Self::set_single_burst_bytes) says otherwise.
    pub fn single_burst_bytes(&self) -> u64 {
        match self.single_burst_bytes.load(Ordering::Relaxed) {
            0 => self.state().lock().refill_bytes(self.refill_period_micros),
            bytes => bytes,
        }
    }

    /// Sets the most that one request gets at once, from the next request on; 0 stands for the
    /// bytes of a period, and follows the rate. Less lets requests of other priorities come between
    /// the pieces of a large one earlier; more saves pieces. The rate stays.
    ///
    /// ```
    /// use esker_env::{RateLimiter, RateLimiterMode};
    ///
    /// let limiter = RateLimiter::new(10 << 20, 100_000, 10, RateLimiterMode::WritesOnly);
    /// limiter.set_single_burst_bytes(64 << 10);
    /// assert_eq!(limiter.single_burst_bytes(), 64 << 10);
    /// limiter.set_single_burst_bytes(0);
    /// assert_eq!(limiter.single_burst_bytes(), 1 << 20);
    /// ```
    pub fn set_single_burst_bytes(&self, bytes: u64) {
        self.single_burst_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes granted so far, to one priority or to all.
    pub fn total_bytes_through(&self, priority: Option<IoPriority>) -> u64 {
        let totals = self.state().lock().total_bytes;
        priority.map_or_else(|| totals.iter().sum(), |p| totals[p as usize])
    }

    /// Requests so far, of one priority or of all; a large one counts once for each piece.
    pub fn total_requests(&self, priority: Option<IoPriority>) -> u64 {
        let totals = self.state().lock().total_requests;
        priority.map_or_else(|| totals.iter().sum(), |p| totals[p as usize])
    }

    /// Requests that wait now, of one priority or of all.
    pub fn total_pending_requests(&self, priority: Option<IoPriority>) -> u64 {
        let state = self.state().lock();
        let queue = |p: IoPriority| state.queues[p as usize].len() as u64;
        priority.map_or_else(|| state.queues.iter().map(|queue| queue.len() as u64).sum(), queue)
    }

    fn request_piece(&self, bytes: u64, priority: IoPriority, clock: &dyn Clock) -> Wait {
        let mut state = self.state().lock();
        if let Some(max) = self.auto_tuned_up_to {
            state.tune_if_due(clock.monotonic_nanos() / 1_000, self.refill_period_micros, max);
            self.rate.store(state.bytes_per_second, Ordering::Relaxed);
        }
        state.total_requests[priority as usize] += 1;
        if state.queues.iter().all(VecDeque::is_empty) && state.available >= bytes {
            state.available -= bytes;
            state.total_bytes[priority as usize] += bytes;
            return Wait::default();
        }
        let waiter = Arc::<Waiter>::default();
        let request = Request { bytes_left: bytes, waiter: Arc::clone(&waiter) };
        state.queues[priority as usize].push_back(request);
        let mut wait = Wait::default();
        let mut since = None;
        loop {
            if waiter.granted.load(Ordering::Relaxed) {
                if !state.leader {
                    state.call_next();
                }
                wait.micros = since.map(|since| (clock.monotonic_nanos() / 1_000).saturating_sub(since));
                return wait;
            }
            let now = clock.monotonic_nanos() / 1_000;
            let until_refill = state.next_refill_micros.saturating_sub(now);
            if until_refill > 0 {
                since.get_or_insert(now);
            }
            if state.leader {
                waiter.changed.wait(&mut state);
                continue;
            }
            state.leader = true;
            if until_refill > 0 {
                state.drains += 1;
                wait.drains += 1;
                drop(state);
                esker_base::probe!("rate_limiter:waited");
                clock.sleep(Duration::from_micros(until_refill));
                state = self.state().lock();
            }
            let now = clock.monotonic_nanos() / 1_000;
            if now >= state.next_refill_micros {
                state.refill_and_grant(now, self.refill_period_micros, self.fairness);
            }
            state.leader = false;
        }
    }
}

/// The wait of one granted piece.
#[derive(Default)]
struct Wait {
    /// Microseconds until it was granted; `None`: it did not wait.
    micros: Option<u64>,
    /// Number of refills for which it slept.
    drains: u64,
}

impl Wait {
    fn count(&self, statistics: &Statistics, kind: IoKind, bytes: u64) {
        let [requests, of_bytes, delayed, total_wait] = match kind {
            IoKind::Read => [
                Ticker::RateLimiterRequestsRead,
                Ticker::RateLimiterBytesRead,
                Ticker::RateLimiterDelayedRequestsRead,
                Ticker::RateLimiterTotalWaitMicrosRead,
            ],
            IoKind::Write => [
                Ticker::RateLimiterRequestsWrite,
                Ticker::RateLimiterBytesWrite,
                Ticker::RateLimiterDelayedRequestsWrite,
                Ticker::RateLimiterTotalWaitMicrosWrite,
            ],
        };
        statistics.record_tick(requests, 1);
        statistics.record_tick(of_bytes, bytes);
        statistics.record_tick(Ticker::NumberRateLimiterDrains, self.drains);
        let Some(micros) = self.micros else { return };
        statistics.record_tick(delayed, 1);
        statistics.record_tick(total_wait, micros);
        let histogram = match kind {
            IoKind::Read => Histogram::RateLimiterWaitMicrosRead,
            IoKind::Write => Histogram::RateLimiterWaitMicrosWrite,
        };
        statistics.record_in_histogram(histogram, micros);
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RateLimiter({} bytes/s, {:?})", self.bytes_per_second(), self.mode)
    }
}

impl State {
    fn new(bytes_per_second: u64) -> State {
        State {
            bytes_per_second,
            available: 0,
            next_refill_micros: 0,
            queues: Default::default(),
            leader: false,
            total_bytes: [0; PRIORITIES],
            total_requests: [0; PRIORITIES],
            drains: 0,
            tuned_micros: None,
            rng: fastrand::Rng::with_seed(0),
        }
    }

    fn refill_bytes(&self, period_micros: u64) -> u64 {
        let bytes = u128::from(self.bytes_per_second) * u128::from(period_micros) / 1_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }

    /// Changes the rate by the share of drained periods, if enough periods have passed.
    fn tune_if_due(&mut self, now: u64, period_micros: u64, max: u64) {
        let passed = now.saturating_sub(*self.tuned_micros.get_or_insert(now));
        if passed < period_micros.saturating_mul(PERIODS_PER_TUNING) {
            return;
        }
        let (before, least) = (self.bytes_per_second, (max / TUNING_RANGE).max(1));
        let step = |rate: u64, part: u64, of: u64| {
            u64::try_from(u128::from(rate) * u128::from(part) / u128::from(of)).unwrap_or(u64::MAX)
        };
        self.bytes_per_second = match self.drains * 100 / passed.div_ceil(period_micros) {
            0 => least,
            drained if drained < FEW_DRAINS => step(before, 100, 100 + TUNING_STEP).max(least),
            drained if drained > MANY_DRAINS => step(before, 100 + TUNING_STEP, 100).min(max),
            _ => before,
        };
        (self.drains, self.tuned_micros) = (0, Some(now));
    }

    fn refill_and_grant(&mut self, now: u64, period_micros: u64, fairness: u32) {
        let refill = self.refill_bytes(period_micros);
        self.next_refill_micros = now + period_micros;
        self.available = self.available.saturating_add(refill);
        for priority in self.order(fairness) {
            while let Some(request) = self.queues[priority].front_mut() {
                let part = request.bytes_left.min(self.available);
                self.available -= part;
                request.bytes_left -= part;
                self.total_bytes[priority] += part;
                if request.bytes_left > 0 {
                    // The request keeps its bytes so far; otherwise a lowered rate could starve it.
                    return;
                }
                let done = self.queues[priority].pop_front().expect("the queue had a front above");
                done.waiter.granted.store(true, Ordering::Relaxed);
                done.waiter.changed.notify_one();
            }
        }
    }

    /// The order of priorities for this period.
    fn order(&mut self, fairness: u32) -> [usize; PRIORITIES] {
        let [low, mid, high, user] =
            [IoPriority::Low, IoPriority::Mid, IoPriority::High, IoPriority::User].map(|p| p as usize);
        let high_last = self.rng.u32(..fairness) == 0 && fairness > 1;
        let (first, second) =
            if self.rng.u32(..fairness) == 0 && fairness > 1 { (low, mid) } else { (mid, low) };
        if high_last { [user, first, second, high] } else { [user, high, first, second] }
    }

    /// Calls one of the waiting requests to lead.
    fn call_next(&self) {
        if let Some(request) = self.queues.iter().rev().find_map(VecDeque::front) {
            request.waiter.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
