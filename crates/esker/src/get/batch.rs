//! Reads many keys at one point in time.
//!
//! In: keys of one family or of several. Out: a value or an error for each, in the order of the
//! keys.
//!
//! One guard, one super version per family and one sequence number serve the whole batch: every key
//! is read at the same point in time, across families too. The keys are sorted, so that those in
//! the same file, index block and data block are read together: [`crate::get::multi_get`]. If only
//! memtables can have the keys, they are not sorted. A small number of keys is read one by one, as
//! by `get`, under the guard of the batch, because sorting would cost more than it saves. A
//! repeated key gets the first one's answer.

mod order;
mod output;

use order::{Named, Order, Ordered, head_of};
pub use output::MultiGetOutput;
pub(crate) use output::{Output, PinnedOutput};

use super::answer::Answer;
use super::multi_get::{multi_get, resume_multi_get};
use super::point::PointRead;
use super::search::{PointSearch, ReadContext, SuspendedGet, ThroughRows};
use crate::cf::{ColumnFamily, SuperVersion};
use crate::files::RowCache;
use crate::instance::DbInner;
use crate::options::{ReadOptions, ReadTier, table_read_options};
use crate::snapshot::{Holder, Snapshot};
use esker_base::stats::{Histogram, Statistics, Ticker};
use esker_base::sync::Arc;
use esker_base::sync::epoch::{self, Lent};
use esker_base::{ColumnFamilyId, Error, IoActivity, PinnedBytes, Result, SequenceNumber, perf_add};
use esker_format::block::common_prefix;
use esker_format::key::LookupKey;
use esker_table::{TableReadOptions, count_batch_reads};
use smallvec::{SmallVec, smallvec};

