//! The memtable: the writes to a column family since its last switch.
//!
//! In: writes, with the sequence numbers their batches got; any number of threads, in any order of
//! sequence.
//! Out: versions of a key newest first, a cursor over all versions, covering range tombstones, and
//! exact numbers for flush and statistics.
//!
//! Invariants
//!  1. An added entry stays, unchanged, until the memtable is dropped.
//!  2. An entry is found by every read that starts after its `add` returned. A read that runs at
//!     the same time may or may not find it: the engine shows readers a sequence number only after
//!     all adds up to it are done.
//!  3. No reader takes a lock or waits for a writer (`range_tombstones` may wait for another thread
//!     that fragments).

use crate::arena::{Arena, ShardStats};
use crate::checks::{self, Checks};
use crate::deletion_sample::{DeletionSample, SampledDeletions, Take};
use crate::filter::{Filter, MemTableFilterOptions};
use crate::iter::MemTableIter;
use crate::range_dels::RangeDels;
use crate::record::{self, Record, Target};
use crate::summaries::covered::CoverLookup;
use crate::tree::{self, Tree};
use esker_base::entry_checksum::EntryChecksum;
use esker_base::sync::Arc;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::{Error, PinnedBytes, Result, SequenceNumber, ValueType, perf_count};
use esker_format::cursor::{InternalIterator, ScanIterator, push_place};
use esker_format::key::{InternalKeyComparator, LookupKey, entry_too_long, fits_entry};
use esker_format::range_del::{FragmentedRangeTombstones, RangeTombstone};
use std::fmt;
use std::ops::Deref;

/// Counts the memory of memtables: RocksDB's `WriteBufferManager`. Its methods run under an arena's
/// lock, so they must not wait for a memtable.
pub trait MemoryBudget: Send + Sync + fmt::Debug {
    /// Counts `bytes` more of a mutable memtable.
    fn reserve(&self, bytes: usize);
    /// The memtable that holds these `bytes` became immutable: a flush will free them.
    fn schedule_free(&self, bytes: usize);
    /// An immutable memtable gave its `bytes` back.
    fn free(&self, bytes: usize);
}

/// Options of a memtable.
#[derive(Clone, Debug)]
pub struct MemTableOptions {
    /// The size of the arena's largest blocks, in bytes; RocksDB's `arena_block_size`. The first
    /// blocks are smaller, so a small memtable stays small.
    pub arena_block_size: usize,
    /// The expected final size in bytes, which determines the sizes of blocks. The memtable may use
    /// more.
    pub expected_bytes: usize,
    /// Whether a memtable that has grown to 16 MiB requests huge pages, 2 MiB at a time, from then
    /// on. They make lookups about 1.6 times as fast. The system takes about 0.1 ms to provide one.
    pub use_huge_pages: bool,
    /// The engine's number for the memtable; a newer memtable has a higher one.
    pub id: u64,
    /// The newest sequence number when it was made.
    pub creation_sequence: SequenceNumber,
    /// No entry is older than this.
    pub earliest_sequence: SequenceNumber,
    /// Counts the blocks of memory that the memtable allocates and frees. A first block that never
    /// gets a second beside it is not counted.
    pub budget: Option<Arc<dyn MemoryBudget>>,
    /// The checks that the memtable makes of its entries.
    pub checks: Checks,
    /// The shortest run of point deletions that pre-scans check: see
    /// [`MemTable::take_sampled_deletions`]. 0: no pre-scans.
    pub sampled_run: u64,
    /// A Bloom filter for lookups; `None`: every lookup goes to the tree.
    pub filter: Option<MemTableFilterOptions>,
}

impl Default for MemTableOptions {
    fn default() -> MemTableOptions {
        MemTableOptions {
            arena_block_size: 1 << 20,
            expected_bytes: usize::MAX,
            use_huge_pages: true,
            id: 0,
            creation_sequence: SequenceNumber::ZERO,
            earliest_sequence: SequenceNumber::ZERO,
            budget: None,
            checks: Checks::default(),
            sampled_run: 0,
            filter: None,
        }
    }
}

