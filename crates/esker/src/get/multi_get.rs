//! Reads many keys of one family: searches memtables, then levels, each for all open keys.
//!
//! In: a super version of the family and keys at one sequence number. Out: for each key the result
//! of `get`, but plain values are lent in place, without a reference count.
//!
//! Under a guard the batch never waits: keys that would have to wait are suspended, and the other
//! keys are finished. `multi_get/waiting.rs` finishes the suspended keys.
//!
//! Invariants
//!  1. If there are files to search, keys ascend and differ; so do the open keys in every step.
//!  2. A key goes through the sources in the order of `get`, and leaves at the first that settles
//!     it.
//!  3. An error settles the keys that needed the failed read.

mod waiting;

pub(crate) use waiting::resume_multi_get;

use super::answer::{Answer, LentValue};
use super::by_level;
use super::saver::Saver;
use super::search::{ReadContext, SuspendedAt, SuspendedGet, count, hit_at};
use crate::cf::SuperVersion;
use crate::files::open_table::opened_file;
use crate::version::{FileMeta, Level};
use esker_base::Error;
use esker_base::perf_context::counts_by_level;
use esker_base::stats::{Histogram, Ticker};
use esker_base::sync::Arc;
use esker_base::sync::epoch::Guard;
use esker_format::key::{LookupKey, ParsedInternalKey};
use esker_memtable::{MemTable, ReadState};
use esker_table::{BatchVisitor, Missing, TableValue};
use smallvec::SmallVec;

/// Calls `settle` once with the answer for each of `keys` (by its index), in any order. Keys that
/// would have to wait go to `suspend` instead. The keys ascend and differ, unless the search ends
/// in the memtables.
pub(crate) fn multi_get(
    super_version: &SuperVersion,
    (context, guard): (&ReadContext<'_>, &Guard),
    keys: &[LookupKey],
    settle: &mut dyn FnMut(usize, Answer<'_>),
    suspend: &mut dyn FnMut(usize, SuspendedGet),
) {
    let (mut fewer, mut few, mut many);
    let savers: &mut [Saver] = if keys.len() <= FEWER {
        fewer = [const { Saver::new() }; FEWER];
        &mut fewer[..keys.len()]
    } else if keys.len() <= FEW {
        few = [const { Saver::new() }; FEW];
        &mut few[..keys.len()]
    } else {
        many = Vec::from_iter(keys.iter().map(|_| Saver::new()));
        &mut many
    };
    let mut batch = Batch {
        super_version,
        context,
        guard,
        keys,
        savers,
        open: (0..keys.len() as u32).collect(),
        suspended: Vec::new(),
        settle,
    };
    if !context.files_only {
        batch.search_memtables();
    }
    if !context.memtables_only {
        batch.search_files();
    }
    batch.finish(suspend);
}

/// Batches of up to this many keys allocate nothing.
const FEW: usize = 16;
/// Batches of up to this many keys get smaller buffers.
const FEWER: usize = 4;

struct Batch<'b> {
    super_version: &'b SuperVersion,
    context: &'b ReadContext<'b>,
    guard: &'b Guard,
    keys: &'b [LookupKey],
    savers: &'b mut [Saver],
    /// Indexes of the keys that are not settled.
    open: SmallVec<[u32; FEW]>,
    /// The suspended keys, each with its position.
    suspended: Vec<(u32, SuspendedAt)>,
    settle: &'b mut dyn FnMut(usize, Answer<'_>),
}

