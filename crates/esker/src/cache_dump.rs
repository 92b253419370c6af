//! The block cache as a file: a dump of its blocks, and a load of the dump into a tier.
//!
//! In: a block cache, or a dump of Esker or RocksDB. Out: the dump, or its blocks in a tier below a
//! block cache. A database that was copied to another machine, or opened anew, then finds the
//! blocks there.
//!
//! Source: RocksDB `include/rocksdb/utilities/cache_dump_load.h`,
//! `utilities/cache_dump_load_impl.cc`. The bytes: `docs/format/cache-dump.md`.
//!
//! Invariants
//!  1. No lock of the cache is held while a block is written.
//!  2. A block reaches the tier only if both of its checksums match.
//!  3. For one unit, a reader of files allocates at most as many bytes as the file has.

use crate::db::Db;
use esker_base::{Error, Result};
use esker_cache::tier::{Admission, Saved, SecondaryCache};
use esker_cache::{CacheKey, Role};
use esker_env::{Clock, FileSystem, SequentialFile, SystemClock, WritableFile};
use esker_format::cache_dump::{CacheDumpUnitType, DumpUnit, DumpUnitMeta, header_text};
use esker_table::{BlockCache, stable_file_key};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The release whose format a dump has, as its header says.
const RELEASE: (u32, u32) = (11, 8);
/// Bytes that a writer of files collects before it appends them.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes that a tier gets before a load waits until it has stored them.
const MOST_UNSETTLED_BYTES: usize = 4 << 20;
/// Bytes of the size in front of metadata and units.
const SIZE_BYTES: usize = 4;

/// Options of a [`CacheDumper`].
#[derive(Clone)]
#[non_exhaustive]
pub struct CacheDumpOptions {
    /// The clock of timestamps and of the deadline. Default: the machine's.
    pub clock: Arc<dyn Clock>,
    /// Time since 1970 from which on no block is written; zero: none. Default zero.
    pub deadline: Duration,
    /// Bytes of blocks behind which no block is written; 0: no limit. Default 0. The last block may
    /// go beyond.
    pub max_size_bytes: u64,
}

impl Default for CacheDumpOptions {
    fn default() -> CacheDumpOptions {
        CacheDumpOptions { clock: Arc::new(SystemClock), deadline: Duration::ZERO, max_size_bytes: 0 }
    }
}

impl CacheDumpOptions {
    /// The defaults.
    pub fn new() -> CacheDumpOptions {
        CacheDumpOptions::default()
    }
}

esker_base::setters! {
    CacheDumpOptions {
        clock: Arc<dyn Clock>;
        deadline: Duration;
        max_size_bytes: u64;
    }
}

impl fmt::Debug for CacheDumpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheDumpOptions")
            .field("deadline", &self.deadline)
            .field("max_size_bytes", &self.max_size_bytes)
            .finish_non_exhaustive()
    }
}

/// A destination of a dump: a file, or a program's own, such as a connection.
pub trait CacheDumpWriter: Send {
    /// Takes the metadata of a unit. [`write_packet`](Self::write_packet) follows with the unit.
    /// # Errors
    /// Any error ends the dump, and comes back from it.
    fn write_metadata(&mut self, metadata: &[u8]) -> Result<()>;
    /// Takes a unit.
    /// # Errors
    /// Any error ends the dump, and comes back from it.
    fn write_packet(&mut self, data: &[u8]) -> Result<()>;
    /// Ends the dump.
    /// # Errors
    /// Those of the destination: the dump is not complete then.
    fn close(&mut self) -> Result<()>;
}

/// A source of a dump.
pub trait CacheDumpReader: Send {
    /// The metadata of the next unit, as the writer took it.
    /// # Errors
    /// Any error ends the load, and comes back from it. The end of the source is an error, too: a
    /// load reads nothing behind the footer.
    fn read_metadata(&mut self) -> Result<Vec<u8>>;
    /// The next unit, as the writer took it.
    /// # Errors
    /// Any error ends the load, and comes back from it.
    fn read_packet(&mut self) -> Result<Vec<u8>>;
    /// The place of the unit that was read last, for errors.
    fn place(&self) -> String {
        String::new()
    }
}

