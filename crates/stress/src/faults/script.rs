//! The load of a trial, step by step, and the expected contents after any of its steps.

use esker::internals::base::stats::{Statistics, Ticker};
use esker::internals::env::Env;
use esker::internals::env::crash::CrashKind;
use esker::{
    ColumnFamilyDescriptor, Db, Error, FlushOptions, Options, Result, SstFileWriter, WalRecoveryMode,
    WriteBatch, WriteOptions,
};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) const DIR: &str = "/db";
/// Path of the checkpoint.
const COPY: &str = "/copy";
/// Path of the file to be ingested.
const OUTSIDE: &str = "/outside";
const FAMILIES: [&str; 2] = ["default", "second"];
/// Name of a family that is made and dropped while the script runs.
const THIRD: &str = "third";
const WRITES: usize = 150;
const SLOTS: usize = 8;
/// Keys of the ingested file.
const INGESTED: usize = 20;

/// Work before the write of this number.
const EXTRAS: [(usize, Extra); 11] = [
    (24, Extra::FlushAll),
    (30, Extra::CreateFamily),
    (36, Extra::FillFamily),
    (49, Extra::Compact),
    (60, Extra::Checkpoint),
    (74, Extra::FlushSecond),
    (88, Extra::Ingest),
    (99, Extra::FlushAll),
    (110, Extra::DropFamily),
    (124, Extra::Compact),
    (149, Extra::FlushAll),
];

#[derive(Clone, Copy, Debug)]
enum Extra {
    FlushAll,
    FlushSecond,
    Compact,
    CreateFamily,
    FillFamily,
    DropFamily,
    Checkpoint,
    Ingest,
}

/// Whether the third family is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Third {
    Absent,
    /// The call that makes or drops it failed.
    Maybe,
    There,
}

/// The outcome of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    /// After a crash the write may be there as a whole, or not at all.
    Failed,
    Acknowledged,
    /// This write or a later one was synced, or its memtables were flushed.
    Synced,
}

/// The progress of the load.
pub(super) struct FaultScript {
    options: Options,
    statistics: Arc<Statistics>,
    /// The outcome of each write.
    writes: Vec<Status>,
    /// Number of `EXTRAS` done.
    extras: usize,
    third: Third,
    /// Whether the writes to the third family must be in it, if it is there.
    third_filled: bool,
    /// Writes before the checkpoint, if it was made.
    checkpoint: Option<usize>,
    /// Outcome of the ingestion, if it was tried.
    ingested: Option<Status>,
}

impl FaultScript {
    /// `seed` chooses the variation: `atomic_flush` and the like.
    pub(super) fn new(seed: u64) -> FaultScript {
        let mut options = Options::default();
        let db = &mut options.db;
        db.create_if_missing = true;
        db.create_missing_column_families = true;
        db.atomic_flush = seed % 3 == 1;
        db.recycle_log_file_num = if seed % 5 == 2 { 1 } else { 0 };
        db.avoid_flush_during_recovery = seed % 4 == 3;
        db.max_manifest_file_size = 2000;
        db.use_direct_reads = seed % 5 > 2;
        db.use_direct_io_for_flush_and_compaction = seed.is_multiple_of(3);
        db.writable_file_max_buffer_size = 5000;
        db.max_bgerror_resume_count = if seed % 7 == 3 { i32::MAX } else { 0 };
        db.bgerror_resume_retry_interval = 1000;
        let statistics = Arc::new(Statistics::default());
        db.statistics = Some(statistics.clone());
        let cf = &mut options.cf;
        cf.write_buffer_size = 64 << 10;
        cf.arena_block_size = 4 << 10;
        cf.max_write_buffer_number = 4;
        cf.level0_file_num_compaction_trigger = 2;
        cf.target_file_size_base = 30 << 10;
        cf.max_bytes_for_level_base = 60 << 10;
        cf.enable_blob_files = seed.is_multiple_of(2);
        cf.min_blob_size = 50;
        cf.enable_blob_garbage_collection = true;
        FaultScript {
            options,
            statistics,
            writes: Vec::new(),
            extras: 0,
            third: Third::Absent,
            third_filled: false,
            checkpoint: None,
            ingested: None,
        }
    }

