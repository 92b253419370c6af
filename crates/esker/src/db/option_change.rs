//! A database made ready for another compaction style or fewer levels: RocksDB's
//! `OptionChangeMigration`.
//!
//! In: the options under which a closed database was written, and those for its next opening. Out:
//! files in levels that the new options accept. Source of the rules: RocksDB
//! `utilities/option_change_migration/option_change_migration.cc`.

use super::{ColumnFamilyDescriptor, ColumnFamilyHandle, Db, OpenMode};
use crate::options::{BottommostLevelCompaction, ColumnFamilyOptions, CompactRangeOptions, DbOptions};
use crate::picker::CompactionStyle;
use esker_base::{Error, Result};
use std::path::Path;

/// A size that no file and no compaction reaches: outputs are one file.
const ONE_FILE: u64 = 999_999_999_999_999;
/// Files in level 0 that never slow writers down.
const NEVER: i32 = 999_999;

/// Compacts a closed database so that it can be opened with `new` in place of `old`: other
/// compaction styles, or fewer levels. `old` and `new` name the same families in the same order. It
/// changes files, not options: open the database with `new` afterwards. It may compact everything.
/// If it fails or is killed, the database is as it was, or as it is in the middle: run it again, or
/// open the database with `old`.
///
/// A FIFO family with a limit of its size drops files beyond the limit at its next opening: a
/// family that moves to FIFO is one file then, and may be dropped as a whole.
///
/// ```
/// use esker::options::CompactionStyle;
/// use esker::{ColumnFamilyDescriptor, Db, Options, option_change_migration};
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let old = Options::new().create_if_missing(true);
/// # let db = Db::open(&old, dir.path())?;
/// # db.put("esker", "gravel")?;
/// # db.close()?;
/// # drop(db);
///
/// let mut new = old.clone();
/// new.cf.compaction_style = CompactionStyle::Universal;
/// new.cf.num_levels = 1;
/// let family = |options: &Options| [ColumnFamilyDescriptor::new("default", options.cf.clone())];
/// option_change_migration(&old.db, dir.path(), family(&old), family(&new))?;
/// let db = Db::open(&new, dir.path())?;
/// assert!(db.get("esker")?.is_some());
/// # Ok::<_, esker::Error>(())
/// ```
/// # Errors
/// `InvalidArgument`: `old` and `new` name other families, or another order · `NotSupported`: the
/// new compaction style is `None` · those of [`Db::open_cf`] and [`Db::compact_range_opt`].
pub fn option_change_migration(
    options: &DbOptions,
    path: impl AsRef<Path>,
    old: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
    new: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
) -> Result<()> {
    let (old, new) = (ColumnFamilyDescriptor::list(old), ColumnFamilyDescriptor::list(new));
    check_same(&old, &new)?;
    let families: Vec<_> = old
        .iter()
        .zip(&new)
        .map(|(old, new)| {
            ColumnFamilyDescriptor::new(&old.name, without_compactions(&old.options, &new.options))
        })
        .collect();
    let db = Db::open_with(options, path, families, OpenMode::ReadWrite)?;
    for (old, new) in old.iter().zip(&new) {
        let family = db.column_family(&old.name).ok_or_else(|| Error::not_found(old.name.clone()))?;
        migrate(&db, &family, &old.options, &new.options)?;
    }
    db.close()
}

/// Checks that both lists name the same families in the same order.
/// # Errors
/// `InvalidArgument`.
fn check_same(old: &[ColumnFamilyDescriptor], new: &[ColumnFamilyDescriptor]) -> Result<()> {
    if old.len() != new.len() {
        return Err(Error::invalid_argument(format!(
            "option_change_migration: {} old families and {} new ones: families are not added or dropped",
            old.len(),
            new.len()
        )));
    }
    match old.iter().zip(new).find(|(old, new)| old.name != new.name) {
        None => Ok(()),
        Some((old, new)) => Err(Error::invalid_argument(format!(
            "option_change_migration: old family '{}' stands beside new family '{}'",
            old.name, new.name
        ))),
    }
}

/// The options under which a family is compacted by hand only.
fn without_compactions(old: &ColumnFamilyOptions, new: &ColumnFamilyOptions) -> ColumnFamilyOptions {
    let to_level = new.compaction_style == CompactionStyle::Level;
    let grows = to_level && new.level_compaction_dynamic_level_bytes && new.num_levels > old.num_levels;
    let mut options = if grows { new.clone() } else { old.clone() };
    if to_level {
        options.target_file_size_base = new.target_file_size_base;
    }
    if new.num_levels == 1 || new.compaction_style == CompactionStyle::Fifo {
        options.target_file_size_base = ONE_FILE;
        options.max_compaction_bytes = ONE_FILE;
    }
    options.disable_auto_compactions = true;
    options.level0_slowdown_writes_trigger = NEVER;
    options.level0_stop_writes_trigger = NEVER;
    options.soft_pending_compaction_bytes_limit = 0;
    options.hard_pending_compaction_bytes_limit = 0;
    options
}

/// Brings all files of a family into the level that the new options want.
fn migrate(
    db: &Db,
    family: &ColumnFamilyHandle,
    old: &ColumnFamilyOptions,
    new: &ColumnFamilyOptions,
) -> Result<()> {
    let level = match new.compaction_style {
        _ if old.compaction_style == CompactionStyle::Fifo => return Ok(()),
        CompactionStyle::Universal if old.num_levels <= new.num_levels => return Ok(()),
        CompactionStyle::Universal => new.num_levels - 1,
        CompactionStyle::Level if old.num_levels == 1 => return Ok(()),
        CompactionStyle::Level if new.level_compaction_dynamic_level_bytes => new.num_levels - 1,
        CompactionStyle::Level => 1,
        CompactionStyle::Fifo => 0,
        CompactionStyle::None => {
            let what = "option_change_migration: to the compaction style None";
            return Err(Error::not_supported(what));
        }
    };
    let mut how = CompactRangeOptions::default().change_level(true).target_level(level);
    if level == 0 {
        // Level 0 takes one file only.
        how = how.bottommost_level_compaction(BottommostLevelCompaction::Force);
    }
    db.compact_range_opt(&how, family, None, None)
}
