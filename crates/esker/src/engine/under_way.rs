//! Calls in progress that change or copy files of the database's directory.
//!
//! In: a call that begins. Out: a guard. A close waits until all guards are dropped: afterwards
//! another process may open the directory and use the same file numbers.
//!
//! Writes need no guard: a close takes the write lead after them. Flushes and compactions need none
//! either: a close waits for jobs.

use super::Engine;
use esker_base::Result;

/// The guard of one such call. A long call checks [`Engine::check_open`] at intervals, so that a
/// close does not wait long.
pub(crate) struct UnderWay<'a>(&'a Engine);

impl<'a> UnderWay<'a> {
    /// Begins a call.
    /// # Errors
    /// `ShutdownInProgress` once closing has begun · `NotSupported` in a forked child.
    pub(crate) fn begin(engine: &'a Engine) -> Result<UnderWay<'a>> {
        engine.check_process()?;
        // A close sets the flag under this lock.
        let mut state = engine.state.lock();
        engine.check_open()?;
        state.calls_under_way += 1;
        Ok(UnderWay(engine))
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.state.lock().calls_under_way -= 1;
        self.0.state_changed.notify_all();
    }
}
