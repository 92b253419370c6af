//! Errors of the real file system on a full disk.

use esker_base::SubCode;
use esker_env::{FileSystem, PosixFileSystem};
use std::path::Path;

#[test]
fn no_space_is_reported_with_path_and_offset_and_the_size_stays_true() {
    let path = Path::new("/dev/full");
    if !path.exists() {
        return println!("no /dev/full here: skipped");
    }
    let mut file = PosixFileSystem.new_writable_file(path).unwrap();
    file.append(b"collected").unwrap();
    let e = file.flush().unwrap_err();
    assert_eq!((e.subcode(), e.is_retryable()), (SubCode::NoSpace, true));
    assert!(e.message().starts_with("While pwrite: /dev/full at offset 0: No space left on device"), "{e}");
    // Bytes that could not be written stay buffered and can be tried again any number of times.
    assert_eq!(file.file_size(), 9);
    assert_eq!(file.sync().unwrap_err().subcode(), SubCode::NoSpace);
    assert_eq!(file.append(&vec![0; 1 << 20]).unwrap_err().subcode(), SubCode::NoSpace);
    assert_eq!(file.close().unwrap_err().subcode(), SubCode::NoSpace);
    assert_eq!(file.file_size(), 9);
}
