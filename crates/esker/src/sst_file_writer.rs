//! Tables made outside of any database, to be ingested.
//!
//! In: keys in strictly ascending order. Out: a table file with all sequence numbers 0, and the
//! properties of an ingestible file.
//! Source: RocksDB `table/sst_file_writer.cc`.

use crate::files::{PendingChecksum, checksummed};
use crate::options::{Feature, Options};
use esker_base::sync::Arc;
use esker_base::sync::fork::ProcessOwner;
use esker_base::{Error, FileNumber, Result, SequenceNumber, ValueType};
use esker_env::random;
use esker_format::blob::BlobIndex;
use esker_format::file_name::FileType;
use esker_format::key::{self, InternalKeyComparator};
use esker_format::properties::TableProperties;
use esker_format::wide_column;
use esker_format::wide_column::stored::{StoredColumns, StoredValue};
use esker_table::{TableBuilder, TableBuilderOptions, TableFileInfo};
use std::cmp::Ordering;
use std::fmt;
use std::path::{Path, PathBuf};

/// RocksDB's database name in the properties of such a file.
const DB_ID: &str = "SST Writer";
const VERSION: u32 = 2;

/// Writes one table after another; each goes from [`open`](SstFileWriter::open) to
/// [`finish`](SstFileWriter::finish). A table that is not finished is deleted.
///
/// ```
/// use esker::{Options, ReadOptions, SstFileReader, SstFileWriter, builtin};
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let file = dir.join("made.sst");
///
/// let mut options = Options::default();
/// options.cf.merge_operator = Some(builtin::uint64_add());
/// let mut writer = SstFileWriter::new(&options);
/// writer.open(&file)?;
/// writer.put("a", "1")?;
/// writer.put_entity("b", &[(b"column", b"value")])?;
/// writer.merge("c", 1u64.to_le_bytes())?;
/// writer.delete("d")?;
/// writer.delete_range("x", "y")?;
/// println!("{} bytes so far", writer.file_size());
/// assert_eq!(writer.finish()?.num_entries, 4);
///
/// let reader = SstFileReader::open(&options, &file)?;
/// assert_eq!(reader.get(&ReadOptions::default(), "a")?.as_deref(), Some(&b"1"[..]));
/// # Ok::<_, esker::Error>(())
/// ```
pub struct SstFileWriter {
    options: Options,
    icmp: InternalKeyComparator,
    session_id: String,
    files: u64,
    current: Option<Current>,
    /// The size of the last finished file.
    finished_bytes: u64,
}

struct Current {
    /// The process that owns the file.
    owner: ProcessOwner,
    /// Bytes from which on a value becomes an embedded blob; `None`: none does.
    min_blob_size: Option<u64>,
    path: PathBuf,
    builder: TableBuilder,
    checksum: Option<PendingChecksum>,
    info: ExternalSstFileInfo,
}

/// Options of [`SstFileWriter::open_with_embedded_blobs`]. Start from the defaults. RocksDB's
/// options of compression are left out: RocksDB 11.8 ignores them, and stores embedded blobs as
/// they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SstFileWriterEmbeddedBlobOptions {
    /// Values of this many bytes or more are stored apart. Default: 2048.
    pub min_blob_size: u64,
}

impl Default for SstFileWriterEmbeddedBlobOptions {
    fn default() -> SstFileWriterEmbeddedBlobOptions {
        SstFileWriterEmbeddedBlobOptions { min_blob_size: 2048 }
    }
}

esker_base::setters! {
    SstFileWriterEmbeddedBlobOptions {
        min_blob_size: u64;
    }
}

