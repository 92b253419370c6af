//! A file system that counts its operations, and reports them: to a sink, for I/O traces, and to an
//! observer, for listeners.
//!
//! In: a file system, and the operations on it. Out: the same operations; their bytes and times in
//! the thread's `IoStatsContext` and `PerfContext`; a report of each, while there is a sink or an
//! observer. Names of operations are those of RocksDB's functions.
//!
//! Cost without both, and without times: a relaxed load, a call through a pointer, and an addition
//! and a comparison of thread-local numbers for each operation.

use crate::clock::Clock;
use crate::direct::Alignment;
use crate::fs::{
    Directory, FileLock, FileSystem, RandomAccessFile, SequentialFile, WritableFile, WriteLifeTimeHint,
};
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::{Error, Result, iostats_add, iostats_time, perf_time};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// RocksDB's name for a new file in the place of an old one.
const REUSE: &str = "ReuseWritableFile";

/// One operation that has ended.
#[derive(Clone, Copy, Debug)]
pub struct IoOperation<'a> {
    /// Microseconds since 1970 at which it began.
    pub began_at: u64,
    /// Its name.
    pub operation: &'a str,
    /// Duration of the operation in nanoseconds.
    pub nanos: u64,
    /// The error of the operation.
    pub error: Option<&'a Error>,
    /// The file.
    pub path: &'a Path,
    /// Bytes of the file.
    pub file_size: Option<u64>,
    /// Bytes that were read or written; after an error, those that were to be written.
    pub len: Option<u64>,
    /// The place in the file.
    pub offset: Option<u64>,
}

/// Takes operations. Called under a lock, from any thread.
pub trait IoSink: Send {
    /// Adds one operation.
    fn add(&mut self, operation: &IoOperation<'_>);
    /// Records that no operation follows.
    /// # Errors
    /// The first error of the sink.
    fn finish(&mut self) -> Result<()>;
}

/// Sees each operation as it ends, on the thread that made it. The thread may hold locks.
pub type IoObserver = Box<dyn Fn(&IoOperation<'_>) + Send + Sync>;

/// Hands operations to a sink, while there is one, and to an observer.
pub struct IoTracer {
    is_on: AtomicBool,
    observer: Option<IoObserver>,
    sink: Mutex<Option<Box<dyn IoSink>>>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for IoTracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoTracer").field("is_on", &self.is_on).finish_non_exhaustive()
    }
}

/// The facts about an operation besides its time and result.
#[derive(Default)]
struct Facts {
    file_size: Option<u64>,
    len: Option<u64>,
    offset: Option<u64>,
}

impl IoTracer {
    /// Makes a tracer without a sink.
    pub fn new(clock: Arc<dyn Clock>, observer: Option<IoObserver>) -> Arc<IoTracer> {
        let is_on = AtomicBool::new(observer.is_some());
        Arc::new(IoTracer { is_on, observer, sink: Mutex::new(None), clock })
    }

    /// Begins with this sink. False, and nothing is changed, if there is one already.
    pub fn begin(&self, sink: Box<dyn IoSink>) -> bool {
        let mut place = self.sink.lock();
        if place.is_some() {
            return false;
        }
        *place = Some(sink);
        self.is_on.store(true, Ordering::Relaxed);
        true
    }

    /// Ends, if there is a sink.
    /// # Errors
    /// The first error of the sink.
    pub fn end(&self) -> Result<()> {
        self.is_on.store(self.observer.is_some(), Ordering::Relaxed);
        self.sink.lock().take().map_or(Ok(()), |mut sink| sink.finish())
    }

    #[inline]
    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    #[cold]
    fn report<T>(
        &self,
        operation: &str,
        path: &Path,
        call: impl FnOnce() -> Result<T>,
        facts: impl FnOnce(Option<&T>) -> Facts,
    ) -> Result<T> {
        let (began_at, start) = (self.clock.now_micros(), self.clock.monotonic_nanos());
        let result = call();
        let nanos = self.clock.monotonic_nanos().saturating_sub(start);
        let Facts { file_size, len, offset } = facts(result.as_ref().ok());
        let error = result.as_ref().err();
        let done = IoOperation { began_at, operation, nanos, error, path, file_size, len, offset };
        if let Some(observer) = &self.observer {
            observer(&done);
        }
        if let Some(sink) = self.sink.lock().as_mut() {
            sink.add(&done);
        }
        result
    }

    /// Counts the bytes and the time of a read.
    #[inline]
    fn count_read(&self, read: impl FnOnce() -> Result<usize>) -> Result<usize> {
        let read = iostats_time!(read_nanos, cpu_read_nanos, self.clock, read());
        iostats_add!(bytes_read, read.as_ref().map_or(0, |bytes| *bytes as u64));
        read
    }

