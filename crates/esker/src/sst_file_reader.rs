//! One table without a database: the keys and values that a user sees, and its entries as they are
//! stored.
//!
//! In: a table written by `SstFileWriter` or by a database, of Esker or RocksDB. Out: its keys and
//! values. Its range deletions hide none of its own keys: as in RocksDB, they apply to the levels
//! below. Values in blob files are read from the files beside the table.
//!
//! Source: RocksDB `table/sst_file_reader.cc`.

use crate::get::saver::{AnswerFinish, Saver};
use crate::merge::timestamps::table_iter;
use crate::options::table_read_options;
use crate::options::{Options, ReadOptions};
use crate::scan::timestamped::{TimestampedIter, TimestampedTombstones};
use crate::scan::{DbIter, DbIterOptions};
use crate::snapshot::Snapshot;
use esker_base::comparator::ComparatorRef;
use esker_base::sync::Arc;
use esker_base::{Error, ErrorKind, PinnedBytes, Result, SequenceNumber, ValueType};
use esker_format::cursor::{InternalIterator, ScanIterator};
use esker_format::key::{InternalKeyComparator, LookupKey, ParsedInternalKey};
use esker_format::properties::TableProperties;
use esker_table::blob::{BlobReader, BlobReads, BlobSource, BlobSourceOptions};
use esker_table::{TableReadOptions, TableReader, TableReaderOptions};
use std::fmt;
use std::path::{Path, PathBuf};

/// An open table. All methods may be called from any thread.
///
/// ```
/// # use esker::{Options, ReadOptions, SstFileReader, SstFileWriter};
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let file = dir.join("made.sst");
/// # let mut writer = SstFileWriter::new(&Options::default());
/// # writer.open(&file)?;
/// # writer.put("a", "1")?;
/// # writer.put("b", "2")?;
/// # writer.finish()?;
/// let (options, read) = (Options::default(), ReadOptions::default());
/// let reader = SstFileReader::open(&options, &file)?;
/// assert_eq!(reader.table_properties().num_entries, 2);
/// reader.verify_checksum()?;
/// reader.verify_num_entries()?;
/// assert_eq!(reader.get(&read, "a")?.as_deref(), Some(&b"1"[..]));
/// assert_eq!(reader.multi_get(&read, &["a", "z"]).len(), 2);
/// let mut iter = reader.iter(&read)?;
/// iter.seek_to_first();
/// assert_eq!(iter.item(), Some((&b"a"[..], &b"1"[..])));
///
/// let mut entries = reader.table_iter();
/// entries.seek_to_first();
/// let entry = reader.parse_table_iterator_key(entries.key())?;
/// assert_eq!(entry.user_key, b"a");
/// # Ok::<_, esker::Error>(())
/// ```
pub struct SstFileReader {
    path: PathBuf,
    table: Arc<TableReader>,
    blobs: Arc<BlobSource>,
    icmp: InternalKeyComparator,
    options: Options,
}

/// The parts of a table's entry.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParsedEntryInfo<'a> {
    /// The user key, without its timestamp.
    pub user_key: &'a [u8],
    /// The timestamp; empty in families without user-defined timestamps.
    pub timestamp: &'a [u8],
    /// Its sequence number.
    pub sequence: SequenceNumber,
    /// Its type.
    pub entry_type: ValueType,
}

esker_base::debug_with_text!(ParsedEntryInfo<'_> {
    text user_key,
    text timestamp,
    sequence,
    entry_type,
});

