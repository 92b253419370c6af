use super::*;

#[test]
fn the_twister_gives_the_standards_ten_thousandth_number() {
    // The result of the 10000th call of a default-constructed mt19937_64 (C++ standard,
    // [rand.predef]).
    let mut random = Random64::new(5489);
    let last = (0..10_000).map(|_| random.next()).last();
    assert_eq!(last, Some(9_981_545_732_273_789_042));
}

#[test]
fn park_and_miller_give_their_ten_thousandth_number() {
    // From their paper: starting at 1, the 10000th number is 1043618065.
    let mut random = Random::new(1);
    let last = (0..10_000).map(|_| random.next()).last();
    assert_eq!(last, Some(1_043_618_065));
}

#[test]
fn a_seed_on_which_it_would_stand_still_is_replaced() {
    for seed in [0, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        let mut random = Random::new(seed);
        assert_eq!(random.next(), 16_807);
    }
}
