//! Whether reads and writes are traced: the mark that they find in `open_tag`.

use super::Engine;
use crate::trace::TRACED;
use esker_base::sync::atomic::Ordering::Relaxed;

impl Engine {
    /// Makes reads and writes look for traces as long as there is one for them. Call it after each
    /// begin and end. A closed database stays closed.
    pub(crate) fn update_traced(&self) {
        // Of two calls at once, the later one sees both changes.
        let _marking = self.traces.marking.lock();
        let is_traced = self.traces.want_gets();
        let (plain, traced) = (self.tag, self.tag | TRACED);
        let (from, to) = if is_traced { (plain, traced) } else { (traced, plain) };
        // A failed exchange: it is so already, or the database was closed.
        _ = self.open_tag.compare_exchange(from, to, Relaxed, Relaxed);
    }

    /// Ends all traces when the database closes.
    pub(crate) fn end_traces(&self) {
        if let Err(e) = self.traces.end() {
            esker_base::info_log!(self.info_log, Warn, "A trace is not complete: {e}");
        }
    }
}
