use super::*;
use crate::compaction_filter::CompactionFilter;
use crate::merge::tests::script::{entries, run, text, tombstones};
use crate::merge::vec_iter::VecIter;
use crate::snapshot::{CommitTable, LiveSnapshots};
use esker_base::ErrorKind;
use esker_base::merge_operator::{MergeOperator, MergeOperatorRef};
use esker_base::sync::Arc;
use esker_base::sync::atomic::{AtomicBool, AtomicU64};
use esker_format::blob::BlobIndex;
use esker_format::wide_column::stored::{StoredColumns, StoredValue, may_have_blobs};
use esker_format::wide_column::{self, EncodedColumns};

fn snapshots(list: &[u64]) -> Vec<SequenceNumber> {
    list.iter().map(|&s| SequenceNumber(s)).collect()
}

fn options(list: &[u64]) -> CompactionIteratorOptions {
    let mut options = CompactionIteratorOptions::new(&InternalKeyComparator::default(), snapshots(list));
    options.merge_operator = Some(Arc::new(Join { partial: true }));
    options
}

fn bottommost(list: &[u64]) -> CompactionIteratorOptions {
    CompactionIteratorOptions { bottommost: true, ..options(list) }
}

/// An operator that joins with `+` and refuses "bad".
struct Join {
    partial: bool,
}
impl MergeOperator for Join {
    fn name(&self) -> &str {
        "Join"
    }
    fn full_merge(&self, _key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut parts: Vec<&[u8]> = existing.into_iter().collect();
        parts.extend_from_slice(operands);
        (!operands.contains(&&b"bad"[..])).then(|| parts.join(&b'+'))
    }
    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        self.partial.then(|| [left, right].join(&b'+'))
    }
}

fn compacted(lines: &[&str], options: CompactionIteratorOptions) -> Vec<String> {
    let (out, stats) = compacted_with_stats(lines, options);
    assert_eq!(stats.records_out, out.len() as u64);
    out
}

/// A line of a script, in the form of `text`.
fn shown(line: &str) -> String {
    line.as_bytes().escape_ascii().to_string()
}

fn compacted_with_stats(
    lines: &[&str],
    options: CompactionIteratorOptions,
) -> (Vec<String>, CompactionIteratorStats) {
    let mut iter = CompactionIterator::new(InternalKeyComparator::default(), run(lines), options);
    let mut out = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        out.push(text(iter.key(), iter.value()));
        iter.next();
    }
    iter.status().unwrap();
    (out, *iter.stats())
}

#[test]
fn of_each_stripe_only_the_newest_version_is_kept() {
    let lines = ["a@9 put 9", "a@8 put 8", "a@5 put 5", "a@4 del", "a@2 put 2", "a@1 put 1", "b@3 put 3"];
    assert_eq!(compacted(&lines, options(&[2, 5])), ["a@9 put 9", "a@5 put 5", "a@2 put 2", "b@3 put 3"]);
    assert_eq!(compacted(&lines, options(&[])), ["a@9 put 9", "b@3 put 3"]);
    // At the bottom, an entry that all snapshots see loses its sequence number.
    assert_eq!(compacted(&lines, bottommost(&[2, 5])), ["a@9 put 9", "a@5 put 5", "a@0 put 2", "b@3 put 3"]);
    let kept = CompactionIteratorOptions { zero_up_to: SequenceNumber::ZERO, ..bottommost(&[]) };
    assert_eq!(compacted(&lines, kept), ["a@9 put 9", "b@3 put 3"]);
}

