//! One database from its creation on: random operations, with each answer compared.

mod audited;
mod beside_transactions;
mod copies;
mod delete_files;
mod ingest;
mod journal;
mod kinds;
mod policies;
mod reads;
mod stamped;
mod transactions;
mod trouble;
mod upkeep;

use journal::Journal;
pub(crate) use journal::{Floor, Promises};
pub use kinds::OperationKind;
use kinds::{WEIGHTS, WEIGHTS_WITH_CRASHES};
use transactions::{Live, open_database};
use trouble::Trouble;
pub(crate) use trouble::TroubleEnd;

use super::cursor::{ModelCursor, show};
use super::families::{FEWEST, ModelFamilySpec, ModelMerge};
use super::settings::ModelSettings;
use super::state::ModelState;
use super::{ModelParameters, ModelReport, Steps};
use crate::audit::Audited;
use esker::internals::env::mem::MemFs;
use esker::options::BottommostLevelCompaction;
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, ColumnFamilyId, CompactRangeOptions, Db, Env, Error,
    ErrorKind, FlushOptions, OpenMode, Snapshot, TransactionDb, WriteBatch, WriteOptions,
};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

pub(crate) const PATH: &str = "/db";
const SNAPSHOTS: usize = 6;
const CURSORS: usize = 5;
/// Number of changes that a report may show.
const REMEMBERED: usize = 20_000;
/// Length from which a value is put instead of merged.
const LONGEST_MERGED: usize = 400;

/// A write to one family.
#[derive(Clone, Debug)]
pub(crate) enum ModelWrite {
    Put(usize, Vec<u8>),
    Delete(usize),
    SingleDelete(usize),
    Merge(usize, Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
    /// A write at this timestamp.
    At(u64, Box<ModelWrite>),
}

/// Changes, each with its family and the number that the family had then.
type Changes = Vec<(usize, ColumnFamilyId, ModelWrite)>;

/// Begin and end of a range; `None` for an open end.
type Bounds = (Option<Vec<u8>>, Option<Vec<u8>>);

/// An open database.
enum Opened {
    Plain(Db),
    WithTransactions(TransactionDb),
}

/// An event for the report.
#[derive(Clone, Debug)]
enum Event {
    Write(usize, ModelWrite),
    Other(String),
}

struct TakenSnapshot {
    snapshot: Snapshot,
    /// State of each family; `None` for a family dropped since.
    states: Vec<Option<ModelState>>,
    taken_at: u64,
}

type Checked = Result<(), String>;
/// The outcome of an operation.
type Done = Result<(), RoundStop>;

/// The reason why an operation stopped.
pub(super) enum RoundStop {
    /// An answer was wrong.
    Wrong(String),
    /// The database returned an error, which a failing disk may explain. The text names the call.
    Refused(Error, String),
}

impl From<String> for RoundStop {
    fn from(what: String) -> RoundStop {
        RoundStop::Wrong(what)
    }
}

impl From<RoundStop> for String {
    fn from(stop: RoundStop) -> String {
        match stop {
            RoundStop::Wrong(what) | RoundStop::Refused(_, what) => what,
        }
    }
}

/// The call `what` returned an error.
fn refused(what: impl std::fmt::Display) -> impl FnOnce(Error) -> RoundStop {
    move |error| {
        let text = format!("{what}: {error}");
        RoundStop::Refused(error, text)
    }
}

pub(crate) struct Round {
    rng: fastrand::Rng,
    parameters: ModelParameters,
    specs: Vec<ModelFamilySpec>,
    states: Vec<ModelState>,
    weights: Vec<(OperationKind, u32)>,
    /// The newest timestamp.
    time: u64,
    /// The oldest readable timestamp of each family. A family that is made again keeps it, because
    /// a crash may bring back the old one.
    readable_from: Vec<u64>,
    cursors: Vec<ModelCursor>,
    snapshots: Vec<TakenSnapshot>,
    handles: Vec<ColumnFamilyHandle>,
    db: Option<Opened>,
    settings: ModelSettings,
    env: Env,
    events: VecDeque<(u64, Event)>,
    /// Number of events so far.
    noted: u64,
    operation: u64,
    comparisons: u64,
    counts: Vec<u64>,
    /// The possible and the promised states after a crash, if the round has crashes.
    journal: Option<Journal>,
    /// Whether the database has transactions. Most lives support them, and all preserve prepared
    /// ones.
    has_transactions: bool,
    /// The newest sequence number when spills were last entered into the journal.
    noted_sequence: u64,
    /// Transactions that are not over.
    live: Vec<Live>,
    steps: Steps,
    /// Whether, since the last crash, the database was opened in a way that refuses prepared
    /// transactions. If so, no transaction is prepared.
    opened_without: bool,
    /// The effects of faults so far, while the disk is failing.
    trouble: Option<Trouble>,
    /// Whether the disk has failed since the opening. Files that could not be deleted then are left
    /// for the next opening.
    had_trouble: bool,
    audited: Audited,
}

impl Round {
    pub(super) fn new(seed: u64, parameters: &ModelParameters) -> Round {
        let mut rng = fastrand::Rng::with_seed(seed);
        let keys = if parameters.keys > 0 { parameters.keys } else { [60, 300, 1000, 3000][rng.usize(..4)] };
        Round::with(rng, (FEWEST, keys), parameters, Env::with_fs(Arc::new(MemFs::new())), &WEIGHTS)
    }

