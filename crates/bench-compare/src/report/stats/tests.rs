use super::*;
use crate::bench::StepInfo;

fn cell(kind: EngineKind, seconds: &[f64]) -> TableCell {
    let sample =
        |&seconds: &f64| Sample { operations: 100, seconds, settle_seconds: 1.0, ..Sample::default() };
    TableCell { kind, samples: seconds.iter().map(sample).collect(), missing: None }
}

#[test]
fn a_median_lies_in_the_middle_of_any_number_of_numbers() {
    assert_eq!(Spread::of([]), None);
    assert_eq!(Spread::of([3.0]), Some(Spread { median: 3.0, min: 3.0, max: 3.0 }));
    assert_eq!(Spread::of([4.0, 1.0, 3.0, 2.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
    assert_eq!(Spread::of([9.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 9.0 }));
}

#[test]
fn a_ratio_is_taken_within_each_round() {
    let info = StepInfo::new("a/b".to_owned(), "b", "op", "");
    let cells =
        vec![cell(EngineKind::Esker, &[1.0, 10.0, 2.0]), cell(EngineKind::Rocksdb, &[2.0, 30.0, 2.0])];
    let mut row = TableRow { info, cells };
    // The ratio of the run's medians would be 1; the noise of the second round falls on both.
    assert_eq!(row.ratio(EngineKind::Esker, EngineKind::Rocksdb).unwrap().median, 2.0);
    assert_eq!(row.rate(EngineKind::Esker).unwrap().median, 50.0);
    assert_eq!(row.ratio(EngineKind::Esker, EngineKind::Fjall), None);
    row.info.counts_settling = true;
    assert_eq!(row.rate(EngineKind::Esker).unwrap().max, 50.0);
}
