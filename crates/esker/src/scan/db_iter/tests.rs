use super::*;
use crate::merge::tests::script::{entries, run};
use crate::merge::vec_iter::{Entries, Moves, VecIter};
use esker_base::merge_operator::{AssociativeMergeOperator, MergeOperatorRef};
use esker_base::stats::Statistics;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::{ErrorKind, prefix};
use esker_format::cursor::{InternalIterator, forward_cursor};
use esker_format::wide_column;

fn icmp() -> InternalKeyComparator {
    InternalKeyComparator::default()
}

struct Join;
impl AssociativeMergeOperator for Join {
    fn name(&self) -> &str {
        "Join"
    }
    fn merge(&self, _key: &[u8], existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let existing = existing.map(|e| [e, b"+"].concat()).unwrap_or_default();
        (operand != b"bad").then(|| [&existing[..], operand].concat())
    }
}

fn join() -> Option<MergeOperatorRef> {
    Some(Arc::new(Join))
}

fn at(sequence: u64) -> DbIterOptions {
    DbIterOptions { sequence: SequenceNumber(sequence), merge_operator: join(), ..DbIterOptions::default() }
}

fn over(lines: &[&str], options: DbIterOptions) -> DbIter<VecIter> {
    DbIter::new(icmp(), run(lines), options, None)
}

fn shown<I: ScanIterator>(iter: &DbIter<I>) -> String {
    format!("{}={}", iter.key().escape_ascii(), iter.value().escape_ascii())
}

/// All entries forward; checks that backward shows the same.
fn all(iter: &mut DbIter<VecIter>) -> Vec<String> {
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    iter.seek_to_first();
    while iter.valid() {
        forward.push(shown(iter));
        iter.next();
    }
    iter.status().unwrap();
    iter.seek_to_last();
    while iter.valid() {
        backward.push(shown(iter));
        iter.prev();
    }
    iter.status().unwrap();
    backward.reverse();
    assert_eq!(forward, backward);
    forward
}

const LINES: [&str; 9] = [
    "a@9 put 9",
    "a@3 put 3",
    "b@8 del",
    "b@2 put 2",
    "c@7 merge 7",
    "c@6 merge 6",
    "c@5 put 5",
    "d@4 sd",
    "d@1 put 1",
];

#[test]
fn each_sequence_number_sees_its_time() {
    assert_eq!(all(&mut over(&LINES, at(9))), ["a=9", "c=5+6+7"]);
    assert_eq!(all(&mut over(&LINES, at(6))), ["a=3", "b=2", "c=5+6"]);
    assert_eq!(all(&mut over(&LINES, at(3))), ["a=3", "b=2", "d=1"]);
    assert!(all(&mut over(&LINES, at(0))).is_empty());
    let lines = ["a@9 merge 9", "a@8 del", "b@7 merge 7"];
    assert_eq!(all(&mut over(&lines, at(9))), ["a=9", "b=7"]);
}

#[test]
fn bounds_and_prefix_limit_what_is_shown() {
    let lines = ["aa@1 put 1", "ab@1 put 1", "b@1 put 1", "ba@1 put 1", "c@1 put 1"];
    let bounded =
        DbIterOptions { lower_bound: Some(b"ab".to_vec()), upper_bound: Some(b"ba".to_vec()), ..at(1) };
    let mut iter = over(&lines, bounded);
    assert_eq!(all(&mut iter), ["ab=1", "b=1"]);
    iter.seek(b"aa");
    assert_eq!(shown(&iter), "ab=1");
    iter.seek_for_prev(b"z");
    assert_eq!(shown(&iter), "b=1");
    iter.seek_for_prev(b"aa");
    assert!(!iter.valid());
    iter.seek(b"ba");
    assert!(!iter.valid());

    let prefixed =
        DbIterOptions { prefix_same_as_start: true, prefix_extractor: Some(prefix::fixed(2)), ..at(1) };
    let mut iter = over(&lines, prefixed);
    iter.seek(b"ab");
    assert_eq!(shown(&iter), "ab=1");
    iter.next();
    assert!(!iter.valid() && iter.status().is_ok());
    iter.seek_for_prev(b"ab");
    iter.prev();
    assert!(!iter.valid());
    // A target without a prefix does not limit the scan.
    iter.seek(b"b");
    assert_eq!(shown(&iter), "b=1");
    iter.next();
    assert_eq!(shown(&iter), "ba=1");
    iter.seek_to_last();
    assert_eq!(shown(&iter), "c=1");
}

