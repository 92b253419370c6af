//! Many keys at one moment.
//!
//! In: keys of one family or of several. Out: a value or an error for each, in the order of the keys.
//!
//! One guard, one view per family and one sequence number serve the whole batch: every key is read as of the same moment,
//! across families too. The keys are sorted, so that those in the same file, index block and data block are read together,
//! and a key that is named twice is read once: [`crate::read::multi_get`]. What only memtables can have is not sorted, and a
//! key or two are read as by `get`: that costs less than what they could share.

mod output;

pub use output::MultiGetOutput;

use super::reads::{check_read_options, read_context, table_read_options};
use super::{ColumnFamilyHandle, Db};
use crate::cf::SuperVersion;
use crate::options::{ReadOptions, ReadTier};
use crate::read::get::{ReadContext, get};
use crate::read::multi_get::{Answer, multi_get};
use crate::snapshot::Snapshot;
use esker_base::comparator::KeyOrder;
use esker_base::stats::{Statistics, Ticker};
use esker_base::sync::{Arc, epoch};
use esker_base::{Error, PinnedBytes, Result, SequenceNumber};
use esker_format::block::common_prefix;
use esker_format::key::LookupKey;
use esker_table::TableReadOptions;
use smallvec::SmallVec;

impl Db {
    /// The values of `keys` in the default family, in the order of the keys.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<PinnedBytes>>> {
        self.multi_get_opt(&ReadOptions::default(), &self.default_column_family(), keys)
    }

    /// The values of `keys` in `family`, in the order of the keys, each with its own result: an error of one does not
    /// touch the others. With `value_size_soft_limit`, keys behind the limit give `Aborted`.
    pub fn multi_get_opt<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[K],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        let pairs: Pairs<'_> = keys.iter().map(|key| (family, key.as_ref())).collect();
        self.multi_get_cf(options, &pairs)
    }

    /// The values of keys in several families, all as of one moment.
    pub fn multi_get_cf(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamilyHandle, &[u8])],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        let mut output = MultiGetOutput::new();
        self.read_batch(options, keys, &mut output, true);
        output.into_pinned()
    }

    /// The values of `keys` in `family`, lent by `output`, which forgets what it had. The results are those of
    /// [`Db::multi_get_opt`]; a value that is not taken along costs no count of who holds it.
    pub fn multi_get_lent<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[K],
        output: &mut MultiGetOutput,
    ) {
        let pairs: Pairs<'_> = keys.iter().map(|key| (family, key.as_ref())).collect();
        self.multi_get_lent_cf(options, &pairs, output);
    }

    /// The values of keys in several families, all as of one moment, lent by `output`, which forgets what it had.
    pub fn multi_get_lent_cf(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamilyHandle, &[u8])],
        output: &mut MultiGetOutput,
    ) {
        self.read_batch(options, keys, output, false);
    }

    fn read_batch(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamilyHandle, &[u8])],
        output: &mut MultiGetOutput,
        pin_all: bool,
    ) {
        output.reset(keys.len());
        if let Err(e) = check_read_options(options) {
            return output.fail_all(&e);
        }
        let guard = epoch::pin();
        let moment = self.moment(options, keys, &guard);
        let table_options = table_read_options(options);
        let statistics = self.engine().options.statistics.as_deref();
        let batch = KeyBatch { keys, moment: &moment, options, table_options: &table_options, statistics };
        if keys.len() <= FEW_KEYS || options.value_size_soft_limit < u64::MAX {
            batch.read_one_by_one(output, pin_all);
        } else {
            batch.read_together(output, pin_all);
        }
        if let Some(statistics) = statistics {
            statistics.record_tick(Ticker::NumberMultigetCalls, 1);
            statistics.record_tick(Ticker::NumberMultigetKeysRead, keys.len() as u64);
            statistics.record_tick(Ticker::NumberMultigetBytesRead, output.value_bytes());
            let found = output.iter().filter(|v| matches!(v, Ok(Some(_)))).count();
            statistics.record_tick(Ticker::NumberMultigetKeysFound, found as u64);
        }
    }

    /// What to read, and at which number. All views are loaded before the number is read; the number is good for all
    /// of them if no memtable was switched in between: else writes below it may be in a memtable that a view lacks.
    fn moment<'g>(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamilyHandle, &[u8])],
        guard: &'g epoch::Guard,
    ) -> Moment<'g> {
        for _ in 0..MOMENT_ATTEMPTS {
            let views = views_of(keys, guard);
            let sequence = self.inner.read_sequence(options);
            // A snapshot is older than the views, and one family by itself was at one moment just as its view is.
            let is_one_moment = options.snapshot.is_some() || views.len() <= 1;
            if is_one_moment || views_of(keys, guard).iter().zip(&views).all(same_memtable) {
                return Moment { views, sequence, _held: None };
            }
        }
        // Views that are loaded behind a snapshot hold all that it sees.
        let snapshot = self.snapshot();
        Moment { views: views_of(keys, guard), sequence: snapshot.sequence(), _held: Some(snapshot) }
    }
}

