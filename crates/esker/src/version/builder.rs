//! Builds a version from a version and edits, by RocksDB's replay rules.
//!
//! In: a version, the levels of its files, and edits of its family in order. Out: the next version,
//! which shares every level that did not change. Source: RocksDB `db/version_builder.cc`.
//!
//! Invariants
//!  1. A file is in at most one level. A deleted file was there; an added one was not.
//!  2. Within one edit deletions come before additions, so that one edit can move a file.

use super::blob_meta::{self, BlobFiles, LiveBlobFile, LiveBlobFiles};
use super::check::{check_next_version, newest_first, newest_first_by_sequence};
use super::file_meta::ObsoleteFiles;
use super::findings::Findings;
use super::{FileMeta, Level, Version, VersionSetFamily};
use esker_base::sync::{Arc, OnceLock};
use esker_base::{Error, FileNumber, Result};
use esker_format::file_name::FilePaths;
use esker_format::version_edit::{BlobFileAddition, FileMetaData, VersionEdit};
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// The level of each table file of a version.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locations(HashMap<FileNumber, usize>);

impl Locations {
    /// The locations of a version's files.
    pub(crate) fn of(version: &Version) -> Locations {
        Locations(version.all_files().map(|(level, f)| (f.number, level)).collect())
    }

    /// The level of a file.
    pub(crate) fn level(&self, file: FileNumber) -> Option<usize> {
        self.0.get(&file).copied()
    }

    /// Adopts a builder's changes.
    pub(super) fn update(&mut self, changes: LocationChanges) {
        for (number, level) in changes.0 {
            match level {
                Some(level) => self.0.insert(number, level),
                None => self.0.remove(&number),
            };
        }
    }
}

/// New levels of files; `None`: the file is deleted.
#[derive(Clone, Debug, Default)]
pub(super) struct LocationChanges(HashMap<FileNumber, Option<usize>>);

/// The result of applying edits.
#[derive(Debug)]
pub(crate) struct Built {
    /// The next version.
    pub version: Arc<Version>,
    pub(super) moved: LocationChanges,
}

impl Built {
    /// Marks the version's files as installed: when their last version is dropped, they are
    /// reported as obsolete.
    pub(super) fn set_installed(&self) {
        self.version.new_files.iter().for_each(|table| table.set_installed());
        self.version.live_blob_files.values().for_each(|blobs| blobs.set_installed());
    }
}

/// Edits on top of a version.
#[derive(Debug)]
pub(crate) struct VersionBuilder {
    base: Arc<Version>,
    locations: Arc<Locations>,
    moved: LocationChanges,
    /// For each level, its new files. Levels that the family cannot have are kept too: later edits
    /// may empty them.
    added: BTreeMap<usize, BTreeMap<FileNumber, FileMetaData>>,
    /// Levels of the base that lost files.
    shrunk: Vec<bool>,
    blob_files: Arc<BlobFiles>,
    blobs_changed: bool,
    compact_cursors: BTreeMap<usize, Vec<u8>>,
    full_history_ts_low: Option<Vec<u8>>,
}

impl VersionBuilder {
    /// A builder on top of `base`, whose files are at `locations`.
    pub(crate) fn new(base: Arc<Version>, locations: Arc<Locations>) -> VersionBuilder {
        VersionBuilder {
            locations,
            moved: LocationChanges::default(),
            added: BTreeMap::new(),
            shrunk: vec![false; base.num_levels()],
            blob_files: Arc::clone(&base.blob_files),
            blobs_changed: false,
            compact_cursors: base.compact_cursors.clone(),
            full_history_ts_low: None,
            base,
        }
    }

    /// The builder that leads from `base`, whose files are at `locations`, to the files of
    /// `target`. `None` if both have the same files. Cost: a visit of each file of both.
    pub(super) fn towards(
        base: &Arc<Version>,
        locations: &Arc<Locations>,
        target: &Version,
    ) -> Option<VersionBuilder> {
        let mut builder = VersionBuilder::new(Arc::clone(base), Arc::clone(locations));
        let mut left: HashMap<FileNumber, (usize, &Arc<FileMeta>)> =
            base.all_files().map(|(level, file)| (file.number, (level, file))).collect();
        for (level, file) in target.all_files() {
            match left.remove(&file.number) {
                Some((at, old)) if at == level && old.data() == file.data() => continue,
                Some((at, _)) => builder.shrunk[at] = true,
                None => {}
            }
            builder.added.entry(level).or_default().insert(file.number, file.data().clone());
            builder.moved.0.insert(file.number, Some(level));
        }
        for (number, (level, _)) in left {
            builder.shrunk[level] = true;
            builder.moved.0.insert(number, None);
        }
        builder.blobs_changed = base.blob_files != target.blob_files;
        builder.blob_files = Arc::clone(&target.blob_files);
        builder.compact_cursors = target.compact_cursors.clone();
        builder.full_history_ts_low = Some(target.full_history_ts_low.clone());
        let is_same = builder.moved.0.is_empty()
            && !builder.blobs_changed
            && base.full_history_ts_low == target.full_history_ts_low;
        (!is_same).then_some(builder)
    }

