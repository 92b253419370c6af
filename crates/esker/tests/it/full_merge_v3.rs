//! `MergeOperator::full_merge_v3`: merges onto the columns of entities, wherever a merge happens.

use esker::internals::env::mem::MemFs;
use esker::merge_operator::{MergeBase, MergeOperator, MergeOutcome};
use esker::options::BottommostLevelCompaction;
use esker::txn::WritePolicy;
use esker::{
    CompactRangeOptions, Db, Env, ErrorKind, Options, ReadOptions, TransactionDb, TransactionDbOptions,
    WriteBatch, WriteBatchWithIndex,
};
use esker_testkit::seed;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

type Columns = BTreeMap<String, String>;

/// The value of a key in the model.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Stored {
    Plain(String),
    Entity(Columns),
}

impl Stored {
    fn value(&self) -> String {
        match self {
            Stored::Plain(value) => value.clone(),
            Stored::Entity(columns) => columns.get("").cloned().unwrap_or_default(),
        }
    }

    fn columns(&self) -> Columns {
        match self {
            Stored::Plain(value) => Columns::from([(String::new(), value.clone())]),
            Stored::Entity(columns) => columns.clone(),
        }
    }

    /// `name=value` sets a column, `-name` removes one, `!value` is a plain value by itself, and
    /// `+` makes a plain value of the number of columns.
    fn merged(base: Option<Stored>, operand: &str) -> Stored {
        if operand.starts_with('!') {
            return Stored::Plain(operand.to_owned());
        }
        let mut columns = base.map_or_else(Columns::new, |stored| stored.columns());
        if operand == "+" {
            return Stored::Plain(columns.len().to_string());
        }
        match operand.split_once('=') {
            Some((name, value)) => _ = columns.insert(name.to_owned(), value.to_owned()),
            None => _ = columns.remove(&operand[1..]),
        }
        Stored::Entity(columns)
    }
}

/// [`Stored::merged`] as an operator.
struct Edits;

impl MergeOperator for Edits {
    fn name(&self) -> &str {
        "test.Edits"
    }
    fn full_merge(&self, _key: &[u8], _existing: Option<&[u8]>, _operands: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }
    fn has_full_merge_v3(&self) -> bool {
        true
    }
    fn full_merge_v3<'a>(
        &self,
        _key: &[u8],
        base: MergeBase<'a>,
        operands: &[&'a [u8]],
    ) -> Option<MergeOutcome<'a>> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let newest = *operands.last().unwrap();
        match newest {
            [b'!', ..] => return Some(MergeOutcome::Existing(newest)),
            // Names come twice: the result is no entity.
            b"bad" => return Some(MergeOutcome::Entity(vec![Default::default(); 2])),
            _ => {}
        }
        let mut stored = match base {
            MergeBase::Nothing => None,
            MergeBase::Value(value) => Some(Stored::Plain(text(value))),
            MergeBase::Entity(columns) => {
                Some(Stored::Entity(columns.iter().map(|(name, value)| (text(name), text(value))).collect()))
            }
        };
        for operand in operands {
            stored = Some(Stored::merged(stored, std::str::from_utf8(operand).unwrap()));
        }
        Some(match stored.unwrap() {
            Stored::Plain(value) => MergeOutcome::Value(value.into_bytes()),
            // Columns may come in any order.
            Stored::Entity(columns) => MergeOutcome::Entity(
                columns
                    .into_iter()
                    .rev()
                    .map(|(name, value)| (name.into_bytes(), value.into_bytes()))
                    .collect(),
            ),
        })
    }
}

fn options(with_blobs: bool) -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.merge_operator = Some(Arc::new(Edits));
    options.cf.disable_auto_compactions = true;
    options.cf.enable_blob_files = with_blobs;
    options
}

const KEYS: usize = 6;

fn key(number: usize) -> String {
    format!("key{number}")
}

fn operand(rng: &mut Rng) -> String {
    let name = ["", "a", "b", "c"][rng.usize(..4)];
    match rng.u32(..8) {
        0 => format!("!{}", rng.u32(..100)),
        1 => "+".to_owned(),
        2 | 3 => format!("-{name}"),
        _ => format!("{name}={}", rng.u32(..100)),
    }
}

type Model = BTreeMap<String, Stored>;

/// One random write: what it does to the model, and its form for a database or a batch.
macro_rules! write_randomly {
    ($rng:expr, $model:expr, $to:expr) => {{
        let key = key($rng.usize(..KEYS));
        match $rng.u32(..8) {
            0 => {
                let value = $rng.u32(..100).to_string();
                $to.put(&key, &value).unwrap();
                $model.insert(key, Stored::Plain(value));
            }
            1 | 2 => {
                let columns: Columns = (0..$rng.u32(..4))
                    .map(|_| (["", "a", "b"][$rng.usize(..3)].to_owned(), $rng.u32(..100).to_string()))
                    .collect();
                let bytes: Vec<(&[u8], &[u8])> =
                    columns.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
                $to.put_entity(&key, &bytes).unwrap();
                $model.insert(key, Stored::Entity(columns));
            }
            3 => {
                $to.delete(&key).unwrap();
                $model.remove(&key);
            }
            _ => {
                let operand = operand(&mut $rng);
                $to.merge(&key, &operand).unwrap();
                let merged = Stored::merged($model.remove(&key), &operand);
                $model.insert(key, merged);
            }
        }
    }};
}

fn owned<'c>(columns: impl IntoIterator<Item = (&'c [u8], &'c [u8])>) -> Columns {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    columns.into_iter().map(|(name, value)| (text(name), text(value))).collect()
}

