//! Operations per interval, as a CSV file: `secs_elapsed,interval_qps`.

use crate::output::{BenchOutput, BenchStop};
use esker::internals::base::sync::atomic::{AtomicU64, Ordering};
use esker::internals::env::{Clock, FileSystem, WritableFile};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// The operations of all threads so far.
#[derive(Debug, Default)]
pub(crate) struct IntervalReport {
    operations: AtomicU64,
}

impl IntervalReport {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.operations.fetch_add(count, Ordering::Relaxed);
    }

    /// Creates the file.
    /// # Errors
    /// `Failed` naming the file.
    pub(crate) fn create(fs: &dyn FileSystem, path: &Path) -> Result<Box<dyn WritableFile>, BenchStop> {
        let mut file =
            fs.new_writable_file(path).map_err(|e| BenchStop::Failed(format!("--report_file: {e}")))?;
        append(file.as_mut(), "secs_elapsed,interval_qps\n")
            .map_err(|e| BenchStop::Failed(format!("--report_file: {e}")))?;
        Ok(file)
    }

    /// Writes a line every `interval` until the other end of `stop` is dropped.
    pub(crate) fn run(
        &self,
        mut file: Box<dyn WritableFile>,
        interval: Duration,
        clock: &dyn Clock,
        stop: &Receiver<()>,
        output: &BenchOutput,
    ) {
        let started = clock.monotonic_nanos();
        let mut reported = 0;
        while stop.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            let done = self.operations.load(Ordering::Relaxed);
            let seconds = (clock.monotonic_nanos() - started + 500_000_000) / 1_000_000_000;
            if let Err(e) = append(file.as_mut(), &format!("{seconds},{}\n", done - reported)) {
                output.report(format_args!("--report_file: {e}; no more of it\n"));
                return;
            }
            reported = done;
        }
        if let Err(e) = file.close() {
            output.report(format_args!("--report_file: {e}\n"));
        }
    }
}

fn append(file: &mut dyn WritableFile, line: &str) -> esker::Result<()> {
    file.append(line.as_bytes())?;
    file.flush()
}
