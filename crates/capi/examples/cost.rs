//! Measures the cost of the C API beside the Rust API: nanoseconds of a get, a put and an
//! iterator's step.
//!
//! In: a number of pairs, by default nine. Out: a table of medians, each of that many interleaved
//! pairs over 100,000 keys in a memtable. Build it with `--release`:
//! `cargo run --release -p esker-capi --example cost`.
//!
//! Instructions of one pair, by function: `valgrind --tool=callgrind target/release/examples/cost
//! 1`, then `callgrind_annotate --inclusive=yes`. Each function here makes 100,000 calls.
#![allow(clippy::print_stdout, reason = "a benchmark talks to a terminal")]
#![allow(clippy::disallowed_methods, reason = "it times")]
#![allow(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block, reason = "a C program")]

use esker::{Db, ReadOptions, WriteOptions};
use esker_capi::db::{rocksdb_close, rocksdb_open, rocksdb_t};
use esker_capi::iterator::{
    rocksdb_create_iterator, rocksdb_iter_destroy, rocksdb_iter_key, rocksdb_iter_next,
    rocksdb_iter_seek_to_first, rocksdb_iter_valid, rocksdb_iter_value,
};
use esker_capi::options::{rocksdb_options_create, rocksdb_options_destroy};
use esker_capi::read_options::{rocksdb_readoptions_create, rocksdb_readoptions_destroy};
use esker_capi::reads::{rocksdb_get_pinned, rocksdb_pinnableslice_destroy};
use esker_capi::write_options::{rocksdb_writeoptions_create, rocksdb_writeoptions_destroy};
use esker_capi::writes::rocksdb_put;
use std::ffi::CString;
use std::hint::black_box;
use std::ptr::null_mut;
use std::time::Instant;

const KEYS: u32 = 100_000;
const PAIRS: usize = 9;

fn main() -> esker::Result<()> {
    let pairs = std::env::args().nth(1).map_or(PAIRS, |pairs| pairs.parse().expect("a number of pairs"));
    let dir = esker_testkit::TempDir::new("capi-cost");
    let (rust_path, c_path) = (dir.path().join("rust"), dir.path().join("c"));
    let rust = RustDb { db: Db::open_default(&rust_path)? };
    let keys: Vec<String> =
        (0..KEYS).map(|key| format!("key{:08}", key.wrapping_mul(2_654_435_761) % KEYS)).collect();
    let c = unsafe { CDb::open(&c_path) };
    println!("| call | Rust ns | C ns | more |\n|---|---|---|---|");
    report(pairs, "put", || rust.put(&keys), || unsafe { c.put(&keys) });
    report(pairs, "get_pinned", || rust.get(&keys), || unsafe { c.get(&keys) });
    report(pairs, "valid, key, value, next", || rust.scan(), || unsafe { c.scan() });
    unsafe { c.close() };
    Ok(())
}

/// Prints the medians of the Rust and the C form of a call.
fn report(pairs: usize, call: &str, mut rust: impl FnMut(), mut c: impl FnMut()) {
    let time = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64 / f64::from(KEYS)
    };
    let mut times: Vec<(f64, f64)> = (0..pairs).map(|_| (time(&mut rust), time(&mut c))).collect();
    let mut median = |figure: fn(&(f64, f64)) -> f64| {
        times.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
        figure(&times[pairs / 2])
    };
    let (rust, c, more) = (median(|pair| pair.0), median(|pair| pair.1), median(|pair| pair.1 - pair.0));
    println!("| {call} | {rust:.0} | {c:.0} | {more:.0} |");
}

/// A database opened through the Rust API.
struct RustDb {
    db: Db,
}

impl RustDb {
    #[inline(never)]
    fn get(&self, keys: &[String]) {
        let (reads, family) = (ReadOptions::default(), self.db.default_column_family());
        keys.iter().for_each(|key| drop(black_box(self.db.get_pinned_opt(&reads, &family, key))));
    }

    #[inline(never)]
    fn put(&self, keys: &[String]) {
        let (writes, family) = (WriteOptions::default(), self.db.default_column_family());
        keys.iter().for_each(|key| drop(black_box(self.db.put_opt(&writes, &family, key, key))));
    }

    #[inline(never)]
    fn scan(&self) {
        let mut iterator = self.db.iter().expect("an open database");
        iterator.seek_to_first();
        while iterator.valid() {
            black_box(iterator.key());
            black_box(iterator.value());
            iterator.next();
        }
    }
}

/// A database opened through the C API.
struct CDb {
    db: *mut rocksdb_t,
    reads: *mut esker_capi::read_options::rocksdb_readoptions_t,
    writes: *mut esker_capi::write_options::rocksdb_writeoptions_t,
}

impl CDb {
    unsafe fn open(path: &std::path::Path) -> CDb {
        let path = CString::new(path.to_str().expect("a path of text")).expect("without NUL");
        unsafe {
            let options = rocksdb_options_create();
            (*options).db.create_if_missing = true;
            let db = rocksdb_open(options, path.as_ptr(), null_mut());
            assert!(!db.is_null());
            rocksdb_options_destroy(options);
            CDb { db, reads: rocksdb_readoptions_create(), writes: rocksdb_writeoptions_create() }
        }
    }

    #[inline(never)]
    unsafe fn get(&self, keys: &[String]) {
        for key in keys {
            unsafe {
                let value =
                    rocksdb_get_pinned(self.db, self.reads, key.as_ptr().cast(), key.len(), null_mut());
                black_box(value);
                rocksdb_pinnableslice_destroy(value);
            }
        }
    }

    #[inline(never)]
    unsafe fn put(&self, keys: &[String]) {
        for key in keys {
            let (bytes, len) = (key.as_ptr().cast(), key.len());
            unsafe { rocksdb_put(self.db, self.writes, bytes, len, bytes, len, null_mut()) };
        }
    }

    #[inline(never)]
    unsafe fn scan(&self) {
        unsafe {
            let iterator = rocksdb_create_iterator(self.db, self.reads);
            rocksdb_iter_seek_to_first(iterator);
            while rocksdb_iter_valid(iterator) != 0 {
                let mut len = 0;
                black_box(rocksdb_iter_key(iterator, &mut len));
                black_box(rocksdb_iter_value(iterator, &mut len));
                rocksdb_iter_next(iterator);
            }
            rocksdb_iter_destroy(iterator);
        }
    }

    unsafe fn close(self) {
        unsafe {
            rocksdb_readoptions_destroy(self.reads);
            rocksdb_writeoptions_destroy(self.writes);
            rocksdb_close(self.db);
        }
    }
}
