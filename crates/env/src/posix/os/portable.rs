//! Forms for Unix systems without Linux's calls.

use super::Hint;
use crate::fs::WriteLifeTimeHint;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::io;

#[cfg(target_vendor = "apple")]
pub(in crate::posix) const SET_LOCK: libc::c_int = libc::F_OFD_SETLK;
#[cfg(target_vendor = "apple")]
pub(in crate::posix) const GET_LOCK: libc::c_int = libc::F_OFD_GETLK;
#[cfg(not(target_vendor = "apple"))]
pub(in crate::posix) const SET_LOCK: libc::c_int = libc::F_SETLK;
#[cfg(not(target_vendor = "apple"))]
pub(in crate::posix) const GET_LOCK: libc::c_int = libc::F_GETLK;

/// Refuses: no call of these systems reserves space and leaves the file's size as it is.
pub(in crate::posix) fn reserve_space(_fd: impl AsFd, _offset: u64, _bytes: u64) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Does nothing.
pub(in crate::posix) fn advise(_fd: impl AsFd, _offset: u64, _bytes: u64, _hint: Hint) {}

/// Does nothing.
pub(in crate::posix) fn hint_life_time(_fd: impl AsFd, _hint: WriteLifeTimeHint) {}

/// Makes the file durable, as [`sync_all`] does.
pub(in crate::posix) fn sync_data(fd: impl AsFd) -> Result<(), Errno> {
    sync_all(fd)
}

/// Makes the file's bytes and all of its metadata durable. macOS's `fsync` leaves bytes in the
/// cache of the drive, so macOS empties that cache too, if the file system can.
pub(in crate::posix) fn sync_all(fd: impl AsFd) -> Result<(), Errno> {
    #[cfg(target_vendor = "apple")]
    match rustix::fs::fcntl_fullfsync(fd.as_fd()) {
        Err(Errno::NOTSUP | Errno::INVAL | Errno::NOTTY) => {}
        synced => return synced,
    }
    rustix::fs::fsync(fd)
}

/// Does nothing.
#[expect(clippy::unnecessary_wraps, reason = "Linux's call can fail")]
pub(in crate::posix) fn start_write_back(_fd: impl AsFd, _offset: u64, _bytes: u64) -> io::Result<()> {
    Ok(())
}

/// False: a read may wait.
pub(in crate::posix) fn is_in_memory(_fd: BorrowedFd<'_>) -> bool {
    false
}

/// The id of this thread. On macOS debuggers show the same number.
pub(crate) fn thread_id() -> u64 {
    #[cfg(target_vendor = "apple")]
    {
        let mut id = 0;
        // SAFETY: the pointer is to a live local value; 0 names the calling thread.
        if unsafe { libc::pthread_threadid_np(0, &raw mut id) } == 0 {
            return id;
        }
    }
    // SAFETY: the call returns a value of the calling thread and has no other effect.
    unsafe { libc::pthread_self() as u64 }
}

/// Fills the front of `bytes` with random bytes, and returns their number.
#[cfg(not(shuttle))]
pub(crate) fn random_bytes(bytes: &mut [u8]) -> Result<usize, Errno> {
    /// Most bytes of one call.
    const MOST: usize = 256;
    let length = bytes.len().min(MOST);
    // SAFETY: the pointer is to `length` bytes, which this function may change.
    match unsafe { libc::getentropy(bytes.as_mut_ptr().cast(), length) } {
        0 => Ok(length),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
