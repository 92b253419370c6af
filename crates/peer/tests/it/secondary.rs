//! Secondaries of one engine follow primaries of the other, in one process and in two.

use crate::peer_process::{check_open_esker, db_options, small_files};
use esker::options::CompressionType;
use esker::{Db, DbOptions, ReadOptions};
use esker_peer::model_ops::Kinds;
use esker_peer::{Contents, FamilySpec, ModelOps, PeerOp, RocksDb, WriteFlags, require};
use esker_testkit::{TempDir, seed};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Options of a RocksDB primary that change its MANIFEST and WALs.
const PRIMARIES: [&str; 6] = [
    "",
    "max_manifest_file_size=1;",
    "recycle_log_file_num=2;",
    "wal_compression=kZSTD;",
    "track_and_verify_wals_in_manifest=true;track_and_verify_wals=true;",
    "atomic_flush=true;",
];
const SMALL: &str = "write_buffer_size=65536;target_file_size_base=32768;level0_file_num_compaction_trigger=3;\
                     max_bytes_for_level_base=131072;";

fn varied_primary(seed: u64) -> &'static str {
    PRIMARIES[usize::try_from(seed % PRIMARIES.len() as u64).expect("small")]
}

fn follow_with_esker(dir: &TempDir, model: &ModelOps) -> Db {
    let families = model.descriptors(&small_files(CompressionType::Lz4));
    Db::open_cf_as_secondary(&DbOptions::default(), dir.join("db"), dir.join("mine"), families)
        .expect("opens as a secondary")
}

#[test]
fn esker_follows_a_rocksdb() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    seed::for_each_seed("esker_follows_a_rocksdb", 12, |seed, mut rng| {
        let dir = TempDir::new("secondary");
        let mut model = ModelOps::varied();
        let options =
            format!("create_if_missing=true;create_missing_column_families=true;{}", varied_primary(seed));
        let open = |model: &ModelOps| {
            RocksDb::open(&dir.join("db"), &options, &model.specs(SMALL)).expect("RocksDB opens")
        };
        let mut primary = open(&model);
        let mut secondary = follow_with_esker(&dir, &model);
        for round in 0..25 {
            for _ in 0..rng.usize(..40) {
                let count = rng.usize(1..12);
                let ops = model.random_ops(&mut rng, count, Kinds::ALL);
                primary.write(&ops, WriteFlags::default()).expect("written");
            }
            let family = rng.choice(&model.families).expect("some").name.clone();
            match rng.u8(..8) {
                0 | 1 => primary.flush(&family).expect("flushed"),
                2 => primary.compact(&family),
                3 => {
                    drop(primary);
                    primary = open(&model);
                }
                4 => secondary = follow_with_esker(&dir, &model),
                _ => {}
            }
            secondary.try_catch_up_with_primary().expect("caught up");
            check_open_esker(&secondary, &model, &format!("round {round}"));
        }
    });
}

fn follow_over_links(dir: &TempDir, model: &ModelOps) -> Db {
    let options = DbOptions {
        create_if_missing: true,
        follower_refresh_catchup_period_ms: 1,
        follower_catchup_retry_wait_ms: 1,
        ..DbOptions::default()
    };
    let families = model.descriptors(&small_files(CompressionType::Lz4));
    Db::open_cf_as_follower(&options, dir.join("links"), dir.join("db"), families)
        .expect("opens as a follower")
}

/// The follower also catches up by itself all the time.
#[test]
fn esker_follows_a_rocksdb_over_links() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    seed::for_each_seed("esker_follows_a_rocksdb_over_links", 6, |seed, mut rng| {
        let dir = TempDir::new("follower");
        let mut model = ModelOps::varied();
        let options =
            format!("create_if_missing=true;create_missing_column_families=true;{}", varied_primary(seed));
        let leader = RocksDb::open(&dir.join("db"), &options, &model.specs(SMALL)).expect("RocksDB opens");
        let mut follower = follow_over_links(&dir, &model);
        for round in 0..20 {
            for _ in 0..rng.usize(..40) {
                let count = rng.usize(1..12);
                let ops = model.random_ops(&mut rng, count, Kinds::ALL);
                leader.write(&ops, WriteFlags::default()).expect("written");
            }
            let family = rng.choice(&model.families).expect("some").name.clone();
            match rng.u8(..6) {
                0 | 1 => leader.flush(&family).expect("flushed"),
                2 | 3 => leader.compact(&family),
                4 => {
                    drop(follower);
                    follower = follow_over_links(&dir, &model);
                }
                _ => {}
            }
            follower.try_catch_up_with_primary().expect("caught up");
            check_open_esker(&follower, &model, &format!("round {round}"));
        }
    });
}

