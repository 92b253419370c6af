//! WAL records as committed changes: the operations that a reader of the WAL gets for each record.
//!
//! In: the records of WALs, in order. Out: for each the batch of operations that it committed, with
//! their first sequence number. An operation of a two-phase transaction comes with the record of
//! its commit, under the numbers that the commit gave it.
//!
//! Invariants
//!  1. Operations of a transaction are returned with its commit, and never if it is rolled back.
//!  2. The operations of a batch have consecutive sequence numbers, beginning with the batch's own.

use super::{Predecessor, stamped};
use esker_base::{ColumnFamilyId, Error, Result};
use esker_format::write_batch::{BatchOp, PrepareKind, WriteBatch, WriteBatchView};
use std::collections::HashMap;

/// The prepared transactions that the records so far have begun and not ended.
#[derive(Debug, Default)]
pub(crate) struct CommittedChanges {
    prepared: HashMap<Vec<u8>, WriteBatch>,
}

impl CommittedChanges {
    /// The name of a transaction that `record` commits and that no earlier record has prepared.
    pub(crate) fn missing(&self, record: &WriteBatchView<'_>) -> Option<Vec<u8>> {
        if !record.content().transaction_markers {
            return None;
        }
        let mut prepared_here = Vec::new();
        record.iter().find_map(|op| match op {
            BatchOp::EndPrepare { xid } => {
                prepared_here.push(xid);
                None
            }
            BatchOp::Commit { xid } | BatchOp::CommitWithTimestamp { xid, .. } => {
                let is_known = self.prepared.contains_key(xid) || prepared_here.contains(&xid);
                (!is_known).then(|| xid.to_vec())
            }
            _ => None,
        })
    }

    /// Adds a transaction that was prepared before the first record.
    pub(crate) fn add_prepared(&mut self, xid: Vec<u8>, ops: WriteBatch) {
        self.prepared.insert(xid, ops);
    }

    /// Takes the section of a transaction that is prepared and not resolved.
    pub(crate) fn take_prepared(&mut self, xid: &[u8]) -> Option<WriteBatch> {
        self.prepared.remove(xid)
    }

    /// The operations that `record` commits, numbered from its sequence number on; `None` for a
    /// record that the engine wrote for itself.
    /// # Errors
    /// `NotSupported` for records of write-prepared and write-unprepared transactions ·
    /// `Corruption`: markers do not match, or a transaction is committed that was not prepared.
    pub(crate) fn of(
        &mut self,
        record: &WriteBatchView<'_>,
        has_timestamps: &dyn Fn(ColumnFamilyId) -> bool,
    ) -> Result<Option<WriteBatch>> {
        if !record.content().transaction_markers {
            let is_own = Predecessor::of_batch(record).is_some();
            return Ok((!is_own).then(|| record.to_batch()));
        }
        let mut committed = WriteBatch::new();
        let mut section: Option<WriteBatch> = None;
        for op in record.iter() {
            match op {
                BatchOp::BeginPrepare(PrepareKind::Committed) if section.is_none() => {
                    section = Some(WriteBatch::new());
                }
                BatchOp::BeginPrepare(PrepareKind::Committed) => {
                    return Err(Error::corruption("a prepared section begins in another one"));
                }
                BatchOp::BeginPrepare(_) => return Err(other_policy()),
                BatchOp::EndPrepare { xid } => {
                    let ops = section.take();
                    let ops =
                        ops.ok_or_else(|| Error::corruption("a prepared section ends that never began"))?;
                    self.prepared.insert(xid.to_vec(), ops);
                }
                BatchOp::Commit { xid } => committed.append(&self.resolved(xid)?)?,
                BatchOp::CommitWithTimestamp { timestamp, xid } => {
                    committed.append(&stamped(&self.resolved(xid)?, timestamp, has_timestamps)?)?;
                }
                BatchOp::Rollback { xid } => {
                    self.prepared.remove(xid);
                }
                BatchOp::Noop => {}
                op => section.as_mut().unwrap_or(&mut committed).push(op)?,
            }
        }
        committed.set_sequence(record.sequence());
        Ok(Some(committed))
    }

    fn resolved(&mut self, xid: &[u8]) -> Result<WriteBatch> {
        let name = || format!("transaction '{}' is committed and was not prepared", xid.escape_ascii());
        self.prepared.remove(xid).ok_or_else(|| Error::corruption(name()))
    }
}