impl DbInner {
    /// A batch of one key, read as by `get`: that is a sixth less work.
    #[inline]
    pub(crate) fn read_batch_of_one(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<PinnedBytes>> {
        if options.timestamp.is_some() || cf.icmp.timestamp_size() > 0 {
            return self.get(options, cf, key);
        }
        let _watch = self.engine.time(Histogram::DbMultiget);
        let statistics = self.engine.options.statistics.as_deref();
        let value = self.read(options, cf, key, None, statistics);
        if let Some(statistics) = statistics {
            let bytes = value.as_ref().ok().and_then(Option::as_ref).map(|value| value.len() as u64);
            count_batch(statistics, 1, (bytes.is_some().into(), bytes.unwrap_or(0)));
        }
        value
    }

    /// One key, read as by `get` and lent.
    #[inline]
    pub(crate) fn lend_one(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
        output: &mut MultiGetOutput,
    ) {
        let _watch = self.engine.time(Histogram::DbMultiget);
        output.reset(1);
        let statistics = self.engine.options.statistics.as_deref();
        let read = PointRead { options, cf, own: None, statistics, entities: false };
        if let Err(e) = self.find(&read, key, &mut |answer| output.set_only(answer)) {
            output.set(0, Answer::Made(Err(e)));
        }
        if let Some(statistics) = statistics {
            count_batch(statistics, 1, (output.found_count(), output.value_bytes()));
        }
    }

    /// Reads a batch. `entities`: answers that are not lent are entities.
    #[inline]
    pub(crate) fn read_batch_as(
        self: &Arc<Self>,
        entities: bool,
        options: &ReadOptions,
        keys: &impl Keys,
        output: &mut impl Output,
    ) {
        let _watch = self.engine.time(Histogram::DbMultiget);
        output.reset(keys.len());
        let families = if keys.is_of_one_family() { keys.len().min(1) } else { keys.len() };
        let own = options.snapshot.as_ref().map_or(Ok(()), |snapshot| self.check_own(snapshot));
        let own = own.and_then(|()| (0..families).try_for_each(|i| self.check_family(keys.family(i))));
        let is_traced = own.is_ok() && families > 0 && self.may_be_traced(keys.family(0));
        let _get = if is_traced { self.trace_multi_get(options, keys, entities) } else { None };
        if let Err(e) = own {
            return (0..keys.len()).for_each(|i| output.set(i, Answer::Made(Err(e.clone()))));
        }
        let has_timestamps = |i: usize| keys.family(i).icmp.timestamp_size() > 0;
        if options.timestamp.is_some() || (0..families).any(has_timestamps) {
            return self.read_timestamped_batch(options, keys, output);
        }
        if is_traced && self.engine.commits.is_some() {
            return self.read_batch_at_snapshot(options, keys, entities, output);
        }
        if self.engine.secondary.is_some() && (options.snapshot.is_some() || !keys.is_of_one_family()) {
            return self.read_batch_at_snapshot(options, keys, entities, output);
        }
        let table_options =
            TableReadOptions { activity: IoActivity::MultiGet, ..table_read_options(options) };
        let statistics = self.engine.options.statistics.as_deref();
        let files_only = self.reads_files_only(options);
        // A database with a row cache comes here as if its reads were traced.
        let rows = if is_traced { self.engine.row_cache.as_ref() } else { None };
        let table_options = &table_options;
        let batch = KeyBatch { keys, options, table_options, statistics, entities, files_only, rows };
        if rows.is_some() {
            self.read_through_rows(&batch, output);
        } else if let Some(guard) = self.read_few(&batch, epoch::pin(), output) {
            self.read_many(&batch, guard, output);
        }
        if let Some(statistics) = statistics {
            count_batch_reads(statistics);
            count_batch(statistics, keys.len() as u64, (output.found_count(), output.value_bytes()));
        }
    }

    /// Reads a small number of keys of one family one after the other, as by `get`, but all under
    /// one guard. So it builds none of the structures of a large batch. For any other batch it
    /// reads nothing and gives the guard back.
    #[inline]
    fn read_few(
        self: &Arc<Self>,
        batch: &KeyBatch<'_, impl Keys>,
        guard: epoch::Guard,
        output: &mut impl Output,
    ) -> Option<epoch::Guard> {
        let KeyBatch { keys, options, .. } = *batch;
        let has_limit = options.value_size_soft_limit < u64::MAX;
        if has_limit || !keys.is_of_one_family() || !(1..=FEW_KEYS).contains(&keys.len()) {
            return Some(guard);
        }
        let family = keys.family(0);
        // Loaded before the sequence number, as for `get`.
        let super_version = family.super_version.lend(&guard);
        if keys.len() > FEW_KEYS_OF_MEMTABLES && ends_in_memtables(options, super_version.get()) {
            return Some(guard);
        }
        let sequence = self.read_sequence(options);
        let context = ReadContext { guard: Some(&guard), ..batch.context(0) };
        let mut left = Left::default();
        for i in 0..keys.len() {
            let key = LookupKey::new(keys.key(i), sequence);
            if let Some(suspended) = PointSearch::new(super_version.get(), &context, &key)
                .find(&mut |answer| output.set(i, answer))
            {
                left.waiting.push(Waiting { super_version: 0, key: i, suspended });
            }
        }
        if !left.waiting.is_empty() {
            let super_versions = smallvec![(family.id, super_version.hold())];
            drop(guard);
            batch.resume_read(
                &HeldReadPoint { super_versions, sequence, _snapshot: None },
                &mut left,
                output,
            );
        }
        left.repeat(output);
        None
    }

    /// Reads all other batches.
    #[inline(never)]
    fn read_many(
        self: &Arc<Self>,
        batch: &KeyBatch<'_, impl Keys>,
        guard: epoch::Guard,
        output: &mut impl Output,
    ) {
        let point = self.point(batch.options, batch.keys, &guard);
        if batch.options.value_size_soft_limit < u64::MAX {
            let held = point.hold();
            drop(guard);
            batch.read_up_to_limit(&held, output);
        } else {
            let mut left = Left::default();
            batch.read_under(&point, &guard, output, &mut left);
            if !left.waiting.is_empty() {
                let held = point.hold();
                drop(guard);
                batch.resume_read(&held, &mut left, output);
            }
            left.repeat(output);
        }
    }

    /// Reads a batch of a database with a row cache. Keys that memtables do not settle go through
    /// the files together, each with a look at its row first.
    #[cold]
    fn read_through_rows(self: &Arc<Self>, batch: &KeyBatch<'_, impl Keys>, output: &mut impl Output) {
        let guard = epoch::pin();
        let held = self.point(batch.options, batch.keys, &guard).hold();
        drop(guard);
        if batch.options.value_size_soft_limit < u64::MAX {
            return batch.read_up_to_limit(&held, output);
        }
        let mut left = Left::default();
        batch.read_memtables_of(&held, output, &mut left);
        batch.resume_read(&held, &mut left, output);
        left.repeat(output);
    }

    /// Reads keys one by one, under one snapshot, if some have user-defined timestamps. The
    /// options' timestamp does not count for families without timestamps.
    #[cold]
    fn read_timestamped_batch(
        self: &Arc<Self>,
        options: &ReadOptions,
        keys: &impl Keys,
        output: &mut impl Output,
    ) {
        let snapshot = options.snapshot.clone().unwrap_or_else(|| self.hold_now(Holder::Iterator));
        let options = ReadOptions { snapshot: Some(snapshot), ..options.clone() };
        let plain = ReadOptions { timestamp: None, ..options.clone() };
        let has_timestamps = |i: usize| keys.family(i).icmp.timestamp_size() > 0;
        let has_some = (0..keys.len()).any(has_timestamps);
        for i in 0..keys.len() {
            if output.value_bytes() > options.value_size_soft_limit {
                output.set(i, Answer::Made(Err(behind_limit())));
                continue;
            }
            let of_family = if has_timestamps(i) || !has_some { &options } else { &plain };
            output.set(i, Answer::Made(self.get(of_family, keys.family(i), keys.key(i))));
        }
    }

    /// Reads a batch of a secondary, or of a database with a commit table, key by key: at the
    /// snapshot of the options or, for several families, at one taken now. Without a snapshot,
    /// super versions of several families may not belong together.
    #[cold]
    fn read_batch_at_snapshot(
        self: &Arc<Self>,
        options: &ReadOptions,
        keys: &impl Keys,
        entities: bool,
        output: &mut impl Output,
    ) {
        let snapshot = options.snapshot.clone().unwrap_or_else(|| self.hold_now(Holder::User));
        let options = &ReadOptions { snapshot: Some(snapshot), ..options.clone() };
        let statistics = self.engine.options.statistics.as_deref();
        for i in 0..keys.len() {
            if output.value_bytes() > options.value_size_soft_limit {
                output.set(i, Answer::Made(Err(behind_limit())));
                continue;
            }
            let read = PointRead { options, cf: keys.family(i), own: None, statistics, entities };
            if let Err(e) = self.find(&read, keys.key(i), &mut |answer| output.set(i, answer)) {
                output.set(i, Answer::Made(Err(e)));
            }
        }
        if let Some(statistics) = statistics {
            count_batch(statistics, keys.len() as u64, (output.found_count(), output.value_bytes()));
        }
    }

    /// The super versions and sequence number to read at. All super versions are loaded before the
    /// number is read. The number is valid for all of them if no memtable was switched in between;
    /// otherwise earlier writes may be in a memtable that a super version lacks.
    #[inline]
    fn point<'g>(
        self: &Arc<Self>,
        options: &ReadOptions,
        keys: &impl Keys,
        guard: &'g epoch::Guard,
    ) -> ReadPoint<'g> {
        for _ in 0..READ_POINT_ATTEMPTS {
            let super_versions = super_versions_of(keys, guard);
            let sequence = self.read_sequence(options);
            // A snapshot is older than the super versions, and a single super version is consistent
            // by itself.
            let is_one_read_point = options.snapshot.is_some() || super_versions.len() <= 1;
            if is_one_read_point
                || super_versions_of(keys, guard).iter().zip(&super_versions).all(same_memtable)
            {
                return ReadPoint { super_versions, sequence, snapshot: None };
            }
        }
        // Super versions that are loaded after a snapshot hold everything it sees.
        let snapshot = self.hold_now(Holder::User);
        ReadPoint {
            super_versions: super_versions_of(keys, guard),
            sequence: snapshot.sequence(),
            snapshot: Some(snapshot),
        }
    }
}

