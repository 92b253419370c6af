//! Any bytes as a record of a compaction's progress: refused, or written and read again as the
//! same.

use esker_format::compaction_progress::CompactionProgress;

/// One input.
pub fn run(data: &[u8]) {
    if let Ok(Some(progress)) = CompactionProgress::decode(data) {
        assert_eq!(CompactionProgress::decode(&progress.encode()).unwrap(), Some(progress.clone()));
        let mut twice = progress.clone();
        twice.add(progress.clone());
        assert_eq!(twice.next_key, progress.next_key);
        assert_eq!(twice.output.files.len(), 2 * progress.output.files.len());
    }
}
