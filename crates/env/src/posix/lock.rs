//! The `LOCK` file: one process, one holder within it.
//!
//! An `fcntl` write lock on the whole file keeps other processes out, RocksDB's included. It says nothing within
//! one process, and closing *any* descriptor of the file drops it; so a table of this process comes first, keyed
//! by path and by inode, and is asked before the file is opened.   Source: RocksDB `env/fs_posix.cc` (messages).

use super::{failed, open};
use crate::clock::{Clock, SystemClock};
use crate::fs::FileLock;
use crate::system::thread_id;
use esker_base::sync::process::Mutex;
use esker_base::{Error, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::{Errno, retry_on_intr};
use std::path::{Path, PathBuf};

/// A lock of this process.
struct Held {
    path: PathBuf,
    inode: (u64, u64),
    since_seconds: u64,
    thread_id: u64,
}

/// Guards the whole of taking and giving back: two threads never race for one file.
static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

/// Keeps the file locked until it is dropped.
#[derive(Debug)]
pub(super) struct PosixFileLock {
    fd: Option<OwnedFd>,
    inode: (u64, u64),
}

impl FileLock for PosixFileLock {}

impl Drop for PosixFileLock {
    fn drop(&mut self) {
        let mut held = HELD.lock();
        // Closing unlocks; it happens before the table lets anybody of this process try again.
        self.fd = None;
        held.retain(|h| h.inode != self.inode);
    }
}

/// Creates the file if it is missing and locks it, without waiting.
/// # Errors
/// `IoError`, retryable when somebody else has the lock: another process ("While lock file: …: Resource
/// temporarily unavailable") or this one ("lock hold by current process …").
pub(super) fn lock_file(path: &Path) -> Result<PosixFileLock> {
    let absolute = std::path::absolute(path).map_err(|e| failed("lock file", path, e))?;
    let mut held = HELD.lock();
    loop {
        let there = inode_at(path)?;
        if let Some(holder) = held.iter().find(|h| h.path == absolute || Some(h.inode) == there) {
            return Err(held_here(path, holder));
        }
        let fd = open("open a file for lock", path, OFlags::RDWR | OFlags::CREATE)?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| failed("fstat", path, e))?;
        let inode = (stat.st_dev, stat.st_ino);
        retry_on_intr(|| rustix::fs::fcntl_lock(&fd, FlockOperation::NonBlockingLockExclusive))
            .map_err(|e| failed("lock file", path, if e == Errno::ACCESS { Errno::AGAIN } else { e }))?;
        if inode_at(path)? != Some(inode) {
            // Somebody removed the file between our opening and locking it: what we have guards nothing.
            continue;
        }
        held.push(Held {
            path: absolute,
            inode,
            since_seconds: SystemClock.now_seconds(),
            thread_id: thread_id(),
        });
        return Ok(PosixFileLock { fd: Some(fd), inode });
    }
}

fn inode_at(path: &Path) -> Result<Option<(u64, u64)>> {
    match rustix::fs::stat(path) {
        Ok(stat) => Ok(Some((stat.st_dev, stat.st_ino))),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(failed("stat", path, e)),
    }
}

fn held_here(path: &Path, holder: &Held) -> Error {
    let (since, thread) = (holder.since_seconds, holder.thread_id);
    Error::io(format!(
        "lock hold by current process, acquire time {since} acquiring thread {thread}: {}: No locks available",
        path.display()
    ))
    .with_retryable(true)
}
