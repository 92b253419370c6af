//! Remembered deleted runs: ranges of user keys in which a scan found nothing at a sequence number.
//!
//! In: a range that a scan has just crossed without finding a visible key, the sequence number it
//! read at, and the newest file it saw. Out: the range, for later scans, which seek across it
//! instead of stepping through the deleted keys again, in all memtables and files. Nothing is
//! written to the database for this.
//!
//! A range stays true: later writes, flushes and compactions do not change that nothing in `[a, b)`
//! is visible at sequence number s. So a reader at S = s finds nothing there. A reader at S > s
//! finds entries written between s and S, and nothing else. So it may skip the entries that existed
//! when the range was found. These are entries of files that the scan saw and of files that were
//! compacted from them, if no entry in the file is newer than s. A file's largest sequence number
//! alone does not decide that, because compactions zero the numbers of entries that all snapshots
//! see. So the file's number must also not exceed the newest one the scan saw: files with lower
//! numbers that were installed later are compactions of known files. (Ingested files are not:
//! invariant 1.) In memtables sequence numbers never change. Entries that are skipped in one sorted
//! run may hide entries of an older run. So a run is skipped only together with all older runs that
//! have entries in the range. A reader at S < s cannot use the run.
//!
//! Invariants
//!  1. Every range is true, in this sense, for all super versions that hold this memory. An
//!     ingestion adds entries with old sequence numbers, so it gives the family's later super
//!     versions an empty memory. So does a compaction whose filter removes entries that hide older
//!     versions (`Purge`, `RemoveAndSkipUntil`).
//!  2. Ranges come from scans whose super version was complete at their sequence number
//!     (`cf.super_version.holds(super_version)` after the number was read), and that saw
//!     everything. Scans that ignore range deletions, stop at memtables or caches, or stay within a
//!     prefix neither add nor use ranges. Families with timestamps have no ranges.
//!  3. The ranges that readers load are replaced, never changed, and readers take no lock. Adding a
//!     range copies one chunk of its layer, and the list of chunks.
//!  4. The ranges of a layer are sorted and disjoint. Some of the ranges that new ones replace move
//!     to the next lower layer, where readers at older sequence numbers find them: each one if the
//!     layer has none there, otherwise the first of its place and then each eighth.
//!  5. Ranges take at most [`MAX_BYTES`], charged to the family's block cache. Beyond that, the
//!     lower layers are dropped first, then random chunks, so that scans which cycle over too many
//!     ranges keep a part of them.

mod layers;

use crate::options::ColumnFamilyOptions;
use esker_base::sync::epoch::{self, Swap};
use esker_base::sync::{Arc, Mutex};
use esker_base::{FileNumber, SequenceNumber};
use esker_cache::{Reservation, Role};
use esker_format::cursor::{InternalIterator, KnownDeletedRun};
use esker_format::key::{self, InternalKeyComparator, seek_key};
use esker_memtable::MemTable;
use esker_table::{BlockCache, CachedBlock};
use layers::{RememberedRun, RunLayers};

/// Most bytes of the ranges of one family.
const MAX_BYTES: usize = 256 << 10;

/// Most bytes of a range's keys. Ranges with longer keys are not remembered.
const MAX_KEY_BYTES: usize = MAX_BYTES / 64;

/// The deleted runs of a family.
#[derive(Debug)]
pub(crate) struct DeletedRunMemory {
    icmp: InternalKeyComparator,
    /// See [`DeletedRunMemory::new`].
    min_keys: u64,
    /// The cache to which the ranges are charged.
    cache: Option<Arc<BlockCache>>,
    layers: Swap<RunLayers>,
    /// The charge. A thread that replaces the ranges holds this lock; threads only try it.
    adding: Mutex<Option<Reservation<CachedBlock>>>,
}

impl DeletedRunMemory {
    /// A memory without ranges. `min_keys`: deleted keys that a scan steps over in one call before
    /// it adds a range; 0: scans add none.
    pub(crate) fn new(
        icmp: InternalKeyComparator,
        min_keys: u64,
        cache: Option<Arc<BlockCache>>,
    ) -> DeletedRunMemory {
        let min_keys = if icmp.user_comparator().timestamp_size() > 0 { 0 } else { min_keys };
        let layers = Swap::new(Arc::default());
        DeletedRunMemory { icmp, min_keys, cache, layers, adding: Mutex::new(None) }
    }

