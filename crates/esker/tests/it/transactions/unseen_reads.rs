//! Reads of every kind beside transactions whose ops are in memtables and tables before their
//! commit.

use super::options;
use super::write_prepared::begin;
use esker::txn::WritePolicy;
use esker::{
    ColumnFamilyHandle, Db, MultiScanArgs, Options, ReadOptions, Snapshot, Transaction, TransactionDb,
    TransactionDbOptions, WriteOptions,
};
use std::collections::BTreeMap;

type Contents = BTreeMap<String, String>;
/// A name, and what it sets.
type Way = (&'static str, fn(&mut ReadOptions));

/// `k5` is deleted singly. No op touches `k8`, and nothing ever writes `k9`.
const KEYS: [&str; 10] = ["k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"];

fn open(options: &Options, write_policy: WritePolicy) -> TransactionDb {
    let how =
        TransactionDbOptions::default().write_policy(write_policy).default_write_batch_flush_threshold(1);
    TransactionDb::open(options, &how, "/db").unwrap()
}

fn contents(pairs: &[(&str, &str)]) -> Contents {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn fill(db: &Db) -> Contents {
    let family = db.default_column_family();
    for key in ["k1", "k2", "k3", "k5", "k6", "k8"] {
        db.put(key, "old").unwrap();
    }
    let columns: [(&[u8], &[u8]); 2] = [(b"", b"old"), (b"more", b"old")];
    db.put_entity(&WriteOptions::default(), &family, "k7", &columns).unwrap();
    contents(&["k1", "k2", "k3", "k5", "k6", "k7", "k8"].map(|key| (key, "old")))
}

/// One op of each kind. The last one stays in the batch of a transaction that spills.
fn write(txn: &Transaction, family: &ColumnFamilyHandle) -> Contents {
    txn.put("k0", "new").unwrap();
    txn.put("k1", "lost").unwrap();
    txn.put("k1", "new").unwrap();
    txn.delete("k2").unwrap();
    txn.merge_cf(family, "k3", "new").unwrap();
    txn.merge_cf(family, "k4", "new").unwrap();
    txn.single_delete_cf(family, "k5").unwrap();
    txn.put_entity(family, "k6", &[(b"", b"new"), (b"more", b"new")]).unwrap();
    txn.put("k7", "new").unwrap();
    txn.delete("k9").unwrap();
    let new = [("k0", "new"), ("k1", "new"), ("k3", "old,new"), ("k4", "new"), ("k6", "new"), ("k7", "new")];
    contents(&[&new[..], &[("k8", "old")]].concat())
}

fn text(bytes: impl AsRef<[u8]>) -> String {
    String::from_utf8(bytes.as_ref().to_vec()).unwrap()
}

/// Compares every read with `expected`.
fn check(db: &Db, at: Option<&Snapshot>, expected: &Contents, case: &str) {
    let options = ReadOptions { snapshot: at.cloned(), ..ReadOptions::default() };
    check_gets(db, &options, expected, case);
    check_batches(db, &options, expected, case);
    let family = db.default_column_family();
    let ways: [Way; 8] = [
        ("plain", |_| ()),
        ("pinned", |o| o.pin_data = true),
        ("tailing", |o| o.tailing = o.snapshot.is_none()),
        ("lazy", |o| o.allow_unprepared_value = true),
        ("bounded", |o| {
            (o.iterate_lower_bound, o.iterate_upper_bound) = (Some(b"k".to_vec()), Some(b"l".to_vec()));
        }),
        ("asynchronous", |o| o.async_io = true),
        ("refreshed", |o| o.auto_refresh_iterator_with_snapshot = true),
        ("few skips", |o| o.max_skippable_internal_keys = 1000),
    ];
    for (way, set) in ways {
        let mut options = options.clone();
        set(&mut options);
        let tailing = options.tailing;
        let case = format!("{case}, {way}");
        let mut iter = db.iter_opt(options, &family).unwrap();
        let mut found = Contents::new();
        iter.seek_to_first();
        while iter.valid() {
            iter.prepare_value().unwrap();
            found.insert(text(iter.key()), text(iter.value()));
            iter.next();
        }
        iter.status().unwrap();
        assert_eq!(&found, expected, "{case}");
        for key in KEYS {
            iter.seek(key);
            let next = expected.range(key.to_owned()..).next().map(|(key, _)| key.clone());
            assert_eq!(iter.valid().then(|| text(iter.key())), next, "{case}: seek {key}");
            if !tailing {
                iter.seek_for_prev(key);
                let last = expected.range(..=key.to_owned()).next_back().map(|(key, _)| key.clone());
                assert_eq!(iter.valid().then(|| text(iter.key())), last, "{case}: seek_for_prev {key}");
            }
        }
    }
    let mut iter = db.coalescing_iter(&options, &[&family]).unwrap();
    let mut found = Contents::new();
    iter.seek_to_last();
    while iter.valid() {
        found.insert(text(iter.key()), text(iter.value()));
        iter.prev();
    }
    assert_eq!(&found, expected, "{case}: coalescing_iter");
    let mut args = MultiScanArgs::new();
    args.insert("k0", "k4");
    args.insert("k4", "l");
    let mut scans = db.new_multi_scan(options, &family, &args).unwrap();
    let mut found = Contents::new();
    while let Some(mut scan) = scans.next_scan() {
        while let Some((key, value)) = scan.next_item().unwrap() {
            found.insert(text(key), text(value));
        }
    }
    assert_eq!(&found, expected, "{case}: multi_scan");
}

fn check_gets(db: &Db, options: &ReadOptions, expected: &Contents, case: &str) {
    let family = db.default_column_family();
    for key in KEYS {
        let value = expected.get(key).cloned();
        let check = |found: Option<String>, call: &str| assert_eq!(found, value, "{case}: {call} {key}");
        check(db.get_opt(options, &family, key).unwrap().map(text), "get");
        check(db.get_pinned_opt(options, &family, key).unwrap().map(text), "get_pinned");
        let entity = db.get_entity(options, &family, key).unwrap();
        check(entity.map(|columns| text(columns.iter().next().expect("a column").1)), "get_entity");
        let operands = db.get_merge_operands(options, &family, key, 10).unwrap();
        let joined = operands.iter().map(text).collect::<Vec<_>>().join(",");
        check((!operands.is_empty()).then_some(joined), "get_merge_operands");
        let output = db.get_with_metadata(options, &family, key).unwrap();
        check(output.value.map(text), "get_with_metadata");
        assert!(
            db.key_may_exist(&family, key) || value.is_none() || options.snapshot.is_some(),
            "{case}: {key}"
        );
    }
    if options.snapshot.is_none() {
        let first = db.first().unwrap().map(|(key, _)| text(key));
        assert_eq!(first.as_ref(), expected.keys().next(), "{case}");
        let last = db.last().unwrap().map(|(key, _)| text(key));
        assert_eq!(last.as_ref(), expected.keys().next_back(), "{case}");
        let found = KEYS.map(|key| db.contains_key(key).unwrap());
        assert_eq!(found, KEYS.map(|key| expected.contains_key(key)), "{case}: contains_key");
    }
}

fn check_batches(db: &Db, options: &ReadOptions, expected: &Contents, case: &str) {
    let family = db.default_column_family();
    let values = KEYS.map(|key| expected.get(key).cloned()).to_vec();
    let found = db.multi_get_opt(options, &family, &KEYS).into_iter();
    assert_eq!(found.map(|v| v.unwrap().map(text)).collect::<Vec<_>>(), values, "{case}: multi_get");
    let pairs = KEYS.map(|key| (&family, key.as_bytes()));
    let found = db.multi_get_cf(options, &pairs).into_iter();
    assert_eq!(found.map(|v| v.unwrap().map(text)).collect::<Vec<_>>(), values, "{case}: multi_get_cf");
    let found = db.multi_get_with_metadata(options, &pairs).into_iter();
    let found: Vec<_> = found.map(|output| output.unwrap().value.map(text)).collect();
    assert_eq!(found, values, "{case}: multi_get_with_metadata");
    let found = db.multi_get_entity(options, &family, &KEYS).into_iter().map(|entity| {
        let entity = entity.unwrap();
        entity.map(|columns| text(columns.iter().next().expect("a column").1))
    });
    assert_eq!(found.collect::<Vec<_>>(), values, "{case}: multi_get_entity");
}

/// In memtables, in a table, or merged with the older values.
fn settle(db: &Db, place: usize) {
    if place > 0 {
        db.flush().unwrap();
    }
    if place > 1 {
        db.compact_range(None, None).unwrap();
    }
}

#[test]
fn no_read_of_any_kind_sees_what_is_not_committed() {
    let policies = [WritePolicy::WritePrepared, WritePolicy::WriteUnprepared];
    let cases =
        policies.into_iter().flat_map(|policy| (0..9).map(move |places| (policy, places / 3, places % 3)));
    for (policy, place_of_old, place_of_new) in cases {
        for commits in [true, false] {
            let case = format!("{policy:?}, {place_of_old} below {place_of_new}, commits {commits}");
            let db = open(&options(), policy);
            let family = db.db().default_column_family();
            let old = fill(db.db());
            settle(db.db(), place_of_old);
            let before = db.db().snapshot();
            let txn = begin(&db, "one");
            let new = write(&txn, &family);
            check(db.db(), None, &old, &format!("{case}, running"));
            txn.prepare().unwrap();
            settle(db.db(), place_of_new);
            check(db.db(), None, &old, &format!("{case}, prepared"));
            let prepared = db.db().snapshot();
            if commits { txn.commit() } else { txn.rollback() }.unwrap();
            let now = if commits { &new } else { &old };
            check(db.db(), None, now, &format!("{case}, over"));
            settle(db.db(), place_of_new);
            check(db.db(), None, now, &format!("{case}, over and settled"));
            for at in [&before, &prepared] {
                check(db.db(), Some(at), &old, &format!("{case}, at {}", at.sequence()));
            }
        }
    }
}
