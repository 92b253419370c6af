//! Compaction filters that judge entities, values in blob files by their keys, and the entries of
//! flushes and recoveries.

use esker::compaction_filter::{
    CompactionFilter, CompactionFilterContext, CompactionFilterFactory, EntityColumns, FilterDecision,
    TableFileCreationReason,
};
use esker::internals::env::mem::MemFs;
use esker::internals::env::{FaultFs, FaultRule};
use esker::options::{BottommostLevelCompaction, TargetVersion};
use esker::{CompactRangeOptions, Db, Env, ErrorKind, Options, ReadOptions, WriteOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

type Row = Vec<(Vec<u8>, Vec<u8>)>;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options
}

/// Values and columns of 100 bytes and more go into blob files.
fn with_blobs(filter: Arc<dyn CompactionFilter>) -> Options {
    let mut options = options();
    options.db.compatible_with = TargetVersion::V11_10;
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 100;
    options.cf.compaction_filter = Some(filter);
    options
}

fn put_entity(db: &Db, key: &str, columns: &[(&str, &str)]) {
    let columns: Vec<(&[u8], &[u8])> =
        columns.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    db.put_entity(&WriteOptions::default(), &db.default_column_family(), key, &columns).unwrap();
}

fn columns(db: &Db, key: &str) -> Option<Row> {
    let mut iter = db.iter().unwrap();
    iter.seek(key);
    iter.status().unwrap();
    let is_there = iter.valid() && iter.key() == key.as_bytes();
    let row = |iter: &esker::DbIterator| {
        iter.columns().into_iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
    };
    is_there.then(|| row(&iter))
}

fn row(columns: &[(&str, &str)]) -> Row {
    columns.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

/// Decides about entities by their keys, and notes what it sees of them.
#[derive(Default)]
struct OfEntities {
    seen: Mutex<Vec<(String, usize, bool)>>,
}

impl CompactionFilter for OfEntities {
    fn name(&self) -> &str {
        "OfEntities"
    }

    fn filter(&self, _level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        match key {
            b"to entity" => FilterDecision::ChangeEntity(vec![
                (b"old".to_vec(), value.to_vec()),
                (b"new".to_vec(), b"column".to_vec()),
            ]),
            _ => FilterDecision::Keep,
        }
    }

    fn filter_entity(&self, _level: usize, key: &[u8], columns: &mut dyn EntityColumns) -> FilterDecision {
        let is_blob = (0..columns.len()).any(|i| columns.is_blob(i));
        self.seen.lock().unwrap().push((String::from_utf8_lossy(key).into_owned(), columns.len(), is_blob));
        match key {
            b"drop" => FilterDecision::Remove,
            b"to value" => {
                assert_eq!(columns.name(1), Some(&b"large"[..]));
                FilterDecision::ChangeValue(columns.value(1).unwrap()[..3].to_vec())
            }
            b"change" => FilterDecision::ChangeEntity(vec![(b"only".to_vec(), b"column".to_vec())]),
            b"beyond" => {
                assert_eq!(columns.value(7).unwrap_err().kind(), ErrorKind::InvalidArgument);
                assert!(columns.name(7).is_none() && !columns.is_blob(7) && !columns.is_empty());
                FilterDecision::Keep
            }
            b"twice" => FilterDecision::ChangeEntity(vec![
                (b"name".to_vec(), Vec::new()),
                (b"name".to_vec(), Vec::new()),
            ]),
            _ => FilterDecision::Keep,
        }
    }
}

#[test]
fn a_filter_keeps_removes_and_changes_entities() {
    let filter = Arc::new(OfEntities::default());
    let options = with_blobs(filter.clone());
    let db = Db::open(&options, "/db").unwrap();
    let large = "x".repeat(300);
    let entity = [("", "default"), ("large", &large), ("small", "s")];
    for key in ["beyond", "change", "drop", "keep", "to value"] {
        put_entity(&db, key, &entity);
    }
    db.put("to entity", "value").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(columns(&db, "keep"), Some(row(&entity)));
    assert_eq!(columns(&db, "beyond"), Some(row(&entity)));
    assert_eq!(columns(&db, "drop"), None);
    assert_eq!(columns(&db, "to value"), Some(row(&[("", "xxx")])));
    assert_eq!(columns(&db, "change"), Some(row(&[("only", "column")])));
    assert_eq!(columns(&db, "to entity"), Some(row(&[("new", "column"), ("old", "value")])));
    let seen = std::mem::take(&mut *filter.seen.lock().unwrap());
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert!(seen.iter().all(|(_, len, is_blob)| *len == 3 && !is_blob), "{seen:?}");

    // A name that occurs twice makes no entity, and nothing is lost by it.
    put_entity(&db, "twice", &entity);
    put_entity(&db, "keep", &entity);
    assert!(db.compact_range(None, None).is_err());
    assert_eq!(columns(&db, "twice"), Some(row(&entity)));
}

/// Looks at the columns of entities, and reads their values if it is told to.
#[derive(Default)]
struct Looks {
    reads: AtomicBool,
}

impl CompactionFilter for Looks {
    fn name(&self) -> &str {
        "Looks"
    }

    fn filter(&self, _level: usize, _key: &[u8], _value: &[u8]) -> FilterDecision {
        FilterDecision::Keep
    }

    fn filter_blob_by_key(&self, _level: usize, _key: &[u8]) -> Option<FilterDecision> {
        Some(FilterDecision::Keep)
    }

    fn filter_entity(&self, _level: usize, _key: &[u8], columns: &mut dyn EntityColumns) -> FilterDecision {
        assert_eq!((columns.name(0), columns.name(1)), (Some(&b"far"[..]), Some(&b"near"[..])));
        assert!(columns.is_blob(0) && !columns.is_blob(1));
        assert_eq!(columns.value(1).unwrap(), b"x");
        if self.reads.load(Ordering::SeqCst)
            && let Ok(value) = columns.value(0)
        {
            assert_eq!(value.len(), 250);
        }
        FilterDecision::Keep
    }
}

/// The filter that cannot read a column decides to keep the entity; yet it has not seen all of it.
#[test]
fn a_filter_reads_the_columns_it_asks_for_and_a_failed_read_fails_the_compaction() {
    let filter = Arc::new(Looks::default());
    let mut options = with_blobs(filter.clone());
    let faults = Arc::new(FaultFs::new(options.db.env.fs.clone()));
    options.db.env = Env::with_fs(faults.clone());
    let db = Db::open(&options, "/db").unwrap();
    let large = crate::compat::put_entity_with_a_blob(&db);
    let rewrite =
        CompactRangeOptions::default().bottommost_level_compaction(BottommostLevelCompaction::Force);
    let compact = || db.compact_range_opt(&rewrite, &db.default_column_family(), None, None);
    faults.add_rule(FaultRule::fail_any().on(|path| path.extension().is_some_and(|e| e == "blob")));
    compact().unwrap();
    filter.reads.store(true, Ordering::SeqCst);
    let e = compact().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::IoError, "{e}");
    faults.clear_rules();
    db.resume().unwrap();
    compact().unwrap();
    assert_eq!(columns(&db, "a"), Some(row(&[("far", &large), ("near", "x")])));
}

