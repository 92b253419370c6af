//! A second database that shares this one's tables, as they are at one point in time.
//!
//! In: an open database, and a directory that does not exist yet. Out: a directory that opens by
//! itself. Tables and blob files are hard links (copies on another file system). MANIFEST and WALs
//! are copied up to their length at that time.
//!
//! Invariants
//!  1. The directory has its name only when everything in it is durable; until then it ends in
//!     `.tmp`.
//!  2. The copy is of one point in time of all families: writers and MANIFEST are blocked while the
//!     list is made, not while files are copied.
//!  3. No listed file is deleted before it is linked: file deletions are off from before the list
//!     to the end.
//!
//! Source: RocksDB `utilities/checkpoint/checkpoint_impl.cc`.

mod export;
mod storage_info;

use crate::db::{Db, LiveCut};
use crate::engine::UnderWay;
use crate::files::{copy_file, link_or_copy, under_either_name};
use esker_base::stats::{Ticker, record_tick};
use esker_base::sync::Arc;
use esker_base::{Error, Result, SequenceNumber};
use esker_env::FileSystem;
use esker_format::file_name;
use std::path::{Path, PathBuf};

impl Db {
    /// Makes `directory`, which must not exist, a database with the contents of this one, and
    /// returns the newest sequence number in it. Memtables are flushed first if the WALs have
    /// `log_size_for_flush` bytes or more (0: always); otherwise the WALs are copied. Entries
    /// written without a WAL are in the checkpoint only after a flush. A database that is open for
    /// reading only copies its WALs.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.join("db"))?;
    /// db.put("esker", "gravel")?;
    /// db.create_checkpoint(dir.join("copy"), 0)?;
    /// let copy = esker::Db::open_default(dir.join("copy"))?;
    /// assert!(copy.contains_key("esker")?);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the directory exists, or has no parent · `NotSupported` in a secondary ·
    /// `TryAgain` if the database is open for reading only and its owner has changed it since: open
    /// it again · the background error in force · `IoError`. After an error the partial checkpoint
    /// is removed, or stays in `directory.tmp`, which the next checkpoint of that name replaces.
    pub fn create_checkpoint(
        &self,
        directory: impl AsRef<Path>,
        log_size_for_flush: u64,
    ) -> Result<SequenceNumber> {
        let env = self.db_options().env;
        let fs = env.fs.as_ref();
        let directory = without_slash_behind(&fs.absolute_path(directory.as_ref())?);
        if fs.file_exists(&directory)? {
            return Err(Error::invalid_argument("checkpoint: Directory exists").at(directory.display()));
        }
        let Some(parent) = directory.parent() else {
            return Err(Error::invalid_argument("checkpoint: no parent directory").at(directory.display()));
        };
        let mut staging = directory.clone().into_os_string();
        staging.push(".tmp");
        let staging = PathBuf::from(staging);
        remove_staging(fs, &staging)?;
        let undeletable = KeepFiles::new(self)?;
        let reads_only = self.engine().read_only;
        let cut = if reads_only { self.cut_of_reader()? } else { self.live_cut(log_size_for_flush)? };
        let made = self
            .fill(&env.fs, &staging, &cut)
            .and_then(|()| if reads_only { self.check_owner_stands_still() } else { Ok(()) })
            .and_then(|()| publish(fs, &staging, &directory, parent));
        drop(undeletable);
        if let Err(e) = made {
            // The first error is the one to return.
            remove_staging(fs, &staging).unwrap_or_default();
            return Err(e);
        }
        Ok(cut.last_sequence)
    }

    fn count_copy(&self, bytes: u64) {
        let statistics = &self.engine().options.statistics;
        record_tick(statistics, Ticker::CheckpointReadBytes, bytes);
        record_tick(statistics, Ticker::CheckpointWriteBytes, bytes);
    }

    fn fill(&self, fs: &Arc<dyn FileSystem>, staging: &Path, cut: &LiveCut) -> Result<()> {
        fs.create_dir_if_missing(staging)?;
        for file in cut.tables.iter().chain(&cut.blobs) {
            self.engine().check_open()?;
            let name = file.file_name().unwrap_or_default();
            let target = staging.join(name);
            self.count_copy(under_either_name(file, |file| link_or_copy(fs.as_ref(), file, &target))?);
        }
        for (wal, bytes) in &cut.wals {
            copy_file(fs.as_ref(), wal, &staging.join(wal.file_name().unwrap_or_default()), *bytes)?;
            self.count_copy(*bytes);
        }
        let (manifest, bytes) = cut.manifest;
        cut.copy_manifest(fs, staging)?;
        self.count_copy(bytes);
        self.inner.save_options_in(staging, cut.options_number)?;
        write_file(
            fs.as_ref(),
            &file_name::current_file_name(staging),
            file_name::current_contents(manifest).as_bytes(),
        )?;
        fs.new_directory(staging)?.fsync()
    }
}

/// The same path without a trailing slash, so that an extension joins its last name.
fn without_slash_behind(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Durably gives the finished directory its name.
fn publish(fs: &dyn FileSystem, staging: &Path, directory: &Path, parent: &Path) -> Result<()> {
    fs.rename(staging, directory)?;
    fs.new_directory(parent).and_then(|opened| opened.fsync()).map_err(|e| {
        match fs.rename(directory, staging) {
            Ok(()) => e,
            Err(_) => e.at(format_args!("{} is there, perhaps not for good", directory.display())),
        }
    })
}

/// While this lives, no file is deleted, even if a caller enables file deletions, and the database
/// does not close.
pub(crate) struct KeepFiles<'a>(&'a Db, #[expect(dead_code, reason = "held")] UnderWay<'a>);

impl<'a> KeepFiles<'a> {
    /// Disables file deletions.
    /// # Errors
    /// `ShutdownInProgress`.
    pub(crate) fn new(db: &'a Db) -> Result<KeepFiles<'a>> {
        let under_way = UnderWay::begin(db.engine())?;
        db.engine().state.lock().files_kept += 1;
        Ok(KeepFiles(db, under_way))
    }
}

impl Drop for KeepFiles<'_> {
    fn drop(&mut self) {
        let engine = self.0.engine();
        engine.state.lock().files_kept -= 1;
        engine.purger.request();
    }
}

/// Removes the rest of an unfinished checkpoint.
fn remove_staging(fs: &dyn FileSystem, staging: &Path) -> Result<()> {
    if !fs.file_exists(staging)? {
        return Ok(());
    }
    for name in fs.children(staging)? {
        fs.delete_file(&staging.join(name))?;
    }
    fs.delete_dir(staging)
}

fn write_file(fs: &dyn FileSystem, path: &Path, contents: &[u8]) -> Result<()> {
    let mut file = fs.new_writable_file(path)?;
    file.append(contents)?;
    file.fsync()?;
    file.close()
}

#[cfg(test)]
mod tests;
