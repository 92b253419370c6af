//! Blocks on a local disk, below a cache: cached blocks survive a restart.
//!
//! In: blocks. Out: the same blocks; damaged ones count as missing.
//!
//! Blocks are appended to segment files (`segment`); the oldest segment is deleted when the
//! capacity is used up. Each block's place is kept in memory, and read from the segments at open. A
//! writer thread empties a bounded queue, so an eviction never waits for the disk. A block that
//! does not fit into the queue is not stored. A lookup requests readahead from the operating system
//! and returns; its `wait` reads, so that a batch's reads overlap.
//!
//! | a block's place | found by a lookup | becomes |
//! |---|---|---|
//! | queued | in memory | written, by the writer |
//! | in a segment | by reading and checking it | forgotten: erased, torn, or its segment deleted |
//!
//! Invariants
//!  1. A returned block has the checksum and the key it was written with.
//!  2. The first error of the disk turns the tier off for good and is logged once; later lookups
//!     miss.
//!  3. `State::bytes` is the sum of all `Segment::bytes`. After each `take_excess` the sum is at
//!     most the capacity, and there are at most `MAX_SEGMENTS` segments. The open, each write and
//!     each change of the capacity end with `take_excess`.
//!  4. Nothing is read or written while `state` is locked.

mod segment;

use super::compressed::restore;
use esker_base::logger::InfoLog;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::sync::fork::ProcessOwner;
use esker_base::sync::thread::JoinHandle;
use esker_base::sync::{Condvar, Mutex, MutexGuard};
use esker_base::{Error, ErrorKind, Result, info_log};
use esker_cache::tier::{Admission, FoundIn, Lookup, Pending, Recent, Saved, SecondaryCache, TierHit};
use esker_cache::{CacheKey, Role};
use esker_env::{FileLock, FileSystem, RandomAccessFile, spawn};
use segment::{SegmentRecord, SegmentWriter};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

/// The capacity is divided into this many segments, within the limits of their size.
const SEGMENTS: usize = 16;
const MIN_SEGMENT_BYTES: usize = 16 << 10;
const MAX_SEGMENT_BYTES: usize = 64 << 20;
/// The largest number of full segments. A capacity that would need more has segments of more than
/// `MAX_SEGMENT_BYTES`.
pub(super) const FULL_SEGMENTS: usize = 128;
/// Most segments, including those that were not full when the tier was closed. Each keeps a file
/// open, and a process may open a limited number.
const MAX_SEGMENTS: usize = 256;
/// Most bytes in the writer's queue.
const MAX_QUEUED_BYTES: usize = 8 << 20;
/// Bytes of capacity for each remembered key.
const BYTES_PER_RECENT_KEY: usize = 4096;

/// Options of a file tier.
#[derive(Clone)]
pub struct FileSecondaryCacheOptions {
    /// The tier's own directory, created if it does not exist. Nothing else may use it.
    pub path: PathBuf,
    /// Bytes of all files together.
    pub capacity: usize,
    /// The file system that has the directory.
    pub fs: Arc<dyn FileSystem>,
    /// Receives a message when a disk error turns the tier off.
    pub info_log: Option<Arc<dyn InfoLog>>,
}

impl std::fmt::Debug for FileSecondaryCacheOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSecondaryCacheOptions")
            .field("path", &self.path)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

/// The file tier. Dropping it writes the queue.
pub struct FileSecondaryCache {
    /// A forked child has neither the writer nor the directory: the tier is off there.
    owner: ProcessOwner,
    inner: Arc<Inner>,
    writer: Writer,
    _lock: Box<dyn FileLock>,
}

/// The writer thread. If the system cannot start the thread, the queue stays in memory. Each new
/// block, and `settle`, try to start the thread again. The tier refuses blocks that do not fit into
/// the queue, and closing the tier writes the queue.
struct Writer {
    thread: Mutex<Option<JoinHandle<()>>>,
    first_number: u64,
}

impl Writer {
    /// Starts the thread if there is none. Returns whether there is one afterwards.
    fn start(&self, inner: &Arc<Inner>) -> bool {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (mine, first_number) = (Arc::clone(inner), self.first_number);
            *thread = spawn("esker-tier", move || mine.write_queue(first_number)).ok();
        }
        thread.is_some()
    }
}

struct Inner {
    options: FileSecondaryCacheOptions,
    state: Mutex<State>,
    /// Notified when the writer has work or has done some, and when the tier closes or turns off.
    changed: Condvar,
    recent: Recent,
    is_off: AtomicBool,
}