    /// Counts the time of an open for reading at random, and opens.
    fn open_random_access<T>(&self, path: &Path, open: impl FnOnce() -> Result<T>) -> Result<T> {
        perf_time!(
            env_new_random_access_file_nanos,
            self.clock,
            iostats_time!(open_nanos, self.clock, self.trace("NewRandomAccessFile", path, open))
        )
    }

    /// Counts the time of an open for reading in order, and opens.
    fn open_sequential<T>(&self, path: &Path, open: impl FnOnce() -> Result<T>) -> Result<T> {
        perf_time!(
            env_new_sequential_file_nanos,
            self.clock,
            iostats_time!(open_nanos, self.clock, self.trace("NewSequentialFile", path, open))
        )
    }

    #[inline]
    fn trace<T>(&self, operation: &str, path: &Path, call: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.is_on() { self.report(operation, path, call, |_| Facts::default()) } else { call() }
    }
}

/// A file system whose operations are reported.
#[derive(Debug)]
pub struct TracedFileSystem {
    inner: Arc<dyn FileSystem>,
    tracer: Arc<IoTracer>,
}

impl TracedFileSystem {
    /// Reports the operations on `inner` to `tracer`.
    pub fn new(inner: Arc<dyn FileSystem>, tracer: Arc<IoTracer>) -> TracedFileSystem {
        TracedFileSystem { inner, tracer }
    }

    fn sequential(&self, path: &Path, file: Box<dyn SequentialFile>) -> Box<dyn SequentialFile> {
        Box::new(TracedSequentialFile { inner: file, path: path.to_owned(), tracer: self.tracer.clone() })
    }

    fn random_access(&self, file: Arc<dyn RandomAccessFile>) -> Arc<dyn RandomAccessFile> {
        Arc::new(TracedRandomAccessFile { inner: file, tracer: self.tracer.clone() })
    }

