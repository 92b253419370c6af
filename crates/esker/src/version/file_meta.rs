//! One table file of a version: its description in the MANIFEST, and facts that only this process
//! knows.
//!
//! In: a [`FileMetaData`] from an edit. Out: a shared, immutable [`FileMeta`].
//!
//! Invariants
//!  1. All metas of one file number (a file that moves between levels gets a new meta) share one
//!     `TableFile`.
//!  2. When the last meta of an installed file is dropped, its number goes to the [`ObsoleteFiles`]
//!     of its set: no version that a reader may still use names the file. The set decides whether
//!     it may be deleted, because a failed MANIFEST write may have named it
//!     (`VersionSet::files_to_quarantine`).
//!  3. A file's metadata is charged once, for any number of metas
//!     (`CacheEntryRole::kFileMetadata`).

use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::sync::fork::ProcessOwner;
use esker_base::sync::{Arc, Mutex, OnceLock};
use esker_base::{FileNumber, Result, SequenceNumber};
use esker_cache::{Reservation, Role};
use esker_env::descriptors::KeptFile;
use esker_format::file_name::FilePaths;
use esker_format::key;
use esker_format::version_edit::{FileMetaData, VersionEdit};
use esker_table::{BlockCache, CachedBlock, TableReader};
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// One table file as a version names it. The fields of [`FileMetaData`] are reached through
/// `Deref`.
#[derive(Debug)]
pub struct FileMeta {
    data: FileMetaData,
    table: Arc<TableFile>,
    stats: OnceLock<FileStats>,
    kept_for: OnceLock<Arc<[SequenceNumber]>>,
    /// 0: not known to be covered.
    covered_at: AtomicU64,
    hidden_below: AtomicU64,
    level: Option<usize>,
}

/// Facts from a table's properties that its MANIFEST entry lacks. Filled once, by the first open of
/// the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileStats {
    /// Entries of all types.
    pub entries: u64,
    /// Deletions among them, range tombstones included.
    pub deletions: u64,
    /// Range tombstones.
    pub range_deletions: u64,
    /// Merge operands.
    pub operands: u64,
    /// Entries behind a newer one of the same user key; `None` if the table does not say.
    pub older_versions: Option<u64>,
    /// Bytes of user keys and trailers before compression.
    pub raw_key_bytes: u64,
    /// Bytes of values before compression.
    pub raw_value_bytes: u64,
}

impl FileStats {
    /// Whether a compaction to the bottom may drop some of the entries, once no snapshot sees them.
    fn may_lose_entries(&self, largest_seqno: SequenceNumber) -> bool {
        // A table that does not count older versions has none if all its sequence numbers are 0.
        let older = self.older_versions.map_or(largest_seqno > SequenceNumber::ZERO, |count| count > 0);
        older || self.deletions > 0 || self.operands > 0
    }
}

impl FileMeta {
    /// A file that no other meta names yet, in one of these directories. A path id beyond the list
    /// becomes that of the last directory, where the file is.
    pub fn new(mut data: FileMetaData, paths: &FilePaths, obsolete: &Arc<ObsoleteFiles>) -> FileMeta {
        let recorded_path_id = data.path_id;
        data.path_id = paths.listed(data.path_id);
        let table = TableFile {
            number: data.number,
            open: OnceLock::new(),
            paths: paths.clone(),
            recorded_path_id,
            file_size: data.file_size,
            installed: AtomicBool::new(false),
            obsolete: Arc::clone(obsolete),
            sampled_reads: AtomicU64::new(0),
            wasted_reads: AtomicU64::new(0),
            is_hot: AtomicBool::new(false),
            charge: None,
        };
        let table = Arc::new(table);
        FileMeta {
            data,
            table,
            stats: OnceLock::new(),
            kept_for: OnceLock::new(),
            covered_at: AtomicU64::new(0),
            hidden_below: AtomicU64::new(0),
            level: None,
        }
    }

