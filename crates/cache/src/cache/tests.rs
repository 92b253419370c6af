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
