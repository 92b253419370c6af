//! Reads and writes files of RocksDB's `EncryptedEnv` with its CTR provider.
//!
//! In: a file system with such files, and the block cipher of the program that wrote them. Out: the
//! content of the files, and new files that the program can read. Source: RocksDB
//! `env/env_encryption.cc`, checked with RocksDB's tool `ldb`.
//!
//! ```text
//! file   := prefix:4096 content
//! prefix := counter:u64 at 0, initialization vector (IV) at the second block, otherwise any bytes
//! key stream block i := cipher(IV with counter + i as its first 8 bytes)
//! ```
//!
//! Content offset `x` is file offset `4096 + x`. Blocks are counted from the front of the file. All
//! files are encrypted, `CURRENT` and the LOG too. A file of 0 bytes, without a prefix, has no
//! content.
//!
//! This layout does not authenticate: a read of changed bytes returns other content, not an error.
//! An append after a truncation uses a part of the key stream twice. For new databases use
//! [`EncryptedFs`](crate::EncryptedFs).

use crate::file_key::fill_random;
use crate::names::names_of_inner;
use esker_base::sync::{Arc, OnceLock};
use esker_base::{Error, Result, perf_time};
use esker_env::{
    Clock, Directory, FileLock, FileSystem, RandomAccessFile, SequentialFile, SystemClock, WritableFile,
    WriteLifeTimeHint,
};
use std::fmt;
use std::path::{Path, PathBuf};

/// Bytes before the content.
const PREFIX_BYTES: usize = 4096;
const PREFIX: u64 = PREFIX_BYTES as u64;

/// A block cipher: RocksDB's `BlockCipher`.
pub trait BlockCipher: Send + Sync + fmt::Debug {
    /// Number of bytes of a block: 8 to 2048. The same at each call.
    fn block_bytes(&self) -> usize;
    /// Encrypts a block in place.
    fn encrypt(&self, block: &mut [u8]);
}

/// RocksDB's example cipher, which adds 13 to each byte. For tests: it protects nothing.
#[derive(Clone, Copy, Debug)]
pub struct Rot13 {
    /// Number of bytes of a block. RocksDB's default is 32.
    pub block_bytes: usize,
}

impl BlockCipher for Rot13 {
    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn encrypt(&self, block: &mut [u8]) {
        block.iter_mut().for_each(|byte| *byte = byte.wrapping_add(13));
    }
}

/// The key stream of a file, from its prefix and the cipher.
#[derive(Clone)]
struct KeyStream {
    cipher: Arc<dyn BlockCipher>,
    counter: u64,
    vector: Vec<u8>,
}

impl KeyStream {
    fn new(cipher: &Arc<dyn BlockCipher>, prefix: &[u8; PREFIX_BYTES]) -> KeyStream {
        let block = cipher.block_bytes();
        let counter = u64::from_le_bytes(*prefix.first_chunk().expect("a prefix has 8 bytes"));
        KeyStream { cipher: cipher.clone(), counter, vector: prefix[block..2 * block].to_vec() }
    }

    /// Encrypts or decrypts the content at `offset`.
    fn apply(&self, offset: u64, content: &mut [u8]) {
        let size = self.vector.len();
        let mut at = PREFIX.saturating_add(offset);
        let mut block = vec![0; size];
        let mut rest = content;
        while !rest.is_empty() {
            let (number, within) = (at / size as u64, (at % size as u64) as usize);
            block.copy_from_slice(&self.vector);
            block[..8].copy_from_slice(&self.counter.wrapping_add(number).to_le_bytes());
            self.cipher.encrypt(&mut block);
            let (now, later) = rest.split_at_mut(rest.len().min(size - within));
            now.iter_mut().zip(&block[within..]).for_each(|(byte, key)| *byte ^= key);
            at = at.saturating_add(now.len() as u64);
            rest = later;
        }
    }
}

/// A file system over files of RocksDB's `EncryptedEnv`.
#[derive(Clone, Debug)]
pub struct CtrFs {
    inner: Arc<dyn FileSystem>,
    cipher: Arc<dyn BlockCipher>,
}

