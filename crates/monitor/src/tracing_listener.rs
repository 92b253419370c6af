//! Background work as spans and events of crate `tracing`.
//!
//! In: events of the database. Out: a span for each flush and compaction, from its begin to its
//! end; events for its end, stalls, background errors and the close. No key and no value appears.

use esker::Error;
use esker::observe::{
    BackgroundErrorReason, BackgroundErrorRecoveryInfo, CompactionJobInfo, EventListener, FlushJobInfo,
    WriteStallCondition, WriteStallInfo,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use tracing::{Span, info, info_span, warn};

/// Spans at once; an older one ends when it is exceeded.
const MOST_SPANS: usize = 256;

/// Reports background work to the subscriber of crate `tracing`: put it into
/// [`DbOptions::listeners`](esker::DbOptions) before the open.
///
/// Spans `flush` and `compaction` have the fields `job`, `family` and `reason`; compactions also
/// `input_level`, `output_level` and `input_files`. Their end is an event inside the span. Stalls
/// and background errors are events of level `WARN`.
///
/// ```
/// use esker::{Db, Options};
/// use esker_monitor::TracingListener;
/// use std::sync::Arc;
/// # let dir = esker_testkit::TempDir::new("doc");
///
/// let mut options = Options::new().create_if_missing(true);
/// options.db.listeners.push(Arc::new(TracingListener::new()));
/// let db = Db::open(&options, dir.path())?;
/// db.put("esker", "gravel")?;
/// db.flush()?; // A span, and an event in it.
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Default)]
pub struct TracingListener {
    spans: Mutex<BTreeMap<u64, Span>>,
}

impl fmt::Debug for TracingListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracingListener").finish_non_exhaustive()
    }
}

impl TracingListener {
    /// A listener for one database.
    pub fn new() -> TracingListener {
        TracingListener::default()
    }

    fn begin(&self, job: u64, span: Span) {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        if spans.len() >= MOST_SPANS {
            spans.pop_first();
        }
        spans.insert(job, span);
    }

    fn take(&self, job: u64) -> Span {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        spans.remove(&job).unwrap_or_else(Span::none)
    }
}

impl EventListener for TracingListener {
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        let (job, family, reason) = (info.job_id, info.cf_name.as_str(), info.flush_reason.as_str());
        self.begin(job, info_span!(parent: None, "flush", job, family, reason));
    }

    fn on_flush_completed(&self, info: &FlushJobInfo) {
        let (bytes, entries) = (info.file_size, info.num_entries);
        self.take(info.job_id).in_scope(|| info!(job = info.job_id, bytes, entries, "flush completed"));
    }

    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        let span = info_span!(
            parent: None,
            "compaction",
            job = info.job_id,
            family = info.cf_name.as_str(),
            reason = info.compaction_reason.as_str(),
            input_level = info.base_input_level,
            output_level = info.output_level,
            input_files = info.input_files.len(),
        );
        self.begin(info.job_id, span);
    }

    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        let (job, stats) = (info.job_id, &info.stats);
        let (read, written) = (stats.total_input_bytes, stats.total_output_bytes);
        let (files, micros) = (info.output_files.len(), stats.elapsed_micros);
        self.take(job).in_scope(|| match &info.status {
            Ok(()) => info!(job, read, written, files, micros, "compaction completed"),
            Err(e) => warn!(job, error = e.kind().as_str(), "compaction failed"),
        });
    }

    fn on_background_error(&self, reason: BackgroundErrorReason, error: &mut Option<Error>) {
        if let Some(error) = error {
            let (reason, kind) = (reason.as_str(), error.kind().as_str());
            warn!(reason, error = kind, severity = ?error.severity(), "background error");
        }
    }

    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        let (family, before, now) = (info.cf_name.as_str(), info.prev.as_str(), info.cur.as_str());
        if info.cur == WriteStallCondition::Normal {
            info!(family, before, now, "writers are released");
        } else {
            warn!(family, before, now, "writers are held back");
        }
    }

    fn on_error_recovery_end(&self, info: &BackgroundErrorRecoveryInfo) {
        let error = info.new_bg_error.as_ref().map_or("none", |e| e.kind().as_str());
        info!(error, "recovery from a background error ended");
    }

    fn on_db_shutdown_begin(&self) {
        info!("the database closes");
    }
}
