//! Filters by user code: a policy, which makes builders and readers.
//!
//! In: the keys of a table. Out: bytes of the program's choice, stored as `fullfilter.NAME` or
//! `partitionedfilter.NAME`, and later the answers of the program's reader. Source: RocksDB
//! `include/rocksdb/filter_policy.h`, `table/block_based/filter_policy_internal.h`.
//!
//! Invariant: a filter never denies a key that was added. Here the program promises it.

use super::{FilterBitsBuilder, FilterBuildingContext};
use esker_base::Result;
use std::fmt;
use std::sync::Arc;

/// A policy by user code. A program that only chooses among the built-in filters implements three
/// methods, and gives [`COMPATIBILITY_NAME`](super::policy::COMPATIBILITY_NAME).
///
/// ```
/// use esker_format::filter::policy::COMPATIBILITY_NAME;
/// use esker_format::filter::{
///     CustomFilterPolicy, FilterBitsBuilder, FilterBuildingContext, FilterPolicy,
/// };
/// use std::sync::Arc;
///
/// /// Spends memory on the upper levels.
/// struct ByLevel;
///
/// impl CustomFilterPolicy for ByLevel {
///     fn name(&self) -> &str {
///         "example.ByLevel"
///     }
///     fn compatibility_name(&self) -> &str {
///         COMPATIBILITY_NAME
///     }
///     fn builder_with_context(&self, of: &FilterBuildingContext<'_>) -> Option<FilterBitsBuilder> {
///         let bits = if of.is_bottommost { 6.0 } else { 14.0 };
///         FilterPolicy::bloom(bits).builder_with_context(of)
///     }
/// }
///
/// let policy = FilterPolicy::custom(Arc::new(ByLevel));
/// assert_eq!(policy.name(), "example.ByLevel");
/// ```
pub trait CustomFilterPolicy: Send + Sync {
    /// The policy's name: the property `rocksdb.filter.policy`, and the text in OPTIONS files.
    fn name(&self) -> &str;
    /// The name of the filters' form, which the table's meta index has. Policies of one name read
    /// each other's filters. A table whose filter has another name is read without a filter.
    fn compatibility_name(&self) -> &str;
    /// A builder for one table or, with `partition_filters`, for its partitions in turn. `None`:
    /// the table gets no filter.
    fn builder_with_context(&self, context: &FilterBuildingContext<'_>) -> Option<FilterBitsBuilder>;
    /// A reader of a filter with these contents. `None`, the default: they have the form of a
    /// built-in filter. Cost: once for each filter or partition that comes into memory.
    fn filter_bits_reader(&self, contents: &[u8]) -> Option<Box<dyn CustomFilterBitsReader>> {
        let _ = contents;
        None
    }
}

/// A shared policy.
pub type CustomFilterPolicyRef = Arc<dyn CustomFilterPolicy>;

/// Policies are equal if they are the same object.
impl PartialEq for dyn CustomFilterPolicy {
    fn eq(&self, other: &dyn CustomFilterPolicy) -> bool {
        std::ptr::addr_eq(self, other)
    }
}

impl Eq for dyn CustomFilterPolicy {}

impl fmt::Debug for dyn CustomFilterPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomFilterPolicy({})", self.name())
    }
}

/// Collects the keys of one filter. [`FilterBitsBuilder::custom`] takes it.
pub trait CustomFilterBitsBuilder: Send {
    /// Adds a key (without timestamp) or a prefix. Keys come in the table's order; one key may come
    /// several times in a row.
    fn add_key(&mut self, key: &[u8]);
    /// Adds a key and its prefix. Neighbouring keys may have the same prefix, and a key may be its
    /// own prefix. Default: adds both.
    fn add_key_and_alt(&mut self, key: &[u8], alt: &[u8]) {
        self.add_key(alt);
        self.add_key(key);
    }
    /// About the number of keys and prefixes since the last `finish`. 0 if and only if there is
    /// none: the table then gets no filter.
    fn estimate_entries_added(&self) -> usize;
    /// The filter's contents. The builder is empty then, and may collect another partition.
    fn finish(&mut self) -> Vec<u8>;
    /// Checks the contents that `finish` has returned. Default: they are right.
    /// # Errors
    /// Any error fails the table.
    fn maybe_post_verify(&self, contents: &[u8]) -> Result<()> {
        let _ = contents;
        Ok(())
    }
    /// About the number of keys in a filter of at most `bytes` bytes. Partitions get that many.
    fn approximate_num_entries(&self, bytes: usize) -> usize;
    /// About the bytes of a filter of `num_entries` keys.
    fn calculate_space(&self, num_entries: usize) -> usize;
}

impl fmt::Debug for dyn CustomFilterBitsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomFilterBitsBuilder({} entries)", self.estimate_entries_added())
    }
}

/// Asks one filter for keys. Reads call it from many threads at once, and hold no lock.
pub trait CustomFilterBitsReader: Send + Sync {
    /// Whether a key or prefix may have been added. `contents` are those that the reader was made
    /// for. No answer but `true` is allowed for an entry that was added, or for contents that the
    /// reader does not understand.
    fn may_match(&self, contents: &[u8], entry: &[u8]) -> bool;
    /// [`may_match`](Self::may_match) for each of `entries`, of which there are as many as answers.
    fn may_match_many(&self, contents: &[u8], entries: &[&[u8]], may_match: &mut [bool]) {
        for (entry, answer) in entries.iter().zip(may_match) {
            *answer = self.may_match(contents, entry);
        }
    }
}

impl fmt::Debug for dyn CustomFilterBitsReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomFilterBitsReader")
    }
}
