//! Decides where the outputs of a compaction end.
//!
//! In: the keys of an output in order, and the output's size so far. Out: whether the output should
//! end before a key. An output ends at its target size, but preferably at the border of a
//! grandparent: a file of the level below the output level. An output that ends there overlaps
//! fewer grandparents, so the next compaction down reads less.
//! Source: RocksDB `db/compaction/compaction_outputs.cc` (`ShouldStopBefore`).

use crate::picker::CompactionPlan;
use crate::picker::inputs::compare_bounds;
use crate::version::FileMeta;
use esker_base::sync::Arc;
use esker_format::key::InternalKeyComparator;

/// Decides where outputs end. One per subcompaction.
#[derive(Debug)]
pub(crate) struct OutputCutter {
    icmp: InternalKeyComparator,
    grandparents: Vec<Arc<FileMeta>>,
    target_file_size: u64,
    max_output_file_size: u64,
    max_compaction_bytes: u64,
    is_level0: bool,
    /// The grandparent in which the last key lies or, if `in_gap`, the one behind it.
    index: usize,
    in_gap: bool,
    seen_key: bool,
    /// Bytes of the grandparents that the current output overlaps.
    overlapped_bytes: u64,
    /// Borders of grandparents that the current output crosses.
    borders: u64,
}

impl OutputCutter {
    /// A cutter for a plan's outputs.
    pub(crate) fn new(plan: &CompactionPlan) -> OutputCutter {
        OutputCutter {
            icmp: plan.version.icmp().clone(),
            grandparents: plan.grandparents.clone(),
            target_file_size: plan.target_file_size,
            max_output_file_size: plan.max_output_file_size,
            max_compaction_bytes: plan.max_compaction_bytes,
            is_level0: plan.output_level == 0,
            index: 0,
            in_gap: true,
            seen_key: false,
            overlapped_bytes: 0,
            borders: 0,
        }
    }

    /// Whether the open output of `output_bytes` should end before `internal_key`. Call it for
    /// every key in order, or for the first of every user key if outputs may end only there.
    /// Without an open output (`None`) the answer is no. After a yes the cutter continues with a
    /// fresh output that begins with the key.
    #[inline]
    pub(crate) fn should_stop_before(&mut self, internal_key: &[u8], output_bytes: Option<u64>) -> bool {
        if self.is_level0 {
            return false;
        }
        if self.grandparents.is_empty() {
            return output_bytes.is_some_and(|b| b >= self.max_output_file_size);
        }
        let before = self.overlapped_bytes;
        let crossed = self.advance(internal_key);
        let stop = output_bytes.is_some_and(|bytes| self.is_good_end(bytes, crossed, before));
        if stop {
            self.begin_output(internal_key);
        }
        stop
    }

    /// Continues with a fresh output that begins with the key. REQUIRES: the last
    /// `should_stop_before` was about this key.
    pub(crate) fn begin_output(&mut self, internal_key: &[u8]) {
        self.borders = 0;
        self.overlapped_bytes = self.overlapped_by(internal_key);
    }

    /// Advances to the key; returns how many borders lie before it.
    fn advance(&mut self, key: &[u8]) -> u64 {
        let mut crossed = 0;
        while let Some(grandparent) = self.grandparents.get(self.index) {
            if self.in_gap {
                if compare_bounds(&self.icmp, key, &grandparent.smallest).is_lt() {
                    break;
                }
                if self.seen_key {
                    crossed += 1;
                    self.overlapped_bytes += grandparent.file_size;
                }
                self.in_gap = false;
            } else {
                if !self.is_beyond(key, grandparent) {
                    break;
                }
                crossed += u64::from(self.seen_key);
                self.in_gap = true;
                self.index += 1;
            }
        }
        if !self.seen_key {
            self.overlapped_bytes = self.overlapped_by(key);
            self.seen_key = true;
        }
        self.borders += crossed;
        crossed
    }

    /// Whether the key lies behind the grandparent. A key with the grandparent's last user key
    /// counts as behind if the next grandparent begins with the same user key.
    fn is_beyond(&self, key: &[u8], grandparent: &FileMeta) -> bool {
        match compare_bounds(&self.icmp, key, &grandparent.largest) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Equal => self
                .grandparents
                .get(self.index + 1)
                .is_some_and(|next| compare_bounds(&self.icmp, key, &next.smallest).is_ge()),
        }
    }

    /// Bytes of the grandparents that hold the key.
    fn overlapped_by(&self, key: &[u8]) -> u64 {
        if self.in_gap || self.index >= self.grandparents.len() {
            return 0;
        }
        let holds = |g: &&Arc<FileMeta>| compare_bounds(&self.icmp, key, &g.largest).is_eq();
        let before = self.grandparents[..self.index].iter().rev().take_while(holds);
        self.grandparents[self.index].file_size + before.map(|g| g.file_size).sum::<u64>()
    }

    fn is_good_end(&self, bytes: u64, crossed: u64, overlapped_before: u64) -> bool {
        if bytes >= self.max_output_file_size {
            return true;
        }
        if crossed == 0 {
            return false;
        }
        if self.overlapped_bytes.saturating_add(bytes) > self.max_compaction_bytes {
            return true;
        }
        // A whole, large grandparent lies between the last key and this one: later compactions need
        // not read it.
        let skips = crossed >= if self.in_gap { 2 } else { 3 };
        if skips && self.overlapped_bytes - overlapped_before > self.target_file_size / 8 {
            return true;
        }
        // A border ends an output from half the target size on. After many borders more will
        // follow, so the output may grow further.
        let percent = 50 + (self.borders * 5).min(40);
        bytes >= self.target_file_size.div_ceil(100).saturating_mul(percent)
    }
}
