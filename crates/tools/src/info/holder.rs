//! The process that has a database open: the holder of its `LOCK`.
//!
//! In: the directory. Out: process ids and programs. Nothing is locked.
//! Source: `/proc/locks` (proc(5)), which lists the locks of Linux with device, inode and process.
//! It shows no process for locks of open file descriptions, which Esker takes: Esker writes its
//! process id into `LOCK`. RocksDB takes record locks, whose process is listed.
//!
//! Without `/proc/locks`, and on a host that is not this machine, holders are unknown. A process in
//! another container may be listed as 0, or not at all.

use super::model::{DirectoryLock, LockHolder};
use crate::host::{FileLines, Host};
use esker::internals::format::file_name::lock_file_name;
use std::path::Path;

const LOCKS: &str = "/proc/locks";
/// Most bytes of a line that counts.
const LINE_BYTES: usize = 256;

/// Device and inode, as in `/proc/locks`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FileIdentity {
    major: u64,
    minor: u64,
    inode: u64,
}

pub(crate) fn lock_of(host: &Host, dir: &Path) -> DirectoryLock {
    let path = lock_file_name(dir);
    match (host.is_machine(), host.check_regular(&path)) {
        (true, Ok(())) => holders(host, &path)
            .map_or_else(DirectoryLock::default, |holders| DirectoryLock { is_known: true, holders }),
        _ => DirectoryLock::default(),
    }
}

/// The holders of the lock of this file; `None` if the system does not tell.
fn holders(host: &Host, path: &Path) -> Option<Vec<LockHolder>> {
    let mut lines = FileLines::open(host.plain_fs(), Path::new(LOCKS)).ok()?;
    lines.limit(LINE_BYTES);
    let Some(identity) = identity(path) else { return Some(Vec::new()) };
    let mut holders = Vec::new();
    while let Some((_, line)) = lines.next_line().ok()? {
        let Some(pid) = lock_line(&line, identity) else { continue };
        let pid = pid.or_else(|| first_line(host, path)?.trim().parse().ok()).unwrap_or(0);
        let program = first_line(host, Path::new(&format!("/proc/{pid}/comm")));
        let holder = LockHolder { pid, program };
        if !holders.contains(&holder) {
            holders.push(holder);
        }
    }
    Some(holders)
}

/// The process of a write lock on the file: `Some(None)` for a lock of an open file description.
/// `None` for other lines. A line is `1: POSIX  ADVISORY  WRITE 4242 fd:01:131 0 EOF`; a process
/// that waits for a lock has `->` behind the number.
fn lock_line(line: &str, of: FileIdentity) -> Option<Option<u32>> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let kind = words.next()?;
    if !matches!(kind, "POSIX" | "OFDLCK") || words.nth(1)? != "WRITE" {
        return None;
    }
    let pid: i64 = words.next()?.parse().ok()?;
    let mut place = words.next()?.splitn(3, ':');
    let mut number = |radix| u64::from_str_radix(place.next()?, radix).ok();
    let found = FileIdentity { major: number(16)?, minor: number(16)?, inode: number(10)? };
    (found == of).then(|| u32::try_from(pid).ok().filter(|pid| *pid > 0))
}

/// The first line of a small file of this machine.
fn first_line(host: &Host, path: &Path) -> Option<String> {
    let mut lines = FileLines::open(host.plain_fs(), path).ok()?;
    lines.limit(LINE_BYTES);
    let (_, line) = lines.next_line().ok()??;
    Some(line.trim().to_owned()).filter(|line| !line.is_empty())
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<FileIdentity> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    let device = metadata.dev();
    // The kernel's packing of major and minor number in `st_dev`.
    let major = ((device >> 8) & 0xFFF) | ((device >> 32) & !0xFFF);
    let minor = (device & 0xFF) | ((device >> 12) & 0xFFFF_FF00);
    Some(FileIdentity { major, minor, inode: metadata.ino() })
}

#[cfg(not(unix))]
fn identity(_path: &Path) -> Option<FileIdentity> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_name_the_holder() {
        let file = FileIdentity { major: 0xfd, minor: 1, inode: 131 };
        assert_eq!(lock_line("1: POSIX  ADVISORY  WRITE 4242 fd:01:131 0 EOF", file), Some(Some(4242)));
        assert_eq!(lock_line("2: OFDLCK ADVISORY  WRITE -1 fd:01:131 0 EOF", file), Some(None));
        for other in [
            "1: POSIX  ADVISORY  WRITE 4242 fd:01:132 0 EOF",
            "1: POSIX  ADVISORY  WRITE 4242 fd:02:131 0 EOF",
            "1: POSIX  ADVISORY  READ 4242 fd:01:131 0 EOF",
            "1: -> POSIX  ADVISORY  WRITE 4242 fd:01:131 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 4242 fd:01:131 0 EOF",
            "1: POSIX ADVISORY WRITE",
            "",
        ] {
            assert_eq!(lock_line(other, file), None, "{other}");
        }
    }
}
