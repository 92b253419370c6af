//! The size and the age of a transaction, writes that its reads do not look for, and its
//! commit-time batch.
//!
//! Source of the semantics: RocksDB `utilities/transactions/transaction_base.cc`.

use super::optimistic::Own;
use super::pessimistic::PessimisticCore;
use super::{OptimisticTransaction, Transaction, WriteBatchWithIndex};
use esker_base::Result;
use esker_format::write_batch::{BatchOp, WriteBatch};
use std::ops::Range;
use std::time::Duration;

/// A kind of op that a transaction counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum CountedOp {
    Put,
    PutEntity,
    /// Of a key, also a single one, or of a range.
    Delete,
    Merge,
}

/// Number of ops by kind, those that were spilled included.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpCounts {
    puts: u64,
    put_entities: u64,
    deletes: u64,
    merges: u64,
}

impl OpCounts {
    /// Adds an op.
    pub(super) fn count(&mut self, op: CountedOp) {
        match op {
            CountedOp::Put => self.puts += 1,
            CountedOp::PutEntity => self.put_entities += 1,
            CountedOp::Delete => self.deletes += 1,
            CountedOp::Merge => self.merges += 1,
        }
    }

    /// The counts of a batch.
    pub(super) fn of(batch: &WriteBatch) -> OpCounts {
        let mut counts = OpCounts::default();
        for op in batch.iter() {
            match op {
                BatchOp::Put { .. } | BatchOp::TimedPut { .. } | BatchOp::BlobIndex { .. } => {
                    counts.count(CountedOp::Put);
                }
                BatchOp::PutEntity { .. } => counts.count(CountedOp::PutEntity),
                BatchOp::Delete { .. } | BatchOp::SingleDelete { .. } | BatchOp::DeleteRange { .. } => {
                    counts.count(CountedOp::Delete);
                }
                BatchOp::Merge { .. } => counts.count(CountedOp::Merge),
                _ => {}
            }
        }
        counts
    }
}

/// Bytes of a batch whose ops are not indexed: ascending ranges. The last one has no end while
/// indexing is disabled.
#[derive(Debug, Default)]
pub(super) struct Unindexed {
    ranges: Vec<Range<usize>>,
}

impl Unindexed {
    /// Whether all ops are indexed.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether the op at this byte is not indexed. Takes a binary search.
    #[inline]
    pub(super) fn has(&self, at: usize) -> bool {
        let behind = self.ranges.partition_point(|range| range.start <= at);
        behind > 0 && at < self.ranges[behind - 1].end
    }

    /// Ops from byte `at` on are not indexed.
    fn disable(&mut self, at: usize) {
        match self.ranges.last_mut() {
            // It is open already, or no op has come since it was closed.
            Some(last) if last.end >= at => last.end = usize::MAX,
            _ => self.ranges.push(at..usize::MAX),
        }
    }

    /// Ops from byte `at` on are indexed.
    fn enable(&mut self, at: usize) {
        if let Some(open) = self.ranges.last_mut().filter(|range| range.end == usize::MAX) {
            open.end = at;
            if open.start >= at {
                self.ranges.pop();
            }
        }
    }

    /// The first `bytes` bytes have left the batch. Indexing stays as it is, enabled or disabled.
    pub(super) fn drop_front(&mut self, bytes: usize) {
        for range in &mut self.ranges {
            range.start = range.start.saturating_sub(bytes);
            if range.end != usize::MAX {
                range.end = range.end.saturating_sub(bytes);
            }
        }
        self.ranges.retain(|range| !range.is_empty());
    }

    /// The batch has `left` bytes left. Indexing stays as it is, enabled or disabled.
    pub(super) fn cut(&mut self, left: usize) {
        for range in &mut self.ranges {
            range.start = range.start.min(left);
            if range.end != usize::MAX {
                range.end = range.end.min(left);
            }
        }
        self.ranges.retain(|range| !range.is_empty());
    }
}

