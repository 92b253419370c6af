//! The keys that an ingestion replaces (`atomic_replace_range`).
//!
//! In: a range of user keys, or all keys of a family. Out: the files that the ingestion's edit
//! deletes: all that have a key of the range.
//!
//! Invariant: no file has keys on both sides of an end of the range. Such a file fails the
//! ingestion, and so does a compaction that may write one.
//!
//! Source: RocksDB `ExternalSstFileIngestionJob::Run`.

use super::PreparedFile;
use crate::cf::ColumnFamily;
use crate::options::{IngestExternalFileOptions, RangeOpt};
use crate::picker::RunningCompactions;
use crate::version::{FileMeta, Version};
use esker_base::sync::Arc;
use esker_base::{Error, Result};

/// A range whose keys make way for the ingested files.
#[derive(Debug)]
pub(super) struct ReplacedRange {
    pub(super) cf: Arc<ColumnFamily>,
    /// The first and the last user key, both replaced: with the newest and the oldest timestamp.
    /// `None`: all keys.
    pub(super) range: Option<(Vec<u8>, Vec<u8>)>,
}

impl ReplacedRange {
    /// Checks the range against the options.
    /// # Errors
    /// `NotSupported`: `snapshot_consistency`, or only one end is given · `InvalidArgument`: the
    /// range ends before it begins.
    pub(super) fn new(
        cf: &Arc<ColumnFamily>,
        range: RangeOpt<'_>,
        options: &IngestExternalFileOptions,
    ) -> Result<ReplacedRange> {
        if options.snapshot_consistency {
            return Err(Error::not_supported(
                "atomic_replace_range not yet supported with snapshot_consistency.",
            ));
        }
        let range = match (range.start, range.limit) {
            (None, None) => None,
            (Some(start), Some(limit)) => Some((cf.icmp.first_version(start), cf.icmp.last_version(limit))),
            _ => {
                return Err(Error::not_supported(
                    "Only one of atomic_replace_range.{start,limit}.has_value() is not supported.",
                ));
            }
        };
        if let Some((first, last)) = &range
            && cf.icmp.compare_plain_keys(first, last).is_gt()
        {
            return Err(Error::invalid_argument("atomic_replace_range ends before it begins"));
        }
        Ok(ReplacedRange { cf: cf.clone(), range })
    }

    /// Checks that all keys of the file are in the range.
    /// # Errors
    /// `InvalidArgument`.
    pub(super) fn check_contains(&self, file: &PreparedFile) -> Result<()> {
        let icmp = &self.cf.icmp;
        let contains = |(first, last): &(Vec<u8>, Vec<u8>)| {
            icmp.compare_plain_keys(first, file.smallest()).is_le()
                && icmp.compare_plain_keys(file.largest(), last).is_le()
        };
        if self.range.as_ref().is_none_or(contains) {
            return Ok(());
        }
        let what = "Atomic replace range does not contain all files";
        Err(Error::invalid_argument(what).at(file.source.display()))
    }

    /// The files with keys of the range, and their levels.
    /// # Errors
    /// `InvalidArgument`: a file has other keys, too, or a compaction may write into the range.
    pub(super) fn files(
        &self,
        version: &Version,
        running: &RunningCompactions,
    ) -> Result<Vec<(usize, Arc<FileMeta>)>> {
        let Some((first, last)) = &self.range else {
            if !running.is_empty() {
                let what = "Atomic replace range (full) overlaps with pending compaction";
                return Err(Error::invalid_argument(what));
            }
            return Ok(version.all_files().map(|(level, file)| (level, file.clone())).collect());
        };
        let mut files = Vec::new();
        for level in 0..version.num_levels() {
            if running.writes_into(level, first, last, version.icmp()) {
                let what = "Atomic replace range overlaps with pending compaction";
                return Err(Error::invalid_argument(what));
            }
            let overlapping = version.overlapping(level, Some(first), Some(last)).into_iter();
            files.extend(overlapping.map(|file| (level, file)));
        }
        match files.iter().find(|(_, file)| !self.contains(file)) {
            Some((_, file)) => {
                let what = "Atomic replace range partially overlaps with existing file";
                Err(Error::invalid_argument(what).at(format!("{}", file.number)))
            }
            None => Ok(files),
        }
    }

    fn contains(&self, file: &FileMeta) -> bool {
        let icmp = &self.cf.icmp;
        self.range.as_ref().is_none_or(|(first, last)| {
            icmp.compare_plain_keys(first, file.smallest_user_key()).is_le()
                && icmp.compare_plain_keys(file.largest_user_key(), last).is_le()
        })
    }
}