    /// Number of reads that failed or were damaged, and were whole when repeated, by the databases'
    /// statistics.
    pub(super) fn mended_reads(&self) -> u64 {
        let mended = [Ticker::ReadaheadErrors, Ticker::FileReadCorruptionRetrySuccessCount];
        mended.iter().map(|ticker| self.statistics.ticker_count(*ticker)).sum()
    }

    /// Number of errors from which the databases have recovered by themselves.
    pub(super) fn recoveries(&self) -> u64 {
        self.statistics.ticker_count(Ticker::ErrorHandlerAutoresumeSuccessCount)
    }

    /// Number of recoveries that they have begun.
    pub(super) fn recoveries_begun(&self) -> u64 {
        self.statistics.ticker_count(Ticker::ErrorHandlerAutoresumeCount)
    }

    /// Whether errors that may pass are recovered from without `resume()`.
    pub(super) fn recovers_itself(&self) -> bool {
        self.options.db.max_bgerror_resume_count > 0
    }

    /// From now on damage in a WAL must be an error, not the end of the WAL.
    pub(super) fn tolerate_nothing(&mut self) {
        self.options.db.wal_recovery_mode = WalRecoveryMode::AbsoluteConsistency;
    }

    pub(super) fn open(&self, env: Env) -> Result<Db> {
        self.open_at(DIR, env)
    }

    fn open_at(&self, dir: &str, env: Env) -> Result<Db> {
        let mut options = self.options.db.clone();
        options.env = env;
        let mut names: BTreeSet<String> = FAMILIES.map(str::to_owned).into();
        if self.third != Third::Absent || dir == COPY {
            names.extend(Db::list_column_families(&options, dir)?);
        }
        let descriptor = |name| ColumnFamilyDescriptor::new(name, self.options.cf.clone());
        Db::open_cf(&options, dir, names.into_iter().map(descriptor))
    }

    /// Takes the next step; false behind the last. After an error the same call continues with the
    /// step after it.
    pub(super) fn step(&mut self, db: &Db) -> Result<bool> {
        let n = self.writes.len();
        if n == WRITES {
            return Ok(false);
        }
        if let Some((at, extra)) = EXTRAS.get(self.extras)
            && *at <= n
        {
            self.extras += 1;
            return self.extra(db, *extra).map(|()| true);
        }
        let sync = n % 10 == 9;
        self.writes.push(Status::Failed);
        db.write_opt(&WriteOptions::default().sync(sync), &mut batch(db, n)?)?;
        self.writes[n] = Status::Acknowledged;
        if sync {
            self.all_durable();
        }
        Ok(true)
    }

    fn extra(&mut self, db: &Db, extra: Extra) -> Result<()> {
        match extra {
            Extra::Compact => db.compact_range(None, None),
            Extra::FlushSecond => db.flush_opt(&FlushOptions::default(), &[&family(db, 1)?]),
            Extra::FlushAll => {
                let families = [family(db, 0)?, family(db, 1)?];
                db.flush_opt(&FlushOptions::default(), &families.each_ref())?;
                self.all_durable();
                Ok(())
            }
            Extra::CreateFamily => {
                self.third = Third::Maybe;
                db.create_column_family(THIRD, &self.options.cf)?;
                self.third = Third::There;
                Ok(())
            }
            Extra::FillFamily => {
                let Some(third) = db.column_family(THIRD) else { return Ok(()) };
                db.put_opt(&WriteOptions::default().sync(true), &third, key(0), value(0))?;
                self.all_durable();
                self.third_filled = true;
                Ok(())
            }
            Extra::DropFamily => {
                let Some(third) = db.column_family(THIRD) else { return Ok(()) };
                self.third = Third::Maybe;
                db.drop_column_family(&third)?;
                self.third = Third::Absent;
                Ok(())
            }
            Extra::Checkpoint => {
                // The checkpoint takes the WALs along, or flushes first.
                let wal_bytes = if self.options.db.atomic_flush { 0 } else { u64::MAX };
                db.create_checkpoint(COPY, wal_bytes)?;
                self.checkpoint = Some(self.writes.len());
                Ok(())
            }
            Extra::Ingest => self.ingest(db),
        }
    }

