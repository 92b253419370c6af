//! The change stream: committed batches in order, for programs that follow a database.
//!
//! In: a position. Out: batches with their operations, each with the position behind it; or the
//! reason why the stream cannot go on, in numbers. The stream reads WALs by a [`WalIterator`].
//!
//! Invariants
//!  1. A batch begins at the position behind the one before. A reader that stores the position with
//!     the batch, atomically, sees every operation exactly once.
//!  2. A stream that has ended keeps no WAL.
//!  3. Writers do nothing for readers. A reader that waits looks at the newest sequence number from
//!     time to time.

mod batch;
mod end;

pub use batch::{ChangeBatch, ChangeFamily, ChangeItem, ChangeOp};
pub use end::ChangesEnd;

use super::Db;
use super::updates::{NeedlessBytes, WalIterator};
use crate::options::WalReadOptions;
use batch::FamiliesSeen;
use esker_base::sync::atomic::Ordering;
use esker_base::sync::{Arc, Mutex, MutexGuard};
use esker_base::{Error, ErrorKind, Result, SequenceNumber};
use esker_env::timer::Repeating;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The time between two checks of [`ChangesOptions::max_retained_bytes`].
const RETENTION_CHECK: Duration = Duration::from_secs(1);
/// The first and the longest pause of a reader that waits.
const SHORTEST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// A place in the change stream of a database: the sequence number that the reader needs next.
///
/// Its text is that number in decimal. A follower stores it, and begins again there.
///
/// ```
/// use esker::{ChangePosition, SequenceNumber};
///
/// let position: ChangePosition = "17".parse()?;
/// assert_eq!(position, ChangePosition::after(SequenceNumber(16)));
/// assert_eq!(position.to_string(), "17");
/// assert_eq!(position.next_sequence(), SequenceNumber(17));
/// assert!("17 ".parse::<ChangePosition>().is_err());
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChangePosition(SequenceNumber);

impl ChangePosition {
    /// The front of the stream: the first write of the database.
    pub const START: ChangePosition = ChangePosition(SequenceNumber(1));

    /// The place behind `sequence`. For a reader that has a copy of the database, `sequence` is
    /// what [`Db::create_checkpoint`] returned, or the copy's [`Db::latest_sequence_number`]. A
    /// checkpoint with a `log_size_for_flush` of 0 has no write that a power loss takes from the
    /// database; with another size, [`Db::sync_wal`] comes behind it.
    pub fn after(sequence: SequenceNumber) -> ChangePosition {
        ChangePosition(SequenceNumber(sequence.0.saturating_add(1)))
    }

    /// The number of the next operation.
    pub fn next_sequence(self) -> SequenceNumber {
        self.0
    }
}

/// The place before the operation of this number; 0 means [`ChangePosition::START`].
impl From<SequenceNumber> for ChangePosition {
    fn from(next: SequenceNumber) -> ChangePosition {
        ChangePosition(next).max(ChangePosition::START)
    }
}

impl fmt::Display for ChangePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The position that a text names.
/// # Errors
/// `InvalidArgument`: the text is no decimal number up to [`SequenceNumber::MAX`].
impl FromStr for ChangePosition {
    type Err = Error;

    fn from_str(text: &str) -> Result<ChangePosition> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| digits && *number <= SequenceNumber::MAX.0);
        let number = number.ok_or_else(|| {
            Error::invalid_argument(format!("'{}' is no position of changes", text.escape_debug()))
        })?;
        Ok(ChangePosition::from(SequenceNumber(number)))
    }
}

/// Options of [`Db::changes`].
///
/// ```
/// use esker::ChangesOptions;
///
/// let options = ChangesOptions::new().max_retained_bytes(1 << 30).synced_only(true);
/// assert!(options.verify_checksums);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ChangesOptions {
    /// Compare the checksums of WAL records. Default true.
    pub verify_checksums: bool,
    /// The bytes of WALs that a reader may leave unread. A reader that falls further behind is
    /// ended, and its WALs are released; a timer checks that once a second. Default 0: no limit.
    pub max_retained_bytes: u64,
    /// Return only batches that a power loss cannot take back: sync the WAL first, at most once for
    /// all batches written so far. Default false: a follower may get batches that its leader loses.
    pub synced_only: bool,
}

