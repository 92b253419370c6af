//! WALs whose records are compressed (`wal_compression`).

use esker::internals::env::FileSystem;
use esker::internals::env::mem::MemFs;
use esker::options::CompressionType;
use esker::{Db, Env, Options, WriteBatch};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn options(fs: &Arc<MemFs>, compression: CompressionType) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs.clone());
    options.db.wal_compression = compression;
    options.db.avoid_flush_during_recovery = true;
    options.db.avoid_flush_during_shutdown = true;
    options
}

/// The newest WAL and its bytes.
fn wal(fs: &MemFs) -> (PathBuf, Vec<u8>) {
    let names = fs.children(Path::new("/db")).unwrap();
    let name = names.iter().filter(|name| name.ends_with(".log")).max().unwrap();
    let path = Path::new("/db").join(name);
    let mut bytes = vec![0; fs.file_size(&path).unwrap() as usize];
    fs.new_random_access_file(&path).unwrap().read_at(0, &mut bytes).unwrap();
    (path, bytes)
}

fn value(i: usize) -> Vec<u8> {
    format!("value {i}, of which the records have many alike. ").repeat(4).into_bytes()
}

#[test]
fn records_are_smaller_and_come_back_whatever_the_option_is_then() {
    let mut sizes = Vec::new();
    for compression in [CompressionType::None, CompressionType::Zstd, CompressionType::Snappy] {
        let fs = Arc::new(MemFs::new());
        let db = Db::open(&options(&fs, compression), "/db").unwrap();
        (0..100).for_each(|i| db.put(format!("{i}"), value(i)).unwrap());
        let mut large = WriteBatch::new();
        (0..1_000).for_each(|i| large.put(format!("large{i}"), value(i)).unwrap());
        db.write(large).unwrap();
        sizes.push(wal(&fs).1.len());
        drop(db);
        for next in [CompressionType::None, CompressionType::Zstd, CompressionType::None] {
            let db = Db::open(&options(&fs, next), "/db").unwrap();
            (0..100).for_each(|i| assert_eq!(db.get(format!("{i}")).unwrap().unwrap(), value(i)));
            (0..1_000).for_each(|i| assert_eq!(db.get(format!("large{i}")).unwrap().unwrap(), value(i)));
        }
    }
    let [plain, zstd, unsupported] = sizes[..] else { panic!("{sizes:?}") };
    assert!(zstd < plain / 3, "{zstd} of {plain} bytes");
    assert_eq!(unsupported, plain, "RocksDB, too, writes such a WAL without compression");
}

#[test]
fn a_wal_that_is_cut_anywhere_gives_its_first_writes() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs, CompressionType::Zstd), "/db").unwrap();
    let mut ends = Vec::new();
    for i in 0..12 {
        db.put(format!("{i}"), value(i)).unwrap();
        ends.push(wal(&fs).1.len());
    }
    let (path, bytes) = wal(&fs);
    assert_eq!(bytes[6], 9, "the WAL begins with the kind of its compression");
    // Cuts the WAL as a killed process may leave it.
    let copy = |cut: usize| {
        let left = Arc::new(MemFs::new());
        left.create_dir_if_missing(Path::new("/db")).unwrap();
        for name in fs.children(Path::new("/db")).unwrap() {
            let from = Path::new("/db").join(&name);
            let mut bytes = vec![0; fs.file_size(&from).unwrap() as usize];
            fs.new_random_access_file(&from).unwrap().read_at(0, &mut bytes).unwrap();
            if from == path {
                bytes.truncate(cut);
            }
            let mut to = left.new_writable_file(&from).unwrap();
            to.append(&bytes).unwrap();
            to.close().unwrap();
        }
        left
    };
    let near_ends = ends.iter().flat_map(|end| end.saturating_sub(2)..(end + 2).min(bytes.len() + 1));
    for cut in (0..30).chain((30..bytes.len()).step_by(23)).chain(near_ends) {
        let whole = ends.iter().filter(|end| **end <= cut).count();
        let db = Db::open(&options(&copy(cut), CompressionType::Zstd), "/db").unwrap();
        let there = (0..12).filter(|i| db.get(format!("{i}")).unwrap().is_some()).count();
        assert_eq!(there, whole, "cut at {cut} of {}", bytes.len());
        assert_eq!(db.latest_sequence_number().0, whole as u64);
    }
}
