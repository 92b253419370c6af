//! The statistics as text, for properties and for the periodic dump into LOG.
//!
//! In: the engine's counts. Out: the text of `rocksdb.stats` and its parts; every
//! `stats_dump_period_sec` seconds the same text in LOG. An interval begins at the last periodic
//! dump.
//! Source: RocksDB `DBImpl::DumpStats`.

use crate::cf::{ColumnFamily, FamilyState};
use crate::engine::Engine;
use crate::observe::{CacheEntryStats, CfStats, LevelStats, SecondaryStats};
use crate::options::ColumnFamilyOptions;
use crate::picker::score::scores;
use esker_base::ColumnFamilyId;
use esker_base::sync::Arc;

/// Starts, changes or stops the periodic dump, as the options in force say.
pub(super) fn schedule_stats_dump(engine: &Arc<Engine>) {
    let period = || {
        let seconds = u64::from(engine.db_options().stats_dump_period_sec);
        Some(seconds).filter(|seconds| *seconds > 0 && !engine.is_shutting_down())
    };
    engine.stats_dump.reschedule(period, |period| {
        let weak = Arc::downgrade(engine);
        engine.env.timer.repeat(period, move || {
            if let Some(engine) = weak.upgrade() {
                dump_stats(&engine);
            }
        })
    });
}

/// The text of `rocksdb.dbstats`.
pub(super) fn db_stats(engine: &Engine) -> String {
    let since = engine.last_stats_dump.lock().db;
    engine.counters.db_stats(engine.env.clock.as_ref()).to_text(&since)
}

/// The text of `rocksdb.cfstats` of a family; `None` if the family was dropped.
pub(super) fn family_stats(engine: &Engine, family: ColumnFamilyId) -> Option<String> {
    let (now, options) = {
        let state = engine.state.lock();
        let f = state.families.get(&family)?;
        (cf_stats(engine, f), f.options.clone())
    };
    let cache = cache_entry_stats(&options);
    let last = engine.last_stats_dump.lock();
    let of_cache = cache.map_or_else(String::new, |cache| cache.to_text());
    Some(now.to_text(last.families.get(&family)) + &of_cache)
}

/// The text of `rocksdb.cf-file-histogram`: times of reads by level. Source: RocksDB
/// `InternalStats::DumpCFFileHistogram`.
pub(super) fn file_histogram(cf: &ColumnFamily) -> String {
    let mut text = format!("\n** File Read Latency Histogram By Level [{}] **\n", cf.name);
    let Some(latencies) = cf.tables.latencies() else { return text };
    let levels = latencies.levels().enumerate().map(|(level, of)| (format!("Level {level}"), of));
    for (what, histogram) in levels.chain([("Blob file".to_owned(), latencies.blobs())]) {
        let histogram = histogram.snapshot();
        if histogram.count() > 0 {
            text.push_str(&format!("** {what} read latency histogram (micros):\n{histogram}\n"));
        }
    }
    text
}

/// Contents of a family's block cache; `None` if it has none.
pub(super) fn cache_entry_stats(options: &ColumnFamilyOptions) -> Option<CacheEntryStats> {
    let cache = options.table.block_cache.as_ref()?;
    Some(CacheEntryStats {
        id: format!("{}@{:p}#{}", cache.cache_type().name(), Arc::as_ptr(cache), std::process::id()),
        capacity: cache.capacity(),
        usage: cache.usage(),
        table_size: cache.table_address_count(),
        occupancy: cache.occupancy_count(),
        roles: cache.role_stats(),
        secondary: cache.secondary().map(|tier| SecondaryStats {
            name: tier.name(),
            capacity: tier.capacity(),
            usage: tier.usage(),
        }),
    })
}

/// Counts of one family, and the present state of its levels.
pub(super) fn cf_stats(engine: &Engine, f: &FamilyState) -> CfStats {
    let mut stats = CfStats::new(f.cf.name.clone(), f.version.num_levels());
    let urgency = scores(&f.version, &f.compaction_options, &f.running).by_urgency;
    stats.levels = (0..f.version.num_levels())
        .map(|level| LevelStats {
            num_files: f.version.num_files(level),
            being_compacted: f.running.inputs_of_level(level).count(),
            bytes: f.version.size(level),
            score: urgency.iter().find(|(_, l)| *l == level).map_or(0.0, |(score, _)| *score),
        })
        .collect();
    stats.compactions = f.compaction_stats.clone();
    stats.bytes_flushed = f.bytes_flushed;
    stats.ingested = f.ingested;
    stats.blobs = f.version.blob_file_stats();
    stats.stalls = f.stall_counts;
    stats.estimated_pending_compaction_bytes = f.pending_compaction_bytes;
    stats.seconds_up = engine.counters.seconds_up(engine.env.clock.as_ref());
    stats
}

fn dump_stats(engine: &Engine) {
    let db = engine.counters.db_stats(engine.env.clock.as_ref());
    let families: Vec<_> = {
        let state = engine.state.lock();
        let one = |(id, f): (&ColumnFamilyId, &FamilyState)| {
            (*id, cf_stats(engine, f), (f.options.clone(), f.cf.clone()))
        };
        state.families.iter().map(one).collect()
    };
    let mut last = engine.last_stats_dump.lock();
    let mut text = db.to_text(&last.db);
    for (id, now, (options, _)) in &families {
        text.push_str(&now.to_text(last.families.get(id)));
        text.extend(cache_entry_stats(options).as_ref().map(CacheEntryStats::to_text));
    }
    families.iter().for_each(|(_, _, (_, cf))| text.push_str(&file_histogram(cf)));
    last.db = db;
    last.families = families.into_iter().map(|(id, now, _)| (id, now)).collect();
    drop(last);
    esker_base::info_log!(engine.info_log, Warn, "------- DUMPING STATS -------");
    esker_base::info_log!(engine.info_log, Warn, "{text}");
    if let Some(statistics) = &engine.options.statistics {
        esker_base::info_log!(engine.info_log, Warn, "STATISTICS:\n{statistics}");
    }
}
