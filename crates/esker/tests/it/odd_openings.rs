//! One database through many lives: closed, killed or without power, and opened again under other
//! options each time.
//!
//! Each opening has random options: the treatment of damage in WALs, recycled WALs, manual flushes
//! of WALs, flushes at open or close, atomic flushes, limits of WALs and MANIFESTs, transactions. A
//! read-only opening comes before each. Afterwards the logged contents are those of one point in
//! time, no earlier than the last durable one. Unlogged contents are not older than their last
//! flush. Prepared transactions are still prepared.

use esker::internals::env::{CrashChoices, CrashFs};
use esker::options::WalRecoveryMode;
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, Env, FlushOptions, OpenMode, Transaction,
    TransactionDb, TransactionDbOptions, TransactionOptions, WriteOptions,
};
use esker_testkit::seed::for_each_seed;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

type Contents = BTreeMap<(String, String), String>;

/// Logged contents: keys by family, and prepared operations of transactions.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Logged {
    contents: Contents,
    prepared: BTreeMap<String, Contents>,
}

/// The values that a key written without a WAL may have: the last value in a table, and all later
/// values.
type Unlogged = BTreeMap<(String, String), Vec<Option<String>>>;

struct Life {
    rng: fastrand::Rng,
    disk: CrashFs,
    wal_dir: Option<PathBuf>,
    families: BTreeSet<String>,
    next_family: u32,
    next_value: u32,
    /// Each point in time since the last opening; `floor` is the index of the last durable one.
    points: Vec<Logged>,
    floor: usize,
    killed_floor: usize,
    unlogged: Unlogged,
    had_recycling: bool,
    told: Vec<String>,
}

enum OpenedAs {
    Plain(Db),
    Transactions(TransactionDb, BTreeMap<String, Transaction>),
}

