//! All versions of user keys between two user-defined timestamps, deletions included:
//! `ReadOptions::iter_start_ts`.
//!
//! In: a cursor over internal keys whose user keys end in timestamps, and all relevant range
//! tombstones.
//! Out: the entries visible at the sequence number whose timestamps lie between the two, under
//! internal keys, newest first within a user key. Both directions, within bounds.
//!
//! Invariants
//!  1. Forward, the inner cursor is at the shown entry; backward, before all entries of its user
//!     key and timestamp.
//!  2. Of several entries of one user key and timestamp the newest visible one is shown.
//!
//! Source: RocksDB `db/db_iter.cc` (`timestamp_lb_`); as in RocksDB, operands are not merged.

use super::db_iter::{DbIterOptions, KeepAlive};
use super::timestamped::{Shown, TimestampedTombstones, shown};
use esker_base::{Error, PinnedBytes, Result, SequenceNumber, ValueType};
use esker_format::cursor::InternalIterator;
use esker_format::key::{self, InternalKeyComparator, ParsedInternalKey};
use std::fmt;

/// A cursor over versions. Not valid until positioned, and after an error until positioned again.
pub(crate) struct VersionsIter {
    icmp: InternalKeyComparator,
    /// The order of keys without timestamps.
    plain: InternalKeyComparator,
    iter: Box<dyn InternalIterator>,
    options: DbIterOptions,
    /// The first and the last timestamp that are shown.
    from: Vec<u8>,
    to: Vec<u8>,
    tombstones: TimestampedTombstones,
    valid: bool,
    forward: bool,
    /// The internal key that is shown.
    key: Vec<u8>,
    shown: Shown,
    /// The prefix within which the cursor stays.
    prefix: Option<Vec<u8>>,
    /// Entries that this move has passed over.
    skipped: u64,
    status: Result<()>,
    _keep_alive: Option<KeepAlive>,
}

