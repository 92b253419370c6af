//! Prepares tables that another database has exported for a new family.
//!
//! In: the export's description of its tables. Out: the tables under numbers of this database, and
//! the edit that names them.
//!
//! Invariants
//!  1. A table's description is checked against the table: its keys lie within the bounds, and
//!     tables of one level below 0 do not overlap.
//!  2. A table is deleted again if no MANIFEST can name it.
//!
//! Source: RocksDB `db/import_column_family_job.cc`.

use crate::engine::Engine;
use crate::files::{ChecksumReads, checksum_of_file, copy_file, link_or_copy_synced};
use crate::observe::{ExportImportFilesMetaData, LiveFileMetaData};
use crate::options::ColumnFamilyOptions;
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, Result, SequenceNumber};
use esker_format::cursor::InternalIterator;
use esker_format::file_name::FilePaths;
use esker_format::key::{self, InternalKeyComparator, ParsedInternalKey, RANGE_END_SENTINEL};
use esker_format::unique_id::unique_id;
use esker_format::version_edit::{FileMetaData, VersionEdit};
use esker_table::{TableReadOptions, TableReader, TableReaderOptions};
use std::path::{Path, PathBuf};

/// The tables of one import.
pub(crate) struct Import<'a> {
    engine: &'a Engine,
    icmp: InternalKeyComparator,
    /// The new family's directories.
    paths: FilePaths,
    files: Vec<Imported>,
    is_named: bool,
}

struct Imported {
    source: PathBuf,
    level: usize,
    metadata: FileMetaData,
}

