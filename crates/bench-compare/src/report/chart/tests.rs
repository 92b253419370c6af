use super::*;

#[test]
fn the_axis_is_logarithmic_and_ends() {
    let middle = f64::midpoint(LEFT, RIGHT);
    assert!((x_of(1.0, -2.0, 2.0) - middle).abs() < 1e-9);
    assert!((x_of(4.0, -2.0, 2.0) - RIGHT).abs() < 1e-9);
    assert!((x_of(0.25, -2.0, 2.0) - LEFT).abs() < 1e-9);
    assert!((x_of(1000.0, -2.0, 2.0) - RIGHT).abs() < 1e-9, "a value beyond the axis is drawn at its end");
}

#[test]
fn round_numbers_are_not_below() {
    for value in [0.3, 1.0, 7.0, 99.0, 101.0, 123_456.0, 9_999_999.0] {
        let round = nice(value);
        assert!(round >= value && round <= (1.7 * value).max(1.0), "{value}: {round}");
    }
    assert_eq!(rate_label(1_250_000.0), "1.25 M");
    assert_eq!(rate_label(500.0), "500");
    assert_eq!(rate_label(0.0), "0");
}

#[test]
fn text_stays_text() {
    assert_eq!(escape("a < b & \"c\""), "a &lt; b &amp; &quot;c&quot;");
}
