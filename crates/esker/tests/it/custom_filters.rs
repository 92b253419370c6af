//! Filters by user code: policies that choose, and policies with filters of their own form.

use esker::compaction_filter::TableFileCreationReason;
use esker::internals::env::mem::MemFs;
use esker::options::{
    CompactionStyle, CustomFilterBitsBuilder, CustomFilterBitsReader, CustomFilterPolicy, FilterBitsBuilder,
    FilterBuildingContext, FilterPolicy, IndexType, OptionStruct, TargetVersion,
};
use esker::perf_context::PerfContext;
use esker::{Db, Env, Error, ErrorKind, Options, Result, SstFileReader, SstFileWriter, prefix};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const BUILT_IN: &str = "rocksdb.BuiltinBloomFilter";

fn options(fs: &Arc<MemFs>, policy: Option<FilterPolicy>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs.clone());
    options.cf.disable_auto_compactions = true;
    options.cf.table.filter_policy = policy;
    options
}

/// The reason, level, number of levels, and family of a table, and whether it is the bottommost.
type Made = (TableFileCreationReason, Option<i32>, Option<i32>, String, bool, CompactionStyle);

/// The exact set of keys as a filter: each key behind its length in two bytes.
#[derive(Default)]
struct Exact {
    made: Mutex<Vec<Made>>,
    batches: Arc<AtomicU64>,
    is_faulty: bool,
}

#[derive(Default)]
struct ExactBuilder {
    keys: BTreeSet<Vec<u8>>,
    is_faulty: bool,
}

struct ExactReader(Arc<AtomicU64>);

fn keys_of(mut contents: &[u8]) -> BTreeSet<&[u8]> {
    let mut keys = BTreeSet::new();
    while let Some((length, rest)) = contents.split_first_chunk::<2>() {
        let (key, rest) = rest.split_at(usize::from(u16::from_le_bytes(*length)));
        keys.insert(key);
        contents = rest;
    }
    keys
}

impl CustomFilterPolicy for Exact {
    fn name(&self) -> &str {
        "test.Exact"
    }
    fn compatibility_name(&self) -> &str {
        "test.ExactKeys"
    }
    fn builder_with_context(&self, of: &FilterBuildingContext<'_>) -> Option<FilterBitsBuilder> {
        let family = of.column_family_name.to_owned();
        let made = (of.reason, of.level, of.num_levels, family, of.is_bottommost, of.compaction_style);
        self.made.lock().unwrap().push(made);
        let builder = ExactBuilder { keys: BTreeSet::new(), is_faulty: self.is_faulty };
        Some(FilterBitsBuilder::custom(Box::new(builder)))
    }
    fn filter_bits_reader(&self, contents: &[u8]) -> Option<Box<dyn CustomFilterBitsReader>> {
        assert!(!keys_of(contents).is_empty());
        Some(Box::new(ExactReader(self.batches.clone())))
    }
}

impl CustomFilterBitsBuilder for ExactBuilder {
    fn add_key(&mut self, key: &[u8]) {
        self.keys.insert(key.to_vec());
    }
    fn estimate_entries_added(&self) -> usize {
        self.keys.len()
    }
    fn finish(&mut self) -> Vec<u8> {
        let keys = std::mem::take(&mut self.keys);
        let length = |key: &Vec<u8>| u16::try_from(key.len()).unwrap().to_le_bytes();
        keys.iter().flat_map(|key| [&length(key)[..], key].concat()).collect()
    }
    fn maybe_post_verify(&self, contents: &[u8]) -> Result<()> {
        assert!(!contents.is_empty());
        if self.is_faulty { Err(Error::corruption("a bit has flipped")) } else { Ok(()) }
    }
    fn approximate_num_entries(&self, bytes: usize) -> usize {
        bytes / 8
    }
    fn calculate_space(&self, num_entries: usize) -> usize {
        num_entries * 8
    }
}

impl CustomFilterBitsReader for ExactReader {
    fn may_match(&self, contents: &[u8], entry: &[u8]) -> bool {
        keys_of(contents).contains(entry)
    }
    fn may_match_many(&self, contents: &[u8], entries: &[&[u8]], may_match: &mut [bool]) {
        self.0.fetch_add(1, Ordering::Relaxed);
        let keys = keys_of(contents);
        entries.iter().zip(may_match).for_each(|(entry, answer)| *answer = keys.contains(entry));
    }
}

