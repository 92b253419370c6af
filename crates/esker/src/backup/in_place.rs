//! A backup as it lies: its files by name, and a file system by which it opens as a database.
//!
//! In: a backup. Out: [`BackupInfo::file_details`], and an environment in which the backup's
//! private directory has the shared files, too, under their names in the database. Nothing can be
//! changed through it. Source of the idea: RocksDB `env/fs_remap.cc`.

use super::meta::BackupMeta;
use super::restore::restored_name;
use super::{BackupEngine, BackupInfo, PRIVATE};
use crate::observe::{LiveFileStorageInfo, Temperature};
use crate::options::FileChecksumGenCrc32cFactory;
use esker_base::sync::Arc;
use esker_base::{Error, FileNumber, Result};
use esker_env::{Directory, Env, FileLock, FileSystem, RandomAccessFile, SequentialFile, WritableFile};
use esker_format::file_name::{FileType, parse_file_name};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

impl BackupEngine {
    /// Backup `id` with its `file_details`. Costs a step for each file.
    /// # Errors
    /// `NotFound` · the error of a backup that cannot be restored.
    pub fn backup_info(&self, id: u32) -> Result<BackupInfo> {
        let meta = self.get(id)?;
        let detail = |file: &super::BackupFile| {
            let name = restored_name(&file.name);
            let (file_type, file_number) =
                parse_file_name(&name).unwrap_or((FileType::Current, FileNumber(0)));
            LiveFileStorageInfo {
                relative_filename: file.name.clone(),
                directory: self.dir.clone(),
                file_number,
                file_type,
                size: file.bytes,
                file_checksum: Some((
                    file.crc.to_be_bytes().to_vec(),
                    FileChecksumGenCrc32cFactory::FUNCTION.to_owned(),
                )),
                replacement_contents: Vec::new(),
                trim_to_size: false,
                temperature: Temperature::Unknown,
            }
        };
        let file_details = meta.files.iter().map(detail).collect();
        Ok(BackupInfo { file_details, ..self.describe(id, meta) })
    }

    /// An environment in which backup `id` opens for reading only, in place and uncopied, at
    /// [`BackupInfo::name_for_open`]. It has the clock and the threads of the engine. The backup
    /// must not be deleted before the database is closed.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.join("db"))?;
    /// use esker::{BackupEngine, BackupEngineOptions, Db, Options};
    ///
    /// db.put("esker", "gravel")?;
    /// let mut backups = BackupEngine::open(&BackupEngineOptions::new(dir.join("backups")))?;
    /// let id = backups.create_new_backup(&db, true)?;
    /// db.delete("esker")?;
    ///
    /// let mut options = Options::default();
    /// options.db.env = backups.env_for_open(id)?;
    /// let backup = Db::open_for_read_only(&options, backups.backup_info(id)?.name_for_open)?;
    /// assert!(backup.contains_key("esker")?);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `NotFound` · the error of a backup that cannot be restored · `NotSupported`: the backup
    /// leaves out files, which only a restore can find.
    pub fn env_for_open(&self, id: u32) -> Result<Env> {
        let meta = self.get(id)?;
        if let Some(name) = meta.excluded.first() {
            return Err(Error::not_supported(format!("backup {id} opens in place: it lacks {name}")));
        }
        let fs = BackupFileSystem::new(self.env.fs.clone(), &self.dir, self.private_dir(id), meta);
        Ok(Env { fs: Arc::new(fs), ..self.env.clone() })
    }
}

/// See the head of the file.
struct BackupFileSystem {
    inner: Arc<dyn FileSystem>,
    private: PathBuf,
    /// The shared files, by their names in the database.
    shared: HashMap<String, PathBuf>,
}

impl fmt::Debug for BackupFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackupFileSystem({})", self.private.display())
    }
}

impl BackupFileSystem {
    fn new(inner: Arc<dyn FileSystem>, dir: &Path, private: PathBuf, meta: &BackupMeta) -> BackupFileSystem {
        let shared = meta.files.iter().filter(|file| !file.name.starts_with(PRIVATE));
        let shared = shared.map(|file| (restored_name(&file.name), dir.join(&file.name))).collect();
        BackupFileSystem { inner, private, shared }
    }

    /// The path of the file that stands for this one.
    fn place<'p>(&'p self, path: &'p Path) -> Cow<'p, Path> {
        let name = path.strip_prefix(&self.private).ok().and_then(Path::to_str);
        match name.and_then(|name| self.shared.get(name)) {
            Some(shared) => Cow::Borrowed(shared),
            None => Cow::Borrowed(path),
        }
    }
}

fn refused<T>(path: &Path) -> Result<T> {
    Err(Error::not_supported("a backup that is open in place cannot be changed").at(path.display()))
}

impl FileSystem for BackupFileSystem {
    fn new_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        self.inner.new_sequential_file(&self.place(path))
    }
    fn new_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.inner.new_random_access_file(&self.place(path))
    }
    fn new_direct_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        self.inner.new_direct_sequential_file(&self.place(path))
    }
    fn new_direct_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.inner.new_direct_random_access_file(&self.place(path))
    }
    fn new_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        refused(path)
    }
    fn reopen_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        refused(path)
    }
    fn reuse_writable_file(&self, new: &Path, _old: &Path) -> Result<Box<dyn WritableFile>> {
        refused(new)
    }
    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        self.inner.new_directory(path)
    }
    fn file_exists(&self, path: &Path) -> Result<bool> {
        self.inner.file_exists(&self.place(path))
    }
    fn children(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = self.inner.children(dir)?;
        if dir == self.private {
            names.extend(self.shared.keys().cloned());
        }
        Ok(names)
    }
    fn delete_file(&self, path: &Path) -> Result<()> {
        refused(path)
    }
    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        if self.inner.file_exists(path)? { Ok(()) } else { refused(path) }
    }
    fn delete_dir(&self, path: &Path) -> Result<()> {
        refused(path)
    }
    fn file_size(&self, path: &Path) -> Result<u64> {
        self.inner.file_size(&self.place(path))
    }
    fn link_count(&self, path: &Path) -> Result<u64> {
        self.inner.link_count(&self.place(path))
    }
    fn modification_time(&self, path: &Path) -> Result<u64> {
        self.inner.modification_time(&self.place(path))
    }
    fn rename(&self, from: &Path, _to: &Path) -> Result<()> {
        refused(from)
    }
    /// A link of a file of the backup elsewhere, as a checkpoint makes it.
    fn link_file(&self, existing: &Path, new: &Path) -> Result<()> {
        if new.starts_with(&self.private) {
            return refused(new);
        }
        self.inner.link_file(&self.place(existing), new)
    }
    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        refused(path)
    }
    fn absolute_path(&self, path: &Path) -> Result<PathBuf> {
        self.inner.absolute_path(path)
    }
    fn free_space(&self, path: &Path) -> Result<u64> {
        self.inner.free_space(path)
    }
    fn truncate(&self, path: &Path, _size: u64) -> Result<()> {
        refused(path)
    }
}
