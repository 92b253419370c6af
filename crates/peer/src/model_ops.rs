//! Families, operations and their model: the writes of all peer processes, and the expected
//! contents.
//!
//! In: a random generator. Out: operations that each peer process can apply, and the contents that
//! the model expects.
//!
//! Invariants
//!  1. Single deletions keep RocksDB's contract. Their keys have a prefix of their own, are put
//!     once between two single deletions, and no other operation touches them.
//!  2. The model's sequence numbers are the database's: every operation takes one.

use crate::contents::Contents;
use crate::library::FamilySpec;
use esker::{ColumnFamilyDescriptor, ColumnFamilyOptions, Db, WriteBatch, WriteOptions, builtin};
use esker_base::comparator::{BytewiseComparator, ReverseBytewiseComparator};
use esker_testkit::model::{Model, string_append};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A write to one family.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerOp {
    /// Stores a value.
    Put {
        /// The family's name.
        family: String,
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// Deletes a key.
    Delete {
        /// The family's name.
        family: String,
        /// The key.
        key: Vec<u8>,
    },
    /// Deletes a key that was put once.
    SingleDelete {
        /// The family's name.
        family: String,
        /// The key.
        key: Vec<u8>,
    },
    /// Stores a merge operand.
    Merge {
        /// The family's name.
        family: String,
        /// The key.
        key: Vec<u8>,
        /// The operand.
        operand: Vec<u8>,
    },
    /// Deletes `begin..end` in the family's order.
    DeleteRange {
        /// The family's name.
        family: String,
        /// First key of the range.
        begin: Vec<u8>,
        /// First key behind the range.
        end: Vec<u8>,
    },
}

impl PeerOp {
    /// The name of the family that the operation writes to.
    pub fn family(&self) -> &str {
        match self {
            PeerOp::Put { family, .. }
            | PeerOp::Delete { family, .. }
            | PeerOp::SingleDelete { family, .. }
            | PeerOp::Merge { family, .. }
            | PeerOp::DeleteRange { family, .. } => family,
        }
    }

    /// The key, or the first one of a range.
    pub fn key(&self) -> &[u8] {
        match self {
            PeerOp::Put { key, .. }
            | PeerOp::Delete { key, .. }
            | PeerOp::SingleDelete { key, .. }
            | PeerOp::Merge { key, .. } => key,
            PeerOp::DeleteRange { begin, .. } => begin,
        }
    }
}

/// The order of a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FamilyOrder {
    /// `leveldb.BytewiseComparator`.
    Bytewise,
    /// `rocksdb.ReverseBytewiseComparator`.
    Reverse,
}

/// The merge operator of a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FamilyMerge {
    /// No operator; the family gets no merges.
    None,
    /// `stringappend`, with a comma.
    StringAppend,
    /// `uint64add`.
    Uint64Add,
}

/// A family of a [`ModelOps`].
#[derive(Clone, Debug)]
pub struct ModelFamily {
    /// Its name.
    pub name: String,
    /// Its order.
    pub order: FamilyOrder,
    /// Its merge operator.
    pub merge: FamilyMerge,
    model: Model,
    /// Keys that are put and may be deleted singly.
    single: BTreeSet<Vec<u8>>,
}

/// The kinds of operations that a peer process supports.
#[derive(Clone, Copy, Debug)]
pub struct Kinds {
    /// Whether it supports merges and single deletions.
    pub all: bool,
    /// Whether it supports range deletions.
    pub ranges: bool,
}

impl Kinds {
    /// Every kind.
    pub const ALL: Kinds = Kinds { all: true, ranges: true };
    /// The kinds that `ldb` can write.
    pub const LDB: Kinds = Kinds { all: false, ranges: true };
    /// Puts and deletions of single keys.
    pub const PLAIN: Kinds = Kinds { all: false, ranges: false };
}

/// Families and their expected contents.
#[derive(Clone, Debug)]
pub struct ModelOps {
    /// The families; the first is `default`.
    pub families: Vec<ModelFamily>,
    sequence: u64,
    /// Number of different keys that are drawn.
    pub key_space: u32,
}

impl ModelOps {
    /// An empty model with these families besides `default` (bytewise, `stringappend`).
    pub fn new(others: &[(&str, FamilyOrder, FamilyMerge)]) -> ModelOps {
        let mut model = ModelOps { families: Vec::new(), sequence: 0, key_space: 400 };
        model.add_family("default", FamilyOrder::Bytewise, FamilyMerge::StringAppend);
        for &(name, order, merge) in others {
            model.add_family(name, order, merge);
        }
        model
    }

