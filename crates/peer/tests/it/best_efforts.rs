//! `best_efforts_recovery`: both engines open directories from which files are missing, and find
//! the same state.

use crate::peer_process::{db_options, open_esker, small_files};
use esker::options::CompressionType;
use esker::{Db, ReadOptions, WriteOptions};
use esker_peer::fixture::copy_files;
use esker_peer::model_ops::{Kinds, write_to_esker};
use esker_peer::{Contents, ModelOps, RocksDb, require};
use esker_testkit::{TempDir, seed};
use std::fs;
use std::path::Path;

const OPTIONS: &str = "write_buffer_size=64k;level0_file_num_compaction_trigger=3;enable_blob_files=true;\
                       min_blob_size=30;block_based_table_factory={format_version=5};";

/// The contents of each family after each of its flushes.
struct History {
    model: ModelOps,
    states: Vec<Vec<Contents>>,
}

impl History {
    fn new() -> History {
        let model = ModelOps::varied();
        let states = model.families.iter().map(|_| vec![Contents::default()]).collect();
        History { model, states }
    }

    fn note(&mut self) {
        for (family, states) in self.model.families.iter().zip(&mut self.states) {
            states.push(self.model.contents(family));
        }
    }

    /// The first and the last state of a family with these contents.
    fn find(&self, family: usize, contents: &Contents) -> Option<(usize, usize)> {
        let states = &self.states[family];
        let first = states.iter().position(|state| state == contents)?;
        Some((first, states.iter().rposition(|state| state == contents).unwrap_or(first)))
    }
}

const CREATE: &str = "create_if_missing=true;create_missing_column_families=true;";

/// Writes to all families, flushes them, and keeps a copy of each file in `all`.
fn write(dir: &Path, all: &Path, history: &mut History, rng: &mut fastrand::Rng, by_esker: bool) {
    let names: Vec<String> = history.model.families.iter().map(|family| family.name.clone()).collect();
    let rounds = rng.usize(1..5);
    if by_esker {
        let mut options = small_files(CompressionType::None);
        (options.enable_blob_files, options.min_blob_size) = (true, 30);
        let db = open_esker(dir, &history.model, &options).expect("opens");
        for _ in 0..rounds {
            let ops = history.model.random_ops(rng, 20, Kinds::ALL);
            write_to_esker(&db, &ops, &WriteOptions::default()).expect("written");
            for name in &names {
                let family = db.column_family(name).expect("open");
                db.flush_opt(&esker::FlushOptions::default(), &[&family]).expect("flushed");
                keep(dir, all);
            }
            history.note();
        }
        db.close().expect("closes");
    } else {
        let db = RocksDb::open(dir, CREATE, &history.model.specs(OPTIONS)).expect("opens");
        for _ in 0..rounds {
            let ops = history.model.random_ops(rng, 20, Kinds::ALL);
            db.write(&ops, esker_peer::WriteFlags::default()).expect("written");
            for name in &names {
                db.flush(name).expect("flushed");
                keep(dir, all);
            }
            history.note();
        }
    }
    keep(dir, all);
}

