//! The kill -9 campaign, for seconds.

use esker_stress::kill9::{Kill9Parameters, run};
use esker_testkit::TempDir;
use std::path::Path;

#[test]
fn everything_acknowledged_is_there_after_kill_9() {
    let dir = TempDir::new("kill9");
    let report = run(&Kill9Parameters {
        program: Path::new(env!("CARGO_BIN_EXE_esker-stress")),
        directory: &dir.join("db"),
        rounds: 5,
        threads: 4,
        max_millis: 700,
        seed: 1,
        verbose: false,
    });
    let report = report.unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(report.kills, 5);
    assert!(report.acknowledged > 0, "{report}");
}
