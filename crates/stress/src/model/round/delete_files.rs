//! Deletes whole tables: `delete_files_in_ranges`.
//!
//! In: a range, whose ends often lie at or beside the ends of tables. Out: contents that are the
//! model's. The keys of the range are deleted first, so that only the deleted tables are gone.

use super::journal::Journal;
use super::{Bounds, Done, Event, ModelWrite, Round, refused};
use esker::options::BottommostLevelCompaction;
use esker::{CompactRangeOptions, RangeOpt, WriteBatch, WriteOptions};

impl Round {
    /// Durably deletes a range, and then deletes the tables whose keys all lie in it.
    /// Only answers as of earlier points in time change.
    pub(super) fn delete_files(&mut self) -> Done {
        if self.journal.as_ref().is_some_and(Journal::unlogged) {
            return self.get();
        }
        let family = self.plain_family();
        // The call does not touch level 0, so half of the calls empty it first.
        if self.rng.bool() {
            self.cut_into_small_files(family)?;
        }
        let Some((writes, range)) = self.deletion_of_range(family) else { return self.get() };
        // Tables with entries of early transactions must stay.
        let touched = self.written_by_live();
        let keys = writes.iter().flat_map(|(_, write)| write.keys(&self.specs[family]));
        if self.parameters.mixes_policies && keys.into_iter().any(|index| touched.contains(&(family, index)))
        {
            return self.get();
        }
        let mut batch = WriteBatch::new();
        let id = self.handles[family].id();
        for (_, write) in &writes {
            let done = write.add_to(&mut batch, id, &self.specs[family]);
            done.map_err(|e| format!("{write:?} into a batch: {e}"))?;
        }
        if let Err(error) = self.db().write_opt(&WriteOptions::default().sync(true), &mut batch) {
            self.record_refused_writes(writes);
            return Err(refused("a deletion before delete_files_in_ranges")(error));
        }
        writes.iter().for_each(|(family, write)| self.apply(*family, write));
        self.wrote(batch.sequence().0, true, writes);
        self.cursors.retain(|cursor| cursor.family != family);
        self.snapshots.iter_mut().for_each(|taken| taken.states[family] = None);
        self.live.iter_mut().for_each(|live| live.forget_snapshot_of(family));
        let range = RangeOpt { start: range.0.as_deref(), limit: range.1.as_deref() };
        let deleted = self.db().delete_files_in_ranges(&self.handles[family], &[range], false);
        let deleted = deleted.map_err(refused("delete_files_in_ranges"))?;
        self.steps.files_deleted += deleted as u64;
        let name = self.specs[family].name;
        self.note(Event::Other(format!("delete_files_in_ranges of '{name}': {deleted}")));
        self.verify_scan(family, false, None)
    }

    /// Compacts a family into one level of many small files.
    fn cut_into_small_files(&mut self, family: usize) -> Done {
        let options = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::Force,
            ..CompactRangeOptions::default()
        };
        let (db, handle) = (self.db(), &self.handles[family]);
        let usual = self.settings.families[family].target_file_size_base.to_string();
        db.set_options(handle, &[("target_file_size_base", "1024")])
            .and_then(|()| db.compact_range_opt(&options, handle, None, None))
            .and_then(|()| db.set_options(handle, &[("target_file_size_base", &usual)]))
            .map_err(refused("compact_range before delete_files_in_ranges"))
    }

    /// An end of a range. Half of the time it is an end of a table, or a key beside it.
    fn end_of_range(&mut self, family: usize) -> Vec<u8> {
        let name = self.specs[family].name;
        let tables = self.db().live_files();
        let of_family: Vec<_> = tables.iter().filter(|table| table.column_family_name == name).collect();
        let (spec, rng) = (&self.specs[family], &mut self.rng);
        if of_family.is_empty() || rng.bool() {
            return spec.random_target(rng);
        }
        let table = of_family[rng.usize(..of_family.len())];
        let end = if rng.bool() { &table.smallest_key } else { &table.largest_key };
        let beside = (spec.lower_bound(end) + rng.usize(..3)).saturating_sub(1);
        spec.keys[beside.min(spec.keys.len() - 1)].clone()
    }

    /// Deletes all keys in a range; `None` if a transaction depends on some of them.
    fn deletion_of_range(&mut self, family: usize) -> Option<(Vec<(usize, ModelWrite)>, Bounds)> {
        let (mut begin, mut end) = (self.end_of_range(family), self.end_of_range(family));
        let spec = &self.specs[family];
        if spec.order.compare(&begin, &end).is_gt() {
            std::mem::swap(&mut begin, &mut end);
        }
        if self.rng.bool() {
            let write = ModelWrite::DeleteRange(begin.clone(), end.clone());
            return Some((vec![(family, write)], (Some(begin), Some(end))));
        }
        // No key behind the last one could be the end of the range, so everything is deleted.
        let last = spec.keys.len() - 1;
        if spec.is_single(last) && self.is_in_transaction(family, last) {
            return None;
        }
        let mut writes =
            vec![(family, ModelWrite::DeleteRange(spec.keys[0].clone(), spec.keys[last].clone()))];
        let is_there = self.states[family].get(last).is_some();
        match (spec.is_single(last), is_there) {
            (true, true) => writes.push((family, ModelWrite::SingleDelete(last))),
            (true, false) => {}
            (false, _) => writes.push((family, ModelWrite::Delete(last))),
        }
        Some((writes, (None, None)))
    }
}
