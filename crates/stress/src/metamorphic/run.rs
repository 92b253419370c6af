//! Runs one script under one set of options and compares every answer.

use super::ops::{
    Bytes, FAMILIES, ITERATORS, Move, OpAnswer, OpScript, PLAIN, REVERSED, SNAPSHOTS, ScriptOp, ScriptWrite,
};
use super::space::{OpenedAs, Opening, Space};
use super::transactions::{RunTransaction, Seen, TRANSACTIONS};
use crate::audit::{self, AuditSubject, Audited};
use esker::internals::env::{CrashChoices, CrashFs, Env, FileSystem};
use esker::options::CompactionStyle;
use esker::txn::{OptimisticTransactionDbOptions, WritePolicy};
use esker::{
    ColumnFamilyHandle, CompactRangeOptions, Db, DbIterator, Error, FlushOptions, IngestExternalFileOptions,
    OpenMode, OptimisticTransactionDb, OptimisticTransactionOptions, Options, ReadOptions, Result, Snapshot,
    SstFileWriter, TransactionDb, TransactionDbOptions, TransactionOptions, WriteBatch, WriteOptions,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PATH: &str = "/db";

/// An answer that differed, or an error.
#[derive(Clone, Debug)]
pub(super) struct RunDivergence {
    /// Place in the script.
    pub(super) place: usize,
    pub(super) what: String,
    /// The choices of the current opening.
    pub(super) options: Vec<String>,
}

pub(super) enum RunStore {
    Plain(Db),
    Pessimistic(TransactionDb),
    Optimistic(OptimisticTransactionDb),
}

impl RunStore {
    fn db(&self) -> &Db {
        match self {
            RunStore::Plain(db) => db,
            RunStore::Pessimistic(db) => db.db(),
            RunStore::Optimistic(db) => db.db(),
        }
    }
}

/// A database under the script.
pub(super) struct Run<'a> {
    pub(super) space: &'a Space,
    disk: CrashFs,
    env: Env,
    opening: Opening,
    openings: u64,
    store: Option<RunStore>,
    pub(super) handles: Vec<ColumnFamilyHandle>,
    snapshots: [Option<Snapshot>; SNAPSHOTS],
    iterators: [Option<DbIterator>; ITERATORS],
    pub(super) transactions: [Option<RunTransaction>; TRANSACTIONS],
    /// Wait for background work behind every operation.
    calm: bool,
    pub(super) rng: fastrand::Rng,
    pub(super) named: u64,
}

/// Runs the script.
/// # Errors
/// The first divergence.
pub(super) fn run(script: &OpScript, space: &Space, calm: bool) -> std::result::Result<(), RunDivergence> {
    let disk = CrashFs::new();
    let env = Env::with_fs(Arc::new(disk.clone()));
    let opening = space.opening(0, &env);
    let mut run = Run {
        space,
        disk,
        env,
        opening,
        openings: 0,
        store: None,
        handles: Vec::new(),
        snapshots: Default::default(),
        iterators: Default::default(),
        transactions: Default::default(),
        calm,
        rng: fastrand::Rng::with_seed(space.seed),
        named: 0,
    };
    let diverged = |run: &Run<'_>, place: usize, what: String| RunDivergence {
        place,
        what,
        options: run.opening.described.clone(),
    };
    run.open().map_err(|e| diverged(&run, 0, format!("open: {e}")))?;
    for (place, (_, op, expected)) in script.iter().enumerate() {
        let found = run.carry_out(op);
        match found {
            Ok(found) if found == *expected => {}
            Ok(found) => {
                let what = format!("expected {}, found {}", show(expected), show(&found));
                return Err(diverged(&run, place, what));
            }
            Err(e) => return Err(diverged(&run, place, format!("{e}"))),
        }
    }
    let closed = run.close();
    closed.map_err(|e| diverged(&run, script.len(), format!("close: {e}")))
}

/// An answer for people to read, cut if it is long.
fn show(answer: &OpAnswer) -> String {
    let text = match answer {
        OpAnswer::Nothing => "nothing".to_owned(),
        OpAnswer::At(at) => format!("{:?}", at.as_ref().map(|(k, v)| (text(k), text(v)))),
        OpAnswer::Values(values) => {
            format!("{:?}", values.iter().map(|v| v.as_deref().map(text)).collect::<Vec<_>>())
        }
        OpAnswer::Pairs(pairs) => {
            let pairs: Vec<_> = pairs.iter().map(|(k, v)| format!("{}={}", text(k), text(v))).collect();
            format!("{} pairs {}", pairs.len(), pairs.join(" "))
        }
    };
    if text.len() > 3000 { format!("{}…", text.chars().take(3000).collect::<String>()) } else { text }
}

