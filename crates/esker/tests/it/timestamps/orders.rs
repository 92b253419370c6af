//! Families whose comparators do not order timestamps as little-endian numbers of eight bytes.

use super::{Event, apply_by, check_by, rewrite, state};
use esker::comparator::{Comparator, ComparatorRef};
use esker::internals::format::filter::FilterPolicy;
use esker::internals::format::properties::IndexType;
use esker::options::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
    CompactionServiceOptionsOverride, CompactionServiceScheduleResponse, OpenAndCompactOptions,
    TargetVersion,
};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, CompactRangeOptions, Db, ErrorKind,
    IngestExternalFileOptions, Options, ParsedEntryInfo, ReadOptions, SstFileWriter, WriteBatch,
    WriteOptions, repair_db,
};
use esker_testkit::seed::for_each_seed;
use esker_testkit::timestamps::TimestampFormat;
use std::cmp::Ordering;
use std::sync::{Arc, Mutex};

/// Operations of an engine, with timestamps in a given format.
pub(crate) trait Stamped {
    /// Sets the timestamp of reads to `time`.
    fn at(self, time: u64) -> ReadOptions;
    fn comparator(self) -> ComparatorRef;
    fn options(self) -> Options;
}

impl Stamped for TimestampFormat {
    fn at(self, time: u64) -> ReadOptions {
        ReadOptions { timestamp: Some(self.timestamp(time)), ..ReadOptions::default() }
    }

    fn comparator(self) -> ComparatorRef {
        let order = KeysAndTimes { format: self, has_timestamps: true };
        match self.ends() {
            Some(ends) => Arc::new(WithEnds(order, ends)),
            None => Arc::new(order),
        }
    }

    fn options(self) -> Options {
        let mut options = super::options(super::NAMES[0]);
        options.cf.comparator = self.comparator();
        options
    }
}

/// Orders keys by their bytes, then timestamps, newest first.
struct KeysAndTimes {
    format: TimestampFormat,
    has_timestamps: bool,
}

impl Comparator for KeysAndTimes {
    fn name(&self) -> &str {
        "test.KeysAndTimes"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.has_timestamps { self.format.compare(a, b) } else { a.cmp(b) }
    }
    fn timestamp_size(&self) -> usize {
        if self.has_timestamps { self.format.bytes() } else { 0 }
    }
    fn without_timestamp(&self) -> Option<ComparatorRef> {
        Some(Arc::new(KeysAndTimes { format: self.format, has_timestamps: false }))
    }
}

/// [`KeysAndTimes`] with other smallest and largest timestamps than all zeros and all ones.
struct WithEnds(KeysAndTimes, [Vec<u8>; 2]);

impl Comparator for WithEnds {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.compare(a, b)
    }
    fn timestamp_size(&self) -> usize {
        self.0.timestamp_size()
    }
    fn without_timestamp(&self) -> Option<ComparatorRef> {
        self.0.without_timestamp()
    }
    fn min_timestamp(&self) -> Vec<u8> {
        self.1[0].clone()
    }
    fn max_timestamp(&self) -> Vec<u8> {
        self.1[1].clone()
    }
}

/// A service that runs each compaction in the thread that waits for it.
struct Worker {
    options: Options,
    input: Mutex<Vec<(String, Vec<u8>)>>,
}

impl CompactionService for Worker {
    fn name(&self) -> &str {
        "worker"
    }
    fn schedule(&self, info: &CompactionServiceJobInfo, input: &[u8]) -> CompactionServiceScheduleResponse {
        let mut inputs = self.input.lock().unwrap();
        inputs.push((info.db_name.clone(), input.to_vec()));
        CompactionServiceScheduleResponse {
            scheduled_job_id: (inputs.len() - 1).to_string(),
            status: CompactionServiceJobStatus::Success,
        }
    }
    fn wait(&self, id: &str) -> (CompactionServiceJobStatus, Vec<u8>) {
        let (db, input) = self.input.lock().unwrap()[id.parse::<usize>().unwrap()].clone();
        let overrides = CompactionServiceOptionsOverride {
            env: self.options.db.env.clone(),
            comparator: Some(self.options.cf.comparator.clone()),
            merge_operator: self.options.cf.merge_operator.clone(),
            ..CompactionServiceOptionsOverride::default()
        };
        let options = OpenAndCompactOptions::default();
        let output = format!("/worker{id}");
        let result = Db::open_and_compact(&options, db, output, &input, &overrides).unwrap();
        (CompactionServiceJobStatus::Success, result)
    }
    fn cancel_awaiting_jobs(&self) {}
    fn on_installation(&self, _: &str, status: CompactionServiceJobStatus) {
        assert_eq!(status, CompactionServiceJobStatus::Success, "a right result was refused");
    }
}

