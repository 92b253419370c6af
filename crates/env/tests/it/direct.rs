//! Files that bypass the page cache, on the real file system and on the simulated disk. They obey
//! the contract of all files.

use super::conformance as cases;
use super::temp_dir::TempDir;
use esker_base::{ErrorKind, Result};
use esker_env::crash::{CrashKind, Keep, Tail};
use esker_env::{
    CrashChoices, CrashFs, Directory, FaultFs, FaultRule, FileLock, FileSystem, MemFs, OpKind,
    PosixFileSystem, RandomAccessFile, SequentialFile, WritableFile,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file system that opens all new files past the page cache.
#[derive(Debug)]
struct Direct<F>(F);

macro_rules! pass {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $out:ty = $by:ident;)*) => {$(
        fn $name(&self, $($arg: $ty),*) -> Result<$out> {
            self.0.$by($($arg),*)
        }
    )*};
}

impl<F: FileSystem> FileSystem for Direct<F> {
    fn new_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.0.new_direct_writable_file(path, 10_000)
    }
    pass! {
        fn new_sequential_file(path: &Path) -> Box<dyn SequentialFile> = new_direct_sequential_file;
        fn new_random_access_file(path: &Path) -> Arc<dyn RandomAccessFile> = new_direct_random_access_file;
        fn reopen_writable_file(path: &Path) -> Box<dyn WritableFile> = reopen_writable_file;
        fn reuse_writable_file(new: &Path, old: &Path) -> Box<dyn WritableFile> = reuse_writable_file;
        fn new_directory(path: &Path) -> Box<dyn Directory> = new_directory;
        fn file_exists(path: &Path) -> bool = file_exists;
        fn children(dir: &Path) -> Vec<String> = children;
        fn delete_file(path: &Path) -> () = delete_file;
        fn create_dir_if_missing(path: &Path) -> () = create_dir_if_missing;
        fn delete_dir(path: &Path) -> () = delete_dir;
        fn file_size(path: &Path) -> u64 = file_size;
        fn modification_time(path: &Path) -> u64 = modification_time;
        fn rename(from: &Path, to: &Path) -> () = rename;
        fn link_file(existing: &Path, new: &Path) -> () = link_file;
        fn lock_file(path: &Path) -> Box<dyn FileLock> = lock_file;
        fn absolute_path(path: &Path) -> PathBuf = absolute_path;
        fn free_space(path: &Path) -> u64 = free_space;
        fn truncate(path: &Path, size: u64) -> () = truncate;
    }
}

/// Whether files in `dir` can be opened past the page cache. If not, checks that the error says so.
fn is_possible(dir: &Path) -> bool {
    let path = dir.join("probe");
    let made = PosixFileSystem.new_direct_writable_file(&path, 4096).map(drop);
    std::fs::remove_file(&path).ok();
    let Err(e) = made else { return true };
    println!("no direct I/O in {}: {e}", dir.display());
    assert_eq!(e.kind(), ErrorKind::NotSupported);
    assert!(e.message().contains("direct I/O (O_DIRECT) is not supported here"), "{e}");
    assert!(e.message().contains("probe"), "{e}");
    false
}

/// Directories on disk and in memory (`/dev/shm`) in which direct I/O works.
fn real_dirs() -> Vec<TempDir> {
    let mut dirs = vec![TempDir::new()];
    if Path::new("/dev/shm").is_dir() {
        dirs.extend(TempDir::within(Path::new("/dev/shm")));
    }
    dirs.retain(|dir| is_possible(dir.path()));
    dirs
}

macro_rules! conformance {
    ($($case:ident),* $(,)?) => {
        mod posix {
            use super::{Arc, Direct, FaultFs, PosixFileSystem, cases, real_dirs};
            $(#[test] fn $case() {
                for dir in real_dirs() {
                    cases::$case(&Direct(PosixFileSystem), dir.path());
                }
                for dir in real_dirs() {
                    cases::$case(&Direct(FaultFs::new(Arc::new(PosixFileSystem))), dir.path());
                }
            })*
        }
        mod memory {
            use super::{Arc, CrashFs, Direct, FaultFs, FileSystem, MemFs, Path, cases};
            $(#[test] fn $case() {
                let systems: [Arc<dyn FileSystem>; 3] = [
                    Arc::new(Direct(MemFs::new())),
                    Arc::new(Direct(CrashFs::new())),
                    Arc::new(Direct(FaultFs::new(Arc::new(CrashFs::new())))),
                ];
                for fs in systems {
                    fs.create_dir_if_missing(Path::new("/some/dir")).unwrap();
                    cases::$case(&*fs, Path::new("/some/dir"));
                }
            })*
        }
    };
}

