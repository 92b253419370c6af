//! `db_paths` and `cf_paths`: RocksDB 11.8.1 and Esker use the same directories of tables.

use crate::peer_process::{check_open_11, check_open_esker, db_options, small_files};
use esker::options::{CompactionStyle, CompressionType, DbPath};
use esker::{BackupEngine, BackupEngineOptions, ColumnFamilyOptions, Db, DbOptions, WriteOptions};
use esker_peer::model_ops::{Kinds, PeerOp, write_to_esker};
use esker_peer::{FamilySpec, ModelOps, RocksDb, WriteFlags, require};
use esker_testkit::{TempDir, seed};
use std::path::{Path, PathBuf};

/// The options of [`small_files`] for RocksDB.
const ROCKSDB_SMALL: &str = "write_buffer_size=65536;target_file_size_base=32768;\
    max_bytes_for_level_base=131072;max_bytes_for_level_multiplier=3;\
    level0_file_num_compaction_trigger=3;compression=kNoCompression;\
    level_compaction_dynamic_level_bytes=false;block_based_table_factory={format_version=5};";

/// Sizes of the paths. Levels 0 and 1 (128 KiB each) fit into the first, level 2 (384 KiB) into the
/// second, and deeper levels go to the last.
const SIZES: [u64; 3] = [300 << 10, 500 << 10, u64::MAX];
const PATH_OF_LEVEL: [usize; 7] = [0, 0, 1, 2, 2, 2, 2];

/// Paths in `dir` whose names begin with `name`, and their sizes.
fn paths(dir: &Path, name: &str) -> Vec<(PathBuf, u64)> {
    SIZES.iter().zip(0..).map(|(size, i)| (dir.join(format!("{name}{i}")), *size)).collect()
}

fn esker_paths(paths: &[(PathBuf, u64)]) -> Vec<DbPath> {
    paths.iter().map(|(path, size)| DbPath::new(path, *size)).collect()
}

/// The database in `dir/db`. One family has paths of its own.
struct Scene {
    dir: TempDir,
    model: ModelOps,
    style: CompactionStyle,
}

impl Scene {
    fn new(name: &str, style: CompactionStyle) -> Scene {
        Scene { dir: TempDir::new(name), model: ModelOps::varied(), style }
    }

    fn db(&self) -> PathBuf {
        self.dir.path().join("db")
    }

    fn esker_options(&self) -> (DbOptions, ColumnFamilyOptions) {
        let db = DbOptions { db_paths: esker_paths(&paths(self.dir.path(), "db-")), ..db_options() };
        let mut family = small_files(CompressionType::None);
        family.compaction_style = self.style;
        (db, family)
    }

    fn open_esker(&self, auto_compactions: bool) -> Db {
        let (db, mut options) = self.esker_options();
        options.disable_auto_compactions = !auto_compactions;
        let mut families = self.model.descriptors(&options);
        families[1].options.cf_paths = esker_paths(&paths(self.dir.path(), "cf-"));
        Db::open_cf(&db, self.db(), families).unwrap_or_else(|e| panic!("Esker: {e}"))
    }

    fn open_rocksdb(&self) -> RocksDb {
        let style = match self.style {
            CompactionStyle::Universal => "compaction_style=kCompactionStyleUniversal;",
            _ => "",
        };
        let mut families: Vec<FamilySpec> = self.model.specs(&format!("{ROCKSDB_SMALL}{style}"));
        families[1].paths = paths(self.dir.path(), "cf-");
        let make = "create_if_missing=true;create_missing_column_families=true;";
        RocksDb::open_in_paths(&self.db(), make, &paths(self.dir.path(), "db-"), &families)
            .unwrap_or_else(|e| panic!("RocksDB 11.8.1: {e}"))
    }

    /// Checks that each table is in its family's path for its level, and nowhere else, whichever
    /// engine placed it. Returns the number of paths that have tables.
    fn check_places(&self, when: &str) -> usize {
        let db = self.open_esker(false);
        check_open_esker(&db, &self.model, when);
        let own = &self.model.families[1].name;
        let mut used: Vec<PathBuf> = Vec::new();
        for file in db.live_files() {
            let list = if file.column_family_name == *own { "cf-" } else { "db-" };
            let paths = paths(self.dir.path(), list);
            let at = paths.iter().position(|(path, _)| *path == file.directory);
            let at = at.unwrap_or_else(|| panic!("{when}: {file:?} is in none of {paths:?}"));
            assert!(file.directory.join(&file.relative_filename).exists(), "{when}: {file:?}");
            if self.style == CompactionStyle::Level {
                assert_eq!(at, PATH_OF_LEVEL[file.level], "{when}: {file:?}");
            }
            used.push(file.directory.clone());
        }
        db.close().expect("closes");
        used.sort();
        used.dedup();
        used.len()
    }

    fn esker_writes(&mut self, rng: &mut fastrand::Rng, when: &str) {
        let db = self.open_esker(true);
        check_open_esker(&db, &self.model, when);
        for _ in 0..rng.usize(20..60) {
            let ops = self.random_ops(rng);
            write_to_esker(&db, &ops, &WriteOptions::default()).expect("written");
        }
        if rng.bool() {
            db.flush().expect("flushes");
        }
        db.wait_for_background_work().expect("no background error");
        check_open_esker(&db, &self.model, when);
        db.close().expect("closes");
    }

