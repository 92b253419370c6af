//! Time that the memtable takes to insert, look up and step, beside crossbeam's skiplist.
//!
//! `cargo bench -p esker-memtable [-- ENTRIES [ROUNDS]]`. Both structures take turns. The program
//! prints the median and the range of all rounds. The lines with `writers` show wall time, the
//! lines `bytes/entry` show memory, and all others show processor time. `cargo test` runs a small
//! size.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the real clock")]
#![expect(clippy::print_stdout, reason = "that is what it is for")]

use crossbeam_skiplist::SkipMap;
use esker_base::{SequenceNumber, ValueType};
use esker_format::cursor::InternalIterator;
use esker_format::key::{InternalKeyComparator, LookupKey, TRAILER_BYTES, pack};
use esker_memtable::{MemTable, MemTableFilterOptions, MemTableOptions};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const VALUE: [u8; 64] = [7; 64];

type MakeKey = fn(u64) -> [u8; 16];
/// Gives the number from which the i-th of n keys is made.
type Order = fn(u64, u64) -> u64;

fn mix(i: u64) -> u64 {
    let i = (i ^ (i >> 31)).wrapping_mul(0x7FB5_D329_728E_A185);
    let i = (i ^ (i >> 27)).wrapping_mul(0x81DA_DEF4_BC2D_D44D);
    i ^ (i >> 33)
}

fn binary(n: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&n.to_be_bytes());
    key
}

