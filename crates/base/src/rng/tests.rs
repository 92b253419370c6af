use super::*;

#[test]
fn the_same_seed_gives_the_same_numbers() {
    let (mut a, mut b, mut c) = (Rng::new(7), Rng::new(7), Rng::new(8));
    let numbers = |r: &mut Rng| (0..100).map(|_| r.next_u64()).collect::<Vec<_>>();
    let first = numbers(&mut a);
    assert_eq!(first, numbers(&mut b));
    assert_ne!(first, numbers(&mut c));
}

#[test]
fn numbers_stay_in_range_and_reach_all_of_it() {
    let mut rng = Rng::new(1);
    let mut seen = [0; 10];
    for _ in 0..10_000 {
        seen[rng.index(10)] += 1;
        assert!((5..=9).contains(&rng.between(5, 9)));
        assert!((0.0..1.0).contains(&rng.next_f64()));
    }
    assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
    assert_eq!((rng.below(0), rng.below(1)), (0, 0));
    assert!(rng.one_in(1) && rng.one_in(0));
    rng.between(0, u64::MAX);
}

#[test]
fn shuffling_keeps_every_item() {
    let mut items: Vec<u32> = (0..100).collect();
    Rng::new(3).shuffle(&mut items);
    assert!(!items.is_sorted());
    items.sort_unstable();
    assert_eq!(items, (0..100).collect::<Vec<_>>());
}
