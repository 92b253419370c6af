//! The rare paths that a campaign reaches. A campaign fails if it misses a path of its list.
//!
//! In: the name of a campaign that has ended, and the counts of `probe!`. Out: the counts as text,
//! or the points that the campaign should have passed and did not.
//!
//! A new point goes into `EXPECTED` for each campaign whose short form passes it. If a change of
//! the engine makes a point unreachable, that change removes it here.

use esker::internals::base::probe;
use std::collections::BTreeMap;

/// The points that each campaign passes in a minute or less.
const EXPECTED: &[(&str, &[&str])] = &[
    (
        "model",
        &[
            "MemTable::protect",
            "compaction:begun",
            "compaction:trivial_move",
            "iter:exchange",
            "iter:skip",
            "manifest:fresh",
            "read:suspended",
            "read:suspended_batch",
        ],
    ),
    (
        "metamorphic",
        &[
            "MemTable::protect",
            "compaction:begun",
            "compaction:trivial_move",
            "iter:exchange",
            "iter:skip",
            "manifest:fresh",
            "read:suspended",
            "read:suspended_batch",
        ],
    ),
    (
        "threads",
        &["compaction:begun", "iter:exchange", "manifest:fresh", "read:suspended", "write:led_for_others"],
    ),
    (
        "scan-threads",
        &["MemTable::protect", "compaction:begun", "iter:exchange", "iter:skip", "manifest:fresh"],
    ),
    ("crash", &["compaction:begun", "compaction:trivial_move", "manifest:fresh"]),
    ("changes", &["compaction:begun", "manifest:fresh"]),
    (
        "faults",
        &[
            "background_error:set",
            "compaction:begun",
            "compaction:failed",
            "manifest:fresh",
            "manifest:write_failed",
            "read:suspended",
            "resume:begun",
        ],
    ),
    // The simulated machine, in which the disk fails and time passes.
    #[cfg(shuttle)]
    (
        "histories",
        &[
            "auto_resume:attempt",
            "background_error:set",
            "compaction:due_by_time",
            "compaction:failed",
            "manifest:write_failed",
            "rate_limiter:waited",
            "resume:begun",
            "timer:called",
            "write:delayed",
        ],
    ),
    (
        "db_stress",
        &["compaction:begun", "iter:skip", "manifest:fresh", "read:suspended", "write:led_for_others"],
    ),
];

/// Begins to count.
pub fn begin() {
    probe::count_passes();
}

/// Checks that each point in the campaign's list was passed. Returns all counts as text.
/// # Errors
/// The points that were not passed, and the counts.
pub fn check(campaign: &str) -> Result<String, String> {
    compare(campaign, &probe::passes())
}

fn compare(campaign: &str, passes: &BTreeMap<String, u64>) -> Result<String, String> {
    let counts: Vec<String> = passes.iter().map(|(point, n)| format!("{point} {n}")).collect();
    let text = format!("probes: {}", counts.join(", "));
    let expected = EXPECTED.iter().find(|(name, _)| *name == campaign).map_or(&[][..], |(_, points)| points);
    let missed: Vec<&str> = expected.iter().copied().filter(|point| !passes.contains_key(*point)).collect();
    if missed.is_empty() {
        return Ok(text);
    }
    Err(format!("{campaign}: does not reach {} any more\n{text}", missed.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_that_is_not_passed_is_named() {
        let (campaign, points) = EXPECTED[0];
        let all: BTreeMap<String, u64> = points.iter().map(|p| ((*p).to_owned(), 3)).collect();
        assert!(compare(campaign, &all).is_ok_and(|text| text.contains(points[0])));
        let mut fewer = all.clone();
        fewer.remove(points[0]);
        assert!(compare(campaign, &fewer).is_err_and(|why| why.contains(points[0])));
        assert!(compare("unknown", &BTreeMap::new()).is_ok());
    }
}