impl fmt::Debug for VersionsIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VersionsIter")
            .field("valid", &self.valid)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl VersionsIter {
    /// A cursor over `iter`, which applies no range tombstones. Bounds have no timestamps.
    pub(crate) fn new(
        icmp: InternalKeyComparator,
        iter: Box<dyn InternalIterator>,
        options: DbIterOptions,
        (from, to): (Vec<u8>, Vec<u8>),
        tombstones: TimestampedTombstones,
        keep_alive: Option<KeepAlive>,
    ) -> VersionsIter {
        VersionsIter {
            plain: icmp.without_timestamp(),
            icmp,
            iter,
            options,
            from,
            to,
            tombstones,
            valid: false,
            forward: true,
            key: Vec::new(),
            shown: Shown::Nothing,
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

    pub(crate) fn fail(&mut self, error: Error) {
        self.valid = false;
        self.status = Err(error);
    }

    pub(crate) fn status(&self) -> Result<()> {
        self.status.clone()
    }

    /// An internal key: user key, timestamp, sequence number and type. REQUIRES: `valid()`.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The timestamp of the shown version. REQUIRES: `valid()`.
    pub(crate) fn timestamp(&self) -> &[u8] {
        self.icmp.split_timestamp(key::user_key(&self.key)).1
    }

    /// The shown value; empty for a deletion. REQUIRES: `valid()`.
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
        let prepared = self.shown.prepare(key::user_key(&self.key), self.options.blobs.as_ref());
        prepared.inspect_err(|error| self.fail(error.clone()))
    }

    /// Reads the value here and, from now on, those of all entries at which the cursor stops.
    /// # Errors
    /// Those of [`prepare_value`](Self::prepare_value).
    pub(crate) fn load_values(&mut self) -> Result<()> {
        self.options.allow_unprepared_value = false;
        if self.valid { self.prepare_value() } else { Ok(()) }
    }

    /// Name and value of each shown column; empty for a deletion. REQUIRES: `valid()`.
    pub(crate) fn columns(&self) -> Vec<(&[u8], &[u8])> {
        match &self.shown {
            Shown::Nothing => Vec::new(),
            shown => shown.columns(),
        }
    }

    /// Begins a move to another position, within this prefix.
    fn begin(&mut self, prefix: Option<Vec<u8>>) {
        self.prefix = prefix;
        self.skipped = 0;
    }

    /// After a move to an end: the prefix found there becomes the prefix to stay in.
    fn adopt_prefix(&mut self) {
        if self.valid {
            let (user_key, _) = self.icmp.split_timestamp(key::user_key(&self.key));
            self.prefix = self.options.prefix_to_stay_in(user_key);
        }
    }

    /// Counts the entry here as passed over.
    /// # Errors
    /// `Incomplete` if there were too many of them in this move.
    fn skip(&mut self) -> Result<()> {
        self.skipped += 1;
        self.options.check_skipped(self.skipped)
    }

    pub(crate) fn seek_to_first(&mut self) {
        self.begin(None);
        match self.options.lower_bound.clone() {
            Some(lower) => {
                let from = self.before_all_of(&lower);
                self.iter.seek(&from);
            }
            None => self.iter.seek_to_first(),
        }
        self.find_forward();
        self.adopt_prefix();
    }

    pub(crate) fn seek_to_last(&mut self) {
        self.begin(None);
        self.go_to_last();
        self.adopt_prefix();
    }

    fn go_to_last(&mut self) {
        match self.options.upper_bound.clone() {
            Some(upper) => {
                let before = self.before_all_of(&upper);
                self.iter.seek_for_prev(&before);
            }
            None => self.iter.seek_to_last(),
        }
        self.find_backward();
    }

    /// Moves to the newest version of the first user key at or after `target`, which has no
    /// timestamp.
    pub(crate) fn seek(&mut self, target: &[u8]) {
        self.begin(self.options.prefix_to_stay_in(target));
        let lower = self.options.lower_bound.as_deref();
        let target = lower.filter(|l| self.plain.compare_user_keys(l, target).is_gt()).unwrap_or(target);
        let from = self.before_all_of(target);
        self.iter.seek(&from);
        self.find_forward();
    }

    /// Moves to the oldest version of the last user key at or before `target`, which has no
    /// timestamp.
    pub(crate) fn seek_for_prev(&mut self, target: &[u8]) {
        self.begin(self.options.prefix_to_stay_in(target));
        let upper = self.options.upper_bound.as_deref();
        if upper.is_some_and(|u| self.plain.compare_user_keys(target, u).is_ge()) {
            return self.go_to_last();
        }
        let oldest = self.icmp.last_version(target);
        let to = key::internal_key(&oldest, SequenceNumber::ZERO, ValueType::Deletion);
        self.iter.seek_for_prev(&to);
        self.find_backward();
    }

    /// Moves to the next entry. Does nothing if the cursor is not valid.
    pub(crate) fn next(&mut self) {
        if !self.valid() {
            return;
        }
        self.skipped = 0;
        if !self.forward {
            self.iter.seek(&self.key);
        }
        while self.iter.valid() && self.is_current() {
            self.iter.next();
        }
        self.find_forward();
    }

    /// Moves to the previous entry. Does nothing if the cursor is not valid.
    pub(crate) fn prev(&mut self) {
        if !self.valid() {
            return;
        }
        self.skipped = 0;
        if self.forward {
            let before = key::seek_key(key::user_key(&self.key), SequenceNumber::MAX);
            self.iter.seek_for_prev(&before);
        }
        self.find_backward();
    }

    fn before_all_of(&self, user_key: &[u8]) -> Vec<u8> {
        key::seek_key(&self.icmp.first_version(user_key), SequenceNumber::MAX)
    }

    /// Whether the inner cursor is at an entry of the user key and timestamp in `key`.
    fn is_current(&self) -> bool {
        key::user_key(self.iter.key()) == key::user_key(&self.key)
    }

    /// Moves forward from the inner cursor's entry to the first one that is shown.
    fn find_forward(&mut self) {
        (self.forward, self.valid) = (true, false);
        self.status = self.search_forward();
    }

    fn search_forward(&mut self) -> Result<()> {
        while self.iter.valid() {
            let entry = ParsedInternalKey::parse(self.iter.key())?;
            let (user_key, _) = self.icmp.split_timestamp(entry.user_key);
            let upper = self.options.upper_bound.as_deref();
            if upper.is_some_and(|upper| self.plain.compare_user_keys(user_key, upper).is_ge())
                || self.options.leaves(self.prefix.as_deref(), user_key)
            {
                return Ok(());
            }
            if self.counts(&entry)? {
                self.take()?;
                self.valid = true;
                return Ok(());
            }
            self.skip()?;
            self.iter.next();
        }
        self.iter.status()
    }

    /// Moves backward from the inner cursor's entry to the first one that is shown.
    fn find_backward(&mut self) {
        (self.forward, self.valid) = (false, false);
        self.status = self.search_backward();
    }

    fn search_backward(&mut self) -> Result<()> {
        while self.iter.valid() {
            let entry = ParsedInternalKey::parse(self.iter.key())?;
            let (user_key, _) = self.icmp.split_timestamp(entry.user_key);
            let lower = self.options.lower_bound.as_deref();
            if lower.is_some_and(|lower| self.plain.compare_user_keys(user_key, lower).is_lt())
                || self.options.leaves(self.prefix.as_deref(), user_key)
            {
                return Ok(());
            }
            // Newer entries of the same user key and timestamp follow. An entry that they hide may
            // be of a kind that cannot be shown.
            let mut newest = self.counts(&entry)?.then(|| self.iter.pinned_value());
            self.key.clear();
            self.key.extend_from_slice(self.iter.key());
            self.iter.prev();
            while self.iter.valid() && self.is_current() {
                if self.counts(&ParsedInternalKey::parse(self.iter.key())?)? {
                    self.key.clear();
                    self.key.extend_from_slice(self.iter.key());
                    newest = Some(self.iter.pinned_value());
                }
                self.iter.prev();
            }
            if let Some(stored) = newest {
                if !self.iter.valid() {
                    // The unreadable entry may have been a newer one.
                    self.iter.status()?;
                }
                self.show(&stored)?;
                self.valid = true;
                return Ok(());
            }
            self.skip()?;
        }
        self.iter.status()
    }

    /// Whether an entry is to be shown.
    fn counts(&self, entry: &ParsedInternalKey<'_>) -> Result<bool> {
        if entry.user_key.len() < self.icmp.timestamp_size() {
            return Err(Error::corruption("a key is shorter than its timestamp"));
        }
        let (user_key, timestamp) = self.icmp.split_timestamp(entry.user_key);
        let is_between = self.icmp.compare_timestamps(timestamp, &self.from).is_ge()
            && self.icmp.compare_timestamps(timestamp, &self.to).is_le();
        if !is_between || entry.sequence > self.options.sequence {
            return Ok(false);
        }
        let hidden_below = self.tombstones.covering(&self.plain, user_key);
        Ok(entry.sequence >= hidden_below)
    }

    /// Shows the inner cursor's entry.
    fn take(&mut self) -> Result<()> {
        self.key.clear();
        self.key.extend_from_slice(self.iter.key());
        let stored = self.iter.pinned_value();
        self.show(&stored)
    }

    /// Shows `key` with this stored value.
    fn show(&mut self, stored: &PinnedBytes) -> Result<()> {
        let ParsedInternalKey { user_key, value_type, .. } = ParsedInternalKey::parse(&self.key)?;
        self.shown = match value_type {
            _ if value_type.is_point_deletion() => Shown::Nothing,
            ValueType::Merge => {
                return Err(Error::not_supported("merge operands with ReadOptions::iter_start_ts"));
            }
            ValueType::BlobIndex if self.options.allow_unprepared_value => Shown::Unprepared(stored.clone()),
            _ => shown(value_type, (user_key, stored), || stored.clone(), self.options.blobs.as_ref())?,
        };
        Ok(())
    }
}
