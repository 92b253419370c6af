//! The file that keeps the commands of a user for later sessions.
//!
//! In: the environment. Out: a path, `$XDG_STATE_HOME/esker/history` or
//! `~/.local/state/esker/history`. Only the user can read the file: it has keys and values.

use std::fs::{DirBuilder, Permissions, set_permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;

/// The path of the file, in a directory that exists. `None`: there is no place for it, or others
/// can read it and its mode cannot be changed.
pub(super) fn file() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    let dir = state.join("esker");
    DirBuilder::new().recursive(true).mode(0o700).create(&dir).ok()?;
    let path = dir.join("history");
    if path.exists() {
        set_permissions(&path, Permissions::from_mode(0o600)).ok()?;
    }
    Some(path)
}
