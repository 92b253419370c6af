//! Ingestion behind all data (`ingest_behind`): files change only keys without a history.

use super::{Model, contents, file, key, options};
use esker::options::CompactionStyle;
use esker::{
    ColumnFamilyDescriptor, Db, ErrorKind, IngestExternalFileArg, IngestExternalFileOptions, Options,
    RangeOpt, ReadOptions, SstFileWriter,
};
use esker_testkit::seed;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const LEVELS: usize = 5;

fn behind() -> IngestExternalFileOptions {
    IngestExternalFileOptions { ingest_behind: true, ..IngestExternalFileOptions::default() }
}

fn universal() -> Options {
    let mut options = options();
    options.cf.compaction_style = CompactionStyle::Universal;
    options.cf.num_levels = LEVELS as i32;
    options.cf.cf_allow_ingest_behind = true;
    options
}

fn ingest_behind(db: &Db, file: &Path) -> esker::Result<()> {
    db.ingest_external_file_opt(&behind(), &db.default_column_family(), &[file])
}

/// The history of a key, as far as it decides what a file behind it can still change. A key without
/// an entry has none.
#[derive(Clone, Debug)]
enum History {
    Value(String),
    /// Operands without a value below them.
    Operands(String),
    Deleted,
}

impl History {
    fn shown(&self) -> Option<&String> {
        match self {
            History::Value(text) | History::Operands(text) => Some(text),
            History::Deleted => None,
        }
    }
}

#[derive(Default)]
struct Histories(BTreeMap<usize, History>);

impl Histories {
    fn merge(&mut self, n: usize, operand: &str) {
        let merged = match self.0.remove(&n) {
            Some(History::Value(value)) => History::Value(format!("{value},{operand}")),
            Some(History::Operands(older)) => History::Operands(format!("{older},{operand}")),
            Some(History::Deleted) => History::Value(operand.to_owned()),
            None => History::Operands(operand.to_owned()),
        };
        self.0.insert(n, merged);
    }

    fn put_behind(&mut self, n: usize, value: &str) {
        let merged = match self.0.remove(&n) {
            None => History::Value(value.to_owned()),
            Some(History::Operands(newer)) => History::Value(format!("{value},{newer}")),
            Some(known) => known,
        };
        self.0.insert(n, merged);
    }

    fn shown(&self) -> Model {
        self.0.iter().filter_map(|(n, history)| Some((key(*n), history.shown()?.clone()))).collect()
    }
}

/// Keys whose only deletions are single ones, each after one put. No file has them: a single
/// deletion hides only one put for sure.
fn is_single(n: usize) -> bool {
    n % 8 == 7
}

fn write(db: &Db, rng: &mut fastrand::Rng, step: usize, known: &mut Histories) {
    let (n, value) = (rng.usize(..100), format!("v{step}"));
    match rng.u8(..10) {
        0 if !is_single(n) => {
            db.delete(key(n)).unwrap();
            known.0.insert(n, History::Deleted);
        }
        1 if !is_single(n) => {
            db.merge(key(n), &value).unwrap();
            known.merge(n, &value);
        }
        2 => {
            // No single key lies in the range: such a deletion would end its turn.
            let (begin, end) = (n / 8 * 8, n / 8 * 8 + 1 + n % 7);
            db.delete_range(key(begin), key(end)).unwrap();
            (begin..end).for_each(|n| drop(known.0.insert(n, History::Deleted)));
        }
        _ if is_single(n) && matches!(known.0.get(&n), Some(History::Value(_))) => {
            db.single_delete(key(n)).unwrap();
            known.0.insert(n, History::Deleted);
        }
        _ => {
            db.put(key(n), &value).unwrap();
            known.0.insert(n, History::Value(value));
        }
    }
}