struct State {
    index: HashMap<CacheKey, BlockPosition>,
    /// Oldest first.
    segments: VecDeque<Segment>,
    bytes: usize,
    capacity: usize,
    queue: VecDeque<Arc<SegmentRecord>>,
    queued_bytes: usize,
    /// The writer is writing a block.
    is_writing: bool,
    is_closing: bool,
}

struct Segment {
    number: u64,
    bytes: usize,
    keys: Vec<CacheKey>,
}

#[derive(Clone)]
enum BlockPosition {
    Queued(Arc<SegmentRecord>),
    File { segment: u64, file: Arc<dyn RandomAccessFile>, offset: u64, length: usize },
}

impl BlockPosition {
    fn is_in(&self, number: u64) -> bool {
        matches!(self, BlockPosition::File { segment, .. } if *segment == number)
    }
}

impl std::fmt::Debug for FileSecondaryCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSecondaryCache")
            .field("path", &self.inner.options.path)
            .field("usage", &self.usage())
            .field("is_off", &self.is_off())
            .finish_non_exhaustive()
    }
}

impl FileSecondaryCache {
    /// Opens the directory with its segments.
    /// # Errors
    /// `IoError` if the directory cannot be made, if another tier has its lock, or if segments
    /// cannot be read or deleted.
    pub fn open(options: FileSecondaryCacheOptions) -> Result<FileSecondaryCache> {
        options.fs.create_dir_if_missing(&options.path)?;
        let lock = options.fs.lock_file(&options.path.join("LOCK"))?;
        let mut state = State {
            index: HashMap::new(),
            segments: VecDeque::new(),
            bytes: 0,
            capacity: options.capacity,
            queue: VecDeque::new(),
            queued_bytes: 0,
            is_writing: false,
            is_closing: false,
        };
        let numbers = segment::numbers(&*options.fs, &options.path)?;
        let (surplus, kept) = numbers.split_at(numbers.len().saturating_sub(MAX_SEGMENTS));
        for number in surplus {
            options.fs.delete_file(&segment::path(&options.path, *number))?;
        }
        for number in kept {
            state.recover(&options, *number)?;
        }
        let first_number = state.segments.back().map_or(1, |last| last.number + 1);
        let inner = Arc::new(Inner {
            recent: Recent::new(options.capacity / BYTES_PER_RECENT_KEY),
            options,
            state: Mutex::new(state),
            changed: Condvar::new(),
            is_off: AtomicBool::new(false),
        });
        inner.trim();
        let writer = Writer { thread: Mutex::new(None), first_number };
        writer.start(&inner);
        Ok(FileSecondaryCache { owner: ProcessOwner::here(), inner, writer, _lock: lock })
    }

    /// Whether an error of the disk has turned it off, or this is a forked child of the process
    /// that opened it.
    pub fn is_off(&self) -> bool {
        !self.owner.is_here() || self.inner.is_off.load(Ordering::Acquire)
    }

    /// Number of known blocks.
    pub fn len(&self) -> usize {
        self.inner.state.lock().index.len()
    }

    /// Whether there are no known blocks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl State {
    /// Adds the blocks of an existing segment.
    fn recover(&mut self, options: &FileSecondaryCacheOptions, number: u64) -> Result<()> {
        let found = segment::scan(&*options.fs, &options.path, number)?;
        let mut keys = Vec::with_capacity(found.entries.len());
        for (key, offset, length) in found.entries {
            let place =
                BlockPosition::File { segment: number, file: Arc::clone(&found.file), offset, length };
            self.index.insert(key, place);
            keys.push(key);
        }
        self.bytes += found.bytes;
        self.segments.push_back(Segment { number, bytes: found.bytes, keys });
        Ok(())
    }

    /// Removes the oldest segments while there are too many or the capacity is exceeded. The caller
    /// deletes their files.
    fn take_excess(&mut self) -> Vec<u64> {
        let mut gone = Vec::new();
        while (self.bytes > self.capacity || self.segments.len() > MAX_SEGMENTS)
            && let Some(oldest) = self.segments.pop_front()
        {
            self.bytes -= oldest.bytes;
            for key in oldest.keys {
                if self.index.get(&key).is_some_and(|place| place.is_in(oldest.number)) {
                    self.index.remove(&key);
                }
            }
            gone.push(oldest.number);
        }
        gone
    }

    /// Whether the newest segment has this number: nothing has dropped the segment being written.
    fn has_segment(&self, number: u64) -> bool {
        self.segments.back().is_some_and(|last| last.number == number)
    }

    fn forget_all(&mut self) {
        self.index.clear();
        self.queue.clear();
        self.queued_bytes = 0;
    }
}

