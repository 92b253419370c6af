//! The values of a snapshot as named metrics, for Prometheus and for the facade `metrics`.
//!
//! In: a snapshot. Out: metrics with their kind, help, labels and values. Names follow Prometheus'
//! conventions: the prefix `esker_`, base units (seconds, bytes) at the end, `_total` for counters.
//! A ticker `rocksdb.block.cache.hit` is `esker_block_cache_hit_total`; a histogram
//! `rocksdb.db.get.micros` is the summary `esker_db_get_seconds`.
//!
//! Invariant: the number of series is bounded by the snapshot's `max_families`. The families beyond
//! have the label `other`, which no family has.

use crate::snapshot::{FamilyStatistics, HistogramSummary, StatisticsSnapshot};

/// The behaviour of a metric's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Quantiles, a sum and a count.
    Summary,
}

impl MetricKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Summary => "summary",
        }
    }
}

/// A value, exact if it is a count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum MetricValue {
    Count(u64),
    Real(f64),
}

/// Names and values of labels.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// One series of a metric.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Series {
    /// `_sum` or `_count` of a summary, else empty.
    pub(crate) suffix: &'static str,
    pub(crate) labels: Labels,
    pub(crate) value: MetricValue,
}

/// A metric with all of its series.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(crate) kind: MetricKind,
    pub(crate) help: String,
    pub(crate) series: Vec<Series>,
}

/// The metrics of a snapshot, each name once.
pub(crate) fn metrics_of(snapshot: &StatisticsSnapshot) -> Vec<Metric> {
    let mut made = Vec::new();
    database(&mut made, snapshot);
    let families = labelled(snapshot);
    levels(&mut made, &families);
    of_families(&mut made, &families);
    stall_counts(&mut made, &families);
    caches(&mut made, snapshot);
    for (name, count) in &snapshot.tickers {
        made.push(ticker(name, *count));
    }
    for (name, summary) in &snapshot.histograms {
        made.push(histogram(name, summary));
    }
    made
}

fn one(name: &str, kind: MetricKind, help: &str, value: MetricValue) -> Metric {
    let series = vec![Series { suffix: "", labels: Vec::new(), value }];
    Metric { name: name.to_owned(), kind, help: help.to_owned(), series }
}

fn database(made: &mut Vec<Metric>, snapshot: &StatisticsSnapshot) {
    use MetricKind::{Counter, Gauge};
    use MetricValue::{Count, Real};
    let (process, stall) = (&snapshot.process, &snapshot.stall);
    let (writes, wal) = (&snapshot.writes, &snapshot.wal);
    let mut info = one("esker_info", Gauge, "1; the labels say which database it is.", Count(1));
    info.series[0].labels = vec![("path", process.path.clone()), ("version", process.version.clone())];
    made.push(info);
    let error = Count(u64::from(snapshot.background.error.is_some()));
    let oldest = snapshot.live_snapshots.oldest_age_seconds;
    let rate = Count(stall.write_rate);
    let stalled = Real(stall.stalled_micros as f64 / 1e6);
    for (name, kind, help, value) in [
        ("uptime_seconds", Gauge, "Seconds since the open.", Real(snapshot.uptime_seconds)),
        ("process_resident_memory_bytes", Gauge, "Memory of the process.", Count(process.resident_bytes)),
        ("families", Gauge, "Column families.", Count(snapshot.family_count as u64)),
        ("stall_state", Gauge, "Writers: 0 normal, 1 delayed, 2 stopped.", Count(stall.state as u64)),
        ("delayed_write_rate_bytes", Gauge, "Bytes per second of delayed writers; 0: no delay.", rate),
        ("write_stall_seconds_total", Counter, "Time that writers have waited.", stalled),
        (
            "write_buffer_manager_stops_total",
            Counter,
            "Stops because all memtables together were too large.",
            Count(stall.write_buffer_manager_stops),
        ),
        ("user_written_keys_total", Counter, "Keys that users wrote.", Count(writes.keys)),
        ("user_written_bytes_total", Counter, "Bytes that users wrote.", Count(writes.bytes)),
        ("write_calls_total", Counter, "Write calls.", Count(writes.calls)),
        ("write_groups_total", Counter, "Groups of writes.", Count(writes.groups)),
        ("wal_current_bytes", Gauge, "Bytes of the WAL that is being written.", Count(wal.current_bytes)),
        ("wal_appended_bytes_total", Counter, "Bytes written to WALs.", Count(wal.written_bytes)),
        ("wal_syncs_total", Counter, "Syncs of WALs.", Count(wal.syncs)),
        ("wal_writes_total", Counter, "Writes that went to a WAL.", Count(wal.writes)),
        ("live_snapshots", Gauge, "Live snapshots.", Count(snapshot.live_snapshots.count)),
        ("oldest_snapshot_age_seconds", Gauge, "Age of the oldest live snapshot.", Count(oldest)),
        ("background_errors_total", Counter, "Failed jobs.", Count(snapshot.background.errors)),
        ("background_error", Gauge, "1 while a background error is in force.", error),
    ] {
        made.push(one(&format!("esker_{name}"), kind, help, value));
    }
    let running = [("flush", snapshot.running_flushes), ("compaction", snapshot.running_compactions)];
    let series = running.into_iter().map(|(kind, count)| Series {
        suffix: "",
        labels: vec![("kind", kind.to_owned())],
        value: Count(count),
    });
    let (name, help) = ("esker_running_jobs".to_owned(), "Flushes and compactions that run.".to_owned());
    made.push(Metric { name, kind: Gauge, help, series: series.collect() });
}

