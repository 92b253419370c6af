//! Writes that call the program back.

use super::{BatchArg, Db};
use crate::options::WriteOptions;
use crate::write::ApartCalls;
use esker_base::Result;

/// Decides about a write just before it is written: RocksDB's `WriteCallback`.
pub trait WriteCallback {
    /// Called by the thread that leads the writers: all earlier writes are visible, and no other
    /// write begins until this one has ended. The function may read `db`. A write through `db`
    /// would wait for itself for ever.
    /// # Errors
    /// Any error refuses the write: nothing is written, and the caller gets the error.
    fn callback(&self, db: &Db) -> Result<()>;

    /// Whether the write may share its WAL record with other writes. The engine writes it alone in
    /// any case. Default: false.
    fn allow_write_batching(&self) -> bool {
        false
    }
}

/// Follows a write on its way: RocksDB's `UserWriteCallback`. All other writes may wait for these
/// functions, so they should be quick. They must not write to the database.
pub trait UserWriteCallback {
    /// Called when the write has its place in the line of writers: later writes come after it.
    fn on_write_enqueued(&self);

    /// Called when the write is in the WAL, and on the medium with `sync`. Reads do not see it yet.
    /// Not called with `disable_wal`, or if the write fails before.
    fn on_wal_write_finish(&self);
}

impl Db {
    /// [`write_opt`](Self::write_opt) that calls `user` when the write is in the line of writers,
    /// and when it is in the WAL. The write is in a WAL record of its own.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::{UserWriteCallback, WriteBatch, WriteOptions};
    /// use std::cell::Cell;
    ///
    /// #[derive(Default)]
    /// struct Steps(Cell<u32>);
    ///
    /// impl UserWriteCallback for Steps {
    ///     fn on_write_enqueued(&self) {
    ///         assert_eq!(self.0.replace(1), 0);
    ///     }
    ///     fn on_wal_write_finish(&self) {
    ///         assert_eq!(self.0.replace(2), 1);
    ///     }
    /// }
    ///
    /// let steps = Steps::default();
    /// let mut batch = WriteBatch::new();
    /// batch.put("a", "1")?;
    /// db.write_with_callback(&WriteOptions::new(), batch, &steps)?;
    /// assert_eq!(steps.0.get(), 2);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// Those of [`write_opt`](Self::write_opt) · `Aborted` if `user` panics: the write is done if
    /// `on_wal_write_finish` does so · `NotSupported`: the database of a `TransactionDb` with
    /// another write policy than `WriteCommitted`.
    pub fn write_with_callback(
        &self,
        options: &WriteOptions,
        batch: impl BatchArg,
        user: &dyn UserWriteCallback,
    ) -> Result<()> {
        self.write_with_callbacks(options, batch, None, Some(user))
    }

    /// [`write_with_callback`](Self::write_with_callback) that also asks `callback` whether to
    /// write. Both are optional.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::{Db, Error, ErrorKind, Result, WriteBatch, WriteCallback, WriteOptions};
    ///
    /// /// Writes only if nobody has the name.
    /// struct Vacant(&'static str);
    ///
    /// impl WriteCallback for Vacant {
    ///     fn callback(&self, db: &Db) -> Result<()> {
    ///         match db.get(self.0)? {
    ///             None => Ok(()),
    ///             Some(_) => Err(Error::new(ErrorKind::Busy, "the name is taken")),
    ///         }
    ///     }
    /// }
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put("ada", "countess")?;
    /// let write = |batch| {
    ///     db.write_with_callbacks(&WriteOptions::new(), batch, Some(&Vacant("ada")), None)
    /// };
    /// write(&batch)?;
    /// assert_eq!(write(&batch).unwrap_err().kind(), ErrorKind::Busy);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// The error of `callback`: nothing was written · those of
    /// [`write_with_callback`](Self::write_with_callback).
    pub fn write_with_callbacks(
        &self,
        options: &WriteOptions,
        batch: impl BatchArg,
        callback: Option<&dyn WriteCallback>,
        user: Option<&dyn UserWriteCallback>,
    ) -> Result<()> {
        let enqueued = || user.iter().for_each(|user| user.on_write_enqueued());
        let check = || callback.map_or(Ok(()), |callback| callback.callback(self));
        let logged = || user.iter().for_each(|user| user.on_wal_write_finish());
        let calls = ApartCalls {
            enqueued: Some(&enqueued),
            check: Some(&check),
            logged: Some(&logged),
            ..ApartCalls::default()
        };
        batch.lend(|batch| self.write_apart(options, batch, &calls))
    }
}
