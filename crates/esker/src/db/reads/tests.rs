//! The release of a snapshot makes the database check once for compactions that waited for it.

use crate::options::{CompactionStyle, Options};
use crate::{Db, Env};
use esker_base::SequenceNumber;
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_env::mem::MemFs;

/// Otherwise each release of a snapshot, while others write, would make a job search for a
/// compaction in vain.
#[test]
fn a_released_snapshot_asks_for_no_compaction_that_does_not_come() {
    for (style, preserve) in
        [(CompactionStyle::Fifo, 0), (CompactionStyle::Universal, 0), (CompactionStyle::Level, 1000)]
    {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.env = Env::with_fs(Arc::new(MemFs::new()));
        options.cf.compaction_style = style;
        options.cf.preserve_internal_time_seconds = preserve;
        let db = Db::open(&options, "/db").unwrap();
        db.put("a", "1").unwrap();
        db.compact_range(None, None).unwrap();
        let snapshot = db.snapshot();
        db.put("a", "2").unwrap();
        drop(snapshot);
        db.wait_for_background_work().unwrap();
        let threshold = db.engine().snapshot_threshold.load(Ordering::SeqCst);
        assert_eq!(threshold, SequenceNumber::MAX.0, "{style:?}");
        db.close().unwrap();
    }
}
