//! Any bytes as a job and as a result of a remote compaction: refused, or written and read again as
//! the same.

use esker_format::compaction_service::{CompactionServiceInput, CompactionServiceResult};

/// One input.
pub fn run(data: &[u8]) {
    if let Ok(job) = CompactionServiceInput::parse(data) {
        assert_eq!(CompactionServiceInput::parse(&job.to_bytes()).unwrap(), job);
    }
    if let Ok(result) = CompactionServiceResult::parse(data) {
        let again = CompactionServiceResult::parse(&result.to_bytes()).unwrap();
        assert_eq!(again.output_files, result.output_files);
        assert_eq!(again.stats, result.stats);
        assert_eq!(again.output_path, result.output_path);
        assert_eq!(again.status.is_ok(), result.status.is_ok());
    }
}
