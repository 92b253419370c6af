use super::*;

fn cache(change: impl FnOnce(&mut Flags)) -> Result<Option<Arc<BlockCache>>> {
    let mut flags = Flags { cache_size: 3 << 20, ..Flags::default() };
    change(&mut flags);
    block_cache(&flags)
}

fn with_compressed(flags: &mut Flags) {
    flags.use_compressed_secondary_cache = true;
    flags.compressed_secondary_cache_size = 1 << 20;
}

#[test]
fn each_flag_has_its_cache() {
    for (name, cache_type) in
        [("lru_cache", CacheType::Lru), ("hyper_clock_cache", CacheType::AutoHyperClock)]
    {
        let plain = cache(|flags| flags.cache_type = name.to_owned()).unwrap().unwrap();
        assert_eq!((plain.cache_type(), plain.capacity()), (cache_type, 3 << 20));
        assert!(plain.secondary().is_none());
    }
    assert!(cache(|flags| flags.cache_size = 0).unwrap().is_none());
    let apart = cache(with_compressed).unwrap().unwrap();
    assert_eq!((apart.capacity(), apart.secondary().unwrap().capacity()), (3 << 20, 1 << 20));
    let by_uri = cache(|f| f.secondary_cache_uri = "compressed_secondary_cache://capacity=2M".to_owned());
    assert_eq!(by_uri.unwrap().unwrap().secondary().unwrap().capacity(), 2 << 20);
    let whole = cache(|f| f.cache_uri = "{id=lru_cache;capacity=5M}".to_owned()).unwrap().unwrap();
    assert_eq!((whole.cache_type(), whole.capacity()), (CacheType::Lru, 5 << 20));
    let tiered = cache(|flags| {
        with_compressed(flags);
        flags.use_tiered_cache = true;
        flags.tiered_adm_policy = "allow_cache_hits".to_owned();
    });
    let tiered = tiered.unwrap().unwrap();
    assert_eq!((tiered.capacity(), tiered.secondary().unwrap().capacity()), (4 << 20, 1 << 20));
    assert_eq!(tiered.admission_policy(), Some(AdmissionPolicy::AllowCacheHits));
}

#[test]
fn senseless_cache_flags_are_refused_by_name() {
    let refused = |change: fn(&mut Flags), part: &str| {
        let text = cache(change).unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    };
    refused(|f| f.cache_type = "clock_cache".to_owned(), "--cache_type");
    refused(|f| f.cache_uri = "{id=lru_cache;capacita=5M}".to_owned(), "--cache_uri");
    refused(|f| f.secondary_cache_uri = "nothing://".to_owned(), "--secondary_cache_uri");
    refused(
        |f| {
            with_compressed(f);
            f.secondary_cache_uri = "compressed_secondary_cache://capacity=2M".to_owned();
        },
        "--secondary_cache_uri: not with",
    );
    refused(
        |f| {
            with_compressed(f);
            f.compressed_secondary_cache_compression_type = "brotli".to_owned();
        },
        "--compressed_secondary_cache_compression_type",
    );
    refused(
        |f| {
            with_compressed(f);
            f.use_tiered_cache = true;
            f.tiered_adm_policy = "often".to_owned();
        },
        "--tiered_adm_policy",
    );
    refused(
        |f| {
            with_compressed(f);
            f.use_tiered_cache = true;
            f.tiered_adm_policy = "three_queue".to_owned();
        },
        "three_queue",
    );
    assert!(prepopulate(&Flags { prepopulate_block_cache: 3, ..Flags::default() }).is_err());
}
