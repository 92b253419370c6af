//! A whole directory with changes in its files: opened, read in every way, verified, written to, repaired. Nothing may panic
//! or hang, and what is read was once written: every byte of these files is under some checksum.
#![no_main]

use esker::internals::env::{FileSystem, MemFs};
use esker::options::CompressionType;
use esker::{ColumnFamilyDescriptor, Db, Env, OpenMode, Options, ReadOptions, builtin, repair_db};
use libfuzzer_sys::fuzz_target;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

const FAMILIES: [&str; 2] = ["default", "second"];
const KEYS: u32 = 60;
const LIVES: u32 = 3;

type Files = Vec<(PathBuf, Vec<u8>)>;

fn options(fs: &MemFs, variant: usize) -> Options {
    let mut options = Options::default();
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.max_background_jobs = 1;
    options.db.compatible_with = esker::options::TargetVersion::V11;
    options.db.info_log_level = esker::options::InfoLogLevel::Fatal;
    options.cf.merge_operator = Some(builtin::put());
    options.cf.disable_auto_compactions = true;
    options.cf.table.block_size = 300;
    options.cf.compression = [CompressionType::None, CompressionType::Lz4, CompressionType::Zstd][variant % 3];
    options.cf.enable_blob_files = variant == 1;
    options.cf.table.format_version = [5, 6, 7][variant % 3];
    options
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

fn value(n: u32, life: u32) -> Vec<u8> {
    format!("value {n} of life {life} {}", "x".repeat(n as usize % 40)).into_bytes()
}

fn is_written(found: &[u8], key: &[u8]) -> bool {
    (0..KEYS).any(|n| self::key(n) == key && (0..LIVES).any(|life| value(n, life) == found))
}

fn open(options: &Options, mode: OpenMode) -> esker::Result<Db> {
    let families = FAMILIES.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    Db::open_with(&options.db, Path::new("/db"), families.into(), mode)
}

/// Some tables, a deletion of each kind, and a WAL behind them.
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
    let names = fs.children(Path::new("/db")).unwrap();
    let mut files: Files = names
        .into_iter()
        .filter(|name| !name.starts_with("LOG") && name != "LOCK")
        .map(|name| {
            let path = Path::new("/db").join(name);
            let mut bytes = vec![0; fs.file_size(&path).unwrap() as usize];
            fs.new_random_access_file(&path).unwrap().read_at(0, &mut bytes).unwrap();
            (path, bytes)
        })
        .collect();
    files.sort();
    files
}

/// Each eight bytes are one change: a file, what is done to it, where, and with what.
fn damaged(data: &[u8]) -> (usize, MemFs) {
    static MADE: OnceLock<Vec<Files>> = OnceLock::new();
    let made = MADE.get_or_init(|| (0..3).map(make).collect());
    let (&variant, data) = data.split_first().unwrap_or((&0, &[]));
    let variant = usize::from(variant) % made.len();
    let mut files = made[variant].clone();
    for change in data.chunks_exact(8).take(4) {
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
    let fs = MemFs::new();
    fs.create_dir_if_missing(Path::new("/db")).unwrap();
    for (path, bytes) in &files {
        let mut file = fs.new_writable_file(path).unwrap();
        file.append(bytes).unwrap();
        file.close().unwrap();
    }
    (variant, fs)
}

fn read(db: &Db) {
    for name in FAMILIES {
        let Some(family) = db.column_family(name) else { continue };
        for forward in [true, false] {
            let Ok(mut iter) = db.iter_cf(&family) else { continue };
            if forward {
                iter.seek_to_first();
            } else {
                iter.seek_to_last();
            }
            while let Some((key, value)) = iter.item() {
                assert!(is_written(value, key), "{} is {}", key.escape_ascii(), value.escape_ascii());
                if forward {
                    iter.next();
                } else {
                    iter.prev();
                }
            }
        }
        let keys: Vec<_> = (0..KEYS).map(key).collect();
        for (key, found) in keys.iter().zip(db.multi_get_opt(&ReadOptions::default(), &family, &keys)) {
            let alone = db.get_cf(&family, key);
            for value in [found.ok().flatten().map(|v| v.to_vec()), alone.ok().flatten()].into_iter().flatten() {
                assert!(is_written(&value, key), "{} is {}", key.escape_ascii(), value.escape_ascii());
            }
        }
    }
    drop(db.verify_checksum());
}

fuzz_target!(|data: &[u8]| {
    let (variant, fs) = damaged(data);
    let options = options(&fs, variant);
    if let Ok(db) = open(&options, OpenMode::ReadOnly) {
        read(&db);
    }
    if let Ok(db) = open(&options, OpenMode::ReadWrite) {
        read(&db);
        drop(db.put(key(7), value(7, 1)));
        drop(db.flush());
        drop(db.compact_range(None, None));
        read(&db);
        drop(db.close());
    }
    let families = FAMILIES.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    if repair_db(&options, &families, "/db").is_ok()
        && let Ok(db) = open(&options, OpenMode::ReadWrite)
    {
        read(&db);
    }
});
