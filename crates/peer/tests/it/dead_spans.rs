//! Tables with a block of dead spans, which only Esker knows: RocksDB 7.8.3 and 11.8.1 open,
//! verify, read and compact them.

use crate::party::{check_7, check_11, check_all, check_open_11, check_open_esker, open_esker, small_files};
use esker::WriteOptions;
use esker::options::{CompactRangeOptions, CompressionType};
use esker_peer::fixture::copy_files;
use esker_peer::world::{Kinds, Op, write_to_esker};
use esker_peer::{RocksDb, Tools, World, require};
use esker_testkit::{TempDir, seed};
use std::path::Path;

/// How many tables name the block in their meta index, which is not compressed.
fn tables_with_dead_spans(dir: &Path) -> usize {
    let files = std::fs::read_dir(dir).expect("readable").map(|entry| entry.expect("readable").path());
    let tables = files.filter(|path| path.extension().is_some_and(|e| e == "sst"));
    let name = b"filter.esker.dead_spans";
    tables
        .filter(|path| std::fs::read(path).expect("readable").windows(name.len()).any(|w| w == name))
        .count()
}

/// To the database and to the model.
fn write(db: &esker::Db, world: &mut World, ops: impl Iterator<Item = Op>) {
    let ops: Vec<Op> = ops.collect();
    ops.iter().for_each(|op| world.apply(op));
    write_to_esker(db, &ops, &WriteOptions::default()).expect("written");
}

fn families(world: &World) -> Vec<String> {
    world.families.iter().map(|family| family.name.clone()).collect()
}

fn key(i: u32) -> Vec<u8> {
    format!("dead{i:06}").into_bytes()
}

#[test]
fn tables_with_dead_spans_are_read_verified_and_compacted_by_all() {
    let mut rng = seed::rng("dead spans");
    for (format_version, compression) in
        [(5, CompressionType::Lz4), (5, CompressionType::None), (6, CompressionType::Zstd)]
    {
        let what = format!("format_version {format_version}, {compression:?}");
        let dir = TempDir::new("dead-spans");
        let mut options = small_files(compression);
        options.table.format_version = format_version;
        options.dead_span_min_entries = 2;
        let mut world = World::varied();
        let db = open_esker(dir.path(), &world, &options).expect("opens");
        for family in families(&world) {
            let put = |i| Op::Put { family: family.clone(), key: key(i), value: vec![b'v'; 40] };
            write(&db, &mut world, (0..2000).map(put));
        }
        let snapshot = db.snapshot();
        for family in families(&world) {
            let delete = |i| Op::Delete { family: family.clone(), key: key(i) };
            write(&db, &mut world, (1..1999).filter(|i| i % 600 != 0).map(delete));
        }
        for _ in 0..40 {
            let ops = world.random_ops(&mut rng, 10, Kinds::ALL);
            write_to_esker(&db, &ops, &WriteOptions::default()).expect("written");
        }
        // The snapshot keeps values and deletions down to the last level.
        for family in families(&world) {
            let handle = db.column_family(&family).expect("open");
            db.compact_range_opt(&CompactRangeOptions::default(), &handle, None, None).expect("compacts");
        }
        check_open_esker(&db, &world, &what);
        db.close().expect("closes");
        drop((snapshot, db));
        assert!(tables_with_dead_spans(dir.path()) > 0, "{what}: there are dead spans");
        if format_version <= 5 {
            check_all(dir.path(), &world, &options, &what);
            compact_by_7(dir.path(), &world, &what);
        } else {
            check_11(dir.path(), &world, &what);
        }
        compact_by_11(dir.path(), &world, &what);
        let db = open_esker(dir.path(), &world, &options).expect("opens");
        check_open_esker(&db, &world, &format!("{what}, compacted by RocksDB 11.8.1"));
    }
}

/// 7.8.3 compacts a copy: it reads every block, and its own tables have none of Esker's.
fn compact_by_7(dir: &Path, world: &World, what: &str) {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    let copy = TempDir::new("dead-spans-7");
    copy_files(dir, copy.path());
    for family in families(world) {
        let family = format!("--column_family={family}");
        tools.ldb(copy.path(), ["compact", &family]).unwrap_or_else(|e| panic!("{what}: {e}"));
    }
    check_7(copy.path(), world, &format!("{what}, compacted by RocksDB 7.8.3"));
}

fn compact_by_11(dir: &Path, world: &World, what: &str) {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let db = RocksDb::open(dir, "", &world.specs(""))
        .unwrap_or_else(|e| panic!("{what}: RocksDB 11.8.1 does not open it: {e}"));
    check_open_11(&db, world, what);
    families(world).iter().for_each(|family| db.compact(family));
    check_open_11(&db, world, &format!("{what}, compacted by RocksDB 11.8.1"));
}
