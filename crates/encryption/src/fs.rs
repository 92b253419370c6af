//! The encrypting file system: selects the files to encrypt, and wraps their readers and writers.

use crate::file_key::{FileKey, Front, fill_random, read_header, wrap};
use crate::keys::{KEY_BYTES, KeyProvider, Keyring};
use crate::names::names_of_inner;
use crate::policy::{Class, EncryptionPolicy, is_wal};
use crate::reader::{FRONT, FramePlace, FrameReader, PAGE};
use crate::writer::{ContentBefore, EncryptedWritableFile, MakeHeader, WriterParts};
use esker_base::sync::{Arc, OnceLock};
use esker_base::{Error, Result};
use esker_env::{Directory, FileLock, FileSystem, RandomAccessFile, SequentialFile, WritableFile};
use esker_format::encryption::{EncryptedKind, PAGE_BYTES, encode_header};
use esker_format::file_name;
use std::fmt;
use std::path::{Path, PathBuf};

/// Number of bytes that a sequential reader asks the system to read ahead.
const AHEAD_BYTES: u64 = 512 << 10;

/// A file system that encrypts the files of another one.
///
/// Callers see sizes and offsets of the content, not of the encrypted file. Hard links and renames
/// keep a file's key. Files are not recycled. They have no descriptor
/// (`RandomAccessFile::descriptor`), so `read_many` carries out their reads one by one.
///
/// ```
/// use esker_encryption::{EncryptedFs, EncryptionPolicy, KeyCallback, MasterKey};
/// use esker_env::{FileSystem, MemFs};
/// use std::path::Path;
/// use std::sync::Arc;
///
/// let disk = Arc::new(MemFs::new());
/// let key = MasterKey::generate()?;
/// let provider = Arc::new(KeyCallback(move || Ok(vec![key.clone()])));
/// let fs = EncryptedFs::new(disk.clone(), provider, EncryptionPolicy::default())?;
/// let mut file = fs.new_writable_file(Path::new("/000012.sst"))?;
/// file.append(b"secret")?;
/// file.close()?;
/// assert_eq!(fs.file_size(Path::new("/000012.sst"))?, 6);
/// assert_eq!(disk.file_size(Path::new("/000012.sst"))?, 4096 + 6 + 32);
/// # Ok::<(), esker_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct EncryptedFs(Arc<Core>);

#[derive(Debug)]
struct Core {
    inner: Arc<dyn FileSystem>,
    keys: Arc<Keyring>,
    policy: EncryptionPolicy,
}

/// The form of a file's content: clear, or in frames.
enum Opened {
    /// The file is not encrypted.
    Clear,
    Frames(Box<FrameReader>),
}

/// The form of a file, read from its first page.
enum Probe {
    /// The file is still empty.
    Empty,
    Clear,
    Key([u8; KEY_BYTES], EncryptedKind),
}

impl EncryptedFs {
    /// A file system that encrypts the files of `inner` under the keys of `provider`.
    /// # Errors
    /// `InvalidArgument` if the provider has no key; the provider's error.
    pub fn new(
        inner: Arc<dyn FileSystem>,
        provider: Arc<dyn KeyProvider>,
        policy: EncryptionPolicy,
    ) -> Result<EncryptedFs> {
        Ok(EncryptedFs(Arc::new(Core { inner, keys: Arc::new(Keyring::new(provider)?), policy })))
    }

    /// Loads the provider's keys again. New files then use the provider's first key. Waits for
    /// headers that are being written under earlier keys.
    /// # Errors
    /// The provider's error. The keys are then unchanged.
    pub fn reload_keys(&self) -> Result<()> {
        self.0.keys.reload()?;
        self.0.keys.wait_for_headers();
        Ok(())
    }

    /// Whether the file `path` is encrypted. Reads the file's header.
    /// # Errors
    /// `IoError` · the errors of an open.
    pub fn is_encrypted(&self, path: &Path) -> Result<bool> {
        let file = self.0.inner.new_random_access_file(path)?;
        Ok(matches!(self.0.probe(&*file)?, Probe::Key(..)))
    }

