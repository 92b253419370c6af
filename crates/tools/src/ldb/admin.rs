//! Commands on a whole database: column families, consistency, compaction, sizes, properties.

use super::session::{Session, db_path};
use super::{Common, Out};
use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use crate::progress::LongCommand;
use crate::text::hex;
use clap::Args;
use esker::comparator::{self, BytewiseComparator};
use esker::internals::format::key::InternalKeyComparator;
use esker::internals::table::{TableReader, TableReaderOptions};
use esker::options::{BottommostLevelCompaction, CompactRangeOptions, TargetVersion};
use esker::{BackupEngine, BackupEngineOptions, Db};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Range {
    /// First key
    #[arg(long)]
    from: Option<String>,
    /// Key to end at
    #[arg(long)]
    to: Option<String>,
}

pub(super) fn list_column_families(common: &Common, host: &Host, out: &mut Out) -> CommandOutcome {
    let path = db_path(common)?;
    let names = Db::list_column_families(&host.db_options(), path)
        .map_err(|e| Failure::new(format_args!("Error in processing db {} {e}", path.display())))?;
    Ok(writeln!(out, "Column families in {}: \n{{{}}}", path.display(), names.join(", "))?)
}

pub(super) fn create_column_family(session: &Session, name: &str, out: &mut Out) -> CommandOutcome {
    let opened = session.open()?;
    opened
        .db
        .create_column_family(name, &session.new_family_options())
        .map_err(|e| Failure::new(format_args!("Fail to create new column family: {e}")))?;
    opened.db.close()?;
    Ok(writeln!(out, "OK")?)
}

pub(super) fn drop_column_family(session: &Session, name: &str, out: &mut Out) -> CommandOutcome {
    let opened = session.open()?;
    let family = opened
        .db
        .column_family(name)
        .ok_or_else(|| Failure::new(format_args!("Column family: {name} doesn't exist in db.")))?;
    opened
        .db
        .drop_column_family(&family)
        .map_err(|e| Failure::new(format_args!("Fail to drop column family: {e}")))?;
    opened.db.close()?;
    Ok(writeln!(out, "OK")?)
}

/// Checks consistency by an open with paranoid checks. It compares every file with the MANIFEST,
/// and checks the key order of levels.
pub(super) fn checkconsistency(session: &mut Session, out: &mut Out) -> CommandOutcome {
    session.options.paranoid_checks = true;
    session.open_for_read_only()?;
    Ok(writeln!(out, "OK")?)
}

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct BackupDir {
    /// Directory of the backups
    #[arg(long)]
    backup_dir: PathBuf,
    /// Accepted for scripts; files are copied one by one
    #[arg(long)]
    num_threads: Option<u32>,
}

impl BackupDir {
    /// The files for the progress of a restore: all backups, because the newest may use any file.
    pub(super) fn long_command(&self) -> Option<LongCommand> {
        Some(LongCommand::over("restoring", [&self.backup_dir]))
    }

    fn open(&self, host: &Host) -> Result<BackupEngine, esker::Error> {
        let threads = self.num_threads.unwrap_or(1);
        if threads == 0 {
            return Err(esker::Error::invalid_argument("num_threads must be at least 1"));
        }
        BackupEngine::open(&BackupEngineOptions::new(&self.backup_dir).env(host.env()))
    }
}

/// Adds a backup. As in RocksDB's tool, it copies WALs and does not flush memtables.
pub(super) fn backup(session: &Session, options: &BackupDir, host: &Host, out: &mut Out) -> CommandOutcome {
    let opened = session.open()?;
    let id = options.open(host)?.create_new_backup(&opened.db, false)?;
    opened.db.close()?;
    Ok(writeln!(out, "create backup OK (backup {id})")?)
}

/// Restores the newest backup; the database need not exist.
pub(super) fn restore(common: &Common, options: &BackupDir, host: &Host, out: &mut Out) -> CommandOutcome {
    let path = db_path(common)?;
    if !host.fs().file_exists(&options.backup_dir)? {
        return Err(Failure::new(format_args!("NotFound: {} is missing", options.backup_dir.display())));
    }
    options.open(host)?.restore_db_from_latest_backup(path, path)?;
    Ok(writeln!(out, "restore from backup OK")?)
}

/// Rewrites the database for RocksDB version `to`, without loss of data.
pub(super) fn downgrade(session: &Session, to: &str, out: &mut Out) -> CommandOutcome {
    let target = TargetVersion::from_name(to)?;
    let done = session.downgrade(target)?;
    for need in done.before.needs.iter().filter(|need| !target.reads(need.feature)) {
        writeln!(out, "gone: {} ({} files)", need.feature.name(), need.files)?;
    }
    if !done.rewritten.is_empty() {
        writeln!(out, "rewritten: the tables of {}", done.rewritten.join(", "))?;
    }
    Ok(writeln!(out, "OK: RocksDB {} and later open it", done.after.oldest())?)
}

/// Makes a checkpoint of the whole database; memtables are flushed first.
pub(super) fn checkpoint(session: &Session, directory: &Path, out: &mut Out) -> CommandOutcome {
    let opened = session.open()?;
    opened.db.create_checkpoint(directory, 0)?;
    opened.db.close()?;
    Ok(writeln!(out, "OK")?)
}

