use super::*;
use crate::clock::MockClock;
use crate::fault::{FaultFs, OpKind};
use crate::fs::FileSystem;
use crate::mem::MemFs;
use crate::rate_limiter::RateLimiterMode;
use std::path::Path;
use std::time::Duration;

#[test]
fn appends_wait_for_the_limiter() {
    let clock = Arc::new(MockClock::new(0));
    let limiter = Arc::new(RateLimiter::new(1000, 100_000, 10, RateLimiterMode::WritesOnly));
    let inner = MemFs::new().new_writable_file(Path::new("/f")).unwrap();
    let mut file =
        PacedWritableFile::new(inner, Some((limiter, IoPriority::Low)), Arc::clone(&clock) as _, 0, None);
    file.append(&[0; 1000]).unwrap();
    assert_eq!(clock.slept(), Duration::from_millis(900));
    assert_eq!(file.file_size(), 1000);
}

#[test]
fn write_back_starts_behind_the_end_in_whole_pages() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let inner = fs.new_writable_file(Path::new("/f")).unwrap();
    let mut file = PacedWritableFile::new(inner, None, Arc::new(MockClock::new(0)), 500_000, None);
    fs.list_ops(true);
    for _ in 0..30 {
        file.append(&[0; 100_001]).unwrap();
    }
    let ranges = fs.take_ops().into_iter().filter(|op| op.kind == OpKind::RangeSync);
    let ranges: Vec<_> = ranges.map(|op| (op.offset.unwrap(), op.bytes)).collect();
    // 16 appends are the first to reach 500,000 bytes and a MiB.
    assert_eq!(ranges[0], (0, (16 * 100_001 - (1 << 20)) / 4096 * 4096));
    for pair in ranges.windows(2) {
        assert_eq!(pair[0].0 + pair[0].1, pair[1].0, "the ranges have no gaps");
        assert!(pair[1].1 >= 500_000);
    }
    assert_eq!(ranges.len(), 3);
}
