use super::*;
use crate::clock::SystemClock;
use crate::thread_pool::tests::REFUSES;
use crate::{FaultFs, FaultRule, MemFs, OpKind, PosixFileSystem};
use esker_base::logger::NoInfoLog;

struct Scene {
    fs: Arc<dyn FileSystem>,
    info_log: Arc<dyn InfoLog>,
    statistics: Option<Arc<Statistics>>,
    dir: PathBuf,
}

impl Scene {
    fn new(fs: Arc<dyn FileSystem>, dir: PathBuf) -> Scene {
        fs.create_dir_if_missing(&dir).unwrap();
        Scene { fs, info_log: Arc::new(NoInfoLog), statistics: Some(Arc::new(Statistics::new())), dir }
    }

    fn in_memory() -> Scene {
        Scene::new(Arc::new(MemFs::new()), "/db".into())
    }

    fn deleter(&self) -> Deleter<'_> {
        Deleter { fs: &self.fs, info_log: &self.info_log, statistics: &self.statistics }
    }

    fn ticks(&self, ticker: Ticker) -> u64 {
        self.statistics.as_ref().unwrap().ticker_count(ticker)
    }

    fn make(&self, manager: &SstFileManager, name: &str, bytes: usize) -> PathBuf {
        let path = self.dir.join(name);
        let mut file = self.fs.new_writable_file(&path).unwrap();
        file.append(&vec![7; bytes]).unwrap();
        file.close().unwrap();
        manager.on_add_file(&path, bytes as u64);
        path
    }
}

fn manager(options: SstFileManagerOptions) -> Arc<SstFileManager> {
    Arc::new(SstFileManager::new(Arc::new(SystemClock), options))
}

/// A rate at which the first file is deleted and the second one waits longer than any test.
fn slow() -> SstFileManagerOptions {
    SstFileManagerOptions { rate_bytes_per_sec: 1, max_trash_db_ratio: 10.0, ..Default::default() }
}

/// Waits until `count` deletions have ended.
fn wait_for_deletions(scene: &Scene, count: u64) {
    while scene.ticks(Ticker::FilesDeletedFromTrashQueue) < count {
        std::thread::yield_now();
    }
}

#[test]
fn totals_follow_the_files() {
    let (scene, manager) = (Scene::in_memory(), manager(SstFileManagerOptions::default()));
    let (a, b) = (scene.make(&manager, "1.sst", 100), scene.make(&manager, "2.sst", 50));
    assert_eq!((manager.total_size(), manager.tracked_files()[&a]), (150, 100));
    manager.on_add_file(&b, 60);
    assert_eq!(manager.total_size(), 160);
    manager.delete_file(scene.deleter(), &a).unwrap();
    manager.on_delete_file(Path::new("/db/unknown.sst"));
    assert_eq!((manager.total_size(), scene.ticks(Ticker::FilesDeletedImmediately)), (60, 1));
    assert!(!scene.fs.file_exists(&a).unwrap());
    manager.forget_directories(&[Path::new("/other")]);
    assert_eq!(manager.total_size(), 60);
    manager.forget_directories(&[Path::new("/other"), Path::new("/db")]);
    assert_eq!((manager.total_size(), manager.tracked_files().len()), (0, 0));
}

#[test]
fn compactions_reserve_room_below_the_limit() {
    let manager = manager(SstFileManagerOptions::default());
    assert!(!manager.is_max_allowed_space_reached(), "0 means no limit");
    manager.on_add_file(Path::new("/db/1.sst"), 100);
    manager.set_max_allowed_space_usage(100);
    assert!(manager.is_max_allowed_space_reached());
    manager.set_max_allowed_space_usage(201);
    assert!(!manager.is_max_allowed_space_reached());
    manager.set_compaction_buffer_size(2);
    assert!(manager.reserve_for_compaction(100).is_none(), "100 + 100 + 2 > 201");
    let room = manager.reserve_for_compaction(99).unwrap();
    assert!(manager.reserve_for_compaction(1).is_none());
    assert!(!manager.is_max_allowed_space_reached_including_compactions());
    manager.set_max_allowed_space_usage(199);
    assert!(manager.is_max_allowed_space_reached_including_compactions());
    drop(room);
    assert!(!manager.is_max_allowed_space_reached_including_compactions());
    manager.set_max_allowed_space_usage(0);
    assert!(manager.reserve_for_compaction(u64::MAX / 2).is_some());
}