#[test]
fn entries_of_a_prepared_transaction_stay_and_hide_nothing_until_readers_see_its_commit() {
    let table = CommitTable::new();
    table.prepare(b"done", SequenceNumber(5), 1);
    table.resolve(b"done", SequenceNumber(7));
    table.prepare(b"open", SequenceNumber(8), 1);
    let (_, prepared) = table.for_job(&LiveSnapshots::new(), || SequenceNumber(9));
    let with = |list| CompactionIteratorOptions { prepared: prepared.clone(), ..bottommost(list) };
    let lines =
        ["a@8 put 8", "a@5 put 5", "a@3 put 3", "b@8 del", "b@2 put 2", "c@5 del", "c@1 put 1", "d@8 put 8"];
    let all_see_5 = ["a@8 put 8", "a@0 put 5", "b@8 del", "b@0 put 2", "d@8 put 8"];
    assert_eq!(compacted(&lines, with(&[])), all_see_5);
    // The snapshot 6 lies between the number of the entries and that of their commit.
    let kept_for_6 =
        ["a@8 put 8", "a@5 put 5", "a@0 put 3", "b@8 del", "b@0 put 2", "c@5 del", "c@0 put 1", "d@8 put 8"];
    assert_eq!(compacted(&lines, with(&[6])), kept_for_6);
    // A write between the entry and its commit hides it from all snapshots that see the commit.
    assert_eq!(compacted(&["a@6 put 6", "a@5 put 5", "a@3 put 3"], with(&[6])), ["a@0 put 6"]);
    // A single deletion between the two does not meet the entry, which the snapshot 6 does not see.
    // The deletion stays for the older value.
    let deleted = ["a@9 put 9", "a@6 sd", "a@5 put 5", "a@3 put 3"];
    let not_last = CompactionIteratorOptions { bottommost: false, ..with(&[4, 6]) };
    assert_eq!(compacted(&deleted, not_last), ["a@9 put 9", "a@6 sd", "a@3 put 3"]);
    // An operand between the two hides nothing: the snapshot 6 sees it on the older value.
    let merged = ["a@6 merge m", "a@5 put 5", "a@3 put 3"];
    assert_eq!(compacted(&merged, with(&[6])), ["a@6 merge m", "a@5 put 5", "a@0 put 3"]);
    // A range tombstone between the entry and its commit hides it, too.
    for (lines, kept) in [(&["a@7 merge m", "a@5 put 5"][..], &["a@7 put m"][..]), (&["a@5 put 5"], &[])] {
        let mut covered = with(&[5]);
        covered.range_dels.add(&tombstones(&[("a", "b", 6)]), None);
        assert_eq!(compacted(lines, covered), kept);
    }
    // The job's snapshot 7 lies before the open section: what lies over its entries stays.
    let unlocked = ["a@9 put 9", "a@8 put 8", "a@3 put 3", "b@9 del", "b@8 put 8"];
    let kept = ["a@9 put 9", "a@8 put 8", "a@0 put 3", "b@9 del", "b@8 put 8"];
    assert_eq!(compacted(&unlocked, with(&[7])), kept);
}

#[test]
fn a_deletion_stays_while_an_older_entry_could_appear_without_it() {
    let lines = ["a@9 del", "a@3 put 3", "b@4 del", "b@3 put 3", "c@9 del"];
    assert_eq!(compacted(&lines, options(&[5])), ["a@9 del", "a@3 put 3", "b@4 del", "c@9 del"]);
    assert_eq!(compacted(&lines, bottommost(&[5])), ["a@9 del", "a@0 put 3"]);
    let mut known = options(&[5]);
    known.key_not_exists_beyond_output_level = Box::new(|key| key == b"b");
    let (out, stats) = compacted_with_stats(&lines, known);
    assert_eq!(out, ["a@9 del", "a@3 put 3", "c@9 del"]);
    assert_eq!((stats.dropped_obsolete, stats.optimized_deletions, stats.dropped_hidden), (1, 1, 1));
    assert_eq!((stats.records_in, stats.deletions_in), (5, 3));
}

#[test]
fn a_single_deletion_and_its_value_annihilate_within_a_stripe() {
    assert!(compacted(&["a@5 sd", "a@3 put 3"], options(&[])).is_empty());
    let kept = ["a@5 sd", "a@3 put 3"];
    assert_eq!(compacted(&kept, options(&[4])), kept);
    assert_eq!(compacted(&["a@5 sd"], options(&[])), ["a@5 sd"]);
    assert!(compacted(&["a@5 sd"], bottommost(&[])).is_empty());
    assert!(compacted(&["a@5 sd"], bottommost(&[3])).is_empty());
    assert_eq!(compacted(&kept, bottommost(&[4])), ["a@5 sd", "a@0 put 3"]);
}

