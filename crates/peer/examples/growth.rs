//! Costs that once grew with the wrong thing, and RocksDB's beside them: the figures of
//! docs/growth.md, "Figures beside RocksDB".
//!
//! In: a directory for the data, Esker's C API and RocksDB's library, and optionally the names of
//! cases. Both libraries are called through the same C functions, each case in a process of its
//! own. A directory in tmpfs keeps the disk out of the figures.
//!
//! Out: a line for each case, size and library. Seconds are processor time of the whole process,
//! except where the line says otherwise. Memory is the peak of the process.
//!
//! `cargo xtask install-capi /tmp/esker-c`, then `cargo run --release -p esker-peer --example
//! growth -- /dev/shm/growth /tmp/esker-c/lib/librocksdb.so.11
//! target/peers/librocksdbjni-linux64.so`
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement, on the real file system")]

use esker::options::{Options, WriteBufferManager};
use esker::txn::OptimisticTransactionDb;
use esker_peer::{CursorOptions, FamilySpec, PeerOp, RocksDb, WriteFlags, load_library};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

type Outcome<T = String> = Result<T, String>;

const WAL: WriteFlags = WriteFlags { sync: false, disable_wal: false };

/// A case at one size.
struct Trial {
    name: &'static str,
    variant: &'static str,
    /// Sizes for Esker.
    sizes: &'static [u64],
    /// Sizes for RocksDB, which are less where it would take minutes.
    peer_sizes: &'static [u64],
    measure: fn(&Path, &str, u64) -> Outcome,
}

const TRIALS: &[Trial] = &[
    trial("c1", "begin", &[1000, 2000, 4000, 8000], &[1000, 2000, 4000], range_deletions),
    trial("c1", "end", &[1000, 2000, 4000, 8000], &[1000, 2000, 4000], range_deletions),
    trial("c1", "nested", &[1000, 2000, 4000, 8000], &[1000, 2000], range_deletions),
    trial("c2", "", &[1, 1000, 5000], &[1, 1000, 5000], replay),
    trial("c3", "", &[500, 2000], &[500, 2000], open_of_families),
    trial("c4", "", &[500, 1000, 2000], &[250, 500], families_one_by_one),
    trial("c5", "", &[1000, 2000, 4000], &[1000, 2000, 4000], pops_by_delete_range),
    trial("c6", "", &[300], &[300], wals_of_idle_families),
    trial("c7", "", &[0], &[0], reserved_space),
    trial("c8", "", &[16], &[16], memory_of_recovery),
    trial("c9", "", &[20_000], &[], optimistic_history),
    trial("c10", "flushes", &[200], &[200], versions_of_one_key),
    trial("c10", "snapshots", &[200], &[200], versions_of_one_key),
    trial("c11", "tables", &[10_000], &[10_000], space_of_deleted_data),
    trial("c11", "blobs", &[10_000], &[10_000], space_of_deleted_data),
    trial("c12", "tables", &[1_000_000], &[1_000_000], estimated_keys),
    trial("c12", "memtable", &[1_000_000], &[1_000_000], estimated_keys),
    trial("c13", "level0", &[1_000_000], &[20_000], pops),
    trial("c13", "last_level", &[1_000_000], &[20_000], pops),
    trial("c13", "memtable", &[1_000_000], &[20_000], pops),
    trial("c13", "from_the_end", &[1_000_000], &[20_000], pops),
    trial("c13", "snapshot", &[1_000_000], &[20_000], pops),
    trial("c13", "reopened", &[1_000_000], &[20_000], pops),
];

const fn trial(
    name: &'static str,
    variant: &'static str,
    sizes: &'static [u64],
    peer_sizes: &'static [u64],
    measure: fn(&Path, &str, u64) -> Outcome,
) -> Trial {
    Trial { name, variant, sizes, peer_sizes, measure }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--child", dir, library, name, variant, size] => child(dir, library, name, variant, size),
        [dir, esker, rocksdb, ref cases @ ..] => all(Path::new(dir), esker, rocksdb, cases),
        _ => Err("growth DIRECTORY ESKER'S_LIBRARY ROCKSDB'S_LIBRARY [CASE …]".to_owned()),
    };
    if let Err(why) = result {
        println!("growth: {why}");
        std::process::exit(1);
    }
}