fn text(n: u64) -> [u8; 16] {
    let mut key = *b"user000000000000";
    let mut rest = n % 1_000_000_000_000;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// This thread's processor time in nanoseconds. Wall time would include other programs.
fn thread_nanos() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Nanoseconds for each of `n` calls.
fn each(n: u64, mut op: impl FnMut(u64)) -> f64 {
    let start = thread_nanos();
    (0..n).for_each(&mut op);
    (thread_nanos() - start) as f64 / n as f64
}

/// The measurements by name, in the order in which the names first came.
type Results = BTreeMap<(usize, String), Vec<f64>>;

fn note(results: &mut Results, name: String, ns: f64) {
    let found = results.keys().find(|(_, known)| *known == name).cloned();
    let key = found.unwrap_or((results.len(), name));
    results.entry(key).or_default().push(ns);
}

/// Measures an insert, a lookup that finds its key, and a lookup of an absent key, in nanoseconds.
fn points(table: &Arc<MemTable>, n: u64, make: MakeKey, order: Order) -> [(&'static str, f64); 3] {
    let insert = each(n, |i| {
        table.add(SequenceNumber(i + 1), ValueType::Value, &make(order(i, n)), &VALUE).expect("distinct");
    });
    let get = each(n, |i| {
        let lookup = LookupKey::new(&make(order(mix(i) % n, n)), SequenceNumber::MAX);
        let mut found = 0;
        let searched = table.get(&lookup, |_, _, value| {
            found = value[0];
            false
        });
        searched.expect("it does not check itself");
        assert_eq!(found, 7);
    });
    let miss = each(n, |i| {
        let mut key = make(order(mix(i) % n, n));
        key[15] = b'x';
        let searched = table.get(&LookupKey::new(&key, SequenceNumber::MAX), |_, _, _| panic!("not there"));
        searched.expect("it does not check itself");
    });
    [("insert", insert), ("get", get), ("get absent", miss)]
}

/// Measures the same operations with a filter of ten bits a key.
fn filtered(results: &mut Results, shape: &str, n: u64, make: MakeKey, order: Order) {
    let bytes = usize::try_from(n * 10 / 8).expect("a benchmark's number of keys");
    let filter = Some(MemTableFilterOptions { bytes, whole_keys: true, prefix_extractor: None });
    let options = MemTableOptions { filter, ..MemTableOptions::default() };
    let table = MemTable::new(InternalKeyComparator::default(), options);
    for (what, ns) in points(&table, n, make, order) {
        note(results, format!("filtered {shape} {what}"), ns);
    }
}

fn memtable(results: &mut Results, shape: &str, n: u64, make: MakeKey, order: Order) {
    let table = MemTable::new(InternalKeyComparator::default(), MemTableOptions::default());
    let points = points(&table, n, make, order);
    let mut iter = table.iter();
    iter.seek_to_first();
    let mut sum = 0;
    let next = each(n, |_| {
        sum += u64::from(iter.value()[0]) + u64::from(iter.key()[8]);
        iter.next();
    });
    assert!(!iter.valid());
    iter.seek_to_last();
    let prev = each(n, |_| {
        sum += u64::from(iter.value()[0]) + u64::from(iter.key()[8]);
        iter.prev();
    });
    black_box(sum);
    let seek = each(n / 4, |i| {
        let lookup = LookupKey::new(&make(order(mix(i) % n, n)), SequenceNumber::MAX);
        iter.seek(lookup.internal_key());
        assert_eq!(iter.value()[0], 7);
    });
    for (what, ns) in points.into_iter().chain([("next", next), ("prev", prev), ("seek", seek)]) {
        note(results, format!("memtable {shape} {what}"), ns);
    }
    note(
        results,
        format!("memtable {shape} bytes/entry"),
        table.approximate_memory_usage() as f64 / n as f64,
    );
}

fn skiplist(results: &mut Results, shape: &str, n: u64, make: MakeKey, order: Order) {
    let key_of = |n: u64, trailer: u64| {
        let mut key = [0; 16 + TRAILER_BYTES];
        key[..16].copy_from_slice(&make(n));
        key[16..].copy_from_slice(&(!trailer).to_be_bytes());
        key
    };
    let list: SkipMap<[u8; 24], [u8; 64]> = SkipMap::new();
    let insert = each(n, |i| {
        list.insert(key_of(order(i, n), pack(SequenceNumber(i + 1), ValueType::Value)), VALUE);
    });
    let get = each(n, |i| {
        let key = key_of(order(mix(i) % n, n), u64::MAX);
        assert_eq!(list.lower_bound(std::ops::Bound::Included(&key)).map(|e| e.value()[0]), Some(7));
    });
    let mut entry = list.front();
    let next = each(n, |_| {
        let here = entry.take().expect("n entries");
        black_box(here.value()[0]);
        entry = here.next();
    });
    for (what, ns) in [("insert", insert), ("get", get), ("next", next)] {
        note(results, format!("skiplist {shape} {what}"), ns);
    }
}

/// Measures inserts by `threads` threads beside lookups by `readers` threads, in wall time.
fn writers(results: &mut Results, n: u64, threads: u64, readers: u64) {
    let table = MemTable::new(InternalKeyComparator::default(), MemTableOptions::default());
    let start = Instant::now();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let reads = std::sync::atomic::AtomicU64::new(0);
    let mut elapsed = 0;
    std::thread::scope(|scope| {
        for reader in 0..readers {
            let (table, stop, reads): (&Arc<MemTable>, _, _) = (&table, &stop, &reads);
            scope.spawn(move || {
                let mut i = reader;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    i += 1;
                    let lookup = LookupKey::new(&binary(mix(mix(i) % n)), SequenceNumber::MAX);
                    let searched = table.get(&lookup, |_, _, value| black_box(value[0]) == 0);
                    searched.expect("it does not check itself");
                }
                reads.fetch_add(i, std::sync::atomic::Ordering::Relaxed);
            });
        }
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let table = &table;
                scope.spawn(move || {
                    for i in (thread..n).step_by(threads as usize) {
                        table
                            .add(SequenceNumber(i + 1), ValueType::Value, &binary(mix(i)), &VALUE)
                            .expect("distinct");
                    }
                })
            })
            .collect();
        running.into_iter().for_each(|t| t.join().expect("no panic"));
        elapsed = start.elapsed().as_nanos();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let name = format!("memtable random {threads} writers {readers} readers");
    note(results, format!("{name}: insert"), elapsed as f64 / n as f64);
    if readers > 0 {
        let reads = reads.load(std::sync::atomic::Ordering::Relaxed).max(1);
        note(results, format!("{name}: get"), elapsed as f64 * readers as f64 / reads as f64);
    }
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    let is_test = !std::env::args().any(|a| a == "--bench");
    let n = args.next().and_then(|a| a.parse().ok()).unwrap_or(if is_test { 2000 } else { 1_000_000 });
    let rounds = args.next().and_then(|a| a.parse().ok()).unwrap_or(if is_test { 1 } else { 5 });
    let with_skiplist = args.next().is_none();
    let shapes: [(&str, MakeKey, Order); 3] = [
        ("random", binary, |i, _| mix(i)),
        ("user%012d", text, |i, _| mix(i)),
        ("sequential", text, |i, _| i),
    ];
    let mut results = Results::new();
    for _ in 0..rounds {
        for (shape, make, order) in shapes {
            memtable(&mut results, shape, n, make, order);
            filtered(&mut results, shape, n, make, order);
            if with_skiplist {
                skiplist(&mut results, shape, n, make, order);
            }
        }
        writers(&mut results, n, 1, 0);
        writers(&mut results, n, 2, 0);
        writers(&mut results, n, 1, 1);
        writers(&mut results, n, 4, 2);
    }
    for ((_, name), mut all) in results {
        all.sort_by(f64::total_cmp);
        println!("{name:50} {:8.1}   ({:.1} .. {:.1})", all[all.len() / 2], all[0], all[all.len() - 1]);
    }
}
