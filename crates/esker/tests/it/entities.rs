//! Wide columns: all ways to write them and all ways to read them, through flushes and compactions.

use esker::internals::env::mem::MemFs;
use esker::stats::{Statistics, Ticker};
use esker::{
    AttributeGroup, ColumnFamilyDescriptor, Db, Env, ErrorKind, OpenMode, OptimisticTransactionDb,
    OptimisticTransactionOptions, Options, ReadOptions, SstFileWriter, TransactionDb, TransactionDbOptions,
    TransactionOptions, WideColumns, WriteBatch, WriteBatchWithIndex, WriteOptions, builtin,
};
use std::path::Path;
use std::sync::Arc;

const COLUMNS: [(&[u8], &[u8]); 3] = [(b"y", b"2"), (b"", b"d"), (b"x", b"1")];

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.merge_operator = Some(builtin::string_append(","));
    options
}

fn open(options: &Options) -> Db {
    let family = |name: &str| ColumnFamilyDescriptor::new(name, options.cf.clone());
    let families = vec![family("default"), family("other")];
    Db::open_with(&options.db, Path::new("/db"), families, OpenMode::ReadWrite).unwrap()
}

/// The columns of `key` as `name=value` in order.
fn shown(db: &Db, key: &str) -> Option<String> {
    let family = db.default_column_family();
    let columns = db.get_entity(&ReadOptions::default(), &family, key).unwrap()?;
    let text = columns.iter().map(|(n, v)| format!("{}={}", n.escape_ascii(), v.escape_ascii()));
    Some(text.collect::<Vec<_>>().join(" "))
}

#[test]
fn an_entity_is_read_as_it_was_written_whatever_happens_to_its_file() {
    let options = options();
    let db = open(&options);
    let (family, write) = (db.default_column_family(), WriteOptions::default());
    let check = |db: &Db| {
        assert_eq!(shown(db, "entity").as_deref(), Some("=d x=1 y=2"));
        assert_eq!(shown(db, "no default").as_deref(), Some("x=1"));
        assert_eq!(shown(db, "none").as_deref(), Some(""));
        assert_eq!(shown(db, "plain").as_deref(), Some("=p"));
        assert_eq!(shown(db, "merged").as_deref(), Some("=d,m x=1 y=2"));
        assert_eq!(shown(db, "merged without").as_deref(), Some("=,m x=1"));
        assert_eq!(shown(db, "deleted"), None);
        assert_eq!(shown(db, "absent"), None);
        assert_eq!(db.get("entity").unwrap().as_deref(), Some(&b"d"[..]));
        assert_eq!(db.get("no default").unwrap().as_deref(), Some(&b""[..]));
        let mut iter = db.iter().unwrap();
        iter.seek("entity");
        assert_eq!(iter.columns(), [(&b""[..], &b"d"[..]), (b"x", b"1"), (b"y", b"2")]);
    };
    db.put_entity(&write, &family, "entity", &COLUMNS).unwrap();
    db.put_entity(&write, &family, "no default", &COLUMNS[2..]).unwrap();
    db.put_entity(&write, &family, "none", &[]).unwrap();
    db.put("plain", "p").unwrap();
    db.put_entity(&write, &family, "merged", &COLUMNS).unwrap();
    db.put_entity(&write, &family, "merged without", &COLUMNS[2..]).unwrap();
    db.put_entity(&write, &family, "deleted", &COLUMNS).unwrap();
    db.merge("merged", "m").unwrap();
    db.merge("merged without", "m").unwrap();
    db.delete("deleted").unwrap();
    check(&db);
    db.flush().unwrap();
    check(&db);
    db.compact_range(None, None).unwrap();
    check(&db);
    db.close().unwrap();
    drop(db);
    check(&open(&options));
}

#[test]
fn columns_that_have_one_name_are_refused_and_nothing_is_written() {
    let db = open(&options());
    let family = db.default_column_family();
    let error = db.put_entity(&WriteOptions::default(), &family, "k", &[(b"x", b"1"), (b"x", b"2")]);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(shown(&db, "k"), None);
}

