//! The leader: random writes, and the model of its change stream.

use super::follower::{StreamFollower, copied_disk};
use crate::crash::choices_of;
use esker::internals::env::crash::CrashKind;
use esker::internals::env::{CrashChoices, CrashFs, Env};
use esker::{
    ChangeBatch, ChangeOp, ChangePosition, ColumnFamilyDescriptor, ColumnFamilyHandle, Db, FlushOptions,
    Options, SequenceNumber, Transaction, TransactionDb, TransactionDbOptions, WriteBatch, WriteOptions,
    builtin,
};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Path of each database on its simulated disk.
pub(super) const DIR: &str = "/db";
/// Keys of each family that random operations use.
const KEYS: u32 = 300;

/// A unit of the stream, as it must come.
pub(super) struct Unit {
    first: u64,
    last: u64,
    pub(super) content: UnitContent,
}

pub(super) enum UnitContent {
    /// The operations, as a WAL holds them.
    Ops(Vec<u8>),
    /// Batches of threads, in an unknown order.
    Burst,
    /// A write without a WAL.
    Unlogged,
}

pub(super) struct StreamLeader {
    disk: CrashFs,
    options: Options,
    families: Vec<ColumnFamilyHandle>,
    /// Prepared transactions, with their operations.
    prepared: Vec<(Vec<u8>, Transaction)>,
    sections: HashMap<Vec<u8>, Vec<u8>>,
    db: TransactionDb,
    units: Vec<Unit>,
    /// The newest number that is on the medium.
    pub(super) synced: u64,
    /// Numbers whose WAL a power loss may have taken, although tables have their entries.
    weak: Vec<(u64, u64)>,
    /// Keys that were put once, by family.
    single: Vec<(ColumnFamilyHandle, String)>,
    /// Numbers for names.
    names: u64,
    /// The next number of each writer of the burst that the follower reads.
    counters: HashMap<(u64, usize), u64>,
}

/// The disk that a crash leaves.
pub(super) struct CrashedLeader {
    disk: CrashFs,
    choices: CrashChoices,
    /// Numbers that were acknowledged, and synced, at the crash.
    newest: u64,
    synced: u64,
}

impl CrashedLeader {
    pub(super) fn is_power_loss(&self) -> bool {
        self.choices.kind == CrashKind::PowerLoss
    }
}

fn open(options: &Options) -> esker::Result<(TransactionDb, Vec<ColumnFamilyHandle>)> {
    let names = Db::list_column_families(&options.db, DIR).unwrap_or_else(|_| vec!["default".to_owned()]);
    let families = names.iter().map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let db = TransactionDb::open_cf(&options.db, &TransactionDbOptions::default(), DIR, families)?;
    let families = names.iter().filter_map(|name| db.db().column_family(name)).collect();
    Ok((db, families))
}

impl StreamLeader {
    pub(super) fn new(rng: &mut fastrand::Rng) -> Result<StreamLeader, String> {
        let mut options = Options::new().create_if_missing(true);
        options.db.wal_ttl_seconds = 1 << 30;
        options.db.recycle_log_file_num = if rng.bool() { 0 } else { rng.usize(1..3) };
        options.db.avoid_flush_during_recovery = rng.bool();
        options.db.avoid_flush_during_shutdown = rng.bool();
        options.db.max_total_wal_size = if rng.bool() { 1 << rng.u32(12..18) } else { 0 };
        options.cf.write_buffer_size = 1 << rng.u32(14..18);
        options.cf.merge_operator = Some(builtin::string_append(","));
        let disk = CrashFs::new();
        options.db.env = Env::with_fs(Arc::new(disk.clone()));
        let (db, families) = open(&options).map_err(|e| format!("the new leader: {e}"))?;
        Ok(StreamLeader {
            disk,
            options,
            families,
            prepared: Vec::new(),
            sections: HashMap::new(),
            db,
            units: Vec::new(),
            synced: 0,
            weak: Vec::new(),
            single: Vec::new(),
            names: 0,
            counters: HashMap::new(),
        })
    }

    pub(super) fn db(&self) -> &Db {
        self.db.db()
    }

    pub(super) fn families(&self) -> &[ColumnFamilyHandle] {
        &self.families
    }

    pub(super) fn units(&self) -> &[Unit] {
        &self.units
    }

    fn newest(&self) -> u64 {
        self.db().latest_sequence_number().0
    }

    /// One random change. Returns whether it committed a prepared transaction.
    pub(super) fn step(&mut self, rng: &mut fastrand::Rng) -> Result<bool, String> {
        self.try_step(rng).map_err(|e| format!("the leader: {e}"))
    }