    /// If any added file lacks an epoch number, gives all of them new ones: deeper levels are
    /// older, with one epoch each; in level 0 each file has its own, by sequence numbers. Only over
    /// an empty version, when a MANIFEST has been read to its end. Returns the next epoch of the
    /// family.
    pub(super) fn infer_epochs(&mut self) -> u64 {
        let all = || self.added.values().flat_map(BTreeMap::values);
        let highest = all().map(|f| f.epoch_number).max().unwrap_or(0);
        if all().all(|f| f.epoch_number != 0) {
            return highest + 1;
        }
        let mut next = 1;
        for (&level, files) in self.added.iter_mut().rev() {
            let mut files: Vec<&mut FileMetaData> = files.values_mut().collect();
            files.sort_by(|a, b| newest_first_by_sequence(b, a));
            for file in &mut files {
                file.epoch_number = next;
                next += u64::from(level == 0);
            }
            next += u64::from(level > 0 && !files.is_empty());
        }
        next
    }

    /// Applies one edit of this family.
    /// # Errors
    /// `Corruption` if it deletes a file from the wrong place, adds one that exists, or its blob
    /// files do not add up. The builder is then unusable.
    pub(crate) fn apply(&mut self, edit: &VersionEdit) -> Result<()> {
        for addition in &edit.blob_file_additions {
            blob_meta::add(Arc::make_mut(&mut self.blob_files), addition)?;
        }
        for garbage in &edit.blob_file_garbages {
            blob_meta::add_garbage(Arc::make_mut(&mut self.blob_files), garbage)?;
        }
        for &(level, number) in &edit.deleted_files {
            self.delete(level, number)?;
        }
        for (level, file) in &edit.new_files {
            self.add(*level, file)?;
        }
        for (level, key) in &edit.compact_cursors {
            self.compact_cursors.insert(*level, key.clone());
        }
        self.blobs_changed |= !edit.blob_file_additions.is_empty()
            || !edit.blob_file_garbages.is_empty()
            || !edit.deleted_files.is_empty();
        if let Some(ts) = &edit.full_history_ts_low {
            self.full_history_ts_low = Some(ts.clone());
        }
        Ok(())
    }

    fn level_of(&self, number: FileNumber) -> Option<usize> {
        match self.moved.0.get(&number) {
            Some(&level) => level,
            None => self.locations.level(number),
        }
    }

    fn delete(&mut self, level: usize, number: FileNumber) -> Result<()> {
        match self.level_of(number) {
            Some(at) if at == level => {}
            Some(at) => {
                return Err(Error::corruption(format!(
                    "cannot delete table file #{number} from level {level}: it is on level {at}"
                )));
            }
            None => {
                return Err(Error::corruption(format!(
                    "cannot delete table file #{number} from level {level}: it is not in the LSM tree"
                )));
            }
        }
        let was_added = self.added.get_mut(&level).is_some_and(|files| files.remove(&number).is_some());
        if !was_added {
            self.shrunk[level] = true;
        }
        self.moved.0.insert(number, None);
        Ok(())
    }

    fn add(&mut self, level: usize, file: &FileMetaData) -> Result<()> {
        let number = file.number;
        if let Some(at) = self.level_of(number) {
            return Err(Error::corruption(format!(
                "cannot add table file #{number} to level {level}: it is already on level {at}"
            )));
        }
        self.added.entry(level).or_default().insert(number, file.clone());
        self.moved.0.insert(number, Some(level));
        Ok(())
    }

    /// The version after all edits, checked. `number` is its number for logs.
    /// # Errors
    /// `InvalidArgument` if a level has files that the family cannot have · `MemoryLimit` if tables
    /// are charged to a cache whose strict limit has no room · `Corruption` if
    /// [`check_next_version`] fails.
    pub(crate) fn finish(self, number: u64, obsolete: &Arc<ObsoleteFiles>) -> Result<Built> {
        let (levels, new_files) = self.build_levels(obsolete)?;
        let base = &self.base;
        let (mut blob_files, mut live_blob_files) = (self.blob_files, Arc::clone(&base.live_blob_files));
        if self.blobs_changed && !blob_files.is_empty() {
            blob_meta::retire(Arc::make_mut(&mut blob_files), &levels);
            live_blob_files = Arc::new(live_files(&blob_files, &live_blob_files, &base.paths, obsolete));
        }
        let ts_low = self.full_history_ts_low.unwrap_or_else(|| base.full_history_ts_low.clone());
        let same_history = ts_low == base.full_history_ts_low;
        let still_there = |file: &Arc<FileMeta>| match self.moved.0.get(&file.number) {
            None => Some(Arc::clone(file)),
            Some(None) => None,
            Some(Some(_)) => new_files.iter().find(|f| f.number == file.number).cloned(),
        };
        let mut covered_before: Box<[_]> = base.covered().filter_map(still_there).collect();
        covered_before.sort_by_key(|file| file.covered_at());
        let version = Version {
            covered_before,
            covered_now: OnceLock::new(),
            garbage: OnceLock::new(),
            column_family: base.column_family,
            number,
            icmp: base.icmp.clone(),
            findings: Findings::after(&base.findings, &base.levels, &levels, same_history),
            levels,
            new_files,
            blob_files,
            blob_bytes: OnceLock::new(),
            live_blob_files,
            compact_cursors: self.compact_cursors,
            full_history_ts_low: ts_low,
            paths: base.paths.clone(),
            metadata_cache: base.metadata_cache.clone(),
            reserves_last_level: base.reserves_last_level,
        };
        check_next_version(base, &version)?;
        Ok(Built { version: Arc::new(version), moved: self.moved })
    }

