use super::*;
use esker_base::sync::atomic::{AtomicUsize, Ordering};
use std::cell::Cell;
use std::sync::mpsc;
use std::time::Duration;

thread_local! {
    /// Whether the system refuses threads to this one.
    pub(crate) static REFUSES: Cell<bool> = const { Cell::new(false) };
}

thread_local! {
    /// Number of scoped threads that this one may still start.
    static SCOPED_LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

pub(super) fn refuses_scoped() -> bool {
    SCOPED_LEFT.replace(SCOPED_LEFT.get().saturating_sub(1)) == 0
}

#[test]
fn work_on_threads_begins_on_all_of_them_or_on_none() {
    let begun = AtomicUsize::new(0);
    let work = |number: usize| {
        begun.fetch_add(1, Ordering::SeqCst);
        number * 10
    };
    assert_eq!(on_threads("test", 4, work).unwrap(), [0, 10, 20, 30]);
    for left in [0, 3] {
        SCOPED_LEFT.set(left);
        let error = on_threads("test", 4, work).unwrap_err();
        assert!(error.message().starts_with("While start thread: test"), "{error}");
    }
    SCOPED_LEFT.set(usize::MAX);
    assert_eq!(begun.load(Ordering::SeqCst), 4);
}

/// Long enough for a busy machine, on which a thread may wait half a minute for its turn. A missing
/// event then fails the test instead of hanging it.
const LONG: Duration = Duration::from_secs(600);

#[test]
fn jobs_run_once_in_order_on_a_named_thread() {
    let pool = ThreadPool::new();
    let (tx, rx) = mpsc::channel();
    for i in 0..100 {
        let tx = tx.clone();
        let job = move || tx.send((i, std::thread::current().name().unwrap().to_owned())).unwrap();
        pool.schedule(Priority::Low, 0, Box::new(job));
    }
    for i in 0..100 {
        assert_eq!(rx.recv_timeout(LONG).unwrap(), (i, "esker:low0".to_owned()));
    }
}

#[test]
fn priorities_do_not_wait_for_each_other() {
    let pool = ThreadPool::new();
    let (release, blocked) = mpsc::channel::<()>();
    pool.schedule(Priority::Low, 0, Box::new(move || blocked.recv().unwrap()));
    let (tx, rx) = mpsc::channel();
    pool.schedule(Priority::High, 0, Box::new(move || tx.send(()).unwrap()));
    rx.recv_timeout(LONG).unwrap();
    release.send(()).unwrap();
}

/// Occupies the only low thread until the sender is used or dropped.
fn block(pool: &ThreadPool) -> mpsc::Sender<()> {
    let (release, blocked) = mpsc::channel::<()>();
    let (started, wait) = mpsc::channel();
    pool.schedule(
        Priority::Low,
        u64::MAX,
        Box::new(move || {
            started.send(()).unwrap();
            blocked.recv().ok();
        }),
    );
    wait.recv_timeout(LONG).unwrap();
    release
}

#[test]
fn unscheduled_jobs_are_dropped_unrun_and_counted() {
    let pool = ThreadPool::new();
    let release = block(&pool);
    let ran = Arc::new(AtomicUsize::new(0));
    for i in 0..10u64 {
        let ran = Arc::clone(&ran);
        pool.schedule(
            Priority::Low,
            i % 2,
            Box::new(move || {
                ran.fetch_add(1, Ordering::SeqCst);
            }),
        );
    }
    assert_eq!(pool.queue_len(Priority::Low), 10);
    assert_eq!(pool.unschedule(1), 5);
    assert_eq!(pool.unschedule(1), 0);
    assert_eq!(Arc::strong_count(&ran), 6, "a job's captures are dropped with it");
    drop(release);
    pool.wait_until_idle(Priority::Low);
    assert_eq!(ran.load(Ordering::SeqCst), 5);
}

#[test]
fn jobs_wait_while_no_thread_is_allowed() {
    let pool = ThreadPool::new();
    let (tx, rx) = mpsc::channel();
    pool.schedule(Priority::Bottom, 0, Box::new(move || tx.send(()).unwrap()));
    assert_eq!(pool.queue_len(Priority::Bottom), 1);
    assert!(rx.try_recv().is_err());
    pool.inc_background_threads_if_needed(2, Priority::Bottom);
    rx.recv_timeout(LONG).unwrap();
    pool.inc_background_threads_if_needed(1, Priority::Bottom);
    assert_eq!(pool.background_threads(Priority::Bottom), 2);
}

#[test]
fn the_limit_is_reached_and_kept() {
    let pool = ThreadPool::new();
    for limit in [4usize, 2, 6, 1] {
        pool.set_background_threads(limit, Priority::Low);
        // These jobs end only when all of them run at once.
        let together = Arc::new(std::sync::Barrier::new(limit));
        for _ in 0..limit {
            let together = Arc::clone(&together);
            pool.schedule(
                Priority::Low,
                0,
                Box::new(move || {
                    together.wait();
                }),
            );
        }
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..200 {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            pool.schedule(
                Priority::Low,
                0,
                Box::new(move || {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_micros(100));
                    now.fetch_sub(1, Ordering::SeqCst);
                }),
            );
        }
        pool.wait_until_idle(Priority::Low);
        assert!(most.load(Ordering::SeqCst) <= limit);
    }
}

