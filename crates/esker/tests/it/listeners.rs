//! The events that listeners get: their contents, number and order.

use esker::internals::env::mem::MemFs;
use esker::internals::env::{FaultFs, FaultRule, OpKind};
use esker::observe::{
    BackgroundJobPressure, BlobFileCreationBriefInfo, BlobFileCreationInfo, BlobFileDeletionInfo,
    CompactionFileInfo, CompactionJobInfo, EventListener, ExternalFileIngestionInfo, FileOperationInfo,
    FileOperationType, FlushJobInfo, ManualFlushInfo, MemTableInfo, SubcompactionJobInfo,
};
use esker::options::CompressionType;
use esker::{
    ColumnFamilyDescriptor, CompactionOptions, Db, Env, FlushOptions, Options, SstFileWriter, WriteOptions,
};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A listener that records its calls as text.
#[derive(Default)]
struct EventLog(Mutex<Vec<String>>);

impl EventLog {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }
    /// The events after all jobs have ended, flushes first: a caller that waits for a flush
    /// continues before listeners are notified.
    fn take(&self, db: &Db) -> Vec<String> {
        db.wait_for_background_work().unwrap();
        let mut reported = std::mem::take(&mut *self.0.lock().unwrap());
        reported.sort_by_key(|t| (!t.starts_with("scheduled"), !t.starts_with("flushed")));
        reported
    }
}

fn numbers(files: &[CompactionFileInfo]) -> Vec<(usize, u64)> {
    files.iter().map(|f| (f.level, f.file_number.0)).collect()
}

fn compaction(what: &str, info: &CompactionJobInfo) -> String {
    assert_eq!(info.input_files.len(), info.input_file_infos.len());
    assert_eq!(info.output_files.len(), info.output_file_infos.len());
    let stats = &info.stats;
    let counts = (stats.num_input_records, stats.num_output_records, stats.num_input_files_trivially_moved);
    let outputs: Vec<_> = numbers(&info.output_file_infos).iter().map(|(level, _)| *level).collect();
    format!("{what} {} to {outputs:?} {counts:?} {:?}", info.input_file_infos.len(), info.status.is_ok())
}

impl EventListener for EventLog {
    fn on_flush_completed(&self, info: &FlushJobInfo) {
        self.note(format!("flushed {} {}", info.cf_name, info.num_entries));
    }
    fn on_manual_flush_scheduled(&self, infos: &[ManualFlushInfo]) {
        let names: Vec<_> = infos.iter().map(|i| format!("{} {:?}", i.cf_name, i.flush_reason)).collect();
        self.note(format!("scheduled {}", names.join(", ")));
    }
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        self.note(compaction("begin", info));
    }
    fn on_compaction_pre_commit(&self, info: &CompactionJobInfo) {
        self.note(compaction("pre-commit", info));
    }
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.note(compaction("completed", info));
    }
    fn on_subcompaction_begin(&self, info: &SubcompactionJobInfo) {
        self.note(format!("part {} begins", info.subcompaction_job_id));
    }
    fn on_subcompaction_completed(&self, info: &SubcompactionJobInfo) {
        info.status.as_ref().unwrap();
        let stats = &info.stats;
        let counts = (stats.num_input_records, stats.num_output_records, stats.num_output_files);
        self.note(format!("part {} ends {counts:?}", info.subcompaction_job_id));
    }
    fn on_external_file_ingested(&self, info: &ExternalFileIngestionInfo) {
        let name = info.external_file_path.file_name().unwrap().to_str().unwrap().to_owned();
        self.note(format!("ingested {name} into {} under {}", info.cf_name, info.global_seqno.0));
        assert!(info.internal_file_path.starts_with("/db"));
    }
    fn on_db_shutdown_begin(&self) {
        self.note("shutdown".to_owned());
    }
}

fn options() -> (Options, Arc<EventLog>) {
    let reported = Arc::new(EventLog::default());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.listeners = vec![reported.clone()];
    options.cf.level_compaction_dynamic_level_bytes = false;
    (options, reported)
}

