use super::super::{section_record, section_record_again};
use super::*;
use esker_base::ErrorKind;
use esker_testkit::seed;

const DEFAULT: ColumnFamilyId = ColumnFamilyId::DEFAULT;

/// Makes a record. The ops: `put a`, `merge a`, `del a`, `range a b`, `noop`, `begin`,
/// `begin-persisted`, `begin-unprepared`, `end x`, `commit x`, `rollback x`.
fn record(sequence: u64, ops: &[&str]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for op in ops {
        let mut words = op.split(' ').map(str::as_bytes);
        let (what, first) = (words.next().unwrap(), words.next().unwrap_or_default());
        match what {
            b"put" => batch.put_cf(DEFAULT, first, b"v").unwrap(),
            b"merge" => batch.merge_cf(DEFAULT, first, b"m").unwrap(),
            b"del" => batch.delete_cf(DEFAULT, first).unwrap(),
            b"range" => batch.delete_range_cf(DEFAULT, first, words.next().unwrap()).unwrap(),
            b"noop" => batch.put_marker(BatchOp::Noop).unwrap(),
            b"begin" => batch.put_marker(BatchOp::BeginPrepare(PrepareKind::Committed)).unwrap(),
            b"begin-persisted" => batch.put_marker(BatchOp::BeginPrepare(PrepareKind::Persisted)).unwrap(),
            b"begin-unprepared" => batch.put_marker(BatchOp::BeginPrepare(PrepareKind::Unprepared)).unwrap(),
            b"end" => batch.put_marker(BatchOp::EndPrepare { xid: first }).unwrap(),
            b"commit" => batch.put_marker(BatchOp::Commit { xid: first }).unwrap(),
            b"rollback" => batch.put_marker(BatchOp::Rollback { xid: first }).unwrap(),
            _ => panic!("{op}?"),
        }
    }
    batch.set_sequence(SequenceNumber(sequence));
    batch
}

/// The ops that records apply, each as `wal:sequence key`. After the ops of each record comes the
/// count of its numbers, as `+count`.
struct Replayed {
    replay: TwoPhaseReplay,
    applied: Vec<String>,
}

impl Replayed {
    fn new() -> Replayed {
        Replayed { replay: TwoPhaseReplay::new(true), applied: Vec::new() }
    }

    fn record(&mut self, wal: u64, sequence: u64, ops: &[&str]) -> Result<()> {
        let (batch, applied) = (record(sequence, ops), &mut self.applied);
        let consumed = self.replay.record(FileNumber(wal), &batch.view(), &mut |wal, sequence, op| {
            let (_, _, key) = key_of(op).expect("a counted op has a key");
            applied.push(format!("{wal}:{sequence} {}", key.escape_ascii()));
            Ok(())
        })?;
        self.applied.push(format!("+{consumed}"));
        Ok(())
    }

    fn left(self) -> Vec<(String, usize, bool)> {
        let left = self.replay.into_unresolved().unwrap();
        let of = |t: &UnresolvedTransaction| {
            (String::from_utf8(t.xid.clone()).unwrap(), t.ops(&|_| None).len(), t.is_prepared())
        };
        left.iter().map(of).collect()
    }
}

#[test]
fn a_section_is_applied_by_its_commit_at_the_commit_s_numbers() {
    let mut r = Replayed::new();
    r.record(4, 1, &["noop", "put plain"]).unwrap();
    r.record(4, 2, &["begin", "put a", "put a", "end x"]).unwrap();
    r.record(4, 2, &["begin", "put b", "end y", "noop", "put between"]).unwrap();
    r.record(5, 3, &["commit x", "put behind"]).unwrap();
    r.record(5, 6, &["rollback y"]).unwrap();
    r.record(5, 6, &["commit unknown"]).unwrap();
    r.record(5, 6, &["begin", "end z"]).unwrap();
    let expected = [
        "4:1 plain",
        "+1",
        "+0",
        "4:2 between",
        "+1",
        "5:3 a",
        "5:4 a",
        "5:5 behind",
        "+3",
        "+0",
        "+0",
        "+0",
    ];
    assert_eq!(r.applied, expected);
    assert_eq!(r.left(), [("z".to_owned(), 0, true)]);
}

