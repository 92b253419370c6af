//! The threads campaign, for seconds.

use esker_stress::threads::{ThreadParameters, run};

#[test]
fn writers_and_readers_agree_at_every_point_in_time() {
    let report = run(&ThreadParameters::default()).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.batches > 100, "{report}");
    assert!(report.checks > 100, "{report}");
    assert!(report.maintenance > 5, "{report}");
}