    fn try_step(&mut self, rng: &mut fastrand::Rng) -> esker::Result<bool> {
        match rng.u16(..1000) {
            0..800 => {
                let mut batch = self.random_batch(rng)?;
                let options = WriteOptions::new().sync(rng.u8(..20) == 0);
                self.write(&options, &mut batch)?;
            }
            800..804 if self.options.db.recycle_log_file_num == 0 => {
                let mut batch = self.random_batch(rng)?;
                self.write(&WriteOptions::new().disable_wal(true), &mut batch)?;
            }
            804..850 => self.prepare(rng)?,
            850..900 if !self.prepared.is_empty() => {
                let (name, txn) = self.prepared.swap_remove(rng.usize(..self.prepared.len()));
                if rng.u8(..4) == 0 {
                    txn.rollback()?;
                } else {
                    let first = self.newest() + 1;
                    txn.commit()?;
                    let ops = self.sections.get(&name).cloned().unwrap_or_default();
                    self.add_unit(first, UnitContent::Ops(ops));
                    return Ok(true);
                }
            }
            900..906 if self.families.len() < 5 => {
                // Names come again, with other ids.
                let name = format!("family{}", rng.u8(..6));
                if self.families.iter().all(|family| family.name() != name) {
                    self.families.push(self.db.create_column_family(&name, &self.options.cf)?);
                }
            }
            906..909 if self.families.len() > 1 && self.prepared.is_empty() => {
                let family = self.families.swap_remove(rng.usize(1..self.families.len()));
                self.single.retain(|(of, _)| of.id() != family.id());
                self.db.drop_column_family(&family)?;
            }
            909..925 => {
                let some: Vec<_> = self.families.iter().filter(|_| rng.bool()).collect();
                self.db().flush_opt(&FlushOptions::default(), &some)?;
            }
            925..930 => {
                self.db().sync_wal()?;
                self.synced = self.newest();
            }
            _ => {}
        }
        Ok(false)
    }

    fn add_unit(&mut self, first: u64, content: UnitContent) {
        let last = self.newest();
        if last >= first {
            self.units.push(Unit { first, last, content });
        }
    }

    fn write(&mut self, options: &WriteOptions, batch: &mut WriteBatch) -> esker::Result<()> {
        let first = self.newest() + 1;
        let content = match options.disable_wal {
            true => UnitContent::Unlogged,
            false => UnitContent::Ops(batch.ops_bytes().to_vec()),
        };
        self.db().write_opt(options, batch)?;
        self.add_unit(first, content);
        if options.sync {
            self.synced = self.newest();
        }
        Ok(())
    }

    fn random_batch(&mut self, rng: &mut fastrand::Rng) -> esker::Result<WriteBatch> {
        let mut batch = WriteBatch::new();
        for _ in 0..rng.usize(1..6) {
            let family = self.families[rng.usize(..self.families.len())].clone();
            let key = format!("{:03}", rng.u32(..KEYS));
            let value = vec![rng.alphanumeric() as u8; rng.usize(..120)];
            match rng.u8(..32) {
                0..16 => batch.put_cf(&family, key, value)?,
                16..21 => batch.delete_cf(&family, key)?,
                21..26 => batch.merge_cf(&family, key, [rng.alphanumeric() as u8])?,
                26 => batch.delete_range_cf(&family, &key, format!("{key}5"))?,
                27 => batch.put_entity_cf(&family, key, &[(b"a", &value), (b"b", b"2")])?,
                28 => batch.put_log_data(&value)?,
                29 if !self.single.is_empty() => {
                    let (family, key) = self.single.swap_remove(rng.usize(..self.single.len()));
                    batch.single_delete_cf(&family, key)?;
                }
                _ => {
                    self.names += 1;
                    let key = format!("once{}", self.names);
                    batch.put_cf(&family, &key, value)?;
                    self.single.push((family, key));
                }
            }
        }
        Ok(batch)
    }

    fn prepare(&mut self, rng: &mut fastrand::Rng) -> esker::Result<()> {
        self.names += 1;
        let name = format!("txn{}", self.names);
        let txn = self.db.begin_transaction();
        txn.set_name(name.as_bytes())?;
        let mut ops = WriteBatch::new();
        for i in 0..rng.usize(1..4) {
            // Keys of its own: no other write waits for its locks.
            let (family, key) = (&self.families[rng.usize(..self.families.len())], format!("{name}/{i}"));
            txn.put_cf(family, &key, &name)?;
            ops.put_cf(family, &key, &name)?;
        }
        txn.prepare()?;
        self.sections.insert(name.clone().into_bytes(), ops.ops_bytes().to_vec());
        self.prepared.push((name.into_bytes(), txn));
        Ok(())
    }