/// The contents of a finished table. Bounds are user keys; empty where there are none.
#[derive(Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ExternalSstFileInfo {
    /// Its path.
    pub file_path: PathBuf,
    /// First point key.
    pub smallest_key: Vec<u8>,
    /// Last point key.
    pub largest_key: Vec<u8>,
    /// Start of the first range deletion.
    pub smallest_range_del_key: Vec<u8>,
    /// End of the last range deletion.
    pub largest_range_del_key: Vec<u8>,
    /// Sequence number of all keys: 0 until the file is ingested.
    pub sequence_number: SequenceNumber,
    /// Size in bytes.
    pub file_size: u64,
    /// Number of point entries.
    pub num_entries: u64,
    /// Number of range deletions.
    pub num_range_del_entries: u64,
    /// Version of the properties that make a file ingestible.
    pub version: u32,
    /// Checksum of the whole file, for
    /// [`files_checksums`](crate::IngestExternalFileArg::files_checksums); empty without
    /// `file_checksum_gen_factory`.
    pub file_checksum: Vec<u8>,
    /// Name of the function that made the checksum; `Unknown` without one.
    pub file_checksum_func_name: String,
    /// The facts with which an ingestion need not open the file, for
    /// [`file_infos`](crate::IngestExternalFileArg::file_infos). `None` before the file is
    /// finished.
    pub prepared_file_info: Option<Arc<PreparedFileInfo>>,
}

/// The facts about a file that an ingestion needs, so that it need not open the file. The contents
/// are opaque. `SstFileWriter::finish` and
/// [`Db::prepared_file_info`](crate::Db::prepared_file_info) make it;
/// [`IngestExternalFileArg::file_infos`](crate::IngestExternalFileArg::file_infos) takes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreparedFileInfo {
    pub(crate) file_size: u64,
    /// The internal keys of the file's ends; the end of a range deletion has
    /// [`RANGE_END_SENTINEL`](esker_format::key::RANGE_END_SENTINEL).
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
    /// With the smallest and the largest sequence number, whatever the file has.
    pub(crate) properties: TableProperties,
}

esker_base::debug_with_text!(ExternalSstFileInfo {
    file_path,
    text smallest_key,
    text largest_key,
    text smallest_range_del_key,
    text largest_range_del_key,
    sequence_number,
    file_size,
    num_entries,
    num_range_del_entries,
    version,
    text file_checksum,
    file_checksum_func_name,
    prepared_file_info,
});

impl SstFileWriter {
    /// A writer of tables that families with `options.cf` can ingest. Files are written through
    /// `options.db.env`.
    pub fn new(options: &Options) -> SstFileWriter {
        SstFileWriter {
            icmp: InternalKeyComparator::new(options.cf.comparator.clone()),
            options: options.clone(),
            session_id: random::session_id(),
            files: 0,
            current: None,
            finished_bytes: 0,
        }
    }

    /// Whether an `SstFileWriter`, of Esker or RocksDB, made the table with these properties.
    pub fn created_by_sst_file_writer(properties: &TableProperties) -> bool {
        properties.external_sst_file_version.is_some()
    }

    /// Begins a table in a new file, which replaces a file of the same name. If the replaced file
    /// has another hard link, that link keeps its contents.
    /// # Errors
    /// `InvalidArgument` if the last table is not finished, or for an option that cannot be
    /// honoured · `IoError`.
    pub fn open(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.open_with(path.as_ref(), None)
    }

    /// Begins a table as [`open`](Self::open) does. The table stores large values between its data
    /// blocks, and its entries name their places: the values of `put`, and each column of
    /// `put_entity`. Merge operands stay in place. RocksDB reads such tables from 11.6 on.
    ///
    /// Use it for files that are ingested and read by key: an index over keys and small values
    /// stays dense. Compactions write the values back into data blocks, or into blob files. Esker
    /// reads the values of a data block together with the block.
    ///
    /// ```
    /// use esker::options::TargetVersion;
    /// use esker::{Options, ReadOptions, SstFileReader, SstFileWriter};
    /// use esker::SstFileWriterEmbeddedBlobOptions;
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let file = dir.join("made.sst");
    ///
    /// let mut options = Options::default();
    /// options.db.compatible_with = TargetVersion::V11;
    /// options.cf.table.format_version = 7;
    /// let mut writer = SstFileWriter::new(&options);
    /// let apart = SstFileWriterEmbeddedBlobOptions::default().min_blob_size(1000);
    /// writer.open_with_embedded_blobs(&file, &apart)?;
    /// writer.put("large", [7; 1000])?;
    /// writer.put("small", "1")?;
    /// writer.finish()?;
    ///
    /// let reader = SstFileReader::open(&options, &file)?;
    /// let large = reader.get(&ReadOptions::default(), "large")?;
    /// assert_eq!(large.as_deref(), Some(&[7; 1000][..]));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument` if `format_version` is below 7, `compatible_with` is below 11.x, the last
    /// table is not finished, or for an option that cannot be honoured · `IoError`.
    pub fn open_with_embedded_blobs(
        &mut self,
        path: impl AsRef<Path>,
        options: &SstFileWriterEmbeddedBlobOptions,
    ) -> Result<()> {
        if self.options.cf.table.format_version < 7 {
            let what = "Embedded blob SSTs require block-based table format_version >= 7";
            return Err(Error::invalid_argument(what));
        }
        self.options.db.compatible_with.require(Feature::EmbeddedBlobs)?;
        self.open_with(path.as_ref(), Some(options.min_blob_size))
    }

