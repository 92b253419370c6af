//! Copies files into a database and out of it, by hard link if possible.

use esker_base::{Error, ErrorKind, Result, SubCode};
use esker_env::{FileSystem, SequentialFile};
use std::path::Path;

/// Bytes that are copied in one step.
const COPY_BYTES: usize = 1 << 20;

/// Calls `act` with the table's path or, if no file is there, with the path under LevelDB's name.
/// # Errors
/// Errors of `act`; if no file has either name, the error of the first.
pub(crate) fn under_either_name<T>(path: &Path, act: impl Fn(&Path) -> Result<T>) -> Result<T> {
    match act(path) {
        Err(first) if first.subcode() == SubCode::PathNotFound => {
            act(&path.with_extension("ldb")).map_err(|e| match e.subcode() {
                SubCode::PathNotFound => first,
                _ => e,
            })
        }
        done => done,
    }
}

/// Makes `to` a hard link to the file `from`, or a copy if the file system cannot link them.
/// Returns the number of copied bytes.
/// # Errors
/// `IoError` · `Corruption` if the file ends before its size.
pub(crate) fn link_or_copy(fs: &dyn FileSystem, from: &Path, to: &Path) -> Result<u64> {
    match fs.link_file(from, to) {
        Err(e) if e.kind() == ErrorKind::NotSupported => {
            let bytes = fs.file_size(from)?;
            copy_file(fs, from, to, bytes).map(|()| bytes)
        }
        linked => linked.map(|()| 0),
    }
}

/// [`link_or_copy`], which also syncs a linked file: its writer may not have done so. The name is
/// durable after a sync of the directory. Returns whether the file was linked.
/// # Errors
/// Errors of [`link_or_copy`].
pub(crate) fn link_or_copy_synced(fs: &dyn FileSystem, from: &Path, to: &Path) -> Result<bool> {
    match fs.link_file(from, to) {
        Err(e) if e.kind() == ErrorKind::NotSupported => {
            copy_file(fs, from, to, fs.file_size(from)?).map(|()| false)
        }
        linked => linked.and_then(|()| sync_file(fs, to)).map(|()| true),
    }
}

/// Syncs a file that another writer wrote.
/// # Errors
/// `IoError`.
pub(crate) fn sync_file(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    let mut file = fs.reopen_writable_file(path)?;
    file.fsync()?;
    file.close()
}

/// Copies the first `bytes` bytes and syncs them; the name is durable after a sync of the
/// directory.
/// # Errors
/// `IoError` · `Corruption` if the file is shorter.
pub(crate) fn copy_file(fs: &dyn FileSystem, from: &Path, to: &Path, bytes: u64) -> Result<()> {
    let source = fs.new_sequential_file(from)?;
    let mut target = fs.new_writable_file(to)?;
    read_chunks(source, from, bytes, |chunk| target.append(chunk))?;
    target.fsync()?;
    target.close()
}

/// Passes the first `bytes` bytes of `source`, the file at `path`, to `take`, piece by piece.
/// # Errors
/// `IoError` · `Corruption` if the file is shorter · errors of `take`.
pub(crate) fn read_chunks(
    mut source: Box<dyn SequentialFile>,
    path: &Path,
    bytes: u64,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut buffer = vec![0; COPY_BYTES.min(usize::try_from(bytes).unwrap_or(COPY_BYTES))];
    let mut left = bytes;
    while left > 0 {
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(buffer.len()));
        let read = source.read(&mut buffer[..wanted])?;
        if read == 0 {
            let what = format!("ends {left} bytes before the {bytes} it should have");
            return Err(Error::corruption(what).at(path.display()));
        }
        take(&buffer[..read])?;
        left -= read as u64;
    }
    Ok(())
}
