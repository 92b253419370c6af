//! Histories of keys with user-defined timestamps. Each engine shows them, trims them, and
//! refuses reads older than the trim.

use esker::options::TargetVersion;
use esker::{
    CompactRangeOptions, Db, ErrorKind, Options, ParsedEntryInfo, ReadOptions, WriteOptions, comparator,
};
use esker_peer::{Contents, FamilySpec, RocksDb, require};
use esker_testkit::timestamps::{TimestampFormat, TimestampOrder};
use esker_testkit::{TempDir, seed};
use std::collections::BTreeMap;
use std::path::Path;

const NAME: &str = "leveldb.BytewiseComparator.u64ts";

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.compatible_with = TargetVersion::V11;
    options.cf.comparator = comparator::by_name(NAME).expect("built in");
    options.cf.target_file_size_base = 4 << 10;
    options
}

fn ts(n: u64) -> [u8; 8] {
    n.to_le_bytes()
}

fn at(n: u64) -> ReadOptions {
    ReadOptions { timestamp: Some(ts(n).to_vec()), ..ReadOptions::default() }
}

fn open_rocksdb(dir: &Path) -> RocksDb {
    let family = FamilySpec::new("default", format!("comparator={NAME};target_file_size_base=4096"));
    RocksDb::open(dir, "", &[family]).expect("RocksDB 11.8.1 opens it")
}

/// Key, timestamp and value of each entry that an iterator with `iter_start_ts` shows. A deletion
/// has no value.
type Versions = Vec<(Vec<u8>, u64, Option<Vec<u8>>)>;

fn version(key: &[u8], value: &[u8]) -> (Vec<u8>, u64, Option<Vec<u8>>) {
    let comparator = comparator::by_name(NAME).expect("built in");
    let entry = ParsedEntryInfo::parse(key, &comparator).expect("an internal key");
    let timestamp = u64::from_le_bytes(entry.timestamp.try_into().expect("8 bytes"));
    let is_there = !entry.entry_type.is_point_deletion();
    (entry.user_key.to_vec(), timestamp, is_there.then(|| value.to_vec()))
}

fn versions(db: &Db, from: u64, to: u64) -> Versions {
    let options = ReadOptions { iter_start_ts: Some(ts(from).to_vec()), ..at(to) };
    let mut iter = db.iter_opt(options, &db.default_column_family()).expect("opens");
    let mut found = Versions::new();
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        found.push(version(key, value));
        iter.next();
    }
    iter.status().expect("read");
    found
}

fn versions_by_rocksdb(db: &RocksDb, from: u64, to: u64) -> Versions {
    let pairs = db.versions("default", &ts(from), &ts(to)).expect("read");
    pairs.iter().map(|(key, value)| version(key, value)).collect()
}

fn contents(db: &Db, point: u64) -> Contents {
    Contents::of(db, &db.default_column_family(), &at(point)).expect("read")
}

#[test]
fn histories_are_shown_and_trimmed_by_both() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    seed::for_each_seed("histories", 4, |round, mut rng| {
        let dir = TempDir::new("histories");
        let (mut time, mut low) = (1, 0);
        for turn in 0..4 {
            let db = Db::open(&options(), dir.path()).expect("opens");
            let (family, write) = (db.default_column_family(), WriteOptions::default());
            for _ in 0..200 {
                let key = format!("k{:02}", rng.u32(..30));
                match rng.u32(..12) {
                    0..3 => db.delete_with_ts(&write, &family, &key, &ts(time)),
                    3 if rng.bool() => {
                        let (a, b) = (format!("k{:02}", rng.u32(..30)), key);
                        let (first, last) = (a.clone().min(b.clone()), a.max(b));
                        db.delete_range_with_ts(&write, &family, &first, &last, &ts(time))
                    }
                    _ => db.put_with_ts(&write, &family, &key, &ts(time), format!("v{time}")),
                }
                .expect("written");
                time += 1;
                if rng.u32(..40) == 0 {
                    db.flush().expect("flushed");
                }
            }
            let before: Vec<Contents> = (low..=time).map(|point| contents(&db, point)).collect();
            // Esker and RocksDB trim in turns.
            let trims_here = turn % 2 == u64::from(round % 2 == 0);
            let next_low = rng.u64(low..time);
            if trims_here {
                let trim = CompactRangeOptions {
                    full_history_ts_low: Some(ts(next_low).to_vec()),
                    ..CompactRangeOptions::default()
                };
                db.compact_range_opt(&trim, &family, None, None).expect("compacted");
            }
            let from = if trims_here { next_low } else { low };
            let shown = versions(&db, from, time);
            drop(family);
            db.close().expect("closes");
            drop(db);

            let db = open_rocksdb(dir.path());
            assert_eq!(versions_by_rocksdb(&db, from, time), shown, "round {round}, turn {turn}");
            if !trims_here {
                db.increase_full_history_ts_low("default", &ts(next_low)).expect("raised");
                db.flush("default").expect("flushed");
                db.compact("default");
            }
            for point in next_low..=time {
                let found = db.contents_at("default", &ts(point)).expect("read");
                let what = format!("round {round}, turn {turn}: RocksDB at {point}");
                found.assert_same(&before[usize::try_from(point - low).expect("small")], &what);
            }
            // After RocksDB raised the bound itself, it respects the bound only after another
            // change.
            if next_low > 0 && trims_here {
                assert!(db.contents_at("default", &ts(next_low - 1)).is_err(), "before {next_low}");
            }
            drop(db);

            let db = Db::open(&options(), dir.path()).expect("opens");
            let family = db.default_column_family();
            assert_eq!(db.full_history_ts_low(&family).expect("has timestamps"), ts(next_low));
            for point in next_low..=time {
                let what = format!("round {round}, turn {turn}: Esker at {point}");
                let expected = &before[usize::try_from(point - low).expect("small")];
                contents(&db, point).assert_same(expected, &what);
            }
            if next_low > 0 {
                let refused = db.get_opt(&at(next_low - 1), &family, "k00").expect_err("trimmed");
                assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            }
            low = next_low;
        }
    });
}

