//! Counters of the whole database since its opening, for the statistics dump.
//!
//! In: the write leader's numbers. Out: [`DbStats`]. Only the write leader counts writes, so plain
//! loads and stores suffice. RocksDB keeps the same counters in `db/internal_stats.h`, with or
//! without `Statistics`.

use crate::observe::{CfStats, DbStats};
use esker_base::ColumnFamilyId;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_env::Clock;
use std::collections::BTreeMap;

/// The last periodic dump of statistics.
#[derive(Debug, Default)]
pub(crate) struct StatsDump {
    pub(crate) db: DbStats,
    pub(crate) families: BTreeMap<ColumnFamilyId, CfStats>,
}

/// The counts of one committed group of writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommittedGroup {
    /// Writers other than the leader.
    pub(crate) followers: u64,
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
    pub(crate) to_wal: bool,
    pub(crate) synced: bool,
}

/// Sums over all groups of writes.
#[derive(Debug)]
pub(crate) struct EngineCounters {
    /// The open, or the last reset.
    begun_at_nanos: AtomicU64,
    groups: AtomicU64,
    followers: AtomicU64,
    keys: AtomicU64,
    bytes: AtomicU64,
    writes_with_wal: AtomicU64,
    wal_bytes: AtomicU64,
    wal_syncs: AtomicU64,
    /// Microseconds that writers have waited because of stalls. Any writer adds to it.
    stall_micros: AtomicU64,
}

impl EngineCounters {
    pub(crate) fn new(clock: &dyn Clock) -> EngineCounters {
        EngineCounters {
            begun_at_nanos: AtomicU64::new(clock.monotonic_nanos()),
            groups: AtomicU64::new(0),
            followers: AtomicU64::new(0),
            keys: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            writes_with_wal: AtomicU64::new(0),
            wal_bytes: AtomicU64::new(0),
            wal_syncs: AtomicU64::new(0),
            stall_micros: AtomicU64::new(0),
        }
    }

    /// Begins again. REQUIRES: the caller is the write leader.
    pub(crate) fn reset(&self, clock: &dyn Clock) {
        self.begun_at_nanos.store(clock.monotonic_nanos(), Ordering::Relaxed);
        let counters = [&self.groups, &self.followers, &self.keys, &self.bytes, &self.writes_with_wal];
        let of_wal = [&self.wal_bytes, &self.wal_syncs, &self.stall_micros];
        counters.into_iter().chain(of_wal).for_each(|counter| counter.store(0, Ordering::Relaxed));
    }

    /// Adds a group. Only the write leader calls it.
    #[inline]
    pub(crate) fn count_group(&self, group: CommittedGroup) {
        let add =
            |counter: &AtomicU64, n| counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        add(&self.groups, 1);
        add(&self.followers, group.followers);
        add(&self.keys, group.keys);
        add(&self.bytes, group.bytes);
        if group.to_wal {
            add(&self.writes_with_wal, 1 + group.followers);
            add(&self.wal_bytes, group.bytes);
            add(&self.wal_syncs, u64::from(group.synced));
        }
    }

    pub(crate) fn count_stall(&self, micros: u64) {
        self.stall_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn seconds_up(&self, clock: &dyn Clock) -> f64 {
        let begun = self.begun_at_nanos.load(Ordering::Relaxed);
        clock.monotonic_nanos().saturating_sub(begun) as f64 / 1e9
    }

    pub(crate) fn db_stats(&self, clock: &dyn Clock) -> DbStats {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DbStats {
            wal_bytes_written: now(&self.wal_bytes),
            wal_syncs: now(&self.wal_syncs),
            user_bytes_written: now(&self.bytes),
            user_keys_written: now(&self.keys),
            user_writes_by_other: now(&self.followers),
            user_writes_by_self: now(&self.groups),
            user_writes_with_wal: now(&self.writes_with_wal),
            user_write_stall_micros: now(&self.stall_micros),
            write_buffer_manager_limit_stops: 0,
            seconds_up: self.seconds_up(clock),
        }
    }
}
