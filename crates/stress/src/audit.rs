//! Audits facts of a database that no read shows: its files, properties and caches.
//!
//! In: an open database whose background work is done, or the caches of a closed one. Out: counts
//! of the checks, or the first fact that does not hold.
//!
//! Checked invariants of an open database
//!  1. Each live table exists with its size. Its keys ascend. Their number, bounds and sequence
//!     numbers agree with those that the MANIFEST states for the file. Levels below 0 do not
//!     overlap.
//!  2. Each blob file to which a table refers is alive, and the oldest one is the one that the
//!     table names. The bytes counted as garbage are at most those without a reference.
//!  3. The directory has no other files, unless an older version may still be read.
//!  4. Properties state the true numbers of files and bytes.
//!
//! Of a closed database: its caches have no pinned entries, and are empty once the other entries
//! are erased; its statistics add up.
//!
//! Tables are read as files, not through the engine.

use esker::comparator::ComparatorRef;
use esker::internals::base::stats::{Statistics, Ticker};
use esker::internals::base::sync::epoch;
use esker::internals::cache::{CacheType, Role};
use esker::internals::env::{Clock, FileSystem};
use esker::internals::format::blob::file::record_bytes;
use esker::internals::format::blob::{BlobIndex, BlobLocation};
use esker::internals::format::cursor::InternalIterator;
use esker::internals::format::file_name::{self, FileType, parse_file_name};
use esker::internals::format::key::{InternalKeyComparator, ParsedInternalKey};
use esker::internals::table::{BlockCache, TableReadOptions, TableReader, TableReaderOptions};
use esker::options::WriteBufferManager;
use esker::{ColumnFamilyHandle, Db, FileNumber, LiveFileMetaData, SequenceNumber, ValueType};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Milliseconds between attempts at a check that fails. Simulated time costs nothing, and a
/// scrubber may hold a file for long.
const PAUSES: &[u64] = if cfg!(shuttle) {
    &[0, 1, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000, 1_000_000]
} else {
    &[0, 1, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
};

/// Counts of the checks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Audited {
    /// Open databases.
    pub databases: u64,
    /// Tables of these databases.
    pub tables: u64,
    /// Entries and range tombstones of these tables.
    pub entries: u64,
    /// References to blob files among these entries.
    pub blobs: u64,
    /// Caches that were found empty.
    pub caches: u64,
}

impl Audited {
    pub(crate) fn add(&mut self, other: &Audited) {
        self.databases += other.databases;
        self.tables += other.tables;
        self.entries += other.entries;
        self.blobs += other.blobs;
        self.caches += other.caches;
    }
}

impl fmt::Display for Audited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Audited { databases, tables, entries, blobs, caches } = self;
        write!(
            f,
            "audited {databases} times: {tables} tables with {entries} entries and {blobs} references to blob files; \
             {caches} caches found empty"
        )
    }
}

/// A database and the place of its files.
pub(crate) struct AuditSubject<'a> {
    pub(crate) db: &'a Db,
    pub(crate) fs: &'a dyn FileSystem,
    pub(crate) path: &'a Path,
    pub(crate) families: Vec<(&'a ColumnFamilyHandle, &'a ComparatorRef)>,
    /// Whether an older version may still be read, or files may be left that could not be deleted.
    pub(crate) may_be_left: bool,
    /// Whether only compactions that read a table have deleted it.
    pub(crate) all_garbage_is_counted: bool,
}

/// For each blob file, the number of references to it and the bytes of their records.
type Referred = BTreeMap<FileNumber, (u64, u64)>;

/// Audits an open database to which no thread writes. Waits for its background work and for the
/// files that this work releases. If simulated time keeps starting new work, it checks
/// nothing.
/// # Errors
/// A fact that does not hold and stays so; a background error; in real time, work that does not
/// end.
pub(crate) fn audit(subject: &AuditSubject<'_>, clock: &dyn Clock) -> Result<Audited, String> {
    let seen = eventually(clock, || {
        let db = subject.db;
        db.wait_for_background_work().map_err(|e| format!("wait_for_background_work: {e}"))?;
        let before = files_at_rest(subject);
        let seen = look_at(subject);
        if before.is_some() && before == files_at_rest(subject) { seen.map(Some) } else { Ok(None) }
    });
    match seen {
        Ok(None) if !cfg!(shuttle) => Err("audit: something always runs".to_owned()),
        seen => seen.map(Option::unwrap_or_default).map_err(|why| format!("audit: {why}")),
    }
}

