//! Checks before a write group: errors, full memtables, the size of WALs, stalls.
//!
//! In: the leader's request. Out: permission to write, or the error of that request. While the
//! leader waits, it lends leadership to urgent writers.

use super::WritePath;
use super::queue::{Leader, WriteRequest, write_stall};
use crate::cf::{FamilyState, MemTableLimits};
use crate::engine::{DbState, Engine};
use crate::observe::{FlushReason, WriteStallCondition};
use crate::options::WaitsForMemory;
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, perf_time};
use std::time::Duration;

/// A delayed writer sleeps at most this long before it checks again whether writes are delayed.
const DELAY_STEP_MICROS: u64 = 1000;

impl WritePath {
    pub(super) fn make_room(&self, leader: &Leader<'_>, own: &WriteRequest) -> Result<()> {
        let engine = &self.engine;
        engine.check_open()?;
        if engine.writes_stopped.load(Ordering::Acquire) {
            engine.start_refused_threads();
            engine.state.lock().background_error.check_writes()?;
        }
        if own.exclusive || own.urgent {
            return Ok(());
        }
        if let Some(manager) = &engine.options.write_buffer_manager
            && manager.history_is_too_large()
        {
            manager.release_history();
        }
        let clock = &engine.env.clock;
        let switch = || self.switch_where_due(leader);
        perf_time!(write_scheduling_flushes_compactions_time, clock, switch())?;
        if let Some(manager) = &engine.options.write_buffer_manager
            && manager.should_stall()
        {
            self.flush_waiting_memtables();
            manager.add_waiter(Arc::<Engine>::downgrade(&self.engine));
            self.wait_for_memory(leader, own)?;
        }
        match engine.stall.condition() {
            WriteStallCondition::Normal => Ok(()),
            WriteStallCondition::Delayed => {
                perf_time!(write_delay_time, clock, self.delay(leader, own))?;
                // The leader may have lent its lead to `Db::lock_wal`.
                if engine.stall.is_locked() {
                    perf_time!(write_delay_time, clock, self.wait_until_not_stopped(leader))?;
                }
                Ok(())
            }
            WriteStallCondition::Stopped if own.no_slowdown => Err(write_stall()),
            WriteStallCondition::Stopped => {
                perf_time!(write_delay_time, clock, self.wait_until_not_stopped(leader))
            }
        }
    }

    /// Whether [`WritePath::make_room`] would return `Ok` at once for any request.
    pub(super) fn has_room(&self) -> bool {
        let engine = &self.engine;
        !engine.is_shutting_down()
            && !engine.writes_stopped.load(Ordering::Acquire)
            && !self.wals_are_long()
            && !engine.switch_wanted.load(Ordering::Relaxed)
            && engine
                .options
                .write_buffer_manager
                .as_ref()
                .is_none_or(|m| !m.history_is_too_large() && !m.should_flush() && !m.should_stall())
            && engine.stall.condition() == WriteStallCondition::Normal
    }

    /// Whether the WALs have more bytes than their limit, and the next check for families to flush
    /// is due.
    fn wals_are_long(&self) -> bool {
        let engine = &self.engine;
        let bytes = engine.wal_bytes.load(Ordering::Relaxed);
        bytes > engine.wal_bytes_limit.load(Ordering::Relaxed)
            && bytes >= engine.wal_bytes_of_next_check.load(Ordering::Relaxed)
    }

    /// Checks again with a new limit: the limit depends on the size of memtables, which have grown.
    fn wals_stay_long(&self) -> bool {
        self.engine.update_wal_bytes_limit(&self.engine.state.lock());
        self.wals_are_long()
    }

    fn switch_where_due(&self, leader: &Leader<'_>) -> Result<()> {
        let engine = &self.engine;
        if self.wals_are_long() && self.wals_stay_long() {
            let holding_back = families_holding_back(engine, newest_wal_to_release(engine));
            if !holding_back.is_empty() {
                self.switch_memtables(leader, &holding_back, FlushReason::WalFull)?;
                // Some of these families have immutable memtables only, which wait for
                // `min_write_buffer_number_to_merge`.
                self.queue_sealed(&holding_back, FlushReason::WalFull, false);
            }
            engine.record_wal_check();
        }
        if engine.switch_wanted.load(Ordering::Relaxed) && engine.switch_wanted.swap(false, Ordering::Relaxed)
        {
            let (full, range_deletions) = full_families(engine);
            let switched =
                self.switch_memtables(leader, &full, FlushReason::WriteBufferFull).and_then(|()| {
                    let reason = FlushReason::MemtableMaxRangeDeletions;
                    self.switch_memtables(leader, &range_deletions, reason)
                });
            if let Err(e) = switched {
                engine.switch_wanted.store(true, Ordering::Relaxed);
                return Err(e);
            }
        }
        if let Some(manager) = &engine.options.write_buffer_manager
            && manager.should_flush()
        {
            let family = self.family_to_flush(manager.flush_policy());
            self.switch_memtables(leader, &family, FlushReason::WriteBufferManager)?;
        }
        Ok(())
    }