#[test]
fn a_single_deletion_below_a_newer_value_still_waits_for_its_own() {
    // The value that it deletes may lie deeper. Without the single deletion, it would reappear
    // after the newer value is gone.
    assert_eq!(compacted(&["a@7 put 7", "a@5 sd"], options(&[])), ["a@7 put 7", "a@5 sd"]);
    assert_eq!(compacted(&["a@7 put 7", "a@5 sd", "a@3 put 3"], options(&[])), ["a@7 put 7"]);
    assert_eq!(compacted(&["a@9 sd", "a@7 put 7", "a@5 sd"], options(&[])), ["a@5 sd"]);
}

#[test]
fn a_single_deletion_below_a_deletion_waits_for_the_value_of_an_older_stripe() {
    // A rollback writes both. The deletion goes with the next put over it.
    let rolled_back = ["a@7 del", "a@6 sd", "a@5 put 5", "a@4 sd", "a@1 put 1"];
    assert_eq!(compacted(&rolled_back, options(&[2])), ["a@7 del", "a@4 sd", "a@1 put 1"]);
    let kept = ["a@7 del", "a@4 sd", "a@0 put 1"];
    assert_eq!(compacted(&rolled_back, bottommost(&[2])), kept);
    let later = ["a@9 sd", "a@8 put 8", "a@7 del", "a@4 sd", "a@0 put 1"];
    assert_eq!(compacted(&later, bottommost(&[2])), ["a@4 sd", "a@0 put 1"]);
    assert!(compacted(&rolled_back, bottommost(&[])).is_empty());
    // A value or a deletion below it is its own.
    let own = ["a@7 del", "a@6 sd", "a@5 put 5", "a@1 put 1", "b@7 del", "b@6 sd", "b@5 del", "b@1 put 1"];
    assert_eq!(compacted(&own, bottommost(&[2])), ["a@7 del", "a@0 put 1", "b@7 del", "b@0 put 1"]);
}

#[test]
fn a_transaction_that_may_check_for_conflicts_still_sees_the_key_written() {
    let with_conflict = |conflict| CompactionIteratorOptions {
        earliest_write_conflict_snapshot: SequenceNumber(conflict),
        ..options(&[2])
    };
    let lines = ["a@5 sd", "a@4 put 4", "b@1 put 1"];
    assert_eq!(compacted(&lines, with_conflict(2)), ["a@5 sd", "a@4 put", "b@1 put 1"]);
    assert_eq!(compacted(&lines, with_conflict(6)), ["b@1 put 1"]);
    // Transactions find the kept newer version in their conflict checks, so the single deletion is
    // not needed.
    assert_eq!(compacted(&["a@7 put 7", "a@5 sd", "a@4 put 4"], with_conflict(2)), ["a@7 put 7"]);
}

#[test]
fn a_misused_single_deletion_leaves_an_entry_that_surely_deletes_the_key() {
    let (out, stats) = compacted_with_stats(&["a@5 sd", "a@4 del", "a@3 put 3"], options(&[]));
    assert_eq!((&out[..], stats.single_deletion_mismatches), (&["a@4 del".to_owned()][..], 1));
    let (out, stats) = compacted_with_stats(&["a@5 sd", "a@4 merge 4"], options(&[]));
    assert_eq!((&out[..], stats.single_deletion_mismatches), (&["a@5 del".to_owned()][..], 1));
    assert_eq!(compacted(&["a@5 sd", "a@4 sd"], options(&[])), ["a@4 sd"]);
}

#[test]
fn operands_are_combined_as_far_as_is_known() {
    let lines = ["a@9 merge 9", "a@8 merge 8", "a@7 put 7", "a@6 put 6"];
    assert_eq!(compacted(&lines, options(&[])), ["a@9 put 7+8+9"]);
    assert_eq!(compacted(&lines, bottommost(&[])), ["a@0 put 7+8+9"]);
    assert_eq!(compacted(&lines, options(&[8])), ["a@9 merge 9", "a@8 put 7+8"]);
    assert_eq!(compacted(&["a@9 merge 9", "a@8 merge 8", "a@7 del"], options(&[])), ["a@9 put 8+9"]);
    // Deeper levels are unknown, so the result is an operand and not a value.
    assert_eq!(compacted(&["a@9 merge 9", "a@8 merge 8"], options(&[])), ["a@9 merge 8+9"]);
    assert_eq!(compacted(&["a@9 merge 9", "a@8 merge 8"], bottommost(&[])), ["a@0 put 8+9"]);
    assert_eq!(compacted(&["a@9 merge 9"], bottommost(&[3])), ["a@9 put 9"]);
    let apart =
        CompactionIteratorOptions { merge_operator: Some(Arc::new(Join { partial: false })), ..options(&[]) };
    let lines = ["a@9 merge 9", "a@8 merge 8", "b@1 put 1"];
    assert_eq!(compacted(&lines, apart), lines);
}

