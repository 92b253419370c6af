use super::*;

#[test]
fn what_an_older_rocksdb_cannot_read_is_refused_by_its_name() {
    let refused = |target, change: &dyn Fn(&mut ColumnFamilyOptions)| {
        let mut family = ColumnFamilyOptions::default();
        change(&mut family);
        let db = DbOptions { compatible_with: target, ..DbOptions::default() };
        family.validate_target(&db).err().map(|e| e.message().to_owned())
    };
    use TargetVersion::{V7_8, V8, V9, V10, V11};
    for (name, since, change) in [
        ("format_version=6", V8, (|f| f.table.format_version = 6) as fn(&mut ColumnFamilyOptions)),
        ("format_version=7", V10, |f| f.table.format_version = 7),
        ("separate_key_value_in_data_block", V11, |f| f.table.separate_key_value_in_data_block = true),
        ("format_version=5", V7_8, |f| f.table.format_version = 5),
    ] {
        for target in [V7_8, V8, V9, V10, V11] {
            let error = refused(target, &change);
            assert_eq!(error.is_none(), target >= since, "{name} for {target:?}: {error:?}");
            assert!(error.is_none_or(|e| e.contains(name) && e.contains("compatible_with")));
        }
    }
}