    /// Sleeps for this write's share of `delayed_write_rate`, or until the delay is lifted.
    fn delay(&self, leader: &Leader<'_>, own: &WriteRequest) -> Result<()> {
        let engine = &self.engine;
        let bytes = own.batch.data_size() as u64;
        let start = monotonic_micros(engine);
        if own.no_slowdown {
            let is_free = engine.stall.take_without_delay(bytes, start);
            return if is_free { Ok(()) } else { Err(write_stall()) };
        }
        let delay = engine.stall.delay_micros(bytes, start);
        esker_base::probe!("write:delayed");
        if delay == 0 {
            return Ok(());
        }
        leader.begin_stall();
        let end = start + delay;
        while engine.stall.condition() == WriteStallCondition::Delayed && !engine.is_shutting_down() {
            let now = monotonic_micros(engine);
            if now >= end {
                break;
            }
            if leader.is_wanted() {
                leader.lend();
                continue;
            }
            // A starved pool may have no thread for the job that would lift the delay.
            match engine.scheduler.is_starved().then(|| engine.scheduler.take_starved()).flatten() {
                Some(job) => job(),
                None => engine.env.clock.sleep(Duration::from_micros((end - now).min(DELAY_STEP_MICROS))),
            }
        }
        leader.end_stall();
        engine.record_stall_micros(monotonic_micros(engine).saturating_sub(start));
        Ok(())
    }

    /// While writes are delayed, charges `bytes` of followers to the delay. Followers do not wait
    /// themselves, so later writers wait longer.
    pub(super) fn charge_followers(&self, bytes: u64) {
        let engine = &self.engine;
        if engine.stall.condition() == WriteStallCondition::Delayed {
            engine.stall.charge(bytes, monotonic_micros(engine));
        }
    }

    /// Flushes memtables that wait for `min_write_buffer_number_to_merge`. Writers that wait for
    /// memory would fill no further memtable.
    fn flush_waiting_memtables(&self) {
        let waiting: Vec<_> = {
            let state = self.engine.state.lock();
            let waits = |f: &&FamilyState| f.memtables.not_flushing() > 0 && !f.flush_queued && !f.flushing;
            state.families.values().filter(waits).map(|f| f.cf.id).collect()
        };
        if !waiting.is_empty() {
            self.queue_sealed(&waiting, FlushReason::WriteBufferManager, false);
        }
    }

    /// Waits while the write buffer manager stops writers and a flush of this database is going to
    /// free memory.
    fn wait_for_memory(&self, leader: &Leader<'_>, own: &WriteRequest) -> Result<()> {
        let is_over = |state: &DbState| is_over_memory(&self.engine, state);
        if own.no_slowdown {
            let is_over = is_over(&self.engine.state.lock());
            return if is_over { Err(write_stall()) } else { Ok(()) };
        }
        self.wait_while(leader, is_over)
    }

    fn wait_until_not_stopped(&self, leader: &Leader<'_>) -> Result<()> {
        self.wait_while(leader, |_| self.engine.stall.condition() == WriteStallCondition::Stopped)
    }

    /// Waits as the leader until no `Db::lock_wal` is in force.
    pub(super) fn wait_until_unlocked(&self, leader: &Leader<'_>) -> Result<()> {
        if !self.engine.stall.is_locked() {
            return Ok(());
        }
        self.wait_while(leader, |_| self.engine.stall.is_locked())
    }

    /// Waits as the leader while `is_stopped` holds. Each change of the state runs the check again.
    fn wait_while(&self, leader: &Leader<'_>, is_stopped: impl Fn(&DbState) -> bool) -> Result<()> {
        let engine = &self.engine;
        let start = engine.env.clock.monotonic_micros();
        leader.begin_stall();
        engine.start_refused_threads();
        let mut state = engine.state.lock();
        let result = loop {
            if let Err(e) = engine.check_open().and_then(|()| state.background_error.check_writes()) {
                break Err(e);
            }
            if !is_stopped(&state) {
                break Ok(());
            }
            if leader.is_wanted() {
                drop(state);
                leader.lend();
                state = engine.state.lock();
                continue;
            }
            if let Some(error) = permanent_stall_error(engine, &state) {
                break Err(error);
            }
            engine.wait_for_change(&mut state);
        };
        drop(state);
        leader.end_stall();
        engine.record_stall_micros(engine.env.clock.monotonic_micros().saturating_sub(start));
        result
    }
}