    fn with(
        mut rng: fastrand::Rng,
        (families, keys): (usize, usize),
        parameters: &ModelParameters,
        env: Env,
        weights: &[(OperationKind, u32)],
    ) -> Round {
        let specs = ModelFamilySpec::all(&mut rng, families, keys, parameters);
        let settings = ModelSettings::random(&mut rng, &env, &specs);
        let states = specs.iter().map(ModelFamilySpec::empty_state).collect();
        let weights: Vec<_> =
            weights.iter().copied().filter(|(kind, _)| !parameters.without.contains(kind)).collect();
        Round {
            counts: vec![0; weights.len()],
            rng,
            parameters: parameters.clone(),
            specs,
            states,
            weights,
            time: 0,
            readable_from: vec![0; families],
            cursors: Vec::new(),
            snapshots: Vec::new(),
            handles: Vec::new(),
            db: None,
            settings,
            env,
            events: VecDeque::new(),
            noted: 0,
            operation: 0,
            comparisons: 0,
            journal: None,
            has_transactions: false,
            noted_sequence: 0,
            live: Vec::new(),
            steps: Steps::default(),
            opened_without: false,
            trouble: None,
            had_trouble: false,
            audited: Audited::default(),
        }
    }

    pub(super) fn operation(&self) -> u64 {
        self.operation
    }

    pub(super) fn describe(&self) -> String {
        let there: usize = self.states.iter().map(ModelState::len).sum();
        format!(
            "{} operations, {} answers, {} keys each, {there} there at the end",
            self.operation,
            self.comparisons,
            self.specs[0].keys.len()
        )
    }

    pub(super) fn run(&mut self, report: &mut ModelReport) -> Checked {
        self.open()?;
        while self.operation < self.parameters.operations {
            let chosen = self.choose();
            self.operate(chosen)?;
        }
        self.reopen()?;
        self.verify()?;
        self.audit()?;
        self.close()?;
        self.add_to(report);
        Ok(())
    }

    /// Draws the index of a kind by weight.
    fn choose(&mut self) -> usize {
        let total: u32 = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut roll = self.rng.u32(..total);
        let chosen = self.weights.iter().position(|(_, weight)| {
            let here = roll < *weight;
            roll = roll.saturating_sub(*weight);
            here
        });
        chosen.expect("the roll is below the sum")
    }

