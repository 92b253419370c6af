use super::*;
use proptest::prelude::*;

const DEFAULT: ColumnFamilyId = ColumnFamilyId::DEFAULT;

#[derive(Clone, Debug)]
enum Op {
    Put(u32, Vec<u8>, Vec<u8>),
    Delete(u32, Vec<u8>),
    SingleDelete(u32, Vec<u8>),
    Merge(u32, Vec<u8>, Vec<u8>),
    DeleteRange(u32, Vec<u8>, Vec<u8>),
    PutEntity(u32, Vec<u8>, Vec<u8>),
    LogData(Vec<u8>),
    Commit(Vec<u8>),
    Noop,
}

impl Op {
    fn apply(&self, batch: &mut WriteBatch) -> Result<()> {
        match self {
            Op::Put(f, k, v) => batch.put_cf(ColumnFamilyId(*f), k, v),
            Op::Delete(f, k) => batch.delete_cf(ColumnFamilyId(*f), k),
            Op::SingleDelete(f, k) => batch.single_delete_cf(ColumnFamilyId(*f), k),
            Op::Merge(f, k, v) => batch.merge_cf(ColumnFamilyId(*f), k, v),
            Op::DeleteRange(f, k, v) => batch.delete_range_cf(ColumnFamilyId(*f), k, v),
            Op::PutEntity(f, k, v) => batch.put_serialized_entity(ColumnFamilyId(*f), k, v),
            Op::LogData(v) => batch.put_log_data(v),
            Op::Commit(xid) => batch.put_marker(BatchOp::Commit { xid }),
            Op::Noop => batch.put_marker(BatchOp::Noop),
        }
    }

    fn expected(&self) -> BatchOp<'_> {
        match self {
            Op::Put(f, k, v) => BatchOp::Put { family: ColumnFamilyId(*f), key: k, value: v },
            Op::Delete(f, k) => BatchOp::Delete { family: ColumnFamilyId(*f), key: k },
            Op::SingleDelete(f, k) => BatchOp::SingleDelete { family: ColumnFamilyId(*f), key: k },
            Op::Merge(f, k, v) => BatchOp::Merge { family: ColumnFamilyId(*f), key: k, operand: v },
            Op::DeleteRange(f, k, v) => BatchOp::DeleteRange { family: ColumnFamilyId(*f), begin: k, end: v },
            Op::PutEntity(f, k, v) => BatchOp::PutEntity { family: ColumnFamilyId(*f), key: k, entity: v },
            Op::LogData(v) => BatchOp::LogData(v),
            Op::Commit(xid) => BatchOp::Commit { xid },
            Op::Noop => BatchOp::Noop,
        }
    }
}

fn op() -> impl Strategy<Value = Op> {
    let family = || prop_oneof![3 => Just(0u32), 1 => 1u32..300, 1 => any::<u32>()];
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        4 => (family(), bytes(), bytes()).prop_map(|(f, k, v)| Op::Put(f, k, v)),
        1 => (family(), bytes()).prop_map(|(f, k)| Op::Delete(f, k)),
        1 => (family(), bytes()).prop_map(|(f, k)| Op::SingleDelete(f, k)),
        1 => (family(), bytes(), bytes()).prop_map(|(f, k, v)| Op::Merge(f, k, v)),
        1 => (family(), bytes(), bytes()).prop_map(|(f, k, v)| Op::DeleteRange(f, k, v)),
        1 => (family(), bytes(), bytes()).prop_map(|(f, k, v)| Op::PutEntity(f, k, v)),
        1 => bytes().prop_map(Op::LogData),
        1 => bytes().prop_map(Op::Commit),
        1 => Just(Op::Noop),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 0..20)
}

fn batch_of(ops: &[Op]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for op in ops {
        op.apply(&mut batch).unwrap();
    }
    batch
}