impl Inner {
    /// Turns the tier off after an error of the disk.
    #[cold]
    fn turn_off(&self, error: &Error) {
        if self.is_off.swap(true, Ordering::AcqRel) {
            return;
        }
        self.state.lock().forget_all();
        self.changed.notify_all();
        if let Some(log) = &self.options.info_log {
            info_log!(
                log,
                Error,
                "The secondary cache in {} is turned off: {error}",
                self.options.path.display()
            );
        }
    }

    /// Deletes the segments that the capacity has no room for.
    fn trim(&self) {
        let gone = self.state.lock().take_excess();
        self.delete(&gone);
    }

    fn delete(&self, numbers: &[u64]) {
        for number in numbers {
            if let Err(e) = self.options.fs.delete_file(&segment::path(&self.options.path, *number)) {
                self.turn_off(&e);
            }
        }
    }

    /// The writer's loop. Ends when the tier closes and the queue is empty.
    fn write_queue(&self, first_number: u64) {
        let mut number = first_number;
        let mut open: Option<SegmentWriter> = None;
        while let Some(record) = self.next_to_write() {
            let segment_bytes = segment_bytes(self.state.lock().capacity);
            if let Some(full) = open.take_if(|open| open.bytes() >= segment_bytes)
                && let Err(e) = full.close()
            {
                self.turn_off(&e);
            }
            if !self.is_off.load(Ordering::Acquire)
                && let Err(e) = self.write(&record, &mut open, &mut number)
            {
                self.turn_off(&e);
            }
            let mut state = self.state.lock();
            state.is_writing = false;
            drop(state);
            self.changed.notify_all();
        }
        if let Some(open) = open
            && let Err(e) = open.close()
        {
            self.turn_off(&e);
        }
    }

    fn next_to_write(&self) -> Option<Arc<SegmentRecord>> {
        let mut state = self.state.lock();
        loop {
            if let Some(record) = state.queue.pop_front() {
                state.queued_bytes -= record.stored_bytes();
                state.is_writing = true;
                return Some(record);
            }
            if state.is_closing {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    fn write(
        &self,
        record: &Arc<SegmentRecord>,
        open: &mut Option<SegmentWriter>,
        next_number: &mut u64,
    ) -> Result<()> {
        // The tier drops the segment that is being written if the capacity falls below its size.
        open.take_if(|open| !self.state.lock().has_segment(open.number()));
        let writer = match open {
            Some(writer) => writer,
            None => {
                let writer = SegmentWriter::create(&*self.options.fs, &self.options.path, *next_number)?;
                let segment = Segment { number: *next_number, bytes: 0, keys: Vec::new() };
                self.state.lock().segments.push_back(segment);
                *next_number += 1;
                open.insert(writer)
            }
        };
        let before = writer.bytes();
        let offset = writer.append(record)?;
        let place = BlockPosition::File {
            segment: writer.number(),
            file: Arc::clone(writer.file()),
            offset,
            length: record.payload_bytes(),
        };
        let (gone, is_there) = {
            let mut state = self.state.lock();
            let is_there = state.has_segment(writer.number());
            let added = if before == segment::HEAD_BYTES { writer.bytes() } else { writer.bytes() - before };
            if let Some(last) = state.segments.back_mut().filter(|_| is_there) {
                last.bytes += added;
                last.keys.push(record.key);
                state.bytes += added;
            }
            // Another thread may have erased the block or inserted it anew.
            if let Some(BlockPosition::Queued(queued)) = state.index.get(&record.key)
                && Arc::ptr_eq(queued, record)
            {
                if is_there {
                    state.index.insert(record.key, place);
                } else {
                    state.index.remove(&record.key);
                }
            }
            (state.take_excess(), is_there)
        };
        if !is_there || gone.contains(&writer.number()) {
            *open = None;
        }
        self.delete(&gone);
        Ok(())
    }

    /// Reads and checks the block of a lookup.
    fn read(&self, key: &CacheKey, place: &BlockPosition) -> Option<TierHit> {
        let BlockPosition::File { segment, file, offset, length } = place else { return None };
        let record = match segment::read(&**file, *segment, *offset, *length) {
            Ok(record) if record.key == *key => record,
            Err(e) if e.kind() == ErrorKind::IoError => {
                self.turn_off(&e);
                return None;
            }
            Ok(_) | Err(_) => {
                self.forget_torn(key, *segment);
                return None;
            }
        };
        found(&record)
    }

    fn forget_torn(&self, key: &CacheKey, segment: u64) {
        let mut state = self.state.lock();
        if state.index.get(key).is_some_and(|place| place.is_in(segment)) {
            state.index.remove(key);
        }
    }

    fn place(&self, key: &CacheKey) -> Option<BlockPosition> {
        self.state.lock().index.get(key).cloned()
    }
}

/// A segment with this many bytes is full.
pub(super) fn segment_bytes(capacity: usize) -> usize {
    (capacity / SEGMENTS).clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES).max(capacity / FULL_SEGMENTS)
}

fn found(record: &SegmentRecord) -> Option<TierHit> {
    let bytes = restore(record.codec, record.payload()).ok()?;
    Some(TierHit { role: record.role, bytes, is_kept: true, found_in: FoundIn::File })
}

/// A lookup whose block is in a segment.
struct FileLookup {
    inner: Arc<Inner>,
    key: CacheKey,
    place: BlockPosition,
}

impl std::fmt::Debug for FileLookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileLookup").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Pending for FileLookup {
    fn is_ready(&self) -> bool {
        false
    }

    fn wait(self: Box<Self>) -> Option<TierHit> {
        self.inner.read(&self.key, &self.place)
    }
}

impl SecondaryCache for FileSecondaryCache {
    fn name(&self) -> &'static str {
        "FileSecondaryCache"
    }