    fn operate(&mut self, chosen: usize) -> Checked {
        self.counts[chosen] += 1;
        let before = self.record_error_in_force();
        let done = self.step(self.weights[chosen].0);
        self.tolerate(done, before)?;
        if self.parameters.calm {
            self.db().wait_for_background_work().map_err(|e| format!("wait_for_background_work: {e}"))?;
        }
        self.operation += 1;
        Ok(())
    }

    fn add_to(&self, report: &mut ModelReport) {
        report.operations += self.operation;
        report.comparisons += self.comparisons;
        report.steps.add(&self.steps);
        report.audited.add(&self.audited);
        for ((kind, _), count) in self.weights.iter().zip(&self.counts) {
            match report.by_kind.iter_mut().find(|(k, _)| k == kind) {
                Some((_, sum)) => *sum += count,
                None => report.by_kind.push((*kind, *count)),
            }
        }
    }

    fn step(&mut self, kind: OperationKind) -> Done {
        match kind {
            OperationKind::Put
            | OperationKind::Delete
            | OperationKind::Merge
            | OperationKind::DeleteRange => self.write_one(kind),
            OperationKind::Batch => self.write_batch(),
            OperationKind::Get => self.get(),
            OperationKind::MultiGet => self.multi_get(),
            OperationKind::Scan => self.scan(),
            OperationKind::Cursor => self.use_cursor(),
            OperationKind::Snapshot => {
                self.take_or_release_snapshot();
                Ok(())
            }
            OperationKind::Flush => self.flush(),
            OperationKind::Compact => self.compact(),
            OperationKind::Verify => self.verify(),
            // The model does not know the results of these operations beside errors.
            OperationKind::Reopen | OperationKind::DropFamily if self.is_in_trouble() => self.get(),
            // Its threads would continue after a recovery, and leave more refused writes than
            // can be tried in all combinations.
            OperationKind::Burst if self.is_in_trouble() && self.resumes_itself() => self.get(),
            OperationKind::Reopen => Ok(self.reopen()?),
            OperationKind::DropFamily => Ok(self.drop_families()?),
            OperationKind::Pause => self.pause_and_read(),
            OperationKind::Burst => self.burst(),
            OperationKind::SyncWal => self.sync_wal(),
            OperationKind::RaiseHistoryLow => self.raise_history_low(),
            OperationKind::DeleteFiles => self.delete_files(),
            OperationKind::Transaction => self.transact(),
            OperationKind::Resolve => self.resolve(),
            OperationKind::Ingest
            | OperationKind::Import
            | OperationKind::CompactFiles
            | OperationKind::SetOptions
            | OperationKind::Resume
            | OperationKind::Checkpoint
            | OperationKind::Backup
            | OperationKind::Repair
            | OperationKind::Downgrade
            | OperationKind::Beside => self.keep_up(kind),
        }
    }

    fn db(&self) -> &Db {
        match self.db.as_ref().expect("the database is open between operations") {
            Opened::Plain(db) => db,
            Opened::WithTransactions(db) => db.db(),
        }
    }

    fn note(&mut self, event: Event) {
        if self.events.len() == REMEMBERED {
            self.events.pop_front();
        }
        self.events.push_back((self.operation, event));
        self.noted += 1;
    }

    fn family(&mut self) -> usize {
        self.rng.usize(..self.specs.len())
    }

    // ---- opening and closing

    fn open(&mut self) -> Checked {
        self.open_as(self.has_transactions)
    }

    fn open_as(&mut self, with_transactions: bool) -> Checked {
        self.had_trouble = false;
        let opened = open_database(&self.settings, &self.specs, Path::new(PATH), with_transactions);
        self.db = Some(opened.map_err(|e| format!("open: {e}"))?);
        if with_transactions {
            self.count_policy();
        }
        self.handles = handles_of(self.db(), &self.specs);
        Ok(())
    }

