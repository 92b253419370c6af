use super::*;

/// Compares with the zeta of ten billion ranks that YCSB core 0.17 publishes, and with the sum of a
/// hundred ranks.
#[test]
fn zeta_is_the_published_sum() {
    assert!((zeta(1, THETA) - 1.0).abs() < 1e-12);
    assert!((zeta(2, THETA) - (1.0 + 0.5_f64.powf(0.99))).abs() < 1e-12);
    assert!((zeta(100, 0.99) - 5.294_568_831).abs() < 1e-8, "{}", zeta(100, 0.99));
    // Adding up ten billion terms takes a minute. The formula of Euler and Maclaurin gives the sum
    // behind the first million: integral + half the difference of the end terms + first correction.
    let (m, n, t) = (1e6_f64, 1e10_f64, 0.99_f64);
    let integral = (n.powf(1.0 - t) - m.powf(1.0 - t)) / (1.0 - t);
    let ends = (n.powf(-t) - m.powf(-t)) / 2.0;
    let correction = t * (m.powf(-t - 1.0) - n.powf(-t - 1.0)) / 12.0;
    let whole = zeta(1_000_000, t) + integral + ends + correction;
    assert!((whole - SCRAMBLED_ZETA).abs() < 1e-8, "{whole}");
}

#[test]
fn a_grown_generator_equals_one_that_started_larger() {
    let mut grown = Zipfian::new(10);
    grown.grow(1000);
    grown.grow(500);
    let fresh = Zipfian::new(1000);
    assert!((grown.zeta - fresh.zeta).abs() < 1e-9);
    assert!((grown.eta - fresh.eta).abs() < 1e-12);
}

/// Checks FNV-1a with its published constants. The number zero is eight zero bytes, each of which
/// only multiplies the hash by the prime.
#[test]
fn ranks_are_scattered_by_fnv() {
    let step = |hash: u64| hash.wrapping_mul(0x0000_0100_0000_01B3);
    let expected = (0..8).fold(0xCBF2_9CE4_8422_2325_u64, |hash, _| step(hash));
    assert_eq!(fnv64(0), expected.cast_signed().unsigned_abs());
    assert_ne!(fnv64(1), fnv64(2));
}

#[test]
fn ranks_come_as_often_as_the_law_says() {
    const DRAWS: u32 = 400_000;
    let zipfian = Zipfian::new(1000);
    let mut random = Rng::with_seed(7);
    let mut counts = vec![0u32; 1000];
    for _ in 0..DRAWS {
        counts[usize::try_from(zipfian.rank(random.f64())).unwrap()] += 1;
    }
    for rank in [0, 1] {
        let expected = (rank as f64 + 1.0).powf(-THETA) / zipfian.zeta * f64::from(DRAWS);
        let got = f64::from(counts[rank]);
        assert!((got - expected).abs() < 5.0 * expected.sqrt(), "rank {rank}: {got} where {expected} is due");
    }
    // The method is inexact behind the first two ranks, but the total shares of the first 10 and of
    // the first 100 ranks are right.
    let share = |n: usize| f64::from(counts[..n].iter().sum::<u32>()) / f64::from(DRAWS);
    let due = |n: u64| zeta(n, THETA) / zipfian.zeta;
    assert!((share(10) - due(10)).abs() < 0.02, "{} {}", share(10), due(10));
    assert!((share(100) - due(100)).abs() < 0.02, "{} {}", share(100), due(100));
    assert_eq!(zipfian.rank(0.0), 0);
    assert_eq!(zipfian.rank(1.0 - f64::EPSILON / 2.0), 999);
}

#[test]
fn the_latest_record_is_drawn_most() {
    let mut latest = Latest::new(100);
    let mut random = Rng::with_seed(1);
    let draws: Vec<u64> = (0..10_000).map(|_| latest.next(&mut random, 200)).collect();
    assert!(draws.iter().all(|&record| record < 200));
    let newest = draws.iter().filter(|&&record| record == 199).count();
    let second = draws.iter().filter(|&&record| record == 198).count();
    assert!(newest > second && second > 500, "{newest} {second}");
}

#[test]
fn scrambled_records_stay_in_range_and_favour_the_first_rank() {
    let scrambled = Scrambled::new(1000);
    let mut random = Rng::with_seed(1);
    let hottest = fnv64(0) % 1000;
    let draws: Vec<u64> = (0..100_000).map(|_| scrambled.next(&mut random)).collect();
    assert!(draws.iter().all(|&record| record < 1000));
    let hits = draws.iter().filter(|&&record| record == hottest).count() as f64;
    // The hottest record has its own share, 1 / zeta, and that of all other ranks that hash to it.
    assert!((hits / 1e5 - 1.0 / SCRAMBLED_ZETA) < 0.01 && hits > 3000.0, "{hits}");
}
