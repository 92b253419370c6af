//! User keys and values at one sequence number and one user-defined timestamp.
//!
//! In: a cursor over internal keys whose user keys end in timestamps, newest first, and all
//! relevant range tombstones.
//! Out: each user key once, without its timestamp; its newest value at or before the requested
//! timestamp; and that value's timestamp. Both directions, within bounds.
//!
//! For each user key the cursor reads the versions from the newest visible one, in either direction
//! of travel: histories are short, so reading versions oldest first when moving backward would gain
//! little.
//!
//! Invariants
//!  1. While the cursor is valid, the inner cursor is at a version of the current user key or
//!     behind all its versions.
//!  2. Key and timestamp are copies; the value is a copy or keeps its owner alive.
//!  3. Prefixes are cut from keys without their timestamps. `max_skippable_internal_keys` limits
//!     the entries of one move, as in families without timestamps.
//!
//! Source: RocksDB `db/db_iter.cc`; order of keys: `docs/format/internal-key.md`.

use super::db_iter::{DbIterOptions, KeepAlive};
use crate::merge::MergeOperands;
use crate::merge::operands::{MergedValue, StoredBase, note_merged};
use esker_base::{Error, PinnedBytes, Result, SequenceNumber, ValueType};
use esker_format::cursor::InternalIterator;
use esker_format::key::{self, InternalKeyComparator, ParsedInternalKey};
use esker_format::range_del::{FragmentedRangeTombstones, RangeTombstone, RangeTombstoneRef};
use esker_format::wide_column::{DEFAULT_COLUMN_NAME, EncodedColumns};
use esker_table::blob::BlobReader;
use std::fmt;

/// The range tombstones of one memtable or file that a reader sees.
#[derive(Debug, Default)]
pub(crate) struct TombstoneRun {
    /// Range tombstones whose ends have no timestamps.
    fragments: FragmentedRangeTombstones,
    /// The file's first and last user key, without timestamps, and whether the last is exclusive.
    /// The tombstones do not apply beyond these keys.
    bounds: Option<(Vec<u8>, Vec<u8>, bool)>,
}

impl TombstoneRun {
    /// Whether the reader sees no tombstone of this run.
    pub(crate) fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Whether the run's file ends before `user_key`, which has no timestamp; `plain` is the order
    /// of such keys.
    fn ends_before(&self, plain: &InternalKeyComparator, user_key: &[u8]) -> bool {
        self.bounds.as_ref().is_some_and(|(_, last, is_exclusive)| {
            let order = plain.compare_user_keys(last, user_key);
            order.is_lt() || (order.is_eq() && *is_exclusive)
        })
    }

    /// Whether the run's file begins behind `user_key`.
    fn begins_behind(&self, plain: &InternalKeyComparator, user_key: &[u8]) -> bool {
        self.bounds.as_ref().is_some_and(|(first, ..)| plain.compare_user_keys(first, user_key).is_gt())
    }
}

/// All range tombstones that a reader sees.
#[derive(Debug, Default)]
pub(crate) struct TimestampedTombstones {
    /// Runs of memtables and of files of level 0, in any order.
    pub(crate) of_level_0: Vec<TombstoneRun>,
    /// Runs of each deeper level, in the order of its files.
    pub(crate) of_levels: Vec<Vec<TombstoneRun>>,
}

impl TimestampedTombstones {
    /// The newest tombstone that covers `user_key`, which has no timestamp; `plain` is the order of
    /// such keys.
    pub(super) fn covering(&self, plain: &InternalKeyComparator, user_key: &[u8]) -> SequenceNumber {
        let of_levels = self.of_levels.iter().flat_map(|runs| {
            let from = runs.partition_point(|run| run.ends_before(plain, user_key));
            // Versions of one key may continue in the next file.
            runs[from..].iter().take_while(|run| !run.begins_behind(plain, user_key))
        });
        let within =
            |run: &&TombstoneRun| !run.ends_before(plain, user_key) && !run.begins_behind(plain, user_key);
        let newest =
            |run: &TombstoneRun| run.fragments.max_covering_seq(user_key, plain, SequenceNumber::MAX);
        self.of_level_0.iter().filter(within).chain(of_levels).map(newest).max().unwrap_or_default()
    }
}

