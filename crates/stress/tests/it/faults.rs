//! The faults campaign, for seconds.

use esker_stress::faults::{Fault, FaultParameters, run};

#[test]
fn no_failing_file_operation_loses_a_write_or_goes_unnoticed() {
    let faults = Fault::ALL.to_vec();
    let parameters = FaultParameters {
        seed: 5,
        step: 61,
        faults,
        script: None,
        at: None,
        bit_flips: true,
        verbose: false,
    };
    let report = run(&parameters).unwrap_or_else(|why| panic!("{why}"));
    let (fired, surfaced) = (report.total(|counts| counts.fired), report.total(|counts| counts.surfaced));
    assert!(fired > 20 && surfaced > 10 && report.flips > 4, "{report}");
}
