//! Data blocks end where a policy says.

use esker::internals::env::mem::MemFs;
use esker::options::{
    BlockBasedTableOptions, CompressionType, DataBlockInProgress, FlushBlockBySizePolicyFactory,
    FlushBlockEveryKeyPolicyFactory, FlushBlockPolicy, FlushBlockPolicyFactory, FlushBlockPolicyFactoryRef,
    OptionStruct,
};
use esker::{Db, Env, Options, ReadOptions, SstFileReader, SstFileWriter};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.disable_auto_compactions = true;
    options
}

/// Keys, sizes of values, and whether the block was empty.
type Seen = Arc<Mutex<Vec<(Vec<u8>, usize, bool)>>>;

/// Ends blocks where the first byte of the key changes; records the calls.
#[derive(Default)]
struct ByFirstByte {
    made: AtomicUsize,
    seen: Seen,
}

struct FirstByte {
    last: Option<u8>,
    seen: Seen,
}

impl FlushBlockPolicyFactory for ByFirstByte {
    fn name(&self) -> &str {
        "test.ByFirstByte"
    }
    fn flush_block_policy(&self, table_options: &BlockBasedTableOptions) -> Box<dyn FlushBlockPolicy> {
        assert_eq!(table_options.block_size, 64);
        self.made.fetch_add(1, Ordering::Relaxed);
        Box::new(FirstByte { last: None, seen: self.seen.clone() })
    }
}

impl FlushBlockPolicy for FirstByte {
    fn update(&mut self, key: &[u8], value: &[u8], block: &DataBlockInProgress<'_>) -> bool {
        let user_key = key[..key.len() - 8].to_vec();
        assert!(block.estimate_size_after_kv(key, value) > block.current_size_estimate() + value.len());
        self.seen.lock().unwrap().push((user_key, value.len(), block.is_empty()));
        let before = self.last.replace(key[0]);
        before.is_some_and(|before| before != key[0])
    }
}

#[test]
fn a_policy_of_the_program_sees_each_entry_and_ends_the_blocks() {
    // With a dictionary, blocks wait until it is made.
    for dictionary in [0, 4096] {
        let mut options = options();
        let policy = Arc::new(ByFirstByte::default());
        options.cf.table.flush_block_policy_factory = Some(policy.clone());
        options.cf.table.block_size = 64;
        options.cf.compression = CompressionType::Zstd;
        options.cf.compression_opts.max_dict_bytes = dictionary;
        let db = Db::open(&options, "/db").unwrap();
        let mut model = BTreeMap::new();
        for (user, count) in [('a', 30), ('b', 1), ('c', 17)] {
            for i in 0..count {
                let (key, value) = (format!("{user}{i:02}").into_bytes(), vec![b'v'; i]);
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
        db.delete_range("c90", "c99").unwrap();
        db.flush().unwrap();
        assert_eq!(policy.made.load(Ordering::Relaxed), 1);
        let entries = model.iter().map(|(key, value)| (key.clone(), value.len()));
        let firsts: [&[u8]; 3] = [b"a00", b"b00", b"c00"];
        let seen = std::mem::take(&mut *policy.seen.lock().unwrap());
        assert_eq!(seen.len(), model.len());
        for ((key, size), seen) in entries.zip(seen) {
            // An answer comes before the block ends: only the table's first entry finds it empty.
            assert_eq!(seen, (key.clone(), size, key == firsts[0]));
        }
        db.compact_range(None, None).unwrap();
        let family = db.default_column_family();
        let tables = db.properties_of_all_tables(&family).unwrap();
        let blocks: u64 = tables.values().map(|properties| properties.num_data_blocks).sum();
        assert_eq!((tables.len(), blocks), (1, 3), "dictionary of {dictionary} bytes");
        let mut iter = db.iter().unwrap();
        iter.seek_to_first();
        for (key, value) in &model {
            assert_eq!(iter.item(), Some((&key[..], &value[..])));
            assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
            iter.next();
        }
        assert!(!iter.valid());
    }
}

/// The properties and the size of a table of `count` entries.
fn table(options: &Options, seed: u64) -> (u64, esker::TableProperties) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut writer = SstFileWriter::new(options);
    writer.open("/table").unwrap();
    for i in 0..rng.usize(1..400) {
        let most = if rng.u8(..10) == 0 { 3000 } else { 60 };
        let value = vec![b'v'; rng.usize(..most)];
        writer.put(format!("key{i:05}"), value).unwrap();
    }
    writer.finish().unwrap();
    let reader = SstFileReader::open(options, "/table").unwrap();
    reader.verify_checksum().unwrap();
    let size = options.db.env.fs.file_size(Path::new("/table")).unwrap();
    (size, reader.table_properties().clone())
}

#[test]
fn the_rule_by_size_as_a_policy_makes_the_blocks_of_the_built_in_rule() {
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut options = options();
        options.cf.compression = CompressionType::None;
        options.cf.table.block_size = 1 << rng.u32(6..12);
        options.cf.table.block_size_deviation = rng.u32(..=100);
        options.cf.table.block_align = rng.bool();
        let (size, properties) = table(&options, seed);
        let by_size: FlushBlockPolicyFactoryRef = Arc::new(FlushBlockBySizePolicyFactory);
        options.cf.table.flush_block_policy_factory = Some(by_size);
        let (other_size, other) = table(&options, seed);
        let facts =
            |p: &esker::TableProperties| (p.num_data_blocks, p.data_size, p.index_size, p.num_entries);
        assert_eq!((other_size, facts(&other)), (size, facts(&properties)), "seed {seed}");
    }
}

#[test]
fn blocks_of_one_entry_are_made_by_name_and_the_name_is_in_the_options_file() {
    let mut options = options();
    let name = FlushBlockEveryKeyPolicyFactory::NAME;
    options.cf.table.set_text("flush_block_policy_factory", name).unwrap();
    let (_, properties) = table(&options, 7);
    assert_eq!(properties.num_data_blocks, properties.num_entries);
    let db = Db::open(&options, "/db").unwrap();
    (0..9).for_each(|i| db.put(format!("k{i}"), "v").unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    let fs = options.db.env.fs.clone();
    let loaded = || esker::options::load_latest_options_from(fs.as_ref(), Path::new("/db")).unwrap();
    let text = |loaded: &esker::options::LoadedOptions| {
        loaded.families[0].1.table.text_of("flush_block_policy_factory").unwrap()
    };
    assert_eq!(text(&loaded()), name);

    // The name of a program's policy is written too. A load without the program ignores it.
    options.cf.table.flush_block_policy_factory = Some(Arc::new(ByFirstByte::default()));
    options.cf.table.block_size = 64;
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(db.get("k3").unwrap().as_deref(), Some(&b"v"[..]));
    db.close().unwrap();
    drop(db);
    let loaded = loaded();
    assert_eq!(text(&loaded), FlushBlockBySizePolicyFactory::NAME);
    let ignored = loaded.ignored.iter().find(|(_, option, _)| option == "flush_block_policy_factory");
    assert_eq!(ignored.map(|(_, _, value)| value.as_str()), Some("test.ByFirstByte"));
    let wrong = options.cf.table.set_text("flush_block_policy_factory", "NoSuchPolicy").unwrap_err();
    assert!(wrong.message().contains("NoSuchPolicy"), "{wrong}");
    let read = ReadOptions::default();
    let reader = SstFileReader::open(&options, "/table").unwrap();
    assert!(reader.get(&read, "key00000").unwrap().is_some());
}
