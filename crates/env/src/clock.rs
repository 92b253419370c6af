//! Clocks: wall time for timestamps, monotonic time for durations and waits.
//!
//! [`SystemClock`] reads the machine's clock. [`MockClock`] stands still until a test moves it or a
//! thread sleeps on it. With `--cfg shuttle`, `SimulatedClock` is the clock of the simulated
//! machine.

use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::sync::thread;
use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::time::Duration;

/// Reads the time and waits.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Microseconds since the Unix epoch.
    fn now_micros(&self) -> u64;
    /// Nanoseconds since some fixed point in time; never goes back.
    fn monotonic_nanos(&self) -> u64;
    /// Microseconds since some fixed point in time; never goes back.
    fn monotonic_micros(&self) -> u64 {
        self.monotonic_nanos() / 1_000
    }
    /// Nanoseconds of processor time of the calling thread; 0 if the clock has no such time.
    fn thread_cpu_nanos(&self) -> u64 {
        0
    }
    /// Waits for `duration`.
    fn sleep(&self, duration: Duration);
    /// Seconds since the Unix epoch.
    fn now_seconds(&self) -> u64 {
        self.now_micros() / 1_000_000
    }
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Reads a clock, in nanoseconds. The seconds are 0 if the clock stands before its epoch.
fn nanos(id: ClockId) -> u64 {
    let t = clock_gettime(id);
    let seconds = u64::try_from(t.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0)
}

impl Clock for SystemClock {
    fn now_micros(&self) -> u64 {
        nanos(ClockId::Realtime) / 1_000
    }
    #[inline]
    fn monotonic_nanos(&self) -> u64 {
        nanos(ClockId::Monotonic)
    }
    fn thread_cpu_nanos(&self) -> u64 {
        nanos(ClockId::ThreadCPUTime)
    }
    fn sleep(&self, duration: Duration) {
        thread::sleep(duration);
    }
    /// Reads the kernel's coarse clock, which costs a third of the exact one. The kernel advances
    /// it every few milliseconds.
    #[cfg(target_os = "linux")]
    fn now_seconds(&self) -> u64 {
        u64::try_from(clock_gettime(ClockId::RealtimeCoarse).tv_sec).unwrap_or(0)
    }
}

/// The clock of the simulated machine (`base/sync/time.rs`): a thread that sleeps lets others run.
#[cfg(shuttle)]
#[derive(Clone, Copy, Debug)]
pub struct SimulatedClock {
    /// Wall time at which the machine started, in microseconds since the Unix epoch.
    pub began_micros: u64,
}

#[cfg(shuttle)]
impl Clock for SimulatedClock {
    fn now_micros(&self) -> u64 {
        self.began_micros + self.monotonic_nanos() / 1_000
    }
    fn monotonic_nanos(&self) -> u64 {
        esker_base::sync::time::now().unwrap_or(0)
    }
    fn sleep(&self, duration: Duration) {
        esker_base::sync::time::sleep(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// A clock that a test owns. It moves only by [`MockClock::advance`], [`MockClock::set_micros`] and
/// `sleep`. `sleep` advances the clock and returns at once.
#[derive(Debug)]
pub struct MockClock {
    wall_nanos: AtomicU64,
    monotonic_nanos: AtomicU64,
    slept_nanos: AtomicU64,
}

impl MockClock {
    /// A clock with this wall time. Its monotonic time is 0.
    pub fn new(now_micros: u64) -> MockClock {
        MockClock {
            wall_nanos: AtomicU64::new(now_micros * 1_000),
            monotonic_nanos: AtomicU64::new(0),
            slept_nanos: AtomicU64::new(0),
        }
    }

    /// Advances wall time and monotonic time.
    pub fn advance(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).expect("a test moves time by less than 584 years");
        self.wall_nanos.fetch_add(nanos, Ordering::SeqCst);
        self.monotonic_nanos.fetch_add(nanos, Ordering::SeqCst);
    }

    /// Sets wall time, forward or back. Monotonic time stays.
    pub fn set_micros(&self, now_micros: u64) {
        self.wall_nanos.store(now_micros * 1_000, Ordering::SeqCst);
    }

    /// The sum of all sleeps on this clock.
    pub fn slept(&self) -> Duration {
        Duration::from_nanos(self.slept_nanos.load(Ordering::SeqCst))
    }
}

impl Clock for MockClock {
    fn now_micros(&self) -> u64 {
        self.wall_nanos.load(Ordering::SeqCst) / 1_000
    }
    fn monotonic_nanos(&self) -> u64 {
        self.monotonic_nanos.load(Ordering::SeqCst)
    }
    fn sleep(&self, duration: Duration) {
        self.advance(duration);
        self.slept_nanos.fetch_add(duration.as_nanos() as u64, Ordering::SeqCst);
        thread::yield_now();
    }
}
