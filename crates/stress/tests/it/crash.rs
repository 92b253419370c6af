//! The crash campaign, for seconds.

use esker_stress::crash::{CrashParameters, CrashReport, run};
use esker_testkit::seed::for_each_seed;

fn campaign(seed: u64, #[cfg(feature = "encryption")] encrypted: bool) -> CrashReport {
    run(&CrashParameters {
        seed: seed >> 24, // batches are numbered behind it
        points: 250,
        verbose: false,
        brief: false,
        max_batches: u32::MAX,
        trouble: false,
        #[cfg(feature = "encryption")]
        encrypted,
    })
    .unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn every_crash_leaves_a_prefix_with_all_that_was_promised() {
    for_each_seed("crash", 1, |seed, _| {
        let report = campaign(
            seed,
            #[cfg(feature = "encryption")]
            false,
        );
        // The last run ends its recoveries, and crashes in them, too.
        assert!(report.points >= 250, "{report}");
        assert!(report.kills > 25 && report.batches > 500, "{report}");
    });
}

#[cfg(feature = "encryption")]
#[test]
fn every_crash_of_an_encrypted_database_leaves_a_prefix_with_all_that_was_promised() {
    for_each_seed("encrypted crash", 1, |seed, _| {
        let report = campaign(seed, true);
        assert!(report.points >= 250, "{report}");
        assert!(report.kills > 25 && report.batches > 500, "{report}");
    });
}
