//! `paranoid_file_checks`, `verify_output_flags`: a table that cannot be read back as it was
//! written is not installed.

use esker::internals::env::{FaultFs, FileSystem, MemFs, OpKind};
use esker::internals::format::trailer::ChecksumType;
use esker::options::{CompressionType, FileChecksumGenCrc32cFactory, VerifyOutputFlags};
use esker::{Db, Env, Error, ErrorKind, Options};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A disk on which the next table changes after it is written and before it is first opened.
struct Disk {
    below: MemFs,
    fs: FaultFs,
    changed: Arc<Mutex<Option<PathBuf>>>,
}

impl Disk {
    fn new() -> Disk {
        let below = MemFs::new();
        Disk { fs: FaultFs::new(Arc::new(below.clone())), below, changed: Arc::default() }
    }

    fn open(&self, paranoid: bool) -> esker::Result<Db> {
        self.open_with(|options| options.cf.paranoid_file_checks = paranoid)
    }

    fn open_with(&self, set: impl Fn(&mut Options)) -> esker::Result<Db> {
        let mut options = Options::default();
        options.db.env = Env::with_fs(Arc::new(self.fs.clone()));
        options.db.create_if_missing = true;
        options.db.verify_sst_unique_id_in_manifest = false;
        options.cf.compression = CompressionType::None;
        options.cf.table.checksum = ChecksumType::NoChecksum;
        set(&mut options);
        Db::open(&options, "/db")
    }

    fn change_next_table(&self, change: impl Fn(Vec<u8>) -> Vec<u8> + Send + Sync + 'static) {
        let (below, changed) = (self.below.clone(), Arc::clone(&self.changed));
        *changed.lock().unwrap() = None;
        self.fs.on_op(move |op| {
            let mut changed = changed.lock().unwrap();
            let is_table = op.path.extension().is_some_and(|e| e == "sst");
            if op.kind == OpKind::Open && is_table && changed.is_none() {
                write(&below, &op.path, &change(read(&below, &op.path)));
                *changed = Some(op.path.clone());
            }
        });
    }

    /// Checks that the error names the changed table, and that this table is deleted.
    fn check_refused(&self, error: &Error, tables: &[String]) {
        let changed = self.changed.lock().unwrap().clone().expect("a table was written");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        let name = changed.file_name().unwrap().to_str().unwrap();
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(self.tables(), tables);
        self.fs.clear_hook();
    }

    fn tables(&self) -> Vec<String> {
        let mut tables = self.below.children(Path::new("/db")).unwrap();
        tables.retain(|name| name.ends_with(".sst"));
        tables.sort();
        tables
    }
}

fn read(fs: &MemFs, path: &Path) -> Vec<u8> {
    let mut bytes = vec![0; fs.file_size(path).unwrap() as usize];
    fs.new_random_access_file(path).unwrap().read_at(0, &mut bytes).unwrap();
    bytes
}

