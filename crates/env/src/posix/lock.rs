//! The `LOCK` file: at most one process has it, and one holder within the process.
//!
//! An open-file-description lock (`F_OFD_SETLK`) on the whole file excludes other processes and
//! other descriptors of this process. It also excludes RocksDB, which takes `fcntl` record locks.
//! Unlike a record lock, it stays when this process opens and closes the file elsewhere. Systems
//! without it get a record lock. A table of this process lists its locks. Sources:
//! `fcntl(2)`; RocksDB `env/fs_posix.cc` (messages).
//!
//! Invariants
//!  1. When a lock is taken, its path names the locked file.
//!  2. A forked child shares the description. Its copy of the descriptor is closed before `fork`
//!     returns, and a child never unlocks: only the process that took the lock ends it.
//!  3. The holder writes its process number into the file, because the kernel does not report the
//!     owner of a description. RocksDB neither reads nor writes the file.

use super::os::{GET_LOCK, SET_LOCK};
use super::{At, failed, open};
use crate::clock::{Clock, SystemClock};
use crate::fs::FileLock;
use crate::system::{process_id, thread_id};
use esker_base::sync::fork::{PerProcess, ProcessOwner};
use esker_base::sync::process::Mutex;
use esker_base::sync::process::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
use esker_base::{Error, Result};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::{fmt, ptr};

/// Most bytes read from a `LOCK` file.
const MOST_READ: usize = 32;

/// A lock of this process.
struct HeldLock {
    path: PathBuf,
    inode: Inode,
    since_seconds: u64,
    thread_id: u64,
}

/// Device and number.
pub(super) type Inode = (u64, u64);

/// The locks of this process. Its mutex is held while a file is locked or unlocked, so that no two
/// threads race for one file. A forked child holds no locks.
static HELD: PerProcess<Mutex<Vec<HeldLock>>> = PerProcess::new();

fn held() -> &'static Mutex<Vec<HeldLock>> {
    HELD.get(|_| Mutex::new(Vec::new()))
}

/// Keeps the file locked until it is dropped.
#[derive(Debug)]
pub(super) struct PosixFileLock {
    owner: ProcessOwner,
    descriptor: Option<Descriptor>,
    inode: Inode,
}

impl FileLock for PosixFileLock {}

impl PosixFileLock {
    /// Device and number of the locked file.
    pub(super) fn inode(&self) -> Inode {
        self.inode
    }
}

impl Drop for PosixFileLock {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            // In a child the copy is already closed, and another file may have its number.
            std::mem::forget(self.descriptor.take());
            return;
        }
        let mut held = held().lock();
        // Unlocks before another thread of this process can find the file free in the table.
        drop(self.descriptor.take());
        held.retain(|h| h.inode != self.inode);
    }
}

/// Creates the file if it is missing and locks it, without waiting.
/// # Errors
/// `IoError`, retryable, if another process ("While lock file: …: Resource temporarily
/// unavailable") or this one ("lock hold by current process …") has the lock.
pub(super) fn lock_file(at: &At<'_>) -> Result<PosixFileLock> {
    let path = at.path;
    let absolute = std::path::absolute(path).map_err(|e| failed("lock file", path, e))?;
    let owner = ProcessOwner::here();
    let mut held = held().lock();
    loop {
        // If this fails, the open below fails too, and its error names the reason.
        let there = inode_at(at).unwrap_or_default();
        if let Some(holder) = held.iter().find(|h| h.path == absolute || Some(h.inode) == there) {
            return Err(held_here(path, holder));
        }
        let fd = open("open a file for lock", at, OFlags::RDWR | OFlags::CREATE)?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| failed("fstat", path, e))?;
        let inode = inode_of(&stat);
        let descriptor = Descriptor::new(fd);
        descriptor.lock().map_err(|e| refused(path, descriptor.fd(), e))?;
        if inode_at(at).map_err(|e| failed("stat", path, e))? != Some(inode) {
            // The file was removed between open and lock: this lock guards nothing.
            continue;
        }
        sign(descriptor.fd());
        held.push(HeldLock {
            path: absolute,
            inode,
            since_seconds: SystemClock.now_seconds(),
            thread_id: thread_id(),
        });
        return Ok(PosixFileLock { owner, descriptor: Some(descriptor), inode });
    }
}

