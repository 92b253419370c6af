//! The WAL for users: the changes since a sequence number, and the list of WAL files.
//!
//! In: a sequence number. Out: an iterator over the batches committed from it on. The iterator
//! reads the archive, the WALs and the written part of the current WAL. It takes only the lock of
//! the WALs: once for each file, and each time that it has caught up.
//!
//! Invariants
//!  1. Batches come in the order of their sequence numbers, and none is left out: a missing number
//!     ends the iteration with an error.
//!  2. A batch comes after it is published, and not if its write failed.
//!  3. While the iterator lives, the files that it has not read yet stay.
//!
//! Source: RocksDB `db/wal_manager.cc`, `db/transaction_log_impl.cc`.

mod position;

pub(super) use position::NeedlessBytes;

use super::Db;
use crate::engine::Engine;
use crate::instance::DbInner;
use crate::observe::{WalFile, WalFileType};
use crate::options::WalReadOptions;
use crate::wal::{BoundedWal, CommittedChanges, WalEnd, other_policy};
use esker_base::stats::{Ticker, record_tick};
use esker_base::sync::Arc;
use esker_base::sync::atomic;
use esker_base::{Error, ErrorKind, FileNumber, Result, SequenceNumber, SubCode};
use esker_format::file_name::{ARCHIVE_DIR, wal_file_name};
use esker_format::log::{LogEvent, LogReader};
use esker_format::write_batch::{BatchOp, WriteBatch, WriteBatchView};
use std::cmp::Ordering;
use std::fmt;

impl Db {
    /// The batches written from `sequence` on, in order, each with the sequence number of its first
    /// operation. The first batch contains `sequence`; 0 means the database's first batch.
    ///
    /// The iterator reads WALs. They are deleted once tables hold their entries; an archive keeps
    /// them longer ([`DbOptions::wal_ttl_seconds`](crate::DbOptions::wal_ttl_seconds),
    /// [`wal_size_limit_mb`](crate::DbOptions::wal_size_limit_mb)). While it lives, an iterator
    /// keeps the WALs that it has not read yet, and their disk space.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::{BatchOp, SequenceNumber};
    ///
    /// db.put("esker", "gravel")?;
    /// let mut updates = db.get_updates_since(SequenceNumber(1), &Default::default())?;
    /// for update in &mut updates {
    ///     let (sequence, batch) = update?;
    ///     for op in batch.iter() {
    ///         if let BatchOp::Put { key, value, .. } = op {
    ///             println!("{sequence}: {} = {}", key.escape_ascii(), value.escape_ascii());
    ///         }
    ///     }
    /// }
    /// db.put("moraine", "stones")?;
    /// assert!(updates.next().is_some(), "the iterator goes on where it had caught up");
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// Cost: one read of each WAL from the newest back to the one that `sequence` is in.
    /// # Errors
    /// `NotFound`: `sequence` is not written yet, or its WAL is gone ("Gap in sequence numbers";
    /// not with [`WalReadOptions::from_next_available`]) · `ShutdownInProgress` after the close ·
    /// `NotSupported` in a secondary or a forked child · `IoError` of the WALs. Other errors come
    /// from the iterator.
    pub fn get_updates_since(
        &self,
        sequence: SequenceNumber,
        options: &WalReadOptions,
    ) -> Result<WalIterator> {
        let engine = self.engine();
        check_readable(engine)?;
        check_no_secondary(engine)?;
        record_tick(&engine.options.statistics, Ticker::GetUpdatesSinceCalls, 1);
        if engine.commits.is_some() {
            return Err(other_policy());
        }
        if sequence > engine.visible_sequence() {
            return Err(Error::not_found("Requested sequence not yet written in the db"));
        }
        let from = sequence.max(SequenceNumber(1));
        let mut updates = WalIterator {
            held: HeldWals::hold(&self.inner, FileNumber(0)),
            options: *options,
            file: None,
            first_file: FileNumber(0),
            next: if options.from_next_available { Next::AtLeast(from) } else { Next::Is(from) },
            begun: false,
            changes: CommittedChanges::default(),
            record: Vec::new(),
            damage: None,
            status: Ok(()),
        };
        updates.seek(from)?;
        Ok(updates)
    }

