//! Finds files whose compaction frees much of the bytes that it reads, and files that can be
//! deleted unread.
//!
//! In: a version whose files have their properties and the coverage by range tombstones. Out: the
//! next of these files.
//!
//! A level is due by its size, so a single file with deletions may never be due. Therefore a file
//! is compacted into the next level if its deletions free at least half of the bytes that the
//! compaction reads. A file with no data below it is rewritten if a quarter of its entries can be
//! dropped. RocksDB leaves both in place; Pebble has its delete-only and elision-only compactions.
//!
//! Invariants
//!  1. A file is picked only if all its entries are older than each live snapshot. So the
//!     compaction really drops the entries that the picker counts.
//!  2. Work is bounded. A compaction costs at most twice the bytes that it frees. Each one moves a
//!     deletion down one level, and the last drops it. A file that loses nothing at the bottom is
//!     settled ([`FileMeta::is_settled`]).
//!  3. Candidates depend on the version alone and are found before the db mutex is taken. Under the
//!     mutex, a pick checks at most [`MOST_CANDIDATES`] files.

use super::inputs::{overlap_range, overlapping, range_of};
use super::marked::{is_bottommost_file, may_exist_below};
use super::plan::Draft;
use super::score::LevelSizes;
use super::{CompactionPlan, CompactionReason, CompactionStyle, LevelFiles, PickContext, PickerOptions};
use crate::version::findings::Garbage;
use crate::version::{FileMeta, Version, Weights};
use esker_base::SequenceNumber;
use esker_base::sync::Arc;

/// Most files of a level that are checked, those with the most deletions first.
const MOST_CANDIDATES: usize = 32;
/// A file is a candidate (at the bottom, it is rewritten) if at least `1 / SHARE` of its entries
/// can be dropped.
const SHARE: u64 = 4;

/// Idle files that are covered by range tombstones which every snapshot sees.
pub(super) fn covered<'a>(
    version: &'a Version,
    context: &'a PickContext<'_>,
) -> impl Iterator<Item = &'a Arc<FileMeta>> {
    let level0_is_free = !context.running.reads_level0();
    let is_free = move |f: &&Arc<FileMeta>| {
        !context.running.is_busy(f.number) && (level0_is_free || f.level() != Some(0))
    };
    version.covered_up_to(context.oldest_live).filter(is_free)
}

/// A plan that deletes all [`covered`] files unread.
pub(super) fn pick_covered(version: &Arc<Version>, context: &PickContext<'_>) -> Option<CompactionPlan> {
    let mut inputs: Vec<LevelFiles> =
        (0..version.num_levels()).map(|level| LevelFiles { level, files: Vec::new() }).collect();
    for file in covered(version, context) {
        inputs[file.level()?].files.push(Arc::clone(file));
    }
    inputs.retain(|level| !level.files.is_empty());
    let output_level = inputs.last()?.level;
    let draft = Draft {
        inputs,
        output_level,
        reason: CompactionReason::FilesMarkedForCompaction,
        score: 0.0,
        level0_disjoint: false,
        output_path: None,
        may_move: false,
        shrinks_at_bottom: false,
    };
    let plan = draft.finish(version, context.options, &LevelSizes::new(version, context.options));
    Some(CompactionPlan { is_deletion: true, compact_cursor: None, ..plan })
}

/// Files of a level that may be worth a compaction. Iterates over the level, unless an earlier
/// version with the same level did.
pub(crate) fn candidates(version: &Version, level: usize) -> &[Arc<FileMeta>] {
    version.findings(level).garbage(|| {
        // With timestamps, a deleted key is history and not garbage.
        if version.icmp().timestamp_size() > 0 {
            return Box::default();
        }
        let deletes =
            |f: &&Arc<FileMeta>| is_rewritten(f) || f.stats().is_some_and(|s| s.range_deletions > 0);
        let mut files: Vec<_> = version.files(level).iter().filter(deletes).cloned().collect();
        files.sort_by_key(|f| std::cmp::Reverse(f.stats().map_or(0, |s| s.deletions)));
        files.truncate(MOST_CANDIDATES);
        files.into()
    })
}

/// Whether no snapshot or running compaction is known to keep the file's deletions.
fn is_free(f: &FileMeta, context: &PickContext<'_>) -> bool {
    let delay = context.options.bottommost_file_compaction_delay;
    let is_old = delay == 0 || f.file_creation_time <= context.now_seconds.saturating_sub(delay);
    f.largest_seqno <= context.oldest_live && is_old && !f.is_settled() && !context.running.is_busy(f.number)
}

/// Finds the candidates in advance, without regard to readers and running compactions. Otherwise
/// [`free`] and [`is_much`] search for them.
pub(super) fn prepare<'v>(version: &'v Version, options: &PickerOptions) -> &'v [Garbage] {
    version.garbage(|| match options.compaction_style {
        // No compaction drops a deletion.
        _ if version.reserves_last_level() => Box::default(),
        CompactionStyle::Level => worth_it(version, LevelSizes::new(version, options).base_level),
        CompactionStyle::Universal => half_of_all(version),
        CompactionStyle::Fifo | CompactionStyle::None => Box::default(),
    })
}

/// For leveled compaction: the files whose deletions make a compaction worthwhile.
pub(super) fn free<'v>(version: &'v Version, context: &PickContext<'_>) -> impl Iterator<Item = &'v Garbage> {
    prepare(version, context.options).iter().filter(|garbage| is_free(&garbage.file, context))
}

/// For universal compaction: whether at least half of the bytes of all runs can be dropped.
pub(super) fn is_much(version: &Version, context: &PickContext<'_>) -> bool {
    let garbage = prepare(version, context.options);
    !garbage.is_empty() && garbage.iter().all(|garbage| is_free(&garbage.file, context))
}

