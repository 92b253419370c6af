//! The load of a trial, step by step, and what must be there after any of its steps.

use esker::internals::env::Env;
use esker::internals::env::crash::CrashKind;
use esker::{
    ColumnFamilyDescriptor, Db, Error, FlushOptions, Options, Result, WalRecoveryMode, WriteBatch,
    WriteOptions,
};

const DIR: &str = "/db";
const FAMILIES: [&str; 2] = ["default", "second"];
const WRITES: usize = 150;
const SLOTS: usize = 8;

/// What became of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    /// It may be there or not, but not in half.
    Failed,
    Acknowledged,
    /// It, or a later one, was synced, or its memtables were flushed.
    Synced,
}

/// Where the load is.
pub(super) struct Script {
    options: Options,
    /// By write.
    writes: Vec<Status>,
    /// Steps between the writes that were done.
    extras: usize,
}

impl Script {
    /// `seed` chooses `atomic_flush` and the like.
    pub(super) fn new(seed: u64) -> Script {
        let mut options = Options::default();
        let db = &mut options.db;
        db.create_if_missing = true;
        db.create_missing_column_families = true;
        db.atomic_flush = seed % 3 == 1;
        db.recycle_log_file_num = if seed % 5 == 2 { 1 } else { 0 };
        db.avoid_flush_during_recovery = seed % 4 == 3;
        db.max_manifest_file_size = 2000;
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
        Script { options, writes: Vec::new(), extras: 0 }
    }

    /// From now on damage in a WAL must be an error, not the end of the WAL.
    pub(super) fn tolerate_nothing(&mut self) {
        self.options.db.wal_recovery_mode = WalRecoveryMode::AbsoluteConsistency;
    }

    pub(super) fn open(&self, env: Env) -> Result<Db> {
        let mut options = self.options.db.clone();
        options.env = env;
        let descriptor = |name: &&str| ColumnFamilyDescriptor::new(*name, self.options.cf.clone());
        Db::open_cf(&options, DIR, FAMILIES.iter().map(descriptor).collect())
    }

    /// Does the next thing; false behind the last. After an error the same call goes on with what follows.
    pub(super) fn step(&mut self, db: &Db) -> Result<bool> {
        let n = self.writes.len();
        if n == WRITES {
            return Ok(false);
        }
        if n % 25 == 24 && self.extras < n / 25 + 1 {
            self.extras += 1;
            return self.extra(db, n).map(|()| true);
        }
        let sync = n % 10 == 9;
        self.writes.push(Status::Failed);
        db.write(&WriteOptions::default().sync(sync), &mut batch(db, n)?)?;
        self.writes[n] = Status::Acknowledged;
        if sync {
            self.all_durable();
        }
        Ok(true)
    }

    fn extra(&mut self, db: &Db, n: usize) -> Result<()> {
        match n / 25 {
            1 | 4 => db.compact_range(None, None),
            2 => db.flush_opt(&FlushOptions::default(), &[&family(db, 1)?]),
            _ => {
                let families = [family(db, 0)?, family(db, 1)?];
                db.flush_opt(&FlushOptions::default(), &families.each_ref())?;
                self.all_durable();
                Ok(())
            }
        }
    }

    fn all_durable(&mut self) {
        for status in &mut self.writes {
            if *status == Status::Acknowledged {
                *status = Status::Synced;
            }
        }
    }

    /// What an open database shows, whatever background errors it has.
    pub(super) fn check_reads(&self, db: &Db) -> Result<(), String> {
        self.check(db, false)
    }

    /// What a database opened after a death must show.
    pub(super) fn check_after(&self, db: &Db, kind: CrashKind) -> Result<(), String> {
        self.check(db, kind == CrashKind::PowerLoss)
    }

    fn check(&self, db: &Db, power_loss: bool) -> Result<(), String> {
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

    /// Whether some read ended with an error; those that did not must be right.
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
                Ok(()) if rows != WRITES + if i == 0 { SLOTS } else { 0 } => {
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
            "key-" => Some(value(number)),
            "hot-" => (0..WRITES).rev().find(|n| n % SLOTS == number).map(value),
            _ => None,
        }
    }
}

fn batch(db: &Db, n: usize) -> Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    for i in 0..FAMILIES.len() {
        batch.put(family(db, i)?.id(), &key(n), &value(n))?;
    }
    batch.put(family(db, 0)?.id(), &slot_key(n % SLOTS), &value(n))?;
    Ok(batch)
}

fn family(db: &Db, i: usize) -> Result<esker::ColumnFamilyHandle> {
    db.column_family(FAMILIES[i]).ok_or_else(|| Error::corruption(format!("family {} is gone", FAMILIES[i])))
}

fn key(n: usize) -> Vec<u8> {
    format!("key-{n:05}").into_bytes()
}

fn slot_key(slot: usize) -> Vec<u8> {
    format!("hot-{slot:05}").into_bytes()
}

fn value(n: usize) -> Vec<u8> {
    let mut value = vec![0; 900 + n % 100];
    fastrand::Rng::with_seed(n as u64).fill(&mut value);
    value
}