/// Reads the range tombstones of memtables and files, at one sequence number and timestamp.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TombstoneReader<'a> {
    pub(crate) icmp: &'a InternalKeyComparator,
    pub(crate) sequence: SequenceNumber,
    pub(crate) timestamp: &'a [u8],
    /// If set, the only key to read, without a timestamp.
    pub(crate) only: Option<&'a [u8]>,
}

impl TombstoneReader<'_> {
    /// The tombstones of this memtable or file that the reader sees.
    pub(crate) fn run<'t>(
        &self,
        tombstones: impl IntoIterator<Item = &'t RangeTombstone>,
        bounds: Option<(Vec<u8>, Vec<u8>, bool)>,
    ) -> TombstoneRun {
        let plain = self.icmp.without_timestamp();
        let seen = tombstones.into_iter().filter_map(|tombstone| {
            let (start, timestamp) = self.icmp.split_timestamp(&tombstone.start);
            let (end, _) = self.icmp.split_timestamp(&tombstone.end);
            let seen = RangeTombstoneRef { start, end, seq: tombstone.seq };
            let is_seen =
                seen.seq <= self.sequence && self.icmp.compare_timestamps(timestamp, self.timestamp).is_le();
            (is_seen && self.only.is_none_or(|key| seen.covers(key, &plain))).then_some(seen)
        });
        TombstoneRun { fragments: FragmentedRangeTombstones::from_refs(seen, &plain), bounds }
    }
}

/// The read that wants the value of a key. A get may stop at an operand
/// (`MergeOperator::should_merge`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Resolve {
    Get,
    Scan,
}

/// The shown value.
pub(super) enum Shown {
    Nothing,
    Value(PinnedBytes),
    /// An entity with all its columns in place.
    Entity(Vec<u8>),
    /// A value in a blob file, not read yet: its blob index.
    Unprepared(PinnedBytes),
}

impl Shown {
    pub(super) fn value(&self) -> &[u8] {
        match self {
            Shown::Nothing | Shown::Unprepared(_) => &[],
            Shown::Value(value) => value,
            Shown::Entity(entity) => {
                EncodedColumns::parse(entity).map_or(&[], |columns| columns.default_value())
            }
        }
    }

    pub(super) fn pinned_value(&self) -> PinnedBytes {
        match self {
            Shown::Value(value) => value.clone(),
            _ => PinnedBytes::copy_from(self.value()),
        }
    }

    pub(super) fn columns(&self) -> Vec<(&[u8], &[u8])> {
        match self {
            Shown::Entity(entity) => {
                EncodedColumns::parse(entity).map_or(Vec::new(), |columns| columns.iter().collect())
            }
            Shown::Unprepared(_) => Vec::new(),
            _ => vec![(DEFAULT_COLUMN_NAME, self.value())],
        }
    }

    /// Reads the value of `user_key`, which has its timestamp, if it has not been read yet.
    pub(super) fn prepare(&mut self, user_key: &[u8], blobs: Option<&BlobReader>) -> Result<()> {
        if let Shown::Unprepared(index) = self {
            *self = shown(ValueType::BlobIndex, (user_key, index), || index.clone(), blobs)?;
        }
        Ok(())
    }
}

