//! Prepares a file for ingestion: opens and checks it, and links or copies it into the database's
//! directory.
//!
//! Invariant: until the MANIFEST names it, a file in the directory belongs to [`PreparedFile`],
//! whose drop deletes it. Nothing is dropped so once the database has closed: the next open deletes
//! the file.
//!
//! Source: RocksDB `ExternalSstFileIngestionJob::Prepare`, `GetIngestedFileInfo`.

use crate::cf::ColumnFamily;
use crate::engine::Engine;
use crate::files::{
    ChecksumReads, FileChecksum, checksum_of_file, copy_file, hex, link_or_copy_synced, sync_file,
};
use crate::ingest::FamilyFiles;
use crate::ingest::place::FileKeys;
use crate::observe::ExternalFileIngestionInfo;
use crate::options::{
    ColumnFamilyOptions, FileChecksumGenContext, FileChecksumGenFactoryRef, IngestExternalFileOptions,
    Temperature,
};
use crate::sst_file_writer::PreparedFileInfo;
use esker_base::sync::{Arc, Weak};
use esker_base::{Error, FileNumber, Result, SequenceNumber, ValueType};
use esker_format::cursor::InternalIterator;
use esker_format::key::{self, InternalKeyComparator, ParsedInternalKey, RANGE_END_SENTINEL};
use esker_format::properties::TableProperties;
use esker_format::range_del::RangeTombstone;
use esker_format::unique_id::unique_id;
use esker_format::version_edit::FileMetaData;
use esker_table::{TableFile, TableReadOptions, TableReader, TableReaderOptions, check_readable};
use std::path::PathBuf;

/// A file that the MANIFEST can name.
#[derive(Debug)]
pub(super) struct PreparedFile {
    /// The database, unless it has ended.
    engine: Weak<Engine>,
    pub(super) cf: Arc<ColumnFamily>,
    /// The file's path before the ingestion.
    pub(super) source: PathBuf,
    pub(super) number: FileNumber,
    pub(super) options: IngestExternalFileOptions,
    contents: Contents,
    unique_id: Option<[u64; 2]>,
    tail_size: u64,
    checksum: Option<FileChecksum>,
    pub(super) file_size: u64,
    pub(super) num_entries: u64,
    /// Whether the file is a link to its source, and the temperature of the source.
    pub(super) is_linked: bool,
    pub(super) temperature: Temperature,
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
    engine: &'a Engine,
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
        Ok(GivenChecksums { engine, factory, checksums, functions })
    }
}

/// The keys and sequence numbers of a file.
#[derive(Debug)]
struct Contents {
    span: FileKeys,
    /// The internal keys of the span's ends: sequence number and type.
    smallest: (SequenceNumber, ValueType),
    largest: (SequenceNumber, ValueType),
    /// The oldest and the newest sequence number, if the file keeps its own.
    seqnos: Option<(SequenceNumber, SequenceNumber)>,
}

impl PreparedFileInfo {
    /// The keys and sequence numbers of the file, if the options allow it in.
    fn contents(
        &self,
        icmp: &InternalKeyComparator,
        options: &IngestExternalFileOptions,
    ) -> Result<Contents> {
        check_properties(&self.properties, icmp, options)?;
        let of = |internal_key: &[u8]| -> Result<Entry> {
            if key::trailer(internal_key) == RANGE_END_SENTINEL {
                let end = key::user_key(internal_key).to_vec();
                return Ok((end, (SequenceNumber::MAX, ValueType::RangeDeletion)));
            }
            let parsed = ParsedInternalKey::parse(internal_key)?;
            Ok((parsed.user_key.to_vec(), (parsed.sequence, parsed.value_type)))
        };
        let (smallest, largest) = (of(&self.smallest)?, of(&self.largest)?);
        let p = &self.properties;
        let seqnos = match (p.key_smallest_seqno, p.key_largest_seqno) {
            _ if !options.allow_db_generated_files => None,
            (Some(low), Some(high)) => Some((SequenceNumber(low), SequenceNumber(high))),
            _ => return Err(Error::corruption("Unknown largest seqno for db generated file.")),
        };
        check_seqnos(seqnos)?;
        let exclusive = key::trailer(&self.largest) == RANGE_END_SENTINEL;
        let span = FileKeys { smallest: smallest.0, largest: largest.0, exclusive };
        Ok(Contents { span, smallest: smallest.1, largest: largest.1, seqnos })
    }
}