    /// A memory without ranges for a family with these options.
    pub(crate) fn of(icmp: &InternalKeyComparator, options: &ColumnFamilyOptions) -> Arc<DeletedRunMemory> {
        let cache = options.table.block_cache.clone().filter(|_| !options.table.no_block_cache);
        Arc::new(DeletedRunMemory::new(icmp.clone(), options.deleted_run_memory_threshold(), cache))
    }

    /// A memory without ranges, with the same settings, for scans that also see the own writes of a
    /// transaction. Nothing is charged for it, as nothing is for those writes.
    pub(crate) fn for_own_writes(&self) -> DeletedRunMemory {
        DeletedRunMemory::new(self.icmp.clone(), self.min_keys, None)
    }

    /// A memory without ranges, with the same settings: for super versions after an ingestion has
    /// added old entries or a filter has uncovered them.
    pub(crate) fn fresh(&self) -> DeletedRunMemory {
        DeletedRunMemory::new(self.icmp.clone(), self.min_keys, self.cache.clone())
    }

    /// Deleted keys in one call after which a scan adds a range; `u64::MAX`: never.
    pub(crate) fn min_keys(&self) -> u64 {
        if self.min_keys == 0 { u64::MAX } else { self.min_keys }
    }

    /// Remembers that nothing in `[start, end)` is visible at the first sequence number, by a scan
    /// that read the database at the second one and saw files up to `newest_file`. Does nothing if
    /// another thread is adding, or the cache has no room.
    #[cold]
    pub(crate) fn add(
        &self,
        start: &[u8],
        end: &[u8],
        sequences: (SequenceNumber, SequenceNumber),
        newest_file: FileNumber,
    ) {
        let is_too_long = start.len() + end.len() > MAX_KEY_BYTES;
        if is_too_long || self.icmp.compare_user_keys(start, end).is_ge() {
            return;
        }
        let Some(mut charge) = self.adding.try_lock() else { return };
        let mut layers = RunLayers::clone(&self.layers.load_full());
        layers.insert(&self.icmp, RememberedRun::new(start, end, sequences, newest_file));
        layers.shrink_to(MAX_BYTES);
        if self.charge(&mut charge, layers.bytes()) {
            self.layers.store(Arc::new(layers));
        }
    }

    /// Charges this many bytes, if the cache has room for them.
    fn charge(&self, charge: &mut Option<Reservation<CachedBlock>>, bytes: usize) -> bool {
        match (charge, &self.cache) {
            (Some(charge), _) => charge.resize(bytes).is_ok(),
            (none, Some(cache)) => {
                *none = cache.reserve(Role::Misc, bytes).ok();
                none.is_some()
            }
            (None, None) => true,
        }
    }

    /// Whether `mem` may have an entry in `[start, end)`, or hides others there.
    pub(crate) fn has_entries(&self, mem: &Arc<MemTable>, start: &[u8], end: &[u8]) -> bool {
        let mut iter = mem.iter();
        iter.seek(&seek_key(start, SequenceNumber::MAX));
        let is_before_end = |key: &[u8]| self.icmp.compare_user_keys(key::user_key(key), end).is_lt();
        mem.num_range_deletes() > 0 || iter.valid() && is_before_end(iter.key())
    }

    /// The range around `user_key` that takes a reader at `snapshot` farthest. `run_end` gets its
    /// end or, if not `forward`, its start.
    pub(crate) fn find<'a>(
        &self,
        user_key: &[u8],
        snapshot: SequenceNumber,
        forward: bool,
        run_end: &'a mut Vec<u8>,
    ) -> Option<KnownDeletedRun<'a>> {
        let guard = epoch::pin();
        let range = self.layers.load(&guard).find(&self.icmp, user_key, snapshot, forward)?;
        run_end.clear();
        run_end.extend_from_slice(range.run_end(forward));
        let RememberedRun { sequence, base_sequence, newest_file, .. } = *range;
        Some(KnownDeletedRun { run_end, sequence, base_sequence, newest_file })
    }
}

#[cfg(test)]
mod tests;
