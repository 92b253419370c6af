//! Closing: no new work starts, running work ends promptly, no acknowledged write is lost.
//!
//! Memtables: data in a WAL stays there and is replayed at the next open. Data written without a
//! WAL is flushed first unless `avoid_flush_during_shutdown`. Source: RocksDB
//! `DBImpl::CancelAllBackgroundWork`, `CloseHelper`.

use super::auto_resume::end_auto_resume;
use super::options_file::end_options_files;
use super::{DbInner, purge};
use crate::engine::{DbState, Engine, Secondary, contained};
use crate::observe::FlushReason;
use crate::options::{DbOptions, Feature};
use esker_base::sync::atomic::Ordering;
use esker_base::sync::{Arc, epoch};
use esker_base::{Result, Severity};
use esker_env::Clock;

impl DbInner {
    /// See `Db::close`.
    /// # Errors
    /// Errors of `Db::close`.
    pub(crate) fn close(&self) -> Result<()> {
        let engine = &self.engine;
        engine.check_process()?;
        if engine.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let flushed = self.cancel_jobs();
        // Jobs see the flag and stop at the next key or file.
        engine.wait_for_jobs();
        // A recovery may lead writes and begin a WAL, so it ends first.
        end_auto_resume(engine);
        wait_for_calls(engine);
        if !engine.read_only {
            end_options_files(engine);
        }
        // As the write leader: a write that began before the flag was set finishes first.
        let lead = self.write_path.lead_alone();
        let closed = engine.wals.lock().close();
        drop(lead);
        // A write's error may have started a recovery, which finds the flag and does nothing.
        end_auto_resume(engine);
        let mut settled = Ok(());
        if !engine.read_only {
            settled = engine.manifest.lock().settle();
            purge::settle_and_purge_last(engine);
            engine.end_file_tracking();
        }
        // The next owner may replace all files, so reads that begin from here on are refused.
        engine.open_tag.store(0, Ordering::Relaxed);
        engine.end_traces();
        esker_base::info_log!(engine.info_log, Info, "Shutdown complete");
        *engine.lock.lock() = None;
        flushed.and(closed).and(settled)
    }

    /// See `Db::cancel_all_background_work`.
    /// # Errors
    /// Errors of `Db::cancel_all_background_work`.
    pub(crate) fn cancel_all_background_work(&self, wait: bool) -> Result<()> {
        self.engine.check_process()?;
        let flushed = self.cancel_jobs();
        if wait {
            self.engine.wait_for_jobs();
            end_auto_resume(&self.engine);
        }
        flushed
    }

    /// Flushes entries that no WAL holds, then prevents new jobs and cancels running ones.
    fn cancel_jobs(&self) -> Result<()> {
        let engine = &self.engine;
        if engine.is_shutting_down() {
            return Ok(());
        }
        engine.report_shutdown();
        // A close ends pauses by callers.
        engine.state.lock().paused = 0;
        let flushed = if engine.read_only { Ok(()) } else { self.flush_unlogged() };
        // Set under the lock that waiters hold while they check, so that no waiter misses it.
        let state = engine.state.lock();
        engine.shutting_down.store(true, Ordering::Release);
        state.cancel_compactions(None);
        drop(state);
        engine.state_changed.notify_all();
        if let Some(service) = &engine.options.compaction_service {
            let cancelled = contained("a compaction service", Severity::NoError, || {
                service.cancel_awaiting_jobs();
                Ok(())
            });
            if let Err(e) = cancelled {
                esker_base::info_log!(engine.info_log, Warn, "Jobs may go on: {e}");
            }
        }
        engine.secondary.iter().for_each(Secondary::end_refresh);
        engine.stats_dump.stop();
        engine.stats_persist.stop();
        engine.compaction_trigger.stop();
        engine.time_recording.stop();
        engine.purger.stop_looking();
        let scrubber = engine.scrubber.lock().take();
        drop(scrubber);
        flushed
    }

    fn flush_unlogged(&self) -> Result<()> {
        let engine = &self.engine;
        let options = engine.db_options();
        if options.avoid_flush_during_shutdown
            || !(engine.has_unlogged_data.load(Ordering::Acquire) || self.has_ambiguous_wal(&options))
        {
            return Ok(());
        }
        self.write_path.flush_all(FlushReason::ShutDown)
    }

    /// Whether the WAL has keys with timestamps but no record of their size, as the target version
    /// requires: later versions would misread the keys.
    fn has_ambiguous_wal(&self, options: &DbOptions) -> bool {
        let has_timestamps = |state: &DbState| {
            let mut families = state.families.values();
            families.any(|f| f.options.comparator.timestamp_size() > 0)
        };
        !options.compatible_with.reads(Feature::TimestampSizes) && has_timestamps(&self.engine.state.lock())
    }
}

/// Waits until long calls have seen the flag and stopped. They delete their new files while the
/// directory still belongs to this database.
fn wait_for_calls(engine: &Engine) {
    let mut state = engine.state.lock();
    while state.calls_under_way > 0 {
        engine.state_changed.wait(&mut state);
    }
}

/// Dropped after all other parts of a database. A family's drop leaves its super version, with
/// memtables, block caches and open tables, to a deferred free. Without this value they would stay
/// until other code in the process advances the epoch.
pub(crate) struct ReleaseAll(pub(crate) Arc<dyn Clock>);

impl Drop for ReleaseAll {
    fn drop(&mut self) {
        if epoch::is_pinned() {
            return epoch::collect();
        }
        // Thousands of super versions may be queued, each with descriptors that the next database
        // needs.
        purge::settle_for_long(self.0.as_ref());
    }
}

impl Drop for DbInner {
    fn drop(&mut self) {
        if !self.engine.owner.is_here() {
            // A forked child has neither the threads nor the locks of these parts, and the files
            // belong to the parent.
            std::mem::forget((self.engine.clone(), self.write_path.clone()));
            return;
        }
        if let Err(e) = self.close() {
            esker_base::info_log!(self.engine.info_log, Error, "Close failed: {e}");
        }
        // Two holders: this one and the write path.
        purge::wait_for_other_holders(&self.engine, 2);
        self.engine.manifest.lock().obsolete.lose_database();
    }
}