    /// Sets the level.
    pub(super) fn at_level(mut self, level: usize) -> FileMeta {
        self.level = Some(level);
        self
    }

    /// Its level, if it is in a version.
    pub fn level(&self) -> Option<usize> {
        self.level
    }

    /// Charges the file's metadata to this cache, as long as some meta of it lives.
    /// # Errors
    /// `MemoryLimit` if the cache's strict limit has no room.
    pub(super) fn charged_to(mut self, cache: Option<&Arc<BlockCache>>) -> Result<FileMeta> {
        if let Some(cache) = cache {
            let charge = cache.reserve(Role::FileMetadata, self.memory_usage())?;
            Arc::get_mut(&mut self.table).expect("a new file has one meta").charge = Some(charge);
        }
        Ok(self)
    }

    /// Bytes of memory, without its open table.
    pub fn memory_usage(&self) -> usize {
        let data = &self.data;
        let vectors = [&data.smallest, &data.largest, &data.min_timestamp, &data.max_timestamp];
        let checksum = data.file_checksum.as_ref().map_or(0, |(sum, name)| sum.capacity() + name.capacity());
        let heap = vectors.iter().map(|bytes| bytes.capacity()).sum::<usize>() + checksum;
        size_of::<FileMeta>() + size_of::<TableFile>() + heap
    }

    /// A meta outside of any set, for tests and tools: dropping it marks nothing obsolete.
    pub fn detached(data: FileMetaData) -> FileMeta {
        FileMeta::new(data, &FilePaths::one(""), &Arc::new(ObsoleteFiles::default()))
    }

    /// The same file under another description (another level, an inferred epoch).
    #[must_use]
    pub fn redescribed(&self, data: FileMetaData) -> FileMeta {
        debug_assert_eq!(self.data.number, data.number, "the description is that of another file");
        let (table, stats, kept_for) = (Arc::clone(&self.table), self.stats.clone(), self.kept_for.clone());
        let covered_at = AtomicU64::new(self.covered_at.load(Ordering::Relaxed));
        let hidden_below = AtomicU64::new(0);
        FileMeta { data, table, stats, kept_for, covered_at, hidden_below, level: None }
    }

    /// Marks the file as installed: when its last version is dropped, it is reported as obsolete.
    pub(super) fn set_installed(&self) {
        self.table.installed.store(true, Ordering::Relaxed);
    }

    /// Counts gets that looked in the table, by a sample.
    pub(crate) fn add_sampled_reads(&self, reads: u64) {
        self.table.sampled_reads.fetch_add(reads, Ordering::Relaxed);
    }

    /// Gets that looked in the table, as estimated from samples.
    pub(crate) fn sampled_reads(&self) -> u64 {
        self.table.sampled_reads.load(Ordering::Relaxed)
    }

    /// Counts gets that found no value in the table. Returns whether there are more than
    /// `threshold` a byte, once for a table, until [`FileMeta::forget_wasted_reads`].
    pub(crate) fn add_wasted_reads(&self, reads: u64, threshold: f64) -> bool {
        let wasted = self.table.wasted_reads.fetch_add(reads, Ordering::Relaxed) + reads;
        wasted as f64 > threshold * self.data.file_size as f64
            && !self.table.is_hot.swap(true, Ordering::Relaxed)
    }

    /// Counts anew: the table has moved.
    pub(crate) fn forget_wasted_reads(&self) {
        self.table.wasted_reads.store(0, Ordering::Relaxed);
        self.table.is_hot.store(false, Ordering::Relaxed);
    }

    /// Whether reads have made it due for a compaction.
    pub(crate) fn is_hot(&self) -> bool {
        self.table.is_hot.load(Ordering::Relaxed)
    }

    /// Its description in the MANIFEST.
    pub fn data(&self) -> &FileMetaData {
        &self.data
    }

    /// Its path, by RocksDB's name of tables.
    pub fn path(&self) -> PathBuf {
        self.table.paths.table(self.data.path_id, self.data.number)
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        self.table.paths.directory(self.data.path_id)
    }

