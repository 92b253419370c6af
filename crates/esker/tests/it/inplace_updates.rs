//! `inplace_callback`: puts whose values a function of the program makes.

use esker::internals::env::mem::MemFs;
use esker::options::{InplaceCallback, UpdateStatus};
use esker::txn::{OccValidationPolicy, OptimisticTransactionDbOptions};
use esker::{
    Db, Env, ErrorKind, OptimisticTransactionDb, Options, ReadOptions, TransactionDb, TransactionDbOptions,
    WriteBatch, WriteOptions, builtin,
};
use esker_testkit::seed;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// `+text` appends, `=text` overwrites the first bytes in place, `<` halves in place, `-` fails,
/// and any other argument is the value.
fn update(existing: Option<&mut [u8]>, delta: &[u8]) -> UpdateStatus {
    match (delta, existing) {
        ([b'-', ..], _) => UpdateStatus::Failed,
        ([b'+', text @ ..], Some(value)) => UpdateStatus::Updated([&*value, text].concat()),
        ([b'=', text @ ..], Some(value)) if text.len() <= value.len() => {
            value[..text.len()].copy_from_slice(text);
            UpdateStatus::UpdatedInPlace(value.len())
        }
        ([b'<', ..], Some(value)) => UpdateStatus::UpdatedInPlace(value.len() / 2),
        (b"too long", Some(value)) => UpdateStatus::UpdatedInPlace(value.len() + 1),
        (b"too long", None) => UpdateStatus::UpdatedInPlace(0),
        (b"panic", _) => panic!("as told"),
        _ => UpdateStatus::Updated(delta.to_vec()),
    }
}

struct Scene {
    options: Options,
    calls: Arc<AtomicU64>,
}

impl Scene {
    fn new() -> Scene {
        let calls = Arc::new(AtomicU64::new(0));
        let mut options = Options::new().create_if_missing(true);
        options.db.env = Env::with_fs(Arc::new(MemFs::new()));
        options.db.allow_concurrent_memtable_write = false;
        options.db.avoid_flush_during_shutdown = true;
        options.cf.merge_operator = Some(builtin::string_append(","));
        options.cf.inplace_update_support = true;
        let counted = calls.clone();
        options.cf.inplace_callback = Some(InplaceCallback::new(move |existing, delta| {
            counted.fetch_add(1, Ordering::Relaxed);
            update(existing, delta)
        }));
        Scene { options, calls }
    }

    fn open(&self) -> Db {
        Db::open(&self.options, "/db").unwrap()
    }
}

type Model = BTreeMap<String, Vec<u8>>;

fn contents(db: &Db, read: &ReadOptions) -> Model {
    let iter = db.iter_opt(read.clone(), &db.default_column_family()).unwrap();
    let entries = iter.into_iter().map(|entry| entry.unwrap());
    entries.map(|(key, value)| (String::from_utf8(key.to_vec()).unwrap(), value.to_vec())).collect()
}

fn put(model: &mut Model, key: &str, delta: &[u8]) {
    let mut value = model.get(key).cloned();
    match update(value.as_deref_mut(), delta) {
        UpdateStatus::Failed => {}
        UpdateStatus::UpdatedInPlace(length) => {
            let mut value = value.unwrap();
            value.truncate(length);
            model.insert(key.to_owned(), value);
        }
        UpdateStatus::Updated(value) => _ = model.insert(key.to_owned(), value),
    }
}

fn delta(rng: &mut Rng) -> String {
    format!("{}{}", ["", "", "+", "+", "=", "<", "-"][rng.usize(..7)], rng.u32(..1000))
}

