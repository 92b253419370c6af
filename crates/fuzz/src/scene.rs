//! Small databases in memory, and ways to damage them. For targets that need a whole directory.

use esker::internals::cache::CacheOptions;
use esker::internals::env::{FileSystem, MemFs};
use esker::internals::table::BlockCache;
use esker::options::CompressionType;
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, Db, Env, OpenMode, Options, WalRecoveryMode, builtin,
};
use esker_peer::contents::ContentsPair;
use esker_tools::{CommandLine, Host};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The families of each database.
pub(crate) const FAMILIES: [&str; 2] = ["default", "second"];
/// Number of keys in each database.
pub(crate) const KEYS: u32 = 60;
/// Number of rounds (lives) in which `make` writes. Each round writes two of three keys.
const LIVES: u32 = 3;

/// Files as paths and contents, sorted by path.
pub(crate) type Files = Vec<(PathBuf, Vec<u8>)>;

pub(crate) fn options(fs: &MemFs, variant: usize) -> Options {
    let mut options = Options::default();
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.max_background_jobs = 1;
    options.db.compatible_with = esker::options::TargetVersion::V11_10;
    options.db.info_log_level = esker::options::InfoLogLevel::Fatal;
    // Room for some hundred entries. The allocation of the default size would take most of the time
    // of an input.
    options.cf.write_buffer_size = 64 << 10;
    options.cf.table.block_cache =
        Some(Arc::new(BlockCache::new(&CacheOptions::with_capacity(64 << 10)).unwrap()));
    options.cf.merge_operator = Some(builtin::put());
    options.cf.disable_auto_compactions = true;
    options.cf.table.block_size = 300;
    options.cf.compression =
        [CompressionType::None, CompressionType::Lz4, CompressionType::Zstd][variant % 3];
    options.cf.enable_blob_files = variant == 1;
    options.cf.table.format_version = [5, 7, 8][variant % 3];
    options
}

pub(crate) fn key(n: u32) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

pub(crate) fn value(n: u32, life: u32) -> Vec<u8> {
    format!("value {n} of life {life} {}", "x".repeat(n as usize % 40)).into_bytes()
}

/// Whether `found` is the value of `key` in one of the rounds of `make`.
pub(crate) fn is_written(found: &[u8], key: &[u8]) -> bool {
    static WRITTEN: OnceLock<HashMap<Vec<u8>, Vec<Vec<u8>>>> = OnceLock::new();
    let values = |n| (0..LIVES).map(|life| value(n, life)).collect();
    let written = WRITTEN.get_or_init(|| (0..KEYS).map(|n| (self::key(n), values(n))).collect());
    written.get(key).is_some_and(|values| values.iter().any(|value| value == found))
}

pub(crate) fn open(options: &Options, mode: OpenMode) -> esker::Result<Db> {
    let families = FAMILIES.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    Db::open_with(&options.db, Path::new("/db"), families, mode)
}

/// Makes a database with some tables, point deletions, range tombstones, and a WAL.
fn make(variant: usize) -> Files {
    let fs = MemFs::new();
    let options = options(&fs, variant);
    let db = open(&options, OpenMode::ReadWrite).unwrap();
    for life in 0..LIVES {
        for name in FAMILIES {
            let family = db.column_family(name).unwrap();
            for n in (0..KEYS).filter(|n| (n + life) % 3 > 0) {
                if n % 5 == 0 {
                    db.merge_opt(&Default::default(), &family, key(n), value(n, life)).unwrap();
                } else {
                    db.put_cf(&family, key(n), value(n, life)).unwrap();
                }
            }
            db.delete_cf(&family, key(life)).unwrap();
            db.delete_range_opt(&Default::default(), &family, key(20 + life), key(24 + life)).unwrap();
        }
        if life + 1 < LIVES {
            db.flush().unwrap();
        }
        if life == 0 {
            db.compact_range(None, None).unwrap();
        }
    }
    drop(db);
    let mut files = files_below(&fs, Path::new("/db"));
    files.retain(|(path, _)| {
        let name = path.file_name().unwrap().to_string_lossy();
        !name.starts_with("LOG") && name != "LOCK"
    });
    files
}

/// The databases. They differ in compression and in the format version of tables: 5, 7 or 8. One
/// has blob files.
pub(crate) fn databases() -> &'static [Files] {
    static MADE: OnceLock<Vec<Files>> = OnceLock::new();
    MADE.get_or_init(|| (0..3).map(make).collect())
}

