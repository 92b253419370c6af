use super::*;

/// A table at `level` of three levels.
fn context(level: usize, threshold: SequenceNumber) -> TablePropertiesCollectorContext {
    TablePropertiesCollectorContext {
        column_family_id: ColumnFamilyId(0),
        level_at_creation: level,
        num_levels: 3,
        last_level_inclusive_max_seqno_threshold: threshold,
        timestamp_size: 0,
    }
}

/// Whether a table of these entries (`true`: a deletion) of 100 bytes each is marked.
fn is_marked((window, trigger, ratio, min): (u64, u64, f64, u64), entries: &[bool]) -> bool {
    let factory = CompactOnDeletionCollectorFactory::new(window, trigger, ratio, min);
    let mut collector =
        factory.create(&context(0, SequenceNumber::MAX)).expect("the factory always makes a collector");
    for (i, &is_deletion) in entries.iter().enumerate() {
        let kind = if is_deletion { ValueType::SingleDeletion } else { ValueType::Value };
        collector.add_user_key(b"key", b"", kind, SequenceNumber(1), i as u64 * 100).expect("no error");
    }
    assert!(collector.finish().expect("no error").is_empty());
    collector.need_compact()
}

fn every(step: usize, count: usize) -> Vec<bool> {
    (0..count).map(|i| i % step == 0).collect()
}

#[test]
fn deletions_close_together_mark_a_table() {
    let by_window = (128, 50, 0.0, 0);
    assert!(is_marked(by_window, &every(2, 100)));
    assert!(!is_marked(by_window, &every(2, 98)), "49 deletions are too few");
    assert!(!is_marked(by_window, &every(3, 10_000)), "43 deletions in any window are too few");
    // 49 here, 49 far behind.
    let mut two = vec![true; 49];
    two.extend(vec![false; 200]);
    two.extend(vec![true; 49]);
    assert!(!is_marked(by_window, &two));
    two.push(true);
    assert!(is_marked(by_window, &two));
    // A window of 100 is one of 128.
    assert!(is_marked((100, 64, 0.0, 0), &every(2, 128)));
}

#[test]
fn many_deletions_mark_a_table() {
    assert!(is_marked((0, 0, 0.5, 0), &every(2, 100)));
    assert!(!is_marked((0, 0, 0.51, 0), &every(2, 100)));
    assert!(!is_marked((0, 0, 0.0, 0), &every(1, 100)), "off");
    assert!(!is_marked((0, 0, 1.5, 0), &every(1, 100)), "off");
    assert!(!is_marked((0, 0, 0.5, 0), &[]));
}

#[test]
fn a_small_table_is_not_marked() {
    assert!(!is_marked((128, 10, 0.0, 100_000), &every(1, 900)));
    assert!(is_marked((128, 10, 0.0, 80_000), &every(1, 900)));
    // Large enough only when the deletions have passed.
    let mut early = vec![true; 20];
    early.extend(vec![false; 1000]);
    assert!(is_marked((128, 10, 0.0, 80_000), &early));
    assert!(!is_marked((0, 0, 0.5, 100_000), &every(1, 900)));
    assert!(is_marked((0, 0, 0.5, 80_000), &every(1, 900)));
}

#[test]
fn settings_change_for_tables_to_come() {
    let factory = CompactOnDeletionCollectorFactory::new(0, 0, 0.0, 1);
    factory.set_window_size(128);
    factory.set_deletion_trigger(2);
    factory.set_deletion_ratio(0.5);
    factory.set_min_file_size(0);
    let mut collector =
        factory.create(&context(0, SequenceNumber::MAX)).expect("the factory always makes a collector");
    for _ in 0..2 {
        collector.add_user_key(b"", b"", ValueType::Deletion, SequenceNumber(1), 0).expect("no error");
    }
    assert!(collector.need_compact());
}

/// Whether a table with entries at these numbers is marked, and its number of old entries, for a
/// threshold of 10.
fn tiered(ratio: f64, sequences: &[u64]) -> (bool, Option<String>) {
    let factory = CompactForTieringCollectorFactory::new(ratio);
    let mut collector = factory.create(&context(1, SequenceNumber(10))).expect("a family with the option");
    for n in sequences {
        collector.add_user_key(b"", b"", ValueType::Value, SequenceNumber(*n), 0).expect("no error");
    }
    let properties = collector.finish().expect("no error");
    let old = properties.into_iter().next().map(|(name, value)| {
        assert_eq!(name, b"rocksdb.eligible.last.level.entries");
        String::from_utf8(value).expect("a number")
    });
    (collector.need_compact(), old)
}

#[test]
fn a_table_is_marked_if_enough_entries_are_old_enough_for_the_last_level() {
    let two = || Some("2".to_owned());
    assert_eq!(tiered(0.5, &[1, 9, 10, 11]), (true, two()));
    assert_eq!(tiered(0.51, &[1, 9, 10, 11]), (false, two()));
    assert_eq!(tiered(0.5, &[10, 11]), (false, None));
    assert_eq!(tiered(1.1, &[1, 9]), (false, two()), "a ratio above 1 only counts");
    let factory = CompactForTieringCollectorFactory::new(0.5);
    assert!(factory.create(&context(2, SequenceNumber(10))).is_none(), "the last level");
    assert!(factory.create(&context(1, SequenceNumber::MAX)).is_none(), "no young entries");
    factory.set_compaction_trigger_ratio(0.0);
    assert!(factory.create(&context(1, SequenceNumber(10))).is_none(), "turned off");
}

#[test]
fn a_timed_value_counts_at_its_preferred_number() {
    let factory = CompactForTieringCollectorFactory::new(1.0);
    let mut collector = factory.create(&context(0, SequenceNumber(10))).expect("a family with the option");
    let value = [b"value".as_slice(), &3_u64.to_le_bytes()].concat();
    let sequence = SequenceNumber(50);
    collector.add_user_key(b"", &value, ValueType::ValuePreferredSeqno, sequence, 0).expect("no error");
    assert!(collector.need_compact());
}
