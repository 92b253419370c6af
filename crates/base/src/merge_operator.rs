//! Plug-ins that turn operands into a value.
//!
//! `merge(key, operand)` stores only the operand; reads and compactions combine operands. Semantics
//! are those of RocksDB's `MergeOperator`; the name is stored in table properties.

use crate::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Combines merge operands.
pub trait MergeOperator: Send + Sync {
    /// The name, stored in tables. The built-in operators have RocksDB's names.
    fn name(&self) -> &str;
    /// The operator's text in OPTIONS files. Default: [`name`](Self::name).
    fn option_text(&self) -> String {
        self.name().to_owned()
    }
    /// Whether this operator reads operands that an operator called `name` wrote. Default: only its
    /// own name.
    ///
    /// A renamed operator accepts its former name; otherwise the tables it wrote do not open.
    fn takes_operands_of(&self, name: &str) -> bool {
        name == self.name()
    }
    /// The value of `key` after applying `operands`, oldest first, to `existing` (`None`: there is
    /// no value below). `None` means that the operands are invalid: the read fails with
    /// `Corruption`/`MergeOperatorFailed`, and no data is lost.
    fn full_merge(&self, key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>>;
    /// Combines `left` and `right` into one operand with the effect of `left` and then `right`.
    /// `None` if they cannot be combined.
    fn partial_merge(&self, _key: &[u8], _left: &[u8], _right: &[u8]) -> Option<Vec<u8>> {
        None
    }
    /// Whether `partial_merge` may be called to normalize a single operand.
    fn allow_single_operand(&self) -> bool {
        false
    }
}

/// A shared merge operator.
pub type MergeOperatorRef = Arc<dyn MergeOperator>;

impl fmt::Debug for dyn MergeOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MergeOperator({})", self.name())
    }
}

/// Checks that `operator` reads the operands of the operator called `written_by`.
/// # Errors
/// `InvalidArgument` if it does not.
pub fn check_operands_of(operator: &dyn MergeOperator, written_by: &str) -> Result<()> {
    if operator.takes_operands_of(written_by) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "merge operands were written by '{written_by}', and merge_operator is '{}', which would misread them \
         (MergeOperator::takes_operands_of)",
        operator.name()
    )))
}

/// An operator whose operands have the form of values: full and partial merge are one function.
pub trait AssociativeMergeOperator: Send + Sync {
    /// The name, stored in tables, as [`MergeOperator::name`].
    fn name(&self) -> &str;
    /// Whether this operator reads operands that an operator called `name` wrote. Default: only its
    /// own name. See [`MergeOperator::takes_operands_of`].
    fn takes_operands_of(&self, name: &str) -> bool {
        name == self.name()
    }
    /// Combines `existing`, if there is a value, with `operand`.
    fn merge(&self, key: &[u8], existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>>;
}

impl<T: AssociativeMergeOperator> MergeOperator for T {
    fn name(&self) -> &str {
        AssociativeMergeOperator::name(self)
    }
    fn takes_operands_of(&self, name: &str) -> bool {
        AssociativeMergeOperator::takes_operands_of(self, name)
    }
    fn full_merge(&self, key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let (first, rest) = operands.split_first()?;
        let mut value = self.merge(key, existing, first)?;
        for operand in rest {
            value = self.merge(key, Some(&value), operand)?;
        }
        Some(value)
    }
    fn partial_merge(&self, key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        self.merge(key, Some(left), right)
    }
}
