//! One measurement: threads share a new lock manager for a given time.

use super::{LockBenchOptions, workload::LockBenchRequest, workload::LockWorkload};
use esker::Result;
use esker::internals::env::on_threads;
use esker_lock::{
    ColumnFamilyId, Endpoint, FamilyOptions, LockClock, LockFamily, LockManager, LockManagerOptions,
    LockerOptions, Locking, Timeout,
};
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// The parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockBenchCell<'a> {
    pub(super) options: &'a LockBenchOptions,
    pub(super) workload: LockWorkload,
    pub(super) threads: usize,
    pub(super) seed: u64,
}

/// The result of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellOutcome {
    pub(super) locks_per_second: f64,
    pub(super) waits_per_thousand: f64,
    /// Processor time for a lock and its release.
    pub(super) cpu_nanos: f64,
}

/// The work of one thread.
struct Work {
    locks: u64,
    nanos: u64,
    cpu_nanos: u64,
}

/// The clocks of the system.
pub(super) struct SystemTime;

fn nanos(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// The machine's monotonic clock.
pub(super) fn monotonic_nanos() -> u64 {
    nanos(ClockId::Monotonic)
}

/// The processor time of this thread.
pub(super) fn cpu_nanos() -> u64 {
    nanos(ClockId::ThreadCPUTime)
}

impl LockClock for SystemTime {
    fn monotonic_nanos(&self) -> u64 {
        nanos(ClockId::Monotonic)
    }
    fn now_seconds(&self) -> u64 {
        nanos(ClockId::Realtime) / 1_000_000_000
    }
}

/// Writes the key with number `n`. Keys sort in the order of their numbers.
pub(super) fn write_key(key: &mut [u8], n: u64) {
    key[..8].copy_from_slice(&n.to_be_bytes());
}

/// A generator of numbers below a bound: SplitMix64. Its state starts from the mixed seed.
pub(super) fn generator(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = mixed(seed);
    move |bound| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        ((u128::from(mixed(state)) * u128::from(bound)) >> 64) as u64
    }
}

fn mixed(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl LockBenchCell<'_> {
    /// Runs the measurement.
    /// # Errors
    /// The system refuses a thread.
    pub(super) fn run(&self, locking: Locking) -> Result<CellOutcome> {
        let manager = LockManager::new(LockManagerOptions::new(Arc::new(SystemTime)));
        let family = manager
            .add_family(ColumnFamilyId::DEFAULT, &self.family_options(locking))
            .expect("the manager has no family yet");
        let barrier = Barrier::new(self.threads);
        let work = on_threads("lock_bench", self.threads, |thread| {
            self.work(&manager, &family, &barrier, thread as u64)
        })?;
        let locks = work.iter().map(|w| w.locks).sum::<u64>().max(1) as f64;
        Ok(CellOutcome {
            locks_per_second: work.iter().map(|w| w.locks as f64 * 1e9 / w.nanos as f64).sum(),
            waits_per_thousand: manager.counters().waits as f64 * 1000.0 / locks,
            cpu_nanos: work.iter().map(|w| w.cpu_nanos).sum::<u64>() as f64 / locks,
        })
    }

    fn family_options(&self, locking: Locking) -> FamilyOptions {
        let LockBenchOptions { keys, key_bytes, boundaries, .. } = *self.options;
        let boundary = |i: u64| {
            let mut key = vec![0; key_bytes.max(8)];
            write_key(&mut key, keys / (boundaries as u64 + 1) * i);
            key
        };
        let boundaries = (1..=boundaries as u64).map(boundary).collect();
        FamilyOptions { locking, boundaries, ..FamilyOptions::default() }
    }

    /// Runs transactions until the time is over.
    fn work(&self, manager: &LockManager, family: &Arc<LockFamily>, barrier: &Barrier, thread: u64) -> Work {
        let LockBenchOptions { keys, key_bytes, locks, time, .. } = *self.options;
        let mut random = generator((self.seed << 32) | thread);
        let mut locker = manager.locker(LockerOptions {
            lock_timeout: Timeout::After(Duration::from_secs(1)),
            ..LockerOptions::default()
        });
        let (mut left, mut right) = (vec![0; key_bytes.max(8)], vec![0; key_bytes.max(8)]);
        let mut requests: Vec<LockBenchRequest> = Vec::with_capacity(locks);
        let (mut taken, mut grown) = (0, thread);
        barrier.wait();
        let (start, cpu) = (nanos(ClockId::Monotonic), nanos(ClockId::ThreadCPUTime));
        loop {
            requests.clear();
            for _ in 0..locks {
                let mut next = || {
                    grown += self.threads as u64;
                    grown
                };
                requests.push(self.workload.request(keys, &mut random, &mut next));
            }
            if self.workload.is_sorted() {
                requests.sort_by_key(|r| r.first);
            }
            for request in &requests {
                write_key(&mut left, request.first);
                let result = if request.count == 1 {
                    locker.lock_key(family, &left, request.mode)
                } else {
                    write_key(&mut right, request.first + request.count - 1);
                    locker.lock_range(family, Endpoint::Key(&left), Endpoint::Key(&right), request.mode)
                };
                // A failed wait ends the transaction.
                if result.is_err() {
                    break;
                }
                taken += 1;
            }
            locker.release_all();
            if taken % 64 < locks as u64 {
                let passed = nanos(ClockId::Monotonic) - start;
                if Duration::from_nanos(passed) >= time {
                    let cpu_nanos = nanos(ClockId::ThreadCPUTime) - cpu;
                    return Work { locks: taken, nanos: passed, cpu_nanos };
                }
            }
        }
    }
}
