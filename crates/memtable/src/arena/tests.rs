use super::*;

#[expect(clippy::mut_from_ref, reason = "each call hands out other bytes")]
fn take(arena: &Arena, len: usize) -> &mut [u8] {
    let place = arena.allocate_record(len, &ShardStats::NONE).unwrap();
    // SAFETY: `len` bytes that were allocated once, to us.
    let bytes =
        unsafe { std::slice::from_raw_parts_mut(place.as_ptr().cast::<std::mem::MaybeUninit<u8>>(), len) };
    bytes.fill(std::mem::MaybeUninit::new(0));
    // SAFETY: all of them were just written.
    unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [u8]) }
}

#[test]
fn memory_is_handed_out_once_and_counted() {
    let arena = Arena::new(64 << 10, true);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut taken = Vec::new();
    let mut asked = 0;
    for i in 0..if cfg!(miri) { 100 } else { 3000u32 } {
        let len = if i % 500 == 0 {
            rng.usize(0..if cfg!(miri) { 20_000 } else { 200_000 })
        } else {
            rng.usize(0..300)
        };
        let bytes = take(&arena, len);
        bytes.fill(i as u8);
        asked += len;
        taken.push((i as u8, bytes));
    }
    assert!(taken.iter().all(|(mark, bytes)| bytes.iter().all(|b| b == mark)));
    assert!(arena.allocated() >= asked);
    assert!(arena.allocated() < asked + asked / 4 + (256 << 10), "{} for {asked}", arena.allocated());
}

#[test]
fn nodes_are_aligned_and_a_small_arena_is_small() {
    let arena = Arena::new(1 << 20, true);
    let layout = Layout::from_size_align(1152, 128).unwrap();
    let node = arena.allocate_node(layout).unwrap();
    assert_eq!(node.as_ptr().addr() % 128, 0);
    take(&arena, 100).fill(1);
    assert!(arena.allocated() <= 6 << 10, "{}", arena.allocated());
}

#[test]
fn threads_do_not_share_bytes() {
    let arena = Arena::new(1 << 20, true);
    std::thread::scope(|scope| {
        for mark in 0..4u8 {
            let arena = &arena;
            scope.spawn(move || {
                let mut taken: Vec<_> =
                    (0..if cfg!(miri) { 60 } else { 2000 }).map(|i| take(arena, i % 90)).collect();
                taken.iter_mut().for_each(|b| b.fill(mark));
                assert!(taken.iter().all(|b| b.iter().all(|&x| x == mark)));
            });
        }
    });
}

#[test]
fn a_large_arena_gets_whole_huge_pages() {
    let arena = Arena::new(1 << 20, true);
    while arena.allocated() < HUGE_FROM_BYTES + 5 * HUGE_PAGE_BYTES {
        arena.allocate_record(60_000, &ShardStats::NONE).unwrap();
    }
    let blocks = arena.blocks.lock();
    let huge: Vec<_> = blocks.all.iter().filter(|(_, layout)| layout.align() == HUGE_PAGE_BYTES).collect();
    assert!(huge.len() >= 5);
    assert!(huge.iter().all(|(_, layout)| layout.size() == HUGE_PAGE_BYTES));
}

#[test]
fn the_last_blocks_of_an_arena_fit_the_growth_it_expects() {
    for expected in [100_000, 300_000, 5 << 20] {
        let arena = Arena::new(1 << 20, true).expecting(expected);
        while arena.carved() < expected {
            arena.allocate_record(50, &ShardStats::NONE).unwrap();
        }
        let (allocated, unused) = (arena.allocated(), arena.allocated() - arena.carved());
        assert!(unused <= expected / 8, "{unused} of {allocated} bytes are unused");
        // An arena takes more than it expects, too.
        (0..1000).for_each(|_| assert!(arena.allocate_record(500, &ShardStats::NONE).is_ok()));
        assert!(arena.carved() >= expected + 400_000 && arena.allocated() >= arena.carved());
    }
}
