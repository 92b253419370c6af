//! The values of snapshots, beside the engine's own properties.

use crate::{options, watched};
use esker::observe::{CompactionJobInfo, EventListener, FlushJobInfo};
use esker::{ColumnFamilyOptions, CompactRangeOptions, Db};
use esker_monitor::{
    BackgroundJobKind, FamilyStatistics, Monitor, RunningJob, StallKind, StatisticsSnapshot, exposition,
};
use esker_testkit::{TempDir, seed};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// The snapshot of a quiet database and the engine's properties must say the same.
#[track_caller]
fn check_against_properties(db: &Db, snapshot: &StatisticsSnapshot) {
    let names = db.column_family_names();
    assert_eq!((snapshot.families.len(), snapshot.family_count), (names.len(), names.len()));
    for family in &snapshot.families {
        let handle = db.column_family(&family.name).unwrap();
        let number = |name: &str| db.int_property_cf(&handle, &format!("rocksdb.{name}")).unwrap();
        assert_eq!(family.table_bytes(), number("live-sst-files-size"), "{}", family.name);
        for (level, statistics) in family.levels.iter().enumerate() {
            let files = db.property_cf(&handle, &format!("rocksdb.num-files-at-level{level}")).unwrap();
            assert_eq!(statistics.files.to_string(), files, "{} level {level}", family.name);
        }
        assert_eq!(
            db.property_cf(&handle, &format!("rocksdb.num-files-at-level{}", family.levels.len())),
            None
        );
        let metadata = db.column_family_metadata(&handle);
        assert_eq!(family.table_files(), metadata.levels.iter().map(|l| l.files.len() as u64).sum::<u64>());
        assert_eq!(family.memtables.active_bytes, number("cur-size-active-mem-table"));
        assert_eq!(family.memtables.all_bytes, number("size-all-mem-tables"));
        assert_eq!(family.memtables.active_entries, number("num-entries-active-mem-table"));
        assert_eq!(family.memtables.immutable, number("num-immutable-mem-table"));
        assert_eq!(family.pending_compaction_bytes, number("estimate-pending-compaction-bytes"));
        assert_eq!(family.blob_bytes, number("live-blob-file-size"));
    }
    let number = |name: &str| db.int_property(&format!("rocksdb.{name}")).unwrap();
    assert_eq!(snapshot.live_snapshots.count, number("num-snapshots"));
    assert_eq!(snapshot.background.errors, number("background-errors"));
    assert_eq!(snapshot.block_caches[0].capacity, number("block-cache-capacity"));
    let totals = db.map_property("rocksdb.dbstats").unwrap();
    assert_eq!(snapshot.writes.keys.to_string(), totals["db.user_keys_written"]);
    assert_eq!(snapshot.wal.written_bytes.to_string(), totals["db.wal_bytes_written"]);
    let statistics = db.db_options().statistics.unwrap();
    for ticker in esker::stats::Ticker::ALL {
        assert_eq!(snapshot.tickers[ticker.name()], statistics.ticker_count(*ticker), "{ticker:?}");
    }
}

/// The snapshot without its real numbers: JSON may change their last bit.
fn whole_numbers(mut snapshot: StatisticsSnapshot) -> StatisticsSnapshot {
    snapshot.uptime_seconds = 0.0;
    snapshot.histograms.clear();
    snapshot.families.iter_mut().flat_map(|family| &mut family.levels).for_each(|level| level.score = 0.0);
    snapshot
}

#[test]
fn snapshots_say_what_the_properties_say() {
    let mut random = seed::rng("snapshots_say_what_the_properties_say");
    let (monitor, dir) = (Monitor::new(), TempDir::new("values"));
    let mut options = options(&monitor);
    options.cf.write_buffer_size = 64 << 10;
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.max_bytes_for_level_base = 128 << 10;
    options.cf.target_file_size_base = 32 << 10;
    let db = Db::open(&options, dir.join("db")).unwrap();
    let mut blobs = options.cf.clone();
    (blobs.enable_blob_files, blobs.min_blob_size) = (true, 100);
    let families = [
        db.default_column_family(),
        db.create_column_family("blobs", &blobs).unwrap(),
        db.create_column_family("empty", &options.cf).unwrap(),
    ];
    let mut held = Vec::new();
    for _ in 0..6 {
        for _ in 0..random.u32(1..400) {
            let family = &families[random.usize(0..2)];
            let value = vec![random.u8(..); random.usize(0..400)];
            db.put_cf(family, random.u16(..).to_be_bytes(), value).unwrap();
        }
        match random.u8(0..3) {
            0 => held.push(db.snapshot()),
            1 => db.flush_opt(&Default::default(), &families.each_ref()).unwrap(),
            _ => db.compact_range_opt(&CompactRangeOptions::default(), &families[1], None, None).unwrap(),
        }
        db.wait_for_background_work().unwrap();
        let snapshot = monitor.snapshot(&db).unwrap();
        check_against_properties(&db, &snapshot);
        let read: StatisticsSnapshot =
            serde_json::from_str(&serde_json::to_string(&snapshot).unwrap()).unwrap();
        assert_eq!(whole_numbers(read), whole_numbers(snapshot));
    }
}