fn text(bytes: &[u8]) -> String {
    format!("\"{}\"{}", bytes[..bytes.len().min(12)].escape_ascii(), if bytes.len() > 12 { "…" } else { "" })
}

impl Run<'_> {
    fn open(&mut self) -> Result<()> {
        if self.has_prepared() {
            self.opening.opened_as = OpenedAs::Pessimistic;
        }
        let (db, families) = (&self.opening.db, self.opening.descriptors());
        let store = match self.opening.opened_as {
            OpenedAs::Plain => RunStore::Plain(Db::open_cf(db, PATH, families)?),
            OpenedAs::Pessimistic => {
                let options = TransactionDbOptions {
                    write_policy: self.opening.write_policy,
                    default_write_batch_flush_threshold: self.opening.spill_threshold,
                    ..TransactionDbOptions::default()
                };
                let db = TransactionDb::open_cf(db, &options, PATH, families)?;
                self.check_prepared(&db)?;
                RunStore::Pessimistic(db)
            }
            OpenedAs::Optimistic(policy) => {
                let options = OptimisticTransactionDbOptions::default().validate_policy(policy);
                let options = options.occ_lock_buckets(16);
                RunStore::Optimistic(OptimisticTransactionDb::open_cf_opt(db, &options, PATH, families)?)
            }
        };
        let handle =
            |name: &&str| store.db().column_family(name).expect("the database was opened with all families");
        self.handles = FAMILIES.iter().map(handle).collect();
        self.store = Some(store);
        Ok(())
    }

    pub(super) fn store(&self) -> &RunStore {
        self.store.as_ref().expect("the database is open between operations")
    }

    pub(super) fn db(&self) -> &Db {
        self.store().db()
    }

    fn close(&mut self) -> Result<()> {
        (self.iterators, self.snapshots) = (Default::default(), Default::default());
        let transactions = std::mem::take(&mut self.transactions);
        self.transactions = transactions.map(|running| running.and_then(RunTransaction::closed));
        if self.store.is_some() && self.rng.bool() {
            self.audit().map_err(Error::aborted)?;
        }
        self.handles.clear();
        let Some(store) = self.store.take() else { return Ok(()) };
        // A close flushes writes that are only in memory, unless that was turned off.
        if self.opening.db.avoid_flush_during_shutdown && self.opening.unlogged_one_in > 0 {
            flush_all(store.db())?;
        }
        if self.rng.bool() {
            store.db().close()?;
        }
        drop(store);
        self.check_leftovers().map_err(Error::aborted)
    }

    /// Audits the database.
    fn audit(&self) -> Result<Audited, String> {
        let pairs = self.handles.iter().zip(&self.opening.families);
        let drops_tables = self.opening.families.iter().any(|f| f.compaction_style == CompactionStyle::Fifo);
        let subject = AuditSubject {
            db: self.db(),
            fs: self.env.fs.as_ref(),
            path: Path::new(PATH),
            families: pairs.map(|(handle, options)| (handle, &options.comparator)).collect(),
            may_be_left: false,
            all_garbage_is_counted: !drops_tables,
        };
        audit::audit(&subject, self.env.clock.as_ref())
    }

    /// Checks that the closed database has left nothing in its caches and memory, and that its
    /// statistics add up.
    fn check_leftovers(&self) -> Result<(), String> {
        let Opening { db, families, .. } = &self.opening;
        let tables = families.iter().filter_map(|family| family.table.block_cache.as_ref());
        let others = families.iter().filter_map(|f| f.blob_cache.as_ref()).chain(&db.row_cache);
        let caches: Vec<_> = tables.chain(others).collect();
        audit::are_empty(&caches, db.write_buffer_manager.as_deref(), self.env.clock.as_ref())?;
        db.statistics.as_deref().map_or(Ok(()), audit::add_up)
    }

    fn reopen(&mut self, dies: bool) -> Result<()> {
        if dies {
            if self.opening.unlogged_one_in > 0 {
                flush_all(self.db())?;
            }
            self.db().flush_wal(false)?;
            let disk = self.disk.crash_clone(&CrashChoices::process_kill());
            self.close()?;
            self.disk = disk;
            self.env = Env::with_fs(Arc::new(self.disk.clone()));
        } else {
            self.close()?;
        }
        self.openings += 1;
        self.opening = self.space.opening(self.openings, &self.env);
        self.open()
    }

    fn carry_out(&mut self, op: &ScriptOp) -> Result<OpAnswer> {
        let answer = self.answer(op)?;
        if self.calm {
            self.db().wait_for_background_work()?;
        }
        Ok(answer)
    }

    fn answer(&mut self, op: &ScriptOp) -> Result<OpAnswer> {
        match op {
            ScriptOp::Write(writes) => self.write(writes)?,
            ScriptOp::WriteAt(time, write) => self.write_at(*time, write)?,
            ScriptOp::GetAt(key, time, at) => {
                let found = self.db().get_opt(&self.reading_at(*time, *at), self.stamped(), key)?;
                return Ok(OpAnswer::Values(vec![found]));
            }
            ScriptOp::ScanAt(lower, upper, backwards, time, at) => {
                return self.scan_at((lower, upper), *backwards, *time, *at).map(OpAnswer::Pairs);
            }
            ScriptOp::RaiseLow(time) => self.raise_low(*time)?,
            ScriptOp::Get(family, key, at) => {
                let found = self.db().get_opt(&self.read_at(*at), &self.handles[*family], key)?;
                return Ok(OpAnswer::Values(vec![found]));
            }
            ScriptOp::MultiGet(keys, at) => {
                let keys: Vec<_> = keys.iter().map(|(f, key)| (&self.handles[*f], key.as_slice())).collect();
                let found = self.db().multi_get_cf(&self.read_at(*at), &keys);
                let values = found.into_iter().map(|value| Ok(value?.map(|v| v.to_vec())));
                return values.collect::<Result<_>>().map(OpAnswer::Values);
            }
            ScriptOp::Scan(family, lower, upper, backwards, at) => {
                let iter = self.iterator(*family, lower, upper, *at)?;
                return all_of(iter, *backwards).map(OpAnswer::Pairs);
            }
            ScriptOp::TakeSnapshot(slot) => self.snapshots[*slot] = Some(self.db().snapshot()),
            ScriptOp::ReleaseSnapshot(slot) => self.snapshots[*slot] = None,
            ScriptOp::OpenIterator(slot, family, lower, upper, at) => {
                self.iterators[*slot] = Some(self.iterator(*family, lower, upper, *at)?);
            }
            ScriptOp::Move(slot, how) => return self.go(*slot, how),
            ScriptOp::CloseIterator(slot) => self.iterators[*slot] = None,
            ScriptOp::Flush(family) => {
                self.db().flush_opt(&FlushOptions::default(), &[&self.handles[*family]])?
            }
            ScriptOp::Compact(family, begin, end) => {
                let options = CompactRangeOptions {
                    exclusive_manual_compaction: self.rng.bool(),
                    max_subcompactions: self.rng.u32(..3),
                    ..CompactRangeOptions::default()
                };
                let (db, handle) = (self.db(), &self.handles[*family]);
                db.compact_range_opt(&options, handle, begin.as_deref(), end.as_deref())?;
            }
            ScriptOp::SetOptions(seed) => self.set_options(*seed)?,
            ScriptOp::Ingest(family, pairs) => self.ingest(*family, pairs)?,
            ScriptOp::Checkpoint => return self.checkpoint().map(OpAnswer::Pairs),
            ScriptOp::Transaction(slot, op) => {
                return Ok(match self.transact(*slot, op)? {
                    Seen::Nothing => OpAnswer::Nothing,
                    Seen::Value(value) => OpAnswer::Values(vec![value]),
                    Seen::Pairs(pairs) => OpAnswer::Pairs(pairs),
                });
            }
            ScriptOp::Reopen(dies) => self.reopen(*dies)?,
        }
        Ok(OpAnswer::Nothing)
    }

    // ---- writes

    pub(super) fn write_options(&mut self) -> WriteOptions {
        let unlogged = self.opening.unlogged_one_in;
        let disable_wal = unlogged > 0 && self.rng.u32(..unlogged) == 0;
        let sync = !disable_wal && self.rng.u8(..20) == 0;
        WriteOptions::default().sync(sync).disable_wal(disable_wal)
    }

    fn write(&mut self, writes: &[ScriptWrite]) -> Result<()> {
        let options = self.write_options();
        let pipelined = self.opening.db.enable_pipelined_write;
        let ingests = options.disable_wal && !pipelined && self.rng.u8(..4) == 0;
        let large = self.rng.u32(..8);
        match self.store() {
            RunStore::Plain(db) if ingests => {
                let mut batch = WriteBatch::new();
                for write in writes {
                    add(&mut batch, &self.handles, write)?;
                }
                db.ingest_write_batch_with_index(&options, &mut batch.into())
            }
            RunStore::Plain(db) => {
                let mut batch = WriteBatch::new();
                for write in writes {
                    add(&mut batch, &self.handles, write)?;
                }
                db.write_opt(&options, &mut batch)
            }
            RunStore::Pessimistic(db) => {
                // Under an early policy a transaction that deletes ranges does not spill, and is
                // not prepared.
                let is_range = |write: &ScriptWrite| matches!(write, ScriptWrite::DeleteRange(..));
                let stays =
                    self.opening.write_policy != WritePolicy::WriteCommitted && writes.iter().any(is_range);
                let how = TransactionOptions {
                    write_batch_flush_threshold: if stays { 0 } else { -1 },
                    large_txn_commit_optimize_threshold: large,
                    ..TransactionOptions::default()
                };
                let transaction = db.begin_transaction_opt(&options, &how);
                let is_prepared = !options.disable_wal && !stays && self.rng.bool();
                if is_prepared {
                    self.named += 1;
                    transaction.set_name(format!("t{}", self.named).as_bytes())?;
                }
                writes.iter().try_for_each(|write| self.write_in(&transaction, write))?;
                if is_prepared {
                    transaction.prepare()?;
                }
                transaction.commit()
            }
            RunStore::Optimistic(db) => {
                let transaction =
                    db.begin_transaction_opt(&options, &OptimisticTransactionOptions::default());
                for write in writes {
                    let handle = &self.handles[family_of(write)];
                    match write {
                        ScriptWrite::Put(_, key, value) => transaction.put_cf(handle, key, value)?,
                        ScriptWrite::Delete(_, key) => transaction.delete_cf(handle, key)?,
                        ScriptWrite::SingleDelete(_, key) => transaction.single_delete_cf(handle, key)?,
                        ScriptWrite::Merge(_, key, operand) => transaction.merge_cf(handle, key, operand)?,
                        ScriptWrite::DeleteRange(_, begin, end) => {
                            transaction.delete_range_cf(handle, begin, end)?
                        }
                    }
                }
                transaction.commit()
            }
        }
    }

    fn set_options(&mut self, seed: u64) -> Result<()> {
        for handle in &self.handles {
            for (name, value) in self.space.changes(seed) {
                let changed = self.db().set_options(handle, &[(&name, &value)]);
                // A refused change has no effect.
                changed.or_else(|e| {
                    let refused = matches!(
                        e.kind(),
                        esker::ErrorKind::InvalidArgument | esker::ErrorKind::NotSupported
                    );
                    if refused { Ok(()) } else { Err(e) }
                })?;
            }
        }
        Ok(())
    }

    fn ingest(&mut self, family: usize, pairs: &[(Bytes, Bytes)]) -> Result<()> {
        self.named += 1;
        let path = PathBuf::from(format!("/external{}.sst", self.named));
        let (db, cf) = (self.opening.db.clone(), self.opening.families[family].clone());
        let mut writer = SstFileWriter::new(&Options { db, cf });
        writer.open(&path)?;
        for (key, value) in pairs {
            writer.put(key, value)?;
        }
        writer.finish()?;
        let options = IngestExternalFileOptions::default();
        self.db().ingest_external_file_opt(&options, &self.handles[family], &[&path])
    }

    // ---- reads

    pub(super) fn read_at(&self, at: usize) -> ReadOptions {
        let snapshot = self.snapshots.get(at).cloned().flatten();
        ReadOptions { snapshot, ..ReadOptions::default() }
    }

    fn iterator(
        &mut self,
        family: usize,
        lower: &Option<Bytes>,
        upper: &Option<Bytes>,
        at: usize,
    ) -> Result<DbIterator> {
        let options = ReadOptions {
            iterate_lower_bound: lower.clone(),
            iterate_upper_bound: upper.clone(),
            verify_checksums: self.rng.bool(),
            fill_cache: self.rng.bool(),
            pin_data: self.rng.u8(..4) == 0,
            readahead_size: if self.rng.u8(..4) == 0 { 4096 } else { 0 },
            total_order_seek: self.rng.bool(),
            ..self.read_at(at)
        };
        self.db().iter_opt(options, &self.handles[family])
    }

    fn go(&mut self, slot: usize, how: &Move) -> Result<OpAnswer> {
        let iter = self.iterators[slot].as_mut().expect("the script has opened this iterator");
        match how {
            Move::First => iter.seek_to_first(),
            Move::Last => iter.seek_to_last(),
            Move::Seek(target) => iter.seek(target),
            Move::SeekForPrev(target) => iter.seek_for_prev(target),
            Move::Next => iter.next(),
            Move::Prev => iter.prev(),
        }
        let at = iter.item().map(|(key, value)| (key.to_vec(), value.to_vec()));
        iter.status()?;
        Ok(OpAnswer::At(at))
    }

    fn checkpoint(&mut self) -> Result<Vec<(Bytes, Bytes)>> {
        self.named += 1;
        let path = format!("/checkpoint{}", self.named);
        if self.opening.unlogged_one_in > 0 {
            flush_all(self.db())?;
        }
        let log_size = if self.rng.bool() { 0 } else { u64::MAX };
        self.db().create_checkpoint(&path, log_size)?;
        let copy = Db::open_with(&self.opening.db, &path, self.opening.descriptors(), OpenMode::ReadOnly)?;
        let mut pairs = Vec::new();
        for (family, name) in FAMILIES.iter().enumerate() {
            let handle = copy.column_family(name).expect("the database was opened with all families");
            let newest = self.reading_at(u64::MAX, SNAPSHOTS);
            let is_plain = family < PLAIN || !self.space.has_stamps();
            let options = if is_plain { ReadOptions::default() } else { newest };
            pairs.extend(all_of(copy.iter_opt(options, &handle)?, false)?);
        }
        drop(copy);
        for name in self.disk.children(Path::new(&path))? {
            self.disk.delete_file(&Path::new(&path).join(name))?;
        }
        Ok(pairs)
    }
}

