//! Calls that only some systems have, and their forms on systems without them.
//!
//! In: an open file, and a request to its system. Out: the request is carried out, or left out if
//! the system has no such call. `os/linux.rs` has Linux's calls, `os/portable.rs` the forms for
//! other Unix systems. Both have the same functions. Sources: `fallocate(2)`, `posix_fadvise(2)`,
//! `sync_file_range(2)`, `fcntl(2)`; Apple's `fcntl(2)` (`F_FULLFSYNC`).
//!
//! | request | Linux | macOS | other Unix systems |
//! |---|---|---|---|
//! | reserve space | `fallocate` | refused | refused |
//! | hint about reads | `posix_fadvise` | nothing | nothing |
//! | hint about lifetimes | `F_SET_RW_HINT` | nothing | nothing |
//! | start to write back | `sync_file_range` | nothing | nothing |
//! | sync data | `fdatasync` | `F_FULLFSYNC` | `fsync` |
//! | sync data and metadata | `fsync` | `F_FULLFSYNC` | `fsync` |
//! | lock a file | `F_OFD_SETLK` | `F_OFD_SETLK` | `F_SETLK` |
//! | random bytes | `getrandom` | `getentropy` | `getentropy` |
//! | number of a thread | `gettid` | `pthread_threadid_np` | address of the thread |
//!
//! Direct I/O, `io_uring`, reads of resident pages and mapped logs exist on Linux only.
//!
//! Invariant: a request that is left out changes the speed of Esker, and no answer and no promise.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;

#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::*;

/// A hint about later reads of a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hint {
    /// Reads go from the beginning to the end.
    Sequential,
    /// Reads are far apart.
    Random,
    /// These bytes are read soon.
    WillNeed,
    /// These bytes must come from the medium again.
    DontNeed,
}
