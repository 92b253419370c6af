//! Calls that change what is in the database's directory, or copy it, by the thread that makes
//! them.
//!
//! In: a call that begins. Out: a guard. The database is not closed before each has been dropped:
//! from then on the directory may be somebody else's, who gives out the same file numbers.
//!
//! Writes need none: closing takes the write lead after them. Nor do flushes and compactions, which
//! are jobs that closing waits for.

use super::Engine;
use esker_base::Result;

/// One such call. A long one looks at [`Engine::check_open`] now and then, so that nobody waits
/// long for it.
pub(crate) struct UnderWay<'a>(&'a Engine);

impl<'a> UnderWay<'a> {
    /// # Errors
    /// `ShutdownInProgress` · as [`Engine::check_process`].
    pub(crate) fn begin(engine: &'a Engine) -> Result<UnderWay<'a>> {
        engine.check_process()?;
        // The flag goes up under the lock.
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