#[test]
fn a_section_that_is_written_again_replaces_the_first() {
    let mut r = Replayed::new();
    r.record(4, 1, &["begin", "put a", "end x"]).unwrap();
    r.record(5, 1, &["rollback x", "begin", "put a", "end x"]).unwrap();
    assert_eq!(r.applied, ["+0", "+0"]);
    assert_eq!(r.left(), [("x".to_owned(), 1, true)]);
    let mut ops = WriteBatch::new();
    ops.put_cf(DEFAULT, b"a", b"v").unwrap();
    let again = section_record_again(b"x", &ops).unwrap();
    assert_eq!(again.ops_bytes(), record(0, &["rollback x", "begin", "put a", "end x"]).ops_bytes());
}

#[test]
fn batches_of_the_prepared_policy_take_a_number_each_and_one_more_for_each_key_that_comes_again() {
    let mut r = Replayed::new();
    r.record(4, 1, &["put p", "put q", "noop"]).unwrap();
    r.record(4, 2, &["begin-persisted", "put a", "put b", "put a", "range a b", "put c", "end x"]).unwrap();
    r.record(4, 4, &["begin-persisted", "put d", "end y", "put e", "put f", "noop"]).unwrap();
    r.record(5, 6, &["commit x"]).unwrap();
    r.record(5, 7, &["del d", "rollback y", "put g", "noop"]).unwrap();
    let expected = [
        "4:1 p", "4:1 q", "+1", "+2", "4:5 e", "4:5 f", "+2", "4:2 a", "4:2 b", "4:3 a", "4:3 a", "4:3 c",
        "+1", "5:7 d", "4:4 d", "5:8 g", "+2",
    ];
    assert_eq!(r.applied, expected);
    assert_eq!(r.left(), []);
}

#[test]
fn a_rollback_of_the_prepared_policy_leaves_the_operands_of_keys_that_it_does_not_take_back() {
    let mut r = Replayed::new();
    r.record(4, 1, &["begin-persisted", "merge a", "merge b", "put c", "end x"]).unwrap();
    r.record(4, 2, &["begin-persisted", "merge d", "end y"]).unwrap();
    r.record(4, 3, &["put a", "del c", "rollback x"]).unwrap();
    // Recovery wrote this section again, for a commit under write-committed.
    r.record(5, 4, &["rollback y", "begin", "merge d", "end y"]).unwrap();
    assert_eq!(r.applied, ["+1", "+1", "4:3 a", "4:3 c", "4:1 a", "4:1 b", "4:1 c", "+1", "+0"]);
    assert_eq!(r.left(), [("y".to_owned(), 1, true)]);
}

#[test]
fn a_rollback_that_takes_keys_back_tells_the_policy_even_if_its_section_is_gone() {
    let mut r = Replayed::new();
    r.record(4, 7, &["put a", "del b", "rollback gone"]).unwrap();
    r.record(4, 8, &["commit gone-too"]).unwrap();
    assert_eq!(r.applied, ["4:7 a", "4:7 b", "+1", "+1"]);
}

#[test]
fn a_rollback_whose_section_is_gone_takes_an_unknown_count_of_numbers_until_the_wal_shows_its_policy() {
    let mut replayed = Replayed::new();
    replayed.record(3, 10, &["rollback x"]).unwrap();
    assert!(!replayed.replay.knows_next_number());
    replayed.record(3, 11, &["put a", "noop"]).unwrap();
    assert!(replayed.replay.knows_next_number());
    replayed.record(3, 12, &["rollback y"]).unwrap();
    assert!(replayed.replay.knows_next_number());
    assert_eq!(replayed.applied, ["+0", "3:11 a", "+1", "+1"]);
}

