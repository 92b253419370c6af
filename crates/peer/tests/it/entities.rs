//! Wide columns that Esker writes, in RocksDB's hands.

use esker::{ColumnFamilyOptions, Db, DbOptions, Options, ReadOptions, WriteOptions, builtin};
use esker_peer::{Contents, FamilySpec, RocksDb, Tools, require};
use esker_testkit::{TempDir, seed};
use std::collections::BTreeMap;
use std::path::Path;

type Columns = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(dir: &Path) -> Db {
    let cf = ColumnFamilyOptions {
        merge_operator: Some(builtin::string_append(",")),
        ..ColumnFamilyOptions::default()
    };
    let db = DbOptions { create_if_missing: true, avoid_flush_during_shutdown: true, ..DbOptions::default() };
    Db::open(&Options { db, cf }, dir).expect("opens")
}

fn check(db: &Db, model: &BTreeMap<Vec<u8>, Columns>, when: &str) {
    let (family, options) = (db.default_column_family(), ReadOptions::default());
    let keys: Vec<&Vec<u8>> = model.keys().collect();
    for (found, (key, expected)) in db.multi_get_entity(&options, &family, &keys).iter().zip(model) {
        let found = found.as_ref().expect("read").as_ref().expect("there");
        let found: Columns = found.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
        assert_eq!(&found, expected, "{when}: {}", key.escape_ascii());
    }
}

/// Puts entities, plain values and operands; a flush somewhere in between.
fn write(db: &Db, model: &mut BTreeMap<Vec<u8>, Columns>, merges: bool, rng: &mut fastrand::Rng) {
    let (family, options) = (db.default_column_family(), WriteOptions::default());
    let flush_at = rng.usize(..300);
    for i in 0..300 {
        let key = format!("key{:03}", rng.u32(..80)).into_bytes();
        match rng.u32(..10) {
            0 => {
                db.put(&key, format!("plain{i}")).expect("written");
                model.insert(key, Columns::from([(Vec::new(), format!("plain{i}").into_bytes())]));
            }
            1 if merges && model.contains_key(&key) => {
                db.merge(&key, "m").expect("written");
                let default = model.get_mut(&key).expect("there").entry(Vec::new()).or_default();
                default.extend_from_slice(b",m");
            }
            _ => {
                let count = rng.usize(1..6);
                let names = (0..count).map(|_| ["", "a", "b", "\0", "name", "\u{ff}"][rng.usize(..6)]);
                let value = |rng: &mut fastrand::Rng| vec![rng.u8(..); rng.usize(..300)];
                let columns: Columns =
                    names.collect::<Vec<_>>().iter().map(|n| (n.as_bytes().to_vec(), value(rng))).collect();
                let pairs: Vec<(&[u8], &[u8])> =
                    columns.iter().rev().map(|(n, v)| (n.as_slice(), v.as_slice())).collect();
                db.put_entity(&options, &family, &key, &pairs).expect("written");
                model.insert(key, columns);
            }
        }
        if i == flush_at {
            db.flush().expect("flushes");
        }
    }
}

#[test]
fn entities_that_esker_writes_are_read_and_kept_by_rocksdb() {
    seed::for_each_seed("entities", 4, |seed, mut rng| {
        // 7.8 does not merge onto entities.
        let merges = seed % 2 == 0;
        let dir = TempDir::new("entities");
        let mut model = BTreeMap::new();
        for _ in 0..2 {
            let db = open(dir.path());
            check(&db, &model, "at the start");
            write(&db, &mut model, merges, &mut rng);
            check(&db, &model, "written");
            db.close().expect("closes");
            drop(db);
            let plain = model
                .iter()
                .map(|(key, columns)| (key.clone(), columns.get(&b""[..]).cloned().unwrap_or_default()));
            let plain = Contents(plain.collect());
            if let Some(tools) = require("ldb 7.8", Tools::find()) {
                tools.verify_tables(dir.path()).expect("sound");
                if !merges {
                    tools.contents(dir.path(), "default").expect("read").assert_same(&plain, "7.8.3");
                }
            }
            if require("librocksdb 11.8", RocksDb::available()).is_some() {
                let options = "merge_operator={id=StringAppendOperator;delimiter=,};\
                    block_based_table_factory={format_version=5};";
                let db =
                    RocksDb::open(dir.path(), "", &[FamilySpec::new("default", options)]).expect("opens");
                db.contents("default", None).expect("read").assert_same(&plain, "11.8.1");
                db.compact("default");
            }
        }
        let db = open(dir.path());
        check(&db, &model, "compacted by 11.8.1");
        db.compact_range(None, None).expect("compacts");
        check(&db, &model, "compacted by Esker");
    });
}
