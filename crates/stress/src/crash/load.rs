//! The load of a run: options, writers, flushes and compactions, all drawn from a seed.

use super::DIR;
use super::history::{CrashBatch, CrashChange, CrashHistory, FamilyContents, LAST};
use crate::stamped;
use esker::comparator::{BytewiseComparator, ComparatorRef};
use esker::internals::base::sync::atomic::{AtomicU64, Ordering};
use esker::internals::base::sync::thread;
use esker::internals::cache::CacheOptions;
use esker::internals::env::Env;
use esker::internals::env::crash::CrashKind;
use esker::internals::table::BlockCache;
use esker::options::CompressionType;
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, Db, DbOptions, FlushOptions, Options, ReadOptions, Result,
    WriteBatch, WriteOptions,
};
use esker_testkit::timestamps::TimestampFormat;
use std::fmt;
use std::sync::Arc;

const KEYS: u32 = 300;
/// Most timestamps of a run: one for each batch.
const RUN_TIMES: u64 = 1 << 16;

/// Newest sequence numbers that must survive.
#[derive(Debug, Default)]
pub(super) struct Floors {
    acknowledged: AtomicU64,
    durable: AtomicU64,
    by_family: [AtomicU64; 4],
}

impl Floors {
    /// The sequence number that must survive a crash of this kind now.
    pub(super) fn of(&self, kind: CrashKind) -> u64 {
        match kind {
            CrashKind::ProcessKill => self.acknowledged.load(Ordering::SeqCst),
            CrashKind::PowerLoss => self.durable.load(Ordering::SeqCst),
        }
    }
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub(super) struct Load {
    seed: u64,
    families: usize,
    threads: u32,
    batches_per_thread: u32,
    value_bytes: usize,
    sync_one_in: u32,
    flush_one_in: u32,
    /// Whether writes skip the WAL; flushes are then atomic.
    unlogged: bool,
    /// Whether the disk fails.
    pub(super) trouble: bool,
    /// Whether the files are encrypted.
    #[cfg(feature = "encryption")]
    pub(super) encrypted: bool,
    /// Format of the timestamps in the keys of the last family, if they have any. Only one thread
    /// then writes, so that timestamps ascend as sequence numbers do.
    pub(super) stamps: Option<TimestampFormat>,
    /// The first timestamp, which is newer than those of earlier runs.
    first_time: u64,
    options: Options,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let db = &self.options.db;
        write!(
            f,
            "seed {}, {} families, {} threads x {} batches, values up to {} bytes, sync 1 in {}, flush 1 in {}, unlogged \
             {}, atomic_flush {}, max_total_wal_size {}, max_manifest_file_size {}, recycle {}, timestamps {:?}",
            self.seed,
            self.families,
            self.threads,
            self.batches_per_thread,
            self.value_bytes,
            self.sync_one_in,
            self.flush_one_in,
            self.unlogged,
            db.atomic_flush,
            db.max_total_wal_size,
            db.max_manifest_file_size,
            db.recycle_log_file_num,
            self.stamps
        )
    }
}