#[test]
fn an_entity_shows_its_default_column() {
    let entity = |columns: &[(&[u8], &[u8])]| {
        let mut bytes = Vec::new();
        wide_column::serialize(columns, &mut bytes).unwrap();
        bytes
    };
    let lines = ["a@1 entity", "b@1 entity", "c@2 merge m", "c@1 entity", "d@2 merge m", "d@1 entity"];
    let mut list = entries(&lines).to_vec();
    list[0].1 = entity(&[(b"", b"default"), (b"x", b"other")]);
    list[1].1 = entity(&[(b"x", b"other"), (b"y", b"third")]);
    list[3].1 = entity(&[(b"", b"default"), (b"x", b"other")]);
    list[5].1 = entity(&[(b"x", b"other")]);
    for max_sequential_skip_in_iterations in [0, 8] {
        let options = DbIterOptions { max_sequential_skip_in_iterations, ..at(9) };
        let input = VecIter::new(&icmp(), Entries::new(list.clone()));
        let mut iter = DbIter::new(icmp(), input, options, None);
        assert_eq!(all(&mut iter), ["a=default", "b=", "c=default+m", "d=+m"]);
        iter.seek(b"a");
        assert_eq!(iter.pinned_value(), b"default");
    }
    assert_eq!(all(&mut over(&["a@1 timed value12345678"], at(1))), ["a=value"]);
}

/// The error met forward and backward.
fn errors(lines: &[&str], options: DbIterOptions) -> [Error; 2] {
    let mut iter = over(lines, options);
    iter.seek_to_first();
    while iter.valid() {
        iter.next();
    }
    let forward = iter.status().unwrap_err();
    iter.seek_to_last();
    while iter.valid() {
        iter.prev();
    }
    [forward, iter.status().unwrap_err()]
}

