//! Reads the metadata of a database into a [`DatabaseInfo`].
//!
//! In: a directory and the flags that name others. Out: the model, of one point in time. A live
//! owner may delete files meanwhile; the reader then starts again, and on its last attempt asks the
//! newest MANIFEST which of the missing files are really missing.
//!
//! Invariant: every path is checked to be a regular file before it is opened.

use super::damage::FoundDamage;
use super::model::{
    CreatorInfo, DatabaseInfo, FamilyInfo, LargeBlobFile, LevelInfo, ManifestInfo, NamedSize, TableInfo,
    TotalsInfo,
};
use super::{KeyForm, holder, operators, options, shape};
use crate::failure::{CommandOutcome, Failure};
use crate::host::{FileLines, Host};
use crate::manifest::{ManifestFamily, ManifestState};
use crate::text::hex;
use esker::internals::format::file_name::{self, FileType, parse_file_name};
use esker::internals::format::footer::{FOOTER_BYTES, Footer};
use esker::internals::format::key::{InternalKeyComparator, user_key};
use esker::internals::format::properties::OLDER_VERSIONS;
use esker::internals::format::version_edit::FileMetaData;
use esker::internals::table::TableReader;
use esker::internals::version::{read_beside_owner, read_current};
use esker::options::{LoadedOptions, latest_options_file, load_options_file};
use esker::{ErrorKind, FileNumber, Result, TableProperties};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Attempts that deletions of a live owner may disturb.
const MOST_ATTEMPTS: usize = 5;
/// Entries of each list in `largest`, and hosts.
const MOST_LISTED: usize = 10;
/// Lines of a LOG that are read for its version, and bytes of each.
const VERSION_LINES: usize = 50;
const VERSION_LINE_BYTES: usize = 4096;

/// The places of a database's files.
pub(crate) struct Sources<'a> {
    pub(crate) host: &'a Host,
    pub(crate) dir: &'a Path,
    pub(crate) wal_dir: Option<&'a Path>,
    pub(crate) paths: &'a [PathBuf],
    pub(crate) keys: KeyForm,
}

/// Reads the metadata.
/// # Errors
/// The directory is none; CURRENT or the MANIFEST that it names is missing, no regular file, or
/// cannot be read. The error names the file.
pub(crate) fn gather(sources: &Sources<'_>) -> CommandOutcome<DatabaseInfo> {
    let fs = sources.host.fs();
    fs.children(sources.dir)?;
    sources.check_regular(&file_name::current_file_name(sources.dir))?;
    let mut attempt = 1;
    loop {
        let (number, bytes, state) = sources.read_manifest()?;
        let mut gathering = Gathering::new(sources)?;
        gathering.info.manifest = ManifestInfo {
            name: format!("MANIFEST-{number:06}"),
            bytes,
            last_sequence: state.last_sequence,
            next_file_number: state.next_file_number,
        };
        gathering.add(&state, number)?;
        let (info, damage) = (gathering.info, gathering.damage);
        let is_settled = damage.is_empty() || sources.progress().is_none_or(|now| now == (number, bytes));
        if is_settled || attempt == MOST_ATTEMPTS {
            let newest = if is_settled { state } else { sources.read_manifest()?.2 };
            return Ok(damage.report(info, &newest));
        }
        attempt += 1;
    }
}

