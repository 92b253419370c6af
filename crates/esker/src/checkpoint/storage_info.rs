//! The files that a copy of the database needs, for callers that copy them themselves.
//!
//! In: an open database. Out: tables, blob files, MANIFEST, CURRENT, OPTIONS and WALs, with the
//! bytes of each that belong to one point in time.
//!
//! Source: RocksDB `DBImpl::GetLiveFilesStorageInfo`.

use super::KeepFiles;
use crate::db::{Db, LiveCut};
use crate::observe::{FileType, LiveFileStorageInfo};
use crate::options::{LiveFilesStorageInfoOptions, Temperature};
use esker_base::{FileNumber, Result};
use esker_format::file_name;
use std::path::Path;

impl Db {
    /// Lists the files to copy for one point in time of all families. Call
    /// [`Db::disable_file_deletions`] first, and [`Db::enable_file_deletions`] after the copy.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::options::LiveFilesStorageInfoOptions;
    ///
    /// db.put("esker", "gravel")?;
    /// db.disable_file_deletions();
    /// for file in db.live_files_storage_info(&LiveFilesStorageInfoOptions::default())? {
    ///     println!("{} bytes of {}", file.size, file.relative_filename);
    /// }
    /// db.enable_file_deletions()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `NotSupported` when read-only · `ShutdownInProgress` · the background error in force · the
    /// flush's error · `IoError`.
    pub fn live_files_storage_info(
        &self,
        options: &LiveFilesStorageInfoOptions,
    ) -> Result<Vec<LiveFileStorageInfo>> {
        let _undeletable = KeepFiles::new(self)?;
        let cut = self.live_cut(options.wal_size_for_flush)?;
        let unknown = || options.include_checksum_info.then(|| (Vec::new(), "Unknown".to_owned()));
        let plain = |path: &Path, file_type, file_number, size| LiveFileStorageInfo {
            relative_filename: name_of(path),
            directory: path.parent().unwrap_or(path).to_owned(),
            file_number,
            file_type,
            size,
            file_checksum: unknown(),
            replacement_contents: Vec::new(),
            trim_to_size: false,
            temperature: Temperature::Unknown,
        };
        let mut files = Vec::new();
        let tables = cut.tables.iter().map(|path| (path, FileType::Table));
        for (path, file_type) in tables.chain(cut.blobs.iter().map(|path| (path, FileType::Blob))) {
            let number = number_of(path);
            let mut file = plain(path, file_type, number, cut.sizes.get(&number).copied().unwrap_or(0));
            if let (Some(known), Some(checksum)) = (cut.checksums.get(&number), &mut file.file_checksum) {
                checksum.clone_from(known);
            }
            file.temperature = cut.temperatures.get(&number).copied().unwrap_or_default();
            files.push(file);
        }
        let (manifest, bytes) = cut.manifest;
        let path = file_name::descriptor_file_name(&cut.path, manifest);
        files.push(plain(&path, FileType::Descriptor, manifest, bytes).growing());
        let contents = file_name::current_contents(manifest).into_bytes();
        let path = file_name::current_file_name(&cut.path);
        let current = plain(&path, FileType::Current, FileNumber(0), contents.len() as u64);
        files.push(LiveFileStorageInfo { replacement_contents: contents, ..current });
        if let Some((number, size)) = self.newest_options_file(&cut)? {
            let path = file_name::options_file_name(&cut.path, number);
            files.push(plain(&path, FileType::Options, number, size));
        }
        let wals = cut.wals.iter();
        files.extend(wals.map(|(path, bytes)| plain(path, FileType::Wal, number_of(path), *bytes).growing()));
        Ok(files)
    }

    fn newest_options_file(&self, cut: &LiveCut) -> Result<Option<(FileNumber, u64)>> {
        let fs = self.engine().fs();
        let names = fs.children(&cut.path)?;
        let files = names.iter().filter_map(|name| file_name::parse_file_name(name));
        let options = files.filter(|(file_type, _)| *file_type == FileType::Options);
        let Some(newest) = options.map(|(_, number)| number).max() else { return Ok(None) };
        let size = fs.file_size(&file_name::options_file_name(&cut.path, newest))?;
        Ok(Some((newest, size)))
    }
}

impl LiveFileStorageInfo {
    /// Marks the file as one that may grow: a copy takes only the given bytes.
    fn growing(self) -> LiveFileStorageInfo {
        LiveFileStorageInfo { trim_to_size: true, ..self }
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The number in the name of a table, blob file or WAL.
fn number_of(path: &Path) -> FileNumber {
    file_name::parse_file_name(&name_of(path)).map_or(FileNumber(0), |(_, number)| number)
}
