//! `write_with_callback`: callbacks on the way of one write.

use esker::internals::env::mem::MemFs;
use esker::{
    Db, Env, Error, ErrorKind, Options, Result, UserWriteCallback, WriteBatch, WriteCallback, WriteOptions,
};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

fn options(fs: &Arc<MemFs>) -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(fs.clone());
    options.db.avoid_flush_during_shutdown = true;
    options
}

fn one(key: &str, value: &str) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key, value).unwrap();
    batch
}

/// Notes its calls, with what a read of `key` shows.
struct Steps<'d> {
    db: &'d Db,
    seen: RefCell<Vec<String>>,
}

impl Steps<'_> {
    fn note(&self, step: &str) {
        let value = self.db.get("key").unwrap().map(|value| String::from_utf8(value).unwrap());
        self.seen.borrow_mut().push(format!("{step} {}", value.as_deref().unwrap_or("-")));
    }
}

impl UserWriteCallback for Steps<'_> {
    fn on_write_enqueued(&self) {
        self.note("enqueued");
    }
    fn on_wal_write_finish(&self) {
        self.note("logged");
    }
}

impl WriteCallback for Steps<'_> {
    fn callback(&self, _db: &Db) -> Result<()> {
        self.note("asked");
        Ok(())
    }
}

#[test]
fn the_calls_of_a_write_come_in_order_and_before_reads_see_it() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs), "/db").unwrap();
    let steps = Steps { db: &db, seen: RefCell::default() };
    let write = |options: &WriteOptions, value: &str| {
        db.write_with_callbacks(options, one("key", value), Some(&steps), Some(&steps)).unwrap();
        steps.seen.take()
    };
    assert_eq!(write(&WriteOptions::new(), "1"), ["enqueued -", "asked -", "logged -"]);
    assert_eq!(write(&WriteOptions::new().sync(true), "2"), ["enqueued 1", "asked 1", "logged 1"]);
    assert_eq!(write(&WriteOptions::new().disable_wal(true), "3"), ["enqueued 2", "asked 2"]);
    db.write_with_callback(&WriteOptions::new(), one("key", "4"), &steps).unwrap();
    assert_eq!(steps.seen.take(), ["enqueued 3", "logged 3"]);
    db.write_with_callbacks(&WriteOptions::new(), one("key", "5"), None, None).unwrap();
    db.close().unwrap();
    assert_eq!(Db::open(&options(&fs), "/db").unwrap().get("key").unwrap().unwrap(), b"5");
}

struct Refuses;

impl WriteCallback for Refuses {
    fn callback(&self, _db: &Db) -> Result<()> {
        Err(Error::new(ErrorKind::Busy, "no"))
    }
    fn allow_write_batching(&self) -> bool {
        true
    }
}

#[test]
fn a_callback_refuses_its_write_alone() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs), "/db").unwrap();
    let mut batch = one("key", "1");
    let refused = db.write_with_callbacks(&WriteOptions::new(), &mut batch, Some(&Refuses), None);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(batch.len(), 1, "the caller has its batch back");
    assert_eq!((db.get("key").unwrap(), db.latest_sequence_number().0), (None, 0));
    db.write(batch).unwrap();
    db.close().unwrap();
    assert_eq!(Db::open(&options(&fs), "/db").unwrap().get("key").unwrap().unwrap(), b"1");
}

/// Adds one to the number under `counter`, without losing an addition of another thread.
struct Adds<'v>(&'v str, Cell<bool>);

impl WriteCallback for Adds<'_> {
    fn callback(&self, db: &Db) -> Result<()> {
        let is_next = db.get("counter")?.is_none_or(|value| value == self.0.as_bytes());
        self.1.set(is_next);
        if is_next { Ok(()) } else { Err(Error::new(ErrorKind::Busy, "another was first")) }
    }
}

#[test]
fn checks_of_many_threads_never_both_succeed() {
    const ROUNDS: u32 = 200;
    let db = Db::open(&options(&Arc::new(MemFs::new())), "/db").unwrap();
    let written = AtomicU32::new(0);
    let count = || {
        for _ in 0..ROUNDS {
            let before = db.get("counter").unwrap().unwrap_or_else(|| b"0".to_vec());
            let before = String::from_utf8(before).unwrap();
            let after = (before.parse::<u32>().unwrap() + 1).to_string();
            let adds = Adds(&before, Cell::new(false));
            let batch = one("counter", &after);
            let result = db.write_with_callbacks(&WriteOptions::new(), batch, Some(&adds), None);
            assert_eq!(result.is_ok(), adds.1.get());
            written.fetch_add(u32::from(result.is_ok()), Ordering::Relaxed);
            db.put("other", "1").unwrap();
        }
    };
    thread::scope(|scope| {
        (0..3).for_each(|_| _ = scope.spawn(count));
    });
    let last = String::from_utf8(db.get("counter").unwrap().unwrap()).unwrap();
    assert_eq!(last.parse::<u32>().unwrap(), written.into_inner());
}

/// Panics in the call that it names.
struct Panics(&'static str);

impl UserWriteCallback for Panics {
    fn on_write_enqueued(&self) {
        assert_ne!(self.0, "enqueued");
    }
    fn on_wal_write_finish(&self) {
        assert_ne!(self.0, "logged");
    }
}

impl WriteCallback for Panics {
    fn callback(&self, _db: &Db) -> Result<()> {
        assert_ne!(self.0, "asked");
        Ok(())
    }
}

#[test]
fn a_callback_that_panics_ends_its_write_and_stops_no_other() {
    let db = Db::open(&options(&Arc::new(MemFs::new())), "/db").unwrap();
    for (panics, value) in [("enqueued", None), ("asked", None), ("logged", Some(b"logged".to_vec()))] {
        let batch = one("key", panics);
        let calls = Panics(panics);
        let result = db.write_with_callbacks(&WriteOptions::new(), batch, Some(&calls), Some(&calls));
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Aborted, "{panics}");
        assert_eq!(db.get("key").unwrap(), value, "{panics}");
        db.put("other", panics).unwrap();
    }
}
