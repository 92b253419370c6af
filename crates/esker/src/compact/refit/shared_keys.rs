//! Versions of one user key in neighbouring files of a level. Esker makes no such levels. RocksDB
//! does: it moves files of level 0 down unchanged if they share only the key at their border. A
//! reader that finds its key at a file's end continues into the next file. A compaction takes all
//! files that share a key.

use super::log_move;
use crate::DbIterator;
use crate::options::{BottommostLevelCompaction, CompactRangeOptions};
use crate::{Db, Env, Options, ReadOptions, Snapshot, SstFileWriter};
use esker_base::sync::Arc;
use esker_env::mem::MemFs;
use esker_table::FilterPolicy;
use esker_testkit::seed;
use std::collections::BTreeMap;

type Model = BTreeMap<String, String>;

fn options(rng: &mut fastrand::Rng) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    let cf = &mut options.cf;
    cf.merge_operator = crate::builtin::merge_operator("stringappend");
    cf.table.filter_policy = rng.bool().then(|| FilterPolicy::bloom(10.0));
    cf.disable_auto_compactions = true;
    cf.level_compaction_dynamic_level_bytes = rng.bool();
    cf.target_file_size_base = 1 << rng.u32(7..12);
    options
}

struct History {
    options: Options,
    db: Db,
    model: Model,
    points: Vec<(Snapshot, Model)>,
}

impl History {
    fn put(&mut self, key: String, value: String) {
        self.db.put(&key, &value).unwrap();
        self.model.insert(key, value);
    }

    fn delete_range(&mut self, begin: &str, end: &str) {
        self.db.delete_range(begin, end).unwrap();
        self.model.retain(|key, _| !(begin..end).contains(&key.as_str()));
    }

    /// One write to the shared key, and perhaps a snapshot of it.
    fn touch(&mut self, key: &str, value: String, rng: &mut fastrand::Rng) {
        match rng.u8(..4) {
            0 => self.put(key.to_owned(), value),
            1 => {
                self.db.delete(key).unwrap();
                self.model.remove(key);
            }
            _ => {
                self.db.merge(key, &value).unwrap();
                let whole = self.model.entry(key.to_owned()).or_default();
                *whole = if whole.is_empty() { value } else { format!("{whole},{value}") };
            }
        }
        if rng.u8(..3) > 0 {
            self.points.push((self.db.snapshot(), self.model.clone()));
        }
    }

    /// Makes at least three files of level 0 that share one user key. The oldest holds the keys
    /// above it, the newest the keys below.
    fn fill(&mut self, round: usize, rng: &mut fastrand::Rng) -> u64 {
        let shared = format!("{round}k");
        for i in 0..rng.usize(1..20) {
            self.put(format!("{round}m{i:02}"), format!("right{i}"));
        }
        if rng.bool() {
            self.delete_range(&shared, &format!("{round}m{:02}", rng.usize(..20)));
        }
        let files = rng.u64(2..6);
        for file in 0..files {
            for i in 0..rng.usize(1..4) {
                self.touch(&shared, format!("{file}.{i}"), rng);
            }
            if file + 1 == files {
                for i in 0..rng.usize(1..20) {
                    self.put(format!("{round}c{i:02}"), format!("left{i}"));
                }
                if rng.bool() {
                    self.delete_range(&format!("{round}c{:02}", rng.usize(..20)), &shared);
                }
            }
            self.db.flush().unwrap();
        }
        files
    }

    fn check(&self, what: &str) {
        for (snapshot, model) in &self.points {
            check(&self.db, Some(snapshot), model, what);
        }
        check(&self.db, None, &self.model, what);
    }

    /// Moves all files of level 0 to `level` as they are.
    fn move_down(&self, level: usize) {
        let engine = self.db.engine();
        let mut manifest = engine.manifest.lock();
        let family = self.db.default_column_family();
        let version = engine.state.lock().families[&family.id()].version.clone();
        log_move(engine, &mut manifest, &version, 0, level).unwrap();
    }

    fn num_files(&self, level: usize) -> u64 {
        let levels = self.db.map_property("rocksdb.levelstats").unwrap();
        levels[&format!("L{level}.num_files")].parse().unwrap()
    }
}

fn entry(iter: &DbIterator) -> Option<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    iter.status().unwrap();
    iter.valid().then(|| (text(iter.key()), text(iter.value())))
}

