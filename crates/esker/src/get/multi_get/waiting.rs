//! Finishes those keys of a batch that need reads of files.
//!
//! In: a held super version and suspended keys, each with its position. Out: their answers. The
//! search goes level by level, in level 0 file by file. It plans the files of the level's open
//! keys, reads the missing blocks of all keys together, and searches the files. With `async_io` all
//! levels are planned at once: the batch waits once, and may read blocks that newer levels make
//! superfluous. With a row cache each level is planned by itself, for the keys whose rows the cache
//! does not have.
//!
//! Invariants
//!  1. No guard is held.
//!  2. A key takes part from the position where it was suspended until it is done.

mod rows;

use crate::cf::SuperVersion;
use crate::files::RowCache;
use crate::files::open_table::open_for;
use crate::get::answer::{Answer, LentValue};
use crate::get::by_level;
use crate::get::saver::Saver;
use crate::get::search::{ReadContext, SuspendedAt, SuspendedGet, count, hit_at};
use crate::version::{FileMeta, Level};
use esker_base::Error;
use esker_base::perf_context::counts_by_level;
use esker_format::key::{LookupKey, ParsedInternalKey};
use esker_table::{BatchVisitor, LookupPlan, Missing, TableValue, read_plans};
use rows::RowsOfBatch;

/// Calls `settle` once for each of `keys`, with the key's number and its answer. `suspended` gives
/// the progress of each key. The keys ascend and differ. With a row cache they have seen no file.
#[cold]
pub(crate) fn resume_multi_get(
    super_version: &SuperVersion,
    (context, rows): (&ReadContext<'_>, Option<&RowCache>),
    keys: &[LookupKey],
    suspended: Vec<SuspendedGet>,
    settle: &mut dyn FnMut(usize, Answer<'_>),
) {
    esker_base::probe!("read:suspended_batch");
    let (mut savers, mut places) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
    for SuspendedGet { saver, at } in suspended {
        places.push(at);
        savers.push(saver);
    }
    let rows = rows.map(|cache| RowsOfBatch::new(cache, keys.len()));
    let is_at_once = context.options.async_io && rows.is_none();
    let mut waiting = Waiting { super_version, context, keys, savers, places, rows, settle };
    if is_at_once {
        waiting.search_all_levels();
    } else {
        waiting.search_by_level();
    }
    for (i, saver) in waiting.savers.into_iter().enumerate() {
        if !saver.is_taken() {
            let finish = context.finish(super_version, &keys[i]);
            (waiting.settle)(i, Answer::Made(saver.finish(&finish)));
        }
    }
}

struct Waiting<'b> {
    super_version: &'b SuperVersion,
    context: &'b ReadContext<'b>,
    keys: &'b [LookupKey],
    savers: Vec<Saver>,
    /// The position from which each key takes part; `None` after the search has reached it.
    places: Vec<Option<SuspendedAt>>,
    /// The rows that the batch makes, if there is a row cache.
    rows: Option<RowsOfBatch<'b>>,
    settle: &'b mut dyn FnMut(usize, Answer<'_>),
}

/// A group of up to this many keys takes its memory at once.
const FEW_KEYS: usize = 8;

/// Keys for which one file is searched.
struct Group<'f> {
    level: usize,
    file: &'f FileMeta,
    /// The file's index in the level.
    index: usize,
    which: Vec<(u32, Option<Missing>)>,
}

impl<'b> Waiting<'b> {
    fn search_by_level(&mut self) {
        let (super_version, clock) = (self.super_version, self.context.tables.clock());
        for (number, level) in super_version.version.levels().iter().enumerate() {
            if number > 0 {
                let groups = self.groups_of_level(number, level);
                by_level::timed(number, clock, || self.search_groups(groups));
                continue;
            }
            for index in 0..level.files().len() {
                let group = self.group_of_file(level, index);
                by_level::timed(number, clock, || self.search_groups(group.into_iter().collect()));
            }
        }
    }

    fn search_all_levels(&mut self) {
        let super_version = self.super_version;
        let mut groups = Vec::new();
        for (number, level) in super_version.version.levels().iter().enumerate() {
            if number > 0 {
                groups.extend(self.groups_of_level(number, level));
            } else {
                groups.extend((0..level.files().len()).filter_map(|index| self.group_of_file(level, index)));
            }
        }
        self.search_groups(groups);
    }

