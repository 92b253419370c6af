//! The family whose keys have timestamps: its expected contents, and its operations on a database.
//!
//! Invariants
//!  1. The bytes of a timestamp are an option: each set of options draws a format, and the answers
//!     are the same.
//!  2. Writes have ascending timestamps, and no read has a timestamp before that of the last
//!     `raise_low`.

use super::ops::{Bytes, FAMILIES, ScriptWrite};
use super::run::{Run, all_of};
use esker::{ColumnFamilyHandle, ReadOptions, Result, WriteBatch};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The index of the family: the last one.
pub(super) const STAMPED: usize = FAMILIES.len() - 1;

/// A timestamp, and the value of a key from then on.
type Version = (u64, Option<Bytes>);

/// The expected contents of the family.
#[derive(Clone, Default)]
pub(super) struct History {
    /// The versions of each key, oldest first.
    versions: Rc<BTreeMap<Bytes, Vec<Version>>>,
}

impl History {
    /// Applies a write at timestamp `time`.
    pub(super) fn write(&mut self, time: u64, write: &ScriptWrite) {
        let versions = Rc::make_mut(&mut self.versions);
        let mut change = |key: &Bytes, value: Option<Bytes>| {
            versions.entry(key.clone()).or_default().push((time, value));
        };
        match write {
            ScriptWrite::Put(_, key, value) => change(key, Some(value.clone())),
            ScriptWrite::Delete(_, key) | ScriptWrite::SingleDelete(_, key) => change(key, None),
            ScriptWrite::Merge(_, key, operand) => {
                let before = versions.get(key).and_then(|of_key| of_key.last()?.1.clone());
                let merged = before.map_or(operand.clone(), |value| [value.as_slice(), operand].join(&b','));
                versions.entry(key.clone()).or_default().push((time, Some(merged)));
            }
            ScriptWrite::DeleteRange(_, begin, end) => {
                let is_in = |key: &Bytes| key >= begin && key < end;
                let inside = versions.iter_mut().filter(|(key, _)| is_in(key));
                inside.for_each(|(_, of_key)| of_key.push((time, None)));
            }
        }
    }

    /// Keys and values as of timestamp `time`.
    pub(super) fn at(&self, time: u64) -> BTreeMap<Bytes, Bytes> {
        let shown = |(key, of_key): (&Bytes, &Vec<Version>)| {
            let newest = of_key.partition_point(|(from, _)| *from <= time).checked_sub(1)?;
            of_key[newest].1.as_ref().map(|value| (key.clone(), value.clone()))
        };
        self.versions.iter().filter_map(shown).collect()
    }
}

impl Run<'_> {
    pub(super) fn stamped(&self) -> &ColumnFamilyHandle {
        &self.handles[STAMPED]
    }

    /// Options of a read at timestamp `time`, and at a snapshot if that snapshot is held.
    pub(super) fn reading_at(&self, time: u64, snapshot: usize) -> ReadOptions {
        let timestamp = Some(self.space.timestamps().timestamp(time));
        ReadOptions { timestamp, ..self.read_at(snapshot) }
    }

    pub(super) fn write_at(&mut self, time: u64, write: &ScriptWrite) -> Result<()> {
        let format = self.space.timestamps();
        let stamp = |key: &Bytes| [key.as_slice(), &format.timestamp(time)].concat();
        let (mut batch, id) = (WriteBatch::new(), self.stamped().id());
        match write {
            ScriptWrite::Put(_, key, value) => batch.put_cf(id, stamp(key), value)?,
            ScriptWrite::Delete(_, key) | ScriptWrite::SingleDelete(_, key) => {
                batch.delete_cf(id, stamp(key))?
            }
            ScriptWrite::Merge(_, key, operand) => batch.merge_cf(id, stamp(key), operand)?,
            ScriptWrite::DeleteRange(_, begin, end) => batch.delete_range_cf(id, stamp(begin), stamp(end))?,
        }
        let options = self.write_options();
        self.db().write_opt(&options, &mut batch)
    }

    pub(super) fn scan_at(
        &mut self,
        bounds: (&Option<Bytes>, &Option<Bytes>),
        backwards: bool,
        time: u64,
        snapshot: usize,
    ) -> Result<Vec<(Bytes, Bytes)>> {
        let options = ReadOptions {
            iterate_lower_bound: bounds.0.clone(),
            iterate_upper_bound: bounds.1.clone(),
            ..self.reading_at(time, snapshot)
        };
        all_of(self.db().iter_opt(options, self.stamped())?, backwards)
    }

    pub(super) fn raise_low(&mut self, time: u64) -> Result<()> {
        let low = self.space.timestamps().timestamp(time);
        self.db().increase_full_history_ts_low(self.stamped(), &low)
    }
}
