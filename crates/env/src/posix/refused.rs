//! Optional system calls: a kernel, its rules (seccomp) or a file system may refuse them.
//!
//! In: the error of such a call. Out: whether to continue without it. Errors of the medium (`EIO`)
//! never count as a refusal.

use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Whether this error of an optional call means that the call is not available here.
pub(super) fn is_refused(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOSYS
            | Errno::OPNOTSUPP
            | Errno::INVAL
            | Errno::PERM
            | Errno::ACCESS
            | Errno::NOTTY
            | Errno::NODEV
            | Errno::SPIPE
    )
}

/// Whether this error of `fsync` means that the file system syncs no directories. Network file
/// systems (CIFS, some NFS and FUSE servers) return it: they keep names durable by themselves, or
/// not at all.
pub(super) fn syncs_no_directory(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS)
}

/// The first directory that could not be synced.
static UNSYNCED: OnceLock<PathBuf> = OnceLock::new();

#[cold]
pub(super) fn note_unsynced_directory(path: &Path) {
    UNSYNCED.get_or_init(|| path.to_owned());
}

/// The first directory of this process whose file system refused to sync it, for the LOG.
pub(crate) fn unsynced_directory() -> Option<&'static Path> {
    UNSYNCED.get().map(PathBuf::as_path)
}
