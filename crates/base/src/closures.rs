//! Closures as merge operators and comparators.
//!
//! The database stores the names of operators and comparators. A name must mean the same closure
//! for as long as the data lives.

use crate::comparator::{Comparator, ComparatorRef};
use crate::merge_operator::{MergeOperator, MergeOperatorRef};
use std::cmp::Ordering;
use std::sync::Arc;

struct MergeFn<F> {
    name: String,
    merge: F,
}

impl<F> MergeOperator for MergeFn<F>
where
    F: Fn(&[u8], Option<&[u8]>, &[&[u8]]) -> Option<Vec<u8>> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn full_merge(&self, key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        (self.merge)(key, existing, operands)
    }
}

/// A merge operator that calls `merge` with a key, its value if it has one, and the operands,
/// oldest first.
///
/// The closure returns `None` if it cannot merge the operands.
///
/// ```
/// use esker_base::closures::merge_operator;
///
/// let longest = merge_operator("example.Longest", |_key, existing, operands| {
///     operands.iter().copied().chain(existing).max_by_key(|value| value.len()).map(<[u8]>::to_vec)
/// });
/// assert_eq!(longest.full_merge(b"k", Some(b"ab"), &[b"c", b"def"]), Some(b"def".to_vec()));
/// ```
pub fn merge_operator<F>(name: impl Into<String>, merge: F) -> MergeOperatorRef
where
    F: Fn(&[u8], Option<&[u8]>, &[&[u8]]) -> Option<Vec<u8>> + Send + Sync + 'static,
{
    Arc::new(MergeFn { name: name.into(), merge })
}

struct AssociativeMergeFn<F> {
    name: String,
    merge: F,
}

impl<F> crate::merge_operator::AssociativeMergeOperator for AssociativeMergeFn<F>
where
    F: Fn(&[u8], Option<&[u8]>, &[u8]) -> Option<Vec<u8>> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn merge(&self, key: &[u8], existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        (self.merge)(key, existing, operand)
    }
}

/// A merge operator whose operands have the form of values. `merge` combines a value or an operand
/// with the next operand.
///
/// Compactions can combine such operands without the value.
///
/// ```
/// use esker_base::closures::associative_merge_operator;
///
/// let append = associative_merge_operator("example.Append", |_key, existing, operand| {
///     Some([existing.unwrap_or_default(), operand].concat())
/// });
/// assert_eq!(append.full_merge(b"k", Some(b"a"), &[b"b", b"c"]), Some(b"abc".to_vec()));
/// ```
pub fn associative_merge_operator<F>(name: impl Into<String>, merge: F) -> MergeOperatorRef
where
    F: Fn(&[u8], Option<&[u8]>, &[u8]) -> Option<Vec<u8>> + Send + Sync + 'static,
{
    Arc::new(AssociativeMergeFn { name: name.into(), merge })
}

struct ComparatorFn<F> {
    name: String,
    compare: F,
}

impl<F> Comparator for ComparatorFn<F>
where
    F: Fn(&[u8], &[u8]) -> Ordering + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        (self.compare)(a, b)
    }
}

/// A comparator that calls `compare`. The closure must define a total order.
///
/// ```
/// use esker_base::closures::comparator;
///
/// let by_length = comparator("example.ByLength", |a, b| a.len().cmp(&b.len()).then(a.cmp(b)));
/// assert!(by_length.compare(b"9", b"10").is_lt());
/// ```
pub fn comparator<F>(name: impl Into<String>, compare: F) -> ComparatorRef
where
    F: Fn(&[u8], &[u8]) -> Ordering + Send + Sync + 'static,
{
    Arc::new(ComparatorFn { name: name.into(), compare })
}
