//! A process of Esker or RocksDB is killed while it writes. Other processes then recover copies of
//! its database.
//!
//! The child is this test binary again, running `child` with its directory in the environment. It
//! writes batches that both processes can make from the seed, prints its progress after each, and
//! is killed with SIGKILL.

use crate::peer_process::{
    check_7, check_7_after_kill, check_11, check_open_11, check_open_esker, db_options, open_esker,
    small_files,
};
use esker::options::CompressionType;
use esker::{ColumnFamilyOptions, Db, DbOptions, WalRecoveryMode, WriteOptions};
use esker_peer::fixture::copy_files;
use esker_peer::model_ops::{Kinds, write_to_esker};
use esker_peer::{ModelOps, PeerOp, RocksDb, WriteFlags, require};
use esker_testkit::{TempDir, seed};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const DIRECTORY: &str = "ESKER_PEER_CHILD_DIRECTORY";
const SEED: &str = "ESKER_PEER_CHILD_SEED";
const WRITER: &str = "ESKER_PEER_CHILD_WRITER";
/// More batches than any child can write before it is killed.
const BATCHES: usize = 1_000_000;
/// The word before the number of batches written, in the child's output.
const PROGRESS: &str = "written ";

fn options() -> ColumnFamilyOptions {
    // A size with which the newest writes are in the WAL only, and older ones are not.
    ColumnFamilyOptions { write_buffer_size: 256 << 10, ..small_files(CompressionType::Lz4) }
}

/// Options of the dying Esker; they differ from seed to seed.
fn varied_db_options(seed: u64) -> DbOptions {
    let mut rng = fastrand::Rng::with_seed(seed);
    DbOptions {
        recycle_log_file_num: rng.usize(..3),
        atomic_flush: rng.bool(),
        enable_pipelined_write: rng.bool(),
        wal_compression: if rng.bool() { CompressionType::Zstd } else { CompressionType::None },
        ..db_options()
    }
}

/// Options of a dying RocksDB 11.8.1 that change the files it leaves.
const ROCKSDB_VARIANTS: [&str; 8] = [
    "",
    "wal_compression=kZSTD;",
    "wal_compression=kZSTD;recycle_log_file_num=2;",
    "recycle_log_file_num=2;",
    "track_and_verify_wals_in_manifest=true;",
    "track_and_verify_wals=true;",
    "atomic_flush=true;",
    "two_write_queues=true;",
];

/// The batches of a seed, one after the other.
struct Batches {
    rng: fastrand::Rng,
    model: ModelOps,
}

impl Batches {
    fn new(seed: u64) -> Batches {
        Batches { rng: fastrand::Rng::with_seed(seed), model: ModelOps::varied() }
    }

    /// The next batch, and whether it is to be synced.
    fn next(&mut self) -> (Vec<PeerOp>, bool) {
        let count = self.rng.usize(1..12);
        let ops = self.model.random_ops(&mut self.rng, count, Kinds::ALL);
        (ops, self.rng.u32(..20) == 0)
    }
}

/// The work of the child process; not a test of its own.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let seed: u64 = std::env::var(SEED).expect("with the directory").parse().expect("a number");
    let mut batches = Batches::new(seed);
    let mut write = writer(&PathBuf::from(dir), seed, &batches.model);
    for i in 1..=BATCHES {
        let (ops, sync) = batches.next();
        write(&ops, sync);
        println!("{PROGRESS}{i}");
    }
}

/// Writes a batch, synced or not.
type Writer = Box<dyn FnMut(&[PeerOp], bool)>;

/// Opens the database and returns a function that writes to it.
fn writer(dir: &Path, seed: u64, model: &ModelOps) -> Writer {
    if std::env::var(WRITER).is_ok_and(|writer| writer == "esker") {
        let db = Db::open_cf(&varied_db_options(seed), dir, model.descriptors(&options())).expect("opens");
        return Box::new(move |ops, sync| {
            write_to_esker(&db, ops, &WriteOptions::default().sync(sync)).expect("written");
        });
    }
    let variant = std::env::var(WRITER).expect("with the directory");
    let db_options = format!("create_if_missing=true;create_missing_column_families=true;{variant}");
    let specs = model.specs("write_buffer_size=262144;");
    let db = RocksDb::open(dir, &db_options, &specs).expect("opens");
    Box::new(move |ops, sync| db.write(ops, WriteFlags { sync, disable_wal: false }).expect("written"))
}

/// Runs a child and kills it once it reports `batches` batches. Gives the last number it reported.
fn write_and_kill(dir: &TempDir, writer: &str, seed: u64, batches: usize) -> usize {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "killed::child", "--nocapture"])
        .env(DIRECTORY, dir.path())
        .env(SEED, seed.to_string())
        .env(WRITER, writer)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut written = 0;
    let mut killed = false;
    // Lines that are still in the pipe after the kill count too.
    for line in output.lines() {
        let line = line.expect("text");
        if let Some(number) = line.strip_prefix(PROGRESS).and_then(|n| n.parse().ok()) {
            written = number;
        }
        if written >= batches && !killed {
            child.kill().expect("killed");
            killed = true;
        }
    }
    let status = child.wait().expect("waited for");
    assert!(killed, "the child ended by itself: {status}");
    written
}

/// The model after the batches that the directory contains. Their number must be `written`, or one
/// more if the kill came before the last line was printed.
fn recovered(seed: u64, written: usize, sequence: u64) -> ModelOps {
    let mut batches = Batches::new(seed);
    for _ in 0..written {
        batches.next();
    }
    if batches.model.sequence() != sequence {
        batches.next();
    }
    assert_eq!(batches.model.sequence(), sequence, "acknowledged: {written} batches");
    batches.model
}