/// A family that is written, maintained and reopened, with the history of its writes.
struct Campaign {
    format: TimestampFormat,
    options: Options,
    db: Db,
    history: Vec<(u64, Event)>,
    /// The time of the last write.
    now: u64,
    /// The oldest time of reads.
    low: u64,
    files: u32,
}

impl Campaign {
    fn new(format: TimestampFormat, rng: &mut fastrand::Rng) -> Campaign {
        let mut options = format.options();
        options.cf.enable_blob_files = rng.bool();
        options.db.avoid_flush_during_shutdown = rng.bool();
        options.cf.disable_auto_compactions = rng.bool();
        if rng.bool() {
            let worker = Worker { options: options.clone(), input: Mutex::default() };
            options.db.compaction_service = Some(Arc::new(worker));
        }
        if rng.bool() {
            options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
            options.cf.table.metadata_block_size = 64;
            if rng.bool() {
                options.cf.table.index_type = IndexType::TwoLevel;
                options.cf.table.partition_filters = rng.bool();
            }
        }
        let db = Db::open(&options, "/db").unwrap();
        Campaign { format, options, db, history: Vec::new(), now: 0, low: 0, files: 0 }
    }

    fn family(&self) -> ColumnFamilyHandle {
        self.db.default_column_family()
    }

    fn write(&mut self, rng: &mut fastrand::Rng) {
        let key = |rng: &mut fastrand::Rng| format!("k{:02}", rng.u32(..20));
        self.now += rng.u64(1..200);
        let now = self.now;
        let event = match rng.u32(..20) {
            0..12 => Event::Put(key(rng), format!("v{now}")),
            12..15 => Event::Delete(key(rng)),
            15..18 => Event::Merge(key(rng), format!("m{now}")),
            _ => {
                let (a, b) = (key(rng), key(rng));
                Event::DeleteRange(a.clone().min(b.clone()), a.max(b))
            }
        };
        match &event {
            Event::Put(key, value) if rng.bool() => {
                let mut batch = WriteBatch::new();
                let key = [key.as_bytes(), &self.format.timestamp(now)].concat();
                batch.put_cf(self.family().id(), &key, value.as_bytes()).unwrap();
                self.db.write(&mut batch).unwrap();
            }
            event => apply_by(self.format, &self.db, now, event),
        }
        self.history.push((now, event));
    }

    fn maintain(&mut self, rng: &mut fastrand::Rng) {
        match rng.u32(..80) {
            0..3 => self.db.flush().unwrap(),
            3 => rewrite(&self.db),
            4 => self.db.compact_range(Some(b"k05"), Some(b"k11")).unwrap(),
            5 | 6 => self.reopen(),
            7 => self.ingest(rng),
            8 | 9 => self.raise(rng),
            10 => drop(self.db.delete_files_in_ranges(&self.family(), &[], true).unwrap()),
            _ => {}
        }
    }

    fn reopen(&mut self) {
        self.db.close().unwrap();
        self.db = Db::open(&self.options, "/db").unwrap();
    }

    /// Ingests a file whose versions are all newer than the existing ones.
    fn ingest(&mut self, rng: &mut fastrand::Rng) {
        self.files += 1;
        let path = format!("/file{}", self.files);
        let mut writer = SstFileWriter::new(&self.options);
        writer.open(&path).unwrap();
        let times: Vec<u64> = (1..5).map(|step| self.now + 100 * step).collect();
        for key in ["k03", "k07"] {
            for time in times.iter().rev() {
                let stamped = [key.as_bytes(), &self.format.timestamp(*time)].concat();
                writer.put(stamped, format!("file{time}")).unwrap();
            }
        }
        writer.finish().unwrap();
        for time in times {
            self.now = time;
            for key in ["k03", "k07"] {
                self.history.push((time, Event::Put(key.to_owned(), format!("file{time}"))));
            }
        }
        let options = IngestExternalFileOptions { move_files: rng.bool(), ..Default::default() };
        self.db.ingest_external_file_opt(&options, &self.db.default_column_family(), &[path]).unwrap();
    }

    fn raise(&mut self, rng: &mut fastrand::Rng) {
        let before = self.low;
        self.low = rng.u64(self.low..=self.now);
        self.db.increase_full_history_ts_low(&self.family(), &self.format.timestamp(self.low)).unwrap();
        if before < self.low {
            let lower = self.format.timestamp(rng.u64(before..self.low));
            let refused = self.db.increase_full_history_ts_low(&self.family(), &lower).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        }
    }

    fn check(&self, rng: &mut fastrand::Rng) {
        for _ in 0..3 {
            check_by(self.format, &self.db, &self.history, rng.u64(self.low..self.now + 300), false);
        }
        check_by(self.format, &self.db, &self.history, u64::MAX, false);
        if self.low > 0 {
            let before = self.format.at(rng.u64(..self.low));
            let refused = self.db.get_opt(&before, &self.family(), "k01").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        }
        let in_force = self.db.full_history_ts_low(&self.family()).unwrap();
        assert!(in_force.is_empty() || self.format.time(&in_force) == self.low);
    }
}