pub(super) fn compact(session: &Session, range: &Range) -> CommandOutcome {
    let (from, to) = (session.parse_bound(range.from.as_ref())?, session.parse_bound(range.to.as_ref())?);
    let opened = session.open()?;
    let options = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    opened.db.compact_range_opt(&options, &opened.family, from.as_deref(), to.as_deref())?;
    Ok(opened.db.close()?)
}

pub(super) fn approxsize(session: &Session, range: &Range, out: &mut Out) -> CommandOutcome {
    let missing = |which| Failure::new(format_args!("{which} must be specified for approxsize command"));
    let from = session.parse_bound(range.from.as_ref())?.ok_or_else(|| missing("from"))?;
    let to = session.parse_bound(range.to.as_ref())?.ok_or_else(|| missing("to"))?;
    let opened = session.open_for_read_only()?;
    Ok(writeln!(out, "{}", opened.db.approximate_size(&opened.family, &from, &to))?)
}

pub(super) fn get_property(session: &Session, name: &str, out: &mut Out) -> CommandOutcome {
    let opened = session.open_for_read_only()?;
    // RocksDB's tool prints map properties line by line. In 7.8.3 level statistics are no map.
    let map =
        if name == "rocksdb.levelstats" { None } else { opened.db.map_property_cf(&opened.family, name) };
    if let Some(map) = map {
        for (key, value) in map {
            writeln!(out, "{name}.{key}: {value}")?;
        }
        return Ok(());
    }
    let value = opened
        .db
        .property_cf(&opened.family, name)
        .ok_or_else(|| Failure::new(format_args!("failed to get property: {name}")))?;
    Ok(writeln!(out, "{name}: {value}")?)
}

pub(super) fn list_live_files_metadata(session: &Session, by_name: bool, out: &mut Out) -> CommandOutcome {
    let db = session.open_for_read_only()?.db;
    let names = db.column_family_names().into_iter();
    let families: Vec<_> =
        names.filter_map(|name| Some(db.column_family_metadata(&db.column_family(&name)?))).collect();
    let dir = session.path().display();
    if by_name {
        writeln!(out, "Live SST and Blob Files:")?;
        let mut lines = BTreeMap::new();
        for family in &families {
            let of = format!("column family '{}'", family.name);
            for (level, file) in family.levels.iter().flat_map(|l| l.files.iter().map(|file| (l.level, file)))
            {
                lines.insert(&file.relative_filename, format!(" : level {level}, {of}"));
            }
            lines.extend(family.blob_files.iter().map(|blob| (&blob.blob_file_name, format!(", {of}"))));
        }
        lines.iter().try_for_each(|(name, what)| writeln!(out, "{dir}/{name}{what}"))?;
    } else {
        for family in &families {
            writeln!(out, "===== Column Family: {} =====\nLive SST Files:", family.name)?;
            for level in &family.levels {
                writeln!(out, "---------- level {} ----------", level.level)?;
                let files = level.files.iter();
                files
                    .map(|file| &file.relative_filename)
                    .try_for_each(|name| writeln!(out, "{dir}/{name}"))?;
            }
            writeln!(out, "Live Blob Files:")?;
            let blobs = family.blob_files.iter();
            blobs.map(|blob| &blob.blob_file_name).try_for_each(|name| writeln!(out, "{dir}/{name}"))?;
        }
    }
    Ok(writeln!(out, "------------------------------")?)
}

/// Prints the range deletions in the tables of the family, `most` of them, newest tables first.
pub(super) fn list_file_range_deletes(
    session: &Session,
    most: usize,
    host: &Host,
    out: &mut Out,
) -> CommandOutcome {
    let opened = session.open_for_read_only()?;
    let family = opened.db.column_family_metadata(&opened.family);
    let mut left = most;
    for file in family.levels.iter().flat_map(|level| &level.files) {
        writeln!(out, "=== file : {} ===", session.path().join(&file.relative_filename).display())?;
        let path = file.directory.join(&file.relative_filename);
        let size = host.fs().file_size(&path)?;
        let table = host.fs().new_random_access_file(&path)?;
        let properties = TableReader::properties_of(table.clone(), size)?;
        let order =
            comparator::by_name(&properties.comparator_name).unwrap_or_else(|| Arc::new(BytewiseComparator));
        let options = TableReaderOptions::new(InternalKeyComparator::new(order), Arc::default(), size);
        let reader = TableReader::open(table, options)?;
        let Some(tombstones) = reader.range_dels() else { continue };
        for i in 0..tombstones.len() {
            let fragment = tombstones.fragment(i);
            for sequence in tombstones.sequences(i) {
                let (start, end) = (hex(fragment.start), hex(fragment.end));
                writeln!(out, "start: {start} end: {end} seq: {sequence}")?;
                left -= 1;
                if left == 0 {
                    return Ok(writeln!(out, "(results may not be complete)\n")?);
                }
            }
        }
    }
    Ok(writeln!(out)?)
}
