//! Tables with a block of deleted runs, which only Esker knows. RocksDB 7.8.3 and 11.8.1 open,
//! verify, read and compact them.

use crate::peer_process::{
    check_7, check_11, check_all, check_open_11, check_open_esker, open_esker, small_files,
};
use esker::WriteOptions;
use esker::options::{CompactRangeOptions, CompressionType};
use esker_peer::fixture::copy_files;
use esker_peer::model_ops::{Kinds, PeerOp, write_to_esker};
use esker_peer::{ModelOps, RocksDb, Tools, require};
use esker_testkit::{TempDir, seed};
use std::path::Path;

/// Number of tables whose meta index names the block. Meta indexes are not compressed.
fn tables_with_deleted_runs(dir: &Path) -> usize {
    let files = std::fs::read_dir(dir).expect("readable").map(|entry| entry.expect("readable").path());
    let tables = files.filter(|path| path.extension().is_some_and(|e| e == "sst"));
    let name = b"filter.esker.dead_spans";
    tables
        .filter(|path| std::fs::read(path).expect("readable").windows(name.len()).any(|w| w == name))
        .count()
}

/// Writes `ops` to the database and to the model.
fn write(db: &esker::Db, model: &mut ModelOps, ops: impl Iterator<Item = PeerOp>) {
    let ops: Vec<PeerOp> = ops.collect();
    ops.iter().for_each(|op| model.apply(op));
    write_to_esker(db, &ops, &WriteOptions::default()).expect("written");
}

fn families(model: &ModelOps) -> Vec<String> {
    model.families.iter().map(|family| family.name.clone()).collect()
}

fn key(i: u32) -> Vec<u8> {
    format!("dead{i:06}").into_bytes()
}

#[test]
fn tables_with_deleted_runs_are_read_verified_and_compacted_by_all() {
    let mut rng = seed::rng("deleted runs");
    for (format_version, compression) in
        [(5, CompressionType::Lz4), (5, CompressionType::None), (6, CompressionType::Zstd)]
    {
        let what = format!("format_version {format_version}, {compression:?}");
        let dir = TempDir::new("deleted-runs");
        let mut options = small_files(compression);
        options.table.format_version = format_version;
        options.deleted_run_block_min_entries = 2;
        let mut model = ModelOps::varied();
        let db = open_esker(dir.path(), &model, &options).expect("opens");
        for family in families(&model) {
            let put = |i| PeerOp::Put { family: family.clone(), key: key(i), value: vec![b'v'; 40] };
            write(&db, &mut model, (0..2000).map(put));
        }
        let snapshot = db.snapshot();
        for family in families(&model) {
            let delete = |i| PeerOp::Delete { family: family.clone(), key: key(i) };
            write(&db, &mut model, (1..1999).filter(|i| i % 600 != 0).map(delete));
        }
        for _ in 0..40 {
            let ops = model.random_ops(&mut rng, 10, Kinds::ALL);
            write_to_esker(&db, &ops, &WriteOptions::default()).expect("written");
        }
        // The snapshot keeps values and deletions down to the last level.
        for family in families(&model) {
            let handle = db.column_family(&family).expect("open");
            db.compact_range_opt(&CompactRangeOptions::default(), &handle, None, None).expect("compacts");
        }
        check_open_esker(&db, &model, &what);
        db.close().expect("closes");
        drop((snapshot, db));
        assert!(tables_with_deleted_runs(dir.path()) > 0, "{what}: there are deleted runs");
        if format_version <= 5 {
            check_all(dir.path(), &model, &options, &what);
            compact_by_7(dir.path(), &model, &what);
        } else {
            check_11(dir.path(), &model, &what);
        }
        compact_by_11(dir.path(), &model, &what);
        let db = open_esker(dir.path(), &model, &options).expect("opens");
        check_open_esker(&db, &model, &format!("{what}, compacted by RocksDB 11.8.1"));
    }
}

/// RocksDB 7.8.3 compacts a copy. The new tables have no block of Esker's.
fn compact_by_7(dir: &Path, model: &ModelOps, what: &str) {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    let copy = TempDir::new("deleted-runs-7");
    copy_files(dir, copy.path());
    for family in families(model) {
        let family = format!("--column_family={family}");
        tools.ldb(copy.path(), ["compact", &family]).unwrap_or_else(|e| panic!("{what}: {e}"));
    }
    check_7(copy.path(), model, &format!("{what}, compacted by RocksDB 7.8.3"));
}

fn compact_by_11(dir: &Path, model: &ModelOps, what: &str) {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let db = RocksDb::open(dir, "", &model.specs(""))
        .unwrap_or_else(|e| panic!("{what}: RocksDB 11.8.1 does not open it: {e}"));
    check_open_11(&db, model, what);
    families(model).iter().for_each(|family| db.compact(family));
    check_open_11(&db, model, &format!("{what}, compacted by RocksDB 11.8.1"));
}
