use super::check_compression_manager;
use esker_base::ErrorKind;

#[test]
fn tables_of_other_compression_managers_are_refused_by_name() {
    for own in ["", "BuiltinV2;04;", "BuiltinV2;0407;", ";07;"] {
        check_compression_manager(own).unwrap_or_else(|e| panic!("{own}: {e}"));
    }
    for other in ["AcmeManager;8A;", "BuiltinV3;04;", "LZ4"] {
        let error = check_compression_manager(other).expect_err(other);
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{other}");
        assert!(error.message().contains(other), "{error}");
    }
}