/// Runs each case in a process of its own.
fn all(dir: &Path, esker: &str, rocksdb: &str, cases: &[&str]) -> Outcome<()> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    for trial in TRIALS.iter().filter(|t| cases.is_empty() || cases.contains(&t.name)) {
        for (name, library, sizes) in [("Esker", esker, trial.sizes), ("RocksDB", rocksdb, trial.peer_sizes)]
        {
            for size in sizes {
                _ = std::fs::remove_dir_all(dir);
                std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
                let size = size.to_string();
                let mut child = Command::new(&program);
                child.arg("--child").arg(dir).args([library, trial.name, trial.variant, &size]);
                let output = child.output().map_err(|e| e.to_string())?;
                let said = String::from_utf8_lossy(&output.stdout);
                println!("{:<4}{:<13}{size:>8} {name:<8} {}", trial.name, trial.variant, said.trim());
            }
        }
    }
    _ = std::fs::remove_dir_all(dir);
    Ok(())
}

fn child(dir: &str, library: &str, name: &str, variant: &str, size: &str) -> Outcome<()> {
    load_library(Path::new(library))?;
    let trial = TRIALS.iter().find(|t| t.name == name && t.variant == variant).ok_or("no such case")?;
    let size = size.parse().map_err(|_| "a size is a number".to_owned())?;
    println!("{}", (trial.measure)(&Path::new(dir).join("db"), variant, size)?);
    Ok(())
}

// ---------------------------------------------------------------------------------------------
// Used by all cases

const OPEN: &str = "create_if_missing=true;avoid_flush_during_shutdown=true;stats_dump_period_sec=0";

fn open(dir: &Path, options: &str) -> Outcome<RocksDb> {
    open_families(dir, options, &["default".to_owned()])
}

fn open_families(dir: &Path, options: &str, names: &[String]) -> Outcome<RocksDb> {
    let options = format!("{OPEN};{options}");
    let families: Vec<FamilySpec> = names.iter().map(|n| FamilySpec::new(n, options.as_str())).collect();
    RocksDb::open(dir, &options, &families)
}

/// Creates a database with `default` and `count` more families, all in one open: RocksDB takes
/// hours for thousands of families one by one. The names, `default` first.
fn create(dir: &Path, count: u64, options: &str) -> Outcome<(RocksDb, Vec<String>)> {
    let names: Vec<String> =
        std::iter::once("default".to_owned()).chain((0..count).map(|i| format!("family{i}"))).collect();
    let db = open_families(dir, &format!("create_missing_column_families=true;{options}"), &names)?;
    Ok((db, names))
}

fn key(i: u64) -> Vec<u8> {
    format!("key{i:013}").into_bytes()
}

fn put(family: &str, i: u64, value: &[u8]) -> PeerOp {
    PeerOp::Put { family: family.to_owned(), key: key(i), value: value.to_owned() }
}

fn delete_range(begin: u64, end: u64) -> PeerOp {
    PeerOp::DeleteRange { family: "default".to_owned(), begin: key(begin), end: key(end) }
}

/// Puts `keys` in batches of a thousand.
fn fill(db: &RocksDb, family: &str, keys: std::ops::Range<u64>, value: &[u8]) -> Outcome<()> {
    let keys: Vec<u64> = keys.collect();
    keys.chunks(1000).try_for_each(|part| {
        let ops: Vec<PeerOp> = part.iter().map(|&i| put(family, i, value)).collect();
        db.write(&ops, WAL)
    })
}

/// Seconds of processor time of all threads of this process.
fn processor() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Seconds of processor time and of the clock that `act` takes.
fn timed<T>(act: impl FnOnce() -> Outcome<T>) -> Outcome<(f64, f64, T)> {
    let (processor_before, before) = (processor(), Instant::now());
    let made = act()?;
    Ok((processor() - processor_before, before.elapsed().as_secs_f64(), made))
}

