//! Databases with several directories for tables: `db_paths` and `cf_paths`.
#![expect(clippy::disallowed_methods, reason = "the tests look at directories, and change them")]

use esker::internals::env::fault::{FaultRule, OpKind};
use esker::internals::env::{FaultFs, mem::MemFs};
use esker::options::{CompactionStyle, DbPath};
use esker::{
    BackupEngine, BackupEngineOptions, ColumnFamilyDescriptor, CompactRangeOptions, CompactionOptions, Db,
    Env, Error, ErrorKind, OpenMode, Options, SstFileWriter, destroy_db, destroy_db_cf, repair_db,
};
use esker_testkit::TempDir;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Longer than any job of these tests takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A database in `db`. Its tables of levels 0 and 1 go to the path `fast`, the others to `slow`.
struct Place {
    dir: TempDir,
    options: Options,
}

impl Place {
    fn new(name: &str) -> Place {
        let dir = TempDir::new(name);
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.max_background_jobs = 4;
        options.db.db_paths =
            vec![DbPath::new(dir.join("fast"), 256 << 10), DbPath::new(dir.join("slow"), 100 * MIB)];
        options.cf.write_buffer_size = 64 << 10;
        options.cf.max_bytes_for_level_base = 128 << 10;
        options.cf.target_file_size_base = 64 << 10;
        Place { dir, options }
    }

    fn db(&self) -> PathBuf {
        self.dir.join("db")
    }

    fn fast(&self) -> PathBuf {
        self.dir.join("fast")
    }

    fn slow(&self) -> PathBuf {
        self.dir.join("slow")
    }

    fn open(&self) -> Db {
        Db::open(&self.options, self.db()).unwrap()
    }

    fn refused(&self) -> Error {
        Db::open(&self.options, self.db()).unwrap_err()
    }

    /// A closed database with tables in both paths.
    fn filled(name: &str) -> Place {
        let place = Place::new(name);
        let db = place.open();
        fill(&db, 0);
        settle(&db);
        assert!(!tables_in(&place.fast()).is_empty(), "level 0 is in the first path");
        assert!(!tables_in(&place.slow()).is_empty(), "deep levels are in the last path");
        db.close().unwrap();
        place
    }
}

/// Puts 1000 values that do not compress, half a MiB together.
fn fill(db: &Db, from: u32) {
    let mut random = esker::internals::base::rng::Rng::new(u64::from(from) + 1);
    for i in from..from + 1000 {
        let value: Vec<u8> = (0..500).map(|_| (random.next_u64() >> 24) as u8).collect();
        db.put(format!("{i:06}"), [i.to_string().as_bytes(), &value].concat()).unwrap();
    }
}

/// Waits until compactions end, then adds one more file to level 0.
fn settle(db: &Db) {
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    db.put("000000", "0 newest").unwrap();
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
}

fn check(db: &Db) {
    check_contents(db);
    db.verify_checksum().unwrap();
}

fn check_contents(db: &Db) {
    for i in 0..1000 {
        let value = db.get(format!("{i:06}")).unwrap().unwrap_or_else(|| panic!("{i} is gone"));
        assert!(value.starts_with(i.to_string().as_bytes()), "{i}");
    }
    assert_eq!(db.iter().unwrap().count_all(), 1000);
}

trait CountAll {
    fn count_all(self) -> usize;
}

impl CountAll for esker::DbIterator {
    fn count_all(mut self) -> usize {
        self.seek_to_first();
        let mut count = 0;
        while self.valid() {
            count += 1;
            self.next();
        }
        self.status().unwrap();
        count
    }
}