    fn rocksdb_writes(&mut self, rng: &mut fastrand::Rng, when: &str) {
        let db = self.open_rocksdb();
        check_open_11(&db, &self.model, when);
        for _ in 0..rng.usize(20..60) {
            let ops = self.random_ops(rng);
            db.write(&ops, WriteFlags::default()).unwrap_or_else(|e| panic!("{when}: {e}"));
        }
        if rng.bool() {
            db.flush("default").unwrap_or_else(|e| panic!("{when}: {e}"));
        }
        db.wait_for_compact().unwrap_or_else(|e| panic!("{when}: {e}"));
        check_open_11(&db, &self.model, when);
    }

    /// Random operations, with values that fill levels.
    fn random_ops(&mut self, rng: &mut fastrand::Rng) -> Vec<PeerOp> {
        let mut ops = self.model.random_ops(rng, 10, Kinds::ALL);
        for family in ["default".to_owned(), self.model.families[1].name.clone()] {
            let key = format!("filler{:05}", rng.u32(..4000)).into_bytes();
            let value = std::iter::repeat_with(|| rng.u8(..)).take(8000).collect();
            let op = PeerOp::Put { family, key, value };
            self.model.apply(&op);
            ops.push(op);
        }
        ops
    }
}

#[test]
fn rocksdb_and_esker_put_tables_into_the_same_paths_in_turn() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    seed::for_each_seed("paths", 2, |_, mut rng| {
        let mut scene = Scene::new("peer-paths", CompactionStyle::Level);
        let mut used = 0;
        for round in 0..6 {
            if (round % 2 == 0) == rng.bool() {
                scene.esker_writes(&mut rng, &format!("round {round}, Esker"));
            } else {
                scene.rocksdb_writes(&mut rng, &format!("round {round}, 11.8.1"));
            }
            used = used.max(scene.check_places(&format!("after round {round}")));
        }
        assert!(used >= 5, "{used} of 6 directories have had tables");
        check_open_11(&scene.open_rocksdb(), &scene.model, "the end");
    });
}

#[test]
fn universal_runs_in_several_paths_are_read_by_both() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    seed::for_each_seed("universal paths", 1, |_, mut rng| {
        let mut scene = Scene::new("peer-paths-universal", CompactionStyle::Universal);
        for round in 0..2 {
            scene.rocksdb_writes(&mut rng, &format!("round {round}, 11.8.1"));
            scene.check_places(&format!("11.8.1 of round {round}"));
            scene.esker_writes(&mut rng, &format!("round {round}, Esker"));
            scene.check_places(&format!("Esker of round {round}"));
        }
        check_open_11(&scene.open_rocksdb(), &scene.model, "the end");
    });
}

#[test]
fn rocksdb_reads_a_checkpoint_and_a_backup_of_several_paths_as_one_directory() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let mut rng = seed::rng("paths checkpoint");
    let mut scene = Scene::new("peer-paths-checkpoint", CompactionStyle::Level);
    scene.esker_writes(&mut rng, "Esker");
    scene.esker_writes(&mut rng, "Esker again");
    assert!(scene.check_places("Esker") >= 3);
    let (copy, backup, restored) =
        (scene.dir.path().join("copy"), scene.dir.path().join("backup"), scene.dir.path().join("restored"));
    let db = scene.open_esker(true);
    db.create_checkpoint(&copy, u64::MAX).expect("made");
    let mut backups = BackupEngine::open(&BackupEngineOptions::new(&backup)).expect("opened");
    backups.create_new_backup(&db, true).expect("made");
    backups.restore_db_from_latest_backup(&restored, &restored).expect("restored");
    drop(db);
    for dir in [copy, restored] {
        let when = format!("RocksDB 11.8.1 in {}", dir.display());
        let db = RocksDb::open(&dir, "", &scene.model.specs(ROCKSDB_SMALL)).expect("RocksDB 11.8.1 opens it");
        check_open_11(&db, &scene.model, &when);
        db.compact("default");
        check_open_11(&db, &scene.model, &when);
    }
}

#[test]
fn both_refuse_lists_of_five_and_fifo_with_two() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let dir = TempDir::new("peer-paths-refused");
    let five: Vec<(PathBuf, u64)> = (0..5).map(|i| (dir.path().join(i.to_string()), 1 << 20)).collect();
    let open_rocksdb = |paths: &[(PathBuf, u64)], family: &str| {
        let families = [FamilySpec::new("default", family)];
        RocksDb::open_in_paths(&dir.path().join("db"), "create_if_missing=true;", paths, &families)
    };
    let open_esker = |paths: &[(PathBuf, u64)], style| {
        let options = DbOptions { db_paths: esker_paths(paths), ..db_options() };
        let family = ColumnFamilyOptions::new().compaction_style(style);
        Db::open_cf(&options, dir.path().join("db"), [("default", family)])
    };
    let theirs = open_rocksdb(&five, "").expect_err("five paths");
    let ours = open_esker(&five, CompactionStyle::Level).expect_err("five paths").to_string();
    assert!(
        theirs.starts_with("Not implemented: ") && ours.starts_with("Not implemented: "),
        "{theirs}; {ours}"
    );
    let theirs = open_rocksdb(&five[..2], "compaction_style=kCompactionStyleFIFO").expect_err("FIFO");
    let ours = open_esker(&five[..2], CompactionStyle::Fifo).expect_err("FIFO").to_string();
    assert!(
        theirs.starts_with("Not implemented: ") && ours.starts_with("Not implemented: "),
        "{theirs}; {ours}"
    );
    drop(open_rocksdb(&five[..4], "").expect("four are allowed"));
    open_esker(&five[..4], CompactionStyle::Level).expect("four are allowed");
}
