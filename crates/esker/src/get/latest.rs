//! The newest write of a key, for conflict checks of transactions.
//!
//! In: a super version and a sequence number. Out: whether a newer write is there. Deletions of all
//! kinds count as writes, range tombstones over the key, too.
//!
//! Invariant: an answer is given only if every later write is still in the searched sources.
//! Memtables keep all their entries, but lack those of ingested files. Tables keep entries newer
//! than a live snapshot.
//!
//! Source: RocksDB `utilities/transactions/transaction_util.cc`, `DBImpl::GetLatestSequenceForKey`.

use super::search::ReadContext;
use crate::cf::SuperVersion;
use crate::files::open_table::open_file;
use crate::merge::timestamps::{may_hold, stored_tombstones, table_iter};
use crate::snapshot::{OwnNumbers, UnseenSections};
use esker_base::{Error, Result, SequenceNumber};
use esker_format::cursor::InternalIterator;
use esker_format::key::{InternalKeyComparator, LookupKey, ParsedInternalKey, seek_key};
use esker_format::range_del::{FragmentedRangeTombstones, RangeTombstone};

/// The point in time of a snapshot, after which a write is a conflict.
#[derive(Clone, Debug)]
pub(crate) struct Since {
    sequence: SequenceNumber,
    /// The prepared transactions that the snapshot does not see.
    unseen: Option<UnseenSections>,
    /// Entries of the transaction itself, which are no conflicts.
    own: Option<OwnNumbers>,
}

impl Since {
    /// The point in time of the snapshot at `sequence`, which does not see what `unseen` hides.
    pub(crate) fn new(sequence: SequenceNumber, unseen: Option<UnseenSections>) -> Since {
        Since { sequence, unseen, own: None }
    }

    /// The same, where entries of `own` do not count.
    pub(crate) fn without_own(self, own: Option<&OwnNumbers>) -> Since {
        Since { own: own.cloned(), ..self }
    }

    /// Whether the transaction itself wrote the entry at `sequence`.
    #[inline]
    fn is_own(&self, sequence: SequenceNumber) -> bool {
        self.own.as_ref().is_some_and(|own| own.contains(sequence))
    }

    /// The number from which on readers see an entry at `sequence`.
    #[inline]
    fn visible_from(&self, sequence: SequenceNumber) -> SequenceNumber {
        self.unseen.as_ref().map_or(sequence, |unseen| unseen.visible_from(sequence))
    }

    /// Whether the snapshot sees all of a source whose newest entry is at `largest`.
    #[inline]
    fn covers(&self, largest: SequenceNumber) -> bool {
        largest <= self.sequence && self.unseen.as_ref().is_none_or(|unseen| largest < unseen.first())
    }
}

/// The newest sequence number of `key`, if it was written after `since`.
/// # Errors
/// `TryAgain` if `with_tables` is false and memtables do not reach back to `since`, or files were
/// ingested since · `Corruption` · `IoError` of tables.
pub(crate) fn latest_sequence(
    super_version: &SuperVersion,
    context: &ReadContext<'_>,
    key: &[u8],
    since: &Since,
    with_tables: bool,
) -> Result<Option<SequenceNumber>> {
    let (at, since) = (since, since.sequence);
    let lookup = LookupKey::new(key, SequenceNumber::MAX);
    let mut newest = SequenceNumber::ZERO;
    for mem in super_version.history() {
        newest = newest.max(mem.max_covering_tombstone_seq(key, SequenceNumber::MAX));
        mem.get(&lookup, |_, sequence, _| {
            let is_own = at.is_own(sequence);
            if !is_own {
                newest = newest.max(at.visible_from(sequence));
            }
            is_own
        })?;
        if newest > since {
            return Ok(Some(newest));
        }
    }
    if !with_tables {
        check_history(super_version, since)?;
        return Ok(None);
    }
    for (_, file) in super_version.version.candidates(lookup.internal_key()) {
        if at.covers(file.largest_seqno) {
            continue;
        }
        let reader = open_file(context.tables, file)?;
        if let Some(tombstones) = reader.range_dels() {
            newest = newest.max(tombstones.max_covering_seq(
                key,
                super_version.version.icmp(),
                SequenceNumber::MAX,
            ));
        }
        reader.get(context.options, &lookup, &mut |entry, _| {
            let is_own = at.is_own(entry.sequence);
            if !is_own {
                newest = newest.max(at.visible_from(entry.sequence));
            }
            is_own
        })?;
        if newest > since {
            return Ok(Some(newest));
        }
    }
    Ok(None)
}

