//! The files of a database, for people and tools.

use super::open::wals_in;
use super::{ColumnFamilyHandle, Db};
use crate::cf::ColumnFamily;
use crate::engine::Engine;
use crate::files::copy_file;
use crate::files::open_table::open_file;
use crate::observe::{
    BlobMetaData, ColumnFamilyMetaData, FlushReason, LevelMetaData, LiveFileMetaData, SstFileMetaData,
};
use crate::options::Temperature;
use crate::version::blob_meta::BlobFileMeta;
use crate::version::manifest::copy_in_one_path;
use crate::version::{FileMeta, LogOptions, Version};
use esker_base::sync::Arc;
use esker_base::{Error, ErrorKind, FileNumber, Result, SequenceNumber};
use esker_env::FileSystem;
use esker_format::file_name;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Everything that the database consists of at one point in time.
#[derive(Debug)]
pub(crate) struct LiveCut {
    /// The database's directory.
    pub(crate) path: PathBuf,
    pub(crate) tables: Vec<PathBuf>,
    pub(crate) blobs: Vec<PathBuf>,
    /// Bytes of tables and blob files.
    pub(crate) sizes: BTreeMap<FileNumber, u64>,
    /// Checksum and function name of each table and blob file that has a checksum.
    pub(crate) checksums: BTreeMap<FileNumber, (Vec<u8>, String)>,
    /// Temperatures of tables; others are unknown.
    pub(crate) temperatures: BTreeMap<FileNumber, Temperature>,
    /// Number and bytes of the MANIFEST.
    pub(crate) manifest: (FileNumber, u64),
    /// Whether the MANIFEST may name paths besides the first.
    pub(crate) has_several_paths: bool,
    /// The WALs still needed, with their bytes.
    pub(crate) wals: Vec<(PathBuf, u64)>,
    pub(crate) last_sequence: SequenceNumber,
    /// A number for an OPTIONS file that no other file has.
    pub(crate) options_number: FileNumber,
}

impl LiveCut {
    /// Copies the MANIFEST into `to`, durably, for a copy of the database that is one directory.
    /// # Errors
    /// `IoError` · `Corruption`.
    pub(crate) fn copy_manifest(&self, fs: &Arc<dyn FileSystem>, to: &Path) -> Result<()> {
        let (number, bytes) = self.manifest;
        if self.has_several_paths {
            return copy_in_one_path(fs, (&self.path, to), number, bytes);
        }
        let names = [&*self.path, to].map(|dir| file_name::descriptor_file_name(dir, number));
        copy_file(fs.as_ref(), &names[0], &names[1], bytes)
    }
}

impl Db {
    /// The files as of now. The caller has disabled file deletions. Memtables are flushed first if
    /// the WALs have `log_size_for_flush` bytes or more.
    /// # Errors
    /// `NotSupported` when read-only · `ShutdownInProgress` · the background error in force · the
    /// flush's error.
    pub(crate) fn live_cut(&self, log_size_for_flush: u64) -> Result<LiveCut> {
        let engine = self.engine();
        engine.check_writable()?;
        engine.check_open()?;
        if engine.wals.lock().total_bytes() >= log_size_for_flush {
            self.inner.write_path.flush_all(FlushReason::GetLiveFiles)?;
        }
        let lead = self.inner.write_path.lead_alone_urgently();
        if engine.options.manual_wal_flush {
            self.inner.write_path.flush_wal()?;
        }
        let mut manifest = engine.manifest.lock();
        if manifest.manifest_bytes() == 0 {
            // A write to the MANIFEST has failed, and its caller has the error. A fresh MANIFEST
            // holds the state in force.
            manifest.log_and_apply(Vec::new(), LogOptions::default())?;
        }
        let options_number = manifest.numbers().new_file_number();
        let state = engine.state.lock();
        if let Some(error) = state.background_error.current() {
            return Err(error.clone());
        }
        let versions: Vec<_> = state.families.values().map(|f| f.version.clone()).collect();
        let oldest_needed = engine.oldest_wal_needed(&state).unwrap_or(FileNumber(0));
        let alive: Vec<_> = engine.wals.lock().alive().collect();
        let last_sequence = engine.visible_sequence();
        drop(state);
        let manifest_at = (manifest.manifest_number(), manifest.manifest_bytes());
        let has_several_paths = manifest.has_several_paths();
        drop(manifest);
        drop(lead);
        // The newest WAL is a part of the copy even if it is empty, as in RocksDB.
        let newest = alive.last().map(|(number, _)| *number);
        let is_part = |(number, bytes): &(FileNumber, u64)| {
            *number >= oldest_needed && (*bytes > 0 || Some(*number) == newest)
        };
        let wals = alive.into_iter().filter(is_part).collect();
        let cut =
            Cut { versions, manifest: manifest_at, has_several_paths, wals, last_sequence, options_number };
        Ok(cut.name_files(engine))
    }

