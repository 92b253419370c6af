//! Statistics, performance contexts and the use of memory.

use crate::cache::rocksdb_cache_t;
use crate::db::rocksdb_t;
use crate::memory::{answer, attempt, destroy, give, object, object_mut, to_c_string};
use crate::options::rocksdb_options_t;
use esker::Db;
use esker::options::BlockCache;
use esker::perf_context::{PerfContext, PerfLevel, set_perf_level};
use esker::stats::{Histogram, HistogramData, Ticker};
use libc::{c_char, c_int, c_uchar};
use std::sync::Arc;

/// All counters as text, or NULL without statistics.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_statistics_get_string(
    options: *mut rocksdb_options_t,
) -> *mut c_char {
    answer(std::ptr::null_mut(), || {
        let statistics = &object(options)?.db.statistics;
        let text = statistics.as_ref().map(|statistics| statistics.to_string());
        Ok(text.map_or(std::ptr::null_mut(), |text| to_c_string(text.as_bytes())))
    })
}

/// The counter with RocksDB 11's number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_statistics_get_ticker_count(
    options: *mut rocksdb_options_t,
    ticker: u32,
) -> u64 {
    answer(0, || {
        let statistics = object(options)?.db.statistics.as_ref();
        let ticker = Ticker::ALL.get(ticker as usize);
        Ok(statistics.zip(ticker).map_or(0, |(statistics, ticker)| statistics.ticker_count(*ticker)))
    })
}

include!(concat!(env!("OUT_DIR"), "/older_statistics.rs"));

/// The newest release's number for `number` of an older release. For a removed statistic, a number
/// that no statistic has.
fn newest_number(numbers: &[Option<u32>], number: u32) -> u32 {
    numbers.get(number as usize).copied().flatten().unwrap_or(u32::MAX)
}

/// The counter with RocksDB 8.10's number, for the shims. 0 for a removed counter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_v8_rocksdb_options_statistics_get_ticker_count(
    options: *mut rocksdb_options_t,
    ticker: u32,
) -> u64 {
    rocksdb_options_statistics_get_ticker_count(options, newest_number(TICKERS_OF_8, ticker))
}

/// The counter with RocksDB 10.4's number, for the shims. 0 for a removed counter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_v10_rocksdb_options_statistics_get_ticker_count(
    options: *mut rocksdb_options_t,
    ticker: u32,
) -> u64 {
    rocksdb_options_statistics_get_ticker_count(options, newest_number(TICKERS_OF_10, ticker))
}

/// The histogram with RocksDB 8.10's number, for the shims. Zeros for a removed histogram.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_v8_rocksdb_options_statistics_get_histogram_data(
    options: *mut rocksdb_options_t,
    histogram: u32,
    data: *mut rocksdb_statistics_histogram_data_t,
) {
    rocksdb_options_statistics_get_histogram_data(options, newest_number(HISTOGRAMS_OF_8, histogram), data);
}

/// A summary of a histogram.
#[derive(Debug, Default)]
pub struct rocksdb_statistics_histogram_data_t {
    /// The counts, sums and percentiles.
    pub data: HistogramData,
}

