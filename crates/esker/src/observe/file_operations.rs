//! Operations on the database's files, as listeners see them.
//!
//! In: operations that have ended, from `esker_env::io_trace`. Out: calls to the listeners that
//! want them. Source: RocksDB `include/rocksdb/listener.h` (`FileOperationInfo`, `IOErrorInfo`).

use super::EventListener;
use esker_base::Error;
use esker_base::sync::Arc;
use esker_env::io_trace::{IoObserver, IoOperation};
use std::path::PathBuf;
use std::time::Duration;

/// A kind of operation on a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FileOperationType {
    /// A read at an offset, or of the next bytes.
    Read,
    /// Bytes were added at the end.
    Append,
    /// The file was cut.
    Truncate,
    /// The file was closed.
    Close,
    /// Buffered bytes went to the operating system.
    Flush,
    /// The device has the data and the metadata that reads need (`fdatasync`).
    Sync,
    /// The device has the data and all metadata (`fsync`).
    Fsync,
    /// The operating system was asked to write back a range.
    RangeSync,
}

impl FileOperationType {
    /// The kind of a traced operation; `None` for those on names.
    fn of(operation: &str) -> Option<FileOperationType> {
        Some(match operation {
            "Read" | "MultiRead" => FileOperationType::Read,
            "Append" => FileOperationType::Append,
            "Truncate" => FileOperationType::Truncate,
            "Close" => FileOperationType::Close,
            "Flush" => FileOperationType::Flush,
            "Sync" => FileOperationType::Sync,
            "Fsync" => FileOperationType::Fsync,
            "RangeSync" => FileOperationType::RangeSync,
            _ => return None,
        })
    }
}

/// One operation on a file, which has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileOperationInfo {
    /// Its kind.
    pub operation_type: FileOperationType,
    /// The file.
    pub path: PathBuf,
    /// The first byte, for reads at an offset, appends and range syncs; else 0.
    pub offset: u64,
    /// Bytes that were read, or were to be written; 0 for other kinds, and for reads that failed.
    pub length: u64,
    /// Its duration.
    pub duration: Duration,
    /// Microseconds since 1970 at which it began.
    pub start_micros: u64,
    /// Its error.
    pub status: Result<(), Error>,
}

/// An observer for the listeners that want operations on files; `None` if none wants them.
pub(crate) fn observer(listeners: &[Arc<dyn EventListener>]) -> Option<IoObserver> {
    let wants = |listener: &&Arc<dyn EventListener>| listener.should_be_notified_on_file_io();
    let listeners: Vec<_> = listeners.iter().filter(wants).cloned().collect();
    if listeners.is_empty() {
        return None;
    }
    Some(Box::new(move |done: &IoOperation<'_>| {
        let Some(operation_type) = FileOperationType::of(done.operation) else { return };
        let info = FileOperationInfo {
            operation_type,
            path: done.path.to_owned(),
            offset: done.offset.unwrap_or(0),
            length: done.len.unwrap_or(0),
            duration: Duration::from_nanos(done.nanos),
            start_micros: done.began_at,
            status: done.error.map_or(Ok(()), |error| Err(error.clone())),
        };
        listeners.iter().for_each(|listener| report(listener.as_ref(), &info));
    }))
}

fn report(listener: &dyn EventListener, info: &FileOperationInfo) {
    match info.operation_type {
        FileOperationType::Read => listener.on_file_read_finish(info),
        FileOperationType::Append => listener.on_file_write_finish(info),
        FileOperationType::Truncate => listener.on_file_truncate_finish(info),
        FileOperationType::Close => listener.on_file_close_finish(info),
        FileOperationType::Flush => listener.on_file_flush_finish(info),
        FileOperationType::Sync | FileOperationType::Fsync => listener.on_file_sync_finish(info),
        FileOperationType::RangeSync => listener.on_file_range_sync_finish(info),
    }
    if info.status.is_err() {
        listener.on_io_error(info);
    }
}