#[test]
fn files_that_move_as_they_are_and_files_that_are_rewritten() {
    let (options, reported) = options();
    let db = Db::open(&options, "/db").unwrap();
    (0..10).for_each(|n| db.put(format!("key{n}"), "value").unwrap());
    db.flush().unwrap();
    assert_eq!(reported.take(&db), ["scheduled default ManualFlush", "flushed default 10"]);
    db.compact_range(None, None).unwrap();
    let moved = [
        "scheduled default ManualCompaction",
        "begin 1 to [] (0, 0, 1) true",
        "pre-commit 1 to [1] (0, 0, 1) true",
        "completed 1 to [1] (0, 0, 1) true",
    ];
    assert_eq!(reported.take(&db), moved);
    (0..5).for_each(|n| db.put(format!("key{n}"), "again").unwrap());
    db.compact_range(None, None).unwrap();
    let merged = [
        "scheduled default ManualCompaction",
        "flushed default 5",
        "begin 2 to [] (0, 0, 0) true",
        "part 0 begins",
        "part 0 ends (15, 10, 1)",
        "pre-commit 2 to [1] (15, 10, 0) true",
        "completed 2 to [1] (15, 10, 0) true",
    ];
    assert_eq!(reported.take(&db), merged);
    db.close().unwrap();
    drop(db);
    assert_eq!(*reported.0.lock().unwrap(), ["shutdown"], "once");
}

#[test]
fn each_key_range_of_a_compaction() {
    let (mut options, reported) = options();
    options.db.max_subcompactions = 3;
    options.cf.target_file_size_base = 4 << 10;
    options.cf.compression = esker::options::CompressionType::None;
    let db = Db::open(&options, "/db").unwrap();
    for _ in 0..2 {
        (0..1000).for_each(|n| db.put(format!("key{n:04}"), "a value of some length").unwrap());
        db.flush().unwrap();
    }
    reported.take(&db);
    db.compact_range(None, None).unwrap();
    let reported = reported.take(&db);
    for part in 0..3 {
        let count = |what: &str| reported.iter().filter(|t| t.starts_with(what)).count();
        assert_eq!(count(&format!("part {part} begins")), 1, "{reported:?}");
        assert_eq!(count(&format!("part {part} ends")), 1, "{reported:?}");
    }
    assert!(reported.last().unwrap().contains("(2000, 1000, 0) true"), "{reported:?}");
}

#[test]
fn files_from_outside_and_families_that_are_flushed_together() {
    let (mut options, reported) = options();
    options.db.atomic_flush = true;
    let families = ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let db = Db::open_cf(&options.db, "/db", families.to_vec()).unwrap();
    let handles = [db.default_column_family(), db.column_family("other").unwrap()];
    db.put("a", "1").unwrap();
    db.put_cf(&handles[1], "a", "1").unwrap();
    db.flush_opt(&Default::default(), &[&handles[0], &handles[1]]).unwrap();
    let flushed = reported.take(&db);
    assert_eq!(flushed[0], "scheduled default ManualFlush, other ManualFlush");
    assert_eq!(flushed[1..], ["flushed default 1", "flushed other 1"]);
    let mut writer = SstFileWriter::new(&options);
    writer.open("/outside.sst").unwrap();
    writer.put("a", "2").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file_cf(&handles[1], &["/outside.sst"]).unwrap();
    assert_eq!(reported.take(&db), ["ingested outside.sst into other under 3"]);
    db.cancel_all_background_work(true).unwrap();
    db.close().unwrap();
    assert_eq!(*reported.0.lock().unwrap(), ["shutdown"], "once");
}

/// A listener that keeps the infos of its calls.
#[derive(Default)]
struct Infos {
    flushes: Mutex<Vec<FlushJobInfo>>,
    compactions: Mutex<Vec<CompactionJobInfo>>,
    subcompactions: Mutex<Vec<SubcompactionJobInfo>>,
    ingested: Mutex<Vec<ExternalFileIngestionInfo>>,
    sealed: Mutex<Vec<MemTableInfo>>,
}