    fn close(&mut self) -> Checked {
        self.cursors.clear();
        self.snapshots.clear();
        self.handles.clear();
        self.let_transactions_go();
        if self.rng.bool() {
            self.db().close().map_err(|e| format!("close: {e}"))?;
        }
        self.db = None;
        self.check_leftovers()?;
        if let Some(journal) = &mut self.journal {
            journal.closed();
        }
        Ok(())
    }

    fn reopen(&mut self) -> Checked {
        if self.rng.bool() {
            // Cursors would keep files alive.
            self.cursors.clear();
            self.audit()?;
        }
        self.close()?;
        self.draw_settings();
        if self.rng.u8(..4) == 0 {
            let descriptors = self.settings.descriptors(&self.specs);
            let db = Db::open_with(&self.settings.db, PATH, descriptors, OpenMode::ReadOnly);
            let db = db.map_err(|e| format!("open for reading only: {e}"))?;
            self.handles = handles_of(&db, &self.specs);
            self.note(Event::Other("open for reading only".to_owned()));
            self.db = Some(Opened::Plain(db));
            self.verify()?;
            self.handles.clear();
            self.db = None;
        }
        let db = &self.settings.db;
        let text = format!(
            "reopen with atomic_flush {}, avoid_flush_during_recovery {}, recycle_log_file_num {}",
            db.atomic_flush, db.avoid_flush_during_recovery, db.recycle_log_file_num
        );
        self.note(Event::Other(text));
        let with_transactions = self.has_transactions && self.rng.u8(..4) > 0;
        self.open_as(with_transactions)?;
        self.check_prepared()?;
        if self.rng.u8(..4) == 0 {
            self.verify()?;
        }
        Ok(())
    }

    /// Drops one or several families, and makes them again.
    fn drop_families(&mut self) -> Checked {
        let (first, at_once) = (self.rng.usize(1..self.specs.len()), self.rng.bool());
        let families: Vec<usize> = (1..self.specs.len())
            .filter(|family| *family == first || at_once && self.rng.u8(..3) == 0)
            .collect();
        self.renew_families(&families, at_once)
    }

    /// Drops these families and makes them again: all by one call each, or one by one.
    fn renew_families(&mut self, families: &[usize], at_once: bool) -> Checked {
        let first = families[0];
        let descriptors: Vec<_> = families
            .iter()
            .map(|&f| ColumnFamilyDescriptor::new(self.specs[f].name, self.settings.families[f].clone()))
            .collect();
        let names: Vec<&str> = families.iter().map(|&f| self.specs[f].name).collect();
        self.note(Event::Other(format!("drop {names:?} and create them again, at once {at_once}")));
        for &family in families {
            self.journal.iter_mut().for_each(|j| j.family_goes(family));
            self.family_leaves(family);
        }
        let handles: Vec<&ColumnFamilyHandle> = families.iter().map(|&f| &self.handles[f]).collect();
        let (name, options) = (self.specs[first].name, &self.settings.families[first]);
        let made = match self.db.as_ref().expect("the database is open between operations") {
            Opened::Plain(db) if at_once => {
                db.drop_column_families(&handles).and_then(|()| db.create_column_families(&descriptors))
            }
            Opened::Plain(db) => db
                .drop_column_family(handles[0])
                .and_then(|()| db.create_column_family(name, options))
                .map(|handle| vec![handle]),
            Opened::WithTransactions(db) if at_once => {
                db.drop_column_families(&handles).and_then(|()| db.create_column_families(&descriptors))
            }
            Opened::WithTransactions(db) => db
                .drop_column_family(handles[0])
                .and_then(|()| db.create_column_family(name, options))
                .map(|handle| vec![handle]),
        };
        let made = made.map_err(|e| format!("drop {names:?} and create them again: {e}"))?;
        for (&family, handle) in families.iter().zip(made) {
            self.handles[family] = handle;
            self.journal.iter().for_each(|j| j.family_is(family, self.handles[family].id()));
            self.states[family] = self.specs[family].empty_state();
            self.snapshots.iter_mut().for_each(|taken| taken.states[family] = None);
        }
        // Open cursors continue over the old contents.
        Ok(())
    }

