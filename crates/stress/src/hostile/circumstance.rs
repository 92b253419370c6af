//! The circumstances: how each begins and ends, and which reactions of the child are right.

#![allow(clippy::disallowed_methods, reason = "real files and processes are what is used")]

use super::place::{self, HostilePlace, MediumKind, can_mount};
use super::process::{self, Process};
use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A hostile change of a process's surroundings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Circumstance {
    /// No thread can be started.
    NoThreads,
    /// From the beginning no thread can be started.
    NoThreadsAtOpen,
    /// No file can be opened.
    NoDescriptors,
    /// From the beginning the process may open only a small number of files.
    FewDescriptorsAtOpen,
    /// No memory can be allocated.
    NoAddressSpace,
    /// Files may not grow beyond 64 KiB.
    SmallFiles,
    /// The disk is full.
    FullDisk,
    /// The disk has only some hundred KiB left.
    NearlyFullDisk,
    /// The process is stopped for a while.
    Stopped,
    /// The process is killed.
    Killed,
    /// The directory has another name for a while.
    DirectoryMoved,
    /// The directory is moved away, and another database lies at its path.
    DirectoryReplaced,
    /// The directory is deleted, and another database is made at its path.
    DirectoryDeleted,
    /// No file can be made or deleted in the directory.
    DirectoryReadOnly,
    /// LOCK is replaced by a copy for a while.
    LockCopied,
    /// Other processes open the database for writing.
    SecondWriter,
    /// Other processes open the database for reading.
    Readers,
    /// The process forks, and its children exit normally.
    Forks,
}

/// The right reactions of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChildOutcome {
    /// The child continues when the cause is gone.
    GoesOn,
    /// The child continues, or reports a lasting error.
    MayStop,
    /// The child continues, or the system kills it.
    MayDie,
}

impl Circumstance {
    /// Every circumstance.
    pub const ALL: [Circumstance; 18] = [
        Circumstance::NoThreads,
        Circumstance::NoThreadsAtOpen,
        Circumstance::NoDescriptors,
        Circumstance::FewDescriptorsAtOpen,
        Circumstance::NoAddressSpace,
        Circumstance::SmallFiles,
        Circumstance::FullDisk,
        Circumstance::NearlyFullDisk,
        Circumstance::Stopped,
        Circumstance::Killed,
        Circumstance::DirectoryMoved,
        Circumstance::DirectoryReplaced,
        Circumstance::DirectoryDeleted,
        Circumstance::DirectoryReadOnly,
        Circumstance::LockCopied,
        Circumstance::SecondWriter,
        Circumstance::Readers,
        Circumstance::Forks,
    ];

