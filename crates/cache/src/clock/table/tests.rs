use super::*;
use crate::entry::{About, Home};
use crate::role::Role;

#[test]
fn an_entry_that_loses_its_place_in_a_split_dies_with_its_handle() {
    let home = Home::new(Ledger::new(1000, false));
    let size = ClockTableSize { min_length: 8, max_length: 16, bucket_charge: 0 };
    let table: ClockTable<u64> = ClockTable::new(size, 7, Arc::clone(&home.ledger), None);
    let (key, mut evicted) = (CacheKey::new((1, 2), 3), EvictedList::new());
    let insert = |evicted: &mut EvictedList<u64>| {
        let about = About { key, charge: 1, role: Role::Misc, priority: CachePriority::Low };
        table.ledger.charge(1);
        match table.insert(CacheEntry::tentative(about, &home, 3), evicted) {
            ClockInsertOutcome::Added(handle) => handle,
            _ => panic!("the table is empty and has room"),
        }
    };
    let held = insert(&mut evicted);
    let guard = epoch::pin();
    let found = table.find(&key, &guard).unwrap();
    let full = (0..8).map(|at| table.bucket(at)).find(|bucket| bucket.entries(&guard).count() == 0).unwrap();
    let reserved: Vec<_> = std::iter::from_fn(|| full.reserve(1)).collect();
    assert_eq!(reserved.len(), PLACES);

    table.copy_into(full, &found, &mut evicted, &guard);

    assert!(table.find(&key, &guard).is_none());
    assert!(!Handle::is_in_cache(&held), "the handle says so");
    assert_eq!((table.occupancy(), *held), (0, 3), "it does not count, and lives as long as its handle");
    let second = insert(&mut evicted);
    assert_eq!((table.occupancy(), home.ledger.usage()), (1, 2));
    drop((held, second, guard));
    assert_eq!(home.ledger.usage(), 1);
}
