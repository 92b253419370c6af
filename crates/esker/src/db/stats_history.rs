//! The history of statistics: a snapshot of all tickers every `stats_persist_period_sec` seconds.
//!
//! In: the tickers of `DbOptions::statistics`. Out: their differences since the last snapshot, in
//! memory, or with `persist_stats_to_disk` in the hidden family `___rocksdb_stats_history___`;
//! [`StatsHistoryIterator`] reads both.
//!
//! The first snapshot is taken when the timer starts and is only compared with. A snapshot that
//! cannot be written is joined to the next one. The memory is limited, the family is not: RocksDB
//! never purges it. A memtable of the family keeps WALs only as long as any other idle family.
//! Source: RocksDB `DBImpl::PersistStats`, `DBImpl::PersistentStatsProcessFormatVersion`.

use super::open::stats_history_options;
use super::{ColumnFamilyHandle, Db};
use crate::engine::Engine;
use crate::observe::{parse_stats_key, stats_key, ticker_totals};
use crate::options::{ReadOptions, WriteOptions};
use crate::scan::DbIterator;
use crate::version::STATS_HISTORY_COLUMN_FAMILY_NAME;
use crate::write::WritePath;
use esker_base::stats::Ticker;
use esker_base::sync::Arc;
use esker_base::{Error, ErrorKind, Result};
use esker_format::write_batch::WriteBatch;
use std::collections::BTreeMap;
use std::fmt;

/// The version of the family's keys and values, and the oldest version that can read them.
const VERSIONS: [(&str, u64); 2] =
    [("__persistent_stats_format_version__", 1), ("__persistent_stats_compatible_version__", 1)];

/// Starts, changes or stops the snapshots, as the options in force say. Called under no lock.
pub(super) fn schedule_stats_history(engine: &Arc<Engine>, path: &Arc<WritePath>) {
    let Some(statistics) = &engine.options.statistics else { return };
    let period = || {
        let seconds = u64::from(engine.db_options().stats_persist_period_sec);
        Some(seconds).filter(|seconds| *seconds > 0 && !engine.is_shutting_down())
    };
    if period().is_some() {
        let mut history = engine.stats_history.lock();
        if !history.has_begun() {
            history.advance(ticker_totals(statistics));
        }
    }
    engine.stats_persist.reschedule(period, |period| {
        let (engine_of_work, path) = (Arc::downgrade(engine), Arc::downgrade(path));
        engine.env.timer.repeat(period, move || {
            if let (Some(engine), Some(path)) = (engine_of_work.upgrade(), path.upgrade()) {
                take_snapshot(&engine, &path);
            }
        })
    });
}

/// Takes one snapshot.
fn take_snapshot(engine: &Engine, path: &WritePath) {
    let Some(statistics) = engine.options.statistics.as_ref().filter(|_| !engine.is_shutting_down()) else {
        return;
    };
    let (seconds, totals) = (engine.env.clock.now_seconds(), ticker_totals(statistics));
    let mut history = engine.stats_history.lock();
    let Some(differences) = history.differences(&totals) else { return history.advance(totals) };
    if !engine.options.persist_stats_to_disk {
        history.keep(seconds, differences, engine.db_options().stats_history_buffer_size);
        return history.advance(totals);
    }
    drop(history);
    match write_snapshot(engine, path, seconds, &differences) {
        Ok(()) => engine.stats_history.lock().advance(totals),
        Err(e) => {
            esker_base::info_log!(engine.info_log, Info, "Writing to persistent stats CF failed -- {e}")
        }
    }
}

/// Writes the differences into the hidden family, without waiting for room.
/// # Errors
/// `Incomplete`: writers are stalled · `ColumnFamilyDropped` · the errors of [`WritePath::write`].
fn write_snapshot(engine: &Engine, path: &WritePath, seconds: u64, differences: &[u64]) -> Result<()> {
    let Some(family) = engine.families.by_name(STATS_HISTORY_COLUMN_FAMILY_NAME) else {
        return Err(Error::column_family_dropped("the statistics' history was dropped"));
    };
    if engine.stall.holds_low_pri_back() {
        return Err(Error::incomplete("Low priority write stall"));
    }
    let mut batch = WriteBatch::new();
    for (ticker, difference) in Ticker::ALL.iter().zip(differences) {
        batch.put_cf(family.id, stats_key(seconds, ticker.name()), difference.to_string())?;
    }
    path.write(&write_options(), &mut batch)
}

fn write_options() -> WriteOptions {
    WriteOptions { no_slowdown: true, low_pri: true, ..WriteOptions::default() }
}

/// Prepares the hidden family of an open database. A family whose versions are missing or unknown
/// is replaced by an empty one. `is_new` says that this open has created the family.
/// # Errors
/// `Corruption` and `IoError` of the read · the errors of a write, of a drop and of a creation.
pub(super) fn begin_stats_history(db: &Db, is_new: bool) -> Result<()> {
    let name = STATS_HISTORY_COLUMN_FAMILY_NAME;
    let Some(mut family) = db.column_family(name) else { return Ok(()) };
    if !is_new {
        if are_known(db, &family)? {
            return Ok(());
        }
        esker_base::info_log!(
            db.engine().info_log,
            Warn,
            "Recreating persistent stats column family due to a missing or unknown format version"
        );
        db.drop_column_family(&family)?;
        family = db.create_column_family(name, &stats_history_options())?;
    }
    let mut batch = WriteBatch::new();
    for (key, version) in VERSIONS {
        batch.put_cf(family.id(), key, version.to_string())?;
    }
    match db.write_opt(&write_options(), &mut batch) {
        // The next open finds no versions and tries again.
        Err(e) if e.kind() == ErrorKind::Incomplete => Ok(()),
        written => written,
    }
}

