//! Prefix extractors, RocksDB's "slice transforms". Names are stored in table properties.

use std::fmt;
use std::sync::Arc;

/// Extracts a prefix from a user key (without its timestamp).
pub trait SliceTransform: Send + Sync {
    /// The name, stored in each table's properties. A table's prefix filter is used only under the
    /// same name.
    fn name(&self) -> &str;
    /// The prefix of `key`, or `None` if the key has none ("out of domain").
    fn transform<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]>;
}

/// A shared extractor.
pub type SliceTransformRef = Arc<dyn SliceTransform>;

impl fmt::Debug for dyn SliceTransform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SliceTransform({})", self.name())
    }
}

struct Stock {
    name: String,
    bytes: usize,
    capped: bool,
}

impl SliceTransform for Stock {
    fn name(&self) -> &str {
        &self.name
    }
    fn transform<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        match key.get(..self.bytes) {
            None if self.capped => Some(key),
            prefix => prefix,
        }
    }
}

/// `rocksdb.FixedPrefix.<n>`: the first `bytes` bytes; shorter keys have no prefix.
pub fn fixed(bytes: usize) -> SliceTransformRef {
    Arc::new(Stock { name: format!("rocksdb.FixedPrefix.{bytes}"), bytes, capped: false })
}

/// `rocksdb.CappedPrefix.<n>`: the first `bytes` bytes, or the whole key if it is shorter.
pub fn capped(bytes: usize) -> SliceTransformRef {
    Arc::new(Stock { name: format!("rocksdb.CappedPrefix.{bytes}"), bytes, capped: true })
}

/// The built-in extractor of this name: `rocksdb.FixedPrefix.<n>`, `rocksdb.CappedPrefix.<n>`, or
/// the option-string forms `fixed:<n>` and `capped:<n>`.
pub fn by_name(name: &str) -> Option<SliceTransformRef> {
    let number = |prefix: &str| name.strip_prefix(prefix).and_then(|n| n.parse().ok());
    number("rocksdb.FixedPrefix.")
        .or_else(|| number("fixed:"))
        .map(fixed)
        .or_else(|| number("rocksdb.CappedPrefix.").or_else(|| number("capped:")).map(capped))
}