impl crate::field::Object for rocksdb_statistics_histogram_data_t {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_statistics_histogram_data_create() -> *mut rocksdb_statistics_histogram_data_t
{
    give(rocksdb_statistics_histogram_data_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_statistics_histogram_data_destroy(
    data: *mut rocksdb_statistics_histogram_data_t,
) {
    destroy(data);
}

/// The histogram with RocksDB 11's number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_statistics_get_histogram_data(
    options: *mut rocksdb_options_t,
    histogram: u32,
    data: *mut rocksdb_statistics_histogram_data_t,
) {
    answer((), || {
        let Some(statistics) = object(options)?.db.statistics.as_ref() else { return Ok(()) };
        let histogram = Histogram::ALL.get(histogram as usize);
        let figures = histogram.map(|histogram| statistics.histogram_data(*histogram));
        object_mut(data)?.data = figures.unwrap_or_default();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_set_perf_level(level: c_int) {
    let level = match level {
        i32::MIN..=1 => PerfLevel::Disable,
        2 => PerfLevel::EnableCount,
        3 => PerfLevel::EnableWait,
        4 => PerfLevel::EnableTimeExceptForMutex,
        5 => PerfLevel::EnableTimeAndCpuTimeExceptForMutex,
        _ => PerfLevel::EnableTime,
    };
    set_perf_level(level);
}

/// The performance context of the calling thread.
#[derive(Debug)]
pub struct rocksdb_perfcontext_t(());

/// The names of the metrics, at the indexes that `c.h` gives them.
static METRICS: &[&str] = include!(concat!(env!("OUT_DIR"), "/metrics.rs"));

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_perfcontext_create() -> *mut rocksdb_perfcontext_t {
    give(rocksdb_perfcontext_t(()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_perfcontext_destroy(context: *mut rocksdb_perfcontext_t) {
    destroy(context);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_perfcontext_reset(_context: *mut rocksdb_perfcontext_t) {
    PerfContext::reset();
}

/// The metrics as "name = value, …".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_perfcontext_report(
    _context: *mut rocksdb_perfcontext_t,
    exclude_zero_counters: c_uchar,
) -> *mut c_char {
    let context = PerfContext::current();
    let told = context.iter().filter(|(_, value)| *value > 0 || exclude_zero_counters == 0);
    let text: Vec<String> = told.map(|(name, value)| format!("{name} = {value}")).collect();
    to_c_string(text.join(", ").as_bytes())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_perfcontext_metric(
    _context: *mut rocksdb_perfcontext_t,
    metric: c_int,
) -> u64 {
    let name = usize::try_from(metric).ok().and_then(|metric| METRICS.get(metric));
    let context = PerfContext::current();
    name.and_then(|name| context.iter().find(|(field, _)| field == name)).map_or(0, |(_, value)| value)
}

/// Databases and caches whose memory is summed.
#[derive(Debug, Default)]
pub struct rocksdb_memory_consumers_t {
    dbs: Vec<Db>,
    caches: Vec<Arc<BlockCache>>,
}

/// Sums of memory, in bytes.
#[derive(Debug, Default)]
pub struct rocksdb_memory_usage_t {
    mem_table_total: u64,
    mem_table_unflushed: u64,
    mem_table_readers_total: u64,
    cache_total: u64,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_memory_consumers_create() -> *mut rocksdb_memory_consumers_t {
    give(rocksdb_memory_consumers_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_memory_consumers_add_db(
    consumers: *mut rocksdb_memory_consumers_t,
    db: *mut rocksdb_t,
) {
    answer((), || {
        object_mut(consumers)?.dbs.push(object(db)?.db.clone());
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_memory_consumers_add_cache(
    consumers: *mut rocksdb_memory_consumers_t,
    cache: *mut rocksdb_cache_t,
) {
    answer((), || {
        let cache = object(cache)?.cache.clone();
        let caches = &mut object_mut(consumers)?.caches;
        if !caches.iter().any(|known| Arc::ptr_eq(known, &cache)) {
            caches.push(cache);
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_memory_consumers_destroy(consumers: *mut rocksdb_memory_consumers_t) {
    destroy(consumers);
}

/// Sums the present memory of databases and caches.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_approximate_memory_usage_create(
    consumers: *mut rocksdb_memory_consumers_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_memory_usage_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let consumers = object(consumers)?;
        let sum = |name: &str| {
            let of_db = |db: &Db| {
                let families =
                    db.column_family_names().into_iter().filter_map(|name| db.column_family(&name));
                families.filter_map(|family| db.int_property_cf(&family, name)).sum::<u64>()
            };
            consumers.dbs.iter().map(of_db).sum()
        };
        Ok(give(rocksdb_memory_usage_t {
            mem_table_total: sum("rocksdb.size-all-mem-tables"),
            mem_table_unflushed: sum("rocksdb.cur-size-all-mem-tables"),
            mem_table_readers_total: sum("rocksdb.estimate-table-readers-mem"),
            cache_total: consumers.caches.iter().map(memory_of).sum(),
        }))
    })
}

/// Bytes of a cache: its entries, its table (8 bytes for each address), and the object itself.
fn memory_of(cache: &Arc<BlockCache>) -> u64 {
    (cache.usage() + cache.table_address_count() * size_of::<u64>() + size_of::<BlockCache>()) as u64
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_approximate_memory_usage_destroy(usage: *mut rocksdb_memory_usage_t) {
    destroy(usage);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_approximate_memory_usage_get_mem_table_total(
    usage: *mut rocksdb_memory_usage_t,
) -> u64 {
    usage.as_ref().map_or(0, |usage| usage.mem_table_total)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_approximate_memory_usage_get_mem_table_unflushed(
    usage: *mut rocksdb_memory_usage_t,
) -> u64 {
    usage.as_ref().map_or(0, |usage| usage.mem_table_unflushed)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_approximate_memory_usage_get_mem_table_readers_total(
    usage: *mut rocksdb_memory_usage_t,
) -> u64 {
    usage.as_ref().map_or(0, |usage| usage.mem_table_readers_total)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_approximate_memory_usage_get_cache_total(
    usage: *mut rocksdb_memory_usage_t,
) -> u64 {
    usage.as_ref().map_or(0, |usage| usage.cache_total)
}
