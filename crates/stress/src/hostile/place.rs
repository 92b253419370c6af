//! The place of a trial's database: the disk, or a small file system of its own.

#![allow(clippy::disallowed_methods, reason = "real directories and tools of the system are what is used")]

use esker_testkit::TempDir;
use rustix::fs::{Gid, Uid, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bytes of a small file system.
const SMALL: u64 = 48 << 20;
/// The user of the children, if the driver may choose it. Limits on processes do not apply to
/// root.
pub(super) const USER: u32 = 65534;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MediumKind {
    /// A directory on the disk.
    Disk,
    /// A `tmpfs` of 48 MiB.
    SmallTmpfs,
    /// An ext4 file system of 48 MiB in a file.
    SmallExt4,
}

/// A directory for one trial. Dropping it unmounts its file system.
#[derive(Debug)]
pub(super) struct HostilePlace {
    mounted: Option<PathBuf>,
    root: TempDir,
}

impl HostilePlace {
    /// Makes a directory on a medium of this kind.
    /// # Errors
    /// The file system cannot be made; the message has the tool's output.
    pub(super) fn new(parent: &Path, kind: MediumKind) -> Result<HostilePlace, String> {
        let root = TempDir::within(parent, "hostile").ok_or("no directory can be made for the trials")?;
        let mut place = HostilePlace { mounted: None, root };
        let target = place.root.join("fs");
        std::fs::create_dir(&target).map_err(|e| format!("{}: {e}", target.display()))?;
        let path = target.display().to_string();
        match kind {
            MediumKind::Disk => {}
            MediumKind::SmallTmpfs => {
                tool("mount", &["-t", "tmpfs", "-o", &format!("size={SMALL}"), "tmpfs", &path])?;
                place.mounted = Some(target);
            }
            MediumKind::SmallExt4 => {
                let image = place.root.join("image");
                let named = |e: std::io::Error| format!("{}: {e}", image.display());
                std::fs::File::create(&image).and_then(|file| file.set_len(SMALL)).map_err(named)?;
                let image = image.display().to_string();
                tool("mkfs.ext4", &["-q", "-m", "0", &image])?;
                tool("mount", &["-o", "loop", &image, &path])?;
                place.mounted = Some(target);
            }
        }
        for directory in [place.root.path().to_owned(), place.root.join("fs")] {
            give_to_user(&directory)?;
        }
        Ok(place)
    }

    /// The database's directory. The first child makes it.
    pub(super) fn database(&self) -> PathBuf {
        self.beside("db")
    }

    /// A path on the same file system.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.root.join("fs").join(name)
    }
}

impl Drop for HostilePlace {
    fn drop(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            // A killed child may still use it.
            tool("umount", &["-l", &mounted.display().to_string()]).ok();
        }
    }
}

/// Whether the driver may mount file systems and change users.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a file system of this kind can be made here.
pub(super) fn can_mount(parent: &Path) -> bool {
    is_root()
        && HostilePlace::new(parent, MediumKind::SmallExt4).is_ok()
        && HostilePlace::new(parent, MediumKind::SmallTmpfs).is_ok()
}

pub(super) fn give_to_user(path: &Path) -> Result<(), String> {
    if !is_root() {
        return Ok(());
    }
    chown(path, Some(Uid::from_raw(USER)), Some(Gid::from_raw(USER)))
        .map_err(|e| format!("chown {}: {e}", path.display()))
}

fn tool(name: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(name).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("{name}: {e}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{name} {}: {errors}", arguments.join(" "))) }
}
