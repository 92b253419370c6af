//! User-defined timestamps of a batch's keys.
//!
//! In: a timestamp, and the size of timestamps of each family. Out: the same batch, whose keys end
//! with the timestamp. Source: RocksDB's `WriteBatch::UpdateTimestamps`.

use super::WriteBatch;
use super::op::BatchOp;
use esker_base::{ColumnFamilyId, Error, Result};

impl WriteBatch {
    /// Replaces the last bytes of each key by `timestamp`, in families whose keys have timestamps.
    /// `size_in` gives the size of a family's timestamps, 0 for a family without. Save points stay.
    ///
    /// ```
    /// # use esker_format::write_batch::{BatchOp, WriteBatch};
    /// # use esker_base::ColumnFamilyId;
    /// let stamped = ColumnFamilyId(3);
    /// let mut batch = WriteBatch::new();
    /// batch.put_cf(stamped, b"ada\0\0", "countess")?;
    /// batch.update_timestamps(b"17", |family| Ok(if family == stamped { 2 } else { 0 }))?;
    /// assert!(matches!(batch.iter().next(), Some(BatchOp::Put { key: b"ada17", .. })));
    /// # Ok::<_, esker_base::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: `timestamp` is empty or of another size, or a key is shorter than it ·
    /// `Corruption`: the batch is protected and its bytes have changed · the error of `size_in`.
    /// After an error the batch is unchanged.
    pub fn update_timestamps(
        &mut self,
        timestamp: &[u8],
        mut size_in: impl FnMut(ColumnFamilyId) -> Result<usize>,
    ) -> Result<()> {
        if timestamp.is_empty() {
            return Err(Error::invalid_argument("Timestamp is empty"));
        }
        self.verify_checksum()?;
        let mut places = Vec::new();
        for op in self.iter() {
            let Some(family) = op.family() else { continue };
            match size_in(family)? {
                0 => continue,
                size if size != timestamp.len() => {
                    return Err(Error::invalid_argument("timestamp size mismatch"));
                }
                _ => {}
            }
            for key in keys_of(&op).into_iter().flatten() {
                places.push(self.place_of_timestamp(key, timestamp.len())?);
            }
        }
        for at in places {
            if let Some(place) = self.rep.get_mut(at..at + timestamp.len()) {
                place.copy_from_slice(timestamp);
            }
        }
        self.protect_again();
        Ok(())
    }

    /// The offset in this batch of the last `size` bytes of `key`, which is a slice of it.
    fn place_of_timestamp(&self, key: &[u8], size: usize) -> Result<usize> {
        let plain = key.len().checked_sub(size);
        let plain = plain.ok_or_else(|| Error::invalid_argument("a key has no room for its timestamp"))?;
        Ok(key.as_ptr().addr() - self.rep.as_ptr().addr() + plain)
    }
}

/// The keys of an op that may end with a timestamp.
fn keys_of<'a>(op: &BatchOp<'a>) -> [Option<&'a [u8]>; 2] {
    match *op {
        BatchOp::Put { key, .. }
        | BatchOp::Delete { key, .. }
        | BatchOp::SingleDelete { key, .. }
        | BatchOp::Merge { key, .. }
        | BatchOp::BlobIndex { key, .. }
        | BatchOp::PutEntity { key, .. }
        | BatchOp::TimedPut { key, .. } => [Some(key), None],
        BatchOp::DeleteRange { begin, end, .. } => [Some(begin), Some(end)],
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write_batch::BatchContent;
    use esker_base::ErrorKind;

    const PLAIN: ColumnFamilyId = ColumnFamilyId(0);
    const STAMPED: ColumnFamilyId = ColumnFamilyId(300);

    fn size(family: ColumnFamilyId) -> Result<usize> {
        Ok(if family == STAMPED { 4 } else { 0 })
    }

    /// A batch with each kind of op in two families. Keys of the family with timestamps end with
    /// `ts`.
    fn filled(ts: &[u8]) -> WriteBatch {
        let mut batch = WriteBatch::with_protection(8).unwrap();
        for family in [PLAIN, STAMPED] {
            let ts = if family == STAMPED { ts } else { b"" };
            let key = |key: &[u8]| [key, ts].concat();
            batch.put_cf(family, key(b"put"), b"value").unwrap();
            batch.put_cf(family, key(b""), b"").unwrap();
            batch.delete_cf(family, key(b"deleted")).unwrap();
            batch.put_log_data(b"said").unwrap();
            batch.single_delete_cf(family, key(b"once")).unwrap();
            batch.merge_cf(family, key(b"merged"), b"operand").unwrap();
            batch.delete_range_cf(family, key(b"a"), key(b"b")).unwrap();
            batch.put_entity_cf(family, key(b"entity"), &[(b"a", b"1")]).unwrap();
            batch.push(BatchOp::BlobIndex { family, key: &key(b"blob"), index: b"index" }).unwrap();
            batch.timed_put_cf(family, key(b"timed"), b"v", 17).unwrap();
        }
        batch
    }

    #[test]
    fn every_key_of_a_family_with_timestamps_gets_the_timestamp() {
        let mut batch = filled(b"\0\0\0\0");
        batch.set_save_point();
        batch.update_timestamps(b"2026", size).unwrap();
        let expected = filled(b"2026");
        assert_eq!(batch.data(), expected.data());
        batch.verify_checksum().unwrap();
        batch.update_timestamps(b"2027", size).unwrap();
        assert_eq!(batch.data(), filled(b"2027").data());
        batch.delete_cf(STAMPED, b"later2027").unwrap();
        batch.rollback_to_save_point().unwrap();
        assert_eq!(batch.data(), filled(b"2027").data());
        assert_ne!(batch.content(), BatchContent::default());
    }

    #[test]
    fn a_batch_whose_timestamps_cannot_be_set_stays_as_it_was() {
        let before = filled(b"\0\0\0\0");
        let mut batch = before.clone();
        let refused = |batch: &mut WriteBatch, ts: &[u8], sizes: &dyn Fn(ColumnFamilyId) -> Result<usize>| {
            let error = batch.update_timestamps(ts, sizes).unwrap_err();
            assert_eq!(batch.data(), before.data());
            error.kind()
        };
        assert_eq!(refused(&mut batch, b"", &size), ErrorKind::InvalidArgument);
        assert_eq!(refused(&mut batch, b"202", &size), ErrorKind::InvalidArgument);
        let unknown = |family| if family == STAMPED { Err(Error::not_found("who")) } else { Ok(0) };
        assert_eq!(refused(&mut batch, b"2026", &unknown), ErrorKind::NotFound);
        // Keys of the other family are shorter than the timestamp.
        assert_eq!(refused(&mut batch, b"2026", &|_| Ok(4)), ErrorKind::InvalidArgument);
        WriteBatch::new().update_timestamps(b"2026", size).unwrap();
    }

    #[test]
    fn a_damaged_batch_gets_no_new_checksums() {
        let mut batch = filled(b"\0\0\0\0");
        batch.rep[crate::write_batch::BATCH_HEADER_BYTES + 2] ^= 1;
        assert_eq!(batch.update_timestamps(b"2026", size).unwrap_err().kind(), ErrorKind::Corruption);
    }
}
