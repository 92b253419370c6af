//! How do I back up a database while it is in use, and restore it?
//!
//! Run: `cargo run -p esker --example backup_and_restore`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::{BackupEngine, BackupEngineOptions, Db, Options};

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-backup-{}", std::process::id()));
    let (backups, restored) = (dir.with_extension("backups"), dir.with_extension("restored"));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&options, &dir)?;

    let mut engine = BackupEngine::open(&BackupEngineOptions::new(&backups))?;
    db.put("day", "Monday")?;
    let monday = engine.create_new_backup(&db, true)?;
    db.put("day", "Tuesday")?;
    engine.create_new_backup(&db, true)?; // Unchanged files are shared.
    for info in engine.backup_infos() {
        println!("backup {}: {} bytes", info.backup_id, info.size);
    }

    engine.verify_backup(monday, true)?;
    engine.restore_db_from_backup(monday, &restored, &restored)?;
    let copy = Db::open(&options, &restored)?;
    assert_eq!(copy.get("day")?.as_deref(), Some(&b"Monday"[..]));

    engine.purge_old_backups(1)?;
    assert_eq!(engine.backup_infos().len(), 1);

    drop((db, copy));
    esker::destroy_db(&options.db, &restored)?;
    std::fs::remove_dir_all(&backups).ok();
    esker::destroy_db(&options.db, &dir)
}
