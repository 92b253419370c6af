//! The open tables and blob files of all families of a database, by file number, within one limit.
//!
//! In: opened readers. Out: the same, as long as there is room for them.
//!
//! Invariants
//!  1. Tables and blob files share the limit, because all files of a process share its descriptors.
//!  2. A process without free descriptors closes files that no reader uses, whatever the limit
//!     says.
//!  3. The limit is not strict: a reader is never refused, and an evicted one lives on for its
//!     holders.
//!  4. Files of another owner, which may delete them, are held below the readers
//!     ([`OpenFiles::hold_table`]): a reader that is opened again reads the same file.
//!
//! Source: RocksDB `db/db_impl/db_impl.cc` (`table_cache_`), `db/blob/blob_file_cache.cc`.

use crate::blob::BlobFileReader;
use crate::reader::TableReader;
use crate::trace::BlockCacheTracer;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::{Error, FileNumber, Result, SubCode};
use esker_cache::{Cache, CacheKey, CacheOptions, CachePriority, CacheType, MetadataChargePolicy, Role};
use esker_env::RandomAccessFile;
use esker_env::descriptors::{self, ClosesFiles};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Weak};

/// From this many files on their list is cut into shards, each with its own lock.
const MANY: usize = 1024;

/// See the head of this file.
pub struct OpenFiles {
    files: Cache<OpenFile>,
    /// The limit; `None`: only the system's.
    capacity: Mutex<Option<usize>>,
    keeps_all: AtomicBool,
    /// Files that the process may keep open for as long as they exist.
    kept_limit: usize,
    next_family: AtomicU64,
    /// Whether another process owns the files, and whether this one follows it.
    has_other_owner: AtomicBool,
    follows_owner: AtomicBool,
    held: Mutex<FileOfOtherOwner>,
    /// Traces accesses to their blocks.
    tracer: Arc<BlockCacheTracer>,
}

/// Open files of another owner, by number.
#[derive(Default)]
struct FileOfOtherOwner {
    tables: HashMap<FileNumber, Arc<dyn RandomAccessFile>>,
    blobs: HashMap<FileNumber, Arc<dyn RandomAccessFile>>,
}

enum OpenFile {
    /// The owner, and the reader.
    Table(u64, Arc<TableReader>),
    Blobs(Arc<BlobFileReader>),
}

impl std::fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFiles").field("files", &self.len()).finish_non_exhaustive()
    }
}

impl OpenFiles {
    /// Keeps `capacity` files open (`max_open_files` minus the other files); `None` for all.
    pub fn new(capacity: Option<usize>) -> Arc<OpenFiles> {
        let options = CacheOptions {
            cache_type: CacheType::Lru,
            capacity: charge_of(capacity),
            num_shard_bits: if capacity.is_none_or(|c| c >= MANY) { 6 } else { 0 },
            metadata_charge_policy: MetadataChargePolicy::DontChargeCacheMetadata,
            ..CacheOptions::default()
        };
        let open_files = Arc::new(OpenFiles {
            files: Cache::new(&options).expect("64 shards and default ratios are allowed"),
            capacity: Mutex::new(capacity),
            keeps_all: AtomicBool::new(capacity.is_none()),
            kept_limit: descriptors::kept_limit(),
            next_family: AtomicU64::new(0),
            has_other_owner: AtomicBool::new(false),
            follows_owner: AtomicBool::new(false),
            held: Mutex::default(),
            tracer: Arc::default(),
        });
        let closer: Weak<OpenFiles> = Arc::downgrade(&open_files);
        descriptors::add_closer(closer);
        open_files
    }

    /// The tracer of accesses to their blocks.
    pub fn tracer(&self) -> &Arc<BlockCacheTracer> {
        &self.tracer
    }

    /// Records that another process owns the files, and may delete them. `follows`: the database
    /// catches up with that process now and then.
    pub fn set_other_owner(&self, follows: bool) {
        self.has_other_owner.store(true, Ordering::Relaxed);
        self.follows_owner.store(follows, Ordering::Relaxed);
    }

    /// Closes files of another owner that no version names.
    pub fn close_unnamed(&self, tables: &[FileNumber], blobs: &[FileNumber]) {
        tables.iter().for_each(|number| self.forget_table(*number));
        blobs.iter().for_each(|number| self.forget_blob_file(*number));
        let mut held = self.held.lock();
        for number in tables {
            held.tables.remove(number);
        }
        for number in blobs {
            held.blobs.remove(number);
        }
    }

    /// The table of this number, if it is held.
    pub(crate) fn held_table(&self, number: FileNumber) -> Option<Arc<dyn RandomAccessFile>> {
        self.held.lock().tables.get(&number).cloned()
    }

    /// The blob file of this number, if it is held.
    pub(crate) fn held_blob_file(&self, number: FileNumber) -> Option<Arc<dyn RandomAccessFile>> {
        self.held.lock().blobs.get(&number).cloned()
    }

    /// Keeps the file of a table open, whatever happens to its name and its reader.
    pub(crate) fn hold_table(&self, number: FileNumber, file: Arc<dyn RandomAccessFile>) {
        self.held.lock().tables.insert(number, file);
    }

