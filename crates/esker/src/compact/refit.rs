//! `change_level` of `compact_range`, and `promote_l0`: moves the files of a level to another one
//! as they are.
//!
//! In: a level, and a target level or a request for the uppermost level that is large enough. Out:
//! an edit, logged and in force. Levels in between must be empty, so that newer entries stay above
//! older ones.
//! Source: RocksDB `DBImpl::ReFitLevel`, `DBImpl::PromoteL0`.

use super::manual::ExclusiveCompaction;
use crate::cf::ColumnFamily;
use crate::engine::{Engine, maybe_schedule, publish_super_version};
use crate::picker::score::LevelSizes;
use crate::picker::{CompactionStyle, PickerOptions};
use crate::version::{LogOptions, Version, VersionSet};
use esker_base::sync::Arc;
use esker_base::{Error, Result};
use esker_format::version_edit::VersionEdit;

/// Moves all files of `level` to `target`, or, if `target` is negative, to the uppermost level that
/// is large enough. No flush and no compaction runs meanwhile.
/// # Errors
/// `InvalidArgument`: there is no such level, or level 0 cannot hold the files · `NotSupported`: a
/// level in between has files · the background error in force, or the MANIFEST's error.
pub(super) fn refit_level(
    engine: &Arc<Engine>,
    family: &Arc<ColumnFamily>,
    level: usize,
    target: i32,
) -> Result<()> {
    let quiet = Quiet::begin(engine)?;
    let moved = move_files(engine, family, level, target);
    drop(quiet);
    engine.report_stall_changes();
    moved
}

/// Moves all files of level 0 to `target`. No flush and no compaction runs meanwhile, and no manual
/// compaction has a plan, which names files by level.
/// # Errors
/// See `Db::promote_l0`.
pub(crate) fn promote_l0(engine: &Arc<Engine>, family: &Arc<ColumnFamily>, target: i32) -> Result<()> {
    let target = usize::try_from(target).ok().filter(|target| *target > 0);
    let target = target.ok_or_else(|| Error::invalid_argument("Invalid target level"))?;
    let exclusive = ExclusiveCompaction::acquire(engine, family.id, None)?;
    let quiet = Quiet::begin(engine)?;
    let promote = || {
        let mut manifest = engine.manifest.lock();
        let (version, options) = present(engine, family, "promote_l0")?;
        if options.compaction_style == CompactionStyle::Fifo {
            return Err(Error::invalid_argument("promote_l0: FIFO compaction has level 0 only"));
        }
        check_promotion(&version, target)?;
        log_move(engine, &mut manifest, &version, 0, target)
    };
    let moved = promote();
    drop(quiet);
    drop(exclusive);
    engine.release_super_versions();
    engine.report_stall_changes();
    moved
}

fn check_promotion(version: &Version, target: usize) -> Result<()> {
    if target >= version.num_levels() {
        return Err(Error::invalid_argument("Target level does not exist"));
    }
    let icmp = version.icmp();
    let mut files: Vec<_> = version.files(0).iter().collect();
    files.sort_by(|a, b| icmp.compare(&a.largest, &b.largest));
    if files.windows(2).any(|pair| icmp.compare(&pair[0].largest, &pair[1].smallest).is_ge()) {
        return Err(Error::invalid_argument("L0 has overlapping files"));
    }
    match (1..=target).any(|level| version.num_files(level) > 0) {
        true => Err(Error::invalid_argument("All levels up to target_level must be empty")),
        false => Ok(()),
    }
}

/// The family's version and the options that pickers read.
fn present(engine: &Engine, family: &ColumnFamily, call: &str) -> Result<(Arc<Version>, PickerOptions)> {
    let state = engine.state.lock();
    if let Some(error) = state.background_error.current() {
        return Err(error.clone());
    }
    let Some(of_family) = state.families.get(&family.id) else {
        return Err(Error::column_family_dropped(format!("{call}: the family was dropped")));
    };
    Ok((of_family.version.clone(), of_family.compaction_options.clone()))
}

