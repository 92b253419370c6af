//! A database over encrypted files: plain bytes on the disk, wrong keys, damage, key rotation.

use super::support::{encrypted, key, put_raw, raw, with_keys};
use esker::options::Env;
use esker::trace::{BlockCacheTraceOptions, TraceOptions, new_file_trace_writer};
use esker::{BackupEngine, BackupEngineOptions, Db, Options, SstFileWriter, WriteBatch};
use esker_base::{ErrorKind, Result};
use esker_env::{FileSystem, MemFs};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KEY: &str = "SecretKey";
const VALUE: &str = "PrivateValue";

fn options(fs: impl FileSystem + 'static) -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(Arc::new(fs));
    options.cf.compression = esker::options::CompressionType::None;
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    options.cf.write_buffer_size = 64 << 10;
    options
}

/// Adds all files below `dir` to `all`, with their bytes.
fn files(disk: &dyn FileSystem, dir: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for name in disk.children(dir).unwrap() {
        let path = dir.join(name);
        match disk.children(&path) {
            Ok(_) => files(disk, &path, all),
            Err(_) => {
                all.insert(path.clone(), raw(disk, &path));
            }
        }
    }
}

fn all_files(disk: &dyn FileSystem) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    files(disk, Path::new("/"), &mut all);
    all
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window.eq_ignore_ascii_case(text.as_bytes()))
}

/// Whether the bytes hold the text or its hexadecimal form, in upper or lower case.
fn tells(bytes: &[u8], text: &str) -> bool {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    has(bytes, text) || has(bytes, &hex)
}

fn write(db: &Db, rounds: std::ops::Range<usize>) {
    for n in rounds {
        let key = format!("{KEY}{n:06}");
        match n % 5 {
            0 => db.put(&key, VALUE.repeat(1 + n % 300)).unwrap(),
            1 => db.merge(&key, VALUE).unwrap(),
            2 => db.delete(format!("{KEY}{:06}", n / 2)).unwrap(),
            3 => {
                let mut batch = WriteBatch::new();
                batch.delete_range(format!("{KEY}{n:06}a"), format!("{KEY}{n:06}z")).unwrap();
                batch.put(&key, VALUE).unwrap();
                db.write(&mut batch).unwrap();
            }
            _ => db.put(&key, VALUE).unwrap(),
        }
    }
}

/// Many features write files. The test searches them while the database is open, and after it is
/// closed.
#[test]
fn no_key_and_no_value_is_on_the_disk() {
    let disk = MemFs::new();
    let fs = encrypted(disk.clone());
    let mut options = options(fs.clone());
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 1000;
    options.db.info_log_level = esker::options::InfoLogLevel::Debug;
    options.db.wal_ttl_seconds = 1000;
    let db = Db::open(&options, "/db").unwrap();
    let writer = |path| new_file_trace_writer(db.env(), path).unwrap();
    db.start_trace(&TraceOptions::default(), writer("/trace")).unwrap();
    db.start_block_cache_trace(&BlockCacheTraceOptions::default(), writer("/block-trace")).unwrap();
    let family = db.create_column_family("other", &options.cf).unwrap();
    db.put_cf(&family, KEY, VALUE).unwrap();
    db.drop_column_family(&family).unwrap();
    write(&db, 0..3000);
    db.flush().unwrap();
    db.compact_range(Some(KEY.as_bytes()), Some(format!("{KEY}001").as_bytes())).unwrap();
    db.compact_range(None, None).unwrap();
    assert!(db.get(format!("{KEY}000000")).unwrap().is_some());
    let mut table = SstFileWriter::new(&options);
    table.open("/external.sst").unwrap();
    table.put(format!("{KEY}9"), VALUE).unwrap();
    table.finish().unwrap();
    db.ingest_external_file(&["/external.sst"]).unwrap();
    let backups = BackupEngineOptions::new("/backups").env(options.db.env.clone());
    BackupEngine::open(&backups).unwrap().create_new_backup(&db, true).unwrap();
    write(&db, 3000..3100);
    db.create_checkpoint("/checkpoint", 0).unwrap();
    let open_files = all_files(&disk);
    db.end_trace().unwrap();
    db.end_block_cache_trace().unwrap();
    db.close().unwrap();
    let closed_files = all_files(&disk);
    assert!(closed_files.len() > 25, "{:?}", closed_files.keys());
    for (path, bytes) in open_files.iter().chain(&closed_files) {
        assert!(!tells(bytes, KEY), "{} holds a key", path.display());
        assert!(!tells(bytes, VALUE), "{} holds a value", path.display());
    }
    // The search finds keys and values in a database without encryption.
    let clear = MemFs::new();
    let db = Db::open(&self::options(clear.clone()), "/db").unwrap();
    write(&db, 0..100);
    assert!(all_files(&clear).values().any(|bytes| tells(bytes, KEY) && tells(bytes, VALUE)));
    // The checkpoint has the late writes and the ingested key.
    let db = Db::open(&options, "/checkpoint").unwrap();
    assert_eq!(db.get(format!("{KEY}003004")).unwrap().as_deref(), Some(VALUE.as_bytes()));
    assert_eq!(db.get(format!("{KEY}9")).unwrap().as_deref(), Some(VALUE.as_bytes()));
}

