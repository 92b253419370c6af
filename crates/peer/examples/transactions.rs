//! Measures transactions of five puts to random keys. Esker and RocksDB take turns in one process.
//!
//! In: a directory (best in tmpfs), then seconds per figure, then rounds. Out: thousands of
//! transactions per second for each number of threads, committed and rolled back. Esker locks
//! points or ranges; RocksDB locks points only, because its C functions offer nothing else. Figures
//! are medians over the rounds; ratios are medians too. Before, a million keys of 16 bytes with
//! values of 100 are put into memtables, which are not flushed. `ESKER_PEERS_DIR` says where
//! RocksDB's library is.
//!
//! `cargo run --release -p esker-peer --example transactions -- /dev/shm/transactions 0.1 5`
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement, on the real file system")]

use esker::txn::Locking;
use esker::{Options, TransactionDb, TransactionDbOptions, WriteBatch, WriteOptions};
use esker_peer::{RocksTransactionDb, RocksWritePolicy};
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const KEYS: u64 = 1_000_000;
const PUTS: usize = 5;
const VALUE: [u8; 100] = [b'v'; 100];
const THREADS: [usize; 9] = [1, 2, 5, 10, 20, 40, 60, 80, 100];

fn key(n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&n.to_be_bytes());
    key
}

fn esker(dir: &Path, locking: Locking) -> TransactionDb {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.max_total_wal_size = 32 << 30;
    options.cf.write_buffer_size = 2 << 30;
    let txn_options = TransactionDbOptions { locking, ..TransactionDbOptions::default() };
    let db = TransactionDb::open(&options, &txn_options, dir).expect("opens");
    let family = db.db().default_column_family();
    let mut batch = WriteBatch::new();
    for n in 0..KEYS {
        batch.put_cf(family.id(), key(n), VALUE).expect("small");
        if n % 1000 == 999 {
            db.db().write_opt(&WriteOptions::default().disable_wal(true), &mut batch).expect("written");
            batch.clear();
        }
    }
    db
}

fn rocksdb(dir: &Path) -> RocksTransactionDb {
    let options = "create_if_missing=true;write_buffer_size=2147483648;max_total_wal_size=8589934592;";
    let db = RocksTransactionDb::open(dir, options, RocksWritePolicy::Committed).expect("opens");
    for first in (0..KEYS).step_by(1000) {
        let txn = db.begin_unnamed();
        for n in first..first + 1000 {
            txn.put(&key(n), &VALUE).expect("locked");
        }
        txn.commit().expect("committed");
    }
    db
}

/// Transactions per second in `threads` threads. `one` runs a transaction with these ascending
/// keys.
fn rate(threads: usize, time: Duration, seed: u64, one: impl Fn(&[u64; PUTS]) + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let work = |thread: u64| {
        let mut rng = fastrand::Rng::with_seed(seed << 32 | thread);
        let mut done = 0_u32;
        barrier.wait();
        let start = Instant::now();
        while !done.is_multiple_of(16) || start.elapsed() < time {
            let mut keys: [u64; PUTS] = std::array::from_fn(|_| rng.u64(..KEYS));
            keys.sort_unstable();
            one(&keys);
            done += 1;
        }
        f64::from(done) / start.elapsed().as_secs_f64()
    };
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads as u64).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).sum()
    })
}

fn by_esker(db: &TransactionDb, keys: &[u64], commit: bool) {
    let txn = db.begin_transaction();
    let family = db.db().default_column_family();
    for n in keys {
        txn.put_cf(&family, key(*n), VALUE).expect("in ascending order");
    }
    if commit { txn.commit() } else { txn.rollback() }.expect("ended");
}

fn by_rocksdb(db: &RocksTransactionDb, keys: &[u64], commit: bool) {
    let txn = db.begin_unnamed();
    for n in keys {
        txn.put(&key(*n), &VALUE).expect("in ascending order");
    }
    if commit { txn.commit() } else { txn.rollback() }.expect("ended");
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let dir = std::path::PathBuf::from(arguments.next().expect("a directory"));
    let time = arguments.next().map_or(0.1, |seconds| seconds.parse().expect("seconds"));
    let time = Duration::from_secs_f64(time);
    let rounds: u64 = arguments.next().map_or(5, |rounds| rounds.parse().expect("rounds"));
    std::fs::create_dir_all(&dir).expect("a directory");
    let point = esker(&dir.join("point"), Locking::Points);
    let range = esker(&dir.join("range"), Locking::Ranges);
    let rocks = rocksdb(&dir.join("rocksdb"));
    for commit in [true, false] {
        println!("{} of {PUTS} puts, k/s", if commit { "put and commit" } else { "put and roll back" });
        println!("threads     point     range   RocksDB   range:point   point:RocksDB   range:RocksDB");
        for threads in THREADS {
            let mut results: Vec<[f64; 3]> = Vec::new();
            for round in 0..rounds {
                let mut rates = [0.0; 3];
                for turn in 0..3 {
                    let which = (turn + round as usize) % 3;
                    rates[which] = rate(threads, time, round, |keys| match which {
                        0 => by_esker(&point, keys, commit),
                        1 => by_esker(&range, keys, commit),
                        _ => by_rocksdb(&rocks, keys, commit),
                    });
                }
                results.push(rates);
            }
            let of = |which: usize| median(results.iter().map(|rates| rates[which])) / 1e3;
            let ratio = |a: usize, b: usize| median(results.iter().map(|rates| rates[a] / rates[b]));
            println!(
                "{threads:>7} {:>9.1} {:>9.1} {:>9.1} {:>13.2} {:>15.2} {:>15.2}",
                of(0),
                of(1),
                of(2),
                ratio(1, 0),
                ratio(0, 2),
                ratio(1, 2)
            );
        }
    }
    drop((point, range, rocks));
    std::fs::remove_dir_all(&dir).expect("removed");
}