impl<'a> ParsedEntryInfo<'a> {
    /// Splits an internal key of a family with this comparator.
    /// # Errors
    /// `Corruption` if it is too short, or its type is unknown.
    pub fn parse(internal_key: &'a [u8], comparator: &ComparatorRef) -> Result<ParsedEntryInfo<'a>> {
        let ParsedInternalKey { user_key, sequence, value_type } = ParsedInternalKey::parse(internal_key)?;
        let Some(end) = user_key.len().checked_sub(comparator.timestamp_size()) else {
            return Err(Error::corruption("a key is shorter than its timestamp"));
        };
        let (user_key, timestamp) = user_key.split_at(end);
        Ok(ParsedEntryInfo { user_key, timestamp, sequence, entry_type: value_type })
    }
}

impl SstFileReader {
    /// Opens the table at `path`, through `options.db.env`. `options.cf` gives its comparator,
    /// merge operator and prefix extractor.
    /// # Errors
    /// `InvalidArgument` if it was written with another comparator, or holds operands of another
    /// merge operator · `Corruption` and `IoError` name the file · `NotSupported` names the feature
    /// that cannot be read.
    pub fn open(options: &Options, path: impl AsRef<Path>) -> Result<SstFileReader> {
        let (path, fs) = (path.as_ref().to_owned(), &options.db.env.fs);
        let icmp = InternalKeyComparator::new(options.cf.comparator.clone());
        let file_size = fs.file_size(&path)?;
        let table_options = Arc::new(options.cf.table.clone());
        let mut reader_options = TableReaderOptions::new(icmp.clone(), table_options, file_size);
        reader_options.prefix_extractor.clone_from(&options.cf.prefix_extractor);
        reader_options.compression_manager.clone_from(&options.cf.compression_manager);
        reader_options.merge_operator.clone_from(&options.cf.merge_operator);
        reader_options.statistics.clone_from(&options.db.statistics);
        reader_options.clock = options.db.env.clock.clone();
        reader_options.block_protection_bytes_per_key = options.cf.block_protection_bytes_per_key as usize;
        let table =
            TableReader::open(fs.open_random_access(&path, options.db.use_direct_reads)?, reader_options)?;
        let blobs = BlobSourceOptions {
            dir: path.parent().unwrap_or(Path::new("")).to_owned(),
            open_files: esker_table::OpenFiles::new(None),
            cache: None,
            charged_to: None,
            use_direct_reads: options.db.use_direct_reads,
            statistics: options.db.statistics.clone(),
            clock: options.db.env.clock.clone(),
        };
        let blobs = Arc::new(BlobSource::new(fs.clone(), blobs));
        Ok(SstFileReader { path, table, blobs, icmp, options: options.clone() })
    }

    fn lacks_base(&self, key: &[u8]) -> Error {
        let (path, key) = (self.path.display(), key.escape_ascii());
        let what = format!("{path}: what the operands of key '{key}' apply to is elsewhere");
        Error::new(ErrorKind::MergeInProgress, what)
    }

    /// The value of `key` at the snapshot and timestamp of `options`, or `None` if it is absent or
    /// deleted.
    /// # Errors
    /// `MergeInProgress` if the table has operands for the key but no value below them ·
    /// `InvalidArgument` for operands without a merge operator, or a timestamp that is missing or
    /// of another size · `Corruption`, `IoError`.
    pub fn get(&self, options: &ReadOptions, key: impl AsRef<[u8]>) -> Result<Option<PinnedBytes>> {
        let key = key.as_ref();
        if self.icmp.timestamp_size() > 0 || options.timestamp.is_some() {
            let mut versions = self.timestamped(options)?;
            let found = versions.get(key)?;
            return if versions.lacks_base() {
                Err(self.lacks_base(key))
            } else {
                Ok(found.map(|(value, _)| value))
            };
        }
        let (mut saver, mut needs_base) = (Saver::new(), false);
        let table_options = table_read_options(options);
        self.table.get(&table_options, &LookupKey::new(key, sequence_of(options)), &mut |entry, value| {
            needs_base = saver.save(entry.value_type, entry.sequence, || value.pin())
                && saver.needs_older(self.options.cf.merge_operator.as_ref());
            needs_base
        })?;
        if needs_base {
            return Err(self.lacks_base(key));
        }
        saver.finish(&AnswerFinish {
            user_key: key,
            merge_operator: self.options.cf.merge_operator.as_ref(),
            blobs: BlobReads { source: &self.blobs, options: &table_options },
            entity: false,
            statistics: None,
        })
    }

    /// [`SstFileReader::get`] of several keys; answers are in the order of the keys.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        keys: &[K],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        keys.iter().map(|key| self.get(options, key)).collect()
    }

