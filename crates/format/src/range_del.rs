//! Range tombstones: "every key from here up to there is deleted".
//!
//! In: tombstones as written, overlapping and in any order. Out: disjoint fragments that can be
//! searched. Bytes: `docs/format/range-del.md`. Source: RocksDB `db/range_tombstone_fragmenter.h`.

pub mod fragment;
pub mod tombstone;

pub use fragment::{Fragment, FragmentedRangeTombstones};
pub use tombstone::{RangeTombstone, RangeTombstoneRef};
