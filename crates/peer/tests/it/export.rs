//! Families that go from one database to another, with RocksDB on both sides.

use crate::peer_process::{check_7, check_11, check_all, open_esker, small_files};
use esker::ImportColumnFamilyOptions;
use esker::options::CompressionType;
use esker_peer::model_ops::{FamilyMerge, FamilyOrder, Kinds};
use esker_peer::{ModelOps, RocksDb, WriteFlags, require};
use esker_testkit::{TempDir, seed};

/// RocksDB 11.8.1 writes a family, Esker exports it and imports it elsewhere, RocksDB reads that
/// and writes on.
#[test]
fn a_family_of_rocksdb_is_imported_for_rocksdb() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    seed::for_each_seed("export", 3, |round, mut rng| {
        let (from, to) = (TempDir::new("export-from"), TempDir::new("export-to"));
        let order = [FamilyOrder::Bytewise, FamilyOrder::Reverse][usize::from(rng.bool())];
        let mut model = ModelOps::new(&[("moved", order, FamilyMerge::StringAppend)]);
        let options = small_files(CompressionType::Lz4);
        let small = "write_buffer_size=65536;target_file_size_base=32768;max_bytes_for_level_base=131072;\
                     block_based_table_factory={format_version=5};";
        let db = RocksDb::open(
            from.path(),
            "create_if_missing=true;create_missing_column_families=true",
            &model.specs(small),
        )
        .expect("opens");
        for i in 0..60 {
            db.write(&model.random_ops(&mut rng, 20, Kinds::ALL), WriteFlags::default()).expect("written");
            if i % 20 == 19 {
                db.flush("moved").expect("flushes");
            }
        }
        drop(db);

        let source = open_esker(from.path(), &model, &options).expect("opens");
        let family = source.column_family("moved").expect("there");
        let export = source.export_column_family(&family, from.path().join("exported")).expect("exported");
        let mut empty = ModelOps::new(&[]);
        let descriptors = model.descriptors(&options);
        let target = open_esker(to.path(), &empty, &options).expect("opens");
        let import = ImportColumnFamilyOptions { move_files: rng.bool() };
        let descriptor = descriptors.iter().find(|d| d.name == "moved").expect("there");
        target
            .create_column_family_with_import(&import, "moved", &descriptor.options, &export)
            .expect("imported");
        target.close().expect("closes");
        drop((family, source, target));

        // The target's default family is empty.
        model.families[0] = empty.families.remove(0);
        let when = format!("round {round}");
        check_7(to.path(), &model, &when);
        check_11(to.path(), &model, &when);
        let db = RocksDb::open(to.path(), "", &model.specs(small)).expect("opens");
        for _ in 0..20 {
            db.write(&model.random_ops(&mut rng, 20, Kinds::ALL), WriteFlags::default()).expect("written");
        }
        drop(db);
        // Esker last: an OPTIONS file of 11.8.1 would keep ldb 7.8.3 out.
        drop(open_esker(to.path(), &model, &options).expect("opens"));
        check_all(to.path(), &model, &options, &format!("{when}, written on"));
    });
}
