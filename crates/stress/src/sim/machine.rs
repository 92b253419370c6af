//! One simulated machine, whose every decision follows from its seed.
//!
//! In: a seed and a function. Out: its result, or the reason why the machine stopped: a panic, or
//! threads that wait for each other. One of four schedulers draws the next thread at each decision;
//! each finds mistakes that the others rarely find. One changes threads rarely (PCT, Burckhardt et
//! al., ASPLOS 2010), one weighs threads by their remaining work, one is random, and one is
//! [`Delays`]. Above them, [`Timed`] decides when the clock moves.

use super::delays::Delays;
use super::keeper::Timed;
use esker::internals::base::sync::{time, waits};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler, UrwRandomScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// Bytes of the stack of each simulated thread.
const STACK: usize = 1 << 20;

/// Runs `work` in the machine of this seed, and returns its result.
/// # Errors
/// A thread panicked, or all of them wait.
pub(crate) fn in_machine<T: Send + 'static>(
    seed: u64,
    work: impl Fn() -> T + Send + Sync + 'static,
) -> Result<T, String> {
    match seed % 4 {
        0 => run(PctScheduler::new_from_seed(seed, 3, 1), seed, work),
        1 => run(UrwRandomScheduler::new_from_seed(seed, 1), seed, work),
        2 => run(RandomScheduler::new_from_seed(seed, 1), seed, work),
        _ => run(Delays::new(seed), seed, work),
    }
}

fn run<T: Send + 'static>(
    scheduler: impl Scheduler + 'static,
    seed: u64,
    work: impl Fn() -> T + Send + Sync + 'static,
) -> Result<T, String> {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::None;
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    let outcome = Arc::new(Mutex::new(None));
    let shared = outcome.clone();
    let run = move || {
        esker::internals::env::random::seed(seed);
        esker::internals::cache::key::begin_identities_anew();
        // Half of the machines have a clock that jumps.
        let result = time::with_clock((seed / 4 % 2 == 0).then_some(seed), &work);
        *shared.lock().expect("no thread panics while it holds this lock") = Some(result);
    };
    catch_unwind(AssertUnwindSafe(|| Runner::new(Timed::new(scheduler, seed), config).run(run))).map_err(
        |panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied());
            format!(
                "a thread panicked, or all wait: {}{}",
                text.unwrap_or("no message"),
                waits::list_waiters()
            )
        },
    )?;
    let result = outcome.lock().expect("no thread panics while it holds this lock").take();
    result.ok_or_else(|| "the machine stopped".to_owned())
}