impl PreparedFile {
    /// Checks file `i` of the family, and links or copies it into the directory. Opens the file
    /// unless the caller gave the facts about it.
    /// # Errors
    /// `InvalidArgument`: not a file of `SstFileWriter`, empty, or of another comparator ·
    /// `Corruption` · `NotSupported`: it cannot be moved, and must not be copied, or a database's
    /// table has values in blob files · `IoError`.
    pub(super) fn new(
        engine: &Arc<Engine>,
        family: &FamilyFiles<'_>,
        i: usize,
        family_options: &ColumnFamilyOptions,
        options: &IngestExternalFileOptions,
    ) -> Result<PreparedFile> {
        let (cf, source) = (family.cf, family.files[i].as_path());
        let fs = engine.fs().as_ref();
        if !family_options.persist_user_defined_timestamps {
            // The family's tables have no timestamps, so all versions of a key in the file would
            // become one.
            let what = "ingestion into a column family with persist_user_defined_timestamps=false";
            return Err(Error::not_supported(what));
        }
        // The bounds of range deletions in a family with timestamps come from the file.
        let must_open = options.verify_checksums_before_ingest || cf.icmp.timestamp_size() > 0;
        let reader_options = |file_size| {
            let table_options = Arc::new(family_options.table.clone());
            let mut reader_options = TableReaderOptions::new(cf.icmp.clone(), table_options, file_size);
            reader_options.compression_manager.clone_from(&family_options.compression_manager);
            reader_options.merge_operator.clone_from(&family_options.merge_operator);
            reader_options
        };
        let (reader, contents);
        let (file_size, properties) = match family.infos.get(i).filter(|_| !must_open) {
            Some(info) => {
                let readable = check_readable(&info.properties, 0, &reader_options(info.file_size));
                contents = readable.and_then(|()| info.contents(&cf.icmp, options));
                (info.file_size, &info.properties)
            }
            None => {
                let file_size = fs.file_size(source)?;
                let reader_options = reader_options(file_size);
                let file = fs.open_random_access(source, engine.options.use_direct_reads)?;
                reader = TableReader::open(file, reader_options)?;
                contents = check(&reader, &cf.icmp, options);
                (file_size, reader.properties())
            }
        };
        let contents = contents.map_err(|e| e.at(source.display()))?;
        let mut prepared = PreparedFile {
            engine: Arc::downgrade(engine),
            cf: cf.clone(),
            source: source.to_owned(),
            number: engine.numbers.new_file_number(),
            options: *options,
            file_size,
            contents,
            unique_id: unique_id(&properties.db_id, &properties.db_session_id, properties.orig_file_number),
            tail_size: match properties.tail_start_offset {
                0 => 0,
                start => file_size.saturating_sub(start),
            },
            checksum: None,
            num_entries: properties.num_entries,
            is_linked: false,
            temperature: family.temperature,
            has_deletions: properties.num_deletions > 0 || properties.num_range_deletions > 0,
            sequence: SequenceNumber::ZERO,
            level: 0,
            is_named: true,
        };
        let target = prepared.path();
        // From here on, a drop may have a file to delete.
        prepared.is_named = false;
        prepared.is_linked =
            match (options.move_files || options.link_files, options.failed_move_fall_back_to_copy) {
                (true, true) => link_or_copy_synced(fs, source, &target)?,
                (true, false) => {
                    fs.link_file(source, &target).and_then(|()| sync_file(fs, &target)).map(|()| true)?
                }
                (false, _) => copy_file(fs, source, &target, file_size).map(|()| false)?,
            };
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
        let reads = ChecksumReads::new(factory, given.engine.fs().as_ref(), &given.engine.options);
        let (Some(expected), Some(function)) = (given.checksums.get(i), given.functions.get(i)) else {
            self.checksum = Some(checksum_of_file(&reads, &path, "")?);
            return Ok(());
        };
        if verify {
            let (actual, _) = checksum_of_file(&reads, &path, function)?;
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
    pub(super) fn open_deletions(&self, engine: &Engine) {
        if !self.has_deletions {
            return;
        }
        let meta = self.metadata(self.sequence, 0, 0);
        if let Err(e) = self.cf.tables.reader(&TableFile { meta: &meta, level: Some(self.level) }) {
            esker_base::info_log!(engine.info_log, Warn, "[{}] {e}", self.cf.name);
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

    /// The file's user keys; the end of a range deletion counts, too.
    pub(super) fn span(&self) -> &FileKeys {
        &self.contents.span
    }

    /// The file's first user key.
    pub(super) fn smallest(&self) -> &[u8] {
        &self.contents.span.smallest
    }

    /// The file's last user key; the end of a range deletion counts, too.
    pub(super) fn largest(&self) -> &[u8] {
        &self.contents.span.largest
    }

    /// The oldest and the newest of the sequence numbers that the file keeps.
    pub(super) fn own_seqnos(&self) -> Option<(SequenceNumber, SequenceNumber)> {
        self.contents.seqnos
    }

    /// The file's description for the MANIFEST.
    pub(super) fn metadata(&self, sequence: SequenceNumber, epoch_number: u64, now: u64) -> FileMetaData {
        FileMetaData {
            number: self.number,
            file_size: self.file_size,
            smallest: self.contents.smallest_key(sequence),
            largest: self.contents.largest_key(sequence),
            smallest_seqno: self.contents.seqnos.map_or(sequence, |(smallest, _)| smallest),
            largest_seqno: self.contents.seqnos.map_or(sequence, |(_, largest)| largest),
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

impl Contents {
    /// The first internal key, if all entries get `sequence`.
    fn smallest_key(&self, sequence: SequenceNumber) -> Vec<u8> {
        let (own, kind) = self.smallest;
        key::internal_key(&self.span.smallest, self.seqnos.map_or(sequence, |_| own), kind)
    }

    /// The last internal key, if all entries get `sequence`.
    fn largest_key(&self, sequence: SequenceNumber) -> Vec<u8> {
        if self.span.exclusive {
            let mut key = self.span.largest.clone();
            key.extend_from_slice(&RANGE_END_SENTINEL.to_le_bytes());
            return key;
        }
        let (own, kind) = self.largest;
        key::internal_key(&self.span.largest, self.seqnos.map_or(sequence, |_| own), kind)
    }
}

impl Drop for PreparedFile {
    fn drop(&mut self) {
        if self.is_named {
            return;
        }
        self.cf.tables.evict(self.number);
        let Some(engine) = self.engine.upgrade() else { return };
        let path = self.path();
        let fs = engine.fs();
        // A file that cannot be deleted is removed by the next open: no MANIFEST names its number.
        if let Ok(true) = fs.file_exists(&path)
            && let Err(e) = fs.delete_file(&path)
        {
            esker_base::info_log!(engine.info_log, Warn, "Could not delete a file not ingested: {e}");
        }
    }
}

/// Checks whether the file can be ingested, and returns its keys.
fn check(
    reader: &Arc<TableReader>,
    icmp: &InternalKeyComparator,
    options: &IngestExternalFileOptions,
) -> Result<Contents> {
    check_properties(reader.properties(), icmp, options)?;
    if options.verify_checksums_before_ingest {
        reader.verify(&mut |_| true)?;
    }
    let points = first_and_last_point(reader)?;
    let tombstones = reader.read_range_tombstones()?;
    tombstones.iter().try_for_each(|tombstone| check_range_deletion(tombstone, icmp))?;
    let seqnos = if options.allow_db_generated_files {
        Some(own_seqnos(reader, &tombstones)?)
    } else {
        let mut ends = points.iter().flat_map(|(first, last)| [first.1, last.1]);
        if ends.any(|(sequence, _)| sequence != SequenceNumber::ZERO) {
            return Err(Error::corruption("External file has non zero sequence number"));
        }
        None
    };
    let contents = widen(points, reader, icmp)?;
    Ok(Contents { seqnos, ..contents })
}

/// Checks whether a file with these properties can be ingested.
fn check_properties(
    properties: &TableProperties,
    icmp: &InternalKeyComparator,
    options: &IngestExternalFileOptions,
) -> Result<()> {
    match properties.external_sst_file_version {
        Some(2) => {}
        Some(version) => {
            let what = format!("cannot ingest a file of external file version {version}; 2 is known");
            return Err(Error::not_supported(what));
        }
        None if options.allow_db_generated_files => {}
        None => return Err(Error::invalid_argument("External file version not found")),
    }
    if icmp.timestamp_size() > 0 && !properties.user_defined_timestamps_persisted {
        return Err(Error::invalid_argument(
            "the keys in the file have no timestamps, those of the family do",
        ));
    }
    if properties.external_sst_file_global_seqno.unwrap_or(0) != 0 {
        return Err(Error::invalid_argument("the file has a global sequence number: it was ingested before"));
    }
    Ok(())
}

/// A user key with its sequence number and type.
type Entry = (Vec<u8>, (SequenceNumber, ValueType));

/// The first and the last entry but range deletions.
fn first_and_last_point(reader: &Arc<TableReader>) -> Result<Option<(Entry, Entry)>> {
    let entry = |internal_key: &[u8]| -> Result<Entry> {
        let parsed = ParsedInternalKey::parse(internal_key)?;
        Ok((parsed.user_key.to_vec(), (parsed.sequence, parsed.value_type)))
    };
    let mut entries = reader.iter(TableReadOptions { fill_cache: false, ..TableReadOptions::default() });
    entries.seek_to_first();
    if !entries.valid() {
        return entries.status().map(|()| None);
    }
    let first = entry(entries.key())?;
    entries.seek_to_last();
    entries.status()?;
    Ok(Some((first, entry(entries.key())?)))
}

/// The oldest and the newest sequence number of a database's table. Reads all of its entries: older
/// tables have no property for them, and none has one for values in blob files.
fn own_seqnos(
    reader: &Arc<TableReader>,
    tombstones: &[RangeTombstone],
) -> Result<(SequenceNumber, SequenceNumber)> {
    let mut seqnos = tombstones.iter().fold((SequenceNumber::MAX, SequenceNumber::ZERO), |found, next| {
        (found.0.min(next.seq), found.1.max(next.seq))
    });
    let mut entries = reader.iter(TableReadOptions { fill_cache: false, ..TableReadOptions::default() });
    entries.seek_to_first();
    while entries.valid() {
        let parsed = ParsedInternalKey::parse(entries.key())?;
        if parsed.value_type == ValueType::BlobIndex {
            return Err(Error::not_supported("ingestion of a table with values in blob files"));
        }
        seqnos = (seqnos.0.min(parsed.sequence), seqnos.1.max(parsed.sequence));
        entries.next();
    }
    entries.status()?;
    check_seqnos(Some(seqnos))?;
    Ok(seqnos)
}

/// Checks that a write can come after the entries of a file that keeps its sequence numbers.
fn check_seqnos(seqnos: Option<(SequenceNumber, SequenceNumber)>) -> Result<()> {
    if seqnos.is_some_and(|(_, newest)| newest >= SequenceNumber::MAX) {
        let what = "the file has the last sequence number, so no write could come after it";
        return Err(Error::invalid_argument(what));
    }
    Ok(())
}

/// Widens the points' range by the range deletions.
fn widen(
    points: Option<(Entry, Entry)>,
    reader: &TableReader,
    icmp: &InternalKeyComparator,
) -> Result<Contents> {
    let mut contents = points.map(|(first, last)| Contents {
        span: FileKeys { smallest: first.0, largest: last.0, exclusive: false },
        smallest: first.1,
        largest: last.1,
        seqnos: None,
    });
    if let Some(tombstones) = reader.range_dels() {
        let first = tombstones.fragment(0);
        // The bound with the newest timestamp sorts before all versions of the end key, which the
        // tombstone does not hide.
        let end = tombstones.fragment(tombstones.len() - 1).end;
        let end = icmp.first_version(icmp.split_timestamp(end).0);
        let start = (first.newest, ValueType::RangeDeletion);
        let contents = contents.get_or_insert_with(|| Contents {
            span: FileKeys { smallest: first.start.to_vec(), largest: end.clone(), exclusive: true },
            smallest: start,
            largest: start,
            seqnos: None,
        });
        let begins = icmp.compare_user_keys(first.start, &contents.span.smallest);
        if begins.is_lt() || begins.is_eq() && first.newest > contents.smallest.0 {
            contents.span.smallest = first.start.to_vec();
            contents.smallest = start;
        }
        if icmp.compare_user_keys(&end, &contents.span.largest).is_gt() {
            contents.span.largest = end;
            contents.span.exclusive = true;
        }
    }
    contents.ok_or_else(|| Error::invalid_argument("File contain no entries"))
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
