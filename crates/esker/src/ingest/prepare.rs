//! Prepares a file for ingestion: opens and checks it, and links or copies it into the database's
//! directory.
//!
//! Invariant: until the MANIFEST names it, a file in the directory belongs to [`PreparedFiles`],
//! whose drop deletes it.
//!
//! Source: RocksDB `ExternalSstFileIngestionJob::Prepare`, `GetIngestedFileInfo`.

use crate::cf::ColumnFamily;
use crate::engine::Engine;
use crate::files::{FileChecksum, checksum_of_file, copy_file, hex, sync_file, take_over};
use crate::ingest::FamilyFiles;
use crate::observe::ExternalFileIngestionInfo;
use crate::options::{
    ColumnFamilyOptions, FileChecksumGenContext, FileChecksumGenFactoryRef, IngestExternalFileOptions,
};
use esker_base::sync::Arc;
use esker_base::{Error, FileNumber, Result, SequenceNumber, ValueType};
use esker_format::cursor::InternalIterator;
use esker_format::key::{self, InternalKeyComparator, ParsedInternalKey, RANGE_END_SENTINEL};
use esker_format::range_del::RangeTombstone;
use esker_format::unique_id::unique_id;
use esker_format::version_edit::FileMetaData;
use esker_table::{TableFile, TableReadOptions, TableReader, TableReaderOptions};
use std::path::{Path, PathBuf};

/// A file that the MANIFEST can name.
pub(super) struct PreparedFiles<'a> {
    engine: &'a Engine,
    pub(super) cf: Arc<ColumnFamily>,
    /// The file's path before the ingestion.
    pub(super) source: PathBuf,
    pub(super) number: FileNumber,
    smallest: Bound,
    largest: Bound,
    unique_id: Option<[u64; 2]>,
    tail_size: u64,
    checksum: Option<FileChecksum>,
    pub(super) file_size: u64,
    pub(super) num_entries: u64,
    /// Whether the file deletes keys or ranges: these may make compactions worthwhile.
    has_deletions: bool,
    /// The sequence number and (`level`) the level that the file gets.
    pub(super) sequence: SequenceNumber,
    pub(super) level: usize,
    /// Whether the MANIFEST names the file, or may name it.
    pub(super) is_named: bool,
}

/// The caller's checksums of one family's files.
pub(super) struct GivenChecksums<'a> {
    factory: Option<&'a FileChecksumGenFactoryRef>,
    /// The checksums: none, or one for each file.
    checksums: &'a [Vec<u8>],
    functions: &'a [String],
}

impl<'a> GivenChecksums<'a> {
    /// The checksums that the caller gave.
    /// # Errors
    /// `InvalidArgument`: there are checksums, but not one checksum and one function for each file.
    pub(super) fn new(engine: &'a Engine, family: &FamilyFiles<'a>) -> Result<GivenChecksums<'a>> {
        let factory = engine.options.file_checksum_gen_factory.as_ref();
        let (checksums, functions) = (family.checksums, family.checksum_func_names);
        let is_for_each = [checksums.len(), functions.len()].iter().all(|n| *n == family.files.len());
        if factory.is_some() && !is_for_each && !(checksums.is_empty() && functions.is_empty()) {
            return Err(Error::invalid_argument(
                "The checksum information of ingested sst files are nonempty and the size of checksums or the size of the \
                 checksum function names does not match with the number of ingested sst files",
            ));
        }
        Ok(GivenChecksums { factory, checksums, functions })
    }
}

/// One end of a file's range.
struct Bound {
    user_key: Vec<u8>,
    kind: ValueType,
    /// Whether the key is not in the file, because a range deletion ends there.
    exclusive: bool,
}

