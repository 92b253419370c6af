//! Ctrl-C stops a command, and not the shell.
//!
//! In: the signal. Out: a flag that long commands look at. A second signal, before the command has
//! seen the first, ends the process with exit code 130.

use crate::failure::{CommandOutcome, Failure};
use esker::internals::base::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Whether the user wants the running command to end.
#[derive(Clone, Debug, Default)]
pub(super) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// A flag that ctrl-C sets.
    #[cfg(feature = "shell")]
    pub(super) fn of_signals() -> StopFlag {
        use signal_hook::consts::SIGINT;
        use signal_hook::flag;
        /// The exit code of shells for a process that SIGINT has ended.
        const INTERRUPTED: i32 = 130;
        let stop = StopFlag::default();
        // The order matters: the second signal finds the flag that the first one has set. Without
        // the handlers, ctrl-C ends the process.
        flag::register_conditional_shutdown(SIGINT, INTERRUPTED, Arc::clone(&stop.0)).ok();
        flag::register(SIGINT, Arc::clone(&stop.0)).ok();
        stop
    }

    pub(super) fn clear(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    /// The flag, for the engine.
    pub(super) fn shared(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Fails if the command is to end; `done` says how far it came.
    /// # Errors
    /// The user wants the command to end.
    pub(super) fn check(&self, done: impl FnOnce() -> String) -> CommandOutcome {
        match self.0.load(Ordering::SeqCst) {
            false => Ok(()),
            true => Err(Failure::new(format_args!("stopped after {}", done()))),
        }
    }
}
