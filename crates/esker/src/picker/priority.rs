//! The order in which the files of a level are compacted.
//!
//! Source: RocksDB `db/version_set.cc` (`UpdateFilesByCompactionPri`), `db/compaction/file_pri.h`.

use super::score::Weigher;
use super::{CompactionPri, PickContext};
use crate::version::{FileMeta, Version};
use esker_base::sync::Arc;
use std::borrow::Cow;
use std::cmp::Reverse;

/// Indexes of the files of `level`, first choice first, including files that are being compacted.
/// Iterates over this level and the next, unless an earlier version with the same levels did.
pub(super) fn order<'a>(version: &'a Version, level: usize, context: &PickContext<'_>) -> Cow<'a, [usize]> {
    let pri = context.options.compaction_pri;
    let find = || find_order(version, level, context);
    if pri == CompactionPri::RoundRobin {
        return Cow::Owned(find()); // depends on a cursor, which moves while levels stay unchanged
    }
    match version.findings(level).order(pri, find) {
        Some(order) => Cow::Borrowed(order),
        None => Cow::Owned(find()),
    }
}

fn find_order(version: &Version, level: usize, context: &PickContext<'_>) -> Vec<usize> {
    let files = version.files(level);
    let mut order: Vec<usize> = (0..files.len()).collect();
    match context.options.compaction_pri {
        CompactionPri::ByCompensatedSize => {
            let weigher = Weigher::new(version);
            order.sort_by_key(|&i| Reverse(weigher.compensated_size(&files[i])));
        }
        CompactionPri::OldestLargestSeqFirst => order.sort_by_key(|&i| files[i].largest_seqno),
        CompactionPri::OldestSmallestSeqFirst => order.sort_by_key(|&i| files[i].smallest_seqno),
        CompactionPri::MinOverlappingRatio => {
            let ratios = overlapping_ratios(version, level, context);
            let marked = |i: usize| files[i].marked_for_compaction;
            order.sort_by(|&a, &b| {
                (Reverse(marked(a)), ratios[a])
                    .cmp(&(Reverse(marked(b)), ratios[b]))
                    .then_with(|| version.icmp().compare(&files[a].smallest, &files[b].smallest))
            });
        }
        // Level 0 is not in key order: there the oldest file is compacted first.
        CompactionPri::RoundRobin if level == 0 => order.sort_by_key(|&i| files[i].smallest_seqno),
        CompactionPri::RoundRobin => {
            if let Some(cursor) = version.compact_cursor(level) {
                let next = files.partition_point(|f| version.icmp().compare(&f.smallest, cursor).is_lt());
                order.rotate_left(next % files.len().max(1));
            }
        }
    }
    order
}

/// For each file of a level, the bytes of the next level that it overlaps, in 1024ths of the file's
/// own bytes, lowered with its age.
fn overlapping_ratios(version: &Version, level: usize, context: &PickContext<'_>) -> Vec<u64> {
    let (icmp, weigher) = (version.icmp(), Weigher::new(version));
    let below: &[Arc<FileMeta>] =
        if level + 1 < version.num_levels() { version.files(level + 1) } else { &[] };
    let booster = TtlBooster::new(context, version.num_non_empty_levels(), level);
    // Level 0 has no key order, so the search for each file starts at the front.
    let sorted = level > 0;
    let mut first = 0;
    let mut ratio = |f: &FileMeta| {
        if !sorted {
            first = 0;
        }
        while below.get(first).is_some_and(|b| icmp.compare(&b.largest, &f.smallest).is_lt()) {
            first += 1;
        }
        let mut bytes = 0u64;
        while let Some(b) = below.get(first).filter(|b| icmp.compare(&b.smallest, &f.largest).is_lt()) {
            bytes = bytes.saturating_add(b.file_size);
            if icmp.compare(&b.largest, &f.largest).is_gt() {
                // The next file of this level may overlap that file, too.
                break;
            }
            first += 1;
        }
        bytes.saturating_mul(1024) / weigher.compensated_size(f).max(1) / booster.boost(f)
    };
    version.files(level).iter().map(|f| ratio(f)).collect()
}

/// Compacts old files first, so that not all of them reach their `ttl` at once. Boosting begins at
/// half the `ttl` for the last level but one, and later for upper levels. The boost of a level
/// reaches 16 when that of the next level begins.
struct TtlBooster {
    now_seconds: u64,
    /// Age in seconds at which boosting begins, and the seconds per step; `None` = never.
    start_and_step: Option<(u64, u64)>,
}

impl TtlBooster {
    fn new(context: &PickContext<'_>, non_empty_levels: usize, level: usize) -> TtlBooster {
        let (ttl, now_seconds) = (context.options.ttl, context.now_seconds);
        if ttl == 0 || level == 0 || level + 1 >= non_empty_levels {
            return TtlBooster { now_seconds, start_and_step: None };
        }
        let first = ttl / 2;
        let all = (ttl / 32 * 31).saturating_sub(first);
        let range = all >> (non_empty_levels - level - 1).min(63);
        TtlBooster { now_seconds, start_and_step: Some((first + range, (range / 16).max(1))) }
    }

    fn boost(&self, f: &FileMeta) -> u64 {
        match self.start_and_step {
            Some((start, step)) if f.oldest_ancestor_time > 0 => {
                let age = self.now_seconds.saturating_sub(f.oldest_ancestor_time);
                age.saturating_sub(start) / step + 1
            }
            _ => 1,
        }
    }
}