    // ---- writes

    fn random_value(&mut self, merge: ModelMerge) -> Vec<u8> {
        if merge == ModelMerge::Add {
            return self.rng.u64(..).to_le_bytes().to_vec();
        }
        let length = match self.rng.u8(..100) {
            0 => 0,
            1 => self.rng.usize(..3000),
            _ => self.rng.usize(4..80),
        };
        let mut value = format!("{}:", self.operation).into_bytes();
        let fill = b'a' + self.rng.u8(..26);
        value.resize(length, fill);
        value
    }

    fn random_operand(&mut self, merge: ModelMerge) -> Vec<u8> {
        if merge == ModelMerge::Add {
            return self.rng.u64(..1000).to_le_bytes().to_vec();
        }
        format!("{}", self.operation % 100_000).into_bytes()
    }

    fn random_write(&mut self, family: usize, kind: OperationKind) -> ModelWrite {
        let state = self.states[family].clone();
        loop {
            let write = self.random_write_over(family, kind, &state);
            // Under WritePrepared a write without a lock goes over that of a transaction that was
            // prepared before, also if the transaction commits later.
            let mixes = self.parameters.mixes_policies;
            let is_single = write.index().is_some_and(|index| self.specs[family].is_single(index));
            if !(mixes || is_single) || !self.meets_transaction(family, &write) {
                return self.stamp(family, write);
            }
        }
    }

    /// A random write to a family with this state.
    fn random_write_over(&mut self, family: usize, kind: OperationKind, state: &ModelState) -> ModelWrite {
        let spec = &self.specs[family];
        let (index, merge) = (self.rng.usize(..spec.keys.len()), spec.merge);
        if kind == OperationKind::DeleteRange {
            return self.random_range(family);
        }
        let existing = state.get(index);
        if spec.is_single(index) {
            return if existing.is_some() {
                ModelWrite::SingleDelete(index)
            } else {
                ModelWrite::Put(index, self.random_value(merge))
            };
        }
        let room = existing.is_none_or(|value| value.len() < LONGEST_MERGED);
        match kind {
            OperationKind::Delete => ModelWrite::Delete(index),
            OperationKind::Merge if room => ModelWrite::Merge(index, self.random_operand(merge)),
            _ => ModelWrite::Put(index, self.random_value(merge)),
        }
    }

    fn random_range(&mut self, family: usize) -> ModelWrite {
        let spec = &self.specs[family];
        let rng = &mut self.rng;
        let mut begin = spec.random_target(rng);
        let mut end = if rng.u8(..12) == 0 {
            spec.random_target(rng)
        } else {
            let last = spec.keys.len() - 1;
            spec.keys[(spec.lower_bound(&begin) + rng.usize(..20)).min(last)].clone()
        };
        if spec.order.compare(&begin, &end).is_gt() {
            std::mem::swap(&mut begin, &mut end);
        }
        ModelWrite::DeleteRange(begin, end)
    }

    fn apply(&mut self, family: usize, write: &ModelWrite) {
        write.apply(&self.specs[family], &mut self.states[family]);
        self.note(Event::Write(family, write.clone()));
    }

    fn write_options(&mut self) -> WriteOptions {
        if let Some(journal) = &self.journal {
            let unlogged = journal.unlogged();
            return WriteOptions::default().sync(!unlogged && self.rng.u8(..20) == 0).disable_wal(unlogged);
        }
        let sync = self.rng.u8(..20) == 0;
        let disable_wal = !sync && self.may_be_unlogged() && self.rng.u8(..20) == 0;
        WriteOptions::default().sync(sync).disable_wal(disable_wal)
    }

    /// Whether writes may skip the WAL: the close flushes them. With recycled WALs the engine
    /// refuses such writes.
    fn may_be_unlogged(&self) -> bool {
        let db = &self.settings.db;
        !db.avoid_flush_during_shutdown && db.recycle_log_file_num == 0
    }

