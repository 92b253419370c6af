//! Times of sequence numbers, and young entries above the last level.

use crate::timestamps::rewrite;
use esker::internals::env::MockClock;
use esker::internals::env::mem::MemFs;
use esker::internals::format::seqno_to_time::SeqnoToTimeMapping;
use esker::options::{CompactionStyle, CompressionType, TargetVersion, Temperature};
use esker::table_properties_collector::CompactForTieringCollectorFactory;
use esker::{CompactionOptions, Db, Env, ErrorKind, Options, SequenceNumber, SstFileReader, WriteBatch};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The time at which the clocks of these tests begin, in Unix seconds.
const BEGIN: u64 = 1_000_000;

/// A database on a machine whose clock the test moves.
struct Scene {
    clock: Arc<MockClock>,
    options: Options,
    db: Option<Db>,
}

impl Scene {
    fn new(style: CompactionStyle, (preserve, preclude): (u64, u64)) -> Scene {
        let clock = Arc::new(MockClock::new(BEGIN * 1_000_000));
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.env = Env::new(Arc::new(MemFs::new()), clock.clone());
        options.cf.compaction_style = style;
        options.cf.preserve_internal_time_seconds = preserve;
        options.cf.preclude_last_level_data_seconds = preclude;
        let db = Some(Db::open(&options, "/db").unwrap());
        Scene { clock, options, db }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn reopen(&mut self) {
        self.db = None;
        self.db = Some(Db::open(&self.options, "/db").unwrap());
    }

    /// Writes keys from `first` on in a table, and records the time after `seconds` more.
    fn write(&self, first: u32, count: u32, seconds: u64) {
        for i in first..first + count {
            self.db().put(format!("key{i:04}"), format!("value{i}")).unwrap();
        }
        self.pass(seconds);
        self.db().flush().unwrap();
    }

    /// Moves the clock, and records the time as the timer does.
    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        let preserve = self.options.cf.preserve_internal_time_seconds.to_string();
        let changes = [("preserve_internal_time_seconds", preserve.as_str())];
        self.db().set_options(&self.db().default_column_family(), &changes).unwrap();
    }

    /// The property of each table, oldest table first.
    fn times(&self) -> Vec<String> {
        let mut files = self.db().live_files();
        files.sort_by_key(|f| f.file_number);
        let time = |file: &esker::observe::LiveFileMetaData| {
            let path = file.directory.join(&file.relative_filename);
            let reader = SstFileReader::open(&self.options, path).unwrap();
            let bytes = &reader.table_properties().seqno_to_time_mapping;
            SeqnoToTimeMapping::from_samples(SeqnoToTimeMapping::decode(bytes).unwrap()).to_string()
        };
        files.iter().map(time).collect()
    }

    /// Number of entries in each level.
    fn entries(&self) -> BTreeMap<usize, u64> {
        let mut entries = BTreeMap::new();
        self.db().live_files().iter().for_each(|f| *entries.entry(f.level).or_default() += f.num_entries);
        entries
    }

    /// Checks that keys from 0 to `count` have their values.
    fn check(&self, count: u32) {
        for i in 0..count {
            let value = self.db().get(format!("key{i:04}")).unwrap();
            assert_eq!(value.as_deref(), Some(format!("value{i}").as_bytes()), "{i}");
        }
        assert_eq!(self.db().iter().unwrap().into_iter().count(), count as usize);
    }
}

#[test]
fn tables_store_the_times_of_their_sequence_numbers() {
    let mut scene = Scene::new(CompactionStyle::Level, (100, 0));
    scene.write(0, 10, 50);
    assert_eq!(scene.times(), ["100->1000000,110->1000050,"]);
    scene.write(5, 10, 30);
    assert_eq!(scene.times()[1], "110->1000050,120->1000080,");
    scene.db().compact_range(None, None).unwrap();
    assert_eq!(scene.times(), ["100->1000000,110->1000050,120->1000080,"]);
    scene.reopen();
    scene.write(15, 1, 10);
    assert_eq!(scene.times()[1], "120->1000080,121->1000090,");
    scene.check(16);
    // Without the option, no table gets times.
    let plain = Scene::new(CompactionStyle::Level, (0, 0));
    plain.write(0, 10, 50);
    assert_eq!(plain.times(), [""]);
    assert_eq!(plain.db().live_files()[0].largest_seqno, SequenceNumber(10));
}

