//! The files of one column family at one point in time.
//!
//! In: a builder's result. Out: an immutable value that readers pin through their SuperVersion.
//! Source of the order within level 0: RocksDB `db/version_builder.cc`.

use super::blob_meta::{BlobFileMeta, BlobFiles, LiveBlobFiles};
use super::file_picker::Candidates;
use super::findings::{Findings, Garbage};
use super::{EPOCH_BEHIND_ALL, FileMeta, Level};
use crate::observe::BlobFileStats;
use esker_base::sync::{Arc, OnceLock};
use esker_base::{ColumnFamilyId, FileNumber, SequenceNumber};
use esker_format::file_name::FilePaths;
use esker_format::key::InternalKeyComparator;
use esker_table::BlockCache;
use std::collections::BTreeMap;
use std::fmt;

/// The files of one family at one point in time. Immutable; share it by `Arc`.
pub struct Version {
    pub(super) column_family: ColumnFamilyId,
    pub(super) number: u64,
    pub(super) icmp: InternalKeyComparator,
    pub(super) levels: Box<[Arc<Level>]>,
    /// Files that the previous version did not have, or had on another level.
    pub(super) new_files: Vec<Arc<FileMeta>>,
    /// Covered files ([`Version::covered`]) that the previous version knew, sorted by
    /// [`FileMeta::covered_at`]. `covered_now` has the covered files found since.
    pub(super) covered_before: Box<[Arc<FileMeta>]>,
    pub(super) covered_now: OnceLock<Box<[Arc<FileMeta>]>>,
    pub(super) garbage: OnceLock<Box<[Garbage]>>,
    /// Pickers' findings about each level.
    pub(super) findings: Box<[Findings]>,
    pub(super) blob_files: Arc<BlobFiles>,
    pub(super) blob_bytes: OnceLock<u64>,
    /// References that keep the blob files on disk.
    pub(super) live_blob_files: Arc<LiveBlobFiles>,
    pub(super) compact_cursors: BTreeMap<usize, Vec<u8>>,
    pub(super) full_history_ts_low: Vec<u8>,
    /// The directories of the family's tables and blob files.
    pub(super) paths: FilePaths,
    /// The cache that is charged for the tables' metadata.
    pub(super) metadata_cache: Option<Arc<BlockCache>>,
    pub(super) reserves_last_level: bool,
}

impl Version {
    /// A version without files.
    pub fn empty(column_family: ColumnFamilyId, icmp: InternalKeyComparator, num_levels: usize) -> Version {
        Version {
            column_family,
            number: 0,
            icmp,
            levels: (0..num_levels).map(|_| Arc::new(Level::default())).collect(),
            new_files: Vec::new(),
            covered_before: Box::default(),
            covered_now: OnceLock::new(),
            garbage: OnceLock::new(),
            findings: (0..num_levels).map(|_| Findings::default()).collect(),
            blob_files: Arc::default(),
            blob_bytes: OnceLock::new(),
            live_blob_files: Arc::default(),
            compact_cursors: BTreeMap::new(),
            full_history_ts_low: Vec::new(),
            paths: FilePaths::one(""),
            metadata_cache: None,
            reserves_last_level: false,
        }
    }

    /// The version with its files in these directories.
    #[must_use]
    pub fn in_paths(self, paths: FilePaths) -> Version {
        Version { paths, ..self }
    }

    /// The version with the metadata of its tables charged to this cache.
    #[must_use]
    pub fn charged_to(self, metadata_cache: Option<Arc<BlockCache>>) -> Version {
        Version { metadata_cache, ..self }
    }

    /// The version with its last level kept for files that are ingested behind all others.
    #[must_use]
    pub fn reserving_last_level(self, reserves_last_level: bool) -> Version {
        Version { reserves_last_level, ..self }
    }

    /// The directories of the family's tables and blob files.
    pub fn paths(&self) -> &FilePaths {
        &self.paths
    }

    /// The family of the files.
    pub fn column_family(&self) -> ColumnFamilyId {
        self.column_family
    }

    /// The version's number, for logs. A newer version of the set has a higher number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The order of the family's keys.
    #[inline]
    pub fn icmp(&self) -> &InternalKeyComparator {
        &self.icmp
    }

