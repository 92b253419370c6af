//! The metamorphic campaign, for seconds.

use esker_stress::metamorphic::{MetamorphicParameters, run};
use esker_testkit::seed::for_each_seed;

#[test]
fn options_do_not_change_answers() {
    for_each_seed("metamorphic", 2, |seed, _| {
        let report = run(&MetamorphicParameters {
            seed,
            operations: 1200,
            sets: 3,
            ..MetamorphicParameters::default()
        });
        let report = report.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.databases == 3 && report.operations > 1000, "{report}");
    });
}

#[test]
fn every_option_with_a_text_form_is_varied_or_left_alone_with_a_reason() {
    let report = run(&MetamorphicParameters { operations: 10, sets: 2, ..MetamorphicParameters::default() });
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.unvaried, Vec::<&str>::new());
}
