//! Long histories with crashes, shortened.

use esker_stress::histories::{HistoryParameters, run};

#[test]
fn acknowledged_writes_outlive_repeated_crashes() {
    let parameters = HistoryParameters {
        seed: 1,
        histories: 3,
        operations: 400,
        crashes: 6,
        ..HistoryParameters::default()
    };
    let report = run(&parameters).unwrap_or_else(|why| panic!("{why}"));
    assert!(report.histories == 3 && report.crashes >= 18, "{report}");
}

#[cfg(shuttle)]
#[test]
fn shuttle_histories_repeat_themselves() {
    let parameters =
        HistoryParameters { seed: 11, histories: 4, twice: true, ..HistoryParameters::default() };
    run(&parameters).unwrap_or_else(|why| panic!("{why}"));
}