/// The parts of a family that add up.
fn sums(families: &[FamilyStatistics]) -> Vec<u64> {
    let levels = || families.iter().flat_map(|family| &family.levels);
    vec![
        levels().map(|level| level.files).sum(),
        levels().map(|level| level.bytes).sum(),
        levels().map(|level| level.written_bytes).sum(),
        families.iter().map(|family| family.memtables.all_bytes).sum(),
        families.iter().map(|family| family.memtables.active_entries).sum(),
        families.iter().map(|family| family.pending_compaction_bytes).sum(),
        families.iter().map(|family| family.stall_counts.values().sum::<u64>()).sum(),
    ]
}

#[test]
fn families_beyond_the_limit_are_summed_up() {
    let watched = watched("limit");
    for index in 0..9_u8 {
        let options = ColumnFamilyOptions::default();
        let family = watched.db.create_column_family(&format!("family{index}"), &options).unwrap();
        (0..=index).for_each(|key| watched.db.put_cf(&family, [key], [0; 100]).unwrap());
        if index % 2 == 0 {
            watched.db.flush_opt(&Default::default(), &[&family]).unwrap();
        }
    }
    let all = watched.monitor.snapshot(&watched.db).unwrap();
    assert!(all.other_families.is_none());
    let few = Monitor::new().max_families(3).snapshot(&watched.db).unwrap();
    assert_eq!((few.families.len(), few.family_count), (3, 10));
    let names: Vec<_> = few.families.iter().map(|family| family.name.as_str()).collect();
    assert_eq!(names, ["default", "family0", "family1"]);
    let other = few.other_families.clone().unwrap();
    assert_eq!(sums(&[other]), sums(&all.families[3..]));
    let named =
        |text: &str| text.lines().filter(|line| line.starts_with("esker_memtable_active_bytes{")).count();
    assert_eq!((named(&exposition(&all)), named(&exposition(&few))), (10, 4));
    assert!(exposition(&few).contains("esker_memtable_active_bytes{family=\"other\"}"));
}

#[test]
fn no_key_and_no_value_are_in_a_snapshot() {
    let watched = watched("hidden");
    for round in 0..4 {
        for key in 0..50 {
            watched.db.put(format!("secretkey{key}"), format!("secretvalue{round}").repeat(20)).unwrap();
        }
        watched.db.delete_range("secretkey1", "secretkey2").unwrap();
        watched.db.flush().unwrap();
    }
    watched.db.compact_range(None, None).unwrap();
    let snapshot = watched.monitor.snapshot(&watched.db).unwrap();
    assert!(snapshot.families[0].table_files() > 0);
    let text = serde_json::to_string(&snapshot).unwrap() + &exposition(&snapshot) + &format!("{snapshot:?}");
    assert!(!text.contains("secret") && !text.contains(&format!("{:?}", b"secret")), "{text}");
}

/// Takes snapshots while jobs run.
#[derive(Default)]
struct Witness {
    monitor: Monitor,
    db: OnceLock<Weak<Db>>,
    jobs: Mutex<Vec<RunningJob>>,
}

impl Witness {
    fn look(&self) {
        if let Some(db) = self.db.get().and_then(Weak::upgrade) {
            self.jobs.lock().unwrap().extend(self.monitor.snapshot(&db).unwrap().jobs);
        }
    }
}

impl EventListener for Witness {
    fn on_flush_begin(&self, _info: &FlushJobInfo) {
        self.look();
    }
    fn on_compaction_pre_commit(&self, _info: &CompactionJobInfo) {
        self.look();
    }
}

