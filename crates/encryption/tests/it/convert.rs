//! Directories that are encrypted, decrypted and rekeyed, and killed at any point meanwhile.

use super::support::{encrypted, key, pattern, put_raw, raw, read, with_keys, write_pieces};
use super::temp_dir::TempDir;
use esker_base::Result;
use esker_encryption::{
    CONVERSION_MARKER, ConversionReport, EncryptedFs, EncryptionPolicy, KeyCallback, decrypt_directories,
    encrypt_directories, rekey_directories,
};
use esker_env::{CrashChoices, CrashFs, FaultFs, FileSystem, MemFs, OpKind, PosixFileSystem};
use esker_format::encryption::HeaderSlot;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const DIR: &str = "/db";
const NAMES: [&str; 6] =
    ["MANIFEST-000005", "000004.log", "000012.sst", "000013.blob", "CURRENT", "archive/000003.log"];

fn content(name: &str) -> Vec<u8> {
    match name {
        "CURRENT" => b"MANIFEST-000005\n".to_vec(),
        name => pattern(name.len() * 700, name.len() as u64),
    }
}

/// A database directory of these files.
fn directory(fs: &dyn FileSystem) {
    fs.create_dir_if_missing(&Path::new(DIR).join("archive")).unwrap();
    for name in NAMES {
        write_pieces(fs, &Path::new(DIR).join(name), &[&content(name)]);
        let mut file = fs.reopen_writable_file(&Path::new(DIR).join(name)).unwrap();
        file.sync().unwrap();
    }
    for dir in ["/", DIR, "/db/archive"] {
        fs.new_directory(Path::new(dir)).unwrap().fsync().unwrap();
    }
}

/// Whether the MANIFEST and all other files can be read.
fn opens(fs: &dyn FileSystem) -> Result<()> {
    for name in NAMES {
        let there = read(fs, &Path::new(DIR).join(name))?;
        if there != content(name) {
            return Err(esker_base::Error::corruption(format!("{name} is another")));
        }
    }
    Ok(())
}

type Conversion = fn(&EncryptedFs, &[&Path]) -> Result<ConversionReport>;

/// Runs a conversion on `disk` and calls `check` with the disk after a crash at each step.
fn at_each_step(disk: &CrashFs, keys: &[u8], convert: Conversion, check: impl Fn(&CrashFs, bool, u64)) {
    let fault = FaultFs::new(Arc::new(disk.clone()));
    let crashes = Arc::new(Mutex::new(Vec::new()));
    let (found, under) = (Arc::clone(&crashes), disk.clone());
    fault.on_op(move |op| {
        let mut found = found.lock().unwrap();
        found.push((under.crash_clone(&CrashChoices::process_kill()), true, op.index));
        found.push((under.crash_clone(&CrashChoices::random(op.index)), false, op.index));
    });
    let fs = with_keys(Arc::new(fault.clone()), keys);
    convert(&fs, &[Path::new(DIR)]).unwrap();
    fault.clear_hook();
    let crashes = std::mem::take(&mut *crashes.lock().unwrap());
    assert!(crashes.len() > 40, "{}", crashes.len());
    for (disk, is_kill, step) in crashes {
        check(&disk, is_kill, step);
    }
}

fn keyed(disk: &CrashFs, keys: &[u8]) -> EncryptedFs {
    with_keys(Arc::new(disk.clone()), keys)
}

#[test]
fn a_directory_is_encrypted_and_decrypted() {
    let disk = CrashFs::new();
    directory(&disk);
    put_raw(&disk, Path::new("/db/notes.txt"), b"of the user");
    let fs = keyed(&disk, &[1]);
    let report = encrypt_directories(&fs, &[Path::new(DIR)]).unwrap();
    assert_eq!((report.changed, report.kept), (5, 0));
    opens(&fs).unwrap();
    assert!(opens(&disk).is_err());
    assert_eq!(encrypt_directories(&fs, &[Path::new(DIR)]).unwrap().changed, 0);
    let report = decrypt_directories(&fs, &[Path::new(DIR)]).unwrap();
    assert_eq!((report.changed, report.kept), (5, 0));
    opens(&disk).unwrap();
    assert!(opens(&fs).unwrap_err().message().contains("not encrypted"));
    assert_eq!(raw(&disk, Path::new("/db/notes.txt")), b"of the user");
    assert!(!disk.file_exists(&Path::new(DIR).join(CONVERSION_MARKER)).unwrap());
}