    /// Compares a batch of the stream, which was read at `position`, with the model. Returns
    /// whether it belongs to a burst.
    pub(super) fn check(&mut self, batch: &ChangeBatch, position: ChangePosition) -> Result<bool, String> {
        let (first, next) = (batch.first_sequence().0, batch.next_position().next_sequence().0);
        if batch.is_empty() {
            return Ok(false);
        }
        let due = position.next_sequence().0;
        if first != due {
            return Err(format!("a batch from {first} to {} comes where {due} is due", next - 1));
        }
        let at = self.units.partition_point(|unit| unit.last < first);
        let Some(unit) = self.units.get(at) else {
            return Err(format!("a batch from {first} on comes that was never written"));
        };
        match &unit.content {
            UnitContent::Ops(ops) if unit.first == first && unit.last + 1 == next => {
                let there = batch.write_batch().ops_bytes();
                if there != ops.as_slice() {
                    let (there, here) = (there.escape_ascii(), ops.escape_ascii());
                    return Err(format!("the batch from {first} on is {there}, and was written as {here}"));
                }
                Ok(false)
            }
            UnitContent::Burst if first >= unit.first && next <= unit.last.saturating_add(1) => {
                let burst = unit.first;
                self.count(burst, batch).map(|()| true)
            }
            _ => Err(format!("{first} to {} comes; {} to {} was written", next - 1, unit.first, unit.last)),
        }
    }

    /// Each writer of a burst counts from 0 on.
    fn count(&mut self, burst: u64, batch: &ChangeBatch) -> Result<(), String> {
        for change in batch.iter() {
            let ChangeOp::Put { key, value } = change.op else { return Err(format!("{change:?}")) };
            let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
            let writer = key.strip_prefix(b"writer").and_then(number).ok_or("no writer")?;
            let found = number(value).ok_or("no number")?;
            let writer = usize::try_from(writer).map_err(|e| e.to_string())?;
            // The follower's own crash takes it back: its counters begin where it continues.
            let due = self.counters.insert((burst, writer), found + 1);
            if due.is_some_and(|due| due < found) {
                return Err(format!("writer {writer} of the burst at {burst}: {found} comes, not {due:?}"));
            }
        }
        Ok(())
    }

    /// A stream that has caught up has come to the newest write.
    pub(super) fn check_end(&self, position: ChangePosition) -> Result<(), String> {
        let (next, newest) = (position.next_sequence().0, self.newest());
        match next == newest + 1 || self.is_in_burst() {
            true => Ok(()),
            false => Err(format!("the stream ends before {next}; {newest} is written")),
        }
    }

    /// Whether no WAL need have the numbers `from` to `to`, and a WAL must have the next one.
    pub(super) fn lacks(&self, from: u64, to: u64) -> bool {
        let at = self.units.partition_point(|unit| unit.last < from);
        let lost = self.units[at..].iter().take_while(|unit| matches!(unit.content, UnitContent::Unlogged));
        let end = lost.last().map(|unit| unit.last);
        self.is_weak(from) || end.is_some_and(|end| end == to || self.is_weak(end + 1))
    }

    /// Whether no WAL need have this number.
    pub(super) fn may_lack(&self, number: u64) -> bool {
        let at = self.units.partition_point(|unit| unit.last < number);
        let is_unlogged = |unit: &Unit| matches!(unit.content, UnitContent::Unlogged);
        self.is_weak(number) || self.units.get(at).is_some_and(is_unlogged)
    }

    /// Whether a power loss may have taken the WAL of this number.
    fn is_weak(&self, number: u64) -> bool {
        self.weak.iter().any(|(from, to)| (*from..=*to).contains(&number))
    }

    /// A follower that begins with a checkpoint.
    pub(super) fn copy(&mut self, rng: &mut fastrand::Rng) -> Result<StreamFollower, String> {
        self.names += 1;
        let dir = format!("/copy{}", self.names);
        let copied = self.copy_to(&dir, rng).and_then(|(newest, disk)| {
            esker::destroy_db(&self.options.db, &dir)?;
            self.synced = self.synced.max(newest.0);
            StreamFollower::over(disk, Some(newest), rng)
        });
        self.counters.clear();
        copied.map_err(|e| format!("the copy: {e}"))
    }

    fn copy_to(&self, dir: &str, rng: &mut fastrand::Rng) -> esker::Result<(SequenceNumber, CrashFs)> {
        // A copy without a flush lacks entries that no WAL has.
        let all: Vec<_> = self.families.iter().collect();
        self.db().flush_opt(&FlushOptions::default(), &all)?;
        let newest = self.db().create_checkpoint(dir, if rng.bool() { 0 } else { 1 << 30 })?;
        // A copy of WALs has writes that a power loss may take from the leader.
        self.db().sync_wal()?;
        Ok((newest, copied_disk(&self.disk, Path::new(dir))?))
    }

    /// Whether threads are writing.
    pub(super) fn is_in_burst(&self) -> bool {
        self.units.last().is_some_and(|unit| unit.last == u64::MAX)
    }

