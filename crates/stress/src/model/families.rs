//! What the families are like: order, merge operator, the keys that may occur.
//!
//! Invariant: a family's keys are distinct and in its order, so that an index stands for a key and
//! compares like it.

use esker::builtin;
use esker::comparator::{BytewiseComparator, Comparator, ComparatorRef, ReverseBytewiseComparator};
use esker::merge_operator::MergeOperatorRef;
use std::cmp::Ordering;
use std::sync::Arc;

/// Of those beyond the four natures.
const MORE: [&str; 6] = ["fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];
/// Every how many keys one is deleted by single deletions only.
const SINGLE_EVERY: usize = 8;

/// Shorter keys first, then bytes: an order that the engine does not know by heart.
struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "esker.stress.ByLength"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

/// How a family merges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Merge {
    Append,
    Add,
    Max,
    Xor,
}

impl Merge {
    /// Written here once more, apart from the engine's.
    pub(crate) fn apply(self, existing: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
        let Some(existing) = existing else { return operand.to_vec() };
        match self {
            Merge::Append => [existing, operand].join(&b','),
            Merge::Add => number(existing).wrapping_add(number(operand)).to_le_bytes().to_vec(),
            Merge::Max => existing.max(operand).to_vec(),
            Merge::Xor => {
                let (long, short) =
                    if existing.len() >= operand.len() { (existing, operand) } else { (operand, existing) };
                let mut out = long.to_vec();
                out.iter_mut().zip(short).for_each(|(o, s)| *o ^= s);
                out
            }
        }
    }

    fn operator(self) -> MergeOperatorRef {
        match self {
            Merge::Append => builtin::string_append(","),
            Merge::Add => builtin::uint64_add(),
            Merge::Max => builtin::max(),
            Merge::Xor => builtin::bytes_xor(),
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// A family's nature, the same over all reopenings.
pub(crate) struct FamilySpec {
    pub(crate) name: &'static str,
    pub(crate) comparator: ComparatorRef,
    pub(crate) operator: MergeOperatorRef,
    pub(crate) merge: Merge,
    /// Prefixes of its keys lie together, so that it may have a prefix extractor.
    pub(crate) prefixes_lie_together: bool,
    pub(crate) keys: Vec<Vec<u8>>,
}

impl FamilySpec {
    /// So many families of a database, 4 to 10, with `count` keys each. `shared`: such as RocksDB
    /// reads, too: an order of our own it does not know, and where it merges by `max`, 11.8.1's
    /// iterators show bytes from memory that was used anew.
    pub(crate) fn all(
        rng: &mut fastrand::Rng,
        families: usize,
        count: usize,
        shared: bool,
    ) -> Vec<FamilySpec> {
        let bytewise: ComparatorRef = Arc::new(BytewiseComparator);
        let reverse: ComparatorRef = Arc::new(ReverseBytewiseComparator);
        let custom: ComparatorRef = if shared { bytewise.clone() } else { Arc::new(ByLength) };
        let max = if shared { Merge::Append } else { Merge::Max };
        let natures = [
            ("default", bytewise.clone(), Merge::Append, true),
            ("reverse", reverse, Merge::Add, true),
            ("prefix", bytewise, max, true),
            ("custom", custom, Merge::Xor, false),
        ];
        let make = |(name, comparator, merge, prefixes_lie_together): (_, ComparatorRef, Merge, _)| {
            let keys = random_keys(rng, comparator.as_ref(), count);
            FamilySpec { name, comparator, operator: merge.operator(), merge, prefixes_lie_together, keys }
        };
        let more = natures.clone().into_iter().cycle().zip(MORE).map(|((_, a, b, c), name)| (name, a, b, c));
        natures.into_iter().chain(more).take(families).map(make).collect()
    }

    /// What RocksDB must know of it to read it, as its options text.
    pub(crate) fn options_of_rocksdb(&self) -> String {
        let merge = match self.merge {
            Merge::Append => "{id=StringAppendOperator;delimiter=,}",
            Merge::Add => "uint64add",
            Merge::Max => "max",
            Merge::Xor => "bytesxor",
        };
        format!("comparator={};merge_operator={merge};", self.comparator.name())
    }

    /// The first index whose key is at or behind `target`; the number of keys if there is none.
    pub(crate) fn lower_bound(&self, target: &[u8]) -> usize {
        self.keys.partition_point(|key| self.comparator.compare(key, target) == Ordering::Less)
    }

    /// The first index whose key is behind `target`.
    pub(crate) fn upper_bound(&self, target: &[u8]) -> usize {
        self.keys.partition_point(|key| self.comparator.compare(key, target) != Ordering::Greater)
    }

    /// Whether this key is written and deleted in the pairs that single deletion asks for.
    pub(crate) fn is_single(&self, index: usize) -> bool {
        index % SINGLE_EVERY == SINGLE_EVERY - 1
    }

    /// Mostly one of the keys, else something near one.
    pub(crate) fn random_target(&self, rng: &mut fastrand::Rng) -> Vec<u8> {
        let mut key = self.keys[rng.usize(..self.keys.len())].clone();
        match rng.u8(..8) {
            0 => key.push(rng.u8(..)),
            1 => key.truncate(rng.usize(..=key.len())),
            2 => {
                if let Some(last) = key.last_mut() {
                    *last = last.wrapping_add(1);
                }
            }
            _ => {}
        }
        key
    }
}

/// Distinct keys in order: some in clusters with a common prefix, some prefixes of others, some
/// with bytes at the ends of their range, the empty one too.
fn random_keys(rng: &mut fastrand::Rng, comparator: &dyn Comparator, count: usize) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = vec![Vec::new(), vec![0], vec![0xff], vec![0xff, 0xff, 0xff]];
    while keys.len() < count {
        let mut key = match rng.u8(..4) {
            0 => keys[rng.usize(..keys.len())].clone(),
            1 => format!("k{:02}", rng.u8(..30)).into_bytes(),
            2 => format!("key{:06}", rng.u32(..1000)).into_bytes(),
            _ => vec![b'a' + rng.u8(..5), b'a' + rng.u8(..5)],
        };
        for _ in 0..rng.usize(..6) {
            key.push(match rng.u8(..10) {
                0 => 0,
                1 => 0xff,
                _ => b'a' + rng.u8(..8),
            });
        }
        key.truncate(24);
        keys.push(key);
        if keys.len() == count {
            keys.sort_by(|a, b| comparator.compare(a, b));
            keys.dedup();
        }
    }
    keys.sort_by(|a, b| comparator.compare(a, b));
    keys
}
