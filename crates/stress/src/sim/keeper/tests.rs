use super::*;
use esker::internals::base::sync::atomic::{AtomicBool, Ordering};
use esker::internals::base::sync::{Arc, thread, time};
use shuttle::{Config, MaxSteps, Runner};

/// A scheduler that always runs the newest thread.
struct NewestFirst(bool);

impl Scheduler for NewestFirst {
    fn new_execution(&mut self) -> Option<Schedule> {
        (!std::mem::replace(&mut self.0, true)).then(|| Schedule::new(0))
    }

    fn next_task(&mut self, runnable: &[&Task], _: Option<TaskId>, _: bool) -> Option<TaskId> {
        runnable.last().map(|task| task.id())
    }

    fn next_u64(&mut self) -> u64 {
        0
    }
}

/// Each second brings work for more than a second.
#[test]
fn shuttle_the_last_thread_goes_on_beside_endless_work() {
    const SECOND: u64 = 1_000_000_000;
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(2_000_000);
    let mut timed = Timed::new(NewestFirst(false), 0);
    timed.seldom = 64;
    Runner::new(timed, config).run(|| {
        time::with_clock(None, || {
            let over = Arc::new(AtomicBool::new(false));
            let worker = |_| {
                let over = over.clone();
                thread::spawn(move || {
                    while !over.load(Ordering::SeqCst) {
                        time::sleep(SECOND);
                        (0..2000).for_each(|_| thread::yield_now());
                    }
                })
            };
            let workers: Vec<_> = (0..4).map(worker).collect();
            for _ in 0..10 {
                time::sleep(SECOND);
            }
            over.store(true, Ordering::SeqCst);
            workers
                .into_iter()
                .for_each(|worker| worker.join().expect("a worker that only counts does not panic"));
        });
    });
}
