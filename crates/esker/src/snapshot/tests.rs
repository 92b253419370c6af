use super::*;
use esker_testkit::seed::for_each_seed;

fn seq(n: u64) -> SequenceNumber {
    SequenceNumber(n)
}

#[test]
fn equal_numbers_are_counted_and_listed_once() {
    let mut list = SnapshotList::new();
    let nine = list.acquire(seq(9), Holder::User, || 100);
    let five = list.acquire(seq(5), Holder::User, || 90);
    let nine_again = list.acquire(seq(9), Holder::User, || 110);
    assert_eq!(list.all(), [seq(5), seq(9)]);
    assert_eq!((list.len(), list.oldest()), (3, Some(seq(5))));
    assert_eq!(list.oldest_unix_time(), 90);
    assert!(!list.release(nine));
    assert!(list.release(five));
    assert_eq!((list.oldest(), list.oldest_unix_time()), (Some(seq(9)), 100));
    assert!(list.release(nine_again));
    assert!(list.is_empty());
    assert_eq!((list.oldest(), list.oldest_unix_time()), (None, 0));
}

#[test]
fn iterators_keep_what_they_see_and_do_not_count() {
    let mut list = SnapshotList::new();
    let iterator = list.acquire(seq(3), Holder::Iterator, || 30);
    let user = list.acquire(seq(7), Holder::User, || 70);
    assert_eq!(list.all(), [seq(3), seq(7)]);
    assert_eq!((list.len(), list.oldest(), list.oldest_of_users()), (1, Some(seq(3)), Some(seq(7))));
    assert_eq!(list.oldest_unix_time(), 70);
    list.release(user);
    assert!(list.is_empty());
    assert_eq!((list.oldest(), list.oldest_of_users()), (Some(seq(3)), None));
    assert!(list.release(iterator));
}

#[test]
#[should_panic(expected = "released once")]
fn giving_back_twice_is_a_fault_of_the_engine() {
    let mut list = SnapshotList::new();
    let ticket = list.acquire(seq(1), Holder::Iterator, || 0);
    list.release(ticket);
    list.release(ticket);
}

/// Compares the list with a plain vector of held numbers.
#[test]
fn the_list_is_the_multiset_of_what_is_held() {
    for_each_seed("snapshot_list", 20, |seed, mut rng| {
        let (mut list, mut model) = (SnapshotList::new(), Vec::new());
        for _ in 0..300 {
            if model.is_empty() || rng.bool() {
                let n = seq(rng.u64(1..30));
                let holder = if rng.bool() { Holder::User } else { Holder::Iterator };
                model.push((n, list.acquire(n, holder, || 0)));
            } else {
                let (n, ticket) = model.swap_remove(rng.usize(..model.len()));
                assert_eq!(list.release(ticket), model.iter().all(|(m, _)| *m != n), "seed {seed}");
            }
            let users: Vec<_> = model.iter().filter(|(_, t)| t.holder == Holder::User).collect();
            let mut expected: Vec<_> = model.iter().map(|(n, _)| *n).collect();
            expected.sort_unstable();
            assert_eq!((list.len(), list.oldest()), (users.len(), expected.first().copied()), "seed {seed}");
            assert_eq!(list.oldest_of_users(), users.iter().map(|(n, _)| *n).min(), "seed {seed}");
            expected.dedup();
            assert_eq!(list.all(), expected, "seed {seed}");
            let mut ends = (list.node(list.first), list.node(list.last));
            assert!(
                ends.0.take().is_none_or(|n| n.before == NIL)
                    && ends.1.take().is_none_or(|n| n.behind == NIL)
            );
        }
    });
}

#[test]
fn the_oldest_is_known_without_the_lock() {
    let live = LiveSnapshots::new();
    assert_eq!(live.oldest(), None);
    let take = |n| live.acquire(|| seq(n), Holder::User, || 0).1;
    let (five, six, seven) = (take(5), take(6), take(7));
    assert_eq!(live.oldest(), Some(seq(5)));
    let give_back = |ticket| live.release(ticket, || seq(9));
    assert_eq!((give_back(six), live.oldest()), (seq(5), Some(seq(5))));
    assert_eq!((give_back(five), live.oldest()), (seq(7), Some(seq(7))));
    assert_eq!((give_back(seven), live.oldest()), (seq(9), None));
}

/// `release` returns a number that no live snapshot precedes. If it were newer than a snapshot
/// taken meanwhile, files of the last level that this snapshot needs would be rewritten again and
/// again.
#[test]
#[cfg(not(any(loom, shuttle)))]
fn a_release_returns_a_number_older_than_one_taken_meanwhile() {
    let (live, visible) = (LiveSnapshots::new(), AtomicU64::new(1));
    let now = || seq(visible.load(Ordering::Acquire));
    let (_, ticket) = live.acquire(now, Holder::User, || 0);
    std::thread::scope(|scope| {
        let mut taker = None;
        let oldest = live.release(ticket, || {
            taker = Some(scope.spawn(|| live.acquire(now, Holder::User, || 0).0));
            esker_env::Env::default().clock.sleep(std::time::Duration::from_millis(50));
            visible.store(2, Ordering::Release);
            now()
        });
        let taken = taker.expect("none was held").join().unwrap();
        assert!(oldest <= taken, "the oldest number is {oldest}, but a reader holds {taken}");
    });
}

struct Owner(LiveSnapshots);

impl SnapshotOwner for Owner {
    fn into_any(self: Arc<Self>) -> Arc<dyn std::any::Any + Send + Sync> {
        self
    }

    fn release_snapshot(&self, ticket: Ticket) {
        self.0.release(ticket, || SequenceNumber::MAX);
    }
}

