//! The cost of a step: time, CPU, memory, bytes written.
//!
//! Source: `clock_gettime(CLOCK_PROCESS_CPUTIME_ID)`, `/proc/self/{status,io,clear_refs}`
//! (proc(5)).
//!
//! Invariant: this process runs one step of one engine at a time, so the step alone uses the
//! resources of the process.

use crate::engine::RivalResult;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

/// One measurement of one step on one engine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Number of operations; the step defines the unit.
    pub(crate) operations: u64,
    /// Seconds that the operations took.
    pub(crate) seconds: f64,
    /// Seconds from the end of the operations to the end of the background work.
    pub(crate) settle_seconds: f64,
    /// CPU time of all threads, including background work, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Largest resident memory during the step, bytes.
    pub(crate) peak_memory_bytes: u64,
    /// Bytes written to files, background work included.
    pub(crate) written_bytes: u64,
    /// Bytes of stored keys and values.
    pub(crate) user_bytes: u64,
    /// Bytes of the database's files after the step.
    pub(crate) disk_bytes: u64,
    /// Digest of the values read ([`crate::keys::Digest`]); 0 for none.
    pub(crate) digest: u64,
    /// Whether the time limit ended the step.
    pub(crate) cut: bool,
}

impl Sample {
    /// Operations per second. With `counts_settling`, the time includes the background work.
    pub(crate) fn rate(&self, counts_settling: bool) -> f64 {
        let settle = if counts_settling { self.settle_seconds } else { 0.0 };
        self.operations as f64 / (self.seconds + settle).max(1e-9)
    }
}

/// The state of the process at the start of a step.
#[derive(Debug)]
pub(crate) struct Meter {
    cpu: Duration,
    written: WriteCount,
}

impl Meter {
    /// Starts a measurement. `mapped_bytes` is the engine's count of bytes stored into mapped
    /// files.
    pub(crate) fn start(mapped_bytes: u64) -> Meter {
        // Resets the kernel's maximum of resident memory. If this is forbidden, the maximum covers
        // the whole life of the process.
        drop(std::fs::write("/proc/self/clear_refs", "5"));
        Meter { cpu: cpu_time(), written: WriteCount::now(mapped_bytes) }
    }

    /// Stores the resources used since the start in `sample`.
    pub(crate) fn finish(&self, sample: &mut Sample, dir: &Path, mapped_bytes: u64) -> RivalResult<()> {
        sample.cpu_seconds = (cpu_time().saturating_sub(self.cpu)).as_secs_f64();
        sample.written_bytes = WriteCount::now(mapped_bytes).since(&self.written);
        sample.peak_memory_bytes = status_bytes("VmHWM:");
        sample.disk_bytes = directory_bytes(dir)?;
        Ok(())
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Bytes written: the kernel's count for this process, and the engine's for mapped files.
#[derive(Debug)]
struct WriteCount {
    by_calls: u64,
    /// Bytes of changed file pages, including mapped pages. The kernel does not count pages of file
    /// systems in memory.
    dirtied: u64,
    mapped: u64,
}

impl WriteCount {
    fn now(mapped: u64) -> WriteCount {
        let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        WriteCount {
            by_calls: number_after(&io, "wchar:"),
            dirtied: number_after(&io, "write_bytes:"),
            mapped,
        }
    }

    fn since(&self, start: &WriteCount) -> u64 {
        let stored = (self.by_calls + self.mapped).saturating_sub(start.by_calls + start.mapped);
        stored.max(self.dirtied.saturating_sub(start.dirtied))
    }
}

/// Bytes that this process has fetched from a storage device.
pub(crate) fn device_bytes_read() -> u64 {
    number_after(&std::fs::read_to_string("/proc/self/io").unwrap_or_default(), "read_bytes:")
}

fn status_bytes(field: &str) -> u64 {
    number_after(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), field) * 1024
}

fn number_after(text: &str, field: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Space that the files below `dir` take, bytes.
pub(crate) fn directory_bytes(dir: &Path) -> RivalResult<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut total = 0;
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(format!("{}: {error}", dir.display())),
    };
    for entry in entries {
        // Background work may have deleted the file.
        let Ok(entry) = entry else { continue };
        let Ok(data) = entry.metadata() else { continue };
        total += if data.is_dir() { directory_bytes(&entry.path())? } else { data.blocks() * 512 };
    }
    Ok(total)
}

/// The time limit of a step. A look at the clock costs as much as a fast read, so a loop looks at
/// the clock only at every `LOOK_EVERY`-th operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    end: Instant,
}

/// Operations between two looks at the clock.
const LOOK_EVERY: u64 = 64;

impl Deadline {
    /// A deadline at `limit` from now.
    pub(crate) fn after(limit: Duration) -> Deadline {
        Deadline { end: Instant::now() + limit }
    }

    /// Whether the deadline has passed.
    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.end
    }

    /// Calls `operation` with 0, 1, … `count` - 1, but ends earlier if the time is over. Returns
    /// the number of calls.
    pub(crate) fn repeat(
        self,
        count: u64,
        mut operation: impl FnMut(u64) -> RivalResult<()>,
    ) -> RivalResult<u64> {
        for i in 0..count {
            if i % LOOK_EVERY == 0 && i > 0 && self.is_over() {
                return Ok(i);
            }
            operation(i)?;
        }
        Ok(count)
    }
}