    /// A cursor over the keys visible at the snapshot and timestamp of `options`, within their
    /// bounds. Operands without a base value in the table are merged onto nothing.
    /// # Errors
    /// `InvalidArgument` if a timestamp is missing, of another size, or given where keys have none.
    pub fn iter(&self, options: &ReadOptions) -> Result<SstFileIterator> {
        if self.icmp.timestamp_size() > 0 || options.timestamp.is_some() {
            return Ok(SstFileIterator(Cursor::Timestamped(Box::new(self.timestamped(options)?))));
        }
        let iter = DbIter::new(
            self.icmp.clone(),
            self.entries(table_read_options(options)),
            self.iter_options(options),
            Some(self.table.clone()),
        );
        Ok(SstFileIterator(Cursor::Plain(Box::new(iter))))
    }

    /// A cursor over all point entries as they are stored, including deletions and older versions.
    /// Its keys, and the targets of its seeks, are internal keys;
    /// [`SstFileReader::parse_table_iterator_key`] splits them. Leaves nothing in the block cache.
    pub fn table_iter(&self) -> Box<dyn InternalIterator> {
        self.entries(TableReadOptions { fill_cache: false, ..TableReadOptions::default() })
    }

    /// Splits a key of [`SstFileReader::table_iter`].
    /// # Errors
    /// `Corruption` if it is too short, or its type is unknown.
    pub fn parse_table_iterator_key<'a>(&self, key: &'a [u8]) -> Result<ParsedEntryInfo<'a>> {
        ParsedEntryInfo::parse(key, self.icmp.user_comparator()).map_err(|e| e.at(self.path.display()))
    }

    /// The table's own properties.
    pub fn table_properties(&self) -> &TableProperties {
        self.table.properties()
    }

    /// Reads every block and checks its checksum, the order of all keys, the filter and the counts.
    /// # Errors
    /// The first `Corruption` or `IoError`.
    pub fn verify_checksum(&self) -> Result<()> {
        self.table.verify(&mut |_| true)
    }

    /// Counts the point entries, and compares their number with the properties.
    /// # Errors
    /// `Corruption`: the numbers differ, or a block is damaged · `IoError`.
    pub fn verify_num_entries(&self) -> Result<()> {
        let (mut iter, mut found) = (self.table_iter(), 0_u64);
        iter.seek_to_first();
        while iter.valid() {
            found += 1;
            iter.next();
        }
        iter.status()?;
        let properties = self.table_properties();
        let expected = properties.num_entries.saturating_sub(properties.num_range_deletions);
        if found == expected {
            return Ok(());
        }
        let what = format!("it holds {found} point entries, and {expected} by its properties");
        Err(Error::corruption(what).at(self.path.display()))
    }

    fn entries(&self, options: TableReadOptions) -> Box<dyn ScanIterator> {
        table_iter(&self.table, options, &self.icmp)
    }

    fn iter_options(&self, options: &ReadOptions) -> DbIterOptions {
        let family = &self.options.cf;
        DbIterOptions {
            sequence: sequence_of(options),
            lower_bound: options.iterate_lower_bound.clone(),
            upper_bound: options.iterate_upper_bound.clone(),
            prefix_same_as_start: options.prefix_same_as_start,
            prefix_extractor: family.prefix_extractor.clone(),
            asks_prefix_filters: false,
            max_skippable_internal_keys: options.max_skippable_internal_keys,
            merge_operator: family.merge_operator.clone(),
            blobs: Some(BlobReader { source: self.blobs.clone(), options: table_read_options(options) }),
            ..DbIterOptions::default()
        }
    }

    fn timestamped(&self, options: &ReadOptions) -> Result<TimestampedIter> {
        let size = self.icmp.timestamp_size();
        let why = match &options.timestamp {
            Some(timestamp) if size > 0 && timestamp.len() == size => None,
            Some(timestamp) if size > 0 => Some(format!("has {} bytes, keys have {size}", timestamp.len())),
            Some(_) => Some("is set, but keys have no timestamps".to_owned()),
            None => Some("is not set, but keys have timestamps".to_owned()),
        };
        if let Some(why) = why {
            let error = Error::invalid_argument(format!("ReadOptions::timestamp {why}"));
            return Err(error.at(self.path.display()));
        }
        Ok(TimestampedIter::new(
            self.icmp.clone(),
            self.entries(table_read_options(options)),
            self.iter_options(options),
            options.timestamp.clone().unwrap_or_default(),
            TimestampedTombstones::default(),
            Some(self.table.clone()),
        ))
    }
}

