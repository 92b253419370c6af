use super::*;
use crate::clock::{MockClock, SystemClock};
use esker_base::sync::atomic::{AtomicU64, Ordering};

const WRITE: IoKind = IoKind::Write;

fn limiter(bytes_per_second: u64) -> RateLimiter {
    RateLimiter::new(bytes_per_second, 100_000, 10, RateLimiterMode::WritesOnly)
}

#[test]
fn time_passes_as_the_rate_says() {
    // 1 MB/s in periods of 100 ms: 100,000 bytes each; the first comes at once.
    let (limiter, clock) = (limiter(1_000_000), MockClock::new(0));
    limiter.request(100_000, IoPriority::Low, WRITE, &clock, None);
    assert_eq!(clock.slept(), Duration::ZERO);
    limiter.request(1, IoPriority::Low, WRITE, &clock, None);
    assert_eq!(clock.slept(), Duration::from_millis(100));
    limiter.request(2_000_000, IoPriority::Low, WRITE, &clock, None);
    assert_eq!(clock.slept(), Duration::from_millis(2_100));
    assert_eq!(limiter.total_bytes_through(None), 2_100_001);
    assert_eq!(limiter.total_bytes_through(Some(IoPriority::Low)), 2_100_001);
    assert_eq!(limiter.total_bytes_through(Some(IoPriority::User)), 0);
    assert_eq!(limiter.total_requests(None), 22);
}

#[test]
fn statistics_count_requests_bytes_and_waits() {
    let clock = MockClock::new(0);
    for (mode, kind, [requests, bytes, delayed, micros], waits) in [
        (
            RateLimiterMode::WritesOnly,
            IoKind::Write,
            [
                Ticker::RateLimiterRequestsWrite,
                Ticker::RateLimiterBytesWrite,
                Ticker::RateLimiterDelayedRequestsWrite,
                Ticker::RateLimiterTotalWaitMicrosWrite,
            ],
            Histogram::RateLimiterWaitMicrosWrite,
        ),
        (
            RateLimiterMode::ReadsOnly,
            IoKind::Read,
            [
                Ticker::RateLimiterRequestsRead,
                Ticker::RateLimiterBytesRead,
                Ticker::RateLimiterDelayedRequestsRead,
                Ticker::RateLimiterTotalWaitMicrosRead,
            ],
            Histogram::RateLimiterWaitMicrosRead,
        ),
    ] {
        let (limiter, statistics) = (RateLimiter::new(1_000_000, 100_000, 10, mode), Statistics::new());
        // The first piece is granted at once, each of the other two after a period.
        limiter.request(250_000, IoPriority::Low, kind, &clock, Some(&statistics));
        let other = if kind == IoKind::Read { IoKind::Write } else { IoKind::Read };
        limiter.request(7, IoPriority::Low, other, &clock, Some(&statistics));
        let counts = [requests, bytes, delayed, micros].map(|ticker| statistics.ticker_count(ticker));
        assert_eq!(counts, [3, 250_000, 2, 200_000]);
        assert_eq!(statistics.ticker_count(Ticker::NumberRateLimiterDrains), 2);
        assert_eq!(statistics.histogram_data(waits).count, 2);
    }
}

#[test]
fn an_idle_limiter_saves_less_than_one_period_more() {
    let (limiter, clock) = (limiter(1_000_000), MockClock::new(0));
    limiter.request(1, IoPriority::Low, WRITE, &clock, None);
    clock.advance(Duration::from_secs(1000));
    limiter.request(99_999, IoPriority::Low, WRITE, &clock, None);
    limiter.request(100_000, IoPriority::Low, WRITE, &clock, None);
    assert_eq!(clock.slept(), Duration::ZERO, "the due period and unused bytes are granted at once");
    limiter.request(1, IoPriority::Low, WRITE, &clock, None);
    assert_eq!(clock.slept(), Duration::from_millis(100));
}

#[test]
fn the_rate_can_change_also_below_what_was_asked_for() {
    let (limiter, clock) = (limiter(1_000_000), MockClock::new(0));
    limiter.set_bytes_per_second(10_000);
    assert_eq!((limiter.bytes_per_second(), limiter.single_burst_bytes()), (10_000, 1_000));
    limiter.request(10_000, IoPriority::High, WRITE, &clock, None);
    assert_eq!(clock.slept(), Duration::from_millis(900));
}

#[test]
fn an_auto_tuned_rate_follows_demand() {
    let limiter = RateLimiter::auto_tuned(1_000_000, 100_000, 10, RateLimiterMode::WritesOnly);
    let clock = MockClock::new(0);
    assert_eq!(limiter.bytes_per_second(), 500_000, "the rate begins at half");
    let request = |bytes| limiter.request(bytes, IoPriority::Low, WRITE, &clock, None);
    // Every period is drained, so the rate rises by 5 % after each 100 periods.
    while clock.slept() < Duration::from_millis(10_050) {
        request(10_000);
    }
    assert_eq!(limiter.bytes_per_second(), 525_000);
    while clock.slept() < Duration::from_secs(200) {
        request(100_000);
    }
    assert_eq!(limiter.bytes_per_second(), 1_000_000, "the rate never exceeds the given one");
    // A quarter of the periods is drained, so the rate falls.
    for period in 0..110 {
        if period % 4 == 0 {
            request(150_000);
        }
        clock.advance(Duration::from_millis(100));
    }
    request(1);
    assert_eq!(limiter.bytes_per_second(), 952_380);
    // With seventy drained periods of a hundred the rate stays.
    let before = limiter.bytes_per_second();
    for period in 0..110 {
        if period % 10 < 7 {
            request(150_000);
        } else {
            clock.advance(Duration::from_millis(100));
        }
    }
    assert_eq!(limiter.bytes_per_second(), before);
    clock.advance(Duration::from_secs(3_600));
    request(1);
    request(1);
    assert_eq!(limiter.bytes_per_second(), 50_000, "without demand the rate falls to a twentieth");
    let fixed = RateLimiter::new(1_000, 1_000, 10, RateLimiterMode::AllIo);
    fixed.request(100, IoPriority::Low, WRITE, &clock, None);
    clock.advance(Duration::from_secs(3_600));
    fixed.request(100, IoPriority::Low, WRITE, &clock, None);
    assert_eq!((fixed.bytes_per_second(), fixed.mode()), (1_000, RateLimiterMode::AllIo));
}