    fn ingest(&mut self, db: &Db) -> Result<()> {
        let mut options = self.options.clone();
        options.db.env = db.db_options().env;
        options.db.env.fs.create_dir_if_missing(OUTSIDE.as_ref())?;
        let path = format!("{OUTSIDE}/file.sst");
        let mut writer = SstFileWriter::new(&options);
        writer.open(&path)?;
        (0..INGESTED).try_for_each(|n| writer.put(ingested_key(n), value(n)))?;
        writer.finish()?;
        self.ingested = Some(Status::Failed);
        db.ingest_external_file(&[&path])?;
        self.ingested = Some(Status::Synced);
        Ok(())
    }

    fn all_durable(&mut self) {
        for status in &mut self.writes {
            if *status == Status::Acknowledged {
                *status = Status::Synced;
            }
        }
    }

    /// Compares the contents of an open database, whatever background errors it has.
    pub(super) fn check_reads(&self, db: &Db) -> Result<(), String> {
        self.check(db, false)
    }

    /// Compares the contents of a database opened after a death.
    pub(super) fn check_after(&self, db: &Db, kind: CrashKind) -> Result<(), String> {
        self.check(db, kind == CrashKind::PowerLoss)?;
        let Some(writes) = self.checkpoint else { return Ok(()) };
        let copy = self
            .open_at(COPY, db.db_options().env)
            .map_err(|e| format!("the checkpoint does not open: {e}"))?;
        for (n, status) in self.writes[..writes].iter().enumerate() {
            if *status != Status::Failed && !self.is_there(&copy, n)? {
                return Err(format!("write {n} ({status:?}) is not in the checkpoint"));
            }
        }
        copy.close().map_err(|e| format!("close of the checkpoint: {e}"))
    }

    fn check_third(&self, db: &Db) -> Result<(), String> {
        let third = db.column_family(THIRD);
        match (&third, self.third) {
            (Some(_), Third::Absent) => return Err("the third family is there".to_owned()),
            (None, Third::There) => return Err("the third family is gone".to_owned()),
            _ => {}
        }
        let Some(third) = third else { return Ok(()) };
        let got = db.get_cf(&third, key(0)).map_err(|e| format!("get in the third family: {e}"))?;
        match got {
            Some(got) if got != value(0) => Err("a wrong value in the third family".to_owned()),
            None if self.third_filled => Err("the third family's write is not there".to_owned()),
            _ => Ok(()),
        }
    }

    fn check_ingested(&self, db: &Db) -> Result<(), String> {
        let mut there = 0;
        for n in 0..INGESTED {
            let got = db.get(ingested_key(n)).map_err(|e| format!("get of an ingested key: {e}"))?;
            if got.as_ref().is_some_and(|got| *got != value(n)) {
                return Err(format!("ingested key {n} has a wrong value"));
            }
            there += usize::from(got.is_some());
        }
        match (there, self.ingested) {
            (0, None | Some(Status::Failed)) => Ok(()),
            (INGESTED, Some(_)) => Ok(()),
            (_, status) => Err(format!("{there} keys of the ingested file ({status:?}) are there")),
        }
    }

    fn check(&self, db: &Db, power_loss: bool) -> Result<(), String> {
        self.check_third(db)?;
        self.check_ingested(db)?;
        let mut lost_before = None;
        let mut last_of_slot = [None; SLOTS];
        for (n, status) in self.writes.iter().enumerate() {
            let there = self.is_there(db, n)?;
            if !there && status.must_survive(power_loss) {
                return Err(format!("write {n} ({status:?}) is not there"));
            }
            match (there, status) {
                (true, _) => last_of_slot[n % SLOTS] = Some(n),
                (false, Status::Failed) => {}
                (false, _) => lost_before = lost_before.or(Some(n)),
            }
            if let (true, Some(lost), true) = (there, lost_before, *status != Status::Failed) {
                return Err(format!("write {n} is there, but {lost} before it is not"));
            }
        }
        for (slot, last) in last_of_slot.iter().enumerate() {
            let found = db.get(slot_key(slot)).map_err(|e| format!("get: {e}"))?;
            if found != last.map(value) {
                return Err(format!("slot {slot}: not the value of the last write {last:?}"));
            }
        }
        Ok(())
    }