/// The live tables; `None` while a running job will change them.
fn files_at_rest(subject: &AuditSubject<'_>) -> Option<Vec<FileNumber>> {
    const RUNNING: [&str; 2] = ["rocksdb.num-running-flushes", "rocksdb.num-running-compactions"];
    let db = subject.db;
    let runs = RUNNING.iter().any(|name| db.int_property(name).expect("the property exists") > 0);
    (!runs).then(|| db.live_files().iter().map(|file| file.file_number).collect())
}

/// Repeats a check until it holds: threads may need a little time to release the files of their
/// last job. `check` returns `None` while it cannot decide.
fn eventually<T>(
    clock: &dyn Clock,
    look: impl Fn() -> Result<Option<T>, String>,
) -> Result<Option<T>, String> {
    for &milliseconds in PAUSES {
        epoch::settle(1, || ());
        if let Ok(Some(seen)) = look() {
            return Ok(Some(seen));
        }
        clock.sleep(Duration::from_millis(milliseconds));
    }
    look()
}

fn look_at(subject: &AuditSubject<'_>) -> Result<Audited, String> {
    let db = subject.db;
    let mut audited = Audited { databases: 1, ..Audited::default() };
    let live = db.live_files();
    let mut blob_files = BTreeSet::new();
    for (family, comparator) in &subject.families {
        let icmp = InternalKeyComparator::new((*comparator).clone());
        let files = live.iter().filter(|file| file.column_family_name == family.name());
        let files: Vec<_> = files.collect();
        let mut referred = Referred::new();
        for file in &files {
            let named = |why| format!("'{}' L{} #{}: {why}", family.name(), file.level, file.file_number);
            let entries = check_table(subject.fs, &icmp, file, &mut referred).map_err(named)?;
            audited.tables += 1;
            audited.entries += entries;
        }
        check_levels(&icmp, &files).map_err(|why| format!("'{}': {why}", family.name()))?;
        let named = |why| format!("'{}': {why}", family.name());
        blob_files.extend(check_blob_files(subject, family, &referred).map_err(named)?);
        check_properties(subject, family, &files).map_err(named)?;
        audited.blobs += referred.values().map(|(count, _)| count).sum::<u64>();
    }
    let tables = live.iter().map(|file| file.file_number).collect();
    check_directory(subject, &tables, &blob_files)?;
    Ok(audited)
}

/// Compares a file with its entry in the MANIFEST. Returns the number of its entries.
fn check_table(
    fs: &dyn FileSystem,
    icmp: &InternalKeyComparator,
    file: &LiveFileMetaData,
    referred: &mut Referred,
) -> Result<u64, String> {
    let text = |e: esker::Error| e.to_string();
    let path = file_name::table_file_name(&file.directory, file.file_number);
    let size = fs.file_size(&path).map_err(text)?;
    if file.being_compacted {
        return Err("an input of a compaction, and none runs".to_owned());
    }
    if size != file.size {
        return Err(format!("{size} bytes, the MANIFEST says {}", file.size));
    }
    let mut options = TableReaderOptions::new(icmp.clone(), Arc::default(), size);
    options.largest_seqno = Some(file.largest_seqno);
    let reader = TableReader::open(fs.new_random_access_file(&path).map_err(text)?, options).map_err(text)?;
    let mut seen = TableContents::default();
    let mut iter = reader.iter(TableReadOptions { fill_cache: false, ..TableReadOptions::default() });
    iter.seek_to_first();
    let mut last: Option<Vec<u8>> = None;
    while iter.valid() {
        let key = iter.key();
        if last.as_ref().is_some_and(|last| icmp.compare(last, key).is_ge()) {
            return Err(format!("{} is not behind the key before it", key.escape_ascii()));
        }
        seen.point(icmp, file, key, iter.value())?;
        last.get_or_insert_default().clear();
        last.iter_mut().for_each(|last| last.extend_from_slice(key));
        iter.next();
    }
    iter.status().map_err(text)?;
    for tombstone in reader.read_range_tombstones().map_err(text)? {
        let sequence = reader.global_seqno().unwrap_or(tombstone.seq);
        seen.range(icmp, file, (&tombstone.start, &tombstone.end), sequence)?;
    }
    seen.agrees_with(file)?;
    let properties = reader.properties();
    if (seen.entries, seen.deletions) != (properties.num_entries, properties.num_deletions) {
        let TableContents { entries, deletions, .. } = seen;
        return Err(format!(
            "{entries} entries, {deletions} of them deletions; its properties say {} and {}",
            properties.num_entries, properties.num_deletions
        ));
    }
    for location in seen.blobs {
        let (key_bytes, location) = location;
        let (count, bytes) = referred.entry(location.file_number).or_default();
        *count += 1;
        *bytes += record_bytes(key_bytes, location.size);
    }
    Ok(seen.entries)
}

