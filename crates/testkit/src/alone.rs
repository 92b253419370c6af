//! A test that runs in a process of its own.
//!
//! In: the name of the running test. Out: whether this process runs no other test.

use crate::started::this_program;

/// An environment variable of the new process: the name of its only test.
const ALONE: &str = "ESKER_TEST_ALONE";

/// Returns true in a process that runs only the test `name`. In any other process, runs that test
/// in a process of its own, and returns false once it has passed there. Use this function for a
/// test that affects the other tests of its process: for example, it holds an epoch guard for long.
///
/// ```text
/// if !esker_testkit::runs_alone("module::tests::the_name_of_this_test") {
///     return;
/// }
/// ```
/// # Panics
/// The test fails in its process, or this binary has no test with this name.
pub fn runs_alone(name: &str) -> bool {
    if std::env::var_os(ALONE).is_some_and(|alone| alone == name) {
        return true;
    }
    let mut command = this_program();
    command.args(["--exact", name, "--nocapture"]).env(ALONE, name);
    let ended = command.output().expect("the program runs, so it can be started");
    let said = String::from_utf8_lossy(&ended.stdout);
    let passed = ended.status.success() && said.contains("1 passed");
    assert!(passed, "{name} alone: {}\n{said}\n{}", ended.status, String::from_utf8_lossy(&ended.stderr));
    false
}

#[cfg(test)]
mod tests {
    use super::runs_alone;

    #[test]
    fn a_test_runs_in_a_process_of_its_own() {
        let is_child = std::env::var_os(super::ALONE).is_some();
        assert_eq!(runs_alone("alone::tests::a_test_runs_in_a_process_of_its_own"), is_child);
    }

    #[test]
    #[should_panic(expected = "0 passed")]
    fn a_name_of_no_test_is_a_failure() {
        runs_alone("alone::tests::no_test");
    }
}
