//! Features that `compatible_with` may rule out, each with the first RocksDB release that reads it.
//!
//! In: a target version. Out: whether a feature may be written, or an error with the option's name.
//! Source: RocksDB `HISTORY.md`, by release; the effect of each on 7.8.3 is measured (docs/compat/,
//! "Target version").
//!
//! Invariants
//!  1. The named RocksDB and all later releases read everything that is written with accepted
//!     options.
//!  2. Esker reads features that a directory already holds. `downgrade` rewrites the files without
//!     them.

use super::value::OptionValue;
use super::{ColumnFamilyOptions, DbOptions, TargetVersion};
use esker_base::{Error, Result};
use std::fmt;

/// Table format versions that Esker keeps from OPTIONS files, which do not name `compatible_with`.
pub(super) const FORMAT_VERSIONS_LOADED: std::ops::RangeInclusive<u32> = 2..=5;

/// A release of RocksDB: its major and minor number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Release(pub u32, pub u32);

impl Release {
    /// The oldest release that Esker writes for.
    pub const OLDEST: Release = Release(7, 8);
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// A feature that RocksDB 7.8 cannot read, though later ones can.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Feature {
    /// Checksums that depend on a block's place.
    FormatVersion6,
    /// Compression managers.
    FormatVersion7,
    /// Data blocks that store values apart from keys.
    SeparatedValues,
    /// Index blocks marked for search by interpolation.
    UniformIndex,
    /// Values as records among the blocks of the same table.
    EmbeddedBlobs,
    /// Wide-column entities with some columns in blob files (version 2).
    EntityBlobs,
    /// Values with a preferred sequence number.
    TimedPut,
    /// WAL records with the length of timestamps.
    TimestampSizes,
    /// Families whose tables are without the timestamps of their keys.
    TimestampsInMemory,
    /// WAL records about the preceding WAL.
    PredecessorRecords,
    /// An index by user code in place of RocksDB's.
    UserDefinedIndex,
    /// Common prefixes of keys, stored once in a block.
    FormatVersion8,
}

impl Feature {
    /// All features, oldest first.
    pub const ALL: [Feature; 12] = [
        Feature::TimestampSizes,
        Feature::TimestampsInMemory,
        Feature::FormatVersion6,
        Feature::TimedPut,
        Feature::PredecessorRecords,
        Feature::FormatVersion7,
        Feature::SeparatedValues,
        Feature::UniformIndex,
        Feature::EntityBlobs,
        Feature::EmbeddedBlobs,
        Feature::UserDefinedIndex,
        Feature::FormatVersion8,
    ];

    /// The first release that reads the feature.
    pub fn since(self) -> Release {
        match self {
            Feature::TimestampSizes | Feature::TimestampsInMemory => Release(8, 4),
            Feature::FormatVersion6 => Release(8, 6),
            Feature::TimedPut => Release(9, 1),
            Feature::PredecessorRecords => Release(9, 11),
            Feature::FormatVersion7 => Release(10, 4),
            Feature::SeparatedValues => Release(11, 0),
            Feature::UniformIndex => Release(11, 1),
            Feature::EntityBlobs => Release(11, 2),
            Feature::EmbeddedBlobs | Feature::UserDefinedIndex => Release(11, 6),
            Feature::FormatVersion8 => Release(11, 10),
        }
    }

    /// The option or call that uses the feature.
    pub fn name(self) -> &'static str {
        match self {
            Feature::TimestampSizes => "comparator with timestamps (type-10 WAL records)",
            Feature::TimestampsInMemory => "persist_user_defined_timestamps=false",
            Feature::FormatVersion6 => "format_version=6",
            Feature::TimedPut => "timed_put",
            Feature::PredecessorRecords => "track_and_verify_wals",
            Feature::FormatVersion7 => "format_version=7",
            Feature::SeparatedValues => "separate_key_value_in_data_block",
            Feature::UniformIndex => "index_block_search_type=kAuto",
            Feature::EntityBlobs => "put_entity with columns in blob files",
            Feature::EmbeddedBlobs => "embedded blobs",
            Feature::UserDefinedIndex => "user_defined_index_factory",
            Feature::FormatVersion8 => "format_version=8",
        }
    }
}

