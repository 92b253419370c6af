//! The campaign of scans, for seconds.

use esker_stress::scans::{ScanParameters, run};

#[test]
fn scans_beside_writers_show_what_their_point_in_time_has() {
    let report = run(&ScanParameters::default()).unwrap_or_else(|difference| panic!("{difference}"));
    assert!(report.comparisons > 0 && report.writes > 0, "{report}");
}