fn write(fs: &MemFs, path: &Path, bytes: &[u8]) {
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

fn fill(db: &Db, value: &str) {
    for i in 0..500 {
        db.put(format!("key{i:04}"), format!("{value}{i}")).unwrap();
    }
    db.delete_range("key0010", "key0020").unwrap();
}

fn is_filled(db: &Db, value: &str) -> bool {
    (0..500).all(|i| {
        let expected = if (10..20).contains(&i) { None } else { Some(format!("{value}{i}").into_bytes()) };
        db.get(format!("key{i:04}")).is_ok_and(|found| found == expected)
    })
}

type Change = fn(Vec<u8>) -> Vec<u8>;

/// Changes to a table with `fill("new")` that its writer does not notice: its blocks have no
/// checksums.
const CHANGES: [Change; 2] = [
    |bytes| replaced(bytes, b"new300", b"old300"),
    // Changes the end of the range tombstone.
    |bytes| replaced(bytes, b"key0020", b"key0021"),
];

fn replaced(mut bytes: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    if let Some(at) = bytes.windows(from.len()).position(|window| window == from) {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    bytes
}

#[test]
fn a_flushed_table_that_reads_back_differently_is_not_installed() {
    for change in CHANGES {
        let disk = Disk::new();
        let db = disk.open(true).unwrap();
        fill(&db, "new");
        disk.change_next_table(change);
        let error = db.flush().unwrap_err();
        disk.check_refused(&error, &[]);
        assert!(is_filled(&db, "new"));
        drop(db);
        let db = disk.open(true).unwrap();
        assert!(is_filled(&db, "new"));
        db.flush().unwrap();
    }
}

#[test]
fn without_paranoid_file_checks_it_is_installed() {
    for change in CHANGES {
        let disk = Disk::new();
        let db = disk.open(false).unwrap();
        fill(&db, "new");
        disk.change_next_table(change);
        db.flush().unwrap();
        assert!(!is_filled(&db, "new"));
    }
}

#[test]
fn a_compacted_table_that_reads_back_differently_leaves_the_inputs() {
    let disk = Disk::new();
    let db = disk.open(true).unwrap();
    fill(&db, "old");
    db.flush().unwrap();
    fill(&db, "new");
    db.flush().unwrap();
    let before = disk.tables();
    assert_eq!(before.len(), 2);
    disk.change_next_table(CHANGES[0]);
    let error = db.compact_range(None, None).unwrap_err();
    disk.check_refused(&error, &before);
    assert!(is_filled(&db, "new"));
    drop(db);
    let db = disk.open(true).unwrap();
    assert!(is_filled(&db, "new"));
    db.compact_range(None, None).unwrap();
    assert!(is_filled(&db, "new"));
}

#[test]
fn a_table_that_recovery_writes_is_read_back() {
    let disk = Disk::new();
    let db = disk.open(true).unwrap();
    fill(&db, "new");
    drop(db);
    disk.change_next_table(CHANGES[0]);
    let error = disk.open(true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    disk.fs.clear_hook();
    assert!(is_filled(&disk.open(true).unwrap(), "new"));
}

/// Checks the findings of each kind of verification, in flushes and in compactions.
#[test]
fn verify_output_flags_find_what_they_are_for_where_they_are_enabled() {
    type Flags = VerifyOutputFlags;
    let of_blocks: Change = |bytes| replaced(bytes, b"new300", b"old300");
    let kinds = [Flags::VERIFY_BLOCK_CHECKSUM, Flags::VERIFY_ITERATION, Flags::VERIFY_FILE_CHECKSUM];
    let enabled = [Flags::ENABLE_FOR_FLUSH, Flags::ENABLE_FOR_LOCAL_COMPACTION, Flags::VERIFY_ALL];
    for kind in kinds {
        for enable in enabled {
            for compaction in [false, true] {
                let flags = if enable == Flags::VERIFY_ALL { enable } else { kind | enable };
                let own =
                    if compaction { Flags::ENABLE_FOR_LOCAL_COMPACTION } else { Flags::ENABLE_FOR_FLUSH };
                let disk = Disk::new();
                let db = disk.open_with(|options| {
                    options.cf.verify_output_flags = flags;
                    options.db.file_checksum_gen_factory = Some(Arc::new(FileChecksumGenCrc32cFactory));
                    if kind == Flags::VERIFY_BLOCK_CHECKSUM {
                        options.cf.table.checksum = ChecksumType::Xxh3;
                    }
                });
                let db = db.unwrap();
                fill(&db, "new");
                if compaction {
                    db.flush().unwrap();
                    fill(&db, "new");
                    db.flush().unwrap();
                }
                let before = disk.tables();
                disk.change_next_table(of_blocks);
                let result = if compaction { db.compact_range(None, None) } else { db.flush() };
                match result {
                    Err(error) => {
                        assert!(flags & own != 0, "{kind} {enable:b} {compaction}: {error}");
                        disk.check_refused(&error, &before);
                    }
                    Ok(()) => assert!(flags & own == 0, "{kind} {enable:b} {compaction}"),
                }
            }
        }
    }
}
