//! Points of a batch: save points, and the end of its part for the WAL.
//!
//! Invariant: points have the order in which they were set, so their sizes never fall.

use super::{BATCH_HEADER_BYTES, BatchContent, WriteBatch};
use esker_base::{Error, Result};

/// The state of a batch when a point was set.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchPoint {
    bytes: usize,
    count: u32,
    content: BatchContent,
    /// Whether the ops behind the point are not logged. Other points are save points.
    ends_wal: bool,
}

/// The end of the part of a batch that goes to the WAL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalTerminationPoint {
    /// Bytes of the batch up to the point, header included.
    pub size: usize,
    /// Operations before the point that count in [`WriteBatch::len`].
    pub count: u32,
    /// The kinds of ops before the point.
    pub content: BatchContent,
}

impl WriteBatch {
    /// Remembers the present state for [`WriteBatch::rollback_to_save_point`]. Save points nest.
    pub fn set_save_point(&mut self) {
        self.add_point(false);
    }

    /// Removes all ops since the last save point, and the save point. A termination point of the
    /// WAL behind the save point goes, too; an earlier one counts again.
    /// # Errors
    /// `NotFound` if there is none.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        let (at, point) = self.last_save_point()?;
        self.points.truncate(at);
        self.rep.truncate(point.bytes);
        self.content = point.content;
        self.set_count(point.count);
        if let Some(checksums) = &mut self.checksums {
            checksums.truncate(point.count as usize);
        }
        Ok(())
    }

    /// Removes the last save point.
    /// # Errors
    /// `NotFound` if there is none.
    pub fn pop_save_point(&mut self) -> Result<()> {
        let (at, _) = self.last_save_point()?;
        self.points.remove(at);
        Ok(())
    }

    /// Ends the part of the batch for the WAL here: a write puts later ops into the memtables only,
    /// where reads see them at once. A crash loses these ops until their memtables are flushed, as
    /// with `WriteOptions::disable_wal`. The last call counts.
    ///
    /// The write refuses such a batch with `recycle_log_file_num`, or in a database with prepared
    /// transactions in its memtables (`WritePrepared`, `WriteUnprepared`).
    ///
    /// ```
    /// # use esker_format::write_batch::WriteBatch;
    /// let mut batch = WriteBatch::new();
    /// batch.put("durable", "1")?;
    /// batch.mark_wal_termination_point();
    /// batch.put("derived", "2")?;
    /// let point = batch.wal_termination_point().unwrap();
    /// assert_eq!((point.count, batch.count()), (1, 2));
    /// assert!(point.size < batch.data_size());
    /// # Ok::<_, esker_base::Error>(())
    /// ```
    pub fn mark_wal_termination_point(&mut self) {
        self.add_point(true);
    }

    /// The end of the part for the WAL; `None` if all ops are logged.
    #[inline]
    pub fn wal_termination_point(&self) -> Option<WalTerminationPoint> {
        if self.points.is_empty() { None } else { self.last_termination_point() }
    }

    /// The ops before `point`, a point of this batch, as [`WriteBatch::ops_bytes`] has them.
    #[doc(hidden)]
    pub fn ops_bytes_before(&self, point: &WalTerminationPoint) -> &[u8] {
        let ops = self.ops_bytes();
        ops.get(..point.size.saturating_sub(BATCH_HEADER_BYTES)).unwrap_or(ops)
    }

    fn last_termination_point(&self) -> Option<WalTerminationPoint> {
        let point = self.points.iter().rev().find(|point| point.ends_wal)?;
        let size = point.bytes.max(BATCH_HEADER_BYTES);
        Some(WalTerminationPoint { size, count: point.count, content: point.content })
    }

    fn add_point(&mut self, ends_wal: bool) {
        let (bytes, count, content) = (self.rep.len(), self.count, self.content);
        self.points.push(BatchPoint { bytes, count, content, ends_wal });
    }

    /// The last save point, and its place among the points.
    fn last_save_point(&self) -> Result<(usize, BatchPoint)> {
        let mut points = self.points.iter().copied().enumerate().rev();
        points.find(|(_, point)| !point.ends_wal).ok_or_else(no_save_point)
    }
}

#[cold]
fn no_save_point() -> Error {
    Error::not_found("the write batch has no save point")
}
