//! Everything at once: points, ranges, upgrades, downgrades, save points, timeouts, cancellations,
//! cycles, too little memory, and dropped families, by many threads. No two threads may ever hold
//! conflicting locks, no thread may be stuck, and no lock may be left at the end.
//!
//! `SECONDS=1800 THREADS=100 cargo test --profile stress -p esker-lock --test it -- soak` is the
//! long form (`cargo xtask long locks`); it prints counters.

use crate::{manager, until};
use esker_base::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use esker_base::sync::{Arc, Mutex};
use esker_base::{ColumnFamilyId, ErrorKind};
use esker_lock::LockMode::{Exclusive, Shared};
use esker_lock::{
    Canceller, Endpoint, FamilyOptions, LockFamily, LockManager, LockMode, Locker, LockerOptions, Timeout,
};
use std::thread;
use std::time::Duration;

const KEYS: usize = 40;
/// The test counts as stuck after this many checks without progress, 10 ms apart. It counts checks,
/// not time, because the whole process may be stopped for a while.
const PATIENCE: u32 = 12_000;
/// Operations between two disturbances.
const CALM: u64 = 50;

fn key(i: usize) -> [u8; 2] {
    [i as u8 / 8, i as u8 % 8]
}

/// The locks that the threads believe they hold, for each key: the number of sharers, or far below
/// zero for an exclusive lock.
struct Shadow {
    keys: [AtomicI64; KEYS],
}

impl Shadow {
    /// Asserts, for a short time, that no other thread holds a lock that `mode` excludes.
    fn visit(&self, keys: std::ops::Range<usize>, mode: LockMode) {
        let (enter, leave) = if mode == Exclusive { (-1000, 1000) } else { (1, -1) };
        for i in keys.clone() {
            let before = self.keys[i].fetch_add(enter, Ordering::SeqCst);
            assert!(
                if mode == Exclusive { before == 0 } else { before >= 0 },
                "key {i}: {mode:?} beside {before}"
            );
        }
        thread::yield_now();
        for i in keys {
            self.keys[i].fetch_add(leave, Ordering::SeqCst);
        }
    }
}

struct Soak {
    manager: LockManager,
    family: Arc<LockFamily>,
    passing: Mutex<Arc<LockFamily>>,
    shadow: Shadow,
    stop: AtomicBool,
    operations: AtomicU64,
    cancellers: Mutex<Vec<Canceller>>,
}

impl Soak {
    fn new() -> Soak {
        let manager = manager();
        let small = FamilyOptions { max_fragments: 4, ..FamilyOptions::default() };
        let family = manager.add_family(ColumnFamilyId(0), &small).unwrap();
        let passing = Mutex::new(manager.add_family(ColumnFamilyId(1), &small).unwrap());
        manager.set_max_lock_memory(4000);
        Soak {
            manager,
            family,
            passing,
            shadow: Shadow { keys: std::array::from_fn(|_| AtomicI64::new(0)) },
            stop: AtomicBool::new(false),
            operations: AtomicU64::new(0),
            cancellers: Mutex::new(Vec::new()),
        }
    }

    fn work(&self, mut rng: fastrand::Rng) {
        let options = LockerOptions { deadlock_detect: true, ..LockerOptions::default() };
        let mut locker = self.manager.locker(options);
        self.cancellers.lock().push(locker.canceller());
        while !self.stop.load(Ordering::Relaxed) {
            self.transaction(&mut locker, &mut rng);
            locker.release_all();
            locker.reset_cancel();
        }
    }

    fn transaction(&self, locker: &mut Locker, rng: &mut fastrand::Rng) {
        for _ in 0..rng.usize(1..8) {
            self.operations.fetch_add(1, Ordering::Relaxed);
            locker.set_lock_timeout(match rng.u8(..4) {
                0 => Timeout::Never,
                1 => Timeout::After(Duration::from_micros(rng.u64(..500))),
                _ => Timeout::Forever,
            });
            match rng.u8(..20) {
                0 => locker.set_save_point(),
                1 => {
                    // The locker may have no save point.
                    locker.rollback_to_save_point().ok();
                }
                2 => {
                    let passing = self.passing.lock().clone();
                    if locker.lock_key(&passing, &key(rng.usize(..4)), Exclusive).is_err() {
                        return;
                    }
                }
                kind => {
                    if !self.lock(locker, rng, kind) {
                        return;
                    }
                }
            }
        }
    }