#[test]
fn bytes_are_rocksdbs() {
    let mut batch = WriteBatch::new();
    batch.put_cf(DEFAULT, b"k", b"value").unwrap();
    batch.delete_cf(ColumnFamilyId(300), b"key").unwrap();
    batch.put_log_data(b"blob").unwrap();
    batch.set_sequence(SequenceNumber(0x0102_0304));
    let mut expected = vec![4, 3, 2, 1, 0, 0, 0, 0, 2, 0, 0, 0];
    expected.extend_from_slice(b"\x01\x01k\x05value");
    expected.extend_from_slice(b"\x04\xAC\x02\x03key");
    expected.extend_from_slice(b"\x03\x04blob");
    assert_eq!(batch.data(), expected);
    assert_eq!(batch.count(), 2);
    assert_eq!(batch.sequence(), SequenceNumber(0x0102_0304));
}

#[test]
fn every_tag_is_decoded() {
    let lp = |s: &[u8]| [&[s.len() as u8], s].concat();
    let (k, v) = (lp(b"key"), lp(b"val"));
    let time = lp(b"val\x07\0\0\0\0\0\0\0");
    let family = ColumnFamilyId(5);
    let (key, value) = (&b"key"[..], &b"val"[..]);
    type Case<'a> = (Vec<u8>, BatchOp<'a>);
    let pair = |short: u8,
                long: u8,
                rest: Vec<u8>,
                make: fn(ColumnFamilyId) -> BatchOp<'static>|
     -> [Case<'static>; 2] {
        [
            ([&[short], &rest[..]].concat(), make(DEFAULT)),
            ([&[long, 5], &rest[..]].concat(), make(ColumnFamilyId(5))),
        ]
    };
    let kv = [k.clone(), v.clone()].concat();
    let mut cases: Vec<Case<'_>> = vec![
        ([&[3], &v[..]].concat(), BatchOp::LogData(value)),
        (vec![0x09], BatchOp::BeginPrepare(PrepareKind::Committed)),
        (vec![0x12], BatchOp::BeginPrepare(PrepareKind::Persisted)),
        (vec![0x13], BatchOp::BeginPrepare(PrepareKind::Unprepared)),
        ([&[0x0A], &k[..]].concat(), BatchOp::EndPrepare { xid: key }),
        ([&[0x0B], &k[..]].concat(), BatchOp::Commit { xid: key }),
        ([&[0x0C], &k[..]].concat(), BatchOp::Rollback { xid: key }),
        ([&[0x15], &kv[..]].concat(), BatchOp::CommitWithTimestamp { timestamp: key, xid: value }),
        (vec![0x0D], BatchOp::Noop),
    ];
    cases.extend(pair(0, 4, k.clone(), |family| BatchOp::Delete { family, key: b"key" }));
    cases.extend(pair(1, 5, kv.clone(), |family| BatchOp::Put { family, key: b"key", value: b"val" }));
    cases.extend(pair(2, 6, kv.clone(), |family| BatchOp::Merge { family, key: b"key", operand: b"val" }));
    cases.extend(pair(7, 8, k.clone(), |family| BatchOp::SingleDelete { family, key: b"key" }));
    cases.extend(pair(0xF, 0xE, kv.clone(), |family| BatchOp::DeleteRange {
        family,
        begin: b"key",
        end: b"val",
    }));
    cases.extend(pair(0x11, 0x10, kv.clone(), |family| BatchOp::BlobIndex {
        family,
        key: b"key",
        index: b"val",
    }));
    cases.extend(pair(0x16, 0x17, kv.clone(), |family| BatchOp::PutEntity {
        family,
        key: b"key",
        entity: b"val",
    }));
    cases.extend(pair(0x18, 0x19, [k, time].concat(), |family| BatchOp::TimedPut {
        family,
        key: b"key",
        value: TimedValue::parse(b"val\x07\0\0\0\0\0\0\0").unwrap(),
    }));
    for (bytes, expected) in cases {
        let count = u32::from(expected.is_counted());
        let batch = [&[0; 8], &count.to_le_bytes()[..], &bytes].concat();
        let view = WriteBatchView::parse(&batch).unwrap();
        assert_eq!(view.iter().collect::<Vec<_>>(), [expected]);
        // Cut anywhere, it is damage.
        for cut in BATCH_HEADER_BYTES + 1..batch.len() {
            assert!(WriteBatchView::parse(&batch[..cut]).unwrap_err().is_corruption());
        }
    }
    assert_eq!(BatchOp::Delete { family, key }.family(), Some(family));
}