    fn writable(
        &self,
        operation: &str,
        path: &Path,
        make: impl FnOnce() -> Result<Box<dyn WritableFile>>,
    ) -> Result<Box<dyn WritableFile>> {
        let tracer = &self.tracer;
        let make = || iostats_time!(open_nanos, tracer.clock, tracer.trace(operation, path, make));
        let inner = if operation == REUSE {
            perf_time!(env_reuse_writable_file_nanos, tracer.clock, make())
        } else {
            perf_time!(env_new_writable_file_nanos, tracer.clock, make())
        }?;
        Ok(Box::new(TracedWritableFile { inner, path: path.to_owned(), tracer: self.tracer.clone() }))
    }
}

impl FileSystem for TracedFileSystem {
    fn new_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let file = self.tracer.open_sequential(path, || self.inner.new_sequential_file(path))?;
        Ok(self.sequential(path, file))
    }
    fn new_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let file = self.tracer.open_random_access(path, || self.inner.new_random_access_file(path))?;
        Ok(self.random_access(file))
    }
    fn new_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.writable("NewWritableFile", path, || self.inner.new_writable_file(path))
    }
    fn create_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.writable("NewWritableFile", path, || self.inner.create_writable_file(path))
    }
    fn reopen_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.writable("ReopenWritableFile", path, || self.inner.reopen_writable_file(path))
    }
    fn new_direct_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let make = || self.inner.new_direct_sequential_file(path);
        Ok(self.sequential(path, self.tracer.open_sequential(path, make)?))
    }
    fn new_direct_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let make = || self.inner.new_direct_random_access_file(path);
        Ok(self.random_access(self.tracer.open_random_access(path, make)?))
    }
    fn new_direct_writable_file(&self, path: &Path, buffer_bytes: usize) -> Result<Box<dyn WritableFile>> {
        self.writable("NewWritableFile", path, || self.inner.new_direct_writable_file(path, buffer_bytes))
    }
    fn create_direct_writable_file(&self, path: &Path, buffer_bytes: usize) -> Result<Box<dyn WritableFile>> {
        self.writable("NewWritableFile", path, || self.inner.create_direct_writable_file(path, buffer_bytes))
    }
    fn reuse_writable_file(&self, new: &Path, old: &Path) -> Result<Box<dyn WritableFile>> {
        self.writable(REUSE, new, || self.inner.reuse_writable_file(new, old))
    }
    fn overwrite_file(&self, path: &Path, offset: u64) -> Result<Box<dyn WritableFile>> {
        self.writable("OverwriteFile", path, || self.inner.overwrite_file(path, offset))
    }
    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        perf_time!(env_new_directory_nanos, self.tracer.clock, self.inner.new_directory(path))
    }
    fn file_exists(&self, path: &Path) -> Result<bool> {
        perf_time!(env_file_exists_nanos, self.tracer.clock, self.inner.file_exists(path))
    }
    fn children(&self, dir: &Path) -> Result<Vec<String>> {
        let call = || self.tracer.trace("GetChildren", dir, || self.inner.children(dir));
        perf_time!(env_get_children_nanos, self.tracer.clock, call())
    }
    fn delete_file(&self, path: &Path) -> Result<()> {
        let call = || self.tracer.trace("DeleteFile", path, || self.inner.delete_file(path));
        perf_time!(env_delete_file_nanos, self.tracer.clock, call())
    }
    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        let call =
            || self.tracer.trace("CreateDirIfMissing", path, || self.inner.create_dir_if_missing(path));
        perf_time!(env_create_dir_if_missing_nanos, self.tracer.clock, call())
    }
    fn delete_dir(&self, path: &Path) -> Result<()> {
        let call = || self.tracer.trace("DeleteDir", path, || self.inner.delete_dir(path));
        perf_time!(env_delete_dir_nanos, self.tracer.clock, call())
    }
    fn file_size(&self, path: &Path) -> Result<u64> {
        let size = || self.inner.file_size(path);
        let call = || perf_time!(env_get_file_size_nanos, self.tracer.clock, size());
        if !self.tracer.is_on() {
            return call();
        }
        let facts = |size: Option<&u64>| Facts { file_size: size.copied(), ..Facts::default() };
        self.tracer.report("GetFileSize", path, call, facts)
    }
    fn link_count(&self, path: &Path) -> Result<u64> {
        self.inner.link_count(path)
    }
    fn modification_time(&self, path: &Path) -> Result<u64> {
        let call = || self.inner.modification_time(path);
        perf_time!(env_get_file_modification_time_nanos, self.tracer.clock, call())
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let call = || self.tracer.trace("RenameFile", to, || self.inner.rename(from, to));
        perf_time!(env_rename_file_nanos, self.tracer.clock, call())
    }
    fn link_file(&self, existing: &Path, new: &Path) -> Result<()> {
        let call = || self.tracer.trace("LinkFile", new, || self.inner.link_file(existing, new));
        perf_time!(env_link_file_nanos, self.tracer.clock, call())
    }
    fn hold_directories(&self, paths: &[&Path]) -> Result<Option<Arc<dyn FileSystem>>> {
        self.inner.hold_directories(paths)
    }
    fn hold_also(&self, paths: &[&Path]) -> Result<()> {
        self.inner.hold_also(paths)
    }
    fn check_may_change(&self, path: &Path) -> Result<()> {
        self.inner.check_may_change(path)
    }
    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.inner.lock_file(path)
    }
    fn absolute_path(&self, path: &Path) -> Result<PathBuf> {
        self.inner.absolute_path(path)
    }
    fn free_space(&self, path: &Path) -> Result<u64> {
        self.inner.free_space(path)
    }
    fn truncate(&self, path: &Path, size: u64) -> Result<()> {
        self.tracer.trace("Truncate", path, || self.inner.truncate(path, size))
    }
}

struct TracedSequentialFile {
    inner: Box<dyn SequentialFile>,
    path: PathBuf,
    tracer: Arc<IoTracer>,
}

impl SequentialFile for TracedSequentialFile {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let Self { inner, path, tracer } = self;
        tracer.count_read(|| {
            if !tracer.is_on() {
                return inner.read(buf);
            }
            let facts = |n: Option<&usize>| Facts { len: n.map(|n| *n as u64), ..Facts::default() };
            tracer.report("Read", path, || inner.read(buf), facts)
        })
    }
    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.inner.skip(bytes)
    }
}

#[derive(Debug)]
struct TracedRandomAccessFile {
    inner: Arc<dyn RandomAccessFile>,
    tracer: Arc<IoTracer>,
}

impl TracedRandomAccessFile {
    #[cold]
    fn report(&self, operation: &str, offset: u64, read: impl FnOnce() -> Result<usize>) -> Result<usize> {
        let len = |n: Option<&usize>| n.map(|n| *n as u64);
        let facts = |n: Option<&usize>| Facts { len: len(n), offset: Some(offset), ..Facts::default() };
        self.tracer.report(operation, self.inner.path(), read, facts)
    }
}