#[test]
fn both_open_a_database_as_it_was_at_a_timestamp() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    seed::for_each_seed("trimmed openings", 4, |round, mut rng| {
        // RocksDB also drops the history below a range deletion, which older reads come to.
        let has_ranges = round % 2 == 0;
        let dirs = [TempDir::new("trimmed_here"), TempDir::new("trimmed_there")];
        let dbs = dirs.each_ref().map(|dir| Db::open(&options(), dir.path()).expect("opens"));
        for time in 1..=300 {
            let key = |n: u32| format!("k{n:02}");
            let (kind, a, b) = (rng.u32(..12), rng.u32(..30), rng.u32(..30));
            let flushes = rng.u32(..60) == 0;
            for db in &dbs {
                let (family, write) = (db.default_column_family(), WriteOptions::default());
                match kind {
                    0..3 => db.delete_with_ts(&write, &family, key(a), &ts(time)),
                    3 if has_ranges => {
                        let (first, last) = (key(a.min(b)), key(a.max(b)));
                        db.delete_range_with_ts(&write, &family, first, last, &ts(time))
                    }
                    _ => db.put_with_ts(&write, &family, key(a), &ts(time), format!("v{time}")),
                }
                .expect("written");
                if flushes {
                    db.flush().expect("flushed");
                }
            }
        }
        for db in dbs {
            db.close().expect("closes");
        }
        let newest = rng.u64(..302);
        // RocksDB does not trim files that an automatic compaction makes during the trim.
        let text = format!("comparator={NAME};target_file_size_base=4096;disable_auto_compactions=true");
        let families = [FamilySpec::new("default", text)];
        let there = RocksDb::open_and_trim_history(dirs[1].path(), "", &families, &ts(newest))
            .expect("RocksDB 11.8.1 trims it");
        let of_options = options();
        let of_family = [("default", of_options.cf.clone())];
        let here = Db::open_and_trim_history(&of_options.db, dirs[0].path(), of_family, &ts(newest))
            .expect("Esker trims it");
        if !has_ranges {
            assert_eq!(
                versions(&here, 0, u64::MAX),
                versions_by_rocksdb(&there, 0, u64::MAX),
                "round {round}"
            );
        }
        let all = (0..newest + 3).step_by(7).chain([newest + 1, u64::MAX - 1]);
        // RocksDB keeps some range deletions that are newer: it forgets more at later timestamps.
        for point in all.filter(|_| !has_ranges).chain([newest]) {
            let found = there.contents_at("default", &ts(point)).expect("read");
            contents(&here, point).assert_same(&found, &format!("round {round} at {point} of {newest}"));
        }
        drop(there);
        here.close().expect("closes");
        drop(here);
        // Each reads what the other has left.
        let (here, there) =
            (open_rocksdb(dirs[0].path()), Db::open(&options(), dirs[1].path()).expect("opens"));
        let found = here.contents_at("default", &ts(newest)).expect("read");
        contents(&there, newest).assert_same(&found, &format!("round {round}, afterwards"));
    });
}

