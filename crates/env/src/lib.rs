//! The only way to the outside world: files, clocks, threads, randomness.
//!
//! Public items are for Esker's crates. Users see the part that `esker` re-exports.
//!
//! Reading order: [`fs`] and [`clock`] (the contracts), [`env`](mod@env) (all in one handle);
//! [`posix`] (the real file system); [`mem`], [`crash`] and [`fault`] (files in memory, crashes and
//! faults, for tests); [`read_many`](read_many()) (several reads together); [`direct`] (direct
//! I/O); [`thread_pool`] with [`thread_status`], and [`timer`]; [`rate_limiter`] and
//! [`file_writer`] (the pace of writes); [`sst_file_manager`] (disk space, and the pace of
//! deletions); [`info_log`]; [`random`] and [`system`]; [`forked`] (child processes, for tests).
//!
//! Invariants
//!  1. No other crate of the workspace opens a file, reads the clock, sleeps or starts a thread.
//!  2. Every file system passes the conformance suite (`tests/it/conformance.rs`).
//!  3. Every error of a file system names the operation and the path.
//!
//! A short crash test:
//!
//! ```
//! use esker_env::{CrashChoices, CrashFs, FaultFs, FileSystem, WritableFile};
//! use std::path::Path;
//! use std::sync::{Arc, Mutex};
//!
//! let disk = CrashFs::new();
//! let fs = FaultFs::new(Arc::new(disk.clone()));
//! let crashes = Arc::new(Mutex::new(Vec::new()));
//! let found = Arc::clone(&crashes);
//! fs.on_op(move |op| {
//!     found.lock().unwrap().push(disk.crash_clone(&CrashChoices::random(op.index)));
//! });
//! let mut wal = fs.new_writable_file(Path::new("/000004.log"))?;
//! wal.append(b"record")?;
//! wal.sync()?;
//! fs.clear_hook();
//! for disk in crashes.lock().unwrap().drain(..) {
//!     assert!(disk.children(Path::new("/"))?.len() <= 1); // open it, check what must be there
//! }
//! # Ok::<(), esker_base::Error>(())
//! ```
#![warn(missing_docs)]

// This crate refuses for the whole engine, because every crate of the engine needs it.
#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "Esker's engine needs a 64-bit system: it keeps sizes and offsets of files, which have 64 bits, in `usize`. On \
     32-bit systems `esker-format` and `esker-wasm` read databases."
);

pub mod clock;
pub mod counted;
pub mod crash;
pub mod descriptors;
pub mod direct;
pub mod env;
pub mod fault;
pub mod file_writer;
pub mod forked;
pub mod fs;
pub mod handoff;
pub mod info_log;
pub mod io_trace;
pub mod mem;
pub mod posix;
pub mod random;
pub mod rate_limiter;
mod read_many;
pub mod sst_file_manager;
mod stop_watch;
pub mod system;
pub mod thread_pool;
pub mod thread_status;
pub mod timer;

#[cfg(shuttle)]
pub use clock::SimulatedClock;
pub use clock::{Clock, MockClock, SystemClock};
pub use counted::{CountedRandomAccessFile, CountedWritableFile, IoWatch, ReadCounter};
pub use crash::{CrashChoices, CrashFs};
pub use direct::{AlignedBuffer, Alignment};
pub use env::Env;
pub use fault::{FaultFs, FaultOp, FaultRule, FaultSchedule, OpKind};
pub use file_writer::PacedWritableFile;
pub use fs::{
    Directory, FileLock, FileSystem, RandomAccessFile, SequentialFile, WritableFile, WriteLifeTimeHint,
    replace_file,
};
pub use handoff::ChecksumHandoff;
pub use info_log::{InfoLogFile, InfoLogOptions};
pub use mem::MemFs;
pub use posix::PosixFileSystem;
pub use rate_limiter::{IoKind, IoPriority, RateLimiter, RateLimiterMode};
pub use read_many::{ReadRequest, read_many};
pub use sst_file_manager::{SstFileManager, SstFileManagerOptions};
pub use stop_watch::StopWatch;
pub use thread_pool::{PoolJob, Priority, ThreadPool, on_threads, spawn, spawn_scoped};
