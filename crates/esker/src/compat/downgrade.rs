//! Rewrites a database so that an older RocksDB reads it.

use super::{CompatReport, inspect_with_paths};
use crate::db::{ColumnFamilyDescriptor, ColumnFamilyHandle, Db, OpenMode};
use crate::options::{
    BottommostLevelCompaction, CompactRangeOptions, CompactionOptions, CompactionStyle, DbOptions, Feature,
    FlushOptions, TargetVersion,
};
use esker_base::{Error, Result};
use std::path::Path;

/// The result of a downgrade.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Downgrade {
    /// The report before it.
    pub before: CompatReport,
    /// The report after it.
    pub after: CompatReport,
    /// Families whose tables were rewritten.
    pub rewritten: Vec<String>,
}

/// Rewrites the parts of the database in `path` that RocksDB of `target` cannot read: compacts
/// tables into older layouts, flushes WALs, and writes MANIFEST and OPTIONS file anew. `families`
/// are all families with their options from then on; options that request newer layouts are
/// lowered. The database must not be open.
///
/// If the call is interrupted, the database is whole, and another call continues.
/// # Errors
/// `NotSupported`, with nothing changed: names a feature of the database that the version does not
/// have · `InvalidArgument`: the database does not exist, or has families that are not named ·
/// `IoError`, retryable: open elsewhere · `Corruption` and `IoError` name the file.
pub fn downgrade(
    options: &DbOptions,
    path: impl AsRef<Path>,
    mut families: Vec<ColumnFamilyDescriptor>,
    target: TargetVersion,
) -> Result<Downgrade> {
    let path = path.as_ref();
    let mut options = options.clone();
    options.compatible_with = target;
    options.create_if_missing = false;
    let fs = options.env.fs.clone();
    let wal_dir = options.wal_dir.clone().unwrap_or_else(|| path.to_owned());
    let of_families = families.iter().flat_map(|family| &family.options.cf_paths);
    let paths: Vec<_> = options.db_paths.iter().chain(of_families).map(|p| p.path.clone()).collect();
    let before = inspect_with_paths(fs.as_ref(), path, &wal_dir, &paths)?;
    check(&before, target)?;
    for family in &mut families {
        family.options.limit_to(target);
    }
    let needs_tables =
        before.needs.iter().any(|need| !target.reads(need.feature) && is_in_tables(need.feature));
    let rewritten = if needs_tables { families.iter().map(|f| f.name.clone()).collect() } else { Vec::new() };
    rewrite(&options, path, families.clone(), needs_tables)?;
    // This open writes the options that the user wants from now on into the OPTIONS file.
    Db::open_with(&options, path, families, OpenMode::ReadWrite)?.close()?;
    let after = inspect_with_paths(fs.as_ref(), path, &wal_dir, &paths)?;
    match after.needs.iter().find(|need| !target.reads(need.feature)) {
        None => Ok(Downgrade { before, after, rewritten }),
        Some(left) => Err(Error::not_supported(format!(
            "{}: {} is left in {}, which RocksDB {} does not read",
            path.display(),
            left.feature.name(),
            left.file,
            target.name()
        ))),
    }
}

/// Flushes everything and, if `tables`, compacts all tables, each level into itself or deeper. This
/// work may be interrupted, and the OPTIONS file must keep the user's options. So the options of
/// this work are not written to it.
fn rewrite(
    options: &DbOptions,
    path: &Path,
    mut families: Vec<ColumnFamilyDescriptor>,
    tables: bool,
) -> Result<()> {
    families.iter_mut().for_each(|family| family.options.disable_auto_compactions = true);
    let described: Vec<_> = families.iter().map(|f| (f.name.clone(), f.options.compaction_style)).collect();
    let db = Db::open_keeping_options_file(options, path, families)?;
    for (name, style) in &described {
        let family = db.column_family(name).expect("it was opened");
        db.flush_opt(&FlushOptions::default(), &[&family])?;
        match style {
            _ if !tables => {}
            CompactionStyle::Fifo => rewrite_one_by_one(&db, &family)?,
            _ => {
                let all = CompactRangeOptions {
                    bottommost_level_compaction: BottommostLevelCompaction::Force,
                    target_path_id: CompactRangeOptions::PATH_OF_LEVEL,
                    ..CompactRangeOptions::default()
                };
                db.compact_range_opt(&all, &family, None, None)?;
            }
        }
    }
    db.close()
}

/// Rewrites each table by itself, with its age: FIFO deletes whole tables, and a joined one would
/// take too much with it.
fn rewrite_one_by_one(db: &Db, family: &ColumnFamilyHandle) -> Result<()> {
    let files = db.live_files().into_iter().filter(|file| file.column_family_name == family.name());
    for file in files {
        db.compact_files(&CompactionOptions::default(), family, &[file.file_number], 0)?;
    }
    Ok(())
}

/// Refuses features that rewriting cannot remove.
fn check(report: &CompatReport, target: TargetVersion) -> Result<()> {
    let hopeless = |feature| matches!(feature, Feature::TimestampsInMemory | Feature::UserDefinedIndex);
    match report.needs.iter().find(|need| !target.reads(need.feature) && hopeless(need.feature)) {
        None => Ok(()),
        Some(need) => Err(Error::not_supported(format!(
            "{}: {} needs RocksDB {}: it cannot be rewritten for {}",
            need.file,
            need.feature.name(),
            need.feature.since(),
            target.name()
        ))),
    }
}

fn is_in_tables(feature: Feature) -> bool {
    !matches!(feature, Feature::TimestampSizes | Feature::PredecessorRecords)
}
