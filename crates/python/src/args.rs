//! Arguments: keys, values, and options of one call.
//!
//! In: Python objects. Out: bytes that stay valid without the GIL, and options; or an exception
//! that says what to pass.

use esker::{ReadOptions, ReadTier, WriteOptions};
use pyo3::Borrowed;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView, PyString};
use std::time::Duration;

/// Bytes of an argument: those of a `bytes` object in place, or a copy of another buffer. The owner
/// of another buffer may change it during the call.
pub(crate) enum BytesArg<'py> {
    Borrowed(Bound<'py, PyBytes>),
    Copied(Vec<u8>),
}

impl BytesArg<'_> {
    /// The bytes.
    #[inline]
    pub(crate) fn get(&self) -> &[u8] {
        match self {
            BytesArg::Borrowed(bytes) => bytes.as_bytes(),
            BytesArg::Copied(bytes) => bytes,
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for BytesArg<'py> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.cast::<PyBytes>() {
            Ok(bytes) => Ok(BytesArg::Borrowed(bytes.to_owned())),
            Err(_) => copied(&object),
        }
    }
}

#[cold]
fn copied<'py>(object: &Bound<'py, PyAny>) -> PyResult<BytesArg<'py>> {
    if let Ok(buffer) = PyBuffer::<u8>::get(object) {
        return Ok(BytesArg::Copied(buffer.to_vec(object.py())?));
    }
    // A buffer with items other than bytes.
    match PyMemoryView::from(object) {
        Ok(view) => return Ok(BytesArg::Borrowed(view.call_method0("tobytes")?.cast_into()?)),
        Err(raised) if !raised.is_instance_of::<PyTypeError>(object.py()) => return Err(raised),
        Err(_) => {}
    }
    let kind = object.get_type().name()?.to_string();
    let advice = if object.is_instance_of::<PyString>() {
        "; encode it, as in text.encode(), or wrap the database: esker.Coded(db, key=\"str\")"
    } else {
        ""
    };
    Err(PyTypeError::new_err(format!("keys and values are bytes-like objects, not {kind}{advice}")))
}

/// Options of a write, from keyword arguments.
pub(crate) fn write_options(sync: bool, disable_wal: bool, no_slowdown: bool) -> WriteOptions {
    WriteOptions::new().sync(sync).disable_wal(disable_wal).no_slowdown(no_slowdown)
}

/// Sets options of a read from keyword arguments with RocksDB's names.
pub(crate) fn set_read_options(options: &mut ReadOptions, given: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        match name.as_str() {
            "verify_checksums" => options.verify_checksums = value.extract()?,
            "fill_cache" => options.fill_cache = value.extract()?,
            "readahead_size" => options.readahead_size = value.extract()?,
            "adaptive_readahead" => options.adaptive_readahead = value.extract()?,
            "async_io" => options.async_io = value.extract()?,
            "total_order_seek" => options.total_order_seek = value.extract()?,
            "auto_prefix_mode" => options.auto_prefix_mode = value.extract()?,
            "prefix_same_as_start" => options.prefix_same_as_start = value.extract()?,
            "ignore_range_deletions" => options.ignore_range_deletions = value.extract()?,
            "max_skippable_internal_keys" => options.max_skippable_internal_keys = value.extract()?,
            "tailing" => options.tailing = value.extract()?,
            "read_tier" => options.read_tier = read_tier(&value.extract::<String>()?)?,
            "io_timeout" => options.io_timeout = Some(seconds(value.extract()?)?),
            _ => return Err(PyTypeError::new_err(format!("no read option is called '{name}'"))),
        }
    }
    Ok(())
}

fn read_tier(text: &str) -> PyResult<ReadTier> {
    match text {
        "kReadAllTier" => Ok(ReadTier::ReadAll),
        "kBlockCacheTier" => Ok(ReadTier::BlockCache),
        "kPersistedTier" => Ok(ReadTier::Persisted),
        "kMemtableTier" => Ok(ReadTier::Memtable),
        _ => Err(PyValueError::new_err(format!(
            "read_tier is kReadAllTier, kBlockCacheTier, kPersistedTier or kMemtableTier, not '{text}'"
        ))),
    }
}

/// A duration in seconds.
pub(crate) fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|e| PyValueError::new_err(format!("{seconds} seconds: {e}")))
}
