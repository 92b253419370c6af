use super::custom_decompressor;
use esker_base::ErrorKind;

#[test]
fn tables_of_other_compression_managers_are_refused_by_name() {
    for own in ["", "BuiltinV2;04;", "BuiltinV2;0407;", ";07;"] {
        let found = custom_decompressor(own, 7, None).unwrap_or_else(|e| panic!("{own}: {e}"));
        assert!(found.is_none());
    }
    for other in ["AcmeManager;8A;", "BuiltinV3;04;", "LZ4"] {
        let error = custom_decompressor(other, 7, None).expect_err(other);
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{other}");
        assert!(error.message().contains(other), "{error}");
    }
}