fn names(dir: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return BTreeSet::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn tables_in(dir: &Path) -> BTreeSet<String> {
    names(dir).into_iter().filter(|name| name.ends_with(".sst")).collect()
}

/// Each live table is in the directory that its metadata give, and no directory has another table.
fn check_places(db: &Db, dirs: &[PathBuf]) {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut expected: BTreeMap<&Path, BTreeSet<String>> =
            dirs.iter().map(|dir| (dir.as_path(), BTreeSet::new())).collect();
        for file in db.live_files() {
            expected.get_mut(&*file.directory).unwrap().insert(file.relative_filename.clone());
        }
        let found: BTreeMap<&Path, _> = dirs.iter().map(|dir| (dir.as_path(), tables_in(dir))).collect();
        if found == expected {
            return;
        }
        assert!(Instant::now() < end, "on disk {found:?}, live {expected:?}");
        // Compactions and deletions of obsolete files continue in the background.
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn new_tables_are_in_the_first_path_and_old_ones_in_the_last() {
    let place = Place::filled("paths-levels");
    assert!(tables_in(&place.db()).is_empty(), "the database's directory is none of its paths");
    let db = place.open();
    check(&db);
    check_places(&db, &[place.db(), place.fast(), place.slow()]);
    for file in db.live_files() {
        let expected = if file.level < 2 { place.fast() } else { place.slow() };
        assert_eq!(file.file.directory, expected, "level {}", file.level);
    }
    let options = db.options_cf(&db.default_column_family());
    assert!(!options.level_compaction_dynamic_level_bytes, "paths are by static level sizes");
    assert_eq!(options.cf_paths, place.options.db.db_paths);
    // A compaction's inputs are deleted in every path.
    fill(&db, 0);
    settle(&db);
    db.compact_range(None, None).unwrap();
    check(&db);
    check_places(&db, &[place.db(), place.fast(), place.slow()]);
}

#[test]
fn runs_of_the_universal_style_go_to_the_first_path_that_has_room() {
    let mut place = Place::new("paths-universal");
    place.options.cf.compaction_style = CompactionStyle::Universal;
    place.options.cf.level0_file_num_compaction_trigger = 2;
    let db = place.open();
    fill(&db, 0);
    settle(&db);
    check(&db);
    let largest = db.live_files().into_iter().max_by_key(|file| file.level).unwrap();
    assert_eq!(largest.file.directory, place.slow(), "half a MiB does not fit into 256 KiB");
    check_places(&db, &[place.db(), place.fast(), place.slow()]);
}

#[test]
fn compactions_by_hand_write_to_the_path_they_are_given() {
    let place = Place::filled("paths-by-hand");
    let db = place.open();
    let family = db.default_column_family();
    let all = |target| {
        let force = esker::options::BottommostLevelCompaction::Force;
        CompactRangeOptions::default().bottommost_level_compaction(force).target_path_id(target)
    };
    let directories = || -> BTreeSet<PathBuf> {
        db.live_files().into_iter().map(|file| file.file.directory.clone()).collect()
    };
    for (target, directory) in [(0, place.fast()), (1, place.slow())] {
        db.compact_range_opt(&all(target), &family, None, None).unwrap();
        assert_eq!(directories(), [directory].into());
    }
    db.compact_range_opt(&all(0), &family, None, None).unwrap();
    db.compact_range_opt(&all(CompactRangeOptions::PATH_OF_LEVEL), &family, None, None).unwrap();
    let level = db.live_files()[0].level;
    assert_eq!(directories(), [if level < 2 { place.fast() } else { place.slow() }].into());
    let e = db.compact_range_opt(&all(2), &family, None, None).unwrap_err();
    assert_eq!((e.kind(), e.message()), (ErrorKind::InvalidArgument, "Invalid target path ID"));

    let numbers = || db.live_files().iter().map(|file| file.file.file_number).collect::<Vec<_>>();
    for (path, directory) in [(0, place.fast()), (1, place.slow())] {
        let options = CompactionOptions::default().output_path_id(path);
        db.compact_files(&options, &family, &numbers(), 6).unwrap();
        assert_eq!(directories(), [directory].into());
    }
    db.compact_files(&CompactionOptions::default(), &family, &numbers(), 6).unwrap();
    assert_eq!(directories(), [place.slow()].into());
    let options = CompactionOptions::default().output_path_id(2);
    let e = db.compact_files(&options, &family, &numbers(), 6).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    check(&db);
    check_places(&db, &[place.db(), place.fast(), place.slow()]);
}

#[test]
fn a_family_has_paths_of_its_own_from_its_creation_to_its_end() {
    let mut place = Place::new("paths-families");
    place.options.db.create_missing_column_families = true;
    place.options.cf.enable_blob_files = true;
    place.options.cf.min_blob_size = 400;
    let (own, later) = (place.dir.join("own"), place.dir.join("sub/later"));
    let of_own = place.options.cf.clone().cf_paths(vec![DbPath::new(&own, u64::MAX)]);
    let of_later = place.options.cf.clone().cf_paths(vec![DbPath::new(&later, u64::MAX)]);
    let families = || {
        [("default", place.options.cf.clone()), ("own", of_own.clone()), ("later", of_later.clone())]
            .map(ColumnFamilyDescriptor::from)
    };
    let db = Db::open_cf(&place.options.db, place.db(), families()[..2].to_vec()).unwrap();
    let made = db.create_column_family("later", &of_later).unwrap();
    for name in ["default", "own", "later"] {
        let family = db.column_family(name).unwrap();
        db.put_cf(&family, "small", name).unwrap();
        db.put_cf(&family, "large", name.repeat(200)).unwrap();
        db.flush_opt(&Default::default(), &[&family]).unwrap();
    }
    for dir in [&place.fast(), &own, &later] {
        let found = names(dir);
        assert_eq!(found.iter().filter(|name| name.ends_with(".sst")).count(), 1, "{found:?}");
        assert_eq!(found.iter().filter(|name| name.ends_with(".blob")).count(), 1, "{found:?}");
    }
    let metadata = db.column_family_metadata(&made);
    assert_eq!(metadata.blob_files[0].blob_file_path, later);
    drop(made);
    db.close().unwrap();
    drop(db);

    // The next open checks the sizes and contents of the files.
    let db = Db::open_cf(&place.options.db, place.db(), families()).unwrap();
    for name in ["default", "own", "later"] {
        let family = db.column_family(name).unwrap();
        assert_eq!(db.get_cf(&family, "large").unwrap().unwrap(), name.repeat(200).as_bytes());
    }
    let family = db.column_family("later").unwrap();
    db.drop_column_family(&family).unwrap();
    drop(family);
    db.wait_for_background_work().unwrap();
    assert_eq!(names(&later), BTreeSet::new(), "files of a dropped family are deleted in every path");
    db.close().unwrap();
    drop(db);
    destroy_db_cf(&place.options.db, place.db(), &families()).unwrap();
    assert_eq!(
        names(place.dir.path()),
        ["sub".to_owned()].into(),
        "the database's own directories are deleted"
    );
    assert_eq!(names(&place.dir.join("sub")), BTreeSet::new());
}

#[test]
fn a_checkpoint_of_several_paths_is_one_directory() {
    let place = Place::filled("paths-checkpoint");
    let db = place.open();
    let copy = place.dir.join("copy");
    db.create_checkpoint(&copy, u64::MAX).unwrap();
    drop(db);
    let mut options = place.options.clone();
    options.db.db_paths.clear();
    let opened = Db::open_for_read_only(&options, &copy).unwrap();
    check(&opened);
    drop(opened);
    // The copy's MANIFEST has all tables in the first path, so later paths may be added.
    options.db.db_paths = vec![DbPath::new(&copy, 256 << 10), DbPath::new(place.dir.join("new"), MIB)];
    let db = Db::open(&options, &copy).unwrap();
    check(&db);
    db.compact_range(None, None).unwrap();
    check(&db);
}

#[test]
fn a_backup_of_several_paths_is_restored_into_one_directory() {
    let place = Place::filled("paths-backup");
    let db = place.open();
    let mut backups = BackupEngine::open(&BackupEngineOptions::new(place.dir.join("backups"))).unwrap();
    backups.create_new_backup(&db, true).unwrap();
    let shared = names(&place.dir.join("backups/shared_checksum")).len();
    assert_eq!(shared, db.live_files().len());
    let restored = place.dir.join("restored");
    backups.restore_db_from_latest_backup(&restored, &restored).unwrap();
    let mut options = place.options.clone();
    options.db.db_paths.clear();
    check(&Db::open(&options, &restored).unwrap());
}

#[test]
fn tables_from_elsewhere_come_into_the_first_path() {
    let place = Place::filled("paths-ingest");
    let db = place.open();
    let family = db.default_column_family();
    let export = db.export_column_family(&family, place.dir.join("export")).unwrap();
    let own = place.dir.join("own");
    let options = place.options.cf.clone().cf_paths(vec![DbPath::new(&own, u64::MAX)]);
    let imported =
        db.create_column_family_with_import(&Default::default(), "imported", &options, &export).unwrap();
    assert_eq!(tables_in(&own).len(), export.files.len());
    assert_eq!(db.get_cf(&imported, "000000").unwrap().unwrap(), b"0 newest");

    let source = place.dir.join("made.sst");
    let mut writer = SstFileWriter::new(&place.options);
    writer.open(&source).unwrap();
    writer.put(b"a", b"ingested").unwrap();
    writer.finish().unwrap();
    let before = tables_in(&place.fast());
    db.ingest_external_file(&[source]).unwrap();
    assert_eq!(tables_in(&place.fast()).difference(&before).count(), 1);
    assert_eq!(db.get("a").unwrap().unwrap(), b"ingested");
}

#[test]
fn leftovers_of_a_crash_go_from_every_path_and_nothing_else() {
    let place = Place::filled("paths-leftovers");
    for dir in [place.db(), place.fast(), place.slow()] {
        for name in ["900000.sst", "900001.blob", "900002.sst.trash", "notes.txt", "900003.txt"] {
            std::fs::write(dir.join(name), "left").unwrap();
        }
    }
    // An open deletes a file of this name from the database's own directory, but not from a path.
    std::fs::write(place.slow().join("MANIFEST-000001"), "another's").unwrap();
    let db = place.open();
    check(&db);
    db.put("new", "value").unwrap();
    db.flush().unwrap();
    assert!(db.live_files().iter().any(|file| file.file.file_number.0 > 900_001), "no number is used twice");
    for dir in [place.db(), place.fast(), place.slow()] {
        let left = names(&dir);
        assert!(left.contains("notes.txt") && left.contains("900003.txt"), "{left:?}");
        assert!(!left.contains("900000.sst") && !left.contains("900001.blob"), "{left:?}");
        assert!(!left.contains("900002.sst.trash"), "{left:?}");
    }
    assert!(place.slow().join("MANIFEST-000001").exists());
}

#[test]
fn a_path_that_is_not_there_is_named_and_not_made() {
    let mut place = Place::filled("paths-missing");
    let away = place.dir.join("away");
    std::fs::rename(place.slow(), &away).unwrap();
    for (is_read_only, paranoid_checks) in [(false, true), (true, true)] {
        place.options.db.paranoid_checks = paranoid_checks;
        let e = match is_read_only {
            false => place.refused(),
            true => Db::open_for_read_only(&place.options, place.db()).unwrap_err(),
        };
        let message = e.to_string();
        assert_eq!(e.kind(), ErrorKind::Corruption, "{message}");
        assert!(
            message.contains("slow") && message.contains(".sst"),
            "the message names the file: {message}"
        );
        assert!(
            message.contains("path 1 of db_paths or cf_paths"),
            "the message names the option: {message}"
        );
        assert!(!place.slow().exists(), "a file system that is not mounted is not written to");
    }
    std::fs::rename(&away, place.slow()).unwrap();
    check(&place.open());
}

#[test]
fn a_path_id_beyond_the_list_means_the_last_path_as_in_rocksdb() {
    let mut place = Place::filled("paths-beyond");
    // An open without the last path misses its tables and changes nothing.
    let slow = place.options.db.db_paths.pop().unwrap();
    for paranoid_checks in [true, false] {
        place.options.db.paranoid_checks = paranoid_checks;
        let e = place.refused();
        assert!(e.message().contains("path 1 of db_paths or cf_paths"), "{e}");
    }
    place.options.db.paranoid_checks = true;
    // After a move of its tables into the path that is now the last, it opens.
    for name in tables_in(&place.slow()) {
        std::fs::rename(place.slow().join(&name), place.fast().join(&name)).unwrap();
    }
    let reader = Db::open_for_read_only(&place.options, place.db()).unwrap();
    check(&reader);
    drop(reader);
    let db = place.open();
    check(&db);
    check_places(&db, &[place.fast(), place.slow()]);
    drop(db);
    place.options.db.db_paths.push(slow);
    let db = place.open();
    check(&db);
    check_places(&db, &[place.fast(), place.slow()]);
}

#[test]
fn directories_of_other_databases_are_refused() {
    let place = Place::filled("paths-foreign");
    let mut other = place.options.clone();
    other.db.db_paths = vec![DbPath::new(place.db(), MIB)];
    let e = Db::open(&other, place.dir.join("other")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert!(e.message().contains("the directory of another database"), "{e}");
    // A new database does not adopt existing tables in its path, either.
    other.db.db_paths = vec![DbPath::new(place.fast(), MIB)];
    let e = Db::open(&other, place.dir.join("another")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    other.db.db_paths.clear();
    let db = Db::open(&other, place.dir.join("third")).unwrap();
    let options = other.cf.clone().cf_paths(vec![DbPath::new(place.db(), MIB)]);
    let e = db.create_column_family("cf", &options).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    drop(db);
    other.db.db_paths = vec![DbPath::new(place.db(), MIB)];
    let e = destroy_db(&other.db, place.dir.join("third")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    check(&place.open());
}

#[test]
fn the_database_s_own_directory_may_be_a_path_by_any_name() {
    let mut place = Place::new("paths-own");
    let link = place.dir.join("link");
    std::os::unix::fs::symlink(place.db(), &link).unwrap();
    place.options.db.db_paths[0].path = link.clone();
    place.options.db.db_paths[1].path = place.db();
    let db = place.open();
    fill(&db, 0);
    settle(&db);
    check(&db);
    drop(db);
    let db = place.open();
    check(&db);
    assert!(db.live_files().iter().all(|file| [&link, &place.db()].contains(&&file.file.directory)));
    assert_eq!(tables_in(&place.db()).len(), db.live_files().len());
}

#[test]
fn lists_that_no_manifest_can_name_and_styles_without_use_for_paths_are_refused() {
    let mut place = Place::new("paths-refused");
    for i in 0..3 {
        place.options.db.db_paths.push(DbPath::new(place.dir.join(i.to_string()), MIB));
    }
    let refused = |place: &Place, option: &str| {
        let e = place.refused();
        assert_eq!(e.kind(), ErrorKind::NotSupported, "{e}");
        assert!(e.message().contains(option), "{e}");
        assert!(!place.db().exists() && !place.fast().exists(), "no directory is made");
    };
    refused(&place, "db_paths");
    place.options.cf.cf_paths = std::mem::take(&mut place.options.db.db_paths);
    refused(&place, "cf_paths");
    place.options.cf.cf_paths.truncate(2);
    for style in [CompactionStyle::Fifo, CompactionStyle::None] {
        place.options.cf.compaction_style = style;
        refused(&place, "cf_paths");
    }
    place.options.cf.cf_paths.truncate(1);
    place.options.cf.compaction_style = CompactionStyle::Fifo;
    let db = place.open();
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    assert_eq!(tables_in(&place.fast()).len(), 1);
}

#[test]
fn a_path_whose_directory_was_renamed_goes_with_it() {
    let place = Place::filled("paths-renamed");
    let db = place.open();
    let moved = place.dir.join("moved");
    std::fs::rename(place.fast(), &moved).unwrap();
    std::fs::create_dir(place.fast()).unwrap();
    std::fs::write(place.fast().join("000001.sst"), "another's").unwrap();
    let before = tables_in(&moved);
    fill(&db, 0);
    db.flush().unwrap();
    assert!(tables_in(&moved).difference(&before).next().is_some());
    db.compact_range(None, None).unwrap();
    check(&db);
    drop(db);
    assert_eq!(tables_in(&place.fast()), ["000001.sst".to_owned()].into());
}

#[test]
fn repair_finds_the_tables_of_all_paths() {
    let place = Place::filled("paths-repair");
    let current = std::fs::read_to_string(place.db().join("CURRENT")).unwrap();
    let all = |dir: &Path| tables_in(dir).len();
    let tables = all(&place.fast()) + all(&place.slow());
    let mut fewer = place.options.clone();
    fewer.db.db_paths.pop();
    let e = repair_db(&fewer, place.db(), &[]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert!(e.message().contains("path 1 of db_paths or cf_paths"), "{e}");

    std::fs::rename(place.slow(), place.dir.join("away")).unwrap();
    let e = repair_db(&place.options, place.db(), &[]).unwrap_err();
    assert!(e.message().contains("slow") && e.message().contains("does not exist"), "{e}");
    std::fs::rename(place.dir.join("away"), place.slow()).unwrap();

    std::fs::remove_file(place.db().join(current.trim_end())).unwrap();
    std::fs::remove_file(place.db().join("CURRENT")).unwrap();
    std::fs::write(place.slow().join("900000.sst"), "no table").unwrap();
    let summary = repair_db(&place.options, place.db(), &[]).unwrap();
    assert_eq!(summary.tables_kept.len(), tables);
    assert_eq!(names(&place.slow().join("lost")), ["900000.sst".to_owned()].into());
    let db = place.open();
    check(&db);
    check_places(&db, &[place.db(), place.fast(), place.slow()]);
}

#[test]
fn a_new_database_moves_leftovers_of_its_paths_if_it_is_told_to() {
    let place = Place::filled("paths-leftovers");
    let left = tables_in(&place.slow());
    assert!(!left.is_empty());
    std::fs::remove_dir_all(place.db()).unwrap();
    assert_eq!(place.refused().kind(), ErrorKind::Corruption);
    assert_eq!(tables_in(&place.slow()), left, "a refusal moves nothing");

    let mut options = place.options.clone();
    options.db.move_leftovers_of_paths = true;
    let db = Db::open(&options, place.db()).unwrap();
    assert!(db.first().unwrap().is_none(), "the database is new");
    assert_eq!(tables_in(&place.slow()), BTreeSet::new());
    assert_eq!(tables_in(&place.slow().join("lost")), left);
    fill(&db, 0);
    settle(&db);
    drop(db);
    check(&Db::open(&options, place.db()).unwrap());
    assert_eq!(tables_in(&place.slow().join("lost")), left, "an opening leaves them alone");

    // A second loss never replaces the first one's files.
    std::fs::remove_dir_all(place.db()).unwrap();
    let name = left.first().unwrap();
    std::fs::write(place.slow().join(name), "another table").unwrap();
    let e = Db::open(&options, place.db()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    assert!(e.to_string().contains("lost already"), "{e}");
    // The directory of a database that is whole is refused.
    let mut other = place.options.clone();
    other.db.move_leftovers_of_paths = true;
    let whole = Place::filled("paths-whole");
    other.db.db_paths = vec![DbPath::new(whole.db(), MIB)];
    let e = Db::open(&other, place.dir.join("other")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    check(&whole.open());
}

#[test]
fn destroying_a_database_empties_all_its_paths() {
    let place = Place::filled("paths-destroy");
    std::fs::write(place.slow().join("notes.txt"), "mine").unwrap();
    destroy_db(&place.options.db, place.db()).unwrap();
    assert!(!place.db().exists() && !place.fast().exists());
    assert_eq!(names(&place.slow()), ["notes.txt".to_owned()].into());
}

#[test]
fn relative_paths_count_from_the_working_directory_at_the_opening() {
    let here = std::env::current_dir().unwrap();
    let dir = TempDir::new("paths-relative");
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    let relative = up.join(dir.path().strip_prefix("/").unwrap());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.db_paths = vec![DbPath::new(relative.join("fast"), MIB)];
    let db = Db::open(&options, dir.join("db")).unwrap();
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    assert!(db.live_files()[0].file.directory.is_absolute());
    assert_eq!(tables_in(&dir.join("fast")).len(), 1);
}

#[test]
fn a_reader_beside_the_owner_keeps_its_files_of_all_paths() {
    let place = Place::filled("paths-beside");
    let owner = place.open();
    let families = vec![ColumnFamilyDescriptor::new("default", place.options.cf.clone())];
    let reader = Db::open_with(&place.options.db, place.db(), families, OpenMode::ReadOnly).unwrap();
    let force = esker::options::BottommostLevelCompaction::Force;
    let rewrite = CompactRangeOptions::default().bottommost_level_compaction(force);
    owner.compact_range_opt(&rewrite, &owner.default_column_family(), None, None).unwrap();
    check_places(&owner, &[place.fast(), place.slow()]);
    check(&reader);
}

#[test]
fn a_full_path_stops_compactions_into_it_and_nothing_else() {
    let mut place = Place::new("paths-full");
    let faults = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
    place.options.db.env = Env::with_fs(faults.clone());
    place.options.db.max_bgerror_resume_count = 0;
    for (path, name) in place.options.db.db_paths.iter_mut().zip(["/fast", "/slow"]) {
        path.path = name.into();
    }
    let db = Db::open(&place.options, "/db").unwrap();
    let on_slow = |path: &Path| path.starts_with("/slow") && path.extension().is_some_and(|e| e == "sst");
    faults.add_rule(FaultRule::fail(&[OpKind::Append, OpKind::Create]).on(on_slow).no_space().forever());
    fill(&db, 0);
    db.flush().unwrap();
    // The compaction that needs the path fails at each attempt; its inputs stay.
    let end = Instant::now() + PATIENCE;
    for round in 0.. {
        if db.background_error().is_some() {
            break;
        }
        assert!(Instant::now() < end, "half a MiB does not fit into levels 0 and 1");
        db.put("000000", format!("0 {round}")).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    let e = db.background_error().unwrap();
    assert!(e.message().contains("/slow/"), "{e}");
    check_contents(&db);
    // Failed compactions do not stop writes.
    db.put("000000", "0 newest").unwrap();
    faults.clear_rules();
    db.resume().unwrap();
    db.wait_for_background_work().unwrap();
    check(&db);
    assert!(db.live_files().iter().any(|file| file.directory == Path::new("/slow")));
    drop(db);
    check(&Db::open(&place.options, "/db").unwrap());
}

#[test]
fn a_path_that_is_removed_under_an_open_database_costs_its_tables_only() {
    let mut place = Place::filled("paths-removed");
    place.options.db.max_open_files = 20;
    place.options.cf.disable_auto_compactions = true;
    let db = place.open();
    std::fs::remove_dir_all(place.slow()).unwrap();
    db.put("new", "value").unwrap();
    db.flush().unwrap();
    assert_eq!(db.get("new").unwrap().unwrap(), b"value");
    assert_eq!(db.get("000000").unwrap().unwrap(), b"0 newest");
    db.put("newer", "value").unwrap();
    drop(db);
    let e = place.refused();
    assert!(e.message().contains("path 1 of db_paths or cf_paths"), "{e}");
    assert!(!place.slow().exists());
}
