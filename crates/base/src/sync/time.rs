//! Time in a simulated machine. It passes when threads sleep and no other thread can run, or when
//! the scheduler decides so.
//!
//! In: threads that sleep or wait for a deadline. Out: they wake when the clock reaches it. A
//! separate thread, the keeper, moves the clock; each of its steps leads to the next deadline.
//! The scheduler decides when the keeper runs: mostly when all others wait. A keeper that runs
//! earlier moves the clock by at most a second. Each read of the clock moves it a little.
//!
//! All threads of a machine share one thread of the system, so this state is kept in that thread.
//! Without a keeper no time passes, and only notifications end a wait.
//!
//! Invariants
//!  1. The clock never goes back.
//!  2. A timed waiter stays listed until it has observed its own deadline. A notification
//!     between its listing and its wait is repeated.
//!  3. While another thread can run, no step takes a day. Otherwise daily work would be due again
//!     before it was done once.

use shuttle::sync::{Condvar, Mutex};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Nanoseconds by which each read moves the clock.
const LOOK: u64 = 100;
/// Age in nanoseconds at which a machine fails: ten years. A machine of this age waits for an event
/// that never comes.
const TOO_OLD: u64 = 10 * 365 * 86_400 * SECOND;
const SECOND: u64 = 1_000_000_000;
/// The longest step of the clock while another thread can run.
const BESIDE: u64 = SECOND;

#[derive(Default)]
struct Machine {
    now: u64,
    /// The waiters, by deadline and number.
    waiting: BTreeMap<(u64, u64), Arc<Condvar>>,
    waited: u64,
    keeper: Option<Arc<Keeper>>,
    /// The state of the generator of jumps.
    leaps: Option<u64>,
}

#[derive(Default)]
struct Keeper {
    over: Mutex<bool>,
    /// Wakes the keeper: a thread waits, or the machine ends.
    changed: Condvar,
}

thread_local! {
    static MACHINE: RefCell<Machine> = RefCell::default();
    /// The scheduler's last answer to whether another thread can run.
    static IS_BESIDE: Cell<bool> = const { Cell::new(false) };
}

/// For schedulers: says whether another thread can run while the keeper runs.
pub fn keeper_goes_on(beside_others: bool) {
    IS_BESIDE.set(beside_others);
}

fn with<T>(f: impl FnOnce(&mut Machine) -> T) -> T {
    MACHINE.with(|machine| f(&mut machine.borrow_mut()))
}

/// Runs `work` in a machine with a clock, which starts at 0. With `leaps`, the seed of a generator,
/// the clock sometimes jumps.
pub fn with_clock<T>(leaps: Option<u64>, work: impl FnOnce() -> T) -> T {
    let keeper = Arc::new(Keeper::default());
    super::waits::forget();
    with(|machine| *machine = Machine { keeper: Some(keeper.clone()), leaps, ..Machine::default() });
    let kept = keeper.clone();
    let thread = shuttle::thread::Builder::new().name(KEEPER.to_owned()).spawn(move || keep(&kept));
    let result = work();
    *keeper.over.lock().expect("no thread panics while it holds this lock") = true;
    keeper.changed.notify_one();
    thread.expect("a model has threads").join().expect("the keeper does not panic");
    with(|machine| *machine = Machine::default());
    result
}

/// The name of the thread that moves the clock, for schedulers.
pub const KEEPER: &str = "time";

fn keep(keeper: &Keeper) {
    loop {
        let mut over = keeper.over.lock().expect("no thread panics while it holds this lock");
        while !*over && with(|machine| machine.waiting.is_empty()) {
            over = keeper.changed.wait(over).expect("no thread panics while it holds this lock");
        }
        if *over {
            return;
        }
        drop(over);
        for called in with(Machine::go_on) {
            called.notify_all();
        }
        shuttle::thread::yield_now();
    }
}

impl Machine {
    /// Moves the clock to the next deadline; returns the waiters whose deadline has passed.
    fn go_on(&mut self) -> Vec<Arc<Condvar>> {
        let next = self.waiting.range((self.now + 1, 0)..).next();
        if let Some((&(deadline, _), _)) = next {
            self.now = if IS_BESIDE.get() { deadline.min(self.now + BESIDE) } else { deadline + self.leap() };
        }
        assert!(self.now < TOO_OLD, "the machine waits for an event that never comes");
        self.waiting.range(..=(self.now, u64::MAX)).map(|(_, called)| called.clone()).collect()
    }

    /// The length of a jump in nanoseconds: mostly 0, sometimes from a second up to a day and a
    /// half.
    fn leap(&mut self) -> u64 {
        let Some(seed) = &mut self.leaps else { return 0 };
        *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut draw = (*seed ^ (*seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        draw = (draw ^ (draw >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        if draw >> 58 == 0 { SECOND << (draw % 18) } else { 0 }
    }
}

/// Nanoseconds since the machine began; `None` without a clock.
pub fn now() -> Option<u64> {
    with(|machine| {
        machine.keeper.as_ref()?;
        machine.now += LOOK;
        Some(machine.now)
    })
}

/// Sleeps for `nanos`, while other threads run.
pub fn sleep(nanos: u64) {
    let Some(until) = now().map(|now| now.saturating_add(nanos)) else {
        shuttle::thread::yield_now();
        return;
    };
    let (lock, never) = (Mutex::new(()), Arc::new(Condvar::new()));
    let mut held = lock.lock().expect("no other thread has the lock");
    while now().is_some_and(|now| now < until) {
        held = wait(&never, held, until).0;
    }
}

/// Waits for a notification or until the deadline. Returns whether the deadline has come.
pub(super) fn wait<'a, T>(
    condvar: &Arc<Condvar>,
    guard: shuttle::sync::MutexGuard<'a, T>,
    until: u64,
) -> (shuttle::sync::MutexGuard<'a, T>, bool) {
    let entered = with(|machine| machine.keeper.clone()).map(|keeper| {
        // The keeper holds this lock from its read of the list until it waits, so it misses no
        // entry.
        let still = keeper.over.lock().expect("no thread panics while it holds this lock");
        let entry = with(|machine| {
            machine.waited += 1;
            machine.waiting.insert((until, machine.waited), condvar.clone());
            (until, machine.waited)
        });
        drop(still);
        keeper.changed.notify_one();
        entry
    });
    let guard = condvar.wait(guard).expect("no thread of the model panicked");
    let is_over = entered.is_some_and(|entry| {
        with(|machine| {
            machine.waiting.remove(&entry);
            machine.now >= until
        })
    });
    (guard, is_over)
}

#[cfg(test)]
mod tests;