/// The error of a key that `value_size_soft_limit` left unread.
#[cold]
pub(crate) fn behind_limit() -> Error {
    Error::aborted("multi_get: value_size_soft_limit reached before this key")
}

/// Counts a batch of `keys`, the number of its values, and their bytes.
fn count_batch(statistics: &Statistics, keys: u64, (found, bytes): (u64, u64)) {
    statistics.record_tick(Ticker::NumberMultigetCalls, 1);
    statistics.record_tick(Ticker::NumberMultigetKeysRead, keys);
    statistics.record_tick(Ticker::NumberMultigetBytesRead, bytes);
    perf_add!(multiget_read_bytes, bytes);
    statistics.record_in_histogram(Histogram::BytesPerMultiget, bytes);
    statistics.record_tick(Ticker::NumberMultigetKeysFound, found);
}

/// Up to this many keys are read one by one. Measured with `cargo run --release -p esker-bench
/// --example batches`: sorted and read together, 2 to 4 keys cost 1.5 to 1.2 of single reads if the
/// processor has their blocks in its cache. 8 to 12 keys from all over the database cost 0.7.
const FEW_KEYS: usize = 4;

/// [`FEW_KEYS`] for a batch that searches memtables only. Read together, three keys cost 0.85 of
/// three single reads if they are in no processor cache. If they are in one, they cost up to 1.2
/// while another program shares the core.
const FEW_KEYS_OF_MEMTABLES: usize = 3;