/// The writes of a column family, in memory and in order.
pub struct MemTable {
    pub(crate) tree: Tree,
    range_dels: RangeDels,
    sample: DeletionSample,
    filter: Option<Filter>,
    icmp: InternalKeyComparator,
    pub(crate) options: MemTableOptions,
    immutable: AtomicBool,
}

/// A value in a memtable, as a visitor of [`MemTable::get`] sees it.
#[derive(Clone, Copy)]
pub struct MemValue<'a> {
    bytes: &'a [u8],
    owner: &'a Arc<MemTable>,
}

/// A result of a lookup. Versions come newest first. The newest range tombstone that the lookup
/// sees over the key comes before the versions it covers.
#[derive(Clone, Copy, Debug)]
pub enum ReadState<'a> {
    /// A range tombstone covers the key: older versions, here and in older sources, are gone. Zero
    /// if no tombstone covers it. The visitor's return value is ignored.
    Covered(SequenceNumber),
    /// The lookup has met no version so far. A range tombstone that is no newer than this may cover
    /// the key; none was searched for. A visitor that meets an older version calls
    /// [`MemTable::max_covering_tombstone_seq`]. The visitor's return value is ignored.
    MayBeCovered(SequenceNumber),
    /// A version of the key. The visitor returns true to see older ones.
    Version(ValueType, SequenceNumber, MemValue<'a>),
}

impl<'a> MemValue<'a> {
    /// The bytes, for as long as the memtable is borrowed.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes without a copy; keeps the whole memtable alive.
    #[inline]
    pub fn pin(self) -> PinnedBytes {
        self.owner.pin_record_bytes(self.bytes)
    }
}

impl Deref for MemValue<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl fmt::Debug for MemValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.bytes.escape_ascii())
    }
}

impl Drop for MemTable {
    fn drop(&mut self) {
        let Some(budget) = &self.options.budget else { return };
        if !self.is_immutable() {
            budget.schedule_free(self.budgeted());
        }
        budget.free(self.budgeted());
    }
}

impl MemTable {
    /// An empty memtable.
    ///
    /// # Panics
    /// If the allocator has not even the few KiB of an empty memtable.
    pub fn new(icmp: InternalKeyComparator, options: MemTableOptions) -> Arc<MemTable> {
        let arena = Arena::new(options.arena_block_size, options.use_huge_pages);
        let arena = arena.expecting(options.expected_bytes).counted_by(options.budget.clone());
        let tree = Tree::new(icmp.clone(), arena).expect("memory for an empty memtable");
        let range_dels = RangeDels::new(options.arena_block_size, options.budget.clone());
        let sample = DeletionSample::new(options.sampled_run);
        let filter = options.filter.clone().map(Filter::new);
        let immutable = AtomicBool::new(false);
        Arc::new(MemTable { tree, range_dels, sample, filter, icmp, options, immutable })
    }

    /// Adds an entry; for a `RangeDeletion`, `user_key` is its start and `value` its end
    /// (exclusive). Any number of threads may add at once, in any order of sequence.
    /// # Errors
    /// `TryAgain` if this user key, sequence and type exist already; nothing was added ·
    /// `InvalidArgument` beyond [`MAX_ENTRY_BYTES`](esker_format::key::MAX_ENTRY_BYTES) · `Aborted`
    /// with `MemoryLimit` if the allocator has no more.
    pub fn add(&self, seq: SequenceNumber, kind: ValueType, user_key: &[u8], value: &[u8]) -> Result<()> {
        self.add_entry(seq, kind, user_key, value, None)
    }

