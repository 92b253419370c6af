//! Reasons of events, in RocksDB's words. They appear in LOG lines and in event structs.
//!
//! Source: RocksDB `include/rocksdb/listener.h`, the strings in `db/flush_job.cc`,
//! `db/compaction/compaction_job.cc`, `db/write_stall_stats.cc`.

macro_rules! reasons {
    (
        $(#[$attr:meta])*
        pub enum $name:ident { $( $(#[$vattr:meta])* $variant:ident => $text:literal, )* }
    ) => {
        $(#[$attr])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum $name { $( $(#[$vattr])* $variant, )* }

        impl $name {
            /// Every value, in RocksDB's order.
            pub const ALL: &'static [$name] = &[ $( $name::$variant, )* ];

            /// RocksDB's words for it.
            pub const fn as_str(self) -> &'static str {
                match self { $( $name::$variant => $text, )* }
            }
        }
    };
}

reasons! {
    /// The reason for a compaction.
    #[non_exhaustive]
    pub enum CompactionReason {
        /// No reason given.
        Unknown => "Unknown",
        /// Level 0 has too many files.
        LevelL0FilesNum => "LevelL0FilesNum",
        /// A level has too many bytes.
        LevelMaxLevelSize => "LevelMaxLevelSize",
        /// Universal: too many bytes above the last run.
        UniversalSizeAmplification => "UniversalSizeAmplification",
        /// Universal: neighbours of similar size.
        UniversalSizeRatio => "UniversalSizeRatio",
        /// Universal: too many runs.
        UniversalSortedRunNum => "UniversalSortedRunNum",
        /// FIFO: too many bytes.
        FifoMaxSize => "FIFOMaxSize",
        /// FIFO: too many files.
        FifoReduceNumFiles => "FIFOReduceNumFiles",
        /// FIFO: files are too old.
        FifoTtl => "FIFOTtl",
        /// The user called for a compaction.
        ManualCompaction => "ManualCompaction",
        /// The file's writer or a property collector requested it.
        FilesMarkedForCompaction => "FilesMarkedForCompaction",
        /// The last level has old versions that no snapshot needs any more.
        BottommostFiles => "BottommostFiles",
        /// The data is older than `ttl`.
        Ttl => "Ttl",
        /// A flush, for statistics that have a reason.
        Flush => "Flush",
        /// Files were ingested.
        ExternalSstIngestion => "ExternalSstIngestion",
        /// The file is older than `periodic_compaction_seconds`.
        PeriodicCompaction => "PeriodicCompaction",
        /// Files move to another kind of storage.
        ChangeTemperature => "ChangeTemperature",
        /// Too much garbage in blob files.
        ForcedBlobGc => "ForcedBlobGC",
        /// Several rounds of round-robin at once.
        RoundRobinTtl => "RoundRobinTtl",
        /// Files move to another level as they are.
        RefitLevel => "RefitLevel",
        /// Reads were found to be costly in the file.
        ReadTriggered => "ReadTriggered",
    }
}

reasons! {
    /// The reason for a flush.
    #[non_exhaustive]
    pub enum FlushReason {
        /// Any reason not listed.
        Others => "Other Reasons",
        /// Live files are being listed.
        GetLiveFiles => "Get Live Files",
        /// The database closes.
        ShutDown => "Shut down",
        /// An external file overlaps the memtable.
        ExternalFileIngestion => "External File Ingestion",
        /// A manual compaction begins.
        ManualCompaction => "Manual Compaction",
        /// All memtables together are too large.
        WriteBufferManager => "Write Buffer Manager",
        /// The memtable is full.
        WriteBufferFull => "Write Buffer Full",
        /// A test requested it.
        Test => "Test",
        /// Files in a range are being deleted.
        DeleteFiles => "Delete Files",
        /// An automatic compaction requested it.
        AutoCompaction => "Auto Compaction",
        /// `flush` was called.
        ManualFlush => "Manual Flush",
        /// Recovery from a background error.
        ErrorRecovery => "Error Recovery",
        /// A repeated flush in the recovery from a background error.
        ErrorRecoveryRetryFlush => "Error Recovery Retry Flush",
        /// `max_total_wal_size` was reached.
        WalFull => "WAL Full",
        /// A flush of entries written during a recovery.
        CatchUpAfterErrorRecovery => "Catch Up After Error Recovery",
        /// The memtable has too many range deletions.
        MemtableMaxRangeDeletions => "Memtable Max Range Deletions",
    }
}

reasons! {
    /// The background work that failed.
    #[non_exhaustive]
    pub enum BackgroundErrorReason {
        /// A flush.
        Flush => "Flush",
        /// A compaction.
        Compaction => "Compaction",
        /// The write path: WAL append or sync.
        WriteCallback => "WriteCallback",
        /// An insert into a memtable, after the WAL had it.
        MemTable => "MemTable",
        /// The MANIFEST.
        ManifestWrite => "ManifestWrite",
        /// A flush of data that is in no WAL.
        FlushNoWal => "FlushNoWAL",
        /// The MANIFEST, for data that is in no WAL.
        ManifestWriteNoWal => "ManifestWriteNoWAL",
        /// Scrubbing, which RocksDB does not have: a table is damaged. The database continues,
        /// whatever the listener sets.
        Scrub => "Scrub",
    }
}

reasons! {
    /// The way in which writers are held back.
    pub enum WriteStallCondition {
        /// Writers are slowed down.
        Delayed => "delays",
        /// Writers wait.
        Stopped => "stops",
        /// Writers are not held back.
        Normal => "normal",
    }
}

reasons! {
    /// The cause of a write stall.
    #[non_exhaustive]
    pub enum WriteStallCause {
        /// Too many memtables wait for their flush.
        MemtableLimit => "memtable-limit",
        /// Too many files in level 0.
        L0FileCountLimit => "l0-file-count-limit",
        /// Too many bytes wait for compaction.
        PendingCompactionBytes => "pending-compaction-bytes",
        /// All memtables together are too large.
        WriteBufferManagerLimit => "write-buffer-manager-limit",
    }
}
