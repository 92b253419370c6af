//! The kinds of operations in a batch.
//!
//! In: a batch. Out: whether it has an operation of a kind. Each call reads the operations up to
//! the first of that kind.

use super::{BatchOp, WriteBatch};

impl WriteBatch {
    fn has(&self, is_it: impl Fn(&BatchOp<'_>) -> bool) -> bool {
        self.iter().any(|op| is_it(&op))
    }

    /// Whether the batch has a put.
    ///
    /// ```
    /// let mut batch = esker_format::write_batch::WriteBatch::new();
    /// batch.put("esker", "gravel")?;
    /// batch.delete_range("a", "b")?;
    /// assert!(batch.has_put() && batch.has_delete_range() && !batch.has_delete());
    /// # Ok::<_, esker_base::Error>(())
    /// ```
    pub fn has_put(&self) -> bool {
        self.has(|op| matches!(op, BatchOp::Put { .. }))
    }

    /// Whether the batch has a put with a time.
    pub fn has_timed_put(&self) -> bool {
        self.has(|op| matches!(op, BatchOp::TimedPut { .. }))
    }

    /// Whether the batch has a put of columns.
    pub fn has_put_entity(&self) -> bool {
        self.has(|op| matches!(op, BatchOp::PutEntity { .. }))
    }

    /// Whether the batch has a deletion of one key.
    pub fn has_delete(&self) -> bool {
        self.has(|op| matches!(op, BatchOp::Delete { .. }))
    }

    /// Whether the batch has a single deletion.
    pub fn has_single_delete(&self) -> bool {
        self.has(|op| matches!(op, BatchOp::SingleDelete { .. }))
    }

    /// Whether the batch has a range deletion.
    pub fn has_delete_range(&self) -> bool {
        self.has(|op| matches!(op, BatchOp::DeleteRange { .. }))
    }

    /// Whether the batch has a merge operand.
    pub fn has_merge(&self) -> bool {
        self.has(|op| matches!(op, BatchOp::Merge { .. }))
    }

    /// Whether the batch begins a prepared section.
    pub fn has_begin_prepare(&self) -> bool {
        self.has(|op| matches!(op, BatchOp::BeginPrepare(_)))
    }

    /// Whether the batch ends a prepared section.
    pub fn has_end_prepare(&self) -> bool {
        self.has(|op| matches!(op, BatchOp::EndPrepare { .. }))
    }

    /// Whether the batch commits a prepared section.
    pub fn has_commit(&self) -> bool {
        self.has(|op| matches!(op, BatchOp::Commit { .. } | BatchOp::CommitWithTimestamp { .. }))
    }

    /// Whether the batch rolls a prepared section back.
    pub fn has_rollback(&self) -> bool {
        self.has(|op| matches!(op, BatchOp::Rollback { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type HasKind = fn(&WriteBatch) -> bool;

    #[test]
    fn a_batch_has_the_kinds_that_were_put_into_it_and_no_others() {
        let kinds: [(&str, HasKind); 7] = [
            ("put", WriteBatch::has_put),
            ("timed", WriteBatch::has_timed_put),
            ("entity", WriteBatch::has_put_entity),
            ("delete", WriteBatch::has_delete),
            ("single", WriteBatch::has_single_delete),
            ("range", WriteBatch::has_delete_range),
            ("merge", WriteBatch::has_merge),
        ];
        for (one, _) in kinds {
            let mut batch = WriteBatch::new();
            match one {
                "put" => batch.put("k", "v"),
                "timed" => batch.timed_put("k", "v", 7),
                "entity" => batch.put_entity("k", &[(b"c".as_slice(), b"v".as_slice())]),
                "delete" => batch.delete("k"),
                "single" => batch.single_delete("k"),
                "range" => batch.delete_range("k", "l"),
                _ => batch.merge("k", "v"),
            }
            .unwrap();
            for (kind, has) in kinds {
                assert_eq!(has(&batch), kind == one, "{kind} in a batch of {one}");
            }
            assert!(!batch.has_begin_prepare() && !batch.has_end_prepare());
            assert!(!batch.has_commit() && !batch.has_rollback());
        }
    }
}