/// An operator that joins, and counts the bytes that it gets. It refuses results longer than
/// `longest`.
struct Counting {
    longest: usize,
    bytes: Arc<AtomicU64>,
}
impl MergeOperator for Counting {
    fn name(&self) -> &str {
        "Counting"
    }
    fn full_merge(&self, _key: &[u8], _existing: Option<&[u8]>, _operands: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }
    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        let bytes = left.len() + right.len();
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        (bytes <= self.longest).then(|| [left, right].concat())
    }
}

#[test]
fn the_cost_of_combining_operands_does_not_grow_with_the_square_of_their_number() {
    const COUNT: usize = 4096;
    let lines: Vec<String> = (0..COUNT).rev().map(|i| format!("a@{} merge {i:04}", i + 1)).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let all: String = (0..COUNT).map(|i| format!("{i:04}")).collect();
    for longest in [usize::MAX, 64, 0] {
        let bytes = Arc::new(AtomicU64::new(0));
        let merge_operator: MergeOperatorRef = Arc::new(Counting { longest, bytes: bytes.clone() });
        let options = CompactionIteratorOptions { merge_operator: Some(merge_operator), ..options(&[]) };
        let (out, stats) = compacted_with_stats(&lines, options);
        let operands: Vec<&str> = out.iter().map(|line| line.split_once(" merge ").unwrap().1).collect();
        assert_eq!(operands.iter().rev().copied().collect::<String>(), all, "longest {longest}");
        let fewest = if longest == 0 { COUNT } else { all.len().div_ceil(longest) };
        assert!((fewest..=fewest * 2).contains(&operands.len()), "longest {longest}: {}", operands.len());
        assert_eq!(stats.operands_merged as usize, COUNT - operands.len());
        let bytes = bytes.load(Ordering::Relaxed);
        assert!(bytes <= all.len() as u64 * 16, "longest {longest}: {bytes} bytes of {}", all.len());
    }
}

#[test]
fn an_entry_that_is_there_twice_is_taken_once() {
    let lines = ["a@9 merge 9", "a@9 merge 9", "a@8 merge 8", "a@8 merge 8", "a@7 put 7", "a@7 put 7"];
    assert_eq!(compacted(&lines, options(&[])), ["a@9 put 7+8+9"]);
    assert_eq!(compacted(&lines, options(&[8])), ["a@9 merge 9", "a@8 put 7+8"]);
    let unmerged = CompactionIteratorOptions { merge_operator: None, ..options(&[]) };
    assert_eq!(compacted(&lines, unmerged), ["a@9 merge 9", "a@8 merge 8", "a@7 put 7"]);
    let history =
        CompactionIteratorOptions { keep_history: true, zero_up_to: SequenceNumber::ZERO, ..options(&[]) };
    assert_eq!(compacted(&lines, history), ["a@9 merge 9", "a@8 merge 8", "a@7 put 7"]);
    // A repeated single deletion counts once: without a value it stays, and with its value both are
    // dropped.
    assert_eq!(compacted(&["a@9 sd", "a@9 sd"], options(&[])), ["a@9 sd"]);
    let lines = ["a@9 sd", "a@9 sd", "a@8 put 8", "a@8 put 8", "b@1 put 1"];
    assert_eq!(compacted(&lines, options(&[])), ["b@1 put 1"]);
    // All entries get number 0 in the end, so equal numbers prove no repetition.
    let lines = ["a@0 merge 2", "a@0 merge 1"];
    assert_eq!(compacted(&lines, options(&[])), ["a@0 merge 1+2"]);
}