#[test]
fn running_jobs_have_levels_reasons_and_progress() {
    for tracks_threads in [false, true] {
        let (witness, dir) = (Arc::new(Witness::default()), TempDir::new("jobs"));
        let mut options = options(&witness.monitor);
        options.db.listeners.push(witness.clone());
        options.db.enable_thread_tracking = tracks_threads;
        let db = Arc::new(Db::open(&options, dir.path()).unwrap());
        witness.db.set(Arc::downgrade(&db)).unwrap();
        for round in 0..2 {
            (0..200_u8).for_each(|key| db.put([key], vec![round; 500]).unwrap());
            db.flush().unwrap();
        }
        db.compact_range(None, None).unwrap();
        db.wait_for_background_work().unwrap();
        let jobs = std::mem::take(&mut *witness.jobs.lock().unwrap());
        let flush = jobs.iter().find(|job| job.kind == BackgroundJobKind::Flush).unwrap();
        assert_eq!((flush.reason.as_str(), flush.family.as_str()), ("Manual Flush", "default"));
        assert_eq!((flush.input_level, flush.output_level), (None, 0));
        let compaction = jobs.iter().find(|job| job.kind == BackgroundJobKind::Compaction).unwrap();
        assert_eq!(compaction.reason, "ManualCompaction");
        assert_eq!((compaction.input_level, compaction.input_files), (Some(0), 2));
        assert!(compaction.output_level > 0 && compaction.written_bytes > 0, "{compaction:?}");
        assert!(compaction.input_bytes > 0, "{compaction:?}");
        assert_eq!(compaction.read_bytes.is_some(), tracks_threads, "{compaction:?}");
        let after = witness.monitor.snapshot(&db).unwrap();
        assert_eq!(after.jobs, []);
    }
}

#[test]
fn a_stall_has_its_cause_and_its_limit() {
    let (monitor, dir) = (Monitor::new(), TempDir::new("stall"));
    let mut options = options(&monitor);
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.level0_slowdown_writes_trigger = 2;
    options.cf.level0_stop_writes_trigger = 50;
    let db = Db::open(&options, dir.path()).unwrap();
    db.abort_all_compactions();
    let before = monitor.snapshot(&db).unwrap();
    assert_eq!((before.stall.state, before.families[0].stall), (StallKind::Normal, StallKind::Normal));
    for key in 0..3_u8 {
        db.put([key], "value").unwrap();
        db.flush().unwrap();
    }
    let delayed = monitor.snapshot(&db).unwrap();
    let family = &delayed.families[0];
    assert_eq!((delayed.stall.state, family.stall), (StallKind::Delayed, StallKind::Delayed));
    assert!(delayed.stall.write_rate > 0);
    let causes: Vec<_> = family.pressures.iter().filter(|p| p.state() != StallKind::Normal).collect();
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert_eq!((causes[0].cause.as_str(), causes[0].value), ("l0-file-count-limit", 3));
    assert_eq!((causes[0].delay_at, causes[0].stop_at), (2, 50));
    assert!(family.stall_counts["l0-file-count-limit-delays"] > 0, "{:?}", family.stall_counts);
    db.resume_all_compactions();
    db.compact_range(None, None).unwrap();
    let after = monitor.snapshot(&db).unwrap();
    assert_eq!((after.stall.state, after.families[0].stall), (StallKind::Normal, StallKind::Normal));
}

#[test]
fn databases_without_statistics_and_listener_have_the_rest() {
    let dir = TempDir::new("bare");
    let db = Db::open_default(dir.path()).unwrap();
    db.put("key", "value").unwrap();
    let snapshot = Monitor::new().snapshot(&db).unwrap();
    assert!(!snapshot.has_statistics && !snapshot.has_listener);
    assert!(snapshot.tickers.is_empty() && snapshot.histograms.is_empty());
    assert_eq!((snapshot.writes.keys, snapshot.families[0].memtables.active_entries), (1, 1));
    assert!(snapshot.wal.current_bytes > 0 && snapshot.process.pid == std::process::id());
    db.close().unwrap();
    assert!(Monitor::new().snapshot(&db).is_err());
    let reader = Db::open_for_read_only(&Default::default(), dir.path()).unwrap();
    assert_eq!(Monitor::new().snapshot(&reader).unwrap().wal.current_bytes, 0);
}