/// No file but those ingested behind all data lies in the last level. A file whose keys are all
/// deleted by a range deletion may be gone.
fn check_levels(db: &Db, ingested: usize) {
    let last = db.live_files().into_iter().filter(|file| file.level == LEVELS - 1);
    let numbers: Vec<_> = last.map(|file| (file.smallest_seqno, file.epoch_number)).collect();
    assert!(numbers.len() <= ingested, "{numbers:?}");
    assert!(numbers.iter().all(|(seqno, epoch)| (seqno.0, *epoch) == (0, 1)), "{numbers:?}");
    assert!(db.live_files().iter().all(|file| file.level == LEVELS - 1 || file.epoch_number > 1));
}

#[test]
fn only_keys_without_a_history_get_values_from_behind() {
    seed::for_each_seed("behind", 12, |round, mut rng| {
        let mut options = universal();
        options.cf.write_buffer_size = 64 << 10;
        options.cf.disable_auto_compactions = round % 3 == 0;
        let mut db = Db::open(&options, "/db").unwrap();
        let (mut known, mut snapshots, mut files) = (Histories::default(), Vec::new(), 0);
        let mut windows: Vec<usize> = (0..10).collect();
        rng.shuffle(&mut windows);
        for step in 0..300 {
            match rng.u8(..30) {
                0 => db.flush().unwrap(),
                1 => db.compact_range(None, None).unwrap(),
                2 => snapshots.push(db.snapshot()),
                3 => snapshots.clear(),
                4 => {
                    snapshots.clear();
                    db.close().unwrap();
                    db = Db::open(&options, "/db").unwrap();
                }
                5 if !windows.is_empty() => {
                    let first = windows.pop().unwrap() * 10;
                    let keys: Vec<usize> =
                        (first..first + 10).filter(|n| !is_single(*n) && rng.bool()).collect();
                    if keys.is_empty() {
                        continue;
                    }
                    let path = file(&options, &format!("/file{step}"), &keys, &format!("behind{step}"), None);
                    ingest_behind(&db, &path).unwrap();
                    keys.iter().for_each(|n| known.put_behind(*n, &format!("behind{step}")));
                    files += 1;
                }
                _ => write(&db, &mut rng, step, &mut known),
            }
            if step % 10 == 0 {
                assert_eq!(contents(&db, &ReadOptions::new(), "default"), known.shown(), "step {step}");
                check_levels(&db, files);
            }
        }
        snapshots.clear();
        db.close().unwrap();
        // Without the option, compactions take the last level, too.
        options.cf.cf_allow_ingest_behind = false;
        let db = Db::open(&options, "/db").unwrap();
        assert_eq!(contents(&db, &ReadOptions::new(), "default"), known.shown());
        db.compact_range(None, None).unwrap();
        assert_eq!(contents(&db, &ReadOptions::new(), "default"), known.shown());
        assert!(db.live_files().iter().all(|file| file.level == LEVELS - 1));
    });
}

#[test]
fn a_remembered_deleted_run_does_not_hide_keys_from_behind() {
    let mut options = universal();
    options.cf.deleted_run_memory_min_keys = 1;
    options.cf.deleted_run_block_min_entries = 1;
    let db = Db::open(&options, "/db").unwrap();
    (0..20).for_each(|n| db.delete(key(n * 2)).unwrap());
    db.flush().unwrap();
    (0..3).for_each(|_| assert!(contents(&db, &ReadOptions::new(), "default").is_empty()));
    let odd: Vec<usize> = (0..20).map(|n| n * 2 + 1).collect();
    let both: Vec<usize> = (0..40).collect();
    ingest_behind(&db, &file(&options, "/file", &both, "behind", None)).unwrap();
    let expected: Model = odd.iter().map(|n| (key(*n), "behind".to_owned())).collect();
    assert_eq!(contents(&db, &ReadOptions::new(), "default"), expected);
    let mut backward = db.iter().unwrap();
    backward.seek_to_last();
    let mut found = 0;
    while backward.valid() {
        found += 1;
        backward.prev();
    }
    assert_eq!(found, 20);
}