impl OpenedAs {
    fn db(&self) -> &Db {
        match self {
            OpenedAs::Plain(db) => db,
            OpenedAs::Transactions(db, _) => db.db(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Closed,
    Killed,
    NoPower,
}

fn all_of(db: &Db, families: &BTreeSet<String>) -> (Contents, Contents) {
    let (mut logged, mut unlogged) = (Contents::new(), Contents::new());
    for name in families {
        let family = db.column_family(name).unwrap();
        let mut iter = db.iter_cf(&family).unwrap();
        iter.seek_to_first();
        while iter.valid() {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let (key, value) = (text(iter.key()), text(iter.value()));
            let of = if key.starts_with('u') { &mut unlogged } else { &mut logged };
            of.insert((name.clone(), key), value.trim_end_matches('.').to_owned());
            iter.next();
        }
        iter.status().unwrap();
    }
    (logged, unlogged)
}

impl Life {
    fn draw_options(&mut self, end: End) -> DbOptions {
        let rng = &mut self.rng;
        let mut options =
            DbOptions { env: Env::with_fs(Arc::new(self.disk.clone())), ..DbOptions::default() };
        options.create_if_missing = true;
        options.wal_dir = self.wal_dir.clone();
        options.keep_log_file_num = 2;
        let modes: &[WalRecoveryMode] = match end {
            End::NoPower => &[WalRecoveryMode::PointInTimeRecovery],
            _ if self.had_recycling => {
                &[WalRecoveryMode::PointInTimeRecovery, WalRecoveryMode::TolerateCorruptedTailRecords]
            }
            _ => &[
                WalRecoveryMode::PointInTimeRecovery,
                WalRecoveryMode::TolerateCorruptedTailRecords,
                WalRecoveryMode::SkipAnyCorruptedRecords,
                WalRecoveryMode::AbsoluteConsistency,
            ],
        };
        options.wal_recovery_mode = modes[rng.usize(..modes.len())];
        options.recycle_log_file_num = [0, 0, 2][rng.usize(..3)];
        options.avoid_flush_during_recovery = rng.bool();
        options.avoid_flush_during_shutdown = rng.bool();
        options.manual_wal_flush = rng.u8(..4) == 0;
        options.atomic_flush = rng.u8(..3) == 0;
        options.allow_fallocate = rng.bool();
        options.max_total_wal_size = [0, 4000, 30_000][rng.usize(..3)];
        options.max_manifest_file_size = [300, 1 << 20][rng.usize(..2)];
        options.wal_bytes_per_sync = [0, 2000][rng.usize(..2)];
        options.max_background_jobs = [1, 4][rng.usize(..2)];
        options
    }

    fn family_options(&mut self) -> ColumnFamilyOptions {
        ColumnFamilyOptions {
            write_buffer_size: 64 << 10,
            min_write_buffer_number_to_merge: [1, 2][self.rng.usize(..2)],
            max_write_buffer_number: 4,
            arena_block_size: 4 << 10,
            level0_file_num_compaction_trigger: 2,
            ..ColumnFamilyOptions::default()
        }
    }

    fn open(&mut self, end: End) -> OpenedAs {
        let mut options = self.draw_options(end);
        let with_transactions = self.rng.bool() || !self.points.iter().all(|m| m.prepared.is_empty());
        self.told.push(format!(
            "{end:?}: {:?}, recycle {}, no flush at open {}, at close {}, manual {}, atomic {}, wal size {}, txn {with_transactions}",
            options.wal_recovery_mode,
            options.recycle_log_file_num,
            options.avoid_flush_during_recovery,
            options.avoid_flush_during_shutdown,
            options.manual_wal_flush,
            options.atomic_flush,
            options.max_total_wal_size
        ));
        let descriptors: Vec<_> = self
            .families
            .clone()
            .into_iter()
            .map(|name| ColumnFamilyDescriptor::new(name, self.family_options()))
            .collect();
        let mut seen = None;
        if self.disk_has_database() && self.rng.u8(..3) == 0 {
            options.allow_2pc = with_transactions;
            let db = Db::open_with(&options, "/db", descriptors.clone(), OpenMode::ReadOnly).unwrap();
            seen = Some(all_of(&db, &self.families));
        }
        let opened_as = if with_transactions {
            let txn_options =
                TransactionDbOptions { default_lock_timeout: 0, ..TransactionDbOptions::default() };
            let db = TransactionDb::open_cf(&options, &txn_options, "/db", descriptors).unwrap();
            let prepared = db.get_all_prepared_transactions();
            let named = |txn: Transaction| (String::from_utf8(txn.name().unwrap().to_vec()).unwrap(), txn);
            let prepared = prepared.into_iter().map(named).collect();
            OpenedAs::Transactions(db, prepared)
        } else {
            OpenedAs::Plain(Db::open_cf(&options, "/db", descriptors).unwrap())
        };
        let found = all_of(opened_as.db(), &self.families);
        if let Some(seen) = seen {
            assert_eq!(seen, found, "a read-only opening has other contents");
        }
        self.check(end, found, &opened_as);
        if opened_as.db().db_options().recycle_log_file_num > 0 {
            self.had_recycling = true;
        }
        opened_as
    }

    fn disk_has_database(&self) -> bool {
        use esker::internals::env::FileSystem;
        self.disk.file_exists("/db/CURRENT".as_ref()).unwrap()
    }

    fn check(&mut self, end: End, (logged, unlogged): (Contents, Contents), opened_as: &OpenedAs) {
        let names: BTreeSet<String> = match opened_as {
            OpenedAs::Plain(_) => BTreeSet::new(),
            OpenedAs::Transactions(_, txns) => txns.keys().cloned().collect(),
        };
        let least = match end {
            End::Closed => self.points.len() - 1,
            End::Killed => self.killed_floor,
            End::NoPower => self.floor,
        };
        let is_now = |point: &Logged| {
            let of_living = |((family, _), _): &(&(String, String), &String)| self.families.contains(family);
            point.contents.iter().filter(of_living).eq(logged.iter())
                && point.prepared.keys().eq(names.iter())
        };
        let Some(at) = (least..self.points.len()).rev().find(|i| is_now(&self.points[*i])) else {
            let last = self.points.last().unwrap();
            panic!(
                "no point from {least} to {} is this: {logged:?}, prepared {names:?}\nthe last: {last:?}\nthe first: {:?}",
                self.points.len() - 1,
                self.points[least],
            )
        };
        let now = Logged { contents: logged, prepared: self.points[at].prepared.clone() };
        let keys: BTreeSet<_> = self.unlogged.keys().chain(unlogged.keys()).cloned().collect();
        let mut left = Unlogged::new();
        for key in keys.into_iter().filter(|(family, _)| self.families.contains(family)) {
            let value = unlogged.get(&key).cloned();
            let may_be = self.unlogged.get(&key).cloned().unwrap_or_else(|| vec![None]);
            assert!(may_be.contains(&value), "{key:?} is {value:?}, may be {may_be:?}");
            left.insert(key, vec![value]);
        }
        self.unlogged = left;
        self.points = vec![now];
        (self.floor, self.killed_floor) = (0, 0);
    }

    fn last(&self) -> Logged {
        self.points.last().unwrap().clone()
    }

    fn wrote(&mut self, point: Logged, sync: bool, manual: bool) {
        self.points.push(point);
        let now = self.points.len() - 1;
        if sync {
            self.floor = now;
        }
        if sync || !manual {
            self.killed_floor = now;
        }
    }

    fn any_family(&mut self) -> String {
        let index = self.rng.usize(..self.families.len());
        self.families.iter().nth(index).unwrap().clone()
    }

    fn value(&mut self) -> String {
        self.next_value += 1;
        self.next_value.to_string()
    }

    fn step(&mut self, opened_as: &mut OpenedAs) {
        let options = opened_as.db().db_options();
        let (manual, recycles) = (options.manual_wal_flush, options.recycle_log_file_num > 0);
        let name = self.any_family();
        let family = opened_as.db().column_family(&name).unwrap();
        let sync = self.rng.u8(..6) == 0;
        let write = WriteOptions::default().sync(sync);
        let key = format!("k{}", self.rng.u8(..12));
        let padding = ".".repeat([0, 30, 3000][self.rng.usize(..3)]);
        match self.rng.u8(..100) {
            0..45 => {
                let value = self.value();
                let padded = format!("{value}{padding}");
                let result = match opened_as {
                    OpenedAs::Plain(db) => db.put_opt(&write, &family, &key, padded),
                    OpenedAs::Transactions(db, _) => db.put_opt(&write, &family, &key, padded),
                };
                if result.is_err() {
                    return; // a prepared transaction has the key
                }
                let mut point = self.last();
                point.contents.insert((name, key), value);
                self.wrote(point, sync, manual);
            }
            45..55 => {
                let result = match opened_as {
                    OpenedAs::Plain(db) => db.delete_opt(&write, &family, &key),
                    OpenedAs::Transactions(db, _) => db.delete_opt(&write, &family, &key),
                };
                if result.is_err() {
                    return;
                }
                let mut point = self.last();
                point.contents.remove(&(name, key));
                self.wrote(point, sync, manual);
            }
            55..70 if !recycles => {
                let key = format!("u{}", self.rng.u8(..6));
                let value = self.value();
                let unlogged = WriteOptions::default().disable_wal(true);
                opened_as.db().put_opt(&unlogged, &family, &key, format!("{value}{padding}")).unwrap();
                self.unlogged.entry((name, key)).or_insert_with(|| vec![None]).push(Some(value));
            }
            70..78 => {
                let wait = FlushOptions { wait: true, allow_write_stall: true, ..Default::default() };
                // Without entries, no other WAL is begun.
                let has_entries =
                    opened_as.db().int_property_cf(&family, "rocksdb.num-entries-active-mem-table").unwrap()
                        > 0;
                opened_as.db().flush_opt(&wait, &[&family]).unwrap();
                let now = self.points.len() - 1;
                for ((_, _), values) in
                    self.unlogged.iter_mut().filter(|((f, _), _)| *f == name || options.atomic_flush)
                {
                    values.drain(..values.len() - 1);
                }
                if has_entries {
                    (self.floor, self.killed_floor) = (now, now);
                }
            }
            78..81 => {
                opened_as.db().flush_wal(sync).unwrap();
                self.killed_floor = self.points.len() - 1;
                if sync {
                    self.floor = self.killed_floor;
                }
            }
            81..84 if self.families.len() < 4 => {
                let name = format!("f{}", self.next_family);
                self.next_family += 1;
                let options = self.family_options();
                match opened_as {
                    OpenedAs::Plain(db) => db.create_column_family(&name, &options),
                    OpenedAs::Transactions(db, _) => db.create_column_family(&name, &options),
                }
                .unwrap();
                self.families.insert(name);
            }
            84..86 if name != "default" => {
                // A prepared transaction that writes to the family could not be committed.
                if self.last().prepared.values().any(|ops| ops.keys().any(|(f, _)| *f == name)) {
                    return;
                }
                match opened_as {
                    OpenedAs::Plain(db) => db.drop_column_family(&family),
                    OpenedAs::Transactions(db, _) => db.drop_column_family(&family),
                }
                .unwrap();
                self.families.remove(&name);
            }
            86..93 => self.prepare(opened_as, &write, manual),
            93..97 => self.resolve(opened_as),
            _ => opened_as.db().compact_range(None, None).unwrap(),
        }
    }

    fn prepare(&mut self, opened_as: &mut OpenedAs, write: &WriteOptions, manual: bool) {
        let OpenedAs::Transactions(db, txns) = opened_as else { return };
        let options = TransactionOptions { lock_timeout: 0, ..TransactionOptions::default() };
        let txn = db.begin_transaction_opt(write, &options);
        let mut ops = Contents::new();
        for _ in 0..self.rng.u8(1..4) {
            let name = self.any_family();
            let family = db.db().column_family(&name).unwrap();
            let (key, value) = (format!("k{}", self.rng.u8(..12)), self.value());
            if txn.put_cf(&family, &key, &value).is_ok() {
                ops.insert((name, key), value);
            }
        }
        let name = format!("t{}", self.value());
        txn.set_name(name.as_bytes()).unwrap();
        txn.prepare().unwrap();
        let mut point = self.last();
        point.prepared.insert(name.clone(), ops);
        txns.insert(name, txn);
        self.wrote(point, write.sync, manual);
    }

    fn resolve(&mut self, opened_as: &mut OpenedAs) {
        let OpenedAs::Transactions(db, txns) = opened_as else { return };
        let manual = db.db().db_options().manual_wal_flush;
        let Some((name, txn)) = txns.pop_first() else { return };
        let sync = self.rng.bool();
        txn.set_write_options(&WriteOptions::default().sync(sync));
        let mut point = self.last();
        let ops = point.prepared.remove(&name).unwrap();
        if self.rng.u8(..3) > 0 {
            txn.commit().unwrap();
            point.contents.extend(ops);
        } else {
            txn.rollback().unwrap();
        }
        self.wrote(point, sync, manual);
    }

    fn live(&mut self, end: End) -> End {
        let mut opened_as = self.open(end);
        let steps = self.rng.usize(..60);
        for _ in 0..steps {
            self.step(&mut opened_as);
        }
        let end = [End::Closed, End::Killed, End::NoPower][self.rng.usize(..3)];
        match end {
            End::Closed => {
                if let OpenedAs::Transactions(_, txns) = &mut opened_as {
                    txns.clear();
                }
                let keeps = !opened_as.db().db_options().avoid_flush_during_shutdown;
                opened_as.db().close().unwrap();
                if keeps {
                    for values in self.unlogged.values_mut() {
                        values.drain(..values.len() - 1);
                    }
                }
            }
            End::Killed => self.disk = self.disk.crash_clone(&CrashChoices::process_kill()),
            End::NoPower => self.disk = self.disk.crash_clone(&CrashChoices::random(self.rng.u64(..))),
        }
        end
    }
}

#[test]
fn written_data_is_there_under_any_options_of_the_next_opening() {
    for_each_seed("odd_openings", 8, |_, mut rng| {
        let wal_dir = rng.bool().then(|| "/wals".into());
        let mut life = Life {
            rng,
            disk: CrashFs::new(),
            wal_dir,
            families: BTreeSet::from(["default".to_owned()]),
            next_family: 1,
            next_value: 0,
            points: vec![Logged::default()],
            floor: 0,
            killed_floor: 0,
            unlogged: Unlogged::new(),
            had_recycling: false,
            told: Vec::new(),
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut end = End::Closed;
            for _ in 0..12 {
                end = life.live(end);
            }
        }));
        if let Err(panic) = outcome {
            eprintln!("openings:\n{}", life.told.join("\n"));
            std::panic::resume_unwind(panic);
        }
    });
}
