//! Maintenance on request: flush, sync, compact, pause.

use super::{ColumnFamilyHandle, Db};
use crate::compact::{ManualRange, check_may_run};
use crate::engine::{DbState, Engine, UnderWay, maybe_schedule};
use crate::instance::{disable_file_deletions, enable_file_deletions};
use crate::observe::{CompactionJobInfo, FlushReason};
use crate::options::{CompactRangeOptions, CompactionOptions, FlushOptions, RangeOpt, WaitForCompactOptions};
use esker_base::{Error, FileNumber, Result};

impl Db {
    /// Flushes the default family's memtables and waits.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::FlushOptions;
    ///
    /// db.put("esker", "gravel")?;
    /// db.flush()?;
    /// let family = db.default_column_family();
    /// db.flush_opt(&FlushOptions::default().wait(false), &[&family])?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `ShutdownInProgress`: the database was closed · `NotSupported`: a read-only database or a
    /// forked child process · the error of the flush · the background error in force.
    pub fn flush(&self) -> Result<()> {
        self.flush_opt(&FlushOptions::default(), &[&self.default_column_family()])
    }

    /// Flushes the memtables of these families (of all, under `atomic_flush`). With
    /// `force_atomic_flush` all of their tables outlive a crash, or none. With `wait` the flush
    /// ends when all earlier writes to these families are durable. Under the write policies
    /// `WritePrepared` and `WriteUnprepared` it also syncs the WAL, which has the commits.
    /// # Errors
    /// The background error in force, or the flush's error · `ShutdownInProgress` · `NotSupported`
    /// when read-only.
    pub fn flush_opt(&self, options: &FlushOptions, families: &[&ColumnFamilyHandle]) -> Result<()> {
        self.engine().check_writable()?;
        self.engine().check_open()?;
        for family in families {
            family.check_live(self)?;
        }
        let ids: Vec<_> = families.iter().map(|f| f.id()).collect();
        if !options.allow_write_stall {
            self.inner.write_path.wait_for_flush_room(&ids)?;
        }
        let write_path = &self.inner.write_path;
        if options.force_atomic_flush {
            write_path.flush_atomically(&ids, FlushReason::ManualFlush, options.wait)?;
        } else {
            write_path.flush(&ids, FlushReason::ManualFlush, options.wait)?;
        }
        if options.wait {
            write_path.sync_commits()?;
        }
        if options.wait && options.listener_wait {
            write_path.wait_for_flush_listeners(&ids)?;
        }
        Ok(())
    }

    /// Makes every write so far durable. Does not wait for room, as writes do.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel")?;
    /// db.sync_wal()?;
    /// db.flush_wal(true)?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `ShutdownInProgress`: the database was closed · `NotSupported`: a read-only database or a
    /// forked child process · `IoError`: the WAL could not be written; writes fail until
    /// [`Db::resume`] · the background error in force.
    pub fn sync_wal(&self) -> Result<()> {
        self.engine().check_writable()?;
        self.inner.write_path.sync_wal()
    }

    /// Writes the WAL bytes that `manual_wal_flush` left in the process to the operating system.
    /// With `sync`, also waits until they are on the medium.
    /// # Errors
    /// `ShutdownInProgress`: the database was closed · `NotSupported`: a read-only database or a
    /// forked child process · `IoError`: the WAL could not be written; writes fail until
    /// [`Db::resume`] · the background error in force.
    pub fn flush_wal(&self, sync: bool) -> Result<()> {
        self.engine().check_writable()?;
        if sync { self.sync_wal() } else { self.inner.write_path.flush_wal() }
    }

