//! The campaign of hostile surroundings, each circumstance once.

use esker_stress::hostile::{Circumstance, HostileParameters, run};
use esker_testkit::TempDir;
use std::path::Path;

#[test]
fn each_circumstance_leaves_what_was_acknowledged_and_lets_work_go_on() {
    let dir = TempDir::new("hostile");
    let report = run(&HostileParameters {
        program: Path::new(env!("CARGO_BIN_EXE_esker-stress")),
        directory: dir.path(),
        seed: 1,
        trials: Circumstance::ALL.len() as u64,
        only: Vec::new(),
        verbose: false,
    });
    let report = report.unwrap_or_else(|why| panic!("{why}"));
    let trials: u64 = report.trials.values().sum();
    assert_eq!(trials, Circumstance::ALL.len() as u64);
    // Some must have been felt.
    assert!(report.met >= 3, "{report}");
}
