//! Every version of every key, by sequence number.

use crate::model::families::ModelFamilySpec;
use esker::internals::base::sync::{Mutex, MutexGuard};
use std::sync::Arc;

pub(super) type ScanValue = Arc<[u8]>;

/// The effect of a write on a key.
#[derive(Clone, Debug)]
pub(super) enum ScanChange {
    Value(ScanValue),
    Gone,
    Operand(ScanValue),
}

/// Versions of one key, ascending by sequence number.
type Versions = Mutex<Vec<(u64, ScanChange)>>;

/// The versions of all keys of all families.
pub(super) struct ScanHistory {
    families: Vec<Vec<Versions>>,
}

impl ScanHistory {
    pub(super) fn new(specs: &[ModelFamilySpec]) -> ScanHistory {
        let family = |spec: &ModelFamilySpec| spec.keys.iter().map(|_| Versions::default()).collect();
        ScanHistory { families: specs.iter().map(family).collect() }
    }

    pub(super) fn add(&self, family: usize, index: usize, sequence: u64, change: ScanChange) {
        let mut versions = self.versions(family, index);
        let at = versions.partition_point(|(of, _)| *of <= sequence);
        versions.insert(at, (sequence, change));
    }

    fn versions(&self, family: usize, index: usize) -> MutexGuard<'_, Vec<(u64, ScanChange)>> {
        self.families[family][index].lock()
    }

    /// The value of a key at `sequence`.
    pub(super) fn value_at(
        &self,
        spec: &ModelFamilySpec,
        family: usize,
        index: usize,
        sequence: u64,
    ) -> Option<ScanValue> {
        let versions = self.versions(family, index);
        let end = versions.partition_point(|(of, _)| *of <= sequence);
        let is_base = |(_, change): &(u64, ScanChange)| !matches!(change, ScanChange::Operand(_));
        let start = versions[..end].iter().rposition(is_base).unwrap_or(0);
        let mut value: Option<ScanValue> = None;
        for (_, change) in &versions[start..end] {
            value = match change {
                ScanChange::Value(new) => Some(new.clone()),
                ScanChange::Gone => None,
                ScanChange::Operand(operand) => Some(spec.merge.apply(value.as_deref(), operand).into()),
            };
        }
        value
    }

    /// The last versions of a key, for the report.
    pub(super) fn describe(&self, family: usize, index: usize) -> String {
        let versions = self.versions(family, index);
        let from = versions.len().saturating_sub(12);
        let describe = |(sequence, change): &(u64, ScanChange)| match change {
            ScanChange::Value(value) => format!("{sequence}: put {}", value.escape_ascii()),
            ScanChange::Gone => format!("{sequence}: deleted"),
            ScanChange::Operand(value) => format!("{sequence}: merge {}", value.escape_ascii()),
        };
        versions[from..].iter().map(describe).collect::<Vec<_>>().join(", ")
    }
}
