//! Query filters: scans leave out tables by parts of their keys, and miss no key.

use esker::experimental::{
    CappedKeySegmentsExtractor, FilterInput, KeyCategory, KeyCategorySet, KeyKind, KeySegments,
    KeySegmentsExtractor, SstQueryFilterConfig, SstQueryFilterConfigs, SstQueryFilterConfigsManager,
    SstQueryFilterFactory,
};
use esker::internals::env::mem::MemFs;
use esker::table_properties_collector::TablePropertiesCollectorFactory;
use esker::{Db, Env, ErrorKind, Options, ReadOptions, WriteOptions};
use std::sync::Arc;

const NAME: &[u8] = b"rocksdb.sqfc";

fn segment(number: u16) -> SstQueryFilterConfig {
    SstQueryFilterConfig::bytewise_min_max(FilterInput::KeySegment(number), KeyCategorySet::ALL).unwrap()
}

fn configs(widths: &[usize], filters: Vec<SstQueryFilterConfig>) -> SstQueryFilterConfigs {
    let extractor = Arc::new(CappedKeySegmentsExtractor::new(widths).unwrap());
    SstQueryFilterConfigs { filters, extractor: Some(extractor) }
}

fn factory(configs: SstQueryFilterConfigs) -> Arc<SstQueryFilterFactory> {
    let versions = vec![(1, vec![("some".to_owned(), configs)])];
    SstQueryFilterConfigsManager::new(versions).unwrap().factory("some", 1).unwrap()
}

fn open(factory: &Arc<SstQueryFilterFactory>) -> Db {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.disable_auto_compactions = true;
    options.cf.table_properties_collector_factories = vec![factory.clone()];
    Db::open(&options, "/db").unwrap()
}

/// The stored filters, by table.
fn properties(db: &Db) -> Vec<Option<Vec<u8>>> {
    let all = db.properties_of_all_tables(&db.default_column_family()).unwrap();
    all.values().map(|table| table.user_collected_properties.get(NAME).cloned()).collect()
}

fn scan(db: &Db, read: &ReadOptions, lower: &str, upper: &str) -> Vec<Vec<u8>> {
    let entries = db.range_opt(read.clone(), &db.default_column_family(), lower..upper);
    entries.map(|entry| entry.unwrap().0).collect()
}

fn filtered(factory: &SstQueryFilterFactory, lower: &str, upper: &str) -> ReadOptions {
    let filter = factory.table_filter_for_range_query(lower, upper);
    ReadOptions { table_filter: Some(filter), ..ReadOptions::default() }
}

#[test]
fn scans_with_the_filter_find_every_key_and_open_fewer_tables() {
    let inputs = [FilterInput::KeySegment(1), FilterInput::KeySegmentRange(0, 1), FilterInput::WholeKey];
    let filters = inputs.map(|i| SstQueryFilterConfig::bytewise_min_max(i, KeyCategorySet::ALL).unwrap());
    let factory = factory(configs(&[1, 1, 2], filters.to_vec()));
    let db = open(&factory);
    // Each table has a day of each name.
    for day in 0..8 {
        for name in ["a", "b", "c"] {
            for hour in 0..4 {
                db.put(format!("{name}{day}{hour}"), "value").unwrap();
            }
        }
        db.put(["", "a", "b"][day % 3], "short").unwrap();
        db.flush().unwrap();
    }
    let stored = properties(&db);
    assert!(stored.len() == 8 && stored.iter().all(Option::is_some));

    let bounds = ["", "a", "a1", "a12", "a13", "a4", "a9", "b", "b2", "b31", "b7z", "c", "c0", "c99", "d"];
    for lower in bounds {
        for upper in bounds.into_iter().filter(|upper| lower < *upper) {
            let all = scan(&db, &ReadOptions::default(), lower, upper);
            assert_eq!(scan(&db, &filtered(&factory, lower, upper), lower, upper), all, "{lower} to {upper}");
        }
    }
    // The filter of a narrow range leaves the other tables out of a scan over everything.
    let wanted = |lower, upper| scan(&db, &filtered(&factory, lower, upper), "", "~").len();
    assert_eq!(wanted("b3", "b32"), 13, "the table of day 3");
    assert_eq!(wanted("b9", "b99"), 0);
    assert_eq!(wanted("a", "c"), 8 * 12 + 3);
}