    fn insert(&self, key: &CacheKey, saved: Saved<'_>, is_forced: bool) -> Admission {
        let inner = &*self.inner;
        if self.is_off() {
            return Admission::Refused;
        }
        let mut state: MutexGuard<'_, State> = inner.state.lock();
        // Checked again: a block added after the tier was emptied would stay for ever.
        if self.is_off() {
            return Admission::Refused;
        }
        if state.index.contains_key(key) {
            return Admission::Present;
        }
        if !inner.recent.note(key) && !is_forced {
            return Admission::Remembered;
        }
        let bytes = segment::stored_bytes(saved.bytes.len());
        if bytes > state.capacity || state.queued_bytes + bytes > MAX_QUEUED_BYTES {
            drop(state);
            // The queue stays full as long as the system refuses the writer's thread.
            self.writer.start(&self.inner);
            return Admission::Refused;
        }
        let record = Arc::new(SegmentRecord::new(*key, saved.role, saved.codec, saved.bytes));
        state.queued_bytes += bytes;
        state.index.insert(*key, BlockPosition::Queued(Arc::clone(&record)));
        state.queue.push_back(record);
        drop(state);
        inner.changed.notify_all();
        self.writer.start(&self.inner);
        Admission::Stored
    }

    fn lookup(&self, key: &CacheKey, _advise_erase: bool) -> Lookup {
        let missing = || Lookup::Missing { was_seen: self.inner.recent.knows(key) };
        if !self.owner.is_here() {
            return missing();
        }
        match self.inner.place(key) {
            None => missing(),
            Some(BlockPosition::Queued(record)) => found(&record).map_or_else(missing, Lookup::Ready),
            Some(place) => {
                if let BlockPosition::File { file, offset, length, .. } = &place {
                    file.prefetch(*offset, segment::stored_bytes(*length) as u64);
                }
                Lookup::Pending(Box::new(FileLookup { inner: Arc::clone(&self.inner), key: *key, place }))
            }
        }
    }

    fn contains(&self, key: &CacheKey) -> bool {
        self.owner.is_here() && self.inner.state.lock().index.contains_key(key)
    }

    fn erase(&self, key: &CacheKey) {
        if self.owner.is_here() {
            self.inner.state.lock().index.remove(key);
        }
    }

    fn capacity(&self) -> usize {
        if self.owner.is_here() { self.inner.state.lock().capacity } else { 0 }
    }

    fn set_capacity(&self, bytes: usize) {
        if !self.owner.is_here() {
            return;
        }
        self.inner.state.lock().capacity = bytes;
        self.inner.trim();
    }

    fn usage(&self) -> usize {
        if self.owner.is_here() { self.inner.state.lock().bytes } else { 0 }
    }

    fn settle(&self) {
        if !self.owner.is_here() || !self.writer.start(&self.inner) {
            return;
        }
        let mut state = self.inner.state.lock();
        while !state.queue.is_empty() || state.is_writing {
            self.inner.changed.wait(&mut state);
        }
    }
}

impl Drop for FileSecondaryCache {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            // A forked child has no writer thread to wait for.
            std::mem::forget(self.writer.thread.get_mut().take());
            return;
        }
        self.inner.state.lock().is_closing = true;
        self.inner.changed.notify_all();
        match self.writer.thread.get_mut().take() {
            None => self.inner.write_queue(self.writer.first_number),
            // A writer that panicked loses the blocks of its queue, as a cache may.
            Some(thread) => {
                let has_panicked = thread.join().is_err();
                self.inner.is_off.fetch_or(has_panicked, Ordering::AcqRel);
            }
        }
    }
}

/// The role with this number.
fn role_of(code: u8) -> Option<Role> {
    Role::ALL.get(usize::from(code)).copied()
}
