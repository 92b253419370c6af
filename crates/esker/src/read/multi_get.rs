//! Many keys of one family: memtables, then levels, each asked for all keys that are still open.
//!
//! In: a view of the family and keys at one sequence number. Out: for each key what `get` gives, but plain values are lent
//! where they lie, so that nothing is counted for them.
//!
//! Invariants
//!  1. Keys ascend and differ if there are files to search; so do the open ones, in every step.
//!  2. A key goes through the sources in the order of `get`, and leaves at the first that settles it.
//!  3. An error settles the keys that needed what failed.

use crate::cf::SuperVersion;
use crate::read::answer::{Answer, LentValue};
use crate::read::get::{ReadContext, count, hit_at};
use crate::read::saver::Saver;
use crate::read::tables::open_file;
use crate::version::{FileMeta, Level};
use esker_base::Error;
use esker_base::stats::Ticker;
use esker_format::key::{LookupKey, ParsedInternalKey};
use esker_table::{BatchVisitor, TableValue};
use smallvec::SmallVec;

/// Gives `settle` the answer for each of `keys` (by its number), once, in no certain order. The keys ascend and differ,
/// unless the search ends in the memtables.
pub(crate) fn multi_get(
    view: &SuperVersion,
    context: &ReadContext<'_>,
    keys: &[LookupKey],
    settle: &mut dyn FnMut(usize, Answer<'_>),
) {
    let (operator, blobs) = (view.options.merge_operator.as_ref(), context.blobs());
    let mut batch = Batch {
        view,
        context,
        keys,
        savers: keys.iter().map(|key| Saver::new(key.user_key(), operator, blobs)).collect(),
        open: (0..keys.len() as u32).collect(),
        settle,
    };
    batch.search_memtables();
    if !context.memtables_only {
        batch.search_files();
    }
    batch.finish();
}

/// Keys for which nothing is allocated.
const FEW: usize = 8;

struct Batch<'b> {
    view: &'b SuperVersion,
    context: &'b ReadContext<'b>,
    keys: &'b [LookupKey],
    savers: SmallVec<[Saver<'b>; FEW]>,
    /// Numbers of the keys that are not settled.
    open: SmallVec<[u32; FEW]>,
    settle: &'b mut dyn FnMut(usize, Answer<'_>),
}

impl Batch<'_> {
    fn search_memtables(&mut self) {
        for mem in self.view.memtables() {
            if !self.context.ignore_range_deletions {
                for &i in &self.open {
                    let key = &self.keys[i as usize];
                    let covering = mem.max_covering_tombstone_seq(key.user_key(), key.sequence());
                    self.savers[i as usize].cover(covering);
                }
            }
            mem.get_many(self.keys, &self.open, |i, value_type, sequence, value| {
                let saver = &mut self.savers[i as usize];
                if saver.settles(value_type, sequence) {
                    (self.settle)(i as usize, Answer::Lent(LentValue::Memtable(value)));
                    return false;
                }
                saver.save(value_type, sequence, || value.pin())
            });
            self.close_settled();
        }
        if let Some(statistics) = self.context.statistics {
            let missed = self.open.len() as u64;
            statistics.record_tick(Ticker::MemtableMiss, missed);
            statistics.record_tick(Ticker::MemtableHit, self.keys.len() as u64 - missed);
        }
    }

    fn close_settled(&mut self) {
        let savers = &self.savers;
        self.open.retain(|i| !savers[*i as usize].is_done());
    }

    fn search_files(&mut self) {
        let view = self.view;
        for (number, level) in view.version.levels().iter().enumerate() {
            if self.open.is_empty() {
                return;
            }
            if level.files().is_empty() {
                continue;
            }
            let before = self.open.len();
            if number == 0 {
                self.search_level0(level)
            } else {
                self.search_sorted_level(level)
            }
            for _ in self.open.len()..before {
                count(self.context, hit_at(number));
            }
        }
    }

    fn search_level0(&mut self, level: &Level) {
        let icmp = self.view.version.icmp();
        let mut within = Vec::new();
        for file in level.files().iter() {
            let may_hold = |&i: &u32| {
                let user_key = self.keys[i as usize].user_key();
                icmp.compare_user_keys(user_key, file.smallest_user_key()).is_ge()
                    && icmp.compare_user_keys(user_key, file.largest_user_key()).is_le()
            };
            within.clear();
            within.extend(self.open.iter().copied().filter(may_hold));
            if !within.is_empty() {
                self.ask(file, &within);
                self.close_settled();
            }
        }
    }

    /// Cuts the open keys into runs that lie in one file each.
    fn search_sorted_level(&mut self, level: &Level) {
        let icmp = self.view.version.icmp();
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
            self.ask(file, within);
            self.follow(level, index, within[len - 1]);
            rest = behind;
        }
        self.open = open;
        self.close_settled();
    }

    /// Asks the files behind `index` for a key whose versions may go on there.
    fn follow(&mut self, level: &Level, mut index: usize, i: u32) {
        let icmp = self.view.version.icmp();
        let user_key = self.keys[i as usize].user_key();
        while !self.savers[i as usize].is_done()
            && icmp.same_user_key(level.files()[index].largest_user_key(), user_key)
            && index + 1 < level.files().len()
            && !level.begins_above(index + 1, user_key, icmp)
        {
            index += 1;
            self.ask(&level.files()[index], &[i]);
        }
    }

    /// Asks one file for these keys.
    fn ask(&mut self, file: &FileMeta, which: &[u32]) {
        let reader = match open_file(self.context.tables, file) {
            Ok(reader) => reader,
            Err(e) => return which.iter().for_each(|&i| self.savers[i as usize].fail(e.clone())),
        };
        if !self.context.ignore_range_deletions
            && let Some(tombstones) = reader.range_dels()
        {
            let icmp = self.view.version.icmp();
            for &i in which {
                let key = &self.keys[i as usize];
                let covering = tombstones.max_covering_seq(key.user_key(), icmp, key.sequence());
                self.savers[i as usize].cover(covering);
            }
        }
        let mut visitor = Visitor { savers: &mut self.savers, settle: self.settle };
        reader.multi_get(self.context.options, self.keys, which, &mut visitor);
    }

    fn finish(self) {
        for (i, saver) in self.savers.into_iter().enumerate() {
            if !saver.is_taken() {
                (self.settle)(i, Answer::Made(saver.finish()));
            }
        }
    }
}

/// Hands a table's entries to the savers.
struct Visitor<'v, 's> {
    savers: &'v mut [Saver<'s>],
    settle: &'v mut dyn FnMut(usize, Answer<'_>),
}

impl BatchVisitor for Visitor<'_, '_> {
    #[inline]
    fn entry(&mut self, i: usize, entry: ParsedInternalKey<'_>, value: TableValue<'_>) -> bool {
        let saver = &mut self.savers[i];
        if saver.settles(entry.value_type, entry.sequence) {
            (self.settle)(i, Answer::Lent(LentValue::Table(value)));
            return false;
        }
        saver.save(entry.value_type, entry.sequence, || value.pin())
    }

    fn failed(&mut self, i: usize, error: Error) {
        self.savers[i].fail(error);
    }
}