    /// Its name on the command line and in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Circumstance::NoThreads => "no-threads",
            Circumstance::NoThreadsAtOpen => "no-threads-at-open",
            Circumstance::NoDescriptors => "no-descriptors",
            Circumstance::FewDescriptorsAtOpen => "few-descriptors-at-open",
            Circumstance::NoAddressSpace => "no-address-space",
            Circumstance::SmallFiles => "small-files",
            Circumstance::FullDisk => "full-disk",
            Circumstance::NearlyFullDisk => "nearly-full-disk",
            Circumstance::Stopped => "stopped",
            Circumstance::Killed => "killed",
            Circumstance::DirectoryMoved => "directory-moved",
            Circumstance::DirectoryReplaced => "directory-replaced",
            Circumstance::DirectoryDeleted => "directory-deleted",
            Circumstance::DirectoryReadOnly => "directory-read-only",
            Circumstance::LockCopied => "lock-copied",
            Circumstance::SecondWriter => "second-writer",
            Circumstance::Readers => "readers",
            Circumstance::Forks => "forks",
        }
    }

    /// The reason why this machine does not allow it; `None` if it does.
    pub(super) fn why_impossible(self, parent: &Path) -> Option<&'static str> {
        match self {
            Circumstance::FullDisk | Circumstance::NearlyFullDisk if !can_mount(parent) => {
                Some("no file system can be mounted here")
            }
            // Limits on the number of processes do not apply to root.
            Circumstance::NoThreads | Circumstance::NoThreadsAtOpen if !place::is_root() => {
                Some("the user's other processes count, too: run it as root")
            }
            _ => None,
        }
    }

    pub(super) fn kind_of_place(self, seed: u64) -> MediumKind {
        match self {
            Circumstance::FullDisk | Circumstance::NearlyFullDisk
                if (seed / Circumstance::ALL.len() as u64).is_multiple_of(2) =>
            {
                MediumKind::SmallTmpfs
            }
            Circumstance::FullDisk | Circumstance::NearlyFullDisk => MediumKind::SmallExt4,
            _ => MediumKind::Disk,
        }
    }

    pub(super) fn outcome(self) -> ChildOutcome {
        match self {
            Circumstance::NoAddressSpace | Circumstance::SmallFiles | Circumstance::Killed => {
                ChildOutcome::MayDie
            }
            Circumstance::DirectoryReplaced | Circumstance::DirectoryDeleted | Circumstance::LockCopied => {
                ChildOutcome::MayStop
            }
            _ => ChildOutcome::GoesOn,
        }
    }

    /// The tool that sets soft limits before the child begins.
    pub(super) fn wrapper(self) -> Vec<String> {
        let limit = match self {
            Circumstance::NoThreadsAtOpen => "--nproc=1:",
            Circumstance::FewDescriptorsAtOpen => "--nofile=24:",
            _ => return Vec::new(),
        };
        vec!["prlimit".to_owned(), limit.to_owned()]
    }

    /// Arguments of the child.
    pub(super) fn arguments(self) -> &'static [&'static str] {
        if self == Circumstance::Forks { &["--forks"] } else { &[] }
    }

    /// Begins the circumstance.
    /// # Errors
    /// It cannot begin, or a process that was started for it found a mistake.
    pub(super) fn begin(
        self,
        program: &Path,
        place: &HostilePlace,
        child: &Process,
    ) -> Result<HostileTrouble, String> {
        let mut trouble =
            HostileTrouble { undo: Undo::Nothing, directory: Some(place.database()), other: None };
        match self {
            Circumstance::NoThreads => trouble.limit(child, "nproc", 1)?,
            Circumstance::NoThreadsAtOpen => trouble.undo = Undo::Raise("nproc"),
            Circumstance::NoDescriptors => trouble.limit(child, "nofile", 3)?,
            Circumstance::FewDescriptorsAtOpen => trouble.undo = Undo::Raise("nofile"),
            Circumstance::NoAddressSpace => trouble.limit(child, "as", 1 << 20)?,
            Circumstance::SmallFiles => trouble.limit(child, "fsize", 64 << 10)?,
            Circumstance::FullDisk => trouble.fill(place, 0)?,
            Circumstance::NearlyFullDisk => trouble.fill(place, 300 << 10)?,
            Circumstance::Stopped => trouble.signal(child)?,
            Circumstance::Killed => {
                kill_process(pid(child), Signal::KILL).map_err(|e| format!("kill: {e}"))?
            }
            Circumstance::DirectoryMoved => trouble.rename(place)?,
            Circumstance::DirectoryReplaced => {
                trouble.rename(place)?;
                trouble.undo = Undo::Nothing;
                trouble.directory = Some(place.beside("moved"));
                trouble.put_another(program, place)?;
            }
            Circumstance::DirectoryDeleted => {
                let database = place.database();
                // The child may make files at the same time.
                for _ in 0..1000 {
                    if std::fs::remove_dir_all(&database).is_ok() || !database.exists() {
                        break;
                    }
                }
                trouble.directory = None;
                trouble.put_another(program, place)?;
            }
            Circumstance::DirectoryReadOnly => trouble.permit(place, 0o555)?,
            Circumstance::LockCopied => trouble.copy_lock(place)?,
            Circumstance::Forks => {}
            Circumstance::SecondWriter | Circumstance::Readers => {
                let mode = if self == Circumstance::Readers { "read" } else { "write" };
                for _ in 0..4 {
                    process::ask(program, "hostile-opener", &place.database(), &[mode.to_owned()])?;
                }
            }
        }
        Ok(trouble)
    }
}

/// The way to undo a circumstance.
#[derive(Debug)]
enum Undo {
    Nothing,
    /// Raise the soft limit to the hard one.
    Raise(&'static str),
    Remove(PathBuf),
    Continue,
    Rename(PathBuf, PathBuf),
    Permit(PathBuf),
}

/// A circumstance that has begun.
#[derive(Debug)]
pub(super) struct HostileTrouble {
    undo: Undo,
    /// The directory of the child's database; `None` if it is deleted.
    directory: Option<PathBuf>,
    /// The database that replaced it, and its expected batches.
    other: Option<(PathBuf, Vec<u64>)>,
}

fn pid(child: &Process) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a process id fits into i32"))
        .expect("a process id is not 0")
}

impl HostileTrouble {
    fn limit(&mut self, child: &Process, resource: &'static str, soft: u64) -> Result<(), String> {
        self.undo = Undo::Raise(resource);
        process::limit(child, resource, &soft.to_string())
    }