#[test]
fn the_last_clone_gives_the_number_back() {
    let owner = || Arc::new(Owner(LiveSnapshots::new()));
    let (owner, other) = (owner(), owner());
    let (sequence, ticket) = owner.0.acquire(|| seq(7), Holder::User, || 0);
    let snapshot = Snapshot::new(sequence, ticket, owner.clone());
    let clone = snapshot.clone();
    assert!(snapshot.belongs_to(&*owner));
    assert!(!snapshot.belongs_to(&*other));
    drop(snapshot);
    assert_eq!(owner.0.all(), [seq(7)]);
    assert_eq!(clone.sequence(), seq(7));
    drop(clone);
    assert_eq!(owner.0.oldest(), None);
}

/// Takes a snapshot and gives it back, beside a write that replaces a value and a compaction that
/// may drop the old one. In all interleavings that loom distinguishes (`cargo xtask long loom`).
#[cfg(loom)]
mod models {
    use super::*;
    use esker_base::sync::process::atomic::AtomicUsize;
    use loom::thread;

    /// A key with an old and a new version.
    struct Key {
        live: LiveSnapshots,
        visible: AtomicU64,
        /// The compaction has dropped the old version.
        is_old_gone: AtomicU64,
    }

    const OLD: u64 = 1;
    const NEW: u64 = 2;

    impl Key {
        fn new() -> Arc<Key> {
            let live = LiveSnapshots::new();
            Arc::new(Key { live, visible: AtomicU64::new(OLD), is_old_gone: AtomicU64::new(0) })
        }

        /// Works like a flush or a compaction: its inputs hold the entries visible before, then it
        /// reads the list of snapshots.
        fn compact(&self) {
            let has_new = self.visible.load(Ordering::Acquire) >= NEW;
            let is_needed = self.live.all().iter().any(|held| held.0 < NEW);
            if has_new && !is_needed {
                self.is_old_gone.store(1, Ordering::Release);
            }
        }

        /// Reads at a snapshot, twice, and gives it back.
        fn read(&self) -> SequenceNumber {
            let now = || SequenceNumber(self.visible.load(Ordering::Acquire));
            let (sequence, ticket) = self.live.acquire(now, Holder::User, || 0);
            for _ in 0..2 {
                let is_gone = self.is_old_gone.load(Ordering::Acquire) == 1;
                assert!(sequence.0 >= NEW || !is_gone, "a version that a snapshot sees was dropped");
                thread::yield_now();
            }
            self.live.release(ticket, now);
            sequence
        }
    }

    /// Runs `once` in all interleavings with up to this many preemptions.
    #[expect(clippy::print_stdout, reason = "how much was searched is part of the result")]
    fn explore(name: &str, preemptions: usize, once: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        let runs = std::sync::Arc::new(AtomicUsize::new(0));
        let counter = runs.clone();
        builder.check(move || {
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            once();
        });
        let runs = runs.load(std::sync::atomic::Ordering::Relaxed);
        println!("{name}: {runs} runs");
        assert!(runs >= 20, "{runs} runs cannot have been all interleavings");
    }

    #[test]
    fn loom_a_compaction_keeps_what_a_snapshot_sees_that_is_taken_beside_it() {
        explore("snapshot beside a compaction", 3, || {
            let key = Key::new();
            let reader = key.clone();
            let reader = thread::spawn(move || reader.read());
            let compaction = key.clone();
            let compaction = thread::spawn(move || compaction.compact());
            key.visible.store(NEW, Ordering::Release);
            reader.join().unwrap();
            compaction.join().unwrap();
            assert_eq!(key.live.oldest(), None);
            assert!(key.live.all().is_empty());
        });
    }

    #[test]
    fn loom_a_release_returns_a_number_older_than_all_that_are_held() {
        explore("a number given back beside one that is taken", 3, || {
            let key = Key::new();
            let now = |key: &Key| SequenceNumber(key.visible.load(Ordering::Acquire));
            let ticket = key.live.acquire(|| now(&key), Holder::User, || 0).1;
            let taker = key.clone();
            let taker = thread::spawn(move || {
                let (sequence, _) = taker.live.acquire(|| now(&taker), Holder::User, || 0);
                assert!(taker.live.oldest_at_release() <= sequence);
                sequence
            });
            let writer = key.clone();
            let writer = thread::spawn(move || writer.visible.store(NEW, Ordering::Release));
            key.live.raise_oldest_at_release(key.live.release(ticket, || now(&key)));
            let sequence = taker.join().unwrap();
            writer.join().unwrap();
            assert!(key.live.oldest_at_release() <= sequence);
        });
    }

    #[test]
    fn loom_the_oldest_number_is_that_of_the_list_while_none_is_taken_or_released() {
        explore("the oldest number", 3, || {
            let key = Key::new();
            let (one, two) = (key.clone(), key.clone());
            let one = thread::spawn(move || {
                let (sequence, ticket) = one.live.acquire(|| seq(OLD), Holder::Iterator, || 0);
                // Its own number is held: the oldest is no newer.
                assert!(one.live.oldest().is_some_and(|oldest| oldest <= sequence));
                one.live.release(ticket, || seq(NEW));
            });
            let two = thread::spawn(move || two.live.acquire(|| seq(NEW), Holder::User, || 0).1);
            // The oldest number was held by some thread.
            assert!(key.live.oldest().is_none_or(|oldest| oldest.0 == OLD || oldest.0 == NEW));
            one.join().unwrap();
            let ticket = two.join().unwrap();
            assert_eq!(key.live.oldest(), Some(seq(NEW)));
            key.live.release(ticket, || seq(NEW));
            assert_eq!(key.live.oldest(), None);
        });
    }
}
