//! Collectors of table properties: tables store their properties, and files that they mark are
//! compacted.

use esker::internals::env::mem::MemFs;
use esker::observe::{CompactionJobInfo, CompactionReason, EventListener, TableFileCreationInfo};
use esker::options::CompactionStyle;
use esker::table_properties_collector::{
    CompactOnDeletionCollectorFactory, TablePropertiesCollector, TablePropertiesCollectorContext,
    TablePropertiesCollectorFactory, UserCollectedProperties,
};
use esker::{Db, Env, Error, Options, Result, SequenceNumber, SstFileReader, ValueType};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Reasons(Mutex<Vec<CompactionReason>>);

impl EventListener for Reasons {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.0.lock().unwrap().push(info.compaction_reason);
    }
}

/// Options with which only a mark starts a compaction.
fn options(style: CompactionStyle, factory: impl TablePropertiesCollectorFactory + 'static) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.compaction_style = style;
    options.cf.level0_file_num_compaction_trigger = 100;
    options.cf.table_properties_collector_factories = vec![Arc::new(factory)];
    options
}

fn key(number: u32) -> String {
    format!("key{number:06}")
}

#[test]
fn a_table_of_many_deletions_is_compacted_in_each_style() {
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        let reasons = Arc::new(Reasons::default());
        let mut options = options(style, CompactOnDeletionCollectorFactory::new(128, 64, 0.0, 0));
        options.db.listeners = vec![reasons.clone()];
        let db = Db::open(&options, "/db").unwrap();
        (0..1000).try_for_each(|i| db.put(key(i), "value")).unwrap();
        db.flush().unwrap();
        (0..1000).step_by(3).try_for_each(|i| db.delete(key(i))).unwrap();
        (1..1000).step_by(3).try_for_each(|i| db.put(key(i), "newer")).unwrap();
        db.flush().unwrap();
        db.wait_for_background_work().unwrap();
        assert_eq!(*reasons.0.lock().unwrap(), [CompactionReason::FilesMarkedForCompaction], "{style:?}");
        let deletions: u64 = db.live_files().iter().map(|f| f.file.num_deletions).sum();
        assert_eq!(deletions, 0, "{style:?}");
        for i in 0..1000 {
            let expected = [None, Some("newer"), Some("value")][i as usize % 3];
            assert_eq!(db.get(key(i)).unwrap().as_deref(), expected.map(str::as_bytes), "{style:?} {i}");
        }
    }
}

#[test]
fn a_table_of_few_deletions_or_a_small_one_is_left() {
    for factory in [
        CompactOnDeletionCollectorFactory::new(128, 65, 0.5, 0),
        CompactOnDeletionCollectorFactory::new(128, 1, 0.01, 1 << 20),
        CompactOnDeletionCollectorFactory::new(0, 0, 0.0, 0),
    ] {
        let reasons = Arc::new(Reasons::default());
        let mut options = options(CompactionStyle::Level, factory);
        options.db.listeners = vec![reasons.clone()];
        let db = Db::open(&options, "/db").unwrap();
        (0..1000).try_for_each(|i| db.put(key(i), "value")).unwrap();
        db.flush().unwrap();
        (0..1000).step_by(3).try_for_each(|i| db.delete(key(i))).unwrap();
        (0..1000).filter(|i| i % 3 != 0).try_for_each(|i| db.put(key(i), "newer")).unwrap();
        db.flush().unwrap();
        db.wait_for_background_work().unwrap();
        assert!(reasons.0.lock().unwrap().is_empty());
    }
}

/// A collector that counts kinds of entries, and marks files with a certain value.
struct Census;
#[derive(Default)]
struct Counts {
    values: u64,
    range_deletions: u64,
}

impl TablePropertiesCollectorFactory for Census {
    fn name(&self) -> &str {
        "Census"
    }
    fn create(&self, context: &TablePropertiesCollectorContext) -> Option<Box<dyn TablePropertiesCollector>> {
        assert_eq!((context.column_family_id.0, context.level_at_creation), (0, 0));
        let threshold = context.last_level_inclusive_max_seqno_threshold;
        assert_eq!((context.num_levels, threshold), (7, SequenceNumber::MAX));
        Some(Box::new(Counts::default()))
    }
}

impl TablePropertiesCollector for Counts {
    fn name(&self) -> &str {
        "Census"
    }
    fn add_user_key(
        &mut self,
        key: &[u8],
        value: &[u8],
        kind: ValueType,
        sequence: SequenceNumber,
        _file_size: u64,
    ) -> Result<()> {
        assert!(key.starts_with(b"key") && sequence.0 > 0);
        match kind {
            _ if value == b"bad" => return Err(Error::corruption("a bad value")),
            ValueType::RangeDeletion => self.range_deletions += 1,
            _ => self.values += 1,
        }
        Ok(())
    }
    fn finish(&mut self) -> Result<UserCollectedProperties> {
        let counts = format!("{} values, {} range deletions", self.values, self.range_deletions);
        Ok(vec![(b"census".to_vec(), counts.into_bytes())])
    }
}

