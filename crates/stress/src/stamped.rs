//! Comparators of keys that end in a timestamp, in any of the formats that the test kit has.

use esker::comparator::{Comparator, ComparatorRef};
use esker_testkit::timestamps::TimestampFormat;
use std::cmp::Ordering;
use std::sync::Arc;

/// Orders keys by their bytes, then timestamps of `format`, newest first.
pub fn comparator(format: TimestampFormat) -> ComparatorRef {
    Arc::new(KeysAndStamps { format, is_stamped: true })
}

struct KeysAndStamps {
    format: TimestampFormat,
    /// False: it compares keys without their timestamps.
    is_stamped: bool,
}

impl Comparator for KeysAndStamps {
    fn name(&self) -> &str {
        "esker.stress.KeysAndStamps"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.is_stamped { self.format.compare(a, b) } else { a.cmp(b) }
    }

    fn timestamp_size(&self) -> usize {
        if self.is_stamped { self.format.bytes() } else { 0 }
    }

    fn without_timestamp(&self) -> Option<ComparatorRef> {
        Some(Arc::new(KeysAndStamps { format: self.format, is_stamped: false }))
    }

    fn min_timestamp(&self) -> Vec<u8> {
        self.format.ends().map_or_else(|| self.format.timestamp(0), |[min, _]| min)
    }

    fn max_timestamp(&self) -> Vec<u8> {
        self.format.ends().map_or_else(|| self.format.timestamp(u64::MAX), |[_, max]| max)
    }
}
