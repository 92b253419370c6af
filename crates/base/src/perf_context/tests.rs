use super::*;
use std::thread;

struct Ticking(Cell<u64>);

impl Ticking {
    fn monotonic_nanos(&self) -> u64 {
        self.0.set(self.0.get() + 10);
        self.0.get()
    }
}

fn on_a_new_thread(f: impl FnOnce() + Send) {
    thread::scope(|scope| {
        scope.spawn(f);
    });
}

#[test]
fn counts_at_the_default_level_and_not_below() {
    on_a_new_thread(|| {
        perf_count!(block_read_count);
        perf_add!(block_read_byte, 4096);
        set_perf_level(PerfLevel::Disable);
        perf_count!(block_read_count);
        let computed = Cell::new(false);
        perf_add!(block_read_byte, u64::from(!computed.replace(true)));
        assert!(!computed.get(), "the value was computed without need");
        let noted = PerfContext::current();
        assert_eq!((noted.block_read_count, noted.block_read_byte), (1, 4096));
        assert_eq!(noted.to_string(), "block_read_count = 1, block_read_byte = 4096");
        PerfContext::reset();
        assert_eq!(PerfContext::current(), PerfContext::default());
        assert_eq!(PerfContext::current().to_string(), "");
    });
}

#[test]
fn times_only_when_asked_to() {
    on_a_new_thread(|| {
        let clock = Ticking(Cell::new(0));
        assert_eq!(perf_time!(block_read_time, clock, 7), 7);
        assert_eq!(clock.0.get(), 0, "the clock was not read");
        set_perf_level(PerfLevel::EnableTimeExceptForMutex);
        assert_eq!(perf_time!(block_read_time, clock, 7), 7);
        perf_time!(level EnableTime, db_mutex_lock_nanos, clock, ());
        let noted = PerfContext::current();
        assert_eq!((noted.block_read_time, noted.db_mutex_lock_nanos), (10, 0));
    });
}

#[test]
fn threads_are_apart() {
    on_a_new_thread(|| {
        perf_count!(user_key_comparison_count);
        on_a_new_thread(|| assert_eq!(PerfContext::current(), PerfContext::default()));
        assert_eq!(PerfContext::current().iter().next(), Some(("user_key_comparison_count", 1)));
    });
}

#[test]
fn counts_by_level_are_there_once_a_thread_asks_for_them() {
    on_a_new_thread(|| {
        let count = || count_at_level(5, |level| level.bloom_filter_useful += 1);
        count();
        assert!(PerfContext::level_to_perf_context().is_empty() && !is_detailed());
        PerfContext::enable_per_level_perf_context();
        count();
        count_at_level(0, |level| level.user_key_return_count += 2);
        set_perf_level(PerfLevel::Disable);
        count();
        set_perf_level(PerfLevel::EnableCount);
        assert!(is_detailed() && counts_by_level() && PerfContext::per_level_perf_context_enabled());
        PerfContext::disable_per_level_perf_context();
        count();
        PerfContext::reset();
        let texts = || {
            let levels = PerfContext::level_to_perf_context();
            levels.iter().map(|(level, counts)| format!("{level}: {counts}")).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(texts(), "0: user_key_return_count = 2; 5: bloom_filter_useful = 1");
        on_a_new_thread(|| assert!(PerfContext::level_to_perf_context().is_empty()));
        PerfContext::enable_per_level_perf_context();
        PerfContext::reset();
        assert_eq!(texts(), "0: ; 5: ", "as in RocksDB");
        PerfContext::clear_per_level_perf_context();
        assert!(PerfContext::level_to_perf_context().is_empty() && !counts_by_level());
    });
}