#[test]
fn a_collectors_properties_are_in_the_table_and_its_error_fails_the_flush() {
    let options = options(CompactionStyle::Level, Census);
    let db = Db::open(&options, "/db").unwrap();
    (0..10).try_for_each(|i| db.put(key(i), "value")).unwrap();
    db.delete_range(key(20), key(30)).unwrap();
    db.flush().unwrap();
    let file = &db.live_files()[0].file;
    let path = file.directory.join(file.relative_filename.trim_start_matches('/'));
    let reader = SstFileReader::open(&options, &path).unwrap();
    let properties = reader.table_properties();
    assert_eq!(properties.property_collectors_names, "[Census]");
    let census = properties.user_collected_properties.get(&b"census"[..]).unwrap();
    assert_eq!(census.as_slice(), b"10 values, 1 range deletions");
    db.put(key(1), "bad").unwrap();
    assert!(db.flush().unwrap_err().to_string().contains("a bad value"));
}

/// Records the calls, and returns a sum as a property with a readable form.
#[derive(Default)]
struct Blocks {
    calls: Arc<Mutex<Vec<Call>>>,
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Entry,
    Block { uncompressed: u64, fast: u64, slow: u64 },
}

impl TablePropertiesCollectorFactory for Blocks {
    fn name(&self) -> &str {
        "Blocks"
    }
    fn create(
        &self,
        _context: &TablePropertiesCollectorContext,
    ) -> Option<Box<dyn TablePropertiesCollector>> {
        Some(Box::new(Blocks { calls: self.calls.clone(), bytes: 0 }))
    }
}

impl TablePropertiesCollector for Blocks {
    fn name(&self) -> &str {
        "Blocks"
    }
    fn add_user_key(&mut self, _: &[u8], _: &[u8], _: ValueType, _: SequenceNumber, _: u64) -> Result<()> {
        self.calls.lock().unwrap().push(Call::Entry);
        Ok(())
    }
    fn block_add(&mut self, uncompressed: u64, fast: u64, slow: u64) {
        self.bytes += uncompressed;
        self.calls.lock().unwrap().push(Call::Block { uncompressed, fast, slow });
    }
    fn finish(&mut self) -> Result<UserCollectedProperties> {
        Ok(vec![(b"block.bytes".to_vec(), self.bytes.to_le_bytes().to_vec())])
    }
    fn readable_properties(&self) -> UserCollectedProperties {
        vec![(b"block.bytes".to_vec(), self.bytes.to_string().into_bytes())]
    }
}

#[derive(Default)]
struct Created(Mutex<Vec<TableFileCreationInfo>>);

impl EventListener for Created {
    fn on_table_file_created(&self, info: &TableFileCreationInfo) {
        self.0.lock().unwrap().push(info.clone());
    }
}

#[test]
fn a_collector_sees_each_data_block_behind_its_entries() {
    for sample_for_compression in [0, 1] {
        let (blocks, created) = (Blocks::default(), Arc::new(Created::default()));
        let calls = blocks.calls.clone();
        let mut options = options(CompactionStyle::Level, blocks);
        options.db.listeners = vec![created.clone()];
        options.cf.table.block_size = 256;
        options.cf.sample_for_compression = sample_for_compression;
        let db = Db::open(&options, "/db").unwrap();
        (0..100).try_for_each(|i| db.put(key(i), "value".repeat(4))).unwrap();
        db.flush().unwrap();
        let calls = std::mem::take(&mut *calls.lock().unwrap());
        assert_eq!(calls.iter().filter(|call| **call == Call::Entry).count(), 100);
        assert_eq!(calls[0], Call::Entry);
        assert!(matches!(calls[calls.len() - 1], Call::Block { .. }), "the last block ends with the table");
        let blocks: Vec<_> = calls.split(|call| *call != Call::Entry).collect();
        assert!(blocks[..blocks.len() - 1].iter().all(|entries| !entries.is_empty()));
        let mut bytes = 0;
        for call in &calls {
            let Call::Block { uncompressed, fast, slow } = *call else { continue };
            bytes += uncompressed;
            let is_sampled = fast > 0 && fast < uncompressed && slow > 0 && slow < uncompressed;
            assert_eq!(
                (is_sampled, (fast, slow) == (0, 0)),
                match sample_for_compression {
                    0 => (false, true),
                    _ => (true, false),
                }
            );
        }
        let created = created.0.lock().unwrap();
        let properties = &created[0].table_properties;
        assert_eq!(properties.num_data_blocks + 1, blocks.len() as u64);
        let readable = |name: &[u8]| properties.readable_properties.get(name).cloned();
        assert_eq!(readable(b"block.bytes"), Some(bytes.to_string().into_bytes()));
        let mut log = vec![0; 1 << 20];
        let read = options.db.env.fs.new_sequential_file("/db/LOG".as_ref()).unwrap().read(&mut log).unwrap();
        let log = String::from_utf8_lossy(&log[..read]);
        assert!(log.contains(&format!("\"block.bytes\": \"{bytes}\"")), "{log}");
    }
}