#[test]
fn unknown_tags_and_wrong_counts_are_corruption() {
    let known = [0x00..=0x13u8, 0x15..=0x19];
    for tag in (0..=255u8).filter(|t| !known.iter().any(|r| r.contains(t))) {
        let bytes = [&[0; 8], &1u32.to_le_bytes()[..], &[tag], b"\x01k\x01v"].concat();
        let error = WriteBatchView::parse(&bytes).unwrap_err();
        assert!(error.is_corruption() && error.message().contains(&format!("tag {tag}")), "{error}");
    }
    let mut bytes = batch_of(&[Op::Noop, Op::Delete(0, b"k".to_vec())]).into_bytes();
    for count in [0, 2, u32::MAX] {
        bytes[8..12].copy_from_slice(&count.to_le_bytes());
        assert!(WriteBatchView::parse(&bytes).unwrap_err().is_corruption());
    }
    for length in 0..BATCH_HEADER_BYTES {
        assert!(WriteBatch::from_bytes(vec![0; length]).unwrap_err().is_corruption());
    }
}

#[test]
fn refused_op_leaves_the_batch_as_it_was() {
    let mut batch = WriteBatch::new();
    batch.set_max_bytes(40);
    batch.put_cf(DEFAULT, b"key", b"value").unwrap();
    let before = batch.data().to_vec();
    let error = batch.merge_cf(DEFAULT, b"key", [0; 100]).unwrap_err();
    assert_eq!((error.kind(), error.subcode()), (ErrorKind::Aborted, SubCode::MemoryLimit));
    assert_eq!(batch.data(), before);
    assert_eq!(batch.content(), BatchContent::default());
    assert!(batch.put_marker(BatchOp::LogData(b"x")).is_err());
    assert_eq!(batch.data(), before);
    batch.delete_cf(DEFAULT, b"key").unwrap();
    assert_eq!(batch.count(), 2);
}

#[test]
fn a_rollback_takes_later_termination_points_of_the_wal_and_keeps_earlier_ones() {
    let count = |batch: &WriteBatch| batch.wal_termination_point().map(|point| point.count);
    let mut batch = WriteBatch::new();
    batch.mark_wal_termination_point();
    assert_eq!(batch.wal_termination_point().unwrap().size, BATCH_HEADER_BYTES);
    assert_eq!(batch.pop_save_point().unwrap_err().kind(), ErrorKind::NotFound);
    batch.put("a", "1").unwrap();
    batch.set_save_point();
    batch.put("b", "2").unwrap();
    batch.mark_wal_termination_point();
    batch.put("c", "3").unwrap();
    let point = batch.wal_termination_point().unwrap();
    assert_eq!((point.count, batch.clone().len()), (2, 3));
    let part = Ops::new(batch.ops_bytes_before(&point)).count();
    assert_eq!(part, 2);
    let mut popped = batch.clone();
    popped.pop_save_point().unwrap();
    assert_eq!(count(&popped), Some(2));
    batch.rollback_to_save_point().unwrap();
    assert_eq!((count(&batch), batch.len()), (Some(0), 1));
    batch.clear();
    assert_eq!(count(&batch), None);
}

