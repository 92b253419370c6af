//! Kinds of operation, and how often each is drawn.

/// Kinds of operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
#[expect(missing_docs, reason = "named as the calls they make")]
pub enum Kind {
    Put,
    Delete,
    Merge,
    DeleteRange,
    Batch,
    Get,
    MultiGet,
    Scan,
    Cursor,
    Snapshot,
    Flush,
    Compact,
    Verify,
    Reopen,
    DropFamily,
    Pause,
    /// Several threads that write.
    Burst,
    SyncWal,
    /// Tables whose keys have just been deleted.
    DeleteFiles,
    /// Reads and writes of a transaction.
    Transaction,
    /// A transaction is prepared, committed or rolled back.
    Resolve,
    /// An external file comes in.
    Ingest,
    /// A family goes out and comes back.
    Import,
    CompactFiles,
    SetOptions,
    Resume,
    Checkpoint,
    Backup,
    /// Of a copy.
    Repair,
    /// Of a copy.
    Downgrade,
    /// Of a family whose keys have timestamps.
    RaiseHistoryLow,
}

/// How often, of the sum.
pub(super) const WEIGHTS: [(Kind, u32); 27] = [
    (Kind::Put, 24_000),
    (Kind::Delete, 8_000),
    (Kind::Merge, 9_000),
    (Kind::DeleteRange, 600),
    (Kind::Batch, 3_000),
    (Kind::Get, 24_000),
    (Kind::MultiGet, 1_500),
    (Kind::Scan, 2_000),
    (Kind::Cursor, 26_000),
    (Kind::Snapshot, 500),
    (Kind::Flush, 60),
    (Kind::Compact, 25),
    (Kind::Verify, 6),
    (Kind::Reopen, 8),
    (Kind::DropFamily, 2),
    (Kind::Pause, 10),
    (Kind::DeleteFiles, 20),
    (Kind::Ingest, 300),
    (Kind::Import, 30),
    (Kind::CompactFiles, 100),
    (Kind::SetOptions, 60),
    (Kind::Resume, 10),
    (Kind::Checkpoint, 30),
    (Kind::Backup, 20),
    (Kind::Repair, 15),
    (Kind::Downgrade, 10),
    (Kind::RaiseHistoryLow, 200),
];

/// As [`WEIGHTS`], for short lives with crashes.
pub(super) const WEIGHTS_WITH_CRASHES: [(Kind, u32); 26] = [
    (Kind::Put, 240),
    (Kind::Delete, 80),
    (Kind::Merge, 90),
    (Kind::DeleteRange, 20),
    (Kind::Batch, 100),
    (Kind::Get, 120),
    (Kind::MultiGet, 15),
    (Kind::Scan, 20),
    (Kind::Cursor, 120),
    (Kind::Snapshot, 30),
    (Kind::Flush, 40),
    (Kind::Compact, 14),
    (Kind::Verify, 1),
    (Kind::Reopen, 4),
    (Kind::DropFamily, 4),
    (Kind::Pause, 2),
    (Kind::Burst, 12),
    (Kind::SyncWal, 8),
    (Kind::DeleteFiles, 8),
    (Kind::Transaction, 110),
    (Kind::Resolve, 70),
    (Kind::Ingest, 24),
    (Kind::CompactFiles, 8),
    (Kind::SetOptions, 4),
    (Kind::Resume, 2),
    (Kind::RaiseHistoryLow, 20),
];
