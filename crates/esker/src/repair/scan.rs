//! Reads tables, blob files and old MANIFESTs for a repair.

use super::salvage::{DamagedTable, replaced_by};
use super::{Family, Flushed, Found, Repair};
use crate::merge::compaction_iter::BlobTally;
use crate::merge::timestamps::{stored_tombstones, table_iter};
use crate::version::manifest::{ManifestReader, read_current};
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, ErrorKind, FileNumber, Result, SequenceNumber, SubCode, ValueType};
use esker_format::blob::file::record_bytes;
use esker_format::cursor::InternalIterator;
use esker_format::key::{self, InternalKeyComparator, ParsedInternalKey};
use esker_format::properties::{TableProperties, UNKNOWN_COLUMN_FAMILY};
use esker_format::unique_id::unique_id;
use esker_format::version_edit::{BlobFileAddition, FileMetaData};
use esker_format::wide_column::stored::for_each_blob;
use esker_table::blob::BlobFileReader;
use esker_table::{TableReadOptions, TableReader, TableReaderOptions, check_compression_manager};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The readable content of a MANIFEST.
struct Said {
    names: BTreeMap<ColumnFamilyId, String>,
    flushed: Flushed,
    /// Whether the MANIFEST's initial snapshot could be read completely.
    is_whole: bool,
}

/// Whether a read failed: the failure may be transient, and the file sound.
fn is_of_reading(error: &Error) -> bool {
    error.kind() == ErrorKind::IoError && error.subcode() != SubCode::PathNotFound
}

