use super::*;

const TABLE: FilterBuildingContext<'_> = FilterBuildingContext {
    format_version: 5,
    level: Some(1),
    is_flush: false,
    reason: TableFileCreationReason::Misc,
    is_bottommost: false,
    compaction_style: CompactionStyle::Level,
    num_levels: None,
    column_family_name: "",
};

fn parsed(text: &str) -> FilterPolicy {
    FilterPolicy::parse(text).unwrap().unwrap()
}

#[test]
fn names_round_trip() {
    for text in
        ["bloomfilter:10:false", "bloomfilter:9.9:false", "ribbonfilter:10:-1", "ribbonfilter:15.125:3"]
    {
        assert_eq!(parsed(text).to_string(), text);
    }
    assert_eq!(parsed(COMPATIBILITY_NAME).to_string(), COMPATIBILITY_NAME);
    for (text, same_as) in [
        ("bloomfilter:10", "bloomfilter:10:false"),
        ("bloomfilter:10:true", "bloomfilter:10:false"),
        ("rocksdb.BloomFilter:10:false", "bloomfilter:10:false"),
        ("rocksdb.RibbonFilter:10", "ribbonfilter:10:0"),
        ("bloomfilter:0.7", "bloomfilter:1:false"),
        ("bloomfilter:0.4", "bloomfilter:0:false"),
        ("bloomfilter:1000", "bloomfilter:100:false"),
        ("bloomfilter:NaN", "bloomfilter:100:false"),
        ("bloomfilter:9.9994", "bloomfilter:9.999:false"),
        ("bloomfilter:9.9995", "bloomfilter:10:false"),
    ] {
        assert_eq!(parsed(text), parsed(same_as), "{text}");
    }
    assert_eq!(FilterPolicy::parse("").unwrap(), None);
    assert_eq!(FilterPolicy::parse("nullptr").unwrap(), None);
}

#[test]
fn bad_names_are_refused() {
    use esker_base::ErrorKind;
    for (text, kind) in [
        ("bloomfilter", ErrorKind::NotSupported),
        ("bloomfilter:10:maybe", ErrorKind::NotSupported),
        ("myfilter:10", ErrorKind::NotSupported),
        ("bloomfilter:ten", ErrorKind::InvalidArgument),
        ("ribbonfilter:10:x", ErrorKind::InvalidArgument),
    ] {
        assert_eq!(FilterPolicy::parse(text).unwrap_err().kind(), kind, "{text}");
    }
}

#[test]
fn the_kind_depends_on_version_and_level() {
    let bloom = FilterKind::FastLocalBloom { millibits_per_key: 10_000 };
    let ribbon = FilterKind::Ribbon { millibits_per_key: 10_000 };
    let flush = FilterBuildingContext { level: Some(0), is_flush: true, ..TABLE };
    let unknown = FilterBuildingContext { level: None, ..TABLE };
    let old = FilterBuildingContext { format_version: 4, ..TABLE };
    let fifo = FilterBuildingContext { compaction_style: CompactionStyle::Fifo, ..flush };
    assert_eq!(parsed("ribbonfilter:10:0").kind_for(&fifo), Some(ribbon), "RocksDB's rule for FIFO");
    assert_eq!(parsed("ribbonfilter:10:2147483647").kind_for(&fifo), Some(bloom));
    assert_eq!(parsed("bloomfilter:10").kind_for(&TABLE), Some(bloom));
    assert_eq!(parsed("bloomfilter:9.5").kind_for(&old), Some(FilterKind::LegacyBloom { bits_per_key: 10 }));
    assert_eq!(parsed("bloomfilter:0.1").kind_for(&TABLE), None);
    assert_eq!(parsed(COMPATIBILITY_NAME).kind_for(&TABLE), None);
    for (policy, at_flush, at_level_1, at_unknown) in [
        ("ribbonfilter:10:-1", ribbon, ribbon, ribbon),
        ("ribbonfilter:10:0", bloom, ribbon, ribbon),
        ("ribbonfilter:10:2", bloom, bloom, ribbon),
        ("ribbonfilter:10:2147483647", bloom, bloom, bloom),
    ] {
        let kinds = [&flush, &TABLE, &unknown].map(|c| parsed(policy).kind_for(c));
        assert_eq!(kinds, [Some(at_flush), Some(at_level_1), Some(at_unknown)], "{policy}");
    }
}

#[test]
fn names_for_tables() {
    assert_eq!(parsed("bloomfilter:10").name(), "bloomfilter");
    assert_eq!(parsed("rocksdb.RibbonFilter:10").name(), "ribbonfilter");
    assert_eq!(parsed(COMPATIBILITY_NAME).name(), COMPATIBILITY_NAME);
}
