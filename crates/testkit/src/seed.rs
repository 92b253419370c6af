//! Random numbers that can be repeated.
//!
//! A failing test prints its seed. The environment variable `SEED=<number>` runs only that seed
//! again. `ROUNDS=<number>` sets the number of seeds. With both, a test runs `ROUNDS` seeds,
//! beginning with `SEED`. So two campaigns of one test can use different seeds.

/// Runs `test` with `rounds` seeds, which derive from the test's `name`. `SEED` and `ROUNDS`
/// replace them. Prints the seed of a round that panics.
pub fn for_each_seed(name: &str, rounds: u64, mut test: impl FnMut(u64, fastrand::Rng)) {
    let given = number_in_environment("SEED");
    let rounds = number_in_environment("ROUNDS").unwrap_or(if given.is_some() { 1 } else { rounds });
    let first = given.unwrap_or_else(|| hash(name));
    for round in 0..rounds {
        run(name, first.wrapping_add(round), &mut test);
    }
}

/// Makes a generator for one test. The seed is `SEED`, or derives from the test's `name`. Prints
/// the seed, so that a failing test shows it.
#[expect(clippy::print_stderr, reason = "the test runner shows it when the test fails")]
pub fn rng(name: &str) -> fastrand::Rng {
    let seed = number_in_environment("SEED").unwrap_or_else(|| hash(name));
    eprintln!("{name}: SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

fn run(name: &str, seed: u64, test: &mut impl FnMut(u64, fastrand::Rng)) {
    let _printer = OnPanic { name, seed };
    test(seed, fastrand::Rng::with_seed(seed));
}

/// Prints the seed if a panic drops this value.
struct OnPanic<'a> {
    name: &'a str,
    seed: u64,
}

impl Drop for OnPanic<'_> {
    #[expect(clippy::print_stderr, reason = "this is how a failing test says how to run it again")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} failed with SEED={}", self.name, self.seed);
        }
    }
}

fn number_in_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// FNV-1a: the same on every machine and in every build.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_have_different_seeds_and_can_be_repeated() {
        let collect = || {
            let mut all = Vec::new();
            for_each_seed("x", 3, |seed, mut rng| all.push((seed, rng.u64(..))));
            all
        };
        let first = collect();
        assert_eq!(first.len(), 3);
        assert_ne!(first[0].1, first[1].1);
        assert_eq!(first, collect());
    }
}
