//! Rows of the row cache for the keys of a batch.
//!
//! In: a group of open keys and its file. Out: keys whose rows are in the cache take the rows'
//! entries; the others are planned, and their entries become new rows.
//!
//! Invariants
//!  1. A key has a new row from its planning to the end of the search of its file.
//!  2. A key is planned only while it is open, so its row begins with its newest entry in the file.

use super::{Group, OpenOnly, Waiting};
use crate::files::{NewRow, Row, RowCache, RowKey};
use crate::get::search::count;
use esker_base::stats::Ticker;
use esker_base::{Error, SequenceNumber};
use esker_format::key::ParsedInternalKey;
use esker_table::{BatchVisitor, LookupPlan, Missing, TableValue};

/// The rows that a batch makes, by the index of the key.
pub(super) struct RowsOfBatch<'b> {
    cache: &'b RowCache,
    new: Vec<Option<(RowKey, NewRow)>>,
}

impl<'b> RowsOfBatch<'b> {
    pub(super) fn new(cache: &'b RowCache, keys: usize) -> RowsOfBatch<'b> {
        RowsOfBatch { cache, new: Vec::from_iter((0..keys).map(|_| None)) }
    }
}

impl Waiting<'_> {
    /// Gives the open keys of the group the entries of their rows, and plans the others. Without
    /// others the file is not even opened.
    pub(super) fn plan_without_rows(
        &mut self,
        group: &Group<'_>,
        failed: &mut Vec<(usize, Error)>,
    ) -> Option<LookupPlan> {
        let cache = self.rows.as_ref()?.cache;
        let mut missed = Vec::with_capacity(group.which.len());
        let mut places = Vec::with_capacity(group.which.len());
        for &(i, missing) in &group.which {
            debug_assert!(missing.is_none(), "a batch with rows is never suspended in a file");
            let place = cache.key(group.file, &self.keys[i as usize]);
            match cache.find(&place) {
                Some(row) => self.take_row(i as usize, row),
                None => {
                    count(self.context, Ticker::RowCacheMiss);
                    missed.push((i, None));
                    places.push(place);
                }
            }
        }
        if missed.is_empty() {
            return None;
        }
        let left = Group { level: group.level, file: group.file, index: group.index, which: missed };
        let plan = self.plan(&left, failed)?;
        for (&(i, _), place) in left.which.iter().zip(places) {
            let key = &self.keys[i as usize];
            let cover = plan.range_dels().map_or(SequenceNumber::ZERO, |tombstones| {
                let icmp = self.super_version.version.icmp();
                tombstones.max_covering_seq(key.user_key(), icmp, key.sequence())
            });
            let row = NewRow::new(&place, cover);
            if let Some(rows) = &mut self.rows {
                rows.new[i as usize] = Some((place, row));
            }
        }
        Some(plan)
    }

    fn take_row(&mut self, i: usize, mut row: Row) {
        count(self.context, Ticker::RowCacheHit);
        let (key, saver) = (&self.keys[i], &mut self.savers[i]);
        if !self.context.ignore_range_deletions {
            saver.cover(row.cover);
        }
        while !saver.is_done()
            && let Some((value_type, sequence, value)) = row.next_entry()
        {
            saver.resolve_cover(sequence, self.super_version, key);
            let operator = self.super_version.options.merge_operator.as_ref();
            _ = saver.save(value_type, sequence, || value) && saver.needs_older(operator);
        }
    }

    /// Searches the plan's file, and adds its entries to the keys' new rows.
    pub(super) fn search_recording<'r>(
        &mut self,
        plan: LookupPlan,
        mut rows: RowsOfBatch<'r>,
    ) -> RowsOfBatch<'r> {
        let (options, keys) = (self.context.options, self.keys);
        plan.search(options, keys, &mut Recording { open: self.open_only(), rows: &mut rows.new });
        rows
    }

    /// Keeps the complete rows of the group, which has been searched.
    pub(super) fn keep_rows(&mut self, group: &Group<'_>) {
        let Some(rows) = &mut self.rows else { return };
        for &(i, _) in &group.which {
            let Some((place, row)) = rows.new[i as usize].take() else { continue };
            let is_exhausted = !self.savers[i as usize].is_done();
            if self.context.options.fill_cache && row.is_complete(is_exhausted) {
                rows.cache.insert(&place, row);
            }
        }
    }
}

/// [`OpenOnly`], which also adds each entry to the row of its key.
struct Recording<'v, 'r> {
    open: OpenOnly<'v>,
    rows: &'r mut [Option<(RowKey, NewRow)>],
}

impl BatchVisitor for Recording<'_, '_> {
    fn entry(&mut self, i: usize, entry: ParsedInternalKey<'_>, value: TableValue<'_>) -> bool {
        if let Some((_, row)) = &mut self.rows[i] {
            row.add(entry.value_type, entry.sequence, value.bytes());
        }
        self.open.entry(i, entry, value)
    }

    fn failed(&mut self, i: usize, error: Error) {
        self.rows[i] = None;
        self.open.failed(i, error);
    }

    fn missing(&mut self, i: usize, missing: Missing) {
        self.rows[i] = None;
        self.open.missing(i, missing);
    }
}
