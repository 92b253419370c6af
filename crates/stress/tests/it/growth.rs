//! The short form of the growth campaign, in a process of its own: the counts cover all threads.

use std::process::Command;

#[test]
fn no_operation_grows_with_more_than_the_page_allows() {
    let output = Command::new(env!("CARGO_BIN_EXE_esker-growth")).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "docs/growth.md says how to run some cells:\n{errors}");
}

#[test]
fn a_name_that_is_unknown_is_refused() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_esker-growth")).args(["--axes", "fields"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no 'fields'; there are: families"));
}
