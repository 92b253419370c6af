//! A round with crashes: promises of the running database, possible states after a crash.
//!
//! In: acknowledged writes, ingested files, steps of prepared transactions, flushes, dropped
//! families. Out: [`Promises`], which a crash reads when it happens, and whether the contents found
//! afterwards are right. They are right if some prefix of the writes leads to them. The prefix is
//! the same in all families, leaves the same transactions prepared, and keeps all promises.
//!
//! Invariants
//!  1. A promise enters [`Promises`] before the next operation begins, but not before the database
//!     has given it.
//!  2. `written` is in the order of [`Position`]s, which is that of the WAL.
//!  3. A refused write stays in `written` as long as a crash may bring it back. That includes
//!     crashes whose disk was copied earlier.
//!  4. An acknowledged ingestion survives every crash, even if earlier writes do not. It is in the
//!     MANIFEST, and they may be in a WAL that was not synced. Earlier writes that it overlaps are
//!     in tables.
//!  5. Each operation draws from a generator of its own, so that shrinking can leave out others.

use super::transactions::{FoundTransactions, Image, PreparedSection, TransactionStage};
use super::{Changes, Checked, Done, Event, ModelWrite, OperationKind, Round, WEIGHTS_WITH_CRASHES, refused};
use crate::model::ModelParameters;
use crate::model::families::{FEWEST, ModelFamilySpec};
use crate::model::settings::ModelSettings;
use crate::model::state::ModelState;
use esker::internals::base::sync::process::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use esker::internals::base::sync::thread;
use esker::internals::env::crash::CrashKind;
use esker::{ColumnFamilyId, Env, WriteBatch, WriteOptions};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of families in a round.
const FAMILIES: usize = 10;
/// Maximum number of ingestions in doubt for which all combinations are tried.
const MOST_FILES_IN_DOUBT: usize = 6;
/// Stands for the number of a family that is being dropped or made.
const CHANGING: u32 = u32::MAX;
const SEED_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A place in the order of all writes: a sequence number, then a step, which is 0 for plain writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Position(u64);

impl Position {
    /// Bits of the step, so that both parts fit into an atomic.
    const STEP_BITS: u32 = 20;

    pub(super) fn of_write(sequence: u64) -> Position {
        Position(sequence << Position::STEP_BITS)
    }

    /// The place of step `step`, behind all writes up to `sequence` and all earlier steps.
    fn of_step(sequence: u64, step: u64) -> Position {
        assert!(step < 1 << Position::STEP_BITS, "a life has fewer steps than the position can count");
        Position(sequence << Position::STEP_BITS | step)
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sequence, step) = (self.0 >> Position::STEP_BITS, self.0 & ((1 << Position::STEP_BITS) - 1));
        write!(f, "sequence {sequence}, step {step}")
    }
}

/// The promises that a crash at one point in time must keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor {
    /// Place of the newest write or step.
    position: Position,
    /// Place of the newest ingestion.
    ingested: Position,
    families: [u32; FAMILIES],
}

impl Floor {
    /// The promises for a disk that was copied at some time between `self` and `later`.
    pub(crate) fn until(self, later: Floor) -> Floor {
        let same = |i: usize| self.families[i] == later.families[i];
        let families = std::array::from_fn(|i| if same(i) { self.families[i] } else { CHANGING });
        Floor { families, ..self }
    }
}

/// The promises so far. They are not part of the simulation: a read of them is no place where the
/// scheduler changes threads.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    /// The newest write that must survive a killed process.
    acknowledged: AtomicU64,
    /// The newest write that must survive a power loss.
    durable: AtomicU64,
    /// The newest ingestion.
    ingested: AtomicU64,
    families: [AtomicU32; FAMILIES],
    /// Whether a crash since the last restart copied the disk: it may bring back refused writes.
    looked_at: AtomicBool,
}

