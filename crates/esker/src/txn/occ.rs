//! Parallel validation of optimistic transactions: mutexes for keys.
//!
//! In: the keys that a commit checks or writes. Out: a guard. While it lives, no other transaction
//! with one of these keys is between its check and its write.
//!
//! Keys are spread over buckets by hash. The `gate` is taken alone for ranges, which have no hash,
//! and for keys of families whose comparator may call keys of different bytes equal.
//!
//! Invariants
//!  1. A guard has the gate, shared or alone, and then the buckets of its keys in ascending order:
//!     no cycle of waits.
//!  2. The write is published before its guard is dropped. So the next check of one of its keys
//!     sees it.
//!
//! Source of the semantics: RocksDB `utilities/transactions/optimistic_transaction.cc`.

use super::optimistic::Own;
use super::options::{OccValidationPolicy, OptimisticTransactionDbOptions};
use crate::db::Db;
use crate::wal::key_of;
use crate::write::order_of;
use esker_base::hash::xxh3_64;
use esker_base::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use esker_base::{ColumnFamilyId, Error, Result};
use esker_format::write_batch::WriteBatch;
use std::fmt;

/// The least number of mutexes that a database makes for itself.
const MIN_BUCKETS: u32 = 16;

/// Mutexes by which optimistic transactions with the same keys commit one after the other. A clone
/// is a further handle to the same mutexes, for another database.
///
/// ```
/// use esker::txn::{OccLockBuckets, OccValidationPolicy, OptimisticTransactionDbOptions};
/// # let dir = esker_testkit::TempDir::new("doc");
///
/// let shared = OccLockBuckets::new(1 << 16)?;
/// let options = OptimisticTransactionDbOptions::default()
///     .validate_policy(OccValidationPolicy::ValidateParallel)
///     .shared_lock_buckets(shared.clone());
/// let create = esker::Options::new().create_if_missing(true);
/// let one = esker::OptimisticTransactionDb::open_opt(&create, &options, dir.path().join("one"))?;
/// let two = esker::OptimisticTransactionDb::open_opt(&create, &options, dir.path().join("two"))?;
/// let txn = one.begin_transaction();
/// txn.put("seat 12", "Ada")?;
/// txn.commit()?;
/// assert_eq!(shared.len(), 1 << 16);
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone)]
pub struct OccLockBuckets(Arc<Buckets>);

struct Buckets {
    gate: RwLock<()>,
    mutexes: Box<[Mutex<()>]>,
}

impl fmt::Debug for OccLockBuckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OccLockBuckets").field(&self.0.mutexes.len()).finish()
    }
}

/// The mutexes of a commit. A drop releases them.
pub(super) struct OccGuard<'a> {
    _gate: Gate<'a>,
    _buckets: Vec<MutexGuard<'a, ()>>,
}

/// A guard's hold of the gate.
enum Gate<'a> {
    Shared { _guard: RwLockReadGuard<'a, ()> },
    Alone { _guard: RwLockWriteGuard<'a, ()> },
}

impl OccLockBuckets {
    /// `count` mutexes.
    /// # Errors
    /// `InvalidArgument`: `count` is 0.
    pub fn new(count: u32) -> Result<OccLockBuckets> {
        if count == 0 {
            return Err(Error::invalid_argument("OccLockBuckets: with 0 buckets nothing can be locked"));
        }
        Ok(OccLockBuckets::with(count))
    }

    /// Number of mutexes.
    pub fn len(&self) -> usize {
        self.0.mutexes.len()
    }

    /// Bytes of memory of the mutexes.
    pub fn approximate_memory_usage(&self) -> usize {
        size_of_val(&*self.0.mutexes)
    }

    /// Whether there are none: never.
    pub fn is_empty(&self) -> bool {
        self.0.mutexes.is_empty()
    }

    /// The mutexes of these options; `None` if they ask for serial validation.
    pub(super) fn of(options: &OptimisticTransactionDbOptions) -> Option<OccLockBuckets> {
        match (options.validate_policy, &options.shared_lock_buckets) {
            (OccValidationPolicy::ValidateSerial, _) => None,
            (OccValidationPolicy::ValidateParallel, Some(shared)) => Some(shared.clone()),
            (OccValidationPolicy::ValidateParallel, None) => {
                Some(OccLockBuckets::with(options.occ_lock_buckets.max(MIN_BUCKETS)))
            }
        }
    }

    fn with(count: u32) -> OccLockBuckets {
        let mutexes = (0..count).map(|_| Mutex::new(())).collect();
        OccLockBuckets(Arc::new(Buckets { gate: RwLock::new(()), mutexes }))
    }

    /// Locks the keys that a transaction checks, and those that it writes without a check.
    pub(super) fn lock_transaction(&self, db: &Db, own: &Own) -> OccGuard<'_> {
        let mut keys = KeyBuckets::new(self, db);
        keys.needs_all |= own.has_ranges();
        own.touched.keys().for_each(|(family, key)| keys.add(*family, key));
        keys.add_batch(own.batch.write_batch());
        keys.lock()
    }

    /// Locks the keys of a batch.
    pub(super) fn lock_batch(&self, db: &Db, batch: &WriteBatch) -> OccGuard<'_> {
        let mut keys = KeyBuckets::new(self, db);
        keys.add_batch(batch);
        keys.lock()
    }

    /// Locks one key.
    pub(super) fn lock_key(&self, db: &Db, family: ColumnFamilyId, key: &[u8]) -> OccGuard<'_> {
        let mut keys = KeyBuckets::new(self, db);
        keys.add(family, key);
        keys.lock()
    }
}

/// The buckets of some keys.
struct KeyBuckets<'a, 'd> {
    locks: &'a OccLockBuckets,
    db: &'d Db,
    buckets: Vec<usize>,
    /// Whether there are ranges, or keys that hashes do not tell apart.
    needs_all: bool,
    /// The family of the last key, and whether hashes tell its keys apart.
    last: Option<(ColumnFamilyId, bool)>,
}

impl<'a, 'd> KeyBuckets<'a, 'd> {
    fn new(locks: &'a OccLockBuckets, db: &'d Db) -> KeyBuckets<'a, 'd> {
        KeyBuckets { locks, db, buckets: Vec::new(), needs_all: false, last: None }
    }

    fn add(&mut self, family: ColumnFamilyId, key: &[u8]) {
        if self.last.is_none_or(|(last, _)| last != family) {
            self.last = Some((family, order_of(self.db.engine(), family).is_none()));
        }
        self.needs_all |= self.last.is_some_and(|(_, is_hashed)| !is_hashed);
        let hash = xxh3_64(key, u64::from(family.0));
        self.buckets.push((hash % self.locks.len() as u64) as usize);
    }

    fn add_batch(&mut self, batch: &WriteBatch) {
        for op in batch.iter() {
            match key_of(&op) {
                Some((_, true, _)) => self.needs_all = true,
                Some((family, false, key)) => self.add(family, &key),
                None => {}
            }
        }
    }

    fn lock(mut self) -> OccGuard<'a> {
        let Buckets { gate, mutexes } = &*self.locks.0;
        if self.needs_all {
            return OccGuard { _gate: Gate::Alone { _guard: gate.write() }, _buckets: Vec::new() };
        }
        let shared = Gate::Shared { _guard: gate.read() };
        self.buckets.sort_unstable();
        self.buckets.dedup();
        OccGuard { _gate: shared, _buckets: self.buckets.iter().map(|&at| mutexes[at].lock()).collect() }
    }
}