/// Most different keys that go through a family's memtables and files together: their state has to
/// stay in the first-level cache.
const MOST_KEYS_TOGETHER: usize = 64;

/// The keys of a batch.
pub(crate) trait Keys {
    fn len(&self) -> usize;
    fn key(&self, i: usize) -> &[u8];
    fn family(&self, i: usize) -> &ColumnFamily;
    /// Whether all keys are of one family.
    fn is_of_one_family(&self) -> bool;
}

/// A batch to be read.
struct KeyBatch<'b, K> {
    keys: &'b K,
    options: &'b ReadOptions,
    table_options: &'b TableReadOptions,
    statistics: Option<&'b Statistics>,
    /// Whether answers that are not lent are entities.
    entities: bool,
    /// Whether memtables are skipped.
    files_only: bool,
    /// The row cache of the database. With it, no key is read under a guard.
    rows: Option<&'b RowCache>,
}

/// Most keys whose lookup keys are on the stack. They go through a memtable together.
const FEW_LOOKUPS: usize = 16;

/// Up to this many keys use a smaller array: room for `FEW_LOOKUPS` would cost more than the
/// lookups.
const FEWER_LOOKUPS: usize = 4;

/// Most keys that wait for files together. Their blocks are held until all of them have passed a
/// level.
const MOST_KEYS_WAITING: usize = 256;

/// Up to this many keys that wait for files are finished one by one, as by `get`: planning them
/// costs more than they can share. With `async_io` it is one key, because the misses of several are
/// read at the same time.
const FEW_KEYS_WAITING: usize = 4;

/// The keys of a batch that memory did not answer.
#[derive(Default)]
struct Left {
    waiting: SmallVec<[Waiting; FEW_KEYS_WAITING]>,
    /// Pairs of a repeated key and the key that it repeats.
    repeated: SmallVec<[(u32, u32); FEW_LOOKUPS]>,
}