#[test]
fn the_record_by_which_an_open_drops_a_transaction_tells_the_policy() {
    let mut r = Replayed::new();
    r.record(4, 7, &["rollback gone", "put a", "del b", "noop"]).unwrap();
    r.record(4, 9, &["put c", "put d", "noop"]).unwrap();
    r.replay.begin_file();
    // Under write-committed, such a record, while the WAL with the section is still there.
    r.record(5, 10, &["begin-unprepared", "put e", "end x"]).unwrap();
    r.replay.begin_file();
    r.record(6, 11, &["rollback x", "rollback gone", "put a", "del b"]).unwrap();
    let expected = ["4:8 a", "4:8 b", "+2", "4:9 c", "4:9 d", "+1", "+1", "6:11 a", "6:12 b", "+2"];
    assert_eq!(r.applied, expected);
    assert_eq!(r.left(), []);
}

#[test]
fn a_group_that_begins_with_a_rollback_and_ends_in_a_commit_keeps_the_policy() {
    let mut r = Replayed::new();
    r.record(4, 1, &["begin-persisted", "merge a", "end x"]).unwrap();
    r.record(4, 2, &["begin-persisted", "put b", "end y"]).unwrap();
    r.record(4, 3, &["rollback x", "put c", "commit y"]).unwrap();
    assert_eq!(r.applied, ["+1", "+1", "4:4 c", "4:2 b", "+2"]);
}

/// A group of writers shares a record, and the section of a transaction that is rolled back may be
/// gone.
#[test]
fn a_rollback_behind_another_writers_ops_takes_no_keys_back() {
    let mut r = Replayed::new();
    r.record(4, 1, &["put a", "put b"]).unwrap();
    r.record(4, 3, &["put c", "put d", "rollback gone"]).unwrap();
    r.record(4, 5, &["put e", "put f"]).unwrap();
    r.replay.begin_file();
    // Only the sequence number of the next record shows what this rollback is.
    r.record(5, 7, &["put g", "rollback gone-too"]).unwrap();
    r.record(5, 8, &["put h", "put i"]).unwrap();
    let expected = [
        "4:1 a", "4:2 b", "+2", "4:3 c", "4:4 d", "+2", "4:5 e", "4:6 f", "+2", "5:7 g", "+1", "5:8 h",
        "5:9 i", "+2",
    ];
    assert_eq!(r.applied, expected);
}

#[test]
fn parts_of_an_unprepared_transaction_belong_together() {
    let mut r = Replayed::new();
    r.record(4, 1, &["begin-unprepared", "put a", "end x"]).unwrap();
    r.record(4, 2, &["begin-unprepared", "put b", "end y"]).unwrap();
    r.record(5, 3, &["begin-persisted", "put c", "end x"]).unwrap();
    r.record(5, 4, &["begin-unprepared", "put d", "end z"]).unwrap();
    r.record(6, 5, &["commit z"]).unwrap();
    assert_eq!(r.applied, ["+1", "+1", "+1", "+1", "5:4 d", "+1"]);
    assert_eq!(r.left(), [("x".to_owned(), 2, true), ("y".to_owned(), 1, false)]);
}

#[test]
fn the_policy_is_that_of_the_wal() {
    let mut r = Replayed::new();
    r.record(4, 1, &["put a", "put b", "noop"]).unwrap();
    r.replay.begin_file();
    r.record(5, 2, &["noop", "put a", "put b"]).unwrap();
    assert_eq!(r.applied, ["4:1 a", "4:1 b", "+1", "5:2 a", "5:3 b", "+2"]);
}

#[test]
fn markers_that_do_not_match_are_corruption() {
    for ops in [&["end x"][..], &["begin", "begin", "end x"], &["begin", "put a"]] {
        let error = Replayed::new().record(4, 1, ops).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{ops:?}");
        assert!(error.to_string().contains("000004.log"), "{error}");
    }
}

