//! The process, its host, and the local time.

use std::fmt;

/// The id of this process.
pub fn process_id() -> u32 {
    std::process::id()
}

/// The id of this thread; on Linux as the kernel and `top -H` show it.
pub fn thread_id() -> u64 {
    crate::posix::os::thread_id()
}

/// The name of this machine.
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Number of threads that can run at the same time; 1 if unknown.
pub fn available_parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A date and time of day in the local time zone. Displays as "2026/11/20-20:25:43".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalTime {
    /// The year in full, such as 2026.
    pub year: i32,
    /// 1 to 12.
    pub month: i32,
    /// 1 to 31.
    pub day: i32,
    /// 0 to 23.
    pub hour: i32,
    /// 0 to 59.
    pub minute: i32,
    /// 0 to 60.
    pub second: i32,
}

impl fmt::Display for LocalTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LocalTime { year, month, day, hour, minute, second } = self;
        write!(f, "{year:04}/{month:02}/{day:02}-{hour:02}:{minute:02}:{second:02}")
    }
}

/// The local time of a point in time in Unix seconds.
pub fn local_time(seconds: u64) -> LocalTime {
    // The form of `time_t` on every 64-bit system.
    let time = i64::try_from(seconds).unwrap_or(i64::MAX);
    let mut tm = libc::tm {
        tm_sec: 0,
        tm_min: 0,
        tm_hour: 0,
        tm_mday: 1,
        tm_mon: 0,
        tm_year: 70,
        tm_wday: 0,
        tm_yday: 0,
        tm_isdst: 0,
        tm_gmtoff: 0,
        tm_zone: std::ptr::null_mut(),
    };
    // SAFETY: both pointers are to live local values; on failure `tm` keeps its content.
    unsafe { libc::localtime_r(&raw const time, &raw mut tm) };
    LocalTime {
        year: tm.tm_year.saturating_add(1900),
        month: tm.tm_mon + 1,
        day: tm.tm_mday,
        hour: tm.tm_hour,
        minute: tm.tm_min,
        second: tm.tm_sec,
    }
}

/// The first directory of this process whose file system does not sync directories. It deserves a
/// line in the LOG, because its names are only as durable as that file system makes them.
pub fn unsynced_directory() -> Option<&'static std::path::Path> {
    crate::posix::refused::unsynced_directory()
}

/// The soft limit of descriptors of this process; `None` if there is no limit, or it is unknown.
pub fn open_files_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Raises the soft limit of descriptors to the hard limit and returns it. For programs only: it
/// affects the whole process and its children.
pub fn raise_open_files_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    // If the system refuses, the limit stays.
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).ok();
    open_files_limit()
}
