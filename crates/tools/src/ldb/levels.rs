//! Commands that move a family's tables between levels: reduce_levels and change_compaction_style.
//!
//! In: a closed database. Out: the same entries in other levels, and an OPTIONS file that says so.
//!
//! Intended difference: RocksDB's `ldb` leaves the number of levels and the style in the OPTIONS
//! file as they were, and writes the large file sizes there that its compaction used.

use super::Out;
use super::session::{Opened, Session};
use crate::failure::{CommandOutcome, Failure};
use clap::Args;
use esker::ColumnFamilyOptions;
use esker::options::{BottommostLevelCompaction, CompactRangeOptions, CompactionStyle};
use std::io::Write;

/// A file size that no output reaches, so that a compaction writes one file.
const ONE_FILE_BYTES: u64 = 1 << 50;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct ReduceLevelsOptions {
    /// New number of levels, at least 2
    #[arg(long)]
    new_levels: Option<i32>,
    /// Print the number of levels in use before the change
    #[arg(long)]
    print_old_levels: bool,
}

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct ChangeStyleOptions {
    /// Present style: 0 for level compaction, 1 for universal compaction
    #[arg(long)]
    old_compaction_style: Option<i32>,
    /// New style: 0 for level compaction, 1 for universal compaction
    #[arg(long)]
    new_compaction_style: Option<i32>,
}

/// Number of files in each level.
fn files_per_level(opened: &Opened) -> Vec<usize> {
    let family = opened.db.column_family_metadata(&opened.family);
    family.levels.iter().map(|level| level.files.len()).collect()
}

/// Compacts the family into one level and moves it to `target_level`.
fn compact_to_level(opened: &Opened, target_level: i32, one_file: bool) -> CommandOutcome {
    let how = match one_file {
        true => BottommostLevelCompaction::Force,
        false => BottommostLevelCompaction::default(),
    };
    let options = CompactRangeOptions {
        change_level: true,
        target_level,
        bottommost_level_compaction: how,
        max_subcompactions: 1,
        ..CompactRangeOptions::default()
    };
    let compacted = opened.db.compact_range_opt(&options, &opened.family, None, None);
    compacted.map_err(|e| Failure::new(format_args!("Compaction failed: {e}")))
}

/// Moves the family's tables into its first `--new_levels` levels.
pub(super) fn reduce_levels(
    session: &mut Session,
    options: &ReduceLevelsOptions,
    out: &mut Out,
) -> CommandOutcome {
    let levels = match options.new_levels {
        Some(levels) if levels > 1 => levels,
        Some(levels) if levels > 0 => return Err(Failure::new("--new_levels: Invalid number of levels.")),
        _ => return Err(Failure::new("Use --new_levels to specify a new level number")),
    };
    let files = files_per_level(&session.open_for_read_only()?);
    let in_use = files.iter().rposition(|count| *count > 0).map_or(0, |level| level + 1);
    if options.print_old_levels {
        writeln!(out, "The old number of levels in use is {in_use}")?;
    }
    if in_use <= levels as usize {
        return Ok(());
    }
    session.change_family(|family| family.disable_auto_compactions = true);
    let opened = session.open()?;
    let told = writeln!(out, "Compacting the db...").map_err(Failure::from);
    let compacted = told.and_then(|()| compact_to_level(&opened, levels - 1, false));
    finish(session, opened, compacted, |family| family.num_levels = levels)
}

/// Closes the database and opens it once more with its own options, so that its OPTIONS file has
/// them again; with `change` if the work was `done`. That open also proves that the change suits
/// the files: a refused change is taken back.
/// # Errors
/// The first one, of the work, the close and the opens in this order.
fn finish(
    session: &mut Session,
    opened: Opened,
    done: CommandOutcome,
    change: impl FnOnce(&mut ColumnFamilyOptions),
) -> CommandOutcome {
    let closed = opened.db.close().map_err(Failure::from);
    drop(opened);
    session.restore_family();
    let mut done = done.and(closed);
    if done.is_ok() {
        session.change_family(change);
        done = write_options(session);
        if done.is_ok() {
            return done;
        }
        session.restore_family();
    }
    done.and(write_options(session))
}

/// Opens and closes the database, which writes its options into a new OPTIONS file.
fn write_options(session: &Session) -> CommandOutcome {
    Ok(session.open()?.db.close()?)
}

