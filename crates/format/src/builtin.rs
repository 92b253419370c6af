//! Stock merge operators under RocksDB's names, with RocksDB's results byte for byte.
//!
//! In: operands. Out: the value that RocksDB's operator of the same name would store.
//! Page: `docs/format/values.md`. Source: RocksDB `utilities/merge_operators/*`, names in
//! `utilities/merge_operators.cc`.
//!
//! | option text | class name | what it does |
//! |---|---|---|
//! | `uint64add` | `UInt64AddOperator` | adds 8-byte little-endian numbers, wrapping; other lengths count as 0 |
//! | `stringappend` | `StringAppendOperator` | appends with a delimiter, in full and partial merges |
//! | `stringappendtest` | `StringAppendTESTOperator` | the same result, never merging partially |
//! | `put` (`put_v1`) | `PutOperator` | the newest operand |
//! | `max` | `MaxOperator` | the bytewise largest of value and operands |
//! | `bytesxor` | `BytesXOR` | byte by byte, the rest of the longer one as it is |
//! | `TtlMergeOperator` | the same | another operator's, on the bytes before the 4 bytes of time of a TTL database |
//! | `sortlist` | `MergeSortOperator` | comma-separated numbers, merged in order; ignores the value below |

use crate::options_file::split_map;
use esker_base::merge_operator::{AssociativeMergeOperator, MergeOperator, MergeOperatorRef};
use std::sync::Arc;

/// The stock merge operator for the option text `merge_operator=…`: a class name, a short name, or
/// `{id=StringAppendOperator;delimiter=|}`. `None` if no stock operator has that name.
pub fn merge_operator(text: &str) -> Option<MergeOperatorRef> {
    Some(match object_name(text) {
        "UInt64AddOperator" | "uint64add" => Arc::new(UInt64Add),
        "StringAppendOperator" | "stringappend" => Arc::new(StringAppend { delimiter: delimiter_in(text) }),
        "StringAppendTESTOperator" | "stringappendtest" => {
            Arc::new(StringAppendTest { delimiter: delimiter_in(text) })
        }
        "PutOperator" | "put" | "put_v1" => Arc::new(Put),
        "MaxOperator" | "max" => Arc::new(Max),
        "BytesXOR" | "bytesxor" => Arc::new(BytesXor),
        "MergeSortOperator" | "sortlist" => Arc::new(SortList),
        TTL_OPERATOR => Arc::new(Ttl { inner: merge_operator(field_of(text, "user_operator")?)? }),
        _ => return None,
    })
}

/// The names that [`merge_operator`] accepts, as RocksDB's tools do.
pub const MERGE_OPERATOR_NAMES: [&str; 7] =
    ["uint64add", "stringappend", "stringappendtest", "put", "max", "bytesxor", "sortlist"];

/// Adds 8-byte little-endian numbers.
pub fn uint64_add() -> MergeOperatorRef {
    Arc::new(UInt64Add)
}

/// Appends operands with `delimiter` between them; RocksDB's default is `,`.
pub fn string_append(delimiter: impl Into<Vec<u8>>) -> MergeOperatorRef {
    Arc::new(StringAppend { delimiter: delimiter.into() })
}

/// Wraps `inner` for values and operands that end in the 4 bytes of time of a TTL database. Returns
/// it unchanged if it is such a wrapper already.
pub fn ttl(inner: MergeOperatorRef) -> MergeOperatorRef {
    if inner.name() == TTL_OPERATOR { inner } else { Arc::new(Ttl { inner }) }
}

/// Keeps the newest operand.
pub fn put() -> MergeOperatorRef {
    Arc::new(Put)
}

/// Keeps the bytewise largest.
pub fn max() -> MergeOperatorRef {
    Arc::new(Max)
}

/// Combines byte by byte with exclusive or.
pub fn bytes_xor() -> MergeOperatorRef {
    Arc::new(BytesXor)
}

/// The object's name in either of RocksDB's forms, `name` or `{id=name;option=value}`.
pub fn object_name(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) else { return text };
    let first = inner.split(';').next().unwrap_or(inner).trim();
    first.strip_prefix("id=").unwrap_or(first).trim()
}

/// The value of `name=` in an option text in braces.
fn field_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    split_map(text).ok()?.into_iter().find(|(field, _)| *field == name).map(|(_, value)| value)
}

/// The `delimiter=` of an option text in braces; a comma if there is none.
fn delimiter_in(text: &str) -> Vec<u8> {
    let fields = split_map(text).unwrap_or_default();
    let given = fields.iter().find(|(name, _)| *name == "delimiter").map(|(_, value)| *value);
    given.unwrap_or(",").as_bytes().to_vec()
}

struct UInt64Add;

/// Decodes a number; any other length than 8 counts as 0, as in RocksDB.
fn decode_u64(bytes: &[u8]) -> u64 {
    bytes.try_into().map(u64::from_le_bytes).unwrap_or(0)
}

impl AssociativeMergeOperator for UInt64Add {
    fn name(&self) -> &str {
        "UInt64AddOperator"
    }
    fn merge(&self, _key: &[u8], existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let sum = existing.map_or(0, decode_u64).wrapping_add(decode_u64(operand));
        Some(sum.to_le_bytes().to_vec())
    }
}