#[test]
fn many_entities_are_read_at_one_sequence_number() {
    let db = open(&options());
    let (family, write) = (db.default_column_family(), WriteOptions::default());
    db.put_entity(&write, &family, "a", &COLUMNS).unwrap();
    let then = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    db.put_entity(&write, &family, "a", &COLUMNS[..1]).unwrap();
    db.put("b", "plain").unwrap();
    let read = |options: &ReadOptions| {
        let answers = db.multi_get_entity(options, &family, &["b", "a", "c", "a"]);
        answers.into_iter().map(|a| a.unwrap().map(|columns| columns.len())).collect::<Vec<_>>()
    };
    assert_eq!(read(&ReadOptions::default()), [Some(1), Some(1), None, Some(1)]);
    assert_eq!(read(&then), [None, Some(3), None, Some(3)]);
}

#[test]
fn an_entity_may_be_spread_over_families() {
    let db = open(&options());
    let (default, other) = (db.default_column_family(), db.column_family("other").unwrap());
    let groups = [
        AttributeGroup { column_family: &default, columns: &COLUMNS[..1] },
        AttributeGroup { column_family: &other, columns: &COLUMNS[1..] },
    ];
    db.put_entity_attribute_groups(&WriteOptions::default(), "k", &groups).unwrap();
    let found = db.get_entity_attribute_groups(&ReadOptions::default(), &[&other, &default], "k");
    let found: Vec<_> = found.into_iter().map(|group| group.unwrap().unwrap()).collect();
    assert_eq!(found[0].iter().collect::<Vec<_>>(), [(&b""[..], &b"d"[..]), (b"x", b"1")]);
    assert_eq!((found[1].get("y"), found[1].default_column()), (Some(&b"2"[..]), &b""[..]));
    assert!(db.put_entity_attribute_groups(&WriteOptions::default(), "k", &[]).is_err());
}

#[test]
fn batches_and_external_files_have_entities() {
    let options = options();
    let db = open(&options);
    let (family, write) = (db.default_column_family(), WriteOptions::default());
    let mut batch = WriteBatch::new();
    batch.put_entity_cf(family.id(), b"by batch", &COLUMNS).unwrap();
    db.write_opt(&write, &mut batch).unwrap();
    let mut indexed = WriteBatchWithIndex::default();
    indexed.put_entity_cf(family.id(), b"by index", &COLUMNS).unwrap();
    assert_eq!(
        indexed.get_from_batch(family.id(), None, b"by index").unwrap().as_deref(),
        Some(&b"d"[..]),
        "a get returns the default column"
    );
    db.write_opt(&write, &mut indexed).unwrap();
    let mut writer = SstFileWriter::new(&options);
    writer.open("/table.sst").unwrap();
    writer.put_entity("by file", &COLUMNS).unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(&["/table.sst"]).unwrap();
    for key in ["by batch", "by index", "by file"] {
        assert_eq!(shown(&db, key).as_deref(), Some("=d x=1 y=2"), "{key}");
    }
    db.close().unwrap();
}

#[test]
fn transactions_have_entities() {
    let (options, write) = (options(), WriteOptions::default());
    let db = TransactionDb::open(&options, &TransactionDbOptions::default(), "/pessimistic").unwrap();
    let family = db.db().default_column_family();
    let txn = db.begin_transaction_opt(&write, &TransactionOptions::default());
    txn.put_entity(&family, "k", &COLUMNS).unwrap();
    assert_eq!(txn.get("k").unwrap().as_deref(), Some(&b"d"[..]));
    assert_eq!(shown(db.db(), "k"), None);
    txn.commit().unwrap();
    assert_eq!(shown(db.db(), "k").as_deref(), Some("=d x=1 y=2"));

    let db = OptimisticTransactionDb::open(&options, "/optimistic").unwrap();
    let family = db.db().default_column_family();
    let txn = db.begin_transaction_opt(&write, &OptimisticTransactionOptions::default());
    txn.put_entity(&family, "k", &COLUMNS).unwrap();
    db.db().put("k", "first").unwrap();
    assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Busy);
    let txn = db.begin_transaction_opt(&write, &OptimisticTransactionOptions::default());
    txn.put_entity(&family, "k", &COLUMNS).unwrap();
    txn.commit().unwrap();
    assert_eq!(shown(db.db(), "k").as_deref(), Some("=d x=1 y=2"));
}

