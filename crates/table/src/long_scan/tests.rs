use super::*;

const CAPACITY: usize = 1 << 20;
const BLOCK: u64 = 4096;

fn block(number: u64) -> Range<u64> {
    number * BLOCK..(number + 1) * BLOCK
}

/// Whether each of the blocks, which come from the file, bypasses a full cache.
fn read(scan: &mut LongScan, scans: &LongScans, blocks: impl Iterator<Item = u64>) -> Vec<bool> {
    let bypasses = |number| {
        scan.pass(block(number));
        scan.decide_bypass(BLOCK, scans, CAPACITY, || CAPACITY)
    };
    blocks.map(bypasses).collect()
}

#[test]
fn after_a_quarter_of_the_capacity_blocks_bypass_the_cache_in_either_direction() {
    for backward in [false, true] {
        let (mut scan, scans) = (LongScan::default(), LongScans::default());
        let course = (0..256).map(|i| if backward { 255 - i } else { i });
        let went_by = read(&mut scan, &scans, course);
        assert_eq!(went_by.iter().position(|&by| by), Some(64), "a quarter of 256 blocks was inserted");
        assert!(went_by[64..].iter().all(|&by| by));
    }
}

#[test]
fn a_cache_with_room_takes_everything() {
    let (mut scan, scans) = (LongScan::default(), LongScans::default());
    for number in 0..1000 {
        scan.pass(block(number));
        assert!(!scan.decide_bypass(BLOCK, &scans, CAPACITY, || CAPACITY * 15 / 16));
    }
    scan.pass(block(1000));
    assert!(scan.decide_bypass(BLOCK, &scans, CAPACITY, || CAPACITY * 31 / 32));
}

#[test]
fn cached_blocks_count_as_passed_and_not_as_read() {
    let (mut scan, scans) = (LongScan::default(), LongScans::default());
    (0..200).for_each(|number| scan.pass(block(number)));
    let went_by = read(&mut scan, &scans, 200..300);
    assert_eq!(
        went_by.iter().position(|&by| by),
        Some(64),
        "a scan that found most blocks still adds its quarter"
    );
}

#[test]
fn a_scan_that_jumps_begins_anew() {
    let (mut scan, scans) = (LongScan::default(), LongScans::default());
    assert!(read(&mut scan, &scans, 0..100).contains(&true));
    assert_eq!(scans.0.load(Ordering::Relaxed), 1);
    assert!(!read(&mut scan, &scans, 500..564).contains(&true));
    assert_eq!(scans.0.load(Ordering::Relaxed), 0);
    assert!(
        !read(&mut scan, &scans, (1000..2000).step_by(3)).contains(&true),
        "single blocks do not bypass the cache"
    );
}

#[test]
fn a_long_scan_continues_from_table_to_table() {
    let (mut scan, scans) = (LongScan::default(), LongScans::default());
    read(&mut scan, &scans, 0..60);
    let (mut next, others) = (LongScan::default(), LongScans::default());
    next.continue_from(scan.so_far());
    drop(scan);
    let went_by = read(&mut next, &others, 0..20);
    assert_eq!(went_by.iter().position(|&by| by), Some(4));
    drop(next);
    assert_eq!((scans.0.load(Ordering::Relaxed), others.0.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn two_long_scans_of_a_table_put_their_blocks_into_the_cache() {
    let (mut one, mut other, scans) = (LongScan::default(), LongScan::default(), LongScans::default());
    assert!(read(&mut one, &scans, 0..100).contains(&true));
    // `other` finds the blocks that `one` has read, and reaches the same place.
    (0..100).for_each(|number| other.pass(block(number)));
    other.pass(block(100));
    assert!(!other.decide_bypass(BLOCK, &scans, CAPACITY, || CAPACITY));
    assert!(!read(&mut one, &scans, 100..200).contains(&true), "two scans run");
    drop(other);
    assert!(!read(&mut one, &scans, 200..300).contains(&false), "one scan runs again");
}