impl WaitsForMemory for Engine {
    fn check_again(&self) {
        // In a forked child the locks belong to the parent.
        if !self.owner.is_here() {
            return;
        }
        // A waiter holds this lock from its check until it sleeps, so it cannot miss the
        // notification.
        drop(self.state.lock());
        self.state_changed.notify_all();
    }
}

/// The monotonic clock for delays.
fn monotonic_micros(engine: &Engine) -> u64 {
    engine.env.clock.monotonic_nanos() / 1000
}

/// The reason why a stopped writer would wait forever: the background error in force, or the damage
/// of a quarantined table. `None` if a job can make room.
fn permanent_stall_error(engine: &Engine, state: &DbState) -> Option<Error> {
    if engine.jobs_scheduled(state) > 0
        || !state.flush_queue.is_empty()
        || state.is_paused()
        || engine.stall.is_locked()
    {
        return None;
    }
    if state.background_error.stops_compactions() {
        // This error blocks no writes. A planned recovery lifts it, and then writers continue.
        if state.background_error.is_recovery_planned() {
            return None;
        }
        return state.background_error.current().cloned();
    }
    if state.has_due_compaction() || state.exclusive_manual {
        return None;
    }
    let stopped = state.families.values().filter(|f| f.stall.condition == WriteStallCondition::Stopped);
    stopped.flat_map(|f| f.running.all_quarantined()).next().map(|(_, why)| why.clone())
}

/// Families whose active memtable has reached `write_buffer_size`, and others where it has reached
/// `memtable_max_range_deletions`.
fn full_families(engine: &Engine) -> (Vec<ColumnFamilyId>, Vec<ColumnFamilyId>) {
    let state = engine.state.lock();
    let (mut full, mut range_deletions) = (Vec::new(), Vec::new());
    for family in state.families.values() {
        let (mem, limits) = (&family.memtables.active, MemTableLimits::of(&family.options));
        if limits.has_too_many_bytes(mem) {
            full.push(family.cf.id);
        } else if limits.has_too_many_range_deletions(mem) {
            range_deletions.push(family.cf.id);
        }
    }
    (full, range_deletions)
}

/// The newest of the WALs to release when the WALs pass their limit. With `max_total_wal_size` set,
/// this is the oldest WAL. Without it, the newest WALs stay, up to half of the computed limit.
/// These WALs hold the recent writes, so families with recent writes only are not flushed. The next
/// such flush comes after writes of half the limit.
fn newest_wal_to_release(engine: &Engine) -> Option<FileNumber> {
    let wals = engine.wals.lock();
    let oldest = wals.oldest_alive();
    if engine.db_options().max_total_wal_size > 0 {
        return oldest;
    }
    let (mut kept, most) = (0, engine.wal_bytes_limit.load(Ordering::Relaxed) / 2);
    let older_than_kept = wals.alive().rev().find(|(_, bytes)| {
        kept += bytes;
        kept > most
    });
    // The current WAL cannot be released.
    let newest = older_than_kept.map(|(number, _)| number).filter(|number| *number < wals.current_number());
    newest.max(oldest)
}

/// Families whose unflushed memtables need a WAL up to `newest`. A family whose flush is queued or
/// running is left out.
fn families_holding_back(engine: &Engine, newest: Option<FileNumber>) -> Vec<ColumnFamilyId> {
    let Some(newest) = newest else { return Vec::new() };
    let state = engine.state.lock();
    esker_base::probe!("write:wal_check", &mut state.families.walked());
    let holding = state.families.values().filter(|f| {
        let (needed, section) = (f.memtables.oldest_log_needed(), f.memtables.oldest_section(0));
        section.unwrap_or(needed).min(needed) <= newest
            && !f.flush_queued
            && !f.flushing
            && (!f.memtables.immutables.is_empty() || !f.memtables.active.is_empty())
    });
    holding.map(|f| f.cf.id).collect()
}

/// Whether the write buffer manager stops writers, and a flush of this database will free memory.
fn is_over_memory(engine: &Engine, state: &DbState) -> bool {
    let manager = engine.options.write_buffer_manager.as_ref();
    manager.is_some_and(|manager| manager.should_stall())
        && state.families.values().any(|f| !f.memtables.immutables.is_empty())
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