/// Whether this code knows the versions of the family's content: the format's own, or the oldest
/// one that can read it.
fn are_known(db: &Db, family: &ColumnFamilyHandle) -> Result<bool> {
    let mut is_known = false;
    for (key, known) in VERSIONS {
        let value = db.get_opt(&ReadOptions::default(), family, key)?;
        let version = value.and_then(|value| std::str::from_utf8(&value).ok()?.parse::<u64>().ok());
        let Some(version) = version else { return Ok(false) };
        is_known |= version <= known;
    }
    Ok(is_known)
}

impl Db {
    /// Snapshots of all tickers from `start` on and before `end`, both in seconds since 1970,
    /// oldest first.
    ///
    /// A snapshot has a ticker's count since the snapshot before it. The database takes one every
    /// [`stats_persist_period_sec`](crate::DbOptions) seconds, if it has `statistics`. It keeps
    /// `stats_history_buffer_size` bytes of them in memory. With `persist_stats_to_disk` it writes
    /// them into a hidden column family and keeps all of them.
    ///
    /// ```
    /// use esker::stats::Statistics;
    /// use esker::{Db, Options};
    /// # use esker::internals::env::{MemFs, MockClock};
    /// # use std::{sync::Arc, time::Duration};
    ///
    /// let mut options = Options::default();
    /// options.db.create_if_missing = true;
    /// options.db.statistics = Some(Arc::new(Statistics::new()));
    /// options.db.stats_persist_period_sec = 60;
    /// # let clock = Arc::new(MockClock::new(0));
    /// # options.db.env = esker::Env::new(Arc::new(MemFs::new()), clock.clone());
    /// # let dir = std::path::Path::new("/db");
    /// let db = Db::open(&options, dir)?;
    /// db.put("esker", "gravel")?;
    /// # clock.advance(Duration::from_secs(60));
    /// # options.db.env.timer.read_clock_again();
    /// # while db.get_stats_history(0, u64::MAX)?.next().is_none() { std::thread::yield_now() }
    /// // A minute later:
    /// for snapshot in db.get_stats_history(0, u64::MAX)? {
    ///     let (seconds, tickers) = snapshot?;
    ///     println!("{seconds}: {} keys", tickers["rocksdb.number.keys.written"]);
    /// #   assert_eq!(tickers["rocksdb.number.keys.written"], 1);
    /// }
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `ShutdownInProgress`: the database was closed · `NotSupported` in a forked child ·
    /// `Corruption` and `IoError` from opening tables of the hidden family.
    pub fn get_stats_history(&self, start: u64, end: u64) -> Result<StatsHistoryIterator> {
        let engine = self.engine();
        engine.check_open()?;
        let family = self.column_family(STATS_HISTORY_COLUMN_FAMILY_NAME);
        let source = match family.filter(|_| engine.options.persist_stats_to_disk) {
            None => HistorySource::Memory(self.clone()),
            Some(family) => {
                let mut iter = self.iter_cf(&family)?;
                iter.seek(stats_key(start, ""));
                HistorySource::Disk(Box::new(iter))
            }
        };
        Ok(StatsHistoryIterator { next: start, end, source: Some(source) })
    }
}

/// Snapshots of tickers, oldest first: [`Db::get_stats_history`].
///
/// An item is the time of a snapshot, in seconds since 1970, and each ticker's count since the
/// snapshot before, by name. Costs of an item: as many steps as there are tickers. An iterator over
/// snapshots in memory sees those that are taken while it lives; one over the hidden column family
/// sees the family as of its creation.
pub struct StatsHistoryIterator {
    /// The first second of the rest.
    next: u64,
    end: u64,
    /// `None` after the end or an error.
    source: Option<HistorySource>,
}

enum HistorySource {
    Memory(Db),
    Disk(Box<DbIterator>),
}

impl Iterator for StatsHistoryIterator {
    /// The time and the tickers, or an error.
    /// # Errors
    /// `Corruption` and `IoError` of the hidden family's tables · `Corruption` for a value that is
    /// no number.
    type Item = Result<(u64, BTreeMap<String, u64>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = match self.source.as_mut()? {
            HistorySource::Memory(db) => Ok(db.engine().stats_history.lock().find(self.next, self.end)),
            HistorySource::Disk(iter) => next_on_disk(iter, self.end),
        };
        match &found {
            Ok(Some((seconds, _))) => self.next = seconds + 1,
            Ok(None) | Err(_) => self.source = None,
        }
        found.transpose()
    }
}

/// The snapshot at which the cursor stands, or the next one; `None` at `end`.
fn next_on_disk(iter: &mut DbIterator, end: u64) -> Result<Option<(u64, BTreeMap<String, u64>)>> {
    let mut snapshot: Option<(u64, BTreeMap<String, u64>)> = None;
    while iter.valid() {
        if let Some((seconds, name)) = parse_stats_key(iter.key()) {
            let is_other = snapshot.as_ref().is_some_and(|(of_snapshot, _)| *of_snapshot != seconds);
            if seconds >= end || is_other {
                break;
            }
            let count = std::str::from_utf8(iter.value()).ok().and_then(|text| text.parse().ok());
            let Some(count) = count else {
                let key = String::from_utf8_lossy(iter.key());
                return Err(Error::corruption(format!("statistics' history: {key} has no number")));
            };
            let (_, tickers) = snapshot.get_or_insert_with(|| (seconds, BTreeMap::new()));
            tickers.insert(name.to_owned(), count);
        }
        iter.next();
    }
    iter.status()?;
    Ok(snapshot)
}

impl fmt::Debug for StatsHistoryIterator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatsHistoryIterator({}..{})", self.next, self.end)
    }
}
