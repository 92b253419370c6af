use super::cut_run;
use crate::cursor::{DecodeAhead, DecodedRun, RunEntry};
use crate::key::{InternalKeyComparator, internal_key, trailer};
use esker_base::{PinnedBytes, SequenceNumber, ValueType};

/// A run of these entries: user key, sequence number, type.
fn decoded(entries: &[(&str, u64, ValueType)]) -> DecodedRun {
    let mut run = DecodedRun::default();
    let (keys, places) = run.room(entries.len());
    for (place, (user_key, sequence, value_type)) in places.iter_mut().zip(entries) {
        let stored = internal_key(user_key.as_bytes(), SequenceNumber(*sequence), *value_type);
        let (key, key_len) = (u32::try_from(keys.len()).unwrap(), u32::try_from(stored.len()).unwrap());
        keys.extend_from_slice(&stored);
        *place = RunEntry { packed: trailer(&stored), key, key_len, ..RunEntry::default() };
    }
    run.set_count(entries.len());
    run.set_block(PinnedBytes::empty());
    run
}

/// The entries that a reader at 10 still sees.
fn left(entries: &[(&str, u64, ValueType)], forward: bool, limit: Option<&str>) -> Vec<String> {
    let mut run = decoded(entries);
    let ahead = DecodeAhead { forward, sequence: SequenceNumber(10), limit: limit.map(str::as_bytes) };
    cut_run(&mut run, &ahead, &InternalKeyComparator::default(), None, false);
    let mut shown = Vec::new();
    let mut more = !run.is_empty();
    while more {
        shown.push(String::from_utf8(run.user_key().to_vec()).unwrap());
        more = if forward { run.step_on() } else { run.step_back() };
    }
    shown
}

const PUT: ValueType = ValueType::Value;

#[test]
fn plain_values_are_left() {
    let entries = [("a", 1, PUT), ("b", 9, PUT), ("c", 3, PUT), ("d", 10, PUT)];
    assert_eq!(left(&entries, true, None), ["a", "b", "c", "d"]);
    // Entries before `a` are unknown.
    assert_eq!(left(&entries, false, None), ["d", "c", "b"]);
}

#[test]
fn entries_that_are_not_shown_as_they_are_end_runs() {
    for other in [("b", 11, PUT), ("b", 3, ValueType::Deletion), ("b", 3, ValueType::Merge)] {
        let entries = [("a", 1, PUT), ("aa", 1, PUT), other, ("c", 3, PUT), ("d", 10, PUT)];
        assert_eq!(left(&entries, true, None), ["a", "aa"]);
        assert_eq!(left(&entries, false, None), ["d", "c"]);
    }
}

#[test]
fn versions_of_one_key_end_them() {
    let entries = [("a", 1, PUT), ("b", 9, PUT), ("b", 3, PUT), ("c", 3, PUT), ("d", 1, PUT)];
    assert_eq!(left(&entries, true, None), ["a", "b"]);
    assert_eq!(left(&entries, false, None), ["d", "c"]);
}

#[test]
fn limits_are_exclusive() {
    let entries = [("a", 1, PUT), ("b", 9, PUT), ("c", 3, PUT), ("d", 10, PUT)];
    assert_eq!(left(&entries, true, Some("c")), ["a", "b"]);
    assert_eq!(left(&entries, true, Some("a")), [""; 0]);
    assert_eq!(left(&entries, false, Some("b")), ["d", "c"]);
    assert_eq!(left(&entries, false, Some("d")), [""; 0]);
}

#[test]
fn the_first_is_left_if_nothing_before_it_has_its_key() {
    let mut run = decoded(&[("a", 1, PUT), ("b", 9, PUT)]);
    let ahead = DecodeAhead { forward: false, sequence: SequenceNumber(10), limit: None };
    cut_run(&mut run, &ahead, &InternalKeyComparator::default(), None, true);
    assert_eq!((run.first(), run.len()), (0, 2));
}

#[test]
fn a_files_own_sequence_number_is_that_of_all() {
    let entries = [("a", 0, PUT), ("b", 0, PUT), ("c", 0, PUT)];
    for (sequence, count) in [(10, 3), (11, 0)] {
        let mut run = decoded(&entries);
        let ahead = DecodeAhead { forward: true, sequence: SequenceNumber(10), limit: None };
        cut_run(&mut run, &ahead, &InternalKeyComparator::default(), Some(SequenceNumber(sequence)), false);
        assert_eq!(run.len(), count);
    }
}
