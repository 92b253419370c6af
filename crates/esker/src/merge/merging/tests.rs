use super::*;
use crate::merge::RunTombstones;
use crate::merge::tests::script::{all, entries, run, text, tombstones};
use crate::merge::vec_iter::{Moves, VecIter};
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering::Relaxed;
use esker_format::cursor::forward_cursor;
use esker_format::key::seek_key;
use esker_format::range_del::FragmentedRangeTombstones;

fn icmp() -> InternalKeyComparator {
    InternalKeyComparator::default()
}

fn merged(runs: &[&[&str]]) -> MergingIterator {
    let children = runs.iter().map(|lines| MergeChild::new(Box::new(run(lines)))).collect();
    MergingIterator::new(icmp(), children)
}

fn covered(iter: VecIter, tombstones: Arc<FragmentedRangeTombstones>) -> MergeChild {
    let source = RunTombstones::new(icmp(), tombstones, None, SequenceNumber::MAX);
    MergeChild::with_tombstones(Box::new(iter), Box::new(source))
}

#[test]
fn runs_become_one_order_in_both_directions() {
    let mut iter = merged(&[&["b@9 put 1", "d@9 put 2"], &[], &["a@3 put 3", "b@4 put 4", "e@1 put 5"]]);
    let order = ["a@3 put 3", "b@9 put 1", "b@4 put 4", "d@9 put 2", "e@1 put 5"];
    assert_eq!(all(&mut iter), order);
    iter.seek_to_last();
    for expected in order.iter().rev() {
        assert_eq!(text(iter.key(), iter.value()), *expected);
        iter.prev();
    }
    assert!(!iter.valid());
    iter.seek(&seek_key(b"b", SequenceNumber(5)));
    assert_eq!(text(iter.key(), iter.value()), "b@4 put 4");
    for (step, expected) in [(-1, 1), (-1, 0), (1, 1), (1, 2), (1, 3), (-1, 2), (1, 3), (1, 4)] {
        if step > 0 {
            iter.next()
        } else {
            iter.prev()
        }
        assert_eq!(text(iter.key(), iter.value()), order[expected]);
    }
}

#[test]
fn equal_internal_keys_come_newest_run_first_whichever_way_it_turns() {
    // Files ingested behind all others have sequence number zero, as compacted entries do.
    let mut iter = merged(&[&["a@0 put 1", "b@0 put 1"], &["a@0 put 2", "b@0 put 2"], &["a@0 put 3"]]);
    let order = ["a@0 put 1", "a@0 put 2", "a@0 put 3", "b@0 put 1", "b@0 put 2"];
    assert_eq!(all(&mut iter), order);
    let mut rng = fastrand::Rng::with_seed(3);
    iter.seek_to_first();
    let mut at = 0;
    for _ in 0..200 {
        if at == 0 || (at + 1 < order.len() && rng.bool()) {
            iter.next();
            at += 1;
        } else {
            iter.prev();
            at -= 1;
        }
        assert_eq!(text(iter.key(), iter.value()), order[at]);
    }
}

#[test]
fn a_failing_child_ends_the_scan_with_its_error_until_the_next_positioning() {
    let bad = VecIter::new(&icmp(), entries(&["a@1 put a", "c@1 put c"])).failing_at(1);
    let good = run(&["b@1 put b", "d@1 put d"]);
    let children = vec![MergeChild::new(Box::new(good)), MergeChild::new(Box::new(bad))];
    let mut iter = MergingIterator::new(icmp(), children);
    assert_eq!(all(&mut iter), ["a@1 put a"]);
    assert!(iter.status().unwrap_err().is_corruption());
    iter.seek(&seek_key(b"d", SequenceNumber::MAX));
    assert!(iter.valid() && iter.status().is_ok());
    iter.seek_to_last();
    assert!(!iter.valid() && iter.status().is_err());
}