    /// All WAL files that hold records, those of the archive included, oldest first. They may be
    /// deleted at any time, unless [`Db::disable_file_deletions`] was called before.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel")?;
    /// for file in db.sorted_wal_files()? {
    ///     println!("{} from {} on", file.path_name, file.start_sequence);
    /// }
    /// assert_eq!(db.current_wal_file()?.log_number, db.sorted_wal_files()?[0].log_number);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// Cost: one read of each file.
    /// # Errors
    /// `ShutdownInProgress` · `NotSupported` in a secondary or a forked child · `IoError`.
    pub fn sorted_wal_files(&self) -> Result<Vec<WalFile>> {
        check_readable(self.engine())?;
        check_no_secondary(self.engine())?;
        let held = HeldWals::hold(&self.inner, FileNumber(0));
        let (mut files, mut last) = (Vec::new(), FileNumber(0));
        while let Some(number) = held.readable_after(last) {
            last = number;
            if let Some(start_sequence) = held.first_sequence(number)? {
                files.push(WalFile { start_sequence, ..self.wal_file(number)? });
            }
        }
        Ok(files)
    }

    /// The WAL file that is being written. Its `start_sequence` is 0, as in RocksDB.
    /// # Errors
    /// `NotFound` if the database is read-only · `ShutdownInProgress` · `NotSupported` in a forked
    /// child · `IoError`.
    pub fn current_wal_file(&self) -> Result<WalFile> {
        check_readable(self.engine())?;
        let number = self.engine().wals.lock().current_number();
        if number.0 == 0 {
            return Err(Error::not_found("log file not available").with_subcode(SubCode::PathNotFound));
        }
        self.wal_file(number)
    }

    fn wal_file(&self, number: FileNumber) -> Result<WalFile> {
        let engine = self.engine();
        let wals = engine.wals.lock();
        let archived = wals.old.archived(number);
        let end = wals.end_of(number, engine.visible_sequence());
        drop(wals);
        let (file_type, bytes) = match (archived, end) {
            (Some(file), _) => (WalFileType::Archived, Some(file.bytes)),
            (None, WalEnd::Growing { bytes, .. }) => (WalFileType::Alive, Some(bytes)),
            (None, WalEnd::Final(bytes)) => (WalFileType::Alive, bytes),
        };
        let path_name = match file_type {
            WalFileType::Archived => format!("/{ARCHIVE_DIR}/{:06}.log", number.0),
            WalFileType::Alive => format!("/{:06}.log", number.0),
        };
        let size_file_bytes = match bytes {
            Some(bytes) => bytes,
            None => engine.fs().file_size(&wal_file_name(&engine.wal_dir, number))?,
        };
        Ok(WalFile {
            path_name,
            log_number: number,
            file_type,
            start_sequence: SequenceNumber::ZERO,
            size_file_bytes,
        })
    }
}

/// Checks that the database is not closed, and is this process's.
/// # Errors
/// `ShutdownInProgress` after the close · `NotSupported` in a forked child.
fn check_readable(engine: &Engine) -> Result<()> {
    engine.check_process()?;
    if engine.closed.load(atomic::Ordering::Acquire) {
        return Err(Error::shutdown_in_progress("the database was closed"));
    }
    Ok(())
}

/// Checks that the database is no secondary.
/// # Errors
/// `NotSupported` in a secondary: its primary decides which WALs there are.
fn check_no_secondary(engine: &Engine) -> Result<()> {
    match engine.secondary {
        Some(_) => Err(Error::not_supported("Not supported operation in secondary mode.")),
        None => Ok(()),
    }
}

/// A batch and the sequence number of its first operation.
type Update = (SequenceNumber, WriteBatch);

/// The number of the next batch.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// The next batch has this number or, before the first batch, contains it.
    Is(SequenceNumber),
    /// The first batch must end at this number or later.
    AtLeast(SequenceNumber),
}

/// Holds all WALs from one on, so that they are not deleted.
struct HeldWals {
    inner: Arc<DbInner>,
    from: FileNumber,
}

impl HeldWals {
    fn hold(inner: &Arc<DbInner>, from: FileNumber) -> HeldWals {
        inner.engine.wals.lock().old.hold(from);
        HeldWals { inner: inner.clone(), from }
    }

    /// Releases the files before `from`.
    fn move_to(&mut self, from: FileNumber) {
        let mut wals = self.inner.engine.wals.lock();
        wals.old.hold(from);
        let may_delete = wals.old.release(self.from);
        drop(wals);
        self.from = from;
        if may_delete {
            self.inner.engine.purger.request();
        }
    }

    fn readable_after(&self, number: FileNumber) -> Option<FileNumber> {
        self.inner.engine.wals.lock().readable_after(number)
    }

    fn readable_before(&self, number: FileNumber) -> Option<FileNumber> {
        self.inner.engine.wals.lock().readable_before(number)
    }

