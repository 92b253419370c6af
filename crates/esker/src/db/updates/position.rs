//! Places of a [`WalIterator`], for `db/changes.rs`: a start behind the newest write, and the bytes
//! that are not read yet.

use super::{HeldWals, Next, WalIterator, check_no_secondary, check_readable};
use crate::db::Db;
use crate::options::WalReadOptions;
use crate::wal::{CommittedChanges, WalEnd, other_policy};
use esker_base::{FileNumber, Result, SequenceNumber, SubCode};
use esker_format::file_name::wal_file_name;

/// A WAL, and the bytes at its front that lie before the place at which a reader began.
pub(in crate::db) type NeedlessBytes = Option<(FileNumber, u64)>;

impl WalIterator {
    /// An iterator whose first batch contains `next`, which may be the number of the write that
    /// comes next; and the bytes before it that no reader from there on needs. From this call on
    /// the iterator keeps the WALs from that place on.
    /// # Errors
    /// Those of [`Db::get_updates_since`].
    pub(in crate::db) fn from_position(
        db: &Db,
        next: SequenceNumber,
        options: &WalReadOptions,
    ) -> Result<(WalIterator, NeedlessBytes)> {
        let engine = db.engine();
        check_readable(engine)?;
        check_no_secondary(engine)?;
        if engine.commits.is_some() {
            return Err(other_policy());
        }
        // Held before the newest number is read: a write that comes now stays readable.
        let held = HeldWals::hold(&db.inner, FileNumber(0));
        let newest = engine.visible_sequence();
        if next <= newest || next.0 > newest.0 + 1 {
            return Ok((db.get_updates_since(next, options)?, None));
        }
        let mut updates = WalIterator {
            held,
            options: *options,
            file: None,
            first_file: FileNumber(0),
            next: Next::Is(next),
            begun: false,
            changes: CommittedChanges::default(),
            record: Vec::new(),
            damage: None,
            status: Ok(()),
        };
        updates.seek(next)?;
        let needless =
            updates.file.as_ref().and_then(|file| match engine.wals.lock().end_of(file.number, newest) {
                WalEnd::Growing { bytes, .. } => Some((file.number, bytes)),
                WalEnd::Final(_) => None,
            });
        Ok((updates, needless))
    }

    /// Bytes of the WALs that the iterator has not read: it keeps them from being deleted. Cost: a
    /// lock and at most one look at the directory for each WAL from the current place on.
    /// # Errors
    /// `IoError`.
    pub(in crate::db) fn unread_bytes(&self, needless: NeedlessBytes) -> Result<u64> {
        let Some(file) = &self.file else { return Ok(0) };
        let engine = &self.held.inner.engine;
        let (mut total, mut next) = (0u64, Some(file.number));
        while let Some(number) = next {
            let published = engine.visible_sequence();
            let wals = engine.wals.lock();
            let (archived, end) = (wals.old.archived(number), wals.end_of(number, published));
            next = wals.readable_after(number);
            drop(wals);
            total += match (archived, end) {
                (Some(file), _) => file.bytes,
                (None, WalEnd::Growing { bytes, .. } | WalEnd::Final(Some(bytes))) => bytes,
                (None, WalEnd::Final(None)) => {
                    match engine.fs().file_size(&wal_file_name(&engine.wal_dir, number)) {
                        // It went into the archive meanwhile, or is gone.
                        Err(e) if e.subcode() == SubCode::PathNotFound => 0,
                        bytes => bytes?,
                    }
                }
            };
        }
        let needless = needless.filter(|(number, _)| *number == file.number).map_or(0, |(_, bytes)| bytes);
        Ok(total.saturating_sub(file.reader.offset().max(needless)))
    }
}
