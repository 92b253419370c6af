//! The open tables and blob files of all families of a database, by file number, within one limit.
//!
//! In: readers that somebody has opened. Out: the same, as long as there is room for them.
//!
//! Invariants
//!  1. Tables and blob files share the limit, as what a process may open is shared by all of its files.
//!  2. The limit is not strict: a reader is never refused, and one that has gone lives on for those who hold it.
//!
//! Source: RocksDB `db/db_impl/db_impl.cc` (`table_cache_`), `db/blob/blob_file_cache.cc`.

use crate::blob::BlobFileReader;
use crate::reader::TableReader;
use esker_base::FileNumber;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_cache::{Cache, CacheKey, CacheOptions, CacheType, MetadataChargePolicy, Priority, Role};
use std::sync::Arc;

/// From so many files on their list is cut in parts, each with a lock of its own.
const MANY: usize = 1024;

/// See the head of this file.
pub struct OpenFiles {
    files: Cache<OpenFile>,
    keeps_all: AtomicBool,
    next_family: AtomicU64,
}

enum OpenFile {
    /// Whose it is, and the reader.
    Table(u64, Arc<TableReader>),
    Blobs(Arc<BlobFileReader>),
}

impl std::fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFiles").field("files", &self.len()).finish_non_exhaustive()
    }
}

impl OpenFiles {
    /// Keeps `capacity` files open (`max_open_files` less a few); `None` for all.
    pub fn new(capacity: Option<usize>) -> Arc<OpenFiles> {
        let options = CacheOptions {
            cache_type: CacheType::Lru,
            capacity: charge_of(capacity),
            num_shard_bits: if capacity.is_none_or(|c| c >= MANY) { 6 } else { 0 },
            metadata_charge_policy: MetadataChargePolicy::DontChargeCacheMetadata,
            ..CacheOptions::default()
        };
        Arc::new(OpenFiles {
            files: Cache::new(&options).expect("64 shards and default ratios are allowed"),
            keeps_all: AtomicBool::new(capacity.is_none()),
            next_family: AtomicU64::new(0),
        })
    }

    /// Changes how many files are kept open. Tables that versions keep open themselves stay.
    pub fn set_capacity(&self, capacity: Option<usize>) {
        self.keeps_all.store(capacity.is_none(), Ordering::Relaxed);
        self.files.set_capacity(charge_of(capacity));
    }

    /// Whether there is no limit.
    pub(crate) fn keeps_all(&self) -> bool {
        self.keeps_all.load(Ordering::Relaxed)
    }

    /// Files that are kept open, tables and blob files.
    pub fn len(&self) -> usize {
        self.files.occupancy_count()
    }

    /// Whether none is kept open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the tables of one more family are marked with.
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
        // Without a strict limit nothing is refused.
        _ = self.files.insert(key, file, 1, Priority::Low, Role::Misc);
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

fn charge_of(capacity: Option<usize>) -> usize {
    capacity.unwrap_or(usize::MAX / 2)
}

fn table_key(number: FileNumber) -> CacheKey {
    CacheKey::new((1, number.0), 0)
}

fn blob_key(number: FileNumber) -> CacheKey {
    CacheKey::new((2, number.0), 0)
}
