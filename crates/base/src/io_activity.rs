//! The operation for which a thread reads and writes files.
//!
//! In: the operation that a job or call begins on its thread. Out: the histogram that takes the
//! time of a read or write. Names are RocksDB's (`Env::IOActivity`).
//!
//! Cost: three accesses to a thread-local byte for each operation. Gets and scans begin theirs only
//! when they read a file.

use crate::stats::{Histogram, Statistics};
use std::cell::Cell;

/// An operation that reads or writes files.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum IoActivity {
    /// None of the others.
    #[default]
    Unknown,
    /// A flush.
    Flush,
    /// A compaction.
    Compaction,
    /// The opening of a database, recovery included.
    DbOpen,
    /// A get.
    Get,
    /// A multi-get.
    MultiGet,
    /// An iterator.
    DbIterator,
    /// A verification of the checksums of blocks.
    VerifyDbChecksum,
    /// A verification of the checksums of files.
    VerifyFileChecksums,
}

thread_local! {
    static CURRENT: Cell<IoActivity> = const { Cell::new(IoActivity::Unknown) };
}

impl IoActivity {
    /// The operation of this thread.
    pub fn current() -> IoActivity {
        CURRENT.get()
    }

    /// Sets the operation of this thread until the result is dropped. `Unknown` keeps the current
    /// operation.
    #[must_use]
    pub fn begin(self) -> IoActivityScope {
        let before = CURRENT.get();
        if self != IoActivity::Unknown {
            CURRENT.set(self);
        }
        IoActivityScope { before }
    }

    /// The histogram for the times of this operation's reads. A user call has one only if
    /// `statistics` collect detailed times; `Unknown` has none.
    pub fn read_histogram(self, statistics: &Statistics) -> Option<Histogram> {
        let detailed = || statistics.collects_detailed_times();
        Some(match self {
            IoActivity::Flush => Histogram::FileReadFlushMicros,
            IoActivity::Compaction => Histogram::FileReadCompactionMicros,
            IoActivity::DbOpen => Histogram::FileReadDbOpenMicros,
            IoActivity::Get if detailed() => Histogram::FileReadGetMicros,
            IoActivity::MultiGet if detailed() => Histogram::FileReadMultigetMicros,
            IoActivity::DbIterator if detailed() => Histogram::FileReadDbIteratorMicros,
            IoActivity::VerifyDbChecksum if detailed() => Histogram::FileReadVerifyDbChecksumMicros,
            IoActivity::VerifyFileChecksums if detailed() => Histogram::FileReadVerifyFileChecksumsMicros,
            _ => return None,
        })
    }

    /// The histogram for the times of this operation's writes to tables and blob files.
    pub fn write_histogram(self) -> Option<Histogram> {
        match self {
            IoActivity::Flush => Some(Histogram::FileWriteFlushMicros),
            IoActivity::Compaction => Some(Histogram::FileWriteCompactionMicros),
            IoActivity::DbOpen => Some(Histogram::FileWriteDbOpenMicros),
            _ => None,
        }
    }
}

/// See [`IoActivity::begin`].
#[derive(Debug)]
pub struct IoActivityScope {
    before: IoActivity,
}

impl Drop for IoActivityScope {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}