/// Even numbers have values; asks for all numbers, one by one and together. Returns the positive
/// and the negative answers of the filters of tables. No filter is asked for 399, which lies behind
/// all tables.
fn ask(db: &Db) -> (u64, u64) {
    PerfContext::reset();
    let keys: Vec<String> = (0..400).map(|i| format!("k{:02}/{i:04}", i / 40)).collect();
    let expected = |i: usize| i.is_multiple_of(2).then(|| format!("{i}").into_bytes());
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(db.get(key).unwrap().map(|value| value.to_vec()), expected(i), "{key}");
    }
    for (i, found) in db.multi_get(&keys).into_iter().enumerate() {
        assert_eq!(found.unwrap().map(|value| value.to_vec()), expected(i), "{i}");
    }
    let counts = PerfContext::current();
    (counts.bloom_sst_hit_count, counts.bloom_sst_miss_count)
}

fn fill(db: &Db) {
    (0..400).step_by(2).for_each(|i| db.put(format!("k{:02}/{i:04}", i / 40), format!("{i}")).unwrap());
    db.flush().unwrap();
}

fn property(db: &Db) -> String {
    let tables = db.properties_of_all_tables(&db.default_column_family()).unwrap();
    tables.values().next().unwrap().filter_policy_name.clone()
}

#[test]
fn a_filter_of_its_own_form_is_written_and_asked() {
    for (partitioned, decoupled, cached) in
        [(false, false, false), (false, false, true), (true, false, true), (true, true, false)]
    {
        let (fs, policy) = (Arc::new(MemFs::new()), Arc::new(Exact::default()));
        let mut options = options(&fs, Some(FilterPolicy::custom(policy.clone())));
        let table = &mut options.cf.table;
        table.index_type = if partitioned { IndexType::TwoLevel } else { IndexType::BinarySearch };
        table.partition_filters = partitioned;
        table.decouple_partitioned_filters = decoupled;
        table.cache_index_and_filter_blocks = cached;
        (table.block_size, table.metadata_block_size) = (256, 256);
        options.cf.prefix_extractor = Some(prefix::fixed(4));
        let db = Db::open(&options, "/db").unwrap();
        fill(&db);
        assert_eq!(property(&db), "test.Exact");
        let what = format!("partitioned {partitioned}, decoupled {decoupled}");
        // Partitions that are not at hand are asked for present keys again.
        assert_eq!(ask(&db).1, 398, "{what}: the exact set has no false positives");
        let batches = policy.batches.load(Ordering::Relaxed);
        assert_eq!(batches > 0, !partitioned, "{what}: full filters are asked for many keys");
        // Seeks with a prefix that no key has.
        let mut iter = db.iter().unwrap();
        iter.seek("k05/");
        assert_eq!(iter.key(), b"k05/0200");
        drop(iter);
        db.compact_range(None, None).unwrap();
        assert_eq!(ask(&db).1, 398, "{what}");
        db.close().unwrap();
        drop(db);

        // Other policies read the table without a filter.
        for other in [Some(FilterPolicy::bloom(10.0)), None] {
            let db = Db::open(&self::options(&fs, other), "/db").unwrap();
            assert_eq!(ask(&db), (0, 0), "{what}");
            db.close().unwrap();
        }
        let reopened = Db::open(&options, "/db").unwrap();
        assert_eq!(ask(&reopened).1, 398, "{what}");
    }
}

