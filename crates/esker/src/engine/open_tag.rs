//! The bits of `Engine::open_tag`: reads that do more than look up a key take another way.
//!
//! In: the options, and traces that start and end. Out: one word. A read compares it with the tag
//! of its family anyway; while the word has a bit, they differ. So a get, a multi-get or a seek
//! pays nothing for what is off.

use super::Engine;
use crate::options::DbOptions;
use crate::trace::{Query, TRACED};
use esker_base::sync::atomic::Ordering::Relaxed;

/// The bit that sends reads to the commit table.
pub(crate) const PREPARED: u64 = 1 << 62;
/// The bit that sends gets to the row cache.
pub(crate) const ROWS: u64 = 1 << 61;
/// The bit that shows reads in the list of threads.
pub(crate) const TRACKED: u64 = 1 << 60;
/// The bit that lets gets be sampled. It is set once a family has a
/// `read_triggered_compaction_threshold`, and stays.
pub(crate) const SAMPLED: u64 = 1 << 59;

/// The value of `open_tag` while nothing is traced.
pub(super) fn untraced_tag(tag: u64, has_commits: bool, options: &DbOptions) -> u64 {
    let bits = [
        (has_commits, PREPARED),
        (options.row_cache.is_some(), ROWS),
        (options.enable_thread_tracking, TRACKED),
    ];
    bits.iter().filter(|(is_set, _)| *is_set).fold(tag, |tag, (_, bit)| tag | bit)
}

impl Engine {
    /// Sets or clears the bit of traces by those under way. Call it after each start or end of a
    /// trace. In a closed database it does nothing.
    pub(crate) fn update_traced(&self) {
        // If two threads call at once, the later call sees both changes.
        let _marking = self.traces.marking.lock();
        self.mark(TRACED, self.traces.want_gets());
    }

    /// Lets gets be sampled, from now on.
    pub(crate) fn begin_sampling(&self) {
        if self.open_tag.load(Relaxed) & SAMPLED == 0 {
            self.mark(SAMPLED, true);
        }
    }

    /// Sets or clears a bit of `open_tag`, unless the database was closed.
    fn mark(&self, bit: u64, is_set: bool) {
        let marked = |tag| if is_set { tag | bit } else { tag & !bit };
        _ = self.open_tag.fetch_update(Relaxed, Relaxed, |tag| (tag != 0).then(|| marked(tag)));
    }

    /// Adds a query to the trace of queries, if one is running. A database with another bit comes
    /// here without a trace, for one load.
    pub(crate) fn trace_query<'q>(&self, query: impl FnOnce() -> Query<'q>) {
        if self.open_tag.load(Relaxed) & TRACED != 0 {
            self.traces.add(query);
        }
    }

    /// Ends all traces when the database closes.
    pub(crate) fn end_traces(&self) {
        if let Err(e) = self.traces.end() {
            esker_base::info_log!(self.info_log, Warn, "A trace is not complete: {e}");
        }
    }
}
