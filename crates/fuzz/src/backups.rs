//! Opens backup directories with changed files.
//!
//! Laws: the directory opens, and verification finds each damaged backup. A backup that verifies
//! restores the original contents. A deletion or a new backup damages no other backup.

use crate::scene::{Files, contents, damage, databases, files_below, is_written, key, lay, open, options, value};
use esker::internals::env::MemFs;
use esker::{BackupEngine, BackupEngineOptions, Env, OpenMode, destroy_db};
use esker_peer::contents::ContentsPair;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The ids of the two backups in the directory.
const OLD: [u32; 2] = [1, 2];
/// The number of the database to back up: the one with blob files.
const VARIANT: usize = 1;

/// The entries of each family.
type Contents = Vec<Vec<ContentsPair>>;

/// A backup directory before any change.
struct BuiltBackup {
    files: Files,
    /// The contents of each backup.
    contents: [Contents; 2],
}

fn engine(fs: &MemFs) -> BackupEngine {
    let env = Env::with_fs(Arc::new(fs.clone()));
    BackupEngine::open(&BackupEngineOptions::new("/backups").env(env)).unwrap()
}

fn of_database(fs: &MemFs) -> Contents {
    contents(&files_below(fs, Path::new("/db")), VARIANT, 2).unwrap()
}

/// Makes a backup with a WAL. Then makes a backup with tables only, which shares the tables of the
/// first one.
fn make() -> BuiltBackup {
    let fs = MemFs::new();
    lay(&fs, &databases()[VARIANT]);
    let mut engine = engine(&fs);
    let mut held = Vec::new();
    for id in OLD {
        let db = open(&options(&fs, VARIANT), OpenMode::ReadWrite).unwrap();
        if id == 2 {
            db.put(key(7), value(7, 1)).unwrap();
        }
        let made = engine.create_new_backup_with_metadata(&db, b"of a test", id == 2).unwrap();
        assert_eq!(made, id);
        db.close().unwrap();
        held.push(of_database(&fs));
    }
    BuiltBackup { files: files_below(&fs, Path::new("/backups")), contents: held.try_into().unwrap() }
}

fn made() -> &'static BuiltBackup {
    static MADE: OnceLock<BuiltBackup> = OnceLock::new();
    MADE.get_or_init(make)
}

/// Restores backup `id`, and opens the result. If the backup is intact, `whole` has its contents,
/// and the result must equal them. Otherwise every entry must be one that `make` has written.
fn restored(fs: &MemFs, engine: &BackupEngine, id: u32, whole: Option<&Contents>) {
    let restored = engine.restore_db_from_backup(id, "/db", "/db");
    if let Some(whole) = whole {
        restored.unwrap();
        assert_eq!(&of_database(fs), whole);
        return;
    }
    if restored.is_ok()
        && let Ok(held) = contents(&files_below(fs, Path::new("/db")), VARIANT, 2)
    {
        for (key, value) in held.iter().flatten() {
            assert!(is_written(value, key), "{} is {}", key.escape_ascii(), value.escape_ascii());
        }
    }
}

/// Whether backup `id` verifies. A backup that verifies must be listed.
fn is_whole(engine: &BackupEngine, id: u32) -> bool {
    let is_whole = engine.verify_backup(id, true).is_ok();
    let is_told = engine.backup_infos().iter().any(|info| info.backup_id == id);
    assert!(is_told || !is_whole, "backup {id} is whole and is not listed");
    is_whole
}

/// Runs one input. The first byte selects the operations after the restores. The rest is changes of
/// eight bytes each.
pub fn run(data: &[u8]) {
    let Some((&then, data)) = data.split_first() else { return };
    let made = made();
    let mut files = made.files.clone();
    let (changes, _) = data.as_chunks::<8>();
    for change in changes.iter().take(4) {
        damage(&mut files, change);
    }
    let fs = MemFs::new();
    lay(&fs, &files);
    let mut engine = engine(&fs);
    // No checksum covers a meta file. A changed meta file that is well formed describes another
    // backup.
    let same_meta = |id: u32| {
        let path = PathBuf::from(format!("/backups/meta/{id}"));
        let of = |files: &Files| files.iter().find(|(p, _)| *p == path).map(|(_, bytes)| bytes.clone());
        of(&files) == of(&made.files)
    };
    let whole = OLD.map(|id| is_whole(&engine, id) && same_meta(id));
    for (i, id) in OLD.into_iter().enumerate() {
        restored(&fs, &engine, id, whole[i].then_some(&made.contents[i]));
    }
    let gone = 1 + u32::from(then & 1);
    if then & 2 != 0 {
        drop(engine.delete_backup(gone));
    }
    if then & 4 != 0 {
        drop(engine.garbage_collect());
    }
    if then & 8 != 0 {
        added(&fs, &mut engine);
    }
    // A deletion removes only files that no other backup needs. This also holds after a reopen of
    // the directory.
    let engine = self::engine(&fs);
    for (i, id) in OLD.into_iter().enumerate() {
        if whole[i] && !(then & 2 != 0 && id == gone) {
            restored(&fs, &engine, id, Some(&made.contents[i]));
        }
    }
}

/// Makes one more backup. If it shares damaged files, it need not verify.
fn added(fs: &MemFs, engine: &mut BackupEngine) {
    let options = options(fs, VARIANT);
    destroy_db(&options.db, "/db").unwrap();
    lay(fs, &databases()[VARIANT]);
    let db = open(&options, OpenMode::ReadWrite).unwrap();
    let id = engine.create_new_backup(&db, false);
    db.close().unwrap();
    let Ok(id) = id else { return };
    let held = of_database(fs);
    let whole = is_whole(engine, id);
    restored(fs, engine, id, whole.then_some(&held));
}
