//! Ingested files that replace a range of keys (`atomic_replace_range`).

use super::{Model, apply, contents, file, key, options};
use esker::compaction_filter::{CompactionFilter, FilterDecision};
use esker::internals::env::{CrashChoices, CrashFs, FaultFs, FaultRule, FileSystem as _};
use esker::{
    ColumnFamilyHandle, Db, Env, ErrorKind, IngestExternalFileArg, IngestExternalFileOptions, Options,
    RangeOpt, ReadOptions,
};
use esker_testkit::seed;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn replacing() -> IngestExternalFileOptions {
    IngestExternalFileOptions { snapshot_consistency: false, ..IngestExternalFileOptions::default() }
}

fn replace(
    db: &Db,
    family: &ColumnFamilyHandle,
    files: Vec<PathBuf>,
    range: Option<(usize, usize)>,
) -> esker::Result<()> {
    let (start, limit) = range.map(|(start, limit)| (key(start), key(limit))).unzip();
    let range =
        RangeOpt { start: start.as_ref().map(String::as_bytes), limit: limit.as_ref().map(String::as_bytes) };
    let arg = IngestExternalFileArg {
        atomic_replace_range: Some(range),
        ..IngestExternalFileArg::new(family, files)
    };
    db.ingest_external_files(&replacing(), &[arg])
}

#[test]
fn the_keys_of_the_range_go_and_those_of_the_files_come() {
    let mut rng = seed::rng("replace");
    for round in 0..8 {
        let mut options = options();
        options.cf.write_buffer_size = 16 << 10;
        options.cf.disable_auto_compactions = true;
        let db = Db::open(&options, "/db").unwrap();
        let family = db.default_column_family();
        let mut model = Model::new();
        for step in 0..40 {
            let value = format!("{round}.{step}");
            let tens = rng.usize(..10);
            match rng.u32(..6) {
                // Tables never cross a multiple of 100.
                0..3 => {
                    for _ in 0..rng.usize(1..30) {
                        let n = tens * 100 + rng.usize(..100);
                        db.put(key(n), &value).unwrap();
                        model.insert(key(n), value.clone());
                    }
                    db.flush().unwrap();
                }
                3 => {
                    let (begin, end) = (tens * 100 + rng.usize(..50), tens * 100 + rng.usize(50..100));
                    db.delete_range(key(begin), key(end)).unwrap();
                    apply(&mut model, &[], "", Some((begin, end)));
                    db.flush().unwrap();
                }
                4 if rng.u8(..4) == 0 => {
                    let path = file(&options, "/all", &[tens], &value, None);
                    replace(&db, &family, vec![path], None).unwrap();
                    model = Model::from([(key(tens), value)]);
                }
                _ => {
                    let (start, limit) = (tens * 100, tens * 100 + 99);
                    // The memtable's keys go, too.
                    db.put(key(start + 5), "in memory").unwrap();
                    let keys: Vec<usize> = (start..limit).filter(|_| rng.u8(..10) == 0).collect();
                    let keys = if keys.is_empty() { vec![start] } else { keys };
                    let path = file(&options, "/range", &keys, &value, None);
                    replace(&db, &family, vec![path], Some((start, limit))).unwrap();
                    model.retain(|k, _| !(key(start)..=key(limit)).contains(k));
                    apply(&mut model, &keys, &value, None);
                    let last = db.live_files().iter().filter(|file| file.level == 6).count();
                    assert!(last > 0, "the file goes into the last level");
                }
            }
            assert_eq!(contents(&db, &ReadOptions::new(), "default"), model, "{round}.{step}");
        }
        db.wait_for_background_work().unwrap();
        drop((family, db));
        let db = Db::open(&options, "/db").unwrap();
        assert_eq!(contents(&db, &ReadOptions::new(), "default"), model, "{round}: opened again");
        let names = options.db.env.fs.children(Path::new("/db")).unwrap();
        let tables = names.iter().filter(|name| name.ends_with(".sst")).count();
        assert_eq!(tables, db.live_files().len(), "replaced files are deleted: {names:?}");
        db.compact_range(None, None).unwrap();
        assert_eq!(contents(&db, &ReadOptions::new(), "default"), model, "{round}: compacted");
    }
}