#[test]
fn a_wrong_key_changes_nothing() {
    let disk = MemFs::new();
    let db = Db::open(&options(encrypted(disk.clone())), "/db").unwrap();
    write(&db, 0..100);
    db.close().unwrap();
    let before = all_files(&disk);
    let wrong = options(with_keys(Arc::new(disk.clone()), &[2]));
    for e in [Db::open(&wrong, "/db").unwrap_err(), Db::open_for_read_only(&wrong, "/db").unwrap_err()] {
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
        assert!(e.message().starts_with("/db/MANIFEST-"), "{e}");
        assert!(e.message().contains(&key(1).id().to_string()), "{e}");
        assert!(e.message().contains(&format!("key callback gives {}", key(2).id())), "{e}");
    }
    assert!(all_files(&disk) == before);
    // A database without encryption takes the encrypted MANIFEST for a damaged one.
    let e = Db::open(&options(disk.clone()), "/db").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
}

/// Opens a database made of these files, and returns its entries.
fn contents(files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let disk = MemFs::new();
    for (path, bytes) in files {
        disk.create_dir_if_missing(path.parent().unwrap()).unwrap();
        put_raw(&disk, path, bytes);
    }
    let db = Db::open(&options(encrypted(disk)), "/db")?;
    let mut found = BTreeMap::new();
    let mut iter = db.iter()?;
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        found.insert(key.to_vec(), value.to_vec());
        iter.next();
    }
    iter.status().map(|()| found)
}

/// A flipped bit in a closed database is an error, changes nothing, or loses writes of the WAL. The
/// test leaves out the lock file and the info logs.
#[test]
fn a_flipped_bit_gives_no_wrong_answer() {
    let disk = MemFs::new();
    let mut created = options(encrypted(disk.clone()));
    created.cf.enable_blob_files = true;
    created.cf.min_blob_size = 1000;
    let db = Db::open(&created, "/db").unwrap();
    write(&db, 0..400);
    db.flush().unwrap();
    for n in 0..50 {
        db.put(format!("late{n:03}"), VALUE).unwrap();
    }
    db.close().unwrap();
    let files = all_files(&disk);
    let whole = contents(&files).unwrap();
    assert!(whole.len() > 200);
    let mut rng = fastrand::Rng::with_seed(5);
    let (mut refused, mut unchanged) = (0, 0);
    for path in files.keys().filter(|path| !path.ends_with("LOCK") && !path.to_string_lossy().contains("LOG"))
    {
        for _ in 0..25 {
            let mut damaged = files.clone();
            let bytes = damaged.get_mut(path).unwrap();
            let at = rng.usize(..bytes.len());
            bytes[at] ^= 1 << rng.u8(..8);
            match contents(&damaged) {
                Err(_) => refused += 1,
                Ok(found) if found == whole => unchanged += 1,
                Ok(found) => {
                    // The late keys were written in their order, behind all others.
                    let is_late = |(key, _): &(&Vec<u8>, &Vec<u8>)| key.starts_with(b"late");
                    let (late, early): (Vec<_>, Vec<_>) = whole.iter().partition(is_late);
                    let (found_late, found_early): (Vec<_>, Vec<_>) = found.iter().partition(is_late);
                    let is_prefix = path.extension().is_some_and(|extension| extension == "log")
                        && found_early == early
                        && late.starts_with(&found_late);
                    assert!(is_prefix, "{} byte {at}", path.display());
                }
            }
        }
    }
    assert!(refused > 20 && unchanged > 20, "{refused} {unchanged}");
}

/// Online rotation: new files use the new key, and the headers of the others are rewritten while
/// the database is open.
#[test]
fn a_master_key_is_rotated_while_the_database_is_open() {
    let disk: Arc<MemFs> = Arc::new(MemFs::new());
    Db::open(&options(with_keys(disk.clone(), &[1])), "/db").unwrap().close().unwrap();
    let fs = with_keys(disk.clone(), &[2, 1]);
    let db = Db::open(&options(fs.clone()), "/db").unwrap();
    write(&db, 0..500);
    esker_encryption::rekey_directories(&fs, &[Path::new("/db")]).unwrap();
    write(&db, 500..1000);
    db.flush().unwrap();
    db.close().unwrap();
    let db = Db::open(&options(with_keys(disk, &[2])), "/db").unwrap();
    assert_eq!(db.get(format!("{KEY}000499")).unwrap().as_deref(), Some(VALUE.as_bytes()));
    assert_eq!(db.get(format!("{KEY}000999")).unwrap().as_deref(), Some(VALUE.as_bytes()));
}
