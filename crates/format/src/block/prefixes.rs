//! The first bytes of restart keys in one array: a search in a large index touches few cache lines.
//!
//! A binary search in the block itself touches two distant lines for each step: the restart offset
//! and the key. Eight bytes of each key (behind the common prefix) decide nearly all steps; 16,384
//! keys take 128 KiB. Used for keys in bytewise order only.

use esker_base::comparator::head;

/// Words in a group: eight cache lines. A search finds the group by its first word, and then
/// searches the group.
const GROUP: usize = 64;

/// Eight bytes of each restart's user key.
#[derive(Debug)]
pub(crate) struct RestartPrefixes {
    /// The common prefix of all keys.
    common: Vec<u8>,
    /// The bytes of each key behind the common prefix, big-endian, padded with zeros. Ascending.
    words: Vec<u64>,
    /// The first word of each `GROUP`. These words stay in the first-level cache.
    tops: Vec<u64>,
}

impl RestartPrefixes {
    /// Builds the array. `key` gives the user key of a restart without `prefix`, with which all
    /// these keys begin. `None` if there are too few keys, or they do not ascend.
    pub(crate) fn build<'a>(
        count: u32,
        prefix: &[u8],
        key: impl Fn(u32) -> Option<&'a [u8]>,
    ) -> Option<RestartPrefixes> {
        if count < 8 {
            return None;
        }
        let (first, last) = (key(0)?, key(count - 1)?);
        let common = first.get(..super::common_prefix(first, last))?;
        let words: Option<Vec<u64>> = (0..count)
            .map(|i| key(i).filter(|k| k.starts_with(common)).map(|k| head(k, common.len())))
            .collect();
        let words = words.filter(|w| w.is_sorted())?;
        let tops = words.iter().step_by(GROUP).copied().collect();
        Some(RestartPrefixes { common: [prefix, common].concat(), words, tops })
    }

    /// Restart numbers (low, high): restarts below `low` are before `target`, those from `high` on
    /// are not. The caller compares those between.
    #[inline]
    pub(crate) fn narrow(&self, target: &[u8]) -> (usize, usize) {
        if target.starts_with(&self.common) {
            let word = head(target, self.common.len());
            let low = self.first_not_below(word);
            // Counts ties one by one, because there are few or none: a binary search took more than
            // half of a seek.
            let ties = self.words.get(low..).unwrap_or_default();
            return (low, low + ties.iter().take_while(|w| **w == word).count());
        }
        if target < self.common.as_slice() { (0, 0) } else { (self.words.len(), self.words.len()) }
    }

    /// Number of words below `word`.
    #[inline]
    fn first_not_below(&self, word: u64) -> usize {
        let group = self.tops.partition_point(|w| *w < word).saturating_sub(1) * GROUP;
        let rest = self.words.get(group..).unwrap_or_default();
        let words = rest.get(..GROUP).unwrap_or(rest);
        group + words.partition_point(|w| *w < word)
    }

    /// Bytes of memory in use.
    pub(crate) fn memory_usage(&self) -> usize {
        self.common.len() + 8 * (self.words.len() + self.tops.len())
    }
}
