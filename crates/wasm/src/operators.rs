//! RocksDB's own merge operators.
//!
//! In: the OPTIONS file, which names the operator of each family; a value and operands. Out: the
//! value that the engine's operator of the same name makes of them.
//! Source: RocksDB `utilities/merge_operators/*`.

use crate::files::DirectoryFiles;
use esker_base::{Error, Result};
use esker_format::options_file::{OptionsFile, SectionKind, split_map};
use std::collections::BTreeMap;

/// The operator of each family that has one: its text in the OPTIONS file.
#[derive(Debug, Default)]
pub(crate) struct MergeOperators(BTreeMap<String, String>);

impl MergeOperators {
    /// Reads the newest OPTIONS file. A database without a readable one has no operators, because
    /// RocksDB needs none to open it.
    pub(crate) fn of(files: &DirectoryFiles) -> MergeOperators {
        let Some(file) = files.options().and_then(|bytes| OptionsFile::parse(bytes).ok()) else {
            return MergeOperators::default();
        };
        let named = |kind: SectionKind, text: Option<String>| match (kind, text) {
            (SectionKind::CfOptions(family), Some(text)) if text != "nullptr" => Some((family, text)),
            _ => None,
        };
        let sections = file.sections.into_iter();
        let operators = sections.filter_map(|section| {
            let text = section.text("merge_operator").map(|text| text.into_owned());
            named(section.kind, text)
        });
        MergeOperators(operators.collect())
    }

    /// The merged value of a key. `operands` are the newest first.
    /// # Errors
    /// `NotSupported` if the family has no operator of RocksDB · `Corruption` if it refuses the
    /// operands.
    pub(crate) fn merge(
        &self,
        family: &str,
        user_key: &[u8],
        existing: Option<&[u8]>,
        operands: &[Vec<u8>],
    ) -> Result<Vec<u8>> {
        let key = user_key.escape_ascii();
        let text = self.0.get(family).map(String::as_str);
        let operator = text.and_then(MergeKind::of).ok_or_else(|| {
            let operator = text.unwrap_or("no operator");
            Error::not_supported(format!("key '{key}' has merge operands, and OPTIONS names {operator}"))
        })?;
        let operands = operands.iter().rev().map(Vec::as_slice);
        operator
            .merged(existing, operands)
            .ok_or_else(|| Error::corruption(format!("key '{key}': the merge operator refuses its operands")))
    }
}

/// An operator.
#[derive(Debug, PartialEq)]
enum MergeKind {
    Add,
    Append(Vec<u8>),
    Newest,
    Largest,
    Xor,
    SortedList,
}

impl MergeKind {
    /// The operator that the text of an option names; `None` for operators of users.
    fn of(text: &str) -> Option<MergeKind> {
        let fields = split_map(text).unwrap_or_default();
        let field = |wanted| fields.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
        let delimiter = || MergeKind::Append(field("delimiter").unwrap_or(",").as_bytes().to_vec());
        Some(match field("id").unwrap_or(text.trim()) {
            "UInt64AddOperator" | "uint64add" => MergeKind::Add,
            "StringAppendOperator" | "stringappend" => delimiter(),
            "StringAppendTESTOperator" | "stringappendtest" => delimiter(),
            "PutOperator" | "put" | "put_v1" => MergeKind::Newest,
            "MaxOperator" | "max" => MergeKind::Largest,
            "BytesXOR" | "bytesxor" => MergeKind::Xor,
            "MergeSortOperator" | "sortlist" => MergeKind::SortedList,
            _ => return None,
        })
    }

    /// The value of `existing` and the operands, the oldest first; `None` if they are invalid.
    fn merged<'a>(
        &self,
        existing: Option<&'a [u8]>,
        operands: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) -> Option<Vec<u8>> {
        let mut all = existing.into_iter().chain(operands);
        match self {
            MergeKind::Add => {
                let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or(0);
                Some(all.map(number).fold(0, u64::wrapping_add).to_le_bytes().to_vec())
            }
            MergeKind::Append(delimiter) => Some(all.collect::<Vec<_>>().join(delimiter.as_slice())),
            MergeKind::Newest => all.next_back().map(<[u8]>::to_vec),
            MergeKind::Largest => all.max().map(<[u8]>::to_vec),
            MergeKind::Xor => Some(all.fold(Vec::new(), xor)),
            // The value below does not count.
            MergeKind::SortedList => {
                let lists = all.skip(usize::from(existing.is_some())).map(numbers);
                let list = lists.collect::<Option<Vec<_>>>()?.into_iter().fold(Vec::new(), merge_lists);
                Some(list.iter().map(i32::to_string).collect::<Vec<_>>().join(",").into_bytes())
            }
        }
    }
}

/// Byte by byte; the rest of the longer one stays as it is.
fn xor(mut merged: Vec<u8>, operand: &[u8]) -> Vec<u8> {
    merged.resize(merged.len().max(operand.len()), 0);
    merged.iter_mut().zip(operand).for_each(|(byte, other)| *byte ^= other);
    merged
}

/// The numbers of a list with commas; `None` if one is not a 32-bit number.
fn numbers(list: &[u8]) -> Option<Vec<i32>> {
    std::str::from_utf8(list).ok()?.split(',').map(|number| number.trim_start().parse().ok()).collect()
}

/// Takes the smaller first number again and again, or the right one when they are equal.
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

#[cfg(test)]
mod tests {
    use super::MergeKind;

    fn merged(operator: &str, existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        MergeKind::of(operator).unwrap().merged(existing, operands.iter().copied())
    }

    /// An operator, the value before, the operands, and the result; `None` if it has none.
    type MergeCase<'a> = (&'a str, Option<&'a [u8]>, &'a [&'a [u8]], Option<&'a [u8]>);

    #[test]
    fn operators_have_the_results_of_rocksdb() {
        let two = 2_u64.to_le_bytes();
        let cases: [MergeCase<'_>; 12] = [
            ("uint64add", Some(&two), &[&two, b"short"], Some(&4_u64.to_le_bytes())),
            ("UInt64AddOperator", None, &[&two], Some(&two)),
            ("stringappend", Some(b"a"), &[b"b", b""], Some(b"a,b,")),
            ("{id=StringAppendOperator;delimiter=|}", None, &[b"b", b"c"], Some(b"b|c")),
            ("{id=StringAppendTESTOperator;delimiter=:;}", Some(b""), &[b"c"], Some(b":c")),
            ("PutOperator", Some(b"a"), &[b"c", b"b"], Some(b"b")),
            ("max", Some(b"b"), &[b"a", b"ba", b""], Some(b"ba")),
            ("BytesXOR", Some(b"\x01\x02\x03"), &[b"\x01", b"\x04\x04\x04\x04"], Some(b"\x04\x06\x07\x04")),
            ("sortlist", Some(b"7"), &[b"1,5", b"2, 9,3"], Some(b"1,2,5,9,3")),
            ("sortlist", None, &[b"1", b"x"], None),
            ("sortlist", None, &[b"3,1", b"3"], Some(b"3,3,1")),
            ("put", None, &[b""], Some(b"")),
        ];
        for (operator, existing, operands, wanted) in cases {
            assert_eq!(merged(operator, existing, operands).as_deref(), wanted, "{operator} {operands:?}");
        }
        assert_eq!(MergeKind::of("MyOperator"), None);
        assert_eq!(MergeKind::of("{id=TtlMergeOperator;user_operator=put}"), None);
    }
}
