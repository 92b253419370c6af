//! Master keys: from files and variables, and several at once.

use super::support::{key, put_raw, read, with_keys, write_pieces};
use esker_encryption::{EncryptedFs, EncryptionPolicy, KeyFile, KeyProvider, KeyVariable};
use esker_env::{FileSystem, MemFs};
use std::path::Path;
use std::sync::Arc;

const TABLE: &str = "/000012.sst";

#[test]
fn new_files_use_the_first_key_and_old_ones_are_read() {
    let disk = MemFs::new();
    write_pieces(&with_keys(Arc::new(disk.clone()), &[1]), Path::new(TABLE), &[b"old"]);
    let both = with_keys(Arc::new(disk.clone()), &[2, 1]);
    assert_eq!(read(&both, Path::new(TABLE)).unwrap(), b"old");
    write_pieces(&both, Path::new("/000013.sst"), &[b"new"]);
    let second = with_keys(Arc::new(disk), &[2]);
    assert_eq!(read(&second, Path::new("/000013.sst")).unwrap(), b"new");
    assert!(read(&second, Path::new(TABLE)).is_err());
}

/// A key that is added to the file while the file system is open is found at its first use.
#[test]
fn a_key_file_is_read_again_for_an_unknown_key() {
    let disk: Arc<MemFs> = Arc::new(MemFs::new());
    let path = Path::new("/keys");
    put_raw(&*disk, path, format!("{}\n", key(1).to_hex()).as_bytes());
    let provider = Arc::new(KeyFile::new(disk.clone(), path));
    let fs = EncryptedFs::new(disk.clone(), provider, EncryptionPolicy::default()).unwrap();
    write_pieces(&with_keys(disk.clone(), &[2]), Path::new(TABLE), &[b"under key 2"]);
    let e = read(&fs, Path::new(TABLE)).unwrap_err().to_string();
    assert!(e.contains(&format!("but the key file /keys gives {}", key(1).id())), "{e}");
    put_raw(&*disk, path, format!("{}\n{}\n", key(1).to_hex(), key(2).to_hex()).as_bytes());
    assert_eq!(read(&fs, Path::new(TABLE)).unwrap(), b"under key 2");
}

#[test]
fn a_missing_key_names_its_place() {
    let disk: Arc<MemFs> = Arc::new(MemFs::new());
    put_raw(&*disk, Path::new("/keys"), b"# no key yet\n");
    let file = KeyFile::new(disk.clone(), Path::new("/keys"));
    assert_eq!(file.keys().unwrap_err().to_string(), "Invalid argument: key file /keys: no master key");
    let e = KeyVariable::new("ESKER_NO_SUCH_KEY").keys().unwrap_err().to_string();
    assert_eq!(e, "Invalid argument: environment variable ESKER_NO_SUCH_KEY is not set");
    assert!(KeyFile::new(disk, Path::new("/missing")).keys().is_err());
}

/// A file that is too long is refused: its keys behind the limit would be missing.
#[test]
fn a_key_file_beyond_the_limit_is_refused() {
    let disk: Arc<MemFs> = Arc::new(MemFs::new());
    let path = Path::new("/keys");
    let text = |bytes: usize| {
        let keys = format!("{}\n{}\n", key(2).to_hex(), key(1).to_hex());
        format!("#{}\n{keys}", "x".repeat(bytes - keys.len() - 2))
    };
    put_raw(&*disk, path, text(64 << 10).as_bytes());
    let file = KeyFile::new(disk.clone(), path);
    assert_eq!(file.keys().unwrap(), [key(2), key(1)]);
    for bytes in [(64 << 10) + 1, (64 << 10) + 65, 1 << 20] {
        put_raw(&*disk, path, text(bytes).as_bytes());
        let e = file.keys().unwrap_err().to_string();
        assert_eq!(e, "Invalid argument: key file /keys: longer than the limit of 65536 bytes");
    }
}

/// The check reads the database's MANIFEST, and so finds a wrong key before anything is changed.
#[test]
fn the_key_is_checked_before_directories_are_held() {
    let disk: Arc<MemFs> = Arc::new(MemFs::new());
    let fs = with_keys(disk.clone(), &[1]);
    assert!(fs.hold_directories(&[Path::new("/")]).is_ok());
    put_raw(&*disk, Path::new("/CURRENT"), b"MANIFEST-000005\n");
    write_pieces(&fs, Path::new("/MANIFEST-000005"), &[b"edits"]);
    assert!(fs.hold_directories(&[Path::new("/")]).is_ok());
    let e = with_keys(disk, &[2]).hold_directories(&[Path::new("/")]).unwrap_err().to_string();
    assert!(e.starts_with("Invalid argument: /MANIFEST-000005: encrypted under master key "), "{e}");
}