impl CtrFs {
    /// A file system that decrypts and encrypts the files of `inner` with this cipher.
    /// # Errors
    /// `InvalidArgument` if a block of the cipher has less than 8 or more than 2048 bytes.
    pub fn new(inner: Arc<dyn FileSystem>, cipher: Arc<dyn BlockCipher>) -> Result<CtrFs> {
        let bytes = cipher.block_bytes();
        if !(8..=PREFIX_BYTES / 2).contains(&bytes) {
            let what = format!("a cipher's block has 8 to {} bytes, not {bytes}", PREFIX_BYTES / 2);
            return Err(Error::invalid_argument(what));
        }
        Ok(CtrFs { inner, cipher })
    }

    fn inner(&self) -> &dyn FileSystem {
        &*self.inner
    }

    /// Reads a file's prefix and makes its key stream. `None` while the file has no whole prefix.
    fn stream(&self, file: &dyn RandomAccessFile) -> Result<Option<KeyStream>> {
        let mut prefix = [0; PREFIX_BYTES];
        let read = file.read_at(0, &mut prefix)?;
        Ok((read == PREFIX_BYTES).then(|| KeyStream::new(&self.cipher, &prefix)))
    }

    fn random_access(&self, inner: Arc<dyn RandomAccessFile>) -> CtrRandomAccessFile {
        CtrRandomAccessFile { inner, fs: self.clone(), stream: OnceLock::new() }
    }

    fn sequential(&self, inner: Arc<dyn RandomAccessFile>) -> Box<dyn SequentialFile> {
        Box::new(CtrSequentialFile { file: self.random_access(inner), offset: 0 })
    }

    /// Makes a writer of an empty file. Draws a random prefix.
    fn new_file(&self, mut inner: Box<dyn WritableFile>) -> Result<Box<dyn WritableFile>> {
        let mut prefix = [0; PREFIX_BYTES];
        fill_random(&mut prefix)?;
        inner.append(&prefix)?;
        let stream = KeyStream::new(&self.cipher, &prefix);
        Ok(Box::new(CtrWritableFile { inner, stream, encrypted: Vec::new(), in_place: false }))
    }
}

struct CtrRandomAccessFile {
    inner: Arc<dyn RandomAccessFile>,
    fs: CtrFs,
    stream: OnceLock<KeyStream>,
}

impl fmt::Debug for CtrRandomAccessFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CtrRandomAccessFile({})", self.inner.path().display())
    }
}

impl RandomAccessFile for CtrRandomAccessFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let stream = match self.stream.get() {
            Some(stream) => stream,
            None => match self.fs.stream(&*self.inner)? {
                Some(stream) => self.stream.get_or_init(|| stream),
                None => return Ok(0),
            },
        };
        let read = self.inner.read_at(PREFIX.saturating_add(offset), buf)?;
        perf_time!(decrypt_data_nanos, SystemClock, stream.apply(offset, &mut buf[..read]));
        Ok(read)
    }
    fn never_waits(&self) -> bool {
        self.inner.never_waits()
    }
    fn prefetch(&self, offset: u64, bytes: u64) {
        self.inner.prefetch(PREFIX.saturating_add(offset), bytes);
    }
    fn read_anew(&self, offset: u64, bytes: u64) {
        self.inner.read_anew(PREFIX.saturating_add(offset), bytes);
    }
    fn size(&self) -> Result<u64> {
        Ok(self.inner.size()?.saturating_sub(PREFIX))
    }
    fn path(&self) -> &Path {
        self.inner.path()
    }
}

struct CtrSequentialFile {
    file: CtrRandomAccessFile,
    offset: u64,
}

impl SequentialFile for CtrSequentialFile {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let read = self.file.read_at(self.offset, buf)?;
        self.offset += read as u64;
        Ok(read)
    }
    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.offset = self.offset.saturating_add(bytes);
        Ok(())
    }
}

struct CtrWritableFile {
    inner: Box<dyn WritableFile>,
    stream: KeyStream,
    /// Memory for the encrypted bytes of an append.
    encrypted: Vec<u8>,
    /// Whether each append is flushed. A call of `append_in_place` sets this. The inner file must
    /// not append in place: zeros that it leaves behind its end would decrypt to other bytes.
    in_place: bool,
}