    /// Whether write `n` is there.
    /// # Errors
    /// An error of the database, a wrong value, or half a batch.
    fn is_there(&self, db: &Db, n: usize) -> Result<bool, String> {
        let mut found = [false; 2];
        for (i, found) in found.iter_mut().enumerate() {
            let family = family(db, i).map_err(|e| e.to_string())?;
            let got = db.get_cf(&family, key(n)).map_err(|e| format!("get of write {n}: {e}"))?;
            *found = got.is_some();
            if got.is_some_and(|got| got != value(n)) {
                return Err(format!("write {n} has a wrong value in {}", FAMILIES[i]));
            }
        }
        if found[0] != found[1] {
            return Err(format!("write {n} is there in half: {found:?}"));
        }
        Ok(found[0])
    }

    /// Reads everything. Gives whether some read ended with an error; all others must be right.
    pub(super) fn read_everything(&self, db: &Db) -> Result<bool, String> {
        let mut noticed = false;
        for (i, name) in FAMILIES.iter().enumerate() {
            let family = family(db, i).map_err(|e| e.to_string())?;
            let mut iter = db.iter_cf(&family).map_err(|e| e.to_string())?;
            iter.seek_to_first();
            let mut rows = 0;
            while let Some((key, value)) = iter.item() {
                if *value
                    != self
                        .expected(key)
                        .ok_or_else(|| format!("{name}: a key nobody wrote: {}", key.escape_ascii()))?
                {
                    return Err(format!("{name}: a scan shows a wrong value of {}", key.escape_ascii()));
                }
                rows += 1;
                iter.next();
            }
            match iter.status() {
                Err(_) => noticed = true,
                Ok(()) if rows != WRITES + if i == 0 { SLOTS + INGESTED } else { 0 } => {
                    return Err(format!("{name}: a scan shows {rows} rows and no error"));
                }
                Ok(()) => {}
            }
            for n in 0..WRITES {
                match db.get_cf(&family, key(n)) {
                    Ok(found) if found == Some(value(n)) => {}
                    Ok(_) => return Err(format!("{name}: a wrong answer for write {n}, and no error")),
                    Err(_) => noticed = true,
                }
            }
        }
        Ok(noticed)
    }

    fn expected(&self, key: &[u8]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(key).ok()?;
        let (kind, number) = text.split_at_checked(4)?;
        let number: usize = number.parse().ok()?;
        match kind {
            "key-" | "ing-" => Some(value(number)),
            "hot-" => (0..WRITES).rev().find(|n| n % SLOTS == number).map(value),
            _ => None,
        }
    }
}

fn batch(db: &Db, n: usize) -> Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    for i in 0..FAMILIES.len() {
        batch.put_cf(family(db, i)?.id(), key(n), value(n))?;
    }
    batch.put_cf(family(db, 0)?.id(), slot_key(n % SLOTS), value(n))?;
    Ok(batch)
}

fn family(db: &Db, i: usize) -> Result<esker::ColumnFamilyHandle> {
    db.column_family(FAMILIES[i]).ok_or_else(|| Error::corruption(format!("family {} is gone", FAMILIES[i])))
}

fn key(n: usize) -> Vec<u8> {
    format!("key-{n:05}").into_bytes()
}

fn ingested_key(n: usize) -> Vec<u8> {
    format!("ing-{n:05}").into_bytes()
}

fn slot_key(slot: usize) -> Vec<u8> {
    format!("hot-{slot:05}").into_bytes()
}

fn value(n: usize) -> Vec<u8> {
    let mut value = vec![0; 900 + n % 100];
    fastrand::Rng::with_seed(n as u64).fill(&mut value);
    value
}