impl<'a> Import<'a> {
    /// Checks the tables and brings them into the family's first path.
    /// # Errors
    /// See `Db::create_column_family_with_import`.
    pub(crate) fn new(
        engine: &'a Engine,
        options: &ColumnFamilyOptions,
        export: &ExportImportFilesMetaData,
        move_files: bool,
    ) -> Result<Import<'a>> {
        let comparator = options.comparator.name();
        if export.db_comparator_name != comparator {
            let what =
                format!("Comparator name mismatch: '{}', not '{comparator}'", export.db_comparator_name);
            return Err(Error::invalid_argument(what));
        }
        if !options.persist_user_defined_timestamps {
            let what = "import into a column family with persist_user_defined_timestamps=false";
            return Err(Error::not_supported(what));
        }
        let icmp = InternalKeyComparator::new(options.comparator.clone());
        let paths = options.file_paths(&engine.path);
        let mut import = Import { engine, icmp, paths, files: Vec::new(), is_named: false };
        for file in &export.files {
            let checked = import.check(file, options).map_err(|e| e.at(&file.relative_filename))?;
            import.files.push(checked);
        }
        import.check_levels()?;
        import.give_epochs();
        for file in &import.files {
            let target = import.paths.table(0, file.metadata.number);
            let fs = engine.fs().as_ref();
            if move_files {
                link_or_copy_synced(fs, &file.source, &target)?;
            } else {
                copy_file(fs, &file.source, &target, file.metadata.file_size)?;
            }
        }
        if let Some(factory) = &engine.options.file_checksum_gen_factory {
            let reads = ChecksumReads::new(factory, engine.fs().as_ref(), &engine.options);
            for file in import.files.iter_mut().filter(|file| file.metadata.file_checksum.is_none()) {
                let target = import.paths.table(0, file.metadata.number);
                file.metadata.file_checksum = Some(checksum_of_file(&reads, &target, "")?);
            }
        }
        engine.sync_directories([import.paths.first()].into_iter())?;
        Ok(import)
    }

    /// The newest sequence number in the tables.
    pub(crate) fn largest_seqno(&self) -> SequenceNumber {
        self.files.iter().map(|f| f.metadata.largest_seqno).max().unwrap_or_default()
    }

    /// Checks the tables' sequence numbers under the lead.
    /// # Errors
    /// See [`Engine::check_foreign_numbers`].
    pub(crate) fn check_seqnos(&self) -> Result<()> {
        self.files.iter().try_for_each(|file| {
            let FileMetaData { smallest_seqno, largest_seqno, .. } = file.metadata;
            let checked = self.engine.check_foreign_numbers(smallest_seqno, largest_seqno);
            checked.map_err(|e| e.at(file.source.display()))
        })
    }

    /// The edit that adds the tables to family `id`.
    pub(crate) fn edit(&self, id: ColumnFamilyId) -> VersionEdit {
        VersionEdit {
            column_family: id,
            new_files: self.files.iter().map(|f| (f.level, f.metadata.clone())).collect(),
            ..VersionEdit::default()
        }
    }

    /// Records that the MANIFEST names the tables, or may name them.
    pub(crate) fn set_named(&mut self) {
        self.is_named = true;
    }

    /// Removes the tables' names in the export.
    pub(crate) fn remove_sources(&self) {
        for file in &self.files {
            if let Err(e) = self.engine.fs().delete_file(&file.source) {
                esker_base::info_log!(self.engine.info_log, Warn, "Could not remove an imported file: {e}");
            }
        }
    }

    fn check(&self, file: &LiveFileMetaData, options: &ColumnFamilyOptions) -> Result<Imported> {
        let num_levels = usize::try_from(options.num_levels).unwrap_or(1);
        if file.level >= num_levels {
            let what = format!("a file of level {}, but num_levels is {num_levels}", file.level);
            return Err(Error::invalid_argument(what));
        }
        if file.oldest_blob_file_number.is_some() {
            return Err(Error::not_supported("import of a table with values in blob files"));
        }
        if file.smallest_seqno > file.largest_seqno || file.largest_seqno > SequenceNumber::MAX {
            return Err(Error::invalid_argument("its sequence numbers are not in order"));
        }
        let source = file.directory.join(&file.relative_filename);
        let fs = self.engine.fs().as_ref();
        let file_size = fs.file_size(&source)?;
        if file_size != file.size {
            let what = format!("the file has {file_size} bytes, the export says {}", file.size);
            return Err(Error::corruption(what));
        }
        let table_options = Arc::new(options.table.clone());
        let mut reader_options = TableReaderOptions::new(self.icmp.clone(), table_options, file_size);
        reader_options.compression_manager.clone_from(&options.compression_manager);
        reader_options.merge_operator.clone_from(&options.merge_operator);
        let reader = TableReader::open(
            fs.open_random_access(&source, self.engine.options.use_direct_reads)?,
            reader_options,
        )?;
        self.check_bounds(file, &reader)?;
        let properties = reader.properties();
        Ok(Imported {
            source,
            level: file.level,
            metadata: FileMetaData {
                number: self.engine.numbers.new_file_number(),
                file_size,
                smallest: file.smallest.clone(),
                largest: file.largest.clone(),
                smallest_seqno: file.smallest_seqno,
                largest_seqno: file.largest_seqno,
                oldest_ancestor_time: file.oldest_ancestor_time,
                file_creation_time: file.file_creation_time,
                epoch_number: file.epoch_number,
                file_checksum: file.file_checksum.clone(),
                temperature: file.temperature as u8,
                unique_id: unique_id(
                    &properties.db_id,
                    &properties.db_session_id,
                    properties.orig_file_number,
                ),
                tail_size: match properties.tail_start_offset {
                    0 => 0,
                    start => file_size.saturating_sub(start),
                },
                ..FileMetaData::default()
            },
        })
    }

    /// Checks that the keys in the table lie within the bounds of its description.
    fn check_bounds(&self, file: &LiveFileMetaData, reader: &Arc<TableReader>) -> Result<()> {
        for bound in [&file.smallest, &file.largest] {
            ParsedInternalKey::parse(bound)
                .map_err(|e| Error::invalid_argument(format!("no bounds are given for it: {e}")))?;
        }
        let mut entries = reader.iter(TableReadOptions { fill_cache: false, ..TableReadOptions::default() });
        entries.seek_to_first();
        if !entries.valid() {
            entries.status()?;
            return match reader.range_dels() {
                Some(_) => Ok(()),
                None => Err(Error::invalid_argument("File contain no entries")),
            };
        }
        // Range tombstones may reach beyond the bounds, which then limit them.
        let smallest = key::user_key(&file.smallest);
        let before = self.icmp.compare_user_keys(key::user_key(entries.key()), smallest).is_lt();
        entries.seek_to_last();
        entries.status()?;
        let largest = key::user_key(&file.largest);
        let is_exclusive = key::trailer(&file.largest) == RANGE_END_SENTINEL;
        let order = self.icmp.compare_user_keys(key::user_key(entries.key()), largest);
        if before || order.is_gt() || (order.is_eq() && is_exclusive) {
            return Err(Error::corruption(
                "the table holds keys outside of the bounds that are given for it",
            ));
        }
        Ok(())
    }

    fn check_levels(&self) -> Result<()> {
        let mut below: Vec<&Imported> = self.files.iter().filter(|f| f.level > 0).collect();
        below.sort_by(|a, b| {
            a.level.cmp(&b.level).then_with(|| self.icmp.compare(&a.metadata.smallest, &b.metadata.smallest))
        });
        let overlap = |pair: &[&Imported]| {
            let (a, b) = (&pair[0], &pair[1]);
            a.level == b.level && self.icmp.compare(&a.metadata.largest, &b.metadata.smallest).is_ge()
        };
        match below.windows(2).find(|pair| overlap(pair)) {
            Some(pair) => {
                Err(Error::invalid_argument("Files have overlapping ranges").at(pair[1].source.display()))
            }
            None => Ok(()),
        }
    }

    /// Numbers epochs from 1 on, in the tables' old order: deeper levels are older.
    fn give_epochs(&mut self) {
        let mut order: Vec<&mut Imported> = self.files.iter_mut().collect();
        order.sort_by_key(|f| {
            let m = &f.metadata;
            (std::cmp::Reverse(f.level), m.epoch_number, m.largest_seqno, m.smallest_seqno, m.number)
        });
        for (file, epoch) in order.into_iter().zip(1..) {
            file.metadata.epoch_number = epoch;
        }
    }
}

impl Drop for Import<'_> {
    fn drop(&mut self) {
        if self.is_named {
            return;
        }
        let fs = self.engine.fs();
        for file in &self.files {
            delete_if_there(self.engine, fs.as_ref(), &self.paths.table(0, file.metadata.number));
        }
    }
}

/// A file that cannot be deleted is removed by the next open: no MANIFEST names its number.
fn delete_if_there(engine: &Engine, fs: &dyn esker_env::FileSystem, path: &Path) {
    if let Ok(true) = fs.file_exists(path)
        && let Err(e) = fs.delete_file(path)
    {
        esker_base::info_log!(engine.info_log, Warn, "Could not delete a file not taken in: {e}");
    }
}
