//! A temporary directory, which a drop deletes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A new directory. A drop deletes the directory with its files. If the test is failing, or
/// `KEEP_TEMP` is set, the drop prints the path instead.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
}

impl TempDir {
    /// Makes an empty directory below the system's temporary one. `name` becomes a part of the
    /// path, for human readers.
    pub fn new(name: &str) -> TempDir {
        TempDir::within(&std::env::temp_dir(), name).expect("a temporary directory can be made")
    }

    /// Makes an empty directory below `parent`, for example on another file system. `None` if that
    /// is impossible.
    #[expect(
        clippy::disallowed_methods,
        reason = "the testkit depends on no crate of ours, so not on env either"
    )]
    pub fn within(parent: &Path, name: &str) -> Option<TempDir> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("esker-{}-{unique}-{name}", std::process::id()));
        // An earlier process with the same id may have left a directory of this name.
        if path.exists() {
            std::fs::remove_dir_all(&path).expect("a left-over temporary directory can be removed");
        }
        std::fs::create_dir_all(&path).ok()?;
        Some(TempDir { path })
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of `name` in the directory.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for TempDir {
    #[expect(clippy::print_stderr, reason = "a failing test says where its files are")]
    fn drop(&mut self) {
        if std::thread::panicking() || std::env::var_os("KEEP_TEMP").is_some() {
            eprintln!("kept {}", self.path.display());
        } else if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("could not remove {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_is_new_and_is_deleted_by_its_drop() {
        let (a, b) = (TempDir::new("t"), TempDir::new("t"));
        assert_ne!(a.path(), b.path());
        assert!(a.path().is_dir());
        let path = a.path().to_owned();
        drop(a);
        assert!(!path.exists());
    }
}
