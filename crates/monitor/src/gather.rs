//! A database's properties, statistics and options, as a snapshot.
//!
//! In: an open database and the events of its monitor. Out: [`StatisticsSnapshot`]. Source of the
//! names: RocksDB `DB::Properties`, `internal_stats.cc`.
//!
//! Properties are read one after the other while the database works: numbers of one snapshot may
//! be some milliseconds apart.

use crate::monitor::Monitor;
use crate::snapshot::{
    BackgroundJobKind, BackgroundStatistics, CacheStatistics, FamilyStatistics, HistogramSummary,
    LevelStatistics, MemtableStatistics, ProcessFacts, RunningJob, SNAPSHOT_FORMAT, SnapshotCounts,
    StallKind, StallPressure, StallStatistics, StatisticsSnapshot, WalStatistics, WriteStatistics,
};
use esker::options::{BlockCache, Statistics};
use esker::stats::{Histogram, Ticker};
use esker::thread_status::{CompactionProperty, FlushProperty, OperationType};
use esker::{ColumnFamilyHandle, ColumnFamilyOptions, Db, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of RocksDB's "GB" in statistics.
const GB: f64 = 1_073_741_824.0;

/// Whether the database is closed.
/// # Errors
/// `ShutdownInProgress` if it is · `NotSupported` in a forked child.
pub(crate) fn check_open(db: &Db) -> Result<u64> {
    // The size of a WAL that grows is known without I/O.
    match db.current_wal_file() {
        Ok(file) => Ok(file.size_file_bytes),
        Err(e) if matches!(e.kind(), ErrorKind::ShutdownInProgress | ErrorKind::NotSupported) => Err(e),
        // A read-only database has no WAL, and other failures are no reason to say nothing.
        Err(_) => Ok(0),
    }
}

pub(crate) fn snapshot(monitor: &Monitor, db: &Db) -> Result<StatisticsSnapshot> {
    let current_bytes = check_open(db)?;
    let options = db.db_options();
    let has_listener = options.listeners.iter().any(|listener| {
        let wanted = Arc::as_ptr(monitor.events()).cast::<()>();
        std::ptr::addr_eq(Arc::as_ptr(listener), wanted)
    });
    let totals = db.map_property("rocksdb.dbstats").unwrap_or_default();
    let total = |name: &str| totals.get(name).map_or(0.0, |text| text.parse().unwrap_or(0.0));
    let count = |name: &str| total(name) as u64;
    let now_micros = db.env().clock.now_micros();
    let mut made = StatisticsSnapshot {
        format: SNAPSHOT_FORMAT,
        process: process(db),
        taken_at_micros: now_micros,
        uptime_seconds: total("db.uptime"),
        stall: stall(db, &totals),
        writes: WriteStatistics {
            keys: count("db.user_keys_written"),
            bytes: count("db.user_bytes_written"),
            calls: count("db.user_writes_by_self") + count("db.user_writes_by_other"),
            groups: count("db.user_writes_by_self"),
        },
        wal: WalStatistics {
            current_bytes,
            written_bytes: count("db.wal_bytes_written"),
            syncs: count("db.wal_syncs"),
            writes: count("db.user_writes_with_wal"),
        },
        live_snapshots: live_snapshots(db, now_micros / 1_000_000),
        background: background(db),
        has_statistics: options.statistics.is_some(),
        has_listener,
        ..StatisticsSnapshot::default()
    };
    if let Some(statistics) = &options.statistics {
        add_statistics(&mut made, statistics);
    }
    add_jobs(&mut made, monitor, db);
    add_families(&mut made, monitor, db);
    Ok(made)
}

fn process(db: &Db) -> ProcessFacts {
    ProcessFacts {
        pid: std::process::id(),
        path: db.path().display().to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        resident_bytes: resident_bytes().unwrap_or(0),
    }
}

/// Bytes of this process in memory, from proc(5)'s `statm`.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn number(db: &Db, name: &str) -> u64 {
    db.int_property(&format!("rocksdb.{name}")).unwrap_or(0)
}

