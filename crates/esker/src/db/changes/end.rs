//! The reasons why a change stream ends for good, in numbers.

use super::ChangePosition;
use crate::db::Db;
use crate::options::WalReadOptions;
use esker_base::{Error, ErrorKind, SequenceNumber};
use std::fmt;

/// The advice for readers: it holds for each reason.
const ADVICE: &str = "copy the database with Db::create_checkpoint, and continue at \
                      ChangePosition::after the number that it returns";

/// The reason why no stream can go on from a position. The reader needs a new copy of the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ChangesEnd {
    /// No WAL has these writes: they were made without a WAL, by an ingestion or by a write that
    /// failed, or their WAL was deleted before the reader came.
    Gap {
        /// The first missing number.
        from: SequenceNumber,
        /// The last missing number.
        to: SequenceNumber,
    },
    /// The database has no such number yet. A crash took writes that the reader has seen, or the
    /// position belongs to another database.
    Ahead {
        /// The reader's place.
        position: ChangePosition,
        /// The newest number of the database.
        newest: SequenceNumber,
    },
    /// The reader left more WALs unread than
    /// [`ChangesOptions::max_retained_bytes`](crate::ChangesOptions::max_retained_bytes) allows.
    /// Its WALs were released.
    FellBehind {
        /// The reader's place.
        position: ChangePosition,
        /// Bytes that it had left unread.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
}

impl ChangesEnd {
    /// The reason why no stream begins at `position`.
    pub(super) fn of_start(db: &Db, position: ChangePosition, _error: &Error) -> ChangesEnd {
        let newest = db.engine().visible_sequence();
        match position.next_sequence().0 > newest.0 + 1 {
            true => ChangesEnd::Ahead { position, newest },
            false => ChangesEnd::of_gap(db, position),
        }
    }

    /// The gap at `position`. Cost: one read of each WAL from the newest back to it.
    pub(super) fn of_gap(db: &Db, position: ChangePosition) -> ChangesEnd {
        let from = position.next_sequence();
        let newest = db.engine().visible_sequence();
        let options = WalReadOptions::new().from_next_available(true);
        let behind = db.get_updates_since(from, &options).ok().and_then(|mut updates| updates.next());
        let to = match behind {
            Some(Ok((first, _))) if first > from => SequenceNumber(first.0 - 1),
            _ => newest.max(from),
        };
        ChangesEnd::Gap { from, to }
    }

    /// The error of this end. `cause` is the one that a WAL gave.
    pub(super) fn to_error(self, cause: Option<&Error>) -> Error {
        let cause = cause.map_or_else(String::new, |cause| format!(" ({})", cause.message()));
        let message = format!("{self}{cause}; {ADVICE}");
        match self {
            ChangesEnd::Gap { .. } | ChangesEnd::Ahead { .. } => Error::not_found(message),
            ChangesEnd::FellBehind { .. } => Error::new(ErrorKind::Expired, message),
        }
    }
}

impl fmt::Display for ChangesEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangesEnd::Gap { from, to } => {
                write!(f, "Gap in the changes: no WAL has the sequence numbers {from} to {to}")
            }
            ChangesEnd::Ahead { position, newest } => write!(
                f,
                "The position {position} is ahead of the database, whose newest sequence number is {newest}"
            ),
            ChangesEnd::FellBehind { position, bytes, limit } => write!(
                f,
                "The reader of changes at {position} left {bytes} bytes of WALs unread, {} more than \
                 max_retained_bytes ({limit})",
                bytes.saturating_sub(*limit)
            ),
        }
    }
}
