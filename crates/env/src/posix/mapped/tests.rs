use crate::fs::{FileSystem, WritableFile};
use crate::posix::PosixFileSystem;
use rustix::fd::AsRawFd;
use rustix::fs::{MemfdFlags, SealFlags};
use std::path::PathBuf;

const BLOCK: usize = 32 << 10;

fn temp_file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("esker-mapped-{name}-{}", std::process::id()))
}

/// A private file of the memory file system, and a path to it.
fn memory_file() -> (rustix::fd::OwnedFd, PathBuf) {
    let fd = rustix::fs::memfd_create("esker", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    (fd, path)
}

fn in_place(path: &std::path::Path) -> Box<dyn WritableFile> {
    let mut file = PosixFileSystem.new_writable_file(path).unwrap();
    file.append_in_place(BLOCK as u64).unwrap();
    file
}

/// `appended`, and zeros up to the end of its block.
fn with_zeros(appended: &[u8]) -> Vec<u8> {
    let mut all = appended.to_vec();
    all.resize((appended.len() / BLOCK + 1) * BLOCK, 0);
    all
}

/// Whether this machine can: the kernel brings pages in on demand since 5.14.
fn can_map() -> bool {
    let (_fd, path) = memory_file();
    let mut file = in_place(&path);
    file.append(b"more than eight bytes").unwrap();
    let longer = std::fs::metadata(&path).unwrap().len() > 21;
    if !longer {
        println!("this machine cannot map the end of a file: skipped");
    }
    longer
}

#[test]
fn a_file_reaches_to_the_end_of_its_block_and_no_further() {
    if !can_map() {
        return;
    }
    let (_fd, path) = memory_file();
    let mut file = in_place(&path);
    assert_eq!(std::fs::read(&path).unwrap(), b"", "an empty log stays empty");
    let mut expected = Vec::new();
    for (i, len) in
        [100, 8, 1, 7, 9, BLOCK - 200, 74, 3, 500, 3 * BLOCK, 11, 5 << 20, 40].into_iter().enumerate()
    {
        let data = vec![i as u8 + 1; len];
        file.append(&data).unwrap();
        expected.extend_from_slice(&data);
        assert_eq!(file.file_size(), expected.len() as u64);
        let there = std::fs::read(&path).unwrap();
        if expected.len() % BLOCK == 0 && there.len() == expected.len() {
            assert!(there == expected, "append {i}");
        } else {
            assert!(
                there == with_zeros(&expected),
                "append {i}: {} bytes of {}",
                there.len(),
                expected.len()
            );
        }
    }
    file.sync().unwrap();
    file.close().unwrap();
    assert!(std::fs::read(&path).unwrap() == expected, "closing truncates the file");
    assert!(file.append(b"more than eight bytes").is_err());
}

#[test]
fn a_file_that_cannot_grow_is_an_error_and_keeps_what_it_has() {
    if !can_map() {
        return;
    }
    let (fd, path) = memory_file();
    let mut file = in_place(&path);
    let record = [7; 1000];
    file.append(&record).unwrap();
    rustix::fs::fcntl_add_seals(&fd, SealFlags::GROW).unwrap();
    let mut appended = 1;
    let error = loop {
        match file.append(&record) {
            Ok(()) => appended += 1,
            Err(e) => break e,
        }
    };
    assert_eq!(appended, BLOCK / record.len(), "the block takes as many records as fit");
    assert!(error.message().contains("pwrite"), "{error}");
    assert!(file.append(&record).is_err() && file.append(b"x").is_err());
    let there = std::fs::read(&path).unwrap();
    assert!(there.iter().all(|b| *b == 7) && there.len() == BLOCK);
}

#[test]
fn an_old_log_under_a_new_one_is_not_mapped() {
    let (old, new) = (temp_file("old"), temp_file("new"));
    std::fs::write(&old, vec![9; 2 * BLOCK]).unwrap();
    let mut file = PosixFileSystem.reuse_writable_file(&new, &old).unwrap();
    file.append_in_place(BLOCK as u64).unwrap();
    file.append(&[1; 100]).unwrap();
    file.flush().unwrap();
    let there = std::fs::read(&new).unwrap();
    drop(file);
    std::fs::remove_file(&new).unwrap();
    assert!(there.len() == 2 * BLOCK && there[..100] == [1; 100] && there[100..].iter().all(|b| *b == 9));
}

#[test]
fn cutting_ends_it_and_appends_go_on() {
    let path = temp_file("cut");
    let mut file = in_place(&path);
    file.append(&[1; 300]).unwrap();
    file.truncate(200).unwrap();
    assert_eq!((file.file_size(), std::fs::metadata(&path).unwrap().len()), (200, 200));
    file.append(&[2; 10]).unwrap();
    drop(file);
    let there = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(there.len() == 210 && there[..200] == [1; 200] && there[200..] == [2; 10]);
}