    /// [`add`](Self::add) of an entry that comes with its checksum. The checksum covers neither
    /// family nor sequence number.
    /// # Errors
    /// Those of `add` · `Corruption` if the entry does not match the checksum; nothing was added.
    pub fn add_checked(
        &self,
        seq: SequenceNumber,
        kind: ValueType,
        user_key: &[u8],
        value: &[u8],
        checksum: EntryChecksum,
    ) -> Result<()> {
        self.add_entry(seq, kind, user_key, value, Some(checksum))
    }

    #[inline]
    fn add_entry(
        &self,
        seq: SequenceNumber,
        kind: ValueType,
        user_key: &[u8],
        value: &[u8],
        checksum: Option<EntryChecksum>,
    ) -> Result<()> {
        debug_assert!(!self.is_immutable(), "an immutable memtable is not written to");
        if !fits_entry(user_key.len(), value.len()) {
            return Err(entry_too_long(user_key.len(), value.len()));
        }
        let named = kind;
        let kind = if self.icmp.timestamp_size() > 0 {
            self.kind_with_timestamp(kind, user_key, value)?
        } else {
            kind
        };
        let checksum = checksum.map(|c| c.with_kind(named).with_kind(kind).with_sequence(seq));
        let change = ShardStats {
            entries: 1,
            deletes: u64::from(kind.is_point_deletion()),
            data_bytes: (user_key.len() + record::TRAILER_BYTES + value.len()) as u64,
            first_seq: seq.0,
            last_seq: seq.0,
        };
        if kind == ValueType::RangeDeletion {
            if checksum.is_some() {
                checks::compare(checksum, EntryChecksum::of(kind, user_key, value).with_sequence(seq))?;
            }
            self.tree.arena().count(&change);
            let added = self.range_dels.add(user_key, value, seq);
            added.inspect_err(|_| self.tree.arena().uncount(&change))?;
            self.tree.mark_covered(user_key, value, seq);
            return Ok(());
        }
        let len = record::encoded_len(user_key.len(), value.len());
        let protection = usize::from(self.options.checks.protection_bytes);
        let place = self.tree.arena().allocate_record(len + protection, &change)?;
        // SAFETY: the arena gave these `len` bytes to this call alone; `encode` writes all of them
        // and reads none.
        let record = unsafe { Record::write(place, len, seq, kind, user_key, value) };
        if protection > 0 || checksum.is_some() {
            // SAFETY: the arena gave this call `protection` bytes behind the record as well.
            let protected = unsafe { self.options.checks.protect(record, checksum) };
            protected.inspect_err(|_| self.tree.arena().uncount(&change))?;
        }
        if let Some(filter) = &self.filter {
            filter.add(self.icmp.split_timestamp(user_key).0, |bytes| {
                if let Some(budget) = &self.options.budget {
                    budget.reserve(bytes);
                }
            });
        }
        // SAFETY: the record lies in the tree's arena.
        let inserted = unsafe { self.tree.insert(record) };
        inserted.inspect_err(|_| self.tree.arena().uncount(&change))?;
        if kind.is_point_deletion() {
            // SAFETY: the arena keeps the record as long as the memtable lives.
            unsafe { self.sample.deleted(seq, record) };
        }
        Ok(())
    }

    /// Whether there is something to [take](Self::take_sampled_deletions).
    #[inline]
    pub fn has_sampled_deletions(&self) -> bool {
        self.sample.is_due()
    }

    /// The sampled point deletions, if it is time: see [`Take`].
    pub fn take_sampled_deletions(&self, when: Take) -> Option<SampledDeletions> {
        self.sample.take(when, || self.num_deletes())
    }

    /// First key of the contiguous run around `user_key` in which a reader at `snapshot` sees
    /// nothing. `None`: the reader sees that key, there is no record of it, or timestamps decide.
    pub fn deleted_run_start(self: &Arc<Self>, user_key: &[u8], snapshot: SequenceNumber) -> Option<Vec<u8>> {
        let mut iter = self.iter();
        let mut behind = Vec::new();
        push_place(&mut behind, user_key, false);
        // The entry at the key, or the last before it.
        iter.seek_for_prev(&behind);
        if !iter.valid() {
            return None;
        }
        iter.deleted_run_end(snapshot, false).map(<[u8]>::to_vec)
    }