impl Promises {
    pub(crate) fn at(&self, kind: CrashKind) -> Floor {
        self.looked_at.store(true, Ordering::SeqCst);
        let position = Position(match kind {
            CrashKind::ProcessKill => self.acknowledged.load(Ordering::SeqCst),
            CrashKind::PowerLoss => self.durable.load(Ordering::SeqCst),
        });
        let ingested = Position(self.ingested.load(Ordering::SeqCst));
        let families = std::array::from_fn(|i| self.families[i].load(Ordering::SeqCst));
        Floor { position, ingested, families }
    }

    fn promise(&self, kind: CrashKind, position: Position) {
        match kind {
            CrashKind::ProcessKill => self.acknowledged.fetch_max(position.0, Ordering::SeqCst),
            CrashKind::PowerLoss => self.durable.fetch_max(position.0, Ordering::SeqCst),
        };
    }

    fn promise_all(&self, position: Position) {
        self.promise(CrashKind::ProcessKill, position);
        self.promise(CrashKind::PowerLoss, position);
    }
}

pub(super) struct JournalWrites {
    /// Place of the write. `None` if the database refused it on a failing disk: a crash may or may
    /// not bring it back.
    pub(super) at: Option<Position>,
    pub(super) what: TransactionStage,
}

impl JournalWrites {
    fn is_ingestion(&self) -> bool {
        matches!(self.what, TransactionStage::Ingest(_))
    }

    /// Whether the write may survive or not, independently of other writes.
    fn is_in_doubt(&self, floor: Floor) -> bool {
        self.at.is_none_or(|at| self.is_ingestion() && at > floor.ingested)
    }
}

/// See the head of the file.
pub(crate) struct Journal {
    promises: Arc<Promises>,
    /// The round's seed, from which each operation's generator derives.
    seed: u64,
    /// Whether writes skip the WAL; flushes are then atomic.
    unlogged: bool,
    /// Whether the WAL stays in the process until a call flushes it.
    manual: bool,
    /// The state after the last crash.
    base: Vec<ModelState>,
    base_ids: Vec<ColumnFamilyId>,
    /// Transactions that were still prepared when the database opened after the last crash.
    base_prepared: BTreeMap<Vec<u8>, PreparedSection>,
    /// Writes since the last crash.
    pub(super) written: Vec<JournalWrites>,
    /// Number of steps in `written`.
    steps: u64,
    /// Place of the newest write of each family.
    newest: [Position; FAMILIES],
}

impl Journal {
    pub(super) fn unlogged(&self) -> bool {
        self.unlogged
    }

    /// Records that a family is being dropped. A flush of its replacement promises nothing about
    /// the writes of the dropped family.
    pub(super) fn family_goes(&mut self, family: usize) {
        self.promises.families[family].store(CHANGING, Ordering::SeqCst);
        self.newest[family] = Position::default();
    }

    pub(super) fn family_is(&self, family: usize, id: ColumnFamilyId) {
        self.promises.families[family].store(id.0, Ordering::SeqCst);
    }

    /// Records the end of a flush of these families.
    pub(super) fn flushed(&self, families: &[usize], atomic: bool) {
        let newest = match atomic && !families.is_empty() {
            true => self.newest.iter().max(),
            false => families.iter().map(|&f| &self.newest[f]).max(),
        };
        self.promises.promise_all(newest.copied().unwrap_or_default());
    }

    /// Records that the database was closed, which flushed writes without a WAL.
    pub(super) fn closed(&self) {
        if self.unlogged {
            self.flushed(&[0], true);
        }
    }

    fn wrote(&mut self, sequence: u64, sync: bool, changes: Changes) {
        self.wrote_at(Position::of_write(sequence), sync, TransactionStage::Changes(changes));
    }

    /// Records an ingestion, and the last sequence number after it.
    pub(super) fn ingested(&mut self, last_sequence: u64, changes: Changes) {
        self.steps += 1;
        let at = Position::of_step(last_sequence, self.steps);
        self.written.push(JournalWrites { at: Some(at), what: TransactionStage::Ingest(changes) });
        self.promises.ingested.fetch_max(at.0, Ordering::SeqCst);
    }

    /// Records a step of a transaction, and the last sequence number after it.
    pub(super) fn stepped(&mut self, last_sequence: u64, sync: bool, what: TransactionStage) {
        self.steps += 1;
        self.wrote_at(Position::of_step(last_sequence, self.steps), sync, what);
    }