impl Load {
    /// A random load. If the database exists, `given` has the number of families and the timestamps
    /// of the last one. A brief load writes a tenth, and flushes more often. `place` is the number
    /// of earlier runs on the same database.
    pub(super) fn random(
        seed: u64,
        rng: &mut fastrand::Rng,
        given: Option<(usize, Option<TimestampFormat>)>,
        place: u64,
        brief: bool,
    ) -> Load {
        let (families, stamps) = given.unwrap_or_else(|| {
            let families = rng.usize(1..=4);
            let is_stamped = families > 1 && rng.u8(..3) == 0;
            (families, is_stamped.then(|| TimestampFormat::of_seed(rng.u64(..))))
        });
        let threads = if rng.bool() || stamps.is_some() { 1 } else { rng.u32(2..=4) };
        let unlogged = rng.u32(..5) == 0;
        let mut options = random_options(rng);
        if brief {
            // The default cache belongs to the process, so it is no part of a simulation.
            let capacity = *rng.choice(&[16 << 10, 1 << 20]).expect("the list of choices is not empty");
            let cache = BlockCache::new(&CacheOptions::with_capacity(capacity));
            options.cf.table.block_cache = Some(Arc::new(cache.expect("the options are in range")));
        }
        options.db.atomic_flush |= unlogged;
        if unlogged {
            options.db.recycle_log_file_num = 0; // the engine refuses both together
        }
        Load {
            seed,
            families,
            threads,
            batches_per_thread: rng.u32(200..800) / threads / if brief { 10 } else { 1 },
            value_bytes: *rng.choice(&[20, 200, 1500]).expect("the list of choices is not empty"),
            sync_one_in: if unlogged {
                u32::MAX
            } else {
                *rng.choice(&[1, 5, 50, u32::MAX]).expect("the list of choices is not empty")
            },
            flush_one_in: *rng
                .choice(if brief { &[5, 10, 40] } else { &[20, 60, 200] })
                .expect("the list of choices is not empty"),
            unlogged,
            trouble: false,
            #[cfg(feature = "encryption")]
            encrypted: false,
            stamps,
            first_time: place * RUN_TIMES + 1,
            options,
        }
    }

    /// Limits the batches of each writer.
    pub(super) fn limit_batches(&mut self, batches: u32) {
        self.batches_per_thread = self.batches_per_thread.min(batches);
    }

    pub(super) fn empty_contents(&self) -> FamilyContents {
        vec![Default::default(); self.families]
    }

    pub(super) fn family_names(&self) -> Vec<String> {
        let others = (1..self.families).map(|i| format!("family{i}"));
        std::iter::once("default".to_owned()).chain(others).collect()
    }

    /// Opens the database. Some openings flush the contents of WALs.
    pub(super) fn open(&self, env: Env, rng: &mut fastrand::Rng) -> Result<Db> {
        let mut options = DbOptions { env, ..self.options.db.clone() };
        options.avoid_flush_during_recovery = rng.u32(..4) == 0;
        let descriptor = |(family, name)| {
            let mut cf = self.options.cf.clone();
            cf.comparator = self.comparator(family);
            ColumnFamilyDescriptor::new(name, cf)
        };
        Db::open_cf(&options, DIR, self.family_names().into_iter().enumerate().map(descriptor))
    }

    pub(super) fn comparator(&self, family: usize) -> ComparatorRef {
        self.stamps_of(family).map_or_else(|| Arc::new(BytewiseComparator) as _, stamped::comparator)
    }

    fn stamps_of(&self, family: usize) -> Option<TimestampFormat> {
        self.stamps.filter(|_| family + 1 == self.families)
    }

    /// Options of a read of a family at this timestamp, if its keys have some.
    pub(super) fn reading_at(&self, family: usize, time: u64) -> ReadOptions {
        let timestamp = self.stamps_of(family).map(|stamps| stamps.timestamp(time));
        ReadOptions { timestamp, ..ReadOptions::default() }
    }

    /// A key as a family has it.
    fn key(&self, family: usize, key: &[u8], time: u64) -> Vec<u8> {
        let timestamp = self.stamps_of(family).map(|stamps| stamps.timestamp(time)).unwrap_or_default();
        [key, &timestamp].concat()
    }

    /// Opens, writes, closes.
    pub(super) fn run(
        &self,
        env: Env,
        base: FamilyContents,
        floors: &Floors,
        rng: &mut fastrand::Rng,
    ) -> Result<CrashHistory, String> {
        let db = self.open(env, rng).map_err(|e| format!("the run's database does not open: {e}\n{self}"))?;
        let families: Vec<_> = self
            .family_names()
            .iter()
            .map(|name| db.column_family(name).expect("the database was opened with all families"))
            .collect();
        let written = thread::scope(|scope| {
            let writers: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let writer = Writer {
                        load: self,
                        db: &db,
                        families: &families,
                        floors,
                        thread,
                        low: self.first_time,
                        rng: rng.fork(),
                    };
                    scope.spawn(move || writer.run())
                })
                .collect();
            writers.into_iter().map(|w| w.join().expect("no writer panics")).collect::<Result<Vec<_>>>()
        });
        let written = written.map_err(|e| format!("a write or flush failed without a fault: {e}\n{self}"))?;
        if let Some(e) = db.background_error() {
            return Err(format!("background error without a fault: {e}\n{self}"));
        }
        if rng.bool() {
            db.close().map_err(|e| format!("close: {e}\n{self}"))?;
        }
        drop(db);
        Ok(CrashHistory::new(base, written.into_iter().flatten().collect()))
    }
}