    /// Reports that a pre-scan of sampled deletions read this many entries.
    pub fn sample_looked_at(&self, entries: u64) {
        self.sample.looked_at(entries);
    }

    /// Visits the versions of `key`'s user key that its sequence sees, newest first, until `visit`
    /// returns false. Ignores range tombstones: see
    /// [`max_covering_tombstone_seq`](Self::max_covering_tombstone_seq).
    /// # Errors
    /// `Corruption` if the memtable checks itself and an entry differs from what was added; that
    /// entry was not visited.
    #[inline]
    pub fn get<F>(self: &Arc<Self>, key: &LookupKey, mut visit: F) -> Result<()>
    where
        F: FnMut(ValueType, SequenceNumber, MemValue<'_>) -> bool,
    {
        if !self.may_hold(key.user_key()) {
            return Ok(());
        }
        let target = Target::new(key.internal_key());
        let mut visit = |record| {
            let (kind, sequence, value) = self.show(record);
            visit(kind, sequence, value)
        };
        if self.checks_itself() {
            return self.options.checks.visit_versions(&self.tree, &target, &mut visit);
        }
        self.tree.visit_versions(&target, visit);
        Ok(())
    }

    /// Whether there are range tombstones.
    #[inline]
    pub fn has_range_tombstones(&self) -> bool {
        !self.range_dels.is_empty()
    }

    /// Whether reads may end with `Corruption`.
    #[inline]
    pub fn checks_itself(&self) -> bool {
        self.options.checks.any()
    }

    /// [`get`](Self::get) with range tombstones. Searches for tombstones only if the memtable has a
    /// version of the key and a tombstone may cover it.
    /// # Errors
    /// `Corruption` if the memtable checks itself and an entry differs from what was added; that
    /// entry was not visited.
    #[inline]
    pub fn get_covered<F>(self: &Arc<Self>, key: &LookupKey, mut visit: F) -> Result<()>
    where
        F: FnMut(ReadState<'_>) -> bool,
    {
        if self.checks_itself() || self.filter.is_some() || self.tree.is_empty() {
            return self.get_covered_apart(key, &mut visit);
        }
        let target = Target::new(key.internal_key());
        self.show_lookup(key, self.tree.look_up(&target), &mut visit);
        Ok(())
    }

    /// Whether the memtable may have a version of the key, as far as the filter knows.
    #[inline]
    fn may_hold(&self, user_key: &[u8]) -> bool {
        self.filter.as_ref().is_none_or(|filter| self.ask(filter, user_key))
    }

    #[inline(never)]
    fn ask(&self, filter: &Filter, user_key: &[u8]) -> bool {
        let may_hold = filter.may_hold(self.icmp.split_timestamp(user_key).0);
        if may_hold {
            perf_count!(bloom_memtable_hit_count);
        } else {
            perf_count!(bloom_memtable_miss_count);
        }
        may_hold
    }

    /// `get_covered` without the tree's summaries: for a memtable that is empty, has a filter or
    /// checks itself.
    #[inline(never)]
    fn get_covered_apart(
        self: &Arc<Self>,
        key: &LookupKey,
        visit: &mut impl FnMut(ReadState<'_>) -> bool,
    ) -> Result<()> {
        if self.has_range_tombstones() {
            visit(ReadState::MayBeCovered(SequenceNumber::MAX));
        }
        self.get(key, |kind, sequence, value| visit(ReadState::Version(kind, sequence, value)))
    }

    /// The indexes in `which` whose keys the filter does not rule out.
    #[inline(never)]
    fn not_ruled_out(&self, keys: &[LookupKey], which: &[u32]) -> Vec<u32> {
        let may_hold = |i: &u32| self.may_hold(keys[*i as usize].user_key());
        which.iter().copied().filter(may_hold).collect()
    }

    /// The newest tombstone over the key.
    #[inline(never)]
    fn covering(&self, key: &LookupKey) -> ReadState<'static> {
        ReadState::Covered(self.max_covering_tombstone_seq(key.user_key(), key.sequence()))
    }

    /// Shows a lookup's versions and covering tombstone to `visit`.
    #[inline]
    fn show_lookup(
        self: &Arc<Self>,
        key: &LookupKey,
        lookup: CoverLookup<'_, { tree::WIDTH }>,
        visit: &mut impl FnMut(ReadState<'_>) -> bool,
    ) {
        let Some(newest) = lookup.found else {
            let newest = lookup.over_key();
            if newest > 0 {
                visit(ReadState::MayBeCovered(SequenceNumber(newest)));
            }
            return;
        };
        let (kind, sequence, value) = self.show(newest);
        let is_covered = sequence.0 <= lookup.over_found();
        if is_covered {
            visit(self.covering(key));
        }
        if !visit(ReadState::Version(kind, sequence, value)) {
            return;
        }
        if !is_covered && lookup.over_key() > 0 {
            visit(self.covering(key));
        }
        self.tree.visit_older(lookup.leaf, newest, |record| {
            let (kind, sequence, value) = self.show(record);
            visit(ReadState::Version(kind, sequence, value))
        });
    }

    /// [`get_covered`](Self::get_covered) for each of `keys` whose index is in `which`; otherwise
    /// like [`get_many`](Self::get_many). REQUIRES: the memtable does not check itself.
    pub fn get_many_covered<F>(self: &Arc<Self>, keys: &[LookupKey], which: &[u32], mut visit: F)
    where
        F: FnMut(u32, ReadState<'_>) -> bool,
    {
        debug_assert!(!self.checks_itself(), "get_covered reports an error for each key");
        // A range tombstone may cover a key without an entry, too.
        let left =
            (self.filter.is_some() && !self.has_range_tombstones()).then(|| self.not_ruled_out(keys, which));
        let which = left.as_deref().unwrap_or(which);
        match which.len() {
            0..=tree::SMALL_GROUP => self.get_group_covered::<{ tree::SMALL_GROUP }>(keys, which, &mut visit),
            _ => which
                .chunks(tree::GROUP)
                .for_each(|which| self.get_group_covered::<{ tree::GROUP }>(keys, which, &mut visit)),
        }
    }

    #[inline]
    fn get_group_covered<const G: usize>(
        self: &Arc<Self>,
        keys: &[LookupKey],
        which: &[u32],
        visit: &mut impl FnMut(u32, ReadState<'_>) -> bool,
    ) {
        let targets = targets_of::<G>(keys, which);
        self.tree.look_up_many::<G>(&targets[..which.len()], |i, lookup| {
            self.show_lookup(&keys[which[i] as usize], lookup, &mut |seen| visit(which[i], seen));
        });
    }

    /// [`get`](Self::get) for each of `keys` whose index is in `which`, in any order. The lookups
    /// wait for memory together, not one after the other. `visit` also gets the key's index.
    /// REQUIRES: the memtable does not check itself.
    pub fn get_many<F>(self: &Arc<Self>, keys: &[LookupKey], which: &[u32], mut visit: F)
    where
        F: FnMut(u32, ValueType, SequenceNumber, MemValue<'_>) -> bool,
    {
        debug_assert!(!self.checks_itself(), "get reports an error for each key");
        let left = self.filter.is_some().then(|| self.not_ruled_out(keys, which));
        let which = left.as_deref().unwrap_or(which);
        for which in which.chunks(tree::GROUP) {
            let targets = targets_of::<{ tree::GROUP }>(keys, which);
            self.tree.visit_versions_of::<{ tree::GROUP }>(&targets[..which.len()], |i, record| {
                let (kind, sequence, value) = self.show(record);
                visit(which[i], kind, sequence, value)
            });
        }
    }

    /// A record as visitors see it.
    #[inline]
    fn show<'a>(self: &'a Arc<Self>, record: Record<'a>) -> (ValueType, SequenceNumber, MemValue<'a>) {
        let (internal_key, bytes) = record.key_value();
        let trailer = record::split(internal_key).1;
        let kind = ValueType::from_u8(trailer as u8).expect("records are made from a ValueType");
        (kind, SequenceNumber(trailer >> 8), MemValue { bytes, owner: self })
    }

    /// Whether a cursor would find nothing now: the memtable has range tombstones only, or no
    /// entries. Takes no lock.
    #[inline]
    pub fn has_no_points(&self) -> bool {
        self.tree.is_empty()
    }

    /// A cursor over all entries but range tombstones. It keeps the memtable alive. Later entries
    /// may or may not appear; none disappears.
    pub fn iter(self: &Arc<Self>) -> MemTableIter {
        MemTableIter::new(Arc::clone(self), false)
    }

    /// [`iter`](Self::iter) for a reader that ignores range tombstones: RocksDB's
    /// `ignore_range_deletions`.
    pub fn iter_ignoring_range_deletions(self: &Arc<Self>) -> MemTableIter {
        MemTableIter::new(Arc::clone(self), true)
    }

    /// `bytes` of a record of this memtable, kept alive by it.
    #[inline]
    pub(crate) fn pin_record_bytes(self: &Arc<Self>, bytes: &[u8]) -> PinnedBytes {
        // SAFETY: callers pass bytes of a record in `self.arena`, which stay in place and unchanged
        // until the drop.
        unsafe { PinnedBytes::with_owner(bytes, Arc::clone(self)) }
    }

    /// The sequence number of the newest range tombstone over `user_key` that `snapshot` sees; zero
    /// if there is none. A memtable without range tombstones costs one test.
    #[inline]
    pub fn max_covering_tombstone_seq(&self, user_key: &[u8], snapshot: SequenceNumber) -> SequenceNumber {
        self.range_dels.max_covering_seq(user_key, &self.icmp, snapshot)
    }

    /// All range tombstones added so far, fragmented, in O(log n) sets. Each tombstone added since
    /// the last call costs O(log n) on average.
    pub fn range_tombstones(&self) -> Vec<Arc<FragmentedRangeTombstones>> {
        self.range_dels.fragments(&self.icmp)
    }

    /// The value type of an entry of this kind in a family with user-defined timestamps.
    /// # Errors
    /// `InvalidArgument` if a key has no room for a timestamp.
    #[cold]
    fn kind_with_timestamp(&self, kind: ValueType, user_key: &[u8], value: &[u8]) -> Result<ValueType> {
        let size = self.icmp.timestamp_size();
        if user_key.len() < size || (kind == ValueType::RangeDeletion && value.len() < size) {
            return Err(Error::invalid_argument(format!("a key without its timestamp of {size} bytes")));
        }
        Ok(if kind == ValueType::Deletion { ValueType::DeletionWithTimestamp } else { kind })
    }

    /// The range tombstones one by one, newest first: for families with user-defined timestamps.
    /// Fragments would mix their timestamps.
    pub fn stored_range_tombstones(&self) -> Vec<RangeTombstone> {
        self.range_dels.stored()
    }

    /// Bytes of memory in use: whole blocks of records and nodes, range tombstones, and the
    /// memtable itself.
    #[inline]
    pub fn approximate_memory_usage(&self) -> usize {
        size_of::<Self>()
            + self.tree.arena().overhead()
            + self.tree.arena().allocated()
            + self.range_dels.memory_usage()
            + self.filter_bytes()
    }

    /// Bytes of memory that its entries use: what `write_buffer_size` limits.
    ///
    /// That is its blocks without the unused rest of the newest one, the range tombstones and the
    /// filter. Costs four loads, takes no lock.
    #[inline]
    pub fn used_bytes(&self) -> usize {
        self.tree.arena().carved() + self.range_dels.used_bytes() + self.filter_bytes()
    }

    fn filter_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, Filter::memory_usage)
    }

    /// Bytes reported to the budget.
    fn budgeted(&self) -> usize {
        self.tree.arena().budgeted() + self.range_dels.budgeted() + self.filter_bytes()
    }

    /// About how many entries have user keys in `[start, end)`.
    pub fn approximate_count(&self, start: &[u8], end: &[u8]) -> u64 {
        let point_entries = self.num_entries() - self.num_range_deletes();
        self.tree.approximate_count(start, end, point_entries)
    }

    /// About how many bytes of keys and values the entries with user keys in `[start, end)` have.
    pub fn approximate_size(&self, start: &[u8], end: &[u8]) -> u64 {
        let stats = self.tree.arena().stats();
        let count = self.approximate_count(start, end);
        (u128::from(stats.data_bytes) * u128::from(count) / u128::from(stats.entries.max(1))) as u64
    }

    /// Number of entries, range tombstones included.
    pub fn num_entries(&self) -> u64 {
        self.tree.arena().stats().entries
    }

    /// Number of point deletions of all kinds.
    pub fn num_deletes(&self) -> u64 {
        self.tree.arena().stats().deletes
    }

    /// Number of range tombstones.
    pub fn num_range_deletes(&self) -> u64 {
        self.range_dels.len() as u64
    }

    /// Bytes of internal keys and values.
    pub fn data_size(&self) -> u64 {
        self.tree.arena().stats().data_bytes
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.num_entries() == 0
    }

    /// The oldest sequence number added; zero if there is none.
    pub fn first_seqno(&self) -> SequenceNumber {
        let stats = self.tree.arena().stats();
        SequenceNumber(if stats.entries == 0 { 0 } else { stats.first_seq })
    }

    /// The newest sequence number added; zero if there is none.
    pub fn largest_seqno(&self) -> SequenceNumber {
        SequenceNumber(self.tree.arena().stats().last_seq)
    }

    /// No entry is older than this; set at creation.
    pub fn earliest_seqno(&self) -> SequenceNumber {
        self.options.earliest_sequence
    }

    /// The newest sequence number of the database when this was made.
    pub fn creation_seqno(&self) -> SequenceNumber {
        self.options.creation_sequence
    }

    /// The engine's number for the memtable.
    pub fn id(&self) -> u64 {
        self.options.id
    }

    /// The order of its keys.
    pub fn comparator(&self) -> &InternalKeyComparator {
        &self.icmp
    }

    /// Marks the memtable as immutable: no entry will be added.
    pub fn mark_immutable(&self) {
        if !self.immutable.swap(true, Ordering::AcqRel)
            && let Some(budget) = &self.options.budget
        {
            budget.schedule_free(self.budgeted());
        }
    }

    /// Whether `mark_immutable` was called.
    pub fn is_immutable(&self) -> bool {
        self.immutable.load(Ordering::Acquire)
    }
}

/// Targets of the keys that `which` names; the array's rest is empty.
#[inline]
fn targets_of<'a, const G: usize>(keys: &'a [LookupKey], which: &[u32]) -> [Target<'a>; G] {
    let mut targets = [Target { user_key: &[], trailer: 0 }; G];
    for (target, &i) in targets.iter_mut().zip(which) {
        *target = Target::new(keys[i as usize].internal_key());
    }
    targets
}

impl fmt::Debug for MemTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemTable")
            .field("id", &self.options.id)
            .field("stats", &self.tree.arena().stats())
            .field("range_deletes", &self.range_dels.len())
            .field("memory", &self.approximate_memory_usage())
            .field("immutable", &self.is_immutable())
            .finish()
    }
}

#[cfg(test)]
mod tests;