#[test]
fn only_young_entries_keep_their_sequence_numbers() {
    let scene = Scene::new(CompactionStyle::Level, (100, 0));
    scene.write(0, 10, 1);
    scene.pass(60);
    scene.write(10, 10, 1);
    scene.pass(58);
    rewrite(scene.db());
    let files = scene.db().live_files();
    assert_eq!(
        (files[0].smallest_seqno, files[0].largest_seqno),
        (SequenceNumber::ZERO, SequenceNumber(120))
    );
    scene.pass(100);
    rewrite(scene.db());
    assert_eq!(scene.db().live_files()[0].largest_seqno, SequenceNumber::ZERO);
    scene.check(20);
}

#[test]
fn young_entries_stay_above_the_last_level_until_they_are_old() {
    for style in [CompactionStyle::Universal, CompactionStyle::Level] {
        let mut scene = Scene::new(style, (0, 100));
        scene.write(0, 10, 1);
        scene.pass(60);
        scene.write(10, 20, 1);
        scene.pass(58);
        rewrite(scene.db());
        // The first number that may be young stays in the last level, as in RocksDB.
        assert_eq!(scene.entries(), BTreeMap::from([(5, 19), (6, 11)]), "{style:?}");
        scene.check(30);
        scene.reopen();
        scene.check(30);
        scene.pass(100);
        rewrite(scene.db());
        assert_eq!(scene.entries(), BTreeMap::from([(6, 30)]), "{style:?}");
        scene.check(30);
    }
}

#[test]
fn entries_that_a_snapshot_does_not_see_stay_above_the_last_level() {
    let scene = Scene::new(CompactionStyle::Universal, (0, 100));
    scene.write(0, 10, 1);
    let snapshot = scene.db().snapshot();
    scene.write(0, 5, 1);
    scene.db().delete_range("key0007", "key0009").unwrap();
    scene.pass(300);
    scene.db().flush().unwrap();
    rewrite(scene.db());
    let entries = scene.entries();
    assert_eq!((entries.get(&5), entries.get(&6)), (Some(&6), Some(&10)));
    assert_eq!(scene.db().get("key0008").unwrap(), None);
    assert_eq!(snapshot.get("key0008").unwrap().as_deref(), Some(&b"value8"[..]));
    drop(snapshot);
    rewrite(scene.db());
    assert_eq!(scene.entries(), BTreeMap::from([(6, 8)]));
}

#[test]
fn each_level_of_a_compaction_with_two_has_files_of_the_target_size() {
    let mut scene = Scene::new(CompactionStyle::Universal, (0, 10_000));
    scene.options.cf.target_file_size_base = 64 << 10;
    scene.options.cf.compression = CompressionType::None;
    scene.options.cf.num_levels = 6;
    scene.reopen();
    let write = |filling: &str| {
        for i in 0..1000 {
            scene.db().put(format!("key{i:04}"), filling.repeat(1000)).unwrap();
        }
        scene.pass(20_000);
        scene.db().flush().unwrap();
    };
    write("a");
    let snapshot = scene.db().snapshot();
    write("b");
    rewrite(scene.db());
    assert_eq!(scene.entries(), BTreeMap::from([(4, 1000), (5, 1000)]));
    let files = scene.db().live_files();
    let of_level = |level| files.iter().filter(|f| f.level == level).count();
    assert!(of_level(4) > 5 && of_level(5) > 5, "{} and {} files", of_level(4), of_level(5));
    drop(snapshot);
}