    /// The path id in the MANIFEST when the file was first named. It may be beyond the family's
    /// paths.
    pub(super) fn recorded_path_id(&self) -> u32 {
        self.table.recorded_path_id
    }

    /// The user key of its lower bound.
    #[inline]
    pub fn smallest_user_key(&self) -> &[u8] {
        key::user_key(&self.data.smallest)
    }

    /// The user key of its upper bound; outside of the file if [`FileMeta::largest_is_exclusive`].
    #[inline]
    pub fn largest_user_key(&self) -> &[u8] {
        key::user_key(&self.data.largest)
    }

    /// Whether its upper bound is the end of a range tombstone, so that the file holds nothing at
    /// that user key.
    #[inline]
    pub fn largest_is_exclusive(&self) -> bool {
        key::trailer(&self.data.largest) == key::RANGE_END_SENTINEL
    }

    /// Facts from its properties, if they were read.
    #[inline]
    pub fn stats(&self) -> Option<&FileStats> {
        self.stats.get()
    }

    /// Time at which the file was written, in Unix seconds. If that is unknown, the age of its
    /// data; 0 if both are unknown.
    #[inline]
    pub fn write_time(&self) -> u64 {
        match self.file_creation_time {
            0 => self.oldest_ancestor_time,
            time => time,
        }
    }