/// The refusal of changes of databases that number ops by batch, in RocksDB's words.
pub(crate) fn other_policy() -> Error {
    Error::not_supported("This API is not yet compatible with write-prepared/write-unprepared transactions")
}

#[cfg(test)]
mod tests {
    use super::super::{PreparedTransaction, SectionsAgain, section_record};
    use super::*;
    use esker_base::{ErrorKind, SequenceNumber};

    fn puts(keys: &[&str]) -> WriteBatch {
        let mut batch = WriteBatch::new();
        keys.iter().for_each(|key| batch.put(key, "value").unwrap());
        batch
    }

    fn marker(op: BatchOp<'_>) -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.put_marker(op).unwrap();
        batch
    }

    fn of(changes: &mut CommittedChanges, mut record: WriteBatch, sequence: u64) -> Option<WriteBatch> {
        record.set_sequence(SequenceNumber(sequence));
        changes.of(&record.view(), &|_| false).unwrap()
    }

    fn keys(batch: &WriteBatch) -> Vec<String> {
        let key = |op: BatchOp<'_>| match op {
            BatchOp::Put { key, .. } => Some(String::from_utf8(key.to_vec()).unwrap()),
            _ => None,
        };
        batch.iter().filter_map(key).collect()
    }

    #[test]
    fn a_section_comes_with_its_commit_and_between_the_other_ops_of_that_record() {
        let mut changes = CommittedChanges::default();
        let prepared = of(&mut changes, section_record(b"x", &puts(&["a", "b"])).unwrap(), 7).unwrap();
        assert_eq!((prepared.count(), prepared.len()), (0, 0));
        let mut group = puts(&["c"]);
        group.append(&marker(BatchOp::Commit { xid: b"x" })).unwrap();
        group.append(&puts(&["d"])).unwrap();
        let committed = of(&mut changes, group, 7).unwrap();
        assert_eq!(keys(&committed), ["c", "a", "b", "d"]);
        assert_eq!((committed.sequence(), committed.count()), (SequenceNumber(7), 4));
    }

    #[test]
    fn rolled_back_sections_never_come() {
        let mut changes = CommittedChanges::default();
        of(&mut changes, section_record(b"x", &puts(&["a"])).unwrap(), 1);
        let rolled_back = of(&mut changes, marker(BatchOp::Rollback { xid: b"x" }), 1).unwrap();
        assert_eq!(rolled_back.len(), 0);
        // A fresh WAL repeats the section in this form.
        let again = SectionsAgain {
            prepared: vec![PreparedTransaction { xid: b"x".to_vec(), batch: puts(&["b"]), numbers: None }],
            dropped: vec![b"y".to_vec()],
            restore: puts(&["undo"]),
            ..SectionsAgain::default()
        };
        let again = again.record(PrepareKind::Committed).unwrap();
        assert_eq!(keys(&of(&mut changes, again, 1).unwrap()), ["undo"]);
        let commit = marker(BatchOp::Commit { xid: b"x" });
        assert_eq!(changes.missing(&commit.view()), None);
        assert_eq!(keys(&of(&mut changes, commit.clone(), 2).unwrap()), ["b"]);
        assert_eq!(changes.missing(&commit.view()), Some(b"x".to_vec()));
        assert_eq!(changes.of(&commit.view(), &|_| false).unwrap_err().kind(), ErrorKind::Corruption);
    }

    #[test]
    fn log_data_stays_where_it_was_and_the_engines_own_records_are_left_out() {
        let mut changes = CommittedChanges::default();
        let mut batch = puts(&["a"]);
        batch.put_log_data(b"note").unwrap();
        let given = of(&mut changes, batch.clone(), 4).unwrap();
        assert_eq!(given.data(), {
            batch.set_sequence(SequenceNumber(4));
            batch.data()
        });
        let own = Predecessor::that_failed(esker_base::FileNumber(3)).to_batch(SequenceNumber(4)).unwrap();
        assert!(of(&mut changes, own, 4).is_none());
    }

    #[test]
    fn sections_of_other_write_policies_are_refused() {
        let mut changes = CommittedChanges::default();
        for kind in [PrepareKind::Persisted, PrepareKind::Unprepared] {
            let begun = marker(BatchOp::BeginPrepare(kind));
            let error = changes.of(&begun.view(), &|_| false).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotSupported);
        }
    }
}
