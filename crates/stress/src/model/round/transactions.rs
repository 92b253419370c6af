//! Transactions of a round with crashes: the writes of each, the contents it must see, and the
//! prepared ones.
//!
//! In: several transactions at once, with save points, three levels of isolation and locks for
//! which nothing waits, beside writes that take no locks. Out: each read is compared with the
//! contents that the transaction must see, and each change of a lock's owner is checked. Each
//! prepare, commit and rollback goes into the journal as one step. So after a crash a transaction
//! is complete or absent, and the prepared ones are those of a prefix of all writes, with all their
//! ops.
//!
//! Invariants
//!  1. `live` has the transactions that have begun and are not over. Prepared ones outlive closing
//!     and crashes.
//!  2. While a live transaction has written a key that is deleted singly, no other writer touches
//!     the key: the transaction may depend on whether it existed. `random_write` checks this.

use super::copies::prepared_in;
use super::journal::Journal;
use super::{Changes, Checked, Done, Event, ModelWrite, Opened, OperationKind, PATH, Round, refused};
use crate::model::cursor::show;
use crate::model::families::ModelFamilySpec;
use crate::model::settings::ModelSettings;
use crate::model::state::ModelState;
use esker::txn::LockMode;
use esker::{
    ColumnFamilyId, Db, Error, ErrorKind, FlushOptions, IsolationLevel, OpenMode, ReadOptions, Transaction,
    TransactionDb, TransactionDbOptions, TransactionOptions, WriteBatch, WriteOptions,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

/// Most live transactions; prepared ones are not counted.
const LIVE: usize = 4;

/// The writes of a transaction, as the WAL has them while it is prepared.
#[derive(Clone, Debug)]
pub(super) struct PreparedSection {
    pub(super) changes: Rc<Changes>,
    ops: Rc<[u8]>,
    /// Whether the WAL has just these ops: not if the transaction has spilled ops.
    is_exact: bool,
    /// See [`Live::written`].
    written: WrittenKeys,
}

/// Keys: the family, its number and the index of each.
type WrittenKeys = BTreeSet<(usize, ColumnFamilyId, usize)>;

impl PreparedSection {
    fn new(changes: &Changes, specs: &[ModelFamilySpec]) -> Result<PreparedSection, String> {
        let mut batch = WriteBatch::new();
        for (family, id, write) in changes {
            let added = write.add_to(&mut batch, *id, &specs[*family]);
            added.map_err(|e| format!("{write:?} into a batch: {e}"))?;
        }
        Ok(PreparedSection {
            changes: Rc::new(changes.clone()),
            ops: batch.ops_bytes().into(),
            is_exact: true,
            written: written(changes),
        })
    }
}

/// A step, which has one place in the WAL.
#[derive(Clone, Debug)]
pub(super) enum TransactionStage {
    /// A write, or the commit of a transaction that was not prepared.
    Changes(Changes),
    Prepare(Vec<u8>, PreparedSection),
    /// The commit of a prepared transaction.
    Commit(Vec<u8>, PreparedSection),
    Rollback(Vec<u8>),
    /// Files that one call ingested.
    Ingest(Changes),
}

impl TransactionStage {
    /// The changes that the step brings into memtables.
    pub(super) fn changes(&self) -> &[(usize, ColumnFamilyId, ModelWrite)] {
        match self {
            TransactionStage::Changes(changes) => changes,
            TransactionStage::Commit(_, section) => &section.changes,
            TransactionStage::Prepare(..) | TransactionStage::Rollback(_) | TransactionStage::Ingest(_) => {
                &[]
            }
        }
    }
}

/// The expected state of a database.
#[derive(Clone, Debug)]
pub(super) struct Image {
    pub(super) states: Vec<ModelState>,
    pub(super) prepared: BTreeMap<Vec<u8>, PreparedSection>,
}

impl Image {
    /// Applies a step. `ids` are the numbers of the present families; changes of other numbers
    /// belong to dropped families.
    pub(super) fn apply(
        &mut self,
        what: &TransactionStage,
        specs: &[ModelFamilySpec],
        ids: &[ColumnFamilyId],
    ) {
        let changes = match what {
            TransactionStage::Changes(changes) | TransactionStage::Ingest(changes) => changes.as_slice(),
            TransactionStage::Prepare(name, section) => {
                self.prepared.insert(name.clone(), section.clone());
                return;
            }
            TransactionStage::Rollback(name) => {
                self.prepared.remove(name);
                return;
            }
            TransactionStage::Commit(name, section) => match self.prepared.remove(name) {
                Some(_) => section.changes.as_slice(),
                // The step before it was refused, so this one was refused too.
                None => return,
            },
        };
        for (family, _, write) in changes.iter().filter(|(family, id, _)| *id == ids[*family]) {
            write.apply(&specs[*family], &mut self.states[*family]);
        }
    }
}

/// The state that was found in a database.
pub(super) struct FoundTransactions {
    pub(super) states: Vec<ModelState>,
    pub(super) ids: Vec<ColumnFamilyId>,
    /// Contents of families with timestamps, at some timestamps.
    pub(super) stamped: Vec<(usize, u64, ModelState)>,
    /// Prepared transactions, with their ops.
    pub(super) prepared: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl FoundTransactions {
    pub(super) fn is(&self, image: &Image) -> bool {
        self.states == image.states
            && self.sections_that_differ(image) == 0
            && self.stamped.iter().all(|(family, time, state)| image.states[*family].at(*time) == *state)
    }

    pub(super) fn sections_that_differ(&self, image: &Image) -> usize {
        sections_that_differ(&self.prepared, &image.prepared)
    }

    /// Text of the transactions that are prepared, and of those that should be.
    pub(super) fn describe_prepared(&self, image: &Image) -> String {
        describe_prepared(&self.prepared, &image.prepared)
    }
}

pub(super) fn sections_that_differ(
    found: &BTreeMap<Vec<u8>, Vec<u8>>,
    expected: &BTreeMap<Vec<u8>, PreparedSection>,
) -> usize {
    let is_as_found = |name: &Vec<u8>, section: &PreparedSection| {
        found.get(name).is_some_and(|ops| !section.is_exact || **ops == *section.ops)
    };
    let missed = expected.iter().filter(|(name, section)| !is_as_found(name, section)).count();
    missed + found.keys().filter(|name| !expected.contains_key(*name)).count()
}

pub(super) fn describe_prepared(
    found: &BTreeMap<Vec<u8>, Vec<u8>>,
    expected: &BTreeMap<Vec<u8>, PreparedSection>,
) -> String {
    let named = |name: &[u8], ops: &[u8]| format!("{} ({} bytes)", name.escape_ascii(), ops.len());
    let found: Vec<_> = found.iter().map(|(name, ops)| named(name, ops)).collect();
    let expected: Vec<_> = expected.iter().map(|(name, section)| named(name, &section.ops)).collect();
    format!("prepared are {}, not {}", found.join(", "), expected.join(", "))
}

/// A transaction that is not over.
pub(super) struct Live {
    name: Vec<u8>,
    /// `None` if it is prepared and has no handle. The database gives a new handle.
    txn: Option<Transaction>,
    is_named: bool,
    pub(super) is_prepared: bool,
    /// [`PreparedSection::is_exact`], if it is prepared.
    is_exact: bool,
    isolation: IsolationLevel,
    pub(super) changes: Changes,
    /// The keys that it has written, also those that a save point has given back.
    pub(super) written: WrittenKeys,
    /// Whether an opening has found it prepared. It has then locked the keys again that save points
    /// had given back, unless others have written them since.
    pub(super) is_found: bool,
    /// Number of changes at each save point.
    save_points: Vec<usize>,
    /// The contents that its snapshot shows, if it has one. Families that were dropped or lost
    /// files since are left out.
    snapshot: Option<Vec<Option<ModelState>>>,
}

impl Live {
    fn prepared(name: &[u8], section: &PreparedSection) -> Live {
        Live {
            name: name.to_vec(),
            txn: None,
            is_named: true,
            is_prepared: true,
            is_exact: section.is_exact,
            isolation: IsolationLevel::ReadCommitted,
            changes: section.changes.to_vec(),
            written: section.written.clone(),
            is_found: true,
            save_points: Vec::new(),
            snapshot: None,
        }
    }

    fn txn(&mut self) -> &mut Transaction {
        self.txn.as_mut().expect("the step has a transaction")
    }

    pub(super) fn has_written(&self, id: ColumnFamilyId, index: usize) -> bool {
        self.changes.iter().any(|(_, of, write)| *of == id && write.index() == Some(index))
    }

    /// Whether it may have locked a key. A write without a lock must not change such a key: under
    /// WriteCommitted the commit would write the value of the save point over it.
    pub(super) fn may_have_locked(&self, id: ColumnFamilyId, index: usize) -> bool {
        let is_given_back = || self.written.iter().any(|(_, of, written)| (*of, *written) == (id, index));
        self.has_written(id, index) || self.is_found && is_given_back()
    }

    pub(super) fn has_name(&self, name: &[u8]) -> bool {
        self.name == name
    }

    pub(super) fn describe(&self) -> String {
        self.name.escape_ascii().to_string()
    }

    pub(super) fn forget_snapshot_of(&mut self, family: usize) {
        self.snapshot.iter_mut().for_each(|states| states[family] = None);
    }
}

/// The keys that these changes write one by one.
fn written(changes: &Changes) -> WrittenKeys {
    changes.iter().filter_map(|(family, id, write)| Some((*family, *id, write.index()?))).collect()
}

impl ModelWrite {
    /// The index of the key, if this is a write of one key.
    pub(super) fn index(&self) -> Option<usize> {
        match self {
            ModelWrite::Put(i, _)
            | ModelWrite::Delete(i)
            | ModelWrite::SingleDelete(i)
            | ModelWrite::Merge(i, _) => Some(*i),
            ModelWrite::DeleteRange(..) => None,
            ModelWrite::At(_, write) => write.index(),
        }
    }
}

// ---- opening and closing

impl Round {
    /// Opens the database with these options and closes it again. It is opened for transactions, or
    /// as a plain database that preserves them.
    pub(super) fn open_and_close(&mut self, mut settings: ModelSettings) -> esker::Result<()> {
        settings.db.allow_2pc = self.has_transactions;
        let is_plain = !self.has_transactions || self.rng.bool();
        open_database(&settings, &self.specs, Path::new(PATH), !is_plain).map(drop)
    }

    /// Sometimes opens the database without support for transactions. The open must preserve them,
    /// or be refused.
    pub(super) fn open_without_transactions(&mut self) -> Checked {
        self.opened_without = false;
        if !self.has_transactions || self.rng.u8(..5) > 0 {
            return Ok(());
        }
        let mut settings = ModelSettings::random(&mut self.rng, &self.env, &self.specs);
        let (allow_2pc, read_only) = (self.rng.bool(), self.rng.u8(..3) == 0);
        settings.db.allow_2pc = allow_2pc;
        let mode = if read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let opened = Db::open_with(&settings.db, PATH, settings.descriptors(&self.specs), mode);
        let described = format!("opened without transactions, allow_2pc {allow_2pc}, {mode:?}");
        match opened {
            Ok(_) => {
                self.opened_without = !allow_2pc;
                self.note(Event::Other(described));
                Ok(())
            }
            Err(error) if !allow_2pc && is_two_phase(&error) => {
                self.note(Event::Other(format!("{described}: refused: {error}")));
                Ok(())
            }
            // A read-only open cannot create families that the crash has removed.
            Err(error) if read_only && error.kind() == ErrorKind::InvalidArgument => Ok(()),
            Err(error) => Err(format!("{described}: open: {error}")),
        }
    }

    /// Prepared transactions in the database, with their ops. None of them has a handle.
    pub(super) fn prepared_in_database(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let Some(Opened::WithTransactions(db)) = &self.db else { return BTreeMap::new() };
        prepared_in(db)
    }

    /// Makes the transactions that a crash left prepared live again.
    pub(super) fn take_up_prepared(&mut self, prepared: &BTreeMap<Vec<u8>, PreparedSection>) {
        self.steps.found += prepared.len() as u64;
        self.steps.crashes_with_some += u64::from(!prepared.is_empty());
        self.live = prepared.iter().map(|(name, section)| Live::prepared(name, section)).collect();
    }

    /// Before a close: drops all handles, and with them the transactions that are not prepared.
    pub(super) fn let_transactions_go(&mut self) {
        self.live.retain(|live| live.is_prepared);
        self.note_spills();
        for live in &mut self.live {
            (live.txn, live.snapshot, live.is_found) = (None, None, true);
        }
    }

    /// Checks that all prepared transactions are there after a clean open.
    pub(super) fn check_prepared(&self) -> Checked {
        if !matches!(self.db, Some(Opened::WithTransactions(_))) {
            return Ok(());
        }
        let (expected, found) = (self.expected_prepared()?, self.prepared_in_database());
        if sections_that_differ(&found, &expected) == 0 {
            return Ok(());
        }
        Err(format!("after it was closed and opened again {}", describe_prepared(&found, &expected)))
    }

    /// The transactions that are prepared.
    pub(super) fn expected_prepared(&self) -> Result<BTreeMap<Vec<u8>, PreparedSection>, String> {
        let mut expected = BTreeMap::new();
        for live in self.live.iter().filter(|live| live.is_prepared) {
            let mut section = PreparedSection::new(&live.changes, &self.specs)?;
            section.is_exact = live.is_exact;
            expected.insert(live.name.clone(), section);
        }
        Ok(expected)
    }

    /// Resolves all transactions at the end. No unneeded WAL may be left.
    pub(super) fn resolve_all(&mut self) -> Checked {
        if !self.has_transactions {
            return Ok(());
        }
        self.close()?;
        self.draw_settings();
        self.open_as(true)?;
        self.check_prepared()?;
        while let Some(mut live) = self.live.pop() {
            self.ask_for(&mut live)?;
            let (commits, described) = (self.rng.bool(), live.describe());
            let done = if commits { live.txn().commit() } else { live.txn().rollback() };
            done.map_err(|e| format!("at the end, commit {commits} of '{described}': {e}"))?;
            if commits {
                self.apply_changes(&live.changes);
            }
        }
        // A write, because a flush of a memtable releases the WAL.
        self.write_one(OperationKind::Put)?;
        let handles: Vec<_> = self.handles.iter().collect();
        let options = FlushOptions { wait: true, allow_write_stall: true, ..FlushOptions::default() };
        self.db().flush_opt(&options, &handles).map_err(|e| format!("flush at the end: {e}"))?;
        self.db().wait_for_background_work().map_err(|e| format!("wait_for_background_work: {e}"))?;
        self.check_wals()
    }

    fn check_wals(&self) -> Checked {
        let names = self.env.fs.children(Path::new(PATH)).map_err(|e| format!("list: {e}"))?;
        let wals: Vec<&String> = names.iter().filter(|name| name.ends_with(".log")).collect();
        let most = 1 + self.settings.db.recycle_log_file_num;
        if wals.len() > most {
            return Err(format!("all is in tables, and nothing prepared: at most {most} WALs, not {wals:?}"));
        }
        Ok(())
    }
}

/// Opens the database for one life.
/// # Errors
/// Those of the opening.
pub(super) fn open_database(
    settings: &ModelSettings,
    specs: &[ModelFamilySpec],
    path: &Path,
    with_transactions: bool,
) -> esker::Result<Opened> {
    let descriptors = settings.descriptors(specs);
    if !with_transactions {
        return Db::open_cf(&settings.db, path, descriptors).map(Opened::Plain);
    }
    // Waits are pointless: no other thread could release the lock.
    let options = TransactionDbOptions {
        transaction_lock_timeout: 0,
        default_lock_timeout: 0,
        write_policy: settings.write_policy,
        default_write_batch_flush_threshold: settings.spill_threshold,
        ..TransactionDbOptions::default()
    };
    TransactionDb::open_cf(&settings.db, &options, path, descriptors).map(Opened::WithTransactions)
}

fn is_two_phase(error: &Error) -> bool {
    error.kind() == ErrorKind::NotSupported && error.to_string().contains("two-phase")
}

// ---- operations

impl Round {
    pub(super) fn transaction_db(&self) -> Option<TransactionDb> {
        match &self.db {
            Some(Opened::WithTransactions(db)) => Some(db.clone()),
            _ => None,
        }
    }

    /// Begins a transaction, or continues one.
    pub(super) fn transact(&mut self) -> Done {
        let Some(db) = self.transaction_db() else { return self.get() };
        let begun = self.live.iter().filter(|live| !live.is_prepared).count();
        if begun == 0 || begun < LIVE && self.rng.u8(..3) == 0 {
            let live = self.begin(&db);
            self.live.push(live);
        }
        let chosen = self.rng.usize(..self.live.len());
        let mut live = self.live.swap_remove(chosen);
        if live.is_prepared {
            self.ask_for(&mut live)?;
        }
        let done = (0..self.rng.usize(1..6)).try_for_each(|_| self.act(&mut live));
        self.live.push(live);
        self.note_spills();
        done
    }

    fn begin(&mut self, db: &TransactionDb) -> Live {
        let levels = [IsolationLevel::ReadCommitted, IsolationLevel::Snapshot, IsolationLevel::Serializable];
        let isolation = levels[self.rng.usize(..3)];
        let options = TransactionOptions { isolation, ..TransactionOptions::default() };
        // An operation that a crash ends may begin a second one; each is noted.
        let name = format!("t{}", self.noted).into_bytes();
        self.note(Event::Other(format!("begin '{}', {isolation:?}", name.escape_ascii())));
        let txn = db.begin_transaction_opt(&WriteOptions::default(), &options);
        let is_named = self.may_spill() && txn.set_name(&name).is_ok();
        Live {
            name,
            txn: Some(txn),
            is_named,
            is_prepared: false,
            is_exact: true,
            isolation,
            changes: Vec::new(),
            written: WrittenKeys::new(),
            is_found: false,
            save_points: Vec::new(),
            snapshot: self.snapshot_at(isolation),
        }
    }

    fn snapshot_at(&self, isolation: IsolationLevel) -> Option<Vec<Option<ModelState>>> {
        (isolation == IsolationLevel::Snapshot).then(|| self.states.iter().cloned().map(Some).collect())
    }

    /// Gets a handle for a prepared transaction that has none.
    fn ask_for(&mut self, live: &mut Live) -> Checked {
        if live.txn.is_none() {
            live.txn = self.transaction_db().and_then(|db| db.get_transaction_by_name(&live.name));
        }
        match &live.txn {
            Some(_) => Ok(()),
            None => Err(format!("the prepared transaction '{}' is gone", live.describe())),
        }
    }

    /// The contents of a family that the transaction must see; `None` if they are unknown.
    fn seen_by(&self, live: &Live, family: usize) -> Option<ModelState> {
        let id = self.handles[family].id();
        let mut state = match &live.snapshot {
            Some(states) => states[family].clone()?,
            None => self.states[family].clone(),
        };
        let of_family = live.changes.iter().filter(|(of, number, _)| *of == family && *number == id);
        of_family.for_each(|(_, _, write)| write.apply(&self.specs[family], &mut state));
        Some(state)
    }

    /// Takes a random step of a transaction.
    fn act(&mut self, live: &mut Live) -> Done {
        let family = self.plain_family();
        let Some(seen) = self.seen_by(live, family) else { return Ok(()) };
        let most = if live.is_prepared { 4 } else { 16 };
        match self.rng.u8(..most) {
            0..=2 => self.get_in(live, family, &seen, false),
            3 => self.scan_in(live, family, &seen),
            4 | 5 => self.get_in(live, family, &seen, true),
            6..=11 => self.write_in(live, family, &seen, true),
            12 => self.write_in(live, family, &seen, false),
            13 | 14 => {
                live.txn().set_save_point();
                live.save_points.push(live.changes.len());
                Ok(())
            }
            _ => {
                let Some(kept) = live.save_points.pop() else { return Ok(()) };
                if self.rng.u8(..3) == 0 {
                    return live.txn().pop_save_point().map_err(refused("pop_save_point"));
                }
                live.changes.truncate(kept);
                self.steps.save_points += 1;
                live.txn().rollback_to_save_point().map_err(refused("rollback_to_save_point"))
            }
        }
    }

    fn get_in(&mut self, live: &mut Live, family: usize, seen: &ModelState, for_update: bool) -> Done {
        let index = self.rng.usize(..self.specs[family].keys.len());
        let (handle, key) = (&self.handles[family], &self.specs[family].keys[index]);
        let (options, txn) = (ReadOptions::default(), live.txn());
        let found = match for_update {
            true => txn.get_for_update_opt(&options, handle, key, LockMode::Exclusive, true),
            false => txn.get_opt(&options, handle, key),
        };
        let found = match found {
            Err(error) if self.is_conflict(&error, live) => return Ok(()),
            found => found,
        };
        // On a failing disk the search for later writes may fail. The lock was then not granted.
        if for_update && found.is_ok() {
            self.check_lock(live, family, &ModelWrite::Delete(index))?;
            self.check_unchanged(live, family, &ModelWrite::Delete(index))?;
        }
        let call = format!("get of '{}', for update {for_update}", live.describe());
        self.compare(
            family,
            index,
            &call,
            seen.get(index),
            found.as_ref().map(Option::as_deref).map_err(Clone::clone),
        )
    }

    fn scan_in(&mut self, live: &mut Live, family: usize, seen: &ModelState) -> Done {
        let backward = self.rng.bool();
        let iter = live.txn().iter_opt(&ReadOptions::default(), &self.handles[family]);
        let mut iter = match iter {
            Err(error) if self.is_conflict(&error, live) => return Ok(()),
            iter => iter.map_err(refused("iter_opt of a transaction"))?,
        };
        if backward {
            iter.seek_to_last()
        } else {
            iter.seek_to_first()
        }
        let keys = self.specs[family].keys.len();
        for step in 0..keys {
            let index = if backward { keys - 1 - step } else { step };
            let Some(expected) = seen.get(index) else { continue };
            iter.status().map_err(refused("an iterator of a transaction"))?;
            self.comparisons += 1;
            if iter.item() != Some((&self.specs[family].keys[index], expected)) {
                let found = iter.item().map(|(key, value)| format!("{} = {}", show(key), show(value)));
                let what =
                    format!("scan of '{}': expected {}, found {found:?}", live.describe(), show(expected));
                return Err(self.blame(family, Some(index), &what).into());
            }
            if backward { iter.prev() } else { iter.next() }
        }
        iter.status().map_err(refused("an iterator of a transaction"))?;
        match iter.item() {
            None => Ok(()),
            Some((key, _)) => {
                let what = format!("scan of '{}' goes on to {}", live.describe(), show(key));
                Err(self.blame(family, None, &what).into())
            }
        }
    }

    /// Writes in a transaction. A `tracked` write must fail if another writer has changed the key
    /// since the snapshot.
    fn write_in(&mut self, live: &mut Live, family: usize, seen: &ModelState, tracked: bool) -> Done {
        let kinds = [OperationKind::Put, OperationKind::Put, OperationKind::Delete, OperationKind::Merge];
        let deletes_range = self.rng.u8(..12) == 0;
        let kind = if deletes_range { OperationKind::DeleteRange } else { kinds[self.rng.usize(..4)] };
        let write = self.random_write_over(family, kind, seen);
        let (spec, handle) = (&self.specs[family], &self.handles[family]);
        // A key that is deleted singly needs a tracked write: its state must be known.
        let tracked = tracked || write.index().is_none_or(|index| spec.is_single(index));
        let key = write.index().map_or(&[][..], |index| &spec.keys[index]);
        let txn = live.txn();
        let done = match (&write, tracked) {
            (ModelWrite::Put(_, value), true) => txn.put_cf(handle, key, value),
            (ModelWrite::Put(_, value), false) => txn.put_untracked(handle, key, value),
            (ModelWrite::Delete(_), true) => txn.delete_cf(handle, key),
            (ModelWrite::Delete(_), false) => txn.delete_untracked(handle, key),
            (ModelWrite::SingleDelete(_), _) => txn.single_delete_cf(handle, key),
            (ModelWrite::Merge(_, operand), true) => txn.merge_cf(handle, key, operand),
            (ModelWrite::Merge(_, operand), false) => txn.merge_untracked(handle, key, operand),
            (ModelWrite::DeleteRange(begin, end), _) => txn.delete_range_cf(handle, begin, end),
            (ModelWrite::At(..), _) => unreachable!("families with timestamps are left to plain writes"),
        };
        match done {
            Err(error) if self.is_conflict(&error, live) => return Ok(()),
            // A transaction that has spilled ops deletes no ranges.
            Err(error) if deletes_range && self.may_spill() && error.kind() == ErrorKind::NotSupported => {
                return Ok(());
            }
            done => done.map_err(refused(format!("{write:?} in '{}'", live.describe())))?,
        }
        self.check_lock(live, family, &write)?;
        if tracked {
            self.check_unchanged(live, family, &write)?;
        }
        let id = self.handles[family].id();
        live.written.extend(write.index().map(|index| (family, id, index)));
        live.changes.push((family, id, write));
        Ok(())
    }

    /// Whether another transaction or write explains the refusal. `self.live` does not contain
    /// `live`.
    fn is_conflict(&self, error: &Error, live: &Live) -> bool {
        match error.kind() {
            ErrorKind::TimedOut => !self.live.is_empty(),
            ErrorKind::Busy => live.snapshot.is_some(),
            // Serializable reads lock, and a prepared transaction may take no more locks.
            ErrorKind::InvalidArgument => live.is_prepared && live.isolation == IsolationLevel::Serializable,
            _ => false,
        }
    }

    /// Checks that no other transaction holds the lock that this one got.
    fn check_lock(&self, live: &Live, family: usize, write: &ModelWrite) -> Checked {
        let (id, Some(index)) = (self.handles[family].id(), write.index()) else { return Ok(()) };
        match self.live.iter().find(|other| other.has_written(id, index)) {
            None => Ok(()),
            Some(other) => {
                let what =
                    format!("'{}' has locked what '{}' has written", live.describe(), other.describe());
                Err(self.blame(family, Some(index), &what))
            }
        }
    }

    /// Checks that no write since the snapshot touched the key whose lock this transaction got.
    fn check_unchanged(&self, live: &Live, family: usize, write: &ModelWrite) -> Checked {
        let at_snapshot = live.snapshot.as_ref().and_then(|states| states[family].as_ref());
        let Some((at_snapshot, index)) = at_snapshot.zip(write.index()) else { return Ok(()) };
        if at_snapshot.get(index) == self.states[family].get(index) {
            return Ok(());
        }
        let what = format!("'{}' may write what has changed since its snapshot", live.describe());
        Err(self.blame(family, Some(index), &what))
    }

    /// Prepares, commits or rolls back a transaction.
    pub(super) fn resolve(&mut self) -> Done {
        if self.transaction_db().is_none() || self.live.is_empty() {
            return self.get();
        }
        let chosen = self.rng.usize(..self.live.len());
        let mut live = self.live.swap_remove(chosen);
        self.ask_for(&mut live)?;
        let (options, roll) = (self.write_options(), self.rng.u8(..6));
        live.txn().set_write_options(&options);
        // Under an early policy a transaction that deletes ranges cannot be prepared.
        let deletes_range = live.changes.iter().any(|(_, _, write)| write.index().is_none());
        let may_prepare = !(deletes_range && self.parameters.mixes_policies);
        // Without a WAL there are no prepares: a prepared section would survive without earlier
        // writes that skipped the WAL.
        let steps_are_taken = !self.journal.as_ref().is_some_and(Journal::unlogged);
        match (live.is_prepared, roll) {
            (true, 0..=2) if steps_are_taken => self.end_of_prepared(live, options.sync, true),
            (true, 3 | 4) if steps_are_taken => self.end_of_prepared(live, options.sync, false),
            (true, _) => {
                live.txn = None;
                self.live.push(live);
                Ok(())
            }
            (false, 0..=2) if steps_are_taken && may_prepare => self.prepare(live, options.sync),
            (false, 5) => self.rollback(live),
            (false, _) => self.commit(live, options.sync),
        }
    }

    fn prepare(&mut self, mut live: Live, sync: bool) -> Done {
        if !live.is_named {
            let name = live.name.clone();
            live.txn().set_name(&name).map_err(refused("set_name"))?;
            live.is_named = true;
        }
        let mut section = PreparedSection::new(&live.changes, &self.specs)?;
        section.is_exact = !self.may_spill();
        section.written = live.written.clone();
        live.is_exact = section.is_exact;
        if section.is_exact && live.txn().write_batch().write_batch().ops_bytes() != &*section.ops {
            let described = (live.describe(), &live.changes);
            return Err(format!("the batch of {described:?} has other ops").into());
        }
        let done = live.txn().prepare();
        let what = TransactionStage::Prepare(live.name.clone(), section);
        live.is_prepared = done.is_ok();
        let described = format!("prepare of '{}'", live.describe());
        self.live.push(live);
        self.stepped(done, what, sync, described)
    }

    fn commit(&mut self, mut live: Live, sync: bool) -> Done {
        let (done, described) = (live.txn().commit(), format!("commit of '{}'", live.describe()));
        let changes = live.changes.clone();
        if done.is_err() {
            self.live.push(live);
        }
        // A transaction without changes writes nothing.
        if !changes.is_empty() {
            return self.stepped(done, TransactionStage::Changes(changes), sync, described);
        }
        done.map_err(refused(described))
    }

    fn end_of_prepared(&mut self, mut live: Live, sync: bool, commits: bool) -> Done {
        let done = if commits { live.txn().commit() } else { live.txn().rollback() };
        let (name, described) = (live.name.clone(), live.describe());
        let (what, described) = match commits {
            true => (
                TransactionStage::Commit(name, PreparedSection::new(&live.changes, &self.specs)?),
                format!("commit of prepared '{described}'"),
            ),
            false => (TransactionStage::Rollback(name), format!("rollback of prepared '{described}'")),
        };
        if done.is_err() {
            self.live.push(live);
        }
        self.stepped(done, what, sync, described)
    }

    /// Rolls a transaction back, by a drop or by a call. After a call it begins again.
    fn rollback(&mut self, mut live: Live) -> Done {
        if self.rng.bool() {
            drop(live);
            self.note_spills();
            return Ok(());
        }
        let done = live.txn().rollback();
        self.note_spills();
        done.map_err(refused("rollback"))?;
        live.changes.clear();
        live.written.clear();
        live.save_points.clear();
        live.snapshot = self.snapshot_at(live.isolation);
        self.live.push(live);
        Ok(())
    }

    /// Enters a step, or its refusal, into the journal.
    fn stepped(
        &mut self,
        done: esker::Result<()>,
        what: TransactionStage,
        sync: bool,
        described: String,
    ) -> Done {
        if let Err(error) = done {
            self.record_refused_step(what);
            return Err(refused(described)(error));
        }
        self.note(Event::Other(format!("{described}, sync {sync}")));
        match &what {
            TransactionStage::Changes(_) => self.steps.committed += 1,
            TransactionStage::Prepare(..) => self.steps.prepared += 1,
            TransactionStage::Commit(..) => self.steps.committed_prepared += 1,
            TransactionStage::Rollback(_) => self.steps.rolled_back_prepared += 1,
            TransactionStage::Ingest(_) => {}
        }
        self.apply_changes(what.changes());
        let last = self.db().latest_sequence_number().0;
        self.journal.iter_mut().for_each(|journal| journal.stepped(last, sync, what.clone()));
        Ok(())
    }

    fn apply_changes(&mut self, changes: &[(usize, ColumnFamilyId, ModelWrite)]) {
        for (family, id, write) in changes {
            if *id == self.handles[*family].id() {
                self.apply(*family, write);
            }
        }
    }
}