#[test]
fn an_interrupted_encryption_opens_with_or_without_the_key() {
    let disk = CrashFs::new();
    directory(&disk);
    at_each_step(&disk, &[1], encrypt_directories, |disk, _, step| {
        let with_key = keyed(disk, &[1]);
        assert!(opens(disk).is_ok() || opens(&with_key).is_ok(), "step {step}: {:?}", opens(&with_key));
        encrypt_directories(&with_key, &[Path::new(DIR)]).unwrap();
        opens(&with_key).unwrap();
    });
}

#[test]
fn an_interrupted_decryption_opens_with_or_without_the_key() {
    let disk = CrashFs::new();
    directory(&keyed(&disk, &[1]));
    at_each_step(&disk, &[1], decrypt_directories, |disk, _, step| {
        let with_key = keyed(disk, &[1]);
        assert!(opens(disk).is_ok() || opens(&with_key).is_ok(), "step {step}: {:?}", opens(&with_key));
        decrypt_directories(&with_key, &[Path::new(DIR)]).unwrap();
        opens(disk).unwrap();
    });
}

#[test]
fn an_interrupted_rekeying_opens_under_the_old_or_the_new_key() {
    let disk = CrashFs::new();
    directory(&keyed(&disk, &[1]));
    at_each_step(&disk, &[2, 1], rekey_directories, |disk, _, step| {
        let (old, new) = (opens(&keyed(disk, &[1])), opens(&keyed(disk, &[2])));
        assert!(old.is_ok() || new.is_ok(), "step {step}: {old:?}, {new:?}");
        let report = rekey_directories(&keyed(disk, &[2, 1]), &[Path::new(DIR)]).unwrap();
        assert_eq!(report.changed + report.kept, NAMES.len() as u64);
        opens(&keyed(disk, &[2])).unwrap();
        assert!(opens(&keyed(disk, &[1])).is_err());
    });
}

/// Rekeying writes headers and nothing else.
#[test]
fn rekeying_leaves_the_frames_as_they_are() {
    let disk = CrashFs::new();
    directory(&keyed(&disk, &[1]));
    let table = Path::new("/db/000012.sst");
    let before = raw(&disk, table);
    let report = rekey_directories(&keyed(&disk, &[2, 1]), &[Path::new(DIR)]).unwrap();
    assert_eq!((report.changed, report.kept), (5, 1));
    let after = raw(&disk, table);
    assert!(before[..4096] != after[..4096] && before[4096..] == after[4096..]);
    assert_eq!(rekey_directories(&keyed(&disk, &[2]), &[Path::new(DIR)]).unwrap().changed, 0);
    let e = rekey_directories(&keyed(&disk, &[3]), &[Path::new(DIR)]).unwrap_err();
    assert!(e.message().contains("encrypted under master key"), "{e}");
}

/// A directory of the real file system, which counts links: a table with two names, and a WAL.
fn linked_table(fs: &dyn FileSystem, dir: &Path) -> (PathBuf, PathBuf) {
    let (table, other) = (dir.join("000012.sst"), dir.join("other name"));
    write_pieces(fs, &table, &[b"of the table"]);
    write_pieces(fs, &dir.join("000004.log"), &[b"of the log"]);
    fs.link_file(&table, &other).unwrap();
    (table, other)
}

/// The other name of a table keeps the old bytes, and the report counts the table.
#[test]
fn a_conversion_counts_the_files_with_further_links() {
    let dir = TempDir::new();
    let (disk, fs) = (PosixFileSystem, encrypted(PosixFileSystem));
    let (table, other) = linked_table(&disk, dir.path());
    for convert in [encrypt_directories as Conversion, decrypt_directories] {
        let before = raw(&disk, &other);
        let report = convert(&fs, &[dir.path()]).unwrap();
        assert_eq!((report.changed, report.kept, report.linked), (2, 0, 1));
        assert!(raw(&disk, &other) == before && raw(&disk, &table) != before);
        // Nothing is left to convert, and the table has one name now.
        let report = convert(&fs, &[dir.path()]).unwrap();
        assert_eq!((report.changed, report.kept, report.linked), (0, 2, 0));
        disk.delete_file(&other).unwrap();
        disk.link_file(&table, &other).unwrap();
    }
}

#[test]
fn a_rekeying_counts_the_files_with_further_links() {
    let dir = TempDir::new();
    let (table, other) = linked_table(&encrypted(PosixFileSystem), dir.path());
    let fs = with_keys(Arc::new(PosixFileSystem), &[2, 1]);
    let report = rekey_directories(&fs, &[dir.path()]).unwrap();
    // The second name shares the header, so it needs no change.
    assert_eq!((report.changed, report.kept, report.linked), (2, 1, 1));
    let new = with_keys(Arc::new(PosixFileSystem), &[2]);
    assert!(read(&new, &table).is_ok_and(|there| there == b"of the table"));
    assert!(read(&new, &other).is_ok_and(|there| there == b"of the table"));
}

