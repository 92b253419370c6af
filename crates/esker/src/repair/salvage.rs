//! Salvage: replaces damaged tables by tables of what can be read of them.
//!
//! In: tables that failed their check, or whose values lie in damaged blob files. Out: a new table
//! for each, and a report of the loss: the keys that may be missing, and whether deletions may be.
//!
//! Invariants
//!  1. A new table has only entries whose checksums hold, under their old sequence numbers.
//!  2. Values in damaged or missing blob files move into the new table, and those that cannot be
//!     read are lost.
//!  3. A new table is written in the directory `lost`, where no repair looks for tables, and moves
//!     into its place when it is whole. It names the table that it replaces (property
//!     `esker.salvaged.from`). If a repair dies, the next one finds both, and leaves one of them
//!     out: operands do not count twice.

use super::scan::{check_place, is_of_contents};
use super::{Family, Found, Repair};
use crate::db;
use crate::files::{LOST, NewTable, OutputContext, TableOutput};
use crate::merge::compaction_iter::BlobTally;
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, ErrorKind, FileNumber, Result, SequenceNumber, ValueType};
use esker_env::rate_limiter::IoPriority;
use esker_env::{RandomAccessFile, WriteLifeTimeHint};
use esker_format::blob::{BlobIndex, BlobLocation};
use esker_format::file_name::{self, FilePaths};
use esker_format::key::{self, InternalKeyComparator, ParsedInternalKey};
use esker_format::properties::{SALVAGED_FROM, TableProperties};
use esker_format::range_del::RangeTombstone;
use esker_format::version_edit::FileMetaData;
use esker_format::wide_column::stored::{StoredColumns, StoredValue, for_each_blob};
use esker_table::TableCache;
use esker_table::blob::salvage_value;
use esker_table::salvage::{SalvageOptions, SalvageReport, TableSalvage};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Keys that may be missing after a repair: user keys without timestamps, both bounds included.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MissingKeys {
    /// The first key; `None`: from the first key of the family on.
    pub from: Option<Vec<u8>>,
    /// The last key; `None`: to the last key of the family.
    pub to: Option<Vec<u8>>,
    /// The damage, with file and offset.
    pub error: Error,
}

/// A damaged table, and what a repair with [`RepairOptions::salvage`](super::RepairOptions) kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SalvagedTable {
    /// The damaged table, now in `lost`.
    pub number: FileNumber,
    /// The table that replaces it; `None` if nothing was readable, or nothing was to be changed.
    pub new_number: Option<FileNumber>,
    /// Its family; empty if nothing tells it.
    pub column_family_name: String,
    /// Its data blocks, as properties or index say, or those that were found.
    pub blocks: u64,
    /// Data blocks that are lost.
    pub blocks_lost: u64,
    /// Data blocks in which one flipped bit was flipped back.
    pub blocks_mended: u64,
    /// Entries that were kept, range deletions apart.
    pub entries: u64,
    /// Range deletions that were kept.
    pub range_deletions: u64,
    /// Number of lost entries, if the table states how many it had.
    pub entries_lost: Option<u64>,
    /// Entries that are lost because their values lie in damaged or missing blob files.
    pub values_lost: u64,
    /// The keys that may be missing.
    pub missing: Vec<MissingKeys>,
    /// The keys for which range deletions may be lost.
    pub range_deletions_lost: Option<MissingKeys>,
    /// Whether older versions of the missing keys, or keys that were deleted, may be visible again.
    pub may_reappear: bool,
    /// Other damaged parts of the table, such as index and filter, with their errors. The new table
    /// has new ones.
    pub damaged: Vec<(String, Error)>,
}

impl SalvagedTable {
    /// Whether entries or range deletions may be lost.
    pub fn has_losses(&self) -> bool {
        !self.missing.is_empty() || self.range_deletions_lost.is_some()
    }
}

/// A table that waits to be salvaged.
pub(super) struct DamagedTable {
    pub(super) number: FileNumber,
    pub(super) path: PathBuf,
    pub(super) error: Error,
}

/// The blob files of a database: which are whole, and the others opened.
#[derive(Default)]
pub(super) struct BlobHealth {
    pub(super) whole: BTreeSet<FileNumber>,
    damaged: BTreeMap<FileNumber, Arc<dyn RandomAccessFile>>,
}

