//! The circumstances in which a table is written, as RocksDB names them.

/// The layout of files in levels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
#[repr(u8)]
pub enum CompactionStyle {
    /// Sorted runs of growing size, one for each level.
    #[default]
    Level = 0,
    /// Few sorted runs of similar size, merged together.
    Universal = 1,
    /// Oldest files are dropped.
    Fifo = 2,
    /// Files are compacted only by hand.
    None = 3,
}

impl CompactionStyle {
    /// Every value, in RocksDB's order.
    pub const ALL: &'static [CompactionStyle] =
        &[CompactionStyle::Level, CompactionStyle::Universal, CompactionStyle::Fifo, CompactionStyle::None];

    /// RocksDB's name of this value in OPTIONS files.
    pub const fn as_str(self) -> &'static str {
        match self {
            CompactionStyle::Level => "kCompactionStyleLevel",
            CompactionStyle::Universal => "kCompactionStyleUniversal",
            CompactionStyle::Fifo => "kCompactionStyleFIFO",
            CompactionStyle::None => "kCompactionStyleNone",
        }
    }
}

/// The reason for a new table file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum TableFileCreationReason {
    /// A flush.
    Flush,
    /// A compaction.
    Compaction,
    /// Replay of the WAL at open.
    Recovery,
    /// A file written for later ingestion.
    Misc,
}

impl TableFileCreationReason {
    /// Every value, in RocksDB's order.
    pub const ALL: &'static [TableFileCreationReason] = &[
        TableFileCreationReason::Flush,
        TableFileCreationReason::Compaction,
        TableFileCreationReason::Recovery,
        TableFileCreationReason::Misc,
    ];

    /// RocksDB's words for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            TableFileCreationReason::Flush => "flush",
            TableFileCreationReason::Compaction => "compaction",
            TableFileCreationReason::Recovery => "recovery",
            TableFileCreationReason::Misc => "misc",
        }
    }
}