impl Default for ChangesOptions {
    fn default() -> ChangesOptions {
        ChangesOptions { verify_checksums: true, max_retained_bytes: 0, synced_only: false }
    }
}

impl ChangesOptions {
    /// All defaults.
    pub fn new() -> Self {
        Self::default()
    }
}

esker_base::setters! {
    ChangesOptions {
        verify_checksums: bool;
        max_retained_bytes: u64;
        synced_only: bool;
    }
}

/// The distance of a reader from the newest write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ChangesLag {
    /// Bytes of WALs that the reader has not read, and keeps.
    pub bytes: u64,
    /// Sequence numbers that the reader has not read: one for each operation.
    pub sequence_numbers: u64,
    /// An upper bound of the seconds since the first unread write; 0 if the reader has caught up.
    /// `None` if the database records no times ([`preserve_internal_time_seconds`][times]).
    ///
    /// [times]: crate::ColumnFamilyOptions::preserve_internal_time_seconds
    pub seconds: Option<u64>,
}

impl Db {
    /// The committed batches from a position on, in order: a [`ChangePosition`] that a reader
    /// stored, or a [`SequenceNumber`].
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::{ChangeOp, ChangePosition, ChangesOptions};
    ///
    /// db.put("esker", "gravel")?;
    /// let mut changes = db.changes(ChangePosition::START, &ChangesOptions::default())?;
    /// let batch = changes.next().expect("one batch is there")?;
    /// for change in batch.iter() {
    ///     if let ChangeOp::Put { key, value } = change.op {
    ///         println!("{} = {}", key.escape_ascii(), value.escape_ascii());
    ///     }
    /// }
    /// assert_eq!(batch.next_position().to_string(), "2");
    /// assert!(changes.next().is_none(), "the reader has caught up");
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// Cost: one read of each WAL from the newest back to the one that the position is in.
    /// # Errors
    /// `NotSupported`: a secondary, a forked child, transactions under the policies WritePrepared
    /// and WriteUnprepared, or `synced_only` of a database that is open for reading only ·
    /// `ShutdownInProgress` after the close · `IoError`. A position at which the stream cannot
    /// begin is an error of the first batch: [`ChangeStream::end`] says why.
    pub fn changes(&self, from: impl Into<ChangePosition>, options: &ChangesOptions) -> Result<ChangeStream> {
        let position = from.into();
        if options.synced_only && self.engine().read_only {
            return Err(Error::not_supported("synced_only: a database open for reading only cannot sync"));
        }
        let read = WalReadOptions::new().verify_checksums(options.verify_checksums);
        let mut reading = Reading { wals: None, needless: None, end: None, position };
        match WalIterator::from_position(self, position.next_sequence(), &read) {
            Ok((wals, needless)) => (reading.wals, reading.needless) = (Some(wals), needless),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                reading.end = Some(ChangesEnd::of_start(self, position, &e));
            }
            Err(e) => return Err(e),
        }
        let reading = Arc::new(Mutex::new(reading));
        let limit = options.max_retained_bytes;
        let watch = (limit > 0).then(|| {
            let watched = Arc::downgrade(&reading);
            self.engine().env.timer.repeat(RETENTION_CHECK, move || {
                let Some(reading) = watched.upgrade() else { return };
                // A reader that is at work is not away.
                let ended = reading.try_lock().and_then(|mut reading| reading.check_retention(limit));
                // Outside of the lock: the drop may wake the job that deletes WALs.
                drop(ended);
            })
        });
        Ok(ChangeStream {
            _watch: watch,
            reading,
            db: self.clone(),
            options: *options,
            families: FamiliesSeen::default(),
            synced: SequenceNumber::ZERO,
            status: Ok(()),
        })
    }
}

/// The place of a reader, shared with the timer that checks its retention.
struct Reading {
    /// `None` when the stream has ended.
    wals: Option<WalIterator>,
    needless: NeedlessBytes,
    end: Option<ChangesEnd>,
    position: ChangePosition,
}

impl Reading {
    /// Ends the stream if it keeps more than `limit` bytes of WALs. Returns what must be dropped.
    fn check_retention(&mut self, limit: u64) -> Option<WalIterator> {
        // A failure to look at a file is found by the reader, too.
        let bytes = self.wals.as_ref()?.unread_bytes(self.needless).unwrap_or(0);
        if bytes <= limit {
            return None;
        }
        self.end = Some(ChangesEnd::FellBehind { position: self.position, bytes, limit });
        self.wals.take()
    }
}