/// The families with the value of their label.
fn labelled(snapshot: &StatisticsSnapshot) -> Vec<(String, &FamilyStatistics)> {
    let mut all: Vec<_> = snapshot.families.iter().map(|family| (family.name.clone(), family)).collect();
    if let Some(others) = &snapshot.other_families {
        let mut label = "other".to_owned();
        while all.iter().any(|(name, _)| *name == label) {
            label.push('_');
        }
        all.push((label, others));
    }
    all
}

type Labelled<'a> = [(String, &'a FamilyStatistics)];

fn levels(made: &mut Vec<Metric>, families: &Labelled<'_>) {
    use MetricKind::{Counter, Gauge};
    use MetricValue::{Count, Real};
    type OfLevel = fn(&crate::LevelStatistics) -> MetricValue;
    let all: [(&str, MetricKind, &str, OfLevel); 6] = [
        ("level_files", Gauge, "Tables.", |l| Count(l.files)),
        ("level_bytes", Gauge, "Bytes of tables.", |l| Count(l.bytes)),
        ("level_score", Gauge, "Compaction score; from 1 on the level is due.", |l| Real(l.score)),
        ("level_compacting_files", Gauge, "Tables that compactions read.", |l| Count(l.compacting_files)),
        ("level_compaction_read_bytes_total", Counter, "Bytes read by compactions into the level.", |l| {
            Count(l.read_bytes)
        }),
        ("level_written_bytes_total", Counter, "Bytes written by flushes and compactions.", |l| {
            Count(l.written_bytes)
        }),
    ];
    for (name, kind, help, value) in all {
        let mut series = Vec::new();
        for (label, family) in families {
            for (level, statistics) in family.levels.iter().enumerate() {
                let labels = vec![("family", label.clone()), ("level", level.to_string())];
                series.push(Series { suffix: "", labels, value: value(statistics) });
            }
        }
        made.push(Metric { name: format!("esker_{name}"), kind, help: help.to_owned(), series });
    }
}

