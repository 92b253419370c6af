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

/// Whether the kernel brings pages in on demand, as it does since Linux 5.14.
fn can_map() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_str().unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
    let version = (numbers.next().unwrap(), numbers.next().unwrap());
    let can = version >= (5, 14);
    if !can {
        println!("Linux {release} cannot bring pages in on demand: skipped");
    }
    can
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

/// The values of a field of `/proc/self/smaps` for each mapping of a file of `memory_file`.
fn of_mappings(field: &str) -> Vec<String> {
    let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut found = Vec::new();
    let mut is_ours = false;
    for line in mappings.lines() {
        match line.split_once(char::is_whitespace) {
            Some((name, value)) if name == field && is_ours => found.push(value.trim().to_owned()),
            Some((name, _)) if !name.ends_with(':') => is_ours = line.contains("/memfd:esker"),
            _ => {}
        }
    }
    found
}

#[test]
fn mapped_ends_take_little_memory_and_faults_read_nothing_ahead() {
    if !can_map() {
        return;
    }
    let (_fd, path) = memory_file();
    let mut file = in_place(&path);
    for _ in 0..2000 {
        file.append(&[1; 3000]).unwrap();
    }
    let (sizes, flags) = (of_mappings("Size:"), of_mappings("VmFlags:"));
    assert!(!sizes.is_empty() && sizes.iter().all(|size| size == "256 kB"), "{sizes:?}");
    assert!(
        !flags.is_empty() && flags.iter().all(|all| all.split(' ').any(|flag| flag == "rr")),
        "{flags:?}"
    );
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
