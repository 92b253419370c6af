//! Filter policies, as users and OPTIONS files name them.
//!
//! In: `bloomfilter:10:false`, `ribbonfilter:9.9:-1`, `rocksdb.BuiltinBloomFilter`, with RocksDB's
//! rounding. Out: the kind of filter for a table. Source: RocksDB
//! `table/block_based/filter_policy.cc`.
#![expect(clippy::cast_possible_truncation, reason = "a sanitized number of bits")]

use super::FilterReader;
use super::builder::{FilterBitsBuilder, FilterKind};
use super::custom::CustomFilterPolicyRef;
use esker_base::{CompactionStyle, Error, Result, TableFileCreationReason};
use std::fmt;

/// The second part of the name of a filter's block, behind `fullfilter.`, for every policy. Also
/// the name of the policy that only reads.
pub const COMPATIBILITY_NAME: &str = "rocksdb.BuiltinBloomFilter";

const BLOOM_NAMES: [&str; 2] = ["bloomfilter", "rocksdb.BloomFilter"];
const RIBBON_NAMES: [&str; 2] = ["ribbonfilter", "rocksdb.RibbonFilter"];

/// The filter to write. Every built-in policy reads every built-in kind of filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterPolicy {
    kind: PolicyKind,
    /// 0: none; else 1000 to 100,000.
    millibits_per_key: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum PolicyKind {
    ReadOnly,
    Bloom,
    Ribbon { bloom_before_level: i32 },
    Custom(CustomFilterPolicyRef),
}

/// Facts about a table for its filter policy. The default is a table of format version 5, written
/// outside of any database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilterBuildingContext<'a> {
    /// The table's format version.
    pub format_version: u32,
    /// The table's level, if known: `level_at_creation`.
    pub level: Option<i32>,
    /// Whether a flush writes it.
    pub is_flush: bool,
    /// The reason for the table.
    pub reason: TableFileCreationReason,
    /// Whether no older data lies below its level.
    pub is_bottommost: bool,
    /// The compaction style of its family.
    pub compaction_style: CompactionStyle,
    /// The number of levels of its family, if known.
    pub num_levels: Option<i32>,
    /// Its family; empty if unknown.
    pub column_family_name: &'a str,
}

impl Default for FilterBuildingContext<'_> {
    fn default() -> Self {
        FilterBuildingContext {
            format_version: 5,
            level: None,
            is_flush: false,
            reason: TableFileCreationReason::Misc,
            is_bottommost: false,
            compaction_style: CompactionStyle::default(),
            num_levels: None,
            column_family_name: "",
        }
    }
}

impl FilterPolicy {
    /// Bloom filters. Below 0.5 bits per key: no filters are written. Otherwise 1 to 100.
    pub fn bloom(bits_per_key: f64) -> FilterPolicy {
        FilterPolicy { kind: PolicyKind::Bloom, millibits_per_key: millibits(bits_per_key) }
    }

    /// Ribbon filters with the false positive rate of a Bloom filter of this many bits per key.
    /// Levels below `bloom_before_level` get Bloom filters; a flush counts as level -1. RocksDB's
    /// default is 0: Bloom filters for flushes.
    pub fn ribbon(bloom_equivalent_bits_per_key: f64, bloom_before_level: i32) -> FilterPolicy {
        FilterPolicy {
            kind: PolicyKind::Ribbon { bloom_before_level },
            millibits_per_key: millibits(bloom_equivalent_bits_per_key),
        }
    }

    /// Reads filters and writes none.
    pub const fn read_only() -> FilterPolicy {
        FilterPolicy { kind: PolicyKind::ReadOnly, millibits_per_key: 0 }
    }

    /// A policy by user code.
    pub fn custom(policy: CustomFilterPolicyRef) -> FilterPolicy {
        FilterPolicy { kind: PolicyKind::Custom(policy), millibits_per_key: 0 }
    }

    /// The policy by user code, if it is one.
    pub fn as_custom(&self) -> Option<&CustomFilterPolicyRef> {
        match &self.kind {
            PolicyKind::Custom(policy) => Some(policy),
            _ => None,
        }
    }

    /// The name of the filters' form: the second part of the name of a filter's block.
    pub fn compatibility_name(&self) -> &str {
        self.as_custom().map_or(COMPATIBILITY_NAME, |policy| policy.compatibility_name())
    }

