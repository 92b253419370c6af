use super::*;

fn values(flags: &Flags) -> Values {
    Values::new(flags, 100, 1)
}

#[test]
fn half_of_each_piece_repeats() {
    let mut values = values(&Flags::default());
    for _ in 0..20 {
        let value = values.next();
        assert_eq!(value.len(), 100);
        assert_eq!(value[..50], value[50..]);
        assert!(value.iter().all(|b| (b' '..=b'~').contains(b)));
    }
}

#[test]
fn the_text_is_used_over_and_over() {
    let mut values = values(&Flags::default());
    let first = values.next().to_vec();
    let again = (1..).find(|_| values.next() == first).unwrap();
    assert_eq!(again, values.text.len() / 100);
}

#[test]
fn sizes_stay_in_their_range() {
    for kind in ["uniform", "normal"] {
        let flags = Flags {
            value_size_distribution_type: kind.to_owned(),
            value_size_min: 10,
            value_size_max: 50,
            ..Flags::default()
        };
        let mut values = values(&flags);
        let sizes: Vec<usize> = (0..2000).map(|_| values.next().len()).collect();
        assert!(sizes.iter().all(|s| (10..=50).contains(s)), "{kind}");
        let average = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
        assert!((28.0..32.0).contains(&average), "{kind}: {average}");
    }
}

#[test]
fn the_same_value_can_come_again_and_again() {
    let mut values = values(&Flags { same_value_percentage: 100, ..Flags::default() });
    let first = values.next().to_vec();
    assert!((0..100).all(|_| values.next() == first));
}
