//! The campaign of the change stream, for seconds.

use esker_stress::following::{FollowingParameters, run};
use esker_testkit::seed::for_each_seed;

#[test]
fn a_follower_gets_each_batch_once_through_crashes_of_both_sides() {
    for_each_seed("changes", 1, |seed, _| {
        let parameters = FollowingParameters { seed: seed >> 24, batches: 8_000, verbose: false };
        let report = run(&parameters).unwrap_or_else(|why| panic!("{why}"));
        assert!(report.kills > 2 && report.power_losses > 2 && report.follower_crashes > 2, "{report}");
        assert!(report.two_phase > 20 && report.concurrent > 100 && report.compared > 5, "{report}");
    });
}
