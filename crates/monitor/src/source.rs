//! Sources of snapshots: a database of this process, or a server of another one.
//!
//! In: a database by a weak reference. Out: snapshots, at most one an interval.

use crate::gather::check_open;
use crate::monitor::Monitor;
use crate::snapshot::StatisticsSnapshot;
use crate::wake::Waker;
use esker::options::Env;
use esker::{Db, Error, Result};
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Gives snapshots to a server.
pub trait SnapshotSource: Send {
    /// A snapshot. It may be as old as the source's interval.
    /// # Errors
    /// `ShutdownInProgress` if the database is closed: the server ends · others, which the server
    /// passes on to its clients.
    fn latest(&mut self) -> Result<Arc<StatisticsSnapshot>>;

    /// Whether the source can give snapshots; false ends the server.
    fn is_open(&mut self) -> bool {
        true
    }

    /// Gives the source a server's waker, to be used when the database begins to close. A source
    /// that drops it, as this default does, ends its server at the next request only.
    fn wake_at_close(&mut self, waker: CloseWaker) {
        drop(waker);
    }
}

/// Wakes a server, which then asks [`SnapshotSource::is_open`] until the source is closed.
#[derive(Clone, Debug)]
pub struct CloseWaker(pub(crate) Arc<Waker>);

impl CloseWaker {
    /// Says that the database begins to close. Any thread may call it; it does not wait.
    pub fn wake(&self) {
        self.0.close_begins();
    }
}

/// A database of this process, which stays as it is: the source holds no handle between two
/// snapshots.
///
/// ```
/// use esker::Db;
/// use esker_monitor::{Monitor, SnapshotSource, WatchedDb};
/// use std::sync::Arc;
/// use std::time::Duration;
/// # let dir = esker_testkit::TempDir::new("doc");
///
/// let db = Arc::new(Db::open_default(dir.path())?);
/// let mut watched = WatchedDb::new(&Monitor::new(), &db, Duration::ZERO);
/// assert_eq!(watched.latest()?.family_count, 1);
/// drop(db); // Closes the database.
/// assert!(watched.latest().is_err());
/// # Ok::<_, esker::Error>(())
/// ```
pub struct WatchedDb {
    monitor: Monitor,
    handle: Box<dyn Fn() -> Option<Db> + Send>,
    interval_micros: u64,
    last: Option<(u64, Arc<StatisticsSnapshot>)>,
}

impl fmt::Debug for WatchedDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedDb").field("interval_micros", &self.interval_micros).finish_non_exhaustive()
    }
}

impl WatchedDb {
    /// Watches `db` as long as the `Arc` lives. Two snapshots have at least `interval` between
    /// them; a request in between gets the last one.
    pub fn new<D>(monitor: &Monitor, db: &Arc<D>, interval: Duration) -> WatchedDb
    where
        D: Borrow<Db> + Send + Sync + 'static,
    {
        let weak = Arc::downgrade(db);
        let handle = move || weak.upgrade().map(|db| <D as Borrow<Db>>::borrow(&db).clone());
        let interval_micros = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX);
        WatchedDb { monitor: monitor.clone(), handle: Box::new(handle), interval_micros, last: None }
    }

    fn open_handle(&self) -> Result<Db> {
        (self.handle)().ok_or_else(|| Error::shutdown_in_progress("the database was dropped"))
    }
}

impl SnapshotSource for WatchedDb {
    fn latest(&mut self) -> Result<Arc<StatisticsSnapshot>> {
        let db = self.open_handle()?;
        let now = Env::default().clock.monotonic_micros();
        if let Some((taken, last)) = &self.last
            && now.saturating_sub(*taken) < self.interval_micros
        {
            check_open(&db)?;
            return Ok(last.clone());
        }
        let snapshot = Arc::new(self.monitor.snapshot(&db)?);
        self.last = Some((now, snapshot.clone()));
        Ok(snapshot)
    }

    fn is_open(&mut self) -> bool {
        self.open_handle().is_ok_and(|db| check_open(&db).is_ok())
    }

    fn wake_at_close(&mut self, waker: CloseWaker) {
        self.monitor.events().wake_at_close(&waker.0);
        // The close may have begun before.
        if !self.is_open() {
            waker.wake();
        }
    }
}