impl Sources<'_> {
    /// Checks that a path is no FIFO or device.
    /// # Errors
    /// As [`Host::check_regular`].
    fn check_regular(&self, path: &Path) -> CommandOutcome {
        self.host.check_regular(path).map_err(Failure::from)
    }

    /// The MANIFEST that CURRENT names: its number, size and state.
    fn read_manifest(&self) -> CommandOutcome<(FileNumber, u64, ManifestState)> {
        let (host, fs) = (self.host, self.host.fs());
        let read = read_beside_owner(fs, host.env().clock.as_ref(), self.dir, || {
            let number = read_current(fs, self.dir)?;
            let path = file_name::descriptor_file_name(self.dir, number);
            host.check_regular(&path)?;
            let bytes = fs.file_size(&path)?;
            let state = ManifestState::read(fs, &path, &mut |_| Ok(()))?;
            // Bytes that are no records, such as those of an encrypted file, look like the end of
            // the file to a reader of logs.
            if state.next_file_number == 0 {
                return Err(esker::Error::corruption("no next-file entry in MANIFEST").at(path.display()));
            }
            Ok((number, bytes, state))
        });
        Ok(read?)
    }

    /// The present number and size of the MANIFEST.
    fn progress(&self) -> Option<(FileNumber, u64)> {
        let number = read_current(self.host.fs(), self.dir).ok()?;
        let path = file_name::descriptor_file_name(self.dir, number);
        Some((number, self.host.fs().file_size(&path).ok()?))
    }

    /// The text of a user key; `None` if keys are not printed.
    fn key_text(&self, key: &[u8]) -> Option<String> {
        match self.keys {
            KeyForm::Text => Some(key.escape_ascii().to_string()),
            KeyForm::Hex => Some(format!("0x{}", hex(key))),
            KeyForm::None => None,
        }
    }
}

/// The state of one attempt.
struct Gathering<'a> {
    sources: &'a Sources<'a>,
    wal_dir: PathBuf,
    /// Files of the directories, with their sizes.
    files: BTreeMap<PathBuf, (FileType, FileNumber, u64)>,
    /// The same of tables and blob files, by number.
    data_files: BTreeMap<(u64, bool), PathBuf>,
    loaded: Option<LoadedOptions>,
    hosts: BTreeSet<String>,
    info: DatabaseInfo,
    damage: FoundDamage,
}