/// Copies tables and blob files that are not in `all` yet.
fn keep(dir: &Path, all: &Path) {
    for name in data_files(dir) {
        if !all.join(&name).exists() {
            // The file may be deleted at any time.
            let _copied = fs::copy(dir.join(&name), all.join(&name));
        }
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

fn data_files(dir: &Path) -> Vec<String> {
    let mut names = names(dir);
    names.retain(|name| name.ends_with(".sst") || name.ends_with(".blob"));
    names
}

fn cut_short(path: &Path, rng: &mut fastrand::Rng) {
    let bytes = fs::metadata(path).expect("a file").len();
    let file = fs::OpenOptions::new().write(true).open(path).expect("opens");
    file.set_len(rng.u64(..bytes)).expect("cut");
}

/// Takes files away, or parts of them. Returns whether a blob file is among them.
fn spoil(dir: &Path, all: &Path, rng: &mut fastrand::Rng) -> bool {
    let mut is_blob = false;
    if rng.bool() {
        // Files of former states, too.
        data_files(all).iter().for_each(|name| {
            if !dir.join(name).exists() {
                fs::copy(all.join(name), dir.join(name)).expect("copied");
            }
        });
    }
    for _ in 0..rng.usize(..4) {
        let names = data_files(dir);
        let Some(name) = rng.choice(&names) else { break };
        is_blob |= name.ends_with(".blob");
        match rng.u32(..4) {
            0 => cut_short(&dir.join(name), rng),
            _ => fs::remove_file(dir.join(name)).expect("deleted"),
        }
    }
    if rng.u32(..4) == 0 {
        fs::remove_file(dir.join("CURRENT")).expect("deleted");
    }
    let manifest = names(dir).into_iter().rfind(|name| name.starts_with("MANIFEST")).expect("there");
    if rng.u32(..8) == 0 {
        cut_short(&dir.join(manifest), rng);
    }
    is_blob
}

type Found = Result<Vec<Contents>, String>;

fn esker(dir: &Path, model: &ModelOps) -> Found {
    let mut options = db_options();
    (options.create_if_missing, options.best_efforts_recovery) = (false, true);
    let families = model.descriptors(&small_files(CompressionType::None));
    let db = Db::open_cf(&options, dir, families).map_err(|e| e.to_string())?;
    let found = model.families.iter().map(|family| {
        let family = db.column_family(&family.name).expect("open");
        Contents::of(&db, &family, &ReadOptions::default()).map_err(|e| e.to_string())
    });
    let found = found.collect();
    db.close().map_err(|e| e.to_string())?;
    found
}

fn rocksdb(dir: &Path, model: &ModelOps, options: &str) -> Found {
    let db = RocksDb::open(dir, options, &model.specs(OPTIONS))?;
    model.families.iter().map(|family| db.contents(&family.name, None)).collect()
}

#[test]
fn both_engines_recover_the_same_state_of_a_directory_without_some_files() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let (mut same, mut newer, mut lossy, mut never, mut alone, mut refused) = (0, 0, 0, 0, 0, 0);
    seed::for_each_seed("best_efforts", 12, |_, mut rng| {
        let rng = &mut rng;
        let (dir, all) = (TempDir::new("best"), TempDir::new("best-all"));
        let mut history = History::new();
        let openings = rng.usize(1..4);
        for _ in 0..openings {
            let by_esker = rng.bool();
            write(dir.path(), all.path(), &mut history, rng, by_esker);
        }
        let model = &history.model;
        for _ in 0..4 {
            let (ours, theirs) = (TempDir::new("best-esker"), TempDir::new("best-rocksdb"));
            copy_files(dir.path(), ours.path());
            let lacks_blobs = spoil(ours.path(), all.path(), rng);
            copy_files(ours.path(), theirs.path());
            let found =
                (esker(ours.path(), model), rocksdb(theirs.path(), model, "best_efforts_recovery=true;"));
            match found {
                (Ok(found), Ok(expected)) => {
                    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                        match (history.find(i, found), history.find(i, expected)) {
                            // RocksDB misses no blob file that is not the oldest one of a table.
                            (Some((_, ours)), Some((theirs, _))) => {
                                assert!(ours >= theirs || lacks_blobs, "family {i}");
                            }
                            (Some(_), None) => never += 1,
                            // The MANIFEST of a second opening does not tell the age of deeper
                            // tables.
                            (None, _) => assert!(openings > 1 && found == expected, "family {i}"),
                        }
                        let is_same = found == expected;
                        (same, newer) = (same + u32::from(is_same), newer + u32::from(!is_same));
                        lossy += u32::from(found != &model.contents(&model.families[i]));
                    }
                    let again = rocksdb(ours.path(), model, "").expect("RocksDB opens Esker's result");
                    assert_eq!(again, found);
                    assert_eq!(esker(theirs.path(), model).expect("Esker opens RocksDB's"), expected);
                }
                (Ok(found), Err(error)) => {
                    let was_so = |(i, found)| history.find(i, found).is_some();
                    assert!(openings > 1 || found.iter().enumerate().all(was_so), "RocksDB: {error}");
                    alone += 1;
                }
                (Err(_), Err(_)) => refused += 1,
                (Err(error), Ok(_)) => panic!("RocksDB opens this directory: {error}"),
            }
        }
    });
    assert!(lossy > 20);
    esker_peer::note(&format!(
        "best efforts: {same} families as RocksDB recovers them, {newer} others (RocksDB's never was so: \
         {never}); {lossy} with losses; {alone} directories that RocksDB alone refuses, {refused} both"
    ));
}