fn random_options(rng: &mut fastrand::Rng) -> Options {
    fn one_of<T: Copy>(rng: &mut fastrand::Rng, of: &[T]) -> T {
        of[rng.usize(..of.len())]
    }
    let mut options = Options::default();
    let db = &mut options.db;
    db.create_if_missing = true;
    db.create_missing_column_families = true;
    db.atomic_flush = rng.bool();
    db.max_manifest_file_size = one_of(rng, &[500, 5_000, 1 << 20]);
    db.max_total_wal_size = one_of(rng, &[0, 10_000, 40_000]);
    db.recycle_log_file_num = one_of(rng, &[0, 0, 2]);
    db.max_background_jobs = one_of(rng, &[2, 4]);
    db.wal_bytes_per_sync = one_of(rng, &[0, 4096]);
    db.allow_fallocate = rng.bool();
    db.max_subcompactions = one_of(rng, &[1, 3]);
    db.use_direct_reads = rng.bool();
    db.use_direct_io_for_flush_and_compaction = rng.bool();
    db.writable_file_max_buffer_size = one_of(rng, &[1, 5_000, 1 << 20]);
    db.keep_log_file_num = 3;
    let cf = &mut options.cf;
    cf.write_buffer_size = 64 << 10;
    cf.arena_block_size = 4 << 10;
    cf.max_write_buffer_number = one_of(rng, &[2, 4]);
    cf.min_write_buffer_number_to_merge = one_of(rng, &[1, 1, 2]);
    cf.level0_file_num_compaction_trigger = one_of(rng, &[2, 4]);
    cf.target_file_size_base = 20 << 10;
    cf.max_bytes_for_level_base = 60 << 10;
    cf.max_bytes_for_level_multiplier = 3.0;
    cf.level_compaction_dynamic_level_bytes = rng.bool();
    cf.compression = CompressionType::None;
    cf.merge_operator = Some(esker::builtin::uint64_add());
    cf.enable_blob_files = rng.bool();
    cf.blob_file_size = one_of(rng, &[10 << 10, 256 << 20]);
    cf.enable_blob_garbage_collection = rng.bool();
    options
}

/// One writing thread.
struct Writer<'a> {
    load: &'a Load,
    db: &'a Db,
    families: &'a [ColumnFamilyHandle],
    floors: &'a Floors,
    thread: u32,
    /// The oldest timestamp that is read.
    low: u64,
    rng: fastrand::Rng,
}