#[test]
fn files_that_cannot_go_behind_all_data_are_refused_and_change_nothing() {
    let refused = |db: &Db, done: esker::Result<()>, kind, text: &str| {
        let before = contents(db, &ReadOptions::new(), "default");
        let e = done.unwrap_err();
        assert!(e.kind() == kind && e.to_string().contains(text), "{e}");
        assert_eq!(contents(db, &ReadOptions::new(), "default"), before);
    };
    let plain = options();
    let db = Db::open(&plain, "/plain").unwrap();
    let one = file(&plain, "/one", &[1, 3], "behind", None);
    refused(&db, ingest_behind(&db, &one), ErrorKind::InvalidArgument, "cf_allow_ingest_behind=false");

    let mut options = universal();
    options.db.env = plain.db.env.clone();
    options.cf.num_levels = 2;
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(db.options_cf(&db.default_column_family()).num_levels, 3, "as in RocksDB");
    db.put(key(1), "here").unwrap();
    let two = file(&options, "/two", &[3, 4], "behind", None);
    let family = db.default_column_family();
    let both = db.ingest_external_file_opt(&behind(), &family, &[&one, &two]);
    refused(&db, both, ErrorKind::NotSupported, "overlapping ranges");
    let range = RangeOpt { start: Some(b"a"), limit: Some(b"z") };
    let arg = IngestExternalFileArg {
        atomic_replace_range: Some(range),
        ..IngestExternalFileArg::new(&family, vec![one.clone()])
    };
    let replaces = db.ingest_external_files(&behind(), &[arg]);
    refused(&db, replaces, ErrorKind::InvalidArgument, "atomic_replace_range");
    let own = db.ingest_external_file_opt(&behind().allow_db_generated_files(true), &family, &[&one]);
    refused(&db, own, ErrorKind::InvalidArgument, "allow_db_generated_files");
    ingest_behind(&db, &one).unwrap();
    refused(&db, ingest_behind(&db, &two), ErrorKind::InvalidArgument, "doesn't fit at the last level");
    db.flush().unwrap();
    let files: Vec<_> = db.live_files().iter().map(|file| file.file_number).collect();
    let to_last = db.compact_files(&Default::default(), &family, &files, 2);
    refused(&db, to_last.map(drop), ErrorKind::InvalidArgument, "cf_allow_ingest_behind");
    let shown = contents(&db, &ReadOptions::new(), "default");
    assert_eq!(shown, Model::from([(key(1), "here".to_owned()), (key(3), "behind".to_owned())]));
}

#[test]
fn a_family_whose_data_lost_its_numbers_is_refused() {
    let mut options = universal();
    options.cf.cf_allow_ingest_behind = false;
    options.cf.num_levels = 3;
    let db = Db::open(&options, "/db").unwrap();
    for value in ["older", "old"] {
        db.put(key(1), value).unwrap();
        db.flush().unwrap();
    }
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    options.cf.cf_allow_ingest_behind = true;
    options.cf.num_levels = 4;
    let db = Db::open(&options, "/db").unwrap();
    let path: PathBuf = file(&options, "/file", &[1], "behind", None);
    let e = ingest_behind(&db, &path).unwrap_err();
    assert!(e.to_string().contains("files with 0 seqno in database at upper levels"), "{e}");
    assert_eq!(db.get(key(1)).unwrap().as_deref(), Some(&b"old"[..]));
}

#[test]
fn the_option_of_the_database_holds_for_all_its_families() {
    let mut options = options();
    options.db.allow_ingest_behind = true;
    options.cf.compaction_style = CompactionStyle::Universal;
    let other = ColumnFamilyDescriptor::new("other", options.cf.clone());
    let first = ColumnFamilyDescriptor::new("default", options.cf.clone());
    let db = Db::open_cf(&options.db, "/db", [first, other]).unwrap();
    for name in ["default", "other"] {
        let family = db.column_family(name).unwrap();
        let path = format!("/{name}");
        let mut writer = SstFileWriter::new(&options);
        writer.open(&path).unwrap();
        writer.put("key", name).unwrap();
        writer.finish().unwrap();
        db.ingest_external_file_opt(&behind(), &family, &[&path]).unwrap();
        assert_eq!(db.get_cf(&family, "key").unwrap().as_deref(), Some(name.as_bytes()));
    }
}