/// The peak of this process's memory in MiB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().strip_suffix(" kB")).and_then(|n| n.trim().parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

/// Number, bytes and allocated bytes of the files in `dir` with this ending.
fn files(dir: &Path, ending: &str) -> (usize, f64, f64) {
    let entries = std::fs::read_dir(dir).expect("the directory is there").flatten();
    let of_kind = entries.filter(|e| e.file_name().to_string_lossy().ends_with(ending));
    of_kind.filter_map(|e| e.metadata().ok()).fold((0, 0.0, 0.0), |(count, bytes, allocated), file| {
        (count + 1, bytes + file.len() as f64, allocated + file.blocks() as f64 * 512.0)
    })
}

// ---------------------------------------------------------------------------------------------
// The cases

/// `n` range deletions that share a begin or an end, or nest: their replay, flush and compaction.
fn range_deletions(dir: &Path, shape: &str, n: u64) -> Outcome {
    let options = "max_subcompactions=1;num_levels=7";
    let write = |db: &RocksDb| {
        (0..n).try_for_each(|i| {
            let (begin, end) = match shape {
                "begin" => (0, i + 1),
                "end" => (i, n),
                _ => (i, 2 * n - i),
            };
            db.write(&[put("default", i, b"value"), delete_range(begin, end)], WAL)
        })
    };
    let db = open(dir, options)?;
    write(&db)?;
    drop(db);
    let (replay, _, db) = timed(|| open(dir, options))?;
    write(&db)?;
    let (flush, _, ()) = timed(|| db.flush("default"))?;
    let (compact, _, ()) = timed(|| {
        db.compact("default");
        Ok(())
    })?;
    Ok(format!("replay {replay:.2} s, flush {flush:.2} s, compaction {compact:.2} s; {:.0} MiB", peak()))
}

/// The replay of 200,000 records of `n` families.
fn replay(dir: &Path, _: &str, n: u64) -> Outcome {
    let (db, names) = create(dir, n - 1, "")?;
    for i in 0..200_000_u64 {
        db.write(&[put(&names[(i % n) as usize], i, b"value")], WAL)?;
    }
    drop(db);
    let (seconds, _, db) = timed(|| open_families(dir, "", &names))?;
    drop(db);
    Ok(format!("{seconds:.2} s"))
}

/// An open with a key in each of `n` families in the WAL.
fn open_of_families(dir: &Path, _: &str, n: u64) -> Outcome {
    let (db, names) = create(dir, n, "")?;
    names.iter().try_for_each(|name| db.write(&[put(name, 1, b"value")], WAL))?;
    drop(db);
    let (seconds, clock, db) = timed(|| open_families(dir, "", &names))?;
    drop(db);
    Ok(format!("{seconds:.2} s; {clock:.2} s by the clock"))
}

/// `n` families, created and dropped one by one.
fn families_one_by_one(dir: &Path, _: &str, n: u64) -> Outcome {
    let mut db = open(dir, "")?;
    let families: Vec<FamilySpec> = (0..n).map(|i| FamilySpec::new(format!("family{i}"), OPEN)).collect();
    let (created, _, ()) = timed(|| families.iter().try_for_each(|f| db.create_column_family(f)))?;
    let (dropped, _, ()) = timed(|| families.iter().try_for_each(|f| db.drop_column_family(&f.name)))?;
    Ok(format!("created {created:.2} s, dropped {dropped:.2} s"))
}

/// `n` messages taken from a queue: an iterator finds the first, a range deletion removes it.
fn pops_by_delete_range(dir: &Path, _: &str, n: u64) -> Outcome {
    let db = open(dir, "")?;
    fill(&db, "default", 0..n, b"value")?;
    let (seconds, _, ()) = timed(|| {
        (0..n).try_for_each(|i| {
            let mut cursor = db.cursor("default", CursorOptions::default(), None);
            cursor.seek_to_end(true);
            assert_eq!(cursor.pair()?.expect("messages are left").0, key(i));
            drop(cursor);
            db.write(&[delete_range(0, i + 1)], WAL)
        })
    })?;
    Ok(format!("{:.1} µs a pop", seconds * 1e6 / n as f64))
}

