//! The simulated machine, for seconds: `RUSTFLAGS="--cfg shuttle" cargo test -p esker-stress --
//! shuttle`.

use esker_stress::sim::{SimParameters, run};

#[test]
fn shuttle_machines_lose_nothing_and_repeat_themselves() {
    let parameters = SimParameters {
        seed: 1,
        cycles: 400,
        per_machine: 20,
        max_batches: u32::MAX,
        trouble: true,
        twice: true,
        limit: None,
        verbose: false,
    };
    let report = run(&parameters).unwrap_or_else(|why| panic!("{why}"));
    assert!(report.machines >= 15 && report.crashes.kills > 50, "{report}");
}
