//! esker-monitor: the statistics of a database in a running process, for people and programs.
//!
//! In: an open [`Db`](esker::Db), its properties, statistics and events. Out:
//!
//! * [`Monitor::snapshot`]: all values at one point in time, as a [`StatisticsSnapshot`];
//! * [`StatisticsServer`]: snapshots through a Unix socket, for `esker top` and others;
//! * [`PageServer`]: an HTML page, the snapshot as JSON, and Prometheus' text, by HTTP;
//! * [`exposition()`]: Prometheus' text alone, for programs that have an HTTP server;
//! * feature `metrics`: `Monitor::record`, the values for the facade `metrics`;
//! * feature `tracing`: `TracingListener`, spans and events of background work.
//!
//! Nothing listens unless the program starts a server. No key, value, bound of a file or message of
//! an error leaves the process. The crate uses the public face of `esker` alone.
//!
//! Reading order: `snapshot` (the values), `gather` (where they come from), `monitor` (events),
//! `serve` (the loop of a server), `server` and `http` (its two protocols), `exposition`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod client;
mod exposition;
mod gather;
mod http;
#[cfg(feature = "metrics")]
mod metrics_facade;
mod monitor;
mod samples;
mod serve;
mod server;
mod snapshot;
mod socket;
mod source;
#[cfg(feature = "tracing")]
mod tracing_listener;
mod wake;

pub use client::{RemoteStatistics, StatisticsClient};
pub use exposition::exposition;
pub use http::{PageServer, PageServerOptions};
pub use monitor::Monitor;
pub use server::{Hello, StatisticsServer, StatisticsServerOptions};
pub use snapshot::{
    BackgroundJobKind, BackgroundStatistics, CacheStatistics, FamilyStatistics, HistogramSummary,
    LevelStatistics, MemtableStatistics, ProcessFacts, RunningJob, SNAPSHOT_FORMAT, SnapshotCounts,
    StallKind, StallPressure, StallStatistics, StatisticsSnapshot, WalStatistics, WriteStatistics,
};
pub use source::{CloseWaker, SnapshotSource, WatchedDb};
#[cfg(feature = "tracing")]
pub use tracing_listener::TracingListener;