#[test]
fn a_replay_without_sections_refuses_them_and_accepts_resolutions_of_sections_in_tables() {
    let mut refusing = Replayed { replay: TwoPhaseReplay::new(false), applied: Vec::new() };
    for begin in ["begin", "begin-persisted", "begin-unprepared"] {
        let error = refusing.record(4, 1, &["put a", begin, "put b", "end x"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{begin}");
    }
    refusing.record(4, 1, &["noop", "put a"]).unwrap();
    refusing.record(4, 2, &["commit x"]).unwrap();
    refusing.record(4, 9, &["put b", "rollback y"]).unwrap();
    refusing.record(4, 12, &["put c"]).unwrap();
    let puts: Vec<_> = refusing.applied.iter().filter(|told| told.starts_with("4:")).collect();
    assert_eq!(puts, ["4:1 a", "4:9 b", "4:12 c"]);
    assert_eq!(refusing.left(), []);
}

#[test]
fn a_commit_s_timestamp_is_put_into_the_families_that_have_them() {
    let other = ColumnFamilyId(7);
    let mut r = TwoPhaseReplay::new(true);
    r.set_timestamped([other]);
    let mut ops = WriteBatch::new();
    ops.put_cf(DEFAULT, b"plain-key", b"v").unwrap();
    ops.put_cf(other, [b"a", &[0; 8][..]].concat(), b"v").unwrap();
    ops.delete_range_cf(other, [b"b", &[0; 8][..]].concat(), [b"c", &[0; 8][..]].concat()).unwrap();
    let mut section = section_record(b"x", &ops).unwrap();
    section.set_sequence(SequenceNumber(1));
    let mut applied = Vec::new();
    let mut insert = |_, sequence: SequenceNumber, op: &BatchOp<'_>| {
        let end = if let BatchOp::DeleteRange { end, .. } = op { end.to_vec() } else { Vec::new() };
        applied.push((sequence.0, key_of(op).unwrap().2, end));
        Ok(())
    };
    r.record(FileNumber(4), &section.view(), &mut insert).unwrap();
    let mut commit = WriteBatch::new();
    commit.put_marker(BatchOp::CommitWithTimestamp { timestamp: &[9; 8], xid: b"x" }).unwrap();
    commit.set_sequence(SequenceNumber(5));
    assert_eq!(r.record(FileNumber(5), &commit.view(), &mut insert).unwrap(), 3);
    let key = |key: &[u8]| [key, &[9; 8]].concat();
    let expected = [(5, b"plain-key".to_vec(), vec![]), (6, key(b"a"), vec![]), (7, key(b"b"), key(b"c"))];
    assert_eq!(applied, expected);
    let mut short = WriteBatch::new();
    short.put_cf(other, b"short", b"v").unwrap();
    r.record(FileNumber(5), &section_record(b"y", &short).unwrap().view(), &mut |_, _, _| Ok(())).unwrap();
    let mut commit = WriteBatch::new();
    commit.put_marker(BatchOp::CommitWithTimestamp { timestamp: &[9; 8], xid: b"y" }).unwrap();
    let error = r.record(FileNumber(5), &commit.view(), &mut |_, _, _| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

#[test]
fn the_oldest_wal_is_that_of_the_open_sections() {
    seed::for_each_seed("oldest-wal", 20, |_, mut rng| {
        let mut sections = PreparedSections::default();
        for wal in 1..200 {
            let (wal, xid) = (FileNumber(wal / 4), vec![rng.u8(..8)]);
            match rng.u8(..10) {
                0..=2 => sections.insert(xid, wal, Arc::default()),
                3..=5 => sections.insert_unprepared(xid, wal),
                6 => sections.forget(&xid),
                7 | 8 => sections.remove(&xid, None),
                _ if wal.0 % 10 == 0 => sections.moved_to(wal),
                _ => {}
            }
            assert_eq!(sections.oldest_wal(), sections.open.values().map(|open| open.wal).min());
        }
    });
}
