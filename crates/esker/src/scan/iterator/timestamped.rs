//! Iterators over families with user-defined timestamps: a cursor over the super version's sorted
//! runs, with all range tombstones beside it. The cursor for a single key has only the runs that
//! may hold it.

use super::internal_iterator;
use crate::cf::{ColumnFamily, SuperVersion};
use crate::files::open_table::open_for;
use crate::merge::timestamps::{may_hold, stored_tombstones, table_iter};
use crate::merge::{MergeChild, MergingIterator};
use crate::options::{ReadOptions, ReadTier, table_read_options};
use crate::scan::timestamped::{TimestampedIter, TimestampedTombstones, TombstoneReader};
use crate::scan::versions::VersionsIter;
use crate::scan::{DbIterOptions, KeepAlive};
use crate::version::FileMeta;
use esker_base::stats::Ticker;
use esker_base::sync::Arc;
use esker_base::{Result, SequenceNumber};
use esker_format::cursor::InternalIterator;
use esker_format::key::InternalKeyComparator;
use esker_table::TableCache;
use esker_table::blob::BlobReader;

/// A cursor over a family with user-defined timestamps. Given a key, it reads only files that may
/// hold it.
pub(crate) fn new_timestamped_iter(
    cf: &ColumnFamily,
    super_version: &Arc<SuperVersion>,
    options: &ReadOptions,
    sequence: SequenceNumber,
    only: Option<&[u8]>,
) -> Result<TimestampedIter> {
    let timestamp = cf.read_timestamp(super_version, options)?;
    let reader = TombstoneReader { icmp: &cf.icmp, sequence, timestamp: &timestamp, only };
    let Parts { iter, iter_options, tombstones, keep_alive } = parts(cf, super_version, options, &reader)?;
    Ok(TimestampedIter::new(cf.icmp.clone(), iter, iter_options, timestamp, tombstones, keep_alive))
}

/// A cursor over all versions from `ReadOptions::iter_start_ts` on.
/// # Errors
/// As [`new_timestamped_iter`]; `InvalidArgument` if the first timestamp has another size, or is
/// older than the family's oldest readable timestamp.
pub(crate) fn new_versions_iter(
    cf: &ColumnFamily,
    super_version: &Arc<SuperVersion>,
    options: &ReadOptions,
    sequence: SequenceNumber,
) -> Result<VersionsIter> {
    let to = cf.read_timestamp(super_version, options)?;
    let from = ReadOptions { timestamp: options.iter_start_ts.clone(), ..ReadOptions::default() };
    let from = cf.read_timestamp(super_version, &from).map_err(|e| e.at("iter_start_ts"))?;
    let reader = TombstoneReader { icmp: &cf.icmp, sequence, timestamp: &to, only: None };
    let Parts { iter, iter_options, tombstones, keep_alive } = parts(cf, super_version, options, &reader)?;
    Ok(VersionsIter::new(cf.icmp.clone(), iter, iter_options, (from, to), tombstones, keep_alive))
}

/// The parts of a cursor over keys with timestamps.
struct Parts {
    iter: Box<dyn InternalIterator>,
    iter_options: DbIterOptions,
    tombstones: TimestampedTombstones,
    keep_alive: Option<KeepAlive>,
}

fn parts(
    cf: &ColumnFamily,
    super_version: &Arc<SuperVersion>,
    options: &ReadOptions,
    reader: &TombstoneReader<'_>,
) -> Result<Parts> {
    let sequence = reader.sequence;
    // Bounds and prefixes lack timestamps, and keys in files have them. So the runs are opened
    // without bounds.
    let all = ReadOptions {
        ignore_range_deletions: true,
        iterate_lower_bound: None,
        iterate_upper_bound: None,
        prefix_same_as_start: false,
        ..options.clone()
    };
    let iter = match reader.only {
        Some(key) => runs_with(cf, super_version, options, sequence, key)?,
        None => internal_iterator(cf, super_version, &all, sequence, None)?,
    };
    let tombstones = match options.ignore_range_deletions {
        true => TimestampedTombstones::default(),
        false => tombstones(cf, super_version, options, reader)?,
    };
    let iter_options = DbIterOptions {
        sequence,
        lower_bound: options.iterate_lower_bound.clone(),
        upper_bound: options.iterate_upper_bound.clone(),
        prefix_same_as_start: options.prefix_same_as_start,
        prefix_extractor: super_version.options.prefix_extractor.clone(),
        max_skippable_internal_keys: if reader.only.is_some() {
            0
        } else {
            options.max_skippable_internal_keys
        },
        max_sequential_skip_in_iterations: super_version.options.max_sequential_skip_in_iterations,
        merge_operator: super_version.options.merge_operator.clone(),
        allow_unprepared_value: options.allow_unprepared_value && reader.only.is_none(),
        blobs: Some(BlobReader { source: cf.tables.blobs().clone(), options: table_read_options(options) }),
        ..DbIterOptions::default()
    };
    Ok(Parts { iter, iter_options, tombstones, keep_alive: Some(super_version.clone() as KeepAlive) })
}