/// The contents of a table.
#[derive(Default)]
struct TableContents {
    entries: u64,
    deletions: u64,
    /// The smallest and the largest sequence number.
    sequences: Option<(SequenceNumber, SequenceNumber)>,
    /// Blob references, each with the length of its user key.
    blobs: Vec<(usize, BlobLocation)>,
}

impl TableContents {
    fn point(
        &mut self,
        icmp: &InternalKeyComparator,
        file: &LiveFileMetaData,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), String> {
        let parsed = ParsedInternalKey::parse(key).map_err(|e| e.to_string())?;
        if icmp.compare(key, &file.smallest).is_lt() || icmp.compare(key, &file.largest).is_gt() {
            return Err(format!("{} is not within the bounds of the file", key.escape_ascii()));
        }
        self.sequence(parsed.sequence);
        self.entries += 1;
        match parsed.value_type {
            ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp => {
                self.deletions += 1
            }
            ValueType::BlobIndex => match BlobIndex::parse(value).map_err(|e| e.to_string())? {
                BlobIndex::Blob(location) | BlobIndex::BlobTtl { location, .. } => {
                    self.blobs.push((parsed.user_key.len(), location));
                }
                BlobIndex::InlinedTtl { .. } => {}
            },
            _ => {}
        }
        Ok(())
    }

    fn range(
        &mut self,
        icmp: &InternalKeyComparator,
        file: &LiveFileMetaData,
        (start, end): (&[u8], &[u8]),
        sequence: SequenceNumber,
    ) -> Result<(), String> {
        let is_before = icmp.compare_user_keys(start, &file.smallest_key).is_lt();
        // The tombstone ends just before all versions of its end key.
        let last = icmp.first_version(icmp.split_timestamp(end).0);
        if is_before || icmp.compare_user_keys(&last, &file.largest_key).is_gt() {
            let (start, end) = (start.escape_ascii(), end.escape_ascii());
            return Err(format!(
                "the deleted range from {start} to {end} is not within the bounds of the file"
            ));
        }
        self.sequence(sequence);
        (self.entries, self.deletions) = (self.entries + 1, self.deletions + 1);
        Ok(())
    }

    fn sequence(&mut self, sequence: SequenceNumber) {
        let (low, high) = self.sequences.unwrap_or((sequence, sequence));
        self.sequences = Some((low.min(sequence), high.max(sequence)));
    }

    fn agrees_with(&self, file: &LiveFileMetaData) -> Result<(), String> {
        let recorded = (file.smallest_seqno, file.largest_seqno);
        if self.sequences != Some(recorded) {
            return Err(format!("sequence numbers are {:?}, the MANIFEST says {recorded:?}", self.sequences));
        }
        if (self.entries, self.deletions) != (file.num_entries, file.num_deletions) {
            return Err(format!(
                "{} entries, {} of them deletions; the database says {} and {}",
                self.entries, self.deletions, file.num_entries, file.num_deletions
            ));
        }
        let oldest = self.blobs.iter().map(|(_, location)| location.file_number).min();
        if oldest != file.oldest_blob_file_number {
            let recorded = file.oldest_blob_file_number;
            return Err(format!(
                "the oldest blob file that it refers to is {oldest:?}, the MANIFEST says {recorded:?}"
            ));
        }
        Ok(())
    }
}

/// Checks that files do not overlap below level 0. The files of a level come in key order.
fn check_levels(icmp: &InternalKeyComparator, files: &[&LiveFileMetaData]) -> Result<(), String> {
    for pair in files.windows(2).filter(|pair| pair[0].level == pair[1].level && pair[0].level > 0) {
        if icmp.compare(&pair[0].largest, &pair[1].smallest).is_ge() {
            let (level, first, second) = (pair[0].level, pair[0].file_number, pair[1].file_number);
            return Err(format!("in L{level} #{first} and #{second} overlap"));
        }
    }
    Ok(())
}

