//! Watched cursors of a scan, for explained scans.
//!
//! In: the cursor over one run. Out: the same with a watch around it.

use esker_base::FileNumber;
use esker_base::sync::Arc;
use esker_format::cursor::ScanIterator;

/// The run of a cursor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum WatchedRun {
    /// The memtable with this number.
    Memtable(u64),
    /// The file with this number.
    File(FileNumber),
}

/// Wraps the cursors that a scan opens: an explained scan counts the work of each.
pub(crate) trait RunWatch: Send + Sync {
    /// Wraps `iter`, a cursor over the run `what`.
    fn over(self: Arc<Self>, what: WatchedRun, iter: Box<dyn ScanIterator>) -> Box<dyn ScanIterator>;
}
