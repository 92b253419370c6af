//! Kinds of operation, and their weights.

/// A kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum OperationKind {
    /// Puts a key.
    Put,
    /// Deletes a key.
    Delete,
    /// Merges an operand.
    Merge,
    /// Deletes a range.
    DeleteRange,
    /// Writes a batch.
    Batch,
    /// Gets a key.
    Get,
    /// Gets several keys.
    MultiGet,
    /// Scans with a new iterator.
    Scan,
    /// Moves an open iterator.
    Cursor,
    /// Takes or releases a snapshot.
    Snapshot,
    /// Flushes families.
    Flush,
    /// Compacts a range.
    Compact,
    /// Compares all contents.
    Verify,
    /// Closes the database and opens it with other options.
    Reopen,
    /// Drops families and makes them again.
    DropFamily,
    /// Reads while background work is paused.
    Pause,
    /// Writes from several threads at once.
    Burst,
    /// Syncs the WAL.
    SyncWal,
    /// Deletes tables whose keys have just been deleted.
    DeleteFiles,
    /// Reads and writes in a transaction.
    Transaction,
    /// Prepares, commits or rolls back a transaction.
    Resolve,
    /// Ingests external files.
    Ingest,
    /// Exports a family and imports it under its name.
    Import,
    /// Compacts chosen files.
    CompactFiles,
    /// Changes options.
    SetOptions,
    /// Calls `resume`.
    Resume,
    /// Makes a checkpoint and compares it.
    Checkpoint,
    /// Makes a backup, restores it and compares the contents.
    Backup,
    /// Repairs a copy.
    Repair,
    /// Downgrades a copy.
    Downgrade,
    /// Opens the database for reading only, as a secondary or as a follower, beside its owner.
    Beside,
    /// Raises `full_history_ts_low` of a family with timestamps.
    RaiseHistoryLow,
}

/// Weight of each kind, relative to the sum of all weights.
pub(super) const WEIGHTS: [(OperationKind, u32); 28] = [
    (OperationKind::Put, 24_000),
    (OperationKind::Delete, 8_000),
    (OperationKind::Merge, 9_000),
    (OperationKind::DeleteRange, 600),
    (OperationKind::Batch, 3_000),
    (OperationKind::Get, 24_000),
    (OperationKind::MultiGet, 1_500),
    (OperationKind::Scan, 2_000),
    (OperationKind::Cursor, 26_000),
    (OperationKind::Snapshot, 500),
    (OperationKind::Flush, 60),
    (OperationKind::Compact, 25),
    (OperationKind::Verify, 6),
    (OperationKind::Reopen, 8),
    (OperationKind::DropFamily, 2),
    (OperationKind::Pause, 10),
    (OperationKind::DeleteFiles, 40),
    (OperationKind::Ingest, 300),
    (OperationKind::Import, 30),
    (OperationKind::CompactFiles, 100),
    (OperationKind::SetOptions, 60),
    (OperationKind::Resume, 10),
    (OperationKind::Checkpoint, 30),
    (OperationKind::Backup, 20),
    (OperationKind::Repair, 15),
    (OperationKind::Downgrade, 10),
    (OperationKind::Beside, 30),
    (OperationKind::RaiseHistoryLow, 200),
];

/// [`WEIGHTS`] for short lives with crashes.
pub(super) const WEIGHTS_WITH_CRASHES: [(OperationKind, u32); 30] = [
    (OperationKind::Put, 240),
    (OperationKind::Delete, 80),
    (OperationKind::Merge, 90),
    (OperationKind::DeleteRange, 20),
    (OperationKind::Batch, 100),
    (OperationKind::Get, 120),
    (OperationKind::MultiGet, 15),
    (OperationKind::Scan, 20),
    (OperationKind::Cursor, 120),
    (OperationKind::Snapshot, 30),
    (OperationKind::Flush, 40),
    (OperationKind::Compact, 14),
    (OperationKind::Verify, 1),
    (OperationKind::Reopen, 4),
    (OperationKind::DropFamily, 4),
    (OperationKind::Pause, 2),
    (OperationKind::Burst, 12),
    (OperationKind::SyncWal, 8),
    (OperationKind::DeleteFiles, 8),
    (OperationKind::Transaction, 110),
    (OperationKind::Resolve, 70),
    (OperationKind::Ingest, 24),
    (OperationKind::CompactFiles, 8),
    (OperationKind::SetOptions, 4),
    (OperationKind::Resume, 2),
    (OperationKind::Checkpoint, 6),
    (OperationKind::Backup, 3),
    (OperationKind::Repair, 4),
    (OperationKind::Beside, 10),
    (OperationKind::RaiseHistoryLow, 20),
];
