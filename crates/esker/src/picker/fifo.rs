//! Picks compactions of the FIFO style: the oldest files are deleted.
//!
//! In: a version and the running compactions. Out: a plan that deletes files, or (with
//! `allow_compaction`) merges small ones of level 0, or gives a file another temperature.
//! Source: RocksDB `db/compaction/compaction_picker_fifo.cc`.
//!
//! Reasons, in this order: files older than `ttl`, if deleting them is enough; more bytes than
//! `max_table_files_size`, or with blob files than `max_data_files_size`; many small files; a file
//! that reached an age of `file_temperature_age_thresholds`. In a database that had another style
//! before, the files of the deepest level are deleted first, by key.

use super::plan::Draft;
use super::score::LevelSizes;
use super::{CompactionPlan, CompactionReason, LevelFiles, PickContext, PickerOptions};
use crate::observe::Temperature;
use crate::version::{FileMeta, Version};
use esker_base::sync::Arc;

/// The smallest file size, in bytes, to which a step merges files.
const LEAST_STEP_BYTES: u64 = 10 << 10;

/// Computes in advance the sums that [`needs_compaction`] reads.
pub(super) fn prepare(version: &Version, options: &PickerOptions) {
    if counts_blobs(options) {
        version.blob_bytes();
    }
}

fn counts_blobs(options: &PickerOptions) -> bool {
    options.fifo.max_data_files_size > 0
}

/// The bytes to which the limit applies.
fn limited_bytes(version: &Version, options: &PickerOptions) -> u64 {
    version.total_size() + if counts_blobs(options) { version.blob_bytes() } else { 0 }
}

/// The limit on the bytes of the family's files.
fn limit(options: &PickerOptions) -> u64 {
    match options.fifo.max_data_files_size {
        0 => options.fifo.max_table_files_size,
        limit => limit,
    }
}

/// Whether [`pick`] may find a compaction.
pub(super) fn needs_compaction(version: &Version, context: &PickContext<'_>) -> bool {
    let options = context.options;
    limited_bytes(version, options) > limit(options)
        || options.fifo.allow_compaction && version.num_files(0) >= options.level0_file_num_compaction_trigger
        || version.num_files(0).checked_sub(1).is_some_and(|last| is_expired(version.files(0), last, context))
        || next_change(version, context).is_some()
}

/// The files to delete or merge, if no running compaction reads level 0.
pub(super) fn pick(version: &Arc<Version>, context: &PickContext<'_>) -> Option<CompactionPlan> {
    if !context.running.is_empty() {
        return None;
    }
    expired(version, context)
        .or_else(|| too_large(version, context))
        .or_else(|| small_files(version, context))
        .or_else(|| changed_temperature(version, context))
}

/// Whether all keys of file `index` of level 0 are older than `ttl`.
fn is_expired(level0: &[Arc<FileMeta>], index: usize, context: &PickContext<'_>) -> bool {
    let ttl = context.options.ttl;
    let Some(limit) = context.now_seconds.checked_sub(ttl).filter(|_| ttl > 0) else { return false };
    let newest = newest_key_time(level0, index);
    newest > 0 && newest < limit
}

/// A time, in Unix seconds, at which all keys of file `index` of level 0 were written; 0: unknown.
fn newest_key_time(level0: &[Arc<FileMeta>], index: usize) -> u64 {
    let file = &level0[index];
    // A file's keys are at least as old as the file itself; the oldest ancestor's time says nothing
    // about the youngest keys of a merged file. They are also at least as old as the first key of
    // the next newer file. That is a better bound for a file that was written long after its keys.
    let newer = index.checked_sub(1).map(|newer| level0[newer].oldest_ancestor_time).filter(|time| *time > 0);
    match file.file_creation_time {
        0 => file.oldest_ancestor_time,
        time => newer.map_or(time, |newer| newer.min(time)),
    }
}

fn expired(version: &Arc<Version>, context: &PickContext<'_>) -> Option<CompactionPlan> {
    let level0 = version.files(0);
    let old = (0..level0.len()).rev().take_while(|index| is_expired(level0, *index, context));
    let files: Vec<Arc<FileMeta>> = old.map(|index| Arc::clone(&level0[index])).collect();
    let gone: u64 = files.iter().map(|f| f.file_size).sum();
    let left = if counts_blobs(context.options) {
        // Level-0 tables are assumed to have the same share of all blob bytes as of all table
        // bytes.
        let (all, blobs) = (version.total_size(), version.blob_bytes());
        (all - gone) + scaled(blobs, all - gone, all)
    } else {
        version.size(0) - gone
    };
    if files.is_empty() || left > limit(context.options) {
        return None;
    }
    Some(deletion(version, context, 0, files, CompactionReason::FifoTtl))
}

