//! A listening Unix socket that only its owner can use.
//!
//! In: a path. Out: a socket of mode 0600, or an error that names the path.
//!
//! Invariants
//!  1. The mode is set between `bind` and `listen`: a socket that does not listen refuses every
//!     connection.
//!  2. Starts at one path take turns by a lock of the file `PATH.lock`, so that no start takes the
//!     socket of another one, which does not listen yet, for a dead one. The file has mode 0600 and
//!     this user as owner, so no other user can hold its lock. It goes at the end of the turn.
//!  3. Only a socket that refuses connections is replaced. Any other file stays, and so does the
//!     socket of a server that runs.
//!  4. The end removes the path only if its file is still this socket.

use esker::options::Env;
use esker::{Error, Result};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use std::fs::{Metadata, symlink_metadata};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Connections that may wait for an accept.
const BACKLOG: i32 = 16;
/// Tries to take the turn, each [`LOCK_STEP`] after the last.
const LOCK_TRIES: u32 = 200;
const LOCK_STEP: Duration = Duration::from_millis(10);
/// The mode of the socket.
const OWNER_ONLY: Mode = Mode::from_raw_mode(0o600);

/// A listening socket and its path, which goes with it.
#[derive(Debug)]
pub(crate) struct OwnedSocket {
    path: PathBuf,
    identity: (u64, u64),
}

fn failed(path: &Path, what: &str, errno: Errno) -> Error {
    Error::io_with(format_args!("{}: {what}", path.display()), errno.into())
}

/// Device and inode.
fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Listens at `path`.
/// # Errors
/// `Busy`: a server listens there · `InvalidArgument`: the path is a file of another kind, or too
/// long · `IoError` of the system. Each one names the path.
pub(crate) fn listen(path: &Path) -> Result<(UnixListener, OwnedSocket)> {
    // Others find the socket by its path, whatever their directory is.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (path, address) = match SocketAddrUnix::new(absolute.as_path()) {
        Ok(address) => (absolute.clone(), address),
        Err(_) => (path.to_owned(), address(path)?),
    };
    let _turn = turn(&path)?;
    remove_dead(&path, &address)?;
    let socket = new_socket().map_err(|e| failed(&path, "no socket", e))?;
    rustix::net::bind(&socket, &address).map_err(|e| match e {
        Errno::ADDRINUSE => failed(&path, "cannot be replaced by a socket", e),
        _ => failed(&path, "cannot bind a socket", e),
    })?;
    let made = symlink_metadata(&path).map_err(|e| Error::io_with(path.display(), e))?;
    let owned = OwnedSocket { identity: identity(&made), path: path.clone() };
    rustix::fs::chmod(&path, OWNER_ONLY).map_err(|e| failed(&path, "cannot restrict the mode", e))?;
    rustix::net::listen(&socket, BACKLOG).map_err(|e| failed(&path, "cannot listen", e))?;
    Ok((UnixListener::from(socket), owned))
}

pub(crate) fn address(path: &Path) -> Result<SocketAddrUnix> {
    SocketAddrUnix::new(path).map_err(|_| {
        let message = format!("{}: is no path for a Unix socket: at most 107 bytes", path.display());
        Error::invalid_argument(message)
    })
}

/// A socket that does not block.
pub(crate) fn new_socket() -> std::result::Result<OwnedFd, Errno> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&socket, OFlags::NONBLOCK)?;
    Ok(socket)
}

/// The turn of a start: the locked file beside the socket.
struct StartTurn {
    file: OwnedFd,
    path: PathBuf,
}

impl Drop for StartTurn {
    fn drop(&mut self) {
        // Under the lock, which a file that stays would release as well.
        if is_named(&self.file, &self.path) {
            rustix::fs::unlink(&self.path).unwrap_or_default();
        }
    }
}

/// Whether `path` is still the name of `file`.
fn is_named(file: &OwnedFd, path: &Path) -> bool {
    let inode = |found: rustix::fs::Stat| (found.st_dev, found.st_ino);
    let here = rustix::fs::fstat(file).map(inode);
    here.is_ok() && rustix::fs::lstat(path).map(inode) == here
}

/// Waits for the turn at `path`.
fn turn(path: &Path) -> Result<StartTurn> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock = PathBuf::from(name);
    for _ in 0..LOCK_TRIES {
        let file = open_lock(&lock)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // The start before removes the file; then the lock of it is worth nothing.
            Ok(()) if is_named(&file, &lock) => return Ok(StartTurn { file, path: lock }),
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => Env::default().clock.sleep(LOCK_STEP),
            Err(e) => return Err(failed(&lock, "cannot be locked", e)),
        }
    }
    Err(Error::busy(format!("{}: another start holds its lock", lock.display())))
}

/// Opens the file of the lock, which this user alone can open.
fn open_lock(lock: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(lock, flags, OWNER_ONLY)
        .map_err(|e| failed(lock, "cannot open the file of the lock", e))?;
    let found = rustix::fs::fstat(&file).map_err(|e| failed(lock, "cannot be read", e))?;
    let is_ours = found.st_uid == rustix::process::geteuid().as_raw() && found.st_mode & 0o077 == 0;
    if !is_ours || FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        let message = format!("{}: is no file that only this user can open", lock.display());
        return Err(Error::invalid_argument(message));
    }
    Ok(file)
}

/// Removes a socket at `path` that no server listens to.
fn remove_dead(path: &Path, address: &SocketAddrUnix) -> Result<()> {
    let found = match symlink_metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::io_with(path.display(), e)),
    };
    if !found.file_type().is_socket() {
        let message = format!("{}: exists, and is no socket", path.display());
        return Err(Error::invalid_argument(message));
    }
    let probe = new_socket().map_err(|e| failed(path, "no socket", e))?;
    match rustix::net::connect(&probe, address) {
        Err(Errno::CONNREFUSED) => {
            rustix::fs::unlink(path).map_err(|e| failed(path, "cannot remove the dead socket", e))
        }
        // `AGAIN`: the queue of a server that runs is full.
        Ok(()) | Err(Errno::AGAIN | Errno::INPROGRESS) => {
            let message = format!("{}: another server listens there", path.display());
            Err(Error::busy(message))
        }
        Err(e) => Err(failed(path, "cannot tell whether a server listens there", e)),
    }
}

impl OwnedSocket {
    /// The path, absolute if it fits into an address.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnedSocket {
    fn drop(&mut self) {
        let is_ours = symlink_metadata(&self.path).is_ok_and(|found| identity(&found) == self.identity);
        if is_ours {
            // Nothing is lost if it stays: the next start replaces it.
            rustix::fs::unlink(&self.path).unwrap_or_default();
        }
    }
}