#[test]
fn operands_that_cannot_be_merged_are_kept_with_what_is_below() {
    let lines = ["a@9 merge bad", "a@8 merge 8", "a@7 put 7", "a@6 put 6"];
    let (out, stats) = compacted_with_stats(&lines, options(&[]));
    assert_eq!((&out[..], stats.merge_failures), (&lines.map(str::to_owned)[..3], 1));
    let without = CompactionIteratorOptions { merge_operator: None, ..options(&[]) };
    assert_eq!(compacted(&lines, without), lines[..3]);
    let lines = ["a@9 merge 9", "a@8 merge 8", "a@7 blob x", "a@6 put 6"];
    assert_eq!(compacted(&lines, options(&[])), ["a@9 merge 8+9", "a@7 blob x"]);
}

#[test]
fn operands_apply_to_the_default_column_of_an_entity() {
    let mut entity = Vec::new();
    wide_column::serialize(&[(b"x", b"1"), (b"", b"d")], &mut entity).unwrap();
    let mut lines = entries(&["a@9 merge 9", "a@7 entity"]).to_vec();
    lines[1].1 = entity;
    let icmp = InternalKeyComparator::default();
    let input = VecIter::new(&icmp, Arc::new(lines));
    let mut iter = CompactionIterator::new(icmp, input, options(&[]));
    iter.seek_to_first();
    assert_eq!(ParsedInternalKey::parse(iter.key()).unwrap().value_type, ValueType::WideColumnEntity);
    let merged: Vec<_> = EncodedColumns::parse(iter.value()).unwrap().iter().collect();
    assert_eq!(merged, [(&b""[..], &b"d+9"[..]), (b"x", b"1")]);
    iter.next();
    assert!(!iter.valid());
}

#[test]
fn other_values_pass_unchanged() {
    let lines = ["a@9 blob x", "b@8 entity y", "c@7 timed z\u{3}\0\0\0\0\0\0\0", "d@6 put v"];
    assert_eq!(compacted(&lines, options(&[])), lines.map(shown));
    let bottom = ["a@0 blob x", "b@0 entity y", "c@0 put z", "d@0 put v"];
    assert_eq!(compacted(&lines, bottommost(&[])), bottom);
}

#[test]
fn a_timed_value_gets_its_sequence_number_where_nothing_older_can_be_seen() {
    let timed = "a@9 timed z\u{3}\0\0\0\0\0\0\0";
    let kept =
        |list: &[u64]| CompactionIteratorOptions { zero_up_to: SequenceNumber::ZERO, ..bottommost(list) };
    assert_eq!(compacted(&[timed, "a@5 put old"], kept(&[])), ["a@3 put z"]);
    // A snapshot sees the older version. With its preferred number, the newer one would be visible
    // there, too.
    assert_eq!(compacted(&[timed, "a@5 put old"], kept(&[5])), [shown(timed), shown("a@5 put old")]);
    // In the middle of the tree, older versions may lie below.
    assert_eq!(compacted(&[timed], options(&[])), [shown(timed)]);
    // A range tombstone that is older than the value must not hide it.
    let mut covered = kept(&[]);
    covered.range_dels.add(&tombstones(&[("a", "c", 6)]), None);
    assert_eq!(compacted(&[timed], covered), [shown(timed)]);
    // A preferred sequence number newer than the write is ignored.
    assert_eq!(compacted(&["a@2 timed z\u{3}\0\0\0\0\0\0\0"], kept(&[])), ["a@2 put z"]);
    assert_eq!(compacted(&["b@9 merge m", "b@8 timed z\u{3}\0\0\0\0\0\0\0"], options(&[])), ["b@9 put z+m"]);
}