/// The change stream of a database: the result of [`Db::changes`].
///
/// * `Some(Ok(batch))`: the next batch. Batches that were written together by several threads may
///   come as one, because a WAL record holds all of them and no border between them: a unit is
///   atomic, and it is never divided.
/// * `None`: the reader has caught up. A later call continues. [`ChangeStream::wait`] waits.
/// * `Some(Err(_))`: the end. Later calls give `None`, and [`ChangeStream::status`] the error. If
///   [`ChangeStream::end`] is `Some`, the reader copies the database ([`Db::create_checkpoint`])
///   and begins at [`ChangePosition::after`] the number that this call returned.
///
/// **Transactions** come with their commit. One that is rolled back never comes. **Log data**
/// ([`WriteBatch::put_log_data`](crate::WriteBatch::put_log_data)) has no sequence number. A batch
/// with nothing else comes only with a later batch, and not to a reader that begins behind it.
///
/// **Retention.** A WAL is deleted once tables hold its entries; an archive keeps it longer
/// ([`DbOptions::wal_ttl_seconds`](crate::DbOptions::wal_ttl_seconds),
/// [`wal_size_limit_mb`](crate::DbOptions::wal_size_limit_mb)). A reader keeps the WALs that it has
/// not read, up to [`ChangesOptions::max_retained_bytes`]. It does not keep an older WAL with the
/// section of a transaction that was prepared before its place: a slow reader may meet a gap at the
/// commit.
///
/// **Lost writes.** A power loss takes writes that were not synced. A follower that has applied
/// some of them is ahead of its leader, and differs from it once the leader has written more.
/// [`ChangesOptions::synced_only`] avoids that. A killed process loses nothing here.
///
/// **Read-only opens** give what was written before the open, and never more. They keep no WAL of
/// the owner.
pub struct ChangeStream {
    /// Dropped first: the timer does not hold the stream afterwards.
    _watch: Option<Repeating>,
    reading: Arc<Mutex<Reading>>,
    db: Db,
    options: ChangesOptions,
    families: FamiliesSeen,
    /// Operations up to this number are on the medium.
    synced: SequenceNumber,
    status: Result<()>,
}

impl ChangeStream {
    /// The place behind the last returned batch.
    pub fn position(&self) -> ChangePosition {
        self.reading.lock().position
    }

    /// The error that has ended the stream.
    /// # Errors
    /// That error.
    pub fn status(&self) -> Result<()> {
        self.status.clone()
    }

    /// The reason why the stream ended for good at this position, after `next` has returned the
    /// error. The reader needs a new copy of the database. `None`: it has not ended, or by another
    /// error, which a new [`Db::changes`] may not meet.
    pub fn end(&self) -> Option<ChangesEnd> {
        self.status.as_ref().err().and_then(|_| self.reading.lock().end)
    }

    /// The distance from the newest write. Cost: a lock for each WAL that is not read yet.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::{ChangePosition, ChangesOptions};
    ///
    /// let mut changes = db.changes(ChangePosition::START, &ChangesOptions::default())?;
    /// db.put("esker", "gravel")?;
    /// assert_eq!(changes.lag()?.sequence_numbers, 1);
    /// assert!(changes.lag()?.bytes > 0);
    /// assert_eq!(changes.by_ref().count(), 1);
    /// assert_eq!((changes.lag()?.sequence_numbers, changes.lag()?.bytes), (0, 0));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `IoError`: the size of a WAL could not be read.
    pub fn lag(&self) -> Result<ChangesLag> {
        let engine = self.db.engine();
        let reading = self.reading.lock();
        let bytes = reading.wals.as_ref().map_or(Ok(0), |wals| wals.unread_bytes(reading.needless))?;
        let next = reading.position.next_sequence();
        drop(reading);
        let sequence_numbers = (engine.visible_sequence().0 + 1).saturating_sub(next.0);
        let samples = engine.state.lock().times.samples().clone();
        let seconds = match (samples.pairs().is_empty(), samples.time_before(next)) {
            (true, _) => None,
            _ if sequence_numbers == 0 => Some(0),
            (false, 0) => None,
            (false, written) => Some(engine.env.clock.now_seconds().saturating_sub(written)),
        };
        Ok(ChangesLag { bytes, sequence_numbers, seconds })
    }

