//! Named points in the engine that tests can watch, delay and change.
//!
//! In: `probe!("Module::point")` before an interesting step. Out: nothing, unless a test holds a
//! [`Probes`]. A point may then wait until other points were passed, and may call the test. The
//! idea is RocksDB's `test_util/sync_point.h`.
//!
//! `esker-stress --probes` also counts points that mark rare paths.
//!
//! Points exist only with debug assertions (dev and stress builds); otherwise `probe!` is compiled
//! away. Without a `Probes` a point costs one relaxed load.
//!
//! Invariants
//!  1. At most one `Probes` exists at a time; a second `new` waits. Dropping a `Probes` releases
//!     all threads that wait at a point.
//!  2. No lock of this module is held during a call of the test, so a call may pass points itself.

use crate::sync::process::atomic::{AtomicBool, Ordering};
use crate::sync::process::{Condvar, Mutex, MutexGuard};
use std::any::Any;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Time that a point waits for others before the test fails.
const PATIENCE: Duration = Duration::from_secs(120);

type Call = Arc<dyn Fn(&mut dyn Any) + Send + Sync>;

#[derive(Default)]
struct State {
    calls: HashMap<String, Call>,
    /// For each point, the points that must have been passed before it.
    before: HashMap<String, Vec<String>>,
    passed: HashSet<String>,
    /// Number of calls that are running.
    running: usize,
    /// Number of the current `Probes`. A thread that waits at a point of an earlier one continues.
    generation: u64,
}

struct Registry {
    is_on: AtomicBool,
    /// Whether passes are counted.
    counts: AtomicBool,
    session: Mutex<()>,
    state: Mutex<Option<State>>,
    changed: Condvar,
}

static REGISTRY: Registry = Registry {
    is_on: AtomicBool::new(false),
    counts: AtomicBool::new(false),
    session: Mutex::new(()),
    state: Mutex::new(None),
    changed: Condvar::new(),
};

/// `probe!("Module::point")` marks a point. `probe!("Module::point", value)` also shows the test a
/// `&mut` value, which must be `'static`.
///
/// `probe!(soon: a, usually: b)` is `a` if points exist and `b` otherwise. So short tests
/// reach transitions that otherwise need long scans or rare timing.
#[macro_export]
macro_rules! probe {
    (soon: $soon:expr, usually: $usually:expr) => {
        if cfg!(debug_assertions) { $soon } else { $usually }
    };
    ($name:expr) => {
        $crate::probe!($name, &mut ())
    };
    ($name:expr, $value:expr) => {
        if cfg!(debug_assertions) {
            $crate::probe::pass($name, $value);
        }
    };
}

/// The function behind `probe!`.
#[doc(hidden)]
#[inline]
pub fn pass(name: &str, value: &mut dyn Any) {
    if REGISTRY.counts.load(Ordering::Relaxed) {
        *PASSES.lock().entry(name.to_owned()).or_default() += 1;
    }
    if REGISTRY.is_on.load(Ordering::Acquire) {
        REGISTRY.pass(name, value);
    }
}

/// Passes of each point since counting began.
static PASSES: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// Begins to count the passes of each point, in all threads of the process; a campaign prints the
/// counts at its end. Without debug assertions nothing is ever counted.
pub fn count_passes() {
    REGISTRY.counts.store(true, Ordering::Relaxed);
}

/// The number of passes of each counted point.
pub fn passes() -> BTreeMap<String, u64> {
    PASSES.lock().clone()
}

impl Registry {
    #[cold]
    fn pass(&'static self, name: &str, value: &mut dyn Any) {
        let mut guard = self.state.lock();
        let Some(generation) = guard.as_ref().map(|s| s.generation) else { return };
        let current = |guard: &Option<State>| guard.as_ref().is_some_and(|s| s.generation == generation);
        while let Some(state) = guard.as_ref().filter(|s| s.generation == generation) {
            let missing = state.before.get(name).and_then(|b| b.iter().find(|p| !state.passed.contains(*p)));
            let Some(missing) = missing.cloned() else { break };
            let timed_out = self.changed.wait_for(&mut guard, PATIENCE).timed_out();
            assert!(
                !timed_out || !current(&guard),
                "probe `{name}` waits for `{missing}`, which no thread passes"
            );
        }
        let Some(state) = guard.as_mut().filter(|s| s.generation == generation) else { return };
        if let Some(call) = state.calls.get(name).cloned() {
            state.running += 1;
            drop(guard);
            let running = Running(self);
            call(value);
            drop(running);
            guard = self.state.lock();
        }
        if let Some(state) = guard.as_mut().filter(|s| s.generation == generation) {
            state.passed.insert(name.to_owned());
            self.changed.notify_all();
        }
    }
}