#[test]
fn a_rate_lets_files_wait_as_trash_until_they_are_paid_for() {
    let (scene, manager) = (Scene::in_memory(), manager(slow()));
    let paths: Vec<_> = (0..3).map(|i| scene.make(&manager, &format!("{i}.sst"), 1_000)).collect();
    for path in &paths {
        manager.delete_file(scene.deleter(), path).unwrap();
        assert!(!scene.fs.file_exists(path).unwrap());
    }
    wait_for_deletions(&scene, 1);
    assert_eq!(scene.ticks(Ticker::FilesMarkedTrash), 3);
    assert!(scene.fs.file_exists(Path::new("/db/2.sst.trash")).unwrap());
    assert_eq!((manager.total_trash_size(), manager.total_size()), (2_000, 2_000));
    assert_eq!(manager.tracked_files().len(), 2);
    // Without a rate, waiting files are deleted at once, and later files do not wait.
    manager.set_delete_rate_bytes_per_second(0);
    manager.wait_for_empty_trash();
    assert_eq!((manager.total_trash_size(), manager.total_size()), (0, 0));
    assert!(scene.fs.children(Path::new("/db")).unwrap().is_empty());
}

#[test]
fn with_much_trash_files_are_deleted_at_once() {
    let scene = Scene::in_memory();
    let manager = manager(SstFileManagerOptions { max_trash_db_ratio: 0.25, ..slow() });
    let paths: Vec<_> = (0..10).map(|i| scene.make(&manager, &format!("{i}.sst"), 100)).collect();
    for path in &paths {
        manager.delete_file(scene.deleter(), path).unwrap();
    }
    // Files become trash until the trash exceeds 25 % of all tracked bytes. The count varies,
    // because the manager's thread deletes the first file meanwhile.
    let marked = scene.ticks(Ticker::FilesMarkedTrash);
    assert!((3..=6).contains(&marked), "{marked}");
    assert_eq!(marked + scene.ticks(Ticker::FilesDeletedImmediately), 10);
}

#[test]
fn a_large_file_shrinks_by_chunks_unless_it_has_another_name() {
    let dir = std::env::temp_dir().join(format!("esker-trash-{}", std::process::id()));
    let scene = Scene::new(Arc::new(PosixFileSystem), dir.clone());
    let manager = manager(SstFileManagerOptions { bytes_max_delete_chunk: 400, ..slow() });
    let path = scene.make(&manager, "1.sst", 1_000);
    manager.delete_file(scene.deleter(), &path).unwrap();
    let trash = dir.join("1.sst.trash");
    while scene.fs.file_size(&trash).unwrap() != 600 {
        std::thread::yield_now();
    }
    manager.set_delete_rate_bytes_per_second(0);
    manager.wait_for_empty_trash();
    assert_eq!((manager.total_size(), scene.fs.children(&dir).unwrap().len()), (0, 0));

    manager.set_delete_rate_bytes_per_second(1);
    let (path, link) = (scene.make(&manager, "2.sst", 1_000), dir.join("checkpoint"));
    scene.fs.link_file(&path, &link).unwrap();
    manager.delete_file(scene.deleter(), &path).unwrap();
    manager.wait_for_empty_trash();
    assert_eq!(scene.fs.file_size(&link).unwrap(), 1_000, "the other name keeps its bytes");
    scene.fs.delete_file(&link).unwrap();
    scene.fs.delete_dir(&dir).unwrap();
}

