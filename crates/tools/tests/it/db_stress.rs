//! `esker db_stress` and `esker db_crashtest` from outside: their campaigns are tested in
//! `crates/stress`.

use crate::run::esker;
use esker_testkit::TempDir;

#[test]
fn a_short_run_tells_what_it_did_and_the_driver_starts_the_same_program() {
    let dir = TempDir::new("db_stress");
    let path = |name: &str| dir.join(name).display().to_string();
    let (db, expected) = (path("db"), path("expected"));
    let dirs = ["db_stress", "--db", &db, "--expected_values_dir", &expected];
    let all = [&dirs[..], &["--threads=2", "--ops_per_thread=300", "--max_key=100"]].concat();
    let output = esker(&all).ok();
    assert!(output.contains("every answer was right"), "{output}");
    esker(&[&dirs[..], &["--max_key=200"]].concat()).failed();
    for flag in ["--value_size_mult=1000000000", "--column_families=1000000000"] {
        let output = esker(&[&dirs[..], &[flag]].concat());
        assert!(output.code == Some(2) && output.err.contains("is not in"), "{output:?}");
    }
    let any = [&dirs[..], &["--ops_per_thread=10", "--max_key=100", "--options_seed=18446744073709551615"]];
    esker(&any.concat()).ok();

    let there = path("there");
    let output = esker(&["db_crashtest", "blackbox", "--dir", &there, "--duration=1", "--interval=1"]).ok();
    assert!(output.contains("every database held what was expected"), "{output}");
}
