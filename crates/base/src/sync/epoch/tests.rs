//! Checks a `Swap` with readers and writers in all interleavings that loom distinguishes (`cargo
//! xtask long loom`). The epochs are those of `crossbeam-epoch`, built for loom.
//!
//! Shown for every interleaving
//!  * A value that a guard has loaded is not freed while the guard lives. The free is ordered after
//!    the reader's last look.
//!  * Every value is freed once: replaced ones when no guard is left, the last one with its `Swap`.

use super::*;
use crate::sync::process::atomic::AtomicUsize;
use loom::cell::UnsafeCell;
use loom::thread;

/// The content of a value from its completion until it is freed.
const ALIVE: usize = 7;

/// Number of frees of each value of a run.
type Freed = std::sync::Arc<[AtomicUsize; 3]>;

struct Value {
    number: usize,
    freed: Freed,
    /// The writer sets it before the store, readers read it, and the drop clears it. loom reports
    /// accesses without an order.
    content: UnsafeCell<usize>,
}

// SAFETY: `content` is written only while no other thread has the value; loom checks that.
unsafe impl Sync for Value {}

impl Drop for Value {
    fn drop(&mut self) {
        self.freed[self.number].fetch_add(1, Ordering::Relaxed);
        // SAFETY: the value is being dropped.
        self.content.with_mut(|content| unsafe { *content = 0 });
    }
}

/// One run: its swap, the addresses of its values, and how often each value was freed. All values
/// are made at the start, so that no two have the same address.
struct Run {
    swap: Swap<Value>,
    addresses: [usize; 3],
    freed: Freed,
}

impl Run {
    /// The swap holds the first value; the others are to be stored.
    fn new() -> (Arc<Run>, [Arc<Value>; 2]) {
        let freed = Freed::default();
        let values = [0, 1, 2].map(|number| {
            let content = if number == 0 { ALIVE } else { 0 };
            Arc::new(Value { number, freed: freed.clone(), content: UnsafeCell::new(content) })
        });
        let addresses = values.each_ref().map(|value| Arc::as_ptr(value).addr());
        let [first, second, third] = values;
        (Arc::new(Run { swap: Swap::new(first), addresses, freed }), [second, third])
    }

    /// Checks that a loaded value is alive, and returns its number.
    fn look(&self, value: &Value) -> usize {
        let address = std::ptr::from_ref(value).addr();
        let number = self.addresses.iter().position(|a| *a == address).expect("a value of this run");
        assert_eq!(self.freed[number].load(Ordering::Relaxed), 0, "value {number} was freed under a guard");
        // SAFETY: the value is not freed, and a published value changes only when it is freed.
        assert_eq!(value.content.with(|content| unsafe { *content }), ALIVE);
        number
    }

    fn read(&self) {
        let guard = pin();
        let value = self.swap.load(&guard);
        let number = self.look(value);
        self.look(self.swap.load(&guard));
        assert_eq!(self.look(value), number);
    }

    /// Completes a value and stores it at once, so that loom sees a reader of an incomplete value.
    fn replace(&self, value: Arc<Value>) {
        // SAFETY: no other thread has the value yet; loom checks that.
        value.content.with_mut(|content| unsafe { *content = ALIVE });
        self.swap.store(value);
        collect();
    }

    /// Checks the frees after all threads have returned. At first only the `replaced` values are
    /// freed, each once; after the swap's drop all are.
    fn end(run: Arc<Run>, replaced: [usize; 3]) {
        let freed = run.freed.clone();
        let counts = || freed.each_ref().map(|count| count.load(Ordering::Relaxed));
        collect_until(|| counts() == replaced);
        let run = Arc::into_inner(run).expect("all other threads have returned");
        assert_eq!(counts(), replaced);
        drop(run);
        collect_until(|| counts() == [1; 3]);
    }
}

/// Runs other threads (loom ends a thread's epochs after its `join`), and frees unguarded values.
fn collect_until(is_freed: impl Fn() -> bool) {
    for _ in 0..10 {
        if is_freed() {
            return;
        }
        collect();
        thread::yield_now();
    }
    assert!(is_freed(), "no guard is open, but not all values are freed");
}

