use super::*;
use crate::options::cf_options_from_string;
use crate::options::{ColumnFamilyOptions, OptionStruct};

fn cache(text: &str) -> Arc<BlockCache> {
    block_cache_from_string(text).unwrap().unwrap()
}

#[test]
fn a_size_or_options_without_an_id_mean_an_lru_cache() {
    for text in ["64M", "{64m}", "capacity=64M", "{capacity=64M;num_shard_bits=4;high_pri_pool_ratio=0.25;}"]
    {
        let cache = cache(text);
        assert_eq!((cache.cache_type(), cache.capacity()), (CacheType::Lru, 64 << 20), "{text}");
    }
    assert!(cache("capacity=1M;strict_capacity_limit=true").has_strict_capacity_limit());
    for text in ["nullptr", "null", "{nullptr}"] {
        assert!(block_cache_from_string(text).unwrap().is_none(), "{text}");
    }
}

#[test]
fn ids_are_the_names_of_cache_types() {
    let auto =
        cache("{id=auto_hyper_clock_cache;capacity=2M;metadata_charge_policy=kDontChargeCacheMetadata}");
    assert_eq!((auto.cache_type(), auto.capacity()), (CacheType::AutoHyperClock, 2 << 20));
    let fixed = cache("{id=fixed_hyper_clock_cache;capacity=2M;estimated_entry_charge=4k}");
    assert_eq!(fixed.cache_type(), CacheType::FixedHyperClock { estimated_entry_charge: 4096 });
}

#[test]
fn tiers_are_made_from_text() {
    let below = cache("capacity=4M;secondary_cache=compressed_secondary_cache://capacity=2M");
    assert_eq!(below.secondary().unwrap().capacity(), 2 << 20);
    let braces = "{capacity=4M;secondary_cache={id=compressed_secondary_cache;capacity=2M;\
                  compression_type=kZSTD;do_not_compress_roles=FilterBlock:IndexBlock;\
                  enable_custom_split_merge=true}}";
    assert_eq!(cache(braces).secondary().unwrap().name(), "CompressedSecondaryCache");
    let shared =
        cache("{id=auto_hyper_clock_cache;capacity=8M;compressed_secondary_ratio=0.25;adm_policy=allow_all}");
    assert_eq!((shared.capacity(), shared.secondary().unwrap().capacity()), (8 << 20, 2 << 20));
    assert_eq!(shared.admission_policy(), Some(AdmissionPolicy::AllowAll));
    let dir = std::env::temp_dir().join(format!("esker-cache-text-{}", std::process::id()));
    let text = format!(
        "{{capacity=4M;compressed_secondary_cache={{capacity=1M}};secondary_cache=file_secondary_cache://path={};capacity=8M}}",
        dir.display()
    );
    // Without braces the URI ends at the first semicolon: the capacity then belongs to the cache,
    // and the URI has none.
    assert!(block_cache_from_string(&text).is_err());
    let text = format!(
        "{{capacity=4M;compressed_secondary_cache={{capacity=1M}};secondary_cache={{id=file_secondary_cache;path={};capacity=8M}}}}",
        dir.display()
    );
    let three = cache(&text);
    assert_eq!(three.secondary().unwrap().capacity(), 1 << 20);
    drop(three);
    esker_env::PosixFileSystem::new().delete_file(&dir.join("LOCK")).unwrap();
    esker_env::PosixFileSystem::new().delete_dir(&dir).unwrap();
}

#[test]
fn unknown_and_wrong_values_are_named() {
    for (text, part) in [
        ("64X", "64X"),
        ("capacity=1M;colour=red", "colour"),
        ("{id=round_cache;capacity=1M}", "round_cache"),
        ("capacity=1M;secondary_cache=tape://capacity=1M", "tape"),
        (
            "capacity=1M;secondary_cache=compressed_secondary_cache://compression_type=kXpressCompression",
            "Xpress",
        ),
        (
            "{capacity=1M;compressed_secondary_cache={enable_custom_split_merge=perhaps}}",
            "enable_custom_split_merge",
        ),
        ("capacity=1M;compressed_secondary_ratio=1.5", "1.5"),
        ("capacity=1M;compressed_secondary_ratio=0.5;adm_policy=three_queue", "three_queue"),
        ("capacity=1M;secondary_cache=file_secondary_cache://capacity=1M", "path"),
    ] {
        let error = block_cache_from_string(text).expect_err(text);
        assert!(error.message().contains(part), "{text}: {error}");
    }
}

#[test]
fn it_is_an_option_of_the_table_that_is_read_and_never_written() {
    let base = ColumnFamilyOptions::default();
    let options =
        cf_options_from_string(&base, "block_based_table_factory={block_cache=3M;block_size=8k}").unwrap();
    assert_eq!(options.table.block_cache.as_ref().unwrap().capacity(), 3 << 20);
    assert_eq!(options.table.text_of("block_cache"), None);
}
