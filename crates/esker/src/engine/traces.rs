//! Updates the bit of `open_tag` that makes reads and writes look for traces.

use super::Engine;
use super::parts::plain_tag;
use crate::trace::TRACED;
use esker_base::sync::atomic::Ordering::Relaxed;

impl Engine {
    /// Sets or clears the bit by the running traces. Call it after each start or end of a trace. In
    /// a closed database it does nothing.
    pub(crate) fn update_traced(&self) {
        // If two threads call at once, the later call sees both changes.
        let _marking = self.traces.marking.lock();
        let is_traced = self.traces.want_gets();
        let plain = plain_tag(self.tag, self.commits.is_some(), self.row_cache.is_some());
        let traced = plain | TRACED;
        let (from, to) = if is_traced { (plain, traced) } else { (traced, plain) };
        // The exchange fails if the bit is right already, or if the database was closed.
        _ = self.open_tag.compare_exchange(from, to, Relaxed, Relaxed);
    }

    /// Ends all traces when the database closes.
    pub(crate) fn end_traces(&self) {
        if let Err(e) = self.traces.end() {
            esker_base::info_log!(self.info_log, Warn, "A trace is not complete: {e}");
        }
    }
}