#[test]
fn a_table_with_entries_that_have_become_old_is_marked_for_compaction() {
    let mut scene = Scene::new(CompactionStyle::Universal, (0, 100));
    scene.options.cf.level0_file_num_compaction_trigger = 100;
    let factory = Arc::new(CompactForTieringCollectorFactory::new(1.5));
    scene.options.cf.table_properties_collector_factories = vec![factory.clone()];
    scene.reopen();
    scene.write(0, 10, 1);
    scene.pass(200);
    rewrite(scene.db());
    scene.write(10, 10, 1);
    scene.pass(60);
    scene.write(20, 10, 1);
    let eligible = |scene: &Scene| -> Vec<Option<String>> {
        let property = |file: &esker::observe::LiveFileMetaData| {
            let path = file.directory.join(&file.relative_filename);
            let reader = SstFileReader::open(&scene.options, path).unwrap();
            let all = &reader.table_properties().user_collected_properties;
            let found = all.get(b"rocksdb.eligible.last.level.entries".as_slice());
            found.map(|value| String::from_utf8_lossy(value).into_owned())
        };
        scene.db().live_files().iter().map(property).collect()
    };
    assert_eq!(eligible(&scene), [None, None, None], "flushes do not ask");
    let merge = |scene: &Scene| {
        let above = scene.db().live_files().into_iter().filter(|f| f.level < 6);
        let files: Vec<_> = above.map(|f| f.file_number).collect();
        let family = scene.db().default_column_family();
        scene.db().compact_files(&CompactionOptions::default(), &family, &files, 4).unwrap();
        scene.db().wait_for_background_work().unwrap();
    };
    scene.pass(58);
    merge(&scene);
    assert_eq!(eligible(&scene), [Some("10".to_owned()), None]);
    assert_eq!(scene.entries(), BTreeMap::from([(4, 20), (6, 10)]), "a ratio above 1 marks nothing");
    factory.set_compaction_trigger_ratio(0.4);
    merge(&scene);
    assert_eq!(scene.entries(), BTreeMap::from([(5, 9), (6, 21)]));
    scene.check(30);
}

/// Files above the last level that no compaction can move must not be compacted again and again.
#[test]
fn young_files_above_the_last_level_rest() {
    for style in [CompactionStyle::Universal, CompactionStyle::Level] {
        let mut scene = Scene::new(style, (0, 1000));
        scene.db = None;
        scene.options.cf.level0_file_num_compaction_trigger = 2;
        scene.options.cf.max_bytes_for_level_base = 1 << 10;
        scene.options.cf.write_buffer_size = 64 << 10;
        // Files that are due by their age, too, would stay where they are.
        scene.options.cf.ttl = 100;
        scene.reopen();
        for round in 0..30 {
            scene.write(round * 50, 50, 1);
            scene.db().wait_for_background_work().unwrap();
        }
        for seconds in [0, 200] {
            scene.pass(seconds);
            scene.db().wait_for_background_work().unwrap();
            let before = scene.db().live_files();
            scene.pass(0);
            scene.db().wait_for_background_work().unwrap();
            assert_eq!(scene.db().live_files(), before, "{style:?}, {seconds} seconds later");
        }
        scene.check(1500);
        scene.pass(5000);
        rewrite(scene.db());
        assert_eq!(scene.entries(), BTreeMap::from([(6, 1500)]), "{style:?}");
    }
}

fn timed(key: &str, value: &str, write_unix_time: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.timed_put(key, value, write_unix_time).unwrap();
    batch
}

#[test]
fn a_timed_value_is_as_old_as_its_writer_says() {
    let mut scene = Scene::new(CompactionStyle::Universal, (0, 1000));
    scene.db = None;
    scene.options.db.compatible_with = TargetVersion::V9;
    scene.reopen();
    scene.pass(10);
    scene.db().write(timed("old", "1", BEGIN - 900)).unwrap();
    scene.db().write(timed("young", "2", BEGIN + 5)).unwrap();
    scene.db().write(timed("older than the database", "3", 7)).unwrap();
    scene.db().put("plain", "4").unwrap();
    let check = |scene: &Scene| {
        let read = |key: &str| scene.db().get(key).unwrap().map(|value| value.to_vec());
        let keys = ["old", "young", "older than the database", "plain"];
        for (key, value) in keys.into_iter().zip(["1", "2", "3", "4"]) {
            assert_eq!(read(key).as_deref(), Some(value.as_bytes()), "{key}");
        }
        assert_eq!(scene.db().iter().unwrap().into_iter().count(), 4);
    };
    check(&scene);
    scene.pass(1);
    scene.db().flush().unwrap();
    check(&scene);
    scene.pass(150);
    rewrite(scene.db());
    assert_eq!(scene.entries(), BTreeMap::from([(5, 2), (6, 2)]));
    check(&scene);
    scene.reopen();
    check(&scene);
}