    fn write_one(&mut self, kind: OperationKind) -> Done {
        let family = self.family();
        let write = self.random_write(family, kind);
        let options = self.write_options();
        if let ModelWrite::At(time, at) = &write {
            let done = self.write_at(&options, family, *time, at);
            return self.wrote_one(done, &options, family, write);
        }
        let (db, handle, keys) = (self.db(), &self.handles[family], &self.specs[family].keys);
        let done = match &write {
            ModelWrite::Put(index, value) => db.put_opt(&options, handle, &keys[*index], value),
            ModelWrite::Delete(index) => db.delete_opt(&options, handle, &keys[*index]),
            ModelWrite::SingleDelete(index) => db.single_delete_opt(&options, handle, &keys[*index]),
            ModelWrite::Merge(index, operand) => db.merge_opt(&options, handle, &keys[*index], operand),
            ModelWrite::DeleteRange(begin, end) => db.delete_range_opt(&options, handle, begin, end),
            ModelWrite::At(..) => unreachable!("writes at a timestamp are handled above"),
        };
        self.wrote_one(done, &options, family, write)
    }

    /// Handles the outcome of a write.
    fn wrote_one(
        &mut self,
        done: esker::Result<()>,
        options: &WriteOptions,
        family: usize,
        write: ModelWrite,
    ) -> Done {
        if let Err(error) = done {
            let what = format!("{write:?} in '{}'", self.specs[family].name);
            self.record_refused_writes(vec![(family, write)]);
            return Err(refused(what)(error));
        }
        self.apply(family, &write);
        if self.journal.is_some() {
            let sequence = self.db().latest_sequence_number().0;
            self.wrote(sequence, options.sync, vec![(family, write)]);
        }
        Ok(())
    }

    fn write_batch(&mut self) -> Done {
        let mut batch = WriteBatch::new();
        let (mut saved, mut writes) = (None, Vec::new());
        let before = (self.states.clone(), self.noted);
        for _ in 0..self.rng.usize(..12) {
            match self.rng.u8(..12) {
                0 => {
                    batch.set_save_point();
                    saved = Some((self.states.clone(), self.noted, writes.len()));
                }
                1 => {
                    if let Some((states, noted, kept)) = saved.take() {
                        batch.rollback_to_save_point().map_err(|e| format!("rollback_to_save_point: {e}"))?;
                        self.go_back_to(states, noted);
                        writes.truncate(kept);
                    }
                }
                _ => writes.extend(self.add_to_batch(&mut batch)?),
            }
        }
        let options = self.write_options();
        // Only keys without timestamps can be locked.
        let is_plain = writes.iter().all(|(_, write)| !matches!(write, ModelWrite::At(..)));
        let with_locks = self.transaction_db().filter(|_| is_plain && self.rng.u8(..3) == 0);
        let done = match &with_locks {
            Some(db) => db.write_opt(&options, &mut batch),
            None => self.db().write_opt(&options, &mut batch),
        };
        if let Err(error) = done {
            self.go_back_to(before.0, before.1);
            if with_locks.is_some() && error.kind() == ErrorKind::TimedOut && !self.live.is_empty() {
                return Ok(());
            }
            self.record_refused_writes(writes);
            return Err(refused("write of a batch")(error));
        }
        if with_locks.is_some() {
            self.check_not_locked(&writes)?;
        }
        if !writes.is_empty() {
            self.wrote(batch.sequence().0, options.sync, writes);
        }
        Ok(())
    }

    /// Resets the model to these states, and the report to its first `noted` events.
    fn go_back_to(&mut self, states: Vec<ModelState>, noted: u64) {
        self.states = states;
        while self.noted > noted {
            self.events.pop_back();
            self.noted -= 1;
        }
    }