impl<'a> Gathering<'a> {
    fn new(sources: &'a Sources<'a>) -> CommandOutcome<Gathering<'a>> {
        let (mut info, mut damage) = (DatabaseInfo::default(), FoundDamage::default());
        let loaded = load_options(sources, &mut info.creator, &mut damage);
        let recorded = loaded.as_ref().and_then(|loaded| loaded.db.wal_dir.clone());
        let recorded = recorded.filter(|dir| sources.host.fs().file_exists(dir).unwrap_or(false));
        let wal_dir = sources.wal_dir.map(Path::to_owned).or(recorded);
        let wal_dir = wal_dir.unwrap_or_else(|| sources.dir.to_owned());
        info.directory = sources.dir.display().to_string();
        info.wal_directory = wal_dir.display().to_string();
        info.encrypted = sources.host.is_encrypted();
        info.keys = match sources.keys {
            KeyForm::Text => "text",
            KeyForm::Hex => "hex",
            KeyForm::None => "none",
        };
        info.time = sources.host.env().clock.now_seconds();
        info.lock = holder::lock_of(sources.host, sources.dir);
        let mut gathering = Gathering {
            sources,
            wal_dir,
            files: BTreeMap::new(),
            data_files: BTreeMap::new(),
            loaded,
            hosts: BTreeSet::new(),
            info,
            damage,
        };
        gathering.list()?;
        Ok(gathering)
    }

    /// Lists the directories. A file that goes away meanwhile is left out.
    fn list(&mut self) -> CommandOutcome {
        let (fs, sources) = (self.sources.host.fs(), self.sources);
        let mut dirs: Vec<&Path> = vec![sources.dir, &self.wal_dir];
        dirs.extend(sources.paths.iter().map(PathBuf::as_path));
        dirs.dedup();
        for dir in dirs {
            for name in fs.children(dir)? {
                let Some((kind, number)) = parse_file_name(&name) else { continue };
                let path = dir.join(&name);
                let Ok(bytes) = fs.file_size(&path) else { continue };
                if matches!(kind, FileType::Table | FileType::Blob) {
                    self.data_files.entry((number.0, kind == FileType::Blob)).or_insert_with(|| path.clone());
                }
                self.files.insert(path, (kind, number, bytes));
            }
        }
        Ok(())
    }

    fn add(&mut self, state: &ManifestState, manifest: FileNumber) -> CommandOutcome {
        for (id, family) in &state.families {
            let described = self.family(*id, family);
            self.info.families.push(described);
        }
        self.info.creator.db_id.clone_from(&state.db_id);
        self.info.creator.hosts = self.hosts.iter().take(MOST_LISTED).cloned().collect();
        self.info.creator.log_version = log_version(self.sources);
        if let Some(loaded) = &self.loaded {
            self.info.options = options::of_database(&loaded.db);
        }
        self.add_files(state, manifest);
        self.add_totals();
        Ok(())
    }

    /// The metadata of a family and of its files.
    fn family(&mut self, id: u32, family: &ManifestFamily) -> FamilyInfo {
        let mut described = FamilyInfo { id, name: family.name.clone(), ..FamilyInfo::default() };
        let mut of_tables = operators::OfTables::default();
        for (level, files) in &family.levels {
            let summed = self.level(family, *level, files, &mut described, &mut of_tables);
            if summed.files > 0 {
                described.levels.push(summed);
            }
        }
        for (number, blob) in &family.blob_files {
            let bytes = self.blob_bytes(*number, blob.addition.total_blob_bytes);
            add(&mut described.blob_files, 1);
            add(&mut described.blob_bytes, bytes);
            add(&mut described.blob_garbage_bytes, blob.garbage_bytes());
            self.info.largest.blob_files.push(LargeBlobFile {
                name: format!("{number:06}.blob"),
                family: family.name.clone(),
                bytes,
                records: blob.addition.total_blob_count,
                garbage_bytes: blob.garbage_bytes(),
            });
        }
        keep_largest(&mut self.info.largest.blob_files, |file| file.bytes);
        let options = self.loaded.as_ref().and_then(|loaded| loaded.family(&family.name));
        if let Some(options) = options {
            add_targets(&mut described.levels, options);
            described.options = options::of_family(options);
        }
        described.operators = operators::describe(family, options, of_tables);
        described.read_amplification =
            described.levels.iter().map(|level| level.sorted_runs).fold(0, u64::saturating_add);
        described.space_amplification = shape::space_amplification(&described.levels);
        described
    }

    fn level(
        &mut self,
        family: &ManifestFamily,
        level: usize,
        files: &[FileMetaData],
        described: &mut FamilyInfo,
        of_tables: &mut operators::OfTables,
    ) -> LevelInfo {
        let mut summed = LevelInfo { level, ..LevelInfo::default() };
        let mut compressions = BTreeSet::new();
        for file in files {
            add(&mut summed.files, 1);
            add(&mut summed.bytes, file.file_size);
            let properties = self.table(family, level, file, of_tables);
            if let Some(properties) = &properties {
                add(&mut summed.entries, properties.num_entries);
                add(&mut summed.tombstones, properties.num_deletions);
                add(&mut described.range_tombstones, properties.num_range_deletions);
                add(&mut described.merge_operands, properties.num_merge_operands);
                add(
                    &mut described.raw_bytes,
                    properties.raw_key_size.saturating_add(properties.raw_value_size),
                );
                add(&mut described.filter_bytes, properties.filter_size);
                add(&mut described.index_bytes, properties.index_size);
                compressions.insert(properties.compression_name.clone());
            }
            let table = TableInfo {
                name: format!("{:06}.sst", file.number),
                family: family.name.clone(),
                level,
                bytes: file.file_size,
                entries: properties.as_ref().map(|p| p.num_entries),
                created: created(file, properties.as_ref()),
            };
            let oldest = self.info.oldest_table.as_ref().and_then(|table| table.created);
            if table.created.is_some_and(|time| oldest.is_none_or(|oldest| time < oldest)) {
                self.info.oldest_table = Some(table.clone());
            }
            self.info.largest.tables.push(table);
            if self.info.largest.tables.len() > 2 * MOST_LISTED {
                keep_largest(&mut self.info.largest.tables, |table| table.bytes);
            }
        }
        summed.sorted_runs = shape::sorted_runs(level, summed.files);
        summed.compressions = compressions.into_iter().filter(|name| !name.is_empty()).collect();
        if let Some((smallest, largest)) = key_range(family, files) {
            summed.smallest_key = self.sources.key_text(smallest);
            summed.largest_key = self.sources.key_text(largest);
        }
        add(&mut described.tables, summed.files);
        add(&mut described.table_bytes, summed.bytes);
        add(&mut described.entries, summed.entries);
        add(&mut described.tombstones, summed.tombstones);
        summed
    }

    /// The properties of a table. Records damage if the file is missing, has another size than the
    /// MANIFEST says, or has no readable footer and properties.
    fn table(
        &mut self,
        family: &ManifestFamily,
        level: usize,
        file: &FileMetaData,
        of_tables: &mut operators::OfTables,
    ) -> Option<TableProperties> {
        let place = format!("family '{}', L{level}", family.name);
        let Some(path) = self.data_files.get(&(file.number.0, false)) else {
            let hint = match file.path_id {
                0 => String::new(),
                id => format!("; it is in path {id} of db_paths or cf_paths: name that with --path"),
            };
            self.damage.table(file.number, format!("{place}: {:06}.sst is missing{hint}", file.number));
            return None;
        };
        let bytes = self.files.get(path).map_or(0, |(_, _, bytes)| *bytes);
        if bytes != file.file_size {
            let (path, expected) = (path.display(), file.file_size);
            let what = format!("{place}: {path} has {bytes} bytes, the MANIFEST says {expected}");
            self.damage.table(file.number, what);
        }
        match read_table(self.sources.host, path, bytes) {
            Ok((format_version, properties)) => {
                of_tables.add(format_version, &properties);
                let is_ours = properties.user_collected_properties.contains_key(OLDER_VERSIONS.as_bytes());
                add(&mut self.info.creator.tables_of_esker, u64::from(is_ours));
                add(&mut self.info.creator.tables_of_others, u64::from(!is_ours));
                if !properties.db_host_id.is_empty() && self.hosts.len() < 2 * MOST_LISTED {
                    self.hosts.insert(properties.db_host_id.clone());
                }
                Some(properties)
            }
            Err(e) if e.kind() == ErrorKind::NotSupported => {
                self.info.notes.push(format!("{place}: {e}"));
                None
            }
            Err(e) => {
                self.damage.table(file.number, format!("{place}: {e}"));
                None
            }
        }
    }

    /// The size of a blob file. Records damage if it is missing or shorter than its records.
    fn blob_bytes(&mut self, number: FileNumber, record_bytes: u64) -> u64 {
        let path = self.data_files.get(&(number.0, true));
        let Some((path, (_, _, bytes))) = path.and_then(|path| self.files.get_key_value(path)) else {
            self.damage.blob_file(number, format!("{number:06}.blob is missing"));
            return 0;
        };
        if *bytes < record_bytes {
            let what = format!("{} has {bytes} bytes, its records alone {record_bytes}", path.display());
            self.damage.blob_file(number, what);
        }
        *bytes
    }

    /// Sums WALs, files that the MANIFEST does not name, and other files.
    fn add_files(&mut self, state: &ManifestState, manifest: FileNumber) {
        let totals = &mut self.info.totals;
        let named = NamedFiles::new(state);
        let mut wals = Vec::new();
        for (path, (kind, number, bytes)) in &self.files {
            match kind {
                FileType::Wal => {
                    add(&mut totals.wals, 1);
                    add(&mut totals.wal_bytes, *bytes);
                    wals.push(NamedSize { name: format!("{number:06}.log"), bytes: *bytes });
                }
                FileType::Table | FileType::Blob if !named.has(*kind, *number) => {
                    add(&mut totals.unnamed_files, 1);
                    add(&mut totals.unnamed_bytes, *bytes);
                    // The file may be one that the owner has made since the MANIFEST was read.
                }
                FileType::Table | FileType::Blob => {}
                FileType::Descriptor if *number != manifest => {
                    add(&mut totals.other_bytes, *bytes);
                    self.info.notes.push(format!("{} is not the current MANIFEST", path.display()));
                }
                _ => add(&mut totals.other_bytes, *bytes),
            }
        }
        keep_largest(&mut wals, |wal| wal.bytes);
        self.info.largest.wals = wals;
        let archive = self.wal_dir.join("archive");
        let archived = self.sources.host.fs().children(&archive).unwrap_or_default();
        for name in archived {
            if parse_file_name(&name).is_some_and(|(kind, _)| kind == FileType::Wal) {
                add(&mut totals.archived_wals, 1);
                let bytes = self.sources.host.fs().file_size(&archive.join(name));
                add(&mut totals.archived_wal_bytes, bytes.unwrap_or(0));
            }
        }
        self.check_identity(state);
    }

    /// Compares IDENTITY with the MANIFEST.
    fn check_identity(&mut self, state: &ManifestState) {
        let Some(db_id) = &state.db_id else { return };
        let path = file_name::identity_file_name(self.sources.dir);
        if !self.files.contains_key(&path) || self.sources.check_regular(&path).is_err() {
            return;
        }
        let Ok(mut lines) = FileLines::open(self.sources.host.fs(), &path) else { return };
        lines.limit(VERSION_LINE_BYTES);
        if let Ok(Some((_, identity))) = lines.next_line()
            && identity.trim_end() != db_id
        {
            self.info.notes.push(format!("IDENTITY says {identity}, the MANIFEST says {db_id}"));
        }
    }

    fn add_totals(&mut self) {
        let largest = &mut self.info.largest;
        keep_largest(&mut largest.tables, |table| table.bytes);
        let mut totals = std::mem::take(&mut self.info.totals);
        for family in &self.info.families {
            add_family(&mut totals, family);
            let bytes = family.table_bytes.saturating_add(family.blob_bytes);
            largest.families.push(NamedSize { name: family.name.clone(), bytes });
        }
        keep_largest(&mut largest.families, |family| family.bytes);
        self.info.totals = totals;
    }
}

