//! Copies of the database, and other instances beside it.
//!
//! In: checkpoints, backups, copies that are repaired or downgraded; instances that read the open
//! database beside its owner. Snapshots and iterators are open, and transactions of any write
//! policy are running, spilled or prepared. Out: contents that are the model's, and the prepared
//! transactions, which a copy commits and rolls back as the database itself would.
//!
//! Invariants
//!  1. A copy is opened and compared as a whole, then destroyed. A repaired copy whose tables have
//!     no sure order is only destroyed.
//!  2. A repair takes entries of unresolved transactions in tables for committed ones. So a
//!     repaired copy may have any value of a key that a live transaction has written.
//!  3. A secondary refuses the WALs of early write policies. Until the owner has flushed them and
//!     let them go, it shows a state from before.

use super::journal::Journal;
use super::transactions::{describe_prepared, open_database, sections_that_differ};
use super::{Done, Event, Opened, OperationKind, PATH, Round, RoundStop, refused};
use crate::model::cursor::MOST_SKIPPED;
use crate::model::state::ModelState;
use esker::compat::{downgrade, inspect};
use esker::options::TargetVersion;
use esker::txn::WritePolicy;
use esker::{
    BackupEngine, BackupEngineOptions, Db, DbOptions, Error, ErrorKind, OpenMode, ReadOptions, RepairOptions,
    RepairSummary, RestoreMode, RestoreOptions, destroy_db, repair_db_with,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const BACKUPS: &str = "/backups";

/// Keys whose value in a copy is not known: the family and the index of each.
type UnknownKeys = BTreeSet<(usize, usize)>;

impl Round {
    pub(super) fn copy(&mut self, kind: OperationKind) -> Done {
        // A failing disk may damage the copy, and a WAL that has failed ends in damage.
        if self.is_in_trouble() || self.had_trouble && kind == OperationKind::Repair {
            return self.get();
        }
        let path = self.fresh_path("copy");
        self.note(Event::Other(format!("{kind:?} as {}", path.display())));
        let flushes = self.may_be_unlogged() || self.rng.bool();
        if kind == OperationKind::Backup {
            self.back_up(&path, flushes)?;
        } else {
            let log_size_for_flush = if flushes { 0 } else { u64::MAX };
            let done = self.db().create_checkpoint(&path, log_size_for_flush);
            done.map_err(refused("create_checkpoint"))?;
        }
        self.steps.copies += 1;
        let options = self.options_beside(0);
        let mut unknown = UnknownKeys::new();
        match kind {
            OperationKind::Repair => {
                let summary = self.repair(&path, flushes)?;
                // If the order of its tables is unsure, the copy need not equal the model.
                if !summary.order_unsure.is_empty() {
                    return destroy_db(&options.db, &path).map_err(refused("destroy_db"));
                }
                unknown = self.written_by_live();
            }
            OperationKind::Downgrade => self.downgrade(&path)?,
            _ => {}
        }
        if self.has_transactions && kind != OperationKind::Repair && self.rng.bool() {
            self.check_transactions_of_copy(&path)?;
        } else {
            self.check_copy(&path, &unknown)?;
        }
        destroy_db(&options.db, &path).map_err(refused("destroy_db"))
    }

    /// Makes another backup beside the earlier ones, and restores the newest: at once, or over an
    /// older one, of which each mode may keep other files.
    fn back_up(&mut self, path: &Path, flushes: bool) -> Done {
        // A crash may have damaged earlier backups.
        let directory = match self.journal {
            Some(_) => self.fresh_path("backups"),
            None => BACKUPS.into(),
        };
        let options = BackupEngineOptions { env: self.env.clone(), ..BackupEngineOptions::new(directory) };
        let mut engine = BackupEngine::open(&options).map_err(refused("BackupEngine::open"))?;
        let id = engine.create_new_backup(self.db(), flushes).map_err(refused("create_new_backup"))?;
        engine.verify_backup(id, self.rng.bool()).map_err(refused("verify_backup"))?;
        if self.rng.bool() {
            engine.purge_old_backups(2).map_err(refused("purge_old_backups"))?;
        }
        let modes = [
            RestoreMode::KeepLatestDbSessionIdFiles,
            RestoreMode::VerifyChecksum,
            RestoreMode::PurgeAllFiles,
        ];
        let mode = modes[self.rng.usize(..3)];
        if let Some(older) = engine.backup_infos().first().filter(|_| self.rng.bool()) {
            let restored = engine.restore_db_from_backup(older.backup_id, path, path);
            restored.map_err(refused("restore_db_from_backup"))?;
        }
        let how = RestoreOptions::default().mode(mode);
        let restored = engine.restore_db_from_latest_backup_with(&how, path, path);
        restored.map_err(refused("restore_db_from_latest_backup"))?;
        let kept = if self.journal.is_some() { 0 } else { 2 };
        if kept == 0 { engine.purge_old_backups(kept).map_err(refused("purge_old_backups")) } else { Ok(()) }
    }

    /// Repairs a copy; on a sound database salvage changes nothing.
    fn repair(&mut self, path: &Path, salvages: bool) -> Result<RepairSummary, RoundStop> {
        let families = self.settings.descriptors(&self.specs);
        let how = RepairOptions::new().salvage(salvages);
        let repaired = repair_db_with(&how, &self.options_beside(0), path, &families);
        let summary = repaired.map_err(refused("repair_db_with"))?;
        if !summary.tables_salvaged.is_empty() {
            return Err(RoundStop::Wrong(format!("salvaged: {:?}", summary.tables_salvaged)));
        }
        let is_live = |name: &&Vec<u8>| self.live.iter().any(|live| live.has_name(name));
        match summary.prepared_transactions_lost.iter().find(|name| !is_live(name)) {
            None => Ok(summary),
            Some(name) => {
                let what = format!("a repair lost '{}', which is over", name.escape_ascii());
                Err(RoundStop::Wrong(what))
            }
        }
    }

    fn downgrade(&mut self, path: &Path) -> Done {
        let families = self.settings.descriptors(&self.specs);
        let done = downgrade(&self.options_beside(0).db, path, families, TargetVersion::V7_8);
        done.map(drop).map_err(refused("downgrade"))?;
        let fs = self.env.fs.as_ref();
        let report = inspect(fs, path, path).map_err(refused("inspect of a downgraded copy"))?;
        match report.needs.iter().find(|need| !TargetVersion::V7_8.reads(need.feature)) {
            None => Ok(()),
            Some(need) => {
                Err(RoundStop::Wrong(format!("downgraded, and {} needs {:?}", need.file, need.feature)))
            }
        }
    }

    /// Opens the copy beside the database and compares it with the model.
    fn check_copy(&mut self, path: &Path, unknown: &UnknownKeys) -> Done {
        let options = self.options_beside(0);
        let descriptors = self.settings.descriptors(&self.specs);
        let mode = if self.rng.bool() { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let db = Db::open_with(&options.db, path, descriptors, mode);
        let db = db.map_err(refused(format!("open of {}", path.display())))?;
        let states = self.states.clone();
        self.compare_contents(&db, &states, unknown, &path.display().to_string())?;
        db.close().map_err(refused("close of a copy"))
    }

    /// Opens the copy for transactions, under any policy, and compares it with the model. Then it
    /// ends the prepared transactions, and compares the contents again.
    fn check_transactions_of_copy(&mut self, path: &Path) -> Done {
        let (db_options, policy) = (self.options_beside(0).db, self.settings.write_policy);
        let former = std::mem::replace(&mut self.settings.db, db_options);
        if self.parameters.mixes_policies {
            let policies =
                [WritePolicy::WriteCommitted, WritePolicy::WritePrepared, WritePolicy::WriteUnprepared];
            self.settings.write_policy = policies[self.rng.usize(..3)];
        }
        let opened = open_database(&self.settings, &self.specs, path, true);
        let copy = format!("{} under {:?}", path.display(), self.settings.write_policy);
        (self.settings.db, self.settings.write_policy) = (former, policy);
        let Opened::WithTransactions(db) = opened.map_err(refused(format!("open of {copy}")))? else {
            return Err(RoundStop::Wrong("a database without transactions".to_owned()));
        };
        let (mut states, known) = (self.states.clone(), UnknownKeys::new());
        self.compare_contents(db.db(), &states, &known, &copy)?;
        let (found, expected) = (prepared_in(&db), self.expected_prepared()?);
        if sections_that_differ(&found, &expected) > 0 {
            return Err(RoundStop::Wrong(format!("{copy}: {}", describe_prepared(&found, &expected))));
        }
        for (name, section) in &expected {
            let txn = db.get_transaction_by_name(name);
            let txn = txn.ok_or_else(|| format!("{copy}: '{}' is gone", name.escape_ascii()))?;
            let commits = self.rng.bool();
            let done = if commits { txn.commit() } else { txn.rollback() };
            done.map_err(refused(format!("{copy}: commit {commits} of '{}'", name.escape_ascii())))?;
            let ids: Vec<_> = self.handles.iter().map(esker::ColumnFamilyHandle::id).collect();
            let changes = section.changes.iter().filter(|(family, id, _)| commits && *id == ids[*family]);
            changes.for_each(|(family, _, write)| write.apply(&self.specs[*family], &mut states[*family]));
        }
        self.compare_contents(db.db(), &states, &known, &format!("{copy}, all ended"))?;
        db.db().close().map_err(refused("close of a copy"))
    }

    /// Reads the database beside its owner: for reading only, as a secondary, or as a follower. A
    /// secondary and a follower then catch up with some more operations.
    pub(super) fn read_beside(&mut self) -> Done {
        let unlogged = self.journal.as_ref().map_or_else(|| self.may_be_unlogged(), Journal::unlogged);
        if unlogged || self.had_trouble || self.is_in_trouble() {
            return self.get();
        }
        self.db().flush_wal(false).map_err(refused("flush_wal"))?;
        let (how, own) = (self.rng.u8(..3), self.fresh_path("beside"));
        let text = ["for reading only", "as a secondary", "as a follower"][usize::from(how)];
        self.note(Event::Other(format!("opened {text}")));
        let opened = self.open_beside(how, &own);
        let Some(beside) = self.unless_early(how, opened)? else { return self.remove_all(&own) };
        self.steps.copies += 1;
        let (before, known) = (self.states.clone(), UnknownKeys::new());
        self.compare_contents(&beside, &before, &known, text)?;
        if how > 0 {
            self.go_on()?;
            let caught_up = beside.try_catch_up_with_primary();
            let has_caught_up = self.unless_early(how, caught_up)?.is_some();
            // A refusal may come at any of the new records.
            if has_caught_up || self.compare_contents(&beside, &before, &known, text).is_err() {
                let states = self.states.clone();
                self.compare_contents(&beside, &states, &known, &format!("{text}, caught up"))?;
            }
        }
        beside.close().map_err(refused("close of a database beside its owner"))?;
        drop(beside);
        self.remove_all(&own)
    }

    fn open_beside(&self, how: u8, own: &Path) -> esker::Result<Db> {
        let (db, families) = (self.options_beside(0).db, self.settings.descriptors(&self.specs));
        let db = DbOptions { allow_2pc: self.has_transactions, follower_catchup_retry_count: 0, ..db };
        match how {
            0 => Db::open_with(&db, PATH, families, OpenMode::ReadOnly),
            1 => Db::open_cf_as_secondary(&db, PATH, own, families),
            _ => {
                let db = DbOptions { create_if_missing: true, ..db };
                Db::open_cf_as_follower(&db, own, PATH, families)
            }
        }
    }

    /// `None` if a secondary has refused WALs of an early policy, which this life writes.
    fn unless_early<T>(&mut self, how: u8, done: esker::Result<T>) -> Result<Option<T>, RoundStop> {
        let is_early = matches!(self.db, Some(Opened::WithTransactions(_)))
            && self.settings.write_policy != WritePolicy::WriteCommitted;
        match done {
            Err(error) if how > 0 && is_early && error.kind() == ErrorKind::NotSupported => {
                self.steps.refused_beside += 1;
                self.note(Event::Other(format!("refused: {error}")));
                Ok(None)
            }
            done => done.map(Some).map_err(refused("a database beside its owner")),
        }
    }

    /// A few operations of the owner.
    fn go_on(&mut self) -> Done {
        for _ in 0..self.rng.usize(..6) {
            match self.rng.u8(..8) {
                0 => self.flush()?,
                1 | 2 => self.transact()?,
                3 | 4 => self.resolve()?,
                _ => self.write_one(OperationKind::Put)?,
            }
        }
        self.db().flush_wal(false).map_err(refused("flush_wal"))
    }

    /// Removes the files of a directory.
    fn remove_all(&self, directory: &Path) -> Done {
        let fs = self.env.fs.as_ref();
        let names = fs.children(directory).unwrap_or_default();
        let removed: Result<(), Error> =
            names.iter().try_for_each(|name| fs.delete_file(&directory.join(name)));
        removed.map_err(refused(format!("deletion of {}", directory.display())))
    }

    /// Compares all contents with these states, but for the unknown keys.
    fn compare_contents(
        &mut self,
        db: &Db,
        states: &[ModelState],
        unknown: &UnknownKeys,
        copy: &str,
    ) -> Done {
        for (family, (spec, state)) in self.specs.iter().zip(states).enumerate() {
            let handle = db.column_family(spec.name).expect("the database was opened with all families");
            let newest = self.reading_at(family, u64::MAX);
            let bounded = ReadOptions { max_skippable_internal_keys: MOST_SKIPPED, ..newest };
            let mut iter = db.iter_opt(bounded, &handle).map_err(refused("iter_opt of a copy"))?;
            let is_known = |index: &usize| !unknown.contains(&(family, *index));
            let known = (0..spec.keys.len()).filter(is_known);
            let mut expected = known.filter_map(|i| Some((&spec.keys[i][..], state.get(i)?)));
            iter.seek_to_first();
            loop {
                while iter.item().is_some_and(|(key, _)| !is_known(&spec.lower_bound(key))) {
                    iter.next();
                }
                let (found, wanted) = (iter.item(), expected.next());
                self.comparisons += 1;
                if found != wanted {
                    let (found, wanted) = (shown(found), shown(wanted));
                    let what = format!("{copy}: {found}, and should be {wanted}");
                    return Err(RoundStop::Wrong(self.blame(family, None, &what)));
                }
                if wanted.is_none() {
                    break;
                }
                iter.next();
            }
            iter.status().map_err(refused("status of a copy's iterator"))?;
        }
        Ok(())
    }
}

/// The prepared transactions of a database, with their ops.
pub(super) fn prepared_in(db: &esker::TransactionDb) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let all = db.get_all_prepared_transactions();
    let ops = |txn: &esker::Transaction| txn.write_batch().write_batch().ops_bytes().to_vec();
    all.iter().map(|txn| (txn.name().unwrap_or_default().to_vec(), ops(txn))).collect()
}

fn shown(item: Option<(&[u8], &[u8])>) -> String {
    item.map_or("the end".to_owned(), |(key, value)| {
        format!("'{}' = '{}'", key.escape_ascii(), value.escape_ascii())
    })
}
