//! Sums over all families: the worst stall, the debt of compactions, and the thresholds that the
//! oldest snapshot must pass before a compaction is worthwhile.
//!
//! In: a family's share, whenever it changes. Out: the sums. An update takes time logarithmic in
//! the number of families.
//!
//! Invariant: the sums are those of each family's last share from `set`.

use crate::observe::WriteStallCondition;
use esker_base::{ColumnFamilyId, SequenceNumber};
use hashbrown::HashMap;
use std::collections::BTreeSet;

/// The share of one family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    pub(crate) condition: WriteStallCondition,
    /// Bytes that compactions have to write.
    pub(crate) debt: u64,
    /// Whether automatic compactions are behind.
    pub(crate) is_pressed: bool,
    /// Once the oldest snapshot is newer than this, an automatic compaction is worthwhile.
    pub(crate) threshold: SequenceNumber,
}

/// The sums over all families. Guarded by the db mutex.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    shares: HashMap<ColumnFamilyId, Share>,
    normal: usize,
    delayed: usize,
    stopped: usize,
    pressed: usize,
    debt: u128,
    /// The thresholds of families that have one.
    thresholds: BTreeSet<(SequenceNumber, ColumnFamilyId)>,
}

impl Totals {
    /// Replaces the share of a family; `None`: it was dropped.
    pub(crate) fn set(&mut self, id: ColumnFamilyId, share: Option<Share>) {
        let before = match share {
            Some(share) => self.shares.insert(id, share),
            None => self.shares.remove(&id),
        };
        if before == share {
            return;
        }
        if let Some(before) = before {
            *self.families_in(before.condition) -= 1;
            self.pressed -= usize::from(before.is_pressed);
            self.debt -= u128::from(before.debt);
            self.thresholds.remove(&(before.threshold, id));
        }
        if let Some(share) = share {
            *self.families_in(share.condition) += 1;
            self.pressed += usize::from(share.is_pressed);
            self.debt += u128::from(share.debt);
            if share.threshold != SequenceNumber::MAX {
                self.thresholds.insert((share.threshold, id));
            }
        }
    }

    fn families_in(&mut self, condition: WriteStallCondition) -> &mut usize {
        match condition {
            WriteStallCondition::Stopped => &mut self.stopped,
            WriteStallCondition::Delayed => &mut self.delayed,
            WriteStallCondition::Normal => &mut self.normal,
        }
    }

    /// The worst condition of any family.
    pub(crate) fn condition(&self) -> WriteStallCondition {
        match (self.stopped, self.delayed) {
            (0, 0) => WriteStallCondition::Normal,
            (0, _) => WriteStallCondition::Delayed,
            _ => WriteStallCondition::Stopped,
        }
    }

    pub(crate) fn debt(&self) -> u64 {
        u64::try_from(self.debt).unwrap_or(u64::MAX)
    }

    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed > 0
    }

    /// The lowest threshold of any family.
    pub(crate) fn lowest_threshold(&self) -> SequenceNumber {
        self.thresholds.first().map_or(SequenceNumber::MAX, |(threshold, _)| *threshold)
    }

    /// Families for which a compaction is worthwhile if the oldest snapshot is `oldest`.
    pub(crate) fn waiting_for_snapshots(&self, oldest: SequenceNumber) -> Vec<ColumnFamilyId> {
        self.thresholds.range(..(oldest, ColumnFamilyId(0))).map(|(_, id)| *id).collect()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use WriteStallCondition::{Delayed, Normal, Stopped};

    #[test]
    fn the_sums_are_those_of_the_shares() {
        let (mut totals, mut shares) = (Totals::default(), std::collections::BTreeMap::new());
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..10_000 {
            let id = ColumnFamilyId(random.u32(0..8));
            let share = (random.u8(0..4) > 0).then(|| Share {
                condition: [Normal, Delayed, Stopped][random.usize(0..3)],
                debt: random.u64(0..=3) * (u64::MAX / 4),
                is_pressed: random.u8(0..8) == 0,
                threshold: [SequenceNumber(random.u64(0..5)), SequenceNumber::MAX][random.usize(0..2)],
            });
            totals.set(id, share);
            match share {
                Some(share) => shares.insert(id, share),
                None => shares.remove(&id),
            };
            let any = |condition| shares.values().any(|s| s.condition == condition);
            let worst = if any(Stopped) {
                Stopped
            } else if any(Delayed) {
                Delayed
            } else {
                Normal
            };
            assert_eq!(totals.condition(), worst);
            assert_eq!(totals.debt(), shares.values().fold(0, |sum: u64, s| sum.saturating_add(s.debt)));
            assert_eq!(totals.is_pressed(), shares.values().any(|s| s.is_pressed));
            let lowest = shares.values().map(|s| s.threshold).min().unwrap_or(SequenceNumber::MAX);
            assert_eq!(totals.lowest_threshold(), lowest);
            let mut waiting = totals.waiting_for_snapshots(SequenceNumber(3));
            waiting.sort_unstable();
            let below = shares.iter().filter(|(_, s)| s.threshold < SequenceNumber(3));
            assert_eq!(waiting, below.map(|(id, _)| *id).collect::<Vec<_>>());
        }
    }
}
