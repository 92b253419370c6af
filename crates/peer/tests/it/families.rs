//! Families that one peer process creates or drops are there, or gone, for the others.

use crate::peer_process::{check_7, check_11, check_all, check_open_11, db_options, open_esker, small_files};
use esker::options::CompressionType;
use esker::{Db, ErrorKind, Options, WriteOptions};
use esker_peer::model_ops::{FamilyMerge, FamilyOrder, Kinds, write_to_esker};
use esker_peer::{ModelOps, RocksDb, Tools, WriteFlags, require};
use esker_testkit::{TempDir, seed};
use std::path::Path;

const ORDERS: [FamilyOrder; 2] = [FamilyOrder::Bytewise, FamilyOrder::Reverse];
const MERGES: [FamilyMerge; 3] = [FamilyMerge::None, FamilyMerge::StringAppend, FamilyMerge::Uint64Add];
/// Options for tables that RocksDB 7.8 reads.
const FOR_7: &str = "block_based_table_factory={format_version=5};";

/// Drops and adds families of `model` at random. Returns the new and the dropped names.
fn change(model: &mut ModelOps, rng: &mut fastrand::Rng, round: usize) -> (Vec<String>, Vec<String>) {
    let mut dropped = Vec::new();
    while model.families.len() > 1 && rng.bool() {
        dropped.push(model.families[rng.usize(1..model.families.len())].name.clone());
        model.drop_family(&dropped[dropped.len() - 1]);
    }
    let created: Vec<String> = (0..rng.usize(1..3)).map(|i| format!("family {round}.{i}")).collect();
    for name in &created {
        let (order, merge) = (rng.choice(ORDERS).expect("one"), rng.choice(MERGES).expect("one"));
        model.add_family(name, order, merge);
    }
    (created, dropped)
}

fn esker_changes(dir: &Path, model: &mut ModelOps, rng: &mut fastrand::Rng, round: usize) {
    let options = small_files(CompressionType::Lz4);
    let db = open_esker(dir, model, &options).expect("opens");
    let (created, dropped) = change(model, rng, round);
    for name in &dropped {
        db.drop_column_family(&db.column_family(name).expect("open")).expect("dropped");
    }
    for descriptor in model.descriptors(&options).iter().filter(|d| created.contains(&d.name)) {
        db.create_column_family(&descriptor.name, &descriptor.options).expect("created");
    }
    for _ in 0..20 {
        write_to_esker(&db, &model.random_ops(rng, 10, Kinds::ALL), &WriteOptions::default())
            .expect("written");
    }
    if rng.bool() {
        db.flush().expect("flushes");
    }
    db.close().expect("closes");
}

fn rocksdb_changes(dir: &Path, model: &mut ModelOps, rng: &mut fastrand::Rng, round: usize) {
    let mut db = RocksDb::open(dir, "", &model.specs(FOR_7)).expect("opens");
    let (created, dropped) = change(model, rng, round);
    for name in &dropped {
        db.drop_column_family(name).expect("dropped");
    }
    for spec in model.specs(FOR_7).iter().filter(|s| created.contains(&s.name)) {
        db.create_column_family(spec).expect("created");
    }
    for _ in 0..20 {
        db.write(&model.random_ops(rng, 10, Kinds::ALL), WriteFlags::default()).expect("written");
    }
    if rng.bool() {
        db.flush("default").expect("flushes");
    }
    check_open_11(&db, model, &format!("round {round}"));
}

#[test]
fn each_engine_sees_the_families_that_another_created_or_dropped() {
    let has_11 = require("librocksdb 11.8", RocksDb::available()).is_some();
    seed::for_each_seed("families", 2, |_, mut rng| {
        let dir = TempDir::new("families");
        let mut model = ModelOps::new(&[]);
        // Esker writes last: ldb 7.8.3 cannot open a database with an OPTIONS file of 11.8.1.
        for round in 0..9 {
            if round % 2 == 1 && has_11 {
                rocksdb_changes(dir.path(), &mut model, &mut rng, round);
                let mut names = Db::list_column_families(&db_options(), dir.path()).expect("listed");
                names.sort();
                let mut expected: Vec<String> = model.families.iter().map(|f| f.name.clone()).collect();
                expected.sort();
                assert_eq!(names, expected);
            } else {
                esker_changes(dir.path(), &mut model, &mut rng, round);
                check_7(dir.path(), &model, &format!("round {round}"));
                check_11(dir.path(), &model, &format!("round {round}"));
            }
        }
        check_all(dir.path(), &model, &small_files(CompressionType::Lz4), "the end");
    });
}

#[test]
fn ldb_creates_and_drops_families() {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    let dir = TempDir::new("ldb-families");
    let options = small_files(CompressionType::Lz4);
    let mut model = ModelOps::new(&[("old", FamilyOrder::Bytewise, FamilyMerge::None)]);
    let mut rng = seed::rng("ldb families");
    let db = open_esker(dir.path(), &model, &options).expect("opens");
    write_to_esker(&db, &model.random_ops(&mut rng, 50, Kinds::ALL), &WriteOptions::default())
        .expect("written");
    db.close().expect("closes");
    drop(db);
    tools.ldb(dir.path(), ["create_column_family", "new"]).expect("created");
    tools.ldb(dir.path(), ["drop_column_family", "old"]).expect("dropped");
    model.drop_family("old");
    model.add_family("new", FamilyOrder::Bytewise, FamilyMerge::None);
    let ops = model.random_ops(&mut rng, 10, Kinds::LDB);
    tools.apply(dir.path(), &ops).expect("written");
    check_all(dir.path(), &model, &options, "created by ldb");
}

#[test]
fn a_missing_family_and_a_wrong_comparator_are_named() {
    let dir = TempDir::new("named");
    let model = ModelOps::new(&[("rev", FamilyOrder::Reverse, FamilyMerge::None)]);
    let options = small_files(CompressionType::Lz4);
    drop(open_esker(dir.path(), &model, &options).expect("opens"));
    let error = Db::open(&Options::default(), dir.path()).expect_err("a family is missing");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("rev"), "{error}");
    let wrong = ModelOps::new(&[("rev", FamilyOrder::Bytewise, FamilyMerge::None)]);
    let error = open_esker(dir.path(), &wrong, &options).expect_err("another comparator");
    for name in ["rev", "rocksdb.ReverseBytewiseComparator", "leveldb.BytewiseComparator"] {
        assert!(error.to_string().contains(name), "{error}");
    }
}