#[test]
fn trash_of_a_closed_database_stays() {
    let (scene, manager) = (Scene::in_memory(), manager(slow()));
    let paths: Vec<_> = (0..3).map(|i| scene.make(&manager, &format!("{i}.sst"), 1_000)).collect();
    paths.iter().for_each(|path| manager.delete_file(scene.deleter(), path).unwrap());
    wait_for_deletions(&scene, 1);
    manager.forget_directories(&[Path::new("/db")]);
    assert_eq!((manager.total_trash_size(), manager.total_size()), (0, 0));
    manager.set_delete_rate_bytes_per_second(0);
    manager.wait_for_empty_trash();
    assert_eq!(scene.fs.children(Path::new("/db")).unwrap().len(), 2);
    // Deletes trash as the next opening does.
    let trash = scene.dir.join("2.sst.trash");
    manager.set_delete_rate_bytes_per_second(1 << 20);
    manager.on_add_file(&trash, 1_000);
    manager.delete_file(scene.deleter(), &trash).unwrap();
    manager.wait_for_empty_trash();
    assert!(!scene.fs.file_exists(&trash).unwrap());
    drop(manager);
}

#[test]
fn trash_is_deleted_at_once_while_the_system_refuses_its_thread() {
    let (scene, manager) = (Scene::in_memory(), manager(slow()));
    let paths: Vec<_> = (0..3).map(|i| scene.make(&manager, &format!("{i}.sst"), 1_000)).collect();
    // Trash that an earlier process has left.
    let trash = scene.make(&manager, "9.sst.trash", 1_000);
    REFUSES.set(true);
    for path in [&trash, &paths[0], &paths[1]] {
        manager.delete_file(scene.deleter(), path).unwrap();
    }
    assert_eq!(scene.fs.children(Path::new("/db")).unwrap(), ["2.sst"]);
    assert_eq!((manager.total_trash_size(), manager.total_size()), (0, 1_000));
    assert_eq!(scene.ticks(Ticker::FilesDeletedImmediately), 3);
    manager.wait_for_empty_trash();
    REFUSES.set(false);
    manager.delete_file(scene.deleter(), &paths[2]).unwrap();
    wait_for_deletions(&scene, 1);
    assert!(scene.fs.children(Path::new("/db")).unwrap().is_empty(), "the thread deletes the file");
    assert_eq!(scene.ticks(Ticker::FilesMarkedTrash), 1);
}

#[test]
fn a_file_that_cannot_be_renamed_is_deleted_and_one_that_cannot_be_deleted_is_left() {
    let fault = FaultFs::new(Arc::new(MemFs::new()));
    let scene = Scene::new(Arc::new(fault.clone()), "/db".into());
    let manager = manager(slow());
    fault.add_rule(FaultRule::fail(&[OpKind::Rename]).forever());
    let path = scene.make(&manager, "1.sst", 10);
    manager.delete_file(scene.deleter(), &path).unwrap();
    assert_eq!((manager.total_size(), scene.ticks(Ticker::FilesDeletedImmediately)), (0, 1));
    assert!(manager.delete_file(scene.deleter(), &path).is_err(), "the file does not exist");
    fault.clear_rules();
    fault.add_rule(FaultRule::fail(&[OpKind::Delete]).forever());
    let path = scene.make(&manager, "2.sst", 10);
    manager.delete_file(scene.deleter(), &path).unwrap();
    manager.wait_for_empty_trash();
    assert_eq!((manager.total_trash_size(), manager.total_size()), (0, 10));
    assert!(scene.fs.file_exists(Path::new("/db/2.sst.trash")).unwrap());
}

#[test]
fn bytes_cost_time_at_the_rate() {
    assert_eq!(trash::cost_nanos(4_096, 1_024), 4_000_000_000);
    assert_eq!(trash::cost_nanos(u64::MAX, 1), u64::MAX);
    assert_eq!(trash::cost_nanos(1, 0), 0);
}
