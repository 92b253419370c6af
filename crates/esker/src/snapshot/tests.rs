use super::*;
use esker_base::sync::Mutex;
use esker_testkit::seed::for_each_seed;

fn seq(n: u64) -> SequenceNumber {
    SequenceNumber(n)
}

#[test]
fn equal_numbers_are_counted_and_listed_once() {
    let mut list = SnapshotList::new();
    list.acquire(seq(9), 100);
    list.acquire(seq(5), 90);
    list.acquire(seq(9), 110);
    assert_eq!(list.all(), [seq(5), seq(9)]);
    assert_eq!((list.len(), list.oldest(), list.newest()), (3, Some(seq(5)), Some(seq(9))));
    assert_eq!(list.oldest_unix_time(), 90);
    assert!(!list.release(seq(9)));
    assert!(list.release(seq(5)));
    assert_eq!((list.oldest(), list.oldest_unix_time()), (Some(seq(9)), 100));
    assert!(list.release(seq(9)));
    assert!(list.is_empty());
    assert_eq!((list.oldest(), list.oldest_unix_time()), (None, 0));
}

#[test]
#[should_panic(expected = "released once")]
fn giving_back_twice_is_a_fault_of_the_engine() {
    let mut list = SnapshotList::new();
    list.acquire(seq(1), 0);
    list.release(seq(1));
    list.release(seq(1));
}

/// Against a plain vector of what is held.
#[test]
fn the_list_is_the_multiset_of_what_is_held() {
    for_each_seed("snapshot_list", 20, |seed, mut rng| {
        let (mut list, mut model) = (SnapshotList::new(), Vec::new());
        for _ in 0..300 {
            if model.is_empty() || rng.bool() {
                let n = seq(rng.u64(1..30));
                list.acquire(n, 0);
                model.push(n);
            } else {
                let n = model.swap_remove(rng.usize(..model.len()));
                assert_eq!(list.release(n), !model.contains(&n), "seed {seed}");
            }
            let mut expected = model.clone();
            expected.sort_unstable();
            assert_eq!((list.len(), list.oldest()), (model.len(), expected.first().copied()), "seed {seed}");
            expected.dedup();
            assert_eq!(list.all(), expected, "seed {seed}");
        }
    });
}

#[derive(Default)]
struct Owner(Mutex<SnapshotList>);

impl SnapshotOwner for Owner {
    fn release_snapshot(&self, sequence: SequenceNumber) {
        self.0.lock().release(sequence);
    }
}

#[test]
fn the_last_clone_gives_the_number_back() {
    let (owner, other) = (Arc::new(Owner::default()), Arc::new(Owner::default()));
    owner.0.lock().acquire(seq(7), 0);
    let snapshot = Snapshot::new(seq(7), owner.clone());
    let clone = snapshot.clone();
    assert!(snapshot.belongs_to(&owner));
    assert!(!snapshot.belongs_to(&other));
    drop(snapshot);
    assert_eq!(owner.0.lock().all(), [seq(7)]);
    assert_eq!(clone.sequence(), seq(7));
    drop(clone);
    assert!(owner.0.lock().is_empty());
}
