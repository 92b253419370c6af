//! Files, time and threads in one handle.

use crate::clock::{Clock, SystemClock};
use crate::fs::FileSystem;
use crate::posix::PosixFileSystem;
use crate::thread_pool::ThreadPool;
use crate::timer::Timer;
use esker_base::sync::{Arc, OnceLock};

/// All that an engine needs from the outside world. Clones share files, clock and threads.
#[derive(Clone, Debug)]
pub struct Env {
    /// Files.
    pub fs: Arc<dyn FileSystem>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Background threads.
    pub pool: Arc<ThreadPool>,
    /// Repeats jobs at intervals.
    pub timer: Arc<Timer>,
}

impl Env {
    /// An environment with this file system, this clock and threads of its own.
    pub fn new(fs: Arc<dyn FileSystem>, clock: Arc<dyn Clock>) -> Env {
        let timer = Arc::new(Timer::new(clock.clone()));
        Env { fs, clock, pool: Arc::new(ThreadPool::new()), timer }
    }

    /// An environment with this file system, the machine's clock and threads of its own.
    pub fn with_fs(fs: Arc<dyn FileSystem>) -> Env {
        Env::new(fs, Arc::new(SystemClock))
    }
}

/// An environment with the machine's files and clock. All default environments of a process share
/// their threads, as with RocksDB's `Env::Default()`.
impl Default for Env {
    fn default() -> Env {
        static SHARED: OnceLock<Env> = OnceLock::new();
        SHARED.get_or_init(|| Env::with_fs(Arc::new(PosixFileSystem))).clone()
    }
}