fn sequence_of(options: &ReadOptions) -> SequenceNumber {
    options.snapshot.as_ref().map_or(SequenceNumber::MAX, Snapshot::sequence)
}

impl fmt::Debug for SstFileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SstFileReader").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A cursor over the keys of a table. Not valid until positioned; after an error, until positioned
/// again. It keeps the table open.
///
/// ```
/// # use esker::{Options, ReadOptions, SstFileReader, SstFileWriter};
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let file = dir.join("made.sst");
/// # let mut writer = SstFileWriter::new(&Options::default());
/// # writer.open(&file)?;
/// # writer.put("a", "1")?;
/// # writer.put("b", "2")?;
/// # writer.finish()?;
/// let (options, read) = (Options::default(), ReadOptions::default());
/// let reader = SstFileReader::open(&options, &file)?;
/// let mut iter = reader.iter(&read)?;
/// iter.seek_to_first();
/// while iter.valid() {
///     println!("{:?} has {} bytes", iter.key(), iter.value().len());
///     iter.next();
/// }
/// iter.status()?;
/// iter.seek_to_last();
/// iter.prev();
/// iter.seek("b");
/// iter.seek_for_prev("az");
/// assert_eq!(iter.item(), Some((&b"a"[..], &b"1"[..])));
/// assert_eq!(iter.columns().len(), 1);
/// assert!(iter.timestamp().is_empty());
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Debug)]
pub struct SstFileIterator(Cursor);

#[derive(Debug)]
enum Cursor {
    Plain(Box<DbIter>),
    Timestamped(Box<TimestampedIter>),
}

/// Calls a method that both cursors have.
macro_rules! each {
    ($cursor:expr, $iter:ident => $call:expr) => {
        match $cursor {
            Cursor::Plain($iter) => $call,
            Cursor::Timestamped($iter) => $call,
        }
    };
}

impl SstFileIterator {
    /// Whether it is positioned at a key.
    pub fn valid(&self) -> bool {
        each!(&self.0, iter => iter.valid())
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) {
        each!(&mut self.0, iter => iter.seek_to_first());
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) {
        each!(&mut self.0, iter => iter.seek_to_last());
    }

    /// Moves to the first key at or after `target`.
    pub fn seek(&mut self, target: impl AsRef<[u8]>) {
        each!(&mut self.0, iter => iter.seek(target.as_ref()));
    }

    /// Moves to the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: impl AsRef<[u8]>) {
        each!(&mut self.0, iter => iter.seek_for_prev(target.as_ref()));
    }

    /// Moves to the next key. Does nothing if it is not valid.
    pub fn next(&mut self) {
        each!(&mut self.0, iter => iter.next());
    }

    /// Moves to the previous key. Does nothing if it is not valid.
    pub fn prev(&mut self) {
        each!(&mut self.0, iter => iter.prev());
    }

    /// The key here, without its timestamp. REQUIRES: `valid()`.
    pub fn key(&self) -> &[u8] {
        each!(&self.0, iter => iter.key())
    }

    /// The value here; of an entity, its default column. REQUIRES: `valid()`.
    pub fn value(&self) -> &[u8] {
        each!(&self.0, iter => iter.value())
    }

    /// Name and value of each column here. REQUIRES: `valid()`.
    pub fn columns(&self) -> Vec<(&[u8], &[u8])> {
        each!(&self.0, iter => iter.columns())
    }

    /// The timestamp of the version shown; empty where keys have none. REQUIRES: `valid()`.
    pub fn timestamp(&self) -> &[u8] {
        match &self.0 {
            Cursor::Plain(_) => &[],
            Cursor::Timestamped(iter) => iter.timestamp(),
        }
    }

    /// Key and value here, if it is valid.
    pub fn item(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then(|| (self.key(), self.value()))
    }

    /// The error that made it invalid, if any.
    /// # Errors
    /// `Corruption` and `IoError` name the file · `InvalidArgument`: merge operands without a merge
    /// operator.
    pub fn status(&self) -> Result<()> {
        each!(&self.0, iter => iter.status())
    }
}