fn family_of(write: &ScriptWrite) -> usize {
    match write {
        ScriptWrite::Put(family, ..)
        | ScriptWrite::Merge(family, ..)
        | ScriptWrite::DeleteRange(family, ..) => *family,
        ScriptWrite::Delete(family, _) | ScriptWrite::SingleDelete(family, _) => *family,
    }
}

fn add(batch: &mut WriteBatch, handles: &[ColumnFamilyHandle], write: &ScriptWrite) -> Result<()> {
    let family = handles[family_of(write)].id();
    match write {
        ScriptWrite::Put(_, key, value) => batch.put_cf(family, key, value),
        ScriptWrite::Delete(_, key) => batch.delete_cf(family, key),
        ScriptWrite::SingleDelete(_, key) => batch.single_delete_cf(family, key),
        ScriptWrite::Merge(_, key, operand) => batch.merge_cf(family, key, operand),
        ScriptWrite::DeleteRange(_, begin, end) => batch.delete_range_cf(family, begin, end),
    }
}

fn flush_all(db: &Db) -> Result<()> {
    let handles: Vec<_> = FAMILIES.iter().filter_map(|name| db.column_family(name)).collect();
    let handles: Vec<_> = handles.iter().collect();
    db.flush_opt(&FlushOptions::default(), &handles)
}

pub(super) fn all_of(mut iter: DbIterator, backwards: bool) -> Result<Vec<(Bytes, Bytes)>> {
    let mut pairs = Vec::new();
    if backwards {
        iter.seek_to_last();
    } else {
        iter.seek_to_first();
    }
    while let Some((key, value)) = iter.item() {
        pairs.push((key.to_vec(), value.to_vec()));
        if backwards {
            iter.prev();
        } else {
            iter.next();
        }
    }
    iter.status()?;
    Ok(pairs)
}

/// The order of families that the scripts assume.
const _: () = assert!(REVERSED == 1 && FAMILIES.len() == PLAIN + 1);
