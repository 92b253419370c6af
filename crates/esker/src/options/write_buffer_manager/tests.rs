use super::*;
use esker_cache::{Cache, CacheOptions};

#[test]
fn thresholds_are_rocksdbs() {
    let manager = WriteBufferManager::new(800, true);
    manager.reserve(700);
    assert!(!manager.should_flush() && !manager.should_stall());
    manager.reserve(1);
    assert!(manager.should_flush(), "active memtables exceed seven eighths");
    manager.schedule_free(701);
    assert!(!manager.should_flush(), "a flush is running");
    manager.reserve(399);
    assert!(manager.should_stall() && !manager.should_flush(), "a flush would free less than half");
    manager.reserve(1);
    assert!(manager.should_flush());
    manager.free(701);
    assert!(!manager.should_stall());
    assert_eq!((manager.memory_usage(), manager.mutable_memtable_memory_usage()), (400, 400));
}

#[test]
fn memtables_are_charged_to_the_cache_in_steps() {
    for strict_capacity_limit in [false, true] {
        let options = CacheOptions { strict_capacity_limit, ..CacheOptions::with_capacity(1 << 20) };
        let cache: Arc<BlockCache> = Arc::new(Cache::new(&options).unwrap());
        let empty = cache.usage();
        let charged = || cache.role_stats().bytes(Role::WriteBuffer) as usize;
        let manager = WriteBufferManager::with_cache(0, &cache, false);
        manager.reserve(1000);
        assert_eq!((charged(), cache.usage() - empty), (CHARGE_STEP, CHARGE_STEP));
        manager.reserve(2 * CHARGE_STEP);
        assert_eq!((charged(), manager.dummy_entries_in_cache_usage()), (3 * CHARGE_STEP, 3 * CHARGE_STEP));
        manager.reserve(4 * CHARGE_STEP);
        // Memory beyond a strict limit is not charged; a limit that is not strict is exceeded.
        assert_eq!(charged(), if strict_capacity_limit { 3 } else { 7 } * CHARGE_STEP);
        manager.schedule_free(6 * CHARGE_STEP);
        manager.free(6 * CHARGE_STEP);
        assert_eq!(charged(), CHARGE_STEP);
        drop(manager);
        assert_eq!(cache.usage(), empty);
    }
}

/// A change of the charge evicts, and an eviction drops values that readers have released: here
/// memory of the same manager.
#[test]
fn memory_that_is_given_back_while_the_charge_is_changed_is_uncharged() {
    use esker_cache::TieredCacheOptions;
    use esker_cache::tier::AdmissionPolicy;
    use esker_table::tier::{CompressedSecondaryCacheOptions, tiered_block_cache};
    let (total_capacity, compressed_secondary_ratio) = (4 << 20, 0.5);
    let division =
        TieredCacheOptions { total_capacity, compressed_secondary_ratio, adm_policy: AdmissionPolicy::Auto };
    let below = CompressedSecondaryCacheOptions::default();
    let cache = tiered_block_cache(&CacheOptions::default(), &below, &division, None).unwrap();
    let manager = Arc::new(WriteBufferManager::with_cache(0, &cache, false));
    manager.reserve(8 * CHARGE_STEP);
    // The collecting thread frees the memory, as it does for memtables of an old super version.
    let later = Arc::clone(&manager);
    let guard = esker_base::sync::epoch::pin();
    let retired = esker_base::sync::epoch::Swap::new(Arc::new(GivesBack(later, 2 * CHARGE_STEP)));
    drop(retired);
    drop(guard);
    cache.update_tiered(None, Some(0.0), None).unwrap();
    manager.free(4 * CHARGE_STEP);
    cache.update_tiered(None, Some(0.5), None).unwrap();
    while manager.memory_usage() > 2 * CHARGE_STEP {
        // Another test's guard may delay this.
        esker_base::sync::epoch::collect();
        std::thread::yield_now();
    }
    assert_eq!(manager.dummy_entries_in_cache_usage(), 2 * CHARGE_STEP);
    assert_eq!(cache.secondary().unwrap().capacity(), (total_capacity - 2 * CHARGE_STEP) / 2);
    drop(manager);
}

struct GivesBack(Arc<WriteBufferManager>, usize);

impl Drop for GivesBack {
    fn drop(&mut self) {
        self.0.free(self.1);
    }
}
