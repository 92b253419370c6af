//! Recycled WALs after a crash, when the tables of one family are newer than the WAL that another
//! family needs.

use crate::peer_process::{check_7_after_kill, check_11, check_open_11, check_open_esker, db_options};
use esker::options::CompressionType;
use esker::{ColumnFamilyOptions, Db, DbOptions, FlushOptions, WriteOptions};
use esker_peer::fixture::copy_files;
use esker_peer::model_ops::{FamilyMerge, FamilyOrder, Kinds, write_to_esker};
use esker_peer::{ModelOps, RocksDb, require};
use esker_testkit::{TempDir, seed};

fn copy(dir: &TempDir) -> TempDir {
    let copy = TempDir::new("recycled-copy");
    copy_files(dir.path(), copy.path());
    copy
}

/// One family needs a WAL in a recycled file, shorter than the file was before. The next WAL is
/// empty, and the other family's tables are newer. If older records followed in the file, RocksDB
/// would report that the tables are ahead of a damaged WAL.
#[test]
fn a_recycled_wal_before_an_empty_one_is_whole_to_everyone() {
    seed::for_each_seed("recycled", 1, |seed, mut rng| {
        let dir = TempDir::new("recycled");
        let mut model = ModelOps::new(&[("other", FamilyOrder::Bytewise, FamilyMerge::None)]);
        // With preallocation, a close cuts the file behind its last record, and no older records
        // follow.
        let wal_compression = if rng.bool() { CompressionType::Zstd } else { CompressionType::None };
        let options =
            DbOptions { recycle_log_file_num: 2, allow_fallocate: false, wal_compression, ..db_options() };
        let descriptors = model.descriptors(&ColumnFamilyOptions::default());
        let db = Db::open_cf(&options, dir.path(), descriptors).expect("opens");
        let write = |model: &mut ModelOps, rng: &mut fastrand::Rng, batches: usize| {
            for _ in 0..batches {
                write_to_esker(&db, &model.random_ops(rng, 10, Kinds::ALL), &WriteOptions::default())
                    .expect("written");
            }
        };
        for round in 0..4 {
            write(&mut model, &mut rng, 60);
            db.flush().expect("flushed");
            let other = db.column_family("other").expect("open");
            db.flush_opt(&FlushOptions::default(), &[&other]).expect("flushed");
            let batches = rng.usize(1..20);
            write(&mut model, &mut rng, batches);
            db.flush().expect("flushed");
            db.wait_for_background_work().expect("done");
            let when = format!("seed {seed}, round {round}, {batches} batches in the WAL");
            check_7_after_kill(copy(&dir).path(), &model, &when);
            check_11(copy(&dir).path(), &model, &when);
            if require("librocksdb 11.8", RocksDb::available()).is_some() {
                let reader = copy(&dir);
                let rocksdb = RocksDb::open(reader.path(), "", &model.specs(""))
                    .unwrap_or_else(|e| panic!("{when}: RocksDB 11.8.1 does not open it: {e}"));
                check_open_11(&rocksdb, &model, &when);
            }
            check_open_esker(&db, &model, &when);
        }
    });
}