impl EventListener for Infos {
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        assert_eq!((info.table_properties.num_entries, info.blob_file_addition_infos.len()), (0, 0));
    }
    fn on_flush_completed(&self, info: &FlushJobInfo) {
        self.flushes.lock().unwrap().push(info.clone());
    }
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        assert_eq!(info.table_properties.len(), info.input_files.len());
        assert!(info.output_files.is_empty() && info.blob_file_garbage_infos.is_empty());
    }
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.compactions.lock().unwrap().push(info.clone());
    }
    fn on_subcompaction_completed(&self, info: &SubcompactionJobInfo) {
        self.subcompactions.lock().unwrap().push(info.clone());
    }
    fn on_external_file_ingested(&self, info: &ExternalFileIngestionInfo) {
        self.ingested.lock().unwrap().push(info.clone());
    }
    fn on_memtable_sealed(&self, info: &MemTableInfo) {
        self.sealed.lock().unwrap().push(info.clone());
    }
}

/// The fields that RocksDB's C header has getters for.
#[test]
fn infos_describe_tables_and_blob_files() {
    let infos = Arc::new(Infos::default());
    let mut options = options().0;
    options.db.listeners = vec![infos.clone()];
    options.cf.disable_auto_compactions = true;
    options.cf.enable_blob_files = true;
    options.cf.enable_blob_garbage_collection = true;
    options.cf.blob_garbage_collection_age_cutoff = 1.0;
    options.cf.blob_compression_type = CompressionType::Lz4;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    for round in ["first", "second"] {
        for key in ["a very long key", "b", "c"] {
            db.put(key, format!("{round} {key}")).unwrap();
        }
        db.delete("gone").unwrap();
        db.flush().unwrap();
    }
    db.wait_for_background_work().unwrap();
    let flushes = infos.flushes.lock().unwrap().clone();
    let flush = &flushes[0];
    assert_eq!((flush.table_properties.num_entries, flush.table_properties.num_deletions), (4, 1));
    assert_eq!(flush.table_properties.column_family_name, "default");
    assert_eq!(flush.blob_compression_type, CompressionType::Lz4);
    let blob = &flush.blob_file_addition_infos[0];
    assert_eq!(flush.oldest_blob_file_number, Some(blob.blob_file_number));
    assert_eq!(blob.total_blob_count, 3);
    assert!(
        blob.total_blob_bytes > 0
            && blob.blob_file_path.ends_with(format!("{:06}.blob", blob.blob_file_number.0))
    );
    let sealed = infos.sealed.lock().unwrap()[0].clone();
    assert_eq!((sealed.num_entries, sealed.num_deletes, sealed.newest_udt.len()), (4, 1, 0));

    let inputs: Vec<_> = db.live_files().iter().map(|file| file.file_number).collect();
    let (written, info) =
        db.compact_files_with_info(&CompactionOptions::default(), &family, &inputs, 6).unwrap();
    let reported = infos.compactions.lock().unwrap().pop().unwrap();
    assert_eq!(format!("{reported:?}"), format!("{info:?}"), "a caller and a listener get the same");
    assert!(info.is_full_compaction && info.is_manual_compaction && !info.aborted);
    assert_eq!(info.output_file_infos.iter().map(|file| file.file_number).collect::<Vec<_>>(), written);
    assert_eq!(info.table_properties.len(), 3);
    assert_eq!(info.table_properties[&info.output_files[0]].num_entries, 3);
    assert_eq!(info.table_properties[&info.input_files[0]].num_entries, 4);
    assert_eq!(info.smallest_output_key_prefix, b"a very l");
    assert_eq!(info.largest_output_key_prefix, b"c");
    let made = &info.blob_file_addition_infos[0];
    assert_eq!((made.total_blob_count, info.blob_compression_type), (3, CompressionType::Lz4));
    assert_eq!(info.output_file_infos[0].oldest_blob_file_number, Some(made.blob_file_number));
    let garbage: u64 = info.blob_file_garbage_infos.iter().map(|file| file.garbage_blob_count).sum();
    assert_eq!((garbage, info.blob_file_garbage_infos.len()), (6, 2));
    let oldest =
        info.blob_file_garbage_infos.iter().find(|file| file.blob_file_number == blob.blob_file_number);
    assert_eq!(oldest.unwrap().garbage_blob_bytes, blob.total_blob_bytes);
    assert_eq!(info.stats.num_output_files_blob, 1);
    assert_eq!(info.stats.total_output_bytes_blob > 0, info.stats.num_blobs_read == 3);
    let part = infos.subcompactions.lock().unwrap().pop().unwrap();
    assert_eq!(part.blob_compression_type, CompressionType::Lz4);

    let mut table = SstFileWriter::new(&options);
    table.open("/made.sst").unwrap();
    table.put("z", "1").unwrap();
    table.finish().unwrap();
    db.ingest_external_file(&["/made.sst"]).unwrap();
    let ingested = infos.ingested.lock().unwrap().pop().unwrap();
    assert_eq!(ingested.table_properties.num_entries, 1);
    assert_eq!(ingested.table_properties.comparator_name, "leveldb.BytewiseComparator");
}