/// Decides about values in blob files by their keys.
#[derive(Default)]
struct ByKey {
    read: Mutex<Vec<Vec<u8>>>,
}

impl CompactionFilter for ByKey {
    fn name(&self) -> &str {
        "ByKey"
    }

    fn filter(&self, _level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        self.read.lock().unwrap().push(key.to_vec());
        if value.len() > 400 { FilterDecision::Remove } else { FilterDecision::Keep }
    }

    fn filter_blob_by_key(&self, _level: usize, key: &[u8]) -> Option<FilterDecision> {
        match key {
            b"gone" => Some(FilterDecision::Remove),
            b"kept" => Some(FilterDecision::Keep),
            b"changed" => Some(FilterDecision::ChangeValue(b"short".to_vec())),
            _ => None,
        }
    }
}

#[test]
fn a_filter_decides_about_blobs_by_their_keys_unread() {
    let filter = Arc::new(ByKey::default());
    let options = with_blobs(filter.clone());
    let db = Db::open(&options, "/db").unwrap();
    for key in ["changed", "gone", "kept", "read", "too large"] {
        db.put(key, "v".repeat(if key == "too large" { 500 } else { 300 })).unwrap();
    }
    db.put("small", "in the table").unwrap();
    db.compact_range(None, None).unwrap();
    let value = |key| db.get(key).unwrap().map(|value| value.len());
    assert_eq!(value("changed"), Some(5));
    assert_eq!(value("gone"), None);
    assert_eq!(value("kept"), Some(300));
    assert_eq!(value("read"), Some(300));
    assert_eq!(value("too large"), None);
    let mut read = std::mem::take(&mut *filter.read.lock().unwrap());
    read.sort();
    assert_eq!(read, [&b"read"[..], b"small", b"too large"]);
}

/// Makes filters for these reasons, which drop keys that begin with `x`.
struct For {
    reasons: Vec<TableFileCreationReason>,
    made: Mutex<Vec<CompactionFilterContext>>,
}

struct DropsX;

impl CompactionFilter for DropsX {
    fn name(&self) -> &str {
        "DropsX"
    }