    /// Checks that the keys can read the current MANIFEST in `dir`. Succeeds if there is no
    /// CURRENT.
    /// # Errors
    /// `InvalidArgument` naming the file, the name of its key and the names of the given keys ·
    /// `Corruption` if the MANIFEST is not encrypted.
    pub fn check_key(&self, dir: &Path) -> Result<()> {
        let current = file_name::current_file_name(dir);
        if !self.0.inner.file_exists(&current)? {
            return Ok(());
        }
        let mut contents = [0; 256];
        let read = self.new_sequential_file(&current)?.read(&mut contents)?;
        let Ok(number) = file_name::parse_current(&contents[..read]) else { return Ok(()) };
        let manifest = file_name::descriptor_file_name(dir, number);
        if !self.0.inner.file_exists(&manifest)? {
            return Ok(());
        }
        self.0.probe(&*self.0.inner.new_random_access_file(&manifest)?).map(drop)
    }

    fn with_inner(&self, inner: Arc<dyn FileSystem>) -> EncryptedFs {
        EncryptedFs(Arc::new(Core { inner, keys: self.0.keys.clone(), policy: self.0.policy }))
    }

    /// The underlying file system.
    pub(crate) fn inner(&self) -> &dyn FileSystem {
        &*self.0.inner
    }

    pub(crate) fn keys(&self) -> &Keyring {
        &self.0.keys
    }

    pub(crate) fn class(&self, path: &Path) -> Class {
        self.0.policy.class(path)
    }

    /// Makes a writer of a file that is empty, or that the caller overwrites.
    fn new_file(&self, path: &Path, inner: Box<dyn WritableFile>) -> Result<Box<dyn WritableFile>> {
        self.new_file_as(path, path, inner)
    }

    /// Does [`EncryptedFs::new_file`], but encrypts the file as if it had the path `name`.
    pub(crate) fn new_file_as(
        &self,
        path: &Path,
        name: &Path,
        inner: Box<dyn WritableFile>,
    ) -> Result<Box<dyn WritableFile>> {
        let kind = match self.class(name) {
            Class::Clear => return Ok(inner),
            Class::Encrypted(kind) => kind,
        };
        let mut key = [0; KEY_BYTES];
        fill_random(&mut key)?;
        let keys = self.0.keys.clone();
        let header: MakeHeader = Box::new(move |kind, put| {
            keys.with_current(|master| put(&encode_header(&wrap(master, kind, &key)?)))
        });
        self.writer(path, inner, (&key, kind), (Some(header), FRONT))
    }

    fn writer(
        &self,
        path: &Path,
        inner: Box<dyn WritableFile>,
        (key, kind): (&[u8; KEY_BYTES], EncryptedKind),
        (header, end): (Option<MakeHeader>, FramePlace),
    ) -> Result<Box<dyn WritableFile>> {
        let (fs, path, bytes) = (self.0.inner.clone(), path.to_owned(), *key);
        let place = path.clone();
        let content_before: ContentBefore = Box::new(move |kind, size| {
            FrameReader::new(fs.new_random_access_file(&place)?, FileKey::new(&bytes), kind)?.before(size)
        });
        let parts = WriterParts { inner, path, key: FileKey::new(key), kind, header, content_before, end };
        Ok(Box::new(EncryptedWritableFile::new(parts)?))
    }

    fn random_access(&self, inner: Arc<dyn RandomAccessFile>) -> Result<EncryptedRandomAccessFile> {
        let file = EncryptedRandomAccessFile { inner, core: self.0.clone(), opened: OnceLock::new() };
        file.opened()?;
        Ok(file)
    }
}

impl Core {
    /// Reads the first page of a file.
    fn probe(&self, file: &dyn RandomAccessFile) -> Result<Probe> {
        let path = file.path();
        let mut header = [0; PAGE_BYTES];
        let read = file.read_at(0, &mut header)?;
        if read == 0 {
            return Ok(Probe::Empty);
        }
        let has_magic = match read_header(&header[..read], &self.keys, path)? {
            Front::Key(key, kind) => return Ok(Probe::Key(key, kind)),
            Front::NoHeader { has_magic } => has_magic,
        };
        let accepts = self.policy.accept_plaintext || self.policy.class(path) == Class::Clear;
        if !has_magic && (accepts || self.is_converting(path)?) {
            return Ok(Probe::Clear);
        }
        // A log's header is synced before its first frame, so a log with a damaged header has no
        // frames.
        if is_wal(path) && file.size()? <= PAGE {
            return Ok(Probe::Empty);
        }
        Err(if has_magic { damaged_header(path) } else { not_encrypted(path) })
    }