    /// Fills the file system until `left` bytes are free.
    fn fill(&mut self, place: &HostilePlace, left: u64) -> Result<(), String> {
        let path = place.beside("ballast");
        let named = |e: std::io::Error| format!("{}: {e}", path.display());
        self.undo = Undo::Remove(path.clone());
        let ballast = std::fs::File::create(&path).map_err(named)?;
        let root = path.parent().expect("the path has a parent");
        let free = |()| -> Result<u64, String> {
            let system = rustix::fs::statvfs(root).map_err(|e| format!("statvfs: {e}"))?;
            Ok(system.f_bavail * system.f_frsize)
        };
        let mut length = 0;
        // The child writes at the same time, and returns space that it had reserved.
        for _ in 0..20 {
            let more = free(())?.saturating_sub(left);
            if more < 4096 {
                break;
            }
            let flags = rustix::fs::FallocateFlags::empty();
            match rustix::fs::fallocate(&ballast, flags, length, more) {
                Ok(()) => length += more,
                Err(rustix::io::Errno::NOSPC) => {}
                Err(e) => return Err(format!("fallocate: {e}")),
            }
        }
        Ok(())
    }

    fn signal(&mut self, child: &Process) -> Result<(), String> {
        kill_process(pid(child), Signal::STOP).map_err(|e| format!("kill: {e}"))?;
        self.undo = Undo::Continue;
        Ok(())
    }

    fn rename(&mut self, place: &HostilePlace) -> Result<(), String> {
        let (from, to) = (place.database(), place.beside("moved"));
        std::fs::rename(&from, &to).map_err(|e| format!("rename: {e}"))?;
        self.undo = Undo::Rename(to, from);
        Ok(())
    }

    /// Makes another database at the path of the first, writes some batches, and ends its process.
    fn put_another(&mut self, program: &Path, place: &HostilePlace) -> Result<(), String> {
        let mut another = Process::start(program, place, &[], &[])?;
        another.wait_for_progress(&[0; super::THREADS as usize], super::PATIENCE)?;
        another.end(false)?;
        self.other = Some((place.database(), another.said().acknowledged));
        Ok(())
    }

    fn permit(&mut self, place: &HostilePlace, mode: u32) -> Result<(), String> {
        set_mode(&place.database(), mode)?;
        self.undo = Undo::Permit(place.database());
        Ok(())
    }

    fn copy_lock(&mut self, place: &HostilePlace) -> Result<(), String> {
        let (lock, kept) = (place.database().join("LOCK"), place.beside("LOCK.kept"));
        let named = |e: std::io::Error| format!("LOCK: {e}");
        std::fs::rename(&lock, &kept).map_err(named)?;
        std::fs::copy(&kept, &lock).map_err(named)?;
        place::give_to_user(&lock)?;
        self.undo = Undo::Rename(kept, lock);
        Ok(())
    }

    /// Ends the circumstance.
    /// # Errors
    /// It cannot be undone.
    pub(super) fn end(&mut self, child: &Process) -> Result<(), String> {
        let io = |e: std::io::Error| format!("the circumstance cannot be undone: {e}");
        match std::mem::replace(&mut self.undo, Undo::Nothing) {
            Undo::Nothing => Ok(()),
            // A dead child has no limits to raise.
            Undo::Raise(resource) => {
                process::limit(child, resource, &hard_limit(child, resource)).ok();
                Ok(())
            }
            Undo::Remove(path) => std::fs::remove_file(path).map_err(io),
            Undo::Continue => kill_process(pid(child), Signal::CONT).map_err(|e| format!("kill: {e}")),
            Undo::Rename(from, to) => std::fs::rename(from, to).map_err(io),
            Undo::Permit(path) => set_mode(&path, 0o755),
        }
    }

    /// The directory of the child's database; `None` if it is deleted.
    pub(super) fn directory(&self) -> Option<PathBuf> {
        self.directory.clone()
    }

    /// The database that replaced it, and each thread's last acknowledged batch there.
    pub(super) fn other(&self) -> Option<(PathBuf, Vec<u64>)> {
        self.other.clone()
    }
}

/// The hard limit in the form that `prlimit` takes.
fn hard_limit(child: &Process, resource: &str) -> String {
    let name = match resource {
        "nproc" => "Max processes",
        "nofile" => "Max open files",
        "as" => "Max address space",
        _ => "Max file size",
    };
    let text = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().nth(1).unwrap_or("unlimited").to_owned()
}

fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, permissions).map_err(|e| format!("chmod {}: {e}", path.display()))
}
