//! The hidden column family of the statistics' history, at an open.
//!
//! In: the families that the caller names, and those of the MANIFEST. Out: the hidden family among
//! them, if the database has it or the options request it.
//! Source: RocksDB `db/version_edit_handler.cc`, which opens the family unasked.

use super::Opening;
use crate::db::{ColumnFamilyDescriptor, OpenMode, make_consistent};
use crate::options::{ColumnFamilyOptions, CompressionType};
use crate::version::STATS_HISTORY_COLUMN_FAMILY_NAME;
use esker_base::Result;
use std::collections::HashSet;

impl Opening {
    /// Adds the hidden family, and gives it RocksDB's options for it. `known` are the families of
    /// the MANIFEST. A reader opens the family only if its options request the history.
    /// # Errors
    /// `InvalidArgument`: the options of the database do not fit together.
    pub(super) fn add_stats_history(&mut self, known: &HashSet<String>) -> Result<()> {
        let name = STATS_HISTORY_COLUMN_FAMILY_NAME;
        let (is_there, requested) = (known.contains(name), self.options.persist_stats_to_disk);
        let is_wanted = match self.mode {
            OpenMode::ReadWrite => is_there || requested,
            OpenMode::ReadOnly => is_there && requested,
        };
        let named = self.families.iter().position(|family| family.name == name);
        if named.is_none() && !is_wanted {
            return Ok(());
        }
        let mut family = ColumnFamilyDescriptor::new(name, family_options());
        for change in make_consistent(&self.options, &mut family)? {
            esker_base::info_log!(self.info_log, Warn, "Options: {change}");
        }
        match named {
            Some(index) => self.families[index] = family,
            None => {
                self.hides_stats_history = true;
                self.families.push(family);
            }
        }
        Ok(())
    }

    /// The hidden family, if the caller has not named it: a database may have it.
    pub(super) fn unnamed_stats_history(&self) -> Option<ColumnFamilyDescriptor> {
        let is_named = self.families.iter().any(|family| family.name == STATS_HISTORY_COLUMN_FAMILY_NAME);
        let family = || ColumnFamilyDescriptor::new(STATS_HISTORY_COLUMN_FAMILY_NAME, family_options());
        (!is_named).then(family)
    }

    /// Whether the options create this family although `create_missing_column_families` is off.
    pub(super) fn is_requested_history(&self, family: &ColumnFamilyDescriptor) -> bool {
        let creates = self.mode == OpenMode::ReadWrite && self.options.persist_stats_to_disk;
        creates && family.name == STATS_HISTORY_COLUMN_FAMILY_NAME
    }
}

/// RocksDB's options for the family: small files without compression.
pub(in crate::db) fn family_options() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        write_buffer_size: 2 << 20,
        target_file_size_base: 2 << 20,
        max_bytes_for_level_base: 10 << 20,
        soft_pending_compaction_bytes_limit: 256 << 20,
        hard_pending_compaction_bytes_limit: 1 << 30,
        compression: CompressionType::None,
        ..ColumnFamilyOptions::default()
    }
}
