//! `Statistics`: counters and histograms, by the numbers that the calling release gives them.
//!
//! The numbers in RocksJava's enumerations depend on the release, but the names are RocksDB's in
//! every release. So this module asks Java for the numbers, once.

use crate::border::NativeResult;
use crate::handle::{NativeHandle, give};
use crate::jni::{JavaEnv, Reference, double, long};
use crate::objects::StatisticsObject;
use esker::Error;
use esker::options::StatsLevel;
use esker::stats::{Histogram, Ticker};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// New statistics, or those of `other`. For Java, the histograms numbered in `ignored` are empty.
pub(crate) fn new(other: NativeHandle<StatisticsObject>, ignored: &[u8]) -> NativeResult<i64> {
    // RocksDB forwards to the other statistics; here both are the same.
    let shared = other.find().map(|other| other.counts.clone());
    let counts = shared.unwrap_or_else(|| Arc::new(esker::options::Statistics::new()));
    Ok(give(StatisticsObject { counts, ignored: ignored.to_vec() }))
}

/// `BLOCK_CACHE_HIT` and `BlockCacheHit` as the same text.
fn folded(name: &str) -> String {
    name.replace('_', "").to_lowercase()
}

/// The values of a Java enumeration, by their number.
fn numbers<T: Copy + std::fmt::Debug>(
    env: &JavaEnv<'_>,
    class: &str,
    all: &[T],
) -> NativeResult<HashMap<i8, T>> {
    let by_name: HashMap<String, T> =
        all.iter().map(|value| (folded(&format!("{value:?}")), *value)).collect();
    let enumeration = env.class(class)?;
    let values = env.static_method(enumeration, "values", &format!("()[L{class};"))?;
    let (name, value) = (
        env.method(enumeration, "name", "()Ljava/lang/String;")?,
        env.method(enumeration, "getValue", "()B")?,
    );
    let constants = env.call_static_object(enumeration, values, &[])?;
    let pairs = env.elements(constants, |constant| {
        let text = env.call_object(constant, name, &[])?;
        let name = env.text(text)?;
        env.forget(text);
        Ok((env.call_byte(constant, value, &[])?, by_name.get(&folded(&name)).copied()))
    })?;
    Ok(pairs.into_iter().filter_map(|(number, value)| Some((number, value?))).collect())
}

/// The ticker with Java's number; `None` if Esker does not count it.
fn ticker(env: &JavaEnv<'_>, number: i8) -> NativeResult<Option<Ticker>> {
    static TICKERS: OnceLock<HashMap<i8, Ticker>> = OnceLock::new();
    if TICKERS.get().is_none() {
        TICKERS.set(numbers(env, "org/rocksdb/TickerType", Ticker::ALL)?).ok();
    }
    Ok(TICKERS.get().and_then(|tickers| tickers.get(&number).copied()))
}

fn histogram(env: &JavaEnv<'_>, number: i8) -> NativeResult<Option<Histogram>> {
    static HISTOGRAMS: OnceLock<HashMap<i8, Histogram>> = OnceLock::new();
    if HISTOGRAMS.get().is_none() {
        HISTOGRAMS.set(numbers(env, "org/rocksdb/HistogramType", Histogram::ALL)?).ok();
    }
    Ok(HISTOGRAMS.get().and_then(|histograms| histograms.get(&number).copied()))
}

pub(crate) fn ticker_count(
    env: &JavaEnv<'_>,
    statistics: NativeHandle<StatisticsObject>,
    number: i8,
) -> NativeResult<i64> {
    let statistics = &statistics.get()?.counts;
    Ok(ticker(env, number)?.map_or(0, |ticker| statistics.ticker_count(ticker)).cast_signed())
}

pub(crate) fn take_ticker_count(
    env: &JavaEnv<'_>,
    statistics: NativeHandle<StatisticsObject>,
    number: i8,
) -> NativeResult<i64> {
    let statistics = &statistics.get()?.counts;
    Ok(ticker(env, number)?.map_or(0, |ticker| statistics.take_ticker_count(ticker)).cast_signed())
}

/// A new `HistogramData`.
pub(crate) fn histogram_data(
    env: &JavaEnv<'_>,
    statistics: NativeHandle<StatisticsObject>,
    number: i8,
) -> NativeResult<Reference> {
    let statistics = statistics.get()?;
    let found =
        if statistics.ignored.contains(&number.cast_unsigned()) { None } else { histogram(env, number)? };
    let data = found.map(|histogram| statistics.counts.histogram_data(histogram)).unwrap_or_default();
    let arguments = [
        double(data.median),
        double(data.percentile95),
        double(data.percentile99),
        double(data.average),
        double(data.standard_deviation),
        double(data.max),
        long(data.count.cast_signed()),
        long(data.sum.cast_signed()),
        double(data.min),
    ];
    env.new_object("org/rocksdb/HistogramData", "(DDDDDDJJD)V", &arguments)
}

pub(crate) fn reset(statistics: NativeHandle<StatisticsObject>) -> NativeResult<()> {
    statistics.get()?.counts.reset();
    Ok(())
}

/// RocksJava's numbers of levels.
const LEVELS: [StatsLevel; 3] =
    [StatsLevel::ExceptDetailedTimers, StatsLevel::ExceptTimeForMutex, StatsLevel::All];

pub(crate) fn set_level(statistics: NativeHandle<StatisticsObject>, level: i8) -> NativeResult<()> {
    let known = usize::try_from(level).ok().and_then(|level| LEVELS.get(level));
    let known =
        known.ok_or_else(|| Error::invalid_argument(format!("no level of statistics has {level}")))?;
    statistics.get()?.counts.set_stats_level(*known);
    Ok(())
}

pub(crate) fn level(statistics: NativeHandle<StatisticsObject>) -> NativeResult<i8> {
    let level = statistics.get()?.counts.stats_level();
    Ok(LEVELS.iter().position(|known| *known == level).and_then(|at| i8::try_from(at).ok()).unwrap_or(0))
}