#[test]
fn a_comparator_orders_timestamps_everywhere() {
    for_each_seed("orders", 12, |seed, mut rng| {
        let format = TimestampFormat::of_seed(seed);
        let mut campaign = Campaign::new(format, &mut rng);
        for step in 1..400 {
            campaign.write(&mut rng);
            campaign.maintain(&mut rng);
            if step % 50 == 0 {
                campaign.check(&mut rng);
            }
        }
        rewrite(&campaign.db);
        campaign.check(&mut rng);
        let trim = CompactRangeOptions {
            full_history_ts_low: Some(format.timestamp(campaign.now)),
            ..CompactRangeOptions::default()
        };
        campaign.db.compact_range_opt(&trim, &campaign.family(), None, None).unwrap();
        campaign.low = campaign.now;
        campaign.check(&mut rng);
        campaign.db.close().unwrap();
        let Campaign { options, history, now, db, .. } = campaign;
        drop(db);
        let families = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
        repair_db(&options, "/db", &families).unwrap();
        let db = Db::open(&options, "/db").unwrap();
        check_by(format, &db, &history, now, false);
    });
}

#[test]
fn a_trim_drops_what_is_newer_in_the_comparator_s_order() {
    for_each_seed("orders of trims", 12, |seed, mut rng| {
        let format = TimestampFormat::of_seed(seed);
        let mut campaign = Campaign::new(format, &mut rng);
        for _ in 0..150 {
            campaign.write(&mut rng);
            campaign.maintain(&mut rng);
        }
        let Campaign { options, mut history, now, low, db, .. } = campaign;
        db.close().unwrap();
        drop(db);
        let newest = rng.u64(low..=now);
        let families = [("default", options.cf.clone())];
        let trimmed = Db::open_and_trim_history(&options.db, "/db", families, &format.timestamp(newest));
        history.retain(|(time, _)| *time <= newest);
        for point in [low, newest, now + 1, u64::MAX] {
            check_by(format, trimmed.as_ref().unwrap(), &history, point, false);
        }
    });
}

/// Versions from `from` to `to`, as an iterator with `iter_start_ts` shows them.
fn versions(format: TimestampFormat, db: &Db, from: u64, to: u64) -> Vec<(String, u64, bool)> {
    let options = ReadOptions { iter_start_ts: Some(format.timestamp(from)), ..format.at(to) };
    let mut iter = db.iter_opt(options, &db.default_column_family()).unwrap();
    let comparator = format.comparator();
    let mut found = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        let entry = ParsedEntryInfo::parse(iter.key(), &comparator).unwrap();
        let key = String::from_utf8(entry.user_key.to_vec()).unwrap();
        found.push((key, format.time(entry.timestamp), entry.entry_type.is_point_deletion()));
        iter.next();
    }
    iter.status().unwrap();
    found
}

#[test]
fn versions_between_two_timestamps_are_those_between_them_in_the_comparator_s_order() {
    for_each_seed("orders of versions", 12, |seed, mut rng| {
        let format = TimestampFormat::of_seed(seed);
        let db = Db::open(&format.options(), "/db").unwrap();
        let (mut written, mut now) = (Vec::new(), 0);
        for _ in 0..200 {
            now += rng.u64(1..200);
            let (key, is_deletion) = (format!("k{:02}", rng.u32(..8)), rng.u32(..4) == 0);
            let event = if is_deletion {
                Event::Delete(key.clone())
            } else {
                Event::Put(key.clone(), "v".to_owned())
            };
            apply_by(format, &db, now, &event);
            written.push((key, now, is_deletion));
            match rng.u32(..40) {
                0 => db.flush().unwrap(),
                1 => rewrite(&db),
                _ => {}
            }
        }
        for _ in 0..10 {
            let from = rng.u64(..now);
            let to = rng.u64(from..now + 100);
            let mut expected: Vec<_> =
                written.iter().filter(|(_, t, _)| (from..=to).contains(t)).cloned().collect();
            expected.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
            assert_eq!(versions(format, &db, from, to), expected, "from {from} to {to}");
        }
    });
}