#[allow(clippy::unnecessary_cast, reason = "the types of the fields differ between systems")]
fn inode_of(stat: &Stat) -> Inode {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// The file at this place, if there is one.
pub(super) fn inode_at(at: &At<'_>) -> Result<Option<Inode>, Errno> {
    match at.stat() {
        Ok(stat) => Ok(Some(inode_of(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Writes this process's number into the file. Only messages need it, so a full disk does not
/// prevent the lock.
fn sign(fd: BorrowedFd<'_>) {
    let text = format!("{}\n", process_id());
    let written = rustix::fs::ftruncate(fd, 0).and_then(|()| rustix::io::pwrite(fd, text.as_bytes(), 0));
    written.unwrap_or_default();
}

/// The process that holds the lock, if it can be determined.
fn holder(fd: BorrowedFd<'_>) -> Option<u32> {
    let mut asked = whole_file(WRITE_LOCK);
    // SAFETY: the descriptor is open, and the kernel fills in `asked`, a live local value.
    let result = unsafe { libc::fcntl(fd.as_raw_fd(), GET_LOCK, &raw mut asked) };
    if result == 0 && asked.l_pid > 0 {
        // The lock is a record lock, perhaps of RocksDB.
        return u32::try_from(asked.l_pid).ok();
    }
    let mut text = [0; MOST_READ];
    let length = rustix::io::pread(fd, &mut text[..], 0).ok()?;
    std::str::from_utf8(&text[..length]).ok()?.split_whitespace().next()?.parse().ok()
}

/// The error for a lock that could not be taken.
#[cold]
fn refused(path: &Path, fd: BorrowedFd<'_>, e: Errno) -> Error {
    let is_held = matches!(e, Errno::ACCESS | Errno::AGAIN);
    let cause = std::io::Error::from(if is_held { Errno::AGAIN } else { e });
    let Some(process) = holder(fd).filter(|_| is_held) else { return failed("lock file", path, cause) };
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    let name = if name.is_empty() { String::new() } else { format!(" ({})", name.trim()) };
    let path = path.display();
    Error::io(format!("While lock file: {path}: {cause}: process {process}{name} holds it"))
        .with_retryable(true)
}

#[cold]
fn held_here(path: &Path, holder: &HeldLock) -> Error {
    let (since, thread) = (holder.since_seconds, holder.thread_id);
    Error::io(format!(
        "lock hold by current process, acquire time {since} acquiring thread {thread}: {}: No locks available: it is open \
         in this process, or an iterator, snapshot or transaction of it is still alive",
        path.display()
    ))
    .with_retryable(true)
}

/// The error for a holder whose path no longer names the locked file.
#[cold]
pub(super) fn replaced(path: &Path) -> Error {
    Error::io(format!(
        "{}: the lock file of this process is no longer at its path: the directory was emptied or replaced, and may \
         belong to another process; nothing is written to it",
        path.display()
    ))
}

const WRITE_LOCK: libc::c_short = libc::F_WRLCK as libc::c_short;
const UNLOCK: libc::c_short = libc::F_UNLCK as libc::c_short;

fn whole_file(kind: libc::c_short) -> libc::flock {
    // SAFETY: the structure consists of numbers, for which zero is valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

fn set_lock(fd: BorrowedFd<'_>, command: libc::c_int, kind: libc::c_short) -> Result<(), Errno> {
    let lock = whole_file(kind);
    rustix::io::retry_on_intr(|| {
        // SAFETY: the descriptor is open and `lock` is a live value, which the kernel reads.
        let result = unsafe { libc::fcntl(fd.as_raw_fd(), command, &raw const lock) };
        if result == 0 { Ok(()) } else { Err(last_error()) }
    })
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// A descriptor that forked children close.
struct Descriptor {
    fd: Option<OwnedFd>,
    place: &'static Place,
}

/// A slot with the number of a descriptor that the fork handler closes in children. Slots are
/// reused and never freed.
struct Place {
    /// The descriptor; −1: the slot is free.
    fd: AtomicI32,
    next: AtomicPtr<Place>,
}

static PLACES: AtomicPtr<Place> = AtomicPtr::new(ptr::null_mut());
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

fn places() -> impl Iterator<Item = &'static Place> {
    // SAFETY: the pointer is null or points to a leaked box, which is never freed.
    let at = |pointer: &AtomicPtr<Place>| unsafe { pointer.load(Ordering::Acquire).as_ref() };
    std::iter::successors(at(&PLACES), move |place| at(&place.next))
}

/// In a forked child: closes the child's copy of every lock's descriptor. Calls only `close`.
extern "C" fn close_all() {
    for place in places() {
        let fd = place.fd.swap(-1, Ordering::Relaxed);
        if fd >= 0 {
            // SAFETY: this is the child's copy of a descriptor; nothing in the child uses it
            // (`PosixFileLock::drop`).
            unsafe { libc::close(fd) };
        }
    }
}

impl Descriptor {
    fn new(fd: OwnedFd) -> Descriptor {
        if !IS_WATCHED.swap(true, Ordering::Relaxed) {
            // SAFETY: the handler lives as long as the process and makes only calls that are
            // allowed in a child of a process with threads. If `pthread_atfork` finds no memory,
            // children keep their copies of descriptors until they end, which loses nothing.
            unsafe { libc::pthread_atfork(None, None, Some(close_all)) };
        }
        let number = fd.as_raw_fd();
        let taken = places().find(|place| {
            place.fd.compare_exchange(-1, number, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        let place = taken.unwrap_or_else(|| {
            let place = Place { fd: AtomicI32::new(number), next: AtomicPtr::new(ptr::null_mut()) };
            let place: &'static mut Place = Box::leak(Box::new(place));
            // The table's lock is held, so no other thread inserts.
            *place.next.get_mut() = PLACES.load(Ordering::Relaxed);
            let place: *mut Place = place;
            PLACES.store(place, Ordering::Release);
            // SAFETY: a leaked box, shared from now on.
            unsafe { &*place }
        });
        Descriptor { fd: Some(fd), place }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("only the drop takes the value out").as_fd()
    }

    fn lock(&self) -> Result<(), Errno> {
        match set_lock(self.fd(), SET_LOCK, WRITE_LOCK) {
            // The file system or the kernel has no open-file-description locks.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                set_lock(self.fd(), libc::F_SETLK, WRITE_LOCK)
            }
            result => result,
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let Some(fd) = self.fd.take() else { return };
        // Unlocks explicitly: closing does not unlock while a process that is being started has a
        // copy. The slot is freed first, so that a forked child does not close a later file
        // with the same number.
        self.place.fd.store(-1, Ordering::Relaxed);
        set_lock(fd.as_fd(), SET_LOCK, UNLOCK).unwrap_or_default();
    }
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Descriptor({:?})", self.fd)
    }
}