    /// Whether the file's directory has the marker of a conversion, made from one of the keys. The
    /// marker stays until the conversion ends.
    fn is_converting(&self, path: &Path) -> Result<bool> {
        let marker = path.with_file_name(crate::CONVERSION_MARKER);
        if !self.inner.file_exists(&marker)? {
            return Ok(false);
        }
        let mut contents = [0; 2 * KEY_BYTES];
        let read = self.inner.new_sequential_file(&marker)?.read(&mut contents)?;
        Ok(self.keys.has_mark(&contents[..read]))
    }
}

#[cold]
fn damaged_header(path: &Path) -> Error {
    Error::corruption(format!("{}: both copies of the encryption header are damaged", path.display()))
}

#[cold]
fn not_encrypted(path: &Path) -> Error {
    let what = format!("{}: the file is not encrypted, and `accept_plaintext` is off", path.display());
    Error::corruption(what)
}

/// An encrypted file for reads at any offset.
struct EncryptedRandomAccessFile {
    inner: Arc<dyn RandomAccessFile>,
    core: Arc<Core>,
    /// The reader of the content. Set once the file is no longer empty.
    opened: OnceLock<Opened>,
}

impl fmt::Debug for EncryptedRandomAccessFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncryptedRandomAccessFile({})", self.inner.path().display())
    }
}

impl EncryptedRandomAccessFile {
    fn opened(&self) -> Result<Option<&Opened>> {
        if let Some(opened) = self.opened.get() {
            return Ok(Some(opened));
        }
        let opened = match self.core.probe(&*self.inner)? {
            Probe::Empty => return Ok(None),
            Probe::Clear => Opened::Clear,
            Probe::Key(key, kind) => {
                let frames = FrameReader::new(self.inner.clone(), FileKey::new(&key), kind)?;
                Opened::Frames(Box::new(frames))
            }
        };
        Ok(Some(self.opened.get_or_init(|| opened)))
    }

    fn is_clear(&self) -> bool {
        matches!(self.opened.get(), Some(Opened::Clear))
    }

    /// Estimates the range of the underlying file that has this content. The result is right if the
    /// writer never flushed. Callers pass it on as a hint.
    fn physical(&self, offset: u64, bytes: u64) -> (u64, u64) {
        if self.is_clear() {
            return (offset, bytes);
        }
        let content = esker_format::encryption::MOST_CONTENT as u64;
        let (first, last) = (offset / content, offset.saturating_add(bytes) / content);
        ((first + 1).saturating_mul(PAGE), (last - first + 1).saturating_mul(PAGE))
    }
}

impl RandomAccessFile for EncryptedRandomAccessFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match self.opened()? {
            None => Ok(0),
            Some(Opened::Clear) => self.inner.read_at(offset, buf),
            Some(Opened::Frames(frames)) => frames.read_at(offset, buf),
        }
    }

    fn never_waits(&self) -> bool {
        self.inner.never_waits()
    }

    fn prefetch(&self, offset: u64, bytes: u64) {
        let (offset, bytes) = self.physical(offset, bytes);
        self.inner.prefetch(offset, bytes);
    }

    fn read_anew(&self, offset: u64, bytes: u64) {
        let (offset, bytes) = self.physical(offset, bytes);
        self.inner.read_anew(offset, bytes);
    }

    fn size(&self) -> Result<u64> {
        match self.opened()? {
            None => Ok(0),
            Some(Opened::Clear) => self.inner.size(),
            Some(Opened::Frames(frames)) => frames.size(),
        }
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

/// An encrypted file for reads from front to back.
struct EncryptedSequentialFile {
    file: EncryptedRandomAccessFile,
    offset: u64,
    /// The offset in the content up to which readahead was requested.
    ahead: u64,
}

impl SequentialFile for EncryptedSequentialFile {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        if self.offset + buf.len() as u64 > self.ahead {
            self.ahead = self.offset.saturating_add(AHEAD_BYTES);
            self.file.prefetch(self.offset, AHEAD_BYTES);
        }
        let read = self.file.read_at(self.offset, buf)?;
        self.offset += read as u64;
        Ok(read)
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.offset = self.offset.saturating_add(bytes);
        Ok(())
    }
}