#[test]
fn only_the_kinds_of_its_mode_wait() {
    for (mode, read, write) in [
        (RateLimiterMode::ReadsOnly, true, false),
        (RateLimiterMode::WritesOnly, false, true),
        (RateLimiterMode::AllIo, true, true),
    ] {
        let (limiter, clock) = (RateLimiter::new(10, 100_000, 10, mode), MockClock::new(0));
        assert_eq!((limiter.limits(IoKind::Read), limiter.limits(IoKind::Write)), (read, write));
        limiter.request(7, IoPriority::User, IoKind::Read, &clock, None);
        limiter.request(7, IoPriority::User, IoKind::Write, &clock, None);
        let expected = 7 * (u64::from(read) + u64::from(write));
        assert_eq!(limiter.total_bytes_through(None), expected);
    }
}

/// A state in which each priority has this many requests of 1 byte waiting.
fn waiting(limiter: &RateLimiter, each: usize) {
    let mut state = limiter.state().lock();
    for queue in &mut state.queues {
        queue.extend((0..each).map(|_| Request { bytes_left: 1, waiter: Arc::default() }));
    }
}

#[test]
fn waiting_requests_are_counted_by_priority() {
    let limiter = limiter(1_000_000);
    assert_eq!(limiter.total_pending_requests(None), 0);
    waiting(&limiter, 3);
    assert_eq!(limiter.total_pending_requests(None), 12);
    assert_eq!(limiter.total_pending_requests(Some(IoPriority::Mid)), 3);
    limiter.state().lock().refill_and_grant(0, 100_000, 10);
    assert_eq!(limiter.total_pending_requests(None), 0);
}

#[test]
fn a_burst_bounds_the_pieces_and_not_the_rate() {
    let (limiter, clock) = (limiter(1_000_000), MockClock::new(0));
    for (burst, pieces) in [(0, 10), (10_000, 100), (500_000, 2)] {
        limiter.set_single_burst_bytes(burst);
        let (requests, slept) = (limiter.total_requests(None), clock.slept());
        limiter.request(1_000_000, IoPriority::Low, WRITE, &clock, None);
        assert_eq!(limiter.total_requests(None) - requests, pieces);
        let millis = (clock.slept() - slept).as_millis();
        assert!((900..=1_000).contains(&millis), "burst {burst}: {millis} ms");
    }
    assert_eq!(limiter.single_burst_bytes(), 500_000);
}

#[test]
fn priorities_go_first_but_no_request_starves() {
    // Each period grants one byte, to the request with the highest priority.
    let limiter = RateLimiter::new(10, 100_000, 10, RateLimiterMode::AllIo);
    waiting(&limiter, 10_000);
    let mut state = limiter.state().lock();
    for period in 0..10_000 {
        state.refill_and_grant(period * 100_000, 100_000, 10);
    }
    assert_eq!(state.total_bytes, [0, 0, 0, 10_000], "`User` requests come first");
    for period in 0..10_000 {
        state.refill_and_grant(period * 100_000, 100_000, 10);
    }
    let [low, mid, high, _] = state.total_bytes;
    assert_eq!(low + mid + high, 10_000);
    assert!(
        (8_800..9_200).contains(&high) && (800..1_000).contains(&mid) && (50..200).contains(&low),
        "{low} {mid}"
    );
}

#[test]
fn many_threads_all_get_theirs_at_the_rate() {
    let limiter = RateLimiter::new(2_000_000, 10_000, 10, RateLimiterMode::WritesOnly);
    let granted = AtomicU64::new(0);
    let started = SystemClock.monotonic_nanos();
    std::thread::scope(|s| {
        for i in 0..8u64 {
            let (limiter, granted) = (&limiter, &granted);
            let priorities = [IoPriority::Low, IoPriority::Mid, IoPriority::High, IoPriority::User];
            s.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(i);
                let mut left = 100_000;
                while left > 0 {
                    let bytes = rng.u64(1..50_000).min(left);
                    limiter.request(bytes, priorities[i as usize % 4], WRITE, &SystemClock, None);
                    granted.fetch_add(bytes, Ordering::SeqCst);
                    left -= bytes;
                }
            });
        }
    });
    let seconds = (SystemClock.monotonic_nanos() - started) as f64 / 1e9;
    assert_eq!(granted.load(Ordering::SeqCst), 800_000);
    assert_eq!(limiter.total_bytes_through(None), 800_000);
    // The rate allows 0.4 s; the bytes of the first two periods may come at once.
    assert!(seconds > 0.37, "{seconds}");
    assert!(limiter.state().lock().queues.iter().all(VecDeque::is_empty));
}
