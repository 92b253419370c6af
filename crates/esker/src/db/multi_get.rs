//! Many keys at one moment.
//!
//! One guard, one view per family and one sequence number serve the whole batch: every key is read as of the same moment,
//! across families too.

use super::reads::{check_read_options, read_context, table_read_options};
use super::{ColumnFamilyHandle, Db};
use crate::cf::SuperVersion;
use crate::options::ReadOptions;
use crate::read::get::get;
use crate::snapshot::Snapshot;
use esker_base::stats::Ticker;
use esker_base::sync::{Arc, epoch};
use esker_base::{Error, PinnedBytes, Result, SequenceNumber};
use esker_format::key::LookupKey;

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
        let pairs: Vec<_> = keys.iter().map(|key| (family, key.as_ref())).collect();
        self.multi_get_cf(options, &pairs)
    }

    /// The values of keys in several families, all as of one moment.
    pub fn multi_get_cf(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamilyHandle, &[u8])],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        if let Err(e) = check_read_options(options) {
            return keys.iter().map(|_| Err(e.clone())).collect();
        }
        let guard = epoch::pin();
        let moment = self.moment(options, keys, &guard);
        let Moment { views, sequence, .. } = &moment;
        let table_options = table_read_options(options);
        let statistics = self.engine().options.statistics.as_deref();
        let mut value_bytes = 0u64;
        let read = |(family, key): &(&ColumnFamilyHandle, &[u8])| {
            if value_bytes > options.value_size_soft_limit {
                return Err(Error::aborted("multi_get: value_size_soft_limit reached before this key"));
            }
            let view = views.iter().find(|(id, _)| *id == family.id()).expect("collected above").1;
            let context = read_context(&family.cf, options, &table_options, statistics);
            let value = get(view, &context, &LookupKey::new(key, *sequence))?;
            value_bytes += value.as_ref().map_or(0, |v| v.len() as u64);
            Ok(value)
        };
        let values: Vec<Result<Option<PinnedBytes>>> = keys.iter().map(read).collect();
        if let Some(statistics) = statistics {
            statistics.record_tick(Ticker::NumberMultigetCalls, 1);
            statistics.record_tick(Ticker::NumberMultigetKeysRead, keys.len() as u64);
            statistics.record_tick(Ticker::NumberMultigetBytesRead, value_bytes);
            let found = values.iter().filter(|v| matches!(v, Ok(Some(_)))).count();
            statistics.record_tick(Ticker::NumberMultigetKeysFound, found as u64);
        }
        values
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

/// How often switched memtables make a read look again before it takes a snapshot.
const MOMENT_ATTEMPTS: usize = 3;

type View<'g> = (esker_base::ColumnFamilyId, &'g SuperVersion);

/// One view for each family, and a number up to which all of them are complete.
struct Moment<'g> {
    views: Vec<View<'g>>,
    sequence: SequenceNumber,
    /// Keeps what `sequence` sees from being compacted away, where the views alone do not.
    _held: Option<Snapshot>,
}

fn same_memtable((now, before): (&View<'_>, &View<'_>)) -> bool {
    Arc::ptr_eq(&now.1.mem, &before.1.mem)
}

/// The current view of each family, once.
fn views_of<'g>(keys: &[(&ColumnFamilyHandle, &[u8])], guard: &'g epoch::Guard) -> Vec<View<'g>> {
    let mut views: Vec<View<'g>> = Vec::new();
    for (family, _) in keys {
        if !views.iter().any(|(id, _)| *id == family.id()) {
            views.push((family.id(), family.cf.super_version.load(guard)));
        }
    }
    views
}
