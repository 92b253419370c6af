//! Integration tests of the monitor: real databases, real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests stop where they fail, and stand files in the way of sockets"
)]

#[cfg(feature = "metrics")]
mod facade;
mod grafana;
mod page;
mod server;
#[cfg(feature = "tracing")]
mod spans;
mod values;

use esker::options::{Env, Statistics};
use esker::{Db, Options};
use esker_monitor::Monitor;
use esker_testkit::TempDir;
use std::sync::Arc;
use std::time::Duration;

/// A database with statistics and the monitor's listener.
struct Watched {
    monitor: Monitor,
    db: Arc<Db>,
    dir: TempDir,
}

fn options(monitor: &Monitor) -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.statistics = Some(Arc::new(Statistics::new()));
    options.db.listeners.push(monitor.listener());
    options
}

fn watched(name: &str) -> Watched {
    let (monitor, dir) = (Monitor::new(), TempDir::new(name));
    let db = Arc::new(Db::open(&options(&monitor), dir.join("db")).unwrap());
    Watched { monitor, db, dir }
}

/// Waits until `is_true`, for a minute at most.
#[track_caller]
fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let clock = Env::default().clock;
    let deadline = clock.monotonic_micros() + 60_000_000;
    while !is_true() {
        assert!(clock.monotonic_micros() < deadline, "{what}");
        clock.sleep(Duration::from_millis(10));
    }
}