cases::with_cases_of_files!(conformance);

#[test]
fn direct_and_buffered_handles_see_the_same_bytes() {
    for dir in real_dirs() {
        let path = dir.path().join("f");
        let data: Vec<u8> = (0..300_000_u32).map(|i| (i * 7 / 3) as u8).collect();
        let mut file = PosixFileSystem.new_direct_writable_file(&path, 64 << 10).unwrap();
        file.append(&data).unwrap();
        file.close().unwrap();
        let [mut buffered, mut direct] = [vec![0; 300_001], vec![0; 300_001]];
        let of = PosixFileSystem.new_random_access_file(&path).unwrap();
        assert_eq!(of.read_at(0, &mut buffered).unwrap(), data.len());
        let of = PosixFileSystem.new_direct_random_access_file(&path).unwrap();
        assert_eq!(of.read_at(0, &mut direct).unwrap(), data.len());
        let alignment = of.alignment().expect("it is past the page cache");
        println!(
            "{}: blocks of {}, memory of {}",
            dir.path().display(),
            alignment.block(),
            alignment.memory()
        );
        assert!(buffered == direct && buffered[..data.len()] == data);
    }
}

/// After a power loss synced bytes are complete, with nothing behind them unless more was written.
#[test]
fn synced_bytes_survive_power_loss_with_their_length() {
    for seed in 0..400 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let disk = CrashFs::new();
        let path = Path::new("/f");
        let mut file = disk.new_direct_writable_file(path, 4096).unwrap();
        disk.new_directory(Path::new("/")).unwrap().fsync().unwrap();
        let (mut model, mut synced) = (Vec::new(), 0);
        for _ in 0..rng.usize(1..12) {
            let data = vec![rng.u8(1..); rng.usize(..3000)];
            file.append(&data).unwrap();
            model.extend_from_slice(&data);
            if rng.u8(..3) == 0 {
                file.sync().unwrap();
                synced = model.len();
            }
        }
        let is_synced = rng.bool();
        if is_synced {
            file.sync().unwrap();
            synced = model.len();
        }
        // Replaces garbage: on a disk it lies behind surviving sectors, but the model would put it
        // into one.
        let choices = CrashChoices::random(seed);
        let choices = if choices.tail == Tail::Garbage {
            CrashChoices { tail: Tail::Zeros, ..choices }
        } else {
            choices
        };
        let after = disk.crash_clone(&choices);
        let mut found = vec![0; 50_000];
        let n = after.new_direct_random_access_file(path).unwrap().read_at(0, &mut found).unwrap();
        assert!(n >= synced && found[..synced] == model[..synced], "seed {seed}: {n} of {synced}");
        if is_synced {
            assert_eq!(n, synced, "seed {seed}: the length is durable");
        }
        file.close().unwrap();
        let killed = disk.crash_clone(&CrashChoices {
            kind: CrashKind::ProcessKill,
            keep_data: Keep::Nothing,
            ..choices
        });
        assert_eq!(killed.file_size(path).unwrap(), model.len() as u64, "seed {seed}");
    }
}

#[test]
fn faults_come_through() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let path = Path::new("/f");
    let mut file = fs.new_direct_writable_file(path, 4096).unwrap();
    fs.add_rule(FaultRule::fail(&[OpKind::Append]).nth(1));
    file.append(&[1; 5000]).unwrap();
    assert!(file.append(&[2; 5000]).is_err());
    file.append(&[3; 5000]).unwrap();
    file.close().unwrap();
    let file = fs.new_direct_random_access_file(path).unwrap();
    fs.add_rule(FaultRule::fail(&[OpKind::Read]).nth(1));
    let mut buf = [0; 200];
    assert_eq!(file.read_at(4900, &mut buf).unwrap(), 200);
    assert_eq!((buf[99], buf[100]), (1, 3));
    assert!(file.read_at(4900, &mut buf).is_err());
    for kind in [OpKind::Open, OpKind::Create] {
        fs.add_rule(FaultRule::fail(&[kind]).nth(0));
    }
    assert!(fs.new_direct_writable_file(path, 1).is_err() && fs.new_direct_sequential_file(path).is_err());
}

#[test]
fn a_file_system_without_it_says_so() {
    let e = PosixFileSystem.new_direct_random_access_file(Path::new("/proc/self/status")).err();
    let e = e.expect("the process file system has no direct I/O");
    assert_eq!(e.kind(), ErrorKind::NotSupported, "{e}");
    let expected =
        "While open a file for random read: /proc/self/status: direct I/O (O_DIRECT) is not supported here";
    assert_eq!(e.message(), expected);
}
