//! Every version of every key, by sequence number.

use crate::model::families::FamilySpec;
use esker::internals::base::sync::{Mutex, MutexGuard};
use std::sync::Arc;

pub(super) type Value = Arc<[u8]>;

/// What a write does to a key.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Value(Value),
    Gone,
    Operand(Value),
}

/// Of one key, ascending.
type Versions = Mutex<Vec<(u64, Change)>>;

/// The versions of all keys of all families.
pub(super) struct History {
    families: Vec<Vec<Versions>>,
}

impl History {
    pub(super) fn new(specs: &[FamilySpec]) -> History {
        let family = |spec: &FamilySpec| spec.keys.iter().map(|_| Versions::default()).collect();
        History { families: specs.iter().map(family).collect() }
    }

    pub(super) fn add(&self, family: usize, index: usize, sequence: u64, change: Change) {
        let mut versions = self.versions(family, index);
        let at = versions.partition_point(|(of, _)| *of <= sequence);
        versions.insert(at, (sequence, change));
    }

    fn versions(&self, family: usize, index: usize) -> MutexGuard<'_, Vec<(u64, Change)>> {
        self.families[family][index].lock()
    }

    /// What is there at `sequence`.
    pub(super) fn value_at(
        &self,
        spec: &FamilySpec,
        family: usize,
        index: usize,
        sequence: u64,
    ) -> Option<Value> {
        let versions = self.versions(family, index);
        let end = versions.partition_point(|(of, _)| *of <= sequence);
        let is_base = |(_, change): &(u64, Change)| !matches!(change, Change::Operand(_));
        let start = versions[..end].iter().rposition(is_base).unwrap_or(0);
        let mut value: Option<Value> = None;
        for (_, change) in &versions[start..end] {
            value = match change {
                Change::Value(new) => Some(new.clone()),
                Change::Gone => None,
                Change::Operand(operand) => Some(spec.merge.apply(value.as_deref(), operand).into()),
            };
        }
        value
    }

    /// The last versions of a key, for the report.
    pub(super) fn tell(&self, family: usize, index: usize) -> String {
        let versions = self.versions(family, index);
        let from = versions.len().saturating_sub(12);
        let tell = |(sequence, change): &(u64, Change)| match change {
            Change::Value(value) => format!("{sequence}: put {}", value.escape_ascii()),
            Change::Gone => format!("{sequence}: deleted"),
            Change::Operand(value) => format!("{sequence}: merge {}", value.escape_ascii()),
        };
        versions[from..].iter().map(tell).collect::<Vec<_>>().join(", ")
    }
}
