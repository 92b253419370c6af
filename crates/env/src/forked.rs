//! Forked children that run Rust code, for tests of an engine across `fork`.
//!
//! In: work. Out: a process that is a copy of this one, runs the work on its one thread, and ends
//! with the work's code. Programs that only start other programs use `std::process::Command`.

use crate::posix::failed;
use esker_base::Result;
use std::io::Error as IoError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The exit code of a child whose work has panicked.
pub const PANICKED: u8 = 255;

/// Time between two checks whether the child has ended.
const LOOK: Duration = Duration::from_millis(5);

/// A child. A drop kills it, if it has not ended.
#[derive(Debug)]
pub struct ForkedChild {
    process: libc::pid_t,
    code: Option<Option<u8>>,
}

/// Forks this process. The child runs `work`, drops its captures, and exits with its result. The
/// child runs no exit handlers, because they belong to the parent.
/// # Errors
/// `IoError` if the system refuses a process.
pub fn fork(work: impl FnOnce() -> u8) -> Result<ForkedChild> {
    // SAFETY: `work` may use allocators and locks only as far as this platform's `fork` keeps them
    // usable in the child. All callers are test code.
    let process = unsafe { libc::fork() };
    if process < 0 {
        return Err(failed("fork", Path::new("this process"), IoError::last_os_error()));
    }
    if process > 0 {
        return Ok(ForkedChild { process, code: None });
    }
    let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(PANICKED);
    // SAFETY: ends the child at once.
    unsafe { libc::_exit(i32::from(code)) }
}

impl ForkedChild {
    /// The process number of the child.
    pub fn id(&self) -> u32 {
        self.process.cast_unsigned()
    }

    /// Waits until the child has ended. Returns its code; `None` if it has not ended within
    /// `patience`, or a signal has ended it.
    pub fn wait(&mut self, patience: Duration) -> Option<u8> {
        let start = Instant::now();
        loop {
            if let Some(code) = self.code {
                return code;
            }
            let mut status = 0;
            // SAFETY: the status is a live value of ours.
            let ended = unsafe { libc::waitpid(self.process, &raw mut status, libc::WNOHANG) };
            if ended == self.process {
                let code = u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(PANICKED);
                self.code = Some(libc::WIFEXITED(status).then_some(code));
            } else if start.elapsed() > patience {
                return None;
            } else {
                sleep(LOOK);
            }
        }
    }

    /// Kills the process at once.
    pub fn kill(&mut self) {
        if self.code.is_none() {
            // SAFETY: the child has not been waited for, so the number is still its own.
            unsafe { libc::kill(self.process, libc::SIGKILL) };
        }
    }
}

impl Drop for ForkedChild {
    fn drop(&mut self) {
        self.kill();
        _ = self.wait(Duration::from_secs(10));
    }
}
