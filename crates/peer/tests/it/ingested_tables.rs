//! Tables of one engine's database are ingested by both engines, with their sequence numbers.

use crate::peer_process::{check_all, check_open_11, open_esker, small_files};
use esker::options::CompressionType;
use esker::{Db, ErrorKind, IngestExternalFileOptions};
use esker_peer::model_ops::{FamilyMerge, FamilyOrder, Kinds};
use esker_peer::{ModelOps, PeerOp, RocksDb, WriteFlags, require};
use esker_testkit::{TempDir, seed};
use std::cmp::Reverse;
use std::path::PathBuf;

const SMALL: &str = "write_buffer_size=65536;target_file_size_base=32768;max_bytes_for_level_base=131072;\
                     block_based_table_factory={format_version=5};";
const CREATE: &str = "create_if_missing=true;create_missing_column_families=true";

/// The tables of a family, older entries first: deeper levels before upper ones, and in level 0
/// older tables before newer ones.
fn tables(db: &Db, family: &str) -> Vec<PathBuf> {
    let mut files = db.live_files();
    files.retain(|file| file.column_family_name == family);
    files.sort_by_key(|file| (Reverse(file.level), file.epoch_number, file.largest_seqno));
    files.iter().map(|file| file.directory.join(&file.relative_filename)).collect()
}

/// RocksDB writes the source in half of the rounds, Esker in the others. Tables have several
/// levels, and versions that a snapshot has kept.
#[test]
fn tables_of_either_engine_are_ingested_by_both() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    seed::for_each_seed("ingested tables", 4, |round, mut rng| {
        let dir = TempDir::new("ingested-tables");
        let [from, ours, theirs] = ["from", "ours", "theirs"].map(|name| dir.path().join(name));
        let options = small_files(CompressionType::Lz4);
        let mut model = ModelOps::new(&[("other", FamilyOrder::Reverse, FamilyMerge::StringAppend)]);
        if round % 2 == 0 {
            let db = RocksDb::open(&from, CREATE, &model.specs(SMALL)).expect("opens");
            let snapshot = db.snapshot();
            for i in 0..90 {
                db.write(&model.random_ops(&mut rng, 20, Kinds::ALL), WriteFlags::default())
                    .expect("written");
                if i % 15 == 14 {
                    db.flush("default").expect("flushes");
                    db.flush("other").expect("flushes");
                }
                if i == 45 {
                    db.compact("default");
                }
            }
            drop(snapshot);
        } else {
            let db = open_esker(&from, &model, &options).expect("opens");
            for i in 0..90 {
                let ops = model.random_ops(&mut rng, 20, Kinds::ALL);
                esker_peer::model_ops::write_to_esker(&db, &ops, &Default::default()).expect("written");
                if i == 45 {
                    db.compact_range(None, None).expect("compacts");
                }
            }
            db.close().expect("closes");
        }
        let source = open_esker(&from, &model, &options).expect("opens");
        for name in ["default", "other"] {
            let family = source.column_family(name).expect("there");
            source.flush_opt(&Default::default(), &[&family]).expect("flushes");
        }
        source.wait_for_background_work().expect("no background error");
        let files = ["default", "other"].map(|name| (name, tables(&source, name)));

        let db = open_esker(&ours, &model, &options).expect("opens");
        let peer = RocksDb::open(&theirs, CREATE, &model.specs(SMALL)).expect("opens");
        let by_link = IngestExternalFileOptions::default().link_files(true).allow_db_generated_files(true);
        for (name, files) in &files {
            let family = db.column_family(name).expect("there");
            db.ingest_external_file_opt(&by_link, &family, files).expect("Esker takes them");
            peer.ingest_tables_of_a_database(name, files).expect("RocksDB takes them");
            // A second time they overlap themselves.
            let by_us = db.ingest_external_file_opt(&by_link, &family, files).expect_err("refused");
            let by_them = peer.ingest_tables_of_a_database(name, files).expect_err("refused");
            assert_eq!(by_us.kind(), ErrorKind::InvalidArgument, "{by_us}");
            let what =
                "An ingested file overlaps with existing data in the DB and has been assigned a non-zero";
            assert!(by_us.to_string().contains(what) && by_them.contains(what), "{by_us}; {by_them}");
        }
        let when = format!("round {round}");
        check_open_11(&peer, &model, &when);
        // Writes that follow are newer for both.
        let ops: Vec<PeerOp> = model.random_ops(&mut rng, 60, Kinds::ALL);
        esker_peer::model_ops::write_to_esker(&db, &ops, &Default::default()).expect("written");
        peer.write(&ops, WriteFlags::default()).expect("written");
        db.close().expect("closes");
        drop((db, peer, source));
        check_all(&ours, &model, &options, &format!("{when}, ingested by Esker"));
        let db = open_esker(&theirs, &model, &options).expect("opens");
        crate::peer_process::check_open_esker(&db, &model, &format!("{when}, ingested by RocksDB"));
        db.close().expect("closes");
    });
}