    /// Holds a blob file of another owner, like [`OpenFiles::hold_table`].
    pub(crate) fn hold_blob_file(&self, number: FileNumber, file: Arc<dyn RandomAccessFile>) {
        self.held.lock().blobs.insert(number, file);
    }

    /// Closes all held files except these.
    pub fn hold_only(&self, tables: &HashSet<FileNumber>, blobs: &HashSet<FileNumber>) {
        let mut held = self.held.lock();
        held.tables.retain(|number, _| tables.contains(number));
        held.blobs.retain(|number, _| blobs.contains(number));
    }

    /// Explains the error of a file that cannot be opened, if another owner may have deleted it.
    /// # Errors
    /// `failed`, or an error that says that the owner deleted the file.
    pub(crate) fn report<T>(&self, opened: Result<T>, path: &Path) -> Result<T> {
        opened.map_err(|failed| {
            let is_gone = failed.subcode() == SubCode::PathNotFound;
            if !is_gone || !self.has_other_owner.load(Ordering::Relaxed) {
                return failed;
            }
            let what = if self.follows_owner.load(Ordering::Relaxed) {
                "deleted by the primary since; catch up with it (try_catch_up_with_primary) and read again"
            } else {
                "deleted by the database's owner since it was opened for reading; open it again"
            };
            Error::io(what).with_subcode(SubCode::StaleFile).at(path.display())
        })
    }

    /// Changes how many files are kept open. Tables that versions keep open themselves stay.
    pub fn set_capacity(&self, capacity: Option<usize>) {
        let mut current = self.capacity.lock();
        *current = capacity;
        self.keeps_all.store(capacity.is_none(), Ordering::Relaxed);
        self.files.set_capacity(charge_of(capacity));
    }

    /// Whether there is no limit for the database, and the process may keep one more file open for
    /// as long as it exists.
    pub(crate) fn keeps_all(&self) -> bool {
        self.keeps_all.load(Ordering::Relaxed) && descriptors::kept_files() < self.kept_limit
    }

    /// Files that are kept open, tables and blob files.
    pub fn len(&self) -> usize {
        self.files.occupancy_count()
    }

    /// Whether none is kept open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number that marks the tables of one more family.
    pub(crate) fn add_family(&self) -> u64 {
        self.next_family.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn table(&self, number: FileNumber) -> Option<Arc<TableReader>> {
        match &*self.files.lookup(&table_key(number))? {
            OpenFile::Table(_, reader) => Some(Arc::clone(reader)),
            OpenFile::Blobs(_) => None,
        }
    }

    pub(crate) fn blob_file(&self, number: FileNumber) -> Option<Arc<BlobFileReader>> {
        match &*self.files.lookup(&blob_key(number))? {
            OpenFile::Blobs(reader) => Some(Arc::clone(reader)),
            OpenFile::Table(..) => None,
        }
    }

    pub(crate) fn keep_table(&self, number: FileNumber, family: u64, reader: Arc<TableReader>) {
        self.keep(table_key(number), OpenFile::Table(family, reader));
    }

    pub(crate) fn keep_blob_file(&self, number: FileNumber, reader: Arc<BlobFileReader>) {
        self.keep(blob_key(number), OpenFile::Blobs(reader));
    }

    fn keep(&self, key: CacheKey, file: OpenFile) {
        // Without a strict limit no insertion is refused.
        _ = self.files.insert(key, file, 1, CachePriority::Low, Role::Misc);
    }

    pub(crate) fn forget_table(&self, number: FileNumber) {
        self.files.erase(&table_key(number));
    }

    pub(crate) fn forget_blob_file(&self, number: FileNumber) {
        self.files.erase(&blob_key(number));
    }

    /// Shows the tables of this family.
    pub(crate) fn for_each_table(&self, family: u64, visit: &mut dyn FnMut(&TableReader)) {
        self.files.apply_to_all(|open| match open.value {
            OpenFile::Table(whose, reader) if *whose == family => visit(reader),
            _ => {}
        });
    }
}

impl ClosesFiles for OpenFiles {
    fn close_unused(&self, count: usize) -> usize {
        // Other threads that change the capacity or close files wait.
        let capacity = self.capacity.lock();
        let before = self.len();
        let mut count = count.max(1);
        // Each shard keeps its share of the remaining files, so closing a few may close none.
        while self.len() == before && before > 0 && count < before.saturating_mul(2) {
            self.files.set_capacity(self.files.usage().saturating_sub(count));
            count = count.saturating_mul(2);
        }
        self.files.set_capacity(charge_of(*capacity));
        before.saturating_sub(self.len())
    }

    fn open_files(&self) -> usize {
        self.len()
    }
}

fn charge_of(capacity: Option<usize>) -> usize {
    capacity.unwrap_or(usize::MAX / 2)
}

fn table_key(number: FileNumber) -> CacheKey {
    CacheKey::new((1, number.0), 0)
}

fn blob_key(number: FileNumber) -> CacheKey {
    CacheKey::new((2, number.0), 0)
}