    #[expect(clippy::type_complexity, reason = "used once, just above")]
    fn build_levels(&self, obsolete: &Arc<ObsoleteFiles>) -> Result<(Box<[Arc<Level>]>, Vec<Arc<FileMeta>>)> {
        let deepest = self.added.iter().rfind(|(_, files)| !files.is_empty()).map(|(&level, _)| level);
        if let Some(level) = deepest
            && level >= self.base.num_levels()
        {
            return Err(Error::invalid_argument(format!(
                "the database has files on level {level}, more than num_levels = {}",
                self.base.num_levels()
            )));
        }
        let gone = self.gone();
        let mut new_files = Vec::new();
        let build = |level: usize| -> Result<Arc<Level>> {
            let added = self.added.get(&level).filter(|files| !files.is_empty());
            if added.is_none() && !self.shrunk[level] {
                return Ok(Arc::clone(&self.base.levels[level]));
            }
            let mut files = self.staying(level, &gone);
            for data in added.into_iter().flat_map(BTreeMap::values) {
                // A file that moves stays the same file on disk.
                let file = match gone.get(&data.number) {
                    Some(old) => old.redescribed(data.clone()),
                    None => FileMeta::new(data.clone(), &self.base.paths, obsolete)
                        .charged_to(self.base.metadata_cache.as_ref())?,
                };
                files.push(Arc::new(file.at_level(level)));
                new_files.extend(files.last().cloned());
            }
            sort_level(level, &mut files, &self.base);
            Ok(Arc::new(Level::new(files, level > 0, &self.base.icmp)))
        };
        let levels = (0..self.base.num_levels()).map(build).collect::<Result<_>>()?;
        Ok((levels, new_files))
    }

    /// Files of the base that were deleted or moved.
    fn gone(&self) -> HashMap<FileNumber, Arc<FileMeta>> {
        let shrunk = (0..self.base.num_levels()).filter(|&level| self.shrunk[level]);
        shrunk
            .flat_map(|level| self.base.files(level))
            .filter(|f| self.moved.0.contains_key(&f.number))
            .map(|f| (f.number, Arc::clone(f)))
            .collect()
    }

    fn staying(&self, level: usize, gone: &HashMap<FileNumber, Arc<FileMeta>>) -> Vec<Arc<FileMeta>> {
        let stays = |f: &&Arc<FileMeta>| !self.shrunk[level] || !gone.contains_key(&f.number);
        self.base.files(level).iter().filter(stays).cloned().collect()
    }
}

impl VersionSetFamily {
    /// The newest version with new tables in level 0, for reads before these tables are logged.
    /// # Errors
    /// `Corruption` if the files do not add up · `MemoryLimit`, as for a logged version.
    pub(crate) fn with_tables(
        &self,
        tables: &[FileMetaData],
        blobs: &[BlobFileAddition],
    ) -> Result<Arc<Version>> {
        let edit = VersionEdit {
            new_files: tables.iter().map(|file| (0, file.clone())).collect(),
            blob_file_additions: blobs.to_vec(),
            ..VersionEdit::default()
        };
        let mut builder = VersionBuilder::new(Arc::clone(&self.current), Arc::clone(&self.locations));
        builder.apply(&edit)?;
        Ok(builder.finish(self.current.number(), &Arc::default())?.version)
    }
}

/// References that keep these files on disk; existing ones are reused.
fn live_files(
    files: &BlobFiles,
    before: &LiveBlobFiles,
    paths: &FilePaths,
    obsolete: &Arc<ObsoleteFiles>,
) -> LiveBlobFiles {
    let live = |n: &FileNumber| match before.get(n) {
        Some(live) => (*n, Arc::clone(live)),
        None => (*n, Arc::new(LiveBlobFile::new(*n, paths, obsolete))),
    };
    files.keys().map(live).collect()
}

fn sort_level(level: usize, files: &mut [Arc<FileMeta>], base: &Version) {
    if level == 0 {
        files.sort_by(|a, b| newest_first(a, b));
    } else {
        // Number last, so that equal bounds (which the check refuses) are reported the same way
        // every time.
        files.sort_by(|a, b| {
            base.icmp.compare(&a.smallest, &b.smallest).then_with(|| a.number.cmp(&b.number))
        });
    }
}