impl TargetVersion {
    /// All targets, oldest first.
    pub const ALL: [TargetVersion; 6] = [
        TargetVersion::V7_8,
        TargetVersion::V8,
        TargetVersion::V9,
        TargetVersion::V10,
        TargetVersion::V11,
        TargetVersion::V11_10,
    ];

    /// The target called `text`: "7.8", "8.x", …
    /// # Errors
    /// `InvalidArgument`: names the valid targets.
    pub fn from_name(text: &str) -> Result<TargetVersion> {
        let names = || TargetVersion::ALL.map(TargetVersion::name).join(", ");
        TargetVersion::ALL
            .into_iter()
            .find(|target| target.name() == text || target.name().split('.').next() == Some(text))
            .ok_or_else(|| {
                Error::invalid_argument(format!("'{text}' is no target version: one of {}", names()))
            })
    }

    /// The target's name as a value of `compatible_with`.
    pub fn name(self) -> &'static str {
        match self {
            TargetVersion::V7_8 => "7.8",
            TargetVersion::V8 => "8.x",
            TargetVersion::V9 => "9.x",
            TargetVersion::V10 => "10.x",
            TargetVersion::V11 => "11.x",
            TargetVersion::V11_10 => "11.10",
        }
    }

    /// The last release of the target.
    pub fn release(self) -> Release {
        match self {
            TargetVersion::V7_8 => Release(7, 8),
            TargetVersion::V8 => Release(8, 11),
            TargetVersion::V9 => Release(9, 11),
            TargetVersion::V10 => Release(10, 11),
            TargetVersion::V11 => Release(11, 9),
            TargetVersion::V11_10 => Release(11, u32::MAX),
        }
    }

    /// Whether the target's release reads `feature`.
    pub fn reads(self, feature: Feature) -> bool {
        self.release() >= feature.since()
    }

    /// Refuses `feature` if the target's release cannot read it.
    /// # Errors
    /// `InvalidArgument` naming the option and both versions.
    pub fn require(self, feature: Feature) -> Result<()> {
        if self.reads(feature) {
            return Ok(());
        }
        let enough = TargetVersion::ALL.into_iter().find(|target| target.reads(feature));
        Err(Error::invalid_argument(format!(
            "option {}: RocksDB {} cannot read it: set compatible_with to \"{}\" or later",
            feature.name(),
            self.print(),
            enough.unwrap_or(TargetVersion::V11_10).print()
        )))
    }
}

impl ColumnFamilyOptions {
    /// Refuses options that `db.compatible_with` rules out.
    /// # Errors
    /// `InvalidArgument` naming the option.
    pub fn validate_target(&self, db: &DbOptions) -> Result<()> {
        self.newer_features().into_iter().try_for_each(|feature| db.compatible_with.require(feature))
    }

    /// Features that these options request and RocksDB 7.8 cannot read.
    pub fn newer_features(&self) -> Vec<Feature> {
        let table = &self.table;
        let mut asked = Vec::new();
        match table.format_version {
            0..=5 => {}
            6 => asked.push(Feature::FormatVersion6),
            8.. => asked.push(Feature::FormatVersion8),
            _ => asked.push(Feature::FormatVersion7),
        }
        if table.separate_key_value_in_data_block {
            asked.push(Feature::SeparatedValues);
        }
        if !self.persist_user_defined_timestamps && self.comparator.timestamp_size() > 0 {
            asked.push(Feature::TimestampsInMemory);
        }
        asked
    }

    /// Limits the table format to the newest version that `target` reads, and stores values beside
    /// keys if it must. Does not change whether tables store timestamps.
    pub fn limit_to(&mut self, target: TargetVersion) {
        let newest = if target.reads(Feature::FormatVersion8) {
            8
        } else if target.reads(Feature::FormatVersion7) {
            7
        } else if target.reads(Feature::FormatVersion6) {
            6
        } else {
            *FORMAT_VERSIONS_LOADED.end()
        };
        self.table.format_version = self.table.format_version.min(newest);
        self.table.separate_key_value_in_data_block &= target.reads(Feature::SeparatedValues);
    }
}

#[cfg(test)]
mod tests;