/// For each key, its writes at ascending times. `None` is a deletion.
type History = BTreeMap<Vec<u8>, Vec<(u64, Option<Vec<u8>>)>>;

fn shown(history: &History, time: u64) -> Contents {
    let value = |versions: &Vec<(u64, Option<Vec<u8>>)>| {
        versions.iter().rfind(|(written, _)| *written <= time).and_then(|(_, value)| value.clone())
    };
    Contents(history.iter().filter_map(|(key, versions)| Some((key.clone(), value(versions)?))).collect())
}

/// Makes some writes at ascending times and passes them to `write`.
fn fill(
    history: &mut History,
    time: &mut u64,
    rng: &mut fastrand::Rng,
    mut write: impl FnMut(&[u8], u64, Option<&[u8]>),
) {
    for _ in 0..150 {
        *time += rng.u64(1..90);
        let key = format!("k{:02}", rng.u32(..30)).into_bytes();
        let value = (rng.u32(..4) > 0).then(|| format!("v{time}").into_bytes());
        write(&key, *time, value.as_deref());
        history.entry(key).or_default().push((*time, value));
    }
}

#[test]
fn a_comparator_of_ours_orders_timestamps_for_both() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    for order in [TimestampOrder::Little, TimestampOrder::Big, TimestampOrder::Reverse] {
        let format = TimestampFormat::new(order, 8);
        let comparator = esker_stress::stamped::comparator(format);
        let mut options = options();
        options.cf.comparator = comparator.clone();
        // RocksDB takes zeros for the oldest timestamp, whatever the comparator says. If zeros
        // are the newest, a seek past the versions of a key never ends, and a trimming compaction
        // writes keys out of order.
        let zeros_are_oldest = order != TimestampOrder::Reverse;
        let skips = if zeros_are_oldest { 8 } else { 1_000_000 };
        let text = format!("target_file_size_base=4096;max_sequential_skip_in_iterations={skips}");
        let family = FamilySpec::new("default", text).stamped(comparator.name(), format);
        let mut rng = fastrand::Rng::with_seed(order as u64);
        let dir = TempDir::new("orders");
        let (mut history, mut time, mut low) = (History::new(), 0, 0);
        for turn in 0..6 {
            let times: Vec<u64> = (0..8).map(|_| rng.u64(low..=time)).chain([low, time]).collect();
            if turn % 2 == 0 {
                let db = Db::open(&options, dir.path()).expect("Esker opens it");
                let (family, write) = (db.default_column_family(), WriteOptions::default());
                for at in times {
                    let read =
                        ReadOptions { timestamp: Some(format.timestamp(at)), ..ReadOptions::default() };
                    let found = Contents::of(&db, &family, &read).expect("read");
                    found.assert_same(&shown(&history, at), &format!("{format:?}: Esker at {at}"));
                }
                fill(&mut history, &mut time, &mut rng, |key, time, value| {
                    let timestamp = format.timestamp(time);
                    match value {
                        Some(value) => db.put_with_ts(&write, &family, key, &timestamp, value),
                        None => db.delete_with_ts(&write, &family, key, &timestamp),
                    }
                    .expect("written");
                });
                // The writes below stay in the WAL.
                if turn == 2 {
                    db.compact_range(None, None).expect("compacted");
                }
                fill(&mut history, &mut time, &mut rng, |key, time, value| {
                    let timestamp = format.timestamp(time);
                    match value {
                        Some(value) => db.put_with_ts(&write, &family, key, &timestamp, value),
                        None => db.delete_with_ts(&write, &family, key, &timestamp),
                    }
                    .expect("written");
                });
                if zeros_are_oldest {
                    low = rng.u64(low..=time);
                    db.increase_full_history_ts_low(&family, &format.timestamp(low)).expect("raised");
                }
                drop(family);
                db.close().expect("closes");
            } else {
                let db = RocksDb::open(dir.path(), "", std::slice::from_ref(&family));
                let db = db.expect("RocksDB 11.8.1 opens it");
                for at in times {
                    let found = db.contents_at("default", &format.timestamp(at)).expect("read");
                    found.assert_same(&shown(&history, at), &format!("{format:?}: RocksDB at {at}"));
                }
                let write = |key: &[u8], time, value: Option<&[u8]>| {
                    let written = db.write_at("default", key, &format.timestamp(time), value);
                    written.unwrap_or_else(|e| panic!("{format:?}, turn {turn}: {e}"));
                };
                fill(&mut history, &mut time, &mut rng, write);
                db.flush("default").expect("flushed");
                db.compact("default");
                fill(&mut history, &mut time, &mut rng, write);
            }
        }
    }
}
