//! What each RocksDB can read: which options `compatible_with` refuses.
//!
//! Source: RocksDB `HISTORY.md` (8.6: format_version 6; 10.4: format_version 7; 11.0: separate keys and values).
//!
//! Invariant: with options that pass, every byte written is read by the RocksDB named and by all later ones.

use super::value::OptionValue;
use super::{ColumnFamilyOptions, DbOptions, TargetVersion};
use esker_base::{Error, Result};

/// Versions of the table format that are taken over from OPTIONS files, which do not say `compatible_with`.
pub(super) const FORMAT_VERSIONS_LOADED: std::ops::RangeInclusive<u32> = 2..=5;

impl TargetVersion {
    /// Refuses `option` if a RocksDB before `since` cannot read what it makes.
    /// # Errors
    /// `InvalidArgument` naming the option and both versions.
    pub(crate) fn require(self, option: &str, since: TargetVersion) -> Result<()> {
        if self >= since {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "option {option}: RocksDB {} cannot read it: set compatible_with to \"{}\" or later",
            self.print(),
            since.print()
        )))
    }
}

impl ColumnFamilyOptions {
    /// Refuses what `db.compatible_with` rules out.
    /// # Errors
    /// `InvalidArgument` naming the option.
    pub fn validate_target(&self, db: &DbOptions) -> Result<()> {
        let (target, table) = (db.compatible_with, &self.table);
        match table.format_version {
            0..=5 => {}
            6 => target.require("format_version=6", TargetVersion::V8)?,
            _ => target.require("format_version=7", TargetVersion::V10)?,
        }
        if table.separate_key_value_in_data_block {
            target.require("separate_key_value_in_data_block", TargetVersion::V11)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