    /// Number of levels of the family.
    #[inline]
    pub fn num_levels(&self) -> usize {
        self.levels.len()
    }

    /// Whether files may be ingested behind all others at any time (`cf_allow_ingest_behind`), so
    /// that each deletion and each sequence number may still have a meaning.
    #[inline]
    pub fn reserves_last_level(&self) -> bool {
        self.reserves_last_level
    }

    /// The least epoch number of a file that was not ingested behind all others.
    pub fn first_epoch(&self) -> u64 {
        if self.reserves_last_level { EPOCH_BEHIND_ALL + 1 } else { 1 }
    }

    /// The deepest level into which universal compactions write.
    pub fn max_output_level(&self) -> usize {
        self.num_levels().saturating_sub(1 + usize::from(self.reserves_last_level))
    }

    /// All levels, level 0 first.
    #[inline]
    pub fn levels(&self) -> &[Arc<Level>] {
        &self.levels
    }

    /// The files of a level: level 0 newest first, deeper levels by key.
    #[inline]
    pub fn files(&self, level: usize) -> &[Arc<FileMeta>] {
        self.levels[level].files()
    }

    /// Every file with its level, level 0 first.
    pub fn all_files(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        self.levels.iter().enumerate().flat_map(|(level, l)| l.files().iter().map(move |f| (level, f)))
    }

    /// Files that the previous version did not have, or had on another level.
    pub fn new_files(&self) -> &[Arc<FileMeta>] {
        &self.new_files
    }

    /// Files whose entries are all known to be deleted by range tombstones:
    /// [`FileMeta::covered_at`].
    pub fn covered(&self) -> impl Iterator<Item = &Arc<FileMeta>> {
        self.covered_before.iter().chain(self.covered_now.get().into_iter().flatten())
    }

    /// The files whose entries are all deleted for a reader at `oldest`, by range tombstones. Cost:
    /// two binary searches, and a step for each of these files.
    pub(crate) fn covered_up_to(&self, oldest: SequenceNumber) -> impl Iterator<Item = &Arc<FileMeta>> {
        let now = self.covered_now.get().map_or(&[][..], |found| found);
        [&self.covered_before[..], now].into_iter().flat_map(move |files| {
            let seen = files.partition_point(|f| f.covered_at().is_some_and(|at| at <= oldest));
            &files[..seen]
        })
    }

    /// The lowest sequence number above `oldest` at which [`Version::covered_up_to`] returns more
    /// files; `None` if there is no such number.
    pub(crate) fn next_covered(&self, oldest: SequenceNumber) -> Option<SequenceNumber> {
        let now = self.covered_now.get().map_or(&[][..], |found| found);
        let next = |files: &[Arc<FileMeta>]| {
            let seen = files.partition_point(|f| f.covered_at().is_some_and(|at| at <= oldest));
            files.get(seen).and_then(|f| f.covered_at())
        };
        next(&self.covered_before).into_iter().chain(next(now)).min()
    }

    /// Records files that were newly found to be [`Version::covered`]. Later calls have no effect.
    pub(crate) fn set_covered(&self, mut files: Vec<Arc<FileMeta>>) {
        files.sort_by_key(|file| file.covered_at());
        self.covered_now.get_or_init(|| files.into());
    }

    /// Files whose compaction frees enough garbage. The first call computes them with `find`.
    pub(crate) fn garbage(&self, find: impl FnOnce() -> Box<[Garbage]>) -> &[Garbage] {
        self.garbage.get_or_init(find)
    }

    /// [`Version::garbage`], if it has been computed; else empty.
    pub(crate) fn known_garbage(&self) -> &[Garbage] {
        self.garbage.get().map_or(&[], |found| found)
    }

    /// Pickers' findings about a level.
    pub(crate) fn findings(&self, level: usize) -> &Findings {
        &self.findings[level]
    }

    /// Number of files in all levels.
    pub fn num_all_files(&self) -> usize {
        self.levels.iter().map(|l| l.files().len()).sum()
    }

