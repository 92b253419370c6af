//! The files under compaction, the damaged files, and the key ranges into which compactions write.
//!
//! One per family, under the db mutex: a picker reads it, and every start or end of a compaction or
//! an ingestion changes it.
//!
//! Invariants
//!  1. No file is an input of two running plans.
//!  2. No two running plans write overlapping user-key ranges of one level below 0. A running
//!     ingestion counts as a plan without inputs. A plan that keeps young entries writes into two
//!     levels.
//!  3. A damaged file counts as an input of a compaction that never ends: no entries are merged
//!     past it.

use super::CompactionPlan;
use super::proximal::ProximalOutput;
use crate::version::FileMeta;
use esker_base::sync::Arc;
use esker_base::{Error, FileNumber};
use esker_format::key::InternalKeyComparator;
use std::collections::BTreeMap;

/// The compactions of one family that have been picked and have not ended.
#[derive(Debug, Default)]
pub(crate) struct RunningCompactions {
    /// The inputs of running plans, with their levels.
    busy: BTreeMap<FileNumber, (usize, Arc<FileMeta>)>,
    /// Damaged files with their errors. Some may have left the version.
    quarantined: BTreeMap<FileNumber, Error>,
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
    /// The range of a second level that the plan writes into.
    proximal: Option<ProximalOutput>,
    files: Vec<FileNumber>,
    sorted_runs: usize,
}

/// Names a running compaction until it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RunningId(u64);

impl RunningCompactions {
    /// Marks a plan as running. Call it under the same hold of the db mutex under which the plan
    /// was picked.
    pub(crate) fn start(&mut self, plan: &CompactionPlan) -> RunningId {
        let id = self.next_id;
        self.next_id += 1;
        let mut files = Vec::new();
        for (level, file) in plan.input_files() {
            let n = file.number;
            files.push(n);
            let other = self.busy.insert(n, (level, Arc::clone(file)));
            debug_assert!(other.is_none(), "file {n} is in two compactions");
            debug_assert!(
                plan.is_deletion || !self.quarantined.contains_key(&n),
                "the plan compacts the damaged file {n}"
            );
        }
        self.plans.push(Running {
            id,
            start_level: plan.start_level,
            output_level: plan.output_level,
            smallest: plan.smallest_user_key.clone(),
            largest: plan.largest_user_key.clone(),
            proximal: plan.proximal.clone(),
            files,
            sorted_runs: plan.inputs.iter().map(|of| if of.level == 0 { of.files.len() } else { 1 }).sum(),
        });
        RunningId(id)
    }

    /// Reserves these user keys of the level for an ingested file. No compaction writes there until
    /// the returned id is finished.
    pub(crate) fn reserve(&mut self, level: usize, smallest: &[u8], largest: &[u8]) -> RunningId {
        let id = self.next_id;
        self.next_id += 1;
        self.plans.push(Running {
            id,
            start_level: level,
            output_level: level,
            smallest: smallest.to_vec(),
            largest: largest.to_vec(),
            proximal: None,
            files: Vec::new(),
            sorted_runs: 0,
        });
        RunningId(id)
    }

    /// Holds these files, which an ingestion replaces. No compaction takes one of them until the
    /// returned id is finished.
    pub(crate) fn hold(&mut self, files: &[(usize, Arc<FileMeta>)]) -> RunningId {
        let id = self.next_id;
        self.next_id += 1;
        for (level, file) in files {
            let other = self.busy.insert(file.number, (*level, Arc::clone(file)));
            debug_assert!(other.is_none(), "file {} is in a compaction", file.number);
        }
        // No level is written: the new files' places are reserved one by one.
        self.plans.push(Running {
            id,
            start_level: 0,
            output_level: usize::MAX,
            smallest: Vec::new(),
            largest: Vec::new(),
            proximal: None,
            files: files.iter().map(|(_, file)| file.number).collect(),
            sorted_runs: 0,
        });
        RunningId(id)
    }

    /// Sorted runs that running compactions read.
    pub(crate) fn num_sorted_runs(&self) -> usize {
        self.plans.iter().map(|plan| plan.sorted_runs).sum()
    }

    /// Removes a compaction that has succeeded or failed. Cheap for the one that began last.
    pub(crate) fn finish(&mut self, id: RunningId) {
        if let Some(i) = self.plans.iter().rposition(|p| p.id == id.0) {
            for n in self.plans.swap_remove(i).files {
                self.busy.remove(&n);
            }
        }
    }

    /// Whether the file is an input of a running compaction, or quarantined.
    #[inline]
    pub(crate) fn is_busy(&self, file: FileNumber) -> bool {
        self.is_input(file) || self.is_quarantined(file)
    }

    /// Whether the file is an input of a running compaction.
    #[inline]
    pub(crate) fn is_input(&self, file: FileNumber) -> bool {
        !self.busy.is_empty() && self.busy.contains_key(&file)
    }

    /// The inputs of running compactions that are on this level.
    pub(crate) fn inputs_of_level(&self, level: usize) -> impl Iterator<Item = &FileMeta> {
        self.busy.values().filter(move |(at, _)| *at == level).map(|(_, file)| &**file)
    }

    /// Whether there are quarantined files.
    pub(crate) fn has_quarantined(&self) -> bool {
        !self.quarantined.is_empty()
    }

    /// Whether the file is quarantined.
    #[inline]
    pub(crate) fn is_quarantined(&self, file: FileNumber) -> bool {
        !self.quarantined.is_empty() && self.quarantined.contains_key(&file)
    }

    /// Quarantines a damaged file: no compaction reads it from now on.
    pub(crate) fn quarantine(&mut self, file: FileNumber, why: Error) {
        self.quarantined.insert(file, why);
    }

    /// The quarantined files with their errors.
    pub(crate) fn all_quarantined(&self) -> impl Iterator<Item = (FileNumber, &Error)> {
        self.quarantined.iter().map(|(number, why)| (*number, why))
    }

    /// Ends the quarantine of all files. Returns whether there were any.
    pub(crate) fn forget_quarantined(&mut self) -> bool {
        !std::mem::take(&mut self.quarantined).is_empty()
    }

    /// A copy with the quarantined files only; `None` if there are none.
    pub(crate) fn without_plans(&self) -> Option<RunningCompactions> {
        let quarantined = self.quarantined.clone();
        (!quarantined.is_empty()).then(|| RunningCompactions { quarantined, ..RunningCompactions::default() })
    }

    /// Whether no compaction runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    /// Whether a running compaction reads level 0.
    pub(crate) fn reads_level0(&self) -> bool {
        self.plans.iter().any(|p| p.start_level == 0)
    }

    /// Whether a running compaction writes into `[smallest, largest]` (user keys) of the level.
    pub(crate) fn writes_into(
        &self,
        level: usize,
        smallest: &[u8],
        largest: &[u8],
        icmp: &InternalKeyComparator,
    ) -> bool {
        let overlaps = |first: &[u8], last: &[u8]| {
            icmp.compare_plain_keys(first, largest).is_le() && icmp.compare_plain_keys(smallest, last).is_le()
        };
        self.plans.iter().any(|p| {
            let proximal = p.proximal.as_ref().filter(|place| place.level == level);
            p.output_level == level && overlaps(&p.smallest, &p.largest)
                || proximal.is_some_and(|place| overlaps(&place.smallest, &place.largest))
        })
    }
}
