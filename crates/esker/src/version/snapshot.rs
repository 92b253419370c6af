//! The whole state of a set as edits, with which every fresh MANIFEST begins.
//!
//! Source: RocksDB `db/version_set.cc` (`WriteCurrentStateToManifest`); formats.md §5.8.

use super::set::{VersionSet, VersionSetFamily};
use esker_base::ColumnFamilyId;
use esker_format::version_edit::VersionEdit;

/// Edits that lead from an empty set to the current versions. The caller appends edits with the
/// counters.
pub(super) fn edits(set: &VersionSet) -> Vec<VersionEdit> {
    let max = set.max_column_family;
    let mut edits = vec![VersionEdit {
        db_id: set.db_id.clone().filter(|_| set.options().write_dbid_to_manifest),
        max_column_family: (max > 0).then_some(max),
        ..VersionEdit::default()
    }];
    for family in set.families() {
        edits.push(describe(family));
        edits.push(contents(family, set));
    }
    edits
}

/// The edit that adds a family: only its name and comparator may be in it.
fn describe(family: &VersionSetFamily) -> VersionEdit {
    let d = family.descriptor();
    VersionEdit {
        column_family: family.id(),
        column_family_add: (family.id() != ColumnFamilyId::DEFAULT).then(|| d.name.clone()),
        comparator: Some(d.comparator.name().to_owned()),
        persist_user_defined_timestamps: persist_timestamps(family.descriptor()),
        ..VersionEdit::default()
    }
}

/// The flag for the MANIFEST; `None` for a family without timestamps.
pub(super) fn persist_timestamps(d: &super::FamilyDescriptor) -> Option<bool> {
    (d.comparator.timestamp_size() > 0).then_some(d.persist_user_defined_timestamps)
}

fn contents(family: &VersionSetFamily, set: &VersionSet) -> VersionEdit {
    let version = family.current();
    let min_log = set.min_log_number_to_keep();
    let ts_low = version.full_history_ts_low();
    VersionEdit {
        column_family: family.id(),
        new_files: version.all_files().map(|(level, f)| (level, f.data().clone())).collect(),
        compact_cursors: version.compact_cursors.iter().map(|(&level, key)| (level, key.clone())).collect(),
        blob_file_additions: version.blob_files().values().map(|b| b.addition.clone()).collect(),
        blob_file_garbages: version.blob_files().values().filter_map(|b| b.garbage()).collect(),
        log_number: Some(family.log_number()),
        min_log_number_to_keep: (family.id() == ColumnFamilyId::DEFAULT && min_log.0 > 0).then_some(min_log),
        full_history_ts_low: (!ts_low.is_empty()).then(|| ts_low.to_vec()),
        last_sequence: Some(set.logged_sequence()),
        ..VersionEdit::default()
    }
}
