//! The faults campaign, for seconds.

use esker_stress::faults::{Parameters, run};

#[test]
fn no_failing_file_operation_loses_a_write_or_goes_unnoticed() {
    let report = run(&Parameters { seed: 5, step: 61, verbose: false }).unwrap_or_else(|why| panic!("{why}"));
    assert!(report.fired > 20 && report.surfaced > 10 && report.flips > 4, "{report}");
}
