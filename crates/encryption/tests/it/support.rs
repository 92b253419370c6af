//! Encrypted file systems for the tests.

use esker_encryption::{EncryptedFs, EncryptionPolicy, KeyCallback, MasterKey};
use esker_env::{FileSystem, WritableFile};
use std::path::Path;
use std::sync::Arc;

pub(crate) fn key(n: u8) -> MasterKey {
    MasterKey::from_bytes([n; 32])
}

/// The files of `inner`, under these keys.
pub(crate) fn with_keys(inner: Arc<dyn FileSystem>, keys: &[u8]) -> EncryptedFs {
    let keys: Vec<MasterKey> = keys.iter().map(|&n| key(n)).collect();
    let provider = Arc::new(KeyCallback(move || Ok(keys.clone())));
    EncryptedFs::new(inner, provider, EncryptionPolicy::default()).unwrap()
}

pub(crate) fn encrypted(inner: impl FileSystem + 'static) -> EncryptedFs {
    with_keys(Arc::new(inner), &[1])
}

/// Makes a file of these pieces, with a flush after each.
pub(crate) fn write_pieces(fs: &dyn FileSystem, path: &Path, pieces: &[&[u8]]) {
    let mut file: Box<dyn WritableFile> = fs.new_writable_file(path).unwrap();
    for piece in pieces {
        file.append(piece).unwrap();
        file.flush().unwrap();
    }
    file.close().unwrap();
}

/// All bytes of a file.
/// # Errors
/// Those of the open and the reads.
pub(crate) fn read(fs: &dyn FileSystem, path: &Path) -> esker_base::Result<Vec<u8>> {
    let mut file = fs.new_sequential_file(path)?;
    let (mut all, mut buf) = (Vec::new(), [0; 7000]);
    loop {
        match file.read(&mut buf)? {
            0 => return Ok(all),
            n => all.extend_from_slice(&buf[..n]),
        }
    }
}

/// The bytes as the file system below has them.
pub(crate) fn raw(fs: &dyn FileSystem, path: &Path) -> Vec<u8> {
    read(fs, path).unwrap()
}

pub(crate) fn put_raw(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) {
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

pub(crate) fn pattern(n: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; n];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}
