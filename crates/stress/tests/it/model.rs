//! The model campaign, for seconds.

use esker_stress::model::{ModelParameters, run};
use esker_testkit::seed::for_each_seed;

#[test]
fn random_operations_answer_as_the_model_does() {
    for_each_seed("model", 4, |seed, _| {
        let report = run(&ModelParameters { seed, operations: 8_000, ..ModelParameters::default() });
        let report = report.unwrap_or_else(|divergence| panic!("{divergence}"));
        assert_eq!(report.operations, 8_000);
        assert!(report.comparisons > 4_000, "{report}");
    });
}
