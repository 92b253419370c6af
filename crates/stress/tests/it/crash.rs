//! The crash campaign, for seconds.

use esker_stress::crash::{CrashParameters, run};
use esker_testkit::seed::for_each_seed;

#[test]
fn every_crash_leaves_a_prefix_with_all_that_was_promised() {
    for_each_seed("crash", 1, |seed, _| {
        let seed = seed >> 24; // batches are numbered behind it
        let report = run(&CrashParameters {
            seed,
            points: 250,
            verbose: false,
            brief: false,
            max_batches: u32::MAX,
            trouble: false,
        })
        .unwrap_or_else(|why| panic!("{why}"));
        // The last run ends its recoveries, and crashes in them, too.
        assert!(report.points >= 250, "{report}");
        assert!(report.kills > 25 && report.batches > 500, "{report}");
    });
}