/// Applies one change. Its eight bytes give the file, the kind of change, the place in the file,
/// and an argument.
pub(crate) fn damage(files: &mut Files, change: &[u8; 8]) {
    if files.is_empty() {
        return;
    }
    let at = usize::from(change[0]) % files.len();
    let bytes = &mut files[at].1;
    let place = usize::from(u16::from_le_bytes([change[2], change[3]]));
    let place = if bytes.is_empty() { 0 } else { place % bytes.len() };
    let end = (place + usize::from(change[4] % 32)).min(bytes.len());
    match change[1] % 6 {
        0 if !bytes.is_empty() => bytes[place] ^= change[5].max(1),
        1 => bytes.truncate(place),
        2 => bytes[place..end].fill(change[5]),
        3 => drop(bytes.splice(place..end, change[5..].iter().copied())),
        4 => bytes.extend_from_slice(&change[5..]),
        _ if files.len() > 1 => drop(files.remove(at)),
        _ => {}
    }
}

/// Writes files and their directories into a file system.
pub(crate) fn lay(fs: &MemFs, files: &Files) {
    for (path, bytes) in files {
        fs.create_dir_if_missing(path.parent().unwrap()).unwrap();
        let mut file = fs.new_writable_file(path).unwrap();
        file.append(bytes).unwrap();
        file.close().unwrap();
    }
}

/// All files below a directory.
pub(crate) fn files_below(fs: &MemFs, dir: &Path) -> Files {
    let mut found = Files::new();
    for name in fs.children(dir).unwrap() {
        let path = dir.join(name);
        if fs.children(&path).is_ok() {
            found.extend(files_below(fs, &path));
            continue;
        }
        let mut bytes = vec![0; usize::try_from(fs.file_size(&path).unwrap()).unwrap()];
        fs.new_random_access_file(&path).unwrap().read_at(0, &mut bytes).unwrap();
        found.push((path, bytes));
    }
    found.sort();
    found
}

/// Opens the files read-only, and returns the entries of each family. `recovery` is RocksDB's
/// number of a `wal_recovery_mode`.
///
/// # Errors
/// The errors of the open and of the scans. Also an error if forward and backward scan differ.
pub(crate) fn contents(
    files: &Files,
    variant: usize,
    recovery: usize,
) -> esker::Result<Vec<Vec<ContentsPair>>> {
    const MODES: [WalRecoveryMode; 4] = [
        WalRecoveryMode::TolerateCorruptedTailRecords,
        WalRecoveryMode::AbsoluteConsistency,
        WalRecoveryMode::PointInTimeRecovery,
        WalRecoveryMode::SkipAnyCorruptedRecords,
    ];
    let fs = MemFs::new();
    lay(&fs, files);
    let mut options = options(&fs, variant);
    options.db.wal_recovery_mode = MODES[recovery];
    let db = open(&options, OpenMode::ReadOnly)?;
    FAMILIES
        .iter()
        .map(|name| {
            let family = db.column_family(name).ok_or_else(|| esker::Error::not_found("a family"))?;
            let forward = walk(&db, &family, true)?;
            let mut backward = walk(&db, &family, false)?;
            backward.reverse();
            if forward != backward {
                return Err(esker::Error::corruption("the two directions differ"));
            }
            Ok(forward)
        })
        .collect()
}

/// Whether `esker verify` finds no problem in the files.
pub(crate) fn is_whole(files: &Files) -> bool {
    let fs = MemFs::new();
    lay(&fs, files);
    let Ok(line) = CommandLine::parse(["esker", "verify", "--quiet", "/db"]) else {
        unreachable!("the text is a command");
    };
    line.run(&Host::unheard(Env::with_fs(Arc::new(fs)), Vec::new())) == 0
}

fn walk(db: &Db, family: &ColumnFamilyHandle, forward: bool) -> esker::Result<Vec<ContentsPair>> {
    let mut iter = db.iter_cf(family)?;
    let mut found = Vec::new();
    if forward {
        iter.seek_to_first();
    } else {
        iter.seek_to_last();
    }
    while let Some((key, value)) = iter.item() {
        found.push((key.to_vec(), value.to_vec()));
        if forward {
            iter.next();
        } else {
            iter.prev();
        }
    }
    iter.status()?;
    Ok(found)
}