    fn wrote_at(&mut self, at: Position, sync: bool, what: TransactionStage) {
        for (family, id, _) in what.changes() {
            // A transaction's writes to a dropped family do not count.
            if self.promises.families[*family].load(Ordering::SeqCst) == id.0 {
                self.newest[*family] = self.newest[*family].max(at);
            }
        }
        promise_write(&self.promises, self.unlogged, self.manual, at, sync);
        self.written.push(JournalWrites { at: Some(at), what });
    }

    /// Forgets refused writes, unless an older crash may bring them back. REQUIRES: no background
    /// error refuses writes, so a recovery has followed each refused write. Refused ingestions
    /// stay, because they cause no background error.
    pub(super) fn forget_refused(&mut self) {
        if !self.promises.looked_at.load(Ordering::SeqCst) {
            self.written.retain(|written| written.at.is_some() || written.is_ingestion());
        }
    }

    /// Records that `resume` succeeded. Earlier refused writes come back from older crashes only.
    pub(super) fn resumed(&mut self) {
        if !self.promises.looked_at.load(Ordering::SeqCst) {
            self.written.retain(|written| written.at.is_some());
        }
    }

    /// Number of acknowledged writes.
    pub(super) fn written_certainly(&self) -> usize {
        self.written.iter().filter(|written| written.at.is_some()).count()
    }

    /// The state after the last crash. Families that were replaced since are empty.
    fn base_with(&self, specs: &[ModelFamilySpec], ids: &[ColumnFamilyId]) -> Image {
        let of_base = |f: usize| match ids[f] == self.base_ids[f] {
            true => self.base[f].clone(),
            false => specs[f].empty_state(),
        };
        let states = (0..specs.len()).map(of_base).collect();
        Image { states, prepared: self.base_prepared.clone() }
    }

    /// Finds the longest prefix of the writes that gives the contents found, if some of the files
    /// ingested behind it are added. Returns its length, and the image of these contents.
    fn prefix_of(
        &self,
        specs: &[ModelFamilySpec],
        found: &FoundTransactions,
        floor: Floor,
    ) -> Option<(usize, Image)> {
        let apply =
            |written: &JournalWrites, image: &mut Image| image.apply(&written.what, specs, &found.ids);
        // There are several images if some writes were refused, or if ingested files are in doubt.
        let mut possible: Vec<Image> = vec![self.base_with(specs, &found.ids)];
        let mut longest = None;
        let mut end = 0;
        loop {
            if let Some(image) = self.found_among(&possible, end, specs, found, floor) {
                longest = Some((end, image));
            }
            if end == self.written.len() {
                return longest;
            }
            let in_doubt = self.written[end..].iter().take_while(|w| w.is_in_doubt(floor)).count();
            if in_doubt == 0 {
                possible.iter_mut().for_each(|image| apply(&self.written[end], image));
            }
            for before in 0..possible.len() {
                for order in some_of(in_doubt) {
                    let mut more = possible[before].clone();
                    order.iter().for_each(|i| apply(&self.written[end + i], &mut more));
                    possible.push(more);
                }
            }
            end += in_doubt.max(1);
        }
    }

    /// The contents found, if one of the images of the writes before `end` leads to them. Files
    /// ingested behind `end` are added: all promised ones, and any of the others.
    fn found_among(
        &self,
        possible: &[Image],
        end: usize,
        specs: &[ModelFamilySpec],
        found: &FoundTransactions,
        floor: Floor,
    ) -> Option<Image> {
        let behind: Vec<&JournalWrites> = self.written[end..].iter().filter(|w| w.is_ingestion()).collect();
        let in_doubt = behind.iter().filter(|w| w.is_in_doubt(floor)).count();
        let choices = 1_usize << in_doubt.min(MOST_FILES_IN_DOUBT);
        possible.iter().flat_map(|image| (0..choices).map(move |chosen| (image, chosen))).find_map(
            |(image, mut chosen)| {
                let mut image = image.clone();
                for written in &behind {
                    let comes_in = if written.is_in_doubt(floor) {
                        let comes_in = chosen & 1 == 1;
                        chosen >>= 1;
                        comes_in
                    } else {
                        true
                    };
                    if comes_in {
                        image.apply(&written.what, specs, &found.ids);
                    }
                }
                found.is(&image).then_some(image)
            },
        )
    }