/// Puts new keys in one family only. In other histories a secondary of 11.8.1 loses or doubles
/// entries, even if RocksDB is the primary.
#[test]
fn a_rocksdb_follows_esker() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let dir = TempDir::new("secondary");
    let model = ModelOps::new(&[]);
    // RocksDB takes the zeros of reserved space for the end of a block, and never reads there
    // again.
    let options = DbOptions { allow_fallocate: false, ..db_options() };
    let families = model.descriptors(&small_files(CompressionType::Lz4));
    let primary = Db::open_cf(&options, dir.join("db"), families).expect("opens");
    primary.put("key", "first").expect("written");
    let (db, mine, families) = (dir.join("db"), dir.join("mine"), model.specs(""));
    let open = || RocksDb::open_as_secondary(&db, &mine, "max_open_files=-1;", &families).expect("opens");
    let secondary = open();
    let check = |secondary: &RocksDb, when: &str| {
        let family = primary.default_column_family();
        let expected = Contents::of(&primary, &family, &ReadOptions::default()).expect("read");
        secondary.contents("default", None).expect("read").assert_same(&expected, when);
    };
    check(&secondary, "opened");
    for round in 0..12 {
        for i in 0..20 {
            primary.put(format!("key{round:02}{i:02}"), [b'v'; 100]).expect("written");
        }
        match round % 4 {
            1 => primary.flush().expect("flushed"),
            3 => primary.compact_range(None, None).expect("compacted"),
            _ => {}
        }
        secondary.try_catch_up_with_primary().expect("caught up");
        check(&secondary, &format!("round {round}"));
    }
    check(&open(), "opened again");
}

const DIRECTORY: &str = "ESKER_PEER_PRIMARY_DIRECTORY";
const OPTIONS: &str = "ESKER_PEER_PRIMARY_OPTIONS";
const KEYS: u32 = 50;

fn specs() -> Vec<FamilySpec> {
    ["default", "other"].map(|name| FamilySpec::new(name, SMALL)).to_vec()
}

/// The peer process of another test, not a test itself. If a directory is given, RocksDB writes
/// batch after batch. Each batch gives all keys of two families the next number.
#[test]
fn be_a_primary() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let options = std::env::var(OPTIONS).expect("set with it");
    let options = format!("create_if_missing=true;create_missing_column_families=true;{options}");
    let db = RocksDb::open(Path::new(&dir), &options, &specs()).expect("opens");
    let last = db.get("default", b"key000", None).expect("read");
    let first = last.map_or(1, |value| number_of(&value) + 1);
    for number in first.. {
        let ops: Vec<PeerOp> = ["default", "other"]
            .into_iter()
            .flat_map(|family| (0..KEYS).map(move |key| (family, key)))
            .map(|(family, key)| PeerOp::Put {
                family: family.to_owned(),
                key: format!("key{key:03}").into_bytes(),
                value: [format!("{number:020}").into_bytes(), vec![key as u8; 200]].concat(),
            })
            .collect();
        db.write(&ops, WriteFlags::default()).expect("written");
        if number == first {
            std::fs::write(Path::new(&dir).with_extension("ready"), "").expect("written");
        }
    }
}

fn number_of(value: &[u8]) -> u64 {
    std::str::from_utf8(&value[..20]).expect("digits").parse().expect("a number")
}

struct Primary(Child);

impl Primary {
    fn start(dir: &Path, options: &str) -> Primary {
        let ready = dir.with_extension("ready");
        std::fs::remove_file(&ready).unwrap_or_default();
        let mut command = Command::new(std::env::current_exe().expect("it runs"));
        command.args(["--exact", "secondary::be_a_primary", "--nocapture"]);
        command.env(DIRECTORY, dir).env(OPTIONS, options).stdout(Stdio::null());
        let mut primary = Primary(command.spawn().expect("started"));
        while !ready.exists() {
            assert!(primary.0.try_wait().expect("asked").is_none(), "the primary has ended");
            std::thread::sleep(Duration::from_millis(5));
        }
        primary
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("ended");
    }
}

/// The number that all keys have.
fn number(db: &Db) -> u64 {
    let mut numbers = Vec::new();
    for name in ["default", "other"] {
        let family = db.column_family(name).expect("open");
        let mut iter = db.iter_opt(ReadOptions::default(), &family).expect("read");
        iter.seek_to_first();
        while let Some((_, value)) = iter.item() {
            numbers.push(number_of(value));
            iter.next();
        }
        iter.status().expect("read");
        let value = db.get_cf(&family, "key007").expect("read").expect("it is there");
        numbers.push(number_of(&value));
    }
    assert_eq!(numbers.len() as u32, 2 * (KEYS + 1));
    assert!(numbers.iter().all(|number| *number == numbers[0]), "{numbers:?}");
    numbers[0]
}

#[test]
fn esker_follows_a_rocksdb_that_is_killed_and_started_again() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    for options in PRIMARIES {
        let dir = TempDir::new("secondary");
        let path = dir.join("db");
        let mut primary = Some(Primary::start(&path, options));
        let families = ["default", "other"];
        let open =
            || Db::open_cf_as_secondary(&db_options(), &path, dir.join("mine"), families).expect("opens");
        let (secondary, mut last, mut rounds) = (open(), 0, 0);
        for life in 0..3 {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(700) || rounds < 3 * (life + 1) {
                secondary
                    .try_catch_up_with_primary()
                    .unwrap_or_else(|e| panic!("{options} life {life}: {e}"));
                let seen = number(&secondary);
                assert!(seen >= last, "{options}: {seen} after {last}");
                (last, rounds) = (seen, rounds + 1);
            }
            drop(primary.take());
            secondary.try_catch_up_with_primary().unwrap_or_else(|e| panic!("{options} killed: {e}"));
            last = number(&secondary);
            primary = Some(Primary::start(&path, options));
        }
        assert!(last > 5 && rounds > 5, "{options}: {last} after {rounds} catch-ups");
        assert!(number(&open()) >= last);
    }
}