#[test]
fn entries_that_a_newer_run_hides_are_sought_past_not_stepped_through() {
    let lines: Vec<String> = (0..10_000).map(|i| format!("k{i:05}@1 put v")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let moves = Arc::new(Moves::default());
    let old = || VecIter::new(&icmp(), entries(&lines)).counting(&moves);
    let newer =
        covered(run(&["k00050@9 put new", "k05000@9 put new"]), tombstones(&[("k00010", "k09990", 5)]));
    let children = vec![newer, MergeChild::new(Box::new(old())), MergeChild::new(Box::new(old()))];
    let mut iter = MergingIterator::new(icmp(), children);
    assert_eq!(all(&mut iter).len(), 10 + 1 + 1 + 10 + 20);
    let (steps, seeks) = (moves.steps.swap(0, Relaxed), moves.seeks.swap(0, Relaxed));
    assert!(steps <= 50 && seeks <= 10, "{steps} steps, {seeks} seeks");

    iter.seek_to_last();
    let mut shown = 0;
    while iter.valid() {
        shown += 1;
        iter.prev();
    }
    assert_eq!(shown, 42);
    let (steps, seeks) = (moves.steps.swap(0, Relaxed), moves.seeks.swap(0, Relaxed));
    assert!(steps <= 50 && seeks <= 10, "{steps} steps, {seeks} seeks");

    // A seek into the hidden range moves directly to its end.
    iter.seek(&seek_key(b"k06000", SequenceNumber::MAX));
    assert_eq!(text(iter.key(), iter.value()), "k09990@1 put v");
    assert_eq!((moves.steps.load(Relaxed), moves.seeks.load(Relaxed)), (0, 2));
}

/// A run whose keys are so disordered that seeks do not advance.
struct Misled(VecIter);

impl InternalIterator for Misled {
    forward_cursor!(self => self.0; valid, seek_to_first, seek_to_last, next, prev, key, value,
        pinned_value, status);

    fn seek(&mut self, _target: &[u8]) {}
    fn seek_for_prev(&mut self, _target: &[u8]) {}
}

impl ScanIterator for Misled {
    forward_cursor!(self => self.0; prev_key_leaving, left_value, pinned_left_value, set_upper_bound,
        set_wanted_prefix_of, progress, continue_from, release, deleted_run_end, was_seen);
    plain_cursor!(self; next_key, prev_key, look_ahead, advance, pass, skip_deleted_run);
}

#[test]
fn a_run_out_of_order_under_a_deleted_range_is_corruption_and_not_walked_for_ever() {
    let newer = || covered(run(&[]), tombstones(&[("b", "d", 5)]));
    let older = || MergeChild::new(Box::new(Misled(run(&["b@1 put 1", "c@1 put 2"]))));
    let mut iter = MergingIterator::new(icmp(), vec![newer(), older()]);
    iter.seek_to_first();
    assert!(!iter.valid() && iter.status().unwrap_err().is_corruption());
    iter.seek_to_last();
    assert!(!iter.valid() && iter.status().unwrap_err().is_corruption());
}

#[test]
fn many_fragments_in_a_row_are_sought_past_at_once() {
    let lines: Vec<String> = (0..1000).map(|i| format!("k{i:05}@1 put v")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let ranges: Vec<(String, String)> =
        (0..100).map(|i| (format!("k{:05}", i * 10), format!("k{:05}", i * 10 + 10))).collect();
    let list: Vec<_> = ranges.iter().enumerate().map(|(i, (a, b))| (&a[..], &b[..], 5 + i as u64)).collect();
    let moves = Arc::new(Moves::default());
    let old = VecIter::new(&icmp(), entries(&lines)).counting(&moves);
    let children = vec![covered(run(&[]), tombstones(&list)), MergeChild::new(Box::new(old))];
    let mut iter = MergingIterator::new(icmp(), children);
    assert!(all(&mut iter).is_empty());
    assert!(moves.seeks.load(Relaxed) <= 2 && moves.steps.load(Relaxed) == 0);
}

#[test]
fn a_lone_run_without_tombstones_is_handed_through() {
    let mut iter = merge_children(&icmp(), vec![MergeChild::new(Box::new(run(&["a@1 put a"])))]);
    assert_eq!(all(&mut *iter), ["a@1 put a"]);
    let mut none = merge_children(&icmp(), Vec::new());
    assert!(all(&mut *none).is_empty() && none.status().is_ok());
}