impl Left {
    /// Copies the answers of repeated keys, in reverse order: a first occurrence may itself repeat
    /// another key.
    #[inline]
    fn repeat(&self, output: &mut impl Output) {
        for &(key, of) in self.repeated.iter().rev() {
            output.repeat(key as usize, of as usize);
        }
    }
}

/// A key of a batch that has to wait for files.
struct Waiting {
    super_version: usize,
    key: usize,
    suspended: SuspendedGet,
}

impl<K: Keys> KeyBatch<'_, K> {
    fn context(&self, key: usize) -> ReadContext<'_> {
        let context =
            ReadContext::new(self.keys.family(key), self.options, self.table_options, self.statistics);
        ReadContext { entities: self.entities, files_only: self.files_only, ..context }
    }

    /// Reads from memory under the guard, and suspends the keys that need files.
    #[inline]
    fn read_under(
        &self,
        point: &ReadPoint<'_>,
        guard: &epoch::Guard,
        output: &mut impl Output,
        left: &mut Left,
    ) {
        let ends_in_memtables = self.ends_in_memtables(point);
        let few = if ends_in_memtables { FEW_KEYS_OF_MEMTABLES } else { FEW_KEYS };
        if self.keys.len() <= few {
            self.read_one_by_one(point, guard, output, left);
        } else {
            self.read_together(point, guard, (output, left), ends_in_memtables);
        }
    }

    #[inline]
    fn read_one_by_one(
        &self,
        point: &ReadPoint<'_>,
        guard: &epoch::Guard,
        output: &mut impl Output,
        left: &mut Left,
    ) {
        for i in 0..self.keys.len() {
            let at = self.super_version_of(point, i);
            let super_version = point.super_versions[at].1.get();
            let key = LookupKey::new(self.keys.key(i), point.sequence);
            let context = ReadContext { guard: Some(guard), ..self.context(i) };
            if let Some(suspended) =
                PointSearch::new(super_version, &context, &key).find(&mut |answer| output.set(i, answer))
            {
                left.waiting.push(Waiting { super_version: at, key: i, suspended });
            }
        }
    }

    /// Reads in the order of the keys, so that the limit ends the batch at a key that the caller
    /// can name.
    #[cold]
    fn read_up_to_limit(&self, held: &HeldReadPoint, output: &mut impl Output) {
        for i in 0..self.keys.len() {
            if output.value_bytes() > self.options.value_size_soft_limit {
                output.set(i, Answer::Made(Err(behind_limit())));
                continue;
            }
            let family = self.keys.family(i);
            let super_version = held.super_versions.iter().find(|(id, _)| *id == family.id);
            let (_, super_version) =
                super_version.expect("the read point has a super version of each family");
            let key = LookupKey::new(self.keys.key(i), held.sequence);
            let context = self.context(i);
            let search = PointSearch::new(super_version, &context, &key);
            let mut settle = |answer: Answer<'_>| output.set(i, answer);
            match self.rows {
                Some(rows) => search.seeing(ThroughRows(rows)).find(&mut settle),
                None => search.find(&mut settle),
            };
        }
    }

    /// Searches the memtables for each key. Keys that need files wait at the first of them.
    fn read_memtables_of(&self, held: &HeldReadPoint, output: &mut impl Output, left: &mut Left) {
        for i in 0..self.keys.len() {
            let id = self.keys.family(i).id;
            let super_version = held.super_versions.iter().position(|(of, _)| *of == id);
            let super_version = super_version.expect("the read point has a super version of each family");
            let key = LookupKey::new(self.keys.key(i), held.sequence);
            let context = self.context(i);
            let search = PointSearch::new(&held.super_versions[super_version].1, &context, &key);
            if let Some(suspended) = search.find_in_memtables(&mut |answer| output.set(i, answer)) {
                left.waiting.push(Waiting { super_version, key: i, suspended });
            }
        }
    }

    /// Reads family by family. Where files are read, keys are sorted, and equal keys are read once.
    fn read_together(
        &self,
        point: &ReadPoint<'_>,
        guard: &epoch::Guard,
        (output, left): (&mut impl Output, &mut Left),
        ends_in_memtables: bool,
    ) {
        if ends_in_memtables && self.keys.is_of_one_family() {
            return match self.keys.len() {
                ..=FEWER_LOOKUPS => self.read_memtables::<FEWER_LOOKUPS, 16>(point, guard, output, left),
                len if len <= FEW_LOOKUPS => {
                    self.read_memtables::<FEW_LOOKUPS, 64>(point, guard, output, left)
                }
                _ => self.read_memtables::<FEW_LOOKUPS, 512>(point, guard, output, left),
            };
        }
        let ordered = self.ordered(point, ends_in_memtables);
        let most = ordered.len().min(MOST_KEYS_TOGETHER);
        let mut lookups: SmallVec<[LookupKey; FEW_LOOKUPS]> = SmallVec::new();
        lookups.resize_with(most, LookupKey::default);
        let mut numbers: SmallVec<[u32; FEW_LOOKUPS]> = SmallVec::with_capacity(most);
        let Left { waiting, repeated } = left;
        let mut rest = ordered.as_slice();
        let mut last: Option<Ordered> = None;
        while let Some(first) = rest.first() {
            numbers.clear();
            let mut taken = 0;
            for at in rest.iter().take_while(|at| at.super_version() == first.super_version()) {
                match last {
                    Some(last) if self.is_same_key(last, *at) => {
                        repeated.push((at.key() as u32, last.key() as u32));
                    }
                    _ if numbers.len() == most => break,
                    _ => {
                        lookups[numbers.len()].set(self.keys.key(at.key()), point.sequence);
                        numbers.push(at.key() as u32);
                        last = Some(*at);
                    }
                }
                taken += 1;
            }
            rest = &rest[taken..];
            let super_version = first.super_version();
            let context = ReadContext { guard: Some(guard), ..self.context(first.key()) };
            let mut settle = |i: usize, answer: Answer<'_>| output.set(numbers[i] as usize, answer);
            let mut suspend = |i: usize, suspended| {
                waiting.push(Waiting { super_version, key: numbers[i] as usize, suspended })
            };
            let lookups = &lookups[..numbers.len()];
            multi_get(
                point.super_versions[super_version].1.get(),
                (&context, guard),
                lookups,
                &mut settle,
                &mut suspend,
            );
        }
    }

    /// Reads keys of one family that only its memtables can have, in any order, `N` together. A
    /// table of `SLOTS` words finds most repeated keys.
    fn read_memtables<const N: usize, const SLOTS: usize>(
        &self,
        point: &ReadPoint<'_>,
        guard: &epoch::Guard,
        output: &mut impl Output,
        left: &mut Left,
    ) {
        let mut lookups: [LookupKey; N] = std::array::from_fn(|_| LookupKey::default());
        let mut numbers = [0; N];
        let mut named = Named::<SLOTS>::new();
        let context = ReadContext { guard: Some(guard), ..self.context(0) };
        let Left { waiting, repeated } = left;
        let mut next = 0;
        while next < self.keys.len() {
            let mut count = 0;
            while count < N && next < self.keys.len() {
                match named.before(self.keys, next) {
                    Some(of) => repeated.push((next as u32, of as u32)),
                    None => {
                        lookups[count].set(self.keys.key(next), point.sequence);
                        numbers[count] = next;
                        count += 1;
                    }
                }
                next += 1;
            }
            let mut settle = |i: usize, answer: Answer<'_>| output.set(numbers[i], answer);
            let mut suspend =
                |i, suspended| waiting.push(Waiting { super_version: 0, key: numbers[i], suspended });
            let lookups = &lookups[..count];
            multi_get(point.super_versions[0].1.get(), (&context, guard), lookups, &mut settle, &mut suspend);
        }
    }

    /// Finishes the suspended keys: one by one, or, if they are many, family by family.
    #[cold]
    fn resume_read(&self, held: &HeldReadPoint, left: &mut Left, output: &mut impl Output) {
        let mut waiting = std::mem::take(&mut left.waiting);
        let few = if self.options.async_io { 1 } else { FEW_KEYS_WAITING };
        if self.rows.is_none() && waiting.len() <= few {
            for Waiting { super_version, key: i, suspended } in waiting {
                let key = LookupKey::new(self.keys.key(i), held.sequence);
                let mut settle = |answer: Answer<'_>| output.set(i, answer);
                PointSearch::new(&held.super_versions[super_version].1, &self.context(i), &key)
                    .resume(suspended, &mut settle);
            }
            return;
        }
        let icmp = |w: &Waiting| &self.keys.family(w.key).icmp;
        let key = |w: &Waiting| self.keys.key(w.key);
        waiting.sort_by(|a, b| {
            a.super_version.cmp(&b.super_version).then_with(|| icmp(a).compare_user_keys(key(a), key(b)))
        });
        waiting.dedup_by(|repeat, of| {
            let is_same =
                repeat.super_version == of.super_version && icmp(of).same_user_key(key(repeat), key(of));
            if is_same {
                left.repeated.push((repeat.key as u32, of.key as u32));
            }
            is_same
        });
        let mut waiting = waiting.into_iter();
        while let [first, ..] = waiting.as_slice() {
            let (super_version, context) = (first.super_version, self.context(first.key));
            let of_family = waiting.as_slice().iter().take_while(|w| w.super_version == super_version);
            let count = of_family.take(MOST_KEYS_WAITING).count();
            let (mut numbers, mut lookups, mut suspended) =
                (Vec::with_capacity(count), Vec::with_capacity(count), Vec::with_capacity(count));
            for next in waiting.by_ref().take(count) {
                lookups.push(LookupKey::new(self.keys.key(next.key), held.sequence));
                numbers.push(next.key);
                suspended.push(next.suspended);
            }
            let mut settle = |i: usize, answer: Answer<'_>| output.set(numbers[i], answer);
            let super_version = &held.super_versions[super_version].1;
            resume_multi_get(super_version, (&context, self.rows), &lookups, suspended, &mut settle);
        }
    }

    /// The number of a key's super version.
    #[inline]
    fn super_version_of(&self, point: &ReadPoint<'_>, i: usize) -> usize {
        if self.keys.is_of_one_family() { 0 } else { point.super_version_of(self.keys.family(i)) }
    }

    /// Whether two keys are the same. In an unknown order all heads are equal, so the keys are
    /// compared.
    #[inline]
    fn is_same_key(&self, a: Ordered, b: Ordered) -> bool {
        a.has_head_of(b) && {
            let icmp = &self.keys.family(a.key()).icmp;
            icmp.same_user_key(self.keys.key(a.key()), self.keys.key(b.key()))
        }
    }

    /// Length of the common prefix of all keys.
    fn shared_prefix(&self) -> usize {
        let Some(rest) = self.keys.len().checked_sub(1) else { return 0 };
        let first = self.keys.key(0);
        (1..=rest).fold(first.len(), |shared, i| common_prefix(&first[..shared], self.keys.key(i)))
    }

    /// Whether only memtables can have the keys. Memtables are searched in any order.
    fn ends_in_memtables(&self, point: &ReadPoint<'_>) -> bool {
        point
            .super_versions
            .iter()
            .all(|(_, super_version)| ends_in_memtables(self.options, super_version.get()))
    }

    /// The keys by family and, if files may have them, by the family's order.
    fn ordered(&self, point: &ReadPoint<'_>, ends_in_memtables: bool) -> Order {
        let all = 0..self.keys.len();
        if ends_in_memtables {
            // Distinct heads for all keys: no keys are compared, because a second search costs
            // less.
            let mut ordered: Order =
                all.map(|i| Ordered::new(self.super_version_of(point, i), i as u64, i)).collect();
            if point.super_versions.len() > 1 {
                ordered.sort_unstable();
            }
            return ordered;
        }
        let shared = self.shared_prefix();
        let head = |i: usize| head_of(self.keys.family(i).icmp.order(), self.keys.key(i), shared);
        let mut ordered: Order = if self.keys.is_of_one_family() && self.keys.len() <= Ordered::MOST_SHORT {
            let mut short: SmallVec<[u64; 32]> = all.map(|i| Ordered::short(head(i), i)).collect();
            short.sort_unstable();
            short.into_iter().map(Ordered::from_short).collect()
        } else {
            let mut ordered: Order =
                all.map(|i| Ordered::new(self.super_version_of(point, i), head(i), i)).collect();
            ordered.sort_unstable();
            ordered
        };
        for run in ordered.chunk_by_mut(|a, b| a.has_head_of(*b)).filter(|run| run.len() > 1) {
            let icmp = &self.keys.family(run[0].key()).icmp;
            let key = |at: &Ordered| self.keys.key(at.key());
            run.sort_by(|a, b| icmp.compare_user_keys(key(a), key(b)));
        }
        ordered
    }
}