/// Creates a file for a dump, and replaces an existing file. RocksDB: `NewToFileCacheDumpWriter`.
/// # Errors
/// `IoError` if the file cannot be made.
pub fn to_file_cache_dump_writer(
    fs: &dyn FileSystem,
    path: impl AsRef<Path>,
) -> Result<Box<dyn CacheDumpWriter>> {
    Ok(Box::new(ToFile { file: fs.new_writable_file(path.as_ref())?, buffer: Vec::new() }))
}

struct ToFile {
    file: Box<dyn WritableFile>,
    buffer: Vec<u8>,
}

impl ToFile {
    fn flush(&mut self) -> Result<()> {
        let appended = self.file.append(&self.buffer);
        self.buffer.clear();
        appended
    }
}

impl CacheDumpWriter for ToFile {
    fn write_metadata(&mut self, metadata: &[u8]) -> Result<()> {
        self.write_packet(metadata)
    }

    fn write_packet(&mut self, data: &[u8]) -> Result<()> {
        let size = u32::try_from(data.len())
            .map_err(|_| Error::invalid_argument("a unit of a cache dump must have less than 4 GiB"))?;
        self.buffer.extend_from_slice(&size.to_le_bytes());
        self.buffer.extend_from_slice(data);
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    fn close(&mut self) -> Result<()> {
        self.flush()?;
        self.file.sync()?;
        self.file.close()
    }
}

/// Opens the file of a dump. RocksDB: `NewFromFileCacheDumpReader`.
/// # Errors
/// `IoError` if the file cannot be opened.
pub fn from_file_cache_dump_reader(
    fs: &dyn FileSystem,
    path: impl AsRef<Path>,
) -> Result<Box<dyn CacheDumpReader>> {
    let path = path.as_ref().to_owned();
    let left = fs.file_size(&path)?;
    Ok(Box::new(FromFile { file: fs.new_sequential_file(&path)?, path, offset: 0, place: 0, left }))
}

struct FromFile {
    file: Box<dyn SequentialFile>,
    path: PathBuf,
    /// Bytes that were read.
    offset: u64,
    /// Offset of the unit that was read last.
    place: u64,
    /// Bytes behind `offset`.
    left: u64,
}

impl FromFile {
    fn bytes(&mut self, count: usize) -> Result<Vec<u8>> {
        if count as u64 > self.left {
            return Err(Error::corruption("the cache dump ends before its footer").at(self.place()));
        }
        let mut bytes = vec![0; count];
        let n = self.file.read(&mut bytes)?;
        if n < count {
            return Err(Error::corruption("the cache dump was cut off while it was read").at(self.place()));
        }
        self.offset += count as u64;
        self.left -= count as u64;
        Ok(bytes)
    }
}

impl CacheDumpReader for FromFile {
    fn read_metadata(&mut self) -> Result<Vec<u8>> {
        self.read_packet()
    }

    fn read_packet(&mut self) -> Result<Vec<u8>> {
        self.place = self.offset;
        let size = self.bytes(SIZE_BYTES)?;
        let size = size.iter().rev().fold(0_usize, |size, byte| (size << 8) | usize::from(*byte));
        self.bytes(size)
    }