    /// Adds an empty family.
    pub fn add_family(&mut self, name: &str, order: FamilyOrder, merge: FamilyMerge) {
        let compare = match order {
            FamilyOrder::Bytewise => |a: &[u8], b: &[u8]| a.cmp(b),
            FamilyOrder::Reverse => |a: &[u8], b: &[u8]| b.cmp(a),
        };
        let merge_fn = if merge == FamilyMerge::Uint64Add { uint64_add } else { string_append };
        let model = Model::with(compare, merge_fn);
        let name = name.to_owned();
        self.families.push(ModelFamily { name, order, merge, model, single: BTreeSet::new() });
    }

    /// Removes the family `name`.
    pub fn drop_family(&mut self, name: &str) {
        self.families.retain(|family| family.name != name);
    }

    /// A model with a family for each relevant order, name and operator.
    pub fn varied() -> ModelOps {
        ModelOps::new(&[
            ("reverse", FamilyOrder::Reverse, FamilyMerge::StringAppend),
            ("counters", FamilyOrder::Bytewise, FamilyMerge::Uint64Add),
            ("with:special#chars\\", FamilyOrder::Bytewise, FamilyMerge::None),
        ])
    }

    /// The model's families for Esker, with the options `base`.
    pub fn descriptors(&self, base: &ColumnFamilyOptions) -> Vec<ColumnFamilyDescriptor> {
        let descriptor = |family: &ModelFamily| {
            let mut options = base.clone();
            options.comparator = match family.order {
                FamilyOrder::Bytewise => Arc::new(BytewiseComparator),
                FamilyOrder::Reverse => Arc::new(ReverseBytewiseComparator),
            };
            options.merge_operator = match family.merge {
                FamilyMerge::None => None,
                FamilyMerge::StringAppend => Some(builtin::string_append(",")),
                FamilyMerge::Uint64Add => Some(builtin::uint64_add()),
            };
            ColumnFamilyDescriptor::new(family.name.clone(), options)
        };
        self.families.iter().map(descriptor).collect()
    }

    /// The model's families for RocksDB's library, with the additional options `more`.
    pub fn specs(&self, more: &str) -> Vec<FamilySpec> {
        let spec = |family: &ModelFamily| {
            let order = match family.order {
                FamilyOrder::Bytewise => "leveldb.BytewiseComparator",
                FamilyOrder::Reverse => "rocksdb.ReverseBytewiseComparator",
            };
            let merge = match family.merge {
                FamilyMerge::None => "",
                FamilyMerge::StringAppend => "merge_operator={id=StringAppendOperator;delimiter=,};",
                FamilyMerge::Uint64Add => "merge_operator=uint64add;",
            };
            FamilySpec::new(family.name.clone(), format!("comparator={order};{merge}{more}"))
        };
        self.families.iter().map(spec).collect()
    }

    /// Random operations on random families. The model applies them at once.
    pub fn random_ops(&mut self, rng: &mut fastrand::Rng, count: usize, kinds: Kinds) -> Vec<PeerOp> {
        let mut ops = Vec::with_capacity(count);
        for _ in 0..count {
            let op = self.random_op(rng, kinds);
            self.apply(&op);
            ops.push(op);
        }
        ops
    }

    /// Random operations for a file to be ingested into one family: at most one range deletion,
    /// then puts, deletions and merges of ascending keys. The model applies them at once. In such a
    /// file the keys are newer than the range deletion. The database takes at most one sequence
    /// number for the file, so the model's numbers run ahead from then on.
    pub fn ingest_ops(&mut self, rng: &mut fastrand::Rng, count: usize) -> Vec<PeerOp> {
        let family = rng.usize(..self.families.len());
        let mut ops = BTreeMap::new();
        let mut range = None;
        while ops.len() < count {
            match self.random_op_of(rng, Kinds { all: true, ranges: range.is_none() }, family) {
                op @ PeerOp::DeleteRange { .. } => range = Some(op),
                op @ (PeerOp::Put { .. } | PeerOp::Delete { .. } | PeerOp::Merge { .. }) => {
                    let key = op.key().to_vec();
                    if !key.starts_with(b"single") {
                        ops.insert(key, op);
                    }
                }
                PeerOp::SingleDelete { .. } => {}
            }
        }
        let mut ops: Vec<PeerOp> = ops.into_values().collect();
        if self.families[family].order == FamilyOrder::Reverse {
            ops.reverse();
        }
        let ops: Vec<PeerOp> = range.into_iter().chain(ops).collect();
        ops.iter().for_each(|op| self.apply(op));
        ops
    }

    fn random_op(&self, rng: &mut fastrand::Rng, kinds: Kinds) -> PeerOp {
        let family = rng.usize(..self.families.len());
        self.random_op_of(rng, kinds, family)
    }