#[test]
fn the_context_of_a_builder_says_for_which_table_it_is() {
    use TableFileCreationReason::{Compaction, Flush, Misc};
    let (fs, policy) = (Arc::new(MemFs::new()), Arc::new(Exact::default()));
    let mut options = options(&fs, Some(FilterPolicy::custom(policy.clone())));
    options.cf.num_levels = 5;
    let db = Db::open(&options, "/db").unwrap();
    fill(&db);
    db.compact_range(None, None).unwrap();
    fill(&db);
    db.compact_range(None, None).unwrap();
    let mut writer = SstFileWriter::new(&options);
    writer.open("/table").unwrap();
    writer.put("k", "v").unwrap();
    writer.finish().unwrap();
    let made = std::mem::take(&mut *policy.made.lock().unwrap());
    let of = |reason, level, family: &str, is_bottommost| {
        (reason, level, Some(5), family.to_owned(), is_bottommost, CompactionStyle::Level)
    };
    // The first compaction moves its table.
    let expected = [
        of(Flush, Some(0), "default", false),
        of(Flush, Some(0), "default", false),
        of(Compaction, Some(4), "default", true),
        of(Misc, None, "", false),
    ];
    let facts: Vec<_> = made.iter().map(|m| (m.0, m.1, m.2, m.3.clone(), m.4, m.5)).collect();
    for expected in expected {
        assert!(facts.contains(&expected), "{expected:?} is not in {facts:?}");
    }
}

#[test]
fn a_fault_that_a_builder_finds_fails_the_table() {
    let fs = Arc::new(MemFs::new());
    let faulty = Exact { is_faulty: true, ..Exact::default() };
    let options = options(&fs, Some(FilterPolicy::custom(Arc::new(faulty))));
    let mut writer = SstFileWriter::new(&options);
    writer.open("/table").unwrap();
    writer.put("k", "v").unwrap();
    let error = writer.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.message().contains("a bit has flipped"), "{error}");
}

/// Bloom filters for flushes only.
struct Chooses;

impl CustomFilterPolicy for Chooses {
    fn name(&self) -> &str {
        "test.Chooses"
    }
    fn compatibility_name(&self) -> &str {
        BUILT_IN
    }
    fn builder_with_context(&self, of: &FilterBuildingContext<'_>) -> Option<FilterBitsBuilder> {
        let is_flush = of.reason == TableFileCreationReason::Flush;
        is_flush.then(|| FilterPolicy::bloom(20.0).builder_with_context(of)).flatten()
    }
}

#[test]
fn a_policy_that_chooses_among_built_in_filters_shares_their_form() {
    let fs = Arc::new(MemFs::new());
    let chosen = options(&fs, Some(FilterPolicy::custom(Arc::new(Chooses))));
    let db = Db::open(&chosen, "/db").unwrap();
    fill(&db);
    assert_eq!(property(&db), "test.Chooses");
    assert_eq!(ask(&db), (400, 398));
    db.close().unwrap();
    drop(db);
    // The name in the OPTIONS file is no built-in one: a load leaves it out.
    let loaded = esker::options::load_latest_options_from(fs.as_ref(), Path::new("/db")).unwrap();
    assert_eq!(loaded.families[0].1.table.text_of("filter_policy").as_deref(), Some("nullptr"));
    assert!(loaded.ignored.iter().any(|(_, name, value)| name == "filter_policy" && value == "test.Chooses"));
    let db = Db::open(&options(&fs, Some(FilterPolicy::bloom(2.0))), "/db").unwrap();
    assert_eq!(ask(&db), (400, 398), "a built-in policy reads the filter");
    db.close().unwrap();
    drop(db);
    let db = Db::open(&chosen, "/db").unwrap();
    fill(&db);
    db.compact_range(None, None).unwrap();
    assert_eq!(ask(&db), (0, 0), "the policy makes no filter for compactions");
}

#[test]
fn a_table_with_a_filter_of_its_own_is_whole() {
    let mut options = Options::default();
    options.cf.table.filter_policy = Some(FilterPolicy::custom(Arc::new(Exact::default())));
    options.db.compatible_with = TargetVersion::V11;
    options.cf.table.format_version = 7;
    let mut writer = SstFileWriter::new(&options);
    let dir = esker_testkit::TempDir::new("custom-filters");
    let path = dir.join("table.sst");
    writer.open(&path).unwrap();
    (0..50).for_each(|i| writer.put(format!("{i:03}"), "v").unwrap());
    writer.finish().unwrap();
    let reader = SstFileReader::open(&options, &path).unwrap();
    reader.verify_checksum().unwrap();
    reader.verify_num_entries().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the bytes of a table on the machine's disk")]
    let bytes = std::fs::read(&path).unwrap();
    let name = b"fullfilter.test.ExactKeys";
    assert!(bytes.windows(name.len()).any(|window| window == name));
}