    /// The highest file number; 0 without files.
    pub fn newest_file(&self) -> FileNumber {
        self.levels.iter().map(|l| l.newest_file()).max().unwrap_or_default()
    }

    /// Number of files in a level.
    pub fn num_files(&self, level: usize) -> usize {
        self.levels[level].files().len()
    }

    /// Bytes of the files of a level.
    pub fn size(&self, level: usize) -> u64 {
        self.levels[level].bytes()
    }

    /// Bytes of all table files.
    pub fn total_size(&self) -> u64 {
        self.levels.iter().map(|l| l.bytes()).sum()
    }

    /// Estimates the bytes that a full compaction would leave, like RocksDB's
    /// `VersionStorageInfo::EstimateLiveDataSize`. Counts live blobs, the files of the deepest
    /// level, and each file of a higher level that overlaps no counted file.
    pub fn estimate_live_data_size(&self) -> u64 {
        // The counted files, in key order. They do not overlap each other.
        let mut counted: Vec<&FileMeta> = Vec::new();
        for file in self.levels.iter().rev().flat_map(|level| level.files().iter()) {
            let ends_before = |other: &&FileMeta| self.icmp.compare(&other.largest, &file.smallest).is_lt();
            let at = counted.partition_point(ends_before);
            let is_apart = |behind: &&FileMeta| self.icmp.compare(&file.largest, &behind.smallest).is_lt();
            if counted.get(at).is_none_or(is_apart) {
                counted.insert(at, file);
            }
        }
        let blobs =
            self.blob_files.values().map(|blob| blob.addition.total_blob_bytes - blob.garbage_blob_bytes);
        counted.iter().map(|file| file.file_size).chain(blobs).sum()
    }

    /// Number of levels down to the deepest level with files.
    pub fn num_non_empty_levels(&self) -> usize {
        self.levels.iter().rposition(|l| !l.files().is_empty()).map_or(0, |deepest| deepest + 1)
    }

    /// Blob files by number.
    pub fn blob_files(&self) -> &BlobFiles {
        &self.blob_files
    }

    /// Bytes of all blob files. The first call adds them up.
    pub(crate) fn blob_bytes(&self) -> u64 {
        *self.blob_bytes.get_or_init(|| self.blob_files.values().map(BlobFileMeta::file_size).sum())
    }

    /// Number of blob files, their bytes, and the garbage among these bytes.
    pub fn blob_file_stats(&self) -> BlobFileStats {
        let files = self.blob_files.values();
        BlobFileStats {
            files: files.len(),
            bytes: files.clone().map(BlobFileMeta::file_size).sum(),
            garbage_bytes: files.map(|blob| blob.garbage_blob_bytes).sum(),
        }
    }

    /// Handles of the blob files: each file stays on disk while its handle lives.
    pub fn live_blob_files(&self) -> &LiveBlobFiles {
        &self.live_blob_files
    }

    /// The position of round-robin picking in a level: an internal key.
    pub fn compact_cursor(&self, level: usize) -> Option<&[u8]> {
        self.compact_cursors.get(&level).map(Vec::as_slice)
    }

    /// The user timestamp below which history may be dropped; empty if it was never set.
    pub fn full_history_ts_low(&self) -> &[u8] {
        &self.full_history_ts_low
    }

    /// The files that may hold versions of a user key, from newest to oldest. `internal_key` is the
    /// internal key of a `LookupKey`. Never allocates.
    #[inline]
    pub fn candidates<'a>(&'a self, internal_key: &'a [u8]) -> Candidates<'a> {
        Candidates::new(self, internal_key)
    }

    /// Files of a level whose keys or range tombstones touch `[begin, end]`, in the level's order.
    /// The bounds are user keys, both inclusive; `None` means no bound. In level 0, a file must
    /// touch the range itself: an overlap with an included file is not enough.
    pub fn overlapping(&self, level: usize, begin: Option<&[u8]>, end: Option<&[u8]>) -> Vec<Arc<FileMeta>> {
        let files = self.files(level);
        if level > 0 {
            return files[self.overlapping_range(level, begin, end)].to_vec();
        }
        let above = |f: &FileMeta| {
            end.is_some_and(|e| self.icmp.compare_plain_keys(f.smallest_user_key(), e).is_gt())
        };
        files.iter().filter(|f| !above(f) && !self.ends_before(f, begin)).cloned().collect()
    }