    /// The disk after a crash at this point.
    pub(super) fn crash(&self, may_lose_power: bool, rng: &mut fastrand::Rng) -> CrashedLeader {
        let choices = choices_of(rng.u64(..));
        let choices = if may_lose_power { choices } else { CrashChoices::process_kill() };
        let (newest, synced) = (self.newest(), self.synced);
        CrashedLeader { disk: self.disk.crash_clone(&choices), choices, newest, synced }
    }

    /// Opens a crashed disk in place of the leader's. Returns whether it was refused, and the disk
    /// of a killed process opened instead.
    pub(super) fn open_crashed(
        &mut self,
        crashed: CrashedLeader,
        is_during_burst: bool,
    ) -> Result<bool, String> {
        let CrashedLeader { mut disk, mut choices, mut newest, synced } = crashed;
        let mut options = self.options.clone();
        options.db.env = Env::with_fs(Arc::new(disk.clone()));
        let mut opened = open(&options);
        let is_refused = choices.kind == CrashKind::PowerLoss
            && opened.as_ref().is_err_and(|e| e.is_corruption() && e.to_string().contains("MANIFEST"));
        if is_refused {
            choices = CrashChoices::process_kill();
            disk = self.disk.crash_clone(&choices);
            newest = self.newest();
            options.db.env = Env::with_fs(Arc::new(disk.clone()));
            opened = open(&options);
        }
        let (db, families) = opened.map_err(|e| format!("the leader after {choices:?}: {e}"))?;
        self.prepared.clear();
        self.single.clear();
        (self.db, self.families, self.disk, self.options) = (db, families, disk, options);
        self.prepared = self
            .db
            .get_all_prepared_transactions()
            .into_iter()
            .filter_map(|txn| Some((txn.name()?, txn)))
            .collect();
        let found = self.newest();
        let logged = |unit: &&Unit| !matches!(unit.content, UnitContent::Unlogged) && unit.last <= newest;
        let promised = match choices.kind {
            CrashKind::PowerLoss => synced,
            CrashKind::ProcessKill => {
                self.units.iter().rev().find(logged).map_or(0, |unit| unit.last).max(synced)
            }
        };
        if found < promised {
            return Err(format!("after {choices:?} the leader has {found}, and {promised} was promised"));
        }
        if choices.kind == CrashKind::PowerLoss && found > synced {
            self.weak.push((synced + 1, found));
        }
        self.synced = synced.min(found);
        self.units.retain(|unit| unit.first <= found);
        if let Some(unit) = self.units.last_mut().filter(|unit| unit.last > found) {
            match unit.content {
                UnitContent::Ops(_) => {
                    return Err(format!(
                        "{found} is the newest number, within {} to {}",
                        unit.first, unit.last
                    ));
                }
                _ => unit.last = found,
            }
        } else if let Some(unit) = self.units.last().filter(|unit| unit.last < found && !is_during_burst) {
            return Err(format!("{} was the newest number, {found} is", unit.last));
        }
        Ok(is_refused)
    }

    /// The recovered leader has all that its follower has.
    pub(super) fn check_newest(&self, position: ChangePosition) -> Result<(), String> {
        let (next, newest) = (position.next_sequence().0, self.newest());
        match next <= newest + 1 {
            true => Ok(()),
            false => Err(format!("the follower is at {next}; the recovered leader has {newest}")),
        }
    }

    /// The work of several threads, and their number.
    pub(super) fn begin_burst(&mut self, rng: &mut fastrand::Rng) -> (BurstWork, usize) {
        let first = self.newest() + 1;
        self.units.push(Unit { first, last: u64::MAX, content: UnitContent::Burst });
        let work = BurstWork {
            db: self.db().clone(),
            family: self.families[rng.usize(..self.families.len())].clone(),
            batches: rng.u64(1..60),
        };
        (work, rng.usize(2..5))
    }

    pub(super) fn end_burst(&mut self) {
        let newest = self.newest();
        if let Some(unit) = self.units.last_mut() {
            unit.last = newest;
        }
    }
}

/// Batches of threads: each batch has consecutive numbers of its writer.
pub(super) struct BurstWork {
    db: Db,
    family: ColumnFamilyHandle,
    batches: u64,
}

impl BurstWork {
    pub(super) fn run(&self, writer: usize) -> Result<(), String> {
        let mut number = 0;
        for batch in 0..self.batches {
            let mut ops = WriteBatch::new();
            for _ in 0..=batch % 3 {
                ops.put_cf(&self.family, format!("writer{writer}"), number.to_string())
                    .map_err(|e| e.to_string())?;
                number += 1;
            }
            self.db.write(&mut ops).map_err(|e| format!("a burst: {e}"))?;
        }
        Ok(())
    }
}
