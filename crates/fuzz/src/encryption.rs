//! Decodes arbitrary bytes as headers, frame heads and encrypted files, and reads changed encrypted
//! files.
//!
//! Laws: decoded bytes encode to the same bytes. A read of a changed file gives the content or an
//! error. A read of a changed log may also lose a part of the content.

use esker_encryption::{EncryptedFs, EncryptionPolicy, KeyCallback, MasterKey};
use esker_env::{FileSystem, MemFs};
use esker_format::encryption::{FrameHead, HEAD_BYTES, HeaderSlot, SLOT_BYTES, decode_header, is_encrypted};
use std::path::Path;
use std::sync::Arc;

/// Number of bytes of content in a changed file: more than two pages.
const CONTENT_BYTES: usize = 9000;

/// Runs one input.
pub fn run(data: &[u8]) {
    if let Some(head) = FrameHead::decode(data) {
        assert_eq!(head.encode(), data[..HEAD_BYTES]);
    }
    if let Ok(Some(slot)) = HeaderSlot::decode(data) {
        assert_eq!(slot.encode(), data[..SLOT_BYTES]);
        assert!(is_encrypted(data));
    }
    _ = decode_header(data);
    for path in ["/000012.sst", "/000004.log"] {
        changed_file(Path::new(path), data);
        any_file(Path::new(path), data);
    }
}

fn encrypted(disk: &MemFs) -> EncryptedFs {
    let provider = KeyCallback(|| Ok(vec![MasterKey::from_bytes([7; 32])]));
    EncryptedFs::new(Arc::new(disk.clone()), Arc::new(provider), EncryptionPolicy::default()).unwrap()
}

fn write(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) {
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

fn read(fs: &dyn FileSystem, path: &Path) -> esker_base::Result<Vec<u8>> {
    let mut bytes = vec![0; 1 << 20];
    let read = fs.new_sequential_file(path)?.read(&mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Reads the input as an encrypted file. An empty input reads as an empty file. A read of any other
/// input only has to end.
fn any_file(path: &Path, data: &[u8]) {
    let disk = MemFs::new();
    write(&disk, path, data);
    assert!(read(&encrypted(&disk), path).is_ok_and(|there| there.is_empty()) || !data.is_empty());
}

/// Changes an encrypted file and reads it. The read gives the content or an error. A read of a log
/// may also give a shorter content, and bytes 0xFF in place of damaged frames.
///
/// Four bytes of the input are one change. The first three are a place. A fourth byte of zero cuts
/// the file there; any other is XORed with the byte at that place.
fn changed_file(path: &Path, data: &[u8]) {
    let (disk, content) = (MemFs::new(), vec![0x61; CONTENT_BYTES]);
    write(&encrypted(&disk), path, &content);
    let mut bytes = read(&disk, path).unwrap();
    for change in data.chunks_exact(4) {
        let place = usize::from(change[0]) << 16 | usize::from(change[1]) << 8 | usize::from(change[2]);
        match change[3] {
            0 => bytes.truncate(place.max(1)),
            xor => {
                let place = place % bytes.len();
                bytes[place] ^= xor;
            }
        }
    }
    write(&disk, path, &bytes);
    let is_log = path.extension().is_some_and(|extension| extension == "log");
    match read(&encrypted(&disk), path) {
        Ok(there) if is_log => {
            assert!(there.len() <= content.len() && there.iter().all(|byte| matches!(byte, 0x61 | 0xFF)));
        }
        Ok(there) => assert_eq!(there, content),
        Err(e) => assert!(e.message().starts_with(&*path.to_string_lossy()), "{e}"),
    }
}
