use super::*;

#[test]
fn cache_types_have_rocksdbs_names() {
    let fixed = CacheType::FixedHyperClock { estimated_entry_charge: 4096 };
    for (name, charge, expected) in [
        ("lru_cache", 0, CacheType::Lru),
        ("auto_hyper_clock_cache", 4096, CacheType::AutoHyperClock),
        ("hyper_clock_cache", 0, CacheType::AutoHyperClock),
        ("hyper_clock_cache", 4096, fixed),
        ("fixed_hyper_clock_cache", 4096, fixed),
    ] {
        assert_eq!(CacheType::parse(name, charge).unwrap(), expected);
    }
    assert!(CacheType::parse("fixed_hyper_clock_cache", 0).is_err());
    assert!(CacheType::parse("tape", 1).unwrap_err().message().contains("'tape' is not supported"));
    for cache_type in [CacheType::Lru, fixed, CacheType::AutoHyperClock] {
        assert_eq!(CacheType::parse(cache_type.name(), 4096).unwrap(), cache_type);
    }
}

#[test]
fn a_charge_of_zero_bytes_fits_into_a_full_cache_with_a_strict_limit() {
    for cache_type in
        [CacheType::Lru, CacheType::FixedHyperClock { estimated_entry_charge: 64 }, CacheType::AutoHyperClock]
    {
        let options = CacheOptions {
            cache_type,
            strict_capacity_limit: true,
            num_shard_bits: 0,
            ..CacheOptions::with_capacity(64 << 10)
        };
        let cache: Arc<Cache<u8>> = Arc::new(Cache::new(&options).unwrap());
        let held =
            cache.insert(CacheKey::new((1, 1), 0), 7, 32 << 10, CachePriority::Low, Role::Misc).unwrap();
        cache.set_capacity(0);
        assert!(cache.usage() > cache.capacity(), "{}", cache_type.name());
        let mut reservation = cache.reserve(Role::WriteBuffer, 0).unwrap();
        assert!(reservation.resize(1).is_err() && reservation.resize(0).is_ok());
        // A second cache can be charged to the full cache, too.
        let other: Cache<u8> = Cache::new(&CacheOptions::with_capacity(64 << 10)).unwrap();
        other.charge_usage_to(&cache, Role::BlobCache);
        drop(held);
    }
}