    fn position_of(&self, prefix: usize) -> Position {
        self.written[..prefix].iter().rev().find_map(|written| written.at).unwrap_or_default()
    }

    /// Continues the round from these contents, with these transactions prepared.
    fn restart(
        &mut self,
        found: &[ModelState],
        ids: Vec<ColumnFamilyId>,
        prepared: BTreeMap<Vec<u8>, PreparedSection>,
    ) {
        self.base = found.to_vec();
        self.base_prepared = prepared;
        for (family, id) in ids.iter().enumerate() {
            self.family_is(family, *id);
        }
        self.base_ids = ids;
        self.written.clear();
        self.steps = 0;
        self.newest = [Position::default(); FAMILIES];
        self.promises.acknowledged.store(0, Ordering::SeqCst);
        self.promises.durable.store(0, Ordering::SeqCst);
        self.promises.ingested.store(0, Ordering::SeqCst);
        self.promises.looked_at.store(false, Ordering::SeqCst);
    }
}

/// All ways to take some of `count` writes, in any order. With more than four writes, only ways in
/// their order.
fn some_of(count: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    let mut from = 0;
    while from < all.len() {
        for next in 0..count {
            let taken = &all[from];
            let in_order = count <= 4 || taken.last().is_none_or(|last| *last < next);
            if !taken.contains(&next) && in_order {
                all.push([&taken[..], &[next]].concat());
            }
        }
        from += 1;
    }
    all.remove(0);
    all
}

fn promise_write(promises: &Promises, unlogged: bool, manual: bool, at: Position, sync: bool) {
    if sync {
        promises.promise_all(at);
    } else if !unlogged && !manual {
        promises.promise(CrashKind::ProcessKill, at);
    }
}

impl ModelWrite {
    pub(super) fn apply(&self, spec: &ModelFamilySpec, state: &mut ModelState) {
        match self {
            ModelWrite::Put(index, value) => state.put(*index, value),
            ModelWrite::Delete(index) | ModelWrite::SingleDelete(index) => state.delete(*index),
            ModelWrite::Merge(index, operand) => state.merge(*index, spec.merge, operand),
            ModelWrite::DeleteRange(begin, end) => {
                state.delete_range(spec.lower_bound(begin), spec.lower_bound(end));
            }
            ModelWrite::At(time, write) => {
                write.apply(spec, state);
                state.note_versions(*time, write.keys(spec));
            }
        }
    }

    /// The keys that the write may change.
    pub(super) fn keys(&self, spec: &ModelFamilySpec) -> Range<usize> {
        match self {
            ModelWrite::At(_, write) => write.keys(spec),
            ModelWrite::DeleteRange(begin, end) => {
                let first = spec.lower_bound(begin);
                first..spec.lower_bound(end).max(first)
            }
            write => write.index().map_or(0..0, |index| index..index + 1),
        }
    }

    pub(super) fn add_to(
        &self,
        batch: &mut WriteBatch,
        id: ColumnFamilyId,
        spec: &ModelFamilySpec,
    ) -> esker::Result<()> {
        match self {
            ModelWrite::Put(index, value) => batch.put_cf(id, &spec.keys[*index], value),
            ModelWrite::Delete(index) => batch.delete_cf(id, &spec.keys[*index]),
            ModelWrite::SingleDelete(index) => batch.single_delete_cf(id, &spec.keys[*index]),
            ModelWrite::Merge(index, operand) => batch.merge_cf(id, &spec.keys[*index], operand),
            ModelWrite::DeleteRange(begin, end) => batch.delete_range_cf(id, begin, end),
            ModelWrite::At(time, write) => {
                let key = write.index().map_or_else(Vec::new, |index| spec.stamp(&spec.keys[index], *time));
                match &**write {
                    ModelWrite::Put(_, value) => batch.put_cf(id, &key, value),
                    ModelWrite::Merge(_, operand) => batch.merge_cf(id, &key, operand),
                    ModelWrite::Delete(_) => batch.delete_cf(id, &key),
                    ModelWrite::SingleDelete(_) => batch.single_delete_cf(id, &key),
                    ModelWrite::DeleteRange(begin, end) => {
                        batch.delete_range_cf(id, spec.stamp(begin, *time), spec.stamp(end, *time))
                    }
                    ModelWrite::At(..) => unreachable!("a write has one timestamp"),
                }
            }
        }
    }
}

