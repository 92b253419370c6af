//! Loom models of the clock table. Each model runs a pair of operations in all interleavings that
//! loom's search distinguishes with up to three preemptions.
//!
//! Command: `RUSTFLAGS="--cfg loom" cargo test -p esker-cache --profile stress --lib loom`.
//!
//! A model is a table of two buckets with some entries, and two threads. These hold in every
//! interleaving:
//!  * A value that a thread finds is the key's, and alive.
//!  * No key has two living entries.
//!  * In the end all values and charges are freed, and no bucket counts a spilled entry.

use super::*;
use crate::entry::{About, Borrowed, Home};
use crate::ledger::Ledger;
use crate::role::Role;
use esker_base::sync::process::atomic::AtomicUsize as Plain;
use loom::thread;

/// A value that stores its key until it is dropped.
struct Value {
    key: u64,
    alive: Arc<Plain>,
}

const GONE: u64 = u64::MAX;

impl Drop for Value {
    fn drop(&mut self) {
        assert_ne!(self.key, GONE, "the value was dropped twice");
        self.key = GONE;
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Model {
    table: ClockTable<Value>,
    home: Arc<Home<Value>>,
    alive: Arc<Plain>,
}

/// The seed of the models' hashes.
const SEED: u64 = 7;

/// The key with number `i`. The first split moves keys 0 and 1 to the new bucket.
fn key(i: u64) -> CacheKey {
    let key = |n: u64| CacheKey::new((1, 2), n);
    let moves = |&n: &u64| {
        let hash = key(n).hash(SEED);
        home(hash, 2) == 0 && home(hash, 3) == 2
    };
    if i < 2 { key((1000..).filter(moves).nth(i as usize).expect("one key in four moves")) } else { key(i) }
}

impl Model {
    fn new(entries: u64) -> Model {
        let size = ClockTableSize { min_length: 2, max_length: 4, bucket_charge: 0 };
        let home = Home::new(Ledger::new(1000, false));
        let ledger = Arc::clone(&home.ledger);
        let model =
            Model { table: ClockTable::new(size, SEED, ledger, None), alive: Arc::new(Plain::new(0)), home };
        (0..entries).for_each(|i| drop(model.insert(i)));
        model
    }

    fn insert(&self, i: u64) -> Handle<Value> {
        self.alive.fetch_add(1, Ordering::Relaxed);
        let value = Value { key: i, alive: Arc::clone(&self.alive) };
        let about = About { key: key(i), charge: 1, role: Role::Misc, priority: CachePriority::Bottom };
        self.table.ledger.charge(1);
        let mut evicted = EvictedList::new();
        let mine = CacheEntry::tentative(about, &self.home, value);
        let handle = match self.table.insert(mine, &mut evicted) {
            ClockInsertOutcome::Added(handle)
            | ClockInsertOutcome::Found(handle)
            | ClockInsertOutcome::Detached(handle) => handle,
        };
        assert_eq!(handle.key, i);
        handle
    }

    fn lookup(&self, i: u64) -> Option<Handle<Value>> {
        let guard = epoch::pin();
        let found = self.table.find(&key(i), &guard)?;
        found.touch();
        let handle = found.entry.pin()?;
        drop(guard);
        assert_eq!(handle.key, i);
        assert!(!handle.entry().is_uncharged(), "a held value is charged");
        Some(handle)
    }

    /// Reads a value twice under one guard, and yields between the reads. Returns whether the table
    /// has the value.
    fn read(&self, i: u64) -> bool {
        let guard = epoch::pin();
        let found = self.table.find(&key(i), &guard);
        let Some(borrowed) = found.and_then(|found| Borrowed::new(found.entry)) else { return false };
        assert_eq!(borrowed.key, i);
        thread::yield_now();
        assert_eq!(borrowed.key, i);
        true
    }

    fn split(&self) {
        let guard = epoch::pin();
        let Some(_growing) = self.table.growing.try_lock() else { return };
        let length = self.table.length();
        if length < self.table.max_length {
            self.table.split(length, &mut EvictedList::new(), &guard);
        }
    }

    /// Living entries with this key.
    fn count(&self, i: u64) -> usize {
        let guard = epoch::pin();
        let buckets = (0..self.table.length()).map(|at| self.table.bucket(at));
        let mut living: Vec<_> = buckets
            .flat_map(|bucket| bucket.entries(&guard))
            .filter(|found| found.entry.about.key == key(i) && !found.entry.is_dead())
            .map(|found| ptr::from_ref(found.entry))
            .collect();
        living.dedup();
        living.len()
    }

    /// Evicts everything, and checks that nothing is left.
    fn end(&self, keys: u64) {
        for i in 0..keys {
            let count = self.count(i);
            assert!(count <= 1, "{count} living entries of key {i}");
            assert_eq!(self.lookup(i).is_some(), count == 1, "a living entry is found");
        }
        let living: usize = (0..keys).map(|i| self.count(i)).sum();
        assert_eq!((self.table.occupancy(), self.table.ledger.usage()), (living, living));
        // In three passes all clocks reach zero, and all entries are evicted.
        (0..3).for_each(|_| _ = self.table.evict(usize::MAX, usize::MAX));
        assert_eq!(
            (self.table.occupancy(), self.table.ledger.usage(), self.table.ledger.deferred_free()),
            (0, 0, 0)
        );
        assert_eq!((self.table.ledger.detached(), self.alive.load(Ordering::Relaxed)), (0, 0));
        assert!((0..self.table.length()).all(|at| !self.table.bucket(at).has_spilled()));
    }
}

/// Runs `one` and `other` at once over a table with `entries`, in all interleavings with at most
/// `preemptions`.
fn pair(preemptions: usize, entries: u64, one: fn(&Model), other: fn(&Model)) {
    let runs = Arc::new(Plain::new(0));
    for swapped in [false, true] {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.max_branches = 50_000;
        let counter = Arc::clone(&runs);
        builder.check(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            let model = Arc::new(Model::new(entries));
            let (here, there) = if swapped { (other, one) } else { (one, other) };
            let theirs = Arc::clone(&model);
            let thread = thread::spawn(move || there(&theirs));
            here(&model);
            thread.join().expect("no assertion failed");
            model.end(entries + 2);
        });
    }
    println!("{} runs", runs.load(Ordering::Relaxed));
}

/// The operations that the models pair. They use key 0, which is in the table, or 1, which is not.
const INSERT_SAME: fn(&Model) = |m| drop(m.insert(0));
const INSERT_NEW: fn(&Model) = |m| drop(m.insert(1));
const LOOKUP: fn(&Model) = |m| drop(m.lookup(0));
const LOOKUP_NEW: fn(&Model) = |m| drop(m.lookup(1));
const READ: fn(&Model) = |m| _ = m.read(0);
const ERASE: fn(&Model) = |m| _ = m.table.erase(&key(0));
const ERASE_NEW: fn(&Model) = |m| _ = m.table.erase(&key(1));
const EVICT: fn(&Model) = |m| _ = m.table.evict(1, usize::MAX);
const SPLIT: fn(&Model) = Model::split;

macro_rules! pairs {
    ($($name:ident: $one:ident, $other:ident;)*) => {
        $(
            #[test]
            fn $name() {
                pair(3, 1, $one, $other);
            }
        )*
    };
}

pairs! {
    loom_two_inserts_of_a_key: INSERT_NEW, INSERT_NEW;
    loom_insert_and_insert_of_another: INSERT_NEW, INSERT_SAME;
    loom_insert_and_lookup: INSERT_NEW, LOOKUP_NEW;
    loom_insert_and_erase: INSERT_NEW, ERASE_NEW;
    loom_insert_and_evict: INSERT_NEW, EVICT;
    loom_insert_and_split: INSERT_NEW, SPLIT;
    loom_insert_again_and_erase: INSERT_SAME, ERASE;
    loom_insert_again_and_evict: INSERT_SAME, EVICT;
    loom_lookup_and_erase: LOOKUP, ERASE;
    loom_lookup_and_evict: LOOKUP, EVICT;
    loom_lookup_and_split: LOOKUP, SPLIT;
    loom_two_lookups: LOOKUP, LOOKUP;
    loom_read_and_erase: READ, ERASE;
    loom_read_and_evict: READ, EVICT;
    loom_read_and_split: READ, SPLIT;
    loom_two_erases: ERASE, ERASE;
    loom_erase_and_evict: ERASE, EVICT;
    loom_erase_and_split: ERASE, SPLIT;
    loom_two_evictions: EVICT, EVICT;
    loom_evict_and_split: EVICT, SPLIT;
    loom_two_splits: SPLIT, SPLIT;
}

/// One thread releases its last handle of an entry while the other thread erases the entry.
#[test]
fn loom_last_handle_and_erase() {
    pair(2, 0, |m| drop(m.insert(0)), |m| _ = m.table.erase(&key(0)));
    pair(
        2,
        1,
        |m| {
            let handle = m.lookup(0);
            let clone = handle.clone();
            drop(handle);
            drop(clone);
        },
        |m| {
            m.table.erase(&key(0));
            drop(m.insert(0));
        },
    );
}

/// Buckets so full that entries are in their second choices, or displace others.
#[test]
fn loom_full_buckets() {
    pair(2, 13, |m| drop(m.insert(13)), |m| drop(m.insert(14)));
    pair(2, 13, |m| drop(m.insert(13)), SPLIT);
    // The same key twice, once perhaps in its second bucket.
    pair(2, 13, |m| drop(m.insert(13)), |m| drop(m.insert(13)));
}