/// A cursor over user keys at one timestamp. Not valid until positioned, and after an error until
/// positioned again.
pub(crate) struct TimestampedIter {
    icmp: InternalKeyComparator,
    /// The order of keys without timestamps.
    plain: InternalKeyComparator,
    iter: Box<dyn InternalIterator>,
    options: DbIterOptions,
    /// Versions newer than this timestamp are invisible.
    read_timestamp: Vec<u8>,
    tombstones: TimestampedTombstones,
    valid: bool,
    key: Vec<u8>,
    timestamp: Vec<u8>,
    shown: Shown,
    operands: MergeOperands,
    lacks_base: bool,
    /// The prefix within which the cursor stays.
    prefix: Option<Vec<u8>>,
    /// Entries that this move has passed over.
    skipped: u64,
    status: Result<()>,
    _keep_alive: Option<KeepAlive>,
}

impl fmt::Debug for TimestampedIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimestampedIter")
            .field("valid", &self.valid)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl TimestampedIter {
    /// A cursor over `iter`, which applies no range tombstones. Bounds have no timestamps.
    pub(crate) fn new(
        icmp: InternalKeyComparator,
        iter: Box<dyn InternalIterator>,
        options: DbIterOptions,
        read_timestamp: Vec<u8>,
        tombstones: TimestampedTombstones,
        keep_alive: Option<KeepAlive>,
    ) -> TimestampedIter {
        TimestampedIter {
            plain: icmp.without_timestamp(),
            icmp,
            iter,
            options,
            read_timestamp,
            tombstones,
            valid: false,
            key: Vec::new(),
            timestamp: Vec::new(),
            shown: Shown::Nothing,
            operands: MergeOperands::new(),
            lacks_base: false,
            prefix: None,
            skipped: 0,
            status: Ok(()),
            _keep_alive: keep_alive,
        }
    }

    pub(crate) fn valid(&self) -> bool {
        self.valid
    }

    /// Sets the bounds, which have no timestamps. The caller positions the cursor next.
    pub(crate) fn set_bounds(&mut self, lower: Option<&[u8]>, upper: Option<&[u8]>) {
        self.valid = false;
        self.options.set_bounds(lower, upper);
    }

    pub(crate) fn status(&self) -> Result<()> {
        self.status.clone()
    }

    /// The user key, without its timestamp. REQUIRES: `valid()`.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The timestamp of the shown version; of a merged value, that of its newest operand. REQUIRES:
    /// `valid()`.
    pub(crate) fn timestamp(&self) -> &[u8] {
        &self.timestamp
    }

    /// The shown value. REQUIRES: `valid()`.
    pub(crate) fn value(&self) -> &[u8] {
        self.shown.value()
    }

    /// The shown value, which stays alive after the next move. REQUIRES: `valid()`.
    pub(crate) fn pinned_value(&self) -> PinnedBytes {
        self.shown.pinned_value()
    }

    /// Reads the value here, if it has not been read yet.
    /// # Errors
    /// Those of blob files. The cursor is not valid then.
    pub(crate) fn prepare_value(&mut self) -> Result<()> {
        if !matches!(self.shown, Shown::Unprepared(_)) {
            return Ok(());
        }
        let user_key = [&self.key[..], &self.timestamp].concat();
        let prepared = self.shown.prepare(&user_key, self.options.blobs.as_ref());
        prepared.inspect_err(|error| self.fail(error.clone()))
    }

    /// Reads the value here and, from now on, those of all entries at which the cursor stops.
    /// # Errors
    /// Those of [`prepare_value`](Self::prepare_value).
    pub(crate) fn load_values(&mut self) -> Result<()> {
        self.options.allow_unprepared_value = false;
        if self.valid { self.prepare_value() } else { Ok(()) }
    }

    /// Name and value of each shown column. REQUIRES: `valid()`.
    pub(crate) fn columns(&self) -> Vec<(&[u8], &[u8])> {
        self.shown.columns()
    }

    /// The value of `user_key` and its timestamp; `None` if there is no visible value.
    /// # Errors
    /// As [`TimestampedIter::status`].
    pub(crate) fn get(&mut self, user_key: &[u8]) -> Result<Option<(PinnedBytes, Vec<u8>)>> {
        self.stand_on_newest_of(user_key);
        Ok(self.resolve(Resolve::Get)?.then(|| (self.pinned_value(), self.timestamp.clone())))
    }

    /// Whether the operands of the last key met neither a value nor a deletion: they apply to a
    /// value in another source, if there is one.
    pub(crate) fn lacks_base(&self) -> bool {
        self.lacks_base
    }

    /// Moves to `user_key`, and returns whether it has a visible value, whose columns can then be
    /// read.
    /// # Errors
    /// As [`TimestampedIter::status`].
    pub(crate) fn find(&mut self, user_key: &[u8]) -> Result<bool> {
        self.stand_on_newest_of(user_key);
        self.resolve(Resolve::Get)
    }

    /// Begins a move to another position.
    fn begin(&mut self) {
        self.status = Ok(());
        self.skipped = 0;
        self.prefix = None;
    }

    pub(crate) fn seek_to_first(&mut self) {
        self.begin();
        match self.options.lower_bound.clone() {
            Some(lower) => self.iter.seek(&self.before_all_of(&lower)),
            None => self.iter.seek_to_first(),
        }
        self.find_next(false);
        self.adopt_prefix();
    }

    pub(crate) fn seek_to_last(&mut self) {
        self.begin();
        self.go_to_last();
        self.adopt_prefix();
    }

    fn go_to_last(&mut self) {
        match self.options.upper_bound.clone() {
            Some(upper) => self.iter.seek_for_prev(&self.before_all_of(&upper)),
            None => self.iter.seek_to_last(),
        }
        self.find_prev();
    }

    pub(crate) fn seek(&mut self, target: &[u8]) {
        self.begin();
        self.prefix = self.options.prefix_to_stay_in(target);
        let lower = self.options.lower_bound.as_deref();
        let target = lower.filter(|l| self.plain.compare_user_keys(l, target).is_gt()).unwrap_or(target);
        let from = self.before_all_of(target);
        self.iter.seek(&from);
        self.find_next(false);
    }

    pub(crate) fn seek_for_prev(&mut self, target: &[u8]) {
        self.begin();
        self.prefix = self.options.prefix_to_stay_in(target);
        let upper = self.options.upper_bound.as_deref();
        if upper.is_some_and(|u| self.plain.compare_user_keys(target, u).is_ge()) {
            return self.go_to_last();
        }
        let to = self.behind_all_of(target);
        self.iter.seek_for_prev(&to);
        self.find_prev();
    }

    /// Moves to the next entry. Does nothing if the cursor is not valid.
    pub(crate) fn next(&mut self) {
        if !self.valid() {
            return;
        }
        self.skipped = 0;
        // The shown version does not count as passed over.
        if self.iter.valid() && self.is_current() {
            self.iter.next();
        }
        self.find_next(true);
    }

    /// Moves to the previous entry. Does nothing if the cursor is not valid.
    pub(crate) fn prev(&mut self) {
        if !self.valid() {
            return;
        }
        self.skipped = 0;
        let before = self.before_all_of(&self.key);
        self.iter.seek_for_prev(&before);
        self.find_prev();
    }

    /// An internal key before every version of `user_key`.
    fn before_all_of(&self, user_key: &[u8]) -> Vec<u8> {
        key::seek_key(&self.icmp.first_version(user_key), SequenceNumber::MAX)
    }

    /// An internal key behind every version of `user_key`.
    fn behind_all_of(&self, user_key: &[u8]) -> Vec<u8> {
        let oldest = self.icmp.last_version(user_key);
        key::internal_key(&oldest, SequenceNumber::ZERO, ValueType::Deletion)
    }

    fn stand_on_newest_of(&mut self, user_key: &[u8]) {
        user_key.clone_into(&mut self.key);
        let from = key::seek_key(&[user_key, &self.read_timestamp].concat(), SequenceNumber::MAX);
        self.iter.seek(&from);
    }

    pub(crate) fn fail(&mut self, error: Error) {
        self.valid = false;
        self.status = Err(error);
    }

    /// After a move to an end: the prefix found there becomes the prefix to stay in.
    fn adopt_prefix(&mut self) {
        if self.valid {
            self.prefix = self.options.prefix_to_stay_in(&self.key);
        }
    }

    /// Counts the entry here as passed over.
    /// # Errors
    /// `Incomplete` if there were too many of them in this move.
    fn skip(&mut self) -> Result<()> {
        self.skipped += 1;
        self.options.check_skipped(self.skipped)
    }

    /// Whether the inner cursor is at a version of `key`.
    fn is_current(&self) -> bool {
        let (user_key, _) = self.icmp.split_timestamp(key::user_key(self.iter.key()));
        self.plain.same_user_key(user_key, &self.key)
    }

    /// Copies the inner cursor's user key into `key`; false at the end.
    fn take_key(&mut self) -> Result<bool> {
        if !self.iter.valid() {
            return self.iter.status().map(|()| false);
        }
        let user_key = key::user_key(self.iter.key());
        if user_key.len() < self.icmp.timestamp_size() {
            return Err(Error::corruption("a key is shorter than its timestamp"));
        }
        let (user_key, _) = self.icmp.split_timestamp(user_key);
        user_key.clone_into(&mut self.key);
        Ok(true)
    }

    /// Moves forward to the first visible user key; with `passing`, behind the current one.
    fn find_next(&mut self, passing: bool) {
        self.valid = false;
        if let Err(e) = self.search_forward(passing) {
            self.fail(e);
        }
    }

    fn search_forward(&mut self, mut passing: bool) -> Result<()> {
        loop {
            let mut run = 0;
            while passing && self.iter.valid() && self.is_current() {
                self.skip()?;
                run += 1;
                if run > self.options.max_sequential_skip_in_iterations {
                    let behind = self.behind_all_of(&self.key);
                    self.iter.seek(&behind);
                    // A deletion in an ingested file may have sequence number 0, as the seek's
                    // target has. The seek then stops at it.
                    while self.iter.valid() && self.is_current() {
                        self.iter.next();
                    }
                    break;
                }
                self.iter.next();
            }
            if !self.take_key()? {
                return Ok(());
            }
            let upper = self.options.upper_bound.as_ref();
            if upper.is_some_and(|upper| self.plain.compare_user_keys(&self.key, upper).is_ge())
                || self.options.leaves(self.prefix.as_deref(), &self.key)
            {
                return Ok(());
            }
            if self.resolve(Resolve::Scan)? {
                self.valid = true;
                return Ok(());
            }
            passing = true;
        }
    }

    /// Moves backward to the last visible user key, from the inner cursor's position.
    fn find_prev(&mut self) {
        self.valid = false;
        if let Err(e) = self.search_backward() {
            self.fail(e);
        }
    }

    fn search_backward(&mut self) -> Result<()> {
        while self.take_key()? {
            let lower = self.options.lower_bound.as_ref();
            if lower.is_some_and(|lower| self.plain.compare_user_keys(&self.key, lower).is_lt())
                || self.options.leaves(self.prefix.as_deref(), &self.key)
            {
                return Ok(());
            }
            let key = std::mem::take(&mut self.key);
            self.stand_on_newest_of(&key);
            if self.resolve(Resolve::Scan)? {
                self.valid = true;
                return Ok(());
            }
            self.skip()?;
            let before = self.before_all_of(&self.key);
            self.iter.seek_for_prev(&before);
        }
        Ok(())
    }

    /// Reads the versions of `key` from the inner cursor on. Returns whether a value is visible,
    /// and shows it.
    fn resolve(&mut self, of: Resolve) -> Result<bool> {
        self.lacks_base = false;
        self.operands.clear();
        self.timestamp.clear();
        let covering = self.tombstones.covering(&self.plain, &self.key);
        while self.iter.valid() && self.is_current() {
            let entry = ParsedInternalKey::parse(self.iter.key())?;
            let (_, timestamp) = self.icmp.split_timestamp(entry.user_key);
            let is_too_new = entry.sequence > self.options.sequence
                || self.icmp.compare_timestamps(timestamp, &self.read_timestamp).is_gt();
            if is_too_new {
                self.skip()?;
                self.iter.next();
                continue;
            }
            if entry.sequence < covering || entry.value_type.is_point_deletion() {
                return self.show_merged(Shown::Nothing);
            }
            if self.timestamp.is_empty() {
                self.timestamp.extend_from_slice(timestamp);
            }
            if entry.value_type == ValueType::Merge {
                self.operands.push(self.iter.value());
                if of == Resolve::Get && self.operands.suffice(self.options.merge_operator.as_ref()) {
                    return self.show_merged(Shown::Nothing);
                }
                self.iter.next();
                continue;
            }
            let may_wait = self.options.allow_unprepared_value && self.operands.is_empty();
            let base = match entry.value_type {
                ValueType::BlobIndex if may_wait => Shown::Unprepared(self.iter.pinned_value()),
                value_type => shown_base(&*self.iter, self.options.blobs.as_ref(), value_type)?,
            };
            return self.show_merged(base);
        }
        if !self.iter.valid() {
            self.iter.status()?;
        }
        self.lacks_base = !self.operands.is_empty();
        self.show_merged(Shown::Nothing)
    }

    /// Applies the operands, newest first, to `base`. Returns whether there is a result, and shows
    /// it.
    fn show_merged(&mut self, base: Shown) -> Result<bool> {
        if self.operands.is_empty() {
            self.shown = base;
            return Ok(!matches!(self.shown, Shown::Nothing));
        }
        let operator = self.options.merge_operator.as_ref();
        note_merged(self.operands.len());
        let stored = match &base {
            Shown::Nothing => StoredBase::Nothing,
            Shown::Value(value) => StoredBase::Plain(value),
            Shown::Unprepared(_) => unreachable!("a base for operands has been read"),
            Shown::Entity(entity) => StoredBase::Entity(entity),
        };
        self.shown = match self.operands.merge_columns_newest_first(operator, &self.key, stored)? {
            MergedValue::Plain(value) => Shown::Value(PinnedBytes::from_vec(value)),
            MergedValue::Entity(entity) => Shown::Entity(entity),
        };
        Ok(true)
    }
}