    /// Opens a file, up to its present readable end.
    fn open(&self, number: FileNumber, verify_checksums: bool) -> Result<OpenWal> {
        let engine = &self.inner.engine;
        let source = BoundedWal::open(engine.fs().as_ref(), &engine.wal_dir, number)?;
        let mut reader = LogReader::new(source, number.0);
        if !verify_checksums {
            reader = reader.without_checksums();
        }
        let end = engine.wals.lock().end_of(number, engine.visible_sequence());
        let (end, is_final) = match end {
            WalEnd::Growing { bytes, .. } => (bytes, false),
            WalEnd::Final(bytes) => (bytes.unwrap_or(u64::MAX), true),
        };
        reader.source_mut().end = end;
        Ok(OpenWal { number, reader, is_final })
    }

    /// The number of the first record; `None` if there is none, or the file is gone.
    fn first_sequence(&self, number: FileNumber) -> Result<Option<SequenceNumber>> {
        let mut file = match self.open(number, true) {
            Err(e) if e.subcode() == SubCode::PathNotFound => return Ok(None),
            file => file?,
        };
        let mut record = Vec::new();
        loop {
            let event = file.reader.next_record(&mut record)?;
            match event {
                LogEvent::Record { .. } => {
                    let batch = WriteBatchView::parse(&record).map_err(|e| e.at(file.name()))?;
                    return Ok(Some(batch.sequence()));
                }
                LogEvent::Ignored { .. } | LogEvent::Predecessor(_) | LogEvent::TimestampSizes => {}
                // The writer was interrupted in the first record.
                LogEvent::Truncated { .. } => return Ok(None),
                _ => return event.to_error(&file.name()).map_or(Ok(None), Err),
            }
        }
    }
}

impl Drop for HeldWals {
    fn drop(&mut self) {
        if !self.inner.engine.owner.is_here() {
            return;
        }
        let may_delete = self.inner.engine.wals.lock().old.release(self.from);
        if may_delete {
            self.inner.engine.purger.request();
        }
    }
}

/// A file that is being read.
struct OpenWal {
    number: FileNumber,
    reader: LogReader<BoundedWal>,
    /// Whether the file is complete: no further record follows.
    is_final: bool,
}

impl OpenWal {
    /// Lets the reader continue beyond the former end: the bound has risen.
    fn resume(&mut self) {
        let end = self.reader.mark();
        self.reader.go_back(&end);
    }

    fn name(&self) -> String {
        format!("{:06}.log", self.number.0)
    }
}

/// The changes of a database, in order: the result of [`Db::get_updates_since`].
///
/// * `Some(Ok((sequence, batch)))`: the operations of `batch` took the numbers from `sequence` on,
///   one each. Batches that were logged together come as one.
/// * `None`: the iterator has caught up. A later call continues with what was written meanwhile,
///   also in a new WAL. With `manual_wal_flush` a write comes after `flush_wal`.
/// * `Some(Err(_))`: the end. Later calls give `None`, and [`WalIterator::status`] the error.
///   `NotFound`, "Gap in sequence numbers": a write is in no WAL. It was made without a WAL, by an
///   ingestion or by a write that failed, or its WAL was deleted before the iterator began.
///   `Corruption` names the file. To continue, copy the database ([`Db::create_checkpoint`]) and
///   begin behind the copy's last number.
///
/// Operations of two-phase transactions come with their commit. Bytes of
/// [`WriteBatch::put_log_data`] come where they were written; a batch with nothing else comes only
/// when another batch follows.
///
/// After [`Db::close`] the next call fails with `ShutdownInProgress`.
pub struct WalIterator {
    held: HeldWals,
    options: WalReadOptions,
    file: Option<OpenWal>,
    /// The oldest file that was read.
    first_file: FileNumber,
    next: Next,
    /// Whether a batch was returned.
    begun: bool,
    changes: CommittedChanges,
    record: Vec<u8>,
    /// Unreadable data: the end of the last file, or a commit before the requested number. Nothing
    /// is lost if the next batch has the number that is due.
    damage: Option<Error>,
    status: Result<()>,
}

impl Iterator for WalIterator {
    type Item = Result<(SequenceNumber, WriteBatch)>;

    fn next(&mut self) -> Option<Result<(SequenceNumber, WriteBatch)>> {
        if self.status.is_err() {
            return None;
        }
        match self.advance() {
            Ok(update) => update.map(Ok),
            Err(e) => {
                self.status = Err(e.clone());
                Some(Err(e))
            }
        }
    }
}

impl WalIterator {
    /// The error that has ended the iteration.
    /// # Errors
    /// That error.
    pub fn status(&self) -> Result<()> {
        self.status.clone()
    }