/// WALs behind `n` families with a key each, beside a family that takes 450 MB. Memtables have
/// 1 MiB.
fn wals_of_idle_families(dir: &Path, _: &str, n: u64) -> Outcome {
    let options = "write_buffer_size=1048576";
    let (db, names) = create(dir, n, options)?;
    names.iter().try_for_each(|name| db.write(&[put(name, 1, b"value")], WAL))?;
    let (mut most, mut bytes) = (0, 0.0_f64);
    for i in 0..450 {
        fill(&db, "default", i * 1000..(i + 1) * 1000, &[b'v'; 1000])?;
        let (count, size, _) = files(dir, ".log");
        (most, bytes) = (most.max(count), bytes.max(size));
    }
    Ok(format!("{most} WALs, {:.0} MB", bytes / 1e6))
}

/// The space on disk that an open database has allocated before anybody writes to it.
fn reserved_space(dir: &Path, _: &str, _: u64) -> Outcome {
    let db = open(dir, "")?;
    let (count, _, allocated) = files(dir, "");
    drop(db);
    Ok(format!("{:.2} MB in {count} files", allocated / 1e6))
}

/// The memory of a recovery under `db_write_buffer_size=32M`, with 33 MiB in each of `n` families.
fn memory_of_recovery(dir: &Path, _: &str, n: u64) -> Outcome {
    if !dir.exists() {
        let (db, names) = create(dir, n - 1, "max_total_wal_size=10737418240")?;
        for name in &names {
            fill(&db, name, 0..33 * 1024, &[b'v'; 1000])?;
        }
        drop(db);
        // The memory of the writes must not count: another process opens.
        let args: Vec<String> = std::env::args().skip(1).collect();
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let output = Command::new(program).args(args).output().map_err(|e| e.to_string())?;
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let names: Vec<String> = RocksDb::list_column_families(dir)?;
    let db = open_families(dir, "db_write_buffer_size=33554432", &names)?;
    drop(db);
    Ok(format!("{:.0} MiB", peak()))
}

/// The memory of the history of an optimistic transaction database under a write buffer manager of
/// 16 MiB that stalls, and the speed of `n` writes of 10 KB.
fn optimistic_history(dir: &Path, _: &str, n: u64) -> Outcome {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.write_buffer_manager = Some(Arc::new(WriteBufferManager::new(16 << 20, true)));
    let db = OptimisticTransactionDb::open(&options, dir).map_err(|e| e.to_string())?;
    let start = Instant::now();
    for i in 0..n {
        db.put(key(i), [b'v'; 10_000]).map_err(|e| e.to_string())?;
    }
    Ok(format!("{:.0} MiB, {:.0} writes a second", peak(), n as f64 / start.elapsed().as_secs_f64()))
}

/// Entries that `compact_range` leaves of `n` versions of a key, each with a flush of its own, and
/// of a value that its deletion follows.
fn versions_of_one_key(dir: &Path, variant: &str, n: u64) -> Outcome {
    let db = open(dir, if variant == "snapshots" { "disable_auto_compactions=true" } else { "" })?;
    let mut snapshots = Vec::new();
    for _ in 0..n {
        db.write(&[put("default", 1, b"value"), put("default", 2, b"value")], WAL)?;
        db.write(&[PeerOp::Delete { family: "default".to_owned(), key: key(2) }], WAL)?;
        if variant == "snapshots" {
            snapshots.push(db.snapshot());
        }
        db.flush("default")?;
    }
    db.compact("default");
    snapshots.clear();
    db.compact("default");
    let sums = db.property("default", "rocksdb.aggregated-table-properties").unwrap_or_default();
    let entries = sums.split(';').find(|part| part.contains("# entries=")).unwrap_or("no property");
    Ok(entries.trim().to_owned())
}

/// Bytes of live tables and blob files after `n` keys were deleted by range, flushed, and left
/// alone.
fn space_of_deleted_data(dir: &Path, variant: &str, n: u64) -> Outcome {
    let db = open(dir, if variant == "blobs" { "enable_blob_files=true" } else { "" })?;
    let value: Vec<u8> = (0..200_u64).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    fill(&db, "default", 0..n, &value)?;
    db.flush("default")?;
    db.write(&[delete_range(0, n)], WAL)?;
    db.flush("default")?;
    db.wait_for_compact()?;
    // The files of old versions go a little later.
    let bytes = |name: &str| db.property("default", name).and_then(|bytes| bytes.parse::<f64>().ok());
    let tables = bytes("rocksdb.live-sst-files-size").unwrap_or(f64::NAN);
    let blobs = bytes("rocksdb.live-blob-file-size").unwrap_or(f64::NAN);
    Ok(format!("tables of {:.2} MB, blob files of {:.2} MB", tables / 1e6, blobs / 1e6))
}

/// `rocksdb.estimate-num-keys` after 60% of `n` keys were deleted: by range in tables, or one by
/// one in the memtable.
fn estimated_keys(dir: &Path, variant: &str, n: u64) -> Outcome {
    let db = open(dir, "disable_auto_compactions=true")?;
    fill(&db, "default", 0..n, b"value")?;
    db.flush("default")?;
    let deleted = n / 5 * 3;
    if variant == "tables" {
        db.write(&[delete_range(0, deleted)], WAL)?;
        db.flush("default")?;
    } else {
        let delete = |i| PeerOp::Delete { family: "default".to_owned(), key: key(i) };
        (0..deleted).try_for_each(|i| db.write(&[delete(i)], WAL))?;
    }
    let estimate = db.property("default", "rocksdb.estimate-num-keys").unwrap_or_default();
    Ok(format!("{estimate} of {} keys", n - deleted))
}

/// A queue of `n` messages, emptied: each pop makes an iterator, finds the first message (or the
/// last one) and deletes it. The figures are those of the first 5% of the pops, and of the 5% that
/// end at a quarter, a half, three quarters and the end.
fn pops(dir: &Path, variant: &str, n: u64) -> Outcome {
    let options = match variant {
        "memtable" => "disable_auto_compactions=true;write_buffer_size=1073741824",
        "last_level" => "write_buffer_size=1073741824;disable_auto_compactions=true;num_levels=7",
        _ => "write_buffer_size=1073741824;disable_auto_compactions=true",
    };
    let mut db = open(dir, options)?;
    fill(&db, "default", 0..n, &[b'm'; 100])?;
    if variant != "memtable" {
        db.flush("default")?;
    }
    if variant == "last_level" {
        db.compact("default");
    }
    if variant == "reopened" {
        // Half of the messages are gone before, so that the open finds deletions in the WAL.
        pop_some(&db, 0, n / 2, n, true)?;
        drop(db);
        db = open(dir, options)?;
    }
    let forward = variant != "from_the_end";
    let snapshot = (variant == "snapshot").then(|| db.snapshot());
    let first = if variant == "reopened" { n / 2 } else { 0 };
    let (left, window) = (n - first, (n - first) / 20);
    let mut figures = Vec::new();
    let mut at = first;
    for end in [window, left / 4, left / 2, left / 4 * 3, left] {
        pop_some(&db, at, first + end - window, n, forward)?;
        let (seconds, _, ()) = timed(|| pop_some(&db, first + end - window, first + end, n, forward))?;
        figures.push(format!("{:.1}", seconds * 1e6 / window as f64));
        at = first + end;
    }
    drop(snapshot);
    Ok(format!("{} µs a pop", figures.join(" ")))
}

/// Pops the messages of these ordinals out of `n`.
fn pop_some(db: &RocksDb, from: u64, to: u64, n: u64, forward: bool) -> Outcome<()> {
    (from..to).try_for_each(|i| {
        let mut cursor = db.cursor("default", CursorOptions::default(), None);
        cursor.seek_to_end(forward);
        let message = cursor.pair()?.expect("messages are left").0;
        drop(cursor);
        assert_eq!(message, key(if forward { i } else { n - 1 - i }));
        db.write(&[PeerOp::Delete { family: "default".to_owned(), key: message }], WAL)
    })
}
