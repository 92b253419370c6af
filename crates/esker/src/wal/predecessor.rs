//! The first record of a WAL whose predecessor is not synced yet: where that one ended.
//!
//! A crash may take the end of a WAL, cut between two records, and leave the beginning of the next: nothing is damaged,
//! and there is a hole. RocksDB 10 can tell with a record type of its own (`track_and_verify_wals`), at which older ones
//! stop. Here it is a write batch without operations that carries log data, which every RocksDB passes over.
//!
//! In: number of the predecessor and the sequence number due after its last record. Out: a batch; and back.

use esker_base::{FileNumber, Result, SequenceNumber};
use esker_format::write_batch::{BatchOp, WriteBatch, WriteBatchView};

const MAGIC: &[u8] = b"esker.wal.predecessor";

/// What a WAL says of the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Predecessor {
    pub(crate) number: FileNumber,
    /// Of the first record that is not in it.
    pub(crate) due: SequenceNumber,
}

impl Predecessor {
    /// The batch that says so, ahead of the one numbered `next`.
    pub(crate) fn to_batch(self, next: SequenceNumber) -> Result<WriteBatch> {
        let blob = [MAGIC, &self.number.0.to_le_bytes(), &self.due.0.to_le_bytes()].concat();
        let mut batch = WriteBatch::new();
        batch.put_log_data(&blob)?;
        batch.set_sequence(next);
        Ok(batch)
    }

    /// What this batch says, if it says anything of the kind.
    pub(crate) fn of_batch(batch: &WriteBatchView<'_>) -> Option<Predecessor> {
        if batch.count() > 0 {
            return None;
        }
        let Some(BatchOp::LogData(blob)) = batch.iter().next() else { return None };
        let (number, due) = blob.strip_prefix(MAGIC)?.split_at_checked(8)?;
        Some(Predecessor {
            number: FileNumber(u64::from_le_bytes(number.try_into().ok()?)),
            due: SequenceNumber(u64::from_le_bytes(due.try_into().ok()?)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood_and_other_batches_say_nothing() {
        let said = Predecessor { number: FileNumber(7), due: SequenceNumber(300) };
        let batch = said.to_batch(SequenceNumber(305)).unwrap();
        assert_eq!(Predecessor::of_batch(&batch.view()), Some(said));
        assert_eq!((batch.count(), batch.sequence()), (0, SequenceNumber(305)));
        let mut other = WriteBatch::new();
        assert_eq!(Predecessor::of_batch(&other.view()), None);
        other.put_log_data(b"esker.wal.predecessor, not").unwrap();
        assert_eq!(Predecessor::of_batch(&other.view()), None);
    }
}