#[test]
fn puts_have_the_values_that_the_callback_makes_in_every_source() {
    seed::for_each_seed("inplace_updates", 12, |_, mut rng| {
        let scene = Scene::new();
        let mut db = scene.open();
        let mut model = Model::new();
        let mut snapshots = Vec::new();
        for _ in 0..120 {
            let key = format!("key{}", rng.u32(..5));
            match rng.u32(..12) {
                0 => db.flush().unwrap(),
                1 => {
                    snapshots.clear();
                    db.close().unwrap();
                    let calls = scene.calls.load(Ordering::Relaxed);
                    db = scene.open();
                    assert_eq!(scene.calls.load(Ordering::Relaxed), calls, "a recovery makes no values");
                }
                2 => {
                    db.delete(&key).unwrap();
                    model.remove(&key);
                }
                3 => {
                    db.merge(&key, "m").unwrap();
                    let merged = model.remove(&key).map(|value| [&value[..], b",m"].concat());
                    model.insert(key, merged.unwrap_or_else(|| b"m".to_vec()));
                }
                4..=6 => {
                    let mut batch = WriteBatch::new();
                    for _ in 0..rng.u32(..6) {
                        let delta = delta(&mut rng);
                        batch.put(&key, &delta).unwrap();
                        put(&mut model, &key, delta.as_bytes());
                        if rng.u32(..4) == 0 {
                            batch.delete(&key).unwrap();
                            model.remove(&key);
                        }
                    }
                    let options = WriteOptions { protection_bytes_per_key: 8, ..WriteOptions::default() };
                    db.write_opt(&options, &batch).unwrap();
                }
                _ => {
                    let delta = delta(&mut rng);
                    db.put(&key, &delta).unwrap();
                    put(&mut model, &key, delta.as_bytes());
                }
            }
            assert_eq!(contents(&db, &ReadOptions::default()), model);
            let read = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
            snapshots.push((read, model.clone()));
            let (read, then) = &snapshots[rng.usize(..snapshots.len())];
            assert_eq!(&contents(&db, read), then, "a snapshot keeps its values");
        }
    });
}

#[test]
fn a_callback_that_breaks_its_word_fails_its_write_alone() {
    let db = Scene::new().open();
    assert_eq!(db.put("key", "too long").unwrap_err().kind(), ErrorKind::InvalidArgument);
    db.put("key", "value").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("other", "1").unwrap();
    batch.put("key", "too long").unwrap();
    assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.put("key", "panic").unwrap_err().kind(), ErrorKind::Aborted);
    assert_eq!((db.get("key").unwrap().unwrap(), db.get("other").unwrap()), (b"value".to_vec(), None));
    db.put("other", "2").unwrap();
}

#[test]
fn a_callback_needs_its_switch_and_writers_that_do_not_run_beside_each_other() {
    let mut scene = Scene::new();
    scene.options.db.allow_concurrent_memtable_write = true;
    assert_eq!(Db::open(&scene.options, "/db").err().unwrap().kind(), ErrorKind::InvalidArgument);
    scene.options.cf.inplace_update_support = false;
    let db = scene.open();
    db.put("key", "+1").unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), b"+1");
    assert_eq!(scene.calls.load(Ordering::Relaxed), 0);
}

#[test]
fn a_family_gets_its_callback_while_the_database_is_open() {
    let mut scene = Scene::new();
    let callback = scene.options.cf.inplace_callback.take();
    let db = scene.open();
    scene.options.cf.inplace_callback = callback;
    let family = db.create_column_family("later", &scene.options.cf).unwrap();
    let write = WriteOptions::default();
    for delta in ["a", "+b"] {
        db.put_opt(&write, &family, "key", delta).unwrap();
        db.put("key", delta).unwrap();
    }
    assert_eq!(db.get_opt(&ReadOptions::default(), &family, "key").unwrap().unwrap(), b"ab");
    assert_eq!(db.get("key").unwrap().unwrap(), b"+b");
}

#[test]
fn optimistic_transactions_make_values_at_their_commits_and_prepared_ones_refuse() {
    for policy in [OccValidationPolicy::ValidateSerial, OccValidationPolicy::ValidateParallel] {
        let scene = Scene::new();
        let txn_options = OptimisticTransactionDbOptions { validate_policy: policy, ..Default::default() };
        let db = OptimisticTransactionDb::open_opt(&scene.options, &txn_options, "/db").unwrap();
        for delta in ["a", "+b"] {
            let txn = db.begin_transaction();
            txn.put("key", delta).unwrap();
            txn.commit().unwrap();
        }
        assert_eq!(db.get("key").unwrap().unwrap(), b"ab");
    }
    let db = TransactionDb::open(&Scene::new().options, &TransactionDbOptions::default(), "/db").unwrap();
    let txn = db.begin_transaction();
    txn.put("key", "a").unwrap();
    txn.commit().unwrap();
    let txn = db.begin_transaction();
    txn.put("key", "+b").unwrap();
    txn.set_name(b"b").unwrap();
    assert_eq!(txn.prepare().unwrap_err().kind(), ErrorKind::NotSupported);
    assert_eq!(db.get("key").unwrap().unwrap(), b"a");
}
