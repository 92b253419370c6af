//! Which files are being compacted, and which key ranges of a level will be written.
//!
//! One per family, guarded by the db mutex: a picker reads it, and whoever starts or ends a compaction changes it.
//!
//! Invariants
//!  1. No file is an input of two running plans.
//!  2. No two running plans write overlapping user-key ranges of one level below 0.

use super::CompactionPlan;
use esker_base::FileNumber;
use esker_format::key::InternalKeyComparator;
use std::collections::HashSet;

/// The compactions of one family that were picked and have not ended.
#[derive(Debug, Default)]
pub struct RunningCompactions {
    busy: HashSet<FileNumber>,
    plans: Vec<Running>,
    next_id: u64,
}

#[derive(Debug)]
struct Running {
    id: u64,
    start_level: usize,
    output_level: usize,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    files: Vec<FileNumber>,
}

/// Names a running compaction until it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunningId(u64);

impl RunningCompactions {
    /// Marks a plan as running. Call it under the same hold of the db mutex under which the plan was picked.
    pub fn start(&mut self, plan: &CompactionPlan) -> RunningId {
        let id = self.next_id;
        self.next_id += 1;
        let files: Vec<FileNumber> = plan.input_files().map(|(_, f)| f.number).collect();
        for &n in &files {
            let fresh = self.busy.insert(n);
            debug_assert!(fresh, "file {n} is in two compactions");
        }
        self.plans.push(Running {
            id,
            start_level: plan.start_level,
            output_level: plan.output_level,
            smallest: plan.smallest_user_key.clone(),
            largest: plan.largest_user_key.clone(),
            files,
        });
        RunningId(id)
    }

    /// The compaction ended, well or not.
    pub fn finish(&mut self, id: RunningId) {
        if let Some(i) = self.plans.iter().position(|p| p.id == id.0) {
            for n in self.plans.swap_remove(i).files {
                self.busy.remove(&n);
            }
        }
    }

    /// Whether the file is an input of a running compaction.
    #[inline]
    pub fn is_busy(&self, file: FileNumber) -> bool {
        !self.busy.is_empty() && self.busy.contains(&file)
    }

    /// How many run.
    pub fn len(&self) -> usize {
        self.plans.len()
    }

    /// Whether none runs.
    pub fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    /// Whether one that reads level 0 runs.
    pub fn reads_level0(&self) -> bool {
        self.plans.iter().any(|p| p.start_level == 0)
    }

    /// Whether one writes into `[smallest, largest]` (user keys) of the level.
    pub fn writes_into(
        &self,
        level: usize,
        smallest: &[u8],
        largest: &[u8],
        icmp: &InternalKeyComparator,
    ) -> bool {
        self.plans.iter().any(|p| {
            p.output_level == level
                && icmp.compare_plain_keys(&p.smallest, largest).is_le()
                && icmp.compare_plain_keys(smallest, &p.largest).is_le()
        })
    }
}