/// A cursor's value as a base for operands.
pub(super) fn shown_base(
    iter: &dyn InternalIterator,
    blobs: Option<&BlobReader>,
    value_type: ValueType,
) -> Result<Shown> {
    shown(value_type, (key::user_key(iter.key()), iter.value()), || iter.pinned_value(), blobs)
}

/// The shown form of a stored value; `pin` returns that value to keep.
pub(super) fn shown(
    value_type: ValueType,
    (user_key, stored): (&[u8], &[u8]),
    pin: impl FnOnce() -> PinnedBytes,
    blobs: Option<&BlobReader>,
) -> Result<Shown> {
    Ok(match value_type {
        ValueType::Value => Shown::Value(pin()),
        ValueType::ValuePreferredSeqno if stored.len() >= 8 => Shown::Value(pin().slice(0..stored.len() - 8)),
        ValueType::BlobIndex => match blobs {
            Some(blobs) => Shown::Value(blobs.reads().value(user_key, stored)?),
            None => return Err(Error::not_supported("values in blob files cannot be read here")),
        },
        ValueType::WideColumnEntity => {
            let whole = blobs.map_or(Ok(None), |blobs| blobs.reads().whole_entity(user_key, stored))?;
            let whole = whole.unwrap_or_else(|| stored.to_vec());
            EncodedColumns::parse(&whole)?;
            Shown::Entity(whole)
        }
        other => {
            return Err(Error::corruption(format!("an entry of type {other:?} stands among values")));
        }
    })
}