    /// The missing block of key `i` if it was suspended in this file; `None` while the key does not
    /// take part.
    fn come_to(&mut self, i: usize, level: usize, file: &FileMeta) -> Option<Option<Missing>> {
        match self.places[i] {
            None => Some(None),
            Some(at) if (at.level, at.file) == (level, file.number) => {
                self.places[i] = None;
                Some(at.missing)
            }
            Some(_) => None,
        }
    }

    /// The keys that lie within a file of level 0.
    fn group_of_file(&mut self, level: &'b Level, index: usize) -> Option<Group<'b>> {
        let icmp = self.super_version.version.icmp();
        let file = &*level.files()[index];
        let mut which = Vec::new();
        for i in 0..self.keys.len() {
            let user_key = self.keys[i].user_key();
            let may_hold = !self.savers[i].is_done()
                && icmp.compare_user_keys(user_key, file.smallest_user_key()).is_ge()
                && icmp.compare_user_keys(user_key, file.largest_user_key()).is_le();
            if may_hold && let Some(missing) = self.come_to(i, 0, file) {
                which.push((i as u32, missing));
            }
        }
        (!which.is_empty()).then_some(Group { level: 0, file, index, which })
    }

    /// The keys, grouped by the file of the level in which each lies.
    fn groups_of_level(&mut self, number: usize, level: &'b Level) -> Vec<Group<'b>> {
        let icmp = self.super_version.version.icmp();
        let mut groups: Vec<Group<'_>> = Vec::new();
        for i in 0..self.keys.len() {
            if self.savers[i].is_done() || level.files().is_empty() {
                continue;
            }
            let mut index = level.first_not_below(self.keys[i].internal_key(), icmp);
            if let Some(at) = self.places[i].filter(|at| at.level == number) {
                index += level.files()[index..].iter().take_while(|file| file.number != at.file).count();
            }
            let Some(file) = level.files().get(index) else { continue };
            if level.begins_above(index, self.keys[i].user_key(), icmp) {
                continue;
            }
            let Some(missing) = self.come_to(i, number, file) else { continue };
            match groups.last_mut() {
                Some(last) if last.index == index => last.which.push((i as u32, missing)),
                _ => {
                    let mut which = Vec::with_capacity((self.keys.len() - i).min(FEW_KEYS));
                    which.push((i as u32, missing));
                    groups.push(Group { level: number, file, index, which });
                }
            }
        }
        groups
    }

    /// Searches each group's file for its keys; all missing blocks are read together.
    fn search_groups(&mut self, groups: Vec<Group<'_>>) {
        let (mut planned, mut plans) = (Vec::with_capacity(groups.len()), Vec::with_capacity(groups.len()));
        for group in groups {
            let before = (self.open_keys(&group), self.found_keys(&group));
            let mut failed = Vec::new();
            let plan = self.plan_or_find_rows(&group, &mut failed);
            let has_plan = plan.is_some();
            plans.extend(plan);
            planned.push((group, failed, before, has_plan));
        }
        read_plans(&mut plans, self.context.options);
        let mut plans = plans.into_iter();
        for (group, failed, before, has_plan) in planned {
            // A key that a newer level has finished cannot fail.
            failed.into_iter().for_each(|(i, e)| self.fail(i, e));
            if has_plan && let Some(plan) = plans.next() {
                self.search_plan(plan);
            }
            if self.rows.is_some() {
                self.keep_rows(&group);
            }
            self.search_next_files(&group);
            for _ in self.open_keys(&group)..before.0 {
                count(self.context, hit_at(group.level));
            }
            by_level::found(group.level, self.found_keys(&group).saturating_sub(before.1));
        }
    }

    fn open_keys(&self, group: &Group<'_>) -> usize {
        group.which.iter().filter(|(i, _)| !self.savers[*i as usize].is_done()).count()
    }

    /// The keys of the group that have a value, for counts by level; 0 if there are none.
    fn found_keys(&self, group: &Group<'_>) -> usize {
        if !counts_by_level() {
            return 0;
        }
        group.which.iter().filter(|(i, _)| self.savers[*i as usize].found_value()).count()
    }

    fn fail(&mut self, i: usize, error: Error) {
        if !self.savers[i].is_done() {
            self.savers[i].fail(error);
        }
    }

    fn search_plan(&mut self, plan: LookupPlan) {
        match self.rows.take() {
            None => plan.search(self.context.options, self.keys, &mut self.open_only()),
            Some(rows) => self.rows = Some(self.search_recording(plan, rows)),
        }
    }

    fn open_only(&mut self) -> OpenOnly<'_> {
        let Waiting { super_version, keys, savers, settle, .. } = self;
        OpenOnly { super_version, keys, savers, settle: &mut **settle }
    }

    /// The group's plan for its file, without the keys whose rows answer them, and the keys that
    /// will fail.
    fn plan_or_find_rows(
        &mut self,
        group: &Group<'_>,
        failed: &mut Vec<(usize, Error)>,
    ) -> Option<LookupPlan> {
        match self.rows.is_some() {
            true => self.plan_without_rows(group, failed),
            false => self.plan(group, failed),
        }
    }

    /// The group's plan for its file, and the keys that will fail.
    fn plan(&mut self, group: &Group<'_>, failed: &mut Vec<(usize, Error)>) -> Option<LookupPlan> {
        let keys = group.which.iter().map(|(i, _)| *i as usize);
        let reader = match open_for(self.context.tables, group.file, self.context.options) {
            Ok(reader) => reader,
            Err(e) => {
                failed.extend(keys.map(|i| (i, e.clone())));
                return None;
            }
        };
        if !self.context.ignore_range_deletions
            && let Some(tombstones) = reader.range_dels()
        {
            let icmp = self.super_version.version.icmp();
            for i in keys {
                let key = &self.keys[i];
                self.savers[i].cover(tombstones.max_covering_seq(key.user_key(), icmp, key.sequence()));
            }
        }
        Some(reader.plan(self.context.options, self.keys, &group.which, failed))
    }

    /// Searches the files behind the group's file for the group's last key, whose versions may
    /// continue there.
    fn search_next_files(&mut self, group: &Group<'_>) {
        let (super_version, icmp) = (self.super_version, self.super_version.version.icmp());
        let Some(&(last, _)) = group.which.last() else { return };
        let Some(level) = super_version.version.levels().get(group.level).filter(|_| group.level > 0) else {
            return;
        };
        let (i, files) = (last as usize, level.files());
        let user_key = self.keys[i].user_key();
        let mut index = group.index;
        while !self.savers[i].is_done()
            && icmp.same_user_key(files[index].largest_user_key(), user_key)
            && index + 1 < files.len()
            && !level.begins_above(index + 1, user_key, icmp)
        {
            index += 1;
            let next = Group { level: group.level, file: &files[index], index, which: vec![(last, None)] };
            let mut failed = Vec::new();
            let plan = self.plan_or_find_rows(&next, &mut failed);
            let mut plans: Vec<LookupPlan> = plan.into_iter().collect();
            failed.into_iter().for_each(|(i, e)| self.fail(i, e));
            read_plans(&mut plans, self.context.options);
            plans.into_iter().for_each(|plan| self.search_plan(plan));
            if self.rows.is_some() {
                self.keep_rows(&next);
            }
        }
    }
}

/// Passes a table's entries to the savers of unfinished keys. The plan may contain keys that are
/// done meanwhile.
struct OpenOnly<'v> {
    super_version: &'v SuperVersion,
    keys: &'v [LookupKey],
    savers: &'v mut [Saver],
    settle: &'v mut dyn FnMut(usize, Answer<'_>),
}

impl BatchVisitor for OpenOnly<'_> {
    fn entry(&mut self, i: usize, entry: ParsedInternalKey<'_>, value: TableValue<'_>) -> bool {
        let saver = &mut self.savers[i];
        if saver.is_done() {
            return false;
        }
        saver.resolve_cover(entry.sequence, self.super_version, &self.keys[i]);
        if saver.settles(entry.value_type, entry.sequence) {
            (self.settle)(i, Answer::Lent(LentValue::Table(value)));
            return false;
        }
        saver.save(entry.value_type, entry.sequence, || value.pin())
            && saver.needs_older(self.super_version.options.merge_operator.as_ref())
    }

    fn failed(&mut self, i: usize, error: Error) {
        if !self.savers[i].is_done() {
            self.savers[i].fail(error);
        }
    }

    fn missing(&mut self, i: usize, _missing: Missing) {
        self.failed(i, Error::incomplete("a read that may wait for blocks reported one as missing"));
    }
}
