//! Reads and iterators of transactions over several families, with own writes in some of them.

use super::{open, options, until_waits};
use esker::{
    CoalescingIterator, ColumnFamilyHandle, ColumnsCursor, ErrorKind, IsolationLevel, OptimisticTransaction,
    OptimisticTransactionDb, OptimisticTransactionOptions, ReadOptions, Transaction, TransactionOptions,
    WriteOptions,
};
use esker_testkit::seed::for_each_seed;

/// The entry that the iterator shows after each of the same moves.
fn moves<C: ColumnsCursor>(mut iter: CoalescingIterator<C>, mut random: fastrand::Rng) -> Vec<String> {
    let mut shown = Vec::new();
    for _ in 0..300 {
        let target = format!("key{:02}", random.u32(..32));
        match random.u32(..8) {
            0 => iter.seek_to_first(),
            1 => iter.seek_to_last(),
            2 => iter.seek(&target),
            3 => iter.seek_for_prev(&target),
            4 | 5 => iter.prev(),
            _ => iter.next(),
        }
        iter.status().unwrap();
        shown.push(if iter.valid() {
            let groups = iter.attribute_groups();
            let groups: Vec<_> = groups.iter().map(|(family, columns)| (family.id(), columns)).collect();
            format!("{:?} {:?} {:?} {groups:?}", iter.key(), iter.value(), iter.columns())
        } else {
            "invalid".to_owned()
        });
    }
    shown
}

/// Writes of a transaction of either kind into three families. Then its iterator shows what the
/// database's shows behind the commit.
macro_rules! own_writes_are_shown_as_after_the_commit {
    ($db:expr, $families:expr, $seed:expr) => {
        let (db, families) = ($db, $families);
        let mut random = fastrand::Rng::with_seed($seed);
        for i in 0..60_u64 {
            let family = &families[random.usize(..3)];
            db.put_cf(family, format!("key{:02}", random.u32(..30)), format!("of the database {i}")).unwrap();
        }
        let txn = db.begin_transaction();
        for i in 0..40_u64 {
            let (family, key) = (&families[random.usize(..3)], format!("key{:02}", random.u32(..30)));
            let value = i.to_string();
            match random.u32(..5) {
                0 => txn.delete_cf(family, key).unwrap(),
                1 => txn.merge_cf(family, key, value).unwrap(),
                2 => txn.put_entity(family, key, &[(b"", b"default"), (b"own", value.as_bytes())]).unwrap(),
                3 if i % 10 == 0 => txn.delete_range_cf(family, "key10", "key14").unwrap(),
                _ => txn.put_cf(family, key, value).unwrap(),
            }
        }
        let all: Vec<&ColumnFamilyHandle> = families.iter().collect();
        let read = ReadOptions::default();
        let own = txn.coalescing_iter(&read, &all).unwrap();
        txn.put_cf(&families[0], "later", "not seen").unwrap();
        txn.delete_cf(&families[0], "later").unwrap();
        let shown = moves(own, fastrand::Rng::with_seed($seed));
        txn.commit().unwrap();
        let committed = db.db().coalescing_iter(&read, &all).unwrap();
        assert_eq!(shown, moves(committed, fastrand::Rng::with_seed($seed)));
        assert!(shown.iter().any(|line| line != "invalid"));
    };
}

#[test]
fn an_iterator_of_a_transaction_over_families_shows_what_the_commit_will_show() {
    for_each_seed("coalescing of transactions", 8, |seed, _| {
        let db = open();
        let cf = options().cf;
        let more = ["one", "two"].map(|name| db.create_column_family(name, &cf).unwrap());
        let families = [vec![db.default_column_family()], more.to_vec()].concat();
        own_writes_are_shown_as_after_the_commit!(&db, &families, seed);

        let db = OptimisticTransactionDb::open(&options(), "/db2").unwrap();
        let more = ["one", "two"].map(|name| db.db().create_column_family(name, &cf).unwrap());
        let families = [vec![db.default_column_family()], more.to_vec()].concat();
        own_writes_are_shown_as_after_the_commit!(&db, &families, seed);
    });
}

