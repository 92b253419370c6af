//! A backup made by either side is restored by the other, and both add to the same directory.

use crate::peer_process::{check_7, check_11, check_open_esker, open_esker, small_files};
use esker::options::CompressionType;
use esker::{BackupEngine, BackupEngineOptions, WriteOptions};
use esker_peer::model_ops::{Kinds, write_to_esker};
use esker_peer::{ModelOps, Tools, require};
use esker_testkit::{TempDir, seed};
use std::path::Path;

fn ldb(tools: Tools, command: &str, db: &Path, backups: &Path) {
    let backup_dir = format!("--backup_dir={}", backups.display());
    tools.ldb(db, [command.to_owned(), backup_dir]).unwrap_or_else(|e| panic!("ldb {command}: {e}"));
}

#[test]
fn backups_of_either_side_are_restored_by_the_other() {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    let mut rng = seed::rng("backups");
    let (db_dir, backups) = (TempDir::new("backed-up"), TempDir::new("backups"));
    let options = small_files(CompressionType::Lz4);
    let mut model = ModelOps::new(&[]);
    let mut models = Vec::new();
    for round in 0..4 {
        let db = open_esker(db_dir.path(), &model, &options).expect("opens");
        for _ in 0..60 {
            let count = rng.usize(1..20);
            let ops = model.random_ops(&mut rng, count, Kinds::ALL);
            write_to_esker(&db, &ops, &WriteOptions::default()).expect("written");
        }
        if round % 2 == 0 {
            let mut engine = BackupEngine::open(&BackupEngineOptions::new(backups.path())).expect("opens");
            // The third one takes its WAL along.
            let id = engine.create_new_backup(&db, round == 0).expect("backed up");
            assert_eq!(id, round + 1);
            db.close().expect("closes");
        } else {
            db.close().expect("closes");
            ldb(tools, "backup", db_dir.path(), backups.path());
        }
        models.push(model.clone());
        // RocksDB restores the newest one, Esker's or its own.
        let restored = TempDir::new("restored-by-ldb");
        ldb(tools, "restore", restored.path(), backups.path());
        check_7(restored.path(), &model, &format!("backup {}, restored by ldb", round + 1));
        check_11(restored.path(), &model, &format!("backup {}, restored by ldb", round + 1));
    }
    let engine = BackupEngine::open(&BackupEngineOptions::new(backups.path())).expect("opens");
    assert_eq!(engine.backup_infos().len(), 4);
    for (info, model) in engine.backup_infos().iter().zip(&models) {
        engine.verify_backup(info.backup_id, true).expect("sound");
        let restored = TempDir::new("restored-by-esker");
        engine.restore_db_from_backup(info.backup_id, restored.path(), restored.path()).expect("restored");
        let when = format!("backup {}, restored by Esker", info.backup_id);
        check_11(restored.path(), model, &when);
        let db = open_esker(restored.path(), model, &options).expect("opens");
        check_open_esker(&db, model, &when);
    }
}