    /// Moves to the newest file that begins at or before `from`, or to the oldest file.
    fn seek(&mut self, from: SequenceNumber) -> Result<()> {
        let (mut start, mut before) = (None, FileNumber(u64::MAX));
        while let Some(number) = self.held.readable_before(before) {
            before = number;
            let first = match self.held.first_sequence(number) {
                // Batches of older files come before the error.
                Err(e) if e.kind() == ErrorKind::Corruption => continue,
                first => first?,
            };
            let Some(first) = first else { continue };
            start = Some((number, first));
            if first <= from {
                break;
            }
        }
        let current = self.held.inner.engine.wals.lock().current_number();
        let (number, first) = start.unwrap_or((current, from));
        if first > from && !self.options.from_next_available {
            return Err(gap(from, first, number));
        }
        if number.0 > 0 {
            self.first_file = number;
            self.open(number)?;
        }
        Ok(())
    }

    fn open(&mut self, number: FileNumber) -> Result<()> {
        self.file = Some(self.held.open(number, self.options.verify_checksums)?);
        self.held.move_to(number);
        Ok(())
    }

    /// The next batch; `None` if the iterator has caught up.
    fn advance(&mut self) -> Result<Option<Update>> {
        check_readable(&self.held.inner.engine)?;
        while self.read_record()? {
            if let Some(update) = self.update()? {
                return Ok(Some(update));
            }
        }
        Ok(None)
    }

    fn in_this_file(&self, error: Error) -> Error {
        match &self.file {
            Some(file) => error.at(file.name()),
            None => error,
        }
    }

    /// The batch that the record has committed; `None` if it commits nothing, or lies before the
    /// start.
    fn update(&mut self) -> Result<Option<Update>> {
        let record = WriteBatchView::parse(&self.record).map_err(|e| self.in_this_file(e))?;
        while let Some(xid) = self.changes.missing(&record) {
            match self.section_of(&xid) {
                Ok(section) => self.changes.add_prepared(xid, section),
                // Nothing is lost if the requested number comes after this commit.
                Err(e) if !self.begun => {
                    self.damage = Some(e);
                    return Ok(None);
                }
                Err(e) => return Err(e),
            }
        }
        let engine = &self.held.inner.engine;
        let committed = self.changes.of(&record, &|id| engine.timestamp_size(id) > 0);
        let committed = committed.map_err(|e| self.in_this_file(e))?;
        let Some(batch) = committed.filter(|batch| !batch.is_empty()) else { return Ok(None) };
        let first = batch.sequence();
        if batch.count() == 0 {
            // Log data has no number. It belongs behind the last returned batch.
            return Ok(self.begun.then_some((first, batch)));
        }
        let behind = SequenceNumber(first.0.saturating_add(u64::from(batch.count())));
        match self.next {
            Next::Is(next) | Next::AtLeast(next) if !self.begun && behind <= next => return Ok(None),
            Next::Is(next) if first > next || self.begun && first < next => {
                let number = self.file.as_ref().map_or(FileNumber(0), |file| file.number);
                return Err(self.damage.take().unwrap_or_else(|| gap(next, first, number)));
            }
            Next::Is(_) | Next::AtLeast(_) => {}
        }
        (self.next, self.begun, self.damage) = (Next::Is(behind), true, None);
        Ok(Some((first, batch)))
    }

