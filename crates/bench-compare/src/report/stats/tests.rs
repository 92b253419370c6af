use super::*;
use crate::bench::StepInfo;

fn cell(kind: Kind, seconds: &[f64]) -> Cell {
    let sample =
        |&seconds: &f64| Sample { operations: 100, seconds, settle_seconds: 1.0, ..Sample::default() };
    Cell { kind, samples: seconds.iter().map(sample).collect(), missing: None }
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
    let cells = vec![cell(Kind::Esker, &[1.0, 10.0, 2.0]), cell(Kind::Rocksdb, &[2.0, 30.0, 2.0])];
    let mut row = Row { info, cells };
    // The ratio of the run's medians would be 1; the noise of the second round falls on both.
    assert_eq!(row.ratio(Kind::Esker, Kind::Rocksdb).unwrap().median, 2.0);
    assert_eq!(row.rate(Kind::Esker).unwrap().median, 50.0);
    assert_eq!(row.ratio(Kind::Esker, Kind::Fjall), None);
    row.info.counts_settling = true;
    assert_eq!(row.rate(Kind::Esker).unwrap().max, 50.0);
}
