//! Linux's own calls.

use super::Hint;
use crate::fs::WriteLifeTimeHint;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::{Advice, FallocateFlags};
use rustix::io::Errno;
use std::io;
use std::num::NonZeroU64;

pub(in crate::posix) const SET_LOCK: libc::c_int = libc::F_OFD_SETLK;
pub(in crate::posix) const GET_LOCK: libc::c_int = libc::F_OFD_GETLK;

/// `F_SET_RW_HINT` of `linux/fcntl.h`.
const SET_RW_HINT: libc::c_int = 1024 + 12;

/// Reserves space without changing the file's size.
pub(in crate::posix) fn reserve_space(fd: impl AsFd, offset: u64, bytes: u64) -> Result<(), Errno> {
    rustix::fs::fallocate(fd, FallocateFlags::KEEP_SIZE, offset, bytes)
}

/// Gives a hint that the kernel may refuse. A length of 0 means all up to the end.
pub(in crate::posix) fn advise(fd: impl AsFd, offset: u64, bytes: u64, hint: Hint) {
    let advice = match hint {
        Hint::Sequential => Advice::Sequential,
        Hint::Random => Advice::Random,
        Hint::WillNeed => Advice::WillNeed,
        Hint::DontNeed => Advice::DontNeed,
    };
    match rustix::fs::fadvise(fd, offset, NonZeroU64::new(bytes), advice) {
        Ok(()) | Err(_) => {}
    }
}

/// Gives a hint about the lifetime of the file's data. The kernel may not know it.
pub(in crate::posix) fn hint_life_time(fd: impl AsFd, hint: WriteLifeTimeHint) {
    let hint = u64::from(hint as u8);
    // SAFETY: the descriptor is open, and the command reads eight bytes from a live local value.
    unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), SET_RW_HINT, &raw const hint) };
}

/// Makes the file's bytes durable, and as much of its metadata as a reader of them needs.
pub(in crate::posix) fn sync_data(fd: impl AsFd) -> Result<(), Errno> {
    rustix::fs::fdatasync(fd)
}

/// Makes the file's bytes and all of its metadata durable.
pub(in crate::posix) fn sync_all(fd: impl AsFd) -> Result<(), Errno> {
    rustix::fs::fsync(fd)
}

/// Starts to write the range back, and waits for nothing.
pub(in crate::posix) fn start_write_back(fd: impl AsFd, offset: u64, bytes: u64) -> io::Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    let (from, count) = (offset.cast_signed(), bytes.cast_signed());
    // SAFETY: a system call on a descriptor that the caller keeps open; it reads and writes no
    // memory of this process.
    let result = unsafe { libc::sync_file_range(fd, from, count, libc::SYNC_FILE_RANGE_WRITE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether the file's file system lies in memory only.
pub(in crate::posix) fn is_in_memory(fd: BorrowedFd<'_>) -> bool {
    /// `f_type` of tmpfs and ramfs.
    const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58F6];
    #[expect(clippy::useless_conversion, reason = "the field's type differs between processors")]
    let is_known = |stat: rustix::fs::StatFs| IN_MEMORY.contains(&i64::from(stat.f_type));
    rustix::fs::fstatfs(fd).is_ok_and(is_known)
}

/// The id of this thread, as the kernel and `top -H` show it.
pub(crate) fn thread_id() -> u64 {
    u64::try_from(rustix::thread::gettid().as_raw_nonzero().get()).expect("thread ids are positive")
}

/// Fills the front of `bytes` with random bytes, and returns their number.
#[cfg(not(shuttle))]
pub(crate) fn random_bytes(bytes: &mut [u8]) -> Result<usize, Errno> {
    rustix::rand::getrandom(bytes, rustix::rand::GetRandomFlags::empty())
}
