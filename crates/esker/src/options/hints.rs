//! Texts of temperatures, and enums of options that Esker accepts without effect: cache tiers,
//! kinds of memtables.
//!
//! In: RocksDB's names and numbers. Out: values that options hold and print. Source: RocksDB
//! `include/rocksdb/types.h`, `include/rocksdb/advanced_options.h`, `memtable/`.

pub use crate::observe::Temperature;

use super::value::{OptionValue, object_name, option_enum};
use esker_base::{Error, Result};

impl OptionValue for Temperature {
    fn parse(text: &str) -> Result<Temperature> {
        let named = Temperature::ALL.into_iter().find(|temperature| temperature.as_str() == text.trim());
        named.ok_or_else(|| {
            let names = Temperature::ALL.map(Temperature::as_str).join(" ");
            Error::invalid_argument(format!("'{text}' is none of {names}"))
        })
    }
    fn print(&self) -> String {
        self.as_str().to_owned()
    }
}

option_enum! {
    /// The lowest tier of a block cache that a database uses. Without effect.
    #[derive(Default)]
    pub enum CacheTier {
        /// Blocks in memory.
        VolatileTier = 0, "kVolatileTier";
        /// Compressed blocks in memory.
        VolatileCompressedTier = 1, "kVolatileCompressedTier";
        /// Blocks on a device.
        #[default]
        NonVolatileBlockTier = 2, "kNonVolatileBlockTier";
    }
}

option_enum! {
    /// Whether values of new blob files go into the blob cache.
    #[derive(Default)]
    pub enum PrepopulateBlobCache {
        /// Blob values do not go into the cache.
        #[default]
        Disable = 0, "kDisable";
        /// Values that flushes write go into the cache.
        FlushOnly = 1, "kFlushOnly";
    }
}

/// The kind of a memtable. Every kind gives Esker's B+-tree, which supports the calls of all kinds.
///
/// A hash kind has no order of all keys in RocksDB. In a family with a prefix extractor, an
/// iterator therefore finds keys of such memtables by seeks only. From `seek_to_first` and
/// `seek_to_last` on, it sees tables alone, unless it has `total_order_seek` or
/// `auto_prefix_mode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum MemtableFactory {
    /// A skip list.
    #[default]
    SkipList,
    /// An unsorted vector, sorted for reads.
    Vector,
    /// A skip list for each prefix.
    HashSkipList,
    /// A linked list for each prefix.
    HashLinkList,
}

impl MemtableFactory {
    /// Class name, then the short name of option strings.
    const NAMES: [(MemtableFactory, &str, &str); 4] = [
        (MemtableFactory::SkipList, "SkipListFactory", "skip_list"),
        (MemtableFactory::Vector, "VectorRepFactory", "vector"),
        (MemtableFactory::HashSkipList, "HashSkipListRepFactory", "prefix_hash"),
        (MemtableFactory::HashLinkList, "HashLinkListRepFactory", "hash_linkedlist"),
    ];

    /// RocksDB's name of the factory's class.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(kind, ..)| *kind == self).expect("each kind has a name").1
    }
}

/// Texts are `SkipListFactory`, `prefix_hash:1000` or `{id=vector;count=0;}`, say; parameters are
/// ignored.
impl OptionValue for MemtableFactory {
    fn parse(text: &str) -> Result<MemtableFactory> {
        let id = object_name(text);
        let name = id.split_once(':').map_or(id, |(name, _)| name);
        let is_called = |(_, class, short): &&(MemtableFactory, &str, &str)| name == *class || name == *short;
        Self::NAMES
            .iter()
            .find(is_called)
            .map(|(kind, ..)| *kind)
            .ok_or_else(|| Error::invalid_argument(format!("no kind of memtable is called '{name}'")))
    }
    fn print(&self) -> String {
        self.name().to_owned()
    }
}