    fn open_with(&mut self, path: &Path, min_blob_size: Option<u64>) -> Result<()> {
        if let Some(current) = &self.current {
            return Err(Error::invalid_argument("the file before is not finished").at(current.path.display()));
        }
        let (path, family) = (path.to_owned(), &self.options.cf);
        family.validate_target(&self.options.db)?;
        let env = &self.options.db.env;
        let file = match env.fs.create_writable_file(&path) {
            // Not truncated: the file may also be a table of a database, under another hard link.
            Err(_) if env.fs.file_exists(&path)? => {
                env.fs.delete_file(&path)?;
                env.fs.create_writable_file(&path)?
            }
            created => created?,
        };
        let file = self.options.db.with_handoff(FileType::Table, file);
        self.files += 1;
        let mut options = TableBuilderOptions::new(self.icmp.clone(), Arc::new(family.table.clone()));
        let last_level = usize::try_from(family.num_levels).unwrap_or(1).saturating_sub(1);
        // RocksDB's writer uses the last level's options only together with a codec for it.
        let is_bottommost = family.bottommost_compression.is_some();
        let (compression, compression_options) = family.compression_for(last_level, 1, is_bottommost);
        options.compression = compression;
        options.compression_opts = compression_options.codec();
        options.compression_manager = family.compression_manager.clone();
        options.sample_for_compression = family.sample_for_compression;
        options.prefix_extractor = family.prefix_extractor.clone();
        options.merge_operator_name = family.merge_operator.as_ref().map(|m| m.name().to_owned());
        DB_ID.clone_into(&mut options.db_id);
        options.db_session_id.clone_from(&self.session_id);
        options.orig_file_number = FileNumber(self.files);
        options.file_creation_time = env.clock.now_seconds();
        options.creation_time = options.file_creation_time;
        options.is_external_file = true;
        options.compaction_style = family.compaction_style;
        options.num_levels = Some(family.num_levels);
        options.embeds_blobs = min_blob_size.is_some();
        let factory = self.options.db.file_checksum_gen_factory.as_ref();
        let (file, checksum) = checksummed(factory, &path, file);
        let builder = TableBuilder::new(options, file)?;
        let info = ExternalSstFileInfo {
            file_path: path.clone(),
            version: VERSION,
            ..ExternalSstFileInfo::default()
        };
        let owner = ProcessOwner::here();
        self.current = Some(Current { owner, min_blob_size, path, builder, checksum, info });
        Ok(())
    }