impl EncryptedFs {
    fn sequential(&self, inner: Arc<dyn RandomAccessFile>) -> Result<Box<dyn SequentialFile>> {
        let file = self.random_access(inner)?;
        Ok(Box::new(EncryptedSequentialFile { file, offset: 0, ahead: 0 }))
    }
}

impl FileSystem for EncryptedFs {
    names_of_inner!();
    fn new_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        self.sequential(self.0.inner.new_random_access_file(path)?)
    }
    fn new_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        Ok(Arc::new(self.random_access(self.0.inner.new_random_access_file(path)?)?))
    }
    fn new_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.new_file(path, self.0.inner.new_writable_file(path)?)
    }
    fn create_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.new_file(path, self.0.inner.create_writable_file(path)?)
    }
    fn reopen_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let inner = self.0.inner.reopen_writable_file(path)?;
        if inner.file_size() == 0 {
            return self.new_file(path, inner);
        }
        let file = self.0.inner.new_random_access_file(path)?;
        match self.0.probe(&*file)? {
            Probe::Clear => Ok(inner),
            Probe::Empty => self.new_file(path, inner),
            // A crash tore the header, so the file has no frames.
            Probe::Key(_, kind) if kind != EncryptedKind::Whole && inner.file_size() < PAGE => {
                self.new_file(path, inner)
            }
            Probe::Key(key, kind) => {
                let end = FrameReader::new(file, FileKey::new(&key), kind)?.find_end()?;
                self.writer(path, inner, (&key, kind), (None, end))
            }
        }
    }
    fn new_direct_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        self.sequential(self.0.inner.new_direct_random_access_file(path)?)
    }
    fn new_direct_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        Ok(Arc::new(self.random_access(self.0.inner.new_direct_random_access_file(path)?)?))
    }
    fn new_direct_writable_file(&self, path: &Path, buffer_bytes: usize) -> Result<Box<dyn WritableFile>> {
        self.new_file(path, self.0.inner.new_direct_writable_file(path, buffer_bytes)?)
    }
    fn create_direct_writable_file(&self, path: &Path, buffer_bytes: usize) -> Result<Box<dyn WritableFile>> {
        self.new_file(path, self.0.inner.create_direct_writable_file(path, buffer_bytes)?)
    }
    /// Makes a new file and deletes the old one, whose frames belong to another key. If a change of
    /// the master key has the old file open, it writes that key into no header that is in use.
    fn reuse_writable_file(&self, new: &Path, old: &Path) -> Result<Box<dyn WritableFile>> {
        self.0.inner.file_size(old)?;
        let file = self.new_writable_file(new)?;
        self.0.inner.delete_file(old)?;
        Ok(file)
    }
    fn file_size(&self, path: &Path) -> Result<u64> {
        match self.0.inner.file_size(path)? {
            0 => Ok(0),
            _ => self.random_access(self.0.inner.new_random_access_file(path)?)?.size(),
        }
    }
    /// Checks first that the keys can read the databases in these directories.
    fn hold_directories(&self, paths: &[&Path]) -> Result<Option<Arc<dyn FileSystem>>> {
        paths.iter().try_for_each(|dir| self.check_key(dir))?;
        let held = self.0.inner.hold_directories(paths)?;
        Ok(held.map(|inner| -> Arc<dyn FileSystem> { Arc::new(self.with_inner(inner)) }))
    }
    /// Cuts the content to `size` bytes. If the cut splits a frame, a crash before the next sync
    /// may also lose that frame's content before the cut. A crash before the new end mark makes a
    /// file unreadable that is no log.
    fn truncate(&self, path: &Path, size: u64) -> Result<()> {
        // Fails if the file is missing. The reopen below would create it.
        self.0.inner.file_size(path).map_err(|e| e.at("truncate"))?;
        let mut file = self.reopen_writable_file(path)?;
        file.truncate(size)?;
        file.close()
    }
}