    fn place(&self) -> String {
        format!("{} at offset {}", self.path.display(), self.place)
    }
}

/// Writes the blocks of a block cache, so that a [`CacheDumpedLoader`] brings them into another
/// one.
///
/// The dump has data, index and filter blocks, not blobs or rows. The cache is in use meanwhile: a
/// block that comes or goes may be in the dump or not. Each block of the dump counts as used. The
/// blocks are not encrypted, unless the file system of the dump encrypts.
///
/// ```
/// use esker::options::{BlockCache, CacheOptions, block_cache_from_string};
/// use esker::{
///     CacheDumpOptions, CacheDumpedLoader, CacheDumper, Db, Env, Options,
///     from_file_cache_dump_reader, to_file_cache_dump_writer,
/// };
/// use std::sync::Arc;
/// # let dir = esker_testkit::TempDir::new("doc");
///
/// let mut options = Options::new().create_if_missing(true);
/// let cache = Arc::new(BlockCache::new(&CacheOptions::with_capacity(8 << 20))?);
/// options.cf.table.block_cache = Some(cache.clone());
/// let db = Db::open(&options, dir.join("db"))?;
/// db.put("esker", "gravel")?;
/// db.flush()?;
/// db.get("esker")?;
///
/// let (fs, file) = (Env::default().fs, dir.join("dump"));
/// let mut dumper =
///     CacheDumper::new(&CacheDumpOptions::new(), &cache, to_file_cache_dump_writer(&*fs, &file)?);
/// dumper.set_dump_filter(&[&db])?;
/// assert_eq!(dumper.dump_cache_entries_to_writer()?, 1);
/// drop(db);
///
/// let text = "capacity=8M;secondary_cache=compressed_secondary_cache://capacity=8M";
/// let cache = block_cache_from_string(text)?.expect("a cache");
/// let tier = cache.secondary().expect("a tier").clone();
/// let mut loader = CacheDumpedLoader::new(tier, from_file_cache_dump_reader(&*fs, &file)?);
/// assert_eq!(loader.restore_cache_entries_to_secondary_cache()?, 1);
/// options.cf.table.block_cache = Some(cache);
/// let db = Db::open(&options, dir.join("db"))?;
/// assert_eq!(db.get("esker")?.as_deref(), Some(&b"gravel"[..]));
/// # Ok::<_, esker::Error>(())
/// ```
pub struct CacheDumper {
    options: CacheDumpOptions,
    cache: Arc<BlockCache>,
    writer: Box<dyn CacheDumpWriter>,
    /// First words of the keys to dump; `None`: all keys.
    filter: Option<BTreeSet<u64>>,
    sequence_num: u32,
}

impl CacheDumper {
    /// A dumper of all blocks of `cache`. RocksDB: `NewDefaultCacheDumper`.
    pub fn new(
        options: &CacheDumpOptions,
        cache: &Arc<BlockCache>,
        writer: Box<dyn CacheDumpWriter>,
    ) -> CacheDumper {
        CacheDumper {
            options: options.clone(),
            cache: Arc::clone(cache),
            writer,
            filter: None,
            sequence_num: 0,
        }
    }

    /// Restricts the dump to blocks of the tables that these databases have now, in all families.
    /// RocksDB leaves out all families but the default one. Further calls add databases.
    ///
    /// Blocks of tables that name no session, as before RocksDB 6.24, are left out: no other
    /// process would find them.
    /// # Errors
    /// Those of [`Db::properties_of_all_tables`].
    pub fn set_dump_filter(&mut self, dbs: &[&Db]) -> Result<()> {
        let filter = self.filter.get_or_insert_default();
        for db in dbs {
            for name in db.column_family_names() {
                // A family that was dropped meanwhile has no tables.
                let Some(family) = db.column_family(&name) else { continue };
                let tables = db.properties_of_all_tables(&family)?;
                let keys = tables.values().filter_map(stable_file_key);
                filter.extend(keys.map(|key| key.common()));
            }
        }
        Ok(())
    }

    /// Writes the dump and closes the writer. Returns the number of blocks. Copies one block at a
    /// time, and remembers 16 bytes for each block of the cache.
    /// # Errors
    /// The first error of the writer.
    pub fn dump_cache_entries_to_writer(&mut self) -> Result<u64> {
        self.sequence_num = 0;
        self.write(&DumpUnit::header(self.now(), &header_text(RELEASE)))?;
        let mut keys = Vec::new();
        self.cache.apply_to_all(|visited| {
            let is_wanted = |filter: &BTreeSet<u64>| filter.contains(&visited.key.words()[0]);
            if unit_type(visited.role).is_some() && self.filter.as_ref().is_none_or(is_wanted) {
                keys.push((*visited.key, visited.role));
            }
        });
        let (mut bytes, mut blocks) = (0, 0);
        for (key, role) in keys {
            let (now, deadline) = (self.now(), self.options.deadline);
            let is_late = !deadline.is_zero() && u128::from(now) >= deadline.as_micros();
            if is_late || (self.options.max_size_bytes > 0 && bytes > self.options.max_size_bytes) {
                break;
            }
            let Some(block) = self.cache.lookup(&key) else { continue };
            let written = match (unit_type(role), block.saved()) {
                (Some(unit_type), Some(value)) => {
                    bytes += value.len() as u64;
                    blocks += 1;
                    let unit_type = unit_type as u8;
                    self.write(&DumpUnit { timestamp: now, unit_type, key: &key.to_bytes(), value })
                }
                _ => Ok(()),
            };
            self.cache.release(block, false);
            written?;
        }
        self.write(&DumpUnit::footer(self.now()))?;
        self.writer.close()?;
        Ok(blocks)
    }

    fn now(&self) -> u64 {
        self.options.clock.now_micros()
    }

