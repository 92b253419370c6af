//! Options of scans over several planned ranges: RocksDB's `MultiScanArgs`.
//!
//! Source: RocksDB `include/rocksdb/options.h`; its `DBIter::ValidateScanOptions` has the rules for
//! refused ranges.

use esker_base::{Error, Result};
use esker_format::key::InternalKeyComparator;
use esker_table::ScanRanges;

/// The ranges of [`Db::new_multi_scan`](crate::Db::new_multi_scan) and
/// [`DbIterator::prepare`](crate::DbIterator::prepare), and how their blocks are read.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let db = esker::Db::open_default(dir.path())?;
/// use esker::{MultiScanArgs, ReadOptions};
///
/// let mut ranges = MultiScanArgs::new();
/// ranges.insert("a", "b");
/// ranges.insert_unbounded("m");
/// let family = db.default_column_family();
/// let mut scans = db.new_multi_scan(ReadOptions::default(), &family, &ranges)?;
/// assert!(scans.next_scan().is_some());
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MultiScanArgs {
    /// The ranges, ascending: each begins at or after the limit of the one before it. Only the last
    /// may lack a limit; it then goes to the end of the family.
    pub ranges: ScanRanges,
    /// Blocks of a file with no more bytes than this between them are read as one. Default 16 KiB.
    pub io_coalesce_threshold: u64,
    /// Most bytes of blocks, as stored, that are read ahead and held at once, in all files
    /// together. Blocks beyond it are read when the scan reaches them. RocksDB's limit is for each
    /// file, and an iterator that reaches it fails with `PrefetchLimitReached`. Default 0: 8 MiB in
    /// all, and 1 MiB for one file in one range; the ordinary read-ahead reads the blocks beyond.
    pub max_prefetch_size: u64,
    /// Accepted without effect: blocks that are read ahead always go to the kernel together,
    /// through `io_uring` if there is one. Default false.
    pub use_async_io: bool,
    /// Whether each range is read from its limit, which it must have, to its start. The ranges are
    /// given in ascending order in any case, and come in that order. Default false.
    pub reverse: bool,
}

impl Default for MultiScanArgs {
    fn default() -> MultiScanArgs {
        MultiScanArgs {
            ranges: ScanRanges::default(),
            io_coalesce_threshold: 16 << 10,
            max_prefetch_size: 0,
            use_async_io: false,
            reverse: false,
        }
    }
}

impl MultiScanArgs {
    /// Arguments without ranges.
    pub fn new() -> MultiScanArgs {
        MultiScanArgs::default()
    }

    /// Adds the range from `start` up to, not including, `limit`.
    pub fn insert(&mut self, start: impl AsRef<[u8]>, limit: impl AsRef<[u8]>) {
        self.ranges.push(start.as_ref(), Some(limit.as_ref()));
    }

    /// Adds the range from `start` to the end; none may follow.
    pub fn insert_unbounded(&mut self, start: impl AsRef<[u8]>) {
        self.ranges.push(start.as_ref(), None);
    }

    /// Checks ranges and options. `icmp` compares keys without timestamps.
    /// # Errors
    /// `InvalidArgument` as [`Db::new_multi_scan`](crate::Db::new_multi_scan) says.
    pub(crate) fn check(&self, icmp: &InternalKeyComparator) -> Result<()> {
        let refuse = |why: String| Err(Error::invalid_argument(format!("MultiScanArgs: {why}")));
        if self.ranges.is_empty() {
            return refuse("there are no ranges".to_owned());
        }
        let mut end_of_last = None;
        for (i, (start, limit)) in self.ranges.iter().enumerate() {
            match limit {
                Some(limit) if icmp.compare_user_keys(start, limit).is_ge() => {
                    return refuse(format!("range {i} does not begin before its limit"));
                }
                None if self.reverse => {
                    return refuse(format!("range {i} has no limit, and reverse scans need one"));
                }
                _ => {}
            }
            match end_of_last {
                Some(None) => {
                    return refuse(format!("range {} has no limit, and another one follows it", i - 1));
                }
                Some(Some(end)) if icmp.compare_user_keys(start, end).is_lt() => {
                    return refuse(format!("range {i} begins before range {} ends", i - 1));
                }
                _ => {}
            }
            end_of_last = Some(limit);
        }
        Ok(())
    }
}

esker_base::setters! {
    MultiScanArgs {
        io_coalesce_threshold: u64;
        max_prefetch_size: u64;
        use_async_io: bool;
        reverse: bool;
    }
}
