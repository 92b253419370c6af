//! The forms in which a write takes its batch: by value, lent for change, or lent to be read.
//!
//! The write path puts sequence numbers into the batch it writes, so it needs one it may change.

use esker_format::write_batch::WriteBatch;

/// A batch as [`Db::write`](crate::Db::write) takes it.
///
/// | argument | cost beyond the write |
/// |---|---|
/// | `batch` | none; the batch is gone |
/// | `&mut batch` | none; the batch can be cleared and its memory used again |
/// | `&batch` | one copy of the batch |
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let db = esker::Db::open_default(dir.path())?;
/// let mut batch = esker::WriteBatch::new();
/// batch.put("a", "1")?;
/// db.write(&batch)?;
/// db.write(&mut batch)?;
/// db.write(batch)?;
/// # Ok::<_, esker::Error>(())
/// ```
pub trait BatchArg: sealed::Sealed {
    /// Runs `write` on a batch that it may change.
    #[doc(hidden)]
    fn lend<R>(self, write: impl FnOnce(&mut WriteBatch) -> R) -> R;
}

impl BatchArg for WriteBatch {
    fn lend<R>(mut self, write: impl FnOnce(&mut WriteBatch) -> R) -> R {
        write(&mut self)
    }
}

impl BatchArg for &mut WriteBatch {
    #[inline]
    fn lend<R>(self, write: impl FnOnce(&mut WriteBatch) -> R) -> R {
        write(self)
    }
}

impl BatchArg for &WriteBatch {
    fn lend<R>(self, write: impl FnOnce(&mut WriteBatch) -> R) -> R {
        write(&mut self.clone())
    }
}

pub(crate) mod sealed {
    use super::WriteBatch;

    /// Only batches of this workspace are arguments of a write.
    pub trait Sealed {}

    impl Sealed for WriteBatch {}
    impl Sealed for &mut WriteBatch {}
    impl Sealed for &WriteBatch {}
}