fn of_families(made: &mut Vec<Metric>, families: &Labelled<'_>) {
    type OfFamily = fn(&FamilyStatistics) -> u64;
    let all: [(&str, &str, OfFamily); 11] = [
        ("memtable_active_bytes", "Bytes of the active memtable.", |f| f.memtables.active_bytes),
        ("memtable_unflushed_bytes", "Bytes of memtables to flush.", |f| f.memtables.unflushed_bytes),
        ("memtable_all_bytes", "Bytes of memtables, held ones included.", |f| f.memtables.all_bytes),
        ("memtable_immutable", "Memtables that wait for a flush.", |f| f.memtables.immutable),
        ("pending_compaction_bytes", "Estimated bytes to compact.", |f| f.pending_compaction_bytes),
        ("family_stall_state", "Writers: 0 normal, 1 delayed, 2 stopped.", |f| f.stall as u64),
        ("table_reader_bytes", "Bytes of open tables outside the cache.", |f| f.table_reader_bytes),
        ("blob_files", "Blob files.", |f| f.blob_files),
        ("blob_bytes", "Bytes of blob files.", |f| f.blob_bytes),
        ("blob_garbage_bytes", "Bytes of garbage in blob files.", |f| f.blob_garbage_bytes),
        ("quarantined_tables", "Damaged tables that compactions leave alone.", |f| f.quarantined_tables),
    ];
    for (name, help, value) in all {
        let series = families.iter().map(|(label, family)| Series {
            suffix: "",
            labels: vec![("family", label.clone())],
            value: MetricValue::Count(value(family)),
        });
        let series = series.collect();
        let (name, help) = (format!("esker_{name}"), help.to_owned());
        made.push(Metric { name, kind: MetricKind::Gauge, help, series });
    }
}

fn stall_counts(made: &mut Vec<Metric>, families: &Labelled<'_>) {
    let mut series = Vec::new();
    for (label, family) in families {
        for cause in ["memtable-limit", "l0-file-count-limit", "pending-compaction-bytes"] {
            for (state, plural) in [("delayed", "delays"), ("stopped", "stops")] {
                let count = family.stall_counts.get(&format!("{cause}-{plural}"));
                let labels =
                    vec![("family", label.clone()), ("cause", cause.to_owned()), ("state", state.to_owned())];
                let value = MetricValue::Count(count.copied().unwrap_or(0));
                series.push(Series { suffix: "", labels, value });
            }
        }
    }
    let (name, help) = ("esker_stalls_total".to_owned(), "Stalls of writers, by cause.".to_owned());
    made.push(Metric { name, kind: MetricKind::Counter, help, series });
}

fn caches(made: &mut Vec<Metric>, snapshot: &StatisticsSnapshot) {
    type OfCache = fn(&crate::CacheStatistics) -> u64;
    let all: [(&str, &str, OfCache); 3] = [
        ("block_cache_capacity_bytes", "Bytes that the cache may hold.", |c| c.capacity),
        ("block_cache_usage_bytes", "Bytes that the cache holds.", |c| c.usage),
        ("block_cache_pinned_bytes", "Bytes of entries in use.", |c| c.pinned),
    ];
    for (name, help, value) in all {
        let series = snapshot.block_caches.iter().enumerate().map(|(index, cache)| Series {
            suffix: "",
            labels: vec![("cache", index.to_string())],
            value: MetricValue::Count(value(cache)),
        });
        let series = series.collect();
        let (name, help) = (format!("esker_{name}"), help.to_owned());
        made.push(Metric { name, kind: MetricKind::Gauge, help, series });
    }
}

/// The base unit of a statistic, and the factor to it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Unit {
    None,
    Bytes,
    Seconds(f64),
}

/// The words of RocksDB's name in Prometheus' form, with the unit last.
fn named(rocksdb: &str) -> (String, Unit) {
    let bare = rocksdb.trim_start_matches("rocksdb.").trim_start_matches("esker.");
    let mut words: Vec<&str> = bare.split(['.', '_']).collect();
    let mut unit = Unit::None;
    for (word, its) in
        [("bytes", Unit::Bytes), ("micros", Unit::Seconds(1e-6)), ("nanos", Unit::Seconds(1e-9))]
    {
        // "bytes.per.read" is a distribution of sizes: the word belongs to the name.
        if let Some(at) = words.iter().position(|w| *w == word)
            && words.get(at + 1) != Some(&"per")
        {
            words.remove(at);
            unit = its;
        }
    }
    // The one time whose name has no unit.
    if bare == "db.write.stall" {
        unit = Unit::Seconds(1e-6);
    }
    match unit {
        Unit::None => {}
        Unit::Bytes => words.push("bytes"),
        Unit::Seconds(_) => words.push("seconds"),
    }
    (format!("esker_{}", words.join("_")), unit)
}