/// `parts` joined by `delimiter`.
fn join<'a>(parts: impl Iterator<Item = &'a [u8]> + Clone, delimiter: &[u8]) -> Vec<u8> {
    let bytes = parts.clone().map(|p| p.len() + delimiter.len()).sum();
    let mut joined = Vec::with_capacity(bytes);
    for (i, part) in parts.enumerate() {
        if i > 0 {
            joined.extend_from_slice(delimiter);
        }
        joined.extend_from_slice(part);
    }
    joined
}

struct StringAppend {
    delimiter: Vec<u8>,
}

/// No associative operator: appending operand by operand would copy the value once for each.
impl MergeOperator for StringAppend {
    fn name(&self) -> &str {
        "StringAppendOperator"
    }
    fn full_merge(&self, _key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(join(existing.into_iter().chain(operands.iter().copied()), &self.delimiter))
    }
    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        Some(join([left, right].into_iter(), &self.delimiter))
    }
}

struct StringAppendTest {
    delimiter: Vec<u8>,
}

impl MergeOperator for StringAppendTest {
    fn name(&self) -> &str {
        "StringAppendTESTOperator"
    }
    fn full_merge(&self, _key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(join(existing.into_iter().chain(operands.iter().copied()), &self.delimiter))
    }
}

struct Put;

impl MergeOperator for Put {
    fn name(&self) -> &str {
        "PutOperator"
    }
    fn full_merge(&self, _key: &[u8], _existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        operands.last().map(|newest| newest.to_vec())
    }
    fn partial_merge(&self, _key: &[u8], _left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        Some(right.to_vec())
    }
}

struct Max;

impl MergeOperator for Max {
    fn name(&self) -> &str {
        "MaxOperator"
    }
    fn full_merge(&self, _key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        existing.into_iter().chain(operands.iter().copied()).max().map(<[u8]>::to_vec)
    }
    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        Some(left.max(right).to_vec())
    }
}

struct BytesXor;

impl AssociativeMergeOperator for BytesXor {
    fn name(&self) -> &str {
        "BytesXOR"
    }
    fn merge(&self, _key: &[u8], existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let existing = existing.unwrap_or_default();
        let (mut result, shorter) = if existing.len() >= operand.len() {
            (existing.to_vec(), operand)
        } else {
            (operand.to_vec(), existing)
        };
        for (byte, other) in result.iter_mut().zip(shorter) {
            *byte ^= other;
        }
        Some(result)
    }
}

/// The operator of a TTL database (RocksDB `utilities/ttl/db_ttl_impl.h`). Its values and operands
/// end in the time they were written, fixed32 Unix seconds. The result has the newest operand's
/// time; RocksDB takes the time of the merge.
struct Ttl {
    inner: MergeOperatorRef,
}

const TTL_OPERATOR: &str = "TtlMergeOperator";

/// Bytes of time behind each value.
const TTL_TIME_BYTES: usize = 4;

impl MergeOperator for Ttl {
    fn name(&self) -> &str {
        TTL_OPERATOR
    }
    fn option_text(&self) -> String {
        format!("{{id=TtlMergeOperator;user_operator={}}}", self.inner.option_text())
    }
    fn full_merge(&self, key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let existing = match existing {
            Some(value) => Some(split_time(value)?.0),
            None => None,
        };
        let parts: Vec<&[u8]> =
            operands.iter().map(|operand| Some(split_time(operand)?.0)).collect::<Option<_>>()?;
        let (_, newest_time) = split_time(operands.last()?)?;
        let mut merged = self.inner.full_merge(key, existing, &parts)?;
        merged.extend_from_slice(newest_time);
        Some(merged)
    }
    fn partial_merge(&self, key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        let ((left, _), (right, time)) = (split_time(left)?, split_time(right)?);
        let mut merged = self.inner.partial_merge(key, left, right)?;
        merged.extend_from_slice(time);
        Some(merged)
    }
}

/// A value of a TTL database, and its time; `None` if it is too short for a time.
fn split_time(value: &[u8]) -> Option<(&[u8], &[u8; TTL_TIME_BYTES])> {
    value.split_last_chunk()
}

struct SortList;

/// The numbers of a comma-separated list; `None` if one is not a 32-bit number.
fn numbers(list: &[u8]) -> Option<Vec<i32>> {
    std::str::from_utf8(list).ok()?.split(',').map(|n| n.trim_start().parse().ok()).collect()
}

/// Takes the smaller head, or the right one when they are equal. Unsorted lists come out as
/// unsorted as in RocksDB.
fn merge_lists(left: Vec<i32>, right: Vec<i32>) -> Vec<i32> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let next = if a < b { left.next() } else { right.next() };
        merged.extend(next);
    }
    merged.extend(left);
    merged.extend(right);
    merged
}

fn print_list(list: &[i32]) -> Vec<u8> {
    list.iter().map(i32::to_string).collect::<Vec<_>>().join(",").into_bytes()
}

impl MergeOperator for SortList {
    fn name(&self) -> &str {
        "MergeSortOperator"
    }
    fn full_merge(&self, _key: &[u8], _existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut merged = Vec::new();
        for operand in operands {
            merged = merge_lists(merged, numbers(operand)?);
        }
        Some(print_list(&merged))
    }
    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        Some(print_list(&merge_lists(numbers(left)?, numbers(right)?)))
    }
}

#[cfg(test)]
mod tests;
