use super::*;

fn ranges(min_keys: u64) -> DeadRanges {
    DeadRanges::new(InternalKeyComparator::default(), min_keys)
}

fn add(ranges: &DeadRanges, start: &str, end: &str, sequence: u64) {
    ranges.add(start.as_bytes(), end.as_bytes(), SequenceNumber(sequence), FileNumber(sequence + 1000));
}

/// Edge and sequence number.
fn find(ranges: &DeadRanges, user_key: &str, snapshot: u64, forward: bool) -> Option<(String, u64)> {
    let mut edge = Vec::new();
    let found = ranges.find(user_key.as_bytes(), SequenceNumber(snapshot), forward, &mut edge)?;
    assert_eq!(found.newest_file.0, found.sequence.0 + 1000);
    Some((String::from_utf8(found.edge.to_vec()).unwrap(), found.sequence.0))
}

fn some(edge: &str, sequence: u64) -> Option<(String, u64)> {
    Some((edge.to_owned(), sequence))
}

#[test]
fn the_range_that_leads_farthest_is_found() {
    let ranges = ranges(1);
    add(&ranges, "b", "f", 10);
    add(&ranges, "d", "k", 20);
    assert_eq!(find(&ranges, "a", 99, true), None);
    assert_eq!(find(&ranges, "b", 99, true), some("f", 10));
    assert_eq!(find(&ranges, "e", 99, true), some("k", 20));
    assert_eq!(find(&ranges, "e", 99, false), some("b", 10));
    assert_eq!(find(&ranges, "f", 99, false), some("d", 20));
    assert_eq!(find(&ranges, "k", 99, false), None, "the end is not in it");
    assert_eq!(find(&ranges, "e", 19, true), some("f", 10), "an older reader cannot use the newer one");
    assert_eq!(find(&ranges, "e", 9, true), None);
    add(&ranges, "m", "m", 30);
    add(&ranges, "p", "n", 30);
    assert_eq!(find(&ranges, "m", 99, true), None, "empty and inverted ranges are nothing");
}

#[test]
fn a_wider_newer_range_takes_the_place_of_older_ones_but_two() {
    let ranges = ranges(1);
    for sequence in [40, 10, 30, 20] {
        add(&ranges, "c", "d", sequence);
    }
    add(&ranges, "b", "e", 50);
    for (snapshot, expected) in [(9, None), (10, some("d", 10)), (20, some("d", 20)), (49, some("d", 20))] {
        assert_eq!(find(&ranges, "c", snapshot, true), expected, "at {snapshot}");
    }
    assert_eq!(find(&ranges, "c", 50, true), some("e", 50));
    add(&ranges, "b", "e", 50);
    assert_eq!(ranges.ranges.load_full().len(), 3, "what is known already takes no place");
}

#[test]
fn the_first_found_are_forgotten_first() {
    let ranges = ranges(1);
    for i in 0..=MAX_RANGES as u64 {
        add(&ranges, &format!("{i:04}a"), &format!("{i:04}b"), 5);
    }
    assert_eq!(ranges.ranges.load_full().len(), MAX_RANGES);
    assert_eq!(find(&ranges, "0000a", 9, true), None);
    assert_eq!(find(&ranges, "0001a", 9, true), some("0001b", 5));
    assert_eq!(find(&ranges.fresh(), "0001a", 9, true), None, "another history");
}

#[test]
fn zero_keys_mean_never() {
    assert_eq!(ranges(0).min_keys(), u64::MAX);
    assert_eq!(ranges(7).min_keys(), 7);
}