/// A copy of `dir` for one reader, because an open for writing would change the files for the
/// others.
fn copy(dir: &TempDir) -> TempDir {
    let copy = TempDir::new("killed-copy");
    copy_files(dir.path(), copy.path());
    copy
}

/// Esker recovers a copy, which must show every acknowledged batch. Gives the copy and its expected
/// contents.
fn recovered_by_esker(dir: &TempDir, seed: u64, written: usize, when: &str) -> (TempDir, ModelOps) {
    let copy = copy(dir);
    let names = Batches::new(seed).model;
    let db = open_esker(copy.path(), &names, &options()).unwrap_or_else(|e| panic!("{when}: {e}"));
    let model = recovered(seed, written, db.latest_sequence_number().0);
    check_open_esker(&db, &model, when);
    drop(db);
    (copy, model)
}

#[test]
fn killed_eskers_lose_nothing_by_anyones_reading() {
    seed::for_each_seed("killed eskers", 6, |seed, mut rng| {
        let dir = TempDir::new("killed");
        let written = write_and_kill(&dir, "esker", seed, rng.usize(1..600));
        let when = format!("killed after {written} batches");
        let (recovered, model) = recovered_by_esker(&dir, seed, written, &when);
        check_7_after_kill(copy(&dir).path(), &model, &when);
        check_11(copy(&dir).path(), &model, &when);
        let when = format!("{when}, recovered by Esker");
        check_7(recovered.path(), &model, &when);
        check_11(recovered.path(), &model, &when);
    });
}

#[test]
fn killed_rocksdbs_lose_nothing_by_eskers_reading() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    for variant in ROCKSDB_VARIANTS {
        let mut rng = seed::rng(&format!("killed RocksDB, '{variant}'"));
        let seed = rng.u64(..);
        let dir = TempDir::new("killed");
        let written = write_and_kill(&dir, variant, seed, rng.usize(1..600));
        let when = format!("RocksDB with '{variant}' killed after {written} batches");
        let (recovered, model) = recovered_by_esker(&dir, seed, written, &when);
        check_11(recovered.path(), &model, &format!("{when}, recovered by Esker"));
    }
}

/// The newest WAL in `dir`: its path and bytes.
fn newest_wal(dir: &Path) -> (PathBuf, Vec<u8>) {
    let logs = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let newest = logs.filter(|path| path.extension().is_some_and(|e| e == "log")).max().expect("a WAL");
    let bytes = std::fs::read(&newest).expect("readable");
    (newest, bytes)
}

/// The WAL of a killed Esker ends with zeros up to the end of its last block. Among the zeros there
/// may be the payload of a record whose header was not stored.
#[test]
fn logs_that_end_with_zeros_are_whole_to_everyone_in_every_mode() {
    use WalRecoveryMode as Mode;
    let modes = [
        Mode::TolerateCorruptedTailRecords,
        Mode::AbsoluteConsistency,
        Mode::PointInTimeRecovery,
        Mode::SkipAnyCorruptedRecords,
    ];
    for (i, mode) in modes.into_iter().enumerate() {
        let (live, mut batches) = (TempDir::new("live"), Batches::new(i as u64));
        let db_options = DbOptions { wal_recovery_mode: mode, ..db_options() };
        let db = Db::open_cf(&db_options, live.path(), batches.model.descriptors(&options())).expect("opens");
        for _ in 0..400 {
            let (ops, sync) = batches.next();
            write_to_esker(&db, &ops, &WriteOptions::default().sync(sync)).expect("written");
        }
        // A copy made while files are created and deleted would mix several points in time.
        db.pause_background_work();
        db.disable_file_deletions();
        for unfinished in [false, true] {
            // The kernel's view of the files now, which a killed process would leave.
            let dir = copy(&live);
            let (path, mut log) = newest_wal(dir.path());
            let records = log.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
            if unfinished && log.len() - records > 100 {
                // The last record may end with zeros, so the damage begins 50 bytes behind the last
                // byte that is not zero.
                log[records + 50..].fill(0xA5);
                std::fs::write(&path, &log).expect("written");
            }
            let when =
                format!("{mode:?}, {} of {} bytes of log, unfinished: {unfinished}", records, log.len());
            check_7_after_kill(copy(&dir).path(), &batches.model, &when);
            let reader = copy(&dir);
            if require("librocksdb 11.8", RocksDb::available()).is_some() {
                let text = format!("wal_recovery_mode={}", rocksdb_name(mode));
                let rocksdb = RocksDb::open(reader.path(), &text, &batches.model.specs(""))
                    .unwrap_or_else(|e| panic!("{when}: RocksDB 11.8.1 does not open it: {e}"));
                check_open_11(&rocksdb, &batches.model, &when);
            }
            let again = Db::open_cf(&db_options, dir.path(), batches.model.descriptors(&options()))
                .unwrap_or_else(|e| panic!("{when}: {e}"));
            check_open_esker(&again, &batches.model, &when);
        }
    }
}

fn rocksdb_name(mode: WalRecoveryMode) -> &'static str {
    match mode {
        WalRecoveryMode::TolerateCorruptedTailRecords => "kTolerateCorruptedTailRecords",
        WalRecoveryMode::AbsoluteConsistency => "kAbsoluteConsistency",
        WalRecoveryMode::PointInTimeRecovery => "kPointInTimeRecovery",
        WalRecoveryMode::SkipAnyCorruptedRecords => "kSkipAnyCorruptedRecords",
    }
}