/// Compares blob files with the references to them. Returns the live ones.
fn check_blob_files(
    subject: &AuditSubject<'_>,
    family: &ColumnFamilyHandle,
    referred: &Referred,
) -> Result<BTreeSet<FileNumber>, String> {
    let metadata = subject.db.column_family_metadata(family);
    let mut alive = BTreeSet::new();
    for blob in &metadata.blob_files {
        let number = blob.blob_file_number;
        let size = subject.fs.file_size(&file_name::blob_file_name(&blob.blob_file_path, number));
        let size = size.map_err(|e| e.to_string())?;
        if size != blob.blob_file_size {
            return Err(format!(
                "blob file #{number} has {size} bytes, the MANIFEST says {}",
                blob.blob_file_size
            ));
        }
        let (count, bytes) = referred.get(&number).copied().unwrap_or_default();
        let there = (blob.total_blob_count, blob.total_blob_bytes);
        let garbage = (blob.garbage_blob_count, blob.garbage_blob_bytes);
        let (used, is_all) = ((count + garbage.0, bytes + garbage.1), subject.all_garbage_is_counted);
        if used.0 > there.0 || used.1 > there.1 || is_all && used != there {
            return Err(format!(
                "blob file #{number}: tables refer to {count} values of {bytes} bytes, garbage are {garbage:?}, of {there:?}"
            ));
        }
        alive.insert(number);
    }
    match referred.keys().find(|number| !alive.contains(number)) {
        Some(number) => Err(format!("blob file #{number}, to which a table refers, is not alive")),
        None => Ok(alive),
    }
}

fn check_properties(
    subject: &AuditSubject<'_>,
    family: &ColumnFamilyHandle,
    files: &[&LiveFileMetaData],
) -> Result<(), String> {
    let is = |name: &str, expected: u64| match subject.db.int_property_cf(family, name) {
        Some(found) if found == expected => Ok(()),
        found => Err(format!("{name} is {found:?} and should be {expected}")),
    };
    let bytes = files.iter().map(|file| file.size).sum();
    let metadata = subject.db.column_family_metadata(family);
    let blobs = metadata.blob_files.iter();
    is("rocksdb.num-blob-files", metadata.blob_files.len() as u64)?;
    is("rocksdb.live-blob-file-size", metadata.blob_file_size)?;
    is("rocksdb.live-blob-file-garbage-size", blobs.map(|blob| blob.garbage_blob_bytes).sum())?;
    is("rocksdb.num-running-compaction-sorted-runs", 0)?;
    is("rocksdb.live-sst-files-size", bytes)?;
    is("rocksdb.mem-table-flush-pending", 0)?;
    if !subject.may_be_left {
        is("rocksdb.num-live-versions", 1)?;
        is("rocksdb.total-sst-files-size", bytes)?;
        is("rocksdb.total-blob-file-size", metadata.blob_file_size)?;
        is("rocksdb.obsolete-sst-files-size", 0)?;
    }
    Ok(())
}

/// Checks that every file in the directory belongs to a version.
fn check_directory(
    subject: &AuditSubject<'_>,
    tables: &BTreeSet<FileNumber>,
    blob_files: &BTreeSet<FileNumber>,
) -> Result<(), String> {
    if subject.may_be_left {
        return Ok(());
    }
    let names = subject.fs.children(subject.path).map_err(|e| e.to_string())?;
    let files: Vec<_> = names.iter().filter_map(|name| Some((name, parse_file_name(name)?))).collect();
    let of = |kind| files.iter().filter(move |(_, (found, _))| *found == kind);
    let is_left = |(_, (kind, number)): &&(&String, (FileType, FileNumber))| match kind {
        FileType::Table => !tables.contains(number),
        FileType::Blob => !blob_files.contains(number),
        FileType::Temp => true,
        _ => false,
    };
    if let Some((name, _)) = files.iter().find(is_left) {
        return Err(format!("{name} is there, and nobody needs it"));
    }
    if of(FileType::Descriptor).count() != 1 || of(FileType::Options).count() > 2 {
        return Err(format!("more than one MANIFEST, or than two OPTIONS files: {names:?}"));
    }
    Ok(())
}

