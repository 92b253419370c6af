//! Explanations, statistics and file lists as Python data.

use esker::options::Statistics;
use esker::stats::{Histogram, Ticker};
use esker::{Explanation, LiveFileMetaData};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// An explanation as a dict; its `text` is for people.
pub(crate) fn explanation<'py>(py: Python<'py>, explained: &Explanation) -> PyResult<Bound<'py, PyAny>> {
    let data = py.import("json")?.call_method1("loads", (explained.to_json(),))?;
    data.set_item("text", explained.to_string())?;
    Ok(data)
}

/// Counters as numbers, and distributions as dicts, under RocksDB's names. Those that are zero are
/// left out.
pub(crate) fn statistics<'py>(py: Python<'py>, statistics: &Statistics) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for ticker in Ticker::ALL {
        let count = statistics.ticker_count(*ticker);
        if count > 0 {
            dict.set_item(ticker.name(), count)?;
        }
    }
    for histogram in Histogram::ALL {
        let data = statistics.histogram_data(*histogram);
        if data.count == 0 {
            continue;
        }
        let entry = PyDict::new(py);
        entry.set_item("count", data.count)?;
        entry.set_item("sum", data.sum)?;
        let numbers = [
            ("min", data.min),
            ("max", data.max),
            ("average", data.average),
            ("median", data.median),
            ("p95", data.percentile95),
            ("p99", data.percentile99),
        ];
        numbers.iter().try_for_each(|(name, number)| entry.set_item(name, number))?;
        dict.set_item(histogram.name(), entry)?;
    }
    Ok(dict)
}

/// A table as a dict.
pub(crate) fn live_file<'py>(py: Python<'py>, file: &LiveFileMetaData) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &file.relative_filename)?;
    dict.set_item("column_family", &file.column_family_name)?;
    dict.set_item("level", file.level)?;
    dict.set_item("size", file.size)?;
    dict.set_item("num_entries", file.num_entries)?;
    dict.set_item("num_deletions", file.num_deletions)?;
    dict.set_item("smallest_key", PyBytes::new(py, &file.smallest_key))?;
    dict.set_item("largest_key", PyBytes::new(py, &file.largest_key))?;
    Ok(dict)
}
