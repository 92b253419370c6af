//! Files, time and threads in one handle.

use crate::clock::{Clock, SystemClock};
use crate::fs::FileSystem;
use crate::posix::PosixFileSystem;
use crate::thread_pool::ThreadPool;
use crate::thread_status::ThreadStatus;
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

    /// The status of each background thread, and of each thread of the user in an operation of a
    /// database with `enable_thread_tracking`. Databases without the option show no operation. The
    /// cost grows with the number of threads. RocksDB's `Env::GetThreadList`.
    ///
    /// ```
    /// use esker_env::Env;
    ///
    /// for status in Env::default().get_thread_list() {
    ///     let (operation, stage) = (status.operation_type.name(), status.operation_stage.name());
    ///     println!("{operation} {stage} {:?}", status.properties());
    /// }
    /// ```
    pub fn get_thread_list(&self) -> Vec<ThreadStatus> {
        self.pool.thread_registry().list(self.clock.monotonic_micros())
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