fn check(db: &Db, snapshot: Option<&Snapshot>, model: &Model, what: &str) {
    let default = db.default_column_family();
    let read = || snapshot.map_or_else(ReadOptions::new, |s| ReadOptions::new().snapshot(s));
    let rounds = 0..8;
    let keys: Vec<String> =
        rounds.flat_map(|r| ["c00", "c07", "k", "m00", "m11", "z"].map(|k| format!("{r}{k}"))).collect();
    let many = db.multi_get_opt(&read(), &default, &keys);
    for (key, many) in keys.iter().zip(many) {
        let expected = model.get(key).map(String::as_bytes);
        assert_eq!(db.get_opt(&read(), &default, key).unwrap().as_deref(), expected, "{what}: {key}");
        assert_eq!(many.unwrap().as_deref(), expected, "{what}: {key} of many");
    }
    let all: Vec<(String, String)> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let mut iter = db.iter_opt(read(), &default).unwrap();
    iter.seek_to_first();
    let mut found = Vec::new();
    while let Some(entry) = entry(&iter) {
        found.push(entry);
        iter.next();
    }
    assert_eq!(found, all, "{what}: forward");
    iter.seek_to_last();
    found.clear();
    while let Some(entry) = entry(&iter) {
        found.push(entry);
        iter.prev();
    }
    found.reverse();
    assert_eq!(found, all, "{what}: backward");
    for key in &keys {
        let at = all.partition_point(|(k, _)| k < key);
        iter.seek(key);
        assert_eq!(entry(&iter).as_ref(), all.get(at), "{what}: seek {key}");
        if iter.valid() {
            iter.prev();
            assert_eq!(entry(&iter).as_ref(), at.checked_sub(1).map(|i| &all[i]), "{what}: before {key}");
        }
        let behind = all.partition_point(|(k, _)| k <= key);
        iter.seek_for_prev(key);
        assert_eq!(
            entry(&iter).as_ref(),
            behind.checked_sub(1).map(|i| &all[i]),
            "{what}: seek_for_prev {key}"
        );
        if iter.valid() {
            iter.next();
            assert_eq!(entry(&iter).as_ref(), all.get(behind), "{what}: behind {key}");
        }
    }
}

fn rewrite_some(history: &mut History, round: usize, rng: &mut fastrand::Rng) {
    let default = history.db.default_column_family();
    let round = rng.usize(..=round);
    let edge = |k: &str| format!("{round}{k}");
    match rng.u8(..4) {
        0 => {
            // A newer version at one end: its compaction takes all files that share the key.
            history.put(edge("c00"), "again".to_owned());
            history.db.compact_range(Some(edge("c").as_bytes()), Some(edge("d").as_bytes())).unwrap();
        }
        1 => {
            history.touch(&edge("k"), "again".to_owned(), rng);
            history.db.compact_range(Some(edge("k").as_bytes()), Some(edge("k").as_bytes())).unwrap();
        }
        2 => {
            let path = format!("/{}.sst", history.db.latest_sequence_number().0);
            let mut writer = SstFileWriter::new(&history.options);
            writer.open(&path).unwrap();
            writer.put(edge("k"), b"ingested").unwrap();
            writer.finish().unwrap();
            history.db.ingest_external_file(&[path]).unwrap();
            history.model.insert(edge("k"), "ingested".to_owned());
        }
        _ => {
            let force = CompactRangeOptions {
                bottommost_level_compaction: BottommostLevelCompaction::Force,
                ..CompactRangeOptions::default()
            };
            let (begin, end) = (edge("m"), edge("z"));
            history
                .db
                .compact_range_opt(&force, &default, Some(begin.as_bytes()), Some(end.as_bytes()))
                .unwrap();
        }
    }
}

#[test]
fn versions_of_a_key_in_neighbouring_files_are_found_and_compacted_together() {
    seed::for_each_seed("shared keys", 16, |_, mut rng| {
        let options = options(&mut rng);
        let bottom = if options.cf.level_compaction_dynamic_level_bytes { 6 } else { 1 };
        let db = Db::open(&options, "/db").unwrap();
        let mut history = History { options: options.clone(), db, model: Model::new(), points: Vec::new() };
        for round in 0..rng.usize(1..5) {
            let before = history.num_files(bottom);
            let files = history.fill(round, &mut rng);
            history.check("in level 0");
            if history.num_files(0) == files {
                history.move_down(bottom);
                assert_eq!((history.num_files(0), history.num_files(bottom)), (0, before + files));
            } else {
                // Files that the previous round left in level 0 overlap the level below.
                history.db.compact_range(None, None).unwrap();
            }
            history.check("moved");
            rewrite_some(&mut history, round, &mut rng);
            history.check("rewritten in part");
            while history.points.len() > 6 {
                history.points.swap_remove(rng.usize(..history.points.len()));
            }
        }
        history.points.clear();
        history.db.close().unwrap();
        history.db = Db::open(&options, "/db").unwrap();
        history.check("opened again");
        history.db.compact_range(None, None).unwrap();
        history.check("compacted");
    });
}
