use super::*;

const DELETED: ValueType = ValueType::Deletion;
const SINGLE: ValueType = ValueType::SingleDeletion;
const VALUE: ValueType = ValueType::Value;

fn spans_of(min_entries: u64, entries: &[(&str, u64, ValueType)]) -> Vec<(String, String, u64)> {
    let mut builder = DeletedRunBuilder::new(min_entries);
    let mut last: Option<&str> = None;
    for &(user_key, sequence, value_type) in entries {
        if builder.is_relevant(value_type) {
            let is_older_version = last == Some(user_key);
            builder.add(user_key.as_bytes(), SequenceNumber(sequence), value_type, is_older_version);
        }
        last = Some(user_key);
    }
    let Some(bytes) = builder.finish() else { return Vec::new() };
    let spans = parse(bytes, None).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    spans.iter().map(|s| (text(s.first), text(s.last), s.sequence.0)).collect()
}

fn parse(bytes: Vec<u8>, global_seqno: Option<SequenceNumber>) -> Result<DeletedRuns> {
    DeletedRuns::parse(&Block::parse(bytes)?, &InternalKeyComparator::default(), global_seqno)
}

fn span(first: &str, last: &str, sequence: u64) -> (String, String, u64) {
    (first.to_owned(), last.to_owned(), sequence)
}

#[test]
fn a_run_ends_before_the_next_key_that_is_there() {
    let entries = [
        ("a", 1, VALUE),
        ("b", 9, DELETED),
        ("c", 12, SINGLE),
        ("c", 3, VALUE),
        ("d", 5, DELETED),
        ("e", 6, VALUE),
        ("f", 7, DELETED),
    ];
    assert_eq!(spans_of(1, &entries), [span("b", "d", 12), span("f", "f", 7)]);
    assert_eq!(spans_of(4, &entries), [span("b", "d", 12)], "four entries, the value under 'c' among them");
    assert_eq!(spans_of(5, &entries), []);
    assert_eq!(spans_of(0, &entries), []);
}

#[test]
fn long_spans_are_reported_when_they_are_recorded() {
    let reported = |min_entries, long_entries| {
        let mut builder = DeletedRunBuilder::new(min_entries).reporting_runs_of(long_entries);
        for (user_key, value_type) in
            [("a", DELETED), ("b", DELETED), ("c", VALUE), ("d", DELETED), ("e", VALUE), ("f", DELETED)]
        {
            builder.add(user_key.as_bytes(), SequenceNumber(7), value_type, false);
        }
        builder.add(b"f", SequenceNumber(3), VALUE, true);
        builder.finish();
        let long = builder.take_long().into_iter();
        long.map(|span| (span.first[0] as char, span.last[0] as char, span.entries)).collect::<Vec<_>>()
    };
    assert_eq!(reported(1, 2), [('a', 'b', 2), ('f', 'f', 2)]);
    assert_eq!(reported(1, 1).len(), 3);
    assert_eq!(reported(1, 0), []);
    assert_eq!(reported(3, 1), [], "no run is recorded");
}

#[test]
fn a_deletion_under_a_newer_value_is_no_run() {
    let entries = [("a", 9, VALUE), ("a", 3, DELETED), ("b", 9, ValueType::Merge), ("b", 2, DELETED)];
    assert_eq!(spans_of(1, &entries), []);
}

#[test]
fn the_span_around_a_key_is_found() {
    let mut builder = DeletedRunBuilder::new(1);
    for (user_key, value_type) in [
        ("b", DELETED),
        ("d", DELETED),
        ("e", VALUE),
        ("f", DELETED),
        ("g", VALUE),
        ("k", DELETED),
        ("m", SINGLE),
    ] {
        builder.add(user_key.as_bytes(), SequenceNumber(4), value_type, false);
    }
    let spans = parse(builder.finish().unwrap(), Some(SequenceNumber(77))).unwrap();
    let icmp = InternalKeyComparator::default();
    let found =
        |user_key: &str| spans.find(user_key.as_bytes(), &icmp).map(|s| (s.first, s.last, s.sequence.0));
    for (user_key, expected) in [
        ("a", None),
        ("b", Some(("b", "d"))),
        ("c", Some(("b", "d"))),
        ("d", Some(("b", "d"))),
        ("e", None),
        ("f", Some(("f", "f"))),
        ("h", None),
        ("l", Some(("k", "m"))),
        ("n", None),
    ] {
        let expected = expected.map(|(f, l): (&str, &str)| (f.as_bytes(), l.as_bytes(), 77));
        assert_eq!(found(user_key), expected, "{user_key}");
    }
    assert!(spans.memory_usage() > 0);
}

#[test]
fn bad_blocks_are_corruption() {
    let block = |entries: &[(&str, ValueType, &str)]| {
        let mut block = BlockBuilder::new(16);
        for (first, value_type, last) in entries {
            block.add(&key::internal_key(first.as_bytes(), SequenceNumber(1), *value_type), last.as_bytes());
        }
        block.finish().to_vec()
    };
    for (entries, what) in [
        (&[("b", DELETED, "a")][..], "ends before it begins"),
        (&[("a", VALUE, "b")], "another type"),
        (&[("a", DELETED, "c"), ("c", DELETED, "d")], "overlap"),
        (&[("c", DELETED, "d"), ("a", DELETED, "b")], "out of order"),
    ] {
        let error = parse(block(entries), None).unwrap_err();
        assert_eq!(error.kind(), esker_base::ErrorKind::Corruption, "{what}");
    }
    let good = block(&[("a", DELETED, "b"), ("c", DELETED, "c")]);
    assert_eq!(parse(good.clone(), None).unwrap().iter().count(), 2);
    for length in 0..good.len() {
        drop(parse(good[..length].to_vec(), None));
    }
}