#[test]
fn all_families_are_read_at_one_point_in_time_and_serializable_reads_are_locked_or_checked() {
    let db = open();
    let two = db.create_column_family("two", &options().cf).unwrap();
    let one = db.default_column_family();
    let read = ReadOptions::default();
    let txn = db.begin_transaction();
    let mut iter = txn.coalescing_iter(&read, &[&one, &two]).unwrap();
    db.put_cf(&one, "a", "later").unwrap();
    db.put_cf(&two, "b", "later").unwrap();
    iter.seek_to_first();
    assert!(!iter.valid());
    assert_eq!(txn.coalescing_iter(&read, &[]).unwrap_err().kind(), ErrorKind::InvalidArgument);

    let strict = TransactionOptions::default().isolation(IsolationLevel::Serializable);
    let txn = db.begin_transaction_opt(&WriteOptions::default(), &strict);
    let iter = txn.coalescing_iter(&read, &[&one, &two]).unwrap();
    let eager = TransactionOptions::default().lock_timeout(0);
    let other = db.begin_transaction_opt(&WriteOptions::default(), &eager);
    assert_eq!(other.put_cf(&two, "c", "1").unwrap_err().kind(), ErrorKind::TimedOut);
    drop(iter);

    let db = OptimisticTransactionDb::open(&options(), "/db2").unwrap();
    let one = db.default_column_family();
    let strict = OptimisticTransactionOptions::default().isolation(IsolationLevel::Serializable);
    let txn = db.begin_transaction_opt(&WriteOptions::default(), &strict);
    drop(txn.coalescing_iter(&read, &[&one]).unwrap());
    txn.put("z", "1").unwrap();
    db.put("a", "of others").unwrap();
    assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Busy);
}

/// The value of key "k" in a family, by each kind of read over several families. The iterator
/// shows a value through `columns`, as an entity.
macro_rules! reads_over_families {
    ($kind:ty) => {{
        let many: fn(&$kind, &ColumnFamilyHandle) -> String = |txn, family| {
            let found = txn.multi_get_cf(&ReadOptions::default(), &[(family, "k")]);
            String::from_utf8(found[0].as_ref().unwrap().as_ref().unwrap().to_vec()).unwrap()
        };
        let iter: fn(&$kind, &ColumnFamilyHandle) -> String = |txn, family| {
            let mut iter = txn.coalescing_iter(&ReadOptions::default(), &[family]).unwrap();
            iter.seek("k");
            String::from_utf8(iter.value().to_vec()).unwrap()
        };
        [many, iter]
    }};
}

/// A read point that is taken before the lock misses what the holder commits meanwhile: an update
/// of the value would be lost.
#[test]
fn a_serializable_read_over_families_that_waits_for_a_lock_sees_what_its_holder_has_committed() {
    for read in reads_over_families!(Transaction) {
        let db = open();
        let two = db.create_column_family("two", &options().cf).unwrap();
        db.put_cf(&two, "k", "1").unwrap();
        let holder = db.begin_transaction();
        holder.put_cf(&two, "k", "2").unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let strict = TransactionOptions::default().isolation(IsolationLevel::Serializable);
                let txn = db.begin_transaction_opt(&WriteOptions::default(), &strict.lock_timeout(600_000));
                let found = read(&txn, &two);
                txn.put_cf(&two, "k", format!("{found} and one")).unwrap();
                txn.commit().unwrap();
            });
            until_waits(&db, 1);
            holder.commit().unwrap();
            reader.join().unwrap();
        });
        assert_eq!(db.get_cf(&two, "k").unwrap().unwrap(), b"2 and one");
    }
}

#[test]
fn a_serializable_read_over_families_sees_the_snapshot_since_which_the_commit_checks() {
    for read in reads_over_families!(OptimisticTransaction) {
        let db = OptimisticTransactionDb::open(&options(), "/db").unwrap();
        let family = db.default_column_family();
        db.put("k", "1").unwrap();
        let strict = OptimisticTransactionOptions::default().isolation(IsolationLevel::Serializable);
        let txn = db.begin_transaction_opt(&WriteOptions::default(), &strict);
        db.put("k", "5").unwrap();
        txn.set_snapshot_on_next_operation();
        assert_eq!(read(&txn, &family), "5");
        txn.put("k", "6").unwrap();
        txn.commit().unwrap();

        let txn = db.begin_transaction_opt(&WriteOptions::default(), &strict);
        assert_eq!(read(&txn, &family), "6");
        txn.put("other", "1").unwrap();
        db.put("k", "7").unwrap();
        assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Busy);
    }
}