#[test]
fn an_entry_that_cannot_be_shown_fails_with_the_reason() {
    for lines in
        [&["a@1 put 1", "b@1 blob \u{1}\u{c}\u{0}\u{5}\u{0}"][..], &["b@1 blob \u{1}\u{c}\u{0}\u{5}\u{0}"]]
    {
        for error in errors(lines, at(1)) {
            assert_eq!(error.kind(), ErrorKind::NotSupported);
            assert!(error.message().contains("blob files"), "{error}");
        }
    }
    for error in errors(&["a@1 merge x"], DbIterOptions { merge_operator: None, ..at(1) }) {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    for error in errors(&["a@1 merge bad", "b@1 put 1"], at(1)) {
        assert_eq!((error.kind(), error.subcode()), (ErrorKind::Corruption, SubCode::MergeOperatorFailed));
    }
    assert!(errors(&["a@1 timed short"], at(1)).iter().all(Error::is_corruption));
    let input = VecIter::new(&icmp(), Entries::new(vec![(b"short".to_vec(), Vec::new())]));
    let mut iter = DbIter::new(icmp(), input, at(1), None);
    iter.seek_to_first();
    assert!(iter.status().unwrap_err().is_corruption());
}

#[test]
fn values_in_blob_files_are_shown_both_ways() {
    let blobs = crate::merge::tests::blobs::stored(&[("a", "alpha"), ("b", "bravo")]);
    let [a, b] = [&blobs.indexes[0], &blobs.indexes[1]];
    let lines = [
        format!("a@5 blob {a}"),
        "a@4 put older".to_owned(),
        "b@9 put new".to_owned(),
        "b@4 merge m".to_owned(),
        format!("b@3 blob {b}"),
        "c@1 put plain".to_owned(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let expected = [("a", "alpha"), ("b", "bravo+m"), ("c", "plain")];
    for max_sequential_skip_in_iterations in [0, 8] {
        let options =
            DbIterOptions { blobs: Some(blobs.reader.clone()), max_sequential_skip_in_iterations, ..at(5) };
        let mut iter = DbIter::new(icmp(), VecIter::new(&icmp(), entries(&lines)), options, None);
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        let pair = |iter: &DbIter<VecIter>| {
            assert_eq!(iter.pinned_value().as_slice(), iter.value());
            assert_eq!(iter.columns(), [(&b""[..], iter.value())]);
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            (text(iter.key()), text(iter.value()))
        };
        iter.seek_to_first();
        while iter.valid() {
            forward.push(pair(&iter));
            iter.next();
        }
        iter.seek_to_last();
        while iter.valid() {
            backward.push(pair(&iter));
            iter.prev();
        }
        backward.reverse();
        let expected: Vec<_> = expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert_eq!((&forward, &backward), (&expected, &expected));
    }
}

#[test]
fn an_error_below_is_shown_and_the_next_seek_starts_afresh() {
    let input = VecIter::new(&icmp(), entries(&["a@1 put 1", "b@1 put 1", "c@1 put 1"])).failing_at(1);
    let mut iter = DbIter::new(icmp(), input, at(1), None);
    iter.seek_to_first();
    iter.next();
    assert!(!iter.valid() && iter.status().unwrap_err().is_corruption());
    iter.seek(b"c");
    assert!(iter.valid() && iter.status().is_ok());
    iter.prev();
    assert!(!iter.valid() && iter.status().is_err());
    // An error while operands are collected is not taken for their end.
    let input = VecIter::new(&icmp(), entries(&["a@2 merge 2", "a@1 put 1"])).failing_at(1);
    let mut iter = DbIter::new(icmp(), input, at(2), None);
    iter.seek_to_first();
    assert!(!iter.valid() && iter.status().unwrap_err().is_corruption());
}

#[test]
fn an_error_before_a_key_with_many_versions_is_shown_by_the_move_that_meets_it() {
    let lines = ["a@1 put a", "b@4 put 4", "b@3 put 3", "b@2 put 2", "b@1 put 1"];
    // At one sequence number some versions are too new; at the other the newest is visible.
    for sequence in [1, 4] {
        let input = VecIter::new(&icmp(), entries(&lines)).failing_at(0);
        let options = DbIterOptions { max_sequential_skip_in_iterations: 1, ..at(sequence) };
        let mut iter = DbIter::new(icmp(), input, options, None);
        iter.seek_to_last();
        assert!(!iter.valid() && iter.status().unwrap_err().is_corruption(), "at {sequence}");
    }
}

#[test]
fn many_versions_are_sought_past() {
    let mut lines: Vec<String> = (1..=1000).rev().map(|i| format!("a@{i} put {i}")).collect();
    lines.extend((1..=1000).rev().map(|i| format!("b@{i} merge {i}")));
    lines.push("c@1 put c".into());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let moves = Arc::new(Moves::default());
    let input = VecIter::new(&icmp(), entries(&lines)).counting(&moves);
    let mut iter = DbIter::new(icmp(), input, at(500), None);
    let steps = |moves: &Moves| moves.steps.swap(0, Ordering::Relaxed);
    iter.seek(b"a");
    assert_eq!((shown(&iter), steps(&moves)), ("a=500".into(), 0));
    iter.next();
    assert!(iter.value().starts_with(b"1+2+3+") && iter.value().ends_with(b"+500"));
    // Only the operands must be read.
    assert!((500..560).contains(&steps(&moves)));
    iter.next();
    assert_eq!(shown(&iter), "c=c");
    iter.prev();
    assert!(iter.value().starts_with(b"1+2+3+") && iter.value().ends_with(b"+500"));
    assert!((500..560).contains(&steps(&moves)));
    iter.prev();
    assert_eq!((shown(&iter), steps(&moves) < 60), ("a=500".into(), true));
    assert!(iter.counters().reseeks >= 3);
}

#[test]
fn a_scan_passes_a_deletion_that_has_number_0() {
    let lines = ["a@0 del", "b@5 put new", "b@0 del", "c@7 del", "c@0 del", "d@0 put d"];
    for max_sequential_skip_in_iterations in [0, 1, 8] {
        let options = || DbIterOptions { max_sequential_skip_in_iterations, ..at(9) };
        assert_eq!(all(&mut over(&lines, options())), ["b=new", "d=d"]);
        let earlier = DbIterOptions { max_sequential_skip_in_iterations, ..at(4) };
        assert_eq!(all(&mut over(&lines, earlier)), ["d=d"]);
    }
}

#[test]
fn too_many_skipped_entries_are_incomplete_if_the_caller_wants_that() {
    let lines: Vec<String> = (0..50).map(|i| format!("a{i:02}@1 del")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let options = |max| DbIterOptions { max_skippable_internal_keys: max, ..at(1) };
    assert!(errors(&lines, options(10)).iter().all(|e| e.kind() == ErrorKind::Incomplete));
    assert!(all(&mut over(&lines, options(100))).is_empty());
}

#[test]
fn statistics_are_reported_at_the_end() {
    let statistics = Arc::new(Statistics::new());
    let options = DbIterOptions { statistics: Some(Arc::clone(&statistics)), ..at(9) };
    let mut iter = over(&LINES, options);
    iter.seek_to_first();
    iter.next();
    iter.next();
    iter.seek_for_prev(b"b");
    iter.prev();
    assert_eq!(statistics.ticker_count(Ticker::NumberDbSeek), 0);
    drop(iter);
    for (ticker, count) in [
        (Ticker::NumberDbSeek, 2),
        (Ticker::NumberDbSeekFound, 2),
        (Ticker::NumberDbNext, 2),
        (Ticker::NumberDbNextFound, 1),
        (Ticker::NumberDbPrev, 1),
        (Ticker::NumberDbPrevFound, 0),
        (Ticker::IterBytesRead, 2 + 6 + 2),
    ] {
        assert_eq!(statistics.ticker_count(ticker), count, "{}", ticker.name());
    }
}

#[test]
fn large_values_are_pinned_backward_and_outlive_the_iterator() {
    let mut list = entries(&["a@1 put a", "b@2 put b", "b@1 put old"]).to_vec();
    list[1].1 = vec![b'x'; 100_000];
    let input = VecIter::new(&icmp(), Entries::new(list));
    let mut iter = DbIter::new(icmp(), input, at(9), None);
    iter.seek_to_last();
    let pinned = iter.pinned_value();
    iter.prev();
    assert_eq!(shown(&iter), "a=a");
    drop(iter);
    assert_eq!(pinned, vec![b'x'; 100_000]);
}

fn rebase<I: ScanIterator>(iter: &mut DbIter<I>, inner: I, keep: Option<KeepAlive>) {
    iter.rebase(keep, |old, place| {
        *old = inner;
        match place {
            Some((target, true)) => old.seek(target),
            Some((target, false)) => old.seek_for_prev(target),
            None => {}
        }
    });
}

#[test]
fn refreshing_shows_another_state_and_rebasing_the_same_place() {
    let mut iter = over(&LINES, at(3));
    iter.seek(b"b");
    assert_eq!(shown(&iter), "b=2");
    rebase(&mut iter, run(&["b@2 put 2", "d@1 put 1"]), None);
    assert_eq!(shown(&iter), "b=2");
    iter.next();
    assert_eq!(shown(&iter), "d=1");
    iter.prev();
    rebase(&mut iter, run(&["b@2 put 2", "d@1 put 1"]), None);
    assert_eq!(shown(&iter), "b=2");
    iter.refresh(SequenceNumber(5), None, |inner| *inner = run(&["b@5 put 5"]));
    assert!(!iter.valid());
    assert_eq!(all(&mut iter), ["b=5"]);
}

#[test]
fn a_run_that_another_state_ends_is_not_asked_again() {
    // The first entry that is decoded ahead is too short for a key; the cursor steps over those
    // behind it.
    let mut list = entries(&["b@1 put b", "c@1 put c", "d@1 put d", "e@1 put e"]).to_vec();
    list.insert(0, (b"!".to_vec(), Vec::new()));
    for fails in [false, true] {
        let input = VecIter::new(&icmp(), Entries::new(list.clone()));
        let mut iter = DbIter::new(icmp(), input, at(9), None);
        iter.seek_to_last();
        iter.prev();
        iter.prev();
        assert_eq!(shown(&iter), "c=c");
        if fails {
            iter.fail(Error::corruption("found elsewhere"));
        }
        iter.refresh(SequenceNumber(9), None, |inner| *inner = run(&["b@2 put 2"]));
        assert_eq!(all(&mut iter), ["b=2"]);
    }
}

/// A cursor that must be dropped before the owner of its memory.
struct Inner(VecIter, Arc<AtomicBool>);
impl Drop for Inner {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Relaxed);
    }
}
impl InternalIterator for Inner {
    forward_cursor!(self => self.0; valid, seek_to_first, seek_to_last, seek, seek_for_prev, next, prev,
        key, value, pinned_value, status);
}

impl ScanIterator for Inner {
    forward_cursor!(self => self.0; next_key, prev_key, prev_key_leaving, left_value, pinned_left_value,
        set_upper_bound, set_wanted_prefix_of, progress, continue_from, release, look_ahead, advance, pass,
        deleted_run_end, was_seen, skip_deleted_run);
}

struct SuperVersion(Arc<AtomicBool>);
impl Drop for SuperVersion {
    fn drop(&mut self) {
        assert!(self.0.load(Ordering::Relaxed), "the cursor is dropped before its source");
    }
}

#[test]
fn a_super_version_that_is_kept_alive_is_dropped_last() {
    let make = || {
        let gone = Arc::new(AtomicBool::new(false));
        (Inner(run(&["a@1 put 1"]), Arc::clone(&gone)), Some(Arc::new(SuperVersion(gone)) as KeepAlive))
    };
    let (inner, keep) = make();
    let mut iter = DbIter::new(icmp(), inner, at(1), keep);
    let (inner, keep) = make();
    iter.refresh(SequenceNumber(1), keep, |old| *old = inner);
    iter.seek_to_first();
    let (inner, keep) = make();
    rebase(&mut iter, inner, keep);
    assert_eq!(shown(&iter), "a=1");
}

#[test]
fn a_value_that_was_left_backwards_outlives_the_moves_over_newer_versions() {
    // The visible version of `b` lies before versions that are too new, over which it steps or
    // seeks.
    let lines = ["a@1 put first", "b@9 put new", "b@8 del", "b@7 put newer", "b@3 put seen", "c@2 put last"];
    for max_sequential_skip_in_iterations in [0, 1, 2, 8] {
        let mut iter = over(&lines, DbIterOptions { max_sequential_skip_in_iterations, ..at(5) });
        iter.seek_to_last();
        let mut found = Vec::new();
        while iter.valid() {
            found.push(shown(&iter));
            assert_eq!(iter.pinned_value().as_slice(), iter.value());
            iter.prev();
        }
        assert_eq!(found, ["c=last", "b=seen", "a=first"]);
        // The cursor steps to the same entries after an exchange of its sources.
        iter.seek_for_prev(b"b");
        iter.rebase(None, |inner, place| {
            let (target, forward) = place.expect("the iterator is valid");
            assert!(!forward);
            inner.seek_for_prev(target);
        });
        assert_eq!(shown(&iter), "b=seen");
        iter.prev();
        assert_eq!(shown(&iter), "a=first");
    }
}