#[test]
fn versions_say_which_filters_are_written_and_all_are_read() {
    let versions = vec![
        (1, vec![("days".to_owned(), configs(&[1, 1], vec![segment(1)]))]),
        (2, vec![("other".to_owned(), configs(&[9], vec![segment(0)]))]),
        (3, vec![("days".to_owned(), configs(&[1, 2], vec![segment(1)]))]),
    ];
    let manager = SstQueryFilterConfigsManager::new(versions).unwrap();
    let factory = manager.factory("days", 0).unwrap();
    let db = open(&factory);
    for (version, id) in [(0, None), (1, Some("1b1b")), (2, Some("1b1b")), (3, Some("1b2b"))] {
        factory.set_filtering_version(version).unwrap();
        assert_eq!(factory.configs().is_some(), id.is_some());
        let before = properties(&db).len();
        db.put(format!("x{version}5"), "value").unwrap();
        db.flush().unwrap();
        assert_eq!(properties(&db).len(), before + 1);
        let found = properties(&db).into_iter().flatten().map(|p| p.escape_ascii().to_string());
        let found: Vec<String> = found.collect();
        let count = found.iter().filter(|p| id.is_some_and(|id| p.contains(id))).count();
        assert_eq!(count, [0, 1, 2, 1][version as usize], "{found:?}");
    }
    // A factory that writes no filters reads those of each version.
    let reader = manager.factory("missing", 2).unwrap();
    assert!(reader.configs().is_none());
    assert_eq!(scan(&db, &filtered(&reader, "x1", "x4"), "x1", "x4"), [b"x15", b"x25", b"x35"]);
    assert_eq!(reader.set_filtering_version(4).unwrap_err().kind(), ErrorKind::InvalidArgument);

    let bad = |versions| SstQueryFilterConfigsManager::new(versions).unwrap_err().to_string();
    let some = || ("days".to_owned(), SstQueryFilterConfigs::default());
    assert!(bad(vec![(0, vec![])]).contains("Filtering version 0 is reserved"));
    assert!(bad(vec![(1, vec![]), (3, vec![])]).contains("without repeating: 1 -> 3"));
    assert!(bad(vec![(1, vec![some(), some()])]).contains("Duplicate name in filtering version 1: days"));
    let late = SstQueryFilterConfigsManager::new(vec![(5, vec![])]).unwrap();
    let why = late.factory("days", 4).unwrap_err().to_string();
    assert!(why.contains("before earliest known configuration: 4 < 5"), "{why}");
    let none = SstQueryFilterConfigsManager::new(vec![]).unwrap();
    assert!(none.factory("days", 0).unwrap().configs().is_none());
    assert!(none.factory("days", 1).unwrap_err().to_string().contains("1 > 0"));
}

/// Refuses keys that begin with an exclamation mark.
struct Picky;

impl KeySegmentsExtractor for Picky {
    fn name(&self) -> &str {
        "Picky"
    }
    fn extract(&self, key: &[u8], _: KeyKind, segments: &mut KeySegments) {
        segments.segment_ends = vec![key.len() as u32];
        if key.starts_with(b"!") {
            segments.category = KeyCategory::ERROR_FILE_SCOPE;
        }
    }
}

#[test]
fn a_key_that_the_extractor_refuses_costs_its_table_the_filters_only() {
    let picky = SstQueryFilterConfigs { filters: vec![segment(0)], extractor: Some(Arc::new(Picky)) };
    let factory = factory(picky);
    let db = open(&factory);
    db.put("!", "refused").unwrap();
    db.flush().unwrap();
    db.put("a", "good").unwrap();
    db.flush().unwrap();
    let stored = properties(&db);
    assert_eq!((stored.len(), stored.iter().flatten().count()), (2, 1));
    assert_eq!(scan(&db, &filtered(&factory, "b", "c"), "!", "z"), [b"!"], "the other table is left out");
    assert_eq!(factory.name(), "SstQueryFilterConfigsManagerImpl::MyFactory");
}

#[test]
fn filters_of_keys_with_timestamps_are_those_of_the_keys_alone() {
    let whole = SstQueryFilterConfig::bytewise_min_max(FilterInput::WholeKey, KeyCategorySet::ALL).unwrap();
    let factory = factory(configs(&[1, 1], vec![segment(1), whole]));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.comparator = esker_base::comparator::by_name("leveldb.BytewiseComparator.u64ts").unwrap();
    options.cf.table_properties_collector_factories = vec![factory.clone()];
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    // The first bytes of the timestamps are larger than those of the bounds.
    let timestamp = |n: u64| (n | 0xF0F0_F0F0_F0F0_F0F0).to_le_bytes();
    db.put_with_ts(&WriteOptions::new(), &family, "b", &timestamp(5), "value").unwrap();
    db.flush().unwrap();
    for (lower, upper) in [("b", "b\0"), ("b", "bz"), ("a", "c")] {
        let read = ReadOptions { timestamp: Some(vec![0xFF; 8]), ..filtered(&factory, lower, upper) };
        assert_eq!(scan(&db, &read, lower, upper), [b"b"], "{lower:?} to {upper:?}");
    }
    let read = ReadOptions { timestamp: Some(vec![0xFF; 8]), ..filtered(&factory, "c", "d") };
    assert!(scan(&db, &read, "a", "z").is_empty(), "the filter is in use");
}