#[test]
fn ranges_that_do_not_fit_are_refused_and_change_nothing() {
    let mut options = options();
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    for n in 10..20 {
        db.put(key(n), "old").unwrap();
    }
    db.flush().unwrap();
    let there = contents(&db, &ReadOptions::new(), "default");
    let path = file(&options, "/file", &[12], "new", None);
    let refused = |done: esker::Result<()>, kind, text: &str| {
        let e = done.unwrap_err();
        assert!(e.kind() == kind && e.to_string().contains(text), "{e}");
        assert_eq!(contents(&db, &ReadOptions::new(), "default"), there);
    };
    let at = |range| replace(&db, &family, vec![path.clone()], Some(range));
    refused(at((13, 30)), ErrorKind::InvalidArgument, "Atomic replace range does not contain all files");
    refused(at((30, 5)), ErrorKind::InvalidArgument, "ends before it begins");
    let partially = "Atomic replace range partially overlaps with existing file";
    refused(at((5, 15)), ErrorKind::InvalidArgument, partially);
    refused(at((12, 30)), ErrorKind::InvalidArgument, partially);
    // The end of the range belongs to it.
    refused(at((5, 18)), ErrorKind::InvalidArgument, partially);
    let arg = |range| IngestExternalFileArg {
        atomic_replace_range: Some(range),
        ..IngestExternalFileArg::new(&family, vec![path.clone()])
    };
    let half = RangeOpt { start: Some(b"key"), limit: None };
    let only_one = "Only one of atomic_replace_range.{start,limit}";
    refused(db.ingest_external_files(&replacing(), &[arg(half)]), ErrorKind::NotSupported, only_one);
    let whole = || arg(RangeOpt::default());
    let consistent = IngestExternalFileOptions::default();
    let text = "not yet supported with snapshot_consistency";
    refused(db.ingest_external_files(&consistent, &[whole()]), ErrorKind::NotSupported, text);
    let handles = vec![
        db.prepare_file_ingestion(&replacing(), &[whole()]).unwrap(),
        db.prepare_file_ingestion(&replacing(), &[IngestExternalFileArg::new(&family, vec![path.clone()])])
            .unwrap(),
    ];
    let text = "cannot merge file ingestion handles";
    refused(db.commit_file_ingestion_handles(handles), ErrorKind::NotSupported, text);
    at((5, 19)).unwrap();
    assert_eq!(contents(&db, &ReadOptions::new(), "default"), Model::from([(key(12), "new".into())]));
}

/// A filter that waits in its first call.
#[derive(Default)]
struct Gate {
    begun: AtomicBool,
    open: AtomicBool,
}

impl CompactionFilter for Gate {
    fn name(&self) -> &str {
        "Gate"
    }

    fn filter(&self, _level: usize, _key: &[u8], _value: &[u8]) -> FilterDecision {
        if !self.begun.swap(true, Ordering::SeqCst) {
            until(&self.open);
        }
        FilterDecision::Keep
    }
}

fn until(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
}

/// A compaction that runs may write what the range is to lose.
#[test]
fn a_range_under_compaction_is_refused_and_taken_afterwards() {
    let gate = Arc::new(Gate::default());
    let mut options = options();
    options.cf.compaction_filter = Some(gate.clone());
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    for value in ["one", "two"] {
        db.put(key(1), value).unwrap();
        db.put(key(2), value).unwrap();
        db.flush().unwrap();
    }
    let path = file(&options, "/file", &[1], "new", None);
    std::thread::scope(|scope| {
        let compaction = scope.spawn(|| db.compact_range(None, None));
        until(&gate.begun);
        for (range, text) in [
            (Some((1, 2)), "Atomic replace range overlaps with pending compaction"),
            (None, "Atomic replace range (full) overlaps with pending compaction"),
        ] {
            let e = replace(&db, &family, vec![path.clone()], range).unwrap_err();
            assert!(e.kind() == ErrorKind::InvalidArgument && e.to_string().contains(text), "{e}");
        }
        gate.open.store(true, Ordering::SeqCst);
        compaction.join().unwrap().unwrap();
    });
    replace(&db, &family, vec![path], None).unwrap();
    assert_eq!(contents(&db, &ReadOptions::new(), "default"), Model::from([(key(1), "new".into())]));
}

/// Old keys go and new ones come in one edit, whatever fails and wherever the power goes.
#[test]
fn a_replacement_happens_whole_or_not_at_all() {
    for step in 0.. {
        let disk = CrashFs::new();
        let faults = Arc::new(FaultFs::new(Arc::new(disk.clone())));
        let mut options: Options = options();
        options.cf.disable_auto_compactions = true;
        options.db.env = Env::with_fs(faults.clone());
        let db = Db::open(&options, "/db").unwrap();
        for n in 10..20 {
            db.put(key(n), "old").unwrap();
        }
        db.flush().unwrap();
        db.put(key(15), "in memory").unwrap();
        db.sync_wal().unwrap();
        let before = contents(&db, &ReadOptions::new(), "default");
        let path = file(&options, "/file", &[12], "new", None);
        let after = Model::from([(key(12), "new".to_owned())]);
        faults.new_directory(Path::new("/")).unwrap().fsync().unwrap();
        db.wait_for_background_work().unwrap();
        faults.add_rule(FaultRule::fail_any().nth(step).on(|path| !path.starts_with("/db/LOG")));
        let done = replace(&db, &db.default_column_family(), vec![path], Some((5, 30)));
        let met = faults.fault_count() > 0;
        faults.clear_rules();
        options.db.env = Env::with_fs(Arc::new(disk.crash_clone(&CrashChoices::lose_unsynced())));
        drop(db);
        let db = Db::open(&options, "/db").unwrap();
        let found = contents(&db, &ReadOptions::new(), "default");
        match &done {
            Ok(()) => assert_eq!(found, after, "step {step}"),
            Err(e) => assert!(found == before || found == after, "step {step}: {e}: {found:?}"),
        }
        if !met {
            assert!(done.is_ok());
            return;
        }
    }
}
