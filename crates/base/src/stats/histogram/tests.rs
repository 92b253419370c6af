use super::*;
use crate::rng::Rng;

#[test]
fn limits_are_those_of_rocksdb() {
    assert_eq!(
        BUCKET_LIMITS[..20],
        [1, 2, 3, 4, 6, 10, 15, 22, 34, 51, 76, 110, 170, 250, 380, 580, 870, 1300, 1900, 2900]
    );
    assert!(BUCKET_LIMITS.windows(2).all(|w| w[0] < w[1]));
    // One more step of a half would not fit into 64 bits.
    assert!(2.0 * 1.5f64.powi(BUCKET_COUNT as i32 - 2) <= 2f64.powi(64));
    assert!(2.0 * 1.5f64.powi(BUCKET_COUNT as i32 - 1) > 2f64.powi(64));
}

#[test]
fn every_value_falls_into_its_bucket() {
    let slow = |v: u64| BUCKET_LIMITS.iter().position(|&l| v <= l).unwrap_or(BUCKET_COUNT - 1);
    let mut rng = Rng::new(1);
    let near_limits = BUCKET_LIMITS.iter().flat_map(|&l| [l - 1, l, l + 1]);
    let random: Vec<u64> = (0..10_000).map(|_| rng.next_u64() >> rng.below(64)).collect();
    for v in near_limits.chain(random).chain([0, u64::MAX]) {
        assert_eq!(bucket_of(v), slow(v), "{v}");
    }
}

#[test]
fn percentiles_lie_where_the_values_do() {
    let mut h = HistogramSnapshot::new();
    (1..=100).for_each(|v| h.add(v));
    assert_eq!((h.count(), h.sum(), h.min(), h.max()), (100, 5050, 1, 100));
    assert_eq!(h.average(), 50.5);
    assert!((h.standard_deviation() - 28.866).abs() < 0.001);
    assert_eq!(h.percentile(50.0), 50.0);
    assert_eq!(h.percentile(100.0), 100.0);
    assert!((98.0..=100.0).contains(&h.percentile(99.0)));
    let one = {
        let mut h = HistogramSnapshot::new();
        h.add(1000);
        h
    };
    assert_eq!([0.0, 50.0, 100.0].map(|p| one.percentile(p)), [1000.0; 3]);
}

#[test]
fn nothing_is_all_zero() {
    assert_eq!(HistogramSnapshot::new().data(), HistogramData::default());
    assert!(
        HistogramStat::new()
            .snapshot()
            .to_string()
            .starts_with("Count: 0 Average: 0.0000  StdDev: 0.00\nMin: 0")
    );
}

#[test]
fn merging_equals_adding_all_to_one() {
    let mut rng = Rng::new(2);
    let (shared, mut own, mut merged, mut all) =
        (HistogramStat::new(), HistogramSnapshot::new(), HistogramSnapshot::new(), HistogramSnapshot::new());
    for _ in 0..1000 {
        let v = rng.below(1 << 30);
        all.add(v);
        if rng.one_in(2) { shared.add(v) } else { own.add(v) }
    }
    shared.merge_into(&mut merged);
    merged.merge(&own);
    assert_eq!(merged, all);
    shared.clear();
    assert_eq!(shared.snapshot(), HistogramSnapshot::new());
}

#[test]
fn the_table_is_rocksdbs() {
    let mut h = HistogramSnapshot::new();
    for v in [1, 3, 3, 50] {
        h.add(v);
    }
    assert_eq!(
        h.to_string(),
        "Count: 4 Average: 14.2500  StdDev: 20.66\n\
         Min: 1  Median: 2.5000  Max: 50\n\
         Percentiles: P50: 2.50 P75: 3.00 P99: 50.00 P99.9: 50.00 P99.99: 50.00\n\
         ------------------------------------------------------\n\
         [       0,       1 ]        1  25.000%  25.000% #####\n\
         (       2,       3 ]        2  50.000%  75.000% ##########\n\
         (      34,      51 ]        1  25.000% 100.000% #####\n"
    );
}