impl WriteBatchWithIndex {
    /// Whether later ops go into the index.
    pub(super) fn is_indexing(&self) -> bool {
        !self.unindexed.has(self.batch.ops_bytes().len())
    }

    /// Leaves later ops out of the index, or not.
    pub(super) fn set_indexing(&mut self, is_enabled: bool) {
        let at = self.batch.ops_bytes().len();
        if is_enabled { self.unindexed.enable(at) } else { self.unindexed.disable(at) }
    }
}

impl PessimisticCore {
    fn num_keys(&self) -> u64 {
        self.locker.num_point_locks() as u64
    }
}

impl Own {
    fn num_keys(&self) -> u64 {
        self.touched.len() as u64
    }
}

/// Gives a kind of transaction its counts. `$open` opens a database for the example, `$keys` says
/// which keys count. `$state` has the batch.
macro_rules! counts_of {
    ($name:ident, $state:ident, $open:literal, $keys:literal, $core:ident, $core_mut:ident) => {
        impl $state {
            /// Adds an op to the batch and counts it.
            /// # Errors
            /// Those of `add`.
            pub(super) fn add(
                &mut self,
                op: CountedOp,
                add: impl FnOnce(&mut WriteBatchWithIndex) -> Result<()>,
            ) -> Result<()> {
                add(&mut self.batch)?;
                self.counts.count(op);
                Ok(())
            }
        }

        /// Counts, and the age.
        impl $name {
            #[doc = $keys]
            #[doc = ""]
            #[doc = "```"]
            #[doc = "# let dir = esker_testkit::TempDir::new(\"doc\");"]
            #[doc = "# let options = esker::Options::new().create_if_missing(true);"]
            #[doc = $open]
            #[doc = "let txn = db.begin_transaction();"]
            #[doc = "txn.put(\"ada\", \"900\")?;"]
            #[doc = "txn.put(\"ada\", \"901\")?;"]
            #[doc = "txn.delete(\"grace\")?;"]
            #[doc = "assert_eq!((txn.num_keys(), txn.num_puts(), txn.num_deletes()), (2, 2, 1));"]
            #[doc = "assert_eq!((txn.num_put_entities(), txn.num_merges()), (0, 0));"]
            #[doc = "println!(\"began {:?} ago\", txn.elapsed_time());"]
            #[doc = "# Ok::<_, esker::Error>(())"]
            #[doc = "```"]
            pub fn num_keys(&self) -> u64 {
                self.$core().num_keys()
            }

            /// Number of puts, without entities. A rollback to a save point takes back the later
            /// ones; after the end of the transaction all counts are 0.
            pub fn num_puts(&self) -> u64 {
                self.$core().counts.puts
            }

            /// Number of entities that it has put.
            pub fn num_put_entities(&self) -> u64 {
                self.$core().counts.put_entities
            }

            /// Number of deletions: of keys, also single ones, and of ranges.
            pub fn num_deletes(&self) -> u64 {
                self.$core().counts.deletes
            }

            /// Number of merge operands that it has added.
            pub fn num_merges(&self) -> u64 {
                self.$core().counts.merges
            }

            /// The time since it began, by the clock of the database's environment. A rollback does
            /// not begin it anew.
            pub fn elapsed_time(&self) -> Duration {
                let now = self.db().engine().env.clock.monotonic_nanos();
                Duration::from_nanos(now.saturating_sub(self.$core().began))
            }

            #[doc = "Leaves later writes out of the index: the reads and iterators of this transaction do not"]
            #[doc = "find them. A write that nobody reads costs no memory for the index then."]
            #[doc = ""]
            #[doc = "```"]
            #[doc = "# let dir = esker_testkit::TempDir::new(\"doc\");"]
            #[doc = "# let options = esker::Options::new().create_if_missing(true);"]
            #[doc = $open]
            #[doc = "let txn = db.begin_transaction();"]
            #[doc = "txn.disable_indexing();"]
            #[doc = "txn.put(\"log/1\", \"never read back\")?;"]
            #[doc = "txn.enable_indexing();"]
            #[doc = "txn.put(\"ada\", \"900\")?;"]
            #[doc = "assert!(txn.get(\"log/1\")?.is_none() && txn.get(\"ada\")?.is_some());"]
            #[doc = "txn.commit()?;"]
            #[doc = "assert!(db.get(\"log/1\")?.is_some());"]
            #[doc = "# Ok::<_, esker::Error>(())"]
            #[doc = "```"]
            pub fn disable_indexing(&self) {
                self.$core_mut().batch.set_indexing(false);
            }

            /// Lets the transaction find its later writes again. Those before stay hidden from it
            /// until the commit.
            pub fn enable_indexing(&self) {
                self.$core_mut().batch.set_indexing(true);
            }
        }
    };
}

