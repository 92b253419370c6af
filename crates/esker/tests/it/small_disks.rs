//! Nearly full disks: space that a database reserves, and files that a failed opening leaves.
#![allow(clippy::disallowed_methods, reason = "what is tested here is on the real file system")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

use esker::internals::env::FaultFs;
use esker::internals::env::mem::MemFs;
use esker::{Db, Env, Options};
use esker_testkit::TempDir;
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.avoid_flush_during_shutdown = true;
    options
}

/// Bytes that the files of a directory take on the disk.
fn bytes_on_disk(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().blocks() * 512).sum()
}

fn names(dir: &Path) -> BTreeSet<String> {
    let files = std::fs::read_dir(dir).unwrap();
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

/// RocksDB 7.8.3 reserves 4 MiB for the MANIFEST, and nothing for a WAL that has no record.
#[test]
fn disk_is_reserved_in_proportion_to_what_is_written() {
    let dir = TempDir::new("reserved");
    let mut options = options();
    options.cf.write_buffer_size = 64 << 20;
    let db = Db::open(&options, dir.path()).unwrap();
    let opened = bytes_on_disk(dir.path());
    assert!(opened < 5 * MIB, "{opened} bytes for a database that has nothing");
    db.put("key", "value").unwrap();
    let first = bytes_on_disk(dir.path()) - opened;
    assert!(first < 2 * MIB, "{first} bytes for one key");
    for i in 0..32 {
        db.put(format!("{i}"), vec![i; 1 << 20]).unwrap();
    }
    let more = bytes_on_disk(dir.path()) - opened;
    assert!((32 * MIB..72 * MIB).contains(&more), "{more} bytes for 32 MiB");
    db.close().unwrap();
    drop(db);
    let closed = bytes_on_disk(dir.path());
    assert!(closed < 33 * MIB, "{closed} bytes for 32 MiB, when closed");
}

#[test]
fn limits_on_wals_and_memtables_are_limits_on_what_is_reserved() {
    let limits: [fn(&mut Options); 3] = [
        |options| options.db.max_total_wal_size = 64 << 10,
        |options| options.db.db_write_buffer_size = 64 << 10,
        |options| options.db.allow_fallocate = false,
    ];
    for limit in limits {
        let dir = TempDir::new("limited");
        let mut options = options();
        limit(&mut options);
        let db = Db::open(&options, dir.path()).unwrap();
        db.put("key", "value").unwrap();
        let taken = bytes_on_disk(dir.path());
        let manifest = if options.db.allow_fallocate { 4 * MIB } else { 0 };
        assert!(taken <= manifest + (256 << 10), "{taken} bytes for one key");
    }
}

/// A file system of its own, until it is dropped.
struct Mounted {
    dir: TempDir,
    at: PathBuf,
}

impl Mounted {
    /// Mounts a file system. `None` if this process may not mount; a message says so.
    fn new(kind: &str, mebibytes: u64) -> Option<Mounted> {
        let dir = TempDir::new(kind);
        let at = dir.join("at");
        std::fs::create_dir(&at).unwrap();
        let size = format!("size={mebibytes}m");
        let image = dir.join("image");
        let is_done = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let is_mounted = if kind == "tmpfs" {
            is_done(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&at))
        } else {
            std::fs::File::create(&image).unwrap().set_len(mebibytes * MIB).unwrap();
            is_done(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image))
                && is_done(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&at))
        };
        if !is_mounted {
            println!("skipped on {kind}: this process may not mount one");
            return None;
        }
        Some(Mounted { dir, at })
    }

    /// Fills the disk until `left` bytes remain; returns the path of the filler.
    fn fill(&self, left: u64) -> PathBuf {
        let filler = self.at.join("filler");
        let mut file = std::fs::File::create(&filler).unwrap();
        let mut bytes = vec![1; 1 << 20];
        while !bytes.is_empty() {
            if file.write_all(&bytes).is_err() {
                bytes.truncate(bytes.len() / 2);
            }
        }
        file.set_len(file.metadata().unwrap().len() - left).unwrap();
        file.sync_all().unwrap();
        filler
    }

    /// Deletes a filler. A child that another test has just forked may have it open until its exec:
    /// only the truncation frees the room at once.
    fn free(filler: &Path) {
        std::fs::File::create(filler).unwrap();
        std::fs::remove_file(filler).unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a child that another test has just forked may have files of it open.
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.at).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "{}", self.dir.path().display());
    }
}