/// Whether a key from `begin` to `end`, both included, was written after `since`; `None` is an open
/// end.
/// # Errors
/// `TryAgain` if memtables do not reach back to `since`, or files were ingested since ·
/// `Corruption` · `IoError` of tables.
pub(crate) fn range_written_since(
    super_version: &SuperVersion,
    context: &ReadContext<'_>,
    range: (Option<&[u8]>, Option<&[u8]>),
    since: &Since,
    with_tables: bool,
) -> Result<bool> {
    let (at, since) = (since, since.sequence);
    let icmp = super_version.version.icmp();
    for mem in super_version.history().filter(|mem| !at.covers(mem.largest_seqno())) {
        let tombstones = if mem.num_range_deletes() > 0 { mem.range_tombstones() } else { Vec::new() };
        if has_newer(icmp, &mut mem.iter(), range, at)?
            || tombstones.iter().any(|set| has_newer_tombstone(icmp, set, range, since))
        {
            return Ok(true);
        }
    }
    if !with_tables {
        check_history(super_version, since)?;
        return Ok(false);
    }
    for level in 0..super_version.version.levels().len() {
        for file in super_version.version.overlapping(level, range.0, range.1) {
            if at.covers(file.largest_seqno) {
                continue;
            }
            let reader = open_file(context.tables, &file)?;
            let tombstones = reader.range_dels();
            if tombstones.is_some_and(|fragments| has_newer_tombstone(icmp, fragments, range, since))
                || has_newer(icmp, &mut reader.iter(*context.options), range, at)?
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether `key`, which has no timestamp, was written after `since` or at a timestamp newer than
/// `timestamp`. Checks, in each memtable and table, range tombstones and the version with the
/// newest timestamp, which is also the newest by sequence number.
/// # Errors
/// `Corruption` · `IoError` of tables.
pub(crate) fn timestamped_written_since(
    super_version: &SuperVersion,
    context: &ReadContext<'_>,
    key: &[u8],
    since: SequenceNumber,
    timestamp: Option<&[u8]>,
) -> Result<bool> {
    let icmp = super_version.version.icmp();
    let wanted = Timestamped { icmp, plain: icmp.without_timestamp(), key, since, timestamp };
    let (newest, oldest) = (icmp.first_version(key), icmp.last_version(key));
    let target = seek_key(&newest, SequenceNumber::MAX);
    for mem in super_version.history() {
        if wanted.is_newer(&mut mem.iter(), &target)? || wanted.is_covered(&mem.stored_range_tombstones()) {
            return Ok(true);
        }
    }
    for level in 0..super_version.version.levels().len() {
        for file in super_version.version.overlapping(level, Some(&newest), Some(&oldest)) {
            if timestamp.is_none() && file.largest_seqno <= since {
                continue;
            }
            let reader = open_file(context.tables, &file)?;
            let entries = || table_iter(&reader, *context.options, icmp);
            if may_hold(&reader, context.options, icmp, key)?
                && wanted.is_newer(entries().as_mut(), &target)?
                || wanted.is_covered(&stored_tombstones(&reader, icmp))
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// A key of a family with timestamps, and the bounds of a newer write.
struct Timestamped<'a> {
    icmp: &'a InternalKeyComparator,
    plain: InternalKeyComparator,
    key: &'a [u8],
    since: SequenceNumber,
    timestamp: Option<&'a [u8]>,
}

impl Timestamped<'_> {
    fn is_newer(&self, iter: &mut dyn InternalIterator, target: &[u8]) -> Result<bool> {
        iter.seek(target);
        if !iter.valid() {
            return iter.status().map(|()| false);
        }
        let entry = ParsedInternalKey::parse(iter.key())?;
        let (key, timestamp) = self.icmp.split_timestamp(entry.user_key);
        Ok(self.plain.compare_user_keys(key, self.key).is_eq() && self.is_later(entry.sequence, timestamp))
    }

    fn is_covered(&self, tombstones: &[RangeTombstone]) -> bool {
        tombstones.iter().any(|tombstone| {
            let (start, timestamp) = self.icmp.split_timestamp(&tombstone.start);
            let (end, _) = self.icmp.split_timestamp(&tombstone.end);
            self.plain.compare_user_keys(start, self.key).is_le()
                && self.plain.compare_user_keys(self.key, end).is_lt()
                && self.is_later(tombstone.seq, timestamp)
        })
    }

    fn is_later(&self, sequence: SequenceNumber, timestamp: &[u8]) -> bool {
        sequence > self.since
            || self.timestamp.is_some_and(|read| self.icmp.compare_timestamps(timestamp, read).is_gt())
    }
}

fn has_newer(
    icmp: &InternalKeyComparator,
    iter: &mut dyn InternalIterator,
    (begin, end): (Option<&[u8]>, Option<&[u8]>),
    since: &Since,
) -> Result<bool> {
    match begin {
        Some(begin) => iter.seek(&seek_key(begin, SequenceNumber::MAX)),
        None => iter.seek_to_first(),
    }
    while iter.valid() {
        let key = ParsedInternalKey::parse(iter.key())?;
        if end.is_some_and(|end| icmp.compare_user_keys(key.user_key, end).is_gt()) {
            return Ok(false);
        }
        if !since.is_own(key.sequence) && since.visible_from(key.sequence) > since.sequence {
            return Ok(true);
        }
        iter.next();
    }
    iter.status().map(|()| false)
}

fn has_newer_tombstone(
    icmp: &InternalKeyComparator,
    fragments: &FragmentedRangeTombstones,
    (begin, end): (Option<&[u8]>, Option<&[u8]>),
    since: SequenceNumber,
) -> bool {
    if fragments.max_seq() <= since {
        return false;
    }
    let first = begin.map_or(0, |begin| fragments.position(begin, icmp).saturating_sub(1));
    let is_behind = |key: &[u8]| end.is_some_and(|end| icmp.compare_user_keys(key, end).is_gt());
    let is_before = |key: &[u8]| begin.is_some_and(|begin| icmp.compare_user_keys(key, begin).is_le());
    (first..fragments.len())
        .map(|i| fragments.fragment(i))
        .take_while(|fragment| !is_behind(fragment.start))
        .any(|fragment| !is_before(fragment.end) && fragment.newest > since)
}

fn check_history(super_version: &SuperVersion, since: SequenceNumber) -> Result<()> {
    if since < super_version.ingested {
        return Err(Error::try_again(format!(
            "whether others wrote since sequence number {since} cannot be said: files were ingested, at {} at last",
            super_version.ingested
        ))
        .with_retryable(true));
    }
    let earliest =
        super_version.history().map(|mem| mem.earliest_seqno()).min().unwrap_or(SequenceNumber::ZERO);
    if since >= earliest {
        return Ok(());
    }
    Err(Error::try_again(format!(
        "whether others wrote since sequence number {since} cannot be said: memtables hold only what is newer than \
         {earliest}; a larger max_write_buffer_size_to_maintain makes this rarer"
    ))
    .with_retryable(true))
}