/// So many keys are read one by one: what they could share is less than it costs to put them in order.
const FEW_KEYS: usize = 2;

/// Different keys that go through a family's memtables and files together, at most: bounds what a large batch holds.
const MOST_KEYS_TOGETHER: usize = 256;

/// A batch to be read.
struct KeyBatch<'b, 'g> {
    keys: &'b [(&'b ColumnFamilyHandle, &'b [u8])],
    moment: &'b Moment<'g>,
    options: &'b ReadOptions,
    table_options: &'b TableReadOptions,
    statistics: Option<&'b Statistics>,
}

/// A key's place in the order in which a batch is read.
#[derive(Clone, Copy)]
struct Ordered {
    /// Which of the moment's views.
    view: u32,
    /// The key's number in the batch.
    key: u32,
    /// Sorts as the key does, where two of them differ: what lies behind the bytes that all keys have in common.
    head: u64,
}

impl KeyBatch<'_, '_> {
    fn context(&self, key: usize) -> ReadContext<'_> {
        read_context(&self.keys[key].0.cf, self.options, self.table_options, self.statistics)
    }

    /// In the order of the keys, so that a limit ends the batch at a key that the caller can name.
    fn read_one_by_one(&self, output: &mut MultiGetOutput, pin_all: bool) {
        for (i, (family, key)) in self.keys.iter().enumerate() {
            let answer = if output.value_bytes() > self.options.value_size_soft_limit {
                Err(Error::aborted("multi_get: value_size_soft_limit reached before this key"))
            } else {
                let (_, view) = self.moment.views[self.moment.view_of(family)];
                get(view, &self.context(i), &LookupKey::new(key, self.moment.sequence))
            };
            output.set(i, Answer::Made(answer), pin_all);
        }
    }

    /// Family by family and, where files are read, sorted and each different key once.
    fn read_together(&self, output: &mut MultiGetOutput, pin_all: bool) {
        let ordered = self.ordered();
        let mut lookups = Vec::with_capacity(ordered.len().min(MOST_KEYS_TOGETHER));
        let mut numbers = Vec::with_capacity(lookups.capacity());
        let mut repeated: Vec<(u32, u32)> = Vec::new();
        let mut rest = ordered.as_slice();
        while let Some(first) = rest.first() {
            lookups.clear();
            numbers.clear();
            let mut taken = 0;
            for at in rest.iter().take_while(|at| at.view == first.view) {
                match numbers.last() {
                    Some(&last) if self.is_same_key(last, at.key) => repeated.push((at.key, last)),
                    _ if lookups.len() == MOST_KEYS_TOGETHER => break,
                    _ => {
                        lookups.push(LookupKey::new(self.keys[at.key as usize].1, self.moment.sequence));
                        numbers.push(at.key);
                    }
                }
                taken += 1;
            }
            rest = &rest[taken..];
            let (_, view) = self.moment.views[first.view as usize];
            multi_get(view, &self.context(first.key as usize), &lookups, &mut |i, answer| {
                output.set(numbers[i] as usize, answer, pin_all);
            });
        }
        for (key, of) in repeated {
            output.repeat(key as usize, of as usize);
        }
    }

    /// Whether two keys of one family are the same.
    fn is_same_key(&self, a: u32, b: u32) -> bool {
        let ((family, a), (_, b)) = (self.keys[a as usize], self.keys[b as usize]);
        a == b || (family.cf.icmp.order() == KeyOrder::Custom && family.cf.icmp.same_user_key(a, b))
    }

    /// How many first bytes all keys have in common.
    fn shared_prefix(&self) -> usize {
        let Some(((_, first), rest)) = self.keys.split_first() else { return 0 };
        rest.iter().fold(first.len(), |shared, (_, key)| common_prefix(&first[..shared], key))
    }

    /// Whether no key goes further than the memtables, which are searched in any order.
    fn ends_in_memtables(&self) -> bool {
        let has_no_files = |(_, view): &View<'_>| view.version.levels().iter().all(|l| l.files().is_empty());
        self.options.read_tier == ReadTier::Memtable || self.moment.views.iter().all(has_no_files)
    }

    /// The keys by family, then by the family's order if they may be looked for in files.
    fn ordered(&self) -> Vec<Ordered> {
        let in_any_order = self.ends_in_memtables();
        let shared = if in_any_order { 0 } else { self.shared_prefix() };
        let order = |(i, (family, key)): (usize, &(&ColumnFamilyHandle, &[u8]))| Ordered {
            view: self.moment.view_of(family) as u32,
            key: i as u32,
            head: head_of(family.cf.icmp.order(), &key[shared..]),
        };
        let mut ordered: Vec<Ordered> = self.keys.iter().enumerate().map(order).collect();
        if in_any_order {
            if self.moment.views.len() > 1 {
                ordered.sort_unstable_by_key(|at| at.view);
            }
            return ordered;
        }
        ordered.sort_unstable_by(|a, b| {
            (a.view, a.head).cmp(&(b.view, b.head)).then_with(|| {
                let ((family, a), (_, b)) = (self.keys[a.key as usize], self.keys[b.key as usize]);
                family.cf.icmp.compare_user_keys(a, b)
            })
        });
        ordered
    }
}