/// A copy of the table in which a crash destroyed the write of these bytes.
fn with_destroyed(bytes: &[u8], offset: usize, len: usize, how: u8) -> MemFs {
    let mut left = bytes.to_vec();
    match how {
        0 => left[offset..offset + len].fill(0),
        1 => left[offset..offset + len].copy_from_slice(&pattern(len, 11)),
        _ => left[offset..].fill(0),
    }
    // A tear within a write leaves other bytes of the file as they are.
    left[offset + len..].copy_from_slice(&bytes[offset + len..]);
    let disk = MemFs::new();
    put_raw(&disk, Path::new("/000012.sst"), &left);
    disk
}

/// Rekeys a table with this header, and destroys each write in turn. The table opens after each.
fn check_that_each_write_may_be_lost(header: impl Fn(&mut [u8])) {
    let (disk, table) = (MemFs::new(), Path::new("/000012.sst"));
    let content = pattern(9000, 5);
    write_pieces(&with_keys(Arc::new(disk.clone()), &[1]), table, &[&content]);
    let mut bytes = raw(&disk, table);
    header(&mut bytes);
    put_raw(&disk, table, &bytes);
    let fault = FaultFs::new(Arc::new(disk.clone()));
    let writes = Arc::new(Mutex::new(Vec::new()));
    let (found, under) = (Arc::clone(&writes), disk.clone());
    fault.on_op(move |op| {
        if op.kind == OpKind::Append {
            let bytes = raw(&under, Path::new("/000012.sst"));
            found.lock().unwrap().push((bytes, op.offset.unwrap() as usize, op.bytes as usize));
        }
    });
    rekey_directories(&with_keys(Arc::new(fault.clone()), &[2, 1]), &[Path::new("/")]).unwrap();
    fault.clear_hook();
    let writes = std::mem::take(&mut *writes.lock().unwrap());
    assert!(!writes.is_empty());
    for (round, (bytes, offset, len)) in writes.iter().enumerate() {
        for how in 0..3 {
            let left = with_destroyed(bytes, *offset, *len, how);
            let both = with_keys(Arc::new(left), &[2, 1]);
            let there = read(&both, table);
            assert!(there.is_ok_and(|there| there == content), "write {round} of {len} at {offset}");
            rekey_directories(&both, &[Path::new("/")]).unwrap();
            assert!(read(&both, table).unwrap() == content);
        }
    }
    assert!(read(&with_keys(Arc::new(disk), &[2]), table).unwrap() == content);
}

/// One slot of each header is intact while the other is written, in both rounds.
#[test]
fn a_rekeying_whose_writes_are_destroyed_leaves_an_intact_slot() {
    check_that_each_write_may_be_lost(|_| ());
    // A damaged slot is replaced, and the intact one is left alone.
    check_that_each_write_may_be_lost(|bytes| bytes[50] ^= 1);
    check_that_each_write_may_be_lost(|bytes| bytes[2048 + 50] ^= 1);
}

/// A slot under a key that nobody has is replaced, not the slot that opens the file.
#[test]
fn a_rekeying_replaces_the_slot_that_does_not_open() {
    let lost = MemFs::new();
    write_pieces(&with_keys(Arc::new(lost.clone()), &[9]), Path::new("/000012.sst"), &[b"other"]);
    let lost = raw(&lost, Path::new("/000012.sst"));
    for place in [0, 2048] {
        check_that_each_write_may_be_lost(|bytes| {
            bytes[place..place + 96].copy_from_slice(&lost[place..place + 96]);
        });
    }
    // The slot names the new key, but holds no key under it.
    let other = MemFs::new();
    write_pieces(&with_keys(Arc::new(other.clone()), &[2]), Path::new("/000012.sst"), &[b"other"]);
    let mut slot = HeaderSlot::decode(&raw(&other, Path::new("/000012.sst"))).unwrap().unwrap();
    slot.wrapped[0] ^= 1;
    for place in [0, 2048] {
        check_that_each_write_may_be_lost(|bytes| {
            bytes[place..place + 96].copy_from_slice(&slot.encode());
        });
    }
}