    /// Adds a value. In a family with user-defined timestamps each key ends in its timestamp, here
    /// and in the methods below.
    /// # Errors
    /// `InvalidArgument` if no file is open, the key is not larger than the one before, or has no
    /// timestamp where there should be one · `IoError`: the table is lost.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), value.as_ref(), ValueType::Value)
    }

    /// Adds an entity with these columns (name, value), in any order.
    /// # Errors
    /// `InvalidArgument`: a name occurs twice, the key does not come after the one before, or no
    /// file is open · `IoError`.
    pub fn put_entity(&mut self, key: impl AsRef<[u8]>, columns: &[(&[u8], &[u8])]) -> Result<()> {
        let mut entity = Vec::new();
        wide_column::serialize(columns, &mut entity)?;
        self.add(key.as_ref(), &entity, ValueType::WideColumnEntity)
    }

    /// Adds a merge operand.
    /// # Errors
    /// `InvalidArgument`: the key does not come after the one before, or no file is open ·
    /// `IoError`.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), operand.as_ref(), ValueType::Merge)
    }

    /// Adds a deletion.
    /// # Errors
    /// `InvalidArgument`: the key does not come after the one before, or no file is open ·
    /// `IoError`.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), &[], ValueType::Deletion)
    }

    /// Adds a deletion of the keys from `begin` up to `end` (exclusive). Range deletions may come
    /// in any order and overlap. They hide keys that the database has when the file is ingested,
    /// nothing in the file itself.
    /// # Errors
    /// `InvalidArgument` if no file is open, `end` comes before `begin`, or one has no timestamp
    /// where keys have them · `IoError`: the table is lost.
    pub fn delete_range(&mut self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        let (begin, end) = (begin.as_ref(), end.as_ref());
        let icmp = self.icmp.clone();
        self.check_timestamp(begin).and_then(|()| self.check_timestamp(end))?;
        let current = self.current()?;
        match icmp.compare_plain_keys(begin, end) {
            Ordering::Greater => {
                return Err(Error::invalid_argument("delete_range: end key comes before start key"));
            }
            Ordering::Equal => return Ok(()),
            Ordering::Less => {}
        }
        current
            .builder
            .add(&key::internal_key(begin, SequenceNumber::ZERO, ValueType::RangeDeletion), end)?;
        let info = &mut current.info;
        let is_first = info.num_range_del_entries == 0;
        if is_first || icmp.compare_user_keys(begin, &info.smallest_range_del_key).is_lt() {
            info.smallest_range_del_key = begin.to_vec();
        }
        if is_first || icmp.compare_user_keys(end, &info.largest_range_del_key).is_gt() {
            info.largest_range_del_key = end.to_vec();
        }
        info.num_range_del_entries += 1;
        Ok(())
    }

    /// Checks that a key has room for its timestamp.
    /// # Errors
    /// `InvalidArgument` if there is no room for a timestamp where keys end in one.
    fn check_timestamp(&self, user_key: &[u8]) -> Result<()> {
        let size = self.icmp.timestamp_size();
        if user_key.len() < size {
            return Err(Error::invalid_argument(format!("a key without its timestamp of {size} bytes")));
        }
        Ok(())
    }

    fn add(&mut self, user_key: &[u8], value: &[u8], kind: ValueType) -> Result<()> {
        let icmp = self.icmp.clone();
        self.check_timestamp(user_key)?;
        // Memtables change the type in the same way. RocksDB may drop a plain deletion of a key
        // with a timestamp.
        let kind = match kind {
            ValueType::Deletion if icmp.timestamp_size() > 0 => ValueType::DeletionWithTimestamp,
            kind => kind,
        };
        let current = self.current()?;
        let info = &mut current.info;
        if info.num_entries > 0 && icmp.compare_user_keys(user_key, &info.largest_key).is_le() {
            return Err(Error::invalid_argument("Keys must be added in strict ascending order."));
        }
        if !key::fits_entry(user_key.len(), value.len()) {
            return Err(key::entry_too_long(user_key.len(), value.len()));
        }
        let stored = match current.min_blob_size {
            Some(least) => with_blobs(&mut current.builder, kind, value, least)?,
            None => None,
        };
        let (kind, value) = stored.as_ref().map_or((kind, value), |(kind, value)| (*kind, &value[..]));
        current.builder.add(&key::internal_key(user_key, SequenceNumber::ZERO, kind), value)?;
        if info.num_entries == 0 {
            info.smallest_key = user_key.to_vec();
        }
        info.largest_key.clear();
        info.largest_key.extend_from_slice(user_key);
        info.num_entries += 1;
        Ok(())
    }

    fn current(&mut self) -> Result<&mut Current> {
        let current = self.current.as_mut().ok_or_else(|| Error::invalid_argument("File is not opened"))?;
        current.owner.check(current.path.display())?;
        Ok(current)
    }

    /// Bytes written so far; after [`SstFileWriter::finish`], those of the finished file.
    pub fn file_size(&self) -> u64 {
        self.current.as_ref().map_or(self.finished_bytes, |current| current.builder.file_size())
    }

    /// Ends the table and makes its contents durable. The caller makes the name durable by a sync
    /// of the directory.
    /// # Errors
    /// `InvalidArgument` if no file is open or nothing was added · `IoError`. After either the file
    /// is deleted · `NotSupported` in a forked child: the file is the parent's.
    pub fn finish(&mut self) -> Result<ExternalSstFileInfo> {
        self.current()?;
        let mut current = self.current.take().ok_or_else(|| Error::invalid_argument("File is not opened"))?;
        let finished = end(&mut current.builder).and_then(|made| {
            current.builder.sync_and_close()?;
            Ok(made)
        });
        match finished {
            Ok(made) => {
                self.finished_bytes = made.file_size;
                Ok(describe(made, current.checksum, current.info))
            }
            Err(e) => {
                // Return the first error.
                self.options.db.env.fs.delete_file(&current.path).unwrap_or_default();
                Err(e)
            }
        }
    }
}