impl Round {
    /// A round of short lives and crashes. Its database is not open yet.
    pub(crate) fn with_crashes(seed: u64, parameters: &ModelParameters, env: Env) -> Round {
        let mut rng = fastrand::Rng::with_seed(seed);
        let keys = rng.usize(20..100);
        let families = if rng.u8(..4) == 0 { rng.usize(FEWEST + 1..=FAMILIES) } else { FEWEST };
        // With `shared_orders` RocksDB opens disks without `allow_2pc`, which transactions need.
        let with_transactions = rng.u8(..3) > 0 && !parameters.shared_orders;
        let parameters = parameters.with_policies(&mut rng, with_transactions);
        let mut round = Round::with(rng, (families, keys), &parameters, env, &WEIGHTS_WITH_CRASHES);
        round.has_transactions = with_transactions;
        round.journal = Some(Journal {
            promises: Arc::default(),
            seed,
            unlogged: false,
            manual: false,
            base: round.states.clone(),
            base_ids: vec![ColumnFamilyId(CHANGING); families],
            base_prepared: BTreeMap::new(),
            written: Vec::new(),
            steps: 0,
            newest: [Position::default(); FAMILIES],
        });
        round
    }

    /// Creates the database.
    pub(crate) fn open_first(&mut self) -> Checked {
        self.draw_settings();
        self.open()?;
        let ids = self.handles.iter().map(esker::ColumnFamilyHandle::id).collect();
        let states = self.states.clone();
        self.journal.as_mut().expect("the round has a journal").restart(&states, ids, BTreeMap::new());
        Ok(())
    }

    /// The last events other than writes, for the message of a failure that concerns no key.
    pub(crate) fn lately(&self) -> String {
        let shown = self.events.iter().rev().filter_map(|(operation, event)| match event {
            Event::Other(what) => Some(format!("\n  {operation}: {what}")),
            Event::Write(..) => None,
        });
        let lines: Vec<String> = shown.take(12).collect();
        lines.into_iter().rev().collect()
    }

    pub(super) fn journal(&self) -> &Journal {
        self.journal.as_ref().expect("the round has a journal")
    }

    pub(crate) fn specs(&self) -> &[ModelFamilySpec] {
        &self.specs
    }

    pub(crate) fn promises(&self) -> Arc<Promises> {
        self.journal().promises.clone()
    }

    /// Runs operation `number` with a generator of its own.
    pub(crate) fn operate_alone(&mut self, number: u64) -> Checked {
        let seed = self.journal().seed ^ (number + 1).wrapping_mul(SEED_STEP);
        self.rng = fastrand::Rng::with_seed(seed);
        self.operation = number;
        let resumes = self.wants_to_resume();
        let of_resume = self.weights.iter().position(|(kind, _)| *kind == OperationKind::Resume);
        let chosen = of_resume.filter(|_| resumes).unwrap_or_else(|| self.choose());
        self.operate(chosen)
    }

    pub(super) fn draw_settings(&mut self) {
        self.settings = ModelSettings::random(&mut self.rng, &self.env, &self.specs);
        let rng = &mut self.rng;
        let Some(journal) = &mut self.journal else { return };
        let db = &mut self.settings.db;
        // The engine refuses recycled WALs together with writes that skip the WAL.
        journal.unlogged = db.atomic_flush && db.recycle_log_file_num == 0 && rng.u8(..3) == 0;
        // A clean close must not lose anything.
        db.avoid_flush_during_shutdown &= !journal.unlogged;
        journal.manual = db.manual_wal_flush;
        db.allow_2pc = self.has_transactions;
        if cfg!(shuttle) {
            self.settings.let_time_matter(&mut self.rng);
        } else {
            self.settings.let_errors_pass(&mut self.rng);
        }
        self.draw_policy();
    }