/// As an engine deletes and renames files while it has the database open.
#[test]
fn files_that_go_during_a_change_of_the_key_do_not_count_and_renamed_files_do() {
    for nth in 0..16 {
        let memory = MemFs::new();
        let paths = ["/db/000001.sst", "/db/000002.sst", "/db/000003.log"].map(Path::new);
        memory.create_dir_if_missing(Path::new("/db/archive")).unwrap();
        let old = with_keys(Arc::new(memory.clone()), &[1]);
        paths.iter().for_each(|path| write_pieces(&old, path, &[b"content"]));
        let archived = Path::new("/db/archive/000003.log");
        let disk = FaultFs::new(Arc::new(memory.clone()));
        let opened = AtomicU64::new(0);
        disk.on_op(move |op| {
            if op.kind == OpKind::Open && opened.fetch_add(1, Ordering::SeqCst) == nth {
                memory.delete_file(paths[1]).unwrap();
                memory.rename(paths[2], archived).unwrap();
            }
        });
        let new = with_keys(Arc::new(disk.clone()), &[2, 1]);
        let report = rekey_directories(&new, &[Path::new("/db")]).unwrap();
        disk.clear_hook();
        assert!(report.changed >= 2, "{nth}: {report:?}");
        let only_new = with_keys(Arc::new(disk), &[2]);
        assert_eq!(read(&only_new, paths[0]).unwrap(), b"content");
        let log = if only_new.file_exists(archived).unwrap() { archived } else { paths[2] };
        assert_eq!(read(&only_new, log).unwrap(), b"content", "{nth}");
    }
}

/// The file system below may hold the header of a new file in its buffer.
#[test]
fn the_header_of_an_unfinished_file_gets_the_new_key() {
    let temp = TempDir::new();
    let path = temp.path().join("000012.sst");
    let keys = Arc::new(Mutex::new(vec![key(1)]));
    let provider = keys.clone();
    let provider = Arc::new(KeyCallback(move || Ok(provider.lock().unwrap().clone())));
    let fs = EncryptedFs::new(Arc::new(PosixFileSystem), provider, EncryptionPolicy::default()).unwrap();
    let content = pattern(70_000, 1);
    let mut file = fs.new_writable_file(&path).unwrap();
    file.append(&content).unwrap();
    *keys.lock().unwrap() = vec![key(2), key(1)];
    fs.reload_keys().unwrap();
    rekey_directories(&fs, &[temp.path()]).unwrap();
    file.close().unwrap();
    *keys.lock().unwrap() = vec![key(2)];
    fs.reload_keys().unwrap();
    assert!(read(&fs, &path).unwrap() == content);
}

/// A call ends although each listing has new files.
#[test]
fn a_change_of_the_key_ends_beside_an_engine_that_makes_files() {
    let memory = MemFs::new();
    memory.create_dir_if_missing(Path::new("/db")).unwrap();
    write_pieces(&with_keys(Arc::new(memory.clone()), &[1]), Path::new("/db/000001.sst"), &[b"content"]);
    let disk = FaultFs::new(Arc::new(memory.clone()));
    let engine = with_keys(Arc::new(memory.clone()), &[2, 1]);
    let made = AtomicU64::new(10);
    disk.on_op(move |op| {
        if op.kind == OpKind::List && op.path == Path::new("/db") {
            let number = made.fetch_add(1, Ordering::SeqCst);
            write_pieces(&engine, Path::new(&format!("/db/{number:06}.sst")), &[b"new"]);
        }
    });
    let report = rekey_directories(&with_keys(Arc::new(disk.clone()), &[2, 1]), &[Path::new("/db")]).unwrap();
    disk.clear_hook();
    assert!(report.changed == 1 && report.kept > 0, "{report:?}");
    let fs = with_keys(Arc::new(memory), &[2]);
    assert_eq!(read(&fs, Path::new("/db/000001.sst")).unwrap(), b"content");
}

/// A log may be recycled between the open for the new header and the write. Each of the two rounds
/// writes once.
#[test]
fn a_recycled_log_keeps_the_key_of_its_new_content() {
    let (old, new) = (Path::new("/db/000005.log"), Path::new("/db/000009.log"));
    for nth in 0..2 {
        let memory = MemFs::new();
        memory.create_dir_if_missing(Path::new("/db")).unwrap();
        write_pieces(&with_keys(Arc::new(memory.clone()), &[1]), old, &[b"old"]);
        let disk = FaultFs::new(Arc::new(memory.clone()));
        let appended = AtomicU64::new(0);
        let engine = with_keys(Arc::new(memory), &[2, 1]);
        disk.on_op(move |op| {
            if op.kind == OpKind::Append && appended.fetch_add(1, Ordering::SeqCst) == nth {
                let mut log = engine.reuse_writable_file(new, old).unwrap();
                log.append(b"new").unwrap();
                log.sync().unwrap();
            }
        });
        let fs = with_keys(Arc::new(disk.clone()), &[2, 1]);
        rekey_directories(&fs, &[Path::new("/db")]).unwrap();
        disk.clear_hook();
        assert_eq!(read(&with_keys(Arc::new(disk), &[2]), new).unwrap(), b"new", "append {nth}");
    }
}
