//! `rocksdb.estimate-num-keys`: how many keys a family has, from counts that its memtables and
//! tables keep.
//!
//! In: a super version. Out: entries, less two for each point deletion (itself and a key), less the
//! entries that range tombstones of newer memtables or files cover. Overwritten keys count once for
//! each version. Range tombstones do not count against their own memtable or file: no count says
//! which of its entries are older. Source: RocksDB `HandleEstimateNumKeys`, which leaves range
//! tombstones out.
//!
//! Cost: one visit of each memtable and file; O(log n) for each of n range tombstones; for a file
//! that tombstones cover in part, at most [`MOST_SAMPLES`] pairs of index lookups.

use crate::cf::ColumnFamily;
use crate::files::open_table::open_file;
use crate::version::FileMeta;
use esker_base::SequenceNumber;
use esker_base::sync::Arc;
use esker_format::key::{InternalKeyComparator, seek_key};
use esker_format::range_del::FragmentedRangeTombstones;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Covered ranges that are measured in one memtable or file, as a sample of all.
const MOST_SAMPLES: usize = 32;

/// The approximate number of keys of the family. Opens a table if its known properties do not
/// suffice. Does not count a table whose properties cannot be read.
pub(super) fn estimate_num_keys(cf: &ColumnFamily) -> u64 {
    let super_version = cf.super_version.load_full();
    let has_timestamps = cf.icmp.timestamp_size() > 0;
    let hides = |tombstones: &Arc<FragmentedRangeTombstones>| !has_timestamps && !tombstones.is_empty();
    let of_memtables: Vec<_> = super_version.memtables().map(|mem| (mem, mem.range_tombstones())).collect();
    let files = super_version.version.all_files().map(|(_, file)| file);
    let of_files: Vec<_> = files.map(|file| (file, tombstones_of(cf, file))).collect();
    let mut covered = Covered::new(&cf.icmp);
    let mut keys = 0.0;
    for (mem, tombstones) in &of_memtables {
        let points = mem.num_entries().saturating_sub(mem.num_range_deletes()) as f64;
        let hidden = sum_of(&covered.all(), |start, end| mem.approximate_count(start, end));
        let left = if points > 0.0 { (1.0 - hidden / points).max(0.0) } else { 0.0 };
        keys += (points - 2.0 * mem.num_deletes() as f64) * left;
        tombstones.iter().filter(|set| hides(set)).for_each(|set| covered.add_all(set));
    }
    for (file, tombstones) in &of_files {
        let Some(stats) = file.stats() else { continue };
        let points = stats.entries.saturating_sub(stats.range_deletions) as f64;
        let deletions = stats.deletions.saturating_sub(stats.range_deletions) as f64;
        keys += (points - 2.0 * deletions) * (1.0 - covered.share_of(cf, file));
        if let Some(tombstones) = tombstones.as_ref().filter(|tombstones| hides(tombstones)) {
            covered.add_all(tombstones);
        }
    }
    keys.max(0.0).round() as u64
}

/// The range tombstones of a file. Opens the table unless its known properties exclude them.
fn tombstones_of(cf: &ColumnFamily, file: &FileMeta) -> Option<Arc<FragmentedRangeTombstones>> {
    if !file.may_have_range_deletions() {
        return None;
    }
    open_file(&cf.tables, file).ok()?.range_dels().cloned()
}

/// A user key in the family's order.
#[derive(Clone, Copy)]
struct Bound<'a> {
    user_key: &'a [u8],
    icmp: &'a InternalKeyComparator,
}

impl Ord for Bound<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.icmp.compare_user_keys(self.user_key, other.user_key)
    }
}

impl PartialOrd for Bound<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Bound<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Bound<'_> {}

/// The first user key of a range, and the first one behind it.
type UserKeys<'a> = (&'a [u8], &'a [u8]);

/// The sum of `measure` over all ranges; samples stand for the others if there are many.
fn sum_of(ranges: &[UserKeys<'_>], measure: impl Fn(&[u8], &[u8]) -> u64) -> f64 {
    let step = ranges.len().div_ceil(MOST_SAMPLES).max(1);
    let samples = ranges.iter().step_by(step);
    let count = samples.len().max(1);
    let sum: u64 = samples.map(|(start, end)| measure(start, end)).sum();
    sum as f64 * ranges.len() as f64 / count as f64
}

/// Deleted ranges of user keys, in order: disjoint, and none touches the next.
struct Covered<'a> {
    ranges: BTreeMap<Bound<'a>, Bound<'a>>,
    icmp: &'a InternalKeyComparator,
}

impl<'a> Covered<'a> {
    fn new(icmp: &'a InternalKeyComparator) -> Covered<'a> {
        Covered { ranges: BTreeMap::new(), icmp }
    }

    fn bound<'k>(&self, user_key: &'k [u8]) -> Bound<'k>
    where
        'a: 'k,
    {
        Bound { user_key, icmp: self.icmp }
    }

    fn add_all(&mut self, tombstones: &'a FragmentedRangeTombstones) {
        for fragment in tombstones.iter() {
            self.add(self.bound(fragment.start), self.bound(fragment.end));
        }
    }

    fn add(&mut self, start: Bound<'a>, end: Bound<'a>) {
        let (mut start, mut end) = (start, end);
        if let Some((&before, &its_end)) = self.ranges.range(..=start).next_back()
            && its_end >= start
        {
            (start, end) = (before, end.max(its_end));
        }
        while let Some((&inner, &its_end)) = self.ranges.range(start..=end).next() {
            self.ranges.remove(&inner);
            end = end.max(its_end);
        }
        self.ranges.insert(start, end);
    }

    fn all(&self) -> Vec<UserKeys<'a>> {
        self.ranges.iter().map(|(start, end)| (start.user_key, end.user_key)).collect()
    }

    /// The ranges that touch `[smallest, largest]`.
    fn touching(&self, smallest: &'a [u8], largest: &'a [u8]) -> Vec<UserKeys<'a>> {
        let (smallest, largest) = (self.bound(smallest), self.bound(largest));
        let first = self.ranges.range(..smallest).next_back().filter(|(_, end)| **end > smallest);
        let all = first.into_iter().chain(self.ranges.range(smallest..=largest));
        all.map(|(start, end)| (start.user_key, end.user_key)).collect()
    }

    /// The share of a file's entries that is covered, between 0 and 1.
    fn share_of(&self, cf: &ColumnFamily, file: &'a FileMeta) -> f64 {
        let (smallest, largest) = (file.smallest_user_key(), file.largest_user_key());
        let ranges = self.touching(smallest, largest);
        let [(start, end), ..] = ranges[..] else { return 0.0 };
        let reaches = self.bound(end).cmp(&self.bound(largest));
        let ends_it = reaches.is_gt() || reaches.is_eq() && file.largest_is_exclusive();
        if self.bound(start) <= self.bound(smallest) && ends_it {
            return 1.0;
        }
        let Ok(reader) = open_file(&cf.tables, file) else { return 0.0 };
        let before = |user_key: &[u8]| seek_key(user_key, SequenceNumber::MAX);
        let bytes = sum_of(&ranges, |start, end| reader.approximate_size(&before(start), &before(end)));
        (bytes / reader.properties().data_size.max(1) as f64).min(1.0)
    }
}