impl Repair {
    /// Gives each family the blob files that its tables may name, after reading them completely.
    /// Garbage is counted anew, by references. A record has two references if both a table and the
    /// output of its compaction exist. So a blob file counts as many records as it has references.
    /// Otherwise dropping the first table would make a record garbage that the second still needs.
    /// # Errors
    /// `IoError` that does not concern the file's contents.
    pub(super) fn scan_blobs(&mut self, found: &Found) -> Result<()> {
        // For each family the first blob file that a table names, and all references.
        let named: BTreeMap<_, _> =
            self.families.iter().map(|(id, family)| (*id, family.blobs_named())).collect();
        for (number, path) in &found.blobs {
            let number = *number;
            let scanned = self.scan_blob(path);
            let needed =
                |id| named.get(id).filter(|named| named.oldest.is_some_and(|oldest| oldest <= number));
            match scanned {
                Ok((id, count, bytes)) if count > 0 && needed(&id).is_some() => {
                    check_place(path, self.families[&id].paths.blob(number) == *path)?;
                    let (references, referred_bytes) = named[&id].references.of_file(number);
                    let family = self.families.get_mut(&id).expect("they name it");
                    family.blobs.push(BlobFileAddition {
                        number,
                        total_blob_count: references.max(count),
                        total_blob_bytes: referred_bytes.max(bytes),
                        ..BlobFileAddition::default()
                    });
                }
                Ok(_) => self.blobs_left_over.push(path.clone()),
                Err(e) if is_of_contents(&e) => {
                    esker_base::info_log!(self.info_log, Error, "Blob file #{number} is lost: {e}");
                    self.summary.blobs_lost.push((number, e));
                    self.blobs_left_over.push(path.clone());
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Reads a blob file to its end. Returns its family, and number and bytes of its records.
    /// # Errors
    /// `Corruption`, `NotSupported`, `IoError`.
    pub(super) fn scan_blob(&self, path: &Path) -> Result<(ColumnFamilyId, u64, u64)> {
        let reader = self.fs.new_random_access_file(path).and_then(BlobFileReader::open)?;
        let mut bytes = 0;
        reader.for_each_record(&mut |record| {
            bytes += record_bytes(record.user_key.len(), record.stored.len() as u64);
            Ok(())
        })?;
        Ok((reader.header().column_family, reader.blob_count(), bytes))
    }

    /// Reads the old MANIFEST: names of families (for those with WAL entries but no table), and the
    /// WALs that had been flushed.
    /// # Errors
    /// `IoError` of a MANIFEST that may be sound.
    pub(super) fn names_from_manifests(&mut self, found: &Found) -> Result<()> {
        let Some(said) = self.read_manifest(found)? else { return Ok(()) };
        let names = said.names;
        self.flushed = said.flushed;
        names.iter().try_for_each(|(id, name)| self.family(*id, name).map(drop))?;
        for (id, bound) in &self.flushed.full_history_ts_low {
            if let Some(family) = self.families.get_mut(id) {
                family.raise_full_history_ts_low(bound);
            }
        }
        Ok(())
    }

    /// The MANIFEST in force, if it can be read beyond its initial snapshot; otherwise the newest
    /// MANIFEST for which this holds. An incomplete one, from a power failure or an earlier repair,
    /// is used only if there is no other.
    /// # Errors
    /// `IoError`: the read of a MANIFEST failed, and it may be sound.
    fn read_manifest(&self, found: &Found) -> Result<Option<Said>> {
        let in_force = match read_current(self.fs.as_ref(), &self.path) {
            Err(e) if is_of_reading(&e) => return Err(e),
            current => current.ok(),
        };
        let newest_first = found.manifests.iter().rev().copied().filter(|number| Some(*number) != in_force);
        let mut best = None;
        let newest = in_force.or(found.manifests.last().copied());
        for number in in_force.into_iter().chain(newest_first) {
            let mut said = self.read_manifest_file(number)?;
            if let Some(said) = &mut said {
                said.flushed.is_complete &= said.is_whole && Some(number) == newest;
            }
            if said.as_ref().is_some_and(|said| said.is_whole) {
                return Ok(said);
            }
            best = best.or(said);
        }
        Ok(best)
    }

    fn read_manifest_file(&self, number: FileNumber) -> Result<Option<Said>> {
        let without_it = |e: Error| e.advising("without that file it is made of the tables and WALs alone");
        let mut manifest = match ManifestReader::open(self.fs.as_ref(), &self.path, number, false) {
            Err(e) if is_of_reading(&e) => return Err(without_it(e)),
            Err(_) => return Ok(None),
            Ok(manifest) => manifest,
        };
        let mut said = Said { names: BTreeMap::new(), flushed: Flushed::default(), is_whole: false };
        loop {
            let edit = match manifest.next_edit() {
                Err(e) if is_of_reading(&e) => return Err(without_it(e)),
                Err(_) => return Ok(Some(said)),
                Ok(None) => {
                    said.flushed.is_complete = true;
                    return Ok(Some(said));
                }
                Ok(Some(edit)) => edit,
            };
            if let Some(name) = &edit.column_family_add {
                said.names.insert(edit.column_family, name.clone());
            }
            if edit.column_family_drop {
                said.names.remove(&edit.column_family);
            }
            // This edit comes after all families and their files.
            said.is_whole |= edit.next_file_number.is_some();
            said.flushed.apply(&edit);
        }
    }

    /// Refuses options with fewer paths than the MANIFEST names: tables in the missing paths would
    /// be left out, and later deleted as obsolete.
    /// # Errors
    /// `InvalidArgument` names a table and its path id.
    fn check_path_ids(&self, found: &Found) -> Result<()> {
        let is_found: BTreeSet<_> = found.tables.iter().map(|(number, _)| number).collect();
        for (number, family) in &self.flushed.tables {
            let (Some((_, said)), Some(family)) = (self.flushed.named.get(number), self.families.get(family))
            else {
                continue;
            };
            if !is_found.contains(number) && family.paths.listed(said.path_id) != said.path_id {
                let (id, name) = (said.path_id, &family.descriptor.name);
                return Err(Error::invalid_argument(format!(
                    "table #{number} of column family '{name}' is in path {id} of db_paths or cf_paths, which the options do not give"
                )));
            }
        }
        Ok(())
    }

    /// Checks every table, and describes the sound ones.
    /// # Errors
    /// `InvalidArgument`: another comparator · `IoError` that does not concern the table's
    /// contents.
    pub(super) fn scan_tables(&mut self, found: &Found) -> Result<()> {
        self.check_path_ids(found)?;
        if self.how.salvage {
            self.check_blobs(found)?;
        }
        let mut damaged = Vec::new();
        for (number, path) in &found.tables {
            match self.scan_table(*number, path) {
                Ok(true) => self.summary.tables_kept.push(*number),
                Ok(false) => self.summary.tables_obsolete.push(*number),
                Err(error) if is_of_contents(&error) && self.how.salvage => {
                    damaged.push(DamagedTable { number: *number, path: path.clone(), error });
                }
                Err(e) if is_of_contents(&e) => {
                    esker_base::info_log!(self.info_log, Warn, "Table #{number} is lost: {e}");
                    self.summary.tables_lost.push((*number, e));
                }
                Err(e) => return Err(e),
            }
        }
        let lost = std::mem::take(&mut self.summary.tables_lost);
        for (number, error) in lost {
            match self.is_replaced(number) {
                true => self.summary.tables_obsolete.push(number),
                false => self.summary.tables_lost.push((number, error)),
            }
        }
        self.salvage_tables(damaged)?;
        self.settle_replaced();
        Ok(())
    }

    /// Checks and describes one table. Returns `false` if its family was dropped.
    fn scan_table(&mut self, number: FileNumber, path: &Path) -> Result<bool> {
        let file_size = self.fs.file_size(path)?;
        let file = self.fs.new_random_access_file(path)?;
        let properties = TableReader::properties_of(file.clone(), file_size)?;
        let own_id = own_unique_id(&properties);
        let named = self.flushed.named.get(&number).filter(|(_, said)| {
            said.file_size == file_size && (said.unique_id.is_none() || said.unique_id == own_id)
        });
        let named = named.map(|(family, said)| (*family, said.largest_seqno));
        let Some(id) = self.family_of_table(path, &properties, named.map(|(family, _)| family))? else {
            return Ok(false);
        };
        let family = &self.families[&id];
        let icmp = InternalKeyComparator::new(family.descriptor.options.comparator.clone());
        let table_options = Arc::new(family.descriptor.options.table.clone());
        let mut options = TableReaderOptions::new(icmp.clone(), table_options, file_size);
        options.compression_manager.clone_from(&family.descriptor.options.compression_manager);
        // The table may be whole: without its manager it is not lost, but the repair cannot go on.
        check_compression_manager(&properties, options.compression_manager.as_ref())
            .map_err(|e| Error::invalid_argument(e.message()).at(path.display()))?;
        options.file_number = number;
        options.largest_seqno = named.map(|(_, largest_seqno)| largest_seqno);
        if named.is_none()
            && properties.external_sst_file_version.is_some()
            && properties.external_sst_file_global_seqno.unwrap_or(0) == 0
        {
            self.of_unknown_age.insert(number);
        }
        let reader = TableReader::open(file, options)?;
        reader.verify(&mut |_| true)?;
        let (mut meta, blobs) = describe(&reader, &icmp, number, file_size)?;
        self.blob_damage(&blobs)?;
        let family = self.families.get_mut(&id).expect("asked for above");
        let path_id = family.paths.id_of(path.parent().unwrap_or(path));
        check_place(path, path_id.is_some())?;
        meta.path_id = path_id.unwrap_or(0);
        if icmp.timestamp_size() > 0 {
            // The family continues as it was: new tables store timestamps if the old ones do.
            family.descriptor.options.persist_user_defined_timestamps = !reader.lacks_timestamps();
        }
        family.tables.push(meta);
        family.references.insert(number, blobs);
        self.replaced.extend(replaced_by(&properties).map(|from| (number, from)));
        Ok(true)
    }

    /// The family of a table, which the MANIFEST gives as `named`; `None` if it was dropped.
    /// # Errors
    /// `Corruption`: table and family contradict each other · `InvalidArgument`: the table was
    /// written with another comparator than its family's.
    pub(super) fn family_of_table(
        &mut self,
        path: &Path,
        properties: &TableProperties,
        named: Option<ColumnFamilyId>,
    ) -> Result<Option<ColumnFamilyId>> {
        let id = named.map_or_else(|| family_of(properties), Ok)?;
        if self.flushed.dropped.contains(&id) {
            return Ok(None);
        }
        let known = self.families.get(&id).map(|f| f.descriptor.name.clone());
        let name = known.unwrap_or_else(|| properties.column_family_name.clone());
        if named.is_none()
            && !properties.column_family_name.is_empty()
            && properties.column_family_name != name
            && properties.column_family_id != UNKNOWN_COLUMN_FAMILY
        {
            return Err(Error::corruption(format!(
                "it says that column family {id} is '{}', others say '{name}'",
                properties.column_family_name
            ))
            .at(path.display()));
        }
        let comparator = &self.family(id, &name)?.descriptor.options.comparator;
        if !properties.comparator_name.is_empty() && properties.comparator_name != comparator.name() {
            return Err(Error::invalid_argument(format!(
                "column family '{name}' was written with comparator {}, and the options say {}",
                properties.comparator_name,
                comparator.name()
            ))
            .at(path.display()));
        }
        Ok(Some(id))
    }
}

/// Checks that a file is in a directory of its family.
/// # Errors
/// `InvalidArgument` names the file.
pub(super) fn check_place(path: &Path, is_of_family: bool) -> Result<()> {
    if is_of_family {
        return Ok(());
    }
    let what = "its directory is not among db_paths, or cf_paths of its family, at the place that its kind needs: move it, or give the options that it was written with";
    Err(Error::invalid_argument(what).at(path.display()))
}

/// Whether the error concerns the file's contents, and not this attempt to read it.
pub(super) fn is_of_contents(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotSupported)
}

/// The blob files named by a family's tables.
struct BlobsNamed {
    oldest: Option<FileNumber>,
    references: BlobTally,
}

impl Family {
    fn blobs_named(&self) -> BlobsNamed {
        let oldest = self.tables.iter().filter_map(|table| table.oldest_blob_file_number).min();
        let mut references = BlobTally::default();
        let of_tables = self.tables.iter().filter_map(|table| self.references.get(&table.number));
        of_tables.for_each(|tally| references.merge(tally));
        BlobsNamed { oldest, references }
    }
}

/// The table's unique id, if its properties give one.
pub(super) fn own_unique_id(properties: &TableProperties) -> Option<[u64; 2]> {
    unique_id(&properties.db_id, &properties.db_session_id, properties.orig_file_number)
}

/// The family for which a table was written; the default family if the table does not say.
fn family_of(properties: &TableProperties) -> Result<ColumnFamilyId> {
    match properties.column_family_id {
        UNKNOWN_COLUMN_FAMILY => Ok(ColumnFamilyId::DEFAULT),
        id => u32::try_from(id)
            .map(ColumnFamilyId)
            .map_err(|_| Error::corruption(format!("it says it belongs to column family {id}"))),
    }
}

/// The table's description for the MANIFEST, from all its entries, and their references to blob
/// files. Bounds get timestamps even if the table stores none, as in memory.
fn describe(
    reader: &Arc<TableReader>,
    icmp: &InternalKeyComparator,
    number: FileNumber,
    file_size: u64,
) -> Result<(FileMetaData, BlobTally)> {
    let properties = reader.properties();
    let mut bounds = Bounds { icmp, smallest: Vec::new(), largest: Vec::new(), seqs: None };
    let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
    let mut entries = table_iter(reader, options, icmp);
    entries.seek_to_first();
    let mut oldest_blob_file: Option<FileNumber> = None;
    let mut blobs = BlobTally::default();
    while entries.valid() {
        let entry = ParsedInternalKey::parse(entries.key())?;
        bounds.include(entries.key(), entries.key(), entry.sequence);
        blobs.count(entry.value_type, entry.user_key, entries.value())?;
        for_each_blob(entry.value_type, entries.value(), &mut |location| {
            oldest_blob_file =
                Some(oldest_blob_file.map_or(location.file_number, |n| n.min(location.file_number)));
        })?;
        entries.next();
    }
    entries.status()?;
    if icmp.timestamp_size() > 0 {
        for tombstone in stored_tombstones(reader, icmp) {
            let start = key::internal_key(&tombstone.start, tombstone.seq, ValueType::RangeDeletion);
            // The bound before all versions of the end key, which the tombstone does not hide.
            let end = icmp.first_version(icmp.split_timestamp(&tombstone.end).0);
            let end = key::internal_key(&end, SequenceNumber::MAX, ValueType::RangeDeletion);
            bounds.include(&start, &end, tombstone.seq);
        }
    } else if let Some(tombstones) = reader.range_dels() {
        for tombstone in tombstones.tombstones() {
            let end = key::internal_key(tombstone.end, SequenceNumber::MAX, ValueType::RangeDeletion);
            bounds.include(&tombstone.internal_key(), &end, tombstone.seq);
        }
    }
    let Some((smallest_seqno, largest_seqno)) = bounds.seqs else {
        return Err(Error::corruption("it has no entries").at(reader.file().path().display()));
    };
    let meta = FileMetaData {
        number,
        file_size,
        smallest: bounds.smallest,
        largest: bounds.largest,
        smallest_seqno,
        largest_seqno,
        oldest_ancestor_time: properties.creation_time,
        file_creation_time: properties.file_creation_time,
        oldest_blob_file_number: oldest_blob_file,
        unique_id: own_unique_id(properties),
        user_defined_timestamps_not_persisted: reader.lacks_timestamps(),
        ..FileMetaData::default()
    };
    Ok((meta, blobs))
}

/// First and last internal key, smallest and largest sequence number.
struct Bounds<'a> {
    icmp: &'a InternalKeyComparator,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    seqs: Option<(SequenceNumber, SequenceNumber)>,
}

impl Bounds<'_> {
    fn include(&mut self, from: &[u8], to: &[u8], seq: SequenceNumber) {
        if self.seqs.is_none() || self.icmp.compare(from, &self.smallest).is_lt() {
            self.smallest = from.to_vec();
        }
        if self.seqs.is_none() || self.icmp.compare(to, &self.largest).is_gt() {
            self.largest.clear();
            self.largest.extend_from_slice(to);
        }
        let (low, high) = self.seqs.unwrap_or((seq, seq));
        self.seqs = Some((low.min(seq), high.max(seq)));
    }
}