#[test]
fn save_points_nest() {
    let mut batch = WriteBatch::new();
    assert_eq!(batch.rollback_to_save_point().unwrap_err().kind(), ErrorKind::NotFound);
    batch.put_cf(DEFAULT, b"a", b"1").unwrap();
    batch.set_save_point();
    batch.merge_cf(DEFAULT, b"b", b"2").unwrap();
    batch.set_save_point();
    batch.delete_cf(DEFAULT, b"c").unwrap();
    batch.pop_save_point().unwrap();
    assert_eq!(batch.count(), 3);
    batch.rollback_to_save_point().unwrap();
    assert_eq!(batch.count(), 1);
    assert_eq!(batch.content(), BatchContent::default());
    assert_eq!(batch.pop_save_point().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(WriteBatch::from_bytes(batch.data().to_vec()).unwrap().count(), 1);
    batch.clear();
    assert!(batch.is_empty());
}

proptest! {
    #[test]
    fn a_batch_survives_encoding_and_decoding(ops in ops(), sequence: u64) {
        let mut batch = batch_of(&ops);
        batch.set_sequence(SequenceNumber(sequence));
        let back = WriteBatch::from_bytes(batch.data().to_vec()).unwrap();
        prop_assert_eq!(back.sequence(), SequenceNumber(sequence));
        prop_assert_eq!(back.count(), batch.count());
        prop_assert_eq!(back.content(), batch.content());
        prop_assert_eq!(back.iter().collect::<Vec<_>>(), ops.iter().map(Op::expected).collect::<Vec<_>>());
    }

    #[test]
    fn appending_is_writing_on(a in ops(), b in ops()) {
        let mut joined = batch_of(&a);
        joined.append(&batch_of(&b)).unwrap();
        let all: Vec<Op> = a.into_iter().chain(b).collect();
        let at_once = batch_of(&all);
        prop_assert_eq!(joined.data(), at_once.data());
        prop_assert_eq!(joined.content(), at_once.content());
    }

    #[test]
    fn rolled_back_batch_is_the_one_before(a in ops(), b in ops(), c in ops()) {
        let mut batch = batch_of(&a);
        batch.set_save_point();
        for op in &b {
            op.apply(&mut batch).unwrap();
        }
        batch.rollback_to_save_point().unwrap();
        for op in &c {
            op.apply(&mut batch).unwrap();
        }
        let all: Vec<Op> = a.into_iter().chain(c).collect();
        let expected = batch_of(&all);
        prop_assert_eq!(batch.data(), expected.data());
        prop_assert_eq!(batch.content(), expected.content());
    }

    /// Damage is found, or what comes out is a batch again: walking it does not panic.
    #[test]
    fn damaged_batches_are_refused_or_walkable(
        ops in ops(),
        at: prop::sample::Index,
        mask in 1u8..,
    ) {
        let mut bytes = batch_of(&ops).into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= mask;
        if let Ok(view) = WriteBatchView::parse(&bytes) {
            prop_assert_eq!(view.iter().filter(BatchOp::is_counted).count(), view.count() as usize);
        }
    }
}

#[test]
fn an_untouched_batch_owns_no_memory_and_looks_like_an_empty_one() {
    let batch = WriteBatch::new();
    assert_eq!(batch.rep.capacity(), 0);
    assert_eq!((batch.data(), batch.data_size(), batch.is_empty()), (&[0; 12][..], 12, true));
    assert!(batch.ops_bytes().is_empty() && batch.iter().next().is_none());
    assert_eq!(batch.view().sequence(), SequenceNumber::ZERO);
    assert_eq!(batch.clone().into_bytes(), vec![0; 12]);
    let mut saved = batch.clone();
    saved.set_save_point();
    saved.put_cf(ColumnFamilyId::DEFAULT, b"k", b"v").unwrap();
    saved.rollback_to_save_point().unwrap();
    assert_eq!(saved.data(), batch.data());
    let mut numbered = batch;
    numbered.set_sequence(SequenceNumber(7));
    assert_eq!((numbered.sequence(), numbered.is_empty()), (SequenceNumber(7), true));
}