/// Writes values of `least` bytes or more as embedded blobs. Returns the entry's type and value
/// with their places; `None` if the entry stays as it is.
fn with_blobs(
    builder: &mut TableBuilder,
    kind: ValueType,
    value: &[u8],
    least: u64,
) -> Result<Option<(ValueType, Vec<u8>)>> {
    let mut stored = Vec::new();
    match kind {
        ValueType::Value if value.len() as u64 >= least => {
            BlobIndex::Blob(builder.add_embedded_blob(value)?).append_to(&mut stored);
            Ok(Some((ValueType::BlobIndex, stored)))
        }
        ValueType::WideColumnEntity => {
            let mut entity = StoredColumns::parse(value)?;
            let mut is_changed = false;
            for (_, column) in &mut entity.columns {
                if let StoredValue::Inline(bytes) = *column
                    && bytes.len() as u64 >= least
                {
                    *column = StoredValue::Blob(builder.add_embedded_blob(bytes)?);
                    is_changed = true;
                }
            }
            entity.append_to(&mut stored)?;
            Ok(is_changed.then_some((kind, stored)))
        }
        _ => Ok(None),
    }
}

/// A bound of the table as readers see it. They see an embedded blob as a value, which sorts behind
/// its blob index and behind a range deletion from the same key.
fn as_read(mut bound: Vec<u8>, info: &ExternalSstFileInfo) -> Vec<u8> {
    let begins_deletion =
        info.num_range_del_entries > 0 && key::user_key(&bound) == &info.smallest_range_del_key[..];
    let at = bound.len().saturating_sub(key::TRAILER_BYTES);
    if let Some(kind) = bound.get_mut(at).filter(|kind| **kind == ValueType::BlobIndex as u8) {
        *kind = if begins_deletion { ValueType::RangeDeletion } else { ValueType::Value } as u8;
    }
    bound
}

/// Completes the description of a finished table.
fn describe(
    made: TableFileInfo,
    checksum: Option<PendingChecksum>,
    info: ExternalSstFileInfo,
) -> ExternalSstFileInfo {
    let unknown = || (Vec::new(), "Unknown".to_owned());
    let (file_checksum, file_checksum_func_name) = checksum.map_or_else(unknown, PendingChecksum::finish);
    let mut properties = made.properties;
    properties.key_smallest_seqno = Some(made.smallest_seqno.0);
    properties.key_largest_seqno = Some(made.largest_seqno.0);
    let prepared = PreparedFileInfo {
        file_size: made.file_size,
        smallest: as_read(made.smallest, &info),
        largest: as_read(made.largest, &info),
        properties,
    };
    ExternalSstFileInfo {
        file_size: made.file_size,
        file_checksum,
        file_checksum_func_name,
        prepared_file_info: Some(Arc::new(prepared)),
        ..info
    }
}

fn end(builder: &mut TableBuilder) -> Result<TableFileInfo> {
    if builder.is_empty() {
        return Err(Error::invalid_argument("Cannot create sst file with no entries"));
    }
    builder.finish()
}

impl Drop for SstFileWriter {
    fn drop(&mut self) {
        // A forked child leaves the file, which is the parent's.
        if let Some(current) = self.current.take().filter(|current| current.owner.is_here()) {
            current.builder.abandon();
            self.options.db.env.fs.delete_file(&current.path).unwrap_or_default();
        }
    }
}

impl fmt::Debug for SstFileWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SstFileWriter")
            .field("path", &self.current.as_ref().map(|c| &c.path))
            .finish_non_exhaustive()
    }
}