#[test]
fn a_small_database_opens_on_a_disk_with_little_room_or_leaves_it_as_it_was() {
    for kind in ["ext4", "tmpfs"] {
        let Some(disk) = Mounted::new(kind, 96) else { continue };
        let path = disk.at.join("db");
        let db = Db::open(&options(), &path).unwrap();
        (0..200).for_each(|i| db.put(format!("{i}"), [7; 100]).unwrap());
        db.close().unwrap();
        drop(db);
        for left in [50 * MIB, 10 * MIB, MIB, 200 << 10, 64 << 10, 20 << 10, 8 << 10, 0] {
            let filler = disk.fill(left);
            let before = names(&path);
            match Db::open(&options(), &path) {
                Ok(db) => {
                    assert_eq!(db.get("199").unwrap().unwrap(), [7; 100], "{kind}, {left} bytes left");
                    if left >= MIB {
                        db.put("more", vec![1; 10_000]).unwrap();
                        db.flush().unwrap();
                    }
                    db.close().unwrap();
                }
                Err(e) => {
                    assert!(left < MIB, "{kind}, {left} bytes left: {e}");
                    let made: Vec<_> = names(&path).difference(&before).cloned().collect();
                    assert!(made.iter().all(|name| name.starts_with("LOG")), "{kind}, {left}: {made:?}");
                }
            }
            Mounted::free(&filler);
            let db = Db::open(&options(), &path).unwrap();
            assert_eq!(db.get("199").unwrap().unwrap(), [7; 100], "{kind} after {left} bytes left");
            db.close().unwrap();
        }
    }
}

/// The disk becomes full at each possible step of creating or opening a database.
#[test]
fn a_failed_opening_leaves_no_file_behind() {
    let mut failures = 0;
    for is_new in [true, false] {
        let fs = Arc::new(MemFs::new());
        let faults = Arc::new(FaultFs::new(fs));
        let mut options = options();
        options.db.env = Env::with_fs(faults.clone());
        options.cf.enable_blob_files = true;
        options.cf.min_blob_size = 50;
        if !is_new {
            let db = Db::open(&options, "/db").unwrap();
            (0..20).for_each(|i| db.put(format!("{i}"), [7; 100]).unwrap());
            db.close().unwrap();
        }
        let list = || -> BTreeSet<String> {
            let fs = &options.db.env.fs;
            let mut names = fs.children("/db".as_ref()).unwrap_or_default();
            names.retain(|name| !name.starts_with("LO"));
            names.into_iter().collect()
        };
        let current = || {
            let mut name = vec![0; 100];
            let file = options.db.env.fs.new_sequential_file("/db/CURRENT".as_ref());
            file.map(|mut file| file.read(&mut name).map(|_| name).unwrap()).ok()
        };
        let (before, in_force) = (list(), current());
        for left in 0.. {
            // Steps of a prime, so that the disk ends at any place of a record.
            faults.no_space_after(Some(left * 61));
            let opened = Db::open(&options, "/db");
            faults.no_space_after(None);
            match opened {
                Ok(_) => break,
                // The new MANIFEST is in force and names the new files.
                Err(_) if current() != in_force => break,
                Err(e) => {
                    failures += 1;
                    assert_eq!(list(), before, "{left}: {e}");
                }
            }
        }
        let db = Db::open(&options, "/db").unwrap();
        assert_eq!(db.get("19").unwrap().is_some(), !is_new);
    }
    assert!(failures > 20, "{failures}");
}