    fn add_to_batch(&mut self, batch: &mut WriteBatch) -> Result<Option<(usize, ModelWrite)>, String> {
        let kind = [
            OperationKind::Put,
            OperationKind::Delete,
            OperationKind::Merge,
            OperationKind::Put,
            OperationKind::DeleteRange,
        ][self.rng.usize(..5)];
        if self.parameters.without.contains(&kind)
            || (kind == OperationKind::DeleteRange && self.rng.u8(..10) > 0)
        {
            return Ok(None);
        }
        let family = self.family();
        let write = self.random_write(family, kind);
        let id = self.handles[family].id();
        let done = write.add_to(batch, id, &self.specs[family]);
        done.map_err(|e| format!("{write:?} into a batch: {e}"))?;
        self.apply(family, &write);
        Ok(Some((family, write)))
    }

    // ---- background work

    fn flush(&mut self) -> Done {
        let wait = self.rng.u8(..4) > 0;
        let chosen: Vec<usize> = (0..self.specs.len()).filter(|_| self.rng.bool()).collect();
        self.note(Event::Other(format!("flush {chosen:?}, wait {wait}")));
        let handles: Vec<&ColumnFamilyHandle> = chosen.iter().map(|&f| &self.handles[f]).collect();
        let options = FlushOptions { wait, allow_write_stall: true, ..FlushOptions::default() };
        self.db().flush_opt(&options, &handles).map_err(refused("flush"))?;
        if let Some(journal) = self.journal.as_ref().filter(|_| wait) {
            journal.flushed(&chosen, self.settings.db.atomic_flush);
        }
        Ok(())
    }

    fn compact(&mut self) -> Done {
        let family = self.family();
        let spec = &self.specs[family];
        let rng = &mut self.rng;
        let mut begin = rng.bool().then(|| spec.random_target(rng));
        let mut end = rng.bool().then(|| spec.random_target(rng));
        if let (Some(b), Some(e)) = (&begin, &end)
            && spec.order.compare(b, e).is_gt()
        {
            std::mem::swap(&mut begin, &mut end);
        }
        let bottommost = [
            BottommostLevelCompaction::Skip,
            BottommostLevelCompaction::IfHaveCompactionFilter,
            BottommostLevelCompaction::Force,
            BottommostLevelCompaction::ForceOptimized,
        ];
        let full_history_ts_low = match spec.stamps.filter(|_| rng.u8(..4) == 0) {
            Some(stamps) => {
                let from = self.readable_from[family];
                self.readable_from[family] = rng.u64(from..=self.time.max(from));
                Some(stamps.timestamp(self.readable_from[family]))
            }
            None => None,
        };
        let options = CompactRangeOptions {
            full_history_ts_low,
            exclusive_manual_compaction: rng.bool(),
            change_level: rng.u32(..4) == 0,
            bottommost_level_compaction: bottommost[rng.usize(..4)],
            max_subcompactions: rng.u32(..3),
            ..CompactRangeOptions::default()
        };
        let name = spec.name;
        let text = |key: &Option<Vec<u8>>| key.as_ref().map_or("open".to_owned(), |k| show(k));
        self.note(Event::Other(format!("compact '{name}' {} to {}", text(&begin), text(&end))));
        let (db, handle) = (self.db(), &self.handles[family]);
        db.compact_range_opt(&options, handle, begin.as_deref(), end.as_deref())
            .map_err(refused(format!("compact_range of '{name}'")))
    }

    /// Reads while background work is paused.
    fn pause_and_read(&mut self) -> Done {
        self.db().pause_background_work();
        let read = (0..30).try_for_each(|_| self.use_cursor().and_then(|()| self.get()));
        let continued = self.db().continue_background_work();
        read.and(continued.map_err(refused("continue_background_work")))
    }
}

fn handles_of(db: &Db, specs: &[ModelFamilySpec]) -> Vec<ColumnFamilyHandle> {
    let handle = |spec: &ModelFamilySpec| {
        db.column_family(spec.name).expect("the database was opened with all families")
    };
    specs.iter().map(handle).collect()
}