    /// The files of a database that is open for reading only, with all WALs that it may need.
    /// [`Db::check_owner_stands_still`] says afterwards whether they belong together.
    /// # Errors
    /// `NotSupported` in a secondary · `TryAgain` · `IoError`.
    pub(crate) fn cut_of_reader(&self) -> Result<LiveCut> {
        let engine = self.engine();
        if engine.secondary.is_some() {
            engine.check_writable()?;
        }
        engine.check_open()?;
        self.check_owner_stands_still()?;
        let fs = engine.env.fs.as_ref();
        let with_bytes =
            |number| Ok((number, fs.file_size(&file_name::wal_file_name(&engine.wal_dir, number))?));
        let manifest = engine.manifest.lock();
        // The owner may still be deleting older ones, long after it wrote the MANIFEST.
        let oldest_needed = match manifest.min_log_number_to_keep() {
            FileNumber(0) => manifest.families().map(|f| f.log_number()).min().unwrap_or_default(),
            kept => kept,
        };
        let wals = wals_in(fs, &engine.wal_dir)?.into_iter().filter(|wal| *wal >= oldest_needed);
        let wals = wals.map(with_bytes).collect::<Result<_>>()?;
        let path = file_name::descriptor_file_name(&engine.path, manifest.manifest_number());
        let versions = engine.state.lock().families.values().map(|f| f.version.clone()).collect();
        let cut = Cut {
            versions,
            manifest: (manifest.manifest_number(), fs.file_size(&path)?),
            has_several_paths: manifest.has_several_paths(),
            wals,
            last_sequence: engine.visible_sequence(),
            options_number: manifest.numbers().new_file_number(),
        };
        drop(manifest);
        Ok(cut.name_files(engine))
    }

    /// Checks that no process has changed the MANIFEST since this one opened the database for
    /// reading only. As long as it stays the same, no file that it needs is deleted.
    /// # Errors
    /// `TryAgain`: opening the database again helps.
    pub(crate) fn check_owner_stands_still(&self) -> Result<()> {
        if self.engine().manifest.lock().is_as_it_was_read() {
            return Ok(());
        }
        let what = "the database has changed since it was opened for reading only; open it again";
        Err(Error::new(ErrorKind::TryAgain, what).at(self.engine().path.display()))
    }
}

/// One point in time, before its files have names.
struct Cut {
    versions: Vec<Arc<Version>>,
    manifest: (FileNumber, u64),
    has_several_paths: bool,
    wals: Vec<(FileNumber, u64)>,
    last_sequence: SequenceNumber,
    options_number: FileNumber,
}

impl Cut {
    /// Holds no lock: the versions do not change, and no file is deleted.
    fn name_files(self, engine: &Engine) -> LiveCut {
        let Cut { versions, manifest, has_several_paths, wals, last_sequence, options_number } = self;
        esker_base::probe!("live_cut:name_files", &mut engine.path.clone());
        let tables = versions.iter().flat_map(|v| v.all_files()).map(|(_, file)| (file.number, file.path()));
        let blobs = versions.iter().flat_map(|v| v.blob_files().keys().map(|n| (*n, v.paths().blob(*n))));
        let mut checksums = BTreeMap::new();
        versions.iter().for_each(|version| add_checksums(version, &mut checksums));
        let tables_with_sizes =
            versions.iter().flat_map(|v| v.all_files()).map(|(_, f)| (f.number, f.file_size));
        let blobs_with_sizes =
            versions.iter().flat_map(|v| v.blob_files()).map(|(n, blob)| (*n, blob.file_size()));
        let sizes = tables_with_sizes.chain(blobs_with_sizes).collect();
        let sorted = |files: BTreeMap<FileNumber, PathBuf>| files.into_values().collect();
        let wals = wals.into_iter();
        LiveCut {
            path: engine.path.clone(),
            tables: sorted(tables.collect()),
            blobs: sorted(blobs.collect()),
            sizes,
            checksums,
            temperatures: versions.iter().flat_map(|version| temperatures(version)).collect(),
            manifest,
            has_several_paths,
            wals: wals.map(|(n, bytes)| (file_name::wal_file_name(&engine.wal_dir, n), bytes)).collect(),
            last_sequence,
            options_number,
        }
    }
}