impl Writer<'_> {
    fn run(mut self) -> Result<Vec<CrashBatch>> {
        let mut written = Vec::new();
        for n in 0..self.load.batches_per_thread {
            let id = self.load.seed << 24 | u64::from(self.thread) << 20 | u64::from(n);
            let time = self.load.first_time + u64::from(n);
            written.push(self.write(id, time)?);
            self.now_and_then(time)?;
        }
        Ok(written)
    }

    fn write(&mut self, id: u64, time: u64) -> Result<CrashBatch> {
        let changes = self.changes(id);
        let mut batch = WriteBatch::new();
        for (family, change) in &changes {
            let key = |key: &[u8]| self.load.key(*family, key, time);
            let family = self.families[*family].id();
            match change {
                CrashChange::Put(of, value) => batch.put_cf(family, key(of), value)?,
                CrashChange::Delete(of) => batch.delete_cf(family, key(of))?,
                CrashChange::DeleteRange(begin, end) => {
                    batch.delete_range_cf(family, key(begin), key(end))?
                }
                CrashChange::Add(of, n) => batch.merge_cf(family, key(of), n.to_le_bytes())?,
            }
        }
        let sync = self.rng.u32(..self.load.sync_one_in) == 0;
        let options = WriteOptions::default().sync(sync).disable_wal(self.load.unlogged);
        self.db.write_opt(&options, &mut batch)?;
        let sequence = batch.sequence().0;
        for (family, _) in &changes {
            self.floors.by_family[*family].fetch_max(sequence, Ordering::SeqCst);
        }
        if !self.load.unlogged {
            self.floors.acknowledged.fetch_max(sequence, Ordering::SeqCst);
        }
        if sync {
            self.floors.durable.fetch_max(sequence, Ordering::SeqCst);
        }
        Ok(CrashBatch { sequence, id, time, changes })
    }

    fn changes(&mut self, id: u64) -> Vec<(usize, CrashChange)> {
        let families = self.families.len();
        let mut changes: Vec<(usize, CrashChange)> =
            (0..self.rng.usize(1..=4)).map(|_| (self.rng.usize(..families), self.change())).collect();
        for family in 0..families {
            if changes.iter().any(|(f, _)| *f == family) {
                changes.push((family, CrashChange::Put(LAST.to_vec(), id.to_le_bytes().to_vec())));
            }
        }
        changes
    }

    fn change(&mut self) -> CrashChange {
        let key = |n: u32| format!("key{n:04}").into_bytes();
        let counter = |n: u32| format!("n{:02}", n % 40).into_bytes();
        let n = self.rng.u32(..KEYS);
        match self.rng.u32(..20) {
            0..11 => {
                let mut value = vec![0; self.rng.usize(..=self.load.value_bytes)];
                self.rng.fill(&mut value);
                CrashChange::Put(key(n), value)
            }
            11..14 => CrashChange::Delete(key(n)),
            14 => CrashChange::DeleteRange(key(n), key(n + self.rng.u32(1..20))),
            15 => CrashChange::Delete(counter(n)),
            _ => CrashChange::Add(counter(n), u64::from(self.rng.u32(1..1000))),
        }
    }

    /// Flushes, compacts or raises the oldest timestamp at random. `time`: the newest timestamp.
    fn now_and_then(&mut self, time: u64) -> Result<()> {
        if self.load.stamps.is_some() && self.rng.u32(..80) == 0 {
            self.raise_low(time)?;
        }
        if self.rng.u32(..self.load.flush_one_in) == 0 {
            self.flush()?;
        }
        if self.rng.u32(..250) == 0 {
            let family = &self.families[self.rng.usize(..self.families.len())];
            self.db.compact_range_opt(&Default::default(), family, None, None)?;
        }
        if self.rng.u32(..100) == 0 && !self.load.unlogged {
            let promised = self.floors.acknowledged.load(Ordering::SeqCst);
            self.db.sync_wal()?;
            self.floors.durable.fetch_max(promised, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Raises the oldest timestamp at which the family may be read.
    fn raise_low(&mut self, time: u64) -> Result<()> {
        let family = self.families.len() - 1;
        let Some(stamps) = self.load.stamps_of(family) else { return Ok(()) };
        self.low = self.rng.u64(self.low..=time);
        self.db.increase_full_history_ts_low(&self.families[family], &stamps.timestamp(self.low))
    }

    fn flush(&mut self) -> Result<()> {
        let family = self.rng.usize(..self.families.len());
        let atomic = self.load.options.db.atomic_flush;
        let flushed =
            if atomic { &self.floors.by_family[..] } else { &self.floors.by_family[family..=family] };
        let promised = flushed.iter().map(|f| f.load(Ordering::SeqCst)).max().unwrap_or(0);
        self.db.flush_opt(&FlushOptions::default(), &[&self.families[family]])?;
        self.floors.durable.fetch_max(promised, Ordering::SeqCst);
        if self.load.unlogged {
            self.floors.acknowledged.fetch_max(promised, Ordering::SeqCst);
        }
        Ok(())
    }
}