/// Checks that statistics of closed databases add up.
/// # Errors
/// The counters that disagree.
pub(crate) fn add_up(statistics: &Statistics) -> Result<(), String> {
    use Ticker::*;
    let of = |ticker: Ticker| statistics.ticker_count(ticker);
    let sum = |tickers: &[Ticker]| tickers.iter().map(|ticker| of(*ticker)).sum::<u64>();
    let equal: [(&[Ticker], &[Ticker]); 5] = [
        (
            &[BlockCacheHit],
            &[BlockCacheDataHit, BlockCacheIndexHit, BlockCacheFilterHit, BlockCacheCompressionDictHit],
        ),
        (
            &[BlockCacheMiss],
            &[BlockCacheDataMiss, BlockCacheIndexMiss, BlockCacheFilterMiss, BlockCacheCompressionDictMiss],
        ),
        (
            &[BlockCacheAdd],
            &[BlockCacheDataAdd, BlockCacheIndexAdd, BlockCacheFilterAdd, BlockCacheCompressionDictAdd],
        ),
        (
            &[BlockCacheBytesWrite],
            &[
                BlockCacheDataBytesInsert,
                BlockCacheIndexBytesInsert,
                BlockCacheFilterBytesInsert,
                BlockCacheCompressionDictBytesInsert,
            ],
        ),
        (&[NoIteratorCreated], &[NoIteratorDeleted]),
    ];
    for (one, other) in equal {
        if sum(one) != sum(other) {
            return Err(format!("audit: {one:?} are {}, {other:?} are {}", sum(one), sum(other)));
        }
    }
    let at_most: [(&[Ticker], &[Ticker]); 9] = [
        (&[GetHitL0, GetHitL1, GetHitL2AndUp], &[MemtableMiss]),
        (&[NumberMultigetKeysFound], &[NumberMultigetKeysRead]),
        (&[NumberDbSeekFound], &[NumberDbSeek]),
        (&[NumberDbNextFound], &[NumberDbNext]),
        (&[NumberDbPrevFound], &[NumberDbPrev]),
        (&[BloomFilterFullTruePositive], &[BloomFilterFullPositive]),
        (&[WriteWithWal], &[WriteDoneBySelf, WriteDoneByOther]),
        (&[BlockCacheAddRedundant], &[BlockCacheAdd]),
        (&[BloomFilterPrefixUseful], &[BloomFilterPrefixChecked]),
    ];
    for (few, many) in at_most {
        if sum(few) > sum(many) {
            return Err(format!("audit: {few:?} are {}, {many:?} are {}", sum(few), sum(many)));
        }
    }
    Ok(())
}

/// Checks the caches and the write buffer manager of closed databases.
/// # Errors
/// Entries are pinned or left, and remain so.
pub(crate) fn are_empty(
    caches: &[&Arc<BlockCache>],
    manager: Option<&WriteBufferManager>,
    clock: &dyn Clock,
) -> Result<Audited, String> {
    let look = || {
        caches.iter().find_map(|cache| find_leftovers(cache)).map_or(Ok(()), Err)?;
        match manager.map_or(0, WriteBufferManager::memory_usage) {
            0 => Ok(Some(())),
            bytes => Err(format!("memtables of {bytes} bytes are left")),
        }
    };
    eventually(clock, look).map_err(|left| format!("audit: the databases are closed: {left}"))?;
    Ok(Audited { caches: caches.len() as u64, ..Audited::default() })
}

fn find_leftovers(cache: &BlockCache) -> Option<String> {
    let pinned = cache.pinned_usage();
    cache.erase_unreferenced();
    epoch::settle(1, || ());
    let (entries, roles) = (cache.occupancy_count(), cache.role_stats());
    let charged: u64 = Role::ALL.iter().map(|role| roles.bytes(*role)).sum();
    // If this cache is charged for other caches, their tables count too.
    let used = if cache.cache_type() == CacheType::Lru { cache.usage() } else { cache.deferred_free_usage() };
    if (pinned, entries, charged, used) == (0, 0, 0, 0) {
        return None;
    }
    Some(format!(
        "{pinned} bytes of a block cache are held; once all that nobody holds was erased, {entries} values are left, {charged} bytes are charged, \
         {used} in use: {roles:?}"
    ))
}

#[cfg(test)]
mod tests;