    pub(super) fn wrote(&mut self, sequence: u64, sync: bool, writes: Vec<(usize, ModelWrite)>) {
        let changes = self.with_ids(writes);
        self.journal.iter_mut().for_each(|journal| journal.wrote(sequence, sync, changes.clone()));
    }

    pub(super) fn with_ids(&self, writes: Vec<(usize, ModelWrite)>) -> Changes {
        let with_id = |(family, write): (usize, ModelWrite)| (family, self.handles[family].id(), write);
        writes.into_iter().map(with_id).collect()
    }

    pub(super) fn sync_wal(&mut self) -> Done {
        let sync = self.rng.bool();
        self.note(Event::Other(format!("flush_wal, sync {sync}")));
        self.db().flush_wal(sync).map_err(refused("flush_wal"))?;
        let journal = self.journal();
        if !journal.unlogged {
            let last = journal.position_of(journal.written.len());
            journal.promises.promise(CrashKind::ProcessKill, last);
            if sync {
                journal.promises.promise(CrashKind::PowerLoss, last);
            }
        }
        Ok(())
    }

    /// Writes from several threads at once. Sequence numbers give the order of their writes.
    pub(super) fn burst(&mut self) -> Done {
        let threads: Vec<Vec<_>> = (0..self.rng.usize(2..=3))
            .map(|_| (0..self.rng.usize(1..=5)).map(|_| self.batch_of_burst()).collect())
            .collect();
        let journal = self.journal();
        let (unlogged, manual, promises) = (journal.unlogged, journal.manual, &*journal.promises);
        let (db, specs, handles) = (self.db(), &self.specs, &self.handles);
        let write = |options: &WriteOptions, writes: &[(usize, ModelWrite)]| {
            let mut batch = WriteBatch::new();
            for (family, write) in writes {
                write.add_to(&mut batch, handles[*family].id(), &specs[*family])?;
            }
            db.write_opt(options, &mut batch)?;
            let sequence = batch.sequence().0;
            promise_write(promises, unlogged, manual, Position::of_write(sequence), options.sync);
            Ok(sequence)
        };
        // Each thread stops at its first refused batch.
        let write_all = |batches: Vec<(WriteOptions, Vec<(usize, ModelWrite)>)>| {
            let mut written = Vec::new();
            for (options, writes) in batches {
                let done: esker::Result<u64> = write(&options, &writes);
                let is_refused = done.is_err();
                written.push((done, options.sync, writes));
                if is_refused {
                    break;
                }
            }
            written
        };
        let written: Vec<Vec<_>> = thread::scope(|scope| {
            let spawned: Vec<_> =
                threads.into_iter().map(|batches| scope.spawn(|| write_all(batches))).collect();
            spawned.into_iter().map(|thread| thread.join().expect("no writer panics")).collect()
        });
        let (mut all, mut error) = (Vec::new(), None);
        let mut not_written = Vec::new();
        for (done, sync, writes) in written.into_iter().flatten() {
            match done {
                Ok(sequence) => all.push((sequence, sync, writes)),
                Err(e) => {
                    error = Some(e);
                    not_written.push(writes);
                }
            }
        }
        all.sort_by_key(|(sequence, ..)| *sequence);
        self.note(Event::Other(format!("a burst of {} batches", all.len())));
        for (sequence, sync, writes) in all {
            writes.iter().for_each(|(family, write)| self.apply(*family, write));
            self.wrote(sequence, sync, writes);
        }
        not_written.into_iter().for_each(|writes| self.record_refused_writes(writes));
        error.map_or(Ok(()), |e| Err(refused("a write of several threads")(e)))
    }