    /// Records that range tombstones up to this sequence number delete all entries of the file.
    /// Returns whether that is news; the first call counts. It stays true: a tombstone is dropped
    /// only together with all entries that it deletes, or if a newer one that every reader sees
    /// covers the same keys.
    pub fn set_covered_at(&self, sequence: SequenceNumber) -> bool {
        self.covered_at.compare_exchange(0, sequence.0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The sequence number from which on range tombstones are known to delete all its entries.
    pub fn covered_at(&self) -> Option<SequenceNumber> {
        Some(SequenceNumber(self.covered_at.load(Ordering::Relaxed))).filter(|s| *s > SequenceNumber::ZERO)
    }

    /// Records that its range tombstones hide about `bytes` more in files below it.
    pub fn add_hidden_below(&self, bytes: u64) {
        self.hidden_below.fetch_add(bytes, Ordering::Relaxed);
    }

    /// About how many bytes its range tombstones hide in files below it, blobs included. Files that
    /// can be dropped unread do not count.
    pub fn hidden_below(&self) -> u64 {
        self.hidden_below.load(Ordering::Relaxed)
    }

    /// Records that a compaction to the bottom wrote it and kept only entries that these live
    /// snapshots (ascending) see.
    pub fn set_kept_for(&self, snapshots: &Arc<[SequenceNumber]>) {
        self.kept_for.get_or_init(|| Arc::clone(snapshots));
    }

    /// Whether a compaction to the bottom wrote it and kept nothing for snapshots: another
    /// compaction would write the same entries.
    pub fn is_settled(&self) -> bool {
        self.is_settled_for(&[])
    }

    /// Whether a compaction to the bottom wrote it and kept only entries that `snapshots`
    /// (ascending) still see.
    pub fn is_settled_for(&self, snapshots: &[SequenceNumber]) -> bool {
        let Some(kept_for) = self.kept_for.get() else { return false };
        // Snapshots after its newest entry see its newest versions, as every reader does.
        let parted = kept_for.partition_point(|s| *s < self.data.largest_seqno);
        kept_for[..parted].iter().all(|s| snapshots.binary_search(s).is_ok())
    }

    /// Whether a compaction to the bottom may drop some of its entries, once no snapshot sees them,
    /// by its properties. Unread properties count as yes, unless all its sequence numbers are 0.
    pub fn may_lose_entries(&self) -> bool {
        match self.stats() {
            Some(stats) => stats.may_lose_entries(self.data.largest_seqno),
            None => self.data.largest_seqno > SequenceNumber::ZERO,
        }
    }

    /// Its open table, if it is kept open.
    #[inline]
    pub fn open_table(&self) -> Option<&Arc<TableReader>> {
        self.table.open.get().map(|(reader, _)| reader)
    }

    /// Keeps `reader` open as long as the file lives. Returns the kept reader: the first one given.
    pub fn keep_open(&self, reader: Arc<TableReader>) -> &Arc<TableReader> {
        &self.table.open.get_or_init(|| (reader, KeptFile::new())).0
    }

    /// Whether the file may have range tombstones. False only if the file's properties are loaded
    /// and exclude them.
    #[inline]
    pub fn may_have_range_deletions(&self) -> bool {
        self.stats().is_none_or(|s| s.range_deletions > 0)
    }

    /// Stores facts from its properties; the first call wins, since all read the same file.
    pub fn set_stats(&self, stats: FileStats) {
        self.stats.get_or_init(|| stats);
    }
}

impl Deref for FileMeta {
    type Target = FileMetaData;
    #[inline]
    fn deref(&self) -> &FileMetaData {
        #[cfg(test)]
        LOOKS.set(LOOKS.get() + 1);
        &self.data
    }
}

#[cfg(test)]
thread_local! {
    /// Number of files that this thread has read. Tests find loops over all files with it.
    pub(crate) static LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A table file on disk, as long as some version names it.
#[derive(Debug)]
struct TableFile {
    number: FileNumber,
    /// The open table, in a database whose tables stay open.
    open: OnceLock<(Arc<TableReader>, KeptFile)>,
    paths: FilePaths,
    recorded_path_id: u32,
    file_size: u64,
    /// Whether a logged edit has named the table. Until then its writer is responsible for it, and
    /// may try the edit again.
    installed: AtomicBool,
    obsolete: Arc<ObsoleteFiles>,
    /// Gets that looked in the table, as estimated from samples.
    sampled_reads: AtomicU64,
    /// Gets that looked in the table and found no value there, as estimated from samples. Stays 0
    /// without `read_triggered_compaction_threshold`.
    wasted_reads: AtomicU64,
    /// Whether `wasted_reads` has passed the threshold.
    is_hot: AtomicBool,
    /// The charge for its metadata, if there is one.
    charge: Option<Reservation<CachedBlock>>,
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if !self.installed.load(Ordering::Relaxed) || !self.obsolete.are_ours() {
            return;
        }
        let TableFile { number, recorded_path_id: path_id, file_size, .. } = *self;
        let paths = self.paths.clone();
        let open = self.open.get().map(|(reader, _)| reader);
        let uncaches = |reader: &&Arc<TableReader>| {
            reader.uncache_aggressiveness() > 0 && !self.obsolete.has_lost_database()
        };
        let reader = open.filter(uncaches).cloned();
        self.obsolete.tables.lock().push(ObsoleteTable { number, paths, path_id, file_size, reader });
        self.obsolete.notify();
    }
}

/// A table that no version names any more.
#[derive(Clone, Debug)]
pub struct ObsoleteTable {
    /// Its file.
    pub number: FileNumber,
    /// The directories of its family.
    pub paths: FilePaths,
    /// The index of its directory among them.
    pub path_id: u32,
    /// Size in bytes.
    pub file_size: u64,
    /// Its reader, if tables stay open and the family has an `uncache_aggressiveness`.
    pub reader: Option<Arc<TableReader>>,
}

impl ObsoleteTable {
    /// Its path, by RocksDB's name of tables.
    pub fn path(&self) -> PathBuf {
        self.paths.table(self.path_id, self.number)
    }
}

/// A blob file that no version names any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObsoleteBlob {
    /// Its file.
    pub number: FileNumber,
    /// The directories of its family.
    pub paths: FilePaths,
}

impl ObsoleteBlob {
    /// Its path.
    pub fn path(&self) -> PathBuf {
        self.paths.blob(self.number)
    }
}

/// The tables and blob files that an edit of a family with these directories names.
pub(super) fn files_of_edit(
    edit: &VersionEdit,
    paths: &FilePaths,
) -> (impl Iterator<Item = ObsoleteTable>, impl Iterator<Item = ObsoleteBlob>) {
    let tables = edit.new_files.iter().map(move |(_, file)| ObsoleteTable {
        number: file.number,
        paths: paths.clone(),
        path_id: file.path_id,
        file_size: file.file_size,
        reader: None,
    });
    let blobs = edit.blob_file_additions.iter();
    (tables, blobs.map(move |blob| ObsoleteBlob { number: blob.number, paths: paths.clone() }))
}

/// Numbers of table and blob files that no version names any more, until they are taken.
///
/// Its locks are leaves: no lock is taken under them, and they may be taken under any other
/// (dropping a version does).
#[derive(Default)]
pub struct ObsoleteFiles {
    tables: Mutex<Vec<ObsoleteTable>>,
    blobs: Mutex<Vec<ObsoleteBlob>>,
    /// Called for each new obsolete file, by the thread that dropped its last super version, under
    /// any locks.
    on_obsolete: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Whether the database is gone. Only handles of families may be left then.
    without_database: AtomicBool,
    process: Process,
}

/// The process whose files they are.
struct Process(ProcessOwner);

impl Default for Process {
    fn default() -> Process {
        Process(ProcessOwner::here())
    }
}

impl fmt::Debug for ObsoleteFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObsoleteFiles").field(&*self.tables.lock()).field(&*self.blobs.lock()).finish()
    }
}

