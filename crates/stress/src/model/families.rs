//! The families: their order, merge operator, and possible keys.
//!
//! Invariant: a family's keys are distinct and in its order, so that an index stands for a key and
//! compares like it. These keys have no timestamps, even if those of the database do.

use super::ModelParameters;
use super::state::ModelState;
use crate::stamped;
use esker::builtin;
use esker::comparator::{BytewiseComparator, Comparator, ComparatorRef, ReverseBytewiseComparator};
use esker::merge_operator::MergeOperatorRef;
use esker_testkit::timestamps::TimestampFormat;
use std::cmp::Ordering;
use std::sync::Arc;

/// Least number of families of a database.
pub(crate) const FEWEST: usize = 5;
/// Most keys of a family with timestamps, because each key keeps its versions.
const MOST_STAMPED_KEYS: usize = 100;
/// Names of further families, which have no nature of their own.
const MORE: [&str; 6] = ["fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];
/// One key in this many is deleted by single deletions only.
const SINGLE_EVERY: usize = 8;

/// Orders shorter keys first, then by bytes. The engine has no code for this order.
struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "esker.stress.ByLength"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

/// The merge operator of a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ModelMerge {
    Append,
    Add,
    Max,
    Xor,
}

impl ModelMerge {
    /// Merges as the operator must, without code of the engine.
    pub(crate) fn apply(self, existing: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
        let Some(existing) = existing else { return operand.to_vec() };
        match self {
            ModelMerge::Append => [existing, operand].join(&b','),
            ModelMerge::Add => number(existing).wrapping_add(number(operand)).to_le_bytes().to_vec(),
            ModelMerge::Max => existing.max(operand).to_vec(),
            ModelMerge::Xor => {
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
            ModelMerge::Append => builtin::string_append(","),
            ModelMerge::Add => builtin::uint64_add(),
            ModelMerge::Max => builtin::max(),
            ModelMerge::Xor => builtin::bytes_xor(),
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// Name, order of keys, merge operator, whether keys with a common prefix are adjacent, format of
/// timestamps.
type Nature = (&'static str, ComparatorRef, ModelMerge, bool, Option<TimestampFormat>);

/// A family's nature, which reopenings do not change.
pub(crate) struct ModelFamilySpec {
    pub(crate) name: &'static str,
    pub(crate) comparator: ComparatorRef,
    /// The order of keys without timestamps.
    pub(crate) order: ComparatorRef,
    /// The format of the timestamps of its keys, if they have any.
    pub(crate) stamps: Option<TimestampFormat>,
    pub(crate) operator: MergeOperatorRef,
    pub(crate) merge: ModelMerge,
    /// Whether keys with a common prefix are adjacent, so that the family may have a prefix
    /// extractor.
    pub(crate) prefixes_lie_together: bool,
    pub(crate) keys: Vec<Vec<u8>>,
    /// Whether RocksDB 11.8.1 reads the family, too.
    pub(crate) is_shared: bool,
}

impl ModelFamilySpec {
    /// `families` families of a database, at most 10, with `count` keys each. With `shared_orders`,
    /// only families that RocksDB's reader can read too. It has no comparator of these tests and
    /// reads at no timestamp. In families that merge by `max`, 11.8.1's iterators show bytes from
    /// reused memory.
    pub(crate) fn all(
        rng: &mut fastrand::Rng,
        families: usize,
        count: usize,
        parameters: &ModelParameters,
    ) -> Vec<ModelFamilySpec> {
        let shared = parameters.shared_orders;
        let bytewise: ComparatorRef = Arc::new(BytewiseComparator);
        let reverse: ComparatorRef = Arc::new(ReverseBytewiseComparator);
        let custom: ComparatorRef = if shared { bytewise.clone() } else { Arc::new(ByLength) };
        let max = if shared { ModelMerge::Append } else { ModelMerge::Max };
        let format = TimestampFormat::of_seed(rng.u64(..));
        let format = match parameters.timestamps_of_transactions {
            true => TimestampFormat::new(format.order(), 8),
            false => format,
        };
        let (stamped, stamps) = match shared || parameters.mixes_policies {
            true => (bytewise.clone(), None),
            false => (stamped::comparator(format), Some(format)),
        };
        let natures = [
            ("default", bytewise.clone(), ModelMerge::Append, true, None),
            ("reverse", reverse, ModelMerge::Add, true, None),
            ("prefix", bytewise, max, true, None),
            ("custom", custom, ModelMerge::Xor, false, None),
            ("stamped", stamped, ModelMerge::Append, true, stamps),
        ];
        let make = |(name, comparator, merge, prefixes_lie_together, stamps): Nature| {
            let order = comparator.without_timestamp().unwrap_or_else(|| comparator.clone());
            let count = if stamps.is_some() { count.min(MOST_STAMPED_KEYS) } else { count };
            let keys = random_keys(rng, order.as_ref(), count);
            let operator = merge.operator();
            ModelFamilySpec {
                name,
                comparator,
                order,
                stamps,
                operator,
                merge,
                prefixes_lie_together,
                keys,
                is_shared: shared,
            }
        };
        let named = |((_, a, b, c, d), name)| (name, a, b, c, d);
        let more = natures.clone().into_iter().cycle().zip(MORE).map(named);
        natures.into_iter().chain(more).take(families).map(make).collect()
    }

    /// The options text that RocksDB needs to read the family.
    pub(crate) fn options_of_rocksdb(&self) -> String {
        let merge = match self.merge {
            ModelMerge::Append => "{id=StringAppendOperator;delimiter=,}",
            ModelMerge::Add => "uint64add",
            ModelMerge::Max => "max",
            ModelMerge::Xor => "bytesxor",
        };
        format!("comparator={};merge_operator={merge};", self.comparator.name())
    }

    /// The first index whose key is at or behind `target`; the number of keys if there is none.
    pub(crate) fn lower_bound(&self, target: &[u8]) -> usize {
        self.keys.partition_point(|key| self.order.compare(key, target) == Ordering::Less)
    }

    /// The first index whose key is behind `target`.
    pub(crate) fn upper_bound(&self, target: &[u8]) -> usize {
        self.keys.partition_point(|key| self.order.compare(key, target) != Ordering::Greater)
    }

    /// The state without any key.
    pub(crate) fn empty_state(&self) -> ModelState {
        let keys = self.keys.len();
        if self.stamps.is_some() { ModelState::stamped(keys) } else { ModelState::empty(keys) }
    }

    /// The key with timestamp `time`, as in the database.
    /// # Panics
    /// Keys have no timestamps.
    pub(crate) fn stamp(&self, key: &[u8], time: u64) -> Vec<u8> {
        [key, &self.stamps.expect("keys have timestamps").timestamp(time)].concat()
    }

    /// Whether this key is put and single-deleted in turn.
    pub(crate) fn is_single(&self, index: usize) -> bool {
        index % SINGLE_EVERY == SINGLE_EVERY - 1
    }

    /// A key to seek: mostly a key of the family, otherwise one near its keys.
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
/// with extreme bytes, and the empty key.
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