fn move_files(engine: &Arc<Engine>, family: &Arc<ColumnFamily>, level: usize, target: i32) -> Result<()> {
    let mut manifest = engine.manifest.lock();
    let (version, options) = present(engine, family, "compact_range")?;
    let target = match usize::try_from(target) {
        Ok(target) => target,
        Err(_) => smallest_level_for(&version, level, &LevelSizes::new(&version, &options)),
    };
    if target == level {
        return Ok(());
    }
    check_target(&version, level, target)?;
    log_move(engine, &mut manifest, &version, level, target)?;
    drop(manifest);
    engine.release_super_versions();
    Ok(())
}

/// Logs the move of all files of `level` to `target`, and publishes the new version.
/// # Errors
/// The MANIFEST's error.
fn log_move(
    engine: &Engine,
    manifest: &mut VersionSet,
    version: &Version,
    level: usize,
    target: usize,
) -> Result<()> {
    let files = version.files(level);
    let edit = VersionEdit {
        column_family: version.column_family(),
        deleted_files: files.iter().map(|f| (level, f.number)).collect(),
        new_files: files.iter().map(|f| (target, f.data().clone())).collect(),
        ..VersionEdit::default()
    };
    let versions = manifest.log_and_apply(vec![edit], LogOptions::default())?;
    engine.prepare_versions(&versions);
    let mut state = engine.state.lock();
    for (id, version) in versions {
        if let Some(of_family) = state.family_mut(id) {
            of_family.version = version;
        }
        publish_super_version(engine, &mut state, id);
    }
    Ok(())
}

/// The uppermost level, not level 0, to which the files of `level` can move: it and all levels
/// between are empty and large enough. `level` itself if there is none.
fn smallest_level_for(version: &Version, level: usize, sizes: &LevelSizes) -> usize {
    let fits = |candidate: &usize| {
        version.num_files(*candidate) == 0 && sizes.max_bytes[*candidate] >= version.size(level)
    };
    (1..level).rev().take_while(fits).last().unwrap_or(level)
}

fn check_target(version: &Version, level: usize, target: usize) -> Result<()> {
    if target >= version.num_levels() {
        return Err(Error::invalid_argument(format!(
            "compact_range: target_level {target} is not below num_levels ({})",
            version.num_levels()
        )));
    }
    if (target == 0 || level == 0) && version.num_files(level) > 1 {
        // Files of level 0 may overlap and are ordered by age; in other levels they are disjoint
        // and ordered by key.
        return Err(Error::invalid_argument("compact_range: only a single file can move to or from level 0"));
    }
    let on_the_way = if target > level { level + 1..target + 1 } else { target..level };
    match on_the_way.clone().find(|&l| version.num_files(l) > 0) {
        Some(l) => Err(Error::not_supported(format!(
            "compact_range: files cannot move from level {level} to level {target}: level {l} is not empty"
        ))),
        None => Ok(()),
    }
}

/// Excludes all other jobs while it lives: no flush or compaction begins, and a close waits.
struct Quiet<'a>(&'a Arc<Engine>);

impl<'a> Quiet<'a> {
    /// Waits for running flushes and compactions, and keeps new ones from beginning.
    /// # Errors
    /// `ShutdownInProgress`.
    fn begin(engine: &'a Arc<Engine>) -> Result<Quiet<'a>> {
        let mut state = engine.state.lock();
        state.quiet += 1;
        while state.flushes_scheduled + state.compactions_scheduled > 0 {
            engine.wait_for_change(&mut state);
        }
        state.compactions_scheduled += 1;
        drop(state);
        let quiet = Quiet(engine);
        engine.check_open()?;
        Ok(quiet)
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.compactions_scheduled -= 1;
        state.quiet -= 1;
        maybe_schedule(self.0, &mut state);
        self.0.state_changed.notify_all();
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod shared_keys;