#[test]
fn values_that_come_in_from_a_blob_file_and_do_not_go_out_are_garbage() {
    let blobs = crate::merge::tests::blobs::stored(&[("a", "alpha"), ("b", "bravo")]);
    let [a, b] = [&blobs.indexes[0], &blobs.indexes[1]];
    let lines =
        ["a@9 merge m".to_owned(), format!("a@8 blob {a}"), "b@7 del".to_owned(), format!("b@6 blob {b}")];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let options = CompactionIteratorOptions { blobs: Some(blobs.reader.clone()), ..options(&[]) };
    let mut iter = CompactionIterator::new(InternalKeyComparator::default(), run(&lines), options);
    let (mut out, mut kept) = (Vec::new(), BlobTally::default());
    iter.seek_to_first();
    while iter.valid() {
        let entry = ParsedInternalKey::parse(iter.key()).unwrap();
        kept.count(entry.value_type, entry.user_key, iter.value()).unwrap();
        out.push(text(iter.key(), iter.value()));
        iter.next();
    }
    iter.status().unwrap();
    assert_eq!(out, ["a@9 put alpha+m", "b@7 del"]);
    let garbage = iter.blobs_in().garbage(&kept);
    assert_eq!(garbage.len(), 1);
    // Two records of 32 header bytes, a key of one byte and a value of five.
    assert_eq!((garbage[0].garbage_blob_count, garbage[0].garbage_blob_bytes), (2, 2 * 38));
    // A value that stays is not garbage.
    assert!(iter.blobs_in().garbage(iter.blobs_in()).is_empty());
}

#[test]
fn a_filter_judges_values_in_blob_files() {
    let blobs = crate::merge::tests::blobs::stored(&[("a", "keep"), ("b", "remove")]);
    let lines = [format!("a@9 blob {}", blobs.indexes[0]), format!("b@8 blob {}", blobs.indexes[1])];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let filter = CompactionIteratorOptions { blobs: Some(blobs.reader.clone()), ..filtered(&[]) };
    assert_eq!(compacted(&lines, filter), [shown(lines[0]), shown("b@8 del")]);
}

/// A filter that does what the value says.
struct Obedient;
impl CompactionFilter for Obedient {
    fn name(&self) -> &str {
        "Obedient"
    }
    fn filter(&self, level: usize, _key: &[u8], value: &[u8]) -> FilterDecision {
        assert_eq!(level, 3);
        match value {
            b"remove" => FilterDecision::Remove,
            b"purge" => FilterDecision::Purge,
            b"change" => FilterDecision::ChangeValue(b"changed".to_vec()),
            b"skip to d" => FilterDecision::RemoveAndSkipUntil(b"d".to_vec()),
            _ => FilterDecision::Keep,
        }
    }
    fn filter_merge_operand(&self, level: usize, key: &[u8], operand: &[u8]) -> FilterDecision {
        self.filter(level, key, operand)
    }
}

fn filtered(list: &[u64]) -> CompactionIteratorOptions {
    CompactionIteratorOptions {
        compaction_filter: Some(Box::new(Obedient)),
        filter_level: 3,
        ..options(list)
    }
}

#[test]
fn the_filter_judges_what_no_snapshot_sees() {
    let lines = ["a@9 put remove", "a@3 put old", "b@9 put change", "c@9 put purge", "d@4 put remove"];
    assert_eq!(compacted(&lines, filtered(&[])), ["a@9 del", "b@9 put changed", "c@9 sd", "d@4 del"]);
    assert_eq!(
        compacted(&lines, filtered(&[5])),
        ["a@9 del", "a@3 put old", "b@9 put changed", "c@9 sd", "d@4 put remove"]
    );
    let as_rocksdb = CompactionIteratorOptions { filter_ignores_snapshots: true, ..filtered(&[5]) };
    assert_eq!(
        compacted(&lines, as_rocksdb),
        ["a@9 del", "a@3 put old", "b@9 put changed", "c@9 sd", "d@4 del"]
    );
    let bottom = CompactionIteratorOptions { bottommost: true, ..filtered(&[]) };
    let (out, stats) = compacted_with_stats(&lines, bottom);
    assert_eq!((&out[..], stats.dropped_by_filter), (&["b@0 put changed".to_owned()][..], 3));
}

#[test]
fn the_filter_judges_operands() {
    let lines = ["a@9 merge remove", "a@8 merge 8", "a@7 merge change", "a@6 put 6"];
    assert_eq!(compacted(&lines, filtered(&[])), ["a@8 put 6+changed+8"]);
    assert_eq!(compacted(&["a@9 merge remove", "a@6 put 6"], filtered(&[])), ["a@6 put 6"]);
    assert_eq!(compacted(&["a@9 merge remove", "a@6 del"], filtered(&[])), ["a@6 del"]);
    assert!(compacted(&["a@9 merge remove"], filtered(&[])).is_empty());
    assert_eq!(compacted(&["a@9 merge remove"], filtered(&[9])), ["a@9 merge remove"]);
}

