//! Random histories. The stream of changes from a number on equals the writes from that number on,
//! or it says that some are missing.

use super::{options, text};
use esker::internals::env::{CrashChoices, CrashFs};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, Db, Env, FlushOptions, Options, SequenceNumber, WalIterator,
    WalReadOptions, WriteBatch, WriteOptions,
};
use esker_testkit::seed::for_each_seed;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const FAMILIES: [&str; 3] = ["default", "one", "two"];

/// A write that was acknowledged.
struct Write {
    first: u64,
    count: u64,
    /// The text that the stream gives; `None` if no WAL has the write.
    text: Option<String>,
    /// Number of flushes and openings before it.
    age: usize,
    /// A crash may have taken its record, which waited for `flush_wal`. Its number may be in use
    /// nevertheless: MANIFESTs have the last number at the time of a flush or compaction.
    may_be_lost: bool,
}

struct Reader {
    updates: WalIterator,
    /// The write that the stream must give next.
    at: usize,
    /// The stream has given a write.
    begun: bool,
}

struct History {
    disk: CrashFs,
    options: Options,
    db: Db,
    families: Vec<ColumnFamilyHandle>,
    writes: Vec<Write>,
    readers: Vec<Reader>,
    age: usize,
    /// All WAL bytes are in the kernel.
    is_flushed: bool,
    /// Number of writes at the time when all WAL bytes were last known to be in the kernel.
    flushed: usize,
}

fn open(options: &Options) -> (Db, Vec<ColumnFamilyHandle>) {
    let families = FAMILIES.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let db = Db::open_cf(&options.db, "/db", families).unwrap();
    let families = FAMILIES.iter().map(|name| db.column_family(name).unwrap()).collect();
    (db, families)
}

impl History {
    fn new(rng: &mut Rng) -> History {
        let mut options = options();
        options.db.create_missing_column_families = true;
        options.db.wal_ttl_seconds = if rng.bool() { 1 << 30 } else { 0 };
        options.db.recycle_log_file_num = rng.usize(..3);
        options.db.manual_wal_flush = rng.usize(..4) == 0;
        options.db.avoid_flush_during_recovery = rng.bool();
        options.db.avoid_flush_during_shutdown = rng.bool();
        options.db.max_total_wal_size = if rng.bool() { 4096 } else { 0 };
        let disk = CrashFs::new();
        options.db.env = Env::with_fs(Arc::new(disk.clone()));
        let (db, families) = open(&options);
        let (writes, readers) = (Vec::new(), Vec::new());
        History { disk, options, db, families, writes, readers, age: 0, is_flushed: true, flushed: 0 }
    }

    fn write(&mut self, rng: &mut Rng, logged: bool) {
        let first = self.db.latest_sequence_number().0 + 1;
        let mut batch = WriteBatch::new();
        for i in 0..rng.usize(1..4) {
            let family = rng.usize(..FAMILIES.len());
            let key = format!("{}-{i}", first);
            if rng.u8(..4) == 0 {
                batch.delete_cf(&self.families[family], &key).unwrap();
            } else {
                let length = if rng.u8(..30) == 0 { 70_000 } else { rng.usize(..200) };
                batch.put_cf(&self.families[family], &key, vec![7; length]).unwrap();
            }
            if rng.u8(..8) == 0 {
                batch.put_log_data(b"note").unwrap();
            }
        }
        let count = u64::from(batch.count());
        self.db.write_opt(&WriteOptions::new().disable_wal(!logged), &mut batch).unwrap();
        assert_eq!(self.db.latest_sequence_number().0, first + count - 1);
        let text = logged.then(|| text((SequenceNumber(first), batch)));
        let write = Write { first, count, text, age: self.age, may_be_lost: false };
        self.writes.push(write);
        self.is_flushed &= !self.options.db.manual_wal_flush;
    }

    fn flush(&mut self, rng: &mut Rng) {
        self.age += 1;
        let some: Vec<_> = self.families.iter().filter(|_| rng.bool()).collect();
        self.db.flush_opt(&FlushOptions::default(), &some).unwrap();
        if rng.bool() {
            self.db.wait_for_background_work().unwrap();
        }
    }

    fn reopen(&mut self, rng: &mut Rng) {
        self.readers.clear();
        self.age += 1;
        if rng.bool() {
            let flushed = if self.is_flushed { self.writes.len() } else { self.flushed };
            self.writes[flushed..].iter_mut().for_each(|write| write.may_be_lost = true);
            self.disk = self.disk.crash_clone(&CrashChoices::process_kill());
            self.options.db.env = Env::with_fs(Arc::new(self.disk.clone()));
        } else {
            // Handles of families hold the database, too.
            self.families.clear();
            self.db.close().unwrap();
        }
        (self.db, self.families) = open(&self.options);
        let last = self.db.latest_sequence_number().0;
        self.writes.retain(|write| write.first <= last);
        self.note_flushed();
    }

    fn note_flushed(&mut self) {
        (self.is_flushed, self.flushed) = (true, self.writes.len());
    }

    /// Whether the stream may lack the write.
    fn may_lack(&self, at: usize) -> bool {
        let write = &self.writes[at];
        // The limit for all WALs starts flushes of its own, before a write.
        let is_limited = self.options.db.max_total_wal_size > 0 && at + 1 < self.writes.len();
        let may_be_old = write.age < self.age || is_limited;
        write.text.is_none() || write.may_be_lost || self.options.db.wal_ttl_seconds == 0 && may_be_old
    }