/// Whether only the memtables of this super version can have the keys.
#[inline]
fn ends_in_memtables(options: &ReadOptions, super_version: &SuperVersion) -> bool {
    options.read_tier == ReadTier::Memtable
        || super_version.version.levels().iter().all(|l| l.files().is_empty())
}

/// If memtables are switched meanwhile, a read tries this many times to find a read point before it
/// takes a snapshot.
const READ_POINT_ATTEMPTS: usize = 3;

type FamilyVersion<'g> = (ColumnFamilyId, Lent<'g, SuperVersion>);

type SuperVersions<'g> = SmallVec<[FamilyVersion<'g>; 2]>;

/// One super version for each family, and a sequence number up to which all of them are complete.
struct ReadPoint<'g> {
    super_versions: SuperVersions<'g>,
    sequence: SequenceNumber,
    /// Protects the entries that `sequence` sees from compactions, if the super versions alone do
    /// not.
    snapshot: Option<Snapshot>,
}

/// A read point without a guard.
struct HeldReadPoint {
    super_versions: SmallVec<[(ColumnFamilyId, Arc<SuperVersion>); 2]>,
    sequence: SequenceNumber,
    _snapshot: Option<Snapshot>,
}

impl ReadPoint<'_> {
    /// Holds the read point while keys wait.
    #[cold]
    fn hold(self) -> HeldReadPoint {
        let super_versions =
            self.super_versions.iter().map(|(id, super_version)| (*id, super_version.hold())).collect();
        HeldReadPoint { super_versions, sequence: self.sequence, _snapshot: self.snapshot }
    }

    /// The index of a family's super version. REQUIRES: the read point was made with the family.
    #[inline]
    fn super_version_of(&self, family: &ColumnFamily) -> usize {
        self.super_versions
            .iter()
            .position(|(id, _)| *id == family.id)
            .expect("the read point has a super version of each family")
    }
}

fn same_memtable((now, before): (&FamilyVersion<'_>, &FamilyVersion<'_>)) -> bool {
    Arc::ptr_eq(&now.1.get().mem, &before.1.get().mem)
}

/// The current super version of each family, once.
#[inline]
fn super_versions_of<'g>(keys: &impl Keys, guard: &'g epoch::Guard) -> SuperVersions<'g> {
    let mut super_versions = SuperVersions::new();
    let different = if keys.is_of_one_family() { keys.len().min(1) } else { keys.len() };
    for family in (0..different).map(|i| keys.family(i)) {
        if !super_versions.iter().any(|(id, _)| *id == family.id) {
            super_versions.push((family.id, family.super_version.lend(guard)));
        }
    }
    super_versions
}

#[cfg(test)]
mod tests;