#[test]
fn the_filter_may_skip_to_a_later_key_over_what_no_snapshot_sees() {
    let lines = ["a@9 put skip to d", "a@3 put 3", "b@9 put 9", "b@4 put 4", "d@7 put 7"];
    assert_eq!(compacted(&lines, filtered(&[])), ["d@7 put 7"]);
    assert_eq!(compacted(&lines, filtered(&[5])), ["a@3 put 3", "b@4 put 4", "d@7 put 7"]);
    // The filter cannot skip backward.
    assert_eq!(compacted(&["d@9 put skip to d"], filtered(&[])), ["d@9 put skip to d"]);
}

#[test]
fn tombstones_hide_within_their_stripe() {
    let with = |list: &[u64], bottom| {
        let mut options = CompactionIteratorOptions { bottommost: bottom, ..options(list) };
        options.range_dels.add(&tombstones(&[("a", "c", 6), ("b", "d", 3)]), None);
        options
    };
    let lines =
        ["a@7 put 7", "a@5 put 5", "a@2 put 2", "b@6 put 6", "b@2 merge 2", "c@4 merge 4", "c@2 put 2"];
    assert_eq!(compacted(&lines, with(&[], false)), ["a@7 put 7", "b@6 put 6", "c@4 put 4"]);
    assert_eq!(
        compacted(&lines, with(&[2, 5], false)),
        ["a@7 put 7", "a@5 put 5", "a@2 put 2", "b@6 put 6", "b@2 merge 2", "c@4 merge 4", "c@2 put 2"]
    );
    let lines = ["a@5 put 5", "a@2 put 2", "c@2 del", "d@1 put 1"];
    let (out, stats) = compacted_with_stats(&lines, with(&[], false));
    assert_eq!((&out[..], stats.dropped_range_del), (&["d@1 put 1".to_owned()][..], 2));
}

#[test]
fn an_output_gets_the_tombstones_of_its_range_that_a_reader_needs() {
    let outputs = |list: &[u64], bottom, lower: Option<&[u8]>, upper: Option<&[u8]>| {
        let mut options = CompactionIteratorOptions { bottommost: bottom, ..options(list) };
        options.range_dels.add(&tombstones(&[("a", "f", 6), ("b", "d", 3), ("g", "h", 2)]), None);
        let mut iter = CompactionIterator::new(InternalKeyComparator::default(), run(&[]), options);
        let text = |key: &[u8]| key.escape_ascii().to_string();
        let made = iter.tombstones_for_output(lower, upper);
        made.iter().map(|t| format!("{}-{}@{}", text(&t.start), text(&t.end), t.seq)).collect::<Vec<_>>()
    };
    assert_eq!(outputs(&[], false, None, None), ["a-f@6", "g-h@2"]);
    assert_eq!(outputs(&[4], false, None, None), ["a-f@6", "b-d@3", "g-h@2"]);
    assert_eq!(outputs(&[4], true, None, None), ["a-f@6"]);
    assert!(outputs(&[], true, None, None).is_empty());
    assert_eq!(outputs(&[], false, Some(b"c"), Some(b"gg")), ["c-f@6", "g-gg@2"]);
    assert_eq!(outputs(&[4], false, Some(b"c"), Some(b"cc")), ["c-cc@6", "c-cc@3"]);
    assert!(outputs(&[], false, Some(b"f"), Some(b"g")).is_empty());
}

#[test]
fn bounds_cut_a_subcompaction() {
    let lines = ["a@1 put 1", "b@1 put 1", "c@1 put 1", "d@1 put 1"];
    let within = |lower: Option<&str>, upper: Option<&str>| CompactionIteratorOptions {
        lower_bound: lower.map(|l| l.as_bytes().to_vec()),
        upper_bound: upper.map(|u| u.as_bytes().to_vec()),
        ..options(&[])
    };
    assert_eq!(compacted(&lines, within(None, Some("b"))), lines[..1]);
    assert_eq!(compacted(&lines, within(Some("b"), Some("d"))), lines[1..3]);
    assert_eq!(compacted(&lines, within(Some("d"), None)), lines[3..]);
}

