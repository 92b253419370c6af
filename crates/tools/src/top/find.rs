//! The statistics server that a user means: by its socket, a directory or a process.
//!
//! In: a path or a number. Out: the path of a socket. A directory leads to the process that holds
//! its `LOCK`; a process leads to the sockets on which it listens (proc(5), `/proc/PID/fd` and
//! `/proc/PID/net/unix`), of which those count that begin with a server's first line.

use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use crate::info::holder::lock_of;
use esker_monitor::StatisticsClient;
use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The flag of a socket that listens, in `/proc/net/unix`: the kernel's `__SO_ACCEPTCON`.
const LISTENS: u64 = 0x10000;
/// The wait for the first line of one of several sockets: others may be silent by their nature.
const PROBE: Duration = Duration::from_millis(300);
/// The same if a process has one socket only.
const LONE_PROBE: Duration = Duration::from_secs(2);
const HINT: &str = "start it with esker_monitor's StatisticsServer, or db_bench with --statistics_socket";

/// The socket for `target`.
pub(super) fn socket(target: &Path, host: &Host) -> CommandOutcome<PathBuf> {
    match std::fs::metadata(target) {
        Ok(found) if found.file_type().is_socket() => Ok(target.to_owned()),
        Ok(found) if found.is_dir() => of_directory(target, host),
        Ok(_) => Err(failed(target, "is neither a socket nor a directory")),
        Err(e) => match target.to_str().and_then(|text| text.parse().ok()) {
            Some(pid) => of_process(pid, None),
            None => Err(failed(target, &e.to_string())),
        },
    }
}

fn failed(target: &Path, why: &str) -> Failure {
    Failure::new(format_args!("{}: {why}", target.display()))
}

fn of_directory(dir: &Path, host: &Host) -> CommandOutcome<PathBuf> {
    let lock = lock_of(host, dir);
    let mut last = failed(dir, "no process has a database open here, as far as this system tells");
    for holder in lock.holders.iter().filter(|holder| holder.pid > 0) {
        match of_process(holder.pid, Some(dir)) {
            Ok(socket) => return Ok(socket),
            Err(why) => {
                let program = holder.program.as_deref().unwrap_or("a program");
                last = failed(dir, &format!("open in {program}: {why}"));
            }
        }
    }
    Err(last)
}

/// The server of process `pid`: the one for `dir`, if given.
fn of_process(pid: u32, dir: Option<&Path>) -> CommandOutcome<PathBuf> {
    let fds = PathBuf::from(format!("/proc/{pid}/fd"));
    let entries = std::fs::read_dir(&fds).map_err(|e| failed(&fds, &e.to_string()))?;
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let inodes: BTreeSet<u64> = links.filter_map(|link| inode(link.to_str()?)).collect();
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/unix")).unwrap_or_default();
    let base = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    let paths = table.lines().filter_map(|line| listening(line, &inodes));
    let mut servers: Vec<PathBuf> = paths.map(|path| base.join(path)).collect();
    let patience = if servers.len() == 1 { LONE_PROBE } else { PROBE };
    servers.retain(|path| is_server(path, pid, dir, patience));
    match servers.as_slice() {
        [] => Err(Failure::new(format_args!("process {pid} serves no statistics; {HINT}"))),
        [one] => Ok(one.clone()),
        several => {
            let paths: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
            let all = paths.join(", ");
            Err(Failure::new(format_args!("process {pid} serves several databases; name one of {all}")))
        }
    }
}

/// The inode of a link `socket:[INODE]`.
fn inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The path of a listening socket, if its inode is one of `inodes`. A line is
/// `0000000000000000: 00000002 00000000 00010000 0001 01 24567 /run/socket`.
fn listening<'a>(line: &'a str, inodes: &BTreeSet<u64>) -> Option<&'a str> {
    let mut words = line.split_ascii_whitespace();
    let flags = u64::from_str_radix(words.nth(3)?, 16).ok()?;
    let number = words.nth(2)?;
    let inode = number.parse().ok()?;
    // A path may have spaces.
    let (_, path) = line.split_once(&format!(" {number} "))?;
    let is_file = !path.is_empty() && !path.starts_with('@');
    (flags & LISTENS != 0 && inodes.contains(&inode) && is_file).then_some(path)
}

fn is_server(socket: &Path, pid: u32, dir: Option<&Path>, patience: Duration) -> bool {
    let Ok(mut client) = StatisticsClient::connect_within(socket, patience) else { return false };
    if client.hello().pid != pid {
        return false;
    }
    let Some(dir) = dir else { return true };
    let canonical = |path: &Path| std::fs::canonicalize(path).ok();
    let is_same = |path: &str| {
        let base = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        canonical(&base.join(path)).is_some_and(|path| Some(path) == canonical(dir))
    };
    client.snapshot().is_ok_and(|snapshot| is_same(&snapshot.process.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_name_listening_sockets() {
        let inodes = BTreeSet::from([24567]);
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 24567 /run/a socket";
        assert_eq!(listening(line, &inodes), Some("/run/a socket"));
        for other in [
            "0000000000000000: 00000002 00000000 00010000 0001 01 24568 /run/socket",
            "0000000000000000: 00000003 00000000 00000000 0001 03 24567 /run/socket",
            "0000000000000000: 00000002 00000000 00010000 0001 01 24567 @abstract",
            "0000000000000000: 00000002 00000000 00010000 0001 01 24567",
            "Num       RefCount Protocol Flags    Type St Inode Path",
            "",
        ] {
            assert_eq!(listening(other, &inodes), None, "{other}");
        }
        assert_eq!((inode("socket:[12]"), inode("pipe:[12]")), (Some(12), None));
    }
}