/// Checks that the change is one from level to universal compaction.
/// # Errors
/// Styles that no change leads from and to.
fn check_styles(options: &ChangeStyleOptions) -> CommandOutcome {
    let style = |given: Option<i32>, which: &str| match given {
        Some(style @ (0 | 1)) => Ok(style),
        _ => Err(Failure::new(format_args!(
            "Use --{which}_compaction_style to specify {which} compaction style. Check ldb help for proper \
             compaction style value."
        ))),
    };
    match (style(options.old_compaction_style, "old")?, style(options.new_compaction_style, "new")?) {
        (0, 1) => Ok(()),
        (1, 0) => Err(Failure::new("Convert from universal compaction to level compaction. Nothing to do.")),
        _ => Err(Failure::new("Old compaction style is the same as new compaction style. Nothing to do.")),
    }
}

/// Makes a family of level compaction one of universal compaction: one file, in level 0.
pub(super) fn change_compaction_style(
    session: &mut Session,
    options: &ChangeStyleOptions,
    out: &mut Out,
) -> CommandOutcome {
    check_styles(options)?;
    let style = session.family_options()?.compaction_style;
    if style != CompactionStyle::Level {
        let what = format_args!("--old_compaction_style=0, but the family's OPTIONS say {style:?}");
        return Err(Failure::new(what));
    }
    session.change_family(|family| {
        family.disable_auto_compactions = true;
        family.target_file_size_base = ONE_FILE_BYTES;
        family.target_file_size_multiplier = 1;
        family.max_bytes_for_level_base = ONE_FILE_BYTES;
        family.max_compaction_bytes = ONE_FILE_BYTES;
        family.sst_partitioner_factory = None;
    });
    let opened = session.open()?;
    let compacted = compact_into_one_file(&opened, out);
    finish(session, opened, compacted, |family| family.compaction_style = CompactionStyle::Universal)
}

/// Compacts the family into one file in level 0, and prints the files of each level before and
/// after.
fn compact_into_one_file(opened: &Opened, out: &mut Out) -> CommandOutcome {
    writeln!(out, "files per level before compaction: {}", list(&files_per_level(opened)))?;
    compact_to_level(opened, 0, true)?;
    let files = files_per_level(opened);
    check_one_file(&files)?;
    Ok(writeln!(out, "files per level after compaction: {}", list(&files))?)
}

fn list(files: &[usize]) -> String {
    files.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// Checks that there is one file at most, in level 0.
/// # Errors
/// The level that has more.
fn check_one_file(files: &[usize]) -> CommandOutcome {
    let too_many = files.iter().enumerate().find(|(level, count)| **count > usize::from(*level == 0));
    too_many.map_or(Ok(()), |(level, count)| {
        let expected = u8::from(level == 0);
        Err(Failure::new(format_args!(
            "Number of db files at level {level} after compaction is {count}, not {expected}."
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::ldb::Common;
    use esker::Env;
    use esker::internals::env::{FaultFs, FaultRule, MemFs, OpKind};
    use esker::options::load_latest_options_from;
    use esker::{FlushOptions, WriteOptions};
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn the_options_come_back_after_a_failed_compaction_whose_close_fails_too() {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let host = Host::unheard(Env::with_fs(Arc::new(fs.clone())), Vec::new());
        let common = Common {
            db: Some("/db".into()),
            column_family: "default".to_owned(),
            create_if_missing: true,
            ..Common::default()
        };
        let mut session = Session::new(&common, &host).unwrap();
        session.change_family(|family| family.disable_auto_compactions = true);
        let opened = session.open().unwrap();
        opened.db.put_opt(&WriteOptions::default().disable_wal(true), &opened.family, "k", "v").unwrap();
        fs.add_rule(FaultRule::fail(&[OpKind::Append]).on_name(".sst").forever());
        opened.db.flush_opt(&FlushOptions::default(), &[&opened.family]).unwrap_err();
        let failed = finish(&mut session, opened, Err(Failure::new("the compaction")), |_| unreachable!());
        assert!(matches!(&failed, Err(Failure::Told(why)) if why == "the compaction"), "{failed:?}");
        let options = load_latest_options_from(&fs, Path::new("/db")).unwrap();
        assert!(!options.family("default").unwrap().disable_auto_compactions);
    }
}