fn failure(input: VecIter, options: CompactionIteratorOptions) -> (usize, Error) {
    let mut iter = CompactionIterator::new(InternalKeyComparator::default(), input, options);
    iter.seek_to_first();
    let mut shown = 0;
    while iter.valid() {
        shown += 1;
        iter.next();
    }
    (shown, iter.status().unwrap_err())
}

#[test]
fn it_stops_when_cancelled() {
    let flag = Arc::new(AtomicBool::new(true));
    let cancelled = CompactionIteratorOptions { cancelled: Some(flag), ..options(&[]) };
    let (shown, error) = failure(run(&["a@1 put 1"]), cancelled);
    assert_eq!((shown, error.kind()), (0, ErrorKind::ShutdownInProgress));
}

#[test]
fn a_failure_of_the_input_is_never_taken_for_its_end() {
    for lines in [
        ["a@9 del", "a@3 put 3"],
        ["a@9 sd", "a@3 put 3"],
        ["a@9 merge 9", "a@3 put 3"],
        ["a@9 put 9", "a@3 put 3"],
    ] {
        let (shown, error) = failure(run(&lines).failing_at(1), bottommost(&[4]));
        assert!(error.is_corruption() && shown <= 1, "{lines:?}: {shown} {error}");
        assert!(shown == 0 || lines[0].contains("put"), "{lines:?} shown before the next entry was read");
    }
}

#[test]
fn malformed_entries_are_corruption() {
    let icmp = InternalKeyComparator::default();
    for key in [b"short".to_vec(), [&b"a"[..], &[0x7F, 1, 0, 0, 0, 0, 0, 0]].concat()] {
        let input = VecIter::new(&icmp, Arc::new(vec![(key, Vec::new())]));
        assert!(failure(input, options(&[])).1.is_corruption());
    }
    let stray = key::internal_key(b"a", SequenceNumber(1), ValueType::RangeDeletion);
    let input = VecIter::new(&icmp, Arc::new(vec![(stray, b"b".to_vec())]));
    assert!(failure(input, options(&[])).1.message().contains("range tombstone"));
}

#[test]
fn columns_in_blob_files_come_into_entities_for_readers_without_blob_columns() {
    let blobs = crate::merge::tests::blobs::stored(&[("a", "alpha")]);
    let location = match BlobIndex::parse(blobs.indexes[0].as_bytes()).unwrap() {
        BlobIndex::Blob(location) => location,
        other => panic!("{other:?}"),
    };
    let columns = vec![(&b"far"[..], StoredValue::Blob(location)), (b"near", StoredValue::Inline(b"x"))];
    let mut entity = Vec::new();
    StoredColumns { columns }.append_to(&mut entity).unwrap();
    let key = key::internal_key(b"a", SequenceNumber(9), ValueType::WideColumnEntity);
    for whole_entities in [false, true] {
        let input =
            VecIter::new(&InternalKeyComparator::default(), Arc::new(vec![(key.clone(), entity.clone())]));
        let options =
            CompactionIteratorOptions { blobs: Some(blobs.reader.clone()), whole_entities, ..options(&[]) };
        let mut iter = CompactionIterator::new(InternalKeyComparator::default(), input, options);
        iter.seek_to_first();
        assert!(iter.valid(), "{:?}", iter.status());
        assert_eq!((iter.key(), may_have_blobs(iter.value())), (&key[..], !whole_entities));
        let mut kept = BlobTally::default();
        kept.count(ValueType::WideColumnEntity, b"a", iter.value()).unwrap();
        if whole_entities {
            let columns: Vec<_> = EncodedColumns::parse(iter.value()).unwrap().iter().collect();
            assert_eq!(columns, [(&b"far"[..], &b"alpha"[..]), (b"near", b"x")]);
        } else {
            assert_eq!(iter.value(), entity);
        }
        iter.next();
        assert!(!iter.valid() && iter.status().is_ok());
        let garbage = iter.blobs_in().garbage(&kept);
        assert_eq!(garbage.len(), usize::from(whole_entities), "the value in the blob file is garbage");
    }
}