    /// The policy of this name; `None` for the empty string and `nullptr`.
    /// # Errors
    /// `InvalidArgument` if a number is wrong · `NotSupported` if no policy has this name.
    pub fn parse(text: &str) -> Result<Option<FilterPolicy>> {
        let text = text.trim();
        if text.is_empty() || text == "nullptr" {
            return Ok(None);
        }
        if text == COMPATIBILITY_NAME {
            return Ok(Some(FilterPolicy::read_only()));
        }
        let parts: Vec<&str> = text.split(':').collect();
        let policy = match *parts.as_slice() {
            [name, bits] | [name, bits, "true" | "false"] if BLOOM_NAMES.contains(&name) => {
                FilterPolicy::bloom(number(text, bits)?)
            }
            [name, bits] if RIBBON_NAMES.contains(&name) => FilterPolicy::ribbon(number(text, bits)?, 0),
            [name, bits, level] if RIBBON_NAMES.contains(&name) => {
                FilterPolicy::ribbon(number(text, bits)?, number(text, level)?)
            }
            _ => return Err(Error::not_supported(format!("filter policy '{text}' is unknown"))),
        };
        Ok(Some(policy))
    }

    /// Bits per key, as configured; 0 if it writes no filters.
    pub fn bits_per_key(&self) -> f64 {
        f64::from(self.millibits_per_key) / 1000.0
    }

    /// The value of the table property `rocksdb.filter.policy`.
    pub fn name(&self) -> &str {
        match &self.kind {
            PolicyKind::Custom(policy) => policy.name(),
            PolicyKind::ReadOnly => COMPATIBILITY_NAME,
            PolicyKind::Bloom => BLOOM_NAMES[0],
            PolicyKind::Ribbon { .. } => RIBBON_NAMES[0],
        }
    }

    /// The built-in kind of filter for this table; `None`: write none, or user code chooses.
    pub fn kind_for(&self, context: &FilterBuildingContext<'_>) -> Option<FilterKind> {
        let millibits_per_key = self.millibits_per_key;
        if millibits_per_key == 0 {
            return None;
        }
        let bloom = FilterKind::FastLocalBloom { millibits_per_key };
        match &self.kind {
            PolicyKind::ReadOnly | PolicyKind::Custom(_) => None,
            PolicyKind::Bloom if context.format_version < 5 => {
                Some(FilterKind::LegacyBloom { bits_per_key: (millibits_per_key + 500) / 1000 })
            }
            PolicyKind::Bloom => Some(bloom),
            PolicyKind::Ribbon { bloom_before_level } => {
                // i32::MAX means "always Bloom". An unknown level counts as the bottommost one.
                let level = match context.compaction_style {
                    CompactionStyle::Fifo | CompactionStyle::None => i32::MAX - 1,
                    _ if context.is_flush => -1,
                    _ => context.level.unwrap_or(i32::MAX - 1),
                };
                let is_bloom = level < *bloom_before_level;
                Some(if is_bloom { bloom } else { FilterKind::Ribbon { millibits_per_key } })
            }
        }
    }

    /// A builder for this table; `None`: write no filter.
    pub fn builder_with_context(&self, context: &FilterBuildingContext<'_>) -> Option<FilterBitsBuilder> {
        match &self.kind {
            PolicyKind::Custom(policy) => policy.builder_with_context(context),
            _ => self.kind_for(context).map(FilterBitsBuilder::new),
        }
    }

    /// A reader of a filter with these contents.
    pub fn filter_bits_reader<B: AsRef<[u8]>>(&self, contents: B) -> FilterReader<B> {
        match &self.kind {
            PolicyKind::Custom(policy) => FilterReader::of_policy(contents, policy),
            _ => FilterReader::parse(contents),
        }
    }
}

fn number<T: std::str::FromStr>(text: &str, part: &str) -> Result<T> {
    part.trim().parse().map_err(|_| {
        Error::invalid_argument(format!("filter policy '{text}': '{part}' is no number of its kind"))
    })
}

fn millibits(bits_per_key: f64) -> u32 {
    let bits = if bits_per_key < 0.5 {
        0.0
    } else if bits_per_key < 1.0 {
        1.0
    } else if bits_per_key < 100.0 {
        bits_per_key
    } else {
        // Larger numbers and NaN count as 100.
        100.0
    };
    // The small addend makes numbers with three decimals exact.
    (bits * 1000.0 + 0.500_001) as u32
}

/// As in OPTIONS files, without trailing zeros: `bloomfilter:9.9:false`.
impl fmt::Display for FilterPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.bits_per_key();
        match &self.kind {
            PolicyKind::Custom(policy) => f.write_str(policy.name()),
            PolicyKind::ReadOnly => f.write_str(COMPATIBILITY_NAME),
            PolicyKind::Bloom => write!(f, "bloomfilter:{bits}:false"),
            PolicyKind::Ribbon { bloom_before_level } => {
                write!(f, "ribbonfilter:{bits}:{bloom_before_level}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