    fn filter(&self, _level: usize, key: &[u8], _value: &[u8]) -> FilterDecision {
        if key.starts_with(b"x") { FilterDecision::Remove } else { FilterDecision::Keep }
    }
}

impl CompactionFilterFactory for For {
    fn name(&self) -> &str {
        "For"
    }

    fn should_filter_table_file_creation(&self, reason: TableFileCreationReason) -> bool {
        self.reasons.contains(&reason)
    }

    fn create(&self, context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>> {
        self.made.lock().unwrap().push(context.clone());
        Some(Box::new(DropsX))
    }
}

fn made_for(factory: &For) -> Vec<(TableFileCreationReason, Option<usize>)> {
    let made = std::mem::take(&mut *factory.made.lock().unwrap());
    made.iter().map(|context| (context.reason, context.input_start_level)).collect()
}

#[test]
fn a_factory_filters_flushes_and_recoveries_if_it_says_so() {
    use TableFileCreationReason::{Compaction, Flush, Recovery};
    let factory = Arc::new(For { reasons: vec![Flush, Recovery], made: Mutex::default() });
    let mut options = options();
    options.cf.disable_auto_compactions = true;
    options.cf.compaction_filter_factory = Some(factory.clone());
    let keys =
        |db: &Db| db.iter().unwrap().into_iter().map(|item| item.unwrap().0.to_vec()).collect::<Vec<_>>();
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    for key in ["a", "x1", "x2"] {
        db.put(key, "old").unwrap();
    }
    let snapshot = db.snapshot();
    db.put("x2", "newer").unwrap();
    db.put("x3", "newer").unwrap();
    db.flush().unwrap();
    assert_eq!(made_for(&factory), [(Flush, None)]);
    // The snapshot's entries stay, hidden by deletions where newer ones were dropped.
    let then = ReadOptions::new().snapshot(&snapshot);
    assert_eq!(db.get_opt(&then, &family, "x2").unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!(keys(&db), [&b"a"[..], b"x1"]);
    drop((then, snapshot));
    // Compactions are none of the reasons.
    db.compact_range(None, None).unwrap();
    assert_eq!(made_for(&factory), []);
    assert_eq!(keys(&db), [&b"a"[..], b"x1"]);
    // A newer version is dropped, and the older one in a table does not reappear.
    db.put("x1", "newest").unwrap();
    db.flush().unwrap();
    assert_eq!(keys(&db), [&b"a"[..]]);
    assert_eq!(made_for(&factory), [(Flush, None)]);
    db.put("b", "logged").unwrap();
    db.put("x4", "logged").unwrap();
    drop((family, db));
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(keys(&db), [&b"a"[..], b"b"]);
    assert_eq!(made_for(&factory), [(Recovery, None)]);
    drop(db);

    // By default a factory filters compactions only.
    let factory = Arc::new(For { reasons: vec![Compaction], made: Mutex::default() });
    options.cf.compaction_filter_factory = Some(factory.clone());
    let db = Db::open(&options, "/db").unwrap();
    db.put("x5", "value").unwrap();
    db.flush().unwrap();
    assert_eq!(made_for(&factory), []);
    db.put("x5", "again").unwrap();
    db.compact_range(None, None).unwrap();
    assert!(made_for(&factory).iter().all(|(reason, level)| *reason == Compaction && level.is_some()));
    assert_eq!(keys(&db), [&b"a"[..], b"b"]);
}

#[test]
fn a_factory_learns_the_properties_of_the_inputs() {
    let reasons = vec![TableFileCreationReason::Compaction, TableFileCreationReason::Flush];
    let factory = Arc::new(For { reasons, made: Mutex::default() });
    let mut options = options();
    options.cf.disable_auto_compactions = true;
    options.cf.compaction_filter_factory = Some(factory.clone());
    let db = Db::open(&options, "/db").unwrap();
    for entries in 1..=3 {
        (0..entries).try_for_each(|i| db.put(format!("key{i}"), "value")).unwrap();
        db.flush().unwrap();
    }
    let path = |file: &esker::LiveFileMetaData| {
        file.file.directory.join(file.file.relative_filename.trim_start_matches('/'))
    };
    let inputs: Vec<_> = db.live_files().iter().map(|file| (path(file), file.file.num_entries)).collect();
    let made = std::mem::take(&mut *factory.made.lock().unwrap());
    assert!(made.len() == 3 && made.iter().all(|context| context.input_table_properties.is_empty()));
    db.compact_range(None, None).unwrap();
    let made = factory.made.lock().unwrap();
    let mut given: Vec<_> =
        made[0].input_table_properties.iter().map(|(path, p)| (path.clone(), p.num_entries)).collect();
    given.sort_by_key(|(_, entries)| std::cmp::Reverse(*entries));
    assert_eq!(given, inputs, "level 0, newest first");
}
