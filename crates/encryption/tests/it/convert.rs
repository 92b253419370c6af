//! Directories that are encrypted, decrypted and rekeyed, and killed at any point meanwhile.

use super::support::{pattern, put_raw, raw, read, with_keys, write_pieces};
use esker_base::Result;
use esker_encryption::{
    CONVERSION_MARKER, ConversionReport, EncryptedFs, decrypt_directories, encrypt_directories,
    rekey_directories,
};
use esker_env::{CrashChoices, CrashFs, FaultFs, FileSystem};
use std::path::Path;
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