#[test]
fn timestamps_in_memory_only_end_with_the_flush_in_every_order() {
    for_each_seed("orders in memory", 12, |seed, mut rng| {
        let format = TimestampFormat::of_seed(seed);
        let mut options = format.options();
        options.db.compatible_with = TargetVersion::V8;
        options.db.avoid_flush_during_shutdown = true;
        options.cf.persist_user_defined_timestamps = false;
        let mut db = Db::open(&options, "/db").unwrap();
        let (mut history, mut now) = (Vec::new(), 0);
        for round in 0..6 {
            for n in 0..20 {
                now += rng.u64(1..200);
                let event = match n % 7 {
                    5 => Event::DeleteRange("k02".to_owned(), "k04".to_owned()),
                    6 => Event::Delete("k07".to_owned()),
                    _ => Event::Put(format!("k{:02}", rng.u32(..10)), format!("v{now}")),
                };
                apply_by(format, &db, now, &event);
                history.push((now, event));
            }
            let newest: Vec<_> =
                state(&history, now).into_iter().map(|(key, (value, _))| (key, value)).collect();
            check_newest(format, &db, now, &newest);
            match round % 3 {
                0 => db.flush().unwrap(),
                1 => rewrite(&db),
                _ => {
                    db.close().unwrap();
                    db = Db::open(&options, "/db").unwrap();
                    db.flush().unwrap();
                }
            }
            check_newest(format, &db, now, &newest);
            check_newest(format, &db, u64::MAX, &newest);
            let family = db.default_column_family();
            let refused = db.get_opt(&format.at(now - 1), &family, "k01").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        }
    });
}

fn check_newest(format: TimestampFormat, db: &Db, point: u64, expected: &[(String, String)]) {
    let mut iter = db.iter_opt(format.at(point), &db.default_column_family()).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut found = Vec::new();
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        found.push((text(key), text(value)));
        iter.next();
    }
    iter.status().unwrap();
    assert_eq!(found, expected);
}

/// A comparator whose smallest and largest timestamps contradict its order.
struct Contradiction {
    bytes: usize,
    min: Vec<u8>,
    newest_first: bool,
}

impl Comparator for Contradiction {
    fn name(&self) -> &str {
        "test.Contradiction"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.newest_first { b.cmp(a) } else { a.cmp(b) }
    }
    fn timestamp_size(&self) -> usize {
        self.bytes
    }
    fn without_timestamp(&self) -> Option<ComparatorRef> {
        Some(esker::comparator::by_name(super::NAMES[0]).unwrap().without_timestamp().unwrap())
    }
    fn compare_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
    fn min_timestamp(&self) -> Vec<u8> {
        self.min.clone()
    }
}

#[test]
fn a_comparator_whose_timestamps_contradict_themselves_is_refused() {
    let open = |bytes, min, newest_first| {
        let mut options = super::options(super::NAMES[0]);
        options.cf.comparator = Arc::new(Contradiction { bytes, min, newest_first });
        Db::open(&options, "/db").map(drop)
    };
    open(8, vec![0; 8], true).unwrap();
    let cases = [
        (open(8, vec![0; 4], true), "timestamp_size"),
        (open(8, vec![0xFF; 8], true), "min_timestamp before max_timestamp"),
        (open(8, vec![0; 8], false), "newest version of a key first"),
        (open(70_000, vec![0; 70_000], true), "65535"),
    ];
    for (opened, says) in cases {
        let refused = opened.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert!(refused.to_string().contains(says), "{refused}");
    }
}

#[test]
fn a_timestamp_beyond_the_comparator_s_ends_is_refused() {
    struct UpTo100;
    impl Comparator for UpTo100 {
        fn name(&self) -> &str {
            "test.UpTo100"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            let ((a, of_a), (b, of_b)) = (a.split_at(a.len() - 4), b.split_at(b.len() - 4));
            a.cmp(b).then_with(|| of_b.cmp(of_a))
        }
        fn timestamp_size(&self) -> usize {
            4
        }
        fn without_timestamp(&self) -> Option<ComparatorRef> {
            esker::comparator::by_name(super::NAMES[0]).unwrap().without_timestamp()
        }
        fn max_timestamp(&self) -> Vec<u8> {
            vec![0, 0, 0, 100]
        }
    }
    let mut options = super::options(super::NAMES[0]);
    options.cf.comparator = Arc::new(UpTo100);
    let db = Db::open(&options, "/db").unwrap();
    let (write, family) = (WriteOptions::default(), db.default_column_family());
    db.put_with_ts(&write, &family, "key", &[0, 0, 0, 100], "value").unwrap();
    let mut batch = WriteBatch::new();
    batch.put_cf(family.id(), b"key\0\0\0\x65", b"value").unwrap();
    let refused = [
        db.put_with_ts(&write, &family, "key", &[0, 0, 0, 101], "value").unwrap_err(),
        db.delete_range_with_ts(&write, &family, "a", "z", &[1, 0, 0, 0]).unwrap_err(),
        db.write_opt(&write, &mut batch).unwrap_err(),
    ];
    for refused in refused {
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    }
    let newest = ReadOptions { timestamp: Some(vec![0, 0, 0, 100]), ..ReadOptions::default() };
    assert_eq!(db.get_opt(&newest, &family, "key").unwrap().as_deref(), Some(&b"value"[..]));
}