/// A listener that sleeps at the end of a flush.
#[derive(Default)]
struct Slow(AtomicUsize);

impl EventListener for Slow {
    fn on_flush_completed(&self, _info: &FlushJobInfo) {
        Env::default().clock.sleep(Duration::from_millis(50));
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_flush_that_waits_for_listeners_returns_after_them() {
    let reported = Arc::new(Slow::default());
    let mut options = options().0;
    options.db.listeners = vec![reported.clone()];
    let db = Db::open(&options, "/db").unwrap();
    for n in 1..=3 {
        db.put("key", n.to_string()).unwrap();
        db.flush_opt(&FlushOptions::default().listener_wait(true), &[&db.default_column_family()]).unwrap();
        assert_eq!(reported.0.load(Ordering::SeqCst), n);
    }
}

/// Notes operations on files, and those that failed.
#[derive(Default)]
struct FileLog {
    operations: Mutex<Vec<FileOperationInfo>>,
    errors: Mutex<Vec<FileOperationInfo>>,
}

impl FileLog {
    fn note(&self, allowed: &[FileOperationType], info: &FileOperationInfo) {
        assert!(allowed.contains(&info.operation_type), "{info:?}");
        self.operations.lock().unwrap().push(info.clone());
    }

    /// The bytes of all operations of a kind on files with such a name.
    fn bytes(&self, operation: FileOperationType, name: &str) -> Option<u64> {
        let all = self.operations.lock().unwrap();
        let is_it =
            |info: &&FileOperationInfo| info.operation_type == operation && is_named(&info.path, name);
        let lengths: Vec<u64> = all.iter().filter(is_it).map(|info| info.length).collect();
        (!lengths.is_empty()).then(|| lengths.iter().sum())
    }
}

fn is_named(path: &Path, name: &str) -> bool {
    path.to_string_lossy().contains(name)
}

impl EventListener for FileLog {
    fn should_be_notified_on_file_io(&self) -> bool {
        true
    }
    fn on_file_read_finish(&self, info: &FileOperationInfo) {
        self.note(&[FileOperationType::Read], info);
    }
    fn on_file_write_finish(&self, info: &FileOperationInfo) {
        self.note(&[FileOperationType::Append], info);
    }
    fn on_file_flush_finish(&self, info: &FileOperationInfo) {
        self.note(&[FileOperationType::Flush], info);
    }
    fn on_file_sync_finish(&self, info: &FileOperationInfo) {
        self.note(&[FileOperationType::Sync, FileOperationType::Fsync], info);
    }
    fn on_file_range_sync_finish(&self, info: &FileOperationInfo) {
        self.note(&[FileOperationType::RangeSync], info);
    }
    fn on_file_truncate_finish(&self, info: &FileOperationInfo) {
        self.note(&[FileOperationType::Truncate], info);
    }
    fn on_file_close_finish(&self, info: &FileOperationInfo) {
        self.note(&[FileOperationType::Close], info);
    }
    fn on_io_error(&self, info: &FileOperationInfo) {
        self.errors.lock().unwrap().push(info.clone());
    }
}

#[test]
fn operations_on_files_are_reported_to_listeners_that_want_them() {
    let (mut options, _) = options();
    options.cf.compression = CompressionType::None;
    let files = Arc::new(FileLog::default());
    options.db.listeners = vec![files.clone()];
    let db = Db::open(&options, "/db").unwrap();
    db.put_opt(&WriteOptions::default().sync(true), &db.default_column_family(), "key", "value").unwrap();
    db.flush().unwrap();
    let table = db.live_files().remove(0);
    assert_eq!(files.bytes(FileOperationType::Append, ".sst"), Some(table.size));
    for (operation, name) in [
        (FileOperationType::Sync, ".sst"),
        (FileOperationType::Close, ".sst"),
        (FileOperationType::Append, ".log"),
        (FileOperationType::Sync, ".log"),
        (FileOperationType::Append, "MANIFEST"),
    ] {
        assert!(files.bytes(operation, name).is_some(), "{operation:?} of {name}");
    }
    db.close().unwrap();
    files.operations.lock().unwrap().clear();
    let db = Db::open(&options, "/db").unwrap();
    assert!(db.get("key").unwrap().is_some());
    assert!(files.bytes(FileOperationType::Read, ".sst").is_some_and(|bytes| bytes > 0));
    assert!(files.bytes(FileOperationType::Read, "MANIFEST").is_some());
    assert!(files.errors.lock().unwrap().is_empty());
}

#[test]
fn an_operation_on_a_file_that_fails_is_reported_as_an_error_too() {
    let (mut options, _) = options();
    let faults = FaultFs::new(options.db.env.fs.clone());
    options.db.env.fs = Arc::new(faults.clone());
    let files = Arc::new(FileLog::default());
    options.db.listeners = vec![files.clone()];
    let db = Db::open(&options, "/db").unwrap();
    faults.add_rule(FaultRule::fail(&[OpKind::Append]).on(|path| path.to_string_lossy().ends_with(".log")));
    db.put("key", "value").unwrap_err();
    let errors = files.errors.lock().unwrap();
    let [error] = errors.as_slice() else { panic!("{errors:?}") };
    assert_eq!(error.operation_type, FileOperationType::Append);
    assert!(is_named(&error.path, ".log") && error.length > 0 && error.status.is_err(), "{error:?}");
    let all = files.operations.lock().unwrap();
    assert!(all.iter().any(|info| info.status.is_err() && info.operation_type == FileOperationType::Append));
}

/// Notes blob files: what happened, the file's name, counts, and whether it went well.
#[derive(Default)]
struct BlobLog(Mutex<Vec<String>>);

impl BlobLog {
    fn note(&self, what: &str, path: &Path, rest: String) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        self.0.lock().unwrap().push(format!("{what} {name}{rest}"));
    }
}

impl EventListener for BlobLog {
    fn on_blob_file_creation_started(&self, info: &BlobFileCreationBriefInfo) {
        self.note("begin", &info.file_path, format!(" {:?}", info.reason));
    }
    fn on_blob_file_created(&self, info: &BlobFileCreationInfo) {
        assert_eq!(info.status.is_ok(), info.total_blob_bytes > 0, "{info:?}");
        let rest = format!(" {} {}", info.total_blob_count, info.status.is_ok());
        self.note("created", &info.brief.file_path, rest);
    }
    fn on_blob_file_deleted(&self, info: &BlobFileDeletionInfo) {
        self.note("deleted", &info.file_path, format!(" {}", info.status.is_ok()));
    }
}

#[test]
fn listeners_see_blob_files_from_their_beginning_to_their_deletion() {
    let (mut options, _) = options();
    let faults = FaultFs::new(options.db.env.fs.clone());
    options.db.env.fs = Arc::new(faults.clone());
    options.cf.enable_blob_files = true;
    options.cf.enable_blob_garbage_collection = true;
    options.cf.blob_garbage_collection_age_cutoff = 1.0;
    let blobs = Arc::new(BlobLog::default());
    options.db.listeners = vec![blobs.clone()];
    let db = Db::open(&options, "/db").unwrap();
    for _ in 0..2 {
        ["a", "b", "c"].iter().try_for_each(|key| db.put(key, "value")).unwrap();
        db.flush().unwrap();
    }
    db.compact_range(None, None).unwrap();
    db.wait_for_background_work().unwrap();
    let mut noted = std::mem::take(&mut *blobs.0.lock().unwrap());
    let deleted = noted.split_off(6);
    let number = |line: &String| line.split([' ', '.']).nth(1).unwrap().to_owned();
    let [first, second, third] = [0, 2, 4].map(|i| number(&noted[i]));
    let of = |number: &str, reason: &str, count| {
        [format!("begin {number}.blob {reason}"), format!("created {number}.blob {count} true")]
    };
    let expected = [of(&first, "Flush", 3), of(&second, "Flush", 3), of(&third, "Compaction", 3)];
    assert_eq!(noted, expected.concat());
    assert_eq!(deleted, [format!("deleted {first}.blob true"), format!("deleted {second}.blob true")]);

    faults.add_rule(FaultRule::fail(&[OpKind::Append]).on(|path| is_named(path, ".blob")));
    db.put("d", "value").unwrap();
    db.flush().unwrap_err();
    let noted = blobs.0.lock().unwrap();
    assert_eq!(noted.len(), 2, "{noted:?}");
    assert_eq!(noted[1], format!("created {}.blob 0 false", number(&noted[0])));
}

/// Records the pressure after each job.
#[derive(Default)]
struct Pressures(Mutex<Vec<BackgroundJobPressure>>, Mutex<Vec<String>>);

impl EventListener for Pressures {
    fn on_background_job_pressure_changed(&self, pressure: &BackgroundJobPressure) {
        self.0.lock().unwrap().push(*pressure);
    }
    fn on_column_family_handle_deletion_started(&self, id: esker::ColumnFamilyId, name: &str) {
        self.1.lock().unwrap().push(format!("{name} {}", id.0));
    }
}

impl Pressures {
    /// The reports, once there are `count` of them.
    fn wait_for(&self, count: usize) -> Vec<BackgroundJobPressure> {
        for _ in 0..1000 {
            if self.0.lock().unwrap().len() >= count {
                break;
            }
            esker::Env::default().clock.sleep(Duration::from_millis(10));
        }
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[test]
fn the_pressure_is_reported_after_each_job() {
    let (mut options, _) = options();
    let pressures = Arc::new(Pressures::default());
    options.db.listeners = vec![pressures.clone()];
    options.cf.disable_auto_compactions = true;
    options.cf.level0_slowdown_writes_trigger = 8;
    let db = Db::open(&options, "/db").unwrap();
    let mut proximity = Vec::new();
    for _ in 0..3 {
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        let seen = pressures.wait_for(1);
        assert!(seen.iter().all(|p| (p.flush_scheduled, p.flush_running, p.compaction_running) == (0, 0, 0)));
        proximity.extend(seen.iter().map(|p| p.write_stall_proximity_pct));
    }
    assert_eq!(proximity, [12, 25, 37], "one, two and three of eight files");
    db.compact_range(None, None).unwrap();
    let seen = pressures.wait_for(1);
    let last = seen.last().unwrap();
    assert_eq!((last.write_stall_proximity_pct, last.compaction_scheduled), (0, 0), "{seen:?}");
    assert!(!last.compaction_speedup_active);
    db.close().unwrap();
    assert!(pressures.0.lock().unwrap().is_empty(), "a close waits for reports");
}

#[test]
fn the_destruction_of_a_handle_is_reported() {
    let (mut options, _) = options();
    let pressures = Arc::new(Pressures::default());
    options.db.listeners = vec![pressures.clone()];
    let db = Db::open(&options, "/db").unwrap();
    let family = db.create_column_family("users", &options.cf).unwrap();
    drop(family.clone());
    assert!(pressures.1.lock().unwrap().is_empty());
    db.destroy_column_family_handle(family.clone()).unwrap();
    assert_eq!(*pressures.1.lock().unwrap(), ["users 1"]);
    assert!(family.name() == "users" && db.column_family("users").is_some());
    let (other, _) = self::options();
    let other = Db::open(&other, "/db").unwrap();
    other.destroy_column_family_handle(family).unwrap_err();
    assert_eq!(pressures.1.lock().unwrap().len(), 1);
}