fn too_large(version: &Arc<Version>, context: &PickContext<'_>) -> Option<CompactionPlan> {
    let most = limit(context.options);
    let mut bytes = limited_bytes(version, context.options);
    if bytes <= most {
        return None;
    }
    let level = version.num_non_empty_levels() - 1;
    let files = version.files(level);
    // In level 0 the oldest file is the last one. In other levels the age is unknown, and files
    // with the smallest keys are deleted first.
    let oldest_first: Vec<&Arc<FileMeta>> =
        if level == 0 { files.iter().rev().collect() } else { files.iter().collect() };
    // With blobs, each file counts the same: the MANIFEST does not say how many blobs belong to a
    // file.
    let each = counts_blobs(context.options).then(|| (bytes / files.len().max(1) as u64).max(1));
    let mut gone = Vec::new();
    for file in oldest_first {
        if bytes <= most {
            break;
        }
        bytes = bytes.saturating_sub(each.unwrap_or(file.file_size));
        gone.push(Arc::clone(file));
    }
    Some(deletion(version, context, level, gone, CompactionReason::FifoMaxSize))
}

/// `value * part / whole`; 0 if `whole` is 0.
fn scaled(value: u64, part: u64, whole: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Merges the newest files, as long as each further file lowers the cost per file removed. Takes no
/// file larger than a memtable: a larger one would keep growing and never expire.
fn small_files(version: &Arc<Version>, context: &PickContext<'_>) -> Option<CompactionPlan> {
    let options = context.options;
    if !options.fifo.allow_compaction {
        return None;
    }
    if options.fifo.use_kv_ratio_compaction
        && counts_blobs(options)
        && options.fifo.max_data_files_size >= options.fifo.max_table_files_size
    {
        return next_step(version, context);
    }
    let most_for_each = options.write_buffer_size.saturating_mul(11) / 10;
    let level0 = version.files(0);
    // A damaged file can be deleted unread, but not merged.
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

/// Merges neighbours in level 0 into a file of the next step's size. In the last step, the
/// trigger's number of files fills the limit; each earlier step has the next step's size divided by
/// the trigger. So a byte is rewritten once per step, and files reach about the same size.
fn next_step(version: &Arc<Version>, context: &PickContext<'_>) -> Option<CompactionPlan> {
    let options = context.options;
    let level0 = version.files(0);
    let trigger = options.level0_file_num_compaction_trigger;
    if version.num_non_empty_levels() > 1 || trigger < 2 || level0.len() < trigger {
        return None;
    }
    let trigger = trigger as u64;
    let target = match options.max_compaction_bytes {
        0 => {
            let tables = version.size(0);
            scaled(options.fifo.max_data_files_size, tables, tables + version.blob_bytes()) / trigger
        }
        bytes => bytes,
    };
    let smaller = std::iter::successors(Some(target), |step| Some(step / trigger));
    let mut steps: Vec<u64> = smaller.take_while(|step| *step >= LEAST_STEP_BYTES).collect();
    if steps.is_empty() {
        steps.extend((target > 0).then_some(target));
    }
    steps.into_iter().rev().find_map(|step| {
        let fits = |file: &FileMeta| file.file_size < step && !context.running.is_busy(file.number);
        // From the oldest file on.
        let mut end = level0.len();
        while end > 0 {
            let mut begin = end;
            let mut bytes = 0;
            while let Some(file) = begin.checked_sub(1).map(|at| &level0[at]).filter(|f| fits(f)) {
                if bytes >= step && bytes + file.file_size > step * 2 {
                    break;
                }
                bytes += file.file_size;
                begin -= 1;
            }
            if bytes >= step && end - begin >= 2 {
                let files = level0[begin..end].to_vec();
                return Some(plan(version, context, 0, files, CompactionReason::FifoReduceNumFiles));
            }
            end = if begin == end { end - 1 } else { begin };
        }
        None
    })
}

/// The oldest file whose temperature is not that of its age, with the right temperature.
fn next_change(version: &Version, context: &PickContext<'_>) -> Option<(usize, Temperature)> {
    let ages = &context.options.fifo.file_temperature_age_thresholds;
    if ages.is_empty() || version.num_levels() > 1 {
        return None;
    }
    let level0 = version.files(0);
    for index in (0..level0.len()).rev() {
        let newest = newest_key_time(level0, index);
        let age = context.now_seconds.saturating_sub(newest);
        match ages.iter().rev().find(|step| newest > 0 && age >= step.age) {
            Some(step) if level0[index].temperature != step.temperature as u8 => {
                return Some((index, step.temperature));
            }
            // A younger file has no age of the list either.
            None if newest > 0 => return None,
            _ => {}
        }
    }
    None
}

fn changed_temperature(version: &Arc<Version>, context: &PickContext<'_>) -> Option<CompactionPlan> {
    let (index, temperature) = next_change(version, context)?;
    let files = vec![Arc::clone(&version.files(0)[index])];
    let plan = plan(version, context, 0, files, CompactionReason::ChangeTemperature);
    Some(CompactionPlan { is_trivial_move: true, new_temperature: Some(temperature), ..plan })
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
        output_path: None,
        may_move: false,
        shrinks_at_bottom: false,
    };
    draft.finish(version, options, &LevelSizes::new(version, options))
}
