//! Puts a physical record of each type into a WAL. Esker recovers the same keys as RocksDB 11.8.1,
//! in each recovery mode.
//!
//! In: types × places × logs × payloads × modes, generated. Out: the keys that each engine
//! recovers, or the kind of its error.

use esker::{Db, Options, ReadOptions, WalRecoveryMode};
use esker_base::crc32c;
use esker_peer::{Contents, FamilySpec, RocksDb, fixture, note, require};
use esker_testkit::TempDir;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const MODES: [WalRecoveryMode; 4] = [
    WalRecoveryMode::TolerateCorruptedTailRecords,
    WalRecoveryMode::AbsoluteConsistency,
    WalRecoveryMode::PointInTimeRecovery,
    WalRecoveryMode::SkipAnyCorruptedRecords,
];

/// The number of the WAL that gets the record. The next WAL follows it.
const WAL: u32 = 20;
const NEXT_WAL: u32 = 21;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// As the only record of the WAL.
    Alone,
    Begin,
    Middle,
    /// Between the first and the last fragment of a record.
    Within,
    End,
    /// At the end of a WAL that another WAL follows.
    EndOfFirst,
    /// Before the only record of a WAL that another WAL follows.
    BeginOfFirst,
    /// Behind a record of an older log in the same file.
    BehindOld,
}

const PLACES: [Place; 8] = [
    Place::Alone,
    Place::Begin,
    Place::Middle,
    Place::Within,
    Place::End,
    Place::EndOfFirst,
    Place::BeginOfFirst,
    Place::BehindOld,
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Log {
    Plain,
    Recyclable,
    /// Each record is a zstd frame.
    Compressed,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    record_type: u8,
    place: Place,
    log: Log,
    payload: &'static [u8],
}

/// An empty payload; zstd's number, as in a record about compression; timestamp sizes of family 7;
/// zeros as long as a batch.
const PAYLOADS: [&[u8]; 4] = [b"", b"\x07\0\0\0", b"\x07\0\0\0\x08\0", &[0; 24]];

/// One physical record. Types that contain a log number get `number`.
fn physical(record_type: u8, number: u32, payload: &[u8]) -> Vec<u8> {
    let mut checked = vec![record_type];
    if matches!(record_type, 5..=8 | 11 | 131) {
        checked.extend_from_slice(&number.to_le_bytes());
    }
    checked.extend_from_slice(payload);
    let mut record = crc32c::mask(crc32c::value(&checked)).to_le_bytes().to_vec();
    record.extend_from_slice(&u16::try_from(payload.len()).expect("a short payload").to_le_bytes());
    record.extend_from_slice(&checked);
    record
}

/// A batch that puts key `k<sequence>`.
fn put(sequence: u8) -> Vec<u8> {
    vec![sequence, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 2, b'k', b'0' + sequence, 1, b'v']
}

/// A zstd frame of `payload`, which must be short.
fn compressed(payload: &[u8]) -> Vec<u8> {
    // A frame of one raw block: magic, descriptor (one segment, one byte of size), block header,
    // contents.
    let size = u8::try_from(payload.len()).expect("a short payload");
    let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0x20, size, (size << 3) | 1, size >> 5, 0];
    frame.extend_from_slice(payload);
    frame
}

impl Case {
    fn is_recyclable(&self) -> bool {
        self.log == Log::Recyclable
    }

    /// Whether RocksDB hangs: it reads a recyclable record behind a plain one again and again.
    fn hangs_rocksdb(&self) -> bool {
        let is_first = matches!(self.place, Place::Alone | Place::Begin | Place::BeginOfFirst);
        if self.is_recyclable() {
            return is_first && matches!(self.record_type, 1..=4);
        }
        let is_recyclable = matches!(self.record_type, 5..=8 | 11 | 131) || self.place == Place::BehindOld;
        is_recyclable && !is_first
    }

    fn piece(&self, record_type: u8, number: u32, payload: &[u8]) -> Vec<u8> {
        physical(if self.is_recyclable() { record_type + 4 } else { record_type }, number, payload)
    }

    fn record(&self, number: u32, sequence: u8) -> Vec<u8> {
        let batch = put(sequence);
        let payload = if self.log == Log::Compressed { compressed(&batch) } else { batch };
        if self.place == Place::Within && sequence == 2 {
            let (first, last) = payload.split_at(5);
            let first = self.piece(2, number, first);
            return [first, self.inserted(), self.piece(4, number, last)].concat();
        }
        self.piece(1, number, &payload)
    }

    fn inserted(&self) -> Vec<u8> {
        physical(self.record_type, WAL, self.payload)
    }

    /// The bytes of both WALs. Not every case has a second one.
    fn wals(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        let head = if self.log == Log::Compressed { physical(9, WAL, b"\x07\0\0\0") } else { Vec::new() };
        let records = |range: std::ops::RangeInclusive<u8>| -> Vec<u8> {
            range.flat_map(|sequence| self.record(WAL, sequence)).collect()
        };
        let next = || {
            let head =
                if self.log == Log::Compressed { physical(9, NEXT_WAL, b"\x07\0\0\0") } else { Vec::new() };
            let records = |range: std::ops::RangeInclusive<u8>| -> Vec<u8> {
                range.flat_map(|sequence| self.record(NEXT_WAL, sequence)).collect()
            };
            move |range| [head.clone(), records(range)].concat()
        };
        let x = self.inserted();
        match self.place {
            Place::Alone => (x, None),
            Place::Begin => ([x, head, records(1..=3)].concat(), None),
            Place::Middle => ([head, records(1..=1), x, records(2..=3)].concat(), None),
            Place::Within => ([head, records(1..=3)].concat(), None),
            Place::End => ([head, records(1..=3), x].concat(), None),
            Place::EndOfFirst => ([head, records(1..=2), x].concat(), Some(next()(3..=4))),
            Place::BeginOfFirst => ([head, x, records(1..=1)].concat(), Some(next()(2..=3))),
            Place::BehindOld => {
                let old = physical(5, WAL - 1, &put(9));
                ([head, records(1..=1), old, x, records(2..=3)].concat(), None)
            }
        }
    }
}

