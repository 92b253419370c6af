//! A description of the machine, for readers of the figures.

use crate::report::Machine;
use esker::internals::env::system;
use std::path::Path;

/// Describes this machine, with `directory` for the databases.
pub(crate) fn describe(directory: &Path) -> Machine {
    Machine {
        cpu: field("/proc/cpuinfo", "model name"),
        cpus: system::available_parallelism(),
        memory_bytes: number(&field("/proc/meminfo", "MemTotal")) * 1024,
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        file_system: file_system(directory),
        load_before: load(),
        load_after: String::new(),
    }
}

/// Load averages of the last 1, 5 and 15 minutes.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// The present local time.
pub(crate) fn now() -> system::LocalTime {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    system::local_time(since.as_secs())
}

fn field(file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_once(':').map_or("", |(_, value)| value.trim()).to_owned()
}

fn number(text: &str) -> u64 {
    text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// The type of the file system at the longest mount point that is a prefix of `directory`.
fn file_system(directory: &Path) -> String {
    let Ok(path) = directory.canonicalize() else { return String::new() };
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mount = |line: &str| {
        let mut parts = line.split_whitespace();
        let (_, point, kind) = (parts.next()?, parts.next()?.to_owned(), parts.next()?.to_owned());
        path.starts_with(&point).then_some((point.len(), kind))
    };
    mounts.lines().filter_map(mount).max().map_or(String::new(), |(_, kind)| kind)
}