impl RandomAccessFile for TracedRandomAccessFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.tracer.count_read(|| {
            if !self.tracer.is_on() {
                return self.inner.read_at(offset, buf);
            }
            self.report("Read", offset, || self.inner.read_at(offset, buf))
        })
    }
    fn read_vectored_at(&self, offset: u64, bufs: &mut [&mut [u8]]) -> Result<usize> {
        self.tracer.count_read(|| {
            if !self.tracer.is_on() {
                return self.inner.read_vectored_at(offset, bufs);
            }
            self.report("MultiRead", offset, || self.inner.read_vectored_at(offset, bufs))
        })
    }
    fn alignment(&self) -> Option<Alignment> {
        self.inner.alignment()
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // Reads through a descriptor pass this file by.
        if self.tracer.is_on() { None } else { self.inner.descriptor() }
    }
    fn never_waits(&self) -> bool {
        self.inner.never_waits()
    }
    fn prefetch(&self, offset: u64, bytes: u64) {
        self.inner.prefetch(offset, bytes);
        if self.tracer.is_on() {
            self.report("Prefetch", offset, || Ok(bytes as usize)).unwrap_or_default();
        }
    }
    fn read_anew(&self, offset: u64, bytes: u64) {
        self.inner.read_anew(offset, bytes);
    }
    fn size(&self) -> Result<u64> {
        self.inner.size()
    }
    fn path(&self) -> &Path {
        self.inner.path()
    }
}

struct TracedWritableFile {
    inner: Box<dyn WritableFile>,
    path: PathBuf,
    tracer: Arc<IoTracer>,
}

impl TracedWritableFile {
    /// Counts and reports an append of `bytes`.
    #[inline(always)]
    fn count_append(
        &mut self,
        bytes: u64,
        append: impl FnOnce(&mut dyn WritableFile) -> Result<()>,
    ) -> Result<()> {
        let Self { inner, path, tracer } = self;
        let append = || {
            if !tracer.is_on() {
                return append(inner.as_mut());
            }
            let offset = inner.file_size();
            let facts = Facts { len: Some(bytes), offset: Some(offset), ..Facts::default() };
            tracer.report("Append", path, || append(inner.as_mut()), |_| facts)
        };
        let appended = iostats_time!(write_nanos, cpu_write_nanos, tracer.clock, append());
        if appended.is_ok() {
            iostats_add!(bytes_written, bytes);
        }
        appended
    }
}

impl WritableFile for TracedWritableFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.count_append(data.len() as u64, |file| file.append(data))
    }
    fn append_with_checksum(&mut self, data: &[u8], checksum: u32) -> Result<()> {
        self.count_append(data.len() as u64, |file| file.append_with_checksum(data, checksum))
    }
    fn set_write_life_time_hint(&mut self, hint: WriteLifeTimeHint) {
        self.inner.set_write_life_time_hint(hint);
    }
    fn flush(&mut self) -> Result<()> {
        let Self { inner, path, tracer } = self;
        iostats_time!(write_nanos, tracer.clock, tracer.trace("Flush", path, || inner.flush()))
    }
    fn sync(&mut self) -> Result<()> {
        let Self { inner, path, tracer } = self;
        iostats_time!(fsync_nanos, tracer.clock, tracer.trace("Sync", path, || inner.sync()))
    }
    fn fsync(&mut self) -> Result<()> {
        let Self { inner, path, tracer } = self;
        iostats_time!(fsync_nanos, tracer.clock, tracer.trace("Fsync", path, || inner.fsync()))
    }
    fn range_sync(&mut self, offset: u64, bytes: u64) -> Result<()> {
        let Self { inner, path, tracer } = self;
        let mut range_sync = || {
            if !tracer.is_on() {
                return inner.range_sync(offset, bytes);
            }
            let facts = Facts { len: Some(bytes), offset: Some(offset), ..Facts::default() };
            tracer.report("RangeSync", path, || inner.range_sync(offset, bytes), |_| facts)
        };
        iostats_time!(range_sync_nanos, tracer.clock, range_sync())
    }
    fn preallocate(&mut self, offset: u64, bytes: u64) -> Result<()> {
        let Self { inner, tracer, .. } = self;
        let mut call = || iostats_time!(allocate_nanos, tracer.clock, inner.preallocate(offset, bytes));
        iostats_time!(prepare_write_nanos, tracer.clock, call())
    }
    fn append_in_place(&mut self, block: u64) -> Result<()> {
        self.inner.append_in_place(block)
    }
    fn truncate(&mut self, size: u64) -> Result<()> {
        self.tracer.trace("Truncate", &self.path, || self.inner.truncate(size))
    }
    fn close(&mut self) -> Result<()> {
        self.tracer.trace("Close", &self.path, || self.inner.close())
    }
    fn file_size(&self) -> u64 {
        self.inner.file_size()
    }
}