fn stall(db: &Db, totals: &BTreeMap<String, String>) -> StallStatistics {
    let count = |name: &str| totals.get(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let write_rate = number(db, "actual-delayed-write-rate");
    let state = match (number(db, "is-write-stopped"), write_rate) {
        (0, 0) => StallKind::Normal,
        (0, _) => StallKind::Delayed,
        _ => StallKind::Stopped,
    };
    StallStatistics {
        state,
        write_rate,
        stalled_micros: count("db.user_write_stall_micros"),
        write_buffer_manager_stops: count("write-buffer-manager-limit-stops"),
    }
}

fn live_snapshots(db: &Db, now_seconds: u64) -> SnapshotCounts {
    let oldest = number(db, "oldest-snapshot-time");
    let age = if oldest == 0 { 0 } else { now_seconds.saturating_sub(oldest) };
    SnapshotCounts { count: number(db, "num-snapshots"), oldest_age_seconds: age }
}

fn background(db: &Db) -> BackgroundStatistics {
    let error = db.background_error();
    BackgroundStatistics {
        errors: number(db, "background-errors"),
        error: error.map(|e| format!("{} ({:?})", e.kind().as_str(), e.severity())),
    }
}

fn add_statistics(made: &mut StatisticsSnapshot, statistics: &Statistics) {
    let tickers = Ticker::ALL.iter().map(|t| (t.name().to_owned(), statistics.ticker_count(*t)));
    made.tickers = tickers.collect();
    let summaries = Histogram::ALL.iter().map(|h| (h.name().to_owned(), statistics.histogram_data(*h)));
    let filled = summaries.filter(|(_, data)| data.count > 0);
    let summary = filled.map(|(name, data)| {
        let (p50, p95, p99, max) = (data.median, data.percentile95, data.percentile99, data.max);
        (name, HistogramSummary { count: data.count, sum: data.sum, p50, p95, p99, max })
    });
    made.histograms = summary.collect();
}

/// The jobs that the listener has seen, with the progress that their threads show. Jobs of
/// databases without the listener come from the threads alone.
fn add_jobs(made: &mut StatisticsSnapshot, monitor: &Monitor, db: &Db) {
    let mut jobs = monitor.events().jobs();
    let seen: Vec<u64> = jobs.iter().map(|job| job.job_id).collect();
    made.running_flushes = number(db, "num-running-flushes");
    made.running_compactions = number(db, "num-running-compactions");
    // A flush that fails has no last event; a compaction has one.
    if made.running_flushes == 0 {
        let has_ended = |job: &RunningJob| job.kind == BackgroundJobKind::Flush && seen.contains(&job.job_id);
        monitor.events().forget(has_ended);
        jobs.retain(|job| !has_ended(job));
    }
    let path = db.path().display().to_string();
    for status in db.env().get_thread_list().into_iter().filter(|status| status.db_name == path) {
        let p = &status.op_properties;
        let shown = match status.operation_type {
            OperationType::Flush => RunningJob {
                kind: BackgroundJobKind::Flush,
                job_id: p[FlushProperty::JobId as usize],
                input_bytes: p[FlushProperty::BytesMemtables as usize],
                written_bytes: p[FlushProperty::BytesWritten as usize],
                ..RunningJob::default()
            },
            OperationType::Compaction => RunningJob {
                kind: BackgroundJobKind::Compaction,
                job_id: p[CompactionProperty::JobId as usize],
                input_level: Some(p[CompactionProperty::InputOutputLevel as usize] >> 32),
                output_level: p[CompactionProperty::InputOutputLevel as usize] & u64::from(u32::MAX),
                input_bytes: p[CompactionProperty::TotalInputBytes as usize],
                read_bytes: Some(p[CompactionProperty::BytesRead as usize]),
                written_bytes: p[CompactionProperty::BytesWritten as usize],
                ..RunningJob::default()
            },
            _ => continue,
        };
        match jobs.iter_mut().find(|job| job.job_id == shown.job_id) {
            Some(job) => add_progress(job, &shown),
            None => jobs.push(RunningJob {
                family: status.cf_name,
                elapsed_micros: status.op_elapsed_micros,
                ..shown
            }),
        }
    }
    jobs.sort_by_key(|job| std::cmp::Reverse(job.elapsed_micros));
    made.jobs = jobs;
}

/// Adds what one thread shows. A compaction of several key ranges has several threads.
fn add_progress(job: &mut RunningJob, shown: &RunningJob) {
    if let Some(read) = shown.read_bytes {
        job.read_bytes = Some(job.read_bytes.unwrap_or(0) + read);
    }
    job.input_bytes = job.input_bytes.max(shown.input_bytes);
    job.written_bytes = job.written_bytes.max(shown.written_bytes);
}

fn add_families(made: &mut StatisticsSnapshot, monitor: &Monitor, db: &Db) {
    let mut caches = SeenCaches::default();
    // A family may be dropped at any time.
    let mut handles: Vec<ColumnFamilyHandle> =
        db.column_family_names().iter().filter_map(|name| db.column_family(name)).collect();
    handles.sort_by_key(ColumnFamilyHandle::id);
    made.family_count = handles.len();
    for (index, handle) in handles.iter().enumerate() {
        let options = db.options_cf(handle);
        if let Some(cache) = &options.table.block_cache {
            caches.add(cache, handle.name());
        }
        let family = family(monitor, db, handle, &options);
        if index < monitor.family_limit() {
            made.families.push(family);
        } else {
            add_family(made.other_families.get_or_insert_default(), family);
        }
    }
    made.block_caches = caches.listed(monitor.family_limit());
    // A family that was dropped during a stall has no last event, and its name may come again.
    if made.stall.state == StallKind::Normal {
        let all = made.families.iter_mut().chain(&mut made.other_families);
        all.for_each(|family| family.stall = StallKind::Normal);
    }
}

/// The caches of all families, each one once.
#[derive(Default)]
struct SeenCaches {
    all: Vec<(Arc<BlockCache>, CacheStatistics)>,
    /// Indexes by address, which no other cache has while `all` holds this one.
    places: BTreeMap<usize, usize>,
}

impl SeenCaches {
    fn add(&mut self, cache: &Arc<BlockCache>, family: &str) {
        let address = Arc::as_ptr(cache).addr();
        if let Some(place) = self.places.get(&address) {
            self.all[*place].1.families += 1;
            return;
        }
        self.places.insert(address, self.all.len());
        let numbers = CacheStatistics {
            family: family.to_owned(),
            families: 1,
            capacity: cache.capacity() as u64,
            usage: cache.usage() as u64,
            pinned: cache.pinned_usage() as u64,
        };
        self.all.push((cache.clone(), numbers));
    }

    /// The first `limit` caches, and the sum of the others without a family.
    fn listed(self, limit: usize) -> Vec<CacheStatistics> {
        let mut listed: Vec<CacheStatistics> = self.all.into_iter().map(|(_, numbers)| numbers).collect();
        let others = listed.split_off(limit.min(listed.len()));
        let sum = others.into_iter().reduce(|mut sum, cache| {
            sum.families += cache.families;
            sum.capacity += cache.capacity;
            sum.usage += cache.usage;
            sum.pinned += cache.pinned;
            sum
        });
        listed.extend(sum.map(|sum| CacheStatistics { family: String::new(), ..sum }));
        listed
    }
}

fn family(
    monitor: &Monitor,
    db: &Db,
    handle: &ColumnFamilyHandle,
    options: &ColumnFamilyOptions,
) -> FamilyStatistics {
    let number = |name: &str| db.int_property_cf(handle, &format!("rocksdb.{name}")).unwrap_or(0);
    let facts = db.map_property_cf(handle, "rocksdb.cfstats").unwrap_or_default();
    let levels = levels(&facts, usize::try_from(options.num_levels).unwrap_or(0));
    let counts = facts.iter().filter(|(name, _)| !name.starts_with("compaction."));
    let stall_counts = counts.map(|(name, text)| (name.clone(), text.parse().unwrap_or(0))).collect();
    let memtables = MemtableStatistics {
        active_bytes: number("cur-size-active-mem-table"),
        unflushed_bytes: number("cur-size-all-mem-tables"),
        all_bytes: number("size-all-mem-tables"),
        active_entries: number("num-entries-active-mem-table"),
        immutable: number("num-immutable-mem-table"),
    };
    let pending_compaction_bytes = number("estimate-pending-compaction-bytes");
    let level0 = levels.first().map_or(0, |level| level.files);
    let pressures = pressures(options, memtables.immutable, level0, pending_compaction_bytes);
    let of_limits = pressures.iter().map(StallPressure::state).max().unwrap_or_default();
    FamilyStatistics {
        name: handle.name().to_owned(),
        levels,
        memtables,
        pending_compaction_bytes,
        stall: monitor.events().stall_of(handle.name()).unwrap_or(of_limits),
        pressures,
        stall_counts,
        table_reader_bytes: number("estimate-table-readers-mem"),
        blob_files: number("num-blob-files"),
        blob_bytes: number("live-blob-file-size"),
        blob_garbage_bytes: number("live-blob-file-garbage-size"),
        quarantined_tables: number("num-quarantined-tables"),
    }
}

/// The levels from `compaction.L0.NumFiles` and so on. A level without files and work has no entry
/// there.
fn levels(facts: &BTreeMap<String, String>, count: usize) -> Vec<LevelStatistics> {
    let level = |level: usize| {
        let value = |column: &str| {
            let text = facts.get(&format!("compaction.L{level}.{column}"));
            let number = text.map_or(0.0, |text| text.parse::<f64>().unwrap_or(0.0));
            // JSON has finite numbers only.
            if number.is_finite() { number } else { 0.0 }
        };
        LevelStatistics {
            files: value("NumFiles") as u64,
            bytes: value("SizeBytes") as u64,
            score: value("Score"),
            compacting_files: value("CompactedFiles") as u64,
            read_bytes: (value("ReadGB") * GB) as u64,
            written_bytes: ((value("WriteGB") + value("WblobGB")) * GB) as u64,
        }
    };
    (0..count).map(level).collect()
}

/// The limits of RocksDB's `GetWriteStallConditionAndCause`, with the values now.
fn pressures(options: &ColumnFamilyOptions, immutable: u64, level0: u64, pending: u64) -> Vec<StallPressure> {
    let limit = |number: i32| u64::try_from(number).unwrap_or(0);
    let stop_memtables = limit(options.max_write_buffer_number).max(2);
    let to_merge = limit(options.min_write_buffer_number_to_merge).max(1);
    let delays = options.max_write_buffer_number > 3;
    let delay_memtables = if delays { (stop_memtables - 1).max(to_merge + 1) } else { 0 };
    let mut all = vec![("memtable-limit", immutable, delay_memtables, stop_memtables)];
    if !options.disable_auto_compactions {
        let (delay, stop) = (options.level0_slowdown_writes_trigger, options.level0_stop_writes_trigger);
        all.push(("l0-file-count-limit", level0, limit(delay), limit(stop)));
        let soft = options.soft_pending_compaction_bytes_limit;
        let hard = options.hard_pending_compaction_bytes_limit;
        all.push(("pending-compaction-bytes", pending, soft, hard));
    }
    let named = all.into_iter().map(|(cause, value, delay_at, stop_at)| StallPressure {
        cause: cause.to_owned(),
        value,
        delay_at,
        stop_at,
    });
    named.collect()
}

/// Adds a family to a sum of families.
fn add_family(sum: &mut FamilyStatistics, family: FamilyStatistics) {
    if sum.levels.len() < family.levels.len() {
        sum.levels.resize(family.levels.len(), LevelStatistics::default());
    }
    for (total, level) in sum.levels.iter_mut().zip(&family.levels) {
        total.files += level.files;
        total.bytes += level.bytes;
        total.score = total.score.max(level.score);
        total.compacting_files += level.compacting_files;
        total.read_bytes += level.read_bytes;
        total.written_bytes += level.written_bytes;
    }
    let (total, memtables) = (&mut sum.memtables, &family.memtables);
    total.active_bytes += memtables.active_bytes;
    total.unflushed_bytes += memtables.unflushed_bytes;
    total.all_bytes += memtables.all_bytes;
    total.active_entries += memtables.active_entries;
    total.immutable += memtables.immutable;
    for (name, count) in family.stall_counts {
        *sum.stall_counts.entry(name).or_default() += count;
    }
    sum.pending_compaction_bytes += family.pending_compaction_bytes;
    sum.stall = sum.stall.max(family.stall);
    sum.table_reader_bytes += family.table_reader_bytes;
    sum.blob_files += family.blob_files;
    sum.blob_bytes += family.blob_bytes;
    sum.blob_garbage_bytes += family.blob_garbage_bytes;
    sum.quarantined_tables += family.quarantined_tables;
}