/// Counts a call as over, also if it panics.
struct Running(&'static Registry);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(state) = self.0.state.lock().as_mut() {
            state.running -= 1;
        }
        self.0.changed.notify_all();
    }
}

/// A test's control of the points, until it is dropped.
#[derive(Debug)]
pub struct Probes {
    _session: MutexGuard<'static, ()>,
}

impl Probes {
    /// Waits until no other `Probes` exists. Without debug assertions no point is ever passed.
    #[expect(clippy::new_without_default, reason = "it waits and takes hold of something")]
    pub fn new() -> Probes {
        static GENERATIONS: Mutex<u64> = Mutex::new(0);
        let session = REGISTRY.session.lock();
        let mut generations = GENERATIONS.lock();
        *generations += 1;
        *REGISTRY.state.lock() = Some(State { generation: *generations, ..State::default() });
        REGISTRY.is_on.store(true, Ordering::Release);
        Probes { _session: session }
    }

    fn change(&self, f: impl FnOnce(&mut State)) {
        f(REGISTRY.state.lock().as_mut().expect("the registry exists as long as a `Probes` lives"));
        REGISTRY.changed.notify_all();
    }

    /// Makes `after` wait until `before` has been passed.
    pub fn order(&self, before: &str, after: &str) -> &Probes {
        self.change(|s| s.before.entry(after.to_owned()).or_default().push(before.to_owned()));
        self
    }

    /// Calls `call` whenever `point` is passed, after any wait. It gets the value shown there, or
    /// `()`.
    pub fn on(&self, point: &str, call: impl Fn(&mut dyn Any) + Send + Sync + 'static) -> &Probes {
        self.change(|s| {
            s.calls.insert(point.to_owned(), Arc::new(call));
        });
        self
    }

    /// Calls `call` whenever the calling thread passes `point`. Other tests of the process pass the
    /// point in their own threads.
    pub fn on_this_thread(
        &self,
        point: &str,
        call: impl Fn(&mut dyn Any) + Send + Sync + 'static,
    ) -> &Probes {
        let this = std::thread::current().id();
        self.on(point, move |value| {
            if std::thread::current().id() == this {
                call(value);
            }
        })
    }

    /// Removes the call of this point. A call that has begun may still run.
    pub fn clear(&self, point: &str) {
        self.change(|s| {
            s.calls.remove(point);
        });
    }

    /// Whether `point` has been passed.
    pub fn has_passed(&self, point: &str) -> bool {
        REGISTRY.state.lock().as_ref().is_some_and(|s| s.passed.contains(point))
    }

    /// Waits until `point` has been passed.
    ///
    /// # Panics
    /// After two minutes.
    pub fn wait_for(&self, point: &str) {
        let mut guard = REGISTRY.state.lock();
        while !guard.as_ref().is_some_and(|s| s.passed.contains(point)) {
            let timed_out = REGISTRY.changed.wait_for(&mut guard, PATIENCE).timed_out();
            assert!(!timed_out, "no thread passes `{point}`");
        }
    }

    /// Clears the record of passed points.
    pub fn forget_passed(&self) {
        self.change(|s| s.passed.clear());
    }
}

impl Drop for Probes {
    /// Releases waiting threads and waits for running calls, because they borrow from the test. A
    /// call must not drop it.
    fn drop(&mut self) {
        REGISTRY.is_on.store(false, Ordering::Release);
        let mut guard = REGISTRY.state.lock();
        if let Some(state) = guard.as_mut() {
            state.before.clear();
            state.calls.clear();
        }
        REGISTRY.changed.notify_all();
        while guard.as_ref().is_some_and(|s| s.running > 0) {
            REGISTRY.changed.wait(&mut guard);
        }
        *guard = None;
        drop(guard);
        REGISTRY.changed.notify_all();
    }
}

#[cfg(all(test, debug_assertions))]
mod tests;