fn add_family(totals: &mut TotalsInfo, family: &FamilyInfo) {
    add(&mut totals.families, 1);
    add(&mut totals.tables, family.tables);
    add(&mut totals.table_bytes, family.table_bytes);
    add(&mut totals.entries, family.entries);
    add(&mut totals.tombstones, family.tombstones);
    add(&mut totals.blob_files, family.blob_files);
    add(&mut totals.blob_bytes, family.blob_bytes);
    add(&mut totals.blob_garbage_bytes, family.blob_garbage_bytes);
}

/// Adds to a sum. The numbers of a forged file may be too large for it.
fn add(sum: &mut u64, value: u64) {
    *sum = sum.saturating_add(value);
}

/// The tables and blob files that a MANIFEST names.
pub(super) struct NamedFiles {
    tables: BTreeSet<FileNumber>,
    blob_files: BTreeSet<FileNumber>,
}

impl NamedFiles {
    pub(super) fn new(state: &ManifestState) -> NamedFiles {
        let families = || state.families.values();
        NamedFiles {
            tables: families().flat_map(|f| f.levels.values().flatten().map(|file| file.number)).collect(),
            blob_files: families().flat_map(|f| f.blob_files.keys().copied()).collect(),
        }
    }

    pub(super) fn has(&self, kind: FileType, number: FileNumber) -> bool {
        match kind {
            FileType::Blob => self.blob_files.contains(&number),
            _ => self.tables.contains(&number),
        }
    }
}

