//! Plug-ins that turn operands into a value.
//!
//! `merge(key, operand)` stores only the operand. Reads and compactions combine operands. Semantics
//! are those of RocksDB's `MergeOperator`.

use crate::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// The value of a key below its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MergeBase<'a> {
    /// The key has no value.
    Nothing,
    /// A plain value.
    Value(&'a [u8]),
    /// The columns of an entity, in the order of their names. The default column has the empty
    /// name, and is the first one if the entity has it.
    Entity(&'a [(&'a [u8], &'a [u8])]),
}

/// The outcome of [`MergeOperator::full_merge_v3`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MergeOutcome<'a> {
    /// A new plain value.
    Value(Vec<u8>),
    /// The names and values of an entity's columns, in any order. A name may come once.
    Entity(Vec<(Vec<u8>, Vec<u8>)>),
    /// A plain value: an operand, or the value below the operands.
    Existing(&'a [u8]),
}

/// Combines the merge operands of a key with its value.
pub trait MergeOperator: Send + Sync {
    /// The name, stored in table properties. The built-in operators have RocksDB's names.
    fn name(&self) -> &str;
    /// The operator's text in OPTIONS files. Default: [`name`](Self::name).
    fn option_text(&self) -> String {
        self.name().to_owned()
    }
    /// Whether this operator can read the operands of an operator called `name`. By default it
    /// accepts only its own name.
    ///
    /// A renamed operator must accept its former name. Otherwise tables with the former name do not
    /// open.
    fn takes_operands_of(&self, name: &str) -> bool {
        name == self.name()
    }
    /// Applies `operands`, oldest first, to the value `existing` of `key`, and returns the new
    /// value. `existing` is `None` if the key has no value.
    ///
    /// Returns `None` if the operands are invalid. The read then fails with
    /// `Corruption`/`MergeOperatorFailed`, and no data is lost.
    fn full_merge(&self, key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>>;
    /// Applies `operands`, oldest first, to a value or to the columns of an entity, and returns the
    /// key's new value or its new columns. `None` if the operands are invalid: see
    /// [`full_merge`](Self::full_merge).
    ///
    /// The engine calls it in reads, flushes and compactions in place of `full_merge`, if
    /// [`has_full_merge_v3`](Self::has_full_merge_v3) is true. It then reads all columns of an
    /// entity, also those in blob files.
    ///
    /// Default: [`full_merge`](Self::full_merge) of the plain value. Of an entity it merges the
    /// default column, which counts as empty if it is missing, and leaves the other columns.
    ///
    /// ```
    /// use esker_base::merge_operator::{MergeBase, MergeOperator, MergeOutcome};
    ///
    /// /// Each operand is a name of a column, which it removes.
    /// struct Removes;
    ///
    /// impl MergeOperator for Removes {
    ///     fn name(&self) -> &str {
    ///         "example.Removes"
    ///     }
    ///     fn full_merge(&self, _: &[u8], value: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
    ///         value.map(<[u8]>::to_vec)
    ///     }
    ///     fn has_full_merge_v3(&self) -> bool {
    ///         true
    ///     }
    ///     fn full_merge_v3<'a>(
    ///         &self,
    ///         _key: &[u8],
    ///         base: MergeBase<'a>,
    ///         operands: &[&'a [u8]],
    ///     ) -> Option<MergeOutcome<'a>> {
    ///         match base {
    ///             MergeBase::Nothing => None,
    ///             MergeBase::Value(value) => Some(MergeOutcome::Existing(value)),
    ///             MergeBase::Entity(columns) => {
    ///                 let left = columns.iter().filter(|(name, _)| !operands.contains(name));
    ///                 let left = left.map(|(name, value)| (name.to_vec(), value.to_vec()));
    ///                 Some(MergeOutcome::Entity(left.collect()))
    ///             }
    ///         }
    ///     }
    /// }
    ///
    /// let ada = MergeBase::Entity(&[(b"born", b"1815"), (b"name", b"Ada")]);
    /// let left = MergeOutcome::Entity(vec![(b"name".to_vec(), b"Ada".to_vec())]);
    /// assert_eq!(Removes.full_merge_v3(b"ada", ada, &[b"born"]), Some(left));
    /// ```
    fn full_merge_v3<'a>(
        &self,
        key: &[u8],
        base: MergeBase<'a>,
        operands: &[&'a [u8]],
    ) -> Option<MergeOutcome<'a>> {
        let columns = match base {
            MergeBase::Nothing => return self.full_merge(key, None, operands).map(MergeOutcome::Value),
            MergeBase::Value(value) => {
                return self.full_merge(key, Some(value), operands).map(MergeOutcome::Value);
            }
            MergeBase::Entity(columns) => columns,
        };
        let (value, others) = match columns {
            [(b"", value), others @ ..] => (*value, others),
            others => (&[][..], others),
        };
        let merged = self.full_merge(key, Some(value), operands)?;
        let others = others.iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
        Some(MergeOutcome::Entity(std::iter::once((Vec::new(), merged)).chain(others).collect()))
    }
    /// Whether the operator implements [`full_merge_v3`](Self::full_merge_v3). The engine calls
    /// [`full_merge`](Self::full_merge) of other operators. Default: false.
    fn has_full_merge_v3(&self) -> bool {
        false
    }
    /// Combines `left` and the newer `right` into one operand with the effect of both. `None` if
    /// the operator cannot combine them.
    fn partial_merge(&self, _key: &[u8], _left: &[u8], _right: &[u8]) -> Option<Vec<u8>> {
        None
    }
    /// Whether a get may stop at the operands that it has met, `operands`, newest first. The get
    /// then merges them onto no value, and reads no older entry of the key.
    ///
    /// The engine calls it in gets, after each operand, if
    /// [`has_should_merge`](Self::has_should_merge) is true. Iterators, compactions and
    /// `get_merge_operands` do not ask. A get of `n` operands passes at most `n * (n + 1) / 2`
    /// slices. The function should be quick: memory of the family is not freed while it runs.
    ///
    /// Default: false.
    ///
    /// ```
    /// use esker_base::merge_operator::MergeOperator;
    ///
    /// /// Each operand replaces everything below it.
    /// struct Newest;
    ///
    /// impl MergeOperator for Newest {
    ///     fn name(&self) -> &str {
    ///         "example.Newest"
    ///     }
    ///     fn full_merge(&self, _: &[u8], _: Option<&[u8]>, all: &[&[u8]]) -> Option<Vec<u8>> {
    ///         all.last().map(|newest| newest.to_vec())
    ///     }
    ///     fn has_should_merge(&self) -> bool {
    ///         true
    ///     }
    ///     fn should_merge(&self, _operands: &[&[u8]]) -> bool {
    ///         true
    ///     }
    /// }
    ///
    /// assert!(Newest.should_merge(&[b"newest"]));
    /// ```
    fn should_merge(&self, _operands: &[&[u8]]) -> bool {
        false
    }
    /// Whether the operator implements [`should_merge`](Self::should_merge). Gets do not ask other
    /// operators. Default: false.
    fn has_should_merge(&self) -> bool {
        false
    }
    /// RocksDB's `AllowSingleOperand`. The engine does not call it.
    fn allow_single_operand(&self) -> bool {
        false
    }
    /// The operator inside a wrapper of the engine.
    #[doc(hidden)]
    fn untimed(&self) -> Option<MergeOperatorRef> {
        None
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

/// A merge operator whose operands have the form of values. One function does full and partial
/// merges.
pub trait AssociativeMergeOperator: Send + Sync {
    /// The name, stored in table properties. See [`MergeOperator::name`].
    fn name(&self) -> &str;
    /// Whether this operator can read the operands of an operator called `name`. By default it
    /// accepts only its own name. See [`MergeOperator::takes_operands_of`].
    fn takes_operands_of(&self, name: &str) -> bool {
        name == self.name()
    }
    /// Combines the value or operand `existing`, if there is one, with the newer `operand`. `None`
    /// if that is impossible.
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