    /// Takes a lock. False if the transaction is over.
    fn lock(&self, locker: &mut Locker, rng: &mut fastrand::Rng, kind: u8) -> bool {
        let first = rng.usize(..KEYS);
        let count = if kind < 5 { rng.usize(1..=(KEYS - first).min(12)) } else { 1 };
        let last = first + count - 1;
        let mode = if rng.bool() { Shared } else { Exclusive };
        let (left, right) = (key(first), key(last));
        let (left, right) = (Endpoint::Key(&left), Endpoint::Key(&right));
        let result = if count == 1 {
            locker.lock_key(&self.family, &key(first), mode)
        } else {
            locker.lock_range(&self.family, left, right, mode)
        };
        match result {
            Ok(()) => {
                self.shadow.visit(first..last + 1, mode);
                if mode == Exclusive && rng.u8(..8) == 0 {
                    locker.downgrade(&self.family, left, right).expect("it is held exclusively");
                    self.shadow.visit(first..last + 1, Shared);
                }
                true
            }
            Err(why) if why.kind() == ErrorKind::TimedOut => rng.bool(),
            Err(why) => {
                let expected = [ErrorKind::Busy, ErrorKind::Aborted, ErrorKind::ColumnFamilyDropped];
                assert!(expected.contains(&why.kind()), "{why}");
                false
            }
        }
    }

    /// Fails the test with a dump of locks and waits.
    fn fail_with_waits_and_locks(&self) {
        let (waits, locks) = (self.manager.waits(), self.manager.locks());
        let check = self.manager.check();
        panic!("nothing moves: {check:?}\nwaits {waits:#?}\nlocks {locks:#?}");
    }

    /// Until `is_enough`, now and then cancels a locker, changes the limit or drops a family.
    fn disturb(&self, mut rng: fastrand::Rng, is_enough: impl Fn(u64) -> bool) {
        let _end = ReleaseOnDrop(self);
        let mut done = 0;
        while !is_enough(done) {
            let before = done;
            let mut looks = 0;
            loop {
                done = self.operations.load(Ordering::Relaxed);
                if done > before + CALM {
                    break;
                }
                if looks == PATIENCE {
                    self.fail_with_waits_and_locks();
                }
                looks += 1;
                look_away();
            }
            match rng.u8(..8) {
                0 => {
                    let mut passing = self.passing.lock();
                    self.manager.drop_family(ColumnFamilyId(1)).unwrap();
                    *passing = self.manager.add_family(ColumnFamilyId(1), &FamilyOptions::default()).unwrap();
                }
                1 => self.manager.set_max_lock_memory([600, 4000, usize::MAX][rng.usize(..3)]),
                2 => {
                    self.manager.check().unwrap();
                    self.manager.waits();
                }
                _ => {
                    let cancellers = self.cancellers.lock();
                    cancellers[rng.usize(..cancellers.len())].cancel();
                }
            }
        }
    }
}

/// Ends the soak when it is dropped. After a failure it also cancels threads that would wait for
/// ever.
struct ReleaseOnDrop<'a>(&'a Soak);

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
        if thread::panicking() {
            self.0.cancellers.lock().iter().for_each(Canceller::cancel);
        }
    }
}

/// Yields the processor.
#[expect(clippy::disallowed_methods, reason = "nothing depends on how long this takes")]
fn look_away() {
    thread::sleep(Duration::from_millis(10));
}

#[expect(clippy::disallowed_methods, reason = "for the long form")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

#[test]
fn soak_leaves_nothing_behind() {
    let seconds = setting("SECONDS").map(Duration::from_secs);
    let threads = setting("THREADS").unwrap_or(16) as usize;
    let start = now();
    let soak = Soak::new();
    let mut rng = esker_testkit::seed::rng("lock::soak");
    thread::scope(|scope| {
        for _ in 0..threads {
            let rng = rng.fork();
            scope.spawn(|| soak.work(rng));
        }
        until(|| soak.cancellers.lock().len() == threads);
        soak.disturb(rng, |operations| match seconds {
            Some(time) => start.elapsed() > time,
            None => operations > 20_000,
        });
        // Each thread ends without a cancellation, because it waits only for threads that will end.
    });
    soak.manager.check().unwrap();
    assert!(soak.manager.locks().is_empty() && soak.manager.waits().is_empty());
    let counters = soak.manager.counters();
    assert_eq!(counters.lock_memory, 0, "{counters:?}");
    if let Some(time) = seconds {
        let operations = soak.operations.load(Ordering::Relaxed);
        println!("{threads} threads, {time:?}: {operations} operations, nothing left; {counters:#?}");
    }
}