impl Db {
    /// The table files of all families as of now: family by family, level by level, level 0 newest
    /// first.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel")?;
    /// db.flush()?;
    /// for file in db.live_files() {
    ///     println!("{} in level {}", file.file.relative_filename, file.level);
    /// }
    /// println!("{:?}", db.live_files_checksum_info());
    /// let family = db.column_family_metadata(&db.default_column_family());
    /// assert!(family.size > 0);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn live_files(&self) -> Vec<LiveFileMetaData> {
        let engine = self.engine();
        let mut files = Vec::new();
        if !engine.owner.is_here() {
            return files;
        }
        for family in engine.families.all() {
            let super_version = family.super_version.load_full();
            files.extend(super_version.version.all_files().map(|(level, file)| LiveFileMetaData {
                column_family_name: family.name.clone(),
                level,
                file: describe(engine, &family, file),
            }));
        }
        files
    }

    /// Checksum and function name of each live file that has a checksum, tables and blob files of
    /// all families, by number.
    pub fn live_files_checksum_info(&self) -> BTreeMap<FileNumber, (Vec<u8>, String)> {
        let mut checksums = BTreeMap::new();
        if !self.engine().owner.is_here() {
            return checksums;
        }
        for family in self.engine().families.all() {
            add_checksums(&family.super_version.load_full().version, &mut checksums);
        }
        checksums
    }

    /// The levels of `family` and their files, and its blob files.
    pub fn column_family_metadata(&self, family: &ColumnFamilyHandle) -> ColumnFamilyMetaData {
        let engine = self.engine();
        let super_version = family.cf.super_version.load_full();
        let version = &super_version.version;
        let levels = (0..version.num_levels()).map(|level| LevelMetaData {
            level,
            size: version.size(level),
            files: version.files(level).iter().map(|file| describe(engine, &family.cf, file)).collect(),
        });
        let blob_files: Vec<_> =
            version.blob_files().values().map(|b| describe_blob_file(version, b)).collect();
        ColumnFamilyMetaData {
            name: family.name().to_owned(),
            size: version.total_size(),
            file_count: version.all_files().count(),
            levels: levels.collect(),
            blob_file_size: blob_files.iter().map(|blob| blob.blob_file_size).sum(),
            blob_file_count: blob_files.len(),
            blob_files,
        }
    }
}

/// The known temperatures of a version's tables.
fn temperatures(version: &Version) -> impl Iterator<Item = (FileNumber, Temperature)> + '_ {
    let known = version.all_files().filter(|(_, file)| file.temperature != 0);
    known.map(|(_, file)| (file.number, Temperature::from_code(file.temperature)))
}

/// Checksum and function name of each file that has a checksum.
fn add_checksums(version: &Version, checksums: &mut BTreeMap<FileNumber, (Vec<u8>, String)>) {
    let tables = version.all_files().filter_map(|(_, f)| Some((f.number, f.file_checksum.clone()?)));
    checksums.extend(tables);
    let blobs = version.blob_files().iter();
    checksums.extend(blobs.filter_map(|(number, blob)| Some((*number, checksum_of_blob_file(blob)?))));
}

fn checksum_of_blob_file(blob: &BlobFileMeta) -> Option<(Vec<u8>, String)> {
    let made = &blob.addition;
    (!made.checksum_value.is_empty()).then(|| (made.checksum_value.clone(), made.checksum_method.clone()))
}

fn describe_blob_file(version: &Version, blob: &BlobFileMeta) -> BlobMetaData {
    let path = version.paths().blob(blob.addition.number);
    BlobMetaData {
        blob_file_number: blob.addition.number,
        blob_file_name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        blob_file_path: version.paths().first().to_path_buf(),
        blob_file_size: blob.file_size(),
        total_blob_count: blob.addition.total_blob_count,
        total_blob_bytes: blob.addition.total_blob_bytes,
        garbage_blob_count: blob.garbage_blob_count,
        garbage_blob_bytes: blob.garbage_blob_bytes,
        file_checksum: checksum_of_blob_file(blob),
    }
}

fn describe(engine: &Engine, cf: &ColumnFamily, file: &FileMeta) -> SstFileMetaData {
    let path = file.path();
    let name = path.file_name().unwrap_or_default();
    let counts = match file.stats() {
        Some(stats) => (stats.entries, stats.deletions),
        None => open_file(&cf.tables, file)
            .map_or((0, 0), |reader| (reader.properties().num_entries, reader.properties().num_deletions)),
    };
    let state = engine.state.lock();
    SstFileMetaData {
        file_number: file.number,
        relative_filename: name.to_string_lossy().into_owned(),
        directory: file.directory().to_path_buf(),
        size: file.file_size,
        smallest_key: file.smallest_user_key().to_vec(),
        largest_key: file.largest_user_key().to_vec(),
        smallest: file.smallest.clone(),
        largest: file.largest.clone(),
        smallest_seqno: file.smallest_seqno,
        largest_seqno: file.largest_seqno,
        num_reads_sampled: file.sampled_reads(),
        being_compacted: state.families.get(&cf.id).is_some_and(|f| f.running.is_input(file.number)),
        num_entries: counts.0,
        num_deletions: counts.1,
        oldest_blob_file_number: file.oldest_blob_file_number,
        oldest_ancestor_time: file.oldest_ancestor_time,
        file_creation_time: file.file_creation_time,
        epoch_number: file.epoch_number,
        file_checksum: file.file_checksum.clone(),
        temperature: Temperature::from_code(file.temperature),
    }
}