fn check(db: &Db, model: &Model) {
    let (read, family) = (ReadOptions::default(), db.default_column_family());
    for key in (0..KEYS).map(key) {
        let got = db.get(&key).unwrap().map(|value| String::from_utf8(value).unwrap());
        assert_eq!(got, model.get(&key).map(Stored::value), "get of {key}");
        let entity = db.get_entity(&read, &family, &key).unwrap().map(|columns| owned(columns.iter()));
        assert_eq!(entity, model.get(&key).map(Stored::columns), "get_entity of {key}");
    }
    let expected: Vec<(String, Columns)> =
        model.iter().map(|(key, stored)| (key.clone(), stored.columns())).collect();
    let mut iter = db.iter().unwrap();
    let mut shown = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        let key = String::from_utf8(iter.key().to_vec()).unwrap();
        assert_eq!(iter.value(), model[&key].value().as_bytes());
        shown.push((key, owned(iter.columns())));
        iter.next();
    }
    iter.status().unwrap();
    assert_eq!(shown, expected, "forward");
    shown.clear();
    iter.seek_to_last();
    while iter.valid() {
        shown.push((String::from_utf8(iter.key().to_vec()).unwrap(), owned(iter.columns())));
        iter.prev();
    }
    shown.reverse();
    assert_eq!(shown, expected, "backward");
}

fn rewrite(db: &Db) {
    let options = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range_opt(&options, &db.default_column_family(), None, None).unwrap();
}

#[test]
fn operands_change_columns_in_memory_in_tables_and_in_batches() {
    seed::for_each_seed("full_merge_v3", 8, |number, mut rng| {
        let mut model = Model::new();
        let options = options(number % 2 == 1);
        let mut db = Db::open(&options, "/db").unwrap();
        for _ in 0..150 {
            match rng.u32(..30) {
                0 => db.flush().unwrap(),
                1 => rewrite(&db),
                2 => {
                    db.close().unwrap();
                    db = Db::open(&options, "/db").unwrap();
                }
                3 => {
                    let mut batch = WriteBatchWithIndex::default();
                    for _ in 0..rng.u32(..6) {
                        write_randomly!(rng, model, batch);
                    }
                    check_batch(&db, &batch, &model);
                    db.write(batch.into_write_batch()).unwrap();
                }
                _ => {
                    let mut batch = WriteBatch::new();
                    write_randomly!(rng, model, batch);
                    db.write(batch).unwrap();
                }
            }
            check(&db, &model);
        }
    });
}

fn check_batch(db: &Db, batch: &WriteBatchWithIndex, model: &Model) {
    let (read, family) = (ReadOptions::default(), db.default_column_family());
    for key in (0..KEYS).map(key) {
        let stored = model.get(&key);
        let entity = batch.get_entity_from_batch_and_db(db, &read, &family, key.as_bytes()).unwrap();
        assert_eq!(entity.map(|columns| owned(columns.iter())), stored.map(Stored::columns));
        let value = batch.get_from_batch_and_db(db, &read, &family, key.as_bytes()).unwrap();
        assert_eq!(value.map(|value| String::from_utf8(value).unwrap()), stored.map(Stored::value));
        let alone = match batch.get_entity_from_batch(&family, key.as_bytes()) {
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::MergeInProgress);
                continue;
            }
            Ok(None) => continue,
            Ok(Some(columns)) => owned(columns.iter()),
        };
        assert_eq!(Some(alone), stored.map(Stored::columns), "{key} in the batch alone");
        let value = batch.get_from_batch_cf(&family, key.as_bytes()).unwrap().unwrap();
        assert_eq!(String::from_utf8(value).unwrap(), stored.unwrap().value());
    }
}

#[test]
fn a_transaction_reads_its_operands_over_columns_of_the_database() {
    for write_policy in [WritePolicy::WriteCommitted, WritePolicy::WritePrepared] {
        let txn_options = TransactionDbOptions { write_policy, ..TransactionDbOptions::default() };
        let db = TransactionDb::open(&options(false), &txn_options, "/db").unwrap();
        let family = db.db().default_column_family();
        let txn = db.begin_transaction();
        txn.put_entity(&family, "key", &[(b"a", b"1"), (b"b", b"2")]).unwrap();
        txn.commit().unwrap();
        let txn = db.begin_transaction();
        txn.merge_cf(&family, "key", "-a").unwrap();
        txn.merge_cf(&family, "key", "=3").unwrap();
        let expected = Columns::from([("".into(), "3".into()), ("b".into(), "2".into())]);
        let columns = txn.get_entity(&ReadOptions::default(), &family, "key").unwrap().unwrap();
        assert_eq!(owned(columns.iter()), expected);
        assert_eq!(txn.get("key").unwrap().unwrap(), b"3");
        txn.commit().unwrap();
        let columns = db.db().get_entity(&ReadOptions::default(), &family, "key").unwrap().unwrap();
        assert_eq!(owned(columns.iter()), expected);
    }
}

#[test]
fn a_result_with_a_name_twice_fails_reads_and_keeps_the_operands() {
    let db = Db::open(&options(false), "/db").unwrap();
    let mut batch = WriteBatch::new();
    batch.put_entity("key", &[(b"a", b"1")]).unwrap();
    batch.merge("key", "bad").unwrap();
    db.write(batch).unwrap();
    for _ in 0..2 {
        assert!(db.get("key").is_err());
        rewrite(&db);
    }
    db.merge("key", "!good").unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), b"!good");
}
