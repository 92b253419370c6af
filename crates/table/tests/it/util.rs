//! Files, keys and tools for the modules of this test.

use esker_base::comparator;
use esker_base::{Result, SequenceNumber, ValueType};
use esker_env::mem::MemFs;
use esker_env::{FileSystem, RandomAccessFile};
use esker_format::cursor::InternalIterator;
use esker_format::filter::FilterPolicy;
use esker_format::key::{InternalKeyComparator, ParsedInternalKey, internal_key};
use esker_table::{
    BlockBasedTableOptions, TableBuilder, TableBuilderOptions, TableFileInfo, TableReadOptions, TableReader,
    TableReaderOptions,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory with RocksDB's databases.
pub fn fixtures() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures"))
}

/// Every table of every fixture, sorted.
pub fn fixture_tables() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for fixture in std::fs::read_dir(fixtures()).unwrap() {
        let fixture = fixture.unwrap().path();
        for dir in [fixture.clone(), fixture.join("db")] {
            let Ok(files) = std::fs::read_dir(&dir) else { continue };
            found.extend(
                files.map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "sst")),
            );
        }
    }
    found.sort();
    assert!(
        found.len() > 100,
        "the fixtures are missing: {} tables in {}",
        found.len(),
        fixtures().display()
    );
    found
}

/// The last two parts of the path without `db`, such as `v7_8_default/000009.sst`.
pub fn short_name(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|p| p.to_string_lossy()).filter(|p| p != "db").collect();
    parts[parts.len() - 2..].join("/")
}

/// A file in memory with this content.
pub fn memory_file(bytes: &[u8]) -> Arc<dyn RandomAccessFile> {
    let fs = MemFs::new();
    let path = Path::new("/table.sst");
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
    fs.new_random_access_file(path).unwrap()
}

/// Table options that use filters.
pub fn with_filters() -> BlockBasedTableOptions {
    BlockBasedTableOptions { filter_policy: Some(FilterPolicy::bloom(10.0)), ..Default::default() }
}

/// Opens a table with the comparator that it names, or with bytewise order if that is unknown.
pub fn open_bytes(bytes: &[u8], table: BlockBasedTableOptions) -> Result<Arc<TableReader>> {
    let file = memory_file(bytes);
    let size = bytes.len() as u64;
    let name = TableReader::properties_of(file.clone(), size)?.comparator_name;
    let order = comparator::by_name(&name)
        .unwrap_or_else(|| comparator::by_name("leveldb.BytewiseComparator").unwrap());
    TableReader::open(file, TableReaderOptions::new(InternalKeyComparator::new(order), Arc::new(table), size))
}

/// A key, its sequence and type, and the value.
pub type Entry = (Vec<u8>, u64, u8, Vec<u8>);

/// The entry at the cursor.
pub fn entry(iter: &dyn InternalIterator) -> Entry {
    let k = ParsedInternalKey::parse(iter.key()).unwrap();
    (k.user_key.to_vec(), k.sequence.0, k.value_type as u8, iter.value().to_vec())
}

/// All entries, forwards.
pub fn scan(reader: &Arc<TableReader>) -> Result<Vec<Entry>> {
    let mut iter = reader.iter(TableReadOptions::default());
    let mut all = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        all.push(entry(&iter));
        iter.next();
    }
    iter.status()?;
    Ok(all)
}

/// All entries, read backwards, in forward order.
pub fn scan_backwards(reader: &Arc<TableReader>) -> Result<Vec<Entry>> {
    let mut iter = reader.iter(TableReadOptions::default());
    let mut all = Vec::new();
    iter.seek_to_last();
    while iter.valid() {
        all.push(entry(&iter));
        iter.prev();
    }
    iter.status()?;
    all.reverse();
    Ok(all)
}

/// The internal key of an entry.
pub fn ikey_of(e: &Entry) -> Vec<u8> {
    internal_key(&e.0, SequenceNumber(e.1), ValueType::from_u8(e.2).unwrap())
}

/// Writes a table of these entries (internal key, value) and returns its bytes.
pub fn write_table(
    options: TableBuilderOptions,
    entries: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
) -> Result<(Vec<u8>, TableFileInfo)> {
    let fs = MemFs::new();
    let path = Path::new("/out.sst");
    let mut builder = TableBuilder::new(options, fs.new_writable_file(path)?)?;
    for (key, value) in entries {
        builder.add(&key, &value)?;
    }
    let info = builder.finish()?;
    builder.sync_and_close()?;
    let mut bytes = vec![0; info.file_size as usize];
    let n = fs.new_random_access_file(path)?.read_at(0, &mut bytes)?;
    assert_eq!(n as u64, fs.file_size(path)?);
    assert_eq!(n, bytes.len());
    Ok((bytes, info))
}

/// A seeded generator.
pub struct Rng(pub fastrand::Rng);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        println!("seed {seed}");
        Rng(fastrand::Rng::with_seed(seed))
    }
    pub fn below(&mut self, n: usize) -> usize {
        self.0.usize(0..n.max(1))
    }
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.0.u8(..)).collect()
    }
    /// Half noise, half repetition: compresses about 2:1.
    pub fn value(&mut self, n: usize) -> Vec<u8> {
        let mut v = self.bytes(n / 2);
        v.resize(n, b'x');
        v
    }
}

/// `count` entries in internal-key order: several versions and kinds of some keys.
pub fn sample_entries(rng: &mut Rng, count: usize, value_bytes: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut out = Vec::new();
    let mut n = 0u64;
    while out.len() < count {
        n += 1 + rng.below(3) as u64;
        let user = format!("key{n:08}");
        let mut sequence = 1000 + rng.below(1000) as u64;
        for _ in 0..1 + rng.below(8).saturating_sub(5) {
            let kind = match rng.below(10) {
                0 => ValueType::Deletion,
                1 => ValueType::Merge,
                2 => ValueType::SingleDeletion,
                _ => ValueType::Value,
            };
            let length = rng.below(2 * value_bytes);
            let value = if kind.is_point_deletion() { Vec::new() } else { rng.value(length) };
            out.push((internal_key(user.as_bytes(), SequenceNumber(sequence), kind), value));
            sequence -= 1 + rng.below(50) as u64;
        }
    }
    out.truncate(count);
    out
}

/// Options for a table of the default order.
pub fn builder_options(table: BlockBasedTableOptions) -> TableBuilderOptions {
    let mut o = TableBuilderOptions::new(InternalKeyComparator::default(), Arc::new(table));
    o.column_family_id = 0;
    o.column_family_name = "default".into();
    o.db_id = "50e94cd6-a3cd-4257-9649-20617c98006b".into();
    o.db_session_id = "1IX334BC65LO07IUIZCW".into();
    o.orig_file_number = esker_base::FileNumber(9);
    o.creation_time = 1_795_180_855;
    o
}

/// The upper-case hex of bytes.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02X}")).collect()
}