/// The memtables of a super version, and its files that may hold `key`, which has no timestamp.
fn runs_with(
    cf: &ColumnFamily,
    super_version: &SuperVersion,
    options: &ReadOptions,
    sequence: SequenceNumber,
    key: &[u8],
) -> Result<Box<dyn InternalIterator>> {
    let (icmp, table_options) = (&cf.icmp, table_read_options(options));
    let mut runs = Vec::new();
    if options.read_tier != ReadTier::Persisted {
        let seen =
            super_version.memtables().filter(|mem| !mem.has_no_points() && mem.first_seqno() <= sequence);
        runs.extend(seen.map(|mem| MergeChild::new(Box::new(mem.iter()))));
    }
    let levels =
        if options.read_tier == ReadTier::Memtable { 0 } else { super_version.version.levels().len() };
    let (newest, oldest) = (icmp.first_version(key), icmp.last_version(key));
    for file in
        (0..levels).flat_map(|level| super_version.version.overlapping(level, Some(&newest), Some(&oldest)))
    {
        if is_too_new(&cf.tables, icmp, &file, options.timestamp.as_deref()) {
            continue;
        }
        let table = open_for(&cf.tables, &file, &table_options)?;
        if may_hold(&table, &table_options, icmp, key)? {
            runs.push(MergeChild::new(table_iter(&table, table_options, icmp)));
        }
    }
    Ok(Box::new(MergingIterator::new(icmp.clone(), runs)))
}

/// Whether all versions in `file` are newer than the timestamp of a read. Counts the check.
pub(super) fn is_too_new(
    tables: &TableCache,
    icmp: &InternalKeyComparator,
    file: &FileMeta,
    timestamp: Option<&[u8]>,
) -> bool {
    let Some(timestamp) = timestamp else { return false };
    if file.min_timestamp.is_empty() || file.user_defined_timestamps_not_persisted {
        return false;
    }
    let is_too_new = icmp.compare_timestamps(timestamp, &file.min_timestamp).is_lt();
    if let Some(statistics) = tables.statistics() {
        statistics.record_tick(Ticker::TimestampFilterTableChecked, 1);
        statistics.record_tick(Ticker::TimestampFilterTableFiltered, u64::from(is_too_new));
    }
    is_too_new
}

/// All range tombstones of a family with user-defined timestamps, or those that may cover one key.
fn tombstones(
    cf: &ColumnFamily,
    super_version: &SuperVersion,
    options: &ReadOptions,
    reader: &TombstoneReader<'_>,
) -> Result<TimestampedTombstones> {
    let icmp = &cf.icmp;
    let (plain, table_options) = (icmp.without_timestamp(), table_read_options(options));
    let of_memtables = super_version
        .memtables()
        .filter(|mem| options.read_tier != ReadTier::Persisted && mem.num_range_deletes() > 0)
        .map(|mem| reader.run(&mem.stored_range_tombstones(), None))
        .filter(|run| !run.is_empty());
    let mut tombstones = TimestampedTombstones { of_level_0: of_memtables.collect(), of_levels: Vec::new() };
    if options.read_tier == ReadTier::Memtable {
        return Ok(tombstones);
    }
    let newest = reader.only.map(|key| icmp.first_version(key));
    let oldest = reader.only.map(|key| icmp.last_version(key));
    for level in 0..super_version.version.levels().len() {
        let mut runs = Vec::new();
        let files = match level {
            0 => super_version.version.files(0),
            _ => {
                let touched =
                    super_version.version.overlapping_range(level, newest.as_deref(), oldest.as_deref());
                &super_version.version.files(level)[touched]
            }
        };
        for file in files.iter().filter(|file| file.may_have_range_deletions()) {
            let (first, _) = icmp.split_timestamp(file.smallest_user_key());
            let (last, _) = icmp.split_timestamp(file.largest_user_key());
            let is_outside = |key: &[u8]| {
                plain.compare_user_keys(key, first).is_lt() || plain.compare_user_keys(key, last).is_gt()
            };
            if reader.only.is_some_and(is_outside) {
                continue;
            }
            let table = open_for(&cf.tables, file, &table_options)?;
            let bounds = Some((first.to_vec(), last.to_vec(), file.largest_is_exclusive()));
            runs.push(if table.lacks_timestamps() {
                reader.run(&stored_tombstones(&table, icmp), bounds)
            } else {
                reader.run(table.stored_range_tombstones(), bounds)
            });
        }
        runs.retain(|run| !run.is_empty());
        match level {
            0 => tombstones.of_level_0.extend(runs),
            _ => tombstones.of_levels.push(runs),
        }
    }
    tombstones.of_levels.retain(|runs| !runs.is_empty());
    Ok(tombstones)
}