impl BlobHealth {
    /// Reads the value at `location`.
    /// # Errors
    /// `Corruption`: it is damaged, or its file is missing · `IoError`.
    fn value(&self, user_key: &[u8], location: &BlobLocation) -> Result<Vec<u8>> {
        match self.damaged.get(&location.file_number) {
            Some(file) => salvage_value(file.as_ref(), user_key, location),
            None => Err(Error::corruption(format!("blob file {:06}.blob is missing", location.file_number))),
        }
    }
}

impl Repair {
    /// Finds out which blob files are whole.
    /// # Errors
    /// `IoError`.
    pub(super) fn check_blobs(&mut self, found: &Found) -> Result<()> {
        for (number, path) in &found.blobs {
            match self.scan_blob(path) {
                Ok(_) => drop(self.blob_files.whole.insert(*number)),
                Err(e) if is_of_contents(&e) => {
                    let file = self.fs.new_random_access_file(path)?;
                    self.blob_files.damaged.insert(*number, file);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// The error of a sound table with values in damaged or missing blob files.
    pub(super) fn blob_damage(&self, references: &BlobTally) -> Result<()> {
        let mut files = references.files();
        match files.find(|file| self.how.salvage && !self.blob_files.whole.contains(file)) {
            None => Ok(()),
            Some(file) => {
                Err(Error::corruption(format!("it has values in blob file {file:06}.blob, which is damaged")))
            }
        }
    }

    /// Salvages all tables that failed their check.
    /// # Errors
    /// `IoError` · `InvalidArgument` of the family's options.
    pub(super) fn salvage_tables(&mut self, damaged: Vec<DamagedTable>) -> Result<()> {
        for table in damaged {
            if self.is_replaced(table.number) {
                self.summary.tables_obsolete.push(table.number);
                continue;
            }
            match self.salvage(&table) {
                Ok(Some(salvaged)) => {
                    if salvaged.entries + salvaged.range_deletions == 0 {
                        self.summary.tables_lost.push((table.number, table.error));
                    }
                    self.summary.tables_salvaged.push(salvaged);
                }
                Ok(None) => self.summary.tables_obsolete.push(table.number),
                Err(e) if is_of_contents(&e) && self.was_never_finished(&table) => {
                    self.summary.tables_unfinished.push((table.number, table.error));
                }
                Err(e) if is_of_contents(&e) => {
                    esker_base::info_log!(self.info_log, Warn, "Table #{} is lost: {e}", table.number);
                    let nothing = self.nothing_of(&table, e);
                    self.summary.tables_salvaged.push(nothing);
                    self.summary.tables_lost.push((table.number, table.error));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// The report of a table of which nothing can be read.
    fn nothing_of(&self, table: &DamagedTable, error: Error) -> SalvagedTable {
        let named = self.flushed.named.get(&table.number);
        let family = named.and_then(|(id, _)| self.families.get(id));
        let bound = |bound: &Vec<u8>| {
            let icmp = InternalKeyComparator::new(family?.descriptor.options.comparator.clone());
            Some(icmp.split_timestamp(key::user_key(bound)).0.to_vec())
        };
        let (from, to) = match named.filter(|(_, said)| !said.user_defined_timestamps_not_persisted) {
            Some((_, said)) => (bound(&said.smallest), bound(&said.largest)),
            None => (None, None),
        };
        let missing = MissingKeys { from, to, error };
        SalvagedTable {
            column_family_name: family.map_or(String::new(), |family| family.descriptor.name.clone()),
            range_deletions_lost: Some(missing.clone()),
            missing: vec![missing],
            may_reappear: true,
            ..SalvagedTable::of(table.number)
        }
    }

    /// Salvages one table. `None`: its family was dropped.
    /// # Errors
    /// `Corruption` and `NotSupported`: nothing of it can be read · `InvalidArgument`: another
    /// comparator · `IoError`.
    fn salvage(&mut self, damaged: &DamagedTable) -> Result<Option<SalvagedTable>> {
        let (number, path) = (damaged.number, &damaged.path);
        let file_size = self.fs.file_size(path)?;
        let mut table = TableSalvage::open(self.fs.new_random_access_file(path)?, file_size)?;
        if table.properties().is_none() && self.was_never_finished(damaged) {
            return Err(Error::corruption("it has no end, and no MANIFEST names it"));
        }
        let named = self.named_in_manifest(number, table.properties());
        let absent = TableProperties::absent();
        let properties = table.properties().unwrap_or(&absent).clone();
        if table.properties().is_none() && named.is_none() && self.families.len() + self.described.len() > 2 {
            return Err(Error::corruption("neither it nor a MANIFEST says what its column family is"));
        }
        let Some(id) = self.family_of_table(path, &properties, named.as_ref().map(|(id, _)| *id))? else {
            return Ok(None);
        };
        let family = &self.families[&id];
        check_place(path, family.paths.id_of(path.parent().unwrap_or(path)).is_some())?;
        table
            .set_compression_manager(family.descriptor.options.compression_manager.as_ref())
            .map_err(|e| Error::invalid_argument(e.message()).at(path.display()))?;
        let icmp = InternalKeyComparator::new(family.descriptor.options.comparator.clone());
        let with = salvage_options(&icmp, named.as_ref().map(|(_, said)| said));
        if icmp.timestamp_size() > 0 {
            let persists = !table.lacks_timestamps(&with);
            let family = self.families.get_mut(&id).expect("it was just read");
            family.descriptor.options.persist_user_defined_timestamps = persists;
        }
        let salvaged = self.rewrite(damaged, (id, &icmp), table, &with, properties.creation_time)?;
        let is_of_unknown_age = named.is_none()
            && properties.external_sst_file_version.is_some()
            && properties.external_sst_file_global_seqno.unwrap_or(0) == 0;
        if is_of_unknown_age {
            self.of_unknown_age.extend(salvaged.new_number);
        }
        Ok(Some(salvaged))
    }

    /// The family and the description that the MANIFEST has for this table.
    fn named_in_manifest(
        &self,
        number: FileNumber,
        properties: Option<&TableProperties>,
    ) -> Option<(ColumnFamilyId, FileMetaData)> {
        let own = properties.and_then(super::scan::own_unique_id);
        let is_it = |said: &FileMetaData| own.is_none() || said.unique_id.is_none() || said.unique_id == own;
        self.flushed.named.get(&number).filter(|(_, said)| is_it(said)).cloned()
    }

    /// Writes the readable entries into a new table, unless nothing is to be changed.
    fn rewrite(
        &mut self,
        damaged: &DamagedTable,
        (id, icmp): (ColumnFamilyId, &InternalKeyComparator),
        table: TableSalvage,
        with: &SalvageOptions,
        oldest_ancestor_time: u64,
    ) -> Result<SalvagedTable> {
        let family = &self.families[&id];
        let directory = damaged.path.parent().unwrap_or(&damaged.path);
        let lost = FilePaths::one(directory.join(LOST));
        let tables = db::family_tables(&self.options, lost, &family.descriptor, &self.open_files);
        let context = self.output_context((id, family), icmp, &tables);
        let output = self.new_output(&context, damaged, oldest_ancestor_time)?;
        let pad = if table.lacks_timestamps(with) { icmp.min_timestamp() } else { &[] };
        let mut writing = Writing {
            output,
            blobs: &self.blob_files,
            icmp,
            pad,
            tally: BlobTally::default(),
            lost: Vec::new(),
            values_lost: 0,
            last_lost: None,
            hides: false,
        };
        let written = table.read(with, &mut |key, value| writing.add(key, value));
        let written = written.and_then(|readable| {
            readable.tombstones.iter().try_for_each(|tombstone| writing.add_tombstone(tombstone))?;
            Ok(readable)
        });
        let Writing { output, tally, lost, values_lost, hides, .. } = writing;
        let mut finished = None;
        if let Some(output) = output {
            if written.is_ok() && !output.is_empty() {
                finished = Some(self.put_in_place(&context, output, directory, oldest_ancestor_time)?);
            } else {
                self.remove_output(&context, output)?;
            }
        }
        let mut salvaged = SalvagedTable {
            new_number: finished.as_ref().map(|meta| meta.number),
            column_family_name: family.descriptor.name.clone(),
            ..SalvagedTable::of(damaged.number)
        };
        salvaged.take(written?, lost, values_lost);
        salvaged.may_reappear |= hides;
        if let Some(mut meta) = finished {
            let family = self.families.get_mut(&id).expect("its table names it");
            meta.path_id = family.paths.id_of(directory).unwrap_or(0);
            family.references.insert(meta.number, tally);
            family.tables.push(meta);
        }
        Ok(salvaged)
    }

    /// The surroundings of a new table in `tables`, the cache of the directory `lost`.
    fn output_context<'a>(
        &'a self,
        (id, family): (ColumnFamilyId, &'a Family),
        icmp: &'a InternalKeyComparator,
        tables: &'a Arc<TableCache>,
    ) -> OutputContext<'a> {
        OutputContext {
            env: &self.options.env,
            options: &self.options,
            family_options: &family.descriptor.options,
            icmp,
            database: &self.path,
            path_id: 0,
            column_family: id,
            column_family_name: &family.descriptor.name,
            db_id: &self.db_id,
            session_id: &self.session_id,
            io_priority: IoPriority::High,
            info_log: &self.info_log,
            tables,
            job_id: 0,
            times: None,
            write_hint: WriteLifeTimeHint::NotSet,
        }
    }

    /// The new table for a damaged one; `None` if nothing is to be changed.
    fn new_output(
        &self,
        context: &OutputContext<'_>,
        damaged: &DamagedTable,
        oldest_ancestor_time: u64,
    ) -> Result<Option<TableOutput>> {
        let number = self.numbers.new_file_number();
        if self.how.dry_run {
            return Ok(None);
        }
        let directory = damaged.path.parent().unwrap_or(&damaged.path);
        self.fs.create_dir_if_missing(&directory.join(LOST))?;
        let new = NewTable::of_level_0(number, context.family_options, oldest_ancestor_time);
        let mut output = TableOutput::create(context, &new)?;
        output.set_salvaged_from(damaged.number);
        Ok(Some(output))
    }

    /// Finishes a new table, and moves it from `lost` to `directory`.
    fn put_in_place(
        &self,
        context: &OutputContext<'_>,
        output: TableOutput,
        directory: &Path,
        oldest_ancestor_time: u64,
    ) -> Result<FileMetaData> {
        let meta = output.finish(context, 0, oldest_ancestor_time)?.meta;
        context.tables.evict(meta.number);
        let place = file_name::table_file_name(directory, meta.number);
        self.fs.rename(&context.table_path(meta.number), &place)?;
        Ok(meta)
    }

    /// Removes a new table that has no entries, or could not be written.
    fn remove_output(&self, context: &OutputContext<'_>, output: TableOutput) -> Result<()> {
        let path = context.table_path(output.number);
        output.abandon();
        self.fs.delete_file(&path)
    }

    /// Whether no version ever had the table: a MANIFEST that is readable to its end does not name
    /// it. Of a table that cannot be opened, a crash has then ended the writing.
    fn was_never_finished(&self, table: &DamagedTable) -> bool {
        self.flushed.is_complete && !self.flushed.named.contains_key(&table.number)
    }

    /// Whether the MANIFEST has a table that replaces this one, from a repair that died behind it.
    pub(super) fn is_replaced(&self, number: FileNumber) -> bool {
        let live = &self.flushed.tables;
        let mut replaced = self.replaced.iter();
        !live.contains_key(&number) && replaced.any(|(new, old)| *old == number && live.contains_key(new))
    }

    /// Leaves out one of two tables of which one replaces the other: the replaced one if the
    /// MANIFEST already has the other, otherwise the other.
    pub(super) fn settle_replaced(&mut self) {
        let salvaged = self.summary.tables_salvaged.iter().map(|table| table.number);
        let there: BTreeSet<_> = salvaged.chain(self.summary.tables_kept.iter().copied()).collect();
        let pairs = self.replaced.iter().filter(|(_, old)| there.contains(old));
        let left_out: BTreeSet<_> =
            pairs.map(|(new, old)| if self.is_replaced(*old) { *old } else { *new }).collect();
        for family in self.families.values_mut() {
            family.tables.retain(|table| !left_out.contains(&table.number));
        }
        self.summary.tables_kept.retain(|table| !left_out.contains(table));
        self.summary.tables_obsolete.extend(left_out);
    }

    /// Finds the salvaged tables whose lost entries may have hidden entries of other tables.
    pub(super) fn find_what_may_reappear(&mut self) {
        let salvaged = self.summary.tables_salvaged.len();
        for table in self.summary.tables_salvaged.iter_mut().filter(|table| table.has_losses()) {
            let named = |family: &&Family| family.descriptor.name == table.column_family_name;
            let Some(family) = self.families.values().find(named) else { continue };
            let newest = self.flushed.named.get(&table.number).map(|(_, said)| said.largest_seqno);
            let mut others = family.tables.iter().filter(|other| Some(other.number) != table.new_number);
            // In a dry run, the tables that others would become do not exist.
            table.may_reappear |= (self.how.dry_run && salvaged > 1)
                || others.any(|other| {
                    newest.is_none_or(|newest| other.smallest_seqno < newest) && family.overlaps(other, table)
                });
        }
    }
}

impl Family {
    /// Whether the table may have keys that `salvaged` has lost.
    fn overlaps(&self, table: &FileMetaData, salvaged: &SalvagedTable) -> bool {
        let icmp = InternalKeyComparator::new(self.descriptor.options.comparator.clone());
        let plain = |bound: &[u8]| icmp.split_timestamp(key::user_key(bound)).0.to_vec();
        let (first, last) = (plain(&table.smallest), plain(&table.largest));
        let order = icmp.without_timestamp();
        salvaged.missing.iter().any(|keys| {
            let is_behind = |from: &Vec<u8>| order.compare_user_keys(&last, from).is_lt();
            let is_before = |to: &Vec<u8>| order.compare_user_keys(to, &first).is_lt();
            !keys.from.as_ref().is_some_and(is_behind) && !keys.to.as_ref().is_some_and(is_before)
        })
    }
}

/// The property by which a table names the table that it replaces.
pub(super) fn replaced_by(properties: &TableProperties) -> Option<FileNumber> {
    let number = properties.user_collected_properties.get(SALVAGED_FROM.as_bytes())?;
    std::str::from_utf8(number).ok()?.parse().ok().map(FileNumber)
}

fn salvage_options(icmp: &InternalKeyComparator, said: Option<&FileMetaData>) -> SalvageOptions {
    let lacks_timestamps = said.is_some_and(|said| said.user_defined_timestamps_not_persisted);
    // The MANIFEST's bounds of a table without timestamps have none, either.
    let bound = |bound: &Vec<u8>| {
        let (user_key, trailer) = bound.split_at(bound.len().saturating_sub(key::TRAILER_BYTES));
        let pad = if lacks_timestamps { icmp.min_timestamp() } else { &[] };
        [user_key, pad, trailer].concat()
    };
    SalvageOptions {
        icmp: icmp.clone(),
        largest_seqno: said.map(|said| said.largest_seqno),
        only_seqno: said.filter(|s| s.smallest_seqno == s.largest_seqno).map(|said| said.largest_seqno),
        bounds: said.map(|said| (bound(&said.smallest), bound(&said.largest))),
        lacks_timestamps,
    }
}

impl SalvagedTable {
    fn of(number: FileNumber) -> SalvagedTable {
        SalvagedTable {
            number,
            new_number: None,
            column_family_name: String::new(),
            blocks: 0,
            blocks_lost: 0,
            blocks_mended: 0,
            entries: 0,
            range_deletions: 0,
            entries_lost: None,
            values_lost: 0,
            missing: Vec::new(),
            range_deletions_lost: None,
            may_reappear: false,
            damaged: Vec::new(),
        }
    }

    fn take(&mut self, readable: SalvageReport, lost: Vec<MissingKeys>, values_lost: u64) {
        self.blocks = readable.blocks;
        self.blocks_lost = readable.blocks_lost;
        self.blocks_mended = readable.blocks_mended;
        self.entries = readable.entries - values_lost;
        self.range_deletions = readable.tombstones.len() as u64;
        self.entries_lost = readable.entries_lost.map(|lost| lost + values_lost);
        self.values_lost = values_lost;
        self.may_reappear =
            readable.tombstones_lost.is_some() || readable.lost.iter().any(|lost| lost.hides_last_key);
        let first = readable.damaged.first().map(|part| part.error.clone());
        self.range_deletions_lost = readable.tombstones_lost.map(|keys| MissingKeys {
            from: keys.from,
            to: keys.to,
            error: first.unwrap_or_else(|| Error::corruption("the block of range deletions is lost")),
        });
        let runs = readable.lost.into_iter();
        let runs = runs.map(|lost| MissingKeys { from: lost.keys.from, to: lost.keys.to, error: lost.error });
        self.missing = runs.chain(lost).collect();
        self.damaged = readable.damaged.into_iter().map(|part| (part.name, part.error)).collect();
    }
}

/// A new table on its way.
struct Writing<'a> {
    output: Option<TableOutput>,
    blobs: &'a BlobHealth,
    icmp: &'a InternalKeyComparator,
    /// The timestamp that keys get if the damaged table stores none.
    pad: &'a [u8],
    tally: BlobTally,
    /// Keys whose values are lost.
    lost: Vec<MissingKeys>,
    values_lost: u64,
    /// The key of the last entry, without timestamp, if that entry was lost.
    last_lost: Option<Vec<u8>>,
    /// Whether a lost entry has hidden an older one that was kept.
    hides: bool,
}

impl Writing<'_> {
    fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let entry = ParsedInternalKey::parse(internal_key)?;
        let mut user_key = entry.user_key.to_vec();
        user_key.extend_from_slice(self.pad);
        match self.with_values(&user_key, entry.value_type, value) {
            Ok(None) => {
                self.tally.count(entry.value_type, &user_key, value)?;
                self.store(&user_key, entry.sequence, entry.value_type, value)
            }
            Ok(Some((value_type, value))) => self.store(&user_key, entry.sequence, value_type, &value),
            Err(e) if is_of_contents(&e) => {
                self.lose(&user_key, e);
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    fn store(
        &mut self,
        user_key: &[u8],
        sequence: SequenceNumber,
        value_type: ValueType,
        value: &[u8],
    ) -> Result<()> {
        if let Some(lost) = self.last_lost.take() {
            self.hides |= lost == self.icmp.split_timestamp(user_key).0;
        }
        match &mut self.output {
            Some(output) => output.add(&key::internal_key(user_key, sequence, value_type), value),
            None => Ok(()),
        }
    }

    fn add_tombstone(&mut self, tombstone: &RangeTombstone) -> Result<()> {
        let Some(output) = &mut self.output else { return Ok(()) };
        let mut tombstone = tombstone.clone();
        tombstone.start.extend_from_slice(self.pad);
        tombstone.end.extend_from_slice(self.pad);
        output.add_tombstone(&tombstone)
    }

    /// Records the loss of an entry. Neighbours that are lost, too, share a range.
    fn lose(&mut self, user_key: &[u8], error: Error) {
        self.values_lost += 1;
        let plain = Some(self.icmp.split_timestamp(user_key).0.to_vec());
        match self.lost.last_mut().filter(|_| self.last_lost.is_some()) {
            Some(run) => run.to.clone_from(&plain),
            None => self.lost.push(MissingKeys { from: plain.clone(), to: plain.clone(), error }),
        }
        self.last_lost = plain;
    }

    /// Type and value of an entry with values of damaged blob files in place; `None` if it has
    /// none.
    /// # Errors
    /// `Corruption`: a value cannot be read.
    fn with_values(
        &self,
        user_key: &[u8],
        value_type: ValueType,
        value: &[u8],
    ) -> Result<Option<(ValueType, Vec<u8>)>> {
        if !matches!(value_type, ValueType::BlobIndex | ValueType::WideColumnEntity) {
            return Ok(None);
        }
        let mut is_whole = true;
        for_each_blob(value_type, value, &mut |location| {
            is_whole &= self.blobs.whole.contains(&location.file_number);
        })?;
        if is_whole {
            return Ok(None);
        }
        if value_type == ValueType::BlobIndex {
            let BlobIndex::Blob(location) = BlobIndex::parse(value)? else {
                return Err(Error::new(ErrorKind::NotSupported, "values that expire"));
            };
            return Ok(Some((ValueType::Value, self.blobs.value(user_key, &location)?)));
        }
        let stored = StoredColumns::parse(value)?;
        let mut values = Vec::new();
        for (_, column) in &stored.columns {
            values.push(match column {
                StoredValue::Blob(at) if !self.blobs.whole.contains(&at.file_number) => {
                    Some(self.blobs.value(user_key, at)?)
                }
                _ => None,
            });
        }
        let columns = stored.columns.iter().zip(&values).map(|((name, column), fetched)| {
            (*name, fetched.as_deref().map_or(*column, StoredValue::Inline))
        });
        let mut whole = Vec::new();
        StoredColumns { columns: columns.collect() }.append_to(&mut whole)?;
        Ok(Some((value_type, whole)))
    }
}
