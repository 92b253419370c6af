//! One key: memtables, then levels.
//!
//! In: a view of the family and a key at a sequence number. Out: its value, pinned. Sources are asked newest first and
//! the search ends at the first that settles the answer; range tombstones met on the way count for all that is older.
//!
//! Source: RocksDB `db/version_set.cc` (`Version::Get`), `db/memtable.cc`.

use crate::cf::SuperVersion;
use crate::read::answer::{Answer, LentValue};
use crate::read::saver::Saver;
use crate::read::tables::open_file;
use esker_base::stats::{Statistics, Ticker};
use esker_base::sync::Arc;
use esker_base::{PinnedBytes, Result};
use esker_format::key::LookupKey;
use esker_memtable::MemTable;
use esker_table::blob::BlobReads;
use esker_table::{TableCache, TableReadOptions};

/// What a read needs besides the view.
#[derive(Debug)]
pub(crate) struct ReadContext<'a> {
    pub(crate) tables: &'a TableCache,
    pub(crate) options: &'a TableReadOptions,
    pub(crate) ignore_range_deletions: bool,
    /// Only the memtables (`ReadTier::Memtable`).
    pub(crate) memtables_only: bool,
    pub(crate) statistics: Option<&'a Statistics>,
}

impl<'a> ReadContext<'a> {
    /// How values in blob files are read.
    #[inline]
    pub(crate) fn blobs(&self) -> BlobReads<'a> {
        BlobReads { source: self.tables.blobs(), options: self.options }
    }
}

/// The value of `key` in this view, or `None`.
/// # Errors
/// `Corruption` and `IoError` name the file · `Incomplete` if the tier forbids the I/O it would take · see
/// [`Saver::finish`].
#[inline]
pub(crate) fn get(
    view: &SuperVersion,
    context: &ReadContext<'_>,
    key: &LookupKey,
) -> Result<Option<PinnedBytes>> {
    let mut found = None;
    find(view, context, key, &mut |answer| found = Some(answer.into_pinned()));
    found.unwrap_or(Ok(None))
}

/// Gives `settle` what [`get`] gives, once; a plain value is lent where it lies, so that nothing is counted for it.
#[inline]
pub(crate) fn find(
    view: &SuperVersion,
    context: &ReadContext<'_>,
    key: &LookupKey,
    settle: &mut impl FnMut(Answer<'_>),
) {
    let mut saver = Saver::new(key.user_key(), view.options.merge_operator.as_ref(), context.blobs());
    search_memtables(view, context, key, &mut saver, settle);
    count(context, if saver.is_done() { Ticker::MemtableHit } else { Ticker::MemtableMiss });
    if !saver.is_done()
        && !context.memtables_only
        && let Err(e) = search_files(view, context, key, &mut saver, settle)
    {
        saver.fail(e);
    }
    if !saver.is_taken() {
        settle(Answer::Made(saver.finish()));
    }
}

/// [`get`], with the writes in `own` over everything in the view; `own_key` is the key as they number it.
/// # Errors
/// As [`get`].
pub(crate) fn get_over(
    view: &SuperVersion,
    context: &ReadContext<'_>,
    own: &Arc<MemTable>,
    own_key: &LookupKey,
    key: &LookupKey,
) -> Result<Option<PinnedBytes>> {
    let mut saver = Saver::new(key.user_key(), view.options.merge_operator.as_ref(), context.blobs());
    if !context.ignore_range_deletions {
        saver.cover(own.max_covering_tombstone_seq(own_key.user_key(), own_key.sequence()));
    }
    own.get(own_key, |value_type, sequence, value| saver.save(value_type, sequence, || value.pin()));
    let mut found = None;
    let mut settle = |answer: Answer<'_>| found = Some(answer.into_pinned());
    if !saver.is_done() {
        search_memtables(view, context, key, &mut saver, &mut settle);
    }
    if !saver.is_done() && !context.memtables_only {
        search_files(view, context, key, &mut saver, &mut settle)?;
    }
    found.unwrap_or_else(|| saver.finish())
}

#[inline]
pub(super) fn count(context: &ReadContext<'_>, ticker: Ticker) {
    if let Some(statistics) = context.statistics {
        statistics.record_tick(ticker, 1);
    }
}

pub(super) fn hit_at(level: usize) -> Ticker {
    match level {
        0 => Ticker::GetHitL0,
        1 => Ticker::GetHitL1,
        _ => Ticker::GetHitL2AndUp,
    }
}

#[inline]
fn search_memtables(
    view: &SuperVersion,
    context: &ReadContext<'_>,
    key: &LookupKey,
    saver: &mut Saver<'_>,
    settle: &mut impl FnMut(Answer<'_>),
) {
    for mem in view.memtables() {
        if !context.ignore_range_deletions {
            saver.cover(mem.max_covering_tombstone_seq(key.user_key(), key.sequence()));
        }
        mem.get(key, |value_type, sequence, value| {
            if saver.settles(value_type, sequence) {
                settle(Answer::Lent(LentValue::Memtable(value)));
                return false;
            }
            saver.save(value_type, sequence, || value.pin())
        });
        if saver.is_done() {
            return;
        }
    }
}

fn search_files(
    view: &SuperVersion,
    context: &ReadContext<'_>,
    key: &LookupKey,
    saver: &mut Saver<'_>,
    settle: &mut impl FnMut(Answer<'_>),
) -> Result<()> {
    for (level, file) in view.version.candidates(key.internal_key()) {
        let reader = open_file(context.tables, file)?;
        if !context.ignore_range_deletions
            && let Some(tombstones) = reader.range_dels()
        {
            let icmp = view.version.icmp();
            saver.cover(tombstones.max_covering_seq(key.user_key(), icmp, key.sequence()));
        }
        reader.get(context.options, key, &mut |entry, value| {
            if saver.settles(entry.value_type, entry.sequence) {
                settle(Answer::Lent(LentValue::Table(value)));
                return false;
            }
            saver.save(entry.value_type, entry.sequence, || value.pin())
        })?;
        if saver.is_done() {
            count(context, hit_at(level));
            return Ok(());
        }
    }
    Ok(())
}
