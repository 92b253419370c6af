//! The engine's reports about itself: events, LOG lines, statistics as text, properties.
//!
//! In: plain values from the code that does the work. Out: calls, lines and text. The module takes
//! no lock and looks up no facts: the caller does, and passes them.

mod cache_stats;
mod compaction_stats;
mod events;
mod explain;
mod file_operations;
mod human;
mod json;
mod listener;
mod metadata;
mod properties;
mod reason;
mod stats_dump;
mod stats_history;
mod temperature;

pub use crate::compaction_filter::TableFileCreationReason;
pub use cache_stats::{CacheEntryStats, SecondaryStats};
pub use compaction_stats::{CompactionJobStats, CompactionStats, LevelCompactionStats, WorkPriority};
pub use esker_format::file_name::FileType;
pub use events::{Event, TableFileCreation};
pub use explain::{Explanation, KeyRead, ReadSource, ReadStep, RunRead, ScanRead, SeenEntry};
pub(crate) use file_operations::observer;
pub use file_operations::{FileOperationInfo, FileOperationType};
pub use json::JsonWriter;
pub use listener::{
    BackgroundErrorRecoveryInfo, BackgroundJobPressure, BlobFileAdditionInfo, BlobFileCreationBriefInfo,
    BlobFileCreationInfo, BlobFileDeletionInfo, BlobFileGarbageInfo, CompactionFileInfo, CompactionJobInfo,
    EventListener, ExternalFileIngestionInfo, FlushJobInfo, ManualFlushInfo, MemTableInfo,
    SubcompactionJobInfo, TableFileCreationBriefInfo, TableFileCreationInfo, TableFileDeletionInfo,
    WriteStallInfo,
};
pub use metadata::{
    BlobMetaData, ColumnFamilyMetaData, ExportImportFilesMetaData, KeyVersion, LevelMetaData,
    LiveFileMetaData, LiveFileStorageInfo, SstFileMetaData, WalFile, WalFileType,
};
pub use properties::{Property, PropertyKind, parse_property};
pub use reason::{
    BackgroundErrorReason, CompactionReason, FlushReason, WriteStallCause, WriteStallCondition,
};
pub use stats_dump::{BlobFileStats, CfStats, DbStats, IngestedFiles, LevelStats, StallCounts};
pub(crate) use stats_history::{StatsHistory, parse_stats_key, stats_key, ticker_totals};
pub use temperature::Temperature;