/// Keeps the largest files, largest first.
fn keep_largest<T>(files: &mut Vec<T>, bytes: impl Fn(&T) -> u64) {
    files.sort_by_key(|file| Reverse(bytes(file)));
    files.truncate(MOST_LISTED);
}

/// The newest OPTIONS file. A damaged one is damage; a missing one is not.
fn load_options(
    sources: &Sources<'_>,
    creator: &mut CreatorInfo,
    damage: &mut FoundDamage,
) -> Option<LoadedOptions> {
    let fs = sources.host.fs();
    let number = latest_options_file(fs, sources.dir).ok()??;
    let path = file_name::options_file_name(sources.dir, number);
    creator.options_file = Some(format!("OPTIONS-{number:06}"));
    let loaded = sources.host.check_regular(&path).and_then(|()| load_options_file(fs, &path));
    match loaded {
        Ok(loaded) => {
            creator.options_version.clone_from(&loaded.rocksdb_version);
            Some(loaded)
        }
        Err(e) => {
            damage.other(e.to_string());
            None
        }
    }
}

/// The first line of the LOG that names a version.
fn log_version(sources: &Sources<'_>) -> Option<String> {
    let path = file_name::info_log_file_name(sources.dir);
    sources.host.check_regular(&path).ok()?;
    let mut lines = FileLines::open(sources.host.fs(), &path).ok()?;
    lines.limit(VERSION_LINE_BYTES);
    for _ in 0..VERSION_LINES {
        let (_, line) = lines.next_line().ok()??;
        for name in ["Esker version:", "RocksDB version:"] {
            if let Some(at) = line.find(name).filter(|_| !line.contains("Compatible with")) {
                return line.get(at..).map(|text| text.trim_end().to_owned());
            }
        }
    }
    None
}