    fn random_op_of(&self, rng: &mut fastrand::Rng, kinds: Kinds, family: usize) -> PeerOp {
        let at = &self.families[family];
        let family = at.name.clone();
        let key = random_key(rng, self.key_space);
        let counter = at.merge == FamilyMerge::Uint64Add;
        let value = |rng: &mut fastrand::Rng| {
            if counter { rng.u64(..1000).to_le_bytes().to_vec() } else { random_value(rng) }
        };
        match rng.u32(..100) {
            0..2 if kinds.ranges => {
                let (mut begin, mut end) = (key, random_key(rng, self.key_space));
                if (begin < end) != (at.order == FamilyOrder::Bytewise) {
                    std::mem::swap(&mut begin, &mut end);
                }
                PeerOp::DeleteRange { family, begin, end }
            }
            2..18 => PeerOp::Delete { family, key },
            18..40 if kinds.all && at.merge != FamilyMerge::None => {
                let operand = if counter { value(rng) } else { format!("m{}", rng.u32(..100)).into_bytes() };
                PeerOp::Merge { family, key, operand }
            }
            40..55 if kinds.all => {
                let key = format!("single{:03}", rng.u32(..self.key_space / 4)).into_bytes();
                if at.single.contains(&key) {
                    PeerOp::SingleDelete { family, key }
                } else {
                    PeerOp::Put { family, key, value: value(rng) }
                }
            }
            _ => PeerOp::Put { family, key, value: value(rng) },
        }
    }

    /// Applies `op` to the model.
    pub fn apply(&mut self, op: &PeerOp) {
        let family =
            self.families.iter_mut().find(|f| f.name == op.family()).expect("a family of this model");
        family.model.advance_to(self.sequence);
        self.sequence = match op {
            PeerOp::Put { key, value, .. } => {
                if key.starts_with(b"single") {
                    family.single.insert(key.clone());
                }
                family.model.put(key, value)
            }
            PeerOp::Delete { key, .. } => family.model.delete(key),
            PeerOp::SingleDelete { key, .. } => {
                family.single.remove(key);
                family.model.delete(key)
            }
            PeerOp::Merge { key, operand, .. } => family.model.merge(key, operand),
            PeerOp::DeleteRange { begin, end, .. } => family.model.delete_range(begin, end),
        };
    }

    /// The sequence number of the last operation.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The expected contents of a family now.
    pub fn contents(&self, family: &ModelFamily) -> Contents {
        self.contents_at(family, self.sequence)
    }

    /// The expected contents of `family` under a snapshot at `sequence`.
    pub fn contents_at(&self, family: &ModelFamily, sequence: u64) -> Contents {
        let pairs = family.model.scan_at(sequence, None, None);
        Contents(
            pairs.map(|(key, value)| (key.to_vec(), value.expect("these operators do not fail"))).collect(),
        )
    }
}

/// Applies `ops` to Esker as one batch.
/// # Errors
/// Esker's.
///
/// # Panics
/// If a family is not open.
pub fn write_to_esker(db: &Db, ops: &[PeerOp], options: &WriteOptions) -> esker::Result<()> {
    let ids: BTreeMap<&str, _> = ops
        .iter()
        .map(|op| (op.family(), db.column_family(op.family()).expect("the family is open").id()))
        .collect();
    let mut batch = WriteBatch::new();
    for op in ops {
        let id = ids[op.family()];
        match op {
            PeerOp::Put { key, value, .. } => batch.put_cf(id, key, value)?,
            PeerOp::Delete { key, .. } => batch.delete_cf(id, key)?,
            PeerOp::SingleDelete { key, .. } => batch.single_delete_cf(id, key)?,
            PeerOp::Merge { key, operand, .. } => batch.merge_cf(id, key, operand)?,
            PeerOp::DeleteRange { begin, end, .. } => batch.delete_range_cf(id, begin, end)?,
        }
    }
    db.write_opt(options, &mut batch)
}

/// Adds 8-byte little-endian numbers, as RocksDB's `uint64add` does.
fn uint64_add(_key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let sum = existing.into_iter().chain(operands.iter().copied()).map(number).fold(0, u64::wrapping_add);
    Some(sum.to_le_bytes().to_vec())
}

/// A random key, mostly short. Some keys are prefixes of others; some have bytes that are not
/// UTF-8.
fn random_key(rng: &mut fastrand::Rng, key_space: u32) -> Vec<u8> {
    let number = rng.u32(..key_space);
    let mut key = format!("key{number:04}").into_bytes();
    match number % 16 {
        0 => key.truncate(5),
        1 => key.extend([0, 0xFF, 0]),
        2 => key.resize(200, b'x'),
        _ => {}
    }
    key
}

/// A random value: compressible or not, empty, short or, rarely, longer than a block.
fn random_value(rng: &mut fastrand::Rng) -> Vec<u8> {
    let len = match rng.u32(..40) {
        0 => 0,
        1 => rng.usize(5_000..20_000),
        _ => rng.usize(1..300),
    };
    if rng.bool() {
        return (0..len).map(|_| rng.u8(..)).collect();
    }
    let word = [rng.u8(b'a'..=b'z'), rng.u8(..), b'-', b' '];
    word.iter().copied().cycle().take(len).collect()
}
