//! Picks compactions of the FIFO style: the oldest files are deleted.
//!
//! In: a version and the running compactions. Out: a plan that deletes files, or (with
//! `allow_compaction`) merges small ones of level 0.
//! Source: RocksDB `db/compaction/compaction_picker_fifo.cc`.
//!
//! Reasons, in this order: files older than `ttl`, if deleting them is enough; more bytes than
//! `max_table_files_size`; many small files. A database that comes from another style loses files
//! of its deepest level first, by key.

use super::plan::Draft;
use super::score::LevelSizes;
use super::{CompactionPlan, CompactionReason, LevelFiles, PickContext};
use crate::version::{FileMeta, Version};
use esker_base::sync::Arc;

/// Whether [`pick`] may find something.
pub(super) fn needs_compaction(version: &Version, context: &PickContext<'_>) -> bool {
    let options = context.options;
    version.total_size() > options.fifo.max_table_files_size
        || options.fifo.allow_compaction && version.num_files(0) >= options.level0_file_num_compaction_trigger
        || version.num_files(0).checked_sub(1).is_some_and(|last| is_expired(version.files(0), last, context))
}

/// The files to delete or merge, if no running compaction reads level 0.
pub(super) fn pick(version: &Arc<Version>, context: &PickContext<'_>) -> Option<CompactionPlan> {
    if !context.running.is_empty() {
        return None;
    }
    expired(version, context)
        .or_else(|| too_large(version, context))
        .or_else(|| small_files(version, context))
}

/// Whether all keys of file `index` of level 0 are older than `ttl`.
fn is_expired(level0: &[Arc<FileMeta>], index: usize, context: &PickContext<'_>) -> bool {
    let ttl = context.options.ttl;
    let Some(limit) = context.now_seconds.checked_sub(ttl).filter(|_| ttl > 0) else { return false };
    let file = &level0[index];
    // All keys are at least as old as their file; a merged file has young keys beside those of its
    // oldest ancestor. They are also at least as old as the next file's first key, which is a
    // better bound for a file made long after its keys.
    let newer = index.checked_sub(1).map(|newer| level0[newer].oldest_ancestor_time).filter(|time| *time > 0);
    let newest = match file.file_creation_time {
        0 => file.oldest_ancestor_time,
        time => newer.map_or(time, |newer| newer.min(time)),
    };
    newest > 0 && newest < limit
}

fn expired(version: &Arc<Version>, context: &PickContext<'_>) -> Option<CompactionPlan> {
    let level0 = version.files(0);
    let old = (0..level0.len()).rev().take_while(|index| is_expired(level0, *index, context));
    let files: Vec<Arc<FileMeta>> = old.map(|index| Arc::clone(&level0[index])).collect();
    let gone: u64 = files.iter().map(|f| f.file_size).sum();
    if files.is_empty() || version.size(0) - gone > context.options.fifo.max_table_files_size {
        return None;
    }
    Some(deletion(version, context, 0, files, CompactionReason::FifoTtl))
}

fn too_large(version: &Arc<Version>, context: &PickContext<'_>) -> Option<CompactionPlan> {
    let most = context.options.fifo.max_table_files_size;
    let mut bytes = version.total_size();
    if bytes <= most {
        return None;
    }
    let level = version.num_non_empty_levels() - 1;
    let files = version.files(level);
    // In level 0 the oldest file is the last one. In other levels the age is unknown, and the
    // smallest keys go first.
    let oldest_first: Vec<&Arc<FileMeta>> =
        if level == 0 { files.iter().rev().collect() } else { files.iter().collect() };
    let mut gone = Vec::new();
    for file in oldest_first {
        if bytes <= most {
            break;
        }
        bytes -= file.file_size;
        gone.push(Arc::clone(file));
    }
    Some(deletion(version, context, level, gone, CompactionReason::FifoMaxSize))
}

/// The newest files, as far as each makes the merge cheaper for each file that goes away; none
/// larger than a memtable, or files would grow that never get old.
fn small_files(version: &Arc<Version>, context: &PickContext<'_>) -> Option<CompactionPlan> {
    let options = context.options;
    if !options.fifo.allow_compaction {
        return None;
    }
    let most_for_each = options.write_buffer_size.saturating_mul(11) / 10;
    let level0 = version.files(0);
    // Deleting a damaged file takes no look at it, merging does.
    let idle = level0.iter().position(|f| context.running.is_busy(f.number)).unwrap_or(level0.len());
    let level0 = &level0[..idle];
    let (mut bytes, mut cheapest) = (level0.first()?.file_size, u64::MAX);
    let mut count = 1;
    for file in &level0[1..] {
        bytes = bytes.saturating_add(file.file_size);
        let for_each = bytes / count as u64;
        if for_each > cheapest || bytes > options.max_compaction_bytes() {
            break;
        }
        cheapest = for_each;
        count += 1;
    }
    if count < options.level0_file_num_compaction_trigger.max(2) || cheapest >= most_for_each {
        return None;
    }
    let files = level0[..count].to_vec();
    Some(plan(version, context, 0, files, CompactionReason::FifoReduceNumFiles))
}

fn deletion(
    version: &Arc<Version>,
    context: &PickContext<'_>,
    level: usize,
    files: Vec<Arc<FileMeta>>,
    reason: CompactionReason,
) -> CompactionPlan {
    CompactionPlan { is_deletion: true, ..plan(version, context, level, files, reason) }
}

fn plan(
    version: &Arc<Version>,
    context: &PickContext<'_>,
    level: usize,
    files: Vec<Arc<FileMeta>>,
    reason: CompactionReason,
) -> CompactionPlan {
    let options = context.options;
    let inputs = vec![LevelFiles { level, files }];
    let draft = Draft {
        inputs,
        output_level: level,
        reason,
        score: 0.0,
        level0_disjoint: false,
        may_move: false,
        shrinks_at_bottom: false,
    };
    draft.finish(version, options, &LevelSizes::new(version, options))
}