impl<'a> PreparedFiles<'a> {
    /// Opens and checks the file, and links or copies it into the directory.
    /// # Errors
    /// `InvalidArgument`: not a file of `SstFileWriter`, empty, or of another comparator ·
    /// `Corruption` · `NotSupported`: it cannot be moved, and must not be copied · `IoError`.
    pub(super) fn new(
        engine: &'a Engine,
        cf: &Arc<ColumnFamily>,
        family_options: &ColumnFamilyOptions,
        source: &Path,
        options: &IngestExternalFileOptions,
    ) -> Result<PreparedFiles<'a>> {
        let fs = engine.fs().as_ref();
        if !family_options.persist_user_defined_timestamps {
            // The family's tables have no timestamps, so all versions of a key in the file would
            // become one.
            let what = "ingestion into a column family with persist_user_defined_timestamps=false";
            return Err(Error::not_supported(what));
        }
        let file_size = fs.file_size(source)?;
        let table_options = Arc::new(family_options.table.clone());
        let mut reader_options = TableReaderOptions::new(cf.icmp.clone(), table_options, file_size);
        reader_options.merge_operator.clone_from(&family_options.merge_operator);
        let reader = TableReader::open(
            fs.open_random_access(source, engine.options.use_direct_reads)?,
            reader_options,
        )?;
        let (smallest, largest) = check(&reader, &cf.icmp, options).map_err(|e| e.at(source.display()))?;
        let properties = reader.properties();
        let mut prepared = PreparedFiles {
            engine,
            cf: cf.clone(),
            source: source.to_owned(),
            number: engine.numbers.new_file_number(),
            file_size,
            smallest,
            largest,
            unique_id: unique_id(&properties.db_id, &properties.db_session_id, properties.orig_file_number),
            tail_size: match properties.tail_start_offset {
                0 => 0,
                start => file_size.saturating_sub(start),
            },
            checksum: None,
            num_entries: properties.num_entries,
            has_deletions: properties.num_deletions > 0 || properties.num_range_deletions > 0,
            sequence: SequenceNumber::ZERO,
            level: 0,
            is_named: true,
        };
        let target = prepared.path();
        // From here on, a drop may have a file to delete.
        prepared.is_named = false;
        match (options.move_files, options.failed_move_fall_back_to_copy) {
            (true, true) => take_over(fs, source, &target)?,
            (true, false) => fs.link_file(source, &target).and_then(|()| sync_file(fs, &target))?,
            (false, _) => copy_file(fs, source, &target, file_size)?,
        }
        Ok(prepared)
    }

    /// The file's path in the family's first directory.
    fn path(&self) -> PathBuf {
        self.cf.tables.paths().table(0, self.number)
    }

    /// Takes the given checksum of file `i` of its family, or computes it; with `verify`, computes
    /// and compares a given checksum. Without a factory the file has none.
    /// # Errors
    /// `InvalidArgument` if the factory lacks the function · `Corruption` if the file has another
    /// checksum · `IoError`.
    pub(super) fn take_checksum(&mut self, given: &GivenChecksums<'_>, i: usize, verify: bool) -> Result<()> {
        let Some(factory) = given.factory else { return Ok(()) };
        let path = self.path();
        let (fs, is_direct) = (self.engine.fs().as_ref(), self.engine.options.use_direct_reads);
        let (Some(expected), Some(function)) = (given.checksums.get(i), given.functions.get(i)) else {
            self.checksum = Some(checksum_of_file(factory, fs, &path, is_direct, "")?);
            return Ok(());
        };
        if verify {
            let (actual, _) = checksum_of_file(factory, fs, &path, is_direct, function)?;
            if actual != *expected {
                let what = format!(
                    "Checksum verification mismatch for ingestion file using function {function}. Expected: {} Computed: {}",
                    hex(expected),
                    hex(&actual)
                );
                return Err(Error::corruption(what).at(self.source.display()));
            }
        } else {
            let file_name = path.to_string_lossy();
            let context =
                FileChecksumGenContext { file_name: &file_name, requested_checksum_func_name: function };
            let generator = factory.create_file_checksum_generator(&context);
            if generator.is_none_or(|generator| generator.name() != function) {
                let what = format!(
                    "Checksum function name {function} not recognized by DB checksum gen factory {}",
                    factory.name()
                );
                return Err(Error::invalid_argument(what).at(self.source.display()));
            }
        }
        self.checksum = Some((expected.clone(), function.clone()));
        Ok(())
    }

    /// Opens the table under its number and sequence number, if it has deletions: only in open
    /// tables does the engine measure the bytes that deletions hide. A failure is only logged;
    /// reads will report it.
    pub(super) fn open_deletions(&self) {
        if !self.has_deletions {
            return;
        }
        let meta = self.metadata(self.sequence, 0, 0);
        if let Err(e) = self.cf.tables.reader(&TableFile { meta: &meta, level: Some(self.level) }) {
            esker_base::info_log!(self.engine.info_log, Warn, "[{}] {e}", self.cf.name);
        }
    }

    /// The description for listeners.
    pub(super) fn info(&self) -> ExternalFileIngestionInfo {
        let meta = self.metadata(self.sequence, 0, 0);
        let reader = self.cf.tables.reader(&TableFile { meta: &meta, level: Some(self.level) });
        ExternalFileIngestionInfo {
            cf_name: self.cf.name.clone(),
            external_file_path: self.source.clone(),
            internal_file_path: self.path(),
            global_seqno: self.sequence,
            table_properties: reader.map(|reader| reader.properties().clone()).unwrap_or_default(),
        }
    }

    /// The file's first user key.
    pub(super) fn smallest(&self) -> &[u8] {
        &self.smallest.user_key
    }

    /// The file's last user key; the end of a range deletion counts, too.
    pub(super) fn largest(&self) -> &[u8] {
        &self.largest.user_key
    }

    /// The file's description for the MANIFEST.
    pub(super) fn metadata(&self, sequence: SequenceNumber, epoch_number: u64, now: u64) -> FileMetaData {
        FileMetaData {
            number: self.number,
            file_size: self.file_size,
            smallest: self.smallest.internal_key(sequence),
            largest: self.largest.internal_key(sequence),
            smallest_seqno: sequence,
            largest_seqno: sequence,
            oldest_ancestor_time: now,
            file_creation_time: now,
            epoch_number,
            unique_id: self.unique_id,
            tail_size: self.tail_size,
            file_checksum: self.checksum.clone(),
            ..FileMetaData::default()
        }
    }
}