impl WritableFile for CtrWritableFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.encrypted.clear();
        self.encrypted.extend_from_slice(data);
        let offset = self.file_size();
        perf_time!(encrypt_data_nanos, SystemClock, self.stream.apply(offset, &mut self.encrypted));
        self.inner.append(&self.encrypted)?;
        if self.in_place { self.inner.flush() } else { Ok(()) }
    }
    fn set_write_life_time_hint(&mut self, hint: WriteLifeTimeHint) {
        self.inner.set_write_life_time_hint(hint);
    }
    fn append_in_place(&mut self, _block: u64) -> Result<()> {
        self.in_place = true;
        self.inner.flush()
    }
    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }
    fn sync(&mut self) -> Result<()> {
        self.inner.sync()
    }
    fn fsync(&mut self) -> Result<()> {
        self.inner.fsync()
    }
    fn range_sync(&mut self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.range_sync(PREFIX.saturating_add(offset), bytes)
    }
    fn preallocate(&mut self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.preallocate(PREFIX.saturating_add(offset), bytes)
    }
    fn truncate(&mut self, size: u64) -> Result<()> {
        let zeros = size.saturating_sub(self.file_size());
        self.inner.truncate(PREFIX.saturating_add(size - zeros))?;
        self.append(&vec![0; usize::try_from(zeros).unwrap_or(usize::MAX)])
    }
    fn close(&mut self) -> Result<()> {
        self.inner.close()
    }
    fn file_size(&self) -> u64 {
        self.inner.file_size().saturating_sub(PREFIX)
    }
}

impl FileSystem for CtrFs {
    names_of_inner!();
    fn new_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        Ok(self.sequential(self.inner.new_random_access_file(path)?))
    }
    fn new_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        Ok(Arc::new(self.random_access(self.inner.new_random_access_file(path)?)))
    }
    fn new_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.new_file(self.inner.new_writable_file(path)?)
    }
    fn create_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.new_file(self.inner.create_writable_file(path)?)
    }
    fn reopen_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let mut inner = self.inner.reopen_writable_file(path)?;
        match self.stream(&*self.inner.new_random_access_file(path)?)? {
            Some(stream) => {
                Ok(Box::new(CtrWritableFile { inner, stream, encrypted: Vec::new(), in_place: false }))
            }
            None => {
                inner.truncate(0)?;
                self.new_file(inner)
            }
        }
    }
    fn new_direct_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        Ok(self.sequential(self.inner.new_direct_random_access_file(path)?))
    }
    fn new_direct_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        Ok(Arc::new(self.random_access(self.inner.new_direct_random_access_file(path)?)))
    }
    fn new_direct_writable_file(&self, path: &Path, buffer_bytes: usize) -> Result<Box<dyn WritableFile>> {
        self.new_file(self.inner.new_direct_writable_file(path, buffer_bytes)?)
    }
    fn create_direct_writable_file(&self, path: &Path, buffer_bytes: usize) -> Result<Box<dyn WritableFile>> {
        self.new_file(self.inner.create_direct_writable_file(path, buffer_bytes)?)
    }
    /// Empties the file, so that it gets a new key stream and keeps no old bytes.
    fn reuse_writable_file(&self, new: &Path, old: &Path) -> Result<Box<dyn WritableFile>> {
        let mut inner = self.inner.reuse_writable_file(new, old)?;
        inner.truncate(0)?;
        self.new_file(inner)
    }
    fn file_size(&self, path: &Path) -> Result<u64> {
        Ok(self.inner.file_size(path)?.saturating_sub(PREFIX))
    }
    fn hold_directories(&self, paths: &[&Path]) -> Result<Option<Arc<dyn FileSystem>>> {
        let held = self.inner.hold_directories(paths)?;
        let over = |inner| -> Arc<dyn FileSystem> { Arc::new(CtrFs { inner, cipher: self.cipher.clone() }) };
        Ok(held.map(over))
    }
    fn truncate(&self, path: &Path, size: u64) -> Result<()> {
        // Fails if the file is missing. The reopen below would create it.
        self.inner.file_size(path).map_err(|e| e.at("truncate"))?;
        let mut file = self.reopen_writable_file(path)?;
        file.truncate(size)?;
        file.close()
    }
}
