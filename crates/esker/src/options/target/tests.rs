use super::*;
use esker_base::comparator::BytewiseComparatorWithU64Ts;
use std::sync::Arc;

#[test]
fn options_that_an_older_rocksdb_cannot_read_are_refused_by_name() {
    use TargetVersion::{V7_8, V8, V10, V11, V11_10};
    let without_timestamps = |f: &mut ColumnFamilyOptions| {
        f.comparator = Arc::new(BytewiseComparatorWithU64Ts);
        f.persist_user_defined_timestamps = false;
    };
    for (name, since, change) in [
        ("format_version=6", V8, (|f| f.table.format_version = 6) as fn(&mut ColumnFamilyOptions)),
        ("format_version=7", V10, |f| f.table.format_version = 7),
        ("separate_key_value_in_data_block", V11, |f| f.table.separate_key_value_in_data_block = true),
        ("persist_user_defined_timestamps=false", V8, without_timestamps),
        ("format_version=8", V11_10, |f| f.table.format_version = 8),
        ("format_version=5", V7_8, |f| f.table.format_version = 5),
        // Without timestamps the option says nothing.
        ("persist_user_defined_timestamps", V7_8, |f| f.persist_user_defined_timestamps = false),
    ] {
        for target in TargetVersion::ALL {
            let mut family = ColumnFamilyOptions::default();
            change(&mut family);
            let db = DbOptions { compatible_with: target, ..DbOptions::default() };
            let error = family.validate_target(&db).err().map(|e| e.message().to_owned());
            assert_eq!(error.is_none(), target >= since, "{name} for {target:?}: {error:?}");
            assert!(error.is_none_or(|e| e.contains(name) && e.contains("compatible_with")));
            family.limit_to(target);
            let left = family.newer_features();
            assert!(left.iter().all(|f| target.reads(*f) || *f == Feature::TimestampsInMemory), "{left:?}");
        }
    }
}

#[test]
fn targets_have_names_and_each_reads_what_the_one_before_reads() {
    for target in TargetVersion::ALL {
        assert_eq!(TargetVersion::from_name(target.name()).unwrap(), target);
        assert_eq!(target.print(), target.name());
    }
    assert_eq!(TargetVersion::from_name("11").unwrap(), TargetVersion::V11);
    assert!(TargetVersion::from_name("6.x").unwrap_err().message().contains("7.8, 8.x"));
    for pair in TargetVersion::ALL.windows(2) {
        assert!(Feature::ALL.into_iter().all(|f| !pair[0].reads(f) || pair[1].reads(f)));
    }
    assert!(
        Feature::ALL.into_iter().all(|f| TargetVersion::V11_10.reads(f) && !TargetVersion::V7_8.reads(f))
    );
    assert!(Feature::ALL.windows(2).all(|f| f[0].since() <= f[1].since()), "oldest first");
}
