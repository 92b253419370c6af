use super::*;

/// A scan at this sequence number, without own writes.
fn at(sequence: u64) -> (SequenceNumber, SequenceNumber) {
    (SequenceNumber(sequence), SequenceNumber(sequence))
}

fn ranges(min_keys: u64) -> DeletedRunMemory {
    DeletedRunMemory::new(InternalKeyComparator::default(), min_keys, None)
}

fn add(ranges: &DeletedRunMemory, start: &str, end: &str, sequence: u64) {
    ranges.add(start.as_bytes(), end.as_bytes(), at(sequence), FileNumber(sequence + 1000));
}

/// Run end and sequence number.
fn find(ranges: &DeletedRunMemory, user_key: &str, snapshot: u64, forward: bool) -> Option<(String, u64)> {
    let mut run_end = Vec::new();
    let found = ranges.find(user_key.as_bytes(), SequenceNumber(snapshot), forward, &mut run_end)?;
    assert_eq!(found.newest_file.0, found.sequence.0 + 1000);
    Some((String::from_utf8(found.run_end.to_vec()).unwrap(), found.sequence.0))
}

fn some(run_end: &str, sequence: u64) -> Option<(String, u64)> {
    Some((run_end.to_owned(), sequence))
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
    assert_eq!(find(&ranges, "k", 99, false), None, "the run excludes its end");
    assert_eq!(find(&ranges, "e", 19, true), some("f", 10), "an older reader cannot use the newer run");
    assert_eq!(find(&ranges, "e", 9, true), None);
    add(&ranges, "m", "m", 30);
    add(&ranges, "p", "n", 30);
    assert_eq!(find(&ranges, "m", 99, true), None, "empty and inverted ranges are not stored");
}

/// A queue is popped: the run at its front grows with each scan.
#[test]
fn readers_at_older_sequence_numbers_find_a_range_of_a_recent_scan() {
    let ranges = ranges(1);
    let end = |sequence: u64| format!("{sequence:05}");
    for newest in 1..=500_u64 {
        add(&ranges, "", &end(newest), newest);
        for (age, most) in [(0, 0), (1, 100), (9, 100)] {
            let snapshot = newest.saturating_sub(age);
            let Some((run_end, sequence)) = find(&ranges, "0", snapshot, true) else {
                assert!(snapshot == 0, "nothing at {snapshot} of {newest}");
                continue;
            };
            assert_eq!(run_end, end(sequence));
            assert!((newest.saturating_sub(most)..=snapshot).contains(&sequence), "{sequence} at {snapshot}");
        }
    }
    assert_eq!(ranges.layers.load_full().len(), 3);
    add(&ranges, "", &end(500), 500);
    assert_eq!(ranges.layers.load_full().len(), 3, "a known run takes no place");
}

#[test]
fn ranges_of_one_point_in_time_that_overlap_are_joined() {
    let ranges = ranges(1);
    add(&ranges, "b", "d", 5);
    add(&ranges, "f", "h", 5);
    ranges.add(b"c", b"g", at(5), FileNumber(7));
    let mut run_end = Vec::new();
    let found = ranges.find(b"b", SequenceNumber(5), true, &mut run_end).unwrap();
    assert_eq!(
        (found.run_end, found.newest_file),
        (&b"h"[..], FileNumber(7)),
        "the joined run has the newest file that all parts saw"
    );
    assert_eq!(ranges.layers.load_full().len(), 1);
}

#[test]
fn their_memory_is_bounded_and_charged() {
    let cache = esker_table::default_block_cache();
    let empty = cache.usage();
    let usage = || cache.usage() - empty;
    let ranges = DeletedRunMemory::new(InternalKeyComparator::default(), 1, Some(cache.clone()));
    for i in 0..10_000 {
        add(&ranges, &format!("{i:04}a"), &format!("{i:04}b"), 5);
        assert_eq!(usage(), ranges.layers.load_full().bytes());
    }
    let bytes = usage();
    assert!((MAX_BYTES * 9 / 10..=MAX_BYTES).contains(&bytes), "{bytes}");
    let found = (0..10_000).filter(|i| find(&ranges, &format!("{i:04}a"), 9, true).is_some()).count();
    assert_eq!(found, ranges.layers.load_full().len());
    let long = "x".repeat(MAX_KEY_BYTES);
    add(&ranges, &long, "y", 6);
    assert_eq!(usage(), bytes, "runs with long keys are not stored");
    let fresh = ranges.fresh();
    assert_eq!(find(&fresh, "9999a", 9, true), None, "a fresh memory has no runs");
    drop(ranges);
    assert_eq!(usage(), 0);
}

/// Inserts random ranges of numbers, and compares each answer with all ranges that were inserted.
#[test]
fn nothing_is_said_that_was_not_put_in() {
    esker_testkit::seed::for_each_seed("deleted-run-memory", 20, |_, mut rng| {
        let ranges = ranges(1);
        let mut all: Vec<(u64, u64, u64)> = Vec::new();
        let width = [3, 30, 300][rng.usize(..3)];
        for step in 0..400 {
            let (start, sequence) = (rng.u64(..1000), rng.u64(1..=1 + step / 8));
            let end = start + rng.u64(1..=width);
            add(&ranges, &format!("{start:05}"), &format!("{end:05}"), sequence);
            all.push((start, end, sequence));
            let newest = all.iter().map(|range| range.2).max().unwrap();
            let was_found = find(&ranges, &format!("{start:05}"), newest, rng.bool()).is_some();
            assert!(was_found || sequence < newest, "the newest run is stored");
            for _ in 0..4 {
                let (at, snapshot, forward) = (rng.u64(..1300), rng.u64(..=newest), rng.bool());
                let Some((run_end, sequence)) = find(&ranges, &format!("{at:05}"), snapshot, forward) else {
                    continue;
                };
                assert!(sequence <= snapshot);
                let run_end: u64 = run_end.parse().unwrap();
                let (from, to) = if forward { (at, run_end) } else { (run_end, at + 1) };
                assert!(from < to, "{at} lies in the run");
                // Each number of the found range was in an inserted range of the same sequence
                // number.
                for number in from..to {
                    let is_true = |&(a, b, s): &(u64, u64, u64)| s == sequence && a <= number && number < b;
                    assert!(all.iter().any(is_true), "{number} at {sequence}");
                }
            }
        }
        let layers = ranges.layers.load_full();
        assert_eq!(layers.bytes(), layers.bytes_counted());
    });
}

#[test]
fn zero_keys_mean_never() {
    assert_eq!(ranges(0).min_keys(), u64::MAX);
    assert_eq!(ranges(7).min_keys(), 7);
}
