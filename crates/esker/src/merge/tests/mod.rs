//! A small LSM tree without files. The code of this module writes, flushes and compacts random
//! histories. After each change a scan at every live snapshot is compared with a model.
//!
//! `ESKER_ITER_HISTORIES` sets the number of histories, `ESKER_ITER_SEED` the seed of the first. A
//! failure names its seed.

pub(crate) mod blobs;
mod lsm;
mod model;
pub(crate) mod script;
mod walk;

use super::timestamps::{PaddedIter, TimestampsDropped};
use esker_base::comparator::{
    BytewiseComparator, BytewiseComparatorWithU64Ts, Comparator, ComparatorRef, ReverseBytewiseComparator,
};
use esker_base::merge_operator::AssociativeMergeOperator;
use esker_base::sync::Arc;
use esker_format::cursor::{ScanIterator, ScanProgress};
use esker_format::key::InternalKeyComparator;
use std::cmp::Ordering;

/// A bytewise order that the engine does not recognise as such.
struct Unknown;
impl Comparator for Unknown {
    fn name(&self) -> &str {
        "test.Unknown"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
}

/// A merge operator that appends operands, with a comma between them.
struct Append;
impl AssociativeMergeOperator for Append {
    fn name(&self) -> &str {
        "test.Append"
    }
    fn merge(&self, _key: &[u8], existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        Some(match existing {
            Some(existing) => [existing, operand].join(&b','),
            None => operand.to_vec(),
        })
    }
}

fn comparator(choice: usize) -> InternalKeyComparator {
    let user: ComparatorRef = match choice % 4 {
        0 => Arc::new(ReverseBytewiseComparator),
        1 => Arc::new(Unknown),
        _ => Arc::new(BytewiseComparator),
    };
    InternalKeyComparator::new(user)
}

fn env_number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Runs `test` with `histories` seeds; says which one failed.
fn for_seeds(name: &str, histories: u64, test: impl Fn(u64)) {
    let first = env_number("ESKER_ITER_SEED", 1);
    for seed in first..first + env_number("ESKER_ITER_HISTORIES", histories) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(seed)));
        if let Err(panic) = outcome {
            println!("{name}: failed with ESKER_ITER_SEED={seed} ESKER_ITER_HISTORIES=1");
            std::panic::resume_unwind(panic);
        }
    }
}

/// A level hands each file the progress of its scan, so that long scans stop filling the block
/// cache. Each wrapper of a file's cursor must pass it on.
#[test]
fn wrappers_hand_on_how_far_their_scan_has_come() {
    let icmp = InternalKeyComparator::new(Arc::new(BytewiseComparatorWithU64Ts));
    let far = ScanProgress { bytes: 7, read_bytes: 5 };
    let mut padded = PaddedIter::new(script::run(&[]), &icmp);
    padded.continue_from(far);
    let mut dropped = TimestampsDropped::new(script::run(&[]), &icmp);
    dropped.continue_from(far);
    assert_eq!((padded.progress(), dropped.progress()), (far, far));
}

#[test]
fn every_snapshot_sees_the_same_before_and_after_each_change() {
    let steps = std::cell::Cell::new(0);
    for_seeds("lsm", 20, |seed| steps.set(steps.get() + walk::live_through(seed)));
    let skips = walk::SKIPS.load(std::sync::atomic::Ordering::Relaxed);
    println!("{} cursor steps compared, {skips} skips", steps.get());
    assert!(skips > 0, "runs of deleted keys are skipped");
}
