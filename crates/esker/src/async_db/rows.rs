//! A range as a stream.
//!
//! In: a range. Out: its entries in order, as of one point in time. A first cursor reads cached
//! blocks on the thread that polls. Where it would need I/O, a second cursor takes over behind the
//! last entry: a thread of the pool reads the rest, one piece each time that the stream runs empty.

use super::AsyncDb;
use super::pool::Errand;
use crate::db::ColumnFamilyHandle;
use crate::options::{ReadOptions, ReadTier};
use crate::scan::{Entries, KeyRange, KeyValue};
use esker_base::{Error, ErrorKind, Result};
use futures_core::Stream;
use futures_core::future::BoxFuture;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Bound;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Entries and bytes at which a piece ends.
const PIECE_ENTRIES: usize = 256;
const PIECE_BYTES: usize = 64 << 10;

/// The entries of a range as a [`Stream`]: the result of [`AsyncDb::range`].
///
/// All entries are as of one point in time. An error comes as an item, and is the last one. The
/// stream reads only while it is polled, and holds one piece: up to 256 entries, or 64 KiB and the
/// entry that goes beyond. A slow reader therefore costs one piece, and keeps a snapshot.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// use esker::{AsyncDb, Db};
/// use futures_util::{StreamExt, TryStreamExt};
///
/// # futures_executor::block_on(async {
/// let db = AsyncDb::new(Db::open_default(dir.path())?, &Default::default())?;
/// for key in ["a", "b", "c"] {
///     db.put(key, "value").await?;
/// }
/// let forward: Vec<_> = db.range("a".."c").try_collect().await?;
/// assert_eq!(forward.len(), 2);
/// let (last, _) = db.range(..).rev().next().await.expect("there are three")?;
/// assert_eq!(last, b"c");
/// # Ok::<_, esker::Error>(())
/// # })?;
/// # Ok::<_, esker::Error>(())
/// ```
pub struct RowStream {
    scan: Scan,
    rows: VecDeque<KeyValue>,
    /// The error behind the last of `rows`.
    failed: Option<Error>,
    state: State,
}

/// The part of the range that is left.
struct Scan {
    db: AsyncDb,
    options: ReadOptions,
    family: ColumnFamilyHandle,
    /// The keys that no piece has given yet.
    range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    is_reverse: bool,
}

enum State {
    /// The cursor over cached blocks, opened by the first poll.
    Cached(Option<Entries>),
    /// A thread reads a piece.
    Away(BoxFuture<'static, Result<(Entries, Piece)>>),
    /// The cursor that reads files, between two pieces; opened by the first thread.
    Here(Option<Entries>),
    Over,
}

struct Piece {
    rows: VecDeque<KeyValue>,
    is_last: bool,
    failed: Option<Error>,
}

impl RowStream {
    pub(super) fn new(
        db: &AsyncDb,
        mut options: ReadOptions,
        family: &ColumnFamilyHandle,
        range: impl KeyRange,
    ) -> RowStream {
        options.snapshot.get_or_insert_with(|| db.db.snapshot());
        let (db, family) = (db.clone(), family.clone());
        RowStream {
            scan: Scan { db, options, family, range: range.ends(), is_reverse: false },
            rows: VecDeque::new(),
            failed: None,
            state: State::Cached(None),
        }
    }

    /// The same entries from the last to the first. After the first poll it changes nothing.
    pub fn rev(mut self) -> RowStream {
        self.scan.is_reverse ^= matches!(self.state, State::Cached(None));
        self
    }

    /// Takes `piece` in, and tells what follows it.
    fn take_in(&mut self, piece: Piece, next: State) {
        let is_over = piece.is_last || piece.failed.is_some();
        self.rows = piece.rows;
        self.failed = piece.failed;
        self.state = if is_over { State::Over } else { next };
    }
}

impl Stream for RowStream {
    type Item = Result<KeyValue>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<KeyValue>>> {
        let this = self.get_mut();
        loop {
            if let Some(row) = this.rows.pop_front() {
                return Poll::Ready(Some(Ok(row)));
            }
            if let Some(error) = this.failed.take() {
                return Poll::Ready(Some(Err(error)));
            }
            match std::mem::replace(&mut this.state, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Cached(entries) => this.read_cached(entries),
                State::Here(entries) => this.state = this.scan.send(entries),
                State::Away(mut piece) => match piece.as_mut().poll(context) {
                    Poll::Pending => {
                        this.state = State::Away(piece);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok((entries, piece))) => this.take_in(piece, State::Here(Some(entries))),
                    Poll::Ready(Err(error)) => this.failed = Some(error),
                },
            }
        }
    }
}

impl RowStream {
    /// Reads a piece of cached blocks. A piece that ends before a block that is not cached leaves
    /// the rest to a thread.
    fn read_cached(&mut self, entries: Option<Entries>) {
        let may_read_files = self.scan.options.read_tier == ReadTier::ReadAll;
        let mut entries = entries.unwrap_or_else(|| self.scan.open_cached());
        let mut piece = read_piece(&mut entries, self.scan.is_reverse);
        if may_read_files {
            self.scan.narrow(&piece);
            if piece.failed.as_ref().is_some_and(|e| e.kind() == ErrorKind::Incomplete) {
                (piece.failed, piece.is_last) = (None, false);
                return self.take_in(piece, State::Here(None));
            }
        }
        self.take_in(piece, State::Cached(Some(entries)));
    }
}

impl Scan {
    /// A cursor over the range that does no I/O, unless the user chose another tier.
    fn open_cached(&self) -> Entries {
        let mut options = self.options.clone();
        if options.read_tier == ReadTier::ReadAll {
            options.read_tier = ReadTier::BlockCache;
        }
        self.db.db.range_opt(options, &self.family, self.range.clone())
    }

    /// Leaves what lies behind `piece` as the rest of the range.
    fn narrow(&mut self, piece: &Piece) {
        if let Some((key, _)) = piece.rows.back() {
            let end = if self.is_reverse { &mut self.range.1 } else { &mut self.range.0 };
            *end = Bound::Excluded(key.clone());
        }
    }

    /// Lets a thread read the next piece.
    fn send(&self, entries: Option<Entries>) -> State {
        let (pool, db, is_reverse) = (self.db.pool.clone(), self.db.db.clone(), self.is_reverse);
        let (options, family, range) = (self.options.clone(), self.family.clone(), self.range.clone());
        State::Away(Box::pin(async move {
            let read = move || {
                let mut entries = entries.unwrap_or_else(|| db.range_opt(options, &family, range));
                let piece = read_piece(&mut entries, is_reverse);
                Ok((entries, piece))
            };
            pool.run(Errand::Read, read).await
        }))
    }
}

fn read_piece(entries: &mut Entries, is_reverse: bool) -> Piece {
    let (mut rows, mut bytes) = (VecDeque::new(), 0);
    while rows.len() < PIECE_ENTRIES && bytes < PIECE_BYTES {
        match if is_reverse { entries.next_back() } else { entries.next() } {
            None => return Piece { rows, is_last: true, failed: None },
            Some(Err(error)) => return Piece { rows, is_last: true, failed: Some(error) },
            Some(Ok((key, value))) => {
                bytes += key.len() + value.len();
                rows.push_back((key, value));
            }
        }
    }
    Piece { rows, is_last: false, failed: None }
}

impl fmt::Debug for RowStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowStream({}, {})", self.scan.db.db.path().display(), self.scan.family.name())
    }
}