    fn begin(&mut self, rng: &mut Rng) {
        let last = self.db.latest_sequence_number().0;
        if last == 0 || self.readers.len() > 3 {
            return;
        }
        let from = rng.u64(1..=last);
        let at = self.writes.iter().position(|w| from < w.first + w.count).unwrap();
        let options = WalReadOptions::default();
        match self.db.get_updates_since(SequenceNumber(from), &options) {
            Ok(updates) => {
                let mut reader = Reader { updates, at, begun: false };
                if self.read(&mut reader, 1) {
                    self.readers.push(reader);
                }
            }
            Err(e) => assert!(self.may_lack(at), "from {from}: {e}"),
        }
    }

    /// Reads some batches; false if the stream has ended.
    fn read(&self, reader: &mut Reader, batches: usize) -> bool {
        for _ in 0..batches {
            match reader.updates.next() {
                Some(Ok(update)) => {
                    let write = &self.writes[reader.at];
                    assert_eq!(Some(text(update)), write.text, "the write numbered {}", write.first);
                    (reader.at, reader.begun) = (reader.at + 1, true);
                }
                Some(Err(e)) => {
                    let write = &self.writes[reader.at];
                    let is_without_record = write.text.is_none() || write.may_be_lost;
                    let may_lack = is_without_record || !reader.begun && self.may_lack(reader.at);
                    assert!(may_lack, "the write numbered {}: {e}", write.first);
                    return false;
                }
                None => {
                    assert!(reader.at == self.writes.len() || !self.is_flushed, "at {}", reader.at);
                    return true;
                }
            }
        }
        true
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.u8(..100) {
            0..50 => self.write(rng, true),
            50..52 if self.options.db.recycle_log_file_num == 0 && !self.options.db.manual_wal_flush => {
                self.write(rng, false);
            }
            52..60 => self.flush(rng),
            60..63 => self.reopen(rng),
            63..68 => {
                self.db.flush_wal(false).unwrap();
                self.note_flushed();
            }
            68..75 => self.begin(rng),
            75..78 if !self.readers.is_empty() => {
                self.readers.swap_remove(rng.usize(..self.readers.len()));
            }
            _ => {
                let mut readers = std::mem::take(&mut self.readers);
                readers.retain_mut(|reader| {
                    let batches = rng.usize(..6);
                    self.read(reader, batches)
                });
                self.readers = readers;
            }
        }
    }
}

#[test]
fn the_stream_from_a_number_on_is_the_writes_from_it_on_or_a_gap() {
    for_each_seed("updates", 40, |_, mut rng| {
        let mut history = History::new(&mut rng);
        for _ in 0..300 {
            history.step(&mut rng);
        }
        history.db.flush_wal(false).unwrap();
        history.note_flushed();
        let mut readers = std::mem::take(&mut history.readers);
        for reader in &mut readers {
            history.read(reader, usize::MAX);
        }
    });
}

#[test]
fn a_reader_beside_writers_and_flushes_gets_every_write_once_and_in_order() {
    const WRITERS: usize = 4;
    const WRITES: usize = 300;
    let mut options = options();
    options.db.create_missing_column_families = true;
    options.db.max_total_wal_size = 20_000;
    let (db, families) = open(&options);
    db.put("begin", "").unwrap();
    let mut updates = db.get_updates_since(SequenceNumber(1), &WalReadOptions::default()).unwrap();
    let left = AtomicUsize::new(WRITERS);
    let mut next_of: BTreeMap<String, usize> = BTreeMap::new();
    let mut due = 1;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, families, left) = (&db, &families, &left);
            scope.spawn(move || {
                for i in 0..WRITES {
                    let mut batch = WriteBatch::new();
                    for part in 0..=i % 3 {
                        let family = &families[(writer + i) % families.len()];
                        batch.put_cf(family, format!("{writer}:{i}:{part}"), vec![1; 60 * part]).unwrap();
                    }
                    db.write(&mut batch).unwrap();
                    if i % 50 == 49 {
                        db.flush().unwrap();
                    }
                }
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        loop {
            let is_last = left.load(Ordering::SeqCst) == 0;
            for update in &mut updates {
                let (first, batch) = update.unwrap();
                assert_eq!(first.0, due);
                due += u64::from(batch.count());
                for op in batch.iter() {
                    let esker::BatchOp::Put { key, .. } = op else { panic!("{op:?}") };
                    let key = String::from_utf8(key.to_vec()).unwrap();
                    let Some((writer, rest)) = key.split_once(':') else { continue };
                    let (i, part) = rest.split_once(':').unwrap();
                    let next = next_of.entry(writer.to_owned()).or_default();
                    if part == "0" {
                        assert_eq!(i.parse::<usize>().unwrap(), *next, "of writer {writer}");
                        *next += 1;
                    }
                }
            }
            if is_last {
                break;
            }
            std::thread::yield_now();
        }
    });
    assert!(next_of.len() == WRITERS && next_of.values().all(|next| *next == WRITES), "{next_of:?}");
    assert_eq!(due, db.latest_sequence_number().0 + 1);
}