    /// A batch of a thread. It omits keys that are deleted singly, because their state at the write
    /// is not known. It omits families with timestamps, because timestamps must ascend as sequence
    /// numbers do.
    fn batch_of_burst(&mut self) -> (WriteOptions, Vec<(usize, ModelWrite)>) {
        let options = self.write_options();
        let kinds = [
            OperationKind::Put,
            OperationKind::Put,
            OperationKind::Delete,
            OperationKind::Merge,
            OperationKind::DeleteRange,
        ];
        let mut writes = Vec::new();
        while writes.is_empty() {
            for _ in 0..self.rng.usize(1..5) {
                let (kind, family) = (kinds[self.rng.usize(..kinds.len())], self.plain_family());
                let write = self.random_write(family, kind);
                if !write.index().is_some_and(|index| self.specs[family].is_single(index)) {
                    writes.push((family, write));
                }
            }
        }
        (options, writes)
    }

    /// Drops the database without a close, as a crash does.
    pub(crate) fn abandon(&mut self) {
        self.cursors.clear();
        self.snapshots.clear();
        self.handles.clear();
        self.live.clear();
        self.db = None;
        self.trouble = None;
    }

    /// Opens the database with newly drawn settings and drops it, for crashes during an opening.
    /// # Errors
    /// The reason why it does not open.
    pub(crate) fn try_to_open(&mut self, env: Env) -> Checked {
        let settings = ModelSettings::random(&mut self.rng, &env, &self.specs);
        self.open_and_close(settings).map_err(|e| format!("open: {e}"))
    }

    /// Opens a crashed disk, compares the contents, and continues from there. `what` describes the
    /// crash. Returns the number of journal entries behind the prefix found.
    /// # Errors
    /// `Err((true, _))` if the database does not open.
    pub(crate) fn recover(&mut self, env: Env, floor: Floor, what: &str) -> Result<usize, (bool, String)> {
        self.check_leftovers().map_err(|why| (false, why))?;
        self.env = env;
        self.draw_settings();
        self.note(Event::Other(what.to_owned()));
        let does_not_open = |why| (true, format!("the database does not open: {why}"));
        self.open_without_transactions().map_err(does_not_open)?;
        self.open().map_err(does_not_open)?;
        self.compare_with_promises(floor).map_err(|why| (false, why))
    }

    fn compare_with_promises(&mut self, floor: Floor) -> Result<usize, String> {
        let states = (0..self.specs.len()).map(|f| self.contents_of(f)).collect::<Result<Vec<_>, _>>()?;
        let ids: Vec<_> = self.handles.iter().map(esker::ColumnFamilyHandle::id).collect();
        for (promised, id) in floor.families.iter().zip(&ids) {
            // 0 is the number of the default family, and of families of a database that was never
            // open.
            if ![0, CHANGING, id.0].contains(promised) {
                return Err(format!("a family was {promised} and is {}", id.0));
            }
        }
        let stamped = self.read_older()?;
        let found = FoundTransactions { states, ids, stamped, prepared: self.prepared_in_database() };
        if self.opened_without && !found.prepared.is_empty() {
            return Err("it was open where prepared transactions are refused, and has some".to_owned());
        }
        let journal = self.journal.as_mut().expect("the round has a journal");
        let all = journal.written.len();
        let Some((prefix, image)) = journal.prefix_of(&self.specs, &found, floor) else {
            let why = journal.nearest(&self.specs, &found);
            return Err(self.blame(why.0, why.1, &why.2));
        };
        let (survived, promised) = (journal.position_of(prefix), floor.position);
        if survived < promised {
            return Err(format!("promised up to {promised}, found up to {survived}"));
        }
        self.take_up_prepared(&image.prepared);
        let journal = self.journal.as_mut().expect("the round has a journal");
        journal.restart(&image.states, found.ids, image.prepared);
        self.states = image.states;
        if self.rng.u8(..4) == 0 {
            self.verify()?;
            self.audit()?;
        }
        Ok(all - prefix)
    }