impl ObsoleteFiles {
    /// Sets a function that is called whenever a file becomes obsolete, on any thread, under any
    /// lock. The function may only hand work to others. The first caller's function stays.
    pub fn on_obsolete(&self, notify: impl Fn() + Send + Sync + 'static) {
        self.on_obsolete.get_or_init(|| Box::new(notify));
    }

    /// Whether this process owns the files. A forked child that drops a super version must not
    /// delete its parent's files.
    pub(super) fn are_ours(&self) -> bool {
        self.process.0.is_here()
    }

    /// Takes all tables.
    pub fn take_tables(&self) -> Vec<ObsoleteTable> {
        std::mem::take(&mut *self.tables.lock())
    }

    /// Bytes of the tables not yet taken.
    pub fn table_bytes(&self) -> u64 {
        self.tables.lock().iter().map(|table| table.file_size).sum()
    }

    /// Takes all blob files.
    pub fn take_blobs(&self) -> Vec<ObsoleteBlob> {
        std::mem::take(&mut *self.blobs.lock())
    }

    /// Adds a blob file that has lost its last version.
    pub(super) fn add_blob(&self, blob: ObsoleteBlob) {
        self.blobs.lock().push(blob);
        self.notify();
    }

    /// Gives blob files back that may not be deleted yet.
    pub fn put_back_blobs(&self, blobs: impl IntoIterator<Item = ObsoleteBlob>) {
        self.blobs.lock().extend(blobs);
    }

    /// Requests another search for obsolete files: a super version is freed when its running reads
    /// end.
    pub(crate) fn search_again(&self) {
        if self.are_ours() {
            self.notify();
        }
    }

    /// Notes that the database is gone.
    pub(crate) fn lose_database(&self) {
        self.without_database.store(true, Ordering::Release);
    }

    /// Whether the database is gone: nothing that runs will advance the epoch.
    pub(crate) fn has_lost_database(&self) -> bool {
        self.without_database.load(Ordering::Acquire)
    }

    /// Counts one more file to delete.
    pub(super) fn notify(&self) {
        if let Some(notify) = self.on_obsolete.get() {
            notify();
        }
    }

    /// Gives tables back that may not be deleted yet.
    pub fn put_back(&self, tables: impl IntoIterator<Item = ObsoleteTable>) {
        self.tables.lock().extend(tables);
    }
}