/// Runs `once` in all interleavings with at most this many preemptions. Fails after too few runs:
/// such a search has explored nothing.
#[expect(clippy::print_stdout, reason = "how much was searched is part of the result")]
fn explore(name: &str, preemptions: usize, once: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    let runs = std::sync::Arc::new(AtomicUsize::new(0));
    let counter = runs.clone();
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        once();
    });
    let runs = runs.load(Ordering::Relaxed);
    println!("{name}: {runs} runs");
    assert!(runs >= 100, "{runs} runs cannot have been all interleavings");
}

fn spawn(run: &Arc<Run>, work: impl FnOnce(&Run) + 'static) -> thread::JoinHandle<()> {
    let run = Arc::clone(run);
    thread::spawn(move || work(&run))
}

#[test]
fn loom_a_value_loaded_under_a_guard_outlives_its_replacement() {
    explore("a reader and a writer", 2, || {
        let (run, [second, third]) = Run::new();
        drop(third);
        let reader = spawn(&run, Run::read);
        run.replace(second);
        reader.join().expect("no assertion failed");
        Run::end(run, [1, 0, 1]);
    });
}

#[test]
fn loom_two_replacements_beside_a_reader() {
    explore("a reader and two replacements", 1, || {
        let (run, [second, third]) = Run::new();
        let reader = spawn(&run, Run::read);
        run.replace(second);
        run.replace(third);
        reader.join().expect("no assertion failed");
        Run::end(run, [1, 1, 0]);
    });
}

#[test]
fn loom_two_writers_free_each_replaced_value_once() {
    explore("two writers", 1, || {
        let (run, [second, third]) = Run::new();
        let writer = spawn(&run, move |run| run.replace(third));
        run.replace(second);
        writer.join().expect("no assertion failed");
        let in_force = run.look(run.swap.load(&pin()));
        assert_ne!(in_force, 0);
        Run::end(run, if in_force == 1 { [1, 0, 1] } else { [1, 1, 0] });
    });
}

#[test]
fn loom_a_counted_value_outlives_guards_and_replacement() {
    explore("a counted value", 1, || {
        let (run, [second, third]) = Run::new();
        drop(third);
        let holder = {
            let run = Arc::clone(&run);
            thread::spawn(move || {
                let value = run.swap.load_full();
                run.look(&value);
                value
            })
        };
        run.replace(second);
        let value = holder.join().expect("no assertion failed");
        collect();
        let number = run.look(&value);
        drop(value);
        assert!(number < 2);
        Run::end(run, [1, 0, 1]);
    });
}

/// The memtables of a view, newest first. Each stores the newest sequence number that was inserted.
struct View(Vec<std::sync::Arc<AtomicUsize>>);

impl View {
    fn newest(&self) -> usize {
        self.0.iter().map(|memtable| memtable.load(Ordering::Relaxed)).max().unwrap_or(0)
    }
}

/// Reads that outlast a call take their point in time in three steps: the view, the sequence
/// number, and a check that the view is still current. They may move to a newer view at any time.
#[test]
fn loom_a_point_in_time_sees_all_that_was_published_before_it() {
    explore("a point beside a write, a switch, a write", 2, || {
        let first = std::sync::Arc::new(AtomicUsize::new(0));
        let swap = Arc::new(Swap::new(Arc::new(View(vec![first.clone()]))));
        let visible = Arc::new(super::super::atomic::AtomicUsize::new(0));
        let writer = {
            let (swap, visible) = (Arc::clone(&swap), Arc::clone(&visible));
            thread::spawn(move || {
                first.store(1, Ordering::Relaxed);
                visible.store(1, Ordering::Release);
                let second = std::sync::Arc::new(AtomicUsize::new(0));
                swap.store(Arc::new(View(vec![second.clone(), first])));
                second.store(2, Ordering::Relaxed);
                visible.store(2, Ordering::Release);
            })
        };
        let found = (0..3).find_map(|_| {
            let view = swap.load_full();
            let sequence = visible.load(Ordering::Acquire);
            swap.holds(&view).then_some((view, sequence))
        });
        let (view, sequence) = found.expect("the model has one other view");
        assert!(view.newest() >= sequence, "the view lacks a published write");
        let later = swap.load_full();
        assert!(later.newest() >= sequence, "a newer view lacks a published write");
        drop((view, later));
        writer.join().expect("no assertion failed");
        assert!(swap.load_full().newest() == 2);
    });
}