/// Takes a memtable's result for key `i`. Returns whether the search needs more entries.
#[inline]
fn save(
    (saver, i): (&mut Saver, u32),
    seen: ReadState<'_>,
    (super_version, key): (&SuperVersion, &LookupKey),
    settle: &mut dyn FnMut(usize, Answer<'_>),
) -> bool {
    if let ReadState::Version(_, sequence, _) = seen {
        saver.resolve_cover(sequence, super_version, key);
    }
    match seen {
        ReadState::Covered(by) => {
            saver.cover(by);
            true
        }
        ReadState::MayBeCovered(newest) => {
            saver.may_cover(newest);
            true
        }
        ReadState::Version(value_type, sequence, value) if saver.settles(value_type, sequence) => {
            settle(i as usize, Answer::Lent(LentValue::Memtable(value)));
            false
        }
        ReadState::Version(value_type, sequence, value) => {
            saver.save(value_type, sequence, || value.pin())
                && saver.needs_older(super_version.options.merge_operator.as_ref())
        }
    }
}

impl Batch<'_> {
    fn search_memtables(&mut self) {
        for mem in self.super_version.memtables() {
            // An active memtable is often empty; the batch does not see entries that are inserted
            // now.
            if mem.has_no_points() && !mem.has_range_tombstones() {
                continue;
            }
            if mem.checks_itself() {
                self.search_checked(mem);
                self.close_settled();
                continue;
            }
            let mut visit = |i: u32, seen: ReadState<'_>| {
                let key = &self.keys[i as usize];
                save((&mut self.savers[i as usize], i), seen, (self.super_version, key), self.settle)
            };
            if self.context.ignore_range_deletions {
                mem.get_many(self.keys, &self.open, |i, value_type, sequence, value| {
                    visit(i, ReadState::Version(value_type, sequence, value))
                });
            } else {
                mem.get_many_covered(self.keys, &self.open, visit);
            }
            self.close_settled();
        }
        if let Some(statistics) = self.context.statistics {
            let missed = self.open.len() as u64;
            statistics.record_tick(Ticker::MemtableMiss, missed);
            statistics.record_tick(Ticker::MemtableHit, self.keys.len() as u64 - missed);
        }
    }

    /// Searches a memtable with checks for one key after the other, because each search may fail.
    #[cold]
    fn search_checked(&mut self, mem: &Arc<MemTable>) {
        for &i in &self.open {
            let (key, saver) = (&self.keys[i as usize], &mut self.savers[i as usize]);
            let super_version = self.super_version;
            let mut visit = |seen: ReadState<'_>| save((saver, i), seen, (super_version, key), self.settle);
            let searched = if self.context.ignore_range_deletions {
                mem.get(key, |value_type, sequence, value| {
                    visit(ReadState::Version(value_type, sequence, value))
                })
            } else {
                mem.get_covered(key, visit)
            };
            if let Err(e) = searched {
                saver.fail(e);
            }
        }
    }

    fn close_settled(&mut self) {
        let savers = &*self.savers;
        self.open.retain(|i| !savers[*i as usize].is_done());
    }

    fn search_files(&mut self) {
        let super_version = self.super_version;
        for (number, level) in super_version.version.levels().iter().enumerate() {
            if self.open.is_empty() {
                return;
            }
            if level.files().is_empty() {
                continue;
            }
            let before = self.open.len();
            let found_above = counts_by_level().then(|| self.found_keys());
            if number == 0 {
                self.search_level0(level)
            } else {
                self.search_sorted_level(number, level)
            }
            let suspended = self.suspended.iter().filter(|(_, at)| at.level == number).count();
            for _ in self.open.len()..before - suspended {
                count(self.context, hit_at(number));
            }
            if let Some(found_above) = found_above {
                by_level::found(number, self.found_keys() - found_above);
            }
        }
    }

    #[cold]
    fn found_keys(&self) -> usize {
        self.savers.iter().filter(|saver| saver.found_value()).count()
    }

    fn search_level0(&mut self, level: &Level) {
        let icmp = self.super_version.version.icmp();
        let mut within: SmallVec<[u32; FEW]> = SmallVec::new();
        for file in level.files().iter() {
            let user_key = |i: &u32| self.keys[*i as usize].user_key();
            let is_before = |i: &u32| icmp.compare_user_keys(user_key(i), file.smallest_user_key()).is_lt();
            let is_not_behind =
                |i: &u32| icmp.compare_user_keys(user_key(i), file.largest_user_key()).is_le();
            let rest = &self.open[self.open.partition_point(is_before)..];
            within.clear();
            within.extend_from_slice(&rest[..rest.partition_point(is_not_behind)]);
            if !within.is_empty() {
                self.search_file((0, file), &within);
                self.close_settled();
            }
        }
    }

    /// Divides the open keys into groups that lie in one file each, and searches the files.
    fn search_sorted_level(&mut self, number: usize, level: &Level) {
        let icmp = self.super_version.version.icmp();
        let open = std::mem::take(&mut self.open);
        let mut rest = open.as_slice();
        while let Some(&first) = rest.first() {
            let key = &self.keys[first as usize];
            let index = level.first_not_below(key.internal_key(), icmp);
            let Some(file) = level.files().get(index) else { break };
            if level.begins_above(index, key.user_key(), icmp) {
                rest = &rest[1..];
                continue;
            }
            let ends_before =
                |&i: &u32| icmp.compare(&file.largest, self.keys[i as usize].internal_key()).is_ge();
            let len = 1 + rest[1..].iter().take_while(|i| ends_before(i)).count();
            let (within, behind) = rest.split_at(len);
            self.search_file((number, file), within);
            self.search_next_files(number, level, index, within[len - 1]);
            rest = behind;
        }
        self.open = open;
        self.close_settled();
    }

    /// Searches the files behind `index` for a key whose versions may continue there.
    fn search_next_files(&mut self, number: usize, level: &Level, mut index: usize, i: u32) {
        let icmp = self.super_version.version.icmp();
        let user_key = self.keys[i as usize].user_key();
        while !self.savers[i as usize].is_done()
            && icmp.same_user_key(level.files()[index].largest_user_key(), user_key)
            && index + 1 < level.files().len()
            && !level.begins_above(index + 1, user_key, icmp)
        {
            index += 1;
            self.search_file((number, &level.files()[index]), &[i]);
        }
    }

    /// Searches one file of a level for these keys.
    fn search_file(&mut self, (level, file): (usize, &FileMeta), which: &[u32]) {
        if let Some(statistics) = self.context.statistics {
            statistics.record_in_histogram(Histogram::SstBatchSize, which.len() as u64);
        }
        let Some(reader) = opened_file(self.context.tables, file) else {
            for &i in which {
                self.savers[i as usize].suspend();
                self.suspended.push((i, SuspendedAt { level, file: file.number, missing: None }));
            }
            return;
        };
        if !self.context.ignore_range_deletions
            && let Some(tombstones) = reader.range_dels()
        {
            let icmp = self.super_version.version.icmp();
            for &i in which {
                let key = &self.keys[i as usize];
                let covering = tombstones.max_covering_seq(key.user_key(), icmp, key.sequence());
                self.savers[i as usize].cover(covering);
            }
        }
        let mut suspend = |i: usize, missing| {
            self.suspended.push((i as u32, SuspendedAt { level, file: file.number, missing: Some(missing) }));
        };
        let mut visitor = Visitor {
            super_version: self.super_version,
            keys: self.keys,
            savers: self.savers,
            settle: self.settle,
            suspend: &mut suspend,
        };
        by_level::timed(level, self.context.tables.clock(), || {
            reader.multi_get(self.context.options, self.guard, self.keys, which, &mut visitor);
        });
    }

    fn finish(self, suspend: &mut dyn FnMut(usize, SuspendedGet)) {
        for (i, at) in self.suspended {
            let saver = self.savers[i as usize].take_suspended().expect("a suspended key has its place");
            suspend(i as usize, SuspendedGet { saver, at: Some(at) });
        }
        for (i, saver) in self.savers.iter_mut().enumerate().filter(|(_, saver)| !saver.is_taken()) {
            let saver = std::mem::replace(saver, Saver::new());
            if saver.needs_blobs() {
                suspend(i, SuspendedGet { saver, at: None });
            } else {
                let finish = self.context.finish(self.super_version, &self.keys[i]);
                (self.settle)(i, Answer::Made(saver.finish(&finish)));
            }
        }
    }
}

/// Passes a table's entries to the savers.
struct Visitor<'v> {
    super_version: &'v SuperVersion,
    keys: &'v [LookupKey],
    savers: &'v mut [Saver],
    settle: &'v mut dyn FnMut(usize, Answer<'_>),
    suspend: &'v mut dyn FnMut(usize, Missing),
}

impl BatchVisitor for Visitor<'_> {
    #[inline]
    fn entry(&mut self, i: usize, entry: ParsedInternalKey<'_>, value: TableValue<'_>) -> bool {
        let saver = &mut self.savers[i];
        saver.resolve_cover(entry.sequence, self.super_version, &self.keys[i]);
        if saver.settles(entry.value_type, entry.sequence) {
            (self.settle)(i, Answer::Lent(LentValue::Table(value)));
            return false;
        }
        saver.save(entry.value_type, entry.sequence, || value.pin())
            && saver.needs_older(self.super_version.options.merge_operator.as_ref())
    }

    fn failed(&mut self, i: usize, error: Error) {
        self.savers[i].fail(error);
    }

    fn missing(&mut self, i: usize, missing: Missing) {
        self.savers[i].suspend();
        (self.suspend)(i, missing);
    }
}