fn ticker(rocksdb: &str, count: u64) -> Metric {
    let (name, unit) = named(rocksdb);
    let value = match unit {
        Unit::Seconds(factor) => MetricValue::Real(count as f64 * factor),
        Unit::None | Unit::Bytes => MetricValue::Count(count),
    };
    one(&format!("{name}_total"), MetricKind::Counter, &format!("The ticker {rocksdb}."), value)
}

fn histogram(rocksdb: &str, summary: &HistogramSummary) -> Metric {
    let (name, unit) = named(rocksdb);
    let scaled = |number: f64| match unit {
        Unit::Seconds(factor) => MetricValue::Real(number * factor),
        Unit::None | Unit::Bytes => MetricValue::Real(number),
    };
    let quantiles = [("0.5", summary.p50), ("0.95", summary.p95), ("0.99", summary.p99), ("1", summary.max)];
    let mut series: Vec<Series> = quantiles
        .into_iter()
        .map(|(quantile, value)| Series {
            suffix: "",
            labels: vec![("quantile", quantile.to_owned())],
            value: scaled(value),
        })
        .collect();
    let (sum, count) = (scaled(summary.sum as f64), MetricValue::Count(summary.count));
    series.push(Series { suffix: "_sum", labels: Vec::new(), value: sum });
    series.push(Series { suffix: "_count", labels: Vec::new(), value: count });
    Metric {
        name,
        kind: MetricKind::Summary,
        help: format!("The histogram {rocksdb}, since the open."),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::stats::{Histogram, Ticker};
    use std::collections::BTreeSet;

    #[test]
    fn names_end_with_their_unit() {
        for (rocksdb, ours) in [
            ("rocksdb.block.cache.hit", "esker_block_cache_hit"),
            ("rocksdb.bytes.written", "esker_written_bytes"),
            ("rocksdb.stall.micros", "esker_stall_seconds"),
            ("rocksdb.db.get.micros", "esker_db_get_seconds"),
            ("rocksdb.compaction.times.cpu_micros", "esker_compaction_times_cpu_seconds"),
            ("rocksdb.rate.limiter.wait.micros.read", "esker_rate_limiter_wait_read_seconds"),
            ("rocksdb.bytes.per.read", "esker_bytes_per_read"),
            ("rocksdb.db.write.stall", "esker_db_write_stall_seconds"),
            ("esker.readahead.errors", "esker_readahead_errors"),
        ] {
            assert_eq!(named(rocksdb).0, ours, "{rocksdb}");
        }
    }

    /// Prometheus refuses a text with two metrics of one name.
    #[test]
    fn every_metric_has_a_name_of_its_own() {
        let summary = HistogramSummary { count: 1, ..HistogramSummary::default() };
        let snapshot = StatisticsSnapshot {
            tickers: Ticker::ALL.iter().map(|t| (t.name().to_owned(), 1)).collect(),
            histograms: Histogram::ALL.iter().map(|h| (h.name().to_owned(), summary)).collect(),
            ..StatisticsSnapshot::default()
        };
        let all = metrics_of(&snapshot);
        let mut names = BTreeSet::new();
        for metric in &all {
            assert!(names.insert(metric.name.clone()), "{} twice", metric.name);
            let is_counter = metric.kind == MetricKind::Counter;
            assert_eq!(metric.name.ends_with("_total"), is_counter, "{}", metric.name);
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(metric.name.chars().all(is_plain), "{}", metric.name);
        }
        for of_summary in all.iter().filter(|metric| metric.kind == MetricKind::Summary) {
            for suffix in ["_sum", "_count"] {
                assert!(!names.contains(&format!("{}{suffix}", of_summary.name)), "{}", of_summary.name);
            }
        }
        assert_eq!(all.len(), names.len());
        assert!(all.len() > Ticker::COUNT + Histogram::COUNT);
    }

    #[test]
    fn a_family_called_other_keeps_its_label() {
        let family = |name: &str| FamilyStatistics { name: name.to_owned(), ..FamilyStatistics::default() };
        let snapshot = StatisticsSnapshot {
            families: vec![family("other"), family("other_")],
            other_families: Some(family("")),
            ..StatisticsSnapshot::default()
        };
        let labels: Vec<String> = labelled(&snapshot).into_iter().map(|(label, _)| label).collect();
        assert_eq!(labels, ["other", "other_", "other__"]);
    }
}