    /// The contents of families with timestamps, at each timestamp written since the last crash and
    /// at the oldest readable one.
    fn read_older(&self) -> Result<Vec<(usize, u64, ModelState)>, String> {
        let mut older = Vec::new();
        for family in (0..self.specs.len()).filter(|family| self.specs[*family].stamps.is_some()) {
            let (id, from) = (self.handles[family].id(), self.readable_from[family]);
            let changes = self.journal().written.iter().flat_map(|written| match &written.what {
                TransactionStage::Changes(changes) | TransactionStage::Ingest(changes) => changes.as_slice(),
                _ => &[],
            });
            let times = changes.filter_map(|(of, in_family, write)| match write {
                ModelWrite::At(time, _) if (*of, *in_family) == (family, id) && *time > from => Some(*time),
                _ => None,
            });
            for time in std::iter::once(from).chain(times) {
                older.push((family, time, self.contents_at(family, time)?));
            }
        }
        Ok(older)
    }

    fn contents_of(&self, family: usize) -> Result<ModelState, String> {
        self.contents_at(family, u64::MAX)
    }

    /// The contents of a family at this timestamp, or the present ones if its keys have no
    /// timestamps.
    fn contents_at(&self, family: usize, time: u64) -> Result<ModelState, String> {
        let spec = &self.specs[family];
        let unreadable = |e: esker::Error| format!("family '{}' cannot be read: {e}", spec.name);
        let options = self.reading_at(family, time);
        let mut iter = self.db().iter_opt(options, &self.handles[family]).map_err(unreadable)?;
        let mut state = ModelState::empty(spec.keys.len());
        iter.seek_to_first();
        while let Some((key, value)) = iter.item() {
            let index = spec.lower_bound(key);
            if spec.keys.get(index).map(Vec::as_slice) != Some(key) {
                return Err(format!("family '{}' has the key \"{}\"", spec.name, key.escape_ascii()));
            }
            state.put(index, value);
            iter.next();
        }
        iter.status().map_err(unreadable)?;
        Ok(state)
    }

    /// Compares all contents once more and closes the database.
    pub(crate) fn finish(&mut self, report: &mut super::ModelReport) -> Checked {
        self.resolve_all()?;
        self.verify()?;
        self.db().verify_checksum().map_err(|e| format!("verify_checksum: {e}"))?;
        self.cursors.clear();
        self.audit()?;
        self.close()?;
        self.add_to(report);
        Ok(())
    }
}

impl Journal {
    /// For contents that match no prefix: the first difference from the nearest prefix, as family,
    /// key and text.
    fn nearest(
        &self,
        specs: &[ModelFamilySpec],
        found: &FoundTransactions,
    ) -> (usize, Option<usize>, String) {
        // Number of differing keys and transactions, prefix, first such key, transactions as text.
        type Nearest = (usize, usize, Option<(usize, usize)>, String);
        let mut best: Option<Nearest> = None;
        let mut image = self.base_with(specs, &found.ids);
        for prefix in 0..=self.written.len() {
            if let Some(written) = prefix.checked_sub(1).map(|last| &self.written[last]) {
                image.apply(&written.what, specs, &found.ids);
            }
            let mut differ = Vec::new();
            for (family, spec) in specs.iter().enumerate() {
                let of_family =
                    |&index: &usize| image.states[family].get(index) != found.states[family].get(index);
                differ.extend((0..spec.keys.len()).filter(of_family).map(|index| (family, index)));
            }
            let sections = found.sections_that_differ(&image);
            let count = differ.len() + sections;
            if best.as_ref().is_none_or(|(fewest, ..)| count <= *fewest) {
                best = Some((count, prefix, differ.first().copied(), found.describe_prepared(&image)));
            }
        }
        let (keys, prefix, first, prepared) = best.expect("the empty prefix is always a candidate");
        let mut text = format!(
            "not what any prefix of {} writes leads to; nearest is that of {prefix} (up to {}), from which {keys} keys or \
             transactions differ; {prepared}",
            self.written.len(),
            self.position_of(prefix),
        );
        let Some((family, index)) = first else { return (0, None, text) };
        text += &format!("; found {:?}", found.states[family].get(index).map(super::show));
        (family, Some(index), text)
    }
}