counts_of!(
    Transaction,
    PessimisticCore,
    "let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;",
    "Number of keys that it has locked one by one. Costs a look at each lock.",
    core,
    core_mut
);
counts_of!(
    OptimisticTransaction,
    Own,
    "let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;",
    "Number of keys that the commit checks. Ranges do not count.",
    own,
    own
);

impl Transaction {
    /// Calls `change` with the commit-time batch: ops that the commit of the prepared transaction
    /// writes together with the transaction's own, and before these. They take no locks, are not in
    /// the prepared section, and no read of the transaction finds them. Keys of families with
    /// timestamps end in their timestamp here.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// let txn = db.begin_transaction();
    /// txn.set_name(b"transfer 17")?;
    /// txn.put("ada", "900")?;
    /// txn.prepare()?;
    /// txn.with_commit_time_write_batch(|batch| batch.put("position", "binlog.000042:1337"))?;
    /// txn.commit()?;
    /// assert!(db.get("position")?.is_some());
    /// # Ok::<_, esker::Error>(())
    /// ```
    ///
    /// A commit without a prepare refuses a batch that has ops (`InvalidArgument`), and under
    /// `WritePrepared` and `WriteUnprepared` each commit does (`NotSupported`). A rollback, and the
    /// end of the transaction, empty it.
    ///
    /// # Panics
    /// If `change` uses the transaction.
    pub fn with_commit_time_write_batch<R>(&self, change: impl FnOnce(&mut WriteBatch) -> R) -> R {
        change(&mut self.core_mut().commit_time)
    }
}

#[cfg(test)]
mod tests {
    use super::Unindexed;
    use esker_testkit::seed::for_each_seed;

    #[test]
    fn bytes_are_indexed_as_in_a_model_and_adjacent_ranges_are_one() {
        for_each_seed("unindexed bytes", 200, |seed, _| {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut unindexed, mut model) = (Unindexed::default(), Vec::new());
            let mut is_enabled = true;
            for _ in 0..60 {
                match random.u32(..8) {
                    0 | 1 => {
                        is_enabled = false;
                        unindexed.disable(model.len());
                    }
                    2 | 3 => {
                        is_enabled = true;
                        unindexed.enable(model.len());
                    }
                    4 if random.bool() => {
                        model.truncate(random.usize(..=model.len()));
                        unindexed.cut(model.len());
                    }
                    5 if random.bool() => {
                        let bytes = random.usize(..=model.len());
                        model.drain(..bytes);
                        unindexed.drop_front(bytes);
                    }
                    _ => model.resize(model.len() + random.usize(1..5), !is_enabled),
                }
                let found: Vec<bool> = (0..model.len()).map(|at| unindexed.has(at)).collect();
                assert_eq!(found, model);
                assert_eq!(unindexed.has(model.len() + 7), !is_enabled, "later ops");
            }
        });
        let mut unindexed = Unindexed::default();
        for at in 0..100 {
            unindexed.disable(at);
            unindexed.enable(at + 1);
        }
        assert_eq!(unindexed.ranges.len(), 1);
    }
}