    fn write(&mut self, unit: &DumpUnit<'_>) -> Result<()> {
        let bytes = unit.encode()?;
        self.writer.write_metadata(&DumpUnitMeta::of(self.sequence_num, &bytes).encode())?;
        self.sequence_num = self.sequence_num.wrapping_add(1);
        self.writer.write_packet(&bytes)
    }
}

impl fmt::Debug for CacheDumper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheDumper").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The kind of the unit for blocks of this role; `None` if they are not dumped.
fn unit_type(role: Role) -> Option<CacheDumpUnitType> {
    match role {
        Role::DataBlock => Some(CacheDumpUnitType::Data),
        Role::FilterBlock => Some(CacheDumpUnitType::Filter),
        Role::FilterMetaBlock => Some(CacheDumpUnitType::FilterMetaBlock),
        Role::IndexBlock => Some(CacheDumpUnitType::Index),
        _ => None,
    }
}

/// The role under which readers look for a block of this kind.
fn role_of(unit_type: u8) -> Role {
    const DATA: u8 = CacheDumpUnitType::Data as u8;
    const FILTER: u8 = CacheDumpUnitType::Filter as u8;
    const INDEX: u8 = CacheDumpUnitType::Index as u8;
    // Readers take the index of a partitioned filter as an index.
    const FILTER_META: u8 = CacheDumpUnitType::FilterMetaBlock as u8;
    match unit_type {
        DATA => Role::DataBlock,
        FILTER => Role::FilterBlock,
        INDEX | FILTER_META => Role::IndexBlock,
        _ => Role::OtherBlock,
    }
}

/// Loads a dump of Esker or RocksDB into a tier below a block cache. [`CacheDumper`] has an
/// example.
pub struct CacheDumpedLoader {
    tier: Arc<dyn SecondaryCache>,
    reader: Box<dyn CacheDumpReader>,
}

impl CacheDumpedLoader {
    /// A loader. RocksDB: `NewDefaultCacheDumpedLoader`.
    pub fn new(tier: Arc<dyn SecondaryCache>, reader: Box<dyn CacheDumpReader>) -> CacheDumpedLoader {
        CacheDumpedLoader { tier, reader }
    }

    /// Offers each block of the dump to the tier, as one that the block cache gave up and that must
    /// stay. The tier keeps as many as fit. Returns the number of blocks in the dump.
    /// # Errors
    /// `Corruption` names file and offset of the first bytes that are no part of a dump, or whose
    /// checksum does not match; the blocks in front of them are in the tier · `NotSupported`: a
    /// format version that this version cannot read · the errors of the reader.
    pub fn restore_cache_entries_to_secondary_cache(&mut self) -> Result<u64> {
        let header = self.read_unit()?;
        let checked = DumpUnit::decode(&header).and_then(|unit| unit.check_header());
        checked.map_err(|e| self.at(e))?;
        let (mut blocks, mut unsettled) = (0, 0);
        loop {
            let bytes = self.read_unit()?;
            let unit = DumpUnit::decode(&bytes).map_err(|e| self.at(e))?;
            if unit.is_footer() {
                return Ok(blocks);
            }
            // Blocks under a key of another form are not RocksDB's, and nobody would find them.
            if let Some(key) = CacheKey::from_bytes(unit.key) {
                let saved = Saved { role: role_of(unit.unit_type), codec: 0, bytes: unit.value };
                // A tier on disk writes later, and refuses what it cannot queue.
                unsettled += unit.value.len();
                if unsettled >= MOST_UNSETTLED_BYTES {
                    self.tier.settle();
                    unsettled = unit.value.len();
                }
                if self.tier.insert(&key, saved, true) == Admission::Refused {
                    self.tier.settle();
                    self.tier.insert(&key, saved, true);
                }
            }
            blocks += 1;
        }
    }

    /// The bytes of the next unit, checked.
    fn read_unit(&mut self) -> Result<Vec<u8>> {
        let metadata = self.reader.read_metadata()?;
        let metadata = DumpUnitMeta::decode(&metadata).map_err(|e| self.at(e))?;
        let unit = self.reader.read_packet()?;
        metadata.check(&unit).map_err(|e| self.at(e))?;
        Ok(unit)
    }

    fn at(&self, error: Error) -> Error {
        match self.reader.place() {
            place if place.is_empty() => error,
            place => error.at(place),
        }
    }
}

impl fmt::Debug for CacheDumpedLoader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheDumpedLoader").field("tier", &self.tier).finish_non_exhaustive()
    }
}