#[test]
fn point_reads_of_random_entities_give_the_same_as_an_iterator() {
    esker_testkit::seed::for_each_seed("entities", 12, |_, mut rng| {
        let mut options = options();
        options.cf.enable_blob_files = rng.bool();
        options.cf.min_blob_size = 4;
        let db = open(&options);
        let (family, write) = (db.default_column_family(), WriteOptions::default());
        let key = |rng: &mut fastrand::Rng| format!("{:02}", rng.u8(..40));
        let names: [&[u8]; 3] = [b"", b"x", b"y"];
        let mut txn_batch = WriteBatchWithIndex::default();
        for step in 0..400 {
            let (key, value) = (key(&mut rng), format!("value {step}"));
            let columns: Vec<(&[u8], &[u8])> =
                names.iter().filter(|_| rng.bool()).map(|name| (*name, value.as_bytes())).collect();
            let key = key.as_bytes();
            match (step < 250, rng.u8(..8)) {
                (true, 0..=2) => db.put_entity(&write, &family, key, &columns).unwrap(),
                (true, 3) => db.put(key, &value).unwrap(),
                (true, 4) => db.delete(key).unwrap(),
                (true, 5) if rng.u8(..6) == 0 => db.flush().unwrap(),
                (true, 5) if rng.u8(..6) == 0 => db.delete_range(key, "20").unwrap_or_default(),
                (true, _) => db.merge(key, &value).unwrap(),
                (false, 0) => txn_batch.put_entity_cf(family.id(), key, &columns).unwrap(),
                (false, 1) => txn_batch.delete_cf(family.id(), key).unwrap(),
                (false, 2) => txn_batch.put_cf(family.id(), key, value.as_bytes()).unwrap(),
                (false, 3) if rng.bool() => txn_batch.merge_cf(family.id(), key, value.as_bytes()).unwrap(),
                (false, _) => {}
            }
        }
        let read = ReadOptions::default();
        let keys: Vec<String> = (0..rng.usize(..80)).map(|_| key(&mut rng)).collect();
        let owned = |columns: Vec<(&[u8], &[u8])>| -> Vec<(Vec<u8>, Vec<u8>)> {
            columns.into_iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
        };
        let found = |answer: esker::Result<Option<WideColumns>>| {
            answer.unwrap().map(|columns| owned(columns.iter().collect()))
        };
        let mut iter = db.iter().unwrap();
        for (key, answer) in keys.iter().zip(db.multi_get_entity(&read, &family, &keys)) {
            iter.seek(key);
            let expected = (iter.valid() && iter.key() == key.as_bytes()).then(|| owned(iter.columns()));
            assert_eq!(found(answer), expected, "{key}, from a batch");
            assert_eq!(found(db.get_entity(&read, &family, key)), expected, "{key}");
        }
        let mut iter = txn_batch.iter_with_base(&db, &read, &family).unwrap();
        for (key, answer) in
            keys.iter().zip(txn_batch.multi_get_entity_from_batch_and_db(&db, &read, &family, &keys))
        {
            iter.seek(key);
            let expected = (iter.valid() && iter.key() == key.as_bytes()).then(|| owned(iter.columns()));
            assert_eq!(found(answer), expected, "{key}, over own writes");
        }
    });
}

#[test]
fn entities_are_searched_for_with_filters_and_many_at_once() {
    let mut options = options();
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(statistics.clone());
    options.cf.table.filter_policy = Some(esker::options::FilterPolicy::bloom(10.0));
    let db = open(&options);
    let (family, write, read) = (db.default_column_family(), WriteOptions::default(), ReadOptions::default());
    for i in 0..500 {
        db.put_entity(&write, &family, format!("{i:03}"), &COLUMNS).unwrap();
    }
    db.flush().unwrap();
    let useful = || statistics.ticker_count(Ticker::BloomFilterUseful);
    assert_eq!(db.get_entity(&read, &family, "100 absent").unwrap(), None);
    assert!(useful() > 0, "the block was not read");
    let keys: Vec<String> = (0..100).map(|i| format!("{i:03}")).collect();
    let answers = db.multi_get_entity(&read, &family, &keys);
    assert!(answers.into_iter().all(|answer| answer.unwrap().unwrap().len() == 3));
    assert_eq!(statistics.ticker_count(Ticker::NumberMultigetCalls), 1);
    assert_eq!(statistics.ticker_count(Ticker::NumberMultigetKeysFound), 100);
}