#[test]
fn dropping_waits_for_the_running_job_only() {
    let pool = ThreadPool::new();
    let release = block(&pool);
    let ran = Arc::new(AtomicUsize::new(0));
    let also = Arc::clone(&ran);
    pool.schedule(
        Priority::Low,
        0,
        Box::new(move || {
            also.fetch_add(1, Ordering::SeqCst);
        }),
    );
    let closer = std::thread::spawn(move || drop(pool));
    while Arc::strong_count(&ran) > 1 {
        std::thread::yield_now();
    }
    assert!(!closer.is_finished(), "a job is still running");
    drop(release);
    closer.join().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[test]
fn a_job_may_drop_the_pool() {
    let pool = Arc::new(ThreadPool::new());
    let (tx, rx) = mpsc::channel();
    let (mine, weak) = (Arc::clone(&pool), Arc::downgrade(&pool));
    pool.schedule(
        Priority::Low,
        0,
        Box::new(move || {
            while Arc::strong_count(&mine) > 1 {
                std::thread::yield_now();
            }
            drop(mine);
            tx.send(()).unwrap();
        }),
    );
    drop(pool);
    rx.recv_timeout(LONG).unwrap();
    assert!(weak.upgrade().is_none());
}

#[test]
fn a_panic_is_kept_and_raised_when_the_pool_ends() {
    let pool = ThreadPool::new();
    pool.schedule(Priority::Low, 0, Box::new(|| std::panic::panic_any("first")));
    pool.schedule(Priority::Low, 0, Box::new(|| std::panic::panic_any("second")));
    let (tx, rx) = mpsc::channel();
    pool.schedule(Priority::Low, 0, Box::new(move || tx.send(()).unwrap()));
    rx.recv_timeout(LONG).expect("the thread lives on");
    let raised = catch_unwind(AssertUnwindSafe(|| pool.join())).unwrap_err();
    assert_eq!(*raised.downcast_ref::<&str>().unwrap(), "first");

    let pool = ThreadPool::new();
    pool.schedule(Priority::High, 0, Box::new(|| std::panic::panic_any("seen")));
    pool.wait_until_idle(Priority::High);
    assert_eq!(*pool.take_panic().unwrap().downcast_ref::<&str>().unwrap(), "seen");
    pool.join();
}

#[test]
fn spawned_threads_have_their_name_and_result() {
    let handle = spawn("esker:test", || std::thread::current().name().map(str::to_owned)).unwrap();
    assert_eq!(handle.join().unwrap().as_deref(), Some("esker:test"));
}

#[test]
fn jobs_without_a_thread_wait_for_one_or_are_run_by_a_caller() {
    let pool = ThreadPool::new();
    let (tx, rx) = mpsc::channel();
    let schedule = |tag, n: u32| {
        let tx = tx.clone();
        pool.schedule(Priority::Low, tag, Box::new(move || tx.send(n).unwrap()));
    };
    REFUSES.set(true);
    schedule(1, 10);
    schedule(2, 20);
    schedule(2, 21);
    assert!(pool.is_starved() && rx.try_recv().is_err());
    pool.take_starved(2).unwrap()();
    assert_eq!(rx.try_recv(), Ok(20), "the first job with this tag runs at once");
    assert!(pool.take_starved(3).is_none());
    assert!(pool.is_starved());
    // A job that panics does not end its caller.
    pool.schedule(Priority::High, 4, Box::new(|| panic!("a planned panic")));
    pool.take_starved(4).unwrap()();
    assert!(pool.take_panic().is_some());
    REFUSES.set(false);
    assert!(pool.take_starved(2).is_none(), "a thread runs the job");
    let mut rest = [rx.recv_timeout(LONG).unwrap(), rx.recv_timeout(LONG).unwrap()];
    rest.sort_unstable();
    assert_eq!(rest, [10, 21]);
    assert!(!pool.is_starved());
    pool.wait_until_idle(Priority::Low);
}