/// The recovered keys, or the kind of the error.
type Outcome = Result<Vec<String>, String>;

fn keys(contents: &Contents) -> Vec<String> {
    contents.0.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect()
}

fn esker(dir: &Path, mode: usize) -> Outcome {
    let mut options = Options::default();
    options.db.wal_recovery_mode = MODES[mode];
    let opened = Db::open(&options, dir)
        .and_then(|db| Contents::of(&db, &db.default_column_family(), &ReadOptions::default()));
    opened.map(|contents| keys(&contents)).map_err(|e| format!("{:?}: {e}", e.kind()))
}

fn rocksdb(dir: &Path, mode: usize) -> Outcome {
    let mode = [
        "kTolerateCorruptedTailRecords",
        "kAbsoluteConsistency",
        "kPointInTimeRecovery",
        "kSkipAnyCorruptedRecords",
    ][mode];
    let options =
        format!("wal_recovery_mode={mode};info_log_level=FATAL_LEVEL;skip_stats_update_on_db_open=true");
    let db = RocksDb::open(dir, &options, &[FamilySpec::new("default", "")])?;
    Ok(keys(&db.contents("default", None)?))
}

fn agree(is: &Outcome, expected: &Outcome) -> bool {
    let kind = |text: &str| text.split([':', ' ']).next().unwrap_or_default().to_owned();
    match (is, expected) {
        (Err(is), Err(expected)) => kind(is) == kind(expected),
        _ => is == expected,
    }
}

/// Makes a directory with CURRENT, MANIFEST and these WALs.
fn place(case: &Case, base: &Path, dir: &Path) {
    std::fs::remove_dir_all(dir).ok();
    std::fs::create_dir(dir).expect("a fresh directory");
    for name in ["CURRENT", "IDENTITY", "MANIFEST-000002"] {
        std::fs::copy(base.join(name), dir.join(name)).expect("a file of the fixture");
    }
    let (first, second) = case.wals();
    std::fs::write(dir.join(format!("{WAL:06}.log")), first).expect("a WAL");
    if let Some(second) = second {
        std::fs::write(dir.join(format!("{NEXT_WAL:06}.log")), second).expect("a WAL");
    }
}

/// Compares each case in each mode. If RocksDB hangs, names the case and ends the process.
fn compare(cases: &[Case]) {
    if require("RocksDB 11.8.1", RocksDb::available()).is_none() {
        return;
    }
    let base = fixture::all(&["walrec_clean"]).pop().expect("a fixture").db();
    let work =
        TempDir::within(Path::new("/dev/shm"), "wal-types").unwrap_or_else(|| TempDir::new("wal-types"));
    let now = std::sync::Mutex::new((Instant::now(), String::new()));
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let mut wrong = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(std::sync::atomic::Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(50));
                let (since, case) = &*now.lock().expect("no panic");
                if since.elapsed() > Duration::from_secs(10) {
                    // Writes directly, because the test's output is captured.
                    writeln!(std::io::stderr(), "RocksDB does not come back from {case}")
                        .expect("an open stderr");
                    std::process::abort();
                }
            }
        });
        for case in cases.iter().filter(|case| !case.hangs_rocksdb()) {
            for mode in 0..MODES.len() {
                *now.lock().expect("no panic") = (Instant::now(), format!("mode {mode}, {case:?}"));
                place(case, &base, &work.join("rocksdb"));
                let expected = rocksdb(&work.join("rocksdb"), mode);
                place(case, &base, &work.join("esker"));
                let is = esker(&work.join("esker"), mode);
                if !agree(&is, &expected) {
                    wrong.push(format!("mode {mode}, {case:?}: {is:?}\n    RocksDB: {expected:?}"));
                }
            }
        }
        is_done.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    note(&format!("{} cases in 4 modes, {} differ", cases.len(), wrong.len()));
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), 4 * cases.len(), wrong.join("\n"));
}

fn cases(types: impl Iterator<Item = u8> + Clone, payloads: &[&'static [u8]]) -> Vec<Case> {
    let mut cases = Vec::new();
    for log in [Log::Plain, Log::Recyclable, Log::Compressed] {
        for place in PLACES {
            for payload in payloads {
                cases.extend(types.clone().map(|record_type| Case { record_type, place, log, payload }));
            }
        }
    }
    cases
}

/// Tests every type that either reader treats specially, and one type of each remaining kind.
#[test]
fn records_of_types_with_a_meaning_are_recovered_as_rocksdb_does() {
    let types = (0..=12).chain([15, 64, 127]).chain(128..=139).chain([200, 255]);
    compare(&cases(types, &[PAYLOADS[1], PAYLOADS[3]]));
    compare(&cases(0..=12, &PAYLOADS[..1]));
}

#[test]
#[ignore = "25,000 openings of each engine; cargo xtask long compat runs it"]
fn records_of_all_types_are_recovered_as_rocksdb_does() {
    compare(&cases((0..=15).chain(128..=255), &PAYLOADS[..2]));
    compare(&cases((0..=15).chain(128..=131), &PAYLOADS[2..]));
}