/// See [`super::snapshot_threshold`].
pub(super) fn snapshot_threshold(version: &Version, oldest_snapshot: SequenceNumber) -> SequenceNumber {
    let of_covered = version.next_covered(oldest_snapshot);
    let garbage = version.known_garbage().iter().map(|garbage| &garbage.file);
    let of_garbage = garbage.filter(|f| !f.is_settled()).map(|f| f.largest_seqno);
    let waits = of_covered.into_iter().chain(of_garbage).filter(|at| *at > oldest_snapshot).min();
    waits.map_or(SequenceNumber::MAX, |at| SequenceNumber(at.0 - 1))
}

fn worth_it(version: &Version, base_level: usize) -> Box<[Garbage]> {
    let weigher = Weigher::new(version);
    let levels = 0..version.num_levels();
    let all = levels.flat_map(|level| candidates(version, level).iter().map(move |file| (level, file)));
    let is_due = |(level, file): (usize, &Arc<FileMeta>)| {
        let stays = is_bottommost_file(version, level, file);
        let is_due = match stays {
            true => is_rewritten(file),
            false => is_worth_it(version, &weigher, (level, base_level), file),
        };
        (is_due && !file.is_settled()).then(|| Garbage { level, file: Arc::clone(file), stays })
    };
    all.filter_map(is_due).take(MOST_CANDIDATES).collect()
}

/// All candidates, if a compaction of all runs frees half of the bytes that it reads.
fn half_of_all(version: &Version) -> Box<[Garbage]> {
    let weigher = Weigher::new(version);
    let runs = version.num_files(0) + (1..version.num_levels()).filter(|l| version.num_files(*l) > 0).count();
    let levels = 0..version.num_levels();
    let all = levels.flat_map(|level| candidates(version, level).iter().map(move |file| (level, file)));
    let all: Vec<_> =
        all.map(|(level, file)| Garbage { level, file: Arc::clone(file), stays: runs == 1 }).collect();
    let freed: u64 = all.iter().map(|garbage| weigher.freed_by(&garbage.file, runs == 1)).sum();
    let is_due = freed > 0 && freed.saturating_mul(2) >= version.total_size();
    if is_due { all.into() } else { Box::default() }
}

/// Whether a rewrite drops enough entries of a file with no data below it.
fn is_rewritten(f: &FileMeta) -> bool {
    f.stats().is_some_and(|s| {
        let gone = s.deletions + s.older_versions.unwrap_or(0);
        gone > 0 && gone.saturating_mul(SHARE) >= s.entries
    })
}

/// Whether a compaction of the file, with all its further inputs, frees half of the bytes that it
/// reads.
fn is_worth_it(
    version: &Version,
    weigher: &Weigher,
    (level, base_level): (usize, usize),
    file: &Arc<FileMeta>,
) -> bool {
    let output_level = if level == 0 { base_level } else { level + 1 };
    if output_level == level {
        // With one level, there is no level to move to.
        return false;
    }
    let files = match level {
        0 => overlapping(version, 0, &file.smallest, &file.largest).files,
        _ => vec![Arc::clone(file)],
    };
    let Some((smallest, largest)) = range_of(version.icmp(), &files) else { return false };
    // A file moves unchanged through levels where it overlaps no file, so the first level with
    // overlaps counts.
    let overlapped = |level| &version.files(level)[overlap_range(version, level, smallest, largest)];
    let below = (output_level..version.num_levels()).map(overlapped).find(|files| !files.is_empty());
    let user_key = esker_format::key::user_key;
    let is_last = !may_exist_below(version, output_level, user_key(smallest), user_key(largest));
    let freed: u64 = files.iter().map(|f| weigher.freed_by(f, is_last)).sum();
    // The sum stops at the first file beyond the bound: there may be thousands of files.
    let mut sizes = files.iter().chain(below.unwrap_or(&[])).map(|f| f.file_size);
    sizes.try_fold(freed.saturating_mul(2), u64::checked_sub).is_some()
}

/// Holds the average bytes of an entry in a version.
struct Weigher {
    entry_bytes: u64,
}

impl Weigher {
    fn new(version: &Version) -> Weigher {
        let all: Weights = version.levels().iter().map(|level| *level.weights()).sum();
        let in_tables = all.known_bytes / all.others.max(1);
        Weigher { entry_bytes: in_tables + average_blob_bytes(version) }
    }

    /// Bytes that a compaction of the file frees, in the file and below it. `is_last`: no data lies
    /// below the compaction.
    fn freed_by(&self, f: &FileMeta, is_last: bool) -> u64 {
        let Some(s) = f.stats() else { return 0 };
        let own = s.older_versions.unwrap_or(0) + if is_last { s.deletions } else { 0 };
        let share = own.min(s.entries) as f64 / s.entries.max(1) as f64;
        let points = s.deletions.saturating_sub(s.range_deletions);
        let below = points.saturating_mul(self.entry_bytes).saturating_add(f.hidden_below());
        ((f.file_size as f64 * share) as u64).saturating_add(below)
    }
}

/// Average bytes of a live value in blob files; 0 without any.
pub(crate) fn average_blob_bytes(version: &Version) -> u64 {
    let (count, bytes) = version.blob_files().values().fold((0, 0), |(count, bytes), blob| {
        let (total, garbage) = (&blob.addition, blob.garbage_blob_bytes);
        (count + total.total_blob_count - blob.garbage_blob_count, bytes + total.total_blob_bytes - garbage)
    });
    bytes / u64::max(count, 1)
}