#[test]
fn a_timed_value_of_a_wal_is_recovered() {
    let mut scene = Scene::new(CompactionStyle::Level, (100, 0));
    scene.db = None;
    scene.options.db.compatible_with = TargetVersion::V9;
    scene.reopen();
    scene.db().write(timed("key", "value", BEGIN - 50)).unwrap();
    scene.reopen();
    assert_eq!(scene.db().get("key").unwrap().as_deref(), Some(&b"value"[..]));
    scene.db().flush().unwrap();
    assert_eq!(scene.db().get("key").unwrap().as_deref(), Some(&b"value"[..]));
    // Without recorded times the value is a plain one.
    scene.db = None;
    scene.options.cf.preserve_internal_time_seconds = 0;
    scene.reopen();
    scene.db().write(timed("key", "again", BEGIN - 50)).unwrap();
    scene.db().flush().unwrap();
    rewrite(scene.db());
    assert_eq!(scene.db().get("key").unwrap().as_deref(), Some(&b"again"[..]));
    scene.db().write(timed("key", "now", u64::MAX)).unwrap();
    assert_eq!(scene.db().get("key").unwrap().as_deref(), Some(&b"now"[..]));
}

#[test]
fn timed_values_are_refused_where_they_cannot_be_read() {
    let scene = Scene::new(CompactionStyle::Level, (100, 0));
    let refused = scene.db().write(timed("key", "value", 7)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.to_string().contains("timed_put"), "{refused}");
    assert_eq!(scene.db().get("key").unwrap(), None);
    let mut stamped = Options::default();
    stamped.db.create_if_missing = true;
    stamped.db.compatible_with = TargetVersion::V9;
    stamped.db.env = Env::with_fs(Arc::new(MemFs::new()));
    stamped.cf.comparator = esker::comparator::by_name("leveldb.BytewiseComparator.u64ts").unwrap();
    let db = Db::open(&stamped, "/stamped").unwrap();
    let refused = db.write(timed("key12345678", "value", 7)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported);
    assert!(refused.to_string().contains("TimedPut"), "{refused}");
}

#[test]
fn tables_have_the_temperature_of_their_level() {
    let mut scene = Scene::new(CompactionStyle::Universal, (0, 100));
    scene.db = None;
    scene.options.cf.last_level_temperature = Temperature::Cold;
    scene.options.cf.default_write_temperature = Temperature::Warm;
    scene.reopen();
    scene.write(0, 10, 1);
    let temperatures = |scene: &Scene| -> BTreeMap<usize, Temperature> {
        scene.db().live_files().iter().map(|f| (f.level, f.temperature)).collect()
    };
    assert_eq!(temperatures(&scene), BTreeMap::from([(0, Temperature::Warm)]));
    scene.pass(60);
    scene.write(10, 20, 1);
    scene.pass(58);
    rewrite(scene.db());
    let both = BTreeMap::from([(5, Temperature::Warm), (6, Temperature::Cold)]);
    assert_eq!(temperatures(&scene), both);
    scene.reopen();
    assert_eq!(temperatures(&scene), both);
    let size = |code: u8| {
        let name = format!("rocksdb.live-sst-files-size-at-temperature{code}");
        scene.db().property(&name).unwrap().parse::<u64>().unwrap()
    };
    assert!(size(8) > 0 && size(12) > 0 && size(0) == 0);
    scene.db = None;
    scene.options.cf.compaction_style = CompactionStyle::Fifo;
    let fifo = Options { cf: scene.options.cf.clone(), db: scene.options.db.clone() };
    let db = Db::open(&fifo, "/fifo").unwrap();
    assert_eq!(db.options_cf(&db.default_column_family()).last_level_temperature, Temperature::Unknown);
}
