use super::*;

/// Models a scan of `steps` steps that finds no run.
fn scan(eagerness: &mut Eagerness, steps: u32) {
    eagerness.begin();
    (0..steps).for_each(|_| _ = eagerness.is_due());
}

#[test]
fn a_reader_that_usually_goes_far_looks_ahead_at_once() {
    let mut eagerness = Eagerness::default();
    let long = 5 * FAR;
    for _ in 0..40 {
        scan(&mut eagerness, long);
    }
    eagerness.begin();
    assert!(eagerness.is_due(), "decoding ahead begins with the first step");
    let left = eagerness.expected().unwrap();
    assert!((left as u32).abs_diff(long) <= 3, "{left} of {long}");
    (0..long).for_each(|_| _ = eagerness.is_due());
    assert_eq!(eagerness.expected(), None, "the scan is longer than usual");
}

#[test]
fn a_reader_that_does_not_go_far_looks_ahead_late() {
    let mut eagerness = Eagerness::default();
    for _ in 0..40 {
        scan(&mut eagerness, FAR - 1);
    }
    eagerness.begin();
    assert_eq!((1..).find(|_| eagerness.is_due()), Some(FIRST_STEPS));
    assert_eq!(eagerness.expected(), None);
}

#[test]
fn a_few_short_scans_are_enough_to_forget_long_ones() {
    let mut eagerness = Eagerness::default();
    (0..100).for_each(|_| scan(&mut eagerness, 1_000_000));
    assert!(eagerness.usual <= 16 * MOST_COUNTED, "{}", eagerness.usual);
    (0..12).for_each(|_| scan(&mut eagerness, 1));
    eagerness.begin();
    assert!(!eagerness.goes_far(), "{}", eagerness.usual);
    // Seeks without steps do not change the guess.
    let before = eagerness.usual;
    (0..10).for_each(|_| scan(&mut eagerness, 0));
    assert_eq!(eagerness.usual, before);
}