    /// Compacts the keys from `begin` to `end` (both inclusive; `None` is open) of the default
    /// family, down to the last level that holds any of them.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::CompactRangeOptions;
    ///
    /// db.put("esker", "gravel")?;
    /// db.compact_range(None, None)?;
    /// let (options, family) = (CompactRangeOptions::default(), db.default_column_family());
    /// db.compact_range_opt(&options, &family, Some(b"a"), Some(b"f"))?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: `end` comes before `begin` · `Incomplete(ManualCompactionPaused)`: manual
    /// compactions are disabled · `ShutdownInProgress`: finished parts stay · `NotSupported`: the
    /// database is read-only · the error of the flush or of the compaction · the background error
    /// in force.
    pub fn compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.compact_range_opt(&CompactRangeOptions::default(), &self.default_column_family(), begin, end)
    }

    /// Compacts the keys from `begin` to `end` of `family` (without timestamps). Flushes its
    /// memtables first.
    /// # Errors
    /// The compaction's error · `Incomplete(ManualCompactionPaused)`: manual compactions are
    /// disabled, or `canceled` is set · `ShutdownInProgress`: finished parts stay · with
    /// `change_level`: `NotSupported` if a level on the way has files, `InvalidArgument` if there
    /// is no such level · with `full_history_ts_low` as [`Db::increase_full_history_ts_low`].
    pub fn compact_range_opt(
        &self,
        options: &CompactRangeOptions,
        family: &ColumnFamilyHandle,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        let engine = self.engine();
        engine.check_writable()?;
        family.check_live(self)?;
        check_may_run(engine, &engine.state.lock(), family.id(), options.canceled.as_ref())?;
        if let (Some(begin), Some(end)) = (begin, end)
            && family.cf.icmp.without_timestamp().compare_user_keys(begin, end).is_gt()
        {
            return Err(Error::invalid_argument("compact_range: end comes before begin"));
        }
        if let Some(ts_low) = &options.full_history_ts_low {
            self.increase_full_history_ts_low(family, ts_low)?;
        }
        // The bounds cover all versions of the keys: a key's newest timestamp sorts first.
        let begin = begin.map(|key| family.cf.icmp.first_version(key));
        let end = end.map(|key| family.cf.icmp.last_version(key));
        let has_entries = !family.cf.super_version.load_full().mem.is_empty();
        if has_entries && !options.allow_write_stall {
            self.inner.write_path.wait_for_flush_room(&[family.id()])?;
        }
        self.inner.write_path.flush(&[family.id()], FlushReason::ManualCompaction, true)?;
        let (begin, end) = (begin.as_deref(), end.as_deref());
        crate::compact::compact_range(
            engine,
            &ManualRange { family: &family.cf, begin, end, options, trim_ts: None },
        )
    }

    /// Merges these tables of `family` ([`Db::live_files`] names them) into `output_level`, waits,
    /// and returns the tables written, or moved with `allow_trivial_move`. Tables between them, and
    /// overlapping tables down to that level, are merged too: older entries must not stay above
    /// newer ones. Unlike in RocksDB, a background thread does the work.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::CompactionOptions;
    /// # db.put("esker", "gravel")?;
    /// # db.flush()?;
    ///
    /// let family = db.default_column_family();
    /// let files: Vec<_> = db.live_files().into_iter().map(|file| file.file.file_number).collect();
    /// let written = db.compact_files(&CompactionOptions::default(), &family, &files, 6)?;
    /// assert_eq!(written.len(), 1);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: no file was named, one is not in the family or below the output level,
    /// there is no such level in the family's compaction style, or this build lacks the
    /// `compression` · `Aborted`: another compaction uses a needed file or writes into the same
    /// range; try again when it has ended · the error of a quarantined file ·
    /// `Incomplete(ManualCompactionPaused)`: manual compactions are disabled, or `canceled` is set
    /// · the background error in force, or the compaction's error · `ShutdownInProgress`.
    pub fn compact_files(
        &self,
        options: &CompactionOptions,
        family: &ColumnFamilyHandle,
        input_files: &[FileNumber],
        output_level: usize,
    ) -> Result<Vec<FileNumber>> {
        let engine = self.engine();
        engine.check_writable()?;
        engine.check_open()?;
        family.check_live(self)?;
        let cf = &family.cf;
        let done = crate::compact::compact_files(engine, cf, input_files, output_level, options, false);
        done.map(|(files, _)| files)
    }

    /// [`Db::compact_files`], with the description of the job that listeners get.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::CompactionOptions;
    /// # db.put("esker", "gravel")?;
    /// # db.flush()?;
    ///
    /// let family = db.default_column_family();
    /// let files: Vec<_> = db.live_files().into_iter().map(|file| file.file.file_number).collect();
    /// let options = CompactionOptions::default();
    /// let (written, info) = db.compact_files_with_info(&options, &family, &files, 6)?;
    /// assert_eq!(info.output_file_infos[0].file_number, written[0]);
    /// assert_eq!(info.stats.num_input_records, 1);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// Those of [`Db::compact_files`].
    pub fn compact_files_with_info(
        &self,
        options: &CompactionOptions,
        family: &ColumnFamilyHandle,
        input_files: &[FileNumber],
        output_level: usize,
    ) -> Result<(Vec<FileNumber>, CompactionJobInfo)> {
        let engine = self.engine();
        engine.check_writable()?;
        engine.check_open()?;
        family.check_live(self)?;
        let cf = &family.cf;
        let (files, info) =
            crate::compact::compact_files(engine, cf, input_files, output_level, options, true)?;
        Ok((files, *info.expect("the job describes itself before it is done")))
    }

    /// Deletes every table of `family` all of whose keys lie in one of the ranges, without reading
    /// it, so space is free at once. With `include_end`, a table whose last key is a range's
    /// `limit` counts as inside. Returns the number of deleted tables.
    ///
    /// This is not [`Db::delete_range`]. Memtables, tables of level 0 and those being compacted
    /// stay, as do tables that reach beyond the range or share a key with their neighbour. Older
    /// entries that a deleted table hid become visible again. Snapshots lose the tables' entries;
    /// iterators keep them until they refresh. A [`Db::delete_range`] beforehand hides the
    /// remaining entries.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::RangeOpt;
    ///
    /// let family = db.default_column_family();
    /// let old = RangeOpt { start: Some(b"2024"), limit: Some(b"2025") };
    /// assert_eq!(db.delete_files_in_ranges(&family, &[old], false)?, 0);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: a range ends before it begins; nothing is deleted · the MANIFEST's error:
    /// the tables stay · `NotSupported` when read-only · `ShutdownInProgress`.
    pub fn delete_files_in_ranges(
        &self,
        family: &ColumnFamilyHandle,
        ranges: &[RangeOpt<'_>],
        include_end: bool,
    ) -> Result<usize> {
        let engine = self.engine();
        engine.check_writable()?;
        let _under_way = UnderWay::begin(engine)?;
        family.check_live(self)?;
        let order = family.cf.icmp.without_timestamp();
        for (number, range) in ranges.iter().enumerate() {
            if let (Some(start), Some(limit)) = (range.start, range.limit)
                && order.compare_user_keys(start, limit).is_gt()
            {
                let what = format!("delete_files_in_ranges: range {number} ends before it begins");
                return Err(Error::invalid_argument(what));
            }
        }
        crate::compact::delete_files_in_ranges(engine, &family.cf, ranges, include_end)
    }

    /// Hints that a compaction of the keys from `begin` to `end` (both inclusive; `None` is open,
    /// without timestamps) would help: background jobs merge the tables with these keys one level
    /// down, except those of the last level. Returns at once. The hint does not outlive the
    /// database.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel")?;
    /// db.suggest_compact_range(&db.default_column_family(), Some(b"a"), None)?;
    /// db.wait_for_background_work()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `ColumnFamilyDropped` · `NotSupported`: the database is read-only · `ShutdownInProgress`.
    pub fn suggest_compact_range(
        &self,
        family: &ColumnFamilyHandle,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        let engine = self.engine();
        engine.check_writable()?;
        engine.check_open()?;
        family.check_live(self)?;
        let begin = begin.map(|key| family.cf.icmp.first_version(key));
        let end = end.map(|key| family.cf.icmp.last_version(key));
        crate::compact::suggest_compact_range(engine, &family.cf, begin.as_deref(), end.as_deref());
        Ok(())
    }

    /// Refuses manual compactions with `Incomplete(ManualCompactionPaused)` until an equal number
    /// of calls of [`Db::enable_manual_compaction`] follow. Stops manual compactions that wait or
    /// run, and waits until they have ended. Calls are counted, and the count may go below zero: an
    /// enabling call that comes first cancels out the next disabling one.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.disable_manual_compaction();
    /// assert!(db.compact_range(None, None).is_err());
    /// db.enable_manual_compaction();
    /// db.compact_range(None, None)?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn disable_manual_compaction(&self) {
        if self.engine().owner.is_here() {
            crate::compact::disable_manual_compaction(self.engine());
        }
    }

    /// Undoes one [`Db::disable_manual_compaction`], past or to come.
    pub fn enable_manual_compaction(&self) {
        if self.engine().owner.is_here() {
            crate::compact::enable_manual_compaction(self.engine());
        }
    }

    /// Aborts all compactions, automatic and manual, and waits until they have ended. New ones are
    /// refused with `Incomplete(CompactionAborted)`, or wait, until an equal number of calls of
    /// [`Db::resume_all_compactions`] follow. Outputs of aborted compactions are deleted. Flushes
    /// go on, so writers stop at `level0_stop_writes_trigger`. RocksDB's `AbortAllCompactions`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.abort_all_compactions();
    /// let refused = db.compact_range(None, None).unwrap_err();
    /// assert_eq!(refused.subcode(), esker::SubCode::CompactionAborted);
    /// db.resume_all_compactions();
    /// db.compact_range(None, None)?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn abort_all_compactions(&self) {
        if self.engine().owner.is_here() {
            crate::compact::abort_compactions(self.engine(), None);
        }
    }

    /// Undoes one [`Db::abort_all_compactions`]. Without one it does nothing.
    pub fn resume_all_compactions(&self) {
        if self.engine().owner.is_here() {
            crate::compact::resume_compactions(self.engine(), None);
        }
    }

    /// [`Db::abort_all_compactions`] for one family. Both kinds of calls are counted on their own:
    /// the family's compactions go on when neither kind is in force. RocksDB's `AbortCompactions`.
    /// # Errors
    /// `InvalidArgument`: the family is one of another database · `ColumnFamilyDropped`.
    pub fn abort_compactions(&self, family: &ColumnFamilyHandle) -> Result<()> {
        self.engine().check_process()?;
        family.check_live(self)?;
        crate::compact::abort_compactions(self.engine(), Some(&family.cf));
        Ok(())
    }

    /// Undoes one [`Db::abort_compactions`] of this family. Without one it does nothing.
    /// # Errors
    /// `InvalidArgument`: the family is one of another database · `ColumnFamilyDropped`.
    pub fn resume_compactions(&self, family: &ColumnFamilyHandle) -> Result<()> {
        self.engine().check_process()?;
        family.check_live(self)?;
        crate::compact::resume_compactions(self.engine(), Some(&family.cf));
        Ok(())
    }

    /// Stops new flushes, compactions and other background work on tables, and waits for running
    /// jobs. Calls nest.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.pause_background_work();
    /// // Nothing is flushed or compacted here.
    /// db.continue_background_work()?;
    /// db.wait_for_background_work()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn pause_background_work(&self) {
        let engine = self.engine();
        if !engine.owner.is_here() {
            return;
        }
        let mut state = engine.state.lock();
        state.paused += 1;
        engine.state_changed.notify_all();
        while state.flushes_scheduled + state.compactions_scheduled > 0 || state.pre_scans.pre_scan_scheduled
        {
            engine.wait_for_change(&mut state);
        }
    }

    /// Undoes one [`Db::pause_background_work`].
    /// # Errors
    /// `InvalidArgument` if nothing is paused.
    pub fn continue_background_work(&self) -> Result<()> {
        let engine = self.engine();
        engine.check_process()?;
        let mut state = engine.state.lock();
        state.paused = state
            .paused
            .checked_sub(1)
            .ok_or_else(|| Error::invalid_argument("continue_background_work: nothing is paused"))?;
        maybe_schedule(engine, &mut state);
        Ok(())
    }

    /// Waits until no flush or compaction runs or is due, and no pre-scan of a deleted run is
    /// queued.
    /// # Errors
    /// The background error in force · `ShutdownInProgress`.
    pub fn wait_for_background_work(&self) -> Result<()> {
        let engine = self.engine();
        engine.check_process()?;
        let mut state = engine.state.lock();
        loop {
            engine.check_open()?;
            if engine.read_only {
                // Only handles that may write run due compactions.
                return Ok(());
            }
            if let Some(error) = state.background_error.current() {
                return Err(error.clone());
            }
            if !has_work(engine, &state, true) {
                return Ok(());
            }
            maybe_schedule(engine, &mut state);
            engine.wait_for_change(&mut state);
        }
    }

    /// Waits until no flush or compaction runs or is due, as `options` say. RocksDB's
    /// `WaitForCompact`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::options::WaitForCompactOptions;
    /// use std::time::Duration;
    ///
    /// db.put("esker", "gravel")?;
    /// let options = WaitForCompactOptions::default().flush(true).timeout(Duration::from_secs(9));
    /// db.wait_for_compact(&options.wait_for_purge(true))?;
    /// db.wait_for_compact(&options.close_db(true))?;
    /// assert!(db.get("esker").is_err());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `TimedOut`: work is left · `Aborted`: background work is paused, with `abort_on_pause` · the
    /// error of the flush or of the close · the background error in force · `ShutdownInProgress`.
    pub fn wait_for_compact(&self, options: &WaitForCompactOptions) -> Result<()> {
        let engine = self.engine();
        engine.check_process()?;
        if options.flush && !engine.read_only {
            engine.check_open()?;
            self.inner.write_path.flush_all(FlushReason::ManualFlush)?;
        }
        let timeout = u64::try_from(options.timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline = engine.env.clock.monotonic_nanos().saturating_add(timeout);
        let mut state = engine.state.lock();
        loop {
            engine.check_open()?;
            if state.is_paused() && options.abort_on_pause {
                return Err(Error::aborted("wait_for_compact: background work is paused"));
            }
            if let Some(error) = state.background_error.current() {
                return Err(error.clone());
            }
            if engine.read_only || !has_work(engine, &state, options.wait_for_purge) {
                break;
            }
            maybe_schedule(engine, &mut state);
            if timeout == 0 {
                engine.wait_for_change(&mut state);
            } else if engine.wait_for_change_until(&mut state, deadline) {
                return Err(Error::timed_out("wait_for_compact: background work is left"));
            }
        }
        drop(state);
        if options.close_db { self.close() } else { Ok(()) }
    }

    /// Keeps obsolete files until an equal number of calls of [`Db::enable_file_deletions`] follow,
    /// so that a program can copy the directory. Waits for running deletions.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.disable_file_deletions();
    /// let files = db.live_files();
    /// // Copy them: none is deleted here.
    /// db.enable_file_deletions()?;
    /// # assert!(files.is_empty());
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn disable_file_deletions(&self) {
        if self.engine().owner.is_here() {
            disable_file_deletions(self.engine());
        }
    }

    /// Undoes one [`Db::disable_file_deletions`]. The last call deletes the obsolete files before
    /// it returns, except those that an iterator, a list of files, a job or an unfinished read
    /// holds. A job that ends has the files that it held deleted.
    /// # Errors
    /// `InvalidArgument` if deletions are not disabled.
    pub fn enable_file_deletions(&self) -> Result<()> {
        self.engine().check_process()?;
        if !enable_file_deletions(self.engine()) {
            return Err(Error::invalid_argument("enable_file_deletions: deletions are not disabled"));
        }
        Ok(())
    }
}

/// Whether a job runs or is due, deletions of files included with `purges`.
fn has_work(engine: &Engine, state: &DbState, purges: bool) -> bool {
    let is_due = !state.flush_queue.is_empty()
        || state.has_due_compaction()
        || state.has_held_back()
        || !state.pre_scans.is_empty()
        || state.manual_compactions.iter().any(|manual| manual.plan.is_some())
        || state.background_error.resuming;
    let runs = state.flushes_scheduled + state.compactions_scheduled > 0
        || state.pre_scans.pre_scan_scheduled
        || purges && engine.jobs_scheduled(state) > 0;
    is_due || runs
}