    /// The positions of the files of [`Version::overlapping`] in a sorted level.
    pub fn overlapping_range(
        &self,
        level: usize,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> std::ops::Range<usize> {
        debug_assert!(level > 0, "level 0 is not sorted by key");
        let files = self.files(level);
        let from = files.partition_point(|f| self.ends_before(f, begin));
        let rest = &files[from..];
        let count = match end {
            None => rest.len(),
            Some(e) => {
                rest.partition_point(|f| self.icmp.compare_plain_keys(f.smallest_user_key(), e).is_le())
            }
        };
        from..from + count
    }

    /// Whether the file lies completely before the user key `begin`.
    fn ends_before(&self, f: &FileMeta, begin: Option<&[u8]>) -> bool {
        begin.is_some_and(|b| match self.icmp.compare_plain_keys(f.largest_user_key(), b) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => f.largest_is_exclusive(),
            std::cmp::Ordering::Greater => false,
        })
    }

    /// Whether some file of the level touches `[begin, end]`; cheaper than
    /// [`Version::overlapping`].
    pub fn overlaps(&self, level: usize, begin: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        if level > 0 {
            return !self.overlapping_range(level, begin, end).is_empty();
        }
        self.files(0).iter().any(|f| {
            !self.ends_before(f, begin)
                && !end.is_some_and(|e| self.icmp.compare_plain_keys(f.smallest_user_key(), e).is_gt())
        })
    }

    /// Whether some file holds range tombstones. `None`: no file is known to hold any, but the
    /// properties of some files have not been read yet.
    pub fn has_range_deletions(&self) -> Option<bool> {
        let mut unknown = false;
        for (_, f) in self.all_files() {
            match f.stats() {
                Some(s) if s.range_deletions > 0 => return Some(true),
                Some(_) => {}
                None => unknown = true,
            }
        }
        (!unknown).then_some(false)
    }

    /// Numbers of all table and blob files of the version.
    pub fn live_files(&self) -> impl Iterator<Item = FileNumber> {
        self.all_files().map(|(_, f)| f.number).chain(self.blob_files.keys().copied())
    }

    /// `rocksdb.levelstats`: files and megabytes of each level.
    pub fn level_stats(&self) -> String {
        let mut out = String::from("Level Files Size(MB)\n--------------------\n");
        for (level, l) in self.levels.iter().enumerate() {
            let megabytes = l.bytes() as f64 / 1_048_576.0;
            out += &format!("{level:3} {:8} {megabytes:8.0}\n", l.files().len());
        }
        out
    }
}

/// Prints every file, level by level, as `number:size[smallest .. largest]`, like RocksDB's
/// `Version::DebugString`.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (level, l) in self.levels.iter().enumerate() {
            writeln!(f, "--- level {level} --- version# {} ---", self.number)?;
            for file in l.files().iter() {
                write!(f, " {}:{}[", file.number, file.file_size)?;
                write!(f, "{} .. ", DisplayKey(&file.smallest))?;
                writeln!(f, "{}]", DisplayKey(&file.largest))?;
            }
        }
        for (number, blob) in self.blob_files.iter() {
            let a = &blob.addition;
            write!(f, " blob {number}: {} blobs, {} bytes; ", a.total_blob_count, a.total_blob_bytes)?;
            writeln!(f, "garbage {} blobs, {} bytes", blob.garbage_blob_count, blob.garbage_blob_bytes)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({}, family {})\n{self}", self.number, self.column_family)
    }
}

/// Prints an internal key for people: `'user key' seq:N, type:T`.
pub(crate) struct DisplayKey<'a>(pub &'a [u8]);

impl fmt::Display for DisplayKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trailer = esker_format::key::trailer(self.0);
        let user_key = esker_format::key::user_key(self.0).escape_ascii();
        write!(f, "'{user_key}' seq:{}, type:{}", trailer >> 8, trailer & 0xFF)
    }
}

impl fmt::Debug for DisplayKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