    /// The next batch, also if it is written later; `None` after `timeout` without one.
    ///
    /// A writer does nothing for readers that wait. The reader looks at the newest sequence number
    /// in pauses that grow from 0.1 to 10 milliseconds: so a batch comes at most 10 milliseconds
    /// late, and a reader of an idle database wakes 100 times a second, for a load each time.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::{ChangePosition, ChangesOptions};
    /// use std::time::Duration;
    ///
    /// let mut changes = db.changes(ChangePosition::START, &ChangesOptions::default())?;
    /// let writer = std::thread::spawn({
    ///     let db = db.clone();
    ///     move || db.put("esker", "gravel")
    /// });
    /// let batch = changes.wait(Duration::from_secs(10))?.expect("a thread writes it");
    /// assert_eq!(batch.len(), 1);
    /// # writer.join().unwrap()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// Those of the iterator; the same error at each call once the stream has ended.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<ChangeBatch>> {
        let clock = self.db.engine().env.clock.clone();
        let began = clock.monotonic_nanos();
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let mut pause = SHORTEST_PAUSE;
        loop {
            if let Some(batch) = self.next() {
                return batch.map(Some);
            }
            self.status()?;
            let left = timeout.saturating_sub(clock.monotonic_nanos().saturating_sub(began));
            if left == 0 {
                return Ok(None);
            }
            clock.sleep(pause.min(Duration::from_nanos(left)));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// The next batch and the lock under which it was read.
    fn read(&mut self) -> Result<Option<ChangeBatch>> {
        let engine = self.db.engine();
        let shared = self.reading.clone();
        let mut reading = shared.lock();
        let next = reading.position.next_sequence();
        let end = reading.end;
        let Some(wals) = &mut reading.wals else {
            return end.map_or(Ok(None), |end| Err(end.to_error(None)));
        };
        // Without a lock, unless there is something to read or the database was closed.
        let newest = engine.visible_sequence();
        if newest < next && !engine.closed.load(Ordering::Acquire) {
            return Ok(None);
        }
        let (first, batch) = match wals.next() {
            None => return Ok(None),
            Some(Ok(update)) => update,
            Some(Err(e)) => return Err(self.end_by(reading, e)),
        };
        if batch.count() == 0 && first > next {
            // Log data has no number of its own, but lies behind the numbers before its own.
            return Err(self.end_by(reading, Error::not_found("log data comes behind them")));
        }
        let next = SequenceNumber(first.0.saturating_add(u64::from(batch.count())));
        // Log data lies behind the number before its own.
        let behind = next.max(SequenceNumber(first.0.saturating_add(1)));
        if self.options.synced_only && behind.0 > self.synced.0 + 1 {
            // A number is published after its record was appended: the sync reaches the record.
            self.db.sync_wal()?;
            self.synced = newest.max(SequenceNumber(next.0 - 1));
        }
        let batch = self.families.batch(self.db.engine(), first, batch, reading.position)?;
        reading.position = batch.next_position();
        Ok(Some(batch))
    }

    /// Ends the stream by an error of its WALs.
    fn end_by(&self, mut reading: MutexGuard<'_, Reading>, error: Error) -> Error {
        let wals = reading.wals.take();
        let position = reading.position;
        // No WAL is held while gaps are measured, and none is dropped under the lock.
        drop(reading);
        drop(wals);
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        let end = ChangesEnd::of_gap(&self.db, position);
        self.reading.lock().end = Some(end);
        end.to_error(Some(&error))
    }
}

impl Iterator for ChangeStream {
    type Item = Result<ChangeBatch>;

    fn next(&mut self) -> Option<Result<ChangeBatch>> {
        if self.status.is_err() {
            return None;
        }
        match self.read() {
            Ok(batch) => batch.map(Ok),
            Err(e) => {
                self.status = Err(e.clone());
                // Also after an error that is not the WALs': an ended stream keeps none.
                let wals = self.reading.lock().wals.take();
                drop(wals);
                Some(Err(e))
            }
        }
    }
}

impl fmt::Debug for ChangeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeStream")
            .field("position", &self.position())
            .field("end", &self.end())
            .finish_non_exhaustive()
    }
}
