//! `best_efforts_recovery`: before the database is opened, takes it back to the newest state that
//! has all its files.
//!
//! Invariants
//!  1. A directory that opens without the option opens the same with it, WALs included.
//!  2. If files are missing, no WAL is replayed, now or later: its writes may be newer than lost
//!     ones. WALs, tables and blob files that the state does not have go to `lost` before CURRENT
//!     changes. After a crash in between, the next recovery finds the same state.
//!  3. An open for reading only shows the same state of the families that it names, and writes
//!     nothing.

use super::{Opening, family_not_found};
use crate::files::{is_data_file, move_to_lost, names_if_there};
use crate::options::DbOptions;
use crate::version::DEFAULT_COLUMN_FAMILY_NAME;
use crate::version::beside_owner::{OwnersProgress, owner_has_changed};
use crate::version::best_efforts::{NewestState, newest_state};
use esker_base::{Error, FileNumber, Result};
use esker_format::file_name::{FileType, parse_file_name};
use std::path::{Path, PathBuf};

impl Opening {
    /// Puts in force the newest state that has all its files. Does nothing without the option, or
    /// if there is no MANIFEST.
    /// # Errors
    /// `InvalidArgument`: the families do not fit the database, or it exists and `error_if_exists`
    /// is on; nothing was changed · `Corruption`: no MANIFEST can be read, or `lost` already has a
    /// file with the name of a file to move · `IoError`.
    pub(super) fn settle_for_best_state(&self) -> Result<()> {
        let DbOptions { best_efforts_recovery, error_if_exists, env, .. } = &self.options;
        if !best_efforts_recovery {
            return Ok(());
        }
        let options = self.version_set_options(&env.fs);
        let unnamed = self.unnamed_stats_history();
        let families = self.families.iter().chain(&unnamed);
        let families: Vec<_> = families.map(|family| family.for_manifest(&self.path)).collect();
        let checks_ids = self.options.verify_sst_unique_id_in_manifest;
        let Some(state) = newest_state(&options, &families, checks_ids)? else { return Ok(()) };
        if *error_if_exists {
            let what = format!("{}: exists (error_if_exists is true)", self.path.display());
            return Err(Error::invalid_argument(what));
        }
        if state.losses.is_empty() {
            return state.put_in_force(&options, FileNumber::default());
        }
        self.check_families(&state)?;
        for loss in &state.losses {
            esker_base::info_log!(self.info_log, Warn, "best_efforts_recovery: {loss}");
        }
        let unused = self.unused_number()?;
        self.lose_others(&state)?;
        state.put_in_force(&options, unused)
    }

    /// The newest state that has all its files, for an open that writes nothing: `None` without the
    /// option, for a secondary, if CURRENT names a MANIFEST with that state, or if there is no
    /// MANIFEST.
    /// # Errors
    /// `InvalidArgument`: the families do not fit the database · `Corruption`: no MANIFEST can be
    /// read · `TryAgain`: the owner has changed files meanwhile · `IoError`.
    pub(super) fn best_state_for_reading(&self) -> Result<Option<NewestState>> {
        let fs = &self.options.env.fs;
        let is_wanted = self.options.best_efforts_recovery && self.secondary.is_none();
        if !is_wanted || !fs.file_exists(&self.path)? {
            return Ok(None);
        }
        let before = OwnersProgress::now(fs.as_ref(), &self.path);
        let options = self.version_set_options(fs);
        let families: Vec<_> = self.families.iter().map(|family| family.for_manifest(&self.path)).collect();
        let checks_ids = self.options.verify_sst_unique_id_in_manifest;
        let state = newest_state(&options, &families, checks_ids)?;
        let Some(state) = state.filter(|state| !state.is_in_force(&options)) else { return Ok(None) };
        if OwnersProgress::now(fs.as_ref(), &self.path) != before {
            return Err(owner_has_changed("the owner has logged an edit"));
        }
        for loss in &state.losses {
            esker_base::info_log!(self.info_log, Warn, "best_efforts_recovery: {loss}");
        }
        Ok(Some(state))
    }

    /// Checks that the state has each family to open.
    fn check_families(&self, state: &NewestState) -> Result<()> {
        let has = |name: &str| name == DEFAULT_COLUMN_FAMILY_NAME || state.has_family(name);
        let missing = self.families.iter().find(|family| !has(&family.name));
        match missing.filter(|_| !self.options.create_missing_column_families) {
            Some(family) => Err(family_not_found(&family.name)),
            None => Ok(()),
        }
    }

    /// The directories that may have files of the database.
    fn all_directories(&self) -> Vec<PathBuf> {
        let mut directories = self.other_directories();
        directories.extend([self.path.clone(), self.wal_dir.clone()]);
        directories.sort_unstable();
        directories.dedup();
        directories
    }

    /// A number that no file in the directories has.
    fn unused_number(&self) -> Result<FileNumber> {
        let mut largest = 0;
        for directory in self.all_directories() {
            let names = names_if_there(self.options.env.fs.as_ref(), &directory)?;
            let numbers = names.iter().filter_map(|name| parse_file_name(name));
            let numbers = numbers.filter(|(kind, _)| *kind != FileType::InfoLog).map(|(_, number)| number.0);
            let numbers = numbers.filter(|number| *number <= super::MAX_ALLOCATED_NUMBER);
            largest = numbers.fold(largest, u64::max);
        }
        Ok(FileNumber(largest + 1))
    }

    /// Moves the WALs, and the tables and blob files that `state` does not have, to `lost` in their
    /// directories.
    fn lose_others(&self, state: &NewestState) -> Result<()> {
        let fs = self.options.env.fs.as_ref();
        for directory in self.all_directories() {
            let mut names = names_if_there(fs, &directory)?;
            names.retain(|name| self.is_other(state, &directory, name));
            if !names.is_empty() {
                names.sort_unstable();
                let (dir, count) = (directory.display(), names.len());
                esker_base::info_log!(
                    self.info_log,
                    Warn,
                    "best_efforts_recovery: {dir}: moves {count} files to lost: {}",
                    names.join(" ")
                );
                move_to_lost(fs, &directory, &names)?;
            }
        }
        Ok(())
    }

    fn is_other(&self, state: &NewestState, directory: &Path, name: &str) -> bool {
        match parse_file_name(name) {
            Some((FileType::Wal, _)) => directory == self.wal_dir,
            Some((_, number)) => is_data_file(name) && !state.files.contains(&number),
            None => false,
        }
    }
}