/// A number that sorts as `order` does wherever two of them differ; the same for all keys of an order that is not known.
#[inline]
fn head_of(order: KeyOrder, user_key: &[u8]) -> u64 {
    let head = match user_key.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut padded = [0; 8];
            padded[..user_key.len()].copy_from_slice(user_key);
            u64::from_be_bytes(padded)
        }
    };
    match order {
        KeyOrder::Bytewise => head,
        KeyOrder::ReverseBytewise => !head,
        KeyOrder::Custom => 0,
    }
}

/// How often switched memtables make a read look again before it takes a snapshot.
const MOMENT_ATTEMPTS: usize = 3;

/// Keys with their families; few of them stay on the stack.
type Pairs<'k> = SmallVec<[(&'k ColumnFamilyHandle, &'k [u8]); 8]>;

type View<'g> = (esker_base::ColumnFamilyId, &'g SuperVersion);

type Views<'g> = SmallVec<[View<'g>; 2]>;

/// One view for each family, and a number up to which all of them are complete.
struct Moment<'g> {
    views: Views<'g>,
    sequence: SequenceNumber,
    /// Keeps what `sequence` sees from being compacted away, where the views alone do not.
    _held: Option<Snapshot>,
}

impl Moment<'_> {
    /// The number of a family's view. REQUIRES: the family was named when the moment was made.
    #[inline]
    fn view_of(&self, family: &ColumnFamilyHandle) -> usize {
        self.views.iter().position(|(id, _)| *id == family.id()).expect("collected with the moment")
    }
}

fn same_memtable((now, before): (&View<'_>, &View<'_>)) -> bool {
    Arc::ptr_eq(&now.1.mem, &before.1.mem)
}

/// The current view of each family, once.
fn views_of<'g>(keys: &[(&ColumnFamilyHandle, &[u8])], guard: &'g epoch::Guard) -> Views<'g> {
    let mut views = Views::new();
    for (family, _) in keys {
        if !views.iter().any(|(id, _)| *id == family.id()) {
            views.push((family.id(), family.cf.super_version.load(guard)));
        }
    }
    views
}