    /// Reads the next record; false if there is none yet.
    fn read_record(&mut self) -> Result<bool> {
        let engine = &self.held.inner.engine;
        // Read-only: the owner of the database may have written more since the open.
        if engine.read_only && matches!(self.next, Next::Is(next) if next > engine.visible_sequence()) {
            return Ok(false);
        }
        loop {
            let Some(file) = &mut self.file else { return Ok(false) };
            let event = file.reader.next_record(&mut self.record)?;
            match event {
                LogEvent::Record { .. } => return Ok(true),
                LogEvent::Ignored { .. } | LogEvent::Predecessor(_) | LogEvent::TimestampSizes => {}
                LogEvent::End => {
                    if !self.move_on()? {
                        return Ok(false);
                    }
                }
                LogEvent::Truncated { .. }
                | LogEvent::Corrupt { .. }
                | LogEvent::OldRecord { .. }
                | LogEvent::Undecodable { .. } => {
                    let damage =
                        event.to_error(&file.name()).unwrap_or_else(|| Error::corruption(file.name()));
                    if !file.is_final {
                        return Err(damage);
                    }
                    self.damage = Some(damage);
                    if !self.move_on()? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Continues after the last readable record, in the same file or in the next one. False if
    /// there is nothing more.
    fn move_on(&mut self) -> Result<bool> {
        let engine = &self.held.inner.engine;
        let Some(file) = &mut self.file else { return Ok(false) };
        // Read before the WALs: a number is published after its record is in the WAL.
        let published = engine.visible_sequence();
        let wals = engine.wals.lock();
        let (end, following) = (wals.end_of(file.number, published), wals.readable_after(file.number));
        drop(wals);
        let due = match end {
            WalEnd::Growing { bytes, .. } if bytes > file.reader.source_mut().end => {
                file.reader.source_mut().end = bytes;
                file.resume();
                return Ok(true);
            }
            WalEnd::Growing { due, .. } => due,
            WalEnd::Final(bytes) if !file.is_final => {
                file.reader.source_mut().end = bytes.unwrap_or(u64::MAX);
                file.resume();
                file.is_final = true;
                return Ok(true);
            }
            WalEnd::Final(_) => {
                if let Some(number) = following {
                    self.open(number)?;
                    return Ok(true);
                }
                None
            }
        };
        match self.next {
            // The number is published, but the WALs end before it.
            Next::Is(next)
                if published >= next && (self.damage.is_some() || due.is_none_or(|due| due <= next)) =>
            {
                let number = file.number;
                Err(self.damage.take().unwrap_or_else(|| gap(next, SequenceNumber(published.0 + 1), number)))
            }
            _ => Ok(false),
        }
    }

    /// The operations of a transaction that was prepared before the first file. Cost: one read of
    /// each older WAL, newest first, up to the one that has them.
    /// # Errors
    /// `NotFound`, a gap, if no WAL has them.
    fn section_of(&self, xid: &[u8]) -> Result<WriteBatch> {
        let mut before = self.first_file;
        while let Some(number) = self.held.readable_before(before) {
            before = number;
            match self.section_in(number, xid) {
                Err(e) if e.subcode() == SubCode::PathNotFound => break,
                Err(e) => return Err(e),
                Ok(Found::Section(ops)) => return Ok(ops),
                Ok(Found::Resolved) => break,
                Ok(Found::Nothing) => {}
            }
        }
        let name = xid.escape_ascii();
        Err(Error::not_found(format!(
            "Gap in sequence numbers: no WAL has the prepared transaction '{name}'"
        )))
    }

    fn section_in(&self, number: FileNumber, xid: &[u8]) -> Result<Found> {
        let mut file = self.held.open(number, self.options.verify_checksums)?;
        let (mut record, mut found) = (Vec::new(), Found::Nothing);
        let mut sections = CommittedChanges::default();
        loop {
            match file.reader.next_record(&mut record)? {
                LogEvent::Record { .. } => {}
                LogEvent::Ignored { .. } | LogEvent::Predecessor(_) | LogEvent::TimestampSizes => continue,
                _ => break,
            }
            let batch = WriteBatchView::parse(&record).map_err(|e| e.at(file.name()))?;
            if !batch.content().transaction_markers {
                continue;
            }
            for op in batch.iter() {
                match op {
                    BatchOp::Commit { xid: ended }
                    | BatchOp::CommitWithTimestamp { xid: ended, .. }
                    | BatchOp::Rollback { xid: ended }
                        if ended == xid =>
                    {
                        found = Found::Resolved;
                    }
                    _ => {}
                }
            }
            while let Some(other) = sections.missing(&batch) {
                sections.add_prepared(other, WriteBatch::new());
            }
            sections.of(&batch, &|_| false).map_err(|e| e.at(file.name()))?;
            if let Some(ops) = sections.take_prepared(xid) {
                found = Found::Section(ops);
            }
        }
        Ok(found)
    }
}

/// A finding about a prepared transaction in a WAL.
enum Found {
    Nothing,
    /// The section is prepared and not resolved.
    Section(WriteBatch),
    /// The transaction of this name was committed or rolled back.
    Resolved,
}

/// The error of a gap: numbers from `due` up to `found` are missing, or those from `found` on come
/// twice.
fn gap(due: SequenceNumber, found: SequenceNumber, number: FileNumber) -> Error {
    let last = found.0.saturating_sub(1);
    let what = match last.cmp(&due.0) {
        Ordering::Equal => format!("no WAL has {due}"),
        Ordering::Greater => format!("no WAL has {due} to {last}"),
        Ordering::Less => format!("{found} comes where {due} is due"),
    };
    Error::not_found(format!("Gap in sequence numbers: {what} (in {:06}.log)", number.0))
}

impl fmt::Debug for WalIterator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.file.as_ref().map(|file| file.number);
        f.debug_struct("WalIterator").field("file", &number).field("next", &self.next).finish_non_exhaustive()
    }
}
