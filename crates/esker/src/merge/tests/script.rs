//! Entries as text: `"a@5 put v"`; kinds `put`, `del`, `sd`, `merge`, `blob`, `entity`, `timed`.

use super::super::vec_iter::{Entries, VecIter};
use esker_base::sync::Arc;
use esker_base::{SequenceNumber, ValueType};
use esker_format::cursor::InternalIterator;
use esker_format::key::{InternalKeyComparator, ParsedInternalKey, internal_key};
use esker_format::range_del::{FragmentedRangeTombstones, RangeTombstone};

const KINDS: [(&str, ValueType); 7] = [
    ("put", ValueType::Value),
    ("del", ValueType::Deletion),
    ("sd", ValueType::SingleDeletion),
    ("merge", ValueType::Merge),
    ("blob", ValueType::BlobIndex),
    ("entity", ValueType::WideColumnEntity),
    ("timed", ValueType::ValuePreferredSeqno),
];

/// An entry from text.
pub(crate) fn entry(text: &str) -> (Vec<u8>, Vec<u8>) {
    let mut parts = text.splitn(3, ' ');
    let (user_key, sequence) = parts.next().unwrap().split_once('@').unwrap();
    let kind = parts.next().unwrap();
    let value_type = KINDS.iter().find(|(name, _)| *name == kind).unwrap().1;
    let key = internal_key(user_key.as_bytes(), SequenceNumber(sequence.parse().unwrap()), value_type);
    (key, parts.next().unwrap_or("").into())
}

/// Entries from lines, which must be in order.
pub(crate) fn entries(lines: &[&str]) -> Entries {
    Arc::new(lines.iter().map(|line| entry(line)).collect())
}

/// A cursor over the entries of lines.
pub(crate) fn run(lines: &[&str]) -> VecIter {
    VecIter::new(&InternalKeyComparator::default(), entries(lines))
}

/// An entry as text.
pub(crate) fn text(key: &[u8], value: &[u8]) -> String {
    let parsed = ParsedInternalKey::parse(key).unwrap();
    let kind = KINDS.iter().find(|(_, t)| *t == parsed.value_type).unwrap().0;
    let text =
        format!("{}@{} {kind} {}", parsed.user_key.escape_ascii(), parsed.sequence, value.escape_ascii());
    text.trim_end().to_owned()
}

/// All entries of a cursor, forward, as text.
pub(crate) fn all(iter: &mut dyn InternalIterator) -> Vec<String> {
    let mut out = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        out.push(text(iter.key(), iter.value()));
        iter.next();
    }
    out
}

/// The tombstones `[start, end)@sequence` of a list.
pub(crate) fn tombstones(list: &[(&str, &str, u64)]) -> Arc<FragmentedRangeTombstones> {
    let owned = |(start, end, seq): &(&str, &str, u64)| {
        RangeTombstone::new(start.as_bytes(), end.as_bytes(), SequenceNumber(*seq))
    };
    let icmp = InternalKeyComparator::default();
    Arc::new(FragmentedRangeTombstones::build(list.iter().map(owned).collect(), &icmp))
}
