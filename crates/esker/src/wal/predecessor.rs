//! The first record of a WAL whose predecessor is not synced yet. It states the predecessor's end.
//!
//! A crash may lose the end of a WAL, cut between two records, and keep the start of the next WAL:
//! no record looks damaged, but some are missing. RocksDB 10 detects this by a record type of its
//! own (`track_and_verify_wals`), at which older versions stop. Esker writes a batch that has only
//! log data, which every RocksDB skips.
//!
//! In: the predecessor's number, the sequence number due after its last record, and its number of
//! records, because steps of prepared transactions take no sequence numbers. Out: a batch; and
//! back.
//!
//! A WAL that replaces a failed one begins with copies of the sections prepared there. It states
//! this in the same way, with a sequence number that is never due. Until the MANIFEST releases the
//! failed WAL, that WAL counts and the copies do not: it may hold a refused commit of a copied
//! section, or have lost earlier records.

use esker_base::{FileNumber, Result, SequenceNumber};
use esker_format::write_batch::{BatchOp, WriteBatch, WriteBatchView};

const MAGIC: &[u8] = b"esker.wal.predecessor";

/// A WAL's statement about the preceding WAL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Predecessor {
    pub(crate) number: FileNumber,
    /// The sequence number due after the predecessor's last record.
    pub(crate) due: SequenceNumber,
    /// Number of records in the predecessor; `None`: it was unknown at the time of writing.
    pub(crate) records: Option<u64>,
}

/// The `due` number for a failed WAL.
const NEVER: SequenceNumber = SequenceNumber(u64::MAX);

impl Predecessor {
    /// The statement about a failed WAL, whose end is unknown.
    pub(crate) fn that_failed(number: FileNumber) -> Predecessor {
        Predecessor { number, due: NEVER, records: None }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.due == NEVER
    }

    /// The statement as a batch that precedes the batch numbered `next`.
    pub(crate) fn to_batch(self, next: SequenceNumber) -> Result<WriteBatch> {
        let records = self.records.map(u64::to_le_bytes);
        let records = records.as_ref().map_or(&[][..], |bytes| bytes);
        let blob = [MAGIC, &self.number.0.to_le_bytes(), &self.due.0.to_le_bytes(), records].concat();
        let mut batch = WriteBatch::new();
        batch.put_log_data(&blob)?;
        batch.set_sequence(next);
        Ok(batch)
    }

    /// The statement in this batch, if it is one.
    pub(crate) fn of_batch(batch: &WriteBatchView<'_>) -> Option<Predecessor> {
        if batch.count() > 0 {
            return None;
        }
        let Some(BatchOp::LogData(blob)) = batch.iter().next() else { return None };
        let (numbers, rest) = blob.strip_prefix(MAGIC)?.as_chunks::<8>();
        let (number, due, records) = match (numbers, rest) {
            ([number, due], []) => (number, due, None),
            ([number, due, records], []) => (number, due, Some(u64::from_le_bytes(*records))),
            _ => return None,
        };
        Some(Predecessor {
            number: FileNumber(u64::from_le_bytes(*number)),
            due: SequenceNumber(u64::from_le_bytes(*due)),
            records,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_predecessor_survives_encoding_and_other_batches_have_none() {
        let (number, due) = (FileNumber(7), SequenceNumber(300));
        let failed = Predecessor::that_failed(number);
        assert!(failed.has_failed());
        let before = Predecessor { number, due, records: None };
        for said in [before, Predecessor { records: Some(12), ..before }, failed] {
            let batch = said.to_batch(SequenceNumber(305)).unwrap();
            assert_eq!(Predecessor::of_batch(&batch.view()), Some(said));
            assert_eq!((batch.count(), batch.sequence()), (0, SequenceNumber(305)));
        }
        let mut other = WriteBatch::new();
        assert_eq!(Predecessor::of_batch(&other.view()), None);
        other.put_log_data(b"esker.wal.predecessor, not").unwrap();
        assert_eq!(Predecessor::of_batch(&other.view()), None);
    }
}