/// A table's format version and properties.
fn read_table(host: &Host, path: &Path, bytes: u64) -> Result<(u32, TableProperties)> {
    host.check_regular(path)?;
    let file = host.fs().new_random_access_file(path)?;
    let tail_bytes = bytes.min(FOOTER_BYTES as u64);
    let mut tail = vec![0; FOOTER_BYTES.min(bytes as usize)];
    let filled = file.read_at(bytes - tail_bytes, &mut tail)?;
    let footer = Footer::parse(&tail[..filled], bytes).map_err(|e| e.at(path.display()))?;
    Ok((footer.format_version, TableReader::properties_of(file, bytes)?))
}

/// The time of a table's creation, from the MANIFEST or its properties. Old releases know only the
/// time of its oldest data.
fn created(file: &FileMetaData, properties: Option<&TableProperties>) -> Option<u64> {
    let of_properties = properties.map(|p| [p.file_creation_time, p.creation_time]);
    let known = [file.file_creation_time].into_iter().chain(of_properties.into_iter().flatten());
    // RocksDB writes the greatest number for "unknown", too.
    known.into_iter().find(|time| *time > 0 && *time < u64::from(u32::MAX))
}

/// The smallest and the largest user key of a level, without their timestamps.
fn key_range<'a>(family: &ManifestFamily, files: &'a [FileMetaData]) -> Option<(&'a [u8], &'a [u8])> {
    let icmp = family.comparator().map(InternalKeyComparator::new);
    let compare = |a: &&[u8], b: &&[u8]| match &icmp {
        Some(icmp) => icmp.compare_user_keys(a, b),
        None => a.cmp(b),
    };
    let plain = |key: &'a [u8]| icmp.as_ref().map_or(key, |icmp| icmp.split_timestamp(key).0);
    let smallest = files.iter().map(|file| user_key(&file.smallest)).min_by(compare)?;
    let largest = files.iter().map(|file| user_key(&file.largest)).max_by(compare)?;
    Some((plain(smallest), plain(largest)))
}

/// Adds the targets of levels. A level with a target and no file is added, too.
fn add_targets(levels: &mut Vec<LevelInfo>, options: &esker::ColumnFamilyOptions) {
    let deepest = levels.iter().map(|level| level.level + 1).filter(|l| *l <= shape::MOST_LEVELS).max();
    let mut bytes = vec![0; deepest.unwrap_or(0)];
    for level in levels.iter() {
        if let Some(place) = bytes.get_mut(level.level) {
            *place = level.bytes;
        }
    }
    if bytes.iter().skip(1).all(|bytes| *bytes == 0) {
        return;
    }
    for (level, target) in shape::targets(&bytes, options).into_iter().enumerate() {
        let Some(target) = target else { continue };
        match levels.iter_mut().find(|l| l.level == level) {
            Some(found) => found.target_bytes = Some(target),
            // An empty level below all others says nothing about the present shape.
            None if level < bytes.len() => {
                let empty = LevelInfo { level, target_bytes: Some(target), ..LevelInfo::default() };
                levels.push(empty);
            }
            None => {}
        }
    }
    levels.sort_by_key(|level| level.level);
}