impl Bound {
    fn internal_key(&self, sequence: SequenceNumber) -> Vec<u8> {
        if self.exclusive {
            let mut key = self.user_key.clone();
            key.extend_from_slice(&RANGE_END_SENTINEL.to_le_bytes());
            return key;
        }
        key::internal_key(&self.user_key, sequence, self.kind)
    }
}

impl Drop for PreparedFiles<'_> {
    fn drop(&mut self) {
        if self.is_named {
            return;
        }
        self.cf.tables.evict(self.number);
        let path = self.path();
        let fs = self.engine.fs();
        // A file that cannot be deleted is removed by the next open: no MANIFEST names its number.
        if let Ok(true) = fs.file_exists(&path)
            && let Err(e) = fs.delete_file(&path)
        {
            esker_base::info_log!(self.engine.info_log, Warn, "Could not delete a file not ingested: {e}");
        }
    }
}

/// Checks whether the file can be ingested, and returns its range.
fn check(
    reader: &Arc<TableReader>,
    icmp: &InternalKeyComparator,
    options: &IngestExternalFileOptions,
) -> Result<(Bound, Bound)> {
    match reader.properties().external_sst_file_version {
        Some(2) => {}
        Some(version) => {
            let what = format!("cannot ingest a file of external file version {version}; 2 is known");
            return Err(Error::not_supported(what));
        }
        None => return Err(Error::invalid_argument("External file version not found")),
    }
    if icmp.timestamp_size() > 0 && !reader.properties().user_defined_timestamps_persisted {
        return Err(Error::invalid_argument(
            "the keys in the file have no timestamps, those of the family do",
        ));
    }
    if reader.properties().external_sst_file_global_seqno.unwrap_or(0) != 0 {
        return Err(Error::invalid_argument("the file has a global sequence number: it was ingested before"));
    }
    if options.verify_checksums_before_ingest {
        reader.verify(&mut |_| true)?;
    }
    let mut bounds: Option<(Bound, Bound)> = None;
    let mut entries = reader.iter(TableReadOptions { fill_cache: false, ..TableReadOptions::default() });
    entries.seek_to_first();
    if entries.valid() {
        let first = point_bound(entries.key())?;
        entries.seek_to_last();
        entries.status()?;
        let last = point_bound(entries.key())?;
        bounds = Some((first, last));
    }
    entries.status()?;
    for tombstone in reader.read_range_tombstones()? {
        check_range_deletion(&tombstone, icmp)?;
    }
    if let Some(tombstones) = reader.range_dels() {
        let end_bound = |user_key: &[u8], exclusive| Bound {
            user_key: user_key.to_vec(),
            kind: ValueType::RangeDeletion,
            exclusive,
        };
        let first = tombstones.fragment(0).start;
        // The bound with the newest timestamp sorts before all versions of the end key, which the
        // tombstone does not hide.
        let end = tombstones.fragment(tombstones.len() - 1).end;
        let last = icmp.first_version(icmp.split_timestamp(end).0);
        bounds = Some(match bounds {
            None => (end_bound(first, false), end_bound(&last, true)),
            Some((smallest, largest)) => (
                if icmp.compare_user_keys(first, &smallest.user_key).is_lt() {
                    end_bound(first, false)
                } else {
                    smallest
                },
                if icmp.compare_user_keys(&last, &largest.user_key).is_gt() {
                    end_bound(&last, true)
                } else {
                    largest
                },
            ),
        });
    }
    bounds.ok_or_else(|| Error::invalid_argument("File contain no entries"))
}

fn point_bound(internal_key: &[u8]) -> Result<Bound> {
    let parsed = ParsedInternalKey::parse(internal_key)?;
    if parsed.sequence != SequenceNumber::ZERO {
        return Err(Error::corruption("External file has non zero sequence number"));
    }
    Ok(Bound { user_key: parsed.user_key.to_vec(), kind: parsed.value_type, exclusive: false })
}

/// Refuses a range that ends before it begins. Esker's reads skip such a range. RocksDB's reads
/// would misread it and ranges that overlap it, so RocksDB could not use the database afterwards.
/// No known writer writes such a range.
fn check_range_deletion(tombstone: &RangeTombstone, icmp: &InternalKeyComparator) -> Result<()> {
    if icmp.compare_plain_keys(&tombstone.start, &tombstone.end).is_le() {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "the range deletion from '{}' on ends at '{}', before it begins",
        tombstone.start.escape_ascii(),
        tombstone.end.escape_ascii()
    )))
}
